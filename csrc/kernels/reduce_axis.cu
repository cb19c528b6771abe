// reduce_axis.cu: reductions along an axis: outer x reduced x inner elements become outer x inner
// results, from arrays of every shape and layout. Knows no device and no host code.
//
// Any axes of any layout take this form once adjacent axes are merged; a strided array may leave
// several outer and inner axes. A reduction of one element per result is a copy: it makes an array
// contiguous, or converts it. ops_reduce_axis.c chooses the shape of the work. If few results would
// leave most of the GPU idle, it splits the reduced axis, and the last block of each result
// combines the partial results, or a second pass of the same kernel does. The tree depends only on
// sizes. An H200 at 4,600 GB/s has time for 100 instructions of a thread per 16 bytes;
// axis_lanes.cuh and axis_rows.cuh contain them.

// (operation, elements, accumulator, kernel, kind of elements). Few kernels serve many operations:
// `key` maps one order of elements to another (a maximum is a minimum of complements; an unsigned
// element with its top bit flipped compares as a signed one; `and` is `or` of complements; a count
// that ignores the sign bit counts -0.0 as 0), and a kernel serves several kinds (axis_kind), whose
// loops alone differ. `bits` is `or`, or with mask 0 `xor`; any, all and the sums of bool are
// counts.
#define REDUCE_AXIS_SIGNATURES(SIGNATURE)                     \
    SIGNATURE(sum, int8, int64, sum_int8, INTEGERS)           \
    SIGNATURE(sum, int16, int64, sum_int16, INTEGERS)         \
    SIGNATURE(sum, int32, int64, sum_int32, INTEGERS)         \
    SIGNATURE(sum, int64, int64, sum_int64, INTEGERS)         \
    SIGNATURE(sum, int64, float64, sum_float64, INTEGERS)     \
    SIGNATURE(sum, float16, float64, sum_float16, HALVES)     \
    SIGNATURE(sum, bfloat16, float64, sum_float16, BFLOATS)   \
    SIGNATURE(sum, float32, float64, sum_float32, FLOATS)     \
    SIGNATURE(sum, float64, float64, sum_float64, FLOATS)     \
    SIGNATURE(prod, int64, int64, sum_int64, PRODUCTS)        \
    SIGNATURE(prod, float32, float64, sum_float32, PRODUCTS)  \
    SIGNATURE(prod, float64, float64, sum_float64, PRODUCTS)  \
    SIGNATURE(min, int8, int8, least_int8, INTEGERS)          \
    SIGNATURE(min, int16, int16, least_int16, INTEGERS)       \
    SIGNATURE(min, int32, int32, least_int32, INTEGERS)       \
    SIGNATURE(min, int64, int64, least_int64, INTEGERS)       \
    SIGNATURE(min, float16, float32, least_int16, HALVES)     \
    SIGNATURE(min, bfloat16, float32, least_int16, BFLOATS)   \
    SIGNATURE(min, float32, float32, least_int32, FLOATS)     \
    SIGNATURE(min, float64, float64, least_int64, FLOATS)     \
    SIGNATURE(bits, int8, int8, least_int8, BITS)             \
    SIGNATURE(bits, int16, int16, least_int16, BITS)          \
    SIGNATURE(bits, int32, int32, least_int32, BITS)          \
    SIGNATURE(bits, int64, int64, least_int64, BITS)          \
    SIGNATURE(count, int8, int64, sum_int8, TRUTHS)           \
    SIGNATURE(count, int16, int64, sum_int16, TRUTHS)         \
    SIGNATURE(count, int32, int64, sum_int32, TRUTHS)         \
    SIGNATURE(count, int64, int64, sum_int64, TRUTHS)         \
    SIGNATURE(argmin, int8, int64, argmin_int8, INTEGERS)     \
    SIGNATURE(argmin, int16, int64, argmin_int16, INTEGERS)   \
    SIGNATURE(argmin, int32, int64, argmin_int32, INTEGERS)   \
    SIGNATURE(argmin, int64, int64, argmin_int64, INTEGERS)   \
    SIGNATURE(argmin, float16, int64, argmin_int16, HALVES)   \
    SIGNATURE(argmin, bfloat16, int64, argmin_int16, BFLOATS) \
    SIGNATURE(argmin, float32, int64, argmin_int32, FLOATS)   \
    SIGNATURE(argmin, float64, int64, argmin_int64, FLOATS)

#ifdef GPUOPT_RUNGS
// clang-format off
RUNG(1, "shapes", "reduce_axis",
     "rows by lanes, a warp or a block; columns by vectors; small slabs through shared memory",
     "after the decks", 256, 256, 256, 0, RUNG_BEST | RUNG_OVERLAPS, 0)
// clang-format on
#else

#include "axis/axis_gather.cuh"
#include "axis/axis_short_rows.cuh"

namespace axis {

// Accumulates this thread's vectors in `mine`: `step` bytes apart, every apart-th of `left`.
// AT_ONCE of them are in flight before the first is waited for, also in the last round, where
// missing vectors are identities; half as many if they are shifted, as each is read from two.
template <unsigned AT_ONCE, class Op, class In, class Mine, class Step, class Items>
__device__ void add_vectors(const Op &op, Mine &mine, const In *first, Step step, int left,
                            unsigned apart, bool streamed, const Items &which,
                            uint32_t position = 0, bool shifted = false) {
    constexpr unsigned FEW = AT_ONCE > 4 ? AT_ONCE / 2 : AT_ONCE;
    const unsigned char *at = reinterpret_cast<const unsigned char *>(first);
    const auto from = [&](unsigned k) {
        return reinterpret_cast<const uint4 *>(at + int64(step) * k);
    };
    const auto is_there = [&](unsigned k) { return left > int(k * apart); };
    const uint4 absent = neutral_items<In>(op).vector();
    const unsigned vectors = shifted ? AT_ONCE / 2 : AT_ONCE;
#pragma unroll 1
    for (; left > 0; position += vectors) {
        vec<In> loaded[AT_ONCE];
        if constexpr (sizeof step == 4) // multiples are recomputed as cheaply as kept
            step = opaque_copy(step);
        if (shifted)
            load_shifted(loaded, absent, is_there, from);
        else if (left > int((AT_ONCE - 1) * apart))
            load_every(loaded, streamed, from);
        else if (FEW == AT_ONCE || left > int(FEW * apart))
            load_some(loaded, streamed, absent, is_there, from);
        else { // half the loads, for columns of a few rows
            vec<In> few[FEW];
            load_some(few, streamed, absent, is_there, from);
#pragma unroll
            for (unsigned k = 0; k < AT_ONCE; k++)
                loaded[k].words = k < FEW ? few[k].words : absent;
        }
        which.pick(loaded);
        const int some = int(vectors * apart);
        mine.template add<false>(op, loaded, position, apart, unsigned(left < some ? left : some));
        at += int64(step) * vectors;
        left -= some;
    }
}
// Line `number`: a row, or a chunk of one; `every` is the step between its elements.
template <class In>
__device__ line<In> line_of(const In *in, const work &w, uint64 number, unsigned every) {
    const uint64 o = w.splits == 1 ? number : number / w.splits;
    const uint64 begin = w.splits == 1 ? 0 : (number - o * w.splits) * w.chunk;
    const uint64 n = w.reduced - begin < w.chunk ? w.reduced - begin : w.chunk;
    const uint64 first = begin * every;
    const In *items = in + w.outer_axes.offset(o) + first;
    const unsigned span = unsigned((n - 1) * every + 1),
                   off = unsigned(reinterpret_cast<uint64>(items) % 16 / sizeof(In)),
                   to_boundary = off ? vec<In>::count - off : 0,
                   before = span < to_boundary ? span : to_boundary;
    return {items, first, before, span - (span - before) % vec<In>::count, span, every};
}

// `group` threads, or the block, reduce a row, or a chunk of one, by vectors along the row. If
// every stride-th element counts, a thread finds them at the same lanes of all its vectors.
template <class Op, class In>
__device__ void rows(const Op &op, const In *in, void *out, const work &w) {
    using Row = row_of<Op, In>;
    using Part = typename Row::Part;
    using Items = typename chosen<may_be_strided<Op, In>, strided_items<In>, every_item<In>>::type;
    constexpr unsigned AT_ONCE = has_index<Op> && sizeof(In) == 8 ? 4 : 8, count = vec<In>::count;
    const bool strided = may_be_strided<Op, In> && w.shape == AXIS_STRIDED;
    const unsigned side = unsigned(w.group), x = threadIdx.x & (side - 1), shift = log2_of(side),
                   apart = strided ? unsigned(w.tiles) : side,
                   every = strided ? unsigned(w.stride) : 1;
    const auto number_of = [&](unsigned block) {
        return uint64(block) * (BLOCK >> shift) + (threadIdx.x >> shift);
    };
    // Distance of an element from the previous one that counts; `wide` is 1 / stride in 2^-20,
    // exact within a block.
    const auto behind = [&](unsigned item) {
        return strided ? item - (item * unsigned(w.wide) >> 20) * every : 0;
    };
    const uint64 lines = w.outer * w.splits;
    Part part = Row::nothing(op);
    if (const uint64 number = number_of(blockIdx.x); number < lines) {
        const line<In> row = line_of(in, w, number, every);
        const unsigned first = row.before + x * count;
        const int left = x < apart ? int((row.tail - row.before) / count - x) : 0;
        const Items which(op, every, behind(first));
        if (left > 0 && which.any()) {
            along<Op, In> mine(op);
            add_vectors<AT_ONCE>(op, mine, row.items + first, apart * 16, left, apart, w.streamed,
                                 which);
            part = mine.folded(op, {int64(first), int64(apart * count)});
        }
    }
    const uint64 number = number_of(opaque_copy(blockIdx.x));
    const bool there = number < lines;
    const line<In> row = line_of(in, w, there ? number : 0, every);
    const unsigned end = row.tail + x;
    const bool is_before = there && x < row.before && behind(x) == 0,
               is_behind = there && end < row.span && (!strided || end % every == 0);
    In items[2] = {};
    if (is_before)
        items[0] = row.items[x];
    if (is_behind)
        items[1] = row.items[end];
    Row::by_order(op, [&](const auto &one) {
        const auto join = [&](Part a, Part b) { return Row::join(one, a, b); };
        if (is_before)
            part = join(part, Row::single(op, items[0], x));
        if (is_behind)
            part = join(part, Row::single(op, items[1], end));
        part = side == BLOCK ? block_tree(shared_memory<Part>(), part, Row::nothing(op), join)
                             : group_tree(part, side, join);
    });
    if (x == 0 && there) {
        const auto value = Row::whole(op, part, row);
        store_result(op, w, out, number, value);
    }
    const unsigned splits = unsigned(w.splits);
    const uint64 o = blockIdx.x / splits; // if a block has one chunk
    if (!w.tickets || !ends_last(w.tickets + o, splits))
        return;
    const auto value = block_value(op, join_chunks<1>(op, w, o * splits, 1, threadIdx.x, BLOCK));
    if (threadIdx.x == 0)
        storing<Op>::store(op, w, out, o, value);
}

// Reduces a block's results, each of `parts` parts: get(result, helper, helpers) joins every
// helpers-th part from `helper` on, put(result, value) stores. If results are few, several threads
// take parts of each.
template <class Op, class Get, class Put>
__device__ void combine_parts(const Op &op, unsigned results, unsigned parts, const Get &get,
                              const Put &put) {
    using Acc = typename Op::Acc;
    unsigned helpers = 1;
    while (2 * helpers <= parts && 2 * helpers * results <= BLOCK)
        helpers *= 2;
    Acc *sums = shared_memory<Acc>();
    const unsigned at_once = helpers == 1 ? BLOCK : results,
                   helper = helpers == 1 ? 0 : threadIdx.x / results;
#pragma unroll 1
    for (unsigned base = 0; base < results; base += at_once) { // once, if there are helpers
        const unsigned result = base + threadIdx.x - helper * results;
        const bool there = helper < helpers && result < results;
        Acc value = op.identity();
        if (there)
            value = get(result, helper, helpers);
        if (helpers > 1) {
            __syncthreads(); // the parts may share memory with the sums
            if (there)
                sums[threadIdx.x] = value;
            value = strided_value(op, sums, value, helper, helpers, results);
        }
        if (there && helper == 0)
            put(result, value);
    }
}

// Stores results of outer index o from inner index `begin` on: their chunks' partial results are
// joined by the last block. Not inlined, as two shapes do so at their ends.
template <class Op>
__device__ __noinline__ void join_results(settings s, void *out, void *partials,
                                          int64 *partial_index, uint64 finish, float64 divisor,
                                          unsigned splits, uint64 inner, uint64 o, uint64 begin,
                                          unsigned results) {
    const Op op = {{s}};
    work w = {};
    w.partials = partials;
    w.partial_index = partial_index;
    w.finish = finish;
    w.divisor = divisor;
    w.splits = splits;
    const uint64 chunks = o * splits * inner + begin;
    combine_parts(
        op, results, splits,
        [&](unsigned result, unsigned part, unsigned apart) {
            return join_chunks<8>(op, w, chunks + result, inner, part, apart);
        },
        [&](unsigned result, typename Op::Acc value) {
            storing<Op>::store(op, w, out, o * inner + begin + result, value);
        });
}

// The same by the last block of these results, if blocks count them on ticket `number`.
template <class Op>
__device__ void join_by_last(const work &w, void *out, uint64 number, uint64 o, uint64 begin,
                             unsigned results) {
    const unsigned splits = unsigned(w.splits);
    if (w.tickets && ends_last(w.tickets + number, splits))
        join_results<Op>(w.s, out, w.partials, w.partial_index, w.finish, w.divisor, splits,
                         w.inner, o, begin, results);
}

// A slab of `narrow`, or a chunk of one, from row `first` on: whole vectors lie between its first
// `before` elements and the last, which begin at `tail`.
template <class In> struct slab_of {
    const In *items;
    uint64 first;
    unsigned size, before, vectors, tail;
    __device__ slab_of(const In *in, const work &w, uint64 number) {
        constexpr unsigned count = vec<In>::count;
        const uint64 o = w.splits == 1 ? number : quotient(number, w.splits);
        first = (number - o * w.splits) * w.chunk;
        items = in + (o * w.reduced + first) * w.inner;
        const uint64 rest = w.reduced - first;
        size = unsigned(rest < w.chunk ? rest : w.chunk) * unsigned(w.inner);
        before = -unsigned(reinterpret_cast<uint64>(items) / sizeof(In)) % count;
        vectors = (size - before) / count;
        tail = before + vectors * count;
    }
};

// Contiguous slabs of few inner elements: `group` threads take a slab; their number makes each
// thread's vectors hold the same inner elements. Then `helpers` lanes join the parts of a result:
// part k belongs to inner element i + k * inner of those that the threads read at once.
template <class Op, class In>
__device__ void narrow(const Op &op, const In *in, void *out, const work &w) {
    using Mine = lanes<Op, In, vec<In>::count>;
    using Part = typename Mine::Part;
    constexpr unsigned count = vec<In>::count;
    constexpr unsigned ROW = BLOCK + 1; // lanes that read parts of several results: other banks
    const unsigned side = unsigned(w.group), inner = unsigned(w.inner), slabs = BLOCK / side;
    const unsigned reciprocal = (0xffff + side) / side; // in 2^-16: exact for indices up to BLOCK
    const unsigned own = threadIdx.x * reciprocal >> 16, x = threadIdx.x - own * side;
    const uint64 first = uint64(blockIdx.x) * slabs, end = w.outer * w.splits;
    Mine mine(op);
    if (own < slabs && first + own < end) {
        const slab_of<In> slab(in, w, first + own);
        add_vectors<4>(op, mine, slab.items + slab.before + x * count, side * 16,
                       int(slab.vectors - x), side, w.streamed, every_item<In>());
    }
    Part *shared = shared_memory<Part>();
#pragma unroll
    for (unsigned i = 0; i < count; i++)
        shared[i * ROW + threadIdx.x] = mine.part(i);
    __syncthreads();
    const unsigned results = slabs * inner, parts = side * count / inner;
    unsigned helpers = 1;
    while (2 * helpers <= parts && 2 * helpers * results <= BLOCK && helpers < 32)
        helpers *= 2;
    const unsigned lane = threadIdx.x & (helpers - 1), shift = log2_of(helpers);
#pragma unroll 1
    for (unsigned base = 0; base < results; base += BLOCK >> shift) {
        const unsigned result = base + (threadIdx.x >> shift), number = result / inner,
                       i = result - number * inner;
        const bool there = number < slabs && first + number < end;
        typename Op::Acc value = op.identity();
        if (there) {
            const slab_of<In> slab(in, w, first + number);
            // Every helpers-th element of this result before element `end`.
            const auto add_alone = [&](unsigned at, unsigned end) {
#pragma unroll 1
                for (at += lane * inner; at < end; at += helpers * inner)
                    value = op.apply(value, op.load(slab.items[at], slab.first + at / inner));
            };
            const auto next = [&](unsigned at) { return at + (inner - at % inner + i) % inner; };
            const unsigned begin = slab.before ? next(slab.before) : i;
            const uint64 row = slab.first + (slab.before ? begin / inner : 0);
#pragma unroll 1
            for (unsigned k = lane; k < parts; k += helpers) {
                const unsigned item = begin - slab.before + k * inner;
                const Part part = shared[item % count * ROW + number * side + item / count];
                value = op.apply(value, Mine::whole(op, part, {int64(row + k), int64(parts)}));
            }
            if (slab.before)
                add_alone(i, slab.before);
            if (slab.tail < slab.size)
                add_alone(next(slab.tail), slab.size);
        }
        value = group_value(op, value, helpers);
        if (lane == 0 && there)
            store_result(op, w, out, first * inner + result, value);
    }
    const uint64 o = blockIdx.x / unsigned(w.splits); // if a block has one chunk
    join_by_last<Op>(w, out, o, o, 0, inner);
}

// As add_vectors, for columns whose first and last vectors may lie partly outside the array, from
// `begin` to `end`.
template <unsigned AT_ONCE, class Op, class In, class Mine>
__device__ void add_unaligned(const Op &op, Mine &mine, const In *at, int64 step, int left,
                              unsigned apart, bool streamed, uint64 begin, uint64 end,
                              bool shifted) {
    const uint64 address = reinterpret_cast<uint64>(at);
    const int rows = (left + int(apart) - 1) / int(apart);
    uint64 low = address,
           high = address + uint64((rows - 1) * step) + 16; // bounds of the bytes that it loads
    if (shifted)
        low = low / 16 * 16, high = (high + 15) / 16 * 16;
    const bool from_before = rows > 0 && low < begin;
    const bool to_behind = rows > int(from_before) && high > end;
    const auto add_part = [&](int row) {
        const auto *from = reinterpret_cast<const In *>(address + uint64(row * step));
        const vec<In> one[1] = {part_of_vector(from, begin, end)};
        mine.template add<true>(op, one, uint32_t(row), 1, 1);
    };
#pragma unroll 1
    for (int turn = 0; turn < 3; turn++) // in the order of the rows
        if (turn == 1)
            add_vectors<AT_ONCE>(op, mine,
                                 reinterpret_cast<const In *>(address + uint64(from_before * step)),
                                 step, left - int(from_before + to_behind) * int(apart), apart,
                                 streamed, every_item<In>(), uint32_t(from_before), shifted);
        else if (turn ? to_behind : from_before)
            add_part(turn ? rows - 1 : 0);
}

// Stores a thread's columns, if it is there; false where storing::store_all() does not apply.
template <class In, class Op, class Mine>
__device__ bool store_lanes(const Op &op, const Mine &mine, const work &w, void *out, uint64 at,
                            int64 first, bool there) {
    if constexpr (has_raw_words<Op, In>) {
        if (there)
            *reinterpret_cast<uint4 *>(static_cast<In *>(out) + at) = mine.raw_words(op);
        return true;
    } else {
        constexpr unsigned COUNT = vec<In>::count;
        typename Op::Acc results[COUNT];
#pragma unroll
        for (unsigned i = 0; i < COUNT; i++)
            results[i] = Mine::whole(op, mine.part(i), {first, 1});
        return storing<Op>::store_all(op, w, out, at, results, there);
    }
}

// `wide` threads stand side by side, each on a vector of columns; the block's other threads are on
// the next rows of the same columns. At the end all threads take results, so that adjacent threads
// store adjacent ones. Rows may begin anywhere: a row's vectors then begin up to a vector before
// the block's first column, `phase_of` elements, which is the same for all rows of a thread.
// Columns may be `every` elements apart; those between them are ignored at the end. Else, for few
// rows (AXIS_SHIFTED), a thread shifts its vectors so that they begin at its columns.
template <class Op, class In>
__device__ void columns(const Op &op, const In *in, void *out, const work &w) {
    using Acc = typename Op::Acc;
    constexpr unsigned COUNT = vec<In>::count;
    using Mine = lanes<Op, In, COUNT>;
    using Part = typename Mine::Part;
    const unsigned wide = unsigned(w.wide), tiles = unsigned(w.tiles), splits = unsigned(w.splits);
    const unsigned reciprocal = (0xffff + wide) / wide; // in 2^-16: exact for indices up to BLOCK
    const unsigned high = BLOCK * reciprocal >> 16, y = threadIdx.x * reciprocal >> 16,
                   x = threadIdx.x - y * wide;
    const unsigned above = blockIdx.x < tiles ? 0 : blockIdx.x / tiles,
                   tile = blockIdx.x - above * tiles;
    const unsigned o = splits == 1 ? above : above / splits, split = above - o * splits;
    const bool shifted = sizeof(In) <= AXIS_SHIFTED_ITEM && w.shape == AXIS_SHIFTED,
               aligned = w.shape == AXIS_VECTORS || shifted;
    const unsigned every = aligned ? 1 : unsigned(w.inner_axes.stride);
    const uint64 begin = uint64(tile) * w.group, rest = w.inner - begin, first = split * w.chunk,
                 n = w.reduced - first < w.chunk ? w.reduced - first : w.chunk;
    const unsigned results = unsigned(rest < w.group ? rest : w.group);
    const In *rows = in + w.outer_axes.offset(o) + int64(first) * w.stride;
    const unsigned phase =
        aligned ? 0 : unsigned(reinterpret_cast<uint64>(rows + begin * every) / sizeof(In));
    const auto phase_of = [&](unsigned row) { return (phase + row * unsigned(w.stride)) % COUNT; };
    const int64 column = int64(begin * every + x * COUNT) - (aligned ? 0 : phase_of(y));
    const int left = y < high && column < int64((begin + results) * every) ? int(n) - int(y) : 0;
    int64 from = int64(y) * w.stride;
    if (left > 0)
        from += aligned ? w.inner_axes.offset(column) : column;
    Part *shared = shared_memory<Part>();
    static_assert(sizeof(Part) * COUNT <= AXIS_VECTOR_SHARED, "shared memory");
    // A rotation by some columns each: the lanes of a warp then read without bank conflicts.
    const unsigned turn = wide >= 32 ? 32 / COUNT : 0;
    const auto slot_of = [&](unsigned y, unsigned x, unsigned i) {
        const unsigned at = x + i * turn;
        return (y * COUNT + i) * wide + (at < wide ? at : at - wide);
    };
    // Whether a thread has all of its columns, and can store vectors.
    const bool whole_vectors = high == 1 && aligned && !w.partials && results % COUNT == 0 &&
                               (o == 0 || w.inner % COUNT == 0) &&
                               reinterpret_cast<uint64>(out) % 16 == 0;
    Mine mine(op);
    const int64 bytes = high * w.stride * int64(sizeof(In));
    constexpr bool few = sizeof(In) <= 4 && sizeof(Mine) <= (has_index<Op> ? 32 : 16); // registers
    uint64 lowest = 0, highest = ~uint64(0);
    if (!aligned || shifted) {
        const int64 end = w.outer_axes.offset(w.outer - 1) + int64(w.reduced - 1) * w.stride +
                          int64((w.inner - 1) * every) + 1;
        lowest = reinterpret_cast<uint64>(in);
        highest = reinterpret_cast<uint64>(in + end);
    }
    add_unaligned<few ? 8 : 4>(op, mine, rows + from, bytes, left, high, w.streamed, lowest,
                               highest, shifted);
    if (whole_vectors &&
        store_lanes<In>(op, mine, w, out, above * w.inner + column, int64(first), left > 0))
        return; // the whole block
    if (y < high)
#pragma unroll
        for (unsigned i = 0; i < COUNT; i++)
            shared[slot_of(y, x, i)] = mine.part(i);
    __syncthreads();
    if constexpr (COUNT > 2 && storing<Op>::WIDE)
        if (whole_vectors && storing<Op>::stores_words(w)) { // nothing to join
#pragma unroll 2
            for (unsigned r = 2 * threadIdx.x; r < results; r += 2 * BLOCK) {
                Acc two[2];
#pragma unroll
                for (unsigned i = 0; i < 2; i++)
                    two[i] = Mine::whole(op, shared[slot_of(0, r / COUNT, r % COUNT + i)],
                                         {int64(first), 1});
                storing<Op>::store_all(op, w, out, above * w.inner + begin + r, two, true);
            }
            return;
        }
    const unsigned parts = n < high ? unsigned(n) : high;
    op.by_order([&](const auto &one) {
        const auto load = [&](unsigned result, unsigned part) {
            const unsigned at = result * every + (aligned ? 0 : phase_of(part));
            return Mine::whole(op, shared[slot_of(part, at / COUNT, at % COUNT)],
                               {int64(first + part), int64(high)});
        };
        const auto join_rows = [&](unsigned result, unsigned part, unsigned apart) {
            Acc value = load(result, part);
#pragma unroll 1
            for (part += apart; part < parts; part += apart)
                value = one.apply(value, load(result, part));
            return value;
        };
        combine_parts(one, results, parts, join_rows, [&](unsigned result, Acc value) {
            store_result(op, w, out, above * w.inner + begin + result, value);
        });
    });
    join_by_last<Op>(w, out, uint64(o) * tiles + tile, o, begin, results);
}

template <class Op, class In> __device__ void reduce_axis(const In *in, void *out, const work &w) {
    const Op op = {{w.s}};
    switch (w.shape) {
    case AXIS_STAGED:
        staged(op, in, out, w);
        break;
    case AXIS_GROUPS:
        groups(op, in, out, w);
        break;
    case AXIS_WORDS:
        if (w.wide == 1)
            words<uint8_t>(op, in, out, w);
        else if (w.wide == 2)
            words<uint16_t>(op, in, out, w);
        else if (w.wide == 4)
            words<uint32_t>(op, in, out, w);
        else
            words<uint64>(op, in, out, w);
        break;
    case AXIS_TRIPLES:
        triples(op, in, out, w);
        break;
    case AXIS_NARROW:
        narrow(op, in, out, w);
        break;
    case AXIS_ROWS:
    case AXIS_STRIDED:
        rows(op, in, out, w);
        break;
    case AXIS_VECTORS:
    case AXIS_UNALIGNED:
    case AXIS_SHIFTED:
        columns(op, in, out, w);
        break;
    case AXIS_GATHER:
    default:
        if (w.wide == 1)
            gather<1>(op, in, out, w);
        else
            gather<AXIS_SIDE(sizeof(In))>(op, in, out, w);
    }
}

// --- the kernels: reduce_axis_<operation>_<elements>

#define AXES(side)                                                                               \
    int64 side##_stride, uint64 side##_period_0, uint64 side##_period_1, uint64 side##_period_2, \
        int64 side##_stride_1, int64 side##_stride_2, int64 side##_stride_3
#define AXES_OF(side)                                                         \
    {                                                                         \
        side##_stride, {side##_period_0, side##_period_1, side##_period_2}, { \
            side##_stride_1, side##_stride_2, side##_stride_3                 \
        }                                                                     \
    }
#define KERNEL_AXIS(name, op, In)                                                                \
    extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS) reduce_axis_##name(              \
        const In *items, void *results, void *partials, int64 *partial_index,                    \
        const int64 *in_index, unsigned *tickets, uint64 outer, uint64 reduced, uint64 inner,    \
        int64 stride, AXES(outer), AXES(inner), int64 key, int64 mask, uint64 finish,            \
        float64 divisor, uint64 division, int64 jump, uint64 shape, uint64 splits, uint64 chunk, \
        uint64 wide, uint64 group, uint64 tiles, uint64 streamed, uint64 kind) {                 \
        wait_for_kernel_before();                                                                \
        const work w = {partials,                                                                \
                        partial_index,                                                           \
                        in_index,                                                                \
                        tickets,                                                                 \
                        outer,                                                                   \
                        reduced,                                                                 \
                        inner,                                                                   \
                        stride,                                                                  \
                        AXES_OF(outer),                                                          \
                        AXES_OF(inner),                                                          \
                        {key, mask, unsigned(kind)},                                             \
                        finish,                                                                  \
                        divisor,                                                                 \
                        division,                                                                \
                        jump,                                                                    \
                        shape,                                                                   \
                        splits,                                                                  \
                        chunk,                                                                   \
                        wide,                                                                    \
                        group,                                                                   \
                        tiles,                                                                   \
                        streamed != 0};                                                          \
        reduce_axis<op<In>>(items, results, w);                                                  \
    }
KERNEL_AXIS(sum_int8, op_sum, int8_t)
KERNEL_AXIS(sum_int16, op_sum, int16_t)
KERNEL_AXIS(sum_int32, op_sum, int32)
KERNEL_AXIS(sum_int64, op_sum, int64)
KERNEL_AXIS(sum_float16, op_float_sum, int16_t)
KERNEL_AXIS(sum_float32, op_float_sum, float32)
KERNEL_AXIS(sum_float64, op_float_sum, int64)
KERNEL_AXIS(least_int8, op_least, int8_t)
KERNEL_AXIS(least_int16, op_least, int16_t)
KERNEL_AXIS(least_int32, op_least, int32)
KERNEL_AXIS(least_int64, op_least, int64)
KERNEL_AXIS(argmin_int8, op_argmin, int8_t)
KERNEL_AXIS(argmin_int16, op_argmin, int16_t)
KERNEL_AXIS(argmin_int32, op_argmin, int32)
KERNEL_AXIS(argmin_int64, op_argmin, int64)

} // namespace axis

#endif

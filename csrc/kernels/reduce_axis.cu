// reduce_axis.cu: reductions along an axis: outer x reduced x inner elements become outer x inner
// results, from arrays of every shape and layout. Knows no device and no host code.
//
// Any axes of any layout take this form once adjacent axes are merged; a strided array may leave
// several outer and inner axes. A reduction of one element per result is a copy: it makes an array
// contiguous, or converts it. ops_reduce_axis.c chooses the shape of the work. If few results would
// leave most of the GPU idle, it splits the reduced axis, and the last block of each result
// combines the partial results. The tree depends only on sizes. An H200 at 4,600 GB/s has time for
// 100 instructions of a thread per 16 bytes; axis_lanes.cuh contains them.

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
#include "axis/axis_staged.cuh"

namespace axis {

// Accumulates this thread's vectors in `mine`: `step` bytes apart, every apart-th of `left`.
// AT_ONCE of them are in flight before the first is waited for, also in the last round, where
// missing vectors are identities.
template <unsigned AT_ONCE = 4, class Op, class In, class Mine, class Step>
__device__ void add_vectors(const Op &op, Mine &mine, const In *first, Step step, int left,
                            unsigned apart, uint32_t position = 0) {
    const unsigned char *at = reinterpret_cast<const unsigned char *>(first);
    const auto from = [&](unsigned k) {
        return reinterpret_cast<const uint4 *>(at + int64(step) * k);
    };
    const auto is_there = [&](unsigned k) { return left > int(k * apart); };
    const uint4 absent = neutral_vector<In>(op);
#pragma unroll 1
    for (; left > 0; position += AT_ONCE) {
        vec<In> loaded[AT_ONCE];
        if constexpr (sizeof step == 4) // multiples are recomputed as cheaply as kept
            step = opaque_copy(step);
        if (left > int((AT_ONCE - 1) * apart))
#pragma unroll
            for (unsigned k = 0; k < AT_ONCE; k++)
                loaded[k].words = *from(k);
        else
            load_some(loaded, absent, is_there, from);
        const int some = int(AT_ONCE * apart);
        mine.add(op, loaded, position, apart, unsigned(left < some ? left : some));
        at += int64(step) * AT_ONCE;
        left -= some;
    }
}

// Elements of a row, of a slab, or of a chunk of one. Whole vectors lie between the first `before`
// elements and the last, which begin at `tail`.
template <class In> struct line {
    const In *items;
    uint64 number; // reduced index of the first element
    unsigned before, tail, span;
};
// Line `number`, whose reduced elements are `step` apart.
template <class In>
__device__ line<In> line_of(const In *in, const work &w, uint64 number, unsigned step) {
    const uint64 o = w.splits == 1 ? number : quotient(number, w.splits);
    const uint64 begin = (number - o * w.splits) * w.chunk;
    const uint64 n = w.reduced - begin < w.chunk ? w.reduced - begin : w.chunk;
    const In *items = in + offset_in(w.outer_axes, o) + begin * step;
    const unsigned span = unsigned(n - 1) * step + unsigned(w.inner),
                   off = unsigned(reinterpret_cast<uint64>(items) % 16 / sizeof(In)),
                   to_boundary = off ? vec<In>::count - off : 0,
                   before = span < to_boundary ? span : to_boundary;
    return {items, begin, before, span - (span - before) % vec<In>::count, span};
}

// `group` threads, or the block, reduce a row, or a chunk of one, by vectors along the row.
template <class Op, class In>
__device__ void rows(const Op &op, const In *in, void *out, const work &w) {
    constexpr unsigned count = vec<In>::count;
    const unsigned side = unsigned(w.group), x = threadIdx.x & (side - 1), shift = log2_of(side),
                   o = blockIdx.x / unsigned(w.splits); // if a block has one chunk
    const uint64 number = uint64(blockIdx.x) * (BLOCK >> shift) + (threadIdx.x >> shift);
    const bool there = number < w.outer * w.splits;
    const line<In> row = line_of(in, w, there ? number : 0, 1);
    const unsigned first = row.before + x * count;
    const int left = there ? int((row.tail - row.before) / count - x) : 0;
    typename Op::Acc value = op.identity();
    if (left > 0) {
        along<Op, In> mine(op);
        constexpr unsigned AT_ONCE = sizeof mine <= 32 ? 8 : 4; // registers
        add_vectors<AT_ONCE>(op, mine, row.items + first, side * 16, left, side);
        value = mine.folded(op, {int64(row.number + first), int64(side * count)});
    }
    if (there && x < row.before)
        value = op.apply(value, op.load(row.items[x], int64(row.number + x)));
    if (const unsigned end = row.tail + x; there && end < row.span)
        value = op.apply(value, op.load(row.items[end], int64(row.number + end)));
    value = side == BLOCK ? block_value(op, value) : group_value(op, value, side);
    if (x == 0 && there)
        store_result(op, w, out, number, value);
    join_by_last<Op>(w, out, o, 1, o, 0, 1);
}

// Slabs of few inner elements, the next ones `wide` elements on: a block takes a slab, or a chunk
// of one, with the gaps; the number of its threads that do, `group`, makes each thread's vectors
// hold the same inner elements. Part k belongs to element i + k * wide of those that the threads
// read at once.
template <class Op, class In>
__device__ void narrow(const Op &op, const In *in, void *out, const work &w) {
    using Mine = lanes<Op, In, vec<In>::count>;
    using Part = typename Mine::Part;
    constexpr unsigned count = vec<In>::count;
    constexpr unsigned ROW = BLOCK + 1; // lanes that read parts of several results: other banks
    const unsigned side = unsigned(w.group), wide = unsigned(w.wide), parts = side * count / wide,
                   inner = unsigned(w.inner), x = threadIdx.x, o = blockIdx.x / unsigned(w.splits);
    const line<In> slab = line_of(in, w, blockIdx.x, wide);
    Mine mine(op);
    if (x < side)
        add_vectors(op, mine, slab.items + slab.before + x * count, side * 16,
                    int((slab.tail - slab.before) / count - x), side);
    Part *shared = shared_memory<Part>();
#pragma unroll
    for (unsigned i = 0; i < count; i++)
        shared[i * ROW + x] = mine.part(i);
    __syncthreads();
    const auto join_slab = [&](unsigned i, unsigned lane, unsigned lanes) {
        typename Op::Acc value = op.identity();
        // Every lanes-th element of this result before element `end`.
        const auto add_alone = [&](unsigned at, unsigned end) {
#pragma unroll 1
            for (at += lane * wide; at < end; at += lanes * wide)
                value = op.apply(value, op.load(slab.items[at], slab.number + at / wide));
        };
        const auto next = [&](unsigned at) { return at + (wide - at % wide + i) % wide; };
        const unsigned begin = slab.before ? next(slab.before) : i;
        const uint64 row = slab.number + (slab.before ? begin / wide : 0);
#pragma unroll 1
        for (unsigned k = lane; k < parts; k += lanes) {
            const unsigned item = begin - slab.before + k * wide;
            const Part part = shared[item % count * ROW + item / count];
            value = op.apply(value, Mine::whole(op, part, {int64(row + k), int64(parts)}));
        }
        if (slab.before)
            add_alone(i, slab.before);
        if (slab.tail < slab.span)
            add_alone(next(slab.tail), slab.span);
        return value;
    };
    combine_parts(op, inner, parts, join_slab, [&](unsigned i, typename Op::Acc value) {
        store_result(op, w, out, uint64(blockIdx.x) * inner + i, value);
    });
    join_by_last<Op>(w, out, o, inner, o, 0, inner);
}

// As add_vectors, for columns whose first and last vectors may lie partly outside the array, from
// `begin` to `end`.
template <class Op, class In, class Mine>
__device__ void add_unaligned(const Op &op, Mine &mine, const In *at, int64 step, int left,
                              unsigned apart, uint64 begin, uint64 end) {
    const uint64 address = reinterpret_cast<uint64>(at);
    const int rows = (left + int(apart) - 1) / int(apart);
    const bool from_before = rows > 0 && address<begin, to_behind = rows> int(from_before) &&
                             address + uint64((rows - 1) * step) + 16 > end;
    const auto add_part = [&](int row) {
        const auto *from = reinterpret_cast<const In *>(address + uint64(row * step));
        const vec<In> one[1] = {part_of_vector(from, begin, end)};
        mine.add(op, one, uint32_t(row), 1, 1);
    };
#pragma unroll 1
    for (int turn = 0; turn < 3; turn++) // in the order of the rows
        if (turn == 1)
            add_vectors(
                op, mine, reinterpret_cast<const In *>(address + uint64(from_before * step)), step,
                left - int(from_before + to_behind) * int(apart), apart, uint32_t(from_before));
        else if (turn ? to_behind : from_before)
            add_part(turn ? rows - 1 : 0);
}

// Stores a thread's columns, if it is there; false where store_all() does not apply.
template <class In, class Op, class Mine>
__device__ bool store_lanes(const Op &op, const Mine &mine, const work &w, void *out, uint64 at,
                            int64 first, bool there) {
    constexpr unsigned COUNT = vec<In>::count;
    typename Op::Acc results[COUNT];
#pragma unroll
    for (unsigned i = 0; i < COUNT; i++)
        results[i] = Mine::whole(op, mine.part(i), {first, 1});
    return store_all(op, w, out, at, results, there);
}

// `wide` threads stand side by side, each on a vector of columns; the block's other threads are on
// the next rows of the same columns. At the end all threads take results, so that adjacent threads
// store adjacent ones. Rows may begin anywhere: a row's vectors then begin up to a vector before
// the block's first column, `phase_of` elements, which is the same for all rows of a thread.
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
    const bool aligned = w.shape == AXIS_VECTORS;
    const uint64 begin = uint64(tile) * w.group, rest = w.inner - begin, first = split * w.chunk,
                 n = w.reduced - first < w.chunk ? w.reduced - first : w.chunk;
    const unsigned results = unsigned(rest < w.group ? rest : w.group);
    const In *rows = in + offset_in(w.outer_axes, o) + int64(first) * w.stride;
    const unsigned phase =
        aligned ? 0 : unsigned(reinterpret_cast<uint64>(rows + begin) / sizeof(In));
    const auto phase_of = [&](unsigned row) { return (phase + row * unsigned(w.stride)) % COUNT; };
    const int64 column = int64(begin + x * COUNT) - (aligned ? 0 : phase_of(y));
    const int left = y < high && column < int64(begin + results) ? int(n) - int(y) : 0;
    int64 from = int64(y) * w.stride;
    if (left > 0)
        from += aligned ? offset_in(w.inner_axes, column) : column;
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
    uint64 lowest = 0, highest = ~uint64(0);
    if (!aligned) {
        const int64 end =
            offset_in(w.outer_axes, w.outer - 1) + int64(w.reduced - 1) * w.stride + int64(w.inner);
        lowest = reinterpret_cast<uint64>(in);
        highest = reinterpret_cast<uint64>(in + end);
    }
    add_unaligned(op, mine, rows + from, bytes, left, high, lowest, highest);
    if (whole_vectors &&
        store_lanes<In>(op, mine, w, out, above * w.inner + column, int64(first), left > 0))
        return; // the whole block
    if (y < high)
#pragma unroll
        for (unsigned i = 0; i < COUNT; i++)
            shared[slot_of(y, x, i)] = mine.part(i);
    __syncthreads();
    const unsigned parts = n < high ? unsigned(n) : high;
    op.by_order([&](const auto &one) {
        const auto load = [&](unsigned result, unsigned part) {
            const unsigned at = result + (aligned ? 0 : phase_of(part));
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
    join_by_last<Op>(w, out, uint64(o) * tiles + tile, w.inner, o, begin, results);
}

template <class Op, class In> __device__ void reduce_axis(const In *in, void *out, const work &w) {
    const Op op = {{{int64(w.key), int64(w.mask), unsigned(w.kind)}}};
    switch (w.shape) {
    case AXIS_SINGLES:
        return singles(op, in, out, w);
    case AXIS_STAGED:
        return staged(op, in, out, w);
    case AXIS_NARROW:
        return narrow(op, in, out, w);
    case AXIS_ROWS:
        return rows(op, in, out, w);
    case AXIS_VECTORS:
    case AXIS_UNALIGNED:
        return columns(op, in, out, w);
    case AXIS_GATHER:
    default:
        if (w.wide == 1)
            return gather<1, 8>(op, in, out, w);
        if (w.wide == AXIS_SEVERAL(sizeof(In)))
            return gather<AXIS_SEVERAL(sizeof(In)), 4>(op, in, out, w);
        return gather<AXIS_SIDE(sizeof(In)), 4, true>(op, in, out, w);
    }
}

// --- the kernels: reduce_axis_<operation>_<elements>

#define KERNEL_AXIS(name, op, In)                                                                 \
    extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS)                                   \
        reduce_axis_##name(const In *items, void *results, const __grid_constant__ axis_work w) { \
        wait_for_kernel_before();                                                                 \
        reduce_axis<op<In>>(items, results, w);                                                   \
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

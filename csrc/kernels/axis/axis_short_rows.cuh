// axis_short_rows.cuh: the shapes of reduce_axis.cu for slabs and rows of few elements: by way of
// shared memory, a group of lanes a row, or a thread a row. Contains no kernel.
#pragma once

#include "axis_results.cuh"
#include "axis_rows.cuh"
#include "axis_trees.cuh"

namespace axis {

// Copies the bytes from `start` on into shared memory: 16 at a time, none before `begin` or from
// `end` on. Returns their offset there. Not inlined, so that all kernels share it.
__device__ __noinline__ unsigned stage_bytes(uint64 begin, uint64 end, uint64 start, unsigned bytes,
                                             bool streamed) {
    constexpr unsigned at_once = 4;
    const uint64 aligned = start / 16 * 16;
    const unsigned skipped = unsigned(start - aligned), vectors = (skipped + bytes + 15) / 16;
    const uint4 *from = reinterpret_cast<const uint4 *>(aligned);
    vec<uint8_t> *stage = shared_memory<vec<uint8_t>>();
    // The first and the last vector may reach past the array.
    const unsigned whole_first = aligned < begin ? 1 : 0;
    const unsigned whole_end = end < aligned + uint64(vectors) * 16 ? vectors - 1 : vectors;
#pragma unroll 1
    for (unsigned p = threadIdx.x; p < vectors; p += at_once * BLOCK) {
        vec<uint8_t> loaded[at_once];
        load_some(
            loaded, streamed, uint4{0, 0, 0, 0},
            [&](unsigned k) { return p + k * BLOCK >= whole_first && p + k * BLOCK < whole_end; },
            [&](unsigned k) { return from + p + k * BLOCK; });
#pragma unroll
        for (unsigned k = 0; k < at_once; k++)
            if (p + k * BLOCK < vectors)
                stage[p + k * BLOCK] = loaded[k];
    }
#pragma unroll 1
    for (unsigned edge = 0; edge < 2; edge++) { // by the thread that stored the vector
        const unsigned at = edge ? vectors - 1 : 0;
        if (threadIdx.x != at % BLOCK || (at >= whole_first && at < whole_end))
            continue;
#pragma unroll 1
        for (unsigned i = 0; i < 16; i++) {
            const uint64 byte = aligned + uint64(at) * 16 + i;
            if (byte >= begin && byte < end)
                stage[at].items[i] = *reinterpret_cast<const uint8_t *>(byte);
        }
    }
    __syncthreads();
    return skipped;
}

// `wide` contiguous slabs of reduced x inner elements pass through shared memory: the loads are 16
// bytes wide and coalesced, however short a row is. Then `group` lanes reduce one result.
template <class In>
__device__ const In *staged_items(const In *in, const work &w, uint64 first, unsigned items) {
    const uint64 slab = w.reduced * w.inner;
    const unsigned skipped = stage_bytes(
        reinterpret_cast<uint64>(in), reinterpret_cast<uint64>(in + w.outer * slab),
        reinterpret_cast<uint64>(in + first * slab), items * unsigned(sizeof(In)), w.streamed);
    return shared_memory<In>() + skipped / sizeof(In);
}

// Elements in shared memory, without branches: rows are short. The operation is that of a kind.
template <class Op, class In, class One>
__device__ typename Op::Acc add_staged(const One &op, const In *at, unsigned step, int left,
                                       unsigned apart, positions here) {
    constexpr unsigned AT_ONCE = 4;
    lanes<Op, In, 1> mine(op);
    const In absent = op.neutral();
    if (left <= 0)
        return op.identity();
#pragma unroll 1
    for (uint32_t position = 0; left > 0; position += AT_ONCE) {
        alone<In> loaded[AT_ONCE];
#pragma unroll
        for (unsigned k = 0; k < AT_ONCE; k++) {
            const bool there = k * apart < unsigned(left);
            const In item = at[there ? k * step : 0];
            loaded[k].items[0] = there || One::REPEATS || has_index<Op> ? item : absent;
        }
        mine.template add<false>(op, loaded, position, apart, unsigned(left));
        at += AT_ONCE * step;
        left -= int(AT_ONCE * apart);
    }
    return mine.whole(op, mine.part(0), here);
}

// The bits of word `word` of a vector that lie in its bytes `from` to `to` - 1.
__device__ inline uint32_t bits_between(int from, int to, int word) {
    const int low = 8 * (from - 4 * word), high = 8 * (to - 4 * word);
    return __funnelshift_lc(0, ~0u, unsigned(low < 0 ? 0 : low)) &
           ~__funnelshift_lc(0, ~0u, unsigned(high < 0 ? 0 : high));
}

// The same by vectors for a row of narrow elements, at any alignment: elements of other rows are
// replaced by the identity (TUNING.md A2).
template <class Op, class In, class One>
__device__ typename Op::Acc add_staged_vectors(const One &op, const In *row, unsigned items,
                                               unsigned lane, unsigned group) {
    constexpr unsigned AT_ONCE = 2;
    const vec<In> *stage = shared_memory<vec<In>>();
    const unsigned begin = unsigned(row - shared_memory<In>()) * unsigned(sizeof(In)),
                   end = begin + items * unsigned(sizeof(In)), last = (end - 1) / 16;
    const neutral_items<In> others(op);
    along<Op, In> mine(op);
#pragma unroll 1
    for (unsigned p = begin / 16 + lane; p <= last; p += AT_ONCE * group) {
        vec<In> loaded[AT_ONCE];
#pragma unroll
        for (unsigned k = 0; k < AT_ONCE; k++) {
            const unsigned at = p + k * group;
            loaded[k] = stage[at < last ? at : last];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const uint32_t kept = bits_between(int(begin - at * 16), int(end - at * 16), i);
                loaded[k].word[i] = others.beside(loaded[k].word[i], kept, unsigned(i));
            }
        }
        mine.template add<true>(op, loaded, 0, 0, 0);
    }
    return mine.folded(op, {0, 0});
}

template <class Op, class In>
__device__ void staged(const Op &op, const In *in, void *out, const work &w) {
    using Acc = typename Op::Acc;
    const unsigned reduced = unsigned(w.reduced), inner = unsigned(w.inner),
                   group = unsigned(w.group), slab = reduced * inner;
    const uint64 first = blockIdx.x * w.wide;
    const unsigned slabs = unsigned(w.outer - first < w.wide ? w.outer - first : w.wide);
    const In *items = staged_items(in, w, first, slabs * slab);
    const unsigned results = slabs * inner, lane = threadIdx.x & (group - 1),
                   shift = log2_of(group);
    by_stored_kind(op, [&](const auto &one) {
#pragma unroll 1
        for (unsigned base = 0; base < results; base += BLOCK >> shift) {
            const unsigned result = base + (threadIdx.x >> shift);
            Acc value = op.identity();
            if (result < results) {
                const unsigned s = inner == 1 ? result : result / inner;
                const In *at = items + s * slab + (result - s * inner);
                bool by_vectors = false;
                if constexpr (!has_index<Op> && sizeof(In) <= 2) {
                    by_vectors = inner == 1 && reduced >= AXIS_STAGED_VECTORS(sizeof(In));
                    if (by_vectors)
                        one.by_kind([&](const auto &exact) {
                            value = add_staged_vectors<Op, In>(exact, at, reduced, lane, group);
                        });
                }
                if (!by_vectors)
                    one.by_kind([&](const auto &exact) {
                        value = add_staged<Op, In>(exact, at + lane * inner, group * inner,
                                                   int(reduced - lane), group, {lane, group});
                    });
            }
            value = group_value(one, value, group);
            if (result < results && lane == 0)
                storing<Op>::store(op, w, out, first * inner + result, value);
        }
    });
}

// Stores a block's results, which its threads hold in any order, through shared memory, so that
// adjacent threads store adjacent results.
template <class Op>
__device__ void store_results(const Op &op, void *out, const work &w, uint64 first,
                              unsigned results) {
    __syncthreads();
#pragma unroll 1
    for (unsigned r = threadIdx.x; r < results; r += BLOCK)
        storing<Op>::store(op, w, out, first + r, shared_memory<typename Op::Acc>()[r]);
}

// Contiguous rows of a few whole vectors: `group` lanes take a row of `wide` vectors, one vector
// each, and AT_ONCE rows.
template <class Op, class In>
__device__ void groups(const Op &op, const In *in, void *out, const work &w) {
    using Row = short_row<Op, In>;
    using Acc = typename Op::Acc;
    constexpr unsigned AT_ONCE = AXIS_GROUP_ROWS,
                       IN_TURN = sizeof(In) <= 2 && !has_index<Op> ? 2 : 4;
    const unsigned group = unsigned(w.group), wide = unsigned(w.wide), shift = log2_of(group),
                   rows = BLOCK >> shift, x = threadIdx.x & (group - 1), y = threadIdx.x >> shift;
    const uint64 first = uint64(blockIdx.x) * (AT_ONCE * rows);
    const unsigned there =
        unsigned(w.outer - first < AT_ONCE * rows ? w.outer - first : AT_ONCE * rows);
    const uint4 *vectors = reinterpret_cast<const uint4 *>(in) + (first + y) * wide + x;
    vec<In> loaded[AT_ONCE];
    load_some(
        loaded, w.streamed, uint4{0, 0, 0, 0},
        [&](unsigned k) { return x < wide && y + k * rows < there; },
        [&](unsigned k) { return vectors + k * rows * wide; });
    Acc *results = shared_memory<Acc>() + y;
    op.by_kind([&](const auto &one) {
#pragma unroll 1
        for (unsigned turn = 0; turn < AT_ONCE; turn += IN_TURN) {
            typename Row::Part parts[IN_TURN];
#pragma unroll
            for (unsigned k = 0; k < IN_TURN; k++)
                parts[k] = Row::template of<vec<In>::count>(one, loaded[k], x * vec<In>::count);
#pragma unroll
            for (unsigned k = 0; k < IN_TURN; k++)
                if (x >= wide)
                    parts[k] = Row::nothing(op);
#pragma unroll 1
            for (unsigned distance = group / 2; distance > 0; distance /= 2)
#pragma unroll
                for (unsigned k = 0; k < IN_TURN; k++)
                    parts[k] = Row::join(one, parts[k], from_lane(parts[k], distance));
            if (x == 0)
#pragma unroll
                for (unsigned k = 0; k < IN_TURN; k++)
                    results[k * rows] = Row::whole(one, parts[k]);
            results += IN_TURN * rows;
            next_in_turn<IN_TURN>(loaded);
        }
    });
    store_results(op, out, w, first, there);
}

// Rows of one word, contiguous, or of one element, anywhere: a thread takes AXIS_WORD_ROWS of them,
// a block apart; of single ones fewer at once, since each needs the code of a division.
template <class Word, class Op, class In>
__device__ void words(const Op &op, const In *in, void *out, const work &w) {
    if constexpr (sizeof(Word) >= sizeof(In)) {
        using Row = short_row<Op, In>;
        constexpr bool SINGLE = sizeof(Word) == sizeof(In);
        constexpr unsigned AT_ONCE = SINGLE ? AXIS_WORD_ROWS / 2 : AXIS_WORD_ROWS,
                           IN_TURN = SINGLE              ? 1
                                     : sizeof(Word) == 2 ? 8
                                                         : 2;
        const uint64 first = uint64(blockIdx.x) * (AXIS_WORD_ROWS * BLOCK) + threadIdx.x,
                     count = SINGLE ? w.outer * w.inner : w.outer;
        const Word *rows = reinterpret_cast<const Word *>(in);
#pragma unroll 1
        for (unsigned done = 0; done < AXIS_WORD_ROWS; done += AT_ONCE) {
            Word loaded[AT_ONCE] = {};
#pragma unroll
            for (unsigned k = 0; k < AT_ONCE && !(SINGLE && has_index<Op>); k++) { // an index is 0
                // No branches: missing rows repeat the first.
                const uint64 row = first + (done + k) * BLOCK;
                loaded[k] =
                    rows[SINGLE ? w.offset(row < count ? row : 0) : int64(row < count ? row : 0)];
            }
            by_stored_kind(op, [&](const auto &one) {
#pragma unroll 1
                for (unsigned turn = 0; turn < AT_ONCE; turn += IN_TURN) {
                    const uint64 row = first + (done + turn) * BLOCK;
                    typename Row::Part parts[IN_TURN];
                    const auto reduce = [&](const auto &exact) {
#pragma unroll
                        for (unsigned k = 0; k < IN_TURN; k++) {
                            vec<In> word;
                            word.word[0] = uint32_t(loaded[k]);
                            word.word[1] = uint32_t(uint64(loaded[k]) >> 32);
                            parts[k] = Row::template of<sizeof(Word) / sizeof(In)>(exact, word, 0);
                        }
                    };
                    if constexpr (SINGLE) // whatever its kind
                        reduce(op);
                    else
                        one.by_kind(reduce);
#pragma unroll
                    for (unsigned k = 0; k < IN_TURN; k++)
                        if (row + k * BLOCK < count)
                            storing<Op>::store(op, w, out, row + k * BLOCK,
                                               Row::whole(op, parts[k]));
                    next_in_turn<IN_TURN>(loaded);
                }
            });
        }
    }
}

// Contiguous rows of three elements, the first at a vector: a thread takes the rows of three
// vectors, and stores their results as vectors if these are not much wider (TUNING.md A3).
template <class Op, class In>
__device__ void triples(const Op &op, const In *in, void *out, const work &w) {
    using Row = short_row<Op, In>;
    using Part = typename Row::Part;
    constexpr unsigned count = vec<In>::count; // rows of a thread
    const uint64 thread = uint64(blockIdx.x) * BLOCK + threadIdx.x, whole = w.outer / count;
    const uint4 *vectors = reinterpret_cast<const uint4 *>(in) + thread * 3;
    const bool there = thread < whole;
    vec<In> loaded[3];
    load_some(
        loaded, w.streamed, uint4{0, 0, 0, 0}, [&](unsigned) { return there; },
        [&](unsigned k) { return vectors + k; });
    Part parts[count];
    op.by_kind([&](const auto &one) {
#pragma unroll
        for (unsigned r = 0; r < count; r++) {
            triple<In> row = {};
#pragma unroll
            for (unsigned i = 0; i < 3; i++)
                row.items[i] = loaded[(3 * r + i) / count].items[(3 * r + i) % count];
            parts[r] = Row::template of<3>(one, row, 0);
        }
    });
    if (const uint64 r = whole * count + threadIdx.x; blockIdx.x == 0 && r < w.outer) { // the rest
        triple<In> row = {};
#pragma unroll
        for (unsigned i = 0; i < 3; i++)
            row.items[i] = in[r * 3 + i];
        storing<Op>::store(op, w, out, r, Row::whole(op, Row::template of<3>(op, row, 0)));
    }
    if (reinterpret_cast<uint64>(out) % 16 == 0) {
        typename Op::Acc results[count];
#pragma unroll
        for (unsigned r = 0; r < count; r++)
            results[r] = Row::whole(op, parts[r]);
        if (storing<Op>::store_all(op, w, out, thread * count, results, there))
            return; // the whole block
    }
    // One element of padding after those of a thread avoids bank conflicts.
    Part *shared = shared_memory<Part>();
#pragma unroll
    for (unsigned r = 0; r < count; r++)
        shared[threadIdx.x * (count + 1) + r] = parts[r];
    __syncthreads();
    const uint64 first = uint64(blockIdx.x) * (BLOCK * count), end = whole * count;
#pragma unroll 1
    for (unsigned r = threadIdx.x; r < BLOCK * count && first + r < end; r += BLOCK)
        storing<Op>::store(op, w, out, first + r, Row::whole(op, shared[r + r / count]));
}

} // namespace axis

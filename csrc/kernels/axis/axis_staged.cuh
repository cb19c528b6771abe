// axis_staged.cuh: the shapes of reduce_axis.cu for slabs and rows of few elements, which pass
// through shared memory, and for rows of one element. Contains no kernel.
#pragma once

#include "axis_lanes.cuh"
#include "axis_results.cuh"
#include "axis_trees.cuh"

namespace axis {

// Copies the bytes from `start` on into shared memory: 16 at a time, none before `begin` or from
// `end` on. Returns their offset there. Not inlined, so that all kernels share it.
__device__ __noinline__ unsigned stage_bytes(uint64 begin, uint64 end, uint64 start,
                                             unsigned bytes) {
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
            loaded, uint4{0, 0, 0, 0},
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
        if (threadIdx.x == at % BLOCK && (at < whole_first || at >= whole_end))
            stage[at] =
                part_of_vector(reinterpret_cast<const uint8_t *>(aligned) + at * 16, begin, end);
    }
    __syncthreads();
    return skipped;
}

// A row of narrow elements in shared memory, by every apart-th vector; they begin at any element.
template <class Op, class In, class One>
__device__ typename Op::Acc add_row(const One &op, unsigned at, int left, unsigned apart,
                                    int64 first) {
    constexpr unsigned COUNT = vec<In>::count;
    along<Op, In, has_index<Op> ? 1 : 2> mine(op);
    vec<In> absent, one[1];
    absent.words = neutral_vector<In>(op);
#pragma unroll 1
    for (uint32_t position = 0; left > 0; position += COUNT * apart) {
        const uint4 *from = shared_memory<uint4>() + at / COUNT;
        one[0].words = from[0];
        if (const unsigned off = at % COUNT)
            one[0].words = cut_vector<sizeof(In)>(from[0], from[1], off * sizeof(In));
        if (left < int(COUNT))
#pragma unroll
            for (int i = 0; i < 4; i++) { // the elements of others
                const int bits = left * int(8 * sizeof(In)) - 32 * i;
                const uint32_t others = __funnelshift_lc(0, ~0u, unsigned(bits < 0 ? 0 : bits));
                one[0].word[i] = (one[0].word[i] & ~others) | (absent.word[i] & others);
            }
        mine.add(op, one, position, 1, unsigned(left));
        at += COUNT * apart;
        left -= int(COUNT * apart);
    }
    return mine.folded(op, {first, 1});
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
        mine.add(op, loaded, position, apart, unsigned(left));
        at += AT_ONCE * step;
        left -= int(AT_ONCE * apart);
    }
    return mine.whole(op, mine.part(0), here);
}

// `wide` contiguous slabs of reduced x inner elements pass through shared memory: the loads are 16
// bytes wide and coalesced, however short a row is. Then `group` lanes reduce one result.
template <class Op, class In>
__device__ void staged(const Op &op, const In *in, void *out, const work &w) {
    using Acc = typename Op::Acc;
    const unsigned reduced = unsigned(w.reduced), inner = unsigned(w.inner),
                   group = unsigned(w.group), slab = reduced * inner;
    const uint64 first = blockIdx.x * w.wide;
    const unsigned slabs = unsigned(w.outer - first < w.wide ? w.outer - first : w.wide);
    const unsigned items =
        stage_bytes(reinterpret_cast<uint64>(in), reinterpret_cast<uint64>(in + w.outer * slab),
                    reinterpret_cast<uint64>(in + first * slab),
                    slabs * slab * unsigned(sizeof(In))) /
        unsigned(sizeof(In));
    const unsigned results = slabs * inner, lane = threadIdx.x & (group - 1),
                   shift = log2_of(group);
#pragma unroll 1
    for (unsigned base = 0; base < results; base += BLOCK >> shift) {
        const unsigned result = base + (threadIdx.x >> shift);
        Acc value = op.identity();
        if (result < results) {
            const unsigned s = inner == 1 ? result : result / inner,
                           at = items + s * slab + (result - s * inner);
            op.by_kind([&](const auto &one) {
                if constexpr (sizeof(In) <= AXIS_NARROW_ITEM)
                    if (inner == 1 && slab * sizeof(In) > AXIS_NARROW_ROW) {
                        const unsigned before = lane * vec<In>::count;
                        value =
                            add_row<Op, In>(one, at + before, int(reduced - before), group, before);
                        return;
                    }
                value =
                    add_staged<Op, In>(one, shared_memory<In>() + at + lane * inner, group * inner,
                                       int(reduced - lane), group, {lane, group});
            });
        }
        value = group_value(op, value, group);
        if (result < results && lane == 0)
            store_one(op, w, out, first * inner + result, value);
    }
}

// Rows of one element, anywhere: a thread takes AXIS_SINGLE_ROWS of them, a block apart, but few at
// once, since each needs the code of a division.
template <class Op, class In>
__device__ void singles(const Op &op, const In *in, void *out, const work &w) {
    constexpr unsigned AT_ONCE = AXIS_SINGLE_ROWS / 2;
    const uint64 first = uint64(blockIdx.x) * (AXIS_SINGLE_ROWS * BLOCK) + threadIdx.x,
                 count = w.outer * w.inner;
#pragma unroll 1
    for (unsigned done = 0; done < AXIS_SINGLE_ROWS; done += AT_ONCE) {
        In loaded[AT_ONCE] = {};
#pragma unroll
        for (unsigned k = 0; k < AT_ONCE && !has_index<Op>; k++) { // an index is 0
            const uint64 row = first + (done + k) * BLOCK;
            loaded[k] = in[offset_of_result(w, row < count ? row : 0)];
        }
#pragma unroll 1
        for (unsigned k = 0; k < AT_ONCE; k++) {
            const uint64 row = first + (done + k) * BLOCK;
            if (row < count)
                store_one(op, w, out, row, op.load(loaded[0], 0));
            next_in_turn(loaded);
        }
    }
}

} // namespace axis

// axis_gather.cuh: the shape of reduce_axis.cu for elements that no vector holds side by side:
// gaps, steps, rows and columns at any alignment, and two reduced axes. Contains no kernel.
#pragma once

#include "axis_results.cuh"
#include "axis_lanes.cuh"
#include "axis_trees.cuh"

namespace axis {

// The periods before a reduced index, exact below 2^31.
__device__ inline unsigned periods(const work &w, unsigned index) {
    return __umulhi(index, unsigned(w.period)) >> unsigned(w.period >> 32);
}

// This thread's elements of SIDE results: every apart-th of `n`, `part` being its first; `first` is
// the index of the chunk's first element. If FLAT, of columns a block apart, if these are among the
// `places` from the first on.
template <unsigned SIDE, unsigned AT_ONCE, bool FLAT, class Op, class In>
__device__ void add_gathered(const Op &op, typename Op::Acc (&values)[SIDE],
                             const In *const (&from)[SIDE], const work &w, uint64 first,
                             unsigned part, unsigned apart, unsigned n, unsigned places) {
    lanes<Op, In, 1> mine[SIDE];
#pragma unroll
    for (unsigned i = 0; i < SIDE; i++)
        mine[i] = lanes<Op, In, 1>(op);
    const In absent = op.neutral();
    constexpr bool WHOLE = SIDE > 1 && !has_index<Op>; // absent elements are added, too
    constexpr bool FIT = In(0.5) == 0;                 // float32 sums would need more registers
    int left = int(n) - int(part);
    uint64 next = first + part;
    const int64 step = int64(apart) * w.stride;
    int64 at = int64(next) * w.stride;
#pragma unroll 1
    for (uint32_t position = 0; left > 0; position += AT_ONCE) {
        int64 offset[AT_ONCE];
#pragma unroll
        for (unsigned k = 0; k < AT_ONCE; k++)
            offset[k] = at + k * step;
        if (!FLAT && w.period)
#pragma unroll
            for (unsigned k = 0; k < AT_ONCE; k++)
                offset[k] += int64(periods(w, unsigned(next) + k * apart)) * w.jump;
        alone<In> loaded[SIDE][AT_ONCE];
        const auto load = [&](bool all) {
#pragma unroll
            for (unsigned k = 0; k < AT_ONCE; k++) // row by row
#pragma unroll
                for (unsigned i = 0; i < SIDE; i++) { // no branches: the loads would wait
                    if (!all)
                        loaded[i][k].items[0] = absent;
                    if (all || ((!FLAT || i * BLOCK < places) && int(k * apart) < left))
                        loaded[i][k].items[0] = from[i][offset[k]];
                }
        };
        if (FLAT && FIT && places > (SIDE - 1) * BLOCK && left > int((AT_ONCE - 1) * apart))
            load(true); // fewer instructions
        else
            load(false);
        op.by_kind([&](const auto &one) {
#pragma unroll
            for (unsigned i = 0; i < SIDE; i++)
                mine[i].add(one, loaded[i], position, apart, WHOLE ? ~0u : unsigned(left));
        });
        next += AT_ONCE * apart;
        at += AT_ONCE * step;
        left -= int(AT_ONCE * apart);
    }
#pragma unroll
    for (unsigned i = 0; i < SIDE; i++)
        values[i] = part < n
                        ? mine[i].whole(op, mine[i].part(0), {int64(first + part), int64(apart)})
                        : op.identity();
}

// `group` threads reduce a result, and SIDE results each: adjacent lanes take adjacent elements if
// w.tiles, else adjacent results; if FLAT, of columns side by side (TUNING.md A30). Blocks take the
// chunks of a tile of results in turn.
template <unsigned SIDE, unsigned AT_ONCE, bool FLAT = false, class Op, class In>
__device__ void gather(const Op &op, const In *in, void *out, const work &w) {
    using Acc = typename Op::Acc;
    const unsigned parts = FLAT ? 1 : unsigned(w.group), shift = log2_of(parts),
                   wide = BLOCK >> shift, splits = unsigned(w.splits);
    const bool along = !FLAT && w.tiles != 0;
    const unsigned part =
                       along ? threadIdx.x & (parts - 1) : threadIdx.x >> (log2_of(BLOCK) - shift),
                   mine = along ? threadIdx.x >> shift : threadIdx.x & (wide - 1);
    const unsigned tile = splits == 1 ? blockIdx.x : blockIdx.x / splits,
                   split = blockIdx.x - tile * splits;
    // A flat tile lies in one row.
    const uint64 results = w.outer * w.inner, row = FLAT ? AXIS_ROW(w) : results,
                 in_row = (row + wide * SIDE - 1) / (wide * SIDE),
                 o = FLAT ? tile / unsigned(in_row) : 0,
                 here = o * row + (tile - o * in_row) * (wide * SIDE), left = (o + 1) * row - here;
    const unsigned count = unsigned(left < wide * SIDE ? left : wide * SIDE),
                   places = mine < count ? count - mine : 0; // from this thread's first result on
    const uint64 begin = here + mine, first = split * w.chunk;
    const unsigned n = unsigned(w.reduced - first < w.chunk ? w.reduced - first : w.chunk);
    const In *from[SIDE];
#pragma unroll
    for (unsigned i = 0; i < SIDE; i++)
        from[i] = FLAT && i ? from[0] + i * BLOCK
                            : in + offset_of_result(w, i * wide < places ? begin + i * wide : here);
    Acc values[SIDE];
    add_gathered<SIDE, AT_ONCE, FLAT>(op, values, from, w, first, part, parts, n, places);
    if (SIDE > 1 && parts == 1 && !w.partials &&
        store_all<BLOCK>(op, w, out, begin, values, places))
        return;

    Acc *shared = shared_memory<Acc>();
    // The value of a result in the thread that has its part 0.
    const auto joined = [&](Acc value) {
        if (along)
            return parts <= 32 ? group_value(op, value, parts) : block_value(op, value);
        if (parts == 1)
            return value;
        __syncthreads();
        shared[threadIdx.x] = value;
        return strided_value(op, shared, value, part, parts, wide);
    };
#pragma unroll 1
    for (unsigned i = 0; i < SIDE; i++) {
        const Acc value = joined(values[0]);
        if (part == 0 && i * wide < places) // not split: the first chunk
            store_result(op, w, out, split * results + begin + i * wide, value);
        next_in_turn(values);
    }
    join_by_last<Op>(w, out, tile, results, 0, here, count);
}

} // namespace axis

// axis_gather.cuh: the shape of reduce_axis.cu for elements that no vector holds side by side:
// gaps, steps, rows and columns at any alignment, and two reduced axes. Contains no kernel.
#pragma once

#include "axis_results.cuh"
#include "axis_rows.cuh"
#include "axis_trees.cuh"

namespace axis {

// Loads an element while other loads are in flight, or returns `absent`, as load_if.
#define LOAD_IF(type, constraint)                        \
    asm volatile("{ .reg .pred there;\n"                 \
                 "setp.ne.u32 there, %2, 0;\n"           \
                 "@there ld.global." type " %0, [%1]; }" \
                 : "+" constraint(u.word)                \
                 : "l"(from), "r"(static_cast<unsigned>(there)))
template <class In> __device__ In load_item_if(bool there, const In *from, In absent) {
    union {
        typename chosen<sizeof(In) == 8, uint64, uint32_t>::type word;
        In item;
    } u = {0};
    u.item = absent;
    if constexpr (sizeof(In) == 8)
        LOAD_IF("u64", "l");
    else if constexpr (sizeof(In) == 4)
        LOAD_IF("u32", "r");
    else if constexpr (sizeof(In) == 2)
        LOAD_IF("u16", "r");
    else
        LOAD_IF("u8", "r");
    return u.item;
}
#undef LOAD_IF

// This thread's elements of SIDE results: every apart-th of `n`, `part` being its first; `first` is
// the index of the chunk's first element. Results that do not exist have no address.
template <unsigned SIDE, unsigned AT_ONCE, class Op, class In>
__device__ void add_gathered(const Op &op, typename Op::Acc (&values)[SIDE],
                             const In *const (&from)[SIDE], const work &w, uint64 first,
                             unsigned part, unsigned apart, unsigned n) {
    lanes<Op, In, 1> mine[SIDE];
#pragma unroll
    for (unsigned i = 0; i < SIDE; i++)
        mine[i] = lanes<Op, In, 1>(op);
    const In absent = op.neutral();
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
        if (w.division)
#pragma unroll
            for (unsigned k = 0; k < AT_ONCE; k++)
                offset[k] += int64(w.periods(unsigned(next) + k * apart)) * w.jump;
        alone<In> loaded[SIDE][AT_ONCE];
#pragma unroll
        for (unsigned i = 0; i < SIDE; i++)
#pragma unroll
            for (unsigned k = 0; k < AT_ONCE; k++)
                loaded[i][k].items[0] =
                    load_item_if(from[i] && int(k * apart) < left, from[i] + offset[k], absent);
        op.by_kind([&](const auto &one) {
#pragma unroll
            for (unsigned i = 0; i < SIDE; i++)
                mine[i].template add<false>(one, loaded[i], position, apart, unsigned(left));
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

// The same for partial results, which have their indices already.
template <class Op, class In>
__device__ typename Op::Acc add_indexed(const Op &op, const In *in, const work &w, uint64 result,
                                        unsigned part, unsigned apart) {
    typename Op::Acc value = op.identity();
    const uint64 n = result < w.outer * w.inner ? w.reduced : 0;
#pragma unroll 1
    for (uint64 k = part; k < n; k += apart) {
        const int64 at = w.offset(result) + int64(k) * w.stride;
        value = op.apply(value, op.load(in[at], w.in_index[at]));
    }
    return value;
}

// `group` threads reduce a result, and SIDE results each: adjacent lanes take adjacent elements if
// w.along, else adjacent results. Blocks take the chunks of a tile of results in turn.
template <unsigned SIDE, class Op, class In>
__device__ void gather(const Op &op, const In *in, void *out, const work &w) {
    using Acc = typename Op::Acc;
    const unsigned parts = unsigned(w.group), shift = log2_of(parts), wide = BLOCK >> shift,
                   splits = unsigned(w.splits);
    const bool along = w.tiles != 0;
    const unsigned part = along ? threadIdx.x & (parts - 1) : threadIdx.x >> (8 - shift),
                   mine = along ? threadIdx.x >> shift : threadIdx.x & (wide - 1);
    static_assert(BLOCK == 1 << 8, "threads");
    const unsigned tile = splits == 1 ? blockIdx.x : blockIdx.x / splits,
                   split = blockIdx.x - tile * splits;
    const uint64 results = w.outer * w.inner, begin = uint64(tile) * (wide * SIDE) + mine,
                 first = split * w.chunk;
    const unsigned n = unsigned(w.reduced - first < w.chunk ? w.reduced - first : w.chunk);
    const In *from[SIDE];
#pragma unroll
    for (unsigned i = 0; i < SIDE; i++) {
        const uint64 r = begin + i * wide;
        from[i] = r < results ? in + w.offset(r) : nullptr;
    }
    Acc values[SIDE];
    bool indexed = false;
    if constexpr (SIDE == 1 && has_index<Op>) {
        indexed = w.in_index != nullptr;
        if (indexed)
            values[0] = add_indexed(op, in, w, begin, part, parts);
    }
    if (!indexed)
        add_gathered<SIDE, SIDE == 1 ? 8 : 4>(op, values, from, w, first, part, parts, n);

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
        const uint64 r = begin + i * wide;
        const Acc value = joined(values[0]);
        if (part == 0 && r < results) // not split: the first chunk
            store_result(op, w, out, split * results + r, value);
        next_in_turn<1>(values);
    }
    if (!w.tickets || !ends_last(w.tickets + tile, splits))
        return;
#pragma unroll 1
    for (unsigned i = 0; i < SIDE; i++) {
        const uint64 r = begin + i * wide;
        Acc value = r < results ? join_chunks<4>(op, w, r, results, part, parts) : op.identity();
        value = joined(value);
        if (part == 0 && r < results)
            storing<Op>::store(op, w, out, r, value);
    }
}

} // namespace axis

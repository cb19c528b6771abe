// stencil1d_columns.cuh: rung 5 of stencil1d.cu along an axis that is not the last. Contains no
// kernel.
#pragma once

#include "../stencil1d_plan.cuh"
#include "stencil1d_narrow.cuh"

namespace stencil1d {

// Adjacent threads compute adjacent columns. A thread computes groups of adjacent outputs; their
// inputs come from the L1 cache and slide through its registers.
template <class In, class Acc> struct column_items {
    const stencil<In, Acc> &s;
    const reflection ends;
    const In *column;
    int left, last; // the first input of the window; the last of all, as others may not exist

    __device__ Acc operator[](unsigned k) const {
        const int i = min(left + static_cast<int>(k), last);
        const Acc item = static_cast<Acc>(column[ends.at(i) * s.step]);
        return s.mode == CONSTANT && ends.beyond(i) ? static_cast<Acc>(s.beyond) : item;
    }
    __device__ void operator+=(unsigned k) { left += static_cast<int>(k); }
};

// The same for windows within the column.
template <class In, class Acc> struct inside_items {
    const In *from;
    int64 step;

    __device__ Acc operator[](unsigned k) const { return static_cast<Acc>(from[k * step]); }
    __device__ void operator+=(unsigned k) { from += k * step; }
};

// The sums of COUNT windows, the first of `items`; each begins `apart` after the one before it, and
// the last one `last`: distances of `memory`, whose element `column` is the column's first.
template <unsigned COUNT, class Memory, class In, class Acc>
__device__ void windows_apart(const column_items<In, Acc> &items, const Memory &memory,
                              int64 column, const Acc *weights, int64 apart, int64 last,
                              Acc (&sums)[COUNT]) {
    const stencil<In, Acc> &s = items.s;
    const unsigned width = static_cast<unsigned>(s.width);
#pragma unroll
    for (unsigned j = 0; j < COUNT; j++)
        sums[j] = 0;
#pragma unroll 1
    for (unsigned k = 0; k < width; k++) {
        const int i = items.left + static_cast<int>(k);
        const Acc weight = weights[k];
        if (s.mode == CONSTANT && items.ends.beyond(i)) {
#pragma unroll
            for (unsigned j = 0; j < COUNT; j++)
                sums[j] = op_weighted::add(sums[j], static_cast<Acc>(s.beyond), weight);
            continue;
        }
        auto from = memory.at(column + items.ends.at(i) * s.step);
        decltype(memory.load(from)) loaded[COUNT];
#pragma unroll
        for (unsigned j = 0; j < COUNT; j++) {
            loaded[j] = memory.load(from);
            from += j + 2 < COUNT ? apart : last;
        }
#pragma unroll
        for (unsigned j = 0; j < COUNT; j++)
            sums[j] =
                op_weighted::add(sums[j], static_cast<Acc>(memory.widened(loaded[j])), weight);
    }
}

// Adjacent threads compute adjacent outputs, and a thread one of each of COUNT parts of the rows,
// of the columns or of a column's outputs: for few columns or short ones, and narrow windows or
// elements. The last part ends with the last of them, so it may share some with the part before it.
// A call, to keep its registers away from other shapes.
template <class Memory, class In, class Acc>
__device__ __noinline__ void columns_apart(stencil<In, Acc> s, Memory in, Memory out,
                                           unsigned parts) {
    constexpr int COUNT = STENCIL1D_GROUP;
    const Acc *weights = shared_memory<Acc>();
    column_items<In, Acc> items = {s, reflection(s.n, s.mode), nullptr,
                                   static_cast<int>(s.first - s.before), 0};
    const bool rows = parts == STENCIL1D_ROW_PARTS, columns = parts == STENCIL1D_COLUMN_PARTS;
    const int64 all = rows ? s.rows : columns ? s.inner : s.outputs;
    const int64 part = (all + COUNT - 1) / COUNT, shared = part * COUNT - all;
    int64 column = static_cast<int64>(blockIdx.x) * THREADS + threadIdx.x;
    int64 i = split(column, columns ? part : s.inner);
    const int64 row = split(i, rows || columns ? s.outputs : part);
    if (row >= (rows ? part : s.rows))
        return;
    const bool stores_last = (rows ? row : columns ? column : i) >= shared;
    const int64 unit = rows ? s.pitch : columns ? 1 : s.step;
    const int64 unit_out = rows ? s.outputs * s.inner : columns ? 1 : s.inner;
    const int64 apart = out.distance(part * unit_out);
    const int64 last = out.distance((part - shared) * unit_out);
    auto to = out.at((row * s.outputs + i) * s.inner + column);
    const int64 first = row * s.pitch + column;
    items.left += static_cast<int>(i);
    if (rows || columns || (items.left >= 0 && items.left + all - part + s.width <= s.n)) {
        Acc sums[COUNT];
        windows_apart(items, in, first, weights, in.distance(part * unit),
                      in.distance((part - shared) * unit), sums);
#pragma unroll
        for (int j = 0; j < COUNT; j++) {
            if (j + 1 < COUNT || stores_last)
                out.store(to, static_cast<In>(sums[j]));
            to += j + 2 < COUNT ? apart : last;
        }
        return;
    }
#pragma unroll 1
    for (int j = 0; j < COUNT - !stores_last; j++) {
        Acc sum[1];
        windows_apart(items, in, first, weights, 0, 0, sum);
        out.store(to, static_cast<In>(sum[0]));
        to += j + 2 < COUNT ? apart : last;
        items.left += static_cast<int>(j + 2 < COUNT ? part : part - shared);
    }
}

template <class In, class Acc> __device__ void columns(const stencil<In, Acc> &s) {
    constexpr unsigned COUNT = STENCIL1D_GROUP;
    const unsigned groups = s.form >> STENCIL1D_GROUPS & 0xff,
                   width = static_cast<unsigned>(s.width);
    Acc *weights = shared_memory<Acc>();
#pragma unroll 1
    for (unsigned k = threadIdx.x; k < width; k += THREADS)
        weights[k] = s.weights ? static_cast<Acc>(s.weights[k]) : Acc(1);
    __syncthreads();
    const int first = static_cast<int>(s.first - s.before);
    column_items<In, Acc> items = {s, reflection(s.n, s.mode), nullptr, 0,
                                   first + static_cast<int>(s.outputs + s.width) - 2};
    if (groups >= STENCIL1D_ROW_PARTS) {
        if constexpr (sizeof(In) == 4)
            if (s.narrow()) {
                const narrow_items<In> in(s.in, s.narrow()), out(s.out, s.narrow());
                return columns_apart(s, in, out, groups);
            }
        const own_items<In> in(s.in), out(s.out);
        return columns_apart(s, in, out, groups);
    }
    const int64 runs = (s.outputs + COUNT * groups - 1) / (COUNT * groups);
    int64 column = static_cast<int64>(blockIdx.x) * THREADS + threadIdx.x;
    int64 run = split(column, s.inner);
    const int64 row = split(run, runs);
    if (row >= s.rows)
        return;
    items.column = s.in + row * s.pitch + column;
    In *to = s.out + row * s.outputs * s.inner + column;
#pragma unroll 1
    for (unsigned g = 0; g < groups; g++) {
        const int64 output = (run * groups + g) * COUNT;
        if (output >= s.outputs)
            return;
        In made[COUNT];
        items.left = first + static_cast<int>(output);
        // Elements of 8 bytes are bound by memory (TUNING.md S10).
        if (sizeof(In) < 8 && items.left >= 0 &&
            items.left + static_cast<int64>(width + COUNT) <= s.n) {
            const inside_items<In, Acc> inside = {items.column + items.left * s.step, s.step};
            circling_window<op_weighted, COUNT, COUNT>(inside, weights, width, made);
        } else {
            circling_window<op_weighted, COUNT, COUNT>(items, weights, width, made);
        }
#pragma unroll
        for (unsigned j = 0; j < COUNT; j++)
            if (output + j < s.outputs)
                to[(output + j) * s.inner] = made[j];
    }
}

} // namespace stencil1d

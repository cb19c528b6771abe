// stencil1d_columns.cuh: rung 5 of stencil1d.cu along an axis that is not the last. Contains no
// kernel.
#pragma once

#include "../stencil1d_plan.cuh"
#include "stencil1d_windows.cuh"

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

template <class In, class Acc> __device__ void columns(const stencil<In, Acc> &s) {
    constexpr unsigned COUNT = STENCIL1D_GROUP;
    const unsigned groups = s.form >> STENCIL1D_GROUPS, width = static_cast<unsigned>(s.width);
    Acc *weights = shared_memory<Acc>();
#pragma unroll 1
    for (unsigned k = threadIdx.x; k < width; k += THREADS)
        weights[k] = s.weights ? static_cast<Acc>(s.weights[k]) : Acc(1);
    __syncthreads();
    const int first = static_cast<int>(s.first - s.before);
    column_items<In, Acc> items = {s, reflection(s.n, s.mode), nullptr, 0,
                                   first + static_cast<int>(s.outputs + s.width) - 2};
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
        if (s.outputs <= COUNT / 2) {
            circling_window<op_weighted, COUNT / 2, COUNT / 2>(items, weights, width, made);
        } else if (sizeof(In) < 8 && items.left >= 0 &&
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

// axis_trees.cuh: how the lanes and warps of a block of reduce_axis.cu join their values. Contains
// no kernel.
#pragma once

#include "../common.cuh"
#include "../reduce_axis_plan.cuh"

namespace axis {

constexpr unsigned BLOCK = AXIS_BLOCK;
constexpr unsigned BLOCKS = 4; // a multiprocessor: bounds a kernel's registers

// --- trees

template <class T> __device__ T from_lane(T value, unsigned distance) {
    constexpr unsigned words = (sizeof(T) + 3) / 4;
    union {
        T value;
        unsigned words[words];
    } u = {};
    u.value = value;
#pragma unroll
    for (unsigned i = 0; i < words; i++)
        u.words[i] = __shfl_xor_sync(0xffffffff, u.words[i], distance);
    return u.value;
}

// Lanes in groups of `width`, a power of two; each group reduces to one value.
template <class T, class Join> __device__ T group_tree(T value, unsigned width, const Join &join) {
#pragma unroll 1
    for (unsigned distance = width / 2; distance > 0; distance /= 2)
        value = join(value, from_lane(value, distance));
    return value;
}

// Reduces the block's values to one, in thread 0; `partial` is shared memory with one value a warp.
template <class T, class Join>
__device__ T block_tree(T *partial, T value, const T &nothing, const Join &join) {
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    value = group_tree(value, 32, join);
    if (lane == 0)
        partial[warp] = value;
    __syncthreads();
    if (warp == 0)
        value = group_tree(lane < BLOCK / 32 ? partial[lane] : nothing, 32, join);
    return value;
}

// The same for values of an operation.
template <class Op, class Acc> __device__ Acc group_value(const Op &op, Acc value, unsigned width) {
    op.by_order([&](const auto &one) {
        value = group_tree(value, width, [&](Acc a, Acc b) { return one.apply(a, b); });
    });
    return value;
}
template <class Op, class Acc> __device__ Acc block_value(const Op &op, Acc value) {
    op.by_order([&](const auto &one) {
        value = block_tree(shared_memory<Acc>(), value, op.identity(),
                           [&](Acc a, Acc b) { return one.apply(a, b); });
    });
    return value;
}
// The value of `parts` threads, a power of two, which are `apart` from each other, in the first of
// them: `part` 0. The threads' values are in shared memory as well.
template <class Op, class Acc>
__device__ Acc strided_value(const Op &op, Acc *shared, Acc value, unsigned part, unsigned parts,
                             unsigned apart) {
    op.by_order([&](const auto &one) {
#pragma unroll 1
        for (unsigned half = parts / 2; half > 0; half /= 2) {
            __syncthreads();
            if (part < half) {
                value = one.apply(value, shared[threadIdx.x + half * apart]);
                shared[threadIdx.x] = value;
            }
        }
    });
    return value;
}

// --- shapes of work

__device__ inline unsigned log2_of(unsigned power) { return 31 - unsigned(__clz(int(power))); }

// Shifts the array: values loaded at once are processed IN_TURN at a time by the same instructions.
template <unsigned IN_TURN, class T, unsigned N> __device__ void next_in_turn(T (&loaded)[N]) {
#pragma unroll
    for (unsigned k = 0; k + IN_TURN < N; k++)
        loaded[k] = loaded[k + IN_TURN];
}

} // namespace axis

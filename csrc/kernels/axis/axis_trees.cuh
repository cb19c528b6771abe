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
    union {
        T value;
        unsigned words[sizeof(T) / 4];
    } u = {};
    u.value = value;
#pragma unroll
    for (unsigned i = 0; i < sizeof(T) / 4; i++)
        u.words[i] = __shfl_xor_sync(0xffffffff, u.words[i], distance);
    return u.value;
}

// Lanes in groups of `width`, a power of two; each group reduces to one value.
template <class Op, class Acc> __device__ Acc group_value(const Op &op, Acc value, unsigned width) {
    op.by_order([&](const auto &one) {
#pragma unroll 1
        for (unsigned distance = width / 2; distance > 0; distance /= 2)
            value = one.apply(value, from_lane(value, distance));
    });
    return value;
}
// Reduces the block's values to one, in thread 0, through shared memory: a value a warp.
template <class Op, class Acc> __device__ Acc block_value(const Op &op, Acc value) {
    Acc *partial = shared_memory<Acc>();
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    value = group_value(op, value, 32);
    if (lane == 0)
        partial[warp] = value;
    __syncthreads();
    return warp == 0 ? group_value(op, lane < BLOCK / 32 ? partial[lane] : op.identity(), 32)
                     : value;
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

// Shifts the array: its values are processed in turn by the same instructions.
template <class T, unsigned N> __device__ void next_in_turn(T (&loaded)[N]) {
#pragma unroll
    for (unsigned k = 0; k + 1 < N; k++)
        loaded[k] = loaded[k + 1];
}

} // namespace axis

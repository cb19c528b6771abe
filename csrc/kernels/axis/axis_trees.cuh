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

template <class Op> struct applying {
    const Op &op;
    __device__ typename Op::Acc operator()(typename Op::Acc a, typename Op::Acc b) const {
        return op.apply(a, b);
    }
};

// --- shapes of work

__device__ inline unsigned log2_of(unsigned power) { return 31 - unsigned(__clz(int(power))); }

// Shifts the array: values loaded at once are processed IN_TURN at a time by the same instructions.
template <unsigned IN_TURN, class T, unsigned N> __device__ void next_in_turn(T (&loaded)[N]) {
#pragma unroll
    for (unsigned k = 0; k + IN_TURN < N; k++)
        loaded[k] = loaded[k + IN_TURN];
}

} // namespace axis

// stencil1d_windows.cuh: the operations of stencil1d.cu, and the windows that several shapes of its
// rung 5 share. Contains no kernel.
#pragma once

#include "../stencil1d.cuh"

namespace stencil1d {

// sum + weight * element; integers wrap.
struct op_sum {
    static constexpr bool shares = true; // windows share partial sums
    template <class Acc> static __device__ Acc add(Acc sum, Acc item, Acc) {
        using W = typename wrapping<Acc>::type;
        return static_cast<Acc>(W(sum) + W(item));
    }
    template <class Acc>
    static __device__ Acc add(Acc sum, Acc item, const typename given<Acc>::type *, int64) {
        return add(sum, item, Acc(1));
    }
};
struct op_weighted {
    static constexpr bool shares = false;
    template <class Acc> static __device__ Acc add(Acc sum, Acc item, Acc weight) {
        using W = typename wrapping<Acc>::type;
        return static_cast<Acc>(W(sum) + W(weight) * W(item));
    }
    template <class Acc>
    static __device__ Acc add(Acc sum, Acc item, const typename given<Acc>::type *weights,
                              int64 k) {
        return add(sum, item, static_cast<Acc>(__ldg(&weights[k])));
    }
};

// Integers wrap.
template <class T> __device__ T sum_of(T a, T b) {
    using W = typename wrapping<T>::type;
    return static_cast<T>(W(a) + W(b));
}

// One output of all rows, element by element: used for a few. A call, as beyond_ends.
template <class Op, class In, class Acc>
__device__ __noinline__ In plain_sum(stencil<In, Acc> rows, int64 output) {
    const stencil<In, Acc> s = rows.row_of(output);
    Acc sum = 0;
    for (int64 k = 0; k < s.width; k++)
        sum = Op::add(sum, s.read(s.first + output - s.before + k), s.weights, k);
    return static_cast<In>(sum);
}

// A thread of rung 5 has GROUP adjacent outputs, an odd number, so that adjacent threads, GROUP
// elements apart, use different banks.
constexpr unsigned GROUP = 15, THREADS = 128, TILE = GROUP * THREADS, WARP = 32;
// The same where tiles are few, so that a thread ends sooner.
constexpr unsigned FEW = STENCIL1D_FEW_GROUP;

// The first position of the thread's warp.
__device__ inline unsigned warp_begin(unsigned group) {
    return threadIdx.x / WARP * (WARP * group);
}

// Windows that share nothing: weighted ones, and those narrower than a group. SLOTS elements slide
// through a thread's registers in a circle: element k + j, for output j, is in window[(k + j) %
// SLOTS], a constant in the unrolled loop. One load of an element, or of a weight, serves COUNT
// outputs.
template <class Op, unsigned SLOTS, unsigned COUNT, class Acc>
__device__ void add_items(Acc (&sums)[COUNT], const Acc (&window)[SLOTS], const Acc *weights,
                          unsigned k) {
    const Acc weight = Op::shares ? Acc(1) : *weights;
#pragma unroll
    for (unsigned j = 0; j < COUNT; j++)
        sums[j] = Op::add(sums[j], window[(k + j) % SLOTS], weight);
}
// Forces an element of 4 bytes now: the compiler would defer the conversion until the store, and
// keep the 8-byte value live.
__device__ inline void settle(int32 &item) { asm volatile("" : "+r"(item)); }
__device__ inline void settle(float32 &item) { asm volatile("" : "+f"(item)); }
template <class In> __device__ inline void settle(In &) {}

template <class Op, unsigned SLOTS, unsigned COUNT, class Items, class In, class Acc>
__device__ void circling_window(Items items, const Acc *weights, unsigned width, In *outputs) {
    Acc window[SLOTS], sums[COUNT];
#pragma unroll
    for (unsigned j = 0; j < COUNT; j++) {
        window[j] = static_cast<Acc>(items[j]);
        sums[j] = 0;
    }
    items += COUNT;
#pragma unroll 1
    for (; width > SLOTS; width -= SLOTS, items += SLOTS, weights += SLOTS) {
#pragma unroll
        for (unsigned k = 0; k < SLOTS; k++) {
            add_items<Op>(sums, window, weights + k, k);
            window[(k + COUNT) % SLOTS] = static_cast<Acc>(items[k]);
        }
    }
#pragma unroll
    for (unsigned k = 0; k < SLOTS; k++) {
        add_items<Op>(sums, window, weights + k, k);
        if (k + 1 == width)
            break;
        window[(k + COUNT) % SLOTS] = static_cast<Acc>(items[k]);
    }
#pragma unroll
    for (unsigned j = 0; j < COUNT; j++) {
        outputs[j] = static_cast<In>(sums[j]);
        settle(outputs[j]);
    }
}

// From the inputs in `tile` to the outputs of the thread's own warp in `outputs`, which may overlap
// the inputs. All sums and 8-byte elements at once would exceed the registers.
template <class Op, class In, class Acc>
__device__ void windows_of_tile(const In *tile, In *outputs, const Acc *weights, unsigned width) {
    constexpr unsigned HALF = (GROUP + 1) / 2;
    const unsigned own = threadIdx.x * GROUP;
    In made[GROUP];
    if constexpr (sizeof(Acc) == 4) {
        circling_window<Op, GROUP + 1, GROUP>(tile + own, weights, width, made);
    } else {
        circling_window<Op, HALF, HALF>(tile + own, weights, width, made);
        circling_window<Op, HALF, GROUP - HALF>(tile + own + HALF, weights, width, made + HALF);
    }
    __syncthreads();
#pragma unroll
    for (unsigned k = 0; k < GROUP; k++)
        outputs[own + k] = made[k];
    __syncwarp();
}

} // namespace stencil1d

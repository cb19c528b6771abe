// vector.cu: the first kernels of deck D1: add, x + y, and saxpy, a * x + y, item by item.
//
// Two families with the same rungs. A rung's comment says what is new against the one before.
//
// To add a rung: a row in RUNGS, a template below, and its name in the list at the end.

#define ADD_SIGNATURES(SIGNATURE)    \
    SIGNATURE(add, int32, int32)     \
    SIGNATURE(add, int64, int64)     \
    SIGNATURE(add, float32, float32) \
    SIGNATURE(add, float64, float64)
#define SAXPY_SIGNATURES(SIGNATURE)    \
    SIGNATURE(saxpy, float32, float32) \
    SIGNATURE(saxpy, float64, float64)

#ifdef GPUOPT_RUNGS
// clang-format off
//   number, name, kernel, lesson, source,
//   threads a block (least, most, default: the deck's), items a thread (0: a loop), flags,
//   the deck's time: it gives none
RUNG(1, "one-thread", "vector_1",
     "one thread does it all: a GPU's thread is slow",
     "D1 add<<<1, 1>>>", 1, 1, 1, 0, 0, 0)
RUNG(2, "blocks", "vector_2",
     "N blocks of one thread: every warp has one lane that works",
     "D1 add<<<N, 1>>>", 1, 1, 1, 1, 0, 0)
RUNG(3, "threads", "vector_3",
     "one block of N threads: one multiprocessor works, and N is at most 1,024",
     "D1 add<<<1, N>>>", 0, 0, 0, 1, 0, 0)
RUNG(4, "blocks-threads", "vector_4",
     "N / M blocks of M threads: the whole GPU works, if M divides N",
     "D1 add<<<N/M, M>>>", 32, 1024, 512, 1, 0, 0)
RUNG(5, "bounds", "vector_5",
     "a block more and a bounds check: any N",
     "D1 add<<<(N + M - 1)/M, M>>>", 32, 1024, 512, 1, RUNG_BEST, 0)
RUNG(6, "grid-stride", "vector_6",
     "as many threads as the GPU holds, each with a loop: the grid no longer depends on N",
     "after D4, reduction 7", 32, 1024, 512, 0, 0, 0)
// clang-format on
#else

#include "common.cuh"

namespace vector {

template <class T> struct wrapping { using type = T; };
template <> struct wrapping<int32> { using type = uint32_t; };
template <> struct wrapping<int64> { using type = uint64; };

struct op_add { // integers wrap
    template <class T> static __device__ T apply(T, T x, T y) {
        using W = typename wrapping<T>::type;
        return static_cast<T>(W(x) + W(y));
    }
};
struct op_saxpy { // the compiler makes it one fused operation
    template <class T> static __device__ T apply(T a, T x, T y) { return a * x + y; }
};

template <class Op, class T>
__device__ void vector_1(const T *x, const T *y, T *out, uint64 n, T a) {
    for (uint64 i = 0; i < n; i++)
        out[i] = Op::apply(a, x[i], y[i]);
}

// New: a block an item.
template <class Op, class T> __device__ void vector_2(const T *x, const T *y, T *out, uint64, T a) {
    const unsigned i = blockIdx.x;
    out[i] = Op::apply(a, x[i], y[i]);
}

// New: a thread an item.
template <class Op, class T> __device__ void vector_3(const T *x, const T *y, T *out, uint64, T a) {
    const unsigned i = threadIdx.x;
    out[i] = Op::apply(a, x[i], y[i]);
}

// New: both.
template <class Op, class T> __device__ void vector_4(const T *x, const T *y, T *out, uint64, T a) {
    const uint64 i = global_thread();
    out[i] = Op::apply(a, x[i], y[i]);
}

// New: threads beyond the end do nothing.
template <class Op, class T>
__device__ void vector_5(const T *x, const T *y, T *out, uint64 n, T a) {
    const uint64 i = global_thread();
    if (i < n)
        out[i] = Op::apply(a, x[i], y[i]);
}

// New: a thread goes on to the item that lies a whole grid further.
template <class Op, class T>
__device__ void vector_6(const T *x, const T *y, T *out, uint64 n, T a) {
    for (uint64 i = global_thread(); i < n; i += global_threads())
        out[i] = Op::apply(a, x[i], y[i]);
}

// --- the kernels: vector_<rung>_<operation>_<items>_<items>

using type_int32 = int32;
using type_int64 = int64;
using type_float32 = float32;
using type_float64 = float64;

#define VECTOR_KERNEL(rung, op, items, same)                                       \
    extern "C" __global__ void rung##_##op##_##items##_##same(                     \
        const type_##items *x, const type_##items *y, type_##items *out, uint64 n, \
        type_##items a) {                                                          \
        rung<op_##op>(x, y, out, n, a);                                            \
    }
#define VECTOR_EVERY_RUNG(op, items, same)   \
    VECTOR_KERNEL(vector_1, op, items, same) \
    VECTOR_KERNEL(vector_2, op, items, same) \
    VECTOR_KERNEL(vector_3, op, items, same) \
    VECTOR_KERNEL(vector_4, op, items, same) \
    VECTOR_KERNEL(vector_5, op, items, same) \
    VECTOR_KERNEL(vector_6, op, items, same)

ADD_SIGNATURES(VECTOR_EVERY_RUNG)
SAXPY_SIGNATURES(VECTOR_EVERY_RUNG)

} // namespace vector

#endif

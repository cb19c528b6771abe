// reduce_ops.cuh: the operations of reduce.cu on one element and on accumulators. Contains no
// kernel.
#pragma once

#include "common.cuh"

// load() converts an element to the accumulator's type, apply() combines two, and apply(identity(),
// x) is x.

template <class T> struct limits;
template <> struct limits<int32> {
    static __device__ int32 lowest() { return INT32_MIN; }
    static __device__ int32 highest() { return INT32_MAX; }
};
template <> struct limits<int64> {
    static __device__ int64 lowest() { return INT64_MIN; }
    static __device__ int64 highest() { return INT64_MAX; }
};
template <> struct limits<float32> {
    static __device__ float32 lowest() { return -__int_as_float(0x7f800000); }
    static __device__ float32 highest() { return __int_as_float(0x7f800000); }
};
template <> struct limits<float64> {
    static __device__ float64 lowest() { return -__longlong_as_double(0x7ff0000000000000); }
    static __device__ float64 highest() { return __longlong_as_double(0x7ff0000000000000); }
};

template <class Acc, class In> __device__ Acc load(In item) { return static_cast<Acc>(item); }
template <> __device__ int64 load<int64, boolean>(boolean item) { return item != 0; }
template <> __device__ boolean load<boolean, boolean>(boolean item) { return boolean(item != 0); }

struct op_sum {
    template <class T> static __device__ T identity() { return T(0); }
    template <class T> static __device__ T apply(T a, T b) {
        using W = typename wrapping<T>::type;
        return T(W(a) + W(b));
    }
};
struct op_prod {
    template <class T> static __device__ T identity() { return T(1); }
    template <class T> static __device__ T apply(T a, T b) {
        using W = typename wrapping<T>::type;
        return T(W(a) * W(b));
    }
};
struct op_min {
    template <class T> static __device__ T identity() { return limits<T>::highest(); }
    template <class T> static __device__ T apply(T a, T b) { return lesser(a, b); }
};
struct op_max {
    template <class T> static __device__ T identity() { return limits<T>::lowest(); }
    template <class T> static __device__ T apply(T a, T b) { return greater(a, b); }
};
struct op_and {
    template <class T> static __device__ T identity() { return T(sizeof(T) == 1 ? 1 : -1); }
    template <class T> static __device__ T apply(T a, T b) { return T(a & b); }
};
struct op_or {
    template <class T> static __device__ T identity() { return T(0); }
    template <class T> static __device__ T apply(T a, T b) { return T(a | b); }
};
struct op_xor {
    template <class T> static __device__ T identity() { return T(0); }
    template <class T> static __device__ T apply(T a, T b) { return T(a ^ b); }
};

template <class A, class B> constexpr bool same = false;
template <class A> constexpr bool same<A, A> = true;

template <class Op, class Acc, class In>
__device__ Acc load_or_identity(const In *in, uint64 i, uint64 n) {
    return i < n ? load<Acc>(in[i]) : Op::template identity<Acc>();
}

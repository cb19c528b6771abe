// halves.cuh: the 16-bit floating-point types, and their conversions. Contains no kernel.
#pragma once

#include "common.cuh"

struct half { // its bits
    uint16_t bits;
};
struct bfloat { // bfloat16's bits: the upper half of a float32's
    uint16_t bits;
};

__device__ inline float32 widened(half item) {
    float32 value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(item.bits));
    return value;
}
__device__ inline float32 widened(bfloat item) { return __int_as_float(int32(item.bits) << 16); }
__device__ inline float32 widened(float32 item) { return item; }
__device__ inline float64 widened(float64 item) { return item; }

// To the nearest value, ties to even.
template <class T> __device__ inline T narrowed(float64 value);
template <> __device__ inline half narrowed<half>(float64 value) {
    half item;
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(item.bits) : "d"(value));
    return item;
}
__device__ inline bfloat rounded_bits(uint32_t bits) {
    return bfloat{uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
// Rounded once: bits lost in the conversion to float32 survive as an odd last bit.
template <> __device__ inline bfloat narrowed<bfloat>(float64 value) {
    const float32 cut = __double2float_rz(value);
    const uint32_t bits = uint32_t(__float_as_int(cut)) | (float64(cut) != value);
    return value != value ? bfloat{uint16_t(bits >> 16 | 0x40)} : rounded_bits(bits);
}
template <class T> __device__ inline T narrowed(float32 value);
template <> __device__ inline half narrowed<half>(float32 value) {
    half item;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(item.bits) : "f"(value));
    return item;
}
template <> __device__ inline bfloat narrowed<bfloat>(float32 value) {
    const uint32_t bits = uint32_t(__float_as_int(value));
    return value != value ? bfloat{uint16_t(bits >> 16 | 0x40)} : rounded_bits(bits);
}
// The same to any floating-point type, from the one that it is computed in.
template <class T, class From> __device__ inline T rounded(From value) {
    if constexpr (sizeof(T) == sizeof(From))
        return value;
    else
        return narrowed<T>(value);
}

// matmul_operands.cuh: a block's part of a product of any shape and layout, guarded loads of its
// operands, and stores of its sums. Contains no kernel.
#pragma once

#include "../halves.cuh"
#include "../matmul_plan.cuh"
#include "matmul_tile.cuh"

namespace matmul {

// The type that products are added in.
template <class T> struct summed { using type = float32; };
template <> struct summed<float64> { using type = float64; };
template <class T> using sum_of = typename summed<T>::type;

// A block's part of the work: a tile of a product of the stack, and steps `first` to `end` - 1 of
// k.
struct block_part {
    uint64 product, first, end;
    unsigned tile, slice;
};
__device__ inline block_part block_part_of(const matmul_plan &plan, unsigned block = blockIdx.x) {
    const unsigned tiles = static_cast<unsigned>(plan.tiles); // at most the number of blocks
    const unsigned rest = block / tiles, product = rest / plan.slices;
    block_part part;
    part.tile = block - rest * tiles;
    part.product = product;
    part.slice = rest - product * plan.slices;
    part.first = part.slice * plan.chunk;
    part.end = min(uint64(plan.k), uint64(part.first + plan.chunk));
    return part;
}

// The operands of one product of the stack.
template <class T> struct operands { const T *a, *b; };
template <class T>
__device__ operands<T> operands_of(const T *a, const T *b, const matmul_plan &plan,
                                   uint64 product) {
    operands<T> found = {plan.is_swapped ? b : a, plan.is_swapped ? a : b};
#pragma unroll 1
    for (unsigned k = 0; k < plan.axis_count; k++) {
        const matmul_axis &axis = plan.axes[k];
        // The division of 32 bits is four times as fast.
        const uint64 rest = (product | axis.extent) >> 32
                                ? product / axis.extent
                                : unsigned(product) / unsigned(axis.extent);
        const int64 at = static_cast<int64>(product - rest * axis.extent);
        found.a += at * axis.a;
        found.b += at * axis.b;
        product = rest;
    }
    return found;
}

// Stores a sum as a result, or as the sum of a slice.
template <class T>
__device__ void store_sum(sum_of<T> sum, T *c, sum_of<T> *partials, const matmul_plan &plan,
                          const block_part &part, uint64 row, uint64 column) {
    const uint64 at = part.product * plan.m * plan.n + row * plan.c_row + column * plan.c_column;
    if (plan.slices == 1)
        c[at] = rounded<T>(sum);
    else
        partials[part.slice * plan.outputs + at] = sum;
}

// Loads an element, or none, while other loads are in flight; the compiler's branch around a load
// would wait for each.
template <class T> __device__ void load_if(unsigned there, const T *from, T &item) {
#define MATMUL_LOAD_IF(bits, type, value, space)                                        \
    asm volatile("{ .reg .pred there; setp.ne.u32 there, %2, 0; @there ld.global." bits \
                 " %0, [%1]; }"                                                         \
                 : "+" type(reinterpret_cast<space &>(value))                           \
                 : "l"(from), "r"(there))
    if constexpr (sizeof(T) == 2)
        MATMUL_LOAD_IF("u16", "h", item, uint16_t);
    else if constexpr (sizeof(T) == 4)
        MATMUL_LOAD_IF("f32", "f", item, float32);
    else
        MATMUL_LOAD_IF("f64", "d", item, float64);
#undef MATMUL_LOAD_IF
}
template <class T> __device__ T load_if(unsigned there, const T *from) {
    T item = {};
    load_if(there, from, item);
    return item;
}
// The same for PANEL<T> adjacent elements.
template <class T> __device__ void load_words_if(unsigned there, const T *from, T *items) {
    if constexpr (sizeof(T) == 2)
        asm volatile("{ .reg .pred there; setp.ne.u32 there, %5, 0;"
                     " @there ld.global.v4.u16 {%0, %1, %2, %3}, [%4]; }"
                     : "+h"(items[0].bits), "+h"(items[1].bits), "+h"(items[2].bits),
                       "+h"(items[3].bits)
                     : "l"(from), "r"(there));
    else if constexpr (sizeof(T) == 4)
        asm volatile("{ .reg .pred there; setp.ne.u32 there, %5, 0;"
                     " @there ld.global.v4.f32 {%0, %1, %2, %3}, [%4]; }"
                     : "+f"(items[0]), "+f"(items[1]), "+f"(items[2]), "+f"(items[3])
                     : "l"(from), "r"(there));
    else
        asm volatile("{ .reg .pred there; setp.ne.u32 there, %3, 0;"
                     " @there ld.global.v2.f64 {%0, %1}, [%2]; }"
                     : "+d"(items[0]), "+d"(items[1])
                     : "l"(from), "r"(there));
}

} // namespace matmul

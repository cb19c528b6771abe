// stencil1d_narrow.cuh: elements of rung 5 of stencil1d.cu that are narrower in memory, and tiles
// of them. Contains no kernel.
#pragma once

#include "../halves.cuh"
#include "stencil1d_windows.cuh"

namespace stencil1d {

template <class In> constexpr bool IS_FLOAT = In(0.5) != In(0);
// Not for plain sums of integers with a constant that is none: passes convert their elements.
template <class Op, class In, class Acc>
constexpr bool HAS_NARROW = sizeof(In) == 4 && (!Op::shares || IS_FLOAT<In> || !IS_FLOAT<Acc>);

// Elements of 1 or 2 bytes in memory: float16 if the kernel's are float32, else integers.
template <class In> struct narrow_items {
    uint64 begin;  // their address
    unsigned log;  // the logarithm of an element's bytes
    unsigned sign; // the bit of its sign, or 0

    __device__ narrow_items(const In *items, unsigned narrow)
        : begin(__cvta_generic_to_global(items)), log(IS_FLOAT<In> || !(narrow & STENCIL1D_BYTE)),
          sign(narrow & STENCIL1D_SIGNED ? 128u << 8 * log : 0) {}
    __device__ int64 distance(int64 items) const { return items << log; }
    __device__ uint64 at(int64 index) const { return begin + distance(index); }
    // An element's bits if it is `there`; else 0 (as own_items).
    __device__ unsigned load(uint64 place, bool there = true) const {
        unsigned bits = 0;
        asm volatile("{ .reg .pred one, two;\n"
                     "setp.eq.u32 one, %2, 1;\n"
                     "setp.eq.u32 two, %2, 2;\n"
                     "@one ld.global.u8 %0, [%1];\n"
                     "@two ld.global.u16 %0, [%1]; }"
                     : "+r"(bits)
                     : "l"(place), "r"(there ? 1u << log : 0));
        return bits;
    }
    __device__ In widened(unsigned bits) const {
        if constexpr (IS_FLOAT<In>)
            return ::widened(half{static_cast<uint16_t>(bits)});
        else
            return static_cast<In>(bits ^ sign) - static_cast<In>(sign);
    }
    __device__ void store(uint64 place, In item) const {
        unsigned bits;
        if constexpr (IS_FLOAT<In>)
            bits = ::narrowed<half>(item).bits;
        else
            bits = static_cast<unsigned>(item);
        asm volatile("{ .reg .pred two;\n"
                     "setp.ne.u32 two, %2, 0;\n"
                     "@!two st.global.u8 [%0], %1;\n"
                     "@two st.global.u16 [%0], %1; }" ::"l"(place),
                     "r"(bits), "r"(log)
                     : "memory");
    }
};

// The element that begins `bytes` after the first of shared memory.
template <class T> __device__ T *in_shared(unsigned bytes) {
    return reinterpret_cast<T *>(shared_memory<unsigned char>() + bytes);
}

// Inputs and outputs of tiles, which begin at byte `tile` of shared memory. Calls, to keep their
// registers away from the sums of wide elements.
template <class In, class Acc>
__device__ __noinline__ void load_narrow(stencil<In, Acc> s, unsigned tile, unsigned positions,
                                         unsigned group) {
    load_positions<THREADS>(tile_of_rows<In, Acc>(s, group * THREADS),
                            narrow_items<In>(s.in, s.narrow()), in_shared<In>(tile), 0,
                            int(positions), static_cast<In>(s.beyond));
}
template <class In, class Acc>
__device__ __noinline__ void store_narrow(stencil<In, Acc> s, unsigned tile, unsigned group) {
    store_positions(tile_of_rows<In, Acc>(s, group * THREADS), narrow_items<In>(s.out, s.narrow()),
                    in_shared<In>(tile), int(warp_begin(group)), int(group));
}

} // namespace stencil1d

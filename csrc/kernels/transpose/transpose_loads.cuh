// transpose_loads.cuh: vectors, their loads and their stores in rung 7 of transpose.cu. Contains no
// kernel.
#pragma once

#include "../common.cuh"
#include "../transpose_plan.cuh"

namespace transpose {

constexpr unsigned TILES_BLOCK = 256; // threads

// Type that holds an element in shared memory, also in the other tiles of rung 7; and 16 bytes of
// both.
template <unsigned Item> struct word_of { using type = unsigned; };
template <> struct word_of<8> { using type = uint64; };
template <> struct word_of<16> { using type = uint4; };

template <class T> struct vec {
    using word = typename word_of<sizeof(T)>::type;
    static constexpr unsigned ITEMS = 16 / sizeof(T);
    static constexpr unsigned WORDS = 16 / sizeof(word);
    union {
        uint4 all;
        word words[WORDS];
        T items[ITEMS];
    };
};

__device__ inline unsigned least(uint64 a, unsigned b) { return a < b ? unsigned(a) : b; }

// A load that lets L2 fetch the 256 bytes around it: tiles whose rows are shorter, or unaligned,
// read the rest of them next (TUNING.md T5).
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
__device__ inline uint4 load_around(const uint4 *from) {
    uint4 v;
    asm volatile("ld.global.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from));
    return v;
}
__device__ inline unsigned load_around(const unsigned *from) {
    unsigned v;
    asm volatile("ld.global.L2::256B.u32 %0, [%1];" : "=r"(v) : "l"(from));
    return v;
}
__device__ inline uint64 load_around(const uint64 *from) {
    uint64 v;
    asm volatile("ld.global.L2::256B.u64 %0, [%1];" : "=l"(v) : "l"(from));
    return v;
}
#else
template <class Word> __device__ inline Word load_around(const Word *from) { return *from; }
#endif
// The same for elements that may be narrower, for which there is no such load.
template <class T> __device__ inline T load_near(const T *from) {
    if constexpr (sizeof(T) >= 4)
        return load_around(from);
    else
        return *from;
}

// Copies a word or a vector to shared memory without registers and without waiting, with the 256
// bytes around it as above or without; before sm_80 a thread waits for each.
template <bool Around = true, class Word> __device__ void copy_async(Word *to, const Word *from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    const unsigned position = static_cast<unsigned>(__cvta_generic_to_shared(to));
    if constexpr (sizeof(Word) == 16 && !Around)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(position), "l"(from)
                     : "memory");
    else if constexpr (!Around)
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(position), "l"(from),
                     "n"(sizeof(Word))
                     : "memory");
    else if constexpr (sizeof(Word) == 16)
        asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(position), "l"(from)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global.L2::256B [%0], [%1], %2;" ::"r"(position),
                     "l"(from), "n"(sizeof(Word))
                     : "memory");
#else
    *to = *from;
#endif
}
__device__ inline void wait_for_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// The first `bytes` of vector a, and the rest of vector b.
__device__ inline uint4 join_vectors(const uint4 &a, const uint4 &b, int bytes) {
    const auto join = [&](unsigned x, unsigned y, int low) {
        const unsigned rest = __funnelshift_lc(0, ~0u, low < 0 ? 0u : unsigned(low) * 8);
        return (x & ~rest) | (y & rest);
    };
    return make_uint4(join(a.x, b.x, bytes), join(a.y, b.y, bytes - 4), join(a.z, b.z, bytes - 8),
                      join(a.w, b.w, bytes - 12));
}

// Stores the first bytes of a vector in the fewest accesses: the shortest first if the end is
// aligned, last if the start is.
template <class T> __device__ void store_pieces(T *to, uint4 items, unsigned bytes, bool ends) {
    char *at = reinterpret_cast<char *>(to);
    const auto piece = [&](auto word, bool now) {
        constexpr unsigned SIZE = sizeof(word), BITS = SIZE % 4 * 8;
        if (SIZE < sizeof(T) || !now || !(bytes & SIZE))
            return;
        const vec<decltype(word)> found = {items};
        *reinterpret_cast<decltype(word) *>(at) = found.items[0];
        at += SIZE;
        if (SIZE < 4)
            items = make_uint4(__funnelshift_r(items.x, items.y, BITS),
                               __funnelshift_r(items.y, items.z, BITS),
                               __funnelshift_r(items.z, items.w, BITS), items.w >> BITS);
        else
            items = SIZE == 4 ? make_uint4(items.y, items.z, items.w, 0)
                              : make_uint4(items.z, items.w, 0, 0);
    };
    piece(uint8_t{}, ends), piece(uint16_t{}, ends), piece(unsigned{}, ends);
    piece(uint64{}, true);
    piece(unsigned{}, !ends), piece(uint16_t{}, !ends), piece(uint8_t{}, !ends);
}

} // namespace transpose

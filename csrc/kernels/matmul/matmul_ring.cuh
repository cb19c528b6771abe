// matmul_ring.cuh: the tiles of a and b of matmul.cu's rungs from 8 on, which pass through a ring
// of stages in shared memory by asynchronous copies. Contains no kernel.
#pragma once

#include "matmul_tile.cuh"

namespace matmul {

// An address in shared memory, in bytes; 32 bits, where a pointer has 64. Opaque to the compiler,
// which would otherwise recompute it from the thread's index at each use.
using address = unsigned;
__device__ inline address address_of(const void *shared) {
    address found = static_cast<address>(__cvta_generic_to_shared(shared));
    asm volatile("" : "+r"(found));
    return found;
}
template <class T> __device__ inline T *at(address from, unsigned items = 0) {
    return reinterpret_cast<T *>(__cvta_shared_to_generic(from)) + items;
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
// Also opaque. The compiler no longer knows that it points to global memory, which `copy` does not
// require.
template <class T> __device__ inline const T *kept(const T *from) {
    asm volatile("" : "+l"(from));
    return from;
}
// Copies from global to shared memory without registers and without waiting; writes zeros if the
// source does not exist.
template <class Unit> __device__ inline void copy(address to, const void *from) {
    if (sizeof(Unit) == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from),
                     "n"(sizeof(Unit)));
}
template <class Unit> __device__ inline void copy(address to, const void *from, bool there) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from),
                 "n"(sizeof(Unit)), "r"(there ? static_cast<unsigned>(sizeof(Unit)) : 0u));
}
__device__ inline void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <unsigned Pending> __device__ inline void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}
#else
// Before sm_80 a thread waits for its load and stores the result.
template <class T> __device__ inline const T *kept(const T *from) { return from; }
template <class Unit> __device__ inline void copy(address to, const void *from, bool there = true) {
    *at<Unit>(to) = there ? *static_cast<const Unit *>(from) : Unit{};
}
__device__ inline void commit() {}
template <unsigned Pending> __device__ inline void wait() {}
#endif

// A thread's part in copying tiles of a and b to shared memory, b by words or by elements. The
// edges of c need no checks: reads past them repeat the last row or column, and those outputs are
// never stored. Only the first tile may be less than Depth deep; it is padded with zeros.
template <class Tiling, bool Words, class T> struct loader {
    static constexpr unsigned Wide = WIDE<T>, Depth = Tiling::Depth, Threads = Tiling::Threads;
    // A tile of a is stored in shared memory by columns, with a word of padding each: no bank
    // conflicts. It is copied by elements: 8 steps of k, Threads / 8 rows at a time.
    static constexpr unsigned Pitch = Tiling::Rows + Wide;
    static constexpr unsigned ARows = 8 * Tiling::Rows / Threads, ASteps = Depth / 8;
    static_assert(ARows * Threads == 8 * Tiling::Rows && ASteps * 8 == Depth, "whole copies");
    static constexpr unsigned BAcross = Tiling::Columns / Wide, BDown = Threads / BAcross;
    static constexpr unsigned BWords = Depth / BDown;
    static_assert(BDown * BAcross == Threads && BWords * BDown == Depth, "whole copies");
    static constexpr unsigned Stage = Depth * (Pitch + Tiling::Columns); // elements

    const T *a_from[ARows], *b_from[BWords];
    uint64 b_step;      // elements from one whole tile to the next
    address a_to, b_to; // in the first stage
    unsigned last;      // element of a word of b that is inside

    __device__ loader(const T *a, const T *b, uint64 m, uint64 n, uint64 pitch, corner tile,
                      T *ring, unsigned thread)
        : b_step(Depth * n) {
        const unsigned row = thread / 8, step = thread % 8;
#pragma unroll
        for (unsigned i = 0; i < ARows; i++)
            a_from[i] = a + least(tile.row + row + i * (Threads / 8), m - 1) * pitch + step;
        a_to = address_of(ring + step * Pitch + row);
        const unsigned b_row = thread / BAcross, b_column = thread % BAcross * Wide;
        const uint64 column = least(tile.column + b_column, (n - 1) / Wide * Wide);
        last = static_cast<unsigned>(least(n - 1 - column, Wide - 1));
#pragma unroll
        for (unsigned i = 0; i < BWords; i++)
            b_from[i] = b + (b_row + i * BDown) * n + column;
        b_to = address_of(ring + Depth * Pitch + b_row * Tiling::Columns + b_column);
    }
    __device__ static uint64 least(uint64 a, uint64 b) { return a < b ? a : b; }

    // Issues the copy of the next tile of a, or of b, to the stage at this byte offset.
    __device__ void load_a(unsigned stage) {
#pragma unroll
        for (unsigned i = 0; i < ARows; i++) {
#pragma unroll
            for (unsigned s = 0; s < ASteps; s++)
                copy<T>(a_slot(stage, s, i), a_from[i] + s * 8);
            a_from[i] += Depth;
        }
    }
    __device__ void load_b(unsigned stage) {
#pragma unroll
        for (unsigned i = 0; i < BWords; i++) {
            if (Words)
                copy<word<T>>(b_slot(stage, i), b_from[i]);
            else
#pragma unroll
                for (unsigned each = 0; each < Wide; each++)
                    copy<T>(b_slot(stage, i) + each * sizeof(T),
                            b_from[i] + (each < last ? each : last));
            b_from[i] += b_step;
        }
    }
    // The first tiles, which have `depth` steps of k.
    __device__ void load_first(unsigned depth, uint64 n, unsigned thread) {
#pragma unroll
        for (unsigned s = 0; s < ASteps; s++)
#pragma unroll
            for (unsigned i = 0; i < ARows; i++)
                copy<T>(a_slot(0, s, i), a_from[i] + s * 8, thread % 8 + s * 8 < depth);
#pragma unroll
        for (unsigned i = 0; i < BWords; i++) {
            const bool there = thread / BAcross + i * BDown < depth;
#pragma unroll
            for (unsigned each = 0; each < Wide; each++)
                copy<T>(b_slot(0, i) + each * sizeof(T), b_from[i] + (each < last ? each : last),
                        there);
            b_from[i] = kept(b_from[i] + depth * n);
        }
#pragma unroll
        for (unsigned i = 0; i < ARows; i++)
            a_from[i] = kept(a_from[i] + depth);
    }
    __device__ address a_slot(unsigned stage, unsigned s, unsigned i) const {
        return a_to + stage + (s * 8 * Pitch + i * (Threads / 8)) * sizeof(T);
    }
    __device__ address b_slot(unsigned stage, unsigned i) const {
        return b_to + stage + i * BDown * Tiling::Columns * sizeof(T);
    }
};

// Adds the sums of the slices to those of the first, in order.
template <class Tiling, class T>
__device__ void add_slices(outputs<Tiling, T> &mine, T *shared, unsigned slice, unsigned thread) {
    constexpr unsigned Rows = mine.Rows, Columns = mine.Columns;
    for (unsigned other = 1; other < Tiling::Slices; other++) {
        __syncthreads();
#pragma unroll
        for (unsigned i = 0; i < Rows; i++)
#pragma unroll
            for (unsigned j = 0; j < Columns; j++)
                if (slice == other)
                    shared[(i * Columns + j) * Tiling::SliceThreads + thread] = mine.sums[i][j];
        __syncthreads();
#pragma unroll
        for (unsigned i = 0; i < Rows; i++)
#pragma unroll
            for (unsigned j = 0; j < Columns; j++)
                if (slice == 0)
                    mine.sums[i][j] += shared[(i * Columns + j) * Tiling::SliceThreads + thread];
    }
}

// Multiplies the first k columns of a, whose rows are `pitch` apart, by the first k rows of b. The
// copies of the next tiles are issued between the steps (TUNING.md M2).
template <class Tiling, bool Words, class T>
__device__ void multiply_tiles(outputs<Tiling, T> &mine, const T *a, const T *b, uint64 m, uint64 n,
                               uint64 k, uint64 pitch, corner tile, T *ring, unsigned thread) {
    using Loader = loader<Tiling, Words, T>;
    constexpr unsigned Depth = Tiling::Depth, Stages = Tiling::Stages;
    constexpr unsigned Steps = Depth / Tiling::Slices; // of k, a warp's in each tile
    constexpr unsigned StepOfA = 2, StepOfB = 5;       // after which they are issued
    constexpr unsigned Stage = Loader::Stage * sizeof(T), Ring = Stages * Stage;
    static_assert(Stages >= 2 && Steps % 2 == 0, "the stages and the registers take turns");
    static_assert(StepOfB < Steps - 1, "the last step waits for an earlier tile");
    if (!k)
        return;
    Loader next(a, b, m, n, pitch, tile, ring, thread);
    const unsigned tiles = static_cast<unsigned>((k - 1) / Depth + 1);
    unsigned to_load = tiles - 1;
    next.load_first(static_cast<unsigned>(k - (tiles - 1ull) * Depth), n, thread);
    commit();
#pragma unroll
    for (unsigned stage = 1; stage < Stages - 1; stage++) {
        if (to_load) {
            next.load_a(stage * Stage);
            next.load_b(stage * Stage);
            to_load--;
        }
        commit();
    }
    wait<Stages - 2>();
    __syncthreads();

    const unsigned slice = thread / Tiling::SliceThreads;
    T a_items[2][mine.Rows], b_items[2][mine.Columns];
    const address a_first = address_of(ring + slice * Steps * Loader::Pitch + mine.row);
    const address b_first =
        address_of(ring + Depth * Loader::Pitch + slice * Steps * Tiling::Columns + mine.column);
    unsigned reads = 0, writes = Ring - Stage; // stages of the ring, in bytes
    mine.read(at<T>(a_first), at<T>(b_first), a_items[0], b_items[0]);
    for (unsigned left = tiles; left; left--) {
        const address a_at = a_first + reads, b_at = b_first + reads;
#pragma unroll
        for (unsigned step = 0; step < Steps; step++) {
            const unsigned now = step % 2, then = 1 - now;
            if (step + 1 < Steps) {
                mine.read(at<T>(a_at, (step + 1) * Loader::Pitch),
                          at<T>(b_at, (step + 1) * Tiling::Columns), a_items[then], b_items[then]);
            } else if (left > 1) {
                writes = reads; // the stage that all have read at this barrier
                reads = reads + Stage < Ring ? reads + Stage : 0;
                wait<Stages - 2>();
                __syncthreads();
                mine.read(at<T>(a_first + reads), at<T>(b_first + reads), a_items[then],
                          b_items[then]);
            }
            mine.multiply(a_items[now], b_items[now]);
            if (step == StepOfA && to_load)
                next.load_a(writes);
            if (step == StepOfB) {
                if (to_load) {
                    next.load_b(writes);
                    to_load--;
                }
                commit();
            }
        }
    }
}

// All sums of a tile end up in the first slice's threads.
template <class Tiling, class T>
__device__ void make_tile(outputs<Tiling, T> &mine, const T *a, const T *b, uint64 m, uint64 n,
                          uint64 k, uint64 pitch, corner tile, unsigned thread) {
    T *ring = shared_memory<T>();
    if (in_words(b, n))
        multiply_tiles<Tiling, true>(mine, a, b, m, n, k, pitch, tile, ring, thread);
    else
        multiply_tiles<Tiling, false>(mine, a, b, m, n, k, pitch, tile, ring, thread);
    if (Tiling::Slices > 1)
        add_slices<Tiling>(mine, ring, thread / Tiling::SliceThreads,
                           thread % Tiling::SliceThreads);
}

} // namespace matmul

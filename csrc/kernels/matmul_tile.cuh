// matmul_tile.cuh: how a block of matmul.cu's rungs from 6 on makes a tile of c: which it is, a
// thread's outputs, and the ring in shared memory that tiles of a and b go through. No kernel lives
// here.
#pragma once

#include "common.cuh"

namespace matmul {

// The first row and column of the block's tile. blockIdx.x goes through GROUP tiles of a column
// before it goes on to the next: blocks that run at one time share rows of a and columns of b in
// the second-level cache.
constexpr unsigned GROUP = 8;
struct corner {
    uint64 row, column;
};
template <unsigned Rows, unsigned Columns> __device__ inline corner grouped_tile() {
    const uint64 group = static_cast<uint64>(blockIdx.z) * gridDim.y + blockIdx.y;
    return {(group * GROUP + blockIdx.x % GROUP) * Rows,
            static_cast<uint64>(blockIdx.x / GROUP) * Columns};
}

// --- words, and a thread's outputs

// 128 bits: the most that one access of a thread moves.
template <class T> constexpr unsigned WIDE = 16 / sizeof(T);
template <class T> struct __align__(16) word { T items[WIDE<T>]; };

// Whether the rows of a matrix, and so its words, begin where a word may.
template <class T> __device__ inline bool in_words(const T *matrix, uint64 columns) {
    return columns % WIDE<T> == 0 && reinterpret_cast<size_t>(matrix) % sizeof(word<T>) == 0;
}

// How a block makes its tile of c. Tiles of a and b that are Depth deep go through a ring of Stages
// in shared memory. A warp makes WarpRows x WarpColumns outputs; its lanes stand Down x 32 / Down
// and have a word of outputs in every WIDE rows. With several slices, the warps of each take their
// part of the depth, and their sums are added at the end.
template <unsigned RowsV, unsigned ColumnsV, unsigned DepthV, unsigned WarpRowsV,
          unsigned WarpColumnsV, unsigned DownV, unsigned StagesV, unsigned SlicesV = 1>
struct tiling {
    static constexpr unsigned Rows = RowsV, Columns = ColumnsV, Depth = DepthV;
    static constexpr unsigned WarpRows = WarpRowsV, WarpColumns = WarpColumnsV;
    static constexpr unsigned Down = DownV, Across = 32 / Down;
    static constexpr unsigned Stages = StagesV, Slices = SlicesV;
    static constexpr unsigned SliceThreads = Rows / WarpRows * (Columns / WarpColumns) * 32;
    static constexpr unsigned Threads = SliceThreads * Slices;
};

// A thread's outputs, and its share of the multiplications.
template <class Tiling, class T> struct outputs {
    static constexpr unsigned Wide = WIDE<T>;
    static constexpr unsigned RowWords = Tiling::WarpRows / (Tiling::Down * Wide);
    static constexpr unsigned ColumnWords = Tiling::WarpColumns / (Tiling::Across * Wide);
    static constexpr unsigned Rows = RowWords * Wide, Columns = ColumnWords * Wide;
    static constexpr unsigned RowStep = Tiling::Down * Wide, ColumnStep = Tiling::Across * Wide;

    unsigned row, column; // of the first, in the block's tile
    T sums[Rows][Columns];

    // Lanes whose numbers differ in bit 1 read the same word of a, in bit 0 the same word of b: so
    // hardware serves half a warp in one pass, where it otherwise serves a quarter.
    __device__ explicit outputs(unsigned thread) : sums{} { stand(thread); }
    __device__ void stand(unsigned thread) {
        constexpr unsigned WarpsAcross = Tiling::Columns / Tiling::WarpColumns;
        const unsigned warp = thread / 32, lane = thread % 32;
        const unsigned across = Tiling::Down == 2 ? lane % 16 : lane / 2 % Tiling::Across;
        const unsigned down =
            Tiling::Down == 2 ? lane / 16 : lane % 2 + lane / (2 * Tiling::Across) * 2;
        row = warp / WarpsAcross * Tiling::WarpRows + down * Wide;
        column = warp % WarpsAcross * Tiling::WarpColumns + across * Wide;
    }

    // What one step of k needs: its first item of a and of b.
    __device__ void read(const T *a, const T *b, T (&a_items)[Rows], T (&b_items)[Columns]) const {
#pragma unroll
        for (unsigned i = 0; i < RowWords; i++)
            *reinterpret_cast<word<T> *>(&a_items[i * Wide]) =
                *reinterpret_cast<const word<T> *>(a + i * RowStep);
#pragma unroll
        for (unsigned j = 0; j < ColumnWords; j++)
            *reinterpret_cast<word<T> *>(&b_items[j * Wide]) =
                *reinterpret_cast<const word<T> *>(b + j * ColumnStep);
    }

    // Two rows at a time, up and down, there and back again: two neighbours always share an
    // operand, which the register file then need not read twice.
    __device__ void multiply(const T (&a_items)[Rows], const T (&b_items)[Columns]) {
#pragma unroll
        for (unsigned pair = 0; pair < Rows; pair += 2)
#pragma unroll
            for (unsigned each = 0; each < Columns; each++) {
                const unsigned j = pair % 4 ? Columns - 1 - each : each;
                const unsigned upper = pair + each % 2, lower = pair + 1 - each % 2;
                sums[upper][j] += a_items[upper] * b_items[j];
                sums[lower][j] += a_items[lower] * b_items[j];
            }
    }

    __device__ void store(T *c, corner tile, uint64 m, uint64 n) const {
        const bool words = in_words(c, n);
#pragma unroll
        for (unsigned i = 0; i < Rows; i++) {
            const uint64 to_row = tile.row + row + i / Wide * RowStep + i % Wide;
            if (to_row >= m)
                continue;
#pragma unroll
            for (unsigned j = 0; j < Columns; j += Wide) {
                const uint64 to_column = tile.column + column + j / Wide * ColumnStep;
                T *to = c + to_row * n + to_column;
                if (words && to_column < n)
                    *reinterpret_cast<word<T> *>(to) =
                        *reinterpret_cast<const word<T> *>(&sums[i][j]);
#pragma unroll
                for (unsigned each = 0; each < Wide; each++)
                    if (!words && to_column + each < n)
                        to[each] = sums[i][j + each];
            }
        }
    }
};

// `Wide` items from `from`, of which so many are there; the others are 0.
template <class T> __device__ inline word<T> load_word(const T *from, bool words, uint64 there) {
    word<T> loaded = {};
    if (words) {
        if (there)
            loaded = *reinterpret_cast<const word<T> *>(from);
        return loaded;
    }
#pragma unroll
    for (unsigned i = 0; i < WIDE<T>; i++)
        if (i < there)
            loaded.items[i] = from[i];
    return loaded;
}
__device__ inline uint64 beyond(uint64 end, uint64 position) {
    return position < end ? end - position : 0;
}

// --- tiles in a ring

// A place in shared memory, in bytes; 32 bits, where a pointer has 64. Opaque to the compiler,
// which else computes it anew from the thread's number wherever it is used.
using place = unsigned;
__device__ inline place place_of(const void *shared) {
    place address = static_cast<place>(__cvta_generic_to_shared(shared));
    asm volatile("" : "+r"(address));
    return address;
}
template <class T> __device__ inline T *at(place address, unsigned items = 0) {
    return reinterpret_cast<T *>(__cvta_shared_to_generic(address)) + items;
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
// Opaque too. What is behind it is no longer known to be global memory, which `copy` need not be
// told.
template <class T> __device__ inline const T *kept(const T *from) {
    asm volatile("" : "+l"(from));
    return from;
}
// Copies from global to shared memory without a register and without waiting; zeros, if what shall
// be copied is not there.
template <class Unit> __device__ inline void copy(place to, const void *from) {
    if (sizeof(Unit) == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from),
                     "n"(sizeof(Unit)));
}
template <class Unit> __device__ inline void copy(place to, const void *from, bool there) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from),
                 "n"(sizeof(Unit)), "r"(there ? static_cast<unsigned>(sizeof(Unit)) : 0u));
}
__device__ inline void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <unsigned Pending> __device__ inline void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}
#else
// Before sm_80 a thread waits for what it loads, and stores it.
template <class T> __device__ inline const T *kept(const T *from) { return from; }
template <class Unit> __device__ inline void copy(place to, const void *from, bool there = true) {
    *at<Unit>(to) = there ? *static_cast<const Unit *>(from) : Unit{};
}
__device__ inline void commit() {}
template <unsigned Pending> __device__ inline void wait() {}
#endif

// A thread's part in bringing tiles of a and b to shared memory, b in words or item by item.
// Nothing is checked for the edges of c: what would lie beyond them is read from the last row or
// column, and its outputs are never stored. Only the first tile may be less than Depth deep; it is
// filled up with zeros.
template <class Tiling, bool Words, class T> struct loader {
    static constexpr unsigned Wide = WIDE<T>, Depth = Tiling::Depth, Threads = Tiling::Threads;
    // A tile of a lies in shared memory by columns, which are a word further apart than they are
    // long: no bank conflicts. It is copied item by item: 8 steps of k, Threads / 8 rows at a time.
    static constexpr unsigned Pitch = Tiling::Rows + Wide;
    static constexpr unsigned ARows = 8 * Tiling::Rows / Threads, ASteps = Depth / 8;
    static_assert(ARows * Threads == 8 * Tiling::Rows && ASteps * 8 == Depth, "whole copies");
    static constexpr unsigned BAcross = Tiling::Columns / Wide, BDown = Threads / BAcross;
    static constexpr unsigned BWords = Depth / BDown;
    static_assert(BDown * BAcross == Threads && BWords * BDown == Depth, "whole copies");
    static constexpr unsigned Stage = Depth * (Pitch + Tiling::Columns); // items

    const T *a_from[ARows], *b_from[BWords];
    uint64 b_step;    // items from one whole tile to the next
    place a_to, b_to; // in the first stage
    unsigned last;    // item of a word of b that is inside

    __device__ loader(const T *a, const T *b, uint64 m, uint64 n, uint64 pitch, corner tile,
                      T *ring, unsigned thread)
        : b_step(Depth * n) {
        const unsigned row = thread / 8, step = thread % 8;
#pragma unroll
        for (unsigned i = 0; i < ARows; i++)
            a_from[i] = a + least(tile.row + row + i * (Threads / 8), m - 1) * pitch + step;
        a_to = place_of(ring + step * Pitch + row);
        const unsigned b_row = thread / BAcross, b_column = thread % BAcross * Wide;
        const uint64 column = least(tile.column + b_column, (n - 1) / Wide * Wide);
        last = static_cast<unsigned>(least(n - 1 - column, Wide - 1));
#pragma unroll
        for (unsigned i = 0; i < BWords; i++)
            b_from[i] = b + (b_row + i * BDown) * n + column;
        b_to = place_of(ring + Depth * Pitch + b_row * Tiling::Columns + b_column);
    }
    __device__ static uint64 least(uint64 a, uint64 b) { return a < b ? a : b; }

    // Begins to bring the next tile of a, and of b, to the stage that is so many bytes from the
    // first.
    __device__ void load_a(unsigned stage) {
#pragma unroll
        for (unsigned i = 0; i < ARows; i++) {
#pragma unroll
            for (unsigned s = 0; s < ASteps; s++)
                copy<T>(a_place(stage, s, i), a_from[i] + s * 8);
            a_from[i] += Depth;
        }
    }
    __device__ void load_b(unsigned stage) {
#pragma unroll
        for (unsigned i = 0; i < BWords; i++) {
            if (Words)
                copy<word<T>>(b_place(stage, i), b_from[i]);
            else
#pragma unroll
                for (unsigned each = 0; each < Wide; each++)
                    copy<T>(b_place(stage, i) + each * sizeof(T),
                            b_from[i] + (each < last ? each : last));
            b_from[i] += b_step;
        }
    }
    // The first tiles, of which so many steps of k are there.
    __device__ void load_first(unsigned depth, uint64 n, unsigned thread) {
#pragma unroll
        for (unsigned s = 0; s < ASteps; s++)
#pragma unroll
            for (unsigned i = 0; i < ARows; i++)
                copy<T>(a_place(0, s, i), a_from[i] + s * 8, thread % 8 + s * 8 < depth);
#pragma unroll
        for (unsigned i = 0; i < BWords; i++) {
            const bool there = thread / BAcross + i * BDown < depth;
#pragma unroll
            for (unsigned each = 0; each < Wide; each++)
                copy<T>(b_place(0, i) + each * sizeof(T), b_from[i] + (each < last ? each : last),
                        there);
            b_from[i] = kept(b_from[i] + depth * n);
        }
#pragma unroll
        for (unsigned i = 0; i < ARows; i++)
            a_from[i] = kept(a_from[i] + depth);
    }
    __device__ place a_place(unsigned stage, unsigned s, unsigned i) const {
        return a_to + stage + (s * 8 * Pitch + i * (Threads / 8)) * sizeof(T);
    }
    __device__ place b_place(unsigned stage, unsigned i) const {
        return b_to + stage + i * BDown * Tiling::Columns * sizeof(T);
    }
};

// Adds the slices' sums to those of the first, in order.
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

// The first k columns of a, whose rows are `pitch` apart, by the first k rows of b. The copies of
// the next tiles are asked for between the steps: all at once, before the first step, they took an
// H200 3 to 4% more of 4096^2 (November 2026).
template <class Tiling, bool Words, class T>
__device__ void multiply_tiles(outputs<Tiling, T> &mine, const T *a, const T *b, uint64 m, uint64 n,
                               uint64 k, uint64 pitch, corner tile, T *ring, unsigned thread) {
    using Loader = loader<Tiling, Words, T>;
    constexpr unsigned Depth = Tiling::Depth, Stages = Tiling::Stages;
    constexpr unsigned Steps = Depth / Tiling::Slices; // of k, a warp's in each tile
    constexpr unsigned StepOfA = 2, StepOfB = 5;       // after which they are asked for
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
    const place a_first = place_of(ring + slice * Steps * Loader::Pitch + mine.row);
    const place b_first =
        place_of(ring + Depth * Loader::Pitch + slice * Steps * Tiling::Columns + mine.column);
    unsigned reads = 0, writes = Ring - Stage; // stages of the ring, in bytes
    mine.read(at<T>(a_first), at<T>(b_first), a_items[0], b_items[0]);
    for (unsigned left = tiles; left; left--) {
        const place a_at = a_first + reads, b_at = b_first + reads;
#pragma unroll
        for (unsigned step = 0; step < Steps; step++) {
            const unsigned now = step % 2, then = 1 - now;
            if (step + 1 < Steps) {
                mine.read(at<T>(a_at, (step + 1) * Loader::Pitch),
                          at<T>(b_at, (step + 1) * Tiling::Columns), a_items[then], b_items[then]);
            } else if (left > 1) {
                writes = reads; // the stage that all have read when they meet here
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

// All sums of a tile, in the end in the first slice's threads.
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

// matmul_ring.cuh: the tiles of a and b of matmul.cu's rungs from 8 on, which pass through a ring
// of stages in shared memory by asynchronous copies. Contains no kernel.
#pragma once

#include "matmul_loader.cuh"

namespace matmul {

// A thread's part in copying tiles of a and b in C order to shared memory, b by words or by
// elements: 6% faster at 4096^3 than any_loader (TUNING.md M13). The
// edges of c need no checks: reads past them repeat the last row or column, and those outputs are
// never stored. Only the first tile may be less than Depth deep; it is padded with zeros.
template <class Tiling, bool Words, class T> struct loader {
    static constexpr unsigned Wide = WIDE<T>, Depth = Tiling::Depth, Threads = Tiling::Threads;
    // A tile of a is stored in shared memory by columns, with a word of padding each: no bank
    // conflicts. It is copied by elements: 8 steps of k, Threads / 8 rows at a time.
    static constexpr unsigned Pitch = Tiling::Rows + Wide, BPitch = Tiling::Columns;
    static constexpr unsigned ARows = 8 * Tiling::Rows / Threads, ASteps = Depth / 8;
    static_assert(ARows * Threads == 8 * Tiling::Rows && ASteps * 8 == Depth, "whole copies");
    static constexpr unsigned BAcross = Tiling::Columns / Wide, BDown = Threads / BAcross;
    static constexpr unsigned BWords = Depth / BDown;
    static_assert(BDown * BAcross == Threads && BWords * BDown == Depth, "whole copies");
    static constexpr unsigned Stage = Depth * (Pitch + BPitch); // elements

    static constexpr bool Stores = false, SkipsZeros = false;
    // Rows that are not aligned have a short loop, which is a tenth slower: less machine code.
    static constexpr bool Short = !Words && sizeof(T) == 8;

    const T *a_from[ARows], *b_from[BWords];
    uint64 b_step;      // elements from one whole tile to the next
    address a_to, b_to; // in the first stage
    unsigned last;      // element of a word of b that is inside

    __device__ loader(const T *a, const T *b, uint64 m, uint64 n, uint64 a_pitch, uint64 b_pitch,
                      corner tile, T *ring, unsigned thread)
        : b_step(Depth * b_pitch) {
        const unsigned row = thread / 8, step = thread % 8;
#pragma unroll
        for (unsigned i = 0; i < ARows; i++)
            a_from[i] = a + least(tile.row + row + i * (Threads / 8), m - 1) * a_pitch + step;
        a_to = address_of(ring + step * Pitch + row);
        const unsigned b_row = thread / BAcross, b_column = thread % BAcross * Wide;
        const uint64 column = least(tile.column + b_column, (n - 1) / Wide * Wide);
        last = static_cast<unsigned>(least(n - 1 - column, Wide - 1));
#pragma unroll
        for (unsigned i = 0; i < BWords; i++)
            b_from[i] = b + (b_row + i * BDown) * b_pitch + column;
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
    __device__ void load_first(unsigned depth, unsigned thread) {
        const uint64 b_pitch = b_step / Depth;
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
            b_from[i] = kept(b_from[i] + depth * b_pitch);
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

// Loads the next tiles to a stage of the ring, which is given in bytes, if any are left.
template <class Loader>
__device__ void load_tiles(Loader &next, unsigned stage, unsigned &to_load) {
    if (to_load) {
        next.load_a(stage);
        if constexpr (Loader::Stores)
            next.store_a(stage);
        next.load_b(stage);
        if constexpr (Loader::Stores)
            next.store_b(stage);
        to_load--;
    }
    commit();
}

// Issues the copies of the next tiles after a step of `Steps`: a's after one, b's after another.
template <unsigned Steps, class Loader>
__device__ void load_after(Loader &next, unsigned step, unsigned stage, unsigned &to_load) {
    constexpr unsigned StepOfA = 2, StepOfB = 5;
    static_assert(StepOfB < Steps - 1, "the last step waits for an earlier tile");
    if (step == StepOfA && to_load)
        next.load_a(stage);
    if (step == StepOfB) {
        if (to_load) {
            if constexpr (Loader::Stores)
                next.store_a(stage);
            next.load_b(stage);
            if constexpr (!Loader::Stores)
                to_load--;
        }
        commit();
    }
    if constexpr (Loader::Stores)
        if (step == Steps - 2 && to_load) {
            next.store_b(stage);
            to_load--;
        }
}

// Multiplies a slice's steps of a layer from `first` on. The compiler keeps the order of the
// multiplications in a block as short as a step.
template <class Tiling, class Loader, class T>
__device__ void multiply_steps(outputs<Tiling, T> &mine, address a_at, address b_at,
                               unsigned first) {
    T a_items[mine.Rows], b_items[mine.Columns];
#pragma unroll 1
    for (unsigned step = first; step < Tiling::Depth / Tiling::Slices; step++) {
        mine.read(at<T>(a_at, step * Loader::Pitch), at<T>(b_at, step * Loader::BPitch), a_items,
                  b_items);
        mine.multiply(a_items, b_items);
    }
}

// Stages of the ring, in bytes: the one that is read, and the one that is loaded next.
template <unsigned Stage, unsigned Stages> struct ring_stages {
    unsigned reads = 0, writes = (Stages - 1) * Stage;
    // Waits for the next layer; all have read the previous one then.
    __device__ void advance() {
        writes = reads;
        reads = reads + Stage < Stages * Stage ? reads + Stage : 0;
        wait<Stages - 2>();
        __syncthreads();
    }
};

// Loads all layers but one that the ring has room for, and waits for the first.
template <unsigned Stage, unsigned Stages, class Loader>
__device__ void start_ring(Loader &next, unsigned first, unsigned thread, unsigned &to_load) {
    next.load_first(first, thread);
    commit();
#pragma unroll
    for (unsigned stage = 1; stage < Stages - 1; stage++)
        load_tiles(next, stage * Stage, to_load);
    wait<Stages - 2>();
    __syncthreads();
}

// Adds k steps, whose layers `next` loads to the ring. The copies of the next layers are issued
// between the steps (TUNING.md M2).
template <class Tiling, class Loader, class T>
__device__ void multiply_tiles(outputs<Tiling, T> &mine, Loader &next, uint64 k, T *ring,
                               unsigned thread) {
    constexpr unsigned Depth = Tiling::Depth, Stages = Tiling::Stages;
    constexpr unsigned Steps = Depth / Tiling::Slices; // of k, a warp's in each layer
    constexpr unsigned Stage = Loader::Stage * sizeof(T);
    static_assert(Stages >= 2 && Steps % 2 == 0, "the stages and the registers take turns");
    if (!k)
        return;
    unsigned left = static_cast<unsigned>((k - 1) / Depth + 1), to_load = left - 1; // layers
    const unsigned first = static_cast<unsigned>(k - to_load * static_cast<uint64>(Depth));
    start_ring<Stage, Stages>(next, first, thread, to_load);
    const unsigned slice = thread / Tiling::SliceThreads;
    const address a_first = address_of(ring + slice * Steps * Loader::Pitch + mine.row);
    const address b_first =
        address_of(ring + Depth * Loader::Pitch + slice * Steps * Loader::BPitch + mine.column);
    ring_stages<Stage, Stages> at_stage;
    unsigned zeros = Loader::SkipsZeros ? Depth - first : 0; // steps at the start
    for (; left && (Loader::Short || zeros >= Depth / 4); left--) {
        load_tiles(next, at_stage.writes, to_load);
        multiply_steps<Tiling, Loader>(mine, a_first + at_stage.reads, b_first + at_stage.reads,
                                       zeros > slice * Steps ? zeros - slice * Steps : 0);
        zeros = 0;
        at_stage.advance();
    }
    if (Loader::Short || !left)
        return;
    T a_items[2][mine.Rows], b_items[2][mine.Columns];
    mine.read(at<T>(a_first + at_stage.reads), at<T>(b_first + at_stage.reads), a_items[0],
              b_items[0]);
    for (; left; left--) {
        const address a_at = a_first + at_stage.reads, b_at = b_first + at_stage.reads;
#pragma unroll
        for (unsigned step = 0; step < Steps; step++) {
            const unsigned now = step % 2, then = 1 - now;
            if constexpr (sizeof(T) == 8) {
                if (step + 1 == Steps && left > 1)
                    at_stage.advance();
                mine.multiply_and_read(a_items[now], b_items[now],
                                       step + 1 < Steps ? at<T>(a_at, (step + 1) * Loader::Pitch)
                                                        : at<T>(a_first + at_stage.reads),
                                       step + 1 < Steps ? at<T>(b_at, (step + 1) * Loader::BPitch)
                                                        : at<T>(b_first + at_stage.reads),
                                       a_items[then], b_items[then]);
            } else {
                if (step + 1 < Steps) {
                    mine.read(at<T>(a_at, (step + 1) * Loader::Pitch),
                              at<T>(b_at, (step + 1) * Loader::BPitch), a_items[then],
                              b_items[then]);
                } else if (left > 1) {
                    at_stage.advance();
                    mine.read(at<T>(a_first + at_stage.reads), at<T>(b_first + at_stage.reads),
                              a_items[then], b_items[then]);
                }
                mine.multiply(a_items[now], b_items[now]);
            }
            load_after<Steps>(next, step, at_stage.writes, to_load);
        }
    }
}

// Computes a tile of a product in C order.
template <class Tiling, class T>
__device__ void make_tile(outputs<Tiling, T> &mine, const T *a, const T *b, uint64 m, uint64 n,
                          uint64 k, corner tile, unsigned thread) {
    T *ring = shared_memory<T>();
    if (in_words(b, n)) {
        loader<Tiling, true, T> next(a, b, m, n, k, n, tile, ring, thread);
        multiply_tiles(mine, next, k, ring, thread);
    } else {
        loader<Tiling, false, T> next(a, b, m, n, k, n, tile, ring, thread);
        multiply_tiles(mine, next, k, ring, thread);
    }
    if (Tiling::Slices > 1)
        add_slices<Tiling>(mine, ring, thread / Tiling::SliceThreads,
                           thread % Tiling::SliceThreads);
}

} // namespace matmul

// matmul_elements.cuh: tiles of float32 that pass through the ring element by element, whatever
// their layout, without a branch: the compiler spreads the copies among the multiplications.
// Contains no kernel.
#pragma once

#include "matmul_loader.cuh"

namespace matmul {

// A thread's part in copying the layers of one operand. `side` stands for the rows of a and for the
// columns of b, `first` to `end` - 1; outputs of sides beyond the last are never stored.
template <unsigned Side, unsigned Depth, unsigned Threads, class T> struct element_loader {
    static constexpr unsigned Pitch = Side + WIDE<T>, Group = 8; // steps of k
    static constexpr unsigned By = Threads / Group;              // sides that are copied at once
    static constexpr unsigned Turns = Side / By, Groups = Depth / Group;
    static_assert(Turns * By == Side && Groups * Group == Depth, "whole copies");
    const T *from[Turns];
    address slot; // in the first stage
    int64 k_by;   // elements between steps of k
    bool along_k;

    __device__ element_loader(const T *operand, int64 side_by, int64 k_step, uint64 first,
                              uint64 end, const T *tile, unsigned thread)
        : k_by(k_step) {
        along_k = llabs(k_by) < llabs(side_by);
        const int side = along_k ? thread / Group : thread % By, depth = first_depth(thread);
        const int sides = static_cast<int>(end - first < Side ? end - first : Side);
        // Lanes that copy one element wait for each other: beyond the last side a lane has one of
        // the tile before or, in the first tile, another that few lanes have.
        const int other = side < sides ? side : side < 2 * sides ? side - sides : sides - 1;
        operand += static_cast<int64>(first) * side_by + depth * k_by;
#pragma unroll
        for (int i = 0; i < int(Turns); i++) {
            const int at = side + i * int(By);
            from[i] = operand + (at < sides ? at : first ? at - int(Side) : other) * side_by;
        }
        slot = address_of(tile + depth * Pitch + side);
    }
    // A warp that copies along the sides has several steps of k. They are so far apart that no two
    // lanes write to the same bank.
    __device__ unsigned first_depth(unsigned thread) const {
        constexpr unsigned Steps = By < 32 ? 32 / By : 1;
        const unsigned step = thread / By;
        return along_k ? thread % Group : step % Steps * (Group / Steps) + step / Steps;
    }
    // Copies the next layer or, after the last, zeros, which nobody reads.
    __device__ void load(unsigned stage, bool there) {
#pragma unroll
        for (unsigned group = 0; group < Groups; group++)
#pragma unroll
            for (unsigned i = 0; i < Turns; i++)
                copy_turn(stage, group, i, there);
    }
    // The first layer, to the first stage: its last `count` steps of k are the first ones.
    __device__ void load_first(unsigned count, unsigned thread) {
        const unsigned missing = Depth - count, depth = first_depth(thread);
#pragma unroll
        for (unsigned i = 0; i < Turns; i++)
            from[i] -= missing * k_by;
#pragma unroll
        for (unsigned group = 0; group < Groups; group++)
#pragma unroll
            for (unsigned i = 0; i < Turns; i++)
                copy_turn(0, group, i, group * Group + depth >= missing);
    }
    __device__ void copy_turn(unsigned stage, unsigned group, unsigned i, bool there) {
        copy<T>(slot + stage + (group * Group * Pitch + i * By) * sizeof(T), from[i], there);
        from[i] += Group * k_by;
    }
};

// Both operands of a tile.
template <class Tiling, class T> struct element_loaders {
    using A = element_loader<Tiling::Rows, Tiling::Depth, Tiling::Threads, T>;
    using B = element_loader<Tiling::Columns, Tiling::Depth, Tiling::Threads, T>;
    static constexpr unsigned Pitch = A::Pitch, BPitch = B::Pitch;
    static constexpr unsigned Stage = Tiling::Depth * (Pitch + BPitch) * sizeof(T); // bytes
    A a;
    B b;

    // Copies all layers but one that the ring has room for; the first has `first` steps of k.
    __device__ void start(unsigned first, unsigned thread, unsigned &to_load) {
        a.load_first(first, thread);
        b.load_first(first, thread);
        commit();
#pragma unroll
        for (unsigned stage = 1; stage < Tiling::Stages - 1; stage++) {
            a.load(stage * Stage, to_load);
            b.load(stage * Stage, to_load);
            to_load -= to_load != 0;
            commit();
        }
    }
};

// Adds k steps. While a step is multiplied, the next step's words are in flight to registers, and
// the next layers to the ring. The copies of a and of b follow different steps, so that the reads
// of the ring wait for fewer of them.
template <class Tiling, class T>
__device__ void multiply_tiles(outputs<Tiling, T> &mine, element_loaders<Tiling, T> &next, uint64 k,
                               T *ring, unsigned thread) {
    using Loader = element_loaders<Tiling, T>;
    constexpr unsigned Depth = Tiling::Depth, Stages = Tiling::Stages, StepOfA = 0, StepOfB = 3;
    constexpr unsigned Stage = Loader::Stage, Ring = Stages * Stage;
    constexpr bool ByColumns = Tiling::Threads < 256; // 2% faster; with more, 5% slower
    static_assert(Stages >= 2 && Depth % 2 == 0, "the stages and the registers take turns");
    static_assert(StepOfB < Depth - 1 && Tiling::Slices == 1, "the last step waits for copies");
    if (!k)
        return;
    const unsigned layers = static_cast<unsigned>((k - 1) / Depth + 1);
    unsigned to_load = layers - 1;
    next.start(static_cast<unsigned>(k - (layers - 1ull) * Depth), thread, to_load);
    wait<Stages - 2>();
    __syncthreads();

    T a_items[2][mine.Rows], b_items[2][mine.Columns];
    const address a_first = address_of(ring + mine.row);
    const address b_first = address_of(ring + Depth * Loader::Pitch + mine.column);
    unsigned reads = 0, writes = Ring - Stage; // stages of the ring, in bytes
    mine.read(at<T>(a_first), at<T>(b_first), a_items[0], b_items[0]);
#pragma unroll 1
    for (unsigned left = layers; left; left--) {
#pragma unroll
        for (unsigned step = 0; step < Depth; step++) {
            const unsigned now = step % 2, then = 1 - now;
            unsigned next_step = step + 1;
            if (next_step == Depth) {
                writes = reads; // the stage that all have read at this barrier
                reads = reads + Stage < Ring ? reads + Stage : 0;
                wait<Stages - 2>();
                __syncthreads();
                next_step = 0;
            }
            mine.read(at<T>(a_first + reads, next_step * Loader::Pitch),
                      at<T>(b_first + reads, next_step * Loader::BPitch), a_items[then],
                      b_items[then]);
            if (step == StepOfA)
                next.a.load(writes, to_load);
            if (step == StepOfB) {
                next.b.load(writes, to_load);
                to_load -= to_load != 0;
                commit();
            }
            add_products<mine.Rows, mine.Columns, T, ByColumns>(mine.sums, a_items[now],
                                                                b_items[now]);
        }
    }
    wait<0>(); // the zeros must not overwrite what the ring has next
}

} // namespace matmul

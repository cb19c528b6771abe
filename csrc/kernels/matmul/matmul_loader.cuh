// matmul_loader.cuh: copies of layers of operands in any layout to shared memory, asynchronous
// where the GPU has such copies for the elements. Contains no kernel.
#pragma once

#include "matmul_operands.cuh"

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
// Copies `bytes` of a unit, and zeros for the others.
template <class Unit>
__device__ inline void copy_part(address to, const void *from, unsigned bytes) {
    if (sizeof(Unit) == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                     "r"(bytes));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from),
                     "n"(sizeof(Unit)), "r"(bytes));
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
template <class Unit>
__device__ inline void copy_part(address to, const void *from, unsigned bytes) {
    union {
        unsigned quarters[sizeof(Unit) / 4];
        Unit all;
    } unit = {};
    if (bytes == sizeof(Unit))
        unit.all = *static_cast<const Unit *>(from);
    else
        for (unsigned i = 0; i < bytes / 4; i++)
            unit.quarters[i] = static_cast<const unsigned *>(from)[i];
    *at<Unit>(to) = unit.all;
}
__device__ inline void commit() {}
template <unsigned Pending> __device__ inline void wait() {}
#endif

// A thread's part in copying the layers of one operand: by words along a side if its layout
// permits, else by elements, where adjacent threads copy along the axis whose elements are closer
// in memory. `side` stands for the rows of a and for the columns of b. Elements beyond the last
// side are zeros, as are those before the first step of k, which the first layer may have. Elements
// of 2 bytes are converted on the way, so they pass through registers.
template <unsigned Side, unsigned Depth, unsigned Threads, class T> struct side_loader {
    using S = sum_of<T>;
    static constexpr unsigned Wide = WIDE<S>, Pitch = Side + Wide, Group = 8; // steps of k
    static constexpr unsigned Groups = Depth / Group, Turns = Group * Side / Threads;
    static constexpr unsigned Across = Side / Wide, Down = Threads / Across;
    static constexpr unsigned WordTurns = Depth / Down;
    static constexpr bool Converts = sizeof(T) != sizeof(S);
    static_assert(Turns * Threads == Group * Side && Side <= Threads, "whole copies");
    static_assert(Down * Across == Threads && WordTurns * Down == Depth, "whole copies");
    const T *from;
    address slot;       // in the first stage
    unsigned inside;    // bits: turns that are inside; for words, elements
    int64 step, k_by;   // elements between turns, between steps of k
    unsigned slot_step; // bytes
    bool words, along_k;
    T items[Converts ? Groups * Turns : 1]; // in flight

    __device__ side_loader(const T *operand, int64 side_by, int64 k_step, uint64 first, uint64 end,
                           const S *tile, unsigned thread)
        : k_by(k_step) {
        const uint64 sides = end - first;
        operand += first * side_by;
        along_k = llabs(k_by) < llabs(side_by);
        words = !along_k && side_by == 1 && k_by % Wide == 0 &&
                reinterpret_cast<uint64>(operand) % (Wide * sizeof(T)) == 0;
        const unsigned side = words     ? thread % Across * Wide
                              : along_k ? thread / Group
                                        : thread % Side;
        const unsigned depth = first_depth(thread);
        const unsigned by = along_k ? Threads / Group : 0; // sides between turns
        from = operand + side * side_by + depth * k_by;
        slot = address_of(tile + depth * Pitch + side);
        step = words ? Down * k_by : along_k ? by * side_by : Threads / Side * k_by;
        slot_step = (along_k ? by : Threads / Side * Pitch) * sizeof(S);
        const unsigned left = sides > side ? sides - side < Side ? sides - side : Side : 0;
        inside = left < Wide ? left : Wide;
        if (!words) {
            inside = 0;
            for (unsigned i = 0; i < Turns; i++)
                inside |= (i * by < left ? 1u : 0u) << i;
        }
    }
    __device__ unsigned first_depth(unsigned thread) const {
        return words ? thread / Across : along_k ? thread % Group : thread / Side;
    }
    // Copies the first `count` elements of a word; the others are zeros.
    __device__ void copy_word(address to, const T *at, unsigned count, T *kept) const {
        if constexpr (!Converts)
            copy_part<word<T>>(to, at, count * sizeof(T));
        else {
#pragma unroll
            for (unsigned each = 0; each < Wide; each++)
                kept[each] = T{};
            if (count == Wide)
                load_words_if(true, at, kept);
            else
#pragma unroll
                for (unsigned each = 0; each < Wide; each++)
                    load_if(each < count, at + each, kept[each]);
        }
    }
    // Copies the next 8 steps of k, of which `turns` has the bits of the turns that exist; the
    // others are zeros.
    __device__ void copy_group(address to, unsigned turns, T *kept) {
        const T *at = from;
#pragma unroll
        for (unsigned i = 0; i < Turns; i++) {
            if constexpr (!Converts)
                copy_part<T>(to, at, turns >> i & 1 ? sizeof(T) : 0);
            else
                kept[i] = load_if(turns >> i & 1, at);
            at += step;
            to += slot_step;
        }
        from += Group * k_by;
    }
    __device__ void store_group(address to, const T *kept) const {
#pragma unroll
        for (unsigned i = 0; i < Turns; i++) {
            *matmul::at<S>(to) = widened(kept[i]);
            to += slot_step;
        }
    }
    __device__ static void store_word(address to, const T *kept) {
        word<S> all;
#pragma unroll
        for (unsigned each = 0; each < Wide; each++)
            all.items[each] = widened(kept[each]);
        *matmul::at<word<S>>(to) = all;
    }
    __device__ void load(unsigned stage) {
        address to = slot + stage;
        if (words) {
#pragma unroll
            for (unsigned i = 0; i < WordTurns; i++) {
                copy_word(to + i * Down * Pitch * sizeof(S), from, inside,
                          items + (Converts ? i * Wide : 0));
                from += step;
            }
            return;
        }
#pragma unroll
        for (unsigned group = 0; group < Groups; group++) {
            copy_group(to, inside, items + (Converts ? group * Turns : 0));
            to += Group * Pitch * sizeof(S);
        }
    }
    // Stores what `load` left in registers.
    __device__ void store(unsigned stage) const {
        if constexpr (Converts) {
            address to = slot + stage;
            if (words) {
#pragma unroll
                for (unsigned i = 0; i < WordTurns; i++)
                    store_word(to + i * Down * Pitch * sizeof(S), items + i * Wide);
                return;
            }
#pragma unroll
            for (unsigned group = 0; group < Groups; group++) {
                store_group(to, items + group * Turns);
                to += Group * Pitch * sizeof(S);
            }
        }
    }
    // The first layer, to the first stage: its last `count` steps of k are the first ones.
    __device__ void load_first(unsigned count, unsigned thread) {
        const unsigned missing = Depth - count;
        unsigned depth = first_depth(thread);
        T kept[Wide];
        from -= missing * k_by;
        address to = slot;
        if (words) {
#pragma unroll 1
            for (unsigned i = 0; i < WordTurns; i++) {
                copy_word(to, from, depth >= missing ? inside : 0, kept);
                if constexpr (Converts)
                    store_word(to, kept);
                depth += Down;
                from += step;
                to += Down * Pitch * sizeof(S);
            }
            return;
        }
        T all[Converts ? Turns : 1];
#pragma unroll 1
        for (unsigned group = 0; group < Groups; group++) {
            unsigned turns = inside;
            if (depth < missing) { // steps of k that do not exist
                const unsigned skipped = (missing - depth - 1) / (Threads / Side) + 1;
                turns = along_k ? 0 : turns >> skipped << skipped;
            }
            copy_group(to, turns, all);
            if constexpr (Converts)
                store_group(to, all);
            depth += Group;
            to += Group * Pitch * sizeof(S);
        }
    }
};

// Both operands of a tile, as multiply_tiles copies them.
template <class Tiling, class T> struct any_loader {
    using A = side_loader<Tiling::Rows, Tiling::Depth, Tiling::Threads, T>;
    using B = side_loader<Tiling::Columns, Tiling::Depth, Tiling::Threads, T>;
    static constexpr unsigned Pitch = A::Pitch, BPitch = B::Pitch;
    static constexpr unsigned Stage = Tiling::Depth * (Pitch + BPitch); // elements
    A a;
    B b;
    static constexpr bool Stores = A::Converts, SkipsZeros = true, Short = false;
    __device__ void load_a(unsigned stage) { a.load(stage); }
    __device__ void load_b(unsigned stage) { b.load(stage); }
    __device__ void store_a(unsigned stage) const { a.store(stage); }
    __device__ void store_b(unsigned stage) const { b.store(stage); }
    __device__ void load_first(unsigned depth, unsigned thread) {
        a.load_first(depth, thread);
        b.load_first(depth, thread);
    }
};

} // namespace matmul

// stencil1d.cuh: the addresses of inputs and outputs of stencil1d.cu's rungs: beyond the ends, in
// rows, in tiles of many rows. Knows no rung.
#pragma once

#include "common.cuh"
#include "stencil1d_plan.cuh"

namespace stencil1d {

enum mode : unsigned {
#define MODE(name) name,
    STENCIL1D_MODES(MODE)
#undef MODE
};
static_assert(WRAP == STENCIL1D_WRAP, "the planner's");

// Index from which to read input i of n, which lies outside; -1 for a constant. A call, to keep its
// arithmetic away from the blocks that do not need it. Only a radius larger than the row needs a
// division.
__device__ __noinline__ int64 beyond_ends(int64 i, int64 n, unsigned mode) {
    if (mode == CONSTANT)
        return -1;
    if (mode == NEAREST || n == 1)
        return i < 0 ? 0 : n - 1;
    const int64 period = mode == WRAP ? n : mode == REFLECT ? 2 * n : 2 * n - 2;
    const bool edge_twice = mode == REFLECT;
    if (mode == WRAP)
        i += i < 0 ? n : -n;
    else
        i = (i < 0 ? 0 : period) - i - edge_twice;
    if (i >= 0 && i < n)
        return i;
    i = (mode == WRAP ? i : -i - edge_twice) % period;
    if (i < 0)
        i += period;
    return i < n ? i : period - i - edge_twice;
}
__device__ inline int64 inside(int64 i, int64 n, unsigned mode) {
    return i >= 0 && i < n ? i : beyond_ends(i, n, mode);
}

// The same for rows that are no shorter than the radius, without a call or a branch, for the ends
// of many rows: beyond an end lies element ((i ^ flip) & keep) + `low` or `high`; in the constant
// mode that is any element.
struct reflection {
    int n, flip, keep, low, high;

    __device__ reflection(int64 items, unsigned mode)
        : n(static_cast<int>(items)), flip(mode == REFLECT || mode == MIRROR ? -1 : 0),
          keep(mode == CONSTANT || mode == NEAREST ? 0 : -1) {
        low = mode == WRAP ? n : mode == MIRROR;
        high = mode == WRAP ? -n : mode == REFLECT ? 2 * n : mode == MIRROR ? 2 * n - 1 : n - 1;
    }
    // Whether the ends serve inputs up to `most` elements beyond them.
    static __device__ bool serves(int64 n, int64 most, unsigned mode) {
        return n < 1 << 28 && most + (mode == MIRROR) <= n;
    }
    // From which on elements repeat, or 0: an index less than that is served in any row.
    __device__ int period(unsigned mode) const {
        return mode == WRAP ? n : mode == REFLECT ? 2 * n : mode == MIRROR ? 2 * n - 2 : 0;
    }
    __device__ bool beyond(int i) const {
        return static_cast<unsigned>(i) >= static_cast<unsigned>(n);
    }
    __device__ int moved(int i, int by) const { return ((i ^ flip) & keep) + by; }
    __device__ int at(int i) const { return beyond(i) ? moved(i, i < 0 ? low : high) : i; }
};

// Copies 16 bytes from global to shared memory, without registers and without waiting, until
// `copied_vectors`; before sm_80 a thread waits for each.
__device__ inline void copy_vector(uint4 *to, const uint4 *from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    const unsigned position = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(position), "l"(from) : "memory");
#else
    *to = *from;
#endif
}
__device__ inline void copied_vectors() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// item / length, with the remainder in `item`: in 32 bits where possible. A call, as above.
__device__ __noinline__ int64 quotient(int64 item, int64 length) {
    if ((item | length) >> 32)
        return item / length;
    return static_cast<unsigned>(item) / static_cast<unsigned>(length);
}
__device__ inline int64 split(int64 &item, int64 length) {
    const int64 row = quotient(item, length);
    item -= row * length;
    return row;
}

// Weights and the constant are float64 even if the sum is float32.
template <class Acc> struct given { using type = Acc; };
template <> struct given<float32> { using type = float64; };

// Arguments of a rung: rows of n elements, each with ends of its own. An output's index in its row
// is that of its middle input minus `first`; its window begins `before` inputs before that one.
template <class In, class Acc> struct stencil {
    const In *in;
    const typename given<Acc>::type *weights; // `width` of them
    In *out;
    int64 n, outputs, first, before;
    unsigned mode;
    typename given<Acc>::type beyond; // value of the constant mode
    int64 rows, width;
    int64 pitch, step; // elements from a row to the next, and from an input to the next
    int64 inner;       // adjacent inputs that belong to rows of their own: columns
    unsigned form;     // an enum stencil1d_form; for columns also a thread's groups of outputs

    __device__ bool whole(int64 left, int64 right) const { return left >= 0 && right < n; }
    __device__ unsigned narrow() const { return form >> STENCIL1D_NARROW; }
    __device__ bool has_gaps() const { return step != 1 || pitch != n; }
    // Inputs beyond an end of a row, at most.
    __device__ int64 most_beyond() const {
        const int64 left = before - first, right = outputs + width - 1 - left - n;
        return left > right ? left : right;
    }
    // Whether kernels count a row's elements in 32 bits.
    __device__ bool is_short() const { return n < 1 << 28; }
    __device__ bool has_near_ends() const { return reflection::serves(n, most_beyond(), mode); }
    __device__ Acc read(int64 i) const {
        const int64 at = inside(i, n, mode);
        return static_cast<Acc>(at < 0 ? beyond : in[at * step]);
    }
    __device__ int64 every_output() const { return outputs * rows; }
    __device__ stencil row(int64 number) const {
        stencil one = *this;
        one.in += number * pitch;
        one.out += number * outputs;
        one.rows = 1;
        return one;
    }
    // The row of an output; its index becomes that in its row.
    __device__ stencil row_of(int64 &output) const {
        return rows == 1 ? *this : row(split(output, outputs));
    }
};

// The same in words of an element's size, for functions that only move elements.
template <unsigned Size> struct word_of_size { using type = uint32_t; };
template <> struct word_of_size<8> { using type = uint64; };
template <class In> using word_of = typename word_of_size<sizeof(In)>::type;
template <class In, class Acc>
__device__ stencil<word_of<In>, word_of<In>> in_words(const stencil<In, Acc> &s) {
    union {
        In item;
        word_of<In> word;
    } constant = {static_cast<In>(s.beyond)};
    return {reinterpret_cast<const word_of<In> *>(s.in),
            nullptr,
            reinterpret_cast<word_of<In> *>(s.out),
            s.n,
            s.outputs,
            s.first,
            s.before,
            s.mode,
            constant.word,
            s.rows,
            s.width,
            s.pitch,
            s.step,
            s.inner,
            s.form};
}

// Positions of a block's tile: the first is the `begin`-th of row `row`. A row has `pitch`
// positions: whole tiles or, if that is shorter, the rows lie end to end, each with its halo on
// both sides: then a tile may hold many of them. Position `at` has input `at + first - before`, and
// belongs to output `at`.
template <class In, class Acc> struct tile_of_rows {
    const stencil<In, Acc> s;
    int64 row, begin, pitch;
    bool alone; // no other row in the tile

    __device__ tile_of_rows(const stencil<In, Acc> &s, unsigned tile)
        : s(s), row(0), begin(static_cast<int64>(blockIdx.x) * tile), alone(s.rows == 1) {
        if (s.rows > 1) {
            pitch = (s.outputs + tile - 1) / tile * tile;
            alone = pitch <= s.outputs + s.width - 1;
            if (!alone)
                pitch = s.outputs + s.width - 1;
            row = split(begin, pitch);
        }
    }
    __device__ int64 row_at(unsigned position, int64 &at) const {
        at = begin + position;
        return alone ? row : row + split(at, pitch);
    }
    // Address of `positions` inputs, if all of them exist in one row, with `beside` more on either
    // side; else NULL.
    __device__ const In *whole(int64 positions, int beside = 0) const {
        const int64 left = s.first - s.before + begin;
        return (alone || begin + positions <= pitch) &&
                       s.whole(left - beside, left + positions - 1 + beside)
                   ? s.in + row * s.pitch + left * s.step
                   : nullptr;
    }
    // The input's address; NULL for the constant, and past the last row.
    __device__ const In *input(unsigned position) const {
        int64 at;
        const int64 r = row_at(position, at);
        if (r >= s.rows)
            return nullptr;
        at = inside(at + s.first - s.before, s.n, s.mode);
        return at < 0 ? nullptr : s.in + r * s.pitch + at * s.step;
    }
    // The output's index among all; -1 if there is none.
    __device__ int64 output(unsigned position) const {
        int64 at;
        const int64 r = row_at(position, at);
        return r < s.rows && at < s.outputs ? r * s.outputs + at : -1;
    }
};

// Elements of the kernel's size in memory, by their addresses; else as narrow_items.
template <class In> struct own_items {
    uint64 begin;

    __device__ explicit own_items(const In *items) : begin(__cvta_generic_to_global(items)) {}
    __device__ uint64 at(int64 index) const { return begin + distance(index); }
    __device__ int64 distance(int64 items) const { return items * int64(sizeof(In)); }
    // An element if it is `there`; else 0. A branch would wait for the condition, or for the loads
    // before it; and any value would be kept from one turn of a loop to the next.
    __device__ In load(uint64 place, bool there = true) const {
        union {
            word_of<In> word;
            In item;
        } loaded = {0};
        if constexpr (sizeof(In) == 4)
            asm volatile("{ .reg .pred there;\n"
                         "setp.ne.u32 there, %2, 0;\n"
                         "@there ld.global.u32 %0, [%1]; }"
                         : "+r"(loaded.word)
                         : "l"(place), "r"(static_cast<unsigned>(there)));
        else
            asm volatile("{ .reg .pred there;\n"
                         "setp.ne.u32 there, %2, 0;\n"
                         "@there ld.global.u64 %0, [%1]; }"
                         : "+l"(loaded.word)
                         : "l"(place), "r"(static_cast<unsigned>(there)));
        return loaded.item;
    }
    __device__ In widened(In item) const { return item; }
    __device__ void store(uint64 place, In item) const {
        union {
            In item;
            word_of<In> word;
        } stored = {item};
        if constexpr (sizeof(In) == 4)
            asm volatile("st.global.u32 [%0], %1;" ::"l"(place), "r"(stored.word) : "memory");
        else
            asm volatile("st.global.u64 [%0], %1;" ::"l"(place), "l"(stored.word) : "memory");
    }
};

// A thread's positions of a tile, `step` apart, of rows shorter than 2^28 elements.
struct walk {
    uint64 row; // its address; rows are `apart`
    int at, pitch, rest;
    int64 apart, on;
    template <class Tile>
    __device__ walk(const Tile &tile, int64 position, int step, uint64 first, int64 apart)
        : row(first), at(static_cast<int>(tile.begin + position)),
          pitch(tile.alone ? 1 << 30 : static_cast<int>(tile.pitch)), apart(apart) {
        const int rows = at / pitch, rows_on = step / pitch;
        at -= rows * pitch;
        rest = step - rows_on * pitch;
        row += rows * apart;
        on = rows_on * apart;
    }
    __device__ void next() {
        at += rest;
        row += on;
        if (at >= pitch) {
            at -= pitch;
            row += apart;
        }
    }
};

// a * b + c in one instruction.
__device__ inline uint64 wide(int a, int b, uint64 c) {
    uint64 sum;
    asm("mad.wide.s32 %0, %1, %2, %3;" : "=l"(sum) : "r"(a), "r"(b), "l"(c));
    return sum;
}

// Loads the inputs of `positions` positions from `from` on, STEP threads, or the block's if that is
// 0; `constant` for that mode, and for those that do not exist.
template <int STEP, class Memory, class In, class Acc>
__device__ void load_positions(const tile_of_rows<In, Acc> &where, const Memory &memory, In *tile,
                               int64 from, int positions, In constant) {
    constexpr int LOADS = 5; // in flight
    const int step = STEP ? STEP : static_cast<int>(blockDim.x);
    const stencil<In, Acc> &s = where.s;
    const unsigned mode = s.mode == MIRROR && s.n == 1 ? NEAREST : s.mode;
    const reflection ends(s.n, mode);
    const int period = s.has_near_ends() ? 0 : ends.period(mode);
    const int first = static_cast<int>(s.first - s.before), t = static_cast<int>(threadIdx.x);
    const int apart = static_cast<int>(memory.distance(s.step));
    const int64 all = where.alone ? s.outputs + s.width - 1 : (s.rows - where.row) * where.pitch;
    const int count = static_cast<int>(min(all - where.begin - from, int64(positions)));
    walk each(where, from + t, step, memory.at(where.row * s.pitch), memory.distance(s.pitch));
#pragma unroll 1
    for (int i = t; i < positions; i += LOADS * step) {
        decltype(memory.load(0)) loaded[LOADS];
        unsigned there = 0;
#pragma unroll
        for (int k = 0; k < LOADS; k++, each.next()) {
            int at = each.at + first;
            if (period)
                at = (at % period + period) % period;
            const bool exists = (i + k * step < count) & !(s.mode == CONSTANT & ends.beyond(at));
            there |= exists ? 1u << k : 0;
            loaded[k] = memory.load(wide(ends.at(at), apart, each.row), exists);
        }
#pragma unroll
        for (int k = 0; k < LOADS; k++)
            if (i + k * step < positions)
                tile[i + k * step] = there >> k & 1 ? memory.widened(loaded[k]) : constant;
    }
}
// Stores a warp's outputs: `group` of a lane, from position `first` on.
template <class Memory, class In, class Acc>
__device__ void store_positions(const tile_of_rows<In, Acc> &where, const Memory &memory,
                                const In *tile, int first, int group) {
    constexpr int WARP = 32;
    const stencil<In, Acc> &s = where.s;
    first += static_cast<int>(threadIdx.x) % WARP;
    const int outputs = static_cast<int>(s.outputs);
    const int64 all = (where.alone ? s.outputs : (s.rows - where.row) * where.pitch) - where.begin;
    const int count = static_cast<int>(min(all, int64(1 << 30)));
    const int item = static_cast<int>(memory.distance(1));
    walk each(where, first, WARP, memory.at(where.row * s.outputs), memory.distance(s.outputs));
#pragma unroll 5
    for (int k = 0; k < group; k++, each.next())
        if (first + k * WARP < count && each.at < outputs)
            memory.store(wide(each.at, item, each.row), tile[first + k * WARP]);
}

} // namespace stencil1d

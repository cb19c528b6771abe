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

// A thread's positions of a tile, `step` apart, of rows that reflection supports.
struct walk {
    int row, at, pitch, rows_on, positions_on; // the row counts from the tile's first
    template <class Tile>
    __device__ walk(const Tile &tile, int64 position, int step)
        : at(static_cast<int>(tile.begin + position)),
          pitch(tile.alone ? 1 << 30 : static_cast<int>(tile.pitch)) {
        row = at / pitch;
        at -= row * pitch;
        rows_on = step / pitch;
        positions_on = step - rows_on * pitch;
    }
    __device__ void next() {
        const bool over = at + positions_on >= pitch;
        at += positions_on - (over ? pitch : 0);
        row += rows_on + over;
    }
};

// Loads the inputs of `positions` positions from `from` on; `constant` for that mode, and for those
// that no output needs.
template <class In, class Acc>
__device__ void load_positions(const tile_of_rows<In, Acc> &where, In *tile, int64 from,
                               unsigned positions, unsigned step, In constant) {
    const stencil<In, Acc> &s = where.s;
    if (!s.has_near_ends()) {
        for (unsigned i = threadIdx.x; i < positions; i += step) {
            const In *there = where.input(from + i);
            tile[i] = there ? *there : constant;
        }
        return;
    }
    const reflection ends(s.n, s.mode);
    const In *rows = s.in + where.row * s.pitch;
    const int first = static_cast<int>(s.first - s.before);
    const int last = first + static_cast<int>(s.outputs + s.width - 1);
    const int64 left = s.rows - where.row;
    walk each(where, from + threadIdx.x, step);
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < positions; i += step, each.next()) {
        const int at = each.at + first;
        const bool unused =
            each.row >= left || at >= last || (s.mode == CONSTANT && ends.beyond(at));
        const In item = rows[unused ? 0 : each.row * s.pitch + ends.at(at) * s.step];
        tile[i] = unused ? constant : item;
    }
}

// Elements of a tile's rows that reflection supports. In memory the rows are contiguous, `length`
// elements each; in the tile they are `pitch` apart, and begin `before` positions into it. Elements
// are counted from the first of the tile's first row.
struct rows_of_tile {
    int length, pitch, before;
    int64 items; // of all rows from the tile's first on

    template <class Tile>
    __device__ rows_of_tile(const Tile &tile, int64 length, int64 before)
        : length(static_cast<int>(length)),
          pitch(tile.alone ? 1 << 30 : static_cast<int>(tile.pitch)),
          before(static_cast<int>(before)),
          items((tile.alone ? 1 : tile.s.rows - tile.row) * length) {}
    // The first element at or after a position.
    __device__ int from(int position) const {
        const int row = position / pitch, at = position - row * pitch - before;
        const int64 item = row * static_cast<int64>(length) + min(max(at, 0), length);
        return static_cast<int>(min(item, items));
    }
    // Calls move(k, position) for the k-th element of a vector, if it is one of first..end - 1.
    template <int ITEMS, class Move>
    __device__ void each(int vector, int first, int end, Move move) const {
        const int row = max(vector, 0) / length;
        int at = vector - row * length, position = row * pitch + before + at;
        if (vector >= first && vector + ITEMS <= end && at + ITEMS <= length) { // the common case
#pragma unroll
            for (int k = 0; k < ITEMS; k++)
                move(k, position + k);
            return;
        }
#pragma unroll
        for (int k = 0; k < ITEMS; k++, at++, position++) {
            if (at == length) {
                at = 0;
                position += pitch - length;
            }
            if (vector + k >= first && vector + k < end)
                move(k, position);
        }
    }
};

template <class In> union vec_of {
    static constexpr int ITEMS = 16 / sizeof(In);
    uint4 words;
    In items[ITEMS];
    // Number of elements between the start of its vector and `item`.
    static __device__ int begins_before(const In *item) {
        return static_cast<int>(reinterpret_cast<uint64>(item) % 16 / sizeof(In));
    }
};

// The inputs of a tile, a vector at a time; those beyond the ends of its rows one by one.
// `constant` for that mode, and for positions that no output needs.
template <class In, class Acc>
__device__ void load_rows(const tile_of_rows<In, Acc> &where, In *tile, int positions, int step,
                          In constant) {
    constexpr int ITEMS = vec_of<In>::ITEMS, LOADS = 4; // in flight at once
    const stencil<In, Acc> &s = where.s;
    const int begin = static_cast<int>(where.begin), t = static_cast<int>(threadIdx.x);
    const int n = static_cast<int>(s.n), halo = static_cast<int>(s.outputs + s.width - 1) - n;
    const rows_of_tile rows(where, n, s.before - s.first);
    const In *in = s.in + where.row * n;
    const int first = rows.from(begin), end = rows.from(begin + positions);
    int vector = first - vec_of<In>::begins_before(in + first) + t * ITEMS;
    for (; vector < end; vector += LOADS * step * ITEMS) {
        vec_of<In> loaded[LOADS];
#pragma unroll
        for (int l = 0, at = vector; l < LOADS; l++, at += step * ITEMS) {
            if (at >= first && at + ITEMS <= end) {
                loaded[l].words = *reinterpret_cast<const uint4 *>(in + at);
            } else {
#pragma unroll
                for (int k = 0; k < ITEMS; k++)
                    if (at + k >= first && at + k < end)
                        loaded[l].items[k] = in[at + k];
            }
        }
#pragma unroll
        for (int l = 0, at = vector; l < LOADS; l++, at += step * ITEMS)
            if (at < end)
                rows.each<ITEMS>(at, first, end, [&](int k, int position) {
                    tile[position - begin] = loaded[l].items[k];
                });
    }
    const reflection ends(n, s.mode);
    const int last =
        where.alone ? n + halo : static_cast<int>(min(rows.items / n * rows.pitch, int64(1 << 30)));
    const int count = where.alone ? 1 : (begin + positions) / rows.pitch + 1;
    for (int i = t; i < count * halo; i += step) {
        const int row = i / halo, beyond = i - row * halo - rows.before;
        const int at = beyond < 0 ? beyond : n + beyond;
        const int position = row * rows.pitch + rows.before + at - begin;
        if (position >= 0 && position < min(positions, last - begin))
            tile[position] = s.mode == CONSTANT ? constant : in[row * n + ends.at(at)];
    }
    for (int position = max(last - begin, 0) + t; position < positions; position += step)
        tile[position] = constant;
}
// Stores the outputs of `positions` positions from `from` on.
template <class In, class Acc>
__device__ void store_rows(const tile_of_rows<In, Acc> &where, const In *tile, int from,
                           int positions, int lane, int lanes) {
    constexpr int ITEMS = vec_of<In>::ITEMS;
    const stencil<In, Acc> &s = where.s;
    const int begin = static_cast<int>(where.begin);
    const rows_of_tile rows(where, s.outputs, 0);
    In *out = s.out + where.row * s.outputs;
    const int first = rows.from(begin + from), end = rows.from(begin + from + positions);
    int vector = first - vec_of<In>::begins_before(out + first) + lane * ITEMS;
    for (; vector < end; vector += lanes * ITEMS) {
        vec_of<In> made;
        rows.each<ITEMS>(vector, first, end,
                         [&](int k, int position) { made.items[k] = tile[position - begin]; });
        if (vector >= first && vector + ITEMS <= end) {
            store_vector(reinterpret_cast<uint4 *>(out + vector), made.words);
        } else {
#pragma unroll
            for (int k = 0; k < ITEMS; k++)
                if (vector + k >= first && vector + k < end)
                    out[vector + k] = made.items[k];
        }
    }
}

} // namespace stencil1d

// transpose_narrow.cuh: tiles of rung 7 of transpose.cu for elements of 1 and 2 bytes: of a matrix
// whose rows are any axes that are adjacent in the output, and whose columns are axes that are
// adjacent in the input. Contains no kernel.
#pragma once

#include "transpose_phased.cuh"

namespace transpose {

// A block stores its part of a column, which is a row of the output, from the first vector or
// sector on that begins there up to the one in which the next block's part begins, so it also loads
// some of the next rows. If a tile has whole columns that adjoin in the output, row 0 of the next
// column follows the last one: a vector with the end of one column and the start of the next is
// gathered like any other.
//
// A warp copies `Wide` bytes of each of 4 rows to shared memory, a unit; all copies are in flight
// before the first is waited for. Then it reads the unit by words, shifts each row's into place,
// and stores it transposed: words of a column, of `ITEMS` rows each, a group. Word c of the tile's
// group g is at c ^ (g & 28): lanes that hold a row, and lanes that gather vectors of 4 adjacent
// columns, use different banks.
template <class T, unsigned Wide> struct narrow_tile {
    static constexpr unsigned ITEMS = 4 / sizeof(T); // of a word
    static constexpr unsigned VECTOR = 16 / sizeof(T);
    static constexpr unsigned PITCH = Wide * ITEMS, UNIT = 4 * Wide; // bytes
    // A column: the first vector of the output, aligned to `align`, that begins in it, the byte in
    // the tile of the word, without that swizzle, with that vector's first element, the bits before
    // it in the word, more than 32 for whole words, and the column's elements before the vector.
    struct __align__(16) column {
        unsigned vector, slot, bits, before;
    };
    const transpose_plan &plan;
    char *words;
    // Tables: for each row of a unit the bytes before it in its first vector, those of whole words
    // in the upper half, of the rest eight times in the lower half; the columns, or the places of
    // whole ones.
    uint4 *skipped;
    column *columns;
    unsigned *slots;

    __device__ explicit narrow_tile(const transpose_plan &plan)
        : plan(plan), words(shared_memory<char>()),
          skipped(reinterpret_cast<uint4 *>(words + plan.tile_bytes)),
          columns(reinterpret_cast<column *>(skipped + plan.tile_bytes / UNIT)),
          slots(reinterpret_cast<unsigned *>(columns)) {}

    // The byte of the word with element `row` of a column that begins at `slot`, and the vector
    // that begins `bits` after the first bit of such a word, modulo 32.
    __device__ static unsigned word_of_row(unsigned row, unsigned slot) {
        return row / ITEMS * PITCH + slot;
    }
    __device__ uint4 gather(unsigned first, unsigned bits) const {
        const unsigned group = first / (PITCH / 4); // and more
        unsigned found[5];
#pragma unroll
        for (unsigned j = 0; j < 5; j++)
            found[j] = *reinterpret_cast<const unsigned *>(
                words + (first ^ ((group + j * 4) & 112)) + j * PITCH);
#pragma unroll
        for (unsigned j = 0; j < 4; j++)
            found[j] = __funnelshift_r(found[j], found[j + 1], bits);
        return make_uint4(found[0], found[1], found[2], found[3]);
    }
    __device__ uint4 gather_row(unsigned row, unsigned slot) const {
        return gather(word_of_row(row, slot), row * (8 * unsigned(sizeof(T))));
    }
};

// Offset of row or column `index`: `In` the input's, else the output's.
template <bool In>
__device__ uint64 offset_along(const transpose_axis *axes, unsigned count, uint64 index) {
    uint64 offset = 0;
#pragma unroll 1
    for (unsigned k = 0; k + 1 < count; k++) {
        const unsigned extent = static_cast<unsigned>(axes[k].extent);
        const uint64 rest = index >> 32 ? index / extent : static_cast<unsigned>(index) / extent;
        offset += (index - rest * extent) * (In ? axes[k].in : axes[k].out);
        index = rest;
    }
    return offset + index * (In ? axes[count - 1].in : axes[count - 1].out);
}

// The addresses of the tile's rows: row `k` is row `row` + k of the matrix, or after the last one a
// row of the next column.
template <class T> struct narrow_rows {
    const transpose_plan &plan;
    uint64 base, row; // address of the matrix's row 0 in the tile's first column
    __device__ uint64 operator()(unsigned k) const {
        uint64 there = row + k;
        const bool next = there >= plan.rows;
        there -= next ? plan.rows : 0;
        there = there < plan.rows ? there : 0;
        return base +
               sizeof(T) * (offset_along<true>(plan.axes + plan.grid_axes, plan.load_axes, there) +
                            (next ? plan.item_step : 0));
    }
};

// Copies the vectors that may hold a tile's rows, of `units` units a span. Those that are not
// entirely in the array are loaded by elements.
template <class T, unsigned Wide>
__device__ void copy_units(const narrow_tile<T, Wide> &tile, const narrow_rows<T> &rows,
                           unsigned units, unsigned all, const T *in) {
    constexpr unsigned WARPS = TILES_BLOCK / 32, COUNT = 8;  // units at once
    constexpr unsigned LANES = Wide / 16, ROWS = 32 / LANES; // of a row; of the lanes
    const unsigned lane = threadIdx.x % 32, offset = lane % LANES * 16;
    const unsigned wide = tile.plan.span * tile.plan.item_step * unsigned(sizeof(T));
    const uint64 low = reinterpret_cast<uint64>(in);
    const uint64 high = reinterpret_cast<uint64>(in + tile.plan.reach);
    const auto *vectors = reinterpret_cast<const uint4 *>(low & ~31ull);
    const unsigned magic = units == tile.plan.tile_height / 4 ? tile.plan.load_magic
                                                              : ~0u / units + 1; // of at least 3
#pragma unroll 1
    for (unsigned first = threadIdx.x / 32; first < all; first += COUNT * WARPS) {
        // A lane finds the address of one row; those beyond the last unit repeat one of its rows.
        const unsigned place = first + lane / 4 * WARPS, unit = least(all - 1, place);
        const unsigned span = __umulhi(unit, magic);
        const uint64 own = rows((unit - span * units) * 4 + lane % 4) + span * wide;
        if (place < all)
            reinterpret_cast<unsigned *>(tile.skipped + place)[lane % 4] =
                static_cast<unsigned>(own) % 16 / 4 << 18 | static_cast<unsigned>(own) % 4 * 8;
        char *to = tile.words + first * tile.UNIT + lane / LANES * Wide;
        if (!__any_sync(~0u, own < low + 15 || own + wide + 31 > high)) {
            // Two lanes share a request if they share a sector: a row that begins at an odd vector
            // is copied from its second one on, the first one last.
            const auto vector = static_cast<unsigned>((own - (low & ~31ull)) / 16);
#pragma unroll
            for (unsigned k = 0; k < COUNT * 4; k += ROWS) {
                const unsigned at = __shfl_sync(~0u, vector, k + lane / LANES);
                const unsigned mine = (lane + at % 2) % LANES;
                if (mine * 16 < wide + 15 && first + k / 4 * WARPS < all)
                    copy_async(
                        reinterpret_cast<uint4 *>(to + k / 4 * (WARPS * tile.UNIT) + k % 4 * Wide) +
                            mine,
                        vectors + (at + mine));
            }
            continue;
        }
#pragma unroll 1
        for (unsigned k = 0; k < COUNT * 4 && first + k / 4 * WARPS < all; k += ROWS) {
            const uint64 from = (__shfl_sync(~0u, own, k + lane / LANES) & ~15ull) + offset;
            char *there = to + k / 4 * (WARPS * tile.UNIT) + k % 4 * Wide + offset;
#pragma unroll 1
            for (unsigned j = 0; j < 16; j += sizeof(T))
                if (from + j >= low && from + j < high)
                    *reinterpret_cast<T *>(there + j) = *reinterpret_cast<const T *>(from + j);
        }
    }
}

// Transposes the warp's units in place.
template <class T, unsigned Wide>
__device__ void turn_units(const narrow_tile<T, Wide> &tile, unsigned all) {
    constexpr unsigned ITEMS = narrow_tile<T, Wide>::ITEMS, PITCH = narrow_tile<T, Wide>::PITCH;
    // The lane after those whose word is stored has the last one's next word.
    constexpr unsigned WORDS = Wide / 128, LANES = WORDS > 1 ? 30 : 32;
    constexpr unsigned WARPS = TILES_BLOCK / 32;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    // Lanes beyond the span repeat the word after it.
    const unsigned last = (tile.plan.span * unsigned(sizeof(T)) + 3) / 4;
#pragma unroll 2
    for (unsigned unit = warp; unit < all; unit += WARPS) {
        char *words = tile.words + unit * tile.UNIT;
        const uint4 found = tile.skipped[unit];
        const unsigned skipped[] = {found.x, found.y, found.z, found.w};
        unsigned taken[WORDS][4];
#pragma unroll
        for (unsigned k = 0; k < WORDS; k++)
#pragma unroll
            for (unsigned i = 0; i < 4; i++)
                taken[k][i] = *reinterpret_cast<const unsigned *>(
                    words + 4 * least(lane + k * LANES, last) + i * Wide + (skipped[i] >> 16));
        __syncwarp();
#pragma unroll
        for (unsigned k = 0; k < WORDS; k++)
#pragma unroll
            for (unsigned i = 0; i < 4; i++)
                taken[k][i] =
                    __funnelshift_r(taken[k][i], __shfl_down_sync(~0u, taken[k][i], 1), skipped[i]);
        if (lane < LANES)
#pragma unroll
            for (unsigned k = 0; k < WORDS; k++)
#pragma unroll
                for (unsigned i = 0; i < 4; i += ITEMS) {
                    unsigned turned[ITEMS];
#pragma unroll
                    for (unsigned j = 0; j < ITEMS; j++)
                        turned[j] = taken[k][i + j];
                    turn_words(turned);
                    put_words(reinterpret_cast<unsigned *>(
                                  words + i / ITEMS * PITCH +
                                  (((lane + k * LANES) * ITEMS * 4) ^ (unit * (16 / ITEMS) & 112))),
                              turned);
                }
    }
}

// The same where gaps follow the input's elements, which are taken one by one.
template <class T, unsigned Wide>
__device__ void turn_gaps(const narrow_tile<T, Wide> &tile, unsigned all) {
    constexpr unsigned ITEMS = narrow_tile<T, Wide>::ITEMS, PITCH = narrow_tile<T, Wide>::PITCH;
    constexpr unsigned WARPS = TILES_BLOCK / 32;
    const unsigned lane = threadIdx.x % 32, last = tile.plan.span - 1;
    const unsigned step = tile.plan.item_step * unsigned(sizeof(T));
#pragma unroll 1
    for (unsigned unit = threadIdx.x / 32; unit < all; unit += WARPS) {
        char *words = tile.words + unit * tile.UNIT;
        const uint4 found = tile.skipped[unit];
        const unsigned skipped[] = {found.x, found.y, found.z, found.w};
        unsigned taken[ITEMS][4];
#pragma unroll
        for (unsigned j = 0; j < ITEMS; j++)
#pragma unroll
            for (unsigned i = 0; i < 4; i++)
                taken[j][i] = *reinterpret_cast<const T *>(
                    words + least(lane + 32 * j, last) * step + i * Wide + (skipped[i] >> 16) +
                    skipped[i] % 32 / 8);
        __syncwarp();
#pragma unroll
        for (unsigned j = 0; j < ITEMS; j++)
#pragma unroll
            for (unsigned i = 0; i < 4; i += ITEMS) {
                unsigned *to = reinterpret_cast<unsigned *>(
                    words + i / ITEMS * PITCH +
                    (((lane + 32 * j) * 4) ^ (unit * (16 / ITEMS) & 112)));
                if constexpr (ITEMS == 2)
                    *to = __byte_perm(taken[j][i], taken[j][i + 1], 0x5410);
                else
                    *to = __byte_perm(__byte_perm(taken[j][0], taken[j][1], 0x0040),
                                      __byte_perm(taken[j][2], taken[j][3], 0x0040), 0x5410);
            }
        __syncwarp();
    }
}

// Stores the vectors of the tile's columns that begin in its rows; `rows` are left in the matrix.
// In a warp, `lanes` lanes take adjacent vectors of a column. `to`: the output's first vector.
template <class T, unsigned Wide>
__device__ void store_columns(const narrow_tile<T, Wide> &tile, uint4 *to, uint64 rows,
                              unsigned columns) {
    constexpr unsigned ITEMS = narrow_tile<T, Wide>::VECTOR;
    constexpr unsigned PITCH = narrow_tile<T, Wide>::PITCH;
    const transpose_plan &plan = tile.plan;
    const unsigned lanes = plan.lanes, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned left =
        lanes == 8 ? threadIdx.x / 8 : warp / 4 * 32 + warp % 4 * 4 + lane / 4 % 4 + lane / 16 * 16;
    const unsigned step = lanes == 8 ? 32 : 64;
#pragma unroll 1
    for (unsigned first = 0; first < plan.slots; first += lanes) {
        const unsigned p = first + (threadIdx.x & (lanes - 1)), offset = p * (4 * PITCH);
        if (p >= plan.slots)
            break;
        if ((first + lanes) * ITEMS + plan.align / sizeof(T) <= rows + 1) { // of all columns
#pragma unroll 1
            for (unsigned k = left; k < columns; k += step) {
                const auto column = tile.columns[k];
                store_vector(to + (column.vector + p),
                             tile.gather(column.slot + offset, column.bits));
            }
            continue;
        }
#pragma unroll 1
        for (unsigned k = left; k < columns; k += step) {
            const auto column = tile.columns[k];
            if ((p + 1) * ITEMS + column.before <= rows)
                store_vector(to + (column.vector + p),
                             tile.gather(column.slot + offset, column.bits));
        }
    }
}

// Stores the elements of each column before its first vector if the tile has its start, and those
// after its last one.
template <class T, unsigned Wide>
__device__ void store_ends(const narrow_tile<T, Wide> &tile, uint4 *to, uint64 rows,
                           unsigned columns, bool begins) {
    constexpr unsigned ITEMS = narrow_tile<T, Wide>::VECTOR, SIZE = sizeof(T);
#pragma unroll 1
    for (unsigned k = threadIdx.x; k < 2 * columns; k += TILES_BLOCK) {
        const bool tail = k >= columns;
        const auto column = tile.columns[tail ? k - columns : k];
        const unsigned before = column.before;
        const unsigned slot = column.slot - tile.word_of_row(before, 0); // of row 0
        unsigned first = 0, items = begins ? before : 0;
        if (tail) {
            const unsigned left = static_cast<unsigned>(rows) - before;
            const bool here = rows >= before && left < tile.plan.slots * ITEMS;
            first = before + left / ITEMS * ITEMS;
            items = here ? left % ITEMS : 0;
        }
        T *at = reinterpret_cast<T *>(to + column.vector) + first - before;
        if (items >= ITEMS) // a sector has two vectors
            store_vector(reinterpret_cast<uint4 *>(at + items % ITEMS),
                         tile.gather_row(items % ITEMS, slot));
        if (items % ITEMS)
            store_pieces(at, tile.gather_row(first, slot), items % ITEMS * SIZE, !tail);
    }
}

// Stores a tile of whole columns that adjoin in the output, from `to` on: its vectors, and the
// elements before and after those of the matrix.
template <class T, unsigned Wide>
__device__ void store_run(const narrow_tile<T, Wide> &tile, T *to, unsigned columns, bool begins,
                          bool ends) {
    constexpr unsigned ITEMS = narrow_tile<T, Wide>::VECTOR, SIZE = sizeof(T);
    const unsigned rows = static_cast<unsigned>(tile.plan.rows), all = columns * rows;
    const unsigned before = (0 - static_cast<unsigned>(reinterpret_cast<uint64>(to))) % 16 / SIZE;
#pragma unroll 1
    for (unsigned item = before + threadIdx.x * ITEMS; item < all; item += TILES_BLOCK * ITEMS) {
        const unsigned column = __umulhi(item, tile.plan.store_magic);
        const uint4 found = tile.gather_row(item - column * rows, tile.slots[column]);
        if (ends && item + ITEMS > all)
            store_pieces(to + item, found, (all - item) * SIZE, false);
        else
            store_vector(reinterpret_cast<uint4 *>(to + item), found);
    }
    if (begins && threadIdx.x == 0)
        store_pieces(to, tile.gather(tile.slots[0], 0), before * SIZE, true);
}

template <class T, unsigned Wide>
__device__ void move_narrow_tile(const T *in, T *out, const transpose_plan &plan,
                                 const tile_corner &corner) {
    const narrow_tile<T, Wide> tile(plan);
    const uint64 row = static_cast<uint64>(corner.row_tile) * plan.tile_rows;
    const uint64 left = static_cast<uint64>(corner.column_tile) * plan.tile_columns;
    const unsigned columns = least(plan.columns - left, plan.tile_columns);
    const uint64 rows = plan.rows - row;
    // The last tile needs fewer, up to those of the vector that begins in its last row.
    const unsigned units = least((rows + 20 / sizeof(T) + 2) / 4, plan.tile_height / 4);
    const unsigned all = __umulhi(columns + plan.span - 1, plan.wrap_magic) * units;
    const uint64 base = reinterpret_cast<uint64>(in + corner.in + left * plan.item_step);
    copy_units(tile, narrow_rows<T>{plan, base, row}, units, all, in);

    const transpose_axis *run_axes = plan.axes + plan.grid_axes + plan.load_axes;
    T *to = out + corner.out + row;
    auto *vectors = reinterpret_cast<uint4 *>(reinterpret_cast<uint64>(out) & ~15ull);
#pragma unroll 1
    for (unsigned k = threadIdx.x; k < columns; k += TILES_BLOCK) {
        const unsigned span = __umulhi(k, plan.wrap_magic);
        const unsigned slot = span * units * tile.UNIT + (k - span * plan.span) * 4;
        if (plan.whole) {
            tile.slots[k] = slot;
            continue;
        }
        const auto first =
            reinterpret_cast<uint64>(to + offset_along<false>(run_axes, plan.run_axes, left + k));
        const unsigned before =
            ((0 - static_cast<unsigned>(first)) & (plan.align - 1)) / unsigned(sizeof(T));
        const uint64 bytes = first + before * sizeof(T) - reinterpret_cast<uint64>(vectors);
        tile.columns[k] = {static_cast<unsigned>(bytes / 16), tile.word_of_row(before, slot),
                           before * (8 * unsigned(sizeof(T))), before};
    }
    wait_for_copies();
    __syncwarp();
    if (plan.item_step > 1)
        turn_gaps(tile, all);
    else
        turn_units(tile, all);
    __syncthreads();
    if (plan.whole) {
        store_run(tile, to + left * plan.rows, columns, left == 0, left + columns == plan.columns);
        return;
    }
    store_columns(tile, vectors, rows, columns);
    if (!row || rows < plan.tile_rows + plan.align / sizeof(T))
        store_ends(tile, vectors, rows, columns, !row);
}

} // namespace transpose

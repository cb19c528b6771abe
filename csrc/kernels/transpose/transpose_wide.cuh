// transpose_wide.cuh: tiles of rung 7 of transpose.cu for elements of at least a word, of any axes.
// Contains no kernel.
#pragma once

#include "transpose_packed.cuh"
#include "transpose_tiles.cuh"

namespace transpose {

// A tile has `tile_rows` rows, which adjoin in the output, of `tile_columns` columns, which adjoin
// in the input where possible; both are one axis or several. A thread copies the same element, or
// vector, of several rows, or those of 16 bytes that follow each other in the tile.
//
// In shared memory row r begins at r * tile_pitch, and `pad` more for each vector's rows before it:
// lanes that gather 8 vectors of 4 adjacent columns, or adjacent vectors of a whole tile, use
// different banks.
//
// A tile of whole columns, adjacent in the output, is stored as one run. Other tiles store each
// column as whole sectors at its own alignment: a column begins up to a sector earlier than
// another, so the block loads `lead` more rows before its own.
template <class T> struct wide_tile {
    static constexpr unsigned ITEMS = vec<T>::ITEMS;
    const transpose_plan &plan;
    const transpose_axis *row_axes, *column_axes;
    uint64 row, column;           // the tile's first ones, after the lead
    unsigned columns, first, end; // columns here; rows of the matrix, counted from the lead on
    uint64 *row_from;             // table of the rows' offsets, if they are of several axes
    uint64 *column_from;          // that of the columns', after it, for elements of 16 bytes
    T *items;

    __device__ wide_tile(const transpose_plan &plan, const tile_corner &corner)
        : plan(plan), row_axes(plan.axes + plan.grid_axes), column_axes(row_axes + plan.load_axes),
          row(uint64{corner.row_tile} * plan.tile_rows),
          column(uint64{corner.column_tile} * plan.tile_columns),
          columns(least(plan.columns - column, plan.tile_columns)),
          first(corner.row_tile ? 0 : plan.lead),
          end(least(plan.rows + plan.lead - row, plan.tile_rows + plan.lead)),
          row_from(shared_memory<uint64>()),
          column_from(row_from + (has_table() ? plan.tile_rows + plan.lead : 0)),
          items(reinterpret_cast<T *>(shared_memory<char>() + plan.table_bytes)) {}

    __device__ bool has_table() const { return plan.load_axes > 1 || plan.sparse; }
    __device__ bool has_columns() const { return ITEMS == 1 && plan.run_axes > 1; }
    __device__ void fill_tables() const {
        const unsigned begin = static_cast<unsigned>(row) - plan.lead;
        if (has_table())
#pragma unroll 1
            for (unsigned i = first + threadIdx.x; i < end; i += TILES_BLOCK)
                row_from[i] = steps(row_axes, plan.load_axes, begin + i, 1).in;
        if (has_columns())
#pragma unroll 1
            for (unsigned i = threadIdx.x; i < columns; i += TILES_BLOCK)
                column_from[i] = column_in(i);
        if (has_table() || has_columns())
            __syncthreads();
    }
    __device__ uint64 column_in(unsigned at) const {
        if (plan.run_axes == 1)
            return (column + at) * column_axes->in;
        return steps(column_axes, plan.run_axes, static_cast<unsigned>(column) + at, 1).in;
    }
    __device__ uint64 column_out(unsigned at) const {
        if (plan.run_axes == 1)
            return (column + at) * column_axes->out;
        return steps(column_axes, plan.run_axes, static_cast<unsigned>(column) + at, 1).out;
    }
    __device__ unsigned slot(unsigned row, unsigned at) const {
        return row * plan.tile_pitch + row / ITEMS * plan.pad + at;
    }

    // Loads the elements, a thread those of a vector's rows at once: these are faster than vectors
    // (TUNING.md T35). With a `Table` it tells where rows begin.
    template <bool Table, bool Around> __device__ void load(const T *in) const {
        const run_walk thread(columns, columns == plan.tile_columns ? plan.load_magic : 0);
        const unsigned step = (columns > TILES_BLOCK ? 1 : thread.run_step) * ITEMS;
        const unsigned begin = first + thread.run * ITEMS;
        const uint64 pitch = Table ? 0 : row_axes->in;
        if (thread.run * ITEMS >= step) // these threads have no place
            return;
        in += (row - plan.lead + begin) * pitch;
#pragma unroll 1
        for (unsigned at = thread.part; at < columns; at += TILES_BLOCK) {
            const T *from = in + column_in(at);
#pragma unroll(4 / ITEMS)
            for (unsigned k = begin; k < end; k += step, from += step * pitch) {
                T *to = items + slot(k, at);
#pragma unroll
                for (unsigned j = 0; j < ITEMS; j++)
                    if (j == 0 || k + j < end)
                        copy_async<Around>(to + j * plan.tile_pitch,
                                           from + (Table ? row_from[k + j] : j * pitch));
            }
        }
    }

    // Loads elements of 16 bytes in the tile's order through registers: L2 is asked for two thirds
    // as often as by asynchronous copies (TUNING.md T52).
    __device__ void load_in_order(const T *in) const {
        constexpr unsigned DEPTH = 6; // at once: most tiles have no more
        const unsigned count = (end - first) * columns;
        const unsigned magic = columns == plan.tile_columns ? plan.load_magic : 0;
        const uint64 pitch = has_table() ? 0 : row_axes->in;
        in += (row - plan.lead + first) * pitch;
#pragma unroll 1
        for (unsigned i = threadIdx.x; i < count; i += DEPTH * TILES_BLOCK) {
            T taken[DEPTH];
            unsigned to[DEPTH];
#pragma unroll
            for (unsigned d = 0; d < DEPTH; d++) {
                const unsigned here = i + d * TILES_BLOCK;
                if (here >= count)
                    break;
                const unsigned k = magic ? __umulhi(here, magic) : here / columns;
                const unsigned at = here - k * columns;
                const T *from =
                    in + (has_columns() ? column_from[at] : (column + at) * column_axes->in) +
                    (has_table() ? row_from[first + k] : k * pitch);
                taken[d] = plan.sparse ? *from : load_around(from);
                to[d] = slot(first + k, at);
            }
#pragma unroll
            for (unsigned d = 0; d < DEPTH; d++)
                if (i + d * TILES_BLOCK < count)
                    items[to[d]] = taken[d];
        }
    }

    // Stores whole columns, which are one run of the output: vectors from a line on.
    __device__ void store_whole(T *out) const {
        T *to = out + column_out(0);
        const unsigned rows = plan.tile_rows, count = rows * columns;
        const auto item = [&](unsigned k) -> T {
            const unsigned at = __umulhi(k, plan.store_magic);
            return items[slot(k - at * rows, at)];
        };
        const unsigned line = static_cast<unsigned>(0 - reinterpret_cast<uint64>(to)) % 128;
        const unsigned head = least(line / unsigned(sizeof(T)), count);
        const unsigned vectors = (count - head) / ITEMS * ITEMS;
#pragma unroll 2
        for (unsigned k = threadIdx.x * ITEMS; k < vectors; k += TILES_BLOCK * ITEMS) {
            vec<T> found;
#pragma unroll
            for (unsigned j = 0; j < ITEMS; j++)
                found.items[j] = item(head + k + j);
            store_vector(reinterpret_cast<uint4 *>(to + head + k), found.all);
        }
        if (threadIdx.x < count - vectors) {
            const unsigned k = threadIdx.x + (threadIdx.x < head ? 0 : vectors);
            to[k] = item(k);
        }
    }

    // Stores a column's rows from one multiple of a sector to another, of the first and the last
    // tile from the first or to the last row. Without a lead: the tile's rows.
    __device__ void store_columns(T *out) const {
        const unsigned lead = plan.lead, lane = threadIdx.x % 32;
        out += row;
#pragma unroll 1
        for (unsigned at = threadIdx.x / 32 * 4 + lane / 8; at < columns; at += TILES_BLOCK / 8) {
            T *to = out + column_out(at);
            const unsigned phase = static_cast<unsigned>(reinterpret_cast<uint64>(to)) %
                                   (lead ? 32 : 16) / unsigned(sizeof(T));
            // Rows are counted from one vector before the tile's first; `turn` of a vector's are
            // before a pad.
            const unsigned shift = ITEMS + lead - phase, begin = lead ? shift : ITEMS;
            const unsigned low = begin > first + ITEMS ? begin : first + ITEMS;
            const unsigned high = least(end + ITEMS, begin + plan.tile_rows);
            to -= static_cast<int>(ITEMS + lead);
            const unsigned vector = ITEMS * plan.tile_pitch + plan.pad,
                           turn = ITEMS - shift % ITEMS;
            unsigned k = shift + lane % 8 * ITEMS, slots[ITEMS]; // in bytes, after the first
#pragma unroll
            for (unsigned j = 0; j < ITEMS; j++)
                slots[j] = (j * plan.tile_pitch + (j < turn ? 0 : plan.pad)) * unsigned(sizeof(T));
            unsigned from = (slot(k, at) - vector) * unsigned(sizeof(T));
            for (; k < high; k += 8 * ITEMS, from += 8 * vector * unsigned(sizeof(T))) {
                if (k >= low && k + ITEMS <= high) {
                    vec<T> found;
#pragma unroll
                    for (unsigned j = 0; j < ITEMS; j++)
                        found.items[j] = *reinterpret_cast<const T *>(
                            reinterpret_cast<const char *>(items) + (from + slots[j]));
                    store_vector(reinterpret_cast<uint4 *>(to + k), found.all);
                } else {
#pragma unroll 1
                    for (unsigned j = k; j < k + ITEMS; j++)
                        if (j >= low && j < high)
                            to[j] = items[slot(j - ITEMS, at)];
                }
            }
        }
    }
};

template <class T>
__device__ void move_wide_tile(const T *in, T *out, const transpose_plan &plan,
                               const tile_corner &corner) {
    const wide_tile<T> tile(plan, corner);
    tile.fill_tables();
    if constexpr (sizeof(T) == 16)
        tile.load_in_order(in + corner.in);
    else if (plan.sparse)
        tile.template load<true, false>(in + corner.in);
    else if (tile.has_table())
        tile.template load<true, true>(in + corner.in);
    else
        tile.template load<false, true>(in + corner.in);
    wait_for_copies();
    __syncthreads();
    if (plan.whole)
        tile.store_whole(out + corner.out);
    else
        tile.store_columns(out + corner.out);
}

} // namespace transpose

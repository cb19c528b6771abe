// transpose_rows.cuh: rung 7 of transpose.cu where the innermost axis stays innermost: rows are
// copied, wherever they are, and elements with gaps gathered. Contains no kernel.
#pragma once

#include "transpose_loads.cuh"

namespace transpose {

// The output is written in order, and each element is read from its address. A warp copies 32
// adjacent elements and then the next 32, so it divides only once, and where an axis ends. `Index`
// holds the index of every element (TUNING.md T13).
template <class Index, unsigned Step> struct row_items {
    const transpose_plan &plan;
    static constexpr bool GAPS = Step == 32; // of move_rows
    const Index columns, extent;             // of the axis that varies fastest over the rows
    const Index step_rows, step_columns;
    Index row, index, column; // of the element: its row, the index along that axis
    uint64 others = 0;        // steps of the other axes

    __device__ row_items(const transpose_plan &plan, Index item)
        : plan(plan), columns(static_cast<Index>(plan.columns)),
          extent(static_cast<Index>(plan.axes[0].extent)), step_rows(Step / columns),
          step_columns(Step % columns), row(item / columns), column(item - row * columns) {
        find_row();
    }
    __device__ void find_row() {
        Index rest = row / extent;
        index = row - rest * extent;
        others = 0;
#pragma unroll 1
        for (unsigned k = 1; k < plan.grid_axes; k++) {
            const Index of = static_cast<Index>(plan.axes[k].extent), next = rest / of;
            others += (rest - next * of) * plan.axes[k].in;
            rest = next;
        }
    }
    __device__ uint64 offset() const {
        return others + index * plan.axes[0].in +
               (GAPS ? column * static_cast<uint64>(plan.item_step) : column);
    }
    __device__ void next() {
        const Index ends = column + step_columns >= columns;
        column += step_columns - (ends ? columns : 0);
        row += step_rows + ends;
        index += step_rows + ends;
        if (index >= extent)
            find_row();
    }
    __device__ void next_row() {
        column = 0;
        row++;
        if (++index == extent)
            find_row();
    }
};

template <class Index, class T>
__device__ void move_rows(const T *in, T *out, const transpose_plan &plan) {
    constexpr unsigned IN_FLIGHT = sizeof(T) == 16 ? TRANSPOSE_ROW_VECTORS : TRANSPOSE_ROW_ITEMS;
    const unsigned warp = threadIdx.x / 32 * (32 * plan.loads);
    const uint64 begin = static_cast<uint64>(blockIdx.x) * (plan.loads * TILES_BLOCK);
    const Index first = static_cast<Index>(begin + warp + threadIdx.x % 32);
    const Index items = static_cast<Index>(plan.items);
    row_items<Index, 32> at(plan, first);
    T taken[IN_FLIGHT];
#pragma unroll
    for (unsigned k = 0; k < IN_FLIGHT && k < plan.loads; k++, at.next())
        if (first + k * 32 < items)
            taken[k] = plan.sparse ? in[at.offset()] : load_near(in + at.offset());
#pragma unroll
    for (unsigned k = 0; k < IN_FLIGHT && k < plan.loads; k++)
        if (first + k * 32 < items)
            out[first + k * 32] = taken[k];
}

// The same by vectors of the output, for narrow elements in rows of at least a vector. Each is cut
// out of the two vectors in which it lies in the input or, if a row ends in it, also out of the
// next row's.
template <class T> struct cut_row {
    uint4 low, high;
    unsigned skipped;

    // Bytes `begin` to `end` of the vector at `from` are needed. Returns false if they cannot be
    // loaded so: a vector that holds them lies partly outside the array.
    __device__ bool load_if(bool wanted, uint64 from, unsigned begin, unsigned end, const T *in,
                            const T *end_of_all) {
        skipped = static_cast<unsigned>(from) % 16;
        const uint64 first = from - skipped;
        const bool needs_low = skipped + begin < 16;
        const bool needs_high = skipped + end > 16;
        const bool whole = first + (needs_low ? 0 : 16) >= reinterpret_cast<uint64>(in) &&
                           first + (needs_high ? 32 : 16) <= reinterpret_cast<uint64>(end_of_all);
        low = load_vector_if(wanted && whole && needs_low, reinterpret_cast<const uint4 *>(first));
        high = load_vector_if(wanted && whole && needs_high,
                              reinterpret_cast<const uint4 *>(first) + 1);
        return whole;
    }
    __device__ uint4 taken() const { return cut_vector<sizeof(T)>(low, high, skipped); }
};

template <class Index, class T>
__device__ void move_narrow_rows(const T *in, T *out, const transpose_plan &plan) {
    constexpr unsigned ITEMS = 16 / sizeof(T), IN_FLIGHT = 2, SIZE = sizeof(T);
    const T *end = in + plan.reach;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32 * (32 * TRANSPOSE_ROW_VECTORS);
    const unsigned head = static_cast<unsigned>(0 - reinterpret_cast<uint64>(out)) % 16 / SIZE;
    const uint64 begin = static_cast<uint64>(blockIdx.x) * (TRANSPOSE_ROW_VECTORS * TILES_BLOCK);
    const Index items = static_cast<Index>(plan.items);
    if (begin + threadIdx.x < least(plan.items, head)) // elements before the first vector
        out[threadIdx.x] = in[row_items<Index, 1>(plan, threadIdx.x).offset()];

    Index first = static_cast<Index>((begin + warp + lane) * ITEMS + head);
    row_items<Index, 32 * ITEMS> at(plan, first);
#pragma unroll
    for (unsigned done = 0; done < TRANSPOSE_ROW_VECTORS; done += IN_FLIGHT) {
        cut_row<T> row[IN_FLIGHT], next[IN_FLIGHT];
        unsigned bytes[IN_FLIGHT]; // of the row; 0: nothing to store
#pragma unroll
        for (unsigned k = 0; k < IN_FLIGHT; k++, at.next(), first += 32 * ITEMS) {
            const unsigned left = least(at.columns - at.column, ITEMS);
            const bool there = first < items && items - first >= ITEMS;
            const uint64 from = reinterpret_cast<uint64>(in + at.offset());
            bool whole = row[k].load_if(there, from, 0, left * SIZE, in, end);
            if (left < ITEMS) {
                auto then = at;
                then.next_row();
                const uint64 second = reinterpret_cast<uint64>(in + then.offset()) - left * SIZE;
                whole &= next[k].load_if(there, second, left * SIZE, 16, in, end);
            }
            bytes[k] = there && whole ? left * SIZE : 0;
            if (first < items && !bytes[k]) { // an array begins or ends here
                auto one = at;
#pragma unroll 1
                for (Index item = first; item < items && item < first + ITEMS; item++) {
                    out[item] = in[one.offset()];
                    if (++one.column == one.columns)
                        one.next_row();
                }
            }
        }
#pragma unroll
        for (unsigned k = 0; k < IN_FLIGHT; k++) {
            const Index to = first - (IN_FLIGHT - k) * (32 * ITEMS);
            uint4 found = row[k].taken();
            if (bytes[k] < 16)
                found = join_vectors(found, next[k].taken(), static_cast<int>(bytes[k]));
            if (bytes[k])
                store_vector(reinterpret_cast<uint4 *>(out + to), found);
        }
    }
}

} // namespace transpose

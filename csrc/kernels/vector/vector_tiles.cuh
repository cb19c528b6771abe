// vector_tiles.cuh: sums of operands whose elements adjoin along another axis than the result's,
// for rung 8 of add and saxpy. Knows no operation.
#pragma once

#include "../common.cuh"
#include "../vector_plan.cuh"

namespace vector {

// A number from its bits.
template <class T> __device__ T number_of(uint64 bits) {
    union {
        uint64 bits;
        T number;
    } found = {bits};
    return found.number;
}

// Offsets of an element of the result, in elements.
struct position {
    int64 x, y, out;
};

// A tile of the result: some places of the innermost axis and of the second one, along which a
// turned operand's elements adjoin. That one is read along the second axis, and turned in shared
// memory.
struct tile_shape {
    const vector_axis &inner, &second;
    unsigned columns, rows; // that are within the result

    // Calls a function with a thread's next Count elements: their number, column and row, and
    // whether they are within the result. Adjacent threads have adjacent columns, or rows.
    template <unsigned Count, class F>
    __device__ void each(unsigned at, bool by_rows, const F &f) const {
        const vector_axis &axis = by_rows ? second : inner;
#pragma unroll
        for (unsigned k = 0; k < Count; k++, at += blockDim.x) {
            const unsigned high = __umulhi(at, axis.tile_magic), low = at - high * axis.tile;
            const unsigned column = by_rows ? high : low, row = by_rows ? low : high;
            f(k, column, row, column < columns && row < rows);
        }
    }
    __device__ unsigned room(unsigned column, unsigned row) const {
        return column * (second.tile | 1) + row; // without bank conflicts
    }
};
template <class T>
__device__ void put_turned(const tile_shape &tile, const T *from, T *room, int step, int row_step) {
    constexpr unsigned AT_ONCE = 4;
    for (unsigned at = threadIdx.x; at < tile.inner.tile * tile.second.tile;
         at += AT_ONCE * blockDim.x) {
        T items[AT_ONCE];
        tile.each<AT_ONCE>(at, true, [&](unsigned k, unsigned column, unsigned row, bool within) {
            if (within)
                items[k] = from[int(column) * step + int(row) * row_step];
        });
        tile.each<AT_ONCE>(at, true, [&](unsigned k, unsigned column, unsigned row, bool within) {
            if (within)
                room[tile.room(column, row)] = items[k];
        });
    }
}
template <class Op, class T>
__device__ void combine_tile(const T *x, const T *y, T *out, T a, const vector_plan &plan) {
    constexpr unsigned AT_ONCE = 16 / sizeof(T);
    const vector_axis &inner = plan.axes[0], &second = plan.axes[1];
    unsigned block = blockIdx.x;
    position first = {0, 0, 0};
    const auto place = [&](const vector_axis &axis) {
        const unsigned rest = block / axis.tiles, at = (block - rest * axis.tiles) * axis.tile;
        first.x += at * axis.x;
        first.y += at * axis.y;
        first.out += at * axis.out;
        block = rest;
        return static_cast<unsigned>(axis.extent) - at;
    };
    const unsigned columns = place(inner), rows = place(second);
#pragma unroll 1
    for (unsigned k = 2; k < plan.axis_count; k++)
        place(plan.axes[k]);
    const tile_shape tile = {inner, second, min(columns, inner.tile), min(rows, second.tile)};
    T *of_x = shared_memory<T>(), *of_y = of_x + (plan.turns_x ? tile.room(inner.tile, 0) : 0);
    if (plan.turns_x)
        put_turned(tile, x + first.x, of_x, int(inner.x), int(second.x));
    if (plan.turns_y)
        put_turned(tile, y + first.y, of_y, int(inner.y), int(second.y));
    __syncthreads();
    const T x_number = number_of<T>(plan.x_number), y_number = number_of<T>(plan.y_number);
#pragma unroll 1
    for (unsigned at = threadIdx.x; at < inner.tile * second.tile; at += AT_ONCE * blockDim.x) {
        T xs[AT_ONCE], ys[AT_ONCE];
        tile.each<AT_ONCE>(at, false, [&](unsigned k, unsigned column, unsigned row, bool within) {
            if (!within)
                return;
            const int i = int(column), j = int(row);
            xs[k] = plan.turns_x ? of_x[tile.room(column, row)]
                    : x          ? x[first.x + (i * int(inner.x) + j * int(second.x))]
                                 : x_number;
            ys[k] = plan.turns_y ? of_y[tile.room(column, row)]
                    : y          ? y[first.y + (i * int(inner.y) + j * int(second.y))]
                                 : y_number;
        });
        tile.each<AT_ONCE>(at, false, [&](unsigned k, unsigned column, unsigned row, bool within) {
            if (within)
                out[first.out + (int(column) * int(inner.out) + int(row) * int(second.out))] =
                    Op::apply(a, xs[k], ys[k]);
        });
    }
}

} // namespace vector

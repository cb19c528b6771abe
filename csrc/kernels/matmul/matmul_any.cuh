// matmul_any.cuh: products of any shape and layout: stacks, vectors, narrow matrices, transposed
// and strided operands, 16-bit elements. Contains no kernel.
//
// Every sum may be cut into slices of k, whose sums go to scratch memory; a second launch adds them
// in order. So results are equal in every run.
#pragma once

#include "../halves.cuh"
#include "../matmul_plan.cuh"
#include "matmul_tile.cuh"

namespace matmul {

// The type that products are added in.
template <class T> struct summed { using type = float32; };
template <> struct summed<float64> { using type = float64; };
template <class T> using sum_of = typename summed<T>::type;

// A block's part of the work: a tile of a product of the stack, and steps `first` to `end` - 1 of
// k.
struct block_part {
    uint64 tile, product, first, end;
    unsigned slice;
};
__device__ inline block_part block_part_of(const matmul_plan &plan) {
    const uint64 rest = blockIdx.x / plan.tiles;
    block_part part;
    part.tile = blockIdx.x - rest * plan.tiles;
    part.product = rest / plan.slices;
    part.slice = static_cast<unsigned>(rest - part.product * plan.slices);
    part.first = part.slice * plan.chunk;
    part.end = min(uint64(plan.k), uint64(part.first + plan.chunk));
    return part;
}

// The operands of one product of the stack.
template <class T> struct operands { const T *a, *b; };
template <class T>
__device__ operands<T> operands_of(const T *a, const T *b, const matmul_plan &plan,
                                   uint64 product) {
    operands<T> found = {plan.is_swapped ? b : a, plan.is_swapped ? a : b};
#pragma unroll 1
    for (unsigned k = 0; k < plan.axis_count; k++) {
        const matmul_axis &axis = plan.axes[k];
        const uint64 rest = product / axis.extent;
        const int64 at = static_cast<int64>(product - rest * axis.extent);
        found.a += at * axis.a;
        found.b += at * axis.b;
        product = rest;
    }
    return found;
}

// Stores a sum as a result, or as the sum of a slice.
template <class T>
__device__ void store_sum(sum_of<T> sum, T *c, sum_of<T> *partials, const matmul_plan &plan,
                          const block_part &part, uint64 row, uint64 column) {
    const uint64 at = part.product * plan.m * plan.n + row * plan.c_row + column * plan.c_column;
    if (plan.slices == 1)
        c[at] = rounded<T>(sum);
    else
        partials[part.slice * plan.outputs + at] = sum;
}

// --- patches: a thread computes PATCH x PATCH outputs from tiles in shared memory. The tile's
// shape is a number of the plan: a block of THREADS has 2^down_bits x 2^across_bits patches, and as
// many teams as fit; each team adds its part of the depth.

constexpr unsigned PATCH = MATMUL_PATCH, THREADS = MATMUL_THREADS;

// Loads an element while other loads are in flight, or returns 0; the compiler's branch around a
// load would wait for each.
template <class T> __device__ T load_if(unsigned there, const T *from) {
    union {
        T item;
        uint16_t half;
        uint32_t word;
        uint64_t pair;
    } loaded = {T{}};
    if constexpr (sizeof(T) == 2)
        asm volatile(
            "{ .reg .pred there; setp.ne.u32 there, %2, 0; @there ld.global.u16 %0, [%1]; }"
            : "+h"(loaded.half)
            : "l"(from), "r"(there));
    else if constexpr (sizeof(T) == 4)
        asm volatile(
            "{ .reg .pred there; setp.ne.u32 there, %2, 0; @there ld.global.u32 %0, [%1]; }"
            : "+r"(loaded.word)
            : "l"(from), "r"(there));
    else
        asm volatile(
            "{ .reg .pred there; setp.ne.u32 there, %2, 0; @there ld.global.u64 %0, [%1]; }"
            : "+l"(loaded.pair)
            : "l"(from), "r"(there));
    return loaded.item;
}

// A thread's part in loading the tiles of one operand: adjacent threads load along the axis whose
// elements are closer in memory. `side` stands for the rows of a and for the columns of b.
template <unsigned Most, class T> struct patch_loader {
    const T *from;
    int64 step, next; // elements between a thread's loads, and between tiles
    unsigned slot, slot_step, deep, depth, depth_step, count;
    unsigned there; // bit i: load i is inside of the operand
    T items[Most];

    __device__ patch_loader(const T *operand, int64 side_by, int64 k_by, uint64 side_left,
                            unsigned side_bits, unsigned depth_bits, bool along_k, unsigned pitch) {
        const unsigned bits = along_k ? depth_bits : side_bits;
        const unsigned inner = threadIdx.x & ((1u << bits) - 1), outer = threadIdx.x >> bits;
        const unsigned steps = THREADS >> bits; // of the other axis at a time
        const unsigned side = along_k ? outer : inner, side_step = along_k ? steps : 0;
        deep = 1u << depth_bits;
        depth = along_k ? inner : outer;
        depth_step = along_k ? 0 : steps;
        from = operand + side * side_by + depth * k_by;
        step = side_step * side_by + depth_step * k_by;
        next = k_by * (int64(1) << depth_bits);
        slot = depth * pitch + side;
        slot_step = depth_step * pitch + side_step;
        const bool stays = side >> side_bits == 0 && depth >> depth_bits == 0;
        const unsigned all = 1u << (side_bits + depth_bits);
        count = !stays ? 0 : all > THREADS ? all / THREADS : 1;
        there = 0;
#pragma unroll
        for (unsigned i = 0; i < Most; i++) {
            there |= (i < count && side + i * side_step < side_left) ? 1u << i : 0;
            items[i] = T{};
        }
    }
    // Loads the next tile, of which `left` steps of k are inside of the slice.
    __device__ void load(uint64 left) {
        unsigned inside = there;
        if (left < deep) {
#pragma unroll
            for (unsigned i = 0; i < Most; i++)
                if (depth + i * depth_step >= static_cast<unsigned>(left))
                    inside &= ~(1u << i);
        }
        const T *at = from;
#pragma unroll
        for (unsigned i = 0; i < Most; i++) {
            if (i >= count)
                break;
            items[i] = load_if(inside & 1u << i, at);
            at += step;
        }
        from += next;
    }
    template <class S> __device__ void store(S *tile) const {
        S *at = tile + slot;
#pragma unroll
        for (unsigned i = 0; i < Most; i++) {
            if (i >= count)
                break;
            *at = widened(items[i]);
            at += slot_step;
        }
    }
};

template <class S> struct __align__(16) patch_row { S items[PATCH]; };

// Adds `steps` products to a patch, from tiles whose steps of k are a pitch apart.
template <class S>
__device__ void add_steps(S (&sums)[PATCH][PATCH], const S *a, const S *b, unsigned a_pitch,
                          unsigned b_pitch, unsigned steps) {
    for (unsigned step = 0; step < steps; step += MATMUL_UNROLLED) {
#pragma unroll
        for (unsigned each = 0; each < MATMUL_UNROLLED; each++) {
            const patch_row<S> left = *reinterpret_cast<const patch_row<S> *>(a),
                               right = *reinterpret_cast<const patch_row<S> *>(b);
#pragma unroll
            for (unsigned i = 0; i < PATCH; i++)
#pragma unroll
                for (unsigned j = 0; j < PATCH; j++)
                    sums[i][j] += left.items[i] * right.items[j];
            a += a_pitch;
            b += b_pitch;
        }
    }
}

// Adds the teams' sums in order and stores the tile. The sums pass through shared memory, so that
// adjacent threads store adjacent results.
template <class T>
__device__ void store_tile(const sum_of<T> (&sums)[PATCH][PATCH], sum_of<T> *shared, T *c,
                           sum_of<T> *partials, const matmul_plan &plan, const block_part &part,
                           uint64 row, uint64 column, unsigned y, unsigned x, unsigned team) {
    using S = sum_of<T>;
    const unsigned row_bits = plan.down_bits + 2, column_bits = plan.across_bits + 2;
    const unsigned bits = row_bits + column_bits;
    const bool along_rows = plan.c_row == 1 && plan.c_column != 1; // results of a column
    S *own = shared + (team << bits);
    own +=
        along_rows ? (x * PATCH << row_bits) + y * PATCH : (y * PATCH << column_bits) + x * PATCH;
#pragma unroll
    for (unsigned i = 0; i < PATCH; i++) {
        patch_row<S> line;
#pragma unroll
        for (unsigned j = 0; j < PATCH; j++)
            line.items[j] = along_rows ? sums[j][i] : sums[i][j];
        *reinterpret_cast<patch_row<S> *>(own + (i << (along_rows ? row_bits : column_bits))) =
            line;
    }
    __syncthreads();
    for (unsigned at = threadIdx.x; at >> bits == 0; at += THREADS) {
        S sum = shared[at];
        for (unsigned other = 1; other >> plan.team_bits == 0; other++)
            sum += shared[(other << bits) + at];
        const unsigned inner = along_rows ? row_bits : column_bits;
        const unsigned low = at & ((1u << inner) - 1), high = at >> inner;
        const uint64 to_row = row + (along_rows ? low : high),
                     to_column = column + (along_rows ? high : low);
        if (to_row < plan.m && to_column < plan.n)
            store_sum<T>(sum, c, partials, plan, part, to_row, to_column);
    }
}

template <class T>
__device__ void multiply_patches(const T *a, const T *b, T *c, sum_of<T> *partials,
                                 const matmul_plan &plan) {
    using S = sum_of<T>;
    S *shared = shared_memory<S>();
    const unsigned down = plan.down_bits + 2, across = plan.across_bits + 2;
    const unsigned depth = 1u << plan.depth_bits;
    const unsigned a_pitch = (1u << down) + PATCH, b_pitch = (1u << across) + PATCH;
    const unsigned stage = depth * (a_pitch + b_pitch); // two stages take turns
    const block_part part = block_part_of(plan);
    const uint64 tile_row = part.tile / plan.across;
    const uint64 row = tile_row << down, column = (part.tile - tile_row * plan.across) << across;
    const operands<T> from = operands_of(a, b, plan, part.product);
    patch_loader<MATMUL_LOADS_A, T> a_loader(from.a + row * plan.a_row + part.first * plan.a_k,
                                             plan.a_row, plan.a_k, plan.m - row, down,
                                             plan.depth_bits, plan.a_along_k, a_pitch);
    patch_loader<MATMUL_LOADS_B, T> b_loader(
        from.b + column * plan.b_column + part.first * plan.b_k, plan.b_column, plan.b_k,
        plan.n - column, across, plan.depth_bits, plan.b_along_k, b_pitch);

    // Lanes whose indices differ in bit 1 read the same words of a, in bit 0 of b: see outputs.
    const unsigned bits = plan.down_bits + plan.across_bits, team = threadIdx.x >> bits;
    const unsigned member = threadIdx.x & ((1u << bits) - 1);
    const unsigned x = member >> 1 & ((1u << plan.across_bits) - 1);
    const unsigned y = (member & 1) + (member >> (plan.across_bits + 1)) * 2;
    const unsigned steps = depth >> plan.team_bits;
    const S *a_at = shared + team * steps * a_pitch + y * PATCH;
    const S *b_at = shared + depth * a_pitch + team * steps * b_pitch + x * PATCH;

    S sums[PATCH][PATCH] = {};
    uint64 left = part.end > part.first ? part.end - part.first : 0;
    unsigned turn = 0;
    a_loader.load(left);
    b_loader.load(left);
    while (left) {
        a_loader.store(shared + turn);
        b_loader.store(shared + turn + depth * a_pitch);
        __syncthreads();
        left -= min(left, uint64(depth));
        if (left) {
            a_loader.load(left);
            b_loader.load(left);
        }
        add_steps(sums, a_at + turn, b_at + turn, a_pitch, b_pitch, steps);
        turn = stage - turn;
    }
    __syncthreads();
    store_tile<T>(sums, shared, c, partials, plan, part, row, column, y, x, team);
}

// --- dots: 2^lane_bits threads add the products of one output

// The vectors or elements of two rows from `lane` on, `lanes` apart; four of each are in flight.
template <class T> struct dot_vector {
    union {
        uint4 all;
        T items[WIDE<T>];
    };
    __device__ void load(const T *row, uint64 at) {
        all = *reinterpret_cast<const uint4 *>(row + at * WIDE<T>);
    }
    __device__ sum_of<T> times(const dot_vector &other) const {
        sum_of<T> sum = widened(items[0]) * widened(other.items[0]);
#pragma unroll
        for (unsigned i = 1; i < WIDE<T>; i++)
            sum += widened(items[i]) * widened(other.items[i]);
        return sum;
    }
};
constexpr unsigned DOTS_IN_FLIGHT = 4;
template <class T>
__device__ sum_of<T> dot_vectors(const T *x, const T *y, uint64 count, unsigned lane,
                                 unsigned lanes) {
    sum_of<T> sums[DOTS_IN_FLIGHT] = {};
    uint64 at = lane;
    for (; at + (DOTS_IN_FLIGHT - 1) * lanes < count; at += DOTS_IN_FLIGHT * lanes) {
        dot_vector<T> left[DOTS_IN_FLIGHT], right[DOTS_IN_FLIGHT];
#pragma unroll
        for (unsigned i = 0; i < DOTS_IN_FLIGHT; i++) {
            left[i].load(x, at + i * lanes);
            right[i].load(y, at + i * lanes);
        }
#pragma unroll
        for (unsigned i = 0; i < DOTS_IN_FLIGHT; i++)
            sums[i] += left[i].times(right[i]);
    }
    for (; at < count; at += lanes) {
        dot_vector<T> left, right;
        left.load(x, at);
        right.load(y, at);
        sums[0] += left.times(right);
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}
template <class T>
__device__ sum_of<T> dot_items(const T *x, const T *y, int64 x_by, int64 y_by, uint64 count,
                               unsigned lane, unsigned lanes) {
    constexpr unsigned Items = 2 * DOTS_IN_FLIGHT;
    sum_of<T> sums[Items] = {};
    uint64 at = lane;
    for (; at + (Items - 1) * lanes < count; at += Items * lanes) {
        T left[Items], right[Items];
#pragma unroll
        for (unsigned i = 0; i < Items; i++) {
            left[i] = x[(at + i * lanes) * x_by];
            right[i] = y[(at + i * lanes) * y_by];
        }
#pragma unroll
        for (unsigned i = 0; i < Items; i++)
            sums[i] += widened(left[i]) * widened(right[i]);
    }
    for (; at < count; at += lanes)
        sums[0] += widened(x[at * x_by]) * widened(y[at * y_by]);
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) +
           ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

template <class T>
__device__ void multiply_dots(const T *a, const T *b, T *c, sum_of<T> *partials,
                              const matmul_plan &plan) {
    using S = sum_of<T>;
    const unsigned lanes = 1u << plan.lane_bits, lane = threadIdx.x & (lanes - 1);
    const block_part whole = block_part_of(plan);
    const uint64 output = (whole.tile * THREADS + threadIdx.x) >> plan.lane_bits;
    const bool inside = output < plan.outputs;
    block_part part = whole;
    uint64 row = 0, column = 0;
    S sum = 0;
    if (inside) {
        if (plan.outputs >> 32 == 0) { // the division of 32 bits is four times as fast
            const unsigned rest = unsigned(output) / unsigned(plan.n);
            column = unsigned(output) - rest * unsigned(plan.n);
            part.product = rest / unsigned(plan.m);
            row = rest - unsigned(part.product) * unsigned(plan.m);
        } else {
            const uint64 rest = output / plan.n;
            column = output - rest * plan.n;
            part.product = rest / plan.m;
            row = rest - part.product * plan.m;
        }
        const operands<T> from = operands_of(a, b, plan, part.product);
        const T *x = from.a + row * plan.a_row + part.first * plan.a_k;
        const T *y = from.b + column * plan.b_column + part.first * plan.b_k;
        const uint64 count = part.end > part.first ? part.end - part.first : 0;
        const uint64 addresses = reinterpret_cast<uint64>(x) | reinterpret_cast<uint64>(y);
        uint64 done = 0;
        if (plan.a_k == 1 && plan.b_k == 1 && addresses % sizeof(uint4) == 0) {
            done = count / WIDE<T> * WIDE<T>;
            sum = dot_vectors(x, y, count / WIDE<T>, lane, lanes);
        }
        sum += dot_items(x + done * plan.a_k, y + done * plan.b_k, plan.a_k, plan.b_k, count - done,
                         lane, lanes);
    }
    for (unsigned half = min(lanes, 32u) / 2; half; half /= 2)
        sum += __shfl_xor_sync(~0u, sum, half);
    if (lanes > 32) { // the whole block
        S *shared = shared_memory<S>();
        if (threadIdx.x % 32 == 0)
            shared[threadIdx.x / 32] = sum;
        __syncthreads();
        sum = 0;
        for (unsigned warp = 0; warp < THREADS / 32; warp++)
            sum += shared[warp];
    }
    if (inside && lane == 0)
        store_sum<T>(sum, c, partials, plan, part, row, column);
}

// --- columns: one column of b, and rows of a that are adjacent in memory. A thread has WIDE rows;
// the warps of a block divide k.

template <class T>
__device__ void multiply_columns(const T *a, const T *b, T *c, sum_of<T> *partials,
                                 const matmul_plan &plan) {
    using S = sum_of<T>;
    constexpr unsigned Wide = WIDE<T>, Rows = 32 * Wide, Warps = THREADS / 32, Steps = 8, Few = 4;
    S *shared = shared_memory<S>();
    const block_part part = block_part_of(plan);
    const operands<T> from = operands_of(a, b, plan, part.product);
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint64 first = part.tile * Rows;
    const T *x = from.a + first + part.first * plan.a_k, *y = from.b + part.first * plan.b_k;
    const uint64 count = part.end > part.first ? part.end - part.first : 0;
    const bool vectors = first + Rows <= plan.m && plan.a_k % Wide == 0 &&
                         reinterpret_cast<uint64>(x) % sizeof(uint4) == 0;
    S sums[Wide] = {};
    uint64 at = warp;
    if (vectors) {
        for (; at + (Steps - 1) * Warps < count; at += Steps * Warps) {
            dot_vector<T> left[Steps];
            T right[Steps];
#pragma unroll
            for (unsigned i = 0; i < Steps; i++) {
                left[i].load(x + (at + i * Warps) * plan.a_k, lane);
                right[i] = y[(at + i * Warps) * plan.b_k];
            }
#pragma unroll
            for (unsigned i = 0; i < Steps; i++)
#pragma unroll
                for (unsigned w = 0; w < Wide; w++)
                    sums[w] += widened(left[i].items[w]) * widened(right[i]);
        }
    }
    for (; at < count; at += Few * Warps) {
        T left[Few][Wide], right[Few];
#pragma unroll
        for (unsigned i = 0; i < Few; i++) {
            const uint64 k = at + i * Warps;
            right[i] = load_if(k < count, y + k * plan.b_k);
#pragma unroll
            for (unsigned w = 0; w < Wide; w++) {
                const unsigned row = vectors ? lane * Wide + w : w * 32 + lane;
                left[i][w] = load_if(k < count && first + row < plan.m, x + k * plan.a_k + row);
            }
        }
#pragma unroll
        for (unsigned i = 0; i < Few; i++)
#pragma unroll
            for (unsigned w = 0; w < Wide; w++)
                if (at + i * Warps < count) // no product of 0 and infinity
                    sums[w] += widened(left[i][w]) * widened(right[i]);
    }
#pragma unroll
    for (unsigned w = 0; w < Wide; w++)
        shared[warp * Rows + (vectors ? lane * Wide + w : w * 32 + lane)] = sums[w];
    __syncthreads();
    for (unsigned row = threadIdx.x; row < Rows && first + row < plan.m; row += THREADS) {
        S sum = shared[row];
        for (unsigned other = 1; other < Warps; other++)
            sum += shared[other * Rows + row];
        store_sum<T>(sum, c, partials, plan, part, first + row, 0);
    }
}

// --- join: adds the slices' sums of each output in order, by 2^join_bits groups of threads

template <class T>
__device__ void join_slices(T *c, const sum_of<T> *partials, const matmul_plan &plan) {
    using S = sum_of<T>;
    S *shared = shared_memory<S>();
    const unsigned groups = 1u << plan.join_bits, width = THREADS / groups;
    const unsigned group = threadIdx.x / width;
    const uint64 output = static_cast<uint64>(blockIdx.x) * width + threadIdx.x % width;
    S sum = 0;
    if (output < plan.outputs) {
#pragma unroll 4
        for (unsigned slice = group; slice < plan.slices; slice += groups)
            sum += partials[slice * plan.outputs + output];
    }
    shared[threadIdx.x] = sum;
    for (unsigned half = groups / 2; half; half /= 2) {
        __syncthreads();
        if (group < half)
            shared[threadIdx.x] = sum = sum + shared[threadIdx.x + half * width];
    }
    if (group == 0 && output < plan.outputs)
        c[output] = rounded<T>(sum);
}

// --- copies: a matrix in any layout to C order, by tiles; adjacent threads read along the axis
// whose elements are closer in memory

template <class T>
__device__ void copy_matrix(const T *from, T *to, uint64 rows, uint64 columns, int64 row_by,
                            int64 column_by) {
    constexpr unsigned Side = MATMUL_COPY_SIDE, Pitch = Side + 1, Step = THREADS / Side;
    T *tile = shared_memory<T>();
    const uint64 across = (columns - 1) / Side + 1, tile_row = blockIdx.x / across;
    const uint64 row = tile_row * Side, column = (blockIdx.x - tile_row * across) * Side;
    const unsigned lane = threadIdx.x % Side, warp = threadIdx.x / Side;
    const bool along_rows = llabs(row_by) < llabs(column_by);
    T items[Side / Step];
#pragma unroll
    for (unsigned i = 0; i < Side / Step; i++) {
        const uint64 at_row = row + (along_rows ? lane : warp + i * Step),
                     at_column = column + (along_rows ? warp + i * Step : lane);
        items[i] = load_if(at_row < rows && at_column < columns,
                           from + at_row * row_by + at_column * column_by);
    }
#pragma unroll
    for (unsigned i = 0; i < Side / Step; i++) {
        const unsigned other = warp + i * Step;
        tile[along_rows ? lane * Pitch + other : other * Pitch + lane] = items[i];
    }
    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < Side / Step; i++) {
        const unsigned line = warp + i * Step;
        if (row + line < rows && column + lane < columns)
            to[(row + line) * columns + column + lane] = tile[line * Pitch + lane];
    }
}

} // namespace matmul

// matmul_any.cuh: products of any shape and layout without tiles: vectors, narrow matrices, dots,
// and the pass after rungs 11 and 12. Contains no kernel.
//
// Every sum may be cut into slices of k, whose sums go to scratch memory; a second launch adds them
// in order. So results are equal in every run.
#pragma once

#include "matmul_operands.cuh"

namespace matmul {

constexpr unsigned THREADS = MATMUL_THREADS; // of the kernels below

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

// Contiguous x and y, which are as far from an aligned vector.
template <class T>
__device__ sum_of<T> dot_rows(const T *x, const T *y, uint64 count, unsigned lane, unsigned lanes) {
    const uint64 before = (0 - reinterpret_cast<uint64>(x)) % sizeof(uint4) / sizeof(T),
                 head = before < count ? before : count, vectors = (count - head) / WIDE<T>,
                 done = head + vectors * WIDE<T>;
    sum_of<T> sum = dot_vectors(x + head, y + head, vectors, lane, lanes);
    for (uint64 at = lane; at < head; at += lanes)
        sum += widened(x[at]) * widened(y[at]);
    for (uint64 at = done + lane; at < count; at += lanes)
        sum += widened(x[at]) * widened(y[at]);
    return sum;
}

template <class T>
__device__ void multiply_dots(const T *a, const T *b, T *c, sum_of<T> *partials,
                              const matmul_plan &plan) {
    using S = sum_of<T>;
    const unsigned lanes = 1u << plan.lane_bits, lane = threadIdx.x & (lanes - 1);
    const block_part whole = block_part_of(plan);
    const uint64 output = (uint64(whole.tile) * THREADS + threadIdx.x) >> plan.lane_bits;
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
        const uint64 apart = reinterpret_cast<uint64>(x) - reinterpret_cast<uint64>(y);
        if (plan.a_k == 1 && plan.b_k == 1 && apart % sizeof(uint4) == 0)
            sum = dot_rows(x, y, count, lane, lanes);
        else
            sum = dot_items(x, y, plan.a_k, plan.b_k, count, lane, lanes);
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

// --- quads: 2^lane_bits threads, a warp or a block, add the products of QUAD rows and QUAD
// columns, or of one column where there is no other, which share their loads

// Adds steps of k, `x_by` and `y_by` elements apart; the pointers go on to the next ones. `count`:
// of those that exist.
template <bool Whole, unsigned Steps, unsigned Columns, class T>
__device__ void add_quads(sum_of<T> *sums, const T *(&x)[MATMUL_QUAD], const T *(&y)[Columns],
                          int64 x_by, int64 y_by, unsigned count) {
    constexpr unsigned Rows = MATMUL_QUAD;
    T left[Steps][Rows], right[Steps][Columns];
#pragma unroll
    for (unsigned i = 0; i < Steps; i++) {
#pragma unroll
        for (unsigned r = 0; r < Rows; r++) {
            left[i][r] = Whole ? *x[r] : load_if(i < count, x[r]);
            x[r] += x_by;
        }
#pragma unroll
        for (unsigned j = 0; j < Columns; j++) {
            right[i][j] = Whole ? *y[j] : load_if(i < count, y[j]);
            y[j] += y_by;
        }
    }
#pragma unroll
    for (unsigned i = 0; i < Steps; i++)
#pragma unroll
        for (unsigned r = 0; r < Rows; r++)
#pragma unroll
            for (unsigned j = 0; j < Columns; j++)
                sums[r * Columns + j] += widened(left[i][r]) * widened(right[i][j]);
}

// Adds a warp's 2^Bits sums: half of the lanes keep half of the sums, and so on; then all lanes of
// a sum, 32 / 2^Bits adjacent ones, have parts of it.
template <unsigned Bits, class S> __device__ S join_lanes(S *sums) {
    constexpr unsigned Most = 1u << Bits >> 1;
#pragma unroll
    for (unsigned bit = 0; bit < Bits; bit++)
#pragma unroll
        for (unsigned i = 0; i < Most; i++)
            if (const unsigned half = Most >> bit; i < half) {
                const unsigned other = 16u >> bit;
                const bool upper = threadIdx.x & other;
                const S sent = upper ? sums[i] : sums[i + half];
                sums[i] = (upper ? sums[i + half] : sums[i]) + __shfl_xor_sync(~0u, sent, other);
            }
    S sum = sums[0];
#pragma unroll
    for (unsigned other = 16 >> Bits; other; other /= 2)
        sum += __shfl_xor_sync(~0u, sum, other);
    return sum;
}

// Rows and columns beyond the last repeat it.
template <unsigned Columns, class T>
__device__ void multiply_quads(const T *a, const T *b, T *c, sum_of<T> *partials,
                               const matmul_plan &plan) {
    using S = sum_of<T>;
    constexpr unsigned Rows = MATMUL_QUAD, Outputs = Rows * Columns, Bits = Columns == 1 ? 2 : 4;
    constexpr unsigned Steps = Columns == 1 && sizeof(T) < 8 ? 4 : 2;
    static_assert(Outputs == 1u << Bits, "the lanes divide the outputs");
    const unsigned lanes = 1u << plan.lane_bits, lane = threadIdx.x & (lanes - 1);
    const block_part part = block_part_of(plan);
    const unsigned quad = (part.tile * THREADS + threadIdx.x) >> plan.lane_bits;
    const unsigned across = static_cast<unsigned>(plan.across), down = quad / across;
    const uint64 row = uint64(down) * Rows, column = uint64(quad - down * across) * Columns;
    const bool inside = row < plan.m;
    const operands<T> from = operands_of(a, b, plan, part.product);
    const T *x[Rows], *y[Columns];
    const uint64 first = part.first + lane;
#pragma unroll
    for (unsigned r = 0; r < Rows; r++)
        x[r] = from.a + min(uint64(row + r), uint64(plan.m - 1)) * plan.a_row + first * plan.a_k;
#pragma unroll
    for (unsigned j = 0; j < Columns; j++)
        y[j] =
            from.b + min(uint64(column + j), uint64(plan.n - 1)) * plan.b_column + first * plan.b_k;
    S sums[Outputs] = {};
    if (inside && part.end > first) {
        const int64 x_by = lanes * plan.a_k, y_by = lanes * plan.b_k;
        uint64 steps = (part.end - first - 1) / lanes + 1;
        if constexpr (Columns == 1) // the loads wait for no comparisons
#pragma unroll 1
            for (; steps >= Steps; steps -= Steps)
                add_quads<true, Steps, Columns>(sums, x, y, x_by, y_by, Steps);
#pragma unroll 1
        for (; steps; steps -= min(steps, uint64(Steps)))
            add_quads<false, Steps, Columns>(sums, x, y, x_by, y_by, min(steps, uint64(Steps)));
    }
    S sum = join_lanes<Bits>(sums);
    unsigned at = threadIdx.x % 32;
    if (lanes > 32) { // the whole block
        S *shared = shared_memory<S>();
        shared[threadIdx.x] = sum;
        __syncthreads();
        at = threadIdx.x;
        sum = 0;
        if (at < 32)
            for (unsigned warp = 0; warp < THREADS / 32; warp++)
                sum += shared[warp * 32 + at];
    }
    const unsigned output = at >> (5 - Bits);
    const uint64 to_row = row + output / Columns, to_column = column + output % Columns;
    if (inside && output < Outputs && at % (32 / Outputs) == 0 && to_row < plan.m &&
        to_column < plan.n)
        store_sum<T>(sum, c, partials, plan, part, to_row, to_column);
}

// --- columns: one column of b, or a few that share their loads, and rows of a that are adjacent in
// memory. A block's 2^team_bits teams of warps have different rows, one team for one column; a lane
// has WIDE, or one where there are few. A team's warps, or groups of 2^lane_bits lanes, divide k.

// Adds steps `at`, `at + by` and so on of k to a thread's rows, whose places are `rows`, as long as
// all of a group of steps exist, or also the last ones. Several columns are in shared memory.
template <bool Whole, unsigned Steps, unsigned Items, unsigned Columns, class Index, class T>
__device__ void add_columns(sum_of<T> *sums, const T *x, const T *y, const matmul_plan &plan,
                            Index &at, Index count, unsigned by, const unsigned *rows) {
    constexpr unsigned Bytes = Columns * sizeof(T);
    struct __align__(Bytes < 16 ? Bytes : 16) step_items {
        T of[Columns];
    };
    if constexpr (Columns > 1)
        x += at * plan.a_k;
#pragma unroll 1
    for (; at + (Whole ? (Steps - 1) * by : 0) < count; at += Steps * by) {
        T left[Steps][Items], right[Steps];
#pragma unroll
        for (unsigned i = 0; i < Steps; i++) {
            const Index k = at + i * by;
            const T *from = Columns == 1 ? x + k * plan.a_k : x;
            if constexpr (Columns == 1)
                right[i] = Whole ? y[k * plan.b_k] : load_if(k < count, y + k * plan.b_k);
            else
                x += by * plan.a_k;
#pragma unroll
            for (unsigned w = 0; w < Items; w++)
                left[i][w] = Whole ? from[rows[w]] : load_if(k < count, from + rows[w]);
        }
#pragma unroll
        for (unsigned i = 0; i < Steps; i++)
            // No product of 0 and infinity. Where several columns share loads, the branch keeps
            // ptxas from putting some of them behind products that wait for others.
            if (const Index k = at + i * by; (Whole && Columns == 1) || k < count) {
                step_items with;
                if constexpr (Columns == 1)
                    with.of[0] = right[i];
                else
                    with = reinterpret_cast<const step_items *>(y)[k];
#pragma unroll
                for (unsigned w = 0; w < Items; w++)
#pragma unroll
                    for (unsigned j = 0; j < Columns; j++)
                        sums[w * Columns + j] += widened(left[i][w]) * widened(with.of[j]);
            }
    }
}

// A team's warps and threads, and a thread's place among them; its first row and column, and how
// many there are. With several columns there are enough rows: the last tile begins `done` rows
// earlier.
template <unsigned Columns, class T> struct columns_place {
    static constexpr unsigned Rows = 32 * WIDE<T>;
    unsigned members, threads, own, team, lane, columns, done;
    uint64 first, column, rows;

    __device__ columns_place(const matmul_plan &plan, unsigned tile)
        : members(Columns == 1 ? THREADS / 32 : THREADS / 32 >> plan.team_bits),
          threads(members * 32), own(threadIdx.x % threads), team(threadIdx.x / threads),
          lane(threadIdx.x % 32) {
        const unsigned across = Columns == 1 ? 1 : static_cast<unsigned>(plan.across),
                       down = tile / across;
        column = uint64(tile - down * across) * Columns;
        first = ((uint64(down) << plan.team_bits) + team) * Rows;
        rows = first < plan.m ? plan.m - first : 0;
        columns = static_cast<unsigned>(min(uint64(plan.n - column), uint64(Columns)));
        done = Columns > 1 && rows && rows < Rows ? Rows - unsigned(rows) : 0;
    }
};

// Adds the products of several columns, whose steps pass through shared memory.
template <unsigned Columns, class T>
__device__ void add_staged_columns(sum_of<T> *sums, const T *x, const T *y, const matmul_plan &plan,
                                   const columns_place<Columns, T> &place, uint64 count) {
    constexpr unsigned Wide = WIDE<T>, Steps = 4;
    T *staged = shared_memory<T>();
    unsigned rows[Wide];
#pragma unroll
    for (unsigned w = 0; w < Wide; w++)
        rows[w] = w * 32;
    x += place.lane;
#pragma unroll 1
    for (uint64 begin = 0; begin < count; begin += MATMUL_COLUMNS_STEPS) {
        const unsigned steps =
            static_cast<unsigned>(min(uint64(count - begin), uint64(MATMUL_COLUMNS_STEPS)));
        if (begin)
            __syncthreads(); // the steps before are read
        for (unsigned i = threadIdx.x; i < steps * Columns; i += THREADS)
            staged[i] = y[(begin + i / Columns) * plan.b_k +
                          min(i % Columns, place.columns - 1) * plan.b_column];
        __syncthreads();
        if (place.rows) {
            unsigned at = place.own / 32;
            add_columns<true, Steps, Wide, Columns>(sums, x, staged, plan, at, steps, place.members,
                                                    rows);
            add_columns<false, Steps, Wide, Columns>(sums, x, staged, plan, at, steps,
                                                     place.members, rows);
        }
        x += MATMUL_COLUMNS_STEPS * plan.a_k;
    }
    __syncthreads(); // the sums follow in the same memory
}

// Adds the products of one column, and returns whether a lane's rows are adjacent.
template <class T>
__device__ bool add_column(sum_of<T> *sums, const T *x, const T *y, const matmul_plan &plan,
                           const columns_place<1, T> &place, uint64 count) {
    constexpr unsigned Wide = WIDE<T>, Steps = 8, Rows = 32 * Wide;
    constexpr unsigned Warps = THREADS / 32;
    const unsigned lane = place.lane;
    const bool vectors = place.rows >= Rows && plan.a_k % Wide == 0 &&
                         reinterpret_cast<uint64>(x) % sizeof(uint4) == 0;
    unsigned rows[Wide]; // beyond the last row, that one again
#pragma unroll
    for (unsigned w = 0; w < Wide; w++)
        rows[w] = static_cast<unsigned>(
            min(place.rows - 1, uint64(vectors ? lane * Wide + w : lane + w * 32)));
    if (!vectors && place.rows <= 32) {
        const unsigned width = 1u << plan.lane_bits;
        rows[0] = min(lane & (width - 1), unsigned(place.rows) - 1);
        uint64 at = threadIdx.x >> plan.lane_bits;
        add_columns<false, Steps, 1, 1>(sums, x, y, plan, at, count, THREADS >> plan.lane_bits,
                                        rows);
        for (unsigned other = width; other < 32; other *= 2)
            sums[0] += __shfl_xor_sync(~0u, sums[0], other);
        return false;
    }
    uint64 at = threadIdx.x / 32;
    if (vectors)
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
    else
        add_columns<true, Steps, Wide, 1>(sums, x, y, plan, at, count, Warps, rows);
    add_columns<false, Steps / 2, Wide, 1>(sums, x, y, plan, at, count, Warps, rows);
    return vectors;
}

template <unsigned Columns, class T>
__device__ void multiply_columns(const T *a, const T *b, T *c, sum_of<T> *partials,
                                 const matmul_plan &plan) {
    using S = sum_of<T>;
    constexpr unsigned Wide = WIDE<T>, Rows = 32 * Wide, Pitch = Rows + MATMUL_COLUMNS_PADDING;
    const block_part part = block_part_of(plan);
    const operands<T> from = operands_of(a, b, plan, part.product);
    const columns_place<Columns, T> place(plan, part.tile);
    const unsigned lane = place.lane, columns = place.columns, members = place.members;
    const T *x = from.a + place.first - place.done + part.first * plan.a_k;
    const T *y = from.b + place.column * plan.b_column + part.first * plan.b_k;
    const uint64 count = part.end > part.first ? part.end - part.first : 0;
    S sums[Wide * Columns] = {};
    bool vectors = false;
    if constexpr (Columns > 1)
        add_staged_columns<Columns>(sums, x, y, plan, place, count);
    else
        vectors = add_column(sums, x, y, plan, place, count);
    S *shared = shared_memory<S>(); // a warp's sums, column by column
#pragma unroll
    for (unsigned j = 0; j < Columns; j++)
        if (j < columns)
#pragma unroll
            for (unsigned w = 0; w < Wide; w++)
                shared[(threadIdx.x / 32 * columns + j) * Pitch +
                       (vectors ? lane * Wide + w : w * 32 + lane)] = sums[w * Columns + j];
    __syncthreads();
    shared += place.team * members * columns * Pitch;
#pragma unroll 1
    for (unsigned each = place.own; each < columns * Rows; each += place.threads) {
        // Adjacent threads store adjacent results.
        const unsigned j = plan.c_row == 1 ? each / Rows : each % columns,
                       row = plan.c_row == 1 ? each % Rows : each / columns;
        const S *sum_at = shared + j * Pitch + row;
        S sum = *sum_at;
        for (unsigned other = 1; other < members; other++)
            sum += sum_at[other * columns * Pitch];
        if (row >= place.done && row - place.done < place.rows)
            store_sum<T>(sum, c, partials, plan, part, place.first + row - place.done,
                         place.column + j);
    }
}

// --- rows: few steps of k, and few rows or columns, so that memory takes longest. Threads of a
// block stand for `width` columns and for as many rows as fit, ROWS times; a stack's rows are
// numbered through. No shared memory: the caches serve elements that several threads load.

template <bool Stacked, class T>
__device__ void multiply_rows(const T *a, const T *b, T *c, const matmul_plan &plan) {
    constexpr unsigned Rows = MATMUL_ROWS_OF_THREAD;
    const unsigned tiles = static_cast<unsigned>(plan.tiles), tile_column = blockIdx.x / tiles;
    const unsigned high = THREADS / plan.width, down = threadIdx.x / plan.width;
    const uint64 column = uint64(tile_column) * plan.width + threadIdx.x - down * plan.width;
    const unsigned first = (blockIdx.x - tile_column * tiles) * high * Rows + down,
                   m = static_cast<unsigned>(plan.m),
                   rows = static_cast<unsigned>(plan.outputs / plan.n); // of the stack
    if (down >= high || column >= plan.n || first >= rows)
        return;
    int x[Rows], y[Stacked ? Rows : 1] = {static_cast<int>(column * plan.b_column)}; // elements
#pragma unroll
    for (unsigned i = 0; i < Rows; i++) {
        const unsigned row = min(first + i * high, rows - 1); // beyond the last: it again
        if constexpr (Stacked) {
            const operands<T> from = operands_of(a, b, plan, row / m);
            x[i] = static_cast<int>(from.a - a + row % m * plan.a_row);
            y[i] = static_cast<int>(from.b - b + column * plan.b_column);
        } else
            x[i] = static_cast<int>(row * plan.a_row);
    }
    const int a_k = static_cast<int>(plan.a_k), b_k = static_cast<int>(plan.b_k);
    sum_of<T> sums[Rows] = {};
#pragma unroll 4
    for (unsigned step = 0; step < static_cast<unsigned>(plan.k); step++) {
#pragma unroll
        for (unsigned i = 0; i < Rows; i++) {
            sums[i] += widened(a[x[i]]) * widened(b[y[Stacked ? i : 0]]);
            x[i] += a_k;
        }
#pragma unroll
        for (unsigned i = 0; i < (Stacked ? Rows : 1); i++)
            y[i] += b_k;
    }
#pragma unroll
    for (unsigned i = 0; i < Rows; i++)
        if (const unsigned row = first + i * high; row < rows)
            c[row * plan.n + column] = rounded<T>(sums[i]);
}

// --- outer: few steps of k, so that storing the results takes longest. All of k passes through
// shared memory at once; a thread has 8 rows of a warp's, and columns 32 apart: a warp's stores are
// contiguous in any layout.

// Loads a side's steps of k: 2^side_bits sides, 2^k_bits steps, with zeros beyond either end.
template <unsigned SideBits, class T> struct outer_loader {
    static constexpr unsigned Pitch = (1u << SideBits) + 4;
    static constexpr unsigned Most = (1u << SideBits << MATMUL_OUTER_BITS) / THREADS;
    T items[Most];
    __device__ static unsigned side_of(unsigned at, unsigned k_bits, bool along_k) {
        return along_k ? at >> k_bits : at & ((1u << SideBits) - 1);
    }
    __device__ static unsigned step_of(unsigned at, unsigned k_bits, bool along_k) {
        return along_k ? at & ((1u << k_bits) - 1) : at >> SideBits;
    }
    __device__ outer_loader(const T *from, int64 side_by, int64 k_by, uint64 sides, unsigned k,
                            unsigned k_bits, bool along_k) {
#pragma unroll
        for (unsigned i = 0; i < Most; i++) {
            const unsigned at = threadIdx.x + i * THREADS;
            const unsigned side = side_of(at, k_bits, along_k), step = step_of(at, k_bits, along_k);
            items[i] = load_if(side >> SideBits == 0 && side < sides && step < k,
                               from + side * side_by + step * k_by);
        }
    }
    __device__ void store(sum_of<T> *tile, unsigned k, unsigned k_bits, bool along_k) const {
#pragma unroll
        for (unsigned i = 0; i < Most; i++) {
            const unsigned at = threadIdx.x + i * THREADS;
            const unsigned side = side_of(at, k_bits, along_k), step = step_of(at, k_bits, along_k);
            if (side >> SideBits == 0 && step < k)
                tile[step * Pitch + side] = widened(items[i]);
        }
    }
};

template <class T>
__device__ void multiply_outer(const T *a, const T *b, T *c, const matmul_plan &plan) {
    using S = sum_of<T>;
    constexpr unsigned Rows = 8, Columns = 4, Wide = 16 / sizeof(S);
    using ALoader = outer_loader<6, T>;
    using BLoader = outer_loader<7, T>;
    static_assert(MATMUL_OUTER_ROWS == THREADS / 32 * Rows, "a tile is as high as its warps");
    const block_part part = block_part_of(plan);
    const operands<T> from = operands_of(a, b, plan, part.product);
    const unsigned across = static_cast<unsigned>(plan.across), tile_row = part.tile / across;
    const uint64 row = uint64(tile_row) * MATMUL_OUTER_ROWS,
                 column = uint64(part.tile - tile_row * across) * MATMUL_OUTER_COLUMNS;
    const unsigned k = static_cast<unsigned>(plan.k);
    S *a_tile = shared_memory<S>(), *b_tile = a_tile + k * ALoader::Pitch;
    const ALoader a_loader(from.a + row * plan.a_row, plan.a_row, plan.a_k, plan.m - row, k,
                           plan.lane_bits, plan.a_along_k);
    const BLoader b_loader(from.b + column * plan.b_column, plan.b_column, plan.b_k,
                           plan.n - column, k, plan.lane_bits, plan.b_along_k);
    a_loader.store(a_tile, k, plan.lane_bits, plan.a_along_k);
    b_loader.store(b_tile, k, plan.lane_bits, plan.b_along_k);
    __syncthreads();
    const unsigned first = threadIdx.x / 32 * Rows, lane = threadIdx.x % 32;
    S sums[Rows][Columns] = {};
#pragma unroll 2
    for (unsigned step = 0; step < k; step++) {
        S left[Rows], right[Columns];
#pragma unroll
        for (unsigned w = 0; w < Rows; w += Wide)
            *reinterpret_cast<word<S> *>(left + w) =
                *reinterpret_cast<const word<S> *>(a_tile + step * ALoader::Pitch + first + w);
#pragma unroll
        for (unsigned j = 0; j < Columns; j++)
            right[j] = b_tile[step * BLoader::Pitch + lane + j * 32];
        add_products(sums, left, right);
    }
    T *to = c + part.product * plan.m * plan.n + (row + first) * plan.n + column + lane;
#pragma unroll
    for (unsigned i = 0; i < Rows; i++) {
#pragma unroll
        for (unsigned j = 0; j < Columns; j++)
            if (row + first + i < plan.m && column + lane + j * 32 < plan.n)
                to[j * 32] = rounded<T>(sums[i][j]);
        to += plan.n;
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
#pragma unroll 8
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

} // namespace matmul

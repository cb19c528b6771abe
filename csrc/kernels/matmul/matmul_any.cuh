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

// --- patches: a thread computes a patch of outputs from tiles in shared memory. The tile's shape
// is a number of the plan: a block has 2^down_bits x 2^across_bits patches, and as many teams as
// fit; each team adds STEPS steps of k of every layer. Kernels have no registers to spare: a loaded
// element that is spilled is waited for at once.

// Elements of sums in 16 bytes, and the steps of k of a team in a layer.
template <class T> constexpr unsigned PANEL = 16 / sizeof(sum_of<T>);
template <class T> constexpr unsigned STEPS = MATMUL_STEPS(sizeof(sum_of<T>));

// Loads an element, or none, while other loads are in flight; the compiler's branch around a load
// would wait for each.
template <class T> __device__ void load_if(unsigned there, const T *from, T &item) {
#define MATMUL_LOAD_IF(bits, type, value, space)                                        \
    asm volatile("{ .reg .pred there; setp.ne.u32 there, %2, 0; @there ld.global." bits \
                 " %0, [%1]; }"                                                         \
                 : "+" type(reinterpret_cast<space &>(value))                           \
                 : "l"(from), "r"(there))
    if constexpr (sizeof(T) == 2)
        MATMUL_LOAD_IF("u16", "h", item, uint16_t);
    else if constexpr (sizeof(T) == 4)
        MATMUL_LOAD_IF("f32", "f", item, float32);
    else
        MATMUL_LOAD_IF("f64", "d", item, float64);
#undef MATMUL_LOAD_IF
}
template <class T> __device__ T load_if(unsigned there, const T *from) {
    T item = {};
    load_if(there, from, item);
    return item;
}
// The same for PANEL<T> adjacent elements.
template <class T> __device__ void load_words_if(unsigned there, const T *from, T *items) {
    if constexpr (sizeof(T) == 2)
        asm volatile("{ .reg .pred there; setp.ne.u32 there, %5, 0;"
                     " @there ld.global.v4.u16 {%0, %1, %2, %3}, [%4]; }"
                     : "+h"(items[0].bits), "+h"(items[1].bits), "+h"(items[2].bits),
                       "+h"(items[3].bits)
                     : "l"(from), "r"(there));
    else if constexpr (sizeof(T) == 4)
        asm volatile("{ .reg .pred there; setp.ne.u32 there, %5, 0;"
                     " @there ld.global.v4.f32 {%0, %1, %2, %3}, [%4]; }"
                     : "+f"(items[0]), "+f"(items[1]), "+f"(items[2]), "+f"(items[3])
                     : "l"(from), "r"(there));
    else
        asm volatile("{ .reg .pred there; setp.ne.u32 there, %3, 0;"
                     " @there ld.global.v2.f64 {%0, %1}, [%2]; }"
                     : "+d"(items[0]), "+d"(items[1])
                     : "l"(from), "r"(there));
}

// A thread's part in loading the layers of one operand to shared memory: adjacent threads load
// along the axis whose elements are closer in memory, by words if its layout permits. `side` stands
// for the rows of a and for the columns of b.
//
// In shared memory a layer consists of panels of PANEL<T> adjacent sides: 16 bytes for each step of
// k, and 16 bytes of padding. Reads of a step and writes of any loader have no bank conflicts.
template <unsigned Most, unsigned Threads, class T> struct patch_loader {
    using S = sum_of<T>;
    static constexpr unsigned Wide = PANEL<T>;
    const T *from;
    int64 step; // elements between a thread's loads
    unsigned slot, slot_step;
    unsigned count; // of loads, a power of two
    unsigned there; // bit i: load i is inside of the operand
    bool words, along_k, takes_part;
    bool all;      // its loads are inside
    T items[Most]; // 0 where nothing is loaded

    // Loads the first layer, of which `head` steps are inside of the slice that begins at `k`.
    __device__ patch_loader(const T *operand, int64 side_by, int64 k_by, uint64 side, uint64 sides,
                            uint64 k, uint64 k_end, unsigned head, unsigned side_bits,
                            unsigned deep_bits, bool is_along_k)
        : along_k(is_along_k) {
        constexpr unsigned WordBits = Wide == 4 ? 2 : 1, WarpBits = 5;
        constexpr unsigned ThreadBits = Threads == 512 ? 9 : Threads == 256 ? 8 : 7;
        const T *first = operand + side * side_by + k * k_by;
        const uint64 inner_by = along_k ? k_by : side_by, outer_by = along_k ? side_by : k_by;
        words = inner_by == 1 && outer_by % Wide == 0 && (along_k ? k_end : sides) % Wide == 0 &&
                reinterpret_cast<uint64>(first) % (Wide * sizeof(T)) == 0;
        const unsigned unit_bits = words ? WordBits : 0;
        const unsigned inner_bits = (along_k ? deep_bits : side_bits) - unit_bits;
        const unsigned outer_bits = along_k ? side_bits : deep_bits;
        // Along k a warp loads 32 bytes of several sides.
        const unsigned low = along_k ? min(inner_bits, 3 - unit_bits) : inner_bits;
        const unsigned middle = min(WarpBits - min(low, WarpBits), ThreadBits - inner_bits);
        const unsigned t = threadIdx.x;
        const unsigned inner = ((t & ((1u << low) - 1)) |
                                (t >> (low + middle) & ((1u << (inner_bits - low)) - 1)) << low)
                               << unit_bits;
        const unsigned outer = (t >> low & ((1u << middle) - 1)) | t >> (inner_bits + middle)
                                                                            << middle;
        const unsigned turns = Threads >> inner_bits; // of the outer axis at a time
        const unsigned own_side = along_k ? outer : inner;
        const unsigned deep = 1u << deep_bits, depth = along_k ? inner : outer;
        from = first + own_side * side_by + depth * k_by;
        step = turns * static_cast<int64>(outer_by);
        const unsigned panel = (deep + 1) * Wide;
        slot = own_side / Wide * panel + depth * Wide + own_side % Wide;
        slot_step = along_k ? turns / Wide * panel : turns * Wide;
        count = 1u << outer_bits > turns ? (1u << outer_bits) / turns : 1;
        takes_part = outer >> outer_bits == 0;
        const uint64 sides_left = sides - side;
        unsigned inside = there = 0;
#pragma unroll
        for (unsigned i = 0; i < Most; i++) {
            const bool exists =
                takes_part && i < count && own_side + (along_k ? i * turns : 0) < sides_left;
            there |= exists ? 1u << i : 0;
            inside |= exists && depth + (along_k ? 0 : i * turns) < head ? 1u << i : 0;
            items[i] = T{};
        }
        all = there == ~0u >> (32 - count);
        slot = opaque_copy(slot); // else computed again for every layer
        slot_step = opaque_copy(slot_step);
        load<true>(inside);
        from += head * k_by;
    }
    // Loads the next layer.
    __device__ void load_next(int64 next) {
        if (all)
            load<false>(there);
        else
            load<true>(there);
        from += next;
    }
    // Whether load i is the first of those that only larger counts have.
    __device__ bool ends(unsigned i) const { return (i & (i - 1)) == 0 && i >= count; }
    template <bool Guarded> __device__ void load(unsigned inside) {
        const T *at = from;
        if (words) {
#pragma unroll
            for (unsigned i = 0; i < Most / Wide; i++) {
                if (ends(i))
                    break;
                load_words_if(Guarded ? inside & 1u << i : 1, at, items + i * Wide);
                at += step;
            }
        } else {
#pragma unroll
            for (unsigned i = 0; i < Most; i++) {
                if (ends(i))
                    break;
                load_if(Guarded ? inside & 1u << i : 1, at, items[i]);
                at += step;
            }
        }
    }
    __device__ void store(S *layer) const {
        S *at = layer + slot;
        if (!takes_part)
            return;
        if (!words) {
#pragma unroll
            for (unsigned i = 0; i < Most; i++) {
                if (ends(i))
                    break;
                *at = widened(items[i]);
                at += slot_step;
            }
            return;
        }
#pragma unroll
        for (unsigned i = 0; i < Most / Wide; i++) {
            if (ends(i))
                break;
            word<S> line;
#pragma unroll
            for (unsigned each = 0; each < Wide; each++)
                line.items[each] = widened(items[i * Wide + each]);
            if (along_k) {
#pragma unroll
                for (unsigned each = 0; each < Wide; each++)
                    at[each * Wide] = line.items[each];
            } else
                *reinterpret_cast<word<S> *>(at) = line;
            at += slot_step;
        }
    }
};

// A patch of Rows x Columns sums: words of PANEL<T> rows, which are 2^down_bits panels apart, and
// of columns likewise.
template <unsigned Rows, unsigned Columns, unsigned Threads, class T> struct patch {
    using S = sum_of<T>;
    static constexpr unsigned Wide = PANEL<T>, RowWords = Rows / Wide, ColumnWords = Columns / Wide;
    S sums[Rows][Columns];

    // Adds a team's steps of a layer; `a_by`, `b_by`: elements between the words of a patch.
    __device__ void add(const S *a, const S *b, unsigned a_by, unsigned b_by) {
#pragma unroll
        for (unsigned step = 0; step < STEPS<T>; step++) {
            S left[Rows], right[Columns];
#pragma unroll
            for (unsigned w = 0; w < RowWords; w++)
                *reinterpret_cast<word<S> *>(left + w * Wide) =
                    *reinterpret_cast<const word<S> *>(a + w * a_by + step * Wide);
#pragma unroll
            for (unsigned w = 0; w < ColumnWords; w++)
                *reinterpret_cast<word<S> *>(right + w * Wide) =
                    *reinterpret_cast<const word<S> *>(b + w * b_by + step * Wide);
            add_products(sums, left, right);
        }
    }
    // Adds the sums of all teams, by halves; those of the first team are then complete.
    __device__ void join(S *shared, unsigned team_bits, unsigned team, unsigned member) {
        const unsigned members = Threads >> team_bits;
        for (unsigned half = 1u << team_bits >> 1; half; half >>= 1) {
            word<S> *own = reinterpret_cast<word<S> *>(shared) + team % half * members + member;
            __syncthreads();
            if (team >= half && team < 2 * half)
#pragma unroll
                for (unsigned i = 0; i < Rows; i++)
#pragma unroll
                    for (unsigned w = 0; w < ColumnWords; w++)
                        own[(i * ColumnWords + w) * half * members] =
                            *reinterpret_cast<const word<S> *>(&sums[i][w * Wide]);
            __syncthreads();
            if (team < half)
#pragma unroll
                for (unsigned i = 0; i < Rows; i++)
#pragma unroll
                    for (unsigned w = 0; w < ColumnWords; w++) {
                        const word<S> other = own[(i * ColumnWords + w) * half * members];
#pragma unroll
                        for (unsigned each = 0; each < Wide; each++)
                            sums[i][w * Wide + each] += other.items[each];
                    }
        }
    }
    // Stores to a matrix of m x n, from the patch's first output on: by words, down or across, if
    // they are aligned. The words' rows and columns are `rows_by` and `columns_by` apart.
    template <bool Down, class U>
    __device__ void store(U *c, const matmul_plan &plan, uint64 row, uint64 column,
                          unsigned rows_by, unsigned columns_by) const {
        struct __align__(Wide * sizeof(U)) line {
            U items[Wide];
        };
        constexpr unsigned Words = Down ? RowWords : ColumnWords, Lines = Down ? Columns : Rows;
        const bool words =
            (Down ? plan.m : plan.n) % Wide == 0 && reinterpret_cast<uint64>(c) % sizeof(line) == 0;
#pragma unroll
        for (unsigned at = 0; at < Lines; at++)
#pragma unroll
            for (unsigned w = 0; w < Words; w++) {
                const unsigned i = Down ? w * Wide : at, j = Down ? at : w * Wide;
                const uint64 to_row = row + i / Wide * rows_by + i % Wide;
                const uint64 to_column = column + j / Wide * columns_by + j % Wide;
                if (to_row >= plan.m || to_column >= plan.n)
                    continue;
                U *to = c + to_row * plan.c_row + to_column * plan.c_column;
                line all;
#pragma unroll
                for (unsigned each = 0; each < Wide; each++)
                    all.items[each] = rounded<U>(sums[Down ? i + each : i][Down ? j : j + each]);
                if (words)
                    *reinterpret_cast<line *>(to) = all;
                const uint64 left = Down ? plan.m - to_row : plan.n - to_column;
#pragma unroll
                for (unsigned each = 0; each < Wide; each++)
                    if (!words && each < left)
                        to[each] = all.items[each];
            }
    }
};

template <unsigned Rows, unsigned Columns, unsigned Threads, class T>
__device__ void multiply_patches(const T *a, const T *b, T *c, sum_of<T> *partials,
                                 const matmul_plan &plan) {
    using S = sum_of<T>;
    constexpr unsigned Wide = PANEL<T>, Steps = STEPS<T>;
    constexpr unsigned RowBits = Rows == 8 ? 3 : 2, ColumnBits = Columns == 8 ? 3 : 2;
    // Elements that a thread loads of a layer, at most: see the shapes in ops_matmul_any.c.
    constexpr unsigned MostA = Steps * (Threads == 128 ? Wide : 1);
    constexpr unsigned MostB = Columns == 8 ? Steps : Steps / 2;
    S *shared = shared_memory<S>();
    const unsigned down = plan.down_bits + RowBits, across = plan.across_bits + ColumnBits;
    const unsigned deep = Steps << plan.team_bits,
                   deep_bits = (Steps == 8 ? 3 : 2) + plan.team_bits;
    const unsigned panel = (deep + 1) * Wide, a_size = panel / Wide << down;
    const unsigned layer = a_size + (panel / Wide << across); // two layers take turns
    const block_part part = block_part_of(plan);
    const uint64 tile_row = part.tile / plan.across;
    const uint64 row = tile_row << down, column = (part.tile - tile_row * plan.across) << across;
    const operands<T> from = operands_of(a, b, plan, part.product);
    const uint64 length = part.end > part.first ? part.end - part.first : 0;
    uint64 layers = (length + deep - 1) >> deep_bits;
    const unsigned head = layers ? length - ((layers - 1) << deep_bits) : 0;
    patch_loader<MostA, Threads, T> a_loader(from.a, plan.a_row, plan.a_k, row, plan.m, part.first,
                                             plan.k, head, down, deep_bits, plan.a_along_k);
    patch_loader<MostB, Threads, T> b_loader(from.b, plan.b_column, plan.b_k, column, plan.n,
                                             part.first, plan.k, head, across, deep_bits,
                                             plan.b_along_k);

    // Lanes whose indices differ in bit 1 read the same words of a, in bit 0 of b: see outputs.
    const unsigned bits = plan.down_bits + plan.across_bits, team = threadIdx.x >> bits;
    const unsigned member = threadIdx.x & ((1u << bits) - 1);
    const unsigned x = member >> 1 & ((1u << plan.across_bits) - 1);
    const unsigned y = (member & 1) + (member >> (plan.across_bits + 1)) * 2;
    const S *a_at = shared + y * panel + team * Steps * Wide;
    const S *b_at = shared + a_size + x * panel + team * Steps * Wide;

    patch<Rows, Columns, Threads, T> mine = {};
    unsigned turn = 0;
    while (layers) {
        a_loader.store(shared + turn);
        b_loader.store(shared + turn + a_size);
        __syncthreads();
        if (--layers) {
            a_loader.load_next(plan.a_k * deep);
            b_loader.load_next(plan.b_k * deep);
        }
        mine.add(a_at + turn, b_at + turn, panel << plan.down_bits, panel << plan.across_bits);
        turn = layer - turn;
    }
    mine.join(shared, plan.team_bits, team, member);
    if (team)
        return;
    const uint64 product = part.product * plan.m * plan.n;
    const auto store = [&](auto *to) {
        const uint64 to_row = row + y * Wide, to_column = column + x * Wide;
        const unsigned rows_by = Wide << plan.down_bits, columns_by = Wide << plan.across_bits;
        if (plan.c_row == 1 && plan.c_column != 1)
            mine.template store<true>(to, plan, to_row, to_column, rows_by, columns_by);
        else
            mine.template store<false>(to, plan, to_row, to_column, rows_by, columns_by);
    };
    if (plan.slices == 1)
        store(c + product);
    else
        store(partials + part.slice * plan.outputs + product);
}

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

// matmul_patches.cuh: rung 12's tiles: a thread computes a patch of outputs. Contains no kernel.
//
// The tile's shape is a number of the plan: a block has 2^down_bits x 2^across_bits patches, and as
// many teams as fit; each team adds a multiple of STEPS steps of k of every layer. Layers pass
// through a ring of stages in shared memory, by asynchronous copies where the GPU has them for the
// elements' size, else through registers.
#pragma once

#include "matmul_operands.cuh"
#include "matmul_ring.cuh"

namespace matmul {

// Elements of sums in 16 bytes, and the steps of k of a team in a layer.
template <class T> constexpr unsigned PANEL = 16 / sizeof(sum_of<T>);
template <class T> constexpr unsigned STEPS = MATMUL_STEPS(sizeof(sum_of<T>));
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
template <class T> constexpr bool ASYNC = sizeof(T) >= 4;
#else
template <class T> constexpr bool ASYNC = false;
#endif

// A thread's part in loading the layers of one operand: adjacent threads load along the axis whose
// elements are closer in memory, by words along a side if its layout permits. `side` stands for the
// rows of a and for the columns of b.
//
// In shared memory a layer consists of panels of PANEL<T> adjacent sides: 16 bytes for each step of
// k, and 16 bytes of padding. Reads of a step and writes of any loader have no bank conflicts.
template <unsigned Most, unsigned Threads, class T> struct patch_loader {
    using S = sum_of<T>;
    static constexpr unsigned Wide = PANEL<T>, Word = Wide * sizeof(T);
    const T *from;
    int64 step;         // elements between a thread's loads
    address slot;       // in the first stage
    unsigned slot_step; // bytes
    unsigned count;     // of loads, a power of two
    // Bits 0 to 7: how many of the next layer's loads are inside; 8 to 15: of the other layers'; 16
    // to 23: bytes of a word that are inside; bit 24: a thread beyond a layer. One register.
    unsigned inside;
    bool words, along_k;
    T items[ASYNC<T> ? 1 : Most]; // 0 where nothing is loaded

    // The first layer has `head` steps inside of the slice. `layer`: its part of the first stage.
    __device__ patch_loader(const T *operand, int64 side_by, int64 k_by, uint64 side, uint64 sides,
                            uint64 k, unsigned head, unsigned side_bits, unsigned deep_bits,
                            unsigned run_bits, bool is_along_k, const S *layer)
        : along_k(is_along_k) {
        constexpr unsigned WordBits = Wide == 4 ? 2 : 1, WarpBits = 5;
        constexpr unsigned ThreadBits = Threads == 256 ? 8 : 7;
        const T *first = operand + side * side_by + k * k_by;
        words = !along_k && side_by == 1 && k_by % Wide == 0 &&
                reinterpret_cast<uint64>(first) % Word == 0;
        const unsigned unit_bits = words ? WordBits : 0;
        const unsigned inner_bits = along_k ? deep_bits : side_bits - unit_bits;
        const unsigned outer_bits = along_k ? side_bits : deep_bits;
        // Along k a warp loads runs of several sides.
        const unsigned low = along_k ? min(inner_bits, run_bits) : inner_bits;
        const unsigned middle = min(WarpBits - min(low, WarpBits), ThreadBits - inner_bits);
        const unsigned t = threadIdx.x;
        const unsigned inner = ((t & ((1u << low) - 1)) |
                                (t >> (low + middle) & ((1u << (inner_bits - low)) - 1)) << low)
                               << unit_bits;
        const unsigned outer = (t >> low & ((1u << middle) - 1)) | t >> (inner_bits + middle)
                                                                            << middle;
        const unsigned at_once = Threads >> inner_bits; // of the outer axis
        const unsigned own_side = along_k ? outer : inner, deep = 1u << deep_bits;
        const unsigned depth = along_k ? inner : outer;
        from = first + own_side * side_by + depth * k_by;
        step = at_once * (along_k ? side_by : k_by);
        const unsigned panel = (deep + 1) * Wide;
        slot = address_of(layer + own_side / Wide * panel + depth * Wide + own_side % Wide);
        slot_step = (along_k ? at_once / Wide * panel : at_once * Wide) * sizeof(S);
        count = 1u << outer_bits > at_once ? (1u << outer_bits) / at_once : 1;
        const uint64 sides_left = sides > side + own_side ? sides - side - own_side : 0;
        const unsigned steps = head > depth ? (head - depth - 1) / at_once + 1 : 0;
        const unsigned most = sides_left == 0 ? 0
                              : along_k       ? min(uint64(count), (sides_left - 1) / at_once + 1)
                                              : count;
        const unsigned first_ones = along_k ? (head > depth ? most : 0) : min(most, steps);
        const unsigned bytes = sides_left < Wide ? sides_left * sizeof(T) : Word;
        inside = first_ones | most << 8 | bytes << 16 | (outer >> outer_bits ? 1u << 24 : 0);
    }
    // Loads the next layer, `next` elements long, to the stage at this byte offset.
    __device__ void load_next(unsigned stage, int64 next) {
        if (inside >> 24 == 0)
            load(stage);
        from += next;
        inside = (inside & ~0xffu) | (inside >> 8 & 0xff);
    }
    // Whether load i is the first of those that only larger counts have.
    __device__ bool ends(unsigned i) const { return (i & (i - 1)) == 0 && i >= count; }
    __device__ void load(unsigned stage) {
        const T *at = from;
        address to = slot + stage;
        const unsigned valid = inside & 0xff, bytes = inside >> 16 & 0xff;
        if (words) {
#pragma unroll
            for (unsigned i = 0; i < Most / Wide; i++) {
                if (ends(i))
                    break;
                if constexpr (ASYNC<T>)
                    copy_part<word<T>>(to, at, i < valid ? bytes : 0);
                else
                    load_words(i, at, i < valid, bytes);
                at += step;
                to += slot_step;
            }
        } else {
#pragma unroll
            for (unsigned i = 0; i < Most; i++) {
                if (ends(i))
                    break;
                if constexpr (ASYNC<T>)
                    copy_part<T>(to, at, i < valid ? sizeof(T) : 0);
                else {
                    items[i] = T{};
                    load_if(i < valid, at, items[i]);
                }
                at += step;
                to += slot_step;
            }
        }
    }
    __device__ void load_words(unsigned i, const T *at, bool there, unsigned bytes) {
#pragma unroll
        for (unsigned each = 0; each < Wide; each++)
            items[i * Wide + each] = T{};
        if (bytes == Word)
            load_words_if(there, at, items + i * Wide);
        else
#pragma unroll
            for (unsigned each = 0; each < Wide; each++)
                load_if(there && each * sizeof(T) < bytes, at + each, items[i * Wide + each]);
    }
    // Stores loads that went to registers.
    __device__ void store(unsigned stage) const {
        if constexpr (!ASYNC<T>) {
            if (inside >> 24)
                return;
            address to = slot + stage;
#pragma unroll
            for (unsigned i = 0; i < Most; i++) {
                if (ends(words ? i / Wide : i))
                    break;
                *matmul::at<S>(words ? to + i % Wide * unsigned(sizeof(S)) : to) =
                    widened(items[i]);
                if (!words || i % Wide == Wide - 1)
                    to += slot_step;
            }
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
    // Stages a part of the tile in shared memory, along the axis that is contiguous in c: a word of
    // rows (of columns, for `down`) of each patch. The first output is at `x`, `y` of the tile.
    template <bool Down>
    __device__ void stage(S *shared, unsigned part, unsigned pitch, unsigned x, unsigned y,
                          unsigned by) const {
        constexpr unsigned Words = Down ? RowWords : ColumnWords;
        S *to = shared + (Down ? x * pitch + y : y * pitch + x);
#pragma unroll
        for (unsigned p = 0; p < (Down ? ColumnWords : RowWords); p++)
            if (p == part)
#pragma unroll
                for (unsigned line = 0; line < Wide; line++)
#pragma unroll
                    for (unsigned w = 0; w < Words; w++) {
                        word<S> all;
#pragma unroll
                        for (unsigned each = 0; each < Wide; each++)
                            all.items[each] = Down ? sums[w * Wide + each][p * Wide + line]
                                                   : sums[p * Wide + line][w * Wide + each];
                        *reinterpret_cast<word<S> *>(to + line * pitch + w * by) = all;
                    }
    }
};

// Stores a staged part of a tile: `lines` of 2^length_bits outputs each, of which `left` lines of
// `length` are inside of c. Adjacent threads store adjacent outputs, by words if lines are aligned.
template <unsigned Threads, class T, class U>
__device__ void store_staged(const sum_of<T> *shared, unsigned pitch, U *c, uint64 c_by,
                             unsigned lines, unsigned length_bits, uint64 left, uint64 length) {
    using S = sum_of<T>;
    constexpr unsigned Wide = PANEL<T>, WordBits = Wide == 4 ? 2 : 1;
    struct __align__(Wide * sizeof(U)) line_word {
        U items[Wide];
    };
    const bool words = c_by % Wide == 0 && length % Wide == 0 &&
                       reinterpret_cast<uint64>(c) % sizeof(line_word) == 0;
    const unsigned bits = length_bits - (words ? WordBits : 0);
#pragma unroll 4
    for (unsigned at = threadIdx.x; at < lines << bits; at += Threads) {
        const unsigned line = at >> bits, column = (at & ((1u << bits) - 1))
                                                   << (length_bits - bits);
        if (line >= left || column >= length)
            continue;
        const S *from = shared + line * pitch + column;
        U *to = c + line * c_by + column;
        if (words) {
            const word<S> sums = *reinterpret_cast<const word<S> *>(from);
            line_word all;
#pragma unroll
            for (unsigned each = 0; each < Wide; each++)
                all.items[each] = rounded<U>(sums.items[each]);
            *reinterpret_cast<line_word *>(to) = all;
        } else
            *to = rounded<U>(*from);
    }
}

// The first row and column of a tile.
__device__ inline corner patch_tile(const matmul_plan &plan, unsigned tile, unsigned down,
                                    unsigned across) {
    const unsigned tiles_across = static_cast<unsigned>(plan.across), row = tile / tiles_across;
    return {uint64(row) << down, uint64(tile - row * tiles_across) << across};
}

// A thread's team and, in the tile, its patch. A warp has 8 patches across or fewer, and the others
// down. Lanes whose indices differ in bit 1 read the same words of a, in bit 0 of b: see outputs.
struct patch_place {
    unsigned team, member, x, y;
    __device__ patch_place(const matmul_plan &plan, unsigned thread) {
        const unsigned bits = plan.down_bits + plan.across_bits;
        team = thread >> bits;
        member = thread & ((1u << bits) - 1);
        const unsigned low = min(plan.across_bits, 3u), high = plan.across_bits - low;
        x = (member >> 1 & ((1u << low) - 1)) | (member >> 5 & ((1u << high) - 1)) << 3;
        const unsigned rest = member >> (low + 1);
        y = (member & 1) + 2 * (high ? (rest & 1) | rest >> (1 + high) << 1 : rest);
    }
};

// Adds the sums of the teams and stores the tile. The positions are computed again: the loop over
// the layers has no registers for them.
template <unsigned Rows, unsigned Columns, unsigned Threads, class T>
__device__ void store_patches(patch<Rows, Columns, Threads, T> &mine, T *c, sum_of<T> *partials,
                              const matmul_plan &plan, sum_of<T> *shared) {
    constexpr unsigned Wide = PANEL<T>, RowBits = Rows == 8 ? 3 : 2,
                       ColumnBits = Columns == 8 ? 3 : 2;
    const patch_place place(plan, opaque_copy(threadIdx.x));
    const block_part part = block_part_of(plan, opaque_copy(blockIdx.x));
    const unsigned down = plan.down_bits + RowBits, across = plan.across_bits + ColumnBits;
    const auto [row, column] = patch_tile(plan, part.tile, down, across);
    if (part.end > part.first + STEPS<T>) // else the first team has all products
        mine.join(shared, plan.team_bits, place.team, place.member);

    const bool turned = plan.c_row == 1 && plan.c_column != 1;
    const unsigned length_bits = turned ? down : across, pitch = (1u << length_bits) + Wide;
    const unsigned lines = Wide << (turned ? plan.across_bits : plan.down_bits);
    const unsigned words_by = Wide << (turned ? plan.down_bits : plan.across_bits);
    const uint64 line_by = turned ? plan.c_column : plan.c_row;
    const uint64 outer = turned ? column : row, inner = turned ? row : column;
    const uint64 outer_end = turned ? plan.n : plan.m, inner_end = turned ? plan.m : plan.n;
    for (unsigned p = 0; p < (turned ? Columns : Rows) / Wide; p++) {
        const uint64 first = outer + p * lines;
        if (first >= outer_end)
            break;
        __syncthreads();
        if (place.team == 0 && turned)
            mine.template stage<true>(shared, p, pitch, place.x * Wide, place.y * Wide, words_by);
        else if (place.team == 0)
            mine.template stage<false>(shared, p, pitch, place.x * Wide, place.y * Wide, words_by);
        __syncthreads();
        const auto store = [&](auto *to) {
            to += part.product * plan.m * plan.n + first * line_by + inner;
            store_staged<Threads, T>(shared, pitch, to, line_by, lines, length_bits,
                                     outer_end - first, inner_end - inner);
        };
        if (plan.slices == 1)
            store(c);
        else
            store(partials + part.slice * plan.outputs);
    }
}

template <unsigned Rows, unsigned Columns, unsigned Threads, unsigned Stages, class T>
__device__ void multiply_patches(const T *a, const T *b, T *c, sum_of<T> *partials,
                                 const matmul_plan &plan) {
    using S = sum_of<T>;
    constexpr unsigned Wide = PANEL<T>, Steps = STEPS<T>;
    constexpr unsigned RowBits = Rows == 8 ? 3 : 2, ColumnBits = Columns == 8 ? 3 : 2;
    // Elements that a thread loads of a layer, at most: see the shapes in ops_matmul_any.c.
    constexpr unsigned LeastAcross = Threads == 128 ? 2 : 4, LeastDown = 8;
    constexpr unsigned MostA = Rows * Steps / LeastAcross, MostB = Columns * Steps / LeastDown;
    S *shared = shared_memory<S>();
    const unsigned down = plan.down_bits + RowBits, across = plan.across_bits + ColumnBits;
    const unsigned deep_bits = (Steps == 8 ? 3 : 2) + plan.team_bits, deep = 1u << deep_bits;
    const unsigned panel = (deep + 1) * Wide, a_size = panel / Wide << down;
    const unsigned layer = a_size + (panel / Wide << across);
    const block_part part = block_part_of(plan);
    const auto [row, column] = patch_tile(plan, part.tile, down, across);
    const operands<T> from = operands_of(a, b, plan, part.product);
    const uint64 length = part.end > part.first ? part.end - part.first : 0;
    unsigned layers = static_cast<unsigned>((length + deep - 1) >> deep_bits), to_load = layers;
    const unsigned head = layers ? length - (uint64(layers - 1) << deep_bits) : 0;
    patch_loader<MostA, Threads, T> a_loader(from.a, plan.a_row, plan.a_k, row, plan.m, part.first,
                                             head, down, deep_bits, plan.run_bits, plan.a_along_k,
                                             shared);
    patch_loader<MostB, Threads, T> b_loader(from.b, plan.b_column, plan.b_k, column, plan.n,
                                             part.first, head, across, deep_bits, plan.run_bits,
                                             plan.b_along_k, shared + a_size);

    const patch_place place(plan, threadIdx.x);
    const unsigned own = place.team * Steps * Wide;
    const S *a_at = shared + place.y * panel + own;
    const S *b_at = shared + a_size + place.x * panel + own;

    patch<Rows, Columns, Threads, T> mine = {};
    wait_for_kernel_before();
    unsigned reads = 0, writes = 0, first_loads = Stages - 1, steps = head;
#pragma unroll 1
    while (layers) {
        if (!first_loads) {
            wait<Stages - 2>();
            __syncthreads();
        }
        if (to_load) {
            a_loader.load_next(writes * sizeof(S), plan.a_k * steps);
            b_loader.load_next(writes * sizeof(S), plan.b_k * steps);
            steps = deep;
        }
        commit();
        if (first_loads)
            first_loads--;
        else {
            mine.add(a_at + reads, b_at + reads, panel << plan.down_bits,
                     panel << plan.across_bits);
            reads = reads == (Stages - 1) * layer ? 0 : reads + layer;
            layers--;
        }
        if (to_load) {
            a_loader.store(writes * sizeof(S));
            b_loader.store(writes * sizeof(S));
            to_load--;
        }
        writes = writes == (Stages - 1) * layer ? 0 : writes + layer;
    }
    store_patches<Rows, Columns, Threads>(mine, c, partials, plan, shared);
}

} // namespace matmul

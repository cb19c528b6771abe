// matmul_chunks.cuh: rung 11: tiles of any layout through the ring, and the last round of them in
// even chunks. Contains no kernel.
#pragma once

#include "matmul_elements.cuh"
#include "matmul_operands.cuh"
#include "matmul_ring.cuh"

namespace matmul {

// A tile of c has `layers` pairs of tiles of a and b. The first `whole` tiles have one block each;
// the layers of the others, tile after tile, `cut_layers` in all, are cut into `chunk` layers,
// one a block. A chunk is no longer than a tile, so a block has parts of at most two tiles. A part
// that is not a whole tile goes to `pieces`; the block that stores a tile's last piece adds them
// up, in the order of k.
template <class T> struct chunks {
    T *pieces;
    unsigned *tickets; // 0 for each tile that is cut; left at 0
    unsigned whole, chunk;
    uint64 layers, cut_layers;
};

// A block's part of a tile: layers `begin` to `end` - 1; empty if they are equal.
struct tile_part {
    unsigned tile;
    uint64 begin, end;
};

// The first or second part of a block.
template <class T>
__device__ tile_part part_of(const chunks<T> &cut, unsigned block, unsigned turn) {
    if (block < cut.whole)
        return {block, 0, turn ? 0 : cut.layers};
    const uint64 from = static_cast<uint64>(block - cut.whole) * cut.chunk;
    const uint64 to = from + cut.chunk < cut.cut_layers ? from + cut.chunk : cut.cut_layers;
    const uint64 tile = from / cut.layers + turn, first = tile * cut.layers;
    const uint64 begin = turn ? 0 : from - first, end = first < to ? to - first : 0;
    return {cut.whole + static_cast<unsigned>(tile), begin, end < cut.layers ? end : cut.layers};
}

// Tile `index` in the order of grouped_tile, without those past the last row.
template <class Tiling> __device__ corner tile_number(unsigned index, uint64 m, uint64 n) {
    const unsigned down = static_cast<unsigned>((m - 1) / Tiling::Rows + 1);
    const unsigned across = static_cast<unsigned>((n - 1) / Tiling::Columns + 1);
    const unsigned group = index / (GROUP * across), rest = index % (GROUP * across);
    const unsigned left = down - group * GROUP, high = left < GROUP ? left : GROUP;
    return {static_cast<uint64>(group * GROUP + rest % high) * Tiling::Rows,
            static_cast<uint64>(rest / high) * Tiling::Columns};
}

// Stores a piece of cut tile `tile`, and returns whether the threads then hold the tile's sums.
// Chunks `first` to `last` have pieces of it. A piece's position is its index among all: one more
// for each chunk, and one more for each tile.
template <class Tiling, class T>
__device__ bool join_pieces(outputs<Tiling, T> &mine, const chunks<T> &cut, unsigned tile,
                            unsigned chunk, unsigned first, unsigned last) {
    constexpr unsigned Wide = WIDE<T>, Threads = Tiling::SliceThreads;
    constexpr unsigned RowWords = mine.Columns / Wide, Words = mine.Rows * RowWords;
    __shared__ bool is_last;
    const unsigned thread = threadIdx.x;
    const auto slot_of = [&](unsigned of_chunk) {
        return reinterpret_cast<uint4 *>(cut.pieces) +
               static_cast<uint64>(of_chunk + tile) * (Words * Threads) + thread;
    };
    const auto sums = [&](unsigned w) { return &mine.sums[w / RowWords][w % RowWords * Wide]; };
    if (thread < Threads)
#pragma unroll
        for (unsigned w = 0; w < Words; w++)
            slot_of(chunk)[w * Threads] = *reinterpret_cast<const uint4 *>(sums(w));
    __syncthreads();
    if (thread == 0) {
        __threadfence();
        is_last = atomicInc(cut.tickets + tile, last - first) == last - first;
        __threadfence();
    }
    __syncthreads();
    if (!is_last || thread >= Threads)
        return false;
    for (unsigned other = first; other <= last; other++)
#pragma unroll
        for (unsigned w = 0; w < Words; w++) {
            union {
                uint4 all;
                T items[Wide];
            } piece = {__ldcg(slot_of(other) + w * Threads)};
#pragma unroll
            for (unsigned i = 0; i < Wide; i++)
                sums(w)[i] = other == first ? piece.items[i] : sums(w)[i] + piece.items[i];
        }
    return true;
}

// A tile of a product of the stack, and the steps of k that a block adds to it.
struct unit {
    uint64 product, first, count;
    unsigned slice;
    corner tile;
};
template <class Tiling, class T>
__device__ unit unit_of(const matmul_plan &plan, const chunks<T> &cut, const tile_part &part) {
    constexpr unsigned Depth = Tiling::Depth;
    const unsigned tiles = static_cast<unsigned>(plan.tiles), rest = part.tile / tiles;
    unit found;
    found.product = rest / plan.slices;
    found.slice = rest % plan.slices;
    found.tile = tile_number<Tiling>(part.tile - rest * tiles, plan.m, plan.n);
    const uint64 start = found.slice * plan.chunk;
    const uint64 left = plan.k > start ? plan.k - start : 0;
    const uint64 length = left < plan.chunk ? left : plan.chunk;
    const uint64 layers = length ? (length - 1) / Depth + 1 : 0;
    const uint64 end = part.end < layers ? part.end : layers;
    const uint64 missing = layers * Depth - length; // in the first layer
    const uint64 from = part.begin ? part.begin * Depth - missing : 0;
    found.first = start + from;
    found.count = end ? end * Depth - missing - from : 0;
    return found;
}

// The shift of a staged row's elements: every other word of rows by 4 words, against bank
// conflicts.
template <class S> __device__ inline unsigned shift_of(unsigned line) { return (line & WIDE<S>)*4; }

// Stores `lines` rows that a warp has staged, `left` elements of each: words of aligned rows.
template <unsigned Columns, class S, class U>
__device__ void store_lines(const S *staged, U *c, uint64 n, unsigned lines, unsigned left,
                            unsigned lane) {
    constexpr unsigned Wide = WIDE<S>, Across = Columns / Wide, AtOnce = 32 / Across;
    struct __align__(Wide * sizeof(U)) run_word {
        U items[Wide];
    };
    if (n % Wide == 0 && reinterpret_cast<uint64>(c) % sizeof(run_word) == 0) {
        const unsigned x = lane % Across * Wide;
        U *to = c + lane / Across * n + x;
        if (x < left)
#pragma unroll 1
            for (unsigned y = lane / Across; y < lines; y += AtOnce) {
                const word<S> sums =
                    *reinterpret_cast<const word<S> *>(staged + y * Columns + (x ^ shift_of<S>(y)));
                run_word all;
#pragma unroll
                for (unsigned each = 0; each < Wide; each++)
                    all.items[each] = rounded<U>(sums.items[each]);
                *reinterpret_cast<run_word *>(to) = all;
                to += AtOnce * n;
            }
    } else {
        U *to = c + lane;
#pragma unroll 1
        for (unsigned y = 0; y < lines; y += Wide) {
            const unsigned shifted = lane ^ shift_of<S>(y);
#pragma unroll
            for (unsigned i = 0; i < Wide; i++) {
#pragma unroll
                for (unsigned x = 0; x < Columns; x += 32)
                    if (y + i < lines && x + lane < left)
                        to[x] = rounded<U>(staged[i * Columns + x + shifted]);
                to += n;
            }
            staged += Wide * Columns;
        }
    }
}

// Stores a warp's sums by runs: of rows or, for a transposed product, of columns, which are then
// contiguous in the result. `area` stages a word of lines of each lane at a time.
template <bool Turned, class Tiling, class S, class U>
__device__ void store_runs(const outputs<Tiling, S> &mine, S *area, U *c, corner tile,
                           const matmul_plan &plan, unsigned thread) {
    constexpr unsigned Wide = WIDE<S>;
    constexpr unsigned Lines = Turned ? mine.ColumnStep : mine.RowStep; // staged at a time
    constexpr unsigned Length = Turned ? Tiling::WarpRows : Tiling::WarpColumns;
    constexpr unsigned By = Turned ? mine.RowStep : mine.ColumnStep;
    constexpr unsigned Parts = Turned ? mine.ColumnWords : mine.RowWords;
    const unsigned row = mine.row / Tiling::WarpRows * Tiling::WarpRows;
    const unsigned column = mine.column / Tiling::WarpColumns * Tiling::WarpColumns;
    const unsigned line = Turned ? mine.column - column : mine.row - row;
    const unsigned at = Turned ? mine.row - row : mine.column - column;
    const uint64 first = Turned ? tile.column + column : tile.row + row;
    const uint64 begin = Turned ? tile.row + row : tile.column + column;
    const uint64 by = Turned ? plan.c_column : plan.n;
    const unsigned lines = min(beyond(Turned ? plan.n : plan.m, first), uint64(Parts * Lines));
    const unsigned left = min(beyond(Turned ? plan.m : plan.n, begin), uint64(Length));
    S *const own = area + thread / 32 * (Lines * Length);
    c += first * by + begin;
#pragma unroll
    for (unsigned part = 0; part < Parts; part++) {
        if (part)
            __syncwarp();
#pragma unroll
        for (unsigned i = 0; i < Wide; i++)
#pragma unroll
            for (unsigned w = 0; w < Length / By; w++) {
                word<S> all;
#pragma unroll
                for (unsigned each = 0; each < Wide; each++)
                    all.items[each] = Turned ? mine.sums[w * Wide + each][part * Wide + i]
                                             : mine.sums[part * Wide + i][w * Wide + each];
                *reinterpret_cast<word<S> *>(own + (line + i) * Length +
                                             ((at + w * By) ^ shift_of<S>(line))) = all;
            }
        __syncwarp();
        if (lines > part * Lines)
            store_lines<Length>(own, c, by, min(lines - part * Lines, Lines), left, thread % 32);
        c += Lines * by;
    }
}

// The loaders of a tile's operands.
template <class Tiling, class T> struct loader_of { using type = any_loader<Tiling, T>; };
template <class Tiling> struct loader_of<Tiling, float32> {
    using type = element_loaders<Tiling, float32>;
};

// Whether operands in C order have a loader of their own: large tiles of float64, 4% faster by it
// (TUNING.md M23).
template <class Tiling, class T>
constexpr bool HAS_PLAIN = sizeof(T) == 8 && Tiling::Threads == 256;

// Adds the products of a block's part of a tile.
template <class Tiling, class T, class S>
__device__ void multiply_part(outputs<Tiling, S> &mine, const T *a, const T *b,
                              const chunks<S> &cut, const matmul_plan &plan, const tile_part &part,
                              S *ring, unsigned thread) {
    const unit work = unit_of<Tiling>(plan, cut, part);
    operands<T> from = operands_of(a, b, plan, work.product);
    from.a += work.first * plan.a_k;
    from.b += work.first * plan.b_k;
    const bool plain = HAS_PLAIN<Tiling, T> && plan.a_k == 1 && plan.b_column == 1 &&
                       plan.n % WIDE<T> == 0 && in_words(from.b, plan.b_k);
    wait_for_kernel_before();
    if constexpr (HAS_PLAIN<Tiling, T>)
        if (plain) {
            loader<Tiling, true, T> next(from.a, from.b, plan.m, plan.n, plan.a_row, plan.b_k,
                                         work.tile, ring, thread);
            multiply_tiles(mine, next, work.count, ring, thread);
        }
    if (!plain) {
        using Loader = typename loader_of<Tiling, T>::type;
        Loader next = {{from.a, plan.a_row, plan.a_k, work.tile.row, plan.m, ring, thread},
                       {from.b, plan.b_column, plan.b_k, work.tile.column, plan.n,
                        ring + Tiling::Depth * Loader::Pitch, thread}};
        multiply_tiles(mine, next, work.count, ring, thread);
    }
}

// New: the blocks of the last round have even chunks of the remaining work. The join of a first
// part precedes the second: its barriers free the ring.
template <class Tiling, class T>
__device__ void matmul_chunks(const T *a, const T *b, T *c, const chunks<sum_of<T>> &cut,
                              const matmul_plan &plan) {
    using S = sum_of<T>;
    constexpr unsigned SliceThreads = Tiling::SliceThreads;
    S *ring = shared_memory<S>();
#pragma unroll 1
    for (unsigned turn = 0; turn < 2; turn++) {
        const unsigned thread = opaque_copy(threadIdx.x);
        outputs<Tiling, S> mine(thread % SliceThreads);
        if (const tile_part part = part_of(cut, blockIdx.x, turn); part.begin < part.end) {
            multiply_part<Tiling>(mine, a, b, cut, plan, part, ring, thread);
            if (Tiling::Slices > 1)
                add_slices<Tiling>(mine, ring, thread / SliceThreads, thread % SliceThreads);
        } else
            return;
        const unsigned block = opaque_copy(blockIdx.x); // the sums need the registers
        const tile_part part = part_of(cut, block, turn);
        bool whole = threadIdx.x < SliceThreads;
        mine.stand(opaque_copy(threadIdx.x) % SliceThreads);
        __syncthreads();
        if (part.end - part.begin < cut.layers) {
            const uint64 tile = part.tile - cut.whole;
            whole = join_pieces<Tiling>(
                mine, cut, static_cast<unsigned>(tile), block - cut.whole,
                static_cast<unsigned>(tile * cut.layers / cut.chunk),
                static_cast<unsigned>(((tile + 1) * cut.layers - 1) / cut.chunk));
        }
        if (whole) {
            const unit work = unit_of<Tiling>(plan, cut, part);
            const auto store = [&](auto *to) {
                to += work.product * plan.m * plan.n;
                if constexpr (Tiling::Rows != Tiling::Columns)
                    if (plan.is_swapped)
                        return store_runs<true>(mine, ring, to, work.tile, plan, threadIdx.x);
                store_runs<false>(mine, ring, to, work.tile, plan, threadIdx.x);
            };
            S *const sums = cut.pieces + work.slice * plan.outputs;
            if constexpr (sizeof(T) == sizeof(S))
                store(plan.slices == 1 ? c : sums);
            else if (plan.slices == 1)
                store(c);
            else
                store(sums);
        }
        __syncthreads(); // the ring is free
    }
}

} // namespace matmul

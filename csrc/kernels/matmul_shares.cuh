// matmul_shares.cuh: the tiles of the last round in even shares of k, for rung 11 of matmul.cu
// (stream-k). No kernel lives here.
#pragma once

#include "matmul_tile.cuh"

namespace matmul {

// A tile of c takes `layers` of tiles of a and b. The first `whole` tiles have a block each; the
// layers of the others, tile after tile, `cut_layers` in all, are cut into shares of `share`, a
// block's. A share is no longer than a tile: a block has parts of two tiles at most. Where a part
// is not the whole tile it goes to `pieces`; the block that stores a tile's last piece adds them
// up, in the order of k.
template <class T> struct shares {
    T *pieces;
    unsigned *tickets; // of each tile that is cut, 0; left at 0
    unsigned whole, share;
    uint64 layers, cut_layers;
};

// A block's part of a tile: the layers from `begin` to before `end`; nothing where they are equal.
struct tile_part {
    unsigned tile;
    uint64 begin, end;
};

// The first or the second part that a block has.
template <class T>
__device__ tile_part part_of(const shares<T> &cut, unsigned block, unsigned turn) {
    if (block < cut.whole)
        return {block, 0, turn ? 0 : cut.layers};
    const uint64 from = static_cast<uint64>(block - cut.whole) * cut.share;
    const uint64 to = from + cut.share < cut.cut_layers ? from + cut.share : cut.cut_layers;
    const uint64 tile = from / cut.layers + turn, first = tile * cut.layers;
    const uint64 begin = turn ? 0 : from - first, end = first < to ? to - first : 0;
    return {cut.whole + static_cast<unsigned>(tile), begin, end < cut.layers ? end : cut.layers};
}

// Tile number `index` in the order of grouped_tile, without those that are beyond the last row.
template <class Tiling> __device__ corner tile_number(unsigned index, uint64 m, uint64 n) {
    const unsigned down = static_cast<unsigned>((m - 1) / Tiling::Rows + 1);
    const unsigned across = static_cast<unsigned>((n - 1) / Tiling::Columns + 1);
    const unsigned group = index / (GROUP * across), rest = index % (GROUP * across);
    const unsigned left = down - group * GROUP, high = left < GROUP ? left : GROUP;
    return {static_cast<uint64>(group * GROUP + rest % high) * Tiling::Rows,
            static_cast<uint64>(rest / high) * Tiling::Columns};
}

// Stores a piece of cut tile number `tile`, and tells the threads that have the tile's sums then.
// Shares number `first` to `last` have pieces of it. Where a piece lies is its number among all:
// one more with each share, and one more with each tile.
template <class Tiling, class T>
__device__ bool join_pieces(outputs<Tiling, T> &mine, const shares<T> &cut, unsigned tile,
                            unsigned share, unsigned first, unsigned last) {
    constexpr unsigned Wide = WIDE<T>, Threads = Tiling::SliceThreads;
    constexpr unsigned RowWords = mine.Columns / Wide, Words = mine.Rows * RowWords;
    __shared__ bool is_last;
    const unsigned thread = threadIdx.x;
    const auto place = [&](unsigned of_share) {
        return reinterpret_cast<uint4 *>(cut.pieces) +
               static_cast<uint64>(of_share + tile) * (Words * Threads) + thread;
    };
    const auto sums = [&](unsigned w) { return &mine.sums[w / RowWords][w % RowWords * Wide]; };
    if (thread < Threads)
#pragma unroll
        for (unsigned w = 0; w < Words; w++)
            place(share)[w * Threads] = *reinterpret_cast<const uint4 *>(sums(w));
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
            } piece = {__ldcg(place(other) + w * Threads)};
#pragma unroll
            for (unsigned i = 0; i < Wide; i++)
                sums(w)[i] = other == first ? piece.items[i] : sums(w)[i] + piece.items[i];
        }
    return true;
}

// Before a second part comes the first one's join, whose barriers free the ring.
template <class Tiling, class T>
__device__ void matmul_shares(const T *a, const T *b, T *c, uint64 m, uint64 n, uint64 k,
                              const shares<T> &cut) {
    constexpr unsigned Depth = Tiling::Depth;
#pragma unroll 1
    for (unsigned turn = 0; turn < 2; turn++) {
        const unsigned thread = anew(threadIdx.x);
        outputs<Tiling, T> mine(thread % Tiling::SliceThreads);
        if (const tile_part part = part_of(cut, blockIdx.x, turn); part.begin < part.end) {
            const uint64 head = k - (cut.layers - 1) * Depth; // the first layer's depth
            const uint64 first = part.begin ? head + (part.begin - 1) * Depth : 0;
            make_tile<Tiling>(mine, a + first, b + first * n, m, n,
                              head + (part.end - 1) * Depth - first, k,
                              tile_number<Tiling>(part.tile, m, n), thread);
        } else
            return;
        const unsigned block = anew(blockIdx.x); // the sums need the registers
        const tile_part part = part_of(cut, block, turn);
        bool whole = threadIdx.x < Tiling::SliceThreads;
        mine.stand(anew(threadIdx.x) % Tiling::SliceThreads);
        if (part.end - part.begin < cut.layers) {
            const uint64 tile = part.tile - cut.whole;
            whole = join_pieces<Tiling>(
                mine, cut, static_cast<unsigned>(tile), block - cut.whole,
                static_cast<unsigned>(tile * cut.layers / cut.share),
                static_cast<unsigned>(((tile + 1) * cut.layers - 1) / cut.share));
        }
        if (whole)
            mine.store(c, tile_number<Tiling>(part.tile, m, n), m, n);
    }
}

} // namespace matmul

// transpose.cu: the transpose ladder of deck D1, rungs 1 to 6, its continuation, and the copy that
// bounds it. Knows no device and no host code.
//
// Every rung transposes `rows` x `columns` elements in C order, or a batch of such matrices; the
// last one supports any axes. It moves bytes: one kernel an element size. A rung's comment names
// its difference from the previous one.
//
// To add a rung: a row in RUNGS, a template below, and its name in the list at the end.

// One type an element size: 1, 2, 4, 8 and 16 bytes.
#define TRANSPOSE_SIGNATURES(SIGNATURE) \
    SIGNATURE(move, uint8, uint8)       \
    SIGNATURE(move, uint16, uint16)     \
    SIGNATURE(move, uint32, uint32)     \
    SIGNATURE(move, uint64, uint64)     \
    SIGNATURE(move, complex128, complex128)

#ifdef GPUOPT_RUNGS
// clang-format off
//   number, name, kernel, lesson, source,
//   threads a block (least, most, default), items a thread (0: by the block size), flags,
//   the deck's time: D1 gives bandwidths only
RUNG(0, "copy", "transpose_copy",
     "the ceiling: reads and writes as many bytes, 16 an access, and transposes nothing",
     "D1 compare with a copy", 32, 1024, 256, 0, RUNG_CEILING, 0)
RUNG(1, "1d", "transpose_1d",
     "one thread a row, a loop over its columns: few threads, each load fetches a sector for one item",
     "D1 transpose 1d", 32, 1024, 1024, 0, RUNG_DECK_RATE, 9.7)
RUNG(2, "2d", "transpose_2d",
     "one thread an item: the whole GPU works, but a warp still loads from 32 rows",
     "D1 transpose 2d", 32, 1024, 1024, 1, RUNG_DECK_RATE, 41.6)
RUNG(3, "tex", "transpose_tex",
     "the loads go through the read-only (texture) cache, which keeps the sectors for the next warp",
     "D1 transpose with const restrict, __ldg", 32, 1024, 1024, 1, RUNG_DECK_RATE, 137.4)
RUNG(4, "shared", "transpose_shared",
     "a 32 x 32 tile in shared memory: loads and stores coalesced, 32-way bank conflicts",
     "D1 transpose shared", 32, 1024, 256, 0, RUNG_DECK_RATE, 116.0)
RUNG(5, "padded", "transpose_padded",
     "a tile of 32 x 33: the items of a column lie in 32 different banks",
     "D1 transpose padded", 32, 1024, 256, 0, RUNG_DECK_RATE, 150.6)
RUNG(6, "multi", "transpose_multi",
     "several items a thread under way at once: all its loads before the first is waited for",
     "D1 transpose multi", 64, 512, 128, 0, RUNG_BLOCK_IS_TEMPLATE | RUNG_DECK_RATE, 238.4)
RUNG(7, "vector", "transpose_vector",
     "16 bytes a load and a store, from and to a swizzled tile, whatever the items and the shape",
     "after the deck", 256, 256, 256, 0, RUNG_BEST | RUNG_OVERLAPS, 0)
// clang-format on
#else

#include "common.cuh"
#include "transpose_packed.cuh"
#include "transpose_plan.cuh"

namespace transpose {

// Continuation of a grid of more than 65,535 rows of blocks, and the next matrix: z counts `layers`
// for each matrix.
struct grid_z {
    unsigned matrix = 0, layer = blockIdx.z;
    __device__ explicit grid_z(uint64 layers) {
        if (gridDim.z > 1) {
            matrix = blockIdx.z / static_cast<unsigned>(layers);
            layer = blockIdx.z % static_cast<unsigned>(layers);
        }
    }
};

// A matrix of the batch. Index of this thread's element of the output, for rungs with one a thread:
// adjacent threads store adjacent elements. Blocks are 32 wide.
__device__ inline uint64 grid_row(unsigned layer) {
    return static_cast<uint64>(layer) * gridDim.y + blockIdx.y;
}
__device__ inline uint64 thread_x() {
    return static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline uint64 thread_y(unsigned layer) {
    return grid_row(layer) * blockDim.y + threadIdx.y;
}

// 16 bytes a thread if both arrays are aligned, else an element. The last block copies the rest
// after the last vector.
template <class T>
__device__ void transpose_copy(const T *in, T *out, uint64 rows, uint64 columns, unsigned) {
    constexpr unsigned ITEMS = 16 / sizeof(T);
    const uint64 i = global_thread(), count = rows * columns, packs = count / ITEMS;
    if ((reinterpret_cast<uint64>(in) | reinterpret_cast<uint64>(out)) % 16) {
        const uint64 first = static_cast<uint64>(blockIdx.x) * blockDim.x * ITEMS + threadIdx.x;
        for (unsigned k = 0; k < ITEMS; k++)
            if (first + k * blockDim.x < count)
                out[first + k * blockDim.x] = in[first + k * blockDim.x];
        return;
    }
    if (i < packs)
        reinterpret_cast<uint4 *>(out)[i] = reinterpret_cast<const uint4 *>(in)[i];
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x < count % ITEMS)
        out[packs * ITEMS + threadIdx.x] = in[packs * ITEMS + threadIdx.x];
}

// A thread copies a row of the input to a column of the output. For the deck's matrix that is 4
// blocks for the K40's 15 multiprocessors, and a load uses 12.5% of the bytes that it fetches.
template <class T>
__device__ void transpose_1d(const T *in, T *out, uint64 rows, uint64 columns, unsigned) {
    const uint64 row = global_thread();
    if (row < rows)
        for (uint64 column = 0; column < columns; column++)
            out[column * rows + row] = in[row * columns + column];
}

// New: a thread copies one element. The deck's K40 reached 14% of its peak bandwidth.
template <class T>
__device__ void transpose_2d(const T *in, T *out, uint64 rows, uint64 columns, unsigned layer) {
    const uint64 row = thread_x(), column = thread_y(layer);
    if (row < rows && column < columns)
        out[column * rows + row] = in[row * columns + column];
}

// New: __ldg, a load through the read-only cache.
template <class T>
__device__ void transpose_tex(const T *in, T *out, uint64 rows, uint64 columns, unsigned layer) {
    const uint64 row = thread_x(), column = thread_y(layer);
    if (row < rows && column < columns)
        out[column * rows + row] = __ldg(&in[row * columns + column]);
}

// A block copies the 32 x 32 elements that begin at this row and column of the input.
constexpr unsigned TILE = 32;
__device__ inline uint64 tile_row(unsigned layer) { return grid_row(layer) * TILE; }
__device__ inline uint64 tile_column() { return static_cast<uint64>(blockIdx.x) * TILE; }

// New: the tile passes through shared memory, so that a warp loads a row of it and stores a column.
// It is transposed on its way in, so no store waits for bank conflicts. Pad is the padding of its
// rows in words. A block of 1,024 threads has the deck's one element a thread. A smaller one
// processes the tile in steps, and while some threads wait at the barrier, more other blocks load
// (TUNING.md T1). The default's steps are unrolled for whole tiles.
constexpr unsigned DEFAULT_HEIGHT = 256 / TILE;

template <unsigned Height, bool Whole, class T, unsigned Width>
__device__ void move_tile(T (&tile)[TILE][Width], const T *in, T *out, uint64 rows, uint64 columns,
                          unsigned layer) {
    const unsigned x = threadIdx.x, y = threadIdx.y, height = Height ? Height : blockDim.y;
    const uint64 first_row = tile_row(layer), first_column = tile_column();
#pragma unroll
    for (unsigned k = 0; k < TILE; k += height)
        if (Whole || (first_row + y + k < rows && first_column + x < columns))
            tile[x][y + k] = in[(first_row + y + k) * columns + first_column + x];
    __syncthreads();
#pragma unroll
    for (unsigned k = 0; k < TILE; k += height)
        if (Whole || (first_row + x < rows && first_column + y + k < columns))
            out[(first_column + y + k) * rows + first_row + x] = tile[y + k][x];
}
template <unsigned Pad, class T>
__device__ void transpose_tile(const T *in, T *out, uint64 rows, uint64 columns, unsigned layer) {
    __shared__ T tile[TILE][TILE + Pad];
    const bool whole = tile_row(layer) + TILE <= rows && tile_column() + TILE <= columns;
    if (whole && blockDim.y == DEFAULT_HEIGHT)
        move_tile<DEFAULT_HEIGHT, true>(tile, in, out, rows, columns, layer);
    else
        move_tile<0, false>(tile, in, out, rows, columns, layer);
}
template <class T>
__device__ void transpose_shared(const T *in, T *out, uint64 rows, uint64 columns, unsigned layer) {
    transpose_tile<0>(in, out, rows, columns, layer);
}

// New: the padding.
template <class T>
__device__ void transpose_padded(const T *in, T *out, uint64 rows, uint64 columns, unsigned layer) {
    transpose_tile<1>(in, out, rows, columns, layer);
}

// New: a thread copies every Height-th element of its column of the tile. A whole tile needs no
// bounds checks: its loads are all in flight before the first of them is waited for. The deck's
// reason: to keep its K40's DRAM busy, a multiprocessor needs about 100 lines in flight, and one
// load of each resident warp is 64. It reached 82% of the peak.
template <unsigned Block, class T>
__device__ void transpose_multi(const T *in, T *out, uint64 rows, uint64 columns, unsigned layer) {
    constexpr unsigned Height = Block / TILE;
    __shared__ T tile[TILE][TILE + 1];
    const unsigned x = threadIdx.x, y = threadIdx.y;
    const uint64 first_row = tile_row(layer), first_column = tile_column();
    const T *from = in + (first_row + y) * columns + first_column + x;
    T *to = out + (first_column + y) * rows + first_row + x;
    if (first_row + TILE <= rows && first_column + TILE <= columns) {
        T items[TILE / Height];
#pragma unroll
        for (unsigned k = 0; k < TILE / Height; k++)
            items[k] = from[k * Height * columns];
#pragma unroll
        for (unsigned k = 0; k < TILE / Height; k++)
            tile[y + k * Height][x] = items[k];
        __syncthreads();
#pragma unroll
        for (unsigned k = 0; k < TILE / Height; k++)
            to[k * Height * rows] = tile[x][y + k * Height];
    } else {
        for (unsigned k = 0; k < TILE; k += Height)
            if (first_row + y + k < rows && first_column + x < columns)
                tile[y + k][x] = from[k * columns];
        __syncthreads();
        for (unsigned k = 0; k < TILE; k += Height)
            if (first_row + x < rows && first_column + y + k < columns)
                to[k * rows] = tile[x][y + k];
    }
}

// --- the tiles of rung 7, which transpose a matrix, or a batch of them. Rows may be strided: a
// `pitch` is their distance in elements.

constexpr unsigned TILES_BLOCK = 256;

// The block's tile: its matrix, which begins at elements `in` and `out` of the arrays, and the
// tile's first element. Blocks go down the columns of tiles, so that consecutive ones store
// adjacent vectors (TUNING.md T2). If rows of the input are a multiple of 128 KiB apart, concurrent
// reads would share address bit 16, which is slow: two columns, 64 KiB apart, then alternate (T3).
// If neighbours in a row share the 256 bytes that load_around fetches, a long column would evict
// them first: the matrix is then divided into strips, the grid's y (T4), of which the last may have
// fewer rows of tiles.
struct tile_corner {
    uint64 in = 0, out = 0;
    unsigned row_tile, column_tile;

    __device__ explicit tile_corner(const transpose_plan &plan) {
        unsigned index = blockIdx.x, columns = plan.column_tiles, second = 0;
        if (plan.apart) {
            second = index % 2 * plan.apart;
            index /= 2, columns /= 2;
        }
        row_tile = index % plan.row_tiles + blockIdx.y * plan.row_tiles;
        index /= plan.row_tiles;
        column_tile = index % columns;
        index /= columns;
        if (plan.apart)
            column_tile += column_tile / plan.apart * plan.apart + second;
#pragma unroll 1
        for (unsigned k = 0; k < plan.grid_axes; k++) {
            const unsigned extent = static_cast<unsigned>(plan.axes[k].extent);
            in += index % extent * plan.axes[k].in;
            out += index % extent * plan.axes[k].out;
            index /= extent;
        }
    }
};

// A load that lets L2 fetch the 256 bytes around it: tiles whose rows are shorter, or unaligned,
// read the rest of them next (TUNING.md T5).
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
__device__ inline uint4 load_around(const uint4 *from) {
    uint4 v;
    asm volatile("ld.global.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from));
    return v;
}
__device__ inline unsigned load_around(const unsigned *from) {
    unsigned v;
    asm volatile("ld.global.L2::256B.u32 %0, [%1];" : "=r"(v) : "l"(from));
    return v;
}
__device__ inline uint64 load_around(const uint64 *from) {
    uint64 v;
    asm volatile("ld.global.L2::256B.u64 %0, [%1];" : "=l"(v) : "l"(from));
    return v;
}
#else
template <class Word> __device__ inline Word load_around(const Word *from) { return *from; }
#endif
// The same for elements that may be narrower, for which there is no such load.
template <class T> __device__ inline T load_near(const T *from) {
    if constexpr (sizeof(T) >= 4)
        return load_around(from);
    else
        return *from;
}

// --- tiles where every row begins and ends at a vector
//
// The tile has the input's order in shared memory, vector by vector, and a store gathers its
// elements from a column of it. So that the gathering lanes of a warp (8 vectors of 4 adjacent
// columns) use different banks, vector p of a row is stored at p ^ (row / elements of a vector %
// 8).
template <class T, unsigned Rows, unsigned Columns> struct aligned_tile {
    static constexpr unsigned ITEMS = 16 / sizeof(T);      // of a vector
    static constexpr unsigned PACKS = Columns / ITEMS;     // of an input row
    static constexpr unsigned OUTPUT_PACKS = Rows / ITEMS; // of an output row
    static constexpr unsigned PITCH = PACKS + 1;           // in shared memory
    static constexpr unsigned LOADS = Rows * PACKS / TILES_BLOCK;
    static constexpr unsigned STORES = Columns * OUTPUT_PACKS / TILES_BLOCK;
    uint4 *packs;

    __device__ uint4 *place(unsigned row, unsigned p) const {
        return packs + row * PITCH + (ITEMS > 1 ? p ^ (row / ITEMS % 8) : p);
    }

    template <bool Whole, bool Around>
    __device__ void load(const T *from, uint64 pitch, unsigned rows, unsigned columns) const {
        uint4 taken[LOADS];
#pragma unroll
        for (unsigned k = 0; k < LOADS; k++) {
            const unsigned i = threadIdx.x + k * TILES_BLOCK, row = i / PACKS, p = i % PACKS;
            const uint4 *pack = reinterpret_cast<const uint4 *>(from + row * pitch) + p;
            if (Whole || (row < rows && p * ITEMS < columns))
                taken[k] = Around ? load_around(pack) : *pack;
        }
#pragma unroll
        for (unsigned k = 0; k < LOADS; k++) {
            const unsigned i = threadIdx.x + k * TILES_BLOCK, row = i / PACKS, p = i % PACKS;
            if (Whole || (row < rows && p * ITEMS < columns))
                *place(row, p) = taken[k];
        }
    }

    // Loads the input, within its rows and columns.
    template <bool Whole>
    __device__ void load(const T *from, uint64 pitch, unsigned rows, unsigned columns) const {
        if (PACKS * 16 < 256 || (reinterpret_cast<uint64>(from) | pitch * sizeof(T)) % 256)
            load<Whole, true>(from, pitch, rows, columns);
        else
            load<Whole, false>(from, pitch, rows, columns);
    }

    template <bool Whole>
    __device__ void store(T *to, uint64 pitch, unsigned rows, unsigned columns) const {
        constexpr unsigned lanes = OUTPUT_PACKS < 8 ? OUTPUT_PACKS : 8;
#pragma unroll
        for (unsigned k = 0; k < STORES; k++) {
            const unsigned i = threadIdx.x + k * TILES_BLOCK, rest = i / (lanes * 4);
            const unsigned p = i % lanes + rest % (OUTPUT_PACKS / lanes) * lanes;
            const unsigned column = i / lanes % 4 + rest / (OUTPUT_PACKS / lanes) * 4;
            if (!Whole && (column >= columns || p * ITEMS >= rows))
                continue;
            pack<T> gathered;
            const T *top = reinterpret_cast<const T *>(place(p * ITEMS, column / ITEMS));
#pragma unroll
            for (unsigned j = 0; j < ITEMS; j++)
                gathered.items[j] = top[j * PITCH * ITEMS + column % ITEMS];
            store_pack(reinterpret_cast<uint4 *>(to + column * pitch) + p, gathered.all);
        }
    }
};

// 16 KiB, with at least 128 bytes on both sides, 256 if the elements are wide enough (TUNING.md
// T11).
template <class T>
__device__ void move_aligned_tile(const T *in, T *out, const transpose_plan &plan,
                                  const tile_corner &corner) {
    constexpr unsigned ROWS = TRANSPOSE_TILE_ROWS(sizeof(T));
    constexpr unsigned COLUMNS = TRANSPOSE_TILE_COLUMNS(sizeof(T));
    const aligned_tile<T, ROWS, COLUMNS> tile{shared_memory<uint4>()};
    const uint64 row = static_cast<uint64>(corner.row_tile) * ROWS;
    const uint64 column = static_cast<uint64>(corner.column_tile) * COLUMNS;
    const unsigned rows = least(plan.rows - row, ROWS);
    const unsigned columns = least(plan.columns - column, COLUMNS);
    const T *from = in + row * plan.in_pitch + column;
    T *to = out + column * plan.out_pitch + row;
    if (rows == ROWS && columns == COLUMNS) {
        tile.template load<true>(from, plan.in_pitch, rows, columns);
        __syncthreads();
        tile.template store<true>(to, plan.out_pitch, rows, columns);
    } else {
        tile.template load<false>(from, plan.in_pitch, rows, columns);
        __syncthreads();
        tile.template store<false>(to, plan.out_pitch, rows, columns);
    }
}

// --- tiles where rows are unaligned
//
// A block stores 256 bytes of each output row as whole 32-byte sectors at the row's own alignment:
// its part of a row begins up to a sector earlier than another row's, so the block loads
// correspondingly more rows of the input. It loads an input row by words of at least 4 bytes, so
// that all of a tile's loads are alike and in flight before the first is waited for. With words of
// several elements a warp covers 31 of them and shares one with its neighbour, and each lane shifts
// its own into place; words of as many rows are then transposed, in registers, to words of columns.
// Shared memory holds words of a column: `ITEMS` rows each, a group. Word c of group g is at c ^ (g
// & MASK): lanes that load a row, and lanes that gather vectors of 4 adjacent columns, use
// different banks (TUNING.md T12).
template <class T> struct phased_tile {
    using word = typename pack<T>::word;
    static constexpr unsigned ITEMS = sizeof(word) / sizeof(T); // of a word
    static constexpr unsigned WORDS = 16 / sizeof(word);        // of a vector
    static constexpr unsigned ROWS = 256 / sizeof(T);
    static constexpr unsigned LEAD = 32 / sizeof(T); // rows before the first
    static constexpr unsigned GROUPS = (ROWS + LEAD) / ITEMS;
    static constexpr unsigned PASSES = ITEMS > 1 ? 1 : 2;   // of a warp over a row
    static constexpr unsigned LANES = ITEMS == 1 ? 32 : 31; // whose word is the warp's own
    static constexpr unsigned COLUMNS = PASSES * LANES * ITEMS;
    static constexpr unsigned PITCH = ITEMS < 4 ? 64 : 128; // words
    static constexpr unsigned MASK = 7 * WORDS;
    static constexpr unsigned STEP = TILES_BLOCK / 32 / PASSES; // groups at once
    static constexpr unsigned LOADS = (GROUPS + STEP - 1) / STEP;
    static constexpr unsigned STORES = PITCH * 16 / TILES_BLOCK;
    word *words;

    // Word `column` of group `group` + j.
    __device__ word at(unsigned group, unsigned j, unsigned column) const {
        constexpr unsigned size = sizeof(word);
        const char *first = reinterpret_cast<const char *>(words + group * PITCH);
        const unsigned turned = (group * size + j * size) & (MASK * size);
        return *reinterpret_cast<const word *>(first + j * PITCH * size + (column * size ^ turned));
    }
    // Where a thread stores its words of the groups `first` + k * STEP; `first` is below STEP.
    struct column_of {
        char *top;
        unsigned byte;
        __device__ word *place(unsigned k) const {
            constexpr unsigned size = sizeof(word);
            return reinterpret_cast<word *>(top + k * STEP * PITCH * size +
                                            (byte ^ ((k * STEP & MASK) * size)));
        }
    };
    __device__ column_of own(unsigned first, unsigned column) const {
        return {reinterpret_cast<char *>(words + first * PITCH),
                (column ^ (first & MASK)) * unsigned(sizeof(word))};
    }
};

// The four bytes at `at`, a multiple of 4; bytes outside the array are skipped.
template <class T>
__device__ unsigned load_word(const char *at, const char *begin, const char *end) {
    if (at >= begin && at + 4 <= end)
        return *reinterpret_cast<const unsigned *>(at);
    unsigned found = 0;
    for (unsigned byte = 0; byte < 4; byte += sizeof(T))
        if (at + byte >= begin && at + byte < end)
            found |= static_cast<unsigned>(*reinterpret_cast<const T *>(at + byte)) << 8 * byte;
    return found;
}

// Transposes words of as many rows to words of as many columns.
__device__ inline void turn_words(unsigned (&w)[1]) {}
__device__ inline void turn_words(unsigned (&w)[2]) {
    const unsigned a = __byte_perm(w[0], w[1], 0x5410), b = __byte_perm(w[0], w[1], 0x7632);
    w[0] = a, w[1] = b;
}
__device__ inline void turn_words(unsigned (&w)[4]) {
    const unsigned a = __byte_perm(w[0], w[1], 0x5140), b = __byte_perm(w[0], w[1], 0x7362);
    const unsigned c = __byte_perm(w[2], w[3], 0x5140), d = __byte_perm(w[2], w[3], 0x7362);
    w[0] = __byte_perm(a, c, 0x5410), w[1] = __byte_perm(a, c, 0x7632);
    w[2] = __byte_perm(b, d, 0x5410), w[3] = __byte_perm(b, d, 0x7632);
}
__device__ inline void put_words(unsigned *at, const unsigned (&w)[2]) {
    *reinterpret_cast<uint2 *>(at) = make_uint2(w[0], w[1]);
}
__device__ inline void put_words(unsigned *at, const unsigned (&w)[4]) {
    *reinterpret_cast<uint4 *>(at) = make_uint4(w[0], w[1], w[2], w[3]);
}

// Loads the rows `first` to `end` - 1 of the tile, of elements as wide as words. `from` is the
// tile's first row, even if the matrix has none there.
template <class T>
__device__ void load_phased(const phased_tile<T> &tile, const T *from, uint64 pitch, unsigned first,
                            unsigned end, unsigned columns) {
    using phased = phased_tile<T>;
    const unsigned warp = threadIdx.x / 32, top = warp / phased::PASSES;
    const unsigned column = warp % phased::PASSES * 32 + threadIdx.x % 32;
    const unsigned rows = column < columns ? end - first : 0;
    const T *at = from + top * pitch + column;
    const auto own = tile.own(top, column);
    T taken[phased::LOADS];
#pragma unroll
    for (unsigned k = 0; k < phased::LOADS; k++, at += phased::STEP * pitch) {
        taken[k] = T{};
        if (top - first + k * phased::STEP < rows)
            taken[k] = load_around(at);
    }
#pragma unroll
    for (unsigned k = 0; k < phased::LOADS; k++)
        if ((k + 1) * phased::STEP <= phased::GROUPS || top + k * phased::STEP < phased::GROUPS)
            *own.place(k) = taken[k];
}

// Iterates over the rows of a thread's groups, which are `top`, `top` + STEP and so on.
template <class T> struct row_walk {
    using phased = phased_tile<T>;
    uint64 at, step, jump; // in bytes; at: of this lane's word, before alignment

    __device__ row_walk(const T *from, uint64 pitch)
        : step(pitch * sizeof(T)), jump(step * ((phased::STEP - 1) * phased::ITEMS)) {
        at = reinterpret_cast<uint64>(from) +
             threadIdx.x / 32 / phased::PASSES * phased::ITEMS * step + 4 * (threadIdx.x % 32);
    }
    __device__ void next_row() { at += step; }
    __device__ void next_group() { at += jump; }
};

// Shifts a group's words, transposes them, and stores them in the tile.
template <class T>
__device__ void put_group(const typename phased_tile<T>::column_of &own, unsigned k,
                          unsigned (&words)[phased_tile<T>::ITEMS], row_walk<T> &walk) {
#pragma unroll
    for (unsigned i = 0; i < phased_tile<T>::ITEMS; i++, walk.next_row()) {
        const unsigned next = __shfl_down_sync(~0u, words[i], 1);
        words[i] = __funnelshift_r(words[i], next, 8 * static_cast<unsigned>(walk.at)); // mod 32
    }
    walk.next_group();
    turn_words(words);
    if (threadIdx.x % 32 < phased_tile<T>::LANES)
        put_words(own.place(k), words);
}

// The same as load_phased for narrower elements. `begin` and `end_of_all` are the array's.
template <class T>
__device__ void load_phased_words(const phased_tile<T> &tile, const T *from, uint64 pitch,
                                  unsigned first, unsigned end, unsigned columns, const T *begin,
                                  const T *end_of_all) {
    using phased = phased_tile<T>;
    constexpr unsigned ITEMS = phased::ITEMS;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned left = warp % phased::PASSES * phased::LANES * ITEMS;
    const auto own = tile.own(warp / phased::PASSES, left + lane * ITEMS);
    const char *low = reinterpret_cast<const char *>(begin);
    const char *high = reinterpret_cast<const char *>(end_of_all);
    const char *first_row = reinterpret_cast<const char *>(from + first * pitch);
    const char *last_row = reinterpret_cast<const char *>(from + (end - 1) * pitch);
    const unsigned top = warp / phased::PASSES * ITEMS - first;
    const unsigned rows = left * sizeof(T) + 4 * lane < columns * sizeof(T) + 3 ? end - first : 0;
    row_walk<T> load(from + left, pitch), put = load;
    // A row's first and last words include bytes outside it, and there may be one more word.
    if (first_row >= low + 3 && last_row + columns * sizeof(T) + 7 <= high) {
        unsigned taken[phased::LOADS][ITEMS];
#pragma unroll
        for (unsigned k = 0; k < phased::LOADS; k++, load.next_group())
#pragma unroll
            for (unsigned i = 0; i < ITEMS; i++, load.next_row()) {
                taken[k][i] = 0;
                if (top + k * phased::STEP * ITEMS + i < rows)
                    taken[k][i] = load_around(reinterpret_cast<const unsigned *>(load.at & ~3ull));
            }
#pragma unroll
        for (unsigned k = 0; k < phased::LOADS; k++)
            put_group(own, k, taken[k], put);
        return;
    }
#pragma unroll 1
    for (unsigned k = 0; k < phased::LOADS; k++, load.next_group()) {
        unsigned taken[ITEMS];
#pragma unroll
        for (unsigned i = 0; i < ITEMS; i++, load.next_row()) {
            taken[i] = 0;
            if (top + k * phased::STEP * ITEMS + i < rows)
                taken[i] = load_word<T>(reinterpret_cast<const char *>(load.at & ~3ull), low, high);
        }
        put_group(own, k, taken, put);
    }
}

// The vector that begins at element `row` of the tile's column.
template <class T>
__device__ uint4 gather_phased(const phased_tile<T> &tile, unsigned row, unsigned column) {
    using phased = phased_tile<T>;
    pack<T> gathered;
    const unsigned group = row / phased::ITEMS;
#pragma unroll
    for (unsigned j = 0; j < phased::WORDS; j++)
        gathered.words[j] = tile.at(group, j, column);
    if constexpr (phased::ITEMS > 1) {
        const unsigned shift = row % phased::ITEMS * 8 * sizeof(T);
        // Not needed if nothing is shifted; the tile may end there.
        const unsigned next = tile.at(group, shift ? phased::WORDS : 0, column);
#pragma unroll
        for (unsigned j = 0; j < phased::WORDS; j++)
            gathered.words[j] = __funnelshift_r(
                gathered.words[j], j + 1 < phased::WORDS ? gathered.words[j + 1] : next, shift);
    }
    return gathered.all;
}

// Stores rows `first` to `end` - 1 of the tile's columns, which are rows of the output: a warp's
// lanes take 8 vectors of 4 adjacent ones.
template <class T>
__device__ void store_phased(const phased_tile<T> &tile, T *to, uint64 pitch, unsigned first,
                             unsigned end, unsigned columns) {
    using phased = phased_tile<T>;
    constexpr unsigned ITEMS = 16 / sizeof(T), STEP = TILES_BLOCK / 16;
    const unsigned warp = threadIdx.x / 32, p = threadIdx.x % 8 + warp % 2 * 8;
    const unsigned left = threadIdx.x % 32 / 8 + warp / 2 * 4;
    T *row = to + left * pitch;
#pragma unroll
    for (unsigned k = 0; k < phased::STORES; k++, row += STEP * pitch) {
        const unsigned column = left + k * STEP;
        const unsigned phase =
            static_cast<unsigned>(reinterpret_cast<uint64>(row)) % 32 / sizeof(T);
        const unsigned item = phased::LEAD + p * ITEMS - phase;
        T *at = row + p * ITEMS - phase;
        if (column >= columns)
            break;
        if (item + ITEMS <= first || item >= end)
            continue;
        const pack<T> found = {gather_phased(tile, item, column)};
        if (item >= first && item + ITEMS <= end) {
            store_pack(reinterpret_cast<uint4 *>(at), found.all);
            continue;
        }
#pragma unroll
        for (unsigned j = 0; j < ITEMS; j++)
            if (item + j >= first && item + j < end)
                at[j] = found.items[j];
    }
}

template <class T>
__device__ void move_phased_tile(const T *in, T *out, const transpose_plan &plan,
                                 const tile_corner &corner) {
    using phased = phased_tile<T>;
    const phased tile{shared_memory<typename phased::word>()};
    const uint64 row = static_cast<uint64>(corner.row_tile) * phased::ROWS;
    const uint64 column = static_cast<uint64>(corner.column_tile) * phased::COLUMNS;
    const unsigned columns = least(plan.columns - column, phased::COLUMNS);
    // Rows `first` to `end` - 1 of the tile are in the matrix. If all output rows begin at a
    // sector, the block needs none of the rows before its own.
    const unsigned first = corner.row_tile ? 0 : phased::LEAD;
    const unsigned end = least(plan.rows + phased::LEAD - row, phased::ROWS + phased::LEAD);
    T *to = out + corner.out + column * plan.out_pitch + row;
    const bool phases = (reinterpret_cast<uint64>(to) | plan.out_pitch * sizeof(T)) % 32;
    const unsigned needed = phases ? first : least(phased::LEAD, end);
    const T *from = in + corner.in + row * plan.in_pitch + column - phased::LEAD * plan.in_pitch;
    if constexpr (phased::ITEMS == 1)
        load_phased(tile, from, plan.in_pitch, needed, end, columns);
    else
        load_phased_words(tile, from, plan.in_pitch, needed, end, columns, in, in + plan.items);
    __syncthreads();
    store_phased(tile, to, plan.out_pitch, first, end, columns);
}

// --- the innermost axis stays innermost: rows are copied, wherever they are
//
// The output is written in order, and each element is read from its address. A warp copies 32
// adjacent elements and then the next 32, so it divides only once, and where an axis ends. `Index`
// holds the index of every element (TUNING.md T13).
template <class Index, unsigned Step> struct row_items {
    const transpose_plan &plan;
    const Index columns, extent; // of the axis that varies fastest over the rows
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
    __device__ uint64 place() const { return others + index * plan.axes[0].in + column; }
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
    constexpr unsigned IN_FLIGHT = sizeof(T) == 16 ? TRANSPOSE_ROW_PACKS : TRANSPOSE_ROW_ITEMS;
    const unsigned warp = threadIdx.x / 32 * (32 * IN_FLIGHT);
    const uint64 begin = static_cast<uint64>(blockIdx.x) * (IN_FLIGHT * TILES_BLOCK);
    const Index first = static_cast<Index>(begin + warp + threadIdx.x % 32);
    const Index items = static_cast<Index>(plan.items);
    row_items<Index, 32> at(plan, first);
    T taken[IN_FLIGHT];
#pragma unroll
    for (unsigned k = 0; k < IN_FLIGHT; k++, at.next())
        if (first + k * 32 < items)
            taken[k] = load_near(in + at.place());
#pragma unroll
    for (unsigned k = 0; k < IN_FLIGHT; k++)
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
        low = load_pack_if(wanted && whole && needs_low, reinterpret_cast<const uint4 *>(first));
        high =
            load_pack_if(wanted && whole && needs_high, reinterpret_cast<const uint4 *>(first) + 1);
        return whole;
    }
    __device__ uint4 taken() const { return cut_pack<sizeof(T)>(low, high, skipped); }
};

// The first `bytes` of vector a, and the rest of vector b.
__device__ inline uint4 join_packs(const uint4 &a, const uint4 &b, int bytes) {
    const auto join = [&](unsigned x, unsigned y, int low) {
        const unsigned rest = __funnelshift_lc(0, ~0u, low < 0 ? 0u : unsigned(low) * 8);
        return (x & ~rest) | (y & rest);
    };
    return make_uint4(join(a.x, b.x, bytes), join(a.y, b.y, bytes - 4), join(a.z, b.z, bytes - 8),
                      join(a.w, b.w, bytes - 12));
}

template <class Index, class T>
__device__ void move_narrow_rows(const T *in, T *out, const transpose_plan &plan) {
    constexpr unsigned ITEMS = 16 / sizeof(T), IN_FLIGHT = 2, SIZE = sizeof(T);
    const T *end = in + plan.items;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32 * (32 * TRANSPOSE_ROW_PACKS);
    const unsigned head = static_cast<unsigned>(0 - reinterpret_cast<uint64>(out)) % 16 / SIZE;
    const uint64 begin = static_cast<uint64>(blockIdx.x) * (TRANSPOSE_ROW_PACKS * TILES_BLOCK);
    const Index items = static_cast<Index>(plan.items);
    if (begin + threadIdx.x < least(plan.items, head)) // elements before the first vector
        out[threadIdx.x] = in[row_items<Index, 1>(plan, threadIdx.x).place()];

    Index first = static_cast<Index>((begin + warp + lane) * ITEMS + head);
    row_items<Index, 32 * ITEMS> at(plan, first);
#pragma unroll
    for (unsigned done = 0; done < TRANSPOSE_ROW_PACKS; done += IN_FLIGHT) {
        cut_row<T> row[IN_FLIGHT], next[IN_FLIGHT];
        unsigned bytes[IN_FLIGHT]; // of the row; 0: nothing to store
#pragma unroll
        for (unsigned k = 0; k < IN_FLIGHT; k++, at.next(), first += 32 * ITEMS) {
            const unsigned left = least(at.columns - at.column, ITEMS);
            const bool there = first < items && items - first >= ITEMS;
            const uint64 from = reinterpret_cast<uint64>(in + at.place());
            bool whole = row[k].load_if(there, from, 0, left * SIZE, in, end);
            if (left < ITEMS) {
                auto then = at;
                then.next_row();
                const uint64 second = reinterpret_cast<uint64>(in + then.place()) - left * SIZE;
                whole &= next[k].load_if(there, second, left * SIZE, 16, in, end);
            }
            bytes[k] = there && whole ? left * SIZE : 0;
            if (first < items && !bytes[k]) { // an array begins or ends here
                auto one = at;
#pragma unroll 1
                for (Index item = first; item < items && item < first + ITEMS; item++) {
                    out[item] = in[one.place()];
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
                found = join_packs(found, next[k].taken(), static_cast<int>(bytes[k]));
            if (bytes[k])
                store_pack(reinterpret_cast<uint4 *>(out + to), found);
        }
    }
}

// --- a square matrix in place: a block swaps a tile with its mirror image, and transposes both
template <class T> constexpr unsigned SQUARE = sizeof(T) == 1 ? 128 : sizeof(T) <= 4 ? 64 : 32;

template <class T> struct tile_pair {
    unsigned rows[2]; // of the upper tile, which are the lower's columns; and its columns
    uint64 upper, lower;
    __device__ tile_pair(const transpose_plan &plan, const tile_corner &corner) {
        const uint64 row = static_cast<uint64>(corner.row_tile) * SQUARE<T>;
        const uint64 column = static_cast<uint64>(corner.column_tile) * SQUARE<T>;
        rows[0] = least(plan.rows - row, SQUARE<T>);
        rows[1] = least(plan.rows - column, SQUARE<T>);
        upper = row * plan.in_pitch + column;
        lower = column * plan.in_pitch + row;
    }
};

template <class T>
__device__ void swap_packs(const T *in, T *out, const transpose_plan &plan,
                           const tile_corner &corner) {
    using square = aligned_tile<T, SQUARE<T>, SQUARE<T>>;
    const tile_pair<T> pair(plan, corner);
    const square upper{shared_memory<uint4>()}, lower{upper.packs + SQUARE<T> * square::PITCH};
    if (corner.row_tile > corner.column_tile)
        return;
    upper.template load<false>(in + pair.upper, plan.in_pitch, pair.rows[0], pair.rows[1]);
    lower.template load<false>(in + pair.lower, plan.in_pitch, pair.rows[1], pair.rows[0]);
    __syncthreads();
    upper.template store<false>(out + pair.lower, plan.in_pitch, pair.rows[0], pair.rows[1]);
    if (pair.upper != pair.lower)
        lower.template store<false>(out + pair.upper, plan.in_pitch, pair.rows[1], pair.rows[0]);
}

template <class T>
__device__ void swap_items(const T *in, T *out, const transpose_plan &plan,
                           const tile_corner &corner) {
    constexpr unsigned SIDE = SQUARE<T>, WARPS = TILES_BLOCK / 32;
    using row_of = T[SIDE + 1];
    const tile_pair<T> pair(plan, corner);
    row_of *upper = shared_memory<row_of>(), *lower = upper + SIDE;
    const unsigned x = threadIdx.x % 32, y = threadIdx.x / 32;
    if (corner.row_tile > corner.column_tile)
        return;
#pragma unroll 4
    for (unsigned i = y; i < SIDE; i += WARPS)
#pragma unroll 1
        for (unsigned j = x; j < SIDE; j += 32) {
            if (i < pair.rows[0] && j < pair.rows[1])
                upper[i][j] = in[pair.upper + i * plan.in_pitch + j];
            if (i < pair.rows[1] && j < pair.rows[0])
                lower[i][j] = in[pair.lower + i * plan.in_pitch + j];
        }
    __syncthreads();
#pragma unroll 4
    for (unsigned i = y; i < SIDE; i += WARPS)
#pragma unroll 1
        for (unsigned j = x; j < SIDE; j += 32) {
            if (i < pair.rows[1] && j < pair.rows[0])
                out[pair.lower + i * plan.in_pitch + j] = upper[j][i];
            if (pair.upper != pair.lower && i < pair.rows[0] && j < pair.rows[1])
                out[pair.upper + i * plan.in_pitch + j] = lower[j][i];
        }
}

// New: 16 bytes a load and a store where rows allow it, and any axes. transpose_packed.cuh has
// other tiles for matrices that are too small or too narrow for these.
template <class T>
__device__ void transpose_vector(const T *in, T *out, const transpose_plan &plan) {
    if (plan.shape == TRANSPOSE_PACKED) {
        move_packed_tiles(in, out, plan);
        return;
    }
    if (plan.shape == TRANSPOSE_ROWS) {
        if constexpr (sizeof(T) < 4)
            if (plan.columns * sizeof(T) >= 16) {
                if (plan.items >> 31)
                    move_narrow_rows<uint64>(in, out, plan);
                else
                    move_narrow_rows<unsigned>(in, out, plan);
                return;
            }
        if (plan.items >> 31)
            move_rows<uint64>(in, out, plan);
        else
            move_rows<unsigned>(in, out, plan);
        return;
    }
    const tile_corner corner(plan);
    if (corner.row_tile >= plan.all_row_tiles) // the last strip has fewer
        return;
    if (plan.in_place && plan.shape == TRANSPOSE_ALIGNED)
        swap_packs(in + corner.in, out + corner.out, plan, corner);
    else if (plan.in_place)
        swap_items(in + corner.in, out + corner.out, plan, corner);
    else if (plan.shape == TRANSPOSE_ALIGNED)
        move_aligned_tile(in + corner.in, out + corner.out, plan, corner);
    else
        move_phased_tile(in, out, plan, corner);
}

// --- the kernels: transpose_<rung>_move_<items>_<items>[_b<block>]

// By element size, types that __ldg accepts.
using type_uint8 = unsigned char;
using type_uint16 = unsigned short;
using type_uint32 = unsigned;
using type_uint64 = unsigned long long;
using type_complex128 = uint4;

// Each works on one matrix of the batch.
#define TRANSPOSE_MATRIX(call)                        \
    const grid_z z(layers);                           \
    const unsigned layer = z.layer;                   \
    const uint64 skipped = z.matrix * rows * columns; \
    in += skipped, out += skipped, call

#define TRANSPOSE_KERNEL(rung, op, items, same)                                                  \
    extern "C" __global__ void rung##_##op##_##items##_##same(                                   \
        const type_##items *in, type_##items *out, uint64 rows, uint64 columns, uint64 layers) { \
        TRANSPOSE_MATRIX(rung(in, out, rows, columns, layer));                                   \
    }
#define TRANSPOSE_KERNEL_B(rung, block, op, items, same)                                           \
    extern "C" __global__ void __launch_bounds__(block) rung##_##op##_##items##_##same##_b##block( \
        const type_##items *in, type_##items *out, uint64 rows, uint64 columns, uint64 layers) {   \
        TRANSPOSE_MATRIX(rung<block>(in, out, rows, columns, layer));                              \
    }
#define TRANSPOSE_KERNEL_V(rung, op, items, same)                                                 \
    extern "C" __global__ void __launch_bounds__(256, 4) rung##_##op##_##items##_##same(          \
        const type_##items *in, type_##items *out, const __grid_constant__ transpose_plan plan) { \
        wait_for_kernel_before();                                                                 \
        rung(in, out, plan);                                                                      \
    }
#define TRANSPOSE_SAME_RUNGS(op, items, same)                 \
    TRANSPOSE_KERNEL(transpose_copy, op, items, same)         \
    TRANSPOSE_KERNEL(transpose_1d, op, items, same)           \
    TRANSPOSE_KERNEL(transpose_2d, op, items, same)           \
    TRANSPOSE_KERNEL(transpose_tex, op, items, same)          \
    TRANSPOSE_KERNEL(transpose_shared, op, items, same)       \
    TRANSPOSE_KERNEL(transpose_padded, op, items, same)       \
    TRANSPOSE_KERNEL_B(transpose_multi, 64, op, items, same)  \
    TRANSPOSE_KERNEL_B(transpose_multi, 128, op, items, same) \
    TRANSPOSE_KERNEL_B(transpose_multi, 256, op, items, same) \
    TRANSPOSE_KERNEL_B(transpose_multi, 512, op, items, same)
#define TRANSPOSE_NEWER_RUNGS(op, items, same) TRANSPOSE_KERNEL_V(transpose_vector, op, items, same)

SAME_FOR_ALL_GPUS(TRANSPOSE_SIGNATURES(TRANSPOSE_SAME_RUNGS))
TRANSPOSE_SIGNATURES(TRANSPOSE_NEWER_RUNGS)

} // namespace transpose

#endif

// stencil1d.cu: the one-dimensional stencil of deck D1: output i is the plain or weighted sum of
// `width` inputs from i + first - before on. Knows no device and no host code.
//
// Inputs beyond the array's ends are elements of the array or a constant, depending on the mode.
// Each output adds its own inputs from left to right. A rung's comment names its difference from
// the previous one.
//
// To add a rung: a row in RUNGS, a template below, and its name in the list at the end.

// (operation, elements, accumulator). Integers with fractional weights are computed in float64.
// Rungs from 3 on accumulate float32 in float64; a rung takes the last one that serves.
#define STENCIL1D_WIDE_SIGNATURES(SIGNATURE) \
    SIGNATURE(sum, int32, int32)             \
    SIGNATURE(sum, int64, int64)             \
    SIGNATURE(sum, int32, float64)           \
    SIGNATURE(sum, int64, float64)           \
    SIGNATURE(sum, float32, float64)         \
    SIGNATURE(sum, float64, float64)         \
    SIGNATURE(weighted, int32, int32)        \
    SIGNATURE(weighted, int64, int64)        \
    SIGNATURE(weighted, int32, float64)      \
    SIGNATURE(weighted, int64, float64)      \
    SIGNATURE(weighted, float32, float64)    \
    SIGNATURE(weighted, float64, float64)
#define STENCIL1D_SIGNATURES(SIGNATURE)   \
    SIGNATURE(sum, float32, float32)      \
    SIGNATURE(weighted, float32, float32) \
    STENCIL1D_WIDE_SIGNATURES(SIGNATURE)

// Values beyond the ends; gpuopt/families uses the same order.
#define STENCIL1D_MODES(MODE) MODE(CONSTANT) MODE(NEAREST) MODE(REFLECT) MODE(MIRROR) MODE(WRAP)

#ifdef GPUOPT_RUNGS
// clang-format off
//   number, name, kernel, lesson, source,
//   threads per block (least, most, default), items per thread, flags, the deck's time: none
RUNG(1, "global", "stencil1d_1",
     "each thread reads its 2r + 1 inputs from global memory: every input is read 2r + 1 times",
     "D1 stencil, straightforward", 16, 1024, 256, 1, 0, 0)
RUNG(2, "shared", "stencil1d_2",
     "a block loads its inputs and the halo into shared memory once; the sum follows a barrier",
     "D1 stencil with shared memory, blocks of 16", 16, 1024, 256, 1, 0, 0)
RUNG(2, "2-historical", "stencil1d_2h",
     "the deck's listing without the barrier: a thread reads the halo before another has stored it",
     "D1 stencil, the data race", 16, 1024, 256, 1, RUNG_HISTORICAL, 0)
RUNG(3, "registers", "stencil1d_3",
     "several outputs per thread, from a window of inputs that slides through its registers",
     "after D1 and D2", 32, 1024, 128, 4, RUNG_WIDE, 0)
RUNG(4, "vector", "stencil1d_4",
     "vector loads and stores of 16 bytes; the neighbours' vectors come from the L1 cache",
     "after the decks", 32, 1024, 128, 4, RUNG_WIDE, 0)
RUNG(5, "shared-sums", "stencil1d_5",
     "tiles in shared memory; wide windows reuse the sums of whole groups of inputs",
     "after the decks: van Herk 1992, Gil and Werman 1993", 128, 128, 128, 15,
     RUNG_BEST | RUNG_WIDE | RUNG_OVERLAPS, 0)
// clang-format on
#else

#include "stencil1d/stencil1d_columns.cuh"
#include "stencil1d/stencil1d_narrow.cuh"
#include "stencil1d/stencil1d_short_rows.cuh"
#include "stencil1d_plan.cuh"

namespace stencil1d {

// --- the rungs

template <class Op, class In, class Acc> __device__ void stencil1d_1(const stencil<In, Acc> &rows) {
    int64 output = global_thread();
    if (output >= rows.every_output())
        return;
    const stencil<In, Acc> s = rows.row_of(output);
    const int64 left = s.first + output - s.before, width = s.width;
    Acc sum = 0;
    if (s.whole(left, left + width - 1)) {
        for (int64 k = 0; k < width; k++)
            sum = Op::add(sum, static_cast<Acc>(s.in[left + k]), s.weights, k);
    } else {
        for (int64 k = 0; k < width; k++)
            sum = Op::add(sum, s.read(left + k), s.weights, k);
    }
    s.out[output] = static_cast<In>(sum);
}

// An element if it is `there`; else any value.
template <class In> __device__ In load_if(bool there, const In *from) {
    const own_items<In> memory(from);
    return memory.load(memory.begin, there);
}

// New: the block's inputs, and those on both sides of them, pass through shared memory. This is the
// deck's case: its radius, and a block whose inputs all exist. Every thread loads one input, and
// the first ones the rest (TUNING.md S1).
constexpr int DECK_RADIUS = STENCIL1D_DECK_RADIUS;

template <class Op, class In, class Acc>
__device__ void deck_window(const stencil<In, Acc> &s, bool barrier, In one, bool has_other,
                            In other, unsigned block, In *out) {
    In *tile = shared_memory<In>();
    const unsigned t = threadIdx.x;
    tile[t] = one;
    if (has_other)
        tile[t + block] = other;
    if (barrier)
        __syncthreads();
    Acc sum = 0;
#pragma unroll
    for (int k = 0; k <= 2 * DECK_RADIUS; k++)
        sum = Op::add(sum, static_cast<Acc>(tile[t + k]), s.weights, k);
    *out = static_cast<In>(sum);
}

// Inputs of a window that shared memory holds at a time: more than the deck's case needs.
constexpr unsigned PIECE = 1024;

// Positions of a tile that are not entirely within one row, by STEP threads or the block's.
template <int STEP, class Word>
__device__ void load_tile(const tile_of_rows<Word, Word> &where, Word *tile, int64 from,
                          unsigned positions, Word constant) {
    if (where.s.is_short())
        return load_positions<STEP>(where, own_items<Word>(where.s.in), tile, from, int(positions),
                                    constant);
    for (unsigned i = threadIdx.x; i < positions; i += blockDim.x) {
        const Word *there = where.input(from + i);
        tile[i] = there ? *there : constant;
    }
}

// A call, as above.
template <class Word>
__device__ __noinline__ void load_piece(stencil<Word, Word> s, int64 from, unsigned positions) {
    load_tile<0>(tile_of_rows<Word, Word>(s, blockDim.x), shared_memory<Word>(), from, positions,
                 Word(0));
}

// Any radius, any block: a window wider than PIECE is processed in chunks.
template <class Op, class In, class Acc>
__device__ void any_window(const stencil<In, Acc> &rows, bool barrier) {
    const tile_of_rows<In, Acc> where(rows, blockDim.x);
    const stencil<In, Acc> &s = where.s;
    In *tile = shared_memory<In>();
    const unsigned t = threadIdx.x, block = blockDim.x;
    const int64 width = s.width;
    const In *whole = where.whole(block + width - 1);
    int64 left;
    where.row_at(t, left);
    left += s.first - s.before;
    Acc sum = 0;
    for (int64 begin = 0; begin < width; begin += PIECE) {
        const unsigned piece = width - begin < PIECE ? static_cast<unsigned>(width - begin) : PIECE;
        if (whole)
            for (unsigned i = t; i < block + piece - 1; i += block)
                tile[i] = whole[begin + i];
        else
            load_piece(in_words(s), begin, block + piece - 1);
        if (barrier)
            __syncthreads();
        for (unsigned k = 0; k < piece; k++) {
            const int64 i = left + begin + k;
            const bool constant = s.mode == CONSTANT && !s.whole(i, i);
            const Acc item = static_cast<Acc>(constant ? s.beyond : tile[t + k]);
            sum = Op::add(sum, item, s.weights, begin + k);
        }
        if (barrier && begin + PIECE < width)
            __syncthreads(); // the next chunk overwrites this one
    }
    const int64 output = where.output(t);
    if (output >= 0)
        s.out[output] = static_cast<In>(sum);
}

// All but the deck's case at its default block. A call, as above: otherwise its values would spill
// before the deck's case, which has 32 registers.
template <class Op, class In, class Acc>
__device__ __noinline__ void other_window(stencil<In, Acc> s, bool barrier, bool inside) {
    if (s.form == STENCIL1D_OTHER || !inside)
        return any_window<Op>(s, barrier);
    const unsigned t = threadIdx.x, block = blockDim.x;
    const int64 output = static_cast<int64>(blockIdx.x) * block + t;
    const In *from = s.in + (s.first + output) - DECK_RADIUS;
    const bool has_other = t < 2 * DECK_RADIUS;
    const In one = *from, other = has_other ? from[block] : In(0);
    deck_window<Op>(s, barrier, one, has_other, other, block, s.out + output);
}

// A block has its halo inside the row if one precedes it and two follow: the last may have fewer
// outputs than the radius.
template <bool Barrier, class Op, class In, class Acc>
__device__ void shared_rung(const stencil<In, Acc> &s) {
    constexpr unsigned BLOCK = STENCIL1D_DECK_BLOCK;
    const unsigned t = threadIdx.x;
    const bool inside = (blockIdx.x > 0) & (blockIdx.x + 2 < gridDim.x);
    const bool deck = inside & (s.form == STENCIL1D_DECK);
    const int64 output = static_cast<int64>(blockIdx.x) * BLOCK + t;
    const In *from = s.in + output - DECK_RADIUS;
    const bool has_other = deck & (t < 2 * DECK_RADIUS);
    const In one = load_if(deck, from), other = load_if(has_other, from + BLOCK);
    if (deck)
        deck_window<Op>(s, Barrier, one, has_other, other, BLOCK, s.out + output);
    else
        other_window<Op>(s, Barrier, inside);
}
template <class Op, class In, class Acc> __device__ void stencil1d_2(const stencil<In, Acc> &s) {
    shared_rung<true, Op>(s);
}

// Historical: the deck's listing before its barrier. A race.
template <class Op, class In, class Acc> __device__ void stencil1d_2h(const stencil<In, Acc> &s) {
    shared_rung<false, Op>(s);
}

// New: a thread has OUTPUTS adjacent outputs. Their k-th inputs form a window in its registers,
// which advances by one element as k does: one load of an input serves all of them.
constexpr unsigned OUTPUTS = 4;

template <unsigned Width, class Op, class In, class Acc>
__device__ void sliding_window(const stencil<In, Acc> &s, const In *left, Acc (&sums)[OUTPUTS]) {
    const int64 width = Width ? Width : s.width;
    Acc window[OUTPUTS];
#pragma unroll
    for (unsigned j = 0; j < OUTPUTS; j++) {
        window[j] = static_cast<Acc>(left[j]);
        sums[j] = 0;
    }
#pragma unroll
    for (int64 k = 0; k < width; k++) {
#pragma unroll
        for (unsigned j = 0; j < OUTPUTS; j++)
            sums[j] = Op::add(sums[j], window[j], s.weights, k);
#pragma unroll
        for (unsigned j = 0; j + 1 < OUTPUTS; j++)
            window[j] = window[j + 1];
        if (k + 1 < width)
            window[OUTPUTS - 1] = static_cast<Acc>(left[k + OUTPUTS]);
    }
}

// At most OUTPUTS outputs of all rows, from `number` on, at the ends of rows. A call, as
// above.
template <class Op, class In, class Acc>
__device__ __noinline__ void outputs_at_ends(stencil<In, Acc> rows, int64 number) {
    int64 output = number;
    stencil<In, Acc> s = rows.row_of(output);
    const reflection ends(s.n, s.mode);
    const bool near = s.has_near_ends();
    for (unsigned j = 0; j < OUTPUTS && number + j < rows.every_output(); j++, output++) {
        if (output == s.outputs) { // the next row
            s.in += s.pitch;
            s.out += s.outputs;
            output = 0;
        }
        const int64 left = s.first + output - s.before;
        Acc sum = 0;
#pragma unroll 1
        for (int k = 0; near && k < static_cast<int>(s.width); k++) {
            const int i = static_cast<int>(left) + k;
            const bool constant = s.mode == CONSTANT && ends.beyond(i);
            const Acc item = static_cast<Acc>(constant ? s.beyond : s.in[ends.at(i) * s.step]);
            sum = Op::add(sum, item, s.weights, k);
        }
        for (int64 k = 0; !near && k < s.width; k++)
            sum = Op::add(sum, s.read(left + k), s.weights, k);
        s.out[output] = static_cast<In>(sum);
    }
}

template <class In, class Acc> __device__ void store_vector(In *to, const Acc (&sums)[OUTPUTS]) {
    union {
        uint4 vectors[OUTPUTS * sizeof(In) / 16];
        In items[OUTPUTS];
    } group;
#pragma unroll
    for (unsigned j = 0; j < OUTPUTS; j++)
        group.items[j] = static_cast<In>(sums[j]);
#pragma unroll
    for (unsigned p = 0; p < OUTPUTS * sizeof(In) / 16; p++)
        store_vector(reinterpret_cast<uint4 *>(to) + p, group.vectors[p]);
}

template <class Op, class In, class Acc> __device__ void stencil1d_3(const stencil<In, Acc> &rows) {
    int64 output = static_cast<int64>(global_thread()) * OUTPUTS;
    if (output >= rows.every_output())
        return;
    const int64 number = output;
    const stencil<In, Acc> s = rows.row_of(output);
    const int64 left = s.first + output - s.before;
    if (output + OUTPUTS > s.outputs || !s.whole(left, left + s.width + OUTPUTS - 2) ||
        s.has_gaps())
        return outputs_at_ends<Op>(rows, number);
    Acc sums[OUTPUTS];
    if (s.width == 7)
        sliding_window<7, Op>(s, s.in + left, sums);
    else
        sliding_window<0, Op>(s, s.in + left, sums);
    In *to = s.out + output;
    if (reinterpret_cast<uint64>(to) % 16 == 0) {
        store_vector(to, sums);
    } else {
#pragma unroll
        for (unsigned j = 0; j < OUTPUTS; j++)
            to[j] = static_cast<In>(sums[j]);
    }
}

// New: a thread loads whole vectors: its own and both neighbours, which adjacent threads load as
// well. For windows that reach at most 4 elements, of aligned arrays whose outputs have the indices
// of their inputs; the host launches rung 3 for others.
template <int Reach, class In> union vector_window {
    static constexpr unsigned ITEMS = 2 * Reach + OUTPUTS, VECTORS = ITEMS * sizeof(In) / 16;
    uint4 vectors[VECTORS];
    In items[ITEMS];
};

template <int Radius, int Reach, class Op, class In, class Acc>
__device__ void vector_sums(const stencil<In, Acc> &s, const vector_window<Reach, In> &window,
                            In *to) {
    Acc sums[OUTPUTS] = {};
#pragma unroll
    for (int i = 0; i < int(OUTPUTS) + 2 * Radius; i++) {
        const Acc item = static_cast<Acc>(window.items[Reach - Radius + i]);
#pragma unroll
        for (int j = 0; j < int(OUTPUTS); j++)
            if (i - j >= 0 && i - j <= 2 * Radius)
                sums[j] = Op::add(sums[j], item, s.weights, i - j);
    }
    store_vector(to, sums);
}

// The window of outputs of one row that is not entirely within the row: its own vector, and the
// elements on either side that exist.
template <int Reach, class In, class Acc>
__device__ void load_items(const stencil<In, Acc> &s, vector_window<Reach, In> &window,
                           int64 output) {
    const reflection ends(s.n, s.mode);
    const In constant = static_cast<In>(s.beyond);
    const int left = static_cast<int>(s.first + output) - Reach;
#pragma unroll
    for (int i = 0; i < int(vector_window<Reach, In>::ITEMS); i++) {
        const bool own = i >= Reach && i < Reach + int(OUTPUTS);
        const bool beyond = i < Reach ? left + i < 0 : left + i >= ends.n;
        const int moved = ends.moved(left + i, i < Reach ? ends.low : ends.high);
        const In item = s.in[own || !beyond ? left + i : moved];
        window.items[i] = !own && beyond && s.mode == CONSTANT ? constant : item;
    }
}

// Returns false if the thread is finished: it had outputs at the end of a row, or none.
template <class Op, int Reach, class In, class Acc>
__device__ bool load_vectors(const stencil<In, Acc> &rows, vector_window<Reach, In> &window,
                             int64 &number) {
    const int64 begin = static_cast<int64>(blockIdx.x) * blockDim.x * OUTPUTS;
    const int64 left = rows.first + begin - Reach;
    number = begin + threadIdx.x * OUTPUTS;
    const int64 vector = rows.first + number - Reach, behind = vector + OUTPUTS + 2 * Reach;
    if (rows.rows > 1 || !rows.whole(left, left + blockDim.x * OUTPUTS + 2 * Reach - 1)) {
        // Not all of the block's windows lie within the row.
        if (number >= rows.every_output())
            return false;
        int64 output = number;
        const stencil<In, Acc> s = rows.row_of(output);
        const int64 middle = s.first + output;
        if (vector < 0 || behind > rows.n * rows.rows ||
            !s.whole(middle - s.before, middle + OUTPUTS - 1 + s.before)) {
            if (output + OUTPUTS > s.outputs || !reflection::serves(s.n, Reach, s.mode) ||
                (s.mode == CONSTANT && static_cast<In>(s.beyond) != s.beyond)) {
                outputs_at_ends<Op>(rows, number);
                return false;
            }
            load_items(s, window, output);
            return true;
        }
    }
#pragma unroll
    for (unsigned p = 0; p < vector_window<Reach, In>::VECTORS; p++)
        window.vectors[p] = reinterpret_cast<const uint4 *>(rows.in + vector)[p];
    return true;
}

template <class Op, class In, class Acc> __device__ void stencil1d_4(const stencil<In, Acc> &s) {
    vector_window<4, In> window;
    int64 number;
    if (!load_vectors<Op>(s, window, number))
        return;
    In *to = s.out + number;
    switch (static_cast<unsigned>(s.before)) {
    case 0:
        return vector_sums<0, 4, Op>(s, window, to);
    case 1:
        return vector_sums<1, 4, Op>(s, window, to);
    case 2:
        return vector_sums<2, 4, Op>(s, window, to);
    case 3:
        return vector_sums<3, 4, Op>(s, window, to);
    case 4:
        return vector_sums<4, 4, Op>(s, window, to);
    }
}

// New: tiles in shared memory, for windows that vectors do not suit: wide ones, and those of
// outputs not aligned with their inputs (TUNING.md S2). The host launches rung 4 for aligned narrow
// windows, and rung 3 for windows wider than shared memory. Short rows and columns have headers of
// their own.

// Plain sums over windows of GROUP inputs and more. A thread's windows begin in its own group of
// inputs, whose tail sums it accumulates from the end; then they share the same `whole` groups,
// whose sums the block's threads compute once; then they end within the next two groups, where the
// thread adds element by element. Every output is still a sum of its own inputs, but about 3 of its
// 2 * radius + 1 additions remain.

// The sum of the whole groups of the thread's windows, from group_sums[1] on. If there are many,
// sums of EIGHT groups are computed first, each of which serves EIGHT windows.
constexpr unsigned EIGHT = 8;

template <class Acc>
__device__ Acc whole_groups(const Acc *group_sums, Acc *eights, unsigned groups, unsigned whole) {
    const unsigned t = threadIdx.x;
    Acc sum = 0;
    unsigned g = 1;
    if (whole >= 2 * EIGHT) {
        for (unsigned e = t; e + EIGHT <= groups; e += THREADS) {
            Acc eight = group_sums[e];
#pragma unroll
            for (unsigned k = 1; k < EIGHT; k++)
                eight = sum_of(eight, group_sums[e + k]);
            eights[e] = eight;
        }
        __syncthreads();
        for (; g + EIGHT <= whole + 1; g += EIGHT)
            sum = sum_of(sum, eights[t + g]);
    }
    for (; g <= whole; g++)
        sum = sum_of(sum, group_sums[t + g]);
    return sum;
}

// As windows_of_tile.
template <class In, class Acc>
__device__ void sums_of_tile(const In *tile, In *outputs, Acc *group_sums, unsigned groups,
                             unsigned width) {
    const unsigned t = threadIdx.x, whole = width / GROUP - 1, rest = width % GROUP;
    const In *own = tile + t * GROUP;
    Acc parts[GROUP], sum = 0;
#pragma unroll
    for (int k = GROUP - 1; k >= 0; k--)
        parts[k] = sum = sum_of(sum, static_cast<Acc>(own[k]));
    group_sums[t] = sum;
#pragma unroll 1
    for (unsigned g = THREADS + t; g < groups; g += THREADS) {
        sum = 0;
#pragma unroll
        for (int k = GROUP - 1; k >= 0; k--)
            sum = sum_of(sum, static_cast<Acc>(tile[g * GROUP + k]));
        group_sums[g] = sum;
    }
    __syncthreads();

    const In *ends = own + (1 + whole) * GROUP;
    sum = whole_groups(group_sums, group_sums + groups, groups, whole);
#pragma unroll
    for (unsigned k = 0; k + 1 < GROUP; k++) // all of them in flight at once
        if (k < rest)
            sum = sum_of(sum, static_cast<Acc>(ends[k]));
    ends += rest;
#pragma unroll
    for (unsigned k = 0; k < GROUP; k++) {
        parts[k] = sum_of(parts[k], sum);
        if (k + 1 < GROUP)
            sum = sum_of(sum, static_cast<Acc>(ends[k]));
    }
    __syncthreads();
#pragma unroll
    for (unsigned k = 0; k < GROUP; k++)
        outputs[t * GROUP + k] = static_cast<In>(parts[k]);
    __syncwarp();
}

// Stores a warp's outputs, 16 bytes a store where aligned.
template <class In> __device__ void store_warp(In *to, const In *sums) {
    constexpr unsigned VECTORS = WARP * GROUP * sizeof(In) / 16;
    const unsigned lane = threadIdx.x % WARP;
    if (reinterpret_cast<uint64>(to) % 16) {
#pragma unroll
        for (unsigned k = 0; k < GROUP; k++)
            to[lane + k * WARP] = sums[lane + k * WARP];
        return;
    }
#pragma unroll
    for (unsigned p = lane, k = 0; k < (VECTORS + WARP - 1) / WARP; k++, p += WARP)
        if ((k + 1) * WARP <= VECTORS || p < VECTORS)
            store_vector(reinterpret_cast<uint4 *>(to) + p,
                         reinterpret_cast<const uint4 *>(sums)[p]);
}

// Copies `count` vectors, the tile's own and the halo: the halo passes through registers, the
// others do not, and all are in flight at once (TUNING.md S3).
template <class In>
__device__ void load_vectors_of_tile(uint4 *tile, const uint4 *from, unsigned count) {
    constexpr unsigned LOADS = (TILE * sizeof(In) / 16 + THREADS - 1) / THREADS;
    const unsigned t = threadIdx.x;
    for (unsigned i = LOADS * THREADS + t; i < count; i += THREADS)
        copy_vector(tile + i, from + i);
    uint4 loaded[LOADS];
#pragma unroll
    for (unsigned k = 0; k < LOADS; k++)
        if (k + 1 < LOADS || t + k * THREADS < count)
            loaded[k] = from[t + k * THREADS];
#pragma unroll
    for (unsigned k = 0; k < LOADS; k++)
        if (k + 1 < LOADS || t + k * THREADS < count)
            tile[t + k * THREADS] = loaded[k];
    copied_vectors();
}

// Copies `count` elements, `step` apart: those of the tile are all in flight at once.
template <class In>
__device__ void load_with_gaps(In *tile, const In *from, int64 step, unsigned count) {
    const unsigned t = threadIdx.x;
    In loaded[GROUP];
#pragma unroll
    for (unsigned k = 0; k < GROUP; k++)
        loaded[k] = from[(t + k * THREADS) * step];
    for (unsigned i = TILE + t; i < count; i += THREADS)
        tile[i] = from[i * step];
#pragma unroll
    for (unsigned k = 0; k < GROUP; k++)
        tile[t + k * THREADS] = loaded[k];
}

// A tile that is not entirely within one row. Calls, as above, on bits: one for all elements of a
// size.
template <class Word>
__device__ __noinline__ void load_at_ends(stencil<Word, Word> s, unsigned tile, unsigned positions,
                                          unsigned group) {
    load_tile<THREADS>(tile_of_rows<Word, Word>(s, group * THREADS), in_shared<Word>(tile), 0,
                       positions, s.beyond);
}
template <class Word>
__device__ __noinline__ void store_at_ends(stencil<Word, Word> s, unsigned at, unsigned group) {
    const tile_of_rows<Word, Word> where(s, group * THREADS);
    const Word *tile = in_shared<Word>(at);
    const unsigned first = warp_begin(group), end = first + WARP * group;
    if (s.is_short())
        return store_positions(where, own_items<Word>(s.out), tile, int(first), int(group));
    for (unsigned i = first + threadIdx.x % WARP; i < end; i += WARP) {
        const int64 output = where.output(i);
        if (output >= 0)
            s.out[output] = tile[i];
    }
}
// No element can represent such a constant: the outputs that need it are computed again, by the
// threads that stored them.
template <class Op, class In, class Acc>
__device__ __noinline__ void mend_at_ends(stencil<In, Acc> s, unsigned group) {
    const tile_of_rows<In, Acc> where(s, group * THREADS);
    const unsigned first = warp_begin(group), end = first + WARP * group;
    for (unsigned i = first + threadIdx.x % WARP; i < end; i += WARP) {
        int64 at;
        const int64 row = where.row_at(i, at), middle = at + s.first;
        if (row < s.rows && at < s.outputs &&
            !s.whole(middle - s.before, middle - s.before + s.width - 1))
            s.out[row * s.outputs + at] = plain_sum<Op>(s.row(row), at);
    }
}

// Whether elements in memory are narrower, asked once more: a flag that is kept would spill.
template <class Op, class In, class Acc>
__device__ bool is_narrow_again(const stencil<In, Acc> &s) {
    unsigned form = s.form;
    asm volatile("" : "+r"(form));
    return HAS_NARROW<Op, In, Acc> && form >> STENCIL1D_NARROW;
}
// Inputs and outputs of a tile with ends of rows, `group` of a thread.
template <class Op, class In, class Acc>
__device__ void load_ends(const stencil<In, Acc> &s, unsigned tile, unsigned inputs,
                          unsigned group) {
    if constexpr (HAS_NARROW<Op, In, Acc>)
        if (is_narrow_again<Op>(s))
            return load_narrow(s, tile, inputs, group);
    load_at_ends(in_words(s), tile, inputs, group);
}
template <class Op, class In, class Acc>
__device__ void store_ends(const stencil<In, Acc> &s, unsigned tile, unsigned group) {
    if constexpr (HAS_NARROW<Op, In, Acc>)
        if (is_narrow_again<Op>(s))
            return store_narrow(s, tile, group);
    store_at_ends(in_words(s), tile, group);
    if (s.mode == CONSTANT && static_cast<In>(s.beyond) != s.beyond)
        mend_at_ends<Op>(s, group);
}

template <class In, class Acc>
__device__ void load_weights(const stencil<In, Acc> &s, Acc *weights) {
#pragma unroll 1
    for (unsigned k = threadIdx.x; k < static_cast<unsigned>(s.width); k += THREADS)
        weights[k] = static_cast<Acc>(s.weights[k]);
}

template <class Op, class In, class Acc> __device__ void few_tiles(const stencil<In, Acc> &s) {
    const unsigned width = static_cast<unsigned>(s.width), own = threadIdx.x * FEW;
    const unsigned begin = Op::shares ? 0 : width * sizeof(Acc);
    Acc *weights = shared_memory<Acc>();
    In *tile = in_shared<In>(begin), made[FEW];
    if (!Op::shares)
        load_weights(s, weights);
    load_ends<Op>(s, begin, FEW * THREADS + width - 1, FEW);
    __syncthreads();
    circling_window<Op, FEW, FEW>(tile + own, weights, width, made);
    __syncthreads();
#pragma unroll
    for (unsigned k = 0; k < FEW; k++)
        tile[own + k] = made[k];
    __syncwarp();
    store_ends<Op>(s, begin, FEW);
}

template <class Op, class In, class Acc> __device__ void stencil1d_5(const stencil<In, Acc> &s) {
    wait_for_kernel_before();
    const unsigned form = s.form % (1 << STENCIL1D_GROUPS);
    if constexpr (!Op::shares) {
        if (form == STENCIL1D_SHORT_ROWS)
            return short_rows(s);
        if (form == STENCIL1D_COLUMNS)
            return columns(s);
    }
    if (form == STENCIL1D_FEW_TILES)
        return few_tiles<Op>(s);
    constexpr unsigned ITEMS = 16 / sizeof(In); // of a vector
    const unsigned width = static_cast<unsigned>(s.width);
    const unsigned groups = (TILE + width - 1 + GROUP - 1) / GROUP, inputs = groups * GROUP;
    const bool shares = Op::shares && width >= GROUP;
    // The groups' sums and as many of EIGHT, or the weights.
    Acc *numbers = shared_memory<Acc>();
    const unsigned count = shares ? 2 * groups : Op::shares ? 0 : width;
    const unsigned begin = (count * unsigned(sizeof(Acc)) + 15) / 16 * 16;
    uint4 *vectors = in_shared<uint4>(begin);
    In *tile = in_shared<In>(begin);
    const tile_of_rows<In, Acc> where(s, TILE);
    const bool narrow = HAS_NARROW<Op, In, Acc> && s.narrow();
    const In *from = narrow ? nullptr : where.whole(inputs, s.step == 1 ? ITEMS - 1 : 0);
    In *to = from ? s.out + where.row * s.outputs + where.begin : nullptr;
    unsigned shift = 0; // offset of the inputs in their vectors
    if (from && s.step != 1) {
        load_with_gaps(tile, from, s.step, inputs);
    } else if (from) {
        shift = reinterpret_cast<uint64>(from) % 16 / sizeof(In);
        load_vectors_of_tile<In>(vectors, reinterpret_cast<const uint4 *>(from - shift),
                                 (shift + inputs + ITEMS - 1) / ITEMS);
    } else {
        load_ends<Op>(s, begin, inputs, GROUP);
    }
    if (!Op::shares)
        load_weights(s, numbers);
    __syncthreads();
    if (shares)
        sums_of_tile(tile + shift, tile, numbers, groups, width);
    else
        windows_of_tile<Op>(tile + shift, tile, numbers, width);
    if (to)
        return store_warp(to + warp_begin(GROUP), tile + warp_begin(GROUP));
    store_ends<Op>(s, begin, GROUP);
}

// --- the kernels: stencil1d_<rung>_<operation>_<items>_<accumulator>

using type_int32 = int32;
using type_int64 = int64;
using type_float32 = float32;
using type_float64 = float64;

// With 32 registers per thread a multiprocessor can run its maximum number of threads, with 64 a
// block of 1,024.
#define STENCIL1D_KERNEL(rung, limit, op, items, acc)                                         \
    extern "C" __global__ void limit rung##_##op##_##items##_##acc(                           \
        const type_##items *in, const given<type_##acc>::type *weights, type_##items *out,    \
        int64 n, int64 outputs, int64 first, int64 before, uint64 mode,                       \
        given<type_##acc>::type beyond, int64 rows, int64 width, int64 pitch, int64 step,     \
        int64 inner) {                                                                        \
        rung<op_##op>(stencil<type_##items, type_##acc>{                                      \
            in, weights, out, n, outputs, first, before, static_cast<unsigned>(mode), beyond, \
            rows, width, pitch, step, inner, static_cast<unsigned>(mode >> 32)});             \
    }
#define STENCIL1D_FIRST_RUNGS(op, items, acc)                      \
    STENCIL1D_KERNEL(stencil1d_1, , op, items, acc)                \
    STENCIL1D_KERNEL(stencil1d_2, __maxnreg__(32), op, items, acc) \
    STENCIL1D_KERNEL(stencil1d_2h, __maxnreg__(64), op, items, acc)
#define STENCIL1D_WIDE_RUNGS(op, items, acc)                                                  \
    STENCIL1D_KERNEL(stencil1d_3, , op, items, acc)                                           \
    STENCIL1D_KERNEL(stencil1d_4,                                                             \
                     __maxnreg__(op_##op::shares && sizeof(type_##items) == 4 ? 32 : 64), op, \
                     items, acc)
#define STENCIL1D_NEWER_RUNGS(op, items, acc) \
    STENCIL1D_KERNEL(stencil1d_5, __launch_bounds__(THREADS, 8), op, items, acc)

SAME_FOR_ALL_GPUS(STENCIL1D_SIGNATURES(STENCIL1D_FIRST_RUNGS))
SAME_FOR_ALL_GPUS(STENCIL1D_WIDE_SIGNATURES(STENCIL1D_WIDE_RUNGS))
STENCIL1D_WIDE_SIGNATURES(STENCIL1D_NEWER_RUNGS)

} // namespace stencil1d

#endif

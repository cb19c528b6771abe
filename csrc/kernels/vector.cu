// vector.cu: the first kernels of deck D1: add, x + y, and saxpy, a * x + y, element by element.
// Knows no device and no host code.
//
// Two families with the same rungs. A rung's comment names its difference from the previous one.
//
// To add a rung: a row in RUNGS, a template below, and its name in the list at the end.

#define ADD_SIGNATURES(SIGNATURE)    \
    SIGNATURE(add, int32, int32)     \
    SIGNATURE(add, int64, int64)     \
    SIGNATURE(add, float32, float32) \
    SIGNATURE(add, float64, float64)
#define SAXPY_SIGNATURES(SIGNATURE)    \
    SIGNATURE(saxpy, float32, float32) \
    SIGNATURE(saxpy, float64, float64)
// Unsigned elements are added as signed ones.
#define ADD_ANY_SIGNATURES(SIGNATURE) \
    ADD_SIGNATURES(SIGNATURE)         \
    SIGNATURE(add, bool, bool)        \
    SIGNATURE(add, int8, int8)        \
    SIGNATURE(add, int16, int16)      \
    SIGNATURE(add, float16, float16)  \
    SIGNATURE(add, bfloat16, bfloat16)
#define SAXPY_ANY_SIGNATURES(SIGNATURE) \
    SAXPY_SIGNATURES(SIGNATURE)         \
    SIGNATURE(saxpy, float16, float16)  \
    SIGNATURE(saxpy, bfloat16, bfloat16)

#ifdef GPUOPT_RUNGS
// clang-format off
//   number, name, kernel, lesson, source,
//   threads per block (least, most, default: the deck's), items per thread (0: a loop), flags,
//   the deck's time: it gives none
RUNG(1, "one-thread", "vector_1",
     "one thread does everything: a single GPU thread is slow",
     "D1 add<<<1, 1>>>", 1, 1, 1, 0, 0, 0)
RUNG(2, "blocks", "vector_2",
     "N blocks of one thread: every warp has one active lane",
     "D1 add<<<N, 1>>>", 1, 1, 1, 1, 0, 0)
RUNG(3, "threads", "vector_3",
     "one block of N threads: one multiprocessor works, and N is at most 1,024",
     "D1 add<<<1, N>>>", 0, 0, 0, 1, 0, 0)
RUNG(4, "blocks-threads", "vector_4",
     "N / M blocks of M threads: the whole GPU works, if M divides N",
     "D1 add<<<N/M, M>>>", 32, 1024, 512, 1, 0, 0)
RUNG(5, "bounds", "vector_5",
     "one more block and a bounds check: any N",
     "D1 add<<<(N + M - 1)/M, M>>>", 32, 1024, 512, 1, 0, 0)
RUNG(6, "grid-stride", "vector_6",
     "as many threads as the GPU holds, each with a loop: the grid no longer depends on N",
     "after D4, reduction 7", 32, 1024, 512, 0, 0, 0)
RUNG(7, "vector", "vector_7",
     "vector loads and stores of 16 bytes; all loads of a thread are in flight before the first is used",
     "after the decks: D2's copies of float4, today", 32, 1024, 128, 0, RUNG_BEST | RUNG_OVERLAPS, 0)
RUNG(8, "strided", "vector_8",
     "strides for each operand: broadcasts, numbers and arrays with gaps are read in place",
     "after the decks: NumPy's broadcasting", 32, 1024, 128, 0, RUNG_OVERLAPS | RUNG_ANY_DTYPE, 0)
// clang-format on
#else

#include "halves.cuh"
#include "vector/vector_tiles.cuh"

template <> struct wrapping<int8_t> { using type = uint32_t; };
template <> struct wrapping<int16_t> { using type = uint32_t; };

namespace vector {

// The type that elements are computed in: integers wrap, 16-bit floats are rounded once.
template <class T> struct computed {
    using type = typename wrapping<T>::type;
    static __device__ type of(T item) { return static_cast<type>(item); }
    static __device__ T back(type value) { return static_cast<T>(value); }
};
template <class T> struct computed_wider {
    using type = float32;
    static __device__ float32 of(T item) { return widened(item); }
    static __device__ T back(float32 value) { return rounded<T>(value); }
};
template <> struct computed<half> : computed_wider<half> {};
template <> struct computed<bfloat> : computed_wider<bfloat> {};
template <> struct computed<boolean> {
    using type = unsigned;
    static __device__ unsigned of(boolean item) { return item; }
    static __device__ boolean back(unsigned value) { return static_cast<boolean>(value != 0); }
};

struct op_add {
    template <class T> static __device__ T apply(T, T x, T y) {
        using C = computed<T>;
        return C::back(C::of(x) + C::of(y));
    }
};
struct op_saxpy { // the compiler fuses it
    template <class T> static __device__ T apply(T a, T x, T y) {
        using C = computed<T>;
        return C::back(C::of(a) * C::of(x) + C::of(y));
    }
};

template <class Op, class T>
__device__ void vector_1(const T *x, const T *y, T *out, uint64 n, T a) {
    for (uint64 i = 0; i < n; i++)
        out[i] = Op::apply(a, x[i], y[i]);
}

// New: one block an element.
template <class Op, class T> __device__ void vector_2(const T *x, const T *y, T *out, uint64, T a) {
    const unsigned i = blockIdx.x;
    out[i] = Op::apply(a, x[i], y[i]);
}

// New: one thread per element.
template <class Op, class T> __device__ void vector_3(const T *x, const T *y, T *out, uint64, T a) {
    const unsigned i = threadIdx.x;
    out[i] = Op::apply(a, x[i], y[i]);
}

// New: blocks and threads.
template <class Op, class T> __device__ void vector_4(const T *x, const T *y, T *out, uint64, T a) {
    const uint64 i = global_thread();
    out[i] = Op::apply(a, x[i], y[i]);
}

// New: threads beyond the end do nothing.
template <class Op, class T>
__device__ void vector_5(const T *x, const T *y, T *out, uint64 n, T a) {
    const uint64 i = global_thread();
    if (i < n)
        out[i] = Op::apply(a, x[i], y[i]);
}

// New: a thread continues with the element one grid further.
template <class Op, class T>
__device__ void vector_6(const T *x, const T *y, T *out, uint64 n, T a) {
    for (uint64 i = global_thread(); i < n; i += global_threads())
        out[i] = Op::apply(a, x[i], y[i]);
}

constexpr unsigned WARP = 32, VECTOR = 16, BOUNDARY = 64; // threads, bytes, bytes

// A warp's contiguous words, of one element or of VECTOR bytes: Words a lane, WARP apart, so that
// the accesses of one instruction are contiguous. A thread stores after all of its loads: `out` may
// be x or y.
template <class Op, class Word, unsigned Words, class T>
__device__ void combine_words(const T *x, const T *y, T *out, uint64 n, T a) {
    constexpr unsigned items = sizeof(Word) / sizeof(T);
    union group {
        Word word;
        T item[items];
    } of_x[Words], of_y[Words];
    const unsigned lane = threadIdx.x % WARP;
    const uint64 first = (global_thread() - lane) * Words + lane, words = n / items;
    if (first >= words)
        return;
    const unsigned left = static_cast<unsigned>(min(words - first, uint64(Words * WARP)));
    const Word *from_x = reinterpret_cast<const Word *>(x) + first,
               *from_y = reinterpret_cast<const Word *>(y) + first;
    Word *to = reinterpret_cast<Word *>(out) + first;
#pragma unroll
    for (unsigned k = 0; k < Words; k++)
        if (k * WARP < left) {
            of_x[k].word = from_x[k * WARP];
            of_y[k].word = from_y[k * WARP];
        }
#pragma unroll
    for (unsigned k = 0; k < Words; k++)
        if (k * WARP < left) {
            group sums;
#pragma unroll
            for (unsigned i = 0; i < items; i++)
                sums.item[i] = Op::apply(a, of_x[k].item[i], of_y[k].item[i]);
            to[k * WARP] = sums.word;
        }
}

// By vectors if x and y are aligned like `out`; else by elements, the same number of bytes a
// thread.
template <class Op, unsigned Vectors, class T>
__device__ void combine_vectors(const T *x, const T *y, T *out, uint64 n, T a, bool packed) {
    if (packed)
        combine_words<Op, uint4, Vectors>(x, y, out, n, a);
    else
        combine_words<Op, T, Vectors * VECTOR / sizeof(T)>(x, y, out, n, a);
}

// New: one or two vectors a thread. They are aligned in `out`, so that no store covers parts of
// sectors; the last block processes the elements before them, and those after the last, fewer than
// a warp has lanes.
template <class Op, class T>
__device__ void vector_7(const T *x, const T *y, T *out, uint64 n, T a, uint64 vectors) {
    const uint64 to_boundary = -reinterpret_cast<uint64>(out) % BOUNDARY / sizeof(T);
    const unsigned before = static_cast<unsigned>(min(n, to_boundary));
    const bool packed =
        (reinterpret_cast<uint64>(x + before) | reinterpret_cast<uint64>(y + before)) % VECTOR == 0;
    const unsigned after = packed ? static_cast<unsigned>((n - before) % (VECTOR / sizeof(T))) : 0;

    // Loaded first and stored last: it does not wait for the vectors, nor they for it.
    const bool single = blockIdx.x == gridDim.x - 1 && threadIdx.x < before + after;
    const uint64 i = threadIdx.x < before ? threadIdx.x : n - (before + after) + threadIdx.x;
    T single_x = 0, single_y = 0;
    if (single) {
        single_x = x[i];
        single_y = y[i];
    }
    if (vectors == 1)
        combine_vectors<Op, 1>(x + before, y + before, out + before, n - before, a, packed);
    else
        combine_vectors<Op, 2>(x + before, y + before, out + before, n - before, a, packed);
    if (single)
        out[i] = Op::apply(a, single_x, single_y);
}

// Index is 32 bits wide for indices below 2^31, whose division is a multiplication.
template <class Index> __device__ Index quotient(Index index, const vector_axis &axis) {
    return sizeof(Index) == 8
               ? index / static_cast<Index>(axis.extent)
               : (__umulhi(unsigned(index), axis.magic) + unsigned(index)) >> axis.shift;
}

template <class Index> __device__ position position_of(const vector_plan &plan, Index index) {
    position found = {0, 0, 0};
#pragma unroll 1
    for (unsigned k = 0; k < plan.axis_count; k++) {
        const vector_axis &axis = plan.axes[k];
        const Index rest = k + 1 == plan.axis_count ? Index(0) : quotient(index, axis);
        const Index at = index - rest * static_cast<Index>(axis.extent);
        found.x += static_cast<int64>(at) * axis.x;
        found.y += static_cast<int64>(at) * axis.y;
        found.out += static_cast<int64>(at) * axis.out;
        index = rest;
    }
    return found;
}

// A row of the innermost axis: the offsets of its first element, and its index in its plane. Groups
// have offsets of 32 bits.
struct row_place {
    int x, y;
    unsigned second;
};

__device__ inline row_place row_of(const vector_plan &plan, unsigned row) {
    if (plan.axis_count <= 3) { // an axis that is missing has steps of 0
        const vector_axis &second = plan.axes[1], &third = plan.axes[2];
        const unsigned rest = quotient(row, second);
        const unsigned at = row - rest * static_cast<unsigned>(second.extent);
        return {int(at) * int(second.x) + int(rest) * int(third.x),
                int(at) * int(second.y) + int(rest) * int(third.y), at};
    }
    row_place found = {0, 0, 0};
#pragma unroll 1
    for (unsigned k = 1; k < plan.axis_count; k++) {
        const vector_axis &axis = plan.axes[k];
        const unsigned rest = k + 1 == plan.axis_count ? 0 : quotient(row, axis);
        const unsigned at = row - rest * static_cast<unsigned>(axis.extent);
        found.x += at * static_cast<int>(axis.x);
        found.y += at * static_cast<int>(axis.y);
        found.second = k == 1 ? at : found.second;
        row = rest;
    }
    return found;
}

template <class T> union vector_group {
    uint4 all;
    unsigned words[4];
    T items[VECTOR / sizeof(T)];
};

// A group of the result: its row and place in it, and how many elements the row has from there on,
// up to a whole group. `next` is the next row, or the next plane's first one if rows are short.
struct group_place {
    unsigned inner, count;
    row_place row, next;
};

// An operand's words of 4 bytes; bytes of the first and the last one may lie outside of it.
struct word_run {
    const unsigned *words;
    unsigned whole, first, last; // `whole` words between those two
};

template <class T>
__device__ unsigned edge_word(const unsigned *word, const T *begin, const T *end) {
    union {
        T items[4 / sizeof(T)];
        unsigned word;
    } found;
    found.word = 0;
#pragma unroll
    for (unsigned k = 0; k < 4 / sizeof(T); k++) {
        const T *item = reinterpret_cast<const T *>(word) + k;
        if (item >= begin && item < end)
            found.items[k] = *item;
    }
    return found.word;
}
template <class T> __device__ word_run words_of(const T *begin, const T *end) {
    const char *first = reinterpret_cast<const char *>(begin);
    const unsigned *words =
        reinterpret_cast<const unsigned *>(first - reinterpret_cast<uint64>(first) % 4);
    const unsigned last = static_cast<unsigned>(
        (reinterpret_cast<uint64>(end) - reinterpret_cast<uint64>(words) - 1) / 4);
    return {words, last ? last - 1 : 0, edge_word(words, begin, end),
            edge_word(words + last, begin, end)};
}

// 16 bytes from an element on; those outside of the operand are undefined. `within`: all words that
// hold them are within the operand, and `run` is not used.
template <class T> __device__ uint4 load_words(const word_run &run, bool within, const T *from) {
    const unsigned skipped = static_cast<unsigned>(reinterpret_cast<uint64>(from)) % 4;
    const unsigned *words =
        reinterpret_cast<const unsigned *>(reinterpret_cast<const char *>(from) - skipped);
    unsigned word[5];
    if (within) {
#pragma unroll
        for (unsigned k = 0; k < 5; k++)
            word[k] = words[k];
    } else {
        const unsigned at = static_cast<unsigned>(words - run.words);
#pragma unroll
        for (unsigned k = 0; k < 5; k++) {
            word[k] = at + k == 0 ? run.first : run.last;
            if (at + k - 1 < run.whole)
                word[k] = words[k];
        }
    }
    const unsigned bits = skipped * 8;
    return make_uint4(
        __funnelshift_r(word[0], word[1], bits), __funnelshift_r(word[1], word[2], bits),
        __funnelshift_r(word[2], word[3], bits), __funnelshift_r(word[3], word[4], bits));
}

// The first `count` elements of one group, the others of another one.
template <class T>
__device__ vector_group<T> joined(vector_group<T> a, const vector_group<T> &b, unsigned count) {
    if constexpr (sizeof(T) < 4) {
#pragma unroll
        for (unsigned k = 0; k < 4; k++) {
            const int beyond = 32 * int(k + 1) - 8 * int(sizeof(T) * count); // bits of b's
            const unsigned mask = __funnelshift_rc(~0u, 0, static_cast<unsigned>(max(beyond, 0)));
            a.words[k] = (a.words[k] & mask) | (b.words[k] & ~mask);
        }
    } else {
#pragma unroll
        for (unsigned i = 0; i < VECTOR / sizeof(T); i++)
            a.items[i] = i < count ? a.items[i] : b.items[i];
    }
    return a;
}
template <class T> __device__ vector_group<T> repeated(T item) {
    vector_group<T> group;
#pragma unroll
    for (unsigned i = 0; i < VECTOR / sizeof(T); i++)
        group.items[i] = item;
    return group;
}

// The elements of several short rows, at most two of whose planes are in a group. Bit i of `ends`
// and `crosses` tells whether a row or the plane ends with element i; `to_row` and `to_plane` are
// the distances from there to the next element.
template <class T>
__device__ vector_group<T> load_short(const T *from, int at, unsigned ends, unsigned crosses,
                                      int step, int to_row, int to_plane) {
    vector_group<T> group;
#pragma unroll
    for (unsigned i = 0; i < VECTOR / sizeof(T); i++) {
        group.items[i] = from[at];
        at += crosses >> i & 1 ? to_plane : ends >> i & 1 ? to_row : step;
    }
    return group;
}

// The elements of a group that are in one row or two. `row` and `next` are offsets of rows.
template <class T>
__device__ vector_group<T> load_rows(const T *from, const group_place &place, int row, int next,
                                     int step, int64 low, int64 high) {
    constexpr unsigned Items = VECTOR / sizeof(T);
    const bool cut = place.count < Items;
    int own = row + int(place.inner) * step;
    const int other = next - int(place.count) * step;
    vector_group<T> group;
    if (step == 0) {
        const T item = from[own];
        return cut ? joined(repeated(item), repeated(from[other]), place.count) : repeated(item);
    }
    if constexpr (sizeof(T) < 4)
        if (step == 1) {
            constexpr int Before = 3 / sizeof(T), After = 20 / sizeof(T); // most that words hold
            const int least = cut ? min(own, other) : own, most = cut ? max(own, other) : own;
            const bool within = least - Before >= low && most + After <= high;
            word_run run = {};
            if (!within)
                run = words_of(from + low, from + high);
            group.all = load_words(run, within, from + own);
            if (cut) {
                vector_group<T> rest;
                rest.all = load_words(run, within, from + other);
                group = joined(group, rest, place.count);
            }
            return group;
        }
    const int jump = other - own + step;
#pragma unroll
    for (unsigned i = 0; i < Items; i++) {
        group.items[i] = from[own];
        own += i + 1 == place.count ? jump : step;
    }
    return group;
}

// An operand's elements of a group whose layout is neither LINEAR nor NUMBER; `low` and `high` are
// the ends of its offsets, `row` and `next` those of the place's rows.
template <class T>
__device__ vector_group<T> load_group(const vector_plan &plan, const group_place &place,
                                      const T *from, unsigned layout, int row, int next, int step,
                                      int row_step, int64 low, int64 high) {
    constexpr unsigned Items = VECTOR / sizeof(T);
    const unsigned extent = static_cast<unsigned>(plan.axes[0].extent);
    vector_group<T> group;
    if (layout == VECTOR_PACKED) {
        group.all = *reinterpret_cast<const uint4 *>(from + (row + int(place.inner)));
    } else if (extent >= Items) {
        group = load_rows(from, place, row, next, step, low, high);
    } else {
        const unsigned rows = static_cast<unsigned>(plan.axes[1].extent) - place.row.second;
        const unsigned left = rows * extent - place.inner;
        const int to_end = int(extent - 1) * step, last_row = row + int(rows - 1) * row_step;
        group = load_short(from, row + int(place.inner) * step, plan.row_ends >> place.inner,
                           left <= Items ? 1u << (left - 1) : 0, step, row_step - to_end,
                           next - last_row - to_end);
    }
    return group;
}

// Sums of all elements of a group at once, bit for bit those of Op.
template <class Op, class T>
__device__ vector_group<T> combined(T a, const vector_group<T> &x, const vector_group<T> &y) {
    vector_group<T> sums;
#pragma unroll
    for (unsigned i = 0; i < VECTOR / sizeof(T); i++)
        sums.items[i] = Op::apply(a, x.items[i], y.items[i]);
    return sums;
}
// No carry goes from an element to the next: the top bits are added apart.
template <unsigned Tops> __device__ unsigned sum_of_parts(unsigned x, unsigned y) {
    return ((x & ~Tops) + (y & ~Tops)) ^ ((x ^ y) & Tops);
}
template <class T, class F>
__device__ vector_group<T> by_words(const vector_group<T> &x, const vector_group<T> &y,
                                    const F &sum) {
    vector_group<T> sums;
#pragma unroll
    for (unsigned k = 0; k < 4; k++)
        sums.words[k] = sum(x.words[k], y.words[k]);
    return sums;
}
template <>
__device__ vector_group<int8_t> combined<op_add>(int8_t, const vector_group<int8_t> &x,
                                                 const vector_group<int8_t> &y) {
    return by_words(x, y, sum_of_parts<0x80808080>);
}
template <>
__device__ vector_group<int16_t> combined<op_add>(int16_t, const vector_group<int16_t> &x,
                                                  const vector_group<int16_t> &y) {
    return by_words(x, y, sum_of_parts<0x80008000>);
}
template <>
__device__ vector_group<half> combined<op_add>(half, const vector_group<half> &x,
                                               const vector_group<half> &y) {
    return by_words(x, y, [](unsigned x, unsigned y) {
        unsigned sum; // float32 has 2 * 11 + 2 bits: rounding twice is rounding once
        asm("add.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(x), "r"(y));
        return sum;
    });
}
template <>
__device__ vector_group<boolean> combined<op_add>(boolean, const vector_group<boolean> &x,
                                                  const vector_group<boolean> &y) {
    return by_words(x, y, [](unsigned x, unsigned y) {
        const unsigned any = x | y; // of any byte that is not 0
        return (any | ((any & 0x7f7f7f7f) + 0x7f7f7f7f)) >> 7 & 0x01010101;
    });
}

// Elements one by one, from `first` on, `apart` from one another.
template <class Op, unsigned Count, class Index, class T>
__device__ void combine_items(const T *x, const T *y, T *out, T a, const vector_plan &plan,
                              uint64 first, unsigned apart) {
    const T x_number = number_of<T>(plan.x_number), y_number = number_of<T>(plan.y_number);
    T of_x[Count], of_y[Count];
    int64 to[Count];
#pragma unroll
    for (unsigned k = 0; k < Count; k++) {
        const uint64 index = first + static_cast<uint64>(k) * apart;
        if (index < plan.n) {
            const position at = position_of(plan, static_cast<Index>(index));
            of_x[k] = x ? x[at.x] : x_number;
            of_y[k] = y ? y[at.y] : y_number;
            to[k] = at.out;
        }
    }
#pragma unroll
    for (unsigned k = 0; k < Count; k++)
        if (first + static_cast<uint64>(k) * apart < plan.n)
            out[to[k]] = Op::apply(a, of_x[k], of_y[k]);
}

// A group of 16 bytes a thread, or one of the elements after the last group. Operands whose place
// needs no arithmetic are loaded first.
template <class Op, class T>
__device__ void combine_groups(const T *x, const T *y, T *out, T a, const vector_plan &plan) {
    constexpr unsigned Items = VECTOR / sizeof(T);
    const vector_axis &inner = plan.axes[0], &second = plan.axes[1];
    const unsigned group = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned groups = static_cast<unsigned>(plan.n) / Items;
    if (group >= groups) {
        combine_items<Op, 1, unsigned>(x, y, out, a, plan, groups * Items + (group - groups), 0);
        return;
    }
    vector_group<T> of_x = repeated(number_of<T>(plan.x_number)),
                    of_y = repeated(number_of<T>(plan.y_number));
    if (plan.x_layout == VECTOR_LINEAR)
        of_x.all = reinterpret_cast<const uint4 *>(x)[group];
    if (plan.y_layout == VECTOR_LINEAR)
        of_y.all = reinterpret_cast<const uint4 *>(y)[group];
    if (max(plan.x_layout, plan.y_layout) > VECTOR_NUMBER) {
        group_place place;
        const unsigned extent = static_cast<unsigned>(inner.extent), index = group * Items;
        const unsigned row = quotient(index, inner);
        place.inner = index - row * extent;
        place.count = min(Items, extent - place.inner);
        place.row = row_of(plan, row);
        const unsigned rows = static_cast<unsigned>(second.extent) - place.row.second;
        if (plan.axis_count > 2 && (extent < Items || (place.count < Items && rows == 1)))
            place.next = row_of(plan, row + (extent < Items ? rows : 1));
        else
            place.next = {place.row.x + int(second.x), place.row.y + int(second.y), 0};
        if (plan.x_layout > VECTOR_NUMBER)
            of_x = load_group(plan, place, x, plan.x_layout, place.row.x, place.next.x,
                              int(inner.x), int(second.x), plan.x_low, plan.x_high);
        if (plan.y_layout > VECTOR_NUMBER)
            of_y = load_group(plan, place, y, plan.y_layout, place.row.y, place.next.y,
                              int(inner.y), int(second.y), plan.y_low, plan.y_high);
    }
    reinterpret_cast<uint4 *>(out)[group] = combined<Op>(a, of_x, of_y).all;
}

// New: an index becomes coordinates, and these an offset for each operand. Step 0 along an axis
// repeats an operand; no operand is copied first. The host finds out which operands allow vectors
// of VECTOR bytes.
template <class Op, class T>
__device__ void vector_8(const T *x, const T *y, T *out, T a, const vector_plan &plan) {
    constexpr unsigned Items = sizeof(T) == 8 ? VECTOR_ITEMS / 2 : VECTOR_ITEMS;
    const uint64 first = static_cast<uint64>(blockIdx.x) * blockDim.x;
    if (sizeof(T) >= VECTOR_TILED && (plan.turns_x | plan.turns_y))
        combine_tile<Op>(x, y, out, a, plan);
    else if (plan.is_grouped)
        combine_groups<Op>(x, y, out, a, plan);
    else if (plan.is_long)
        combine_items<Op, 1, uint64>(x, y, out, a, plan, first + threadIdx.x, 0);
    else
        combine_items<Op, Items, unsigned>(x, y, out, a, plan, first * Items + threadIdx.x,
                                           blockDim.x);
}

// --- the kernels: vector_<rung>_<operation>_<items>_<items>

using type_bool = boolean;
using type_int8 = int8_t;
using type_int16 = int16_t;
using type_int32 = int32;
using type_int64 = int64;
using type_float16 = half;
using type_bfloat16 = bfloat;
using type_float32 = float32;
using type_float64 = float64;

#define VECTOR_KERNEL(rung, op, items, same)                                       \
    extern "C" __global__ void rung##_##op##_##items##_##same(                     \
        const type_##items *x, const type_##items *y, type_##items *out, uint64 n, \
        type_##items a) {                                                          \
        rung<op_##op>(x, y, out, n, a);                                            \
    }
#define VECTOR_KERNEL_WIDE(rung, op, items, same)                                                  \
    extern "C" __global__ void rung##_##op##_##items##_##same(                                     \
        const type_##items *x, const type_##items *y, type_##items *out, uint64 n, type_##items a, \
        uint64 vectors) {                                                                          \
        wait_for_kernel_before();                                                                  \
        rung<op_##op>(x, y, out, n, a, vectors);                                                   \
    }
#define VECTOR_SAME_RUNGS(op, items, same)   \
    VECTOR_KERNEL(vector_1, op, items, same) \
    VECTOR_KERNEL(vector_2, op, items, same) \
    VECTOR_KERNEL(vector_3, op, items, same) \
    VECTOR_KERNEL(vector_4, op, items, same) \
    VECTOR_KERNEL(vector_5, op, items, same) \
    VECTOR_KERNEL(vector_6, op, items, same)
// As few as serve without spills: bandwidth needs many threads (TUNING.md V6).
#define STRIDED_REGISTERS(items) (sizeof(type_##items) == 1 ? 40 : 32)
#define VECTOR_KERNEL_STRIDED(rung, op, items, same)                                 \
    extern "C" __global__ void __maxnreg__(STRIDED_REGISTERS(items))                 \
        rung##_##op##_##items##_##same(const type_##items *x, const type_##items *y, \
                                       type_##items *out, uint64 n, type_##items a,  \
                                       const __grid_constant__ vector_plan plan) {   \
        wait_for_kernel_before();                                                    \
        rung<op_##op>(x, y, out, a, plan);                                           \
    }
#define VECTOR_RUNG_7(op, items, same) VECTOR_KERNEL_WIDE(vector_7, op, items, same)
#define VECTOR_RUNG_8(op, items, same) VECTOR_KERNEL_STRIDED(vector_8, op, items, same)

SAME_FOR_ALL_GPUS(ADD_SIGNATURES(VECTOR_SAME_RUNGS))
ADD_SIGNATURES(VECTOR_RUNG_7)
ADD_ANY_SIGNATURES(VECTOR_RUNG_8)
SAME_FOR_ALL_GPUS(SAXPY_SIGNATURES(VECTOR_SAME_RUNGS))
SAXPY_SIGNATURES(VECTOR_RUNG_7)
SAXPY_ANY_SIGNATURES(VECTOR_RUNG_8)

} // namespace vector

#endif

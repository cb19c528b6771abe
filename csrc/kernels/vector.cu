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
#include "vector_plan.cuh"

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

// A number from its bits.
template <class T> __device__ T number_of(uint64 bits) {
    union {
        uint64 bits;
        T number;
    } found = {bits};
    return found.number;
}

// Offsets, in elements, and the coordinates along the two innermost axes.
struct position {
    int64 x, y, out;
    unsigned inner, second;
};

// The position of an element of the result. Index is 32 bits wide for indices below 2^31, whose
// division is a multiplication.
template <class Index> __device__ position position_of(const vector_plan &plan, Index index) {
    position found = {0, 0, 0, 0, 0};
#pragma unroll 1
    for (unsigned k = 0; k < plan.axis_count; k++) {
        const vector_axis &axis = plan.axes[k];
        const Index rest =
            k + 1 == plan.axis_count ? Index(0)
            : sizeof(Index) == 8
                ? index / static_cast<Index>(axis.extent)
                : (__umulhi(unsigned(index), axis.magic) + unsigned(index)) >> axis.shift;
        const Index at = index - rest * static_cast<Index>(axis.extent);
        found.x += static_cast<int64>(at) * axis.x;
        found.y += static_cast<int64>(at) * axis.y;
        found.out += static_cast<int64>(at) * axis.out;
        found.inner = k == 0 ? static_cast<unsigned>(at) : found.inner;
        found.second = k == 1 ? static_cast<unsigned>(at) : found.second;
        index = rest;
    }
    return found;
}

template <class T> union vector_group {
    uint4 all;
    T items[VECTOR / sizeof(T)];
};

// Shifts a group by an element to the first one's place and adds the last: no index, which would
// put the group into local memory in a loop that is not unrolled.
template <class T> __device__ void push(uint4 &group, T item) {
    union {
        T item;
        unsigned words[2];
    } last = {item};
    constexpr unsigned Bits = 8 * (sizeof(T) < 4 ? sizeof(T) : 4);
#pragma unroll
    for (unsigned k = 0; k < (sizeof(T) + 3) / 4; k++) {
        group.x = __funnelshift_rc(group.x, group.y, Bits);
        group.y = __funnelshift_rc(group.y, group.z, Bits);
        group.z = __funnelshift_rc(group.z, group.w, Bits);
        group.w = __funnelshift_rc(group.w, last.words[k], Bits);
    }
}

// A group of the result: where it begins, where the second row begins if the group ends one, and
// how it continues there.
struct group_place {
    position at, next;
    unsigned index;
    bool is_cut;  // it continues in other rows of the innermost axis
    bool is_near; // these are one row, or rows of one plane
};

// An operand's elements of a group: `first` is the offset, `next_row` the second row's, `step` the
// innermost axis's, and `row_step` the next one's.
template <class T>
__device__ vector_group<T> load_group(const T *from, unsigned layout, T number,
                                      const group_place &place, unsigned extent, int64 first,
                                      int64 next_row, int64 step, int64 row_step) {
    constexpr unsigned Items = VECTOR / sizeof(T);
    vector_group<T> group;
    if (from && layout == VECTOR_LINEAR) {
        group.all = *reinterpret_cast<const uint4 *>(from + place.index);
    } else if (from && place.is_cut) {
        const T *item = from + first;
        unsigned inner = place.at.inner;
        const int64 to_next = extent >= Items ? next_row - first - (extent - 1 - inner) * step
                                              : row_step - (extent - 1) * step;
#pragma unroll
        for (unsigned i = 0; i < Items; i++) {
            group.items[i] = *item;
            const bool last = ++inner == extent;
            item += last ? to_next : step;
            inner = last ? 0 : inner;
        }
    } else if (from && layout == VECTOR_PACKED) {
        group.all = *reinterpret_cast<const uint4 *>(from + first);
    } else if (from && step) {
#pragma unroll
        for (unsigned i = 0; i < Items; i++)
            group.items[i] = from[first + i * step];
    } else {
        const T one = from ? from[first] : number;
#pragma unroll
        for (unsigned i = 0; i < Items; i++)
            group.items[i] = one;
    }
    return group;
}

// Both operands' elements of a group of several short rows anywhere, row by row.
template <class T>
__device__ void load_rows(const T *x, const T *y, T x_number, T y_number, const vector_plan &plan,
                          unsigned index, uint4 &of_x, uint4 &of_y) {
    const unsigned end = index + VECTOR / sizeof(T);
    const vector_axis &inner = plan.axes[0];
#pragma unroll 1
    while (index < end) {
        const position at = position_of(plan, index);
        const unsigned row = static_cast<unsigned>(inner.extent) - at.inner;
        const unsigned count = min(row, end - index);
#pragma unroll 1
        for (unsigned i = 0; i < count; i++) {
            push(of_x, x ? x[at.x + i * inner.x] : x_number);
            push(of_y, y ? y[at.y + i * inner.y] : y_number);
        }
        index += count;
    }
}

// A thread stores after all of its loads: `out` may be x or y.
template <class Op, class T>
__device__ void combine_groups(const T *x, const T *y, T *out, T a, const vector_plan &plan) {
    constexpr unsigned Items = VECTOR / sizeof(T), Groups = VECTOR_GROUPS;
    const unsigned groups = static_cast<unsigned>(plan.n / Items);
    const unsigned first = blockIdx.x * blockDim.x * Groups + threadIdx.x;
    const bool linear = plan.x_layout == VECTOR_LINEAR && plan.y_layout == VECTOR_LINEAR;
    const T x_number = number_of<T>(plan.x_number), y_number = number_of<T>(plan.y_number);
    vector_group<T> of_x[Groups], of_y[Groups];
#pragma unroll
    for (unsigned k = 0; k < Groups; k++) {
        const unsigned group = first + k * blockDim.x;
        if (group < groups) {
            group_place place = {{0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}, group * Items, false, true};
            const vector_axis *axes = plan.axes;
            const unsigned extent = static_cast<unsigned>(axes[0].extent);
            if (!linear) {
                place.at = position_of(plan, place.index);
                place.is_cut = place.at.inner + Items > extent;
                place.is_near = extent >= Items || plan.axis_count == 2 ||
                                place.at.second + Items <= axes[1].extent;
                if (place.is_cut && extent >= Items)
                    place.next = position_of(plan, place.index + extent - place.at.inner);
            }
            if (place.is_cut && !place.is_near) {
                load_rows(x, y, x_number, y_number, plan, place.index, of_x[k].all, of_y[k].all);
            } else {
                of_x[k] = load_group(x, plan.x_layout, x_number, place, extent, place.at.x,
                                     place.next.x, axes[0].x, axes[1].x);
                of_y[k] = load_group(y, plan.y_layout, y_number, place, extent, place.at.y,
                                     place.next.y, axes[0].y, axes[1].y);
            }
        }
    }
#pragma unroll
    for (unsigned k = 0; k < Groups; k++)
        if (first + k * blockDim.x < groups) {
            vector_group<T> sums;
#pragma unroll
            for (unsigned i = 0; i < Items; i++)
                sums.items[i] = Op::apply(a, of_x[k].items[i], of_y[k].items[i]);
            reinterpret_cast<uint4 *>(out)[first + k * blockDim.x] = sums.all;
        }
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

// New: an index becomes coordinates, and these an offset for each operand. Step 0 along an axis
// repeats an operand; no operand is copied first. The host finds out which operands allow vectors
// of VECTOR bytes.
template <class Op, class T>
__device__ void vector_8(const T *x, const T *y, T *out, T a, const vector_plan &plan) {
    constexpr unsigned Items = VECTOR / sizeof(T);
    const uint64 first = static_cast<uint64>(blockIdx.x) * blockDim.x * VECTOR_ITEMS + threadIdx.x;
    if (plan.is_long) {
        combine_items<Op, VECTOR_ITEMS, uint64>(x, y, out, a, plan, first, blockDim.x);
    } else if (!plan.is_grouped) {
        combine_items<Op, VECTOR_ITEMS, unsigned>(x, y, out, a, plan, first, blockDim.x);
    } else {
        combine_groups<Op>(x, y, out, a, plan);
        if (blockIdx.x == gridDim.x - 1 && threadIdx.x < plan.n % Items)
            combine_items<Op, 1, unsigned>(x, y, out, a, plan, plan.n / Items * Items + threadIdx.x,
                                           0);
    }
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
#define VECTOR_KERNEL_STRIDED(rung, op, items, same)                                               \
    extern "C" __global__ void rung##_##op##_##items##_##same(                                     \
        const type_##items *x, const type_##items *y, type_##items *out, uint64 n, type_##items a, \
        const __grid_constant__ vector_plan plan) {                                                \
        wait_for_kernel_before();                                                                  \
        rung<op_##op>(x, y, out, a, plan);                                                         \
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

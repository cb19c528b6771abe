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
     "after the decks: NumPy's broadcasting", 32, 1024, 128, 0, RUNG_OVERLAPS, 0)
// clang-format on
#else

#include "common.cuh"
#include "vector_plan.cuh"

namespace vector {

template <class T> struct wrapping { using type = T; };
template <> struct wrapping<int32> { using type = uint32_t; };
template <> struct wrapping<int64> { using type = uint64; };

struct op_add { // integers wrap
    template <class T> static __device__ T apply(T, T x, T y) {
        using W = typename wrapping<T>::type;
        return static_cast<T>(W(x) + W(y));
    }
};
struct op_saxpy { // the compiler fuses it
    template <class T> static __device__ T apply(T a, T x, T y) { return a * x + y; }
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

// Offsets, in elements, of a group of the result.
struct offsets {
    int64 x, y, out;
};

// The group's coordinates along all axes, the innermost first; Index is 32 bits wide where it can.
template <class Index> __device__ offsets offsets_of(const vector_plan &plan, Index index) {
    offsets found = {0, 0, 0};
#pragma unroll
    for (unsigned k = 0; k < VECTOR_AXES; k++) {
        const vector_axis &axis = plan.axes[k];
        const bool last = k + 1 >= plan.axis_count;
        const Index rest = last ? Index(0) : index / static_cast<Index>(axis.extent);
        const int64 at = static_cast<int64>(index - rest * static_cast<Index>(axis.extent));
        found.x += at * axis.x;
        found.y += at * axis.y;
        found.out += at * axis.out;
        if (last)
            break;
        index = rest;
    }
    return found;
}

// An operand's Items elements from `offset` on: adjacent, or one for all, or the number.
template <unsigned Items, class T> union operand_group {
    uint4 vector;
    T item[Items];
};
template <unsigned Items, class T>
__device__ operand_group<Items, T> load_operand(const T *from, int64 offset, bool adjacent,
                                                T number) {
    operand_group<Items, T> found;
    if (from && adjacent && Items > 1) {
        found.vector = *reinterpret_cast<const uint4 *>(from + offset);
        return found;
    }
    const T one = from ? from[offset] : number;
#pragma unroll
    for (unsigned i = 0; i < Items; i++)
        found.item[i] = one;
    return found;
}

// Groups of Items elements, Groups of them a thread, a block's threads apart. A thread stores after
// all of its loads: `out` may be x or y.
template <class Op, unsigned Items, unsigned Groups, class Index, class T>
__device__ void combine_strided(const T *x, const T *y, T *out, T a, const vector_plan &plan) {
    const uint64 first = static_cast<uint64>(blockIdx.x) * blockDim.x * Groups + threadIdx.x;
    const T x_number = number_of<T>(plan.x_number), y_number = number_of<T>(plan.y_number);
    operand_group<Items, T> of_x[Groups], of_y[Groups];
    int64 to[Groups];
#pragma unroll
    for (unsigned k = 0; k < Groups; k++) {
        const uint64 group = first + static_cast<uint64>(k) * blockDim.x;
        if (group < plan.groups) {
            const offsets at = offsets_of(plan, static_cast<Index>(group));
            of_x[k] = load_operand<Items>(x, at.x, plan.axes[0].x != 0, x_number);
            of_y[k] = load_operand<Items>(y, at.y, plan.axes[0].y != 0, y_number);
            to[k] = at.out;
        }
    }
#pragma unroll
    for (unsigned k = 0; k < Groups; k++)
        if (first + static_cast<uint64>(k) * blockDim.x < plan.groups) {
            operand_group<Items, T> sums;
#pragma unroll
            for (unsigned i = 0; i < Items; i++)
                sums.item[i] = Op::apply(a, of_x[k].item[i], of_y[k].item[i]);
            if (Items > 1)
                *reinterpret_cast<uint4 *>(out + to[k]) = sums.vector;
            else
                out[to[k]] = sums.item[0];
        }
}

// New: an index becomes coordinates, and these an offset for each operand. Step 0 along an axis
// repeats an operand; no operand is copied first. The host finds out whether groups of VECTOR bytes
// are adjacent and aligned in every operand that does not repeat.
template <class Op, class T>
__device__ void vector_8(const T *x, const T *y, T *out, T a, const vector_plan &plan) {
    constexpr unsigned ITEMS = VECTOR / sizeof(T);
    if (plan.is_long)
        combine_strided<Op, 1, VECTOR_ITEMS, uint64>(x, y, out, a, plan);
    else if (plan.is_packed)
        combine_strided<Op, ITEMS, VECTOR_GROUPS, unsigned>(x, y, out, a, plan);
    else
        combine_strided<Op, 1, VECTOR_ITEMS, unsigned>(x, y, out, a, plan);
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x < plan.tail) {
        const int64 i = static_cast<int64>(plan.groups * ITEMS + threadIdx.x);
        const T one_x = x ? x[plan.axes[0].x ? i : 0] : number_of<T>(plan.x_number);
        const T one_y = y ? y[plan.axes[0].y ? i : 0] : number_of<T>(plan.y_number);
        out[i] = Op::apply(a, one_x, one_y);
    }
}

// --- the kernels: vector_<rung>_<operation>_<items>_<items>

using type_int32 = int32;
using type_int64 = int64;
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
#define VECTOR_NEWER_RUNGS(op, items, same)       \
    VECTOR_KERNEL_WIDE(vector_7, op, items, same) \
    VECTOR_KERNEL_STRIDED(vector_8, op, items, same)

SAME_FOR_ALL_GPUS(ADD_SIGNATURES(VECTOR_SAME_RUNGS))
ADD_SIGNATURES(VECTOR_NEWER_RUNGS)
SAME_FOR_ALL_GPUS(SAXPY_SIGNATURES(VECTOR_SAME_RUNGS))
SAXPY_SIGNATURES(VECTOR_NEWER_RUNGS)

} // namespace vector

#endif

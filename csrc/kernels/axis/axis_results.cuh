// axis_results.cuh: the work of a launch of reduce_axis.cu, and its results: stored for the caller,
// in the requested type, or for other blocks as partial results. Contains no kernel.
#pragma once

#include "axis_items.cuh"

namespace axis {

// --- the work, as planned by ops_reduce_axis.c

// Most indices fit 32 bits, whose division is several times as fast.
__device__ inline uint64 quotient(uint64 a, uint64 b) {
    return (a | b) >> 32 ? a / b : uint32_t(a) / uint32_t(b);
}
// Not inlined: its divisions would be a large part of every kernel's code.
__device__ __noinline__ int64 offset_of(uint64 index, int64 step_0, uint64 period_0,
                                        uint64 period_1, uint64 period_2, int64 step_1,
                                        int64 step_2, int64 step_3) {
    uint64 rest = quotient(index, period_0);
    int64 at = int64(index - rest * period_0) * step_0;
    if (!period_1)
        return at + int64(rest) * step_1;
    index = rest;
    rest = quotient(index, period_1);
    at += int64(index - rest * period_1) * step_1;
    if (!period_2)
        return at + int64(rest) * step_2;
    index = rest;
    rest = quotient(index, period_2);
    return at + int64(index - rest * period_2) * step_2 + int64(rest) * step_3;
}

// Several axes on one side, the last one first: axis 0 has `stride`, the next ones the steps in
// `more`. The index on axis k is below `period[k]`, if that is not 0.
struct axes {
    int64 stride;
    uint64 period[3];
    int64 more[3];

    __device__ int64 offset(uint64 index) const {
        if (!period[0])
            return int64(index) * stride;
        return offset_of(index, stride, period[0], period[1], period[2], more[0], more[1], more[2]);
    }
};

// Outer index o, reduced index r, inner index i: the element is in[outer offset of o + r * stride +
// inner offset of i], its result number o * inner + i; a partial result is (o * splits + split) *
// inner + i.
struct work {
    void *partials;        // partial results of chunks of the reduced axis, and
    int64 *partial_index;  // argmin's indices of them;
    const int64 *in_index; // the same indices when a second pass reads them as elements
    unsigned *tickets;     // counters at 0 that the kernel leaves at 0: no second pass
    uint64 outer, reduced, inner;
    int64 stride;
    axes outer_axes, inner_axes;
    settings s;
    uint64 finish;
    float64 divisor;
    // The reduced axis may be two, the inner one `period` elements long. Then `division` divides by
    // the period: a factor and, from bit 32 on, a shift. `jump` leads to the next of the outer one.
    uint64 division;
    int64 jump;
    uint64 shape, splits, chunk, wide, group, tiles;
    bool streamed; // streaming loads: results stay in L2 (TUNING.md A7)

    __device__ unsigned periods(unsigned k) const { // exact below 2^31
        return __umulhi(k, unsigned(division)) >> unsigned(division >> 32);
    }
    // The position of a result's first element.
    __device__ int64 offset(uint64 result) const {
        if (inner == 1)
            return outer_axes.offset(result);
        if (outer == 1)
            return inner_axes.offset(result);
        const uint64 o = quotient(result, inner);
        return outer_axes.offset(o) + inner_axes.offset(result - o * inner);
    }
};

// Form of a result: raw for a second pass, else the caller's type. ops_reduce_axis.c and the Python
// planner use the same numbers.
enum finish { RAW, FLOAT64, FLOAT32, INT8, INT16, INT32, INT64, ANY, ALL, ODD, FLOAT16, BFLOAT16 };

// Not inlined: rarely used, and every shape of work would contain it.
template <class Number>
__device__ __noinline__ void store_as(void *out, uint64 at, Number a, uint64 finish,
                                      float64 divisor) {
    const float64 wide = divisor != 0 ? float64(a) / divisor : float64(a);
    switch (finish) {
    case FLOAT64:
        static_cast<float64 *>(out)[at] = wide;
        break;
    case FLOAT32:
        static_cast<float32 *>(out)[at] = float32(wide);
        break;
    case FLOAT16:
        static_cast<half *>(out)[at] = narrowed<half>(wide);
        break;
    case BFLOAT16:
        static_cast<bfloat *>(out)[at] = narrowed<bfloat>(wide);
        break;
    case INT8:
        static_cast<int8_t *>(out)[at] = int8_t(int64(a));
        break;
    case INT16:
        static_cast<int16_t *>(out)[at] = int16_t(int64(a));
        break;
    case INT32:
        static_cast<int32 *>(out)[at] = int32(int64(a));
        break;
    case INT64:
        static_cast<int64 *>(out)[at] = int64(a);
        break;
    case ANY:
        static_cast<int8_t *>(out)[at] = a != 0;
        break;
    case ALL:
        static_cast<int8_t *>(out)[at] = float64(a) == divisor;
        break;
    case ODD:
        static_cast<int8_t *>(out)[at] = int64(a) & 1;
        break;
    default:
        static_cast<Number *>(out)[at] = a;
    }
}
__device__ inline void store_number(const work &w, void *out, uint64 at, int64 a) {
    if (w.finish == INT64 || w.finish == RAW)
        static_cast<int64 *>(out)[at] = a;
    else
        store_as(out, at, a, w.finish, w.divisor);
}
__device__ inline void store_number(const work &w, void *out, uint64 at, float64 a) {
    if (w.finish == RAW || (w.finish == FLOAT64 && w.divisor == 0))
        static_cast<float64 *>(out)[at] = a;
    else if (w.finish == FLOAT32 && w.divisor == 0)
        static_cast<float32 *>(out)[at] = float32(a);
    else if (w.finish == FLOAT16 && w.divisor == 0)
        static_cast<half *>(out)[at] = narrowed<half>(a);
    else
        store_as(out, at, a, w.finish, w.divisor);
}
// A thread's adjacent results, in words of up to 16 bytes; false where only store() applies, or
// where threads would store more than a sector apart.
template <class To, class Number> __device__ To as_result(Number a) { return To(a); }
template <> __device__ half as_result(float64 a) { return narrowed<half>(a); }
template <> __device__ bfloat as_result(float64 a) { return narrowed<bfloat>(a); }
template <unsigned Bytes> struct result_word { using type = uint4; };
template <> struct result_word<8> { using type = uint2; };
template <> struct result_word<4> { using type = uint32_t; };
template <class To, class Number, unsigned Count>
__device__ bool store_vectors(void *out, uint64 at, const Number (&results)[Count], bool there) {
    constexpr unsigned BYTES = Count * sizeof(To);
    if constexpr (BYTES > 32 || BYTES < 4) {
        return false;
    } else {
        using Word = typename result_word<BYTES>::type;
        union {
            Word words[BYTES / sizeof(Word)];
            To items[Count];
        } vectors;
#pragma unroll
        for (unsigned i = 0; i < Count; i++)
            vectors.items[i] = as_result<To>(results[i]);
#pragma unroll
        for (unsigned i = 0; there && i < BYTES / sizeof(Word); i++)
            reinterpret_cast<Word *>(static_cast<To *>(out) + at)[i] = vectors.words[i];
        return true;
    }
}
template <unsigned Count>
__device__ bool store_numbers(const work &w, void *out, uint64 at, const int64 (&results)[Count],
                              bool there) {
    return w.finish == INT64 && store_vectors<int64>(out, at, results, there);
}
template <unsigned Count>
__device__ bool store_numbers(const work &w, void *out, uint64 at, const float64 (&results)[Count],
                              bool there) {
    if (w.divisor != 0)
        return false;
    if constexpr (Count == 8) {
        if (w.finish == FLOAT16)
            return store_vectors<half>(out, at, results, there);
        if (w.finish == BFLOAT16)
            return store_vectors<bfloat>(out, at, results, there);
    }
    if constexpr (Count >= 4)
        return w.finish == FLOAT32 && store_vectors<float32>(out, at, results, there);
    return w.finish == FLOAT64 && store_vectors<float64>(out, at, results, there);
}

// WIDE: results may be 8 bytes; stores_words(): they are.
template <class Op> struct storing {
    static constexpr bool WIDE = false;
    static __device__ void store(const Op &op, const work &w, void *out, uint64 at,
                                 typename Op::Acc a) {
        static_cast<typename Op::Raw *>(out)[at] = op.raw(a);
    }
    template <unsigned Count>
    static __device__ bool store_all(const Op &op, const work &, void *out, uint64 at,
                                     const typename Op::Acc (&results)[Count], bool there) {
        vec<typename Op::Raw> items;
#pragma unroll
        for (unsigned i = 0; i < Count; i++)
            items.items[i] = op.raw(results[i]);
        if (there)
            *reinterpret_cast<uint4 *>(static_cast<typename Op::Raw *>(out) + at) = items.words;
        return true;
    }
};
template <class Op> struct storing_numbers {
    using Acc = typename Op::Acc;
    static constexpr bool WIDE = true;
    static __device__ bool stores_words(const work &w) {
        return w.divisor == 0 && w.finish == (Acc(0.5) != 0 ? FLOAT64 : INT64);
    }
    template <unsigned Count>
    static __device__ bool store_all(const Op &, const work &w, void *out, uint64 at,
                                     const Acc (&results)[Count], bool there) {
        return store_numbers(w, out, at, results, there);
    }
    static __device__ void store(const Op &, const work &w, void *out, uint64 at, Acc a) {
        store_number(w, out, at, a);
    }
};
template <class In> struct storing<op_float_sum<In>> : storing_numbers<op_float_sum<In>> {};
// Sums are also counts, by which any() and all() are decided.
template <class In> struct storing<op_sum<In>> : storing_numbers<op_sum<In>> {
    using Op = op_sum<In>;
    using Numbers = storing_numbers<Op>;
    static __device__ bool are_truths(const work &w) { return w.finish == ANY || w.finish == ALL; }
    static __device__ bool is_true(const work &w, int64 count) {
        return w.finish == ANY ? count != 0 : count == int64(w.divisor);
    }
    template <unsigned Count>
    static __device__ bool store_all(const Op &op, const work &w, void *out, uint64 at,
                                     const int64 (&results)[Count], bool there) {
        if (!are_truths(w))
            return Numbers::store_all(op, w, out, at, results, there);
        int64 truths[Count];
#pragma unroll
        for (unsigned i = 0; i < Count; i++)
            truths[i] = is_true(w, results[i]);
        return store_vectors<int8_t>(out, at, truths, there);
    }
    static __device__ void store(const Op &op, const work &w, void *out, uint64 at, int64 a) {
        if (are_truths(w))
            static_cast<int8_t *>(out)[at] = is_true(w, a);
        else
            Numbers::store(op, w, out, at, a);
    }
};
template <class In> struct storing<op_argmin<In>> {
    using Op = op_argmin<In>;
    static constexpr bool WIDE = true;
    static __device__ bool stores_words(const work &) { return true; }
    template <unsigned Count>
    static __device__ bool store_all(const Op &, const work &w, void *out, uint64 at,
                                     const typename Op::Acc (&results)[Count], bool there) {
        int64 found[Count];
#pragma unroll
        for (unsigned i = 0; i < Count; i++)
            found[i] = results[i].index + int64(w.divisor);
        return store_vectors<int64>(out, at, found, there);
    }
    static __device__ void store(const Op &op, const work &w, void *out, uint64 at,
                                 typename Op::Acc a) {
        static_cast<int64 *>(out)[at] = a.index + int64(w.divisor);
    }
};

// Calls f with the operation: that of its kind if storing a result, which is then repeated, is
// short.
template <class Op, class F> __device__ void by_stored_kind(const Op &op, const F &f) {
    if constexpr (storing<Op>::WIDE)
        f(op);
    else
        op.by_kind(f);
}

// --- partial results, which other blocks read

template <class Op>
__device__ void store_partial(const Op &op, const work &w, uint64 at, typename Op::Acc a) {
    static_cast<typename Op::Raw *>(w.partials)[at] = op.raw(a);
    if constexpr (has_index<Op>)
        w.partial_index[at] = a.index;
}
// The same, or the result if it is not split.
template <class Op>
__device__ void store_result(const Op &op, const work &w, void *out, uint64 at,
                             typename Op::Acc a) {
    if (w.partials)
        store_partial(op, w, at, a);
    else
        storing<Op>::store(op, w, out, at, a);
}
// Bypasses L1, which does not see other blocks' stores.
template <class Word, class T> __device__ T load_word_of(const T *from) {
    union {
        Word word;
        T item;
    } u;
    u.word = __ldcg(reinterpret_cast<const Word *>(from));
    return u.item;
}
template <class T> __device__ T load_of_others(const T *from) {
    if constexpr (sizeof(T) == 1)
        return load_word_of<unsigned char>(from);
    else if constexpr (sizeof(T) == 2)
        return load_word_of<unsigned short>(from);
    else if constexpr (sizeof(T) == 4)
        return load_word_of<unsigned>(from);
    else
        return load_word_of<uint64>(from);
}
template <class Op>
__device__ typename Op::Acc load_partial(const Op &op, const work &w, uint64 at) {
    const auto raw = load_of_others(static_cast<const typename Op::Raw *>(w.partials) + at);
    if constexpr (has_index<Op>)
        return op.again(raw, load_of_others(w.partial_index + at));
    else
        return op.again(raw);
}
// The value of every apart-th of a result's chunks, from `chunk` on; their partial results are
// `step` from each other, the first at `at`. A thread loads AT_ONCE of them before it joins them.
template <unsigned AT_ONCE, class Op>
__device__ typename Op::Acc join_chunks(const Op &op, const work &w, uint64 at, uint64 step,
                                        unsigned chunk, unsigned apart) {
    const unsigned chunks = unsigned(w.splits);
    typename Op::Acc value = op.identity();
#pragma unroll 1
    for (; chunk < chunks; chunk += AT_ONCE * apart) {
        typename Op::Acc some[AT_ONCE];
#pragma unroll
        for (unsigned k = 0; k < AT_ONCE; k++) // no branches: missing ones repeat the first
            some[k] = load_partial(
                op, w, at + (chunk + k * apart < chunks ? chunk + k * apart : chunk) * step);
        op.by_order([&](const auto &one) {
#pragma unroll
            for (unsigned k = 0; k < AT_ONCE; k++)
                if (chunk + k * apart < chunks)
                    value = one.apply(value, some[k]);
        });
    }
    return value;
}

// Whether this block is the last of the `splits` of these results: each draws a ticket after
// storing its own. The results do not depend on which one is last. One thread's fences suffice, as
// the barriers order the other threads' stores and loads with them.
__device__ __noinline__ bool ends_last(unsigned *counter, unsigned splits) {
    unsigned *ticket = shared_memory<unsigned>();
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("fence.acq_rel.gpu;" ::: "memory");
        *ticket = atomicInc(counter, splits - 1);
        asm volatile("fence.acq_rel.gpu;" ::: "memory");
    }
    __syncthreads();
    const bool last = *ticket == splits - 1;
    __syncthreads(); // shared memory is reused
    return last;
}

} // namespace axis

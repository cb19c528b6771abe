// axis_results.cuh: the work of a launch of reduce_axis.cu, and its results: stored for the caller,
// in the requested type, or for other blocks as partial results. Contains no kernel.
#pragma once

#include "axis_items.cuh"
#include "axis_trees.cuh"

namespace axis {

// --- the work, as planned by ops_reduce_axis.c

// Most indices fit 32 bits, whose division is several times as fast.
__device__ inline uint64 quotient(uint64 a, uint64 b) {
    return (a | b) >> 32 ? a / b : uint32_t(a) / uint32_t(b);
}
using work = axis_work;

// Not inlined: its divisions would be a large part of every kernel's code.
__device__ __noinline__ int64 offset_of(axis_side side, uint64 index) {
    int64 at = 0, step = side.stride;
#pragma unroll
    for (unsigned k = 0; k < 3 && side.period[k]; k++) {
        const uint64 rest = quotient(index, side.period[k]);
        at += int64(index - rest * side.period[k]) * step;
        step = side.more[k];
        index = rest;
    }
    return at + int64(index) * step;
}
__device__ inline int64 offset_in(const axis_side &side, uint64 index) {
    return side.period[0] ? offset_of(side, index) : int64(index) * side.stride;
}
// The position of a result's first element.
__device__ inline int64 offset_of_result(const work &w, uint64 result) {
    const uint64 o = w.inner == 1 ? result : w.outer == 1 ? 0 : quotient(result, w.inner);
    return offset_in(w.outer_axes, o) + offset_in(w.inner_axes, result - o * w.inner);
}

// Form of a result: raw for a pass over another axis, else the caller's type. ops_reduce_axis.c and
// the Python planner use the same numbers.
enum finish { RAW, FLOAT64, FLOAT32, INT8, INT16, INT32, INT64, ANY, ALL, ODD, FLOAT16, BFLOAT16 };

template <class To, class Number> __device__ To as_result(Number a) { return To(a); }
template <> __device__ half as_result(float64 a) { return narrowed<half>(a); }
template <> __device__ bfloat as_result(float64 a) { return narrowed<bfloat>(a); }
template <class To, class Number> __device__ void store_as(void *out, uint64 at, Number a) {
    static_cast<To *>(out)[at] = as_result<To>(a);
}
// Truths aside. Not inlined: rarely used, and every shape of work would contain it.
template <class Number>
__device__ __noinline__ void store_in_form(void *out, uint64 at, Number a, uint64 finish,
                                           float64 divisor) {
    const float64 wide = divisor != 0 ? float64(a) / divisor : float64(a);
    switch (finish) {
    case FLOAT64:
        return store_as<float64>(out, at, wide);
    case FLOAT32:
        return store_as<float32>(out, at, wide);
    case FLOAT16:
        return store_as<half>(out, at, wide);
    case BFLOAT16:
        return store_as<bfloat>(out, at, wide);
    case INT8:
        return store_as<int8_t>(out, at, int64(a));
    case INT16:
        return store_as<int16_t>(out, at, int64(a));
    case INT32:
        return store_as<int32>(out, at, int64(a));
    case ODD:
        return store_as<int8_t>(out, at, int64(a) & 1);
    default:
        return store_as<int64>(out, at, a);
    }
}
// Stores a thread's results of the first `places`, which are `Apart` from each other, adjacent ones
// in words of up to 16 bytes; false where threads would store more than a sector apart.
template <class To, unsigned Apart, class Number, unsigned Count>
__device__ bool store_vectors(void *out, uint64 at, const Number (&results)[Count],
                              unsigned places) {
    constexpr unsigned BYTES = Count * sizeof(To);
    if constexpr (Apart > 1) {
#pragma unroll
        for (unsigned i = 0; i < Count; i++)
            if (i * Apart < places)
                store_as<To>(out, at + i * Apart, results[i]);
        return true;
    } else if constexpr (BYTES > 32 || BYTES < 4) {
        return false;
    } else {
        using Short = typename chosen<BYTES == 8, uint2, uint32_t>::type;
        using Word = typename chosen<BYTES >= 16, uint4, Short>::type;
        union {
            Word words[BYTES / sizeof(Word)];
            To items[Count];
        } vectors;
#pragma unroll
        for (unsigned i = 0; i < Count; i++)
            vectors.items[i] = as_result<To>(results[i]);
#pragma unroll
        for (unsigned i = 0; places && i < BYTES / sizeof(Word); i++)
            reinterpret_cast<Word *>(static_cast<To *>(out) + at)[i] = vectors.words[i];
        return true;
    }
}

// The same in the form that the caller wants, minima as elements and argmin's as indices; false if
// they are several and their form is rare.
template <unsigned Apart = 1, class Op, class Acc, unsigned Count>
__device__ bool store_all(const Op &op, const work &w, void *out, uint64 at,
                          const Acc (&results)[Count], unsigned places) {
    using Stored = typename chosen<has_index<Op>, int64, typename Op::Raw>::type;
    Stored items[Count];
#pragma unroll
    for (unsigned i = 0; i < Count; i++)
        if constexpr (has_index<Op>)
            items[i] = results[i].index + int64(w.divisor);
        else
            items[i] = op.raw(results[i]);
    return store_vectors<Stored, Apart>(out, at, items, places);
}
template <unsigned Apart, class Op, class Acc, unsigned Count>
__device__ bool store_numbers(const Op &op, const work &w, void *out, uint64 at,
                              const Acc (&results)[Count], unsigned places) {
    constexpr bool WIDE = sizeof(op.neutral()) == 8;
    if constexpr (Op::FRACTIONS) {
        if (!WIDE && w.finish == FLOAT32 && w.divisor == 0)
            return store_vectors<float32, Apart>(out, at, results, places);
        if (Op::SHORT && w.finish == FLOAT16 && w.divisor == 0)
            return store_vectors<half, Apart>(out, at, results, places);
        if (Op::SHORT && w.finish == BFLOAT16 && w.divisor == 0)
            return store_vectors<bfloat, Apart>(out, at, results, places);
    }
    const bool as_they_are =
        Op::FRACTIONS ? w.finish == FLOAT64 && w.divisor == 0 : w.finish == INT64;
    if ((Count == 1 || WIDE || !Op::FRACTIONS) && (as_they_are || w.finish == RAW))
        return store_vectors<Acc, Apart>(out, at, results, places);
    if (Count == 1)
        store_in_form(out, at, results[0], w.finish, w.divisor);
    return Count == 1;
}
template <unsigned Apart = 1, class In, unsigned Count>
__device__ bool store_all(const op_float_sum<In> &op, const work &w, void *out, uint64 at,
                          const float64 (&results)[Count], unsigned places) {
    return store_numbers<Apart>(op, w, out, at, results, places);
}
// Sums are also counts, by which any() and all() are decided.
template <unsigned Apart = 1, class In, unsigned Count>
__device__ bool store_all(const op_sum<In> &op, const work &w, void *out, uint64 at,
                          const int64 (&results)[Count], unsigned places) {
    if (w.finish != ANY && w.finish != ALL)
        return store_numbers<Apart>(op, w, out, at, results, places);
    int64 truths[Count];
#pragma unroll
    for (unsigned i = 0; i < Count; i++)
        truths[i] = w.finish == ANY ? results[i] != 0 : results[i] == int64(w.divisor);
    return store_vectors<int8_t, Apart>(out, at, truths, places);
}
template <class Op>
__device__ void store_one(const Op &op, const work &w, void *out, uint64 at, typename Op::Acc a) {
    const typename Op::Acc one[1] = {a};
    store_all<BLOCK>(op, w, out, at, one, 1);
}

// --- partial results, which other blocks read

template <class Op>
__device__ void store_partial(const Op &op, const work &w, uint64 at, typename Op::Acc a) {
    reinterpret_cast<typename Op::Raw *>(w.partials)[at] = op.raw(a);
    if constexpr (has_index<Op>)
        reinterpret_cast<int64 *>(w.partial_index)[at] = a.index;
}
// The same, or the result if it is not split.
template <class Op>
__device__ void store_result(const Op &op, const work &w, void *out, uint64 at,
                             typename Op::Acc a) {
    if (w.partials)
        store_partial(op, w, at, a);
    else
        store_one(op, w, out, at, a);
}
// Bypasses L1, which does not see other blocks' stores.
template <class Op>
__device__ typename Op::Acc load_partial(const Op &op, const work &w, uint64 at) {
    const auto raw = __ldcg(reinterpret_cast<const typename Op::Raw *>(w.partials) + at);
    if constexpr (has_index<Op>)
        return op.again(raw, __ldcg(reinterpret_cast<const int64 *>(w.partial_index) + at));
    else
        return op.again(raw);
}
// The value of every apart-th of a result's `chunks`, from `chunk` on; their partial results are
// `step` from each other, the first at `at`. A thread loads AT_ONCE of them before it joins them.
template <unsigned AT_ONCE, class Op>
__device__ typename Op::Acc join_chunks(const Op &op, const work &w, uint64 at, uint64 step,
                                        unsigned chunks, unsigned chunk, unsigned apart) {
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
__device__ __noinline__ bool ends_last(uint64 tickets, uint64 number, unsigned splits) {
    unsigned *ticket = shared_memory<unsigned>();
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("fence.acq_rel.gpu;" ::: "memory");
        unsigned *counter = reinterpret_cast<unsigned *>(tickets) + number;
        __builtin_assume(__isGlobal(counter)); // a number tells nvcc no address space
        *ticket = atomicInc(counter, splits - 1);
        asm volatile("fence.acq_rel.gpu;" ::: "memory");
    }
    __syncthreads();
    const bool last = *ticket == splits - 1;
    __syncthreads(); // shared memory is reused
    return last;
}

// Reduces a block's results, each of `parts` parts: get(result, helper, helpers) joins every
// helpers-th part from `helper` on, put(result, value) stores. If results are few, several threads
// take parts of each.
template <class Op, class Get, class Put>
__device__ void combine_parts(const Op &op, unsigned results, unsigned parts, const Get &get,
                              const Put &put) {
    using Acc = typename Op::Acc;
    unsigned helpers = 1;
    while (2 * helpers <= parts && 2 * helpers * results <= BLOCK)
        helpers *= 2;
    Acc *sums = shared_memory<Acc>();
    const unsigned at_once = helpers == 1 ? BLOCK : results,
                   helper = helpers == 1 ? 0 : threadIdx.x / results;
#pragma unroll 1
    for (unsigned base = 0; base < results; base += at_once) { // once, if there are helpers
        const unsigned result = base + threadIdx.x - helper * results;
        const bool there = helper < helpers && result < results;
        Acc value = op.identity();
        if (there)
            value = get(result, helper, helpers);
        if (helpers > 1) {
            __syncthreads(); // the parts may share memory with the sums
            if (there)
                sums[threadIdx.x] = value;
            value = strided_value(op, sums, value, helper, helpers, results);
        }
        if (there && helper == 0)
            put(result, value);
    }
}

// Joins the chunks of `results` results of outer index o, from inner index `begin` on. Not inlined,
// as most shapes do so at their ends.
template <class Op>
__device__ __noinline__ void join_results(const work &w, void *out, uint64 inner, uint64 o,
                                          uint64 begin, unsigned results) {
    const Op op = {{{int64(w.key), int64(w.mask), unsigned(w.kind)}}};
    const unsigned splits = unsigned(w.splits);
    const uint64 at = o * splits * inner + begin, out_at = o * inner + begin;
    if (results == 1) {
        const auto value =
            block_value(op, join_chunks<1>(op, w, at, inner, splits, threadIdx.x, BLOCK));
        if (threadIdx.x == 0)
            store_one(op, w, out, out_at, value);
        return;
    }
    const auto join = [&](unsigned result, unsigned part, unsigned apart) {
        return join_chunks<8>(op, w, at + result, inner, splits, part, apart);
    };
    combine_parts(op, results, splits, join, [&](unsigned result, typename Op::Acc value) {
        store_one(op, w, out, out_at + result, value);
    });
}

// The same by the last block of these results, if they are split: blocks count them on ticket
// `number`.
template <class Op>
__device__ void join_by_last(const work &w, void *out, uint64 number, uint64 inner, uint64 o,
                             uint64 begin, unsigned results) {
    if (w.splits > 1 && ends_last(w.tickets, number, unsigned(w.splits)))
        join_results<Op>(w, out, inner, o, begin, results);
}

} // namespace axis

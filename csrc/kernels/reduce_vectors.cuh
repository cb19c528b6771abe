// reduce_vectors.cuh: how a thread of reduce.cu's rungs from 9 on combines the elements of vectors,
// with several loads in flight. Contains no kernel.
#pragma once

#include "reduce_ops.cuh"
#include "reduce_plan.cuh"

// A vector: 16 bytes of elements, which one instruction loads.
template <class In> union vec {
    static constexpr unsigned count = 16 / sizeof(In);
    uint4 words;
    In items[count];
};

// Elements as vectors: the first 16-byte boundary may come some elements after the first one, and
// the last vector end some before the last.
template <class In> struct vectors_of {
    const vec<In> *vectors;
    uint64 count;
    unsigned before, after; // elements

    __device__ vectors_of(const In *in, uint64 n) {
        const unsigned off = static_cast<unsigned>(reinterpret_cast<uint64>(in) % 16 / sizeof(In));
        const unsigned to_boundary = off ? vec<In>::count - off : 0;
        before = n < to_boundary ? static_cast<unsigned>(n) : to_boundary;
        vectors = reinterpret_cast<const vec<In> *>(in + before);
        count = (n - before) / vec<In>::count;
        after = static_cast<unsigned>((n - before) % vec<In>::count);
    }
};

// Threads a block from here on: a compile-time constant, so that a round has one address and fixed
// offsets.
constexpr unsigned THREADS = 512;
// Blocks that share a multiprocessor at most (ops_reduce.c); this bounds a kernel's registers. Rung
// 12's three of 256 threads leave 85, and it has 84.
constexpr unsigned BLOCKS = 2;

// Loads of a thread in flight at once (TUNING.md R2).
constexpr unsigned IN_FLIGHT = REDUCE_IN_FLIGHT;

// For a vector of bool: the number of true ones, for sums and xor; whether all are, for `and`; else
// whether any is.
template <class Op> __device__ unsigned combined_bools(uint4 words) {
    const unsigned each[4] = {words.x, words.y, words.z, words.w};
    unsigned count = 0, any = 0, all = ~0u;
#pragma unroll
    for (unsigned i = 0; i < 4; i++) { // 0x80 for a nonzero byte
        const unsigned found = ((each[i] & 0x7f7f7f7fu) + 0x7f7f7f7fu | each[i]) & 0x80808080u;
        count += __popc(found);
        any |= found;
        all &= found;
    }
    return same<Op, op_and> ? all == 0x80808080u : same<Op, op_or> ? any != 0 : count;
}

template <class Op, class Acc, class In, unsigned Chains>
__device__ void combine_vector(Acc (&sums)[Chains], const vec<In> &loaded) {
    if constexpr (same<In, boolean>) {
        const unsigned all = combined_bools<Op>(loaded.words);
        sums[0] = Op::apply(sums[0], Acc(same<Op, op_xor> ? all & 1 : all));
    } else {
#pragma unroll
        for (unsigned i = 0; i < vec<In>::count; i++)
            sums[i % Chains] = Op::apply(sums[i % Chains], load<Acc>(loaded.items[i]));
    }
}

// Rounds of IN_FLIGHT vectors, all in flight before the first is waited for: every `step`-th from
// `first` on, and the next round's from `jump` later. The last round is incomplete and has a loop
// of its own (TUNING.md R3).
template <class Op, class Acc, class In, unsigned Chains>
__device__ void combine_rounds(Acc (&sums)[Chains], const vec<In> *vectors, uint64 first,
                               uint64 end, unsigned step, unsigned jump) {
    vec<In> loaded[IN_FLIGHT];
    for (; first + (IN_FLIGHT - 1) * step < end; first += jump) {
        const uint4 *from = &vectors[first].words;
#pragma unroll
        for (unsigned k = 0; k < IN_FLIGHT; k++)
            loaded[k].words = from[k * step];
#pragma unroll
        for (unsigned k = 0; k < IN_FLIGHT; k++)
            combine_vector<Op>(sums, loaded[k]);
    }
    if (first >= end)
        return;
    const unsigned left = static_cast<unsigned>(end - first); // up to IN_FLIGHT * step
    const uint4 *from = &vectors[first].words;
#pragma unroll
    for (unsigned k = 0; k < IN_FLIGHT; k++)
        loaded[k].words = load_vector_if(k * step < left, from + k * step);
#pragma unroll
    for (unsigned k = 0; k < IN_FLIGHT; k++)
        if (k * step < left)
            combine_vector<Op>(sums, loaded[k]);
}

// A thread's sums: enough that no addition waits for the previous one.
template <class In> constexpr unsigned CHAINS = vec<In>::count < 4 ? vec<In>::count : 4;

template <class Op, class Acc, unsigned Chains> __device__ void begin_sums(Acc (&sums)[Chains]) {
#pragma unroll
    for (unsigned c = 0; c < Chains; c++)
        sums[c] = Op::template identity<Acc>();
}
template <class Op, class Acc, unsigned Chains> __device__ Acc end_sums(Acc (&sums)[Chains]) {
#pragma unroll
    for (unsigned c = Chains / 2; c > 0; c /= 2)
#pragma unroll
        for (unsigned i = 0; i < c; i++)
            sums[i] = Op::apply(sums[i], sums[i + c]);
    return sums[0];
}

// In block 0 also the elements outside vectors.
template <class Op, class Acc, class In>
__device__ Acc combine_rest(Acc sum, const vectors_of<In> &p) {
    if (blockIdx.x == 0) {
        const In *items = reinterpret_cast<const In *>(p.vectors);
        if (threadIdx.x < p.before)
            sum = Op::apply(sum, load<Acc>(items[-1 - static_cast<int>(threadIdx.x)]));
        if (threadIdx.x < p.after)
            sum = Op::apply(sum, load<Acc>(items[p.count * vec<In>::count + threadIdx.x]));
    }
    return sum;
}

// This thread's vectors, from `first` up to `end`.
template <class Op, class Acc, class In>
__device__ Acc combine_vectors(const vectors_of<In> &p, uint64 first, uint64 end, unsigned step,
                               unsigned jump) {
    Acc sums[CHAINS<In>];
    begin_sums<Op>(sums);
    combine_rounds<Op>(sums, p.vectors, first, end, step, jump);
    return combine_rest<Op>(end_sums<Op>(sums), p);
}

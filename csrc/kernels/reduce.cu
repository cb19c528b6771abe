// reduce.cu: the reduction ladder of the decks D0 and D4 (after M. Harris), rungs 1 to 7, and its
// continuation. Knows no device and no host code.
//
// Every rung turns n elements into one partial result per block; the host launches it again on the
// partial results until one value is left. The last rungs need one launch. A rung's comment names
// its difference from the previous one.
//
// To add a rung: a row in RUNGS, a template below, and its name in the list at the end.

// Operations and types that every rung is compiled for: (operation, elements, accumulator). Prod,
// min and max of bool are `and` and `or`, so bool needs no kernels of its own for them.
#ifndef REDUCE_SIGNATURES // a test compiles a few
#define REDUCE_SIGNATURES(SIGNATURE)  \
    SIGNATURE(sum, int32, int32)      \
    SIGNATURE(sum, int32, int64)      \
    SIGNATURE(sum, int64, int64)      \
    SIGNATURE(sum, float32, float32)  \
    SIGNATURE(sum, float32, float64)  \
    SIGNATURE(sum, float64, float64)  \
    SIGNATURE(sum, bool, int64)       \
    SIGNATURE(prod, int32, int32)     \
    SIGNATURE(prod, int32, int64)     \
    SIGNATURE(prod, int64, int64)     \
    SIGNATURE(prod, float32, float32) \
    SIGNATURE(prod, float32, float64) \
    SIGNATURE(prod, float64, float64) \
    SIGNATURE(min, int32, int32)      \
    SIGNATURE(min, int64, int64)      \
    SIGNATURE(min, float32, float32)  \
    SIGNATURE(min, float64, float64)  \
    SIGNATURE(max, int32, int32)      \
    SIGNATURE(max, int64, int64)      \
    SIGNATURE(max, float32, float32)  \
    SIGNATURE(max, float64, float64)  \
    SIGNATURE(and, int32, int32)      \
    SIGNATURE(and, int64, int64)      \
    SIGNATURE(and, bool, bool)        \
    SIGNATURE(or, int32, int32)       \
    SIGNATURE(or, int64, int64)       \
    SIGNATURE(or, bool, bool)         \
    SIGNATURE(xor, int32, int32)      \
    SIGNATURE(xor, int64, int64)      \
    SIGNATURE(xor, bool, bool)
#endif

#ifdef GPUOPT_RUNGS
// clang-format off
//   number, name, kernel, lesson, source,
//   threads per block (least, most, default: the deck's), items per thread (0: a loop), flags,
//   the deck's microseconds for 2^22 int32 on a G80
RUNG(1, "interleaved", "reduce_1",
     "interleaved pairs, every (2s)-th thread adds: divergent warps",
     "D0, D4 reduction 1", 32, 1024, 128, 1, 0, 8054)
RUNG(2, "consecutive", "reduce_2",
     "the same pairs, consecutive threads add: no divergence, shared-memory bank conflicts",
     "D0, D4 reduction 2", 32, 1024, 128, 1, 0, 3456)
RUNG(3, "sequential", "reduce_3",
     "sequential addressing, the stride halves: no bank conflicts",
     "D0, D4 reduction 3", 32, 1024, 128, 1, 0, 1722)
RUNG(4, "first-add", "reduce_4",
     "each thread adds two elements while loading: half the blocks, no idle half",
     "D0, D4 reduction 4", 32, 1024, 128, 2, 0, 965)
RUNG(5, "last-warp", "reduce_5",
     "the last warp unrolled: warp barriers instead of block barriers",
     "D0, D4 reduction 5", 32, 1024, 128, 2, 0, 536)
RUNG(5, "5-historical", "reduce_5h",
     "rung 5 as it was right before Volta: no barrier in the last warp, whose accesses are volatile",
     "D0, D4 reduction 5", 64, 1024, 128, 2, RUNG_HISTORICAL, 536)
RUNG(6, "unrolled", "reduce_6",
     "the loop completely unrolled: the block size is a template argument",
     "D0, D4 reduction 6", 32, 1024, 128, 2, RUNG_BLOCK_IS_TEMPLATE, 381)
RUNG(7, "cascading", "reduce_7",
     "each thread first sums many elements in a grid-stride loop (algorithm cascading)",
     "D0, D4 reduction 7", 32, 1024, 128, 0, RUNG_BLOCK_IS_TEMPLATE, 268)
RUNG(8, "shuffle", "reduce_8",
     "the tree by warp shuffles: one value per warp passes through shared memory, one block barrier remains",
     "after the decks: warp shuffles, Kepler 2012", 32, 1024, 128, 0, 0, 0)
RUNG(9, "vector", "reduce_9",
     "vector loads of 16 bytes, eight of them in flight per thread",
     "after the decks: D2's bytes in flight, today", 512, 512, 512, 0, 0, 0)
RUNG(10, "shares", "reduce_10",
     "every block reduces one even chunk: no block runs an extra iteration",
     "after the decks", 512, 512, 512, 0, 0, 0)
RUNG(11, "single-pass", "reduce_11",
     "one launch: the last block to finish combines the blocks' results; float32 sums in float64",
     "after the decks: threadFenceReduction, CUDA samples", 512, 512, 512, 0,
     RUNG_WIDE | RUNG_OVERLAPS, 0)
RUNG(12, "bulk", "reduce_12",
     "bulk copies bring the chunk to shared memory: one thread issues them, and no register waits",
     "after the decks: bulk asynchronous copies, Hopper 2022", 256, 256, 256, 0,
     RUNG_WIDE | RUNG_OVERLAPS, 0)
RUNG(13, "dynamic", "reduce_13",
     "rung 11, but the last tenth of a long array is scheduled dynamically: blocks that are done draw chunks",
     "after the decks: dynamic scheduling", 512, 512, 512, 0,
     RUNG_BEST | RUNG_WIDE | RUNG_OVERLAPS, 0)
// clang-format on
#else

#include "reduce_vectors.cuh"

// --- the rungs

// One element per thread goes to shared memory. Then threads whose index is divisible by 2s combine
// pairs at distance s = 1, 2, 4, ... 2s is a power of two, so a mask replaces the division
// (TUNING.md R1).
template <class Op, class In, class Acc>
__device__ void reduce_1(const In *in, Acc *out, uint64 n) {
    Acc *partial = shared_memory<Acc>();
    const unsigned t = threadIdx.x;
    partial[t] = load_or_identity<Op, Acc>(in, global_thread(), n);
    __syncthreads();
    for (unsigned s = 1; s < blockDim.x; s *= 2) {
        if ((t & (2 * s - 1)) == 0)
            partial[t] = Op::apply(partial[t], partial[t + s]);
        __syncthreads();
    }
    if (t == 0)
        out[blockIdx.x] = partial[0];
}

// New: thread t combines the t-th pair, so that the working threads fill whole warps.
template <class Op, class In, class Acc>
__device__ void reduce_2(const In *in, Acc *out, uint64 n) {
    Acc *partial = shared_memory<Acc>();
    const unsigned t = threadIdx.x;
    partial[t] = load_or_identity<Op, Acc>(in, global_thread(), n);
    __syncthreads();
    for (unsigned s = 1; s < blockDim.x; s *= 2) {
        const unsigned left = 2 * s * t;
        if (left < blockDim.x)
            partial[left] = Op::apply(partial[left], partial[left + s]);
        __syncthreads();
    }
    if (t == 0)
        out[blockIdx.x] = partial[0];
}

// New: the distance s halves instead of doubling, so that adjacent threads read adjacent words.
template <class Op, class In, class Acc>
__device__ void reduce_3(const In *in, Acc *out, uint64 n) {
    Acc *partial = shared_memory<Acc>();
    const unsigned t = threadIdx.x;
    partial[t] = load_or_identity<Op, Acc>(in, global_thread(), n);
    __syncthreads();
    for (unsigned s = blockDim.x / 2; s > 0; s /= 2) {
        if (t < s)
            partial[t] = Op::apply(partial[t], partial[t + s]);
        __syncthreads();
    }
    if (t == 0)
        out[blockIdx.x] = partial[0];
}

// The pair that a thread of rungs 4 to 6 combines while loading: a block reads 2 * blockDim.x
// elements.
template <class Op, class In, class Acc> __device__ Acc load_pair(const In *in, uint64 n) {
    const uint64 i = static_cast<uint64>(blockIdx.x) * (2 * blockDim.x) + threadIdx.x;
    return Op::apply(load_or_identity<Op, Acc>(in, i, n),
                     load_or_identity<Op, Acc>(in, i + blockDim.x, n));
}

// New: the first combination happens while loading, so that no thread idles from the start.
template <class Op, class In, class Acc>
__device__ void reduce_4(const In *in, Acc *out, uint64 n) {
    Acc *partial = shared_memory<Acc>();
    const unsigned t = threadIdx.x;
    partial[t] = load_pair<Op, In, Acc>(in, n);
    __syncthreads();
    for (unsigned s = blockDim.x / 2; s > 0; s /= 2) {
        if (t < s)
            partial[t] = Op::apply(partial[t], partial[t + s]);
        __syncthreads();
    }
    if (t == 0)
        out[blockIdx.x] = partial[0];
}

// One warp combines the last 64 partial results. A warp barrier follows every step: since Volta the
// lanes of a warp need not run in lockstep.
template <class Op, class Acc> __device__ void last_warp(Acc *partial, unsigned t, unsigned block) {
    if (block >= 64)
        partial[t] = Op::apply(partial[t], partial[t + 32]);
    __syncwarp();
#pragma unroll
    for (unsigned s = 16; s > 0; s /= 2) {
        if (t < s)
            partial[t] = Op::apply(partial[t], partial[t + s]);
        __syncwarp();
    }
}

// New: when one warp is left, the loop is unrolled and has no block barriers.
template <class Op, class In, class Acc>
__device__ void reduce_5(const In *in, Acc *out, uint64 n) {
    Acc *partial = shared_memory<Acc>();
    const unsigned t = threadIdx.x;
    partial[t] = load_pair<Op, In, Acc>(in, n);
    __syncthreads();
    for (unsigned s = blockDim.x / 2; s > 32; s /= 2) {
        if (t < s)
            partial[t] = Op::apply(partial[t], partial[t + s]);
        __syncthreads();
    }
    if (t < 32)
        last_warp<Op>(partial, t, blockDim.x);
    if (t == 0)
        out[blockIdx.x] = partial[0];
}

// Historical: right while warps ran in step. The decks lack `volatile`: sums stayed in registers.
template <class Op, class In, class Acc>
__device__ void reduce_5h(const In *in, Acc *out, uint64 n) {
    Acc *partial = shared_memory<Acc>();
    const unsigned t = threadIdx.x;
    partial[t] = load_pair<Op, In, Acc>(in, n);
    __syncthreads();
    for (unsigned s = blockDim.x / 2; s > 32; s /= 2) {
        if (t < s)
            partial[t] = Op::apply(partial[t], partial[t + s]);
        __syncthreads();
    }
    if (t < 32) {
        volatile Acc *warp = partial;
        warp[t] = Op::template apply<Acc>(warp[t], warp[t + 32]);
        warp[t] = Op::template apply<Acc>(warp[t], warp[t + 16]);
        warp[t] = Op::template apply<Acc>(warp[t], warp[t + 8]);
        warp[t] = Op::template apply<Acc>(warp[t], warp[t + 4]);
        warp[t] = Op::template apply<Acc>(warp[t], warp[t + 2]);
        warp[t] = Op::template apply<Acc>(warp[t], warp[t + 1]);
    }
    if (t == 0)
        out[blockIdx.x] = partial[0];
}

// The block's tree with every loop unrolled: Block is a compile-time constant.
template <unsigned Block, class Op, class Acc>
__device__ void unrolled_tree(Acc *partial, Acc *out) {
    const unsigned t = threadIdx.x;
#pragma unroll
    for (unsigned s = Block / 2; s > 32; s /= 2) {
        if (t < s)
            partial[t] = Op::apply(partial[t], partial[t + s]);
        __syncthreads();
    }
    if (t < 32)
        last_warp<Op>(partial, t, Block);
    if (t == 0)
        out[blockIdx.x] = partial[0];
}

// New: no loop is left.
template <unsigned Block, class Op, class In, class Acc>
__device__ void reduce_6(const In *in, Acc *out, uint64 n) {
    Acc *partial = shared_memory<Acc>();
    partial[threadIdx.x] = load_pair<Op, In, Acc>(in, n);
    __syncthreads();
    unrolled_tree<Block, Op>(partial, out);
}

// New: a thread combines many elements in a register before the tree, at the grid's stride, so that
// the grid can match the GPU and the tree costs little. The decks' G80 was fastest with 64 to 256
// blocks of 128 threads and 1,024 to 4,096 elements per thread: 73 GB/s for 32M elements.
template <unsigned Block, class Op, class In, class Acc>
__device__ void reduce_7(const In *in, Acc *out, uint64 n) {
    Acc *partial = shared_memory<Acc>();
    const uint64 stride = 2 * global_threads();
    Acc sum = Op::template identity<Acc>();
    for (uint64 i = static_cast<uint64>(blockIdx.x) * (2 * Block) + threadIdx.x; i < n; i += stride)
        sum = Op::apply(sum,
                        Op::apply(load<Acc>(in[i]), load_or_identity<Op, Acc>(in, i + Block, n)));
    partial[threadIdx.x] = sum;
    __syncthreads();
    unrolled_tree<Block, Op>(partial, out);
}

// The value of the lane `distance` above.
template <class T> __device__ T from_above(T value, unsigned distance) {
    return __shfl_down_sync(0xffffffff, value, distance);
}
template <> __device__ boolean from_above(boolean value, unsigned distance) {
    return boolean(__shfl_down_sync(0xffffffff, static_cast<unsigned>(value), distance));
}

template <class Op, class Acc> __device__ Acc warp_tree(Acc value) {
#pragma unroll
    for (unsigned s = 16; s > 0; s /= 2)
        value = Op::apply(value, from_above(value, s));
    return value;
}

// Reduces a block's values to one, in thread 0. Shared memory has room for one value a warp, and is
// free again after the caller's next barrier.
template <class Op, class Acc> __device__ Acc block_tree(Acc value) {
    Acc *partial = shared_memory<Acc>();
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    value = warp_tree<Op>(value);
    if (lane == 0)
        partial[warp] = value;
    __syncthreads();
    if (warp == 0)
        value =
            warp_tree<Op>(lane < blockDim.x / 32 ? partial[lane] : Op::template identity<Acc>());
    return value;
}

// New: the tree runs in registers, by shuffles.
template <class Op, class In, class Acc>
__device__ void reduce_8(const In *in, Acc *out, uint64 n) {
    const uint64 stride = 2 * global_threads();
    Acc sum = Op::template identity<Acc>();
    for (uint64 i = static_cast<uint64>(blockIdx.x) * (2 * blockDim.x) + threadIdx.x; i < n;
         i += stride)
        sum = Op::apply(
            sum, Op::apply(load<Acc>(in[i]), load_or_identity<Op, Acc>(in, i + blockDim.x, n)));
    sum = block_tree<Op>(sum);
    if (threadIdx.x == 0)
        out[blockIdx.x] = sum;
}

// New: a load reads 16 bytes, and a thread has IN_FLIGHT of them in flight.
template <class Op, class In, class Acc>
__device__ void reduce_9(const In *in, Acc *out, uint64 n) {
    const vectors_of<In> p(in, n);
    const unsigned first = blockIdx.x * THREADS + threadIdx.x, step = gridDim.x * THREADS;
    const Acc sum =
        block_tree<Op>(combine_vectors<Op, Acc>(p, first, p.count, step, IN_FLIGHT * step));
    if (threadIdx.x == 0)
        out[blockIdx.x] = sum;
}

// A block's even chunk: whole vectors, and whole lines of 128 bytes. For a long array the blocks
// take rounds in turns, so that concurrent reads are adjacent (TUNING.md R4).
constexpr unsigned ROUND = IN_FLIGHT * THREADS; // vectors

template <class Op, class Acc, class In> __device__ Acc combine_chunk(const In *in, uint64 n) {
    constexpr unsigned line = 8;
    const vectors_of<In> p(in, n);
    const uint64 even = (p.count + gridDim.x - 1) / gridDim.x;
    uint64 begin = static_cast<uint64>(blockIdx.x) * ROUND, end = p.count;
    unsigned jump = gridDim.x * ROUND;
    if (even < REDUCE_LONG_ROUNDS * ROUND) {
        const uint64 chunk = (even + line - 1) / line * line;
        begin = blockIdx.x * chunk;
        end = begin + chunk < p.count ? begin + chunk : p.count;
        jump = ROUND;
    }
    return block_tree<Op>(combine_vectors<Op, Acc>(p, begin + threadIdx.x, end, THREADS, jump));
}

// New: a block reads one chunk instead of strides over the whole array.
template <class Op, class In, class Acc>
__device__ void reduce_10(const In *in, Acc *out, uint64 n) {
    const Acc sum = combine_chunk<Op, Acc>(in, n);
    if (threadIdx.x == 0)
        out[blockIdx.x] = sum;
}

// Address of the single result of a launch, and the counters of tickets.
template <class Acc> struct whole {
    Acc *result;
    unsigned *tickets; // of the blocks that have finished; of rung 13's chunks
    uint64 halved;
};

// Stores the single result, which may be requested in half the accumulator's bytes.
template <class Acc> __device__ void store_result(Acc *to, Acc value, uint64) { *to = value; }
template <> __device__ void store_result(float64 *to, float64 value, uint64 halved) {
    if (halved)
        *reinterpret_cast<float32 *>(to) = float32(value);
    else
        *to = value;
}
template <> __device__ void store_result(int64 *to, int64 value, uint64 halved) {
    if (halved)
        *reinterpret_cast<int32 *>(to) = int32(value);
    else
        *to = value;
}

// Reduces the `count` values of the blocks to one. Every block draws a ticket after it has stored
// its own. The block that draws the last one combines all in their order, so the result does not
// depend on which block it is. atomicInc leaves the counter at 0 for the next launch.
template <unsigned AtOnce, class Op, class Acc>
__device__ void combine_stored(const Acc *partials, unsigned count, const whole<Acc> &to) {
    // Behind the warps' values, in dynamic shared memory: rung 12's ring, free by now, uses all
    // that a block of a T4 may have.
    bool *last = reinterpret_cast<bool *>(shared_memory<Acc>() + 2 * (blockDim.x / 32));
    if (threadIdx.x == 0) {
        __threadfence();
        *last = atomicInc(to.tickets, gridDim.x - 1) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (!*last)
        return;
    const volatile Acc *every = partials;
    Acc sum = Op::template identity<Acc>();
    for (unsigned first = threadIdx.x; first < count; first += AtOnce * blockDim.x) {
        Acc some[AtOnce];
#pragma unroll
        for (unsigned k = 0; k < AtOnce; k++) {
            const unsigned i = first + k * blockDim.x;
            some[k] = i < count ? static_cast<Acc>(every[i]) : Op::template identity<Acc>();
        }
#pragma unroll
        for (unsigned k = 0; k < AtOnce; k++)
            sum = Op::apply(sum, some[k]);
    }
    sum = block_tree<Op>(sum);
    if (threadIdx.x == 0)
        store_result(to.result, sum, to.halved);
}

template <class Op, class Acc>
__device__ void combine_blocks(Acc sum, Acc *partials, const whole<Acc> &to) {
    if (threadIdx.x == 0) {
        if (gridDim.x > 1)
            partials[blockIdx.x] = sum;
        else // no other block
            store_result(to.result, sum, to.halved);
    }
    if (gridDim.x > 1)
        combine_stored<1, Op>(partials, gridDim.x, to);
}

// New: the blocks' values are combined in the same launch.
template <class Op, class In, class Acc>
__device__ void reduce_11(const In *in, Acc *partials, uint64 n, const whole<Acc> &to) {
    combine_blocks<Op>(combine_chunk<Op, Acc>(in, n), partials, to);
}

// A ring in shared memory. `ask` issues the copy into a stage, `wait` returns when it is complete;
// a thread then reads its own vectors, every RING_THREADS-th.
constexpr unsigned RING_THREADS = 256, RING_STAGES = REDUCE_RING_STAGES,
                   RING_VECTORS = REDUCE_RING_VECTORS;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
struct ring {
    unsigned barriers; // of 8 bytes, one a stage, in shared memory

    // Padding in front of the ring aligns it to 32 bytes: copies that straddle a sector are slower
    // (TUNING.md R5).
    __device__ ring() {
        __shared__ uint64 full[RING_STAGES];
        static_assert(sizeof full % 32 == 0, "the ring begins behind it");
        barriers = static_cast<unsigned>(__cvta_generic_to_shared(full));
        if (threadIdx.x == 0) {
            for (unsigned stage = 0; stage < RING_STAGES; stage++)
                asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barriers + 8 * stage));
            asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        }
        __syncthreads();
    }
    // Waits until every thread has read the stage, then issues the copy into it.
    __device__ void ask(unsigned stage, const uint4 *from) {
        __syncthreads();
        if (threadIdx.x != 0)
            return;
        const unsigned bytes = RING_VECTORS * sizeof(uint4);
        const unsigned to = static_cast<unsigned>(
            __cvta_generic_to_shared(shared_memory<uint4>() + stage * RING_VECTORS));
        asm volatile(
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barriers + 8 * stage),
            "r"(bytes)
            : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1], %2, [%3];" ::"r"(to),
                     "l"(from), "r"(bytes), "r"(barriers + 8 * stage)
                     : "memory");
    }
    __device__ void wait(unsigned stage, unsigned parity) {
        unsigned done;
        do
            asm volatile("{ .reg .pred full;\n"
                         "mbarrier.try_wait.parity.shared::cta.b64 full, [%1], %2;\n"
                         "selp.u32 %0, 1, 0, full; }"
                         : "=r"(done)
                         : "r"(barriers + 8 * stage), "r"(parity)
                         : "memory");
        while (!done);
    }
};
#else
// Before sm_90 every thread loads its own vectors through its registers.
struct ring {
    __device__ void ask(unsigned stage, const uint4 *from) {
        uint4 *to = shared_memory<uint4>() + stage * RING_VECTORS;
#pragma unroll
        for (unsigned k = threadIdx.x; k < RING_VECTORS; k += RING_THREADS)
            to[k] = from[k];
    }
    __device__ void wait(unsigned, unsigned) {}
};
#endif

// Every gridDim.x-th of the whole chunks of the ring. The last block reduces the vectors after them
// (TUNING.md R6).
template <class Op, class Acc, class In> __device__ Acc combine_parts(const vectors_of<In> &p) {
    const uint64 parts = p.count / RING_VECTORS, stride = uint64(gridDim.x) * RING_VECTORS;
    const uint4 *from = &p.vectors[uint64(blockIdx.x) * RING_VECTORS].words;
    const unsigned count =
        blockIdx.x < parts ? static_cast<unsigned>((parts - 1 - blockIdx.x) / gridDim.x + 1) : 0;
    Acc sums[CHAINS<In>];
    begin_sums<Op>(sums);
    ring parts_here;
    for (unsigned part = 0; part < count && part < RING_STAGES; part++)
        parts_here.ask(part, from + part * stride);
    for (unsigned part = 0; part < count; part++) {
        const unsigned stage = part % RING_STAGES;
        const vec<In> *here = shared_memory<vec<In>>() + stage * RING_VECTORS;
        parts_here.wait(stage, part / RING_STAGES % 2);
#pragma unroll
        for (unsigned k = 0; k < RING_VECTORS; k += RING_THREADS) {
            vec<In> loaded;
            loaded.words = here[threadIdx.x + k].words;
            combine_vector<Op>(sums, loaded);
        }
        if (part + RING_STAGES < count)
            parts_here.ask(stage, from + (part + RING_STAGES) * stride);
    }
    if (blockIdx.x == gridDim.x - 1)
#pragma unroll 1
        for (uint64 i = parts * RING_VECTORS + threadIdx.x; i < p.count; i += RING_THREADS)
            combine_vector<Op>(sums, p.vectors[i]);
    __syncthreads(); // the ring's memory is free
    return end_sums<Op>(sums);
}

// New: bulk asynchronous copies.
template <class Op, class In, class Acc>
__device__ void reduce_12(const In *in, Acc *partials, uint64 n, const whole<Acc> &to) {
    const vectors_of<In> p(in, n);
    const Acc sum = combine_rest<Op>(combine_parts<Op, Acc>(p), p);
    combine_blocks<Op>(block_tree<Op>(sum), partials, to);
}

// Work of the blocks of rung 13: rounds in turns, equally many each, then chunks that they draw
// from the rest, a tenth of the array or a little more.
struct schedule {
    uint64 left;    // the first vector of the rest
    unsigned piece; // vectors
    unsigned pieces;

    explicit __device__ schedule(uint64 vectors) {
        const uint64 rounds = vectors / ROUND,
                     turns = (rounds - rounds / 10) / gridDim.x * gridDim.x;
        const unsigned most = REDUCE_DRAWS * gridDim.x;
        left = turns * ROUND;
        piece = static_cast<unsigned>((rounds - turns) / most + 1) * ROUND;
        pieces = static_cast<unsigned>((vectors - left + piece - 1) / piece);
    }
};

// New: blocks draw the end of the array. Blocks that memory serves sooner draw more, and none ends
// long after the others. A chunk has a value of its own, so the result does not depend on which
// block drew it (TUNING.md R7).
template <class Op, class In, class Acc>
__device__ void reduce_13(const In *in, Acc *partials, uint64 n, const whole<Acc> &to) {
    constexpr unsigned warps = THREADS / 32;
    __shared__ unsigned drawn[2];
    Acc *of_warps = shared_memory<Acc>(); // twice
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const vectors_of<In> p(in, n);
    const schedule work(p.count);
    uint64 first = uint64(blockIdx.x) * ROUND, end = work.left;
    unsigned jump = gridDim.x * ROUND, slot = work.pieces + blockIdx.x;
    for (unsigned turn = 0;; turn ^= 1) {
        unsigned next = 0;
        if (threadIdx.x == 0) // in flight while this turn's elements are
            next = atomicInc(to.tickets + 1, work.pieces + gridDim.x - 1);
        Acc sums[CHAINS<In>];
        begin_sums<Op>(sums);
        combine_rounds<Op>(sums, p.vectors, first + threadIdx.x, end, THREADS, jump);
        Acc sum = end_sums<Op>(sums);
        if (slot == work.pieces)
            sum = combine_rest<Op>(sum, p);
        sum = warp_tree<Op>(sum);
        if (lane == 0)
            of_warps[turn * warps + warp] = sum;
        if (threadIdx.x == 0)
            drawn[turn] = next;
        __syncthreads();
        if (warp == 0) {
            sum = warp_tree<Op>(lane < warps ? of_warps[turn * warps + lane]
                                             : Op::template identity<Acc>());
            if (lane == 0)
                partials[slot] = sum;
        }
        slot = drawn[turn];
        if (slot >= work.pieces)
            break;
        first = work.left + uint64(slot) * work.piece;
        end = first + work.piece < p.count ? first + work.piece : p.count;
        jump = ROUND;
    }
    combine_stored<8, Op>(partials, work.pieces + gridDim.x, to);
}

// --- the kernels: reduce_<rung>_<operation>_<items>_<accumulator>[_b<block>]

using type_bool = boolean;
using type_int32 = int32;
using type_int64 = int64;
using type_float32 = float32;
using type_float64 = float64;

#define KERNEL(rung, op, in, acc)                                                           \
    extern "C" __global__ void rung##_##op##_##in##_##acc(const type_##in *items,           \
                                                          type_##acc *partials, uint64 n) { \
        rung<op_##op>(items, partials, n);                                                  \
    }
#define KERNEL_B(rung, block, op, in, acc)                                                     \
    extern "C" __global__ void __launch_bounds__(block) rung##_##op##_##in##_##acc##_b##block( \
        const type_##in *items, type_##acc *partials, uint64 n) {                              \
        rung<block, op_##op>(items, partials, n);                                              \
    }
// With one launch: address of the single result, the ticket counters, which are 0, and whether the
// result is stored in half as many bytes.
#define KERNEL_WHOLE(rung, threads, op, in, acc)                                           \
    extern "C" __global__ void __launch_bounds__(threads, BLOCKS)                          \
        rung##_##op##_##in##_##acc(const type_##in *items, type_##acc *partials, uint64 n, \
                                   type_##acc *result, unsigned *tickets, uint64 halved) { \
        wait_for_kernel_before();                                                          \
        const whole<type_##acc> to = {result, tickets, halved};                            \
        rung<op_##op>(items, partials, n, to);                                             \
    }
#define KERNEL_THREADS(rung, op, in, acc)                                                    \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                            \
        rung##_##op##_##in##_##acc(const type_##in *items, type_##acc *partials, uint64 n) { \
        rung<op_##op>(items, partials, n);                                                   \
    }
#define EVERY_BLOCK(rung, op, in, acc) \
    KERNEL_B(rung, 32, op, in, acc)    \
    KERNEL_B(rung, 64, op, in, acc)    \
    KERNEL_B(rung, 128, op, in, acc)   \
    KERNEL_B(rung, 256, op, in, acc)   \
    KERNEL_B(rung, 512, op, in, acc)   \
    KERNEL_B(rung, 1024, op, in, acc)
#define SAME_RUNGS(op, in, acc)           \
    KERNEL(reduce_1, op, in, acc)         \
    KERNEL(reduce_2, op, in, acc)         \
    KERNEL(reduce_3, op, in, acc)         \
    KERNEL(reduce_4, op, in, acc)         \
    KERNEL(reduce_5, op, in, acc)         \
    KERNEL(reduce_5h, op, in, acc)        \
    EVERY_BLOCK(reduce_6, op, in, acc)    \
    EVERY_BLOCK(reduce_7, op, in, acc)    \
    KERNEL(reduce_8, op, in, acc)         \
    KERNEL_THREADS(reduce_9, op, in, acc) \
    KERNEL_THREADS(reduce_10, op, in, acc)
#define NEWER_RUNGS(op, in, acc)                       \
    KERNEL_WHOLE(reduce_11, THREADS, op, in, acc)      \
    KERNEL_WHOLE(reduce_12, RING_THREADS, op, in, acc) \
    KERNEL_WHOLE(reduce_13, THREADS, op, in, acc)

SAME_FOR_ALL_GPUS(REDUCE_SIGNATURES(SAME_RUNGS))
REDUCE_SIGNATURES(NEWER_RUNGS)

#endif

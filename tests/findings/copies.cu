// arch: 90
// Asynchronous copies that are waited for, and those that are not. The comment `bug` marks the line
// that test_copies.py expects.
#include <cuda_pipeline.h>
#define KERNEL extern "C" __global__
constexpr int N = 128, STAGES = 3;

// --- one copy

KERNEL void own(int *y, const int *x) {
    __shared__ int s[N];
    int t = threadIdx.x, i = blockIdx.x * N + t;
    __pipeline_memcpy_async(&s[t], &x[i], 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    y[i] = 2 * s[t];
}
KERNEL void no_wait(int *y, const int *x) {
    __shared__ int s[N];
    int t = threadIdx.x, i = blockIdx.x * N + t;
    __pipeline_memcpy_async(&s[t], &x[i], 4);
    __pipeline_commit();
    __syncthreads();
    y[i] = 2 * s[t]; // bug
}
KERNEL void no_commit(int *y, const int *x) {
    __shared__ int s[N];
    int t = threadIdx.x, i = blockIdx.x * N + t;
    __pipeline_memcpy_async(&s[t], &x[i], 4);
    __pipeline_wait_prior(0);
    y[i] = 2 * s[t]; // bug
}
KERNEL void wait_all(int *y, const int *x) {
    __shared__ int s[N];
    int t = threadIdx.x, i = blockIdx.x * N + t;
    __pipeline_memcpy_async(&s[t], &x[i], 4);
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    y[i] = 2 * s[N - 1 - t];
}
KERNEL void no_barrier(int *y, const int *x) {
    __shared__ int s[N];
    int t = threadIdx.x, i = blockIdx.x * N + t;
    __pipeline_memcpy_async(&s[t], &x[i], 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    y[i] = 2 * s[N - 1 - t]; // bug
}
KERNEL void barrier_before_wait(int *y, const int *x) {
    __shared__ int s[N];
    int t = threadIdx.x, i = blockIdx.x * N + t;
    __pipeline_memcpy_async(&s[t], &x[i], 4);
    __pipeline_commit();
    __syncthreads();
    __pipeline_wait_prior(0);
    y[i] = 2 * s[N - 1 - t]; // bug
}
KERNEL void overwritten(int *y, const int *x) {
    __shared__ int s[N];
    int t = threadIdx.x, i = blockIdx.x * N + t;
    __pipeline_memcpy_async(&s[t], &x[i], 4);
    __pipeline_commit();
    if (t & 1)
        s[t] = -1; // bug
    __pipeline_wait_prior(0);
    y[i] = 2 * s[t];
}
KERNEL void source_overwritten(int *y, int *x) {
    __shared__ int s[N];
    int t = threadIdx.x, i = blockIdx.x * N + t;
    __pipeline_memcpy_async(&s[t], &x[i], 4);
    __pipeline_commit();
    x[i] = 0; // bug
    __pipeline_wait_prior(0);
    y[i] = 2 * s[t];
}
KERNEL void one_thread_waits(int *y, const int *x) {
    __shared__ int s[N];
    int t = threadIdx.x, i = blockIdx.x * N + t;
    __pipeline_memcpy_async(&s[t], &x[i], 4);
    __pipeline_commit();
    if (t == 0)
        __pipeline_wait_prior(0);
    __syncthreads();
    y[i] = 2 * s[t]; // bug
}
KERNEL void zero_filled(int *y, const int *x, int n) {
    __shared__ int4 s[N];
    int t = threadIdx.x, left = n - 4 * t;
    left = left < 0 ? 0 : left > 4 ? 4 : left;
    __pipeline_memcpy_async(&s[t], &x[4 * t], 16, 16 - 4 * left);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    reinterpret_cast<int4 *>(y)[t] = s[t];
}

// --- rings of stages: tile k goes to stage k % STAGES

template <int Ahead, int Pending, bool Before, bool After>
__device__ void ring(int *y, const int *x, int tiles) {
    __shared__ int s[STAGES][N];
    int t = threadIdx.x, sum = 0;
#pragma unroll 1
    for (int k = 0; k < Ahead; k++) {
        if (k < tiles)
            __pipeline_memcpy_async(&s[k % STAGES][t], &x[k * N + t], 4); // fetch
        __pipeline_commit();
    }
#pragma unroll 1
    for (int k = 0; k < tiles; k++) {
        __pipeline_wait_prior(Pending);
        if (Before)
            __syncthreads();
        sum = 3 * sum + s[k % STAGES][N - 1 - t]; // ring
        if (After)
            __syncthreads();
        int next = k + Ahead, to = next % STAGES;
        if (next < tiles)
            __pipeline_memcpy_async(&s[to][t], &x[next * N + t], 4); // refill
        __pipeline_commit();
    }
    y[t] = sum;
}
KERNEL void ring_right(int *y, const int *x, int n) {
    ring<STAGES, STAGES - 1, true, true>(y, x, n);
}
KERNEL void ring_two(int *y, const int *x, int n) { ring<2, 1, true, false>(y, x, n); }
KERNEL void ring_weak(int *y, const int *x, int n) { ring<STAGES, STAGES, true, true>(y, x, n); }
KERNEL void ring_far(int *y, const int *x, int n) { ring<STAGES + 1, 3, true, true>(y, x, n); }
KERNEL void ring_open(int *y, const int *x, int n) {
    ring<STAGES, STAGES - 1, false, true>(y, x, n);
}
KERNEL void ring_early(int *y, const int *x, int n) {
    ring<STAGES, STAGES - 1, true, false>(y, x, n);
}

// --- mbarriers by hand: cp.async, bulk copies

__device__ unsigned in_shared(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void mbarrier_init(void *bar, int count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(in_shared(bar)), "r"(count) : "memory");
}
__device__ void mbarrier_wait(void *bar, int parity) {
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" ::"r"(in_shared(bar)),
                 "r"(parity)
                 : "memory");
}
__device__ void bulk_in(void *to, const void *from, int bytes, void *bar) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(in_shared(bar)),
                 "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(in_shared(to)),
                 "l"(from), "r"(bytes), "r"(in_shared(bar))
                 : "memory");
}
__device__ void bulk_out(void *to, const void *from, int bytes) {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
                 "r"(in_shared(from)), "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Warp 0 produces, the others consume. Slack: phases that a consumer waits for too few.
template <int Slack> __device__ void producer_consumer(int *y, const int *x, int tiles) {
    __shared__ alignas(16) int s[STAGES][N];
    __shared__ unsigned long long full[STAGES], empty[STAGES];
    int t = threadIdx.x, sum = 0;
    if (t == 0)
        for (int i = 0; i < STAGES; i++) {
            mbarrier_init(&full[i], 1);
            mbarrier_init(&empty[i], N);
        }
    __syncthreads();
    if (t < 32) {
#pragma unroll 1
        for (int k = 0; k < tiles && t == 0; k++) {
            int stage = k % STAGES;
            if (k >= STAGES)
                mbarrier_wait(&empty[stage], (k / STAGES - 1) & 1);
            bulk_in(s[stage], x + k * N, sizeof s[0], &full[stage]);
        }
        return;
    }
#pragma unroll 1
    for (int k = 0; k < tiles; k++) {
        int stage = k % STAGES;
        if (k >= Slack)
            mbarrier_wait(&full[stage], (k / STAGES) & 1);
        sum = 3 * sum + s[stage][N - 1 - (t - 32)]; // consumes
        asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(in_shared(&empty[stage]))
                     : "memory");
    }
    y[t - 32] = sum;
}
KERNEL void bulk_ring(int *y, const int *x, int n) { producer_consumer<0>(y, x, n); }
KERNEL void bulk_no_wait(int *y, const int *x, int n) { producer_consumer<1>(y, x, n); }
KERNEL void bulk_wrong_phase(int *y, const int *x) {
    __shared__ alignas(16) int s[N];
    __shared__ unsigned long long bar;
    if (threadIdx.x == 0)
        mbarrier_init(&bar, 1);
    __syncthreads();
    if (threadIdx.x == 0)
        bulk_in(s, x, sizeof s, &bar);
    mbarrier_wait(&bar, 0);
    y[threadIdx.x] = s[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0)
        bulk_in(s, x + N, sizeof s, &bar);
    mbarrier_wait(&bar, 0);              // of the phase before
    y[N + threadIdx.x] = s[threadIdx.x]; // next tile
}
template <bool Waits> __device__ void tracked(int *y, const int *x) {
    __shared__ int s[N];
    __shared__ unsigned long long bar;
    int t = threadIdx.x;
    if (t == 0)
        mbarrier_init(&bar, N);
    __syncthreads();
    __pipeline_memcpy_async(&s[t], &x[t], 4);
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(in_shared(&bar))
                 : "memory");
    if (Waits)
        mbarrier_wait(&bar, 0);
    else
        __syncthreads();
    y[t] = s[N - 1 - t]; // tracked
}
KERNEL void tracked_waits(int *y, const int *x) { tracked<true>(y, x); }
KERNEL void tracked_syncs(int *y, const int *x) { tracked<false>(y, x); }
template <int Kind> __device__ void store_tiles(int *y, const int *x, int tiles) {
    __shared__ alignas(16) int s[N];
#pragma unroll 1
    for (int k = 0; k < tiles; k++) {
        s[threadIdx.x] = 2 * x[k * N + threadIdx.x]; // refills
        __syncthreads();
        if (threadIdx.x == 0) {
            bulk_out(y + k * N, s, sizeof s);
            if (Kind == 1)
                asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
            if (Kind == 2)
                asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
        }
        __syncthreads();
    }
}
KERNEL void out_no_wait(int *y, const int *x, int n) { store_tiles<0>(y, x, n); }
KERNEL void out_read(int *y, const int *x, int n) { store_tiles<1>(y, x, n); }
KERNEL void out_whole(int *y, const int *x, int n) { store_tiles<2>(y, x, n); }
template <bool Whole> __device__ void read_back(int *y, const int *x, int *z) {
    __shared__ alignas(16) int s[N];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
        bulk_out(y, s, sizeof s);
        if (Whole)
            asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
        else
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        z[0] = y[N - 1]; // back
    }
}
KERNEL void back_whole(int *y, const int *x, int *z) { read_back<true>(y, x, z); }
KERNEL void back_read(int *y, const int *x, int *z) { read_back<false>(y, x, z); }

// --- st.async and red.async

#define DONE ".shared::cluster.mbarrier::complete_tx::bytes"
__device__ void expect(void *bar, int bytes) {
    if (threadIdx.x == 0)
        mbarrier_init(bar, 1);
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(in_shared(bar)),
                     "r"(bytes)
                     : "memory");
}
__device__ void store_async(int *to, int value, void *bar) {
    asm volatile("st.async.weak" DONE ".s32 [%0], %1, [%2];" ::"r"(in_shared(to)), "r"(value),
                 "r"(in_shared(bar))
                 : "memory");
}
__device__ void add_async(int *to, int value, void *bar) {
    asm volatile("red.async.relaxed.cluster" DONE ".add.s32 [%0], %1, [%2];" ::"r"(in_shared(to)),
                 "r"(value), "r"(in_shared(bar))
                 : "memory");
}
template <bool Waits> __device__ void stores(int *y, const int *x) {
    __shared__ int s[N];
    __shared__ unsigned long long bar;
    int t = threadIdx.x, to = Waits ? N - 1 - t : t;
    expect(&bar, sizeof s);
    store_async(&s[to], x[t], &bar);
    if (Waits)
        mbarrier_wait(&bar, 0);
    y[t] = s[t]; // stored
}
KERNEL void store_waits(int *y, const int *x) { stores<true>(y, x); }
KERNEL void store_no_wait(int *y, const int *x) { stores<false>(y, x); }
KERNEL void store_vectors(int *y, const int *x) {
    __shared__ alignas(16) int s[N];
    __shared__ unsigned long long bar;
    int t = threadIdx.x;
    expect(&bar, sizeof s);
    if (t < N / 4)
        asm volatile("st.async.weak" DONE ".v4.s32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
                         in_shared(&s[N - 4 - 4 * t])),
                     "r"(x[4 * t + 3]), "r"(x[4 * t + 2]), "r"(x[4 * t + 1]), "r"(x[4 * t]),
                     "r"(in_shared(&bar))
                     : "memory");
    mbarrier_wait(&bar, 0);
    y[t] = s[t];
}
// Two rounds of additions to N / 2 words.
template <int Waits> __device__ void additions(int *y, const int *x) {
    __shared__ int s[N / 2];
    __shared__ unsigned long long bar[2];
    int t = threadIdx.x;
    if (t < N / 2)
        s[t] = 0;
    for (int round = 0; round < 2; round++) {
        expect(&bar[round], sizeof(int) * N);
        add_async(&s[t / 2], x[round * N + t], &bar[round]);
        if (round < Waits)
            mbarrier_wait(&bar[round], 0);
        if (round == 0)
            atomicAdd(&s[t / 2], 1000); // may come between them
        __syncthreads();
    }
    if (t < N / 2)
        y[t] = s[t]; // added
}
KERNEL void add_waits(int *y, const int *x) { additions<2>(y, x); }
KERNEL void add_waits_once(int *y, const int *x) { additions<1>(y, x); }

// arch: 90
// Blocks, warps and lanes that wait for each other.
// buffer: g f32 512 iota
// buffer: o f32 512 none
// launch: cpa 1 128 0 g o
// expect: o[0] 508 509 510 511 504
// buffer: gi s32 256 iota
// buffer: oi s32 256 none
// launch: bulk 1 256 0 gi oi
// expect: oi[0] 0 1 2 3 4
// expect: oi[250] 250 251 252 253 254 255
// buffer: m u32 352 none
// launch: misc 1 32 0 m
// expect: m[0] 3 3 12 12
// expect: m[32] 496 496
// expect: m[256] 0 0xaaaaaaaa 0 0xaaaaaaaa
// expect: m[288] 1 1600 1 1601
// expect: m[320] 3 2 1 0 7
// buffer: x s32 100000 iota
// buffer: part s32 64 none
// buffer: out s32 1 none
// launch: last 64 128 0 x s32:100000 part out
// expect: out[0] 704982704
// launch: last_nofence 64 128 0 x s32:100000 part out
// finding: GLOBAL_RACE sync.cu
// buffer: l s32 1 zero
// buffer: cc s32 1 zero
// launch: lock1 4 64 0 l cc
// expect: cc[0] 256
// buffer: c2 s32 1 zero
// launch: lock2 4 64 0 l c2
// expect: c2[0] 256
// buffer: f s32 300 zero
// launch: chain 300 32 0 f s32:0
// expect: f[299] 300
// buffer: f2 s32 300 zero
// launch: chain 300 32 0 f2 s32:1
// expect: f2[0] 300
// buffer: xx s32 4096 none
// buffer: yy s32 4096 none
// cooperative: gsync 32 128 0 xx yy
// expect: yy[0] 4095 4094
// launch: gsync 32 128 0 xx yy
// finding: TRAP needs a cooperative launch
// buffer: bo s32 32 none
// launch: two_barriers 1 96 0 bo s32:1
// expect: bo[0] 0 1 2 3
// launch: two_barriers 1 96 0 bo s32:0
// finding: SHARED_RACE sync.cu
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/atomic>
#include <cuda_pipeline.h>
namespace cg = cooperative_groups;
// floating atomics are applied in one order, whatever the number of host threads
// buffer: fv f32 4096 random 11
// buffer: fs f32 1 zero
// launch: float_atomics 64 64 0 fv fs
// expect: fs[0] 0x44ff29e0
extern "C" {
// Warp 0 arrives at one barrier, warp 1 writes and arrives at the other, warp 2 waits for one of them and reads.
__global__ void two_barriers(int *o, int waited) {
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ alignas(barrier) char places[2 * sizeof(barrier)];
    __shared__ int s[32];
    barrier *bar = (barrier *)places;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x < 2)
        init(&bar[threadIdx.x], 32);
    __syncthreads();
    if (warp == 1)
        s[lane] = lane;
    if (warp < 2)
        (void)bar[warp].arrive();
    else
        bar[waited].wait_parity(false);
    if (warp == 2)
        o[lane] = s[lane];
}
__global__ void float_atomics(const float *x, float *s) {
    atomicAdd(s, x[blockIdx.x * 64 + threadIdx.x]);
}

__global__ void cpa(const float4 *g, float4 *o) {
    __shared__ float4 s[128];
    __pipeline_memcpy_async(&s[threadIdx.x], &g[threadIdx.x], 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    o[threadIdx.x] = s[127 - threadIdx.x];
}
__global__ void bulk(const int *g, int *o) {
    __shared__ alignas(128) int s[256];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    if (threadIdx.x == 0) {
        init(&bar, blockDim.x);
    }
    __syncthreads();
    cuda::barrier<cuda::thread_scope_block>::arrival_token t;
    if (threadIdx.x == 0) {
        cuda::device::memcpy_async_tx(s, g, cuda::aligned_size_t<16>(sizeof s), bar);
        t = cuda::device::barrier_arrive_tx(bar, 1, sizeof s);
    } else
        t = bar.arrive();
    bar.wait(std::move(t));
    o[threadIdx.x] = s[threadIdx.x];
}
__global__ void misc(unsigned *m) {
    unsigned t = threadIdx.x;
    m[t] = __match_any_sync(~0u, t / 2);
    m[32 + t] = __reduce_add_sync(~0u, t);
    m[64 + t] = __activemask();
    m[96 + t] = __dp4a(0x01020304u, 0x01010101u, t);
    m[128 + t] = __popc(t) + __clz(t) + __brev(t) + __ffs(t);
    m[160 + t] = __byte_perm(t, 0x11223344, 0x5140);
    m[192 + t] = __funnelshift_l(t, 0x80000001u, t);
    m[224 + t] = (unsigned)__mul64hi((long long)t << 40, (long long)t << 40);
    if (t & 1) {
        m[256 + t] = __activemask();
        auto w = cg::coalesced_threads();
        m[288 + t] = w.size() * 100 + w.thread_rank();
    } else {
        m[256 + t] = 0;
        m[288 + t] = 1;
    }
    m[320 + t] = cg::tiled_partition<8>(cg::this_thread_block()).shfl_xor(t, 3);
}
// single-pass reduction: last block finishes
__device__ unsigned done_count;
__global__ void last(const int *x, int n, volatile int *part, int *out) {
    __shared__ int s[128];
    __shared__ bool am;
    int a = 0;
    for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128)
        a += x[i];
    s[threadIdx.x] = a;
    __syncthreads();
    for (int k = 64; k; k >>= 1) {
        if (threadIdx.x < k)
            s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        part[blockIdx.x] = s[0];
        __threadfence();
        am = atomicInc(&done_count, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (am) {
        int v = 0;
        for (int i = threadIdx.x; i < gridDim.x; i += 128)
            v += part[i];
        s[threadIdx.x] = v;
        __syncthreads();
        if (threadIdx.x == 0) {
            int t = 0;
            for (int i = 0; i < 128; i++)
                t += s[i];
            *out = t;
        }
    }
}
__global__ void last_nofence(const int *x, int n, int *part, int *out) {
    __shared__ bool am;
    __shared__ int s[128];
    if (threadIdx.x == 0) {
        part[blockIdx.x] = x[blockIdx.x];
        am = atomicInc(&done_count, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (am) {
        int v = 0;
        for (int i = threadIdx.x; i < gridDim.x; i += 128)
            v += part[i];
        s[threadIdx.x] = v;
        __syncthreads();
        if (threadIdx.x == 0) {
            int t = 0;
            for (int i = 0; i < 128; i++)
                t += s[i];
            *out = t;
        }
    }
}
// spin lock in a warp, both ways
__global__ void lock1(int *l, int *c) {
    bool done = false;
    while (!done) {
        if (atomicCAS(l, 0, 1) == 0) {
            c[0]++;
            __threadfence();
            atomicExch(l, 0);
            done = true;
        }
    }
}
__global__ void lock2(int *l, volatile int *c) {
    while (atomicCAS(l, 0, 1) != 0)
        ;
    c[0] = c[0] + 1;
    __threadfence();
    atomicExch(l, 0);
}
// look-back chain: block b waits for block b-1; reversed: waits for b+1
__global__ void chain(volatile int *f, int rev) {
    int b = blockIdx.x;
    if (threadIdx.x == 0) {
        int p = rev ? b + 1 : b - 1;
        if (p >= 0 && p < gridDim.x)
            while (f[p] == 0)
                ;
        __threadfence();
        f[b] = 1 + ((p >= 0 && p < gridDim.x) ? f[p] : 0);
    }
}
__global__ void gsync(int *x, int *o) {
    auto g = cg::this_grid();
    x[g.thread_rank()] = g.thread_rank();
    g.sync();
    o[g.thread_rank()] = x[g.size() - 1 - g.thread_rank()];
}
}

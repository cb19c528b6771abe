// Every barrier matters: each kernel with one taken out has to be flagged, the whole ones must not be.
// buffer: x f32 65536 random 3
// buffer: y f32 65536 none
// launch: rung1 64 128 0 x y
// launch: rung1_load 4 128 0 x y
// finding: SHARED_RACE races.cu
// launch: rung1_step 4 128 0 x y
// finding: SHARED_RACE races.cu
// launch: rung3 64 128 0 x y
// launch: rung3_step 4 128 0 x y
// finding: SHARED_RACE races.cu
// launch: rung5_safe 64 128 0 x y
// launch: rung5_safe_nosync 4 128 0 x y
// finding: SHARED_RACE races.cu
// launch: rung5_historical 4 128 0 x y
// finding: SHARED_RACE races.cu
// launch: stencil 32 256 0 x y
// launch: stencil_nosync 32 256 0 x y
// finding: SHARED_RACE races.cu
// buffer: z f32 64 zero
// launch: same_cell 2 64 0 x z
// finding: GLOBAL_RACE races.cu
// launch: neighbour 2 64 0 z
// finding: GLOBAL_RACE races.cu
// launch: flag 2 64 0 z
// buffer: flags u32 2 zero
// launch: right_flag 3 1 0 z flags
// buffer: others u32 2 zero
// launch: other_flag 3 1 0 z others
// finding: GLOBAL_RACE races.cu
// launch: warp_reverse 2 64 0 x y
// launch: warp_reverse_nosync 2 64 0 x y
// finding: SHARED_RACE races.cu
// launch: divergent_barrier 1 64 0 y
// finding: DIVERGENT_BARRIER races.cu
// launch: tile_scan 1 64 0 y
// launch: tile_scan_nosync 1 64 0 y
// finding: SHARED_RACE races.cu
// launch: tile_turns 1 64 0 y
// launch: tile_turns_nosync 1 64 0 y
// finding: SHARED_RACE races.cu
// launch: tile_turns_global 1 16 0 y z
// launch: tile_of_a_tile 1 64 0 y
// launch: tile_of_a_tile_only 1 64 0 y
// finding: SHARED_RACE races.cu
// launch: tiles_in_turn 1 32 0 y
// launch: half_a_block 1 128 0 y
// launch: half_a_block_nosync 1 128 0 y
// finding: SHARED_RACE races.cu
// launch: half_a_block_global 1 128 0 y z
// launch: after_an_exit 1 128 0 y
// launch: swap_loop 4 64 0 z
// launch: swap_call 4 64 0 z
// launch: swap_then_read 1 64 0 y
// finding: SHARED_RACE races.cu
// launch: shared_flag 1 64 0 y
// launch: shared_flag_nofence 1 64 0 y
// finding: SHARED_RACE races.cu
#define REDUCE(name, BARRIER1, BARRIER2)                                                                             \
    __global__ void name(const float *in, float *out) {                                                              \
        __shared__ float s[128];                                                                                     \
        unsigned t = threadIdx.x;                                                                                    \
        s[t] = in[blockIdx.x * 128 + t];                                                                             \
        BARRIER1;                                                                                                    \
        for (unsigned k = 1; k < 128; k *= 2) {                                                                      \
            if (t % (2 * k) == 0)                                                                                    \
                s[t] += s[t + k];                                                                                    \
            BARRIER2;                                                                                                \
        }                                                                                                            \
        if (t == 0)                                                                                                  \
            out[blockIdx.x] = s[0];                                                                                  \
    }
#define SEQUENTIAL(name, BARRIER)                                                                                    \
    __global__ void name(const float *in, float *out) {                                                              \
        __shared__ float s[128];                                                                                     \
        unsigned t = threadIdx.x;                                                                                    \
        s[t] = in[blockIdx.x * 128 + t];                                                                             \
        __syncthreads();                                                                                             \
        for (unsigned k = 64; k > 0; k /= 2) {                                                                       \
            if (t < k)                                                                                               \
                s[t] += s[t + k];                                                                                    \
            BARRIER;                                                                                                 \
        }                                                                                                            \
        if (t == 0)                                                                                                  \
            out[blockIdx.x] = s[0];                                                                                  \
    }
#define LAST_WARP(name, QUALIFIER, SYNC)                                                                             \
    __global__ void name(const float *in, float *out) {                                                              \
        __shared__ float s[128];                                                                                     \
        unsigned t = threadIdx.x;                                                                                    \
        s[t] = in[blockIdx.x * 128 + t];                                                                             \
        __syncthreads();                                                                                             \
        if (t < 64)                                                                                                  \
            s[t] += s[t + 64];                                                                                       \
        __syncthreads();                                                                                             \
        if (t < 32) {                                                                                                \
            QUALIFIER float *v = s;                                                                                  \
            _Pragma("unroll") for (unsigned k = 32; k > 0; k /= 2) {                                                 \
                float a = v[t + k];                                                                                  \
                SYNC;                                                                                                \
                v[t] = v[t] + a;                                                                                     \
                SYNC;                                                                                                \
            }                                                                                                        \
        }                                                                                                            \
        if (t == 0)                                                                                                  \
            out[blockIdx.x] = s[0];                                                                                  \
    }
#define STENCIL(name, BARRIER)                                                                                       \
    __global__ void name(const float *in, float *out) {                                                              \
        __shared__ float s[256 + 6];                                                                                 \
        int t = threadIdx.x, i = blockIdx.x * 256 + t;                                                               \
        s[t + 3] = in[i];                                                                                            \
        if (t < 3) {                                                                                                 \
            s[t] = i >= 3 ? in[i - 3] : 0;                                                                           \
            s[t + 259] = i + 256 < 8192 ? in[i + 256] : 0;                                                           \
        }                                                                                                            \
        BARRIER;                                                                                                     \
        float a = 0;                                                                                                 \
        for (int k = 0; k < 7; k++)                                                                                  \
            a += s[t + k];                                                                                           \
        out[i] = a;                                                                                                  \
    }
#define REVERSE(name, SYNC)                                                                                          \
    __global__ void name(const float *in, float *out) {                                                              \
        __shared__ float s[64];                                                                                      \
        int t = threadIdx.x;                                                                                         \
        s[t] = in[t];                                                                                                \
        SYNC;                                                                                                        \
        out[blockIdx.x * 64 + t] = s[t ^ 31];                                                                        \
    }
extern "C" {
REDUCE(rung1, __syncthreads(), __syncthreads())
REDUCE(rung1_load, , __syncthreads())
REDUCE(rung1_step, __syncthreads(), )
SEQUENTIAL(rung3, __syncthreads())
SEQUENTIAL(rung3_step, )
LAST_WARP(rung5_safe, volatile, __syncwarp())
LAST_WARP(rung5_safe_nosync, volatile, )
LAST_WARP(rung5_historical, volatile, )
STENCIL(stencil, __syncthreads())
STENCIL(stencil_nosync, )
REVERSE(warp_reverse, __syncwarp())
REVERSE(warp_reverse_nosync, )
__global__ void same_cell(const float *in, float *out) { out[threadIdx.x / 2] = in[blockIdx.x * 64 + threadIdx.x]; }
__global__ void neighbour(float *x) {
    int i = blockIdx.x * 32 + threadIdx.x % 32;
    x[i] = x[(i + 32) % 64] + 1;
}
// all threads write the same value: no race that anybody could see
__global__ void flag(float *x) { x[63] = 7; }
__global__ void divergent_barrier(float *x) {
    if (threadIdx.x < 40)
        __syncthreads();
    x[threadIdx.x] = 1;
}
}
// Block 0 and block 1 each set a flag; block 2 waits for one of them and reads what block 1 wrote.
__device__ void flags_of_three(float *x, unsigned *flags, unsigned waited) {
    if (blockIdx.x == 1)
        x[0] = 7;
    __threadfence();
    if (blockIdx.x < 2)
        atomicExch(&flags[blockIdx.x], 1);
    while (blockIdx.x == 2 && !atomicAdd(&flags[waited], 0))
        ;
    if (blockIdx.x == 2)
        x[1] = x[0];
}
extern "C" __global__ void right_flag(float *x, unsigned *flags) { flags_of_three(x, flags, 1); }
extern "C" __global__ void other_flag(float *x, unsigned *flags) { flags_of_three(x, flags, 0); }
// Lanes that synchronise without the rest of their warp: each word has several readers.
#define TILE_SCAN(name, SYNC)                                                                                        \
    __global__ void name(float *out) {                                                                               \
        __shared__ float s[64];                                                                                      \
        int t = threadIdx.x, lane = t % 16;                                                                          \
        unsigned tile = 0xffffu << (t & 16);                                                                         \
        float v = t;                                                                                                 \
        for (int k = 1; k < 16; k *= 2) {                                                                            \
            s[t] = v;                                                                                                \
            __syncwarp(tile);                                                                                        \
            if (lane >= k)                                                                                           \
                v += s[t - k];                                                                                       \
            SYNC;                                                                                                    \
        }                                                                                                            \
        out[t] = v;                                                                                                  \
    }
#define TILE_TURNS(name, SYNC)                                                                                       \
    __global__ void name(float *out) {                                                                               \
        __shared__ float s[4];                                                                                       \
        int t = threadIdx.x, tile = t / 16;                                                                          \
        float a = 0;                                                                                                 \
        s[tile] = tile;                                                                                              \
        for (int k = 0; k < 16; k++) {                                                                               \
            __syncwarp(0xffffu << (t & 16));                                                                         \
            a += s[tile];                                                                                            \
            SYNC;                                                                                                    \
            if (t % 16 == k)                                                                                         \
                s[tile] = s[tile] + a;                                                                               \
        }                                                                                                            \
        out[t] = a;                                                                                                  \
    }
#define TILE_OF_A_TILE(name, SYNC)                                                                                   \
    __global__ void name(float *out) {                                                                               \
        __shared__ float s[64];                                                                                      \
        int t = threadIdx.x;                                                                                         \
        s[t] = t;                                                                                                    \
        SYNC;                                                                                                        \
        __syncwarp(0xfu << (t & 28));                                                                                \
        out[t] = s[t ^ 15];                                                                                          \
    }
// Warps that synchronise without the rest of their block, then one that reads again and writes.
#define HALF_A_BLOCK(name, SYNC)                                                                                     \
    __global__ void name(float *out) {                                                                               \
        __shared__ float s[1];                                                                                       \
        float a = 0;                                                                                                 \
        if (threadIdx.x == 0)                                                                                        \
            s[0] = 3;                                                                                                \
        __syncthreads();                                                                                             \
        if (threadIdx.x < 64) {                                                                                      \
            a = s[0];                                                                                                \
            SYNC;                                                                                                    \
            if (threadIdx.x == 0)                                                                                    \
                s[0] = s[0] + 1;                                                                                     \
        }                                                                                                            \
        out[threadIdx.x] = a;                                                                                        \
    }
#define SHARED_FLAG(name, FENCE)                                                                                     \
    __global__ void name(float *out) {                                                                               \
        __shared__ float s[32];                                                                                      \
        __shared__ volatile int ready;                                                                               \
        int t = threadIdx.x;                                                                                         \
        if (t == 0)                                                                                                  \
            ready = 0;                                                                                               \
        __syncthreads();                                                                                             \
        if (t < 32) {                                                                                                \
            s[t] = t;                                                                                                \
            FENCE;                                                                                                   \
            __syncwarp();                                                                                            \
            if (t == 0)                                                                                              \
                ready = 1;                                                                                           \
        } else {                                                                                                     \
            while (!ready)                                                                                           \
                ;                                                                                                    \
            FENCE;                                                                                                   \
            out[t - 32] = s[63 - t];                                                                                 \
        }                                                                                                            \
    }
// The programming guide's way to any atomic: the first read is a plain one.
__device__ void add_by_swap(float *x, float value) {
    int *p = (int *)x, old = *p, assumed;
    do {
        assumed = old;
        old = atomicCAS(p, assumed, __float_as_int(value + __int_as_float(assumed)));
    } while (old != assumed);
}
__device__ __noinline__ int swap(int *p, int assumed, int wanted) { return atomicCAS(p, assumed, wanted); }
extern "C" {
TILE_SCAN(tile_scan, __syncwarp(tile))
TILE_SCAN(tile_scan_nosync, )
TILE_TURNS(tile_turns, __syncwarp(0xffffu << (t & 16)))
TILE_TURNS(tile_turns_nosync, )
__global__ void tile_turns_global(float *out, float *x) {
    int t = threadIdx.x;
    float a = 0;
    for (int k = 0; k < 16; k++) {
        __syncwarp(0xffff);
        a += x[5];
        __syncwarp(0xffff);
        if (t == k)
            x[5] = x[5] + 1;
    }
    out[t] = a;
}
TILE_OF_A_TILE(tile_of_a_tile, __syncwarp(0xffffu << (t & 16)))
TILE_OF_A_TILE(tile_of_a_tile_only, )
// lane 0 meets lane 1, which then meets lane 2
__global__ void tiles_in_turn(float *out) {
    __shared__ float s[1];
    int t = threadIdx.x;
    if (t == 0)
        s[0] = 5;
    if (t < 2)
        __syncwarp(3);
    if (t == 1 || t == 2)
        __syncwarp(6);
    if (t == 2)
        out[0] = s[0];
}
HALF_A_BLOCK(half_a_block, asm volatile("bar.sync 1, 64;" ::: "memory"))
HALF_A_BLOCK(half_a_block_nosync, )
__global__ void half_a_block_global(float *out, float *x) {
    float a = 0;
    if (threadIdx.x < 96) {
        a = x[7];
        asm volatile("bar.sync 1, 96;" ::: "memory");
        if (threadIdx.x == 0)
            x[7] = x[7] + 1;
    }
    out[threadIdx.x] = a;
}
__global__ void after_an_exit(float *out) {
    __shared__ float s[1];
    if (threadIdx.x == 0)
        s[0] = 3;
    __syncthreads();
    if (threadIdx.x >= 64)
        return;
    float a = s[0];
    __syncthreads();
    if (threadIdx.x == 0)
        s[0] = s[0] + 1;
    out[threadIdx.x] = a;
}
SHARED_FLAG(shared_flag, __threadfence_block())
SHARED_FLAG(shared_flag_nofence, )
__global__ void swap_loop(float *x) { add_by_swap(&x[threadIdx.x % 3 + 9], 1); }
__global__ void swap_call(float *x) {
    int *p = (int *)&x[20], old = *p, assumed;
    do {
        assumed = old;
        old = swap(p, assumed, assumed + 1);
    } while (old != assumed);
}
__global__ void swap_then_read(float *out) {
    __shared__ float s[1];
    if (threadIdx.x == 0)
        s[0] = 0;
    __syncthreads();
    add_by_swap(s, 1);
    out[threadIdx.x] = s[0];
}
}

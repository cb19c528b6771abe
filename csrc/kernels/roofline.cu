// roofline.cu: kernels that find a GPU's ceilings, with which the ladders are compared.

#define ROOFLINE_SIGNATURES(SIGNATURE) SIGNATURE(copy, float32, float32)

#ifdef GPUOPT_RUNGS
// clang-format off
RUNG(0, "copy", "roofline",
     "a plain copy: what memory gives a kernel that only reads and writes",
     "D1 compare with a copy", 32, 1024, 64, 16, RUNG_BEST, 0)
// clang-format on
#else

#include "common.cuh"

// 16 bytes an access, four of them in flight a thread; neighbouring threads take neighbouring 16
// bytes. The last block copies what is left item by item. Blocks of 64: 4,193 GB/s on an H200 for 1
// GiB each way, against 4,049 to 4,119 for 128 to 1,024 threads (November 2026).
extern "C" __global__ void roofline_copy_float32_float32(const float *from, float *to, uint64 n) {
    const uint64 first = static_cast<uint64>(blockIdx.x) * blockDim.x * 16;
    if (first + blockDim.x * 16 <= n) {
        const float4 *from4 = reinterpret_cast<const float4 *>(from + first);
        float4 *to4 = reinterpret_cast<float4 *>(to + first);
        float4 item[4];
#pragma unroll
        for (unsigned k = 0; k < 4; k++)
            item[k] = from4[k * blockDim.x + threadIdx.x];
#pragma unroll
        for (unsigned k = 0; k < 4; k++)
            to4[k * blockDim.x + threadIdx.x] = item[k];
    } else {
        for (uint64 i = first + threadIdx.x; i < n; i += blockDim.x)
            to[i] = from[i];
    }
}

#endif

// narrow.cu: a result that stays on the device, from the type it was accumulated in to the type
// that the caller gets. No ladder.

#ifdef GPUOPT_RUNGS
// clang-format off
PROBE("reduce_narrow_float64_float32", "", "a float64 accumulator becomes the float32 result, on the device")
// clang-format on
#else

#include "common.cuh"

extern "C" __global__ void reduce_narrow_float64_float32(const float64 *from, float32 *to) {
    *to = static_cast<float32>(*from);
}

#endif

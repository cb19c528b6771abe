// micro_texture.cu: kernels of the experiments on textures, on copies and on launches. Knows no
// ladder, like micro.cu.

#ifdef GPUOPT_RUNGS
// clang-format off
PROBE("micro_empty", "launch_overhead", "nothing: what is left of its time is the launch")
PROBE("micro_advance_uint32", "overlap", "steps of a linear congruential generator: work of any length, known exactly")
PROBE("micro_fetch_load", "texture", "item i + shift of linear memory, by a plain load")
PROBE("micro_fetch_texture", "texture", "the same through a texture object, which gives 0 outside")
PROBE("micro_plane_load", "texture", "points of a plane by plain loads, along rows or down columns")
PROBE("micro_plane_texture", "texture", "the same through a 2-D array's texture object")
PROBE("micro_plane_bilinear", "texture", "between four points by plain loads and arithmetic: what the filter does")
// clang-format on
#else

#include "common.cuh"

extern "C" __global__ void micro_empty() {}

extern "C" __global__ void micro_advance_uint32(uint32_t *items, uint64 n, unsigned steps) {
    for (uint64 i = global_thread(); i < n; i += global_threads()) {
        uint32_t item = items[i];
        for (unsigned step = 0; step < steps; step++)
            item = item * 1664525u + 1013904223u;
        items[i] = item;
    }
}

// --- one output a thread, from element i + shift of linear memory

extern "C" __global__ void micro_fetch_load(const float *from, float *to, uint64 n, int shift) {
    const uint64 i = global_thread();
    const int64 at = static_cast<int64>(i) + shift;
    if (i < n)
        to[i] = at >= 0 && at < static_cast<int64>(n) ? from[at] : 0;
}

extern "C" __global__ void micro_fetch_texture(cudaTextureObject_t from, float *to, uint64 n,
                                               int shift) {
    const uint64 i = global_thread();
    if (i < n)
        to[i] = tex1Dfetch<float>(from, static_cast<int>(i) + shift); // 0 outside
}

// --- one output a thread, from a plane: output point (column, row) reads the coordinates (x +
// column * step_x, y + row * step_y). Adjacent threads take neighbours of a row, or of a column,
// and store contiguously in both cases. The block's y is the row, or the column.

struct point {
    unsigned column, row;
    bool inside;
    uint64 to;
};
__device__ inline point point_of(unsigned width, unsigned height, int down) {
    const unsigned along = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned across = blockIdx.y * blockDim.y + threadIdx.y;
    const unsigned length = down ? height : width, lines = down ? width : height;
    return {down ? across : along, down ? along : across, along < length && across < lines,
            static_cast<uint64>(across) * length + along};
}

extern "C" __global__ void micro_plane_load(const float *from, float *to, unsigned width,
                                            unsigned height, int down) {
    const point at = point_of(width, height, down);
    if (at.inside)
        to[at.to] = from[static_cast<uint64>(at.row) * width + at.column];
}

extern "C" __global__ void micro_plane_texture(cudaTextureObject_t from, float *to, unsigned width,
                                               unsigned height, int down, float x, float y,
                                               float step_x, float step_y) {
    const point at = point_of(width, height, down);
    if (at.inside)
        to[at.to] = tex2D<float>(from, fmaf(at.column, step_x, x), fmaf(at.row, step_y, y));
}

// Clamped, as the texture's filter is, but with float weights.
extern "C" __global__ void micro_plane_bilinear(const float *from, float *to, unsigned width,
                                                unsigned height, int down, float x, float y,
                                                float step_x, float step_y) {
    const point at = point_of(width, height, down);
    if (!at.inside)
        return;
    const float u = fmaf(at.column, step_x, x) - 0.5f, v = fmaf(at.row, step_y, y) - 0.5f;
    const float a = u - floorf(u), b = v - floorf(v);
    const int i = static_cast<int>(floorf(u)), j = static_cast<int>(floorf(v));
    const int right = static_cast<int>(width) - 1, bottom = static_cast<int>(height) - 1;
    const int i0 = min(max(i, 0), right), i1 = min(max(i + 1, 0), right);
    const float *row0 = from + static_cast<uint64>(min(max(j, 0), bottom)) * width;
    const float *row1 = from + static_cast<uint64>(min(max(j + 1, 0), bottom)) * width;
    const float above = fmaf(a, row0[i1], (1 - a) * row0[i0]);
    const float below = fmaf(a, row1[i1], (1 - a) * row1[i0]);
    to[at.to] = fmaf(b, below, (1 - b) * above);
}

#endif

// micro_texture.cu: kernels of the experiments on textures, on the link to the host and on
// launches. They are no rungs: gpuopt/experiments launches them by name.

#ifndef GPUOPT_RUNGS

#include "common.cuh"

// Nothing: what is left of its time is the launch.
extern "C" __global__ void micro_empty() {}

// Every item `steps` steps further in a linear congruential generator: work of any length, whose
// result is known exactly.
extern "C" __global__ void micro_advance_uint32(uint32_t *items, uint64 n, unsigned steps) {
    for (uint64 i = global_thread(); i < n; i += global_threads()) {
        uint32_t item = items[i];
        for (unsigned step = 0; step < steps; step++)
            item = item * 1664525u + 1013904223u;
        items[i] = item;
    }
}

// --- one output a thread, from item i + shift of linear memory

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

// --- one output a thread, from a plane: point (column, row) of the output reads the coordinates
// (x + column * step_x, y + row * step_y). Threads take the points along rows, or down columns;
// they store to neighbouring places in both cases.

struct point {
    unsigned column, row;
};
__device__ inline point point_of(uint64 thread, unsigned width, unsigned height, int down) {
    return down ? point{static_cast<unsigned>(thread / height),
                        static_cast<unsigned>(thread % height)}
                : point{static_cast<unsigned>(thread % width),
                        static_cast<unsigned>(thread / width)};
}

extern "C" __global__ void micro_plane_load(const float *from, float *to, unsigned width,
                                            unsigned height, int down) {
    const uint64 thread = global_thread();
    const point at = point_of(thread, width, height, down);
    if (thread < static_cast<uint64>(width) * height)
        to[thread] = from[static_cast<uint64>(at.row) * width + at.column];
}

extern "C" __global__ void micro_plane_texture(cudaTextureObject_t from, float *to, unsigned width,
                                               unsigned height, int down, float x, float y,
                                               float step_x, float step_y) {
    const uint64 thread = global_thread();
    const point at = point_of(thread, width, height, down);
    if (thread < static_cast<uint64>(width) * height)
        to[thread] = tex2D<float>(from, fmaf(at.column, step_x, x), fmaf(at.row, step_y, y));
}

// What the texture's linear filter does, by loads and arithmetic, clamped: with all the bits of a
// float in its weights.
extern "C" __global__ void micro_plane_bilinear(const float *from, float *to, unsigned width,
                                                unsigned height, int down, float x, float y,
                                                float step_x, float step_y) {
    const uint64 thread = global_thread();
    const point at = point_of(thread, width, height, down);
    if (thread >= static_cast<uint64>(width) * height)
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
    to[thread] = fmaf(b, below, (1 - b) * above);
}

#endif

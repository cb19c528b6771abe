// micro.cu: the decks' experiments: small kernels that show one property of a GPU each.
//
// No ladder: the kernels of an experiment stand side by side, and gpuopt/experiments/ launches
// them.
//
// To add one: a row below, a template, and its name in the list at the end.

#ifdef GPUOPT_RUNGS
// clang-format off
//   the kernel's symbol, its experiment, what it does
PROBE("micro_literal_double", "double_literal", "2.5 * v * (1.0 - v): the literals make it double arithmetic")
PROBE("micro_literal_float", "double_literal", "2.5f * v * (1.0f - v): float arithmetic")
// clang-format on
#else

#include "common.cuh"

namespace micro {

// --- double_literal: the logistic map, which tends to 0.6 from everywhere between 0 and 1.

struct literal_double { // each step converts to double and back
    static __device__ float step(float v) { return 2.5 * v * (1.0 - v); }
};
struct literal_float {
    static __device__ float step(float v) { return 2.5f * v * (1.0f - v); }
};
template <class Map>
__device__ void iterate(const float *from, float *to, uint64 n, unsigned steps) {
    const uint64 i = global_thread();
    if (i >= n)
        return;
    float v = from[i];
    for (unsigned k = 0; k < steps; k++)
        v = Map::step(v);
    to[i] = v;
}

// --- the kernels

#define MICRO_LITERAL(map)                                                         \
    extern "C" __global__ void micro_##map(const float *from, float *to, uint64 n, \
                                           unsigned steps) {                       \
        iterate<map>(from, to, n, steps);                                          \
    }
MICRO_LITERAL(literal_double)
MICRO_LITERAL(literal_float)

} // namespace micro

#endif

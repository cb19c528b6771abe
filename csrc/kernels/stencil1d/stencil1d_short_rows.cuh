// stencil1d_short_rows.cuh: rung 5 of stencil1d.cu for rows shorter than the window. Contains no
// kernel.
#pragma once

#include "stencil1d_windows.cuh"

namespace stencil1d {

// Rows that are shorter than the window: every input meets several weights of an output, whose sum
// multiplies it once. A block adds those up in shared memory, for each input and output of a row.

// Calls add(first, end) for the runs of `apart`-th weights of output j that meet input i.
template <class In, class Acc, class Add>
__device__ void weights_of(const stencil<In, Acc> &s, int i, int j, Add add) {
    const int n = static_cast<int>(s.n), left = static_cast<int>(s.first - s.before) + j;
    const int width = static_cast<int>(s.width);
    if (s.mode == CONSTANT || s.mode == NEAREST || n == 1) {
        const bool repeats = s.mode != CONSTANT;
        add(repeats && i == 0 ? 0 : i - left, repeats && i == n - 1 ? width : i - left + 1, 1);
        return;
    }
    const int period = s.mode == WRAP ? n : s.mode == REFLECT ? 2 * n : 2 * n - 2;
    const auto add_every = [&](int input) {
        const int k = (input - left) % period;
        add(k < 0 ? k + period : k, width, period);
    };
    add_every(i);
    const int mirrored = period - i - (s.mode == REFLECT);
    if (s.mode != WRAP && mirrored % period != i)
        add_every(mirrored);
}
template <class Acc>
__device__ Acc sum_of_weights(const Acc *weights, int width, int first, int end, int apart) {
    Acc sum = 0;
#pragma unroll 4
    for (int k = max(first, 0); k < min(end, width); k += apart)
        sum = sum_of(sum, weights[k]);
    return sum;
}
template <class T> __device__ bool is_finite(T sum) {
    return T(0.5) == 0 || isfinite(float64(sum));
}

// The sum of an output whose inputs are not all finite.
template <class In, class Acc>
__device__ __noinline__ In short_sum(stencil<In, Acc> s, int64 output) {
    return s.weights ? plain_sum<op_weighted>(s, output) : plain_sum<op_sum>(s, output);
}

// Fills a row's `sums` of weights for each input and output, and what the constant adds to each
// output; `weights` is room for those.
template <class In, class Acc>
__device__ void add_up_weights(const stencil<In, Acc> &s, Acc *sums, Acc *constants, Acc *weights) {
    const unsigned t = threadIdx.x, n = unsigned(s.n), outputs = unsigned(s.outputs);
    const int width = static_cast<int>(s.width);
    for (unsigned k = t; k < unsigned(width); k += THREADS)
        weights[k] = s.weights ? static_cast<Acc>(s.weights[k]) : Acc(1);
    __syncthreads();
    for (unsigned at = t; at < n * outputs; at += THREADS) {
        const unsigned i = at / outputs;
        Acc sum = 0;
        weights_of(s, int(i), int(at - i * outputs), [&](int first, int end, int apart) {
            sum = sum_of(sum, sum_of_weights(weights, width, first, end, apart));
        });
        sums[at] = sum;
    }
    for (unsigned j = t; j < outputs; j += THREADS) {
        const int left = int(s.first - s.before) + int(j);
        constants[j] = 0;
        if (s.mode == CONSTANT)
            constants[j] =
                op_weighted::add(Acc(0), static_cast<Acc>(s.beyond),
                                 sum_of(sum_of_weights(weights, width, 0, -left, 1),
                                        sum_of_weights(weights, width, int(n) - left, width, 1)));
    }
}

// In line: as a call, rows of 4 elements take 1.4 times as long on an H200.
template <class In, class Acc> __device__ __forceinline__ void short_rows(stencil<In, Acc> s) {
    constexpr unsigned AT_ONCE = 4, LOADS = 5; // rows of a thread; its loads in flight
    static_assert(GROUP % LOADS == 0, "a tile");
    const unsigned t = threadIdx.x, n = unsigned(s.n), outputs = unsigned(s.outputs);
    Acc *sums = shared_memory<Acc>(), *constants = sums + n * outputs;
    Acc *tile = constants + outputs; // converted once; before that, the weights
    add_up_weights(s, sums, constants, tile);
    const unsigned lines = TILE / n, side = THREADS / outputs; // rows of a tile; and at once
    const unsigned j = t % outputs, own = t / outputs;
    // A thread's inputs are `step` rows and some inputs apart.
    const bool has_gaps = s.has_gaps();
    const unsigned step = has_gaps ? THREADS / n : 0, rest = THREADS - step * n;
    const unsigned own_row = has_gaps ? t / n : 0, own_input = t - own_row * n;
#pragma unroll 1
    for (int64 first = int64(blockIdx.x) * lines; first < s.rows; first += gridDim.x * lines) {
        const unsigned there = s.rows - first < lines ? unsigned(s.rows - first) : lines;
        const In *from = s.in + first * s.pitch;
        __syncthreads(); // the sums are complete, and the previous tile is read
#pragma unroll 1
        for (unsigned base = t, row = own_row, at = own_input; base < TILE;
             base += LOADS * THREADS) {
            In loaded[LOADS];
#pragma unroll
            for (unsigned k = 0; k < LOADS; k++) {
                if (base + k * THREADS < there * n)
                    loaded[k] =
                        has_gaps ? from[row * s.pitch + at * s.step] : from[base + k * THREADS];
                row += step;
                at += rest;
                if (has_gaps && at >= n) {
                    at -= n;
                    row++;
                }
            }
#pragma unroll
            for (unsigned k = 0; k < LOADS; k++)
                tile[base + k * THREADS] = static_cast<Acc>(loaded[k]);
        }
        __syncthreads();
#pragma unroll 1
        for (unsigned row = own; own < side && row < there; row += AT_ONCE * side) {
            unsigned items[AT_ONCE];
            Acc made[AT_ONCE];
#pragma unroll
            for (unsigned q = 0; q < AT_ONCE; q++) {
                items[q] = (row + q * side < there ? row + q * side : row) * n;
                made[q] = constants[j];
            }
#pragma unroll 4
            for (unsigned i = 0; i < n; i++) {
                const Acc weight = sums[i * outputs + j];
#pragma unroll
                for (unsigned q = 0; q < AT_ONCE; q++)
                    made[q] = op_weighted::add(made[q], tile[items[q] + i], weight);
            }
#pragma unroll
            for (unsigned q = 0; q < AT_ONCE; q++)
                if (row + q * side < there) {
                    const int64 output = (first + row + q * side) * outputs + j;
                    // The weights of an infinite input must not cancel, nor their sum overflow.
                    s.out[output] =
                        is_finite(made[q]) ? static_cast<In>(made[q]) : short_sum(s, output);
                }
        }
    }
}

} // namespace stencil1d

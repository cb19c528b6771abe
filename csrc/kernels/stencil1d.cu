// stencil1d.cu: the one-dimensional stencil of deck D1: output i is the sum of the inputs i -
// radius to i + radius, plain or weighted.
//
// Beyond the array's ends an input comes from inside, or is a constant, as the mode says. Every
// output is added up from its own inputs alone, from left to right. A rung's comment says what is
// new against the one before.
//
// To add a rung: a row in RUNGS, a template below, and its name in the list at the end.

// (operation, items, accumulator). Integers are weighted in float64 where a weight is no integer.
#define STENCIL1D_SIGNATURES(SIGNATURE)   \
    SIGNATURE(sum, int32, int32)          \
    SIGNATURE(sum, int64, int64)          \
    SIGNATURE(sum, int32, float64)        \
    SIGNATURE(sum, int64, float64)        \
    SIGNATURE(sum, float32, float32)      \
    SIGNATURE(sum, float32, float64)      \
    SIGNATURE(sum, float64, float64)      \
    SIGNATURE(weighted, int32, int32)     \
    SIGNATURE(weighted, int64, int64)     \
    SIGNATURE(weighted, int32, float64)   \
    SIGNATURE(weighted, int64, float64)   \
    SIGNATURE(weighted, float32, float32) \
    SIGNATURE(weighted, float32, float64) \
    SIGNATURE(weighted, float64, float64)

// What an input beyond the ends is; the order of gpuopt/_families.py.
#define STENCIL1D_MODES(MODE) MODE(CONSTANT) MODE(NEAREST) MODE(REFLECT) MODE(MIRROR) MODE(WRAP)

#ifdef GPUOPT_RUNGS
// clang-format off
//   number, name, kernel, lesson, source,
//   threads a block (least, most, default), items a thread, flags, the deck's time: it gives none
RUNG(1, "global", "stencil1d_1",
     "every thread reads its 2r + 1 inputs from global memory: every input is read 2r + 1 times",
     "D1 stencil, straightforward", 32, 1024, 256, 1, 0, 0)
RUNG(2, "shared", "stencil1d_2",
     "a block loads its inputs and the halo into shared memory once; a barrier, then the sum",
     "D1 stencil with shared memory", 32, 1024, 256, 1, 0, 0)
RUNG(2, "2-historical", "stencil1d_2h",
     "the deck's listing without the barrier: a thread reads the halo before it is there",
     "D1 stencil, the data race", 32, 1024, 256, 1, RUNG_HISTORICAL, 0)
RUNG(3, "registers", "stencil1d_3",
     "several outputs a thread, from a window of inputs that slides through its registers",
     "after D1 and D2", 32, 1024, 128, 4, RUNG_WIDE, 0)
RUNG(4, "vector", "stencil1d_4",
     "loads and stores of 16 bytes; the neighbours' packs come from the first-level cache",
     "after the decks", 32, 1024, 128, 4, RUNG_WIDE, 0)
RUNG(5, "shared-sums", "stencil1d_5",
     "wide windows: the sums of whole groups of inputs serve all the windows that hold them",
     "after the decks: van Herk 1992, Gil and Werman 1993", 128, 128, 128, 4, RUNG_BEST | RUNG_WIDE, 0)
// clang-format on
#else

#include "common.cuh"

namespace stencil1d {

enum mode : unsigned {
#define MODE(name) name,
    STENCIL1D_MODES(MODE)
#undef MODE
};

// Where to read input i of n, which lies outside; -1 for a constant. A call, so that its arithmetic
// stays out of the way of all the blocks that have no use for it.
__device__ __noinline__ int64 beyond_ends(int64 i, int64 n, unsigned mode) {
    if (mode == NEAREST)
        return i < 0 ? 0 : n - 1;
    if (mode == CONSTANT || (mode == MIRROR && n == 1))
        return mode == CONSTANT ? -1 : 0;
    const int64 period = mode == WRAP ? n : mode == REFLECT ? 2 * n : 2 * n - 2;
    i %= period;
    if (i < 0)
        i += period;
    return i < n ? i : period - i - (mode == REFLECT);
}
__device__ inline int64 inside(int64 i, int64 n, unsigned mode) {
    return i >= 0 && i < n ? i : beyond_ends(i, n, mode);
}

// Weights and the constant come in float64 also where the sum is in float32.
template <class Acc> struct given { using type = Acc; };
template <> struct given<float32> { using type = float64; };

// What a rung is given. An output's number is that of its middle input, less `first`.
template <class In, class Acc> struct stencil {
    const In *in;
    const typename given<Acc>::type *weights; // 2 * radius + 1 of them
    In *out;
    int64 n, outputs, first, radius;
    unsigned mode;
    typename given<Acc>::type beyond; // what the constant mode reads

    __device__ bool whole(int64 left, int64 right) const { return left >= 0 && right < n; }
    __device__ Acc read(int64 i) const {
        const int64 at = inside(i, n, mode);
        return static_cast<Acc>(at < 0 ? beyond : in[at]);
    }
};

// sum + weight * item; integers wrap.
struct op_sum {
    template <class Acc>
    static __device__ Acc add(Acc sum, Acc item, const typename given<Acc>::type *, int64) {
        using W = typename wrapping<Acc>::type;
        return static_cast<Acc>(W(sum) + W(item));
    }
};
struct op_weighted {
    template <class Acc>
    static __device__ Acc add(Acc sum, Acc item, const typename given<Acc>::type *weights,
                              int64 k) {
        using W = typename wrapping<Acc>::type;
        const Acc weight = static_cast<Acc>(__ldg(&weights[k]));
        return static_cast<Acc>(W(sum) + W(weight) * W(item));
    }
};

// --- the rungs

template <class Op, class In, class Acc> __device__ void stencil1d_1(const stencil<In, Acc> &s) {
    const int64 output = global_thread();
    if (output >= s.outputs)
        return;
    const int64 left = s.first + output - s.radius, width = 2 * s.radius + 1;
    Acc sum = 0;
    if (s.whole(left, left + width - 1)) {
        for (int64 k = 0; k < width; k++)
            sum = Op::add(sum, static_cast<Acc>(s.in[left + k]), s.weights, k);
    } else {
        for (int64 k = 0; k < width; k++)
            sum = Op::add(sum, s.read(left + k), s.weights, k);
    }
    s.out[output] = static_cast<In>(sum);
}

// Inputs of a window that shared memory holds at a time: more than the deck's case needs.
constexpr unsigned PIECE = 1024;
constexpr unsigned LEAST_BLOCK = 32;

// New: the block's inputs, and those on both sides of them, go through shared memory. A window
// wider than PIECE comes in pieces. `Width` is the window where it is known when compiling.
template <bool Barrier, unsigned Width, class Op, class In, class Acc>
__device__ Acc shared_window(const stencil<In, Acc> &s) {
    In *tile = shared_memory<In>();
    const unsigned t = threadIdx.x, block = blockDim.x;
    const int64 width = Width ? Width : 2 * s.radius + 1;
    const int64 left = s.first - s.radius + static_cast<int64>(blockIdx.x) * block;
    Acc sum = 0;
    for (int64 begin = 0; begin < width; begin += PIECE) {
        const unsigned piece = Width                   ? Width
                               : width - begin < PIECE ? static_cast<unsigned>(width - begin)
                                                       : PIECE;
        const unsigned items = block + piece - 1;
        const int64 start = left + begin;
        if (s.whole(start, start + items - 1)) {
            // The halo's load does not wait until the first load's item is stored.
            const bool has_halo = t < piece - 1;
            const In own = s.in[start + t];
            const In halo = has_halo ? s.in[start + block + t] : In(0);
            tile[t] = own;
            if (has_halo)
                tile[block + t] = halo;
            if (Width == 0 || Width > LEAST_BLOCK)
                for (unsigned i = t + 2 * block; i < items; i += block)
                    tile[i] = s.in[start + i];
        } else {
            for (unsigned i = t; i < items; i += block) {
                const int64 at = inside(start + i, s.n, s.mode);
                tile[i] = at < 0 ? In(0) : s.in[at];
            }
        }
        if (Barrier)
            __syncthreads();
        if (s.mode != CONSTANT || s.whole(start, start + items - 1)) {
#pragma unroll
            for (unsigned k = 0; k < piece; k++)
                sum = Op::add(sum, static_cast<Acc>(tile[t + k]), s.weights, begin + k);
        } else {
            for (unsigned k = 0; k < piece; k++) {
                const int64 i = start + t + k;
                const Acc item = static_cast<Acc>(s.whole(i, i) ? tile[t + k] : s.beyond);
                sum = Op::add(sum, item, s.weights, begin + k);
            }
        }
        if (Barrier && begin + PIECE < width)
            __syncthreads(); // the next piece overwrites this one
    }
    return sum;
}

template <bool Barrier, class Op, class In, class Acc>
__device__ void shared_rung(const stencil<In, Acc> &s) {
    // The deck's radius, unrolled; any other.
    const Acc sum =
        s.radius == 3 ? shared_window<Barrier, 7, Op>(s) : shared_window<Barrier, 0, Op>(s);
    const int64 output = global_thread();
    if (output < s.outputs)
        s.out[output] = static_cast<In>(sum);
}
template <class Op, class In, class Acc> __device__ void stencil1d_2(const stencil<In, Acc> &s) {
    shared_rung<true, Op>(s);
}

// Historical: the deck's listing before its barrier. A race.
template <class Op, class In, class Acc> __device__ void stencil1d_2h(const stencil<In, Acc> &s) {
    shared_rung<false, Op>(s);
}

// New: a thread has OUTPUTS neighbouring outputs. Their k-th inputs are a window in its registers,
// which moves on by one item as k does: an input is loaded once for all of them.
constexpr unsigned OUTPUTS = 4;

template <bool Whole, unsigned Width, class Op, class In, class Acc>
__device__ void sliding_window(const stencil<In, Acc> &s, int64 left, Acc (&sums)[OUTPUTS]) {
    const int64 width = Width ? Width : 2 * s.radius + 1;
    Acc window[OUTPUTS];
#pragma unroll
    for (unsigned j = 0; j < OUTPUTS; j++) {
        window[j] = Whole ? static_cast<Acc>(s.in[left + j]) : s.read(left + j);
        sums[j] = 0;
    }
#pragma unroll
    for (int64 k = 0; k < width; k++) {
#pragma unroll
        for (unsigned j = 0; j < OUTPUTS; j++)
            sums[j] = Op::add(sums[j], window[j], s.weights, k);
#pragma unroll
        for (unsigned j = 0; j + 1 < OUTPUTS; j++)
            window[j] = window[j + 1];
        const int64 next = left + k + OUTPUTS;
        if (k + 1 < width)
            window[OUTPUTS - 1] = Whole ? static_cast<Acc>(s.in[next]) : s.read(next);
    }
}

template <class T> struct alignas(OUTPUTS * sizeof(T) < 16 ? OUTPUTS * sizeof(T) : 16) group {
    T items[OUTPUTS];
};

template <class Op, class In, class Acc> __device__ void stencil1d_3(const stencil<In, Acc> &s) {
    const int64 output = static_cast<int64>(global_thread()) * OUTPUTS;
    if (output >= s.outputs)
        return;
    const int64 left = s.first + output - s.radius;
    Acc sums[OUTPUTS];
    if (!s.whole(left, left + 2 * s.radius + OUTPUTS - 1))
        sliding_window<false, 0, Op>(s, left, sums);
    else if (s.radius == 3)
        sliding_window<true, 7, Op>(s, left, sums);
    else
        sliding_window<true, 0, Op>(s, left, sums);
    if (output + OUTPUTS <= s.outputs) {
        group<In> items;
#pragma unroll
        for (unsigned j = 0; j < OUTPUTS; j++)
            items.items[j] = static_cast<In>(sums[j]);
        *reinterpret_cast<group<In> *>(s.out + output) = items;
    } else {
#pragma unroll
        for (unsigned j = 0; j < OUTPUTS; j++)
            if (output + j < s.outputs)
                s.out[output + j] = static_cast<In>(sums[j]);
    }
}

// New: where windows begin and end near packs of 16 bytes, a thread loads whole packs: its own and
// SIDES on either side, which its neighbours load as well. Wider windows slide as before.
// `Radius` is the radius where it is known when compiling, else 0.
template <unsigned Sides, int Radius, class Op, class In, class Acc>
__device__ void packed_window(const stencil<In, Acc> &s, int64 middle, Acc (&sums)[OUTPUTS]) {
    constexpr int reach = Sides * (16 / sizeof(In)); // items on either side
    constexpr int packs = (2 * reach + OUTPUTS) * sizeof(In) / 16;
    union {
        uint4 packs[packs];
        In items[2 * reach + OUTPUTS];
    } window;
    const uint4 *from = reinterpret_cast<const uint4 *>(s.in + middle - reach);
    const int radius = Radius ? Radius : static_cast<int>(s.radius);
#pragma unroll
    for (int p = 0; p < packs; p++)
        window.packs[p] = from[p];
#pragma unroll
    for (unsigned j = 0; j < OUTPUTS; j++)
        sums[j] = 0;
#pragma unroll
    for (int k = -reach; k <= reach; k++)
        if (k >= -radius && k <= radius)
#pragma unroll
            for (unsigned j = 0; j < OUTPUTS; j++)
                sums[j] = Op::add(sums[j], static_cast<Acc>(window.items[reach + int(j) + k]),
                                  s.weights, k + radius);
}

template <class Op, class In, class Acc> __device__ void stencil1d_4(const stencil<In, Acc> &s) {
    constexpr int64 pack = 16 / sizeof(In);
    const int64 output = static_cast<int64>(global_thread()) * OUTPUTS;
    const int64 middle = s.first + output, left = middle - s.radius;
    if (output >= s.outputs)
        return;
    Acc sums[OUTPUTS];
    const uint64 addresses =
        reinterpret_cast<uint64>(s.in + s.first) | reinterpret_cast<uint64>(s.out);
    const bool packs = addresses % 16 == 0 && output + int64(OUTPUTS) <= s.outputs;
    const bool inside = s.whole(middle - 2 * pack, middle + OUTPUTS + 2 * pack - 1);
    if (packs && inside && s.radius == 3)
        packed_window<(3 + pack - 1) / pack, 3, Op>(s, middle, sums);
    else if (packs && inside && s.radius <= pack)
        packed_window<1, 0, Op>(s, middle, sums);
    else if (packs && inside && s.radius <= 2 * pack)
        packed_window<2, 0, Op>(s, middle, sums);
    else if (s.whole(left, left + 2 * s.radius + OUTPUTS - 1))
        sliding_window<true, 0, Op>(s, left, sums);
    else
        sliding_window<false, 0, Op>(s, left, sums);
    if (packs) {
        group<In> items;
#pragma unroll
        for (unsigned j = 0; j < OUTPUTS; j++)
            items.items[j] = static_cast<In>(sums[j]);
        *reinterpret_cast<group<In> *>(s.out + output) = items;
    } else {
#pragma unroll
        for (unsigned j = 0; j < OUTPUTS; j++)
            if (output + j < s.outputs)
                s.out[output + j] = static_cast<In>(sums[j]);
    }
}

// New: plain sums over WIDE_RADIUS and more. A thread has GROUP neighbouring outputs. Their windows
// begin in its own group of inputs, from whose end it adds up the part of each; then they hold the
// same `whole` groups, whose sums the block's threads have made once; then they end within the next
// two groups, in which the thread goes on item by item. So every output is still a sum of its own
// inputs, but of 2 * radius + 1 additions some 6 are left. Shared memory has one word more a group,
// so that neighbouring threads, GROUP items apart, meet different banks.
constexpr unsigned GROUP = 16, THREADS = 128;
constexpr int64 WIDE_RADIUS = 8, WIDEST_RADIUS = 1024;

template <class T> __device__ T sum_of(T a, T b) {
    using W = typename wrapping<T>::type;
    return static_cast<T>(W(a) + W(b));
}

template <class In> __device__ In *place(In *tile, unsigned item) {
    return tile + item + item / GROUP;
}

// Loads the block's inputs, from `left` on; beyond the ends 0 for a constant.
template <class In, class Acc>
__device__ void load_groups(const stencil<In, Acc> &s, In *tile, int64 left, unsigned items) {
    const unsigned t = threadIdx.x;
    if (!s.whole(left, left + items - 1)) {
        for (unsigned i = t; i < items; i += THREADS) {
            const int64 at = inside(left + i, s.n, s.mode);
            *place(tile, i) = at < 0 ? In(0) : s.in[at];
        }
        return;
    }
    const In *from = s.in + left + t;
    In loaded[GROUP];
#pragma unroll
    for (unsigned k = 0; k < GROUP; k++)
        loaded[k] = from[k * THREADS];
#pragma unroll
    for (unsigned k = 0; k < GROUP; k++)
        *place(tile, t + k * THREADS) = loaded[k];
    for (unsigned i = GROUP * THREADS + t; i < items; i += THREADS)
        *place(tile, i) = s.in[left + i];
}

// What the constant beyond the ends adds to an output, whose tile had 0 there.
template <class In, class Acc>
__device__ Acc beyond_sum(const stencil<In, Acc> &s, int64 left, int64 width) {
    const int64 before = left < 0 ? (left + width < 0 ? width : -left) : 0;
    const int64 after = left + width > s.n ? (left > s.n ? width : left + width - s.n) : 0;
    using W = typename wrapping<Acc>::type;
    return before + after ? static_cast<Acc>(W(static_cast<Acc>(s.beyond)) * W(before + after))
                          : Acc(0);
}

template <class In, class Acc> __device__ void stencil1d_groups(const stencil<In, Acc> &s) {
    const unsigned t = threadIdx.x, width = 2 * unsigned(s.radius) + 1;
    const unsigned groups = (GROUP * THREADS + 2 * unsigned(s.radius) + GROUP - 1) / GROUP;
    Acc *group_sums = shared_memory<Acc>();
    In *tile = reinterpret_cast<In *>(group_sums + groups);
    const int64 first = static_cast<int64>(blockIdx.x) * (GROUP * THREADS);
    const int64 left = s.first + first - s.radius;
    load_groups(s, tile, left, groups * GROUP);
    __syncthreads();

    Acc parts[GROUP], sum = 0;
#pragma unroll
    for (int k = GROUP - 1; k >= 0; k--)
        parts[k] = sum = sum_of(sum, static_cast<Acc>(*place(tile, t * GROUP + k)));
    group_sums[t] = sum;
    for (unsigned g = THREADS + t; g < groups; g += THREADS) {
        sum = 0;
#pragma unroll
        for (int k = GROUP - 1; k >= 0; k--)
            sum = sum_of(sum, static_cast<Acc>(*place(tile, g * GROUP + k)));
        group_sums[g] = sum;
    }
    __syncthreads();

    const unsigned whole = width / GROUP - 1, rest = width % GROUP;
    const In *ends = place(tile, (t + 1 + whole) * GROUP);
    sum = 0;
    for (unsigned g = 1; g <= whole; g++)
        sum = sum_of(sum, group_sums[t + g]);
    for (unsigned k = 0; k < rest; k++)
        sum = sum_of(sum, static_cast<Acc>(ends[k]));
    const bool constant =
        s.mode == CONSTANT && !s.whole(left, left + GROUP * THREADS + 2 * s.radius - 1);
#pragma unroll
    for (unsigned k = 0; k < GROUP; k++) {
        parts[k] = sum_of(parts[k], sum);
        if (constant)
            parts[k] = sum_of(parts[k], beyond_sum(s, left + t * GROUP + k, width));
        if (k + 1 < GROUP)
            sum = sum_of(sum, static_cast<Acc>(ends[rest + k + (rest + k) / GROUP]));
    }
    __syncthreads();
#pragma unroll
    for (unsigned k = 0; k < GROUP; k++)
        *place(tile, t * GROUP + k) = static_cast<In>(parts[k]);
    __syncthreads();
    In *to = s.out + first + t;
    const bool all = first + GROUP * THREADS <= s.outputs;
#pragma unroll
    for (unsigned k = 0; k < GROUP; k++)
        if (all || first + t + k * THREADS < s.outputs)
            __stcs(to + k * THREADS, *place(tile, t + k * THREADS));
}

template <class Op> struct shares_sums {
    static __device__ bool at(int64) { return false; }
};
template <> struct shares_sums<op_sum> {
    static __device__ bool at(int64 radius) {
        return radius >= WIDE_RADIUS && radius <= WIDEST_RADIUS;
    }
};

template <class Op, class In, class Acc> __device__ void stencil1d_5(const stencil<In, Acc> &s) {
    if (shares_sums<Op>::at(s.radius))
        stencil1d_groups(s);
    else
        stencil1d_4<Op>(s);
}

// --- the kernels: stencil1d_<rung>_<operation>_<items>_<accumulator>

using type_int32 = int32;
using type_int64 = int64;
using type_float32 = float32;
using type_float64 = float64;

#define STENCIL1D_KERNEL(rung, op, items, acc)                                                  \
    extern "C" __global__ void rung##_##op##_##items##_##acc(                                   \
        const type_##items *in, const given<type_##acc>::type *weights, type_##items *out,      \
        int64 n, int64 outputs, int64 first, int64 radius, uint64 mode,                         \
        given<type_##acc>::type beyond) {                                                       \
        rung<op_##op>(stencil<type_##items, type_##acc>{                                        \
            in, weights, out, n, outputs, first, radius, static_cast<unsigned>(mode), beyond}); \
    }
#define STENCIL1D_KERNEL_5(rung, op, items, acc)                                                \
    extern "C" __global__ void __launch_bounds__(THREADS, 6) rung##_##op##_##items##_##acc(     \
        const type_##items *in, const given<type_##acc>::type *weights, type_##items *out,      \
        int64 n, int64 outputs, int64 first, int64 radius, uint64 mode,                         \
        given<type_##acc>::type beyond) {                                                       \
        rung<op_##op>(stencil<type_##items, type_##acc>{                                        \
            in, weights, out, n, outputs, first, radius, static_cast<unsigned>(mode), beyond}); \
    }
#define STENCIL1D_EVERY_RUNG(op, items, acc)       \
    STENCIL1D_KERNEL(stencil1d_1, op, items, acc)  \
    STENCIL1D_KERNEL(stencil1d_2, op, items, acc)  \
    STENCIL1D_KERNEL(stencil1d_2h, op, items, acc) \
    STENCIL1D_KERNEL(stencil1d_3, op, items, acc)  \
    STENCIL1D_KERNEL(stencil1d_4, op, items, acc)  \
    STENCIL1D_KERNEL_5(stencil1d_5, op, items, acc)

STENCIL1D_SIGNATURES(STENCIL1D_EVERY_RUNG)

} // namespace stencil1d

#endif

// reduce_axis.cu: reductions along an axis: outer x reduced x inner items become outer x inner
// results, from arrays of every shape and layout.
//
// Any axes of any layout come down to that, once neighbouring axes are merged (gpuopt/_axis.py); an
// array with gaps may leave several outer and inner axes. A reduction of one item to each result
// is a copy: it makes an array contiguous, or converts it.
// ops_reduce_axis.c chooses the shape of the work; where few results leave most of the GPU idle it
// splits the reduced axis, and the same kernel combines the partial results: no atomics, and a tree
// that depends on sizes alone.

// (operation, items, accumulator). Few kernels serve many: `key` turns one order of items into
// another (a maximum is a minimum of complements, an unsigned item with its top bit flipped
// compares as a signed one, `and` is `or` of complements, a count without the sign bit takes -0.0
// for 0). `bits` is `or`, or with mask 0 `xor`; any, all and the sums of bool are counts.
#define REDUCE_AXIS_SIGNATURES(SIGNATURE) \
    SIGNATURE(sum, int8, int64)           \
    SIGNATURE(sum, int16, int64)          \
    SIGNATURE(sum, int32, int64)          \
    SIGNATURE(sum, int64, int64)          \
    SIGNATURE(sum, int64, float64)        \
    SIGNATURE(sum, float16, float64)      \
    SIGNATURE(sum, bfloat16, float64)     \
    SIGNATURE(sum, float32, float64)      \
    SIGNATURE(sum, float64, float64)      \
    SIGNATURE(prod, int64, int64)         \
    SIGNATURE(prod, float32, float64)     \
    SIGNATURE(prod, float64, float64)     \
    SIGNATURE(min, int8, int8)            \
    SIGNATURE(min, int16, int16)          \
    SIGNATURE(min, int32, int32)          \
    SIGNATURE(min, int64, int64)          \
    SIGNATURE(min, float16, float32)      \
    SIGNATURE(min, bfloat16, float32)     \
    SIGNATURE(min, float32, float32)      \
    SIGNATURE(min, float64, float64)      \
    SIGNATURE(bits, int8, int8)           \
    SIGNATURE(bits, int16, int16)         \
    SIGNATURE(bits, int32, int32)         \
    SIGNATURE(bits, int64, int64)         \
    SIGNATURE(count, int8, int64)         \
    SIGNATURE(count, int16, int64)        \
    SIGNATURE(count, int32, int64)        \
    SIGNATURE(count, int64, int64)        \
    SIGNATURE(argmin, int8, int64)        \
    SIGNATURE(argmin, int16, int64)       \
    SIGNATURE(argmin, int32, int64)       \
    SIGNATURE(argmin, int64, int64)       \
    SIGNATURE(argmin, float16, int64)     \
    SIGNATURE(argmin, bfloat16, int64)    \
    SIGNATURE(argmin, float32, int64)     \
    SIGNATURE(argmin, float64, int64)

#ifdef GPUOPT_RUNGS
// clang-format off
RUNG(1, "shapes", "reduce_axis",
     "small slabs through shared memory, long rows and columns by 16-byte packs, the rest by items",
     "after the decks", 256, 256, 256, 0, RUNG_BEST, 0)
// clang-format on
#else

#include "common.cuh"
#include "reduce_axis_plan.cuh"

namespace axis {

constexpr unsigned BLOCK = AXIS_BLOCK;
constexpr unsigned IN_FLIGHT = AXIS_IN_FLIGHT;

struct half { // its bits
    uint16_t bits;
};
__device__ inline float32 widened(half item) {
    float32 value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(item.bits));
    return value;
}
template <class T> __device__ T narrowed(float64 value);
template <> __device__ half narrowed(float64 value) {
    half item;
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(item.bits) : "d"(value));
    return item;
}

struct bfloat { // bfloat16's bits: the upper half of a float32's
    uint16_t bits;
};
__device__ inline float32 widened(bfloat item) { return __int_as_float(int32(item.bits) << 16); }
// Rounded once, to nearest even: what is lost on the way to float32 stays as an odd last bit.
template <> __device__ bfloat narrowed(float64 value) {
    const float32 cut = __double2float_rz(value);
    uint32_t bits = uint32_t(__float_as_int(cut)) | (float64(cut) != value);
    if (value != value)
        return bfloat{uint16_t(bits >> 16 | 0x40)};
    bits += 0x7fff + (bits >> 16 & 1);
    return bfloat{uint16_t(bits >> 16)};
}

// --- items in another order: their bits, xor a key

template <class T> __device__ T keyed(T item, int64 key) { return T(item ^ T(key)); }
template <> __device__ half keyed(half item, int64 key) {
    return half{uint16_t(item.bits ^ uint16_t(key))};
}
template <> __device__ bfloat keyed(bfloat item, int64 key) {
    return bfloat{uint16_t(item.bits ^ uint16_t(key))};
}
template <> __device__ float32 keyed(float32 item, int64 key) {
    return __int_as_float(__float_as_int(item) ^ int32(key));
}
template <> __device__ float64 keyed(float64 item, int64 key) {
    return __longlong_as_double(__double_as_longlong(item) ^ key);
}

// What items are compared as.
template <class T> struct compared {
    using type = T;
    static __device__ T of(T item) { return item; }
    static __device__ T back(T value) { return value; }
    static __device__ T highest() { return T((uint64(1) << (8 * sizeof(T) - 1)) - 1); }
};
template <class T> struct compared_wider {
    using type = float32;
    static __device__ float32 of(T item) { return widened(item); }
    static __device__ T back(float32 value) { return narrowed<T>(value); }
    static __device__ float32 highest() { return __int_as_float(0x7f800000); }
};
template <> struct compared<half> : compared_wider<half> {};
template <> struct compared<bfloat> : compared_wider<bfloat> {};
template <> __device__ float32 compared<float32>::highest() { return __int_as_float(0x7f800000); }
template <> __device__ float64 compared<float64>::highest() {
    return __longlong_as_double(0x7ff0000000000000);
}

// --- operations: load() an item, apply() to two values, identity() that changes nothing; raw() is
// what a partial result is stored as, an item that the second pass loads again.

struct settings {
    int64 key, mask;
};

// For sums `key` keeps the bits of an unsigned item when it is widened: -1 for signed ones.
template <class Acc, class In> __device__ Acc as_number(In item, int64 key) {
    return Acc(int64(item) & key);
}
template <> __device__ float64 as_number(int64 item, int64 key) {
    return key == -1 ? float64(item) : float64(uint64(item));
}
template <> __device__ float64 as_number(half item, int64) { return widened(item); }
template <> __device__ float64 as_number(bfloat item, int64) { return widened(item); }
template <> __device__ float64 as_number(float32 item, int64) { return item; }
template <> __device__ float64 as_number(float64 item, int64) { return item; }

template <class In, class Out> struct op_sum {
    using Acc = Out;
    using Raw = Acc;
    settings s;
    static __device__ Acc identity() { return 0; }
    __device__ Acc load(In item, int64) const { return as_number<Acc>(item, s.key); }
    __device__ Acc apply(Acc a, Acc b) const {
        using W = typename wrapping<Acc>::type;
        return Acc(W(a) + W(b));
    }
    __device__ Raw raw(Acc a) const { return a; }
};
template <class In, class Out> struct op_prod {
    using Acc = Out;
    using Raw = Acc;
    settings s;
    static __device__ Acc identity() { return 1; }
    __device__ Acc load(In item, int64) const { return as_number<Acc>(item, -1); }
    __device__ Acc apply(Acc a, Acc b) const {
        using W = typename wrapping<Acc>::type;
        return Acc(W(a) * W(b));
    }
    __device__ Raw raw(Acc a) const { return a; }
};
template <class In, class Out> struct op_count {
    using Acc = int64;
    using Raw = int64;
    settings s;
    static __device__ Acc identity() { return 0; }
    __device__ Acc load(In item, int64) const { return (item & In(s.key)) != 0; }
    __device__ Acc apply(Acc a, Acc b) const { return a + b; }
    __device__ Raw raw(Acc a) const { return a; }
};
template <class In, class Out> struct op_bits {
    using Acc = In;
    using Raw = In;
    settings s;
    static __device__ Acc identity() { return 0; }
    __device__ Acc load(In item, int64) const { return keyed(item, s.key); }
    __device__ Acc apply(Acc a, Acc b) const { return Acc(a ^ b ^ (a & b & Acc(s.mask))); }
    __device__ Raw raw(Acc a) const { return keyed(a, s.key); }
};
// A NaN on either side wins, as in NumPy: (a != a) keeps a's, and a false comparison b's.
template <class In, class Out> struct op_min {
    using Acc = typename compared<In>::type;
    using Raw = In;
    settings s;
    static __device__ Acc identity() { return compared<In>::highest(); }
    __device__ Acc load(In item, int64) const { return compared<In>::of(keyed(item, s.key)); }
    __device__ Acc apply(Acc a, Acc b) const { return a < b || a != a ? a : b; }
    __device__ Raw raw(Acc a) const { return keyed(compared<In>::back(a), s.key); }
};
template <class V> struct placed {
    V value;
    int64 index;
};
// The first of equals; the first NaN before everything. The identity is behind them all. With mask
// -1 the items are looked at from the last to the first: places are counted from -1 downwards, and
// the number of items, in `divisor`, is added to the result.
template <class In, class Out> struct op_argmin {
    using V = typename compared<In>::type;
    using Acc = placed<V>;
    using Raw = In;
    settings s;
    static __device__ Acc identity() { return {compared<In>::highest(), INT64_MAX}; }
    __device__ Acc load(In item, int64 index) const {
        return {compared<In>::of(keyed(item, s.key)), index ^ s.mask};
    }
    __device__ Acc apply(Acc a, Acc b) const {
        const bool equal = a.value == b.value || (a.value != a.value && b.value != b.value);
        const bool first = equal ? a.index < b.index : a.value < b.value || a.value != a.value;
        return {first ? a.value : b.value, first ? a.index : b.index};
    }
    __device__ Raw raw(Acc a) const { return keyed(compared<In>::back(a.value), s.key); }
};

// --- packs of 16 bytes

template <class In> struct alignas(16) pack {
    static constexpr unsigned count = 16 / sizeof(In);
    In items[count];
};

// A pack of consecutive reduced items into one value. Small ones are first added up in 32 bits: a
// 64-bit addition an item would take longer than the memory.
template <class Op, class In>
__device__ typename Op::Acc fold(const Op &op, const pack<In> &p, int64 index) {
    typename Op::Acc value = op.load(p.items[0], index);
#pragma unroll
    for (unsigned i = 1; i < pack<In>::count; i++)
        value = op.apply(value, op.load(p.items[i], index + i));
    return value;
}
template <> __device__ int64 fold(const op_sum<int8_t, int64> &op, const pack<int8_t> &p, int64) {
    const int32 *words = reinterpret_cast<const int32 *>(&p);
    int32 value = 0;
#pragma unroll
    for (unsigned i = 0; i < 4; i++)
        value = op.s.key == -1 ? __dp4a(words[i], 0x01010101, value)
                               : int32(__dp4a(uint32_t(words[i]), 0x01010101u, uint32_t(value)));
    return value;
}
template <> __device__ int64 fold(const op_sum<int16_t, int64> &op, const pack<int16_t> &p, int64) {
    int32 value = 0;
#pragma unroll
    for (unsigned i = 0; i < 8; i++)
        value += int32(p.items[i]) & int32(op.s.key);
    return value;
}
template <> __device__ float64 fold(const op_sum<half, float64> &op, const pack<half> &p, int64) {
    float32 value = widened(p.items[0]);
#pragma unroll
    for (unsigned i = 1; i < 8; i++)
        value += widened(p.items[i]);
    return value;
}
// As above, but float32 may overflow where the whole sum does not.
template <>
__device__ float64 fold(const op_sum<bfloat, float64> &op, const pack<bfloat> &p, int64) {
    float32 value = widened(p.items[0]);
#pragma unroll
    for (unsigned i = 1; i < 8; i++)
        value += widened(p.items[i]);
    if (value - value == 0)
        return value;
    float64 wide = 0;
    for (unsigned i = 0; i < 8; i++)
        wide += widened(p.items[i]);
    return wide;
}
template <> __device__ int64 fold(const op_count<int8_t, int64> &op, const pack<int8_t> &p, int64) {
    const uint32_t *words = reinterpret_cast<const uint32_t *>(&p);
    const uint32_t kept = uint32_t(uint8_t(op.s.key)) * 0x01010101u;
    int32 value = 0;
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        const uint32_t word = words[i] & kept;
        value += __popc(((word & 0x7f7f7f7fu) + 0x7f7f7f7fu | word) & 0x80808080u);
    }
    return value;
}

// --- trees

template <class T> __device__ T from_lane(T value, unsigned distance) {
    constexpr unsigned words = (sizeof(T) + 3) / 4;
    union {
        T value;
        unsigned words[words];
    } u = {};
    u.value = value;
#pragma unroll
    for (unsigned i = 0; i < words; i++)
        u.words[i] = __shfl_xor_sync(0xffffffff, u.words[i], distance);
    return u.value;
}

// Lanes in groups of `width`, a power of two, each to one value.
template <class Op>
__device__ typename Op::Acc group_tree(const Op &op, typename Op::Acc value, unsigned width) {
    for (unsigned distance = width / 2; distance > 0; distance /= 2)
        value = op.apply(value, from_lane(value, distance));
    return value;
}

// The block's values to one, in thread 0.
template <class Op> __device__ typename Op::Acc block_tree(const Op &op, typename Op::Acc value) {
    using Acc = typename Op::Acc;
    Acc *partial = shared_memory<Acc>();
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    value = group_tree(op, value, 32);
    if (lane == 0)
        partial[warp] = value;
    __syncthreads();
    if (warp == 0)
        value = group_tree(op, lane < BLOCK / 32 ? partial[lane] : Op::identity(), 32);
    return value;
}

// --- the work, as ops_reduce_axis.c planned it

// Not inlined: its divisions would be much of what is compiled for every kernel.
__device__ __noinline__ int64 offset_of(uint64 index, int64 step_0, uint64 period_0,
                                        uint64 period_1, uint64 period_2, int64 step_1,
                                        int64 step_2, int64 step_3) {
    uint64 rest = index / period_0;
    int64 at = int64(index - rest * period_0) * step_0;
    if (!period_1)
        return at + int64(rest) * step_1;
    index = rest;
    rest = index / period_1;
    at += int64(index - rest * period_1) * step_1;
    if (!period_2)
        return at + int64(rest) * step_2;
    index = rest;
    rest = index / period_2;
    return at + int64(index - rest * period_2) * step_2 + int64(rest) * step_3;
}

// Several axes on one side, the last of them first: axis 0 has `stride`, the next ones the steps of
// `more`. The number of an item on axis k goes up to `period[k]`, where that is not 0.
struct axes {
    int64 stride;
    uint64 period[3];
    int64 more[3];

    __device__ int64 offset(uint64 index) const {
        if (!period[0])
            return int64(index) * stride;
        return offset_of(index, stride, period[0], period[1], period[2], more[0], more[1], more[2]);
    }
};

// Outer item o, reduced item r, inner item i lies at in[outer offset of o + r * stride + inner
// offset of i]; its result is number o * inner + i, of partial results (o * splits + split) * inner
// + i.
struct work {
    int64 *out_index;
    const int64 *in_index; // of argmin's second pass: where the partial results were found
    uint64 outer, reduced, inner;
    int64 stride;
    axes outer_axes, inner_axes;
    settings s;
    uint64 finish;
    float64 divisor;
    uint64 shape, splits, share, wide, group, tiles;
};

template <class Number>
__device__ void store_number(const work &w, void *out, uint64 at, Number a) {
    const float64 wide = w.divisor != 0 ? float64(a) / w.divisor : float64(a);
    switch (w.finish) {
    case AXIS_FLOAT64:
        static_cast<float64 *>(out)[at] = wide;
        break;
    case AXIS_FLOAT32:
        static_cast<float32 *>(out)[at] = float32(wide);
        break;
    case AXIS_FLOAT16:
        static_cast<half *>(out)[at] = narrowed<half>(wide);
        break;
    case AXIS_BFLOAT16:
        static_cast<bfloat *>(out)[at] = narrowed<bfloat>(wide);
        break;
    case AXIS_INT8:
        static_cast<int8_t *>(out)[at] = int8_t(int64(a));
        break;
    case AXIS_INT16:
        static_cast<int16_t *>(out)[at] = int16_t(int64(a));
        break;
    case AXIS_INT32:
        static_cast<int32 *>(out)[at] = int32(int64(a));
        break;
    case AXIS_INT64:
        static_cast<int64 *>(out)[at] = int64(a);
        break;
    case AXIS_ANY:
        static_cast<int8_t *>(out)[at] = a != 0;
        break;
    case AXIS_ALL:
        static_cast<int8_t *>(out)[at] = float64(a) == w.divisor;
        break;
    case AXIS_ODD:
        static_cast<int8_t *>(out)[at] = int64(a) & 1;
        break;
    default:
        static_cast<Number *>(out)[at] = a;
    }
}
template <class Op> struct storing {
    static __device__ void store(const Op &op, const work &w, void *out, uint64 at,
                                 typename Op::Acc a) {
        static_cast<typename Op::Raw *>(out)[at] = op.raw(a);
    }
};
template <class In, class Acc> struct storing<op_sum<In, Acc>> {
    static __device__ void store(const op_sum<In, Acc> &, const work &w, void *out, uint64 at,
                                 Acc a) {
        store_number(w, out, at, a);
    }
};
template <class In, class Acc> struct storing<op_prod<In, Acc>> {
    static __device__ void store(const op_prod<In, Acc> &, const work &w, void *out, uint64 at,
                                 Acc a) {
        store_number(w, out, at, a);
    }
};
template <class In> struct storing<op_count<In, int64>> {
    static __device__ void store(const op_count<In, int64> &, const work &w, void *out, uint64 at,
                                 int64 a) {
        store_number(w, out, at, a);
    }
};
template <class In> struct storing<op_argmin<In, int64>> {
    using Op = op_argmin<In, int64>;
    static __device__ void store(const Op &op, const work &w, void *out, uint64 at,
                                 typename Op::Acc a) {
        if (w.finish == AXIS_RAW) {
            static_cast<In *>(out)[at] = op.raw(a);
            w.out_index[at] = a.index;
        } else {
            static_cast<int64 *>(out)[at] = a.index + int64(w.divisor);
        }
    }
};

// --- the shapes of work

// `wide` slabs of reduced x inner items, which lie one after the other, go through shared memory:
// the loads are 16 bytes wide and coalesced, however short a row is. Then `group` lanes take a
// result.
template <class Op, class In>
__device__ void staged(const Op &op, const In *in, void *out, const work &w) {
    using Acc = typename Op::Acc;
    constexpr unsigned at_once = 4;
    const unsigned slab = unsigned(w.reduced * w.inner), reduced = unsigned(w.reduced),
                   inner = unsigned(w.inner), group = unsigned(w.group);
    const uint64 first = blockIdx.x * w.wide;
    const unsigned slabs = unsigned(w.outer - first < w.wide ? w.outer - first : w.wide);
    const uint64 begin = reinterpret_cast<uint64>(in), end = begin + w.outer * slab * sizeof(In);
    const uint64 start = begin + first * slab * sizeof(In), aligned = start / 16 * 16;
    const unsigned skipped = unsigned(start - aligned);
    const unsigned packs = (skipped + slabs * slab * unsigned(sizeof(In)) + 15) / 16;
    pack<In> *stage = shared_memory<pack<In>>();
    for (unsigned p = threadIdx.x; p < packs; p += at_once * BLOCK) {
        pack<In> loaded[at_once];
#pragma unroll
        for (unsigned k = 0; k < at_once; k++) {
            const uint64 from = aligned + uint64(p + k * BLOCK) * 16;
            if (p + k * BLOCK >= packs)
                continue;
            if (from >= begin && from + 16 <= end)
                loaded[k] = *reinterpret_cast<const pack<In> *>(from);
            else
                for (unsigned i = 0; i < pack<In>::count; i++) {
                    const uint64 item = from + i * sizeof(In);
                    loaded[k].items[i] =
                        item >= begin && item < end ? *reinterpret_cast<const In *>(item) : In{};
                }
        }
#pragma unroll
        for (unsigned k = 0; k < at_once; k++)
            if (p + k * BLOCK < packs)
                stage[p + k * BLOCK] = loaded[k];
    }
    __syncthreads();
    const In *items = reinterpret_cast<const In *>(stage) + skipped / sizeof(In);
    const unsigned results = slabs * inner, lane = threadIdx.x % group;
    // Rows of few banks begin at another item each, so that a warp's lanes meet in no bank.
    const unsigned row_bytes = reduced * unsigned(sizeof(In));
    const unsigned apart = row_bytes < 128 ? 128 / row_bytes : 1;
    for (unsigned base = 0; base < results; base += BLOCK / group) {
        const unsigned result = base + threadIdx.x / group;
        Acc value = Op::identity();
        if (result < results) {
            const unsigned s = result / inner;
            const In *row = items + s * slab + (result - s * inner);
            unsigned r = lane;
            if (inner == 1)
                r = (lane + result / apart * group) % reduced;
            for (unsigned k = lane; k < reduced; k += group) {
                value = op.apply(value, op.load(row[r * inner], r));
                r += group;
                r = r >= reduced ? inner == 1 ? r - reduced : r : r;
            }
        }
        value = group_tree(op, value, group);
        if (result < results && lane == 0)
            storing<Op>::store(op, w, out, first * inner + result, value);
    }
}

// A block takes a row, or a share of one: packs along the row.
template <class Op, class In>
__device__ void rows(const Op &op, const In *in, void *out, const work &w) {
    using Acc = typename Op::Acc;
    const uint64 o = blockIdx.x / w.splits, split = blockIdx.x - o * w.splits;
    const uint64 first = split * w.share;
    const uint64 n = w.reduced - first < w.share ? w.reduced - first : w.share;
    const In *row = in + w.outer_axes.offset(o) + first;
    const unsigned off = unsigned(reinterpret_cast<uint64>(row) % 16 / sizeof(In));
    const unsigned to_boundary = off ? pack<In>::count - off : 0;
    const unsigned before = n < to_boundary ? unsigned(n) : to_boundary;
    const pack<In> *packs = reinterpret_cast<const pack<In> *>(row + before);
    const uint64 count = (n - before) / pack<In>::count;
    const uint64 tail = before + count * pack<In>::count;
    Acc value = Op::identity();
    for (uint64 p = threadIdx.x; p < count; p += IN_FLIGHT * BLOCK) {
        const bool all = p + (IN_FLIGHT - 1) * BLOCK < count;
        pack<In> loaded[IN_FLIGHT];
#pragma unroll
        for (unsigned k = 0; k < IN_FLIGHT; k++)
            if (all || p + k * BLOCK < count)
                loaded[k] = packs[p + k * BLOCK];
#pragma unroll
        for (unsigned k = 0; k < IN_FLIGHT; k++)
            if (all || p + k * BLOCK < count)
                value = op.apply(
                    value,
                    fold(op, loaded[k], int64(first + before + (p + k * BLOCK) * pack<In>::count)));
    }
    if (threadIdx.x < before)
        value = op.apply(value, op.load(row[threadIdx.x], int64(first + threadIdx.x)));
    if (tail + threadIdx.x < n)
        value =
            op.apply(value, op.load(row[tail + threadIdx.x], int64(first + tail + threadIdx.x)));
    value = block_tree(op, value);
    if (threadIdx.x == 0)
        storing<Op>::store(op, w, out, blockIdx.x, value);
}

// What a thread of `columns` loads at once, as neighbouring columns.
template <class In> struct alone {
    static constexpr unsigned count = 1;
    In items[1];
};

// `wide` threads stand side by side, each on a column (of a pack: on neighbouring ones); the others
// of the block are on the next rows of the same columns.
template <class Op, class In, class Pack>
__device__ void columns(const Op &op, const In *in, void *out, const work &w) {
    using Acc = typename Op::Acc;
    constexpr unsigned at_once = Pack::count == 1 ? IN_FLIGHT : IN_FLIGHT / 2;
    const unsigned wide = unsigned(w.wide), high = BLOCK / wide;
    const unsigned x = threadIdx.x % wide, y = threadIdx.x / wide;
    const uint64 above = blockIdx.x / w.tiles, tile = blockIdx.x - above * w.tiles;
    const uint64 o = above / w.splits, split = above - o * w.splits;
    const uint64 column = tile * wide + x;
    const bool here = y < high && column * Pack::count < w.inner;
    const uint64 first = split * w.share;
    const uint64 end = w.reduced - first < w.share ? w.reduced : first + w.share;
    const int64 from = w.outer_axes.offset(o) + w.inner_axes.offset(column * Pack::count);
    Acc values[Pack::count];
#pragma unroll
    for (unsigned i = 0; i < Pack::count; i++)
        values[i] = Op::identity();
    for (uint64 r = first + y; here && r < end; r += at_once * high) {
        const bool all = r + (at_once - 1) * high < end;
        Pack loaded[at_once];
#pragma unroll
        for (unsigned k = 0; k < at_once; k++)
            if (all || r + k * high < end)
                loaded[k] =
                    *reinterpret_cast<const Pack *>(in + from + int64(r + k * high) * w.stride);
#pragma unroll
        for (unsigned k = 0; k < at_once; k++)
            if (all || r + k * high < end)
#pragma unroll
                for (unsigned i = 0; i < Pack::count; i++) {
                    int64 index = int64(r + k * high);
                    if (Pack::count == 1 && w.in_index) // raw results lie without gaps
                        index = w.in_index[from + int64(r + k * high) * w.stride];
                    values[i] = op.apply(values[i], op.load(loaded[k].items[i], index));
                }
    }
    Acc *partial = shared_memory<Acc>();
#pragma unroll
    for (unsigned i = 0; i < Pack::count; i++) {
        if (high > 1) {
            __syncthreads();
            if (y < high)
                partial[threadIdx.x] = values[i];
            for (unsigned left = high; left > 1;) {
                const unsigned keep = (left + 1) / 2;
                __syncthreads();
                if (y + keep < left)
                    partial[threadIdx.x] =
                        op.apply(partial[threadIdx.x], partial[threadIdx.x + keep * wide]);
                left = keep;
            }
            if (y == 0)
                values[i] = partial[threadIdx.x];
        }
        if (here && y == 0)
            storing<Op>::store(op, w, out, above * w.inner + column * Pack::count + i, values[i]);
    }
}

template <class Op, class In> __device__ void reduce_axis(const In *in, void *out, const work &w) {
    const Op op = {w.s};
    switch (w.shape) {
    case AXIS_STAGED:
        staged(op, in, out, w);
        break;
    case AXIS_ROWS:
        rows(op, in, out, w);
        break;
    case AXIS_PACKS:
        columns<Op, In, pack<In>>(op, in, out, w);
        break;
    default:
        columns<Op, In, alone<In>>(op, in, out, w);
    }
}

using type_int8 = int8_t;
using type_int16 = int16_t;
using type_int32 = int32;
using type_int64 = int64;
using type_float16 = half;
using type_bfloat16 = bfloat;
using type_float32 = float32;
using type_float64 = float64;

// --- the kernels: reduce_axis_<operation>_<items>_<accumulator>

#define AXES(side)                                                                               \
    int64 side##_stride, uint64 side##_period_0, uint64 side##_period_1, uint64 side##_period_2, \
        int64 side##_stride_1, int64 side##_stride_2, int64 side##_stride_3
#define AXES_OF(side)                                                         \
    {                                                                         \
        side##_stride, {side##_period_0, side##_period_1, side##_period_2}, { \
            side##_stride_1, side##_stride_2, side##_stride_3                 \
        }                                                                     \
    }
#define KERNEL_AXIS(op, in, acc)                                                               \
    extern "C" __global__ void __launch_bounds__(BLOCK) reduce_axis_##op##_##in##_##acc(       \
        const type_##in *items, void *results, int64 *out_index, const int64 *in_index,        \
        uint64 outer, uint64 reduced, uint64 inner, int64 stride, AXES(outer), AXES(inner),    \
        int64 key, int64 mask, uint64 finish, float64 divisor, uint64 shape, uint64 splits,    \
        uint64 share, uint64 wide, uint64 group, uint64 tiles) {                               \
        const work w = {out_index,      in_index,       outer,       reduced, inner,   stride, \
                        AXES_OF(outer), AXES_OF(inner), {key, mask}, finish,  divisor, shape,  \
                        splits,         share,          wide,        group,   tiles};          \
        reduce_axis<op_##op<type_##in, type_##acc>>(items, results, w);                        \
    }

REDUCE_AXIS_SIGNATURES(KERNEL_AXIS)

} // namespace axis

#endif

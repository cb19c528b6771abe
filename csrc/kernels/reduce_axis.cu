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

namespace axis {

constexpr unsigned BLOCK = 256;
constexpr unsigned BLOCKS = 4; // of a multiprocessor: what registers a kernel may have

struct half {                                   // its bits
    static constexpr bool may_overflow = false; // a few of them in float32
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
    static constexpr bool may_overflow = true;
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
        const bool nan = a.value != a.value, both = nan & (b.value != b.value); // no branches
        const bool equal = a.value == b.value | both, before = a.index < b.index;
        const bool first = equal & before | !equal & (a.value < b.value | nan);
        return {first ? a.value : b.value, first ? a.index : b.index};
    }
    __device__ Raw raw(Acc a) const { return keyed(compared<In>::back(a.value), s.key); }
};

template <class Op> constexpr bool has_places = false;
template <class In, class Out> constexpr bool has_places<op_argmin<In, Out>> = true;

// --- packs of 16 bytes

template <class In> union alignas(16) pack {
    static constexpr unsigned count = 16 / sizeof(In);
    uint4 words;
    uint32_t word[4];
    In items[count];
};

// A load that is under way while others are, or zeros: a branch around it would wait for it.
__device__ inline uint4 load_if(bool there, const uint4 *from) {
    uint4 words = {0, 0, 0, 0};
    asm volatile("{ .reg .pred there;\n"
                 "setp.ne.u32 there, %5, 0;\n"
                 "@there ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4]; }"
                 : "+r"(words.x), "+r"(words.y), "+r"(words.z), "+r"(words.w)
                 : "l"(__cvta_generic_to_global(from)), "r"(unsigned(there)));
    return words;
}

// --- what a thread makes of the packs that it meets: lane i of all their items i. Its n-th pack
// has place n; add() takes several, `apart` from each other, of which those before `left` are
// there. part() is what is kept of a lane, whole() makes the operation's value of it.

// Place p of lane 0 is item first + p * step.
struct places {
    int64 first, step;
};

template <bool All> __device__ inline bool is_there(unsigned k, unsigned apart, unsigned left) {
    return All || k * apart < left;
}

template <class Op, class In, unsigned Count> struct lanes {
    using Part = typename Op::Acc;
    Part values[Count];
    __device__ lanes() {
#pragma unroll
        for (unsigned i = 0; i < Count; i++)
            values[i] = Op::identity();
    }
    template <bool All, class Pack, unsigned N>
    __device__ void add(const Op &op, const Pack (&packs)[N], uint32_t, unsigned apart,
                        unsigned left) {
#pragma unroll
        for (unsigned k = 0; k < N; k++)
            if (is_there<All>(k, apart, left))
#pragma unroll
                for (unsigned i = 0; i < Count; i++)
                    values[i] = op.apply(values[i], op.load(packs[k].items[i], 0));
    }
    __device__ Part part(unsigned i) const { return values[i]; }
    static __device__ Part whole(const Op &, Part part, places) { return part; }
};

// Sums of bytes in 32 bits: a multiplication by 1 at the byte's place and 0 elsewhere picks it. No
// thread has 2^23 packs: the blocks together would have terabytes.
template <unsigned Count> struct byte_sums {
    using Part = int32;
    int32 values[Count];
    __device__ byte_sums() {
#pragma unroll
        for (unsigned i = 0; i < Count; i++)
            values[i] = 0;
    }
    __device__ Part part(unsigned i) const { return values[i]; }
};
template <> struct lanes<op_sum<int8_t, int64>, int8_t, 16> : byte_sums<16> {
    using Op = op_sum<int8_t, int64>;
    template <bool All, unsigned N>
    __device__ void add(const Op &op, const pack<int8_t> (&packs)[N], uint32_t, unsigned apart,
                        unsigned left) {
        const bool is_signed = op.s.key == -1;
#pragma unroll
        for (unsigned k = 0; k < N; k++)
            if (is_there<All>(k, apart, left))
#pragma unroll
                for (unsigned i = 0; i < 16; i++) {
                    const uint32_t word = packs[k].word[i / 4], pick = 1u << i % 4 * 8;
                    values[i] = is_signed ? __dp4a(int32(word), int32(pick), values[i])
                                          : int32(__dp4a(word, pick, uint32_t(values[i])));
                }
    }
    static __device__ int64 whole(const Op &op, Part part, places) {
        return op.s.key == -1 ? part : int64(uint32_t(part));
    }
};
// 0x80 for every byte that is not zero.
__device__ inline uint32_t nonzero_bytes(uint32_t word) {
    return ((word & 0x7f7f7f7fu) + 0x7f7f7f7fu | word) & 0x80808080u;
}
template <> struct lanes<op_count<int8_t, int64>, int8_t, 16> : byte_sums<16> {
    using Op = op_count<int8_t, int64>;
    template <bool All, unsigned N>
    __device__ void add(const Op &op, const pack<int8_t> (&packs)[N], uint32_t, unsigned apart,
                        unsigned left) {
        const uint32_t kept = uint32_t(uint8_t(op.s.key)) * 0x01010101u;
#pragma unroll
        for (unsigned k = 0; k < N; k++)
            if (is_there<All>(k, apart, left))
#pragma unroll
                for (unsigned i = 0; i < 16; i++)
                    values[i] = int32(__dp4a(nonzero_bytes(packs[k].word[i / 4] & kept),
                                             1u << i % 4 * 8, uint32_t(values[i])));
    }
    static __device__ int64 whole(const Op &, Part part, places) { return uint32_t(part) / 0x80; }
};

// Sums of 16-bit floats: a few in float32, then in float64.
template <class In, unsigned Count> struct small_float_sums {
    using Op = op_sum<In, float64>;
    using Part = float64;
    float64 values[Count];
    __device__ small_float_sums() {
#pragma unroll
        for (unsigned i = 0; i < Count; i++)
            values[i] = 0;
    }
    template <bool All, unsigned N>
    __device__ void add(const Op &op, const pack<In> (&packs)[N], uint32_t, unsigned, unsigned) {
        float32 sums[Count]; // packs that are not there are zeros
        float32 finite = 0;
#pragma unroll
        for (unsigned i = 0; i < Count; i++) {
            sums[i] = widened(packs[0].items[i]);
#pragma unroll
            for (unsigned k = 1; k < N; k++)
                sums[i] += widened(packs[k].items[i]);
            finite += sums[i] - sums[i];
        }
        if (In::may_overflow && finite != 0) { // in float32, where the whole sum may not
#pragma unroll
            for (unsigned i = 0; i < Count; i++)
#pragma unroll
                for (unsigned k = 0; k < N; k++)
                    values[i] += widened(packs[k].items[i]);
            return;
        }
#pragma unroll
        for (unsigned i = 0; i < Count; i++)
            values[i] += sums[i];
    }
    __device__ Part part(unsigned i) const { return values[i]; }
    static __device__ float64 whole(const Op &, Part part, places) { return part; }
};
template <> struct lanes<op_sum<half, float64>, half, 8> : small_float_sums<half, 8> {};
template <> struct lanes<op_sum<bfloat, float64>, bfloat, 8> : small_float_sums<bfloat, 8> {};

// Bits need no lanes: keys are 0 or -1, so that 32 of them are as good as an item.
template <class In, unsigned Count> struct lanes<op_bits<In, In>, In, Count> {
    using Op = op_bits<In, In>;
    using Part = In;
    pack<In> values;
    __device__ lanes() { values.words = {0, 0, 0, 0}; }
    template <bool All, unsigned N>
    __device__ void add(const Op &op, const pack<In> (&packs)[N], uint32_t, unsigned apart,
                        unsigned left) {
        const uint32_t key = uint32_t(op.s.key), mask = uint32_t(op.s.mask);
#pragma unroll
        for (unsigned k = 0; k < N; k++)
            if (is_there<All>(k, apart, left))
#pragma unroll
                for (unsigned i = 0; i < 4; i++) {
                    const uint32_t a = values.word[i], b = packs[k].word[i] ^ key;
                    values.word[i] = a ^ b ^ (a & b & mask);
                }
    }
    __device__ Part part(unsigned i) const { return values.items[i]; }
    static __device__ In whole(const Op &, Part part, places) { return part; }
};
template <class In> struct lanes<op_bits<In, In>, In, 1> {
    using Op = op_bits<In, In>;
    using Part = In;
    Part value = 0;
    template <bool All, class Pack, unsigned N>
    __device__ void add(const Op &op, const Pack (&packs)[N], uint32_t, unsigned apart,
                        unsigned left) {
#pragma unroll
        for (unsigned k = 0; k < N; k++)
            if (is_there<All>(k, apart, left))
                value = op.apply(value, op.load(packs[k].items[0], 0));
    }
    __device__ Part part(unsigned) const { return value; }
    static __device__ In whole(const Op &, Part part, places) { return part; }
};

// The smaller of the signed halves of two words.
__device__ inline uint32_t min_halves(uint32_t a, uint32_t b) {
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
    uint32_t smaller;
    asm("min.s16x2 %0, %1, %2;" : "=r"(smaller) : "r"(a), "r"(b));
    return smaller;
#else
    const uint32_t high = int32(a) < int32(b) ? a : b; // what is below decides only among equals
    const uint32_t low = int32(a << 16) < int32(b << 16) ? a : b;
    return (high & 0xffff0000u) | (low & 0xffffu);
#endif
}
template <> struct lanes<op_min<int16_t, int16_t>, int16_t, 8> {
    using Op = op_min<int16_t, int16_t>;
    using Part = int16_t;
    uint32_t values[4] = {0x7fff7fff, 0x7fff7fff, 0x7fff7fff, 0x7fff7fff};
    template <bool All, unsigned N>
    __device__ void add(const Op &op, const pack<int16_t> (&packs)[N], uint32_t, unsigned apart,
                        unsigned left) {
        const uint32_t key = uint32_t(uint16_t(op.s.key)) * 0x10001u;
#pragma unroll
        for (unsigned k = 0; k < N; k++)
            if (is_there<All>(k, apart, left))
#pragma unroll
                for (unsigned i = 0; i < 4; i++)
                    values[i] = min_halves(values[i], packs[k].word[i] ^ key);
    }
    __device__ Part part(unsigned i) const { return Part(values[i / 2] >> i % 2 * 16); }
    static __device__ int16_t whole(const Op &, Part part, places) { return part; }
};
// Bytes as the upper ones of such halves: what lies below decides only among equals.
template <> struct lanes<op_min<int8_t, int8_t>, int8_t, 16> {
    using Op = op_min<int8_t, int8_t>;
    using Part = int8_t;
    uint32_t odd[4] = {0x7fff7fff, 0x7fff7fff, 0x7fff7fff, 0x7fff7fff};
    uint32_t even[4] = {0x7fff7fff, 0x7fff7fff, 0x7fff7fff, 0x7fff7fff};
    template <bool All, unsigned N>
    __device__ void add(const Op &op, const pack<int8_t> (&packs)[N], uint32_t, unsigned apart,
                        unsigned left) {
        const uint32_t key = uint32_t(uint8_t(op.s.key)) * 0x01010101u;
#pragma unroll
        for (unsigned k = 0; k < N; k++)
            if (is_there<All>(k, apart, left))
#pragma unroll
                for (unsigned i = 0; i < 4; i++) {
                    const uint32_t word = packs[k].word[i] ^ key;
                    odd[i] = min_halves(odd[i], word);
                    even[i] = min_halves(even[i], word << 8);
                }
    }
    __device__ Part part(unsigned i) const {
        return Part((i % 2 ? odd : even)[i / 4] >> (i % 4 / 2 * 16 + 8));
    }
    static __device__ int8_t whole(const Op &, Part part, places) { return part; }
};

// Two 16-bit floats at once, where there is an instruction that keeps a NaN.
template <class In> __device__ uint32_t min_floats(uint32_t a, uint32_t b);
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 800
template <> __device__ uint32_t min_floats<half>(uint32_t a, uint32_t b) {
    uint32_t smaller;
    asm("min.NaN.f16x2 %0, %1, %2;" : "=r"(smaller) : "r"(a), "r"(b));
    return smaller;
}
template <> __device__ uint32_t min_floats<bfloat>(uint32_t a, uint32_t b) {
    uint32_t smaller;
    asm("min.NaN.bf16x2 %0, %1, %2;" : "=r"(smaller) : "r"(a), "r"(b));
    return smaller;
}
template <class In> struct min_small_floats {
    using Op = op_min<In, float32>;
    using Part = In;
    pack<In> values;
    __device__ min_small_floats() {
#pragma unroll
        for (unsigned i = 0; i < 8; i++)
            values.items[i] = compared<In>::back(Op::identity());
    }
    template <bool All, unsigned N>
    __device__ void add(const Op &op, const pack<In> (&packs)[N], uint32_t, unsigned apart,
                        unsigned left) {
        const uint32_t key = uint32_t(uint16_t(op.s.key)) * 0x10001u;
#pragma unroll
        for (unsigned k = 0; k < N; k++)
            if (is_there<All>(k, apart, left))
#pragma unroll
                for (unsigned i = 0; i < 4; i++)
                    values.word[i] = min_floats<In>(values.word[i], packs[k].word[i] ^ key);
    }
    __device__ Part part(unsigned i) const { return values.items[i]; }
    static __device__ float32 whole(const Op &, Part part, places) { return widened(part); }
};
template <> struct lanes<op_min<half, float32>, half, 8> : min_small_floats<half> {};
template <> struct lanes<op_min<bfloat, float32>, bfloat, 8> : min_small_floats<bfloat> {};
#endif

// A thread meets its items in order, so the first of equals stays, and a NaN; with mask -1 the last
// of equals takes its place, and the last NaN. NOWHERE: none yet.
constexpr uint32_t NOWHERE = UINT32_MAX;
template <class In, unsigned Count> struct lanes<op_argmin<In, int64>, In, Count> {
    using Op = op_argmin<In, int64>;
    using V = typename compared<In>::type;
    struct Part {
        V value;
        uint32_t place;
    };
    Part best[Count];
    __device__ lanes() {
#pragma unroll
        for (unsigned i = 0; i < Count; i++)
            best[i] = {compared<In>::highest(), NOWHERE};
    }
    template <bool All, class Pack, unsigned N>
    __device__ void add(const Op &op, const Pack (&packs)[N], uint32_t place, unsigned apart,
                        unsigned left) {
        const bool last = op.s.mask != 0;
#pragma unroll
        for (unsigned k = 0; k < N; k++) {
            if (!is_there<All>(k, apart, left))
                continue;
            const bool equal_is_better = last || place + k == 0;
#pragma unroll
            for (unsigned i = 0; i < Count; i++) {
                const V a = best[i].value, b = compared<In>::of(keyed(packs[k].items[i], op.s.key));
                const bool better =
                    b < a || (equal_is_better && b == a) || (b != b && (last || a == a));
                best[i].value = better ? b : a;
                best[i].place = better ? place + k : best[i].place;
            }
        }
    }
    __device__ Part part(unsigned i) const { return best[i]; }
    static __device__ placed<V> whole(const Op &op, Part part, places at) {
        if (part.place == NOWHERE)
            return Op::identity();
        return {part.value, (at.first + int64(part.place) * at.step) ^ op.s.mask};
    }
};
// A byte above its place is one number: with mask -1 a later place is a smaller one. No thread has
// 2^24 - 1 packs.
template <> struct lanes<op_argmin<int8_t, int64>, int8_t, 16> {
    using Op = op_argmin<int8_t, int64>;
    using Part = uint32_t;
    static constexpr uint32_t PLACE = 0xffffff;
    int32 best[16];
    __device__ lanes() {
#pragma unroll
        for (unsigned i = 0; i < 16; i++)
            best[i] = INT32_MAX;
    }
    template <bool All, unsigned N>
    __device__ void add(const Op &op, const pack<int8_t> (&packs)[N], uint32_t place,
                        unsigned apart, unsigned left) {
        const uint32_t key = uint32_t(uint8_t(op.s.key)) * 0x01010101u;
#pragma unroll
        for (unsigned k = 0; k < N; k++) {
            if (!is_there<All>(k, apart, left))
                continue;
            const uint32_t below = (place + k - uint32_t(op.s.mask) ^ uint32_t(op.s.mask)) & PLACE;
#pragma unroll
            for (unsigned i = 0; i < 16; i++) {
                const uint32_t byte = (packs[k].word[i / 4] ^ key) << (24 - i % 4 * 8);
                const int32 item = int32((byte & ~PLACE) | below);
                best[i] = item < best[i] ? item : best[i];
            }
        }
    }
    __device__ Part part(unsigned i) const { return uint32_t(best[i]); }
    static __device__ placed<int8_t> whole(const Op &op, Part part, places at) {
        if (part == INT32_MAX)
            return Op::identity();
        const uint32_t place = ((part ^ uint32_t(op.s.mask)) & PLACE) + uint32_t(op.s.mask);
        return {int8_t(part >> 24), (at.first + int64(place) * at.step) ^ op.s.mask};
    }
};

// --- the same where all lanes are of one result: folded() is its value

template <class Op, class In> struct along : lanes<Op, In, pack<In>::count> {
    __device__ typename Op::Acc folded(const Op &op, places at) const {
        constexpr unsigned count = pack<In>::count;
        typename Op::Acc values[count];
#pragma unroll
        for (unsigned i = 0; i < count; i++)
            values[i] = this->whole(op, this->part(i), {at.first + i, at.step});
#pragma unroll
        for (unsigned left = count / 2; left > 0; left /= 2)
#pragma unroll
            for (unsigned i = 0; i < left; i++)
                values[i] = op.apply(values[i], values[i + left]);
        return values[0];
    }
};
template <> struct along<op_sum<int8_t, int64>, int8_t> : byte_sums<4> {
    using Op = op_sum<int8_t, int64>;
    template <bool All, unsigned N>
    __device__ void add(const Op &op, const pack<int8_t> (&packs)[N], uint32_t, unsigned,
                        unsigned) { // packs that are not there are zeros
#pragma unroll
        for (unsigned k = 0; k < N; k++)
#pragma unroll
            for (unsigned i = 0; i < 4; i++)
                values[i] = op.s.key == -1
                                ? __dp4a(int32(packs[k].word[i]), 0x01010101, values[i])
                                : int32(__dp4a(packs[k].word[i], 0x01010101u, uint32_t(values[i])));
    }
    __device__ int64 folded(const Op &op, places) const {
        if (op.s.key == -1)
            return int64(values[0]) + values[1] + values[2] + values[3];
        return int64(uint32_t(values[0])) + uint32_t(values[1]) + uint32_t(values[2]) +
               uint32_t(values[3]);
    }
};
template <> struct along<op_count<int8_t, int64>, int8_t> : byte_sums<4> {
    using Op = op_count<int8_t, int64>;
    template <bool All, unsigned N>
    __device__ void add(const Op &op, const pack<int8_t> (&packs)[N], uint32_t, unsigned,
                        unsigned) {
        const uint32_t kept = uint32_t(uint8_t(op.s.key)) * 0x01010101u;
#pragma unroll
        for (unsigned k = 0; k < N; k++)
#pragma unroll
            for (unsigned i = 0; i < 4; i++)
                values[i] = int32(__dp4a(nonzero_bytes(packs[k].word[i] & kept) >> 7, 0x01010101u,
                                         uint32_t(values[i])));
    }
    __device__ int64 folded(const Op &, places) const {
        return int64(values[0]) + values[1] + values[2] + values[3];
    }
};
// A pack's items in float32, these sums in float64.
template <class In> struct along_small_floats {
    using Op = op_sum<In, float64>;
    float64 values[2] = {0, 0};
    template <bool All, unsigned N>
    __device__ void add(const Op &op, const pack<In> (&packs)[N], uint32_t, unsigned, unsigned) {
#pragma unroll
        for (unsigned k = 0; k < N; k++) {
            float32 sum = widened(packs[k].items[0]);
#pragma unroll
            for (unsigned i = 1; i < 8; i++)
                sum += widened(packs[k].items[i]);
            float64 wide = sum;
            if (In::may_overflow && sum - sum != 0) {
                wide = 0;
#pragma unroll
                for (unsigned i = 0; i < 8; i++)
                    wide += widened(packs[k].items[i]);
            }
            values[k % 2] += wide;
        }
    }
    __device__ float64 folded(const Op &, places) const { return values[0] + values[1]; }
};
template <> struct along<op_sum<half, float64>, half> : along_small_floats<half> {};
template <> struct along<op_sum<bfloat, float64>, bfloat> : along_small_floats<bfloat> {};
template <>
__device__ int8_t along<op_min<int8_t, int8_t>, int8_t>::folded(const op_min<int8_t, int8_t> &op,
                                                                places) const {
    uint32_t least = min_halves(odd[0], even[0]);
#pragma unroll
    for (unsigned i = 1; i < 4; i++)
        least = min_halves(least, min_halves(odd[i], even[i]));
    return op.apply(int8_t(least >> 24), int8_t(least >> 8));
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
#pragma unroll 1
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
enum shape { STAGED, GROUPS, ROWS, PACKS, ITEMS };

// What becomes of a result: raw for a second pass, else the caller's type. As ops_reduce_axis.c and
// gpuopt/_axis.py number them.
enum finish { RAW, FLOAT64, FLOAT32, INT8, INT16, INT32, INT64, ANY, ALL, ODD, FLOAT16, BFLOAT16 };

// Not inlined, as every shape of work would have it: what is seldom asked for.
template <class Number>
__device__ __noinline__ void store_as(void *out, uint64 at, Number a, uint64 finish,
                                      float64 divisor) {
    const float64 wide = divisor != 0 ? float64(a) / divisor : float64(a);
    switch (finish) {
    case FLOAT64:
        static_cast<float64 *>(out)[at] = wide;
        break;
    case FLOAT32:
        static_cast<float32 *>(out)[at] = float32(wide);
        break;
    case FLOAT16:
        static_cast<half *>(out)[at] = narrowed<half>(wide);
        break;
    case BFLOAT16:
        static_cast<bfloat *>(out)[at] = narrowed<bfloat>(wide);
        break;
    case INT8:
        static_cast<int8_t *>(out)[at] = int8_t(int64(a));
        break;
    case INT16:
        static_cast<int16_t *>(out)[at] = int16_t(int64(a));
        break;
    case INT32:
        static_cast<int32 *>(out)[at] = int32(int64(a));
        break;
    case INT64:
        static_cast<int64 *>(out)[at] = int64(a);
        break;
    case ANY:
        static_cast<int8_t *>(out)[at] = a != 0;
        break;
    case ALL:
        static_cast<int8_t *>(out)[at] = float64(a) == divisor;
        break;
    case ODD:
        static_cast<int8_t *>(out)[at] = int64(a) & 1;
        break;
    default:
        static_cast<Number *>(out)[at] = a;
    }
}
__device__ inline void store_number(const work &w, void *out, uint64 at, int64 a) {
    if (w.finish == INT64 || w.finish == RAW)
        static_cast<int64 *>(out)[at] = a;
    else
        store_as(out, at, a, w.finish, w.divisor);
}
__device__ inline void store_number(const work &w, void *out, uint64 at, float64 a) {
    if (w.finish == RAW)
        static_cast<float64 *>(out)[at] = a;
    else if (w.finish == FLOAT32 && w.divisor == 0)
        static_cast<float32 *>(out)[at] = float32(a);
    else
        store_as(out, at, a, w.finish, w.divisor);
}
template <class Op> struct storing {
    static constexpr bool as_items = true;
    static __device__ void store(const Op &op, const work &w, void *out, uint64 at,
                                 typename Op::Acc a) {
        static_cast<typename Op::Raw *>(out)[at] = op.raw(a);
    }
};
template <class In, class Acc> struct storing<op_sum<In, Acc>> {
    static constexpr bool as_items = false;
    static __device__ void store(const op_sum<In, Acc> &, const work &w, void *out, uint64 at,
                                 Acc a) {
        store_number(w, out, at, a);
    }
};
template <class In, class Acc> struct storing<op_prod<In, Acc>> {
    static constexpr bool as_items = false;
    static __device__ void store(const op_prod<In, Acc> &, const work &w, void *out, uint64 at,
                                 Acc a) {
        store_number(w, out, at, a);
    }
};
template <class In> struct storing<op_count<In, int64>> {
    static constexpr bool as_items = false;
    static __device__ void store(const op_count<In, int64> &, const work &w, void *out, uint64 at,
                                 int64 a) {
        store_number(w, out, at, a);
    }
};
template <class In> struct storing<op_argmin<In, int64>> {
    static constexpr bool as_items = false;
    using Op = op_argmin<In, int64>;
    static __device__ void store(const Op &op, const work &w, void *out, uint64 at,
                                 typename Op::Acc a) {
        if (w.finish == RAW) {
            static_cast<In *>(out)[at] = op.raw(a);
            w.out_index[at] = a.index;
        } else {
            static_cast<int64 *>(out)[at] = a.index + int64(w.divisor);
        }
    }
};

// --- the shapes of work

// One item as a pack of its own.
template <class In> struct alone { In items[1]; };

// `wide` slabs of reduced x inner items, which lie one after the other, go through shared memory:
// the loads are 16 bytes wide and coalesced, however short a row is. Then `group` lanes take a
// result.
template <class In>
__device__ const In *staged_items(const In *in, const work &w, uint64 first, unsigned items) {
    constexpr unsigned at_once = 4;
    const uint64 begin = reinterpret_cast<uint64>(in),
                 end = begin + w.outer * w.reduced * w.inner * sizeof(In),
                 start = begin + first * w.reduced * w.inner * sizeof(In),
                 aligned = start / 16 * 16;
    const unsigned skipped = unsigned(start - aligned);
    const unsigned packs = (skipped + items * unsigned(sizeof(In)) + 15) / 16;
    const uint4 *from = reinterpret_cast<const uint4 *>(aligned);
    pack<In> *stage = shared_memory<pack<In>>();
    // The first and the last pack may reach beyond the array.
    const unsigned whole_first = aligned < begin ? 1 : 0;
    const unsigned whole_end = end < aligned + uint64(packs) * 16 ? packs - 1 : packs;
#pragma unroll 1
    for (unsigned p = threadIdx.x; p < packs; p += at_once * BLOCK) {
        pack<In> loaded[at_once];
#pragma unroll
        for (unsigned k = 0; k < at_once; k++) {
            const unsigned at = p + k * BLOCK;
            loaded[k].words = load_if(at >= whole_first && at < whole_end, from + at);
        }
#pragma unroll
        for (unsigned k = 0; k < at_once; k++)
            if (p + k * BLOCK < packs)
                stage[p + k * BLOCK] = loaded[k];
    }
#pragma unroll 1
    for (unsigned edge = 0; edge < 2; edge++) { // by the thread that stored the pack
        const unsigned at = edge ? packs - 1 : 0;
        if (threadIdx.x != at % BLOCK || (at >= whole_first && at < whole_end))
            continue;
#pragma unroll 1
        for (unsigned i = 0; i < pack<In>::count; i++) {
            const uint64 item = aligned + uint64(at) * 16 + i * sizeof(In);
            if (item >= begin && item < end)
                stage[at].items[i] = *reinterpret_cast<const In *>(item);
        }
    }
    __syncthreads();
    return reinterpret_cast<const In *>(stage) + skipped / sizeof(In);
}

template <class Op, class In>
__device__ void staged(const Op &op, const In *in, void *out, const work &w) {
    using Acc = typename Op::Acc;
    const unsigned reduced = unsigned(w.reduced), inner = unsigned(w.inner),
                   group = unsigned(w.group), slab = reduced * inner;
    const uint64 first = blockIdx.x * w.wide;
    const unsigned slabs = unsigned(w.outer - first < w.wide ? w.outer - first : w.wide);
    const In *items = staged_items(in, w, first, slabs * slab);
    const unsigned results = slabs * inner, lane = threadIdx.x & (group - 1);
#pragma unroll 1
    for (unsigned base = 0; base < results; base += BLOCK / group) {
        const unsigned result = base + threadIdx.x / group;
        lanes<Op, In, 1> mine;
        if (result < results) {
            const unsigned s = inner == 1 ? result : result / inner;
            const In *row = items + s * slab + (result - s * inner);
            uint32_t place = 0;
            for (unsigned r = lane; r < reduced; r += group) {
                const alone<In> item[1] = {{{row[r * inner]}}};
                mine.template add<true>(op, item, place++, 0, 0);
            }
        }
        Acc value = mine.whole(op, mine.part(0), {lane, group});
        value = group_tree(op, value, group);
        if (result < results && lane == 0)
            storing<Op>::store(op, w, out, first * inner + result, value);
    }
}

// Rows of a few whole packs, one after the other: `group` lanes take a row of `wide` packs, a pack
// each, and AT_ONCE rows.
template <class Op, class In>
__device__ void groups(const Op &op, const In *in, void *out, const work &w) {
    using Acc = typename Op::Acc;
    constexpr unsigned AT_ONCE = 4;
    const unsigned group = unsigned(w.group), wide = unsigned(w.wide), rows = BLOCK / group,
                   x = threadIdx.x & (group - 1), y = threadIdx.x / group;
    const uint64 first = uint64(blockIdx.x) * (AT_ONCE * rows);
    const unsigned there =
        unsigned(w.outer - first < AT_ONCE * rows ? w.outer - first : AT_ONCE * rows);
    const uint4 *packs = reinterpret_cast<const uint4 *>(in) + (first + y) * wide + x;
    pack<In> loaded[AT_ONCE][1];
#pragma unroll
    for (unsigned k = 0; k < AT_ONCE; k++)
        loaded[k][0].words = load_if(x < wide && y + k * rows < there, packs + k * rows * wide);
    Acc values[AT_ONCE];
#pragma unroll
    for (unsigned k = 0; k < AT_ONCE; k++) {
        along<Op, In> mine;
        mine.template add<true>(op, loaded[k], 0, 0, 0);
        values[k] = x < wide ? mine.folded(op, {x * pack<In>::count, 0}) : Op::identity();
    }
#pragma unroll 1
    for (unsigned distance = group / 2; distance > 0; distance /= 2)
#pragma unroll
        for (unsigned k = 0; k < AT_ONCE; k++)
            values[k] = op.apply(values[k], from_lane(values[k], distance));
    Acc *results = shared_memory<Acc>(); // so that neighbours are stored by neighbours
    if (x == 0)
#pragma unroll
        for (unsigned k = 0; k < AT_ONCE; k++)
            results[y + k * rows] = values[k];
    __syncthreads();
#pragma unroll 1
    for (unsigned r = threadIdx.x; r < there; r += BLOCK)
        storing<Op>::store(op, w, out, first + r, results[r]);
}

// This thread's packs, every apart-th of `count`, into what `mine` keeps: AT_ONCE of them are under
// way before the first is waited for, in the last round too.
template <unsigned AT_ONCE, class Op, class In, class Mine>
__device__ void add_packs(const Op &op, Mine &mine, const In *at, int64 step, int64 left,
                          unsigned apart) {
    pack<In> loaded[AT_ONCE];
    uint32_t place = 0;
    for (; left > int64((AT_ONCE - 1) * apart); left -= AT_ONCE * apart) {
#pragma unroll
        for (unsigned k = 0; k < AT_ONCE; k++)
            loaded[k].words = __ldcs(reinterpret_cast<const uint4 *>(at + k * step));
        mine.template add<true>(op, loaded, place, apart, 0);
        at += AT_ONCE * step;
        place += AT_ONCE;
    }
    if (left <= 0)
        return;
#pragma unroll
    for (unsigned k = 0; k < AT_ONCE; k++)
        loaded[k].words =
            load_if(k * apart < unsigned(left), reinterpret_cast<const uint4 *>(at + k * step));
    mine.template add<false>(op, loaded, place, apart, unsigned(left));
}

// `group` threads, or the block, take a row, or a share of one: packs along the row.
template <class Op, class In>
__device__ void rows(const Op &op, const In *in, void *out, const work &w) {
    using Acc = typename Op::Acc;
    using Mine = along<Op, In>;
    constexpr unsigned AT_ONCE = has_places<Op> || sizeof(Mine) > 32 ? 4 : 8;
    constexpr unsigned count = pack<In>::count;
    const unsigned side = unsigned(w.group), x = threadIdx.x & (side - 1),
                   splits = unsigned(w.splits);
    const uint64 number = uint64(blockIdx.x) * (BLOCK / side) + threadIdx.x / side;
    const bool there = number < w.outer * splits;
    Acc value = Op::identity();
    if (there) {
        const uint64 o = splits == 1 ? number : number / splits;
        const uint64 first = (number - o * splits) * w.share;
        const uint64 n = w.reduced - first < w.share ? w.reduced - first : w.share;
        const In *row = in + w.outer_axes.offset(o) + first;
        const unsigned off = unsigned(reinterpret_cast<uint64>(row) % 16 / sizeof(In));
        const unsigned to_boundary = off ? count - off : 0;
        const unsigned before = n < to_boundary ? unsigned(n) : to_boundary;
        const uint64 packs = (n - before) / count, tail = before + packs * count;
        Mine mine;
        add_packs<AT_ONCE>(op, mine, row + before + x * count, int64(side * count),
                           int64(packs) - x, side);
        value = mine.folded(op, {int64(first + before + x * count), int64(side * count)});
        if (x < before)
            value = op.apply(value, op.load(row[x], int64(first + x)));
        if (tail + x < n)
            value = op.apply(value, op.load(row[tail + x], int64(first + tail + x)));
    }
    value = side == BLOCK ? block_tree(op, value) : group_tree(op, value, side);
    if (x == 0 && there)
        storing<Op>::store(op, w, out, number, value);
}

// What the threads of `columns` exchange: bytes of a lane's part, or of a value.
constexpr unsigned PACK_SHARED = 64, ITEM_SHARED = 16; // a thread: as ops_reduce_axis.c has them

// This thread's items of one column, every apart-th of `left`.
template <class Op, class In>
__device__ typename Op::Acc add_items(const Op &op, const In *at, int64 step, int64 left,
                                      unsigned apart, places here) {
    constexpr unsigned AT_ONCE = 8;
    lanes<Op, In, 1> mine;
    alone<In> loaded[AT_ONCE];
    uint32_t place = 0;
    for (; left > int64((AT_ONCE - 1) * apart); left -= AT_ONCE * apart) {
#pragma unroll
        for (unsigned k = 0; k < AT_ONCE; k++)
            loaded[k].items[0] = at[k * step];
        mine.template add<true>(op, loaded, place, apart, 0);
        at += AT_ONCE * step;
        place += AT_ONCE;
    }
    if (left > 0) {
#pragma unroll
        for (unsigned k = 0; k < AT_ONCE; k++) // no branches: the first again for what is not there
            loaded[k].items[0] = at[k * apart < unsigned(left) ? k * step : 0];
        mine.template add<false>(op, loaded, place, apart, unsigned(left));
    }
    return mine.whole(op, mine.part(0), here);
}

// The same of partial results whose places have been counted before.
template <class Op, class In>
__device__ typename Op::Acc add_placed(const Op &op, const In *at, const int64 *index, int64 step,
                                       int64 left, unsigned apart) {
    typename Op::Acc value = Op::identity();
    for (; left > 0; left -= apart, at += step, index += step)
        value = op.apply(value, op.load(*at, *index));
    return value;
}

// A part as it waits in shared memory, and the value that it is.
template <class Mine, class Acc, unsigned Count> struct kept {
    using type = typename Mine::Part;
    template <class Op> static __device__ Acc whole(const Op &op, type part, places at) {
        return Mine::whole(op, part, at);
    }
};
template <class Mine, class Acc> struct kept<Mine, Acc, 1> {
    using type = Acc;
    template <class Op> static __device__ Acc whole(const Op &, type value, places) {
        return value;
    }
};

// `wide` threads stand side by side, each on a column (of a pack: on neighbouring ones); the others
// of the block are on the next rows of the same columns. At the end every thread takes results, so
// that neighbours are stored by neighbours.
template <class Op, class In, unsigned Count>
__device__ void columns(const Op &op, const In *in, void *out, const work &w) {
    using Acc = typename Op::Acc;
    using Mine = lanes<Op, In, Count>;
    const unsigned wide = unsigned(w.wide), high = BLOCK / wide, x = threadIdx.x % wide,
                   y = threadIdx.x / wide, tiles = unsigned(w.tiles), splits = unsigned(w.splits);
    const unsigned above = blockIdx.x / tiles, tile = blockIdx.x - above * tiles;
    const unsigned o = above / splits, split = above - o * splits;
    const uint64 begin = uint64(tile) * wide * Count, column = begin + x * Count,
                 first = split * w.share,
                 n = w.reduced - first < w.share ? w.reduced - first : w.share;
    const int64 left = y < high && column < w.inner ? int64(n) - y : 0, step = high * w.stride;
    int64 from = int64(first + y) * w.stride;
    if (left > 0)
        from += w.outer_axes.offset(o) + w.inner_axes.offset(column);
    using Keep = kept<Mine, Acc, Count>;
    using Kept = typename Keep::type;
    Kept *shared = shared_memory<Kept>();
    static_assert(sizeof(Kept) * Count <= (Count > 1 ? PACK_SHARED : ITEM_SHARED), "shared memory");
    // Turned by some columns each, the lanes of a warp meet in no bank when they are read.
    const unsigned turn = wide >= 32 ? 32 / Count : 0;
    if constexpr (Count > 1) {
        Mine mine;
        add_packs<4>(op, mine, in + from, step, left, high);
        if constexpr (storing<Op>::as_items) // a thread's results are a pack
            if (high == 1 && reinterpret_cast<uint64>(out) % 16 == 0) {
                pack<In> results;
#pragma unroll
                for (unsigned i = 0; i < Count; i++)
                    results.items[i] = op.raw(Mine::whole(op, mine.part(i), {0, 0}));
                if (left > 0)
                    *reinterpret_cast<uint4 *>(static_cast<In *>(out) + above * w.inner + column) =
                        results.words;
                return;
            }
        if (y < high)
#pragma unroll
            for (unsigned i = 0; i < Count; i++) {
                const unsigned at = x + i * turn;
                shared[(y * Count + i) * wide + (at < wide ? at : at - wide)] = mine.part(i);
            }
    } else {
        const Acc value =
            w.in_index
                ? add_placed(op, in + from, w.in_index + from, step, left, high)
                : add_items(op, in + from, step, left, high, {int64(first + y), int64(high)});
        shared[threadIdx.x] = value;
    }
    __syncthreads();
    // A result's `high` parts, where there are few results by several threads.
    const uint64 rest = w.inner - begin;
    const unsigned results = rest < wide * Count ? unsigned(rest) : wide * Count;
    const unsigned helpers = high < 4 || results * 2 > BLOCK ? 1
                             : BLOCK / results < high        ? BLOCK / results
                                                             : high;
    const auto value_of = [&](unsigned row, unsigned result) -> Acc {
        const unsigned i = result % Count, at = result / Count + i * turn;
        return Keep::whole(op, shared[(row * Count + i) * wide + (at < wide ? at : at - wide)],
                           {int64(first + row), int64(high)});
    };
    Acc *sums = shared_memory<Acc>();
    if (helpers > 1) {
        const unsigned helper = threadIdx.x / results, result = threadIdx.x - helper * results;
        Acc value = Op::identity();
#pragma unroll 4
        for (unsigned row = helper; helper < helpers && row < high; row += helpers)
            value = op.apply(value, value_of(row, result));
        __syncthreads();
        if (helper < helpers)
            sums[threadIdx.x] = value;
        __syncthreads();
    }
#pragma unroll 1
    for (unsigned result = threadIdx.x; result < results; result += BLOCK) {
        Acc value = helpers > 1 ? sums[result] : value_of(0, result);
#pragma unroll 2
        for (unsigned k = 1; k < (helpers > 1 ? helpers : high); k++)
            value = op.apply(value, helpers > 1 ? sums[k * results + result] : value_of(k, result));
        storing<Op>::store(op, w, out, above * w.inner + begin + result, value);
    }
}

template <class Op, class In> __device__ void reduce_axis(const In *in, void *out, const work &w) {
    const Op op = {w.s};
    switch (w.shape) {
    case STAGED:
        staged(op, in, out, w);
        break;
    case GROUPS:
        groups(op, in, out, w);
        break;
    case ROWS:
        rows(op, in, out, w);
        break;
    case PACKS:
        columns<Op, In, pack<In>::count>(op, in, out, w);
        break;
    default:
        columns<Op, In, 1>(op, in, out, w);
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
#define KERNEL_AXIS(op, in, acc)                                                                 \
    extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS) reduce_axis_##op##_##in##_##acc( \
        const type_##in *items, void *results, int64 *out_index, const int64 *in_index,          \
        uint64 outer, uint64 reduced, uint64 inner, int64 stride, AXES(outer), AXES(inner),      \
        int64 key, int64 mask, uint64 finish, float64 divisor, uint64 shape, uint64 splits,      \
        uint64 share, uint64 wide, uint64 group, uint64 tiles) {                                 \
        const work w = {out_index,      in_index,       outer,       reduced, inner,   stride,   \
                        AXES_OF(outer), AXES_OF(inner), {key, mask}, finish,  divisor, shape,    \
                        splits,         share,          wide,        group,   tiles};            \
        reduce_axis<op_##op<type_##in, type_##acc>>(items, results, w);                          \
    }

REDUCE_AXIS_SIGNATURES(KERNEL_AXIS)

} // namespace axis

#endif

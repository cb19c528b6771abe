// axis_items.cuh: the elements that reduce_axis.cu reduces, the operations on them, and vectors of
// 16 bytes: how they are loaded, and which of their elements count. Contains no kernel and knows no
// shape of work.
#pragma once

#include "../halves.cuh"
#include "../reduce_axis_plan.cuh"

namespace axis {

// --- elements in another order: their bits, xor a key

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

// Type in which elements are compared.
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

// --- operations: load() converts an element, apply() combines two values, identity() is the
// identity element. raw() is the stored form of a partial result, which a second pass loads as an
// element; again() returns its value. neutral() is the identity as an element, with an index for
// argmin.

struct settings {
    int64 key, mask;
};
// A key for each element of a word.
template <class In> __device__ uint32_t keys_of(const settings &s) {
    const uint32_t key = uint32_t(s.key);
    return sizeof(In) == 1   ? (key & 0xff) * 0x01010101u
           : sizeof(In) == 2 ? (key & 0xffff) * 0x00010001u
                             : key;
}

// For sums `key` masks an element when it is widened: all bits for unsigned elements, -1 for signed
// ones.
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
    __device__ Acc again(Raw raw) const { return raw; }
    __device__ In neutral() const { return In{}; }
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
    __device__ Acc again(Raw raw) const { return raw; }
    __device__ In neutral() const { return 1; }
};
template <class In, class Out> struct op_count {
    using Acc = int64;
    using Raw = int64;
    settings s;
    static __device__ Acc identity() { return 0; }
    __device__ Acc load(In item, int64) const { return (item & In(s.key)) != 0; }
    __device__ Acc apply(Acc a, Acc b) const { return a + b; }
    __device__ Raw raw(Acc a) const { return a; }
    __device__ Acc again(Raw raw) const { return raw; }
    __device__ In neutral() const { return 0; }
};
template <class In, class Out> struct op_bits {
    using Acc = In;
    using Raw = In;
    settings s;
    static __device__ Acc identity() { return 0; }
    __device__ Acc load(In item, int64) const { return keyed(item, s.key); }
    __device__ Acc apply(Acc a, Acc b) const { return Acc(a ^ b ^ (a & b & Acc(s.mask))); }
    __device__ Raw raw(Acc a) const { return keyed(a, s.key); }
    __device__ Acc again(Raw raw) const { return load(raw, 0); }
    __device__ In neutral() const { return raw(identity()); }
};
using ::lesser;
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 800
__device__ inline float32 lesser(float32 a, float32 b) {
    float32 value;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(value) : "f"(a), "f"(b));
    return value;
}
#endif
template <class In, class Out> struct op_min {
    using Acc = typename compared<In>::type;
    using Raw = In;
    settings s;
    static __device__ Acc identity() { return compared<In>::highest(); }
    __device__ Acc load(In item, int64) const { return compared<In>::of(keyed(item, s.key)); }
    __device__ Acc apply(Acc a, Acc b) const { return lesser(a, b); }
    __device__ Raw raw(Acc a) const { return keyed(compared<In>::back(a), s.key); }
    __device__ Acc again(Raw raw) const { return load(raw, 0); }
    __device__ In neutral() const { return raw(identity()); }
};
template <class V> struct indexed {
    V value;
    int64 index;
};
// The first of equal elements; the first NaN before all others; the identity after all. With mask
// -1 elements are compared from last to first: indices count down from -1, and `divisor` holds the
// number of elements, which is added to the result.
template <class In, class Out> struct op_argmin {
    using V = typename compared<In>::type;
    using Acc = indexed<V>;
    using Raw = In;
    settings s;
    static __device__ Acc identity() { return {compared<In>::highest(), INT64_MAX}; }
    __device__ Acc load(In item, int64 index) const { return again(item, index ^ s.mask); }
    __device__ Acc apply(Acc a, Acc b) const {
        const bool nan = a.value != a.value, both = nan & (b.value != b.value); // without branches
        const bool equal = a.value == b.value | both, before = a.index < b.index;
        const bool first = equal & before | !equal & (a.value < b.value | nan);
        return {first ? a.value : b.value, first ? a.index : b.index};
    }
    __device__ Raw raw(Acc a) const { return keyed(compared<In>::back(a.value), s.key); }
    __device__ Acc again(Raw raw, int64 index) const {
        return {compared<In>::of(keyed(raw, s.key)), index};
    }
    __device__ In neutral() const { return raw(identity()); }
};

template <class Op> constexpr bool has_index = false;
template <class In, class Out> constexpr bool has_index<op_argmin<In, Out>> = true;

// --- vectors of 16 bytes

template <class In> union alignas(16) vec {
    static constexpr unsigned count = 16 / sizeof(In);
    uint4 words;
    uint32_t word[4];
    In items[count];
};
// One element in the form of a vector.
template <class In> struct alone { In items[1]; };

// The same load, or a streaming (evict-first) one.
template <bool Streamed> __device__ inline uint4 load_if(bool there, const uint4 *from) {
    if (!Streamed)
        return load_vector_if(there, from);
    uint4 words = {0, 0, 0, 0};
    asm volatile("{ .reg .pred there;\n"
                 "setp.ne.u32 there, %5, 0;\n"
                 "@there ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4]; }"
                 : "+r"(words.x), "+r"(words.y), "+r"(words.z), "+r"(words.w)
                 : "l"(from),
                   "r"(static_cast<unsigned>(there))); // generic addresses are global ones
    return words;
}

// Vectors in flight at once: vector k comes from from(k) if there(k), else it is `absent`.
template <bool Streamed, class In, unsigned N, class There, class From>
__device__ inline void load_some(vec<In> (&loaded)[N], const There &there, const From &from) {
#pragma unroll
    for (unsigned k = 0; k < N; k++)
        loaded[k].words = load_if<Streamed>(there(k), from(k));
}
template <class In, unsigned N, class There, class From>
__device__ inline void load_some(vec<In> (&loaded)[N], bool streamed, const There &there,
                                 const From &from) {
    if (streamed)
        load_some<true>(loaded, there, from);
    else
        load_some<false>(loaded, there, from);
}

// The same where all vectors are there: no predicates, no zeros.
template <class In, unsigned N, class From>
__device__ inline void load_every(vec<In> (&loaded)[N], bool streamed, const From &from) {
    if (streamed) {
#pragma unroll
        for (unsigned k = 0; k < N; k++)
            loaded[k].words = __ldcs(from(k));
    } else {
#pragma unroll
        for (unsigned k = 0; k < N; k++)
            loaded[k].words = *from(k);
    }
}

// The elements of a vector that lie between two addresses, one by one; the others are zeros.
template <class In> __device__ vec<In> part_of_vector(const In *at, uint64 begin, uint64 end) {
    constexpr unsigned bits = 8 * sizeof(In);
    vec<In> found;
    found.words = {0, 0, 0, 0};
#pragma unroll 1
    for (unsigned i = vec<In>::count; i-- > 0;) {
        vec<In> one;
        one.words = {0, 0, 0, 0};
        if (reinterpret_cast<uint64>(at + i) >= begin && reinterpret_cast<uint64>(at + i) < end)
            one.items[0] = at[i];
        if constexpr (sizeof(In) == 8) {
            found.word[2] = found.word[0], found.word[3] = found.word[1];
            found.word[0] = one.word[0], found.word[1] = one.word[1];
        } else {
#pragma unroll
            for (unsigned k = 3; k > 0; k--)
                found.word[k] = __funnelshift_lc(found.word[k - 1], found.word[k], bits);
            found.word[0] = __funnelshift_lc(0, found.word[0], bits) | one.word[0];
        }
    }
    return found;
}

// Identity elements, as words of a vector.
template <class In> struct neutral_items {
    static constexpr unsigned WORDS = sizeof(In) <= 4 ? 1 : sizeof(In) / 4;
    uint32_t words[WORDS];

    template <class Op> __device__ explicit neutral_items(const Op &op) {
        vec<In> all;
#pragma unroll
        for (unsigned i = 0; i < 4 * WORDS / sizeof(In); i++)
            all.items[i] = op.neutral();
#pragma unroll
        for (unsigned i = 0; i < WORDS; i++)
            words[i] = all.word[i];
    }
    // Word `i` of a vector: its `kept` bits, and the identity elsewhere.
    __device__ uint32_t beside(uint32_t word, uint32_t kept, unsigned i) const {
        return (word & kept) | (words[i % WORDS] & ~kept);
    }
};

template <bool First, class A, class B> struct chosen { using type = A; };
template <class A, class B> struct chosen<false, A, B> { using type = B; };

// Selects the elements of a thread's vectors that count: all, or every `step`-th, in each vector
// alike: the first of its elements is `phase` elements after one that counts. The others become
// identities.
template <class In> struct every_item {
    template <class Op> __device__ every_item(const Op &, unsigned, unsigned) {}
    __device__ every_item() {}
    __device__ bool any() const { return true; }
    template <unsigned N> __device__ void pick(vec<In> (&)[N]) const {}
};
template <class Op, class In>
constexpr bool may_be_strided = sizeof(In) <=
                                (has_index<Op> ? AXIS_STRIDED_INDEXED : AXIS_STRIDED_ITEM);
template <class In> struct strided_items {
    bool all;     // then pick() is one branch
    vec<In> kept; // all bits of an element, or none
    neutral_items<In> others;

    template <class Op>
    __device__ strided_items(const Op &op, unsigned step, unsigned phase)
        : all(step == 1), others(op) {
        kept.words = {0, 0, 0, 0};
        if (all)
            return;
#pragma unroll
        for (unsigned i = 0; i < vec<In>::count; i++) {
#pragma unroll
            for (unsigned at = i * sizeof(In); phase == 0 && at < (i + 1) * sizeof(In); at++)
                kept.word[at / 4] |= 0xffu << at % 4 * 8;
            phase = phase + 1 == step ? 0 : phase + 1;
        }
    }
    __device__ bool any() const {
        return all || (kept.word[0] | kept.word[1] | kept.word[2] | kept.word[3]) != 0;
    }
    template <unsigned N> __device__ void pick(vec<In> (&vectors)[N]) const {
        if (all)
            return;
#pragma unroll
        for (unsigned k = 0; k < N; k++)
#pragma unroll
            for (unsigned i = 0; i < 4; i++)
                vectors[k].word[i] = others.beside(vectors[k].word[i], kept.word[i], i);
    }
};

} // namespace axis

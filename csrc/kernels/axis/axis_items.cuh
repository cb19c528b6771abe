// axis_items.cuh: the elements that reduce_axis.cu reduces, the operations on them, and vectors of
// 16 bytes: how they are loaded, and which of their elements count. Contains no kernel and knows no
// shape of work.
#pragma once

#include "../halves.cuh"
#include "../reduce_axis_plan.cuh"

namespace axis {

template <bool First, class A, class B> struct chosen { using type = A; };
template <class A, class B> struct chosen<false, A, B> { using type = B; };
// One element in the form of a vector.
template <class In> struct alone { In items[1]; };
// A vector of 16 bytes.
template <class In> union alignas(16) vec {
    static constexpr unsigned count = 16 / sizeof(In);
    uint4 words;
    uint32_t word[4];
    In items[count];
};

// --- operations: load() converts an element, apply() combines two values, identity() returns the
// identity element. raw() is the stored form of a partial result, as a pass over another axis loads
// it; again() returns its value. neutral() is the identity as an element, with an index for argmin.

// The bits of an element, xor `key`, are compared or combined (REDUCE_AXIS_SIGNATURES); sums mask
// them. `kind` says how to read them: an axis_kind.
struct settings {
    int64 key, mask;
    unsigned kind;
};
// A key for each element of a word.
template <class In> __device__ uint32_t keys_of(const settings &s) {
    const uint32_t key = uint32_t(s.key);
    return sizeof(In) == 1   ? (key & 0xff) * 0x01010101u
           : sizeof(In) == 2 ? (key & 0xffff) * 0x00010001u
                             : key;
}

// The kind of an operation's elements: a constant, or ANY_KIND: the one in its settings. by_kind()
// calls a function with the operation of that kind, of those that load() or apply() distinguishes,
// in KINDS: a branch, or two, instead of one per element. by_order() distinguishes only those that
// apply() does, in ORDERS; all others are as the last.
constexpr unsigned ANY_KIND = 9;
constexpr unsigned INTEGERS = 1 << AXIS_INTEGERS,
                   SHORT_FLOATS = 1 << AXIS_HALVES | 1 << AXIS_BFLOATS, FLOATS = 1 << AXIS_FLOATS,
                   BITS = 1 << AXIS_BITS, TRUTHS = 1 << AXIS_TRUTHS, PRODUCTS = 1 << AXIS_PRODUCTS;
template <unsigned Kinds, template <class, unsigned> class Op, class In, unsigned Kind, class F>
__device__ void with_kind(const Op<In, Kind> &op, const F &f) {
    constexpr unsigned FIRST = __builtin_ctz(Kinds | 1u << 31), OTHERS = Kinds & (Kinds - 1);
    if constexpr (Kind != ANY_KIND || Kinds == 0)
        f(op);
    else if (OTHERS == 0 || op.s.kind == FIRST)
        f(Op<In, FIRST>{{op.s}});
    else if constexpr (OTHERS != 0)
        with_kind<OTHERS>(op, f);
}
template <template <class, unsigned> class Op, class In, unsigned Kind> struct of_kind {
    static constexpr unsigned KIND = Kind;
    settings s;
    static constexpr bool REPEATS = false; // whether an element may count twice
    __device__ bool is(unsigned kind) const {
        return Kind == ANY_KIND ? s.kind == kind : Kind == kind;
    }
    __device__ const Op<In, Kind> &self() const { return static_cast<const Op<In, Kind> &>(*this); }
    template <class F> __device__ void by_kind(const F &f) const {
        with_kind<Op<In, Kind>::KINDS>(self(), f);
    }
    template <class F> __device__ void by_order(const F &f) const {
        with_kind<Op<In, Kind>::ORDERS>(self(), f);
    }
};

// Sums or products: of integers, or in float64.
template <template <class, unsigned> class Op, class In, class Number, unsigned Kind>
struct total : of_kind<Op, In, Kind> {
    using Acc = Number;
    using Raw = Acc;
    static constexpr bool FRACTIONS = Acc(0.5) != 0, SHORT = FRACTIONS && sizeof(In) == 2;
    __device__ bool multiplies() const {
        return sizeof(In) > (FRACTIONS ? 2 : 4) && this->is(AXIS_PRODUCTS);
    }
    // Sums of 16-bit floats have the key as their first element: 0, or -0.0 to convert elements.
    __device__ Acc identity() const {
        if constexpr (SHORT)
            return __hiloint2double(int32(this->s.key) << 16, 0);
        else
            return this->multiplies();
    }
    __device__ Acc apply(Acc a, Acc b) const {
        if (Kind == AXIS_TRUTHS) // a thread counts fewer than 2^32
            return Acc(uint32_t(a) + uint32_t(b));
        using Wrapping = typename chosen<FRACTIONS, Acc, uint64>::type;
        return Acc(multiplies() ? Wrapping(a) * Wrapping(b) : Wrapping(a) + Wrapping(b));
    }
    __device__ Raw raw(Acc a) const { return a; }
    __device__ Acc again(Raw raw) const { return raw; }
    template <class Vec> __device__ const Vec &keyed(const Vec &one) const { return one; }
    template <class Vec> __device__ Acc load_keyed(const Vec &one, unsigned i) const {
        return this->self().load(one.items[i], 0);
    }
    __device__ In neutral() const {
        if constexpr (SHORT)
            return In(this->s.key);
        else if constexpr (sizeof(In) == 8 && FRACTIONS)
            return __double_as_longlong(identity());
        else
            return In(identity());
    }
};
// Sums or products of integers, or the number of elements that are not 0 in the bits of the key.
// For sums the key masks an element when it is widened: all bits for unsigned elements, -1 for
// signed ones.
template <class In, unsigned Kind = ANY_KIND> struct op_sum : total<op_sum, In, int64, Kind> {
    static constexpr unsigned ORDERS = sizeof(In) == 8 ? PRODUCTS | INTEGERS : 0,
                              KINDS = ORDERS | INTEGERS | TRUTHS;
    __device__ int64 load(In item, int64) const {
        if (!this->is(AXIS_TRUTHS))
            return int64(item) & this->s.key;
        if (sizeof(In) == 1) // no float: all of its bits count
            return item != 0;
        if (sizeof(In) == 2) // in 32 bits it takes one instruction less
            return (opaque_copy(unsigned(this->s.key)) & uint16_t(item)) != 0;
        return (item & In(this->s.key)) != 0;
    }
};
// Sums or products in float64; sums also of 64-bit integers: signed if the key is -1.
template <class In, unsigned Kind = ANY_KIND>
struct op_float_sum : total<op_float_sum, In, float64, Kind> {
    static constexpr unsigned ORDERS = sizeof(In) == 2 ? 0 : PRODUCTS | FLOATS,
                              KINDS = sizeof(In) == 2   ? SHORT_FLOATS
                                      : sizeof(In) == 8 ? ORDERS | INTEGERS
                                                        : ORDERS;
    __device__ float32 widened(In item) const { // a 16-bit float
        const uint16_t bits = uint16_t(item);
        return this->is(AXIS_HALVES) ? ::widened(half{bits}) : ::widened(bfloat{bits});
    }
    __device__ float64 load(In item, int64) const {
        if constexpr (sizeof(In) == 2)
            return widened(item);
        else if constexpr (sizeof(In) == 4)
            return item;
        else if (!this->is(AXIS_INTEGERS))
            return __longlong_as_double(item);
        else
            return this->s.key == -1 ? float64(item) : float64(uint64(item));
    }
};
using ::lesser;
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 800
__device__ inline float32 lesser(float32 a, float32 b) {
    float32 value;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(value) : "f"(a), "f"(b));
    return value;
}
#endif
// The number that an element's bits, xor the key, are: an integer, or a float's bits, those of a
// float16 as float32; and back. Other narrow elements are the upper bits of a number.
template <template <class, unsigned> class Op, class In, unsigned Kind>
struct numbered : of_kind<Op, In, Kind> {
    using V = typename chosen<sizeof(In) == 8, int64, int32>::type;
    static constexpr unsigned NUMBERS = INTEGERS | (sizeof(In) == 1   ? 0
                                                    : sizeof(In) == 2 ? SHORT_FLOATS
                                                                      : FLOATS);
    __device__ bool halves() const { return sizeof(In) == 2 && this->is(AXIS_HALVES); }
    __device__ bool bfloats() const { return sizeof(In) == 2 && this->is(AXIS_BFLOATS); }
    __device__ bool floats() const {
        return halves() || bfloats() || (sizeof(In) >= 4 && this->is(AXIS_FLOATS));
    }
    static constexpr unsigned LACKS = 8 * (sizeof(V) - sizeof(In)); // bits, below an element
    // No branches: a selection is shorter.
    __device__ V number(In bits) const {
        const V half_number = __float_as_int(widened(half{uint16_t(bits)}));
        return halves() ? half_number : V(bits) << LACKS;
    }
    __device__ In bits_of(V number) const {
        const uint16_t half_bits = narrowed<half>(__int_as_float(int32(number))).bits;
        return In(halves() ? half_bits : number >> LACKS);
    }
    // The number of element i of a vector that is keyed, in one instruction for a narrow one.
    __device__ V load_keyed(const vec<In> &one, unsigned i) const {
        if constexpr (sizeof(In) == 1)
            return int32(__byte_perm(one.word[i / 4], 0, i % 4 << 12 | 0x444));
        if (sizeof(In) == 2 && !halves())
            return int32(i % 2 ? one.word[i / 2] & 0xffff0000u : one.word[i / 2] << 16);
        return number(one.items[i]);
    }
    __device__ V load_keyed(const alone<In> &one, unsigned) const { return number(one.items[0]); }
    __device__ In keyed(In bits) const { return bits ^ In(this->s.key); }
    // All elements of a vector xor the key, by words: fewer instructions.
    __device__ vec<In> keyed(const vec<In> &one) const {
        vec<In> found;
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
            found.word[i] = one.word[i] ^ (sizeof(In) == 8 ? uint32_t(this->s.key >> i % 2 * 32)
                                                           : keys_of<In>(this->s));
        return found;
    }
    __device__ alone<In> keyed(const alone<In> &one) const { return {{keyed(one.items[0])}}; }
    // The bits of the largest number.
    __device__ In largest() const {
        return halves()          ? In(0x7c00)
               : bfloats()       ? In(0x7f80)
               : !floats()       ? In(~uint64(0) >> (65 - 8 * sizeof(In)))
               : sizeof(In) == 4 ? In(0x7f800000)
                                 : In(0x7ff0000000000000);
    }
};

// Minima, and bitwise operations: `or`, or with mask 0 `xor`. Values are numbers.
template <class In, unsigned Kind = ANY_KIND> struct op_least : numbered<op_least, In, Kind> {
    using Acc = typename numbered<axis::op_least, In, Kind>::V;
    using Raw = In;
    static constexpr unsigned KINDS = numbered<axis::op_least, In, Kind>::NUMBERS | BITS,
                              ORDERS = KINDS & ~(1u << AXIS_BFLOATS);
    static constexpr bool REPEATS = Kind != ANY_KIND && Kind != AXIS_BITS;
    __device__ Acc identity() const {
        return this->is(AXIS_BITS) ? 0 : this->number(this->largest());
    }
    __device__ Acc load(In item, int64) const { return this->number(this->keyed(item)); }
    __device__ Acc apply(Acc a, Acc b) const {
        if (this->is(AXIS_BITS))
            return a ^ b ^ (a & b & Acc(this->s.mask));
        if (!this->floats())
            return a < b ? a : b;
        if constexpr (sizeof(Acc) == 8)
            return __double_as_longlong(lesser(__longlong_as_double(a), __longlong_as_double(b)));
        else
            return __float_as_int(lesser(__int_as_float(a), __int_as_float(b)));
    }
    __device__ Raw raw(Acc a) const { return this->keyed(this->bits_of(a)); }
    __device__ Acc again(Raw raw) const { return load(raw, 0); }
    __device__ In neutral() const { return raw(identity()); }
};

template <class V> struct indexed {
    V value;
    int64 index;
};
// The first of equal elements; the first NaN before all others; the identity after all. With mask
// -1 elements are compared from last to first: indices count down from -1, and `divisor` holds the
// number of elements, which is added to the result. Values are numbers.
template <class In, unsigned Kind = ANY_KIND> struct op_argmin : numbered<op_argmin, In, Kind> {
    using V = typename numbered<axis::op_argmin, In, Kind>::V;
    static constexpr unsigned KINDS = numbered<axis::op_argmin, In, Kind>::NUMBERS,
                              ORDERS =
                                  sizeof(In) == 1 ? 0 : KINDS & ~(1u << AXIS_BFLOATS); // floats
    using Acc = indexed<V>;
    using Raw = In;
    __device__ Acc identity() const { return {this->number(this->largest()), INT64_MAX}; }
    // Calls compare() with two numbers as integers or floats.
    template <class F> __device__ bool compared(V a, V b, const F &compare) const {
        if (!this->floats())
            return compare(a, b);
        if constexpr (sizeof(V) == 8)
            return compare(__longlong_as_double(a), __longlong_as_double(b));
        else
            return compare(__int_as_float(a), __int_as_float(b));
    }
    // Whether number b is before a.
    __device__ bool better(V a, V b, bool last) const {
        return compared(
            a, b, [&](auto x, auto y) { return last ? y <= x || y != y : !(x <= y) && x == x; });
    }
    __device__ Acc load(In item, int64 index) const { return again(item, index ^ this->s.mask); }
    __device__ Acc apply(Acc a, Acc b) const {
        const bool before = a.index < b.index;
        const bool first = compared(a.value, b.value, [&](auto x, auto y) { // no branches
            const bool nan = x != x, equal = x == y | nan & (y != y);
            return equal & before | !equal & (x < y | nan);
        });
        return {first ? a.value : b.value, first ? a.index : b.index};
    }
    __device__ Raw raw(Acc a) const { return this->keyed(this->bits_of(a.value)); }
    __device__ Acc again(Raw raw, int64 index) const {
        return {this->number(this->keyed(raw)), index};
    }
    __device__ In neutral() const { return this->keyed(this->largest()); }
};

template <class Op> constexpr bool has_index = false;
template <class In, unsigned Kind> constexpr bool has_index<op_argmin<In, Kind>> = true;

// --- vectors of 16 bytes

// A vector of identity elements.
template <class In, class Op> __device__ uint4 neutral_vector(const Op &op) {
    vec<In> all;
#pragma unroll
    for (unsigned i = 0; i < vec<In>::count; i++)
        all.items[i] = op.neutral();
    return all.words;
}

// Loads a vector while other loads are in flight, or returns `words`; as load_vector_if.
__device__ inline uint4 load_if(bool there, const uint4 *from, uint4 words) {
    asm volatile("{ .reg .pred there;\n"
                 "setp.ne.u32 there, %5, 0;\n"
                 "@there ld.global.v4.u32 {%0, %1, %2, %3}, [%4]; }"
                 : "+r"(words.x), "+r"(words.y), "+r"(words.z), "+r"(words.w)
                 : "l"(from), "r"(static_cast<unsigned>(there))); // generic is global
    return words;
}

// Vectors in flight at once: vector k comes from from(k) if there(k), else it is `absent`.
template <class In, unsigned N, class There, class From>
__device__ inline void load_some(vec<In> (&loaded)[N], const uint4 &absent, const There &there,
                                 const From &from) {
#pragma unroll
    for (unsigned k = 0; k < N; k++)
        loaded[k].words = load_if(there(k), from(k), absent);
}

// The elements of a vector that lie between two addresses; the others are zeros.
template <class In> __device__ vec<In> part_of_vector(const In *at, uint64 begin, uint64 end) {
    vec<In> found;
    found.words = {0, 0, 0, 0};
#pragma unroll
    for (unsigned i = 0; i < vec<In>::count; i++)
        if (reinterpret_cast<uint64>(at + i) >= begin && reinterpret_cast<uint64>(at + i) < end)
            found.items[i] = at[i];
    return found;
}

} // namespace axis

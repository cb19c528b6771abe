// axis_lanes.cuh: how a thread of reduce_axis.cu accumulates vectors lane by lane. Contains no
// kernel and knows no shape of work.
#pragma once

#include "axis_items.cuh"

namespace axis {

// --- accumulation by lane: lane i receives element i of every vector. The n-th vector has position
// n; add() takes several, `apart` positions from each other, of which those before `left` exist.
// part() is the stored form of a lane; whole() converts it to the operation's value.

// Position p of lane 0 is element first + p * step.
struct positions {
    int64 first, step;
};

template <bool All> __device__ inline bool is_there(unsigned k, unsigned apart, unsigned left) {
    return All || k * apart < left;
}

// add() in terms of add_one(), which takes one vector and its position.
template <class Mine> struct one_by_one {
    template <bool All, class Op, class Vec, unsigned N>
    __device__ void add(const Op &op, const Vec (&vectors)[N], uint32_t position, unsigned apart,
                        unsigned left) {
#pragma unroll
        for (unsigned k = 0; k < N; k++)
            if (is_there<All>(k, apart, left))
                static_cast<Mine *>(this)->add_one(op, vectors[k], position + k);
    }
};

template <class Op, class In, unsigned Count> struct lanes : one_by_one<lanes<Op, In, Count>> {
    using Part = typename Op::Acc;
    Part values[Count];
    __device__ lanes() {
#pragma unroll
        for (unsigned i = 0; i < Count; i++)
            values[i] = Op::identity();
    }
    template <class Vec> __device__ void add_one(const Op &op, const Vec &one, uint32_t) {
#pragma unroll
        for (unsigned i = 0; i < Count; i++)
            values[i] = op.apply(values[i], op.load(one.items[i], 0));
    }
    __device__ Part part(unsigned i) const { return values[i]; }
    static __device__ Part whole(const Op &, Part part, positions) { return part; }
};

// Sums of bytes in 32 bits, as no thread has more than AXIS_BYTE_VECTORS vectors. A multiplication
// by 1 at the byte's place and 0 elsewhere selects it.
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
template <>
struct lanes<op_sum<int8_t, int64>, int8_t, 16>
    : byte_sums<16>, one_by_one<lanes<op_sum<int8_t, int64>, int8_t, 16>> {
    using Op = op_sum<int8_t, int64>;
    __device__ void add_one(const Op &op, const vec<int8_t> &one, uint32_t) {
        const bool is_signed = op.s.key == -1;
#pragma unroll
        for (unsigned i = 0; i < 16; i++) {
            const uint32_t word = one.word[i / 4], pick = 1u << i % 4 * 8;
            values[i] = is_signed ? __dp4a(int32(word), int32(pick), values[i])
                                  : int32(__dp4a(word, pick, uint32_t(values[i])));
        }
    }
    static __device__ int64 whole(const Op &op, Part part, positions) {
        return op.s.key == -1 ? part : int64(uint32_t(part));
    }
};
// 0x80 for every nonzero byte.
__device__ inline uint32_t nonzero_bytes(uint32_t word) {
    return ((word & 0x7f7f7f7fu) + 0x7f7f7f7fu | word) & 0x80808080u;
}
template <>
struct lanes<op_count<int8_t, int64>, int8_t, 16>
    : byte_sums<16>, one_by_one<lanes<op_count<int8_t, int64>, int8_t, 16>> {
    using Op = op_count<int8_t, int64>;
    __device__ void add_one(const Op &op, const vec<int8_t> &one, uint32_t) {
        const uint32_t kept = keys_of<int8_t>(op.s);
#pragma unroll
        for (unsigned i = 0; i < 16; i++)
            values[i] = int32(__dp4a(nonzero_bytes(one.word[i / 4] & kept), 1u << i % 4 * 8,
                                     uint32_t(values[i])));
    }
    static __device__ int64 whole(const Op &, Part part, positions) {
        return uint32_t(part) / 0x80;
    }
};

// Sums of 16-bit floats: a few in float32, then in float64. If these few may overflow, a result
// that is not finite is computed again, element by element.
template <class Mine> constexpr bool may_overflow = false;
template <class Mine> struct item_by_item {
    Mine &mine;
    template <bool All, class Op, class Vec, unsigned N>
    __device__ void add(const Op &, const Vec (&vectors)[N], uint32_t, unsigned, unsigned) {
#pragma unroll
        for (unsigned k = 0; k < N; k++)
#pragma unroll
            for (unsigned i = 0; i < Vec::count; i++)
                mine.values[i % Mine::VALUES] += widened(vectors[k].items[i]);
    }
};
template <class Kept>
constexpr bool is_slow = false; // the form in which decltype reports such a reference
template <class Mine> constexpr bool is_slow<item_by_item<Mine> &> = true;
// In terms of add(), which receives the accumulator.
template <class Mine, class Add> __device__ void add_finite(Mine &mine, const Add &add) {
    add(mine);
    if constexpr (may_overflow<Mine>)
        if (!mine.finite()) {
            mine = {};
            item_by_item<Mine> slowly = {mine};
            add(slowly);
        }
}
template <unsigned Count> struct wide_sums {
    static constexpr unsigned VALUES = Count;
    float64 values[Count];
    __device__ wide_sums() {
#pragma unroll
        for (unsigned i = 0; i < Count; i++)
            values[i] = 0;
    }
    __device__ bool finite() const {
        float64 difference = 0;
#pragma unroll
        for (unsigned i = 0; i < Count; i++)
            difference += values[i] - values[i];
        return difference == 0;
    }
};
template <class In, unsigned Count> struct small_float_sums : wide_sums<Count> {
    using Op = op_sum<In, float64>;
    using Part = float64;
    template <bool All, unsigned N>
    __device__ void add(const Op &op, const vec<In> (&vectors)[N], uint32_t, unsigned, unsigned) {
#pragma unroll
        for (unsigned i = 0; i < Count; i++) { // missing vectors are zeros
            float32 sum = widened(vectors[0].items[i]);
#pragma unroll
            for (unsigned k = 1; k < N; k++)
                sum += widened(vectors[k].items[i]);
            this->values[i] += sum;
        }
    }
    __device__ Part part(unsigned i) const { return this->values[i]; }
    static __device__ float64 whole(const Op &, Part part, positions) { return part; }
};
template <> struct lanes<op_sum<half, float64>, half, 8> : small_float_sums<half, 8> {};
template <> struct lanes<op_sum<bfloat, float64>, bfloat, 8> : small_float_sums<bfloat, 8> {};
template <> constexpr bool may_overflow<lanes<op_sum<bfloat, float64>, bfloat, 8>> = true;

// Bitwise operations need no lanes: keys are 0 or -1, so a 32-bit word serves as an element.
template <class In, unsigned Count>
struct lanes<op_bits<In, In>, In, Count> : one_by_one<lanes<op_bits<In, In>, In, Count>> {
    using Op = op_bits<In, In>;
    using Part = In;
    vec<In> values;
    __device__ lanes() { values.words = {0, 0, 0, 0}; }
    __device__ void add_one(const Op &op, const vec<In> &one, uint32_t) {
        const uint32_t key = uint32_t(op.s.key), mask = uint32_t(op.s.mask);
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            const uint32_t a = values.word[i], b = one.word[i] ^ key;
            values.word[i] = a ^ b ^ (a & b & mask);
        }
    }
    __device__ Part part(unsigned i) const { return values.items[i]; }
    static __device__ In whole(const Op &, Part part, positions) { return part; }
};
template <class In>
struct lanes<op_bits<In, In>, In, 1> : one_by_one<lanes<op_bits<In, In>, In, 1>> {
    using Op = op_bits<In, In>;
    using Part = In;
    Part value = 0;
    template <class Vec> __device__ void add_one(const Op &op, const Vec &one, uint32_t) {
        value = op.apply(value, op.load(one.items[0], 0));
    }
    __device__ Part part(unsigned) const { return value; }
    static __device__ In whole(const Op &, Part part, positions) { return part; }
};

// The smaller of the signed halves of two words.
__device__ inline uint32_t min_halves(uint32_t a, uint32_t b) {
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
    uint32_t smaller;
    asm("min.s16x2 %0, %1, %2;" : "=r"(smaller) : "r"(a), "r"(b));
    return smaller;
#else
    const uint32_t high = int32(a) < int32(b) ? a : b; // the lower half only decides among equals
    const uint32_t low = int32(a << 16) < int32(b << 16) ? a : b;
    return (high & 0xffff0000u) | (low & 0xffffu);
#endif
}
template <>
struct lanes<op_min<int16_t, int16_t>, int16_t, 8>
    : one_by_one<lanes<op_min<int16_t, int16_t>, int16_t, 8>> {
    using Op = op_min<int16_t, int16_t>;
    using Part = int16_t;
    uint32_t values[4] = {0x7fff7fff, 0x7fff7fff, 0x7fff7fff, 0x7fff7fff};
    __device__ void add_one(const Op &op, const vec<int16_t> &one, uint32_t) {
        const uint32_t keys = keys_of<int16_t>(op.s);
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
            values[i] = min_halves(values[i], one.word[i] ^ keys);
    }
    __device__ Part part(unsigned i) const { return Part(values[i / 2] >> i % 2 * 16); }
    static __device__ int16_t whole(const Op &, Part part, positions) { return part; }
    static __device__ uint32_t least_halves(const uint32_t (&words)[4]) {
        return min_halves(min_halves(words[0], words[1]), min_halves(words[2], words[3]));
    }
};
// Bytes as the upper bytes of such halves: the lower byte only decides among equals.
template <>
struct lanes<op_min<int8_t, int8_t>, int8_t, 16>
    : one_by_one<lanes<op_min<int8_t, int8_t>, int8_t, 16>> {
    using Op = op_min<int8_t, int8_t>;
    using Part = int8_t;
    uint32_t odd[4] = {0x7fff7fff, 0x7fff7fff, 0x7fff7fff, 0x7fff7fff};
    uint32_t even[4] = {0x7fff7fff, 0x7fff7fff, 0x7fff7fff, 0x7fff7fff};
    __device__ void add_one(const Op &op, const vec<int8_t> &one, uint32_t) {
        const uint32_t keys = keys_of<int8_t>(op.s);
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            const uint32_t word = one.word[i] ^ keys;
            odd[i] = min_halves(odd[i], word);
            even[i] = min_halves(even[i], word << 8);
        }
    }
    __device__ Part part(unsigned i) const {
        return Part((i % 2 ? odd : even)[i / 4] >> (i % 4 / 2 * 16 + 8));
    }
    static __device__ int8_t whole(const Op &, Part part, positions) { return part; }
    static __device__ uint32_t least_halves(const uint32_t (&words)[4]) {
        uint32_t least = min_halves(words[0], words[0] << 8);
#pragma unroll
        for (unsigned i = 1; i < 4; i++)
            least = min_halves(least, min_halves(words[i], words[i] << 8));
        return least;
    }
};

// The smaller of two 16-bit floats in each half, or a NaN.
template <class In> __device__ uint32_t min_floats(uint32_t a, uint32_t b);
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 800
template <> __device__ uint32_t min_floats<half>(uint32_t a, uint32_t b) {
    uint32_t least;
    asm("min.NaN.f16x2 %0, %1, %2;" : "=r"(least) : "r"(a), "r"(b));
    return least;
}
template <> __device__ uint32_t min_floats<bfloat>(uint32_t a, uint32_t b) {
    uint32_t least;
    asm("min.NaN.bf16x2 %0, %1, %2;" : "=r"(least) : "r"(a), "r"(b));
    return least;
}
#else // not inlined: several times as long as the instruction, and used everywhere
template <class In> __device__ __noinline__ uint32_t least_floats(uint32_t a, uint32_t b) {
    uint32_t least = 0;
#pragma unroll
    for (unsigned shift = 0; shift < 32; shift += 16) {
        const In one = {uint16_t(a >> shift)}, other = {uint16_t(b >> shift)};
        const float32 x = widened(one), y = widened(other);
        const bool first = x < y || x != x || (x == y && one.bits >> 15 != 0);
        least |= uint32_t((first ? one : other).bits) << shift;
    }
    return least;
}
template <class In> __device__ uint32_t min_floats(uint32_t a, uint32_t b) {
    return least_floats<In>(a, b);
}
#endif
template <class In> struct min_small_floats : one_by_one<min_small_floats<In>> {
    using Op = op_min<In, float32>;
    using Part = In;
    vec<In> values;
    __device__ min_small_floats() {
#pragma unroll
        for (unsigned i = 0; i < 8; i++)
            values.items[i] = compared<In>::back(Op::identity());
    }
    __device__ void add_one(const Op &op, const vec<In> &one, uint32_t) {
        const uint32_t keys = keys_of<In>(op.s);
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
            values.word[i] = min_floats<In>(values.word[i], one.word[i] ^ keys);
    }
    __device__ Part part(unsigned i) const { return values.items[i]; }
    static __device__ float32 whole(const Op &, Part part, positions) { return widened(part); }
    static __device__ uint32_t least_halves(const uint32_t (&words)[4]) {
        return min_floats<In>(min_floats<In>(words[0], words[1]),
                              min_floats<In>(words[2], words[3]));
    }
};
template <> struct lanes<op_min<half, float32>, half, 8> : min_small_floats<half> {};
template <> struct lanes<op_min<bfloat, float32>, bfloat, 8> : min_small_floats<bfloat> {};

// A thread reads its elements in order, so the first of equals stays, and so does a NaN; with mask
// -1 a later equal replaces it, and so does a later NaN. It reads at least one: position 0 is
// correct if none improves on the initial value.
template <class In, unsigned Count> struct lanes<op_argmin<In, int64>, In, Count> {
    using Op = op_argmin<In, int64>;
    using V = typename compared<In>::type;
    struct Part {
        V value;
        uint32_t position;
    };
    Part best[Count];
    __device__ lanes() {
#pragma unroll
        for (unsigned i = 0; i < Count; i++)
            best[i] = {compared<In>::highest(), 0};
    }
    template <bool Last, bool All, class Vec, unsigned N>
    __device__ void add_in_order(const Op &op, const Vec (&vectors)[N], uint32_t position,
                                 unsigned apart, unsigned left) {
#pragma unroll
        for (unsigned k = 0; k < N; k++)
#pragma unroll
            for (unsigned i = 0; i < Count; i++) {
                const V a = best[i].value,
                        b = compared<In>::of(keyed(vectors[k].items[i], op.s.key));
                const bool better = Last ? b <= a || b != b : !(a <= b) && a == a;
                if (is_there<All>(k, apart, left) && better)
                    best[i] = {b, position + k};
            }
    }
    template <bool All, class Vec, unsigned N>
    __device__ void add(const Op &op, const Vec (&vectors)[N], uint32_t position, unsigned apart,
                        unsigned left) {
        if (op.s.mask)
            add_in_order<true, All>(op, vectors, position, apart, left);
        else
            add_in_order<false, All>(op, vectors, position, apart, left);
    }
    __device__ Part part(unsigned i) const { return best[i]; }
    static __device__ indexed<V> whole(const Op &op, Part part, positions at) {
        return {part.value, (at.first + int64(part.position) * at.step) ^ op.s.mask};
    }
};
// A position as the low bits of a number, below an element: with mask -1 later positions are
// smaller.
template <uint32_t POSITION_BITS>
__device__ uint32_t as_lower_part(uint32_t position, const settings &s) {
    return (position - uint32_t(s.mask) ^ uint32_t(s.mask)) & POSITION_BITS;
}
template <uint32_t POSITION_BITS>
__device__ uint32_t position_of(uint32_t number, const settings &s) {
    return ((number ^ uint32_t(s.mask)) & POSITION_BITS) + uint32_t(s.mask);
}
// A byte above its position forms one number. No thread has 2^24 - 1 vectors.
template <>
struct lanes<op_argmin<int8_t, int64>, int8_t, 16>
    : one_by_one<lanes<op_argmin<int8_t, int64>, int8_t, 16>> {
    using Op = op_argmin<int8_t, int64>;
    using Part = uint32_t;
    static constexpr uint32_t POSITION_BITS = 0xffffff;
    int32 best[16];
    __device__ lanes() {
#pragma unroll
        for (unsigned i = 0; i < 16; i++)
            best[i] = INT32_MAX;
    }
    __device__ void add_one(const Op &op, const vec<int8_t> &one, uint32_t position) {
        const uint32_t keys = keys_of<int8_t>(op.s),
                       below = as_lower_part<POSITION_BITS>(position, op.s);
#pragma unroll
        for (unsigned i = 0; i < 16; i++) {
            const int32 item =
                int32(__byte_perm(one.word[i / 4] ^ keys, below, 0x0654 | i % 4 << 12));
            best[i] = item < best[i] ? item : best[i];
        }
    }
    __device__ Part part(unsigned i) const { return uint32_t(best[i]); }
    static __device__ indexed<int8_t> whole(const Op &op, Part part, positions at) {
        if (part == INT32_MAX)
            return Op::identity();
        const uint32_t position = position_of<POSITION_BITS>(part, op.s);
        return {int8_t(part >> 24), (at.first + int64(position) * at.step) ^ op.s.mask};
    }
};

// The same for 16 bits: halves of words in the order of signed integers, NaN before all others,
// both zeros equal. Then an element above the low bits of its position is one number.
template <class In> struct ordered_halves;
template <> struct ordered_halves<int16_t> {
    static __device__ uint32_t of(uint32_t items) { return items; }
    static __device__ int16_t back(int16_t item) { return item; }
};
template <class In> struct ordered_float_halves {
    static __device__ uint32_t plain(uint32_t floats); // +0, and one NaN
    static __device__ uint32_t of(uint32_t floats) {
        floats = plain(floats);
        // Negative values in descending order; the NaN, 0x7fff, wraps around. No carry crosses the
        // halves: there is no -0.
        return (floats ^ (floats >> 15 & 0x00010001u) * 0x7fffu) + 0x00010001u;
    }
    static __device__ In back(int16_t item) {
        const uint16_t bits = uint16_t(item - 1);
        return In{uint16_t(bits & 0x8000 ? bits ^ 0x7fff : bits)};
    }
};
template <> __device__ uint32_t ordered_float_halves<half>::plain(uint32_t floats) {
    asm("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(floats) : "r"(0x3c003c00), "r"(0));
    return floats;
}
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 800
template <> __device__ uint32_t ordered_float_halves<bfloat>::plain(uint32_t floats) {
    asm("fma.rn.bf16x2 %0, %0, %1, %2;" : "+r"(floats) : "r"(0x3f803f80), "r"(0));
    return floats;
}
#else
__device__ __noinline__ uint32_t plain_bfloats(uint32_t floats) {
    uint32_t plain = 0;
#pragma unroll
    for (unsigned shift = 0; shift < 32; shift += 16) {
        const uint32_t bits = floats >> shift & 0xffffu, magnitude = bits & 0x7fffu;
        plain |= (magnitude > 0x7f80 ? 0x7fffu : magnitude ? bits : 0) << shift;
    }
    return plain;
}
template <> __device__ uint32_t ordered_float_halves<bfloat>::plain(uint32_t floats) {
    return plain_bfloats(floats);
}
#endif
template <> struct ordered_halves<half> : ordered_float_halves<half> {};
template <> struct ordered_halves<bfloat> : ordered_float_halves<bfloat> {};

// The same for all elements up to 32 bits: converts an element to such a word, and back.
template <class In> struct ordered_words {
    static __device__ uint32_t of(uint32_t words) { return ordered_halves<In>::of(words); }
    static __device__ In back(int32 item) { return ordered_halves<In>::back(int16_t(item)); }
};
template <> struct ordered_words<int8_t> {
    static __device__ uint32_t of(uint32_t words) { return words; }
    static __device__ int8_t back(int32 item) { return int8_t(item); }
};
template <> struct ordered_words<int32> {
    static __device__ uint32_t of(uint32_t word) { return word; }
    static __device__ int32 back(int32 item) { return item; }
};
template <> struct ordered_words<float32> {
    static __device__ uint32_t of(uint32_t word) {
        const int32 plain = __float_as_int(__int_as_float(int32(word)) + 0.0f); // +0, and one NaN
        return (uint32_t(plain) ^ (uint32_t(plain >> 31) & 0x7fffffffu)) + 1;
    }
    static __device__ float32 back(int32 item) {
        const uint32_t bits = uint32_t(item) - 1;
        return __int_as_float(int32(bits >> 31 ? bits ^ 0x7fffffffu : bits));
    }
};
template <class In> struct indexed_halves : one_by_one<indexed_halves<In>> {
    using Op = op_argmin<In, int64>;
    using V = typename compared<In>::type;
    using Part = uint32_t;
    static constexpr uint32_t POSITION_BITS = AXIS_POSITIONS - 1;
    static_assert(POSITION_BITS == 0xffff, "the lower half");
    int32 best[8];
    __device__ indexed_halves() {
#pragma unroll
        for (unsigned i = 0; i < 8; i++)
            best[i] = INT32_MAX;
    }
    __device__ void add_one(const Op &op, const vec<In> &one, uint32_t position) {
        const uint32_t keys = keys_of<In>(op.s),
                       below = as_lower_part<POSITION_BITS>(position, op.s);
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            const uint32_t two = ordered_halves<In>::of(one.word[i] ^ keys);
            const int32 low = int32(__byte_perm(two, below, 0x1054)),
                        high = int32(__byte_perm(two, below, 0x3254));
            best[2 * i] = low < best[2 * i] ? low : best[2 * i];
            best[2 * i + 1] = high < best[2 * i + 1] ? high : best[2 * i + 1];
        }
    }
    __device__ Part part(unsigned i) const { return uint32_t(best[i]); }
    static __device__ indexed<V> whole(const Op &op, Part part, positions at) {
        if (part == INT32_MAX)
            return Op::identity();
        const uint32_t position = position_of<POSITION_BITS>(part, op.s);
        return {compared<In>::of(ordered_halves<In>::back(int16_t(part >> 16))),
                (at.first + int64(position) * at.step) ^ op.s.mask};
    }
};
template <> struct lanes<op_argmin<int16_t, int64>, int16_t, 8> : indexed_halves<int16_t> {};
template <> struct lanes<op_argmin<half, int64>, half, 8> : indexed_halves<half> {};
template <> struct lanes<op_argmin<bfloat, int64>, bfloat, 8> : indexed_halves<bfloat> {};

} // namespace axis

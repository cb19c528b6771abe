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

// add() in terms of add_one(), which receives an operation of one kind, a vector and its position;
// and the value of a part that is one.
// Missing vectors are identities: only argmin, to which positions matter, skips each of them.
template <class Mine, bool Indexed = false> struct one_by_one {
    template <bool All, class Op, class Vec, unsigned N>
    __device__ void add(const Op &op, const Vec (&vectors)[N], uint32_t position, unsigned apart,
                        unsigned left) {
        op.by_kind([&](const auto &of_kind) {
#pragma unroll
            for (unsigned k = 0; k < N; k++) {
                const bool looks = Indexed || k == 1 || (k && k % 2 == 0);
                if (looks && !is_there<All>(k, apart, left))
                    break;
                static_cast<Mine *>(this)->add_one(of_kind, vectors[k], position + k);
            }
        });
    }
    template <class One, class Part>
    static __device__ Part whole(const One &, Part part, positions) {
        return part;
    }
};

template <class Op, class In, unsigned Count> struct lanes : one_by_one<lanes<Op, In, Count>> {
    using Part = typename Op::Acc;
    Part values[Count];
    lanes() = default; // without values
    template <class One> __device__ explicit lanes(const One &op) {
#pragma unroll
        for (unsigned i = 0; i < Count; i++)
            values[i] = op.identity();
    }
    template <class One, class Vec>
    __device__ void add_one(const One &op, const Vec &one, uint32_t) {
#pragma unroll
        for (unsigned i = 0; i < Count; i++)
            values[i] = op.apply(values[i], op.load(one.items[i], 0));
    }
    __device__ Part part(unsigned i) const { return values[i]; }
};

// Sums of bytes in 32 bits, as no thread has more than AXIS_BYTE_VECTORS vectors.
// 0x80 for every nonzero byte.
__device__ inline uint32_t nonzero_bytes(uint32_t word) {
    return ((word & 0x7f7f7f7fu) + 0x7f7f7f7fu | word) & 0x80808080u;
}
// The number of halves of a vector that are not 0 in the bits of the key, by words.
__device__ inline unsigned nonzero_halves(const vec<int16_t> &one, const settings &s) {
    unsigned sum = 0; // of 0x8000 each
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        const uint32_t word = one.word[i] & keys_of<int16_t>(s);
        sum = __dp2a_lo(((word & 0x7fff7fffu) + 0x7fff7fffu | word) & 0x80008000u, 0x0101u, sum);
    }
    return sum >> 15;
}
template <unsigned Count> struct byte_sums : one_by_one<byte_sums<Count>> {
    using Part = int32;
    int32 values[Count] = {};
    // Each word's bytes go to Count / 4 values: all to one, or a byte to each, which a
    // multiplication by 1 at the byte's place and 0 elsewhere selects.
    template <class One> __device__ void add_one(const One &op, const vec<int8_t> &one, uint32_t) {
        const bool truths = op.is(AXIS_TRUTHS), is_signed = op.s.key == -1;
        const uint32_t kept = keys_of<int8_t>(op.s);
#pragma unroll
        for (unsigned i = 0; i < Count; i++) {
            uint32_t word = one.word[i * 4 / Count];
            if (truths)
                word = nonzero_bytes(word & kept) >> 7;
            const uint32_t pick = Count == 4 ? 0x01010101u : 1u << i % 4 * 8;
            values[i] = is_signed && !truths ? __dp4a(int32(word), int32(pick), values[i])
                                             : int32(__dp4a(word, pick, uint32_t(values[i])));
        }
    }
    __device__ Part part(unsigned i) const { return values[i]; }
    template <class One> static __device__ int64 whole(const One &op, Part part, positions) {
        return op.s.key == -1 ? part : int64(uint32_t(part));
    }
};
template <> struct lanes<op_sum<int8_t>, int8_t, 16> : byte_sums<16> {
    template <class One> __device__ explicit lanes(const One &) {}
};

// Sums of 16-bit floats: up to 16 in float32, then in float64. Divided by 16 they do not overflow,
// and lose nothing: bfloat16 has no such small numbers.
constexpr float32 SMALL = 0.0625f, MANY = 1 / SMALL;
template <unsigned Count> struct small_float_sums {
    using Part = float64;
    float64 values[Count] = {};
    template <class One> __device__ explicit small_float_sums(const One &) {}
    template <bool All, class One, unsigned N>
    __device__ void add(const One &op, const vec<int16_t> (&vectors)[N], uint32_t, unsigned,
                        unsigned) { // missing vectors are zeros
        static_assert(N <= MANY, "no overflow");
        op.by_kind([&](const auto &of_kind) {
            const auto add_up = [&](float64 &value, unsigned n, const auto &item) {
                float32 sum = SMALL * of_kind.widened(item(0));
#pragma unroll
                for (unsigned i = 1; i < n; i++)
                    sum = __fmaf_rn(SMALL, of_kind.widened(item(i)), sum);
                value = __fma_rn(float64(sum), MANY, value);
            };
            if constexpr (Count == 8) // by lane
#pragma unroll
                for (unsigned i = 0; i < 8; i++)
                    add_up(values[i], N, [&](unsigned k) { return vectors[k].items[i]; });
            else // a vector at a time
#pragma unroll
                for (unsigned k = 0; k < N; k++)
                    add_up(values[k % Count], 8, [&](unsigned i) { return vectors[k].items[i]; });
        });
    }
    __device__ Part part(unsigned i) const { return values[i]; }
    template <class One> static __device__ float64 whole(const One &, Part part, positions) {
        return part;
    }
    template <class One> __device__ float64 folded(const One &, positions) const {
        return values[0] + values[1];
    }
};
template <> struct lanes<op_float_sum<int16_t>, int16_t, 8> : small_float_sums<8> {
    using small_float_sums::small_float_sums;
};

// Minima of elements up to 32 bits, and bits, in words. Bytes have two sets: the words, and
// the words shifted by a byte.
template <class In> struct least_words : one_by_one<least_words<In>> {
    using Op = op_least<In>;
    using Part = In;
    static constexpr unsigned SETS = sizeof(In) == 1 ? 2 : 1;
    uint32_t values[SETS][4];
    template <class One> __device__ explicit least_words(const One &op) {
        const uint32_t nothing = nothing_of(op);
#pragma unroll
        for (unsigned i = 0; i < 4 * SETS; i++)
            values[i / 4][i % 4] = nothing;
    }
    template <class One>
    static __device__ uint32_t nothing_of(const One &op) { // a word of identities
        return keys_of<In>({op.identity()});
    }
    template <class One> __device__ void add_one(const One &op, const vec<In> &one, uint32_t) {
        const uint32_t keys = keys_of<In>(op.s);
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            const uint32_t word = one.word[i] ^ keys;
            values[0][i] = op.apply_words(values[0][i], word);
            if (SETS == 2)
                values[SETS - 1][i] = op.apply_words(values[SETS - 1][i], word << 8);
        }
    }
    __device__ uint4 raw_words(const Op &op) const { // the vector of all lanes' raw values
        vec<In> one;
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
            one.word[i] =
                keys_of<In>(op.s) ^ (SETS == 1 ? values[0][i]
                                               : (values[0][i] & 0xff00ff00u) |
                                                     (values[SETS - 1][i] >> 8 & 0x00ff00ffu));
        return one.words;
    }
    __device__ Part part(unsigned i) const {
        if (sizeof(In) == 1)
            return Part(values[1 - i % 2][i / 4] >> (i % 4 / 2 * 16 + 8));
        return sizeof(In) == 2 ? Part(values[0][i / 2] >> i % 2 * 16) : Part(values[0][i]);
    }
};
template <class Op, class In> constexpr bool has_raw_words = false;
template <class In> constexpr bool has_raw_words<op_least<In>, In> = sizeof(In) <= 4;
// A 16-bit element at a time, as a number.
template <>
struct lanes<op_least<int16_t>, int16_t, 1> : one_by_one<lanes<op_least<int16_t>, int16_t, 1>> {
    using Part = int32;
    Part value;
    lanes() = default; // without a value
    template <class One>
    __device__ explicit lanes(const One &op) : value(op.number(op.identity())) {}
    template <class One, class Vec>
    __device__ void add_one(const One &op, const Vec &one, uint32_t) {
        value = op.apply_numbers(value, op.number(op.keyed(one.items[0])));
    }
    __device__ Part part(unsigned) const { return value; }
    template <class One> static __device__ int16_t whole(const One &op, Part part, positions) {
        return op.bits_of(part);
    }
};
template <> struct lanes<op_least<int8_t>, int8_t, 16> : least_words<int8_t> {
    using least_words::least_words;
};
template <> struct lanes<op_least<int16_t>, int16_t, 8> : least_words<int16_t> {
    using least_words::least_words;
};
template <> struct lanes<op_least<int32>, int32, 4> : least_words<int32> {
    using least_words::least_words;
};

// A thread reads its elements in order, so the first of equals stays, and so does a NaN; with mask
// -1 a later equal replaces it, and so does a later NaN. It reads at least one: position 0 is
// correct if none improves on the initial value.
template <class In, unsigned Count> struct lanes<op_argmin<In>, In, Count> {
    using Op = op_argmin<In>;
    using V = typename Op::V;
    struct Part {
        V number;
        uint32_t position;
    };
    Part best[Count];
    lanes() = default; // without values
    template <class One> __device__ explicit lanes(const One &op) {
        const V largest = op.number(op.largest());
#pragma unroll
        for (unsigned i = 0; i < Count; i++)
            best[i] = {largest, 0};
    }
    template <bool All, class One, class Vec, unsigned N>
    __device__ void add(const One &op, const Vec (&vectors)[N], uint32_t position, unsigned apart,
                        unsigned left) {
        const auto add_in_order = [&](const auto &of_kind, bool last) {
#pragma unroll
            for (unsigned k = 0; k < N; k++)
#pragma unroll
                for (unsigned i = 0; i < Count; i++) {
                    const V number = of_kind.number(of_kind.keyed(vectors[k].items[i]));
                    if (is_there<All>(k, apart, left) &&
                        of_kind.better(best[i].number, number, last))
                        best[i] = {number, position + k};
                }
        };
        op.by_kind([&](const auto &of_kind) {
            if (op.s.mask)
                add_in_order(of_kind, true);
            else
                add_in_order(of_kind, false);
        });
    }
    __device__ Part part(unsigned i) const { return best[i]; }
    template <class One>
    static __device__ indexed<V> whole(const One &op, Part part, positions at) {
        return {part.number, (at.first + int64(part.position) * at.step) ^ op.s.mask};
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
// A byte or half above its position forms one number. No thread has 2^24 - 1 vectors of bytes.
template <class In> struct above_positions : one_by_one<above_positions<In>, true> {
    using Op = op_argmin<In>;
    using Part = uint32_t;
    static constexpr unsigned COUNT = vec<In>::count, BITS = 32 - 8 * sizeof(In);
    static constexpr uint32_t POSITION_BITS = (1u << BITS) - 1;
    static_assert(POSITION_BITS >= AXIS_POSITIONS - 1, "positions");
    int32 best[COUNT];
    template <class One> __device__ explicit above_positions(const One &) {
#pragma unroll
        for (unsigned i = 0; i < COUNT; i++)
            best[i] = INT32_MAX;
    }
    template <class One>
    __device__ void add_one(const One &op, const vec<In> &one, uint32_t position) {
        const uint32_t keys = keys_of<In>(op.s),
                       below = as_lower_part<POSITION_BITS>(position, op.s);
        uint32_t words[4];
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
            words[i] = op.ordered_words(one.word[i] ^ keys);
#pragma unroll
        for (unsigned i = 0; i < COUNT; i++) {
            const uint32_t word = words[i * sizeof(In) / 4];
            const int32 item =
                int32(sizeof(In) == 1 ? __byte_perm(word, below, 0x0654 | i % 4 << 12)
                                      : __byte_perm(word, below, i % 2 ? 0x3254 : 0x1054));
            best[i] = item < best[i] ? item : best[i];
        }
    }
    __device__ Part part(unsigned i) const { return uint32_t(best[i]); }
    template <class One>
    static __device__ typename Op::Acc whole(const One &op, Part part, positions at) {
        if (part == INT32_MAX)
            return op.identity();
        const uint32_t position = position_of<POSITION_BITS>(part, op.s);
        return {op.number_of(int32(part) >> BITS),
                (at.first + int64(position) * at.step) ^ op.s.mask};
    }
};
template <> struct lanes<op_argmin<int8_t>, int8_t, 16> : above_positions<int8_t> {
    using above_positions::above_positions;
};
template <> struct lanes<op_argmin<int16_t>, int16_t, 8> : above_positions<int16_t> {
    using above_positions::above_positions;
};

} // namespace axis

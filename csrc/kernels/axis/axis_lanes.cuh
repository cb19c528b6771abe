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

// add() in terms of add_one(), which receives an operation of one kind, a vector and its position;
// and the value of a part that is one.
// Missing vectors are identities: only argmin, to which positions matter, skips each of them.
template <class Mine, bool Indexed = false> struct one_by_one {
    template <class Op, class Vec, unsigned N>
    __device__ void add(const Op &op, const Vec (&vectors)[N], uint32_t position, unsigned apart,
                        unsigned left) {
        op.by_kind([&](const auto &of_kind) {
#pragma unroll
            for (unsigned k = 0; k < N; k++) {
                const bool looks = Indexed || k == 1 || (k && k % 2 == 0);
                if (looks && k * apart >= left)
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

// Values in turn for the elements of a vector: usually one for each.
template <class Self, class Op, unsigned Values> struct own_values : one_by_one<Self> {
    using Part = typename Op::Acc;
    Part values[Values];
    own_values() = default; // without values
    template <class One> __device__ explicit own_values(const One &op) {
#pragma unroll
        for (unsigned i = 0; i < Values; i++)
            values[i] = op.identity();
    }
    __device__ Part part(unsigned i) const { return values[i]; }
};
template <class Op, class In, unsigned Count, unsigned Values = Count>
struct lanes : own_values<lanes<Op, In, Count, Values>, Op, Values> {
    using lanes::own_values::own_values;
    template <class One, class Vec>
    __device__ void add_one(const One &op, const Vec &one, uint32_t) {
        const Vec keyed = op.keyed(one);
#pragma unroll
        for (unsigned i = 0; i < Count; i++)
            this->values[i % Values] = op.apply(this->values[i % Values], op.load_keyed(keyed, i));
    }
};

// 0x80 for every nonzero byte.
__device__ inline uint32_t nonzero_bytes(uint32_t word) {
    return ((word & 0x7f7f7f7fu) + 0x7f7f7f7fu | word) & 0x80808080u;
}
// Sums of bytes in 32 bits, as no thread has more than AXIS_BYTE_VECTORS vectors, or bytes alone: a
// word's bytes go to one value each, or all to one. A multiplication by 1 at a byte's place and 0
// elsewhere selects it.
template <unsigned Count, unsigned Values>
struct lanes<op_sum<int8_t>, int8_t, Count, Values>
    : one_by_one<lanes<op_sum<int8_t>, int8_t, Count, Values>> {
    using Part = int32;
    int32 values[Values] = {};
    lanes() = default;
    template <class One> __device__ explicit lanes(const One &) {}
    template <class One>
    __device__ void add_one(const One &op, const alone<int8_t> &one, uint32_t) {
        values[0] = int32(op.apply(values[0], op.load(one.items[0], 0)));
    }
    template <class One> __device__ void add_one(const One &op, const vec<int8_t> &one, uint32_t) {
        constexpr unsigned OF_WORD = Values == 16 ? 4 : 1;
#pragma unroll
        for (unsigned i = 0; i < 4 * OF_WORD; i++) {
            uint32_t word = one.word[i / OF_WORD];
            if (op.is(AXIS_TRUTHS))
                word = nonzero_bytes(word) >> 7;
            const uint32_t pick = OF_WORD == 4 ? 1u << i % 4 * 8 : 0x01010101u;
            int32 &sum = values[i % Values];
            sum = op.s.key == -1 ? __dp4a(int32(word), int32(pick), sum)
                                 : int32(__dp4a(word, pick, uint32_t(sum)));
        }
    }
    __device__ Part part(unsigned i) const { return values[i]; }
    template <class One> static __device__ int64 whole(const One &op, Part part, positions) {
        return op.s.key == -1 ? part : int64(uint32_t(part));
    }
};

// Sums of 16-bit floats: up to 16 in float32, then in float64. Divided by 16 they do not overflow,
// and lose nothing: bfloat16 has no such small numbers.
constexpr float32 SMALL = 0.0625f, MANY = 1 / SMALL;
template <unsigned Count, unsigned Values>
struct lanes<op_float_sum<int16_t>, int16_t, Count, Values>
    : own_values<lanes<op_float_sum<int16_t>, int16_t, Count, Values>, op_float_sum<int16_t>,
                 Values> {
    using lanes::own_values::own_values;
    template <class One, class Vec, unsigned N>
    __device__ void add(const One &op, const Vec (&vectors)[N], uint32_t, unsigned,
                        unsigned) {               // missing vectors are zeros
        constexpr bool BY_LANE = Values == Count; // else a vector at a time
        constexpr unsigned SUMS = BY_LANE ? Count : N, OF_EACH = BY_LANE ? N : Count;
        static_assert(OF_EACH <= MANY, "no overflow");
        op.by_kind([&](const auto &of_kind) {
#pragma unroll
            for (unsigned i = 0; i < SUMS; i++) {
                const auto item = [&](unsigned k) {
                    return of_kind.widened(BY_LANE ? vectors[k].items[i] : vectors[i].items[k]);
                };
                float32 sum = SMALL * item(0);
#pragma unroll
                for (unsigned k = 1; k < OF_EACH; k++)
                    sum = __fmaf_rn(SMALL, item(k), sum);
                this->values[i % Values] = __fma_rn(float64(sum), MANY, this->values[i % Values]);
            }
        });
    }
};

// A thread reads its elements in order, so the first of equals stays, and so does a NaN; with mask
// -1 a later equal replaces it, and so does a later NaN. It reads at least one: position 0 is
// correct if none improves on the initial value. With one value for all elements of a vector, they
// have positions, and `left` counts them.
template <class In, unsigned Count, unsigned Values>
struct lanes<op_argmin<In>, In, Count, Values> {
    using Op = op_argmin<In>;
    using V = typename Op::V;
    struct Part {
        V number;
        uint32_t position;
    };
    Part best[Values];
    lanes() = default; // without values
    template <class One> __device__ explicit lanes(const One &op) {
        const V largest = op.number(op.largest());
#pragma unroll
        for (unsigned i = 0; i < Values; i++)
            best[i] = {largest, 0};
    }
    template <class One, class Vec, unsigned N>
    __device__ void add(const One &op, const Vec (&vectors)[N], uint32_t position, unsigned apart,
                        unsigned left) {
        const auto add_in_order = [&](const auto &of_kind, bool last) {
#pragma unroll
            for (unsigned k = 0; k < N; k++) {
                const Vec keyed = of_kind.keyed(vectors[k]);
#pragma unroll
                for (unsigned i = 0; i < Count; i++) {
                    const V number = of_kind.load_keyed(keyed, i);
                    const unsigned at = Values == Count ? k : k * Count + i;
                    if (at * apart < left && of_kind.better(best[i % Values].number, number, last))
                        best[i % Values] = {number, position + at};
                }
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
// A byte above its position forms one number: with mask -1 later positions are smaller. No thread
// has 2^24 - 1 vectors.
template <>
struct lanes<op_argmin<int8_t>, int8_t, 16>
    : one_by_one<lanes<op_argmin<int8_t>, int8_t, 16>, true> {
    using Part = int32;
    static constexpr int32 POSITION_BITS = 0xffffff;
    int32 best[16];
    template <class One> __device__ explicit lanes(const One &) {
#pragma unroll
        for (unsigned i = 0; i < 16; i++)
            best[i] = INT32_MAX;
    }
    template <class One>
    __device__ void add_one(const One &op, const vec<int8_t> &one, uint32_t position) {
        const uint32_t mask = uint32_t(op.s.mask), below = position - mask ^ mask;
        const vec<int8_t> keyed = op.keyed(one);
#pragma unroll
        for (unsigned i = 0; i < 16; i++) { // the byte above 24 bits of the position
            const int32 item = int32(__byte_perm(keyed.word[i / 4], below, 0x0654 | i % 4 << 12));
            best[i] = item < best[i] ? item : best[i];
        }
    }
    __device__ Part part(unsigned i) const { return best[i]; }
    template <class One>
    static __device__ indexed<int32> whole(const One &op, Part part, positions at) {
        if (part == INT32_MAX)
            return op.identity();
        const int64 position = ((part ^ int32(op.s.mask)) & POSITION_BITS) + op.s.mask;
        return {part & ~POSITION_BITS, (at.first + position * at.step) ^ op.s.mask};
    }
};

// The same along a row: all lanes belong to one result, and folded() is a thread's part of it.
template <class Op, class In,
          unsigned Values = has_index<Op>     ? vec<In>::count
                            : sizeof(In) == 1 ? 4
                                              : 2>
struct along : lanes<Op, In, vec<In>::count, Values> {
    using along::lanes::lanes;
    template <class One> __device__ typename Op::Acc folded(const One &op, positions at) const {
        typename Op::Acc value = this->whole(op, this->part(0), at);
        op.by_order([&](const auto &one) {
#pragma unroll
            for (unsigned i = 1; i < Values; i++)
                value = one.apply(value, this->whole(op, this->part(i), {at.first + i, at.step}));
        });
        return value;
    }
};

} // namespace axis

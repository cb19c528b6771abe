// axis_rows.cuh: how threads of reduce_axis.cu reduce rows, long and short. All elements of a
// vector along a row belong to one result, so less state is kept than in lanes. Contains no kernel
// and knows no shape of work.
#pragma once

#include "axis_lanes.cuh"

namespace axis {

// --- vectors along a row: all lanes of a thread belong to one result

// Elements of a row, or of a chunk of one: those that count are `every` apart, beginning with the
// first. Whole vectors lie between the first `before` elements and the last, which begin at `tail`.
template <class In> struct line {
    const In *items;
    uint64 number; // index of the first element in its row, skipped ones included
    unsigned before, tail, span, every;
};

// Reduces a line's vectors and joins the parts: single() makes a part of element number `at`,
// whole() the value of all parts.
template <class Op, class In> struct row_of {
    using Part = typename Op::Acc;
    static __device__ Part nothing() { return Op::identity(); }
    static __device__ Part single(const Op &op, In item, unsigned at) {
        return op.load(item, int64(at));
    }
    static __device__ Part join(const Op &op, Part a, Part b) { return op.apply(a, b); }
    static __device__ typename Op::Acc whole(const Op &op, Part part, const line<In> &in) {
        if constexpr (has_index<Op>)
            part.index = (part.index ^ op.s.mask) + int64(in.number) ^ op.s.mask;
        return part;
    }
};
// folded() is a thread's part of a row.
template <class Op, class In> struct along : lanes<Op, In, vec<In>::count> {
    __device__ typename Op::Acc folded(const Op &op, positions at) const {
        constexpr unsigned count = vec<In>::count;
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
// Sums twice as wide as their elements: two accumulators, as four would need too many registers.
template <class In, class Acc> struct along_two_sums : one_by_one<along_two_sums<In, Acc>> {
    using Op = op_sum<In, Acc>;
    Acc values[2] = {};
    __device__ void add_one(const Op &op, const vec<In> &one, uint32_t) {
#pragma unroll
        for (unsigned i = 0; i < vec<In>::count; i++)
            values[i % 2] = op.apply(values[i % 2], op.load(one.items[i], 0));
    }
    __device__ Acc folded(const Op &op, positions) const { return op.apply(values[0], values[1]); }
};
template <> struct along<op_sum<float32, float64>, float32> : along_two_sums<float32, float64> {};
template <> struct along<op_sum<int32, int64>, int32> : along_two_sums<int32, int64> {};
template <> struct along<op_sum<int8_t, int64>, int8_t> : byte_sums<4> {
    using Op = op_sum<int8_t, int64>;
    template <bool All, unsigned N>
    __device__ void add(const Op &op, const vec<int8_t> (&vectors)[N], uint32_t, unsigned,
                        unsigned) { // missing vectors are zeros
#pragma unroll
        for (unsigned k = 0; k < N; k++)
#pragma unroll
            for (unsigned i = 0; i < 4; i++)
                values[i] =
                    op.s.key == -1
                        ? __dp4a(int32(vectors[k].word[i]), 0x01010101, values[i])
                        : int32(__dp4a(vectors[k].word[i], 0x01010101u, uint32_t(values[i])));
    }
    __device__ int64 folded(const Op &op, positions) const {
        if (op.s.key == -1)
            return int64(values[0]) + values[1] + values[2] + values[3];
        return int64(uint32_t(values[0])) + uint32_t(values[1]) + uint32_t(values[2]) +
               uint32_t(values[3]);
    }
};
template <>
struct along<op_sum<int16_t, int64>, int16_t> : one_by_one<along<op_sum<int16_t, int64>, int16_t>> {
    using Op = op_sum<int16_t, int64>;
    int64 value = 0;
    __device__ void add_one(const Op &op, const vec<int16_t> &one, uint32_t) {
        int32 sum = 0;
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
            sum = op.s.key == -1 ? __dp2a_lo(int32(one.word[i]), 0x0101, sum)
                                 : int32(__dp2a_lo(one.word[i], 0x0101u, uint32_t(sum)));
        value += sum;
    }
    __device__ int64 folded(const Op &, positions) const { return value; }
};
template <class In> struct along_counts : one_by_one<along_counts<In>> {
    using Op = op_count<In, int64>;
    int64 value = 0;
    __device__ void add_one(const Op &op, const vec<In> &one, uint32_t) {
        unsigned count = 0;
#pragma unroll
        for (unsigned i = 0; i < vec<In>::count; i++)
            count += (one.items[i] & In(op.s.key)) != 0;
        value += count;
    }
    __device__ int64 folded(const Op &, positions) const { return value; }
};
template <> struct along<op_count<int16_t, int64>, int16_t> : along_counts<int16_t> {};
template <> struct along<op_count<int32, int64>, int32> : along_counts<int32> {};
template <> struct along<op_count<int64, int64>, int64> : along_counts<int64> {};
template <> struct along<op_count<int8_t, int64>, int8_t> : byte_sums<4> {
    using Op = op_count<int8_t, int64>;
    template <bool All, unsigned N>
    __device__ void add(const Op &op, const vec<int8_t> (&vectors)[N], uint32_t, unsigned,
                        unsigned) {
        const uint32_t kept = keys_of<int8_t>(op.s);
#pragma unroll
        for (unsigned k = 0; k < N; k++)
#pragma unroll
            for (unsigned i = 0; i < 4; i++)
                values[i] = int32(__dp4a(nonzero_bytes(vectors[k].word[i] & kept) >> 7, 0x01010101u,
                                         uint32_t(values[i])));
    }
    __device__ int64 folded(const Op &, positions) const {
        return int64(values[0]) + values[1] + values[2] + values[3];
    }
};
// A vector's elements in float32, their sums in float64.
template <class In> struct along_small_floats : wide_sums<2> {
    using Op = op_sum<In, float64>;
    template <bool All, unsigned N>
    __device__ void add(const Op &op, const vec<In> (&vectors)[N], uint32_t, unsigned, unsigned) {
#pragma unroll
        for (unsigned k = 0; k < N; k++) {
            float32 sum = widened(vectors[k].items[0]);
#pragma unroll
            for (unsigned i = 1; i < 8; i++)
                sum += widened(vectors[k].items[i]);
            values[k % 2] += sum;
        }
    }
    __device__ float64 folded(const Op &, positions) const { return values[0] + values[1]; }
};
template <> struct along<op_sum<half, float64>, half> : along_small_floats<half> {};
template <> struct along<op_sum<bfloat, float64>, bfloat> : along_small_floats<bfloat> {};
template <> constexpr bool may_overflow<along<op_sum<bfloat, float64>, bfloat>> = true;
template <>
struct along<op_min<int8_t, int8_t>, int8_t> : one_by_one<along<op_min<int8_t, int8_t>, int8_t>> {
    using Op = op_min<int8_t, int8_t>;
    uint32_t least = 0x7fff7fff; // bytes above others, which only decide among equals
    __device__ void add_one(const Op &op, const vec<int8_t> &one, uint32_t) {
        const uint32_t keys = keys_of<int8_t>(op.s);
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            const uint32_t word = one.word[i] ^ keys;
            least = min_halves(least, min_halves(word, word << 8));
        }
    }
    __device__ int8_t folded(const Op &op, positions) const {
        return op.apply(int8_t(least >> 24), int8_t(least >> 8));
    }
};

// argmin of elements up to 32 bits: the minimum of a vector, in the order of signed integers, and
// the vector's position; the element is searched in it at the end. Parts are numbers, value above
// index: the element's index in its line, or that of the vector's first element.
template <class In> __device__ int32 least_of(const vec<In> &one, uint32_t keys) {
    uint32_t words[4];
#pragma unroll
    for (unsigned i = 0; i < 4; i++)
        words[i] = one.word[i] ^ keys;
    if constexpr (sizeof(In) == 4) {
        union {
            uint32_t word;
            In item;
        } least = {words[0]}, other;
#pragma unroll
        for (unsigned i = 1; i < 4; i++) {
            other.word = words[i];
            least.item = lesser(least.item, other.item);
        }
        return int32(ordered_words<In>::of(least.word));
    } else {
        using Least = lanes<op_min<In, typename compared<In>::type>, In, vec<In>::count>;
        const uint32_t halves = ordered_words<In>::of(Least::least_halves(words));
        const int32 high = int32(halves) >> 16, low = int32(halves << 16) >> 16;
        return (high < low ? high : low) >> (sizeof(In) == 1 ? 8 : 0);
    }
}
template <class In> struct along_positions : one_by_one<along_positions<In>> {
    using Op = op_argmin<In, int64>;
    int32 least = INT32_MAX;
    uint32_t position = 0;
    __device__ void add_one(const Op &op, const vec<In> &one, uint32_t at) {
        const int32 item = least_of(one, keys_of<In>(op.s));
        if (op.s.mask ? item <= least : item < least) {
            least = item;
            position = at;
        }
    }
    __device__ int64 folded(const Op &op, positions at) const {
        return row_of<Op, In>::part(op, least, unsigned(at.first) + position * unsigned(at.step));
    }
};
template <class In> struct row_of_positions {
    using Op = op_argmin<In, int64>;
    using Part = int64;
    static constexpr uint32_t POSITION_BITS =
        0x7fffffff; // all bits, inverted if the last one counts
    static __device__ Part nothing() { return INT64_MAX; }
    static __device__ Part part(const Op &op, int32 item, unsigned at) {
        return int64(uint64(uint32_t(item)) << 32 | (at ^ uint32_t(op.s.mask)) & POSITION_BITS);
    }
    static __device__ int32 ordered(const Op &op, In item) {
        vec<In> one = {};
        one.items[0] = item;
        const uint32_t word = ordered_words<In>::of(one.word[0] ^ keys_of<In>(op.s));
        return int32(word << (32 - 8 * sizeof(In))) >> (32 - 8 * sizeof(In));
    }
    static __device__ Part single(const Op &op, In item, unsigned at) {
        return part(op, ordered(op, item), at);
    }
    static __device__ Part join(const Op &, Part a, Part b) { return a < b ? a : b; }
    static __device__ typename Op::Acc whole(const Op &op, Part part, const line<In> &in) {
        if (part == nothing())
            return Op::identity();
        const int32 least = int32(part >> 32);
        unsigned at = (uint32_t(part) ^ uint32_t(op.s.mask)) & POSITION_BITS;
        if (at >= in.before && at < in.tail) {
            vec<In> one;
            one.words = *reinterpret_cast<const uint4 *>(in.items + at);
            uint32_t found = 0;
#pragma unroll
            for (unsigned i = 0; i < vec<In>::count; i++)
                if (ordered(op, one.items[i]) == least)
                    found |= 1u << i;
            if (in.every > 1) { // bits of the items that count
                uint32_t counted = 0;
#pragma unroll 1
                for (unsigned i = (in.every - at % in.every) % in.every; i < vec<In>::count;
                     i += in.every)
                    counted |= 1u << i;
                found &= counted;
            }
            at += op.s.mask ? 31 - __clz(int(found)) : __ffs(int(found)) - 1;
        }
        return {compared<In>::of(ordered_words<In>::back(least)),
                int64(in.every == 1 ? in.number + at : (in.number + at) / in.every) ^ op.s.mask};
    }
};
#define ALONG_POSITIONS(In)                                                        \
    template <> struct row_of<op_argmin<In, int64>, In> : row_of_positions<In> {}; \
    template <> struct along<op_argmin<In, int64>, In> : along_positions<In> {};
ALONG_POSITIONS(int8_t)
ALONG_POSITIONS(int16_t)
ALONG_POSITIONS(int32)
ALONG_POSITIONS(half)
ALONG_POSITIONS(bfloat)
ALONG_POSITIONS(float32)
#undef ALONG_POSITIONS

// --- a short row, by a few lanes or one thread: of() reduces its N elements from index `first` on,
// join() two parts, whole() returns the value. For small elements the index is the low part of a
// number.

template <class In> union triple {
    uint32_t word[6];
    In items[3];
};

template <class Op, class In> struct short_row {
    using Part = typename Op::Acc;
    static __device__ Part nothing() { return Op::identity(); }
    template <unsigned N, class Vec>
    static __device__ Part of(const Op &op, const Vec &one, unsigned first) {
        if constexpr (N == vec<In>::count && !has_index<Op>) {
            along<Op, In> mine;
            const vec<In> vectors[1] = {one};
            add_finite(mine, [&](auto &to) { to.template add<true>(op, vectors, 0, 0, 0); });
            return mine.folded(op, {first, 0});
        } else if constexpr (has_index<Op>) { // fewer comparisons than by lanes
            alone<In> in_turn[N];
#pragma unroll
            for (unsigned i = 0; i < N; i++)
                in_turn[i].items[0] = one.items[i];
            lanes<Op, In, 1> mine;
            mine.template add<true>(op, in_turn, 0, 0, 0);
            return mine.whole(op, mine.part(0), {first, 1});
        } else {
            Part found = op.load(one.items[0], first);
#pragma unroll
            for (unsigned i = 1; i < N; i++)
                found = op.apply(found, op.load(one.items[i], first + i));
            return found;
        }
    }
    static __device__ Part join(const Op &op, Part a, Part b) { return op.apply(a, b); }
    static __device__ typename Op::Acc whole(const Op &, Part part) { return part; }
};
template <class In> struct short_row_of_positions {
    using Op = op_argmin<In, int64>;
    static constexpr unsigned SIZE = sizeof(In), BITS = SIZE == 4 ? 32 : 32 - 8 * SIZE;
    static constexpr uint32_t POSITION_BITS = uint32_t((uint64(1) << BITS) - 1);
    template <unsigned Size, class = void> struct part { using type = int32; };
    template <class None> struct part<4, None> { using type = int64; };
    using Part = typename part<SIZE>::type;
    static constexpr Part NOTHING = Part(~uint64(0) >> (65 - 8 * sizeof(Part)));
    static __device__ Part nothing() { return NOTHING; }

    template <unsigned N, class Vec>
    static __device__ Part of(const Op &op, const Vec &one, unsigned first) {
        const bool last = op.s.mask != 0;
        const uint32_t keys = keys_of<In>(op.s);
        uint32_t words[4];
#pragma unroll
        for (unsigned i = 0; i < (N * SIZE + 3) / 4; i++)
            words[i] = ordered_words<In>::of(one.word[i] ^ keys);
        Part found = NOTHING;
#pragma unroll
        for (unsigned i = 0; i < N; i++) {
            const uint32_t position = last ? N - 1 - i : i; // from the base on
            Part item;
            if constexpr (SIZE == 1)
                item = Part(__byte_perm(words[i / 4], position, 0x0654 | i % 4 << 12));
            else if constexpr (SIZE == 2)
                item = Part(__byte_perm(words[i / 2], position, i % 2 ? 0x3254 : 0x1054));
            else
                item = Part(uint64(words[i]) << 32 | position);
            found = item < found ? item : found;
        }
        return Part(found + (last ? POSITION_BITS - first - N : first));
    }
    static __device__ Part join(const Op &, Part a, Part b) { return a < b ? a : b; }
    static __device__ typename Op::Acc whole(const Op &op, Part part) {
        if (part == NOTHING)
            return Op::identity();
        const int64 position = position_of<POSITION_BITS>(uint32_t(part), op.s);
        return {compared<In>::of(ordered_words<In>::back(int32(part >> BITS))),
                position ^ op.s.mask};
    }
};
template <> struct short_row<op_argmin<int8_t, int64>, int8_t> : short_row_of_positions<int8_t> {};
template <>
struct short_row<op_argmin<int16_t, int64>, int16_t> : short_row_of_positions<int16_t> {};
template <> struct short_row<op_argmin<half, int64>, half> : short_row_of_positions<half> {};
template <> struct short_row<op_argmin<bfloat, int64>, bfloat> : short_row_of_positions<bfloat> {};
template <> struct short_row<op_argmin<int32, int64>, int32> : short_row_of_positions<int32> {};
template <>
struct short_row<op_argmin<float32, int64>, float32> : short_row_of_positions<float32> {};

} // namespace axis

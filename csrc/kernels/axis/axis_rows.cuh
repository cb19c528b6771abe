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
    static __device__ Part nothing(const Op &op) { return op.identity(); }
    static __device__ Part single(const Op &op, In item, unsigned at) {
        return op.load(item, int64(at));
    }
    template <class F> static __device__ void by_order(const Op &op, const F &f) { op.by_order(f); }
    template <class One> static __device__ Part join(const One &op, Part a, Part b) {
        return op.apply(a, b);
    }
    template <class One>
    static __device__ typename Op::Acc whole(const One &op, Part part, const line<In> &in) {
        if constexpr (has_index<Op>)
            part.index = (part.index ^ op.s.mask) + int64(in.number) ^ op.s.mask;
        return part;
    }
};
// folded() is a thread's part of a row.
template <class Op, class In> struct along : lanes<Op, In, vec<In>::count> {
    using lanes<Op, In, vec<In>::count>::lanes;
    template <class One> __device__ typename Op::Acc folded(const One &op, positions at) const {
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
// Two accumulators, as four of twice the elements' bytes would need too many registers.
template <class Op, class In> struct along_sums : one_by_one<along_sums<Op, In>> {
    typename Op::Acc values[2];
    template <class One>
    __device__ explicit along_sums(const One &op) : values{op.identity(), op.identity()} {}
    template <class One> __device__ void add_one(const One &op, const vec<In> &one, uint32_t) {
        if (op.is(AXIS_TRUTHS)) {
            unsigned count = 0;
            if constexpr (sizeof(In) == 2)
                count = nonzero_halves(one, op.s);
            else
#pragma unroll
                for (unsigned i = 0; i < vec<In>::count; i++)
                    count += unsigned(op.load(one.items[i], 0));
            values[0] += count;
        } else if constexpr (sizeof(In) == 2) {
            int32 sum = 0;
#pragma unroll
            for (unsigned i = 0; i < 4; i++)
                sum = op.s.key == -1 ? __dp2a_lo(int32(one.word[i]), 0x0101, sum)
                                     : int32(__dp2a_lo(one.word[i], 0x0101u, uint32_t(sum)));
            values[0] += sum;
        } else {
#pragma unroll
            for (unsigned i = 0; i < vec<In>::count; i++)
                values[i % 2] = op.apply(values[i % 2], op.load(one.items[i], 0));
        }
    }
    template <class One> __device__ typename Op::Acc folded(const One &op, positions) const {
        return op.apply(values[0], values[1]);
    }
};
struct along_bytes : byte_sums<4> {
    using Op = op_sum<int8_t>;
    template <class One> __device__ explicit along_bytes(const One &) {}
    template <class One> __device__ int64 folded(const One &op, positions at) const {
        return whole(op, values[0], at) + whole(op, values[1], at) + whole(op, values[2], at) +
               whole(op, values[3], at);
    }
};
// The least word of all vectors.
template <class In> struct along_least : one_by_one<along_least<In>> {
    using Op = op_least<In>;
    uint32_t least;
    template <class One>
    __device__ explicit along_least(const One &op) : least(least_words<In>::nothing_of(op)) {}
    template <class One> __device__ void add_one(const One &op, const vec<In> &one, uint32_t) {
        least = op.apply_words(least, op.least_word(one));
    }
    template <class One> __device__ In folded(const One &op, positions) const {
        return sizeof(In) == 4   ? In(least)
               : sizeof(In) == 2 ? op.apply(In(least >> 16), In(least))
                                 : op.apply(In(least >> 24), In(least >> 8));
    }
};
// argmin of elements up to 32 bits: the minimum of a vector, in the order of signed integers, and
// the vector's position; the element is searched in it at the end. Parts are numbers, value above
// index: the element's index in its line, or that of the vector's first element.
template <class In> struct along_positions : one_by_one<along_positions<In>, true> {
    using Op = op_argmin<In>;
    int32 least = INT32_MAX;
    uint32_t position = 0;
    template <class One> __device__ explicit along_positions(const One &) {}
    template <class One> __device__ void add_one(const One &op, const vec<In> &one, uint32_t at) {
        const uint32_t word = op.ordered_words(op_least<In, One::KIND>{{op.s}}.least_word(one));
        const int32 high = int32(word) >> 16, low = int32(word << 16) >> 16;
        const int32 item =
            sizeof(In) == 4 ? int32(word) : (high < low ? high : low) >> (sizeof(In) == 1 ? 8 : 0);
        if (op.s.mask ? item <= least : item < least) {
            least = item;
            position = at;
        }
    }
    template <class One> __device__ int64 folded(const One &op, positions at) const {
        return row_of<Op, In>::part(op, least, unsigned(at.first) + position * unsigned(at.step));
    }
};
template <class In> struct row_of_positions {
    using Op = op_argmin<In>;
    using Part = int64;
    static constexpr uint32_t POSITION_BITS =
        0x7fffffff; // all bits, inverted if the last one counts
    static __device__ Part nothing(const Op &) { return INT64_MAX; }
    static __device__ Part part(const Op &op, int32 item, unsigned at) {
        return int64(uint64(uint32_t(item)) << 32 | (at ^ uint32_t(op.s.mask)) & POSITION_BITS);
    }
    static __device__ Part single(const Op &op, In item, unsigned at) {
        return part(op, In(op.ordered_words(uint32_t(op.keyed(item)))), at);
    }
    template <class F> static __device__ void by_order(const Op &op, const F &f) { f(op); }
    static __device__ Part join(const Op &, Part a, Part b) { return a < b ? a : b; }
    template <class One>
    static __device__ typename Op::Acc whole(const One &op, Part part, const line<In> &in) {
        if (part == nothing(op))
            return op.identity();
        const int32 least = int32(part >> 32);
        unsigned at = (uint32_t(part) ^ uint32_t(op.s.mask)) & POSITION_BITS;
        if (at >= in.before && at < in.tail) {
            vec<In> one;
            one.words = *reinterpret_cast<const uint4 *>(in.items + at);
            op.by_kind([&](const auto &of_kind) {
#pragma unroll
                for (unsigned i = 0; i < 4; i++)
                    one.word[i] = of_kind.ordered_words(one.word[i] ^ keys_of<In>(op.s));
            });
            uint32_t found = 0;
#pragma unroll
            for (unsigned i = 0; i < vec<In>::count; i++)
                if (one.items[i] == In(least))
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
        return {op.number_of(least),
                int64(in.every == 1 ? in.number + at : (in.number + at) / in.every) ^ op.s.mask};
    }
};
// The structure that serves an operation on a type.
#define SERVED_BY(general, Op, In, ...)                    \
    template <> struct general<Op<In>, In> : __VA_ARGS__ { \
        using Base = __VA_ARGS__;                          \
        using Base::Base;                                  \
    };
SERVED_BY(along, op_sum, int8_t, along_bytes)
SERVED_BY(along, op_sum, int16_t, along_sums<op_sum<int16_t>, int16_t>)
SERVED_BY(along, op_sum, int32, along_sums<op_sum<int32>, int32>)
SERVED_BY(along, op_sum, int64, along_sums<op_sum<int64>, int64>)
SERVED_BY(along, op_float_sum, int16_t, small_float_sums<2>)
SERVED_BY(along, op_float_sum, float32, along_sums<op_float_sum<float32>, float32>)
SERVED_BY(along, op_least, int8_t, along_least<int8_t>)
SERVED_BY(along, op_least, int16_t, along_least<int16_t>)
SERVED_BY(along, op_least, int32, along_least<int32>)
SERVED_BY(along, op_argmin, int8_t, along_positions<int8_t>)
SERVED_BY(along, op_argmin, int16_t, along_positions<int16_t>)
SERVED_BY(along, op_argmin, int32, along_positions<int32>)
SERVED_BY(row_of, op_argmin, int8_t, row_of_positions<int8_t>)
SERVED_BY(row_of, op_argmin, int16_t, row_of_positions<int16_t>)
SERVED_BY(row_of, op_argmin, int32, row_of_positions<int32>)

// --- a short row, by a few lanes or one thread: of() reduces its N elements from index `first` on,
// join() two parts, whole() returns the value. For small elements the index is the low part of a
// number.

template <class In> union triple {
    uint32_t word[6];
    In items[3];
};

template <class Op, class In> struct short_row {
    using Part = typename Op::Acc;
    static __device__ Part nothing(const Op &op) { return op.identity(); }
    template <unsigned N, class One, class Vec> // an operation of one kind
    static __device__ Part of(const One &op, const Vec &one, unsigned first) {
        if constexpr (N == vec<In>::count && !has_index<Op>) {
            along<Op, In> mine(op);
            const vec<In> vectors[1] = {one};
            mine.template add<true>(op, vectors, 0, 0, 0);
            return mine.folded(op, {first, 0});
        } else if constexpr (has_index<Op>) { // fewer comparisons than by lanes
            alone<In> in_turn[N];
#pragma unroll
            for (unsigned i = 0; i < N; i++)
                in_turn[i].items[0] = one.items[i];
            lanes<Op, In, 1> mine(op);
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
    template <class One> static __device__ Part join(const One &op, Part a, Part b) {
        return op.apply(a, b);
    }
    template <class One> static __device__ typename Op::Acc whole(const One &, Part part) {
        return part;
    }
};
template <class In> struct short_row_of_positions {
    using Op = op_argmin<In>;
    static constexpr unsigned SIZE = sizeof(In), BITS = SIZE == 4 ? 32 : 32 - 8 * SIZE;
    static constexpr uint32_t POSITION_BITS = uint32_t((uint64(1) << BITS) - 1);
    template <unsigned Size, class = void> struct part { using type = int32; };
    template <class None> struct part<4, None> { using type = int64; };
    using Part = typename part<SIZE>::type;
    static constexpr Part NOTHING = Part(~uint64(0) >> (65 - 8 * sizeof(Part)));
    static __device__ Part nothing(const Op &) { return NOTHING; }

    template <unsigned N, class One, class Vec>
    static __device__ Part of(const One &op, const Vec &one, unsigned first) {
        const bool last = op.s.mask != 0;
        const uint32_t keys = keys_of<In>(op.s);
        uint32_t words[4];
#pragma unroll
        for (unsigned i = 0; i < (N * SIZE + 3) / 4; i++)
            words[i] = op.ordered_words(one.word[i] ^ keys);
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
    template <class One> static __device__ Part join(const One &, Part a, Part b) {
        return a < b ? a : b;
    }
    template <class One> static __device__ typename Op::Acc whole(const One &op, Part part) {
        if (part == NOTHING)
            return op.identity();
        const int64 position = position_of<POSITION_BITS>(uint32_t(part), op.s);
        return {op.number_of(int32(part >> BITS)), position ^ op.s.mask};
    }
};
SERVED_BY(short_row, op_argmin, int8_t, short_row_of_positions<int8_t>)
SERVED_BY(short_row, op_argmin, int16_t, short_row_of_positions<int16_t>)
SERVED_BY(short_row, op_argmin, int32, short_row_of_positions<int32>)
#undef SERVED_BY

} // namespace axis

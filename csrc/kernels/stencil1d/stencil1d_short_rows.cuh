// stencil1d_short_rows.cuh: rung 5 of stencil1d.cu for many short rows. Contains no kernel.
#pragma once

#include "stencil1d_narrow.cuh"

namespace stencil1d {

// Tiles hold whole rows, without halos. An input that an output's window meets several times,
// beyond the ends too, is multiplied once by the sum of those weights. A block adds those up in
// shared memory, for each output and input of a row.

// Calls add(first, end) for the runs of `apart`-th weights of output j that meet input i.
template <class In, class Acc, class Add>
__device__ void weights_of(const stencil<In, Acc> &s, int i, int j, Add add) {
    const int n = static_cast<int>(s.n), left = static_cast<int>(s.first - s.before) + j;
    const int width = static_cast<int>(s.width);
    if (s.mode == CONSTANT || s.mode == NEAREST || n == 1) {
        const bool repeats = s.mode != CONSTANT;
        add(repeats && i == 0 ? 0 : i - left, repeats && i == n - 1 ? width : i - left + 1, 1);
        return;
    }
    const int period = s.mode == WRAP ? n : s.mode == REFLECT ? 2 * n : 2 * n - 2;
    const auto add_every = [&](int input) {
        const int k = (input - left) % period;
        add(k < 0 ? k + period : k, width, period);
    };
    add_every(i);
    const int mirrored = period - i - (s.mode == REFLECT);
    if (s.mode != WRAP && mirrored % period != i)
        add_every(mirrored);
}
template <class Acc>
__device__ Acc sum_of_weights(const Acc *weights, int width, int first, int end, int apart) {
    Acc sum = 0;
#pragma unroll 4
    for (int k = max(first, 0); k < min(end, width); k += apart)
        sum = sum_of(sum, weights[k]);
    return sum;
}
template <class T> __device__ bool is_finite(T sum) {
    return T(0.5) == 0 || isfinite(float64(sum));
}

// Outputs and rows of a thread at once, whose weights and inputs each serve several.
constexpr unsigned SHORT_SIDE = STENCIL1D_SHORT_SIDE, SHORT_ROWS = 4;
template <class T> struct alignas(16) side_of { T at[SHORT_SIDE]; };

// Elements of a tile of short rows; it has rows of an odd number, so that adjacent rows begin in
// different banks. Quotients of numbers below TILE by small ones need no division.
template <class In> constexpr unsigned SHORT_TILE = TILE * 4 / sizeof(In);
struct short_row {
    unsigned items, pitch, factor;

    __device__ explicit short_row(unsigned items)
        : items(items), pitch(items | 1), factor((1 << 20) / items + 1) {}
    __device__ unsigned row(unsigned at) const { return at * factor >> 20; }
    __device__ unsigned position(unsigned at) const { return at + row(at) * (pitch - items); }
};

// A group's outputs of a thread's rows of a tile if not all inputs are finite.
template <class In, class Acc>
__device__ __noinline__ void sum_again(stencil<In, Acc> s, short_row from, const In *tile,
                                       unsigned group, unsigned row, unsigned part, unsigned rows,
                                       In *made) {
    const unsigned outputs = static_cast<unsigned>(s.outputs);
    s.in = tile;
    s.pitch = from.pitch;
    s.step = 1;
    for (; row < rows; row += part) {
#pragma unroll 1
        for (unsigned j = group * SHORT_SIDE; j < min(outputs, (group + 1) * SHORT_SIDE); j++) {
            const int64 output = int64(row) * outputs + j;
            made[row * (outputs | 1) + j] =
                s.weights ? plain_sum<op_weighted>(s, output) : plain_sum<op_sum>(s, output);
        }
    }
}

// Groups of SHORT_SIDE outputs. Those whose windows lie within the row share the weights of the
// first of them. A group meets at most `depth` inputs, as the planner knows; an odd number, for
// other banks.
struct short_groups {
    int left; // the first input of the first window
    unsigned all, first, shared, depth;

    template <class In, class Acc>
    __device__ explicit short_groups(const stencil<In, Acc> &s)
        : left(static_cast<int>(s.first - s.before)),
          all((static_cast<unsigned>(s.outputs) + SHORT_SIDE - 1) / SHORT_SIDE) {
        constexpr int SIDE = SHORT_SIDE;
        const int n = static_cast<int>(s.n), met = static_cast<int>(s.width) + SIDE - 1;
        const bool within = s.before < s.width && s.first + s.outputs <= s.n && s.mode != WRAP;
        depth = (within ? min(n, met) : n) | 1;
        const int before = left < 0 ? (SIDE - 1 - left) / SIDE : 0;
        const int end = n - left - met < 0 ? 0 : (n - left - met) / SIDE + 1;
        first = before;
        shared = max(min(end, int(all)) - before, 1);
    }
    __device__ unsigned sets() const { return all - (shared - 1); }
    __device__ unsigned set(unsigned group) const {
        return group < first + shared ? min(group, first) : group - (shared - 1);
    }
    __device__ unsigned of_set(unsigned set) const {
        return set <= first ? set : set + (shared - 1);
    }
};
// The inputs that a group meets: the first, from bit 10 on their number, from bit 21 on the group's
// set of weights.
struct met_inputs {
    unsigned bits;

    template <class In, class Acc>
    __device__ met_inputs(const stencil<In, Acc> &s, const short_groups &groups, unsigned group) {
        const int last = static_cast<int>(s.n) - 1;
        const int left = groups.left + static_cast<int>(group * SHORT_SIDE);
        const int end = left + static_cast<int>(s.width + SHORT_SIDE) - 2;
        const bool turns = s.mode == REFLECT || s.mode == MIRROR;
        const bool any = s.mode == WRAP && (left < 0 || end > last);
        int low = min(left, turns && end > last ? 2 * last - end : left);
        int high = max(end, turns && left < 0 ? -left : end);
        low = any ? 0 : min(max(low, 0), last);
        high = any ? last : min(max(high, 0), last);
        bits = unsigned(low) | unsigned(high - low + 1) << 10 | groups.set(group) << 21;
    }
    __device__ unsigned low() const { return bits & 1023; }
    __device__ unsigned count() const { return bits >> 10 & 2047; }
    __device__ unsigned set() const { return bits >> 21; }
};

// Shared memory: for each set of weights those of `depth` inputs, and what the constant adds; what
// each group meets; and tiles of inputs and of outputs.
template <class In, class Acc> struct short_memory {
    side_of<Acc> *sums, *constants;
    met_inputs *met;
    In *tile, *made;

    __device__ explicit short_memory(const short_groups &groups)
        : sums(shared_memory<side_of<Acc>>()), constants(sums + groups.sets() * groups.depth),
          met(reinterpret_cast<met_inputs *>(constants + groups.sets())),
          tile(reinterpret_cast<In *>(met + (groups.all + 3) / 4 * 4)),
          made(tile + SHORT_TILE<In>) {}
};

// Fills all but the tiles; that of outputs is room for the weights.
template <class In, class Acc>
__device__ void add_up_weights(const stencil<In, Acc> &s, const short_groups &groups,
                               const short_memory<In, Acc> &memory) {
    Acc *weights = reinterpret_cast<Acc *>(memory.made);
    met_inputs *met = memory.met;
    const unsigned t = threadIdx.x;
    const int width = static_cast<int>(s.width);
#pragma unroll 1
    for (unsigned k = t; k < unsigned(width); k += THREADS)
        weights[k] = s.weights ? static_cast<Acc>(s.weights[k]) : Acc(1);
#pragma unroll 1
    for (unsigned group = t; group < groups.all; group += THREADS)
        met[group] = met_inputs(s, groups, group);
    __syncthreads();
#pragma unroll 1
    for (unsigned at = t; at < groups.sets() * groups.depth * SHORT_SIDE; at += THREADS) {
        const unsigned j = at % SHORT_SIDE, place = at / SHORT_SIDE, set = place / groups.depth;
        const unsigned group = groups.of_set(set), k = place - set * groups.depth;
        if (k >= met[group].count())
            continue;
        Acc sum = 0;
        weights_of(s, int(met[group].low() + k), int(group * SHORT_SIDE + j),
                   [&](int first, int end, int apart) {
                       sum = sum_of(sum, sum_of_weights(weights, width, first, end, apart));
                   });
        memory.sums[place].at[j] = sum;
    }
#pragma unroll 1
    for (unsigned at = t; at < groups.sets() * SHORT_SIDE; at += THREADS) {
        const unsigned set = at / SHORT_SIDE, j = at % SHORT_SIDE;
        const int left = groups.left + int(groups.of_set(set) * SHORT_SIDE + j);
        Acc sum = 0;
        if (s.mode == CONSTANT)
            sum =
                op_weighted::add(sum, static_cast<Acc>(s.beyond),
                                 sum_of(sum_of_weights(weights, width, 0, -left, 1),
                                        sum_of_weights(weights, width, int(s.n) - left, width, 1)));
        memory.constants[set].at[j] = sum;
    }
}

// A tile's rows from and to memory.
template <unsigned LOADS, class Memory, class In, class Acc>
__device__ void load_rows(const stencil<In, Acc> &s, const Memory &memory, const short_row &from,
                          In *tile, int64 first, unsigned count) {
    const int apart = int(memory.distance(s.step));
    const int skip = int(memory.distance(s.pitch - s.n * s.step));
    const uint64 begin = memory.at(first * s.pitch);
#pragma unroll 1
    for (unsigned base = threadIdx.x; base < count; base += LOADS * THREADS) {
        decltype(memory.load(0)) loaded[LOADS]; // all in flight
#pragma unroll
        for (unsigned k = 0; k < LOADS; k++) {
            const unsigned at = base + k * THREADS;
            loaded[k] =
                memory.load(wide(int(from.row(at)), skip, wide(int(at), apart, begin)), at < count);
        }
#pragma unroll
        for (unsigned k = 0; k < LOADS; k++) {
            const unsigned at = base + k * THREADS;
            if (at < count)
                tile[from.position(at)] = memory.widened(loaded[k]);
        }
    }
}
template <class Memory, class In>
__device__ void store_rows(const Memory &memory, const short_row &to, const In *tile, int64 first,
                           unsigned count) {
    const uint64 begin = memory.at(first * to.items);
#pragma unroll 5
    for (unsigned at = threadIdx.x; at < count; at += THREADS)
        memory.store(wide(int(at), int(memory.distance(1)), begin), tile[to.position(at)]);
}

// The outputs of a tile's `there` rows: a thread has a group of SHORT_ROWS of them.
template <class In, class Acc>
__device__ void sum_rows(const stencil<In, Acc> &s, const short_groups &groups,
                         const short_memory<In, Acc> &memory, const short_row &from,
                         const short_row &to, unsigned there) {
    const unsigned part = (there + SHORT_ROWS - 1) / SHORT_ROWS;
    const short_row parts(part);
#pragma unroll 1
    for (unsigned at = threadIdx.x; at < part * groups.all; at += THREADS) {
        const unsigned group = parts.row(at), row = at - group * part;
        const met_inputs met = memory.met[group];
        unsigned rows[SHORT_ROWS]; // the first one again where there are fewer
#pragma unroll
        for (unsigned q = 0; q < SHORT_ROWS; q++)
            rows[q] = row + q * part < there ? row + q * part : row;
        const side_of<Acc> *weights = memory.sums + met.set() * groups.depth;
        const side_of<Acc> *end = weights + met.count();
        const In *items[SHORT_ROWS];
        side_of<Acc> total[SHORT_ROWS];
#pragma unroll
        for (unsigned q = 0; q < SHORT_ROWS; q++) {
            items[q] = memory.tile + rows[q] * from.pitch + met.low();
            total[q] = memory.constants[met.set()];
        }
#pragma unroll 1
        do {
            const side_of<Acc> weight = *weights;
#pragma unroll
            for (unsigned q = 0; q < SHORT_ROWS; q++) {
                const Acc item = static_cast<Acc>(*items[q]++);
#pragma unroll
                for (unsigned j = 0; j < SHORT_SIDE; j++)
                    total[q].at[j] = op_weighted::add(total[q].at[j], item, weight.at[j]);
            }
        } while (++weights != end);
        In all = 0; // finite only if all are
#pragma unroll
        for (unsigned q = 0; q < SHORT_ROWS; q++)
#pragma unroll
            for (unsigned j = 0; j < SHORT_SIDE; j++) {
                const In output = static_cast<In>(total[q].at[j]);
                if (group * SHORT_SIDE + j < to.items)
                    memory.made[rows[q] * to.pitch + group * SHORT_SIDE + j] = output;
                all = sum_of(all, output);
            }
        // The weights of an infinite input must not cancel, nor their sum overflow.
        if (!is_finite(all))
            sum_again(s, from, memory.tile, group, row, part, there, memory.made);
    }
}

// In line: as a call, rows of 4 elements take 1.4 times as long on an H200.
template <class In, class Acc>
__device__ __forceinline__ void short_rows(const stencil<In, Acc> &s) {
    const short_row from(static_cast<unsigned>(s.n)), to(static_cast<unsigned>(s.outputs));
    const short_groups groups(s);
    const short_memory<In, Acc> memory(groups);
    add_up_weights(s, groups, memory);
    const unsigned lines = SHORT_TILE<In> / max(from.pitch, to.pitch);
    const own_items<In> in(s.in), out(s.out);
    const narrow_items<In> narrow_in(s.in, s.narrow()), narrow_out(s.out, s.narrow());
    const bool narrow = HAS_NARROW<op_weighted, In, Acc> && s.narrow();
#pragma unroll 1
    for (int64 first = int64(blockIdx.x) * lines; first < s.rows; first += gridDim.x * lines) {
        const unsigned there = s.rows - first < lines ? unsigned(s.rows - first) : lines;
        if (narrow)
            load_rows<5>(s, narrow_in, from, memory.tile, first, there * from.items);
        else
            load_rows<8>(s, in, from, memory.tile, first, there * from.items);
        __syncthreads();
        sum_rows(s, groups, memory, from, to, there);
        __syncthreads();
        if (narrow)
            store_rows(narrow_out, to, memory.made, first, there * to.items);
        else
            store_rows(out, to, memory.made, first, there * to.items);
    }
}

} // namespace stencil1d

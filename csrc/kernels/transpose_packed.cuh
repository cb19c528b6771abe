// transpose_packed.cuh: the transpose of any axes by tiles that are runs of memory on both sides,
// whichever axes and parts of axes these runs take; ops_transpose.c chooses them. A block keeps
// tables of where the runs of a tile begin, and what is where in it, for all its tiles.
#pragma once

#include "common.cuh"
#include "transpose_plan.cuh"

namespace transpose {

constexpr unsigned PACKED_BLOCK = 256;

// Goes through the items of runs of one length, `PACKED_BLOCK` at a time, without dividing.
struct run_walk {
    unsigned length, run, item, run_step, item_step;

    __device__ explicit run_walk(unsigned length)
        : length(length), run(threadIdx.x / length), item(threadIdx.x % length),
          run_step(PACKED_BLOCK / length), item_step(PACKED_BLOCK % length) {}
    __device__ void next() {
        run += run_step;
        item += item_step;
        if (item >= length) {
            item -= length;
            run++;
        }
    }
};

// The steps of item `index` of some axes, the innermost first.
struct steps {
    uint64 in = 0, out = 0;
    __device__ steps(const transpose_axis *axes, unsigned count, unsigned index) {
        for (unsigned k = 0; k < count; k++) {
            const unsigned extent = static_cast<unsigned>(axes[k].extent);
            in += index % extent * axes[k].in;
            out += index % extent * axes[k].out;
            index /= extent;
        }
    }
};

// A tile: where it begins, and how much of it there is.
struct packed_tile {
    uint64 in = 0, out = 0;
    unsigned load_run, load_runs, run, runs;

    __device__ packed_tile(const transpose_plan &plan, uint64 index)
        : load_run(plan.load_run), load_runs(plan.load_runs), run(plan.run), runs(plan.runs) {
        for (unsigned k = 0; k < plan.grid_axes; k++) {
            const uint64 extent = plan.axes[k].extent;
            const uint64 next =
                (index | extent) >> 32 ? index / extent : unsigned(index) / unsigned(extent);
            const uint64 at = index - next * extent;
            index = next;
            in += at * plan.axes[k].in;
            out += at * plan.axes[k].out;
            for (const transpose_cut &cut : plan.cuts)
                if (cut.extent && cut.axis == k) {
                    const uint64 left = cut.extent - at * cut.chunk;
                    const unsigned here = left < cut.chunk ? unsigned(left) : cut.chunk;
                    load_run *= cut.scales & TRANSPOSE_LOAD_RUN ? here : 1;
                    load_runs *= cut.scales & TRANSPOSE_LOAD_RUNS ? here : 1;
                    run *= cut.scales & TRANSPOSE_RUN ? here : 1;
                    runs *= cut.scales & TRANSPOSE_RUNS ? here : 1;
                }
        }
    }
};

template <class T>
__device__ void move_packed_tiles(const T *in, T *out, const transpose_plan &plan) {
    constexpr unsigned IN_FLIGHT = sizeof(T) == 16 ? 4 : 8;
    uint64 *from = shared_memory<uint64>();              // where each of the load's runs begins
    uint64 *to = from + plan.load_runs_most;             // and of the store's runs,
    unsigned *place = (unsigned *)(to + plan.runs_most); // also in the tile;
    unsigned *item_place = place + plan.runs_most;       // and where its items are from there
    const unsigned tables = plan.load_runs_most * 8 + plan.runs_most * 12 + plan.run_most * 4 + 15;
    T *tile = reinterpret_cast<T *>(shared_memory<uint4>() + tables / 16);
    const transpose_axis *load_axes = plan.axes + plan.grid_axes;
    const transpose_axis *run_axes = load_axes + plan.load_axes;
    const transpose_axis *item_axes = run_axes + plan.run_axes;
    for (unsigned k = threadIdx.x; k < plan.load_runs_most; k += PACKED_BLOCK)
        from[k] = steps(load_axes, plan.load_axes, k).in;
    for (unsigned k = threadIdx.x; k < plan.runs_most; k += PACKED_BLOCK) {
        const steps run(run_axes, plan.run_axes, k);
        place[k] = static_cast<unsigned>(run.in);
        to[k] = run.out;
    }
    for (unsigned k = threadIdx.x; k < plan.run_most; k += PACKED_BLOCK)
        item_place[k] = static_cast<unsigned>(steps(item_axes, plan.item_axes, k).in);

    for (uint64 index = blockIdx.x; index < plan.tiles; index += gridDim.x) {
        const packed_tile part(plan, index);
        const unsigned items = part.load_run * part.load_runs;
        __syncthreads(); // the tables are there, and the tile before is stored
        run_walk load(part.load_run);
        for (unsigned i = threadIdx.x; i < items; i += IN_FLIGHT * PACKED_BLOCK) {
            T taken[IN_FLIGHT];
            unsigned at[IN_FLIGHT];
#pragma unroll
            for (unsigned k = 0; k < IN_FLIGHT; k++, load.next())
                if (i + k * PACKED_BLOCK < items) {
                    taken[k] = __ldcs(in + part.in + from[load.run] + load.item);
                    at[k] = load.run * plan.pitch + load.item;
                }
#pragma unroll
            for (unsigned k = 0; k < IN_FLIGHT; k++)
                if (i + k * PACKED_BLOCK < items)
                    tile[at[k]] = taken[k];
        }
        __syncthreads();
        run_walk store(part.run);
#pragma unroll 4
        for (unsigned i = threadIdx.x; i < items; i += PACKED_BLOCK, store.next())
            __stcs(out + part.out + to[store.run] + store.item,
                   tile[place[store.run] + item_place[store.item]]);
    }
}

} // namespace transpose

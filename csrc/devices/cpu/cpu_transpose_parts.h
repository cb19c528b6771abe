/* cpu_transpose_parts.h: a call of the CPU's transpose: its matrices, parts of them, and the
 * functions that move elements of one size. Knows no rung.
 */
#pragma once

#include "../../device.h"
#include "../../int_math.h"

#include "../../kernels/transpose_plan.cuh"

enum { TASK_BYTES = 1 << 18 }; /* of copied rows, or of small matrices */

/* Part of a matrix: rows `top` to `bottom` - 1, columns `left` to `right` - 1 of the input; of
 * these rows and columns the elements `in_pitch` and `in_step` apart. */
struct submatrix {
    const void *in;
    void *out;
    uint64_t in_pitch, in_step, out_pitch, top, bottom, left, right;
};

struct mover {
    void (*move)(const struct submatrix *part), (*swap)(const struct submatrix *part);
    void (*gather)(const void *in, const uint64_t *from, void *to, uint64_t count);
    uint64_t tile; /* elements of a tile's row */
    uint64_t size; /* bytes of an element */
};

/* A call: the kernel's arguments, which are those of rung 7 in transpose.cu. */
struct transpose_call {
    const char *in;
    char *out;
    const struct transpose_plan *plan;
    const struct mover *mover;
    uint64_t matrices;
};

static struct transpose_call call_of(const struct mover *mover, void **arguments) {
    const struct transpose_plan *plan = arguments[2];
    return (struct transpose_call){
        .in = (const char *)(uintptr_t) * (const device_address *)arguments[0],
        .out = (char *)(uintptr_t) * (const device_address *)arguments[1],
        .plan = plan,
        .mover = mover,
        .matrices = plan->items / plan->rows / plan->columns,
    };
}

/* A whole matrix of the batch. */
static struct submatrix matrix_at(const struct transpose_call *call, uint64_t index) {
    const struct transpose_plan *plan = call->plan;
    uint64_t in = 0, out = 0;
    for (unsigned k = 0; k < plan->grid_axes; k++) {
        const uint64_t at = index % plan->axes[k].extent;
        index /= plan->axes[k].extent;
        in += at * plan->axes[k].in;
        out += at * plan->axes[k].out;
    }
    return (struct submatrix){
        .in = call->in + in * call->mover->size,
        .out = call->out + out * call->mover->size,
        .in_pitch = plan->in_pitch,
        .in_step = plan->item_step,
        .out_pitch = plan->out_pitch,
        .bottom = plan->rows,
        .right = plan->columns,
    };
}

/* Iterates over the matrices of a batch: the index on each axis. */
struct matrices {
    const struct transpose_call *call;
    struct submatrix part;
    uint64_t at[TRANSPOSE_AXES_MAX];
};

static void first_matrix(struct matrices *matrices, const struct transpose_call *call,
                         uint64_t index) {
    matrices->call = call;
    matrices->part = matrix_at(call, index);
    for (unsigned k = 0; k < call->plan->grid_axes; k++) {
        matrices->at[k] = index % call->plan->axes[k].extent;
        index /= call->plan->axes[k].extent;
    }
}

/* Advances by `count`, which stays within the first axis. */
static void next_matrix(struct matrices *matrices, uint64_t count) {
    const struct transpose_plan *plan = matrices->call->plan;
    int64_t in = 0, out = 0;
    for (unsigned k = 0; k < plan->grid_axes; k++) {
        const struct transpose_axis *axis = &plan->axes[k];
        in += (int64_t)(count * axis->in);
        out += (int64_t)(count * axis->out);
        matrices->at[k] += count;
        if (matrices->at[k] < axis->extent)
            break;
        in -= (int64_t)(axis->extent * axis->in);
        out -= (int64_t)(axis->extent * axis->out);
        matrices->at[k] = 0;
        count = 1;
    }
    const int64_t size = (int64_t)matrices->call->mover->size;
    matrices->part.in = (const char *)matrices->part.in + in * size;
    matrices->part.out = (char *)matrices->part.out + out * size;
}

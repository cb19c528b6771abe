/* reduce_axis_plan.cuh: the contract between ops_reduce_axis.c, which plans a reduction along an
 * axis, and reduce_axis.cu, which executes it. C and CUDA; knows no device.
 */
#pragma once

#include <stdint.h>

enum {
    AXIS_BLOCK = 256,            /* threads */
    AXIS_SINGLE_ROWS = 8,        /* results of a thread where each is of one element */
    AXIS_NARROW_ITEM = 2,        /* bytes of narrow elements: */
    AXIS_NARROW_ROW = 8,         /* their staged rows of more than these bytes are vectors */
    AXIS_VECTOR_SHARED = 64,     /* bytes of shared memory a thread, for columns by vectors */
    AXIS_ITEM_SHARED = 16,       /* the same where elements are loaded one by one */
    AXIS_CHUNK = 1 << 30,        /* elements of a row that a block reduces, at most: fits 32 bits */
    AXIS_POSITIONS = 1 << 16,    /* upper bound of a vector's position among those of a thread */
    AXIS_BYTE_VECTORS = 1 << 22, /* vectors, or bytes, that a thread sums in 32 bits */
};

/* Results of a thread that loads elements one by one, unless it has one: columns side by side, a
 * block apart; and any others. The two differ. */
#define AXIS_SIDE(item) ((item) <= 4 ? 8 : 4)
#define AXIS_SEVERAL(item) ((item) <= 4 ? 4 : 3)

/* Rows of one element; small slabs through shared memory; slabs of few inner elements, or rows of
 * every second or third; rows; columns by vectors; the same unaligned; all others,
 * element by element. */
enum axis_shape {
    AXIS_SINGLES,
    AXIS_STAGED,
    AXIS_NARROW,
    AXIS_ROWS,
    AXIS_VECTORS,
    AXIS_UNALIGNED,
    AXIS_GATHER
};

/* How a kernel reads or combines elements, of those that serve several kinds: factors of a product;
 * float32 or float64; integers; bits (`or`, `xor`); whether they are nonzero; float16, bfloat16. A
 * kernel asks in this order. */
enum axis_kind {
    AXIS_PRODUCTS,
    AXIS_FLOATS,
    AXIS_INTEGERS,
    AXIS_BITS,
    AXIS_TRUTHS,
    AXIS_HALVES,
    AXIS_BFLOATS
};

/* Signed in a kernel; the planner compares steps as what their bits are without a sign. */
#ifdef __CUDACC__
typedef int64_t axis_step;
#else
typedef uint64_t axis_step;
#endif

/* Several axes on one side, the last one first: it has `stride`, the next ones the steps in `more`.
 * The index on axis k is below `period[k]`, if that is not 0. */
struct axis_side {
    axis_step stride;
    uint64_t period[3];
    axis_step more[3];
};

/* The work of a launch, its kernel's last argument. Outer index o, reduced index r, inner index i:
 * the element is in[outer offset of o + r * stride + inner offset of i], its result number o *
 * inner + i; a partial result is (o * splits + split) * inner + i. From `outer` to `jump` they are
 * the numbers of a problem. */
struct axis_work {
    uint64_t partials;      /* address of partial results of chunks of the reduced axis, and */
    uint64_t partial_index; /* of argmin's indices of them; */
    uint64_t tickets;       /* of counters at 0 that the kernel leaves at 0 */
    uint64_t outer, reduced, inner;
    axis_step stride;
    struct axis_side outer_axes, inner_axes;
    uint64_t key, mask, finish;
    double divisor;
    /* The reduced axis may be two, the inner one `period` elements long, the outer one's step
     * `jump`; else both are 0. In a kernel the period is a factor and, from bit 32 on, a shift, and
     * `jump` leads to the next of the outer one. */
    uint64_t period;
    axis_step jump;
    uint64_t shape, splits, chunk, wide, group, tiles;
    uint64_t kind; /* an axis_kind */
};

/* Columns side by side in memory. */
#define AXIS_ROW(work) ((work).inner_axes.period[0] ? (work).inner_axes.period[0] : (work).inner)

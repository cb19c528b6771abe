/* ops.h: operations. One file a family plans a call: kernels, grids, passes, scratch; ops_queue.c
 * runs a plan on any device through device.h. Knows no Python.
 */
#ifndef GPUOPT_OPS_H
#define GPUOPT_OPS_H

#include "../device.h"
#include "../int_math.h"
#include "../registry.h"

enum {
    OPS_STEPS_MAX = 16,
    OPS_VALUES_MAX = 38,
    OPS_INPUTS_MAX = 3,
    OPS_NUMBERS_MAX = 129, /* two for each of NumPy's 64 axes, and their count */
    OPS_WIDE_BYTES = 2048,
    OPS_GRAPH_BYTES = 65536,    /* scratch of a captured graph: rung 13 of reduce on 240
                                 * multiprocessors; and the least that a queue keeps */
    OPS_SCRATCH_KEPT = 1 << 20, /* the most bytes of scratch that a queue keeps */
    OPS_TICKETS = 1024,
    OPS_BLOCK_BYTES = 256,  /* the least size of memory for reuse; */
    OPS_BLOCK_CLASSES = 13, /* the others are its doubles, up to 1 MiB; */
    OPS_BLOCKS_KEPT = 8,    /* number of each that a queue keeps */
};

/* One launch; the values are its arguments, 8 bytes each, but the last `struct_values` of them are
 * one argument, a struct. An extent of 0 means 1. With `takes_wide` the plan's struct is the last
 * argument. */
struct ops_step {
    struct device_kernel *kernel;
    const struct reg_rung *rung; /* rung of the kernel */
    unsigned grid[3], block[3], shared_bytes;
    uint64_t values[OPS_VALUES_MAX];
    unsigned value_count, struct_values;
    bool takes_wide, overlaps;
};

/* A device's queue, with the state that operations keep. One thread at a time. */
struct ops_queue {
    struct device *device;
    struct device *copies; /* copies while `device` computes; NULL: not opened yet */
    struct device_info info;
    device_address tickets; /* counters at 0, which every kernel leaves at 0; 0: not allocated */
    device_address kept;    /* scratch for one plan after the other; 0: not allocated */
    size_t kept_bytes;
    bool keeping;      /* a plan may use the kept scratch */
    void *word;        /* 8 pinned bytes, where a kernel writes a result; NULL: not allocated */
    bool word_awaited; /* a kernel of an interrupted call may still write there */
    struct ops_blocks {
        device_address at[OPS_BLOCKS_KEPT];
        int count;
    } blocks[OPS_BLOCK_CLASSES]; /* freed memory, by size */
    struct ops_products
        *products;               /* how the last ones were computed: ops_matmul.c; NULL: none yet */
    struct ops_turns *turns;     /* plans of the last transposes: ops_transpose.c; NULL: none yet */
    struct ops_repeats *repeats; /* calls that may repeat: ops_plan.c; NULL: none yet */
    struct ops_kernel {
        const struct reg_rung *rung;
        const struct reg_signature *signature;
        unsigned block;
        struct device_kernel *kernel;
    } kernels[64]; /* found earlier, by hash */
    struct ops_decision {
        uint64_t key;
        unsigned strategy, variant;
    } decisions[64]; /* of reductions along an axis, by hash */
};

/* The tuned constants of ops_tuning.def. */
enum ops_tuning_name {
#define TUNING(family, name, rung, value, meaning, ...) OPS_TUNING_##family##_##name,
#include "ops_tuning.def"
    OPS_TUNING_COUNT
};
enum {
#define CONSTANT(family, name, value, note) OPS_FIXED_##family##_##name = value,
#include "ops_tuning.def"
};
#define ops_fixed(family, name) OPS_FIXED_##family##_##name
struct ops_tuning_row {
    const char *family, *name, *meaning;
    int rung; /* on which a sweep tries it */
    uint64_t value;
    const uint64_t *tried; /* all values that a sweep may set */
    size_t tried_count;
};
extern const struct ops_tuning_row ops_tuning_rows[OPS_TUNING_COUNT];
struct ops_tuning {
    uint64_t values[OPS_TUNING_COUNT];
};

/* A rung to run. */
struct ops_choice {
    const struct reg_family *family;
    const struct reg_rung *rung;
    const struct reg_signature *signature;
    unsigned block;                  /* threads; 0 on the cpu */
    unsigned blocks;                 /* of a reduction's first pass, at most; 0: the planner's */
    bool any_rung;                   /* the caller named none: a planner may choose a lower one */
    bool any_block;                  /* likewise: a GPU of smaller blocks has a smaller one */
    const struct ops_tuning *tuning; /* NULL: the table's values; sweeps set others */
};

/* Operands of a call: arrays, each one run of memory in C order, and numbers (sizes, radius,
 * factors) whose meaning depends on the family. Floating-point numbers are passed as their bits. */
struct ops_problem { /* without padding: calls are compared */
    device_address inputs[OPS_INPUTS_MAX];
    size_t input_bytes[OPS_INPUTS_MAX];
    device_address output; /* 0: the plan allocates its result */
    size_t output_bytes;
    uint64_t values[OPS_INPUTS_MAX]; /* bits of the inputs that are passed as arguments: */
    unsigned by_value;               /* bit i: input i is a number; its address is 0 */
    unsigned input_count;
    uint64_t numbers[OPS_NUMBERS_MAX];
};
_Static_assert(sizeof(struct ops_problem) == 8 * (3 * OPS_INPUTS_MAX + 3 + OPS_NUMBERS_MAX),
               "no padding");

/* All launches of a call, and the device memory that they require. */
struct ops_plan {
    struct ops_step steps[OPS_STEPS_MAX];
    unsigned step_count;
    device_address scratch; /* partial results and the result; a bench poisons it */
    size_t scratch_bytes;
    bool lent; /* the scratch belongs to the queue or to a graph */
    device_address result;
    size_t result_bytes;
    uint64_t bytes;                    /* read and written by the algorithm, each counted once */
    uint64_t wide[OPS_WIDE_BYTES / 8]; /* a struct that a step may pass as an argument */
};

/* `which` is as in device.h. */
enum status ops_open(const struct device_ops *kind, const char *which, struct ops_queue **opened);
void ops_close(struct ops_queue *queue);
/* Opens `copies` at its first use. */
enum status ops_copies(struct ops_queue *queue);

/* Plans the choice for a problem on the device. The first step's values begin with the inputs'
 * addresses, then the output's if there is one; addresses of equal alignment may replace them.
 */
enum status ops_plan(struct ops_queue *queue, const struct ops_choice *choice,
                     const struct ops_problem *problem, struct ops_plan *plan);
enum status ops_run(struct ops_queue *queue, const struct ops_plan *plan);
/* Plans and runs a call on arrays in the device's memory. On a device with streams it
 * may keep scratch, and a call on few bytes that repeats becomes a graph, started without a plan.
 */
enum status ops_perform(struct ops_queue *queue, const struct ops_choice *choice,
                        const struct ops_problem *problem);
void ops_repeats_forget(struct ops_queue *queue);
/* Forgets tickets, of which a launch that failed may have drawn some, and graphs that use them. */
void ops_forget(struct ops_queue *queue);

/* A step's launch; its arguments point into the plan. */
enum { OPS_ARGUMENTS_MAX = OPS_VALUES_MAX + 1 };
struct device_launch ops_launch_of(const struct ops_plan *plan, unsigned i, void **arguments);

void ops_plan_free(struct ops_queue *queue, struct ops_plan *plan);

/* Helpers of the planners. */
/* The family's kernel rung of a number, which it must have. */
const struct reg_rung *ops_rung(const struct reg_family *family, int number);
uint64_t ops_tuned(const struct ops_choice *choice, enum ops_tuning_name name);
enum status ops_kernel(struct ops_queue *queue, const struct reg_rung *rung,
                       const struct reg_signature *signature, unsigned block,
                       struct ops_step *step);
enum status ops_scratch(struct ops_queue *queue, struct ops_plan *plan, size_t bytes);

/* Memory in a queue's order, for callers that keep the queue on one stream. The queue keeps small
 * freed memory (TUNING.md H1). */
enum status ops_memory_take(struct ops_queue *queue, size_t bytes, device_address *address);
void ops_memory_give(struct ops_queue *queue, device_address address, size_t bytes);

/* Counters by which a kernel's blocks detect the last to finish: OPS_TICKETS of 4 bytes, all 0. */
enum status ops_tickets(struct ops_queue *queue, device_address *tickets);

/* Begins the single step of a plan that works on whole arrays: the kernel and its first values. The
 * planner adds the numbers, the grid and the shared memory. */
enum status ops_step_on_arrays(struct ops_queue *queue, const struct ops_choice *choice,
                               const struct ops_problem *problem, struct ops_plan *plan);

/* A family's planner. The problem of `reduce` is one input, its number of elements and, for a
 * single pass to an output, whether the result is halved. */
#define OPS_PLANNER(family)                                                                   \
    enum status ops_##family##_plan(struct ops_queue *queue, const struct ops_choice *choice, \
                                    const struct ops_problem *problem, struct ops_plan *plan)
#define FAMILY(name, files) OPS_PLANNER(files);
REG_FAMILIES(FAMILY)
#undef FAMILY
/* The same for the decks' listings of all families. */
OPS_PLANNER(historical);

/* Returns the operands that a sum of these numbers turns in tiles, bit i for input i; elements have
 * `item` bytes. */
unsigned ops_vector_turned(size_t item, const uint64_t *numbers);

/* The rung has one launch, which can write the result to any address. */
bool ops_reduce_is_single_pass(const struct ops_choice *choice);
/* Whether a caller may choose the number of blocks. */
bool ops_reduce_has_free_grid(const struct ops_choice *choice);

/* ops_reduce_call.c. Reduces n > 0 elements of the host to one accumulator. */
enum status ops_reduce(struct ops_queue *queue, const struct ops_choice *choice,
                       const struct device_source *source, uint64_t n, void *accumulator);
/* The same for elements in the device's memory: to the host, and waits; */
enum status ops_reduce_resident(struct ops_queue *queue, const struct ops_choice *choice,
                                device_address items, uint64_t n, void *accumulator);
/* or as an element of dtype `result` to the device's memory, without waiting. */
enum status ops_reduce_within(struct ops_queue *queue, const struct ops_choice *choice,
                              device_address items, uint64_t n, enum dtype result,
                              device_address to);

/* ops_word.c: prepares the queue's word for a kernel to write; waits for its value. */
enum status ops_word(struct ops_queue *queue);
enum status ops_word_await(struct ops_queue *queue, void *value, size_t bytes); /* 4 or 8 */
/* Copies memory of ops_memory_take to the host by the fastest way, and waits. */
enum status ops_fetch(struct ops_queue *queue, device_address from, size_t bytes, void *to);

/* Arrays of a call that passes through a device. Arrays in its memory stay in place: their
 * addresses replace pointers, and a call whose output is there does not wait. */
enum { OPS_RESIDENT_OUTPUT = 1 << OPS_INPUTS_MAX };
struct ops_call {
    const void *inputs[OPS_INPUTS_MAX];
    size_t input_bytes[OPS_INPUTS_MAX];
    unsigned input_count;
    void *output;
    size_t output_bytes;
    unsigned resident; /* bit i: input i is in the device's memory; also OPS_RESIDENT_OUTPUT */
    unsigned by_value; /* bit i: input i is one number on the host, of at most 8 bytes */
    uint64_t numbers[OPS_NUMBERS_MAX];
};
/* Runs a family whose output is an array: in place on the cpu, else through the device's memory. An
 * output that is the first input is one array on the device too. */
enum status ops_call(struct ops_queue *queue, const struct ops_choice *choice,
                     const struct ops_call *call);

/* --- measuring: data that stays on the device, and any choice run on it repeatedly */

struct ops_bench {
    struct ops_queue *queue;
    struct ops_problem problem;
    device_address data;
    uint64_t copies, stride; /* the same data several times, `stride` bytes apart */
    uint64_t turn;           /* cold runs so far: each uses the least recently used copy */
};

/* Copies the inputs to the device and allocates the output; for cold runs in as many copies as
 * exceed its caches. */
enum status ops_bench_open(struct ops_bench *bench, struct ops_queue *queue,
                           const struct ops_call *call);
void ops_bench_close(struct ops_bench *bench);
/* Runs once over poisoned memory; `result` has room for ops_plan's result_bytes. */
enum status ops_bench_run(struct ops_bench *bench, const struct ops_choice *choice, void *result,
                          size_t result_size);
/* Seconds per run, over `runs` back to back: warm on the same data, cold on the next copy each
 * time, across calls. On a GPU several runs form one graph, which excludes the host's launch time.
 */
enum status ops_bench_time(struct ops_bench *bench, const struct ops_choice *choice, unsigned runs,
                           bool cold, double *seconds);
/* Summary of a choice: the rung that runs, the bytes that its algorithm reads and writes, each
 * counted once, and the size of its result. */
struct ops_told {
    const struct reg_rung *rung;
    uint64_t algorithm_bytes;
    size_t result_bytes;
};
enum status ops_bench_told(struct ops_bench *bench, const struct ops_choice *choice,
                           struct ops_told *told);

#endif

/* ops.h: operations. One file a family plans a call: which kernels, what grids, which passes, how
 * much scratch; ops_queue.c runs a plan on any device through device.h. Knows no Python.
 */
#ifndef GPUOPT_OPS_H
#define GPUOPT_OPS_H

#include "../device.h"
#include "../int_math.h"
#include "../registry.h"

enum {
    OPS_STEPS_MAX = 16,
    OPS_VALUES_MAX = 35,
    OPS_INPUTS_MAX = 3,
    OPS_NUMBERS_MAX = 129, /* two for each of NumPy's 64 axes, and how many they are */
    OPS_WIDE_BYTES = 2048,
    OPS_KEPT_BYTES = 65536, /* rung 13 of reduce has so many on 240 multiprocessors */
    OPS_TICKETS = 1024,
    OPS_BLOCK_BYTES = 256, /* of small memory, */
    OPS_BLOCKS_KEPT = 32   /* which is kept for the next that asks */
};

/* One launch; the values are its arguments, each 8 bytes. An extent of 0 is 1. With `takes_wide`
 * the plan's struct is the last argument. */
struct ops_step {
    struct device_kernel *kernel;
    const struct reg_rung *rung; /* whose kernel it is */
    unsigned grid[3], block[3], shared_bytes;
    uint64_t values[OPS_VALUES_MAX];
    unsigned value_count;
    bool takes_wide, overlaps;
};

/* A device's queue, with what the operations remember of it. One thread at a time. */
struct ops_queue {
    struct device *device;
    struct device_info info;
    device_address tickets; /* counters at 0, which every kernel leaves at 0; 0: none yet */
    device_address kept;    /* OPS_KEPT_BYTES of scratch for short calls; 0: none yet */
    void *word;             /* 8 pinned bytes, where a kernel writes a result; NULL: none yet */
    bool word_awaited;      /* an interrupted call's kernel may still write there */
    bool keeping;           /* a plan's scratch may be the kept one */
    device_address blocks[OPS_BLOCKS_KEPT]; /* small memory that was given back */
    int block_count;
    struct ops_repeated {
        struct ops_step step;
        unsigned times;             /* it was the same, one after the other */
        struct device_graph *graph; /* NULL: not yet */
    } repeated;                     /* the last short call's launch */
    struct ops_kernel {
        const struct reg_rung *rung;
        const struct reg_signature *signature;
        unsigned block;
        struct device_kernel *kernel;
    } kernels[64]; /* looked up before, by hash */
};

/* What was tuned, as ops_tuning.def has it. */
enum ops_tuning_name {
#define TUNING(family, name, rung, value, meaning, ...) OPS_TUNING_##family##_##name,
#include "ops_tuning.def"
#undef TUNING
    OPS_TUNING_COUNT
};
struct ops_tuning_row {
    const char *family, *name, *meaning;
    int rung; /* that a sweep tries it on */
    uint64_t value;
    const uint64_t *tried; /* all that it may be */
    size_t tried_count;
};
extern const struct ops_tuning_row ops_tuning_rows[OPS_TUNING_COUNT];
struct ops_tuning {
    uint64_t values[OPS_TUNING_COUNT];
};

/* A rung as it shall run. */
struct ops_choice {
    const struct reg_family *family;
    const struct reg_rung *rung;
    const struct reg_signature *signature;
    unsigned block; /* threads; 0 on the cpu */
    bool any_rung;  /* none was named: a planner takes a lower one where this one does not fit */
    const struct ops_tuning *tuning; /* NULL: the table's values; a sweep has others */
};

/* What a call works on: arrays, each one run of memory in C order, and numbers (sizes, radius,
 * factors) whose meaning is the family's. Floating-point numbers are given by their bits. */
struct ops_problem {
    device_address inputs[OPS_INPUTS_MAX];
    size_t input_bytes[OPS_INPUTS_MAX];
    unsigned input_count;
    device_address output; /* 0: the plan makes room for its result itself */
    size_t output_bytes;
    uint64_t numbers[OPS_NUMBERS_MAX];
};

/* All launches of a call, and the device memory that it needs. */
struct ops_plan {
    struct ops_step steps[OPS_STEPS_MAX];
    unsigned step_count;
    device_address scratch; /* partial results and the result; poisoned by a bench */
    size_t scratch_bytes;
    bool lent; /* the scratch is the queue's, or a graph's */
    device_address result;
    size_t result_bytes;
    uint64_t bytes;                    /* what the algorithm reads and writes, each once */
    uint64_t wide[OPS_WIDE_BYTES / 8]; /* what a step may take beside its values: a struct */
};

/* `which` as in device.h. */
enum status ops_open(const struct device_ops *kind, const char *which, struct ops_queue **opened);
void ops_close(struct ops_queue *queue);

/* Plans the choice for a problem on the device. The first step's values begin with the inputs'
 * addresses, then the output's if there is one; others of the same alignment may take their place.
 */
enum status ops_plan(struct ops_queue *queue, const struct ops_choice *choice,
                     const struct ops_problem *problem, struct ops_plan *plan);
enum status ops_run(struct ops_queue *queue, const struct ops_plan *plan);
/* The same for a plan of one launch without a struct, on a device with streams, whose time is the
 * host's: a launch that comes again and again becomes a graph. */
enum status ops_run_short(struct ops_queue *queue, const struct ops_plan *plan);

/* A step's launch, whose arguments point into the plan. */
enum { OPS_ARGUMENTS_MAX = OPS_VALUES_MAX + 1 };
struct device_launch ops_launch_of(const struct ops_plan *plan, unsigned i, void **arguments);

void ops_plan_free(struct ops_queue *queue, struct ops_plan *plan);

/* The tools of a family's planner. */
uint64_t ops_tuned(const struct ops_choice *choice, enum ops_tuning_name name);
enum status ops_kernel(struct ops_queue *queue, const struct reg_rung *rung,
                       const struct reg_signature *signature, unsigned block,
                       struct ops_step *step);
enum status ops_scratch(struct ops_queue *queue, struct ops_plan *plan, size_t bytes);

/* Memory in a queue's order, for whoever keeps the queue on one stream. What is small is kept when
 * it is given back: to a driver's allocator both ways take 3 us. */
enum status ops_memory_take(struct ops_queue *queue, size_t bytes, device_address *address);
void ops_memory_give(struct ops_queue *queue, device_address address, size_t bytes);

/* The counters by which a kernel's blocks learn which of them ends last: OPS_TICKETS of 4 bytes,
 * all of them 0. */
enum status ops_tickets(struct ops_queue *queue, device_address *tickets);

/* The one step of a plan that works on whole arrays: the kernel, and its first values. The planner
 * adds the numbers, the grid and the shared memory. */
enum status ops_step_on_arrays(struct ops_queue *queue, const struct ops_choice *choice,
                               const struct ops_problem *problem, struct ops_plan *plan);

/* A family's planner. The problem of `reduce` is one input and its item count. */
#define OPS_PLANNER(family)                                                                   \
    enum status ops_##family##_plan(struct ops_queue *queue, const struct ops_choice *choice, \
                                    const struct ops_problem *problem, struct ops_plan *plan)
#define FAMILY(name, files) OPS_PLANNER(files);
REG_FAMILIES(FAMILY)
#undef FAMILY

/* The rung has one launch, whose result goes where its argument 3 says. */
bool ops_reduce_is_single_pass(const struct ops_choice *choice);

/* ops_reduce_call.c. Reduces n > 0 items from the host to one accumulator. */
enum status ops_reduce(struct ops_queue *queue, const struct ops_choice *choice,
                       const struct device_source *source, uint64_t n, void *accumulator);
/* The same for items in the device's memory: to the host, and waits; */
enum status ops_reduce_resident(struct ops_queue *queue, const struct ops_choice *choice,
                                device_address items, uint64_t n, void *accumulator);
/* as an item of dtype `result` to the device's memory, and does not wait. */
enum status ops_reduce_within(struct ops_queue *queue, const struct ops_choice *choice,
                              device_address items, uint64_t n, enum dtype result,
                              device_address to);

/* ops_word.c: the queue's word, made ready for a kernel to write to; its value once it is there. */
enum status ops_word(struct ops_queue *queue);
enum status ops_word_await(struct ops_queue *queue, void *value, size_t bytes); /* 4 or 8 */
/* Copies memory of ops_memory_take to the host by the shortest way, and waits. */
enum status ops_fetch(struct ops_queue *queue, device_address from, size_t bytes, void *to);

/* Arrays on their way through a device. Those in its memory stay where they are: their addresses
 * stand for pointers, and a call whose output is there does not wait. */
enum { OPS_RESIDENT_OUTPUT = 1 << OPS_INPUTS_MAX };
struct ops_call {
    const void *inputs[OPS_INPUTS_MAX];
    size_t input_bytes[OPS_INPUTS_MAX];
    unsigned input_count;
    void *output;
    size_t output_bytes;
    unsigned resident; /* bit i: input i is in the device's memory; OPS_RESIDENT_OUTPUT */
    uint64_t numbers[OPS_NUMBERS_MAX];
};
/* Runs a family whose output is an array: in place on the cpu, else through the device's memory. An
 * output that is the first input is that on the device too: one array, not two. */
enum status ops_call(struct ops_queue *queue, const struct ops_choice *choice,
                     const struct ops_call *call);

/* --- measuring: data that stays on the device, and any choice run on it again and again */

struct ops_bench {
    struct ops_queue *queue;
    struct ops_problem problem;
    device_address data;
    uint64_t copies, stride; /* the same data several times over, `stride` bytes apart */
    uint64_t turn;           /* cold runs so far: each takes the copy that was used longest ago */
};

/* Copies the inputs to the device and makes room for the output; for cold runs as often as it takes
 * to outgrow its caches. */
enum status ops_bench_open(struct ops_bench *bench, struct ops_queue *queue,
                           const struct ops_call *call);
void ops_bench_close(struct ops_bench *bench);
/* One run over poisoned memory; `result` has room for ops_plan's result_bytes. */
enum status ops_bench_run(struct ops_bench *bench, const struct ops_choice *choice, void *result,
                          size_t result_size);
/* Seconds a run takes, over `runs` runs back to back: warm on the same data, cold on the next copy
 * each time, from call to call. On a GPU many are one graph: the host's launches do not count. */
enum status ops_bench_time(struct ops_bench *bench, const struct ops_choice *choice, unsigned runs,
                           bool cold, double *seconds);
/* What a choice comes to: the rung that runs, what its algorithm reads and writes, each byte once,
 * and how much of that is the result. */
struct ops_told {
    const struct reg_rung *rung;
    uint64_t algorithm_bytes;
    size_t result_bytes;
};
enum status ops_bench_told(struct ops_bench *bench, const struct ops_choice *choice,
                           struct ops_told *told);

#endif

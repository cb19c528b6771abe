/* ops.h: operations. One file a family plans a call: which kernels, what grids, which passes, how
 * much scratch; ops.c runs a plan on any device through device.h. Knows no Python.
 */
#ifndef GPUOPT_OPS_H
#define GPUOPT_OPS_H

#include "../device.h"
#include "../registry.h"

/* A device's queue, with what the operations remember of it. One thread at a time. */
struct ops_queue {
    struct device *device;
    struct device_info info;
    struct device_module *module; /* loaded with the first kernel */
    bool module_loaded;
    struct ops_kernel {
        const struct reg_rung *rung;
        const struct reg_signature *signature;
        unsigned block;
        struct device_kernel *kernel;
    } kernels[64]; /* looked up before, by hash */
};

/* A rung as it shall run. */
struct ops_choice {
    const struct reg_family *family;
    const struct reg_rung *rung;
    const struct reg_signature *signature;
    unsigned block; /* threads; 0 on the cpu */
};

enum { OPS_STEPS_MAX = 16, OPS_VALUES_MAX = 8 };

/* One launch; the values are its arguments, each 8 bytes. */
struct ops_step {
    struct device_kernel *kernel;
    unsigned grid, block, shared_bytes;
    uint64_t values[OPS_VALUES_MAX];
    unsigned value_count;
};

/* All launches of a call, and the device memory that it needs. */
struct ops_plan {
    struct ops_step steps[OPS_STEPS_MAX];
    unsigned step_count;
    device_address scratch; /* partial results and the result; poisoned by a bench */
    size_t scratch_bytes;
    device_address result;
    size_t result_bytes;
    uint64_t bytes; /* what the algorithm reads and writes, each once */
};

/* `which` as in device.h. */
enum status ops_open(const struct device_ops *kind, const char *which, struct ops_queue **opened);
void ops_close(struct ops_queue *queue);

/* Plans the choice for n items at an address of the device. The first step's values[0] is that
 * address; another of the same alignment may take its place. */
enum status ops_plan(struct ops_queue *queue, const struct ops_choice *choice, device_address items,
                     uint64_t n, struct ops_plan *plan);
enum status ops_run(struct ops_queue *queue, const struct ops_plan *plan);
void ops_plan_free(struct ops_queue *queue, struct ops_plan *plan);

/* The tools of a family's planner. */
enum status ops_kernel(struct ops_queue *queue, const struct reg_rung *rung,
                       const struct reg_signature *signature, unsigned block,
                       struct device_kernel **kernel);
enum status ops_scratch(struct ops_queue *queue, struct ops_plan *plan, size_t bytes);

/* The families' planners. */
enum status ops_reduce_plan(struct ops_queue *queue, const struct ops_choice *choice,
                            device_address items, uint64_t n, struct ops_plan *plan);
enum status ops_roofline_plan(struct ops_queue *queue, const struct ops_choice *choice,
                              device_address items, uint64_t n, struct ops_plan *plan);

/* Reduces n > 0 items from the host to one accumulator. */
enum status ops_reduce(struct ops_queue *queue, const struct ops_choice *choice,
                       const struct device_source *source, uint64_t n, void *accumulator);

/* --- measuring: data that stays on the device, and any choice run on it again and again */

struct ops_bench {
    struct ops_queue *queue;
    enum dtype items;
    uint64_t n;
    device_address data;
    uint64_t copies, stride; /* the same data several times over, `stride` bytes apart */
};

/* Copies n items to the device; for cold runs as often as it takes to outgrow its caches. */
enum status ops_bench_open(struct ops_bench *bench, struct ops_queue *queue, enum dtype items,
                           const struct device_source *source, uint64_t n);
void ops_bench_close(struct ops_bench *bench);
/* One run over poisoned memory; `result` has room for ops_plan's result_bytes. */
enum status ops_bench_run(struct ops_bench *bench, const struct ops_choice *choice, void *result,
                          size_t result_size);
/* Seconds a run takes, over `runs` runs back to back: warm on the same data, cold on the next copy
 * each time. */
enum status ops_bench_time(struct ops_bench *bench, const struct ops_choice *choice, unsigned runs,
                           bool cold, double *seconds);
enum status ops_bench_sizes(struct ops_bench *bench, const struct ops_choice *choice,
                            uint64_t *algorithm_bytes, size_t *result_bytes);

#endif

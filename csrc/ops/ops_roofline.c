/* ops_roofline.c: plans the kernels that measure a device's ceilings. numbers: words of 4 bytes (of
 * the input; for `write` of the output), and repetitions. `items` of a rung are words of output a
 * thread, or (0) one a block, and then the output's length is the grid. On the cpu each thread has
 * one word of output. Knows no device.
 */
#include "ops.h"

#include <string.h>

enum {
    WORD = 4,
    GRID_MAX = 0x7fffffff,
    ARITHMETIC_LEAST = 256, /* words: the factors, and more than none as a first value */
};

enum status ops_roofline_plan(struct ops_queue *queue, const struct ops_choice *choice,
                              const struct ops_problem *problem, struct ops_plan *plan) {
    const struct reg_rung *rung = choice->rung;
    const uint64_t n = problem->numbers[0], output = problem->output_bytes / WORD;
    struct ops_step *step = &plan->steps[0];
    const enum status status = ops_step_on_arrays(queue, choice, problem, plan);
    step->values[step->value_count++] = n;
    step->values[step->value_count++] = problem->numbers[1];
    if (status)
        return status;
    const bool writes = strstr(rung->name, "write");
    if (n == 0 || output == 0 || n > (writes ? output : problem->input_bytes[0] / WORD))
        return status_fail(STATUS_BAD_VALUE, "problem: an array has fewer than its %llu words",
                           (unsigned long long)n);
    if (strstr(rung->name, "ma-") && n < ARITHMETIC_LEAST)
        return status_fail(STATUS_BAD_VALUE,
                           "problem: arithmetic requires at least %d words, not %llu",
                           ARITHMETIC_LEAST, (unsigned long long)n);
    if (rung->flags & RUNG_HOST) {
        step->values[step->value_count++] = output;
        return STATUS_OK;
    }
    const uint64_t block = choice->block;
    const uint64_t words = rung->items_per_thread ? block * rung->items_per_thread : 1;
    const uint64_t blocks = ceil_div(output, words);
    if (blocks > GRID_MAX)
        return status_fail(STATUS_BAD_VALUE, "problem: %llu words of output are too many",
                           (unsigned long long)output);
    step->grid[0] = (unsigned)blocks;
    step->block[0] = choice->block;
    return STATUS_OK;
}

/* ops_matmul.h: between ops_matmul.c, which plans the ladder's rungs, and ops_matmul_any.c, which
 * plans the rungs for any product. */
#ifndef GPUOPT_OPS_MATMUL_H
#define GPUOPT_OPS_MATMUL_H

#include "../kernels/matmul_plan.cuh"
#include "ops.h"

enum { MATMUL_PATCHES_RUNG = 12, MATMUL_DOTS_RUNG = 13 };

/* A way to compute a product. */
struct matmul_way {
    int rung;
    enum matmul_mode mode; /* of rung 13 */
    struct matmul_plan plan;
    uint64_t blocks;
    unsigned threads; /* of a block */
    unsigned shared_bytes;
    double cost; /* estimated cycles of a multiprocessor */
};

/* Whether a problem is one product of matrices in C order, as the ladder's rungs read. */
bool ops_matmul_is_plain(const struct ops_problem *problem);
/* The count of its numbers. */
size_t ops_matmul_numbers(const struct ops_problem *problem);
/* The cheapest way of a rung or, for 0, of both rungs; false if the grid has too few blocks. */
bool ops_matmul_way(const struct ops_queue *queue, const struct ops_choice *choice,
                    const struct ops_problem *problem, int rung, struct matmul_way *way);
/* The problem as a plan of one slice, and the products of its stack. */
struct matmul_plan ops_matmul_described(const struct ops_problem *problem);
uint64_t ops_matmul_products(const struct matmul_plan *plan);
/* The plan of the transposed product. */
struct matmul_plan ops_matmul_swapped(const struct matmul_plan *plan);
/* Cuts k into about `slices` chunks of whole units. */
void ops_matmul_cut(struct matmul_plan *plan, uint64_t slices, uint64_t unit);
/* The cycles `busy`, or those of memory if they are more, and those to add the slices. */
double ops_matmul_passes_cost(const struct ops_queue *queue, const struct ops_choice *choice,
                              const struct matmul_plan *plan, double busy);
/* Adds the launch that adds the slices in scratch memory. */
enum status ops_matmul_add_join(struct ops_queue *queue, const struct ops_choice *choice,
                                struct ops_plan *plan);
/* Plans a way: one launch, and another that adds the slices. */
enum status ops_matmul_plan_way(struct ops_queue *queue, const struct ops_choice *choice,
                                const struct ops_problem *problem, const struct matmul_way *way,
                                struct ops_plan *plan);

#endif

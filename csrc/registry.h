/* registry.h: the table of rungs, expanded from the rows that open kernels/<family>.cu and
 * devices/cpu/cpu_<family>.c. Knows no device and no operation's plan.
 */
#ifndef GPUOPT_REGISTRY_H
#define GPUOPT_REGISTRY_H

#include "gpuopt.h"

enum rung_flag {
    RUNG_HISTORICAL = 1,        /* as a deck wrote it, undefined today: never chosen by default */
    RUNG_BLOCK_IS_TEMPLATE = 2, /* one kernel a block size */
    RUNG_BEST = 4,              /* what variant=None runs */
    RUNG_HOST = 8,              /* C on the cpu device; the others are kernels */
    RUNG_CEILING = 16,          /* bounds the ladder, and is no step of it: a plain copy */
    RUNG_WIDE = 32,       /* accumulates wider than the items where there is a kernel for it */
    RUNG_OVERLAPS = 64,   /* its kernels begin by waiting for the one before by themselves */
    RUNG_DECK_RATE = 128, /* the deck tells no time, but GB/s */
};

struct reg_rung {
    int number; /* the deck's; -1 for one that has only a name */
    const char *name;
    const char *kernel; /* the symbol without its signature */
    const char *lesson, *source;
    unsigned block_min, block_max; /* threads, powers of two; 0 where a rung has no blocks */
    unsigned block_default;
    unsigned items_per_thread; /* 0: a grid-stride loop */
    unsigned flags;
    double deck; /* the deck's own time in microseconds, or its rate; 0 where it has none */
};

/* What a rung is compiled for. */
struct reg_signature {
    const char *op; /* "sum", ...; of a family that has one operation, its name */
    enum dtype items, accumulator;
};

struct reg_family {
    const char *name;
    const struct reg_rung *rungs;
    size_t rung_count;
    const struct reg_signature *kernel_signatures, *host_signatures;
    size_t kernel_signature_count, host_signature_count;
};

/* A kernel that is no rung: an experiment's, from the PROBE rows of kernels/<file>.cu. */
struct reg_probe {
    const char *symbol;     /* in an image */
    const char *experiment; /* the function of gpuopt.experiments that launches it; "": none */
    const char *idea;       /* what it does */
};

extern const struct reg_probe reg_probes[];
extern const size_t reg_probe_count;

/* The families, in this order everywhere, and the name of the files that have their rows and their
 * planner. */
/* clang-format off */
#define REG_FAMILIES(FAMILY)                                                        \
    FAMILY(reduce, reduce)       FAMILY(roofline, roofline) FAMILY(transpose, transpose) \
    FAMILY(stencil1d, stencil1d) FAMILY(add, vector)        FAMILY(saxpy, vector)   \
    FAMILY(matmul, matmul)       FAMILY(reduce_axis, reduce_axis)
/* clang-format on */

extern const struct reg_family reg_families[];
extern const size_t reg_family_count;

enum { REG_SYMBOL_MAX = 96 };

const struct reg_family *reg_family(const char *name);
const struct reg_signature *reg_signatures(const struct reg_family *family,
                                           const struct reg_rung *rung, size_t *count);
/* NULL when the rung is not compiled for it. */
const struct reg_signature *reg_signature(const struct reg_family *family,
                                          const struct reg_rung *rung, const char *op,
                                          enum dtype items, enum dtype accumulator);
/* The kernel's name in its image. */
void reg_symbol(const struct reg_rung *rung, const struct reg_signature *signature, unsigned block,
                char symbol[REG_SYMBOL_MAX]);

#endif

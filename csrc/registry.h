/* registry.h: the table of rungs, expanded from the rows at the top of kernels/<family>.cu and
 * devices/cpu/cpu_<family>.c. Knows no device and no operation's plan.
 */
#ifndef GPUOPT_REGISTRY_H
#define GPUOPT_REGISTRY_H

#include "gpuopt.h"

enum rung_flag {
    RUNG_HISTORICAL = 1,        /* as a deck wrote it, undefined behaviour today: never a default */
    RUNG_BLOCK_IS_TEMPLATE = 2, /* one kernel for each block size */
    RUNG_BEST = 4,              /* the default for variant=None */
    RUNG_HOST = 8,              /* C on the cpu device; all others are kernels */
    RUNG_CEILING = 16,          /* an upper bound of the ladder, no step of it: a plain copy */
    RUNG_WIDE = 32,             /* prefers an accumulator wider than the elements if compiled */
    RUNG_OVERLAPS = 64,         /* its kernels wait for their predecessor themselves */
    RUNG_DECK_RATE = 128,       /* `deck` is a rate in GB/s, not a time */
    RUNG_ANY_DTYPE = 512,       /* compiled for the family's general signatures, and the default
                                   for those that the best rung lacks */
    RUNG_LISTING = 256,         /* a deck's listing, without bounds checks: the simulated GPU's */
};

struct reg_rung {
    int number; /* of the deck; -1 for a rung that has only a name */
    const char *name;
    const char *kernel; /* symbol without its signature */
    const char *lesson, *source;
    unsigned block_min, block_max; /* threads, powers of two; 0: the rung has no blocks */
    unsigned block_default;
    unsigned items_per_thread; /* 0: a grid-stride loop */
    unsigned flags;
    double deck; /* time in microseconds, or rate, from the deck; 0: none */
};

/* Types that a rung is compiled for. */
struct reg_signature {
    const char *op; /* "sum", ...; the family's name if it has only one operation */
    enum dtype items, accumulator;
    const char *shared; /* rest of the symbol of a kernel that serves several, or NULL */
    unsigned kind;      /* tells such a kernel which one */
};

struct reg_family {
    const char *name;
    const struct reg_rung *rungs;
    size_t rung_count;
    const struct reg_signature *kernel_signatures, *host_signatures, *any_signatures;
    size_t kernel_signature_count, host_signature_count, any_signature_count;
    size_t narrow_signature_count; /* first of the kernels': wide rungs are not compiled for them */
    struct reg_signature listing_signature; /* the decks' types, the only ones of their listings */
};

/* A kernel that is no rung: an experiment's, from the PROBE rows of kernels/<file>.cu. */
struct reg_probe {
    const char *symbol;     /* in an image */
    const char *experiment; /* function of gpuopt.experiments that launches it; "": none */
    const char *idea;       /* its purpose, one line */
};

extern const struct reg_probe reg_probes[];
extern const size_t reg_probe_count;

/* All families, in the order of every listing: the name, and the file name of its rows and planner.
 */
/* clang-format off */
#define REG_FAMILIES(FAMILY)                                                        \
    FAMILY(reduce, reduce)       FAMILY(roofline, roofline) FAMILY(transpose, transpose) \
    FAMILY(stencil1d, stencil1d) FAMILY(add, vector)        FAMILY(saxpy, vector)   \
    FAMILY(matmul, matmul)       FAMILY(reduce_axis, reduce_axis)
/* clang-format on */

enum reg_index { /* in reg_families */
#define FAMILY(name, file) REG_##name,
                 REG_FAMILIES(FAMILY)
#undef FAMILY
};
extern const struct reg_family reg_families[];
extern const size_t reg_family_count;

enum { REG_SYMBOL_MAX = 96 };

const struct reg_family *reg_family(const char *name);
const struct reg_signature *reg_signatures(const struct reg_family *family,
                                           const struct reg_rung *rung, size_t *count);
/* NULL if the rung is not compiled for these types. */
const struct reg_signature *reg_signature(const struct reg_family *family,
                                          const struct reg_rung *rung, const char *op,
                                          enum dtype items, enum dtype accumulator);
/* Writes the kernel's name in its image. */
void reg_symbol(const struct reg_rung *rung, const struct reg_signature *signature, unsigned block,
                char symbol[REG_SYMBOL_MAX]);

#endif

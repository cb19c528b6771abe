/* registry.c: expands the rows of every family. Each family is three includes; adding a rung
 * changes nothing here. */
#include "registry.h"

#include "kernels/reduce_axis_plan.cuh"

#include <stdio.h>
#include <string.h>

#define GPUOPT_RUNGS
#define RUNG(number, name, kernel, lesson, source, block_min, block_max, block, items, flags, us) \
    {number, name, kernel, lesson, source, block_min, block_max, block, items, flags, us},

static const struct reg_rung reduce_rungs[] = {
#include "kernels/reduce.cu"
#define HISTORICAL_REDUCE
#include "kernels/historical.cu"
#undef HISTORICAL_REDUCE
#include "devices/cpu/reduce/cpu_reduce.c"
};

static const struct reg_rung reduce_axis_rungs[] = {
#include "kernels/reduce_axis.cu"
#include "devices/cpu/reduce/cpu_reduce_axis.c"
};

static const struct reg_rung roofline_rungs[] = {
#include "kernels/roofline.cu"
#include "devices/cpu/cpu_roofline.c"
};

static const struct reg_rung transpose_rungs[] = {
#include "kernels/transpose.cu"
#define HISTORICAL_TRANSPOSE
#include "kernels/historical.cu"
#undef HISTORICAL_TRANSPOSE
#include "devices/cpu/cpu_transpose.c"
};

static const struct reg_rung stencil1d_rungs[] = {
#include "kernels/stencil1d.cu"
#define HISTORICAL_STENCIL1D
#include "kernels/historical.cu"
#undef HISTORICAL_STENCIL1D
#include "devices/cpu/cpu_stencil1d.c"
};

static const struct reg_rung add_rungs[] = {
#include "kernels/vector.cu"
#define HISTORICAL_ADD
#include "kernels/historical.cu"
#undef HISTORICAL_ADD
#include "devices/cpu/cpu_vector.c"
};

static const struct reg_rung saxpy_rungs[] = {
#include "kernels/vector.cu"
#define HISTORICAL_SAXPY
#include "kernels/historical.cu"
#undef HISTORICAL_SAXPY
#include "devices/cpu/cpu_vector.c"
};

static const struct reg_rung matmul_rungs[] = {
#include "kernels/matmul.cu"
#define HISTORICAL_MATMUL
#include "kernels/historical.cu"
#undef HISTORICAL_MATMUL
#include "devices/cpu/cpu_matmul.c"
};

#define SIGNATURE(op, items, accumulator) {#op, DTYPE_##items, DTYPE_##accumulator, NULL, 0},
#define SHARED(op, items, accumulator, kernel, kind) \
    {#op, DTYPE_##items, DTYPE_##accumulator, #kernel, AXIS_##kind},

static const struct reg_signature reduce_kernel_signatures[] = {REDUCE_SIGNATURES(SIGNATURE)};
static const struct reg_signature reduce_host_signatures[] = {CPU_REDUCE_SIGNATURES(SIGNATURE)};
static const struct reg_signature reduce_axis_kernel_signatures[] = {
    REDUCE_AXIS_SIGNATURES(SHARED)};
static const struct reg_signature reduce_axis_host_signatures[] = {
    CPU_REDUCE_AXIS_SIGNATURES(SHARED)};
static const struct reg_signature roofline_kernel_signatures[] = {ROOFLINE_SIGNATURES(SIGNATURE)};
static const struct reg_signature roofline_host_signatures[] = {CPU_ROOFLINE_SIGNATURES(SIGNATURE)};
static const struct reg_signature transpose_kernel_signatures[] = {TRANSPOSE_SIGNATURES(SIGNATURE)};
static const struct reg_signature transpose_host_signatures[] = {TRANSPOSE_SIGNATURES(SIGNATURE)};
static const struct reg_signature stencil1d_kernel_signatures[] = {STENCIL1D_SIGNATURES(SIGNATURE)};
#define ONE(op, items, accumulator) +1
enum { STENCIL1D_WIDE_COUNT = 0 STENCIL1D_WIDE_SIGNATURES(ONE) };
#undef ONE
static const struct reg_signature stencil1d_host_signatures[] = {
    CPU_STENCIL1D_SIGNATURES(SIGNATURE)};
static const struct reg_signature add_kernel_signatures[] = {ADD_SIGNATURES(SIGNATURE)};
static const struct reg_signature add_host_signatures[] = {ADD_SIGNATURES(SIGNATURE)};
static const struct reg_signature add_any_signatures[] = {ADD_ANY_SIGNATURES(SIGNATURE)};
static const struct reg_signature saxpy_any_signatures[] = {SAXPY_ANY_SIGNATURES(SIGNATURE)};
static const struct reg_signature saxpy_kernel_signatures[] = {SAXPY_SIGNATURES(SIGNATURE)};
static const struct reg_signature saxpy_host_signatures[] = {SAXPY_SIGNATURES(SIGNATURE)};
static const struct reg_signature matmul_kernel_signatures[] = {MATMUL_SIGNATURES(SIGNATURE)};
static const struct reg_signature matmul_any_signatures[] = {MATMUL_ANY_SIGNATURES(SIGNATURE)};
static const struct reg_signature matmul_host_signatures[] = {MATMUL_SIGNATURES(SIGNATURE)};

#define LISTING_reduce \
    { "sum", DTYPE_int32, DTYPE_int32, NULL, 0 }
#define LISTING_transpose \
    { "move", DTYPE_uint32, DTYPE_uint32, NULL, 0 }
#define LISTING_stencil1d \
    { "sum", DTYPE_int32, DTYPE_int32, NULL, 0 }
#define LISTING_add \
    { "add", DTYPE_int32, DTYPE_int32, NULL, 0 }
#define LISTING_matmul \
    { "matmul", DTYPE_float32, DTYPE_float32, NULL, 0 }
#define LISTING_saxpy \
    { "saxpy", DTYPE_float32, DTYPE_float32, NULL, 0 }
#define LISTING_roofline \
    { 0 } /* none */
#define LISTING_reduce_axis \
    { 0 }

/* Rungs of other families have no general signatures. */
#define reduce_any_signatures reduce_kernel_signatures
#define roofline_any_signatures roofline_kernel_signatures
#define transpose_any_signatures transpose_kernel_signatures
#define stencil1d_any_signatures stencil1d_kernel_signatures
#define reduce_axis_any_signatures reduce_axis_kernel_signatures

/* Kernel signatures that a family's wide rungs lack. */
#define NARROW_reduce 0
#define NARROW_transpose 0
#define NARROW_stencil1d (COUNT(stencil1d_kernel_signatures) - STENCIL1D_WIDE_COUNT)
#define NARROW_add 0
#define NARROW_saxpy 0
#define NARROW_matmul 0
#define NARROW_roofline 0
#define NARROW_reduce_axis 0

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define FAMILY(name, files)           \
    {#name,                           \
     name##_rungs,                    \
     COUNT(name##_rungs),             \
     name##_kernel_signatures,        \
     name##_host_signatures,          \
     name##_any_signatures,           \
     COUNT(name##_kernel_signatures), \
     COUNT(name##_host_signatures),   \
     COUNT(name##_any_signatures),    \
     NARROW_##name,                   \
     LISTING_##name},
const struct reg_family reg_families[] = {REG_FAMILIES(FAMILY)};
#undef FAMILY
const size_t reg_family_count = COUNT(reg_families);

#define PROBE(symbol, experiment, idea) {symbol, experiment, idea},
const struct reg_probe reg_probes[] = {
#include "kernels/micro.cu"
#include "kernels/micro_texture.cu"
};
const size_t reg_probe_count = COUNT(reg_probes);

const struct reg_family *reg_family(const char *name) {
    for (size_t i = 0; i < reg_family_count; i++)
        if (strcmp(reg_families[i].name, name) == 0)
            return &reg_families[i];
    return NULL;
}

const struct reg_signature *reg_signatures(const struct reg_family *family,
                                           const struct reg_rung *rung, size_t *count) {
    const bool host = rung->flags & RUNG_HOST;
    if (rung->flags & RUNG_LISTING) {
        *count = 1;
        return &family->listing_signature;
    }
    if (rung->flags & RUNG_ANY_DTYPE) {
        *count = family->any_signature_count;
        return family->any_signatures;
    }
    if (host) {
        *count = family->host_signature_count;
        return family->host_signatures;
    }
    const size_t narrow = rung->flags & RUNG_WIDE ? family->narrow_signature_count : 0;
    *count = family->kernel_signature_count - narrow;
    return family->kernel_signatures + narrow;
}

const struct reg_signature *reg_signature(const struct reg_family *family,
                                          const struct reg_rung *rung, const char *op,
                                          enum dtype items, enum dtype accumulator) {
    size_t count;
    const struct reg_signature *signatures = reg_signatures(family, rung, &count);
    for (size_t i = 0; i < count; i++)
        if (signatures[i].items == items && signatures[i].accumulator == accumulator &&
            strcmp(signatures[i].op, op) == 0)
            return &signatures[i];
    return NULL;
}

void reg_symbol(const struct reg_rung *rung, const struct reg_signature *signature, unsigned block,
                char symbol[REG_SYMBOL_MAX]) {
    if (signature->shared && !(rung->flags & RUNG_HOST)) {
        snprintf(symbol, REG_SYMBOL_MAX, "%s_%s", rung->kernel, signature->shared);
        return;
    }
    const int length = snprintf(symbol, REG_SYMBOL_MAX, "%s_%s_%s_%s", rung->kernel, signature->op,
                                dtype_name(signature->items), dtype_name(signature->accumulator));
    if (rung->flags & RUNG_BLOCK_IS_TEMPLATE)
        snprintf(symbol + length, (size_t)(REG_SYMBOL_MAX - length), "_b%u", block);
}

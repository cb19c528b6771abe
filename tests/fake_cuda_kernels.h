/* fake_cuda_kernels.h: the part of fake_cuda.c with kernels: finds, launches and computes some of
 * them. */
#pragma once

static result cuModuleGetFunction(void **function, void *module, const char *name) {
    MAY_FAIL;
    (void)module;
    if (strncmp(name, "reduce_", 7) && strncmp(name, "roofline_", 9) &&
        strncmp(name, "micro_", 6) && strncmp(name, "transpose_", 10) &&
        strncmp(name, "vector_", 7) && strncmp(name, "stencil1d_", 10) &&
        strncmp(name, "matmul_", 7))
        return NOT_FOUND;
    *function = order_kernel(name); /* for ever, as a module's functions are */
    return OK;
}
static result cuFuncGetAttribute(int *value, int attribute, void *function) {
    MAY_FAIL;
    (void)function;
    /* threads; the dynamic shared memory that was allowed; no static one */
    *value = attribute == 0 ? 1024 : attribute == 8 ? (int)shared_allowed : 0;
    return OK;
}
/* Three parameters of 8 bytes, but for the kernels of the experiments. */
static result cuFuncGetParamInfo(void *function, size_t index, size_t *offset, size_t *bytes) {
    MAY_FAIL;
    const int fetch = !strcmp(function, "micro_fetch_texture");
    const int advance = !strcmp(function, "micro_advance_uint32");
    const size_t count = !strcmp(function, "micro_empty") ? 0 : fetch ? 4 : 3;
    *offset = 8 * index;
    *bytes = index == 3 || (index == 2 && advance) ? 4 : 8;
    return index < count ? OK : 1;
}
static result cuFuncSetAttribute(void *function, int attribute, int value) {
    MAY_FAIL;
    (void)function;
    if (attribute == 9) /* PREFERRED_SHARED_MEMORY_CARVEOUT */
        return OK;
    if (attribute != 8 || value > SHARED_MOST) /* MAX_DYNAMIC_SHARED_SIZE_BYTES */
        return 1;                              /* CUDA_ERROR_INVALID_VALUE */
    shared_allowed = (size_t)value;
    return OK;
}
/* The experiments' kernels that the fake driver computes. */
static void micro(const char *name, void **arguments) {
    if (strcmp(name, "micro_advance_uint32") || lose)
        return;
    uint32_t *items = *(uint32_t **)arguments[0];
    const uint64_t n = *(uint64_t *)arguments[1];
    const unsigned steps = *(unsigned *)arguments[2];
    for (uint64_t i = 0; i < n; i++)
        for (unsigned step = 0; step < steps; step++)
            items[i] = items[i] * 1664525u + 1013904223u;
}
static int is_single_pass(const char *name) {
    return !strncmp(name, "reduce_11_", 10) || !strncmp(name, "reduce_12_", 10) ||
           !strncmp(name, "reduce_13_", 10);
}
/* A sum, as far as it is computed here. */
static void reduction(const char *name, unsigned blocks, void **arguments) {
    const void *items = *(void **)arguments[0];
    int64_t *partials = *(int64_t **)arguments[1], sum = 0;
    const uint64_t n = *(uint64_t *)arguments[2];
    const int narrow = !!strstr(name, "_sum_int32_int64");
    if (!narrow && !strstr(name, "_sum_int64_int64"))
        return;
    for (uint64_t i = 0; i < n; i++)
        sum += narrow ? ((const int32_t *)items)[i] : ((const int64_t *)items)[i];
    for (unsigned i = 0; i < blocks; i++)
        partials[i] = 0;
    partials[0] = sum;
    if (is_single_pass(name))
        memcpy(*(void **)arguments[3], &sum, *(uint64_t *)arguments[5] ? 4 : 8);
}
static int is_copy(const char *name) { return !strncmp(name, "transpose_copy_", 15); }
static void copy(const char *name, void **arguments) {
    const uint64_t items = *(uint64_t *)arguments[2] * *(uint64_t *)arguments[3];
    const size_t item = strstr(name, "uint64") ? 8 : strstr(name, "uint8") ? 1 : 0;
    if (!lose)
        memcpy(*(void **)arguments[1], *(void **)arguments[0], items * item);
}
static void compute(const char *name, unsigned blocks, void **arguments) {
    if (inputs)
        note("input", *(void **)arguments[0]);
    if (!strncmp(name, "micro_", 6))
        micro(name, arguments);
    else if (!strncmp(name, "reduce_", 7) && strncmp(name, "reduce_axis_", 12))
        reduction(name, blocks, arguments);
    else if (is_copy(name))
        copy(name, arguments);
}
static result cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                             unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                             void *stream, void **arguments, void **extra) {
    MAY_FAIL;
    (void)grid_y, (void)grid_z, (void)extra;
    note("launch", stream);
    if (!grid_x || !block_x || block_x * block_y * block_z > 1024 || shared > shared_allowed)
        return 1; /* CUDA_ERROR_INVALID_VALUE */
    order_launch(stream, function, arguments);
    compute(function, grid_x, arguments);
    return OK;
}

struct launch_config {
    unsigned grid[3], block[3], shared;
    void *stream;
    const struct {
        unsigned id, unused;
        union {
            int allowed;
            char bytes[64];
        } value;
    } * attributes;
    unsigned count;
};
static result cuLaunchKernelEx(const struct launch_config *config, void *function, void **arguments,
                               void **extra) {
    const unsigned *grid = config->grid, *block = config->block;
    if (config->count != 1 || config->attributes->value.allowed != 1 ||
        (config->attributes->id != 6 && config->attributes->id != 2))
        return 1; /* PROGRAMMATIC_STREAM_SERIALIZATION, COOPERATIVE */
    return cuLaunchKernel(function, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                          config->shared, config->stream, arguments, extra);
}

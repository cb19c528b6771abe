/* fake_cuda_graphs.h: the part of fake_cuda.c with graphs, arrays and textures. */
#pragma once

/* A graph is a chain of kernels, each with a copy of the arguments that are read here; so is an
 * instance. */
struct node {
    void *function;
    unsigned grid[3], block[3], shared;
    void **arguments;
};
enum { MOST_NODES = 4000, MOST_VALUES = 6 };
struct graph {
    size_t count;
    struct {
        const char *name;
        unsigned blocks;
        uint64_t values[MOST_VALUES];
        void **all; /* copies of all arguments, for the check of the order; kept for ever */
    } nodes[MOST_NODES];
};
/* How many arguments of a kernel are read, all of 8 bytes but the third of micro_advance. */
static int values_of(const char *name) {
    if (!strncmp(name, "micro_", 6))
        return strcmp(name, "micro_advance_uint32") ? 0 : 3;
    return is_single_pass(name) ? 6 : is_copy(name) ? 5 : 3;
}
static result cuGraphCreate(struct graph **graph, unsigned flags) {
    MAY_FAIL;
    (void)flags;
    *graph = calloc(1, sizeof **graph);
    live++;
    return OK;
}
static result cuGraphAddKernelNode(void **added, struct graph *graph, void *const *after,
                                   size_t count, const struct node *node) {
    MAY_FAIL;
    if (node->block[0] * node->block[1] * node->block[2] > 1024 || graph->count == MOST_NODES)
        return 1; /* CUDA_ERROR_INVALID_VALUE */
    if (count != !!graph->count || (count && *after != &graph->nodes[graph->count - 1]))
        return 1; /* not a chain */
    *added = &graph->nodes[graph->count];
    graph->nodes[graph->count].name = node->function;
    graph->nodes[graph->count].blocks = node->grid[0];
    const int micro_steps = !strcmp(node->function, "micro_advance_uint32") ? 2 : -1;
    for (int i = 0; i < values_of(node->function); i++)
        memcpy(&graph->nodes[graph->count].values[i], node->arguments[i], i == micro_steps ? 4 : 8);
    graph->nodes[graph->count].all = order_arguments(node->function, node->arguments);
    graph->count++;
    return OK;
}
static result cuGraphInstantiateWithFlags(struct graph **ready, const struct graph *graph,
                                          uint64_t flags) {
    MAY_FAIL;
    (void)flags;
    *ready = malloc(sizeof *graph);
    memcpy(*ready, graph, sizeof *graph);
    live++;
    graphs++;
    return OK;
}
static result cuGraphUpload(struct graph *ready, void *stream) {
    MAY_FAIL;
    (void)ready, (void)stream;
    return OK;
}
static result cuGraphLaunch(struct graph *ready, void *stream) {
    MAY_FAIL;
    note("graph", stream);
    for (size_t i = 0; i < ready->count; i++) {
        void *arguments[MOST_VALUES];
        for (int k = 0; k < MOST_VALUES; k++)
            arguments[k] = &ready->nodes[i].values[k];
        order_launch(stream, (void *)ready->nodes[i].name, ready->nodes[i].all);
        compute(ready->nodes[i].name, ready->nodes[i].blocks, arguments);
    }
    return OK;
}
static result cuGraphExecDestroy(void *each) {
    gone(each);
    graphs--;
    return fails(__func__);
}
static result cuGraphDestroy(void *each) {
    gone(each);
    return fails(__func__);
}

/* Arrays and texture objects; the last texture's description is kept for whoever asks. */
static char texture[256];
const char *fake_cuda_texture(void) { return texture; }
struct shape {
    size_t width, height, depth;
    int format;
    unsigned channels, flags;
};
static result cuArray3DCreate(void **array, const struct shape *shape) {
    MAY_FAIL;
    snprintf(texture, sizeof texture, "array %zu x %zu x %zu of %u format %x; ", shape->width,
             shape->height, shape->depth, shape->channels, (unsigned)shape->format);
    const size_t length = strlen(texture);
    if (shape->flags & ~8u) /* but for gathers */
        snprintf(texture + length, sizeof texture - length, "flags %x; ", shape->flags & ~8u);
    *array = object();
    return OK;
}
static result cuArrayDestroy(void *array) {
    gone(array);
    return fails(__func__);
}
static result cuMipmappedArrayCreate(void **levels, const struct shape *shape, unsigned count) {
    MAY_FAIL;
    cuArray3DCreate(levels, shape);
    const size_t length = strlen(texture);
    snprintf(texture + length, sizeof texture - length, "%u levels; ", count);
    return OK;
}
static result cuMipmappedArrayGetLevel(void **array, void *levels, unsigned level) {
    MAY_FAIL;
    *array = (char *)levels + level;
    return OK;
}
static result cuMipmappedArrayDestroy(void *levels) {
    gone(levels);
    return fails(__func__);
}
static result cuMemcpy3DAsync(const void *copy, void *stream) {
    MAY_FAIL;
    (void)copy;
    note("rows", stream);
    return OK;
}
struct resource {
    int type;
    union {
        struct {
            void *array;
        } array;
        struct {
            uint64_t data;
            int format;
            unsigned channels;
            size_t bytes;
        } linear;
        int reserved[32];
    } of;
    unsigned flags;
};
struct sampling {
    int outside[3], filter;
    unsigned flags;
};
static result cuTexObjectCreate(uint64_t *handle, const struct resource *resource,
                                const struct sampling *sampling, const void *view) {
    MAY_FAIL;
    (void)view;
    if (resource->type == 2)
        snprintf(texture, sizeof texture, "linear %zu bytes of %u format %x; ",
                 resource->of.linear.bytes, resource->of.linear.channels,
                 (unsigned)resource->of.linear.format);
    const size_t length = strlen(texture);
    snprintf(texture + length, sizeof texture - length, "outside %d filter %d flags %u",
             sampling->outside[0], sampling->filter, sampling->flags);
    *handle = (uint64_t)(uintptr_t)object();
    return OK;
}
static result cuSurfObjectCreate(uint64_t *handle, const struct resource *resource) {
    MAY_FAIL;
    (void)resource;
    *handle = (uint64_t)(uintptr_t)object();
    return OK;
}
static result cuSurfObjectDestroy(uint64_t handle) {
    gone((void *)(uintptr_t)handle);
    return fails(__func__);
}
static result cuTexObjectDestroy(uint64_t handle) {
    gone((void *)(uintptr_t)handle);
    return fails(__func__);
}

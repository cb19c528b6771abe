/* cuda_graph.c: turns a list of launches into a CUDA graph: a chain of kernel nodes, started as
 * one. Knows no operation. */
#include "cuda_queue.h"

static enum status add_chain(struct gpu *gpu, CUgraph graph, const struct device_launch *launches,
                             size_t count) {
    CUgraphNode last = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct device_launch *launch = &launches[i];
        const CUDA_KERNEL_NODE_PARAMS parameters = {
            .func = launch->kernel->function,
            .gridDimX = launch->grid[0],
            .gridDimY = launch->grid[1],
            .gridDimZ = launch->grid[2],
            .blockDimX = launch->block[0],
            .blockDimY = launch->block[1],
            .blockDimZ = launch->block[2],
            .sharedMemBytes = launch->shared_bytes,
            .kernelParams = launch->arguments,
        };
        CUgraphNode node = NULL;
        const CUresult result =
            cuda.cuGraphAddKernelNode(&node, graph, last ? &last : NULL, last ? 1 : 0, &parameters);
        if (result)
            return cuda_refused(gpu, launch, result, "cuGraphAddKernelNode");
        last = node;
    }
    return STATUS_OK;
}

enum status cuda_graph_open(struct device *device, const struct device_launch *launches,
                            size_t count, struct device_graph **graph) {
    struct queue *queue = queue_of(device);
    struct gpu *gpu = queue->gpu;
    *graph = NULL;
    enum status status = cuda_enter(gpu);
    if (status)
        return status;
    CUgraph chain = NULL;
    CUgraphExec ready = NULL;
    status = cuda_check(cuda.cuGraphCreate(&chain, 0), "cuGraphCreate");
    for (size_t i = 0; i < count && !status; i++)
        if (launches[i].shared_bytes)
            status = cuda_check(cuda_allow_shared(gpu, &launches[i]), "cuFuncSetAttribute");
    if (!status)
        status = add_chain(gpu, chain, launches, count);
    if (!status)
        status = cuda_check(cuda.cuGraphInstantiateWithFlags(&ready, chain, 0),
                            "cuGraphInstantiateWithFlags");
    if (chain)
        cuda.cuGraphDestroy(chain);
    if (!status) /* without it the first launch uploads, and takes longer */
        status = cuda_check(cuda.cuGraphUpload(ready, queue->stream), "cuGraphUpload");
    if (status && ready) {
        cuda.cuGraphExecDestroy(ready);
        ready = NULL;
    }
    *graph = (struct device_graph *)ready;
    return cuda_leave(gpu, status);
}

enum status cuda_graph_launch(struct device *device, struct device_graph *graph) {
    struct queue *queue = queue_of(device);
    enum status status = cuda_check_uncaptured(queue);
    if (status || (status = cuda_enter(queue->gpu)))
        return status;
    CUresult result = cuda.cuGraphLaunch((CUgraphExec)graph, queue->stream);
    if (cuda_makes_room(queue->gpu, queue->stream, result))
        result = cuda.cuGraphLaunch((CUgraphExec)graph, queue->stream);
    return cuda_leave(queue->gpu, cuda_check(result, "cuGraphLaunch"));
}

void cuda_graph_close(struct device *device, struct device_graph *graph) {
    struct queue *queue = queue_of(device);
    if (!graph || cuda_enter(queue->gpu))
        return; /* a lost context has destroyed everything */
    cuda.cuGraphExecDestroy(
        (CUgraphExec)graph); /* a running instance completes before it is freed */
    cuda_leave(queue->gpu, STATUS_OK);
}

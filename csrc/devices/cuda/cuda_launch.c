/* cuda_launch.c: launches kernels, and explains why the driver rejects one. Knows no operation. */
#include "cuda_queue.h"

static CUresult start_kernel(const struct queue *queue, const struct device_launch *launch) {
    const unsigned *grid = launch->grid, *block = launch->block;
    CUlaunchAttribute attributes[2];
    unsigned count = 0;
    if (launch->overlaps && launch->kernel->overlaps)
        attributes[count++] = (CUlaunchAttribute){
            .id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            .value.programmaticStreamSerializationAllowed = 1,
        };
    if (launch->flags & DEVICE_COOPERATIVE)
        attributes[count++] = (CUlaunchAttribute){
            .id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
            .value.cooperative = 1,
        };
    if (count) {
        const CUlaunchConfig config = {
            .gridDimX = grid[0],
            .gridDimY = grid[1],
            .gridDimZ = grid[2],
            .blockDimX = block[0],
            .blockDimY = block[1],
            .blockDimZ = block[2],
            .sharedMemBytes = launch->shared_bytes,
            .hStream = queue->stream,
            .attrs = attributes,
            .numAttrs = count,
        };
        return cuda.cuLaunchKernelEx(&config, launch->kernel->function, launch->arguments, NULL);
    }
    return cuda.cuLaunchKernel(launch->kernel->function, grid[0], grid[1], grid[2], block[0],
                               block[1], block[2], launch->shared_bytes, queue->stream,
                               launch->arguments, NULL);
}

/* Explains why the driver rejects a launch; the driver itself does not. */
enum status cuda_refused(const struct gpu *gpu, const struct device_launch *launch, CUresult result,
                         const char *call) {
    CUfunction function = launch->kernel->function;
    const uint64_t threads = (uint64_t)launch->block[0] * launch->block[1] * launch->block[2];
    int threads_most = 0, fixed = 0, shared_most = 0;
    if (result == CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE)
        return status_fail(STATUS_UNFIT,
                           "cuda:%d: the blocks of a cooperative launch do not fit at once; launch "
                           "fewer or smaller ones",
                           gpu->ordinal);
    if ((result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES) &&
        !cuda.cuFuncGetAttribute(&threads_most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                                 function) &&
        !cuda.cuFuncGetAttribute(&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function) &&
        !cuda.cuDeviceGetAttribute(
            &shared_most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, gpu->device)) {
        if (threads > (uint64_t)threads_most)
            return status_fail(
                STATUS_UNFIT,
                "cuda:%d: %llu threads per block are more than the %d that the kernel "
                "or the GPU allows",
                gpu->ordinal, (unsigned long long)threads, threads_most);
        if ((uint64_t)fixed + launch->shared_bytes > (uint64_t)shared_most)
            return status_fail(STATUS_UNFIT,
                               "cuda:%d: %llu bytes of shared memory, static and dynamic, are more "
                               "than the GPU's %d",
                               gpu->ordinal, (unsigned long long)fixed + launch->shared_bytes,
                               shared_most);
    }
    return cuda_check(result, call);
}

/* Beyond 48 KiB of shared memory, static and dynamic, a kernel needs an attribute; and the
 * preferred carveout must be the maximum, or the driver may leave room for only one block a
 * multiprocessor. Set once, to the maximum: other queues launch the same kernel, some with more
 * than this launch.
 */
CUresult cuda_allow_shared(const struct gpu *gpu, const struct device_launch *launch) {
    const CUfunction function = launch->kernel->function;
    int allowed = 0, fixed = 0, most = 0;
    CUresult result = cuda.cuFuncGetAttribute(
        &allowed, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function);
    if (result || (allowed > CUDA_SHARED_FREE && (uint64_t)allowed >= launch->shared_bytes))
        return result; /* already set */
    result = cuda.cuFuncGetAttribute(&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function);
    if (!result && (uint64_t)fixed + launch->shared_bytes <= CUDA_SHARED_FREE)
        return result;
    if (!result)
        result = cuda.cuDeviceGetAttribute(
            &most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, gpu->device);
    if (!result)
        result =
            cuda.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                                    CU_SHAREDMEM_CARVEOUT_MAX_SHARED);
    if (!result)
        result = cuda.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                         most - fixed);
    return result;
}

enum status cuda_launch(struct device *device, const struct device_launch *launch) {
    struct queue *queue = queue_of(device);
    enum status status = cuda_enter(queue->gpu);
    if (status)
        return status;
    const bool much = launch->shared_bytes > CUDA_SHARED_FREE;
    CUresult result = much ? cuda_allow_shared(queue->gpu, launch) : CUDA_SUCCESS;
    if (!result)
        result = start_kernel(queue, launch);
    if (result == CUDA_ERROR_INVALID_VALUE && launch->shared_bytes && !much &&
        !cuda_allow_shared(queue->gpu, launch)) /* its static shared memory is large */
        result = start_kernel(queue, launch);
    if (cuda_makes_room(queue->gpu, queue->stream, result))
        result = start_kernel(queue, launch);
    if (result)
        status = cuda_refused(queue->gpu, launch, result, "cuLaunchKernel");
    return cuda_leave(queue->gpu, status);
}

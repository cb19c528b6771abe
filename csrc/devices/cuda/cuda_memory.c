/* cuda_memory.c: memory of the CUDA device: a stream-ordered pool, copies through pinned buffers,
 * asynchronous copies, pinned memory for callers. Knows no kernel.
 */
#include "cuda_queue.h"

#include <stdio.h>

/* --- device memory */

enum status cuda_check_memory(struct gpu *gpu, CUresult result, size_t bytes, const char *call) {
    if (result != CUDA_ERROR_OUT_OF_MEMORY)
        return cuda_check(result, call);
    char name[32];
    size_t free_bytes = 0, total_bytes = 0;
    snprintf(name, sizeof name, "cuda:%d", gpu->ordinal);
    cuda.cuMemGetInfo(&free_bytes, &total_bytes);
    return status_no_device_memory(name, bytes, free_bytes, "");
}

bool cuda_makes_room(struct gpu *gpu, CUstream stream, CUresult result) {
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    if (result != CUDA_ERROR_OUT_OF_MEMORY)
        return false;
    /* Memory freed by other queues may still be pending. */
    if (!cuda.cuStreamIsCapturing(stream, &capture) && !capture)
        cuda.cuStreamSynchronize(stream);
    cuda.cuMemPoolTrimTo(gpu->pool, 0);
    return true;
}

enum status cuda_alloc_on(struct gpu *gpu, CUstream stream, size_t bytes, CUdeviceptr *pointer) {
    const size_t asked = bytes ? bytes : 1;
    CUresult result = cuda.cuMemAllocFromPoolAsync(pointer, asked, gpu->pool, stream);
    if (cuda_makes_room(gpu, stream, result))
        result = cuda.cuMemAllocFromPoolAsync(pointer, asked, gpu->pool, stream);
    if (result)
        *pointer = 0;
    return cuda_check_memory(gpu, result, bytes, "cuMemAllocFromPoolAsync");
}

enum status cuda_alloc(struct device *device, size_t bytes, device_address *address) {
    struct queue *queue = queue_of(device);
    enum status status = cuda_enter(queue->gpu);
    if (status)
        return status;
    CUdeviceptr pointer = 0;
    status = cuda_alloc_on(queue->gpu, queue->stream, bytes, &pointer);
    *address = pointer;
    return cuda_leave(queue->gpu, status);
}

void cuda_free(struct device *device, device_address address) {
    struct queue *queue = queue_of(device);
    if (!address || cuda_enter(queue->gpu))
        return; /* a lost context has freed everything */
    /* The relaxed mode protects a graph that another thread is capturing: an array may be freed at
     * any time. */
    const CUstreamCaptureMode mode = cuda_relax();
    cuda.cuMemFreeAsync(address, queue->stream);
    cuda_undo_relax(mode);
    cuda_leave(queue->gpu, STATUS_OK);
}

/* --- copies from and to unpinned memory */

/* Takes a pinned buffer once no copy uses it. */
static enum status staging_take(struct queue *queue, int index, struct staging **taken) {
    struct staging *staging = &queue->staging[index % STAGING_BUFFERS];
    enum status status = STATUS_OK;
    if (!staging->host)
        status = cuda_pin_host(queue->gpu, STAGING_BYTES, &staging->host);
    if (!status && staging->busy)
        status = cuda_wait(queue, staging->done);
    if (!status)
        staging->busy = false;
    *taken = staging;
    return status;
}

enum status cuda_staging_mark(struct queue *queue, struct staging *staging) {
    const enum status status =
        cuda_check(cuda.cuEventRecord(staging->done, queue->stream), "cuEventRecord");
    staging->busy = !status;
    if (status)
        cuda.cuStreamSynchronize(queue->stream); /* nothing else tells when the copy has ended */
    return status;
}

/* In a captured graph: host memory may change before a run, so the graph's nodes hold the few
 * bytes. */
static enum status fill_in(struct queue *queue, device_address to, const struct device_source *from,
                           size_t bytes) {
    unsigned char given[DEVICE_CAPTURED_BYTES];
    if (bytes > sizeof given)
        return device_refuse_captured();
    enum status status = device_read(from, 0, given, bytes);
    for (size_t done = 0; done < bytes && !status;) {
        uint32_t word = 0;
        const size_t part = bytes - done < sizeof word ? 1 : sizeof word;
        memcpy(&word, given + done, part);
        status = part == 1
                     ? cuda_check(cuda.cuMemsetD8Async(to + done, given[done], 1, queue->stream),
                                  "cuMemsetD8Async")
                     : cuda_check(cuda.cuMemsetD32Async(to + done, word, 1, queue->stream),
                                  "cuMemsetD32Async");
        done += part;
    }
    return status;
}

/* Copies between the caller's pinned memory and the GPU. No copy is in flight
 * when it returns: the caller may free the memory. */
static enum status copy_pinned(struct queue *queue, void *host, device_address there, size_t bytes,
                               bool out) {
    enum status status = STATUS_OK;
    for (size_t done = 0; done < bytes && !status; done += PINNED_PART_BYTES) {
        const size_t left = bytes - done;
        const size_t part = left < PINNED_PART_BYTES ? left : PINNED_PART_BYTES;
        char *here = (char *)host + done;
        status = out ? cuda_check(cuda.cuMemcpyDtoHAsync(here, there + done, part, queue->stream),
                                  "cuMemcpyDtoHAsync")
                     : cuda_check(cuda.cuMemcpyHtoDAsync(there + done, here, part, queue->stream),
                                  "cuMemcpyHtoDAsync");
        if (!status)
            status = cuda_wait(queue, NULL);
    }
    if (status)
        cuda.cuStreamSynchronize(queue->stream);
    return status;
}

/* The host fills one buffer while the other is in flight. */
enum status cuda_copy_in(struct device *device, device_address to, const struct device_source *from,
                         size_t bytes) {
    struct queue *queue = queue_of(device);
    enum status status = cuda_enter(queue->gpu);
    if (status)
        return status;
    if (device_is_captured(device))
        return cuda_leave(queue->gpu, fill_in(queue, to, from, bytes));
    if (from->data && bytes >= RING_LEAST && cuda_is_pinned(from->data, bytes))
        return cuda_leave(queue->gpu,
                          copy_pinned(queue, (void *)(uintptr_t)from->data, to, bytes, false));
    if (from->data && bytes >= RING_LEAST &&
        cuda_ring_copy_in(queue, to, from->data, bytes, &status))
        return cuda_leave(queue->gpu, status);
    int turn = 0;
    for (size_t done = 0; done < bytes && !status; turn++) {
        const size_t part = bytes - done < STAGING_BYTES ? bytes - done : STAGING_BYTES;
        struct staging *staging;
        status = staging_take(queue, turn, &staging);
        if (!status)
            status = device_read(from, done, staging->host, part);
        if (!status)
            status =
                cuda_check(cuda.cuMemcpyHtoDAsync(to + done, staging->host, part, queue->stream),
                           "cuMemcpyHtoDAsync");
        if (!status)
            status = cuda_staging_mark(queue, staging);
        if (!status)
            status = device_poll(device);
        done += part;
    }
    return cuda_leave(queue->gpu, status);
}

enum status cuda_copy_out(struct device *device, void *to, device_address from, size_t bytes) {
    struct queue *queue = queue_of(device);
    enum status status = cuda_check_uncaptured(queue);
    if (status || (status = cuda_enter(queue->gpu)))
        return status;
    if (bytes >= RING_LEAST && cuda_is_pinned(to, bytes))
        return cuda_leave(queue->gpu, copy_pinned(queue, to, from, bytes, true));
    if (bytes >= RING_LEAST && cuda_ring_copy_out(queue, to, from, bytes, &status))
        return cuda_leave(queue->gpu, status);
    for (size_t done = 0; done < bytes && !status;) {
        const size_t part = bytes - done < STAGING_BYTES ? bytes - done : STAGING_BYTES;
        struct staging *staging;
        status = staging_take(queue, 0, &staging);
        if (!status)
            status =
                cuda_check(cuda.cuMemcpyDtoHAsync(staging->host, from + done, part, queue->stream),
                           "cuMemcpyDtoHAsync");
        if (!status)
            status = cuda_staging_mark(queue, staging);
        if (!status)
            status = cuda_wait(queue, NULL);
        if (!status)
            memcpy((char *)to + done, staging->host, part);
        done += part;
    }
    return cuda_leave(queue->gpu, status);
}

void cuda_staging_close(struct queue *queue) {
    for (int i = 0; i < STAGING_BUFFERS; i++) {
        if (queue->staging[i].host)
            cuda.cuMemFreeHost(queue->staging[i].host);
        if (queue->staging[i].done)
            cuda.cuEventDestroy(queue->staging[i].done);
    }
}

enum status cuda_fill(struct device *device, device_address to, uint8_t value, size_t bytes) {
    struct queue *queue = queue_of(device);
    enum status status = cuda_enter(queue->gpu);
    if (status)
        return status;
    return cuda_leave(queue->gpu, cuda_check(cuda.cuMemsetD8Async(to, value, bytes, queue->stream),
                                             "cuMemsetD8Async"));
}

/* --- pinned memory, and asynchronous copies */

enum status cuda_pin(struct device *device, size_t bytes, void **memory) {
    struct queue *queue = queue_of(device);
    *memory = NULL;
    enum status status = cuda_enter(queue->gpu);
    if (status)
        return status;
    return cuda_leave(queue->gpu, cuda_pin_host(queue->gpu, bytes ? bytes : 1, memory));
}

void cuda_unpin(struct device *device, void *memory) {
    struct queue *queue = queue_of(device);
    if (!memory || cuda_enter(queue->gpu))
        return; /* pinned memory ends with its context */
    cuda.cuStreamSynchronize(queue->stream);
    cuda.cuMemFreeHost(memory);
    cuda_leave(queue->gpu, STATUS_OK);
}

enum status cuda_copy(struct device *device, device_address to, device_address from, size_t bytes) {
    struct queue *queue = queue_of(device);
    enum status status = cuda_enter(queue->gpu);
    if (status)
        return status;
    return cuda_leave(queue->gpu, cuda_check(cuda.cuMemcpyAsync(to, from, bytes, queue->stream),
                                             "cuMemcpyAsync"));
}

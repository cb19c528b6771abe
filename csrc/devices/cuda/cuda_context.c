/* cuda_context.c: the beginning and end of every entry of the CUDA device: the GPU's context, a
 * relaxed capture mode, the test for a captured stream, waiting, pinned memory. Knows no kernel.
 */
#include "cuda_queue.h"

#include <stdio.h>
#include <time.h>

/* A bit for each entry of this thread that has not left, the last in bit 0: whether it pushed its
 * context. Libraries leave the primary context current: a look costs half of a push and a pop. */
static _Thread_local uint64_t pushed;

enum status cuda_enter(struct gpu *gpu) {
    CUcontext current = NULL;
    if (cuda_driver_forked())
        return cuda_driver_start(); /* fails with the reason */
    if (atomic_load(&gpu->lost))
        return status_fail(STATUS_DEVICE_LOST, "cuda:%d is lost to this process: %s", gpu->ordinal,
                           gpu->fault);
    enum status status = cuda_check(cuda.cuCtxGetCurrent(&current), "cuCtxGetCurrent");
    const bool pushes = current != gpu->context;
    if (!status && pushes)
        status = cuda_check(cuda.cuCtxPushCurrent(gpu->context), "cuCtxPushCurrent");
    if (!status)
        pushed = pushed << 1 | pushes;
    return status;
}

enum status cuda_leave(struct gpu *gpu, enum status status) {
    CUcontext ours;
    static pthread_mutex_t fault_lock = PTHREAD_MUTEX_INITIALIZER;
    if (status == STATUS_DEVICE_LOST) {
        pthread_mutex_lock(&fault_lock);
        if (!atomic_load(&gpu->lost))
            snprintf(gpu->fault, sizeof gpu->fault, "%.500s", status_last()->text);
        atomic_store(&gpu->lost, true);
        pthread_mutex_unlock(&fault_lock);
    }
    if (pushed & 1)
        cuda.cuCtxPopCurrent(&ours);
    pushed >>= 1;
    return status;
}

/* --- captured streams */

CUstreamCaptureMode cuda_relax(void) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    cuda.cuThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

void cuda_undo_relax(CUstreamCaptureMode mode) { cuda.cuThreadExchangeStreamCaptureMode(&mode); }

enum status cuda_check_uncaptured(const struct queue *queue) {
    return device_is_captured(&queue->device) ? device_refuse_captured() : STATUS_OK;
}

enum status cuda_check_stream_uncaptured(CUstream stream) {
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    if (stream == CU_STREAM_LEGACY) /* the legacy stream cannot be captured */
        return STATUS_OK;
    const enum status status =
        cuda_check(cuda.cuStreamIsCapturing(stream, &capture), "cuStreamIsCapturing");
    return status || capture == CU_STREAM_CAPTURE_STATUS_NONE ? status : device_refuse_captured();
}

/* --- waiting */

enum { SPIN_MS = 100 }; /* a sleep overruns by about 0.1 ms: then 0.1% */

static int64_t nanoseconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void nap(void) {
    const struct timespec pause = {.tv_nsec = 50000};
    nanosleep(&pause, NULL);
}

/* Spins first, since most work is short, then sleeps; a signal interrupts both. */
static enum status look_until(struct queue *queue, CUevent event) {
    const int64_t begin = nanoseconds();
    for (uint64_t turn = 1;; turn++) {
        const CUresult result =
            event ? cuda.cuEventQuery(event) : cuda.cuStreamQuery(queue->stream);
        if (result != CUDA_ERROR_NOT_READY)
            return cuda_check(result, event ? "cuEventQuery" : "cuStreamQuery");
        if (turn % 256 == 0) {
            const enum status status = device_poll(&queue->device);
            if (status)
                return status;
        }
        if (nanoseconds() - begin > SPIN_MS * 1000000LL)
            nap();
    }
}

enum status cuda_wait_for(struct queue *queue, CUevent event) {
    const CUstreamCaptureMode mode = cuda_relax(); /* another stream may be capturing */
    const enum status status = look_until(queue, event);
    cuda_undo_relax(mode);
    return status;
}

enum status cuda_wait(struct queue *queue, CUevent event) {
    const enum status status = cuda_check_uncaptured(queue);
    return status ? status : cuda_wait_for(queue, event);
}

/* --- pinned memory */

enum status cuda_pin_host(const struct gpu *gpu, size_t bytes, void **memory) {
    const CUstreamCaptureMode mode = cuda_relax();
    const CUresult result = cuda.cuMemHostAlloc(memory, bytes, CU_MEMHOSTALLOC_PORTABLE);
    cuda_undo_relax(mode);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return status_fail(STATUS_NO_HOST_MEMORY,
                           "cuda:%d: the host has no %zu bytes of memory that can be pinned",
                           gpu->ordinal, bytes);
    return cuda_check(result, "cuMemHostAlloc");
}

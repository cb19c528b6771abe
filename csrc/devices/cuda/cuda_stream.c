/* cuda_stream.c: the order between queues, and the streams that queues adopt from other libraries.
 * Knows no kernel.
 */
#include "cuda_queue.h"

/* Later work of `queue` waits for the stream's work so far. */
static enum status wait_for_stream(struct queue *queue, CUstream stream, CUevent mark) {
    enum status status = cuda_check(cuda.cuEventRecord(mark, stream), "cuEventRecord");
    return status ? status
                  : cuda_check(cuda.cuStreamWaitEvent(queue->stream, mark, 0), "cuStreamWaitEvent");
}

/* Later work of `queue` waits for the work so far of all streams. Without the driver's support, and
 * while a stream is being captured, the host has to wait, or the call fails. */
static enum status wait_for_context(struct queue *queue) {
    enum status status = cuda_enter(queue->gpu);
    if (status)
        return status;
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    if (cuda.cuCtxRecordEvent)
        result = cuda.cuCtxRecordEvent(queue->gpu->context, queue->mark);
    if (result)
        status = cuda_check(cuda.cuCtxSynchronize(), "cuCtxSynchronize");
    else
        status =
            cuda_check(cuda.cuStreamWaitEvent(queue->stream, queue->mark, 0), "cuStreamWaitEvent");
    return cuda_leave(queue->gpu, status);
}

/* Each call is made in the context of its GPU: every context has a legacy stream. */
static enum status wait_for_other_gpu(struct queue *queue, struct queue *first) {
    enum status status = cuda_enter(first->gpu);
    if (status)
        return status;
    status = cuda_check(cuda.cuEventRecord(first->mark, first->stream), "cuEventRecord");
    if ((status = cuda_leave(first->gpu, status)) || (status = cuda_enter(queue->gpu)))
        return status;
    return cuda_leave(queue->gpu, cuda_check(cuda.cuStreamWaitEvent(queue->stream, first->mark, 0),
                                             "cuStreamWaitEvent"));
}

enum status cuda_follow(struct device *device, struct device *other) {
    if (!other)
        return wait_for_context(queue_of(device));
    struct queue *queue = queue_of(device), *first = queue_of(other);
    if (other->ops != device->ops)
        return status_fail(STATUS_BAD_VALUE,
                           "cuda:%d: a queue cannot follow one of another kind of device",
                           queue->gpu->ordinal);
    enum status status = cuda_check_uncaptured(queue);
    if (!status)
        status = cuda_check_uncaptured(first);
    if (status)
        return status;
    if (first->gpu != queue->gpu)
        return wait_for_other_gpu(queue, first);
    if ((status = cuda_enter(queue->gpu)))
        return status;
    return cuda_leave(queue->gpu, wait_for_stream(queue, first->stream, first->mark));
}

bool cuda_lags(struct device *device) {
    struct queue *queue = queue_of(device);
    if (cuda_enter(queue->gpu))
        return false;
    const CUstreamCaptureMode mode = cuda_relax(); /* another stream may be capturing */
    const bool lags = cuda.cuEventQuery(queue->seen) == CUDA_ERROR_NOT_READY;
    cuda.cuEventRecord(queue->seen, queue->stream); /* failed: the answer is one of before */
    cuda_undo_relax(mode);
    cuda_leave(queue->gpu, STATUS_OK);
    return lags;
}

static enum status follow_onto(struct queue *queue, CUstream wanted) {
    const CUstream before = queue->stream;
    const CUstreamCaptureMode mode = cuda_relax(); /* another stream may be capturing */
    queue->stream = wanted;
    const CUresult result = cuda.cuStreamQuery(before); /* usually the stream is idle */
    const enum status status = result == CUDA_ERROR_NOT_READY
                                   ? wait_for_stream(queue, before, queue->mark)
                                   : cuda_check(result, "cuStreamQuery");
    if (status)
        queue->stream = before;
    cuda_undo_relax(mode);
    return status;
}

enum status cuda_adopt(struct device *device, uint64_t stream) {
    struct queue *queue = queue_of(device);
    const CUstream wanted = stream ? (CUstream)(uintptr_t)stream : queue->own;
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    if (wanted == queue->stream)
        return STATUS_OK;
    if (device_is_captured(device))
        cuda_end_capture(queue); /* even on failure: the mode belongs to the thread */
    enum status status = cuda_enter(queue->gpu);
    if (status)
        return status;
    if (stream && wanted != CU_STREAM_LEGACY) /* the legacy stream cannot be captured */
        status = cuda_check(cuda.cuStreamIsCapturing(wanted, &capture), "cuStreamIsCapturing");
    if (!status && capture != CU_STREAM_CAPTURE_STATUS_NONE)
        cuda_begin_capture(queue, wanted);
    else if (!status && wanted != queue->stream)
        status = follow_onto(queue, wanted);
    return cuda_leave(queue->gpu, status);
}

/* The device of a context that gpuopt did not create. */
static enum status device_of(CUcontext context, CUdevice *device) {
    CUcontext popped;
    enum status status = cuda_check(cuda.cuCtxPushCurrent(context), "cuCtxPushCurrent");
    if (status)
        return status;
    status = cuda_check(cuda.cuCtxGetDevice(device), "cuCtxGetDevice");
    cuda.cuCtxPopCurrent(&popped);
    return status;
}

/* Compares devices, not contexts: kernels also run on streams of a green context of the same GPU.
 */
enum status cuda_check_stream(struct device *device, uint64_t stream, bool known) {
    struct gpu *gpu = queue_of(device)->gpu;
    const CUstream given = (CUstream)(uintptr_t)stream;
    if (!given || given == CU_STREAM_LEGACY)
        return STATUS_OK; /* every context has these, and they are not captured */
    enum status status = cuda_enter(gpu);
    if (status)
        return status;
    status = cuda_check_stream_uncaptured(given);
    if (status || known || given == CU_STREAM_PER_THREAD)
        return cuda_leave(gpu, status);
    CUcontext context = NULL;
    CUdevice found = gpu->device;
    status = cuda_check(cuda.cuStreamGetCtx(given, &context), "cuStreamGetCtx");
    if (!status && context != gpu->context)
        status = device_of(context, &found);
    if (!status && found != gpu->device)
        status = status_fail(STATUS_BAD_VALUE,
                             "stream: 0x%llx is a stream of cuda:%d, and the work is on cuda:%d; "
                             "pass one that was made there",
                             (unsigned long long)stream, found, gpu->ordinal);
    return cuda_leave(gpu, status);
}

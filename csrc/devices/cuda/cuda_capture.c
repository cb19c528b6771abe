/* cuda_capture.c: a queue on a stream that is being captured into a CUDA graph.
 *
 * Work of the queue becomes nodes of the graph, which may run repeatedly and beside the queue's
 * later work, so nodes never use the queue's own memory. Each graph has one buffer for each of its
 * streams, in which nodes run in order. A user object ties the buffer to the graph; the driver's
 * callback makes it available again when the graph and all its instances are destroyed.
 */
#include "cuda_queue.h"

#include <stdlib.h>

void cuda_begin_capture(struct queue *queue, CUstream stream) {
    queue->mode = cuda_relax();
    queue->device.capabilities |= DEVICE_CAPTURED;
    queue->stream = stream;
}
void cuda_end_capture(struct queue *queue) {
    cuda_undo_relax(queue->mode);
    queue->device.capabilities &= ~(unsigned)DEVICE_CAPTURED;
    queue->stream = queue->own;
}

/* --- buffers of graphs */

struct piece {
    struct piece *next;
    const struct gpu *gpu;
    CUdeviceptr address; /* 0: not allocated yet */
    size_t bytes;
    bool in_use;        /* a graph uses it, */
    cuuint64_t capture; /* the capture with this unique id, */
    CUstream stream;    /* on this stream */
};
static struct piece
    *pieces; /* never freed: their number is the maximum of graphs that existed at a time */
static pthread_mutex_t pieces_lock = PTHREAD_MUTEX_INITIALIZER;

/* Runs in a thread of the driver, where no CUDA call is allowed. */
static void CUDA_CB graph_gone(void *piece) {
    pthread_mutex_lock(&pieces_lock);
    ((struct piece *)piece)->in_use = false;
    pthread_mutex_unlock(&pieces_lock);
}

/* Takes a buffer that no graph uses; NULL if there is none. The caller holds the lock. */
static struct piece *take_spare(const struct gpu *gpu, size_t bytes, cuuint64_t capture,
                                CUstream stream) {
    struct piece *piece = pieces;
    while (piece && (piece->in_use || piece->gpu != gpu || piece->bytes != bytes))
        piece = piece->next;
    if (piece) {
        piece->in_use = true;
        piece->capture = capture;
        piece->stream = stream;
    }
    return piece;
}

/* Finds the buffer of a graph's stream, or takes one and sets `fresh`; NULL if there is none. */
static struct piece *find_piece(const struct queue *queue, size_t bytes, cuuint64_t capture,
                                bool *fresh) {
    pthread_mutex_lock(&pieces_lock);
    struct piece *piece = pieces;
    while (piece && !(piece->in_use && piece->capture == capture &&
                      piece->stream == queue->stream && piece->bytes == bytes))
        piece = piece->next;
    *fresh = !piece;
    if (!piece)
        piece = take_spare(queue->gpu, bytes, capture, queue->stream);
    pthread_mutex_unlock(&pieces_lock);
    return piece;
}

static enum status add_spare(const struct gpu *gpu, size_t bytes) {
    struct piece *piece = calloc(1, sizeof *piece);
    if (!piece)
        return status_fail(STATUS_NO_HOST_MEMORY, "cuda: no memory for a graph's description");
    piece->gpu = gpu;
    piece->bytes = bytes;
    pthread_mutex_lock(&pieces_lock);
    piece->next = pieces;
    pieces = piece;
    pthread_mutex_unlock(&pieces_lock);
    return STATUS_OK;
}

/* Clears on a separate stream: the queue's may wait for the caller's earlier work. */
static enum status clear(struct queue *queue, struct piece *piece) {
    CUstream stream;
    CUresult result = cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    if (result)
        return cuda_check(result, "cuStreamCreate");
    enum status status = STATUS_OK;
    if (!piece->address)
        status = cuda_alloc_on(queue->gpu, stream, piece->bytes, &piece->address);
    if (!status)
        status = cuda_check(cuda.cuMemsetD8Async(piece->address, 0, piece->bytes, stream),
                            "cuMemsetD8Async");
    if (!status)
        status = cuda_check(cuda.cuEventRecord(queue->mark, stream), "cuEventRecord");
    if (!status)
        status = cuda_wait_for(queue, queue->mark);
    cuda.cuStreamDestroy(stream);
    return status;
}

static enum status give_to_graph(struct queue *queue, struct piece *piece, CUgraph graph) {
    CUuserObject object;
    enum status status = clear(queue, piece);
    if (!status)
        status = cuda_check(cuda.cuUserObjectCreate(&object, piece, graph_gone, 1,
                                                    CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
                            "cuUserObjectCreate");
    if (status) {
        graph_gone(piece);
        return status;
    }
    status = cuda_check(cuda.cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE),
                        "cuGraphRetainUserObject");
    if (status)
        cuda.cuUserObjectRelease(object, 1); /* which frees the buffer for reuse */
    return status;
}

enum status cuda_graph_memory(struct device *device, size_t bytes, device_address *address) {
    struct queue *queue = queue_of(device);
    CUstreamCaptureStatus capturing;
    cuuint64_t capture = 0;
    CUgraph graph = NULL;
    *address = 0;
    enum status status = cuda_enter(queue->gpu);
    if (status)
        return status;
    status = cuda_check(
        cuda.cuStreamGetCaptureInfo(queue->stream, &capturing, &capture, &graph, NULL, NULL, NULL),
        "cuStreamGetCaptureInfo");
    if (!status && !graph)
        status = status_fail(STATUS_DEVICE_ERROR,
                             "cuda:%d: the capture of the current stream into a graph has failed "
                             "before this call",
                             queue->gpu->ordinal);
    if (status)
        return cuda_leave(queue->gpu, status);
    bool fresh;
    struct piece *piece = NULL;
    while (!status && !(piece = find_piece(queue, bytes, capture, &fresh)))
        status = add_spare(queue->gpu, bytes); /* another thread may take it */
    if (!status && fresh)
        status = give_to_graph(queue, piece, graph);
    if (!status)
        *address = piece->address;
    return cuda_leave(queue->gpu, status);
}

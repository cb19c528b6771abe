/* cuda_ring.c: copies large arrays to and from a GPU through a ring of pinned buffers: several
 * threads fill or empty buffers while others are in flight.
 *
 * Chunks pass in order. Only the calling thread calls the driver. To the GPU it lets the threads
 * fill a chunk whose buffer is free, and sends the filled ones; from the GPU it lets them empty a
 * chunk that has arrived, and requests the next one into its buffer. The threads live for one copy,
 * so none exists at a fork or at the end of the process. A GPU has a ring for each direction,
 * used by one copy at a time.
 */
#include "cuda_queue.h"

#include "../../host/host_stream.h"
#include "../../host/host_threads.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

/* Threads that fill or empty buffers: 8 fill the link of an H100 (50 of 55 GB/s). More empty them,
 * since they also wait for the pages of fresh memory. Other threads that map those pages meanwhile
 * halve the rate (stencils of 4 GiB: 21 of 37 GB/s). */
enum { THREADS_IN = 8, THREADS_OUT = 12, THREADS_MOST = THREADS_OUT };

struct ring_copy {
    struct ring *ring;
    const char *from; /* NULL: from the GPU */
    char *to;
    size_t bytes, parts;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t allowed, taken; /* chunks that the threads may copy, and that one has started */
    bool stop;
    atomic_size_t copied[RING_PARTS]; /* per buffer: one more than the last chunk copied */
    pthread_t threads[THREADS_MOST];
    int thread_count;
};

static size_t part_bytes(const struct ring_copy *copy, size_t part) {
    const size_t left = copy->bytes - part * RING_PART_BYTES;
    return left < RING_PART_BYTES ? left : RING_PART_BYTES;
}

static void *copy_parts(void *state) {
    struct ring_copy *copy = state;
    for (;;) {
        pthread_mutex_lock(&copy->lock);
        while (!copy->stop && copy->taken == copy->allowed && copy->taken < copy->parts)
            pthread_cond_wait(&copy->changed, &copy->lock);
        const bool through = copy->stop || copy->taken == copy->parts;
        const size_t part = copy->taken;
        copy->taken += !through;
        pthread_mutex_unlock(&copy->lock);
        if (through)
            return NULL;
        void *buffer = copy->ring->parts[part % RING_PARTS].host;
        if (copy->from)
            memcpy(buffer, copy->from + part * RING_PART_BYTES, part_bytes(copy, part));
        else { /* past the caches, which hold the buffers */
            host_stream(copy->to + part * RING_PART_BYTES, buffer, part_bytes(copy, part));
            host_stream_end();
        }
        atomic_store(&copy->copied[part % RING_PARTS], part + 1);
    }
}

/* --- threads */

static int threads_wanted(const struct ring_copy *copy) {
    const int allowed = host_threads(), most = copy->from ? THREADS_IN : THREADS_OUT;
    const int count = allowed < most ? allowed : most;
    return copy->parts < (size_t)count ? (int)copy->parts : count;
}

static void start_threads(struct ring_copy *copy) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the caller's thread handles signals */
    const int wanted = threads_wanted(copy);
    while (copy->thread_count < wanted &&
           !pthread_create(&copy->threads[copy->thread_count], NULL, copy_parts, copy))
        copy->thread_count++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void allow(struct ring_copy *copy, size_t allowed, bool stop) {
    pthread_mutex_lock(&copy->lock);
    copy->allowed = allowed;
    copy->stop = stop;
    pthread_cond_broadcast(&copy->changed);
    pthread_mutex_unlock(&copy->lock);
}

static void end_threads(struct ring_copy *copy) {
    allow(copy, copy->allowed, true);
    for (int i = 0; i < copy->thread_count; i++)
        pthread_join(copy->threads[i], NULL);
}

/* --- the calling thread */

static bool is_copied(struct ring_copy *copy, size_t part) {
    return atomic_load(&copy->copied[part % RING_PARTS]) == part + 1;
}

/* Whether a buffer is allocated, and no copy from or to it is in flight. */
static enum status is_free(const struct gpu *gpu, struct staging *part, bool *is) {
    enum status status = STATUS_OK;
    *is = false;
    if (!part->done)
        status =
            cuda_check(cuda.cuEventCreate(&part->done, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    if (!status && !part->host)
        status = cuda_pin_host(gpu, RING_PART_BYTES, &part->host);
    if (!status && part->busy) {
        const CUresult result = cuda.cuEventQuery(part->done);
        if (result == CUDA_ERROR_NOT_READY)
            return STATUS_OK;
        status = cuda_check(result, "cuEventQuery");
    }
    if (!status) {
        part->busy = false;
        *is = true;
    }
    return status;
}

static enum status send_part(struct queue *queue, struct staging *part, device_address to,
                             size_t bytes) {
    enum status status = cuda_check(cuda.cuMemcpyHtoDAsync(to, part->host, bytes, queue->stream),
                                    "cuMemcpyHtoDAsync");
    return status ? status : cuda_staging_mark(queue, part);
}

static enum status send_all(struct queue *queue, struct ring_copy *copy, device_address to) {
    const struct timespec pause = {.tv_nsec = 10000};
    size_t sent = 0, allowed = 0;
    enum status status = STATUS_OK;
    while (sent < copy->parts && !status) {
        const size_t before = allowed + sent;
        bool free_again = true;
        while (allowed < copy->parts && allowed < sent + RING_PARTS && free_again && !status) {
            status = is_free(queue->gpu, &copy->ring->parts[allowed % RING_PARTS], &free_again);
            if (!status && free_again)
                allow(copy, ++allowed, false);
        }
        while (sent < allowed && !status && is_copied(copy, sent)) {
            status = send_part(queue, &copy->ring->parts[sent % RING_PARTS],
                               to + sent * RING_PART_BYTES, part_bytes(copy, sent));
            sent++;
        }
        if (!status)
            status = device_poll(&queue->device);
        if (allowed + sent == before)
            nanosleep(&pause, NULL);
    }
    return status;
}

static enum status request_part(struct queue *queue, struct staging *part, device_address from,
                                size_t bytes) {
    enum status status = cuda_check(cuda.cuMemcpyDtoHAsync(part->host, from, bytes, queue->stream),
                                    "cuMemcpyDtoHAsync");
    return status ? status : cuda_staging_mark(queue, part);
}

static enum status receive_all(struct queue *queue, struct ring_copy *copy, device_address from) {
    const struct timespec pause = {.tv_nsec = 10000};
    size_t requested = 0, arrived = 0, emptied = 0;
    enum status status = STATUS_OK;
    while (emptied < copy->parts && !status) {
        const size_t before = requested + arrived + emptied;
        bool ready = true;
        while (requested < copy->parts && requested < emptied + RING_PARTS && ready && !status) {
            struct staging *part = &copy->ring->parts[requested % RING_PARTS];
            status = is_free(queue->gpu, part, &ready);
            if (!status && ready) {
                status = request_part(queue, part, from + requested * RING_PART_BYTES,
                                      part_bytes(copy, requested));
                requested++;
            }
        }
        for (ready = true; arrived < requested && ready && !status;) {
            status = is_free(queue->gpu, &copy->ring->parts[arrived % RING_PARTS], &ready);
            if (!status && ready)
                allow(copy, ++arrived, false);
        }
        while (emptied < arrived && is_copied(copy, emptied))
            emptied++;
        if (!status)
            status = device_poll(&queue->device);
        if (requested + arrived + emptied == before)
            nanosleep(&pause, NULL);
    }
    return status;
}

/* Waits for the copy that uses a ring. */
static enum status take(struct queue *queue, struct ring *ring) {
    enum { LOOK_EVERY_NS = 20 * 1000 * 1000 };
    enum status status = STATUS_OK;
    for (;;) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += LOOK_EVERY_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (!pthread_mutex_timedlock(&ring->lock, &until))
            return STATUS_OK;
        if ((status = device_poll(&queue->device)))
            return status;
    }
}

/* Returns false if there are no threads. */
static bool run(struct queue *queue, struct ring_copy *copy, device_address there,
                enum status *status) {
    struct ring *ring = &queue->gpu->rings[!copy->from];
    copy->ring = ring;
    copy->parts = (copy->bytes - 1) / RING_PART_BYTES + 1;
    if ((*status = take(queue, ring)))
        return true;
    pthread_mutex_init(&copy->lock, NULL);
    pthread_cond_init(&copy->changed, NULL);
    start_threads(copy);
    const bool can = copy->thread_count > 1;
    if (can)
        *status = copy->from ? send_all(queue, copy, there) : receive_all(queue, copy, there);
    end_threads(copy);
    pthread_cond_destroy(&copy->changed);
    pthread_mutex_destroy(&copy->lock);
    pthread_mutex_unlock(&ring->lock);
    return can;
}

bool cuda_ring_copy_in(struct queue *queue, device_address to, const void *from, size_t bytes,
                       enum status *status) {
    struct ring_copy copy = {.from = from, .bytes = bytes};
    return run(queue, &copy, to, status);
}

bool cuda_ring_copy_out(struct queue *queue, void *to, device_address from, size_t bytes,
                        enum status *status) {
    struct ring_copy copy = {.to = to, .bytes = bytes};
    return run(queue, &copy, from, status);
}

/* --- memory that is pinned already */

static bool is_pinned_at(const void *address) {
    unsigned type = 0;
    return !cuda.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                       (CUdeviceptr)(uintptr_t)address) &&
           type == CU_MEMORYTYPE_HOST;
}

bool cuda_is_pinned(const void *address, size_t bytes) {
    return is_pinned_at(address) && is_pinned_at((const char *)address + bytes - 1);
}

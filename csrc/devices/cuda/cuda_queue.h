/* cuda_queue.h: what the files of the CUDA device share.
 *
 * One `struct gpu` a GPU, shared by all its queues: the primary context (so that pointers of CuPy
 * and PyTorch mean the same here), a memory pool, the loaded image, the ring through which large
 * arrays travel. One `struct queue` an open device: a stream, events, pinned buffers. Each entry
 * makes the context current and restores the caller's when it leaves.
 */
#ifndef GPUOPT_CUDA_QUEUE_H
#define GPUOPT_CUDA_QUEUE_H

#include "cuda_device.h"
#include "cuda_driver.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum {
    STAGING_BUFFERS = 2,
    STAGING_BYTES =
        4 << 20, /* a pinned buffer: long enough to hide a copy's start, small to hold */
    RING_PARTS = 16,
    RING_PART_BYTES = 4 << 20,
    RING_LEAST = 16 << 20, /* below, threads cost more than they gain */
};

struct staging {
    void *host; /* pinned; NULL until first used */
    CUevent done;
    bool busy; /* a copy from it may be under way: wait for `done` */
};

/* Through it goes every array that is large enough, one at a time. 64 MiB of pinned memory, made as
 * it is first used and kept: to pin it takes as long as to copy it several times. */
struct ring {
    pthread_mutex_t lock;
    struct staging parts[RING_PARTS];
};

struct gpu {
    int ordinal;
    bool ready;
    int compute_capability; /* 90 for 9.0 */
    CUdevice device;
    CUcontext context;
    CUmemoryPool pool;
    CUmodule modules[DEVICE_IMAGES_MAX]; /* machine code of the embedded images, once used */
    bool lacks_code[DEVICE_IMAGES_MAX];  /* no machine code of the image is for this GPU */
    struct device_kernel *kernels;       /* the embedded ones, by their number */
    pthread_mutex_t lock;                /* of ready, modules, kernels and users' modules */
    struct ring ring;
    atomic_bool lost;
    char fault[512]; /* what lost it; written once, before `lost` */
};

struct device_kernel {
    CUfunction function; /* NULL: not loaded */
    bool overlaps;       /* its code waits by itself for the kernel before it (griddepcontrol) */
    struct device_kernel *next; /* of a user's module */
};

/* A user's module, and those of its kernels that were asked for. */
struct device_module {
    CUmodule module;
    struct device_kernel *kernels;
};

/* An open texture: the object, and its array unless it is of linear memory. */
struct texture {
    struct texture *next;
    CUtexObject object;
    CUarray array;
};

struct queue {
    struct device device;
    struct gpu *gpu;
    CUstream stream; /* what it works on: its own, or a caller's */
    CUstream own;
    CUevent begin, end, mark; /* mark: how far it has come, for whoever follows */
    struct staging staging[STAGING_BUFFERS];
    struct texture *textures;
    CUstreamCaptureMode mode; /* of the thread, before it took a captured stream */
};

static inline struct queue *queue_of(struct device *device) { return (struct queue *)device; }

/* --- cuda_context.c */

/* The GPU's context is current between these two. cuda_leave passes the entry's status on, after
 * noting a fault that is for ever. */
enum status cuda_enter(struct gpu *gpu);
enum status cuda_leave(struct gpu *gpu, enum status status);

/* These run between them. Waits for the stream, or for an event of it (NULL: the stream). */
enum status cuda_wait(struct queue *queue, CUevent event);
/* The same for an event of another stream, which the queue's being captured does not matter to. */
enum status cuda_wait_for(struct queue *queue, CUevent event);
/* Until it is undone the thread may do what would spoil somebody's graph if it came
 * from elsewhere: open a queue, load kernels. */
CUstreamCaptureMode cuda_relax(void);
void cuda_undo_relax(CUstreamCaptureMode mode);
/* Fails where the stream is being captured, for what cannot be part of a graph. */
enum status cuda_check_uncaptured(const struct queue *queue);
enum status cuda_check_stream_uncaptured(CUstream stream);

/* Pinned memory of the host, which all contexts may copy from; NULL if there is none. */
enum status cuda_pin_host(const struct gpu *gpu, size_t bytes, void **memory);

/* --- cuda_launch.c */

/* Why a launch that is no sticky fault failed. */
enum status cuda_refused(const struct gpu *gpu, const struct device_launch *launch, CUresult result,
                         const char *call);
enum { CUDA_SHARED_FREE = 48 << 10 }; /* bytes of dynamic shared memory that need no asking */
CUresult cuda_allow_shared(const struct gpu *gpu, const struct device_launch *launch);

/* --- cuda_memory.c, cuda_ring.c, cuda_texture.c, cuda_capture.c */

/* Memory of the GPU's pool, in a stream's order. */
enum status cuda_alloc_on(struct gpu *gpu, CUstream stream, size_t bytes, CUdeviceptr *pointer);
/* A failed call that may have asked for more device memory than there is. */
enum status cuda_check_memory(struct gpu *gpu, CUresult result, size_t bytes, const char *call);
/* Copies through the ring; false, with nothing done, where another copy has it or there are no
 * threads for it. */
bool cuda_ring_copy_in(struct queue *queue, device_address to, const void *from, size_t bytes,
                       enum status *status);
/* A copy from or to the buffer was enqueued: it is busy until that has ended. If no event can tell,
 * waits for the stream, so that the buffer counts as free only when it is. */
enum status cuda_staging_mark(struct queue *queue, struct staging *staging);
/* Gives a queue's pinned buffers back. */
void cuda_staging_close(struct queue *queue);
/* Ends one of the queue's textures, which nothing may be reading. */
void cuda_texture_end(struct texture **at);

/* The queue works on a stream that is being captured, in a thread that is relaxed; on its own. */
void cuda_begin_capture(struct queue *queue, CUstream stream);
void cuda_end_capture(struct queue *queue);

/* --- the entries of device.h that are not in cuda_device.c */

enum status cuda_alloc(struct device *device, size_t bytes, device_address *address);
void cuda_free(struct device *device, device_address address);
enum status cuda_copy_in(struct device *device, device_address to, const struct device_source *from,
                         size_t bytes);
enum status cuda_copy_out(struct device *device, void *to, device_address from, size_t bytes);
enum status cuda_fill(struct device *device, device_address to, uint8_t value, size_t bytes);
enum status cuda_pin(struct device *device, size_t bytes, void **memory);
void cuda_unpin(struct device *device, void *memory);
enum status cuda_copy(struct device *device, device_address to, device_address from, size_t bytes);
enum status cuda_launch(struct device *device, const struct device_launch *launch);
enum status cuda_graph_open(struct device *device, const struct device_launch *launches,
                            size_t count, struct device_graph **graph);
enum status cuda_graph_launch(struct device *device, struct device_graph *graph);
void cuda_graph_close(struct device *device, struct device_graph *graph);
enum status cuda_graph_memory(struct device *device, size_t bytes, device_address *address);
enum status cuda_texture_open(struct device *device, const struct device_texture *texture,
                              uint64_t *handle);
void cuda_texture_close(struct device *device, uint64_t handle);

#endif

/* cuda_queue.h: shared by the files of the CUDA device.
 *
 * One `struct gpu` for each GPU, shared by all its queues: the primary context (so that pointers of
 * CuPy and PyTorch are valid here), a memory pool, the loaded image, and the rings through
 * which large arrays are copied. One `struct queue` for each open device: a stream, events, pinned
 * buffers. Each entry makes the context current and restores the caller's when it leaves.
 */
#ifndef GPUOPT_CUDA_QUEUE_H
#define GPUOPT_CUDA_QUEUE_H

#include "../../device.h"
#include "cuda_driver.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum {
    STAGING_BUFFERS = 2,
    STAGING_BYTES = 4 << 20, /* a pinned buffer: long enough to hide a copy's start-up */
    RING_PARTS = 16,
    RING_PART_BYTES = 2 << 20,   /* all of them stay in the last-level cache */
    RING_LEAST = 16 << 20,       /* smaller arrays do not repay the threads */
    PINNED_PART_BYTES = 1 << 30, /* between two looks for Ctrl-C */
};

struct staging {
    void *host; /* pinned; NULL until first used */
    CUevent done;
    bool busy; /* a copy from it may be in flight: wait for `done` */
};

/* Large arrays are copied through it, one at a time in a direction. It holds 64 MiB of pinned
 * memory, allocated at first use and kept: pinning takes as long as several copies. */
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
    CUmodule *modules;             /* machine code of the embedded images, loaded at first use */
    bool refuses_code;             /* the driver cannot load the machine code: PTX serves */
    struct device_kernel *kernels; /* the embedded ones, by index */
    pthread_mutex_t lock;          /* guards ready, modules, kernels and users' modules */
    struct ring rings[2];          /* to the GPU, and from it: both directions at once */
    atomic_bool lost;
    char fault[512]; /* the cause of the loss; written once, before `lost` */
};

struct device_kernel {
    CUfunction function;        /* NULL: not loaded */
    bool overlaps;              /* the kernel itself waits for its predecessor (griddepcontrol) */
    struct device_kernel *next; /* in a user's module */
};

/* A user's module, and the kernels of it that were requested. */
struct device_module {
    CUmodule module;
    struct device_kernel *kernels;
};

/* An open texture: the objects, and their array unless it is linear memory. */
struct texture {
    struct texture *next;
    CUtexObject object;
    CUsurfObject surface;
    CUarray array; /* the first level */
    CUmipmappedArray levels;
    size_t row, rows, slices; /* of the first level: bytes, rows, slices or layers */
};

struct queue {
    struct device device;
    struct gpu *gpu;
    CUstream stream; /* in use: its own, or a caller's */
    CUstream own;
    CUevent begin, end;
    CUevent mark; /* progress of a queue, for those that wait for it */
    CUevent seen; /* progress at the last question whether the GPU lags */
    struct staging staging[STAGING_BUFFERS];
    struct texture *textures;
    CUstreamCaptureMode mode; /* of the thread, before it switched to a captured stream */
};

static inline struct queue *queue_of(struct device *device) { return (struct queue *)device; }

/* --- cuda_context.c */

/* The GPU's context is current between these two. cuda_leave returns the entry's status, and
 * records a permanent fault. */
enum status cuda_enter(struct gpu *gpu);
enum status cuda_leave(struct gpu *gpu, enum status status);

/* Valid between them. Waits for the stream, or for an event of it (NULL: the stream). */
enum status cuda_wait(struct queue *queue, CUevent event);
/* The same for an event of another stream: allowed while the queue is captured. */
enum status cuda_wait_for(struct queue *queue, CUevent event);
/* Relaxes the thread's capture mode until it is restored: actions that would otherwise invalidate a
 * capture elsewhere are then allowed, such as opening a queue or loading kernels. */
CUstreamCaptureMode cuda_relax(void);
void cuda_undo_relax(CUstreamCaptureMode mode);
/* Fails if the stream is being captured, for work that cannot be part of a graph. */
enum status cuda_check_uncaptured(const struct queue *queue);
enum status cuda_check_stream_uncaptured(CUstream stream);

/* Allocates pinned host memory that all contexts may copy from; NULL if there is none. */
enum status cuda_pin_host(const struct gpu *gpu, size_t bytes, void **memory);

/* --- cuda_launch.c */

/* Explains a failed launch that is no permanent fault. */
enum status cuda_refused(const struct gpu *gpu, const struct device_launch *launch, CUresult result,
                         const char *call);
enum { CUDA_SHARED_FREE = 48 << 10 }; /* bytes of dynamic shared memory without an attribute */
CUresult cuda_allow_shared(const struct gpu *gpu, const struct device_launch *launch);

/* --- cuda_memory.c, cuda_ring.c, cuda_texture.c, cuda_capture.c */

/* Allocates from the GPU's pool, in a stream's order. */
enum status cuda_alloc_on(struct gpu *gpu, CUstream stream, size_t bytes, CUdeviceptr *pointer);
/* After a call that ran out of device memory: returns the pool's unused memory to the GPU, so that
 * the call may be repeated. */
bool cuda_makes_room(struct gpu *gpu, CUstream stream, CUresult result);
/* Translates a failed call that may have run out of device memory. */
enum status cuda_check_memory(struct gpu *gpu, CUresult result, size_t bytes, const char *call);
/* Copies through the ring of a direction, after a copy that uses it; returns false, with nothing
 * done, if no threads are available. */
bool cuda_ring_copy_in(struct queue *queue, device_address to, const void *from, size_t bytes,
                       enum status *status);
bool cuda_ring_copy_out(struct queue *queue, void *to, device_address from, size_t bytes,
                        enum status *status);
/* Whether host memory is pinned, by CuPy or PyTorch for instance: the GPU then copies it itself. */
bool cuda_is_pinned(const void *address, size_t bytes);
/* Marks the buffer busy until the copy just enqueued from or to it has completed. If no event can
 * be recorded, waits for the stream. */
enum status cuda_staging_mark(struct queue *queue, struct staging *staging);
/* Frees a queue's pinned buffers. */
void cuda_staging_close(struct queue *queue);
/* Destroys one of the queue's textures, which no kernel may be reading. */
void cuda_texture_end(struct texture **at);

/* The queue works on a captured stream, in a relaxed thread; then on its own again. */
void cuda_begin_capture(struct queue *queue, CUstream stream);
void cuda_end_capture(struct queue *queue);

/* --- the entries of device.h outside cuda_device.c */

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
                              struct device_texture_handles *handles);
enum status cuda_texture_read(struct device *device, uint64_t handle, void *to, size_t bytes);
void cuda_texture_close(struct device *device, uint64_t handle);
bool cuda_lags(struct device *device);
enum status cuda_follow(struct device *device, struct device *other);
enum status cuda_adopt(struct device *device, uint64_t stream);
enum status cuda_check_stream(struct device *device, uint64_t stream, bool known);

#endif

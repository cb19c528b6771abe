/* device.h: THE contract. A device is anything that fills `struct device_ops`.
 *
 * A `struct device` is one in-order queue on one device: copies and launches run in the order in
 * which they were given, and only one thread may use it at a time. Open several to work in
 * parallel. Addresses are 64-bit integers on every device. No entry is NULL: what a device lacks is
 * the shared stub from device_stubs.c, and its capability bit is not set. Nothing here knows Python
 * or an operation.
 */
#ifndef GPUOPT_DEVICE_H
#define GPUOPT_DEVICE_H

#include "gpuopt.h"

typedef uint64_t device_address;

enum device_capability {
    DEVICE_KERNELS = 1,     /* runs the kernels of the images; without it, the host's C rungs */
    DEVICE_HOST_MEMORY = 2, /* its addresses are the host's pointers: arrays are used in place */
    DEVICE_TIMER = 4,       /* timer_begin and timer_end measure */
    DEVICE_COUNTERS = 8,    /* counters are counted */
    DEVICE_STREAMS = 16,    /* pinned memory, copies that do not wait, streams, graphs */
    DEVICE_TEXTURES = 32,   /* texture_open and texture_close */
    DEVICE_CAPTURED = 64, /* while it works on a stream that somebody makes a graph of: see adopt */
};

struct device_info {
    char name[32];         /* as a user writes it: "cuda:0" */
    char description[256]; /* as the maker calls it: "NVIDIA H200" */
    unsigned capabilities;
    uint64_t memory_total, memory_free; /* bytes */
    int multiprocessors;                /* cores, on the cpu */
    int threads_per_multiprocessor;
    int shared_per_block;   /* bytes of shared memory that a block may ask for */
    int compute_capability; /* 90 for 9.0; 0 where there is none */
    int clock_khz, memory_clock_khz, memory_bus_bits;
    uint64_t cache_bytes; /* the last level */
};

/* A zlib stream within the embedded archive, and how long its text is. */
struct image_chunk {
    uint32_t offset, packed, bytes;
};

/* The virtual architectures whose PTX is embedded. */
enum ptx_target {
    PTX_75, /* with line numbers: what the simulated GPU runs, and GPUs below 9.0 */
    PTX_90,
    PTX_TARGETS
};

/* The embedded kernels of one file: machine code for the architectures that were chosen, and what
 * the PTX of its kernels shares. */
struct device_image {
    const char *name;                            /* the file's, without its folder and .cu */
    const char *machine_code, *machine_code_end; /* a fat binary; NULL: none was built */
    struct image_chunk common[PTX_TARGETS];
};
enum { DEVICE_IMAGES_MAX = 32, DEVICE_WHICH = 32 /* a name behind its kind, with its NUL */ };
extern const struct device_image gpuopt_images[];
extern const size_t gpuopt_image_count;

struct image_kernel {
    const char *symbol;
    const struct device_image *image;
    struct image_chunk ptx[PTX_TARGETS];
};
extern const struct image_kernel gpuopt_kernels[]; /* sorted by symbol */
extern const size_t gpuopt_kernel_count;

/* Decompresses a zlib stream of a known length; the Python layer sets it. May take the GIL: nobody
 * calls it with a lock that a thread with the GIL waits for. */
extern enum status (*gpuopt_inflate)(const char *packed, size_t packed_bytes, char *to,
                                     size_t bytes);

/* The kernel of a symbol; fails where there is none. */
enum status gpuopt_kernel_of(const char *symbol, const struct image_kernel **kernel);
/* One kernel's PTX as a module of its own, NUL at its end; the caller frees it. */
enum status gpuopt_kernel_ptx(const struct image_kernel *kernel, enum ptx_target target,
                              char **text, size_t *bytes);
/* The files that the kernels were compiled from: each a form feed, its name, its lines. */
enum status gpuopt_sources(char **text, size_t *bytes);

struct device;        /* an open queue; each device's own struct begins with it */
struct device_module; /* somebody's PTX, loaded */
struct device_kernel; /* a kernel of a module */
struct device_graph;  /* launches that start as one, already where they run */

/* What a kernel takes of a multiprocessor. */
struct device_resources {
    unsigned registers;    /* 32-bit, of a thread; on a simulated GPU estimated from the PTX */
    unsigned local_bytes;  /* of a thread: arrays, and registers that were spilled */
    unsigned shared_bytes; /* of a block, static */
};

struct device_launch {
    const struct device_kernel *kernel;
    unsigned grid[3], block[3];
    unsigned shared_bytes; /* dynamic shared memory of a block */
    void **arguments;      /* pointers to the values, in the kernel's order */
    unsigned argument_count;
    bool overlaps; /* it waits for the kernel before it by itself */
    /* Of a simulated GPU: warp instructions, seconds of the host's time, and seconds without the
     * end of any warp, after which the launch is ended; 0: no bound, of steps the simulator's own.
     */
    uint64_t steps;
    double seconds, idle_seconds;
};

/* The last axis first; steps are items. */
enum { DEVICE_AXES = 8 };
struct device_axes {
    int count;
    uint64_t sizes[DEVICE_AXES];
    int64_t steps[DEVICE_AXES];
};

/* Items of host memory that have gaps. */
struct device_box {
    const void *first;
    struct device_axes axes; /* the smallest step first */
};

/* Items that the cpu reduces to one result before it joins that with others'. What comes in pieces
 * is cut there too, or its sum would be rounded otherwise. */
enum { DEVICE_SEGMENT = 1 << 22 };

/* Host bytes on their way to a device: memory, or whatever can be asked for the next bytes (an
 * array that is not contiguous is read this way, a piece at a time). */
struct device_source {
    const void *data; /* NULL: ask read() */
    enum status (*read)(void *state, void *to, size_t bytes);
    void *state;
    const struct device_box *box; /* instead of both, for a device that works in host memory */
};

/* What a texture object reads: linear memory by integer index, where it lies (0 outside of it), or
 * an array of 1 to 3 dimensions, a copy of rows that lie one after the other. */
/* TEXEL(name, bytes) */
/* clang-format off */
#define DEVICE_TEXELS(TEXEL)                                                                       \
    TEXEL(FLOAT32, 4) TEXEL(INT32, 4) TEXEL(UINT32, 4) TEXEL(UINT8_NORMALISED, 1)
/* clang-format on */
enum device_texel {
#define TEXEL(name, bytes) TEXEL_##name,
    DEVICE_TEXELS(TEXEL)
#undef TEXEL
        TEXEL_COUNT
};
struct device_texture {
    device_address data;
    unsigned dimensions;           /* 0: linear memory */
    unsigned width, height, depth; /* texels; 1 beyond the dimensions */
    unsigned channels;             /* 1, 2 or 4 */
    enum device_texel texel;
    bool linear_filter; /* between texels; else the nearest */
    bool wrap;          /* coordinates outside, which must be normalised; else they are clamped */
    bool normalised;    /* coordinates go from 0 to 1 */
};
size_t device_texture_bytes(const struct device_texture *texture);

/* A counter: its name, Nsight Compute's metric for it ("-" where there is none), what it counts. */
struct device_counter {
    const char *name, *metric, *meaning;
};

/* The values of a kind's counters for one source line. */
struct device_line {
    const char *file; /* NULL where the kernel has no line table */
    unsigned line, ptx_line;
    const uint64_t *values;
};

/* What to record instruction by instruction: one block (or one warp of it) of one launch. */
struct device_tracing {
    uint64_t launches_before; /* this many go by first; counted down */
    unsigned block[3];
    int warp;             /* -1: every warp of the block */
    uint64_t most_events; /* the rest is left out */
    bool done;            /* set by the device: the launch was there */
};

/* A field of a trace's events: its name, its type as NumPy writes it, and where it is. */
struct device_field {
    const char *name, *type;
    unsigned offset;
};
struct device_instruction {
    const char *text, *kind, *file; /* file is NULL where the kernel has no line table */
    unsigned line, ptx_line, function;
};
struct device_trace {
    unsigned block[3];
    const void *events; /* one instruction of one warp each */
    size_t event_count, event_bytes;
    const struct device_field *fields; /* of an event */
    size_t field_count;
    const struct device_instruction *instructions;
    size_t instruction_count;
    const char *const *spaces, *const *accesses; /* NULL ends each */
    bool truncated;
};

/* One launch as a device counted it. What it points to lives until the function that got it
 * returns. */
struct device_report {
    const char *kernel;
    unsigned grid[3], block[3], shared_bytes;
    unsigned warps_resident, warps_most; /* of a multiprocessor: theoretical occupancy */
    const char *limiter;                 /* of the occupancy */
    double achieved_occupancy;           /* from 0 to 1 */
    const char *output;                  /* what the kernel printed */
    const uint64_t *values;              /* in the order of the kind's counters */
    const struct device_line *lines;
    size_t line_count;
    const struct status_finding *findings;
    size_t finding_count;
    const struct device_trace *trace; /* NULL: none was asked for */
};
typedef void (*device_report_function)(void *state, const struct device_report *report);

/* A device of a kind is named "kind", "kind:0" or "kind:preset"; `which` is the part after the
 * colon ("" for the first). Everything but `count`, `open` and `info` acts on an open queue. */
struct device_ops {
    const char *kind;
    const struct device_counter *counter_table; /* what counters() gives; NULL: it has none */
    size_t counter_count;
    enum status (*count)(int *count); /* fails with the reason when the kind cannot serve at all */
    enum status (*open)(const char *which, struct device **opened);
    void (*close)(struct device *device);
    enum status (*info)(const char *which, struct device_info *info);
    enum status (*alloc)(struct device *device, size_t bytes, device_address *address);
    void (*free)(struct device *device, device_address address);
    enum status (*copy_in)(struct device *device, device_address to,
                           const struct device_source *from, size_t bytes);
    enum status (*copy_out)(struct device *device, void *to, device_address from, size_t bytes);
    enum status (*fill)(struct device *device, device_address to, uint8_t value, size_t bytes);
    /* Somebody's own PTX, with a NUL at its end. */
    enum status (*module_load)(struct device *device, const char *ptx, size_t bytes,
                               struct device_module **module);
    void (*module_unload)(struct device *device, struct device_module *module);
    /* Of a module; of the embedded images, which live as long as the device, for NULL. */
    enum status (*kernel_get)(struct device *device, struct device_module *module,
                              const char *symbol, struct device_kernel **kernel);
    /* The size of a kernel's parameter by its index; 0 past the last. */
    enum status (*parameter_bytes)(struct device *device, const struct device_kernel *kernel,
                                   unsigned index, size_t *bytes);
    enum status (*kernel_resources)(struct device *device, const struct device_kernel *kernel,
                                    struct device_resources *resources);
    enum status (*launch)(struct device *device, const struct device_launch *launch);
    enum status (*sync)(struct device *device);
    /* Host memory that a device reads and writes by itself: kernels at the same address too. */
    enum status (*pin)(struct device *device, size_t bytes, void **memory);
    void (*unpin)(struct device *device, void *memory); /* waits for what uses it */
    /* Between any two places in device or host memory, without waiting: the bytes must stay as they
     * are until the queue is through. Host memory that is not pinned is allowed, but may wait. */
    enum status (*copy)(struct device *device, device_address to, device_address from,
                        size_t bytes);
    /* What is given to `device` from now on waits for what `other` has been given so far. */
    enum status (*follow)(struct device *device, struct device *other);
    /* The number of the device whose memory an address is in, for memory of any library's; and
     * whether the calling thread works on that one, so that the default streams are its. */
    enum status (*owner)(device_address address, int *ordinal, bool *current); /* or NULL */
    /* From now on the queue works on a caller's stream (a CUstream, 1 and 2 for the default ones,
     * as in DLPack), in order with what it did before; on its own again for 0. The stream must
     * outlive that.
     * If somebody is making a graph of the stream, launches, memory and fills become part of it, in
     * no order with what the queue did before; what waits, or needs another queue or more of
     * the host's memory than an item, fails and does the graph no harm. What is allocated then is
     * the graph's each time that it runs, so nothing else of the queue's may be used in it. */
    enum status (*adopt)(struct device *device, uint64_t stream);
    /* Fails for a stream, as in adopt, that somebody makes a graph of; and, unless it is known to
     * be of this device, with BAD_VALUE for one of another. Not part of adopt, which is called for
     * arrays whose libraries know the device of their streams, several times in ten microseconds.
     */
    enum status (*check_stream)(struct device *device, uint64_t stream, bool known);
    enum status (*graph_open)(struct device *device, const struct device_launch *launches,
                              size_t count, struct device_graph **graph);
    enum status (*graph_launch)(struct device *device, struct device_graph *graph);
    void (*graph_close)(struct device *device, struct device_graph *graph);
    /* Of a queue on a captured stream: memory for what it launches there, zeros before the graph
     * runs, the same for all calls on this stream, and nobody else's as long as the graph lives. So
     * a graph that is instantiated twice must not run twice at a time. */
    enum status (*graph_memory)(struct device *device, size_t bytes, device_address *address);
    /* The handle is what a kernel takes. */
    enum status (*texture_open)(struct device *device, const struct device_texture *texture,
                                uint64_t *handle);
    void (*texture_close)(struct device *device, uint64_t handle); /* waits */
    enum status (*timer_begin)(struct device *device);
    enum status (*timer_end)(struct device *device, double *seconds); /* waits */
    /* Hands over the launches since the last call, oldest first, and forgets them. */
    enum status (*counters)(struct device *device, device_report_function each, void *state);
};

struct device {
    const struct device_ops *ops;
    unsigned capabilities;
    bool recording;                 /* keep what counters() shall give */
    bool collecting;                /* findings do not fail a launch: counters() gives them */
    struct device_tracing *tracing; /* NULL: nothing is traced; where launches are recorded */
    /* Asked at least every 100 ms while the host waits or works; true ends the call with
     * STATUS_INTERRUPTED. NULL: nobody asks. */
    bool (*interrupted)(void *state);
    void *interrupted_state;
};

/* Every kind of device, in the order in which a default is looked for. NULL ends the list. */
extern const struct device_ops *const device_kinds[];

/* The kind and the part after the colon of a device's name, or BAD_VALUE that lists the valid ones
 * and says where the name came from ("device", "GPUOPT_DEVICE"). */
enum status device_find(const char *argument, const char *name, const struct device_ops **ops,
                        const char **which);
/* The number after the colon, from 0 to count - 1. "" is 0. */
enum status device_ordinal(const char *kind, const char *which, int count, int *ordinal);
enum status device_poll(struct device *device);
/* On a stream that somebody makes a graph of; for what cannot be part of one. */
static inline bool device_is_captured(const struct device *device) {
    return device->capabilities & DEVICE_CAPTURED;
}
enum status device_refuse_captured(void);
enum { DEVICE_CAPTURED_BYTES = 16 }; /* of the host's memory, that may become part of a graph */
enum status device_read(const struct device_source *source, size_t offset, void *to, size_t bytes);

enum status device_no_module_load(struct device *device, const char *ptx, size_t bytes,
                                  struct device_module **module);
void device_no_module_unload(struct device *device, struct device_module *module);
enum status device_no_parameter_bytes(struct device *device, const struct device_kernel *kernel,
                                      unsigned index, size_t *bytes);
enum status device_no_kernel_resources(struct device *device, const struct device_kernel *kernel,
                                       struct device_resources *resources);
enum status device_no_pin(struct device *device, size_t bytes, void **memory);
void device_no_unpin(struct device *device, void *memory);
enum status device_no_copy(struct device *device, device_address to, device_address from,
                           size_t bytes);
enum status device_no_follow(struct device *device, struct device *other);
enum status device_no_owner(device_address address, int *ordinal, bool *current);
enum status device_no_adopt(struct device *device, uint64_t stream);
enum status device_no_check_stream(struct device *device, uint64_t stream, bool known);
enum status device_no_graph_open(struct device *device, const struct device_launch *launches,
                                 size_t count, struct device_graph **graph);
enum status device_no_graph_launch(struct device *device, struct device_graph *graph);
void device_no_graph_close(struct device *device, struct device_graph *graph);
enum status device_no_graph_memory(struct device *device, size_t bytes, device_address *address);
enum status device_no_texture_open(struct device *device, const struct device_texture *texture,
                                   uint64_t *handle);
void device_no_texture_close(struct device *device, uint64_t handle);
enum status device_no_timer_begin(struct device *device);
enum status device_no_timer_end(struct device *device, double *seconds);
enum status device_no_counters(struct device *device, device_report_function each, void *state);

#endif

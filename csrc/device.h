/* device.h: the contract of a device: any backend that fills `struct device_ops`.
 *
 * A `struct device` is one in-order queue on one device: copies and launches run in the order of
 * the calls, and only one thread may use it at a time. Open several to work in parallel. Addresses
 * are 64-bit integers on every device. No entry is NULL: for a missing feature it is the shared
 * stub from device_stubs.c, and the capability bit is clear. Nothing here knows Python or an
 * operation.
 */
#ifndef GPUOPT_DEVICE_H
#define GPUOPT_DEVICE_H

#include "gpuopt.h"

typedef uint64_t device_address;

enum device_capability {
    DEVICE_KERNELS = 1,     /* runs the kernels of the images; without it, the C rungs */
    DEVICE_HOST_MEMORY = 2, /* addresses are host pointers: arrays are used in place */
    DEVICE_TIMER = 4,       /* timer_begin and timer_end measure */
    DEVICE_COUNTERS = 8,    /* counts events of its launches */
    DEVICE_STREAMS = 16,    /* pinned memory, asynchronous copies, streams, graphs */
    DEVICE_TEXTURES = 32,   /* texture_open and texture_close */
    DEVICE_CAPTURED = 64,   /* set while its stream is being captured into a graph; see adopt */
};

struct device_info {
    char name[32]; /* as a user writes it: "cuda:0" */
    unsigned capabilities;
    int multiprocessors;                               /* cores on the cpu */
    int threads_per_multiprocessor, threads_per_block; /* most; 0 on the cpu */
    int shared_per_block;   /* bytes of shared memory available to a block */
    int compute_capability; /* 90 for 9.0; 0 where there is none */
    int clock_khz, memory_clock_khz, memory_bus_bits;
    uint64_t cache_bytes; /* of the last-level cache */
    uint64_t memory_rate; /* peak, in bytes per second; 0: unknown */
};

/* For display, read apart: it takes longer than a short call. */
struct device_about {
    char description[256];              /* the vendor's name: "NVIDIA H200" */
    uint64_t memory_total, memory_free; /* bytes */
    uint64_t memory_used;               /* by gpuopt in this process; 0: unknown */
};

/* A text or machine code within a block of the embedded archive. */
struct image_chunk {
    uint32_t block, offset, bytes;
};

/* The virtual architectures whose PTX is embedded. */
enum ptx_target {
    PTX_75, /* for GPUs below 9.0, simulated ones too */
    PTX_90, /* only of kernels whose source depends on the architecture */
    PTX_TARGETS
};

enum { IMAGE_CODES_MAX = 16, DEVICE_WHICH = 32 /* the name after the kind, with its NUL */ };

/* Embedded kernels of one file, which are one module in machine code: that of each architecture,
 * and the PTX that they share with the file's other kernels. */
struct device_image {
    const char *name; /* of the file, without folder and .cu */
    struct image_chunk common[PTX_TARGETS], code[IMAGE_CODES_MAX];
};
extern const struct device_image gpuopt_images[];
extern const size_t gpuopt_image_count;

struct image_kernel {
    const char *symbol;
    const struct device_image *image;
    struct image_chunk ptx[PTX_TARGETS];
};
extern const struct image_kernel gpuopt_kernels[]; /* sorted by symbol */
extern const size_t gpuopt_kernel_count;

/* Decompresses an xz stream of `whole` bytes and copies `bytes` of them from `offset`; the Python
 * layer sets it. It may take the GIL, so no caller holds a lock that a thread with the GIL waits
 * for. */
extern enum status (*gpuopt_inflate)(const char *packed, size_t packed_bytes, size_t whole,
                                     size_t offset, char *to, size_t bytes);
/* Returns the bytes of the compressed PTX and source text; stores those of the machine code. */
size_t gpuopt_archive_bytes(size_t *machine_code);

/* Finds the kernel of a symbol. */
enum status gpuopt_kernel_of(const char *symbol, const struct image_kernel **kernel);
/* Returns the target whose PTX a GPU of a compute capability compiles (90: 9.0), or runs if it is
 * simulated. */
enum ptx_target gpuopt_ptx_target(const struct image_kernel *kernel, int compute_capability);
/* Returns one kernel's PTX as a module of its own, with a NUL at its end; the caller frees it. */
enum status gpuopt_kernel_ptx(const struct image_kernel *kernel, enum ptx_target target,
                              char **text, size_t *bytes);
/* Returns the machine code of a kernel's image for a compute capability, NULL if there is none; the
 * caller frees it. */
enum status gpuopt_kernel_code(const struct image_kernel *kernel, int compute_capability,
                               char **code, size_t *bytes);
/* Returns the source files of the kernels: for each a form feed, its name, its lines. */
enum status gpuopt_sources(char **text, size_t *bytes);

struct device;        /* an open queue; each device's own struct begins with it */
struct device_module; /* a loaded text of PTX */
struct device_kernel; /* a kernel of a module */
struct device_graph;  /* launches that start as one, uploaded to the device */

/* Resources that a kernel uses. */
struct device_resources {
    unsigned registers;    /* 32-bit, per thread; on a simulated GPU estimated from the PTX */
    unsigned local_bytes;  /* per thread: arrays, and spilled registers */
    unsigned shared_bytes; /* static, per block */
};

/* An array in the memory of an argument, as the host describes it. */
struct device_array {
    unsigned argument, item; /* its index; bytes of an element */
    size_t bytes;
    const char *label;           /* dtype and shape, for messages */
    const unsigned char *fields; /* a byte for each of an element: 0 is padding; NULL: no padding */
    int is_copy;                 /* made for this launch */
};
enum { DEVICE_ARRAYS_MOST = 64 };

enum {                         /* flags of a launch; all but the first concern a simulated GPU */
       DEVICE_COOPERATIVE = 1, /* all blocks are resident together */
       DEVICE_BY_VALUE = 2,    /* a store of the value already stored is no race */
       DEVICE_PREFER_L1 = 4    /* of 64 KB, 16 for shared memory: Fermi and Kepler */
};

struct device_launch {
    const struct device_kernel *kernel;
    unsigned grid[3], block[3];
    unsigned shared_bytes; /* dynamic, per block */
    void **arguments;      /* pointers to the values, in the kernel's order */
    unsigned argument_count;
    bool overlaps; /* the kernel itself waits for its predecessor */
    bool any_grid; /* a simulated GPU of any age runs it in a current GPU's largest grid */
    /* On a simulated GPU, end the launch after this many warp instructions, seconds of host time,
     * or seconds in which no warp ended. 0: no limit; of steps the simulator's own. */
    uint64_t steps;
    double seconds, idle_seconds;
    bool unchecked; /* a simulated GPU searches for no race and no uninitialized value */
    unsigned flags;
    char **output; /* receives the text that the kernel prints, from malloc; NULL: not wanted */
    const struct device_array *arrays; /* for findings */
    unsigned array_count;
    /* On a simulated GPU, the order of warps: see struct sim_delay in sim.h. */
    uint64_t seed;
    const uint64_t (*delays)[3];
    size_t delay_count;
};

/* The last axis first; steps count elements. */
enum { DEVICE_AXES = 8 };
struct device_axes {
    int count;
    uint64_t sizes[DEVICE_AXES];
    int64_t steps[DEVICE_AXES];
};

/* Strided elements of host memory. */
struct device_box {
    const void *first;
    struct device_axes axes; /* the smallest step first */
};

/* Elements of a subtree in the cpu's reductions. Streamed arrays are cut at multiples: other cuts
 * would round sums differently, and larger pieces would leave a core's cache. */
enum { DEVICE_SUBTREE = 1 << 16 };

/* Host bytes to copy to a device: memory, or a reader that returns the next bytes (arrays that are
 * not contiguous are read in chunks). */
struct device_source {
    const void *data; /* NULL: call read() */
    enum status (*read)(void *state, void *to, size_t bytes);
    void *state;
    const struct device_box *box; /* replaces both on a device that works in host memory */
};

/* Storage behind a texture object: linear memory in place, read by integer index (0 outside), or an
 * array of 1 to 3 dimensions with layers, faces of cubes and levels, copied from contiguous rows:
 * level after level, in each level layer after layer. */
/* TEXEL(name, bytes) */
/* clang-format off */
#define DEVICE_TEXELS(TEXEL)                                                                       \
    TEXEL(FLOAT32, 4) TEXEL(INT32, 4) TEXEL(UINT32, 4) TEXEL(UINT8, 1)                             \
    TEXEL(INT8, 1) TEXEL(UINT16, 2) TEXEL(INT16, 2) TEXEL(FLOAT16, 2)
/* clang-format on */
enum device_texel {
#define TEXEL(name, bytes) TEXEL_##name,
    DEVICE_TEXELS(TEXEL)
#undef TEXEL
        TEXEL_COUNT
};
/* Coordinates outside; wrapping and mirroring need normalized ones. CUDA's numbers. */
enum device_outside { OUTSIDE_WRAP, OUTSIDE_CLAMP, OUTSIDE_MIRROR, OUTSIDE_BORDER, OUTSIDE_COUNT };
struct device_texture {
    device_address data;
    unsigned dimensions;           /* 0: linear memory */
    unsigned width, height, depth; /* texels; 1 beyond the dimensions */
    unsigned layers;               /* six to a cube; 1 without layers and cubes */
    unsigned levels;               /* each has half the extents of the one before */
    unsigned channels;             /* 1, 2 or 4 */
    enum device_texel texel;
    enum device_outside outside;
    float border[4];  /* OUTSIDE_BORDER */
    float level_bias; /* of fetches with a level or gradients */
    bool layered, cube;
    bool linear_filter, linear_levels; /* between texels, levels; else the nearest */
    bool normalised;                   /* coordinates range from 0 to 1 */
    bool as_integer;                   /* 8 and 16 bits; else fractions: 0 to 1, or -1 to 1 */
    bool writable;                     /* also a surface, of its first level */
};
struct device_texture_handles {
    uint64_t texture, surface; /* 0: no surface */
};
/* Bytes of one level, of all levels. */
size_t device_level_bytes(const struct device_texture *texture, unsigned level);
size_t device_texture_bytes(const struct device_texture *texture);

/* A counter: its name, Nsight Compute's metric ("-": none), its meaning. */
struct device_counter {
    const char *name, *metric, *meaning;
};

/* The values of a kind's counters for one source line, or for one statement. */
struct device_line {
    const char *file; /* NULL where the kernel has no line table */
    unsigned line, ptx_line;
    const char *text; /* the statement; NULL for a line */
    const uint64_t *values;
};

/* Selects the instructions to record: one block (or one warp of it) of one launch, or the middle
 * block of every launch. */
struct device_tracing {
    bool middle;              /* of every launch; `launches_before` and `block` are not used */
    uint64_t launches_before; /* number to skip; counted down */
    unsigned block[3];
    int warp;             /* -1: every warp of the block */
    uint64_t most_events; /* later events are dropped */
    bool caches;          /* count hits of L1 and L2, in every launch */
    bool done;            /* set by the device once it has recorded the launch */
};

/* A field of a trace's events: its name, NumPy's name of its type, its offset. */
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
    const void *events; /* each is one instruction of one warp */
    size_t event_count, event_bytes;
    const struct device_field *fields; /* of one event */
    size_t field_count;
    const struct device_instruction *instructions;
    size_t instruction_count;
    const char *const *spaces, *const *accesses; /* NULL ends each */
    bool truncated;
};

/* How a launch's work is spread; see sim_spread in sim.h. */
struct device_spread {
    uint64_t steps, longest_steps, longest_block, long_blocks;
    double balance;
    uint64_t lone_sectors;
    const uint64_t *durations;
    size_t duration_count;
};

/* A warp that an order has delayed, before the access that it counts from 0. */
struct device_delay {
    uint64_t block, access;
    unsigned warp, line, ptx_line;
    const char *file;
};

/* One launch as a device counted it. Its pointers are valid until the receiving function returns.
 */
struct device_report {
    const char *kernel;
    unsigned grid[3], block[3], shared_bytes;
    unsigned registers, static_shared_bytes; /* a thread's, estimated; a block's */
    unsigned warps_resident, warps_most;     /* per multiprocessor: theoretical occupancy */
    const char *limiter;                     /* what limits the occupancy */
    double achieved_occupancy;               /* from 0 to 1 */
    struct device_spread spread;
    const char *output;     /* text that the kernel printed */
    const uint64_t *values; /* in the order of the kind's counter table */
    const struct device_line *lines;
    size_t line_count;
    const struct device_line *statements; /* those that were executed, in the code's order */
    size_t statement_count;
    const struct status_finding *findings;
    size_t finding_count;
    const struct device_trace *trace; /* NULL: not requested */
    const struct device_delay *delays;
    size_t delay_count;
};
typedef void (*device_report_function)(void *state, const struct device_report *report);

/* How far a launch is; all 0 if none runs. */
struct device_progress {
    uint64_t ended, blocks;   /* blocks that have ended, and all */
    uint64_t steps, expected; /* warp instructions so far; of the same launch before, 0: unknown */
};

/* Receives each kernel of a PTX text that has a body: first with no type, then once for each
 * parameter with its type, as "u64", and size. A result other than 0 ends the reading. */
typedef int device_entry_function(void *state, const char *kernel, const char *type, size_t bytes);

/* A device of a kind is named "kind", "kind:0" or "kind:preset"; `which` is the part after the
 * colon ("" for the first). All entries but `count`, `open`, `info` and `about` require an open
 * queue. */
struct device_ops {
    const char *kind;
    const struct device_counter *counter_table; /* of counters(); NULL: none */
    size_t counter_count;
    enum status (*count)(
        int *count); /* fails with the reason if no device of this kind can be used */
    enum status (*open)(const char *which, struct device **opened);
    void (*close)(struct device *device);
    enum status (*info)(const char *which, struct device_info *info);
    enum status (*about)(const char *which, struct device_about *about);
    enum status (*alloc)(struct device *device, size_t bytes, device_address *address);
    void (*free)(struct device *device, device_address address);
    enum status (*copy_in)(struct device *device, device_address to,
                           const struct device_source *from, size_t bytes);
    enum status (*copy_out)(struct device *device, void *to, device_address from, size_t bytes);
    enum status (*fill)(struct device *device, device_address to, uint8_t value, size_t bytes);
    /* Loads a text of PTX with a NUL at its end. */
    enum status (*module_load)(struct device *device, const char *ptx, size_t bytes,
                               struct device_module **module);
    void (*module_unload)(struct device *device, struct device_module *module);
    /* Finds a kernel of a module; for NULL, of the embedded images, which live as long as the
     * device. */
    enum status (*kernel_get)(struct device *device, struct device_module *module,
                              const char *symbol, struct device_kernel **kernel);
    /* A variable of a module; BAD_VALUE: it has none of that name. */
    enum status (*module_variable)(struct device *device, struct device_module *module,
                                   const char *name, device_address *address, size_t *bytes);
    /* The size of a kernel's parameter by its index; 0 past the last. */
    enum status (*parameter_bytes)(struct device *device, const struct device_kernel *kernel,
                                   unsigned index, size_t *bytes);
    enum status (*kernel_resources)(struct device *device, const struct device_kernel *kernel,
                                    struct device_resources *resources);
    enum status (*launch)(struct device *device, const struct device_launch *launch);
    enum status (*sync)(struct device *device);
    /* Whether work that was queued before the last call of this is incomplete. */
    bool (*lags)(struct device *device);
    /* Host memory that the device accesses directly, at the same address in kernels. */
    enum status (*pin)(struct device *device, size_t bytes, void **memory);
    void (*unpin)(struct device *device, void *memory); /* waits until no work uses it */
    /* Copies between any two addresses in device or host memory without waiting: the bytes must
     * stay unchanged until the queue has reached the copy. Unpinned host memory is allowed, but may
     * wait. */
    enum status (*copy)(struct device *device, device_address to, device_address from,
                        size_t bytes);
    /* Later work of `device` waits for all work that `other` has so far; NULL: that any stream of
     * the GPU has, also other libraries'. */
    enum status (*follow)(struct device *device, struct device *other);
    /* The ordinal of the device that owns an address, for memory of any library; and whether that
     * device is current in the calling thread, so that the default streams are its own. */
    enum status (*owner)(device_address address, int *ordinal, bool *current); /* or NULL */
    /* The queue continues on a caller's stream (a CUstream; 1 and 2 are the default ones, as in
     * DLPack), in order with its earlier work; 0 returns to its own. The stream must outlive its
     * use.
     *
     * If the stream is being captured into a graph, launches, memory and fills become nodes of the
     * graph, with no order against the queue's earlier work. Waits, other queues, and host memory
     * beyond one element fail without harming the graph. Memory allocated then belongs to each run
     * of the graph, so nodes may use no other memory of the queue.
     */
    enum status (*adopt)(struct device *device, uint64_t stream);
    /* Fails for a stream, as in adopt, that is being captured; and with BAD_VALUE for one of
     * another device, unless `known` says that it belongs here. Separate from adopt, which is
     * called several times in ten microseconds for arrays whose libraries know the device of their
     * streams.
     */
    enum status (*check_stream)(struct device *device, uint64_t stream, bool known);
    enum status (*graph_open)(struct device *device, const struct device_launch *launches,
                              size_t count, struct device_graph **graph);
    enum status (*graph_launch)(struct device *device, struct device_graph *graph);
    void (*graph_close)(struct device *device, struct device_graph *graph);
    /* For a queue on a captured stream: memory for its nodes, zeroed before the graph runs, shared
     * by all calls on this stream, exclusive for the graph's lifetime. A graph that is instantiated
     * twice must therefore not run twice at a time. */
    enum status (*graph_memory)(struct device *device, size_t bytes, device_address *address);
    /* Kernels receive the handles. */
    enum status (*texture_open)(struct device *device, const struct device_texture *texture,
                                struct device_texture_handles *made);
    /* Copies the first level of an array to the host; waits. */
    enum status (*texture_read)(struct device *device, uint64_t texture, void *to, size_t bytes);
    void (*texture_close)(struct device *device, uint64_t texture); /* waits */
    enum status (*timer_begin)(struct device *device);
    enum status (*timer_end)(struct device *device, double *seconds); /* waits */
    /* Reports the launches since the last call, oldest first, and discards them. */
    enum status (*counters)(struct device *device, device_report_function each, void *state);
};

struct device {
    const struct device_ops *ops;
    unsigned capabilities;
    bool recording;                 /* keep reports for counters() */
    bool collecting;                /* findings do not fail a launch; counters() reports them */
    struct device_tracing *tracing; /* NULL: no tracing; set where launches are recorded */
    /* Called at least every 100 ms while the host waits or works; true ends the call with
     * STATUS_INTERRUPTED. NULL: never interrupted. */
    bool (*interrupted)(void *state);
    void *interrupted_state;
};

/* All kinds of devices, in the order of preference for a default. NULL ends the list. */
extern const struct device_ops *const device_kinds[];

/* Splits a device's name into the kind and the part after the colon. Fails with BAD_VALUE, which
 * lists the valid names and names the argument ("device", "GPUOPT_DEVICE"). */
enum status device_find(const char *argument, const char *name, const struct device_ops **ops,
                        const char **which);
/* The ordinal after the colon, from 0 to count - 1; "" is 0. */
enum status device_ordinal(const char *kind, const char *which, int count, int *ordinal);
enum status device_poll(struct device *device);
/* Whether its stream is being captured; such a queue cannot wait or use unpinned host memory. */
static inline bool device_is_captured(const struct device *device) {
    return device->capabilities & DEVICE_CAPTURED;
}
enum status device_refuse_captured(void);
enum { DEVICE_CAPTURED_BYTES = 16 }; /* of host memory that may become part of a graph */
enum status device_read(const struct device_source *source, size_t offset, void *to, size_t bytes);

enum status device_no_module_load(struct device *device, const char *ptx, size_t bytes,
                                  struct device_module **module);
void device_no_module_unload(struct device *device, struct device_module *module);
enum status device_no_module_variable(struct device *device, struct device_module *module,
                                      const char *name, device_address *address, size_t *bytes);
enum status device_no_parameter_bytes(struct device *device, const struct device_kernel *kernel,
                                      unsigned index, size_t *bytes);
enum status device_no_kernel_resources(struct device *device, const struct device_kernel *kernel,
                                       struct device_resources *resources);
enum status device_no_pin(struct device *device, size_t bytes, void **memory);
void device_no_unpin(struct device *device, void *memory);
enum status device_no_copy(struct device *device, device_address to, device_address from,
                           size_t bytes);
bool device_no_lags(struct device *device);
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
                                   struct device_texture_handles *made);
enum status device_no_texture_read(struct device *device, uint64_t texture, void *to, size_t bytes);
void device_no_texture_close(struct device *device, uint64_t handle);
enum status device_no_timer_begin(struct device *device);
enum status device_no_timer_end(struct device *device, double *seconds);
enum status device_no_counters(struct device *device, device_report_function each, void *state);

#endif

/* sim.h: the simulated GPU. PTX text in; modules, kernels, launches, counters and findings out.
 *
 * A library of its own: it knows nothing of the program that uses it, keeps no mutable globals, and
 * never exits, aborts or prints. Every function that can fail returns a status and fills the
 * caller's sim_error. PTX text and kernels are untrusted: no input harms the host. Several threads
 * may use one sim_gpu; calls on it exclude each other.
 */
#ifndef SIM_H
#define SIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */
#define SIM_STATUSES(X)                                                              \
    X(OK,          "ok")                                                             \
    X(SYNTAX,      "the PTX is malformed")                                           \
    X(UNSUPPORTED, "the PTX uses something that the simulated GPU does not have")    \
    X(LIMIT,       "a limit was exceeded")                                           \
    X(NO_MEMORY,   "out of memory")                                                  \
    X(ARGUMENT,    "an argument is invalid")                                         \
    X(NOT_FOUND,   "no such kernel, symbol or preset")                               \
    X(FINDING,     "a check failed while a kernel ran")                              \
    X(STEPS,       "the launch did not end within its steps or its time")            \
    X(INTERRUPTED, "the launch was interrupted")

enum sim_status {
#define SIM_X(id, text) SIM_##id,
    SIM_STATUSES(SIM_X)
#undef SIM_X
    SIM_STATUS_COUNT
};

/* Kinds of findings. */
#define SIM_FINDINGS(X)                                       \
    X(OUT_OF_BOUNDS,   "out of bounds")                       \
    X(USE_AFTER_FREE,  "use after free")                      \
    X(MISALIGNED,      "misaligned access")                   \
    X(UNINITIALISED,   "uninitialised read")                  \
    X(READ_ONLY,       "write to read-only memory")           \
    X(SHARED_RACE,     "race in shared memory")               \
    X(GLOBAL_RACE,     "race in global memory")               \
    X(IN_FLIGHT,       "copy in flight")                      \
    X(DIVERGENT_BARRIER, "divergent barrier")                 \
    X(WARP_SYNC,       "bad warp-level synchronisation")      \
    X(DEADLOCK,        "deadlock")                            \
    X(DIVISION,        "integer division by zero")            \
    X(SHUFFLE,         "shuffle from an absent lane")         \
    X(TRAP,            "trap")                                \
    X(ASSERT,          "device assertion failed")             \
    X(BAD_CALL,        "bad call or branch target")           \
    X(STACK,           "call stack overflow")                 \
    X(BAD_BARRIER,     "invalid barrier")                     \
    X(ENDLESS,         "does not end")

enum sim_finding_kind {
#define SIM_X(id, text) SIM_FIND_##id,
    SIM_FINDINGS(SIM_X)
#undef SIM_X
    SIM_FIND_COUNT
};

/*
 * Counters: field, Nsight Compute's metric (or "-"), meaning. All are sums over a launch.
 * Warp instructions are PTX instructions, not SASS: compare them with care.
 */
#define SIM_COUNTERS(X)                                                                                              \
    X(warp_instructions,     "smsp__inst_executed.sum",              "instructions, counted once per warp")          \
    X(thread_instructions,   "smsp__thread_inst_executed.sum",       "instructions, counted once per active thread") \
    X(predicated_on_threads, "smsp__thread_inst_executed_pred_on.sum", "the same, less threads whose guard was false") \
    X(branches,              "smsp__sass_branch_targets.sum",        "branch instructions, per warp")                \
    X(divergent_branches,    "smsp__sass_branch_targets_threads_divergent.sum", "branches on which a warp split")    \
    X(global_load_requests,  "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", "global load requests, per warp")    \
    X(global_load_sectors,   "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",  "32-byte sectors those touch")       \
    X(global_load_bytes,     "-",                                    "bytes that threads asked to load from global, once for each warp") \
    X(global_store_requests, "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", "global store requests, per warp")   \
    X(global_store_sectors,  "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",  "32-byte sectors those touch")       \
    X(global_store_bytes,    "-",                                    "bytes that threads asked to store to global, likewise")  \
    X(global_load_transactions, "-",                                 "transactions of global loads by the preset's coalescing rule: of half-warps on 1.x, 128-byte lines on 2.x, sectors since") \
    X(global_load_bytes_moved, "-",                                  "bytes that those transfer")                    \
    X(global_store_transactions, "-",                                "transactions of global stores by the same rule") \
    X(global_store_bytes_moved, "-",                                 "bytes that those transfer; 2.x stores the sectors of a line") \
    X(global_transactions,   "-",                                    "transactions of all global accesses, atomics too") \
    X(global_bytes_moved,    "-",                                    "bytes that those transfer")                    \
    X(global_lines,          "-",                                    "128-byte lines that all global accesses touch, summed over requests") \
    X(shared_load_requests,  "-",                                    "shared load instructions, per warp")           \
    X(shared_load_wavefronts, "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", "passes those take")           \
    X(shared_load_conflicts, "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", "passes beyond the least")  \
    X(shared_store_requests, "-",                                    "shared store instructions, per warp")          \
    X(shared_store_wavefronts, "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum", "passes those take")          \
    X(shared_store_conflicts, "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum", "passes beyond the least") \
    X(local_load_requests,   "l1tex__t_requests_pipe_lsu_mem_local_op_ld.sum", "local load requests, per warp")      \
    X(local_store_requests,  "l1tex__t_requests_pipe_lsu_mem_local_op_st.sum", "local store requests, per warp")     \
    X(texture_requests,      "l1tex__t_requests_pipe_tex.sum",       "texture fetches, per warp")                    \
    X(global_atomics,        "smsp__inst_executed_op_global_atom.sum", "atomics and reductions on global memory, per warp") \
    X(shared_atomics,        "smsp__inst_executed_op_shared_atom.sum", "atomics on shared memory, per warp")         \
    X(shared_atomic_wavefronts, "-",                                 "passes of those through the banks; lanes on one word take one together") \
    X(shared_atomic_turns,   "-",                                    "the same where lanes on one word take turns: atomics that do not count") \
    X(barriers,              "-",                                    "block barriers that warps reached")            \
    X(dram_read_bytes,       "dram__bytes_read.sum",                 "distinct sectors first touched by a load, in bytes: a cold, perfect cache") \
    X(dram_write_bytes,      "dram__bytes_write.sum",                "distinct sectors written, in bytes")           \
    X(l1_load_hits,          "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum", "sectors of global loads that L1 has; 0 unless asked for by caches=True, as the next") \
    X(l1_store_hits,         "l1tex__t_sectors_pipe_lsu_mem_global_op_st_lookup_hit.sum", "sectors of global stores that L1 has") \
    X(texture_sectors,       "l1tex__t_sectors_pipe_tex_mem_texture.sum", "sectors that texture fetches touch")       \
    X(texture_hits,          "l1tex__t_sectors_pipe_tex_mem_texture_lookup_hit.sum", "those that the texture cache has") \
    X(tag_passes,            "-",                                    "passes of requests through the four banks of L1's tags, by the line's number") \
    X(l2_sectors,            "lts__t_sectors_srcunit_tex.sum",       "sectors that multiprocessors ask L2 for")      \
    X(l2_halves,             "-",                                    "64-byte halves of a line in those requests: L2 serves one in the time of one sector") \
    X(l2_hits,               "lts__t_sectors_srcunit_tex_lookup_hit.sum", "those that L2 has, if it is empty before the launch") \
    X(l2_first_misses,       "-",                                    "misses of L2 on sectors that the launch has not accessed before: hits of a warm L2") \
    X(l2_warm_misses,        "-",                                    "sectors that L2 lacks although the same launch ran before: lost, or read by the other partition then") \
    X(l2_far_sectors,        "lts__t_sectors_srcunit_ltcfabric.sum", "sectors that pass between L2's partitions, if it is empty before the launch") \
    X(waits,                 "-",                                    "requests that wait for L2 or DRAM: L1 lacks a sector, or it is on its way since the last request of each other warp") \
    X(first_waits,           "-",                                    "those that wait for DRAM unless L2 held the launch's data before") \
    X(dram_waits,            "-",                                    "those that wait for DRAM in any case")       \
    X(l2_distinct_bytes,     "-",                                    "bytes of distinct sectors that reach L2, all of which a warm L2 holds") \
    X(l2_held_bytes,         "-",                                    "bytes of lines, with the copies of the other partition, that L2 has then if it loses none") \
    X(l2_fill_bytes,         "-",                                    "bytes that L2, empty before the launch, reads from DRAM: dram__bytes_read.sum with this GPU's caches") \
    X(l2_write_back_bytes,   "-",                                    "bytes that L2 writes to DRAM during the launch") \
    X(l2_warm_dram_bytes,    "-",                                    "bytes that L2 reads from DRAM and writes to it if the same launch ran before") \
    X(atomic_passes,         "-",                                    "passes of atomics through L2: a request's sectors one by one, lanes on one address in turn") \
    X(atomic_hot_passes,     "-",                                    "the most of those on 512 bytes, which one slice of L2 serves") \
    X(flops_f16,             "-",                                    "half and bfloat16 operations; an fma is two")  \
    X(flops_f32,             "-",                                    "float32 operations; an fma is two")            \
    X(flops_f64,             "-",                                    "float64 operations; an fma is two")            \
    X(inst_integer,          "-",                                    "integer instructions, per warp")               \
    X(inst_multiply,         "-",                                    "integer multiply instructions, per warp")      \
    X(inst_divide,           "-",                                    "integer divide and remainder, per warp")       \
    X(odd_operands,          "-",                                    "divisions and roots of floats for which a lane's operands, such as zero, take a subroutine, per warp") \
    X(inst_convert,          "-",                                    "conversions, per warp")                        \
    X(inst_f32,              "-",                                    "float32 instructions, per warp")               \
    X(inst_f64,              "-",                                    "float64 instructions, per warp")               \
    X(inst_f16,              "-",                                    "half and bfloat16 instructions, per warp")     \
    X(inst_special,          "-",                                    "special-function instructions, per warp")      \
    X(inst_move,             "-",                                    "moves, selections and address conversions, per warp") \
    X(inst_global,           "-",                                    "global-memory instructions, per warp")         \
    X(inst_shared,           "-",                                    "shared-memory instructions, per warp")         \
    X(inst_local,            "-",                                    "local-memory instructions, per warp")          \
    X(inst_const,            "-",                                    "constant and parameter loads, per warp")       \
    X(inst_texture,          "-",                                    "texture instructions, per warp")               \
    X(inst_control,          "-",                                    "branches, calls, exits, per warp")             \
    X(inst_barrier,          "-",                                    "barriers and fences, per warp")                \
    X(inst_warp,             "-",                                    "shuffles, votes and other warp-wide instructions, per warp") \
    X(blocks,                "-",                                    "blocks that ran")                              \
    X(warps,                 "smsp__warps_launched.sum",             "warps that ran")

struct sim_counters {
#define SIM_X(field, metric, meaning) uint64_t field;
    SIM_COUNTERS(SIM_X)
#undef SIM_X
};
/* clang-format on */

/* Why a call failed. line and column are 1-based in the PTX text; 0 if unknown. */
struct sim_error {
    enum sim_status status;
    unsigned line, column;
    char text[600];
};

/* One finding. file may be NULL (no -lineinfo); line is then 0 and ptx_line replaces it. */
struct sim_finding {
    enum sim_finding_kind kind;
    const char *kernel;
    const char *file;
    unsigned line, ptx_line;
    uint32_t block[3], thread[3];
    uint64_t address;
    const char *space, *access; /* static: "shared", "read"; NULL: not about an access to memory */
    uint32_t bytes;             /* of the access by one thread */
    uint32_t argument, item;    /* the argument next to the address, from 1; 0: none is known. Bytes
                                   of its elements */
    int64_t offset;             /* bytes from the beginning of the argument or allocation */
    uint64_t extent;            /* bytes of that argument or allocation; 0: unknown */
    char array[64];             /* the argument's description, "float32[10]"; "": none */
    int has_other;              /* a race has a second access */
    uint32_t other_block[3], other_thread[3];
    uint32_t other_pc; /* its instruction; UINT32_MAX: not known */
    const char *other_access, *other_file;
    unsigned other_line, other_ptx_line;
    int is_first;   /* the finding describes the other access */
    uint64_t times; /* occurrences, up to some 10,000; 0: not counted, of races between blocks */
    char text[800]; /* the whole message, with the fix */
};

/* Bounds on the resources of untrusted PTX. sim_default_limits() sets sensible ones. */
struct sim_limits {
    uint64_t ptx_bytes;    /* size of a module's text */
    uint64_t parse_bytes;  /* memory of a parsed module with its decoded kernels */
    uint64_t registers;    /* virtual registers of one function */
    uint64_t instructions; /* decoded instructions of a kernel with its callees */
    uint64_t device_bytes; /* simulated memory, module variables included */
    uint64_t launch_bytes; /* host memory of one launch: registers, shared and local memory */
    uint64_t local_bytes;  /* local memory of one thread, call frames included */
    uint64_t call_depth;
    uint64_t steps;    /* warp instructions of one launch; 0 for no bound */
    uint64_t findings; /* findings kept per launch */
    int (*admits)(
        uint64_t bytes); /* whether the host has room for an allocation; NULL: not asked */
};

enum sim_coalescing {
    SIM_COALESCE_STRICT,   /* compute capability 1.0, 1.1: in order within a half-warp, or one
                              transaction a thread */
    SIM_COALESCE_SEGMENTS, /* 1.2, 1.3: per half-warp, segments of 32, 64, 128 bytes */
    SIM_COALESCE_LINES,    /* 2.x: per warp, cached in 128-byte lines */
    SIM_COALESCE_SECTORS   /* since 3.0: per warp, 32-byte sectors */
};

#define SIM_CC_VOLTA 70 /* since then lanes of a warp need not run in step */

/* Properties of a GPU that the simulator and a roofline need, from the datasheets and the
 * programming guide. */
struct sim_preset {
    const char *name, *title;
    unsigned cc; /* compute capability, times ten */
    unsigned sm_count, warps_per_sm, blocks_per_sm, threads_per_block;
    unsigned grid_x, grid_z;                  /* most blocks in a dimension; 65,535 in y */
    unsigned registers_per_sm, register_unit; /* allocation granularity, registers */
    unsigned warp_unit;                       /* warps that share one part of the register file */
    int registers_by_block;                   /* allocated by block (1.x) rather than by warp */
    unsigned shared_per_sm, shared_per_block, shared_unit, shared_reserved;
    unsigned banks, bank_group; /* lanes served together: 16 is a half-warp */
    unsigned bank_bytes;        /* 8: words i and i + banks of 2 * banks words do not conflict */
    enum sim_coalescing coalescing;
    double clock_ghz, bandwidth_gbs, f32_gflops, f64_gflops;
    unsigned memory_mib;
    unsigned l1_bytes; /* of a multiprocessor's L1, with shared memory if l1_shares */
    int l1_shares, caches_loads;
    unsigned texture_bytes; /* of a texture cache beside L1; 0: textures pass L1 */
    unsigned l2_bytes;      /* 0: none that caches global memory */
    unsigned l2_parts;      /* partitions, each of some multiprocessors */
};

struct sim_occupancy {
    unsigned blocks_per_sm, warps_per_sm, max_warps_per_sm;
    const char *limiter; /* "warps", "blocks", "registers" or "shared memory" */
};

struct sim_param {
    uint32_t offset, size, align;
    const char *type; /* "u64", "f32", "b8"... */
};

struct sim_kernel_info {
    const char *name;
    unsigned param_count, param_bytes;
    const struct sim_param *params;
    unsigned registers;    /* 32-bit registers a thread would need, estimated from liveness */
    unsigned shared_bytes; /* static */
    unsigned local_bytes;
    unsigned instructions;
    unsigned max_threads; /* .maxntid or .reqntid, 0 if not stated */
    int communicates;     /* blocks may synchronise through global memory */
};

struct sim_gpu;
struct sim_module;
struct sim_kernel;
struct sim_report;

/* Called at least every 100 ms while a kernel runs, on one thread at a time, with the blocks that
 * have ended, all of the grid, and the warp instructions so far; a non-zero result interrupts the
 * launch. */
typedef int (*sim_poll_fn)(void *arg, uint64_t ended, uint64_t blocks, uint64_t steps);

enum {
    SIM_LAUNCH_COLLECT = 1,   /* collect findings and continue where the kernel can; else the first
                                 one fails the launch */
    SIM_LAUNCH_NO_RACES = 2,  /* disable race detection */
    SIM_LAUNCH_NO_UNINIT = 4, /* disable the check for uninitialized reads */
    SIM_LAUNCH_COOPERATIVE =
        8,                    /* all blocks must be resident together (grid-wide synchronisation) */
    SIM_LAUNCH_BY_VALUE = 64, /* a store of the value already stored is no race */
    SIM_LAUNCH_ANY_GRID = 16, /* apply the grid limits of compute capability 3.0 and later */
    SIM_LAUNCH_STATEMENTS = 32, /* count by PTX statement, too */
    SIM_LAUNCH_PREFER_L1 = 128, /* Fermi and Kepler: 16 KB of shared memory, the rest is L1 */
    SIM_LAUNCH_CACHES = 256,    /* count hits of L1 and L2 */
};

/* Part of a launch to record: one block, or one warp of it, instruction by instruction. */
struct sim_trace_request {
    uint32_t block[3];
    int warp;             /* -1: all of the block's */
    uint64_t most_events; /* later events are dropped, and `truncated` is set */
};

/* One instruction of one warp. An instruction with several accesses has one event for each,
 * numbered by `part`. */
struct sim_event {
    uint64_t address[32]; /* of the lanes in `mask`; an offset in shared memory; the source lane of
                             a shuffle */
    uint64_t base;        /* global memory: base of the first address's allocation */
    uint32_t instruction; /* index into the trace's instructions */
    uint32_t warp;
    uint32_t active, mask; /* active lanes; those for which the instruction has an effect */
    uint32_t bytes;        /* accessed by a lane */
    uint8_t space, access; /* enum sim_trace_space, enum sim_trace_access */
    uint8_t part, unused;
};
/* clang-format off */
#define SIM_TRACE_SPACES(X) X(none) X(global) X(shared) X(local) X(constant) X(parameter)
#define SIM_TRACE_ACCESSES(X) X(none) X(load) X(store) X(atomic) X(reduce) X(shuffle)
/* clang-format on */
enum sim_trace_space {
#define SIM_X(name) SIM_SPACE_##name,
    SIM_TRACE_SPACES(SIM_X)
#undef SIM_X
};
enum sim_trace_access {
#define SIM_X(name) SIM_TRACE_##name,
    SIM_TRACE_ACCESSES(SIM_X)
#undef SIM_X
};

struct sim_instruction {
    const char *text; /* the PTX statement, with its guard */
    const char *kind; /* its class: "integer", "shared", "control", ... */
    const char *file; /* NULL where there is no line table */
    unsigned line, ptx_line;
    unsigned function; /* 0 is the kernel; others are its callees */
};

struct sim_trace {
    uint32_t block[3];
    const struct sim_event *events; /* in order of time */
    size_t event_count;
    const struct sim_instruction *instructions;
    size_t instruction_count;
    int truncated;
};

/* An array whose address is the kernel's parameter `param`. */
struct sim_array {
    uint32_t param;
    uint32_t item; /* bytes of an element */
    uint64_t bytes;
    const char *label;     /* its dtype and shape, for messages */
    int is_copy;           /* its memory was made for this launch, and is freed by nobody else */
    const uint8_t *fields; /* of an element: for each byte whether a field holds it; NULL: all */
};

/* A warp is delayed before one of its accesses to memory that others see: it continues when all
 * other resident warps have run as far as they can. An order of warps is a set of delays; without
 * any, each warp runs until it has to wait, the one that began first. */
struct sim_delay {
    uint64_t block, access; /* counted from 0 */
    uint32_t warp;
    unsigned line, ptx_line; /* where it happened */
    const char *file;
};

struct sim_launch {
    struct sim_kernel *kernel;
    uint32_t grid[3], block[3];
    uint32_t shared_bytes;    /* dynamic */
    const void *const *args;  /* one pointer per parameter ... */
    const void *param_buffer; /* ... or the parameter block itself, if args is NULL */
    size_t param_buffer_bytes;
    const struct sim_array *arrays; /* in any order */
    unsigned array_count;
    unsigned flags;        /* SIM_LAUNCH_* */
    unsigned host_threads; /* 0 for one */
    uint64_t steps;        /* warp instructions; 0: the GPU's limit */
    double seconds;        /* of the host's time; 0: no bound */
    double idle_seconds;   /* without the end of any warp; 0: no bound */
    sim_poll_fn poll;
    void *poll_arg;
    const struct sim_trace_request *trace; /* NULL: no recording */
    uint64_t seed;                         /* delays at random; 0: none */
    const uint64_t (*delays)[3]; /* these only: block, warp, access, sorted. NULL: any order, if
                                    there is no seed either */
    size_t delay_count;
};

/* How a launch's work is spread over its blocks and multiprocessors, and its sectors over DRAM. */
struct sim_spread {
    uint64_t steps, longest_steps, longest_block; /* of all blocks; of the longest; its index */
    uint64_t long_blocks;                         /* with more than 1.25 times the average */
    double balance;            /* busy time of the multiprocessors over that of the busiest */
    uint64_t lone_sectors;     /* read, and the other sector of their 64 bytes was not touched */
    const uint64_t *durations; /* steps of each block; NULL: all take about the same */
    size_t duration_count;
};

/* A source line's share of a launch, or one PTX statement's. */
struct sim_line {
    const char *file;
    unsigned line, ptx_line;
    const char *text; /* the statement, with its guard; NULL for a source line */
    struct sim_counters counters;
};

const char *sim_status_text(enum sim_status status);
const char *sim_finding_text(enum sim_finding_kind kind);
void sim_default_limits(struct sim_limits *limits);

const struct sim_preset *sim_preset_at(size_t index); /* NULL past the last */
const struct sim_preset *sim_preset_find(const char *name);
enum sim_status sim_occupancy_of(const struct sim_preset *preset, unsigned threads,
                                 unsigned registers, uint64_t shared_bytes,
                                 struct sim_occupancy *occupancy);
/* The most registers per thread that leave room for these blocks on a multiprocessor; a compiler
 * keeps to it (.maxntid, .minnctapersm). */
enum { SIM_REGISTERS_LEAST = 16, SIM_REGISTERS_MOST = 255 };
unsigned sim_most_registers(const struct sim_preset *preset, unsigned threads, unsigned blocks);

/* limits may be NULL. */
enum sim_status sim_gpu_open(const char *preset, const struct sim_limits *limits,
                             struct sim_gpu **gpu, struct sim_error *error);
/* Frees the GPU and all that it owns. leaks (may be NULL) receives the number of allocations never
 * freed. */
void sim_gpu_close(struct sim_gpu *gpu, uint64_t *leaks, uint64_t *leaked_bytes);
const struct sim_preset *sim_gpu_preset(const struct sim_gpu *gpu);

enum sim_status sim_alloc(struct sim_gpu *gpu, uint64_t bytes, uint64_t *address,
                          struct sim_error *error);
enum sim_status sim_free(struct sim_gpu *gpu, uint64_t address, struct sim_error *error);
enum sim_status sim_copy_in(struct sim_gpu *gpu, uint64_t to, const void *from, uint64_t bytes,
                            struct sim_error *error);
enum sim_status sim_copy_out(struct sim_gpu *gpu, void *to, uint64_t from, uint64_t bytes,
                             struct sim_error *error);
enum sim_status sim_copy(struct sim_gpu *gpu, uint64_t to, uint64_t from, uint64_t bytes,
                         struct sim_error *error);
enum sim_status sim_fill(struct sim_gpu *gpu, uint64_t to, unsigned byte, uint64_t bytes,
                         struct sim_error *error);
void sim_memory_use(struct sim_gpu *gpu, uint64_t *used, uint64_t *limit);

/* Textures: linear memory, or an array of 1 to 3 dimensions in simulated memory, with layers or the
 * six faces of cubes, and smaller levels behind the first. tex.1d with an integer coordinate reads
 * linear memory; every other fetch reads arrays. The texels lie level after level, in each level
 * layer after layer, without gaps. */
struct sim_texture {
    uint64_t address;
    unsigned dimensions;           /* 0: linear memory */
    uint32_t width, height, depth; /* texels; 1 beyond the dimensions */
    uint32_t layers;               /* six to a cube; 1 without layers and cubes */
    int layered, cube;
    unsigned levels;   /* each has half the extents of the one before, rounded down */
    unsigned channels; /* 1, 2 or 4 */
    enum {
        SIM_TEX_F32,
        SIM_TEX_S32,
        SIM_TEX_U32,
        SIM_TEX_F16,
        SIM_TEX_S16,
        SIM_TEX_U16,
        SIM_TEX_S8,
        SIM_TEX_U8
    } format;
    int as_fraction; /* 8 and 16 bits: fetches read 0 to 1, or -1 to 1 */
    enum { SIM_TEX_WRAP, SIM_TEX_CLAMP, SIM_TEX_MIRROR, SIM_TEX_BORDER } outside;
    float border[4];
    float level_bias; /* of fetches with a level or gradients */
    int linear_filter, linear_levels, normalised;
    int writable; /* also a surface, of its first level */
};
/* Sets *surface, for a writable texture, and *handle. */
enum sim_status sim_texture_open(struct sim_gpu *gpu, const struct sim_texture *texture,
                                 uint64_t *handle, uint64_t *surface, struct sim_error *error);
enum sim_status sim_texture_close(struct sim_gpu *gpu, uint64_t handle, struct sim_error *error);

/* Calls `found` for each kernel of a PTX text that has a body, with its parameters (no offsets, no
 * alignment); a result other than 0 ends that as interrupted. The text need not end in NUL. */
typedef int sim_entry_function(void *state, const char *kernel, const struct sim_param *params,
                               uint32_t count);
enum sim_status sim_ptx_entries(const char *text, size_t bytes, sim_entry_function *found,
                                void *state, struct sim_error *error);

/* Copies the text, which need not end in NUL. Bodies are parsed when a kernel is first requested.
 */
enum sim_status sim_module_load(struct sim_gpu *gpu, const char *text, size_t bytes,
                                struct sim_module **module, struct sim_error *error);
void sim_module_unload(struct sim_module *module);
size_t sim_module_kernels(const struct sim_module *module);
const char *sim_module_kernel_name(const struct sim_module *module, size_t index);
enum sim_status sim_module_symbol(struct sim_module *module, const char *name, uint64_t *address,
                                  uint64_t *bytes, struct sim_error *error);
enum sim_status sim_kernel_get(struct sim_module *module, const char *name,
                               struct sim_kernel **kernel, struct sim_error *error);
void sim_kernel_describe(const struct sim_kernel *kernel, struct sim_kernel_info *info);
/* Writes the decoded program as text, at most `bytes` with the NUL; returns the length required. */
size_t sim_kernel_disassemble(const struct sim_kernel *kernel, char *to, size_t bytes);

/* Runs one kernel to its end. report may be NULL; else *report receives counters and findings, also
 * on failure (NULL if the launch never began); the caller frees it. */
enum sim_status sim_launch(struct sim_gpu *gpu, const struct sim_launch *launch,
                           struct sim_report **report, struct sim_error *error);
void sim_report_free(struct sim_report *report);
/* As sim_poll_fn counts them: some more than the warp instructions. */
uint64_t sim_report_steps(const struct sim_report *report);
const struct sim_counters *sim_report_counters(const struct sim_report *report);
size_t sim_report_lines(const struct sim_report *report, const struct sim_line **lines);
/* The statements that were executed, in the order of the code; up to 65,536. */
size_t sim_report_statements(const struct sim_report *report, const struct sim_line **statements);
size_t sim_report_findings(const struct sim_report *report, const struct sim_finding **findings);
const struct sim_occupancy *sim_report_occupancy(const struct sim_report *report);
/* Text that the kernel printed, ordered by block and within a block by time: up to 1 MiB in all and
 * 256 KiB a block, with a note at the end where it was cut. */
const char *sim_report_output(const struct sim_report *report);
/* sm__warps_active.avg.pct_of_peak_sustained_active, from 0 to 1: active warps over the maximum,
 * averaged over the multiprocessors' time (see sim_occupancy.c). */
double sim_report_achieved_occupancy(const struct sim_report *report);
/* The delays of an ordered launch, up to 65,536. */
size_t sim_report_delays(const struct sim_report *report, const struct sim_delay **delays);
const struct sim_spread *sim_report_spread(const struct sim_report *report);
const struct sim_trace *sim_report_trace(const struct sim_report *report); /* NULL: not requested */

/* Counter names for generic code: iterate i from 0 to sim_counter_count(). */
size_t sim_counter_count(void);
const char *sim_counter_name(size_t i);

#ifdef __cplusplus
}
#endif
#endif

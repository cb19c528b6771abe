/* sim_run.h: a kernel while it runs. A launch has workers (host threads); a worker runs one block
 * at a time; a block has warps. A warp has splits, usually one: a split is a set of lanes that
 * proceed on their own because other lanes of the warp wait for them, or they wait for others.
 * Within a split, diverged lanes stay on a stack until they reconverge.
 */
#ifndef SIM_RUN_H
#define SIM_RUN_H

#include "sim_internal.h"

#include <string.h>

#define SIM_MAX_WARPS 32u
#define SIM_BARRIERS 16u
#define SIM_NO_PC UINT32_MAX

typedef uint16_t SIM_ALIAS sim_u16;
typedef int16_t SIM_ALIAS sim_s16;
typedef uint32_t SIM_ALIAS sim_u32;
typedef int32_t SIM_ALIAS sim_s32;
typedef uint64_t SIM_ALIAS sim_u64;

struct sim_entry { /* converged lanes; the top of the stack runs */
    uint32_t pc, reconverge, mask;
};

struct sim_frame { /* one call */
    uint32_t function, base, local_base, call_pc;
    uint32_t entry; /* stack depth at which its lanes began: the call ends at this depth */
};

enum sim_split_state { SIM_SPLIT_READY, SIM_SPLIT_BARRIER, SIM_SPLIT_SYNC, SIM_SPLIT_REJOIN };

struct sim_split {
    struct sim_entry *stack;
    uint32_t depth, capacity;
    struct sim_frame *frames;
    uint32_t frame_count, frame_capacity;
    enum sim_split_state state;
    uint32_t barrier;   /* index of the barrier that the split waits at */
    uint32_t wait_mask; /* lanes that a warp-level synchronization waits for */
    uint32_t patience;  /* communicating instructions since the stack last shrank */
};

struct sim_late { /* lanes that a barrier waits for, and lanes that have arrived */
    uint32_t mask, came, pc;
};

struct sim_warp {
    struct sim_block *block;
    uint32_t index;
    uint32_t start_mask, live; /* existing lanes; lanes that have not exited */
    uint8_t *regs;             /* frames */
    uint32_t regs_bytes;
    uint8_t *local;       /* local memory, lane after lane */
    uint8_t *local_valid; /* one bit a byte, lane after lane */
    uint32_t local_stride;
    uint32_t local_top; /* where the deepest frame's local memory ends */
    uint32_t tid[3][SIM_LANES];
    struct sim_split *splits; /* allocated for one a lane, so that they never move */
    uint32_t split_count, current, rotations;
    uint64_t steps, waited; /* elapsed: executing, and waiting at barriers (see sim_occupancy.c) */
    uint64_t ahead;         /* steps of this turn, not yet in `steps` */
    uint64_t spin_value;    /* read at spin_pc last */
    uint32_t spin_pc, spin_count;
    uint64_t rank, accesses; /* in an order: see sim_order.c */
    int delayed;
    struct sim_late late[SIM_BARRIERS];
    uint32_t late_ids;               /* bit mask of barriers that have late lanes */
    struct sim_flight *flight;       /* asynchronous copies; NULL before the first */
    struct sim_undefined *undefined; /* see sim_undefined.c; NULL while no value is undefined */
    int done;
};

struct sim_barrier {
    uint32_t arrived, expected; /* threads; expected 0: all live ones */
    uint32_t waiting_warps;
    uint32_t popc, all, any; /* bar.red */
    uint64_t time;           /* arrival of the last one */
};

/* Text that a block has printed. */
struct sim_text {
    char *data;
    size_t bytes, capacity;
    uint64_t block;
    int cut, lost; /* cut: the text was too long; lost: out of memory */
};

struct sim_block {
    uint32_t index[3];
    uint64_t linear;
    struct sim_warp *warps;
    uint32_t warp_count, live_threads;
    uint8_t *shared;
    uint8_t
        *shared_valid; /* one byte a word: which of its four bytes were written, or SIM_FLYING */
    uint64_t shared_bytes;
    uint32_t copies_in, copies_out; /* in flight, to shared memory and from it to global memory */
    struct sim_barrier barriers[SIM_BARRIERS];
    uint32_t barriers_begun; /* bit mask of barriers that some thread has reached */
    struct sim_race_block *races;
    struct sim_log *log; /* see sim_caches.c; NULL: not recorded */
    struct sim_text text;
    uint32_t next_warp;
    uint64_t steps, idle_rounds;
    uint64_t duration, active_time; /* until the last warp exits; sum over all warps */
    int64_t turn_left;
    int has_token;
    /* scheduling state, under the launch's lock */
    int running, wants_token, started;
    struct sim_block *next;
};

static inline uint32_t sim_split_mask(const struct sim_split *split) {
    return split->depth ? split->stack[split->depth - 1].mask : 0;
}

static inline const struct sim_frame *sim_split_frame(const struct sim_split *split) {
    return &split->frames[split->frame_count - 1];
}

static inline uint64_t sim_warp_time(const struct sim_warp *warp) {
    return warp->steps + warp->ahead + warp->waited;
}

/* Why a warp stopped. */
enum sim_stop {
    SIM_STOP_SLICE,
    SIM_STOP_BARRIER,
    SIM_STOP_DONE,
    SIM_STOP_YIELD,
    SIM_STOP_SPLIT,
    SIM_STOP_TOKEN,
    SIM_STOP_DELAY,
    SIM_STOP_ERROR
};

static inline uint32_t sim_lanes_in(uint32_t mask) {
    if (SIM_LIKELY(mask == SIM_FULL))
        return SIM_LANES;
    mask -= mask >> 1 &
            0x55555555u; /* not every target processor has an instruction that counts bits */
    mask = (mask & 0x33333333u) + (mask >> 2 & 0x33333333u);
    return ((mask + (mask >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24;
}

/* ---- events ---- */

enum sim_access_kind { SIM_ACCESS_LOAD, SIM_ACCESS_STORE, SIM_ACCESS_ATOMIC, SIM_ACCESS_REDUCE };

/* One memory instruction of one warp, as observers receive it. Shared memory addresses are offsets.
 */
struct sim_access {
    const struct sim_insn *in;
    uint32_t pc, mask, bytes; /* bytes per lane */
    uint32_t warp;
    uint32_t copied; /* of a bulk copy: its bytes before these */
    uint8_t space, kind;
    uint8_t group;             /* see struct sim_span; addresses of inactive lanes follow it, too */
    int64_t stride, step;      /* likewise */
    uint64_t least, most;      /* addresses of active lanes */
    const uint64_t *address;   /* 32 lanes */
    struct sim_region *region; /* global: the region that holds all lanes, or NULL */
    const uint8_t *value;      /* store: 32 lanes of `bytes` bytes each, or NULL */
};

/* Each lane's address is `stride` above the previous lane's. */
static inline int sim_linear(const struct sim_access *a) { return a->group == SIM_LANES; }

/* All 32 lanes access consecutive elements. */
static inline int sim_contiguous(const struct sim_access *a) {
    return a->mask == SIM_FULL && sim_linear(a) && a->stride == (int64_t)a->bytes;
}

/* A worker's counts, per instruction and per basic block. */
struct sim_pc_count {
    uint64_t guard_off, divergent, odd;
    uint64_t requests, sectors, lines, bytes, moved,
        transactions; /* global memory; requests of other spaces */
    uint64_t shared_requests, wavefronts, conflicts, turns, local_requests;
};
struct sim_block_count {
    uint64_t warps, threads;
};

struct sim_worker {
    struct sim_run *run;
    struct sim_block *block;
    struct sim_recorder *recorder; /* set while it runs the traced block; else NULL */
    struct sim_pc_count *pcs;
    struct sim_block_count *blocks;
    struct sim_region *last_region;
    uint64_t blocks_done, warps_done;
    uint64_t warps_seen;            /* warps_done when the clock was last read */
    uint64_t writes;                /* to global memory: a waiting block makes none */
    uint64_t dram_read, dram_write; /* sectors */
    uint64_t steps, polled;         /* not yet added to the launch; since the last poll */
    enum sim_status status;
    struct sim_error error;
    int is_caller;
    _Alignas(64) uint8_t scratch[5][SIM_LANES * 8];
};

struct sim_left { /* undefined bytes of an array, and the store that left them */
    uint64_t address;
    uint32_t bytes, pc;
};
#define SIM_LEFT_MOST 64u /* of each source line */

/* A finding, with the source lines of its access and of a race's other one, by which findings are
 * merged. */
struct sim_found {
    struct sim_finding finding;
    uint64_t block, order; /* the lowest block; the count of findings when it was recorded */
    uint64_t place, other_place;
    struct sim_left *left; /* undefined bytes that a store left in memory; NULL: another finding */
    uint32_t left_count;
    uint64_t kept; /* how often all that were merged into it were found; 0: merged itself */
};

struct sim_run {
    struct sim_gpu *gpu;
    const struct sim_preset *preset;
    const struct sim_kernel *kernel;
    const struct sim_launch *launch;
    uint8_t *params;
    uint64_t total_blocks, next_block;
    uint32_t warps_per_block;
    uint64_t shared_bytes;
    uint32_t launch_number;
    int check_races, check_uninit, collect, wide;
    int in_step;  /* races are checked, on a GPU whose warps run in step */
    int by_value; /* see SIM_LAUNCH_BY_VALUE */
    struct sim_occupancy occupancy;
    uint64_t resident_limit, soft_limit;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct sim_block *ring, *ring_last, *token, *idle;
    uint64_t ring_count, stalled_turns;
    uint64_t steps_used;
    uint64_t *durations, duration_capacity,
        active_time; /* of finished blocks, see sim_occupancy.c */
    int stop;
    int64_t last_poll;
    int64_t began, last_end; /* of the launch; of the last warp that ended, as far as is known */
    int limit_told;
    pthread_mutex_t find_lock;
    struct sim_found *found;
    uint64_t found_count, found_lost, found_order;
    uint32_t *muted; /* by instruction, a bit for each kind: found often enough */
    int is_muted;    /* any of them */
    uint32_t found_capacity;
    struct sim_text *texts; /* of finished blocks, see sim_printf.c */
    uint32_t text_count, text_capacity;
    uint64_t text_bytes;
    struct sim_release_log *releases; /* sim_races.c */
    struct sim_recorder *recorder;    /* see sim_trace.c; NULL: no recording */
    struct sim_caches *caches;        /* see sim_caches.c; NULL: not modelled */
    struct sim_schedule *schedule;    /* see sim_order.c; NULL: any order */
    struct sim_insn *watched;         /* see sim_undefined.c; NULL while no warp needs it */
    enum sim_status status;
    struct sim_error error;
};

struct sim_report {
    struct sim_counters total;
    struct sim_line *lines;
    size_t line_count;
    struct sim_line *statements;
    size_t statement_count;
    char *statement_texts;
    struct sim_finding *findings;
    size_t finding_count;
    struct sim_occupancy occupancy;
    double achieved_occupancy;
    struct sim_spread spread;
    uint64_t steps; /* as the launch's bound counts them */
    char *output;   /* text printed by the kernel, or NULL */
    struct sim_delay *delays;
    size_t delay_count;
    struct sim_recorder *recorder;
};

/* ---- a warp's registers: an operand's 32 lanes, and a predicate's bits ---- */
#define U32(offset) ((sim_u32 *)(void *)(regs + (offset)))
#define U64(offset) ((sim_u64 *)(void *)(regs + (offset)))
#define PRED(offset) (*(sim_u32 *)(void *)(regs + (offset)))

/* Copies only the lanes of the mask. */
static inline void sim_blend(const struct sim_run *run, uint8_t *to, const uint8_t *from,
                             uint32_t mask, uint32_t bytes) {
    sim_select(run->wide, to, from, to, mask, bytes);
}

/* ---- local memory: which bytes were written, one bit a byte ---- */

static inline void sim_warp_mark_local(struct sim_warp *warp, uint64_t at, uint32_t bytes) {
    for (uint32_t i = 0; i < bytes; i++)
        warp->local_valid[(at + i) / 8] |= (uint8_t)(1u << ((at + i) & 7));
}

static inline int sim_local_is_valid(const struct sim_warp *warp, uint32_t lane, uint64_t address,
                                     uint32_t bytes) {
    const uint64_t at = (uint64_t)lane * warp->local_stride + address;
    const uint8_t *valid = warp->local_valid + at / 8;
    if (bytes < 8) {
        uint32_t mask = ((1u << bytes) - 1) << (at & 7);
        return (*valid & mask) == mask;
    }
    for (uint32_t i = 0; i < bytes / 8; i++)
        if (valid[i] != 0xff)
            return 0;
    return 1;
}

static inline void sim_local_unmark(struct sim_warp *warp, uint32_t lane, uint64_t address,
                                    uint32_t bytes) {
    const uint64_t at = (uint64_t)lane * warp->local_stride + address;
    for (uint32_t i = 0; i < bytes; i++)
        warp->local_valid[(at + i) / 8] &= (uint8_t) ~(1u << ((at + i) & 7));
}

/* ---- sim_warp.c ---- */
int sim_warp_push(struct sim_split *split, uint32_t pc, uint32_t reconverge, uint32_t mask);
int sim_warp_push_frame(struct sim_split *split, struct sim_frame frame);
int sim_warp_reserve(struct sim_warp *warp, uint64_t regs_bytes, uint64_t local_bytes);
void sim_warp_copy_local(struct sim_warp *warp, uint64_t to, uint64_t from, uint32_t bytes);
int sim_warp_split_off(struct sim_warp *warp, struct sim_split *split);
int sim_warp_part(struct sim_warp *warp, struct sim_split *split, uint32_t lanes,
                  uint32_t others_pc);
void sim_warp_remove_split(struct sim_warp *warp, struct sim_split *split);
void sim_warp_merge(struct sim_warp *warp);
void sim_warp_exit(struct sim_warp *warp, struct sim_split *split, uint32_t mask);
int sim_warp_sync(struct sim_worker *w, struct sim_warp *warp, struct sim_split *split, uint32_t pc,
                  uint32_t *mask, uint32_t members);

/* ---- sim_delays.c ---- */
struct sim_schedule {
    uint64_t last;  /* rank: a delayed warp comes after all others */
    uint64_t limit; /* of 2^64 accesses, how many delay their warp */
    struct sim_delay *made;
    uint32_t made_count, capacity;
};
/* Whether the warp is delayed before its access at pc. */
int sim_order_delays(struct sim_run *run, struct sim_warp *warp, uint32_t pc);

/* ---- sim_findings.c ---- */
/* Records a finding; returns 1 when it ends the launch. known: the access and the other one of a
 * race; NULL: none. */
int sim_find(struct sim_worker *w, const struct sim_warp *warp, uint32_t pc, uint32_t lane,
             enum sim_finding_kind kind, uint64_t address, const struct sim_finding *known,
             const char *format, ...) SIM_PRINTF(8, 9);
int sim_find_uninitialised(struct sim_worker *w, const struct sim_warp *warp, uint32_t pc,
                           uint32_t lane, unsigned space, uint32_t bytes, uint64_t address);
/* Whether a finding of this kind here needs no further record. */
static inline int sim_is_muted(const struct sim_run *run, uint32_t pc, enum sim_finding_kind kind) {
    return __atomic_load_n(&run->muted[pc], __ATOMIC_RELAXED) >> kind & 1;
}
/* A source line as one number, in the order of the text. */
uint64_t sim_line_of(const struct sim_kernel *kernel, uint32_t pc);
void sim_findings_settle(struct sim_run *run); /* these two once all blocks have ended */
void sim_findings_merge(struct sim_run *run);
/* Undefined bytes were stored: a finding, if they are in a field of an array when the launch ends.
 */
void sim_find_left(struct sim_worker *w, const struct sim_warp *warp, uint32_t pc, uint32_t lane,
                   const struct sim_left *left, unsigned space, uint32_t bytes, uint64_t address);
const char *sim_space_name(unsigned space); /* "shared", as messages spell it */

/* ---- sim_memory.c, sim_arguments.c ---- */
int sim_memory_unmark(struct sim_run *run, struct sim_region *region, uint64_t offset,
                      uint64_t bytes); /* 0: out of memory */
/* Whether any of these bytes is unwritten and belongs to a field of an array. */
int sim_array_lacks(const struct sim_run *run, const struct sim_left *left);
struct sim_pointer { /* an argument that points to allocated memory */
    unsigned number; /* from 1 */
    uint64_t base, bytes;
    uint32_t item;     /* bytes of an element */
    const char *label; /* NULL: not described */
};
/* Finds the pointer nearest to an address among the parameters in the set `from`; 0: none. */
int sim_pointer_find(const struct sim_run *run, uint64_t from, uint64_t address,
                     struct sim_pointer *found);
/* "element 5 of argument 1 (float32[4])", or the address. */
void sim_place_of(const struct sim_run *run, uint32_t pc, struct sim_finding *f);
const char *sim_place_text(const struct sim_run *run, uint32_t pc, unsigned space, uint64_t address,
                           char *text, size_t bytes);
const char *sim_where_text(const struct sim_kernel *kernel, uint32_t pc, char *text, size_t bytes);

#endif

/*
 * sim_run.h: a kernel while it runs. A launch has workers (host threads); a worker runs one block
 * at a time; a block has warps; a warp has splits, usually one: lanes that go their own way because
 * they wait for, or are waited for by, other lanes of the warp. Within a split diverged lanes are
 * kept on a stack until they reconverge.
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

struct sim_entry { /* lanes that are together; the top of the stack runs */
    uint32_t pc, reconverge, mask;
};

struct sim_frame { /* one call */
    uint32_t function, base, local_base, call_pc;
    uint32_t entry; /* where in the stack its lanes began: it is left when the stack is this deep */
};

enum sim_split_state { SIM_SPLIT_READY, SIM_SPLIT_BARRIER, SIM_SPLIT_SYNC, SIM_SPLIT_REJOIN };

struct sim_split {
    struct sim_entry *stack;
    uint32_t depth, capacity;
    struct sim_frame *frames;
    uint32_t frame_count, frame_capacity;
    enum sim_split_state state;
    uint32_t barrier;   /* which, while at one */
    uint32_t wait_mask; /* lanes waited for, at a warp-level synchronisation */
    uint32_t synced;    /* the synchronisation at this pc is complete: go through */
    uint32_t patience;  /* communicating instructions since the stack last shrank */
};

struct sim_late { /* lanes that others of the warp wait for at a barrier, and those others */
    uint32_t mask, came, pc;
};

struct sim_warp {
    struct sim_block *block;
    uint32_t index;
    uint32_t start_mask, live; /* lanes that exist; that have not exited */
    uint8_t *regs;             /* frames */
    uint32_t regs_bytes;
    uint8_t *local;       /* local memory, lane after lane */
    uint8_t *local_valid; /* one bit a byte; lane after lane as well */
    uint32_t local_stride;
    uint32_t local_top; /* where the deepest frame's local memory ends */
    uint32_t tid[3][SIM_LANES];
    struct sim_split *splits; /* room for one a lane, so that they never move */
    uint32_t split_count, current, rotations;
    uint64_t steps, waited; /* time passed: executed, and at barriers (sim_occupancy.c) */
    uint64_t ahead;         /* steps of this turn that are not in `steps` yet */
    uint32_t spin_pc, spin_count;
    struct sim_late late[SIM_BARRIERS];
    uint32_t late_ids;               /* barriers for which there are any */
    struct sim_undefined *undefined; /* sim_undefined.c; NULL while it has no such values */
    int done;
};

struct sim_barrier {
    uint32_t arrived, expected; /* threads; expected 0: all that live */
    uint32_t waiting_warps;
    uint32_t popc, all, any; /* bar.red */
    uint64_t time;           /* of the last that arrived */
};

/* What a block has printed. */
struct sim_text {
    char *data;
    size_t bytes, capacity;
    uint64_t block;
    int cut, lost; /* there was more; for want of memory */
};

struct sim_block {
    uint32_t index[3];
    uint64_t linear;
    struct sim_warp *warps;
    uint32_t warp_count, live_threads;
    uint8_t *shared;
    uint8_t *shared_valid; /* a byte for each word: which of its four bytes were written */
    uint64_t shared_bytes;
    struct sim_barrier barriers[SIM_BARRIERS];
    uint32_t barriers_begun; /* which of them somebody has reached */
    struct sim_race_block *races;
    struct sim_text text;
    uint32_t next_warp;
    uint64_t steps, idle_rounds;
    uint64_t duration, active_time; /* until the last warp exits; of all warps together */
    int64_t turn_left;
    int has_token;
    /* scheduling, under the launch's lock */
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

/* Why a warp stopped running. */
enum sim_stop {
    SIM_STOP_SLICE,
    SIM_STOP_BARRIER,
    SIM_STOP_DONE,
    SIM_STOP_YIELD,
    SIM_STOP_SPLIT,
    SIM_STOP_TOKEN,
    SIM_STOP_ERROR
};

static inline uint32_t sim_lanes_in(uint32_t mask) {
    if (SIM_LIKELY(mask == SIM_FULL))
        return SIM_LANES;
    mask -= mask >> 1 & 0x55555555u; /* not every processor that this is compiled for counts bits */
    mask = (mask & 0x33333333u) + (mask >> 2 & 0x33333333u);
    return ((mask + (mask >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24;
}

/* ---- events ---- */

enum sim_access_kind { SIM_ACCESS_LOAD, SIM_ACCESS_STORE, SIM_ACCESS_ATOMIC, SIM_ACCESS_REDUCE };

/* One memory instruction of one warp: what observers see. Addresses of shared memory are offsets.
 */
struct sim_access {
    const struct sim_insn *in;
    uint32_t pc, mask, bytes; /* bytes per lane */
    uint8_t space, kind;
    uint8_t linear;            /* each lane's address is `stride` after the lane's before it */
    int64_t stride;            /* linear only */
    uint64_t least, most;      /* addresses of active lanes */
    const uint64_t *address;   /* 32 lanes */
    struct sim_region *region; /* global: the one that all lanes are in, or NULL */
    const uint8_t *value;      /* store: 32 lanes of `bytes` bytes each, or NULL */
};

/* All 32 lanes access memory in a row. */
static inline int sim_contiguous(const struct sim_access *a) {
    return a->mask == SIM_FULL && a->linear && a->stride == (int64_t)a->bytes;
}

/* Per instruction, and per basic block: what a worker counts. */
struct sim_pc_count {
    uint64_t guard_off, divergent;
    uint64_t requests, sectors, bytes, moved, transactions; /* global memory; others' requests */
    uint64_t shared_requests, wavefronts, conflicts, local_requests;
};
struct sim_block_count {
    uint64_t warps, threads;
};

struct sim_worker {
    struct sim_run *run;
    struct sim_block *block;
    struct sim_recorder *recorder; /* while it runs the block that is traced; else NULL */
    struct sim_pc_count *pcs;
    struct sim_block_count *blocks;
    struct sim_region *last_region;
    uint64_t blocks_done, warps_done;
    uint64_t writes;                /* to global memory: what a waiting block never makes */
    uint64_t dram_read, dram_write; /* sectors */
    uint64_t steps, polled;         /* not yet counted for the launch; since the last poll */
    enum sim_status status;
    struct sim_error error;
    int is_caller;
    _Alignas(64) uint8_t scratch[5][SIM_LANES * 8];
};

struct sim_found {
    struct sim_finding finding;
    uint64_t block;
    uint32_t pc;
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
    struct sim_occupancy occupancy;
    uint64_t resident_limit, soft_limit;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct sim_block *ring, *ring_last, *token, *idle;
    uint64_t ring_count, stalled_turns;
    uint64_t steps_used;
    uint64_t *durations, duration_capacity, active_time; /* sim_occupancy.c, of blocks that ended */
    int stop;
    int64_t last_poll;
    pthread_mutex_t find_lock;
    struct sim_found *found;
    uint64_t found_count, found_lost;
    uint32_t found_capacity;
    struct sim_text *texts; /* sim_printf.c, of blocks that ended */
    size_t text_count, text_capacity;
    uint64_t text_bytes;
    struct sim_release_log *releases; /* sim_races.c */
    struct sim_recorder *recorder;    /* sim_trace.c; NULL: nothing is recorded */
    struct sim_insn *watched;         /* sim_undefined.c; NULL while no warp needs it */
    enum sim_status status;
    struct sim_error error;
};

struct sim_report {
    struct sim_counters total;
    struct sim_line *lines;
    size_t line_count;
    struct sim_finding *findings;
    size_t finding_count;
    struct sim_occupancy occupancy;
    double achieved_occupancy;
    char *output; /* what the kernel printed, or NULL */
    struct sim_recorder *recorder;
};

/* ---- a warp's registers: an operand's 32 lanes, and a predicate's bits ---- */
#define U32(offset) ((sim_u32 *)(void *)(regs + (offset)))
#define U64(offset) ((sim_u64 *)(void *)(regs + (offset)))
#define PRED(offset) (*(sim_u32 *)(void *)(regs + (offset)))

/* Only the lanes of the mask. */
static inline void sim_blend(uint8_t *to, const uint8_t *from, uint32_t mask, uint32_t bytes) {
    if (bytes == 4) {
        sim_u32 *d = (sim_u32 *)(void *)to;
        const sim_u32 *s = (const sim_u32 *)(const void *)from;
        for (uint32_t m = mask; m; m &= m - 1) {
            int i = __builtin_ctz(m);
            d[i] = s[i];
        }
    } else {
        for (uint32_t m = mask; m; m &= m - 1) {
            uint32_t i = (uint32_t)__builtin_ctz(m) * bytes;
            memcpy(to + i, from + i, bytes);
        }
    }
}

/* ---- sim_exec.c ---- */
enum sim_stop sim_exec(struct sim_worker *worker, struct sim_warp *warp, struct sim_split *split,
                       uint64_t budget);

/* ---- sim_exec_lane.c ---- */
void sim_exec_modified(struct sim_worker *w, const struct sim_insn *in, uint8_t *d,
                       const uint8_t *regs);
void sim_exec_special(struct sim_worker *w, const struct sim_warp *warp, const struct sim_insn *in,
                      uint32_t mask, uint8_t *regs);
void sim_exec_carry(const struct sim_insn *in, uint32_t mask, uint8_t *regs);

/* ---- sim_exec_warp.c ---- */
uint32_t sim_exec_members(const struct sim_insn *in, uint32_t mask, const uint8_t *regs,
                          uint32_t *same);
void sim_exec_warp_wide(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                        uint32_t mask, uint32_t members, uint8_t *regs);
void sim_exec_joined(struct sim_worker *w, struct sim_warp *warp, const struct sim_split *split,
                     uint32_t pc, uint32_t mask, uint32_t members);

/* ---- sim_exec_memory.c: 0, or 1 when a finding ends the launch ---- */
int sim_exec_load(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                  uint32_t mask, uint8_t *regs, uint32_t local_base);
int sim_exec_store(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                   uint32_t mask, uint8_t *regs, uint32_t local_base);
int sim_exec_atomic(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                    uint32_t mask, uint8_t *regs);
int sim_exec_copy(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                  uint32_t mask, uint8_t *regs);
int sim_exec_mbarrier(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                      uint32_t mask, uint8_t *regs, int *waits);
int sim_exec_texture(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                     uint32_t mask, uint8_t *regs);
int sim_load_param(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                   uint32_t mask, uint8_t *regs);
int sim_access_lanes(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                     uint32_t *mask, unsigned space, unsigned kind, const uint64_t *address,
                     uint32_t bytes, uint8_t **host);
/* ---- sim_warp.c ---- */
int sim_warp_push(struct sim_split *split, uint32_t pc, uint32_t reconverge, uint32_t mask);
int sim_warp_split_off(struct sim_warp *warp, struct sim_split *split);
int sim_warp_part(struct sim_warp *warp, struct sim_split *split, uint32_t lanes,
                  uint32_t others_pc);
void sim_warp_exit(struct sim_warp *warp, struct sim_split *split, uint32_t mask);
void sim_warp_merge(struct sim_warp *warp);
int sim_warp_sync(struct sim_worker *w, struct sim_warp *warp, struct sim_split *split, uint32_t pc,
                  uint32_t *mask, uint32_t members);
int sim_warp_push_frame(struct sim_split *split, struct sim_frame frame);
int sim_warp_reserve(struct sim_warp *warp, uint64_t regs_bytes, uint64_t local_bytes);
void sim_warp_copy_local(struct sim_warp *warp, uint64_t to, uint64_t from, uint32_t bytes);
void sim_warp_mark_local(struct sim_warp *warp, uint64_t at, uint32_t bytes);
int sim_local_is_valid(const struct sim_warp *warp, uint32_t lane, uint64_t address,
                       uint32_t bytes);
void sim_local_unmark(struct sim_warp *warp, uint32_t lane, uint64_t address, uint32_t bytes);
int sim_block_run(struct sim_worker *w, struct sim_block *block);
struct sim_block *sim_block_new(struct sim_run *run);
void sim_block_free(struct sim_run *run, struct sim_block *block);
/* 0: no memory */
int sim_block_start(struct sim_run *run, struct sim_block *block, uint64_t linear);
enum { SIM_RUN_DONE, SIM_RUN_TURN_OVER, SIM_RUN_WANTS_TOKEN, SIM_RUN_FAILED };
/* ---- sim_barrier.c ---- */
int sim_warp_barrier(struct sim_worker *w, struct sim_warp *warp, struct sim_split *split,
                     const struct sim_insn *in, uint32_t mask, uint8_t *regs);
void sim_barrier_check(struct sim_run *run, struct sim_block *block); /* after an exit */
/* Lanes come to another barrier, or, with no id, to their end. 1: the launch ends. */
int sim_barrier_passed(struct sim_worker *w, struct sim_warp *warp, uint32_t mask, uint32_t id,
                       uint32_t pc);
/* Nobody gets on any more. 1: because of lanes that never came to a barrier. */
int sim_barrier_overdue(struct sim_worker *w, struct sim_block *block);
/* ---- sim_launch.c ---- */
/* last: of this turn. 1: the launch ends. */
int sim_run_poll(struct sim_worker *w, uint64_t steps, int last);
/* Notes a finding; 1 when it ends the launch. */
int sim_find(struct sim_worker *w, const struct sim_warp *warp, uint32_t pc, uint32_t lane,
             enum sim_finding_kind kind, uint64_t address, const struct sim_finding *other,
             const char *format, ...) SIM_PRINTF(8, 9);
const char *sim_where_text(const struct sim_kernel *kernel, uint32_t pc, char *text, size_t bytes);
int sim_find_uninitialised(struct sim_worker *w, const struct sim_warp *warp, uint32_t pc,
                           uint32_t lane, unsigned space, uint32_t bytes, uint64_t address);
/* ---- sim_undefined.c: 0, or 1 when a finding, or a want of memory, ends the launch ---- */
int sim_undefined_division(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                           uint32_t pc, uint32_t mask, const uint8_t *regs);
int sim_undefined_watch(struct sim_worker *w, struct sim_warp *warp, uint32_t pc, uint32_t active,
                        uint8_t *regs); /* before the instruction is executed */
int sim_undefined_frame(struct sim_worker *w, struct sim_warp *warp, uint64_t base, uint64_t bytes,
                        uint32_t mask);
void sim_undefined_free(struct sim_warp *warp);
/* ---- sim_occupancy.c: 0 for no memory ---- */
int sim_occupancy_note(struct sim_run *run, const struct sim_block *block);
int sim_occupancy_achieved(const struct sim_run *run, double *achieved);
/* ---- sim_printf.c: a call of vprintf: 1 when a finding ends the launch; the others: 0 for no
 * memory ---- */
int sim_printf_call(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                    uint32_t pc, uint32_t mask, uint32_t local_base);
/* a call of __assertfail: the same */
int sim_assert_call(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                    uint32_t pc, uint32_t mask, uint32_t local_base);
int sim_printf_note(struct sim_run *run, struct sim_block *block); /* it has ended */
int sim_printf_report(struct sim_run *run, char **text);           /* *text is the caller's */
void sim_printf_close(struct sim_run *run);
/* ---- observers ---- */
void sim_count_access(struct sim_worker *w, const struct sim_access *a);
enum sim_class sim_class_of(const struct sim_kernel *k, uint32_t pc, unsigned *flops,
                            unsigned *precision);
/* 0: no memory */
int sim_count_report(struct sim_run *run, struct sim_worker *workers, unsigned count,
                     struct sim_report *report);
int sim_races_access(struct sim_worker *w, struct sim_warp *warp, const struct sim_access *a);
int sim_races_init(struct sim_run *run, struct sim_block *block);
void sim_races_free(struct sim_block *block);
void sim_races_start(struct sim_run *run, struct sim_block *block);
void sim_races_barrier(struct sim_run *run, struct sim_block *block, uint32_t warps);
void sim_races_warp_sync(struct sim_run *run, struct sim_warp *warp, uint32_t mask);
void sim_races_fence(struct sim_run *run, struct sim_warp *warp, unsigned scope);
struct sim_words { /* that lanes access */
    const uint64_t *address;
    uint32_t mask, bytes;
    int shared; /* memory, not global */
};
/* An atomic or ordered access. */
void sim_races_order(struct sim_run *run, struct sim_warp *warp, unsigned order,
                     const struct sim_words *words, int writes, int reads);
int sim_races_open(struct sim_run *run);
void sim_races_close(struct sim_run *run);
/* ---- sim_trace.c: the observer that records. What a traced block executes is a copy of the code
 * in which SIM_OP_TRACE stands for every instruction, so that other blocks pay nothing for it. ----
 */
enum sim_status sim_trace_open(struct sim_run *run, struct sim_error *error);
void sim_trace_close(struct sim_recorder *recorder);
int sim_trace_records(const struct sim_recorder *recorder, const struct sim_block *block);
const struct sim_insn *sim_trace_code(const struct sim_recorder *recorder);
void sim_trace_instruction(struct sim_worker *w, const struct sim_warp *warp, uint32_t pc,
                           uint32_t active, const uint8_t *regs);
void sim_trace_access(struct sim_recorder *recorder, const struct sim_access *a);
void sim_trace_shuffle(struct sim_recorder *recorder, uint32_t lane, uint32_t from);
void sim_trace_undo(struct sim_recorder *recorder); /* it will be executed again */
void sim_trace_members(struct sim_recorder *recorder, uint32_t mask); /* lanes that joined it */

#endif

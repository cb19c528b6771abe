/* sim_observe.h: the observers of a launch: counters, races, undefined values, occupancy, traces.
 * The executor reports events to them; none of them executes anything.
 */
#ifndef SIM_OBSERVE_H
#define SIM_OBSERVE_H

#include "../core/sim_request.h"

/* ---- sim_counters.c ---- */
void sim_count_access(struct sim_worker *w, const struct sim_access *a);
/* ---- sim_count_report.c ---- */
enum sim_class sim_class_of(const struct sim_kernel *k, uint32_t pc, unsigned *flops,
                            unsigned *precision);
/* returns 0 when out of memory */
int sim_count_report(struct sim_run *run, struct sim_worker *workers, unsigned count,
                     struct sim_report *report);
/* ---- sim_caches.c: returns 0 when out of memory ---- */
struct sim_cached { /* sectors: that reach L1, and hit it; L2; those that only a warm L2 has; those
                       that come from DRAM once more, that pass between partitions, that a warm L2
                       lacks */
    uint64_t l1_sectors, l1_hits, l2_sectors, l2_halves, l2_hits, l2_first, l2_again, l2_far,
        l2_warm;
    int64_t
        l2_moved; /* quarters of sectors that other multiprocessors will read, see sim_caches.c */
    uint64_t tag_passes, waits, first_waits, dram_waits; /* see the counters of these names */
};
int sim_caches_open(struct sim_run *run);
void sim_caches_close(struct sim_run *run);
int sim_caches_start(struct sim_block *block);
void sim_caches_forget(struct sim_block *block);
/* A warp's request touches sectors of a line of 128 bytes; first: the first line of a request. */
void sim_caches_line(struct sim_worker *w, uint32_t warp, uint32_t pc, uint64_t line,
                     uint32_t sectors, int first);
void sim_caches_atomic(struct sim_worker *w, const struct sim_access *a); /* global memory */
void sim_caches_end(struct sim_run *run, struct sim_block *block); /* not under the run's lock */
int sim_caches_lost(const struct sim_run *run);                    /* out of memory */
/* An instruction's, which touched `sectors` in all. */
struct sim_cached sim_caches_of(const struct sim_run *run, uint32_t pc, uint64_t sectors);
void sim_caches_traffic(const struct sim_run *run, struct sim_counters *total);
/* ---- sim_races.c, sim_races_cells.c ---- */
int sim_races_access(struct sim_worker *w, struct sim_warp *warp, const struct sim_access *a);
/* Memory is another owner's from now on. */
void sim_races_forget(struct sim_region *region, uint64_t offset, uint64_t bytes);
int sim_races_init(struct sim_run *run, struct sim_block *block);
void sim_races_free(struct sim_block *block);
void sim_races_start(struct sim_run *run, struct sim_block *block);
void sim_races_barrier(struct sim_run *run, struct sim_block *block, uint32_t warps);
void sim_races_warp_sync(struct sim_run *run, struct sim_warp *warp, uint32_t mask);
void sim_races_step(struct sim_run *run, struct sim_warp *warp);
void sim_races_stored(struct sim_warp *warp);
void sim_races_fence(struct sim_run *run, struct sim_warp *warp, unsigned scope);
struct sim_words { /* words that lanes access */
    const uint64_t *address;
    uint32_t mask, bytes;
    int shared; /* shared memory, not global */
};
/* An atomic or ordered access. */
void sim_races_order(struct sim_run *run, struct sim_warp *warp, unsigned order,
                     const struct sim_words *words, int writes, int reads);
/* Whether the last write to a word of shared memory is ordered before the lane's accesses now. */
int sim_races_follows(const struct sim_warp *warp, uint32_t lane, uint32_t word);
int sim_races_open(struct sim_run *run);
void sim_races_close(struct sim_run *run);
/* ---- sim_undefined.c: returns 0, or 1 when a finding or lack of memory ends the launch ---- */
int sim_undefined_division(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                           uint32_t pc, uint32_t mask, const uint8_t *regs);
int sim_undefined_watch(struct sim_worker *w, struct sim_warp *warp, uint32_t pc, uint32_t active,
                        uint8_t *regs); /* before the instruction is executed */
int sim_undefined_frame(struct sim_worker *w, struct sim_warp *warp, uint64_t base, uint64_t bytes,
                        uint32_t mask);
void sim_undefined_free(struct sim_warp *warp);
/* A lane reads bytes that are not all written; own: the region, of global memory. Returns 1 when
 * out of memory. */
int sim_undefined_load(struct sim_request *l, const struct sim_region *own, uint32_t lane);
/* A store has been made. */
void sim_undefined_store(const struct sim_request *l);
/* A shuffle has been made; from: each lane's source; absent: lanes whose source takes no part.
 * Returns 1 when out of memory, as the next. */
int sim_undefined_shuffle(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                          uint32_t mask, uint32_t absent, const uint8_t *from, const uint8_t *regs);
int sim_undefined_start(struct sim_worker *w, struct sim_warp *warp);
/* ---- sim_occupancy.c: returns 0 when out of memory ---- */
int sim_occupancy_note(struct sim_run *run, const struct sim_block *block);
int sim_occupancy_achieved(const struct sim_run *run, double *achieved, struct sim_spread *spread);
/* ---- sim_trace.c: the observer that records. A traced block runs a copy of the code in which
 * SIM_OP_TRACE replaces every instruction, so other blocks pay nothing. ----
 */
enum { SIM_STATEMENT_BYTES = 201 };
/* Writes a statement from its guard to its semicolon on one line; returns the bytes with the NUL.
 */
size_t sim_trace_statement(const struct sim_module *module, const char *mnemonic, char *to);
enum sim_status sim_trace_open(struct sim_run *run, struct sim_error *error);
void sim_trace_close(struct sim_recorder *recorder);
int sim_trace_records(const struct sim_recorder *recorder, const struct sim_block *block);
const struct sim_insn *sim_trace_code(const struct sim_recorder *recorder);
void sim_trace_instruction(struct sim_worker *w, const struct sim_warp *warp, uint32_t pc,
                           uint32_t active, const uint8_t *regs);
void sim_trace_access(struct sim_recorder *recorder, const struct sim_access *a);
void sim_trace_shuffle(struct sim_recorder *recorder, uint32_t lane, uint32_t from);
void sim_trace_undo(struct sim_recorder *recorder); /* the instruction will execute again */
void sim_trace_members(struct sim_recorder *recorder,
                       uint32_t mask); /* lanes that joined the instruction */

#endif

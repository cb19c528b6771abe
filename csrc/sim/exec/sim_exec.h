/* sim_exec.h: functions that execute instructions. They call observers and know no scheduler. */
#ifndef SIM_EXEC_H
#define SIM_EXEC_H

#include "../core/sim_run.h"

/* ---- sim_exec.c ---- */
enum sim_stop sim_exec(struct sim_worker *worker, struct sim_warp *warp, struct sim_split *split,
                       uint64_t budget);

/* ---- sim_call.c ---- */
/* Returns 1 when the launch ends. */
int sim_call(struct sim_worker *w, struct sim_warp *warp, struct sim_split *split, uint32_t pc,
             uint32_t mask, uint32_t function);
void sim_call_return(struct sim_worker *w, struct sim_warp *warp, struct sim_split *split,
                     uint32_t mask);
/* Lanes that call one function call it together; the others follow, and all meet after the call.
 * Returns 1 when a finding ends the launch, -1 when out of memory. */
int sim_call_indirect(struct sim_worker *w, struct sim_warp *warp, struct sim_split *split,
                      uint32_t pc, uint32_t mask, uint8_t *regs);

/* ---- sim_exec_lane.c ---- */
void sim_exec_modified(struct sim_worker *w, const struct sim_insn *in, uint32_t pc, uint32_t mask,
                       uint8_t *d, const uint8_t *regs);
void sim_exec_special(struct sim_worker *w, const struct sim_warp *warp, const struct sim_insn *in,
                      uint32_t mask, uint8_t *regs);
void sim_exec_carry(const struct sim_insn *in, uint32_t mask, uint8_t *regs);

/* ---- sim_exec_warp.c ---- */
uint32_t sim_exec_members(const struct sim_insn *in, uint32_t mask, const uint8_t *regs,
                          uint32_t *same);
/* sim_exec_matrix.c */
void sim_exec_matrix(const struct sim_run *run, const struct sim_insn *in, uint32_t mask,
                     uint8_t *regs);
void sim_exec_mma(const struct sim_run *run, const struct sim_insn *in, uint32_t mask,
                  uint8_t *regs);
int sim_exec_warp_wide(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                       uint32_t mask, uint32_t members, uint8_t *regs);
int sim_exec_joined(struct sim_worker *w, struct sim_warp *warp, const struct sim_split *split,
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
int sim_exec_heap(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                  uint32_t pc, uint32_t mask, uint32_t local_base);
int sim_load_param(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                   uint32_t mask, uint8_t *regs);
int sim_exec_wait(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                  uint32_t mask);
/* As sim_request_access() of sim_address.h, at given addresses. */
int sim_access_lanes(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                     uint32_t *mask, unsigned space, unsigned kind, const uint64_t *address,
                     uint32_t bytes, uint8_t **host);

/* ---- sim_barrier.c ---- */
int sim_warp_barrier(struct sim_worker *w, struct sim_warp *warp, struct sim_split *split,
                     const struct sim_insn *in, uint32_t mask, uint8_t *regs);
void sim_barrier_check(struct sim_run *run, struct sim_block *block); /* after an exit */
/* Lanes arrive at another barrier or, with no id, at their end. Returns 1 when the launch ends. */
int sim_barrier_passed(struct sim_worker *w, struct sim_warp *warp, uint32_t mask, uint32_t id,
                       uint32_t pc);
/* No thread can proceed. Returns 1 if the cause is lanes that never arrived at a barrier. */
int sim_barrier_overdue(struct sim_worker *w, struct sim_block *block);

/* ---- sim_printf.c: a call of vprintf: returns 1 when a finding ends the launch; the others return
 * 0 when out of memory ---- */
int sim_printf_call(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                    uint32_t pc, uint32_t mask, uint32_t local_base);
/* a call of __assertfail, likewise */
int sim_assert_call(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                    uint32_t pc, uint32_t mask, uint32_t local_base);
int sim_printf_note(struct sim_run *run, struct sim_block *block); /* the block has ended */
int sim_printf_report(struct sim_run *run, char **text);           /* the caller owns *text */
void sim_printf_close(struct sim_run *run);

#endif

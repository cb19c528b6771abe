/* sim_block.h: between a launch (sim_launch.c: which block runs when) and its blocks (sim_block.c).
 */
#ifndef SIM_BLOCK_H
#define SIM_BLOCK_H

#include "core/sim_run.h"

#define SIM_POLL_STEPS 10000u /* warp instructions of a worker between two checks of the clock */

enum { SIM_RUN_DONE, SIM_RUN_TURN_OVER, SIM_RUN_WANTS_TOKEN, SIM_RUN_FAILED };
int sim_block_run(struct sim_worker *w, struct sim_block *block);
struct sim_block *sim_block_new(struct sim_run *run);
void sim_block_free(struct sim_block *block);
/* returns 0 when out of memory */
int sim_block_start(struct sim_run *run, struct sim_block *block, uint64_t linear);

/* Runs one warp until it stops. */
enum sim_stop sim_block_turn(struct sim_worker *w, struct sim_warp *warp);
int sim_warp_blocked(const struct sim_warp *warp); /* it waits for a barrier */
/* No warp of the block can proceed: finds out why. */
int sim_block_stuck(struct sim_worker *w, struct sim_block *block);

/* ---- sim_launch.c ---- */
/* Starts the next block and appends it to the ring. NULL: none left, no room, or out of memory. */
struct sim_block *sim_launch_start(struct sim_run *run, uint64_t limit);
void sim_launch_end(struct sim_worker *w, struct sim_block *block); /* it has ended */
void sim_launch_remove(struct sim_run *run, struct sim_block *block);
void sim_launch_stalled(struct sim_worker *w, struct sim_block *block);
void sim_launch_fail(struct sim_run *run, struct sim_worker *w);
/* ---- sim_order.c: runs a launch in its order ---- */
enum sim_status sim_order_open(struct sim_run *run, struct sim_error *error);
void sim_order_work(struct sim_worker *w);

/* Counts steps and checks budget, clock and poll function; last: the turn's final call. Returns 1
 * when the launch ends. */
int sim_run_poll(struct sim_worker *w, uint64_t steps, int last);
int64_t sim_now_ns(void);

#endif

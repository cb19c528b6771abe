/* sim_block.c: creates blocks and schedules their warps. The order in which warps run depends only
 * on the program, never on the host. Knows no other block.
 */
#include "sim_block.h"

#include "exec/sim_async.h"
#include "exec/sim_exec.h"
#include "observe/sim_observe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define POLL_NS 20000000
#define WARP_BUDGET 20000u
#define STALL_ROUNDS 20000u
#define SPLIT_PATIENCE 64u
#define FAULTY_SECONDS 3.0 /* the most without a warp's end where a line is muted */

/* ---- time, budget, interruption ---- */

int64_t sim_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Ends a launch that has used up its steps or its time, at the first warp of the worker's block
 * that still runs; of several workers one says so. */
static int end_launch(struct sim_worker *w, const char *problem) {
    struct sim_run *run = w->run;
    const struct sim_block *block = w->block;
    if (__atomic_exchange_n(&run->limit_told, 1, __ATOMIC_RELAXED))
        return 1;
    const struct sim_warp *warp = NULL;
    for (uint32_t i = 0; i < block->warp_count && !warp; i++)
        if (!block->warps[i].done && block->warps[i].split_count)
            warp = &block->warps[i];
    uint32_t ptx_line = 0;
    if (warp) {
        const struct sim_split *split = &warp->splits[warp->current % warp->split_count];
        uint32_t pc = split->stack[split->depth - 1].pc;
        while (pc + 1 < run->kernel->code_count && !run->kernel->where[pc].ptx_line)
            pc++; /* past the mark that a basic block begins with */
        ptx_line = run->kernel->where[pc].ptx_line;
        const uint32_t lanes = sim_split_mask(split);
        sim_find(w, warp, pc, lanes ? (uint32_t)__builtin_ctz(lanes) : 0, SIM_FIND_ENDLESS, 0, NULL,
                 "%s", problem);
    }
    w->status = sim_fail(&w->error, SIM_STEPS, ptx_line, 0, "kernel %.120s does not end: %s",
                         run->kernel->title, problem);
    return 1;
}

#define REMEDY \
    "if it is stuck in a loop, mend that; if it only needs longer, pass the launch a larger "

/* Non-zero ends the launch: its steps. */
static int check_steps(struct sim_worker *w, uint64_t used) {
    const struct sim_run *run = w->run;
    const uint64_t limit = run->launch->steps ? run->launch->steps : run->gpu->limits.steps;
    char problem[160];
    if (!limit || used <= limit)
        return 0;
    snprintf(problem, sizeof problem, "it ran more than %llu warp instructions; " REMEDY "steps=",
             (unsigned long long)limit);
    return end_launch(w, problem);
}

/* The same for its time. Where warps end one after the other a launch gets on, however long it is;
 * a loop without an end keeps its warp. */
static int check_time(struct sim_worker *w, int64_t now) {
    struct sim_run *run = w->run;
    const struct sim_launch *launch = run->launch;
    char problem[200];
    if (w->warps_done != w->warps_seen) {
        w->warps_seen = w->warps_done;
        __atomic_store_n(&run->last_end, now, __ATOMIC_RELAXED);
    }
    const double total = (double)(now - run->began) * 1e-9;
    const double idle = (double)(now - __atomic_load_n(&run->last_end, __ATOMIC_RELAXED)) * 1e-9;
    const double most =
        __atomic_load_n(&run->is_muted, __ATOMIC_RELAXED) && launch->idle_seconds > FAULTY_SECONDS
            ? FAULTY_SECONDS
            : launch->idle_seconds;
    if (launch->seconds > 0 && total > launch->seconds)
        snprintf(problem, sizeof problem,
                 "it ran for more than %g s; " REMEDY "time_limit=", launch->seconds);
    else if (launch->idle_seconds > 0 && idle > most)
        snprintf(problem, sizeof problem,
                 "none of its warps ended for %g s; " REMEDY "time_limit= (seconds)", most);
    else
        return 0;
    return end_launch(w, problem);
}

int sim_run_poll(struct sim_worker *w, uint64_t steps, int last) {
    struct sim_run *run = w->run;
    w->steps += steps;
    if (w->steps < SIM_POLL_STEPS && !last)
        return __atomic_load_n(&run->stop, __ATOMIC_RELAXED);
    uint64_t used = __atomic_add_fetch(&run->steps_used, w->steps, __ATOMIC_RELAXED);
    w->polled += w->steps;
    w->steps = 0;
    if (w->block && check_steps(w, used)) /* without a block it waits for those that run one */
        return 1;
    if (w->polled >= SIM_POLL_STEPS) {
        w->polled = 0;
        int64_t now = sim_now_ns();
        if (w->block && check_time(w, now))
            return 1;
        if (w->is_caller && run->launch->poll && now - run->last_poll > POLL_NS) {
            run->last_poll = now;
            pthread_mutex_lock(&run->lock);
            const uint64_t ended = run->next_block - run->ring_count;
            pthread_mutex_unlock(&run->lock);
            if (run->launch->poll(run->launch->poll_arg, ended, run->total_blocks, used)) {
                w->status = sim_fail(&w->error, SIM_INTERRUPTED, 0, 0,
                                     "kernel %.120s was interrupted", run->kernel->title);
                return 1;
            }
        }
    }
    return __atomic_load_n(&run->stop, __ATOMIC_RELAXED);
}

/* ---- running a warp ---- */

static struct sim_split *ready_split(struct sim_warp *warp) {
    for (uint32_t i = 0; i < warp->split_count; i++) {
        uint32_t s = (warp->current + i) % warp->split_count;
        if (warp->splits[s].state == SIM_SPLIT_READY) {
            warp->current = s;
            return &warp->splits[s];
        }
    }
    return NULL;
}

static void end_rejoin(struct sim_warp *warp) {
    sim_warp_merge(warp);
    for (uint32_t s = 0; s < warp->split_count; s++)
        if (warp->splits[s].state == SIM_SPLIT_REJOIN)
            warp->splits[s].state = SIM_SPLIT_READY;
    warp->rotations = 0;
}

static int any_state(const struct sim_warp *warp, enum sim_split_state state) {
    for (uint32_t s = 0; s < warp->split_count; s++)
        if (warp->splits[s].state == state)
            return 1;
    return 0;
}

/* A split yielded: lets the others run, and bounds the wait of splits that wait to rejoin. */
static int rotate(struct sim_worker *w, struct sim_warp *warp, struct sim_split *split) {
    if (split->depth > 1 && split->patience > SPLIT_PATIENCE) {
        split->patience = 0;
        if (!sim_warp_split_off(warp, split)) {
            w->status =
                sim_fail(&w->error, SIM_NO_MEMORY, 0, 0, "out of memory for diverged warps");
            return 0;
        }
    }
    warp->current = (warp->current + 1) % warp->split_count;
    if (warp->split_count > 1 && ++warp->rotations > 8)
        end_rejoin(warp);
    return 1;
}

static enum sim_stop run_warp(struct sim_worker *w, struct sim_warp *warp) {
    for (;;) {
        struct sim_split *split = ready_split(warp);
        if (!split) {
            if (any_state(warp, SIM_SPLIT_REJOIN)) {
                end_rejoin(warp);
                continue;
            }
            if (any_state(warp, SIM_SPLIT_BARRIER))
                return SIM_STOP_BARRIER;
            struct sim_split *first = &warp->splits[0];
            uint32_t pc = first->stack[first->depth - 1].pc;
            sim_find(w, warp, pc, (uint32_t)__builtin_ctz(sim_split_mask(first)),
                     SIM_FIND_WARP_SYNC, 0, NULL,
                     "lanes 0x%08x wait here for lanes 0x%08x, which never come; every lane in the "
                     "member mask has to reach the instruction",
                     sim_split_mask(first), first->wait_mask & warp->live & ~sim_split_mask(first));
            return SIM_STOP_ERROR;
        }
        enum sim_stop stop = sim_exec(w, warp, split, WARP_BUDGET);
        switch (stop) {
        case SIM_STOP_DONE:
            sim_warp_remove_split(warp, split);
            if (!warp->split_count) {
                warp->done = 1;
                return SIM_STOP_DONE;
            }
            break;
        case SIM_STOP_SPLIT:
        case SIM_STOP_BARRIER:
            break;
        case SIM_STOP_YIELD:
        case SIM_STOP_SLICE:
            return rotate(w, warp, split) ? stop : SIM_STOP_ERROR;
        default:
            return stop;
        }
    }
}

/* ---- running a block ---- */

/* Whether the warp waits for a barrier: some lanes wait at one, others may wait for those at a
 * warp-level synchronization. */
int sim_warp_blocked(const struct sim_warp *warp) {
    return any_state(warp, SIM_SPLIT_BARRIER) && !any_state(warp, SIM_SPLIT_READY) &&
           !any_state(warp, SIM_SPLIT_REJOIN);
}

static int deadlock(struct sim_worker *w, struct sim_block *block) {
    if (sim_barrier_overdue(w, block))
        return SIM_RUN_FAILED;
    for (uint32_t i = 0; i < block->warp_count; i++) {
        struct sim_warp *warp = &block->warps[i];
        if (warp->done)
            continue;
        const struct sim_split *split = &warp->splits[0];
        while (split->state != SIM_SPLIT_BARRIER)
            split++;
        const struct sim_barrier *b = &block->barriers[split->barrier];
        uint32_t pc = split->stack[split->depth - 1].pc - 1;
        sim_find(w, warp, pc, (uint32_t)__builtin_ctz(sim_split_mask(split)), SIM_FIND_DEADLOCK, 0,
                 NULL,
                 "every thread of the block that still runs waits at a barrier; barrier %u has %u "
                 "of the %u threads that it needs",
                 split->barrier, b->arrived, b->expected ? b->expected : block->live_threads);
        return SIM_RUN_FAILED;
    }
    return SIM_RUN_DONE;
}

/* Threads that wait at a barrier may have waited for this exit. */
static void note_exit(struct sim_block *block, uint64_t time) {
    block->active_time += time;
    block->duration = block->duration > time ? block->duration : time;
    for (uint32_t i = 0; i < SIM_BARRIERS; i++)
        if (block->barriers[i].arrived && block->barriers[i].time < time)
            block->barriers[i].time = time;
}

static int begin(struct sim_worker *w, struct sim_block *block) {
    w->block = block;
    if (!block->started && w->run->kernel->unassigned_count && w->run->check_uninit)
        for (uint32_t i = 0; i < block->warp_count; i++)
            if (sim_undefined_start(w, &block->warps[i]))
                return 0;
    block->started = 1;
    w->recorder = sim_trace_records(w->run->recorder, block) ? w->run->recorder : NULL;
    return 1;
}

/* Runs a warp until it stops. */
static enum sim_stop run_turn(struct sim_worker *w, struct sim_block *block,
                              struct sim_warp *warp) {
    const uint64_t before = warp->steps;
    const enum sim_stop stop = run_warp(w, warp);
    block->steps += warp->steps - before;
    if (sim_run_poll(w, warp->steps - before, 0))
        return SIM_STOP_ERROR;
    if (stop == SIM_STOP_DONE) {
        w->warps_done++;
        note_exit(block, sim_warp_time(warp));
    }
    if (stop != SIM_STOP_YIELD && stop != SIM_STOP_ERROR && stop != SIM_STOP_TOKEN)
        sim_barrier_check(w->run, block);
    return stop;
}

enum sim_stop sim_block_turn(struct sim_worker *w, struct sim_warp *warp) {
    return begin(w, warp->block) ? run_turn(w, warp->block, warp) : SIM_STOP_ERROR;
}

int sim_block_stuck(struct sim_worker *w, struct sim_block *block) {
    w->block = block;
    return deadlock(w, block);
}

/* No warp of the block can proceed by itself. Returns SIM_RUN_FAILED for a deadlock, TURN_OVER if
 * another block may change that, else SIM_RUN_DONE: the warps go on waiting. */
static int all_yield(struct sim_worker *w, struct sim_block *block, struct sim_warp *warp) {
    block->idle_rounds++;
    if (block->copies_in && sim_copies_count(w, block, SIM_NO_SLOT))
        return SIM_RUN_FAILED;
    if (w->run->kernel->communicates && w->run->total_blocks > 1) {
        block->next_warp++;
        return SIM_RUN_TURN_OVER;
    }
    if (block->idle_rounds <= STALL_ROUNDS)
        return SIM_RUN_DONE;
    if (!sim_barrier_overdue(w, block))
        sim_find(
            w, warp, warp->splits[0].stack[warp->splits[0].depth - 1].pc, 0, SIM_FIND_DEADLOCK, 0,
            NULL,
            "every warp of the block waits in a loop for a value that nobody changes any more");
    return SIM_RUN_FAILED;
}

static int run_block(struct sim_worker *w, struct sim_block *block) {
    uint32_t yields = 0, runnable = 0, idle = 0;
    if (!begin(w, block))
        return SIM_RUN_FAILED;
    if (w->run->kernel->communicates && block->turn_left <= 0)
        return SIM_RUN_TURN_OVER; /* this turn was already run ahead */
    for (;; block->next_warp++) {
        if (block->next_warp >= block->warp_count)
            block->next_warp = 0;
        struct sim_warp *warp = &block->warps[block->next_warp];
        if (warp->done || sim_warp_blocked(warp)) {
            if (++idle >= block->warp_count) { /* a whole round without a runnable warp */
                if (!block->live_threads) {
                    sim_copies_end(w, block);
                    return SIM_RUN_DONE;
                }
                return deadlock(w, block);
            }
            continue;
        }
        idle = 0;
        const enum sim_stop stop = run_turn(w, block, warp);
        switch (stop) {
        case SIM_STOP_ERROR:
            return SIM_RUN_FAILED;
        case SIM_STOP_TOKEN:
            return SIM_RUN_WANTS_TOKEN;
        case SIM_STOP_YIELD:
            yields++;
            break;
        default:
            yields = 0;
            break;
        }
        if (stop == SIM_STOP_YIELD) {
            runnable = 0;
            for (uint32_t i = 0; i < block->warp_count; i++)
                runnable += !block->warps[i].done && !sim_warp_blocked(&block->warps[i]);
            if (yields >= runnable) {
                yields = 0;
                const int result = all_yield(w, block, warp);
                if (result != SIM_RUN_DONE)
                    return result;
            }
        } else {
            block->idle_rounds = 0;
        }
        if (w->run->kernel->communicates && block->turn_left <= 0) {
            block->next_warp++;
            return SIM_RUN_TURN_OVER;
        }
    }
}

int sim_block_run(struct sim_worker *w, struct sim_block *block) {
    int result = run_block(w, block);
    return sim_run_poll(w, 0, 1) ? SIM_RUN_FAILED : result;
}

/* ---- blocks ---- */

void sim_block_free(struct sim_block *block) {
    if (!block)
        return;
    for (uint32_t i = 0; i < block->warp_count && block->warps; i++) {
        struct sim_warp *warp = &block->warps[i];
        for (uint32_t s = 0; s < SIM_LANES && warp->splits; s++) {
            free(warp->splits[s].stack);
            free(warp->splits[s].frames);
        }
        free(warp->splits);
        free(warp->regs);
        free(warp->local);
        free(warp->local_valid);
        sim_copies_free(warp);
        sim_undefined_free(warp);
    }
    sim_races_free(block);
    sim_caches_forget(block);
    free(block->text.data);
    free(block->shared);
    free(block->shared_valid);
    free(block->warps);
    free(block);
}

/* Allocates everything that a block needs, and sets the fields that do not depend on its index. */
struct sim_block *sim_block_new(struct sim_run *run) {
    const struct sim_code_function *cf = &run->kernel->functions[0];
    const uint32_t *dim = run->launch->block;
    uint32_t threads = dim[0] * dim[1] * dim[2];
    struct sim_block *block = calloc(1, sizeof *block);
    if (!block)
        return NULL;
    block->warp_count = run->warps_per_block;
    block->shared_bytes = run->shared_bytes;
    block->warps = calloc(block->warp_count, sizeof *block->warps);
    block->shared = calloc(1, (size_t)run->shared_bytes + 64);
    block->shared_valid = calloc(1, (size_t)run->shared_bytes / 4 + 64);
    if (!block->warps || !block->shared || !block->shared_valid)
        goto fail;
    for (uint32_t i = 0; i < block->warp_count; i++) {
        struct sim_warp *warp = &block->warps[i];
        warp->block = block;
        warp->index = i;
        warp->splits = calloc(SIM_LANES, sizeof *warp->splits);
        if (!warp->splits || !sim_warp_reserve(warp, cf->frame_bytes / 2 + 64, cf->local_bytes / 2))
            goto fail;
        memcpy(warp->regs + cf->const_offset, cf->constants, cf->const_bytes);
        for (uint32_t lane = 0; lane < SIM_LANES; lane++) {
            uint32_t t = i * SIM_LANES + lane;
            warp->tid[0][lane] = t % dim[0];
            warp->tid[1][lane] = t / dim[0] % dim[1];
            warp->tid[2][lane] = t / dim[0] / dim[1];
            warp->start_mask |= t < threads ? 1u << lane : 0;
        }
    }
    if (run->check_races && !sim_races_init(run, block))
        goto fail;
    return block;
fail:
    sim_block_free(block);
    return NULL;
}

int sim_block_start(struct sim_run *run, struct sim_block *block, uint64_t linear) {
    const uint32_t *grid = run->launch->grid;
    const struct sim_code_function *cf = &run->kernel->functions[0];
    block->linear = linear;
    block->index[0] = (uint32_t)(linear % grid[0]);
    block->index[1] = (uint32_t)(linear / grid[0] % grid[1]);
    block->index[2] = (uint32_t)(linear / grid[0] / grid[1]);
    block->live_threads = 0;
    block->next_warp = 0;
    block->steps = block->idle_rounds = block->duration = block->active_time = 0;
    block->has_token = block->wants_token = block->running = block->started = 0;
    memset(block->barriers, 0, sizeof block->barriers);
    block->barriers_begun = 0;
    sim_copies_reset(block);
    memset(block->shared, 0, (size_t)block->shared_bytes);
    memset(block->shared_valid, 0, (size_t)block->shared_bytes / 4 + 1);
    memset(block->shared_valid + run->kernel->reserved_at / 4, 15, /* the system writes zeros */
           run->kernel->reserved_bytes / 4);
    for (uint32_t i = 0; i < block->warp_count; i++) {
        struct sim_warp *warp = &block->warps[i];
        sim_undefined_free(warp);
        warp->live = warp->start_mask;
        warp->done = 0;
        warp->steps = warp->waited = warp->ahead = 0;
        warp->spin_pc = SIM_NO_PC;
        warp->spin_count = warp->current = warp->rotations = warp->late_ids = 0;
        warp->split_count = 1;
        warp->local_top = cf->local_bytes;
        block->live_threads += (uint32_t)__builtin_popcount(warp->live);
        /* temporaries are always written first; registers may be read before a write */
        memset(warp->regs + cf->registers_offset, 0, cf->const_offset - cf->registers_offset);
        if (warp->local_stride)
            memset(warp->local_valid, 0, (size_t)SIM_LANES * (warp->local_stride / 8));
        struct sim_split *split = &warp->splits[0];
        split->depth = split->frame_count = 0;
        split->state = SIM_SPLIT_READY;
        split->patience = 0;
        if (!sim_warp_push_frame(split, (struct sim_frame){0}) ||
            !sim_warp_push(split, 0, SIM_NO_PC, warp->live))
            return 0;
    }
    if (run->check_races)
        sim_races_start(run, block);
    return !run->caches || sim_caches_start(block);
}

/* sim_launch.c: a launch from its arguments to its report: checks, workers, the order of blocks,
 * findings.
 *
 * Blocks that cannot communicate run on any worker in any order. Blocks that can (atomics, volatile
 * or ordered accesses to global memory) form a ring, ordered by block index, and pass a token: only
 * its holder may do such an access, others run ahead until they need to. A turn ends when the block
 * does, when it waits in a loop, or after a fixed number of steps. All of this depends only on the
 * program, so results do not depend on the number of workers, and a block that waits for another
 * never starves it.
 */
#include "sim_block.h"

#include "../float_state.h"
#include "exec/sim_exec.h"
#include "observe/sim_observe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TURN_STEPS 4000000
#define STALLED_ROUNDS 100u /* rounds of the whole ring without one write */

/* ---- which block runs ---- */

static struct sim_block *take_idle(struct sim_run *run) {
    struct sim_block *block = run->idle;
    if (block) {
        run->idle = block->next;
        block->next = NULL;
        return block;
    }
    return sim_block_new(run);
}

struct sim_block *sim_launch_start(struct sim_run *run, uint64_t limit) {
    if (run->next_block >= run->total_blocks || run->ring_count >= limit)
        return NULL;
    struct sim_block *block = take_idle(run);
    if (!block || !sim_block_start(run, block, run->next_block++)) {
        run->stop = 1;
        run->status = sim_fail(&run->error, SIM_NO_MEMORY, 0, 0, "out of memory for another block");
        if (block) {
            block->next = run->idle;
            run->idle = block;
        }
        return NULL;
    }
    block->turn_left = TURN_STEPS;
    if (run->ring_last)
        run->ring_last->next = block;
    else
        run->ring = block;
    run->ring_last = block;
    run->ring_count++;
    if (!run->token && run->kernel->communicates) {
        run->token = block;
        __atomic_store_n(&block->has_token, 1, __ATOMIC_RELEASE);
    }
    if (!run->kernel->communicates)
        __atomic_store_n(&block->has_token, 1, __ATOMIC_RELEASE);
    return block;
}

/* Passes the token to the next block of the ring, starting it if necessary. */
static void pass_token(struct sim_run *run, struct sim_block *from, int over) {
    struct sim_block *next = from->next;
    __atomic_store_n(&from->has_token, 0, __ATOMIC_RELEASE);
    run->token = NULL;
    if (over)
        from->turn_left = TURN_STEPS;
    if (!next)
        next = sim_launch_start(
            run,
            run->resident_limit + (over ? 0 : 1)); /* a finished block counts until it is removed */
    if (!next)
        next = run->ring == from && !over ? from->next : run->ring;
    if (next && (over || next != from)) {
        run->token = next;
        __atomic_store_n(&next->has_token, 1, __ATOMIC_RELEASE);
        next->wants_token = 0;
    }
}

void sim_launch_remove(struct sim_run *run, struct sim_block *block) {
    struct sim_block **at = &run->ring, *before = NULL;
    while (*at != block) {
        before = *at;
        at = &(*at)->next;
    }
    *at = block->next;
    if (run->ring_last == block)
        run->ring_last = before;
    run->ring_count--;
    block->next = run->idle;
    run->idle = block;
}

void sim_launch_fail(struct sim_run *run, struct sim_worker *w) {
    run->stop = 1;
    if (w->status && !run->status) {
        run->status = w->status;
        run->error = w->error;
    }
}

void sim_launch_end(struct sim_worker *w, struct sim_block *block) {
    struct sim_run *run = w->run;
    w->blocks_done++;
    if (!sim_occupancy_note(run, block) || !sim_printf_note(run, block)) {
        w->status = sim_fail(&w->error, SIM_NO_MEMORY, 0, 0, "out of memory for counters");
        sim_launch_fail(run, w);
    }
    run->stalled_turns = 0;
}

void sim_launch_stalled(struct sim_worker *w, struct sim_block *block) {
    struct sim_run *run = w->run;
    const struct sim_warp *warp = &block->warps[0];
    for (uint32_t i = 0; i < block->warp_count && warp->done; i++)
        warp = &block->warps[i];
    const struct sim_split *split = &warp->splits[0];
    sim_find(w, warp, split->stack[split->depth - 1].pc, 0, SIM_FIND_DEADLOCK, 0, NULL,
             "all %llu resident blocks wait for a value that nobody changes any more; "
             "%llu of the grid's %llu blocks were started, %llu fit at once",
             (unsigned long long)run->ring_count, (unsigned long long)run->next_block,
             (unsigned long long)run->total_blocks, (unsigned long long)run->resident_limit);
    run->stop = 1;
}

/* Returns a block to run, or NULL. The caller holds the lock. */
static struct sim_block *pick(struct sim_run *run) {
    if (run->token && !run->token->running)
        return run->token;
    for (struct sim_block *b = run->ring; b; b = b->next)
        if (!b->running && (b->has_token || (!b->wants_token && b->turn_left > 0)))
            return b;
    return sim_launch_start(run, run->soft_limit < run->resident_limit ? run->soft_limit
                                                                       : run->resident_limit);
}

/* No block may run now: waits for a change, 20 ms at most, and polls. The lock is held before and
 * after. */
static void wait_for_change(struct sim_worker *w) {
    struct sim_run *run = w->run;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 20000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(&run->changed, &run->lock, &until);
    pthread_mutex_unlock(&run->lock);
    w->polled = SIM_POLL_STEPS;
    w->block = NULL; /* another worker may be running it */
    const int stopped = sim_run_poll(w, 0, 1);
    pthread_mutex_lock(&run->lock);
    if (stopped)
        sim_launch_fail(run, w);
}

/* A block has ended. If it never needed the token, the next block in the ring is unaffected. */
static void end_block(struct sim_worker *w, struct sim_block *block) {
    struct sim_run *run = w->run;
    sim_launch_end(w, block);
    if (run->token == block) {
        pass_token(run, block, 0);
        if (run->token == block) /* it was the only one */
            run->token = NULL;
    }
    sim_launch_remove(run, block);
    if (run->kernel->communicates && !run->token && run->ring) {
        run->token = run->ring;
        __atomic_store_n(&run->ring->has_token, 1, __ATOMIC_RELEASE);
        run->ring->wants_token = 0;
    }
}

/* A block's turn is over; `wrote`: the worker has stored since it began. */
static void end_turn(struct sim_worker *w, struct sim_block *block, int wrote) {
    struct sim_run *run = w->run;
    if (!block->has_token) { /* it ran its turn ahead: nothing is left to run */
        block->turn_left = 0;
        block->wants_token = 1;
        return;
    }
    pass_token(run, block, 1);
    run->stalled_turns = wrote ? 0 : run->stalled_turns + 1;
    if (run->stalled_turns > STALLED_ROUNDS * (run->ring_count + 1))
        sim_launch_stalled(w, block);
}

static void *work(void *arg) {
    struct sim_worker *w = arg;
    struct sim_run *run = w->run;
    const fenv_t before = float_state_enter_all(); /* a thread's state is its creator's */
    if (run->schedule) {
        sim_order_work(w);
        float_state_leave_all(before);
        return NULL;
    }
    pthread_mutex_lock(&run->lock);
    while (!run->stop && (run->ring || run->next_block < run->total_blocks)) {
        struct sim_block *block = pick(run);
        if (!block) {
            if (run->stop)
                break;
            wait_for_change(w);
            continue;
        }
        block->running = 1;
        pthread_mutex_unlock(&run->lock);
        uint64_t writes = w->writes;
        int result = sim_block_run(w, block);
        if (result == SIM_RUN_DONE && run->caches)
            sim_caches_end(run, block);
        pthread_mutex_lock(&run->lock);
        block->running = 0;
        switch (result) {
        case SIM_RUN_DONE:
            end_block(w, block);
            break;
        case SIM_RUN_TURN_OVER:
            end_turn(w, block, w->writes != writes);
            break;
        case SIM_RUN_WANTS_TOKEN:
            block->wants_token = !block->has_token;
            break;
        default:
            sim_launch_fail(run, w);
            break;
        }
        pthread_cond_broadcast(&run->changed);
    }
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
    float_state_leave_all(before);
    return NULL;
}

/* ---- arguments ---- */

enum { PREFER_L1_SHARED = 16384 }; /* of the 64 KB of a multiprocessor */

/* Checks the grid and the block against the GPU and the kernel; multiplies the counts by theirs. */
static enum sim_status check_sizes(const struct sim_launch *l, const struct sim_preset *p,
                                   uint64_t *threads, uint64_t *blocks, struct sim_error *error) {
    const struct sim_kernel *k = l->kernel;
    const int any = (l->flags & SIM_LAUNCH_ANY_GRID) != 0;
    const uint32_t grid_most[3] = {any ? INT32_MAX : p->grid_x, 65535, any ? 65535 : p->grid_z};
    const uint32_t block_most[3] = {p->threads_per_block, p->threads_per_block, 64};
    for (int i = 0; i < 3; i++) {
        if (!l->grid[i] || l->grid[i] > grid_most[i])
            return sim_fail(error, SIM_ARGUMENT, 0, 0,
                            "kernel %.120s: a grid of (%u, %u, %u) blocks; %s allows from 1 to "
                            "(%u, %u, %u)",
                            k->title, l->grid[0], l->grid[1], l->grid[2], p->title, grid_most[0],
                            grid_most[1], grid_most[2]);
        if (!l->block[i] || l->block[i] > block_most[i])
            return sim_fail(error, SIM_ARGUMENT, 0, 0,
                            "kernel %.120s: a block of (%u, %u, %u) threads; %s allows from 1 to "
                            "(%u, %u, %u)",
                            k->title, l->block[0], l->block[1], l->block[2], p->title,
                            block_most[0], block_most[1], block_most[2]);
        if (!sim_multiply(*threads, l->block[i], threads) ||
            !sim_multiply(*blocks, l->grid[i], blocks))
            return sim_fail(error, SIM_ARGUMENT, 0, 0, "kernel %.120s: the grid is too large",
                            k->title);
    }
    const uint32_t *block = k->function->block;
    if (block[0] && memcmp(l->block, block, sizeof k->function->block) != 0)
        return sim_fail(error, SIM_ARGUMENT, 0, 0,
                        "kernel %.120s: block (%u, %u, %u), but its .reqntid says (%u, %u, %u)",
                        k->title, l->block[0], l->block[1], l->block[2], block[0], block[1],
                        block[2]);
    unsigned most = k->function->max_threads && k->function->max_threads < p->threads_per_block
                        ? k->function->max_threads
                        : p->threads_per_block;
    if (*threads > most)
        return sim_fail(
            error, SIM_ARGUMENT, 0, 0,
            "kernel %.120s: %llu threads per block are more than the %u that it or the GPU allows",
            k->title, (unsigned long long)*threads, most);
    return SIM_OK;
}

static enum sim_status check_launch(struct sim_gpu *gpu, const struct sim_launch *l,
                                    struct sim_run *run, struct sim_error *error) {
    const struct sim_kernel *k = l->kernel;
    const struct sim_preset *p = gpu->preset;
    uint64_t threads = 1, blocks = 1;
    if (!k || k->module->gpu != gpu)
        return sim_fail(error, SIM_ARGUMENT, 0, 0, "the kernel is not of this GPU");
    const enum sim_status status = check_sizes(l, p, &threads, &blocks, error);
    if (status)
        return status;
    run->shared_bytes = l->shared_bytes ? k->dynamic_at + l->shared_bytes : k->shared_bytes;
    const uint64_t shared_bytes = run->shared_bytes - k->reserved_bytes;
    struct sim_preset split = *p;
    if (l->flags & SIM_LAUNCH_PREFER_L1) {
        if (p->cc / 10 != 2 && p->cc / 10 != 3)
            return sim_fail(error, SIM_ARGUMENT, 0, 0,
                            "prefer_l1: %s does not split 64 KB between shared memory and the "
                            "first cache; Fermi and Kepler do: sim:m2090, sim:k40",
                            p->title);
        split.shared_per_sm = split.shared_per_block = PREFER_L1_SHARED;
        p = &split;
    }
    if (shared_bytes > p->shared_per_block)
        return sim_fail(error, SIM_ARGUMENT, 0, 0,
                        "kernel %.120s: %llu bytes of shared memory, static and dynamic, are more "
                        "than the %u of %s",
                        k->title, (unsigned long long)shared_bytes, p->shared_per_block, p->title);
    run->total_blocks = blocks;
    run->warps_per_block = (uint32_t)((threads + SIM_LANES - 1) / SIM_LANES);
    if (sim_occupancy_of(p, (unsigned)threads, k->registers, shared_bytes, &run->occupancy) ||
        !run->occupancy.blocks_per_sm) {
        run->occupancy.blocks_per_sm = 1;
        run->occupancy.warps_per_sm = run->warps_per_block;
    }
    run->resident_limit = (uint64_t)run->occupancy.blocks_per_sm * p->sm_count;
    if ((l->flags & SIM_LAUNCH_COOPERATIVE) && blocks > run->resident_limit)
        return sim_fail(
            error, SIM_ARGUMENT, 0, 0,
            "kernel %.120s: %llu blocks of a cooperative launch do not fit at once; %s holds %llu",
            k->title, (unsigned long long)blocks, p->title,
            (unsigned long long)run->resident_limit);
    if (!l->args && k->param_count && (!l->param_buffer || l->param_buffer_bytes != k->param_bytes))
        return sim_fail(error, SIM_ARGUMENT, 0, 0,
                        "kernel %.120s takes %u bytes of parameters, not %zu", k->title,
                        k->param_bytes, l->param_buffer ? l->param_buffer_bytes : 0);
    return SIM_OK;
}

/* Host memory of one resident block, including what sim_undefined.c keeps of its registers; bounds
 * the number of resident blocks. */
static enum sim_status check_memory(struct sim_run *run, struct sim_error *error) {
    const struct sim_code_function *cf = &run->kernel->functions[0];
    uint64_t warp = 4ull * cf->frame_bytes + 256 + SIM_LANES * (uint64_t)cf->local_bytes * 9 / 8 +
                    SIM_LANES * sizeof(struct sim_split) + 4096;
    uint64_t block = warp * run->warps_per_block + run->shared_bytes * (run->check_races ? 6 : 2) +
                     8192,
             limit = run->gpu->limits.launch_bytes;
    if (block > limit)
        return sim_fail(
            error, SIM_LIMIT, 0, 0,
            "a block of kernel %.120s needs %llu bytes of host memory, more than the limit of %llu",
            run->kernel->title, (unsigned long long)block, (unsigned long long)limit);
    if (run->resident_limit > limit / block)
        run->resident_limit = limit / block;
    return SIM_OK;
}

/* The workspace that a cooperative kernel finds through %envreg1 and 2: its size, then the barrier.
 */
static enum sim_status open_grid_barrier(struct sim_gpu *gpu, struct sim_error *error) {
    enum sim_status status = SIM_OK;
    if (!gpu->grid_sync)
        status = sim_memory_allocate(gpu, 64, 256, 1, &gpu->grid_sync, error);
    if (status)
        return status;
    struct sim_region *region = sim_memory_find(gpu, gpu->grid_sync);
    memset(region->host, 0, 64);
    region->host[0] = 64;
    free(region->valid);
    region->valid = NULL;
    return SIM_OK;
}

/* The memory of an array; NULL: the argument is no address of any. */
static struct sim_region *array_region(struct sim_run *run, const struct sim_array *array) {
    const struct sim_param *param = &run->kernel->params[array->param];
    uint64_t address = 0;
    if (array->param >= run->kernel->param_count || param->size != 8)
        return NULL;
    memcpy(&address, run->params + param->offset, 8);
    return sim_memory_find(run->gpu, address);
}

static enum sim_status open_run(struct sim_run *run, struct sim_error *error) {
    const struct sim_launch *l = run->launch;
    const struct sim_kernel *k = run->kernel;
    run->params = calloc(1, k->param_bytes + 64ull);
    run->muted = calloc(k->code_count + 1ull, sizeof *run->muted);
    if (!run->params || !run->muted)
        return sim_fail(error, SIM_NO_MEMORY, 0, 0, "out of memory for parameters");
    for (uint32_t i = 0; l->args && i < k->param_count; i++)
        memcpy(run->params + k->params[i].offset, l->args[i], k->params[i].size);
    if (!l->args && k->param_bytes)
        memcpy(run->params, l->param_buffer, k->param_bytes);
    for (unsigned i = 0; i < l->array_count; i++) {
        struct sim_region *region = array_region(run, &l->arrays[i]);
        if (region)
            region->is_copy |= l->arrays[i].is_copy != 0;
    }
    if (l->flags & SIM_LAUNCH_COOPERATIVE) {
        enum sim_status status = open_grid_barrier(run->gpu, error);
        if (status)
            return status;
    }
    if (k->allocates) {
        enum sim_status status = sim_heap_open(run->gpu, error);
        if (status)
            return status;
    }
    for (size_t i = 0; i < run->gpu->region_count; i++) {
        struct sim_region *r = &run->gpu->regions[i];
        if (!r->touched)
            r->touched = calloc(1, (size_t)(r->bytes / SIM_SECTOR) + 2);
        else if (run->launch_number % 63 == 0) /* the tags wrap */
            memset(r->touched, 0, (size_t)(r->bytes / SIM_SECTOR) + 2);
        if (!r->touched)
            return sim_fail(error, SIM_NO_MEMORY, 0, 0, "out of memory for counters");
    }
    if (run->check_races && !sim_races_open(run))
        return sim_fail(error, SIM_NO_MEMORY, 0, 0, "out of memory for race detection");
    if ((l->flags & SIM_LAUNCH_CACHES) && !sim_caches_open(run))
        return sim_fail(error, SIM_NO_MEMORY, 0, 0, "out of memory for caches");
    if ((l->seed || l->delays) && sim_order_open(run, error))
        return SIM_NO_MEMORY;
    return l->trace ? sim_trace_open(run, error) : SIM_OK;
}

/* Hands the blocks' steps over, if the longest block has more than 1.05 times the average. */
static void keep_durations(struct sim_run *run, struct sim_spread *spread) {
    const uint64_t blocks = run->total_blocks;
    if (blocks > run->duration_capacity ||
        spread->longest_steps * blocks * 20 <= spread->steps * 21)
        return;
    spread->durations = run->durations;
    spread->duration_count = (size_t)blocks;
    run->durations = NULL;
}

/* returns 0 when out of memory */
static int fill_report(struct sim_run *run, struct sim_worker *workers, unsigned count,
                       struct sim_report *report) {
    int whole = sim_count_report(run, workers, count, report) &&
                sim_occupancy_achieved(run, &report->achieved_occupancy, &report->spread) &&
                sim_printf_report(run, &report->output);
    report->occupancy = run->occupancy;
    keep_durations(run, &report->spread);
    report->steps = run->steps_used;
    if (run->schedule) {
        report->delays = run->schedule->made;
        report->delay_count = run->schedule->made_count;
        run->schedule->made = NULL;
    }
    report->recorder = run->recorder;
    run->recorder = NULL;
    report->findings = calloc(run->found_count + 1, sizeof *report->findings);
    for (uint64_t i = 0; i < run->found_count && report->findings; i++)
        report->findings[report->finding_count++] = run->found[i].finding;
    return whole && report->findings;
}

static enum sim_status run_workers(struct sim_run *run, struct sim_worker *workers,
                                   unsigned count) {
    pthread_t threads[64];
    unsigned started = 0;
    for (unsigned i = 1; i < count; i++) {
        if (pthread_create(&threads[started], NULL, work, &workers[i]))
            break; /* fewer workers do the same work */
        started++;
    }
    work(&workers[0]);
    for (unsigned i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    return run->status;
}

static void close_run(struct sim_run *run) {
    for (struct sim_block *b = run->ring, *next; b; b = next) {
        next = b->next;
        sim_block_free(b);
    }
    for (struct sim_block *b = run->idle, *next; b; b = next) {
        next = b->next;
        sim_block_free(b);
    }
    if (run->check_races)
        sim_races_close(run);
    sim_caches_close(run);
    sim_trace_close(run->recorder);
    if (run->schedule)
        free(run->schedule->made);
    free(run->schedule);
    free(run->watched);
    free(run->params);
    free(run->durations);
    sim_printf_close(run);
    free(run->found);
    free(run->muted);
    pthread_cond_destroy(&run->changed);
    pthread_mutex_destroy(&run->lock);
    pthread_mutex_destroy(&run->find_lock);
}

static void begin_run(struct sim_run *run, struct sim_gpu *gpu, const struct sim_launch *launch) {
    const uint64_t now = sim_now_ns();
    const int races = !(launch->flags & SIM_LAUNCH_NO_RACES);
    *run = (struct sim_run){
        .gpu = gpu,
        .preset = gpu->preset,
        .kernel = launch->kernel,
        .launch = launch,
        .check_races = races,
        .in_step = races && gpu->preset->cc < SIM_CC_VOLTA,
        .check_uninit = !(launch->flags & SIM_LAUNCH_NO_UNINIT),
        .collect = (launch->flags & SIM_LAUNCH_COLLECT) != 0,
        .by_value = (launch->flags & SIM_LAUNCH_BY_VALUE) != 0,
        .wide = sim_lanes_wide(),
        .launch_number = ++gpu->launches,
        .last_poll = now,
        .began = now,
        .last_end = now,
    };
    pthread_mutex_init(&run->lock, NULL);
    pthread_mutex_init(&run->find_lock, NULL);
    pthread_cond_init(&run->changed, NULL);
}

/* Returns whether there is memory for their counters. */
static int open_workers(struct sim_run *run, struct sim_worker *workers, unsigned count) {
    if (!workers)
        return 0;
    memset(workers, 0, count * sizeof *workers);
    int room = 1;
    for (unsigned i = 0; i < count; i++) {
        struct sim_worker *worker = &workers[i];
        worker->run = run;
        worker->is_caller = i == 0;
        worker->pcs = calloc(run->kernel->code_count + 1ull, sizeof *worker->pcs);
        worker->blocks = calloc(run->kernel->block_count + 1ull, sizeof *worker->blocks);
        room = room && worker->pcs && worker->blocks;
    }
    return room;
}

static void close_workers(struct sim_worker *workers, unsigned count) {
    for (unsigned i = 0; i < count && workers; i++) {
        free(workers[i].pcs);
        free(workers[i].blocks);
    }
    free(workers);
}

enum sim_status sim_launch(struct sim_gpu *gpu, const struct sim_launch *launch,
                           struct sim_report **out, struct sim_error *error) {
    struct sim_run run;
    struct sim_report *report = NULL;
    struct sim_worker *workers = NULL;
    unsigned count = launch->host_threads ? launch->host_threads : 1;
    enum sim_status status;
    if (out)
        *out = NULL;
    pthread_mutex_lock(&gpu->lock);
    begin_run(&run, gpu, launch);
    count = launch->seed || launch->delays ? 1 : count > 64 ? 64 : count;
    if ((status = check_launch(gpu, launch, &run, error)) || (status = check_memory(&run, error)) ||
        (status = open_run(&run, error)))
        goto done;
    count = run.total_blocks < count ? (unsigned)run.total_blocks : count;
    run.soft_limit = count == 1 ? 1 : 2ull * count;
    report = calloc(1, sizeof *report);
    workers = aligned_alloc(64, count * sizeof *workers);
    if (!open_workers(&run, workers, count) || !report) {
        status = sim_fail(error, SIM_NO_MEMORY, 0, 0, "out of memory for a launch");
        goto done;
    }
    status = run_workers(&run, workers, count);
    if (status && error)
        *error = run.error;
    sim_findings_settle(&run);
    if (run.found_count) {
        sim_findings_merge(&run);
        if (!run.collect && !status)
            status = sim_fail(error, SIM_FINDING, run.found[0].finding.ptx_line, 0, "%s",
                              run.found[0].finding.text);
    }
    if (!fill_report(&run, workers, count, report) && !status) {
        status = sim_fail(error, SIM_NO_MEMORY, 0, 0, "out of memory for a report");
        goto done;
    }
    if (out) {
        *out = report;
        report = NULL;
    }
done:
    close_workers(workers, count);
    sim_report_free(report);
    close_run(&run);
    pthread_mutex_unlock(&gpu->lock);
    return status;
}

void sim_report_free(struct sim_report *report) {
    if (!report)
        return;
    free(report->lines);
    free(report->statements);
    free(report->statement_texts);
    free(report->findings);
    free(report->output);
    free((void *)(uintptr_t)report->spread.durations);
    free(report->delays);
    sim_trace_close(report->recorder);
    free(report);
}

uint64_t sim_report_steps(const struct sim_report *report) { return report->steps; }

const struct sim_counters *sim_report_counters(const struct sim_report *report) {
    return &report->total;
}

size_t sim_report_statements(const struct sim_report *report, const struct sim_line **statements) {
    *statements = report->statements;
    return report->statement_count;
}

size_t sim_report_lines(const struct sim_report *report, const struct sim_line **lines) {
    *lines = report->lines;
    return report->line_count;
}

size_t sim_report_findings(const struct sim_report *report, const struct sim_finding **findings) {
    *findings = report->findings;
    return report->finding_count;
}

const struct sim_occupancy *sim_report_occupancy(const struct sim_report *report) {
    return &report->occupancy;
}

size_t sim_report_delays(const struct sim_report *report, const struct sim_delay **delays) {
    *delays = report->delays;
    return report->delay_count;
}

const struct sim_spread *sim_report_spread(const struct sim_report *report) {
    return &report->spread;
}

double sim_report_achieved_occupancy(const struct sim_report *report) {
    return report->achieved_occupancy;
}

const char *sim_report_output(const struct sim_report *report) {
    return report->output ? report->output : "";
}

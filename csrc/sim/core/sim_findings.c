/* sim_findings.c: records what the checks find. It keeps one finding per source line and kind, from
 * the lowest block, so that a report does not depend on the order in which the host ran the blocks.
 * Contains no check itself.
 */
#include "sim_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *sim_where_text(const struct sim_kernel *kernel, uint32_t pc, char *text, size_t bytes) {
    const struct sim_where *where = &kernel->where[pc];
    int system;
    const char *file = sim_module_file(kernel->module, where->file, &system);
    if (file && where->line) {
        const char *slash = strrchr(file, '/');
        snprintf(text, bytes, "%s:%u", slash ? slash + 1 : file, where->line);
    } else {
        snprintf(text, bytes, "PTX line %u", where->ptx_line);
    }
    return text;
}

static void set_line(const struct sim_kernel *k, uint32_t pc, struct sim_finding *f) {
    int system;
    f->file = sim_module_file(k->module, k->where[pc].file, &system);
    f->line = f->file ? k->where[pc].line : 0;
    f->ptx_line = k->where[pc].ptx_line;
}

static void set_other_line(const struct sim_kernel *k, struct sim_finding *f) {
    int system;
    if (!f->has_other || f->other_pc == UINT32_MAX)
        return;
    f->other_file = sim_module_file(k->module, k->where[f->other_pc].file, &system);
    f->other_line = f->other_file ? k->where[f->other_pc].line : 0;
    f->other_ptx_line = k->where[f->other_pc].ptx_line;
}

static void fill_finding(struct sim_worker *w, const struct sim_warp *warp, uint32_t pc,
                         uint32_t lane, struct sim_finding *f) {
    const struct sim_kernel *k = w->run->kernel;
    f->kernel = k->function->c_name;
    set_line(k, pc, f);
    for (int i = 0; i < 3; i++) {
        f->block[i] = warp->block->index[i];
        f->thread[i] = warp->tid[i][lane];
    }
    f->times = 1;
}

#define TIMES_MOST 10000u

static void mute(struct sim_run *run, uint32_t pc, enum sim_finding_kind kind) {
    __atomic_fetch_or(&run->muted[pc], 1u << kind, __ATOMIC_RELAXED);
    __atomic_store_n(&run->is_muted, 1, __ATOMIC_RELAXED);
}

/* A source line as one number; an instruction without a line stands for itself. */
uint64_t sim_line_of(const struct sim_kernel *k, uint32_t pc) {
    const struct sim_where *where = &k->where[pc];
    return where->line ? (uint64_t)where->file << 32 | where->line : 1ull << 63 | where->ptx_line;
}

/* The finding of this kind at this line. A race is of two lines, in either order. */
#define LEFT (1ull << 62) /* of a place: a store that left undefined bytes */

static struct sim_found *find_slot(struct sim_run *run, enum sim_finding_kind kind, uint64_t place,
                                   uint64_t other) {
    for (uint64_t i = 0; i < run->found_count; i++) {
        struct sim_found *f = &run->found[i];
        if (f->finding.kind == kind && ((f->place == place && f->other_place == other) ||
                                        (f->place == other && f->other_place == place)))
            return f;
    }
    return NULL;
}

static struct sim_found *add_slot(struct sim_run *run) {
    if (run->found_count == run->gpu->limits.findings) {
        run->found_lost++;
        return NULL;
    }
    struct sim_found *grown = sim_grow(NULL, run->found, &run->found_capacity,
                                       (uint32_t)run->found_count + 1, sizeof *grown);
    if (!grown)
        return NULL;
    run->found = grown;
    run->found[run->found_count] = (struct sim_found){.block = UINT64_MAX};
    return &run->found[run->found_count++];
}

static void write_text(const struct sim_kernel *k, uint32_t pc, struct sim_finding *f,
                       const char *what) {
    char where[120];
    snprintf(f->text, sizeof f->text,
             "%s: %s, in kernel %s at %s, block (%u, %u, %u), thread (%u, %u, %u)",
             sim_finding_text(f->kind), what, k->title, sim_where_text(k, pc, where, sizeof where),
             f->block[0], f->block[1], f->block[2], f->thread[0], f->thread[1], f->thread[2]);
    for (char *p = f->text; *p; p++)
        if ((unsigned char)*p < 32 || (unsigned char)*p > 126)
            *p = '?';
}

/* Swaps the two accesses of a race, except their kinds. */
static void swap_sides(const struct sim_kernel *k, uint32_t pc, struct sim_finding *f) {
    uint32_t block[3], thread[3];
    memcpy(block, f->block, sizeof block);
    memcpy(thread, f->thread, sizeof thread);
    memcpy(f->block, f->other_block, sizeof block);
    memcpy(f->thread, f->other_thread, sizeof thread);
    memcpy(f->other_block, block, sizeof block);
    memcpy(f->other_thread, thread, sizeof thread);
    set_line(k, f->other_pc, f);
    f->other_pc = pc;
}

int sim_find(struct sim_worker *w, const struct sim_warp *warp, uint32_t pc, uint32_t lane,
             enum sim_finding_kind kind, uint64_t address, const struct sim_finding *known,
             const char *format, ...) {
    const struct sim_finding *other = known && known->has_other ? known : NULL;
    struct sim_run *run = w->run;
    struct sim_finding f = {0};
    char what[400];
    va_list list;
    if (sim_is_muted(run, pc, kind))
        return !run->collect;
    uint64_t place = sim_line_of(run->kernel, pc),
             other_place = other && other->other_pc != UINT32_MAX
                               ? sim_line_of(run->kernel, other->other_pc)
                               : place;
    pthread_mutex_lock(&run->find_lock);
    struct sim_found *slot = find_slot(run, kind, place, other_place);
    if (!slot)
        slot = add_slot(run);
    const uint64_t times = slot ? ++slot->finding.times : 0;
    if (times >= TIMES_MOST)
        mute(run, pc, kind);
    if (!slot || slot->block <= warp->block->linear) {
        pthread_mutex_unlock(&run->find_lock);
        return !run->collect;
    }
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    if (known)
        f = *known;
    f.kind = kind;
    f.address = address;
    if (f.space)
        sim_place_of(run, pc, &f);
    fill_finding(w, warp, pc, lane, &f);
    if (other && other->is_first) {
        swap_sides(run->kernel, pc, &f);
        pc = other->other_pc;
        place = sim_line_of(run->kernel, pc);
        other_place = sim_line_of(run->kernel, f.other_pc);
    }
    f.times = times;
    set_other_line(run->kernel, &f);
    write_text(run->kernel, pc, &f, what);
    *slot = (struct sim_found){
        f, warp->block->linear, run->found_order++, place, other_place, NULL, 0, 0};
    pthread_mutex_unlock(&run->find_lock);
    return !run->collect;
}

/* ---- one finding for one mistake ---- */

/* A mistake is reported by its finding of the highest rank. */
static int rank(const struct sim_found *f) {
    return f->finding.kind == SIM_FIND_IN_FLIGHT
               ? 2
               : f->finding.kind == SIM_FIND_SHARED_RACE || f->finding.kind == SIM_FIND_GLOBAL_RACE;
}

static int shares_line(const struct sim_found *a, const struct sim_found *b) {
    return a->place == b->place || a->place == b->other_place || a->other_place == b->place ||
           a->other_place == b->other_place;
}

/* Races of one kind that share a line are one mistake: a barrier that is missing between a store
 * and several loads. If the accesses touch copies in flight, a wait is missing instead. A read that
 * races with the write that it should follow, or precedes it, is no second mistake. */
static int is_same(const struct sim_found *a, const struct sim_found *b) {
    const enum sim_finding_kind to = b->finding.kind;
    if (!rank(a))
        return to == SIM_FIND_UNINITIALISED && a->finding.kind == to && a->place == b->place;
    if (to == SIM_FIND_UNINITIALISED)
        return b->place == a->place || b->place == a->other_place;
    return (a->finding.kind == to || (rank(b) && (rank(a) == 2 || rank(b) == 2))) &&
           shares_line(a, b);
}

/* For a list: in the order of lines, which no schedule changes. */
static int by_line(const void *a, const void *b) {
    const struct sim_found *x = a, *y = b;
    if (x->place != y->place)
        return (x->place > y->place) - (x->place < y->place);
    return x->finding.kind != y->finding.kind ? (int)x->finding.kind - (int)y->finding.kind
                                              : (x->order > y->order) - (x->order < y->order);
}

static int by_block(const void *a, const void *b) {
    const struct sim_found *x = a, *y = b;
    return x->block != y->block ? (x->block > y->block) - (x->block < y->block)
                                : (x->order > y->order) - (x->order < y->order);
}

void sim_findings_merge(struct sim_run *run) {
    struct sim_found *found = run->found;
    const uint64_t count = run->found_count;
    uint32_t *group = malloc((count + 1) * sizeof *group);
    if (!count || !group) {
        free(group);
        return;
    }
    qsort(found, count, sizeof *found, by_block);
    for (uint32_t i = 0; i < count; i++)
        group[i] = i;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < count; j++) {
            const uint32_t from = group[i] > group[j] ? group[i] : group[j],
                           to = group[i] > group[j] ? group[j] : group[i];
            for (uint32_t n = 0; from != to && is_same(&found[i], &found[j]) && n < count; n++)
                group[n] = group[n] == from ? to : group[n];
        }
    uint64_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t first = UINT32_MAX; /* the highest rank stands for the group */
        uint64_t times = 0;
        for (uint32_t n = 0; n < count; n++)
            if (group[n] == group[i]) {
                const int better = first == UINT32_MAX || rank(&found[n]) > rank(&found[first]);
                first = better ? n : first;
                times += found[n].finding.times;
            }
        found[i].kept = first == i ? times : 0;
    }
    for (uint32_t i = 0; i < count; i++)
        if (found[i].kept) {
            found[kept] = found[i];
            found[kept++].finding.times =
                found[i].finding.kind == SIM_FIND_GLOBAL_RACE && run->total_blocks > 1
                    ? 0 /* depends on the host's threads */
                    : found[i].kept;
        }
    run->found_count = kept;
    if (run->collect)
        qsort(found, kept, sizeof *found, by_line);
    free(group);
}

const char *sim_space_name(unsigned space) {
    return space == SIM_S_SHARED  ? "shared"
           : space == SIM_S_LOCAL ? "local"
           : space == SIM_S_PARAM ? "parameter"
                                  : "global";
}

void sim_find_left(struct sim_worker *w, const struct sim_warp *warp, uint32_t pc, uint32_t lane,
                   const struct sim_left *left, unsigned space, uint32_t bytes, uint64_t address) {
    struct sim_run *run = w->run;
    const struct sim_kernel *k = run->kernel;
    const uint64_t place = sim_line_of(k, pc), other = sim_line_of(k, left->pc) | LEFT;
    char what[300], from[200], to[200];
    if (sim_is_muted(run, left->pc, SIM_FIND_UNINITIALISED) || !sim_array_lacks(run, left))
        return;
    pthread_mutex_lock(&run->find_lock);
    struct sim_found *slot = find_slot(run, SIM_FIND_UNINITIALISED, place, other);
    if (!slot && (slot = add_slot(run))) {
        slot->left = calloc(SIM_LEFT_MOST, sizeof *slot->left);
        slot->place = place;
        slot->other_place = other;
        slot->order = run->found_order++;
        slot->finding.kind = SIM_FIND_UNINITIALISED;
    }
    if (slot && slot->block > warp->block->linear) {
        sim_place_text(run, left->pc, SIM_S_GLOBAL, left->address, to, sizeof to);
        if (space == SIM_S_REG)
            snprintf(what, sizeof what, "a variable that was never assigned goes to %s", to);
        else
            snprintf(what, sizeof what, "%u bytes at %s that nobody wrote go to %s", bytes,
                     sim_place_text(run, pc, space, address, from, sizeof from), to);
        const uint64_t times = slot->finding.times;
        fill_finding(w, warp, pc, lane, &slot->finding);
        slot->finding.address = address;
        slot->finding.space = space == SIM_S_REG ? NULL : sim_space_name(space);
        slot->finding.access = slot->finding.space ? "read" : NULL;
        slot->finding.bytes = slot->finding.space ? bytes : 0;
        slot->finding.times = times;
        write_text(k, pc, &slot->finding, what);
        slot->block = warp->block->linear;
    }
    if (slot) {
        if (slot->left && slot->left_count < SIM_LEFT_MOST)
            slot->left[slot->left_count++] = *left;
        if (++slot->finding.times >= TIMES_MOST)
            mute(run, left->pc, SIM_FIND_UNINITIALISED);
    }
    pthread_mutex_unlock(&run->find_lock);
}

/* Drops the findings of undefined bytes that were overwritten later. */
void sim_findings_settle(struct sim_run *run) {
    uint64_t kept = 0;
    for (uint64_t i = 0; i < run->found_count; i++) {
        struct sim_found *f = &run->found[i];
        int remains = !(f->other_place & LEFT) || f->place == f->other_place;
        for (uint32_t n = 0; n < f->left_count && !remains; n++)
            remains = sim_array_lacks(run, &f->left[n]);
        free(f->left);
        f->left = NULL;
        if (remains)
            run->found[kept++] = *f;
    }
    run->found_count = kept;
}

int sim_find_uninitialised(struct sim_worker *w, const struct sim_warp *warp, uint32_t pc,
                           uint32_t lane, unsigned space, uint32_t bytes, uint64_t address) {
    char place[200];
    if (sim_is_muted(w->run, pc, SIM_FIND_UNINITIALISED))
        return !w->run->collect;
    const struct sim_finding known = {
        .space = sim_space_name(space), .access = "read", .bytes = bytes};
    return sim_find(
        w, warp, pc, lane, SIM_FIND_UNINITIALISED, address, &known,
        "read of %u bytes at %s that nobody wrote; store or copy something there first%s", bytes,
        sim_place_text(w->run, pc, space, address, place, sizeof place),
        space == SIM_S_SHARED && warp->block->warp_count > 1
            ? ", and put __syncthreads() between if another warp does"
            : "");
}

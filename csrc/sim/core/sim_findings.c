/* sim_findings.c: records what the checks find. It keeps one finding per instruction and kind, from
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

static void fill_finding(struct sim_worker *w, const struct sim_warp *warp, uint32_t pc,
                         uint32_t lane, struct sim_finding *f) {
    const struct sim_kernel *k = w->run->kernel;
    int system;
    f->kernel = k->function->c_name;
    f->file = sim_module_file(k->module, k->where[pc].file, &system);
    f->line = f->file ? k->where[pc].line : 0;
    f->ptx_line = k->where[pc].ptx_line;
    for (int i = 0; i < 3; i++) {
        f->block[i] = warp->block->index[i];
        f->thread[i] = warp->tid[i][lane];
    }
    f->times = 1;
}

int sim_find(struct sim_worker *w, const struct sim_warp *warp, uint32_t pc, uint32_t lane,
             enum sim_finding_kind kind, uint64_t address, const struct sim_finding *other,
             const char *format, ...) {
    struct sim_run *run = w->run;
    struct sim_finding f = {0};
    char where[120], what[300];
    va_list list;
    pthread_mutex_lock(&run->find_lock);
    for (uint64_t i = 0; i < run->found_count; i++) {
        struct sim_found *old = &run->found[i];
        if (old->pc == pc && old->finding.kind == kind) {
            int earlier = warp->block->linear < old->block;
            old->finding.times++;
            if (!earlier) { /* keep the lowest block's, so that the report does not depend on timing
                             */
                pthread_mutex_unlock(&run->find_lock);
                return !run->collect;
            }
        }
    }
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    if (other)
        f = *other;
    f.kind = kind;
    f.address = address;
    fill_finding(w, warp, pc, lane, &f);
    snprintf(f.text, sizeof f.text,
             "%s: %s, in kernel %.80s at %s, block (%u, %u, %u), thread (%u, %u, %u)",
             sim_finding_text(kind), what, f.kernel,
             sim_where_text(run->kernel, pc, where, sizeof where), f.block[0], f.block[1],
             f.block[2], f.thread[0], f.thread[1], f.thread[2]);
    for (char *p = f.text; *p; p++)
        if ((unsigned char)*p < 32 || (unsigned char)*p > 126)
            *p = '?';
    struct sim_found made = {f, warp->block->linear, pc}, *slot = NULL;
    for (uint64_t i = 0; i < run->found_count; i++)
        if (run->found[i].pc == pc && run->found[i].finding.kind == kind)
            slot = &run->found[i];
    if (slot) {
        made.finding.times = slot->finding.times;
        *slot = made;
    } else if (run->found_count < run->gpu->limits.findings) {
        if (run->found_count == run->found_capacity) {
            uint32_t capacity = run->found_capacity ? run->found_capacity * 2 : 16;
            struct sim_found *grown = realloc(run->found, capacity * sizeof *grown);
            if (grown) {
                run->found = grown;
                run->found_capacity = capacity;
            }
        }
        if (run->found_count < run->found_capacity)
            run->found[run->found_count++] = made;
    } else {
        run->found_lost++;
    }
    pthread_mutex_unlock(&run->find_lock);
    return !run->collect;
}

const char *sim_space_name(unsigned space) {
    return space == SIM_S_SHARED  ? "shared"
           : space == SIM_S_LOCAL ? "local"
           : space == SIM_S_PARAM ? "parameter"
                                  : "global";
}

int sim_find_uninitialised(struct sim_worker *w, const struct sim_warp *warp, uint32_t pc,
                           uint32_t lane, unsigned space, uint32_t bytes, uint64_t address) {
    return sim_find(w, warp, pc, lane, SIM_FIND_UNINITIALISED, address, NULL,
                    "read of %u bytes at %s address 0x%llx that nobody wrote; store or copy "
                    "something there first",
                    bytes, sim_space_name(space), (unsigned long long)address);
}

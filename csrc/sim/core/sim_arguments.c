/* sim_arguments.c: which argument of a launch an access started from, and its index there, for
 * messages. The decoder knows the parameters that an address may come from, the caller describes
 * its arrays. Checks nothing.
 */
#include "sim_run.h"

#include <stdio.h>
#include <string.h>

static const struct sim_array *described(const struct sim_run *run, uint32_t param) {
    for (uint32_t i = 0; i < run->launch->array_count; i++)
        if (run->launch->arrays[i].param == param)
            return &run->launch->arrays[i];
    return NULL;
}

/* An array that holds an address, and where it begins. */
static const struct sim_array *array_at(const struct sim_run *run, uint64_t address,
                                        uint64_t *base) {
    for (uint32_t i = 0; i < run->launch->array_count; i++) {
        const struct sim_array *array = &run->launch->arrays[i];
        const struct sim_param *param = &run->kernel->params[array->param];
        if (array->param >= run->kernel->param_count || param->size != 8 || !array->item)
            continue;
        memcpy(base, run->params + param->offset, 8);
        if (address - *base < array->bytes)
            return array;
    }
    return NULL;
}

static int is_written(const struct sim_region *region, uint64_t address) {
    return address - region->base < region->bytes &&
           sim_memory_is_valid(region, address - region->base, 1);
}

/* In memory of unknown type, bytes beside written ones may be padding. */
int sim_array_lacks(const struct sim_run *run, const struct sim_left *left) {
    uint64_t base = 0;
    const uint64_t end = left->address + left->bytes;
    const struct sim_array *array = array_at(run, left->address, &base);
    const struct sim_region *region = sim_memory_find(run->gpu, left->address);
    if (!region || (!array && (is_written(region, left->address - 1) || is_written(region, end))))
        return 0;
    for (uint64_t at = left->address; at < end; at++) {
        const int is_field = !array || !array->fields || array->fields[(at - base) % array->item];
        if (is_field && at - region->base < region->bytes && !is_written(region, at))
            return 1;
    }
    return 0;
}

static uint64_t distance(const struct sim_pointer *p, uint64_t address) {
    return address < p->base              ? p->base - address
           : address < p->base + p->bytes ? 0
                                          : address - (p->base + p->bytes) + 1;
}

/* The pointer that a word of a parameter holds; 0: none into memory that is allocated. */
static int pointer_of(const struct sim_run *run, uint32_t param, uint64_t value, int is_whole,
                      struct sim_pointer *p) {
    const struct sim_region *region = sim_memory_find(run->gpu, value);
    const struct sim_array *array = is_whole ? described(run, param) : NULL;
    if (!region)
        return 0;
    *p = (struct sim_pointer){.number = param + 1,
                              .base = value,
                              .bytes = region->bytes - (value - region->base),
                              .item = 1};
    if (array) {
        p->bytes = array->bytes;
        p->item = array->item ? array->item : 1;
        p->label = array->label;
    }
    return 1;
}

int sim_pointer_find(const struct sim_run *run, uint64_t from, uint64_t address,
                     struct sim_pointer *found) {
    const struct sim_kernel *k = run->kernel;
    int any = 0;
    for (uint32_t i = 0; i < k->param_count && i < 64; i++) {
        if (!(from >> i & 1))
            continue;
        for (uint32_t at = 0; at + 8 <= k->params[i].size; at += 8) {
            struct sim_pointer p;
            uint64_t value;
            memcpy(&value, run->params + k->params[i].offset + at, 8);
            if (!pointer_of(run, i, value, k->params[i].size == 8, &p))
                continue;
            if (!any || distance(&p, address) < distance(found, address))
                *found = p;
            any = 1;
        }
    }
    return any;
}

/* The module's variable in whose memory an address lies, or NULL. */
static const struct sim_symbol *variable_at(const struct sim_run *run, uint64_t address) {
    const struct sim_symbol *found = NULL;
    for (const struct sim_symbol *s = run->kernel->module->variables; s; s = s->next_in_scope)
        if ((s->space == SIM_S_GLOBAL || s->space == SIM_S_CONST) && s->address <= address &&
            (!found || s->address > found->address))
            found = s;
    return found && sim_memory_find(run->gpu, found->address) == sim_memory_find(run->gpu, address)
               ? found
               : NULL;
}

/* The argument that an address of global memory is in, or was formed from. */
static int argument_of(const struct sim_run *run, uint32_t pc, uint64_t address,
                       struct sim_pointer *p) {
    return sim_pointer_find(run, run->kernel->where[pc].from, address, p) ||
           (sim_pointer_find(run, ~0ull, address, p) && !distance(p, address));
}

void sim_place_of(const struct sim_run *run, uint32_t pc, struct sim_finding *f) {
    struct sim_pointer p;
    if (strcmp(f->space, "global") != 0 || f->extent || !argument_of(run, pc, f->address, &p))
        return;
    f->argument = p.number;
    f->item = (uint32_t)p.item;
    f->offset = (int64_t)(f->address - p.base);
    f->extent = p.bytes;
    snprintf(f->array, sizeof f->array, "%s", p.label ? p.label : "");
}

const char *sim_place_text(const struct sim_run *run, uint32_t pc, unsigned space, uint64_t address,
                           char *text, size_t bytes) {
    struct sim_pointer p;
    const struct sim_symbol *variable;
    if (space != SIM_S_GLOBAL && space != SIM_S_CONST) {
        snprintf(text, bytes, "%s address 0x%llx", sim_space_name(space),
                 (unsigned long long)address);
        return text;
    }
    const int known = argument_of(run, pc, address, &p);
    const int64_t offset = known ? (int64_t)(address - p.base) : 0, item = known ? p.item : 1,
                  element = offset >= 0 ? offset / item : -((item - 1 - offset) / item);
    if (known && p.label)
        snprintf(text, bytes, "element %lld of argument %u (%s)", (long long)element, p.number,
                 p.label);
    else if (known)
        snprintf(text, bytes, "byte %lld of argument %u (%llu bytes)", (long long)element, p.number,
                 (unsigned long long)p.bytes);
    else if ((variable = variable_at(run, address)))
        snprintf(text, bytes, "byte %llu of the variable %.*s (%llu bytes)",
                 (unsigned long long)(address - variable->address),
                 (int)(variable->name.length < 80 ? variable->name.length : 80),
                 variable->name.text, (unsigned long long)variable->bytes);
    else
        snprintf(text, bytes, "global address 0x%llx", (unsigned long long)address);
    return text;
}

/* sim_trace.c: the observer that records one block, instruction by instruction. The executor calls
 * it through SIM_OP_TRACE, which replaces every instruction in the traced block's copy of the code.
 * Only one worker at a time runs that block, so nothing is locked. Draws no conclusion.
 */
#include "sim_observe.h"

#include <stdlib.h>
#include <string.h>

enum { TEXT_MOST = SIM_STATEMENT_BYTES - 1 };

struct sim_recorder {
    const struct sim_kernel *kernel;
    struct sim_trace_request request;
    uint64_t linear; /* index of the block in the grid */
    struct sim_insn *code;
    struct sim_event *events;
    uint32_t count, capacity;
    int open; /* the newest event belongs to the current instruction */
    struct sim_instruction *instructions;
    uint32_t *index; /* pc to instruction */
    char *texts;
    struct sim_trace trace;
};

/* ---- the code's text ---- */

size_t sim_trace_statement(const struct sim_module *module, const char *mnemonic, char *to) {
    const char *from = mnemonic, *end = module->text + module->bytes;
    size_t length = 0;
    while (from > module->text && !strchr(";{}:\n", from[-1]))
        from--;
    if (!memchr(from, '@', (size_t)(mnemonic - from)))
        from = mnemonic;
    for (; from < end && *from != ';' && length < TEXT_MOST; from++) {
        const int blank = *from == ' ' || *from == '\t' || *from == '\n' || *from == '\r';
        if (blank && (!length || to[length - 1] == ' '))
            continue;
        to[length++] = blank ? ' ' : *from < 32 || *from > 126 ? '?' : *from;
    }
    while (length && to[length - 1] == ' ')
        length--;
    to[length] = 0;
    return length + 1;
}

static const char *class_name(enum sim_class class) {
    static const char *const names[] = {
#define SIM_X(id, field) #field,
        SIM_CLASSES(SIM_X)
#undef SIM_X
    };
    return class == SIM_CLASS_NONE ? "other" : names[class] + strlen("inst_");
}

static int is_recorded(const struct sim_kernel *k, uint32_t pc) {
    return k->code[pc].op != SIM_OP_BLOCK && !(k->code[pc].flags & SIM_F_HELPER) &&
           k->where[pc].text;
}

/* Describes every instruction of the program, so that an event stores only an index. */
static int describe(struct sim_recorder *r) {
    const struct sim_kernel *k = r->kernel;
    uint32_t count = 0;
    size_t at = 0;
    for (uint32_t pc = 0; pc < k->code_count; pc++)
        count += (uint32_t)is_recorded(k, pc);
    r->instructions = calloc(count + 1ull, sizeof *r->instructions);
    r->texts = malloc((count + 1ull) * (TEXT_MOST + 1));
    r->index = calloc(k->code_count + 1ull, sizeof *r->index);
    if (!r->instructions || !r->texts || !r->index)
        return 0;
    for (uint32_t pc = 0, function = 0; pc < k->code_count; pc++) {
        struct sim_instruction *made = &r->instructions[r->trace.instruction_count];
        unsigned flops, precision;
        int system;
        while (function + 1 < k->function_count && pc >= k->functions[function].end_pc)
            function++;
        if (!is_recorded(k, pc))
            continue;
        made->text = r->texts + at;
        made->kind = class_name(sim_class_of(k, pc, &flops, &precision));
        made->file = sim_module_file(k->module, k->where[pc].file, &system);
        made->line = made->file ? k->where[pc].line : 0;
        made->ptx_line = k->where[pc].ptx_line;
        made->function = function;
        at += sim_trace_statement(k->module, k->where[pc].text, r->texts + at);
        r->index[pc] = (uint32_t)r->trace.instruction_count++;
    }
    return 1;
}

/* ---- opening and closing ---- */

static enum sim_status check_request(const struct sim_run *run,
                                     const struct sim_trace_request *request,
                                     struct sim_error *error) {
    const uint32_t *grid = run->launch->grid;
    for (int i = 0; i < 3; i++)
        if (request->block[i] >= grid[i])
            return sim_fail(error, SIM_ARGUMENT, 0, 0,
                            "block_index: block (%u, %u, %u) is outside the grid of kernel %.120s, "
                            "which has (%u, %u, %u) blocks",
                            request->block[0], request->block[1], request->block[2],
                            run->kernel->title, grid[0], grid[1], grid[2]);
    if (request->warp < -1 || request->warp >= (int)run->warps_per_block)
        return sim_fail(error, SIM_ARGUMENT, 0, 0,
                        "warp: %d is not one of the %u warps, from 0, of a block of kernel %.120s",
                        request->warp, run->warps_per_block, run->kernel->title);
    return SIM_OK;
}

enum sim_status sim_trace_open(struct sim_run *run, struct sim_error *error) {
    const struct sim_trace_request *request = run->launch->trace;
    const uint32_t *grid = run->launch->grid;
    const struct sim_kernel *k = run->kernel;
    const enum sim_status status = check_request(run, request, error);
    if (status)
        return status;
    struct sim_recorder *r = calloc(1, sizeof *r);
    if (r) {
        run->recorder = r; /* closed with the run or with the report */
        r->kernel = k;
        r->request = *request;
        r->linear = request->block[0] +
                    (uint64_t)grid[0] * (request->block[1] + (uint64_t)grid[1] * request->block[2]);
        memcpy(r->trace.block, request->block, sizeof r->trace.block);
        r->code = calloc(k->code_count + 1ull, sizeof *r->code);
    }
    if (!r || !r->code || !describe(r))
        return sim_fail(error, SIM_NO_MEMORY, 0, 0, "out of memory for a trace");
    for (uint32_t pc = 0; pc < k->code_count; pc++)
        if (k->code[pc].op == SIM_OP_BLOCK)
            r->code[pc] = k->code[pc];
        else /* helpers, too: they execute from the kernel's code */
            r->code[pc].op = SIM_OP_TRACE;
    return SIM_OK;
}

void sim_trace_close(struct sim_recorder *r) {
    if (!r)
        return;
    free(r->code);
    free(r->events);
    free(r->instructions);
    free(r->index);
    free(r->texts);
    free(r);
}

int sim_trace_records(const struct sim_recorder *r, const struct sim_block *block) {
    return r && r->linear == block->linear;
}

const struct sim_insn *sim_trace_code(const struct sim_recorder *r) { return r->code; }

/* ---- events ---- */

static struct sim_event *add_event(struct sim_recorder *r) {
    if (r->count == r->request.most_events) {
        r->trace.truncated = 1;
        return NULL;
    }
    struct sim_event *events =
        sim_grow(NULL, r->events, &r->capacity, r->count + 1, sizeof *events);
    if (!events) { /* a shorter trace; the launch itself is correct */
        r->trace.truncated = 1;
        r->request.most_events = r->count;
        return NULL;
    }
    r->events = events;
    struct sim_event *e = &r->events[r->count++];
    memset(e, 0, sizeof *e);
    return e;
}

void sim_trace_instruction(struct sim_worker *w, const struct sim_warp *warp, uint32_t pc,
                           uint32_t active, const uint8_t *regs) {
    struct sim_recorder *r = w->recorder;
    const struct sim_insn *in = &r->kernel->code[pc];
    r->open = 0;
    if (!is_recorded(r->kernel, pc) ||
        (r->request.warp >= 0 && warp->index != (uint32_t)r->request.warp))
        return;
    struct sim_event *e = add_event(r);
    if (!e)
        return;
    r->open = 1;
    e->instruction = r->index[pc];
    e->warp = warp->index;
    e->active = e->mask = active;
    if (in->flags & SIM_F_GUARD) {
        const uint32_t p = *(const sim_u32 *)(const void *)(regs + in->guard);
        e->mask &= in->flags & SIM_F_GUARD_NOT ? ~p : p;
    }
}

void sim_trace_access(struct sim_recorder *r, const struct sim_access *a) {
    static const uint8_t spaces[SIM_S_COUNT] = {[SIM_S_GLOBAL] = SIM_SPACE_global,
                                                [SIM_S_SHARED] = SIM_SPACE_shared,
                                                [SIM_S_LOCAL] = SIM_SPACE_local,
                                                [SIM_S_CONST] = SIM_SPACE_constant,
                                                [SIM_S_PARAM] = SIM_SPACE_parameter};
    if (!r->open)
        return;
    struct sim_event *e = &r->events[r->count - 1];
    if (e->access != SIM_TRACE_none) { /* a further access of the instruction */
        const struct sim_event before = *e;
        e = add_event(r);
        if (!e)
            return;
        *e = before;
        e->part = before.part < UINT8_MAX ? before.part + 1 : before.part;
    }
    e->mask = a->mask;
    e->bytes = a->bytes;
    e->space = a->in->space == SIM_S_CONST ? SIM_SPACE_constant : spaces[a->space];
    e->access = (uint8_t)(a->kind + SIM_TRACE_load);
    memset(e->address, 0, sizeof e->address);
    for (uint32_t m = a->mask; m; m &= m - 1)
        e->address[__builtin_ctz(m)] = a->address[__builtin_ctz(m)];
    if (a->space == SIM_S_GLOBAL && a->mask) {
        const struct sim_region *region = a->region;
        if (!region)
            region = sim_memory_find(r->kernel->module->gpu, a->address[__builtin_ctz(a->mask)]);
        e->base = region ? region->base : 0;
    }
}

void sim_trace_shuffle(struct sim_recorder *r, uint32_t lane, uint32_t from) {
    if (!r->open)
        return;
    r->events[r->count - 1].access = SIM_TRACE_shuffle;
    r->events[r->count - 1].address[lane] = from;
}

void sim_trace_undo(struct sim_recorder *r) {
    r->count -= (size_t)r->open;
    r->open = 0;
}

void sim_trace_members(struct sim_recorder *r, uint32_t mask) {
    if (!r->open)
        return;
    r->events[r->count - 1].mask = mask;
    r->events[r->count - 1].active |= mask;
}

const struct sim_trace *sim_report_trace(const struct sim_report *report) {
    struct sim_recorder *r = report->recorder;
    if (!r)
        return NULL;
    r->trace.events = r->events;
    r->trace.event_count = r->count;
    r->trace.instructions = r->instructions;
    return &r->trace;
}

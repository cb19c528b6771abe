/* sim_decode.c: turns parsed functions into a kernel that can run. It collects the functions that
 * the kernel calls, lays out shared, local and frame memory, and converts statements to
 * instructions; sim_reconverge.c then finds where diverged lanes meet again.
 *
 * A frame holds 32-lane arrays: temporaries, the function's registers, then its constants. Every
 * operand is therefore a byte offset, and no instruction checks the kind of its operands.
 */
#include "sim_decode.h"
#include "../../demangle.h"
#include "../ptx/sim_parser.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- frames ---- */

/* Broadcasts each constant to 32 lanes once; frames copy the result from `const_offset` on. */
static enum sim_status finish_constants(struct sim_decoder *d, uint32_t first) {
    uint32_t bytes = d->frame_bytes - first;
    uint8_t *image = sim_arena_alloc(d->arena, bytes + 1ull, 1);
    if (!image)
        return sim_decode_no_memory(d);
    for (uint32_t i = 0; i < d->constant_count; i++)
        for (uint32_t lane = 0; lane < SIM_LANES; lane++)
            memcpy(image + (d->constants[i].offset - first) + lane * d->constants[i].bytes,
                   &d->constants[i].bits, d->constants[i].bytes);
    d->cf->constants = image;
    d->cf->const_bytes = bytes;
    d->cf->const_offset = first;
    d->cf->frame_bytes = (d->frame_bytes + 63u) & ~63u;
    return SIM_OK;
}

#define FRAME_MOST (1u << 28)

/* Parameters or results are registers: they live before the first and after the last statement. */
static int has_registers(const struct sim_parsed *f) {
    int any = 0;
    for (uint32_t i = 0; i < f->param_count; i++)
        any |= f->params[i]->in_register != NULL;
    for (uint32_t i = 0; i < f->return_count; i++)
        any |= f->returns[i]->in_register != NULL;
    return any;
}

/* Moves parameters to their registers, or results from them. */
static enum sim_status move_formals(struct sim_decoder *d, struct sim_symbol **list, uint32_t count,
                                    enum sim_op op) {
    enum sim_status status = SIM_OK;
    for (uint32_t i = 0; !status && i < count; i++) {
        const struct sim_symbol *reg = list[i]->in_register;
        if (!reg || reg->reg == UINT32_MAX)
            continue;
        const uint32_t slot = d->slots[reg->reg];
        status = reg->type == SIM_T_PRED
                     ? sim_frame_predicate(d, op, list[i]->address, slot)
                     : sim_frame_access(d, op, reg->type, list[i]->address, slot);
    }
    return status;
}

/* The registers that the kernel's directives leave to a thread. */
static unsigned most_registers(const struct sim_kernel *k) {
    const struct sim_function *f = k->function;
    const unsigned stated = f->max_registers ? f->max_registers : SIM_REGISTERS_MOST;
    if (!f->max_threads)
        return stated;
    const unsigned most = sim_most_registers(k->module->gpu->preset, f->max_threads,
                                             f->min_blocks ? f->min_blocks : 1);
    return most < stated ? most : stated;
}

static enum sim_status lay_out_frame(struct sim_decoder *d) {
    struct sim_parsed *f = d->f;
    uint64_t at = SIM_TEMPS * SIM_LANES * 8;
    d->slots = sim_arena_alloc(&d->scratch, f->reg_count + 1ull, sizeof *d->slots);
    if (!d->slots)
        return sim_decode_no_memory(d);
    if (f->function->cluster_blocks > 1)
        return sim_fail(d->error, SIM_UNSUPPORTED, f->function->line, 1,
                        "PTX line %u: a cluster of %u blocks: the simulated GPU lacks thread-block "
                        "clusters of more than one block (in %.120s)",
                        f->function->line, f->function->cluster_blocks, f->function->c_name);
    d->carry_slot = (uint32_t)at;
    d->cf->registers_offset = (uint32_t)at;
    at += 64;
    uint32_t registers;
    if (has_registers(f) ||
        !sim_allocate_registers(d, &at, &registers)) { /* too large to analyze: one slot each */
        for (uint32_t i = 0; i < f->reg_count && at < FRAME_MOST; i++) {
            uint32_t bytes =
                f->reg_types[i] == SIM_T_PRED ? 4 : sim_storage(f->reg_types[i]) * SIM_LANES;
            at = bytes > 4 ? (at + 63) & ~63ull : at;
            d->slots[i] = (uint32_t)at;
            at += bytes;
        }
        registers = 255;
    }
    if (at >= FRAME_MOST)
        return sim_fail(d->error, SIM_LIMIT, f->function->line, 1,
                        "PTX line %u: %.120s has too many registers", f->function->line,
                        f->function->c_name);
    /* A kernel with calls needs the registers of its deepest call chain; the largest function is
     * the estimate. */
    registers += 2;
    const unsigned most = most_registers(d->kernel); /* the rest is spilled */
    registers = registers > most ? most : registers;
    if (registers > d->kernel->registers)
        d->kernel->registers = registers;
    at = (at + 63) & ~63ull;
    d->frame_bytes = (uint32_t)at;
    d->constants = NULL;
    d->constant_count = d->constant_capacity = 0;
    memset(d->constant_heads, 0xff, sizeof d->constant_heads);
    return SIM_OK;
}

/* ---- mnemonics ---- */

static enum sim_status split_mnemonic(struct sim_decoder *d, struct sim_mnemonic *m) {
    const char *p = d->s->mnemonic.text, *end = p + d->s->mnemonic.length;
    while (p < end) {
        const char *start = p;
        while (p < end && *p != '.')
            p++;
        if (m->count == SIM_MAX_PARTS)
            return sim_refuse(d, "an instruction of too many parts");
        m->parts[m->count++] = (struct sim_name){start, (uint32_t)(p - start)};
        p += p < end;
    }
    return m->count ? SIM_OK : sim_malformed(d, "an instruction without a name");
}

/* Rejects a form that PTX lacks, or that requires a newer target than the module's. */
static enum sim_status check_form(struct sim_decoder *d) {
    const unsigned found = sim_form_target(d->m), target = found & ~SIM_FORM_SPECIFIC;
    const int shown = sim_shown(d->s->mnemonic);
    const char *lacks = sim_form_lacks(d->m, target != 0);
    if (lacks)
        return sim_refuse(d, "unsupported instruction '%.*s': the simulated GPU lacks %s", shown,
                          d->s->mnemonic.text, lacks);
    if (!target)
        return sim_refuse(d, "unsupported instruction '%.*s': there is no such form", shown,
                          d->s->mnemonic.text);
    if (found & SIM_FORM_SPECIFIC && d->module->target && !d->module->specific)
        return sim_refuse(d, "'%.*s' needs .target sm_%ua or another with a letter, not sm_%u",
                          shown, d->s->mnemonic.text, target, d->module->target);
    if (d->module->target && d->module->target < target)
        return sim_refuse(d, "'%.*s' needs .target sm_%u or later, not sm_%u", shown,
                          d->s->mnemonic.text, target, d->module->target);
    return SIM_OK;
}

/* Stores the statement's mnemonic in d->m and d->op. */
static enum sim_status look_up(struct sim_decoder *d) {
    const struct sim_name text = d->s->mnemonic;
    struct sim_known **list = &d->known[sim_hash(text.text, text.length) % SIM_KNOWN], *known;
    for (known = *list; known; known = known->next)
        if (known->text.length == text.length &&
            memcmp(known->text.text, text.text, text.length) == 0)
            break;
    if (!known) {
        known = sim_arena_alloc(&d->scratch, 1, sizeof *known);
        if (!known)
            return sim_decode_no_memory(d);
        enum sim_status status = split_mnemonic(d, &known->m);
        d->m = &known->m;
        if (status || (status = check_form(d)))
            return status;
        known->text = text;
        known->row = sim_find_lane(d, &known->mods);
        known->decode = sim_decode_special(d);
        if (!known->decode)
            known->decode = sim_decode_lane;
        known->next = *list;
        *list = known;
    }
    d->m = &known->m;
    d->op = known;
    return SIM_OK;
}

/* ---- control flow ---- */

/* A call through a register: its lanes may go to different functions, and meet after it. */
static int is_indirect(const struct sim_statement *s) {
    if (!sim_begins_with(s, "call") || !s->count)
        return 0;
    const struct sim_operand *target = &s->operands[s->operands[0].kind == SIM_O_LIST];
    return (s->operands[0].kind != SIM_O_LIST || s->count > 1) && target->kind == SIM_O_REG;
}

static int ends_block(const struct sim_statement *s) {
    static const char *const names[] = {"bra", "ret", "exit", "brx", "trap"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i]);
        if (s->mnemonic.length >= length && memcmp(s->mnemonic.text, names[i], length) == 0 &&
            (s->mnemonic.length == length || s->mnemonic.text[length] == '.'))
            return 1;
    }
    return is_indirect(s);
}

static enum sim_status start_block(struct sim_decoder *d) {
    struct sim_kernel *k = d->kernel;
    struct sim_block_info *blocks =
        sim_grow(d->arena, k->blocks, &d->block_capacity, k->block_count + 1, sizeof *blocks);
    if (!blocks)
        return sim_decode_no_memory(d);
    k->blocks = blocks;
    blocks[k->block_count] = (struct sim_block_info){k->code_count, 0, UINT32_MAX};
    struct sim_insn in = {0};
    in.op = SIM_OP_BLOCK;
    in.ext = k->block_count++;
    in.flags = 0;
    return sim_emit(d, &in);
}

/* Marks the statements that start a basic block, numbered from the kernel's current count. */
static enum sim_status find_blocks(struct sim_decoder *d) {
    struct sim_parsed *f = d->f;
    uint32_t next = d->kernel->block_count;
    d->statement_block = sim_arena_alloc(&d->scratch, f->count + 1ull, sizeof *d->statement_block);
    if (!d->statement_block)
        return sim_decode_no_memory(d);
    for (uint32_t i = 0; i < f->label_count; i++)
        if (f->labels[i].statement <= f->count)
            d->statement_block[f->labels[i].statement] = 1;
    d->statement_block[0] = 1;
    d->statement_block[f->count] = 1; /* the end returns */
    for (uint32_t i = 0; i < f->count; i++)
        if (ends_block(&f->statements[i]))
            d->statement_block[i + 1] = 1;
    for (uint32_t i = 0; i <= f->count; i++)
        d->statement_block[i] = d->statement_block[i] ? next++ : UINT32_MAX;
    d->return_block = next - 1;
    return SIM_OK;
}

static enum sim_status decode_statement(struct sim_decoder *d) {
    d->temp_next = 0;
    const enum sim_status status = look_up(d);
    return status ? status : d->op->decode(d);
}

static enum sim_status decode_function(struct sim_decoder *d) {
    struct sim_parsed *f = d->f;
    struct sim_insn in = {0};
    enum sim_status status = find_blocks(d);
    if (!status)
        status = lay_out_frame(d);
    uint32_t first_constant = d->frame_bytes;
    d->cf->entry_pc = d->kernel->code_count;
    for (uint32_t i = 0; !status && i < f->count; i++) {
        d->s = NULL;
        if (d->statement_block[i] != UINT32_MAX)
            status = start_block(d);
        if (!i && !status)
            status = move_formals(d, f->params, f->param_count, SIM_OP_LD);
        d->s = &f->statements[i];
        if (!status)
            status = decode_statement(d);
    }
    d->s = NULL;
    if (!status)
        status = start_block(d);
    if (!status)
        status = move_formals(d, f->returns, f->return_count, SIM_OP_ST);
    in.op = f->function->is_entry ? SIM_OP_EXIT : SIM_OP_RET;
    in.flags = SIM_F_HELPER;
    if (!status)
        status = sim_emit(d, &in);
    d->cf->end_pc = d->kernel->code_count;
    return status ? status : finish_constants(d, first_constant);
}

/* ---- functions and memory ---- */

static enum sim_status add_function(struct sim_decoder *d, struct sim_function *function) {
    struct sim_parsed **list =
        sim_grow(&d->scratch, d->parsed, &d->parsed_capacity, d->parsed_count + 1, sizeof *list);
    if (!list)
        return sim_decode_no_memory(d);
    d->parsed = list;
    enum sim_status status =
        sim_parse_function(d->module, &d->scratch, function, &list[d->parsed_count], d->error);
    if (status)
        return status;
    list[d->parsed_count]->index = d->parsed_count;
    function->parsed = list[d->parsed_count++];
    return SIM_OK;
}

static enum sim_status collect(struct sim_decoder *d, struct sim_function *f) {
    return f && f->has_body && !f->parsed && !f->is_entry ? add_function(d, f) : SIM_OK;
}

/* Collects the kernel and every function that it may call: by name, by an address that it takes
 * or, if it calls by address, any whose address is a variable's initial value. */
static enum sim_status collect_functions(struct sim_decoder *d) {
    enum sim_status status = add_function(d, d->kernel->function);
    int any = 0;
    for (uint32_t i = 0; !status && i < d->parsed_count; i++) {
        struct sim_parsed *f = d->parsed[i];
        for (uint32_t n = 0; !status && n < f->count; n++) {
            const struct sim_statement *s = &f->statements[n];
            const int indirect = is_indirect(s);
            if (!sim_begins_with(s, "call") && !sim_begins_with(s, "mov"))
                continue;
            for (uint32_t o = 0; !status && o < s->count && !indirect; o++)
                if (s->operands[o].kind == SIM_O_LABEL)
                    status = collect(d, sim_module_function(d->module, s->operands[o].name.text,
                                                            s->operands[o].name.length));
            for (struct sim_function *each = d->module->functions;
                 each && indirect && !any && !status; each = each->next)
                if (each->address_taken)
                    status = collect(d, each);
            any |= indirect;
        }
    }
    return status;
}

static uint64_t align_up(uint64_t at, uint64_t align) {
    return align ? (at + align - 1) & ~(align - 1) : at;
}

/* The system's part of a block's shared memory, as hardware has it since sm_80: cooperative groups
 * keep the barriers of multi-warp tiles there. Only kernels that read its address receive it. */
#define RESERVED_BYTES 1024u

static void note_use(struct sim_operand *o, struct sim_kernel *kernel) {
    if (o->kind == SIM_O_SPECIAL && o->bits >= SIM_SPECIAL_RESERVED_BEGIN &&
        o->bits <= SIM_SPECIAL_RESERVED_1)
        kernel->reserved_bytes = RESERVED_BYTES;
    if (o->symbol)
        o->symbol->user = kernel;
    for (uint32_t i = 0; i < o->count; i++)
        if (o->items[i].symbol)
            o->items[i].symbol->user = kernel;
}

/* Places the module's shared variables that the kernel uses, as ptxas does: a block has no memory
 * for those of other kernels. */
static uint64_t lay_out_module_shared(struct sim_decoder *d) {
    uint64_t shared = 0;
    for (uint32_t i = 0; i < d->parsed_count; i++)
        for (uint32_t n = 0; n < d->parsed[i]->count; n++)
            for (uint32_t o = 0; o < d->parsed[i]->statements[n].count; o++)
                note_use(&d->parsed[i]->statements[n].operands[o], d->kernel);
    for (struct sim_symbol *s = d->module->variables; s; s = s->next_in_scope)
        if (s->space == SIM_S_SHARED && !s->is_extern && s->user == d->kernel) {
            s->address = align_up(shared, s->align);
            shared = s->address + s->bytes;
        }
    return shared;
}

/* The most arguments and results of one call that are registers or constants. */
static uint32_t loose_arguments(const struct sim_parsed *f) {
    uint32_t most = 0;
    for (uint32_t n = 0; n < f->count; n++) {
        const struct sim_statement *s = &f->statements[n];
        uint32_t count = 0;
        for (uint32_t o = 0; sim_begins_with(s, "call") && o < s->count; o++)
            for (uint32_t i = 0; s->operands[o].kind == SIM_O_LIST && i < s->operands[o].count; i++)
                count += s->operands[o].items[i].kind != SIM_O_SYMBOL;
        most = count > most ? count : most;
    }
    return most;
}

static enum sim_status lay_out_memory(struct sim_decoder *d) {
    struct sim_kernel *k = d->kernel;
    uint64_t shared = lay_out_module_shared(d), dynamic_align = 16;
    for (uint32_t i = 0; i < d->parsed_count; i++) {
        struct sim_parsed *f = d->parsed[i];
        uint64_t local = 0;
        for (uint32_t v = 0; v < f->variable_count; v++) {
            struct sim_symbol *symbol = f->variables[v];
            if (symbol->space == SIM_S_SHARED && !symbol->is_extern) {
                symbol->address = align_up(shared, symbol->align);
                shared = symbol->address + symbol->bytes;
            } else if (sim_is_frame_local(symbol)) {
                symbol->address = align_up(local, symbol->align > 8 ? symbol->align : 8);
                local = symbol->address + symbol->bytes;
            }
            if (shared > (1u << 24) || local > d->module->gpu->limits.local_bytes)
                return sim_fail(d->error, SIM_LIMIT, f->function->line, 1,
                                "PTX line %u: %.120s needs too much %s memory", f->function->line,
                                f->function->c_name, shared > (1u << 24) ? "shared" : "local");
        }
        local = align_up(local, 16);
        k->functions[i].scratch = (uint32_t)local;
        k->functions[i].local_bytes = (uint32_t)align_up(local + 8ull * loose_arguments(f), 16);
    }
    if (k->reserved_bytes) {
        k->reserved_at = (uint32_t)align_up(shared, 16);
        shared = k->reserved_at + k->reserved_bytes;
    }
    /* dynamic shared memory begins where static memory ends */
    for (struct sim_symbol *s = d->module->variables; s; s = s->next_in_scope)
        if (s->space == SIM_S_SHARED && s->is_extern && s->align > dynamic_align)
            dynamic_align = s->align;
    k->shared_bytes = shared;
    k->dynamic_at = align_up(shared, dynamic_align);
    for (struct sim_symbol *s = d->module->variables; s; s = s->next_in_scope)
        if (s->space == SIM_S_SHARED && s->is_extern)
            s->address = k->dynamic_at;
    for (uint32_t i = 0; i < d->parsed_count; i++)
        for (uint32_t v = 0; v < d->parsed[i]->variable_count; v++)
            if (d->parsed[i]->variables[v]->space == SIM_S_SHARED &&
                d->parsed[i]->variables[v]->is_extern)
                d->parsed[i]->variables[v]->address = k->dynamic_at;
    return SIM_OK;
}

static enum sim_status lay_out_parameters(struct sim_decoder *d) {
    struct sim_kernel *k = d->kernel;
    struct sim_parsed *f = d->parsed[0];
    uint64_t at = 0;
    k->params = sim_arena_alloc(d->arena, f->param_count + 1ull, sizeof *k->params);
    if (!k->params)
        return sim_decode_no_memory(d);
    for (uint32_t i = 0; i < f->param_count; i++) {
        struct sim_symbol *p = f->params[i];
        at = align_up(at, p->align);
        p->address = at;
        k->params[i] = (struct sim_param){(uint32_t)at, (uint32_t)p->bytes, (uint32_t)p->align,
                                          sim_types[p->type].name};
        at += p->bytes;
        if (at > 32764)
            return sim_fail(d->error, SIM_LIMIT, f->function->line, 1,
                            "PTX line %u: more than 32,764 bytes of parameters", f->function->line);
    }
    k->param_count = f->param_count;
    k->param_bytes = (uint32_t)at;
    for (uint32_t i = 1; i < d->parsed_count; i++) {
        struct sim_code_function *cf = &k->functions[i];
        f = d->parsed[i];
        uint32_t **arrays[] = {&cf->param_offsets, &cf->param_sizes, &cf->return_offsets,
                               &cf->return_sizes};
        for (int a = 0; a < 4; a++)
            if (!(*arrays[a] =
                      sim_arena_alloc(d->arena, (a < 2 ? f->param_count : f->return_count) + 1ull,
                                      sizeof(uint32_t))))
                return sim_decode_no_memory(d);
        cf->param_count = f->param_count;
        cf->return_count = f->return_count;
        for (uint32_t p = 0; p < f->param_count + f->return_count; p++) {
            struct sim_symbol *s =
                p < f->param_count ? f->params[p] : f->returns[p - f->param_count];
            *(p < f->param_count ? &cf->param_offsets[p]
                                 : &cf->return_offsets[p - f->param_count]) = (uint32_t)s->address;
            *(p < f->param_count ? &cf->param_sizes[p] : &cf->return_sizes[p - f->param_count]) =
                (uint32_t)s->bytes;
        }
    }
    return SIM_OK;
}

/* Recursive calls need a stack; without recursion, local memory and frames have a fixed size. */
static enum sim_status decode_all(struct sim_decoder *d) {
    struct sim_kernel *k = d->kernel;
    enum sim_status status = collect_functions(d);
    if (status)
        return status;
    k->functions = sim_arena_alloc(d->arena, d->parsed_count + 1ull, sizeof *k->functions);
    if (!k->functions)
        return sim_decode_no_memory(d);
    k->function_count = d->parsed_count;
    if ((status = sim_find_compared(d)) || (status = sim_find_flow(d)) ||
        (status = lay_out_memory(d)) || (status = lay_out_parameters(d)))
        return status;
    for (uint32_t i = 0; i < d->parsed_count; i++) {
        uint32_t first_block = k->block_count;
        d->f = d->parsed[i];
        d->cf = &k->functions[i];
        d->cf->function = d->f->function;
        if ((status = decode_function(d)) ||
            (status = sim_find_reconvergence(d, first_block, k->block_count)))
            return status;
    }
    return SIM_OK;
}

enum sim_status sim_decode_kernel(struct sim_module *module, struct sim_function *function,
                                  struct sim_kernel **kernel, struct sim_error *error) {
    struct sim_arena arena = {.limit = module->gpu->limits.parse_bytes};
    struct sim_decoder *d = sim_arena_alloc(&arena, 1, sizeof *d);
    struct sim_kernel *k = sim_arena_alloc(&arena, 1, sizeof *k);
    enum sim_status status = SIM_NO_MEMORY;
    if (!d || !k) {
        sim_arena_free(&arena);
        return sim_fail(error, status, 0, 0, "out of memory for kernel %.120s", function->c_name);
    }
    k->module = module;
    k->function = function;
    d->kernel = k;
    d->module = module;
    d->arena = &arena;
    d->error = error;
    d->scratch.limit = module->gpu->limits.parse_bytes;
    status = decode_all(d);
    for (uint32_t i = 0; i < d->parsed_count; i++)
        if (d->parsed[i])
            d->parsed[i]->function->parsed = NULL;
    sim_arena_free(&d->scratch);
    if (status) {
        sim_arena_free(&arena);
        return status;
    }
    demangle_short(function->c_name, k->title, sizeof k->title);
    k->arena = arena;
    *kernel = k;
    return SIM_OK;
}

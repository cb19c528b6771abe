/* sim_decode_special.c: decodes control flow, barriers and warp-wide instructions, one function
 * each. The table at the end finds the function, here or in another file, by the first word of the
 * mnemonic. Executes nothing.
 */
#include "sim_decode.h"
#include "../ptx/sim_parser.h"

#include <stdio.h>
#include <string.h>

static enum sim_status decode_nothing(struct sim_decoder *d) {
    struct sim_insn in = {0};
    in.op = SIM_OP_NOP;
    in.class = SIM_CLASS_MOVE;
    return sim_emit(d, &in);
}

/* ---- control flow ---- */

static enum sim_status block_of(struct sim_decoder *d, const struct sim_operand *o,
                                uint32_t *block) {
    if (o->kind != SIM_O_LABEL)
        return sim_malformed(d, "expected a label");
    uint32_t statement = sim_find_label(d->f, o->name, o->scope);
    if (statement == UINT32_MAX)
        return sim_malformed(d, "no label '%.*s'", sim_shown(o->name), o->name.text);
    *block = d->statement_block[statement];
    return SIM_OK;
}

static enum sim_status decode_bra(struct sim_decoder *d) {
    struct sim_insn in = {0};
    enum sim_status status = sim_operands(d, 1, 1);
    if (status)
        return status;
    in.op = SIM_OP_BRA;
    in.class = SIM_CLASS_CONTROL;
    if ((status = block_of(d, &d->s->operands[0], &in.ext)) != SIM_OK)
        return status;
    return sim_emit(d, &in);
}

static enum sim_status decode_brx(struct sim_decoder *d) {
    struct sim_insn in = {0};
    const struct sim_operand *o = d->s->operands;
    enum sim_status status = sim_operands(d, 2, 2);
    if (status)
        return status;
    if (o[1].kind != SIM_O_SYMBOL || o[1].symbol->kind != SIM_SYM_TABLE ||
        !o[1].symbol->targets->count)
        return sim_malformed(d, "brx.idx needs a list of targets");
    const struct sim_label_list *list = o[1].symbol->targets;
    in.op = SIM_OP_BRX;
    in.class = SIM_CLASS_CONTROL;
    in.imm = list->count;
    if ((status = sim_source(d, &o[0], SIM_T_U32, &in.a)) != SIM_OK)
        return status;
    for (uint32_t i = 0; i < list->count; i++) {
        uint32_t block = 0;
        if ((status = block_of(d, &list->items[i], &block)) != SIM_OK)
            return status;
        if ((status = sim_extra(d, block, i ? NULL : &in.ext)) != SIM_OK)
            return status;
    }
    return sim_emit(d, &in);
}

static enum sim_status decode_ret(struct sim_decoder *d) {
    struct sim_insn in = {0};
    in.class = SIM_CLASS_CONTROL;
    if (d->f->function->is_entry || sim_part_at(d, 0, "exit")) {
        in.op = SIM_OP_EXIT;
    } else { /* all lanes of a call return together, through the function's one exit */
        in.op = SIM_OP_BRA;
        in.ext = d->return_block;
    }
    return sim_emit(d, &in);
}

static enum sim_status decode_trap(struct sim_decoder *d) {
    struct sim_insn in = {0};
    in.op = SIM_OP_TRAP;
    in.class = SIM_CLASS_CONTROL;
    return sim_emit(d, &in);
}

/* The frame-local storage of an argument: a .param variable, or a register that is stored to a
 * temporary one. */
static enum sim_status argument(struct sim_decoder *d, const struct sim_operand *o, uint32_t bytes,
                                uint32_t *offset) {
    if (o->kind == SIM_O_SYMBOL && o->symbol->kind == SIM_SYM_VAR &&
        o->symbol->space == SIM_S_PARAM && !o->symbol->is_entry_param &&
        o->symbol->bytes >= bytes) {
        *offset = (uint32_t)o->symbol->address;
        return SIM_OK;
    }
    return sim_refuse(d, "a call argument that is not a .param variable of the right size");
}

/* An argument that is a register or a constant, or a result that is a register: through a temporary
 * variable of the caller. `used` counts them. */
static enum sim_status loose_argument(struct sim_decoder *d, const struct sim_operand *o,
                                      enum sim_type type, int is_result, uint32_t *used,
                                      uint32_t *offset) {
    uint32_t slot;
    enum sim_status status;
    *offset = d->cf->scratch + 8 * (*used)++;
    if (sim_types[type].bytes > 8 || (is_result && o->kind != SIM_O_REG && o->kind != SIM_O_SINK))
        return sim_refuse(d, "a call's argument or result of type .%s that is no .param variable",
                          sim_types[type].name);
    if (is_result)
        return SIM_OK;
    if (o->kind == SIM_O_REG && o->type == SIM_T_PRED) {
        status = sim_predicate(d, o, &slot);
        return status ? status : sim_frame_predicate(d, SIM_OP_ST, *offset, slot);
    }
    status = sim_source(d, o, type, &slot);
    return status ? status : sim_frame_access(d, SIM_OP_ST, type, *offset, slot);
}

static enum sim_status take_results(struct sim_decoder *d, const struct sim_operand *returns,
                                    const struct sim_parsed *callee, uint32_t used) {
    for (uint32_t n = 0; returns && n < returns->count; n++) {
        const struct sim_operand *o = &returns->items[n];
        const enum sim_type type = callee->returns[n]->type;
        uint32_t dst;
        enum sim_status status;
        if (o->kind == SIM_O_SYMBOL)
            continue;
        const uint32_t offset = d->cf->scratch + 8 * used++;
        if (o->kind == SIM_O_SINK)
            continue;
        if (o->kind == SIM_O_REG && o->type == SIM_T_PRED) {
            if ((status = sim_predicate_target(d, o, &dst)) ||
                (status = sim_frame_predicate(d, SIM_OP_LD, offset, dst)))
                return status;
            continue;
        }
        if ((status = sim_target(d, o, type, &dst)) ||
            (status = sim_frame_access(d, SIM_OP_LD, type, offset, dst)) ||
            (status = sim_finish(d, o, type, dst)))
            return status;
    }
    return SIM_OK;
}

/* malloc and free; blocks share the heap. */
static enum sim_status decode_heap(struct sim_decoder *d, struct sim_name name,
                                   const struct sim_operand *returns,
                                   const struct sim_operand *arguments) {
    struct sim_insn in = {.op = SIM_OP_SYSCALL, .class = SIM_CLASS_CONTROL, .b = SIM_NO_SLOT};
    const int takes = sim_name_is(name, "malloc");
    uint32_t place = 0;
    enum sim_status status;
    if (!arguments || arguments->count != 1 || (takes && (!returns || returns->count != 1)))
        return sim_malformed(d, "'%.*s' takes one argument", sim_shown(name), name.text);
    if ((status = argument(d, &arguments->items[0], 8, &place)) ||
        (takes && (status = argument(d, &returns->items[0], 8, &in.b))))
        return status;
    in.sub = takes ? SIM_CALL_MALLOC : SIM_CALL_FREE;
    in.imm = place;
    d->kernel->communicates = d->kernel->allocates = 1;
    return sim_emit(d, &in);
}

/* extra: the numbers of arguments and results, where each lies, and the bytes of each. */
static enum sim_status indirect_call(struct sim_decoder *d, const struct sim_operand *returns,
                                     const struct sim_operand *target,
                                     const struct sim_operand *arguments) {
    struct sim_insn in = {.op = SIM_OP_CALL, .sub = SIM_CALL_INDIRECT, .class = SIM_CLASS_CONTROL};
    const uint32_t given = arguments ? arguments->count : 0, count = returns ? returns->count : 0;
    enum sim_status status = sim_source(d, target, SIM_T_B64, &in.a);
    if (given > 0xffff || count > 0xffff)
        return sim_malformed(d, "a call with more arguments than any function has");
    if (status || (status = sim_extra(d, given | count << 16, &in.ext)))
        return status;
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t n = 0; n < given + count; n++) {
            const struct sim_operand *item =
                n < given ? &arguments->items[n] : &returns->items[n - given];
            uint32_t offset = 0;
            if ((status = argument(d, item, 0, &offset)) ||
                (status = sim_extra(d, pass ? (uint32_t)item->symbol->bytes : offset, NULL)))
                return status;
        }
    return sim_emit(d, &in);
}

static enum sim_status direct_call(struct sim_decoder *d, const struct sim_parsed *callee,
                                   const struct sim_operand *arguments,
                                   const struct sim_operand *returns) {
    const struct sim_code_function *cf = &d->kernel->functions[callee->index];
    const uint32_t given = cf->param_count, count = given + cf->return_count;
    struct sim_insn in = {.op = SIM_OP_CALL, .class = SIM_CLASS_CONTROL, .imm = callee->index};
    uint32_t used = 0, results = 0;
    enum sim_status status = sim_extra(d, callee->index, &in.ext);
    for (uint32_t n = 0; !status && n < count; n++) {
        const int is_result = n >= given;
        const struct sim_operand *o = is_result ? &returns->items[n - given] : &arguments->items[n];
        const struct sim_symbol *formal =
            is_result ? callee->returns[n - given] : callee->params[n];
        uint32_t offset = 0;
        results = n == given ? used : results;
        status = o->kind == SIM_O_SYMBOL
                     ? argument(d, o, (uint32_t)formal->bytes, &offset)
                     : loose_argument(d, o, formal->type, is_result, &used, &offset);
        if (!status)
            status = sim_extra(d, offset, NULL);
    }
    if (!status)
        status = sim_emit(d, &in);
    return status ? status : take_results(d, returns, callee, results);
}

/* A call of vprintf or __assertfail. */
static enum sim_status system_call(struct sim_decoder *d, struct sim_name name,
                                   const struct sim_operand *returns,
                                   const struct sim_operand *arguments) {
    const int prints = sim_name_is(name, "vprintf");
    struct sim_insn in = {.op = SIM_OP_SYSCALL,
                          .class = SIM_CLASS_CONTROL,
                          .sub = prints ? SIM_CALL_VPRINTF : SIM_CALL_ASSERT,
                          .b = SIM_NO_SLOT};
    enum sim_status status = SIM_OK;
    if (!prints && !sim_name_is(name, "__assertfail"))
        return sim_refuse(d, "a call of '%.*s', which has no body", sim_shown(name), name.text);
    if (returns && returns->count)
        status = argument(d, &returns->items[0], 4, &in.b);
    if (status)
        return status;
    if (prints) { /* address of the format, and above it the arguments' */
        uint32_t places[2];
        if (!arguments || arguments->count != 2)
            return sim_malformed(d, "vprintf takes a format and its arguments' address");
        for (uint32_t n = 0; n < 2; n++)
            if ((status = argument(d, &arguments->items[n], 8, &places[n])) != SIM_OK)
                return status;
        in.imm = (int64_t)((uint64_t)places[1] << 32 | places[0]);
        return sim_emit(d, &in);
    }
    uint32_t place = 0, *index = &in.ext; /* addresses of the expression, the file and the line */
    if (!arguments || arguments->count != 5)
        return sim_malformed(
            d, "__assertfail takes an expression, a file, a line, a function and a size");
    for (uint32_t n = 0; n < 3; n++, index = NULL)
        if ((status = argument(d, &arguments->items[n], n < 2 ? 8 : 4, &place)) ||
            (status = sim_extra(d, place, index)))
            return status;
    return sim_emit(d, &in);
}

static enum sim_status decode_call(struct sim_decoder *d) {
    const struct sim_operand *o = d->s->operands, *returns = NULL, *arguments = NULL;
    enum sim_status status = sim_operands(d, 1, 4);
    if (status)
        return status;
    uint32_t i = 0;
    if (o[0].kind == SIM_O_LIST)
        returns = &o[i++];
    if (i < d->s->count && o[i].kind == SIM_O_REG)
        return indirect_call(d, returns, &o[i],
                             i + 1 < d->s->count && o[i + 1].kind == SIM_O_LIST ? &o[i + 1] : NULL);
    if (i >= d->s->count || o[i].kind != SIM_O_LABEL)
        return sim_malformed(d, "a call of what is neither a function nor a register");
    struct sim_name name = o[i++].name;
    if (i < d->s->count && o[i].kind == SIM_O_LIST)
        arguments = &o[i++];
    struct sim_function *callee = sim_module_function(d->module, name.text, name.length);
    if (!callee)
        return sim_malformed(d, "a call of '%.*s', which is not declared", sim_shown(name),
                             name.text);
    if (!callee->has_body && (sim_name_is(name, "malloc") || sim_name_is(name, "free")))
        return decode_heap(d, name, returns, arguments);
    if (!callee->has_body)
        return system_call(d, name, returns, arguments);
    if (!callee->parsed || callee->is_entry)
        return sim_refuse(d, "a call of the kernel '%.*s'", sim_shown(name), name.text);
    const struct sim_code_function *cf = &d->kernel->functions[callee->parsed->index];
    if ((arguments ? arguments->count : 0) != cf->param_count ||
        (returns ? returns->count : 0) != cf->return_count)
        return sim_malformed(d, "a call of '%.*s' with the wrong number of arguments",
                             sim_shown(name), name.text);
    return direct_call(d, callee->parsed, arguments, returns);
}

/* ---- warp-wide ---- */

struct sim_insn sim_warp_wide(enum sim_op op) {
    return (struct sim_insn){.op = (uint16_t)op,
                             .class = SIM_CLASS_WARP,
                             .dsize = 4,
                             .a = SIM_NO_SLOT,
                             .b = SIM_NO_SLOT,
                             .c = SIM_NO_SLOT,
                             .e = SIM_NO_SLOT,
                             .dst = SIM_NO_SLOT,
                             .dst2 = SIM_NO_SLOT};
}

static enum sim_status member_mask(struct sim_decoder *d, uint32_t index, struct sim_insn *in) {
    if (!sim_part(d, "sync"))
        return d->module->target >= 70
                   ? sim_refuse(d, "'%.*s' without .sync does not exist since sm_70",
                                sim_shown(d->s->mnemonic), d->s->mnemonic.text)
                   : SIM_OK;
    if (index >= d->s->count)
        return sim_malformed(d, "a member mask is missing");
    return sim_source(d, &d->s->operands[index], SIM_T_B32, &in->e);
}

/* Decodes `d, a, b..., mask` or `d|p, a, b..., mask` with `count` sources of one type; a predicate
 * comes back as .pred. */
static enum sim_status decode_wide(struct sim_decoder *d, struct sim_insn in, enum sim_type result,
                                   enum sim_type type, uint32_t count) {
    const struct sim_operand *o = d->s->operands, *to = o;
    uint32_t *const slots[] = {&in.a, &in.b, &in.c};
    enum sim_status status = sim_operands(d, count + 1, count + 2);
    for (uint32_t i = 0; i < count && !status; i++)
        status = type == SIM_T_PRED ? sim_predicate(d, &o[1 + i], slots[i])
                                    : sim_source(d, &o[1 + i], type, slots[i]);
    if (status || (status = member_mask(d, count + 1, &in)))
        return status;
    if (result == SIM_T_PRED) {
        if ((status = sim_predicate_target(d, o, &in.dst)))
            return status;
        if (in.dst == SIM_NO_SLOT)
            in.dst = sim_temp(d);
        return sim_emit(d, &in);
    }
    if (o->kind == SIM_O_PAIR) {
        if (in.op == SIM_OP_VOTE || in.op == SIM_OP_REDUX)
            return sim_malformed(d, "this instruction has no predicate to write");
        to = &o->items[0];
        if ((status = sim_predicate_target(d, &o->items[1], &in.dst2)))
            return status;
    }
    if ((status = sim_target(d, to, result, &in.dst)) || (status = sim_emit(d, &in)))
        return status;
    return sim_finish(d, to, result, in.dst);
}

static enum sim_status decode_shfl(struct sim_decoder *d) {
    struct sim_insn in = sim_warp_wide(SIM_OP_SHFL);
    in.sub = sim_part(d, "up")     ? SIM_SHFL_UP
             : sim_part(d, "down") ? SIM_SHFL_DOWN
             : sim_part(d, "bfly") ? SIM_SHFL_BFLY
                                   : SIM_SHFL_IDX;
    return decode_wide(d, in, SIM_T_B32, SIM_T_B32, 3);
}

static enum sim_status decode_vote(struct sim_decoder *d) {
    struct sim_insn in = sim_warp_wide(SIM_OP_VOTE);
    in.sub = sim_part(d, "all")   ? SIM_VOTE_ALL
             : sim_part(d, "any") ? SIM_VOTE_ANY
             : sim_part(d, "uni") ? SIM_VOTE_UNI
                                  : SIM_VOTE_BALLOT;
    return decode_wide(d, in, in.sub == SIM_VOTE_BALLOT ? SIM_T_B32 : SIM_T_PRED, SIM_T_PRED, 1);
}

static enum sim_status decode_match(struct sim_decoder *d) {
    struct sim_insn in = sim_warp_wide(SIM_OP_MATCH);
    in.type = (uint8_t)sim_last_type(d, 0);
    in.sub = (uint8_t)sim_part(d, "all");
    if (d->s->count && d->s->operands[0].kind == SIM_O_PAIR && !in.sub)
        return sim_malformed(d, "match.any has no predicate to write");
    return decode_wide(d, in, SIM_T_B32, in.type, 1);
}

static enum sim_status decode_redux(struct sim_decoder *d) {
    struct sim_insn in = sim_warp_wide(SIM_OP_REDUX);
    in.type = (uint8_t)sim_last_type(d, 0);
    if (sim_storage(in.type) != 4 || in.type == SIM_T_F32)
        return sim_unsupported(d);
    in.sub = sim_part(d, "add")   ? SIM_ATOM_ADD
             : sim_part(d, "min") ? SIM_ATOM_MIN
             : sim_part(d, "max") ? SIM_ATOM_MAX
             : sim_part(d, "and") ? SIM_ATOM_AND
             : sim_part(d, "or")  ? SIM_ATOM_OR
                                  : SIM_ATOM_XOR;
    return decode_wide(d, in, in.type, in.type, 1);
}

static enum sim_status decode_elect(struct sim_decoder *d) {
    return decode_wide(d, sim_warp_wide(SIM_OP_ELECT), SIM_T_B32, SIM_T_NONE, 0);
}

static enum sim_status decode_movmatrix(struct sim_decoder *d) {
    struct sim_insn in = sim_warp_wide(SIM_OP_MOVMATRIX);
    const struct sim_operand *o = d->s->operands;
    enum sim_status status;
    if ((status = sim_operands(d, 2, 2)) || (status = sim_source(d, &o[1], SIM_T_B32, &in.a)) ||
        (status = sim_constant_slot(d, UINT32_MAX, 4, &in.e)) ||
        (status = sim_target(d, o, SIM_T_B32, &in.dst)) || (status = sim_emit(d, &in)))
        return status;
    return sim_finish(d, o, SIM_T_B32, in.dst);
}

static enum sim_status decode_activemask(struct sim_decoder *d) {
    struct sim_insn in = {0};
    enum sim_status status = sim_operands(d, 1, 1);
    if (status)
        return status;
    in.op = SIM_OP_ACTIVEMASK;
    in.class = SIM_CLASS_WARP;
    in.dsize = 4;
    if ((status = sim_target(d, &d->s->operands[0], SIM_T_B32, &in.dst)) != SIM_OK)
        return status;
    if ((status = sim_emit(d, &in)) != SIM_OK)
        return status;
    return sim_finish(d, &d->s->operands[0], SIM_T_B32, in.dst);
}

/* ---- barriers and fences ---- */

static enum sim_status decode_cluster_barrier(struct sim_decoder *d) {
    struct sim_insn in = {0};
    enum sim_status status;
    if (sim_part(d, "arrive")) /* a cluster is one block: the wait alone does both */
        return decode_nothing(d);
    in.op = SIM_OP_BAR;
    in.class = SIM_CLASS_BARRIER;
    in.sub = SIM_BAR_SYNC;
    in.b = in.c = in.dst = SIM_NO_SLOT;
    if ((status = sim_constant_slot(d, 0, 4, &in.a)) != SIM_OK)
        return status;
    return sim_emit(d, &in);
}

static enum sim_status decode_bar(struct sim_decoder *d) {
    struct sim_insn in = {0};
    const struct sim_operand *o = d->s->operands;
    enum sim_status status;
    if (sim_part(d, "cluster"))
        return decode_cluster_barrier(d);
    if (sim_part(d, "warp")) {
        if ((status = sim_operands(d, 1, 1)) != SIM_OK)
            return status;
        in = sim_warp_wide(SIM_OP_WARPSYNC);
        if ((status = member_mask(d, 0, &in)) != SIM_OK)
            return status;
        in.class = SIM_CLASS_BARRIER;
        return sim_emit(d, &in);
    }
    in.op = SIM_OP_BAR;
    in.class = SIM_CLASS_BARRIER;
    in.b = in.c = in.dst = SIM_NO_SLOT;
    in.vec = sim_part_at(d, 0, "bar") || sim_part(d, "aligned");
    in.sub = sim_part(d, "arrive") ? SIM_BAR_ARRIVE
             : sim_part(d, "popc") ? SIM_BAR_POPC
             : sim_part(d, "and")  ? SIM_BAR_AND
             : sim_part(d, "or")   ? SIM_BAR_OR
                                   : SIM_BAR_SYNC;
    uint32_t n = 0, least = in.sub >= SIM_BAR_POPC ? 3 : in.sub == SIM_BAR_ARRIVE ? 2 : 1;
    if ((status = sim_operands(d, least, in.sub == SIM_BAR_ARRIVE ? 2 : least + 1)) != SIM_OK)
        return status;
    if (in.sub >= SIM_BAR_POPC)
        n = 1;
    if (o[n].kind == SIM_O_INT && o[n].bits > 15)
        return sim_malformed(d, "barrier %llu: there are 16, from 0 to 15",
                             (unsigned long long)o[n].bits);
    if ((status = sim_source(d, &o[n++], SIM_T_U32, &in.a)) != SIM_OK)
        return status;
    if (n < d->s->count - (in.sub >= SIM_BAR_POPC))
        if ((status = sim_source(d, &o[n++], SIM_T_U32, &in.b)) != SIM_OK)
            return status;
    if (in.sub >= SIM_BAR_POPC) {
        if ((status = sim_predicate(d, &o[n], &in.c)) != SIM_OK)
            return status;
        if (in.sub == SIM_BAR_POPC) {
            in.dsize = 4;
            if ((status = sim_target(d, &o[0], SIM_T_U32, &in.dst)) != SIM_OK)
                return status;
        } else {
            if ((status = sim_predicate_target(d, &o[0], &in.dst)) != SIM_OK)
                return status;
        }
    }
    return sim_emit(d, &in);
}

static enum sim_status decode_fence(struct sim_decoder *d) {
    struct sim_insn in = {0};
    in.op = SIM_OP_FENCE;
    in.class = SIM_CLASS_BARRIER;
    in.scope = sim_part(d, "cta") || sim_part(d, "cluster") ? SIM_SCOPE_CTA
               : sim_part(d, "sys")                         ? SIM_SCOPE_SYS
                                                            : SIM_SCOPE_GPU;
    if (sim_part(d, "proxy") || sim_part(d, "mbarrier_init"))
        return decode_nothing(d);
    return sim_emit(d, &in);
}

static enum sim_status decode_nanosleep(struct sim_decoder *d) {
    struct sim_insn in = {0};
    in.op = SIM_OP_NANOSLEEP;
    in.class = SIM_CLASS_CONTROL;
    return sim_emit(d, &in);
}

/* ---- the table ---- */

static const struct {
    const char *name;
    sim_decode_fn decode;
} specials[] = {
    {"ld", sim_decode_ld},
    {"ldu", sim_decode_ld},
    {"st", sim_decode_st},
    {"atom", sim_decode_atom},
    {"red", sim_decode_atom},
    {"cvta", sim_decode_cvta},
    {"isspacep", sim_decode_isspacep},
    {"mapa", sim_decode_mapa},
    {"getctarank", sim_decode_mapa},
    {"prefetch", decode_nothing},
    {"prefetchu", decode_nothing},
    {"applypriority", decode_nothing},
    {"discard", decode_nothing},
    {"createpolicy", sim_decode_createpolicy},
    {"griddepcontrol", decode_nothing},
    {"pmevent", decode_nothing},
    {"setmaxnreg", decode_nothing},
    {"bra", decode_bra},
    {"brx", decode_brx},
    {"ret", decode_ret},
    {"exit", decode_ret},
    {"trap", decode_trap},
    {"brkpt", decode_nothing},
    {"call", decode_call},
    {"shfl", decode_shfl},
    {"vote", decode_vote},
    {"match", decode_match},
    {"redux", decode_redux},
    {"activemask", decode_activemask},
    {"elect", decode_elect},
    {"movmatrix", decode_movmatrix},
    {"ldmatrix", sim_decode_ldmatrix},
    {"mma", sim_decode_mma},
    {"bar", decode_bar},
    {"barrier", decode_bar},
    {"fence", decode_fence},
    {"membar", decode_fence},
    {"nanosleep", decode_nanosleep},
    {"cp", sim_decode_cp},
    {"mbarrier", sim_decode_mbarrier},
    {"tex", sim_decode_tex},
    {"tld4", sim_decode_tex},
    {"suld", sim_decode_surface},
    {"sust", sim_decode_surface},
    {"sured", sim_decode_surface},
    {"txq", sim_decode_query},
    {"suq", sim_decode_query},
    {"istypep", sim_decode_query},
    {"cvt", sim_decode_cvt},
    {"setp", sim_decode_setp},
    {"set", sim_decode_set},
    {"selp", sim_decode_selp},
    {"mov", sim_decode_mov},
    {"addc", sim_decode_carry},
    {"subc", sim_decode_carry},
    {"madc", sim_decode_carry},
};

sim_decode_fn sim_decode_special(const struct sim_decoder *d) {
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
        if (sim_part_at(d, 0, specials[i].name))
            return specials[i].decode;
    if (sim_part(d, "cc"))
        return sim_decode_carry;
    if (sim_decode_packed(d))
        return sim_decode_packed(d);
    return sim_part_at(d, d->m->count - 1, "pred") ? sim_decode_predicate : NULL;
}

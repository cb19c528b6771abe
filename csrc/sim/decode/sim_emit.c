/* sim_emit.c: helpers of every decoder: located errors, parts of a mnemonic, slots of the frame,
 * and appending instructions and extra operands to the kernel. Knows no instruction.
 */
#include "sim_decode.h"
#include "../../demangle.h"

#include <stdio.h>
#include <string.h>

/* ---- errors ---- */

static enum sim_status problem(struct sim_decoder *d, enum sim_status status, const char *format,
                               va_list list) {
    char text[400], function[121], kernel[121];
    vsnprintf(text, sizeof text, format, list);
    return sim_fail(d->error, status, d->s ? d->s->line : 0, d->s ? d->s->column : 0,
                    "PTX line %u, column %u: %s (in %.120s, for kernel %.120s)",
                    d->s ? d->s->line : 0, d->s ? d->s->column : 0, text,
                    d->f ? demangle_short(d->f->function->c_name, function, sizeof function) : "?",
                    demangle_short(d->kernel->function->c_name, kernel, sizeof kernel));
}

enum sim_status sim_refuse(struct sim_decoder *d, const char *format, ...) {
    va_list list;
    va_start(list, format);
    enum sim_status status = problem(d, SIM_UNSUPPORTED, format, list);
    va_end(list);
    return status;
}

enum sim_status sim_malformed(struct sim_decoder *d, const char *format, ...) {
    va_list list;
    va_start(list, format);
    enum sim_status status = problem(d, SIM_SYNTAX, format, list);
    va_end(list);
    return status;
}

enum sim_status sim_decode_no_memory(struct sim_decoder *d) {
    char most[64];
    enum sim_status status =
        sim_arena_why(d->scratch.host_is_full ? &d->scratch : d->arena, most, sizeof most);
    return sim_fail(d->error, status, 0, 0, "decoding kernel %.120s needs more memory than %s",
                    d->kernel->function->c_name, most);
}

int sim_shown(struct sim_name name) { return (int)(name.length > 80 ? 80 : name.length); }

enum sim_status sim_unsupported(struct sim_decoder *d) {
    const char *lacks = sim_form_lacks(d->m, 0);
    if (lacks)
        return sim_refuse(d, "unsupported instruction '%.*s': the simulated GPU lacks %s",
                          sim_shown(d->s->mnemonic), d->s->mnemonic.text, lacks);
    return sim_refuse(d, "unsupported instruction '%.*s'", sim_shown(d->s->mnemonic),
                      d->s->mnemonic.text);
}

enum sim_status sim_operands(struct sim_decoder *d, uint32_t least, uint32_t most) {
    if (d->s->count < least || d->s->count > most)
        return sim_malformed(d, "'%.*s' takes %u to %u operands, not %u", sim_shown(d->s->mnemonic),
                             d->s->mnemonic.text, least, most, d->s->count);
    return SIM_OK;
}

/* ---- mnemonics and labels ---- */

int sim_part_at(const struct sim_decoder *d, uint32_t i, const char *text) {
    return i < d->m->count && sim_name_is(d->m->parts[i], text);
}

int sim_part(const struct sim_decoder *d, const char *text) {
    for (uint32_t i = 1; i < d->m->count; i++)
        if (sim_name_is(d->m->parts[i], text))
            return 1;
    return 0;
}

enum sim_type sim_last_type(const struct sim_decoder *d, uint32_t from_end) {
    if (from_end >= d->m->count)
        return SIM_T_NONE;
    struct sim_name part = d->m->parts[d->m->count - 1 - from_end];
    return sim_type_find(part.text, part.length);
}

unsigned sim_modifiers(const struct sim_decoder *d) {
    return (sim_part(d, "rz")   ? 1u
            : sim_part(d, "rm") ? 2u
            : sim_part(d, "rp") ? 3u
                                : 0u) |
           (sim_part(d, "ftz") ? SIM_M_FTZ : 0u) | (sim_part(d, "sat") ? SIM_M_SAT : 0u) |
           (sim_part(d, "relu") ? SIM_M_RELU : 0u);
}

int sim_begins_with(const struct sim_statement *s, const char *word) {
    size_t n = strlen(word);
    return s->mnemonic.length >= n && memcmp(s->mnemonic.text, word, n) == 0 &&
           (s->mnemonic.length == n || s->mnemonic.text[n] == '.');
}

int sim_has_part(const struct sim_statement *s, const char *part) {
    size_t n = strlen(part);
    for (uint32_t i = 0; i + n <= s->mnemonic.length; i++)
        if (memcmp(s->mnemonic.text + i, part, n) == 0)
            return 1;
    return 0;
}

uint32_t sim_find_label(const struct sim_parsed *f, struct sim_name name, uint32_t scope) {
    for (; scope != UINT32_MAX; scope = f->scope_parent[scope])
        for (uint32_t i = 0; i < f->label_count; i++)
            if (f->labels[i].scope == scope && f->labels[i].name.length == name.length &&
                memcmp(f->labels[i].name.text, name.text, name.length) == 0)
                return f->labels[i].statement;
    return UINT32_MAX;
}

/* ---- slots ---- */

uint32_t sim_storage(enum sim_type type) {
    uint32_t bytes = sim_types[type].bytes;
    return bytes == 1 ? 2 : bytes;
}

uint32_t sim_temp(struct sim_decoder *d) {
    uint32_t slot = d->temp_next % SIM_TEMPS * (SIM_LANES * 8);
    d->temp_next++;
    return slot;
}

enum sim_status sim_constant_slot(struct sim_decoder *d, uint64_t bits, uint32_t bytes,
                                  uint32_t *slot) {
    if (bytes < 8)
        bits &= (1ull << bytes * 8) - 1;
    uint32_t head = (uint32_t)((bits * 0x9e3779b97f4a7c15ull) >> 56);
    for (uint32_t i = d->constant_heads[head]; i != UINT32_MAX; i = d->constants[i].next) {
        if (d->constants[i].bits == bits && d->constants[i].bytes == bytes) {
            *slot = d->constants[i].offset;
            return SIM_OK;
        }
    }
    struct sim_constant *list = sim_grow(&d->scratch, d->constants, &d->constant_capacity,
                                         d->constant_count + 1, sizeof *list);
    if (!list)
        return sim_decode_no_memory(d);
    d->constants = list;
    list[d->constant_count] =
        (struct sim_constant){bits, bytes, d->frame_bytes, d->constant_heads[head]};
    d->constant_heads[head] = d->constant_count++;
    *slot = d->frame_bytes;
    d->frame_bytes += bytes * SIM_LANES;
    return SIM_OK;
}

/* ---- instructions ---- */

enum sim_status sim_emit(struct sim_decoder *d, const struct sim_insn *insn) {
    struct sim_kernel *k = d->kernel;
    uint32_t need = k->code_count + 1;
    if (need >= d->module->gpu->limits.instructions * 4)
        return sim_fail(d->error, SIM_LIMIT, d->s ? d->s->line : 0, 0,
                        "kernel %.120s has too many instructions", k->function->c_name);
    struct sim_insn *code = sim_grow(d->arena, k->code, &d->code_capacity, need, sizeof *code);
    struct sim_where *where =
        code ? sim_grow(d->arena, k->where, &d->where_capacity, need, sizeof *where) : NULL;
    if (!code || !where)
        return sim_decode_no_memory(d);
    k->code = code;
    k->where = where;
    struct sim_insn *in = &code[k->code_count];
    *in = *insn;
    where[k->code_count] = (struct sim_where){0};
    where[k->code_count].lane_op = UINT16_MAX;
    if (d->s) {
        where[k->code_count].ptx_line = d->s->line;
        where[k->code_count].file = d->s->file;
        where[k->code_count].line = d->s->source_line;
        where[k->code_count].text = d->s->mnemonic.text;
        where[k->code_count].from = d->s->from;
        where[k->code_count].same = d->s->stored.data;
        if (d->s->guard != UINT32_MAX && insn->op != SIM_OP_BLOCK) {
            in->flags |= SIM_F_GUARD | (d->s->guard_negated ? SIM_F_GUARD_NOT : 0);
            in->guard = d->slots[d->s->guard];
        }
    }
    k->code_count++;
    return SIM_OK;
}

enum sim_status sim_frame_access(struct sim_decoder *d, enum sim_op op, enum sim_type type,
                                 uint64_t offset, uint32_t slot) {
    const struct sim_insn in = {.op = (uint16_t)op,
                                .flags = SIM_F_HELPER,
                                .type = (uint8_t)type,
                                .space = SIM_S_LOCAL,
                                .vec = 1,
                                .dsize = (uint8_t)sim_storage(type),
                                .class = SIM_CLASS_MOVE,
                                .a = SIM_NO_SLOT,
                                .b = slot,
                                .dst = slot,
                                .dst2 = SIM_A_FRAME | SIM_A_INTERNAL,
                                .imm = (int64_t)offset};
    return sim_emit(d, &in);
}

enum sim_status sim_frame_predicate(struct sim_decoder *d, enum sim_op op, uint64_t offset,
                                    uint32_t slot) {
    const uint32_t word = sim_temp(d);
    uint32_t test[4] = {word}, one;
    enum sim_status status = sim_constant_slot(d, 0, 4, &test[1]);
    if (!status)
        status = sim_constant_slot(d, 1, 4, &one);
    if (!status && op == SIM_OP_LD) {
        if (!(status = sim_frame_access(d, op, SIM_T_U32, offset, word)))
            status = sim_lane(d, "setp.ne.u32", 0, slot, test, 1);
        if (!status)
            d->kernel->code[d->kernel->code_count - 1].dst2 = SIM_NO_SLOT;
        return status;
    }
    const struct sim_insn in = {.op = SIM_OP_SELP,
                                .class = SIM_CLASS_MOVE,
                                .flags = SIM_F_HELPER,
                                .dsize = 4,
                                .a = one,
                                .b = test[1],
                                .c = slot,
                                .dst = word};
    if (!status)
        status = sim_emit(d, &in);
    return status ? status : sim_frame_access(d, op, SIM_T_U32, offset, word);
}

enum sim_status sim_extra(struct sim_decoder *d, uint32_t value, uint32_t *index) {
    struct sim_kernel *k = d->kernel;
    uint32_t *extra =
        sim_grow(d->arena, k->extra, &d->extra_capacity, k->extra_count + 1, sizeof *extra);
    if (!extra)
        return sim_decode_no_memory(d);
    k->extra = extra;
    if (index)
        *index = k->extra_count;
    extra[k->extra_count++] = value;
    return SIM_OK;
}

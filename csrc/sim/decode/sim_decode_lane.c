/* sim_decode_lane.c: decodes arithmetic. It looks a mnemonic up in ops.def as written; if that
 * fails, it removes modifiers and turns them into flags. Conversions, comparisons and packing
 * combine several rows. Knows no address and no control flow.
 */
#include "sim_decode.h"
#include "../../demangle.h"
#include "../ptx/sim_parser.h"

#include <stdio.h>
#include <string.h>

static enum sim_status count_is(struct sim_decoder *d, uint32_t least, uint32_t most) {
    if (d->s->count < least || d->s->count > most)
        return sim_malformed(d, "'%.*s' takes %u to %u operands, not %u",
                             (int)(d->s->mnemonic.length > 60 ? 60 : d->s->mnemonic.length),
                             d->s->mnemonic.text, least, most, d->s->count);
    return SIM_OK;
}

static int is_modifier(struct sim_name part) {
    static const char *const names[] = {"rn",     "rz",   "rm",  "rp",   "ftz",   "sat",
                                        "approx", "full", "uni", "relu", "noftz", "rna"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (sim_name_is(part, names[i]))
            return 1;
    return 0;
}

static int is_fast(struct sim_name part) {
    return sim_name_is(part, "approx") || sim_name_is(part, "full");
}

static int is_integer(enum sim_type type) {
    return sim_types[type].class == SIM_C_UINT || sim_types[type].class == SIM_C_SINT;
}

int sim_find_lane(const struct sim_decoder *d, unsigned *mods) {
    char text[128];
    const size_t size = sizeof text;
    int row = -1;
    /* whole, then without modifiers but for those of a fast form, which may have a row of its own
     */
    for (int strip = 0; strip < 3 && row < 0; strip++) {
        size_t at = 0;
        text[0] = 0;
        for (uint32_t i = 0; i < d->m->count; i++) {
            if (strip && i && is_modifier(d->m->parts[i]) &&
                !(strip == 1 && is_fast(d->m->parts[i])))
                continue;
            int wrote = snprintf(text + at, size - at, "%s%.*s", at ? "." : "",
                                 (int)(d->m->parts[i].length > 20 ? 20 : d->m->parts[i].length),
                                 d->m->parts[i].text);
            at = wrote > 0 && at + (size_t)wrote < size ? at + (size_t)wrote : size - 1;
        }
        *mods = strip ? sim_modifiers(d) : 0;
        row = sim_row_find(text);
        if (row >= 0 && *mods & SIM_M_ROUND &&
            sim_types[sim_lane_ops[row].types[0]].class == SIM_C_HALF) {
            /* rows of halves round themselves */
            static const char *const modes[] = {"rn", "rz", "rm", "rp"};
            char other[160];
            snprintf(other, sizeof other, "~%s.%s", modes[*mods & SIM_M_ROUND], text);
            row = sim_row_find(other);
            *mods &= ~(unsigned)SIM_M_ROUND;
        }
    }
    /* sim_exec_modified() handles only floats: integers have rows of their own */
    if (row < 0 || !is_integer((enum sim_type)sim_lane_ops[row].types[0]))
        return row;
    if (*mods & SIM_M_RELU) {
        char other[160]; /* .relu precedes the type there; texts may write it behind */
        const size_t name = d->m->parts[0].length;
        snprintf(other, sizeof other, "%.*s.relu%s", (int)name, text, text + name);
        row = sim_row_find(other);
        *mods &= ~(unsigned)SIM_M_RELU;
    }
    return *mods & SIM_M_SAT ? -1 : row;
}

/* The type that an operand must fit: the row's own, but bits match any type, and rows of mov and
 * slct fix only the size. */
static enum sim_type operand_type(const struct sim_decoder *d, const struct sim_lane_op *op,
                                  uint32_t i) {
    static const enum sim_type bits[] = {SIM_T_B16, SIM_T_B32, SIM_T_B32, SIM_T_B64};
    const enum sim_type row = (enum sim_type)op->types[i];
    const uint32_t bytes = sim_storage(row);
    if (sim_part_at(d, 0, "mov"))
        return sim_last_type(d, 0);
    if (sim_part_at(d, 0, "slct"))
        return sim_last_type(d, i == 3 ? 0 : 1);
    for (uint32_t part = 1; part < d->m->count; part++) {
        const enum sim_type type = sim_last_type(d, d->m->count - 1 - part);
        if (sim_types[type].class == SIM_C_BITS && sim_types[type].bytes == bytes)
            return bits[bytes / 2 - 1];
    }
    return row;
}

enum sim_status sim_decode_lane(struct sim_decoder *d) {
    const int row = d->op->row;
    const unsigned mods = d->op->mods;
    uint32_t sources[4] = {0}, dst;
    enum sim_status status;
    if (row < 0)
        return sim_unsupported(d);
    if (d->s->count == 4 && sim_last_type(d, 0) == SIM_T_F32 && !sim_part(d, "xorsign") &&
        (sim_part_at(d, 0, "min") || sim_part_at(d, 0, "max")))
        return sim_decode_three(d);
    const struct sim_lane_op *op = &sim_lane_ops[row];
    uint32_t inputs = 0;
    while (inputs < 4 && op->types[inputs + 1])
        inputs++;
    if ((status = count_is(d, inputs + 1, inputs + 1)))
        return status;
    for (uint32_t i = 0; i < inputs; i++)
        if ((status =
                 sim_source(d, &d->s->operands[i + 1], operand_type(d, op, i + 1), &sources[i])))
            return status;
    if (op->is_mask) {
        if ((status = sim_predicate_target(d, &d->s->operands[0], &dst)))
            return status;
        if (dst == SIM_NO_SLOT)
            dst = sim_temp(d);
        return sim_lane_row(d, row, mods, dst, sources, 0);
    }
    enum sim_type type = operand_type(d, op, 0);
    if ((status = sim_target(d, &d->s->operands[0], type, &dst)) ||
        (status = sim_lane_row(d, row, mods, dst, sources, 0)))
        return status;
    return sim_finish(d, &d->s->operands[0], type, dst);
}

/* ---- conversions ---- */

static const char *integral_rounding(const struct sim_decoder *d) {
    return sim_part(d, "rni")   ? "rni"
           : sim_part(d, "rzi") ? "rzi"
           : sim_part(d, "rmi") ? "rmi"
           : sim_part(d, "rpi") ? "rpi"
                                : NULL;
}

enum sim_status sim_decode_cvt(struct sim_decoder *d) {
    enum sim_type to = sim_last_type(d, 1), from = sim_last_type(d, 0);
    const char *integral = integral_rounding(d), *t = sim_types[to].name, *f = sim_types[from].name;
    char text[64];
    unsigned mods = sim_modifiers(d);
    uint32_t sources[4] = {0}, dst, temp;
    if (sim_is_narrow(d))
        return sim_decode_narrow(d);
    if (to == SIM_T_NONE || from == SIM_T_NONE)
        return sim_refuse(d, "unsupported conversion '%.*s'",
                          (int)(d->s->mnemonic.length > 80 ? 80 : d->s->mnemonic.length),
                          d->s->mnemonic.text);
    int packed = to == SIM_T_F16X2 || to == SIM_T_BF16X2;
    enum sim_status status = count_is(d, packed ? 3 : 2, packed ? 3 : 2);
    for (uint32_t i = 0; !status && i + 1 < d->s->count; i++)
        status = sim_source_fit(d, &d->s->operands[i + 1], from, SIM_WIDER, &sources[i]);
    if (status || (status = sim_target_fit(d, &d->s->operands[0], to, SIM_WIDER, &dst)))
        return status;
    if (is_integer(to) && is_integer(from)) {
        snprintf(text, sizeof text, "cvt.%s%s.%s", sim_part(d, "sat") ? "sat." : "", t, f);
        mods = 0;
    } else if (is_integer(to)) { /* the row truncates: first round to an integral value */
        if (integral && strcmp(integral, "rzi") != 0) {
            snprintf(text, sizeof text, "~%s.%s", integral, f);
            temp = sim_temp(d);
            if ((status = sim_lane(d, text, mods & SIM_M_FTZ, temp, sources, 1)))
                return status;
            sources[0] = temp;
            mods = 0;
        }
        mods &= SIM_M_FTZ;
        snprintf(text, sizeof text, "cvt.%s.%s", t, f);
    } else if (to == from && integral) {
        snprintf(text, sizeof text, "~%s.%s", integral, f);
    } else if (sim_types[to].class == SIM_C_HALF && to != from) { /* these rows round themselves */
        static const char *const modes[] = {"rn", "rz", "rm", "rp"};
        snprintf(text, sizeof text, "cvt.%s.%s.%s", modes[mods & SIM_M_ROUND], t, f);
        mods &= ~(unsigned)SIM_M_ROUND;
    } else {
        snprintf(text, sizeof text, "cvt.%s.%s", t, f);
    }
    if ((status = sim_lane(d, text, mods, dst, sources, 0)))
        return status;
    return sim_finish(d, &d->s->operands[0], to, dst);
}

/* ---- comparisons ---- */

enum { BOOL_NONE, BOOL_AND, BOOL_OR, BOOL_XOR };

static unsigned boolean(const struct sim_decoder *d) {
    return sim_part(d, "and")   ? BOOL_AND
           : sim_part(d, "or")  ? BOOL_OR
           : sim_part(d, "xor") ? BOOL_XOR
                                : BOOL_NONE;
}

/* Emits setp.<comparison>.<type> with the third, boolean operand applied. */
static enum sim_status compare(struct sim_decoder *d, enum sim_type type, const uint32_t *sources,
                               uint32_t p, uint32_t q, uint32_t third, int helper) {
    char text[64];
    unsigned mods = sim_modifiers(d) & SIM_M_FTZ;
    uint32_t which = 1; /* .ftz and the boolean operation may come first */
    while (sim_part_at(d, which, "ftz") || sim_part_at(d, which, "and") ||
           sim_part_at(d, which, "or") || sim_part_at(d, which, "xor"))
        which++;
    const struct sim_name name = d->m->parts[which < d->m->count ? which : 1];
    snprintf(text, sizeof text, "setp.%.*s.%s", (int)(name.length > 8 ? 8 : name.length), name.text,
             sim_types[type].name);
    enum sim_status status = sim_lane(d, text, mods, p, sources, helper);
    if (!status) {
        struct sim_insn *in = &d->kernel->code[d->kernel->code_count - 1];
        in->dst2 = q;
        in->sub = (uint8_t)boolean(d);
        in->e = third;
    }
    return status;
}

static enum sim_status third_operand(struct sim_decoder *d, uint32_t *third) {
    *third = 0;
    if (boolean(d) == BOOL_NONE)
        return count_is(d, 3, 3);
    enum sim_status status = count_is(d, 4, 4);
    return status ? status : sim_predicate(d, &d->s->operands[3], third);
}

/* Two halves of a packed operand, as two temporaries. */
static enum sim_status halves(struct sim_decoder *d, const struct sim_operand *o, uint32_t *low,
                              uint32_t *high) {
    uint32_t slots[4] = {0};
    enum sim_status status = sim_source(d, o, SIM_T_B32, slots);
    *low = sim_temp(d);
    *high = sim_temp(d);
    if (!status)
        status = sim_lane(d, "~part0.b32.b16", 0, *low, slots, 1);
    if (!status)
        status = sim_lane(d, "~part1.b32.b16", 0, *high, slots, 1);
    return status;
}

static enum sim_status move_predicate(struct sim_decoder *d, uint32_t to, uint32_t from) {
    const struct sim_insn in = {.op = SIM_OP_PMOV, .flags = SIM_F_HELPER, .dst = to, .a = from};
    return to == SIM_NO_SLOT ? SIM_OK : sim_emit(d, &in);
}

enum sim_status sim_decode_setp(struct sim_decoder *d) {
    enum sim_type type = sim_last_type(d, 0);
    const struct sim_operand *o = d->s->operands;
    uint32_t p, q = SIM_NO_SLOT, sources[4] = {0}, third;
    enum sim_status status = third_operand(d, &third);
    if (status)
        return status;
    if (d->m->count < 3 || type == SIM_T_NONE)
        return sim_malformed(d, "a comparison without a type");
    int pair = o[0].kind == SIM_O_PAIR;
    if (pair && (type == SIM_T_F16 || type == SIM_T_BF16))
        return sim_malformed(d, "a comparison of .%s has one predicate", sim_types[type].name);
    status = sim_predicate_target(d, pair ? &o[0].items[0] : &o[0], &p);
    if (!status && pair)
        status = sim_predicate_target(d, &o[0].items[1], &q);
    if (status)
        return status;
    if (p == SIM_NO_SLOT)
        p = sim_temp(d);
    if (type == SIM_T_F16X2 || type == SIM_T_BF16X2) {
        uint32_t a[2], b[2];
        if (!pair)
            return sim_malformed(d, "a packed comparison needs two predicates");
        if ((status = halves(d, &o[1], &a[0], &a[1])) || (status = halves(d, &o[2], &b[0], &b[1])))
            return status;
        enum sim_type half = type == SIM_T_F16X2 ? SIM_T_F16 : SIM_T_BF16;
        uint32_t first[4] = {a[0], b[0], 0, 0}, second[4] = {a[1], b[1], 0, 0};
        const uint32_t low = sim_temp(d), high = sim_temp(d);
        if ((status = compare(d, half, first, low, SIM_NO_SLOT, third, 0)) ||
            (status = compare(d, half, second, high, SIM_NO_SLOT, third, 1)))
            return status;
        /* p and q may be the third operand; the one that is the guard is written last */
        const int guards = d->s->guard != UINT32_MAX && d->slots[d->s->guard] == p;
        for (int i = 0; i < 2 && !status; i++)
            status = move_predicate(d, i == guards ? p : q, i == guards ? low : high);
        return status;
    }
    if (!(status = sim_source(d, &o[1], type, &sources[0])) &&
        !(status = sim_source(d, &o[2], type, &sources[1])))
        status = compare(d, type, sources, p, q, third, 0);
    return status;
}

static enum sim_status select_constants(struct sim_decoder *d, enum sim_type to, uint32_t dst,
                                        uint32_t p) {
    uint64_t one = to == SIM_T_F32    ? 0x3f800000u
                   : to == SIM_T_F16  ? 0x3c00u
                   : to == SIM_T_BF16 ? 0x3f80u
                                      : ~0ull;
    struct sim_insn in = {0};
    in.op = SIM_OP_SELP;
    in.dst = dst;
    in.dsize = (uint8_t)sim_storage(to);
    in.c = p;
    in.flags = SIM_F_HELPER;
    enum sim_status status = sim_constant_slot(d, one, in.dsize, &in.a);
    if (!status)
        status = sim_constant_slot(d, 0, in.dsize, &in.b);
    return status ? status : sim_emit(d, &in);
}

enum sim_status sim_decode_set(struct sim_decoder *d) {
    enum sim_type to = sim_last_type(d, 1), from = sim_last_type(d, 0);
    const struct sim_operand *o = d->s->operands;
    uint32_t third, sources[4] = {0}, dst, p = sim_temp(d);
    enum sim_status status = third_operand(d, &third);
    if (status)
        return status;
    if (d->m->count < 4 || to == SIM_T_NONE || from == SIM_T_NONE)
        return sim_malformed(d, "a comparison without types");
    if ((status = sim_target(d, &o[0], to, &dst)))
        return status;
    if (from == SIM_T_F16X2 || from == SIM_T_BF16X2) {
        enum sim_type half = from == SIM_T_F16X2 ? SIM_T_F16 : SIM_T_BF16,
                      out = to == from ? half : SIM_T_U16;
        uint32_t a[2], b[2], results[4] = {0};
        if ((status = halves(d, &o[1], &a[0], &a[1])) || (status = halves(d, &o[2], &b[0], &b[1])))
            return status;
        for (int i = 0; !status && i < 2; i++) {
            uint32_t pair[4] = {a[i], b[i], 0, 0};
            results[i] = sim_temp(d);
            if (!(status = compare(d, half, pair, p, SIM_NO_SLOT, third, i)))
                status = select_constants(d, out, results[i], p);
        }
        if (!status)
            status = sim_lane(d, "~pack.b32.b16", 0, dst, results, 1);
    } else if (!(status = sim_source(d, &o[1], from, &sources[0])) &&
               !(status = sim_source(d, &o[2], from, &sources[1])) &&
               !(status = compare(d, from, sources, p, SIM_NO_SLOT, third, 0))) {
        status = select_constants(d, to, dst, p);
    }
    return status ? status : sim_finish(d, &o[0], to, dst);
}

enum sim_status sim_decode_selp(struct sim_decoder *d) {
    enum sim_type type = sim_last_type(d, 0);
    struct sim_insn in = {0};
    enum sim_status status = count_is(d, 4, 4);
    const struct sim_operand *o = d->s->operands;
    if (status)
        return status;
    in.op = SIM_OP_SELP;
    in.class = SIM_CLASS_MOVE;
    in.dsize = (uint8_t)sim_storage(type);
    if ((status = sim_source(d, &o[1], type, &in.a)) ||
        (status = sim_source(d, &o[2], type, &in.b)) || (status = sim_predicate(d, &o[3], &in.c)) ||
        (status = sim_target(d, &o[0], type, &in.dst)) || (status = sim_emit(d, &in)))
        return status;
    return sim_finish(d, &o[0], type, in.dst);
}

/* ---- predicates ---- */

enum sim_status sim_decode_predicate(struct sim_decoder *d) {
    struct sim_insn in = {0};
    const struct sim_operand *o = d->s->operands;
    int unary = sim_part_at(d, 0, "not") || sim_part_at(d, 0, "mov");
    enum sim_status status = count_is(d, unary ? 2 : 3, unary ? 2 : 3);
    in.op = sim_part_at(d, 0, "and")   ? SIM_OP_PAND
            : sim_part_at(d, 0, "or")  ? SIM_OP_POR
            : sim_part_at(d, 0, "xor") ? SIM_OP_PXOR
            : sim_part_at(d, 0, "not") ? SIM_OP_PNOT
                                       : SIM_OP_PMOV;
    in.class = SIM_CLASS_INTEGER;
    if (!unary && !sim_part_at(d, 0, "and") && !sim_part_at(d, 0, "or") &&
        !sim_part_at(d, 0, "xor"))
        return sim_refuse(d, "'%.*s' on predicates",
                          (int)(d->s->mnemonic.length > 60 ? 60 : d->s->mnemonic.length),
                          d->s->mnemonic.text);
    if (!status && in.op == SIM_OP_PMOV && o[1].kind == SIM_O_SPECIAL &&
        o[1].bits == SIM_SPECIAL_IS_EXPLICIT_CLUSTER) {
        in.op = SIM_OP_PCONST;
        in.imm = d->kernel->function->cluster_blocks != 0;
    } else if (!status) {
        status = sim_predicate(d, &o[1], &in.a);
    }
    if (!status && !unary)
        status = sim_predicate(d, &o[2], &in.b);
    if (!status)
        status = sim_predicate_target(d, &o[0], &in.dst);
    if (!status && in.dst == SIM_NO_SLOT)
        in.dst = sim_temp(d);
    return status ? status : sim_emit(d, &in);
}

/* ---- moves ---- */

static enum sim_status pack(struct sim_decoder *d, enum sim_type type, const struct sim_operand *to,
                            const struct sim_operand *vector) {
    uint32_t sources[4] = {0}, dst, bytes = sim_types[type].bytes,
             part = vector->count ? bytes / vector->count : 0;
    enum sim_type piece = part == 4 ? SIM_T_B32 : part == 2 ? SIM_T_B16 : SIM_T_B8;
    char text[40];
    enum sim_status status = SIM_OK;
    if (vector->count > 4 || !part || sim_types[type].class != SIM_C_BITS)
        return sim_refuse(d, "packing %u values into .%s", vector->count, sim_types[type].name);
    for (uint32_t i = 0; !status && i < vector->count; i++)
        status = sim_source(d, &vector->items[i], piece, &sources[i]);
    snprintf(text, sizeof text, "~pack.b%u.b%u", bytes * 8, part * 8);
    if (status || (status = sim_target(d, to, type, &dst)) ||
        (status = sim_lane(d, text, 0, dst, sources, 0)))
        return status;
    return sim_finish(d, to, type, dst);
}

static enum sim_status unpack(struct sim_decoder *d, enum sim_type type,
                              const struct sim_operand *vector, const struct sim_operand *from) {
    uint32_t source[4] = {0}, bytes = sim_types[type].bytes,
             part = vector->count ? bytes / vector->count : 0, counted = 0;
    enum sim_type piece = part == 4 ? SIM_T_B32 : part == 2 ? SIM_T_B16 : SIM_T_B8;
    char text[40];
    enum sim_status status;
    if (vector->count > 4 || !part || sim_types[type].class != SIM_C_BITS)
        return sim_refuse(d, "unpacking .%s into %u values", sim_types[type].name, vector->count);
    if ((status = sim_source(d, from, type, source)))
        return status;
    /* through temporaries: the source may be one of the destinations */
    uint32_t temps[8] = {0};
    for (uint32_t i = 0; i < vector->count; i++) {
        if (vector->items[i].kind == SIM_O_SINK)
            continue;
        temps[i] = sim_temp(d);
        snprintf(text, sizeof text, "~part%u.b%u.b%u", i, bytes * 8, part * 8);
        if ((status = sim_lane(d, text, 0, temps[i], source, counted++ > 0)))
            return status;
    }
    for (uint32_t i = 0; i < vector->count; i++) {
        if (vector->items[i].kind == SIM_O_SINK)
            continue;
        const struct sim_operand *o = &vector->items[i];
        uint32_t dst;
        if ((status = sim_target(d, o, piece, &dst)))
            return status;
        if (dst == d->slots[o->reg]) {
            snprintf(text, sizeof text, "mov.b%u", sim_storage(piece) * 8);
            status = sim_lane(d, text, 0, dst, &temps[i], 1);
        } else {
            status = sim_finish(d, o, piece, temps[i]);
        }
        if (status)
            return status;
    }
    return SIM_OK;
}

static int special_fits(enum sim_special special, enum sim_type type) {
    if (special == SIM_SPECIAL_IS_EXPLICIT_CLUSTER) /* a predicate */
        return 0;
    if (sim_types[type].class == SIM_C_FLOAT || special == SIM_SPECIAL_GRIDID)
        return special == SIM_SPECIAL_GRIDID;
    const int wide = special == SIM_SPECIAL_CLOCK64 || special == SIM_SPECIAL_GLOBALTIMER;
    return wide == (sim_types[type].bytes == 8);
}

static enum sim_status function_address(struct sim_decoder *d, enum sim_type type) {
    const struct sim_operand *o = d->s->operands;
    const struct sim_function *f = sim_module_function(d->module, o[1].name.text, o[1].name.length);
    uint32_t sources[4] = {0}, dst;
    char name[121];
    enum sim_status status;
    if (f && f->is_entry)
        return sim_refuse(d,
                          "the address of kernel '%s': kernels that launch kernels (dynamic "
                          "parallelism) are not simulated; launch it from Python",
                          demangle_short(f->c_name, name, sizeof name));
    if (!f || !f->has_body || sim_types[type].bytes != 8)
        return sim_refuse(d, "the address of '%.*s', which is no function of this module",
                          sim_shown(o[1].name), o[1].name.text);
    if ((status = sim_constant_slot(d, sim_function_address(f), 8, &sources[0])) ||
        (status = sim_target(d, &o[0], type, &dst)) ||
        (status = sim_lane(d, "mov.b64", 0, dst, sources, 0)))
        return status;
    return sim_finish(d, &o[0], type, dst);
}

/* A vector, element by element: mov.v4, and the halves of 128 bits. */
static enum sim_status move_elements(struct sim_decoder *d, enum sim_type type,
                                     const struct sim_operand *to, const struct sim_operand *from) {
    const uint32_t bits = sim_storage(type) * 8;
    uint32_t temps[4] = {0}, dst, source[4] = {0};
    char mnemonic[16];
    enum sim_status status = SIM_OK;
    if (to->count != from->count || to->count > 4 || type == SIM_T_PRED ||
        (!sim_part(d, "b128") && !sim_part(d, to->count == 2 ? "v2" : "v4")))
        return sim_malformed(d, "%u values do not move to %u", from->count, to->count);
    snprintf(mnemonic, sizeof mnemonic, "mov.b%u", bits);
    for (uint32_t i = 0; i < to->count && !status; i++) { /* first all reads: v = {v.y, v.x} */
        temps[i] = sim_temp(d);
        if (from->items[i].kind == SIM_O_SPECIAL) {
            const struct sim_insn in = {.op = SIM_OP_SREG,
                                        .class = SIM_CLASS_MOVE,
                                        .sub = (uint8_t)from->items[i].bits,
                                        .flags = i ? SIM_F_HELPER : 0,
                                        .dsize = (uint8_t)(bits / 8),
                                        .dst = temps[i]};
            status = bits == 32 ? sim_emit(d, &in)
                                : sim_malformed(d, "a special register's vector has .u32 elements");
        } else if (from->items[i].kind != SIM_O_SINK &&
                   (status = sim_source(d, &from->items[i], type, source)) == SIM_OK) {
            status = sim_lane(d, mnemonic, 0, temps[i], source, i > 0);
        }
    }
    for (uint32_t i = 0; i < to->count && !status; i++) {
        source[0] = temps[i];
        if (to->items[i].kind != SIM_O_SINK &&
            (status = sim_target(d, &to->items[i], type, &dst)) == SIM_OK)
            status = sim_lane(d, mnemonic, 0, dst, source, 1);
    }
    return status;
}

enum sim_status sim_decode_mov(struct sim_decoder *d) {
    enum sim_type type = sim_last_type(d, 0);
    const struct sim_operand *o = d->s->operands;
    enum sim_status status = count_is(d, 2, 2);
    struct sim_insn in = {0};
    if (status)
        return status;
    if (type == SIM_T_PRED)
        return sim_decode_predicate(d);
    if (o[0].kind == SIM_O_VECTOR && o[1].kind == SIM_O_VECTOR)
        return move_elements(d, type == SIM_T_B128 ? SIM_T_B64 : type, &o[0], &o[1]);
    if (o[1].kind == SIM_O_VECTOR)
        return pack(d, type, &o[0], &o[1]);
    if (o[0].kind == SIM_O_VECTOR)
        return unpack(d, type, &o[0], &o[1]);
    if (o[1].kind == SIM_O_SPECIAL ||
        (o[1].kind == SIM_O_SYMBOL && o[1].symbol->kind == SIM_SYM_VAR &&
         (o[1].symbol->space == SIM_S_LOCAL ||
          (o[1].symbol->space == SIM_S_PARAM && !o[1].symbol->is_entry_param)))) {
        if (o[1].kind == SIM_O_SPECIAL && !special_fits((enum sim_special)o[1].bits, type))
            return sim_malformed(d, "'%.*s' does not have the size of .%s",
                                 (int)(o[1].name.length > 60 ? 60 : o[1].name.length),
                                 o[1].name.text ? o[1].name.text : "the special register",
                                 sim_types[type].name);
        in.op = o[1].kind == SIM_O_SPECIAL ? SIM_OP_SREG : SIM_OP_LOCALADDR;
        in.class = SIM_CLASS_MOVE;
        in.sub = (uint8_t)o[1].bits;
        in.dsize = (uint8_t)sim_storage(type);
        in.imm = o[1].kind == SIM_O_SPECIAL ? 0 : (int64_t)(o[1].symbol->address + o[1].bits);
        if ((status = sim_target(d, &o[0], type, &in.dst)) || (status = sim_emit(d, &in)))
            return status;
        return sim_finish(d, &o[0], type, in.dst);
    }
    if (o[1].kind == SIM_O_LABEL)
        return function_address(d, type);
    return sim_decode_lane(d);
}

/* ---- carry chains: add.cc addc sub.cc subc mad.cc madc ---- */

enum sim_status sim_decode_carry(struct sim_decoder *d) {
    enum sim_type type = sim_last_type(d, 0);
    const struct sim_operand *o = d->s->operands;
    struct sim_insn in = {0};
    int is_mad = d->m->parts[0].length >= 3 && memcmp(d->m->parts[0].text, "mad", 3) == 0;
    enum sim_status status = count_is(d, is_mad ? 4 : 3, is_mad ? 4 : 3);
    if (status)
        return status;
    in.op = is_mad                                                  ? SIM_OP_MADCC
            : sim_part_at(d, 0, "sub") || sim_part_at(d, 0, "subc") ? SIM_OP_SUBCC
                                                                    : SIM_OP_ADDCC;
    in.class = is_mad ? SIM_CLASS_MULTIPLY : SIM_CLASS_INTEGER;
    /* sub: bit 0 reads the carry, bit 1 writes it, bit 2 selects the high half, bit 3 is signed,
     * bit 4 saturates */
    in.sub =
        (uint8_t)((d->m->parts[0].text[d->m->parts[0].length - 1] == 'c' ? 1 : 0) |
                  (sim_part(d, "cc") ? 2 : 0) | (sim_part(d, "hi") ? 4 : 0) |
                  (sim_types[type].class == SIM_C_SINT ? 8 : 0) | (sim_part(d, "sat") ? 16 : 0));
    in.dsize = (uint8_t)sim_storage(type);
    if (in.dsize > 8)
        return sim_refuse(d, "a carry chain of type .%s", sim_types[type].name);
    in.guard = 0;
    in.e = d->carry_slot;
    if ((status = sim_source(d, &o[1], type, &in.a)) ||
        (status = sim_source(d, &o[2], type, &in.b)))
        return status;
    if (is_mad && (status = sim_source(d, &o[3], type, &in.c)))
        return status;
    if ((status = sim_target(d, &o[0], type, &in.dst)) || (status = sim_emit(d, &in)))
        return status;
    return sim_finish(d, &o[0], type, in.dst);
}

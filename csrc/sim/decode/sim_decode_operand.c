/* sim_decode_operand.c: turns operands into slots of the frame: registers, constants, addresses of
 * variables, predicates. It checks that each fits the type of its instruction, and emits lane
 * operations where an operand needs a conversion. Knows no opcode.
 */
#include "sim_decode.h"
#include "../ptx/sim_parser.h"

#include <stdio.h>
#include <string.h>

enum sim_status sim_symbol_address(struct sim_decoder *d, const struct sim_symbol *symbol,
                                   uint64_t *address) {
    if (symbol->kind != SIM_SYM_VAR)
        return sim_refuse(d, "the address of '%.*s', which is not a variable",
                          (int)(symbol->name.length > 60 ? 60 : symbol->name.length),
                          symbol->name.text);
    if (symbol->is_extern && (symbol->space == SIM_S_GLOBAL || symbol->space == SIM_S_CONST))
        return sim_refuse(d, "the variable '%.*s' is defined in no module that is loaded",
                          (int)(symbol->name.length > 60 ? 60 : symbol->name.length),
                          symbol->name.text);
    *address = symbol->address;
    return SIM_OK;
}

int sim_is_frame_local(const struct sim_symbol *symbol) {
    return symbol->space == SIM_S_LOCAL ||
           (symbol->space == SIM_S_PARAM && !symbol->is_entry_param);
}

/* A division whose divisor may be zero. */
static int is_division(const char *mnemonic) {
    return (strncmp(mnemonic, "div.", 4) == 0 || strncmp(mnemonic, "rem.", 4) == 0) &&
           (mnemonic[4] == 'u' || mnemonic[4] == 's');
}

/* A division or a root whose machine code calls a subroutine for odd operands. */
static int has_subroutine(const struct sim_decoder *d, const char *mnemonic) {
    static const char *const rows[] = {"div.f32", "rcp.f32", "sqrt.f32",
                                       "div.f64", "rcp.f64", "sqrt.f64"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(mnemonic, rows[i]) == 0)
            return !sim_part(d, "approx");
    return 0;
}

enum sim_status sim_lane_row(struct sim_decoder *d, int row, unsigned mods, uint32_t dst,
                             const uint32_t *sources, int helper) {
    const struct sim_lane_op *op = &sim_lane_ops[row];
    struct sim_insn in = {0};
    in.op = op->is_mask ? SIM_OP_MASK : SIM_OP_LANE;
    in.fn = sim_lanes_wide() ? op->wide : op->plain;
    in.dst = dst;
    in.dst2 = SIM_NO_SLOT;
    in.a = sources[0];
    in.b = op->types[2] ? sources[1] : in.a;
    in.c = op->types[3] ? sources[2] : in.a;
    in.e = op->types[4] ? sources[3] : in.a;
    in.dsize = (uint8_t)sim_types[op->types[0]].bytes;
    in.type = op->types[0];
    in.ext = (uint32_t)row;
    in.flags = helper ? SIM_F_HELPER : 0;
    if (!helper && has_subroutine(d, op->mnemonic))
        mods |= SIM_M_ODD;
    if (mods) {
        in.flags |= SIM_F_MODS;
        in.mods = (uint8_t)mods;
    }
    if (!helper && is_division(op->mnemonic))
        in.flags |= SIM_F_DIV;
    enum sim_status status = sim_emit(d, &in);
    if (!status)
        d->kernel->where[d->kernel->code_count - 1].lane_op = (uint16_t)row;
    return status;
}

enum sim_status sim_lane(struct sim_decoder *d, const char *mnemonic, unsigned mods, uint32_t dst,
                         const uint32_t *sources, int helper) {
    int row = sim_row_find(mnemonic);
    if (row < 0)
        return sim_refuse(d, "unsupported instruction '%.*s' (no row '%.40s')",
                          (int)(d->s->mnemonic.length > 80 ? 80 : d->s->mnemonic.length),
                          d->s->mnemonic.text, mnemonic);
    return sim_lane_row(d, row, mods, dst, sources, helper);
}

/* Converts a register's array to another element size: truncates, or extends by the sign of `type`.
 */
static enum sim_status resize(struct sim_decoder *d, uint32_t from, uint32_t from_bytes,
                              uint32_t to, uint32_t to_bytes, int is_signed) {
    char mnemonic[32];
    snprintf(mnemonic, sizeof mnemonic, "cvt.u%u.%c%u", to_bytes * 8, is_signed ? 's' : 'u',
             from_bytes * 8);
    const uint32_t sources[4] = {from, 0, 0, 0};
    return sim_lane(d, mnemonic, 0, to, sources, 1);
}

/* Whether a register fits an instruction's type: the same size (or larger, where allowed); bits
 * match every class, integers match integers, floats only their own type.
 */
int sim_fits(enum sim_type have, enum sim_type want, enum sim_fit fit) {
    const uint32_t h = sim_storage(have), w = sim_storage(want);
    if (have == SIM_T_PRED || (fit == SIM_EXACT && h != w) || (fit == SIM_WIDER && h < w))
        return 0;
    const unsigned a = sim_types[have].class, b = sim_types[want].class;
    const int integers =
        (a == SIM_C_UINT || a == SIM_C_SINT) && (b == SIM_C_UINT || b == SIM_C_SINT);
    return a == SIM_C_BITS || b == SIM_C_BITS || integers || have == want;
}

static enum sim_status mismatch(struct sim_decoder *d, enum sim_type want) {
    return sim_malformed(d, "an operand of '%.*s' does not fit its type .%s",
                         (int)(d->s->mnemonic.length > 80 ? 80 : d->s->mnemonic.length),
                         d->s->mnemonic.text, sim_types[want].name);
}

static enum sim_status constant(struct sim_decoder *d, const struct sim_operand *o,
                                enum sim_type type, uint32_t bytes, uint32_t *slot) {
    uint64_t bits = o->bits;
    const unsigned class = sim_types[type].class;
    if (class == SIM_C_HALF ||
        (class != SIM_C_BITS && (class == SIM_C_FLOAT) != (o->kind == SIM_O_FLOAT)))
        return mismatch(d, type);
    if (o->kind == SIM_O_FLOAT && o->type == SIM_T_F64 && bytes == 4) {
        double value;
        memcpy(&value, &bits, 8);
        float narrow = (float)value;
        bits = 0;
        memcpy(&bits, &narrow, 4);
    } else if (o->kind == SIM_O_FLOAT && o->type == SIM_T_F32 && type == SIM_T_F64) {
        float value;
        memcpy(&value, &bits, 4);
        double wide = value;
        memcpy(&bits, &wide, 8);
    }
    return sim_constant_slot(d, bits, bytes, slot);
}

/* A register plus a constant, of 2, 4 or 8 bytes. */
static enum sim_status sum(struct sim_decoder *d, const struct sim_operand *o, enum sim_type type,
                           enum sim_fit fit, uint32_t *slot) {
    static const char *const sums[] = {"add.u16", "add.u32", NULL, "add.u64"};
    const uint32_t bytes = sim_storage(type);
    struct sim_operand reg = *o;
    uint32_t sources[4] = {0};
    enum sim_status status;
    reg.kind = SIM_O_REG;
    if (sim_types[o->type].class == SIM_C_FLOAT || sim_types[o->type].class == SIM_C_HALF)
        return sim_malformed(d, "the sum of a floating-point register and a constant");
    if ((status = sim_source_fit(d, &reg, type, fit, &sources[0])) ||
        (status = sim_constant_slot(d, o->bits, bytes, &sources[1])))
        return status;
    *slot = sim_temp(d);
    return sim_lane(d, sums[bytes / 2 - 1], 0, *slot, sources, 1);
}

enum sim_status sim_source_fit(struct sim_decoder *d, const struct sim_operand *o,
                               enum sim_type type, enum sim_fit fit, uint32_t *slot) {
    uint32_t bytes = sim_storage(type);
    uint64_t bits = 0;
    enum sim_status status;
    struct sim_insn in = {0};
    if (bytes != 2 && bytes != 4 && bytes != 8)
        return sim_refuse(d, "operands of type .%s", sim_types[type].name);
    switch (o->kind) {
    case SIM_O_REG: {
        if (o->type == SIM_T_PRED)
            return sim_malformed(d, "a predicate where a value is needed");
        if (!sim_fits(o->type, type, fit))
            return mismatch(d, type);
        uint32_t have = sim_storage(o->type);
        *slot = d->slots[o->reg];
        if (have == bytes)
            return SIM_OK;
        *slot = sim_temp(d);
        return resize(d, d->slots[o->reg], have, *slot, bytes, sim_types[type].class == SIM_C_SINT);
    }
    case SIM_O_SUM:
        return sum(d, o, type, fit, slot);
    case SIM_O_INT:
    case SIM_O_FLOAT:
        return constant(d, o, type, bytes, slot);
    case SIM_O_SYMBOL:
        if ((status = sim_symbol_address(d, o->symbol, &bits)))
            return status;
        bits += o->bits;
        if (!sim_is_frame_local(o->symbol))
            return sim_constant_slot(d, bits, bytes, slot);
        in.op = SIM_OP_LOCALADDR;
        in.imm = (int64_t)bits;
        break;
    case SIM_O_SPECIAL: /* only mov reads special registers, except WARP_SZ, which is a constant */
        if (o->bits != SIM_SPECIAL_WARP_SZ)
            return sim_malformed(d, "a special register can only be moved to another register");
        in.op = SIM_OP_SREG;
        in.sub = (uint8_t)o->bits;
        break;
    default:
        return sim_malformed(d, "'%.*s' is no operand for this instruction",
                             (int)(o->name.length > 60 ? 60 : o->name.length),
                             o->name.text ? o->name.text : "");
    }
    in.dst = *slot = sim_temp(d);
    in.dsize = (uint8_t)bytes;
    in.flags = SIM_F_HELPER;
    return sim_emit(d, &in);
}

enum sim_status sim_source(struct sim_decoder *d, const struct sim_operand *o, enum sim_type type,
                           uint32_t *slot) {
    return sim_source_fit(d, o, type, SIM_EXACT, slot);
}

enum sim_status sim_predicate(struct sim_decoder *d, const struct sim_operand *o, uint32_t *slot) {
    struct sim_insn in = {0};
    in.flags = SIM_F_HELPER;
    if (o->kind == SIM_O_REG && o->type == SIM_T_PRED && !o->negated) {
        *slot = d->slots[o->reg];
        return SIM_OK;
    }
    if (o->kind == SIM_O_REG && o->type == SIM_T_PRED) {
        in.op = SIM_OP_PNOT;
        in.a = d->slots[o->reg];
    } else if (o->kind == SIM_O_INT) {
        in.op = SIM_OP_PCONST;
        in.imm = o->bits != 0;
    } else {
        return sim_malformed(d, "expected a predicate");
    }
    in.dst = *slot = sim_temp(d);
    return sim_emit(d, &in);
}

enum sim_status sim_target_fit(struct sim_decoder *d, const struct sim_operand *o,
                               enum sim_type type, enum sim_fit fit, uint32_t *slot) {
    if (o->kind == SIM_O_SINK) {
        *slot = sim_temp(d);
        return SIM_OK;
    }
    if (o->kind != SIM_O_REG || o->type == SIM_T_PRED)
        return sim_malformed(d, "the destination has to be a register");
    if (!sim_fits(o->type, type, fit))
        return mismatch(d, type);
    *slot = sim_storage(o->type) == sim_storage(type) ? d->slots[o->reg] : sim_temp(d);
    return SIM_OK;
}

enum sim_status sim_target(struct sim_decoder *d, const struct sim_operand *o, enum sim_type type,
                           uint32_t *slot) {
    return sim_target_fit(d, o, type, SIM_EXACT, slot);
}

enum sim_status sim_finish(struct sim_decoder *d, const struct sim_operand *o, enum sim_type type,
                           uint32_t slot) {
    if (o->kind != SIM_O_REG || sim_storage(o->type) == sim_storage(type))
        return SIM_OK;
    return resize(d, slot, sim_storage(type), d->slots[o->reg], sim_storage(o->type),
                  sim_types[type].class == SIM_C_SINT);
}

enum sim_status sim_predicate_target(struct sim_decoder *d, const struct sim_operand *o,
                                     uint32_t *slot) {
    if (o->kind == SIM_O_SINK) {
        *slot = SIM_NO_SLOT;
        return SIM_OK;
    }
    if (o->kind != SIM_O_REG || o->type != SIM_T_PRED)
        return sim_malformed(d, "the destination has to be a predicate");
    *slot = d->slots[o->reg];
    return SIM_OK;
}

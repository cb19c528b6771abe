/* sim_decode_memory.c: decodes instructions with an address: loads, stores, atomics, asynchronous
 * copies, mbarriers, and addresses as values. It fixes the space of an access where the
 * text names one; generic addresses are resolved at run time.
 */
#include "sim_decode.h"
#include "../ptx/sim_parser.h"

#include <stdio.h>
#include <string.h>

/* ---- addresses ---- */

struct address {
    uint32_t base, flags;
    int64_t offset;
    enum sim_space space; /* the symbol's; GENERIC without a symbol */
};

static enum sim_status address_of(struct sim_decoder *d, const struct sim_operand *o,
                                  struct address *a) {
    memset(a, 0, sizeof *a);
    a->base = SIM_NO_SLOT;
    if (o->kind != SIM_O_ADDRESS)
        return sim_malformed(d, "expected an address in brackets");
    a->offset = (int64_t)o->bits;
    if (o->symbol) {
        uint64_t address;
        enum sim_status status = sim_symbol_address(d, o->symbol, &address);
        if (status)
            return status;
        a->offset += (int64_t)address;
        a->space = o->symbol->space;
        if (o->symbol->space == SIM_S_PARAM && !o->symbol->is_entry_param) {
            a->flags = SIM_A_FRAME | SIM_A_INTERNAL;
            a->space = SIM_S_LOCAL;
        } else if (o->symbol->space == SIM_S_LOCAL) {
            a->flags = SIM_A_FRAME;
        }
    } else if (o->reg != UINT32_MAX) {
        uint32_t bytes = sim_storage(o->type);
        if (o->type == SIM_T_PRED || bytes < 4)
            return sim_malformed(d, "an address register has 32 or 64 bits");
        a->base = d->slots[o->reg];
        a->flags = bytes == 4 ? SIM_A_BASE32 : 0;
    }
    return SIM_OK;
}

static enum sim_space space_part(const struct sim_decoder *d) {
    static const struct {
        const char *name;
        enum sim_space space;
    } rows[] = {
        {"global", SIM_S_GLOBAL}, {"shared", SIM_S_SHARED},          {"shared::cta", SIM_S_SHARED},
        {"local", SIM_S_LOCAL},   {"shared::cluster", SIM_S_SHARED}, {"const", SIM_S_CONST},
        {"param", SIM_S_PARAM},   {"param::entry", SIM_S_PARAM},     {"param::func", SIM_S_PARAM}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (sim_part(d, rows[i].name))
            return rows[i].space;
    return SIM_S_GENERIC;
}

static enum sim_order order_part(const struct sim_decoder *d) {
    return sim_part(d, "volatile") || sim_part(d, "mmio") ? SIM_ORDER_VOLATILE
           : sim_part(d, "relaxed")                       ? SIM_ORDER_RELAXED
           : sim_part(d, "acquire")                       ? SIM_ORDER_ACQUIRE
           : sim_part(d, "release")                       ? SIM_ORDER_RELEASE
           : sim_part(d, "acq_rel")                       ? SIM_ORDER_ACQ_REL
                                                          : SIM_ORDER_WEAK;
}

static uint8_t scope_part(const struct sim_decoder *d) {
    return sim_part(d, "cta") || sim_part(d, "cluster") ? SIM_SCOPE_CTA
           : sim_part(d, "sys")                         ? SIM_SCOPE_SYS
                                                        : SIM_SCOPE_GPU;
}

static uint8_t space_class(enum sim_space space) {
    return space == SIM_S_SHARED                          ? SIM_CLASS_SHARED
           : space == SIM_S_LOCAL                         ? SIM_CLASS_LOCAL
           : space == SIM_S_CONST || space == SIM_S_PARAM ? SIM_CLASS_CONST
                                                          : SIM_CLASS_GLOBAL;
}

/* The address operand in the space that the instruction names. */
static enum sim_status memory_operand(struct sim_decoder *d, const struct sim_operand *o,
                                      struct sim_insn *in) {
    struct address a;
    enum sim_status status;
    if ((status = address_of(d, o, &a)) != SIM_OK)
        return status;
    in->space = (uint8_t)space_part(d);
    if (in->space == SIM_S_GENERIC && a.space != SIM_S_GENERIC)
        in->space = (uint8_t)a.space;
    if (a.space != SIM_S_GENERIC && (a.flags & SIM_A_FRAME))
        in->space = SIM_S_LOCAL;
    /* a device function's own parameters lie in its local memory, at an address or by name */
    if (in->space == SIM_S_PARAM && !d->f->function->is_entry && !sim_part(d, "param::entry"))
        in->space = SIM_S_LOCAL;
    if (in->space == SIM_S_LOCAL) /* volatile: nobody else sees it */
        in->order = SIM_ORDER_WEAK;
    in->a = a.base;
    in->dst2 = a.flags;
    in->imm = a.offset;
    in->class = a.flags & SIM_A_INTERNAL ? SIM_CLASS_MOVE : space_class((enum sim_space)in->space);
    if (in->space == SIM_S_GLOBAL && (in->order != SIM_ORDER_WEAK))
        d->kernel->communicates = 1;
    if (in->space == SIM_S_GENERIC && in->order != SIM_ORDER_WEAK)
        d->kernel->communicates = 1;
    return SIM_OK;
}

/* ---- ld, st ---- */

static uint8_t vector_part(const struct sim_decoder *d) {
    return sim_part(d, "v2") || sim_part(d, "b128") ? 2
           : sim_part(d, "v4")                      ? 4
           : sim_part(d, "v8")                      ? 8
                                                    : 1;
}

/* The type of an access' elements; 128 bits are two of 64. */
static enum sim_type element_type(const struct sim_decoder *d) {
    const enum sim_type type = sim_last_type(d, 0);
    return type == SIM_T_B128 ? SIM_T_B64 : type;
}

/* ptxas refuses the same: predicates on the parameters of a call, stores to parameters that the
 * function receives, loads of those that it returns. */
static enum sim_status check_parameter(struct sim_decoder *d, const struct sim_operand *o,
                                       int stores) {
    const struct sim_symbol *symbol = o->kind == SIM_O_ADDRESS ? o->symbol : NULL;
    if (!symbol || symbol->space != SIM_S_PARAM || symbol->is_entry_param)
        return SIM_OK;
    if (symbol->role == SIM_PASSED && d->s->guard != UINT32_MAX)
        return sim_malformed(d, "a predicate on the access to a call's parameter");
    if (symbol->role == SIM_RECEIVED && stores)
        return sim_malformed(d, "a store to a parameter that the function receives");
    if (symbol->role == SIM_RETURNED && !stores)
        return sim_malformed(d, "a load of a parameter that the function returns");
    return SIM_OK;
}

/* Begins a load or a store; operand `address` holds the address. */
static enum sim_status begin_access(struct sim_decoder *d, enum sim_op op, unsigned address,
                                    struct sim_insn *in) {
    const enum sim_type type = element_type(d);
    enum sim_status status = sim_operands(d, 2, 3);
    if (status ||
        (status = check_parameter(d, &d->s->operands[address], op == SIM_OP_ST)) != SIM_OK)
        return status;
    if (type == SIM_T_NONE || type == SIM_T_PRED || sim_types[type].bytes > 8 ||
        sim_types[type].bytes * vector_part(d) > 32)
        return sim_unsupported(d);
    if (sim_types[type].bytes * vector_part(d) == 32 && !sim_part(d, "global"))
        return sim_malformed(d, "32 bytes at once are read and written in global memory only");
    *in = (struct sim_insn){.op = op, .type = (uint8_t)type, .vec = vector_part(d)};
    in->order = (uint8_t)order_part(d);
    in->scope = scope_part(d);
    return memory_operand(d, &d->s->operands[address], in);
}

enum sim_status sim_decode_rows(struct sim_decoder *d, const struct sim_operand *address,
                                unsigned kind, struct sim_insn *in) {
    *in = (struct sim_insn){
        .op = SIM_OP_LD, .type = SIM_T_B32, .vec = 4, .dsize = 4, .sub = (uint8_t)kind};
    const enum sim_status status = memory_operand(d, address, in);
    if (!status && in->space != SIM_S_SHARED && in->space != SIM_S_GENERIC)
        return sim_malformed(d, "the rows of a matrix lie in shared memory");
    return status;
}

enum sim_status sim_decode_ld(struct sim_decoder *d) {
    struct sim_insn in;
    const struct sim_operand *o = d->s->operands;
    const enum sim_type type = element_type(d);
    enum sim_status status = begin_access(d, SIM_OP_LD, 1, &in);
    if (status)
        return status;
    if (in.space == SIM_S_PARAM) {
        in.op = SIM_OP_LDPARAM;
        const uint64_t bytes = sim_types[type].bytes * (uint64_t)in.vec;
        if (in.a == SIM_NO_SLOT &&
            (in.imm < 0 || (uint64_t)in.imm + bytes > d->kernel->param_bytes))
            return sim_malformed(d, "a load beyond the kernel's parameters");
        if (in.a == SIM_NO_SLOT && (uint64_t)in.imm % bytes)
            return sim_malformed(d, "a load of %u bytes at the parameters' byte %lld: misaligned",
                                 (unsigned)bytes, (long long)in.imm);
    }
    const struct sim_operand *items = o[0].kind == SIM_O_VECTOR ? o[0].items : &o[0];
    uint32_t count = o[0].kind == SIM_O_VECTOR ? o[0].count : 1, slots[8] = {0};
    if (count != in.vec)
        return sim_malformed(d, "%u destinations for a vector of %u", count, in.vec);
    in.dsize = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (items[i].kind == SIM_O_SINK) {
            slots[i] = SIM_NO_SLOT;
            continue;
        }
        if (items[i].kind != SIM_O_REG || items[i].type == SIM_T_PRED)
            return sim_malformed(d, "a load needs registers to go to");
        uint32_t bytes = sim_storage(items[i].type);
        if (!sim_fits(items[i].type, type, SIM_WIDER) || (in.dsize && in.dsize != bytes))
            return sim_malformed(d, "destinations of different sizes, or not fit for .%s",
                                 sim_types[type].name);
        in.dsize = (uint8_t)bytes;
        slots[i] = d->slots[items[i].reg];
    }
    if (!in.dsize)
        in.dsize = (uint8_t)sim_storage(type);
    in.dst = slots[0];
    in.sub = d->s->compared;
    for (uint32_t i = 0; i < count; i++)
        if ((status = sim_extra(d, slots[i], i ? NULL : &in.ext)) != SIM_OK)
            return status;
    return sim_emit(d, &in);
}

/* The bytes of an asynchronous store or atomic arrive at the mbarrier of the last operand. A
 * cluster is one block, so its memory is the block's own. */
static enum sim_status complete(struct sim_decoder *d, const struct sim_operand *at,
                                uint32_t bytes) {
    struct sim_insn in = {.op = SIM_OP_MBAR,
                          .sub = SIM_MBAR_LATER,
                          .dsize = 8,
                          .flags = SIM_F_HELPER,
                          .dst = SIM_NO_SLOT};
    enum sim_status status = memory_operand(d, at, &in);
    if (status || (status = sim_constant_slot(d, bytes, 4, &in.b)))
        return status;
    in.space = SIM_S_SHARED;
    in.class = SIM_CLASS_BARRIER;
    return sim_emit(d, &in);
}

static int is_async(const struct sim_decoder *d) {
    return sim_part(d, "async") && sim_part(d, "mbarrier::complete_tx::bytes");
}

enum sim_status sim_decode_st(struct sim_decoder *d) {
    struct sim_insn in;
    const struct sim_operand *o = d->s->operands;
    const enum sim_type type = element_type(d);
    enum sim_status status = begin_access(d, SIM_OP_ST, 0, &in);
    if (status)
        return status;
    if (in.space == SIM_S_CONST || in.space == SIM_S_PARAM)
        return sim_malformed(d, "a store to memory that is read-only");
    const struct sim_operand *items = o[1].kind == SIM_O_VECTOR ? o[1].items : &o[1];
    uint32_t count = o[1].kind == SIM_O_VECTOR ? o[1].count : 1, slots[8] = {0};
    if (count != in.vec)
        return sim_malformed(d, "%u sources for a vector of %u", count, in.vec);
    for (uint32_t i = 0; i < count; i++) {
        if (i && items[i].kind == SIM_O_REG && items[0].kind == SIM_O_REG &&
            sim_storage(items[i].type) != sim_storage(items[0].type))
            return sim_malformed(d, "sources of different sizes");
        if ((status = sim_source_fit(d, &items[i], type, SIM_WIDER, &slots[i])) != SIM_OK)
            return status;
    }
    in.dsize = (uint8_t)sim_storage(type);
    for (uint32_t i = 0; i < count; i++)
        if ((status = sim_extra(d, slots[i], i ? NULL : &in.ext)) != SIM_OK)
            return status;
    in.b = slots[0];
    if (is_async(d) && (status = sim_operands(d, 3, 3)))
        return status;
    in.flags |= is_async(d) ? SIM_F_LATER : 0;
    status = sim_emit(d, &in);
    return status || !is_async(d) ? status
                                  : complete(d, &o[2], sim_types[type].bytes * (uint32_t)in.vec);
}

/* ---- atomics ---- */

/* extra: the sources, for a compare-and-swap the replacements, then the destinations; an
 * instruction without a destination has no last list. */
static enum sim_status vector_atomic(struct sim_decoder *d, const struct sim_operand *to,
                                     const struct sim_operand *from, struct sim_insn *in) {
    const enum sim_type type = (enum sim_type)in->type;
    enum sim_status status = SIM_OK;
    uint32_t slot;
    to = to && to->kind == SIM_O_SINK ? NULL : to;
    in->b = in->dst = SIM_NO_SLOT;
    for (int i = 0; i < 3; i++) {
        const int result = i == 2;
        const struct sim_operand *o = result                    ? to
                                      : !i                      ? from
                                      : in->sub == SIM_ATOM_CAS ? from + 1
                                                                : NULL;
        if (o && (o->kind != SIM_O_VECTOR || o->count != in->vec))
            return sim_malformed(d, "expected a vector of %u", in->vec);
        for (uint32_t v = 0; o && v < in->vec && !status; v++) {
            status = result ? sim_target(d, &o->items[v], type, &slot)
                            : sim_source(d, &o->items[v], type, &slot);
            if (!status)
                status = sim_extra(d, slot, i || v ? NULL : &in->e);
            in->dst = result && !v ? slot : in->dst;
        }
    }
    return status ? status : sim_emit(d, in);
}

/* Returns whether the mnemonic names an operation. */
static int atomic_operation(const struct sim_decoder *d, uint8_t *found) {
    static const struct {
        const char *name;
        enum sim_atomic op;
    } ops[] = {{"add", SIM_ATOM_ADD}, {"min", SIM_ATOM_MIN}, {"max", SIM_ATOM_MAX},
               {"inc", SIM_ATOM_INC}, {"dec", SIM_ATOM_DEC}, {"and", SIM_ATOM_AND},
               {"or", SIM_ATOM_OR},   {"xor", SIM_ATOM_XOR}, {"exch", SIM_ATOM_EXCH},
               {"cas", SIM_ATOM_CAS}};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (sim_part(d, ops[i].name)) {
            *found = (uint8_t)ops[i].op;
            return 1;
        }
    return 0;
}

/* Returns whether an atomic operation exists for a type. */
static int atomic_accepts(uint8_t op, enum sim_type type) {
    if (type == SIM_T_NONE || sim_types[type].bytes < 2 || sim_types[type].bytes > 8)
        return 0;
    const int floating =
        sim_types[type].class == SIM_C_HALF || sim_types[type].class == SIM_C_FLOAT;
    switch (op) {
    case SIM_ATOM_AND:
    case SIM_ATOM_OR:
    case SIM_ATOM_XOR:
    case SIM_ATOM_CAS:
        return !floating;
    case SIM_ATOM_INC:
    case SIM_ATOM_DEC:
        return type == SIM_T_U32;
    default:
        return 1;
    }
}

enum sim_status sim_decode_atom(struct sim_decoder *d) {
    struct sim_insn in = {0};
    int is_red = sim_part_at(d, 0, "red");
    const struct sim_operand *o = d->s->operands;
    enum sim_type type = element_type(d);
    enum sim_status status;
    for (uint32_t i = 1; type == SIM_T_NONE && i < d->m->count; i++)
        type = sim_last_type(d, i); /* vectors may name their type before the operation */
    if (!atomic_operation(d, &in.sub) || !atomic_accepts(in.sub, type))
        return sim_unsupported(d);
    uint32_t want = (is_red ? 2u : 3u) + (in.sub == SIM_ATOM_CAS);
    /* one more: a cache hint, or an mbarrier */
    if ((status = sim_operands(d, want + (uint32_t)is_async(d), want + 1)) != SIM_OK)
        return status;
    in.op = SIM_OP_ATOM;
    in.type = (uint8_t)type;
    in.vec = vector_part(d);
    in.order = (uint8_t)order_part(d);
    if (in.order == SIM_ORDER_WEAK)
        in.order = SIM_ORDER_RELAXED;
    in.scope = scope_part(d);
    in.dsize = (uint8_t)sim_storage(type);
    const struct sim_operand *at = &o[is_red ? 0 : 1];
    if ((status = memory_operand(d, at, &in)) != SIM_OK)
        return status;
    if (in.space != SIM_S_SHARED)
        d->kernel->communicates = 1;
    if (in.space == SIM_S_CONST || in.space == SIM_S_PARAM || in.space == SIM_S_LOCAL)
        return sim_malformed(d, "an atomic on memory that is not global or shared");
    in.ext = in.dst2; /* the address flags: atomics use dst2 for a second source */
    if (in.vec != 1)
        return vector_atomic(d, is_red ? NULL : &o[0], &at[1], &in);
    if ((status = sim_source(d, &at[1], type, &in.b)) != SIM_OK)
        return status;
    if (in.sub == SIM_ATOM_CAS)
        if ((status = sim_source(d, &at[2], type, &in.c)) != SIM_OK)
            return status;
    in.dst = SIM_NO_SLOT;
    if (!is_red && o[0].kind != SIM_O_SINK)
        if ((status = sim_target(d, &o[0], type, &in.dst)) != SIM_OK)
            return status;
    in.flags |= is_async(d) ? SIM_F_LATER : 0;
    if ((status = sim_emit(d, &in)) != SIM_OK)
        return status;
    if (is_async(d))
        return complete(d, &at[2], sim_types[type].bytes);
    return is_red ? SIM_OK : sim_finish(d, &o[0], type, in.dst);
}

/* ---- addresses as values ---- */

enum sim_status sim_decode_cvta(struct sim_decoder *d) {
    struct sim_insn in = {0};
    const struct sim_operand *o = d->s->operands;
    enum sim_type type = sim_last_type(d, 0);
    enum sim_space space = space_part(d);
    enum sim_status status = sim_operands(d, 2, 2);
    if (status)
        return status;
    in.op = SIM_OP_CVTA;
    in.class = SIM_CLASS_MOVE;
    in.dsize = (uint8_t)sim_storage(type);
    uint64_t window = space == SIM_S_SHARED  ? SIM_SHARED_WINDOW
                      : space == SIM_S_LOCAL ? SIM_LOCAL_WINDOW
                      : space == SIM_S_PARAM ? SIM_PARAM_WINDOW
                                             : 0;
    in.imm = (int64_t)(sim_part(d, "to") ? 0 - window : window);
    if (!window) { /* global and constant addresses are generic ones */
        uint32_t sources[4] = {0};
        if ((status = sim_source(d, &o[1], type, &sources[0])) != SIM_OK ||
            (status = sim_target(d, &o[0], type, &in.dst)) != SIM_OK ||
            (status = sim_lane(d, in.dsize == 8 ? "mov.b64" : "mov.b32", 0, in.dst, sources, 0)) !=
                SIM_OK)
            return status;
        return sim_finish(d, &o[0], type, in.dst);
    }
    if ((status = sim_source(d, &o[1], type, &in.a)) != SIM_OK)
        return status;
    if ((status = sim_target(d, &o[0], type, &in.dst)) != SIM_OK)
        return status;
    if ((status = sim_emit(d, &in)) != SIM_OK)
        return status;
    return sim_finish(d, &o[0], type, in.dst);
}

enum sim_status sim_decode_isspacep(struct sim_decoder *d) {
    struct sim_insn in = {0};
    enum sim_status status = sim_operands(d, 2, 2);
    if (status)
        return status;
    in.op = SIM_OP_ISSPACEP;
    in.class = SIM_CLASS_INTEGER;
    in.space = (uint8_t)space_part(d);
    if ((status = sim_source_fit(d, &d->s->operands[1], SIM_T_B64, SIM_ANY_SIZE, &in.a)) != SIM_OK)
        return status;
    if ((status = sim_predicate_target(d, &d->s->operands[0], &in.dst)) != SIM_OK)
        return status;
    return in.dst == SIM_NO_SLOT ? SIM_OK : sim_emit(d, &in);
}

/* mapa, getctarank: a cluster is one block here */
enum sim_status sim_decode_mapa(struct sim_decoder *d) {
    enum sim_type type = sim_last_type(d, 0);
    int rank = sim_part_at(d, 0, "getctarank");
    uint32_t source[4] = {0}, dst;
    enum sim_status status = sim_operands(d, rank ? 2 : 3, rank ? 2 : 3);
    if (status)
        return status;
    if (rank) {
        type = SIM_T_U32;
        if ((status = sim_constant_slot(d, 0, 4, &source[0])) != SIM_OK)
            return status;
    } else {
        if ((status = sim_source(d, &d->s->operands[1], type, &source[0])) != SIM_OK)
            return status;
    }
    if ((status = sim_target(d, &d->s->operands[0], type, &dst)) != SIM_OK)
        return status;
    if ((status = sim_lane(d, sim_storage(type) == 8 ? "mov.b64" : "mov.b32", 0, dst, source, 0)) !=
        SIM_OK)
        return status;
    return sim_finish(d, &d->s->operands[0], type, dst);
}

enum sim_status sim_decode_createpolicy(struct sim_decoder *d) {
    uint32_t source[4] = {0}, dst;
    enum sim_status status = sim_operands(d, 1, 4);
    if (status)
        return status;
    if ((status = sim_constant_slot(d, 0, 8, &source[0])) != SIM_OK)
        return status;
    if ((status = sim_target(d, &d->s->operands[0], SIM_T_B64, &dst)) != SIM_OK)
        return status;
    return sim_lane(d, "mov.b64", 0, dst, source, 0);
}

/* ---- asynchronous copies ---- */

static enum sim_status second_address(struct sim_decoder *d, const struct sim_operand *o) {
    struct address a;
    enum sim_status status;
    if ((status = address_of(d, o, &a)) != SIM_OK)
        return status;
    if ((status = sim_extra(d, a.base, NULL)) != SIM_OK)
        return status;
    if ((status = sim_extra(d, a.flags, NULL)) != SIM_OK)
        return status;
    if ((status = sim_extra(d, (uint32_t)(uint64_t)a.offset, NULL)) != SIM_OK)
        return status;
    return sim_extra(d, (uint32_t)((uint64_t)a.offset >> 32), NULL);
}

/* cp.async.commit_group, .wait_group and .wait_all, of either kind */
static enum sim_status decode_groups(struct sim_decoder *d) {
    const struct sim_operand *o = d->s->operands;
    const int group = sim_part(d, "wait_group");
    enum sim_status status = sim_operands(d, (uint32_t)group, (uint32_t)group);
    if (status)
        return status;
    if (group && (o[0].kind != SIM_O_INT || o[0].bits > INT32_MAX))
        return sim_malformed(d, "the groups that may be pending are a small constant");
    return sim_emit(d, &(struct sim_insn){
                           .op = SIM_OP_CPWAIT,
                           .class = SIM_CLASS_BARRIER,
                           .sub = group                     ? SIM_WAIT_GROUP
                                  : sim_part(d, "wait_all") ? SIM_WAIT_ALL
                                                            : SIM_WAIT_COMMIT,
                           .vec = (uint8_t)sim_part(d, "bulk"),
                           .scope = (uint8_t)sim_part(d, "read"),
                           .imm = group ? (int64_t)o[0].bits : 0,
                       });
}

/* cp.async.mbarrier.arrive: the copies in flight arrive at the mbarrier */
static enum sim_status decode_copies_arrive(struct sim_decoder *d) {
    struct sim_insn in = {.op = SIM_OP_MBAR,
                          .sub = SIM_MBAR_CPASYNC,
                          .vec = (uint8_t)sim_part(d, "noinc"),
                          .dsize = 8,
                          .dst = SIM_NO_SLOT,
                          .b = SIM_NO_SLOT};
    enum sim_status status = sim_operands(d, 1, 1);
    if (status || (status = memory_operand(d, &d->s->operands[0], &in)))
        return status;
    in.class = SIM_CLASS_BARRIER;
    return sim_emit(d, &in);
}

/* The rest of cp.async.bulk: `in` has the first address. */
static enum sim_status decode_bulk(struct sim_decoder *d, struct sim_insn *in) {
    const struct sim_operand *o = d->s->operands;
    uint32_t slot = SIM_NO_SLOT;
    enum sim_status status;
    /* the order of the two spaces in the mnemonic is the direction */
    in->sub = sim_part_at(d, 3, "global")   ? SIM_BULK_OUT
              : sim_part_at(d, 4, "global") ? SIM_BULK_IN
                                            : SIM_BULK_WITHIN;
    in->space = in->sub == SIM_BULK_OUT ? SIM_S_GLOBAL : SIM_S_SHARED;
    if ((status = sim_source(d, &o[2], SIM_T_U32, &slot)) || (status = sim_extra(d, 0, &in->ext)) ||
        (status = sim_extra(d, slot, NULL)) || (status = second_address(d, &o[1])))
        return status;
    if (in->sub != SIM_BULK_OUT &&
        ((status = sim_operands(d, 4, 5)) || (status = second_address(d, &o[3]))))
        return status;
    return sim_emit(d, in);
}

/* extra: size, slot of the source size or none, then the second address, and a third for bulk
 * copies */
enum sim_status sim_decode_cp(struct sim_decoder *d) {
    struct sim_insn in = {0};
    const struct sim_operand *o = d->s->operands;
    struct address a;
    uint32_t slot = SIM_NO_SLOT;
    enum sim_status status;
    if (!sim_part_at(d, 1, "async"))
        return sim_unsupported(d);
    if (sim_part(d, "prefetch")) {
        in.op = SIM_OP_PREFETCH;
        in.class = SIM_CLASS_MOVE;
        return sim_emit(d, &in);
    }
    if (sim_part(d, "commit_group") || sim_part(d, "wait_group") || sim_part(d, "wait_all"))
        return decode_groups(d);
    if (sim_part(d, "mbarrier"))
        return decode_copies_arrive(d);
    const int bulk = sim_part(d, "bulk");
    if ((status = sim_operands(d, 3, 5)) || (status = address_of(d, &o[0], &a)))
        return status;
    in.op = bulk ? SIM_OP_BULK : SIM_OP_CPASYNC;
    in.class = SIM_CLASS_GLOBAL;
    in.a = a.base;
    in.dst2 = a.flags;
    in.imm = a.offset;
    if (bulk)
        return decode_bulk(d, &in);
    if (o[2].kind != SIM_O_INT || (o[2].bits != 4 && o[2].bits != 8 && o[2].bits != 16))
        return sim_malformed(d, "cp.async copies 4, 8 or 16 bytes");
    if (d->s->count > 3) {
        if (o[3].kind == SIM_O_REG && o[3].type == SIM_T_PRED) { /* true: reads nothing */
            struct sim_insn size = {.op = SIM_OP_SELP, .flags = SIM_F_HELPER, .dsize = 4};
            slot = size.dst = sim_temp(d);
            if ((status = sim_constant_slot(d, 0, 4, &size.a)) ||
                (status = sim_constant_slot(d, o[2].bits, 4, &size.b)) ||
                (status = sim_predicate(d, &o[3], &size.c)) || (status = sim_emit(d, &size)))
                return status;
        } else if ((status = sim_source(d, &o[3], SIM_T_U32, &slot)) != SIM_OK) {
            return status;
        }
    }
    in.space = SIM_S_SHARED;
    if ((status = sim_extra(d, (uint32_t)o[2].bits, &in.ext)) ||
        (status = sim_extra(d, slot, NULL)) || (status = second_address(d, &o[1])))
        return status;
    return sim_emit(d, &in);
}

/* ---- mbarrier ---- */

enum sim_status sim_decode_mbarrier(struct sim_decoder *d) {
    struct sim_insn in = {0};
    const struct sim_operand *o = d->s->operands;
    enum sim_status status;
    uint32_t n = 0;
    in.op = SIM_OP_MBAR;
    in.dst = in.b = SIM_NO_SLOT;
    in.dsize = 8;
    int wait = sim_part(d, "test_wait") || sim_part(d, "try_wait");
    if (wait) {
        in.sub = sim_part(d, "parity") ? SIM_MBAR_WAIT_PARITY : SIM_MBAR_WAIT;
    } else if (sim_part(d, "pending_count")) {
        if ((status = sim_operands(d, 2, 2)) != SIM_OK)
            return status;
        in.sub = SIM_MBAR_PENDING;
        in.class = SIM_CLASS_BARRIER;
        in.a = SIM_NO_SLOT;
        if ((status = sim_source(d, &o[1], SIM_T_B64, &in.b)) != SIM_OK)
            return status;
        if ((status = sim_target(d, &o[0], SIM_T_B32, &in.dst)) != SIM_OK)
            return status;
        return sim_emit(d, &in);
    } else {
        in.sub = sim_part(d, "init")          ? SIM_MBAR_INIT
                 : sim_part(d, "inval")       ? SIM_MBAR_INVAL
                 : sim_part(d, "arrive_drop") ? SIM_MBAR_ARRIVE_DROP
                 : sim_part(d, "arrive")
                     ? (sim_part(d, "expect_tx") ? SIM_MBAR_ARRIVE_EXPECT : SIM_MBAR_ARRIVE)
                 : sim_part(d, "expect_tx") ? SIM_MBAR_EXPECT
                                            : SIM_MBAR_COMPLETE;
        if (in.sub == SIM_MBAR_COMPLETE && !sim_part(d, "complete_tx"))
            return sim_unsupported(d);
    }
    if ((status = sim_operands(d, 1, 4)) != SIM_OK)
        return status;
    if (o[0].kind != SIM_O_ADDRESS)
        n = 1;
    if (n >= d->s->count)
        return sim_malformed(d, "mbarrier needs an address");
    if ((status = memory_operand(d, &o[n], &in)) != SIM_OK)
        return status;
    in.class = SIM_CLASS_BARRIER;
    if (in.space != SIM_S_SHARED && in.space != SIM_S_GENERIC)
        return sim_malformed(d, "an mbarrier lies in shared memory");
    if (n + 1 < d->s->count)
        if ((status = sim_source(d, &o[n + 1], in.sub == SIM_MBAR_WAIT ? SIM_T_B64 : SIM_T_U32,
                                 &in.b)) != SIM_OK)
            return status;
    if (n && o[0].kind != SIM_O_SINK) {
        status = wait ? sim_predicate_target(d, &o[0], &in.dst)
                      : sim_target(d, &o[0], SIM_T_B64, &in.dst);
        if (status)
            return status;
    }
    return sim_emit(d, &in);
}

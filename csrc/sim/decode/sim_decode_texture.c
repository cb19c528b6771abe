/* sim_decode_texture.c: decodes texture fetches, gathers and queries, and the accesses of surfaces.
 * Handles are 64-bit registers; names of texture variables are refused.
 */
#include "sim_decode.h"

#include <string.h>

static enum sim_status handle_of(struct sim_decoder *d, const struct sim_operand *o,
                                 uint32_t *slot) {
    if (o->kind != SIM_O_ADDRESS && o->kind != SIM_O_REG)
        return sim_unsupported(d);
    if (o->symbol || o->reg == UINT32_MAX || o->bits || sim_storage(o->type) != 8)
        return sim_refuse(d, "a texture or surface that is not given by a 64-bit handle");
    *slot = d->slots[o->reg];
    return SIM_OK;
}

/* Dimensions of a geometry; layers and cubes included. */
static uint32_t extents_of(unsigned geometry) {
    static const uint8_t count[] = {0, 1, 2, 3, 1, 2, 3, 3};
    return count[geometry];
}

static unsigned geometry_of(const struct sim_decoder *d) {
    static const struct {
        const char *name;
        uint8_t geometry;
    } rows[] = {{"1d", SIM_GEOM_1D},      {"2d", SIM_GEOM_2D},   {"3d", SIM_GEOM_3D},
                {"a1d", SIM_GEOM_A1D},    {"a2d", SIM_GEOM_A2D}, {"cube", SIM_GEOM_CUBE},
                {"acube", SIM_GEOM_ACUBE}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (sim_part(d, rows[i].name))
            return rows[i].geometry;
    return 0;
}

static int is_layered(unsigned geometry) {
    return geometry == SIM_GEOM_A1D || geometry == SIM_GEOM_A2D || geometry == SIM_GEOM_ACUBE;
}

/* Reads a vector of coordinates, or one alone, into slots. */
static enum sim_status vector(struct sim_decoder *d, const struct sim_operand *o, uint32_t first,
                              uint32_t count, enum sim_type type, uint32_t *slots) {
    const struct sim_operand *items = o->kind == SIM_O_VECTOR ? o->items : o;
    const uint32_t given = o->kind == SIM_O_VECTOR ? o->count : 1;
    enum sim_status status = SIM_OK;
    if (given < first + count)
        return sim_malformed(d, "too few texture coordinates");
    for (uint32_t i = 0; i < count && !status; i++)
        status = sim_source(d, &items[first + i], type, &slots[i]);
    return status;
}

/* [handle, {layer, x, y, z}] */
static enum sim_status coordinates(struct sim_decoder *d, const struct sim_operand *o,
                                   enum sim_type type, struct sim_insn *in,
                                   uint32_t slots[SIM_TEX_SLOTS]) {
    const uint32_t layered = (uint32_t)is_layered(in->scope);
    enum sim_status status;
    for (int i = 0; i < SIM_TEX_SLOTS; i++)
        slots[i] = SIM_NO_SLOT;
    if (o->kind != SIM_O_ADDRESS || !o->count)
        return sim_malformed(d, "expected a handle and coordinates in brackets");
    if (o->count > 1)
        return sim_refuse(d, "samplers apart from their texture");
    if ((status = handle_of(d, o, &in->a)) ||
        (status = vector(d, o->items, layered, extents_of(in->scope), type, &slots[SIM_TEX_X])))
        return status;
    return layered ? vector(d, o->items, 0, 1, SIM_T_B32, &slots[SIM_TEX_LAYER]) : SIM_OK;
}

static enum sim_status store_slots(struct sim_decoder *d, const uint32_t *slots, uint32_t count,
                                   uint32_t *index) {
    enum sim_status status = SIM_OK;
    for (uint32_t i = 0; i < count && !status; i++)
        status = sim_extra(d, slots[i], i ? NULL : index);
    return status;
}

/* {d0, d1, d2, d3}, or two pairs of halves; perhaps with |p: whether the texel is resident. */
static enum sim_status results(struct sim_decoder *d, const struct sim_operand *o,
                               enum sim_type type, struct sim_insn *in) {
    const uint32_t count = type == SIM_T_F16X2 ? 2 : 4;
    uint32_t slots[4] = {SIM_NO_SLOT, SIM_NO_SLOT, SIM_NO_SLOT, SIM_NO_SLOT};
    enum sim_status status = SIM_OK;
    in->dst2 = SIM_NO_SLOT;
    if (o->kind == SIM_O_PAIR) {
        if ((status = sim_predicate_target(d, &o->items[1], &in->dst2)))
            return status;
        o = &o->items[0];
    }
    if (o->kind != SIM_O_VECTOR || o->count != count || !sim_part(d, count == 2 ? "v2" : "v4"))
        return sim_unsupported(d);
    for (uint32_t i = 0; i < count && !status; i++)
        status = sim_target(d, &o->items[i], type, &slots[i]);
    return status ? status : store_slots(d, slots, 4, &in->ext);
}

/* tex, tld4 */
enum sim_status sim_decode_tex(struct sim_decoder *d) {
    struct sim_insn in = {.op = SIM_OP_TEX, .class = SIM_CLASS_TEXTURE};
    const struct sim_operand *o = d->s->operands;
    const enum sim_type coordinate = sim_last_type(d, 0), type = sim_last_type(d, 1);
    const uint32_t more = sim_part(d, "level") ? 1 : sim_part(d, "grad") ? 2 : 0;
    static const char *const channels[] = {"r", "g", "b", "a"};
    uint32_t slots[SIM_TEX_SLOTS];
    enum sim_status status = sim_operands(d, 2 + more, 2 + more);
    if (status)
        return status;
    in.sub = sim_part_at(d, 0, "tld4") ? SIM_TEX_GATHER : more == 2 ? SIM_TEX_GRAD : SIM_TEX_FETCH;
    in.scope = (uint8_t)geometry_of(d);
    in.type = (uint8_t)type;
    in.vec = coordinate == SIM_T_F32;
    for (int i = 0; i < 4; i++)
        in.imm = in.sub == SIM_TEX_GATHER && sim_part(d, channels[i]) ? i : in.imm;
    if (!in.scope || (coordinate != SIM_T_F32 && coordinate != SIM_T_S32))
        return sim_unsupported(d);
    if ((status = coordinates(d, &o[1], coordinate, &in, slots)) ||
        (more == 1 && (status = sim_source(d, &o[2], coordinate, &slots[SIM_TEX_LOD]))))
        return status;
    const uint32_t count = extents_of(in.scope);
    if (more == 2 && ((status = vector(d, &o[2], 0, count, coordinate, &slots[SIM_TEX_DX])) ||
                      (status = vector(d, &o[3], 0, count, coordinate, &slots[SIM_TEX_DY]))))
        return status;
    if ((status = store_slots(d, slots, SIM_TEX_SLOTS, &in.e)) ||
        (status = results(d, &o[0], type, &in)))
        return status;
    return sim_emit(d, &in);
}

static enum sim_atomic reduction_of(const struct sim_decoder *d) {
    return sim_part(d, "add")   ? SIM_ATOM_ADD
           : sim_part(d, "min") ? SIM_ATOM_MIN
           : sim_part(d, "max") ? SIM_ATOM_MAX
           : sim_part(d, "and") ? SIM_ATOM_AND
                                : SIM_ATOM_OR;
}

/* suld.b d, [s, x]; sust.b [s, x], v; sured.b.add [s, x], v: x counts bytes; with .p texels */
enum sim_status sim_decode_surface(struct sim_decoder *d) {
    struct sim_insn in = {.op = SIM_OP_TEX, .class = SIM_CLASS_TEXTURE, .space = SIM_S_GLOBAL};
    const int reduces = sim_part_at(d, 0, "sured"), store = reduces || sim_part_at(d, 0, "sust");
    const struct sim_operand *o = d->s->operands, *value = &o[store];
    const enum sim_type type = sim_last_type(d, 1);
    uint32_t slots[SIM_TEX_SLOTS], values[4];
    enum sim_status status = sim_operands(d, 2, 2);
    if (status)
        return status;
    in.sub = reduces ? SIM_TEX_SURED : store ? SIM_TEX_SUST : SIM_TEX_SULD;
    in.mods = reduces ? (uint8_t)reduction_of(d) : 0;
    in.scope = (uint8_t)geometry_of(d);
    in.type = (uint8_t)type;
    in.vec = sim_part(d, "v2") ? 2 : sim_part(d, "v4") ? 4 : 1;
    in.dsize = (uint8_t)sim_storage(type);
    in.imm = sim_part(d, "clamp")  ? SIM_SURF_CLAMP
             : sim_part(d, "zero") ? SIM_SURF_ZERO
                                   : SIM_SURF_TRAP;
    in.imm |= sim_part(d, "p") ? SIM_SURF_TEXELS : 0;
    in.dst = in.dst2 = SIM_NO_SLOT;
    const uint32_t given = value->kind == SIM_O_VECTOR ? value->count : 1;
    if (!in.scope || given != in.vec || (sim_types[type].class != SIM_C_BITS && !reduces) ||
        sim_types[type].bytes * in.vec > 16)
        return sim_unsupported(d);
    if ((status = coordinates(d, &o[!store], SIM_T_B32, &in, slots)) ||
        (status = store_slots(d, slots, SIM_TEX_SLOTS, &in.e)))
        return status;
    for (uint32_t i = 0; i < in.vec; i++) {
        const struct sim_operand *each = value->kind == SIM_O_VECTOR ? &value->items[i] : value;
        status =
            store ? sim_source(d, each, type, &values[i]) : sim_target(d, each, type, &values[i]);
        if (status)
            return status;
    }
    in.b = in.dst = values[0];
    if ((status = store_slots(d, values, in.vec, &in.ext)))
        return status;
    return sim_emit(d, &in);
}

/* txq, suq, istypep */
enum sim_status sim_decode_query(struct sim_decoder *d) {
    struct sim_insn in = {.op = SIM_OP_TEX, .class = SIM_CLASS_TEXTURE, .sub = SIM_TEX_QUERY};
    const struct sim_operand *o = d->s->operands;
    static const struct {
        const char *name;
        uint8_t what;
    } rows[] = {{"width", SIM_TEX_WIDTH},
                {"height", SIM_TEX_HEIGHT},
                {"depth", SIM_TEX_DEPTH},
                {"array_size", SIM_TEX_LAYERS},
                {"num_mipmap_levels", SIM_TEX_LEVELS},
                {"normalized_coords", SIM_TEX_IS_NORMALISED},
                {"texref", SIM_TEX_IS_TEXTURE},
                {"surfref", SIM_TEX_IS_SURFACE},
                {"samplerref", SIM_TEX_IS_SAMPLER}};
    uint32_t slots[4] = {SIM_NO_SLOT, SIM_NO_SLOT, SIM_NO_SLOT, SIM_NO_SLOT};
    enum sim_status status = sim_operands(d, 2, 2);
    in.dst = in.dst2 = SIM_NO_SLOT;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        in.imm = sim_part(d, rows[i].name) ? rows[i].what : in.imm;
    if (status)
        return status;
    if (!in.imm || sim_part(d, "level"))
        return sim_refuse(d, "this query of a texture or surface");
    if ((status = handle_of(d, &o[1], &in.a)))
        return status;
    status = sim_part_at(d, 0, "istypep") ? sim_predicate_target(d, &o[0], &in.dst)
                                          : sim_target(d, &o[0], SIM_T_B32, &slots[0]);
    if (status || (status = store_slots(d, slots, 4, &in.ext)))
        return status;
    if (sim_part_at(d, 0, "istypep") && in.dst == SIM_NO_SLOT)
        in.dst = sim_temp(d);
    return sim_emit(d, &in);
}

/* sim_decode_packed.c: decodes arithmetic that is no single row of ops.def: conversions to and from
 * formats of 8 bits and fewer, two float32 in a register, operands of two precisions, minima of
 * three, a logic function with its predicate, video instructions. Each becomes a few rows with the
 * decoder's own names.
 */
#include "sim_decode.h"

#include <stdio.h>
#include <string.h>

static uint32_t rounding(const struct sim_decoder *d) {
    return (sim_modifiers(d) & SIM_M_ROUND) << 4;
}

static uint32_t flags_of(const struct sim_decoder *d) {
    return (sim_part(d, "relu") ? (uint32_t)SIM_SMALL_RELU : 0) |
           (sim_part(d, "satfinite") ? (uint32_t)SIM_SMALL_FINITE : 0) |
           (sim_part(d, "rna") ? (uint32_t)SIM_SMALL_AWAY : 0);
}

/* A row whose last operand is a constant of the instruction. */
static enum sim_status constant_row(struct sim_decoder *d, const char *row, uint32_t how,
                                    enum sim_type to, const enum sim_type *from, uint32_t count) {
    uint32_t sources[4] = {0}, dst;
    const struct sim_operand *o = d->s->operands;
    enum sim_status status = sim_operands(d, count + 1, count + 1);
    for (uint32_t i = 0; !status && i < count; i++)
        status = sim_source(d, &o[i + 1], from[i], &sources[i]);
    if (!status)
        status = sim_constant_slot(d, how, 4, &sources[count]);
    if (status || (status = sim_target(d, &o[0], to, &dst)) ||
        (status = sim_lane(d, row, 0, dst, sources, 0)))
        return status;
    return sim_finish(d, &o[0], to, dst);
}

/* ---- conversions ---- */

/* The index of a small format, or -1. */
static int small_format(const struct sim_decoder *d, uint32_t from_end) {
    static const char *const names[] = {
#define SIM_X(id, name, mantissa, bias, most, nan, bits) name,
        SIM_SMALL_FORMATS(SIM_X)
#undef SIM_X
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (sim_part_at(d, d->m->count - 1 - from_end, names[i]))
            return (int)i;
    return -1;
}

static enum sim_status decode_pack(struct sim_decoder *d) {
    static const struct {
        const char *name;
        uint32_t how;
    } types[] = {{"u16", 16}, {"s16", 16 | SIM_SMALL_SIGNED}, {"u8", 8},
                 {"u4", 4},   {"s8", 8 | SIM_SMALL_SIGNED},   {"s4", 4 | SIM_SMALL_SIGNED},
                 {"u2", 2},   {"s2", 2 | SIM_SMALL_SIGNED}};
    static const enum sim_type from[] = {SIM_T_S32, SIM_T_S32, SIM_T_B32};
    uint32_t how = 0, sources[4] = {0}, dst;
    const struct sim_operand *o = d->s->operands;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        how = sim_part(d, types[i].name) ? types[i].how : how;
    if ((how & 31) != 16)
        return constant_row(d, "~rpack.b32", how, SIM_T_B32, from, 3);
    enum sim_status status = sim_operands(d, 3, 3);
    for (uint32_t i = 0; !status && i < 2; i++)
        status = sim_source(d, &o[i + 1], SIM_T_S32, &sources[i]);
    if (!status)
        status = sim_constant_slot(d, 0, 4, &sources[2]);
    if (!status)
        status = sim_constant_slot(d, how, 4, &sources[3]);
    if (status || (status = sim_target(d, &o[0], SIM_T_B32, &dst)) ||
        (status = sim_lane(d, "~rpack.b32", 0, dst, sources, 0)))
        return status;
    return sim_finish(d, &o[0], SIM_T_B32, dst);
}

int sim_is_narrow(const struct sim_decoder *d) {
    return sim_part(d, "pack") || sim_part(d, "tf32") || sim_part(d, "satfinite") ||
           sim_part(d, "ue8m0x2") || small_format(d, 0) >= 0 || small_format(d, 1) >= 0;
}

enum sim_status sim_decode_narrow(struct sim_decoder *d) {
    static const enum sim_type floats[] = {SIM_T_F32, SIM_T_F32}, words[] = {SIM_T_B32},
                               shorts[] = {SIM_T_B16}, bytes[] = {SIM_T_B8};
    const int to = small_format(d, 1), from = small_format(d, 0);
    const uint32_t how = rounding(d) | flags_of(d);
    const enum sim_type result = sim_last_type(d, 1);
    if (sim_part(d, "pack"))
        return decode_pack(d);
    if (sim_part(d, "tf32"))
        return constant_row(d, "~rtf32.f32", how, SIM_T_B32, floats, 1);
    if (sim_part_at(d, d->m->count - 1, "ue8m0x2"))
        return constant_row(d, "~rbf16x2.ue8m0", how, SIM_T_B32, shorts, 1);
    if (sim_part(d, "ue8m0x2"))
        return sim_last_type(d, 0) == SIM_T_F32
                   ? constant_row(d, "~rue8m0.f32", how, SIM_T_B16, floats, 2)
                   : constant_row(d, "~rue8m0.bf16x2", how, SIM_T_B16, words, 1);
    if (from >= 0)
        return constant_row(d, "~rwiden.f16x2", how | (uint32_t)from, SIM_T_B32,
                            sim_part(d, "e2m1x2") ? bytes : shorts, 1);
    if (to >= 0) {
        const enum sim_type small = sim_part(d, "e2m1x2") ? SIM_T_B8 : SIM_T_B16;
        return sim_last_type(d, 0) == SIM_T_F32
                   ? constant_row(d, "~rnarrow.f32", how | (uint32_t)to, small, floats, 2)
                   : constant_row(d, "~rnarrow.f16x2", how | (uint32_t)to, small, words, 1);
    }
    if (sim_last_type(d, 0) != SIM_T_F32 || sim_types[result].class != SIM_C_HALF)
        return sim_unsupported(d);
    char row[32];
    snprintf(row, sizeof row, "~rfinite.%s", sim_types[result].name);
    return constant_row(d, row, how, result, floats, sim_types[result].bytes / 2u);
}

/* ---- two float32 in a register ---- */

static enum sim_status decode_pair(struct sim_decoder *d) {
    const struct sim_operand *o = d->s->operands;
    const uint32_t count = sim_part_at(d, 0, "fma") ? 3 : 2;
    uint32_t halves[2][4] = {{0}}, results[4] = {0}, dst;
    char row[24];
    enum sim_status status = sim_operands(d, count + 1, count + 1);
    for (uint32_t i = 0; !status && i < count; i++) {
        uint32_t source[4] = {0};
        status = sim_source(d, &o[i + 1], SIM_T_B64, source);
        for (uint32_t h = 0; !status && h < 2; h++) {
            halves[h][i] = sim_temp(d);
            status =
                sim_lane(d, h ? "~part1.b64.b32" : "~part0.b64.b32", 0, halves[h][i], source, 1);
        }
    }
    snprintf(row, sizeof row, "%.*s.f32", (int)d->m->parts[0].length, d->m->parts[0].text);
    for (uint32_t h = 0; !status && h < 2; h++) {
        results[h] = sim_temp(d);
        status = sim_lane(d, row, sim_modifiers(d), results[h], halves[h], h > 0);
    }
    if (status || (status = sim_target(d, &o[0], SIM_T_B64, &dst)) ||
        (status = sim_lane(d, "~pack.b64.b32", 0, dst, results, 1)))
        return status;
    return sim_finish(d, &o[0], SIM_T_B64, dst);
}

/* ---- halves added to float32 ---- */

static enum sim_status decode_mixed(struct sim_decoder *d) {
    const struct sim_operand *o = d->s->operands;
    const enum sim_type half = sim_last_type(d, 0);
    const uint32_t count = sim_part_at(d, 0, "fma") ? 3 : 2;
    uint32_t sources[4] = {0}, dst;
    char row[24], widen[24];
    enum sim_status status = sim_operands(d, count + 1, count + 1);
    snprintf(widen, sizeof widen, "cvt.f32.%s", sim_types[half].name);
    snprintf(row, sizeof row, "%.*s.f32", (int)d->m->parts[0].length, d->m->parts[0].text);
    for (uint32_t i = 0; !status && i < count; i++) {
        uint32_t source[4] = {0};
        status = sim_source(d, &o[i + 1], i + 1 < count ? half : SIM_T_F32, source);
        sources[i] = source[0];
        if (status || i + 1 == count)
            continue;
        sources[i] = sim_temp(d);
        status = sim_lane(d, widen, 0, sources[i], source, 1);
    }
    if (status || (status = sim_target(d, &o[0], SIM_T_F32, &dst)) ||
        (status = sim_lane(d, row, sim_modifiers(d), dst, sources, 0)))
        return status;
    return sim_finish(d, &o[0], SIM_T_F32, dst);
}

/* ---- the least or largest of three, or of magnitudes ---- */

enum sim_status sim_decode_three(struct sim_decoder *d) {
    const struct sim_operand *o = d->s->operands;
    uint32_t sources[4] = {0}, pair[4] = {0}, dst;
    const unsigned mods = sim_modifiers(d);
    char row[24];
    enum sim_status status = sim_operands(d, 4, 4);
    if (!status && d->module->target && d->module->target < 100)
        return sim_refuse(d, "'%.*s' of three values needs .target sm_100 or later, not sm_%u",
                          sim_shown(d->s->mnemonic), d->s->mnemonic.text, d->module->target);
    for (uint32_t i = 0; !status && i < 3; i++) {
        uint32_t source[4] = {0};
        status = sim_source(d, &o[i + 1], SIM_T_F32, source);
        sources[i] = source[0];
        if (status || !sim_part(d, "abs"))
            continue;
        sources[i] = sim_temp(d);
        status = sim_lane(d, "abs.f32", 0, sources[i], source, 1);
    }
    snprintf(row, sizeof row, "%.*s%s.f32", (int)d->m->parts[0].length, d->m->parts[0].text,
             sim_part(d, "NaN") ? ".NaN" : "");
    pair[0] = sim_temp(d);
    pair[1] = sources[2];
    if (status || (status = sim_lane(d, row, mods, pair[0], sources, 0)) ||
        (status = sim_target(d, &o[0], SIM_T_F32, &dst)) ||
        (status = sim_lane(d, row, mods, dst, pair, 1)))
        return status;
    return sim_finish(d, &o[0], SIM_T_F32, dst);
}

/* ---- lop3 with a predicate: whether any bit is set, and or or with another ---- */

static enum sim_status decode_lop3(struct sim_decoder *d) {
    const struct sim_operand *o = d->s->operands;
    uint32_t sources[4] = {0}, test[4] = {0}, dst, p, q;
    enum sim_status status = sim_operands(d, 6, 6);
    if (status)
        return status;
    if (o[0].kind != SIM_O_PAIR)
        return sim_malformed(d, "lop3 with a boolean operation writes a value and a predicate");
    const struct sim_operand *value = &o[0].items[0];
    for (uint32_t i = 0; !status && i < 4; i++)
        status = sim_source(d, &o[i + 1], SIM_T_B32, &sources[i]);
    if (status || (status = sim_predicate(d, &o[5], &q)) ||
        (status = sim_predicate_target(d, &o[0].items[1], &p)))
        return status;
    const uint32_t temp = sim_temp(d);
    test[0] = temp;
    if ((status = sim_constant_slot(d, 0, 4, &test[1])) ||
        (status = sim_lane(d, "lop3.b32", 0, temp, sources, 0)))
        return status;
    if (value->kind != SIM_O_SINK && ((status = sim_target(d, value, SIM_T_B32, &dst)) ||
                                      (status = sim_lane(d, "mov.b32", 0, dst, test, 1)) ||
                                      (status = sim_finish(d, value, SIM_T_B32, dst))))
        return status;
    if ((status = sim_lane(d, "setp.ne.u32", 0, p == SIM_NO_SLOT ? sim_temp(d) : p, test, 1)))
        return status;
    struct sim_insn *in = &d->kernel->code[d->kernel->code_count - 1];
    in->dst2 = SIM_NO_SLOT;
    in->sub = sim_part(d, "and") ? 1 : sim_part(d, "or") ? 2 : 3;
    in->e = q;
    return SIM_OK;
}

/* ---- video instructions of whole words ---- */

static int video_op(const struct sim_decoder *d) {
    static const char *const names[] = {"vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr"};
    for (int i = 0; i < 7; i++)
        if (sim_part_at(d, 0, names[i]))
            return i;
    return -1;
}

static enum sim_status decode_video(struct sim_decoder *d) {
    static const enum sim_type from[] = {SIM_T_B32, SIM_T_B32, SIM_T_B32};
    static const struct {
        const char *part;
        uint32_t how;
    } parts[] = {{"sat", SIM_VIDEO_SAT},
                 {"wrap", SIM_VIDEO_WRAP},
                 {"add", SIM_VIDEO_THEN_ADD},
                 {"min", SIM_VIDEO_THEN_MIN},
                 {"max", SIM_VIDEO_THEN_MAX}};
    const uint32_t then = SIM_VIDEO_THEN_ADD | SIM_VIDEO_THEN_MIN | SIM_VIDEO_THEN_MAX;
    uint32_t how = (uint32_t)video_op(d);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        how |= sim_part(d, parts[i].part) ? parts[i].how : 0;
    for (uint32_t i = 0; i < 3; i++)
        how |= sim_part_at(d, i + 1, "s32") ? (uint32_t)SIM_VIDEO_SIGNED << i : 0;
    if (how & then)
        return constant_row(d, "~rvideo.b32", how, SIM_T_B32, from, 3);
    uint32_t sources[4] = {0}, dst;
    const struct sim_operand *o = d->s->operands;
    enum sim_status status = sim_operands(d, 3, 3);
    for (uint32_t i = 0; !status && i < 2; i++)
        status = sim_source(d, &o[i + 1], SIM_T_B32, &sources[i]);
    if (status || (status = sim_constant_slot(d, 0, 4, &sources[2])) ||
        (status = sim_constant_slot(d, how, 4, &sources[3])) ||
        (status = sim_target(d, &o[0], SIM_T_B32, &dst)) ||
        (status = sim_lane(d, "~rvideo.b32", 0, dst, sources, 0)))
        return status;
    return sim_finish(d, &o[0], SIM_T_B32, dst);
}

sim_decode_fn sim_decode_packed(const struct sim_decoder *d) {
    const int sum =
        sim_part_at(d, 0, "add") || sim_part_at(d, 0, "sub") || sim_part_at(d, 0, "fma");
    const int extreme = sim_part_at(d, 0, "min") || sim_part_at(d, 0, "max");
    const enum sim_type last = sim_last_type(d, 0);
    if (sim_part(d, "f32x2"))
        return decode_pair;
    if (sum && sim_last_type(d, 1) == SIM_T_F32 && sim_types[last].class == SIM_C_HALF)
        return decode_mixed;
    if (extreme && last == SIM_T_F32 && sim_part(d, "abs") && !sim_part(d, "xorsign"))
        return sim_decode_three;
    if (sim_part_at(d, 0, "lop3") && d->m->count > 2)
        return decode_lop3;
    if (video_op(d) >= 0)
        return decode_video;
    return NULL;
}

/* sim_decode_matrix.c: matrix instructions whose results are exact: ldmatrix, and mma of bytes.
 * ldmatrix becomes a load of rows, 16 bytes by each of the first lanes, into temporary registers,
 * and a permutation of them. An instruction's `b` and `c` count the sources, and those and the
 * results, among the extra operands. Knows no layout of fragments.
 */
#include "sim_decode.h"

enum { ROW_WORDS = 4, OPERANDS_MOST = 4 };

/* The operands of a vector in braces, or one alone; `count` of them. */
static enum sim_status vector(struct sim_decoder *d, const struct sim_operand *o, uint32_t count,
                              const struct sim_operand **items) {
    *items = o->kind == SIM_O_VECTOR ? o->items : o;
    const uint32_t given = o->kind == SIM_O_VECTOR ? o->count : 1;
    return given == count
               ? SIM_OK
               : sim_malformed(d, "%u registers of a fragment that has %u", given, count);
}

static enum sim_status fragment(struct sim_decoder *d, const struct sim_operand *o, uint32_t count,
                                enum sim_type type, int is_result, uint32_t *index) {
    const struct sim_operand *items;
    uint32_t slots[OPERANDS_MOST];
    enum sim_status status = vector(d, o, count, &items);
    for (uint32_t i = 0; i < count && !status; i++)
        status = is_result ? sim_target(d, &items[i], type, &slots[i])
                           : sim_source(d, &items[i], type, &slots[i]);
    for (uint32_t i = 0; i < count && !status; i++)
        status = sim_extra(d, slots[i], i ? NULL : index);
    return status;
}

enum sim_status sim_decode_ldmatrix(struct sim_decoder *d) {
    const struct sim_operand *o = d->s->operands;
    const uint32_t count = sim_part(d, "x4") ? 4 : sim_part(d, "x2") ? 2 : 1;
    struct sim_insn in = sim_warp_wide(SIM_OP_MATRIX), rows;
    uint32_t words[ROW_WORDS], index;
    enum sim_status status = sim_operands(d, 2, 2);
    if (!status)
        status = sim_decode_rows(d, &o[1], SIM_LD_ROWS + count, &rows);
    for (uint32_t i = 0; i < ROW_WORDS && !status; i++)
        status = sim_extra(d, words[i] = sim_temp(d), i ? NULL : &rows.ext);
    rows.dst = words[0];
    if (status || (status = sim_emit(d, &rows)) ||
        (status = sim_constant_slot(d, UINT32_MAX, 4, &in.e)))
        return status;
    in.flags = SIM_F_HELPER;
    in.vec = (uint8_t)count;
    in.sub = (uint8_t)sim_part(d, "trans");
    in.ext = rows.ext;
    in.b = ROW_WORDS;
    in.c = ROW_WORDS + count;
    /* the results follow the words */
    if ((status = fragment(d, &o[0], count, SIM_T_B32, 1, &index)) == SIM_OK)
        status = sim_emit(d, &in);
    return status;
}

enum sim_status sim_decode_mma(struct sim_decoder *d) {
    const struct sim_operand *o = d->s->operands;
    const int tall = !sim_part(d, "m8n8k16"), deep = sim_part(d, "m16n8k32");
    struct sim_insn in = sim_warp_wide(SIM_OP_MMA);
    uint32_t index;
    enum sim_status status = sim_operands(d, 4, 4);
    if (status || (status = sim_constant_slot(d, UINT32_MAX, 4, &in.e)))
        return status;
    in.vec = (uint8_t)(deep ? 32 : 16);
    in.sub = (uint8_t)((tall ? SIM_MMA_TALL : 0) | (sim_part(d, "satfinite") ? SIM_MMA_SAT : 0) |
                       (sim_last_type(d, 2) == SIM_T_S8 ? SIM_MMA_SIGNED_A : 0) |
                       (sim_last_type(d, 1) == SIM_T_S8 ? SIM_MMA_SIGNED_B : 0));
    /* the order in which the executor finds them: a, b, c, d */
    const uint32_t depth = deep ? 2 : 1, height = tall ? 2 : 1;
    in.b = depth * height + depth + 2 * height;
    in.c = in.b + 2 * height;
    if ((status = fragment(d, &o[1], depth * height, SIM_T_B32, 0, &in.ext)) ||
        (status = fragment(d, &o[2], depth, SIM_T_B32, 0, &index)) ||
        (status = fragment(d, &o[3], 2 * height, SIM_T_S32, 0, &index)) ||
        (status = fragment(d, &o[0], 2 * height, SIM_T_S32, 1, &index)))
        return status;
    return sim_emit(d, &in);
}

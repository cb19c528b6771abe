/*
 * sim_decode_compared.c: which loads fetch what a compare-and-swap compares with. The loop that
 * makes any atomic out of a compare-and-swap begins with a plain load, in the CUDA programming
 * guide as in the toolkit's own headers. Where another thread writes the word meanwhile the swap
 * fails, so to the race detector such a load is as good as an atomic one.
 *
 * Values are followed backwards, from the swaps through moves and arguments to the loads, with no
 * regard to control flow.
 */
#include "sim_decode.h"
#include "sim_parser.h"

#define ROUNDS_MOST 8 /* chains against the order of the text end there, and are nobody's */

struct search {
    struct sim_decoder *d;
    uint8_t **registers; /* by function: 1 where a register holds such a value */
    int changed;
};

static int is_swap(const struct sim_statement *s) {
    return sim_begins_with(s, "atom") && sim_has_part(s, ".cas") && s->count >= 4;
}

static void mark(struct search *q, uint8_t *compared) {
    q->changed |= !*compared;
    *compared = 1;
}

static void mark_register(struct search *q, uint8_t *registers, const struct sim_operand *o) {
    if (o->kind == SIM_O_REG)
        mark(q, &registers[o->reg]);
}

static void follow_arguments(struct search *q, const struct sim_statement *s) {
    for (uint32_t i = 0; i + 1 < s->count; i++) {
        const struct sim_operand *name = &s->operands[i], *list = name + 1;
        if (name->kind != SIM_O_LABEL || list->kind != SIM_O_LIST)
            continue;
        const struct sim_function *callee =
            sim_module_function(q->d->module, name->name.text, name->name.length);
        const struct sim_parsed *f = callee ? callee->parsed : NULL;
        for (uint32_t n = 0; f && n < list->count && n < f->param_count; n++)
            if (f->params[n]->compared && list->items[n].kind == SIM_O_SYMBOL)
                mark(q, &list->items[n].symbol->compared);
    }
}

static void follow(struct search *q, struct sim_statement *s, uint8_t *registers) {
    const struct sim_operand *o = s->operands;
    if (is_swap(s))
        mark_register(q, registers, &o[2]);
    else if (sim_begins_with(s, "call"))
        follow_arguments(q, s);
    if (s->count != 2)
        return;
    const int is_param = sim_has_part(s, ".param"),
              wanted = o[0].kind == SIM_O_REG && registers[o[0].reg];
    if (sim_begins_with(s, "st") && is_param && o[0].symbol && o[0].symbol->compared)
        mark_register(q, registers, &o[1]);
    else if (wanted && (sim_begins_with(s, "mov") || sim_begins_with(s, "cvt")))
        mark_register(q, registers, &o[1]);
    else if (wanted && sim_begins_with(s, "ld") && !is_param)
        mark(q, &s->compared);
    else if (wanted && sim_begins_with(s, "ld") && o[1].symbol)
        mark(q, &o[1].symbol->compared);
}

enum sim_status sim_find_compared(struct sim_decoder *d) {
    struct search q = {.d = d};
    for (uint32_t i = 0; i < d->parsed_count; i++)
        for (uint32_t n = 0; n < d->parsed[i]->count; n++)
            q.changed |= is_swap(&d->parsed[i]->statements[n]);
    if (!q.changed)
        return SIM_OK;
    q.registers = sim_arena_alloc(&d->scratch, d->parsed_count, sizeof *q.registers);
    for (uint32_t i = 0; q.registers && i < d->parsed_count; i++)
        if (!(q.registers[i] = sim_arena_alloc(&d->scratch, d->parsed[i]->reg_count + 1ull, 1)))
            return sim_decode_no_memory(d);
    if (!q.registers)
        return sim_decode_no_memory(d);
    for (int round = 0; q.changed && round < ROUNDS_MOST; round++) {
        q.changed = 0;
        for (uint32_t i = d->parsed_count; i-- > 0;)
            for (uint32_t n = d->parsed[i]->count; n-- > 0;)
                follow(&q, &d->parsed[i]->statements[n], q.registers[i]);
    }
    return SIM_OK;
}

/* sim_decode_flow.c: follows values forward through a kernel and its functions, without regard to
 * control flow. For each memory access it finds the kernel parameters that its address may come
 * from, so that a finding can name the argument. For each store it finds between which threads
 * equal values are chance, so that the race detector can tell `flag = 1` from equal data.
 *
 * Values pass through registers, arguments and results. Constants, parameters and indices of
 * threads are equal by construction; a word of memory is data, but one value for all threads that
 * read it.
 */
#include "sim_decode.h"
#include "../ptx/sim_parser.h"

#define ROUNDS_MOST 64 /* passes over the text, for values that flow backwards in it */

struct follow {
    struct sim_decoder *d;
    struct sim_flow **registers; /* by function */
    int changed;
};

static struct sim_flow join(struct sim_flow a, struct sim_flow b) {
    return (struct sim_flow){a.params | b.params, a.same > b.same ? a.same : b.same,
                             a.data > b.data ? a.data : b.data};
}

static void add(struct follow *q, struct sim_flow *to, struct sim_flow more) {
    const struct sim_flow now = join(*to, more);
    q->changed |= now.params != to->params || now.same != to->same || now.data != to->data;
    *to = now;
}

static const struct sim_flow UNKNOWN = {.same = SIM_VARIES, .data = SIM_VARIES};

/* ---- operands ---- */

static struct sim_flow of_special(uint64_t which) {
    struct sim_flow f = {0};
    switch (which) {
    case SIM_SPECIAL_NTID_X:
    case SIM_SPECIAL_NTID_Y:
    case SIM_SPECIAL_NTID_Z:
    case SIM_SPECIAL_NCTAID_X:
    case SIM_SPECIAL_NCTAID_Y:
    case SIM_SPECIAL_NCTAID_Z:
    case SIM_SPECIAL_WARP_SZ:
        f.same = SIM_SAME_GRID;
        break;
    case SIM_SPECIAL_CTAID_X:
    case SIM_SPECIAL_CTAID_Y:
    case SIM_SPECIAL_CTAID_Z:
        f.same = SIM_SAME_BLOCK;
        break;
    case SIM_SPECIAL_CLOCK:
    case SIM_SPECIAL_CLOCK_HI:
    case SIM_SPECIAL_CLOCK64:
    case SIM_SPECIAL_GLOBALTIMER:
    case SIM_SPECIAL_GLOBALTIMER_LO:
    case SIM_SPECIAL_GLOBALTIMER_HI:
        return UNKNOWN;
    default:
        f.same = SIM_VARIES;
        break;
    }
    return f;
}

static struct sim_flow of_operand(const struct sim_flow *registers, const struct sim_operand *o) {
    struct sim_flow f = {0};
    if ((o->kind == SIM_O_REG || o->kind == SIM_O_ADDRESS || o->kind == SIM_O_SUM) &&
        o->reg != UINT32_MAX)
        f = registers[o->reg];
    else if (o->kind == SIM_O_SPECIAL)
        f = of_special(o->bits);
    else if ((o->kind == SIM_O_SYMBOL || o->kind == SIM_O_ADDRESS) && o->symbol &&
             o->symbol->kind == SIM_SYM_VAR && sim_is_frame_local(o->symbol))
        f.same = SIM_VARIES; /* each thread has its own */
    for (uint32_t i = 0; i < o->count; i++) {
        f = join(f, of_operand(registers, &o->items[i]));
    }
    return f;
}

static void define(struct follow *q, struct sim_flow *registers, const struct sim_operand *o,
                   struct sim_flow f) {
    if (o->kind == SIM_O_REG && o->reg != UINT32_MAX)
        add(q, &registers[o->reg], f);
    for (uint32_t i = 0; i < o->count && (o->kind == SIM_O_VECTOR || o->kind == SIM_O_PAIR); i++)
        define(q, registers, &o->items[i], f);
}

/* ---- statements ---- */

static void follow_call(struct follow *q, const struct sim_statement *s) {
    const struct sim_parsed *f = NULL;
    uint32_t name = 0;
    while (name < s->count && s->operands[name].kind != SIM_O_LABEL)
        name++;
    if (name < s->count) {
        const struct sim_name text = s->operands[name].name;
        const struct sim_function *callee =
            sim_module_function(q->d->module, text.text, text.length);
        f = callee ? callee->parsed : NULL;
    }
    for (uint32_t i = 1; name == s->count && i < q->d->parsed_count; i++) /* any may be called */
        for (uint32_t n = 0; n < q->d->parsed[i]->param_count; n++)
            add(q, &q->d->parsed[i]->params[n]->flow, UNKNOWN);
    for (uint32_t i = 0; i < s->count; i++) {
        const struct sim_operand *list = &s->operands[i];
        for (uint32_t n = 0; list->kind == SIM_O_LIST && n < list->count; n++) {
            struct sim_symbol *symbol = list->items[n].symbol;
            if (!symbol)
                continue;
            if (i > name && f && n < f->param_count)
                add(q, &f->params[n]->flow, symbol->flow);
            else if (i < name)
                add(q, &symbol->flow, f && n < f->return_count ? f->returns[n]->flow : UNKNOWN);
        }
    }
}

static struct sim_flow loaded(const struct sim_flow *registers, const struct sim_statement *s) {
    const struct sim_operand *address = &s->operands[1];
    struct sim_flow f = of_operand(registers, address);
    if (sim_has_part(s, ".param") && address->symbol)
        return address->reg == UINT32_MAX ? address->symbol->flow : join(f, address->symbol->flow);
    f.params = 0;
    if (sim_has_part(s, ".local"))
        return UNKNOWN;
    if (!sim_has_part(s, ".global") && !sim_has_part(s, ".const") && f.same < SIM_SAME_BLOCK)
        f.same = SIM_SAME_BLOCK;
    f.data = f.same > f.data ? f.same : f.data;
    return f;
}

/* The result of a statement, from its sources. */
static struct sim_flow result_of(const struct sim_flow *registers, const struct sim_statement *s) {
    struct sim_flow f = {0};
    if (s->count >= 2 && (sim_begins_with(s, "ld") || sim_begins_with(s, "ldu")))
        return loaded(registers, s);
    for (uint32_t i = 1; i < s->count; i++)
        f = join(f, of_operand(registers, &s->operands[i]));
    if (s->guard != UINT32_MAX)
        f = join(f, (struct sim_flow){.same = registers[s->guard].same,
                                      .data = registers[s->guard].data});
    if (sim_begins_with(s, "atom"))
        return UNKNOWN;
    if (sim_begins_with(s, "bar") || sim_begins_with(s, "barrier"))
        return (struct sim_flow){.same = SIM_SAME_BLOCK, .data = SIM_SAME_BLOCK};
    return f;
}

static int is_store(const struct sim_statement *s) {
    return sim_begins_with(s, "st") || sim_begins_with(s, "red") || sim_begins_with(s, "sust") ||
           sim_begins_with(s, "sured");
}

static void follow(struct follow *q, uint32_t function, struct sim_statement *s) {
    struct sim_flow *registers = q->registers[function];
    const struct sim_operand *o = s->operands;
    if (sim_begins_with(s, "call")) {
        follow_call(q, s);
    } else if (is_store(s) && s->count >= 2) {
        if (sim_has_part(s, ".param") && o[0].symbol)
            add(q, &o[0].symbol->flow, of_operand(registers, &o[1]));
    } else if (s->count && sim_writes_first(s)) {
        define(q, registers, &o[0], result_of(registers, s));
    }
}

static void note(const struct sim_flow *registers, struct sim_statement *s) {
    const struct sim_operand *o = s->operands;
    if (s->count < 2)
        return;
    if (is_store(s)) {
        s->stored = of_operand(registers, &o[1]);
        s->from = of_operand(registers, &o[0]).params;
    } else {
        for (uint32_t i = 0; i < s->count; i++)
            if (o[i].kind == SIM_O_ADDRESS)
                s->from |= of_operand(registers, &o[i]).params;
    }
}

enum sim_status sim_find_flow(struct sim_decoder *d) {
    struct follow q = {.d = d, .changed = 1};
    const struct sim_parsed *kernel = d->parsed[0];
    q.registers = sim_arena_alloc(&d->scratch, d->parsed_count, sizeof *q.registers);
    for (uint32_t i = 0; q.registers && i < d->parsed_count; i++)
        if (!(q.registers[i] = sim_arena_alloc(&d->scratch, d->parsed[i]->reg_count + 1ull,
                                               sizeof **q.registers)))
            return sim_decode_no_memory(d);
    if (!q.registers)
        return sim_decode_no_memory(d);
    for (uint32_t i = 0; i < kernel->param_count && i < 64; i++)
        if (kernel->params[i]->bytes >= 8)
            kernel->params[i]->flow.params = 1ull << i;
    int round = 0;
    for (; q.changed && round < ROUNDS_MOST; round++) {
        q.changed = 0;
        for (uint32_t i = 0; i < d->parsed_count; i++)
            for (uint32_t n = 0; n < d->parsed[i]->count; n++)
                follow(&q, i, &d->parsed[i]->statements[n]);
    }
    for (uint32_t i = 0; i < d->parsed_count; i++)
        for (uint32_t n = 0; n < d->parsed[i]->count; n++) {
            struct sim_statement *s = &d->parsed[i]->statements[n];
            note(q.registers[i], s);
            if (q.changed) { /* not followed to the end: nothing is known */
                s->from = 0;
                s->stored = UNKNOWN;
            }
        }
    return SIM_OK;
}

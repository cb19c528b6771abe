/* sim_decode_compared.c: finds loads whose value a compare-and-swap compares. The loop that builds
 * an atomic from a compare-and-swap begins with a plain load, in the CUDA programming guide and in
 * the toolkit's headers. If another thread writes the word meanwhile, the swap fails; the race
 * detector therefore treats such a load as atomic.
 *
 * The search follows values backwards from the swaps to the loads and ignores control flow: through
 * moves and arguments, through instructions that split and join words, and through the function's
 * own local memory, where unoptimized code keeps every variable.
 */
#include "sim_decode.h"
#include "../ptx/sim_parser.h"

#define ROUNDS_MOST 8   /* longer chains against the text's order are not followed */
#define LOCAL_MOST 4096 /* bytes of a function's local memory that are followed */

enum {
    WANTED = 1,
    LOCAL = 2
}; /* contents of a register: such a value; an address of local memory */

struct search {
    struct sim_decoder *d;
    uint8_t **registers; /* by function */
    uint8_t **bytes;     /* by function, NULL until needed: WANTED by offset in its local memory */
    int changed, no_memory;
};

static int is_swap(const struct sim_statement *s) {
    return sim_begins_with(s, "atom") && sim_has_part(s, ".cas") && s->count >= 4;
}

static void mark(struct search *q, uint8_t *what) {
    q->changed |= !(*what & WANTED);
    *what |= WANTED;
}

static void mark_registers(struct search *q, uint8_t *registers, const struct sim_operand *o) {
    if (o->kind == SIM_O_REG)
        mark(q, &registers[o->reg]);
    else if (o->kind == SIM_O_VECTOR)
        for (uint32_t i = 0; i < o->count; i++)
            if (o->items[i].kind == SIM_O_REG)
                mark(q, &registers[o->items[i].reg]);
}

static int is_wanted(const uint8_t *registers, const struct sim_operand *o) {
    int wanted = o->kind == SIM_O_REG && registers[o->reg] & WANTED;
    for (uint32_t i = 0; o->kind == SIM_O_VECTOR && i < o->count; i++)
        wanted |= o->items[i].kind == SIM_O_REG && registers[o->items[i].reg] & WANTED;
    return wanted;
}

/* Whether the result contains bits of an operand. */
static int hands_on(const struct sim_statement *s) {
    static const char *const names[] = {"mov", "cvt", "and", "or",  "xor", "add", "selp",
                                        "shf", "shl", "shr", "bfi", "bfe", "prmt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (sim_begins_with(s, names[i]))
            return 1;
    return 0;
}

/* ---- local memory ---- */

static void note_address(const struct sim_statement *s, uint8_t *registers) {
    const struct sim_operand *o = s->operands;
    if (s->count != 2 || o[0].kind != SIM_O_REG)
        return;
    if ((sim_begins_with(s, "mov") && o[1].kind == SIM_O_SYMBOL &&
         o[1].symbol->space == SIM_S_LOCAL) ||
        (sim_begins_with(s, "cvta") && o[1].kind == SIM_O_REG && registers[o[1].reg] & LOCAL))
        registers[o[0].reg] |= LOCAL;
}

/* The bytes of local memory that a load or store accesses; 0: none that are followed. */
static uint32_t local_bytes(const struct sim_statement *s, const struct sim_operand *address,
                            const uint8_t *registers) {
    const char *end = s->mnemonic.text + s->mnemonic.length, *digits = end;
    uint32_t bits = 0, each = sim_has_part(s, ".v4") ? 4 : sim_has_part(s, ".v2") ? 2 : 1;
    const int is_local = (address->reg != UINT32_MAX && registers[address->reg] & LOCAL) ||
                         (address->symbol && address->symbol->space == SIM_S_LOCAL);
    if (address->kind != SIM_O_ADDRESS || !is_local)
        return 0;
    while (digits > s->mnemonic.text && digits[-1] >= '0' && digits[-1] <= '9' && end - digits < 3)
        digits--;
    for (; digits < end; digits++)
        bits = bits * 10 + (uint32_t)(*digits - '0');
    const uint32_t bytes = bits / 8 * each;
    return address->bits < LOCAL_MOST && bytes <= LOCAL_MOST - address->bits ? bytes : 0;
}

static void mark_local(struct search *q, uint32_t function, const struct sim_statement *s,
                       const struct sim_operand *address) {
    const uint32_t count = local_bytes(s, address, q->registers[function]);
    uint8_t **bytes = &q->bytes[function];
    if (count && !*bytes && !(*bytes = sim_arena_alloc(&q->d->scratch, LOCAL_MOST, 1)))
        q->no_memory = 1;
    for (uint32_t i = 0; *bytes && i < count; i++)
        mark(q, *bytes + address->bits + i);
}

static int is_local_wanted(const struct search *q, uint32_t function, const struct sim_statement *s,
                           const struct sim_operand *address) {
    const uint8_t *bytes = q->bytes[function];
    int wanted = 0;
    for (uint32_t i = bytes ? local_bytes(s, address, q->registers[function]) : 0; i-- > 0;)
        wanted |= bytes[address->bits + i];
    return wanted;
}

/* ---- statements ---- */

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

static void follow(struct search *q, uint32_t function, struct sim_statement *s) {
    uint8_t *registers = q->registers[function];
    const struct sim_operand *o = s->operands;
    if (is_swap(s))
        mark_registers(q, registers, &o[2]);
    else if (sim_begins_with(s, "call"))
        follow_arguments(q, s);
    if (s->count < 2)
        return;
    const int is_param = sim_has_part(s, ".param"), wanted = is_wanted(registers, &o[0]);
    if (sim_begins_with(s, "st")) {
        if (is_param ? o[0].symbol && o[0].symbol->compared
                     : is_local_wanted(q, function, s, &o[0]))
            mark_registers(q, registers, &o[1]);
    } else if (wanted && sim_begins_with(s, "ld") && !is_param) {
        mark(q, &s->compared);
        mark_local(q, function, s, &o[1]);
    } else if (wanted && sim_begins_with(s, "ld") && o[1].symbol) {
        mark(q, &o[1].symbol->compared);
    } else if (wanted && hands_on(s)) {
        for (uint32_t i = 1; i < s->count; i++)
            mark_registers(q, registers, &o[i]);
    }
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
    q.bytes = sim_arena_alloc(&d->scratch, d->parsed_count, sizeof *q.bytes);
    if (!q.registers || !q.bytes)
        return sim_decode_no_memory(d);
    for (uint32_t i = 0; i < d->parsed_count; i++)
        for (uint32_t n = 0; n < d->parsed[i]->count; n++)
            note_address(&d->parsed[i]->statements[n], q.registers[i]);
    for (int round = 0; q.changed && round < ROUNDS_MOST; round++) {
        q.changed = 0;
        for (uint32_t i = d->parsed_count; i-- > 0;)
            for (uint32_t n = d->parsed[i]->count; n-- > 0;)
                follow(&q, i, &d->parsed[i]->statements[n]);
    }
    return q.no_memory ? sim_decode_no_memory(d) : SIM_OK;
}

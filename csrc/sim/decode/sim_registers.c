/* sim_registers.c: assigns registers to slots of the frame. Liveness by data flow over the basic
 * blocks, then a linear scan: a frame of a few kilobytes fits the first-level cache, one slot for
 * each virtual register would not. The maximum number of live registers also estimates a thread's
 * registers for the occupancy.
 *
 * Lanes are threads with their own control flow, and writes are masked, so liveness of one thread
 * decides.
 */
#include "sim_decode.h"
#include "../ptx/sim_parser.h"

#include <string.h>

/* Bits of all sets together; beyond it every register has its own slot. */
#define MOST_BITS (1ull << 31)

struct flow {
    struct sim_decoder *d;
    struct sim_parsed *f;
    uint32_t blocks, words;
    uint32_t *first; /* first statement of each block, and the end */
    uint64_t *use, *def, *in, *out;
    uint32_t *start, *end; /* each register's interval, in statements */
};

/* Whether the first operand receives the result. A wrong "no" only keeps a register alive longer.
 */
int sim_writes_first(const struct sim_statement *s) {
    static const char *const readers[] = {"st",    "red",  "bra",       "brx",       "sust",
                                          "sured", "call", "nanosleep", "setmaxnreg"};
    if ((sim_begins_with(s, "bar") || sim_begins_with(s, "barrier")) && !sim_has_part(s, ".red"))
        return 0;
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        if (sim_begins_with(s, readers[i]))
            return 0;
    return 1;
}

typedef void (*visit_fn)(struct flow *w, uint32_t where, uint32_t reg, int is_def);

static void visit_operand(struct flow *w, uint32_t where, const struct sim_operand *o, int is_def,
                          visit_fn visit) {
    if (o->reg != UINT32_MAX &&
        (o->kind == SIM_O_REG || o->kind == SIM_O_ADDRESS || o->kind == SIM_O_SUM))
        visit(w, where, o->reg, is_def && o->kind == SIM_O_REG);
    for (uint32_t i = 0; i < o->count; i++) {
        const struct sim_operand *item = &o->items[i];
        if (item->kind == SIM_O_REG || item->kind == SIM_O_SUM)
            visit(w, where, item->reg, is_def && o->kind != SIM_O_ADDRESS);
        for (uint32_t n = 0; n < item->count;
             n++) /* of a texture fetch: coordinates, and results with a predicate */
            if (item->items[n].kind == SIM_O_REG)
                visit(w, where, item->items[n].reg, is_def && o->kind == SIM_O_PAIR);
    }
}

/* Visits uses, then definitions, in a thread's order. A guarded definition may keep the old value.
 */
static void visit_statement(struct flow *w, uint32_t where, const struct sim_statement *s,
                            visit_fn visit) {
    int writes = s->count && sim_writes_first(s);
    if (s->guard != UINT32_MAX)
        visit(w, where, s->guard, 0);
    for (uint32_t o = 0; o < s->count; o++)
        if (o || !writes)
            visit_operand(w, where, &s->operands[o], 0, visit);
    if (writes && s->guard != UINT32_MAX)
        visit_operand(w, where, &s->operands[0], 0, visit);
    if (writes)
        visit_operand(w, where, &s->operands[0], 1, visit);
}

static void note_local(struct flow *w, uint32_t block, uint32_t reg, int is_def) {
    uint64_t *use = w->use + (size_t)block * w->words, *def = w->def + (size_t)block * w->words,
             bit = 1ull << (reg & 63);
    if (is_def)
        def[reg / 64] |= bit;
    else if (!(def[reg / 64] & bit))
        use[reg / 64] |= bit;
}

static void note_place(struct flow *w, uint32_t statement, uint32_t reg, int is_def) {
    (void)is_def;
    w->start[reg] = statement < w->start[reg] ? statement : w->start[reg];
    w->end[reg] = statement > w->end[reg] ? statement : w->end[reg];
}

static int absorb(struct flow *w, uint32_t block, uint32_t next) {
    uint64_t *out = w->out + (size_t)block * w->words;
    const uint64_t *in = w->in + (size_t)next * w->words;
    uint64_t changed = 0;
    for (uint32_t i = 0; i < w->words; i++) {
        changed |= in[i] & ~out[i];
        out[i] |= in[i];
    }
    return changed != 0;
}

static int absorb_label(struct flow *w, uint32_t block, const struct sim_operand *o) {
    uint32_t statement =
        o->kind == SIM_O_LABEL ? sim_find_label(w->f, o->name, o->scope) : UINT32_MAX;
    if (statement == UINT32_MAX)
        return 0; /* the decoder reports it */
    return absorb(w, block, w->d->statement_block[statement] - w->d->kernel->block_count);
}

static int absorb_successors(struct flow *w, uint32_t block) {
    int changed = 0, falls = 1;
    uint32_t last = w->first[block + 1];
    if (last > w->first[block]) {
        const struct sim_statement *s = &w->f->statements[last - 1];
        int leaves =
            sim_begins_with(s, "ret") || sim_begins_with(s, "exit") || sim_begins_with(s, "trap");
        if (sim_begins_with(s, "bra") && s->count) {
            changed |= absorb_label(w, block, &s->operands[0]);
            leaves = 1;
        } else if (sim_begins_with(s, "brx") && s->count == 2 &&
                   s->operands[1].kind == SIM_O_SYMBOL &&
                   s->operands[1].symbol->kind == SIM_SYM_TABLE) {
            const struct sim_label_list *list = s->operands[1].symbol->targets;
            for (uint32_t i = 0; i < list->count; i++)
                changed |= absorb_label(w, block, &list->items[i]);
            leaves = 1;
        }
        falls = !leaves || s->guard != UINT32_MAX;
    }
    if (falls && block + 1 < w->blocks)
        changed |= absorb(w, block, block + 1);
    return changed;
}

static void solve(struct flow *w) {
    for (int changed = 1; changed;) {
        changed = 0;
        for (uint32_t b = w->blocks; b-- > 0;) {
            absorb_successors(w, b);
            uint64_t *in = w->in + (size_t)b * w->words, *out = w->out + (size_t)b * w->words;
            const uint64_t *use = w->use + (size_t)b * w->words,
                           *def = w->def + (size_t)b * w->words;
            for (uint32_t i = 0; i < w->words; i++) {
                uint64_t now = use[i] | (out[i] & ~def[i]);
                changed |= now != in[i];
                in[i] = now;
            }
        }
    }
}

static void find_intervals(struct flow *w) {
    for (uint32_t r = 0; r < w->f->reg_count; r++)
        w->start[r] = UINT32_MAX;
    for (uint32_t s = 0; s < w->f->count; s++)
        visit_statement(w, s, &w->f->statements[s], note_place);
    for (uint32_t b = 0; b < w->blocks; b++) {
        for (uint32_t i = 0; i < w->words; i++) {
            uint64_t in = w->in[(size_t)b * w->words + i], out = w->out[(size_t)b * w->words + i];
            for (uint64_t m = in; m; m &= m - 1)
                note_place(w, w->first[b], i * 64 + (uint32_t)__builtin_ctzll(m), 0);
            for (uint64_t m = out; m; m &= m - 1)
                note_place(w, w->first[b + 1], i * 64 + (uint32_t)__builtin_ctzll(m), 0);
        }
    }
}

/* ---- slots ---- */

struct pool { /* free slots of one size */
    uint32_t *slots;
    uint32_t count;
};

static uint32_t size_class(enum sim_type type) {
    return type == SIM_T_PRED ? 0 : sim_storage(type) == 2 ? 1 : sim_storage(type) == 4 ? 2 : 3;
}

/* An interval holds its slot for whole statements: operands of one instruction never overlap. */
static int scan(struct flow *w, uint64_t *at, uint32_t *registers) {
    static const uint32_t bytes[4] = {4, 2 * SIM_LANES, 4 * SIM_LANES, 8 * SIM_LANES};
    /* Before 2.0 addresses have 32 bits, whatever PTX says. */
    const uint32_t wide = w->d->kernel->module->gpu->preset->cc < 20 ? 1 : 2,
                   units[4] = {0, 1, 1, wide};
    struct sim_arena *scratch = &w->d->scratch;
    uint32_t n = w->f->reg_count, places = w->f->count + 2, alive = 0;
    uint32_t *starts = sim_arena_alloc(scratch, places, sizeof *starts),
             *ends = sim_arena_alloc(scratch, places, sizeof *ends);
    uint32_t *next_start = sim_arena_alloc(scratch, n + 1ull, sizeof *next_start),
             *next_end = sim_arena_alloc(scratch, n + 1ull, sizeof *next_end);
    struct pool pools[4];
    int ok = starts && ends && next_start && next_end;
    for (int c = 0; c < 4; c++)
        ok &= (pools[c] = (struct pool){sim_arena_alloc(scratch, n + 1ull, sizeof(uint32_t)), 0})
                  .slots != NULL;
    if (!ok)
        return 0;
    for (uint32_t r = 0; r < n; r++) { /* lists by statement, of register + 1 */
        if (w->start[r] == UINT32_MAX)
            continue;
        next_start[r] = starts[w->start[r]];
        starts[w->start[r]] = r + 1;
        next_end[r] = ends[w->end[r]];
        ends[w->end[r]] = r + 1;
    }
    for (uint32_t p = 0; p < places; p++) {
        for (uint32_t r = starts[p]; r; r = next_start[r - 1]) {
            uint32_t class = size_class(w->f->reg_types[r - 1]);
            struct pool *pool = &pools[class];
            if (pool->count) {
                w->d->slots[r - 1] = pool->slots[--pool->count];
            } else {
                *at = class ? (*at + 63) & ~63ull : *at;
                w->d->slots[r - 1] = (uint32_t)*at;
                *at += bytes[class];
            }
            alive += units[class];
        }
        *registers = alive > *registers ? alive : *registers;
        for (uint32_t r = ends[p]; r; r = next_end[r - 1]) {
            uint32_t class = size_class(w->f->reg_types[r - 1]);
            pools[class].slots[pools[class].count++] = w->d->slots[r - 1];
            alive -= units[class];
        }
    }
    return 1;
}

/* The kernel's registers that it reads before it assigns them, on some path from its entry. They
 * live from the entry on, so their slots are nobody else's before. */
static int list_unassigned(const struct flow *w) {
    struct sim_kernel *k = w->d->kernel;
    k->unassigned = sim_arena_alloc(w->d->arena, w->f->reg_count + 1ull, sizeof *k->unassigned);
    if (!k->unassigned)
        return 0;
    for (uint32_t i = 0; i < w->words; i++)
        for (uint64_t left = w->in[i]; left; left &= left - 1)
            k->unassigned[k->unassigned_count++] =
                w->d->slots[i * 64 + (uint32_t)__builtin_ctzll(left)];
    return 1;
}

/* Sets d->slots from offset *at on. Returns 0 if it cannot: every register then needs its own slot.
 */
int sim_allocate_registers(struct sim_decoder *d, uint64_t *at, uint32_t *registers) {
    struct flow w = {.d = d, .f = d->f};
    struct sim_arena *scratch = &d->scratch;
    w.blocks = d->return_block + 1 - d->kernel->block_count;
    w.words = d->f->reg_count / 64 + 1;
    uint64_t set = (uint64_t)w.blocks * w.words, before = *at;
    *registers = 0;
    if (set * 64 * 4 > MOST_BITS)
        return 0;
    w.first = sim_arena_alloc(scratch, w.blocks + 1ull, sizeof *w.first);
    w.use = sim_arena_alloc(scratch, set, sizeof *w.use);
    w.def = sim_arena_alloc(scratch, set, sizeof *w.def);
    w.in = sim_arena_alloc(scratch, set, sizeof *w.in);
    w.out = sim_arena_alloc(scratch, set, sizeof *w.out);
    w.start = sim_arena_alloc(scratch, w.words * 64ull, sizeof *w.start);
    w.end = sim_arena_alloc(scratch, w.words * 64ull, sizeof *w.end);
    if (!w.first || !w.use || !w.def || !w.in || !w.out || !w.start || !w.end)
        return 0;
    for (uint32_t s = 0; s <= d->f->count; s++)
        if (d->statement_block[s] != UINT32_MAX)
            w.first[d->statement_block[s] - d->kernel->block_count] = s;
    w.first[w.blocks] = d->f->count;
    for (uint32_t b = 0; b < w.blocks; b++)
        for (uint32_t s = w.first[b]; s < w.first[b + 1]; s++)
            visit_statement(&w, b, &d->f->statements[s], note_local);
    solve(&w);
    find_intervals(&w);
    if (scan(&w, at, registers))
        return d->f->index || list_unassigned(&w);
    *at = before;
    return 0;
}

/* sim_undefined_lane.c: the undefined lanes and bytes of the results of lane operations. */
#include "sim_undefined.h"

#include <string.h>

/* The undefined bytes of a result, per lane. */
struct made {
    uint8_t missing[SIM_LANES];
    uint32_t computed, origin;
};

static void define_bytes(const struct sim_watch *s, unsigned bytes, const struct made *made) {
    struct sim_undefined_register *to = &s->values[s->in->dst / 4];
    sim_undefined_define(s, s->in->dst, 0, 0, 0);
    for (uint32_t m = s->mask; m; m &= m - 1)
        sim_undefined_set(to, (uint32_t)__builtin_ctz(m), made->missing[__builtin_ctz(m)], bytes);
    const uint32_t undefined = (to->lanes | to->partly) & s->mask;
    to->computed |= made->computed & undefined;
    to->origin = undefined ? made->origin : to->origin;
}

/* Lanes in which any source has an undefined byte; fills in the origin and the computed ones. */
static uint32_t any_of(const struct sim_watch *s, const uint32_t *sources, int count,
                       struct made *made) {
    uint32_t any = 0;
    for (int i = 0; i < count; i++) {
        const uint32_t lanes = sim_undefined_any(s, sources[i]);
        made->computed |= s->values[sources[i] / 4].computed & lanes;
        made->origin = lanes ? s->values[sources[i] / 4].origin : made->origin;
        any |= lanes;
    }
    return any;
}

/* A result that is undefined where any source is; by halves for packed halves. */
static void combine(const struct sim_watch *s, const uint32_t *sources, int count, int halves,
                    int computed) {
    struct made made = {0};
    const uint32_t any = any_of(s, sources, count, &made);
    if (!any || !halves) {
        sim_undefined_define(s, s->in->dst, any, computed ? SIM_FULL : made.computed, made.origin);
        return;
    }
    const unsigned half = s->in->dsize / 2u;
    made.computed = SIM_FULL;
    for (uint32_t m = any; m; m &= m - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(m);
        unsigned missing = 0;
        for (int i = 0; i < count; i++)
            missing |= sim_undefined_bytes(&s->values[sources[i] / 4], lane);
        made.missing[lane] =
            (uint8_t)((missing & sim_all_bytes(half) ? sim_all_bytes(half) : 0) |
                      (missing >> half & sim_all_bytes(half) ? sim_all_bytes(half) << half : 0));
    }
    define_bytes(s, 2 * half, &made);
}

void sim_undefined_move(const struct sim_watch *s) { combine(s, &s->in->a, 1, 0, 0); }

void sim_undefined_carry(const struct sim_watch *s) {
    const uint32_t sources[] = {s->in->a, s->in->b, s->in->c};
    combine(s, sources, s->in->op == SIM_OP_MADCC ? 3 : 2, 0, 1);
}

static int begins_with_one_of(const char *mnemonic, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strncmp(mnemonic, words[i], strlen(words[i])) == 0)
            return 1;
    return 0;
}
#define IS_ONE_OF(name, ...)                                     \
    begins_with_one_of(name, (const char *const[]){__VA_ARGS__}, \
                       sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* The bits of each lane's result that change when source i's undefined bytes are inverted. */
static void changed_bits(const struct sim_watch *s, const uint32_t *sources, int i,
                         uint64_t changed[SIM_LANES]) {
    const struct sim_lane_op *row = &sim_lane_ops[s->in->ext];
    const unsigned to = sim_types[row->types[0]].bytes, from = sim_types[row->types[i + 1]].bytes;
    _Alignas(64) uint8_t turned[SIM_LANES * 8], before[SIM_LANES * 8], after[SIM_LANES * 8];
    const uint8_t *inputs[4];
    memcpy(turned, s->regs + sources[i], SIM_LANES * from);
    for (uint32_t m = sim_undefined_any(s, sources[i]); m; m &= m - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(m);
        const unsigned missing = sim_undefined_bytes(&s->values[sources[i] / 4], lane);
        for (unsigned b = 0; b < from; b++)
            turned[lane * from + b] ^= missing >> b & 1 ? 0xff : 0;
    }
    for (int k = 0; k < 4; k++)
        inputs[k] = s->regs + sources[k];
    s->in->fn(before, inputs[0], inputs[1], inputs[2], inputs[3]);
    for (int k = 0; k < 4; k++)
        if (row->types[k + 1] && sources[k] == sources[i])
            inputs[k] = turned;
    s->in->fn(after, inputs[0], inputs[1], inputs[2], inputs[3]);
    for (uint32_t lane = 0; lane < SIM_LANES; lane++)
        for (unsigned b = 0; b < to; b++)
            changed[lane] |= (uint64_t)(before[lane * to + b] ^ after[lane * to + b]) << b * 8;
}

enum bitwise { MOVE, EXACT, JOIN, CONJUNCTION, SHIFT };

/* Whether undefined bits of a source leave a byte of the result undefined. A byte in which a
 * bit-field's write or a shift mixes both kinds of bits is given to the majority, or, where fields
 * are joined, to the defined ones. */
static int leaves_undefined(enum bitwise kind, unsigned bits, int most_pass, int whole) {
    return bits == 0xff || (bits && kind != JOIN && !(kind == CONJUNCTION && most_pass) &&
                            !(kind == SHIFT && !whole && __builtin_popcount(bits) <= 4));
}

/* An operation on bits, of which sources from number `data` on are counts and selectors. */
static void bitwise(const struct sim_watch *s, enum bitwise kind, const uint32_t *sources,
                    int count, int data) {
    const unsigned bytes = sim_types[sim_lane_ops[s->in->ext].types[0]].bytes;
    uint64_t changed[SIM_LANES] = {0};
    struct made made = {0};
    const uint32_t any = any_of(s, sources, data, &made),
                   control = any_of(s, sources + data, count - data, &made);
    uint32_t whole = 0;
    for (int i = 0; i < data; i++) {
        if (sim_undefined_any(s, sources[i]))
            changed_bits(s, sources, i, changed);
        whole |= sim_undefined_lanes(s, sources[i]);
    }
    made.computed |= control | (kind == EXACT ? any : kind >= CONJUNCTION ? whole : 0);
    for (uint32_t m = any | control; m; m &= m - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(m);
        unsigned missing = control >> lane & 1 ? sim_all_bytes(bytes) : 0, before = 0;
        for (int i = 0; i < data; i++)
            before |= sim_undefined_bytes(&s->values[sources[i] / 4], lane) & sim_all_bytes(bytes);
        const int most_pass = __builtin_popcountll(changed[lane]) > 4 * __builtin_popcount(before);
        for (unsigned b = 0; b < bytes; b++) {
            const unsigned bits = changed[lane] >> b * 8 & 0xff;
            if (!leaves_undefined(kind, bits, most_pass, whole >> lane & 1))
                continue;
            missing |= 1u << b;
            made.computed |= (uint32_t)(bits != 0xff) << lane;
        }
        made.missing[lane] = (uint8_t)missing;
    }
    define_bytes(s, bytes, &made);
}

void sim_undefined_lane(const struct sim_watch *s) {
    const struct sim_lane_op *row = &sim_lane_ops[s->in->ext];
    const char *name = row->mnemonic;
    const uint32_t sources[4] = {s->in->a, s->in->b, s->in->c, s->in->e};
    int count = 0;
    while (count < 4 && row->types[count + 1])
        count++;
    if (IS_ONE_OF(name, "mov.", "~part", "~pack.") ||
        (IS_ONE_OF(name, "cvt.") && !strstr(name, "f16") && !strstr(name, "f32") &&
         !strstr(name, "f64") && !strstr(name, "sat"))) {
        bitwise(s, MOVE, sources, count, count);
    } else if (IS_ONE_OF(name, "xor.", "not.")) {
        bitwise(s, EXACT, sources, count, count);
    } else if (IS_ONE_OF(name, "and.")) {
        bitwise(s, CONJUNCTION, sources, count, count);
    } else if (IS_ONE_OF(name, "or.")) {
        bitwise(s, JOIN, sources, count, count);
    } else if (IS_ONE_OF(name, "lop3.")) {
        bitwise(s, JOIN, sources, count, 3);
    } else if (IS_ONE_OF(name, "bfi.")) {
        bitwise(s, JOIN, sources, count, 2);
    } else if (IS_ONE_OF(name, "shl.", "shr.")) {
        bitwise(s, SHIFT, sources, count, 1);
    } else if (IS_ONE_OF(name, "shf.")) {
        bitwise(s, SHIFT, sources, count, 2);
    } else if (IS_ONE_OF(name, "prmt.")) {
        bitwise(s, MOVE, sources, count, 2);
    } else if (IS_ONE_OF(name, "bfe.")) {
        bitwise(s, MOVE, sources, count, 1);
    } else {
        const int moved = IS_ONE_OF(name, "cvt.", "slct."),
                  same = row->types[0] == row->types[1] && row->types[0] == row->types[count];
        combine(s, sources, count, !moved && same && strstr(name, "x2"), !moved);
    }
}

/* p AND q, p OR q: undefined only where the other operand does not decide. kind: as in sim_insn.sub
 * of a comparison. */
static uint32_t boolean(uint32_t p, uint32_t p_undefined, uint32_t q, uint32_t q_undefined,
                        unsigned kind) {
    const uint32_t p_open = kind == 1   ? p
                            : kind == 2 ? ~p
                                        : SIM_FULL,
                   q_open = kind == 1   ? q
                            : kind == 2 ? ~q
                                        : SIM_FULL;
    return (p_undefined & (q_open | q_undefined)) | (q_undefined & (p_open | p_undefined));
}

void sim_undefined_comparison(const struct sim_watch *s) {
    const struct sim_insn *in = s->in;
    const uint8_t *regs = s->regs;
    const uint32_t a = sim_undefined_any(s, in->a), undefined = a | sim_undefined_any(s, in->b);
    uint32_t origin = s->values[(a ? in->a : in->b) / 4].origin;
    if (!in->sub) {
        sim_undefined_define(s, in->dst, undefined, SIM_FULL, origin);
        sim_undefined_define(s, in->dst2, undefined, SIM_FULL, origin);
        return;
    }
    sim_u32 r = 0;
    in->fn(&r, regs + in->a, regs + in->b, NULL, NULL);
    const uint32_t third = *(const sim_u32 *)(const void *)(regs + in->e),
                   third_undefined = sim_undefined_lanes(s, in->e);
    if (!undefined)
        origin = s->values[in->e / 4].origin;
    sim_undefined_define(s, in->dst, boolean(r, undefined, third, third_undefined, in->sub),
                         SIM_FULL, origin);
    sim_undefined_define(s, in->dst2, boolean(~r, undefined, third, third_undefined, in->sub),
                         SIM_FULL, origin);
}

void sim_undefined_predicates(const struct sim_watch *s, unsigned kind) {
    const struct sim_insn *in = s->in;
    uint8_t *regs = s->regs;
    const uint32_t a = sim_undefined_lanes(s, in->a), b = sim_undefined_lanes(s, in->b);
    sim_undefined_define(s, in->dst, boolean(PRED(in->a), a, PRED(in->b), b, kind), SIM_FULL,
                         s->values[(a ? in->a : in->b) / 4].origin);
}

/* The selected source's undefined bytes. */
void sim_undefined_selection(const struct sim_watch *s) {
    const struct sim_insn *in = s->in;
    uint8_t *regs = s->regs;
    const uint32_t p = PRED(in->c), by = sim_undefined_lanes(s, in->c);
    const struct sim_undefined_register *a = &s->values[in->a / 4], *b = &s->values[in->b / 4];
    const uint32_t from_a = sim_undefined_any(s, in->a) & p & ~by;
    struct made made = {.computed = by | (a->computed & p) | (b->computed & ~p)};
    made.origin = by ? s->values[in->c / 4].origin : from_a ? a->origin : b->origin;
    for (uint32_t m = s->mask; m; m &= m - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(m);
        made.missing[lane] =
            (uint8_t)((by >> lane & 1 ? 0xff : sim_undefined_bytes(p >> lane & 1 ? a : b, lane)) &
                      sim_all_bytes(in->dsize));
    }
    define_bytes(s, in->dsize, &made);
}

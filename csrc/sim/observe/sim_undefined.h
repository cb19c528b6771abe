/* sim_undefined.h: shared by the observer's two files: which lanes and bytes of each register are
 * undefined, as one warp's instructions move and use them (sim_undefined.c), and what a lane
 * operation makes of them (sim_undefined_lane.c).
 */
#ifndef SIM_UNDEFINED_H
#define SIM_UNDEFINED_H

#include "sim_observe.h"

struct sim_origin { /* where a warp's undefined values came from */
    uint32_t pc;
    uint8_t kind, space, bytes;
    uint64_t address[SIM_LANES];
};

struct sim_undefined_register { /* of a register, found by its frame offset */
    uint32_t lanes, computed; /* undefined lanes; of these, results of arithmetic (never padding) */
    uint32_t partly;          /* lanes with some undefined bytes: a bit each in missing[] */
    uint32_t origin;
    uint8_t missing[SIM_LANES];
};

struct sim_undefined {
    struct sim_undefined_register *values;
    uint64_t count;
    struct sim_origin *origins;
    uint32_t origin_count, origin_capacity;
};

struct sim_watch { /* one instruction of a warp */
    struct sim_worker *w;
    struct sim_warp *warp;
    const struct sim_insn *in;
    struct sim_undefined_register *values;
    uint8_t *regs;
    uint32_t mask;
};

static inline uint32_t sim_undefined_lanes(const struct sim_watch *s, uint32_t slot) {
    return slot == SIM_NO_SLOT ? 0 : s->values[slot / 4].lanes & s->mask;
}

/* Lanes in which any byte is undefined. */
static inline uint32_t sim_undefined_any(const struct sim_watch *s, uint32_t slot) {
    return sim_undefined_lanes(s, slot) |
           (slot == SIM_NO_SLOT ? 0 : s->values[slot / 4].partly & s->mask);
}

static inline unsigned sim_all_bytes(unsigned bytes) { return (1u << bytes) - 1; }

static inline unsigned sim_undefined_bytes(const struct sim_undefined_register *from,
                                           uint32_t lane) {
    return from->lanes >> lane & 1 ? 0xff : from->partly >> lane & 1 ? from->missing[lane] : 0;
}

/* The lane was defined before. */
static inline void sim_undefined_set(struct sim_undefined_register *to, uint32_t lane,
                                     unsigned missing, unsigned bytes) {
    if (missing == sim_all_bytes(bytes)) {
        to->lanes |= 1u << lane;
    } else if (missing) {
        to->partly |= 1u << lane;
        to->missing[lane] = (uint8_t)missing;
    }
}

static inline void sim_undefined_define(const struct sim_watch *s, uint32_t slot, uint32_t lanes,
                                        uint32_t computed, uint32_t origin) {
    if (slot == SIM_NO_SLOT)
        return;
    struct sim_undefined_register *to = &s->values[slot / 4];
    to->lanes = (to->lanes & ~s->mask) | (lanes & s->mask);
    to->computed = (to->computed & ~s->mask) | (computed & lanes & s->mask);
    to->partly &= ~s->mask;
    if (lanes & s->mask)
        to->origin = origin;
}

/* ---- sim_undefined_lane.c: the undefined bytes of the results of an instruction ---- */
void sim_undefined_lane(const struct sim_watch *s);       /* SIM_OP_LANE */
void sim_undefined_comparison(const struct sim_watch *s); /* SIM_OP_MASK */
void sim_undefined_selection(const struct sim_watch *s);  /* SIM_OP_SELP */
/* p AND q (1), p OR q (2), p XOR q (3) */
void sim_undefined_predicates(const struct sim_watch *s, unsigned kind);
void sim_undefined_move(const struct sim_watch *s);  /* of one source, all of it */
void sim_undefined_carry(const struct sim_watch *s); /* sums with a carry */

#endif

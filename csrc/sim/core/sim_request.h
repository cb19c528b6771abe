/* sim_request.h: one memory instruction of one warp, and which bytes of shared memory were written.
 * Knows neither instructions nor observers.
 */
#ifndef SIM_REQUEST_H
#define SIM_REQUEST_H

#include "sim_run.h"

/* Addresses, and their common properties. Blocks of several rows make groups of lanes: in each of
 * them every address is `stride` above the previous one, and each group begins `step` above the
 * previous group. */
struct sim_span {
    uint64_t least, most, bits; /* bits: the bitwise or of all addresses */
    int64_t stride, step;       /* all lanes are one group: step is not set */
    uint32_t group; /* lanes in each; SIM_LANES: one group; 0: the addresses have none */
};

struct sim_request {
    struct sim_worker *w;
    struct sim_warp *warp;
    const struct sim_insn *in;
    uint8_t *regs;
    uint32_t pc, mask, bytes; /* bytes: of a lane's whole access */
    uint8_t space, kind;
    uint32_t local_base;
    uint32_t copied;      /* of a bulk copy: its bytes before these */
    int moved;            /* the addresses were changed after `span` was filled in */
    struct sim_span span; /* of all 32 lanes; then of the active ones: sim_request_measure() */
    uint64_t address[SIM_LANES];
};

/* Global memory: the allocation of a lane's access, or NULL. */
static inline struct sim_region *sim_request_own(const struct sim_request *l, uint32_t lane) {
    return sim_memory_find(l->w->run->gpu, l->address[lane]);
}

/* ---- validity of shared memory: for each word, which of its bytes were written ---- */

#define SIM_FLYING 16 /* instead: an asynchronous copy writes the word, and has not landed */

static inline uint8_t sim_byte_mask(uint64_t address, uint32_t bytes) {
    return bytes >= 4 ? 15 : (uint8_t)(((1u << bytes) - 1) << (address & 3));
}

static inline void sim_shared_mark(struct sim_block *b, uint64_t address, uint32_t bytes) {
    uint8_t mask = sim_byte_mask(address, bytes);
    for (uint64_t word = address / 4; word <= (address + bytes - 1) / 4; word++)
        b->shared_valid[word] = (uint8_t)((b->shared_valid[word] & 15) | mask);
}

static inline int sim_shared_is_flying(const struct sim_block *b, uint64_t address,
                                       uint32_t bytes) {
    uint8_t any = 0;
    for (uint64_t word = address / 4; word <= (address + bytes - 1) / 4; word++)
        any |= b->shared_valid[word];
    return any & SIM_FLYING;
}

static inline void sim_shared_unmark(struct sim_block *b, uint64_t address, uint32_t bytes) {
    uint8_t mask = sim_byte_mask(address, bytes);
    for (uint64_t word = address / 4; word <= (address + bytes - 1) / 4; word++)
        b->shared_valid[word] &= (uint8_t)~mask;
}

static inline int sim_shared_is_valid(const struct sim_block *b, uint64_t address, uint32_t bytes) {
    uint8_t mask = sim_byte_mask(address, bytes);
    for (uint64_t word = address / 4; word <= (address + bytes - 1) / 4; word++)
        if ((b->shared_valid[word] & mask) != mask)
            return 0;
    return 1;
}

#endif

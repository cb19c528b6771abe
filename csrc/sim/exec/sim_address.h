/* sim_address.h: a memory instruction from its addresses to the data. sim_address.c computes and
 * checks addresses and raises the event; sim_exec_memory.c and sim_exec_atomic.c move the data.
 */
#ifndef SIM_ADDRESS_H
#define SIM_ADDRESS_H

#include "../core/sim_request.h"

static inline void sim_request_begin(struct sim_request *l, struct sim_worker *w,
                                     struct sim_warp *warp, const struct sim_insn *in,
                                     uint32_t mask, uint8_t *regs, uint32_t local_base,
                                     uint8_t kind) {
    l->w = w;
    l->warp = warp;
    l->in = in;
    l->regs = regs;
    l->pc = (uint32_t)(in - w->run->kernel->code);
    l->mask = mask;
    l->bytes = sim_types[in->type].bytes * (in->vec ? in->vec : 1u);
    l->space = in->space == SIM_S_CONST ? SIM_S_GLOBAL : in->space;
    l->kind = kind;
    l->local_base = local_base;
    l->copied = 0;
    l->moved = 0;
}

/* Computes addresses from a register (SIM_NO_SLOT: none) and an offset; flags: SIM_A_*. */
void sim_request_addresses(struct sim_request *l, uint32_t slot, uint32_t flags, int64_t offset);
void sim_request_measure_active(struct sim_request *l);

static inline void sim_request_measure(struct sim_request *l) {
    if (SIM_UNLIKELY(l->mask != SIM_FULL || l->moved))
        sim_request_measure_active(l);
}

/* All 32 lanes are active and access consecutive elements. */
static inline int sim_request_contiguous(const struct sim_request *l) {
    return l->mask == SIM_FULL && l->span.group == SIM_LANES && l->span.stride == (int64_t)l->bytes;
}

/* The checks remove failing lanes from the mask. Returns 1 when a finding ends the launch. */
int sim_request_misaligned(struct sim_request *l);
int sim_request_beyond(struct sim_request *l, uint64_t limit);
int sim_request_uninitialised(struct sim_request *l, uint32_t lane);

static inline int sim_request_check_alignment(struct sim_request *l) {
    return SIM_LIKELY(!(l->span.bits & (l->bytes - 1))) ? 0 : sim_request_misaligned(l);
}

/* Checks against a memory of `limit` bytes that begins at 0. */
static inline int sim_request_check_limit(struct sim_request *l, uint64_t limit) {
    return SIM_LIKELY(l->span.most <= limit && limit - l->span.most >= l->bytes)
               ? 0
               : sim_request_beyond(l, limit);
}

/* The region that holds an access, or NULL. */
struct sim_region *sim_request_region(struct sim_worker *w, uint64_t address, uint32_t bytes);
/* Global memory: sets *all to the region that holds all lanes, or NULL; lanes outside every region
 * are removed. Returns -1 when a finding ends the launch. */
int sim_request_regions(struct sim_request *l, struct sim_region **all);

/* Every access passes through here to the observers. value: the stored data, 32 lanes of `bytes`
 * bytes, or NULL. Returns 1 when a finding ends the launch. */
int sim_request_event(struct sim_request *l, struct sim_region *region, const uint8_t *value);

/* sim_exec_memory.c: loads and stores at the request's addresses of global memory. */
int sim_load_global(struct sim_request *l);
int sim_store_global(struct sim_request *l);

/* For instructions that move more than registers: checks one access of l->bytes per lane, raises
 * its event, and returns each lane's host address. Lanes that fail leave the mask. Returns 1 when
 * the launch ends. */
int sim_request_access(struct sim_request *l, uint8_t **host);

/* Generic addresses: calls the function once for each window, with addresses of that space. */
typedef int (*sim_request_fn)(struct sim_request *);
int sim_request_by_window(struct sim_request *l, sim_request_fn global, sim_request_fn shared,
                          sim_request_fn local, sim_request_fn params);

#endif

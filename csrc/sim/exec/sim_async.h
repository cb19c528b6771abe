/* sim_async.h: asynchronous copies in flight; st.async and red.async are copies of a value that the
 * copy holds. A copy moves its bytes when a thread has waited for it: for its group
 * (cp.async.wait_group), or for the phase of an mbarrier that tracks it. That is the latest moment
 * that hardware may choose. Until then its words of shared memory are flagged, so that an access to
 * them is found. Functions that return int return 1 when the launch ends.
 */
#ifndef SIM_ASYNC_H
#define SIM_ASYNC_H

#include "../core/sim_request.h"

/* The copies of one instruction, lane by lane. One side is in shared memory: the target, or the
 * source of a copy that goes out. */
struct sim_copy {
    uint32_t pc, bytes;
    uint32_t mask;            /* lanes whose copy is in flight */
    uint32_t moved;           /* of these: the source was read (cp.async.bulk.wait_group.read) */
    uint32_t tracked;         /* of these: an mbarrier tracks it ... */
    uint32_t arrives;         /* ... gets the lane's arrival from it ... */
    uint32_t counted, landed; /* ... has counted it; its phase is complete */
    uint8_t kind;             /* SIM_BULK_IN... */
    uint8_t bulk;
    uint8_t reduces;    /* of those that hold a value: combines it with the word */
    uint8_t lane_group; /* as `group` of struct sim_access, with stride and step */
    int64_t stride, step;
    uint64_t address;            /* of a bulk copy, in global memory */
    const uint8_t *low, *high;   /* bounds of all lanes' bytes there, on the host */
    uint32_t group[SIM_LANES];   /* the number of the thread's groups before this one */
    uint32_t barrier[SIM_LANES]; /* tracked: the mbarrier */
    uint32_t shared[SIM_LANES];  /* offsets in shared memory */
    uint8_t present[SIM_LANES];  /* bytes that the source has; the rest is zero */
    uint8_t *host[SIM_LANES];    /* the other side; NULL: `value` */
    uint8_t value[SIM_LANES][16];
};

void sim_lane_addresses(const uint8_t *regs, uint32_t slot, uint32_t flags, uint64_t offset,
                        uint64_t *address);

/* ---- copies that an mbarrier tracks; `at`: its offset in shared memory. They count for it when a
 * thread waits for its current phase, and land when a wait has seen that phase complete. ---- */

/* The barrier tracks the lane's plain copies. Returns whether there are any: one of them then makes
 * the lane's arrival. */
int sim_copies_track(struct sim_warp *warp, uint32_t lane, uint32_t at);
/* The barrier tracks the lane's store or reduction that has just begun; 0: it has none. */
int sim_copies_track_last(struct sim_warp *warp, uint32_t lane, uint32_t at);
/* At SIM_NO_SLOT: at all barriers, since no warp can proceed otherwise. */
int sim_copies_count(struct sim_worker *w, struct sim_block *block, uint32_t at);
void sim_copies_phase(struct sim_block *block, uint32_t at); /* it is complete */
int sim_copies_land(struct sim_worker *w, struct sim_block *block, uint32_t at);

/* sim_mbarrier.c: bytes and arrivals of a copy count; pc: the copy's. */
int sim_mbarrier_count(struct sim_worker *w, struct sim_warp *warp, uint32_t pc, uint32_t lane,
                       uint32_t at, uint32_t bytes, uint32_t arrivals);
/* The barrier at an address tracks a bulk copy; *at: its offset. */
int sim_mbarrier_track(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                       uint32_t lane, const uint64_t *address, uint32_t *at);

/* st.async and red.async: checks the access, and keeps the values until they land. */
int sim_exec_later(struct sim_request *l);
/* sim_exec_atomic.c: an atomic's new value. */
uint64_t sim_atomic_combine(struct sim_worker *w, const struct sim_insn *in, uint64_t old,
                            uint64_t value, uint64_t compare, uint32_t bytes, int is_global);

int sim_copies_read(const struct sim_request *l, uint32_t lane); /* words flagged as in flight */
int sim_copies_written(
    const struct sim_request *l);                   /* before a store, while copies are in flight */
int sim_copies_loaded(const struct sim_request *l); /* global memory, while copies go out */

/* A block begins with no copies; at its end those that go out land. */
void sim_copies_reset(struct sim_block *block);
void sim_copies_end(struct sim_worker *w, struct sim_block *block);
void sim_copies_free(struct sim_warp *warp);

#endif

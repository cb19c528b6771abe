/* sim_address.c: addresses of memory instructions: computes all 32, checks them against the
 * accessed memory, and raises the one event that observers receive. Invariant: no address that a
 * kernel can form reaches host memory unchecked. Moves no data.
 */
#include "sim_address.h"
#include "sim_exec.h"
#include "../observe/sim_observe.h"

#include <string.h>

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#define LANE_LOOP(n) _Pragma("clang loop vectorize(assume_safety)") for (int i = 0; i < (n); i++)
#else
#define LANE_LOOP(n) _Pragma("GCC ivdep") for (int i = 0; i < (n); i++)
#endif

/* ---- forming addresses ---- */

/* Addresses that wrap around are not linear: linear addresses lie between their first and their
 * last. With a 32-bit base the sum wraps, as on hardware. */
#define STRIDE_BITS 48
#define STRIDE_MOST (1ll << (STRIDE_BITS - 1))
#define SPAN_BODY                                                                  \
    uint64_t bits = 0, differ = 0, first, last;                                    \
    int64_t stride;                                                                \
    if (base32) {                                                                  \
        const sim_u32 *b = base;                                                   \
        const uint32_t step = b[1] - b[0], add = (uint32_t)offset;                 \
        uint32_t bits32 = 0, differ32 = 0;                                         \
        LANE_LOOP(SIM_LANES) {                                                     \
            const uint32_t a = b[i] + add;                                         \
            address[i] = a;                                                        \
            bits32 |= a;                                                           \
        }                                                                          \
        LANE_LOOP(SIM_LANES - 1) { differ32 |= b[i + 1] - b[i] - step; }           \
        stride = (int32_t)step;                                                    \
        bits = bits32;                                                             \
        first = address[0];                                                        \
        last = first + (uint64_t)stride * (SIM_LANES - 1);                         \
        differ = differ32 | last >> 32;                                            \
    } else {                                                                       \
        const sim_u64 *b = base;                                                   \
        stride = (int64_t)(b[1] - b[0]);                                           \
        LANE_LOOP(SIM_LANES) {                                                     \
            const uint64_t a = b[i] + offset;                                      \
            address[i] = a;                                                        \
            bits |= a;                                                             \
        }                                                                          \
        LANE_LOOP(SIM_LANES - 1) { differ |= b[i + 1] - b[i] - (uint64_t)stride; } \
        first = address[0];                                                        \
        last = address[SIM_LANES - 1];                                             \
        differ |= ((uint64_t)stride + STRIDE_MOST) >> STRIDE_BITS;                 \
        differ |= stride >= 0 ? last < first : last > first;                       \
    }                                                                              \
    span->bits = bits;                                                             \
    span->stride = stride;                                                         \
    span->linear = !differ;                                                        \
    if (SIM_LIKELY(!differ)) {                                                     \
        span->least = stride >= 0 ? first : last;                                  \
        span->most = stride >= 0 ? last : first;                                   \
        return;                                                                    \
    }                                                                              \
    uint64_t least = first, most = first;                                          \
    for (int i = 1; i < SIM_LANES; i++) {                                          \
        least = address[i] < least ? address[i] : least;                           \
        most = address[i] > most ? address[i] : most;                              \
    }                                                                              \
    span->least = least;                                                           \
    span->most = most;

static void span_plain(uint64_t *address, const void *base, int base32, uint64_t offset,
                       struct sim_span *span) {
    SPAN_BODY
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void
span_wide(uint64_t *address, const void *base, int base32, uint64_t offset, struct sim_span *span) {
    SPAN_BODY
}
#else
#define span_wide span_plain
#endif

void sim_request_addresses(struct sim_request *l, uint32_t slot, uint32_t flags, int64_t offset) {
    if (SIM_LIKELY(slot != SIM_NO_SLOT)) {
        (l->w->run->wide ? span_wide : span_plain)(
            l->address, l->regs + slot, (flags & SIM_A_BASE32) != 0, (uint64_t)offset, &l->made);
        return;
    }
    uint64_t value = (uint64_t)offset + (flags & SIM_A_FRAME ? l->local_base : 0);
    for (int i = 0; i < SIM_LANES; i++)
        l->address[i] = value;
    l->made = (struct sim_span){value, value, value, 0, 1};
}

/* Measures the active lanes: from `made` where it holds for all of them, else lane by lane. */
void sim_request_measure_active(struct sim_request *l) {
    struct sim_span r = {UINT64_MAX, 0, 0, 0, 0};
    const uint32_t mask = l->mask;
    if (!l->moved && l->made.linear && mask && !(l->made.bits & (l->bytes - 1))) {
        uint64_t first = l->address[__builtin_ctz(mask)],
                 last = l->address[31 - __builtin_clz(mask)];
        r = l->made;
        r.least = first < last ? first : last;
        r.most = first < last ? last : first;
    } else {
        for (uint32_t m = mask; m; m &= m - 1) {
            uint64_t a = l->address[__builtin_ctz(m)];
            r.bits |= a;
            r.least = a < r.least ? a : r.least;
            r.most = a > r.most ? a : r.most;
        }
    }
    l->span = r;
}

/* ---- findings ---- */

static const char *kind_name(const struct sim_request *l) {
    return l->kind == SIM_ACCESS_LOAD ? "read" : l->kind == SIM_ACCESS_STORE ? "write" : "atomic";
}

int sim_request_bad_address(struct sim_request *l, uint32_t lane, uint64_t limit) {
    uint64_t a = l->address[lane];
    struct sim_gpu *gpu = l->w->run->gpu;
    if (l->space != SIM_S_GLOBAL && l->space != SIM_S_CONST)
        return sim_find(l->w, l->warp, l->pc, lane, SIM_FIND_OUT_OF_BOUNDS, a, NULL,
                        "%s of %u bytes at %s address 0x%llx, but the %s has %llu bytes; check the "
                        "index against the size",
                        kind_name(l), l->bytes, sim_space_name(l->space), (unsigned long long)a,
                        l->space == SIM_S_SHARED  ? "block's shared memory"
                        : l->space == SIM_S_LOCAL ? "thread's local memory"
                                                  : "parameter block",
                        (unsigned long long)limit);
    const struct sim_freed *freed = sim_memory_find_freed(gpu, a);
    if (freed)
        return sim_find(l->w, l->warp, l->pc, lane, SIM_FIND_USE_AFTER_FREE, a, NULL,
                        "%s of %u bytes at 0x%llx, %llu bytes into an allocation of %llu bytes "
                        "that was freed; free it after the last use",
                        kind_name(l), l->bytes, (unsigned long long)a,
                        (unsigned long long)(a - freed->base), (unsigned long long)freed->bytes);
    const struct sim_region *below = NULL, *above = NULL;
    for (size_t i = 0; i < gpu->region_count; i++) {
        if (gpu->regions[i].base <= a)
            below = &gpu->regions[i];
        else if (!above)
            above = &gpu->regions[i];
    }
    if (below && a - below->base < below->bytes + (1u << 20))
        return sim_find(l->w, l->warp, l->pc, lane, SIM_FIND_OUT_OF_BOUNDS, a, NULL,
                        "%s of %u bytes at 0x%llx, %llu bytes past the start of an allocation of "
                        "%llu bytes; check the index against the size",
                        kind_name(l), l->bytes, (unsigned long long)a,
                        (unsigned long long)(a - below->base), (unsigned long long)below->bytes);
    if (above && above->base - a < (1u << 20))
        return sim_find(l->w, l->warp, l->pc, lane, SIM_FIND_OUT_OF_BOUNDS, a, NULL,
                        "%s of %u bytes at 0x%llx, %llu bytes before an allocation of %llu bytes; "
                        "check the index for being negative",
                        kind_name(l), l->bytes, (unsigned long long)a,
                        (unsigned long long)(above->base - a), (unsigned long long)above->bytes);
    return sim_find(l->w, l->warp, l->pc, lane, SIM_FIND_OUT_OF_BOUNDS, a, NULL,
                    "%s of %u bytes at 0x%llx, which is in no allocation%s", kind_name(l), l->bytes,
                    (unsigned long long)a, a < 4096 ? " (a null pointer?)" : "");
}

static int misaligned(struct sim_request *l, uint32_t lane) {
    return sim_find(l->w, l->warp, l->pc, lane, SIM_FIND_MISALIGNED, l->address[lane], NULL,
                    "%s of %u bytes at %s address 0x%llx, which is not a multiple of %u; align the "
                    "pointer or use a narrower access",
                    kind_name(l), l->bytes, sim_space_name(l->space),
                    (unsigned long long)l->address[lane], l->bytes);
}

int sim_request_uninitialised(struct sim_request *l, uint32_t lane) {
    return sim_find_uninitialised(l->w, l->warp, l->pc, lane, l->space, l->bytes, l->address[lane]);
}

/* ---- checks: lanes that fail are removed, with a finding for the first ---- */

int sim_request_misaligned(struct sim_request *l) {
    for (uint32_t m = l->mask; m; m &= m - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(m);
        if (l->address[lane] & (l->bytes - 1)) {
            if (misaligned(l, lane))
                return 1;
            l->mask &= ~(1u << lane);
        }
    }
    return 0;
}

int sim_request_beyond(struct sim_request *l, uint64_t limit) {
    for (uint32_t m = l->mask; m; m &= m - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(m);
        if (l->address[lane] > limit || limit - l->address[lane] < l->bytes) {
            if (sim_request_bad_address(l, lane, limit))
                return 1;
            l->mask &= ~(1u << lane);
        }
    }
    return 0;
}

/* ---- regions ---- */

struct sim_region *sim_request_region(struct sim_worker *w, uint64_t address, uint32_t bytes) {
    struct sim_region *r = w->last_region;
    if (!r || address - r->base >= r->bytes)
        r = sim_memory_find(w->run->gpu, address);
    if (!r || r->bytes - (address - r->base) < bytes)
        return NULL;
    w->last_region = r;
    return r;
}

int sim_request_regions(struct sim_request *l, struct sim_region **all) {
    const struct sim_span *r = &l->span;
    struct sim_region *region = sim_request_region(l->w, r->least, l->bytes);
    *all = NULL;
    if (SIM_LIKELY(region && r->most - region->base <= region->bytes - l->bytes &&
                   region->bytes >= l->bytes)) {
        *all = region;
        return 0;
    }
    for (uint32_t m = l->mask; m; m &= m - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(m);
        if (!sim_request_region(l->w, l->address[lane], l->bytes)) {
            if (sim_request_bad_address(l, lane, 0))
                return -1;
            l->mask &= ~(1u << lane);
        }
    }
    return 0;
}

/* ---- the event ---- */

int sim_request_event(struct sim_request *l, struct sim_region *region, const uint8_t *value) {
    struct sim_access a = {.in = l->in,
                           .pc = l->pc,
                           .mask = l->mask,
                           .bytes = l->bytes,
                           .space = l->space,
                           .kind = l->kind,
                           .linear = (uint8_t)l->span.linear,
                           .stride = l->span.stride,
                           .least = l->span.least,
                           .most = l->span.most,
                           .address = l->address,
                           .region = region,
                           .value = value};
    sim_count_access(l->w, &a);
    if (SIM_UNLIKELY(l->w->recorder != NULL))
        sim_trace_access(l->w->recorder, &a);
    return l->w->run->check_races && (l->space == SIM_S_SHARED || l->space == SIM_S_GLOBAL)
               ? sim_races_access(l->w, l->warp, &a)
               : 0;
}

/* ---- generic addresses ---- */

int sim_request_by_window(struct sim_request *l, sim_request_fn global, sim_request_fn shared,
                          sim_request_fn local, sim_request_fn params) {
    uint32_t masks[4] = {0, 0, 0, 0}, mask = l->mask;
    if (l->made.most < SIM_WINDOW_BASE) { /* the common case */
        l->space = SIM_S_GLOBAL;
        return global(l);
    }
    l->moved = 1;
    for (uint32_t m = mask; m; m &= m - 1) {
        int lane = __builtin_ctz(m);
        uint64_t a = l->address[lane];
        uint64_t window = a < SIM_WINDOW_BASE ? 0 : (a - SIM_WINDOW_BASE) / SIM_WINDOW_BYTES + 1;
        if (window > 3)
            window = 0; /* in no window: the check of global memory reports it */
        if (window)
            l->address[lane] = (a - SIM_WINDOW_BASE) % SIM_WINDOW_BYTES;
        masks[window] |= 1u << lane;
    }
    int (*const run[4])(struct sim_request *) = {global, shared, local, params};
    static const uint8_t spaces[4] = {SIM_S_GLOBAL, SIM_S_SHARED, SIM_S_LOCAL, SIM_S_PARAM};
    for (int i = 0; i < 4; i++) {
        if (!masks[i])
            continue;
        l->mask = masks[i];
        l->space = spaces[i];
        if (!run[i] ? sim_request_bad_address(l, (uint32_t)__builtin_ctz(masks[i]), 0) : run[i](l))
            return 1;
    }
    return 0;
}

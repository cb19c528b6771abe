/* sim_address.c: addresses of memory instructions: computes all 32, checks them against the
 * accessed memory, and raises the one event that observers receive. Invariant: no address that a
 * kernel can form reaches host memory unchecked. Moves no data.
 */
#include "sim_address.h"
#include "sim_async.h"
#include "sim_exec.h"
#include "../observe/sim_observe.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* ---- forming addresses ---- */

/* Groups do not wrap around: the addresses of one lie between its first and its last, and all
 * addresses between the ends of the first and the last group. A 32-bit base wraps, as on hardware.
 */
#define STRIDE_MOST (1ll << 47)
#define ADDRESS_MOST (1ull << 62)

/* The last lanes of all groups of 16, 8, 4 and 2, but for lane 31. */
static const uint32_t group_ends[] = {0x00008000u, 0x00808080u, 0x08888888u, 0x2aaaaaaau};

/* Fills in the rest from `bits`, `stride` (between the first two lanes) and a bit for each lane
 * whose distance to the next is another. Returns 0 if the addresses form no groups. */
static int find_groups(struct sim_span *span, const uint64_t *address, uint32_t differ) {
    const int64_t stride = span->stride;
    uint32_t group = SIM_LANES;
    int64_t step = 0;
    if (SIM_UNLIKELY(differ)) {
        int which = 0;
        while (which < 4 && group_ends[which] != differ)
            which++;
        if (which == 4)
            return 0;
        group = SIM_LANES / 2 >> which;
        step = (int64_t)(address[group] - address[0]);
        for (uint32_t at = group; at + group < SIM_LANES; at += group)
            if ((int64_t)(address[at + group] - address[at]) != step)
                return 0;
    }
    const uint64_t a = address[0], b = address[group - 1], c = address[SIM_LANES - group],
                   d = address[SIM_LANES - 1];
    const uint64_t low_ab = stride >= 0 ? a : b, high_ab = stride >= 0 ? b : a,
                   low_cd = stride >= 0 ? c : d, high_cd = stride >= 0 ? d : c;
    span->least = step >= 0 ? low_ab : low_cd;
    span->most = step >= 0 ? high_cd : high_ab;
    span->step = step;
    span->group = group;
    /* in whole numbers the ends are at most 2^54 apart: within the limit, none has wrapped */
    return stride > -STRIDE_MOST && stride < STRIDE_MOST && step > -STRIDE_MOST &&
           step < STRIDE_MOST && (a | b | c | d) < ADDRESS_MOST;
}

static void span_plain(uint64_t *address, const void *base, int base32, uint64_t offset,
                       struct sim_span *span) {
    uint64_t bits = 0;
    uint32_t differ = 0;
    for (int i = 0; i < SIM_LANES; i++) {
        address[i] = base32 ? ((const sim_u32 *)base)[i] + (uint32_t)offset
                            : ((const sim_u64 *)base)[i] + offset;
        bits |= address[i];
    }
    span->bits = bits;
    span->stride = (int64_t)(address[1] - address[0]);
    for (int i = 1; i < SIM_LANES - 1; i++)
        differ |= (uint32_t)((int64_t)(address[i + 1] - address[i]) != span->stride) << i;
    if (find_groups(span, address, differ))
        return;
    span->group = 0;
    span->least = span->most = address[0];
    for (int i = 1; i < SIM_LANES; i++) {
        span->least = address[i] < span->least ? address[i] : span->least;
        span->most = address[i] > span->most ? address[i] : span->most;
    }
}

#if defined(__x86_64__)
#define WIDE __attribute__((target("avx2")))
WIDE static void span_wide(uint64_t *address, const void *base, int base32, uint64_t offset,
                           struct sim_span *span) {
    const __m256i flip = _mm256_set1_epi64x(INT64_MIN);
    __m256i all[SIM_LANES / 4], bits = _mm256_setzero_si256();
    for (int i = 0; i < SIM_LANES / 4; i++) {
        if (base32) {
            const __m128i b = _mm_loadu_si128((const __m128i *)base + i),
                          sum = _mm_add_epi32(b, _mm_set1_epi32((int)(uint32_t)offset));
            all[i] = _mm256_cvtepu32_epi64(sum);
        } else {
            all[i] = _mm256_add_epi64(_mm256_loadu_si256((const __m256i *)base + i),
                                      _mm256_set1_epi64x((int64_t)offset));
        }
        _mm256_storeu_si256((__m256i *)(void *)address + i, all[i]);
        bits = _mm256_or_si256(bits, all[i]);
    }
    /* Neighbours are read from registers: the stores above have another width, so that loads of
     * them would wait. */
    const uint64_t first = (uint64_t)_mm_cvtsi128_si64(_mm256_castsi256_si128(all[0]));
    span->stride =
        (int64_t)((uint64_t)_mm_extract_epi64(_mm256_castsi256_si128(all[0]), 1) - first);
    const __m256i stride = _mm256_set1_epi64x(span->stride);
    uint32_t equal = 0;
    for (int i = 0; i < SIM_LANES / 4; i++) {
        const __m256i after = all[i + 1 < SIM_LANES / 4 ? i + 1 : i],
                      next = _mm256_permute4x64_epi64(_mm256_blend_epi32(all[i], after, 3), 0x39),
                      same = _mm256_cmpeq_epi64(_mm256_sub_epi64(next, all[i]), stride);
        equal |= (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(same)) << 4 * i;
    }
    const __m128i half =
        _mm_or_si128(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
    span->bits = (uint64_t)(_mm_cvtsi128_si64(half) | _mm_extract_epi64(half, 1));
    if (find_groups(span, address, ~equal & 0x7fffffffu))
        return;
    span->group = 0;
    __m256i least = _mm256_xor_si256(all[0], flip), most = least;
    for (int i = 1; i < SIM_LANES / 4; i++) {
        const __m256i a = _mm256_xor_si256(all[i], flip);
        least = _mm256_blendv_epi8(least, a, _mm256_cmpgt_epi64(least, a));
        most = _mm256_blendv_epi8(most, a, _mm256_cmpgt_epi64(a, most));
    }
    uint64_t low[4], high[4];
    _mm256_storeu_si256((__m256i *)(void *)low, _mm256_xor_si256(least, flip));
    _mm256_storeu_si256((__m256i *)(void *)high, _mm256_xor_si256(most, flip));
    span->least = low[0];
    span->most = high[0];
    for (int i = 1; i < 4; i++) {
        span->least = low[i] < span->least ? low[i] : span->least;
        span->most = high[i] > span->most ? high[i] : span->most;
    }
}
#else
#define span_wide span_plain
#endif

void sim_request_addresses(struct sim_request *l, uint32_t slot, uint32_t flags, int64_t offset) {
    if (SIM_LIKELY(slot != SIM_NO_SLOT)) {
        (l->w->run->wide ? span_wide : span_plain)(
            l->address, l->regs + slot, (flags & SIM_A_BASE32) != 0, (uint64_t)offset, &l->span);
        return;
    }
    uint64_t value = (uint64_t)offset + (flags & SIM_A_FRAME ? l->local_base : 0);
    for (int i = 0; i < SIM_LANES; i++)
        l->address[i] = value;
    l->span = (struct sim_span){value, value, value, 0, 0, SIM_LANES};
}

/* Measures the active lanes: from all lanes' span where it holds for them, else lane by lane. */
void sim_request_measure_active(struct sim_request *l) {
    struct sim_span *s = &l->span;
    const uint32_t mask = l->mask;
    const int regular = !l->moved && s->group && !(s->bits & (l->bytes - 1));
    if (regular && s->group == SIM_LANES && mask) {
        uint64_t first = l->address[__builtin_ctz(mask)],
                 last = l->address[31 - __builtin_clz(mask)];
        s->least = first < last ? first : last;
        s->most = first < last ? last : first;
        return;
    }
    if (!regular)
        s->group = 0;
    s->least = UINT64_MAX;
    s->most = s->bits = 0;
    for (uint32_t m = mask; m; m &= m - 1) {
        uint64_t a = l->address[__builtin_ctz(m)];
        s->bits |= a;
        s->least = a < s->least ? a : s->least;
        s->most = a > s->most ? a : s->most;
    }
}

/* ---- findings ---- */

static const char *kind_name(const struct sim_request *l) {
    return l->kind == SIM_ACCESS_LOAD ? "read" : l->kind == SIM_ACCESS_STORE ? "write" : "atomic";
}

static struct sim_finding access_of(const struct sim_request *l) {
    return (struct sim_finding){
        .space = sim_space_name(l->space), .access = kind_name(l), .bytes = l->bytes};
}

/* Reports an address of the heap that no block in use owns. */
static int nobodys(struct sim_request *l, uint32_t lane, const struct sim_heap_block *block) {
    const uint64_t a = l->address[lane];
    struct sim_finding known = access_of(l);
    if (!block->base)
        return sim_find(
            l->w, l->warp, l->pc, lane, SIM_FIND_OUT_OF_BOUNDS, a, &known,
            "%s of %u bytes at 0x%llx, in the heap of malloc, but in none of its blocks",
            kind_name(l), l->bytes, (unsigned long long)a);
    known.offset = (int64_t)(a - block->base);
    known.extent = block->bytes;
    if (block->freed && a - block->base < block->bytes)
        return sim_find(l->w, l->warp, l->pc, lane, SIM_FIND_USE_AFTER_FREE, a, &known,
                        "%s of %u bytes at 0x%llx, %llu bytes into a block of %llu bytes from "
                        "malloc that %s freed; free it after the last use",
                        kind_name(l), l->bytes, (unsigned long long)a,
                        (unsigned long long)(a - block->base), (unsigned long long)block->bytes,
                        block->freed);
    return sim_find(l->w, l->warp, l->pc, lane, SIM_FIND_OUT_OF_BOUNDS, a, &known,
                    "%s of %u bytes at 0x%llx, %llu bytes past the start of a block of %llu bytes "
                    "from malloc; check the index against the size",
                    kind_name(l), l->bytes, (unsigned long long)a,
                    (unsigned long long)(a - block->base), (unsigned long long)block->bytes);
}

/* Reports an address of memory that was freed. */
static int stale(struct sim_request *l, uint32_t lane, const struct sim_freed *freed) {
    const uint64_t a = l->address[lane];
    struct sim_finding known = access_of(l);
    known.offset = (int64_t)(a - freed->base);
    known.extent = freed->bytes;
    return sim_find(l->w, l->warp, l->pc, lane,
                    freed->is_copy ? SIM_FIND_OUT_OF_BOUNDS : SIM_FIND_USE_AFTER_FREE, a, &known,
                    "%s of %u bytes at 0x%llx, %llu bytes into an %s of %llu bytes that was %s",
                    kind_name(l), l->bytes, (unsigned long long)a,
                    (unsigned long long)(a - freed->base), freed->is_copy ? "array" : "allocation",
                    (unsigned long long)freed->bytes,
                    freed->is_copy ? "copied to the GPU for an earlier launch only; a pointer "
                                     "outlives its launch if gpuopt.asarray(x, device='sim') was "
                                     "passed"
                                   : "freed; free it after the last use");
}

/* Reports an address of global memory: prefers the argument from which it was computed to the
 * nearest allocation. */
static int nowhere(struct sim_request *l, uint32_t lane) {
    const uint64_t a = l->address[lane];
    const struct sim_run *run = l->w->run;
    struct sim_gpu *gpu = run->gpu;
    struct sim_pointer pointer;
    struct sim_heap_block block;
    struct sim_finding known = access_of(l);
    char place[200];
    if (sim_heap_block(gpu, a, &block))
        return nobodys(l, lane, &block);
    if (sim_pointer_find(run, run->kernel->where[l->pc].from, a, &pointer))
        return sim_find(l->w, l->warp, l->pc, lane, SIM_FIND_OUT_OF_BOUNDS, a, &known,
                        "%s of %u bytes at %s; %s", kind_name(l), l->bytes,
                        sim_place_text(run, l->pc, SIM_S_GLOBAL, a, place, sizeof place),
                        a < pointer.base ? "check the index for being negative"
                                         : "check the index against the size");
    const struct sim_freed *freed = sim_memory_find_freed(gpu, a);
    if (freed)
        return stale(l, lane, freed);
    const struct sim_region *below = NULL, *above = NULL;
    for (size_t i = 0; i < gpu->region_count; i++) {
        if (gpu->regions[i].base <= a)
            below = &gpu->regions[i];
        else if (!above)
            above = &gpu->regions[i];
    }
    if (below && a - below->base < below->bytes + (1u << 20)) {
        known.offset = (int64_t)(a - below->base);
        known.extent = below->bytes;
        return sim_find(l->w, l->warp, l->pc, lane, SIM_FIND_OUT_OF_BOUNDS, a, &known,
                        "%s of %u bytes at 0x%llx, %llu bytes past the start of an allocation of "
                        "%llu bytes; check the index against the size",
                        kind_name(l), l->bytes, (unsigned long long)a,
                        (unsigned long long)(a - below->base), (unsigned long long)below->bytes);
    }
    if (above && above->base - a < (1u << 20)) {
        known.offset = (int64_t)(a - above->base);
        known.extent = above->bytes;
        return sim_find(l->w, l->warp, l->pc, lane, SIM_FIND_OUT_OF_BOUNDS, a, &known,
                        "%s of %u bytes at 0x%llx, %llu bytes before an allocation of %llu bytes; "
                        "check the index for being negative",
                        kind_name(l), l->bytes, (unsigned long long)a,
                        (unsigned long long)(above->base - a), (unsigned long long)above->bytes);
    }
    return sim_find(l->w, l->warp, l->pc, lane, SIM_FIND_OUT_OF_BOUNDS, a, &known,
                    "%s of %u bytes at 0x%llx, which is in no allocation%s", kind_name(l), l->bytes,
                    (unsigned long long)a, a < 4096 ? " (a null pointer?)" : "");
}

static int bad_address(struct sim_request *l, uint32_t lane, uint64_t limit) {
    if (sim_is_muted(l->w->run, l->pc, SIM_FIND_OUT_OF_BOUNDS))
        return !l->w->run->collect;
    if (l->space == SIM_S_GLOBAL || l->space == SIM_S_CONST)
        return nowhere(l, lane);
    const struct sim_finding known = access_of(l);
    return sim_find(l->w, l->warp, l->pc, lane, SIM_FIND_OUT_OF_BOUNDS, l->address[lane], &known,
                    "%s of %u bytes at %s address 0x%llx, but the %s has %llu bytes; check the "
                    "index against the size%s",
                    kind_name(l), l->bytes, sim_space_name(l->space),
                    (unsigned long long)l->address[lane],
                    l->space == SIM_S_SHARED  ? "block's shared memory"
                    : l->space == SIM_S_LOCAL ? "thread's local memory"
                                              : "parameter block",
                    (unsigned long long)limit,
                    l->space == SIM_S_SHARED && !l->w->run->launch->shared_bytes
                        ? " (dynamic shared memory needs the launch's shared=BYTES)"
                        : "");
}

static int misaligned(struct sim_request *l, uint32_t lane) {
    const struct sim_finding known = access_of(l);
    return sim_find(l->w, l->warp, l->pc, lane, SIM_FIND_MISALIGNED, l->address[lane], &known,
                    "%s of %u bytes at %s address 0x%llx, which is not a multiple of %u; align the "
                    "pointer or use a narrower access",
                    kind_name(l), l->bytes, sim_space_name(l->space),
                    (unsigned long long)l->address[lane], l->bytes);
}

int sim_request_uninitialised(struct sim_request *l, uint32_t lane) {
    if (l->space == SIM_S_SHARED &&
        sim_shared_is_flying(l->warp->block, l->address[lane], l->bytes))
        return sim_copies_read(l, lane);
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
            if (bad_address(l, lane, limit))
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
    if (SIM_UNLIKELY(r->is_heap) && !sim_heap_is_live(w->run->gpu, address, bytes))
        return NULL;
    w->last_region = r;
    return r;
}

int sim_request_regions(struct sim_request *l, struct sim_region **all) {
    const struct sim_span *r = &l->span;
    struct sim_region *region = sim_request_region(l->w, r->least, l->bytes);
    *all = NULL;
    if (SIM_LIKELY(region && r->most - region->base <= region->bytes - l->bytes &&
                   region->bytes >= l->bytes && !region->is_heap)) {
        *all = region;
        return 0;
    }
    for (uint32_t m = l->mask; m; m &= m - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(m);
        if (!sim_request_region(l->w, l->address[lane], l->bytes)) {
            if (bad_address(l, lane, 0))
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
                           .warp = l->warp->index,
                           .copied = l->copied,
                           .space = l->space,
                           .kind = l->kind,
                           .group = (uint8_t)l->span.group,
                           .stride = l->span.stride,
                           .step = l->span.step,
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
    if (l->span.most < SIM_WINDOW_BASE) { /* the common case */
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
        if (!run[i] ? bad_address(l, (uint32_t)__builtin_ctz(masks[i]), 0) : run[i](l))
            return 1;
    }
    return 0;
}

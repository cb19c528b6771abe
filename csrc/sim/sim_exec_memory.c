/*
 * sim_exec_memory.c: memory instructions. Makes the 32 addresses, checks them against the memory
 * they are for, moves the data, and raises one event for the observers. No address that a kernel
 * can make reaches host memory unchecked.
 */
#include "sim_run.h"

#include <math.h>
#include <string.h>

struct lanes { /* one memory instruction */
    struct sim_worker *w;
    struct sim_warp *warp;
    const struct sim_insn *in;
    uint8_t *regs;
    uint32_t pc, mask, bytes; /* bytes: of a lane's whole access */
    uint8_t space, kind;
    uint32_t local_base;
    int moved; /* the addresses were changed after they were measured */
    struct sim_span span;
    uint64_t address[SIM_LANES];
};

static const char *space_name(unsigned space) {
    return space == SIM_S_SHARED  ? "shared"
           : space == SIM_S_LOCAL ? "local"
           : space == SIM_S_PARAM ? "parameter"
                                  : "global";
}

static const char *kind_name(const struct lanes *l) {
    return l->kind == SIM_ACCESS_LOAD ? "read" : l->kind == SIM_ACCESS_STORE ? "write" : "atomic";
}

/* ---- addresses ---- */

static void make_addresses(struct lanes *l, uint32_t slot, uint32_t flags, int64_t offset) {
    if (slot != SIM_NO_SLOT) {
        (l->w->run->wide ? sim_span_wide : sim_span_plain)(l->address, l->regs + slot,
                                                           (flags & SIM_A_BASE32) != 0,
                                                           (uint64_t)offset, l->bytes, &l->span);
        return;
    }
    uint64_t value = (uint64_t)offset + (flags & SIM_A_FRAME ? l->local_base : 0);
    for (int i = 0; i < SIM_LANES; i++)
        l->address[i] = value;
    l->span = (struct sim_span){value, value, value, 0, 1};
}

/* The span of the active lanes: of all of them, what making the addresses found. */
static struct sim_span measure(const struct lanes *l) {
    if (SIM_LIKELY(l->mask == SIM_FULL && !l->moved))
        return l->span;
    struct sim_span r = {UINT64_MAX, 0, 0, 0, 0};
    for (uint32_t m = l->mask; m; m &= m - 1) {
        uint64_t a = l->address[__builtin_ctz(m)];
        r.bits |= a;
        r.least = a < r.least ? a : r.least;
        r.most = a > r.most ? a : r.most;
    }
    return r;
}

/* ---- findings ---- */

static int bad_address(struct lanes *l, uint32_t lane, uint64_t limit) {
    uint64_t a = l->address[lane];
    struct sim_gpu *gpu = l->w->run->gpu;
    if (l->space != SIM_S_GLOBAL && l->space != SIM_S_CONST)
        return sim_find(l->w, l->warp, l->pc, lane, SIM_FIND_OUT_OF_BOUNDS, a, NULL,
                        "%s of %u bytes at %s address 0x%llx, but the %s has %llu bytes; check the "
                        "index against the size",
                        kind_name(l), l->bytes, space_name(l->space), (unsigned long long)a,
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

static int misaligned(struct lanes *l, uint32_t lane) {
    return sim_find(l->w, l->warp, l->pc, lane, SIM_FIND_MISALIGNED, l->address[lane], NULL,
                    "%s of %u bytes at %s address 0x%llx, which is not a multiple of %u; align the "
                    "pointer or use a narrower access",
                    kind_name(l), l->bytes, space_name(l->space),
                    (unsigned long long)l->address[lane], l->bytes);
}

static int uninitialised(struct lanes *l, uint32_t lane) {
    return sim_find(l->w, l->warp, l->pc, lane, SIM_FIND_UNINITIALISED, l->address[lane], NULL,
                    "read of %u bytes at %s address 0x%llx that nobody wrote; store or copy "
                    "something there first",
                    l->bytes, space_name(l->space), (unsigned long long)l->address[lane]);
}

/* Takes misaligned lanes out, with a finding for the first. 1: the launch ends. */
static int check_alignment(struct lanes *l, const struct sim_span *r) {
    if (!(r->bits & (l->bytes - 1)))
        return 0;
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

/* The same for lanes beyond a memory of `limit` bytes that begins at 0. */
static int check_limit(struct lanes *l, const struct sim_span *r, uint64_t limit) {
    if (r->most <= limit && limit - r->most >= l->bytes)
        return 0;
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

/* ---- host pointers ---- */

static struct sim_region *region_of(struct sim_worker *w, uint64_t address, uint32_t bytes) {
    struct sim_region *r = w->last_region;
    if (!r || address - r->base >= r->bytes)
        r = sim_memory_find(w->run->gpu, address);
    if (!r || r->bytes - (address - r->base) < bytes)
        return NULL;
    w->last_region = r;
    return r;
}

/* Global: the region that holds all lanes, or NULL; then lanes in none are taken out. -1: the
 * launch ends. */
static int find_regions(struct lanes *l, const struct sim_span *r, struct sim_region **all) {
    struct sim_region *region = region_of(l->w, r->least, l->bytes);
    *all = NULL;
    if (SIM_LIKELY(region && r->most - region->base <= region->bytes - l->bytes &&
                   region->bytes >= l->bytes)) {
        *all = region;
    } else {
        for (uint32_t m = l->mask; m; m &= m - 1) {
            uint32_t lane = (uint32_t)__builtin_ctz(m);
            if (!region_of(l->w, l->address[lane], l->bytes)) {
                if (bad_address(l, lane, 0))
                    return -1;
                l->mask &= ~(1u << lane);
            }
        }
    }
    return 0;
}

/* ---- registers ---- */

static inline void put_register(uint8_t *slot, uint32_t lane, uint32_t dsize, enum sim_type type,
                                const uint8_t *from) {
    uint64_t value = 0;
    switch (sim_types[type].bytes) {
    case 1:
        value = sim_types[type].class == SIM_C_SINT ? (uint64_t)(int64_t)(int8_t)from[0] : from[0];
        break;
    case 2: {
        uint16_t v;
        memcpy(&v, from, 2);
        value = sim_types[type].class == SIM_C_SINT ? (uint64_t)(int64_t)(int16_t)v : v;
        break;
    }
    case 4: {
        uint32_t v;
        memcpy(&v, from, 4);
        value = sim_types[type].class == SIM_C_SINT ? (uint64_t)(int64_t)(int32_t)v : v;
        break;
    }
    default:
        memcpy(&value, from, 8);
        break;
    }
    memcpy(slot + (size_t)lane * dsize, &value, dsize);
}

/* From one host pointer per lane to the destination registers. */
static inline void load_lane(const struct lanes *l, uint32_t lane, const uint8_t *from) {
    const struct sim_insn *in = l->in;
    uint32_t size = sim_types[in->type].bytes;
    if (in->vec == 1) {
        if (in->dst != SIM_NO_SLOT)
            put_register(l->regs + in->dst, lane, in->dsize, (enum sim_type)in->type, from);
        return;
    }
    const uint32_t *slots = &l->w->run->kernel->extra[in->ext];
    for (uint32_t v = 0; v < in->vec; v++)
        if (slots[v] != SIM_NO_SLOT)
            put_register(l->regs + slots[v], lane, in->dsize, (enum sim_type)in->type,
                         from + v * size);
}

static inline void store_lane(const struct lanes *l, uint32_t lane, uint8_t *to) {
    const struct sim_insn *in = l->in;
    uint32_t size = sim_types[in->type].bytes;
    if (in->vec == 1) {
        memcpy(to, l->regs + in->b + (size_t)lane * in->dsize, size);
        return;
    }
    const uint32_t *slots = &l->w->run->kernel->extra[in->ext];
    for (uint32_t v = 0; v < in->vec; v++)
        memcpy(to + v * size, l->regs + slots[v] + (size_t)lane * in->dsize, size);
}

/* ---- the event ---- */

static int raise_event(struct lanes *l, struct sim_region *region, int contiguous,
                       const uint8_t *value) {
    struct sim_access a = {l->in,
                           l->pc,
                           l->mask,
                           l->bytes,
                           l->space,
                           l->kind,
                           (uint8_t)(contiguous && l->mask == SIM_FULL),
                           l->address,
                           region,
                           value};
    sim_count_access(l->w, &a);
    if (SIM_UNLIKELY(l->w->recorder != NULL))
        sim_trace_access(l->w->recorder, &a);
    return l->w->run->check_races && (l->space == SIM_S_SHARED || l->space == SIM_S_GLOBAL)
               ? sim_races_access(l->w, l->warp, &a)
               : 0;
}

/* ---- validity of shared memory: for each word, which of its bytes were written ---- */

static inline uint8_t byte_mask(uint64_t address, uint32_t bytes) {
    return bytes >= 4 ? 15 : (uint8_t)(((1u << bytes) - 1) << (address & 3));
}

static inline void shared_mark(struct sim_block *b, uint64_t address, uint32_t bytes) {
    uint8_t mask = byte_mask(address, bytes);
    for (uint64_t word = address / 4; word <= (address + bytes - 1) / 4; word++)
        b->shared_valid[word] |= mask;
}

static inline int shared_is_valid(const struct sim_block *b, uint64_t address, uint32_t bytes) {
    uint8_t mask = byte_mask(address, bytes);
    for (uint64_t word = address / 4; word <= (address + bytes - 1) / 4; word++)
        if ((b->shared_valid[word] & mask) != mask)
            return 0;
    return 1;
}

static int local_is_valid(const struct sim_warp *warp, uint64_t at, uint32_t bytes) {
    for (uint32_t i = 0; i < bytes; i++)
        if (!(warp->local_valid[(at + i) / 8] >> ((at + i) & 7) & 1))
            return 0;
    return 1;
}

void sim_warp_mark_local(struct sim_warp *warp, uint64_t at, uint32_t bytes) {
    for (uint32_t i = 0; i < bytes; i++)
        warp->local_valid[(at + i) / 8] |= (uint8_t)(1u << ((at + i) & 7));
}

/* ---- loads ---- */

static int load_global(struct lanes *l) {
    struct sim_span r = measure(l);
    struct sim_region *region;
    if (check_alignment(l, &r) || find_regions(l, &r, &region) < 0)
        return 1;
    if (!l->mask)
        return 0;
    const struct sim_insn *in = l->in;
    int whole = l->mask == SIM_FULL, check = l->w->run->check_uninit;
    if (raise_event(l, region, r.contiguous, NULL))
        return 1;
    if (region && whole && in->vec == 1 && l->bytes == in->dsize && in->dst != SIM_NO_SLOT &&
        (r.contiguous || r.uniform)) {
        const uint8_t *from = region->host + (r.least - region->base);
        if (!check || !region->valid ||
            sim_memory_is_valid(region, r.least - region->base,
                                r.contiguous ? SIM_LANES * (uint64_t)l->bytes : l->bytes)) {
            uint8_t *to = l->regs + in->dst;
            if (r.contiguous) {
                memcpy(to, from, SIM_LANES * (size_t)l->bytes);
            } else {
                for (uint32_t i = 0; i < SIM_LANES; i++)
                    memcpy(to + (size_t)i * l->bytes, from, l->bytes);
            }
            return 0;
        }
    }
    for (uint32_t m = l->mask; m; m &= m - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(m);
        struct sim_region *own = region ? region : region_of(l->w, l->address[lane], l->bytes);
        uint64_t offset = l->address[lane] - own->base;
        if (check && own->valid && !sim_memory_is_valid(own, offset, l->bytes) &&
            uninitialised(l, lane))
            return 1;
        load_lane(l, lane, own->host + offset);
    }
    return 0;
}

static int load_shared(struct lanes *l) {
    struct sim_block *b = l->warp->block;
    struct sim_span r = measure(l);
    if (check_alignment(l, &r) || check_limit(l, &r, b->shared_bytes))
        return 1;
    if (!l->mask)
        return 0;
    if (raise_event(l, NULL, r.contiguous, NULL))
        return 1;
    const struct sim_insn *in = l->in;
    int direct = in->vec == 1 && l->bytes == in->dsize && in->dst != SIM_NO_SLOT;
    uint8_t *to = l->regs + in->dst;
    if (direct && l->bytes == 4 && l->mask == SIM_FULL && r.contiguous) {
        uint64_t all[4];
        memcpy(all, b->shared_valid + r.least / 4, 32);
        if (!l->w->run->check_uninit ||
            (all[0] & all[1] & all[2] & all[3]) == 0x0f0f0f0f0f0f0f0full) {
            memcpy(to, b->shared + r.least, SIM_LANES * 4);
            return 0;
        }
    }
    for (uint32_t m = l->mask; m; m &= m - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(m);
        if (l->w->run->check_uninit && !shared_is_valid(b, l->address[lane], l->bytes) &&
            uninitialised(l, lane))
            return 1;
        if (direct && l->bytes == 4)
            memcpy(to + (size_t)lane * 4, b->shared + l->address[lane], 4);
        else
            load_lane(l, lane, b->shared + l->address[lane]);
    }
    return 0;
}

static int load_local(struct lanes *l) {
    struct sim_warp *warp = l->warp;
    struct sim_span r = measure(l);
    int internal = (l->in->dst2 & SIM_A_INTERNAL) != 0;
    if (check_alignment(l, &r) || check_limit(l, &r, warp->local_top))
        return 1;
    if (!internal && l->mask && raise_event(l, NULL, 0, NULL))
        return 1;
    for (uint32_t m = l->mask; m; m &= m - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(m);
        uint64_t at = (uint64_t)lane * warp->local_stride + l->address[lane];
        if (!internal && l->w->run->check_uninit && !local_is_valid(warp, at, l->bytes) &&
            uninitialised(l, lane))
            return 1;
        load_lane(l, lane, warp->local + at);
    }
    return 0;
}

static int load_params(struct lanes *l) {
    struct sim_span r = measure(l);
    uint32_t bytes = l->w->run->kernel->param_bytes;
    if (check_alignment(l, &r) || check_limit(l, &r, bytes))
        return 1;
    for (uint32_t m = l->mask; m; m &= m - 1)
        load_lane(l, (uint32_t)__builtin_ctz(m), l->w->run->params + l->address[__builtin_ctz(m)]);
    return 0;
}

/* Generic addresses: each window's lanes on their own, as addresses of that space. */
static int by_window(struct lanes *l, int (*global)(struct lanes *), int (*shared)(struct lanes *),
                     int (*local)(struct lanes *), int (*params)(struct lanes *)) {
    uint32_t masks[4] = {0, 0, 0, 0}, mask = l->mask;
    if (l->span.most < SIM_WINDOW_BASE) { /* as good as always */
        l->space = SIM_S_GLOBAL;
        return global(l);
    }
    l->moved = 1;
    for (uint32_t m = mask; m; m &= m - 1) {
        int lane = __builtin_ctz(m);
        uint64_t a = l->address[lane];
        uint64_t window = a < SIM_WINDOW_BASE ? 0 : (a - SIM_WINDOW_BASE) / SIM_WINDOW_BYTES + 1;
        if (window > 3)
            window = 0; /* in no window: global memory will say that nothing is there */
        if (window)
            l->address[lane] = (a - SIM_WINDOW_BASE) % SIM_WINDOW_BYTES;
        masks[window] |= 1u << lane;
    }
    int (*const run[4])(struct lanes *) = {global, shared, local, params};
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

static void begin(struct lanes *l, struct sim_worker *w, struct sim_warp *warp,
                  const struct sim_insn *in, uint32_t mask, uint8_t *regs, uint32_t local_base,
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
    l->moved = 0;
}

int sim_exec_load(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                  uint32_t mask, uint8_t *regs, uint32_t local_base) {
    struct lanes l;
    int failed;
    begin(&l, w, warp, in, mask, regs, local_base, SIM_ACCESS_LOAD);
    make_addresses(&l, in->a, in->dst2, in->imm);
    switch (in->space) {
    case SIM_S_GLOBAL:
    case SIM_S_CONST:
        failed = load_global(&l);
        break;
    case SIM_S_SHARED:
        failed = load_shared(&l);
        break;
    case SIM_S_LOCAL:
        failed = load_local(&l);
        break;
    default:
        failed = by_window(&l, load_global, load_shared, load_local, load_params);
        break;
    }
    if (!failed && w->run->check_races && in->order != SIM_ORDER_WEAK)
        sim_races_order(w->run, warp, in->order, in->space == SIM_S_SHARED, 0, 1);
    return failed;
}

int sim_load_param(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                   uint32_t mask, uint8_t *regs) {
    struct lanes l;
    begin(&l, w, warp, in, mask, regs, 0, SIM_ACCESS_LOAD);
    if (in->a != SIM_NO_SLOT) {
        make_addresses(&l, in->a, in->dst2, in->imm);
        return load_params(&l);
    }
    /* within the parameters: the decoder saw to it */
    const uint8_t *from = w->run->params + in->imm;
    if (mask == SIM_FULL && in->vec == 1 && l.bytes == in->dsize && in->dst != SIM_NO_SLOT) {
        uint8_t *to = regs + in->dst;
        if (l.bytes == 4) {
            uint32_t value;
            memcpy(&value, from, 4);
            for (int i = 0; i < SIM_LANES; i++)
                ((sim_u32 *)(void *)to)[i] = value;
            return 0;
        }
        if (l.bytes == 8) {
            uint64_t value;
            memcpy(&value, from, 8);
            for (int i = 0; i < SIM_LANES; i++)
                ((sim_u64 *)(void *)to)[i] = value;
            return 0;
        }
    }
    for (uint32_t m = mask; m; m &= m - 1)
        load_lane(&l, (uint32_t)__builtin_ctz(m), from);
    return 0;
}

/* ---- stores ---- */

static int store_global(struct lanes *l) {
    l->w->writes++;
    struct sim_span r = measure(l);
    struct sim_region *region;
    uint8_t values[SIM_LANES * 32];
    const struct sim_insn *in = l->in;
    if (check_alignment(l, &r) || find_regions(l, &r, &region) < 0)
        return 1;
    if (!l->mask)
        return 0;
    int direct = in->vec == 1 && l->bytes == in->dsize, whole = l->mask == SIM_FULL;
    const uint8_t *value = direct ? l->regs + in->b : values;
    if (!direct)
        for (uint32_t m = l->mask; m; m &= m - 1)
            store_lane(l, (uint32_t)__builtin_ctz(m), values + (size_t)__builtin_ctz(m) * l->bytes);
    if (raise_event(l, region, r.contiguous, value))
        return 1;
    if (region && whole && r.contiguous && !region->read_only) {
        memcpy(region->host + (r.least - region->base), value, SIM_LANES * (size_t)l->bytes);
        if (region->valid)
            sim_memory_mark(region, r.least - region->base, SIM_LANES * (uint64_t)l->bytes);
        return 0;
    }
    for (uint32_t m = l->mask; m; m &= m - 1) { /* in lane order: the last one stays */
        uint32_t lane = (uint32_t)__builtin_ctz(m);
        struct sim_region *own = region ? region : region_of(l->w, l->address[lane], l->bytes);
        uint64_t offset = l->address[lane] - own->base;
        if (own->read_only) {
            if (sim_find(l->w, l->warp, l->pc, lane, SIM_FIND_READ_ONLY, l->address[lane], NULL,
                         "write of %u bytes to constant memory at 0x%llx", l->bytes,
                         (unsigned long long)l->address[lane]))
                return 1;
            continue;
        }
        memcpy(own->host + offset, value + (size_t)lane * l->bytes, l->bytes);
        if (own->valid)
            sim_memory_mark(own, offset, l->bytes);
    }
    return 0;
}

static int store_shared(struct lanes *l) {
    struct sim_block *b = l->warp->block;
    struct sim_span r = measure(l);
    uint8_t values[SIM_LANES * 32];
    const struct sim_insn *in = l->in;
    if (check_alignment(l, &r) || check_limit(l, &r, b->shared_bytes))
        return 1;
    if (!l->mask)
        return 0;
    int direct = in->vec == 1 && l->bytes == in->dsize;
    const uint8_t *value = direct ? l->regs + in->b : values;
    if (!direct)
        for (uint32_t m = l->mask; m; m &= m - 1)
            store_lane(l, (uint32_t)__builtin_ctz(m), values + (size_t)__builtin_ctz(m) * l->bytes);
    if (raise_event(l, NULL, r.contiguous, value))
        return 1;
    if (r.contiguous && l->mask == SIM_FULL && l->bytes >= 4) {
        memcpy(b->shared + r.least, value, SIM_LANES * (size_t)l->bytes);
        memset(b->shared_valid + r.least / 4, 15, SIM_LANES * (size_t)l->bytes / 4);
        return 0;
    }
    for (uint32_t m = l->mask; m; m &= m - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(m);
        memcpy(b->shared + l->address[lane], value + (size_t)lane * l->bytes, l->bytes);
        shared_mark(b, l->address[lane], l->bytes);
    }
    return 0;
}

static int store_local(struct lanes *l) {
    struct sim_warp *warp = l->warp;
    struct sim_span r = measure(l);
    if (check_alignment(l, &r) || check_limit(l, &r, warp->local_top))
        return 1;
    if (!(l->in->dst2 & SIM_A_INTERNAL) && l->mask && raise_event(l, NULL, 0, NULL))
        return 1;
    for (uint32_t m = l->mask; m; m &= m - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(m);
        uint64_t at = (uint64_t)lane * warp->local_stride + l->address[lane];
        store_lane(l, lane, warp->local + at);
        sim_warp_mark_local(warp, at, l->bytes);
    }
    return 0;
}

int sim_exec_store(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                   uint32_t mask, uint8_t *regs, uint32_t local_base) {
    struct lanes l;
    begin(&l, w, warp, in, mask, regs, local_base, SIM_ACCESS_STORE);
    make_addresses(&l, in->a, in->dst2, in->imm);
    if (w->run->check_races && in->order != SIM_ORDER_WEAK)
        sim_races_order(w->run, warp, in->order, in->space == SIM_S_SHARED, 1, 0);
    switch (in->space) {
    case SIM_S_GLOBAL:
        return store_global(&l);
    case SIM_S_SHARED:
        return store_shared(&l);
    case SIM_S_LOCAL:
        return store_local(&l);
    default:
        return by_window(&l, store_global, store_shared, store_local, NULL);
    }
}

/* ---- atomics ---- */

/* A lane operation of ops.def on one lane, for what floats add and compare to. */
static uint64_t one_lane(struct sim_worker *w, const char *mnemonic, uint64_t a, uint64_t b,
                         uint32_t bytes) {
    int row = sim_row_find(w->run->gpu->rows, mnemonic);
    uint64_t r = 0;
    if (row < 0)
        return 0;
    memset(w->scratch[1], 0, sizeof w->scratch[1]);
    memset(w->scratch[2], 0, sizeof w->scratch[2]);
    memcpy(w->scratch[1], &a, bytes);
    memcpy(w->scratch[2], &b, bytes);
    sim_lane_ops[row].plain(w->scratch[3], w->scratch[1], w->scratch[2], w->scratch[1],
                            w->scratch[1]);
    memcpy(&r, w->scratch[3], bytes);
    return r;
}

static uint64_t combine_float(struct sim_worker *w, const struct sim_insn *in, uint64_t old,
                              uint64_t value, uint32_t bytes) {
    char mnemonic[16];
    const char *op = in->sub == SIM_ATOM_ADD   ? "add."
                     : in->sub == SIM_ATOM_MIN ? "min."
                                               : "max.",
               *type = sim_types[in->type].name;
    size_t n = strlen(op);
    if (in->sub == SIM_ATOM_ADD && in->type == SIM_T_F32) {
        float a, b;
        uint32_t r, x = (uint32_t)old, y = (uint32_t)value;
        memcpy(&a, &x, 4);
        memcpy(&b, &y, 4);
        a += b;
        memcpy(&r, &a, 4);
        return a != a ? 0x7fffffffu : r;
    }
    memcpy(mnemonic, op, n);
    memcpy(mnemonic + n, type, strlen(type) + 1);
    return one_lane(w, mnemonic, old, value, bytes);
}

static uint64_t combine(struct sim_worker *w, const struct sim_insn *in, uint64_t old,
                        uint64_t value, uint64_t compare, uint32_t bytes) {
    int is_signed = sim_types[in->type].class == SIM_C_SINT, less;
    if ((sim_types[in->type].class == SIM_C_FLOAT || sim_types[in->type].class == SIM_C_HALF) &&
        in->sub <= SIM_ATOM_MAX)
        return combine_float(w, in, old, value, bytes);
    less = !is_signed   ? old < value
           : bytes == 4 ? (int32_t)old < (int32_t)value
                        : (int64_t)old < (int64_t)value;
    switch (in->sub) {
    case SIM_ATOM_ADD:
        return old + value;
    case SIM_ATOM_MIN:
        return less ? old : value;
    case SIM_ATOM_MAX:
        return less ? value : old;
    case SIM_ATOM_INC:
        return (uint32_t)old >= (uint32_t)value ? 0 : old + 1;
    case SIM_ATOM_DEC:
        return (uint32_t)old == 0 || (uint32_t)old > (uint32_t)value ? value : old - 1;
    case SIM_ATOM_AND:
        return old & value;
    case SIM_ATOM_OR:
        return old | value;
    case SIM_ATOM_XOR:
        return old ^ value;
    case SIM_ATOM_EXCH:
        return value;
    default:
        return old == value ? compare
                            : old; /* cas: value is what is expected, compare what replaces it */
    }
}

static int atomic_lanes(struct lanes *l, struct sim_region *region) {
    const struct sim_insn *in = l->in;
    uint32_t bytes = l->bytes;
    struct sim_block *block = l->warp->block;
    for (uint32_t m = l->mask; m; m &= m - 1) { /* in lane order, always the same */
        uint32_t lane = (uint32_t)__builtin_ctz(m);
        uint64_t old = 0, value = 0, compare = 0;
        struct sim_region *own = l->space == SIM_S_SHARED ? NULL
                                 : region                 ? region
                                          : region_of(l->w, l->address[lane], bytes);
        uint8_t *at =
            own ? own->host + (l->address[lane] - own->base) : block->shared + l->address[lane];
        if (own && own->read_only) {
            if (sim_find(l->w, l->warp, l->pc, lane, SIM_FIND_READ_ONLY, l->address[lane], NULL,
                         "atomic on constant memory at 0x%llx",
                         (unsigned long long)l->address[lane]))
                return 1;
            continue;
        }
        int valid = own ? sim_memory_is_valid(own, l->address[lane] - own->base, bytes)
                        : shared_is_valid(block, l->address[lane], bytes);
        if (!valid && l->w->run->check_uninit && in->sub != SIM_ATOM_EXCH && uninitialised(l, lane))
            return 1;
        memcpy(&old, at, bytes);
        memcpy(&value, l->regs + in->b + (size_t)lane * in->dsize, bytes);
        if (in->sub == SIM_ATOM_CAS)
            memcpy(&compare, l->regs + in->c + (size_t)lane * in->dsize, bytes);
        uint64_t made = combine(l->w, in, old, value, compare, bytes);
        l->w->writes += own && made != old;
        memcpy(at, &made, bytes);
        if (own && own->valid)
            sim_memory_mark(own, l->address[lane] - own->base, bytes);
        else if (!own)
            shared_mark(block, l->address[lane], bytes);
        if (in->dst != SIM_NO_SLOT)
            memcpy(l->regs + in->dst + (size_t)lane * in->dsize, &old, in->dsize);
    }
    return 0;
}

static int atomic_global(struct lanes *l) {
    struct sim_span r = measure(l);
    struct sim_region *region;
    if (check_alignment(l, &r) || find_regions(l, &r, &region) < 0)
        return 1;
    return l->mask ? raise_event(l, region, 0, NULL) || atomic_lanes(l, region) : 0;
}

static int atomic_shared(struct lanes *l) {
    struct sim_span r = measure(l);
    if (check_alignment(l, &r) || check_limit(l, &r, l->warp->block->shared_bytes))
        return 1;
    return l->mask ? raise_event(l, NULL, 0, NULL) || atomic_lanes(l, NULL) : 0;
}

int sim_exec_atomic(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                    uint32_t mask, uint8_t *regs) {
    struct lanes l;
    begin(&l, w, warp, in, mask, regs, 0,
          in->dst == SIM_NO_SLOT ? SIM_ACCESS_REDUCE : SIM_ACCESS_ATOMIC);
    make_addresses(&l, in->a, in->ext, in->imm);
    if (w->run->check_races)
        sim_races_order(w->run, warp, in->order, in->space == SIM_S_SHARED, 1, 1);
    return in->space == SIM_S_SHARED   ? atomic_shared(&l)
           : in->space == SIM_S_GLOBAL ? atomic_global(&l)
                                       : by_window(&l, atomic_global, atomic_shared, NULL, NULL);
}

/* ---- for instructions that move more than registers ---- */

/* Checks one access of `bytes` per lane in any space, raises its event, and gives each lane's host
   address. Lanes that may not are taken out of *mask. 1: the launch ends. */
int sim_access_lanes(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                     uint32_t *mask, unsigned space, unsigned kind, const uint64_t *address,
                     uint32_t bytes, uint8_t **host) {
    struct lanes l;
    begin(&l, w, warp, in, *mask, NULL, 0, (uint8_t)kind);
    l.bytes = bytes;
    l.moved = 1;
    memcpy(l.address, address, sizeof l.address);
    if (space == SIM_S_GENERIC) { /* all lanes of these instructions are in one space */
        uint64_t a = address[__builtin_ctz(*mask)];
        space = a - SIM_SHARED_WINDOW < SIM_WINDOW_BYTES ? SIM_S_SHARED : SIM_S_GLOBAL;
        for (int i = 0; i < SIM_LANES && space == SIM_S_SHARED; i++)
            l.address[i] -= SIM_SHARED_WINDOW;
    }
    l.space = (uint8_t)space;
    struct sim_span r = measure(&l);
    struct sim_region *region = NULL;
    struct sim_block *b = warp->block;
    if (check_alignment(&l, &r) || (space == SIM_S_SHARED ? check_limit(&l, &r, b->shared_bytes)
                                                          : find_regions(&l, &r, &region) < 0))
        return 1;
    *mask = l.mask;
    if (l.mask && raise_event(&l, region, 0, NULL))
        return 1;
    for (uint32_t m = l.mask; m; m &= m - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(m);
        uint64_t at = l.address[lane];
        struct sim_region *own = space == SIM_S_SHARED ? NULL
                                 : region              ? region
                                                       : region_of(w, at, bytes);
        host[lane] = own ? own->host + (at - own->base) : b->shared + at;
        int reads = kind == SIM_ACCESS_LOAD || kind >= SIM_ACCESS_ATOMIC;
        int valid =
            own ? sim_memory_is_valid(own, at - own->base, bytes) : shared_is_valid(b, at, bytes);
        if (reads && !valid && w->run->check_uninit && uninitialised(&l, lane))
            return 1;
        if (kind != SIM_ACCESS_LOAD && own && own->read_only)
            return sim_find(w, warp, l.pc, lane, SIM_FIND_READ_ONLY, at, NULL,
                            "write to constant memory at 0x%llx", (unsigned long long)at),
                   1;
        if (kind != SIM_ACCESS_LOAD && own)
            sim_memory_mark(own, at - own->base, bytes);
        else if (kind != SIM_ACCESS_LOAD)
            shared_mark(b, at, bytes);
    }
    return 0;
}

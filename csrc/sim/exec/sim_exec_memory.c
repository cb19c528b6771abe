/* sim_exec_memory.c: executes loads and stores: from checked addresses to registers and back. A
 * whole warp's access to consecutive elements is one copy; all others go lane by lane, in lane
 * order.
 */
#include "sim_address.h"
#include "sim_async.h"
#include "sim_exec.h"
#include "../observe/sim_observe.h"

#include <stdio.h>
#include <string.h>

/* ---- between memory and registers ---- */

/* Lane i's data is at base + at[i]. base is a host address minus the region's simulated address, so
 * it is no valid pointer by itself. */
struct places {
    uintptr_t base;
    const uint64_t *at;
    uint32_t mask;
    int row; /* all lanes' places are consecutive */
};

static inline uint8_t *place_of(const struct places *p, uint32_t lane) {
    return (uint8_t *)(p->base + (uintptr_t)p->at[lane]);
}

/* One element of each lane, `offset` bytes into its access: widened to a register, or truncated
 * from it. Addresses are aligned to the whole access, so lanes overlap fully or not at all. */
#define EACH_LANE(statement)                               \
    if (SIM_LIKELY(p->mask == SIM_FULL)) {                 \
        for (uint32_t i = 0; i < SIM_LANES; i++)           \
            statement;                                     \
    } else {                                               \
        for (uint32_t m = p->mask; m; m &= m - 1) {        \
            const uint32_t i = (uint32_t)__builtin_ctz(m); \
            statement;                                     \
        }                                                  \
    }
#define GET(memory, reg)                 \
    EACH_LANE(((reg *)(void *)slot)[i] = \
                  (reg) * (const memory *)(const void *)(place_of(p, i) + offset))
#define PUT(memory, reg)                                     \
    EACH_LANE(*(memory *)(void *)(place_of(p, i) + offset) = \
                  (memory)((const reg *)(const void *)slot)[i])
#define BY_REGISTER(move, memory) \
    switch (dsize) {              \
    case 2:                       \
        move(memory, sim_u16);    \
        break;                    \
    case 4:                       \
        move(memory, sim_u32);    \
        break;                    \
    default:                      \
        move(memory, sim_u64);    \
        break;                    \
    }                             \
    break

static void get_element(const struct places *p, uint8_t *slot, uint32_t dsize, unsigned type,
                        uint32_t offset) {
    switch (sim_types[type].bytes + (sim_types[type].class == SIM_C_SINT ? 16u : 0u)) {
    case 1:
        BY_REGISTER(GET, uint8_t);
    case 17:
        BY_REGISTER(GET, int8_t);
    case 2:
        BY_REGISTER(GET, sim_u16);
    case 18:
        BY_REGISTER(GET, sim_s16);
    case 4:
        BY_REGISTER(GET, sim_u32);
    case 20:
        BY_REGISTER(GET, sim_s32);
    default:
        BY_REGISTER(GET, sim_u64);
    }
}

static void put_element(const struct places *p, const uint8_t *slot, uint32_t dsize, unsigned type,
                        uint32_t offset) {
    switch (sim_types[type].bytes) {
    case 1:
        BY_REGISTER(PUT, uint8_t);
    case 2:
        BY_REGISTER(PUT, sim_u16);
    case 4:
        BY_REGISTER(PUT, sim_u32);
    default:
        BY_REGISTER(PUT, sim_u64);
    }
}

/* The same for all lanes and consecutive accesses: `from` is the element of lane 0, and `step` a
 * number of elements. Pairs and quads have loops of their own, which compilers turn into shuffles.
 */
#define MOVE_ROW(to_type, to_at, from_type, from_at) \
    for (uint32_t i = 0; i < SIM_LANES; i++)         \
    ((to_type *)(void *)to)[to_at] = (to_type)((const from_type *)(const void *)from)[from_at]
#define GET_ROW(memory, reg)             \
    if (step == 1)                       \
        MOVE_ROW(reg, i, memory, i);     \
    else if (step == 2)                  \
        MOVE_ROW(reg, i, memory, i * 2); \
    else if (step == 4)                  \
        MOVE_ROW(reg, i, memory, i * 4); \
    else                                 \
        MOVE_ROW(reg, i, memory, i *step)
#define PUT_ROW(memory, reg)             \
    if (step == 1)                       \
        MOVE_ROW(memory, i, reg, i);     \
    else if (step == 2)                  \
        MOVE_ROW(memory, i * 2, reg, i); \
    else if (step == 4)                  \
        MOVE_ROW(memory, i * 4, reg, i); \
    else                                 \
        MOVE_ROW(memory, i *step, reg, i)
#define ROW_PARAMETERS \
    uint8_t *restrict to, const uint8_t *restrict from, uint32_t dsize, unsigned type, uint32_t step
#define GET_ROW_BODY                                                                    \
    switch (sim_types[type].bytes + (sim_types[type].class == SIM_C_SINT ? 16u : 0u)) { \
    case 1:                                                                             \
        BY_REGISTER(GET_ROW, uint8_t);                                                  \
    case 17:                                                                            \
        BY_REGISTER(GET_ROW, int8_t);                                                   \
    case 2:                                                                             \
        BY_REGISTER(GET_ROW, sim_u16);                                                  \
    case 18:                                                                            \
        BY_REGISTER(GET_ROW, sim_s16);                                                  \
    case 4:                                                                             \
        BY_REGISTER(GET_ROW, sim_u32);                                                  \
    case 20:                                                                            \
        BY_REGISTER(GET_ROW, sim_s32);                                                  \
    default:                                                                            \
        BY_REGISTER(GET_ROW, sim_u64);                                                  \
    }
#define PUT_ROW_BODY                   \
    switch (sim_types[type].bytes) {   \
    case 1:                            \
        BY_REGISTER(PUT_ROW, uint8_t); \
    case 2:                            \
        BY_REGISTER(PUT_ROW, sim_u16); \
    case 4:                            \
        BY_REGISTER(PUT_ROW, sim_u32); \
    default:                           \
        BY_REGISTER(PUT_ROW, sim_u64); \
    }
static void get_row_plain(ROW_PARAMETERS) { GET_ROW_BODY }
static void put_row_plain(ROW_PARAMETERS) { PUT_ROW_BODY }
#if defined(__x86_64__)
__attribute__((target("avx2"))) static void get_row_wide(ROW_PARAMETERS) { GET_ROW_BODY }
__attribute__((target("avx2"))) static void put_row_wide(ROW_PARAMETERS) { PUT_ROW_BODY }
#else
#define get_row_wide get_row_plain
#define put_row_wide put_row_plain
#endif

static void put_into_registers(const struct sim_request *l, const struct places *p) {
    const struct sim_insn *in = l->in;
    const uint32_t *slots = in->vec == 1 ? &in->dst : &l->w->run->kernel->extra[in->ext];
    const uint32_t each = sim_types[in->type].bytes;
    if (p->row) {
        for (uint32_t v = 0; v < in->vec; v++)
            if (slots[v] != SIM_NO_SLOT)
                (l->w->run->wide ? get_row_wide : get_row_plain)(
                    l->regs + slots[v], place_of(p, 0) + v * each, in->dsize, in->type, in->vec);
    } else {
        for (uint32_t v = 0; v < in->vec; v++)
            if (slots[v] != SIM_NO_SLOT)
                get_element(p, l->regs + slots[v], in->dsize, in->type, v * each);
    }
}

static void take_from_registers(const struct sim_request *l, const struct places *p) {
    const struct sim_insn *in = l->in;
    const uint32_t *slots = in->vec == 1 ? &in->b : &l->w->run->kernel->extra[in->ext];
    const uint32_t each = sim_types[in->type].bytes;
    for (uint32_t v = 0; v < in->vec; v++)
        if (p->row)
            (l->w->run->wide ? put_row_wide : put_row_plain)(
                place_of(p, 0) + v * each, l->regs + slots[v], in->dsize, in->type, in->vec);
        else
            put_element(p, l->regs + slots[v], in->dsize, in->type, v * each);
}

/* The register's lanes have the memory's layout. */
static inline int is_direct(const struct sim_request *l) {
    return l->in->vec == 1 && l->bytes == l->in->dsize;
}

/* Copies one element to each of `lanes` lanes from consecutive elements or one. */
static inline void load_group(uint8_t *to, const uint8_t *from, uint32_t lanes, uint32_t bytes,
                              int64_t stride) {
    uint64_t value = 0;
    if (stride) {
        for (uint32_t i = 0; i < lanes * bytes; i += 16) /* a group has at least four lanes */
            memcpy(to + i, from + i, 16);
    } else if (bytes == 4) {
        memcpy(&value, from, 4);
        for (uint32_t i = 0; i < lanes; i += 4)
            for (uint32_t k = 0; k < 4; k++)
                ((sim_u32 *)(void *)to)[i + k] = (uint32_t)value;
    } else {
        memcpy(&value, from, 8);
        for (uint32_t i = 0; i < lanes; i += 4)
            for (uint32_t k = 0; k < 4; k++)
                ((sim_u64 *)(void *)to)[i + k] = value;
    }
}

/* A whole warp's load of one element each, where groups of lanes read consecutive elements or one.
 * from: the data of the least address. Returns 1 if it was one. */
static inline int load_row(const struct sim_request *l, const uint8_t *from) {
    const struct sim_span *s = &l->span;
    if (!is_direct(l) || l->in->dst == SIM_NO_SLOT || l->mask != SIM_FULL || s->group < 4)
        return 0;
    uint8_t *to = l->regs + l->in->dst;
    if (sim_request_contiguous(l)) {
        if (l->bytes == 4)
            memcpy(to, from, SIM_LANES * 4);
        else
            memcpy(to, from, SIM_LANES * (size_t)l->bytes);
        return 1;
    }
    if ((s->stride && s->stride != (int64_t)l->bytes) || (l->bytes != 4 && l->bytes != 8))
        return 0;
    if (s->step < 0)
        from += s->most - s->least - (uint64_t)s->stride * (s->group - 1);
    for (uint32_t lane = 0; lane < SIM_LANES; lane += s->group, from += s->step)
        load_group(to + lane * (size_t)l->bytes, from, s->group, l->bytes, s->stride);
    return 1;
}

/* ---- written bytes of local memory: one bit a byte ---- */

static void local_places(const struct sim_request *l, uint64_t at[SIM_LANES]) {
    for (uint32_t i = 0; i < SIM_LANES; i++)
        at[i] = (uint64_t)i * l->warp->local_stride + l->address[i];
}

/* ---- loads ---- */

/* Lanes access different allocations. */
static int load_scattered(struct sim_request *l) {
    for (uint32_t m = l->mask; m; m &= m - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(m);
        struct sim_region *own = sim_request_region(l->w, l->address[lane], l->bytes);
        if (l->w->run->check_uninit &&
            !sim_memory_is_valid(own, l->address[lane] - own->base, l->bytes) &&
            sim_undefined_load(l, own, lane))
            return 1;
        put_into_registers(l, &(struct places){(uintptr_t)own->host - (uintptr_t)own->base,
                                               l->address, m & -m, 0});
    }
    return 0;
}

int sim_load_global(struct sim_request *l) {
    struct sim_region *region;
    sim_request_measure(l);
    if (sim_request_check_alignment(l) || sim_request_regions(l, &region) < 0)
        return 1;
    if (!l->mask)
        return 0;
    if (sim_request_event(l, region, NULL))
        return 1;
    if (SIM_UNLIKELY(l->warp->block->copies_out) && sim_copies_loaded(l))
        return 1;
    if (!region)
        return load_scattered(l);
    const uint64_t first = l->span.least - region->base,
                   room = l->span.most - l->span.least + l->bytes;
    if (region->valid && l->w->run->check_uninit &&
        (room > SIM_LANES * 32 || !sim_memory_is_valid(region, first, room)))
        for (uint32_t m = l->mask; m; m &= m - 1) {
            uint32_t lane = (uint32_t)__builtin_ctz(m);
            if (!sim_memory_is_valid(region, l->address[lane] - region->base, l->bytes) &&
                sim_undefined_load(l, region, lane))
                return 1;
        }
    if (!load_row(l, region->host + first))
        put_into_registers(l, &(struct places){(uintptr_t)region->host - (uintptr_t)region->base,
                                               l->address, l->mask, sim_request_contiguous(l)});
    return 0;
}

/* Whether every byte of the words that the lanes read was written. Few words are checked at once.
 */
static int shared_words_are_valid(const struct sim_request *l) {
    const struct sim_block *b = l->warp->block;
    uint8_t all = 15;
    const uint64_t first = l->span.least / 4, words = (l->span.most + l->bytes + 3) / 4 - first;
    if (words <= SIM_LANES) { /* few, accessed or not */
        const uint64_t each = 0x0f0f0f0f0f0f0f0full;
        uint64_t missing = 0, eight = 0;
        for (uint32_t i = 0; i < words; i += 8) {
            memcpy(&eight, b->shared_valid + first + i, 8);
            missing |= ~eight & (words - i < 8 ? each & ((1ull << (words - i) * 8) - 1) : each);
        }
        if (!missing)
            return 1;
    }
    if (l->bytes == 4) {
        for (uint32_t m = l->mask; m; m &= m - 1)
            all &= b->shared_valid[l->address[__builtin_ctz(m)] / 4];
        return all == 15;
    }
    for (uint32_t m = l->mask; m; m &= m - 1)
        if (!sim_shared_is_valid(b, l->address[__builtin_ctz(m)], l->bytes))
            return 0;
    return 1;
}

static int load_shared(struct sim_request *l) {
    struct sim_block *b = l->warp->block;
    sim_request_measure(l);
    if (sim_request_check_alignment(l) || sim_request_check_limit(l, b->shared_bytes))
        return 1;
    if (!l->mask)
        return 0;
    if (sim_request_event(l, NULL, NULL))
        return 1;
    if (l->w->run->check_uninit && !shared_words_are_valid(l))
        for (uint32_t m = l->mask; m; m &= m - 1) {
            uint32_t lane = (uint32_t)__builtin_ctz(m);
            if (!sim_shared_is_valid(b, l->address[lane], l->bytes) &&
                (sim_shared_is_flying(b, l->address[lane], l->bytes)
                     ? sim_copies_read(l, lane)
                     : sim_undefined_load(l, NULL, lane)))
                return 1;
        }
    if (!load_row(l, b->shared + l->span.least))
        put_into_registers(l, &(struct places){(uintptr_t)b->shared, l->address, l->mask,
                                               sim_request_contiguous(l)});
    return 0;
}

static int load_local(struct sim_request *l) {
    struct sim_warp *warp = l->warp;
    uint64_t at[SIM_LANES];
    int internal = (l->in->dst2 & SIM_A_INTERNAL) != 0;
    sim_request_measure(l);
    if (sim_request_check_alignment(l) || sim_request_check_limit(l, warp->local_top))
        return 1;
    if (!internal && l->mask && sim_request_event(l, NULL, NULL))
        return 1;
    local_places(l, at);
    const int checked = l->w->run->check_uninit && (!internal || warp->undefined);
    for (uint32_t m = checked ? l->mask : 0; m; m &= m - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(m);
        if (!sim_local_is_valid(warp, lane, l->address[lane], l->bytes) &&
            sim_undefined_load(l, NULL, lane))
            return 1;
    }
    put_into_registers(l, &(struct places){(uintptr_t)warp->local, at, l->mask, 0});
    return 0;
}

static int load_params(struct sim_request *l) {
    sim_request_measure(l);
    if (sim_request_check_alignment(l) ||
        sim_request_check_limit(l, l->w->run->kernel->param_bytes))
        return 1;
    put_into_registers(l, &(struct places){(uintptr_t)l->w->run->params, l->address, l->mask, 0});
    return 0;
}

int sim_exec_load(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                  uint32_t mask, uint8_t *regs, uint32_t local_base) {
    struct sim_request l;
    int failed;
    if (SIM_UNLIKELY(in->sub >= SIM_LD_ROWS)) /* the other lanes' addresses have no meaning */
        mask &= SIM_FULL >> (SIM_LANES - 8u * (in->sub - SIM_LD_ROWS));
    if (!mask)
        return 0;
    sim_request_begin(&l, w, warp, in, mask, regs, local_base, SIM_ACCESS_LOAD);
    sim_request_addresses(&l, in->a, in->dst2, in->imm);
    switch (in->space) {
    case SIM_S_GLOBAL:
    case SIM_S_CONST:
        failed = sim_load_global(&l);
        break;
    case SIM_S_SHARED:
        failed = load_shared(&l);
        break;
    case SIM_S_LOCAL:
        failed = load_local(&l);
        break;
    default:
        failed = sim_request_by_window(&l, sim_load_global, load_shared, load_local, load_params);
        break;
    }
    if (!failed && w->run->check_races && in->order != SIM_ORDER_WEAK)
        sim_races_order(w->run, warp, in->order,
                        &(struct sim_words){l.address, l.mask, l.bytes, in->space == SIM_S_SHARED},
                        0, 1);
    return failed;
}

int sim_load_param(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                   uint32_t mask, uint8_t *regs) {
    static const uint64_t one_place[SIM_LANES];
    struct sim_request l;
    sim_request_begin(&l, w, warp, in, mask, regs, 0, SIM_ACCESS_LOAD);
    if (in->a != SIM_NO_SLOT) {
        sim_request_addresses(&l, in->a, in->dst2, in->imm);
        return load_params(&l);
    }
    /* within the parameters: the decoder has checked it */
    l.span = (struct sim_span){.group = SIM_LANES};
    if (load_row(&l, w->run->params + in->imm))
        return 0;
    put_into_registers(&l,
                       &(struct places){(uintptr_t)(w->run->params + in->imm), one_place, mask, 0});
    return 0;
}

/* ---- stores ---- */

static int flying(const struct sim_request *l) {
    return (l->warp->block->copies_in | l->warp->block->copies_out) != 0;
}

/* The stored values, as the race detector compares them with memory: 32 consecutive values, built
 * only where the register has another layout. */
static const uint8_t *stored_values(const struct sim_request *l, uint8_t *values) {
    uint64_t at[SIM_LANES];
    if (is_direct(l))
        return l->regs + l->in->b;
    if (!l->w->run->check_races)
        return NULL;
    for (uint32_t i = 0; i < SIM_LANES; i++)
        at[i] = (uint64_t)i * l->bytes;
    take_from_registers(l, &(struct places){(uintptr_t)values, at, l->mask, l->mask == SIM_FULL});
    return values;
}

/* Lanes access different allocations, or constant memory. */
static int store_scattered(struct sim_request *l) {
    for (uint32_t m = l->mask; m; m &= m - 1) { /* in lane order: the last lane's value remains */
        uint32_t lane = (uint32_t)__builtin_ctz(m);
        struct sim_region *own = sim_request_region(l->w, l->address[lane], l->bytes);
        if (own->read_only) {
            if (sim_find(l->w, l->warp, l->pc, lane, SIM_FIND_READ_ONLY, l->address[lane], NULL,
                         "write of %u bytes to constant memory at 0x%llx", l->bytes,
                         (unsigned long long)l->address[lane]))
                return 1;
            continue;
        }
        take_from_registers(l, &(struct places){(uintptr_t)own->host - (uintptr_t)own->base,
                                                l->address, m & -m, 0});
        sim_memory_mark(own, l->address[lane] - own->base, l->bytes);
    }
    return 0;
}

int sim_store_global(struct sim_request *l) {
    struct sim_region *region;
    _Alignas(32) uint8_t values[SIM_LANES * 32];
    l->w->writes++;
    sim_request_measure(l);
    if (sim_request_check_alignment(l) || sim_request_regions(l, &region) < 0)
        return 1;
    if (!l->mask)
        return 0;
    if (SIM_UNLIKELY(flying(l)) && sim_copies_written(l))
        return 1;
    if (sim_request_event(l, region, stored_values(l, values)))
        return 1;
    if (!region || region->read_only) {
        if (store_scattered(l))
            return 1;
        if (SIM_UNLIKELY(l->warp->undefined != NULL))
            sim_undefined_store(l);
        return 0;
    }
    const uint64_t first = l->span.least - region->base;
    if (is_direct(l) && sim_request_contiguous(l))
        memcpy(region->host + first, l->regs + l->in->b, SIM_LANES * (size_t)l->bytes);
    else
        take_from_registers(l, &(struct places){(uintptr_t)region->host - (uintptr_t)region->base,
                                                l->address, l->mask, sim_request_contiguous(l)});
    if (region->valid) {
        if (sim_request_contiguous(l))
            sim_memory_mark(region, first, SIM_LANES * (uint64_t)l->bytes);
        else
            for (uint32_t m = l->mask; m; m &= m - 1)
                sim_memory_mark(region, l->address[__builtin_ctz(m)] - region->base, l->bytes);
    }
    if (SIM_UNLIKELY(l->warp->undefined != NULL))
        sim_undefined_store(l);
    return 0;
}

static int store_shared(struct sim_request *l) {
    struct sim_block *b = l->warp->block;
    _Alignas(32) uint8_t values[SIM_LANES * 32];
    sim_request_measure(l);
    if (sim_request_check_alignment(l) || sim_request_check_limit(l, b->shared_bytes))
        return 1;
    if (!l->mask)
        return 0;
    if (SIM_UNLIKELY(flying(l)) && sim_copies_written(l))
        return 1;
    if (sim_request_event(l, NULL, stored_values(l, values)))
        return 1;
    if (sim_request_contiguous(l) && is_direct(l) && l->bytes >= 4) {
        memcpy(b->shared + l->span.least, l->regs + l->in->b, SIM_LANES * (size_t)l->bytes);
        memset(b->shared_valid + l->span.least / 4, 15, SIM_LANES * (size_t)l->bytes / 4);
    } else {
        take_from_registers(l, &(struct places){(uintptr_t)b->shared, l->address, l->mask,
                                                sim_request_contiguous(l)});
        if (l->bytes == 4)
            for (uint32_t m = l->mask; m; m &= m - 1)
                b->shared_valid[l->address[__builtin_ctz(m)] / 4] = 15;
        else
            for (uint32_t m = l->mask; m; m &= m - 1)
                sim_shared_mark(b, l->address[__builtin_ctz(m)], l->bytes);
    }
    if (SIM_UNLIKELY(l->warp->undefined != NULL))
        sim_undefined_store(l);
    return 0;
}

static int store_local(struct sim_request *l) {
    struct sim_warp *warp = l->warp;
    uint64_t at[SIM_LANES];
    sim_request_measure(l);
    if (sim_request_check_alignment(l) || sim_request_check_limit(l, warp->local_top))
        return 1;
    if (!(l->in->dst2 & SIM_A_INTERNAL) && l->mask && sim_request_event(l, NULL, NULL))
        return 1;
    local_places(l, at);
    take_from_registers(l, &(struct places){(uintptr_t)warp->local, at, l->mask, 0});
    for (uint32_t m = l->mask; m; m &= m - 1)
        sim_warp_mark_local(warp, at[__builtin_ctz(m)], l->bytes);
    if (SIM_UNLIKELY(warp->undefined != NULL))
        sim_undefined_store(l);
    return 0;
}

int sim_exec_store(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                   uint32_t mask, uint8_t *regs, uint32_t local_base) {
    struct sim_request l;
    sim_request_begin(&l, w, warp, in, mask, regs, local_base, SIM_ACCESS_STORE);
    sim_request_addresses(&l, in->a, in->dst2, in->imm);
    if (w->run->check_races && in->order != SIM_ORDER_WEAK)
        sim_races_order(w->run, warp, in->order,
                        &(struct sim_words){l.address, l.mask, l.bytes, in->space == SIM_S_SHARED},
                        1, 0);
    if (SIM_UNLIKELY(in->flags & SIM_F_LATER))
        return sim_exec_later(&l);
    switch (in->space) {
    case SIM_S_GLOBAL:
        return sim_store_global(&l);
    case SIM_S_SHARED:
        return store_shared(&l);
    case SIM_S_LOCAL:
        return store_local(&l);
    default:
        return sim_request_by_window(&l, sim_store_global, store_shared, store_local, NULL);
    }
}

/* ---- malloc and free ---- */

/* Frees a block, or reports why that is impossible. */
static int bad_free(struct sim_worker *w, struct sim_warp *warp, uint32_t pc, uint32_t lane,
                    uint64_t address) {
    const struct sim_kernel *kernel = w->run->kernel;
    struct sim_heap_block block;
    char line[48], where[100];
    snprintf(where, sizeof where, "kernel %.40s at %s", kernel->title,
             sim_where_text(kernel, pc, line, sizeof line));
    if (sim_heap_give(w->run->gpu, address, where))
        return 0;
    if (sim_heap_block(w->run->gpu, address, &block) && block.base == address && block.freed)
        return sim_find(w, warp, pc, lane, SIM_FIND_USE_AFTER_FREE, address, NULL,
                        "free of 0x%llx, which %s freed before", (unsigned long long)address,
                        block.freed);
    return sim_find(w, warp, pc, lane, SIM_FIND_USE_AFTER_FREE, address, NULL,
                    "free of 0x%llx, which malloc has not returned", (unsigned long long)address);
}

int sim_exec_heap(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                  uint32_t pc, uint32_t mask, uint32_t local_base) {
    struct sim_gpu *gpu = w->run->gpu;
    for (uint32_t m = mask; m; m &= m - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(m);
        const uint64_t at = (uint64_t)lane * warp->local_stride + local_base;
        struct sim_taken taken;
        uint64_t value;
        memcpy(&value, warp->local + at + in->imm, sizeof value);
        if (in->sub == SIM_CALL_FREE) {
            if (value && bad_free(w, warp, pc, lane, value))
                return 1;
            continue;
        }
        value = sim_heap_take(gpu, value, &taken);
        if (value && w->run->check_races)
            sim_races_forget(taken.region, taken.offset, taken.bytes);
        w->writes++;
        memcpy(warp->local + at + in->b, &value, sizeof value);
        sim_warp_mark_local(warp, at + in->b, sizeof value);
    }
    return 0;
}

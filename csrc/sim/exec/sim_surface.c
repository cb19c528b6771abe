/* sim_surface.c: reads, writes and reductions of surfaces: accesses of global memory at the place
 * of an element. Knows no mnemonic. */
#include "sim_async.h"
#include "sim_texture.h"

#include <string.h>

/* A surface's element: 0 and the address, or 1 if it lies outside. x counts bytes, or texels. */
static int surface_place(const struct sim_texture *t, const struct sim_insn *in, uint32_t bytes,
                         const struct fetch *f, uint64_t *address) {
    const int64_t row = (int64_t)t->width * sim_texel_bytes(t), last = row - (int64_t)bytes;
    const int64_t most[4] = {last, (int64_t)t->height - 1, (int64_t)t->depth - 1,
                             (int64_t)t->layers - 1};
    const uint32_t unit = in->imm & SIM_SURF_TEXELS ? sim_texel_bytes(t) : 1;
    int64_t at[4] = {(int64_t)f->at[0] * unit, (int64_t)f->at[1], (int64_t)f->at[2],
                     (uint16_t)f->layer}; /* an H100 reads 16 bits of it */
    for (int i = 0; i < 4; i++) {
        if (at[i] >= 0 && at[i] <= most[i])
            continue;
        if ((in->imm & SIM_SURF_OUTSIDE) != SIM_SURF_CLAMP)
            return 1;
        at[i] = at[i] < 0 || most[i] < 0 ? 0 : most[i];
    }
    *address = t->address + (uint64_t)(((at[3] * t->depth + at[2]) * t->height + at[1]) * row) +
               (uint64_t)at[0];
    return last < 0;
}

/* Finds each lane's element; lanes without one leave the request. Returns whether the launch ends.
 */
static int find_elements(struct sim_request *l, const struct sim_texture **of) {
    const struct sim_insn *in = l->in;
    const uint32_t *slots = &l->w->run->kernel->extra[in->e];
    struct sim_insn whole = *in; /* integer coordinates */
    whole.vec = 0;
    for (uint32_t m = l->mask; m; m &= m - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(m);
        const uint64_t handle = ((const uint64_t *)(const void *)(l->regs + in->a))[lane];
        struct fetch f;
        int ends;
        const struct sim_texture *t = sim_texture_of_lane(l->w, l->warp, in, lane, handle, &ends);
        of[lane] = t;
        if (t) {
            sim_texture_read_lane(l->regs, slots, lane, &whole, &f);
            if (!surface_place(t, in, l->bytes, &f, &l->address[lane]))
                continue;
            if ((in->imm & SIM_SURF_OUTSIDE) == SIM_SURF_TRAP)
                ends = sim_find(
                    l->w, l->warp, l->pc, lane, SIM_FIND_OUT_OF_BOUNDS, handle, NULL,
                    "%s of %u bytes at x = %d%s, y = %d, z = %d, layer %d of a surface of "
                    "%u x %u x %u texels of %u bytes, %u layers: a GPU ends the kernel with an "
                    "error%s",
                    in->sub == SIM_TEX_SUST    ? "write"
                    : in->sub == SIM_TEX_SURED ? "reduction"
                                               : "read",
                    l->bytes, (int)f.at[0], in->imm & SIM_SURF_TEXELS ? "" : " bytes", (int)f.at[1],
                    (int)f.at[2], (int)f.layer, t->width, t->height, t->depth, sim_texel_bytes(t),
                    t->layers, in->imm & SIM_SURF_TEXELS ? "" : "; x counts bytes");
        }
        if (ends)
            return 1;
        l->mask &= ~(1u << lane);
    }
    return 0;
}

/* A channel from 32 bits: float16 is rounded toward zero (8,192 values equal an H100's), small
 * integers take the nearest value. */
static uint32_t as_channel(const struct sim_texture *t, uint32_t bits) {
    const struct sim_texel_format *format = &sim_texel_formats[t->format];
    const uint32_t width = 8u * format->bytes;
    if (t->format == SIM_TEX_F16)
        return sim_half_toward_zero(bits);
    if (width == 32)
        return bits;
    if (!format->is_signed)
        return bits >> width ? (1u << width) - 1 : bits;
    const int32_t value = (int32_t)bits, most = (1 << (width - 1)) - 1;
    return (uint32_t)(value > most ? most : value < -most - 1 ? -most - 1 : value);
}

/* sust.p: the channels are converted; those that the instruction lacks become 0. */
static int store_texels(struct sim_request *l, const struct sim_texture *const *of) {
    const uint32_t *values = &l->w->run->kernel->extra[l->in->ext];
    uint8_t *host[SIM_LANES];
    if (sim_request_access(l, host))
        return 1;
    for (uint32_t m = l->mask; m; m &= m - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(m);
        const struct sim_texture *t = of[lane];
        const uint32_t bytes = sim_texel_formats[t->format].bytes;
        for (uint32_t c = 0; c < t->channels; c++) {
            uint32_t bits = 0;
            if (c < l->in->vec)
                memcpy(&bits, l->regs + values[c] + (size_t)lane * 4, 4);
            bits = as_channel(t, bits);
            memcpy(host[lane] + c * bytes, &bits, bytes);
        }
    }
    return 0;
}

/* sured, in lane order. sured.p has the sign of the surface's integers. */
static int reduce(struct sim_request *l, const struct sim_texture *const *of) {
    uint8_t *host[SIM_LANES];
    struct sim_insn atomic = *l->in;
    atomic.sub = l->in->mods;
    if (sim_request_access(l, host))
        return 1;
    for (uint32_t m = l->mask; m; m &= m - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(m);
        uint64_t old = 0, value = 0;
        if (l->in->imm & SIM_SURF_TEXELS)
            atomic.type = of[lane]->format == SIM_TEX_S32 ? SIM_T_S32 : SIM_T_U32;
        memcpy(&old, host[lane], l->bytes);
        memcpy(&value, l->regs + l->in->b + (size_t)lane * l->in->dsize, l->bytes);
        const uint64_t made = sim_atomic_combine(l->w, &atomic, old, value, 0, l->bytes, 1);
        l->w->writes += made != old;
        memcpy(host[lane], &made, l->bytes);
    }
    return 0;
}

/* Lanes whose element lies outside read zero. */
static void clear(const struct sim_request *l, uint32_t mask) {
    const struct sim_insn *in = l->in;
    for (uint32_t v = 0; v < in->vec; v++) {
        const uint32_t slot = in->vec == 1 ? in->dst : l->w->run->kernel->extra[in->ext + v];
        for (uint32_t m = mask & ~l->mask; m && slot != SIM_NO_SLOT; m &= m - 1)
            memset(l->regs + slot + (uint32_t)__builtin_ctz(m) * in->dsize, 0, in->dsize);
    }
}

/* The lanes, of `mask`, whose texels are as large as the first lane's. */
static uint32_t of_one_size(const struct sim_request *l, uint32_t mask, uint32_t *bytes) {
    uint32_t found = 0;
    for (uint32_t m = mask; m; m &= m - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(m);
        const struct sim_texture *t = sim_surface_of(
            l->w->run->gpu, ((const uint64_t *)(const void *)(l->regs + l->in->a))[lane]);
        const uint32_t size = t ? sim_texel_bytes(t) : *bytes;
        if (!found)
            *bytes = size;
        found |= size == *bytes ? 1u << lane : 0;
    }
    return found;
}

static int access_elements(struct sim_request *l, uint32_t mask) {
    const struct sim_texture *of[SIM_LANES];
    l->mask = mask;
    if (find_elements(l, of))
        return 1;
    if (l->in->sub == SIM_TEX_SULD)
        clear(l, mask);
    if (!l->mask)
        return 0;
    if (l->in->sub == SIM_TEX_SURED)
        return reduce(l, of);
    if (l->in->imm & SIM_SURF_TEXELS)
        return store_texels(l, of);
    return l->in->sub == SIM_TEX_SUST ? sim_store_global(l) : sim_load_global(l);
}

int sim_exec_surface(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                     uint32_t mask, uint8_t *regs) {
    struct sim_request l;
    const int formatted = in->sub == SIM_TEX_SUST && in->imm & SIM_SURF_TEXELS;
    int ends = 0;
    for (uint32_t part; mask && !ends; mask &= ~part) {
        sim_texture_request(&l, w, warp, in, mask, regs);
        part = formatted ? of_one_size(&l, mask, &l.bytes) : mask;
        ends = access_elements(&l, part);
    }
    return ends;
}

/* sim_preset.c: looks up the rows of sim_preset.def and computes how many blocks fit on a
 * multiprocessor. Knows no kernel.
 */
#include "sim_internal.h"

#include <string.h>

static const struct sim_preset presets[] = {
#define PRESET(name, title, cc, sms, warps, blocks, threads, grid_x, grid_z, registers, unit,  \
               warp_unit, by_block, shared, shared_block, shared_unit, reserved, banks, group, \
               bank_bytes, coalescing, clock, bandwidth, f32, f64, memory, l1, shares, caches, \
               texture, l2, parts)                                                             \
    {name,        title,      cc,                                                              \
     sms,         warps,      blocks,                                                          \
     threads,     grid_x,     grid_z,                                                          \
     registers,   unit,       warp_unit,                                                       \
     by_block,    shared,     shared_block,                                                    \
     shared_unit, reserved,   banks,                                                           \
     group,       bank_bytes, SIM_COALESCE_##coalescing,                                       \
     clock,       bandwidth,  f32,                                                             \
     f64,         memory,     l1 * 1024u,                                                      \
     shares,      caches,     texture * 1024u,                                                 \
     l2 * 1024u,  parts},
#include "sim_preset.def"
#undef PRESET
};

const struct sim_preset *sim_preset_at(size_t index) {
    return index < sizeof presets / sizeof *presets ? &presets[index] : NULL;
}

const struct sim_preset *sim_preset_find(const char *name) {
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (strcmp(presets[i].name, name) == 0)
            return &presets[i];
    return NULL;
}

static uint64_t round_up(uint64_t x, uint64_t unit) {
    return unit ? (x + unit - 1) / unit * unit : x;
}

enum sim_status sim_occupancy_of(const struct sim_preset *p, unsigned threads, unsigned registers,
                                 uint64_t shared, struct sim_occupancy *o) {
    unsigned warps = (threads + SIM_LANES - 1) / SIM_LANES;
    memset(o, 0, sizeof *o);
    o->max_warps_per_sm = p->warps_per_sm;
    o->limiter = "blocks";
    if (!threads || threads > p->threads_per_block || shared > p->shared_per_block)
        return SIM_ARGUMENT;
    uint64_t blocks = p->blocks_per_sm, by_warps = p->warps_per_sm / warps;
    uint64_t by_registers = blocks, each = SIM_LANES * (uint64_t)registers;
    if (registers && p->registers_by_block)
        by_registers =
            p->registers_per_sm / round_up(round_up(warps, p->warp_unit) * each, p->register_unit);
    else if (registers) /* to warps, divided evenly among the parts of the register file */
        by_registers = p->registers_per_sm / round_up(each, p->register_unit) / p->warp_unit *
                       p->warp_unit / warps;
    uint64_t bytes = round_up(shared + p->shared_reserved, p->shared_unit),
             by_shared = bytes ? p->shared_per_sm / bytes : blocks;
    if (by_warps < blocks) {
        blocks = by_warps;
        o->limiter = "warps";
    }
    if (by_registers < blocks) {
        blocks = by_registers;
        o->limiter = "registers";
    }
    if (by_shared < blocks) {
        blocks = by_shared;
        o->limiter = "shared memory";
    }
    o->blocks_per_sm = (unsigned)blocks;
    o->warps_per_sm = (unsigned)blocks * warps;
    return SIM_OK;
}

unsigned sim_most_registers(const struct sim_preset *p, unsigned threads, unsigned blocks) {
    struct sim_occupancy o;
    if (sim_occupancy_of(p, threads, 0, 0, &o))
        return SIM_REGISTERS_MOST;
    const unsigned wanted = blocks <= o.blocks_per_sm ? blocks : 1; /* ptxas ignores the rest */
    unsigned most = SIM_REGISTERS_MOST;
    while (most > SIM_REGISTERS_LEAST && !sim_occupancy_of(p, threads, most, 0, &o) &&
           o.blocks_per_sm < wanted)
        most--;
    return most;
}

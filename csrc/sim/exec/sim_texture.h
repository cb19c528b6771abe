/* sim_texture.h: shared by the fetches of textures and the accesses of surfaces. */
#ifndef SIM_TEXTURE_H
#define SIM_TEXTURE_H

#include "sim_address.h"
#include "sim_exec.h"

/* Lines and sectors that a warp's fetch reads. */
struct reads;

struct fetch { /* one lane's */
    double at[3], gradient[2][3], given_level;
    uint32_t level; /* in 256ths */
    int64_t layer;
    int integer, as_float, has_level;
    struct reads *reads;
};

/* By enum of sim_texture.format: bytes, bits of a fraction (0: read as it is), sign. */
struct sim_texel_format {
    uint8_t bytes, fraction, is_signed;
};
extern const struct sim_texel_format sim_texel_formats[];

static inline uint32_t sim_texel_bytes(const struct sim_texture *t) {
    return t->channels * sim_texel_formats[t->format].bytes;
}

static inline int sim_is_surface(const struct sim_insn *in) {
    return in->sub == SIM_TEX_SULD || in->sub == SIM_TEX_SUST || in->sub == SIM_TEX_SURED;
}

/* The open surface of a handle, or NULL. */
const struct sim_texture *sim_surface_of(const struct sim_gpu *gpu, uint64_t handle);
void sim_texture_read_lane(const uint8_t *regs, const uint32_t *slots, uint32_t lane,
                           const struct sim_insn *in, struct fetch *f);
/* The texture behind a lane's handle, or NULL and *ends: a finding, which may end the launch. */
const struct sim_texture *sim_texture_of_lane(struct sim_worker *w, const struct sim_warp *warp,
                                              const struct sim_insn *in, uint32_t lane,
                                              uint64_t handle, int *ends);
void sim_texture_request(struct sim_request *l, struct sim_worker *w, struct sim_warp *warp,
                         const struct sim_insn *in, uint32_t mask, uint8_t *regs);
int sim_exec_surface(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                     uint32_t mask, uint8_t *regs);

#endif

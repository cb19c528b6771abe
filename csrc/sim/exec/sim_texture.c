/* sim_texture.c: texture objects and fetches from them: linear memory and arrays of 1 to 3
 * dimensions, point and linear filters, clamped and wrapped coordinates. Filter weights have 8
 * fraction bits, as on hardware. Knows no instruction.
 */
#include "sim_exec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HANDLE_BASE 0x7e00000000000000ull

static const unsigned texel_bytes[] = {4, 4, 4, 1};

enum sim_status sim_texture_open(struct sim_gpu *gpu, const struct sim_texture *t, uint64_t *handle,
                                 struct sim_error *error) {
    enum sim_status status = SIM_OK;
    if ((unsigned)t->format > SIM_TEX_U8_NORM || t->dimensions > 3 ||
        (t->channels != 1 && t->channels != 2 && t->channels != 4) || !t->width || !t->height ||
        !t->depth || t->width > 1u << 27 || t->height > 1u << 17 || t->depth > 1u << 14 ||
        (t->dimensions < 2 && t->height > 1) || (t->dimensions < 3 && t->depth > 1))
        return sim_fail(error, SIM_ARGUMENT, 0, 0,
                        "a texture has 1, 2 or 4 channels of a known format, and extents");
    const uint64_t row = (uint64_t)t->width * t->channels * texel_bytes[t->format],
                   rows = (uint64_t)t->height * t->depth;
    if (t->pitch < row)
        return sim_fail(error, SIM_ARGUMENT, 0, 0,
                        "the pitch of %u bytes is less than a row's %llu", t->pitch,
                        (unsigned long long)row);
    pthread_mutex_lock(&gpu->lock);
    struct sim_region *region = sim_memory_find(gpu, t->address);
    if (!region || (rows - 1) * t->pitch + row > region->bytes - (t->address - region->base)) {
        status = sim_fail(error, SIM_ARGUMENT, 0, 0, "the texture does not lie in one allocation");
    } else {
        struct sim_texture *grown =
            realloc(gpu->textures, (gpu->texture_count + 1) * sizeof *grown);
        if (grown) {
            gpu->textures = grown;
            grown[gpu->texture_count] = *t;
            *handle = HANDLE_BASE + gpu->texture_count++;
        } else {
            status = sim_fail(error, SIM_NO_MEMORY, 0, 0, "out of memory for a texture");
        }
    }
    pthread_mutex_unlock(&gpu->lock);
    return status;
}

enum sim_status sim_texture_close(struct sim_gpu *gpu, uint64_t handle, struct sim_error *error) {
    enum sim_status status = SIM_OK;
    pthread_mutex_lock(&gpu->lock);
    uint64_t index = handle - HANDLE_BASE;
    if (index >= gpu->texture_count || !gpu->textures[index].channels)
        status =
            sim_fail(error, SIM_ARGUMENT, 0, 0, "0x%llx is no texture", (unsigned long long)handle);
    else
        gpu->textures[index].channels = 0; /* handles are not reused */
    pthread_mutex_unlock(&gpu->lock);
    return status;
}

/* Clamps or wraps a coordinate. */
static int64_t place(int64_t i, uint32_t size, int wrap) {
    if (wrap)
        return (i % (int64_t)size + size) % size;
    return i < 0 ? 0 : i >= (int64_t)size ? (int64_t)size - 1 : i;
}

static void texel(const struct sim_texture *t, const uint8_t *base, const int64_t at[3], float f[4],
                  uint32_t u[4]) {
    const unsigned bytes = texel_bytes[t->format];
    const uint8_t *from = base + ((uint64_t)at[2] * t->height + (uint64_t)at[1]) * t->pitch +
                          (uint64_t)at[0] * t->channels * bytes;
    for (unsigned c = 0; c < 4; c++) {
        uint32_t raw = 0;
        f[c] = 0;
        u[c] = 0;
        if (c >= t->channels)
            continue;
        memcpy(&raw, from + c * bytes, bytes);
        u[c] = raw;
        if (t->format == SIM_TEX_U8_NORM)
            f[c] = (float)raw / 255.0f;
        else
            memcpy(&f[c], &raw, 4);
    }
}

static double fixed_fraction(double x) { return floor((x - floor(x)) * 256 + 0.5) / 256; }

static int64_t to_index(double x) {
    return !(x > -1e9) ? -1000000000 : x > 1e9 ? 1000000000 : (int64_t)floor(x);
}

/* Interpolates between the texels around a point. Measured on an H200 for two dimensions: the
 * product of both fractions is also rounded to 8 bits, and the four weights derive from it so that
 * they add up to 1. The third fraction weighs two such planes directly; that was not measured. */
static void filter(const struct sim_texture *t, const uint8_t *base, const double at[3], int wrap,
                   float out[4]) {
    const uint32_t size[3] = {t->width, t->height, t->depth};
    double part[3] = {0}, sum[4] = {0};
    int64_t low[3] = {0};
    for (unsigned i = 0; i < t->dimensions; i++) {
        part[i] = fixed_fraction(at[i] - 0.5);
        low[i] = to_index(at[i] - 0.5);
    }
    const double a = part[0], b = part[1], both = floor(a * b * 256 + 0.5) / 256;
    const double plane[4] = {1 - a - b + both, a - both, b - both, both};
    for (unsigned n = 0; n < 1u << t->dimensions; n++) {
        const double weight = plane[n & 3] * (n >> 2 ? part[2] : 1 - part[2]);
        int64_t corner[3];
        float f[4];
        uint32_t u[4];
        for (unsigned i = 0; i < 3; i++)
            corner[i] = place(low[i] + (n >> i & 1), size[i], wrap);
        texel(t, base, corner, f, u);
        for (int c = 0; c < 4; c++)
            sum[c] += weight == 0 ? 0 : weight * (double)f[c];
    }
    for (int c = 0; c < 4; c++)
        out[c] = (float)sum[c];
}

static void fetch(const struct sim_texture *t, const uint8_t *base, double at[3], int integer,
                  int as_float, uint32_t out[4]) {
    const uint32_t size[3] = {t->width, t->height, t->depth};
    const int wrap = t->wrap && t->normalised;
    float f[4];
    if (!t->dimensions && !(at[0] >= 0 && at[0] < t->width)) { /* outside linear memory: zero */
        memset(out, 0, 4 * sizeof *out);
        return;
    }
    for (int i = 0; i < 3 && t->normalised && !integer; i++)
        at[i] *= size[i];
    if (t->linear_filter && !integer && as_float) {
        filter(t, base, at, wrap, f);
        memcpy(out, f, sizeof f);
        return;
    }
    int64_t nearest[3];
    for (int i = 0; i < 3; i++)
        nearest[i] = place(to_index(at[i]), size[i], wrap);
    texel(t, base, nearest, f, out);
    if (as_float)
        memcpy(out, f, sizeof f);
}

/* Returns NULL if the fetch suits the texture, else a name of the fetch's kind. */
static const char *misfit(const struct sim_texture *t, const struct sim_insn *in) {
    static const char *const kinds[] = {
        "linear memory, which tex1Dfetch reads by integer index", "a 1-D array, which tex1D reads",
        "a 2-D array, which tex2D reads", "a 3-D array, which tex3D reads"};
    const int fits = t->dimensions ? in->sub == t->dimensions : in->sub == 1 && !in->vec;
    return fits ? NULL : kinds[t->dimensions];
}

int sim_exec_texture(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                     uint32_t mask, uint8_t *regs) {
    struct sim_gpu *gpu = w->run->gpu;
    const uint32_t *slots = &w->run->kernel->extra[in->ext];
    uint32_t pc = (uint32_t)(in - w->run->kernel->code);
    w->pcs[pc].requests++;
    for (uint32_t m = mask; m; m &= m - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(m), out[4];
        uint64_t handle = ((const sim_u64 *)(const void *)(regs + in->a))[lane];
        const struct sim_texture *t =
            handle - HANDLE_BASE < gpu->texture_count ? &gpu->textures[handle - HANDLE_BASE] : NULL;
        struct sim_region *region = t && t->channels ? sim_memory_find(gpu, t->address) : NULL;
        if (!region)
            return sim_find(w, warp, pc, lane, SIM_FIND_OUT_OF_BOUNDS, handle, NULL,
                            "0x%llx is no texture, or its memory was freed",
                            (unsigned long long)handle);
        const char *kind = misfit(t, in);
        if (kind)
            return sim_find(w, warp, pc, lane, SIM_FIND_OUT_OF_BOUNDS, handle, NULL,
                            "the texture is of %s", kind);
        const uint32_t from[3] = {in->b, in->c, in->e};
        double at[3] = {0};
        for (unsigned i = 0; i < in->sub; i++) {
            const uint8_t *coordinate = regs + from[i] + lane * 4;
            float real;
            int32_t index;
            memcpy(&real, coordinate, 4);
            memcpy(&index, coordinate, 4);
            at[i] = in->vec ? (double)real : index;
        }
        fetch(t, region->host + (t->address - region->base), at, !in->vec, in->type == SIM_T_F32,
              out);
        for (int c = 0; c < 4; c++)
            memcpy(regs + slots[c] + lane * 4, &out[c], 4);
    }
    return 0;
}

/*
 * sim_texture.c: texture objects and fetches from them: 1-D linear memory and 2-D arrays, point and
 * linear filters, clamped and wrapped coordinates. Linear filtering weighs with 8 bits of fraction,
 * as the hardware does.
 */
#include "sim_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HANDLE_BASE 0x7e00000000000000ull

static const unsigned texel_bytes[] = {4, 4, 4, 1};

enum sim_status sim_texture_open(struct sim_gpu *gpu, const struct sim_texture *t, uint64_t *handle,
                                 struct sim_error *error) {
    uint64_t bytes, rows = t->height ? t->height : 1, pitch;
    enum sim_status status = SIM_OK;
    if ((unsigned)t->format > SIM_TEX_U8_NORM ||
        (t->channels != 1 && t->channels != 2 && t->channels != 4) || !t->width ||
        t->width > 1u << 27 || t->height > 1u << 17)
        return sim_fail(error, SIM_ARGUMENT, 0, 0,
                        "a texture has 1, 2 or 4 channels of a known format, and a width");
    bytes = (uint64_t)t->width * t->channels * texel_bytes[t->format];
    pitch = t->height ? t->pitch : bytes;
    if (t->height && pitch < bytes)
        return sim_fail(error, SIM_ARGUMENT, 0, 0,
                        "the pitch of %u bytes is less than a row's %llu", t->pitch,
                        (unsigned long long)bytes);
    pthread_mutex_lock(&gpu->lock);
    struct sim_region *region = sim_memory_find(gpu, t->address);
    if (!region || (rows - 1) * pitch + bytes > region->bytes - (t->address - region->base)) {
        status = sim_fail(error, SIM_ARGUMENT, 0, 0, "the texture does not lie in one allocation");
    } else {
        struct sim_texture *grown =
            realloc(gpu->textures, (gpu->texture_count + 1) * sizeof *grown);
        if (grown) {
            gpu->textures = grown;
            grown[gpu->texture_count] = *t;
            grown[gpu->texture_count].pitch = (uint32_t)pitch;
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
        gpu->textures[index].channels = 0; /* handles are not given out twice */
    pthread_mutex_unlock(&gpu->lock);
    return status;
}

/* A coordinate in range. */
static int64_t place(int64_t i, uint32_t size, int wrap) {
    if (wrap)
        return (i % (int64_t)size + size) % size;
    return i < 0 ? 0 : i >= (int64_t)size ? (int64_t)size - 1 : i;
}

static void texel(const struct sim_texture *t, const uint8_t *base, int64_t x, int64_t y,
                  int as_float, float *f, uint32_t *u) {
    const uint8_t *at =
        base + (uint64_t)y * t->pitch + (uint64_t)x * t->channels * texel_bytes[t->format];
    for (unsigned c = 0; c < 4; c++) {
        uint32_t raw = 0;
        f[c] = 0;
        u[c] = 0;
        if (c >= t->channels)
            continue;
        memcpy(&raw, at + c * texel_bytes[t->format], texel_bytes[t->format]);
        u[c] = raw;
        if (t->format == SIM_TEX_U8_NORM)
            f[c] = (float)raw / 255.0f;
        else
            memcpy(&f[c], &raw, 4);
    }
    (void)as_float;
}

static double fixed_fraction(double x) { return floor((x - floor(x)) * 256 + 0.5) / 256; }

static int64_t to_index(double x) {
    return !(x > -1e9) ? -1000000000 : x > 1e9 ? 1000000000 : (int64_t)floor(x);
}

static void fetch(const struct sim_texture *t, const uint8_t *base, double x, double y, int integer,
                  int as_float, uint32_t out[4]) {
    uint32_t rows = t->height ? t->height : 1, u[4];
    float f[4];
    int wrap0 = t->wrap[0] && t->normalised, wrap1 = t->wrap[1] && t->normalised;
    if (integer && !t->height && !(x >= 0 && x < t->width)) { /* beside linear memory: zero */
        memset(out, 0, 4 * sizeof *out);
        return;
    }
    if (t->normalised && !integer) {
        x *= t->width;
        y *= rows;
    }
    if (!t->linear_filter || integer || !as_float) {
        texel(t, base, place(to_index(x), t->width, wrap0), place(to_index(y), rows, wrap1),
              as_float, f, u);
        memcpy(out, as_float ? (const void *)f : (const void *)u, 16);
        return;
    }
    double a = fixed_fraction(x - 0.5), b = t->height ? fixed_fraction(y - 0.5) : 0,
           sum[4] = {0, 0, 0, 0};
    int64_t i = to_index(x - 0.5), j = t->height ? to_index(y - 0.5) : 0;
    /* Measured on an H200: the product of both fractions is rounded to 8 bits too, and the four
     * weights are made from it so that they add up to 1. */
    const double both = floor(a * b * 256 + 0.5) / 256;
    const double weights[4] = {1 - a - b + both, a - both, b - both, both};
    for (int n = 0; n < (t->height ? 4 : 2); n++) {
        const double weight = weights[n];
        texel(t, base, place(i + (n & 1), t->width, wrap0), place(j + (n >> 1), rows, wrap1), 1, f,
              u);
        for (int c = 0; c < 4; c++)
            sum[c] += weight == 0 ? 0 : weight * (double)f[c];
    }
    for (int c = 0; c < 4; c++) {
        float value = (float)sum[c];
        memcpy(&out[c], &value, 4);
    }
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
        double x, y;
        if (in->vec) {
            float fx, fy;
            memcpy(&fx, regs + in->b + lane * 4, 4);
            memcpy(&fy, regs + in->c + lane * 4, 4);
            x = fx;
            y = fy;
        } else {
            int32_t ix, iy;
            memcpy(&ix, regs + in->b + lane * 4, 4);
            memcpy(&iy, regs + in->c + lane * 4, 4);
            x = ix;
            y = iy;
        }
        fetch(t, region->host + (t->address - region->base), x, in->sub == 2 ? y : 0, !in->vec,
              in->type == SIM_T_F32, out);
        for (int c = 0; c < 4; c++)
            memcpy(regs + slots[c] + lane * 4, &out[c], 4);
    }
    return 0;
}

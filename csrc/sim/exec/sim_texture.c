/* sim_texture.c: texture and surface objects, and fetches from linear memory, arrays, layers, cubes
 * and levels. Knows no mnemonic. */
#include "sim_texture.h"
#include "../observe/sim_observe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TEXTURE_BASE 0x7e00000000000000ull
#define SURFACE_BASE 0x7f00000000000000ull

const struct sim_texel_format sim_texel_formats[] = {{4, 0, 0},  {4, 0, 1},  {4, 0, 0}, {2, 0, 0},
                                                     {2, 15, 1}, {2, 16, 0}, {1, 7, 1}, {1, 8, 0}};

/* ---- objects ---- */

struct texture_extents {
    uint32_t of[3];
};

static struct texture_extents level_extents(const struct sim_texture *t, unsigned level) {
    struct texture_extents e = {{t->width >> level, t->height >> level, t->depth >> level}};
    for (int i = 0; i < 3; i++)
        e.of[i] += !e.of[i];
    return e;
}

static uint64_t level_bytes(const struct sim_texture *t, unsigned level) {
    const struct texture_extents e = level_extents(t, level);
    return (uint64_t)e.of[0] * e.of[1] * e.of[2] * t->layers * sim_texel_bytes(t);
}

static const char *malformed(const struct sim_texture *t) {
    const uint32_t most = t->width > t->height ? t->width : t->height;
    if ((unsigned)t->format > SIM_TEX_U8 || t->dimensions > 3 ||
        (t->channels != 1 && t->channels != 2 && t->channels != 4) || !t->width || !t->height ||
        !t->depth || !t->layers || t->width > 1u << 27 || t->height > 1u << 17 ||
        t->depth > 1u << 14 || t->layers > 1u << 14 || (t->dimensions < 2 && t->height > 1) ||
        (t->dimensions < 3 && t->depth > 1))
        return "a texture has 1, 2 or 4 channels of a known format, and extents";
    if ((t->layers > 1 && !t->layered && !t->cube) || (t->layered && t->dimensions == 3) ||
        (t->cube && (t->dimensions != 2 || t->width != t->height || t->layers % 6)))
        return "layers have 1 or 2 dimensions; a cube has six square ones";
    if (!t->levels || t->levels > 32 ||
        (t->levels > 1 && !((most > t->depth ? most : t->depth) >> (t->levels - 1))))
        return "a level of a texture has half the extents of the one before, down to 1";
    return NULL;
}

enum sim_status sim_texture_open(struct sim_gpu *gpu, const struct sim_texture *t, uint64_t *handle,
                                 uint64_t *surface, struct sim_error *error) {
    enum sim_status status = SIM_OK;
    const char *problem = malformed(t);
    uint64_t bytes = 0;
    *surface = 0;
    if (problem)
        return sim_fail(error, SIM_ARGUMENT, 0, 0, "%s", problem);
    for (unsigned level = 0; level < t->levels; level++)
        bytes += level_bytes(t, level);
    pthread_mutex_lock(&gpu->lock);
    struct sim_region *region = sim_memory_find(gpu, t->address);
    if (!region || bytes > region->bytes - (t->address - region->base)) {
        status = sim_fail(error, SIM_ARGUMENT, 0, 0, "the texture does not lie in one allocation");
    } else {
        struct sim_texture *grown =
            realloc(gpu->textures, (gpu->texture_count + 1) * sizeof *grown);
        if (grown) {
            gpu->textures = grown;
            grown[gpu->texture_count] = *t;
            *surface = t->writable ? SURFACE_BASE + gpu->texture_count : 0;
            *handle = TEXTURE_BASE + gpu->texture_count++;
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
    uint64_t index = handle - TEXTURE_BASE;
    if (index >= gpu->texture_count || !gpu->textures[index].channels)
        status =
            sim_fail(error, SIM_ARGUMENT, 0, 0, "0x%llx is no texture", (unsigned long long)handle);
    else
        gpu->textures[index].channels = 0; /* handles are not reused */
    pthread_mutex_unlock(&gpu->lock);
    return status;
}

/* Coordinates from 0 to 1; a cube's are so in any case. */
static int is_scaled(const struct sim_texture *t) { return t->normalised || t->cube; }

/* The open texture of a handle, or NULL. */
static const struct sim_texture *texture_of(const struct sim_gpu *gpu, uint64_t handle,
                                            uint64_t base) {
    const uint64_t index = handle - base;
    const struct sim_texture *t = index < gpu->texture_count ? &gpu->textures[index] : NULL;
    return t && t->channels && (base == TEXTURE_BASE || t->writable) ? t : NULL;
}

const struct sim_texture *sim_surface_of(const struct sim_gpu *gpu, uint64_t handle) {
    return texture_of(gpu, handle, SURFACE_BASE);
}

/* ---- texels ---- */

/* The lines of 128 bytes that a warp's fetch reads, for the caches. */
struct reads {
    const uint8_t *data; /* of the texture in simulated memory, and its address there */
    uint64_t address;
    uint32_t count;
    uint64_t lines[256];
    uint8_t sectors[256];
};

/* A texture as a fetch sees it: one level of one layer. */
struct plane {
    const struct sim_texture *t;
    const uint8_t *data;
    struct texture_extents size;
    int outside; /* as in struct sim_texture; wrapping and mirroring need normalized coordinates */
    int as_float, unscaled; /* unscaled: a fraction's integer, as a float */
    struct reads *reads;    /* NULL: not recorded */
};

static struct plane plane_of(const struct sim_texture *t, const uint8_t *data, unsigned level,
                             uint32_t layer, const struct fetch *f) {
    for (unsigned i = 0; i < level; i++)
        data += level_bytes(t, i);
    const int periodic = t->outside == SIM_TEX_WRAP || t->outside == SIM_TEX_MIRROR;
    return (struct plane){t,
                          data + layer * (level_bytes(t, level) / t->layers),
                          level_extents(t, level),
                          (int)(periodic && !is_scaled(t) ? SIM_TEX_CLAMP : t->outside),
                          f->as_float,
                          0,
                          f->reads};
}

static int64_t to_index(double x) {
    return !(x > -1e9) ? -1000000000 : x > 1e9 ? 1000000000 : (int64_t)floor(x);
}

/* The texel that a coordinate means; -1: the border. */
static int64_t inside(int64_t i, uint32_t size, int outside) {
    const int64_t n = size;
    if (i >= 0 && i < n)
        return i;
    switch (outside) {
    case SIM_TEX_WRAP:
        return (i % n + n) % n;
    case SIM_TEX_MIRROR:
        i = (i % (2 * n) + 2 * n) % (2 * n);
        return i < n ? i : 2 * n - 1 - i;
    case SIM_TEX_BORDER:
        return -1;
    default:
        return i < 0 ? 0 : n - 1;
    }
}

/* The integer that stands for 1. */
static float most_of(const struct sim_texture *t) {
    return (float)((1u << sim_texel_formats[t->format].fraction) - 1);
}

/* One channel, as a float's bits or an integer. */
static uint32_t channel(const struct plane *p, const uint8_t *from) {
    const unsigned format = p->t->format, bytes = sim_texel_formats[format].bytes;
    uint32_t raw = 0;
    float value;
    memcpy(&raw, from, bytes);
    if (sim_texel_formats[format].is_signed && bytes < 4)
        raw = (uint32_t)((int32_t)(raw << (32 - 8 * bytes)) >> (32 - 8 * bytes));
    if (format == SIM_TEX_F16) {
        value = (float)sim_half_value((uint16_t)raw);
    } else if (p->t->as_fraction && sim_texel_formats[format].fraction) {
        const float most = most_of(p->t),
                    given = sim_texel_formats[format].is_signed ? (float)(int32_t)raw : (float)raw;
        value = p->unscaled ? given : fmaxf(given / most, -1.0f);
    } else {
        return raw;
    }
    memcpy(&raw, &value, 4);
    return raw;
}

/* Arrays of two and three dimensions lie in tiles of 64 bytes by 8 rows; a sector has 16 bytes of
 * two rows (NVIDIA's Tegra X1 manual, "block linear"). The simulated memory's rows lie one after
 * the other, so this is the address that the caches see. */
static void note_texel(const struct plane *p, const uint64_t i[3]) {
    struct reads *r = p->reads;
    const uint64_t width = (uint64_t)p->size.of[0] * sim_texel_bytes(p->t),
                   x = i[0] * sim_texel_bytes(p->t);
    const uint64_t tiles = (width + 63) / 64, rows = ((uint64_t)p->size.of[1] + 7) / 8;
    const uint64_t inside_tile =
        x % 64 / 32 * 256 + i[1] % 8 / 2 * 64 + x % 32 / 16 * 32 + i[1] % 2 * 16 + x % 16;
    const uint64_t offset =
        p->t->dimensions < 2 ? x : ((i[2] * rows + i[1] / 8) * tiles + x / 64) * 512 + inside_tile;
    const uint64_t sector = (r->address + (uint64_t)(p->data - r->data) + offset) / SIM_SECTOR;
    uint32_t at = r->count;
    while (at > 0 && r->lines[at - 1] != sector / 4)
        at--;
    if (!at && r->count < sizeof r->sectors) {
        at = ++r->count;
        r->lines[at - 1] = sector / 4;
        r->sectors[at - 1] = 0;
    }
    if (at)
        r->sectors[at - 1] |= (uint8_t)(1u << (sector & 3));
}

static void texel(const struct plane *p, const int64_t at[3], uint32_t out[4]) {
    int64_t i[3];
    memset(out, 0, 4 * sizeof *out);
    for (int d = 0; d < 3; d++)
        i[d] = inside(at[d], p->size.of[d], p->outside);
    if (i[0] < 0 || i[1] < 0 || i[2] < 0) {
        for (unsigned c = 0; c < 4; c++)
            if (p->as_float) {
                const float color = p->t->border[c] * (p->unscaled ? most_of(p->t) : 1);
                memcpy(&out[c], &color, 4);
            } else
                out[c] = (uint32_t)to_index((double)p->t->border[c]);
        return;
    }
    if (p->reads)
        note_texel(p, (const uint64_t[3]){(uint64_t)i[0], (uint64_t)i[1], (uint64_t)i[2]});
    const uint64_t index =
        ((uint64_t)i[2] * p->size.of[1] + (uint64_t)i[1]) * p->size.of[0] + (uint64_t)i[0];
    for (unsigned c = 0; c < p->t->channels; c++)
        out[c] = channel(p, p->data + index * sim_texel_bytes(p->t) +
                                c * sim_texel_formats[p->t->format].bytes);
}

/* ---- filters ---- */

static uint32_t scaled(uint32_t x) { return (x + 128) / 256; }

/* Splits a level's weight among eight corners, in 256ths. Measured on an H100, exact there for two
 * dimensions and the first planes of three; between others single weights differ by one. */
static void weigh(uint32_t whole, int coarse, const uint32_t part[3], uint32_t weights[8]) {
    const uint32_t front = scaled(whole * (256 - part[2])),
                   back = coarse ? scaled(whole * part[2]) : whole - front;
    for (int z = 0; z < 2; z++) {
        const uint32_t plane = z ? back : whole - back, right = scaled(plane * part[0]),
                       left = plane - right;
        weights[4 * z + 3] = scaled(right * part[1]);
        weights[4 * z + 1] = right - weights[4 * z + 3];
        weights[4 * z] = scaled(left * (256 - part[1]));
        weights[4 * z + 2] = left - weights[4 * z];
    }
}

/* Adds one level's texel or mean of texels around a point, with a weight in 256ths. */
static void add_level(const struct plane *p, const double at[3], unsigned filters, uint32_t whole,
                      int coarse, double sum[4]) {
    uint32_t part[3], weights[8];
    int64_t low[3];
    for (unsigned i = 0; i < 3; i++) {
        const double x = i < filters ? at[i] - 0.5 : at[i];
        const uint32_t fixed = (uint32_t)((x - floor(x)) * 256 + 0.5);
        low[i] = to_index(x) + (i < filters ? fixed / 256 : 0);
        part[i] = i < filters ? fixed % 256 : 0;
    }
    weigh(whole, coarse, part, weights);
    for (unsigned n = 0; n < 1u << filters; n++) {
        int64_t corner[3];
        uint32_t bits[4];
        for (unsigned i = 0; i < 3; i++)
            corner[i] = low[i] + (n >> i & 1);
        texel(p, corner, bits);
        for (int c = 0; c < 4; c++) {
            float f;
            memcpy(&f, &bits[c], 4);
            sum[c] += weights[n] ? weights[n] / 256.0 * (double)f : 0;
        }
    }
}

/* Integers that stand for fractions are mixed as integers: an H100 makes 16 bits of the sum, a mean
 * in 256ths. All values measured there agree. */
static double as_fraction(const struct sim_texture *t, double mean) {
    const struct sim_texel_format *format = &sim_texel_formats[t->format];
    int64_t sum = (int64_t)floor(mean * 256 + 0.5);
    if (format->bytes == 1)
        sum = format->is_signed ? sum * 258 + (sum >> 12) * 32 : sum * 257;
    const double most = format->is_signed ? 32767 : 65535, value = (double)((sum + 128) >> 8);
    return (value < -most ? -most : value) / most;
}

/* The four texels that a linear filter would mix, one channel of each: from the lower left one
 * counterclockwise. */
static void gather(const struct plane *p, const double given[3], unsigned which, uint32_t out[4]) {
    static const uint8_t right[4] = {0, 1, 1, 0}, below[4] = {1, 1, 0, 0};
    int64_t low[3] = {0};
    for (int i = 0; i < 2; i++) {
        const double at = is_scaled(p->t) ? given[i] * p->size.of[i] : given[i];
        low[i] = to_index(at - 0.5);
    }
    for (int n = 0; n < 4; n++) {
        const int64_t at[3] = {low[0] + right[n], low[1] + below[n], 0};
        uint32_t all[4];
        texel(p, at, all);
        out[n] = all[which];
    }
}

/* ---- cubes and levels ---- */

/* A direction's face, and the coordinates on it (programming guide, "Cubemap Textures"). For a
 * gradient: the same of the change of the direction. */
struct face {
    uint32_t index;
    double s, t, m;
};

static struct face face_of(const double v[3], const double change[3]) {
    const double x = fabs(v[0]), y = fabs(v[1]), z = fabs(v[2]);
    /* equal ones: the last axis, as on an H100 */
    const int axis = z >= x && z >= y ? 2 : y >= x ? 1 : 0, minus = v[axis] < 0;
    const double *of = change ? change : v, sign = minus ? -1 : 1;
    static const int across[3] = {2, 0, 0}, down[3] = {1, 2, 1};
    const double s = axis == 0 ? -sign : axis == 1 ? 1 : sign, t = axis == 1 ? sign : -1;
    return (struct face){(uint32_t)(2 * axis + minus), s * of[across[axis]], t * of[down[axis]],
                         sign * of[axis]};
}

/* A face's coordinates from 0 to 1 replace the direction. */
static uint32_t project(double at[3]) {
    const struct face f = face_of(at, NULL);
    at[0] = f.m != 0 ? (f.s / f.m + 1) / 2 : 0.5;
    at[1] = f.m != 0 ? (f.t / f.m + 1) / 2 : 0.5;
    at[2] = 0;
    return f.index;
}

/* How far a gradient moves on the first level, in texels. */
static void texels_moved(const struct sim_texture *t, const double at[3], const double gradient[3],
                         double moved[3]) {
    const uint32_t size[3] = {t->width, t->height, t->depth};
    for (unsigned i = 0; i < 3; i++)
        moved[i] = i < t->dimensions ? gradient[i] : 0;
    if (t->cube) {
        const struct face f = face_of(at, NULL), g = face_of(at, gradient);
        moved[0] = (g.s * f.m - f.s * g.m) / (2 * f.m * f.m);
        moved[1] = (g.t * f.m - f.t * g.m) / (2 * f.m * f.m);
        moved[2] = 0;
    }
    for (unsigned i = 0; i < 3; i++)
        moved[i] *= size[i];
}

/* Cuts off a positive number's lower binary digits. */
static double cut(double x, int digits) {
    int exponent;
    const double fraction = frexp(x, &exponent);
    return ldexp(floor(ldexp(fraction, digits)), exponent - digits);
}

/* A vector's length as an H100 estimates it; of three dimensions not measured. */
static double length_of(const double v[3]) {
    double length = fabs(v[0]);
    for (int i = 1; i < 3; i++)
        length = fmax(length, fabs(v[i])) + 11.0 / 32 * fmin(length, fabs(v[i]));
    return cut(length, 11);
}

/* The level of two gradients in 256ths, as an H100 has it: its lengths of one axis are exact, of
 * two up to 5% of random ones are off by one or two. */
static int64_t level_of_gradients(double x[3], double y[3]) {
    double sum[3], difference[3];
    for (int i = 0; i < 3; i++) {
        x[i] = copysign(cut(fabs(x[i]), 10), x[i]);
        y[i] = copysign(cut(fabs(y[i]), 10), y[i]);
        sum[i] = x[i] + y[i];
        difference[i] = x[i] - y[i];
    }
    const double both = 11.0 / 16 * fmax(length_of(sum), length_of(difference)),
                 length = fmax(fmax(length_of(x), length_of(y)), both);
    if (!(length > 1e-9))
        return -30 * 256;
    if (!(length < 1e9))
        return 30 * 256;
    int exponent;
    const double digits = floor(frexp(length, &exponent) * 512); /* 256 to 511 */
    const int64_t part = (int64_t)(256 * log2((digits + 0.5) / 256) + 0.4695);
    return (exponent - 1) * 256 + (digits > 256 ? (part < 255 ? part : 255) : 0);
}

/* ---- fetches ---- */

static struct plane level_of(const struct sim_texture *t, const uint8_t *data, unsigned level,
                             uint32_t layer, const struct fetch *f, double at[3]) {
    const struct plane p = plane_of(t, data, level, layer, f);
    for (int i = 0; i < 3; i++)
        at[i] = is_scaled(t) && !f->integer ? f->at[i] * p.size.of[i] : f->at[i];
    return p;
}

static void fetch_levels(const struct sim_texture *t, const uint8_t *data, const struct fetch *f,
                         uint32_t layer, uint32_t out[4]) {
    const unsigned top = (t->levels - 1) * 256, level = f->level < top ? (unsigned)f->level : top,
                   low = (t->linear_levels ? level : level + 128) / 256,
                   filters = t->linear_filter && !f->integer && f->as_float ? t->dimensions : 0;
    const uint32_t part = t->linear_levels && f->as_float ? level % 256 : 0;
    double at[3], sum[4] = {0};
    struct plane fine = level_of(t, data, low, layer, f, at);
    if (!filters && !part) {
        const int64_t nearest[3] = {to_index(at[0]), to_index(at[1]), to_index(at[2])};
        texel(&fine, nearest, out);
        return;
    }
    fine.unscaled = t->as_fraction && sim_texel_formats[t->format].fraction;
    add_level(&fine, at, filters, 256 - part, 0, sum);
    if (part) {
        struct plane coarse = level_of(t, data, low + 1, layer, f, at);
        coarse.unscaled = fine.unscaled;
        add_level(&coarse, at, filters, part, 1, sum);
    }
    for (int c = 0; fine.unscaled && c < 4; c++)
        sum[c] = as_fraction(t, sum[c]);
    const float values[4] = {(float)sum[0], (float)sum[1], (float)sum[2], (float)sum[3]};
    memcpy(out, values, sizeof values);
}

static void fetch(const struct sim_texture *t, const uint8_t *data, struct fetch *f,
                  const struct sim_insn *in, uint32_t out[4]) {
    const int64_t layers = t->cube ? t->layers / 6 : t->layers;
    int64_t layer = (uint32_t)f->layer < layers ? f->layer : layers - 1; /* PTX: unsigned */
    if (!t->dimensions && !(f->at[0] >= 0 && f->at[0] < t->width)) {
        memset(out, 0, 4 * sizeof *out); /* outside linear memory */
        return;
    }
    /* an H100 cuts the level and its bias off to 8 bits */
    int64_t level = (int64_t)(fmin(fmax(f->given_level, -32), 32) * 256);
    if (in->sub == SIM_TEX_GRAD) {
        double x[3], y[3];
        texels_moved(t, f->at, f->gradient[0], x);
        texels_moved(t, f->at, f->gradient[1], y);
        level = level_of_gradients(x, y);
    }
    if (f->has_level)
        level += (int64_t)((double)t->level_bias * 256);
    f->level = level > 0 ? (uint32_t)level : 0;
    if (t->cube)
        layer = layer * 6 + project(f->at);
    if (in->sub == SIM_TEX_GATHER) {
        const struct plane p = plane_of(t, data, 0, (uint32_t)layer, f);
        gather(&p, f->at, (unsigned)in->imm, out);
        return;
    }
    fetch_levels(t, data, f, (uint32_t)layer, out);
}

/* Returns NULL if a fetch or a surface's access suits the texture, else a name of its kind. */
static const char *misfit(const struct sim_texture *t, const struct sim_insn *in) {
    static const char *const kinds[] = {"linear memory, which tex1Dfetch reads by integer index",
                                        "a 1-D array, which tex1D reads",
                                        "a 2-D array, which tex2D reads",
                                        "a 3-D array, which tex3D reads",
                                        "a layered 1-D array, which tex1DLayered reads",
                                        "a layered 2-D array, which tex2DLayered reads",
                                        "a cube, which texCubemap reads",
                                        "a layered cube, which texCubemapLayered reads"};
    const int layered = t->layered != 0,
              kind = t->cube ? SIM_GEOM_CUBE + layered
                             : (int)t->dimensions + (layered ? SIM_GEOM_A1D - 1 : 0);
    if (sim_is_surface(in)) {
        const int as_layers = t->cube ? SIM_GEOM_A2D : kind;
        return in->scope == as_layers ? NULL : kinds[kind];
    }
    if (!t->dimensions)
        return in->scope == SIM_GEOM_1D && !in->vec ? NULL : kinds[0];
    return in->scope == kind ? NULL : kinds[kind];
}

static double coordinate(const uint8_t *regs, uint32_t slot, uint32_t lane, int is_float) {
    float real;
    int32_t whole;
    if (slot == SIM_NO_SLOT)
        return 0;
    memcpy(&real, regs + slot + lane * 4, 4);
    memcpy(&whole, regs + slot + lane * 4, 4);
    return is_float ? (double)real : whole;
}

void sim_texture_read_lane(const uint8_t *regs, const uint32_t *slots, uint32_t lane,
                           const struct sim_insn *in, struct fetch *f) {
    *f = (struct fetch){.integer = !in->vec,
                        .as_float = sim_types[in->type].class == SIM_C_FLOAT ||
                                    sim_types[in->type].class == SIM_C_HALF};
    for (int i = 0; i < 3; i++) {
        f->at[i] = coordinate(regs, slots[SIM_TEX_X + i], lane, in->vec);
        f->gradient[0][i] = coordinate(regs, slots[SIM_TEX_DX + i], lane, in->vec);
        f->gradient[1][i] = coordinate(regs, slots[SIM_TEX_DY + i], lane, in->vec);
    }
    f->given_level = coordinate(regs, slots[SIM_TEX_LOD], lane, in->vec);
    f->has_level = slots[SIM_TEX_LOD] != SIM_NO_SLOT || in->sub == SIM_TEX_GRAD;
    f->layer = (int64_t)coordinate(regs, slots[SIM_TEX_LAYER], lane, 0);
}

static uint32_t answer(const struct sim_gpu *gpu, uint64_t handle, const struct sim_insn *in) {
    const struct sim_texture *t = texture_of(gpu, handle, TEXTURE_BASE),
                             *s = texture_of(gpu, handle, SURFACE_BASE);
    const struct sim_texture *any = t ? t : s;
    switch (in->imm) {
    case SIM_TEX_IS_TEXTURE:
        return t != NULL;
    case SIM_TEX_IS_SURFACE:
        return s != NULL;
    case SIM_TEX_IS_SAMPLER:
        return 0;
    case SIM_TEX_WIDTH:
        return any->width;
    case SIM_TEX_HEIGHT:
        return any->dimensions > 1 ? any->height : 0;
    case SIM_TEX_DEPTH:
        return any->dimensions > 2 ? any->depth : 0;
    case SIM_TEX_LAYERS:
        return any->layered ? (any->cube ? any->layers / 6 : any->layers) : 0;
    case SIM_TEX_LEVELS:
        return any->levels;
    default:
        return (uint32_t)any->normalised;
    }
}

/* ---- execution ---- */

/* Stores a lane's four values as registers of the instruction's type. */
static void store_texel(const struct sim_insn *in, const uint32_t *to, uint8_t *regs, uint32_t lane,
                        uint32_t out[4]) {
    const uint32_t bytes = in->type == SIM_T_F16 ? 2 : 4;
    const int half = in->sub != SIM_TEX_QUERY && sim_types[in->type].class == SIM_C_HALF;
    for (int c = 0; c < 4 && half; c++)
        out[c] = sim_half_nearest(out[c]);
    if (half && in->type == SIM_T_F16X2) {
        out[0] |= out[1] << 16;
        out[1] = out[2] | out[3] << 16;
    }
    for (int c = 0; c < 4; c++)
        if (to[c] != SIM_NO_SLOT)
            memcpy(regs + to[c] + lane * bytes, &out[c], bytes);
}

static int is_question(const struct sim_insn *in) {
    return in->sub == SIM_TEX_QUERY &&
           (in->imm == SIM_TEX_IS_TEXTURE || in->imm == SIM_TEX_IS_SURFACE ||
            in->imm == SIM_TEX_IS_SAMPLER);
}

const struct sim_texture *sim_texture_of_lane(struct sim_worker *w, const struct sim_warp *warp,
                                              const struct sim_insn *in, uint32_t lane,
                                              uint64_t handle, int *ends) {
    struct sim_gpu *gpu = w->run->gpu;
    const uint32_t pc = (uint32_t)(in - w->run->kernel->code);
    const int surface = sim_is_surface(in);
    const struct sim_texture *t = texture_of(gpu, handle, surface ? SURFACE_BASE : TEXTURE_BASE);
    const char *kind = t ? misfit(t, in) : NULL;
    *ends = 0;
    if (in->sub == SIM_TEX_QUERY) {
        t = t ? t : texture_of(gpu, handle, SURFACE_BASE);
        kind = NULL;
    }
    if (t && !kind && sim_memory_find(gpu, t->address))
        return t;
    if (kind)
        *ends = sim_find(w, warp, pc, lane, SIM_FIND_OUT_OF_BOUNDS, handle, NULL, "the %s is of %s",
                         surface ? "surface" : "texture", kind);
    else
        *ends = sim_find(w, warp, pc, lane, SIM_FIND_OUT_OF_BOUNDS, handle, NULL,
                         "0x%llx is no %s, or its memory was freed%s", (unsigned long long)handle,
                         surface ? "surface" : "texture",
                         surface && texture_of(gpu, handle, TEXTURE_BASE)
                             ? "; it is a texture: make it with writable=True and pass its .surface"
                             : "");
    return NULL;
}

/* The texels that a fetch without a filter reads, in an array that surfaces may write: a load, for
 * the race detector. */
static int note_reads(struct sim_request *l, const struct sim_texture *const *textures,
                      const struct fetch *fetches) {
    l->bytes = 0;
    for (uint32_t m = l->mask; m; m &= m - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(m);
        const struct sim_texture *t = textures[lane];
        const struct texture_extents size = level_extents(t, 0);
        int64_t at[3] = {0};
        if (!t->writable || t->levels > 1 || t->cube) {
            l->mask &= ~(1u << lane);
            continue;
        }
        for (unsigned i = 0; i < t->dimensions; i++) {
            const double x = fetches[lane].at[i];
            at[i] = inside(to_index(t->normalised ? x * size.of[i] : x), size.of[i], SIM_TEX_CLAMP);
        }
        const int64_t layer = inside(fetches[lane].layer, t->layers, SIM_TEX_CLAMP);
        l->bytes = sim_texel_bytes(t);
        l->address[lane] =
            t->address +
            ((((uint64_t)layer * size.of[2] + (uint64_t)at[2]) * size.of[1] + (uint64_t)at[1]) *
                 size.of[0] +
             (uint64_t)at[0]) *
                l->bytes;
    }
    if (!l->mask || !l->w->run->check_races)
        return 0;
    sim_request_measure(l);
    return sim_races_access(l->w, l->warp,
                            &(struct sim_access){.in = l->in,
                                                 .pc = l->pc,
                                                 .mask = l->mask,
                                                 .bytes = l->bytes,
                                                 .space = SIM_S_GLOBAL,
                                                 .kind = SIM_ACCESS_LOAD,
                                                 .least = l->span.least,
                                                 .most = l->span.most,
                                                 .address = l->address});
}

void sim_texture_request(struct sim_request *l, struct sim_worker *w, struct sim_warp *warp,
                         const struct sim_insn *in, uint32_t mask, uint8_t *regs) {
    sim_request_begin(l, w, warp, in, mask, regs, 0,
                      in->sub == SIM_TEX_SUST    ? SIM_ACCESS_STORE
                      : in->sub == SIM_TEX_SURED ? SIM_ACCESS_REDUCE
                                                 : SIM_ACCESS_LOAD);
    l->space = SIM_S_GLOBAL;
    l->moved = 1;
    l->span = (struct sim_span){0};
    memset(l->address, 0, sizeof l->address);
}

static void record_reads(struct sim_worker *w, const struct sim_warp *warp, uint32_t pc,
                         const struct reads *r) {
    for (uint32_t i = 0; i < r->count; i++) {
        w->pcs[pc].sectors += sim_lanes_in(r->sectors[i]);
        sim_caches_line(w, warp->index, pc, r->lines[i], r->sectors[i], i == 0);
    }
}

int sim_exec_texture(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                     uint32_t mask, uint8_t *regs) {
    const uint32_t *slots = &w->run->kernel->extra[in->e], *to = &w->run->kernel->extra[in->ext];
    const struct sim_texture *textures[SIM_LANES] = {0};
    struct fetch fetches[SIM_LANES];
    int any_writable = 0;
    struct reads reads;
    reads.count = 0;
    if (sim_is_surface(in))
        return sim_exec_surface(w, warp, in, mask, regs);
    w->pcs[in - w->run->kernel->code].requests += in->sub != SIM_TEX_QUERY;
    for (uint32_t m = mask; m; m &= m - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(m), out[4] = {0};
        const uint64_t handle = U64(in->a)[lane];
        int ends = 0;
        const struct sim_texture *t =
            is_question(in) ? NULL : sim_texture_of_lane(w, warp, in, lane, handle, &ends);
        if (ends)
            return 1;
        if (in->sub == SIM_TEX_QUERY && (t || is_question(in))) {
            out[0] = answer(w->run->gpu, handle, in);
        } else if (t) {
            const struct sim_region *region = sim_memory_find(w->run->gpu, t->address);
            reads.data = region->host + (t->address - region->base);
            reads.address = t->address;
            sim_texture_read_lane(regs, slots, lane, in, &fetches[lane]);
            fetches[lane].reads = w->run->caches ? &reads : NULL;
            any_writable |= t->writable;
            fetch(t, reads.data, &fetches[lane], in, out);
        }
        textures[lane] = t;
        if (is_question(in)) {
            PRED(in->dst) = (PRED(in->dst) & ~(1u << lane)) | out[0] << lane;
            continue;
        }
        store_texel(in, to, regs, lane, out);
        if (in->dst2 != SIM_NO_SLOT) /* the texel is resident */
            PRED(in->dst2) |= 1u << lane;
    }
    if (w->run->caches)
        record_reads(w, warp, (uint32_t)(in - w->run->kernel->code), &reads);
    if (SIM_LIKELY(!any_writable) || in->sub == SIM_TEX_QUERY)
        return 0;
    struct sim_request l;
    sim_texture_request(&l, w, warp, in, mask, regs);
    for (uint32_t m = mask; m; m &= m - 1)
        if (!textures[__builtin_ctz(m)])
            l.mask &= ~(m & -m);
    return note_reads(&l, textures, fetches);
}

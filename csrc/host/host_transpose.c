/* host_transpose.c: the transpose on the CPU, rungs `serial` and `openmp`. Its signatures are those
 * of transpose.cu: it moves bytes as well.
 */

#ifdef GPUOPT_RUNGS
/* clang-format off */
RUNG(-1, "serial", "host_transpose_serial",
     "two nested loops: every store is to another row",
     "D1 transpose cpu", 0, 0, 0, 0, RUNG_HOST, 0)
RUNG(-1, "openmp", "host_transpose_openmp",
     "tiles that fit the first-level cache, their rows spread over all cores",
     "D1 transpose cpu+omp", 0, 0, 0, 0, RUNG_HOST | RUNG_BEST, 0)
/* clang-format on */
#else

#include "host_kernels.h"

enum {
    TILE_BYTES = 128,         /* of a tile's row: two cache lines */
    POLL_ITEMS = 1 << 20,     /* moved between two polls, also where each misses every cache */
    PARALLEL_LEAST = 1 << 14, /* items */
};

/* A part of the input: rows from `top` to `bottom`, columns from `left` to `right`. */
struct part {
    const void *in;
    void *out;
    uint64_t rows, columns, top, bottom, left, right;
};

struct item16 {
    uint64_t low, high;
};

typedef uint8_t type_uint8;
typedef uint16_t type_uint16;
typedef uint32_t type_uint32;
typedef uint64_t type_uint64;
typedef struct item16 type_complex128;

#define MOVE(name)                                                                 \
    static void move_##name(const struct part *part) {                             \
        const type_##name *in = part->in;                                          \
        type_##name *restrict out = part->out;                                     \
        for (uint64_t row = part->top; row < part->bottom; row++)                  \
            for (uint64_t column = part->left; column < part->right; column++)     \
                out[column * part->rows + row] = in[row * part->columns + column]; \
    }
MOVE(uint8)
MOVE(uint16)
MOVE(uint32)
MOVE(uint64)
MOVE(complex128)

struct mover {
    void (*move)(const struct part *part);
    uint64_t tile; /* items of a tile's row */
};

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* The part tile by tile; a thread takes a strip of the part's longer side. */
static void move_tiles(const struct mover *mover, const struct part *part, int threads) {
    const uint64_t tile = mover->tile, height = part->bottom - part->top;
    const bool wide = part->right - part->left > height;
    const uint64_t length = wide ? part->right - part->left : height;
    const uint64_t strips = (length + tile - 1) / tile;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (uint64_t strip = 0; strip < strips; strip++) {
        struct part piece = *part;
        if (wide) {
            piece.left = part->left + strip * tile;
            piece.right = least(piece.left + tile, part->right);
        } else {
            piece.top = part->top + strip * tile;
            piece.bottom = least(piece.top + tile, part->bottom);
        }
        const uint64_t end = wide ? part->bottom : part->right;
        for (uint64_t at = wide ? part->top : part->left; at < end; at += tile) {
            if (wide) {
                piece.top = at;
                piece.bottom = least(at + tile, end);
            } else {
                piece.left = at;
                piece.right = least(at + tile, end);
            }
            mover->move(&piece);
        }
    }
}

/* Arguments as the kernels of transpose.cu: from, to, rows, columns. */
static enum status host_transpose(struct device *device, const struct host_kernel *kernel,
                                  void **arguments) {
    const struct mover *mover = kernel->data;
    struct part part = {
        .in = (const void *)(uintptr_t) * (const device_address *)arguments[0],
        .out = (void *)(uintptr_t) * (const device_address *)arguments[1],
        .rows = *(const uint64_t *)arguments[2],
        .columns = *(const uint64_t *)arguments[3],
    };
    const int threads = part.rows * part.columns < PARALLEL_LEAST ? 1 : host_threads();
    const uint64_t items = kernel->parallel ? (uint64_t)threads * POLL_ITEMS : POLL_ITEMS;
    const uint64_t width = least(part.columns, items);
    const uint64_t height = items / width; /* at least 1 */
    for (part.top = 0; part.top < part.rows; part.top = part.bottom) {
        part.bottom = least(part.top + height, part.rows);
        for (part.left = 0; part.left < part.columns; part.left = part.right) {
            part.right = least(part.left + width, part.columns);
            if (kernel->parallel)
                move_tiles(mover, &part, threads);
            else
                mover->move(&part);
            const enum status status = device_poll(device);
            if (status)
                return status;
        }
    }
    return STATUS_OK;
}

#define MOVER(name) \
    static const struct mover mover_##name = {move_##name, TILE_BYTES / sizeof(type_##name)};
MOVER(uint8)
MOVER(uint16)
MOVER(uint32)
MOVER(uint64)
MOVER(complex128)

#define KERNEL_ROWS(name)                                                                  \
    {"host_transpose_serial_move_" #name "_" #name, host_transpose, &mover_##name, false}, \
        {"host_transpose_openmp_move_" #name "_" #name, host_transpose, &mover_##name, true},

const struct host_kernel host_transpose_kernels[] = {KERNEL_ROWS(uint8) KERNEL_ROWS(
    uint16) KERNEL_ROWS(uint32) KERNEL_ROWS(uint64) KERNEL_ROWS(complex128)};
const size_t host_transpose_kernel_count =
    sizeof host_transpose_kernels / sizeof *host_transpose_kernels;

#endif

/* cpu_transpose.c: the transpose on the CPU, rungs `serial`, `openmp` and `simd`. Its signatures
 * are those of transpose.cu: it moves bytes, too. Any axes form a batch of matrices, whose rows may
 * be strided, or rows that are copied whole. Knows no Python.
 */

#ifdef GPUOPT_RUNGS
/* clang-format off */
RUNG(-1, "serial", "cpu_transpose_serial",
     "two nested loops: every store is to another row",
     "D1 transpose cpu: its loops on one core", 0, 0, 0, 0, RUNG_HOST, 0)
RUNG(-1, "openmp", "cpu_transpose_openmp",
     "tiles that fit the L1 cache, split over all cores",
     "D1 transpose cpu+omp (4.9 GB/s on the slide with the code), here in tiles", 0, 0, 0, 0,
     RUNG_HOST | RUNG_DECK_RATE, 13.9)
RUNG(-1, "simd", "cpu_transpose_simd",
     "tiles transposed in vector registers; streaming stores for results that exceed the caches",
     "beyond the decks", 0, 0, 0, 0, RUNG_HOST | RUNG_BEST, 0)
/* clang-format on */
#else

#include "../../host/host_stream.h"
#include "cpu_gather.h"
#include "cpu_kernels.h"
#include "cpu_machine.h"
#include "cpu_team.h"
#include "cpu_transpose_gather.h"
#include "cpu_transpose_turn.h"

enum {
    TILE_BYTES = 128,     /* of a tile's row: two cache lines */
    POLL_ITEMS = 1 << 20, /* moved between two polls, even if each misses every cache */
    SMALL = 1 << 14,      /* elements of matrices that a thread processes whole */
    BYTES_PER_NS = 6,     /* of a matrix by one thread, estimated, */
    ITEMS_PER_NS = 2,     /* or this many elements, if that is faster */
    TINY = 64,            /* elements of a tiny matrix, at most, */
    TINY_BYTES = 384,     /* or bytes of one without a whole patch */
    ALIASED = 512,     /* rows a multiple of this apart share few sets of the first-level cache */
    FEW_ROWS = 4,      /* fewer do not repay the padding to a patch; */
    FEW_BYTE_ROWS = 8, /* nor do these, of 1 or 2 bytes */
    BLOCK = 1024,      /* bytes of both sides of a block: as many pages as the TLB holds */
    LONGER = 4,        /* times, rows of a block that is stored without a buffer, */
    APART_BYTES = 1 << 20, /* if the array is not in the second-level cache */
    FLAT_WIDE = 4 * WIDE,  /* of input rows that are turned at a time without a buffer */
    SETS_BYTES = 4096,     /* between addresses that share a set of the first-level cache, */
    SET_LINES = 12,        /* and as many lines of a set as are stored without loss */
    FAR_BYTES = 1 << 22,   /* of a matrix from which on elements of 16 bytes go column by column, */
    FAR_ROWS = 40,         /* if it has fewer rows: they are read side by side, as prefetched */
};

struct item16 {
    uint64_t low, high;
};

typedef uint8_t type_uint8;
typedef uint16_t type_uint16;
typedef uint32_t type_uint32;
typedef uint64_t type_uint64;
typedef struct item16 type_complex128;

/* `swap` transposes a part of a square matrix in place: elements right of the diagonal.
 * `gather` reads elements from any address. */
#define MOVE(name)                                                                                \
    static void move_##name(const struct submatrix *part) {                                       \
        const type_##name *in = part->in;                                                         \
        type_##name *restrict out = part->out;                                                    \
        const uint64_t rows = part->bottom - part->top, columns = part->right - part->left;       \
        if (rows * sizeof *in >= HOST_LINE || rows > columns) {                                   \
            for (uint64_t column = part->left; column < part->right; column++)                    \
                for (uint64_t row = part->top; row < part->bottom; row++)                         \
                    out[column * part->out_pitch + row] =                                         \
                        in[row * part->in_pitch + column * part->in_step];                        \
            return;                                                                               \
        }                                                                                         \
        for (uint64_t row = part->top; row < part->bottom; row++)                                 \
            for (uint64_t column = part->left; column < part->right; column++)                    \
                out[column * part->out_pitch + row] =                                             \
                    in[row * part->in_pitch + column * part->in_step];                            \
    }                                                                                             \
    static void swap_##name(const struct submatrix *part) {                                       \
        type_##name *items = part->out;                                                           \
        for (uint64_t row = part->top; row < part->bottom; row++)                                 \
            for (uint64_t column = part->left > row ? part->left : row + 1; column < part->right; \
                 column++) {                                                                      \
                type_##name *a = &items[row * part->in_pitch + column];                           \
                type_##name *b = &items[column * part->in_pitch + row];                           \
                const type_##name item = *a;                                                      \
                *a = *b;                                                                          \
                *b = item;                                                                        \
            }                                                                                     \
    }                                                                                             \
    static void gather_##name(const void *in, const uint64_t *from, void *to, uint64_t count) {   \
        const type_##name *items = in;                                                            \
        type_##name *restrict out = to;                                                           \
        uint64_t k = 0;                                                                           \
        for (; k + 4 <= count; k += 4) {                                                          \
            const type_##name a = items[from[k]], b = items[from[k + 1]];                         \
            const type_##name c = items[from[k + 2]], d = items[from[k + 3]];                     \
            out[k] = a;                                                                           \
            out[k + 1] = b;                                                                       \
            out[k + 2] = c;                                                                       \
            out[k + 3] = d;                                                                       \
        }                                                                                         \
        for (; k < count; k++)                                                                    \
            out[k] = items[from[k]];                                                              \
    }
MOVE(uint8)
MOVE(uint16)
MOVE(uint32)
MOVE(uint64)
MOVE(complex128)

/* --- copied rows: contiguous in the output */

struct copies {
    const struct transpose_call *call;
    uint64_t rows, bytes, pieces; /* of a row */
    uint64_t rows_a_task;
};

static void copy_rows(const void *state, uint64_t task, struct cpu_worker *worker) {
    (void)worker;
    const struct copies *copies = state;
    const struct transpose_call *call = copies->call;
    const struct transpose_axis *axes = call->plan->axes;
    const uint64_t bytes = copies->bytes, size = call->mover->size;
    const uint64_t skipped = task % copies->pieces * TASK_BYTES;
    const uint64_t length = copies->pieces == 1 ? bytes : min_u64(TASK_BYTES, bytes - skipped);
    const uint64_t first = task / copies->pieces * copies->rows_a_task;
    const uint64_t end = min_u64(first + copies->rows_a_task, copies->rows);
    const uint64_t along = call->plan->grid_axes ? axes[0].extent : 1;
    const uint64_t step = call->plan->grid_axes ? axes[0].in * size : 0;
    const uint64_t item_step = call->plan->item_step;
    const char *in_end = call->in + call->plan->reach * size;
    struct matrices at = {.at = {0}};
    first_matrix(&at, call, first);
    for (uint64_t row = first, count; row < end; next_matrix(&at, count)) {
        count = min_u64(end - row, along - at.at[0]);
        const uint64_t stop = row + count;
        const char *in = at.part.in;
        if (item_step != 1) {
            gather(call->out + row * bytes + skipped, in + skipped * item_step, size, count,
                   length / size, (int64_t)axes[0].in, (int64_t)item_step);
            row = stop;
            continue;
        }
        const uint64_t done = copy_short(in, in_end, step, call->out + row * bytes,
                                         call->out + end * bytes, bytes, stop - row);
        row += done, in += done * step;
        for (; row < stop; row++, in += step)
            memcpy(call->out + row * bytes + skipped, in + skipped, length);
    }
}

static int threads_for(const struct transpose_call *call) {
    const double items = (double)call->plan->items, bytes = items * (double)call->mover->size;
    const double narrow = bytes / BYTES_PER_NS, wide = items / ITEMS_PER_NS;
    return cpu_team_threads(narrow < wide ? narrow : wide);
}

static enum status cpu_copy(struct device *device, const struct transpose_call *call,
                            bool parallel) {
    const uint64_t bytes = call->plan->columns * call->mover->size;
    const struct copies copies = {
        .call = call,
        .rows = call->matrices,
        .bytes = bytes,
        .pieces = ceil_div(bytes, TASK_BYTES),
        .rows_a_task = max_u64(1, TASK_BYTES / bytes),
    };
    const uint64_t tasks = ceil_div(copies.rows, copies.rows_a_task) * copies.pieces;
    return cpu_team_run(device, parallel ? threads_for(call) : 1, tasks, copy_rows, &copies);
}

/* --- square matrices in place: a task is a row of tiles, and its mirror column */

static void swap_tiles(const void *state, uint64_t task, struct cpu_worker *worker) {
    (void)worker;
    const struct transpose_call *call = state;
    const uint64_t side = call->plan->rows, tile = call->mover->tile;
    const uint64_t tasks = ceil_div(side, tile); /* of a matrix */
    struct submatrix part = matrix_at(call, task / tasks);
    part.top = task % tasks * tile;
    part.bottom = min_u64(part.top + tile, side);
    for (part.left = part.top; part.left < side; part.left = part.right) {
        part.right = min_u64(part.left + tile, side);
        call->mover->swap(&part);
    }
}

static enum status cpu_swap(struct device *device, const struct transpose_call *call,
                            bool parallel) {
    const uint64_t tasks = call->matrices * ceil_div(call->plan->rows, call->mover->tile);
    return cpu_team_run(device, parallel ? threads_for(call) : 1, tasks, swap_tiles, call);
}

/* --- the rungs `serial` and `openmp` */

/* Moves the part tile by tile; a thread takes a strip of the part's longer side. */
static void move_tiles(const struct mover *mover, const struct submatrix *part, int threads) {
    const uint64_t tile = mover->tile, height = part->bottom - part->top;
    const bool wide = part->right - part->left > height;
    const uint64_t length = wide ? part->right - part->left : height;
    const uint64_t strips = ceil_div(length, tile);
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (uint64_t strip = 0; strip < strips; strip++) {
        struct submatrix piece = *part;
        if (wide) {
            piece.left = part->left + strip * tile;
            piece.right = min_u64(piece.left + tile, part->right);
        } else {
            piece.top = part->top + strip * tile;
            piece.bottom = min_u64(piece.top + tile, part->bottom);
        }
        const uint64_t end = wide ? part->bottom : part->right;
        for (uint64_t at = wide ? part->top : part->left; at < end; at += tile) {
            if (wide) {
                piece.top = at;
                piece.bottom = min_u64(at + tile, end);
            } else {
                piece.left = at;
                piece.right = min_u64(at + tile, end);
            }
            mover->move(&piece);
        }
    }
}

/* Moves one matrix, with polls in between. */
static enum status move_matrix(struct device *device, const struct mover *mover,
                               const struct submatrix *matrix, bool parallel, int threads) {
    struct submatrix part = *matrix;
    const uint64_t rows = matrix->bottom, columns = matrix->right;
    const uint64_t items = parallel ? (uint64_t)threads * POLL_ITEMS : POLL_ITEMS;
    const uint64_t width = min_u64(columns, items);
    const uint64_t height = items / width; /* at least 1 */
    for (part.top = 0; part.top < rows; part.top = part.bottom) {
        part.bottom = min_u64(part.top + height, rows);
        for (part.left = 0; part.left < columns; part.left = part.right) {
            part.right = min_u64(part.left + width, columns);
            if (parallel)
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

static enum status cpu_transpose(struct device *device, const struct cpu_kernel *kernel,
                                 void **arguments) {
    const struct mover *mover = kernel->data;
    const struct transpose_call call = call_of(mover, arguments);
    const uint64_t items = call.plan->rows * call.plan->columns; /* of a matrix */
    const int threads = kernel->parallel ? threads_for(&call) : 1;
    if (call.plan->shape == TRANSPOSE_ROWS)
        return cpu_copy(device, &call, kernel->parallel);
    if (call.plan->in_place)
        return cpu_swap(device, &call, kernel->parallel);
    enum status status = STATUS_OK;
    if (items > SMALL || call.matrices == 1) {
        for (uint64_t k = 0; k < call.matrices && !status; k++) {
            const struct submatrix part = matrix_at(&call, k);
            status = move_matrix(device, mover, &part, kernel->parallel, threads);
        }
        return status;
    }
    const uint64_t at_once = (uint64_t)threads * POLL_ITEMS / items; /* small matrices */
    for (uint64_t k = 0; k < call.matrices && !status; k += at_once) {
        const uint64_t end = min_u64(k + at_once, call.matrices);
#pragma omp parallel for num_threads(threads) if (threads > 1)
        for (uint64_t index = k; index < end; index++) {
            const struct submatrix part = matrix_at(&call, index);
            mover->move(&part);
        }
        status = device_poll(device);
    }
    return status;
}

/* --- the rung `simd`
 *
 * A block is one thread's task; its tiles are transposed patch by patch into a buffer in the
 * first-level cache, whose rows then go to memory as whole cache lines.
 */

struct turner {
    struct mover mover; /* the fallback; first, so that this struct is a mover too */
    turn_function *turn[CPU_ISA_COUNT];
};

struct blocks {
    const struct turner *turner;
    struct transpose_call call;
    uint64_t tall, wide, across; /* rows and columns of a block; blocks side by side */
    uint64_t first;              /* rows of the uppermost blocks: the others begin on a line */
    uint64_t a_matrix;           /* blocks */
    uint64_t together;           /* matrices in a task, if each is one block */
    bool stream;
    bool direct; /* without the buffer: elements are patches, and rows apart in the cache */
    bool flat;   /* without the buffer: patches are stored one by one (TUNING.md C17) */
    bool narrow; /* no whole patch in a matrix, and rows shorter than a line */
    /* Columns of a matrix, after which those of the next follow, fold_step later in the output. */
    uint64_t fold, fold_step;
    deal_function *deal; /* of a narrow matrix, or the other one; else NULL */
    mesh_function *mesh;
    struct shuffles shuffles;
};

static void prefetch_tile(const char *in, uint64_t row, uint64_t rows) {
    for (uint64_t r = 0; r < rows; r++)
        __builtin_prefetch(in + r * row);
}

/* The last vector of a row shorter than two lines overlaps those before. */
static void put(const struct blocks *blocks, char *out, const char *from, uint64_t bytes) {
    if (blocks->stream) {
        host_stream(out, from, bytes);
    } else if (bytes < 8 || bytes >= 2 * HOST_LINE) {
        memcpy(out, from, bytes);
    } else if (bytes < PATCH_SIDE) {
        memcpy(out, from, 8);
        memcpy(out + bytes - 8, from + bytes - 8, 8);
    } else {
        for (uint64_t at = 0; at + PATCH_SIDE <= bytes; at += PATCH_SIDE)
            memcpy(out + at, from + at, PATCH_SIDE);
        memcpy(out + bytes - PATCH_SIDE, from + bytes - PATCH_SIDE, PATCH_SIDE);
    }
}

/* Part of a matrix of a few rows, whose columns are contiguous in the output. */
static void mesh_block(const struct blocks *blocks, const struct submatrix *block) {
    const uint64_t size = blocks->turner->mover.size, planes = block->bottom;
    const uint64_t row = block->in_pitch * size;
    _Alignas(HOST_LINE) char buffer[WIDE * TALL];
    const uint64_t wide = sizeof buffer / (planes * size) / HOST_LINE * HOST_LINE;
    for (uint64_t left = block->left; left < block->right; left += wide) {
        const uint64_t columns = min_u64(wide, block->right - left);
        const char *in = (const char *)block->in + left * size;
        const uint64_t done =
            blocks->mesh(&blocks->shuffles, planes, columns * size / 16, in, row, buffer) * 16 /
            size;
        const struct submatrix rest = {in,     buffer, block->in_pitch, 1, planes, 0,
                                       planes, done,   columns};
        blocks->turner->mover.move(&rest);
        put(blocks, (char *)block->out + left * planes * size, buffer, columns * planes * size);
    }
}

/* Makes adjacent narrow matrices, whose rows are contiguous in the input, one of more columns:
 * tiles are then wider than a matrix. */
static void fold_columns(struct blocks *blocks, struct transpose_plan *folded) {
    const struct transpose_plan *plan = blocks->call.plan;
    const uint64_t size = blocks->turner->mover.size;
    unsigned k = 0;
    blocks->fold = plan->columns;
    blocks->fold_step = 0;
    while (k < plan->grid_axes && plan->axes[k].in != plan->columns)
        k++;
    if (k == plan->grid_axes || plan->item_step != 1 || plan->columns * size >= PATCH_SIDE ||
        plan->columns * plan->axes[k].extent * size < PATCH_SIDE || plan->rows < FEW_BYTE_ROWS)
        return;
    *folded = *plan;
    folded->columns *= plan->axes[k].extent;
    folded->grid_axes--;
    memmove(folded->axes + k, folded->axes + k + 1, (folded->grid_axes - k) * sizeof *folded->axes);
    blocks->fold_step = plan->axes[k].out;
    blocks->call.plan = folded;
    blocks->call.matrices /= plan->axes[k].extent;
}

/* Turns a tile into the buffer by whole patches, where it has room for one: missing rows are padded
 * with anything, missing columns are those that follow, up to `end`. */
static void turn_tile(turn_function *turn, const char *in, const char *end, uint64_t in_row,
                      uint64_t rows, uint64_t columns, uint64_t size, char *buffer) {
    const uint64_t side = PATCH_SIDE / size;
    char padded[PATCH_SIDE * WIDE];
    if (!rows)
        return;
    if (columns < side && rows >= side && in + (rows - 1) * in_row + PATCH_SIDE <= end) {
        columns = side;
    } else if (rows < side && columns >= side) {
        for (uint64_t row = 0; row < side; row++)
            memcpy(padded + row * WIDE, in + min_u64(row, rows - 1) * in_row, columns * size);
        in = padded;
        in_row = WIDE;
        rows = side;
    }
    turn(in, in_row, rows, columns, buffer, TALL);
}

/* Patch by patch, to the output's rows. */
static void turn_flat(const struct blocks *blocks, const struct submatrix *block) {
    const uint64_t size = blocks->turner->mover.size, step = FLAT_WIDE / size;
    const uint64_t in_row = block->in_pitch * size, out_row = block->out_pitch * size;
    const char *in = (const char *)block->in + block->top * in_row;
    char *out = (char *)block->out + block->top * size;
    for (uint64_t left = block->left; left < block->right; left += step)
        blocks->turner->turn[cpu_isa()](in + left * size, in_row, block->bottom - block->top,
                                        min_u64(step, block->right - left), out + left * out_row,
                                        out_row);
}

/* Tile by tile, along the rows of the input. */
static void turn_block(const struct blocks *blocks, const struct submatrix *block) {
    const struct turner *turner = blocks->turner;
    turn_function *const turn = turner->turn[cpu_isa()];
    const uint64_t size = turner->mover.size, tall = TALL / size, wide = WIDE / size;
    const uint64_t in_row = block->in_pitch * size, out_row = block->out_pitch * size;
    const char *end = blocks->call.in + blocks->call.plan->reach * size;
    _Alignas(HOST_LINE) char buffer[WIDE * TALL];
    for (uint64_t top = block->top; top < block->bottom; top += tall)
        for (uint64_t left = block->left; left < block->right; left += wide) {
            const uint64_t rows = min_u64(tall, block->bottom - top);
            const uint64_t columns = min_u64(wide, block->right - left);
            const char *in = (const char *)block->in + top * in_row + left * size;
            char *out = (char *)block->out + left / blocks->fold * blocks->fold_step * size +
                        left % blocks->fold * out_row + top * size;
            uint64_t folded = left % blocks->fold;
            if (left + wide < block->right)
                prefetch_tile(in + WIDE, in_row, rows);
            const uint64_t dealt = blocks->deal ? blocks->deal(&blocks->shuffles, columns,
                                                               rows * size / 16, in, buffer)
                                                : 0;
            const uint64_t done = dealt * 16 / size;
            turn_tile(turn, in + done * in_row, end, in_row, rows - done, columns, size,
                      buffer + done * size);
            for (uint64_t c = 0; c < columns; c++) {
                if (rows * size == TALL && !blocks->stream)
                    memcpy(out, buffer + c * TALL, TALL);
                else
                    put(blocks, out, buffer + c * TALL, rows * size);
                out += out_row;
                if (++folded == blocks->fold) {
                    folded = 0;
                    out += (int64_t)(blocks->fold_step * size) - (int64_t)(blocks->fold * out_row);
                }
            }
        }
}

/* In place: a tile of TALL bytes on both sides, and its mirror image, each into a buffer and from
 * there to the other's place. */
struct square {
    const struct turner *turner;
    struct transpose_call call;
};

static void turn_square(turn_function *turn, const char *in, uint64_t pitch, uint64_t rows,
                        uint64_t columns, uint64_t size, char *buffer) {
    const uint64_t wide = WIDE / size;
    for (uint64_t left = 0; left < columns; left += wide)
        turn(in + left * size, pitch, rows, min_u64(wide, columns - left), buffer + left * TALL,
             TALL);
}

static void square_task(const void *state, uint64_t task, struct cpu_worker *worker) {
    (void)worker;
    const struct square *square = state;
    const uint64_t size = square->turner->mover.size, side = square->call.plan->rows;
    const uint64_t tile = TALL / size, tasks = ceil_div(side, tile); /* of a matrix */
    const struct submatrix part = matrix_at(&square->call, task / tasks);
    const uint64_t pitch = part.in_pitch * size, top = task % tasks * tile;
    const uint64_t rows = min_u64(tile, side - top);
    turn_function *const turn = square->turner->turn[cpu_isa()];
    const uint64_t wide = WIDE / size;
    _Alignas(HOST_LINE) char upper[TALL * TALL], strip[WIDE * TALL];
    for (uint64_t left = top; left < side; left += tile) {
        const uint64_t columns = min_u64(tile, side - left);
        char *a = (char *)part.out + top * pitch + left * size;
        char *b = (char *)part.out + left * pitch + top * size;
        turn_square(turn, a, pitch, rows, columns, size, upper);
        for (uint64_t row = 0; row < rows && a != b; row += wide) {
            const uint64_t count = min_u64(wide, rows - row);
            turn(b + row * size, pitch, columns, count, strip, TALL);
            for (uint64_t r = 0; r < count; r++)
                memcpy(a + (row + r) * pitch, strip + r * TALL, columns * size);
        }
        for (uint64_t c = 0; c < columns; c++)
            memcpy(b + c * pitch, upper + c * TALL, rows * size);
    }
}

static void block_task(const void *state, uint64_t task, struct cpu_worker *worker) {
    (void)worker;
    const struct blocks *blocks = state;
    const struct transpose_plan *plan = blocks->call.plan;
    const uint64_t first = task / blocks->a_matrix * blocks->together;
    const uint64_t end = min_u64(first + blocks->together, blocks->call.matrices);
    const uint64_t at = task % blocks->a_matrix, down = at / blocks->across;
    struct matrices matrices;
    first_matrix(&matrices, &blocks->call, first);
    for (uint64_t matrix = first; matrix < end; matrix++, next_matrix(&matrices, 1)) {
        struct submatrix block = matrices.part;
        block.top = down ? blocks->first + (down - 1) * blocks->tall : 0;
        block.bottom = min_u64(down ? block.top + blocks->tall : blocks->first, plan->rows);
        block.left = at % blocks->across * blocks->wide;
        block.right = min_u64(block.left + blocks->wide, plan->columns);
        if (blocks->mesh)
            mesh_block(blocks, &block);
        else if (blocks->flat)
            turn_flat(blocks, &block);
        else if (blocks->narrow || blocks->direct || block.in_step != 1)
            blocks->turner->mover.move(&block);
        else
            turn_block(blocks, &block);
    }
    if (blocks->stream)
        host_stream_end();
}

/* A matrix of few short rows: gathers its elements, if they can be planned. Not inlined: the 27 KB
 * of a plan would lie on the stack below the other tasks' buffers. */
__attribute__((noinline)) static bool gather_all(struct device *device,
                                                 const struct transpose_call *call, int threads,
                                                 enum status *status) {
    struct gathers gathers; /* large, so not cleared: find_gathers fills it in */
    gathers.call = call;
    if (!find_gathers(&gathers))
        return false;
    *status = cpu_team_run(device, threads, ceil_div(gathers.tiles, gathers.together), gather_task,
                           &gathers);
    return true;
}

/* Whether the output rows that patches are stored to share few sets of the cache. */
static bool crowds(const struct transpose_plan *plan, uint64_t size) {
    const uint64_t pitch = plan->out_pitch * size | SETS_BYTES;
    const uint64_t lines = min_u64(plan->columns, FLAT_WIDE / size);
    return lines * (pitch & -pitch) > SET_LINES * SETS_BYTES;
}

static enum status cpu_transpose_simd(struct device *device, const struct cpu_kernel *kernel,
                                      void **arguments) {
    const struct turner *turner = kernel->data;
    struct blocks blocks = {.turner = turner, .call = call_of(&turner->mover, arguments)};
    struct transpose_plan folded;
    const struct transpose_plan *plan = blocks.call.plan;
    const uint64_t size = turner->mover.size, side = BLOCK / size;
    const uint64_t skew = (uintptr_t)blocks.call.out % HOST_LINE;
    const int threads = threads_for(&blocks.call);
    if (plan->shape == TRANSPOSE_ROWS)
        return cpu_copy(device, &blocks.call, true);
    if (plan->in_place) {
        const struct square square = {turner, blocks.call};
        const uint64_t squares = blocks.call.matrices * ceil_div(plan->rows, TALL / size);
        return cpu_team_run(device, threads, squares, square_task, &square);
    }
    enum status status;
    fold_columns(&blocks, &folded);
    plan = blocks.call.plan;
    const uint64_t rows = plan->rows, columns = plan->columns;
    blocks.stream = cpu_streams(plan->items * size);
    const bool strided = plan->item_step != 1;
    blocks.narrow = rows * size < HOST_LINE &&
                    (size == PATCH_SIDE || rows < (size <= 2 ? FEW_BYTE_ROWS : FEW_ROWS) ||
                     max_u64(rows, columns) * size < PATCH_SIDE);
    blocks.direct = size == PATCH_SIDE && !blocks.stream &&
                    (rows < FAR_ROWS || plan->in_pitch * size % ALIASED);
    const bool unpatched = min_u64(rows, columns) * size < PATCH_SIDE;
    blocks.flat = !strided && !blocks.narrow && !blocks.stream && !blocks.fold_step && !unpatched &&
                  !crowds(plan, size) &&
                  (!blocks.direct || rows >= FAR_ROWS || rows * columns * size < FAR_BYTES);
    const bool apart = plan->items * size >= APART_BYTES && rows > side;
    const uint64_t longer = blocks.direct && apart ? LONGER : 1;
    blocks.wide = side * (side / min_u64(side, rows)) / longer;
    blocks.tall = side * (side / min_u64(side, columns)) * longer;
    blocks.across = (columns - 1) / blocks.wide + 1;
    blocks.first = blocks.tall + (skew % size ? 0 : (HOST_LINE - skew) % HOST_LINE / size);
    /* For wider elements, and for more planes, the loops over elements are as fast. */
    if (!strided && columns > 1 && columns <= PLANES && columns * size <= PATCH_SIDE &&
        plan->in_pitch == columns && rows * size >= HOST_LINE)
        blocks.deal = deals[cpu_isa()];
    else if (!strided && rows > 1 && rows <= PLANES && size <= 2 && plan->out_pitch == rows &&
             columns * size >= HOST_LINE && !blocks.fold_step)
        blocks.mesh = meshes[cpu_isa()];
    if (blocks.deal || blocks.mesh)
        find_shuffles(&blocks.shuffles, blocks.deal ? columns : rows, size, !blocks.deal);
    const uint64_t down = rows <= blocks.first ? 1 : (rows - blocks.first - 1) / blocks.tall + 2;
    blocks.a_matrix = down * blocks.across;
    blocks.together = blocks.a_matrix > 1 ? 1 : max_u64(1, TASK_BYTES / (rows * columns * size));
    const uint64_t tasks = ceil_div(blocks.call.matrices, blocks.together) * blocks.a_matrix;
    if (!blocks.mesh && !blocks.fold_step &&
        (strided || blocks.narrow || rows * columns <= TINY ||
         (unpatched && rows * columns * size <= TINY_BYTES)) &&
        gather_all(device, &blocks.call, threads, &status))
        return status;
    return cpu_team_run(device, threads, tasks, block_task, &blocks);
}

/* --- kernels */

#define TURN_NAME(isa, target, vector, prefix, here, bits) turn_##bits##_##isa,
#define MOVER(name, bits)                                                                 \
    static const struct turner turner_##name = {{move_##name, swap_##name, gather_##name, \
                                                 TILE_BYTES / sizeof(type_##name),        \
                                                 sizeof(type_##name)},                    \
                                                {CPU_ISAS(TURN_NAME, bits)}};
MOVER(uint8, 8)
MOVER(uint16, 16)
MOVER(uint32, 32)
MOVER(uint64, 64)
MOVER(complex128, 128)

turn_function *cpu_turn(size_t size) {
    const struct turner *turner = size == 1   ? &turner_uint8
                                  : size == 2 ? &turner_uint16
                                  : size == 4 ? &turner_uint32
                                  : size == 8 ? &turner_uint64
                                              : &turner_complex128;
    turn_function *const turn = turner->turn[cpu_isa()];
    return turn;
}

#define KERNEL_ROWS(name)                                                                          \
    {"cpu_transpose_serial_move_" #name "_" #name, cpu_transpose, &turner_##name.mover, false},    \
        {"cpu_transpose_openmp_move_" #name "_" #name, cpu_transpose, &turner_##name.mover, true}, \
        {"cpu_transpose_simd_move_" #name "_" #name, cpu_transpose_simd, &turner_##name, true},

const struct cpu_kernel cpu_transpose_kernels[] = {KERNEL_ROWS(uint8) KERNEL_ROWS(
    uint16) KERNEL_ROWS(uint32) KERNEL_ROWS(uint64) KERNEL_ROWS(complex128)};
const size_t cpu_transpose_kernel_count =
    sizeof cpu_transpose_kernels / sizeof *cpu_transpose_kernels;

#endif

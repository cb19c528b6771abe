/* cpu_transpose.c: the transpose on the CPU, rungs `serial`, `openmp` and `simd`. Its signatures
 * are those of transpose.cu: it moves bytes, too. Any axes form a batch of matrices, whose rows may
 * be strided, or rows that are copied whole. Knows no Python.
 */

#ifdef GPUOPT_RUNGS
/* clang-format off */
RUNG(-1, "serial", "cpu_transpose_serial",
     "two nested loops: every store is to another row",
     "D1 transpose cpu", 0, 0, 0, 0, RUNG_HOST | RUNG_DECK_RATE, 4.9)
RUNG(-1, "openmp", "cpu_transpose_openmp",
     "tiles that fit the first-level cache, their rows spread over all cores",
     "D1 transpose cpu+omp", 0, 0, 0, 0, RUNG_HOST | RUNG_DECK_RATE, 13.9)
RUNG(-1, "simd", "cpu_transpose_simd",
     "tiles turned in vector registers, and stored past the caches where they would not stay",
     "beyond the decks", 0, 0, 0, 0, RUNG_HOST | RUNG_BEST, 0)
/* clang-format on */
#else

#include "../../int_math.h"
#include "cpu_isa.h"
#include "cpu_kernels.h"
#include "cpu_stream.h"
#include "cpu_team.h"

#include "../../kernels/transpose_plan.cuh"

enum {
    TILE_BYTES = 128,     /* of a tile's row: two cache lines */
    POLL_ITEMS = 1 << 20, /* moved between two polls, even if each misses every cache */
    SMALL = 1 << 14,      /* elements of matrices that a thread processes whole */
    BYTES_PER_NS = 6,     /* of a matrix by one thread, estimated */
    TASK_BYTES = 1 << 18, /* of copied rows, or of small matrices */
    TINY = 64,            /* elements of a tiny matrix, at most; */
    TINY_ROW = 16,        /* tiny matrices in a row, at least; */
    TINY_BYTES = 8192,
    FEW = 64,        /* columns of a matrix of few rows, from which its elements are gathered */
    RUN_LEAST = 64,  /* elements of a run of the output that is gathered at once, */
    RUN_MOST = 2048, /* and at most */
    RUNS_LEAST = 8,  /* of a tile, */
    RUNS_MOST = 512, /* and at most */

    /* of the rung `simd` */
    PATCH_SIDE = 16, /* bytes of an input row in a vector register */
    WIDE = CPU_LINE, /* bytes of an input row in a tile: every line is read once */
    TALL = 256,      /* bytes of an output row in a tile */
    BLOCK = 1024,    /* bytes of both in a block: as many pages as the TLB holds */
};

/* Part of a matrix: rows `top` to `bottom` - 1, columns `left` to `right` - 1 of the input. */
struct part {
    const void *in;
    void *out;
    uint64_t in_pitch, out_pitch, top, bottom, left, right;
};

struct item16 {
    uint64_t low, high;
};

typedef uint8_t type_uint8;
typedef uint16_t type_uint16;
typedef uint32_t type_uint32;
typedef uint64_t type_uint64;
typedef struct item16 type_complex128;

/* `swap` transposes a part of a square matrix in place: elements right of the diagonal. `many`
 * transposes `count` matrices at a fixed distance, each element of all of them before the next.
 * `gather` reads elements from any address. */
#define MOVE(name)                                                                                \
    static void move_##name(const struct part *part) {                                            \
        const type_##name *in = part->in;                                                         \
        type_##name *restrict out = part->out;                                                    \
        for (uint64_t row = part->top; row < part->bottom; row++)                                 \
            for (uint64_t column = part->left; column < part->right; column++)                    \
                out[column * part->out_pitch + row] = in[row * part->in_pitch + column];          \
    }                                                                                             \
    static void swap_##name(const struct part *part) {                                            \
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
    static void many_##name(const struct part *part, uint64_t count, uint64_t in_step,            \
                            uint64_t out_step) {                                                  \
        for (uint64_t row = 0; row < part->bottom; row++)                                         \
            for (uint64_t column = 0; column < part->right; column++) {                           \
                const type_##name *in =                                                           \
                    (const type_##name *)part->in + row * part->in_pitch + column;                \
                type_##name *restrict out =                                                       \
                    (type_##name *)part->out + column * part->out_pitch + row;                    \
                for (uint64_t k = 0; k < count; k++)                                              \
                    out[k * out_step] = in[k * in_step];                                          \
            }                                                                                     \
    }                                                                                             \
    static void gather_##name(const void *in, const uint64_t *from, void *to, uint64_t count) {   \
        const type_##name *items = in;                                                            \
        type_##name *restrict out = to;                                                           \
        for (uint64_t k = 0; k < count; k++)                                                      \
            out[k] = items[from[k]];                                                              \
    }
MOVE(uint8)
MOVE(uint16)
MOVE(uint32)
MOVE(uint64)
MOVE(complex128)

struct mover {
    void (*move)(const struct part *part), (*swap)(const struct part *part);
    void (*many)(const struct part *part, uint64_t count, uint64_t in_step, uint64_t out_step);
    void (*gather)(const void *in, const uint64_t *from, void *to, uint64_t count);
    uint64_t tile; /* elements of a tile's row */
    uint64_t size; /* bytes of an element */
};

/* A call: the kernel's arguments, which are those of rung 7 in transpose.cu. */
struct call {
    const char *in;
    char *out;
    const struct transpose_plan *plan;
    const struct mover *mover;
    uint64_t matrices;
};

static struct call call_of(const struct mover *mover, void **arguments) {
    const struct transpose_plan *plan = arguments[2];
    return (struct call){
        .in = (const char *)(uintptr_t) * (const device_address *)arguments[0],
        .out = (char *)(uintptr_t) * (const device_address *)arguments[1],
        .plan = plan,
        .mover = mover,
        .matrices = plan->items / plan->rows / plan->columns,
    };
}

/* A whole matrix of the batch. */
static struct part matrix_at(const struct call *call, uint64_t index) {
    const struct transpose_plan *plan = call->plan;
    uint64_t in = 0, out = 0;
    for (unsigned k = 0; k < plan->grid_axes; k++) {
        const uint64_t at = index % plan->axes[k].extent;
        index /= plan->axes[k].extent;
        in += at * plan->axes[k].in;
        out += at * plan->axes[k].out;
    }
    return (struct part){
        .in = call->in + in * call->mover->size,
        .out = call->out + out * call->mover->size,
        .in_pitch = plan->in_pitch,
        .out_pitch = plan->out_pitch,
        .bottom = plan->rows,
        .right = plan->columns,
    };
}

/* Iterates over the matrices of a batch: the index on each axis. */
struct matrices {
    const struct call *call;
    struct part part;
    uint64_t at[TRANSPOSE_AXES_MAX];
};

static void first_matrix(struct matrices *matrices, const struct call *call, uint64_t index) {
    matrices->call = call;
    matrices->part = matrix_at(call, index);
    for (unsigned k = 0; k < call->plan->grid_axes; k++) {
        matrices->at[k] = index % call->plan->axes[k].extent;
        index /= call->plan->axes[k].extent;
    }
}

/* Advances by `count`, which stays within the first axis. */
static void next_matrix(struct matrices *matrices, uint64_t count) {
    const struct transpose_plan *plan = matrices->call->plan;
    int64_t in = 0, out = 0;
    for (unsigned k = 0; k < plan->grid_axes; k++) {
        const struct transpose_axis *axis = &plan->axes[k];
        in += (int64_t)(count * axis->in);
        out += (int64_t)(count * axis->out);
        matrices->at[k] += count;
        if (matrices->at[k] < axis->extent)
            break;
        in -= (int64_t)(axis->extent * axis->in);
        out -= (int64_t)(axis->extent * axis->out);
        matrices->at[k] = 0;
        count = 1;
    }
    const int64_t size = (int64_t)matrices->call->mover->size;
    matrices->part.in = (const char *)matrices->part.in + in * size;
    matrices->part.out = (char *)matrices->part.out + out * size;
}

/* --- copied rows: contiguous in the output */

struct copies {
    const struct call *call;
    uint64_t rows, bytes, pieces; /* of a row */
    uint64_t rows_a_task;
};

/* Rows of at most `width` bytes, each by one load and one store: the surplus of a row is
 * overwritten by the next (TUNING.md C3). */
#define COPY_SHORT(width)                                                                    \
    static void copy_short_##width(const char *in, uint64_t step, char *out, uint64_t bytes, \
                                   uint64_t rows) {                                          \
        for (uint64_t row = 0; row < rows; row++)                                            \
            memcpy(out + row * bytes, in + row * step, width);                               \
    }
COPY_SHORT(4)
COPY_SHORT(8)
COPY_SHORT(16)
COPY_SHORT(32)

/* Copies at most `rows` short rows, until a load would pass `in_end` or a store `out_end`; returns
 * how many. */
static uint64_t copy_short(const char *in, const char *in_end, uint64_t step, char *out,
                           const char *out_end, uint64_t bytes, uint64_t rows) {
    static const struct {
        uint64_t width;
        void (*copy)(const char *in, uint64_t step, char *out, uint64_t bytes, uint64_t rows);
    } ways[] = {{4, copy_short_4}, {8, copy_short_8}, {16, copy_short_16}, {32, copy_short_32}};
    size_t way = 0;
    while (way < sizeof ways / sizeof *ways && ways[way].width < bytes)
        way++;
    if (way == sizeof ways / sizeof *ways)
        return 0;
    const uint64_t width = ways[way].width;
    const uint64_t read = (uint64_t)(in_end - in), room = (uint64_t)(out_end - out);
    if (read < width || room < width)
        return 0;
    rows = min_u64(rows, (room - width) / bytes + 1);
    if (step)
        rows = min_u64(rows, (read - width) / step + 1);
    ways[way].copy(in, step, out, bytes, rows);
    return rows;
}

static void copy_rows(const void *state, uint64_t task, struct cpu_worker *worker) {
    (void)worker;
    const struct copies *copies = state;
    const struct call *call = copies->call;
    const struct transpose_axis *axes = call->plan->axes;
    const uint64_t bytes = copies->bytes, size = call->mover->size;
    const uint64_t skipped = task % copies->pieces * TASK_BYTES;
    const uint64_t length = copies->pieces == 1 ? bytes : min_u64(TASK_BYTES, bytes - skipped);
    const uint64_t first = task / copies->pieces * copies->rows_a_task;
    const uint64_t end = min_u64(first + copies->rows_a_task, copies->rows);
    const uint64_t along = call->plan->grid_axes ? axes[0].extent : 1;
    const uint64_t step = call->plan->grid_axes ? axes[0].in * size : 0;
    const char *in_end = call->in + call->plan->items * size;
    for (uint64_t row = first; row < end;) {
        const uint64_t stop = min_u64(end, row - row % along + along);
        const char *in = matrix_at(call, row).in;
        const uint64_t done = copy_short(in, in_end, step, call->out + row * bytes,
                                         call->out + end * bytes, bytes, stop - row);
        row += done, in += done * step;
        for (; row < stop; row++, in += step)
            memcpy(call->out + row * bytes + skipped, in + skipped, length);
    }
}

static int threads_for(const struct call *call) {
    return cpu_team_threads((double)call->plan->items * (double)call->mover->size / BYTES_PER_NS);
}

static enum status cpu_copy(struct device *device, const struct call *call, bool parallel) {
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
    const struct call *call = state;
    const uint64_t side = call->plan->rows, tile = call->mover->tile;
    const uint64_t tasks = ceil_div(side, tile); /* of a matrix */
    struct part part = matrix_at(call, task / tasks);
    part.top = task % tasks * tile;
    part.bottom = min_u64(part.top + tile, side);
    for (part.left = part.top; part.left < side; part.left = part.right) {
        part.right = min_u64(part.left + tile, side);
        call->mover->swap(&part);
    }
}

static enum status cpu_swap(struct device *device, const struct call *call, bool parallel) {
    const uint64_t tasks = call->matrices * ceil_div(call->plan->rows, call->mover->tile);
    return cpu_team_run(device, parallel ? threads_for(call) : 1, tasks, swap_tiles, call);
}

/* --- the rungs `serial` and `openmp` */

/* Moves the part tile by tile; a thread takes a strip of the part's longer side. */
static void move_tiles(const struct mover *mover, const struct part *part, int threads) {
    const uint64_t tile = mover->tile, height = part->bottom - part->top;
    const bool wide = part->right - part->left > height;
    const uint64_t length = wide ? part->right - part->left : height;
    const uint64_t strips = ceil_div(length, tile);
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (uint64_t strip = 0; strip < strips; strip++) {
        struct part piece = *part;
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
                               const struct part *matrix, bool parallel, int threads) {
    struct part part = *matrix;
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
    const struct call call = call_of(mover, arguments);
    const uint64_t items = call.plan->rows * call.plan->columns; /* of a matrix */
    const int threads = kernel->parallel ? threads_for(&call) : 1;
    if (call.plan->shape == TRANSPOSE_ROWS)
        return cpu_copy(device, &call, kernel->parallel);
    if (call.plan->in_place)
        return cpu_swap(device, &call, kernel->parallel);
    enum status status = STATUS_OK;
    if (items > SMALL || call.matrices == 1) {
        for (uint64_t k = 0; k < call.matrices && !status; k++) {
            const struct part part = matrix_at(&call, k);
            status = move_matrix(device, mover, &part, kernel->parallel, threads);
        }
        return status;
    }
    const uint64_t at_once = (uint64_t)threads * POLL_ITEMS / items; /* small matrices */
    for (uint64_t k = 0; k < call.matrices && !status; k += at_once) {
        const uint64_t end = min_u64(k + at_once, call.matrices);
#pragma omp parallel for num_threads(threads) if (threads > 1)
        for (uint64_t index = k; index < end; index++) {
            const struct part part = matrix_at(&call, index);
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

/* patch_<bits>_<isa>: N columns of elements of 16 bytes together, with a vector's number of rows.
 * Register i holds rows i, i + N, i + 2 N... side by side, and log2(N) rounds of interleaving
 * register i with i + N / 2 turn them into columns. */
#if defined(__x86_64__)
typedef __m128i vector_16;
typedef __m256i vector_32;
typedef __m512i vector_64;
#define PIECE(at) _mm_loadu_si128((const __m128i *)(at))
#define GATHER_16(at, next) PIECE(at)
#define GATHER_32(at, next) \
    _mm256_inserti128_si256(_mm256_castsi128_si256(PIECE(at)), PIECE((at) + (next)), 1)
#define GATHER_64(at, next)                                         \
    _mm512_inserti64x4(_mm512_castsi256_si512(GATHER_32(at, next)), \
                       GATHER_32((at) + 2 * (next), next), 1)
#define PATCH(isa, target, bytes, prefix, here, bits)                                    \
    target CPU_INLINE void patch_##bits##_##isa(const char *in, size_t row, char *out) { \
        enum { N = 128 / bits, ROUNDS = N == 16 ? 4 : N == 8 ? 3 : N == 4 ? 2 : 1 };     \
        vector_##bytes a[N], b[N];                                                       \
        for (int i = 0; i < N; i++)                                                      \
            a[i] = GATHER_##bytes(in + (size_t)i * row, N * row);                        \
        for (int round = 0; round < ROUNDS; round++) {                                   \
            for (int i = 0; i < N / 2; i++) {                                            \
                b[2 * i] = prefix##_unpacklo_epi##bits(a[i], a[i + N / 2]);              \
                b[2 * i + 1] = prefix##_unpackhi_epi##bits(a[i], a[i + N / 2]);          \
            }                                                                            \
            for (int i = 0; i < N; i++)                                                  \
                a[i] = b[i];                                                             \
        }                                                                                \
        for (int i = 0; i < N; i++)                                                      \
            memcpy(out + i * TALL, &a[i], bytes);                                        \
    }
#else
#define PATCH(isa, target, bytes, prefix, here, bits)                                          \
    CPU_INLINE void patch_##bits##_##isa(const char *in, size_t row, char *out) {              \
        for (int i = 0; i < 128 / bits; i++)                                                   \
            for (int j = 0; j < 128 / bits; j++)                                               \
                memcpy(out + i * TALL + j * (bits / 8), in + (size_t)j * row + i * (bits / 8), \
                       bits / 8);                                                              \
    }
#endif

/* An element of 16 bytes is a patch by itself. */
#define PATCH_128(isa, target, bytes, prefix, here, unused)                         \
    target CPU_INLINE void patch_128_##isa(const char *in, size_t row, char *out) { \
        for (size_t i = 0; i < bytes / 16; i++)                                     \
            memcpy(out + 16 * i, in + i * row, 16);                                 \
    }

/* turn_<bits>_<isa>: transposes a tile into its buffer: by patches, and its edges element by
 * element. */
#define TURN(isa, target, vector, prefix, here, bits)                                            \
    target static void turn_##bits##_##isa(const char *in, size_t row, size_t rows,              \
                                           size_t columns, char *out) {                          \
        enum { BYTES = bits / 8, HIGH = vector / BYTES, BROAD = PATCH_SIDE / BYTES };            \
        const size_t high = rows / HIGH * HIGH, broad = columns / BROAD * BROAD;                 \
        for (size_t r = 0; r < high; r += HIGH)                                                  \
            for (size_t c = 0; c < broad; c += BROAD)                                            \
                patch_##bits##_##isa(in + r * row + c * BYTES, row, out + c * TALL + r * BYTES); \
        /* the edges; all of a narrow matrix, a column at a time */                              \
        for (size_t c = 0; c < columns; c++)                                                     \
            for (size_t r = c < broad ? high : 0; r < rows; r++)                                 \
                memcpy(out + c * TALL + r * BYTES, in + r * row + c * BYTES, BYTES);             \
    }
#define PATCHES_AND_TURNS(bits) \
    CPU_ISAS(PATCH, bits)       \
    CPU_ISAS(TURN, bits)
PATCHES_AND_TURNS(8)
PATCHES_AND_TURNS(16)
PATCHES_AND_TURNS(32)
PATCHES_AND_TURNS(64)
CPU_ISAS(PATCH_128, unused)
CPU_ISAS(TURN, 128)

typedef void turn_function(const char *in, size_t row, size_t rows, size_t columns, char *out);

struct turner {
    struct mover mover; /* the fallback; first, so that this struct is a mover too */
    turn_function *turn[CPU_ISA_COUNT];
};

/* Narrow matrices: a few planes on one side, whose elements are contiguous on the other side. As
 * many 16-byte vectors as there are planes hold the same elements on both sides; each consists of
 * bytes of all those across. `deal` converts the single run to planes TALL apart, `mesh` converts
 * back from planes `row` apart; `units` vectors a plane, of which they return how many they have
 * done. */
enum { PLANES = 8 };

struct shuffles {
    uint8_t bytes[PLANES][PLANES][16]; /* of a vector, from one across; 128: none */
};

typedef size_t deal_function(const struct shuffles *shuffles, size_t planes, size_t units,
                             const char *in, char *out);
typedef size_t mesh_function(const struct shuffles *shuffles, size_t planes, size_t units,
                             const char *in, size_t row, char *out);

static void find_shuffles(struct shuffles *shuffles, size_t planes, size_t size, bool mesh) {
    memset(shuffles, 128, sizeof *shuffles);
    for (size_t plane = 0; plane < planes; plane++)
        for (size_t at = 0; at < 16; at++) { /* a byte of its vector */
            const size_t byte = (at / size * planes + plane) * size + at % size;
            if (mesh)
                shuffles->bytes[byte / 16][plane][byte % 16] = (uint8_t)at;
            else
                shuffles->bytes[plane][byte / 16][at] = (uint8_t)(byte % 16);
        }
}

#if defined(__x86_64__)
#define MASK_32(at) _mm256_broadcastsi128_si256(PIECE(at))
#define MASK_64(at) _mm512_broadcast_i32x4(PIECE(at))
#define PUT_16(at, a) _mm_storeu_si128((__m128i *)(at), a)
#define PUT_32(at, next, a) \
    PUT_16(at, _mm256_castsi256_si128(a)), PUT_16((at) + (next), _mm256_extracti128_si256(a, 1))
#define PUT_64(at, next, a)                      \
    PUT_32(at, next, _mm512_castsi512_si256(a)), \
        PUT_32((at) + 2 * (next), next, _mm512_extracti64x4_epi64(a, 1))
#define DEAL_AND_MESH(isa, target, vector, prefix, bits)                                           \
    target CPU_INLINE vector_##vector across_##isa(const vector_##vector *a,                       \
                                                   const uint8_t(*masks)[16], size_t planes) {     \
        vector_##vector found = prefix##_shuffle_epi8(a[0], MASK_##vector(masks[0]));              \
        for (size_t k = 1; k < planes; k++)                                                        \
            found =                                                                                \
                prefix##_or_si##bits(found, prefix##_shuffle_epi8(a[k], MASK_##vector(masks[k]))); \
        return found;                                                                              \
    }                                                                                              \
    target CPU_INLINE size_t deal_planes_##isa(const struct shuffles *shuffles, size_t planes,     \
                                               size_t units, const char *in, char *out) {          \
        enum { LANES = vector / 16 };                                                              \
        size_t unit = 0;                                                                           \
        for (; unit + LANES <= units; unit += LANES) {                                             \
            vector_##vector a[PLANES];                                                             \
            for (size_t k = 0; k < planes; k++)                                                    \
                a[k] = GATHER_##vector(in + 16 * (unit * planes + k), 16 * planes);                \
            for (size_t k = 0; k < planes; k++) {                                                  \
                const vector_##vector found = across_##isa(a, shuffles->bytes[k], planes);         \
                memcpy(out + k * TALL + 16 * unit, &found, vector);                                \
            }                                                                                      \
        }                                                                                          \
        return unit;                                                                               \
    }                                                                                              \
    target CPU_INLINE size_t mesh_planes_##isa(const struct shuffles *shuffles, size_t planes,     \
                                               size_t units, const char *in, size_t row,           \
                                               char *out) {                                        \
        enum { LANES = vector / 16 };                                                              \
        size_t unit = 0;                                                                           \
        for (; unit + LANES <= units; unit += LANES) {                                             \
            vector_##vector a[PLANES];                                                             \
            for (size_t k = 0; k < planes; k++)                                                    \
                memcpy(&a[k], in + k * row + 16 * unit, vector);                                   \
            for (size_t k = 0; k < planes; k++) {                                                  \
                const vector_##vector found = across_##isa(a, shuffles->bytes[k], planes);         \
                PUT_##vector(out + 16 * (unit * planes + k), 16 * planes, found);                  \
            }                                                                                      \
        }                                                                                          \
        return unit;                                                                               \
    }                                                                                              \
    /* A constant number of planes is unrolled. */                                                 \
    target static size_t deal_##isa(const struct shuffles *shuffles, size_t planes, size_t units,  \
                                    const char *in, char *out) {                                   \
        return planes == 2   ? deal_planes_##isa(shuffles, 2, units, in, out)                      \
               : planes == 3 ? deal_planes_##isa(shuffles, 3, units, in, out)                      \
               : planes == 4 ? deal_planes_##isa(shuffles, 4, units, in, out)                      \
                             : deal_planes_##isa(shuffles, planes, units, in, out);                \
    }                                                                                              \
    target static size_t mesh_##isa(const struct shuffles *shuffles, size_t planes, size_t units,  \
                                    const char *in, size_t row, char *out) {                       \
        return planes == 2   ? mesh_planes_##isa(shuffles, 2, units, in, row, out)                 \
               : planes == 3 ? mesh_planes_##isa(shuffles, 3, units, in, row, out)                 \
               : planes == 4 ? mesh_planes_##isa(shuffles, 4, units, in, row, out)                 \
                             : mesh_planes_##isa(shuffles, planes, units, in, row, out);           \
    }
DEAL_AND_MESH(avx2, CPU_AVX2, 32, _mm256, 256)
DEAL_AND_MESH(avx512, CPU_AVX512, 64, _mm512, 512)
static deal_function *const deals[CPU_ISA_COUNT] = {
    [CPU_ISA_avx2] = deal_avx2, [CPU_ISA_avx512] = deal_avx512};
static mesh_function *const meshes[CPU_ISA_COUNT] = {
    [CPU_ISA_avx2] = mesh_avx2, [CPU_ISA_avx512] = mesh_avx512};
#else
static deal_function *const deals[CPU_ISA_COUNT] = {NULL};
static mesh_function *const meshes[CPU_ISA_COUNT] = {NULL};
#endif

struct blocks {
    const struct turner *turner;
    struct call call;
    uint64_t tall, wide, across; /* rows and columns of a block; blocks side by side */
    uint64_t first;              /* rows of the uppermost blocks: the others begin on a line */
    uint64_t a_matrix;           /* blocks */
    uint64_t together;           /* matrices in a task, if each is one block */
    uint64_t at_once;            /* and in one pass, if tiny */
    bool stream;
    deal_function *deal; /* of a narrow matrix, or the other one; else NULL */
    mesh_function *mesh;
    struct shuffles shuffles;
};

static void prefetch_tile(const char *in, uint64_t row, uint64_t rows) {
    for (uint64_t r = 0; r < rows; r++)
        __builtin_prefetch(in + r * row);
}

static void put(const struct blocks *blocks, char *out, const char *from, uint64_t bytes) {
    if (blocks->stream)
        cpu_stream(out, from, bytes);
    else
        memcpy(out, from, bytes);
}

/* Part of a matrix of a few rows, whose columns are contiguous in the output. */
static void mesh_block(const struct blocks *blocks, const struct part *block) {
    const uint64_t size = blocks->turner->mover.size, planes = block->bottom;
    const uint64_t row = block->in_pitch * size;
    _Alignas(CPU_LINE) char buffer[WIDE * TALL];
    const uint64_t wide = sizeof buffer / (planes * size) / CPU_LINE * CPU_LINE;
    for (uint64_t left = block->left; left < block->right; left += wide) {
        const uint64_t columns = min_u64(wide, block->right - left);
        const char *in = (const char *)block->in + left * size;
        const uint64_t done =
            blocks->mesh(&blocks->shuffles, planes, columns * size / 16, in, row, buffer) * 16 /
            size;
        for (uint64_t c = done; c < columns; c++)
            for (uint64_t plane = 0; plane < planes; plane++)
                memcpy(buffer + (c * planes + plane) * size, in + plane * row + c * size, size);
        put(blocks, (char *)block->out + left * planes * size, buffer, columns * planes * size);
    }
}

/* Tile by tile, along the rows of the input. */
static void turn_block(const struct blocks *blocks, const struct part *block) {
    const struct turner *turner = blocks->turner;
    turn_function *const turn = turner->turn[cpu_isa()];
    const uint64_t size = turner->mover.size, tall = TALL / size, wide = WIDE / size;
    const uint64_t in_row = block->in_pitch * size, out_row = block->out_pitch * size;
    _Alignas(CPU_LINE) char buffer[WIDE * TALL];
    for (uint64_t top = block->top; top < block->bottom; top += tall)
        for (uint64_t left = block->left; left < block->right; left += wide) {
            const uint64_t rows = min_u64(tall, block->bottom - top);
            const uint64_t columns = min_u64(wide, block->right - left);
            const char *in = (const char *)block->in + top * in_row + left * size;
            char *out = (char *)block->out + left * out_row + top * size;
            if (left + wide < block->right)
                prefetch_tile(in + WIDE, in_row, rows);
            const uint64_t dealt = blocks->deal ? blocks->deal(&blocks->shuffles, columns,
                                                               rows * size / 16, in, buffer)
                                                : 0;
            const uint64_t done = dealt * 16 / size;
            turn(in + done * in_row, in_row, rows - done, columns, buffer + done * size);
            for (uint64_t c = 0; c < columns; c++)
                if (rows == tall && !blocks->stream)
                    memcpy(out + c * out_row, buffer + c * TALL, TALL);
                else
                    put(blocks, out + c * out_row, buffer + c * TALL, rows * size);
        }
}

/* In place: a tile of TALL bytes on both sides, and its mirror image, each into a buffer and from
 * there to the other's place. */
struct square {
    const struct turner *turner;
    struct call call;
};

static void turn_square(turn_function *turn, const char *in, uint64_t pitch, uint64_t rows,
                        uint64_t columns, uint64_t size, char *buffer) {
    const uint64_t wide = WIDE / size;
    for (uint64_t left = 0; left < columns; left += wide)
        turn(in + left * size, pitch, rows, min_u64(wide, columns - left), buffer + left * TALL);
}

static void square_task(const void *state, uint64_t task, struct cpu_worker *worker) {
    (void)worker;
    const struct square *square = state;
    const uint64_t size = square->turner->mover.size, side = square->call.plan->rows;
    const uint64_t tile = TALL / size, tasks = ceil_div(side, tile); /* of a matrix */
    const struct part part = matrix_at(&square->call, task / tasks);
    const uint64_t pitch = part.in_pitch * size, top = task % tasks * tile;
    const uint64_t rows = min_u64(tile, side - top);
    turn_function *const turn = square->turner->turn[cpu_isa()];
    const uint64_t wide = WIDE / size;
    _Alignas(CPU_LINE) char upper[TALL * TALL], strip[WIDE * TALL];
    for (uint64_t left = top; left < side; left += tile) {
        const uint64_t columns = min_u64(tile, side - left);
        char *a = (char *)part.out + top * pitch + left * size;
        char *b = (char *)part.out + left * pitch + top * size;
        turn_square(turn, a, pitch, rows, columns, size, upper);
        for (uint64_t row = 0; row < rows && a != b; row += wide) {
            const uint64_t count = min_u64(wide, rows - row);
            turn(b + row * size, pitch, columns, count, strip);
            for (uint64_t r = 0; r < count; r++)
                memcpy(a + (row + r) * pitch, strip + r * TALL, columns * size);
        }
        for (uint64_t c = 0; c < columns; c++)
            memcpy(b + c * pitch, upper + c * TALL, rows * size);
    }
}

/* Tiny matrices, many of which are adjacent along an axis (TUNING.md C4). */
static void many_task(const void *state, uint64_t task, struct cpu_worker *worker) {
    (void)worker;
    const struct blocks *blocks = state;
    const struct transpose_axis *axis = &blocks->call.plan->axes[0];
    const uint64_t first = task * blocks->together;
    uint64_t left = min_u64(blocks->together, blocks->call.matrices - first);
    struct matrices matrices;
    first_matrix(&matrices, &blocks->call, first);
    while (left) {
        const uint64_t count =
            min_u64(min_u64(left, axis->extent - matrices.at[0]), blocks->at_once);
        blocks->turner->mover.many(&matrices.part, count, axis->in, axis->out);
        next_matrix(&matrices, count);
        left -= count;
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
        struct part block = matrices.part;
        block.top = down ? blocks->first + (down - 1) * blocks->tall : 0;
        block.bottom = min_u64(down ? block.top + blocks->tall : blocks->first, plan->rows);
        block.left = at % blocks->across * blocks->wide;
        block.right = min_u64(block.left + blocks->wide, plan->columns);
        if (blocks->mesh)
            mesh_block(blocks, &block);
        else if (plan->rows * blocks->turner->mover.size < CPU_LINE)
            blocks->turner->mover.move(&block);
        else
            turn_block(blocks, &block);
    }
    if (blocks->stream)
        cpu_stream_end();
}

/* Short axes: a tile has some axes that are innermost in the output, which form a run of it, and
 * some innermost in the input (TUNING.md C5). */
struct gathers {
    const struct call *call;
    struct transpose_axis rest[TRANSPOSE_AXES_MAX + 4];
    unsigned rest_count;
    uint64_t run, runs, tiles, together; /* elements, runs of a tile, tiles of a task */
    uint64_t from[RUN_MOST];             /* offset in the input of an element of a run */
    uint64_t begin_in[RUNS_MOST], begin_out[RUNS_MOST]; /* offsets of a run in both */
};

/* Removes the axis of the smallest step from `axes`, which has `*count`; if it has more than
 * `most_items` elements, returns a factor of it and leaves the other there. */
static struct transpose_axis take_least(struct transpose_axis *axes, unsigned *count, bool output,
                                        uint64_t most_items) {
    unsigned found = 0;
    for (unsigned k = 1; k < *count; k++)
        if (output ? axes[k].out < axes[found].out : axes[k].in < axes[found].in)
            found = k;
    struct transpose_axis axis = axes[found];
    if (axis.extent <= most_items) {
        axes[found] = axes[--*count];
        return axis;
    }
    uint64_t part = most_items;
    while (axis.extent % part)
        part--;
    axes[found] = (struct transpose_axis){axis.extent / part, axis.in * part, axis.out * part};
    axis.extent = part;
    return axis;
}

/* Returns false if no axes form a run of acceptable length. */
static bool find_gathers(struct gathers *gathers) {
    const struct transpose_plan *plan = gathers->call->plan;
    struct transpose_axis *axes = gathers->rest;
    unsigned count = 2;
    axes[0] = (struct transpose_axis){plan->rows, plan->in_pitch, 1};
    axes[1] = (struct transpose_axis){plan->columns, 1, plan->out_pitch};
    for (unsigned k = 0; k < plan->grid_axes; k++)
        axes[count++] = plan->axes[k];
    gathers->run = gathers->runs = 1;
    gathers->from[0] = 0;
    while (count && gathers->run < RUN_LEAST) {
        const struct transpose_axis axis = take_least(axes, &count, true, RUN_MOST / gathers->run);
        if (axis.extent == 1)
            return false;
        for (uint64_t k = gathers->run * axis.extent; k-- > 0;)
            gathers->from[k] = gathers->from[k % gathers->run] + k / gathers->run * axis.in;
        gathers->run *= axis.extent;
    }
    gathers->begin_in[0] = gathers->begin_out[0] = 0;
    while (count) {
        const struct transpose_axis axis =
            take_least(axes, &count, false, RUNS_MOST / gathers->runs);
        if (axis.in >= RUN_LEAST || axis.extent == 1) {
            axes[count++] = axis;
            break;
        }
        for (uint64_t k = gathers->runs * axis.extent; k-- > 0;) {
            const uint64_t inner = k % gathers->runs, at = k / gathers->runs;
            gathers->begin_in[k] = gathers->begin_in[inner] + at * axis.in;
            gathers->begin_out[k] = gathers->begin_out[inner] + at * axis.out;
        }
        gathers->runs *= axis.extent;
    }
    for (unsigned left = count; left > 0;) { /* the others, from the output's outermost on */
        const struct transpose_axis axis = take_least(axes, &left, true, UINT64_MAX);
        axes[left] = axis;
    }
    gathers->rest_count = count;
    gathers->tiles = plan->items / gathers->run / gathers->runs;
    gathers->together =
        max_u64(1, TASK_BYTES / (gathers->run * gathers->runs * gathers->call->mover->size));
    return gathers->run >= RUN_LEAST && gathers->runs >= RUNS_LEAST;
}

static void gather_task(const void *state, uint64_t task, struct cpu_worker *worker) {
    (void)worker;
    const struct gathers *gathers = state;
    const struct call *call = gathers->call;
    const uint64_t size = call->mover->size, first = task * gathers->together;
    const uint64_t end = min_u64(first + gathers->together, gathers->tiles);
    for (uint64_t tile = first; tile < end; tile++) {
        uint64_t in = 0, out = 0, index = tile;
        for (unsigned k = gathers->rest_count; k-- > 0;) {
            const struct transpose_axis *axis = &gathers->rest[k];
            const uint64_t at = index % axis->extent;
            index /= axis->extent;
            in += at * axis->in;
            out += at * axis->out;
        }
        for (uint64_t run = 0; run < gathers->runs; run++)
            call->mover->gather(call->in + (in + gathers->begin_in[run]) * size, gathers->from,
                                call->out + (out + gathers->begin_out[run]) * size, gathers->run);
    }
}

static enum status cpu_transpose_simd(struct device *device, const struct cpu_kernel *kernel,
                                      void **arguments) {
    const struct turner *turner = kernel->data;
    struct blocks blocks = {.turner = turner, .call = call_of(&turner->mover, arguments)};
    const struct transpose_plan *plan = blocks.call.plan;
    const uint64_t size = turner->mover.size, side = BLOCK / size;
    const uint64_t rows = plan->rows, columns = plan->columns;
    const uint64_t skew = (uintptr_t)blocks.call.out % CPU_LINE;
    const int threads = threads_for(&blocks.call);
    if (plan->shape == TRANSPOSE_ROWS)
        return cpu_copy(device, &blocks.call, true);
    if (plan->in_place) {
        const struct square square = {turner, blocks.call};
        const uint64_t squares = blocks.call.matrices * ceil_div(plan->rows, TALL / size);
        return cpu_team_run(device, threads, squares, square_task, &square);
    }
    blocks.wide = side * (side / min_u64(side, rows));
    blocks.tall = side * (side / min_u64(side, columns));
    blocks.across = (columns - 1) / blocks.wide + 1;
    blocks.first = blocks.tall + (skew % size ? 0 : (CPU_LINE - skew) % CPU_LINE / size);
    blocks.stream = cpu_streams(plan->items * size);
    /* For wider elements, and for more planes, the loops over elements are as fast. */
    if (columns > 1 && columns <= PLANES && columns * size <= PATCH_SIDE &&
        plan->in_pitch == columns && rows * size >= CPU_LINE)
        blocks.deal = deals[cpu_isa()];
    else if (rows > 1 && rows <= PLANES && size <= 2 && plan->out_pitch == rows &&
             columns * size >= CPU_LINE)
        blocks.mesh = meshes[cpu_isa()];
    if (blocks.deal || blocks.mesh)
        find_shuffles(&blocks.shuffles, blocks.deal ? columns : rows, size, !blocks.deal);
    const uint64_t down = rows <= blocks.first ? 1 : (rows - blocks.first - 1) / blocks.tall + 2;
    blocks.a_matrix = down * blocks.across;
    blocks.together = blocks.a_matrix > 1 ? 1 : max_u64(1, TASK_BYTES / (rows * columns * size));
    const uint64_t tasks = ceil_div(blocks.call.matrices, blocks.together) * blocks.a_matrix;
    if (rows * columns <= TINY && plan->grid_axes && plan->axes[0].extent >= TINY_ROW) {
        blocks.at_once = TINY_BYTES / (rows * columns * size);
        return cpu_team_run(device, threads, tasks, many_task, &blocks);
    }
    struct gathers gathers; /* large, so not cleared: find_gathers fills it in */
    gathers.call = &blocks.call;
    if (!blocks.mesh && blocks.a_matrix == 1 && rows * size < CPU_LINE && columns <= FEW &&
        find_gathers(&gathers))
        return cpu_team_run(device, threads, ceil_div(gathers.tiles, gathers.together), gather_task,
                            &gathers);
    return cpu_team_run(device, threads, tasks, block_task, &blocks);
}

/* --- kernels */

#define TURN_NAME(isa, target, vector, prefix, here, bits) turn_##bits##_##isa,
#define MOVER(name, bits)                                                                         \
    static const struct turner turner_##name = {{move_##name, swap_##name, many_##name,           \
                                                 gather_##name, TILE_BYTES / sizeof(type_##name), \
                                                 sizeof(type_##name)},                            \
                                                {CPU_ISAS(TURN_NAME, bits)}};
MOVER(uint8, 8)
MOVER(uint16, 16)
MOVER(uint32, 32)
MOVER(uint64, 64)
MOVER(complex128, 128)

#define KERNEL_ROWS(name)                                                                          \
    {"cpu_transpose_serial_move_" #name "_" #name, cpu_transpose, &turner_##name.mover, false},    \
        {"cpu_transpose_openmp_move_" #name "_" #name, cpu_transpose, &turner_##name.mover, true}, \
        {"cpu_transpose_simd_move_" #name "_" #name, cpu_transpose_simd, &turner_##name, true},

const struct cpu_kernel cpu_transpose_kernels[] = {KERNEL_ROWS(uint8) KERNEL_ROWS(
    uint16) KERNEL_ROWS(uint32) KERNEL_ROWS(uint64) KERNEL_ROWS(complex128)};
const size_t cpu_transpose_kernel_count =
    sizeof cpu_transpose_kernels / sizeof *cpu_transpose_kernels;

#endif

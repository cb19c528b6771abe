/* cpu_axis_least_template.h: the cores of min and argmin on one type. No include guard: the
 * including file defines
 *   TYPE, ITEM_TYPE, HIGHEST
 *   INDEX     an integer as wide as an element, so that loops vectorize; it counts up to BLOCK,
 *             and beyond a byte to SHORT_MOST
 *   ENDS(x)   whether x is final: the least integer, or a NaN
 * and, once for all integers and once for all floats,
 *   IS_NAN(x), EITHER_NAN(x, y), EXACT (equal elements are identical), KEYED(x) (an element in the
 *   order of `key`), LOAD(x) (the same, for min, of an integer without the bits of `mask`),
 *   LESSER(a, b), SIGN_OF(x) (its bits, or 0 for integers), LEAST(value, signs) (the least by
 *   comparisons, with its sign).
 */
#define FOR(function) PASTED(function, TYPE)

static bool FOR(settled_min)(const void *value, uint64_t n, uint64_t finish) {
    const ITEM_TYPE found = *(const ITEM_TYPE *)value;
    (void)n;
    return finish == ANY ? found < HIGHEST : ENDS(found);
}

#define NAME PASTED(min, TYPE)
#define ITEM ITEM_TYPE
#define NARROW ITEM_TYPE
#define VALUE ITEM_TYPE
#define APPLY(a, b) LESSER(a, b)
#define IDENTITY HIGHEST
#define MANY (MANY_BYTES / (int)sizeof(ITEM))
#define QUICK(a, b) ((b) < (a) ? (b) : (a))
#define EITHER_SLOW(x, y) EITHER_NAN(x, y)
#define SIGN(x) SIGN_OF(x)
#define VALUE_OF(value, signs) LEAST(value, signs)
#define ROW_SHORT (EXACT ? SHORT_ROW : (int)MANY - 1)
#define SETTLED PASTED(settled_min, TYPE)
#define STAYS(value) IS_NAN(value)
#define FINAL(value) (IS_NAN(value) ? LOAD(NOT_A_NUMBER) : (value))
#define ANY_ORDER EXACT
#define FIRST_ALONE true
#include "cpu_axis_template.h"

#define ITEM ITEM_TYPE

struct FOR(indexed) {
    ITEM value;
    int64_t index;
};

/* Index of the first or the last element that equals `best`, or is a NaN. The last group of
 * SEARCHED elements may overlap the previous one. */
CPU_INLINE int64_t FOR(find_among)(const ITEM *in, uint64_t n, ITEM best, bool nan, bool last) {
    for (uint64_t k = 0;; k = least(k + SEARCHED, n - SEARCHED)) {
        const ITEM *run = in + (last ? n - SEARCHED - k : k);
        const INDEX turn = last ? SEARCHED - 1 : 0;
        INDEX first = SEARCHED, here = 0;
        for (int lane = 0; lane < SEARCHED; lane++)
            here |= (INDEX)(nan ? IS_NAN(run[lane]) : run[lane] == best);
        if (!here)
            continue;
        for (INDEX lane = 0; lane < SEARCHED; lane++) {
            const bool is = nan ? IS_NAN(run[lane]) : run[lane] == best;
            const INDEX found = is ? (INDEX)(lane ^ turn) : SEARCHED;
            first = found < first ? found : first;
        }
        return run - in + (first ^ turn);
    }
}
/* `best` is in the order of `key`, which maps it back: a NaN only if the elements have one. */
CPU_INLINE int64_t FOR(find)(const ITEM *in, uint64_t n, ITEM best, int64_t key, bool last) {
    const ITEM given = KEYED(best);
    return IS_NAN(given) ? FOR(find_among)(in, n, given, true, last)
                         : FOR(find_among)(in, n, given, false, last);
}
/* The same for a few elements in one pass; the least changes rarely, so that branches cost little.
 */
CPU_INLINE void FOR(search_few)(const ITEM *in, uint64_t n, int64_t key, bool last,
                                struct FOR(indexed) * result) {
    uint64_t at = last ? n - 1 : 0;
    ITEM best = KEYED(in[at]);
    for (uint64_t k = 1; k < n && !IS_NAN(best); k++) {
        const uint64_t i = last ? n - 1 - k : k;
        const ITEM item = KEYED(in[i]);
        if (item < best || IS_NAN(item)) {
            best = item;
            at = i;
        }
    }
    *result = (struct FOR(indexed)){best, (int64_t)at};
}

/* The lesser of each lane and the one `half` above it; no NaN. */
CPU_INLINE void FOR(fold)(ITEM *lanes, const int half) {
    for (int lane = 0; lane < half; lane++)
        /* cppcheck-suppress uninitvar */
        lanes[lane] = lanes[lane + half] < lanes[lane] ? lanes[lane + half] : lanes[lane];
}

/* A row of at least `width` elements in one pass: each lane keeps its least element and the turn
 * that it came in. The last turn overlaps the one before. Returns false if there is a NaN. */
CPU_INLINE bool FOR(search_lanes)(const ITEM *in, uint64_t n, int64_t key, const int width,
                                  struct FOR(indexed) * result) {
    const uint64_t wide = (uint64_t)width;
    const INDEX end = (INDEX)((n - 1) / wide), last = (INDEX)(n - wide);
    ITEM best[WIDER * WIDTH_OF(ITEM)], all[WIDER * WIDTH_OF(ITEM)];
    INDEX turns[WIDER * WIDTH_OF(ITEM)], nan[WIDER * WIDTH_OF(ITEM)], first = (INDEX)n, any = 0;
    for (int lane = 0; lane < width; lane++) {
        best[lane] = KEYED(in[lane]);
        turns[lane] = 0;
        nan[lane] = (INDEX)EITHER_NAN(in[lane], in[lane]);
    }
    for (INDEX turn = 1; turn <= end; turn++) {
        const ITEM *run = in + least((uint64_t)turn * wide, n - wide);
        for (int lane = 0; lane < width; lane++) {
            const ITEM next = KEYED(run[lane]), old = best[lane];
            const bool less = next < old;
            turns[lane] = EXACT ? (less ? turn : turns[lane]) /* of floats, gcc branches */
                                : (INDEX)(turns[lane] ^ ((turns[lane] ^ turn) & -(INDEX)less));
            best[lane] = less ? next : old;
        }
        for (int lane = 0; lane < width / 2; lane++)
            nan[lane] |= (INDEX)EITHER_NAN(run[lane], run[lane + width / 2]);
    }
    for (int lane = 0; lane < width; lane++) {
        all[lane] = best[lane];
        any |= nan[lane];
    }
    if (width > 64)
        FOR(fold)(all, 64);
    if (width > 32)
        FOR(fold)(all, 32);
    if (width > 16)
        FOR(fold)(all, 16);
    if (width > 8)
        FOR(fold)(all, 8);
    FOR(fold)(all, 4);
    FOR(fold)(all, 2);
    FOR(fold)(all, 1);
    for (INDEX lane = 0; lane < width; lane++) {
        const INDEX begin = (INDEX)(turns[lane] * width), at = begin < last ? begin : last;
        const INDEX place = best[lane] == all[0] ? (INDEX)(at + lane) : (INDEX)n;
        first = place < first ? place : first;
    }
    *result = (struct FOR(indexed)){all[0], (int64_t)first};
    return !any;
}

/* The same with as many lanes as pay: floats have longer chains. */
CPU_INLINE bool FOR(search_short)(const ITEM *in, uint64_t n, int64_t key,
                                  struct FOR(indexed) * result) {
    enum { WIDTH = WIDTH_OF(ITEM) };
    return EXACT || n < 3 * WIDER * WIDTH ? FOR(search_lanes)(in, n, key, WIDTH, result)
                                          : FOR(search_lanes)(in, n, key, WIDER * WIDTH, result);
}

typedef int64_t FOR(find_function)(const ITEM *in, uint64_t n, ITEM best, int64_t key, bool last);

/* A row of any length, run by run, in the order of the search. Runs that had to be copied are
 * copied again once the run that holds the element is known. */
CPU_INLINE void FOR(search)(const struct axis_functions *functions, const struct part *part,
                            const void *in, struct FOR(indexed) * result,
                            FOR(leaf_function_min) * leaf_of, FOR(find_function) * find) {
    const bool copies = part->copies;
    const bool last = part->mask != 0;
    const uint64_t n = part->end - part->first;
    const uint64_t longest = copies ? LEAF : LONG_LEAF;
    const int64_t key = part->core_key;
    const ITEM *run = in;
    ITEM best = HIGHEST;
    uint64_t at = 0, leaf = 0, copied = 0;
    bool settled = false;
    if (n < SEARCHED) {
        if (copies)
            run = axis_run(functions, part, in, n);
        FOR(search_few)(run, n, key, last, result);
        return;
    }
    for (uint64_t done = 0, count; done < n && !settled; done += count) {
        count = least(n - done, least(most(done, LEAF), longest));
        const uint64_t i = last ? n - done - count : done;
        ITEM next;
        run = items_after(functions, in, (int64_t)i * part->stride);
        if (copies)
            run = axis_run(functions, part, run, count);
        copied = i;
        leaf_of(run, count, 1, key, 0, &next);
        if (done == 0 || next < best || IS_NAN(next)) {
            best = next;
            at = i;
            leaf = count;
            settled = ENDS(best);
        }
    }
    if (copied != at) {
        run = items_after(functions, in, (int64_t)at * part->stride);
        if (copies)
            run = axis_run(functions, part, run, leaf);
    }
    if (leaf < SEARCHED) {
        FOR(search_few)(run, leaf, key, last, result);
        result->index += (int64_t)at;
        return;
    }
    *result = (struct FOR(indexed)){best, (int64_t)at + find(run, leaf, best, key, last)};
}

CPU_INLINE void FOR(search_rows)(const struct axis_functions *functions, const struct part *part,
                                 struct FOR(indexed) * values, FOR(leaf_function_min) * leaf,
                                 FOR(find_function) * find) {
    const uint64_t n = part->end - part->first;
    const bool is_short = n >= WIDTH_OF(ITEM) && n <= SHORT_MOST(ITEM);
    for (uint64_t row = 0; row < part->rows; row++) {
        const ITEM *in = items_after(functions, part->in, part->starts[row]);
        const ITEM *run = part->mask ? NULL : in;
        if (run && sizeof(ITEM) == 1) { /* often found at once: a bool's value */
            const uint64_t few = least(n, part->copies ? FIRST_BYTES : LEAF);
            const ITEM *first = part->copies ? axis_run(functions, part, in, few) : in;
            const ITEM *end = find_byte(first, (int8_t)(INT8_MIN ^ part->core_key), few);
            if (end) {
                values[row] = (struct FOR(indexed)){INT8_MIN, end - first};
                continue;
            }
        }
        if (run && part->copies)
            run = n <= LEAF ? axis_run(functions, part, in, n) : NULL;
        if (!run || !is_short || !FOR(search_short)(run, n, part->core_key, values + row))
            FOR(search)(functions, part, in, values + row, leaf, find);
    }
}

/* Rows of a tile's columns, from index `index` on. */
CPU_INLINE void FOR(index_rows)(ITEM *best, INDEX *indices, const ITEM *in, uint64_t rows,
                                uint64_t columns, int64_t stride, int64_t key, INDEX index,
                                INDEX step) {
    for (uint64_t k = 0; k < rows; k++, in += stride, index = (INDEX)(index + step))
        for (uint64_t i = 0; i < columns; i++) {
            const ITEM next = KEYED(in[i]);
            const bool less = (next < best[i]) | (IS_NAN(next) & !IS_NAN(best[i]));
            best[i] = less ? next : best[i];
            indices[i] = less ? index : indices[i];
        }
}

/* At most TILE columns, in rows of at most BLOCK, in the order of the search. */
CPU_INLINE void FOR(index_tile)(const struct axis_functions *functions, const struct part *whole,
                                const void *from, struct FOR(indexed) *restrict values) {
    const bool last = whole->mask != 0;
    const uint64_t rows = whole->end - whole->first, columns = whole->columns;
    const uint64_t together = whole->copies ? LEAF / columns : rows;
    struct part part = *whole;
    struct {
        ITEM best[TILE];
        char apart[2048]; /* loads wait for stores 4 KiB from them (TUNING.md C55) */
        INDEX indices[TILE];
    } tile;
    if (last) {
        from = items_after(functions, from, (int64_t)(rows - 1) * part.stride);
        part.stride = -part.stride;
    }
    for (uint64_t i = 0; i < columns; i++) {
        tile.best[i] = HIGHEST;
        tile.indices[i] = (INDEX)(last ? rows - 1 : 0);
    }
    for (uint64_t k = 0; k < rows; k += together) {
        const uint64_t count = least(rows - k, together);
        const void *in = from;
        if (part.copies) {
            in = axis_columns(functions, &part, from, count);
            from = items_after(functions, from, (int64_t)count * part.stride);
        }
        FOR(index_rows)
        (tile.best, tile.indices, in, count, columns, part.copies ? (int64_t)columns : part.stride,
         part.core_key, (INDEX)(last ? rows - 1 - k : k), last ? -1 : 1);
    }
    for (uint64_t i = 0; i < columns; i++)
        values[i] = (struct FOR(indexed)){tile.best[i], (int64_t)tile.indices[i]};
}
CPU_INLINE void FOR(index_tiles)(const struct axis_functions *functions, const struct part *part,
                                 struct FOR(indexed) * values) {
    for (uint64_t row = 0; row < part->rows; row++, values += part->columns)
        FOR(index_tile)
    (functions, part, items_after(functions, part->in, part->starts[row]), values);
}

#define ISA_SEARCHES(isa, target, bytes, prefix, here, type)                                       \
    target static int64_t find_##type##_##isa(const ITEM *in, uint64_t n, ITEM best, int64_t key,  \
                                              bool last) {                                         \
        return find_##type(in, n, best, key, last);                                                \
    }                                                                                              \
    target static void rows_argmin_##type##_##isa(const struct axis_functions *functions,          \
                                                  const struct part *part, void *values) {         \
        search_rows_##type(functions, part, values, leaf_min_##type##_##isa, find_##type##_##isa); \
    }                                                                                              \
    target static void tiles_argmin_##type##_##isa(const struct axis_functions *functions,         \
                                                   const struct part *part, void *values) {        \
        index_tiles_##type(functions, part, values);                                               \
    }
#define ISA_ROWS(isa, target, bytes, prefix, here, type) rows_argmin_##type##_##isa,
#define ISA_TILES(isa, target, bytes, prefix, here, type) tiles_argmin_##type##_##isa,
CPU_ISAS(ISA_SEARCHES, TYPE)

static void FOR(nothing_argmin)(void *value) {
    *(struct FOR(indexed) *)value = (struct FOR(indexed)){HIGHEST, INT64_MAX};
}

/* The lesser, or that of the first index; a NaN is less than any number. */
static void FOR(apply_argmin)(void *a, const void *b, uint64_t count, int64_t mask) {
    struct FOR(indexed) *left = a;
    const struct FOR(indexed) *right = b;
    (void)mask;
    for (; count > 0; count--, left++, right++) {
        const ITEM x = left->value, y = right->value;
        const bool same = x == y || (IS_NAN(x) && IS_NAN(y));
        if (same ? left->index >= right->index : !(x < y || IS_NAN(x)))
            *left = *right;
    }
}

const struct axis_core FOR(axis_argmin) = {
    .rows = {CPU_ISAS(ISA_ROWS, TYPE)},
    .tiles = {CPU_ISAS(ISA_TILES, TYPE)},
    .nothing = FOR(nothing_argmin),
    .apply = FOR(apply_argmin),
    .settled = FOR(settled_min), /* a value begins with the element */
    .item_size = sizeof(ITEM),
    .value_size = sizeof(struct FOR(indexed)),
    .leaf = LONG_LEAF,
    .short_row = WIDTH_OF(ITEM) - 1,
    .has_index = true,
};

#undef TYPE
#undef ITEM_TYPE
#undef INDEX
#undef HIGHEST
#undef ENDS
#undef ITEM
#undef APPLY
#undef FOR
#undef ISA_SEARCHES
#undef ISA_ROWS
#undef ISA_TILES

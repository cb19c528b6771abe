/* cpu_axis_template.h: the core of one operation on one type. No include guard: the including file
 * defines, for each core,
 *   NAME                <operation>_<type>
 *   ITEM, NARROW, VALUE types: of an element, of a combination of few elements that cannot
 *                       overflow, and of a result
 *   LOAD(x)             an element as NARROW; it may use `key` and `mask`
 *   COMBINE(a, b)       of NARROW; APPLY(a, b) of VALUE; both may use `mask`
 *   IDENTITY            the value of no elements
 *   MANY                lanes of a row, a multiple of LANES
 *   ROW_LEAF            elements of a row at a time
 *   ROW_FEW             elements of a row that runs scalar, at most
 * and, if they differ from the defaults below,
 *   ANY_ORDER           lanes may be combined sequentially (gcc makes a minimum of it)
 *   STAYS(value)        no other value changes it: the first NaN, so that a chunk's result does
 *                       not depend on skipped chunks
 *   SETTLED             a function, as in struct axis_core
 *   FINAL(value)        the value of a run, which has a slow element or is short; it may use `key`
 *   ROW_SHORT           elements of a row that is processed as columns, at most
 *   FIRST_ALONE         a first element need not be combined with the identity
 *   ADDED(tile, in, columns, rows, first, stride)  adds rows to the first columns of a tile, faster
 *                       than the template does, or makes it of them; returns how many columns
 *   IN_PLACE            rows of every second or third element are read where they are
 *   OWN_TILE            tile_<NAME>() is defined before the include
 *   QUICK(a, b)         for operations where an element may count twice: COMBINE, except where an
 *   EITHER_SLOW(x, y)   element is slow: a run that has one is reduced again by COMBINE;
 *   SIGN(x)             an element's bits if its sign matters, else 0; INDEX is as wide
 *   VALUE_OF(value, signs)  QUICK's result with a zero's sign
 */
#define JOINED_(a, b) a##_##b
#define JOINED(a, b) JOINED_(a, b)
#define OF(function) JOINED(function, NAME)
#ifndef ANY_ORDER
#define ANY_ORDER false
#endif
#ifndef FIRST_ALONE
#define FIRST_ALONE false
#endif
#ifndef ADDED
#define ADDED(tile, in, columns, rows, first, stride) 0
#endif
#ifndef STAYS
#define STAYS(value) false
#endif
#ifndef ROW_SHORT
#define ROW_SHORT SHORT_ROW
#endif
#ifndef FINAL
#define FINAL(value) (value)
#endif
#ifndef SETTLED
#define SETTLED NULL
#endif

/* One value of LANES for each of `kept` interleaved elements: a slab, too rare for code in every
 * instruction set. */
static CPU_APART void OF(fold_kept)(VALUE *lanes, uint64_t kept, int64_t mask, VALUE *result) {
    (void)mask;
    for (uint64_t half = LANES / 2; half >= kept; half /= 2)
        for (uint64_t lane = 0; lane < half; lane++)
            lanes[lane] = APPLY(lanes[lane], lanes[lane + half]);
    memcpy(result, lanes, kept * sizeof *lanes);
}

#ifdef QUICK
/* A run of at least MANY elements; the last MANY overlap those before. Returns false if an element
 * is slow. Chains of a minimum are half as long as those that keep a NaN. */
CPU_INLINE bool OF(quick)(const ITEM *in, uint64_t n, int64_t key, int64_t mask, VALUE *result) {
    NARROW lanes[MANY];
    INDEX slow[MANY / 2] = {0}, signs[MANY] = {0}, any = 0, sign = 0;
    (void)key, (void)mask, (void)sign;
    for (int lane = 0; lane < (int)MANY; lane++)
        lanes[lane] = IDENTITY;
    /* From the second run on, at whole cache lines. */
    const uint64_t early = n > 16 * MANY ? (uintptr_t)in % CPU_LINE / sizeof(ITEM) : 0;
    for (uint64_t i = 0; i < n; i += i ? MANY : MANY - early) {
        const ITEM *run = in + least(i, n - MANY);
        for (int lane = 0; lane < (int)MANY; lane++) {
            const NARROW next = LOAD(run[lane]);
            lanes[lane] = QUICK(lanes[lane], next);
            signs[lane] |= (INDEX)SIGN(next);
        }
        for (int lane = 0; lane < (int)MANY / 2; lane++)
            slow[lane] |= (INDEX)EITHER_SLOW(run[lane], run[lane + MANY / 2]);
    }
    for (int lane = 0; lane < (int)MANY; lane++)
        sign |= signs[lane];
    for (int lane = 0; lane < (int)MANY / 2; lane++)
        any |= slow[lane];
    for (int half = MANY / 2; half > 0; half /= 2)
        for (int lane = 0; lane < half; lane++)
            lanes[lane] = QUICK(lanes[lane], lanes[lane + half]);
    *result = VALUE_OF(lanes[0], sign);
    return !any;
}
#endif

/* Reduces a run of at most ROW_LEAF elements to its value, or to those of `kept` interleaved
 * elements. Its lanes are folded to LANES before they are widened: each has BLOCK elements at most.
 */
CPU_INLINE void OF(leaf)(const ITEM *in, uint64_t n, uint64_t kept, const int64_t stride,
                         int64_t key, int64_t mask, VALUE *result) {
    NARROW lanes[MANY];
    VALUE wide[LANES];
    uint64_t i = 0;
    (void)key, (void)mask;
#ifdef QUICK
    if (kept == 1 && stride == 1 && n >= MANY && OF(quick)(in, n, key, mask, result))
        return;
#endif
    for (int lane = 0; lane < LANES; lane++)
        lanes[lane] = IDENTITY;
    if ((int)MANY > (int)LANES && n >= MANY) {
        for (int lane = LANES; lane < (int)MANY; lane++)
            lanes[lane] = IDENTITY;
        for (; i + MANY <= n; i += MANY) {
            for (int lane = 0; lane < (int)MANY; lane++) {
                const NARROW next = LOAD(in[(int64_t)(i + (uint64_t)lane) * stride]);
                lanes[lane] = COMBINE(lanes[lane], next);
            }
        }
        for (int half = MANY / 2; half >= LANES; half /= 2)
            for (int lane = 0; lane < half; lane++)
                lanes[lane] = COMBINE(lanes[lane], lanes[lane + half]);
    }
    for (; i + LANES <= n; i += LANES) {
        for (int lane = 0; lane < LANES; lane++) {
            const NARROW next = LOAD(in[(int64_t)(i + (uint64_t)lane) * stride]);
            lanes[lane] = COMBINE(lanes[lane], next);
        }
    }
    for (int lane = 0; i < n; i++, lane++) {
        const NARROW next = LOAD(in[(int64_t)i * stride]);
        lanes[lane] = COMBINE(lanes[lane], next);
    }
    for (int lane = 0; lane < LANES; lane++)
        wide[lane] = lanes[lane];
    if (kept > 1) {
        VALUE turns[LANES]; /* so that `wide` stays in registers */
        for (int lane = 0; lane < LANES; lane++)
            turns[lane] = wide[lane];
        OF(fold_kept)(turns, kept, mask, result);
    } else if (ANY_ORDER) {
        VALUE all = IDENTITY;
        for (int lane = 0; lane < LANES; lane++)
            all = APPLY(all, wide[lane]);
        *result = FINAL(all);
    } else {
        for (int half = LANES / 2; half > 0; half /= 2)
            for (int lane = 0; lane < half; lane++)
                wide[lane] = APPLY(wide[lane], wide[lane + half]);
        *result = FINAL(wide[0]);
    }
}

/* A run of a few elements, sequentially. */
CPU_INLINE void OF(few)(const ITEM *in, uint64_t n, const int64_t stride, int64_t key, int64_t mask,
                        VALUE *result) {
    NARROW all = IDENTITY;
    (void)key, (void)mask;
    for (uint64_t i = 0; i < n; i++) {
        const NARROW next = LOAD(in[(int64_t)i * stride]);
        all = COMBINE(all, next);
    }
    *result = all;
}
static CPU_APART void OF(few_kept)(const ITEM *in, uint64_t n, uint64_t kept, int64_t key,
                                   int64_t mask, VALUE *result) {
    (void)key, (void)mask;
    for (uint64_t lane = 0; lane < kept; lane++) {
        NARROW all = IDENTITY;
        for (uint64_t i = lane; i < n; i += kept) {
            const NARROW next = LOAD(in[i]);
            all = COMBINE(all, next);
        }
        result[lane] = all;
    }
}

typedef void OF(leaf_function)(const ITEM *in, uint64_t n, uint64_t kept, int64_t key, int64_t mask,
                               VALUE *result);

CPU_INLINE void OF(rows)(const struct part *part, VALUE *values, OF(leaf_function) * leaf) {
    const uint64_t n = part->end - part->first, kept = part->kept;
    const int64_t key = part->core_key, mask = part->mask;
    for (uint64_t row = 0; row < part->rows; row++, values += kept) {
        const ITEM *in = (const ITEM *)part->in + part->starts[row];
        if (n > ROW_FEW)
            leaf(in, n, kept, key, mask, values);
        else if (kept > 1)
            OF(few_kept)(in, n, kept, key, mask, values);
        else
            OF(few)(in, n, 1, key, mask, values);
    }
}

#ifdef IN_PLACE
static CPU_SCALAR void OF(strided)(const struct part *part, void *to) {
    const uint64_t n = part->end - part->first;
    const int64_t key = part->core_key, mask = part->mask;
    VALUE *values = to;
    for (uint64_t row = 0; row < part->rows; row++, values++) {
        const ITEM *in = (const ITEM *)part->in + part->starts[row];
        if (n > ROW_FEW)
            OF(leaf)(in, n, 1, part->stride, key, mask, values);
        else
            OF(few)(in, n, part->stride, key, mask, values);
    }
}
#endif

#ifndef OWN_TILE
/* Adds `columns` of one to four rows to a tile, or makes the tile of them. With each element, that
 * `ahead` bytes after it is prefetched. */
CPU_INLINE void OF(add_some)(NARROW *restrict tile, const ITEM *in, uint64_t columns,
                             const int rows, const bool first, uint64_t ahead, int64_t stride,
                             int64_t key, int64_t mask) {
    const ITEM *b = in + stride, *c = b + stride, *d = c + stride;
    const uint64_t step = ahead ? PREFETCHED_BYTES / sizeof(ITEM) : columns;
    (void)key, (void)mask;
    for (uint64_t i = 0, end; i < columns; i = end) {
        end = least(i + step, columns);
        if (ahead)
            axis_prefetch(in + i, rows, stride * (int64_t)sizeof(ITEM), ahead);
        for (uint64_t k = i + ADDED(tile + i, in + i, end - i, rows, first, stride); k < end; k++) {
            NARROW next = LOAD(in[k]), all = next;
            if (!first || !FIRST_ALONE) {
                all = IDENTITY;
                if (!first)
                    all = tile[k];
                all = COMBINE(all, next);
            }
            if (rows > 1) {
                next = LOAD(b[k]);
                all = COMBINE(all, next);
            }
            if (rows > 2) {
                next = LOAD(c[k]);
                all = COMBINE(all, next);
            }
            if (rows > 3) {
                next = LOAD(d[k]);
                all = COMBINE(all, next);
            }
            tile[k] = all;
        }
    }
}

/* Adds rows of a tile's columns to it. The first two or four make the tile; fours follow, and what
 * remains. */
CPU_INLINE void OF(add_rows)(NARROW *tile, const ITEM *in, uint64_t rows, uint64_t columns,
                             bool first, uint64_t ahead, int64_t stride, int64_t key,
                             int64_t mask) {
    const bool alone = ahead == ROW_AHEAD;
    uint64_t k = 0;
    if (first && (rows == 1 || alone)) {
        for (uint64_t i = 0; i < columns; i++)
            tile[i] = IDENTITY;
    } else if (first && rows % 4 > 1) {
        OF(add_some)(tile, in, columns, 2, true, ahead, stride, key, mask);
        k = 2;
    } else if (first) {
        OF(add_some)(tile, in, columns, 4, true, ahead, stride, key, mask);
        k = 4;
    }
    in += (int64_t)k * stride;
    for (; !alone && k + 4 <= rows; k += 4, in += 4 * stride)
        OF(add_some)(tile, in, columns, 4, false, ahead, stride, key, mask);
    for (; k < rows; k++, in += stride)
        OF(add_some)(tile, in, columns, 1, false, ahead, stride, key, mask);
}

/* At most VALUES_BYTES of values, in rows of at most BLOCK. */
CPU_INLINE void OF(tile)(const struct axis_functions *functions, const struct part *part,
                         const void *from, VALUE *restrict values) {
    const uint64_t rows = part->end - part->first, columns = part->columns;
    const uint64_t together = part->copies ? LEAF / columns : rows;
    const int64_t stride = part->copies ? (int64_t)columns : part->stride;
    enum { SAME = sizeof(NARROW) == sizeof(VALUE) };
    NARROW narrow[SAME ? 1 : VALUES_BYTES / sizeof(VALUE)];
    NARROW *tile = SAME ? (NARROW *)values : narrow;
    for (uint64_t r = 0; r < rows; r += together) {
        const uint64_t count = least(rows - r, together);
        const void *in = from;
        if (part->copies) {
            in = axis_columns(functions, part, from, count);
            from = items_after(functions, from, (int64_t)count * part->stride);
        }
        OF(add_rows)
        (tile, in, count, columns, r == 0, part->columns_ahead, stride, part->core_key, part->mask);
    }
    for (uint64_t i = 0; !SAME && i < columns; i++)
        values[i] = tile[i];
}
#endif

CPU_INLINE void OF(tiles)(const struct axis_functions *functions, const struct part *part,
                          VALUE *values) {
    for (uint64_t row = 0; row < part->rows; row++, values += part->columns)
        OF(tile)(functions, part, items_after(functions, part->in, part->starts[row]), values);
}

#define ISA_FUNCTIONS(isa, target, bytes, prefix, here, name)                                      \
    target static void leaf_##name##_##isa(const ITEM *in, uint64_t n, uint64_t kept, int64_t key, \
                                           int64_t mask, VALUE *result) {                          \
        leaf_##name(in, n, kept, 1, key, mask, result);                                            \
    }                                                                                              \
    target static void rows_##name##_##isa(const struct axis_functions *functions,                 \
                                           const struct part *part, void *values) {                \
        (void)functions;                                                                           \
        rows_##name(part, values, leaf_##name##_##isa);                                            \
    }                                                                                              \
    target static void tiles_##name##_##isa(const struct axis_functions *functions,                \
                                            const struct part *part, void *values) {               \
        tiles_##name(functions, part, values);                                                     \
    }
#define ISA_ROWS(isa, target, bytes, prefix, here, name) rows_##name##_##isa,
#define ISA_TILES(isa, target, bytes, prefix, here, name) tiles_##name##_##isa,
CPU_ISAS(ISA_FUNCTIONS, NAME)

static void OF(nothing)(void *value) { *(VALUE *)value = IDENTITY; }

static void OF(apply)(void *to, const void *from, uint64_t count, int64_t mask) {
    VALUE *restrict left = to;
    const VALUE *restrict right = from;
    (void)mask;
    for (uint64_t i = 0; i < count; i++) { /* without branches: gcc vectorizes it */
        const VALUE a = left[i], b = right[i], both = APPLY(a, b), other = STAYS(b) ? b : both;
        left[i] = STAYS(a) ? a : other;
    }
}

const struct axis_core OF(axis) = {
    .rows = {CPU_ISAS(ISA_ROWS, NAME)},
    .tiles = {CPU_ISAS(ISA_TILES, NAME)},
#ifdef IN_PLACE
    .strided = OF(strided),
#endif
    .nothing = OF(nothing),
    .apply = OF(apply),
    .settled = SETTLED,
    .item_size = sizeof(ITEM),
    .value_size = sizeof(VALUE),
    .leaf = ROW_LEAF,
    .short_row = ROW_SHORT,
};

#undef NAME
#undef ITEM
#undef NARROW
#undef VALUE
#undef IDENTITY
#undef MANY
#undef ANY_ORDER
#undef FIRST_ALONE
#undef ADDED
#undef STAYS
#undef FINAL
#undef SETTLED
#undef OWN_TILE
#undef IN_PLACE
#undef ROW_SHORT
#undef QUICK
#undef EITHER_SLOW
#undef SIGN
#undef VALUE_OF
#undef OF
#undef JOINED
#undef JOINED_
#undef ISA_FUNCTIONS
#undef ISA_ROWS
#undef ISA_TILES

/* sim_printf.c: text that kernels print. A call of vprintf passes the address of a format and of
 * its arguments, each aligned to its size, in memory of the calling thread. The text follows C's
 * rules for the conversions of CUDA's printf and goes to the report, never to the host's output.
 * Formats and addresses are untrusted. The report holds the blocks' texts by block index, each in
 * order of time. Failed assertions add such texts too.
 */
#include "sim_exec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MOST (1u << 20)       /* bytes of a launch */
#define BLOCK_TEXT_MOST (1u << 18) /* bytes of a block */
#define WIDTH_MOST 512             /* of a conversion; also its precision */
#define STRING_MOST 4096           /* bytes of an assertion's text, or of its file's name */

static const char cut[] = "\n[output truncated]\n";

/* ---- simulated memory ---- */

struct reader {
    struct sim_worker *w;
    const struct sim_warp *warp;
    uint32_t lane;
};

/* Host address of bytes that the thread may read; NULL: it may not. */
static const uint8_t *place(const struct reader *r, uint64_t address, uint64_t bytes) {
    const struct sim_warp *warp = r->warp;
    if (address < SIM_WINDOW_BASE) {
        const struct sim_region *region = sim_memory_find(r->w->run->gpu, address);
        return region && bytes <= region->bytes - (address - region->base)
                   ? region->host + (address - region->base)
                   : NULL;
    }
    uint64_t at = address - SIM_SHARED_WINDOW;
    if (at < warp->block->shared_bytes)
        return bytes <= warp->block->shared_bytes - at ? warp->block->shared + at : NULL;
    at = address - SIM_LOCAL_WINDOW;
    return at < warp->local_top && bytes <= warp->local_top - at
               ? warp->local + (uint64_t)r->lane * warp->local_stride + at
               : NULL;
}

/* ---- text ---- */

static void put(struct sim_text *t, const char *from, size_t bytes) {
    if (t->cut)
        return;
    if (bytes > BLOCK_TEXT_MOST - t->bytes) {
        bytes = BLOCK_TEXT_MOST - t->bytes;
        t->cut = 1;
    }
    if (t->bytes + bytes > t->capacity) {
        size_t capacity = 2 * t->capacity + bytes + 64;
        char *grown = realloc(t->data, capacity);
        if (!grown) {
            t->cut = t->lost = 1;
            return;
        }
        t->data = grown;
        t->capacity = capacity;
    }
    if (bytes)
        memcpy(t->data + t->bytes, from, bytes);
    t->bytes += bytes;
}

/* ---- conversions ---- */

struct conversion {
    char flags[8];
    int width, precision; /* -1: none */
    int wide, narrow;     /* 8 bytes; 1 for h, 2 for hh */
    char letter;
};

struct printing {
    struct reader reader;
    struct sim_text *text;
    uint64_t arguments; /* the next one's address */
    int count;
};

static int next_argument(struct printing *p, uint64_t bytes, uint64_t *value) {
    p->arguments = (p->arguments + bytes - 1) & ~(bytes - 1);
    const uint8_t *from = place(&p->reader, p->arguments, bytes);
    *value = 0;
    if (from)
        memcpy(value, from, (size_t)bytes);
    p->arguments += bytes;
    p->count++;
    return from != NULL;
}

static int number(const char **at, const char *end) {
    int value = 0;
    for (; *at < end && **at >= '0' && **at <= '9'; ++*at)
        value = value < WIDTH_MOST ? value * 10 + (**at - '0') : value;
    return value < WIDTH_MOST ? value : WIDTH_MOST;
}

static int clamp(uint64_t argument) {
    int value = (int)(uint32_t)argument;
    return value > WIDTH_MOST ? WIDTH_MOST : value < -WIDTH_MOST ? -WIDTH_MOST : value;
}

/* Parses a conversion after its %. Returns 0 if an argument cannot be read. */
static int read_conversion(struct printing *p, const char **at, const char *end,
                           struct conversion *c) {
    size_t flags = 0;
    uint64_t value;
    *c = (struct conversion){.width = -1, .precision = -1};
    for (; *at < end && **at && strchr("-+ #0", **at); ++*at)
        if (!strchr(c->flags, **at))
            c->flags[flags++] = **at;
    if (*at < end && **at == '*') {
        ++*at;
        if (!next_argument(p, 4, &value))
            return 0;
        c->width = clamp(value);
        if (c->width < 0) { /* as C defines it: the flag, and the absolute value */
            c->width = -c->width;
            if (!strchr(c->flags, '-'))
                c->flags[flags] = '-';
        }
    } else if (*at < end && **at >= '0' && **at <= '9') {
        c->width = number(at, end);
    }
    if (*at < end && **at == '.') {
        ++*at;
        if (*at < end && **at == '*') {
            ++*at;
            if (!next_argument(p, 4, &value))
                return 0;
            c->precision = clamp(value) < 0 ? -1 : clamp(value);
        } else {
            c->precision = number(at, end);
        }
    }
    for (; *at < end && **at && strchr("hljztL", **at); ++*at) {
        c->narrow += **at == 'h' && c->narrow < 2;
        c->wide |= **at != 'h' && **at != 'L';
    }
    c->letter = *at < end ? **at : 0;
    *at += *at < end;
    return 1;
}

/* Spells the conversion for the host's printf, its integers as long long. */
static void spell(const struct conversion *c, const char *size, char *format, size_t bytes) {
    int n = snprintf(format, bytes, "%%%s", c->flags);
    if (c->width >= 0)
        n += snprintf(format + n, bytes - (size_t)n, "%d", c->width);
    if (c->precision >= 0)
        n += snprintf(format + n, bytes - (size_t)n, ".%d", c->precision);
    snprintf(format + n, bytes - (size_t)n, "%s%c", size, c->letter);
}

static int put_string(struct printing *p, const struct conversion *c) {
    char small[WIDTH_MOST + 1];
    uint64_t address;
    size_t length = 0, most = c->precision >= 0 ? (size_t)c->precision : BLOCK_TEXT_MOST;
    if (!next_argument(p, 8, &address))
        return 0;
    const char *from = "(null)";
    if (address) {
        const uint8_t *byte;
        for (; length < most; length++) {
            if (!(byte = place(&p->reader, address + length, 1)))
                return 0;
            if (!*byte)
                break;
        }
        from = length ? (const char *)place(&p->reader, address, length) : "";
        if (!from)
            return 0;
    } else {
        length = most < 6 ? most : 6;
    }
    size_t width = c->width > 0 ? (size_t)c->width : 0, pad = width > length ? width - length : 0;
    memset(small, ' ', sizeof small);
    if (!strchr(c->flags, '-'))
        put(p->text, small, pad);
    put(p->text, from, length);
    if (strchr(c->flags, '-'))
        put(p->text, small, pad);
    return 1;
}

/* Returns 0 if an argument cannot be read. */
/* An integer argument as its length modifier narrows it. */
static uint64_t narrowed(const struct conversion *c, uint64_t bits) {
    if (c->letter == 'd' || c->letter == 'i')
        return c->narrow == 2 ? (uint64_t)(int8_t)bits
               : c->narrow    ? (uint64_t)(int16_t)bits
               : c->wide      ? bits
                              : (uint64_t)(int32_t)bits;
    return c->narrow == 2 ? bits & 0xff : c->narrow ? bits & 0xffff : bits;
}

static int convert(struct printing *p, const struct conversion *c) {
    char format[64],
        made[2 * WIDTH_MOST + 400]; /* a double has up to 309 digits before the point */
    uint64_t bits;
    double real;
    int n = 0;
    switch (c->letter) {
    case '%':
        put(p->text, "%", 1);
        return 1;
    case 's':
        return put_string(p, c);
    case 'd':
    case 'i':
    case 'u':
    case 'o':
    case 'x':
    case 'X':
        if (!next_argument(p, c->wide ? 8 : 4, &bits))
            return 0;
        spell(c, "ll", format, sizeof format);
        n = snprintf(made, sizeof made, format, (long long)narrowed(c, bits));
        break;
    case 'c':
        if (!next_argument(p, 4, &bits))
            return 0;
        spell(c, "", format, sizeof format);
        n = snprintf(made, sizeof made, format, (int)(uint8_t)bits);
        break;
    case 'p':
        if (!next_argument(p, 8, &bits))
            return 0;
        spell(c, "", format, sizeof format);
        n = snprintf(made, sizeof made, format, (void *)(uintptr_t)bits);
        break;
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
    case 'a':
    case 'A':
        if (!next_argument(p, 8, &bits))
            return 0;
        memcpy(&real, &bits, sizeof real);
        spell(c, "", format, sizeof format);
        n = snprintf(made, sizeof made, format, real);
        break;
    default: /* no conversion of CUDA's: printed as written */
        if (c->letter)
            spell(c, "", format, sizeof format);
        put(p->text, c->letter ? format : "%", c->letter ? strlen(format) : 1);
        return 1;
    }
    if (n > 0)
        put(p->text, made, (size_t)n < sizeof made ? (size_t)n : sizeof made - 1);
    return 1;
}

/* Prints for one thread. Returns 0 if an argument or string cannot be read. */
static int print(struct printing *p, uint64_t address, int *returned) {
    const uint8_t *byte;
    size_t length = 0;
    *returned = -1;
    if (!address)
        return 1;
    for (; (byte = place(&p->reader, address + length, 1)) && *byte && length < BLOCK_TEXT_MOST;)
        length++;
    const char *at = (const char *)place(&p->reader, address, length + 1), *end = at + length;
    if (!byte || !at)
        return 0;
    while (at < end) {
        const char *percent = memchr(at, '%', (size_t)(end - at));
        struct conversion c;
        put(p->text, at, (size_t)((percent ? percent : end) - at));
        if (!percent)
            break;
        at = percent + 1;
        if (!read_conversion(p, &at, end, &c) || !convert(p, &c))
            return 0;
    }
    *returned = p->count;
    return 1;
}

int sim_printf_call(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                    uint32_t pc, uint32_t mask, uint32_t local_base) {
    for (uint32_t m = mask; m; m &= m - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(m);
        uint8_t *frame = warp->local + (uint64_t)lane * warp->local_stride + local_base;
        uint64_t format;
        int returned;
        struct printing p = {.reader = {w, warp, lane}, .text = &warp->block->text};
        memcpy(&format, frame + (uint32_t)(uint64_t)in->imm, sizeof format);
        memcpy(&p.arguments, frame + (uint32_t)((uint64_t)in->imm >> 32), sizeof p.arguments);
        if (!print(&p, format, &returned) &&
            sim_find(w, warp, pc, lane, SIM_FIND_OUT_OF_BOUNDS, p.arguments, NULL,
                     "printf reads a format, an argument or a string where the thread has no "
                     "memory"))
            return 1;
        if (in->b != SIM_NO_SLOT) {
            memcpy(frame + in->b, &returned, sizeof returned);
            sim_warp_mark_local(warp, (uint64_t)lane * warp->local_stride + local_base + in->b, 4);
        }
    }
    return 0;
}

/* ---- assertions ---- */

/* Copies the thread's string, or its last characters if it is too long; empty where it cannot be
 * read. */
static void copy_end(const struct reader *r, uint64_t address, char *to, size_t bytes) {
    const uint8_t *byte;
    size_t length = 0, least = 0;
    while (length < STRING_MOST && (byte = place(r, address + length, 1)) && *byte)
        length++;
    if (length >= bytes)
        least = length - bytes + 1;
    for (size_t i = least; i < length; i++)
        to[i - least] = (char)*place(r, address + i, 1);
    to[length - least] = 0;
}

int sim_assert_call(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                    uint32_t pc, uint32_t mask, uint32_t local_base) {
    const uint32_t lane = (uint32_t)__builtin_ctz(mask), *places = &w->run->kernel->extra[in->ext];
    const uint8_t *frame = warp->local + (uint64_t)lane * warp->local_stride + local_base;
    const struct reader reader = {w, warp, lane};
    char expression[128], file[80];
    uint64_t addresses[2];
    uint32_t line;
    for (int i = 0; i < 2; i++)
        memcpy(&addresses[i], frame + places[i], sizeof addresses[i]);
    memcpy(&line, frame + places[2], sizeof line);
    copy_end(&reader, addresses[0], expression, sizeof expression);
    copy_end(&reader, addresses[1], file, sizeof file);
    return sim_find(w, warp, pc, lane, SIM_FIND_ASSERT, 0, NULL, "%s, at %s:%u", expression, file,
                    line);
}

/* ---- a launch's text ---- */

static int by_block(const void *a, const void *b) {
    const struct sim_text *x = a, *y = b;
    return (x->block > y->block) - (x->block < y->block);
}

/* Sorts the texts, and drops those that cannot appear in the report, whatever follows. */
static void prune(struct sim_run *run) {
    size_t kept = 0;
    uint64_t bytes = 0;
    qsort(run->texts, run->text_count, sizeof *run->texts, by_block);
    while (kept < run->text_count && bytes <= TEXT_MOST)
        bytes += run->texts[kept++].bytes;
    for (size_t i = kept; i < run->text_count; i++)
        free(run->texts[i].data);
    run->text_count = kept;
    run->text_bytes = bytes;
}

int sim_printf_note(struct sim_run *run, struct sim_block *block) {
    if (!block->text.bytes)
        return !block->text.lost;
    struct sim_text *texts =
        sim_grow(NULL, run->texts, &run->text_capacity, run->text_count + 1, sizeof *texts);
    if (!texts)
        return 0;
    run->texts = texts;
    int lost = block->text.lost;
    block->text.block = block->linear;
    run->texts[run->text_count++] = block->text;
    run->text_bytes += block->text.bytes;
    memset(&block->text, 0, sizeof block->text);
    if (run->text_bytes > 4 * TEXT_MOST)
        prune(run);
    return !lost;
}

int sim_printf_report(struct sim_run *run, char **text) {
    uint64_t bytes = 0;
    int is_cut = 0;
    *text = NULL;
    for (struct sim_block *b = run->ring; b; b = b->next) /* blocks that a failure ended */
        if (!sim_printf_note(run, b))
            return 0;
    if (!run->text_count)
        return 1;
    prune(run);
    char *all = malloc((size_t)run->text_bytes + sizeof cut);
    if (!all)
        return 0;
    for (size_t i = 0; i < run->text_count && !is_cut; i++) {
        memcpy(all + bytes, run->texts[i].data, run->texts[i].bytes);
        bytes += run->texts[i].bytes;
        if (bytes > TEXT_MOST) {
            bytes = TEXT_MOST;
            is_cut = 1;
        } else if (run->texts[i].cut) {
            is_cut = 1;
        }
    }
    memcpy(all + bytes, is_cut ? cut : "", is_cut ? sizeof cut : 1);
    *text = all;
    return 1;
}

void sim_printf_close(struct sim_run *run) {
    for (size_t i = 0; i < run->text_count; i++)
        free(run->texts[i].data);
    free(run->texts);
}

/* sim_cache_lines.h: a cache of sets of lines, each with valid and dirty sectors. The least
 * recently used line of a set goes. sim_caches.c replays accesses through several.
 */
#ifndef SIM_CACHE_LINES_H
#define SIM_CACHE_LINES_H

#include "sim_observe.h"

#include <stdlib.h>
#include <string.h>

enum { LINE = 4 * SIM_SECTOR };

/* In a set the most recently used line is first. */
struct cache {
    uint32_t *tags;  /* line + 1; 0: empty */
    uint8_t *states; /* valid sectors, and those that are dirty, shifted by 4 */
    uint32_t *asked; /* when the last miss was, in requests of the multiprocessor, and its level in
                        the two low bits; NULL: not kept */
    uint32_t sets, ways;
};

static int cache_open(struct cache *c, uint64_t bytes, uint32_t ways, int asked) {
    c->ways = ways;
    c->sets = (uint32_t)(bytes / LINE / ways);
    if (!c->sets)
        return 1;
    c->tags = calloc((size_t)c->sets * ways, sizeof *c->tags);
    c->states = calloc((size_t)c->sets * ways, 1);
    if (asked)
        c->asked = calloc((size_t)c->sets * ways, sizeof *c->asked);
    return c->tags && c->states && (c->asked || !asked);
}

static void cache_close(struct cache *c) {
    free(c->tags);
    free(c->states);
    free(c->asked);
}

/* Spreads lines over the sets, powers of two apart as well. */
static uint32_t cache_set(const struct cache *c, uint32_t line) {
    const uint32_t mixed = (line ^ line >> 15) * 0x9e3779b1u;
    return (uint32_t)((uint64_t)(mixed ^ mixed >> 16) * c->sets >> 32);
}

/* A line becomes the most recently used of its set. */
static void cache_front(struct cache *c, size_t at, uint32_t way, uint32_t line) {
    const uint8_t state = c->states[at + way];
    memmove(c->tags + at + 1, c->tags + at, way * sizeof *c->tags);
    memmove(c->states + at + 1, c->states + at, way);
    c->tags[at] = line + 1;
    c->states[at] = state;
    if (c->asked) {
        const uint32_t asked = c->asked[at + way];
        memmove(c->asked + at + 1, c->asked + at, way * sizeof *c->asked);
        c->asked[at] = asked;
    }
}

/* The index of a line, which becomes the most recently used; SIZE_MAX if it is not in the cache. */
static size_t cache_find(struct cache *c, uint32_t line) {
    const size_t at = (size_t)cache_set(c, line) * c->ways;
    uint32_t way = 0;
    while (way < c->ways && c->tags[at + way] != line + 1)
        way++;
    if (way == c->ways)
        return SIZE_MAX;
    if (way)
        cache_front(c, at, way, line);
    return at;
}

/* The same, but adds a line that is missing, without any sector; *dirty: sectors of the one that
 * goes. */
static size_t cache_take(struct cache *c, uint32_t line, uint32_t *dirty) {
    size_t at = cache_find(c, line);
    *dirty = 0;
    if (at != SIZE_MAX)
        return at;
    at = (size_t)cache_set(c, line) * c->ways;
    *dirty = c->states[at + c->ways - 1] >> 4;
    cache_front(c, at, c->ways - 1, line);
    c->states[at] = 0;
    return at;
}

#endif

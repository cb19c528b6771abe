/* sim_cache_lines.h: a cache of sets of lines, each with valid and dirty sectors. The least
 * recently used line of a set goes. sim_caches.c replays accesses through several.
 */
#ifndef SIM_CACHE_LINES_H
#define SIM_CACHE_LINES_H

#include "sim_observe.h"

#include <stdlib.h>
#include <string.h>

enum { LINE = 4 * SIM_SECTOR, USUAL_WAYS = 16, HOST_LINE = 64 };

/* In a set the most recently used line is first. */
struct cache {
    uint32_t *tags;  /* line + 1; 0: empty; a set of 16 is one line of the host's cache */
    void *room;      /* that holds them */
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
    c->room = calloc((size_t)c->sets * ways + HOST_LINE, sizeof *c->tags);
    c->tags = (uint32_t *)(((uintptr_t)c->room + HOST_LINE - 1) & ~(uintptr_t)(HOST_LINE - 1));
    c->states = calloc((size_t)c->sets * ways, 1);
    if (asked)
        c->asked = calloc((size_t)c->sets * ways, sizeof *c->asked);
    return c->room && c->states && (c->asked || !asked);
}

static void cache_close(struct cache *c) {
    free(c->room);
    free(c->states);
    free(c->asked);
}

/* Spreads lines over the sets, powers of two apart as well. */
static uint32_t cache_set(const struct cache *c, uint32_t line) {
    const uint32_t mixed = (line ^ line >> 15) * 0x9e3779b1u;
    return (uint32_t)((uint64_t)(mixed ^ mixed >> 16) * c->sets >> 32);
}

/* Fetches the tags of a line's set, which will be needed soon. */
static void cache_expect(const struct cache *c, uint32_t line) {
    if (c->sets)
        __builtin_prefetch(c->tags + (size_t)cache_set(c, line) * c->ways, 1);
}

/* A line becomes the most recently used of its set. The usual last way has constant sizes, whose
 * copies are inlined. */
static void cache_front(struct cache *c, size_t at, uint32_t way, uint32_t line) {
    const uint8_t state = c->states[at + way];
    const uint32_t asked = c->asked ? c->asked[at + way] : 0;
    uint32_t *tags = c->tags + at, *times = c->asked ? c->asked + at : NULL;
    uint8_t *states = c->states + at;
    if (way == USUAL_WAYS - 1) {
        memmove(tags + 1, tags, (USUAL_WAYS - 1) * sizeof *tags);
        memmove(states + 1, states, USUAL_WAYS - 1);
        if (times)
            memmove(times + 1, times, (USUAL_WAYS - 1) * sizeof *times);
    } else { /* most lines are near the front */
        for (uint32_t i = way; i; i--) {
            tags[i] = tags[i - 1];
            states[i] = states[i - 1];
            if (times)
                times[i] = times[i - 1];
        }
    }
    tags[0] = line + 1;
    states[0] = state;
    if (times)
        times[0] = asked;
}

/* The way of a line in the set that begins at `at`; `ways`: it is not there. The usual number is
 * compared four at a time. */
static uint32_t cache_way(const struct cache *c, size_t at, uint32_t line) {
    typedef uint32_t four __attribute__((vector_size(16)));
    const uint32_t *tags = c->tags + at, tag = line + 1;
    uint32_t way = 0;
    if (c->ways == USUAL_WAYS) {
        const four wanted = {tag, tag, tag, tag}, *sets = (const four *)(const void *)tags;
        four found = {0}, bits = {1, 2, 4, 8};
        for (int i = 0; i < USUAL_WAYS / 4; i++, bits <<= 4)
            found |= (four)(sets[i] == wanted) & bits;
        const uint32_t any = found[0] | found[1] | found[2] | found[3];
        return any ? (uint32_t)__builtin_ctz(any) : USUAL_WAYS;
    }
    while (way < c->ways && tags[way] != line + 1)
        way++;
    return way;
}

/* The index of a line, which becomes the most recently used; SIZE_MAX if it is not in the cache. */
static size_t cache_find(struct cache *c, uint32_t line) {
    const size_t at = (size_t)cache_set(c, line) * c->ways;
    const uint32_t way = cache_way(c, at, line);
    if (way == c->ways)
        return SIZE_MAX;
    if (way)
        cache_front(c, at, way, line);
    return at;
}

/* Adds a line that is missing, without any sector; *dirty: sectors of the one that goes. */
static size_t cache_add(struct cache *c, uint32_t line, uint32_t *dirty) {
    const size_t at = (size_t)cache_set(c, line) * c->ways;
    *dirty = c->states[at + c->ways - 1] >> 4;
    cache_front(c, at, c->ways - 1, line);
    c->states[at] = 0;
    return at;
}

/* The index of a line, which is added where it is missing. */
static size_t cache_take(struct cache *c, uint32_t line, uint32_t *dirty) {
    const size_t at = cache_find(c, line);
    *dirty = 0;
    return at != SIZE_MAX ? at : cache_add(c, line, dirty);
}

#endif

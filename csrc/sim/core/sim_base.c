/* sim_base.c: error texts, bounded arenas, the type table and checked arithmetic, for every other
 * file of the simulator. Knows no kernel, no warp and no PTX grammar.
 */
#include "sim_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum sim_status sim_fail(struct sim_error *error, enum sim_status status, unsigned line,
                         unsigned column, const char *format, ...) {
    if (error) {
        va_list list;
        error->status = status;
        error->line = line;
        error->column = column;
        va_start(list, format);
        vsnprintf(error->text, sizeof error->text, format, list);
        va_end(list);
        /* names come from untrusted text: keep the output printable */
        for (char *p = error->text; *p; p++)
            if ((unsigned char)*p < 32 || (unsigned char)*p > 126)
                *p = '?';
    }
    return status;
}

int sim_add(uint64_t a, uint64_t b, uint64_t *sum) { return !__builtin_add_overflow(a, b, sum); }

int sim_multiply(uint64_t a, uint64_t b, uint64_t *product) {
    return !__builtin_mul_overflow(a, b, product);
}

struct sim_chunk {
    struct sim_chunk *next;
    size_t used, size;
    uint64_t align_[1];
};

void *sim_arena_alloc(struct sim_arena *arena, uint64_t count, uint64_t size) {
    uint64_t bytes;
    if (!sim_multiply(count, size, &bytes) || bytes > arena->limit)
        return NULL;
    bytes = (bytes + 63) & ~63ull;
    struct sim_chunk *chunk = arena->chunks;
    if (!chunk || chunk->size - chunk->used < bytes) {
        /* Chunks grow with the arena: a short text costs little. */
        uint64_t room = arena->used < 4096 ? 4096 : arena->used < 65536 ? arena->used : 65536;
        room = bytes > room ? bytes : room;
        if (bytes > arena->limit - arena->used || arena->used > arena->limit)
            return NULL;
        chunk = calloc(1, sizeof *chunk + 64 + room);
        if (!chunk) {
            arena->host_is_full = 1;
            return NULL;
        }
        chunk->size = room;
        chunk->next = arena->chunks;
        arena->chunks = chunk;
        arena->used += room < arena->limit - arena->used ? room : arena->limit - arena->used;
    }
    uintptr_t base = ((uintptr_t)(chunk + 1) + 63) & ~(uintptr_t)63;
    void *made = (char *)(chunk + 1) + (base - (uintptr_t)(chunk + 1)) + chunk->used;
    chunk->used += bytes;
    return made;
}

enum sim_status sim_arena_why(const struct sim_arena *arena, char *text, size_t bytes) {
    if (arena->host_is_full)
        snprintf(text, bytes, "the host has");
    else
        snprintf(text, bytes, "the limit of %llu bytes", (unsigned long long)arena->limit);
    return arena->host_is_full ? SIM_NO_MEMORY : SIM_LIMIT;
}

void sim_arena_free(struct sim_arena *arena) {
    while (arena->chunks) {
        struct sim_chunk *next = arena->chunks->next;
        free(arena->chunks);
        arena->chunks = next;
    }
    arena->used = 0;
}

int sim_name_is(struct sim_name name, const char *text) {
    return strlen(text) == name.length && memcmp(text, name.text, name.length) == 0;
}

uint32_t sim_hash(const char *text, size_t length) {
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    return hash ^ hash >> 15;
}

void *sim_grow(struct sim_arena *arena, void *old, uint32_t *capacity, uint32_t need, size_t size) {
    if (need <= *capacity)
        return old;
    uint32_t wanted = *capacity ? *capacity * 2 : 16;
    if (wanted < need)
        wanted = need;
    void *made = arena ? sim_arena_alloc(arena, wanted, size) : realloc(old, wanted * size);
    if (!made)
        return NULL;
    if (arena && old)
        memcpy(made, old, (size_t)*capacity * size);
    *capacity = wanted;
    return made;
}

const struct sim_type_info sim_types[SIM_T_COUNT] = {
#define SIM_X(id, name, bytes, class) {name, bytes, SIM_C_##class},
    SIM_TYPES(SIM_X)
#undef SIM_X
};

enum sim_type sim_type_find(const char *name, size_t length) {
    for (int i = SIM_T_PRED; i < SIM_T_COUNT; i++)
        if (strlen(sim_types[i].name) == length && memcmp(sim_types[i].name, name, length) == 0)
            return (enum sim_type)i;
    return SIM_T_NONE;
}

static const char *const special_names[SIM_SPECIAL_COUNT] = {
#define SIM_X(id, name) name,
    SIM_SPECIALS(SIM_X)
#undef SIM_X
};

int sim_special_find(const char *name, size_t length) {
    for (int i = 0; i < SIM_SPECIAL_COUNT; i++)
        if (strlen(special_names[i]) == length && memcmp(special_names[i], name, length) == 0)
            return i;
    /* set by the driver, and performance counters: 0 */
    if ((length > 3 && memcmp(name, "%pm", 3) == 0) ||
        (length > 7 && memcmp(name, "%envreg", 7) == 0))
        return SIM_SPECIAL_ENVREG_ZERO;
    return -1;
}

static const char *const status_texts[SIM_STATUS_COUNT] = {
#define SIM_X(id, text) text,
    SIM_STATUSES(SIM_X)
#undef SIM_X
};

const char *sim_status_text(enum sim_status status) {
    return (unsigned)status < SIM_STATUS_COUNT ? status_texts[status] : "unknown status";
}

static const char *const finding_texts[SIM_FIND_COUNT] = {
#define SIM_X(id, text) text,
    SIM_FINDINGS(SIM_X)
#undef SIM_X
};

const char *sim_finding_text(enum sim_finding_kind kind) {
    return (unsigned)kind < SIM_FIND_COUNT ? finding_texts[kind] : "unknown finding";
}

static const char *const counter_names[] = {
#define SIM_X(field, metric, meaning) #field,
    SIM_COUNTERS(SIM_X)
#undef SIM_X
};

size_t sim_counter_count(void) { return sizeof counter_names / sizeof *counter_names; }
const char *sim_counter_name(size_t i) { return i < sim_counter_count() ? counter_names[i] : NULL; }

void sim_default_limits(struct sim_limits *limits) {
    *limits = (struct sim_limits){
        .ptx_bytes = 256ull << 20,
        .parse_bytes = 1024ull << 20,
        .registers = 1u << 18,
        .instructions = 1u << 21,
        .device_bytes = 64ull << 30,
        .launch_bytes = 4ull << 30,
        .local_bytes = 512u << 10,
        .call_depth = 512,
        .steps = 1ull << 40,
        .findings = 100,
    };
}

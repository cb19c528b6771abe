/* sim_heap.c: the memory that kernels allocate with malloc: one region of a simulated GPU, of the
 * size that CUDA gives it by default. It lives as long as the GPU, as on hardware. Blocks have
 * sizes of powers of two, each with a unit behind it that nobody owns; freed ones of a size are
 * used again, the oldest first, once KEPT bytes of them are free, so that a stale pointer finds
 * nobody's memory. Only the block that holds the launch's token takes and gives, so results do not
 * depend on the host's threads.
 */
#include "sim_run.h"

#include <stdio.h>
#include <stdlib.h>

#define HEAP_BYTES (8ull << 20)
#define LEAST 16ull
#define UNITS (HEAP_BYTES / LEAST)
#define CLASSES 24u
#define KEPT (64ull << 10)
#define SITES 255u

struct sim_heap {
    uint64_t base, next; /* offset of the part that was never allocated */
    struct {
        uint32_t first, last, count; /* blocks, by their first units */
    } freed[CLASSES];
    uint32_t after[UNITS]; /* the block freed after it */
    uint32_t bytes[UNITS]; /* that malloc returned for the block that begins here */
    uint8_t class[UNITS];  /* 1 + class of the block that begins here; 0: none */
    uint8_t site[UNITS];   /* 1 + place in `sites` where it was freed; 0: it is in use */
    uint8_t live[UNITS];   /* bytes of the unit that a block in use owns, from its start */
    uint32_t site_count;
    char sites[SITES][100]; /* the last one also serves all further ones */
};

enum sim_status sim_heap_open(struct sim_gpu *gpu, struct sim_error *error) {
    if (gpu->heap)
        return SIM_OK;
    struct sim_heap *heap = calloc(1, sizeof *heap);
    if (!heap)
        return sim_fail(error, SIM_NO_MEMORY, 0, 0, "out of memory for the heap of kernels");
    const enum sim_status status = sim_memory_allocate(gpu, HEAP_BYTES, 256, 1, &heap->base, error);
    if (status) {
        free(heap);
        return status;
    }
    sim_memory_find(gpu, heap->base)->is_heap = 1;
    gpu->heap = heap;
    return SIM_OK;
}

void sim_heap_close(struct sim_gpu *gpu) {
    free(gpu->heap);
    gpu->heap = NULL;
}

/* The bytes are uninitialized. */
static void unmark(struct sim_region *region, uint64_t offset, uint64_t bytes) {
    for (; region->valid && bytes; offset += LEAST, bytes -= LEAST) {
        uint64_t mask = 0xffffull << offset % 64;
        __atomic_and_fetch(&region->valid[offset / 64], ~mask, __ATOMIC_RELAXED);
    }
}

uint64_t sim_heap_take(struct sim_gpu *gpu, uint64_t bytes, struct sim_taken *taken) {
    struct sim_heap *heap = gpu->heap;
    uint32_t class = 0, unit;
    while (class < CLASSES && LEAST << class < bytes)
        class ++;
    const uint64_t span = (LEAST << class) + LEAST;
    if (class == CLASSES || span > HEAP_BYTES)
        return 0;
    const int is_room = HEAP_BYTES - heap->next >= span;
    if (heap->freed[class].count && (!is_room || heap->freed[class].count * span > KEPT)) {
        unit = heap->freed[class].first;
        heap->freed[class].first = heap->after[unit];
        heap->freed[class].count--;
    } else if (is_room) {
        unit = (uint32_t)(heap->next / LEAST);
        heap->next += span;
    } else {
        return 0;
    }
    heap->class[unit] = (uint8_t)(1 + class);
    heap->site[unit] = 0;
    heap->bytes[unit] = (uint32_t)bytes;
    memset(heap->live + unit, (int)LEAST, (size_t)(bytes / LEAST));
    if (bytes % LEAST)
        heap->live[unit + bytes / LEAST] = (uint8_t)(bytes % LEAST);
    taken->region = sim_memory_find(gpu, heap->base);
    taken->offset = unit * LEAST;
    taken->bytes = LEAST << class;
    unmark(taken->region, taken->offset, taken->bytes);
    return heap->base + taken->offset;
}

static uint8_t site_number(struct sim_heap *heap, const char *where) {
    for (uint32_t i = 0; i < heap->site_count; i++)
        if (!strncmp(heap->sites[i], where, sizeof heap->sites[i] - 1))
            return (uint8_t)(1 + i);
    if (heap->site_count == SITES - 1)
        where = "some kernel";
    const uint32_t i = heap->site_count < SITES ? heap->site_count++ : SITES - 1;
    snprintf(heap->sites[i], sizeof heap->sites[i], "%s", where);
    return (uint8_t)(1 + i);
}

int sim_heap_give(struct sim_gpu *gpu, uint64_t address, const char *where) {
    struct sim_heap *heap = gpu->heap;
    const uint64_t offset = address - heap->base;
    const uint32_t unit = (uint32_t)(offset / LEAST);
    if (offset >= HEAP_BYTES || offset % LEAST || !heap->class[unit] || heap->site[unit])
        return 0;
    const uint32_t class = heap->class[unit] - 1u;
    heap->site[unit] = site_number(heap, where);
    memset(heap->live + unit, 0, (size_t)1 << class);
    if (heap->freed[class].count++)
        heap->after[heap->freed[class].last] = unit;
    else
        heap->freed[class].first = unit;
    heap->freed[class].last = unit;
    unmark(sim_memory_find(gpu, heap->base), offset, LEAST << class);
    return 1;
}

int sim_heap_is_live(const struct sim_gpu *gpu, uint64_t address, uint32_t bytes) {
    const struct sim_heap *heap = gpu->heap;
    const uint64_t first = address - heap->base, end = first + bytes;
    for (uint64_t unit = first / LEAST; unit * LEAST < end; unit++)
        if ((end < (unit + 1) * LEAST ? end - unit * LEAST : LEAST) > heap->live[unit])
            return 0;
    return 1;
}

int sim_heap_block(const struct sim_gpu *gpu, uint64_t address, struct sim_heap_block *block) {
    const struct sim_heap *heap = gpu->heap;
    if (!heap || address - heap->base >= HEAP_BYTES)
        return 0;
    uint64_t unit = (address - heap->base) / LEAST;
    while (unit && !heap->class[unit])
        unit--;
    *block = (struct sim_heap_block){0};
    if (heap->class[unit])
        *block = (struct sim_heap_block){
            .base = heap->base + unit * LEAST,
            .bytes = heap->bytes[unit],
            .freed = heap->site[unit] ? heap->sites[heap->site[unit] - 1] : NULL};
    return 1;
}

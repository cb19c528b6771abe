/* sim_heap.c: the memory that kernels allocate with malloc: one region of a simulated GPU, of the
 * size that CUDA gives it by default. It lives as long as the GPU, as on hardware. Blocks have
 * sizes of powers of two; freed ones of a size are used again, the last one first. Only the block
 * that holds the launch's token calls this, so results do not depend on the host's threads.
 */
#include "sim_run.h"

#include <stdlib.h>

#define HEAP_BYTES (8ull << 20)
#define LEAST 16ull
#define CLASSES 24u
#define NONE UINT32_MAX

struct sim_heap {
    uint64_t base, next;     /* offset of the part that was never allocated */
    uint32_t freed[CLASSES]; /* the last freed block of each size, in units of LEAST; NONE */
    uint32_t after[HEAP_BYTES / LEAST]; /* the one freed before it */
    uint8_t given[HEAP_BYTES / LEAST];  /* 1 + class of the block that begins here; 0: none */
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
    memset(heap->freed, 0xff, sizeof heap->freed);
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
    uint32_t class = 0;
    while (class < CLASSES && LEAST << class < bytes)
        class ++;
    if (class == CLASSES || LEAST << class > HEAP_BYTES)
        return 0;
    uint32_t unit = heap->freed[class];
    if (unit != NONE) {
        heap->freed[class] = heap->after[unit];
    } else {
        if (HEAP_BYTES - heap->next < LEAST << class)
            return 0;
        unit = (uint32_t)(heap->next / LEAST);
        heap->next += LEAST << class;
    }
    heap->given[unit] = (uint8_t)(1 + class);
    taken->region = sim_memory_find(gpu, heap->base);
    taken->offset = unit * LEAST;
    taken->bytes = LEAST << class;
    unmark(taken->region, taken->offset, taken->bytes);
    return heap->base + taken->offset;
}

int sim_heap_give(struct sim_gpu *gpu, uint64_t address) {
    struct sim_heap *heap = gpu->heap;
    const uint64_t offset = address - heap->base;
    if (offset >= HEAP_BYTES || offset % LEAST || !heap->given[offset / LEAST])
        return 0;
    const uint32_t unit = (uint32_t)(offset / LEAST), class = heap->given[unit] - 1u;
    heap->given[unit] = 0;
    heap->after[unit] = heap->freed[class];
    heap->freed[class] = unit;
    unmark(sim_memory_find(gpu, heap->base), offset, LEAST << class);
    return 1;
}

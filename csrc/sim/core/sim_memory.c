/* sim_memory.c: simulated global memory. An address is never reused, so that a stale one is always
 * recognized; a gap without an owner separates any two allocations. Knows no kernel and no warp.
 */
#include "sim_run.h"

#include <stdlib.h>
#include <string.h>

/* Guard space after an allocation: an index that passes its end by several times its size finds
 * nobody else's memory. */
#define GAP_LEAST (1ull << 20)
#define GAP_MOST (64ull << 20)
#define FREED_KEPT 65536u

/* Index of the first region above the address. */
static size_t upper(const struct sim_gpu *gpu, uint64_t address) {
    size_t low = 0, high = gpu->region_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (gpu->regions[middle].base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct sim_region *sim_memory_find(struct sim_gpu *gpu, uint64_t address) {
    size_t i = upper(gpu, address);
    if (!i)
        return NULL;
    struct sim_region *region = &gpu->regions[i - 1];
    return address - region->base < region->bytes ? region : NULL;
}

const struct sim_freed *sim_memory_find_freed(const struct sim_gpu *gpu, uint64_t address) {
    for (size_t i = gpu->freed_count; i-- > 0;)
        if (address - gpu->freed[i].base < gpu->freed[i].bytes)
            return &gpu->freed[i];
    return NULL;
}

/* Clears the race detector's cells of this region. */
void sim_memory_forget_races(struct sim_gpu *gpu, struct sim_region *region) {
    for (uint64_t i = 0; region->pages && i < sim_pages(region); i++) {
        gpu->page_bytes -= region->pages[i] ? sizeof **region->pages : 0;
        free(region->pages[i]);
    }
    free(region->pages);
    free(region->cells);
    free(region->pcs);
    region->pages = NULL;
    region->cells = NULL;
    region->pcs = NULL;
    region->any_after = 0;
}

static void release_region(struct sim_gpu *gpu, struct sim_region *region) {
    sim_memory_forget_races(gpu, region);
    free(region->touched);
    free(region->valid);
    free(region->host);
}

enum sim_status sim_memory_allocate(struct sim_gpu *gpu, uint64_t bytes, uint64_t align,
                                    int module_owned, uint64_t *address, struct sim_error *error) {
    uint64_t used, room = bytes ? bytes : 1;
    if (!sim_add(gpu->used_bytes, room, &used) || used > gpu->limits.device_bytes)
        return sim_fail(error, SIM_NO_MEMORY, 0, 0,
                        "cannot allocate %llu bytes: %llu of the simulated %llu are in use",
                        (unsigned long long)bytes, (unsigned long long)gpu->used_bytes,
                        (unsigned long long)gpu->limits.device_bytes);
    if (gpu->limits.admits && !gpu->limits.admits(room))
        return sim_fail(error, SIM_NO_MEMORY, 0, 0,
                        "cannot allocate %llu simulated bytes: the host's free memory is too small",
                        (unsigned long long)bytes);
    struct sim_region *regions = sim_grow(NULL, gpu->regions, &gpu->region_capacity,
                                          (uint32_t)gpu->region_count + 1, sizeof *regions);
    if (!regions)
        return sim_fail(error, SIM_NO_MEMORY, 0, 0, "out of host memory for %zu allocations",
                        gpu->region_count + 1);
    gpu->regions = regions;
    uint64_t base = (gpu->next_address + align - 1) & ~(align - 1);
    struct sim_region region = {.base = base, .bytes = room, .module_owned = (uint8_t)module_owned};
    const uint64_t wide = room < GAP_MOST / 4 ? room * 4 : GAP_MOST,
                   gap = wide < GAP_LEAST ? GAP_LEAST : wide;
    if (base + room + gap >= SIM_WINDOW_BASE)
        return sim_fail(error, SIM_NO_MEMORY, 0, 0, "the simulated address space is used up");
    /* calloc: pages of a large allocation cost nothing until they are touched */
    region.host = calloc(1, (size_t)room + 64);
    region.valid = calloc((size_t)(room / 64 + 2), sizeof *region.valid);
    if (!region.host || !region.valid) {
        release_region(gpu, &region);
        return sim_fail(error, SIM_NO_MEMORY, 0, 0, "out of host memory for %llu simulated bytes",
                        (unsigned long long)bytes);
    }
    gpu->regions[gpu->region_count++] = region; /* addresses only grow: the list stays sorted */
    gpu->next_address = (base + room + gap + 255) & ~255ull;
    gpu->used_bytes = used;
    *address = base;
    return SIM_OK;
}

/* Remembers a freed allocation, so that a stale address is recognized. */
static void keep_freed(struct sim_gpu *gpu, const struct sim_region *region) {
    struct sim_freed *freed = gpu->freed_count < FREED_KEPT
                                  ? sim_grow(NULL, gpu->freed, &gpu->freed_capacity,
                                             (uint32_t)gpu->freed_count + 1, sizeof *freed)
                                  : NULL;
    if (freed) /* else a stale access is reported as out of bounds */
        gpu->freed = freed;
    if (gpu->freed_count == gpu->freed_capacity && gpu->freed_count) { /* forget the oldest half */
        gpu->freed_count /= 2;
        memmove(gpu->freed, gpu->freed + gpu->freed_count, gpu->freed_count * sizeof *gpu->freed);
    }
    if (gpu->freed_count < gpu->freed_capacity)
        gpu->freed[gpu->freed_count++] =
            (struct sim_freed){region->base, region->bytes, region->is_copy};
}

enum sim_status sim_memory_release(struct sim_gpu *gpu, uint64_t address, struct sim_error *error) {
    struct sim_region *region = sim_memory_find(gpu, address);
    if (!region || region->base != address) {
        const struct sim_freed *freed = region ? NULL : sim_memory_find_freed(gpu, address);
        return sim_fail(error, SIM_ARGUMENT, 0, 0,
                        freed    ? "address 0x%llx was freed before"
                        : region ? "address 0x%llx lies inside an allocation, not at its start"
                                 : "address 0x%llx was never allocated",
                        (unsigned long long)address);
    }
    keep_freed(gpu, region);
    gpu->used_bytes -= region->bytes;
    release_region(gpu, region);
    size_t index = (size_t)(region - gpu->regions);
    memmove(region, region + 1, (gpu->region_count - index - 1) * sizeof *region);
    gpu->region_count--;
    return SIM_OK;
}
void sim_memory_close(struct sim_gpu *gpu) {
    for (size_t i = 0; i < gpu->region_count; i++)
        release_region(gpu, &gpu->regions[i]);
    free(gpu->regions);
    free(gpu->freed);
    free(gpu->textures);
}

/* Bits are only ever set, and atomically, since blocks on several host threads share words. A plain
 * store serves where a whole word is set. */
void sim_memory_mark(struct sim_region *region, uint64_t offset, uint64_t bytes) {
    uint64_t *valid = region->valid;
    if (!valid)
        return;
    while (bytes) {
        uint64_t word = offset / 64, bit = offset % 64, span = 64 - bit < bytes ? 64 - bit : bytes;
        uint64_t mask = (span == 64 ? ~0ull : (1ull << span) - 1) << bit;
        if (!~mask)
            __atomic_store_n(&valid[word], mask, __ATOMIC_RELAXED);
        else if (~__atomic_load_n(&valid[word], __ATOMIC_RELAXED) & mask)
            __atomic_fetch_or(&valid[word], mask, __ATOMIC_RELAXED);
        offset += span;
        bytes -= span;
    }
}

/* Clears bits. The first time of memory that was initialized as a whole needs a map of it. */
int sim_memory_unmark(struct sim_run *run, struct sim_region *region, uint64_t offset,
                      uint64_t bytes) {
    if (!region->valid) {
        const uint64_t words = region->bytes / 64 + 2;
        pthread_mutex_lock(&run->lock);
        uint64_t *made = region->valid ? NULL : malloc(words * sizeof *made);
        if (made) {
            memset(made, 0xff, words * sizeof *made);
            __atomic_store_n(&region->valid, made, __ATOMIC_RELEASE);
        }
        pthread_mutex_unlock(&run->lock);
    }
    for (uint64_t i = offset; region->valid && i < offset + bytes; i++)
        __atomic_fetch_and(&region->valid[i / 64], ~(1ull << i % 64), __ATOMIC_RELAXED);
    return region->valid != NULL;
}

int sim_memory_is_valid(const struct sim_region *region, uint64_t offset, uint64_t bytes) {
    const uint64_t *valid = region->valid;
    if (!valid)
        return 1;
    while (bytes) {
        uint64_t word = offset / 64, bit = offset % 64, span = 64 - bit < bytes ? 64 - bit : bytes;
        uint64_t mask = (span == 64 ? ~0ull : (1ull << span) - 1) << bit;
        if (~__atomic_load_n(&valid[word], __ATOMIC_RELAXED) & mask)
            return 0;
        offset += span;
        bytes -= span;
    }
    return 1;
}

/* ---- public functions ---- */

static enum sim_status range(struct sim_gpu *gpu, uint64_t address, uint64_t bytes,
                             struct sim_region **region, struct sim_error *error) {
    *region = sim_memory_find(gpu, address);
    if (*region && bytes <= (*region)->bytes - (address - (*region)->base))
        return SIM_OK;
    if (*region)
        return sim_fail(
            error, SIM_ARGUMENT, 0, 0,
            "%llu bytes at 0x%llx pass the end of an allocation of %llu bytes at 0x%llx",
            (unsigned long long)bytes, (unsigned long long)address,
            (unsigned long long)(*region)->bytes, (unsigned long long)(*region)->base);
    return sim_fail(error, SIM_ARGUMENT, 0, 0, "address 0x%llx %s", (unsigned long long)address,
                    sim_memory_find_freed(gpu, address) ? "was freed" : "is in no allocation");
}

static void written(struct sim_region *region, uint64_t offset, uint64_t bytes) {
    if (region->valid && bytes == region->bytes) {
        free(region->valid);
        region->valid = NULL;
    } else {
        sim_memory_mark(region, offset, bytes);
    }
}

enum sim_status sim_alloc(struct sim_gpu *gpu, uint64_t bytes, uint64_t *address,
                          struct sim_error *error) {
    pthread_mutex_lock(&gpu->lock);
    enum sim_status status = sim_memory_allocate(gpu, bytes, 256, 0, address, error);
    pthread_mutex_unlock(&gpu->lock);
    return status;
}

enum sim_status sim_free(struct sim_gpu *gpu, uint64_t address, struct sim_error *error) {
    pthread_mutex_lock(&gpu->lock);
    enum sim_status status = sim_memory_release(gpu, address, error);
    pthread_mutex_unlock(&gpu->lock);
    return status;
}

enum sim_status sim_copy_in(struct sim_gpu *gpu, uint64_t to, const void *from, uint64_t bytes,
                            struct sim_error *error) {
    struct sim_region *region;
    if (!bytes)
        return SIM_OK;
    pthread_mutex_lock(&gpu->lock);
    enum sim_status status = range(gpu, to, bytes, &region, error);
    if (!status) {
        memcpy(region->host + (to - region->base), from, (size_t)bytes);
        written(region, to - region->base, bytes);
    }
    pthread_mutex_unlock(&gpu->lock);
    return status;
}

enum sim_status sim_copy_out(struct sim_gpu *gpu, void *to, uint64_t from, uint64_t bytes,
                             struct sim_error *error) {
    struct sim_region *region;
    if (!bytes)
        return SIM_OK;
    pthread_mutex_lock(&gpu->lock);
    enum sim_status status = range(gpu, from, bytes, &region, error);
    if (!status)
        memcpy(to, region->host + (from - region->base), (size_t)bytes);
    pthread_mutex_unlock(&gpu->lock);
    return status;
}

enum sim_status sim_copy(struct sim_gpu *gpu, uint64_t to, uint64_t from, uint64_t bytes,
                         struct sim_error *error) {
    struct sim_region *target = NULL, *source = NULL;
    if (!bytes)
        return SIM_OK;
    pthread_mutex_lock(&gpu->lock);
    enum sim_status status = range(gpu, to, bytes, &target, error);
    if (!status)
        status = range(gpu, from, bytes, &source, error);
    if (!status) {
        memmove(target->host + (to - target->base), source->host + (from - source->base),
                (size_t)bytes);
        if (sim_memory_is_valid(source, from - source->base, bytes)) {
            written(target, to - target->base, bytes);
        } else if (target->valid) { /* uninitialized bytes stay uninitialized */
            for (uint64_t i = 0; i < bytes; i++) {
                uint64_t at = to - target->base + i;
                target->valid[at / 64] &= ~(1ull << at % 64);
                if (sim_memory_is_valid(source, from - source->base + i, 1))
                    target->valid[at / 64] |= 1ull << at % 64;
            }
        }
    }
    pthread_mutex_unlock(&gpu->lock);
    return status;
}

enum sim_status sim_fill(struct sim_gpu *gpu, uint64_t to, unsigned byte, uint64_t bytes,
                         struct sim_error *error) {
    struct sim_region *region;
    if (!bytes)
        return SIM_OK;
    pthread_mutex_lock(&gpu->lock);
    enum sim_status status = range(gpu, to, bytes, &region, error);
    if (!status) {
        memset(region->host + (to - region->base), (int)byte, (size_t)bytes);
        written(region, to - region->base, bytes);
    }
    pthread_mutex_unlock(&gpu->lock);
    return status;
}

void sim_memory_use(struct sim_gpu *gpu, uint64_t *used, uint64_t *limit) {
    pthread_mutex_lock(&gpu->lock);
    *used = gpu->used_bytes;
    *limit = gpu->limits.device_bytes;
    pthread_mutex_unlock(&gpu->lock);
}

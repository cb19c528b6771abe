/* ops_word.c: a value that a kernel writes to 8 bytes of pinned memory, which the host polls.
 * Faster than a copy followed by a wait (TUNING.md H2). Knows no family.
 */
#include "ops.h"

#include <string.h>

/* As float64, and as two float32 values, NaNs that no arithmetic makes. */
static const uint64_t unlikely = 0xfff1d1e5a5a5d00d;

enum status ops_word(struct ops_queue *queue) {
    const struct device_ops *ops = queue->device->ops;
    enum status status = STATUS_OK;
    if (device_is_captured(queue->device))
        return device_refuse_captured();
    if (!queue->word)
        status = ops->pin(queue->device, sizeof unlikely, &queue->word);
    if (!status && queue->word_awaited)
        status = ops->sync(queue->device);
    if (status)
        return status;
    queue->word_awaited = false;
    memcpy(queue->word, &unlikely, sizeof unlikely);
    return STATUS_OK;
}

/* Loads 8 bytes where 8 are awaited, else 4: a kernel stores them at once. Its earlier writes are
 * visible after that, which CPUs other than x86 guarantee only for an acquire. */
static uint64_t load(const void *word, size_t bytes) {
    return bytes == sizeof(uint64_t) ? __atomic_load_n((const uint64_t *)word, __ATOMIC_ACQUIRE)
                                     : __atomic_load_n((const uint32_t *)word, __ATOMIC_ACQUIRE);
}

/* If polling times out, synchronize: this covers faults, long calls and results equal to the
 * sentinel. */
enum status ops_word_await(struct ops_queue *queue, void *value, size_t bytes) {
    const uint64_t before =
        bytes == sizeof unlikely ? unlikely : unlikely & UINT32_MAX; /* as load() returns it */
    uint64_t found = load(queue->word, bytes);
    enum status status = STATUS_OK;
    for (int look = 1; look < ops_fixed(queue, looks) && found == before; look++)
        found = load(queue->word, bytes);
    if (found == before) {
        queue->word_awaited = true;
        status = queue->device->ops->sync(queue->device);
        queue->word_awaited = status;
        found = load(queue->word, bytes);
    }
    if (!status)
        memcpy(value, &found, bytes);
    return status;
}

enum status ops_fetch(struct ops_queue *queue, device_address from, size_t bytes, void *to) {
    uint64_t value;
    struct ops_choice copy = {.family = reg_family("transpose")};
    if (!(queue->device->capabilities & DEVICE_STREAMS) || bytes > sizeof value)
        return queue->device->ops->copy_out(queue->device, to, from, bytes);
    copy.rung = copy.family->rungs;
    copy.signature = reg_signature(copy.family, copy.rung, "move", DTYPE_uint64, DTYPE_uint64);
    copy.block = copy.rung->block_min;
    enum status status = ops_word(queue);
    if (status)
        return status;
    const struct ops_problem problem = {
        .inputs = {from},
        .input_bytes = {sizeof value},
        .input_count = 1,
        .output = (uintptr_t)queue->word,
        .output_bytes = sizeof value,
        .numbers = {1, 1, 0}, /* one axis of one element stays in place */
    };
    status = ops_perform(queue, &copy, &problem);
    if (!status)
        status = ops_word_await(queue, &value, sizeof value);
    if (!status)
        memcpy(to, &value, bytes);
    return status;
}

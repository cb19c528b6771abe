/* ops_reduce_call.c: calls of reduce: elements of the host or of the device, in chunks where they
 * are too many, with results that the host waits for or that stay on the device. Knows no kernel.
 */
#include "ops.h"

#include <string.h>

enum {
    STREAM_BYTES = 256 << 20, /* of an array that one launch reduces; hides the launch */
    LOAD_CHUNKS = 4 /* copied at once: each copy's beginning and end leave the link idle */
};

/* Reduces elements on the device. */
static enum status reduce_there(struct ops_queue *queue, const struct ops_choice *choice,
                                device_address items, uint64_t n, void *accumulator) {
    const struct ops_problem problem = {.inputs = {items}, .input_count = 1, .numbers = {n}};
    struct ops_plan plan;
    enum status status = ops_plan(queue, choice, &problem, &plan);
    if (status)
        return status;
    status = ops_run(queue, &plan);
    if (!status)
        status = queue->device->ops->copy_out(queue->device, accumulator, plan.result,
                                              plan.result_bytes);
    ops_plan_free(queue, &plan);
    return status;
}

/* Reduces a strided array on the cpu, in place. */
static enum status reduce_box(struct ops_queue *queue, const struct ops_choice *choice,
                              const struct device_box *box, uint64_t n, void *accumulator) {
    static const struct reg_rung rung = {.kernel = "cpu_reduce_box", .flags = RUNG_HOST};
    struct ops_choice boxed = *choice;
    boxed.rung = &rung;
    return reduce_there(queue, &boxed, (device_address)(uintptr_t)box, n, accumulator);
}

/* Reduces an array that NumPy has to convert, on the cpu: chunk by chunk, then the chunks' results,
 * as cpu_reduce.c combines its subtrees. */
static enum status reduce_chunks(struct ops_queue *queue, const struct ops_choice *choice,
                                 const struct device_source *source, uint64_t n,
                                 void *accumulator) {
    static const struct reg_rung join = {.kernel = "cpu_reduce_join", .flags = RUNG_HOST};
    const struct device_ops *ops = queue->device->ops;
    const size_t item = dtype_size(choice->signature->items);
    const size_t result = dtype_size(choice->signature->accumulator);
    const uint64_t chunks = ceil_div(n, DEVICE_SUBTREE);
    device_address buffer = 0, results = 0;
    enum status status =
        ops->alloc(queue->device, (n < DEVICE_SUBTREE ? n : DEVICE_SUBTREE) * item, &buffer);
    if (!status)
        status = ops->alloc(queue->device, chunks * result, &results);
    for (uint64_t chunk = 0; chunk < chunks && !status; chunk++) {
        const uint64_t left = n - chunk * DEVICE_SUBTREE;
        const uint64_t count = left < DEVICE_SUBTREE ? left : DEVICE_SUBTREE;
        status = ops->copy_in(queue->device, buffer, source, count * item);
        if (!status)
            status = reduce_there(queue, choice, buffer, count,
                                  (void *)(uintptr_t)(results + chunk * result));
    }
    if (!status) {
        struct ops_choice last = *choice;
        last.rung = &join;
        status = reduce_there(queue, &last, results, chunks, accumulator);
    }
    if (results)
        ops->free(queue->device, results);
    if (buffer)
        ops->free(queue->device, buffer);
    return status;
}

/* Reduces elements on the device to a result there, without waiting. */
static enum status reduce_to(struct ops_queue *queue, const struct ops_choice *choice,
                             device_address items, uint64_t n, device_address to) {
    const struct ops_problem problem = {.inputs = {items}, .input_count = 1, .numbers = {n}};
    struct ops_plan plan;
    enum status status = ops_plan(queue, choice, &problem, &plan);
    if (status)
        return status;
    status = ops_run(queue, &plan);
    if (!status)
        status = queue->device->ops->copy(queue->device, to, plan.result, plan.result_bytes);
    ops_plan_free(queue, &plan);
    return status;
}

/* Buffers through which an array passes: while one is reduced, the next one is filled. */
struct stream_buffers {
    device_address memory;
    uint64_t count, chunks; /* buffers; chunks of a buffer, which are copied at once */
};

static enum status stream_buffers(struct ops_queue *queue, struct stream_buffers *buffers) {
    static const uint64_t tried[][2] = {{2, LOAD_CHUNKS}, {2, 1}, {1, 1}};
    enum status status = STATUS_NO_DEVICE_MEMORY;
    for (size_t i = 0; i < sizeof tried / sizeof *tried && status == STATUS_NO_DEVICE_MEMORY; i++) {
        buffers->count = tried[i][0];
        buffers->chunks = tried[i][1];
        status = queue->device->ops->alloc(
            queue->device, buffers->count * buffers->chunks * STREAM_BYTES, &buffers->memory);
    }
    return status;
}

/* Copies chunks to a buffer by the second queue, and reduces them by the first. */
static enum status reduce_load(struct ops_queue *queue, const struct ops_choice *choice,
                               const struct device_source *source, uint64_t n,
                               device_address buffer, device_address results, bool alone) {
    const struct reg_signature *given = choice->signature;
    const size_t item = dtype_size(given->items), result = dtype_size(given->accumulator);
    const struct device_ops *ops = queue->device->ops;
    const uint64_t most = STREAM_BYTES / item;
    enum status status = ops->copy_in(queue->copies, buffer, source, n * item);
    if (!status && !alone) /* the next copy is to the other buffer, which has been read by then */
        status = ops->follow(queue->copies, queue->device);
    if (!status)
        status = ops->follow(queue->device, queue->copies);
    for (uint64_t done = 0; done < n && !status; done += most, results += result)
        status = reduce_to(queue, choice, buffer + done * item, n - done < most ? n - done : most,
                           results);
    if (!status && alone)
        status = ops->follow(queue->copies, queue->device);
    return status;
}

/* Reduces more elements than the device should hold: chunk by chunk, then the rung on the chunks'
 * results. The size of a chunk does not depend on the buffers, nor do the result's bits. */
static enum status reduce_stream(struct ops_queue *queue, const struct ops_choice *choice,
                                 struct device_source source, uint64_t n, void *accumulator) {
    const struct device_ops *ops = queue->device->ops;
    const struct reg_signature *given = choice->signature;
    const size_t item = dtype_size(given->items), result = dtype_size(given->accumulator);
    const uint64_t most = STREAM_BYTES / item, chunks = ceil_div(n, most);
    struct ops_choice last = *choice;
    last.signature = reg_signature(choice->family, choice->rung, given->op, given->accumulator,
                                   given->accumulator);
    struct stream_buffers buffers = {0};
    device_address results = 0;
    enum status status = stream_buffers(queue, &buffers);
    if (!status)
        status = ops->alloc(queue->device, chunks * result, &results);
    if (!status)
        status = ops_copies(queue);
    if (!status)
        status = ops->follow(queue->copies, queue->device);
    for (uint64_t chunk = 0; chunk < chunks && !status; chunk += buffers.chunks) {
        const uint64_t left = n - chunk * most, load = buffers.chunks * most;
        const uint64_t count = left < load ? left : load;
        const uint64_t turn = chunk / buffers.chunks % buffers.count;
        status = reduce_load(queue, choice, &source, count,
                             buffers.memory + turn * buffers.chunks * STREAM_BYTES,
                             results + chunk * result, buffers.count == 1);
        if (source.data)
            source.data = (const char *)source.data + count * item;
    }
    if (status && queue->copies) /* a copy may be in flight */
        ops->follow(queue->device, queue->copies);
    if (!status)
        status = reduce_there(queue, &last, results, chunks, accumulator);
    if (results)
        ops->free(queue->device, results);
    if (buffers.memory)
        ops->free(queue->device, buffers.memory);
    return status;
}

enum status ops_reduce(struct ops_queue *queue, const struct ops_choice *choice,
                       const struct device_source *source, uint64_t n, void *accumulator) {
    const struct device_ops *ops = queue->device->ops;
    if (source->box)
        return reduce_box(queue, choice, source->box, n, accumulator);
    if (queue->device->capabilities & DEVICE_HOST_MEMORY)
        return source->data ? reduce_there(queue, choice, (device_address)(uintptr_t)source->data,
                                           n, accumulator)
                            : reduce_chunks(queue, choice, source, n, accumulator);
    const size_t bytes = n * dtype_size(choice->signature->items);
    if (bytes > STREAM_BYTES && queue->device->capabilities & DEVICE_STREAMS)
        return reduce_stream(queue, choice, *source, n, accumulator);
    device_address items = 0;
    enum status status = ops->alloc(queue->device, bytes, &items);
    if (status)
        return status;
    status = ops->copy_in(queue->device, items, source, bytes);
    if (!status)
        status = reduce_there(queue, choice, items, n, accumulator);
    ops->free(queue->device, items);
    return status;
}

/* --- elements in the device's memory */

enum status ops_reduce_resident(struct ops_queue *queue, const struct ops_choice *choice,
                                device_address items, uint64_t n, void *accumulator) {
    struct ops_problem problem = {.inputs = {items}, .input_count = 1, .numbers = {n}};
    const size_t result = dtype_size(choice->signature->accumulator);
    if (device_is_captured(queue->device))
        return device_refuse_captured();
    if (!(queue->device->capabilities & DEVICE_STREAMS) || !ops_reduce_is_single_pass(choice) ||
        (result != 4 && result != 8))
        return reduce_there(queue, choice, items, n, accumulator);
    /* one launch, no copy: the kernel itself writes the result to the queue's word */
    enum status status = ops_word(queue);
    problem.output = (uintptr_t)queue->word;
    if (!status)
        status = ops_perform(queue, choice, &problem);
    return status ? status : ops_word_await(queue, accumulator, result);
}

static bool is_integer(enum dtype dtype) { return dtype <= DTYPE_uint64; }

/* Copies between two addresses on the device, also on one that only copies to and from the host. */
static enum status move(struct ops_queue *queue, device_address to, device_address from,
                        size_t bytes) {
    const struct device_ops *ops = queue->device->ops;
    unsigned char items[GPUOPT_ITEM_MAX];
    const struct device_source source = {.data = items};
    if (queue->device->capabilities & DEVICE_STREAMS)
        return ops->copy(queue->device, to, from, bytes);
    const enum status status = ops->copy_out(queue->device, items, from, bytes);
    return status ? status : ops->copy_in(queue->device, to, &source, bytes);
}

/* Converts an accumulator to an element of the result's type: integers wrap, a bool becomes 0 or 1.
 */
static enum status convert(struct ops_queue *queue, device_address to, enum dtype result,
                           device_address from, enum dtype accumulator) {
    const size_t wide = dtype_size(result), given = dtype_size(accumulator);
    if (accumulator != result && !(is_integer(accumulator) && is_integer(result)))
        return status_fail(STATUS_BAD_TYPE, "dtype: a result of %s cannot become %s on the device",
                           dtype_name(accumulator), dtype_name(result));
    enum status status = STATUS_OK;
    if (given < wide)
        status = queue->device->ops->fill(queue->device, to, 0, wide);
    return status ? status : move(queue, to, from, given < wide ? given : wide);
}

enum status ops_reduce_within(struct ops_queue *queue, const struct ops_choice *choice,
                              device_address items, uint64_t n, enum dtype result,
                              device_address to) {
    struct ops_problem problem = {.inputs = {items}, .input_count = 1, .numbers = {n}};
    const enum dtype accumulator = choice->signature->accumulator;
    const bool halved =
        (accumulator == DTYPE_float64 && result == DTYPE_float32) ||
        (accumulator == DTYPE_int64 && is_integer(result) && dtype_size(result) == sizeof(int32_t));
    struct ops_plan plan;
    if ((accumulator == result || halved) && ops_reduce_is_single_pass(choice)) {
        problem.output = to;
        problem.numbers[1] = halved;
        return ops_perform(queue, choice, &problem);
    }
    enum status status = ops_plan(queue, choice, &problem, &plan);
    if (status)
        return status;
    status = ops_run(queue, &plan);
    if (!status)
        status = convert(queue, to, result, plan.result, accumulator);
    ops_plan_free(queue, &plan);
    return status;
}

/* py_devices.c: lists the devices, and keeps a pool of open queues for each. The state's mutex
 * guards the pools. Knows no operation.
 */
#include "py_core.h"

#include "../devices.h"
#include "../host/host_threads.h"

#include <string.h>

/* `make`: only for a device that has been opened. */
static struct py_pool *pool_of(struct py_state *state, const struct device_ops *kind,
                               const char *which, uint64_t kept, bool make) {
    for (int i = 0; i < PY_POOLS; i++) {
        struct py_pool *pool = &state->pools[i];
        if (!pool->kind && !make)
            return NULL;
        if (!pool->kind) {
            pool->kind = kind;
            pool->kept = kept;
            PyOS_snprintf(pool->which, sizeof pool->which, "%s", which);
        }
        if (pool->kind == kind && pool->kept == kept && strcmp(pool->which, which) == 0)
            return pool;
    }
    return NULL; /* more devices than pools: queues are opened and closed for each call */
}

/* A pool's queues stay on the legacy default stream, or return to their own: a caller's stream may
 * be destroyed by the next call, or mean another one in another thread, as the per-thread default
 * does. */
static uint64_t kept_on(uint64_t stream) { return stream <= PY_LEGACY ? stream : 0; }

/* Returns the pool's queue for a stream; -1: a new one. */
static int fitting(const struct py_pool *pool, uint64_t stream) {
    int vacant = -1;
    for (int i = pool->idle_count; i-- > 0;) {
        if (pool->idle[i].stream == stream)
            return i;
        if (pool->idle[i].stream == 0 && vacant < 0)
            vacant = i;
    }
    return vacant < 0 && pool->idle_count == PY_POOL_IDLE ? 0 : vacant;
}

static enum status open_on(const struct device_ops *kind, const char *which, uint64_t stream,
                           struct ops_queue **opened) {
    enum status status = ops_open(kind, which, opened);
    if (!status && stream)
        status = kind->adopt((*opened)->device, stream);
    if (status && *opened) {
        ops_close(*opened);
        *opened = NULL;
    }
    return status;
}

/* Takes the queue for a stream out of its pool; NULL: a new one is needed. */
static struct ops_queue *idle_queue(struct py_state *state, const struct device_ops *kind,
                                    const char *which, uint64_t kept, uint64_t stream) {
    struct ops_queue *queue = NULL;
    pthread_mutex_lock(&state->guard);
    struct py_pool *pool = pool_of(state, kind, which, kept, false);
    const int at = pool ? fitting(pool, stream) : -1;
    if (at >= 0) {
        queue = pool->idle[at].queue;
        pool->idle_count--;
        memmove(&pool->idle[at], &pool->idle[at + 1],
                (size_t)(pool->idle_count - at) * sizeof *pool->idle);
    }
    pthread_mutex_unlock(&state->guard);
    return queue;
}

struct ops_queue *py_queue_take_on(struct py_state *state, const struct device_ops *kind,
                                   const char *which, uint64_t stream) {
    const uint64_t kept = kept_on(stream);
    struct ops_queue *queue = idle_queue(state, kind, which, kept, stream);
    enum status status = STATUS_OK;
    if (!queue) {
        Py_BEGIN_ALLOW_THREADS
        status = open_on(kind, which, kept, &queue);
        Py_END_ALLOW_THREADS
    }
    if (!status && stream != kept)
        status = kind->adopt(queue->device, stream);
    if (!status)
        return queue;
    py_raise(state, status);
    if (queue)
        py_queue_give_on(state, queue, kind, which, kept);
    return NULL;
}

struct ops_queue *py_queue_take(struct py_state *state, const struct device_ops *kind,
                                const char *which) {
    return py_queue_take_on(state, kind, which, 0);
}

void py_queue_give_on(struct py_state *state, struct ops_queue *queue,
                      const struct device_ops *kind, const char *which, uint64_t stream) {
    const uint64_t kept = kept_on(stream);
    const bool back = kept == stream || !kind->adopt(queue->device, kept);
    pthread_mutex_lock(&state->guard);
    struct py_pool *pool = pool_of(state, kind, which, kept, true);
    const bool idle = back && pool && pool->idle_count < PY_POOL_IDLE;
    if (idle)
        pool->idle[pool->idle_count++] = (struct py_idle){queue, stream};
    pthread_mutex_unlock(&state->guard);
    if (!idle)
        ops_close(queue);
}

void py_queue_give(struct py_state *state, struct ops_queue *queue, const struct device_ops *kind,
                   const char *which) {
    py_queue_give_on(state, queue, kind, which, 0);
}

void py_queues_close(struct py_state *state) {
    for (int i = 0; i < PY_POOLS;) {
        struct ops_queue *queue = NULL;
        pthread_mutex_lock(&state->guard);
        if (state->pools[i].idle_count)
            queue = state->pools[i].idle[--state->pools[i].idle_count].queue;
        pthread_mutex_unlock(&state->guard);
        if (queue)
            ops_close(queue);
        else
            i++;
    }
}

PyObject *py_host_threads(PyObject *module, PyObject *nothing) {
    (void)nothing;
    const enum status status = host_threads_check();
    return status ? py_raise(py_state_of(module), status) : PyLong_FromLong(host_threads());
}

PyObject *py_device_count(PyObject *module, PyObject *kind) {
    struct py_state *state = py_state_of(module);
    const struct device_ops *ops;
    const char *which;
    int count = 0;
    const char *name = py_text(kind, "kind");
    if (!name)
        return NULL;
    enum status status = device_find("kind", name, &ops, &which);
    if (!status && *which)
        status =
            status_fail(STATUS_BAD_VALUE, "kind: '%.64s' is one device; use '%s'", name, ops->kind);
    if (!status)
        status = ops->count(&count);
    return status ? py_raise(state, status) : PyLong_FromLong(count);
}

PyObject *py_device_info(PyObject *module, PyObject *name) {
    struct py_state *state = py_state_of(module);
    const struct device_ops *ops;
    const char *which;
    struct device_info info = {0};
    struct device_about about = {0};
    const char *text = py_text(name, "device");
    if (!text)
        return NULL;
    enum status status = device_find("device", text, &ops, &which);
    if (!status) {
        Py_BEGIN_ALLOW_THREADS
        status = ops->info(which, &info);
        if (!status)
            status = ops->about(which, &about);
        Py_END_ALLOW_THREADS
    }
    if (status)
        return py_raise(state, status);
    return Py_BuildValue(
        "{s:s, s:s, s:s, s:i, s:K, s:K, s:K, s:i, s:i, s:i, s:i, s:i, s:K}", "name", info.name,
        "kind", ops->kind, "description", about.description, "capabilities", (int)info.capabilities,
        "memory_total", (unsigned long long)about.memory_total, "memory_free",
        (unsigned long long)about.memory_free, "memory_used", (unsigned long long)about.memory_used,
        "multiprocessors", info.multiprocessors, "compute_capability", info.compute_capability,
        "clock_khz", info.clock_khz, "memory_clock_khz", info.memory_clock_khz, "memory_bus_bits",
        info.memory_bus_bits, "cache_bytes", (unsigned long long)info.cache_bytes);
}

PyObject *py_sim_progress(PyObject *module, PyObject *nothing) {
    (void)module;
    (void)nothing;
    struct device_progress p;
    devices_progress(&p);
    return Py_BuildValue("(KKKK)", (unsigned long long)p.ended, (unsigned long long)p.blocks,
                         (unsigned long long)p.steps, (unsigned long long)p.expected);
}

PyObject *py_sim_traffic(PyObject *module, PyObject *nothing) {
    (void)module;
    (void)nothing;
    uint64_t totals[DEVICES_TRAFFIC];
    devices_traffic(totals);
    return Py_BuildValue("(KKKKK)", (unsigned long long)totals[0], (unsigned long long)totals[1],
                         (unsigned long long)totals[2], (unsigned long long)totals[3],
                         (unsigned long long)totals[4]);
}

PyObject *py_close_idle(PyObject *module, PyObject *nothing) {
    (void)nothing;
    uint64_t count, bytes;
    py_queues_close(py_state_of(module));
    devices_leaks(&count, &bytes);
    return Py_BuildValue("(KK)", (unsigned long long)count, (unsigned long long)bytes);
}

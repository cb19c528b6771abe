/* fake_cuda_order.h: the part of fake_cuda.c that checks the order of work on memory.
 *
 * Vector clocks: a count of each stream's work, and for each stream, event and the host the work
 * that is known to have ended before it goes on. An allocation is to be used after it was made,
 * freed after all its uses, and used by two streams only in an order that events, waits or the host
 * establish. A violation ends the process with its description. Host threads are one here: they
 * hand objects to each other under locks. A kernel's parameters (their sizes come from its PTX by
 * fake_cuda_parameters) are searched for addresses; work of a captured stream is not checked.
 */
#pragma once

#include <pthread.h>

enum { ORDER_STREAMS = 512, ORDER_DEAD = 256, ORDER_DEAD_BYTES = 1 << 24, ORDER_PARAMETERS = 64 };
struct order_clock {
    unsigned of[ORDER_STREAMS];
};
struct order_memory {
    struct order_memory *next;
    uint64_t begin, end;
    int pinned, made_on;
    unsigned made_at;
    struct order_clock read, written; /* by a kernel: both, but for a stencil's weights */
};
static struct {
    pthread_mutex_t lock;
    void *handles[ORDER_STREAMS]; /* NULL: unused */
    struct order_clock streams[ORDER_STREAMS], host;
    int count, looked[ORDER_STREAMS]; /* looked: a query has said "not ready" */
    struct order_memory *alive;
    struct {
        uint64_t begin, end;
        void *block; /* not free: nobody else is to have its address */
    } dead[ORDER_DEAD];
    unsigned died;
    uint64_t dead_bytes;
    int excused; /* a module's user orders streams */
} order = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void order_join(struct order_clock *clock, const struct order_clock *other) {
    for (int i = 0; i < order.count; i++)
        if (clock->of[i] < other->of[i])
            clock->of[i] = other->of[i];
}
/* The legacy stream has two handles. */
static int order_stream(void *handle) {
    if (!handle)
        handle = (void *)1;
    for (int i = 0; i < order.count; i++)
        if (order.handles[i] == handle)
            return i;
    if (order.count == ORDER_STREAMS)
        abort();
    order.handles[order.count] = handle;
    return order.count++;
}
/* A stream that ends leaves its count to the next one. */
static void order_stream_gone(void *handle) {
    pthread_mutex_lock(&order.lock);
    for (int i = 0; i < order.count; i++)
        if (order.handles[i] == handle)
            order.handles[i] = &order.handles[i];
    pthread_mutex_unlock(&order.lock);
}
static void order_stream_made(void *handle) {
    pthread_mutex_lock(&order.lock);
    int i = 0;
    while (i < order.count && order.handles[i] != &order.handles[i])
        i++;
    if (i < order.count)
        order.handles[i] = handle;
    else
        order_stream(handle);
    pthread_mutex_unlock(&order.lock);
}

static void order_broken(const char *what, uint64_t address, const char *name, int stream,
                         int other) {
    fprintf(stderr, "fake_cuda: %s: %llx by %s on stream %p, beside work of stream %p\n", what,
            (unsigned long long)address, name, order.handles[stream], order.handles[other]);
    fflush(stderr);
    _exit(86);
}

/* A new piece of work on a stream; the caller holds the lock. */
static int order_work(void *handle) {
    const int s = order_stream(handle);
    order_join(&order.streams[s], &order.host);
    order.streams[s].of[s]++;
    order.looked[s] = 0;
    return s;
}
static struct order_memory **order_find(uint64_t address) {
    struct order_memory **at = &order.alive;
    while (*at && !(address >= (*at)->begin && address < (*at)->end))
        at = &(*at)->next;
    return at;
}
static void order_use(int s, uint64_t address, const char *name, int writes) {
    struct order_memory *memory = *order_find(address);
    const struct order_clock *now = &order.streams[s];
    for (unsigned i = 0; !memory && i < ORDER_DEAD; i++)
        if (address >= order.dead[i].begin && address < order.dead[i].end)
            order_broken("memory used after it was freed", address, name, s, s);
    if (!memory)
        return;
    if (now->of[memory->made_on] < memory->made_at)
        order_broken("memory used before it is allocated", address, name, s, memory->made_on);
    for (int i = 0; i < order.count; i++)
        if (!order.excused && !memory->pinned && /* parts of pinned memory belong to streams */
            (memory->written.of[i] > now->of[i] || (writes && memory->read.of[i] > now->of[i])))
            order_broken("memory used in no order", address, name, s, i);
    memory->read.of[s] = now->of[s];
    if (writes)
        memory->written.of[s] = now->of[s];
}

static void order_made(uint64_t address, size_t bytes, void *handle, int pinned) {
    pthread_mutex_lock(&order.lock);
    struct order_memory *memory = calloc(1, sizeof *memory);
    memory->begin = address;
    memory->end = address + bytes;
    memory->pinned = pinned;
    if (!pinned) {
        memory->made_on = order_work(handle);
        memory->made_at = order.streams[memory->made_on].of[memory->made_on];
    }
    memory->next = order.alive;
    order.alive = memory;
    pthread_mutex_unlock(&order.lock);
}
static void order_bury(uint64_t begin, uint64_t end, void *block) {
    do {
        order.dead_bytes -= order.dead[order.died].end - order.dead[order.died].begin;
        free(order.dead[order.died].block);
        memset(&order.dead[order.died], 0, sizeof *order.dead);
        order.died = (order.died + 1) % ORDER_DEAD;
    } while (order.dead_bytes > ORDER_DEAD_BYTES);
    const unsigned last = (order.died + ORDER_DEAD - 1) % ORDER_DEAD;
    order.dead_bytes += end - begin;
    order.dead[last].begin = begin;
    order.dead[last].end = end;
    order.dead[last].block = block;
}
/* Takes over `block`, in which the memory lies. */
static void order_freed(uint64_t address, void *block, void *handle) {
    pthread_mutex_lock(&order.lock);
    struct order_memory **at = order_find(address), *memory = *at;
    if (memory) {
        const int s = memory->pinned ? 0 : order_work(handle);
        const struct order_clock *now = memory->pinned ? &order.host : &order.streams[s];
        for (int i = 0; i < order.count; i++)
            if (memory->read.of[i] > now->of[i] && !order.excused)
                order_broken("memory freed in no order", address, "a free", s, i);
        order_bury(memory->begin, memory->end, block);
        *at = memory->next;
        free(memory);
    } else {
        free(block);
    }
    pthread_mutex_unlock(&order.lock);
}
static void order_copy(void *stream, uint64_t to, uint64_t from, const char *name) {
    if (captured && stream == captured)
        return;
    pthread_mutex_lock(&order.lock);
    const int s = order_work(stream);
    order_use(s, from, name, 0);
    order_use(s, to, name, 1);
    pthread_mutex_unlock(&order.lock);
}

/* A kernel as the driver knows it: its name first. */
static int (*parameters_of)(const char *name, unsigned *sizes, int most);
void fake_cuda_parameters(int (*reader)(const char *, unsigned *, int)) { parameters_of = reader; }
struct order_kernel {
    char name[256];
    int count; /* -1: unknown */
    unsigned sizes[ORDER_PARAMETERS];
};
static void *order_kernel(const char *name) {
    struct order_kernel *kernel = calloc(1, sizeof *kernel);
    snprintf(kernel->name, sizeof kernel->name, "%s", name);
    kernel->count = parameters_of ? parameters_of(name, kernel->sizes, ORDER_PARAMETERS) : -1;
    return kernel;
}
static void **order_arguments(const void *function, void *const *arguments) {
    const struct order_kernel *kernel = function;
    void **copies = calloc(ORDER_PARAMETERS, sizeof *copies);
    for (int i = 0; i < kernel->count; i++) {
        copies[i] = malloc(kernel->sizes[i]);
        memcpy(copies[i], arguments[i], kernel->sizes[i]);
    }
    return copies;
}
static void order_launch(void *stream, void *function, void **arguments) {
    const struct order_kernel *kernel = function;
    if (captured && stream == captured)
        return;
    pthread_mutex_lock(&order.lock);
    const int s = order_work(stream), constant = strstr(kernel->name, "_weighted_") ? 1 : -1;
    for (int i = 0; i < kernel->count; i++)
        for (unsigned at = 0; at + 8 <= kernel->sizes[i]; at += 8) {
            uint64_t value;
            memcpy(&value, (const char *)arguments[i] + at, sizeof value);
            order_use(s, value, kernel->name, i != constant);
        }
    pthread_mutex_unlock(&order.lock);
}

static void order_record(void *event, void *stream) {
    pthread_mutex_lock(&order.lock);
    *(struct order_clock *)event = order.streams[order_stream(stream)];
    pthread_mutex_unlock(&order.lock);
}
static void order_record_all(void *event) {
    pthread_mutex_lock(&order.lock);
    for (int i = 0; i < order.count; i++)
        order_join(event, &order.streams[i]);
    pthread_mutex_unlock(&order.lock);
}
static void order_wait(void *stream, void *event) {
    pthread_mutex_lock(&order.lock);
    order_join(&order.streams[order_stream(stream)], event);
    pthread_mutex_unlock(&order.lock);
}
static void order_event_seen(void *event) {
    pthread_mutex_lock(&order.lock);
    order_join(&order.host, event);
    pthread_mutex_unlock(&order.lock);
}
static void order_stream_seen(void *stream) {
    pthread_mutex_lock(&order.lock);
    order_join(&order.host, &order.streams[order_stream(stream)]);
    pthread_mutex_unlock(&order.lock);
}
static void order_all_seen(void) {
    pthread_mutex_lock(&order.lock);
    for (int i = 0; i < order.count; i++)
        order_join(&order.host, &order.streams[i]);
    pthread_mutex_unlock(&order.lock);
}
/* With FAKE_CUDA_SLOW the first look at a stream finds its work unfinished. */
static int order_is_slow(void *stream) {
    static int slow = -1;
    if (slow < 0)
        slow = getenv("FAKE_CUDA_SLOW") != NULL;
    if (!slow)
        return 0;
    pthread_mutex_lock(&order.lock);
    const int s = order_stream(stream);
    const int first = !order.looked[s] && order.streams[s].of[s] > order.host.of[s];
    order.looked[s] = 1;
    pthread_mutex_unlock(&order.lock);
    return first;
}

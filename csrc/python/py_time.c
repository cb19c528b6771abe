/* py_time.c: times launches and copies: on several streams, one by one, or as a graph. Knows no
 * kernel's meaning.
 */
#include "py_module.h"

#include <stdlib.h>
#include <time.h>

enum how { BACK_TO_BACK, WAITING, AS_GRAPH, HOST_ONLY, HOW_COUNT };

/* A launch or a copy on one of the module's streams. */
struct timed_step {
    unsigned stream;
    bool is_copy;
    struct given given;
    unsigned long long to, from;
    Py_ssize_t bytes;
};

struct rounds {
    struct ptx_module *self;
    struct timed_step *steps;
    Py_ssize_t count;
    unsigned runs;
    unsigned streams; /* the highest index */
    bool begun;       /* work was enqueued, or may have been */
};

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static struct device *stream_of(const struct rounds *rounds, unsigned number) {
    return (number ? rounds->self->more[number - 1] : rounds->self->queue)->device;
}

static enum status give(const struct rounds *rounds, const struct timed_step *step) {
    const struct device_ops *ops = rounds->self->kind;
    struct device *device = stream_of(rounds, step->stream);
    return step->is_copy ? ops->copy(device, step->to, step->from, (size_t)step->bytes)
                         : ops->launch(device, &step->given.launch);
}

static enum status give_all(const struct rounds *rounds, unsigned runs, bool waiting) {
    const struct device_ops *ops = rounds->self->kind;
    enum status status = STATUS_OK;
    for (unsigned run = 0; run < runs && !status; run++) {
        for (Py_ssize_t i = 0; i < rounds->count && !status; i++) {
            status = give(rounds, &rounds->steps[i]);
            if (!status && waiting)
                status = ops->sync(stream_of(rounds, rounds->steps[i].stream));
        }
        if (!status)
            status = device_poll(rounds->self->queue->device);
    }
    return status;
}

/* Turns polling for signals on or off while a stream is waited for. */
static void watch(const struct rounds *rounds, bool on) {
    const struct device *first = stream_of(rounds, 0);
    for (unsigned i = 1; i <= rounds->streams; i++) {
        stream_of(rounds, i)->interrupted = on ? first->interrupted : NULL;
        stream_of(rounds, i)->interrupted_state = on ? first->interrupted_state : NULL;
    }
}

/* The other streams wait for the first; or the first waits for them. */
static enum status fork_streams(const struct rounds *rounds) {
    enum status status = STATUS_OK;
    for (unsigned i = 1; i <= rounds->streams && !status; i++)
        status = rounds->self->kind->follow(stream_of(rounds, i), stream_of(rounds, 0));
    return status;
}

static enum status join_streams(const struct rounds *rounds, enum status status) {
    for (unsigned i = 1; i <= rounds->streams; i++) {
        const enum status joined =
            rounds->self->kind->follow(stream_of(rounds, 0), stream_of(rounds, i));
        status = status
                     ? status
                     : joined; /* join even after a failure: a later free waits for all streams */
    }
    return status;
}

static enum status time_graph(const struct rounds *rounds, double *seconds) {
    const struct device_ops *ops = rounds->self->kind;
    struct device *device = stream_of(rounds, 0);
    struct device_graph *graph = NULL;
    struct device_launch *launches = malloc((size_t)rounds->count * sizeof *launches);
    if (!launches)
        return status_fail(STATUS_NO_HOST_MEMORY, "no memory for a graph's launches");
    for (Py_ssize_t i = 0; i < rounds->count; i++)
        launches[i] = rounds->steps[i].given.launch;
    enum status status = ops->graph_open(device, launches, (size_t)rounds->count, &graph);
    free(launches);
    if (!status)
        status = ops->graph_launch(device, graph);
    if (!status)
        status = ops->sync(device);
    if (!status)
        status = ops->timer_begin(device);
    for (unsigned run = 0; run < rounds->runs && !status; run++)
        status = ops->graph_launch(device, graph);
    if (!status)
        status = ops->timer_end(device, seconds);
    ops->graph_close(device, graph);
    return status;
}

static enum status time_rounds(struct rounds *rounds, enum how how, double *seconds) {
    const struct device_ops *ops = rounds->self->kind;
    struct device *device = stream_of(rounds, 0);
    if (!(device->capabilities & DEVICE_TIMER))
        return ops->timer_begin(device); /* fails with the reason */
    enum status status = STATUS_OK;
    for (Py_ssize_t i = 0; i < rounds->count && !status; i++)
        if (!rounds->steps[i].is_copy)
            status = py_launch_prepare(rounds->self, &rounds->steps[i].given);
    if (!status)
        status = fork_streams(rounds);
    rounds->begun = !status;
    if (!status)
        status = give_all(rounds, 1, false);
    status = join_streams(rounds, status);
    if (!status)
        status = ops->sync(device);
    if (status || how == AS_GRAPH)
        return status ? status : time_graph(rounds, seconds);
    if (how == BACK_TO_BACK)
        status = ops->timer_begin(device);
    const double begin = now();
    if (!status)
        status = fork_streams(rounds);
    if (!status)
        status = give_all(rounds, rounds->runs, how == WAITING);
    *seconds = now() - begin;
    status = join_streams(rounds, status);
    if (!status)
        status = how == BACK_TO_BACK ? ops->timer_end(device, seconds) : ops->sync(device);
    return status;
}

static int read_step(PyObject *tuple, struct timed_step *step, enum how how) {
    PyObject *what;
    if (!PyArg_ParseTuple(tuple, "IO!", &step->stream, &PyTuple_Type, &what))
        return -1;
    if (step->stream > STREAMS_MORE) {
        PyErr_Format(PyExc_ValueError, "stream: %u is not in the range 0 to %d", step->stream,
                     STREAMS_MORE);
        return -1;
    }
    step->is_copy = PyTuple_Size(what) == 3;
    if (how == AS_GRAPH && (step->is_copy || step->stream)) {
        PyErr_SetString(PyExc_ValueError,
                        "launches: a graph supports only stream 0; leave `stream` out");
        return -1;
    }
    return step->is_copy ? PyArg_ParseTuple(what, "KKn", &step->to, &step->from, &step->bytes) - 1
                         : py_launch_read(what, &step->given);
}

static int open_streams(struct rounds *rounds) {
    struct ptx_module *self = rounds->self;
    for (Py_ssize_t i = 0; i < rounds->count; i++)
        if (rounds->steps[i].stream > rounds->streams)
            rounds->streams = rounds->steps[i].stream;
    struct py_state *state = py_state_of(self->module);
    for (unsigned i = 0; i < rounds->streams; i++) {
        if (self->more[i])
            continue;
        struct ops_queue *queue = py_queue_take(state, self->kind, self->which);
        if (!queue)
            return -1;
        if (self->more[i]) /* the GIL was free: another thread may have opened it */
            py_queue_give(state, queue, self->kind, self->which);
        else
            self->more[i] = queue;
    }
    return 0;
}

/* Called between begin and end. */
static enum status time_beside(struct rounds *rounds, enum how how, struct beside *beside,
                               double *seconds) {
    enum status status = py_beside_enter(rounds->self, beside);
    if (status)
        return status;
    watch(rounds, true);
    status = time_rounds(rounds, how, seconds);
    watch(rounds, false);
    if (rounds->begun)
        beside->work = status ? MAY_RUN : HAS_ENDED;
    return py_beside_leave(rounds->self, beside, status);
}

PyObject *py_module_time(struct ptx_module *self, PyObject *arguments) {
    PyObject *tuple, *streams, *kept;
    struct rounds rounds = {.self = self};
    struct beside beside = {0};
    unsigned how;
    double seconds = 0;
    struct py_unlocked unlocked;
    if (!PyArg_ParseTuple(arguments, "O!IIO!O", &PyTuple_Type, &tuple, &rounds.runs, &how,
                          &PyTuple_Type, &streams, &kept))
        return NULL;
    rounds.count = PyTuple_Size(tuple);
    if (rounds.runs == 0 || rounds.count == 0 || how >= HOW_COUNT) {
        PyErr_SetString(PyExc_ValueError, "launches, runs: must be at least 1");
        return NULL;
    }
    rounds.steps = PyMem_Calloc((size_t)rounds.count, sizeof *rounds.steps);
    if (!rounds.steps)
        return PyErr_NoMemory();
    int failed = 0;
    for (Py_ssize_t i = 0; i < rounds.count && !failed; i++)
        failed = read_step(PyTuple_GetItem(tuple, i), &rounds.steps[i], (enum how)how);
    if (!failed)
        failed = open_streams(&rounds) || py_beside_open(self, streams, kept, &beside);
    if (!failed && !(failed = py_module_begin(self, &unlocked)))
        failed =
            py_module_end(self, &unlocked, time_beside(&rounds, (enum how)how, &beside, &seconds));
    py_beside_close(self, &beside);
    for (Py_ssize_t i = 0; i < rounds.count; i++)
        py_launch_forget(&rounds.steps[i].given);
    PyMem_Free(rounds.steps);
    return failed ? NULL : PyFloat_FromDouble(seconds / rounds.runs);
}

/* py_module.h: an open Module (py_module.c), calls on it (py_launch.c) and their times (py_time.c).
 */
#ifndef GPUOPT_PY_MODULE_H
#define GPUOPT_PY_MODULE_H

#include "py_core.h"

enum { STREAMS_MORE = 7 }; /* besides the first */

struct allocation {
    enum { DEVICE_MEMORY, PINNED_MEMORY, TEXTURE } what;
    uint64_t value; /* an address, or a handle */
    int unwanted;   /* given back while a call ran in another thread */
};

struct ptx_module {
    PyObject_HEAD
    PyObject *module;
    struct ops_queue *queue;              /* NULL: not open */
    struct ops_queue *more[STREAMS_MORE]; /* streams 1 and up, once they are used */
    const struct device_ops *kind;
    char which[DEVICE_WHICH];
    PyObject *ptx; /* the text, which the device may use; None: the embedded images */
    struct device_module *loaded;
    struct allocation *allocations;
    Py_ssize_t allocation_count, allocation_capacity;
    uint64_t stream;       /* that it works on between calls, as in adopt */
    PyObject *stream_kept; /* the object whose it is; NULL or None: it is the caller's business */
    PyObject *kept;        /* what an interrupted call's kernels may still use; NULL: nothing */
    int busy;              /* a method runs without the GIL */
};

/* Between these the GIL is free, and only this thread uses the queues. */
int py_module_begin(struct ptx_module *self, struct py_unlocked *unlocked);
int py_module_end(struct ptx_module *self, struct py_unlocked *unlocked, enum status status);

/* Gives back what was allocated: one thing; all that is unwanted; the same, or later, where it
 * would become a part of the graph that somebody makes of the stream. */
void py_module_release(struct ptx_module *self, const struct allocation *allocation);
void py_module_free_unwanted(struct ptx_module *self);
void py_module_free_where_it_may(struct ptx_module *self);

/* A call beside arrays that are in the device's memory and that others made. It works on the first
 * of their streams, after what the rest of them have been given; without any on the module's. */
struct beside {
    PyObject *streams;     /* a tuple */
    PyObject *kept;        /* what must live until the work has ended, this call's and before */
    uint64_t stream;       /* the first; 0: none */
    struct py_place place; /* there, if there are several; else its queue is NULL */
    enum { NOT_BEGUN, MAY_RUN, HAS_ENDED } work;
};

int py_beside_open(struct ptx_module *self, PyObject *streams, PyObject *kept,
                   struct beside *beside);
/* The work is what is done between these two, which are between begin and end. */
enum status py_beside_enter(struct ptx_module *self, const struct beside *beside);
enum status py_beside_leave(struct ptx_module *self, struct beside *beside, enum status status);
/* What the streams are given from now on waits for work that may still run. Keeps an exception. */
void py_beside_close(struct ptx_module *self, struct beside *beside);

/* A launch as Python gives it; the names and values are the given tuple's. */
struct given {
    struct device_launch launch;
    const char *name;
    void **values;
    size_t *sizes;
};

int py_launch_read(PyObject *arguments, struct given *given);
void py_launch_forget(struct given *given);
/* Finds the kernel and checks its values; between begin and end. */
enum status py_launch_prepare(struct ptx_module *self, struct given *given);

PyObject *py_module_time(struct ptx_module *self, PyObject *arguments);

#endif

/* py_module.h: an open Module (py_module.c), its launches (py_launch.c) and their times
 * (py_time.c).
 */
#ifndef GPUOPT_PY_MODULE_H
#define GPUOPT_PY_MODULE_H

#include "py_core.h"

#include <stdatomic.h>

enum { STREAMS_MORE = 7 }; /* in addition to the first */

struct allocation {
    enum { DEVICE_MEMORY, PINNED_MEMORY, TEXTURE } what;
    uint64_t value; /* an address or a handle */
    int unwanted;   /* freed by the user while a call ran in another thread */
};

struct ptx_module {
    PyObject_HEAD
    PyObject *module;
    struct ops_queue *queue;              /* NULL: closed */
    struct ops_queue *more[STREAMS_MORE]; /* streams 1 and up, opened at first use */
    const struct device_ops *kind;
    char which[DEVICE_WHICH];
    PyObject *ptx; /* the text, which the device may use; None: the embedded images */
    struct device_module *loaded;
    struct allocation *allocations;
    Py_ssize_t allocation_count, allocation_capacity;
    uint64_t stream;       /* its stream between calls, as in adopt */
    PyObject *stream_kept; /* the stream's owner; NULL or None: the caller keeps the stream alive */
    PyObject *kept;  /* objects that kernels of an interrupted call may still use; NULL: none */
    atomic_int busy; /* a method runs without the GIL */
};

/* Between begin and end the GIL is free, and only this thread uses the queues. */
int py_module_begin(struct ptx_module *self, struct py_unlocked *unlocked);
int py_module_end(struct ptx_module *self, struct py_unlocked *unlocked, enum status status);

/* Frees allocations: one; all that are unwanted; or the same, postponed where freeing would add a
 * node to a graph that is being captured on the stream. */
void py_module_release(struct ptx_module *self, const struct allocation *allocation);
void py_module_free_unwanted(struct ptx_module *self);
void py_module_free_where_it_may(struct ptx_module *self);

/* A call with arrays in the device's memory that other libraries own. It runs on the first of their
 * streams, after the others' earlier work; without any, on the module's stream. */
struct beside {
    struct py_streams streams; /* none: the module's */
    PyObject *kept;            /* what must live until the work has ended, this call's and before */
    uint64_t stream;           /* the first; 0: none */
    struct py_place place;     /* used for several streams; else its queue is NULL */
    enum { NOT_BEGUN, MAY_RUN, HAS_ENDED } work;
};

int py_beside_open(struct ptx_module *self, PyObject *streams, PyObject *kept,
                   struct beside *beside);
/* The work runs between enter and leave, which are called between begin and end. */
enum status py_beside_enter(struct ptx_module *self, const struct beside *beside);
enum status py_beside_leave(struct ptx_module *self, struct beside *beside, enum status status);
/* Later work of the streams waits for work that may still run. Keeps a pending exception. */
void py_beside_close(struct ptx_module *self, struct beside *beside);

/* A launch as Python passes it; names and values belong to the tuple. */
struct given {
    struct device_launch launch;
    const char *name;
    void **values;
    size_t *sizes;
    struct device_array *arrays;
};

int py_launch_read(PyObject *arguments, struct given *given);
void py_launch_forget(struct given *given);
/* Finds the kernel and checks its values; called between begin and end. */
enum status py_launch_prepare(struct ptx_module *self, struct given *given);

PyObject *py_module_time(struct ptx_module *self, PyObject *arguments);

#endif

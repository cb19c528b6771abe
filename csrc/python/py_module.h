/* py_module.h: what py_module.c and py_time.c share: an open Module, and launches as Python gives
 * them.
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
    PyObject_HEAD PyObject *module;
    struct ops_queue *queue;              /* NULL: not open */
    struct ops_queue *more[STREAMS_MORE]; /* streams 1 and up, once they are used */
    const struct device_ops *kind;
    char which[DEVICE_WHICH];
    PyObject *ptx; /* the text, which the device may use; None: the embedded images */
    struct device_module *loaded;
    struct allocation *allocations;
    Py_ssize_t allocation_count, allocation_capacity;
    PyObject *stream_kept; /* the object whose it is; NULL or None: it is the caller's business */
    int busy;              /* a method runs without the GIL */
};

/* Between these the GIL is free, and only this thread uses the queues. */
int py_module_begin(struct ptx_module *self, struct py_unlocked *unlocked);
int py_module_end(struct ptx_module *self, struct py_unlocked *unlocked, enum status status);

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

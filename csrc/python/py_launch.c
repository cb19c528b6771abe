/* py_launch.c: a call on a Module: begin and end, arrays that other libraries own, and launches as
 * Python passes them. Invariant: every size is checked against the kernel's.
 */
#include "py_module.h"

#include <string.h>

/* --- begin and end */

/* A module waits for all its work, which is impossible on a stream that is being captured. */
static enum status check_stream(const struct ptx_module *self, uint64_t stream) {
    return stream ? self->kind->check_stream(self->queue->device, stream, true) : STATUS_OK;
}

static enum status work_on(const struct ptx_module *self, uint64_t stream) {
    struct device *device = self->queue->device;
    const enum status status = check_stream(self, stream);
    return status || !(device->capabilities & DEVICE_STREAMS) ? status
                                                              : self->kind->adopt(device, stream);
}

int py_module_begin(struct ptx_module *self, struct py_unlocked *unlocked) {
    if (atomic_exchange(&self->busy, 1)) {
        PyErr_SetString(PyExc_RuntimeError, "this Module is in use by another thread");
        return -1;
    }
    /* Usually it is there already; an earlier call may have failed to switch back. */
    const enum status status = work_on(self, self->stream);
    if (status) {
        self->busy = 0;
        py_raise(py_state_of(self->module), status);
        return -1;
    }
    py_recording_begin(py_state_of(self->module), self->queue);
    py_unlock(unlocked, self->queue->device);
    return 0;
}

void py_module_release(struct ptx_module *self, const struct allocation *allocation) {
    struct device *device = self->queue->device;
    switch (allocation->what) {
    case DEVICE_MEMORY:
        self->kind->free(device, allocation->value);
        break;
    case PINNED_MEMORY:
        self->kind->unpin(device, (void *)(uintptr_t)allocation->value);
        break;
    case TEXTURE:
        self->kind->texture_close(device, allocation->value);
    }
}

void py_module_free_unwanted(struct ptx_module *self) {
    Py_ssize_t kept = 0;
    for (Py_ssize_t i = 0; i < self->allocation_count; i++)
        if (self->allocations[i].unwanted)
            py_module_release(self, &self->allocations[i]);
        else
            self->allocations[kept++] = self->allocations[i];
    self->allocation_count = kept;
}

/* Frees later if freeing now would add a node to a graph that is being captured. */
void py_module_free_where_it_may(struct ptx_module *self) {
    if (!check_stream(self, self->stream))
        py_module_free_unwanted(self);
}

int py_module_end(struct ptx_module *self, struct py_unlocked *unlocked, enum status status) {
    struct py_state *state = py_state_of(self->module);
    py_lock(unlocked);
    if (status)
        py_raise(state, status);
    const int told = py_recording_end(state, self->queue);
    self->busy = 0;
    py_module_free_where_it_may(self);
    return status || told ? -1 : 0;
}

/* --- arrays of other libraries */

int py_beside_open(struct ptx_module *self, PyObject *streams, PyObject *kept,
                   struct beside *beside) {
    if (PyTuple_Size(streams) > 0) {
        if (py_streams_read(streams, &beside->streams))
            return -1;
        beside->stream = beside->streams.of[0];
    }
    /* Built now: after an interruption, storing it cannot fail. */
    beside->kept = PyTuple_Pack(2, kept, self->kept ? self->kept : Py_None);
    if (!beside->kept)
        return -1;
    if (beside->streams.count < 2)
        return 0;
    beside->place = (struct py_place){.state = py_state_of(self->module), .kind = self->kind};
    memcpy(beside->place.which, self->which, sizeof beside->place.which);
    return py_place_open_on(&beside->place, &beside->streams);
}

enum status py_beside_enter(struct ptx_module *self, const struct beside *beside) {
    return beside->stream ? work_on(self, beside->stream) : STATUS_OK;
}

enum status py_beside_leave(struct ptx_module *self, struct beside *beside, enum status status) {
    if (!beside->stream)
        return status;
    const enum status back = self->kind->adopt(self->queue->device, self->stream);
    if (back && beside->work == HAS_ENDED)
        beside->work = MAY_RUN; /* the queue is still on the arrays' stream */
    return status ? status : back;
}

void py_beside_close(struct ptx_module *self, struct beside *beside) {
    PyObject *unused = beside->kept, *type, *value, *traceback;
    if (beside->place.queue) {
        if (beside->work == MAY_RUN)
            py_place_join(&beside->place, &beside->streams, 1);
        py_place_close(&beside->place);
    }
    if (beside->work == MAY_RUN) {
        unused = self->kept; /* contained in the new one */
        self->kept = beside->kept;
    }
    PyErr_Fetch(&type, &value, &traceback);
    if (beside->work == HAS_ENDED) { /* and so has all earlier work, on any stream */
        PyObject *before = self->kept;
        self->kept = NULL;
        Py_XDECREF(before);
    }
    Py_XDECREF(unused);
    PyErr_Restore(type, value, traceback);
}

/* --- launches */

void py_launch_forget(struct given *given) {
    PyMem_Free(given->values);
    PyMem_Free(given->sizes);
    PyMem_Free(given->arrays);
}

/* The caller's tuple keeps labels and fields alive. */
static int read_arrays(PyObject *tuple, struct given *given) {
    const Py_ssize_t count = PyTuple_Size(tuple);
    given->arrays = PyMem_Calloc((size_t)count + 1, sizeof *given->arrays);
    if (!given->arrays) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count && i < DEVICE_ARRAYS_MOST; i++) {
        struct device_array *array = &given->arrays[i];
        PyObject *each = PyTuple_GetItem(tuple, i), *fields;
        Py_ssize_t bytes;
        if (!PyTuple_Check(each) ||
            !PyArg_ParseTuple(each, "InIsOp", &array->argument, &bytes, &array->item, &array->label,
                              &fields, &array->is_copy)) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "launch: arrays are tuples");
            return -1;
        }
        array->bytes = (size_t)bytes;
        if (fields != Py_None && PyBytes_Check(fields) && PyBytes_Size(fields) == array->item)
            array->fields = (const unsigned char *)PyBytes_AsString(fields);
        given->launch.array_count++;
    }
    given->launch.arrays = given->arrays;
    return 0;
}

int py_launch_read(PyObject *arguments, struct given *given) {
    struct device_launch *launch = &given->launch;
    PyObject *tuple, *arrays;
    unsigned long long steps, seed;
    PyObject *delays;
    int checked;
    if (!PyArg_ParseTuple(arguments, "s(III)(III)IO!(KddpKOI)O!", &given->name, &launch->grid[0],
                          &launch->grid[1], &launch->grid[2], &launch->block[0], &launch->block[1],
                          &launch->block[2], &launch->shared_bytes, &PyTuple_Type, &tuple, &steps,
                          &launch->seconds, &launch->idle_seconds, &checked, &seed, &delays,
                          &launch->flags, &PyTuple_Type, &arrays) ||
        read_arrays(arrays, given))
        return -1;
    launch->steps = steps;
    launch->unchecked = !checked;
    launch->seed = seed;
    if (PyBytes_Check(delays)) { /* the caller's tuple keeps them */
        launch->delays = (const uint64_t(*)[3])(const void *)PyBytes_AsString(delays);
        launch->delay_count = (size_t)PyBytes_Size(delays) / sizeof *launch->delays;
    }
    const unsigned count = (unsigned)PyTuple_Size(tuple);
    given->values = PyMem_Calloc(count + 1u, sizeof *given->values);
    given->sizes = PyMem_Calloc(count + 1u, sizeof *given->sizes);
    if (!given->values || !given->sizes) {
        PyErr_NoMemory();
        return -1;
    }
    launch->arguments = given->values;
    launch->argument_count = count;
    for (unsigned i = 0; i < count; i++) {
        char *data = NULL;
        Py_ssize_t bytes = 0;
        if (PyBytes_AsStringAndSize(PyTuple_GetItem(tuple, (Py_ssize_t)i), &data, &bytes))
            return -1;
        given->values[i] = data;
        given->sizes[i] = (size_t)bytes;
    }
    return 0;
}

/* Checks that there is one value for every parameter, of its size. */
static enum status check_sizes(struct ptx_module *self, const struct device_kernel *kernel,
                               const char *name, const size_t *sizes, unsigned count) {
    for (unsigned i = 0; i <= count; i++) {
        size_t bytes = 0;
        const enum status status =
            self->kind->parameter_bytes(self->queue->device, kernel, i, &bytes);
        if (status)
            return status;
        if (bytes != (i < count ? sizes[i] : 0))
            return status_fail(STATUS_BAD_VALUE,
                               "kernel %.120s: argument %u has %zu bytes, its parameter has %zu",
                               name, i + 1, i < count ? sizes[i] : 0, bytes);
    }
    return STATUS_OK;
}

enum status py_launch_prepare(struct ptx_module *self, struct given *given) {
    struct device_kernel *kernel = NULL;
    const enum status status =
        self->kind->kernel_get(self->queue->device, self->loaded, given->name, &kernel);
    given->launch.kernel = kernel;
    return status
               ? status
               : check_sizes(self, kernel, given->name, given->sizes, given->launch.argument_count);
}

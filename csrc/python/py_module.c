/* py_module.c: Module: somebody's PTX, or the embedded image, on a device: memory there, its
 * kernels, their launches, run or timed. Takes arguments as bytes; what they mean and whether they
 * fit is gpuopt/_ptx.py's business. Here every size is checked against the kernel's own, so that no
 * caller makes a device read past a value.
 */
#include "py_core.h"

#include <string.h>

struct allocation {
    device_address address;
    int unwanted; /* freed while a call ran in another thread */
};

struct ptx_module {
    PyObject_HEAD PyObject *module;
    struct ops_queue *queue; /* NULL: not open */
    const struct device_ops *kind;
    char which[32];
    PyObject *ptx; /* the text, which the device may use; None: the embedded image */
    struct device_module *loaded;
    struct allocation *allocations;
    Py_ssize_t allocation_count, allocation_capacity;
    int busy; /* a method runs without the GIL */
};

/* --- between these the GIL is free, and only this thread uses the queue */

static int begin(struct ptx_module *self, struct py_unlocked *unlocked) {
    if (self->busy) {
        PyErr_SetString(PyExc_RuntimeError, "this Module is in use by another thread");
        return -1;
    }
    self->busy = 1;
    py_recording_begin(py_state_of(self->module), self->queue);
    py_unlock(unlocked, self->queue->device);
    return 0;
}

static void free_unwanted(struct ptx_module *self) {
    Py_ssize_t kept = 0;
    for (Py_ssize_t i = 0; i < self->allocation_count; i++)
        if (self->allocations[i].unwanted)
            self->kind->free(self->queue->device, self->allocations[i].address);
        else
            self->allocations[kept++] = self->allocations[i];
    self->allocation_count = kept;
}

static int end(struct ptx_module *self, struct py_unlocked *unlocked, enum status status) {
    struct py_state *state = py_state_of(self->module);
    py_lock(unlocked);
    if (status)
        py_raise(state, status);
    const int told = py_recording_end(state, self->queue);
    self->busy = 0;
    free_unwanted(self);
    return status || told ? -1 : 0;
}

/* --- opening and closing */

static PyObject *module_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    static char *keys[] = {"ptx", "device", NULL};
    PyObject *ptx, *device = NULL;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O|O", keys, &ptx, &device))
        return NULL;
    if (ptx != Py_None && !PyBytes_Check(ptx)) {
        PyErr_SetString(PyExc_TypeError, "ptx: must be bytes, or None for the embedded kernels");
        return NULL;
    }
    PyObject *module = PyType_GetModule(type);
    struct py_state *state = py_state_of(module);
    allocfunc allocate = __extension__(allocfunc) PyType_GetSlot(type, Py_tp_alloc);
    struct ptx_module *self = (struct ptx_module *)allocate(type, 0);
    if (!self)
        return NULL;
    self->module = Py_NewRef(module);
    self->ptx = Py_NewRef(ptx);
    if (py_choose_kernel_device(state, device, &self->kind, self->which))
        goto fail;
    self->queue = py_queue_take(state, self->kind, self->which);
    if (!self->queue)
        goto fail;
    if (!(self->queue->device->capabilities & DEVICE_KERNELS)) {
        PyErr_Format(PyExc_ValueError, "device: '%s' runs no PTX; use 'cuda' or 'sim'",
                     self->kind->kind);
        goto fail;
    }
    struct device_image image = gpuopt_image;
    if (ptx != Py_None)
        image = (struct device_image){
            .ptx = PyBytes_AsString(ptx),
            .ptx_end = PyBytes_AsString(ptx) + PyBytes_Size(ptx),
        };
    struct py_unlocked unlocked;
    if (begin(self, &unlocked))
        goto fail;
    struct device_module *loaded = NULL;
    const enum status status = self->kind->module_load(self->queue->device, &image, &loaded);
    if (!status)
        self->loaded = loaded;
    if (end(self, &unlocked, status))
        goto fail;
    return (PyObject *)self;
fail:
    Py_DECREF(self);
    return NULL;
}

static void module_dealloc(struct ptx_module *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    freefunc release = __extension__(freefunc) PyType_GetSlot(type, Py_tp_free);
    if (self->queue) {
        for (Py_ssize_t i = 0; i < self->allocation_count; i++)
            self->allocations[i].unwanted = 1;
        free_unwanted(self);
        if (self->loaded &&
            self->ptx != Py_None) /* the embedded image lives as long as the device */
            self->kind->module_unload(self->queue->device, self->loaded);
        py_queue_give(py_state_of(self->module), self->queue, self->kind, self->which);
    }
    PyMem_Free(self->allocations);
    Py_XDECREF(self->ptx);
    Py_XDECREF(self->module);
    release(self);
    Py_DECREF(type);
}

/* --- memory */

/* Notes an allocation; with the GIL, and nobody else at work. */
static int remember(struct ptx_module *self, device_address address) {
    if (self->allocation_count == self->allocation_capacity) {
        const Py_ssize_t capacity = 2 * self->allocation_capacity + 8;
        struct allocation *grown =
            PyMem_Realloc(self->allocations, (size_t)capacity * sizeof *grown);
        if (!grown) {
            PyErr_NoMemory();
            return -1;
        }
        self->allocations = grown;
        self->allocation_capacity = capacity;
    }
    self->allocations[self->allocation_count++] = (struct allocation){.address = address};
    return 0;
}

static PyObject *module_alloc(struct ptx_module *self, PyObject *argument) {
    const size_t bytes = PyLong_AsSize_t(argument);
    struct py_unlocked unlocked;
    device_address address = 0;
    if (PyErr_Occurred() || begin(self, &unlocked))
        return NULL;
    const enum status status = self->kind->alloc(self->queue->device, bytes, &address);
    int failed = end(self, &unlocked, status);
    if (!status && (failed || remember(self, address))) {
        self->kind->free(self->queue->device, address);
        failed = 1;
    }
    return failed ? NULL : PyLong_FromUnsignedLongLong(address);
}

static PyObject *module_free(struct ptx_module *self, PyObject *argument) {
    const device_address address = PyLong_AsUnsignedLongLong(argument);
    if (PyErr_Occurred())
        return NULL;
    for (Py_ssize_t i = self->allocation_count - 1; i >= 0; i--)
        if (self->allocations[i].address == address)
            self->allocations[i].unwanted = 1;
    if (!self->busy)
        free_unwanted(self);
    return Py_NewRef(Py_None);
}

static PyObject *copy(struct ptx_module *self, PyObject *arguments, int in) {
    unsigned long long address;
    PyObject *object;
    Py_buffer view;
    struct py_unlocked unlocked;
    enum status status;
    if (!PyArg_ParseTuple(arguments, "KO", &address, &object) ||
        PyObject_GetBuffer(object, &view, in ? PyBUF_SIMPLE : PyBUF_WRITABLE))
        return NULL;
    if (begin(self, &unlocked)) {
        PyBuffer_Release(&view);
        return NULL;
    }
    struct device *device = self->queue->device;
    const struct device_source source = {.data = view.buf};
    if (view.len == 0)
        status = STATUS_OK;
    else if (in)
        status = self->kind->copy_in(device, address, &source, (size_t)view.len);
    else
        status = self->kind->copy_out(device, view.buf, address, (size_t)view.len);
    const int failed = end(self, &unlocked, status);
    PyBuffer_Release(&view);
    return failed ? NULL : Py_NewRef(Py_None);
}

static PyObject *module_copy_in(struct ptx_module *self, PyObject *arguments) {
    return copy(self, arguments, 1);
}

static PyObject *module_copy_out(struct ptx_module *self, PyObject *arguments) {
    return copy(self, arguments, 0);
}

/* --- kernels */

static PyObject *module_kernel(struct ptx_module *self, PyObject *name) {
    const char *symbol = py_text(name, "kernel");
    struct py_unlocked unlocked;
    struct device_kernel *kernel = NULL;
    PyObject *sizes = PyList_New(0);
    if (!symbol || !sizes || begin(self, &unlocked)) {
        Py_XDECREF(sizes);
        return NULL;
    }
    struct device *device = self->queue->device;
    enum status status = self->kind->kernel_get(device, self->loaded, symbol, &kernel);
    int failed = end(self, &unlocked, status);
    size_t bytes = 1;
    for (unsigned i = 0; !failed && bytes; i++) {
        status = self->kind->parameter_bytes(device, kernel, i, &bytes);
        if (status)
            py_raise(py_state_of(self->module), status);
        PyObject *size = !status && bytes ? PyLong_FromSize_t(bytes) : NULL;
        failed = status || (bytes && (!size || PyList_Append(sizes, size)));
        Py_XDECREF(size);
    }
    if (failed)
        Py_CLEAR(sizes);
    return sizes;
}

/* One value for every parameter, each as long as it is. */
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

/* A launch as Python gives it; the names and values are the given tuple's. */
struct given {
    struct device_launch launch;
    const char *name;
    void **values;
    size_t *sizes;
};

static void forget(struct given *given) {
    PyMem_Free(given->values);
    PyMem_Free(given->sizes);
}

static int read_launch(PyObject *arguments, struct given *given) {
    struct device_launch *launch = &given->launch;
    PyObject *tuple;
    if (!PyArg_ParseTuple(arguments, "s(III)(III)IO!", &given->name, &launch->grid[0],
                          &launch->grid[1], &launch->grid[2], &launch->block[0], &launch->block[1],
                          &launch->block[2], &launch->shared_bytes, &PyTuple_Type, &tuple))
        return -1;
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

/* Finds the kernel; between begin() and end(). */
static enum status prepare(struct ptx_module *self, struct given *given) {
    struct device_kernel *kernel = NULL;
    const enum status status =
        self->kind->kernel_get(self->queue->device, self->loaded, given->name, &kernel);
    given->launch.kernel = kernel;
    return status
               ? status
               : check_sizes(self, kernel, given->name, given->sizes, given->launch.argument_count);
}

static PyObject *module_launch(struct ptx_module *self, PyObject *arguments) {
    struct given given = {0};
    struct py_unlocked unlocked;
    int failed = read_launch(arguments, &given);
    if (!failed && !(failed = begin(self, &unlocked))) {
        struct device *device = self->queue->device;
        enum status status = prepare(self, &given);
        if (!status)
            status = self->kind->launch(device, &given.launch);
        if (!status)
            status = self->kind->sync(device);
        failed = end(self, &unlocked, status);
    }
    forget(&given);
    return failed ? NULL : Py_NewRef(Py_None);
}

/* Every launch once to warm up, then all of them in turn, `runs` times over. */
static enum status time_all(struct ptx_module *self, struct given *given, Py_ssize_t count,
                            unsigned runs, double *seconds) {
    struct device *device = self->queue->device;
    enum status status = STATUS_OK;
    for (Py_ssize_t i = 0; i < count && !status; i++) {
        status = prepare(self, &given[i]);
        if (!status)
            status = self->kind->launch(device, &given[i].launch);
    }
    if (!status)
        status = self->kind->sync(device);
    if (!status)
        status = self->kind->timer_begin(device);
    for (unsigned run = 0; run < runs && !status; run++)
        for (Py_ssize_t i = 0; i < count && !status; i++)
            status = self->kind->launch(device, &given[i].launch);
    return status ? status : self->kind->timer_end(device, seconds);
}

static PyObject *module_time(struct ptx_module *self, PyObject *arguments) {
    PyObject *launches;
    unsigned runs;
    double seconds = 0;
    struct py_unlocked unlocked;
    if (!PyArg_ParseTuple(arguments, "O!I", &PyTuple_Type, &launches, &runs))
        return NULL;
    const Py_ssize_t count = PyTuple_Size(launches);
    if (runs == 0 || count == 0) {
        PyErr_SetString(PyExc_ValueError, "launches, runs: must be at least 1");
        return NULL;
    }
    struct given *given = PyMem_Calloc((size_t)count, sizeof *given);
    if (!given)
        return PyErr_NoMemory();
    int failed = 0;
    for (Py_ssize_t i = 0; i < count && !failed; i++)
        failed = read_launch(PyTuple_GetItem(launches, i), &given[i]);
    if (!failed && !(failed = begin(self, &unlocked)))
        failed = end(self, &unlocked, time_all(self, given, count, runs, &seconds));
    for (Py_ssize_t i = 0; i < count; i++)
        forget(&given[i]);
    PyMem_Free(given);
    return failed ? NULL : PyFloat_FromDouble(seconds / runs);
}

static PyObject *module_device(struct ptx_module *self, void *closure) {
    (void)closure;
    return PyUnicode_FromString(self->queue->info.name);
}

static PyMethodDef module_methods[] = {
    {"alloc", (PyCFunction)(void (*)(void))module_alloc, METH_O,
     "alloc($self, nbytes, /)\n--\n\nDevice memory, as its address."},
    {"free", (PyCFunction)(void (*)(void))module_free, METH_O,
     "free($self, address, /)\n--\n\nGive it back; later, while a call runs in another thread."},
    {"copy_in", (PyCFunction)(void (*)(void))module_copy_in, METH_VARARGS,
     "copy_in($self, address, buffer, /)\n--\n\nCopy a contiguous buffer to the device."},
    {"copy_out", (PyCFunction)(void (*)(void))module_copy_out, METH_VARARGS,
     "copy_out($self, address, buffer, /)\n--\n\nFill a contiguous buffer from the device."},
    {"kernel", (PyCFunction)(void (*)(void))module_kernel, METH_O,
     "kernel($self, name, /)\n--\n\nThe sizes of a kernel's parameters; raises where it has none."},
    {"launch", (PyCFunction)(void (*)(void))module_launch, METH_VARARGS,
     "launch($self, name, grid, block, shared, values, /)\n--\n\n"
     "Run a kernel to its end; the values are bytes, one for each parameter."},
    {"time", (PyCFunction)(void (*)(void))module_time, METH_VARARGS,
     "time($self, launches, runs, /)\n--\n\n"
     "Seconds that a round of launches takes, of `runs` rounds back to back after a first one; "
     "each\n"
     "launch is a tuple of launch's arguments. Raises where the device has no timer."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef module_getset[] = {
    {"device", (getter)module_device, NULL, "The device's name.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* __extension__: ISO C has no void pointer to a function, the C API wants one. */
static PyType_Slot module_slots[] = {
    {Py_tp_new, __extension__(void *) module_new},
    {Py_tp_dealloc, __extension__(void *) module_dealloc},
    {Py_tp_methods, module_methods},
    {Py_tp_getset, module_getset},
    {Py_tp_doc, "Module(ptx, device=None)\n--\n\n"
                "A text of PTX, or the embedded kernels for None, loaded on a device."},
    {0, NULL},
};

static PyType_Spec module_spec = {
    .name = "gpuopt._core.Module",
    .basicsize = sizeof(struct ptx_module),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = module_slots,
};

int py_module_add(PyObject *module) {
    PyObject *type = PyType_FromModuleAndSpec(module, &module_spec, NULL);
    const int failed = !type || PyModule_AddObjectRef(module, "Module", type);
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

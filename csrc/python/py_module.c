/* py_module.c: Module: a user's PTX, or the embedded images, on a device: memory, textures, kernels
 * and launches. Arguments arrive as bytes; gpuopt/ptx/arguments.py gives them their meaning. Every
 * size is checked here against the kernel's own, so that no caller makes a device read past a
 * value.
 */
#include "py_module.h"

#include <stdlib.h>

#include <string.h>

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
    if (ptx != Py_None) {
        struct py_unlocked unlocked;
        struct device_module *loaded = NULL;
        if (py_module_begin(self, &unlocked))
            goto fail;
        const enum status status = self->kind->module_load(
            self->queue->device, PyBytes_AsString(ptx), (size_t)PyBytes_Size(ptx), &loaded);
        if (!status)
            self->loaded = loaded;
        if (py_module_end(self, &unlocked, status))
            goto fail;
    }
    return (PyObject *)self;
fail:
    Py_DECREF(self);
    return NULL;
}

static int module_traverse(struct ptx_module *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE((PyObject *)self));
    Py_VISIT(self->module);
    Py_VISIT(self->kept);
    Py_VISIT(self->stream_kept);
    return 0;
}

/* Waits before the resources in use are freed. The GIL is free meanwhile: a stream may wait for a
 * Python callback. */
static void end_work(const struct ptx_module *self) {
    if (self->kept) {
        Py_BEGIN_ALLOW_THREADS
        self->kind->sync(self->queue->device);
        Py_END_ALLOW_THREADS
    }
}

/* A kept object may refer to the module. */
static int module_clear(struct ptx_module *self) {
    end_work(self);
    if (self->stream && !self->kind->adopt(self->queue->device, 0))
        self->stream = 0;
    Py_CLEAR(self->kept);
    if (!self->stream)
        Py_CLEAR(self->stream_kept);
    return 0;
}

static void module_dealloc(struct ptx_module *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    PyObject_GC_UnTrack(self);
    freefunc give_back = __extension__(freefunc) PyType_GetSlot(type, Py_tp_free);
    struct py_state *state = py_state_of(self->module);
    if (self->queue) {
        for (Py_ssize_t i = 0; i < self->allocation_count; i++)
            self->allocations[i].unwanted = 1;
        py_module_free_unwanted(self);
        end_work(self);
        if (self->loaded)
            self->kind->module_unload(self->queue->device, self->loaded);
        for (int i = 0; i < STREAMS_MORE; i++)
            if (self->more[i])
                py_queue_give(state, self->more[i], self->kind, self->which);
        if (self->kind->adopt(self->queue->device, 0)) /* its stream was destroyed */
            ops_close(self->queue);
        else
            py_queue_give(state, self->queue, self->kind, self->which);
    }
    PyMem_Free(self->allocations);
    Py_XDECREF(self->kept);
    Py_XDECREF(self->stream_kept);
    Py_XDECREF(self->ptx);
    Py_XDECREF(self->module);
    give_back(self);
    Py_DECREF(type);
}

/* --- memory */

/* Records an allocation; requires the GIL and exclusive use. */
static int remember(struct ptx_module *self, struct allocation allocation) {
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
    self->allocations[self->allocation_count++] = allocation;
    return 0;
}

/* Ends a method that has allocated something, and returns its address or handle. */
static PyObject *answer(struct ptx_module *self, struct py_unlocked *unlocked, enum status status,
                        struct allocation made) {
    int failed = py_module_end(self, unlocked, status);
    if (!status && (failed || remember(self, made))) {
        py_module_release(self, &made);
        failed = 1;
    }
    return failed ? NULL : PyLong_FromUnsignedLongLong(made.value);
}

static PyObject *module_alloc(struct ptx_module *self, PyObject *argument) {
    const size_t bytes = PyLong_AsSize_t(argument);
    struct py_unlocked unlocked;
    struct allocation made = {.what = DEVICE_MEMORY};
    if (PyErr_Occurred() || py_module_begin(self, &unlocked))
        return NULL;
    return answer(self, &unlocked, self->kind->alloc(self->queue->device, bytes, &made.value),
                  made);
}

static PyObject *module_pin(struct ptx_module *self, PyObject *argument) {
    const size_t bytes = PyLong_AsSize_t(argument);
    struct py_unlocked unlocked;
    void *memory = NULL;
    if (PyErr_Occurred() || py_module_begin(self, &unlocked))
        return NULL;
    const enum status status = self->kind->pin(self->queue->device, bytes, &memory);
    return answer(self, &unlocked, status,
                  (struct allocation){.what = PINNED_MEMORY, .value = (uintptr_t)memory});
}

static PyObject *module_texture(struct ptx_module *self, PyObject *arguments) {
    struct device_texture texture = {0};
    struct device_texture_handles handles = {0};
    unsigned long long address;
    unsigned texel, outside;
    float *border = texture.border;
    int flags[7];
    struct allocation made = {.what = TEXTURE};
    struct py_unlocked unlocked;
    if (!PyArg_ParseTuple(arguments, "KIIIIIIIII(ffff)fppppppp", &address, &texture.dimensions,
                          &texture.width, &texture.height, &texture.depth, &texture.layers,
                          &texture.levels, &texture.channels, &texel, &outside, &border[0],
                          &border[1], &border[2], &border[3], &texture.level_bias, &flags[0],
                          &flags[1], &flags[2], &flags[3], &flags[4], &flags[5], &flags[6]))
        return NULL;
    if (texel >= TEXEL_COUNT || outside >= OUTSIDE_COUNT || texture.dimensions > 3 ||
        !texture.width || !texture.height || !texture.depth || !texture.layers || !texture.levels ||
        texture.levels > 32 ||
        (texture.channels != 1 && texture.channels != 2 && texture.channels != 4)) {
        PyErr_SetString(PyExc_ValueError, "texture: no such shape or texel");
        return NULL;
    }
    if (py_module_begin(self, &unlocked))
        return NULL;
    texture.data = address;
    texture.texel = (enum device_texel)texel;
    texture.outside = (enum device_outside)outside;
    texture.layered = flags[0];
    texture.cube = flags[1];
    texture.linear_filter = flags[2];
    texture.linear_levels = flags[3];
    texture.normalised = flags[4];
    texture.as_integer = flags[5];
    texture.writable = flags[6];
    const enum status status = self->kind->texture_open(self->queue->device, &texture, &handles);
    made.value = handles.texture;
    PyObject *handle = answer(self, &unlocked, status, made);
    return handle ? Py_BuildValue("NK", handle, (unsigned long long)handles.surface) : NULL;
}

static PyObject *module_texture_read(struct ptx_module *self, PyObject *arguments) {
    unsigned long long handle;
    Py_buffer to;
    struct py_unlocked unlocked;
    if (!PyArg_ParseTuple(arguments, "Kw*", &handle, &to))
        return NULL;
    int failed = py_module_begin(self, &unlocked);
    if (!failed)
        failed = py_module_end(
            self, &unlocked,
            self->kind->texture_read(self->queue->device, handle, to.buf, (size_t)to.len));
    PyBuffer_Release(&to);
    return failed ? NULL : Py_NewRef(Py_None);
}

static PyObject *module_free(struct ptx_module *self, PyObject *argument) {
    const uint64_t value = PyLong_AsUnsignedLongLong(argument);
    if (PyErr_Occurred())
        return NULL;
    for (Py_ssize_t i = self->allocation_count - 1; i >= 0; i--)
        if (self->allocations[i].value == value && !self->allocations[i].unwanted) {
            self->allocations[i].unwanted = 1;
            break;
        }
    if (!self->busy)
        py_module_free_where_it_may(self);
    return Py_NewRef(Py_None);
}

static PyObject *module_adopt(struct ptx_module *self, PyObject *arguments) {
    PyObject *number, *kept = Py_None;
    struct py_unlocked unlocked;
    if (!PyArg_ParseTuple(arguments, "O|O", &number, &kept))
        return NULL;
    const uint64_t stream = PyLong_AsUnsignedLongLong(number);
    if (PyErr_Occurred() || py_module_begin(self, &unlocked))
        return NULL;
    struct device *device = self->queue->device;
    enum status status = self->kind->check_stream(device, stream, false);
    if (!status)
        status = self->kind->adopt(device, stream);
    const int failed = py_module_end(self, &unlocked, status);
    PyObject *unused = NULL;
    if (!status) {
        unused = self->stream_kept;
        self->stream = stream;
        self->stream_kept = Py_NewRef(kept);
    }
    Py_XDECREF(unused);
    return failed ? NULL : Py_NewRef(Py_None);
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
    if (py_module_begin(self, &unlocked)) {
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
    const int failed = py_module_end(self, &unlocked, status);
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
    if (!symbol || !sizes || py_module_begin(self, &unlocked)) {
        Py_XDECREF(sizes);
        return NULL;
    }
    struct device *device = self->queue->device;
    enum status status = self->kind->kernel_get(device, self->loaded, symbol, &kernel);
    int failed = py_module_end(self, &unlocked, status);
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

static PyObject *module_resources(struct ptx_module *self, PyObject *name) {
    const char *symbol = py_text(name, "kernel");
    struct py_unlocked unlocked;
    struct device_kernel *kernel = NULL;
    struct device_resources found = {0};
    if (!symbol || py_module_begin(self, &unlocked))
        return NULL;
    struct device *device = self->queue->device;
    enum status status = self->kind->kernel_get(device, self->loaded, symbol, &kernel);
    if (!status)
        status = self->kind->kernel_resources(device, kernel, &found);
    return py_module_end(self, &unlocked, status)
               ? NULL
               : Py_BuildValue("(III)", found.registers, found.local_bytes, found.shared_bytes);
}

static PyObject *module_variable(struct ptx_module *self, PyObject *argument) {
    struct py_unlocked unlocked;
    device_address address = 0;
    size_t bytes = 0;
    const char *name = py_text(argument, "name");
    if (!name || py_module_begin(self, &unlocked))
        return NULL;
    const enum status status =
        self->kind->module_variable(self->queue->device, self->loaded, name, &address, &bytes);
    return py_module_end(self, &unlocked, status)
               ? NULL
               : Py_BuildValue("(Kn)", (unsigned long long)address, (Py_ssize_t)bytes);
}

/* Between begin and end. */
static enum status launch_beside(struct ptx_module *self, struct given *given,
                                 struct beside *beside) {
    struct device *device = self->queue->device;
    enum status status = py_launch_prepare(self, given);
    if (status || (status = py_beside_enter(self, beside)))
        return status;
    status = self->kind->launch(device, &given->launch);
    if (!status) {
        status = self->kind->sync(device);
        beside->work = status ? MAY_RUN : HAS_ENDED;
    }
    return py_beside_leave(self, beside, status);
}

/* Writes to sys.stdout, whatever that is now, and keeps a pending exception. */
static void show_output(char *text) {
    PyObject *type, *value, *traceback, *file;
    if (!text)
        return;
    PyErr_Fetch(&type, &value, &traceback);
    file = PySys_GetObject("stdout"); /* borrowed */
    if (file && file != Py_None && PyFile_WriteString(text, file))
        PyErr_Clear();
    PyErr_Restore(type, value, traceback);
    free(text);
}

static PyObject *module_launch(struct ptx_module *self, PyObject *arguments) {
    struct given given = {0};
    struct beside beside = {0};
    struct py_unlocked unlocked;
    PyObject *launch, *streams, *kept;
    if (!PyArg_ParseTuple(arguments, "O!O!O", &PyTuple_Type, &launch, &PyTuple_Type, &streams,
                          &kept))
        return NULL;
    char *output = NULL;
    int failed = py_launch_read(launch, &given) || py_beside_open(self, streams, kept, &beside);
    given.launch.output = &output;
    if (!failed && !(failed = py_module_begin(self, &unlocked)))
        failed = py_module_end(self, &unlocked, launch_beside(self, &given, &beside));
    py_beside_close(self, &beside);
    py_launch_forget(&given);
    show_output(output);
    return failed ? NULL : Py_NewRef(Py_None);
}

static PyObject *module_device(struct ptx_module *self, void *closure) {
    (void)closure;
    return PyUnicode_FromString(self->queue->info.name);
}

static PyMethodDef module_methods[] = {
    {"alloc", (PyCFunction)(void (*)(void))module_alloc, METH_O,
     "alloc($self, nbytes, /)\n--\n\nDevice memory, as its address."},
    {"pin", (PyCFunction)(void (*)(void))module_pin, METH_O,
     "pin($self, nbytes, /)\n--\n\nPinned host memory, as its address."},
    {"texture", (PyCFunction)(void (*)(void))module_texture, METH_VARARGS,
     "texture($self, address, dimensions, width, height, depth, layers, levels, channels, texel, "
     "outside, border, level_bias, layered, cube, linear_filter, linear_levels, normalised, "
     "as_integer, "
     "writable, /)\n--\n\nCreate a texture object over device memory; return its handle and its "
     "surface's (0: none). The numbers are device.h's."},
    {"texture_read", (PyCFunction)(void (*)(void))module_texture_read, METH_VARARGS,
     "texture_read($self, handle, to, /)\n--\n\nCopy the first level of an array to the host."},
    {"free", (PyCFunction)(void (*)(void))module_free, METH_O,
     "free($self, address, /)\n--\n\nFree an allocation or texture; later, while a call runs in "
     "another "
     "thread."},
    {"copy_in", (PyCFunction)(void (*)(void))module_copy_in, METH_VARARGS,
     "copy_in($self, address, buffer, /)\n--\n\nCopy a contiguous buffer to the device."},
    {"copy_out", (PyCFunction)(void (*)(void))module_copy_out, METH_VARARGS,
     "copy_out($self, address, buffer, /)\n--\n\nCopy device memory to a contiguous buffer."},
    {"kernel", (PyCFunction)(void (*)(void))module_kernel, METH_O,
     "kernel($self, name, /)\n--\n\nReturn the sizes of a kernel's parameters; raise if the module "
     "lacks it."},
    {"resources", (PyCFunction)(void (*)(void))module_resources, METH_O,
     "resources($self, name, /)\n--\n\n"
     "Return a kernel's registers and local bytes per thread, and static shared bytes per block."},
    {"variable", (PyCFunction)(void (*)(void))module_variable, METH_O,
     "variable($self, name, /)\n--\n\nReturn the address and the bytes of a variable."},
    {"launch", (PyCFunction)(void (*)(void))module_launch, METH_VARARGS,
     "launch($self, launch, streams, kept, /)\n--\n\n"
     "Run a kernel to its end. launch: (name, grid, block, shared, values, limits, arrays); values "
     "holds\n"
     "bytes for each parameter; limits are steps, seconds, and seconds without the end of a warp\n"
     "(device.h). streams: a tuple with the streams of its arrays; the kernel runs on the first,\n"
     "or on the module's for (). kept: objects to keep until the kernel has completed."},
    {"adopt", (PyCFunction)(void (*)(void))module_adopt, METH_VARARGS,
     "adopt($self, stream, kept=None, /)\n--\n\n"
     "Work on a caller's CUstream of this device; 0: on its own again. kept: the stream's owner."},
    {"time", (PyCFunction)(void (*)(void))py_module_time, METH_VARARGS,
     "time($self, steps, runs, how, streams, kept, /)\n--\n\n"
     "Return seconds per round of steps, over `runs` rounds after a first one. Each step is\n"
     "(stream, launch's arguments) or (stream, (to, from, nbytes)), a copy. how: 0 back to back,\n"
     "1 waiting for each, 2 as a graph, 3 the host's time until all is enqueued. streams and\n"
     "kept are as for launch(). Raises if the device has no timer."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef module_getset[] = {
    {"device", (getter)module_device, NULL, "The device's name.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* __extension__: ISO C has no function pointers in void pointers, which the C API requires. */
static PyType_Slot module_slots[] = {
    {Py_tp_new, __extension__(void *) module_new},
    {Py_tp_dealloc, __extension__(void *) module_dealloc},
    {Py_tp_traverse, __extension__(void *) module_traverse},
    {Py_tp_clear, __extension__(void *) module_clear},
    {Py_tp_methods, module_methods},
    {Py_tp_getset, module_getset},
    {Py_tp_doc, "Module(ptx, device=None)\n--\n\n"
                "Load a text of PTX, or the embedded kernels for None, on a device."},
    {0, NULL},
};

static PyType_Spec module_spec = {
    .name = "gpuopt._core.Module",
    .basicsize = sizeof(struct ptx_module),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = module_slots,
};

int py_module_add(PyObject *module) {
    PyObject *type = PyType_FromModuleAndSpec(module, &module_spec, NULL);
    const int failed = !type || PyModule_AddObjectRef(module, "Module", type);
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

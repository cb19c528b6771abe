/* py_dlpack.c: DLPack (https://dmlc.github.io/dlpack/latest/c_api.html, versions 1.x): exports and
 * consumes capsules, and reads the C exchange API. Before version 1.0 a producer's struct lacks the
 * first three fields of the versioned one. Rejects nothing: the caller checks types and devices.
 */
#include "py_core.h"

#include <stdlib.h>
#include <string.h>

struct dl_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides; /* in elements; NULL: C order */
    uint64_t byte_offset;
};

enum { DL_MAJOR = 1, DL_DIMENSIONS_MAX = 64 };

struct dl_managed {
    struct dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *self);
};
struct dl_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct dl_versioned *self);
    uint64_t flags;
    struct dl_tensor tensor;
};
enum { DL_READ_ONLY = 1 };

static const char plain[] = "dltensor", versioned[] = "dltensor_versioned",
                  used_plain[] = "used_dltensor", used_versioned[] = "used_dltensor_versioned",
                  holder_plain[] = "gpuopt.dltensor", holder_versioned[] = "gpuopt.dltensor_v";

/* --- export */

struct exported {
    union {
        struct dl_managed plain;
        struct dl_versioned versioned;
    } tensor;
    PyObject *owner;
    int64_t extents[]; /* shape, then strides */
};

static void drop(struct exported *exported) {
    if (Py_IsInitialized()) { /* the consumer may call from a thread of its own */
        const PyGILState_STATE gil = PyGILState_Ensure();
        Py_DECREF(exported->owner);
        PyGILState_Release(gil);
    }
    free(exported);
}
static void drop_plain(struct dl_managed *self) { drop(self->context); }
static void drop_versioned(struct dl_versioned *self) { drop(self->context); }

/* Destructor of a capsule that was not consumed. */
static void capsule_gone(PyObject *capsule) {
    if (PyCapsule_IsValid(capsule, versioned))
        drop_versioned(PyCapsule_GetPointer(capsule, versioned));
    else if (PyCapsule_IsValid(capsule, plain))
        drop_plain(PyCapsule_GetPointer(capsule, plain));
}

static int fill_tensor(struct dl_tensor *tensor, int64_t *extents, PyObject *shape) {
    const Py_ssize_t ndim = PyTuple_Size(shape);
    tensor->ndim = (int32_t)ndim;
    tensor->lanes = 1;
    tensor->shape = extents;
    tensor->strides = extents + ndim;
    int64_t stride = 1;
    for (Py_ssize_t i = ndim - 1; i >= 0; i--) {
        tensor->shape[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
        tensor->strides[i] = stride;
        stride *= tensor->shape[i];
    }
    return PyErr_Occurred() ? -1 : 0;
}

PyObject *py_dlpack_export(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    (void)module;
    if (count != 9 || !PyTuple_Check(arguments[2]) ||
        PyTuple_Size(arguments[2]) > DL_DIMENSIONS_MAX) {
        PyErr_SetString(PyExc_TypeError, "dlpack_export() takes owner, address, shape, code, bits, "
                                         "device_type, device_id, versioned, "
                                         "read_only");
        return NULL;
    }
    const size_t extents = 2 * (size_t)PyTuple_Size(arguments[2]) * sizeof(int64_t);
    struct exported *exported = calloc(1, sizeof *exported + extents);
    if (!exported)
        return PyErr_NoMemory();
    const int newer = PyObject_IsTrue(arguments[7]);
    struct dl_tensor *tensor =
        newer ? &exported->tensor.versioned.tensor : &exported->tensor.plain.tensor;
    tensor->data = (void *)(uintptr_t)PyLong_AsUnsignedLongLong(arguments[1]);
    tensor->code = (uint8_t)PyLong_AsLong(arguments[3]);
    tensor->bits = (uint8_t)PyLong_AsLong(arguments[4]);
    tensor->device_type = (int32_t)PyLong_AsLong(arguments[5]);
    tensor->device_id = (int32_t)PyLong_AsLong(arguments[6]);
    if (fill_tensor(tensor, exported->extents, arguments[2])) {
        free(exported);
        return NULL;
    }
    if (newer) {
        exported->tensor.versioned.major = DL_MAJOR;
        exported->tensor.versioned.context = exported;
        exported->tensor.versioned.flags = PyObject_IsTrue(arguments[8]) ? DL_READ_ONLY : 0;
        exported->tensor.versioned.deleter = drop_versioned;
    } else {
        exported->tensor.plain.context = exported;
        exported->tensor.plain.deleter = drop_plain;
    }
    exported->owner = Py_NewRef(arguments[0]);
    PyObject *capsule = PyCapsule_New(&exported->tensor, newer ? versioned : plain, capsule_gone);
    if (!capsule)
        drop(exported);
    return capsule;
}

/* --- import */

/* Destructor of the capsule that holds a consumed tensor. */
static void holder_gone(PyObject *holder) {
    if (PyCapsule_IsValid(holder, holder_versioned)) {
        struct dl_versioned *tensor = PyCapsule_GetPointer(holder, holder_versioned);
        if (tensor->deleter)
            tensor->deleter(tensor);
    } else {
        struct dl_managed *tensor = PyCapsule_GetPointer(holder, holder_plain);
        if (tensor && tensor->deleter)
            tensor->deleter(tensor);
    }
}

static PyObject *extents_tuple(const int64_t *extents, int ndim) {
    if (!extents)
        return Py_NewRef(Py_None);
    PyObject *tuple = PyTuple_New(ndim);
    for (int i = 0; tuple && i < ndim; i++) {
        PyObject *value = PyLong_FromLongLong(extents[i]);
        if (!value || PyTuple_SetItem(tuple, i, value))
            Py_CLEAR(tuple);
    }
    return tuple;
}

/* Takes ownership of the holder. */
static PyObject *described(PyObject *holder, const struct dl_tensor *tensor, int read_only) {
    if (tensor->ndim < 0 || tensor->ndim > DL_DIMENSIONS_MAX || (tensor->ndim && !tensor->shape)) {
        PyErr_Format(PyExc_ValueError, "its DLPack tensor has %d dimensions", tensor->ndim);
        Py_DECREF(holder);
        return NULL;
    }
    PyObject *shape = tensor->ndim ? extents_tuple(tensor->shape, tensor->ndim) : PyTuple_New(0);
    PyObject *strides = shape ? extents_tuple(tensor->strides, tensor->ndim) : NULL;
    if (!strides) {
        Py_XDECREF(shape);
        Py_DECREF(holder);
        return NULL;
    }
    const uint64_t address = (uint64_t)(uintptr_t)tensor->data + tensor->byte_offset;
    return Py_BuildValue("(NKNNiiiiii)", holder, (unsigned long long)address, shape, strides,
                         tensor->code, tensor->bits, tensor->lanes, tensor->device_type,
                         tensor->device_id, read_only);
}

PyObject *py_dlpack_take(PyObject *module, PyObject *capsule) {
    (void)module;
    const int newer = PyCapsule_IsValid(capsule, versioned);
    if (!newer && !PyCapsule_IsValid(capsule, plain)) {
        const int used =
            PyCapsule_IsValid(capsule, used_versioned) || PyCapsule_IsValid(capsule, used_plain);
        PyErr_Format(used ? PyExc_ValueError : PyExc_TypeError,
                     used ? "its DLPack capsule has been consumed; __dlpack__ must make a "
                            "new one each time"
                          : "__dlpack__ gave %R, not a DLPack capsule",
                     capsule);
        return NULL;
    }
    void *tensor = PyCapsule_GetPointer(capsule, newer ? versioned : plain);
    PyObject *holder = PyCapsule_New(tensor, newer ? holder_versioned : holder_plain, holder_gone);
    if (!holder)
        return NULL;
    if (PyCapsule_SetName(capsule, newer ? used_versioned : used_plain)) {
        PyCapsule_SetDestructor(holder, NULL); /* the capsule keeps the tensor */
        Py_DECREF(holder);
        return NULL;
    }
    if (!newer)
        return described(holder, &((struct dl_managed *)tensor)->tensor, 0);
    const struct dl_versioned *given = tensor;
    if (given->major > DL_MAJOR) {
        PyErr_Format(PyExc_BufferError, "its DLPack version is %u.%u; gpuopt knows 1", given->major,
                     given->minor);
        Py_DECREF(holder);
        return NULL;
    }
    return described(holder, &given->tensor, (int)(given->flags & DL_READ_ONLY));
}

/* --- the exchange API (DLPack 1.3 and later): a type's table of functions in a capsule; PyTorch
 * has it from 2.10 on. One call returns all that an array's attributes would, in a tenth of the
 * time. An array that cannot be described here is no error: the caller then reads its attributes
 * and reports why it is rejected. */

enum { CUDA = 2, CUDA_MANAGED = 13 }; /* DLPack's device types */

/* The functions return -1 with an exception set. A table lives as long as the process. */
struct dl_exchange {
    uint32_t major, minor;
    struct dl_exchange *older;                             /* an earlier major version, or NULL */
    void (*others[3])(void);                               /* allocate, export and import arrays */
    int (*borrow)(void *object, struct dl_tensor *tensor); /* may be NULL */
    int (*current_stream)(int32_t device_type, int32_t device_id, void **stream);
};

const struct dl_exchange *py_exchange(PyObject *type) {
    static const char name[] = "dlpack_exchange_api";
    PyObject *capsule = PyObject_GetAttrString(type, "__dlpack_c_exchange_api__");
    if (!capsule) {
        if (PyErr_ExceptionMatches(PyExc_AttributeError))
            PyErr_Clear();
        return NULL;
    }
    struct dl_exchange *exchange =
        PyCapsule_IsValid(capsule, name) ? PyCapsule_GetPointer(capsule, name) : NULL;
    Py_DECREF(capsule);
    while (exchange && exchange->major != DL_MAJOR)
        exchange = exchange->older;
    return exchange && exchange->borrow && exchange->current_stream ? exchange : NULL;
}

/* Clears an Exception, so that the caller falls back; a KeyboardInterrupt stays pending. */
static PyObject *not_described(void) {
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_Clear();
    return NULL;
}

static int is_in_c_order(const struct dl_tensor *tensor) {
    uint64_t expected = 1;
    int in_order = 1;
    for (int i = tensor->ndim - 1; tensor->strides && i >= 0; i--) {
        const uint64_t extent = (uint64_t)tensor->shape[i];
        if (extent == 0)
            return 1;
        if (extent != 1 && (uint64_t)tensor->strides[i] != expected)
            in_order = 0;
        expected *= extent;
    }
    return in_order;
}

/* The extents, each multiplied by `unit`. */
static PyObject *tuple_of(const int64_t *extents, int count, int64_t unit) {
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; tuple && i < count; i++) {
        PyObject *value = PyLong_FromLongLong((int64_t)((uint64_t)extents[i] * (uint64_t)unit));
        if (!value || PyTuple_SetItem(tuple, i, value))
            Py_CLEAR(tuple);
    }
    return tuple;
}

PyObject *py_gpu_name(struct py_state *state, int32_t index) {
    if (index < 0 || index >= PY_GPU_NAMES)
        return PyUnicode_FromFormat("cuda:%d", index);
    if (!state->gpu_names[index])
        state->gpu_names[index] = PyUnicode_FromFormat("cuda:%d", index);
    return Py_XNewRef(state->gpu_names[index]);
}

/* The dtype, borrowed; NULL, possibly without an exception, if there is none. */
static PyObject *dtype_of(const struct dl_tensor *tensor, PyObject *dtypes) {
    PyObject *key = tensor->lanes == 1 ? PyLong_FromLong(tensor->code << 8 | tensor->bits) : NULL;
    PyObject *dtype = key ? PyDict_GetItemWithError(dtypes, key) : NULL;
    Py_XDECREF(key);
    return dtype;
}

PyObject *py_exchange_view(struct py_state *state, const struct dl_exchange *exchange,
                           PyObject *value, PyObject *library, PyObject *dtypes) {
    struct dl_tensor tensor = {0};
    void *stream = NULL;
    if (exchange->borrow(value, &tensor) ||
        (tensor.device_type != CUDA && tensor.device_type != CUDA_MANAGED) || tensor.ndim < 0 ||
        tensor.ndim > DL_DIMENSIONS_MAX || (tensor.ndim && !tensor.shape) ||
        exchange->current_stream(tensor.device_type, tensor.device_id, &stream))
        return not_described();
    PyObject *dtype = dtype_of(&tensor, dtypes);
    if (!dtype)
        return not_described();
    struct py_view_items items = {
        .library = library,
        .address = (unsigned long long)(uintptr_t)tensor.data + tensor.byte_offset,
        .shape = tuple_of(tensor.shape, tensor.ndim, 1),
        .strides = is_in_c_order(&tensor) ? Py_NewRef(Py_None)
                                          : tuple_of(tensor.strides, tensor.ndim, tensor.bits / 8),
        .dtype = dtype,
        .device = py_gpu_name(state, tensor.device_id),
        .stream = stream ? (unsigned long long)(uintptr_t)stream : PY_LEGACY,
        .holder = value,
    };
    PyObject *view =
        items.shape && items.strides && items.device ? py_view_new(state, &items) : NULL;
    Py_XDECREF(items.shape);
    Py_XDECREF(items.strides);
    Py_XDECREF(items.device);
    return view;
}

int py_exchange_address(const struct dl_exchange *exchange, PyObject *value,
                        unsigned long long *address, int32_t *device) {
    struct dl_tensor tensor = {0};
    if (exchange->borrow(value, &tensor))
        return -1;
    *address = (unsigned long long)(uintptr_t)tensor.data + tensor.byte_offset;
    if (device)
        *device = tensor.device_id;
    return 0;
}

/* py_exchange.c: arrays of libraries that have DLPack's C exchange API (DLPack 1.3 and later: a
 * table of functions, which a type has as a capsule; PyTorch's from 2.10 on). One call tells all
 * that the attributes of an array would, at a tenth of the time.
 *
 * What is refused here is only not described: the caller then asks the array's attributes, and says
 * why it cannot be taken.
 */
#include "py_core.h"
#include "py_dlpack.h"

enum { CUDA = 2, CUDA_MANAGED = 13 }; /* DLPack's device types */

/* The functions fail with -1 and an exception. A table is there as long as the process. */
struct dl_exchange {
    uint32_t major, minor;
    struct dl_exchange *older; /* of an earlier major version, or NULL */
    void (*others[3])(void);   /* arrays allocated, given away and taken over */
    int (*borrow)(void *object, struct dl_tensor *tensor); /* may be NULL */
    int (*current_stream)(int32_t device_type, int32_t device_id, void **stream);
};

static const char theirs[] = "dlpack_exchange_api", ours[] = "gpuopt.exchange";

PyObject *py_exchange(PyObject *module, PyObject *type) {
    (void)module;
    PyObject *capsule = PyObject_GetAttrString(type, "__dlpack_c_exchange_api__");
    if (!capsule) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError))
            return NULL;
        PyErr_Clear();
        return Py_NewRef(Py_None);
    }
    struct dl_exchange *exchange =
        PyCapsule_IsValid(capsule, theirs) ? PyCapsule_GetPointer(capsule, theirs) : NULL;
    Py_DECREF(capsule);
    while (exchange && exchange->major != DL_MAJOR)
        exchange = exchange->older;
    if (!exchange || !exchange->borrow || !exchange->current_stream)
        return Py_NewRef(Py_None);
    return PyCapsule_New(exchange, ours, NULL);
}

/* None, so that the caller asks otherwise; no answer to a KeyboardInterrupt. */
static PyObject *not_described(void) {
    if (PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_Exception))
            return NULL;
        PyErr_Clear();
    }
    return Py_NewRef(Py_None);
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

/* `unit` times each of the extents. */
static PyObject *tuple_of(const int64_t *extents, int count, int64_t unit) {
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; tuple && i < count; i++) {
        PyObject *value = PyLong_FromLongLong((int64_t)((uint64_t)extents[i] * (uint64_t)unit));
        if (!value || PyTuple_SetItem(tuple, i, value))
            Py_CLEAR(tuple);
    }
    return tuple;
}

/* A new reference to "cuda:0" or the like. */
static PyObject *gpu_name(struct py_state *state, int32_t index) {
    if (index < 0 || index >= PY_GPU_NAMES)
        return PyUnicode_FromFormat("cuda:%d", index);
    if (!state->gpu_names[index])
        state->gpu_names[index] = PyUnicode_FromFormat("cuda:%d", index);
    return Py_XNewRef(state->gpu_names[index]);
}

/* The dtype, borrowed; NULL, maybe without an exception, where there is none. */
static PyObject *dtype_of(const struct dl_tensor *tensor, PyObject *dtypes) {
    PyObject *key = tensor->lanes == 1 ? PyLong_FromLong(tensor->code << 8 | tensor->bits) : NULL;
    PyObject *dtype = key ? PyDict_GetItemWithError(dtypes, key) : NULL;
    Py_XDECREF(key);
    return dtype;
}

PyObject *py_borrow(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    struct py_state *state = py_state_of(module);
    if (count != 4 || !PyDict_Check(arguments[3])) {
        PyErr_SetString(PyExc_TypeError, "borrow() takes exchange, value, library, dtypes");
        return NULL;
    }
    const struct dl_exchange *exchange = PyCapsule_GetPointer(arguments[0], ours);
    if (!exchange)
        return NULL;
    struct dl_tensor tensor = {0};
    void *stream = NULL;
    if (exchange->borrow(arguments[1], &tensor) ||
        (tensor.device_type != CUDA && tensor.device_type != CUDA_MANAGED) || tensor.ndim < 0 ||
        tensor.ndim > DL_DIMENSIONS_MAX || (tensor.ndim && !tensor.shape) ||
        exchange->current_stream(tensor.device_type, tensor.device_id, &stream))
        return not_described();
    PyObject *dtype = dtype_of(&tensor, arguments[3]);
    if (!dtype)
        return not_described();
    struct py_view_items items = {
        .library = arguments[2],
        .address = (unsigned long long)(uintptr_t)tensor.data + tensor.byte_offset,
        .shape = tuple_of(tensor.shape, tensor.ndim, 1),
        .strides = is_in_c_order(&tensor) ? Py_NewRef(Py_None)
                                          : tuple_of(tensor.strides, tensor.ndim, tensor.bits / 8),
        .dtype = dtype,
        .device = gpu_name(state, tensor.device_id),
        .stream = stream ? (unsigned long long)(uintptr_t)stream : PY_LEGACY,
        .holder = arguments[1],
    };
    PyObject *view =
        items.shape && items.strides && items.device ? py_view_new(state, &items) : NULL;
    Py_XDECREF(items.shape);
    Py_XDECREF(items.strides);
    Py_XDECREF(items.device);
    return view;
}

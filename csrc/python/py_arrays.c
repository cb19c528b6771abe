/* py_arrays.c: reads NumPy arrays. The result of a reduction does not depend on the order of its
 * elements, so any dense layout is one contiguous run, also when transposed or reversed, and a
 * strided layout is a box. All others are read in chunks through NumPy's iterator, which converts
 * byte order, alignment and dtype. Knows no device.
 */
#define PY_CORE_IMPORTS_NUMPY
#include "py_core.h"

#include <stdlib.h>
#include <string.h>

int py_import_numpy(void) { return PyArray_ImportNumPyAPI(); }

int py_dtype_of(PyArray_Descr *descr, enum dtype *dtype) {
    const npy_intp size = PyDataType_ELSIZE(descr);
    if (descr->type_num >= NPY_NTYPES_LEGACY)
        return 0; /* a user-defined dtype, whatever its kind says */
    switch (descr->kind) {
    case 'b':
        *dtype = DTYPE_bool;
        return 1;
    case 'i':
        *dtype = size == 1   ? DTYPE_int8
                 : size == 2 ? DTYPE_int16
                 : size == 4 ? DTYPE_int32
                             : DTYPE_int64;
        return 1;
    case 'u':
        *dtype = size == 1   ? DTYPE_uint8
                 : size == 2 ? DTYPE_uint16
                 : size == 4 ? DTYPE_uint32
                             : DTYPE_uint64;
        return 1;
    case 'f':
        *dtype = size == 2 ? DTYPE_float16 : size == 4 ? DTYPE_float32 : DTYPE_float64;
        return size <= 8;
    case 'c':
        *dtype = size == 8 ? DTYPE_complex64 : DTYPE_complex128;
        return size <= 16;
    default:
        return 0;
    }
}

/* NumPy's number of each data type: a type without one does not compile. bfloat16 is none of
 * NumPy's: its bits. */
enum {
    NUMBER_OF_bool = NPY_BOOL,
    NUMBER_OF_int8 = NPY_INT8,
    NUMBER_OF_int16 = NPY_INT16,
    NUMBER_OF_int32 = NPY_INT32,
    NUMBER_OF_int64 = NPY_INT64,
    NUMBER_OF_uint8 = NPY_UINT8,
    NUMBER_OF_uint16 = NPY_UINT16,
    NUMBER_OF_uint32 = NPY_UINT32,
    NUMBER_OF_uint64 = NPY_UINT64,
    NUMBER_OF_float16 = NPY_FLOAT16,
    NUMBER_OF_bfloat16 = NPY_UINT16,
    NUMBER_OF_float32 = NPY_FLOAT32,
    NUMBER_OF_float64 = NPY_FLOAT64,
    NUMBER_OF_complex64 = NPY_COMPLEX64,
    NUMBER_OF_complex128 = NPY_COMPLEX128,
};

PyArray_Descr *py_descr(enum dtype dtype) {
    static const int type_numbers[DTYPE_COUNT] = {
#define DTYPE(name, bytes) [DTYPE_##name] = NUMBER_OF_##name,
        GPUOPT_DTYPES(DTYPE)
#undef DTYPE
    };
    return PyArray_DescrFromType(type_numbers[dtype]);
}

/* If numpy.ma was never imported, nothing is masked; importing it here would take milliseconds. */
int py_is_masked(struct py_state *state, PyObject *object) {
    if (PyArray_CheckExact(object) || !PyArray_Check(object))
        return 0;
    if (!state->masked_array) {
        PyObject *name = PyUnicode_FromString("numpy.ma");
        PyObject *module = name ? PyImport_GetModule(name) : NULL;
        if (module)
            state->masked_array = PyObject_GetAttrString(module, "MaskedArray");
        Py_XDECREF(name);
        Py_XDECREF(module);
        if (!state->masked_array)
            return PyErr_Occurred() ? -1 : 0;
    }
    return PyObject_IsInstance(object, state->masked_array);
}

int py_array_in(struct py_state *state, PyObject *object, struct py_array_in *in) {
    memset(in, 0, sizeof *in);
    const int masked = py_is_masked(state, object);
    if (masked < 0)
        return -1;
    if (masked) {
        PyErr_SetString(PyExc_TypeError, "array: masked arrays are not supported; pass "
                                         "array.compressed(), or array.filled(value)");
        return -1;
    }
    in->array = (PyArrayObject *)PyArray_FROM_O(object);
    if (!in->array) {
        py_name_argument("array"); /* a ragged list */
        return -1;
    }
    if (!py_dtype_of(PyArray_DESCR(in->array), &in->dtype)) {
        PyErr_Format(
            PyExc_TypeError,
            "array: dtype %S is not supported; use bool, an integer type, float16, bfloat16, "
            "float32, float64, complex64 or complex128 (array.astype(...))",
            PyArray_DESCR(in->array));
        py_array_release(in);
        return -1;
    }
    in->n = (uint64_t)PyArray_SIZE(in->array);
    return 0;
}

/* The lowest address of an array whose elements fill memory without gaps or overlaps, in any order
 * of axes and directions; otherwise NULL. */
static const void *contiguous_start(PyArrayObject *array) {
    if (!PyArray_ISALIGNED(array) || PyArray_ISBYTESWAPPED(array))
        return NULL;
    if (PyArray_IS_C_CONTIGUOUS(array) || PyArray_IS_F_CONTIGUOUS(array))
        return PyArray_DATA(array);
    const npy_intp *shape = PyArray_DIMS(array), *strides = PyArray_STRIDES(array);
    const char *start = PyArray_DATA(array);
    npy_intp expected = PyArray_ITEMSIZE(array);
    char used[64] = {0}; /* by axis; NumPy has at most 64 */
    const int axes = PyArray_NDIM(array);
    for (int axis = 0; axis < axes; axis++) {
        used[axis] = shape[axis] == 1;
        if (strides[axis] < 0)
            start += strides[axis] * (shape[axis] - 1);
    }
    /* Finds the axis whose step equals the size of all axes found so far. */
    for (int found = 0; found < axes; found++) {
        int next = 0;
        while (next < axes &&
               (used[next] || (strides[next] != expected && strides[next] != -expected)))
            next++;
        if (next == axes)
            break;
        used[next] = 1;
        expected *= shape[next];
    }
    return memchr(used, 0, (size_t)axes) ? NULL : start;
}

/* The axes of an array in the order of NumPy's iterator, with adjacent axes merged: the results are
 * bitwise equal. False if there are too many, steps are no multiples of an element, or elements
 * repeat. */
static bool box_of(PyArrayObject *array, struct device_box *box) {
    const npy_intp *shape = PyArray_DIMS(array), *strides = PyArray_STRIDES(array);
    const npy_intp item = PyArray_ITEMSIZE(array);
    const char *first = PyArray_DATA(array);
    char used[64]; /* by axis; NumPy has at most 64 */
    const int axes = PyArray_NDIM(array);
    if (!PyArray_ISALIGNED(array) || PyArray_ISBYTESWAPPED(array))
        return false;
    for (int axis = 0; axis < axes; axis++) {
        used[axis] = shape[axis] == 1;
        if (strides[axis] < 0)
            first += strides[axis] * (shape[axis] - 1);
    }
    box->first = first;
    box->axes.count = 0;
    for (;;) { /* find the remaining axis with the smallest step */
        npy_intp step = 0;
        int next = -1;
        for (int axis = axes - 1; axis >= 0; axis--) {
            const npy_intp apart = strides[axis] < 0 ? -strides[axis] : strides[axis];
            if (!used[axis] && (next < 0 || apart < step)) {
                next = axis;
                step = apart;
            }
        }
        if (next < 0)
            return box->axes.count > 0;
        used[next] = 1;
        const int last = box->axes.count - 1;
        uint64_t *const sizes = box->axes.sizes;
        if (last >= 0 && step == (npy_intp)sizes[last] * (npy_intp)box->axes.steps[last] * item) {
            sizes[last] *= (uint64_t)shape[next];
            continue;
        }
        if (!step || step % item || box->axes.count == DEVICE_AXES)
            return false;
        sizes[box->axes.count] = (uint64_t)shape[next];
        box->axes.steps[box->axes.count++] = step / item;
    }
}

/* The source's read(): copies the iterator's next `bytes` bytes. Called without the GIL. */
static enum status read_items(void *state, void *to, size_t bytes) {
    struct py_array_in *in = state;
    const npy_intp item = (npy_intp)dtype_size(in->dtype);
    PyGILState_STATE gil = PyGILState_UNLOCKED;
    enum status status = STATUS_OK;
    if (in->needs_python)
        gil = PyGILState_Ensure();
    for (size_t done = 0; done < bytes && !status;) {
        if (in->inner_offset == *in->inner_size) {
            in->inner_offset = 0;
            if (!in->next(in->iterator)) {
                status = status_fail(STATUS_BAD_VALUE, "array: it ended early");
                break;
            }
        }
        const size_t left = (size_t)((*in->inner_size - in->inner_offset) * item);
        const size_t part = bytes - done < left ? bytes - done : left;
        memcpy((char *)to + done, in->data_pointers[0] + in->inner_offset * item, part);
        in->inner_offset += (npy_intp)part / item;
        done += part;
    }
    if (in->needs_python)
        PyGILState_Release(gil);
    return status;
}

int py_array_source(struct py_array_in *in, enum dtype dtype, bool boxes) {
    if (dtype == in->dtype) {
        in->source.data = contiguous_start(in->array);
        if (in->source.data)
            return 0;
        if (boxes && box_of(in->array, &in->box)) {
            in->source.box = &in->box;
            return 0;
        }
    }
    if (PyArray_NDIM(in->array) == 0) { /* NumPy converts it at once, and would warn */
        PyObject *vector = PyArray_Ravel(in->array, NPY_CORDER);
        if (!vector)
            return -1;
        Py_DECREF((PyObject *)in->array);
        in->array = (PyArrayObject *)vector;
    }
    PyArray_Descr *descr = py_descr(dtype);
    if (!descr)
        return -1;
    in->dtype = dtype;
    npy_uint32 operand_flags =
        NPY_ITER_READONLY | NPY_ITER_NBO | NPY_ITER_ALIGNED | NPY_ITER_CONTIG;
    /* The buffer of 2^15 elements fits a core's second-level cache. */
    in->iterator = NpyIter_AdvancedNew(
        1, &in->array, NPY_ITER_EXTERNAL_LOOP | NPY_ITER_BUFFERED | NPY_ITER_GROWINNER,
        NPY_KEEPORDER, NPY_UNSAFE_CASTING, &operand_flags, &descr, -1, NULL, NULL, 1 << 15);
    Py_DECREF(descr);
    if (!in->iterator)
        return -1;
    char *error = NULL;
    in->next = NpyIter_GetIterNext(in->iterator, &error);
    if (!in->next) {
        PyErr_Format(PyExc_ValueError, "array: %s", error ? error : "it cannot be iterated");
        return -1;
    }
    in->data_pointers = NpyIter_GetDataPtrArray(in->iterator);
    in->inner_size = NpyIter_GetInnerLoopSizePtr(in->iterator);
    in->needs_python = NpyIter_IterationNeedsAPI(in->iterator);
    in->source.read = read_items;
    in->source.state = in;
    return 0;
}

void py_array_release(struct py_array_in *in) {
    if (in->iterator)
        NpyIter_Deallocate(in->iterator);
    Py_XDECREF((PyObject *)in->array);
    memset(in, 0, sizeof *in);
}

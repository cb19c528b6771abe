/* py_result.c: results in NumPy's form: scalars, `initial`, identities. Knows no device. */
#include "py_core.h"

#include <math.h>
#include <string.h>

PyObject *py_float_state(PyObject *module, PyObject *before) {
    (void)module;
    if (PyBytes_Check(before) && PyBytes_Size(before) == (Py_ssize_t)sizeof(float_state)) {
        float_state state;
        memcpy(&state, PyBytes_AsString(before), sizeof state);
        float_state_leave(state);
        return Py_NewRef(Py_None);
    }
    if (before != Py_None) {
        PyErr_SetString(PyExc_TypeError, "float_state: must be None, or what it returned before");
        return NULL;
    }
    const float_state state = float_state_enter();
    return float_state_differs(state)
               ? PyBytes_FromStringAndSize((const char *)&state, sizeof state)
               : Py_NewRef(Py_None);
}

PyObject *py_float32_bits(PyObject *module, PyObject *value) {
    (void)module;
    const double wide = PyFloat_AsDouble(value);
    if (wide == -1 && PyErr_Occurred())
        return NULL;
    const float_state before = float_state_enter();
    const float narrow = (float)wide;
    float_state_leave(before);
    if (isinf(narrow) && !isinf(wide)) {
        PyErr_SetString(PyExc_OverflowError, "too large for float32");
        return NULL;
    }
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    return PyLong_FromUnsignedLong(bits);
}

static PyObject *array_0d(enum dtype dtype, const void *value) {
    PyArray_Descr *descr = py_descr(dtype);
    PyObject *array =
        descr ? PyArray_NewFromDescr(&PyArray_Type, descr, 0, NULL, NULL, NULL, 0, NULL) : NULL;
    if (array && value)
        memcpy(PyArray_DATA((PyArrayObject *)array), value, dtype_size(dtype));
    return array;
}

static PyObject *scalar(enum dtype dtype, const void *value) {
    PyArray_Descr *descr = py_descr(dtype);
    PyObject *result = descr ? PyArray_Scalar((void *)(uintptr_t)value, descr, NULL) : NULL;
    Py_XDECREF((PyObject *)descr);
    return result;
}

/* Casts the array to `dtype` as NumPy's astype does. Steals the array. */
static PyObject *cast_0d(PyObject *array, enum dtype dtype) {
    PyArray_Descr *descr = py_descr(dtype);
    PyObject *cast = NULL;
    if (array && descr)
        cast = PyArray_CastToType((PyArrayObject *)array, descr, 0); /* steals the descr */
    else
        Py_XDECREF((PyObject *)descr);
    Py_XDECREF(array);
    return cast;
}

PyObject *py_cast(enum dtype accumulator, enum dtype result, const void *value) {
    const float_state before = float_state_enter();
    PyObject *cast = cast_0d(array_0d(accumulator, value), result);
    float_state_leave(before);
    return cast;
}

PyObject *py_scalar(enum dtype accumulator, enum dtype result, const void *value) {
    if (accumulator == result)
        return scalar(result, value);
    if (accumulator == DTYPE_float64 &&
        result == DTYPE_float32) { /* the common case, without an array */
        double wide;
        const float_state before = float_state_enter();
        memcpy(&wide, value, sizeof wide);
        const float narrow = (float)wide;
        float_state_leave(before);
        return scalar(result, &narrow);
    }
    PyObject *array = py_cast(accumulator, result, value);
    PyObject *number = array ? scalar(result, PyArray_DATA((PyArrayObject *)array)) : NULL;
    Py_XDECREF(array);
    return number;
}

/* Converts `initial` to an element of the result's dtype, as NumPy does. */
static PyObject *initial_0d(PyObject *initial, enum dtype result) {
    PyArray_Descr *descr = py_descr(result);
    PyObject *array =
        descr ? PyArray_FromAny(initial, descr, 0, 0, NPY_ARRAY_FORCECAST, NULL) : NULL;
    if (descr && !array)
        py_name_argument("initial");
    if (array && PyArray_NDIM((PyArrayObject *)array) != 0) {
        PyErr_Format(PyExc_ValueError, "initial: must be a scalar, not an array of %d dimensions",
                     PyArray_NDIM((PyArrayObject *)array));
        Py_CLEAR(array);
    }
    return array;
}

/* Computes initial op value in the accumulator's dtype (a product of bools, which ran as `and`, in
 * the result's), then casts it to the result's: a 0-d array. */
PyObject *py_with_initial(struct py_state *state, enum py_operation operation, PyObject *initial,
                          enum dtype accumulator, enum dtype result, const void *value) {
    const enum dtype common = accumulator == DTYPE_bool ? result : accumulator;
    const float_state before = float_state_enter();
    PyObject *left = cast_0d(initial_0d(initial, result), common);
    PyObject *right = cast_0d(array_0d(accumulator, value), common);
    PyObject *combined =
        left && right ? PyObject_CallFunctionObjArgs(state->ufuncs[operation], left, right, NULL)
                      : NULL;
    PyObject *array = combined ? PyArray_FROM_O(combined) : NULL;
    Py_XDECREF(left);
    Py_XDECREF(right);
    Py_XDECREF(combined);
    array = array ? cast_0d(array, result) : NULL;
    float_state_leave(before);
    return array;
}

PyObject *py_of_nothing(enum py_operation operation, PyObject *initial, enum dtype result) {
    static const int identities[PY_OP_COUNT] = {[PY_OP_prod] = 1, [PY_OP_and] = -1};
    if (py_given(initial))
        return initial_0d(initial, result);
    if (initial || operation == PY_OP_min || operation == PY_OP_max) {
        PyErr_Format(
            PyExc_ValueError,
            "zero-size array to reduction operation %s which has no identity; pass initial=",
            py_operation_ufuncs[operation]);
        return NULL;
    }
    PyObject *identity = PyLong_FromLong(identities[operation]);
    PyObject *array = identity ? cast_0d(PyArray_FROM_O(identity), result) : NULL;
    Py_XDECREF(identity);
    return array;
}

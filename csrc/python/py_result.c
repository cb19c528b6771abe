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

/* Makes a context in which NumPy warns of nothing, and keeps two methods: one copies it, the other
 * runs a function in a context. None for a NumPy whose settings belong to threads. */
static int make_quiet(struct py_state *state) {
    PyObject *context = NULL, *run = NULL, *pair = NULL, *keywords = NULL, *done = NULL;
    if (PyArray_GetNDArrayCFeatureVersion() < NPY_2_0_API_VERSION) {
        state->quiet = Py_NewRef(Py_None);
        return 0;
    }
    PyObject *module = PyImport_ImportModule("contextvars");
    PyObject *numpy = PyImport_ImportModule("numpy");
    PyObject *seterr = numpy ? PyObject_GetAttrString(numpy, "seterr") : NULL;
    if (module && seterr)
        context = PyObject_CallMethod(module, "Context", NULL);
    if (context)
        run = PyObject_GetAttrString((PyObject *)Py_TYPE(context), "run");
    if (run) {
        pair = PyTuple_Pack(2, context, seterr);
        keywords = Py_BuildValue("{s:s}", "all", "ignore");
    }
    if (pair && keywords)
        done = PyObject_Call(run, pair, keywords);
    if (done && (state->quiet = PyObject_GetAttrString(context, "copy")))
        state->quiet_run = Py_NewRef(run);
    Py_XDECREF(done);
    Py_XDECREF(keywords);
    Py_XDECREF(pair);
    Py_XDECREF(run);
    Py_XDECREF(context);
    Py_XDECREF(seterr);
    Py_XDECREF(numpy);
    Py_XDECREF(module);
    return state->quiet ? 0 : -1;
}

PyObject *py_quietly(struct py_state *state, PyObject *function, PyObject *arguments,
                     PyObject *keywords) {
    if (!state->quiet && make_quiet(state))
        return NULL;
    if (state->quiet == Py_None)
        return PyObject_Call(function, arguments, keywords);
    PyObject *result = NULL, *context = PyObject_CallNoArgs(state->quiet);
    const Py_ssize_t count = PyTuple_Size(arguments);
    PyObject *all = context ? PyTuple_New(count + 2) : NULL;
    if (all) {
        PyTuple_SetItem(all, 0, Py_NewRef(context));
        PyTuple_SetItem(all, 1, Py_NewRef(function));
        for (Py_ssize_t k = 0; k < count; k++)
            PyTuple_SetItem(all, k + 2, Py_NewRef(PyTuple_GetItem(arguments, k)));
        result = PyObject_Call(state->quiet_run, all, keywords);
    }
    Py_XDECREF(all);
    Py_XDECREF(context);
    return result;
}

int py_copy(struct py_state *state, PyArrayObject *to, PyArrayObject *from) {
    if (PyArray_CanCastTypeTo(PyArray_DESCR(from), PyArray_DESCR(to), NPY_SAFE_CASTING))
        return PyArray_CopyInto(to, from);
    PyObject *arguments = Py_BuildValue("(OOs)", (PyObject *)to, (PyObject *)from, "unsafe");
    PyObject *done = arguments ? py_quietly(state, state->copyto, arguments, NULL) : NULL;
    Py_XDECREF(arguments);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* Casts the array to `dtype` as NumPy's astype does. Steals the array. */
static PyObject *cast_0d(struct py_state *state, PyObject *array, enum dtype dtype) {
    PyObject *cast = array ? array_0d(dtype, NULL) : NULL;
    if (cast && py_copy(state, (PyArrayObject *)cast, (PyArrayObject *)array))
        Py_CLEAR(cast);
    Py_XDECREF(array);
    return cast;
}

PyObject *py_cast(struct py_state *state, enum dtype accumulator, enum dtype result,
                  const void *value) {
    const float_state before = float_state_enter();
    PyObject *cast = cast_0d(state, array_0d(accumulator, value), result);
    float_state_leave(before);
    return cast;
}

PyObject *py_scalar(struct py_state *state, enum dtype accumulator, enum dtype result,
                    const void *value) {
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
    PyObject *array = py_cast(state, accumulator, result, value);
    PyObject *number = array ? scalar(result, PyArray_DATA((PyArrayObject *)array)) : NULL;
    Py_XDECREF(array);
    return number;
}

static PyObject *out_of_range(PyObject *initial, PyArray_Descr *descr) {
    PyErr_Format(PyExc_OverflowError, "initial: %R is out of bounds for %S", initial, descr);
    return NULL;
}

/* A number as a Python integer, which NumPy checks against the bounds of an integer type, where
 * NumPy would convert its own scalars without a check. */
static PyObject *checked(PyObject *initial, PyArray_Descr *descr) {
    if (!PyTypeNum_ISINTEGER(descr->type_num))
        return Py_NewRef(initial);
    PyObject *number = PyArray_IsScalar(initial, Generic) || PyArray_IsZeroDim(initial)
                           ? PyObject_CallMethod(initial, "item", NULL)
                           : Py_NewRef(initial);
    if (number && PyFloat_Check(number)) { /* NaN raises ValueError, as in NumPy */
        PyObject *whole =
            isinf(PyFloat_AsDouble(number)) ? out_of_range(initial, descr) : PyNumber_Long(number);
        Py_DECREF(number);
        number = whole;
    }
    return number;
}

/* Converts a number to an element of the dtype; a floating-point one without warnings. */
static PyObject *element_of(struct py_state *state, PyObject *number, PyArray_Descr *descr) {
    const bool to_complex = PyTypeNum_ISCOMPLEX(descr->type_num);
    PyObject *given = NULL, *array = NULL;
    if (to_complex || PyTypeNum_ISFLOAT(descr->type_num)) {
        given = PyArray_FROM_O(number);
        if (!given)
            return NULL;
    }
    Py_INCREF((PyObject *)descr);
    if (!given || PyArray_NDIM((PyArrayObject *)given) > 0 ||
        (PyArray_ISCOMPLEX((PyArrayObject *)given) && !to_complex)) {
        array = PyArray_FromAny(number, descr, 0, 0, NPY_ARRAY_FORCECAST, NULL);
    } else {
        array = PyArray_NewFromDescr(&PyArray_Type, descr, 0, NULL, NULL, NULL, 0, NULL);
        if (array && py_copy(state, (PyArrayObject *)array, (PyArrayObject *)given))
            Py_CLEAR(array);
    }
    Py_XDECREF(given);
    return array;
}

/* Converts `initial` to an element of the dtype, as NumPy does. */
static PyObject *initial_as(struct py_state *state, PyObject *initial, PyArray_Descr *descr) {
    const int masked = py_is_masked(state, initial);
    if (masked) {
        if (masked > 0)
            PyErr_SetString(PyExc_TypeError, "initial: must be a number, not a masked value");
        return NULL;
    }
    PyObject *number = checked(initial, descr), *array = NULL;
    if (number)
        array = element_of(state, number, descr);
    Py_XDECREF(number);
    if (!array && PyErr_ExceptionMatches(PyExc_OverflowError)) {
        PyErr_Clear();
        out_of_range(initial, descr);
    } else if (!array) {
        py_name_argument("initial");
    }
    if (array && PyArray_NDIM((PyArrayObject *)array) != 0) {
        PyErr_Format(PyExc_ValueError, "initial: must be a scalar, not an array of %d dimensions",
                     PyArray_NDIM((PyArrayObject *)array));
        Py_CLEAR(array);
    }
    return array;
}

static PyObject *initial_0d(struct py_state *state, PyObject *initial, enum dtype result) {
    PyArray_Descr *descr = py_descr(result);
    PyObject *array = descr ? initial_as(state, initial, descr) : NULL;
    Py_XDECREF((PyObject *)descr);
    return array;
}

PyObject *py_initial(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    PyArray_Descr *descr = NULL;
    if (count != 2 || !PyArray_DescrConverter(arguments[1], &descr)) {
        PyErr_SetString(PyExc_TypeError, "initial() takes a value and a dtype");
        return NULL;
    }
    PyObject *array = initial_as(py_state_of(module), arguments[0], descr);
    Py_DECREF((PyObject *)descr);
    return array;
}

/* Returns the lesser or the greater of two zeros, where -0 is less than +0; NULL for others. */
static PyObject *zero_of(enum py_operation operation, PyObject *a, PyObject *b) {
    if (operation != PY_OP_min && operation != PY_OP_max)
        return NULL;
    const double x = PyFloat_AsDouble(a), y = PyFloat_AsDouble(b);
    if (x != 0 || y != 0)
        return NULL;
    return Py_NewRef((signbit(x) != 0) == (operation == PY_OP_min) ? a : b);
}

/* Computes initial op value in the accumulator's dtype (a product of bools, which ran as `and`, in
 * the result's), then casts it to the result's: a 0-d array. */
PyObject *py_with_initial(struct py_state *state, enum py_operation operation, PyObject *initial,
                          enum dtype accumulator, enum dtype result, const void *value) {
    const enum dtype common = accumulator == DTYPE_bool ? result : accumulator;
    const float_state before = float_state_enter();
    PyObject *left = cast_0d(state, initial_0d(state, initial, result), common);
    PyObject *right = cast_0d(state, array_0d(accumulator, value), common);
    PyObject *pair = left && right ? PyTuple_Pack(2, left, right) : NULL;
    PyObject *combined = pair ? zero_of(operation, left, right) : NULL;
    if (pair && !combined)
        combined = py_quietly(state, state->ufuncs[operation], pair, NULL);
    PyObject *array = combined ? PyArray_FROM_O(combined) : NULL;
    Py_XDECREF(left);
    Py_XDECREF(right);
    Py_XDECREF(combined);
    Py_XDECREF(pair);
    array = array ? cast_0d(state, array, result) : NULL;
    float_state_leave(before);
    return array;
}

PyObject *py_of_nothing(struct py_state *state, enum py_operation operation, PyObject *initial,
                        enum dtype result) {
    if (py_given(initial))
        return initial_0d(state, initial, result);
    const char *text = py_rules[operation].identity;
    if (initial || !*text) {
        PyErr_Format(
            PyExc_ValueError,
            "zero-size array to reduction operation %s which has no identity; pass initial=",
            py_rules[operation].ufunc);
        return NULL;
    }
    PyObject *identity = PyLong_FromString(text, NULL, 10);
    PyObject *array = identity ? cast_0d(state, PyArray_FROM_O(identity), result) : NULL;
    Py_XDECREF(identity);
    return array;
}

/* py_reduce.c: gpuopt.reduce. */
#include "py_core.h"

#include <string.h>
#include <time.h>

/* --- the GIL, and Ctrl-C without it */

enum {
    LOOK_EVERY_MS = 50,
    SMALL_BYTES = 1 << 16, /* what is done before others notice */
};

static int64_t milliseconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* The device's question while it works: takes the GIL, at most every LOOK_EVERY_MS. */
static bool interrupted(void *state) {
    struct py_unlocked *unlocked = state;
    const int64_t now = milliseconds();
    if (now < unlocked->next_look)
        return false;
    unlocked->next_look = now + LOOK_EVERY_MS;
    PyEval_RestoreThread(unlocked->thread);
    const int raised = PyErr_CheckSignals();
    unlocked->thread = PyEval_SaveThread();
    return raised != 0;
}

void py_unlock(struct py_unlocked *unlocked, struct device *device) {
    unlocked->device = device;
    unlocked->next_look = milliseconds() + LOOK_EVERY_MS;
    device->interrupted = interrupted;
    device->interrupted_state = unlocked;
    unlocked->thread = PyEval_SaveThread();
}

void py_lock(struct py_unlocked *unlocked) {
    PyEval_RestoreThread(unlocked->thread);
    unlocked->device->interrupted = NULL;
}

/* --- results */

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

/* The array as `dtype`, as NumPy's astype gives it. Steals the array. */
static PyObject *cast_0d(PyObject *array, enum dtype dtype) {
    PyArray_Descr *descr = py_descr(dtype);
    PyObject *cast = NULL;
    if (array && descr)
        cast = PyArray_CastToType((PyArrayObject *)array, descr, 0); /* takes the descr */
    else
        Py_XDECREF((PyObject *)descr);
    Py_XDECREF(array);
    return cast;
}

PyObject *py_scalar(enum dtype accumulator, enum dtype result, const void *value) {
    if (accumulator == result)
        return scalar(result, value);
    if (accumulator == DTYPE_float64 && result == DTYPE_float32) { /* the common one: no array */
        double wide;
        memcpy(&wide, value, sizeof wide);
        const float narrow = (float)wide;
        return scalar(result, &narrow);
    }
    PyObject *array = cast_0d(array_0d(accumulator, value), result);
    PyObject *number = array ? scalar(result, PyArray_DATA((PyArrayObject *)array)) : NULL;
    Py_XDECREF(array);
    return number;
}

/* `initial` as an item of the result's dtype, as NumPy takes it. */
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

/* initial op value, in the accumulator's dtype (a product of bools, which was computed as `and`: in
 * the result's), then cast to the result's: a 0-d array. */
PyObject *py_with_initial(struct py_state *state, enum py_operation operation, PyObject *initial,
                          enum dtype accumulator, enum dtype result, const void *value) {
    const enum dtype common = accumulator == DTYPE_bool ? result : accumulator;
    PyObject *left = cast_0d(initial_0d(initial, result), common);
    PyObject *right = cast_0d(array_0d(accumulator, value), common);
    PyObject *combined =
        left && right ? PyObject_CallFunctionObjArgs(state->ufuncs[operation], left, right, NULL)
                      : NULL;
    PyObject *array = combined ? PyArray_FROM_O(combined) : NULL;
    Py_XDECREF(left);
    Py_XDECREF(right);
    Py_XDECREF(combined);
    return array ? cast_0d(array, result) : NULL;
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

/* --- out= */

static int check_out(struct py_state *state, PyObject *out) {
    const int masked = py_is_masked(state, out);
    if (masked < 0)
        return -1;
    if (!PyArray_Check(out) || masked) {
        PyErr_Format(PyExc_TypeError, "out: return arrays must be of ArrayType, not %R",
                     Py_TYPE(out));
        return -1;
    }
    if (PyArray_NDIM((PyArrayObject *)out) != 0) {
        PyErr_Format(
            PyExc_ValueError,
            "out: output parameter for reduction has the wrong number of dimensions: found "
            "%d but expected 0",
            PyArray_NDIM((PyArrayObject *)out));
        return -1;
    }
    if (PyArray_FailUnlessWriteable((PyArrayObject *)out, "out: output array"))
        return -1;
    return 0;
}

static int check_out_cast(PyObject *out, enum dtype result) {
    PyArray_Descr *from = py_descr(result), *to = PyArray_DESCR((PyArrayObject *)out);
    const int allowed = from && PyArray_CanCastTypeTo(from, to, NPY_SAME_KIND_CASTING);
    if (from && !allowed)
        PyErr_Format(PyExc_TypeError,
                     "out: cannot cast the result from %S to %S with casting rule 'same_kind'",
                     from, to);
    Py_XDECREF((PyObject *)from);
    return allowed ? 0 : -1;
}

/* A 0-d array becomes what the caller gets: `out`, filled, or a scalar. Steals the array. */
static PyObject *deliver(PyObject *array, PyObject *out) {
    PyObject *result = NULL;
    if (!array)
        return NULL;
    if (!py_given(out))
        result = PyArray_ToScalar(PyArray_DATA((PyArrayObject *)array), (PyArrayObject *)array);
    else if (!PyArray_CopyInto((PyArrayObject *)out, (PyArrayObject *)array))
        result = Py_NewRef(out);
    Py_DECREF(array);
    return result;
}

/* --- the call */

/* Reduces the array's items (at least one) on the target, with the GIL free where it takes long. */
static int run(struct py_state *state, const struct py_target *target, struct py_array_in *in,
               void *accumulator) {
    struct ops_queue *queue = py_queue_take(state, target->kind, target->which);
    if (!queue)
        return -1;
    const bool in_host_memory = queue->device->capabilities & DEVICE_HOST_MEMORY;
    if (py_array_source(in, target->items,
                        in_host_memory && target->choice.rung->flags & RUNG_BEST)) {
        py_queue_give(state, queue, target->kind, target->which);
        return -1;
    }
    enum status status;
    const uint64_t bytes = in->n * dtype_size(target->items);
    py_recording_begin(state, queue);
    if (in_host_memory && !in->source.read && bytes <= SMALL_BYTES) {
        status = ops_reduce(queue, &target->choice, &in->source, in->n, accumulator);
    } else {
        struct py_unlocked unlocked;
        py_unlock(&unlocked, queue->device);
        status = ops_reduce(queue, &target->choice, &in->source, in->n, accumulator);
        py_lock(&unlocked);
    }
    if (status)
        py_raise(state, status);
    const int told = py_recording_end(state, queue);
    py_queue_give(state, queue, target->kind, target->which);
    return status || told ? -1 : 0;
}

/* What gpuopt.reduce hands over, all by position. */
enum { ARRAY, OP, VARIANT, DTYPE, OUT, INITIAL, BLOCK, DEVICE, ARGUMENTS };

static PyObject *reduce_array(struct py_state *state, PyObject *const *values,
                              struct py_array_in *in) {
    PyObject *out = values[OUT];
    PyObject *initial = values[INITIAL] == Py_Ellipsis ? NULL : values[INITIAL];
    enum py_operation operation;
    struct py_problem problem = {.family = reg_family("reduce"), .given = in->dtype};
    struct py_target target;
    if (py_operation(values[OP], &operation) || (py_given(out) && check_out(state, out)) ||
        py_result_dtype(operation, in->dtype, values[DTYPE], out, &problem.result) ||
        (py_given(out) && py_given(values[DTYPE]) && check_out_cast(out, problem.result)))
        return NULL;
    const enum py_operation effective =
        py_effective_operation(operation, in->dtype, problem.result);
    problem.op = py_operation_names[effective];
    problem.may_convert = py_given(values[DTYPE]) || py_given(out);
    if (py_choose(state, &problem, values[VARIANT], values[BLOCK], values[DEVICE], &target))
        return NULL;
    if (in->n == 0)
        return deliver(py_of_nothing(operation, initial, problem.result), out);

    const enum dtype accumulator = target.choice.signature->accumulator;
    union {
        unsigned char bytes[GPUOPT_ITEM_MAX];
        double alignment;
    } value;
    if (run(state, &target, in, &value))
        return NULL;
    if (py_given(initial))
        return deliver(
            py_with_initial(state, operation, initial, accumulator, problem.result, &value), out);
    if (py_given(out))
        return deliver(cast_0d(array_0d(accumulator, &value), problem.result), out);
    return py_scalar(accumulator, problem.result, &value);
}

PyObject *py_axis_kind(PyObject *module, PyObject *device) {
    const struct py_problem problem = {.family = reg_family("reduce_axis"),
                                       .op = "sum",
                                       .given = DTYPE_float32,
                                       .result = DTYPE_float32};
    struct py_target target;
    if (py_choose(py_state_of(module), &problem, NULL, NULL, device, &target))
        return NULL;
    return PyUnicode_FromString(target.kind->kind);
}

PyObject *py_reduce(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    struct py_state *state = py_state_of(module);
    struct py_array_in in;
    if (count != ARGUMENTS) {
        PyErr_Format(PyExc_TypeError, "reduce() takes %d positional arguments (%zd given)",
                     ARGUMENTS, count);
        return NULL;
    }
    if (py_array_in(state, arguments[ARRAY], &in))
        return NULL;
    PyObject *result = reduce_array(state, arguments, &in);
    py_array_release(&in);
    return result;
}

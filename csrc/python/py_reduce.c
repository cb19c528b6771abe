/* py_reduce.c: gpuopt.reduce: checks arguments, runs, converts the result. Knows no kernel. */
#include "py_core.h"

#include <string.h>

enum { SMALL_BYTES = 1 << 16 }; /* arrays this small keep the GIL */

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

/* Turns a 0-d array into the caller's result: `out`, filled, or a scalar. Steals the array. */
static PyObject *deliver(struct py_state *state, PyObject *array, PyObject *out) {
    PyObject *result = NULL;
    if (!array)
        return NULL;
    if (!py_given(out))
        result = PyArray_ToScalar(PyArray_DATA((PyArrayObject *)array), (PyArrayObject *)array);
    else if (!py_copy(state, (PyArrayObject *)out, (PyArrayObject *)array))
        result = Py_NewRef(out);
    Py_DECREF(array);
    return result;
}

/* --- the call */

/* Reduces the array's elements (at least one) on the target; releases the GIL for long work. */
static int reduce_elements(struct py_state *state, const struct py_target *target,
                           struct py_array_in *in, void *accumulator) {
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
    return py_queue_end(state, queue, target, status);
}

/* Enters the default floating-point state first: NumPy's conversions depend on it too. */
static int run(struct py_state *state, const struct py_target *target, struct py_array_in *in,
               void *accumulator) {
    const float_state before = float_state_enter();
    const int failed = reduce_elements(state, target, in, accumulator);
    float_state_leave(before);
    return failed;
}

/* The positional arguments from gpuopt.reduce. */
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
    problem.op = py_rules[effective].name;
    problem.may_convert = py_given(values[DTYPE]) || py_given(out);
    if (py_choose(state, &problem, values[VARIANT], values[BLOCK], values[DEVICE], &target))
        return NULL;
    if (in->n == 0)
        return deliver(state, py_of_nothing(state, operation, initial, problem.result), out);

    const enum dtype accumulator = target.choice.signature->accumulator;
    union {
        unsigned char bytes[GPUOPT_ITEM_MAX];
        double alignment;
    } value;
    if (run(state, &target, in, &value))
        return NULL;
    if (py_given(initial))
        return deliver(
            state, py_with_initial(state, operation, initial, accumulator, problem.result, &value),
            out);
    if (py_given(out))
        return deliver(state, py_cast(state, accumulator, problem.result, &value), out);
    return py_scalar(state, accumulator, problem.result, &value);
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

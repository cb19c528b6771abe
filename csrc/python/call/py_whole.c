/* py_whole.c: plans of reductions of a whole array of the host on the ladder. Any layout and byte
 * order: the elements are read in place, as a box, or in chunks (py_arrays.c). Knows no kernel.
 */
#include "py_plan.h"

#include <string.h>

enum { ARRAY = 0, OUT = 6, INITIAL = 7, ARGUMENTS }; /* of gpuopt.reduce */

int py_whole_new(struct py_state *state, PyObject *fields, struct py_whole *whole) {
    PyObject *head, *variant, *block, *device;
    struct py_problem problem;
    int converts;
    if (!PyArg_ParseTuple(fields, "O!pOOO", &PyTuple_Type, &head, &converts, &variant, &block,
                          &device) ||
        py_problem_read(head, &problem) ||
        py_operation(PyTuple_GetItem(head, 1), &whole->operation))
        return -1;
    problem.op =
        py_rules[py_effective_operation(whole->operation, problem.given, problem.result)].name;
    problem.may_convert = converts;
    whole->given = problem.given;
    whole->result = problem.result;
    return py_choose(state, &problem, variant, block, device, &whole->target);
}

bool py_whole_reads(PyObject *const *arguments, Py_ssize_t count) {
    return count == ARGUMENTS && PyArray_Check(arguments[ARRAY]) &&
           (!py_given(arguments[OUT]) || PyArray_Check(arguments[OUT]));
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

/* Reduces the array's elements (at least one); releases the GIL for long work. */
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
    if (in_host_memory && !in->source.read && bytes <= PY_SMALL_BYTES) {
        status = ops_reduce(queue, &target->choice, &in->source, in->n, accumulator);
    } else {
        struct py_unlocked unlocked;
        py_unlock(&unlocked, queue->device);
        status = ops_reduce(queue, &target->choice, &in->source, in->n, accumulator);
        py_lock(&unlocked);
    }
    return py_queue_end(state, queue, target, status);
}

PyObject *py_whole_run(const struct py_whole *whole, struct py_state *state,
                       PyObject *const *arguments) {
    PyObject *out = arguments[OUT];
    PyObject *initial = arguments[INITIAL] == Py_Ellipsis ? NULL : arguments[INITIAL];
    PyArrayObject *array = (PyArrayObject *)arguments[ARRAY];
    const enum dtype accumulator = whole->target.choice.signature->accumulator;
    struct py_array_in in = {.array = (PyArrayObject *)Py_NewRef((PyObject *)array),
                             .dtype = whole->given,
                             .n = (uint64_t)PyArray_SIZE(array)};
    union {
        unsigned char bytes[GPUOPT_ITEM_MAX];
        double alignment;
    } value;
    if (in.n == 0) {
        py_array_release(&in);
        return deliver(state, py_of_nothing(state, whole->operation, initial, whole->result), out);
    }
    const float_state before = float_state_enter(); /* NumPy's conversions depend on it too */
    const int failed = reduce_elements(state, &whole->target, &in, &value);
    float_state_leave(before);
    py_array_release(&in);
    if (failed)
        return NULL;
    if (py_given(initial))
        return deliver(
            state,
            py_with_initial(state, whole->operation, initial, accumulator, whole->result, &value),
            out);
    return py_given(out) ? deliver(state, py_cast(state, accumulator, whole->result, &value), out)
                         : py_scalar(state, accumulator, whole->result, &value);
}

/* py_resident.c: calls on arrays that are in a device's memory. Python has found out where they are
 * and on which streams (gpuopt/_device_arrays.py); here a rung is chosen and queued.
 */
#include "py_core.h"

#include <string.h>

enum { DEVICE, STREAMS, ADDRESS, COUNT, ITEMS, OP, VARIANT, RESULT, INITIAL, BLOCK, TO, ARGUMENTS };

static int dtype_of(PyObject *descr, enum dtype *dtype) {
    PyArray_Descr *found = NULL;
    if (!PyArray_DescrConverter(descr, &found))
        return -1;
    const int known = py_dtype_of(found, dtype);
    Py_DECREF((PyObject *)found);
    if (!known)
        PyErr_Format(PyExc_TypeError, "dtype: %S is not supported", descr);
    return known ? 0 : -1;
}

/* A host's value to a place on the device. The bytes are staged: nobody waits. */
static PyObject *put(struct py_place *place, device_address to, PyObject *array) {
    if (!array)
        return NULL;
    const struct device_source source = {.data = PyArray_DATA((PyArrayObject *)array)};
    const enum status status = place->kind->copy_in(place->queue->device, to, &source,
                                                    (size_t)PyArray_NBYTES((PyArrayObject *)array));
    Py_DECREF(array);
    return status ? py_raise(place->state, status) : Py_NewRef(Py_None);
}

/* A 0-d array is the caller's scalar, or goes to the device. Steals it. */
static PyObject *deliver(struct py_place *place, device_address to, PyObject *array) {
    if (!array || to)
        return put(place, to, array);
    PyObject *scalar =
        PyArray_ToScalar(PyArray_DATA((PyArrayObject *)array), (PyArrayObject *)array);
    Py_DECREF(array);
    return scalar;
}

struct reduction {
    struct py_problem problem;
    struct py_target target;
    enum py_operation operation;
    device_address items, to;
    uint64_t n;
    PyObject *initial;
};

static PyObject *run(struct py_place *place, const struct reduction *given) {
    struct ops_queue *queue = place->queue;
    const enum dtype accumulator = given->target.choice.signature->accumulator;
    const int stays = given->to && !py_given(given->initial);
    union {
        unsigned char bytes[GPUOPT_ITEM_MAX];
        double alignment;
    } value;
    struct py_unlocked unlocked;
    py_recording_begin(place->state, queue);
    py_unlock(&unlocked, queue->device);
    const enum status status =
        stays ? ops_reduce_within(queue, &given->target.choice, given->items, given->n,
                                  given->problem.result, given->to)
              : ops_reduce_resident(queue, &given->target.choice, given->items, given->n, &value);
    py_lock(&unlocked);
    if (status)
        py_raise(place->state, status);
    if (py_recording_end(place->state, queue) || status)
        return NULL;
    if (stays)
        return Py_NewRef(Py_None);
    if (!py_given(given->initial))
        return py_scalar(accumulator, given->problem.result, &value);
    return deliver(place, given->to,
                   py_with_initial(place->state, given->operation, given->initial, accumulator,
                                   given->problem.result, &value));
}

PyObject *py_reduce_resident(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    struct py_state *state = py_state_of(module);
    struct reduction given = {.problem = {.family = reg_family("reduce"), .resident = 1}};
    struct py_place place;
    if (count != ARGUMENTS) {
        PyErr_Format(PyExc_TypeError, "reduce_resident() takes %d positional arguments (%zd given)",
                     ARGUMENTS, count);
        return NULL;
    }
    given.items = PyLong_AsUnsignedLongLong(arguments[ADDRESS]);
    given.n = PyLong_AsUnsignedLongLong(arguments[COUNT]);
    given.to = PyLong_AsUnsignedLongLong(arguments[TO]);
    given.initial = arguments[INITIAL] == Py_Ellipsis ? NULL : arguments[INITIAL];
    if (PyErr_Occurred() || py_operation(arguments[OP], &given.operation) ||
        dtype_of(arguments[ITEMS], &given.problem.given) ||
        dtype_of(arguments[RESULT], &given.problem.result))
        return NULL;
    given.problem.op = py_operation_names[py_effective_operation(
        given.operation, given.problem.given, given.problem.result)];
    if (py_choose(state, &given.problem, arguments[VARIANT], arguments[BLOCK], arguments[DEVICE],
                  &given.target) ||
        py_place_open(state, arguments[DEVICE], arguments[STREAMS], &place))
        return NULL;
    PyObject *result =
        given.n ? run(&place, &given)
                : deliver(&place, given.to,
                          py_of_nothing(given.operation, given.initial, given.problem.result));
    if (result && py_place_join(&place, arguments[STREAMS]))
        Py_CLEAR(result);
    py_place_close(&place);
    return result;
}

PyObject *py_call_resident(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    struct py_state *state = py_state_of(module);
    struct py_call read;
    struct py_target target;
    struct py_place place;
    if (count != 5) {
        PyErr_Format(PyExc_TypeError, "call_resident() takes 5 positional arguments (%zd given)",
                     count);
        return NULL;
    }
    if (py_call_read(arguments[2], &read))
        return NULL;
    read.problem.resident = 1;
    if (py_choose(state, &read.problem, arguments[3], arguments[4], arguments[0], &target))
        return NULL;
    if (read.call.output_bytes == 0)
        return Py_NewRef(Py_None);
    if (py_place_open(state, arguments[0], arguments[1], &place))
        return NULL;
    struct py_unlocked unlocked;
    py_recording_begin(state, place.queue);
    py_unlock(&unlocked, place.queue->device);
    const enum status status = ops_call(place.queue, &target.choice, &read.call);
    py_lock(&unlocked);
    if (status)
        py_raise(state, status);
    const int failed =
        py_recording_end(state, place.queue) || status || py_place_join(&place, arguments[1]);
    py_place_close(&place);
    return failed ? NULL : Py_NewRef(Py_None);
}

/* py_resident.c: calls on arrays in a device's memory. gpuopt/families/device_calls.py determines
 * the device and the streams; this file chooses a rung and enqueues it. Waits only for scalar
 * results.
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

/* Enqueues a copy of a host value to an address on the device. The bytes are staged, so nothing
 * waits. */
static PyObject *put(struct py_place *place, device_address to, PyObject *array) {
    if (!array)
        return NULL;
    const struct device_source source = {.data = PyArray_DATA((PyArrayObject *)array)};
    const enum status status = place->kind->copy_in(place->queue->device, to, &source,
                                                    (size_t)PyArray_NBYTES((PyArrayObject *)array));
    Py_DECREF(array);
    return status ? py_raise(place->state, status) : Py_NewRef(Py_None);
}

/* Returns a 0-d array as a scalar, or copies it to the device. Steals it. */
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
        return py_scalar(place->state, accumulator, given->problem.result, &value);
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
        given.n
            ? run(&place, &given)
            : deliver(&place, given.to,
                      py_of_nothing(state, given.operation, given.initial, given.problem.result));
    if (py_place_join(&place, arguments[STREAMS], !result))
        Py_CLEAR(result);
    py_place_close(&place);
    return result;
}

PyObject *py_put(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    struct py_place place;
    if (count != 4 || !PyArray_Check(arguments[3]) ||
        !PyArray_IS_C_CONTIGUOUS((PyArrayObject *)arguments[3])) {
        PyErr_SetString(PyExc_TypeError, "put() takes a device, streams, an address and an array "
                                         "in C order");
        return NULL;
    }
    const device_address to = PyLong_AsUnsignedLongLong(arguments[2]);
    if (PyErr_Occurred() || py_place_open(py_state_of(module), arguments[0], arguments[1], &place))
        return NULL;
    PyObject *result = put(&place, to, Py_NewRef(arguments[3]));
    if (py_place_join(&place, arguments[1], !result))
        Py_CLEAR(result);
    py_place_close(&place);
    return result;
}

/* A reduction of a whole array to this dtype: into the call's output or, if there is a `value`, as
 * the kernel's accumulator into that, which is waited for. */
struct whole {
    enum dtype result;
    void *value;
};

/* Enqueues a call on the first of its arrays' streams, in order with the others. `whole`: NULL if
 * the family's output is an array. */
static int queue_call(struct py_state *state, const struct py_target *target, PyObject *streams,
                      const struct ops_call *call, const struct whole *whole) {
    const struct ops_choice *choice = &target->choice;
    const device_address items = (uintptr_t)call->inputs[0];
    struct py_place place = {.state = state, .kind = target->kind};
    struct py_unlocked unlocked;
    enum status status;
    memcpy(place.which, target->which, sizeof place.which);
    if (py_place_open_on(&place, streams))
        return -1;
    py_recording_begin(state, place.queue);
    py_unlock(&unlocked, place.queue->device);
    if (!whole)
        status = ops_call(place.queue, choice, call);
    else if (whole->value)
        status = ops_reduce_resident(place.queue, choice, items, call->numbers[0], whole->value);
    else
        status = ops_reduce_within(place.queue, choice, items, call->numbers[0], whole->result,
                                   (uintptr_t)call->output);
    py_lock(&unlocked);
    if (status)
        py_raise(state, status);
    const int failed =
        py_place_join(&place, streams, py_recording_end(state, place.queue) || status);
    py_place_close(&place);
    return failed;
}

PyObject *py_call_resident(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    struct py_state *state = py_state_of(module);
    struct py_family_call read;
    struct py_target target;
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
    return queue_call(state, &target, arguments[1], &read.call, NULL) ? NULL : Py_NewRef(Py_None);
}

/* --- calls prepared before their arrays' addresses are known */

/* Lowest and highest byte of an array relative to its first element, and the alignment of its
 * address. */
struct reach {
    long long low, high;
    unsigned alignment;
    int in_place; /* the output may be this input */
};

/* A prepared call: its addresses are offsets from the first element of arrays passed later. */
struct prepared {
    PyObject_HEAD
    PyObject *module, *device;
    struct py_target target;
    struct ops_call call;
    int is_whole; /* of the family reduce, with this result */
    enum dtype result;
    struct reach reaches[OPS_INPUTS_MAX + 1]; /* the output's last */
};

static int read_reaches(struct prepared *self, PyObject *reaches) {
    if (PyTuple_Size(reaches) != (Py_ssize_t)self->call.input_count + 1) {
        PyErr_SetString(PyExc_ValueError,
                        "reaches: must hold one for each input and one for the output");
        return -1;
    }
    for (unsigned i = 0; i <= self->call.input_count; i++) {
        struct reach *reach = &self->reaches[i];
        PyObject *each = PyTuple_GetItem(reaches, (Py_ssize_t)i);
        if (!PyTuple_Check(each)) {
            PyErr_SetString(PyExc_TypeError, "reaches: must be tuples");
            return -1;
        }
        if (!PyArg_ParseTuple(each, "LLIp", &reach->low, &reach->high, &reach->alignment,
                              &reach->in_place))
            return -1;
        if (reach->alignment == 0) {
            PyErr_SetString(PyExc_ValueError, "reaches: an alignment is 0");
            return -1;
        }
    }
    return 0;
}

/* Reads a reduction of the whole array: the caller's operation; the kernel may run another. */
static int read_whole(PyObject *problem, struct py_family_call *read) {
    enum py_operation operation;
    const struct ops_call *call = &read->call;
    if (call->input_count != 1 || call->numbers[0] == 0 ||
        call->input_bytes[0] / dtype_size(read->problem.given) != call->numbers[0] ||
        call->output_bytes != dtype_size(read->problem.result)) {
        PyErr_SetString(PyExc_ValueError, "problem: reduce has one input, one element of a result, "
                                          "and the number of elements");
        return -1;
    }
    if (py_operation(PyTuple_GetItem(problem, 1), &operation))
        return -1;
    read->problem.op = py_operation_names[py_effective_operation(operation, read->problem.given,
                                                                 read->problem.result)];
    return 0;
}

static PyObject *prepared_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    static char *keys[] = {"device", "problem", "reaches", NULL};
    PyObject *device, *problem, *reaches;
    struct py_family_call read;
    struct py_target target;
    PyObject *module = PyType_GetModule(type);
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "UOO!", keys, &device, &problem,
                                     &PyTuple_Type, &reaches) ||
        py_call_read(problem, &read))
        return NULL;
    const unsigned all = OPS_RESIDENT_OUTPUT | ((1u << read.call.input_count) - 1);
    if (read.call.resident != all || read.call.output_bytes == 0) {
        PyErr_SetString(PyExc_ValueError,
                        "problem: all its arrays must be in a device's memory and have "
                        "items");
        return NULL;
    }
    read.problem.resident = 1;
    const int is_whole = read.problem.family == reg_family("reduce");
    if (is_whole && read_whole(problem, &read))
        return NULL;
    if (py_choose(py_state_of(module), &read.problem, NULL, NULL, device, &target))
        return NULL;
    allocfunc allocate = __extension__(allocfunc) PyType_GetSlot(type, Py_tp_alloc);
    struct prepared *self = (struct prepared *)allocate(type, 0);
    if (!self)
        return NULL;
    self->module = Py_NewRef(module);
    self->device = Py_NewRef(device);
    self->target = target;
    self->call = read.call;
    self->is_whole = is_whole;
    self->result = read.problem.result;
    if (read_reaches(self, reaches)) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void prepared_dealloc(struct prepared *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    const freefunc release = __extension__(freefunc) PyType_GetSlot(type, Py_tp_free);
    Py_XDECREF(self->module);
    Py_XDECREF(self->device);
    release(self);
    Py_DECREF(type);
}

/* Whether the output does not overlap an input, except where it may be that input. */
static int is_apart(const struct reach *in, unsigned long long input, const struct reach *out,
                    unsigned long long output) {
    const unsigned long long apart = input - output; /* wraps, and so do the sums below */
    if (in->in_place && apart == 0)
        return 1;
    const long long low = (long long)(apart + (unsigned long long)in->low);
    const long long high = (long long)(apart + (unsigned long long)in->high);
    return (low > out->low ? low : out->low) >= (high < out->high ? high : out->high);
}

/* The distinct streams, that of the first array first. */
static PyObject *streams_of(PyObject *const *views, Py_ssize_t count) {
    unsigned long long streams[OPS_INPUTS_MAX + 1];
    Py_ssize_t found = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        const unsigned long long stream = ((struct py_view *)views[i])->items.stream;
        Py_ssize_t k = 0;
        while (k < found && streams[k] != stream)
            k++;
        if (k == found)
            streams[found++] = stream;
    }
    PyObject *tuple = PyTuple_New(found);
    for (Py_ssize_t i = 0; tuple && i < found; i++) {
        PyObject *stream = PyLong_FromUnsignedLongLong(streams[i]);
        if (!stream || PyTuple_SetItem(tuple, i, stream))
            Py_CLEAR(tuple);
    }
    return tuple;
}

/* Whether the i-th array (the output is last) matches the prepared call. */
static int fits(const struct prepared *self, const struct py_view_items *array, unsigned i) {
    return !array->waits && array->address % self->reaches[i].alignment == 0 &&
           (array->device == self->device || PyUnicode_Compare(array->device, self->device) == 0);
}

static void place_input(struct ops_call *call, unsigned i, const struct py_view_items *array) {
    if (call->input_bytes[i])
        call->inputs[i] = (void *)((uintptr_t)call->inputs[i] + (uintptr_t)array->address);
}

/* Sets the addresses; returns 0 if these arrays do not match the call. */
static int place_arrays(const struct prepared *self, PyObject *const *views,
                        struct ops_call *call) {
    const unsigned inputs = call->input_count;
    const struct py_view_items *out = &((struct py_view *)views[inputs])->items;
    for (unsigned i = 0; i < inputs; i++) {
        const struct py_view_items *in = &((struct py_view *)views[i])->items;
        if (!fits(self, in, i) ||
            !is_apart(&self->reaches[i], in->address, &self->reaches[inputs], out->address))
            return 0;
        place_input(call, i, in);
    }
    call->output = (void *)((uintptr_t)call->output + (uintptr_t)out->address);
    return fits(self, out, inputs) && !out->read_only;
}

static int are_views(const struct py_state *state, const char *caller, PyObject *const *given,
                     Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++)
        if ((PyObject *)Py_TYPE(given[i]) != state->view_type) {
            PyErr_Format(PyExc_TypeError, "%s() takes Views, not %R", caller, Py_TYPE(given[i]));
            return 0;
        }
    return 1;
}

int py_is_prepared(const struct py_state *state, PyObject *object, int inputs) {
    return (PyObject *)Py_TYPE(object) == state->prepared_type &&
           (int)((struct prepared *)object)->call.input_count == inputs;
}

int py_prepared_queue(PyObject *prepared, PyObject *const *views, const uint64_t *second) {
    struct prepared *self = (struct prepared *)prepared;
    struct py_state *state = py_state_of(self->module);
    struct ops_call call = self->call;
    const Py_ssize_t count = (Py_ssize_t)call.input_count + 1;
    if (!are_views(state, "queue", views, count))
        return -1;
    if (!place_arrays(self, views, &call))
        return 0;
    if (second)
        call.numbers[1] = *second;
    const struct whole whole = {.result = self->result};
    PyObject *streams = streams_of(views, count);
    const int failed = !streams || queue_call(state, &self->target, streams, &call,
                                              self->is_whole ? &whole : NULL);
    Py_XDECREF(streams);
    return failed ? -1 : 1;
}

static PyObject *prepared_queue(struct prepared *self, PyObject *const *views, Py_ssize_t count) {
    if (count != (Py_ssize_t)self->call.input_count + 1) {
        PyErr_Format(PyExc_TypeError, "queue() takes %u views (%zd given)",
                     self->call.input_count + 1, count);
        return NULL;
    }
    const int queued = py_prepared_queue((PyObject *)self, views, NULL);
    return queued < 0 ? NULL : PyBool_FromLong(queued);
}

static PyObject *prepared_value(struct prepared *self, PyObject *view) {
    struct py_state *state = py_state_of(self->module);
    struct ops_call call = self->call;
    union {
        unsigned char bytes[GPUOPT_ITEM_MAX];
        double alignment;
    } value;
    if (!self->is_whole) {
        PyErr_SetString(PyExc_TypeError, "value(): the call's result is an array");
        return NULL;
    }
    if (!are_views(state, "value", &view, 1))
        return NULL;
    const struct py_view_items *items = &((struct py_view *)view)->items;
    if (!fits(self, items, 0))
        return Py_NewRef(Py_None);
    place_input(&call, 0, items);
    const struct whole whole = {.result = self->result, .value = &value};
    PyObject *streams = streams_of(&view, 1);
    const int failed = !streams || queue_call(state, &self->target, streams, &call, &whole);
    Py_XDECREF(streams);
    return failed
               ? NULL
               : py_scalar(state, self->target.choice.signature->accumulator, self->result, &value);
}

static PyMethodDef prepared_methods[] = {
    {"queue", (PyCFunction)(void (*)(void))prepared_queue, METH_FASTCALL,
     "queue($self, /, *views)\n--\n\n"
     "Enqueue the call for the Views of inputs and output. Return False, with nothing done, if "
     "one\n"
     "is on another device, is not aligned, must be waited for, or may not be written."},
    {"value", (PyCFunction)prepared_value, METH_O,
     "value($self, view, /)\n--\n\n"
     "Wait for a reduction of a whole array, and return its NumPy scalar, which needs no memory\n"
     "on the device. Return None, with nothing done, where queue() would return False."},
    {NULL, NULL, 0, NULL},
};

/* __extension__: ISO C has no function pointers in void pointers, which the C API requires. */
static PyType_Slot prepared_slots[] = {
    {Py_tp_new, __extension__(void *) prepared_new},
    {Py_tp_dealloc, __extension__(void *) prepared_dealloc},
    {Py_tp_methods, prepared_methods},
    {Py_tp_doc, "Prepared(device, problem, reaches)\n--\n\n"
                "A call as of call_resident on arrays of one layout; its addresses are offsets in\n"
                "bytes from each array's first element. reaches: for each input and the output\n"
                "(low, high, alignment, in_place): its range of bytes around the first element,\n"
                "the alignment of its address, and whether the output may be this input."},
    {0, NULL},
};

static PyType_Spec prepared_spec = {
    .name = "gpuopt._core.Prepared",
    .basicsize = sizeof(struct prepared),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = prepared_slots,
};

int py_prepared_add(PyObject *module, struct py_state *state) {
    state->prepared_type = PyType_FromModuleAndSpec(module, &prepared_spec, NULL);
    return state->prepared_type ? PyModule_AddObjectRef(module, "Prepared", state->prepared_type)
                                : -1;
}

/* py_call.c: reads a family's problem (gpuopt/arrays/inout.py) and enqueues calls on arrays of a
 * device. Knows no family's rules.
 */
#include "py_core.h"

#include <string.h>

enum { FAMILY, OP, ITEMS, RESULT, INPUTS, OUTPUT, NUMBERS, FIELDS };

int py_dtype_named(const char *name, enum dtype *dtype) {
    for (int i = 0; i < DTYPE_COUNT; i++)
        if (strcmp(dtype_name((enum dtype)i), name) == 0) {
            *dtype = (enum dtype)i;
            return 0;
        }
    return -1;
}

static int dtype_by_name(PyObject *value, const char *argument, enum dtype *dtype) {
    const char *name = py_text(value, argument);
    if (!name)
        return -1;
    if (py_dtype_named(name, dtype)) {
        PyErr_Format(PyExc_TypeError, "%s: %R is not a dtype of gpuopt", argument, value);
        return -1;
    }
    return 0;
}

/* The registry's own string of an operation, which outlives the caller's; NULL if there is none. */
static const char *op_of(const struct reg_family *family, PyObject *value) {
    const char *name = py_text(value, "op");
    for (size_t i = 0; name && i < family->kernel_signature_count; i++)
        if (strcmp(family->kernel_signatures[i].op, name) == 0)
            return family->kernel_signatures[i].op;
    if (name)
        PyErr_Format(PyExc_ValueError, "op: %s has no %R", family->name, value);
    return NULL;
}

/* The memory of an array that is one run in C order, or of a pair (address, bytes). */
static int run_of(PyObject *object, int writeable, void **data, size_t *bytes, int *resident) {
    PyArrayObject *array = (PyArrayObject *)object;
    *resident = PyTuple_Check(object);
    if (*resident) {
        unsigned long long address, size;
        if (!PyArg_ParseTuple(object, "KK", &address, &size))
            return -1;
        *data = (void *)(uintptr_t)address;
        *bytes = (size_t)size;
        return 0;
    }
    if (!PyArray_Check(object) || !PyArray_IS_C_CONTIGUOUS(array) || !PyArray_ISALIGNED(array) ||
        (writeable && !PyArray_ISWRITEABLE(array))) {
        PyErr_SetString(PyExc_ValueError,
                        "problem: an array must be C-contiguous and aligned, and the output "
                        "writeable; pass np.ascontiguousarray(array)");
        return -1;
    }
    *data = PyArray_DATA(array);
    *bytes = (size_t)PyArray_NBYTES(array);
    return 0;
}

int py_problem_read(PyObject *head, struct py_problem *problem) {
    *problem = (struct py_problem){0};
    if (PyTuple_Size(head) <= RESULT) {
        PyErr_SetString(PyExc_TypeError, "problem: must begin with family, op, items and result");
        return -1;
    }
    const char *family = py_text(PyTuple_GetItem(head, FAMILY), "family");
    problem->family = family ? reg_family(family) : NULL;
    if (family && !problem->family)
        PyErr_Format(PyExc_ValueError, "family: '%s' is not a family of kernels", family);
    if (!problem->family)
        return -1;
    problem->op = op_of(problem->family, PyTuple_GetItem(head, OP));
    return !problem->op || dtype_by_name(PyTuple_GetItem(head, ITEMS), "items", &problem->given) ||
                   dtype_by_name(PyTuple_GetItem(head, RESULT), "result", &problem->result)
               ? -1
               : 0;
}

int py_numbers_read(PyObject *tuple, uint64_t numbers[OPS_NUMBERS_MAX]) {
    if (PyTuple_Size(tuple) > OPS_NUMBERS_MAX) {
        PyErr_Format(PyExc_TypeError, "problem: has more than %d numbers", OPS_NUMBERS_MAX);
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); i++)
        numbers[i] = PyLong_AsUnsignedLongLongMask(PyTuple_GetItem(tuple, i));
    return PyErr_Occurred() ? -1 : 0;
}

int py_call_read(PyObject *tuple, struct py_family_call *read) {
    memset(read, 0, sizeof *read);
    if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != FIELDS ||
        !PyTuple_Check(PyTuple_GetItem(tuple, INPUTS)) ||
        !PyTuple_Check(PyTuple_GetItem(tuple, NUMBERS)) ||
        PyTuple_Size(PyTuple_GetItem(tuple, INPUTS)) > OPS_INPUTS_MAX) {
        PyErr_SetString(PyExc_TypeError, "problem: must be a tuple (family, op, items, result, "
                                         "inputs, output, numbers)");
        return -1;
    }
    PyObject *inputs = PyTuple_GetItem(tuple, INPUTS), *numbers = PyTuple_GetItem(tuple, NUMBERS);
    int resident;
    if (py_problem_read(tuple, &read->problem) ||
        run_of(PyTuple_GetItem(tuple, OUTPUT), 1, &read->call.output, &read->call.output_bytes,
               &resident))
        return -1;
    read->call.resident = resident ? OPS_RESIDENT_OUTPUT : 0;
    read->call.input_count = (unsigned)PyTuple_Size(inputs);
    for (unsigned i = 0; i < read->call.input_count; i++) {
        void *data;
        if (run_of(PyTuple_GetItem(inputs, i), 0, &data, &read->call.input_bytes[i], &resident))
            return -1;
        read->call.resident |= resident ? 1u << i : 0;
        read->call.inputs[i] = data;
    }
    return py_numbers_read(numbers, read->call.numbers);
}

PyObject *py_turned(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    uint64_t numbers[OPS_NUMBERS_MAX] = {0};
    (void)module;
    if (count != 2 || !PyTuple_Check(arguments[1]))
        return PyErr_Format(PyExc_TypeError, "turned: takes an element's bytes and numbers");
    const size_t item = PyLong_AsSize_t(arguments[0]);
    if (PyErr_Occurred() || py_numbers_read(arguments[1], numbers))
        return NULL;
    return PyLong_FromUnsignedLong(ops_vector_turned(item, numbers));
}

PyObject *py_call_kind(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    struct py_problem problem;
    struct py_target target;
    if (count != 4 || !PyTuple_Check(arguments[0])) {
        PyErr_SetString(PyExc_TypeError, "call_kind() takes a tuple, variant, block and device");
        return NULL;
    }
    if (py_problem_read(arguments[0], &problem) ||
        py_choose(py_state_of(module), &problem, arguments[1], arguments[2], arguments[3], &target))
        return NULL;
    return PyUnicode_FromString(target.kind->kind);
}

int py_whole_read(PyObject *op, const struct ops_call *call, struct py_problem *problem) {
    enum py_operation operation;
    if (call->input_count != 1 || call->numbers[0] == 0 ||
        call->input_bytes[0] / dtype_size(problem->given) != call->numbers[0] ||
        call->output_bytes != dtype_size(problem->result)) {
        PyErr_SetString(PyExc_ValueError, "problem: reduce has one input, one element of a result, "
                                          "and the number of elements");
        return -1;
    }
    if (py_operation(op, &operation))
        return -1;
    problem->op = py_rules[py_effective_operation(operation, problem->given, problem->result)].name;
    return 0;
}

static bool is_whole(const struct py_target *target) {
    return target->choice.family == reg_family("reduce");
}

static enum status run_call(struct ops_queue *queue, const struct py_queued *queued,
                            const struct ops_call *call) {
    const struct ops_choice *choice = &queued->target->choice;
    const device_address items = (uintptr_t)call->inputs[0];
    if (!is_whole(queued->target))
        return ops_call(queue, choice, call);
    if (queued->value)
        return ops_reduce_resident(queue, choice, items, call->numbers[0], queued->value);
    return ops_reduce_within(queue, choice, items, call->numbers[0], queued->result,
                             (uintptr_t)call->output);
}

/* Memory between passes; freed in the queue's order. */
struct between {
    device_address at[PY_PASSES_MAX];
    size_t bytes[PY_PASSES_MAX];
    unsigned count;
};

static enum status take_between(struct ops_queue *queue, size_t bytes, struct between *between,
                                void **at) {
    const unsigned k = between->count;
    const enum status status = ops_memory_take(queue, bytes, &between->at[k]);
    if (!status) {
        between->bytes[k] = bytes;
        between->count++;
        *at = (void *)(uintptr_t)between->at[k];
    }
    return status;
}

static enum status run_pass(struct ops_queue *queue, const struct py_pass *pass, const void *from,
                            void *to) {
    struct ops_call call = pass->call;
    call.inputs[0] = (const char *)from + pass->offset;
    call.output = to;
    return ops_call(queue, &pass->target.choice, &call);
}

static enum status run_passes(struct ops_queue *queue, const struct py_queued *queued) {
    const struct py_passes *passes = queued->passes;
    const struct py_pass *after = passes->of + passes->before;
    struct ops_call call = *queued->call;
    struct between between = {.count = 0};
    enum status status = STATUS_OK;
    void *to = NULL;
    for (unsigned k = 0; k < passes->before && !status; k++) {
        const struct py_pass *pass = &passes->of[k];
        status = take_between(queue, pass->call.output_bytes, &between, &to);
        if (!status)
            status = run_pass(queue, pass, call.inputs[pass->input], to);
        call.inputs[pass->input] = to;
    }
    if (!status && passes->after)
        status = take_between(queue, call.output_bytes, &between, &call.output);
    if (!status)
        status = run_call(queue, queued, &call);
    const void *from = call.output;
    for (unsigned k = 0; k < passes->after && !status; k++) {
        to = queued->call->output;
        if (k + 1 < passes->after)
            status = take_between(queue, after[k].call.output_bytes, &between, &to);
        if (!status)
            status = run_pass(queue, &after[k], from, to);
        from = to;
    }
    while (between.count--)
        ops_memory_give(queue, between.at[between.count], between.bytes[between.count]);
    return status;
}

int py_call_queue(struct py_state *state, const struct py_queued *queued) {
    struct py_place place = {.state = state, .kind = queued->target->kind};
    struct py_unlocked unlocked;
    memcpy(place.which, queued->target->which, sizeof place.which);
    if (py_place_open_on(&place, queued->streams))
        return -1;
    if (queued->passes && device_is_captured(place.queue->device)) {
        py_place_close(&place);
        return 1;
    }
    py_recording_begin(state, place.queue);
    py_unlock(&unlocked, place.queue->device);
    const enum status status = queued->passes ? run_passes(place.queue, queued)
                                              : run_call(place.queue, queued, queued->call);
    py_lock(&unlocked);
    if (status)
        py_raise(state, status);
    const int failed =
        py_place_join(&place, queued->streams, py_recording_end(state, place.queue) || status);
    py_place_close(&place);
    return failed;
}

int py_queue_end(struct py_state *state, struct ops_queue *queue, const struct py_target *target,
                 enum status status) {
    if (status)
        py_raise(state, status);
    const int told = py_recording_end(state, queue);
    py_queue_give(state, queue, target->kind, target->which);
    return status || told ? -1 : 0;
}

PyObject *py_call(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    struct py_state *state = py_state_of(module);
    struct py_family_call read;
    struct py_target target;
    struct py_streams streams;
    if (count != 5) {
        PyErr_Format(PyExc_TypeError, "call() takes 5 positional arguments (%zd given)", count);
        return NULL;
    }
    if (py_call_read(arguments[0], &read) || py_streams_read(arguments[4], &streams))
        return NULL;
    if (!(read.call.resident & OPS_RESIDENT_OUTPUT)) {
        PyErr_SetString(PyExc_ValueError, "problem: its arrays must be in a device's memory");
        return NULL;
    }
    read.problem.resident = 1;
    if (read.problem.family == reg_family("reduce") &&
        py_whole_read(PyTuple_GetItem(arguments[0], OP), &read.call, &read.problem))
        return NULL;
    if (py_choose(state, &read.problem, arguments[1], arguments[2], arguments[3], &target))
        return NULL;
    const struct py_queued queued = {&target, &read.call, &streams, read.problem.result,
                                     NULL,    NULL};
    return read.call.output_bytes && py_call_queue(state, &queued) ? NULL : Py_NewRef(Py_None);
}

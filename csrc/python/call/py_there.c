/* py_there.c: plans of calls on arrays of a device. Addresses are offsets from each array's first
 * element; running a plan adds the arrays' addresses, has their library allocate the result and
 * enqueues the call on their stream. Waits only for a result that goes to the host.
 */
#include "py_plan.h"

#include <string.h>

/* Lowest and highest byte of an array relative to its first element, and the alignment of its
 * address. */
struct reach {
    long long low, high;
    unsigned alignment;
    int in_place; /* the output may be this input */
};

struct there_input {
    int argument;       /* or: */
    PyObject *constant; /* the View of an array that the plan owns; NULL: an argument */
    int is_number;
    enum dtype number;
    struct reach reach;
};

struct py_there {
    struct py_target target;
    struct ops_call call;
    struct there_input inputs[OPS_INPUTS_MAX];
    struct reach reach;                       /* the output's */
    PyObject *device, *shape, *steps, *dtype; /* the last three: the result's */
    PyObject *back;                           /* the caller gets it with these axes; or None */
    enum dtype result;
    int out, to_host, factor; /* arguments, or -1; `out` is on the host */
    enum dtype factor_dtype;
    struct py_passes *passes; /* NULL: none */
    size_t made;              /* bytes of the result; the call's output goes to further passes */
};

/* --- making plans */

static int read_reach(PyObject *tuple, struct reach *reach) {
    if (!PyArg_ParseTuple(tuple, "LLIp", &reach->low, &reach->high, &reach->alignment,
                          &reach->in_place))
        return -1;
    if (reach->alignment == 0)
        PyErr_SetString(PyExc_ValueError, "Plan: an alignment is 0");
    return reach->alignment ? 0 : -1;
}

/* (argument or View, offset, bytes, reach), or (argument, dtype) of a number. */
static int read_input(const struct py_state *state, PyObject *tuple, unsigned i,
                      struct py_there *there) {
    struct there_input *input = &there->inputs[i];
    PyObject *from, *reach;
    const char *number;
    Py_ssize_t offset, bytes;
    if (PyTuple_Check(tuple) && PyTuple_Size(tuple) == 2) {
        if (!PyArg_ParseTuple(tuple, "is", &input->argument, &number))
            return -1;
        if (py_dtype_named(number, &input->number)) {
            PyErr_Format(PyExc_TypeError, "Plan: %s is not a dtype of gpuopt", number);
            return -1;
        }
        input->is_number = 1;
        there->call.by_value |= 1u << i;
        there->call.input_bytes[i] = dtype_size(input->number);
        return 0;
    }
    if (!PyTuple_Check(tuple) ||
        !PyArg_ParseTuple(tuple, "OnnO!", &from, &offset, &bytes, &PyTuple_Type, &reach) ||
        read_reach(reach, &input->reach)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "Plan: an input must be a tuple");
        return -1;
    }
    if ((PyObject *)Py_TYPE(from) == state->view_type)
        input->constant = Py_NewRef(from);
    else
        input->argument = (int)PyLong_AsLong(from);
    there->call.resident |= 1u << i;
    there->call.inputs[i] = (void *)(uintptr_t)offset;
    there->call.input_bytes[i] = (size_t)bytes;
    return PyErr_Occurred() ? -1 : 0;
}

static int read_call(const struct py_state *state, PyObject *head, PyObject *numbers,
                     PyObject *inputs, struct py_problem *problem, struct py_there *there) {
    const Py_ssize_t count = PyTuple_Size(inputs);
    if (count > OPS_INPUTS_MAX) {
        PyErr_SetString(PyExc_ValueError, "Plan: has too many inputs");
        return -1;
    }
    there->call.input_count = (unsigned)count;
    there->call.resident = OPS_RESIDENT_OUTPUT;
    if (py_problem_read(head, problem) || py_numbers_read(numbers, there->call.numbers))
        return -1;
    problem->resident = 1;
    there->result = problem->result;
    for (unsigned i = 0; i < there->call.input_count; i++)
        if (read_input(state, PyTuple_GetItem(inputs, (Py_ssize_t)i), i, there))
            return -1;
    return problem->family == reg_family("reduce")
               ? py_whole_read(PyTuple_GetItem(head, 1), &there->call, problem)
               : 0;
}

/* See Plan's docstring. */
static int read_pass(struct py_state *state, PyObject *tuple, PyObject *device, bool before,
                     struct py_pass *pass) {
    PyObject *head, *numbers, *variant, *block;
    Py_ssize_t in, out, k;
    struct py_problem problem;
    if (!PyTuple_Check(tuple) ||
        !PyArg_ParseTuple(tuple, "O!O!nnOOn", &PyTuple_Type, &head, &PyTuple_Type, &numbers, &in,
                          &out, &variant, &block, &k) ||
        py_problem_read(head, &problem) || py_numbers_read(numbers, pass->call.numbers)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "Plan: a pass must be a tuple");
        return -1;
    }
    if (k < 0 || (before && k >= OPS_INPUTS_MAX)) {
        PyErr_SetString(PyExc_ValueError, "Plan: a pass reads what the call lacks");
        return -1;
    }
    problem.resident = 1;
    pass->input = before ? (unsigned)k : 0;
    pass->offset = before ? 0 : (size_t)k;
    pass->call.input_count = 1;
    pass->call.input_bytes[0] = (size_t)in;
    pass->call.output_bytes = (size_t)out;
    pass->call.resident = 1 | OPS_RESIDENT_OUTPUT;
    return py_choose(state, &problem, variant, block, device, &pass->target);
}

static int read_passes(struct py_state *state, PyObject *before, PyObject *after, PyObject *device,
                       struct py_there *there) {
    const Py_ssize_t first = PyTuple_Size(before), count = first + PyTuple_Size(after);
    if (count > PY_PASSES_MAX - 1) {
        PyErr_SetString(PyExc_ValueError, "Plan: has too many passes");
        return -1;
    }
    if (count == 0)
        return 0;
    there->passes = PyMem_Calloc(1, sizeof *there->passes);
    if (!there->passes) {
        PyErr_NoMemory();
        return -1;
    }
    there->passes->before = (unsigned)first;
    there->passes->after = (unsigned)(count - first);
    for (Py_ssize_t k = 0; k < count; k++)
        if (read_pass(state, PyTuple_GetItem(k < first ? before : after, k < first ? k : k - first),
                      device, k < first, &there->passes->of[k]))
            return -1;
    if (count > first)
        there->made = there->passes->of[count - 1].call.output_bytes;
    return 0;
}

/* The strides of C order, in elements. */
static PyObject *steps_of(PyObject *shape) {
    const Py_ssize_t axes = PyTuple_Size(shape);
    PyObject *steps = PyTuple_New(axes);
    Py_ssize_t step = 1;
    for (Py_ssize_t k = axes; steps && k-- > 0;) {
        PyObject *each = PyLong_FromSsize_t(step);
        const Py_ssize_t extent = PyLong_AsSsize_t(PyTuple_GetItem(shape, k));
        if (!each || PyTuple_SetItem(steps, k, each) || (extent == -1 && PyErr_Occurred()))
            Py_CLEAR(steps);
        step *= extent > 1 ? extent : 1;
    }
    return steps;
}

static int read_fields(struct py_state *state, PyObject *fields, struct py_there *there) {
    PyObject *head, *numbers, *inputs, *output, *reach, *shape, *dtype, *variant, *block, *device;
    PyObject *before, *after, *back;
    const char *factor;
    Py_ssize_t bytes;
    struct py_problem problem;
    if (!PyArg_ParseTuple(fields, "O!O!O!O!ipO!OizOOUO!O!O", &PyTuple_Type, &head, &PyTuple_Type,
                          &numbers, &PyTuple_Type, &inputs, &PyTuple_Type, &output, &there->out,
                          &there->to_host, &PyTuple_Type, &shape, &dtype, &there->factor, &factor,
                          &variant, &block, &device, &PyTuple_Type, &before, &PyTuple_Type, &after,
                          &back) ||
        !PyArg_ParseTuple(output, "nO!", &bytes, &PyTuple_Type, &reach) ||
        read_reach(reach, &there->reach))
        return -1;
    there->device = Py_NewRef(device);
    there->shape = Py_NewRef(shape);
    there->back = Py_NewRef(back);
    if (!(there->steps = steps_of(shape)))
        return -1;
    there->dtype = Py_NewRef(dtype);
    there->call.output_bytes = there->made = (size_t)bytes;
    if (read_call(state, head, numbers, inputs, &problem, there) ||
        read_passes(state, before, after, device, there))
        return -1;
    if (factor && py_dtype_named(factor, &there->factor_dtype)) {
        PyErr_Format(PyExc_TypeError, "Plan: %s is not a dtype of gpuopt", factor);
        return -1;
    }
    return py_choose(state, &problem, variant, block, device, &there->target);
}

struct py_there *py_there_new(struct py_state *state, PyObject *fields) {
    struct py_there *there = PyMem_Calloc(1, sizeof *there);
    if (!there) {
        PyErr_NoMemory();
    } else if (read_fields(state, fields, there)) {
        py_there_free(there);
        there = NULL;
    }
    return there;
}

void py_there_free(struct py_there *there) {
    if (!there)
        return;
    for (int k = 0; k < OPS_INPUTS_MAX; k++)
        Py_XDECREF(there->inputs[k].constant);
    Py_XDECREF(there->device);
    Py_XDECREF(there->shape);
    Py_XDECREF(there->steps);
    Py_XDECREF(there->dtype);
    Py_XDECREF(there->back);
    PyMem_Free(there->passes);
    PyMem_Free(there);
}

bool py_there_reads(const struct py_there *there, const struct py_state *state,
                    PyObject *const *arguments, Py_ssize_t count) {
    for (unsigned i = 0; i < there->call.input_count; i++) {
        const struct there_input *input = &there->inputs[i];
        if (!input->constant && !input->is_number &&
            (input->argument >= count ||
             (PyObject *)Py_TYPE(arguments[input->argument]) != state->view_type))
            return false;
    }
    if (there->out < 0)
        return true;
    return there->out < count &&
           (there->to_host ? PyArray_Check(arguments[there->out])
                           : (PyObject *)Py_TYPE(arguments[there->out]) == state->view_type);
}

/* --- running them */

struct there_run {
    struct ops_call call;
    union py_number numbers[OPS_INPUTS_MAX];
    struct py_streams streams;
    bool waits; /* an array may be released only after the work */
};

static const struct py_view_items *items_of(PyObject *view) {
    return &((struct py_view *)view)->items;
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

/* Whether an array is on the plan's device and aligned. */
static int fits(const struct py_there *there, const struct py_view_items *array,
                const struct reach *reach) {
    return array->address % reach->alignment == 0 &&
           (array->device == there->device || PyUnicode_Compare(array->device, there->device) == 0);
}

/* A constant is complete, but must outlive the call. */
static void add_stream(struct py_streams *streams, uint64_t stream, bool constant) {
    int k = 0;
    while (k < streams->count && streams->of[k] != stream)
        k++;
    if (k == streams->count) {
        streams->of[streams->count++] = stream;
        streams->settled |= (unsigned)constant << k;
    } else if (!constant) {
        streams->settled &= ~(1u << k);
    }
}

/* The View of an input that is an array. */
static PyObject *view_of(const struct there_input *input, PyObject *const *operands) {
    return input->constant ? input->constant : operands[input->argument];
}

/* Sets the inputs' addresses and values; returns 0 if these arrays or numbers do not fit. */
static int place_inputs(const struct py_there *there, PyObject *const *arguments,
                        PyObject *const *operands, struct there_run *run) {
    struct ops_call *call = &run->call;
    for (unsigned i = 0; i < call->input_count; i++) {
        const struct there_input *input = &there->inputs[i];
        if (input->is_number) {
            if (!py_number_read(arguments[input->argument], input->number, &run->numbers[i]))
                return 0;
            call->inputs[i] = &run->numbers[i];
            continue;
        }
        const struct py_view_items *array = items_of(view_of(input, operands));
        if (!fits(there, array, &input->reach))
            return 0;
        if (call->input_bytes[i])
            call->inputs[i] = (void *)((uintptr_t)call->inputs[i] + (uintptr_t)array->address);
        add_stream(&run->streams, array->stream, input->constant);
        run->waits |= array->waits;
    }
    union py_number factor;
    if (there->factor >= 0) {
        if (!py_number_read(arguments[there->factor], there->factor_dtype, &factor))
            return 0;
        call->numbers[1] = factor.bits;
    }
    return 1;
}

/* Waits for the work on arrays that may be released only after it; keeps a pending exception. */
static int settle(const struct py_there *there, PyObject *const *operands) {
    PyObject *type, *value, *traceback, *views = PyList_New(0), *done = NULL;
    PyErr_Fetch(&type, &value, &traceback);
    for (unsigned i = 0; views && i < there->call.input_count; i++)
        if (!there->inputs[i].is_number &&
            PyList_Append(views, view_of(&there->inputs[i], operands)))
            Py_CLEAR(views);
    if (views)
        done =
            PyObject_CallMethod(items_of(PyList_GetItem(views, 0))->library, "settle", "O", views);
    Py_XDECREF(views);
    Py_XDECREF(done);
    if (type)
        PyErr_Restore(type, value, traceback);
    return done ? 0 : -1;
}

/* Enqueues the call; 0 if the output does not fit, -1 with an exception. */
static int enqueue(const struct py_there *there, struct py_state *state, PyObject *const *operands,
                   const struct py_view_items *out, struct there_run *run) {
    const struct py_queued queued = {&there->target, &run->call, &run->streams,
                                     there->result,  NULL,       there->passes};
    if (!fits(there, out, &there->reach) || out->read_only || out->waits)
        return 0;
    for (unsigned i = 0; i < run->call.input_count; i++) {
        const struct there_input *input = &there->inputs[i];
        if (!input->is_number &&
            !is_apart(&input->reach, items_of(view_of(input, operands))->address, &there->reach,
                      out->address))
            return 0;
    }
    run->call.output = (void *)(uintptr_t)out->address;
    add_stream(&run->streams, out->stream, false);
    const int failed = py_call_queue(state, &queued); /* a part may be enqueued */
    if (failed > 0) /* a capture: the general function has the library allocate */
        return 0;
    return (run->waits && settle(there, operands)) || failed ? -1 : 1;
}

/* Waits for the result, and writes it to an array on the host. */
static PyObject *to_host(const struct py_there *there, struct py_state *state, PyObject *out,
                         struct there_run *run) {
    union {
        unsigned char bytes[GPUOPT_ITEM_MAX];
        double alignment;
    } value;
    const struct py_queued queued = {&there->target, &run->call, &run->streams,
                                     there->result,  &value,     there->passes};
    if (py_call_queue(state, &queued))
        return NULL;
    PyObject *array =
        py_cast(state, there->target.choice.signature->accumulator, there->result, &value);
    const int failed = !array || py_copy(state, (PyArrayObject *)out, (PyArrayObject *)array);
    Py_XDECREF(array);
    return failed ? NULL : Py_NewRef(out);
}

static PyObject *into(const struct py_there *there, struct py_state *state, PyObject *out,
                      PyObject *const *operands, struct there_run *run) {
    const struct py_view_items *to = items_of(operands[there->out]);
    const bool silent = out == operands[there->out] || py_known_is_own(state, to->library);
    const int told = silent ? 0 : py_known_write(state, out);
    PyObject *done = told > 0 ? PyObject_CallMethod(to->library, "writes", "O", out) : NULL;
    Py_XDECREF(done);
    return (told == 0 || done) && enqueue(there, state, operands, to, run) > 0 ? Py_NewRef(out)
                                                                               : NULL;
}

/* Returns the result, whose reference it takes, with the caller's order of axes. */
static PyObject *turned(const struct py_there *there, PyObject *library, PyObject *made) {
    if (there->back == Py_None)
        return made;
    PyObject *result = PyObject_CallMethod(library, "turned", "OO", made, there->back);
    Py_DECREF(made);
    return result;
}

static PyObject *to_new_array(const struct py_there *there, struct py_state *state,
                              const struct py_view_items *first, PyObject *view,
                              PyObject *const *operands, struct there_run *run) {
    const struct py_new given = {there->shape, there->steps, there->dtype, there->made,
                                 &there->target};
    struct py_view_items to;
    PyObject *result = NULL, *pair, *made = py_known_new(state, first, &given, &to);
    if (made) {
        if (enqueue(there, state, operands, &to, run) > 0)
            return turned(there, first->library, made);
        Py_DECREF(made);
        return NULL;
    }
    if (PyErr_Occurred())
        return NULL;
    pair = PyObject_CallMethod(first->library, "empty", "OOO", view, there->shape, there->dtype);
    if (pair && enqueue(there, state, operands, items_of(PyTuple_GetItem(pair, 1)), run) > 0)
        result = PyObject_CallMethod(first->library, "finish", "O", PyTuple_GetItem(pair, 0));
    Py_XDECREF(pair);
    return result ? turned(there, first->library, result) : NULL;
}

PyObject *py_there_run(const struct py_there *there, struct py_state *state,
                       PyObject *const *arguments, PyObject *const *operands) {
    struct there_run run = {.call = there->call};
    PyObject *first = NULL;
    if (!place_inputs(there, arguments, operands, &run))
        return NULL;
    if (there->to_host)
        return to_host(there, state, arguments[there->out], &run);
    if (there->out >= 0)
        return into(there, state, arguments[there->out], operands, &run);
    for (unsigned i = 0; i < there->call.input_count && !first; i++)
        first = there->inputs[i].is_number ? NULL : view_of(&there->inputs[i], operands);
    return to_new_array(there, state, items_of(first), first, operands, &run);
}

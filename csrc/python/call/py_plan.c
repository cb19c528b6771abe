/* py_plan.c: Plan: how to run all calls of one key (py_entry.c). The planners in gpuopt/families
 * make plans; running one reads nothing but addresses, and the values of numbers.
 */
#include "py_plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL_ADDITIONS = 1 << 20 }; /* up to which a call keeps the GIL */
enum { PASSES_MAX = 8, AXES_MAX = 64 /* NumPy's */ };

/* An input: an argument in place, converted first, a number, or a constant array. */
struct input {
    int argument; /* -1: the constant */
    npy_intp offset;
    PyObject *constant;
    PyArray_Descr *convert; /* NULL: in place, or a number of this type */
    enum dtype number;
    int is_number, finite;
    int axes;                 /* of `order`; 0: the copy keeps the argument's order of axes */
    npy_intp order[AXES_MAX]; /* the copy is in C order of these */
};

struct layout {
    int axes, strided; /* not strided: C order */
    npy_intp shape[AXES_MAX], strides[AXES_MAX], offset;
};

struct kernel {
    int passes;
    struct py_target targets[PASSES_MAX];
    struct ops_call *calls; /* one a pass */
    struct input inputs[OPS_INPUTS_MAX];
    PyArray_Descr *descr;
    struct layout made, view; /* the result as the last pass writes it, and as the caller gets it */
    int viewed, copied;       /* there is a view; the caller gets a copy of it, */
    PyArray_Descr *cast;      /* of this dtype; NULL: of the same */
    int out, direct;          /* the argument, or -1; the last pass writes to it */
    int factor;               /* the argument whose bits are the second number, or -1 */
    enum dtype factor_dtype;
    int scalar; /* a result without axes is a scalar */
    size_t bytes;
};

struct numpy {
    PyObject *function, *first, *keywords; /* first(factor, x, **keywords), then function */
    int factor, x, y, out;                 /* arguments, or -1 */
    int scalar, reuses; /* the result may be a scalar; it takes the memory of the first one's */
};

struct copy {
    int argument, out, axes;
    npy_intp order[AXES_MAX];
};

/* The elements as another dtype, in a shape with fewer or more axes of one element. */
struct cast {
    int argument, out, axes; /* out: an argument, or -1 */
    int adds_zero;           /* -0.0 becomes 0.0 */
    npy_intp shape[AXES_MAX];
    PyArray_Descr *descr;
};

struct plan {
    PyObject_HEAD
    PyObject *module;
    enum { KERNEL, NUMPY, COPY, CAST, RESIDENT, WHOLE } kind;
    struct kernel *kernel;
    struct py_there *there;
    struct numpy numpy;
    struct copy copy;
    struct cast cast;
    struct py_whole whole;
};

int py_is_plan(const struct py_state *state, PyObject *object) {
    return (PyObject *)Py_TYPE(object) == state->plan_type;
}

/* --- making plans */

static int read_numbers(PyObject *tuple, npy_intp *numbers) {
    const Py_ssize_t count = PyTuple_Check(tuple) ? PyTuple_Size(tuple) : -1;
    if (count < 0 || count > AXES_MAX) {
        PyErr_SetString(PyExc_ValueError, "Plan: must have tuples of at most 64 axes");
        return -1;
    }
    for (Py_ssize_t k = 0; k < count; k++)
        numbers[k] = PyLong_AsSsize_t(PyTuple_GetItem(tuple, k));
    return PyErr_Occurred() ? -1 : (int)count;
}

static int read_input(PyObject *object, struct input *input) {
    PyObject *order = NULL, *convert = Py_None;
    if (PyArray_Check(object)) {
        input->argument = -1;
        input->constant = Py_NewRef(object);
        return 0;
    }
    if (!PyTuple_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "Plan: an input must be an array or a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(object, "in|OOpp", &input->argument, &input->offset, &convert, &order,
                          &input->is_number, &input->finite))
        return -1;
    if (convert != Py_None && !PyArray_DescrConverter(convert, &input->convert))
        return -1;
    if (input->is_number && !py_dtype_of(input->convert, &input->number)) {
        PyErr_SetString(PyExc_TypeError, "Plan: a number's dtype is not supported");
        return -1;
    }
    if (order && order != Py_None && (input->axes = read_numbers(order, input->order)) < 0)
        return -1;
    return 0;
}

static int read_inputs(PyObject *inputs, struct kernel *kernel) {
    const Py_ssize_t count = PyTuple_Size(inputs);
    if (count > OPS_INPUTS_MAX) {
        PyErr_SetString(PyExc_ValueError, "Plan: has too many inputs");
        return -1;
    }
    for (Py_ssize_t k = 0; k < count; k++)
        if (read_input(PyTuple_GetItem(inputs, k), &kernel->inputs[k]))
            return -1;
    return 0;
}

static int read_layout(PyObject *shape, PyObject *strides, struct layout *layout) {
    layout->axes = read_numbers(shape, layout->shape);
    layout->strided = strides != Py_None;
    if (layout->axes < 0)
        return -1;
    if (layout->strided && read_numbers(strides, layout->strides) != layout->axes) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "Plan: needs a stride for each axis");
        return -1;
    }
    return 0;
}

/* (dtype, shape, strides or None, view or None, copied, scalar); a view is (shape, strides, bytes),
 * copied is a bool or the copy's dtype. */
static int read_result(PyObject *result, struct kernel *kernel) {
    PyObject *shape, *strides, *view, *view_shape, *view_strides, *copied;
    if (!PyArg_ParseTuple(result, "O&O!OOOp", PyArray_DescrConverter, &kernel->descr, &PyTuple_Type,
                          &shape, &strides, &view, &copied, &kernel->scalar) ||
        read_layout(shape, strides, &kernel->made))
        return -1;
    kernel->copied = copied != Py_False;
    if (kernel->copied && copied != Py_True && !PyArray_DescrConverter(copied, &kernel->cast))
        return -1;
    kernel->viewed = view != Py_None;
    if (!kernel->viewed)
        return 0;
    if (!PyArg_ParseTuple(view, "O!O!n", &PyTuple_Type, &view_shape, &PyTuple_Type, &view_strides,
                          &kernel->view.offset))
        return -1;
    return read_layout(view_shape, view_strides, &kernel->view);
}

/* ((family, op, items, result), numbers, bytes of each input, bytes of the output). */
static int read_pass(struct py_state *state, PyObject *pass, PyObject *const *how,
                     struct py_target *target, struct ops_call *call) {
    PyObject *head, *numbers, *inputs;
    Py_ssize_t bytes;
    struct py_problem problem;
    if (!PyTuple_Check(pass) ||
        !PyArg_ParseTuple(pass, "O!O!O!n", &PyTuple_Type, &head, &PyTuple_Type, &numbers,
                          &PyTuple_Type, &inputs, &bytes) ||
        py_problem_read(head, &problem) || py_numbers_read(numbers, call->numbers))
        return -1;
    call->input_count = (unsigned)PyTuple_Size(inputs);
    call->output_bytes = (size_t)bytes;
    if (call->input_count > OPS_INPUTS_MAX) {
        PyErr_SetString(PyExc_ValueError, "Plan: has too many inputs");
        return -1;
    }
    for (unsigned k = 0; k < call->input_count; k++)
        call->input_bytes[k] = PyLong_AsSize_t(PyTuple_GetItem(inputs, (Py_ssize_t)k));
    return PyErr_Occurred() ? -1 : py_choose(state, &problem, how[0], how[1], how[2], target);
}

static int make_kernel(struct plan *self, PyObject *fields) {
    struct py_state *state = py_state_of(self->module);
    PyObject *passes, *inputs, *result, *how[3];
    const char *factor = NULL;
    struct kernel *kernel = self->kernel = PyMem_Calloc(1, sizeof *kernel);
    if (!kernel) {
        PyErr_NoMemory();
        return -1;
    }
    if (!PyArg_ParseTuple(fields, "O!O!O!ipizOOO", &PyTuple_Type, &passes, &PyTuple_Type, &inputs,
                          &PyTuple_Type, &result, &kernel->out, &kernel->direct, &kernel->factor,
                          &factor, &how[0], &how[1], &how[2]))
        return -1;
    kernel->passes = (int)PyTuple_Size(passes);
    if (kernel->passes < 1 || kernel->passes > PASSES_MAX) {
        PyErr_SetString(PyExc_ValueError, "Plan: must have 1 to 8 passes");
        return -1;
    }
    kernel->calls = PyMem_Calloc((size_t)kernel->passes, sizeof *kernel->calls);
    if (!kernel->calls) {
        PyErr_NoMemory();
        return -1;
    }
    if (read_inputs(inputs, kernel) || read_result(result, kernel))
        return -1;
    for (int k = 0; k < kernel->passes; k++)
        if (read_pass(state, PyTuple_GetItem(passes, k), how, &kernel->targets[k],
                      &kernel->calls[k]))
            return -1;
    if (factor && py_dtype_named(factor, &kernel->factor_dtype)) {
        PyErr_Format(PyExc_TypeError, "Plan: %s is not a dtype of gpuopt", factor);
        return -1;
    }
    kernel->bytes = kernel->calls[kernel->passes - 1].output_bytes;
    for (unsigned k = 0; k < kernel->calls[0].input_count; k++)
        kernel->bytes += kernel->calls[0].input_bytes[k];
    if (kernel->targets[0].choice.family == reg_family("stencil1d")) {
        /* Few elements may be much work, which Ctrl-C has to end: outputs, rows, width. */
        const uint64_t *numbers = kernel->calls[0].numbers;
        if ((double)numbers[1] * (double)numbers[6] * (double)numbers[7] > SMALL_ADDITIONS)
            kernel->bytes = SIZE_MAX;
    }
    return 0;
}

static int make_numpy(struct plan *self, PyObject *fields) {
    struct numpy *numpy = &self->numpy;
    PyObject *function, *first, *keywords;
    if (!PyArg_ParseTuple(fields, "OOOiiiipp", &function, &first, &keywords, &numpy->factor,
                          &numpy->x, &numpy->y, &numpy->out, &numpy->scalar, &numpy->reuses))
        return -1;
    numpy->function = Py_NewRef(function);
    numpy->first = Py_NewRef(first);
    numpy->keywords = Py_NewRef(keywords);
    return 0;
}

static int make_copy(struct plan *self, PyObject *fields) {
    PyObject *order;
    if (!PyArg_ParseTuple(fields, "iO!i", &self->copy.argument, &PyTuple_Type, &order,
                          &self->copy.out))
        return -1;
    self->copy.axes = read_numbers(order, self->copy.order);
    return self->copy.axes < 0 ? -1 : 0;
}

static int make_cast(struct plan *self, PyObject *fields) {
    PyObject *shape;
    if (!PyArg_ParseTuple(fields, "iO!O&ip", &self->cast.argument, &PyTuple_Type, &shape,
                          PyArray_DescrConverter, &self->cast.descr, &self->cast.out,
                          &self->cast.adds_zero))
        return -1;
    self->cast.axes = read_numbers(shape, self->cast.shape);
    return self->cast.axes < 0 ? -1 : 0;
}

static int make_resident(struct plan *self, PyObject *fields) {
    self->there = py_there_new(py_state_of(self->module), fields);
    return self->there ? 0 : -1;
}

static int make_whole(struct plan *self, PyObject *fields) {
    return py_whole_new(py_state_of(self->module), fields, &self->whole);
}

static PyObject *plan_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    static char *keys[] = {"kind", "fields", NULL};
    static int (*const makers[])(struct plan *, PyObject *) = {
        [KERNEL] = make_kernel, [NUMPY] = make_numpy,       [COPY] = make_copy,
        [CAST] = make_cast,     [RESIDENT] = make_resident, [WHOLE] = make_whole};
    static const char *const names[] = {"kernel", "numpy", "copy", "cast", "resident", "whole"};
    const char *name;
    PyObject *fields;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "sO!", keys, &name, &PyTuple_Type,
                                     &fields))
        return NULL;
    int kind = KERNEL;
    while (kind < WHOLE && strcmp(names[kind], name) != 0)
        kind++;
    allocfunc allocate = __extension__(allocfunc) PyType_GetSlot(type, Py_tp_alloc);
    struct plan *self = (struct plan *)allocate(type, 0);
    if (!self)
        return NULL;
    self->module = Py_NewRef(PyType_GetModule(type));
    self->kind = kind;
    if (makers[kind](self, fields))
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void plan_dealloc(struct plan *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    const freefunc release = __extension__(freefunc) PyType_GetSlot(type, Py_tp_free);
    if (self->kernel) {
        for (int k = 0; k < OPS_INPUTS_MAX; k++) {
            Py_XDECREF(self->kernel->inputs[k].constant);
            Py_XDECREF((PyObject *)self->kernel->inputs[k].convert);
        }
        Py_XDECREF((PyObject *)self->kernel->descr);
        Py_XDECREF((PyObject *)self->kernel->cast);
        PyMem_Free(self->kernel->calls);
        PyMem_Free(self->kernel);
    }
    py_there_free(self->there);
    Py_XDECREF(self->numpy.function);
    Py_XDECREF(self->numpy.first);
    Py_XDECREF(self->numpy.keywords);
    Py_XDECREF((PyObject *)self->cast.descr);
    Py_XDECREF(self->module);
    release(self);
    Py_DECREF(type);
}

/* --- running kernels */

static int is_finite(PyArrayObject *array) {
    const double *numbers = PyArray_DATA(array);
    for (npy_intp k = 0; k < PyArray_SIZE(array); k++)
        if (!isfinite(numbers[k]))
            return 0;
    return 1;
}

/* A copy as another dtype, or NULL for the same. */
static PyArrayObject *copy_as(struct py_state *state, PyArrayObject *array, NPY_ORDER order,
                              PyArray_Descr *descr) {
    Py_XINCREF((PyObject *)descr);
    PyArrayObject *copy = (PyArrayObject *)PyArray_NewLikeArray(array, order, descr, 0);
    if (copy && py_copy(state, copy, array))
        Py_CLEAR(copy);
    return copy;
}

/* A copy of an argument as the input's dtype: in C order of its axes, or in its own order. */
static PyArrayObject *converted(struct py_state *state, const struct input *input,
                                PyArrayObject *array) {
    if (!input->axes)
        return copy_as(state, array, NPY_KEEPORDER, input->convert);
    PyArray_Dims order = {(npy_intp *)(uintptr_t)input->order, input->axes};
    PyArrayObject *turned = (PyArrayObject *)PyArray_Transpose(array, &order);
    PyArrayObject *copy = turned ? copy_as(state, turned, NPY_CORDER, input->convert) : NULL;
    Py_XDECREF((PyObject *)turned);
    return copy;
}

struct running {
    struct ops_call first; /* the first pass with its addresses */
    PyArrayObject *kept[OPS_INPUTS_MAX];
    union py_number numbers[OPS_INPUTS_MAX];
    PyArrayObject *made;
};

/* Returns -1 with an exception, or without one if a number does not fit. */
static int place_inputs(struct py_state *state, const struct kernel *kernel,
                        PyObject *const *arguments, struct running *run) {
    for (unsigned k = 0; k < run->first.input_count; k++) {
        const struct input *input = &kernel->inputs[k];
        PyObject *value = input->argument < 0 ? input->constant : arguments[input->argument];
        PyArrayObject *array = (PyArrayObject *)value;
        if (input->is_number && !PyArray_Check(value)) {
            if (!py_number_read(value, input->number, &run->numbers[k]))
                return -1;
            run->first.inputs[k] = &run->numbers[k];
            run->first.by_value |= 1u << k;
            continue;
        }
        if (input->convert) {
            array = run->kept[k] = converted(state, input, array);
            if (!array || (input->finite && !is_finite(array)))
                return -1;
        }
        run->first.inputs[k] = PyArray_BYTES(array) + input->offset;
    }
    if (kernel->factor >= 0) {
        union py_number factor;
        if (!py_number_read(arguments[kernel->factor], kernel->factor_dtype, &factor))
            return -1;
        run->first.numbers[1] = factor.bits;
    }
    return 0;
}

/* Runs all passes; the results of all but the last go to memory of their own. */
static enum status run_passes(const struct kernel *kernel, struct ops_queue *queue,
                              struct running *run) {
    void *before = NULL;
    enum status status = STATUS_OK;
    for (int k = 0; k < kernel->passes && !status; k++) {
        struct ops_call later, *call = &run->first;
        if (k) {
            later = kernel->calls[k];
            later.inputs[0] = before;
            call = &later;
        }
        const int last = k == kernel->passes - 1;
        void *between = last ? NULL : malloc(call->output_bytes + !call->output_bytes);
        if (!last && !between)
            status = status_fail(STATUS_NO_HOST_MEMORY, "array: no memory for results of a pass");
        call->output = last ? PyArray_DATA(run->made) : between;
        if (!status)
            status = ops_call(queue, &kernel->targets[k].choice, call);
        free(before);
        before = between;
    }
    free(before);
    return status;
}

static int run_on(struct py_state *state, const struct kernel *kernel, struct running *run) {
    const struct py_target *target = &kernel->targets[0];
    if (run->first.output_bytes == 0 && kernel->passes == 1)
        return 0;
    struct ops_queue *queue = py_queue_take(state, target->kind, target->which);
    if (!queue)
        return -1;
    enum status status;
    py_recording_begin(state, queue);
    if (queue->device->capabilities & DEVICE_HOST_MEMORY && kernel->bytes <= PY_SMALL_BYTES) {
        const float_state before = float_state_enter();
        status = run_passes(kernel, queue, run);
        float_state_leave(before);
    } else {
        struct py_unlocked unlocked;
        py_unlock(&unlocked, queue->device);
        status = run_passes(kernel, queue, run);
        py_lock(&unlocked);
    }
    return py_queue_end(state, queue, target, status);
}

/* Puts another object in a place; the old one is released. Both may be NULL. */
static void replace(PyObject **place, PyObject *object) {
    PyObject *old = *place;
    *place = object;
    Py_XDECREF(old);
}

static PyArrayObject *new_array(PyArray_Descr *descr, const struct layout *layout,
                                PyArrayObject *base) {
    void *data = base ? PyArray_BYTES(base) + layout->offset : NULL;
    Py_INCREF((PyObject *)descr);
    PyArrayObject *made = (PyArrayObject *)PyArray_NewFromDescr(
        &PyArray_Type, descr, layout->axes, layout->shape, layout->strided ? layout->strides : NULL,
        data, base ? NPY_ARRAY_WRITEABLE : 0, NULL);
    if (made && base && PyArray_SetBaseObject(made, Py_NewRef((PyObject *)base)))
        Py_CLEAR(made);
    return made;
}

/* Turns the written array into what the caller gets: itself, a view of it, or `out`. */
static PyObject *deliver(struct py_state *state, const struct kernel *kernel,
                         PyObject *const *arguments, struct running *run) {
    PyArrayObject *found = (PyArrayObject *)Py_NewRef((PyObject *)run->made);
    if (kernel->viewed) {
        PyArrayObject *view = new_array(kernel->descr, &kernel->view, found);
        Py_DECREF((PyObject *)found);
        found = view;
    }
    if (!found)
        return NULL;
    if (kernel->out >= 0) {
        PyObject *out = arguments[kernel->out];
        const int failed = !kernel->direct && py_copy(state, (PyArrayObject *)out, found);
        Py_DECREF((PyObject *)found);
        return failed ? NULL : Py_NewRef(out);
    }
    if (kernel->copied) {
        PyArrayObject *copy = copy_as(state, found, NPY_CORDER, kernel->cast);
        Py_DECREF((PyObject *)found);
        found = copy;
    }
    return found && kernel->scalar ? PyArray_Return(found) : (PyObject *)found;
}

static PyObject *run_kernel(struct plan *self, PyObject *const *arguments) {
    struct py_state *state = py_state_of(self->module);
    const struct kernel *kernel = self->kernel;
    struct running run = {.first = kernel->calls[0]};
    PyObject *result = NULL;
    const float_state before = float_state_enter(); /* of conversions */
    const int placed = place_inputs(state, kernel, arguments, &run);
    float_state_leave(before);
    if (!placed)
        run.made = kernel->direct ? (PyArrayObject *)Py_NewRef(arguments[kernel->out])
                                  : new_array(kernel->descr, &kernel->made, NULL);
    if (run.made && !run_on(state, kernel, &run))
        result = deliver(state, kernel, arguments, &run);
    Py_XDECREF((PyObject *)run.made);
    for (int k = 0; k < OPS_INPUTS_MAX; k++)
        Py_XDECREF((PyObject *)run.kept[k]);
    return result;
}

/* --- running NumPy's functions, where no kernel reads the arguments in place */

static PyObject *run_numpy(struct py_state *state, const struct numpy *numpy,
                           PyObject *const *arguments) {
    PyObject *x = Py_NewRef(arguments[numpy->x]), *result = NULL, *pair;
    const float_state before = float_state_enter();
    if (numpy->first != Py_None) {
        pair = PyTuple_Pack(2, arguments[numpy->factor], x);
        replace(&x, pair ? py_quietly(state, numpy->first, pair, numpy->keywords) : NULL);
        Py_XDECREF(pair);
    }
    if (x) {
        PyObject *out = numpy->out >= 0 ? arguments[numpy->out] : numpy->reuses ? x : NULL;
        pair = PyTuple_Pack(out ? 3 : 2, x, arguments[numpy->y], out);
        result = pair ? py_quietly(state, numpy->function, pair, NULL) : NULL;
        Py_XDECREF(pair);
    }
    Py_XDECREF(x);
    float_state_leave(before);
    if (!result && PyErr_ExceptionMatches(PyExc_OverflowError))
        PyErr_Clear(); /* the general function names the argument */
    if (result && !numpy->scalar && !PyArray_Check(result))
        replace(&result, PyArray_FROM_O(result));
    return result;
}

static PyObject *run_copy(struct py_state *state, const struct copy *copy,
                          PyObject *const *arguments) {
    PyArray_Dims order = {(npy_intp *)(uintptr_t)copy->order, copy->axes};
    PyArrayObject *turned =
        (PyArrayObject *)PyArray_Transpose((PyArrayObject *)arguments[copy->argument], &order);
    PyObject *result = NULL;
    if (turned && copy->out < 0)
        result = PyArray_NewCopy(turned, NPY_CORDER);
    else if (turned && !py_copy(state, (PyArrayObject *)arguments[copy->out], turned))
        result = Py_NewRef(arguments[copy->out]);
    Py_XDECREF((PyObject *)turned);
    return result;
}

static PyObject *run_cast(struct py_state *state, const struct cast *cast,
                          PyObject *const *arguments) {
    PyArray_Dims shape = {(npy_intp *)(uintptr_t)cast->shape, cast->axes};
    PyArrayObject *from = (PyArrayObject *)PyArray_Newshape(
        (PyArrayObject *)arguments[cast->argument], &shape, NPY_CORDER); /* a view */
    PyArrayObject *to = NULL;
    const float_state before = float_state_enter();
    if (from && cast->out < 0)
        to = copy_as(state, from, NPY_KEEPORDER, cast->descr);
    else if (from && !py_copy(state, (PyArrayObject *)arguments[cast->out], from))
        to = (PyArrayObject *)Py_NewRef(arguments[cast->out]);
    PyObject *zero = to && cast->adds_zero ? PyLong_FromLong(0) : NULL;
    if (to && cast->adds_zero)
        replace((PyObject **)&to, zero ? PyNumber_InPlaceAdd((PyObject *)to, zero) : NULL);
    float_state_leave(before);
    Py_XDECREF(zero);
    Py_XDECREF((PyObject *)from);
    return to && cast->out < 0 ? PyArray_Return(to) : (PyObject *)to;
}

PyObject *py_plan_run(PyObject *plan, PyObject *const *arguments, PyObject *const *operands) {
    struct plan *self = (struct plan *)plan;
    switch (self->kind) {
    case KERNEL:
        return run_kernel(self, arguments);
    case NUMPY:
        return run_numpy(py_state_of(self->module), &self->numpy, arguments);
    case COPY:
        return run_copy(py_state_of(self->module), &self->copy, arguments);
    case CAST:
        return run_cast(py_state_of(self->module), &self->cast, arguments);
    case RESIDENT:
        return py_there_run(self->there, py_state_of(self->module), arguments, operands);
    default:
        return py_whole_run(&self->whole, py_state_of(self->module), arguments);
    }
}

static bool reads_arrays(const struct kernel *kernel, PyObject *const *arguments,
                         Py_ssize_t count) {
    int last = kernel->out;
    for (int k = 0; k < OPS_INPUTS_MAX; k++)
        if (kernel->inputs[k].argument > last)
            last = kernel->inputs[k].argument;
    for (Py_ssize_t k = 0; k < count; k++)
        if (!PyArray_Check(arguments[k]))
            return false;
    return last < count;
}

/* Runs a plan of arrays or, on a device, of Views. */
static PyObject *plan_run(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    const struct plan *plan = (struct plan *)self;
    const bool runs = plan->kind == KERNEL  ? reads_arrays(plan->kernel, arguments, count)
                      : plan->kind == WHOLE ? py_whole_reads(arguments, count)
                      : plan->kind == RESIDENT
                          ? py_there_reads(plan->there, py_state_of(plan->module), arguments, count)
                          : false;
    if (!runs) {
        PyErr_SetString(PyExc_TypeError, "run() takes the arrays of a plan, or their Views");
        return NULL;
    }
    PyObject *result = py_plan_run(self, arguments, arguments);
    return result || PyErr_Occurred() ? result : Py_NewRef(Py_None);
}

static PyMethodDef plan_methods[] = {
    {"run", (PyCFunction)(void (*)(void))plan_run, METH_FASTCALL,
     "run($self, /, *arguments)\n--\n\nRun a plan once on its arrays, or their Views on a device. "
     "Return None if\nthey lie otherwise."},
    {NULL, NULL, 0, NULL},
};

/* __extension__: ISO C has no function pointers in void pointers, which the C API requires. */
static PyType_Slot plan_slots[] = {
    {Py_tp_new, __extension__(void *) plan_new},
    {Py_tp_dealloc, __extension__(void *) plan_dealloc},
    {Py_tp_methods, plan_methods},
    {Py_tp_doc,
     "Plan(kind, fields)\n--\n\n"
     "How to run all calls of one key; arguments are named by their index.\n"
     "\"kernel\": (passes, inputs, result, out, direct, factor, factor's dtype, variant, block,\n"
     "device). \"numpy\": (function, first or None, its keywords, factor, x, y, out, scalar, "
     "reuses).\n"
     "\"copy\": (array, order of axes, out). \"cast\": (array, shape, dtype, out, whether\n"
     "-0.0 becomes 0.0). \"whole\": "
     "(head, whether elements may be converted,\n"
     "variant, block, device), of gpuopt.reduce's arguments.\n"
     "\"resident\": (head, numbers, inputs, (bytes of the output, reach), out, out is on the "
     "host,\n"
     "shape, dtype, factor, factor's dtype, variant, block, device, passes before, passes after, "
     "back).\n"
     "Its inputs: (argument or View, offset, bytes, reach), or (argument, dtype) of a number. A\n"
     "reach: (low, high, alignment, in_place), the range of bytes around the first element, and\n"
     "whether the output may be this input. A pass: (head, numbers, bytes read, bytes written,\n"
     "variant, block, k); before the call k is the input that it replaces, after it the offset in\n"
     "the memory that it reads. `back`: the order of a new array's axes for the caller, or None."},
    {0, NULL},
};

static PyType_Spec plan_spec = {
    .name = "gpuopt._core.Plan",
    .basicsize = sizeof(struct plan),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = plan_slots,
};

int py_plan_add(PyObject *module, struct py_state *state) {
    state->plan_type = PyType_FromModuleAndSpec(module, &plan_spec, NULL);
    return state->plan_type ? PyModule_AddObjectRef(module, "Plan", state->plan_type) : -1;
}

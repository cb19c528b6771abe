/* py_bench.c: Workbench: data on a device, on which any rung can be run and timed. gpuopt/measure
 * builds its measurements from run() and time(); it decides what to verify and what to print.
 */
#include "py_core.h"

#include <stdatomic.h>
#include <string.h>

struct bench {
    PyObject_HEAD
    PyObject *module;
    struct ops_bench bench; /* bench.queue NULL: closed */
    const struct device_ops *kind;
    char which[DEVICE_WHICH];
    struct py_problem problem;
    atomic_int busy; /* a method runs without the GIL */
};

/* --- tuned constants */

/* Returns the family's rows as dicts. */
PyObject *py_tunings(PyObject *module, PyObject *argument) {
    (void)module;
    const char *family = py_text(argument, "family");
    PyObject *list = family ? PyList_New(0) : NULL;
    for (size_t i = 0; list && i < OPS_TUNING_COUNT; i++) {
        const struct ops_tuning_row *row = &ops_tuning_rows[i];
        if (strcmp(row->family, family) != 0)
            continue;
        PyObject *tried = PyList_New((Py_ssize_t)row->tried_count);
        for (size_t k = 0; tried && k < row->tried_count; k++) {
            PyObject *value = PyLong_FromUnsignedLongLong(row->tried[k]);
            if (!value || PyList_SetItem(tried, (Py_ssize_t)k, value))
                Py_CLEAR(tried);
        }
        PyObject *told = tried ? Py_BuildValue("{s:s, s:s, s:i, s:K, s:O}", "name", row->name,
                                               "meaning", row->meaning, "rung", row->rung, "value",
                                               (unsigned long long)row->value, "tried", tried)
                               : NULL;
        Py_XDECREF(tried);
        const int failed = !told || PyList_Append(list, told);
        Py_XDECREF(told);
        if (failed)
            Py_CLEAR(list);
    }
    return list;
}

/* Raises ValueError that lists the valid names, or the values of a row. */
static int refuse(PyObject *given, const char *family, const struct ops_tuning_row *row) {
    char list[256] = "";
    size_t length = 0;
    for (size_t i = 0; !row && i < OPS_TUNING_COUNT && length < sizeof list; i++)
        if (strcmp(ops_tuning_rows[i].family, family) == 0)
            length += (size_t)PyOS_snprintf(list + length, sizeof list - length, "%s'%s'",
                                            length ? ", " : "", ops_tuning_rows[i].name);
    for (size_t k = 0; row && k < row->tried_count && length < sizeof list; k++)
        length += (size_t)PyOS_snprintf(list + length, sizeof list - length, "%s%llu",
                                        length ? ", " : "", (unsigned long long)row->tried[k]);
    if (row)
        PyErr_Format(PyExc_ValueError, "tuning: %s is %R; use one of %s", row->name, given, list);
    else
        PyErr_Format(PyExc_ValueError, "tuning: %R is no constant of %s; use one of %s", given,
                     family, length ? list : "none: it has no constants");
    py_suggest();
    return -1;
}

/* Reads a value of a row, which must be one that the row lists. */
static int read_value(PyObject *given, const char *family, const struct ops_tuning_row *row,
                      uint64_t *value) {
    const unsigned long long number = PyLong_Check(given) ? PyLong_AsUnsignedLongLong(given) : 0;
    const int known = PyLong_Check(given) && !PyErr_Occurred();
    PyErr_Clear(); /* out of range of any row */
    for (size_t k = 0; known && k < row->tried_count; k++)
        if (row->tried[k] == number) {
            *value = number;
            return 0;
        }
    return refuse(given, family, row);
}

static int read_tuning(PyObject *given, const char *family, struct ops_tuning *tuning) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    for (size_t i = 0; i < OPS_TUNING_COUNT; i++)
        tuning->values[i] = ops_tuning_rows[i].value;
    if (!PyDict_Check(given)) {
        PyErr_Format(PyExc_TypeError, "tuning: must be a dict from names to values, not %R", given);
        return -1;
    }
    while (PyDict_Next(given, &at, &key, &value)) {
        const char *name = py_text(key, "tuning");
        size_t i = 0;
        if (!name)
            return -1;
        while (i < OPS_TUNING_COUNT && (strcmp(ops_tuning_rows[i].family, family) != 0 ||
                                        strcmp(ops_tuning_rows[i].name, name) != 0))
            i++;
        if (i == OPS_TUNING_COUNT)
            return refuse(key, family, NULL);
        if (read_value(value, family, &ops_tuning_rows[i], &tuning->values[i]))
            return -1;
    }
    return 0;
}

/* --- the type */

/* Reads a reduction's problem: an array and the operation. */
static int read_array(struct py_state *state, PyObject *family, PyObject *array, PyObject *op,
                      PyObject *dtype, struct py_array_in *in, struct py_family_call *read) {
    struct py_problem *problem = &read->problem;
    enum py_operation operation = PY_OP_sum;
    memset(read, 0, sizeof *read);
    const char *name = py_text(family, "family");
    if (!name)
        return -1;
    problem->family = reg_family(name);
    if (problem->family != &reg_families[REG_reduce]) {
        PyErr_Format(PyExc_ValueError, "family: '%s' is not a family that works on one array",
                     name);
        return -1;
    }
    if (!array || py_array_in(state, array, in)) {
        if (!array)
            PyErr_SetString(PyExc_TypeError, "array: is missing");
        return -1;
    }
    problem->given = problem->result = in->dtype;
    if (py_operation(op, &operation) ||
        py_result_dtype(operation, in->dtype, dtype, NULL, &problem->result))
        return -1;
    problem->op = py_rules[py_effective_operation(operation, in->dtype, problem->result)].name;
    if (py_array_source(in, problem->given, false))
        return -1;
    if (!in->source.data) { /* a source is read once, a bench may copy repeatedly */
        PyErr_SetString(PyExc_ValueError, "array: must be contiguous to be measured; pass "
                                          "numpy.ascontiguousarray(array)");
        return -1;
    }
    read->call = (struct ops_call){
        .inputs = {in->source.data},
        .input_bytes = {in->n * dtype_size(problem->given)},
        .input_count = 1,
        .numbers = {in->n},
    };
    return 0;
}

static PyObject *bench_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    static char *keys[] = {"family", "array", "op", "dtype", "device", NULL};
    PyObject *family, *array = NULL, *op = NULL, *dtype = NULL, *device = NULL;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O|OO$OO", keys, &family, &array, &op,
                                     &dtype, &device))
        return NULL;
    PyObject *module = PyType_GetModule(type);
    allocfunc allocate = __extension__(allocfunc) PyType_GetSlot(type, Py_tp_alloc);
    struct py_state *state = py_state_of(module);
    struct bench *self = (struct bench *)allocate(type, 0);
    struct py_array_in in = {0};
    struct py_target target;
    struct py_family_call read;
    if (!self)
        return NULL;
    self->module = Py_NewRef(module);
    if (PyTuple_Check(family) ? py_call_read(family, &read)
                              : read_array(state, family, array, op, dtype, &in, &read))
        goto fail;
    self->problem = read.problem;
    if (PyTuple_Check(family) && read.call.resident) {
        PyErr_SetString(PyExc_ValueError, "problem: a Workbench requires arrays of the host");
        goto fail;
    }
    if (read.call.input_bytes[0] == 0) {
        PyErr_SetString(PyExc_ValueError, "array: has no elements to measure; pass at least one");
        goto fail;
    }
    if (py_choose(state, &self->problem, NULL, NULL, device, &target))
        goto fail;
    self->kind = target.kind;
    memcpy(self->which, target.which, sizeof self->which);
    struct ops_queue *queue = py_queue_take(state, target.kind, target.which);
    if (!queue)
        goto fail;
    struct py_unlocked unlocked;
    py_unlock(&unlocked, queue->device);
    const enum status status = ops_bench_open(&self->bench, queue, &read.call);
    py_lock(&unlocked);
    if (status) {
        py_queue_give(state, queue, target.kind, target.which);
        self->bench.queue = NULL;
        py_raise(state, status);
        goto fail;
    }
    py_array_release(&in);
    return (PyObject *)self;
fail:
    py_array_release(&in);
    Py_DECREF(self);
    return NULL;
}

static void bench_dealloc(struct bench *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    freefunc release = __extension__(freefunc) PyType_GetSlot(type, Py_tp_free);
    if (self->bench.queue) {
        ops_bench_close(&self->bench);
        py_queue_give(py_state_of(self->module), self->bench.queue, self->kind, self->which);
    }
    Py_XDECREF(self->module);
    release(self);
    Py_DECREF(type);
}

/* Chooses for variant=, block= and tuning= on the bench's device; `tuning` must outlive the choice.
 */
static int choose(struct bench *self, PyObject *variant, PyObject *block, PyObject *given,
                  struct ops_tuning *tuning, struct py_target *target) {
    target->kind = self->kind;
    memcpy(target->which, self->which, sizeof target->which);
    if (py_choose_on(&self->problem, variant, block, target))
        return -1;
    if (!py_given(given))
        return 0;
    target->choice.tuning = tuning;
    return read_tuning(given, self->problem.family->name, tuning);
}

/* Between begin and end the GIL is free and no other thread may use the bench. */
static int begin(struct bench *self, struct py_unlocked *unlocked) {
    if (atomic_exchange(&self->busy, 1)) {
        PyErr_SetString(PyExc_RuntimeError, "this Workbench is in use by another thread");
        return -1;
    }
    py_unlock(unlocked, self->bench.queue->device);
    return 0;
}

static int end(struct bench *self, struct py_unlocked *unlocked, enum status status) {
    py_lock(unlocked);
    self->busy = 0;
    if (status)
        py_raise(py_state_of(self->module), status);
    return status ? -1 : 0;
}

/* Plans a call: its rung, and the bytes of its result and of the algorithm. */
static int ask(struct bench *self, const struct py_target *target, struct ops_told *told) {
    struct py_unlocked unlocked;
    return begin(self, &unlocked) ||
           end(self, &unlocked, ops_bench_told(&self->bench, &target->choice, told));
}

static PyObject *bench_run(struct bench *self, PyObject *arguments, PyObject *keywords) {
    static char *keys[] = {"variant", "block", "tuning", NULL};
    PyObject *variant = NULL, *block = NULL, *given = NULL;
    struct ops_tuning tuning;
    struct py_target target;
    struct py_unlocked unlocked;
    struct ops_told told;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|OO$O", keys, &variant, &block,
                                     &given) ||
        choose(self, variant, block, given, &tuning, &target) || ask(self, &target, &told))
        return NULL;
    const bool reduces = self->problem.family == &reg_families[REG_reduce];
    const enum dtype accumulator = target.choice.signature->accumulator;
    const enum dtype dtype = reduces ? accumulator : target.choice.signature->items;
    const size_t item = dtype_size(dtype);
    const bool whole =
        told.result_bytes % item == 0; /* argmin's int64 from complex128 may not be */
    npy_intp items = (npy_intp)(whole ? told.result_bytes / item : told.result_bytes);
    PyArray_Descr *descr = py_descr(whole ? dtype : DTYPE_uint8);
    PyObject *result =
        descr ? PyArray_NewFromDescr(&PyArray_Type, descr, 1, &items, NULL, NULL, 0, NULL) : NULL;
    if (!result || begin(self, &unlocked)) {
        Py_XDECREF(result);
        return NULL;
    }
    void *data = PyArray_DATA((PyArrayObject *)result);
    const size_t room = (size_t)PyArray_NBYTES((PyArrayObject *)result);
    const enum status status = ops_bench_run(&self->bench, &target.choice, data, room);
    if (end(self, &unlocked, status)) {
        Py_DECREF(result);
        return NULL;
    }
    if (reduces) {
        PyObject *number =
            py_scalar(py_state_of(self->module), accumulator, self->problem.result, data);
        Py_DECREF(result);
        return number;
    }
    return result;
}

static PyObject *bench_time(struct bench *self, PyObject *arguments, PyObject *keywords) {
    static char *keys[] = {"variant", "block", "runs", "cold", "tuning", NULL};
    PyObject *variant = NULL, *block = NULL, *given = NULL;
    unsigned runs = 1;
    int cold = 0;
    struct ops_tuning tuning;
    struct py_target target;
    struct py_unlocked unlocked;
    double seconds = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|OO$IpO", keys, &variant, &block, &runs,
                                     &cold, &given))
        return NULL;
    if (runs == 0) {
        PyErr_SetString(PyExc_ValueError, "runs: must be at least 1");
        return NULL;
    }
    if (choose(self, variant, block, given, &tuning, &target) || begin(self, &unlocked))
        return NULL;
    const enum status status = ops_bench_time(&self->bench, &target.choice, runs, cold, &seconds);
    return end(self, &unlocked, status) ? NULL : PyFloat_FromDouble(seconds);
}

static PyObject *bench_bytes(struct bench *self, PyObject *arguments, PyObject *keywords) {
    static char *keys[] = {"variant", "block", NULL};
    PyObject *variant = NULL, *block = NULL;
    struct py_target target;
    struct ops_told told;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|OO", keys, &variant, &block) ||
        choose(self, variant, block, NULL, NULL, &target) || ask(self, &target, &told))
        return NULL;
    return PyLong_FromUnsignedLongLong(told.algorithm_bytes);
}

static PyObject *bench_rung(struct bench *self, PyObject *unused) {
    (void)unused;
    struct py_target target;
    struct ops_told told;
    if (choose(self, NULL, NULL, NULL, NULL, &target) || ask(self, &target, &told))
        return NULL;
    return PyUnicode_FromString(told.rung->name);
}

static PyObject *bench_device(struct bench *self, void *closure) {
    (void)closure;
    return PyUnicode_FromString(self->bench.queue->info.name);
}

static PyMethodDef bench_methods[] = {
    {"run", (PyCFunction)(void (*)(void))bench_run, METH_VARARGS | METH_KEYWORDS,
     "run($self, /, variant=None, block=None, *, tuning=None)\n--\n\n"
     "Poison the output, run the rung once, and return its result; tuning: a dict from the names\n"
     "of `tunings` to other values."},
    {"time", (PyCFunction)(void (*)(void))bench_time, METH_VARARGS | METH_KEYWORDS,
     "time($self, /, variant=None, block=None, *, runs=1, cold=False, tuning=None)\n--\n\n"
     "Return seconds per run, over `runs` back to back; cold: each on another copy of the data."},
    {"bytes", (PyCFunction)(void (*)(void))bench_bytes, METH_VARARGS | METH_KEYWORDS,
     "bytes($self, /, variant=None, block=None)\n--\n\n"
     "Return the bytes that the algorithm reads and writes, each counted once."},
    {"rung", (PyCFunction)bench_rung, METH_NOARGS,
     "rung($self, /)\n--\n\n"
     "Return the name of the default rung: the best one, or a lower one that fits "
     "the\n"
     "device and the problem better."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef bench_getset[] = {
    {"device", (getter)bench_device, NULL, "The device's name.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* __extension__: ISO C has no function pointers in void pointers, which the C API requires. */
static PyType_Slot bench_slots[] = {
    {Py_tp_new, __extension__(void *) bench_new},
    {Py_tp_dealloc, __extension__(void *) bench_dealloc},
    {Py_tp_methods, bench_methods},
    {Py_tp_getset, bench_getset},
    {Py_tp_doc, "Workbench(family, array, op='sum', *, dtype=None, device=None)\n--\n\n"
                "Data on a device, on which rungs are run and timed: an array to reduce, or, as"
                "\nthe only argument, a problem as `call` accepts it."},
    {0, NULL},
};

static PyType_Spec bench_spec = {
    .name = "gpuopt._core.Workbench",
    .basicsize = sizeof(struct bench),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = bench_slots,
};

int py_bench_add(PyObject *module, struct py_state *state) {
    state->bench_type = PyType_FromModuleAndSpec(module, &bench_spec, NULL);
    return state->bench_type ? PyModule_AddObjectRef(module, "Workbench", state->bench_type) : -1;
}

/* py_front.c: Front: a public function around its Python function. It passes the arguments of an
 * ordinary call to the family's Entry (py_entry.c) at once: Python's own binding of sixteen
 * parameters takes longer than a planned call. All other calls, and their errors, are the Python
 * function's.
 */
#include "py_plan.h"

#include <stddef.h>
#include <string.h>
#include <structmember.h>

enum { PARAMETERS_MOST = 32 };
enum { HAVE_VECTORCALL = 1 << 11 }; /* Py_TPFLAGS_HAVE_VECTORCALL, public from Python 3.12 on */

typedef PyObject *(*vectorcall)(PyObject *self, PyObject *const *arguments, size_t flags,
                                PyObject *names);

struct front {
    PyObject_HEAD
    vectorcall call;
    PyObject *module, *function, *entry, *dict;
    int positional, parameters, count;
    struct parameter {
        PyObject *name; /* interned */
        int at;         /* of the entry's arguments; -1: the Python function's alone */
    } of[PARAMETERS_MOST];
    PyObject *defaults[PY_ENTRY_ARGUMENTS]; /* NULL: the caller must pass it */
};

/* --- calls */

/* The parameter of a name; -1: none, or a string that is equal but another object. */
static int parameter_of(const struct front *self, PyObject *name) {
    int k = 0;
    while (k < self->parameters && self->of[k].name != name)
        k++;
    return k < self->parameters ? self->of[k].at : -1;
}

/* Binds the arguments as the entry takes them; false for the Python function's calls. */
static bool bind(const struct front *self, PyObject *const *arguments, size_t count,
                 PyObject *names, PyObject **bound) {
    const Py_ssize_t named = names ? PyTuple_Size(names) : 0;
    uint64_t given = 0;
    memcpy(bound, self->defaults, (size_t)self->count * sizeof *bound);
    if (count > (size_t)self->positional)
        return false;
    for (size_t k = 0; k < count + (size_t)named; k++) {
        const int at = k < count
                           ? self->of[k].at
                           : parameter_of(self, PyTuple_GetItem(names, (Py_ssize_t)(k - count)));
        if (at < 0 || given >> at & 1)
            return false;
        given |= (uint64_t)1 << at;
        bound[at] = arguments[k];
    }
    for (int k = 0; k < self->count; k++) {
        int overflow = 0;
        if (bound[k] && PyLong_CheckExact(bound[k]))
            PyLong_AsLongLongAndOverflow(bound[k], &overflow);
        if (!bound[k] || overflow)
            return false;
    }
    return true;
}

/* Without vectorcall, which Python 3.11 does not offer to extensions for several versions. */
static PyObject *call_function(const struct front *self, PyObject *const *arguments, size_t count,
                               PyObject *names) {
    const Py_ssize_t named = names ? PyTuple_Size(names) : 0;
    PyObject *tuple = PyTuple_New((Py_ssize_t)count), *result = NULL;
    PyObject *keywords = named ? PyDict_New() : NULL;
    bool failed = !tuple || (named && !keywords);
    for (size_t k = 0; k < count && !failed; k++)
        failed = PyTuple_SetItem(tuple, (Py_ssize_t)k, Py_NewRef(arguments[k]));
    for (Py_ssize_t k = 0; k < named && !failed; k++)
        failed = PyDict_SetItem(keywords, PyTuple_GetItem(names, k), arguments[count + (size_t)k]);
    if (!failed)
        result = PyObject_Call(self->function, tuple, keywords);
    Py_XDECREF(tuple);
    Py_XDECREF(keywords);
    return result;
}

/* The Python function may run a call in parts that the device has no memory for. */
static PyObject *front_call(PyObject *object, PyObject *const *arguments, size_t flags,
                            PyObject *names) {
    const struct front *self = (const struct front *)object;
    const size_t count = flags & ~((size_t)1 << (8 * sizeof flags - 1));
    PyObject *bound[PY_ENTRY_ARGUMENTS];
    if (!bind(self, arguments, count, names, bound))
        return call_function(self, arguments, count, names);
    PyObject *result = py_entry_run(self->entry, bound, self->count);
    const struct py_state *state = py_state_of(self->module);
    if (result || !PyErr_ExceptionMatches(state->exceptions[STATUS_NO_DEVICE_MEMORY]))
        return result;
    PyErr_Clear();
    return call_function(self, arguments, count, names);
}

static PyObject *front_tp_call(struct front *self, PyObject *arguments, PyObject *keywords) {
    return PyObject_Call(self->function, arguments, keywords);
}

/* --- making them */

/* Adds a parameter; its default belongs to it unless it is NULL. */
static int add_parameter(struct front *self, PyObject *names, PyObject *name, PyObject *value) {
    struct parameter *parameter = &self->of[self->parameters];
    if (self->parameters == PARAMETERS_MOST || !PyUnicode_CheckExact(name)) {
        PyErr_SetString(PyExc_ValueError, "Front: the function has too many parameters");
        return -1;
    }
    parameter->name = Py_NewRef(name);
    PyUnicode_InternInPlace(&parameter->name);
    parameter->at = -1;
    self->parameters++;
    for (int k = 0; k < self->count; k++)
        if (PyUnicode_Compare(PyTuple_GetItem(names, k), name) == 0) {
            parameter->at = k;
            self->defaults[k] = Py_XNewRef(value);
        }
    return PyErr_Occurred() ? -1 : 0;
}

static int read_parameters(struct front *self, PyObject *names) {
    PyObject *code = PyObject_GetAttrString(self->function, "__code__");
    PyObject *all = code ? PyObject_GetAttrString(code, "co_varnames") : NULL;
    PyObject *count = code ? PyObject_GetAttrString(code, "co_argcount") : NULL;
    PyObject *others = code ? PyObject_GetAttrString(code, "co_kwonlyargcount") : NULL;
    PyObject *values = PyObject_GetAttrString(self->function, "__defaults__");
    PyObject *named = PyObject_GetAttrString(self->function, "__kwdefaults__");
    int failed = !all || !count || !others || !values || !named;
    if (!failed) {
        const Py_ssize_t valued = PyTuple_Check(values) ? PyTuple_Size(values) : 0;
        self->positional = (int)PyLong_AsLong(count);
        const Py_ssize_t last = self->positional + PyLong_AsLong(others);
        for (Py_ssize_t k = 0; k < last && !failed; k++) {
            PyObject *name = PyTuple_GetItem(all, k), *value = NULL;
            if (k >= self->positional)
                value = PyDict_Check(named) ? PyDict_GetItemWithError(named, name) : NULL;
            else if (k >= self->positional - valued)
                value = PyTuple_GetItem(values, k - self->positional + valued);
            failed = add_parameter(self, names, name, value);
        }
    }
    Py_XDECREF(code);
    Py_XDECREF(all);
    Py_XDECREF(count);
    Py_XDECREF(others);
    Py_XDECREF(values);
    Py_XDECREF(named);
    return failed ? -1 : 0;
}

/* Gives the front the function's name, docstring, signature and so on. */
static int resemble(PyObject *self, PyObject *function) {
    PyObject *functools = PyImport_ImportModule("functools");
    PyObject *done =
        functools ? PyObject_CallMethod(functools, "update_wrapper", "OO", self, function) : NULL;
    Py_XDECREF(functools);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

PyObject *py_front_new(PyObject *module, PyObject *entry, PyObject *function) {
    PyTypeObject *type = (PyTypeObject *)py_state_of(module)->front_type;
    PyObject *names = py_entry_names(entry);
    allocfunc allocate = __extension__(allocfunc) PyType_GetSlot(type, Py_tp_alloc);
    struct front *self = (struct front *)allocate(type, 0);
    if (!self)
        return NULL;
    self->call = front_call;
    self->module = Py_NewRef(module);
    self->function = Py_NewRef(function);
    self->entry = Py_NewRef(entry);
    self->count = (int)PyTuple_Size(names);
    if (read_parameters(self, names) || resemble((PyObject *)self, function))
        Py_CLEAR(self);
    return (PyObject *)self;
}

static int front_traverse(struct front *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE((PyObject *)self));
    Py_VISIT(self->module);
    Py_VISIT(self->function);
    Py_VISIT(self->entry);
    Py_VISIT(self->dict);
    for (int k = 0; k < self->count; k++)
        Py_VISIT(self->defaults[k]);
    return 0;
}

/* Keeps what a call reads: the cycle is broken at the dict and the entry's functions. */
static int front_clear(struct front *self) {
    Py_CLEAR(self->dict);
    return 0;
}

static void front_dealloc(struct front *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    const freefunc release = __extension__(freefunc) PyType_GetSlot(type, Py_tp_free);
    PyObject_GC_UnTrack(self);
    front_clear(self);
    for (int k = 0; k < self->parameters; k++)
        Py_XDECREF(self->of[k].name);
    for (int k = 0; k < self->count; k++)
        Py_XDECREF(self->defaults[k]);
    Py_XDECREF(self->entry);
    Py_XDECREF(self->function);
    Py_XDECREF(self->module);
    release(self);
    Py_DECREF(type);
}

static PyObject *front_repr(struct front *self) { return PyObject_Repr(self->function); }

/* As a class's attribute it is a method, like any function. */
static PyObject *front_get(PyObject *self, PyObject *object, PyObject *type) {
    (void)type;
    if (!object || object == Py_None)
        return Py_NewRef(self);
    PyObject *types = PyImport_ImportModule("types");
    PyObject *method = types ? PyObject_CallMethod(types, "MethodType", "OO", self, object) : NULL;
    Py_XDECREF(types);
    return method;
}

/* Pickled by its name. */
static PyObject *front_reduce(struct front *self, PyObject *nothing) {
    (void)nothing;
    return PyObject_GetAttrString(self->function, "__qualname__");
}

static PyMethodDef front_methods[] = {
    {"__reduce__", (PyCFunction)front_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef front_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(struct front, call), READONLY, NULL},
    {"__dictoffset__", T_PYSSIZET, offsetof(struct front, dict), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef front_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* __extension__: ISO C has no function pointers in void pointers, which the C API requires. */
static PyType_Slot front_slots[] = {
    {Py_tp_dealloc, __extension__(void *) front_dealloc},
    {Py_tp_traverse, __extension__(void *) front_traverse},
    {Py_tp_clear, __extension__(void *) front_clear},
    {Py_tp_call, __extension__(void *) front_tp_call},
    {Py_tp_repr, __extension__(void *) front_repr},
    {Py_tp_descr_get, __extension__(void *) front_get},
    {Py_tp_methods, front_methods},
    {Py_tp_members, front_members},
    {Py_tp_getset, front_getset},
    {0, NULL},
};

static PyType_Spec front_spec = {
    .name = "gpuopt._core.function",
    .basicsize = sizeof(struct front),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | HAVE_VECTORCALL |
             Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = front_slots,
};

int py_front_add(PyObject *module, struct py_state *state) {
    state->front_type = PyType_FromModuleAndSpec(module, &front_spec, NULL);
    return state->front_type ? 0 : -1;
}

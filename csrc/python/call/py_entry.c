/* py_entry.c: Entry: the way into a family's call. It describes the arguments by a key: layouts of
 * arrays, values of options. A cache maps keys to plans; a planner in Python makes the missing
 * ones. Calls that have no plan (lists, subclasses, arrays on devices) go to a general function.
 */
#include "py_plan.h"

#include <stdlib.h>
#include <string.h>

#define KINDS "aotdkw"

enum {
    SLOTS = 512, /* of a cache, in pairs */
    WORDS = 320, /* of a key */
    ARGUMENTS = PY_ENTRY_ARGUMENTS,
    TEXT_MOST = 64,     /* bytes of a string option */
    VALUES_MOST = 2048, /* bytes of a small array whose values belong to the key */
};

struct key {
    uint64_t words[WORDS];
    unsigned count;
    bool fails; /* the arguments have no key */
};

struct slot {
    uint64_t hash;
    uint64_t *words; /* NULL: empty */
    unsigned count;
    PyObject *plan; /* None: the call goes to the general function */
};

struct entry {
    PyObject_HEAD
    PyObject *module, *planner, *general, *viewer, *names;
    char kinds[ARGUMENTS + 1];
    struct slot slots[SLOTS];
};

/* --- keys */

static void put(struct key *key, uint64_t word) {
    if (key->count == WORDS)
        key->fails = true;
    else
        key->words[key->count++] = word;
}

/* Types without further settings: NumPy's numbers, and registered ones as bfloat16. */
static int is_plain_type(int number) {
    return PyTypeNum_ISNUMBER(number) || PyTypeNum_ISBOOL(number) || PyTypeNum_ISUSERDEF(number);
}

static void put_array(struct key *key, PyArrayObject *array) {
    const int axes = PyArray_NDIM(array), number = PyArray_TYPE(array);
    const npy_intp *shape = PyArray_DIMS(array), *strides = PyArray_STRIDES(array);
    if (!is_plain_type(number) || key->count + 2 * (unsigned)axes + 1 > WORDS) {
        key->fails = true;
        return;
    }
    key->words[key->count++] =
        'A' | (uint64_t)axes << 8 | (uint64_t)PyArray_ISALIGNED(array) << 16 |
        (uint64_t)PyArray_ISBYTESWAPPED(array) << 17 | (uint64_t)PyArray_ISWRITEABLE(array) << 18 |
        (uint64_t)(unsigned)number << 32;
    for (int k = 0; k < axes; k++) {
        key->words[key->count++] = (uint64_t)shape[k];
        key->words[key->count++] = (uint64_t)strides[k];
    }
}

/* The integers of a tuple. */
static void put_tuple(struct key *key, PyObject *tuple) {
    const Py_ssize_t count = PyTuple_Size(tuple);
    put(key, '(' | (uint64_t)count << 8);
    for (Py_ssize_t k = 0; k < count; k++)
        put(key, (uint64_t)PyLong_AsLongLong(PyTuple_GetItem(tuple, k)));
}

static void put_text(struct key *key, PyObject *text);

/* An array on a device. */
static void put_view(struct key *key, const struct py_view_items *view) {
    const PyArray_Descr *descr = (const PyArray_Descr *)view->dtype;
    const uint64_t item = PyArray_DescrCheck(view->dtype) ? (uint64_t)PyDataType_ELSIZE(descr) : 0;
    if (!item || !is_plain_type(descr->type_num) || view->address % item ||
        !PyTuple_CheckExact(view->shape) ||
        (view->strides != Py_None && !PyTuple_CheckExact(view->strides))) {
        key->fails = true;
        return;
    }
    put(key, 'V' | (uint64_t)(view->read_only != 0) << 8 | (uint64_t)(view->waits != 0) << 9 |
                 (uint64_t)(unsigned)descr->type_num << 32);
    put(key, (uint64_t)(uintptr_t)view->library); /* some have C order only */
    put_text(key, view->device);
    put_tuple(key, view->shape);
    if (view->strides != Py_None)
        put_tuple(key, view->strides);
    else
        put(key, 'C');
    if (PyErr_Occurred()) {
        PyErr_Clear();
        key->fails = true;
    }
}

static void put_integer(struct key *key, PyObject *value) {
    int overflow;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    key->fails |= overflow != 0;
    put(key, 'I');
    put(key, (uint64_t)number);
}

static void put_number(struct key *key, PyObject *value) {
    if (PyLong_CheckExact(value)) {
        put_integer(key, value);
    } else if (PyFloat_CheckExact(value)) {
        const double number = PyFloat_AsDouble(value);
        uint64_t bits;
        memcpy(&bits, &number, sizeof bits);
        put(key, 'D');
        put(key, bits);
    } else {
        key->fails = true;
    }
}

/* A small array on the host that a call on a device reads: its values are constants there. */
static void put_values(struct key *key, PyArrayObject *array) {
    uint64_t words[VALUES_MOST / 8] = {0};
    const size_t bytes = (size_t)PyArray_NBYTES(array);
    if (bytes > VALUES_MOST || !PyArray_IS_C_CONTIGUOUS(array)) {
        key->fails = true;
        return;
    }
    memcpy(words, PyArray_DATA(array), bytes);
    for (size_t k = 0; k < bytes; k += 8)
        put(key, words[k / 8]);
}

/* Likewise a list or a tuple of numbers; an integer's bits differ from the same float's. */
static void put_numbers(struct key *key, PyObject *sequence) {
    const bool list = PyList_CheckExact(sequence);
    const Py_ssize_t count = list ? PyList_Size(sequence) : PyTuple_Size(sequence);
    put(key, 'L' | (uint64_t)list << 8 | (uint64_t)count << 16);
    for (Py_ssize_t k = 0; k < count && !key->fails; k++)
        put_number(key, list ? PyList_GetItem(sequence, k) : PyTuple_GetItem(sequence, k));
}

/* A NumPy scalar: its dtype takes part in promotion. */
static void put_scalar(struct key *key, PyObject *value) {
    PyArray_Descr *descr = PyArray_DescrFromScalar(value);
    if (descr && is_plain_type(descr->type_num))
        put(key, 'G' | (uint64_t)(unsigned)descr->type_num << 32);
    else
        key->fails = true;
    if (!descr)
        PyErr_Clear();
    Py_XDECREF((PyObject *)descr);
}

/* An array, or a number, whose value does not belong to the key. */
static void put_operand(struct key *key, PyObject *value) {
    if (PyArray_CheckExact(value))
        put_array(key, (PyArrayObject *)value);
    else if (PyFloat_CheckExact(value))
        put(key, 'f');
    else if (PyLong_CheckExact(value))
        put(key, 'i');
    else if (value == Py_None)
        put(key, 'N');
    else if (PyArray_IsScalar(value, Generic))
        put_scalar(key, value);
    else
        key->fails = true;
}

static void put_text(struct key *key, PyObject *text) {
    Py_ssize_t length;
    const char *bytes = PyUnicode_AsUTF8AndSize(text, &length);
    uint64_t words[TEXT_MOST / 8] = {0};
    if (!bytes || length > TEXT_MOST) {
        PyErr_Clear();
        key->fails = true;
        return;
    }
    memcpy(words, bytes, (size_t)length);
    put(key, 'S' | (uint64_t)length << 8);
    for (Py_ssize_t k = 0; k < length; k += 8)
        put(key, words[k / 8]);
}

static void put_option(struct key *key, PyObject *value) {
    if (value == Py_None) {
        put(key, 'N');
    } else if (value == Py_Ellipsis) {
        put(key, 'E');
    } else if (PyBool_Check(value)) {
        put(key, value == Py_True ? 'T' : 'F');
    } else if (PyUnicode_Check(value)) { /* numpy.str_, too */
        put_text(key, value);
    } else if (PyTuple_CheckExact(value)) {
        const Py_ssize_t count = PyTuple_Size(value);
        put(key, '(' | (uint64_t)count << 8);
        for (Py_ssize_t k = 0; k < count && !key->fails; k++) {
            PyObject *each = PyTuple_GetItem(value, k);
            if (PyLong_CheckExact(each))
                put_integer(key, each);
            else
                key->fails = true;
        }
    } else {
        put_number(key, value);
    }
}

static void put_dtype(struct key *key, PyObject *value) {
    PyArray_Descr *descr = NULL;
    if (value == Py_None) {
        put(key, 'N');
        return;
    }
    if (PyUnicode_CheckExact(value)) { /* faster than its conversion */
        put_text(key, value);
        return;
    }
    if (!PyArray_DescrConverter(value, &descr) || !is_plain_type(descr->type_num)) {
        PyErr_Clear();
        key->fails = true;
    } else {
        put(key, 'Y' | (uint64_t)PyArray_ISNBO(descr->byteorder) << 8 |
                     (uint64_t)(unsigned)descr->type_num << 32);
    }
    Py_XDECREF((PyObject *)descr);
}

struct byte_range {
    const char *low, *high;
};

static struct byte_range extent_of(PyArrayObject *array) {
    struct byte_range extent = {PyArray_BYTES(array), PyArray_BYTES(array)};
    for (int k = 0; k < PyArray_NDIM(array); k++) {
        const npy_intp reach = (PyArray_DIM(array, k) - 1) * PyArray_STRIDE(array, k);
        if (PyArray_DIM(array, k) == 0)
            return (struct byte_range){extent.low, extent.low};
        if (reach < 0)
            extent.low += reach;
        else
            extent.high += reach;
    }
    extent.high += PyArray_ITEMSIZE(array);
    return extent;
}

/* An array for the result, and how it lies to the other arrays: apart, with the same first element,
 * or overlapping. */
static void put_out(struct key *key, PyObject *out, const char *kinds, PyObject *const *arguments) {
    if (out == Py_None) {
        put(key, 'N');
        return;
    }
    if (!PyArray_CheckExact(out)) {
        key->fails = true;
        return;
    }
    const struct byte_range mine = extent_of((PyArrayObject *)out);
    uint64_t relations = 'R';
    put_array(key, (PyArrayObject *)out);
    for (int k = 0; kinds[k]; k++) {
        if (kinds[k] != 'a' || !PyArray_CheckExact(arguments[k]))
            continue;
        const struct byte_range other = extent_of((PyArrayObject *)arguments[k]);
        const int overlaps = mine.low < other.high && other.low < mine.high;
        const int same =
            PyArray_BYTES((PyArrayObject *)out) == PyArray_BYTES((PyArrayObject *)arguments[k]);
        relations = relations << 2 | (unsigned)(overlaps ? 1 + !same : 0);
    }
    put(key, relations);
}

/* Replaces arrays on devices by their Views, which the caller releases; returns how many there are,
 * or -1 with an exception. */
static int look(const struct entry *self, struct py_state *state, PyObject **operands) {
    PyObject *before = NULL;
    int found = 0;
    for (int k = 0; self->kinds[k]; k++) {
        PyObject *value = operands[k];
        if ((self->kinds[k] != 'a' && self->kinds[k] != 'o') || value == Py_None ||
            PyArray_CheckExact(value) || PyFloat_CheckExact(value) || PyLong_CheckExact(value))
            continue;
        PyObject *view = py_known_view(state, value, before);
        if (view && !((struct py_view *)view)->items.address)
            Py_CLEAR(view); /* the viewer knows the reason */
        if (!view && !PyErr_Occurred())
            view = PyObject_CallFunctionObjArgs(self->viewer, value,
                                                PyTuple_GetItem(self->names, k), NULL);
        if (!view)
            return -1;
        if (view == Py_None) {
            Py_DECREF(view);
            continue;
        }
        operands[k] = before = view;
        found++;
    }
    return found;
}

static void describe(struct key *key, const struct py_state *state, const char *kinds,
                     PyObject *const *arguments, int views) {
    key->count = 0;
    key->fails = false;
    for (int k = 0; kinds[k] && !key->fails; k++)
        switch (kinds[k]) {
        case 'a':
        case 'w':
            if ((PyObject *)Py_TYPE(arguments[k]) == state->view_type)
                put_view(key, &((struct py_view *)arguments[k])->items);
            else if (kinds[k] == 'w' && views &&
                     (PyList_CheckExact(arguments[k]) || PyTuple_CheckExact(arguments[k])))
                put_numbers(key, arguments[k]);
            else
                put_operand(key, arguments[k]);
            if (kinds[k] == 'w' && views && PyArray_CheckExact(arguments[k]) && !key->fails)
                put_values(key, (PyArrayObject *)arguments[k]);
            break;
        case 'o':
            if ((PyObject *)Py_TYPE(arguments[k]) == state->view_type)
                put_view(key, &((struct py_view *)arguments[k])->items);
            else if (views && PyArray_CheckExact(arguments[k]))
                put_array(key, (PyArrayObject *)arguments[k]);
            else
                put_out(key, arguments[k], kinds, arguments);
            break;
        case 't':
            put_dtype(key, arguments[k]);
            break;
        case 'd': {
            /* Arrays on a device stay there. */
            const char *named = arguments[k] == Py_None && !views ? getenv("GPUOPT_DEVICE") : NULL;
            put_option(key, arguments[k]);
            if (named && strlen(named) < 8) {
                uint64_t word = 0;
                memcpy(&word, named, strlen(named));
                put(key, word);
            } else if (named) {
                key->fails = true;
            }
            break;
        }
        default:
            put_option(key, arguments[k]);
        }
}

static uint64_t hash_of(const struct key *key) {
    uint64_t hash = key->count;
    for (unsigned k = 0; k < key->count; k++) {
        hash = (hash ^ key->words[k]) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
    }
    return hash;
}

/* --- the cache */

/* Returns a new reference to the plan of a key, or NULL. */
static PyObject *kept_plan(struct entry *self, struct py_state *state, const struct key *key,
                           uint64_t hash) {
    struct slot *pair = &self->slots[hash % SLOTS & ~1u];
    PyObject *plan = NULL;
    pthread_mutex_lock(&state->guard);
    for (int k = 0; k < 2 && !plan; k++)
        if (pair[k].words && pair[k].hash == hash && pair[k].count == key->count &&
            memcmp(pair[k].words, key->words, key->count * sizeof *key->words) == 0)
            plan = Py_NewRef(pair[k].plan);
    pthread_mutex_unlock(&state->guard);
    return plan;
}

/* The later of the pair makes room; without memory the plan is not kept. */
static void keep(struct entry *self, struct py_state *state, const struct key *key, uint64_t hash,
                 PyObject *plan) {
    struct slot *pair = &self->slots[hash % SLOTS & ~1u];
    uint64_t *words = malloc(key->count * sizeof *words);
    if (!words)
        return;
    memcpy(words, key->words, key->count * sizeof *words);
    pthread_mutex_lock(&state->guard);
    const struct slot old = pair[1];
    if (pair[0].words)
        pair[1] = pair[0];
    pair[0].hash = hash;
    pair[0].words = words;
    pair[0].count = key->count;
    pair[0].plan = Py_NewRef(plan);
    const bool replaced = pair[1].words != old.words;
    pthread_mutex_unlock(&state->guard);
    if (replaced) {
        free(old.words);
        Py_XDECREF(old.plan);
    }
}

/* --- the type */

static PyObject *call(PyObject *function, PyObject *const *arguments, Py_ssize_t count) {
    PyObject *tuple = PyTuple_New(count), *result = NULL;
    for (Py_ssize_t k = 0; tuple && k < count; k++)
        PyTuple_SetItem(tuple, k, Py_NewRef(arguments[k]));
    if (tuple)
        result = PyObject_Call(function, tuple, NULL);
    Py_XDECREF(tuple);
    return result;
}

/* Makes the plan of a call; None if there is none. */
static PyObject *planned(struct entry *self, const struct py_state *state,
                         PyObject *const *arguments, Py_ssize_t count) {
    PyObject *plan = call(self->planner, arguments, count);
    if (plan && plan != Py_None && !py_is_plan(state, plan)) {
        PyErr_Format(PyExc_TypeError, "planner: must return a Plan or None, not %R", plan);
        Py_CLEAR(plan);
    }
    return plan;
}

/* Runs the call by its plan. NULL without an exception: the general function is to run it. */
static PyObject *run_planned(struct entry *self, PyObject *const *arguments,
                             PyObject *const *operands, int views) {
    struct py_state *state = py_state_of(self->module);
    const Py_ssize_t count = (Py_ssize_t)strlen(self->kinds);
    struct key key;
    describe(&key, state, self->kinds, operands, views);
    PyObject *plan = NULL;
    if (key.fails)
        return NULL;
    if (state->recorders) { /* may name a device */
        plan = planned(self, state, operands, count);
    } else {
        const uint64_t hash = hash_of(&key);
        plan = kept_plan(self, state, &key, hash);
        if (!plan && (plan = planned(self, state, operands, count)))
            keep(self, state, &key, hash, plan);
    }
    PyObject *result = plan && plan != Py_None ? py_plan_run(plan, arguments, operands) : NULL;
    Py_XDECREF(plan);
    return result;
}

static PyObject *entry_run(struct entry *self, PyObject *const *arguments, Py_ssize_t count) {
    PyObject *operands[ARGUMENTS], *result = NULL;
    if (count != (Py_ssize_t)strlen(self->kinds)) {
        PyErr_Format(PyExc_TypeError, "run() takes %zu arguments (%zd given)", strlen(self->kinds),
                     count);
        return NULL;
    }
    memcpy(operands, arguments, (size_t)count * sizeof *operands);
    const int views = look(self, py_state_of(self->module), operands);
    if (views >= 0)
        result = run_planned(self, arguments, operands, views);
    for (Py_ssize_t k = 0; k < count; k++)
        if (operands[k] != arguments[k])
            Py_DECREF(operands[k]);
    return result || PyErr_Occurred() ? result : call(self->general, arguments, count);
}

PyObject *py_entry_run(PyObject *entry, PyObject *const *arguments, Py_ssize_t count) {
    return entry_run((struct entry *)entry, arguments, count);
}

PyObject *py_entry_names(PyObject *entry) { return ((struct entry *)entry)->names; }

static PyObject *entry_front(struct entry *self, PyObject *function) {
    return py_front_new(self->module, (PyObject *)self, function);
}

static PyObject *entry_clear_cache(struct entry *self, PyObject *nothing) {
    (void)nothing;
    struct py_state *state = py_state_of(self->module);
    for (int k = 0; k < SLOTS; k++) {
        pthread_mutex_lock(&state->guard);
        const struct slot old = self->slots[k];
        self->slots[k] = (struct slot){0};
        pthread_mutex_unlock(&state->guard);
        free(old.words);
        Py_XDECREF(old.plan);
    }
    return Py_NewRef(Py_None);
}

static PyObject *entry_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    static char *keys[] = {"kinds", "names", "planner", "general", "viewer", NULL};
    const char *kinds;
    PyObject *names, *planner, *general, *viewer;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "sO!OOO", keys, &kinds, &PyTuple_Type,
                                     &names, &planner, &general, &viewer))
        return NULL;
    if (strlen(kinds) > ARGUMENTS || strspn(kinds, KINDS) != strlen(kinds) ||
        PyTuple_Size(names) != (Py_ssize_t)strlen(kinds)) {
        PyErr_SetString(PyExc_ValueError,
                        "kinds: must hold up to 12 of '" KINDS "', and a name for each");
        return NULL;
    }
    allocfunc allocate = __extension__(allocfunc) PyType_GetSlot(type, Py_tp_alloc);
    struct entry *self = (struct entry *)allocate(type, 0);
    if (!self)
        return NULL;
    self->module = Py_NewRef(PyType_GetModule(type));
    self->planner = Py_NewRef(planner);
    self->general = Py_NewRef(general);
    self->viewer = Py_NewRef(viewer);
    self->names = Py_NewRef(names);
    strcpy(self->kinds, kinds);
    return (PyObject *)self;
}

static int entry_traverse(struct entry *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE((PyObject *)self));
    Py_VISIT(self->module);
    Py_VISIT(self->planner);
    Py_VISIT(self->general);
    Py_VISIT(self->viewer);
    return 0;
}

static int entry_clear(struct entry *self) {
    Py_CLEAR(self->planner);
    Py_CLEAR(self->general);
    Py_CLEAR(self->viewer);
    return 0;
}

static void entry_dealloc(struct entry *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    const freefunc release = __extension__(freefunc) PyType_GetSlot(type, Py_tp_free);
    PyObject_GC_UnTrack(self);
    Py_XDECREF(entry_clear_cache(self, NULL));
    entry_clear(self);
    Py_XDECREF(self->names);
    Py_XDECREF(self->module);
    release(self);
    Py_DECREF(type);
}

static PyMethodDef entry_methods[] = {
    {"run", (PyCFunction)(void (*)(void))entry_run, METH_FASTCALL,
     "run($self, /, *arguments)\n--\n\nRun a call: by its plan, else by the general function."},
    {"front", (PyCFunction)entry_front, METH_O,
     "front($self, function, /)\n--\n\nReturn the public function around a Python function of "
     "these arguments."},
    {"clear_cache", (PyCFunction)entry_clear_cache, METH_NOARGS,
     "clear_cache($self, /)\n--\n\nForget all plans."},
    {NULL, NULL, 0, NULL},
};

/* __extension__: ISO C has no function pointers in void pointers, which the C API requires. */
static PyType_Slot entry_slots[] = {
    {Py_tp_new, __extension__(void *) entry_new},
    {Py_tp_dealloc, __extension__(void *) entry_dealloc},
    {Py_tp_traverse, __extension__(void *) entry_traverse},
    {Py_tp_clear, __extension__(void *) entry_clear},
    {Py_tp_methods, entry_methods},
    {Py_tp_doc,
     "Entry(kinds, names, planner, general, viewer)\n--\n\n"
     "A family's calls. kinds: a letter for each argument: 'a' an array or a number, 'w' an array\n"
     "whose values are constants on a device, 'o' out, 't' a dtype, 'd' a device, 'k' another\n"
     "option. viewer(value, name) returns the View of an array on a device, else None; planner "
     "and\n"
     "plans receive it instead. planner(*arguments) returns a Plan for all calls with these "
     "layouts\n"
     "and options, or None; general(*arguments) runs any call."},
    {0, NULL},
};

static PyType_Spec entry_spec = {
    .name = "gpuopt._core.Entry",
    .basicsize = sizeof(struct entry),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = entry_slots,
};

int py_entry_add(PyObject *module) {
    PyObject *type = PyType_FromModuleAndSpec(module, &entry_spec, NULL);
    const int failed = type ? PyModule_AddObjectRef(module, "Entry", type) : -1;
    Py_XDECREF(type);
    return failed;
}

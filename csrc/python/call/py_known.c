/* py_known.c: arrays on a device that a call recognises, and whose results it allocates, without
 * Python code: gpuopt's own, and those of types with DLPack's C exchange API.
 */
#include "py_plan.h"

#include <string.h>

#define WORDS(WORD) WORD(_view) WORD(requires_grad) WORD(is_neg) WORD(is_conj) WORD(new_empty)
enum word {
#define WORD(name) WORD_##name,
    WORDS(WORD) WORD_COUNT
#undef WORD
};

struct known {
    PyObject *type, *library, *dtypes;
    const struct dl_exchange *exchange; /* NULL: gpuopt's own type */
};

/* Entries are added, and never removed before the module is: readers need no lock. */
struct py_known {
    PyObject *words[WORD_COUNT];
    PyObject *own, *own_library;
    struct known types[PY_KNOWN_MOST];
    int count;
};

static int make_known(struct py_state *state) {
    static const char *const words[] = {
#define WORD(name) #name,
        WORDS(WORD)
#undef WORD
    };
    struct py_known *known = state->known ? NULL : PyMem_Calloc(1, sizeof *known);
    if (state->known)
        return 0;
    if (!known) {
        PyErr_NoMemory();
        return -1;
    }
    state->known = known;
    for (int k = 0; k < WORD_COUNT; k++)
        if (!(known->words[k] = PyUnicode_InternFromString(words[k])))
            return -1;
    return 0;
}

int py_known_traverse(const struct py_known *known, visitproc visit, void *arg) {
    for (int k = 0; known && k < known->count; k++) {
        Py_VISIT(known->types[k].type);
        Py_VISIT(known->types[k].library);
        Py_VISIT(known->types[k].dtypes);
    }
    return 0;
}

void py_known_clear(struct py_state *state) {
    struct py_known *known = state->known;
    state->known = NULL;
    for (int k = 0; known && k < WORD_COUNT; k++)
        Py_XDECREF(known->words[k]);
    for (int k = 0; known && k < known->count; k++) {
        Py_XDECREF(known->types[k].type);
        Py_XDECREF(known->types[k].library);
        Py_XDECREF(known->types[k].dtypes);
    }
    PyMem_Free(known);
}

/* know(type, library, dtypes=None) */
PyObject *py_know(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    struct py_state *state = py_state_of(module);
    if (count < 2 || count > 3 || !PyType_Check(arguments[0]) ||
        (count == 3 && !PyDict_Check(arguments[2]))) {
        PyErr_SetString(PyExc_TypeError, "know() takes a type, its library and a dict of dtypes");
        return NULL;
    }
    const struct dl_exchange *exchange = count == 3 ? py_exchange(arguments[0]) : NULL;
    if (PyErr_Occurred() || make_known(state))
        return NULL;
    struct py_known *known = state->known;
    if (known->count == PY_KNOWN_MOST || (count == 3 && !exchange))
        return Py_NewRef(Py_False);
    struct known *type = &known->types[known->count];
    *type = (struct known){Py_NewRef(arguments[0]), Py_NewRef(arguments[1]),
                           count == 3 ? Py_NewRef(arguments[2]) : NULL, exchange};
    if (!exchange) {
        known->own = type->type;
        known->own_library = type->library;
    }
    known->count++;
    return Py_NewRef(Py_True);
}

static const struct known *known_of(const struct py_known *known, PyObject *value) {
    PyObject *type = (PyObject *)Py_TYPE(value);
    for (int k = 0; known && k < known->count; k++)
        if (known->types[k].type == type)
            return &known->types[k];
    return NULL;
}

/* Whether an attribute, or a method's result, is false; -1 with an exception. */
static int is_false(PyObject *value, PyObject *name, bool calls) {
    PyObject *found =
        calls ? PyObject_CallMethodObjArgs(value, name, NULL) : PyObject_GetAttr(value, name);
    const int result = found ? !PyObject_IsTrue(found) : -1;
    Py_XDECREF(found);
    return result;
}

PyObject *py_known_view(struct py_state *state, PyObject *value) {
    const struct py_known *known = state->known;
    const struct known *type = known_of(known, value);
    if (!type)
        return NULL;
    if (!type->exchange)
        return PyObject_GetAttr(value, known->words[WORD__view]);
    /* DLPack does not report these; the caller raises with the reason. */
    if (is_false(value, known->words[WORD_requires_grad], false) <= 0 ||
        is_false(value, known->words[WORD_is_neg], true) <= 0)
        return NULL;
    PyObject *view = py_exchange_view(state, type->exchange, value, type->library, type->dtypes);
    const PyArray_Descr *dtype =
        view ? (const PyArray_Descr *)((struct py_view *)view)->items.dtype : NULL;
    if (dtype && PyTypeNum_ISCOMPLEX(dtype->type_num) &&
        is_false(value, known->words[WORD_is_conj], true) <= 0)
        Py_CLEAR(view);
    return view;
}

/* borrow(value): its View, or None if the caller has to describe it. */
PyObject *py_borrow(PyObject *module, PyObject *value) {
    PyObject *view = py_known_view(py_state_of(module), value);
    return view || PyErr_Occurred() ? view : Py_NewRef(Py_None);
}

bool py_known_is_own(const struct py_state *state, PyObject *library) {
    return state->known && state->known->own_library == library;
}

static PyObject *new_own(struct py_state *state, const struct py_new *given,
                         struct py_view_items *to) {
    const struct py_known *known = state->known;
    PyTypeObject *type = (PyTypeObject *)known->own;
    allocfunc allocate = __extension__(allocfunc) PyType_GetSlot(type, Py_tp_alloc);
    PyObject *memory = py_memory_make(state, given->target->kind, given->target->which,
                                      given->bytes, &to->address);
    to->holder = memory;
    to->stream = PY_LEGACY;
    PyObject *view = memory ? py_view_new(state, to) : NULL;
    PyObject *made = view ? allocate(type, 0) : NULL;
    if (made && PyObject_SetAttr(made, known->words[WORD__view], view))
        Py_CLEAR(made);
    Py_XDECREF(view);
    Py_XDECREF(memory);
    return made;
}

PyObject *py_known_new(struct py_state *state, const struct py_view_items *first,
                       const struct py_new *given, struct py_view_items *to) {
    const struct py_known *known = state->known;
    *to = (struct py_view_items){.library = first->library,
                                 .shape = given->shape,
                                 .strides = Py_None,
                                 .dtype = given->dtype,
                                 .device = first->device,
                                 .stream = first->stream};
    if (py_known_is_own(state, first->library))
        return new_own(state, given, to);
    const struct known *type = known_of(known, first->holder);
    if (!type || !type->exchange || type->library != first->library ||
        !PyArray_EquivTypes((PyArray_Descr *)first->dtype, (PyArray_Descr *)given->dtype))
        return NULL;
    PyObject *made =
        PyObject_CallMethodObjArgs(first->holder, known->words[WORD_new_empty], given->shape, NULL);
    if (made &&
        (known_of(known, made) != type || py_exchange_address(type->exchange, made, &to->address)))
        Py_CLEAR(made);
    return made;
}

/* py_errors.c: status.def as Python exceptions. */
#include "py_core.h"

int py_errors_add(PyObject *module, struct py_state *state) {
#define STATUS_BUILTIN(code, text, exception) \
    state->exceptions[STATUS_##code] = Py_NewRef(PyExc_##exception);
#define STATUS_OWN(code, text, exception, base)
#include "../status.def"
#undef STATUS_BUILTIN
#undef STATUS_OWN
    /* An own exception's base is Python's, or an own one of an earlier row. */
    const struct {
        enum status code;
        const char *name, *full_name, *text, *base;
    } own[] = {
#define STATUS_BUILTIN(code, text, exception)
#define STATUS_OWN(code, text, exception, base) \
    {STATUS_##code, #exception, "gpuopt." #exception, text, #base},
#include "../status.def"
#undef STATUS_BUILTIN
#undef STATUS_OWN
    };
    PyObject *builtins = PyImport_ImportModule("builtins");
    if (!builtins)
        return -1;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        PyObject *base = PyObject_HasAttrString(module, own[i].base)
                             ? PyObject_GetAttrString(module, own[i].base)
                             : PyObject_GetAttrString(builtins, own[i].base);
        if (!base)
            break;
        PyObject *type = PyErr_NewExceptionWithDoc(own[i].full_name, own[i].text, base, NULL);
        Py_DECREF(base);
        state->exceptions[own[i].code] = type;
        if (!type || PyModule_AddObjectRef(module, own[i].name, type))
            break;
    }
    Py_DECREF(builtins);
    return PyErr_Occurred() ? -1 : 0;
}

PyObject *py_raise(const struct py_state *state, enum status status) {
    const struct status_record *record = status_last();
    PyObject *type = state->exceptions[status];
    if (status == STATUS_INTERRUPTED && PyErr_Occurred())
        return NULL; /* the signal's own exception */
    if (status != STATUS_NO_DEVICE_MEMORY) {
        PyErr_SetString(type, record->text);
        return NULL;
    }
    PyObject *error = PyObject_CallFunction(type, "s", record->text);
    PyObject *asked = PyLong_FromUnsignedLongLong(record->bytes_asked);
    PyObject *left = PyLong_FromUnsignedLongLong(record->bytes_free);
    if (error && asked && left && !PyObject_SetAttrString(error, "bytes_asked", asked) &&
        !PyObject_SetAttrString(error, "bytes_free", left))
        PyErr_SetObject(type, error);
    Py_XDECREF(error);
    Py_XDECREF(asked);
    Py_XDECREF(left);
    return NULL;
}

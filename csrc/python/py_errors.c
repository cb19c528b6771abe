/* py_errors.c: the codes of status.def as Python exceptions. Knows no device. */
#include "py_core.h"

#include <string.h>

/* The end of each own exception's docstring. */
#define EXAMPLE_DeviceError                                                      \
    ">>> try:\n"                                                                 \
    "...     gpuopt.reduce([1, 2], device=\"cuda:99\")\n"                        \
    "... except (gpuopt.DeviceError, ValueError):  # no driver, or fewer GPUs\n" \
    "...     print(gpuopt.reduce([1, 2], device=\"cpu\"))\n"                     \
    "3\n"

#define EXAMPLE_DeviceLost                                                                  \
    ">>> issubclass(gpuopt.DeviceLost, gpuopt.DeviceError)  # every later call raises it\n" \
    "True\n"

#define EXAMPLE_DeviceMemoryError                                                              \
    ">>> ptx = \".version 8.0 .target sm_75 .address_size 64 .visible .entry k() { ret; }\"\n" \
    ">>> try:\n"                                                                               \
    "...     gpuopt.load_ptx(ptx, device=\"sim\").empty(1 << 60)\n"                            \
    "... except gpuopt.DeviceMemoryError as error:\n"                                          \
    "...     print(error.bytes_asked > error.bytes_free)\n"                                    \
    "True\n"

#define EXAMPLE_PTXError                                                                \
    ">>> try:\n"                                                                        \
    "...     gpuopt.load_ptx(\".version 8.0\\n.target sm_75\\n.visible .entry k( {\", " \
    "device=\"sim\")\n"                                                                 \
    "... except gpuopt.PTXError as error:\n"                                            \
    "...     print(error.line)\n"                                                       \
    "3\n"

#define EXAMPLE_UnfitError                                                                     \
    ">>> import numpy as np\n"                                                                 \
    ">>> try:\n"                                                                               \
    "...     gpuopt.add(np.ones(2000), np.ones(2000), variant=3, device=\"sim\")\n"            \
    "... except gpuopt.UnfitError as error:  # a ValueError\n"                                 \
    "...     print(str(error).split(\";\")[0])\n"                                              \
    "variant: rung 'threads' has one block, of at most 1024 threads, and cannot process 2000 " \
    "elements\n"

#define EXAMPLE_SimError                                                                   \
    ">>> import numpy as np\n"                                                             \
    ">>> try:\n"                                                                           \
    "...     gpuopt.reduce(np.arange(1000.0), variant=\"5-historical\", device=\"sim\")\n" \
    "... except gpuopt.SimError as error:\n"                                               \
    "...     print(\"race\" in str(error))\n"                                              \
    "True\n"

int py_errors_add(PyObject *module, struct py_state *state) {
#define STATUS_BUILTIN(code, text, exception) \
    state->exceptions[STATUS_##code] = Py_NewRef(PyExc_##exception);
#define STATUS_OWN(code, text, exception, base)
#include "../status.def"
#undef STATUS_BUILTIN
#undef STATUS_OWN
    /* The base of an own exception is Python's, or an own one of an earlier row. */
    const struct {
        enum status code;
        const char *name, *full_name, *text, *base;
    } own[] = {
#define STATUS_BUILTIN(code, text, exception)
#define STATUS_OWN(code, text, exception, base)       \
    {STATUS_##code, #exception, "gpuopt." #exception, \
     text "\n\nExamples\n--------\n>>> import gpuopt\n" EXAMPLE_##exception, #base},
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

/* The exception's attributes as a dict (NULL: out of memory); 0: none. */
static int attributes_of(enum status status, const struct status_record *record,
                         PyObject **attributes) {
    const struct status_finding *found = &record->finding;
    const char *names[] = {"kind", "kernel", "file", "source_line", "block", "thread", "address"};
    switch (status) {
    case STATUS_NO_DEVICE_MEMORY:
        *attributes =
            Py_BuildValue("{s:K, s:K}", "bytes_asked", (unsigned long long)record->bytes_asked,
                          "bytes_free", (unsigned long long)record->bytes_free);
        return 1;
    case STATUS_PTX_ERROR:
        *attributes = Py_BuildValue("{s:I, s:I}", "line", record->line, "column", record->column);
        return 1;
    case STATUS_SIM_ERROR:
        if (found->kind) {
            *attributes = Py_BuildValue(
                "{s:s, s:s, s:z, s:I, s:(III), s:(III), s:K}", names[0], found->kind, names[1],
                found->kernel, names[2], found->file, names[3],
                found->file ? found->line : found->ptx_line, names[4], found->block[0],
                found->block[1], found->block[2], names[5], found->thread[0], found->thread[1],
                found->thread[2], names[6], (unsigned long long)found->address);
            return 1;
        }
        *attributes = PyDict_New();
        for (size_t i = 0; *attributes && i < sizeof names / sizeof *names; i++)
            if (PyDict_SetItemString(*attributes, names[i], Py_None))
                Py_CLEAR(*attributes);
        return 1;
    default:
        return 0;
    }
}

const char *py_text(PyObject *value, const char *argument) {
    if (!PyUnicode_Check(value)) {
        PyErr_Format(PyExc_TypeError, "%s: must be a string, not %R", argument, value);
        return NULL;
    }
    Py_ssize_t length;
    const char *text = PyUnicode_AsUTF8AndSize(value, &length);
    if (!text && PyErr_ExceptionMatches(PyExc_UnicodeError))
        PyErr_Format(PyExc_ValueError, "%s: %R holds half of a surrogate pair", argument, value);
    if (text && strlen(text) != (size_t)length) {
        PyErr_Format(PyExc_ValueError, "%s: %R holds a NUL character; leave it out", argument,
                     value);
        return NULL;
    }
    return text;
}

void py_name_argument(const char *argument) {
    PyObject *kinds[] = {PyExc_OverflowError, PyExc_TypeError, PyExc_ValueError,
                         PyExc_RuntimeError};
    PyObject *type, *value, *traceback;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!PyErr_ExceptionMatches(kinds[i]))
            continue;
        PyErr_Fetch(&type, &value, &traceback);
        PyErr_NormalizeException(&type, &value, &traceback);
        PyErr_Format(kinds[i], "%s: %S", argument, value);
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
        return;
    }
}

void py_suggest(void) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *names = PyImport_ImportModule("gpuopt.util.names");
    PyObject *plain = names ? PyObject_Str(value) : NULL;
    PyObject *text = plain ? PyObject_CallMethod(names, "suggested", "O", plain) : NULL;
    if (text) {
        PyErr_SetObject(type, text);
        Py_CLEAR(type);
        Py_CLEAR(value);
        Py_CLEAR(traceback);
    } else { /* as it was */
        PyErr_Restore(type, value, traceback);
    }
    Py_XDECREF(text);
    Py_XDECREF(plain);
    Py_XDECREF(names);
}

PyObject *py_raise(const struct py_state *state, enum status status) {
    const struct status_record *record = status_last();
    PyObject *type = state->exceptions[status];
    if (status == STATUS_INTERRUPTED && PyErr_Occurred())
        return NULL; /* the signal's own exception */
    PyObject *attributes = NULL;
    /* The text may cut a name within a character. */
    PyObject *text =
        PyUnicode_DecodeUTF8(record->text, (Py_ssize_t)strlen(record->text), "backslashreplace");
    if (!text)
        return NULL;
    if (!attributes_of(status, record, &attributes)) {
        PyErr_SetObject(type, text);
        Py_DECREF(text);
        if (status == STATUS_BAD_VALUE)
            py_suggest();
        return NULL;
    }
    PyObject *error = attributes ? PyObject_CallFunctionObjArgs(type, text, NULL) : NULL;
    Py_DECREF(text);
    PyObject *name, *value;
    Py_ssize_t at = 0;
    int set = !!error;
    while (set && PyDict_Next(attributes, &at, &name, &value))
        set = !PyObject_SetAttr(error, name, value);
    if (set)
        PyErr_SetObject(type, error);
    Py_XDECREF(error);
    Py_XDECREF(attributes);
    return NULL;
}

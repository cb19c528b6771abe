/* py_arguments.c: arguments without a tuple, a dict or a format string: a call takes tens of
 * nanoseconds here, where PyArg_ParseTupleAndKeywords would take hundreds.
 */
#include "py_core.h"

#include <string.h>

static int keyword_index(PyObject *keyword, const char *const *names, size_t count) {
    const char *text = PyUnicode_AsUTF8AndSize(keyword, NULL);
    if (!text)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (strcmp(text, names[i]) == 0)
            return (int)i;
    return -1;
}

int py_arguments(const char *function, const char *const *names, size_t count, size_t positional,
                 size_t required, PyObject *const *given, Py_ssize_t given_count, PyObject *keywords,
                 PyObject **values) {
    memset(values, 0, count * sizeof *values);
    if ((size_t)given_count > positional) {
        PyErr_Format(PyExc_TypeError, "%s() takes at most %zu positional arguments (%zd given)",
                     function, positional, given_count);
        return -1;
    }
    for (Py_ssize_t i = 0; i < given_count; i++)
        values[i] = given[i];
    const Py_ssize_t keyword_count = keywords ? PyTuple_Size(keywords) : 0;
    for (Py_ssize_t i = 0; i < keyword_count; i++) {
        PyObject *keyword = PyTuple_GetItem(keywords, i);
        const int index = keyword_index(keyword, names, count);
        if (index < 0 && PyErr_Occurred())
            return -1;
        if (index < 0) {
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", function,
                         keyword);
            return -1;
        }
        if (values[index]) {
            PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%s'", function,
                         names[index]);
            return -1;
        }
        values[index] = given[given_count + i];
    }
    for (size_t i = 0; i < required; i++)
        if (!values[i]) {
            PyErr_Format(PyExc_TypeError, "%s() missing required argument: '%s'", function, names[i]);
            return -1;
        }
    return 0;
}

const char *py_text(PyObject *value, const char *argument) {
    if (!PyUnicode_Check(value)) {
        PyErr_Format(PyExc_TypeError, "%s: must be a string, not %R", argument, value);
        return NULL;
    }
    return PyUnicode_AsUTF8AndSize(value, NULL);
}

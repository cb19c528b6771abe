/* py_tuning.c: the planners' constants by name: what a sweep may try, and what it tries. */
#include "py_core.h"

#include <string.h>

/* The family's rows, as dicts. */
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

/* Raises ValueError with what there is: names, or the values of a row. */
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
                     family, length ? list : "none: it has no such");
    return -1;
}

/* A value of a row, which must be one of those that it lists. */
static int read_value(PyObject *given, const char *family, const struct ops_tuning_row *row,
                      uint64_t *value) {
    const unsigned long long number = PyLong_Check(given) ? PyLong_AsUnsignedLongLong(given) : 0;
    const int known = PyLong_Check(given) && !PyErr_Occurred();
    PyErr_Clear(); /* too large, or negative: no value of any row */
    for (size_t k = 0; known && k < row->tried_count; k++)
        if (row->tried[k] == number) {
            *value = number;
            return 0;
        }
    return refuse(given, family, row);
}

int py_tuning(PyObject *given, const char *family, struct ops_tuning *tuning) {
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

/* py_rules.c: NumPy's rules: which dtype a reduction computes in and returns. numpy_rules.def has
 * the defaults; `dtype=` replaces them, and `out=` takes part. Runs nothing.
 */
#include "../py_core.h"

#include <string.h>

const struct py_rule py_rules[PY_RULE_COUNT] = {
#define RULE(name, ufunc, identity, kinds, b, i, u, f, c, dtype, initial) \
    {#name, ufunc, identity, kinds, {b, i, u, f, c}, dtype, initial},
#include "../numpy_rules.def"
};

static const char all_kinds[] = "biufc";

PyObject *py_rules_list(PyObject *module, PyObject *nothing) {
    (void)module, (void)nothing;
    PyObject *list = PyList_New(0);
    for (int k = 0; list && k < PY_RULE_COUNT; k++) {
        const struct py_rule *rule = &py_rules[k];
        PyObject *row = Py_BuildValue(
            "{s:s,s:s,s:s,s:s,s:(sssss),s:O,s:O}", "name", rule->name, "ufunc", rule->ufunc,
            "identity", rule->identity, "kinds", rule->kinds, "results", rule->results[0],
            rule->results[1], rule->results[2], rule->results[3], rule->results[4], "dtype",
            rule->dtype ? Py_True : Py_False, "initial", rule->initial ? Py_True : Py_False);
        if (!row || PyList_Append(list, row))
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

/* bfloat16, of no kind of NumPy's, is a floating-point type. */
static char kind_of(const PyArray_Descr *descr) { return descr->kind == 'V' ? 'f' : descr->kind; }

/* NumPy's default; a new reference. */
static PyArray_Descr *default_of(const struct py_rule *rule, PyArray_Descr *given) {
    const char *at = strchr(all_kinds, kind_of(given));
    const char *name = at && *at ? rule->results[at - all_kinds] : "";
    enum dtype dtype;
    if (*name && py_dtype_named(name, &dtype) == 0)
        return py_descr(dtype);
    Py_INCREF((PyObject *)given);
    return given;
}

/* The dtype in which NumPy combines elements with an array that receives the result: bfloat16
 * counts as float32. */
static PyArray_Descr *promoted(PyArray_Descr *given, PyArray_Descr *out) {
    if (PyArray_EquivTypes(given, out)) {
        Py_INCREF((PyObject *)given);
        return given;
    }
    PyArray_Descr *wide = PyArray_DescrFromType(NPY_FLOAT32);
    PyArray_Descr *both = wide ? PyArray_PromoteTypes(given->kind == 'V' ? wide : given,
                                                      out->kind == 'V' ? wide : out)
                               : NULL;
    Py_XDECREF((PyObject *)wide);
    return both;
}

/* Sums and products of integers are computed in out's dtype, the bitwise ones in their own; all
 * others as NumPy promotes both. */
static PyArray_Descr *for_out(const struct py_rule *rule, PyArray_Descr *given,
                              PyArray_Descr *out) {
    const bool integers = strchr("biu", kind_of(given)) && strchr("iu", kind_of(out));
    if (integers && *rule->ufunc) {
        PyArray_Descr *found =
            rule == &py_rules[PY_OP_sum] || rule == &py_rules[PY_OP_prod] ? out : given;
        Py_INCREF((PyObject *)found);
        return found;
    }
    if (*rule->ufunc)
        return promoted(given, out);
    PyArray_Descr *base = default_of(rule, given); /* of a mean */
    PyArray_Descr *both = base ? promoted(base, out) : NULL;
    Py_XDECREF((PyObject *)base);
    return both;
}

PyObject *py_result_descr(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    (void)module;
    const char *op = count == 4 ? py_text(arguments[0], "op") : NULL;
    if (!op || !PyArray_DescrCheck(arguments[1])) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "result_dtype() takes op and three dtypes");
        return NULL;
    }
    PyArray_Descr *given = (PyArray_Descr *)arguments[1];
    const struct py_rule *rule = py_rules;
    while (rule < py_rules + PY_RULE_COUNT && strcmp(rule->name, op) != 0)
        rule++;
    if (rule == py_rules + PY_RULE_COUNT) {
        PyErr_Format(PyExc_ValueError, "op: %R is not an operation", arguments[0]);
        return NULL;
    }
    if (!rule->dtype && py_given(arguments[2])) {
        PyErr_Format(PyExc_ValueError, "dtype: op=%R has a result of its own; leave dtype out",
                     arguments[0]);
        return NULL;
    }
    if (py_given(arguments[2]))
        return Py_NewRef(arguments[2]);
    return (PyObject *)(rule->dtype && py_given(arguments[3])
                            ? for_out(rule, given, (PyArray_Descr *)arguments[3])
                            : default_of(rule, given));
}

/* The dtype that `dtype=` names, if gpuopt has it. */
static PyArray_Descr *named(PyObject *dtype) {
    PyArray_Descr *descr = NULL;
    enum dtype known;
    if (!PyArray_DescrConverter(dtype, &descr)) {
        if (PyErr_ExceptionMatches(PyExc_TypeError))
            PyErr_Format(PyExc_TypeError, "dtype: %R is not a dtype; use a name, as 'float32'",
                         dtype);
        return NULL;
    }
    if (!PyArray_ISNBO(descr->byteorder))
        PyErr_Format(PyExc_TypeError,
                     "dtype: %R is in a foreign byte order, but results are in the machine's",
                     dtype);
    else if (!py_dtype_of(descr, &known))
        PyErr_Format(PyExc_TypeError,
                     "dtype: %S is not supported; use bool, an integer type, float16, bfloat16, "
                     "float32, float64, complex64 or complex128",
                     descr);
    else
        return descr;
    Py_DECREF((PyObject *)descr);
    return NULL;
}

int py_result_dtype(enum py_operation operation, enum dtype given, PyObject *dtype, PyObject *out,
                    enum dtype *result) {
    PyArray_Descr *items = py_descr(given), *found = NULL;
    PyArray_Descr *to = py_given(out) ? PyArray_DESCR((PyArrayObject *)out) : NULL;
    enum dtype stored;
    if (!items)
        return -1;
    if (py_given(dtype))
        found = named(dtype);
    else if (to && !py_dtype_of(to, &stored))
        PyErr_Format(PyExc_TypeError,
                     "out: dtype %S is not supported; name another to compute in with dtype=", to);
    else
        found =
            to ? for_out(&py_rules[operation], items, to) : default_of(&py_rules[operation], items);
    const int known = found && py_dtype_of(found, result);
    Py_DECREF((PyObject *)items);
    Py_XDECREF((PyObject *)found);
    return known ? 0 : -1;
}

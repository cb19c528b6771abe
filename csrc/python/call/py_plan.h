/* py_plan.h: plans of calls, which py_entry.c caches and runs. */
#ifndef GPUOPT_PY_PLAN_H
#define GPUOPT_PY_PLAN_H

#include "../py_core.h"

enum { PY_SMALL_BYTES = 1 << 16 }; /* calls on the host this small keep the GIL */

/* Runs a plan on the arguments of a call; in `operands` the arrays on devices are Views. Returns
 * NULL without an exception if the general function has to run instead: a number does not fit the
 * arrays' type, or an array on a device has another layout. */
PyObject *py_plan_run(PyObject *plan, PyObject *const *arguments, PyObject *const *operands);
int py_is_plan(const struct py_state *state, PyObject *object);

union py_number {
    int32_t int32;
    int64_t int64;
    float float32;
    double float64;
    uint64_t bits;
};
/* py_number.c: returns whether a Python number fits the dtype; a float rounds to nearest. */
int py_number_read(PyObject *value, enum dtype dtype, union py_number *number);

/* py_entry.c */
enum { PY_ENTRY_ARGUMENTS = 12 };
PyObject *py_entry_run(PyObject *entry, PyObject *const *arguments, Py_ssize_t count);
PyObject *py_entry_names(PyObject *entry); /* a tuple, borrowed */

/* py_front.c */
PyObject *py_front_new(PyObject *module, PyObject *entry, PyObject *function);

/* py_known.c: arrays that are recognised and allocated without Python code. */
/* A new View, or NULL: with an exception, or because Python is to describe the object. `before`:
 * the View of another array of the call, or NULL. */
PyObject *py_known_view(struct py_state *state, PyObject *value, PyObject *before);
bool py_known_is_own(const struct py_state *state, PyObject *library);
struct py_new {
    PyObject *shape, *steps, *dtype; /* steps: the strides of C order, in elements */
    size_t bytes;
    const struct py_target *target;
};
/* A new array of the same library beside another one, and its description with borrowed
 * references. NULL as above. */
PyObject *py_known_new(struct py_state *state, const struct py_view_items *first,
                       const struct py_new *given, struct py_view_items *to);
/* Tells an array's library that it is written; 1 if Python is to do so, -1 with an exception. */
int py_known_write(struct py_state *state, PyObject *out);

/* py_whole.c: the plan of a reduction of a whole array of the host. */
struct py_whole {
    enum py_operation operation;
    enum dtype given, result;
    struct py_target target;
};
/* fields: (head, whether elements may be converted, variant, block, device). */
int py_whole_new(struct py_state *state, PyObject *fields, struct py_whole *whole);
/* Whether these are gpuopt.reduce's arguments up to `initial`. */
bool py_whole_reads(PyObject *const *arguments, Py_ssize_t count);
PyObject *py_whole_run(const struct py_whole *whole, struct py_state *state,
                       PyObject *const *arguments);

/* py_there.c: the plan of a call on arrays of a device. */
struct py_there;
struct py_there *py_there_new(struct py_state *state, PyObject *fields);
void py_there_free(struct py_there *there);
/* Whether the arguments are the Views (or the array on the host) that the plan reads and writes. */
bool py_there_reads(const struct py_there *there, const struct py_state *state,
                    PyObject *const *arguments, Py_ssize_t count);
PyObject *py_there_run(const struct py_there *there, struct py_state *state,
                       PyObject *const *arguments, PyObject *const *operands);

#endif

/* py_plan.h: plans of calls, which py_entry.c caches and runs. */
#ifndef GPUOPT_PY_PLAN_H
#define GPUOPT_PY_PLAN_H

#include "../py_core.h"

/* Runs a plan on the arguments of a call. Returns NULL without an exception if a number does not
 * fit the type of the arrays: the general function raises the error. */
PyObject *py_plan_run(PyObject *plan, PyObject *const *arguments);
int py_is_plan(const struct py_state *state, PyObject *object);

#endif

/* py_plan.h: plans of calls, which py_entry.c caches and runs. */
#ifndef GPUOPT_PY_PLAN_H
#define GPUOPT_PY_PLAN_H

#include "../py_core.h"

/* Runs a plan on the arguments of a call; in `operands` the arrays on devices are Views. Returns
 * NULL without an exception if a number does not fit the type of the arrays, or arrays on a device
 * lie otherwise: the general function is to run. */
PyObject *py_plan_run(PyObject *plan, PyObject *const *arguments, PyObject *const *operands);
int py_is_plan(const struct py_state *state, PyObject *object);

#endif

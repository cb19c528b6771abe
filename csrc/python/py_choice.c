/* py_choice.c: derives device, rung and signature from a call's arguments, or raises an error that
 * lists the valid ones. Runs nothing.
 */
#include "py_core.h"

#include <stdlib.h>
#include <string.h>

int py_operation(PyObject *op, enum py_operation *operation) {
    const char *text = op ? py_text(op, "op") : "sum";
    if (!text)
        return -1;
    for (int i = 0; i < PY_OP_COUNT; i++)
        if (strcmp(text, py_rules[i].name) == 0) {
            *operation = (enum py_operation)i;
            return 0;
        }
    PyErr_Format(
        PyExc_ValueError,
        "op: %R is not an operation; use 'sum', 'prod', 'min', 'max', 'and', 'or', 'xor', 'mean', "
        "'any', 'all', 'count', 'argmin' or 'argmax'",
        op);
    py_suggest();
    return -1;
}

/* --- dtypes */

static char kind_of(enum dtype dtype) {
    return dtype == DTYPE_bool      ? 'b'
           : dtype <= DTYPE_int64   ? 'i'
           : dtype <= DTYPE_uint64  ? 'u'
           : dtype <= DTYPE_float64 ? 'f'
                                    : 'c';
}

static int is_integer(enum dtype dtype) { return dtype <= DTYPE_uint64; }

enum py_operation py_effective_operation(enum py_operation operation, enum dtype given,
                                         enum dtype result) {
    if (result == DTYPE_bool)
        switch (operation) {
        case PY_OP_sum:
        case PY_OP_max:
            return PY_OP_or;
        case PY_OP_prod:
        case PY_OP_min:
            return PY_OP_and;
        default:
            return operation;
        }
    return operation == PY_OP_prod && given == DTYPE_bool && is_integer(result) ? PY_OP_and
                                                                                : operation;
}

/* Whether a signature's accumulator produces NumPy's values in `result`: integers wrap alike at
 * every width; floats may accumulate wider than requested, but must not read elements as a wider
 * type. */
static int serves(const struct reg_signature *signature, enum dtype items, enum dtype result) {
    const enum dtype accumulator = signature->accumulator;
    if (signature->items != items)
        return 0;
    if (accumulator == result)
        return 1;
    if (strcmp(signature->op, "and") == 0) /* the product of bools */
        return items == DTYPE_bool && is_integer(result);
    if (strcmp(signature->op, "sum") == 0 || strcmp(signature->op, "prod") == 0 ||
        strcmp(signature->op, "weighted") == 0) {
        if (is_integer(accumulator) && is_integer(result))
            return result != DTYPE_bool && dtype_size(accumulator) >= dtype_size(result);
        return kind_of(accumulator) == kind_of(result) && kind_of(items) == kind_of(result) &&
               dtype_size(accumulator) >= dtype_size(result) &&
               dtype_size(result) >= dtype_size(items);
    }
    return result == items; /* float16 compared as float32 */
}

/* Finds the rung's signature for the array's dtype or, failing that, for the dtype that the caller
 * named. */
static const struct reg_signature *find_signature(const struct py_problem *problem,
                                                  const struct reg_rung *rung, enum dtype *items) {
    size_t count;
    const struct reg_signature *signatures = reg_signatures(problem->family, rung, &count);
    const enum dtype tried[] = {problem->given, problem->result};
    const int tries = problem->may_convert && problem->given != problem->result ? 2 : 1;
    for (int t = 0; t < tries; t++) {
        const struct reg_signature *wide = NULL;
        for (size_t i = 0; i < count; i++) {
            if (strcmp(signatures[i].op, problem->op) != 0 ||
                !serves(&signatures[i], tried[t], problem->result))
                continue;
            *items = tried[t];
            if (signatures[i].accumulator == problem->result && !(rung->flags & RUNG_WIDE))
                return &signatures[i];
            wide = &signatures[i];
        }
        if (wide)
            return wide;
    }
    return NULL;
}

/* The end of the error text: how to fix it. */
static const char *remedy(const struct py_problem *problem, const struct reg_rung *rung) {
    return rung->flags & RUNG_HOST ? ""
           : rung->flags & RUNG_LISTING
               ? problem->family == &reg_families[REG_reduce]
                     ? "; the deck's sum stays int: pass an int32 array and dtype=np.int32"
                     : "; convert the array to the deck's type"
           : problem->resident ? "; convert the array on its device"
                               : "; convert the array, or use device='cpu'";
}

/* Raises TypeError that lists the rung's element types for the operation. */
static void raise_no_signature(const struct py_problem *problem, const struct reg_rung *rung) {
    char list[256] = "";
    size_t count, length = 0;
    const struct reg_signature *signatures = reg_signatures(problem->family, rung, &count);
    for (size_t i = 0; i < count && length < sizeof list; i++) {
        const char *name = dtype_name(signatures[i].items);
        const int repeated = i && signatures[i - 1].items == signatures[i].items &&
                             strcmp(signatures[i - 1].op, problem->op) == 0;
        if (strcmp(signatures[i].op, problem->op) == 0 && !repeated)
            length += (size_t)PyOS_snprintf(list + length, sizeof list - length, "%s%s",
                                            length ? ", " : "", name);
    }
    if (!length)
        PyErr_Format(PyExc_TypeError, "op: rung '%s' of %s has no '%s'", rung->name,
                     problem->family->name, problem->op);
    else if (problem->given == problem->result)
        PyErr_Format(PyExc_TypeError, "array: rung '%s' of %s takes %s for op='%s', not %s%s",
                     rung->name, problem->family->name, list, problem->op,
                     dtype_name(problem->given), remedy(problem, rung));
    else
        PyErr_Format(PyExc_TypeError,
                     "array: rung '%s' of %s takes %s for op='%s', not %s with a result of %s%s",
                     rung->name, problem->family->name, list, problem->op,
                     dtype_name(problem->given), dtype_name(problem->result),
                     remedy(problem, rung));
}

/* --- rungs */

static int is_host_kind(const struct device_ops *kind) { return strcmp(kind->kind, "cpu") == 0; }

/* Only the simulated GPU runs a deck's listing. */
static int is_refused(const struct reg_rung *rung, const struct device_ops *kind) {
    return rung->flags & RUNG_LISTING && kind && strcmp(kind->kind, "cuda") == 0;
}

static int fits_kind(const struct reg_rung *rung, const struct device_ops *kind) {
    return !kind || (is_host_kind(kind) == !!(rung->flags & RUNG_HOST) && !is_refused(rung, kind));
}

/* The best rung or, if that is not compiled for the problem's types, the one for any. */
static const struct reg_rung *best_rung(const struct py_problem *problem,
                                        const struct device_ops *kind) {
    const struct reg_rung *best = NULL;
    enum dtype items;
    for (size_t i = 0; i < problem->family->rung_count; i++) {
        const struct reg_rung *rung = &problem->family->rungs[i];
        if (!fits_kind(rung, kind))
            continue;
        if (rung->flags & RUNG_BEST)
            best = rung;
        if (rung->flags & (RUNG_BEST | RUNG_ANY_DTYPE) && find_signature(problem, rung, &items))
            return rung;
    }
    return best;
}

/* Raises ValueError that lists the variants for the kind of device (NULL: for all kinds). */
static void raise_no_rung(const struct reg_family *family, PyObject *variant,
                          const struct device_ops *kind) {
    char list[512] = "";
    size_t length = 0;
    for (size_t i = 0; i < family->rung_count && length < sizeof list; i++) {
        const struct reg_rung *rung = &family->rungs[i];
        if (!fits_kind(rung, kind))
            continue;
        const char *comma = length ? ", " : "";
        if (rung->number >= 0 && !(rung->flags & RUNG_HISTORICAL))
            length += (size_t)PyOS_snprintf(list + length, sizeof list - length, "%s%d '%s'", comma,
                                            rung->number, rung->name);
        else
            length += (size_t)PyOS_snprintf(list + length, sizeof list - length, "%s'%s'", comma,
                                            rung->name);
    }
    const bool axes = family == &reg_families[REG_reduce_axis];
    PyErr_Format(PyExc_ValueError, "variant: %R is not a rung of %s%s%s; use one of %s", variant,
                 axes ? "a reduction along an axis, or of mean, any, all, count, argmin or argmax"
                      : family->name,
                 kind ? " on " : "", kind ? kind->kind : "", list);
    py_suggest();
}

/* Finds the rung that `variant` names, for any kind of device if kind is NULL. */
static const struct reg_rung *find_rung(const struct reg_family *family, PyObject *variant,
                                        const struct device_ops *kind) {
    const char *name = NULL;
    long long number = -1;
    if (PyUnicode_Check(variant)) {
        name = py_text(variant, "variant");
        if (!name)
            return NULL;
    } else {
        PyObject *integer = PyBool_Check(variant) ? NULL : PyNumber_Index(variant);
        if (!integer) {
            if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_TypeError))
                PyErr_Format(PyExc_TypeError, "variant: must be a rung's number or name, not %R",
                             variant);
            return NULL;
        }
        int overflow;
        number = PyLong_AsLongLongAndOverflow(integer, &overflow);
        Py_DECREF(integer);
        if (overflow || number < 0)
            number = -2; /* no rung has this number: -1 marks rungs without one */
    }
    for (size_t i = 0; i < family->rung_count; i++) {
        const struct reg_rung *rung = &family->rungs[i];
        const int meant = name ? strcmp(rung->name, name) == 0
                               : rung->number == number && !(rung->flags & RUNG_HISTORICAL);
        if (meant && fits_kind(rung, kind))
            return rung;
        if (meant && is_refused(rung, kind)) {
            PyErr_Format(PyExc_ValueError,
                         "variant: '%s' is a deck's listing without bounds checks, for GPUs whose "
                         "warps execute in step: only the simulated GPU runs it; use device='sim' "
                         "or device='sim:g80', or another rung",
                         rung->name);
            return NULL;
        }
    }
    raise_no_rung(family, variant, kind);
    return NULL;
}

static int choose_threads(PyObject *block, const struct reg_rung *rung, unsigned *chosen) {
    *chosen = rung->block_default;
    if (!py_given(block))
        return 0;
    if (!rung->block_max) {
        PyErr_Format(PyExc_ValueError, "block: rung '%s' has no blocks of threads; leave it out",
                     rung->name);
        return -1;
    }
    PyObject *integer = PyNumber_Index(block);
    if (!integer) {
        if (PyErr_ExceptionMatches(PyExc_TypeError))
            PyErr_Format(PyExc_TypeError, "block: must be an integer, not %R", block);
        return -1;
    }
    int overflow;
    const long long threads = PyLong_AsLongLongAndOverflow(integer, &overflow);
    Py_DECREF(integer);
    if (overflow || threads < rung->block_min || threads > rung->block_max ||
        (threads & (threads - 1))) {
        char list[128] = "";
        size_t length = 0;
        for (unsigned size = rung->block_min; size <= rung->block_max; size *= 2)
            length += (size_t)PyOS_snprintf(list + length, sizeof list - length, "%s%u",
                                            length ? ", " : "", size);
        PyErr_Format(PyExc_ValueError, "block: %R is not a block size of rung '%s'; use one of %s",
                     block, rung->name, list);
        return -1;
    }
    *chosen = (unsigned)threads;
    return 0;
}

/* The blocks of a grid, where the rung's planner leaves a choice. */
static int choose_grid(PyObject *blocks, struct ops_choice *choice) {
    if (!ops_reduce_has_free_grid(choice)) {
        PyErr_Format(PyExc_ValueError,
                     "blocks: rung '%s' of %s has a grid of its own; leave blocks out, or use "
                     "reduce's variants 7 to 11 or '7-historical'",
                     choice->rung->name, choice->family->name);
        return -1;
    }
    const long long wanted = PyIndex_Check(blocks) ? PyLong_AsLongLong(blocks) : 0;
    if (wanted == -1 && PyErr_Occurred())
        PyErr_Clear();
    if (PyBool_Check(blocks) || wanted < 1 || wanted > INT32_MAX) {
        PyErr_Format(PyExc_ValueError, "blocks: must be an integer from 1 to 2^31 - 1, not %R",
                     blocks);
        return -1;
    }
    choice->blocks = (unsigned)wanted;
    return 0;
}

/* block= is a number of threads or, from a caller that names the grid too, (threads, blocks). */
static int choose_block(PyObject *block, struct ops_choice *choice) {
    PyObject *blocks = NULL;
    if (block && PyTuple_Check(block) && PyTuple_Size(block) == 2) {
        blocks = PyTuple_GetItem(block, 1);
        block = PyTuple_GetItem(block, 0);
    }
    choice->any_block = !py_given(block);
    if (choose_threads(block, choice->rung, &choice->block))
        return -1;
    return py_given(blocks) ? choose_grid(blocks, choice) : 0;
}

/* --- devices */

/* Sets the kind from `device=`, an enclosing profile or GPUOPT_DEVICE; leaves it NULL if none names
 * one. */
static int named_device(struct py_state *state, PyObject *device, const struct device_ops **kind,
                        char which[DEVICE_WHICH]) {
    const char *argument = "device", *name = NULL, *number = "";
    char recorded[PY_DEVICE_NAME];
    *which = '\0';
    if (py_given(device)) {
        name = py_text(device, argument);
        if (!name)
            return -1;
    } else {
        if (py_recording_device(state, recorded))
            return -1;
        name = recorded;
        if (!*recorded) {
            name = getenv("GPUOPT_DEVICE");
            argument = "GPUOPT_DEVICE";
        }
    }
    if (!name || !*name)
        return 0;
    const enum status status = device_find(argument, name, kind, &number);
    PyOS_snprintf(which, DEVICE_WHICH, "%s", number);
    if (status)
        py_raise(state, status);
    return status ? -1 : 0;
}

static const struct device_ops *kind_named(const char *name) {
    const struct device_ops *const *kind = device_kinds;
    while (*kind && strcmp((*kind)->kind, name) != 0)
        kind++;
    return *kind;
}

/* The kind for a call that names none: a GPU if there is one; else the simulated GPU for a rung
 * that is a kernel; else the cpu. A fork after CUDA's start raises an error: falling back would be
 * slow without a visible reason. */
static int default_kind(struct py_state *state, const struct py_problem *problem,
                        const struct reg_rung *rung, const struct device_ops **kind) {
    const struct device_ops *cuda = kind_named("cuda");
    enum dtype items;
    int count = 0;
    if (rung && rung->flags & RUNG_HOST) {
        *kind = kind_named("cpu");
        return 0;
    }
    const enum status status = cuda->count(&count);
    if (status == STATUS_FORKED) {
        py_raise(state, status);
        return -1;
    }
    if (count && !(rung && is_refused(rung, cuda)) &&
        (rung || find_signature(problem, best_rung(problem, cuda), &items)))
        *kind = cuda; /* without a named rung, only if it has a kernel for these types */
    else
        *kind = kind_named(rung ? "sim" : "cpu");
    return 0;
}

int py_choose_kernel_device(struct py_state *state, PyObject *device,
                            const struct device_ops **kind, char which[DEVICE_WHICH]) {
    *kind = NULL;
    if (named_device(state, device, kind, which))
        return -1;
    if (!*kind) {
        int count = 0;
        const enum status status = kind_named("cuda")->count(&count);
        if (status == STATUS_FORKED) {
            py_raise(state, status);
            return -1;
        }
        *kind = kind_named(count ? "cuda" : "sim");
    }
    return 0;
}

/* Chooses the rung for the target's kind of device. */
static int choose_rung(const struct py_problem *problem, const struct reg_rung *rung, bool any,
                       PyObject *block, struct py_target *target) {
    target->choice = (struct ops_choice){.family = problem->family, .rung = rung, .any_rung = any};
    target->choice.signature = find_signature(problem, rung, &target->items);
    if (!target->choice.signature) {
        raise_no_signature(problem, rung);
        return -1;
    }
    return choose_block(block, &target->choice);
}

int py_choose_on(const struct py_problem *problem, PyObject *variant, PyObject *block,
                 struct py_target *target) {
    const bool any = !py_given(variant);
    const struct reg_rung *rung =
        any ? best_rung(problem, target->kind) : find_rung(problem->family, variant, target->kind);
    return rung ? choose_rung(problem, rung, any, block, target) : -1;
}

int py_choose(struct py_state *state, const struct py_problem *problem, PyObject *variant,
              PyObject *block, PyObject *device, struct py_target *target) {
    target->kind = NULL;
    if (named_device(state, device, &target->kind, target->which))
        return -1;
    if (target->kind)
        return py_choose_on(problem, variant, block, target);
    const struct reg_rung *rung = NULL;
    if (py_given(variant) && !(rung = find_rung(problem->family, variant, NULL)))
        return -1;
    if (default_kind(state, problem, rung, &target->kind))
        return -1;
    return rung ? choose_rung(problem, rung, false, block, target)
                : py_choose_on(problem, variant, block, target);
}

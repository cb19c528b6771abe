/* py_about.c: describes the extension: its rungs, its image, how it was built. Opens no device. */
#include "py_core.h"

#include "../demangle.h"
#include "../devices.h"

#include <stdlib.h>
#include <string.h>

/* [(op, items, accumulator), ...] */
static PyObject *signatures_list(const struct reg_family *family, const struct reg_rung *rung) {
    size_t count;
    const struct reg_signature *signatures = reg_signatures(family, rung, &count);
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++) {
        PyObject *item = Py_BuildValue("(sss)", signatures[i].op, dtype_name(signatures[i].items),
                                       dtype_name(signatures[i].accumulator));
        if (!item || PyList_SetItem(list, (Py_ssize_t)i, item)) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list;
}

/* The symbols in the images, one for each signature that shares none with others and, where the
 * block size is a template argument, for each block size.
 */
static PyObject *kernels_list(const struct reg_family *family, const struct reg_rung *rung) {
    size_t count;
    const struct reg_signature *signatures = reg_signatures(family, rung, &count);
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < count; i++) {
        const unsigned last = rung->flags & RUNG_BLOCK_IS_TEMPLATE ? rung->block_max : 0;
        for (unsigned block = last ? rung->block_min : 0; block <= last; block *= 2) {
            char symbol[REG_SYMBOL_MAX];
            reg_symbol(rung, &signatures[i], block, symbol);
            PyObject *name = PyUnicode_FromString(symbol);
            const int listed = name ? PySequence_Contains(list, name) : -1;
            const int failed = listed < 0 || (!listed && PyList_Append(list, name));
            Py_XDECREF(name);
            if (failed) {
                Py_DECREF(list);
                return NULL;
            }
            if (!last)
                break;
        }
    }
    return list;
}

PyObject *py_rungs(PyObject *module, PyObject *argument) {
    (void)module;
    const char *name = py_text(argument, "family");
    if (!name)
        return NULL;
    const struct reg_family *family = reg_family(name);
    if (!family) {
        char list[256] = "";
        size_t length = 0;
        for (size_t i = 0; i < reg_family_count && length < sizeof list; i++)
            length += (size_t)PyOS_snprintf(list + length, sizeof list - length, "%s'%s'",
                                            length ? ", " : "", reg_families[i].name);
        PyErr_Format(PyExc_ValueError, "family: %R is not a family of kernels; use one of %s",
                     argument, list);
        py_suggest();
        return NULL;
    }
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < family->rung_count; i++) {
        const struct reg_rung *rung = &family->rungs[i];
        const int host = !!(rung->flags & RUNG_HOST), rate = !!(rung->flags & RUNG_DECK_RATE);
        PyObject *signatures = signatures_list(family, rung), *kernels = kernels_list(family, rung);
        PyObject *row =
            signatures && kernels
                ? Py_BuildValue("{s:s, s:i, s:s, s:s, s:s, s:N, s:N, s:I, s:I, s:I, s:I, s:N, s:N, "
                                "s:N, s:N, s:N, s:d, s:d}",
                                "family", family->name, "number", rung->number, "name", rung->name,
                                "lesson", rung->lesson, "source", rung->source, "signatures",
                                Py_NewRef(signatures), "kernels", Py_NewRef(kernels), "block_min",
                                rung->block_min, "block_max", rung->block_max, "block_default",
                                rung->block_default, "items_per_thread", rung->items_per_thread,
                                "historical", PyBool_FromLong(rung->flags & RUNG_HISTORICAL),
                                "best", PyBool_FromLong(rung->flags & RUNG_BEST), "ceiling",
                                PyBool_FromLong(rung->flags & RUNG_CEILING), "host",
                                PyBool_FromLong(host), "listing",
                                PyBool_FromLong(rung->flags & RUNG_LISTING), "deck_us",
                                rate ? 0.0 : rung->deck, "deck_gbs", rate ? rung->deck : 0.0)
                : NULL;
        Py_XDECREF(signatures);
        Py_XDECREF(kernels);
        const int failed = !row || PyList_Append(list, row);
        Py_XDECREF(row);
        if (failed) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list;
}

PyObject *py_probes(PyObject *module, PyObject *nothing) {
    (void)module;
    (void)nothing;
    PyObject *list = PyList_New((Py_ssize_t)reg_probe_count);
    for (size_t i = 0; list && i < reg_probe_count; i++) {
        const struct reg_probe *probe = &reg_probes[i];
        PyObject *row = Py_BuildValue("(sss)", probe->symbol, probe->experiment, probe->idea);
        if (!row || PyList_SetItem(list, (Py_ssize_t)i, row)) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list;
}

/* Returns the simulated GPUs as [{name: ..., ...}, ...]. The rows are included once more, as text
 * and numbers, so nothing of the simulator is needed. */
PyObject *py_presets(PyObject *module, PyObject *nothing) {
    static const struct {
        const char *name, *title, *coalescing;
        unsigned cc, sms, warps, blocks, threads, grid_x, grid_z, registers, register_unit,
            warp_unit, by_block, shared, shared_block, shared_unit, reserved, banks, group,
            bank_bytes;
        double clock_ghz, bandwidth_gbs, f32_gflops, f64_gflops;
        unsigned caches_loads, l2_kib, l2_parts;
    } rows[] = {
#define PRESET(name, title, cc, sms, warps, blocks, threads, grid_x, grid_z, registers,         \
               register_unit, warp_unit, by_block, shared, shared_block, shared_unit, reserved, \
               banks, group, bank_bytes, coalescing, clock, gbs, f32, f64, memory, l1, shares,  \
               caches, texture, l2, parts)                                                      \
    {name,    title,        #coalescing, cc,        sms,           warps,     blocks,           \
     threads, grid_x,       grid_z,      registers, register_unit, warp_unit, by_block,         \
     shared,  shared_block, shared_unit, reserved,  banks,         group,     bank_bytes,       \
     clock,   gbs,          f32,         f64,       caches,        l2,        parts},
#include "../sim/core/sim_preset.def"
    };
    (void)module;
    (void)nothing;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < sizeof rows / sizeof *rows; i++) {
        PyObject *row = Py_BuildValue(
            "{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:N, s:I, s:I, s:I, s:I, s:I, "
            "s:I, s:I, s:d, s:d, s:d, s:d, s:N, s:I, s:I}",
            "name", rows[i].name, "title", rows[i].title, "coalescing", rows[i].coalescing,
            "compute_capability", rows[i].cc, "multiprocessors", rows[i].sms, "warps",
            rows[i].warps, "blocks", rows[i].blocks, "threads_per_block", rows[i].threads,
            "registers", rows[i].registers, "register_unit", rows[i].register_unit, "warp_unit",
            rows[i].warp_unit, "registers_by_block", PyBool_FromLong((long)rows[i].by_block),
            "shared", rows[i].shared, "shared_per_block", rows[i].shared_block, "shared_unit",
            rows[i].shared_unit, "shared_reserved", rows[i].reserved, "banks", rows[i].banks,
            "bank_lanes", rows[i].group, "bank_bytes", rows[i].bank_bytes, "clock_ghz",
            rows[i].clock_ghz, "bandwidth_gbs", rows[i].bandwidth_gbs, "f32_gflops",
            rows[i].f32_gflops, "f64_gflops", rows[i].f64_gflops, "caches_loads",
            PyBool_FromLong((long)rows[i].caches_loads), "l2_bytes", rows[i].l2_kib * 1024u,
            "l2_parts", rows[i].l2_parts);
        const int failed = !row || PyList_Append(list, row);
        Py_XDECREF(row);
        if (failed) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list;
}

PyObject *py_config(PyObject *module, PyObject *nothing) {
    (void)nothing;
    struct devices_about about;
    const enum status status = devices_about(&about);
    if (status)
        return py_raise(py_state_of(module), status);
    Py_ssize_t newer = 0;
    size_t machine_code;
    const size_t texts = gpuopt_archive_bytes(&machine_code);
    for (size_t i = 0; i < gpuopt_kernel_count; i++)
        newer += gpuopt_kernels[i].ptx[PTX_90].bytes;
    return Py_BuildValue("{s:s, s:s, s:i, s:i, s:z, s:s, s:s, s:s, s:n, s:n, s:s, s:s}", "version",
                         GPUOPT_VERSION, "kernel_compiler", GPUOPT_KERNEL_COMPILER, "toolkit",
                         about.cuda_toolkit, "driver", about.cuda_driver, "driver_library",
                         about.cuda_library, "architectures", GPUOPT_ARCHITECTURES, "reason",
                         GPUOPT_REASON, "ptx_targets", newer ? "75 90" : "75", "machine_code_bytes",
                         (Py_ssize_t)machine_code, "ptx_bytes", (Py_ssize_t)texts, "compiler",
                         __VERSION__, "instruction_set", about.cpu_instruction_set);
}

/* --- texts of the embedded kernels */

/* The decompressor of the devices. Called by threads that released the GIL, which it takes. */
static enum status inflate(const char *packed, size_t packed_bytes, size_t whole, size_t offset,
                           char *to, size_t bytes) {
    const PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *kind, *value, *trace; /* an exception of the caller stays pending */
    PyErr_Fetch(&kind, &value, &trace);
    PyObject *lzma = PyImport_ImportModule("lzma");
    PyObject *text =
        lzma ? PyObject_CallMethod(lzma, "decompress", "y#", packed, (Py_ssize_t)packed_bytes)
             : NULL;
    char *data = NULL;
    Py_ssize_t length = 0;
    const bool right =
        text && !PyBytes_AsStringAndSize(text, &data, &length) && (size_t)length == whole;
    if (right)
        memcpy(to, data + offset, bytes);
    Py_XDECREF(text);
    Py_XDECREF(lzma);
    PyErr_Clear();
    PyErr_Restore(kind, value, trace);
    PyGILState_Release(gil);
    return right ? STATUS_OK
                 : status_fail(STATUS_DEVICE_ERROR,
                               "gpuopt's compiled kernels cannot be decompressed: this Python has "
                               "no lzma module (build Python where liblzma's headers are "
                               "installed), or the memory for %zu bytes is missing",
                               whole);
}

void py_image_begin(void) { gpuopt_inflate = inflate; }

static PyObject *unicode_of(enum status status, char *text, size_t bytes, PyObject *module) {
    if (status)
        return py_raise(py_state_of(module), status);
    PyObject *made = PyUnicode_FromStringAndSize(text, (Py_ssize_t)bytes);
    free(text);
    return made;
}

PyObject *py_kernel_ptx(PyObject *module, PyObject *arguments) {
    const char *symbol;
    int target;
    const struct image_kernel *kernel;
    char *text = NULL;
    size_t bytes = 0;
    if (!PyArg_ParseTuple(arguments, "si", &symbol, &target))
        return NULL;
    enum status status = gpuopt_kernel_of(symbol, &kernel);
    if (!status)
        status = gpuopt_kernel_ptx(kernel, gpuopt_ptx_target(kernel, target), &text, &bytes);
    return unicode_of(status, text, bytes, module);
}

/* Adds a kernel, or a parameter to the list of one, to the dict `state`. */
static int entry_found(void *state, const char *kernel, const char *type, size_t bytes) {
    if (!type) {
        PyObject *list = PyList_New(0);
        const int failed = !list || PyDict_SetItemString(state, kernel, list);
        Py_XDECREF(list);
        return failed;
    }
    PyObject *parameter = Py_BuildValue("(Nn)", PyUnicode_FromFormat(".%s", type), bytes);
    const int failed = !parameter || PyList_Append(PyDict_GetItemString(state, kernel), parameter);
    Py_XDECREF(parameter);
    return failed;
}

PyObject *py_ptx_entries(PyObject *module, PyObject *ptx) {
    char *text;
    Py_ssize_t bytes;
    PyObject *found = PyDict_New();
    if (!found || PyBytes_AsStringAndSize(ptx, &text, &bytes)) {
        Py_XDECREF(found);
        return NULL;
    }
    const enum status status = devices_ptx_entries(text, (size_t)bytes, entry_found, found);
    if (!status)
        return found;
    Py_DECREF(found);
    return PyErr_Occurred() ? NULL : py_raise(py_state_of(module), status);
}

PyObject *py_kernels(PyObject *module, PyObject *nothing) {
    (void)module;
    (void)nothing;
    PyObject *found = PyDict_New();
    for (size_t i = 0; found && i < gpuopt_kernel_count; i++) {
        PyObject *file = PyUnicode_FromString(gpuopt_kernels[i].image->name);
        if (!file || PyDict_SetItemString(found, gpuopt_kernels[i].symbol, file))
            Py_CLEAR(found);
        Py_XDECREF(file);
    }
    return found;
}

PyObject *py_sources(PyObject *module, PyObject *nothing) {
    (void)nothing;
    char *text = NULL;
    size_t bytes = 0;
    const enum status status = gpuopt_sources(&text, &bytes);
    return unicode_of(status, text, bytes, module);
}

PyObject *py_demangle(PyObject *module, PyObject *value) {
    char text[DEMANGLE_NAME_MOST * 4];
    const char *name = py_text(value, "name");
    (void)module;
    return name ? PyUnicode_FromString(demangle(name, text, sizeof text)) : NULL;
}

/* py_image.c: the embedded kernels' texts, for people, and their decompression by Python's zlib. */
#include "py_core.h"

#include <stdlib.h>
#include <string.h>

/* The devices' decompressor. Threads that released the GIL take it here. */
static enum status inflate(const char *packed, size_t packed_bytes, char *to, size_t bytes) {
    const PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *kind, *value, *trace; /* what the caller has pending stays */
    PyErr_Fetch(&kind, &value, &trace);
    PyObject *zlib = PyImport_ImportModule("zlib");
    PyObject *text = zlib ? PyObject_CallMethod(zlib, "decompress", "y#in", packed,
                                                (Py_ssize_t)packed_bytes, 15, (Py_ssize_t)bytes)
                          : NULL;
    char *data = NULL;
    Py_ssize_t length = 0;
    const bool whole =
        text && !PyBytes_AsStringAndSize(text, &data, &length) && (size_t)length == bytes;
    if (whole)
        memcpy(to, data, bytes);
    Py_XDECREF(text);
    Py_XDECREF(zlib);
    PyErr_Clear();
    PyErr_Restore(kind, value, trace);
    PyGILState_Release(gil);
    return whole ? STATUS_OK
                 : status_fail(STATUS_DEVICE_ERROR,
                               "gpuopt's compiled kernels cannot be decompressed: Python's zlib "
                               "module or the memory for %zu bytes is missing",
                               bytes);
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
        status = gpuopt_kernel_ptx(kernel, target >= 90 ? PTX_90 : PTX_75, &text, &bytes);
    return unicode_of(status, text, bytes, module);
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

/* py_view.c: View: an array in a device's memory, as gpuopt/arrays/libraries.py describes it. A C
 * type, since each call creates one for every array and call/py_there.c reads them. Owns no memory.
 */
#include "py_core.h"

#include <stddef.h>
#include <structmember.h>

/* PyArg's own "K" accepts values that overflow. */
static int word(PyObject *value, void *to) {
    const unsigned long long number = PyLong_AsUnsignedLongLong(value);
    if (PyErr_Occurred())
        return 0;
    *(unsigned long long *)to = number;
    return 1;
}

static int parse(PyObject *arguments, PyObject *keywords, const char *format,
                 struct py_view_items *items) {
    static char *keys[] = {"library", "address", "shape",     "strides", "dtype", "device",
                           "stream",  "holder",  "read_only", "waits",   NULL};
    int read_only = items->read_only, waits = items->waits;
    const int parsed = PyArg_ParseTupleAndKeywords(
        arguments, keywords, format, keys, &items->library, word, &items->address, &PyTuple_Type,
        &items->shape, &items->strides, &items->dtype, &items->device, word, &items->stream,
        &items->holder, &read_only, &waits);
    items->read_only = read_only != 0;
    items->waits = waits != 0;
    return parsed;
}

static PyObject *filled(PyTypeObject *type, const struct py_view_items *items) {
    allocfunc allocate = __extension__(allocfunc) PyType_GetSlot(type, Py_tp_alloc);
    struct py_view *view = (struct py_view *)allocate(type, 0);
    if (!view)
        return NULL;
    view->items = *items;
    Py_INCREF(items->library);
    Py_INCREF(items->shape);
    Py_INCREF(items->strides);
    Py_INCREF(items->dtype);
    Py_INCREF(items->device);
    Py_INCREF(items->holder);
    return (PyObject *)view;
}

PyObject *py_view_new(const struct py_state *state, const struct py_view_items *items) {
    return filled((PyTypeObject *)state->view_type, items);
}

static PyObject *view_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    struct py_view_items items = {0};
    return parse(arguments, keywords, "OO&O!OOUO&O|pp:View", &items) ? filled(type, &items) : NULL;
}

static PyObject *view_replace(struct py_view *self, PyObject *arguments, PyObject *keywords) {
    struct py_view_items items = self->items;
    return parse(arguments, keywords, "|$OO&O!OOUO&Opp:replace", &items)
               ? filled(Py_TYPE((PyObject *)self), &items)
               : NULL;
}

static void view_dealloc(struct py_view *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    const freefunc release = __extension__(freefunc) PyType_GetSlot(type, Py_tp_free);
    Py_XDECREF(self->items.library);
    Py_XDECREF(self->items.shape);
    Py_XDECREF(self->items.strides);
    Py_XDECREF(self->items.dtype);
    Py_XDECREF(self->items.device);
    Py_XDECREF(self->items.holder);
    release(self);
    Py_DECREF(type);
}

#define MEMBER(name, type, doc) \
    { #name, type, offsetof(struct py_view, items.name), READONLY, doc }
static PyMemberDef view_members[] = {
    MEMBER(library, T_OBJECT_EX, "The _views.Library of the array."),
    MEMBER(address, T_ULONGLONG, "Address of the first element."),
    MEMBER(shape, T_OBJECT_EX, "A tuple."),
    MEMBER(strides, T_OBJECT_EX, "In bytes; None: C order."),
    MEMBER(dtype, T_OBJECT_EX, "The items' dtype."),
    MEMBER(device, T_OBJECT_EX, "As \"cuda:0\"."),
    MEMBER(stream, T_ULONGLONG, "Stream of its work; 1 and 2 are the default streams."),
    MEMBER(holder, T_OBJECT_EX, "Object that keeps the memory alive."),
    MEMBER(read_only, T_BOOL, "Whether writing is forbidden."),
    MEMBER(waits, T_BOOL, "Whether the holder must live until the work has completed."),
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef view_methods[] = {
    {"replace", (PyCFunction)(void (*)(void))view_replace, METH_VARARGS | METH_KEYWORDS,
     "replace($self, /, **changes)\n--\n\nReturn a View with some attributes replaced."},
    {NULL, NULL, 0, NULL},
};

/* __extension__: ISO C has no function pointers in void pointers, which the C API requires. */
static PyType_Slot view_slots[] = {
    {Py_tp_new, __extension__(void *) view_new},
    {Py_tp_dealloc, __extension__(void *) view_dealloc},
    {Py_tp_members, view_members},
    {Py_tp_methods, view_methods},
    {Py_tp_doc, "View(library, address, shape, strides, dtype, device, stream, holder, "
                "read_only=False, waits=False)\n--\n\nAn array in a device's memory."},
    {0, NULL},
};

/* Not tracked by the garbage collector: what a View holds never refers to the View. */
static PyType_Spec view_spec = {
    .name = "gpuopt._core.View",
    .basicsize = sizeof(struct py_view),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = view_slots,
};

int py_view_add(PyObject *module, struct py_state *state) {
    state->view_type = PyType_FromModuleAndSpec(module, &view_spec, NULL);
    return state->view_type ? PyModule_AddObjectRef(module, "View", state->view_type) : -1;
}

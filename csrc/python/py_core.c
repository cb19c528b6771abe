/* py_core.c: the extension module gpuopt._core: its methods, its state, its start. Importing it
 * touches no device.
 */
#include "py_core.h"

static int module_exec(PyObject *module) {
    struct py_state *state = py_state_of(module);
    py_image_begin();
    if (py_import_numpy())
        return -1;
    PyObject *numpy = PyImport_ImportModule("numpy");
    for (int i = 0; numpy && i < PY_OP_COUNT; i++)
        state->ufuncs[i] = PyObject_GetAttrString(numpy, py_operation_ufuncs[i]);
    Py_XDECREF(numpy);
    if (PyErr_Occurred() || py_recording_add(module, state) || py_errors_add(module, state) ||
        py_bench_add(module, state) || py_module_add(module) || py_memory_add(module) ||
        py_view_add(module, state) || py_prepared_add(module))
        return -1;
    return PyModule_AddStringConstant(module, "__version__", GPUOPT_VERSION);
}

static int module_traverse(PyObject *module, visitproc visit, void *arg) {
    struct py_state *state = py_state_of(module);
    for (int i = 0; i < STATUS_COUNT; i++)
        Py_VISIT(state->exceptions[i]);
    for (int i = 0; i < PY_OP_COUNT; i++)
        Py_VISIT(state->ufuncs[i]);
    Py_VISIT(state->masked_array);
    for (int i = 0; i < PY_GPU_NAMES; i++)
        Py_VISIT(state->gpu_names[i]);
    Py_VISIT(state->bench_type);
    Py_VISIT(state->view_type);
    Py_VISIT(state->recording);
    return 0;
}

static int module_clear(PyObject *module) {
    struct py_state *state = py_state_of(module);
    for (int i = 0; i < STATUS_COUNT; i++)
        Py_CLEAR(state->exceptions[i]);
    for (int i = 0; i < PY_OP_COUNT; i++)
        Py_CLEAR(state->ufuncs[i]);
    Py_CLEAR(state->masked_array);
    for (int i = 0; i < PY_GPU_NAMES; i++)
        Py_CLEAR(state->gpu_names[i]);
    Py_CLEAR(state->bench_type);
    Py_CLEAR(state->view_type);
    Py_CLEAR(state->recording);
    return 0;
}

static void module_free(void *module) {
    py_homes_close(py_state_of(module));
    py_queues_close(py_state_of(module));
    module_clear(module);
}

static PyMethodDef module_methods[] = {
    {"reduce", (PyCFunction)(void (*)(void))py_reduce, METH_FASTCALL,
     "reduce($module, array, op, variant, dtype, out, initial, block, device, /)\n--\n\n"
     "See gpuopt.reduce; initial=... is none given."},
    {"axis_kind", py_axis_kind, METH_O,
     "axis_kind($module, device, /)\n--\n\n"
     "The kind of device that a reduction of the family reduce_axis runs on, if it names no rung."},
    {"call", (PyCFunction)(void (*)(void))py_call, METH_FASTCALL,
     "call($module, problem, variant, block, device, /)\n--\n\n"
     "Run a family whose output is an array; see gpuopt/arrays/inout.py."},
    {"reduce_resident", (PyCFunction)(void (*)(void))py_reduce_resident, METH_FASTCALL,
     "reduce_resident($module, device, streams, address, n, items, op, variant, result, initial, "
     "block, to, /)\n--\n\n"
     "Reduce items in a device's memory: to there (an address, nobody waits), or return the "
     "value."},
    {"call_resident", (PyCFunction)(void (*)(void))py_call_resident, METH_FASTCALL,
     "call_resident($module, device, streams, problem, variant, block, /)\n--\n\n"
     "As call, for arrays in the device's memory: pairs of address and bytes. Nobody waits."},
    {"owner", (PyCFunction)(void (*)(void))py_owner, METH_FASTCALL,
     "owner($module, kind, address, /)\n--\n\nThe number of the device whose memory an address is "
     "in."},
    {"is_current", (PyCFunction)(void (*)(void))py_is_current, METH_FASTCALL,
     "is_current($module, kind, address, /)\n--\n\nWhether this thread works on the device whose "
     "memory an address is in."},
    {"put", (PyCFunction)(void (*)(void))py_put, METH_FASTCALL,
     "put($module, device, streams, address, array, /)\n--\n\n"
     "Queue a copy of a NumPy array in C order to an address; it may change as soon as this\n"
     "returns."},
    {"order", (PyCFunction)(void (*)(void))py_order, METH_FASTCALL,
     "order($module, device, streams, /)\n--\n\n"
     "What the first stream is given from now on waits for what the others have been given."},
    {"wait", (PyCFunction)(void (*)(void))py_wait, METH_FASTCALL,
     "wait($module, device, stream, /)\n--\n\nWait for all that a stream has been given."},
    {"dlpack_export", (PyCFunction)(void (*)(void))py_dlpack_export, METH_FASTCALL,
     "dlpack_export($module, owner, address, shape, code, bits, device_type, device_id, "
     "versioned, read_only, /)\n--\n\nA DLPack capsule of an array in C order, which keeps its "
     "owner."},
    {"dlpack_take", py_dlpack_take, METH_O,
     "dlpack_take($module, capsule, /)\n--\n\n"
     "Consume a DLPack capsule: (holder, address, shape, strides in items or None, code, bits, "
     "lanes, device_type, device_id, read_only)."},
    {"exchange", py_exchange, METH_O,
     "exchange($module, type, /)\n--\n\n"
     "A type's DLPack exchange API, for borrow; None where it has none that we know."},
    {"borrow", (PyCFunction)(void (*)(void))py_borrow, METH_FASTCALL,
     "borrow($module, exchange, value, library, dtypes, /)\n--\n\n"
     "The View of an array on a GPU, on its library's current stream. dtypes: by DLPack's code\n"
     "and bits, code << 8 | bits. None for what is not on a GPU or cannot be described."},
    {"probes", py_probes, METH_NOARGS,
     "probes($module, /)\n--\n\nThe kernels of experiments: [(symbol, experiment, idea), ...]."},
    {"rungs", py_rungs, METH_O, "rungs($module, family, /)\n--\n\nThe family's rows, as dicts."},
    {"tunings", py_tunings, METH_O,
     "tunings($module, family, /)\n--\n\nThe planners' constants that Bench may set, as dicts."},
    {"float_state", py_float_state, METH_O,
     "float_state($module, before, /)\n--\n\n"
     "Enter the floating-point state that results are defined in, for None: return the caller's,\n"
     "None where it is the same. Restore what that returned."},
    {"float32_bits", py_float32_bits, METH_O,
     "float32_bits($module, value, /)\n--\n\nThe bits of a float, rounded to nearest."},
    {"host_threads", py_host_threads, METH_NOARGS,
     "host_threads($module, /)\n--\n\nHow many threads of the host a call may use."},
    {"device_count", py_device_count, METH_O,
     "device_count($module, kind, /)\n--\n\nHow many devices of a kind there are; raises the "
     "reason."},
    {"device_info", py_device_info, METH_O,
     "device_info($module, name, /)\n--\n\nWhat is known of a device, as a dict."},
    {"counter_table", py_counter_table, METH_O,
     "counter_table($module, kind, /)\n--\n\nA kind's counters: name, metric, meaning."},
    {"recorders", py_recorders, METH_O,
     "recorders($module, change, /)\n--\n\nOne more or one less looks at the context variable "
     "`recording`."},
    {"tracing", py_tracing, METH_VARARGS,
     "tracing($module, launches_before, block, warp, most_events, /)\n--\n\n"
     "What a recording holds to have a launch traced: (x, y, z) of the block, warp or -1."},
    {"close_idle", py_close_idle, METH_NOARGS,
     "close_idle($module, /)\n--\n\nClose the queues that wait for their next call; what they "
     "hold is freed.\nReturns (allocations, bytes) that simulated GPUs of this process still had "
     "when they were\nclosed: memory that gpuopt lost."},
    {"presets", py_presets, METH_NOARGS,
     "presets($module, /)\n--\n\nThe simulated GPUs: their names, limits and datasheet peaks."},
    {"config", py_config, METH_NOARGS, "config($module, /)\n--\n\nHow the extension was built."},
    {"kernels", py_kernels, METH_NOARGS,
     "kernels($module, /)\n--\n\nThe embedded kernels: {symbol: its file's name without .cu}."},
    {"kernel_ptx", py_kernel_ptx, METH_VARARGS,
     "kernel_ptx($module, symbol, target, /)\n--\n\n"
     "An embedded kernel's PTX as a module of its own; target is 75 or 90."},
    {"sources", py_sources, METH_NOARGS,
     "sources($module, /)\n--\n\nThe kernels' source files: each a form feed, its name, its "
     "lines."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot module_slots[] = {
    /* __extension__: ISO C has no void pointer to a function, the C API wants one */
    {Py_mod_exec, __extension__(void *) module_exec},
    {0, NULL},
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "gpuopt._core",
    .m_doc = "gpuopt's C part: devices, kernels, arrays.",
    .m_size = sizeof(struct py_state),
    .m_methods = module_methods,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&module_definition); }

/* py_core.c: the extension module gpuopt._core: its methods, its state, its initialization.
 * Importing it touches no device.
 */
#include "py_core.h"

static int module_exec(PyObject *module) {
    struct py_state *state = py_state_of(module);
    if (pthread_mutex_init(&state->guard, NULL)) {
        PyErr_SetString(PyExc_RuntimeError, "gpuopt: no mutex");
        return -1;
    }
    py_image_begin();
    if (py_import_numpy())
        return -1;
    PyObject *numpy = PyImport_ImportModule("numpy");
    for (int i = 0; numpy && i < PY_OP_COUNT; i++)
        state->ufuncs[i] = PyObject_GetAttrString(numpy, py_rules[i].ufunc);
    state->copyto = numpy ? PyObject_GetAttrString(numpy, "copyto") : NULL;
    Py_XDECREF(numpy);
    if (PyErr_Occurred() || py_recording_add(module, state) || py_errors_add(module, state) ||
        py_bench_add(module, state) || py_module_add(module) || py_memory_add(module, state) ||
        py_view_add(module, state) || py_plan_add(module, state) || py_entry_add(module) ||
        py_front_add(module, state))
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
    Py_VISIT(state->copyto);
    Py_VISIT(state->quiet);
    Py_VISIT(state->quiet_run);
    for (int i = 0; i < PY_GPU_NAMES; i++)
        Py_VISIT(state->gpu_names[i]);
    Py_VISIT(state->bench_type);
    Py_VISIT(state->view_type);
    Py_VISIT(state->plan_type);
    Py_VISIT(state->front_type);
    Py_VISIT(state->memory_type);
    Py_VISIT(state->recording);
    return py_known_traverse(state->known, visit, arg);
}

static int module_clear(PyObject *module) {
    struct py_state *state = py_state_of(module);
    for (int i = 0; i < STATUS_COUNT; i++)
        Py_CLEAR(state->exceptions[i]);
    for (int i = 0; i < PY_OP_COUNT; i++)
        Py_CLEAR(state->ufuncs[i]);
    Py_CLEAR(state->masked_array);
    Py_CLEAR(state->copyto);
    Py_CLEAR(state->quiet);
    Py_CLEAR(state->quiet_run);
    for (int i = 0; i < PY_GPU_NAMES; i++)
        Py_CLEAR(state->gpu_names[i]);
    Py_CLEAR(state->bench_type);
    Py_CLEAR(state->view_type);
    Py_CLEAR(state->plan_type);
    Py_CLEAR(state->front_type);
    Py_CLEAR(state->memory_type);
    Py_CLEAR(state->recording);
    py_known_clear(state);
    return 0;
}

static void module_free(void *module) {
    py_homes_close(py_state_of(module));
    py_queues_close(py_state_of(module));
    module_clear(module);
}

static PyMethodDef module_methods[] = {
    {"rules", py_rules_list, METH_NOARGS,
     "rules($module, /)\n--\n\nList NumPy's rules of the reductions as dicts."},
    {"result_dtype", (PyCFunction)(void (*)(void))py_result_descr, METH_FASTCALL,
     "result_dtype($module, op, given, dtype, out, /)\n--\n\n"
     "Return the dtype that an operation computes in and returns, from the elements' dtype, that\n"
     "of `dtype=` and that of `out=`, or None."},
    {"call_kind", (PyCFunction)(void (*)(void))py_call_kind, METH_FASTCALL,
     "call_kind($module, head, variant, block, device, /)\n--\n\n"
     "Return the kind of device that a call of (family, op, items, result) runs on."},
    {"call", (PyCFunction)(void (*)(void))py_call, METH_FASTCALL,
     "call($module, problem, variant, block, device, streams, /)\n--\n\n"
     "Run a family (see gpuopt/arrays/inout.py) on arrays in the device's memory, pairs (address,\n"
     "bytes), without waiting."},
    {"turned", (PyCFunction)(void (*)(void))py_turned, METH_FASTCALL,
     "turned($module, item, numbers, /)\n--\n\n"
     "Return the operands that a GPU turns in tiles in a sum of these numbers, as bits; elements\n"
     "have `item` bytes."},
    {"owner", (PyCFunction)(void (*)(void))py_owner, METH_FASTCALL,
     "owner($module, kind, address, /)\n--\n\nReturn the ordinal of the device that owns an "
     "address."},
    {"is_current", (PyCFunction)(void (*)(void))py_is_current, METH_FASTCALL,
     "is_current($module, kind, address, /)\n--\n\nReturn whether the device that owns an address "
     "is current in this thread."},
    {"order", (PyCFunction)(void (*)(void))py_order, METH_FASTCALL,
     "order($module, device, streams, /)\n--\n\n"
     "Make later work of the first stream wait for earlier work of the others."},
    {"wait", (PyCFunction)(void (*)(void))py_wait, METH_FASTCALL,
     "wait($module, device, stream, /)\n--\n\nWait for all work of a stream."},
    {"transfer", (PyCFunction)(void (*)(void))py_transfer, METH_FASTCALL,
     "transfer($module, to, target, source_device, source, nbytes, /)\n--\n\n"
     "Copy bytes between devices of one kind, in the order of both default streams."},
    {"dlpack_export", (PyCFunction)(void (*)(void))py_dlpack_export, METH_FASTCALL,
     "dlpack_export($module, owner, address, shape, code, bits, device_type, device_id, "
     "versioned, read_only, /)\n--\n\nReturn a DLPack capsule of a C-contiguous array, which "
     "keeps its owner alive."},
    {"dlpack_take", py_dlpack_take, METH_O,
     "dlpack_take($module, capsule, /)\n--\n\n"
     "Consume a DLPack capsule: (holder, address, shape, strides in elements or None, code, bits, "
     "lanes, device_type, device_id, read_only)."},
    {"know", (PyCFunction)(void (*)(void))py_know, METH_FASTCALL,
     "know($module, type, library, /, *how)\n--\n\n"
     "Let calls recognise arrays of a type without Python code: gpuopt's own; with a base class "
     "and\n"
     "its function of the current stream, by their attributes; with two dicts of dtypes and two\n"
     "functions, by DLPack's C exchange API (call/py_known.c). Return whether they do."},
    {"borrow", py_borrow, METH_O,
     "borrow($module, value, /)\n--\n\n"
     "Return the View of an array of such a type on a GPU, on its library's current stream, or\n"
     "None for other values."},
    {"probes", py_probes, METH_NOARGS,
     "probes($module, /)\n--\n\nList the kernels of experiments: [(symbol, experiment, idea), "
     "...]."},
    {"rungs", py_rungs, METH_O,
     "rungs($module, family, /)\n--\n\nList the family's rungs as dicts."},
    {"tunings", py_tunings, METH_O,
     "tunings($module, family, /)\n--\n\nList the planners' constants that Workbench may set, as "
     "dicts."},
    {"float_state", py_float_state, METH_O,
     "float_state($module, before, /)\n--\n\n"
     "For None, enter the floating-point state that results are defined in, and return the\n"
     "caller's, or None if it is the same. Otherwise restore the returned state."},
    {"initial", (PyCFunction)(void (*)(void))py_initial, METH_FASTCALL,
     "initial($module, value, dtype, /)\n--\n\n"
     "Return the `initial` of a reduction as a 0-d array of a dtype; raise if it does not fit."},
    {"float32_bits", py_float32_bits, METH_O,
     "float32_bits($module, value, /)\n--\n\nReturn the bits of a float, rounded to nearest."},
    {"demangle", py_demangle, METH_O,
     "demangle($module, name, /)\n--\n\n"
     "Return a C++ function's name as the source has it; any other name as it is."},
    {"host_threads", py_host_threads, METH_NOARGS,
     "host_threads($module, /)\n--\n\nReturn the number of host threads that a call may use."},
    {"device_count", py_device_count, METH_O,
     "device_count($module, kind, /)\n--\n\nCount the devices of a kind; raise if none can be "
     "used."},
    {"device_info", py_device_info, METH_O,
     "device_info($module, name, /)\n--\n\nDescribe a device as a dict."},
    {"counter_table", py_counter_table, METH_O,
     "counter_table($module, kind, /)\n--\n\nList a kind's counters: name, metric, meaning."},
    {"recorders", py_recorders, METH_O,
     "recorders($module, change, /)\n--\n\nAdd `change` to the number of recordings in "
     "force."},
    {"tracing", py_tracing, METH_VARARGS,
     "tracing($module, launches_before, block, warp, most_events, caches=False, /)\n--\n\n"
     "Return a recording's request to trace a launch: (x, y, z) of the block; warp or -1.\n"
     "Without a block, the middle one of every launch."},
    {"sim_traffic", py_sim_traffic, METH_NOARGS,
     "sim_traffic($module, /)\n--\n\n"
     "Return totals of all simulated GPUs: allocations, bytes and copies in, and out."},
    {"sim_progress", py_sim_progress, METH_NOARGS,
     "sim_progress($module, /)\n--\n\n"
     "Return of the launch that a simulated GPU runs: the blocks that have ended and all, the\n"
     "warp instructions so far, and those of the same launch before; 0: unknown, or none runs."},
    {"close_idle", py_close_idle, METH_NOARGS,
     "close_idle($module, /)\n--\n\nClose idle queues and free their memory.\nReturn the "
     "(allocations, bytes) that simulated GPUs of this process still held when they\nwere "
     "closed: memory that gpuopt leaked."},
    {"presets", py_presets, METH_NOARGS,
     "presets($module, /)\n--\n\nList the simulated GPUs: names, limits and datasheet peaks."},
    {"config", py_config, METH_NOARGS,
     "config($module, /)\n--\n\nDescribe how the extension was built."},
    {"kernels", py_kernels, METH_NOARGS,
     "kernels($module, /)\n--\n\nReturn the embedded kernels: {symbol: file name without .cu}."},
    {"kernel_ptx", py_kernel_ptx, METH_VARARGS,
     "kernel_ptx($module, symbol, target, /)\n--\n\n"
     "Return an embedded kernel's PTX, a module of its own, for compute capability target / 10."},
    {"walk", py_walk, METH_VARARGS,
     "walk($module, code, times, warps, loads, constants, /)\n--\n\n"
     "Return the clocks of a block's longest warp through machine code."},
    {"makespan", py_makespan, METH_VARARGS,
     "makespan($module, steps, clocks, multiprocessors, /)\n--\n\n"
     "Return when the last of some blocks ends; clocks: of a step, by how many share."},
    {"ptx_entries", py_ptx_entries, METH_O,
     "ptx_entries($module, ptx, /)\n--\n\n"
     "The kernels of PTX, as bytes, and their parameters: {name: [(type, bytes), ...]}."},
    {"sources", py_sources, METH_NOARGS,
     "sources($module, /)\n--\n\nReturn the kernels' source files: for each a form feed, its "
     "name, its lines."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot module_slots[] = {
    /* __extension__: ISO C has no function pointers in void pointers, which the C API requires */
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

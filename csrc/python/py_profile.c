/* py_profile.c: the counters of devices that count, as dicts for gpuopt/observe/profile.py.
 * Interprets none of them. */
#include "py_core.h"

#include <string.h>

/* Fields of Recording in gpuopt/observe/recording.py. */
enum { SINK, COLLECTING, DEVICE, TRACED, OUTER, RECORDING };

/* Receives the launches of one call. */
struct launch_receiver {
    const struct device_ops *ops;
    const char *device; /* its name */
    PyObject *recording;
    int failed;
};

int py_recording_add(PyObject *module, struct py_state *state) {
    PyObject *contexts = PyImport_ImportModule("contextvars");
    if (contexts)
        state->recording = PyObject_CallMethod(contexts, "ContextVar", "s", "gpuopt.recording");
    Py_XDECREF(contexts);
    return state->recording ? PyModule_AddObjectRef(module, "recording", state->recording) : -1;
}

/* The recording in force in this thread's context, a new reference; NULL without an exception if
 * there is none. The common case, no recording anywhere, costs nothing. */
static PyObject *recording_of(const struct py_state *state) {
    if (!state->recorders)
        return NULL;
    PyObject *recording = PyObject_CallMethod(state->recording, "get", "O", Py_None);
    if (recording && PyTuple_Check(recording) && PyTuple_Size(recording) == RECORDING)
        return recording;
    Py_XDECREF(recording);
    PyErr_Clear();
    return NULL;
}

static const char tracing_name[] = "gpuopt.tracing";

static void tracing_free(PyObject *capsule) {
    PyMem_Free(PyCapsule_GetPointer(capsule, tracing_name));
}

PyObject *py_tracing(PyObject *module, PyObject *arguments) {
    (void)module;
    unsigned long long launches_before, most;
    struct device_tracing *tracing = PyMem_Calloc(1, sizeof *tracing);
    if (!tracing)
        return PyErr_NoMemory();
    PyObject *capsule = NULL, *block;
    int caches = 0;
    int parsed = PyArg_ParseTuple(arguments, "KOiK|p", &launches_before, &block, &tracing->warp,
                                  &most, &caches);
    tracing->middle = parsed && block == Py_None;
    if (parsed && !tracing->middle)
        parsed =
            PyArg_Parse(block, "(III)", &tracing->block[0], &tracing->block[1], &tracing->block[2]);
    if (parsed)
        capsule = PyCapsule_New(tracing, tracing_name, tracing_free);
    if (!capsule) {
        PyMem_Free(tracing);
        return NULL;
    }
    tracing->launches_before = launches_before;
    tracing->most_events = most;
    tracing->caches = caches != 0;
    return capsule;
}

PyObject *py_recorders(PyObject *module, PyObject *change) {
    struct py_state *state = py_state_of(module);
    const long by = PyLong_AsLong(change);
    if (by == -1 && PyErr_Occurred())
        return NULL;
    state->recorders += by;
    return Py_NewRef(Py_None);
}

int py_recording_device(struct py_state *state, char name[PY_DEVICE_NAME]) {
    PyObject *recording = recording_of(state);
    *name = '\0';
    if (!recording)
        return 0;
    const char *text = py_text(PyTuple_GetItem(recording, DEVICE), "device");
    if (text)
        PyOS_snprintf(name, PY_DEVICE_NAME, "%s", text);
    Py_DECREF(recording);
    return text ? 0 : -1;
}

static PyObject *values_list(const uint64_t *values, size_t count) {
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++) {
        PyObject *value = PyLong_FromUnsignedLongLong(values[i]);
        if (!value || PyList_SetItem(list, (Py_ssize_t)i, value))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *lines_list(const struct device_report *report, size_t counters) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < report->line_count; i++) {
        const struct device_line *line = &report->lines[i];
        PyObject *item = Py_BuildValue("(zIIN)", line->file, line->line, line->ptx_line,
                                       values_list(line->values, counters));
        if (!item || PyList_Append(list, item))
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

/* The values as bytes: few of them are looked at. */
static PyObject *statements_list(const struct device_report *report, size_t counters) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < report->statement_count; i++) {
        const struct device_line *line = &report->statements[i];
        PyObject *item =
            Py_BuildValue("(szIIN)", line->text, line->file, line->line, line->ptx_line,
                          PyBytes_FromStringAndSize((const char *)line->values,
                                                    (Py_ssize_t)(counters * sizeof *line->values)));
        if (!item || PyList_Append(list, item))
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

/* The second access of a race; None: the finding has none. */
static PyObject *other_access(const struct status_finding *found) {
    if (!found->other_access)
        return Py_NewRef(Py_None);
    return Py_BuildValue("{s:s, s:z, s:I, s:I, s:(III), s:(III)}", "access", found->other_access,
                         "file", found->other_file, "line", found->other_line, "ptx_line",
                         found->other_ptx_line, "block", found->other_block[0],
                         found->other_block[1], found->other_block[2], "thread",
                         found->other_thread[0], found->other_thread[1], found->other_thread[2]);
}

static PyObject *findings_list(const struct device_report *report) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < report->finding_count; i++) {
        const struct status_finding *found = &report->findings[i];
        PyObject *other = other_access(found);
        PyObject *item =
            other ? Py_BuildValue(
                        "{s:s, s:s, s:s, s:z, s:I, s:I, s:(III), s:(III), s:K, s:K, s:s, s:s, s:I,"
                        " s:I, s:I, s:L, s:K, s:s, s:N}",
                        "kind", found->kind, "text", found->text, "kernel", found->kernel, "file",
                        found->file, "line", found->line, "ptx_line", found->ptx_line, "block",
                        found->block[0], found->block[1], found->block[2], "thread",
                        found->thread[0], found->thread[1], found->thread[2], "address",
                        (unsigned long long)found->address, "times",
                        (unsigned long long)found->times, "space", found->space ? found->space : "",
                        "access", found->access ? found->access : "", "bytes", found->bytes,
                        "argument", found->argument, "item", found->item, "offset",
                        (long long)found->offset, "extent", (unsigned long long)found->extent,
                        "array", found->array, "other", other)
                  : NULL;
        if (!item || PyList_Append(list, item))
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *names_list(const char *const *names) {
    PyObject *list = PyList_New(0);
    for (; list && *names; names++) {
        PyObject *name = PyUnicode_FromString(*names);
        if (!name || PyList_Append(list, name))
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

/* The layout of the events, as numpy.dtype accepts it. */
static PyObject *layout_dict(const struct device_trace *trace) {
    PyObject *names = PyList_New(0), *types = PyList_New(0), *offsets = PyList_New(0);
    int failed = !names || !types || !offsets;
    for (size_t i = 0; !failed && i < trace->field_count; i++) {
        const struct device_field *field = &trace->fields[i];
        PyObject *name = PyUnicode_FromString(field->name);
        PyObject *type = PyUnicode_FromString(field->type);
        PyObject *offset = PyLong_FromUnsignedLong(field->offset);
        failed = !name || !type || !offset || PyList_Append(names, name) ||
                 PyList_Append(types, type) || PyList_Append(offsets, offset);
        Py_XDECREF(name);
        Py_XDECREF(type);
        Py_XDECREF(offset);
    }
    PyObject *layout =
        failed ? NULL
               : Py_BuildValue("{s:O, s:O, s:O, s:n}", "names", names, "formats", types, "offsets",
                               offsets, "itemsize", (Py_ssize_t)trace->event_bytes);
    Py_XDECREF(names);
    Py_XDECREF(types);
    Py_XDECREF(offsets);
    return layout;
}

/* The events as bytes, for numpy.frombuffer. */
static PyObject *trace_dict(const struct device_trace *trace) {
    if (!trace)
        return Py_NewRef(Py_None);
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < trace->instruction_count; i++) {
        const struct device_instruction *in = &trace->instructions[i];
        PyObject *item = Py_BuildValue("(sszIII)", in->text, in->kind, in->file, in->line,
                                       in->ptx_line, in->function);
        if (!item || PyList_Append(list, item))
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    PyObject *events = PyBytes_FromStringAndSize(
        trace->events, (Py_ssize_t)(trace->event_count * trace->event_bytes));
    return Py_BuildValue("{s:(III), s:N, s:N, s:N, s:N, s:N, s:O}", "block", trace->block[0],
                         trace->block[1], trace->block[2], "events", events, "layout",
                         layout_dict(trace), "instructions", list, "spaces",
                         names_list(trace->spaces), "accesses", names_list(trace->accesses),
                         "truncated", trace->truncated ? Py_True : Py_False);
}

static PyObject *delays_list(const struct device_report *report) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < report->delay_count; i++) {
        const struct device_delay *d = &report->delays[i];
        PyObject *item =
            Py_BuildValue("(KIKzII)", (unsigned long long)d->block, d->warp,
                          (unsigned long long)d->access, d->file, d->line, d->ptx_line);
        if (!item || PyList_Append(list, item))
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *durations_bytes(const struct device_spread *spread) {
    return PyBytes_FromStringAndSize((const char *)spread->durations,
                                     (Py_ssize_t)(spread->duration_count * sizeof(uint64_t)));
}

static void tell(void *state, const struct device_report *report) {
    struct launch_receiver *receiver = state;
    if (receiver->failed)
        return;
    PyObject *launch = Py_BuildValue(
        "{s:s, s:s, s:(III), s:(III), s:I, s:I, s:I, s:I, s:I, s:s, s:d, s:N, s:N, s:N, s:N, s:N, "
        "s:N, "
        "s:(KKKKdKN), s:N}",
        "device", receiver->device, "kernel", report->kernel, "grid", report->grid[0],
        report->grid[1], report->grid[2], "block", report->block[0], report->block[1],
        report->block[2], "shared_bytes", report->shared_bytes, "registers", report->registers,
        "static_shared_bytes", report->static_shared_bytes, "warps_resident",
        report->warps_resident, "warps_most", report->warps_most, "limiter", report->limiter,
        "achieved_occupancy", report->achieved_occupancy, "output",
        PyUnicode_DecodeUTF8(report->output, (Py_ssize_t)strlen(report->output), "replace"),
        "values", values_list(report->values, receiver->ops->counter_count), "lines",
        lines_list(report, receiver->ops->counter_count), "statements",
        statements_list(report, receiver->ops->counter_count), "findings", findings_list(report),
        "trace", trace_dict(report->trace), "spread", (unsigned long long)report->spread.steps,
        (unsigned long long)report->spread.longest_steps,
        (unsigned long long)report->spread.longest_block,
        (unsigned long long)report->spread.long_blocks, report->spread.balance,
        (unsigned long long)report->spread.lone_sectors, durations_bytes(&report->spread), "delays",
        delays_list(report));
    receiver->failed = !launch;
    for (PyObject *at = receiver->recording; at != Py_None && !receiver->failed;
         at = PyTuple_GetItem(at, OUTER)) {
        PyObject *told = PyObject_CallFunctionObjArgs(PyTuple_GetItem(at, SINK), launch, NULL);
        receiver->failed = !told;
        Py_XDECREF(told);
    }
    Py_XDECREF(launch);
}

void py_recording_begin(struct py_state *state, struct ops_queue *queue) {
    struct device *device = queue->device;
    PyObject *recording = device->capabilities & DEVICE_COUNTERS ? recording_of(state) : NULL;
    device->recording = recording != NULL;
    device->collecting = recording && PyTuple_GetItem(recording, COLLECTING) == Py_True;
    device->tracing = NULL;
    if (recording && PyTuple_GetItem(recording, TRACED) != Py_None)
        device->tracing = PyCapsule_GetPointer(PyTuple_GetItem(recording, TRACED), tracing_name);
    Py_XDECREF(recording); /* the context holds it for the duration of the call */
}

int py_recording_end(struct py_state *state, struct ops_queue *queue) {
    const struct device_ops *ops = queue->device->ops;
    if (!queue->device->recording)
        return 0;
    queue->device->recording = queue->device->collecting = false;
    queue->device->tracing = NULL;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    struct launch_receiver receiver = {ops, queue->info.name, recording_of(state), 0};
    receiver.failed = !receiver.recording;
    const enum status status = ops->counters(queue->device, tell, &receiver);
    Py_XDECREF(receiver.recording);
    if (type) {
        PyErr_Restore(type, value, traceback); /* the call's own failure says more */
        return -1;
    }
    if (status)
        py_raise(state, status);
    return status || PyErr_Occurred() ? -1 : 0;
}

PyObject *py_counter_table(PyObject *module, PyObject *kind) {
    struct py_state *state = py_state_of(module);
    const struct device_ops *ops;
    const char *which, *name = py_text(kind, "kind");
    if (!name)
        return NULL;
    const enum status status = device_find("kind", name, &ops, &which);
    if (status)
        return py_raise(state, status);
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < ops->counter_count; i++) {
        const struct device_counter *counter = &ops->counter_table[i];
        PyObject *item = Py_BuildValue("(sss)", counter->name, counter->metric, counter->meaning);
        if (!item || PyList_Append(list, item))
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

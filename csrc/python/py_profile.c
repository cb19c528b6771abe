/* py_profile.c: the counters of devices that count, as dicts for gpuopt/_profile.py. */
#include "py_core.h"

#include <string.h>

/* Where the launches of one call go. */
struct telling {
    const struct device_ops *ops;
    PyObject *sink;
    int failed;
};

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

static PyObject *findings_list(const struct device_report *report) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < report->finding_count; i++) {
        const struct device_finding *found = &report->findings[i];
        PyObject *item = Py_BuildValue(
            "{s:s, s:s, s:s, s:z, s:I, s:I, s:(III), s:(III), s:K, s:K}", "kind", found->kind,
            "text", found->text, "kernel", found->kernel, "file", found->file, "line", found->line,
            "ptx_line", found->ptx_line, "block", found->block[0], found->block[1], found->block[2],
            "thread", found->thread[0], found->thread[1], found->thread[2], "address",
            (unsigned long long)found->address, "times", (unsigned long long)found->times);
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
        (const char *)trace->events, (Py_ssize_t)(trace->event_count * sizeof *trace->events));
    return Py_BuildValue("{s:(III), s:N, s:N, s:N, s:N, s:O}", "block", trace->block[0],
                         trace->block[1], trace->block[2], "events", events, "instructions", list,
                         "spaces", names_list(trace->spaces), "accesses",
                         names_list(trace->accesses), "truncated",
                         trace->truncated ? Py_True : Py_False);
}

static void tell(void *state, const struct device_report *report) {
    struct telling *telling = state;
    if (telling->failed)
        return;
    PyObject *launch = Py_BuildValue(
        "{s:s, s:s, s:(III), s:(III), s:I, s:I, s:I, s:s, s:d, s:N, s:N, s:N, s:N, s:N}", "kind",
        telling->ops->kind, "kernel", report->kernel, "grid", report->grid[0], report->grid[1],
        report->grid[2], "block", report->block[0], report->block[1], report->block[2],
        "shared_bytes", report->shared_bytes, "warps_resident", report->warps_resident,
        "warps_most", report->warps_most, "limiter", report->limiter, "achieved_occupancy",
        report->achieved_occupancy, "output",
        PyUnicode_DecodeUTF8(report->output, (Py_ssize_t)strlen(report->output), "replace"),
        "values", values_list(report->values, telling->ops->counter_count), "lines",
        lines_list(report, telling->ops->counter_count), "findings", findings_list(report), "trace",
        trace_dict(report->trace));
    PyObject *told = launch ? PyObject_CallFunctionObjArgs(telling->sink, launch, NULL) : NULL;
    telling->failed = !told;
    Py_XDECREF(launch);
    Py_XDECREF(told);
}

void py_recording_begin(struct py_state *state, struct ops_queue *queue) {
    const bool counts = queue->device->capabilities & DEVICE_COUNTERS;
    queue->device->recording = counts && state->sink;
    queue->device->collecting = counts && state->sink && state->collecting;
    queue->device->tracing = counts && state->sink && state->traces ? &state->tracing : NULL;
}

int py_recording_end(struct py_state *state, struct ops_queue *queue) {
    const struct device_ops *ops = queue->device->ops;
    if (!queue->device->recording)
        return 0;
    queue->device->recording = queue->device->collecting = false;
    queue->device->tracing = NULL;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    struct telling telling = {ops, state->sink ? Py_NewRef(state->sink) : NULL,
                              state->sink == NULL};
    const enum status status = ops->counters(queue->device, tell, &telling);
    Py_XDECREF(telling.sink);
    if (type) {
        PyErr_Restore(type, value, traceback); /* the call's own failure says more */
        return -1;
    }
    if (status)
        py_raise(state, status);
    return status || PyErr_Occurred() ? -1 : 0;
}

PyObject *py_record(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    struct py_state *state = py_state_of(module);
    if (count != 4) {
        PyErr_SetString(PyExc_TypeError,
                        "record() takes a sink, collecting, a default device and what to trace");
        return NULL;
    }
    struct device_tracing tracing = {.warp = -1};
    unsigned long long before_it, most;
    if (arguments[3] != Py_None &&
        !PyArg_ParseTuple(arguments[3], "K(III)iK", &before_it, &tracing.block[0],
                          &tracing.block[1], &tracing.block[2], &tracing.warp, &most))
        return NULL;
    if (arguments[3] != Py_None) {
        tracing.launches_before = before_it;
        tracing.most_events = most;
    }
    const char *device = py_given(arguments[2]) ? py_text(arguments[2], "device") : "";
    const int collecting = PyObject_IsTrue(arguments[1]);
    if (!device || collecting < 0)
        return NULL;
    if (*device) {
        const struct device_ops *ops;
        const char *which;
        const enum status status = device_find("device", device, &ops, &which);
        if (status)
            return py_raise(state, status);
    }
    PyObject *traced =
        state->traces && !state->tracing.done
            ? Py_BuildValue("(K(III)iK)", (unsigned long long)state->tracing.launches_before,
                            state->tracing.block[0], state->tracing.block[1],
                            state->tracing.block[2], state->tracing.warp,
                            (unsigned long long)state->tracing.most_events)
            : Py_NewRef(Py_None);
    PyObject *before =
        Py_BuildValue("(OOsN)", state->sink ? state->sink : Py_None,
                      state->collecting ? Py_True : Py_False, state->default_device, traced);
    if (!before)
        return NULL;
    PyObject *old = state->sink;
    state->sink = arguments[0] == Py_None ? NULL : Py_NewRef(arguments[0]);
    state->collecting = collecting;
    state->traces = arguments[3] != Py_None;
    state->tracing = tracing;
    PyOS_snprintf(state->default_device, sizeof state->default_device, "%s", device);
    Py_XDECREF(old);
    return before;
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

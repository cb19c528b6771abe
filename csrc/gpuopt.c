/* gpuopt.c: the thread's status record and the table of data types. Knows nothing above gpuopt.h.
 */
#include "gpuopt.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local struct status_record record;

enum status status_fail(enum status code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(record.text, sizeof record.text, format, arguments);
    va_end(arguments);
    record.bytes_asked = record.bytes_free = 0;
    record.line = record.column = 0;
    record.finding = (struct status_finding){0};
    return code;
}

enum status status_no_device_memory(const char *device, uint64_t bytes_asked, uint64_t bytes_free,
                                    const char *note) {
    status_fail(STATUS_NO_DEVICE_MEMORY,
                "%s: cannot allocate %llu bytes, %llu bytes are free%s; pass a smaller array, or "
                "device='cpu', which works in place",
                device, (unsigned long long)bytes_asked, (unsigned long long)bytes_free, note);
    record.bytes_asked = bytes_asked;
    record.bytes_free = bytes_free;
    return STATUS_NO_DEVICE_MEMORY;
}

enum status status_ptx_error(unsigned line, unsigned column, const char *text) {
    status_fail(STATUS_PTX_ERROR, "%s", text);
    record.line = line;
    record.column = column;
    return STATUS_PTX_ERROR;
}

enum status status_sim_finding(const struct status_finding *finding) {
    status_fail(STATUS_SIM_ERROR, "%s", finding->text);
    snprintf(record.kernel, sizeof record.kernel, "%s", finding->kernel);
    snprintf(record.file, sizeof record.file, "%s", finding->file ? finding->file : "");
    record.finding = *finding;
    record.finding.text = record.text;
    record.finding.kernel = record.kernel;
    record.finding.file = finding->file ? record.file : NULL;
    record.finding.array = "";
    record.finding.other_file = NULL;
    return STATUS_SIM_ERROR;
}

const struct status_record *status_last(void) { return &record; }

static const struct {
    const char *name;
    size_t size;
} dtypes[DTYPE_COUNT] = {
#define DTYPE(name, bytes) {#name, bytes},
    GPUOPT_DTYPES(DTYPE)
#undef DTYPE
};

size_t dtype_size(enum dtype dtype) { return dtypes[dtype].size; }
const char *dtype_name(enum dtype dtype) { return dtypes[dtype].name; }

/* sim_record.c: what launches left behind, in the terms of device.h. */
#include "sim_record.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct device_counter sim_record_counters[SIM_RECORD_COUNTERS] = {
#define SIM_X(field, metric, meaning) {#field, metric, meaning},
    SIM_COUNTERS(SIM_X)
#undef SIM_X
};

static const char *const trace_spaces[] = {
#define SIM_X(name) #name,
    SIM_TRACE_SPACES(SIM_X) NULL
#undef SIM_X
};
static const char *const trace_accesses[] = {
#define SIM_X(name) #name,
    SIM_TRACE_ACCESSES(SIM_X) NULL
#undef SIM_X
};
#define FIELD(name, type) \
    { #name, type, offsetof(struct sim_event, name) }
static const struct device_field event_fields[] = {
    FIELD(address, "(32,)u8"), FIELD(base, "u8"), FIELD(instruction, "u4"), FIELD(warp, "u4"),
    FIELD(active, "u4"),       FIELD(mask, "u4"), FIELD(bytes, "u4"),       FIELD(space, "u1"),
    FIELD(access, "u1"),       FIELD(part, "u1"),
};
#undef FIELD

struct sim_record *sim_record_new(const struct device_launch *launch,
                                  const struct sim_kernel_info *info, struct sim_report *report) {
    struct sim_record *record = malloc(sizeof *record);
    if (!record) {
        sim_report_free(report); /* one report fewer; the launch itself is correct */
        return NULL;
    }
    *record = (struct sim_record){.report = report,
                                  .shared_bytes = launch->shared_bytes,
                                  .registers = info->registers,
                                  .static_shared_bytes = info->shared_bytes};
    memcpy(record->grid, launch->grid, sizeof record->grid);
    memcpy(record->block, launch->block, sizeof record->block);
    snprintf(record->kernel, sizeof record->kernel, "%s", info->name);
    return record;
}

void sim_record_free(struct sim_record *record) {
    sim_report_free(record->report);
    free(record);
}

struct status_finding sim_record_finding(const struct sim_finding *found) {
    return (struct status_finding){
        .kind = sim_finding_text(found->kind),
        .text = found->text,
        .kernel = found->kernel,
        .file = found->file,
        .line = found->line,
        .ptx_line = found->ptx_line,
        .block = {found->block[0], found->block[1], found->block[2]},
        .thread = {found->thread[0], found->thread[1], found->thread[2]},
        .address = found->address,
        .times = found->times,
        .space = found->space,
        .access = found->access,
        .bytes = found->bytes,
        .argument = found->argument,
        .item = found->item,
        .offset = found->offset,
        .extent = found->extent,
        .array = found->array,
        .other_access = found->has_other ? found->other_access : NULL,
        .other_file = found->other_file,
        .other_line = found->other_line,
        .other_ptx_line = found->other_ptx_line,
        .other_block = {found->other_block[0], found->other_block[1], found->other_block[2]},
        .other_thread = {found->other_thread[0], found->other_thread[1], found->other_thread[2]},
    };
}

static void describe_trace(const struct sim_trace *from, struct device_instruction *instructions,
                           struct device_trace *to) {
    for (size_t i = 0; i < from->instruction_count; i++) {
        const struct sim_instruction *in = &from->instructions[i];
        instructions[i] = (struct device_instruction){in->text, in->kind,     in->file,
                                                      in->line, in->ptx_line, in->function};
    }
    *to = (struct device_trace){
        .block = {from->block[0], from->block[1], from->block[2]},
        .events = from->events,
        .event_count = from->event_count,
        .event_bytes = sizeof *from->events,
        .fields = event_fields,
        .field_count = sizeof event_fields / sizeof *event_fields,
        .instructions = instructions,
        .instruction_count = from->instruction_count,
        .spaces = trace_spaces,
        .accesses = trace_accesses,
        .truncated = from->truncated,
    };
}

static struct device_line line_of(const struct sim_line *line) {
    return (struct device_line){line->file, line->line, line->ptx_line, line->text,
                                (const uint64_t *)&line->counters};
}

/* All but the arrays. */
static struct device_report summary_of(const struct sim_record *record) {
    const struct sim_occupancy *occupancy = sim_report_occupancy(record->report);
    const struct sim_spread *spread = sim_report_spread(record->report);
    return (struct device_report){
        .kernel = record->kernel,
        .grid = {record->grid[0], record->grid[1], record->grid[2]},
        .block = {record->block[0], record->block[1], record->block[2]},
        .shared_bytes = record->shared_bytes,
        .registers = record->registers,
        .static_shared_bytes = record->static_shared_bytes,
        .warps_resident = occupancy->warps_per_sm,
        .warps_most = occupancy->max_warps_per_sm,
        .limiter = occupancy->limiter,
        .output = sim_report_output(record->report),
        .achieved_occupancy = sim_report_achieved_occupancy(record->report),
        .spread = {spread->steps, spread->longest_steps, spread->longest_block, spread->long_blocks,
                   spread->balance, spread->lone_sectors, spread->durations,
                   spread->duration_count},
        .values = (const uint64_t *)sim_report_counters(record->report),
    };
}

static struct device_delay delay_of(const struct sim_delay *delay) {
    return (struct device_delay){delay->block, delay->access,   delay->warp,
                                 delay->line,  delay->ptx_line, delay->file};
}

enum status sim_record_report(const struct sim_record *record, device_report_function each,
                              void *state) {
    const struct sim_line *sim_lines, *sim_statements;
    const struct sim_finding *sim_findings;
    const size_t line_count = sim_report_lines(record->report, &sim_lines);
    const size_t statement_count = sim_report_statements(record->report, &sim_statements);
    const size_t finding_count = sim_report_findings(record->report, &sim_findings);
    struct device_line *lines = calloc(line_count + statement_count + 1, sizeof *lines);
    struct status_finding *findings = calloc(finding_count + 1, sizeof *findings);
    const struct sim_trace *traced = sim_report_trace(record->report);
    struct device_trace trace;
    struct device_instruction *instructions =
        calloc((traced ? traced->instruction_count : 0) + 1, sizeof *instructions);
    const struct sim_delay *sim_delays;
    const size_t delay_count = sim_report_delays(record->report, &sim_delays);
    struct device_delay *delays = calloc(delay_count + 1, sizeof *delays);
    enum status status = STATUS_OK;
    if (!lines || !findings || !instructions || !delays) {
        status = status_fail(STATUS_NO_HOST_MEMORY, "sim: no memory for a report");
        goto done;
    }
    for (size_t i = 0; i < line_count; i++)
        lines[i] = line_of(&sim_lines[i]);
    for (size_t i = 0; i < statement_count; i++)
        lines[line_count + i] = line_of(&sim_statements[i]);
    for (size_t i = 0; i < finding_count; i++)
        findings[i] = sim_record_finding(&sim_findings[i]);
    for (size_t i = 0; i < delay_count; i++)
        delays[i] = delay_of(&sim_delays[i]);
    if (traced)
        describe_trace(traced, instructions, &trace);
    struct device_report report = summary_of(record);
    report.lines = lines;
    report.line_count = line_count;
    report.statements = lines + line_count;
    report.statement_count = statement_count;
    report.findings = findings;
    report.finding_count = finding_count;
    report.trace = traced ? &trace : NULL;
    report.delays = delays;
    report.delay_count = delay_count;
    each(state, &report);
done:
    free(delays);
    free(lines);
    free(findings);
    free(instructions);
    return status;
}

/* sim_record.h: launches whose reports wait for counters(), handed over in the terms of device.h.
 */
#ifndef GPUOPT_SIM_RECORD_H
#define GPUOPT_SIM_RECORD_H

#include "../device.h"
#include "../sim/sim.h"

enum { SIM_RECORD_COUNTERS = sizeof(struct sim_counters) / sizeof(uint64_t) };

extern const struct device_counter sim_record_counters[SIM_RECORD_COUNTERS];

/* A launch that counters() has not reported yet. */
struct sim_record {
    struct sim_record *next;
    struct sim_report *report;
    char kernel[128];
    unsigned grid[3], block[3], shared_bytes, registers, static_shared_bytes;
};

/* Takes the report over. NULL: no memory, and the report is freed. */
struct sim_record *sim_record_new(const struct device_launch *launch,
                                  const struct sim_kernel_info *info, struct sim_report *report);
void sim_record_free(struct sim_record *record);

/* The texts are the report's. */
struct status_finding sim_record_finding(const struct sim_finding *found);

/* Calls `each` with the launch's report. */
enum status sim_record_report(const struct sim_record *record, device_report_function each,
                              void *state);

#endif

/* devices.h: facts about the kinds of devices beyond the contract of device.h. */
#ifndef GPUOPT_DEVICES_H
#define GPUOPT_DEVICES_H

#include "device.h"

struct devices_about {
    int cuda_toolkit, cuda_driver;   /* 13000 for 13.0; the driver's is 0 where it is unknown */
    const char *cuda_library;        /* the opened library, or NULL */
    const char *cpu_instruction_set; /* used by the cpu's kernels */
};

/* Never starts CUDA. Fails where GPUOPT_CPU_ISA names no instruction set of this CPU. */
enum status devices_about(struct devices_about *about);

/* Memory that simulated GPUs of this process still held when their queues were closed. */
void devices_leaks(uint64_t *count, uint64_t *bytes);

/* Totals of all simulated GPUs of this process: allocations, bytes and copies in, and out. */
enum { DEVICES_TRAFFIC = 5 };
void devices_traffic(uint64_t totals[DEVICES_TRAFFIC]);

/* The launch that a simulated GPU of this process runs; of several, any. */
void devices_progress(struct device_progress *progress);

/* Calls `found` for each kernel of a PTX text, for any device, and for the kernel's parameters. */
enum status devices_ptx_entries(const char *ptx, size_t bytes, device_entry_function *found,
                                void *state);

#endif

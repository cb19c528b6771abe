/* devices.h: what is told of the kinds of devices besides the contract of device.h. */
#ifndef GPUOPT_DEVICES_H
#define GPUOPT_DEVICES_H

#include "gpuopt.h"

struct devices_about {
    int cuda_toolkit, cuda_driver; /* 13000 for 13.0; the driver's is 0 where it cannot be asked */
    const char *cuda_library;      /* that was opened, or NULL */
    const char *cpu_instruction_set; /* that the cpu's kernels use */
};

/* Never starts CUDA. Fails where GPUOPT_CPU_ISA names no instruction set of this CPU. */
enum status devices_about(struct devices_about *about);

/* What simulated GPUs of this process still had when their queues were closed. */
void devices_leaks(uint64_t *count, uint64_t *bytes);

#endif

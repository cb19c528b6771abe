/* cpu_device.h: the CPU behind the contract of device.h: C and threads, arrays used in place. */
#ifndef GPUOPT_CPU_DEVICE_H
#define GPUOPT_CPU_DEVICE_H

#include "../../device.h"

extern const struct device_ops cpu_device_ops;

#endif

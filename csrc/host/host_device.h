/* host_device.h: the CPU behind the contract of device.h: C and OpenMP, arrays used in place. */
#ifndef GPUOPT_HOST_DEVICE_H
#define GPUOPT_HOST_DEVICE_H

#include "../device.h"

extern const struct device_ops host_device_ops;

#endif

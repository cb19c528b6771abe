/* cuda_device.h: NVIDIA GPUs behind the contract of device.h, through the driver API. */
#ifndef GPUOPT_CUDA_DEVICE_H
#define GPUOPT_CUDA_DEVICE_H

#include "../../device.h"

extern const struct device_ops cuda_device_ops;

/* For show_config: 13000 for 13.0, 0 where unknown; never starts CUDA. */
int cuda_toolkit_version(void);
int cuda_driver_version(const char **library);

#endif

/* cuda_driver.h: NVIDIA's driver, opened at run time. Nothing links to CUDA, and nothing is opened
 * before cuda_driver_start() is called. Knows no device contract.
 */
#ifndef GPUOPT_CUDA_DRIVER_H
#define GPUOPT_CUDA_DRIVER_H

#include "../../gpuopt.h"

#include <cuda.h>
#include <cudaTypedefs.h>

#if CUDA_VERSION < 12050
typedef CUresult(CUDAAPI *PFN_cuCtxRecordEvent_v12050)(CUcontext context, CUevent event);
#endif

struct cuda_driver {
#define CU(name, version) PFN_##name##_v##version name;
#include "cuda_driver.def"
#undef CU
    int version; /* 13000 for 13.0: the newest CUDA that the driver supports */
    int device_count;
    const char *library; /* name of the opened library */
};

extern struct cuda_driver cuda; /* valid once cuda_driver_start() has returned STATUS_OK */

/* Opens the driver and counts its GPUs, once for the process; later calls return the same status.
 * Creates no context. Fails with the reason and the fix: no driver, too old, no GPU, or forked
 * since. */
enum status cuda_driver_start(void);
/* True in a child of a process that had started CUDA: no CUDA call is allowed there. */
bool cuda_driver_forked(void);

/* Returns STATUS_OK, or fails with the names of the call and the error. A fault that CUDA cannot
 * recover from is STATUS_DEVICE_LOST. */
enum status cuda_check(CUresult result, const char *call);

#endif

/* cuda_driver.c: opens libcuda, resolves the entry points of cuda_driver.def, translates errors.
 * Creates no context and knows no device contract. */
#include "cuda_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_VERSION = 12040 }; /* entry points of cuda_driver.def that are newer are optional */

#define ADVICE "install NVIDIA's driver 550 (CUDA 12.4) or later, or use device='cpu'"

struct cuda_driver cuda;

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static bool tried;
static enum status outcome;
static char reason[1024];
static bool forked;

/* Set within start() of this thread: the driver may start programs of its own by a fork. */
static _Thread_local bool starting;

/* Blocks other forks while CUDA starts, so that a child finds the lock free. */
static void before_fork(void) {
    if (!starting)
        pthread_mutex_lock(&start_lock);
}
static void in_parent(void) {
    if (!starting)
        pthread_mutex_unlock(&start_lock);
}
static void in_child(void) {
    forked = starting || (tried && outcome == STATUS_OK);
    in_parent();
}
static void watch_forks(void) { pthread_atfork(before_fork, in_parent, in_child); }

/* Resolves each entry point at its version through the driver's cuGetProcAddress. */
static enum status resolve(void *library) {
    PFN_cuGetProcAddress_v12000 get = NULL;
    void *symbol = dlsym(library, "cuGetProcAddress_v2");
    memcpy(&get, &symbol,
           sizeof get); /* ISO C cannot cast an object pointer to a function pointer */
    if (!get)
        return status_fail(STATUS_DEVICE_ERROR,
                           "cuda: the driver in %s is older than CUDA 12; " ADVICE, cuda.library);
    const struct {
        const char *name;
        int version;
        void *slot;
    } symbols[] = {
#define CU(name, version) {#name, version, &cuda.name},
#include "cuda_driver.def"
#undef CU
    };
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *function = NULL;
        CUdriverProcAddressQueryResult found;
        if ((get(symbols[i].name, &function, symbols[i].version, CU_GET_PROC_ADDRESS_DEFAULT,
                 &found) ||
             !function) &&
            symbols[i].version <= LEAST_VERSION)
            return status_fail(STATUS_DEVICE_ERROR, "cuda: the driver in %s lacks %s; " ADVICE,
                               cuda.library, symbols[i].name);
        memcpy(symbols[i].slot, &function, sizeof function);
    }
    return STATUS_OK;
}

static enum status start(void) {
    const char *chosen = getenv("GPUOPT_CUDA_DRIVER");
    const char *name = chosen && *chosen ? chosen : "libcuda.so.1";
    static char library_name[256];
    snprintf(library_name, sizeof library_name, "%s", name);
    cuda.library = library_name;

    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return status_fail(STATUS_DEVICE_ERROR, "cuda: no NVIDIA driver here (%.200s); " ADVICE,
                           dlerror());
    enum status status = resolve(library);
    if (!status)
        status = cuda_check(cuda.cuDriverGetVersion(&cuda.version), "cuDriverGetVersion");
    if (!status && cuda.version < LEAST_VERSION)
        status = status_fail(STATUS_DEVICE_ERROR, "cuda: the driver serves CUDA %d.%d; " ADVICE,
                             cuda.version / 1000, cuda.version % 1000 / 10);
    if (!status) {
        const CUresult result = cuda.cuInit(0);
        if (result == CUDA_ERROR_NO_DEVICE)
            status = status_fail(STATUS_DEVICE_ERROR,
                                 "cuda: the driver finds no GPU (CUDA_ERROR_NO_DEVICE); check "
                                 "nvidia-smi and CUDA_VISIBLE_DEVICES, or use device='cpu'");
        else
            status = cuda_check(result, "cuInit");
    }
    if (!status)
        status = cuda_check(cuda.cuDeviceGetCount(&cuda.device_count), "cuDeviceGetCount");
    if (!status && cuda.device_count == 0)
        status =
            status_fail(STATUS_DEVICE_ERROR, "cuda: the driver sees no GPU; check nvidia-smi and "
                                             "CUDA_VISIBLE_DEVICES, or use device='cpu'");
    return status;
}

enum status cuda_driver_start(void) {
    if (forked)
        return status_fail(
            STATUS_FORKED,
            "cuda: this process was forked after CUDA was started, which CUDA does not "
            "support; use the 'spawn' start method of multiprocessing, or "
            "device='cpu'");
    static pthread_once_t watching = PTHREAD_ONCE_INIT;
    pthread_once(&watching, watch_forks);
    pthread_mutex_lock(&start_lock);
    if (!tried) {
        starting = true;
        outcome = start();
        starting = false;
        snprintf(reason, sizeof reason, "%s", outcome ? status_last()->text : "");
        tried = true;
    }
    pthread_mutex_unlock(&start_lock);
    return outcome ? status_fail(outcome, "%s", reason) : STATUS_OK;
}

bool cuda_driver_forked(void) { return forked; }

/* After these errors every call on the context fails until the process ends. */
static bool is_sticky(CUresult result) {
    switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
        return true;
    default:
        return false;
    }
}

enum status cuda_check(CUresult result, const char *call) {
    if (result == CUDA_SUCCESS)
        return STATUS_OK;
    const char *name = NULL, *text = NULL;
    cuda.cuGetErrorName(result, &name);
    cuda.cuGetErrorString(result, &text);
    if (is_sticky(result))
        return status_fail(STATUS_DEVICE_LOST,
                           "cuda: %s failed with %s (%s): CUDA does not recover from it in this "
                           "process; restart it, or go on with device='cpu'",
                           call, name ? name : "an unknown error", text ? text : "no text");
    if (result == CUDA_ERROR_OUT_OF_MEMORY) /* of any call: the driver needs memory for it */
        return status_fail(STATUS_NO_DEVICE_MEMORY,
                           "cuda: %s failed with %s (%s): the GPU's memory is full; free arrays, "
                           "end other programs on it, or use device='cpu'",
                           call, name ? name : "an unknown error", text ? text : "no text");
    return status_fail(STATUS_DEVICE_ERROR, "cuda: %s failed with %s (%s)", call,
                       name ? name : "an unknown error", text ? text : "no text");
}

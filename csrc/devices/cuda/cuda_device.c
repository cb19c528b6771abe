/* cuda_device.c: the CUDA device: opens and closes GPUs and queues; modules, time.
 * Launches are in cuda_launch.c, memory and copies in cuda_memory.c, streams in cuda_stream.c.
 * Knows no kernel and no Python.
 */
#include "cuda_device.h"
#include "cuda_queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    GPU_MAX = 64,
    CAPABILITIES = DEVICE_KERNELS | DEVICE_TIMER | DEVICE_STREAMS | DEVICE_TEXTURES,
};

static struct gpu gpus[GPU_MAX];
static pthread_mutex_t gpus_lock = PTHREAD_MUTEX_INITIALIZER;

int cuda_toolkit_version(void) { return CUDA_VERSION; }

int cuda_driver_version(const char **library) {
    *library = cuda.library;
    return cuda.version;
}

/* Grants peer GPUs access to the memory pool, which is separate from access between contexts:
 * without it no other library could copy one of our arrays to its GPU, and our own copies between
 * GPUs would pass through the host. Failure is harmless. */
static void pool_share(const struct gpu *gpu) {
    for (int other = 0; other < cuda.device_count; other++) {
        CUmemAccessDesc access = {
            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
            .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        int can = 0;
        if (other != gpu->ordinal && !cuda.cuDeviceGet(&access.location.id, other) &&
            !cuda.cuDeviceCanAccessPeer(&can, access.location.id, gpu->device) && can)
            cuda.cuMemPoolSetAccess(gpu->pool, &access, 1);
    }
}

static enum status pool_open(struct gpu *gpu) {
    const CUmemPoolProps properties = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = gpu->device},
    };
    size_t total = 0;
    enum status status = STATUS_OK;
    if (!gpu->pool)
        status = cuda_check(cuda.cuMemPoolCreate(&gpu->pool, &properties), "cuMemPoolCreate");
    if (!status)
        status = cuda_check(cuda.cuDeviceTotalMem(&total, gpu->device), "cuDeviceTotalMem");
    if (!status) {
        /* Keep up to an eighth of the memory for later calls; the rest returns to the system. */
        cuuint64_t keep = total / 8;
        status = cuda_check(
            cuda.cuMemPoolSetAttribute(gpu->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep),
            "cuMemPoolSetAttribute");
    }
    if (!status)
        pool_share(gpu);
    return status;
}

static enum status read_capability(struct gpu *gpu) {
    int major = 0, minor = 0;
    enum status status =
        cuda_check(cuda.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                             gpu->device),
                   "cuDeviceGetAttribute");
    if (!status)
        status = cuda_check(cuda.cuDeviceGetAttribute(
                                &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, gpu->device),
                            "cuDeviceGetAttribute");
    gpu->compute_capability = major * 10 + minor;
    return status;
}

/* After failure, a retry resumes with the resources already acquired. */
static enum status gpu_prepare(struct gpu *gpu) {
    enum status status = cuda_check(cuda.cuDeviceGet(&gpu->device, gpu->ordinal), "cuDeviceGet");
    if (!status)
        status = read_capability(gpu);
    if (!status && !gpu->kernels)
        gpu->kernels = calloc(gpuopt_kernel_count, sizeof *gpu->kernels);
    if (!status && !gpu->modules)
        gpu->modules = calloc(gpuopt_image_count, sizeof *gpu->modules);
    if (!status && (!gpu->kernels || !gpu->modules))
        status = status_fail(STATUS_NO_HOST_MEMORY, "cuda: no memory for a table of kernels");
    if (!status && !gpu->context)
        status = cuda_check(cuda.cuDevicePrimaryCtxRetain(&gpu->context, gpu->device),
                            "cuDevicePrimaryCtxRetain");
    if (status || (status = cuda_enter(gpu)))
        return status;
    return cuda_leave(gpu, pool_open(gpu));
}

static enum status gpu_get(const char *which, struct gpu **found) {
    int ordinal = 0;
    enum status status = cuda_driver_start();
    if (!status)
        status = device_ordinal("cuda", which, cuda.device_count, &ordinal);
    if (!status && ordinal >= GPU_MAX)
        status = status_fail(STATUS_BAD_VALUE, "device: gpuopt supports only the first %d GPUs",
                             GPU_MAX);
    if (status)
        return status;
    struct gpu *gpu = &gpus[ordinal];
    pthread_mutex_lock(&gpus_lock);
    if (!gpu->ready) {
        gpu->ordinal = ordinal;
        const CUstreamCaptureMode mode = cuda_relax();
        status = gpu_prepare(gpu);
        cuda_undo_relax(mode);
        if (!status) {
            pthread_mutex_init(&gpu->lock, NULL);
            pthread_mutex_init(&gpu->rings[0].lock, NULL);
            pthread_mutex_init(&gpu->rings[1].lock, NULL);
            gpu->ready = true;
        }
    }
    pthread_mutex_unlock(&gpus_lock);
    *found = gpu;
    return status;
}

/* --- count, open, close, info */

static enum status cuda_count(int *count) {
    const enum status status = cuda_driver_start();
    *count = status ? 0 : cuda.device_count;
    return status;
}

static void cuda_close(struct device *device) {
    struct queue *queue = queue_of(device);
    if (!cuda_enter(queue->gpu)) { /* else the driver has freed everything, or the process forked */
        cuda.cuStreamSynchronize(queue->stream);
        cuda_staging_close(queue);
        while (queue->textures)
            cuda_texture_end(&queue->textures);
        if (queue->begin)
            cuda.cuEventDestroy(queue->begin);
        if (queue->end)
            cuda.cuEventDestroy(queue->end);
        if (queue->mark)
            cuda.cuEventDestroy(queue->mark);
        if (queue->seen)
            cuda.cuEventDestroy(queue->seen);
        if (queue->own)
            cuda.cuStreamDestroy(queue->own);
        cuda_leave(queue->gpu, STATUS_OK);
    }
    while (queue->textures) { /* of a lost context */
        struct texture *texture = queue->textures;
        queue->textures = texture->next;
        free(texture);
    }
    free(queue);
}

static enum status cuda_open(const char *which, struct device **opened) {
    struct gpu *gpu;
    enum status status = gpu_get(which, &gpu);
    if (status || (status = cuda_enter(gpu)))
        return status;
    struct queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return cuda_leave(gpu, status_fail(STATUS_NO_HOST_MEMORY, "cuda: no memory for a queue"));
    queue->device.ops = &cuda_device_ops;
    queue->device.capabilities = CAPABILITIES;
    queue->gpu = gpu;
    const CUstreamCaptureMode mode = cuda_relax();
    CUresult result = cuda.cuStreamCreate(&queue->own, CU_STREAM_NON_BLOCKING);
    if (cuda_makes_room(gpu, CU_STREAM_LEGACY, result))
        result = cuda.cuStreamCreate(&queue->own, CU_STREAM_NON_BLOCKING);
    status = cuda_check(result, "cuStreamCreate");
    queue->stream = queue->own;
    if (!status)
        status =
            cuda_check(cuda.cuEventCreate(&queue->mark, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    if (!status)
        status =
            cuda_check(cuda.cuEventCreate(&queue->seen, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    if (!status)
        status = cuda_check(cuda.cuEventCreate(&queue->begin, CU_EVENT_DEFAULT), "cuEventCreate");
    if (!status)
        status = cuda_check(cuda.cuEventCreate(&queue->end, CU_EVENT_DEFAULT), "cuEventCreate");
    for (int i = 0; i < STAGING_BUFFERS && !status; i++)
        status = cuda_check(cuda.cuEventCreate(&queue->staging[i].done, CU_EVENT_DISABLE_TIMING),
                            "cuEventCreate");
    cuda_undo_relax(mode);
    cuda_leave(gpu, status);
    if (status)
        cuda_close(&queue->device);
    else
        *opened = &queue->device;
    return status;
}

static enum status cuda_info(const char *which, struct device_info *info) {
    struct gpu *gpu;
    enum status status = gpu_get(which, &gpu);
    if (status || (status = cuda_enter(gpu)))
        return status;
    int cache = 0;
    const struct {
        CUdevice_attribute attribute;
        int *value;
    } attributes[] = {
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &info->multiprocessors},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, &info->threads_per_multiprocessor},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &info->threads_per_block},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &info->shared_per_block},
        {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, &info->clock_khz},
        {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, &info->memory_clock_khz},
        {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, &info->memory_bus_bits},
        {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &cache},
    };
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes && !status; i++)
        status = cuda_check(
            cuda.cuDeviceGetAttribute(attributes[i].value, attributes[i].attribute, gpu->device),
            "cuDeviceGetAttribute");
    snprintf(info->name, sizeof info->name, "cuda:%d", gpu->ordinal);
    info->capabilities = CAPABILITIES;
    info->cache_bytes = (uint64_t)cache;
    info->memory_rate =
        (uint64_t)info->memory_clock_khz * 2000 * (unsigned)info->memory_bus_bits / 8;
    info->compute_capability = gpu->compute_capability;
    return cuda_leave(gpu, status);
}

static enum status cuda_about(const char *which, struct device_about *about) {
    struct gpu *gpu;
    enum status status = gpu_get(which, &gpu);
    if (status || (status = cuda_enter(gpu)))
        return status;
    size_t free_bytes = 0, total_bytes = 0;
    status = cuda_check(cuda.cuMemGetInfo(&free_bytes, &total_bytes), "cuMemGetInfo");
    if (!status)
        status = cuda_check(
            cuda.cuDeviceGetName(about->description, sizeof about->description, gpu->device),
            "cuDeviceGetName");
    cuuint64_t used = 0;
    if (!status)
        status = cuda_check(
            cuda.cuMemPoolGetAttribute(gpu->pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used),
            "cuMemPoolGetAttribute");
    about->memory_free = free_bytes;
    about->memory_used = used;
    about->memory_total = total_bytes;
    return cuda_leave(gpu, status);
}

/* --- modules, kernels, launches */

/* Quotes the driver's compiler: its log has lines such as "ptxas application ptx input, line 7;
 * error   : ...". */
static enum status compiler_error(const struct gpu *gpu, CUresult result, const char *log) {
    const char *name = NULL, *line = strstr(log, ", line ");
    char text[900];
    unsigned number = 0;
    cuda.cuGetErrorName(result, &name);
    if (line)
        number = (unsigned)strtoul(line + strlen(", line "), NULL, 10);
    if (!*log && result == CUDA_ERROR_NO_BINARY_FOR_GPU)
        log = "its .target is newer than this GPU";
    if (!*log && result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
        log = "its .version is newer than this driver; compile with an older toolkit or update the "
              "driver";
    snprintf(text, sizeof text, "cuda:%d: the driver's compiler rejects the PTX (%s): %s",
             gpu->ordinal, name ? name : "an unknown error", log);
    for (size_t length = strlen(text); length && (text[length - 1] == '\n'); length--)
        text[length - 1] = 0;
    return status_ptx_error(number, 0, text);
}

/* Loads a user's PTX, which the driver compiles. */
static enum status load_ptx(const struct gpu *gpu, const char *ptx, CUmodule *module) {
    char log[600] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
    const CUresult result = cuda.cuModuleLoadDataEx(module, ptx, 2, options, values);
    switch (result) {
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_INVALID_SOURCE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
        return compiler_error(gpu, result, log);
    default:
        return cuda_check(result, "cuModuleLoadDataEx");
    }
}

static enum status cuda_module_load(struct device *device, const char *ptx, size_t bytes,
                                    struct device_module **module) {
    struct gpu *gpu = queue_of(device)->gpu;
    struct device_module *made = calloc(1, sizeof *made);
    (void)bytes; /* the driver stops at the NUL */
    *module = NULL;
    if (!made)
        return status_fail(STATUS_NO_HOST_MEMORY, "cuda: no memory for a module");
    enum status status = cuda_enter(gpu);
    if (!status)
        status = cuda_leave(gpu, load_ptx(gpu, ptx, &made->module));
    if (status)
        free(made);
    else
        *module = made;
    return status;
}

static void cuda_module_unload(struct device *device, struct device_module *module) {
    struct queue *queue = queue_of(device);
    if (!cuda_enter(queue->gpu)) {               /* a lost context has unloaded it */
        cuda.cuStreamSynchronize(queue->stream); /* a kernel of an interrupted call may still run */
        cuda.cuModuleUnload(module->module);
        cuda_leave(queue->gpu, STATUS_OK);
    }
    for (struct device_kernel *kernel = module->kernels, *next; kernel; kernel = next) {
        next = kernel->next;
        free(kernel);
    }
    free(module);
}

/* --- embedded kernels: machine code where it exists for the GPU, else PTX */

/* Finds a kernel in its image's module, which is loaded from `code` unless it was before. Leaves
 * the function NULL where there is neither, or where the driver refuses the code. */
static enum status load_code(struct gpu *gpu, const struct image_kernel *row, const char *code,
                             struct device_kernel *kernel) {
    CUmodule *module = &gpu->modules[row->image - gpuopt_images];
    if (!*module && code) {
        const CUresult result = cuda.cuModuleLoadData(module, code);
        gpu->refuses_code =
            result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_INVALID_IMAGE;
        if (result && !gpu->refuses_code)
            return cuda_check(result, "cuModuleLoadData");
    }
    if (!*module || kernel->function)
        return STATUS_OK;
    kernel->overlaps = gpu->compute_capability >= 90; /* such code was compiled for 9.0 or later */
    return cuda_check(cuda.cuModuleGetFunction(&kernel->function, *module, row->symbol),
                      "cuModuleGetFunction");
}

/* Compiles one kernel's PTX; the driver caches the result on disk. */
static enum status load_text(struct gpu *gpu, const struct image_kernel *row,
                             enum ptx_target target, const char *ptx,
                             struct device_kernel *kernel) {
    CUmodule module = NULL;
    const CUresult result = cuda.cuModuleLoadData(&module, ptx);
    if (result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_INVALID_PTX ||
        result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION || result == CUDA_ERROR_JIT_COMPILER_NOT_FOUND)
        return status_fail(STATUS_DEVICE_ERROR,
                           "cuda:%d: the driver cannot use gpuopt's machine code nor compile its "
                           "PTX (kernel %s); gpuopt needs compute capability 7.5 or later, and "
                           "GPUOPT_CUDA_ARCHS sets the architectures to build",
                           gpu->ordinal, row->symbol);
    enum status status = cuda_check(result, "cuModuleLoadData");
    if (!status)
        status = cuda_check(cuda.cuModuleGetFunction(&kernel->function, module, row->symbol),
                            "cuModuleGetFunction");
    kernel->overlaps = target == PTX_90;
    return status;
}

static enum status embedded_kernel(struct gpu *gpu, const char *symbol,
                                   struct device_kernel **found) {
    const struct image_kernel *row;
    enum status status = gpuopt_kernel_of(symbol, &row);
    if (status)
        return status;
    const enum ptx_target target = gpuopt_ptx_target(row, gpu->compute_capability);
    struct device_kernel *kernel = *found = &gpu->kernels[row - gpuopt_kernels];
    const CUstreamCaptureMode mode = cuda_relax();
    pthread_mutex_lock(&gpu->lock);
    status = load_code(gpu, row, NULL, kernel);
    bool missing = !status && !kernel->function;
    const bool readable = !gpu->refuses_code && cuda.version / 1000 >= CUDA_VERSION / 1000;
    pthread_mutex_unlock(&gpu->lock);
    char *code = NULL, *ptx = NULL; /* read without the lock, as device.h requires */
    size_t bytes;
    if (missing && readable)
        status = gpuopt_kernel_code(row, gpu->compute_capability, &code, &bytes);
    if (code) {
        pthread_mutex_lock(&gpu->lock);
        status = load_code(gpu, row, code, kernel);
        missing = !kernel->function;
        pthread_mutex_unlock(&gpu->lock);
        free(code);
    }
    if (missing && !status)
        status = gpuopt_kernel_ptx(row, target, &ptx, &bytes);
    if (ptx) {
        pthread_mutex_lock(&gpu->lock);
        if (!kernel->function)
            status = load_text(gpu, row, target, ptx, kernel);
        pthread_mutex_unlock(&gpu->lock);
        free(ptx);
    }
    cuda_undo_relax(mode);
    return status;
}

/* Finds a kernel of a user's module; equal names share one struct. */
static enum status user_kernel(struct gpu *gpu, struct device_module *module, const char *symbol,
                               struct device_kernel **found) {
    CUfunction function = NULL;
    enum status status = cuda_check(cuda.cuModuleGetFunction(&function, module->module, symbol),
                                    "cuModuleGetFunction");
    if (status)
        return status;
    pthread_mutex_lock(&gpu->lock);
    struct device_kernel *kernel = module->kernels;
    while (kernel && kernel->function != function)
        kernel = kernel->next;
    if (!kernel && (kernel = calloc(1, sizeof *kernel))) {
        kernel->function = function;
        kernel->next = module->kernels;
        module->kernels = kernel;
    }
    pthread_mutex_unlock(&gpu->lock);
    *found = kernel;
    return kernel ? STATUS_OK : status_fail(STATUS_NO_HOST_MEMORY, "cuda: no memory for a kernel");
}

static enum status cuda_kernel_get(struct device *device, struct device_module *module,
                                   const char *symbol, struct device_kernel **kernel) {
    struct gpu *gpu = queue_of(device)->gpu;
    enum status status = cuda_enter(gpu);
    if (status)
        return status;
    *kernel = NULL;
    return cuda_leave(gpu, module ? user_kernel(gpu, module, symbol, kernel)
                                  : embedded_kernel(gpu, symbol, kernel));
}

static enum status cuda_module_variable(struct device *device, struct device_module *module,
                                        const char *name, device_address *address, size_t *bytes) {
    struct gpu *gpu = queue_of(device)->gpu;
    CUdeviceptr found = 0;
    enum status status = cuda_enter(gpu);
    if (status)
        return status;
    const CUresult result =
        module ? cuda.cuModuleGetGlobal(&found, bytes, module->module, name) : CUDA_ERROR_NOT_FOUND;
    *address = found;
    return cuda_leave(
        gpu, result == CUDA_ERROR_NOT_FOUND
                 ? status_fail(STATUS_BAD_VALUE, "name: the module has no variable %.200s", name)
                 : cuda_check(result, "cuModuleGetGlobal"));
}

static enum status cuda_parameter_bytes(struct device *device, const struct device_kernel *kernel,
                                        unsigned index, size_t *bytes) {
    struct gpu *gpu = queue_of(device)->gpu;
    enum status status = cuda_enter(gpu);
    if (status)
        return status;
    size_t offset;
    const CUresult result = cuda.cuFuncGetParamInfo(kernel->function, index, &offset, bytes);
    if (result)
        *bytes = 0;
    return cuda_leave(gpu, result == CUDA_ERROR_INVALID_VALUE
                               ? STATUS_OK
                               : cuda_check(result, "cuFuncGetParamInfo"));
}

static enum status cuda_kernel_resources(struct device *device, const struct device_kernel *kernel,
                                         struct device_resources *resources) {
    struct gpu *gpu = queue_of(device)->gpu;
    enum status status = cuda_enter(gpu);
    if (status)
        return status;
    const CUfunction function = kernel->function;
    int registers = 0, local = 0, shared = 0;
    CUresult result = cuda.cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function);
    if (!result)
        result = cuda.cuFuncGetAttribute(&local, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function);
    if (!result)
        result = cuda.cuFuncGetAttribute(&shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function);
    *resources = (struct device_resources){(unsigned)registers, (unsigned)local, (unsigned)shared};
    return cuda_leave(gpu, cuda_check(result, "cuFuncGetAttribute"));
}

/* --- waiting, owners of memory */

static enum status cuda_sync(struct device *device) {
    struct queue *queue = queue_of(device);
    enum status status = cuda_enter(queue->gpu);
    return status ? status : cuda_leave(queue->gpu, cuda_wait(queue, NULL));
}

/* Without a current context, the first GPU's is about to become current, as the runtime does. */
static bool is_current(int ordinal) {
    CUdevice device, current;
    if (cuda.cuCtxGetDevice(&current))
        return ordinal == 0;
    return !cuda.cuDeviceGet(&device, ordinal) && device == current;
}

static enum status cuda_owner(device_address address, int *ordinal, bool *current) {
    const CUpointer_attribute asked = CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
    struct gpu *gpu;
    enum status status = cuda_driver_start();
    if (status)
        return status;
    CUresult result = cuda.cuPointerGetAttribute(ordinal, asked, address);
    if (result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_NOT_INITIALIZED) {
        status = gpu_get("", &gpu); /* no context is current: any serves */
        if (status || (status = cuda_enter(gpu)))
            return status;
        result = cuda.cuPointerGetAttribute(ordinal, asked, address);
        cuda_leave(gpu, STATUS_OK);
    }
    if (current)
        *current = !result && (cuda.device_count == 1 || is_current(*ordinal));
    return result == CUDA_ERROR_INVALID_VALUE
               ? status_fail(STATUS_BAD_VALUE,
                             "its address, 0x%llx, is in no GPU's memory; it may have been "
                             "freed",
                             (unsigned long long)address)
               : cuda_check(result, "cuPointerGetAttribute");
}

/* --- time */

static enum status cuda_timer_begin(struct device *device) {
    struct queue *queue = queue_of(device);
    enum status status = cuda_check_uncaptured(queue);
    if (status || (status = cuda_enter(queue->gpu)))
        return status;
    return cuda_leave(queue->gpu,
                      cuda_check(cuda.cuEventRecord(queue->begin, queue->stream), "cuEventRecord"));
}

static enum status cuda_timer_end(struct device *device, double *seconds) {
    struct queue *queue = queue_of(device);
    enum status status = cuda_enter(queue->gpu);
    if (status)
        return status;
    float milliseconds = 0;
    status = cuda_check(cuda.cuEventRecord(queue->end, queue->stream), "cuEventRecord");
    if (!status)
        status = cuda_wait(queue, queue->end);
    if (!status)
        status = cuda_check(cuda.cuEventElapsedTime(&milliseconds, queue->begin, queue->end),
                            "cuEventElapsedTime");
    *seconds = milliseconds * 1e-3;
    return cuda_leave(queue->gpu, status);
}

const struct device_ops cuda_device_ops = {
    .kind = "cuda",
    .count = cuda_count,
    .open = cuda_open,
    .close = cuda_close,
    .info = cuda_info,
    .about = cuda_about,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
    .fill = cuda_fill,
    .module_load = cuda_module_load,
    .module_unload = cuda_module_unload,
    .kernel_get = cuda_kernel_get,
    .module_variable = cuda_module_variable,
    .parameter_bytes = cuda_parameter_bytes,
    .kernel_resources = cuda_kernel_resources,
    .launch = cuda_launch,
    .sync = cuda_sync,
    .pin = cuda_pin,
    .unpin = cuda_unpin,
    .copy = cuda_copy,
    .lags = cuda_lags,
    .follow = cuda_follow,
    .owner = cuda_owner,
    .adopt = cuda_adopt,
    .check_stream = cuda_check_stream,
    .graph_open = cuda_graph_open,
    .graph_launch = cuda_graph_launch,
    .graph_close = cuda_graph_close,
    .graph_memory = cuda_graph_memory,
    .texture_open = cuda_texture_open,
    .texture_read = cuda_texture_read,
    .texture_close = cuda_texture_close,
    .timer_begin = cuda_timer_begin,
    .timer_end = cuda_timer_end,
    .counters = device_no_counters,
};

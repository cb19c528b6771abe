/* fake_cuda.c: a libcuda that is no GPU, for the tests of what the driver can do to a caller.
 *
 * Memory is the host's. Kernels of the sum into int64 are computed: the whole sum becomes the first
 * partial result and zero the others, so that a plan which passes wrong sizes gives a wrong sum. So
 * are copies by a kernel.
 * Every object is counted, contexts pushed and popped are counted, and any call can be made to
 * fail:
 *
 * - fake_cuda_fail(name, result, nth): the nth call of `name` from now on ("*": of any) gives
 *   `result`;
 * - fake_cuda_set(what, value): "version", "devices", "memory" (bytes), "busy" (queries never end,
 * a wait for a stream does after 3 s), "elapsed" (milliseconds between any two events), "owner"
 * (whose any address is), "pinned" (host memory is), "current" (whose context is before any is
 * pushed), "lose" (copies, and an experiment's launches), "frees" (the story tells of memory that
 * is given back), "keeps" (the pool keeps memory that is given back, for nobody, until it is
 * trimmed), "inputs" (the story tells where a kernel's first argument points), "captured" (the
 * stream of which a graph is being made: the story tells of its memory, a wait for it fails),
 * "foreign" (a stream of another context than the current one: of "context", a device's number, or
 * 64 more for another context of that device), "excused" (streams may use memory in any order, as a
 * module's user may ask);
 * - fake_cuda_get(what): "live" objects, "depth" of contexts, "used" bytes, "calls", "shared" bytes
 *   that a block may have, the thread's capture "mode", the architecture of the last "code" that
 *   was loaded (0: it was PTX), ready "graphs", whether a graph is "spoilt", "waits" for streams;
 * - fake_cuda_graph_gone(number): a graph, the first that was captured being 1;
 * - fake_cuda_lacks(name): cuGetProcAddress does not know it;
 * - fake_cuda_story(), fake_cuda_forget(): the log of work by stream; clears it;
 * - fake_cuda_texture(): the last texture object's description.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int result;
enum {
    OK,
    OUT_OF_MEMORY = 2,
    NOT_FOUND = 500,
    NOT_READY = 600,
    NOT_SUPPORTED = 801,
    CAPTURED = 900
};

static long version = 13000, capability = 90, devices = 1, owner, pinned, current_gpu, busy,
            elapsed = 1, lose, frees, inputs, keeps;
static long long memory = 1LL << 32;
static _Atomic long long used;          /* several threads call */
static _Atomic long live, calls, waits; /* waits: for streams */
static long code_for;
static long captures;  /* graphs that were begun: the last one's number */
static void *captured; /* a stream that a graph is being made of */
static void *foreign;  /* a stream of this context: */
static long context_of_foreign = 1;
static char contexts[128]; /* of device k % 64 */
static __thread char *current[16];
static long countdown;
static char failing[64], lacking[64];
static int failure;
static __thread long depth;
static long graphs;               /* that are ready */
static long spoilt;               /* a graph */
static __thread int capture_mode; /* 0: global, 2: relaxed */

#include "fake_cuda_order.h"

void fake_cuda_fail(const char *name, int code, long nth) {
    snprintf(failing, sizeof failing, "%s", name);
    failure = code;
    countdown = nth;
}
void fake_cuda_lacks(const char *name) { snprintf(lacking, sizeof lacking, "%s", name); }
void fake_cuda_set(const char *what, long long value) {
    static const struct {
        const char *name;
        long *setting;
    } settings[] = {{"version", &version},
                    {"capability", &capability},
                    {"devices", &devices},
                    {"owner", &owner},
                    {"pinned", &pinned},
                    {"current", &current_gpu},
                    {"busy", &busy},
                    {"lose", &lose},
                    {"frees", &frees},
                    {"keeps", &keeps},
                    {"inputs", &inputs},
                    {"elapsed", &elapsed},
                    {"context", &context_of_foreign}};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (!strcmp(what, settings[i].name))
            *settings[i].setting = (long)value;
    if (!strcmp(what, "memory"))
        memory = value;
    if (!strcmp(what, "captured"))
        captured = (void *)(intptr_t)value, captures += value != 0;
    if (!strcmp(what, "foreign"))
        foreign = (void *)(intptr_t)value;
    if (!strcmp(what, "excused"))
        order.excused = (int)value;
}
enum { SHARED_MOST = 232448 }; /* bytes per block, for a kernel that was allowed to */
static size_t shared_allowed = 48 << 10;

long long fake_cuda_get(const char *what) {
    return !strcmp(what, "live")     ? live
           : !strcmp(what, "depth")  ? depth
           : !strcmp(what, "used")   ? used
           : !strcmp(what, "shared") ? (long long)shared_allowed
           : !strcmp(what, "mode")   ? capture_mode
           : !strcmp(what, "spoilt") ? spoilt
           : !strcmp(what, "waits")  ? waits
           : !strcmp(what, "graphs") ? graphs
           : !strcmp(what, "code")   ? code_for
                                     : calls;
}

static int fails(const char *name) {
    calls++;
    if (countdown && (!strcmp(failing, "*") || !strcmp(failing, name)) && --countdown == 0)
        return failure;
    return OK;
}

/* Calls that are forbidden during a capture: for threads that are not in relaxed mode, and for all
 * threads on the captured stream. */
static result spoil(void) {
    spoilt = 1;
    return CAPTURED;
}
#define NOT_IN_A_CAPTURE               \
    if (captured && capture_mode != 2) \
    return spoil()

#define MAY_FAIL                        \
    const int failed = fails(__func__); \
    if (failed)                         \
    return failed

/* The log of work by stream, oldest first: "launch 1f00;copy 1f00;". */
static char story[4096];
const char *fake_cuda_story(void) { return story; }
void fake_cuda_forget(void) { *story = 0; }
static void note(const char *what, void *stream) {
    const size_t length = strlen(story);
    snprintf(story + length, sizeof story - length, "%s %llx;", what,
             (unsigned long long)(uintptr_t)stream);
}

static void note_captured(const char *what, void *stream) {
    if (captured && stream == captured)
        note(what, stream);
}

static void *object(void) {
    live++;
    return calloc(1, sizeof(struct order_clock)); /* an event holds one */
}
static void gone(void *each) {
    live--;
    free(each);
}

static result cuInit(unsigned flags) {
    MAY_FAIL;
    (void)flags;
    if (getenv("FAKE_CUDA_FORKS")) { /* as where the driver has its kernel module loaded */
        const pid_t child = fork();
        if (child == 0)
            _exit(0);
        waitpid(child, NULL, 0);
    }
    return OK;
}
static result cuDriverGetVersion(int *value) {
    MAY_FAIL;
    *value = (int)version;
    return OK;
}
static result cuGetErrorName(int code, const char **name) {
    static char text[32];
    snprintf(text, sizeof text, "CUDA_ERROR_%d", code);
    *name = text;
    return OK;
}
static result cuGetErrorString(int code, const char **name) {
    (void)code;
    *name = "made by the test";
    return OK;
}
static result cuDeviceGetCount(int *count) {
    MAY_FAIL;
    *count = (int)devices;
    return OK;
}
static result cuDeviceGet(int *device, int ordinal) {
    MAY_FAIL;
    *device = ordinal;
    return OK;
}
static result cuDeviceGetName(char *name, int size, int device) {
    MAY_FAIL;
    snprintf(name, (size_t)size, "Fake GPU %d", device);
    return OK;
}
static result cuDeviceGetAttribute(int *value, int attribute, int device) {
    MAY_FAIL;
    (void)device;
    *value = attribute == 16   ? 4
             : attribute == 39 ? 2048
             : attribute == 75 ? (int)capability / 10
             : attribute == 76 ? (int)capability % 10
             : attribute == 97 ? SHARED_MOST
                               : 1000;
    return OK;
}
static result cuDeviceTotalMem(size_t *bytes, int device) {
    MAY_FAIL;
    (void)device;
    *bytes = (size_t)memory;
    return OK;
}
static result cuDevicePrimaryCtxRetain(void **context, int device) {
    MAY_FAIL;
    *context = &contexts[device];
    return OK;
}
/* Fails only by its own name: a free that cannot push has no way to tell anybody. */
static result cuCtxPushCurrent(void *context) {
    if (strcmp(failing, "*")) {
        MAY_FAIL;
    }
    current[depth++ % 16] = context;
    return OK;
}
static result cuCtxGetCurrent(void **context) {
    if (strcmp(failing, "*")) {
        MAY_FAIL;
    }
    *context = depth ? (void *)current[(depth - 1) % 16] : NULL;
    return OK;
}
static result cuCtxGetDevice(int *device) {
    MAY_FAIL;
    *device = depth ? (int)((current[(depth - 1) % 16] - contexts) % 64) : (int)current_gpu;
    return OK;
}
static result cuCtxPopCurrent(void **context) {
    depth--; /* what went in comes out, whatever else fails */
    *context = NULL;
    return fails(__func__);
}
static result cuMemGetInfo(size_t *left, size_t *total) {
    MAY_FAIL;
    *left = (size_t)(memory - used);
    *total = (size_t)memory;
    return OK;
}
static result cuMemPoolCreate(void **pool, const void *properties) {
    MAY_FAIL;
    (void)properties;
    *pool = object();
    return OK;
}
static result cuMemPoolSetAttribute(void *pool, int attribute, void *value) {
    MAY_FAIL;
    (void)pool, (void)attribute, (void)value;
    return OK;
}
static result cuMemPoolGetAttribute(void *pool, int attribute, uint64_t *value) {
    MAY_FAIL;
    (void)pool;
    *value = (uint64_t)used;
    return attribute == 7 ? OK : 1; /* USED_MEM_CURRENT */
}
static result cuDeviceCanAccessPeer(int *can, int device, int peer) {
    MAY_FAIL;
    *can = device != 2 && device != peer; /* the third GPU is on its own */
    return OK;
}
/* The story tells who is let in: "share 1". */
static result cuMemPoolSetAccess(void *pool, const void *access, size_t count) {
    MAY_FAIL;
    (void)pool;
    const struct { int type, device, flags; } *const given = access;
    for (size_t i = 0; i < count; i++)
        note("share", (void *)(intptr_t)given[i].device);
    return OK;
}
static long long kept; /* bytes that were given back and are in the pool */
static result cuMemPoolTrimTo(void *pool, size_t bytes) {
    MAY_FAIL;
    (void)pool, (void)bytes;
    kept = 0;
    return OK;
}
struct header {
    size_t bytes, magic;
};
enum {
    TICKETS = 4096
}; /* bytes that an open queue may keep for launches of one pass: not counted */
static result cuMemAllocFromPoolAsync(uint64_t *address, size_t bytes, void *pool, void *stream) {
    MAY_FAIL;
    (void)pool;
    note_captured("alloc", stream);
    if ((long long)bytes > memory - used - kept || !bytes)
        return bytes ? OUT_OF_MEMORY : 1;
    struct header *header = malloc(sizeof *header + bytes);
    *header = (struct header){bytes, 0x600d};
    memset(header + 1, 0xa5, bytes);
    if (bytes != TICKETS) {
        used += (long long)bytes;
        live++;
    }
    *address = (uint64_t)(uintptr_t)(header + 1);
    if (!captured || stream != captured)
        order_made(*address, bytes, stream, 0);
    return OK;
}
static result cuMemFreeAsync(uint64_t address, void *stream) {
    struct header *header = (struct header *)(uintptr_t)address - 1;
    if (frees)
        note("free", stream);
    note_captured("free", stream);
    if (header->magic != 0x600d)
        abort(); /* freed twice, or never allocated */
    header->magic = 0;
    if (header->bytes != TICKETS) {
        used -= (long long)header->bytes;
        kept += keeps ? (long long)header->bytes : 0;
        live--;
    }
    order_freed(address, header, stream);
    return fails(__func__);
}
static result cuMemHostAlloc(void **memory_, size_t bytes, unsigned flags) {
    MAY_FAIL;
    NOT_IN_A_CAPTURE;
    (void)flags;
    *memory_ = malloc(bytes);
    order_made((uintptr_t)*memory_, bytes, NULL, 1);
    live++;
    return OK;
}
static result cuMemFreeHost(void *each) {
    live--;
    order_freed((uintptr_t)each, each, NULL);
    return fails(__func__);
}
static result cuPointerGetAttribute(int *value, int attribute, uint64_t address) {
    MAY_FAIL;
    (void)address;
    *value = attribute == 2 ? 1 : (int)owner; /* the memory's type: host; the device's ordinal */
    return attribute == 9 || (attribute == 2 && pinned) ? OK : 1;
}
static result cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void *stream) {
    MAY_FAIL;
    note("copy", stream);
    order_copy(stream, to, from, "a copy");
    if (!lose)
        memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
    return OK;
}
static result cuMemcpyHtoDAsync(uint64_t to, const void *from, size_t bytes, void *stream) {
    MAY_FAIL;
    order_copy(stream, to, (uintptr_t)from, "a copy");
    memcpy((void *)(uintptr_t)to, from, bytes);
    return OK;
}
static result cuMemcpyDtoHAsync(void *to, uint64_t from, size_t bytes, void *stream) {
    MAY_FAIL;
    order_copy(stream, (uintptr_t)to, from, "a copy");
    memcpy(to, (void *)(uintptr_t)from, bytes);
    return OK;
}
static result cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void *stream) {
    MAY_FAIL;
    note_captured("fill", stream);
    order_copy(stream, to, to, "a fill");
    memset((void *)(uintptr_t)to, value, bytes);
    return OK;
}
static result cuMemsetD32Async(uint64_t to, uint32_t value, size_t words, void *stream) {
    MAY_FAIL;
    note_captured("fill", stream);
    order_copy(stream, to, to, "a fill");
    for (size_t i = 0; i < words; i++)
        memcpy((char *)(uintptr_t)to + i * sizeof value, &value, sizeof value);
    return OK;
}
static result cuStreamCreate(void **stream, unsigned flags) {
    MAY_FAIL;
    (void)flags;
    *stream = object();
    order_stream_made(*stream);
    return OK;
}
static result cuStreamDestroy(void *stream) {
    order_stream_gone(stream);
    gone(stream);
    return fails(__func__);
}
static result cuStreamQuery(void *stream) {
    MAY_FAIL;
    NOT_IN_A_CAPTURE;
    if (stream == captured && captured)
        return spoil();
    if (busy || order_is_slow(stream))
        return NOT_READY;
    order_stream_seen(stream);
    return OK;
}
static result cuStreamGetCtx(void *stream, void **context) {
    MAY_FAIL;
    *context = stream == foreign ? &contexts[context_of_foreign] : current[(depth - 1) % 16];
    return OK;
}
static result cuStreamIsCapturing(void *stream, int *status) {
    MAY_FAIL;
    *status = stream == captured;
    return OK;
}
static result cuStreamGetCaptureInfo(void *stream, int *status, uint64_t *id, void **graph,
                                     const void *nodes, const void *edges, size_t *count) {
    MAY_FAIL;
    (void)nodes, (void)edges, (void)count;
    *status = captured && stream == captured;
    *id = (uint64_t)captures;
    *graph = *status ? (void *)(intptr_t)captures : NULL;
    return OK;
}
static struct user_object {
    void (*gone)(void *);
    void *of;
    long graph;
} user_objects[64];
static result cuUserObjectCreate(void **made, void *of, void (*gone)(void *), unsigned count,
                                 unsigned flags) {
    MAY_FAIL;
    struct user_object *object = user_objects;
    while (object->gone)
        object++;
    *object = (struct user_object){gone, of, 0};
    *made = object;
    return count == 1 && flags == 1 ? OK : 1;
}
static result cuUserObjectRelease(void *object, unsigned count) {
    MAY_FAIL;
    (void)count;
    struct user_object released = *(struct user_object *)object;
    ((struct user_object *)object)->gone = NULL;
    released.gone(released.of);
    return OK;
}
static result cuGraphRetainUserObject(void *graph, void *object, unsigned count, unsigned flags) {
    MAY_FAIL;
    ((struct user_object *)object)->graph = (long)(intptr_t)graph;
    return count == 1 && flags == 1 ? OK : 1;
}
void fake_cuda_graph_gone(long graph) {
    for (struct user_object *object = user_objects; object->of; object++)
        if (object->gone && object->graph == graph)
            cuUserObjectRelease(object, 1);
}
static result cuThreadExchangeStreamCaptureMode(int *mode) {
    const int before = capture_mode;
    capture_mode = *mode;
    *mode = before;
    return OK;
}
static result cuStreamSynchronize(void *stream) {
    MAY_FAIL;
    waits++;
    if (stream == captured && captured)
        return spoil();
    for (int wait = 0; busy && wait < 300; wait++)
        usleep(10000);
    order_stream_seen(stream);
    return OK;
}
static result cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
    MAY_FAIL;
    (void)flags;
    note("wait", stream);
    order_wait(stream, event);
    return OK;
}
static result cuEventCreate(void **event, unsigned flags) {
    MAY_FAIL;
    (void)flags;
    *event = object();
    return OK;
}
static result cuEventDestroy(void *event) {
    gone(event);
    return fails(__func__);
}
static result cuEventRecord(void *event, void *stream) {
    MAY_FAIL;
    order_record(event, stream);
    return OK;
}
/* All streams of the context: the story tells that. */
static result cuCtxRecordEvent(void *context, void *event) {
    MAY_FAIL;
    (void)context;
    note("all", NULL);
    order_record_all(event);
    return OK;
}
static result cuCtxSynchronize(void) {
    MAY_FAIL;
    note("idle", NULL);
    order_all_seen();
    return OK;
}
static result cuEventQuery(void *event) {
    MAY_FAIL;
    NOT_IN_A_CAPTURE;
    if (busy)
        return NOT_READY;
    order_event_seen(event);
    return OK;
}
static result cuEventElapsedTime(float *milliseconds, void *begin, void *end) {
    MAY_FAIL;
    (void)begin, (void)end;
    *milliseconds = (float)elapsed;
    return OK;
}
static result cuModuleLoadData(void **module, const void *image) {
    MAY_FAIL;
    NOT_IN_A_CAPTURE;
    const unsigned char *bytes = image;
    code_for = memcmp(image, "\177ELF", 4) ? 0 : bytes[49]; /* e_flags' second byte: sm_ */
    *module = (void *)(uintptr_t)1;
    return OK;
}
/* A module from PTX is an object of its own, unlike the image above. Options 5 and 6
 * are the error log and its size. */
static result cuModuleLoadDataEx(void **module, const void *text, unsigned count,
                                 const int *options, void **values) {
    const int failed = fails(__func__);
    (void)text;
    if (failed) {
        if (count == 2 && options[0] == 5 && options[1] == 6)
            snprintf(values[0], (size_t)(uintptr_t)values[1],
                     "ptxas application ptx input, line 7; error   : made by the test\n");
        return failed;
    }
    *module = object();
    return OK;
}
static result cuModuleUnload(void *module) {
    gone(module);
    return fails(__func__);
}

#include "fake_cuda_kernels.h"

#include "fake_cuda_graphs.h"

static result anything_else(void) { return NOT_SUPPORTED; }

static const struct {
    const char *name;
    void *function;
} table[] = {
#define ROW(name) \
    { #name, (void *)name }
    ROW(cuInit),
    ROW(cuDriverGetVersion),
    ROW(cuGetErrorName),
    ROW(cuGetErrorString),
    ROW(cuDeviceGetCount),
    ROW(cuDeviceGet),
    ROW(cuDeviceGetName),
    ROW(cuDeviceGetAttribute),
    ROW(cuDeviceTotalMem),
    ROW(cuDevicePrimaryCtxRetain),
    ROW(cuCtxPushCurrent),
    ROW(cuCtxGetCurrent),
    ROW(cuCtxPopCurrent),
    ROW(cuCtxGetDevice),
    ROW(cuDeviceCanAccessPeer),
    ROW(cuMemPoolSetAccess),
    ROW(cuMemGetInfo),
    ROW(cuMemPoolCreate),
    ROW(cuMemPoolSetAttribute),
    ROW(cuMemPoolGetAttribute),
    ROW(cuMemPoolTrimTo),
    ROW(cuMemAllocFromPoolAsync),
    ROW(cuMemFreeAsync),
    ROW(cuMemHostAlloc),
    ROW(cuMemFreeHost),
    ROW(cuMemcpyHtoDAsync),
    ROW(cuMemcpyDtoHAsync),
    ROW(cuMemsetD8Async),
    ROW(cuMemsetD32Async),
    ROW(cuStreamCreate),
    ROW(cuStreamDestroy),
    ROW(cuStreamQuery),
    ROW(cuStreamGetCtx),
    ROW(cuStreamIsCapturing),
    ROW(cuStreamGetCaptureInfo),
    ROW(cuUserObjectCreate),
    ROW(cuUserObjectRelease),
    ROW(cuGraphRetainUserObject),
    ROW(cuThreadExchangeStreamCaptureMode),
    ROW(cuStreamSynchronize),
    ROW(cuEventCreate),
    ROW(cuEventDestroy),
    ROW(cuEventRecord),
    ROW(cuCtxRecordEvent),
    ROW(cuCtxSynchronize),
    ROW(cuEventQuery),
    ROW(cuEventElapsedTime),
    ROW(cuModuleLoadData),
    ROW(cuModuleLoadDataEx),
    ROW(cuModuleUnload),
    ROW(cuModuleGetFunction),
    ROW(cuFuncGetAttribute),
    ROW(cuFuncGetParamInfo),
    ROW(cuFuncSetAttribute),
    ROW(cuLaunchKernel),
    ROW(cuLaunchKernelEx),
    ROW(cuGraphCreate),
    ROW(cuGraphAddKernelNode),
    ROW(cuGraphInstantiateWithFlags),
    ROW(cuGraphUpload),
    ROW(cuGraphLaunch),
    ROW(cuGraphExecDestroy),
    ROW(cuGraphDestroy),
    ROW(cuArray3DCreate),
    ROW(cuArrayDestroy),
    ROW(cuMipmappedArrayCreate),
    ROW(cuMipmappedArrayGetLevel),
    ROW(cuMipmappedArrayDestroy),
    ROW(cuSurfObjectCreate),
    ROW(cuSurfObjectDestroy),
    ROW(cuTexObjectCreate),
    ROW(cuTexObjectDestroy),
    ROW(cuMemcpyAsync),
    ROW(cuMemcpy3DAsync),
    ROW(cuStreamWaitEvent),
    ROW(cuPointerGetAttribute),
};

#ifndef WITHOUT_GET_PROC_ADDRESS
result cuGetProcAddress_v2(const char *name, void **function, int least, uint64_t flags,
                           int *found) {
    (void)least, (void)flags;
    *function = NULL;
    if (found)
        *found = 1;
    if (!strcmp(name, lacking))
        return NOT_FOUND;
    *function = (void *)anything_else;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].name, name))
            *function = table[i].function;
    if (found)
        *found = 0;
    return OK;
}
#endif

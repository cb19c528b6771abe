/* py_core.h: what the files of the extension module share. Only csrc/python includes Python.h.
 *
 * A function here that can fail returns NULL or -1 with a Python exception set, as the C API does.
 */
#ifndef GPUOPT_PY_CORE_H
#define GPUOPT_PY_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_1_24_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL gpuopt_numpy_api
#ifndef PY_CORE_IMPORTS_NUMPY
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#include "../float_state.h"
#include "../ops/ops.h"

/* The reduction's operations by name, with the ufunc that does the same in NumPy. */
#define PY_OPERATIONS(OPERATION)  \
    OPERATION(sum, "add")         \
    OPERATION(prod, "multiply")   \
    OPERATION(min, "minimum")     \
    OPERATION(max, "maximum")     \
    OPERATION(and, "bitwise_and") \
    OPERATION(or, "bitwise_or")   \
    OPERATION(xor, "bitwise_xor")

enum py_operation {
#define OPERATION(name, ufunc) PY_OP_##name,
    PY_OPERATIONS(OPERATION)
#undef OPERATION
        PY_OP_COUNT
};

extern const char *const py_operation_names[PY_OP_COUNT], *const py_operation_ufuncs[PY_OP_COUNT];

enum { PY_POOLS = 32, PY_POOL_IDLE = 16, PY_HOMES = 32, PY_GPU_NAMES = 32 };

/* Queues that wait for their next call, by device. */
struct py_pool {
    const struct device_ops *kind;
    char which[DEVICE_WHICH];
    uint64_t kept; /* the stream that they are on meanwhile, as in adopt */
    struct py_idle {
        struct ops_queue *queue;
        uint64_t stream;  /* that it worked on last, as in adopt */
    } idle[PY_POOL_IDLE]; /* the one that waits longest is the first */
    int idle_count;
};

/* A device whose memory is a queue's own, as the simulated GPU's is: its one queue for all arrays
 * that live there. */
struct py_home {
    const struct device_ops *kind;
    struct ops_queue *queue;
    PyThread_type_lock lock; /* whoever uses the queue: */
    unsigned long owner;     /* its thread, 0 for none, */
    pid_t process;           /* in this process */
    device_address *late;    /* to be freed when the lock is next held; the GIL guards the list */
    size_t late_count, late_room;
};

struct py_state {
    PyObject *exceptions[STATUS_COUNT]; /* by status code; NULL for STATUS_OK */
    PyObject *ufuncs[PY_OP_COUNT];
    PyObject *masked_array; /* numpy.ma.MaskedArray, once it is needed */
    PyObject *bench_type, *view_type;
    PyObject *gpu_names[PY_GPU_NAMES]; /* "cuda:0"..., once they are used */
    PyObject *recording;               /* a ContextVar: who is told of launches */
    long recorders;                    /* how many are in force, in all contexts */
    struct py_pool pools[PY_POOLS];
    struct py_home homes[PY_HOMES];
};

static inline struct py_state *py_state_of(PyObject *module) { return PyModule_GetState(module); }

/* py_errors.c */
int py_errors_add(PyObject *module, struct py_state *state);
/* Raises the exception of a status with the thread's status text; always NULL. */
PyObject *py_raise(const struct py_state *state, enum status status);
/* Puts an argument's name before the text of an error that one may have about it. */
void py_name_argument(const char *argument);
/* NULL if it is no str; `argument` is named in the TypeError. */
const char *py_text(PyObject *value, const char *argument);

/* py_arrays.c */
int py_import_numpy(void);
int py_dtype_of(PyArray_Descr *descr, enum dtype *dtype); /* 0 where gpuopt has no such type */
/* A new reference, to a dtype with items of the same size; uint16 for bfloat16. */
PyArray_Descr *py_descr(enum dtype dtype);

/* An array on its way in: its items as one contiguous run, or read a piece at a time. */
struct py_array_in {
    PyArrayObject *array;
    enum dtype dtype;
    uint64_t n;
    struct device_source source;
    struct device_box box; /* behind source.box */
    NpyIter *iterator;     /* behind source.read */
    NpyIter_IterNextFunc *next;
    char **data_pointers;
    npy_intp *inner_size;
    npy_intp inner_offset;
    int needs_python;
};

int py_is_masked(struct py_state *state, PyObject *object); /* -1: failed */
/* What gpuopt can take of anything that numpy.asarray takes. */
int py_array_in(struct py_state *state, PyObject *object, struct py_array_in *in);
/* Sets `source` to the array's items as `dtype` (converted as they are read where that differs), to
 * a box of them only where the caller takes boxes. */
int py_array_source(struct py_array_in *in, enum dtype dtype, bool boxes);
void py_array_release(struct py_array_in *in);

/* py_devices.c */
struct ops_queue *py_queue_take(struct py_state *state, const struct device_ops *kind,
                                const char *which);
void py_queue_give(struct py_state *state, struct ops_queue *queue, const struct device_ops *kind,
                   const char *which);
/* The same for a queue that works on a caller's stream, as in adopt. What a queue did before, its
 * next stream waits for: a stream has the queue that it had, or one that nobody else's had. */
struct ops_queue *py_queue_take_on(struct py_state *state, const struct device_ops *kind,
                                   const char *which, uint64_t stream);
void py_queue_give_on(struct py_state *state, struct ops_queue *queue,
                      const struct device_ops *kind, const char *which, uint64_t stream);
void py_queues_close(struct py_state *state);
/* Enters the default floating-point state, and returns the caller's as bytes, None if it is the
 * same; leaves it again for those bytes. */
PyObject *py_float_state(PyObject *module, PyObject *before);
PyObject *py_float32_bits(PyObject *module, PyObject *value);
PyObject *py_host_threads(PyObject *module, PyObject *nothing);
PyObject *py_device_count(PyObject *module, PyObject *kind);
PyObject *py_device_info(PyObject *module, PyObject *name);

/* py_choice.c: which device, rung and signature a call means. */
static inline int py_given(PyObject *value) { return value && value != Py_None; }

struct py_problem {
    const struct reg_family *family;
    const char *op;    /* of the signatures */
    enum dtype given;  /* the array's */
    enum dtype result; /* what the caller gets */
    int may_convert;   /* the items may be read as the result's dtype: the caller named it */
    int resident;      /* the array is in a device's memory */
};
struct py_target {
    const struct device_ops *kind;
    char which[DEVICE_WHICH];
    struct ops_choice choice;
    enum dtype items; /* what the array is converted to on its way in; mostly what it is */
};

int py_operation(PyObject *op, enum py_operation *operation);
/* The dtype of the result, from `dtype=`, `out=` and NumPy's rules. */
int py_result_dtype(enum py_operation operation, enum dtype given, PyObject *dtype, PyObject *out,
                    enum dtype *result);
/* The operation to run: prod, min and max of bool are `and` and `or`. */
enum py_operation py_effective_operation(enum py_operation operation, enum dtype given,
                                         enum dtype result);
int py_choose(struct py_state *state, const struct py_problem *problem, PyObject *variant,
              PyObject *block, PyObject *device, struct py_target *target);
/* The same for a known device: `kind` and `which` of the target are set. */
int py_choose_on(const struct py_problem *problem, PyObject *variant, PyObject *block,
                 struct py_target *target);
/* The device for kernels that are no rungs: the one named, else a GPU, else the simulated GPU. */
int py_choose_kernel_device(struct py_state *state, PyObject *device,
                            const struct device_ops **kind, char which[DEVICE_WHICH]);

/* py_reduce.c */
PyObject *py_reduce(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *py_axis_kind(PyObject *module, PyObject *device);

/* py_result.c */
/* What a reduction of no items gives: `initial`, or the operation's identity. A 0-d array. */
PyObject *py_of_nothing(enum py_operation operation, PyObject *initial, enum dtype result);
/* initial op value as a 0-d array of the result's dtype. */
PyObject *py_with_initial(struct py_state *state, enum py_operation operation, PyObject *initial,
                          enum dtype accumulator, enum dtype result, const void *value);
/* An accumulator as a 0-d array of dtype `result`, as NumPy's astype gives it; as a NumPy scalar.
 */
PyObject *py_cast(enum dtype accumulator, enum dtype result, const void *value);
PyObject *py_scalar(enum dtype accumulator, enum dtype result, const void *value);

/* py_call.c: a call of a family whose output is an array, as gpuopt/arrays/inout.py hands it over:
 * the tuple (family, op, items, result, inputs, output, numbers). The tuple must outlive the
 * struct. */
/* An array in the device's memory is the pair (address, bytes). An input that is read in place
 * by its strides is a tuple of the array: where it has gaps, or items that are repeated, only the
 * cpu takes it, and call() returns False for other devices; so it does where a device has a kernel
 * for items of the result's dtype alone. */
struct py_call {
    struct py_problem problem;
    struct ops_call call;
    int gaps; /* an input is no run of memory */
};
int py_call_read(PyObject *tuple, struct py_call *read);
PyObject *py_call(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

/* py_gil.c. While these are in force the GIL is free and the device asks for signals. */
struct py_unlocked {
    PyThreadState *thread;
    struct device *device;
    int64_t next_look;       /* milliseconds */
    float_state float_state; /* the caller's */
};
void py_unlock(struct py_unlocked *unlocked, struct device *device);
void py_lock(struct py_unlocked *unlocked);

/* py_profile.c: what devices count, for whoever asked to be told. */
int py_recording_add(PyObject *module, struct py_state *state);
void py_recording_begin(struct py_state *state, struct ops_queue *queue);
/* Hands the launches since then to the sink. Keeps an exception that is already set. */
int py_recording_end(struct py_state *state, struct ops_queue *queue);
/* The device for a call that names none; "" where nothing in force says. */
enum { PY_DEVICE_NAME = 64 };
int py_recording_device(struct py_state *state, char name[PY_DEVICE_NAME]);
PyObject *py_recorders(PyObject *module, PyObject *change);
PyObject *py_tracing(PyObject *module, PyObject *arguments);
PyObject *py_counter_table(PyObject *module, PyObject *kind);

/* CUDA's legacy default stream, for which libraries also say 0; the per-thread one is 2. */
enum { PY_LEGACY = 1 };

/* py_place.c: a queue on the device and the stream where some arrays are. */
struct py_place {
    struct py_state *state;
    const struct device_ops *kind;
    char which[DEVICE_WHICH];
    uint64_t stream; /* as in adopt; what has no streams takes any */
    struct ops_queue *queue;
    struct py_home *home; /* whose lock is held; NULL: the queue is a pool's */
};
/* `device` as a user writes it; `streams` is a tuple: the first is where the work goes. The work
 * begins after what the others have been given, */
int py_place_open(struct py_state *state, PyObject *device, PyObject *streams,
                  struct py_place *place);
/* The same for a place whose state, kind and which are set, and all else is 0; */
int py_place_open_on(struct py_place *place, PyObject *streams);
/* and what they are given after py_place_join waits for it, also where the call has failed on its
 * way: whose memory it is may give it back on one of them. -1 if either failed; the call's error
 * stays. */
int py_place_join(struct py_place *place, PyObject *streams, int failed);
void py_place_close(struct py_place *place);
int py_memory_add(PyObject *module);
void py_homes_close(struct py_state *state);
PyObject *py_order(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *py_owner(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *py_is_current(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *py_put(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *py_wait(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

/* py_view.c: an array in a device's memory: where, whose, on which stream. */
struct py_view_items {
    PyObject *library, *shape, *strides, *dtype, *device, *holder; /* strides: None for C order */
    unsigned long long address, stream;
    char read_only, waits;
};
struct py_view {
    PyObject_HEAD
    struct py_view_items items;
};
int py_view_add(PyObject *module, struct py_state *state);
PyObject *py_view_new(const struct py_state *state, const struct py_view_items *items);

/* py_dlpack.c: capsules; arrays of libraries that have DLPack's C exchange API. */
PyObject *py_dlpack_export(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *py_dlpack_take(PyObject *module, PyObject *capsule);
PyObject *py_exchange(PyObject *module, PyObject *type);
PyObject *py_borrow(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

/* py_resident.c: for gpuopt/families/device_calls.py */
int py_prepared_add(PyObject *module);
PyObject *py_reduce_resident(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *py_call_resident(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

/* py_bench.c, py_module.c, py_about.c */
PyObject *py_tunings(PyObject *module, PyObject *family);
int py_bench_add(PyObject *module, struct py_state *state);
int py_module_add(PyObject *module);
PyObject *py_rungs(PyObject *module, PyObject *family);
PyObject *py_close_idle(PyObject *module, PyObject *nothing);
PyObject *py_presets(PyObject *module, PyObject *nothing);
PyObject *py_probes(PyObject *module, PyObject *nothing);
PyObject *py_config(PyObject *module, PyObject *nothing);

void py_image_begin(void);
PyObject *py_kernels(PyObject *module, PyObject *nothing);
PyObject *py_kernel_ptx(PyObject *module, PyObject *arguments);
PyObject *py_sources(PyObject *module, PyObject *nothing);

#endif

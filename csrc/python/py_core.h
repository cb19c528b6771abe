/* py_core.h: shared by the files of the extension module. Only csrc/python includes Python.h.
 *
 * Functions that can fail return NULL or -1 with a Python exception set, as in the C API.
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

#include <pthread.h>

enum py_operation {
#define RULE(name, ...) PY_OP_##name,
#include "numpy_rules.def"
    PY_RULE_COUNT
};
enum { PY_OP_COUNT = PY_OP_mean }; /* those before have a ufunc, and rungs on the ladder */

/* A row of numpy_rules.def. */
struct py_rule {
    const char *name, *ufunc; /* "": NumPy has a function, no ufunc */
    const char *identity;     /* "": an empty array is an error */
    const char *kinds;        /* of elements, as NumPy's dtype.kind */
    const char *results[5];   /* for each of "biufc"; "": the elements' dtype */
    int dtype, initial;       /* whether it accepts these arguments */
};
extern const struct py_rule py_rules[PY_RULE_COUNT];

enum { PY_POOLS = 32, PY_POOL_IDLE = 16, PY_HOMES = 32, PY_GPU_NAMES = 32 };

/* Idle queues of a device. */
struct py_pool {
    const struct device_ops *kind;
    char which[DEVICE_WHICH];
    uint64_t kept; /* their stream while idle, as in adopt */
    struct py_idle {
        struct ops_queue *queue;
        uint64_t stream;  /* its last stream, as in adopt */
    } idle[PY_POOL_IDLE]; /* the first has been idle for the longest time */
    int idle_count;
};

/* A device whose memory belongs to one queue, as on the simulated GPU: the single queue for all
 * arrays there. */
struct py_home {
    const struct device_ops *kind;
    struct ops_queue *queue;
    PyThread_type_lock lock; /* held while the queue is in use: */
    unsigned long owner;     /* by this thread (0: none), */
    pid_t process;           /* of this process */
    device_address *late;    /* freed when the lock is next held */
    size_t late_count, late_room;
};

struct py_known;

/* `guard` is held for a few instructions, which call no Python: pools, homes and their late lists,
 * and caches of plans change under it, with or without a GIL. */
struct py_state {
    pthread_mutex_t guard;
    PyObject *exceptions[STATUS_COUNT]; /* by status code; NULL for STATUS_OK */
    PyObject *ufuncs[PY_OP_COUNT];
    PyObject *masked_array;      /* numpy.ma.MaskedArray, at first use */
    PyObject *copyto;            /* numpy.copyto */
    PyObject *quiet, *quiet_run; /* of py_quietly, at first use */
    PyObject *bench_type, *view_type, *plan_type, *front_type;
    PyObject *memory_type;
    struct py_known *known;            /* of py_known.c; NULL: not made yet */
    PyObject *gpu_names[PY_GPU_NAMES]; /* "cuda:0" and so on, at first use */
    PyObject *recording;               /* a ContextVar: the recordings that receive launches */
    long recorders;                    /* number in force in all contexts */
    struct py_pool pools[PY_POOLS];
    struct py_home homes[PY_HOMES];
};

static inline struct py_state *py_state_of(PyObject *module) { return PyModule_GetState(module); }

/* py_errors.c */
int py_errors_add(PyObject *module, struct py_state *state);
/* Raises the exception of a status with the thread's status text; returns NULL. */
PyObject *py_raise(const struct py_state *state, enum status status);
/* Prefixes the pending exception's text with an argument's name. */
void py_name_argument(const char *argument);

/* Ends the message of the exception that is set by the nearest of the names that it lists. */
void py_suggest(void);
/* NULL if it is no str; the TypeError names `argument`. */
const char *py_text(PyObject *value, const char *argument);

/* py_arrays.c */
int py_import_numpy(void);
int py_dtype_of(PyArray_Descr *descr, enum dtype *dtype); /* 0 if gpuopt has no such type */
/* Returns a new reference to a dtype with elements of the same size; uint16 for bfloat16. */
PyArray_Descr *py_descr(enum dtype dtype);

/* An array to read: its elements as one contiguous run, or in chunks. */
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

int py_is_masked(struct py_state *state, PyObject *object); /* -1 with an exception */
/* Accepts whatever numpy.asarray accepts, if gpuopt has its dtype. */
int py_array_in(struct py_state *state, PyObject *object, struct py_array_in *in);
/* Sets `source` to the array's elements as `dtype`, converted on reading where that differs; as a
 * box only if the caller accepts boxes. */
int py_array_source(struct py_array_in *in, enum dtype dtype, bool boxes);
void py_array_release(struct py_array_in *in);

/* py_devices.c */
struct ops_queue *py_queue_take(struct py_state *state, const struct device_ops *kind,
                                const char *which);
void py_queue_give(struct py_state *state, struct ops_queue *queue, const struct device_ops *kind,
                   const char *which);
/* The same for a queue on a caller's stream, as in adopt. A stream gets the queue that it had, or
 * one that no other stream had, because switching streams makes the new one wait for the queue's
 * earlier work. */
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

/* call/py_entry.c, call/py_plan.c, call/py_front.c */
int py_entry_add(PyObject *module);
int py_front_add(PyObject *module, struct py_state *state);
int py_plan_add(PyObject *module, struct py_state *state);

/* py_choice.c: derives device, rung and signature of a call. */
static inline int py_given(PyObject *value) { return value && value != Py_None; }

struct py_problem {
    const struct reg_family *family;
    const char *op;    /* as the signatures spell it */
    enum dtype given;  /* of the array */
    enum dtype result; /* of the caller's result */
    int may_convert;   /* the caller named a dtype: elements may be read as that type */
    int resident;      /* the array is in a device's memory */
};
struct py_target {
    const struct device_ops *kind;
    char which[DEVICE_WHICH];
    struct ops_choice choice;
    enum dtype items; /* the type to which the array is converted on reading; usually its own */
};

int py_operation(PyObject *op, enum py_operation *operation);

/* call/py_rules.c: NumPy's rules. */
/* Determines the result's dtype from `dtype=`, `out=` and NumPy's rules. */
int py_result_dtype(enum py_operation operation, enum dtype given, PyObject *dtype, PyObject *out,
                    enum dtype *result);
PyObject *py_rules_list(PyObject *module, PyObject *nothing);
/* result_dtype(op, given, dtype or None, dtype of `out` or None), for all operations. */
PyObject *py_result_descr(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
/* The operation to run: prod, min and max of bool become `and` and `or`. */
enum py_operation py_effective_operation(enum py_operation operation, enum dtype given,
                                         enum dtype result);
int py_choose(struct py_state *state, const struct py_problem *problem, PyObject *variant,
              PyObject *block, PyObject *device, struct py_target *target);
/* The same for a known device: the target's `kind` and `which` are set. */
int py_choose_on(const struct py_problem *problem, PyObject *variant, PyObject *block,
                 struct py_target *target);
/* The device for kernels that are no rungs: the named one, else a GPU, else the simulated GPU. */
int py_choose_kernel_device(struct py_state *state, PyObject *device,
                            const struct device_ops **kind, char which[DEVICE_WHICH]);

/* py_result.c */
/* The result of reducing zero elements: `initial`, or the operation's identity. A 0-d array. */
PyObject *py_of_nothing(struct py_state *state, enum py_operation operation, PyObject *initial,
                        enum dtype result);
/* Computes initial op value as a 0-d array of the result's dtype. */
PyObject *py_with_initial(struct py_state *state, enum py_operation operation, PyObject *initial,
                          enum dtype accumulator, enum dtype result, const void *value);
/* Converts an accumulator to a 0-d array of dtype `result`, as NumPy's astype does; or to a NumPy
 * scalar.
 */
PyObject *py_cast(struct py_state *state, enum dtype accumulator, enum dtype result,
                  const void *value);
PyObject *py_scalar(struct py_state *state, enum dtype accumulator, enum dtype result,
                    const void *value);

/* Calls a function of NumPy's without its warnings, which kernels do not give either. */
PyObject *py_quietly(struct py_state *state, PyObject *function, PyObject *arguments,
                     PyObject *keywords);
/* Copies an array into another, converted to its dtype, without warnings. */
int py_copy(struct py_state *state, PyArrayObject *to, PyArrayObject *from);
/* `initial` as a 0-d array of a dtype: (value, dtype). */
PyObject *py_initial(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

/* py_call.c: a call of a family as gpuopt/arrays/inout.py passes it: the tuple (family, op, items,
 * result, inputs, output, numbers), which must outlive the struct. An array is one of the host, or
 * the pair (address, bytes) of a device's memory. */
struct py_family_call {
    struct py_problem problem;
    struct ops_call call;
};
int py_call_read(PyObject *tuple, struct py_family_call *read);
/* Checks a reduction of a whole array on a device, and sets the operation that its kernel runs. */
int py_whole_read(PyObject *op, const struct ops_call *call, struct py_problem *problem);
/* Parts of such a tuple: family, op, items and result; the numbers. */
int py_problem_read(PyObject *head, struct py_problem *problem);
int py_numbers_read(PyObject *tuple, uint64_t numbers[OPS_NUMBERS_MAX]);
int py_dtype_named(const char *name, enum dtype *dtype); /* -1 without an exception: unknown */
/* Ends a call on host arrays: raises a failure, ends the recording and gives the queue back. */
int py_queue_end(struct py_state *state, struct ops_queue *queue, const struct py_target *target,
                 enum status status);
PyObject *py_call(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *py_turned(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
/* Enqueues a call on arrays in a device's memory on the first of their streams, in order with the
 * others. A reduction of a whole array becomes an element of dtype `result`, or its accumulator
 * goes to `value`, which the call then waits for. */
struct py_queued {
    const struct py_target *target;
    const struct ops_call *call;
    const struct py_streams *streams;
    enum dtype result;
    void *value;                    /* NULL: nothing waits */
    const struct py_passes *passes; /* NULL: none */
};
/* Passes around a call, through memory between them: those before it replace an input of the call,
 * mostly by a contiguous copy; those after it read the output of the one before. */
enum { PY_PASSES_MAX = 8 };
struct py_passes {
    unsigned before, after;
    struct py_pass {
        struct py_target target;
        struct ops_call call; /* without addresses */
        unsigned input;       /* before the call: the input that the pass reads and replaces */
        size_t offset;        /* after it: in the memory that the pass reads */
    } of[PY_PASSES_MAX];
};
/* Returns 1 if the stream is captured and the call has passes: nothing is enqueued then. */
int py_call_queue(struct py_state *state, const struct py_queued *queued);
/* The kind of device of a call: (head, variant, block, device). */
PyObject *py_call_kind(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

/* py_gil.c. Between py_unlock and py_lock the GIL is free and the device polls for signals. */
struct py_unlocked {
    PyThreadState *thread;
    struct device *device;
    int64_t next_look;       /* milliseconds */
    float_state float_state; /* the caller's */
};
void py_unlock(struct py_unlocked *unlocked, struct device *device);
void py_lock(struct py_unlocked *unlocked);

/* py_profile.c: passes what devices count to the recordings in force. */
int py_recording_add(PyObject *module, struct py_state *state);
void py_recording_begin(struct py_state *state, struct ops_queue *queue);
/* Passes the launches since then to the sink. Keeps a pending exception. */
int py_recording_end(struct py_state *state, struct ops_queue *queue);
/* The device for a call that names none; "" if no recording names one. */
enum { PY_DEVICE_NAME = 64 };
int py_recording_device(struct py_state *state, char name[PY_DEVICE_NAME]);
PyObject *py_recorders(PyObject *module, PyObject *change);
PyObject *py_tracing(PyObject *module, PyObject *arguments);
PyObject *py_counter_table(PyObject *module, PyObject *kind);

/* CUDA's legacy default stream, which libraries also call 0; the per-thread one is 2. */
enum { PY_LEGACY = 1 };

/* py_place.c: a queue on the device and the stream of some arrays. */
struct py_place {
    struct py_state *state;
    const struct device_ops *kind;
    char which[DEVICE_WHICH];
    uint64_t stream; /* as in adopt; any value on a device without streams */
    struct ops_queue *queue;
    struct py_home *home; /* its lock is held; NULL: the queue belongs to a pool */
};
enum { PY_STREAMS_MAX = 16 };
struct py_streams {
    int count;        /* at least 1 */
    unsigned settled; /* bit k: the earlier work of stream k need not be waited for */
    uint64_t of[PY_STREAMS_MAX];
};
int py_streams_read(PyObject *tuple, struct py_streams *streams);
/* For a place with state, kind and which set, and zeros elsewhere: the work runs on the first
 * stream, after the other streams' earlier work, */
int py_place_open_on(struct py_place *place, const struct py_streams *streams);
/* and their later work waits for it after py_place_join, also if the call failed: an owner may free
 * its memory on one of the streams. Returns -1 if either failed; the call's error stays. */
int py_place_join(struct py_place *place, const struct py_streams *streams, int failed);
void py_place_close(struct py_place *place);
int py_memory_add(PyObject *module, struct py_state *state);
/* Memory of a device as an object that owns it. */
PyObject *py_memory_make(struct py_state *state, const struct device_ops *kind, const char *which,
                         size_t bytes, unsigned long long *address);
void py_homes_close(struct py_state *state);
PyObject *py_order(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *py_owner(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *py_is_current(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *py_wait(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *py_transfer(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

/* py_view.c: an array in a device's memory: its address, its owner, its stream. */
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

/* py_dlpack.c: capsules; arrays of libraries with DLPack's C exchange API. */
PyObject *py_dlpack_export(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *py_dlpack_take(PyObject *module, PyObject *capsule);
struct dl_exchange;
/* A type's exchange API, or NULL: with an exception, or because it has none that is supported. */
const struct dl_exchange *py_exchange(PyObject *type);
/* A new View, or NULL: with an exception, or for the caller to describe the array. dtypes: a dict
 * from DLPack's code << 8 | bits. */
PyObject *py_exchange_view(struct py_state *state, const struct dl_exchange *exchange,
                           PyObject *value, PyObject *library, PyObject *dtypes);
int py_exchange_address(const struct dl_exchange *exchange, PyObject *value,
                        unsigned long long *address, int32_t *device);
/* A new reference to "cuda:0" or the like. */
PyObject *py_gpu_name(struct py_state *state, int32_t index);

/* call/py_known.c */
enum { PY_KNOWN_MOST = 16 };
PyObject *py_know(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *py_borrow(PyObject *module, PyObject *value);
int py_known_traverse(const struct py_known *known, visitproc visit, void *arg);
void py_known_clear(struct py_state *state);

/* py_bench.c, py_module.c, py_about.c */
PyObject *py_demangle(PyObject *module, PyObject *value);
PyObject *py_tunings(PyObject *module, PyObject *family);
int py_bench_add(PyObject *module, struct py_state *state);
int py_module_add(PyObject *module);
PyObject *py_rungs(PyObject *module, PyObject *family);
PyObject *py_close_idle(PyObject *module, PyObject *nothing);
PyObject *py_sim_progress(PyObject *module, PyObject *nothing);

/* --- py_walk.c */

PyObject *py_walk(PyObject *module, PyObject *arguments);
PyObject *py_makespan(PyObject *module, PyObject *arguments);
PyObject *py_sim_traffic(PyObject *module, PyObject *nothing);
PyObject *py_presets(PyObject *module, PyObject *nothing);
PyObject *py_probes(PyObject *module, PyObject *nothing);
PyObject *py_config(PyObject *module, PyObject *nothing);

void py_image_begin(void);
PyObject *py_kernels(PyObject *module, PyObject *nothing);
PyObject *py_kernel_ptx(PyObject *module, PyObject *arguments);
PyObject *py_sources(PyObject *module, PyObject *nothing);
PyObject *py_ptx_entries(PyObject *module, PyObject *ptx);

#endif

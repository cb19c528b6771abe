/* py_place.c: places: a queue on the stream of a device's arrays, and memory that gpuopt owns
 * there.
 *
 * All queues of a GPU share its memory; a pool lends one, on the caller's stream. On the simulated
 * GPU memory belongs to its queue: all arrays there share one queue, used by one thread at a time.
 * Our own memory is ordered by the legacy default stream (1), as CuPy's and PyTorch's is by
 * default.
 */
#include "py_core.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_EVERY_US = 50 * 1000 };

static int has_streams(const struct device_ops *kind) { return kind->adopt != device_no_adopt; }

/* --- homes */

/* Frees memory that was released while another thread used the queue. The caller holds the lock. */
static void free_late(struct py_state *state, struct py_home *home) {
    for (;;) {
        pthread_mutex_lock(&state->guard);
        const bool some = home->late_count;
        const device_address address = some ? home->late[--home->late_count] : 0;
        pthread_mutex_unlock(&state->guard);
        if (!some)
            return;
        home->queue->device->ops->free(home->queue->device, address);
    }
}

/* Without memory for the list, the address stays allocated until the device is closed. */
static void add_late(struct py_home *home, device_address address) {
    if (home->late_count == home->late_room) {
        const size_t room = home->late_room ? 2 * home->late_room : 16;
        device_address *more = realloc(home->late, room * sizeof *more);
        if (!more)
            return;
        home->late = more;
        home->late_room = room;
    }
    home->late[home->late_count++] = address;
}

/* Frees memory, or postpones it if another thread uses the queue: a destructor must not wait. */
static void home_free(struct py_state *state, struct py_home *home, device_address address) {
    if (PyThread_acquire_lock(home->lock, NOWAIT_LOCK)) {
        home->queue->device->ops->free(home->queue->device, address);
        PyThread_release_lock(home->lock);
        return;
    }
    pthread_mutex_lock(&state->guard);
    add_late(home, address);
    pthread_mutex_unlock(&state->guard);
}

/* The home of a name; else NULL, with *vacant the first free one or NULL. The caller holds the
 * guard. */
static struct py_home *known_home(struct py_state *state, const char *name,
                                  struct py_home **vacant) {
    *vacant = NULL;
    for (int i = 0; i < PY_HOMES; i++) {
        struct py_home *home = &state->homes[i];
        if (!home->kind && !*vacant)
            *vacant = home;
        if (home->kind && strcmp(home->queue->info.name, name) == 0)
            return home;
    }
    return NULL;
}

static struct py_home *home_of(struct py_state *state, const struct device_ops *kind,
                               const char *which) {
    struct device_info info;
    const enum status status = kind->info(which, &info);
    if (status) {
        py_raise(state, status);
        return NULL;
    }
    struct py_home *vacant;
    pthread_mutex_lock(&state->guard);
    struct py_home *home = known_home(state, info.name, &vacant);
    pthread_mutex_unlock(&state->guard);
    if (home)
        return home;
    struct ops_queue *queue = py_queue_take(state, kind, which);
    if (!queue)
        return NULL;
    PyThread_type_lock lock = PyThread_allocate_lock();
    pthread_mutex_lock(&state->guard);
    home = known_home(state, info.name, &vacant); /* another thread may have opened it */
    const bool opens = !home && vacant && lock;
    if (opens) {
        *vacant = (struct py_home){.kind = kind, .queue = queue, .lock = lock, .process = getpid()};
        home = vacant;
    }
    pthread_mutex_unlock(&state->guard);
    if (opens)
        return home;
    py_queue_give(state, queue, kind, which);
    if (!home && !lock)
        PyErr_NoMemory();
    else if (!home)
        PyErr_SetString(PyExc_RuntimeError,
                        "device: arrays are on too many kinds of simulated GPU");
    if (lock)
        PyThread_free_lock(lock);
    return home;
}

/* Waits for a home's queue; Ctrl-C interrupts. */
static int home_acquire(const struct py_state *state, struct py_home *home) {
    const unsigned long me = PyThread_get_thread_ident();
    PyLockStatus held = PyThread_acquire_lock_timed(home->lock, 0, 0);
    /* A forked child has no other thread yet: whoever holds the lock is not there to release it. A
     * waiting thread of the parent may have taken it without the GIL, before it became the owner.
     */
    if (home->process != getpid() && held != PY_LOCK_ACQUIRED) {
        PyErr_Format(state->exceptions[STATUS_FORKED],
                     "device: %s was executing a call of another thread when this process "
                     "was forked from it; fork at another time, or start processes by 'spawn'",
                     home->queue->info.name);
        return -1;
    }
    home->process = getpid();
    if (held != PY_LOCK_ACQUIRED && home->owner == me) {
        PyErr_Format(PyExc_RuntimeError,
                     "device: %s is executing a call of this thread; code that runs within it (a "
                     "signal handler, a destructor) cannot use arrays there",
                     home->queue->info.name);
        return -1;
    }
    while (held != PY_LOCK_ACQUIRED) {
        Py_BEGIN_ALLOW_THREADS
        held = PyThread_acquire_lock_timed(home->lock, LOOK_EVERY_US, 0);
        Py_END_ALLOW_THREADS
        if (held != PY_LOCK_ACQUIRED && PyErr_CheckSignals())
            return -1;
    }
    home->owner = me;
    return 0;
}

static void home_release(struct py_home *home) {
    home->owner = 0;
    PyThread_release_lock(home->lock);
}

void py_homes_close(struct py_state *state) {
    for (int i = 0; i < PY_HOMES && state->homes[i].kind; i++) {
        struct py_home *home = &state->homes[i];
        free_late(state, home);
        ops_close(home->queue);
        PyThread_free_lock(home->lock);
        free(home->late);
        home->kind = NULL;
    }
}

/* --- places */

static struct ops_queue *take(const struct py_place *place, uint64_t stream) {
    return py_queue_take_on(place->state, place->kind, place->which, stream);
}

static void give(const struct py_place *place, struct ops_queue *queue, uint64_t stream) {
    py_queue_give_on(place->state, queue, place->kind, place->which, stream);
}

int py_streams_read(PyObject *tuple, struct py_streams *streams) {
    const Py_ssize_t count = PyTuple_Check(tuple) ? PyTuple_Size(tuple) : 0;
    if (count < 1 || count > PY_STREAMS_MAX) {
        PyErr_Format(PyExc_TypeError,
                     "streams: must be a tuple of 1 to %d streams, the first the one to work on",
                     PY_STREAMS_MAX);
        return -1;
    }
    streams->count = (int)count;
    streams->settled = 0;
    for (int i = 0; i < streams->count; i++)
        streams->of[i] = PyLong_AsUnsignedLongLong(PyTuple_GetItem(tuple, i));
    return PyErr_Occurred() ? -1 : 0;
}

/* Orders the first stream after the others, or the others after it. */
static int order(const struct py_place *place, const struct py_streams *streams, int others_after) {
    const int count = place->home ? 0 : streams->count;
    for (int i = 1; i < count; i++) {
        const uint64_t stream = streams->of[i];
        if (!others_after && streams->settled >> i & 1)
            continue;
        struct ops_queue *other = take(place, stream);
        if (!other)
            return -1;
        const enum status status = others_after
                                       ? place->kind->follow(other->device, place->queue->device)
                                       : place->kind->follow(place->queue->device, other->device);
        if (status)
            py_raise(place->state, status);
        give(place, other, stream);
        if (status)
            return -1;
    }
    return 0;
}

/* Sets every field but the stream and the queue. */
static int find(struct py_state *state, PyObject *device, struct py_place *place) {
    memset(place, 0, sizeof *place);
    place->state = state;
    return py_choose_kernel_device(state, device, &place->kind, place->which);
}

static int enter(struct py_place *place, uint64_t stream) {
    place->stream = stream;
    if (has_streams(place->kind)) {
        place->queue = take(place, stream);
        return place->queue ? 0 : -1;
    }
    struct py_home *home = home_of(place->state, place->kind, place->which);
    if (!home)
        return -1;
    if (home_acquire(place->state, home))
        return -1;
    free_late(place->state, home);
    place->home = home;
    place->queue = home->queue;
    return 0;
}

int py_place_open_on(struct py_place *place, const struct py_streams *streams) {
    if (enter(place, streams->of[0]))
        return -1;
    if (order(place, streams, 0) == 0)
        return 0;
    py_place_close(place);
    return -1;
}

int py_place_join(struct py_place *place, const struct py_streams *streams, int failed) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    failed |= order(place, streams, 1);
    if (type)
        PyErr_Restore(type, value, traceback);
    return failed ? -1 : 0;
}

void py_place_close(struct py_place *place) {
    if (place->home)
        home_release(place->home);
    else if (place->queue)
        give(place, place->queue, place->stream);
    place->queue = NULL;
}

PyObject *py_order(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    struct py_place place;
    struct py_streams streams;
    if (count != 2) {
        PyErr_Format(PyExc_TypeError, "order() takes 2 positional arguments (%zd given)", count);
        return NULL;
    }
    if (py_streams_read(arguments[1], &streams) ||
        find(py_state_of(module), arguments[0], &place) || py_place_open_on(&place, &streams))
        return NULL;
    py_place_close(&place);
    return Py_NewRef(Py_None);
}

/* Device ordinal owning an address, or -1 with an exception set. */
static int owner(PyObject *module, const char *caller, PyObject *const *arguments, Py_ssize_t count,
                 bool *current) {
    const struct device_ops *kind;
    const char *which;
    int ordinal;
    if (count != 2) {
        PyErr_Format(PyExc_TypeError, "%s() takes 2 positional arguments (%zd given)", caller,
                     count);
        return -1;
    }
    const char *name = py_text(arguments[0], "kind");
    const unsigned long long address = PyLong_AsUnsignedLongLong(arguments[1]);
    if (!name || PyErr_Occurred())
        return -1;
    enum status status = device_find("kind", name, &kind, &which);
    if (!status)
        status = kind->owner(address, &ordinal, current);
    if (status)
        py_raise(py_state_of(module), status);
    return status ? -1 : ordinal;
}

PyObject *py_owner(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    const int ordinal = owner(module, "owner", arguments, count, NULL);
    return ordinal < 0 ? NULL : PyLong_FromLong(ordinal);
}

PyObject *py_is_current(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    bool current;
    const int ordinal = owner(module, "is_current", arguments, count, &current);
    return ordinal < 0 ? NULL : PyBool_FromLong(current);
}

static int wait_here(struct py_place *place) {
    struct py_unlocked unlocked;
    py_unlock(&unlocked, place->queue->device);
    const enum status status = place->kind->sync(place->queue->device);
    py_lock(&unlocked);
    if (status)
        py_raise(place->state, status);
    return status ? -1 : 0;
}

PyObject *py_wait(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    struct py_place place;
    if (count != 2) {
        PyErr_Format(PyExc_TypeError, "wait() takes 2 positional arguments (%zd given)", count);
        return NULL;
    }
    const uint64_t stream = PyLong_AsUnsignedLongLong(arguments[1]);
    if (PyErr_Occurred() || find(py_state_of(module), arguments[0], &place) ||
        enter(&place, stream))
        return NULL;
    const int failed = wait_here(&place);
    py_place_close(&place);
    return failed ? NULL : Py_NewRef(Py_None);
}

/* --- copies between devices */

struct transfer {
    struct py_place to, from;
    device_address target, source;
    size_t bytes;
};

/* Both GPUs' legacy streams wait for the copy, which is on the receiver's. */
static int transfer_on_streams(struct transfer *transfer) {
    struct py_place *to = &transfer->to, *from = &transfer->from;
    if (enter(to, PY_LEGACY))
        return -1;
    if (enter(from, PY_LEGACY)) {
        py_place_close(to);
        return -1;
    }
    const struct device_ops *kind = to->kind;
    struct device *receiver = to->queue->device, *sender = from->queue->device;
    enum status status = kind->follow(receiver, sender);
    if (!status)
        status = kind->copy(receiver, transfer->target, transfer->source, transfer->bytes);
    if (!status)
        status = kind->follow(sender, receiver);
    if (status)
        py_raise(to->state, status);
    py_place_close(from);
    py_place_close(to);
    return status ? -1 : 0;
}

/* One home at a time: two threads that copy in opposite directions would wait for each other. */
static int transfer_by_host(struct transfer *transfer) {
    void *host = malloc(transfer->bytes);
    if (!host) {
        PyErr_NoMemory();
        return -1;
    }
    const struct device_source source = {.data = host};
    enum status status = STATUS_OK;
    int failed = enter(&transfer->from, PY_LEGACY);
    if (!failed) {
        struct device *device = transfer->from.queue->device;
        status = device->ops->copy_out(device, host, transfer->source, transfer->bytes);
        py_place_close(&transfer->from);
    }
    if (!failed && !status && !(failed = enter(&transfer->to, PY_LEGACY))) {
        struct device *device = transfer->to.queue->device;
        status = device->ops->copy_in(device, transfer->target, &source, transfer->bytes);
        py_place_close(&transfer->to);
    }
    free(host);
    if (status)
        py_raise(transfer->to.state, status);
    return failed || status ? -1 : 0;
}

PyObject *py_transfer(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    struct py_state *state = py_state_of(module);
    struct transfer transfer;
    if (count != 5) {
        PyErr_Format(PyExc_TypeError, "transfer() takes 5 positional arguments (%zd given)", count);
        return NULL;
    }
    transfer.target = PyLong_AsUnsignedLongLong(arguments[1]);
    transfer.source = PyLong_AsUnsignedLongLong(arguments[3]);
    transfer.bytes = PyLong_AsSize_t(arguments[4]);
    if (PyErr_Occurred() || find(state, arguments[0], &transfer.to) ||
        find(state, arguments[2], &transfer.from))
        return NULL;
    if (transfer.to.kind != transfer.from.kind) {
        PyErr_SetString(PyExc_ValueError, "transfer: the devices are of different kinds");
        return NULL;
    }
    if (transfer.bytes && (has_streams(transfer.to.kind) ? transfer_on_streams(&transfer)
                                                         : transfer_by_host(&transfer)))
        return NULL;
    return Py_NewRef(Py_None);
}

/* --- memory that gpuopt owns */

struct memory {
    PyObject_HEAD
    struct py_state *state;
    const struct device_ops *kind;
    char which[DEVICE_WHICH], name[32];
    device_address address;
    size_t bytes;
    bool lent; /* to a library that may use it on other streams when it returns it */
};

static int memory_enter(struct memory *self, struct py_place *place) {
    *place = (struct py_place){.state = self->state, .kind = self->kind};
    memcpy(place->which, self->which, sizeof place->which);
    return enter(place, PY_LEGACY);
}

/* Allocates on a place whose kind and which are set. */
static struct memory *memory_at(struct py_place *place, size_t bytes) {
    PyTypeObject *type = (PyTypeObject *)place->state->memory_type;
    allocfunc allocate = __extension__(allocfunc) PyType_GetSlot(type, Py_tp_alloc);
    if (enter(place, PY_LEGACY))
        return NULL;
    struct memory *self = (struct memory *)allocate(type, 0);
    enum status status = STATUS_OK;
    if (self) {
        self->state = place->state;
        self->kind = place->kind;
        self->bytes = bytes;
        memcpy(self->which, place->which, sizeof self->which);
        PyOS_snprintf(self->name, sizeof self->name, "%s", place->queue->info.name);
        status = ops_memory_take(place->queue, self->bytes, &self->address);
    }
    py_place_close(place);
    if (status) {
        py_raise(self->state, status);
        self->address = 0;
        Py_CLEAR(self);
    }
    return self;
}

PyObject *py_memory_make(struct py_state *state, const struct device_ops *kind, const char *which,
                         size_t bytes, unsigned long long *address) {
    struct py_place place = {.state = state, .kind = kind};
    memcpy(place.which, which, sizeof place.which);
    struct memory *self = memory_at(&place, bytes);
    *address = self ? self->address : 0;
    return (PyObject *)self;
}

static PyObject *memory_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    static char *keys[] = {"nbytes", "device", NULL};
    Py_ssize_t bytes;
    PyObject *device = NULL;
    struct py_place place;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "n|O", keys, &bytes, &device))
        return NULL;
    PyObject *module = PyType_GetModule(type);
    if (!module || find(py_state_of(module), device, &place))
        return NULL;
    if (strcmp(place.kind->kind, "cpu") == 0) {
        PyErr_SetString(PyExc_ValueError, "device: arrays of the cpu are NumPy's; use "
                                          "numpy.asarray, or name 'cuda' or 'sim'");
        return NULL;
    }
    return (PyObject *)memory_at(&place, (size_t)bytes);
}

static void memory_dealloc(struct memory *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    struct py_place place;
    PyObject *error_type, *error, *traceback;
    PyErr_Fetch(&error_type, &error, &traceback);
    if (self->address && !has_streams(self->kind)) {
        struct py_home *home = home_of(self->state, self->kind, self->which);
        if (home)
            home_free(self->state, home, self->address);
    } else if (self->address && !memory_enter(self, &place)) {
        enum status status = STATUS_OK;
        if (self->lent) {
            Py_BEGIN_ALLOW_THREADS /* work that it waits for may call Python */
            status = self->kind->follow(place.queue->device, NULL);
            Py_END_ALLOW_THREADS
        }
        if (!status) /* else a stream is being captured, and the memory stays allocated */
            ops_memory_give(place.queue, self->address, self->bytes);
        py_place_close(&place);
    }
    PyErr_Clear(); /* a lost device has freed everything */
    PyErr_Restore(error_type, error, traceback);
    const freefunc release = __extension__(freefunc) PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* Copies between a host array, which must be one run in C order, and the memory. Waits. */
static PyObject *memory_copy(struct memory *self, PyObject *object, int in) {
    PyArrayObject *array = (PyArrayObject *)object;
    struct py_place place;
    struct py_unlocked unlocked;
    if (!PyArray_Check(object) || !PyArray_IS_C_CONTIGUOUS(array) ||
        (size_t)PyArray_NBYTES(array) != self->bytes || (!in && !PyArray_ISWRITEABLE(array))) {
        PyErr_SetString(PyExc_ValueError,
                        "array: must be a C-contiguous array with the size of the memory in bytes");
        return NULL;
    }
    if (memory_enter(self, &place))
        return NULL;
    const struct device_source source = {.data = PyArray_DATA(array)};
    py_unlock(&unlocked, place.queue->device);
    const enum status status =
        in ? self->kind->copy_in(place.queue->device, self->address, &source, self->bytes)
           : ops_fetch(place.queue, self->address, self->bytes, PyArray_DATA(array));
    py_lock(&unlocked);
    if (status)
        py_raise(self->state, status);
    py_place_close(&place);
    return status ? NULL : Py_NewRef(Py_None);
}

static PyObject *memory_copy_in(struct memory *self, PyObject *array) {
    return memory_copy(self, array, 1);
}
static PyObject *memory_copy_out(struct memory *self, PyObject *array) {
    return memory_copy(self, array, 0);
}
static PyObject *memory_item(struct memory *self, PyObject *dtype) {
    if (!PyArray_DescrCheck(dtype)) {
        PyErr_Format(PyExc_TypeError, "dtype: must be a numpy.dtype, not %R", dtype);
        return NULL;
    }
    PyArray_Descr *descr = (PyArray_Descr *)Py_NewRef(dtype);
    PyObject *array = PyArray_NewFromDescr(&PyArray_Type, descr, 0, NULL, NULL, NULL, 0, NULL);
    PyObject *done = array ? memory_copy(self, array, 0) : NULL;
    PyObject *item =
        done ? PyArray_GETITEM((PyArrayObject *)array, PyArray_BYTES((PyArrayObject *)array))
             : NULL;
    Py_XDECREF(done);
    Py_XDECREF(array);
    return item;
}
static PyObject *memory_lend(struct memory *self, PyObject *nothing) {
    (void)nothing;
    self->lent = true;
    return Py_NewRef(Py_None);
}
static PyObject *memory_device(struct memory *self, void *closure) {
    (void)closure;
    return PyUnicode_FromString(self->name);
}
static PyObject *memory_address(struct memory *self, void *closure) {
    (void)closure;
    return PyLong_FromUnsignedLongLong(self->address);
}

static PyMethodDef memory_methods[] = {
    {"copy_in", (PyCFunction)memory_copy_in, METH_O,
     "copy_in($self, array, /)\n--\n\nCopy a host array to the memory."},
    {"copy_out", (PyCFunction)memory_copy_out, METH_O,
     "copy_out($self, array, /)\n--\n\nCopy the memory to a host array."},
    {"item", (PyCFunction)memory_item, METH_O,
     "item($self, dtype, /)\n--\n\nReturn the memory's one element as a Python number."},
    {"lend", (PyCFunction)memory_lend, METH_NOARGS,
     "lend($self, /)\n--\n\nReuse the memory only after the work that any stream has when it is "
     "freed."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef memory_getset[] = {
    {"device", (getter)memory_device, NULL, "The device's name.", NULL},
    {"address", (getter)memory_address, NULL, "Where it begins, on the device.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* __extension__: ISO C has no function pointers in void pointers, which the C API requires. */
static PyType_Slot memory_slots[] = {
    {Py_tp_new, __extension__(void *) memory_new},
    {Py_tp_dealloc, __extension__(void *) memory_dealloc},
    {Py_tp_methods, memory_methods},
    {Py_tp_getset, memory_getset},
    {Py_tp_doc, "Memory(nbytes, device=None)\n--\n\nMemory on a device, freed with the object."},
    {0, NULL},
};

static PyType_Spec memory_spec = {
    .name = "gpuopt._core.Memory",
    .basicsize = sizeof(struct memory),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = memory_slots,
};

int py_memory_add(PyObject *module, struct py_state *state) {
    state->memory_type = PyType_FromModuleAndSpec(module, &memory_spec, NULL);
    return state->memory_type ? PyModule_AddObjectRef(module, "Memory", state->memory_type) : -1;
}

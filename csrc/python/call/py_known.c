/* py_known.c: arrays on a device that a call recognises, and whose results it allocates, without
 * Python code: gpuopt's own, those of types with DLPack's C exchange API (PyTorch), and those whose
 * attributes C reads (CuPy).
 */
#include "py_plan.h"

#include <string.h>

#define WORDS(WORD)     \
    WORD(_view)         \
    WORD(requires_grad) \
    WORD(is_neg)        \
    WORD(is_conj)       \
    WORD(is_inference)  \
    WORD(new_empty)     \
    WORD(dtype) WORD(data) WORD(ptr) WORD(device_id) WORD(shape) WORD(strides) WORD(_c_contiguous)
enum word {
#define WORD(name) WORD_##name,
    WORDS(WORD) WORD_COUNT
#undef WORD
};

/* A type of arrays: with `exchange`, with `base`, or gpuopt's own with neither. */
struct known {
    PyObject *type, *library;
    const struct dl_exchange *exchange;
    /* With exchange: DLPack's dtypes to NumPy's, NumPy's to the library's; make(shape, strides,
     * dtype) on the current device; increment(array), after a write. The last two may be None. */
    PyObject *dtypes, *to_dtype, *make, *increment;
    /* With base: current_stream(device).ptr; base(shape, dtype), or, unless None, blank(base) and
     * then init(array, shape, dtype). */
    PyObject *base, *current_stream, *blank, *init;
    bool tells_order; /* has _c_contiguous, which costs less to read than strides */
};

/* Entries are added, and never removed before the module is: readers need no lock. */
struct py_known {
    PyObject *words[WORD_COUNT];
    PyObject *own, *own_library;
    struct known types[PY_KNOWN_MOST];
    int count;
};

static int make_known(struct py_state *state) {
    static const char *const words[] = {
#define WORD(name) #name,
        WORDS(WORD)
#undef WORD
    };
    struct py_known *known = state->known ? NULL : PyMem_Calloc(1, sizeof *known);
    if (state->known)
        return 0;
    if (!known) {
        PyErr_NoMemory();
        return -1;
    }
    state->known = known;
    for (int k = 0; k < WORD_COUNT; k++)
        if (!(known->words[k] = PyUnicode_InternFromString(words[k])))
            return -1;
    return 0;
}

int py_known_traverse(const struct py_known *known, visitproc visit, void *arg) {
    for (int k = 0; known && k < known->count; k++) {
        const struct known *type = &known->types[k];
        Py_VISIT(type->type);
        Py_VISIT(type->library);
        Py_VISIT(type->dtypes);
        Py_VISIT(type->to_dtype);
        Py_VISIT(type->make);
        Py_VISIT(type->increment);
        Py_VISIT(type->base);
        Py_VISIT(type->current_stream);
        Py_VISIT(type->blank);
        Py_VISIT(type->init);
    }
    return 0;
}

void py_known_clear(struct py_state *state) {
    struct py_known *known = state->known;
    state->known = NULL;
    for (int k = 0; known && k < WORD_COUNT; k++)
        Py_XDECREF(known->words[k]);
    for (int k = 0; known && k < known->count; k++) {
        const struct known *type = &known->types[k];
        Py_XDECREF(type->type);
        Py_XDECREF(type->library);
        Py_XDECREF(type->dtypes);
        Py_XDECREF(type->to_dtype);
        Py_XDECREF(type->make);
        Py_XDECREF(type->increment);
        Py_XDECREF(type->base);
        Py_XDECREF(type->current_stream);
        Py_XDECREF(type->blank);
        Py_XDECREF(type->init);
    }
    PyMem_Free(known);
}

/* know(type, library): gpuopt's own;
 * know(type, library, base, current_stream, blank, init): by attributes;
 * know(type, library, dtypes, to_dtype, make, increment): by the exchange API. */
PyObject *py_know(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    struct py_state *state = py_state_of(module);
    const bool exchanges = count == 6 && PyDict_Check(arguments[2]) && PyDict_Check(arguments[3]);
    const bool attributes = count == 6 && PyType_Check(arguments[2]);
    if ((count != 2 && !exchanges && !attributes) || !PyType_Check(arguments[0])) {
        PyErr_SetString(PyExc_TypeError, "know() takes a type, its library and how it is read");
        return NULL;
    }
    const struct dl_exchange *exchange = exchanges ? py_exchange(arguments[0]) : NULL;
    if (PyErr_Occurred() || make_known(state))
        return NULL;
    struct py_known *known = state->known;
    if (known->count == PY_KNOWN_MOST || (exchanges && !exchange))
        return Py_NewRef(Py_False);
    struct known *type = &known->types[known->count];
    *type = (struct known){
        .type = Py_NewRef(arguments[0]), .library = Py_NewRef(arguments[1]), .exchange = exchange};
    if (exchanges) {
        type->dtypes = Py_NewRef(arguments[2]);
        type->to_dtype = Py_NewRef(arguments[3]);
        type->make = Py_NewRef(arguments[4]);
        type->increment = Py_NewRef(arguments[5]);
    } else if (attributes) {
        type->base = Py_NewRef(arguments[2]);
        type->current_stream = Py_NewRef(arguments[3]);
        type->blank = Py_NewRef(arguments[4]);
        type->init = Py_NewRef(arguments[5]);
        type->tells_order = PyObject_HasAttr(type->base, known->words[WORD__c_contiguous]);
    } else {
        known->own = type->type;
        known->own_library = type->library;
    }
    known->count++;
    return Py_NewRef(Py_True);
}

static const struct known *known_of(const struct py_known *known, PyObject *value) {
    PyObject *type = (PyObject *)Py_TYPE(value);
    for (int k = 0; known && k < known->count; k++)
        if (known->types[k].type == type)
            return &known->types[k];
    return NULL;
}

/* Whether an attribute, or a method's result, is false; -1 with an exception. */
static int is_false(PyObject *value, PyObject *name, bool calls) {
    PyObject *found =
        calls ? PyObject_CallMethodObjArgs(value, name, NULL) : PyObject_GetAttr(value, name);
    const int result = found ? !PyObject_IsTrue(found) : -1;
    Py_XDECREF(found);
    return result;
}

/* By the exchange API. DLPack does not report lazy operations and gradients. */
static PyObject *exchanged(struct py_state *state, const struct known *type, PyObject *value) {
    const struct py_known *known = state->known;
    if (is_false(value, known->words[WORD_requires_grad], false) <= 0 ||
        is_false(value, known->words[WORD_is_neg], true) <= 0)
        return NULL;
    PyObject *view = py_exchange_view(state, type->exchange, value, type->library, type->dtypes);
    const PyArray_Descr *dtype =
        view ? (const PyArray_Descr *)((struct py_view *)view)->items.dtype : NULL;
    if (dtype && PyTypeNum_ISCOMPLEX(dtype->type_num) &&
        is_false(value, known->words[WORD_is_conj], true) <= 0)
        Py_CLEAR(view);
    return view;
}

/* An attribute that is an integer; -1 with an exception. */
static int integer_of(PyObject *object, PyObject *name, unsigned long long *integer) {
    PyObject *found = object ? PyObject_GetAttr(object, name) : NULL;
    if (found)
        *integer = PyLong_AsUnsignedLongLong(found);
    Py_XDECREF(found);
    return PyErr_Occurred() ? -1 : 0;
}

/* An array's address, and the index of its device. */
static int attributes_place(struct py_state *state, PyObject *value, unsigned long long *address,
                            unsigned long long *device) {
    const struct py_known *known = state->known;
    PyObject *memory = PyObject_GetAttr(value, known->words[WORD_data]);
    const int failed = integer_of(memory, known->words[WORD_ptr], address) ||
                       integer_of(memory, known->words[WORD_device_id], device);
    Py_XDECREF(memory);
    return failed ? -1 : 0;
}

static int attributes_stream(const struct py_known *known, const struct known *type,
                             unsigned long long device, unsigned long long *handle) {
    PyObject *index = PyLong_FromUnsignedLongLong(device);
    PyObject *stream =
        index ? PyObject_CallFunctionObjArgs(type->current_stream, index, NULL) : NULL;
    const int failed = integer_of(stream, known->words[WORD_ptr], handle);
    *handle = failed || *handle ? *handle : PY_LEGACY;
    Py_XDECREF(index);
    Py_XDECREF(stream);
    return failed;
}

/* Whether strides are those of C order; any are for an array without elements. */
static bool is_in_c_order(PyObject *shape, PyObject *strides, npy_intp item) {
    const Py_ssize_t axes = PyTuple_Size(shape);
    bool in_order = axes == PyTuple_Size(strides);
    for (Py_ssize_t k = axes; in_order && k-- > 0;) {
        const Py_ssize_t extent = PyLong_AsSsize_t(PyTuple_GetItem(shape, k));
        if (extent == 0)
            return true;
        in_order = extent == 1 || PyLong_AsSsize_t(PyTuple_GetItem(strides, k)) == item;
        item *= extent;
    }
    return in_order;
}

/* The strides of an array; None for C order. */
static PyObject *strides_of(const struct py_known *known, const struct known *type, PyObject *value,
                            PyObject *shape, PyObject *dtype) {
    if (type->tells_order) {
        const int has_gaps = is_false(value, known->words[WORD__c_contiguous], false);
        if (has_gaps <= 0)
            return has_gaps < 0 ? NULL : Py_NewRef(Py_None);
    }
    PyObject *strides = PyObject_GetAttr(value, known->words[WORD_strides]);
    if (strides && PyTuple_CheckExact(shape) && PyTuple_CheckExact(strides) &&
        PyArray_DescrCheck(dtype) &&
        is_in_c_order(shape, strides, PyDataType_ELSIZE((const PyArray_Descr *)dtype))) {
        Py_DECREF(strides);
        strides = Py_NewRef(Py_None);
    }
    return strides;
}

/* `before`: the View of another array of the call, or NULL: the stream is the same on its device.
 */
static PyObject *by_attributes(struct py_state *state, const struct known *type, PyObject *value,
                               PyObject *before) {
    const struct py_known *known = state->known;
    const struct py_view_items *last = before ? &((struct py_view *)before)->items : NULL;
    struct py_view_items items = {.library = type->library, .holder = value};
    unsigned long long device;
    PyObject *view = NULL;
    if (!attributes_place(state, value, &items.address, &device))
        items.device = py_gpu_name(state, (int32_t)device);
    if (items.device && last && last->library == type->library && last->device == items.device)
        items.stream = last->stream;
    else if (items.device && attributes_stream(known, type, device, &items.stream))
        Py_CLEAR(items.device);
    if (items.device) {
        items.shape = PyObject_GetAttr(value, known->words[WORD_shape]);
        items.dtype = PyObject_GetAttr(value, known->words[WORD_dtype]);
    }
    if (items.shape && items.dtype)
        items.strides = strides_of(known, type, value, items.shape, items.dtype);
    if (items.strides && PyTuple_CheckExact(items.shape) &&
        (items.strides == Py_None || PyTuple_CheckExact(items.strides)) &&
        PyArray_DescrCheck(items.dtype)) {
        const PyArray_Descr *descr = (const PyArray_Descr *)items.dtype;
        if (PyArray_ISNBO(descr->byteorder) && !PyErr_Occurred())
            view = py_view_new(state, &items);
    }
    Py_XDECREF(items.shape);
    Py_XDECREF(items.strides);
    Py_XDECREF(items.dtype);
    Py_XDECREF(items.device);
    if (!view && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_Clear();
    return view;
}

PyObject *py_known_view(struct py_state *state, PyObject *value, PyObject *before) {
    const struct py_known *known = state->known;
    const struct known *type = known_of(known, value);
    if (!type)
        return NULL;
    if (type->exchange)
        return exchanged(state, type, value);
    return type->base ? by_attributes(state, type, value, before)
                      : PyObject_GetAttr(value, known->words[WORD__view]);
}

/* borrow(value): its View, or None if the caller has to describe it. */
PyObject *py_borrow(PyObject *module, PyObject *value) {
    PyObject *view = py_known_view(py_state_of(module), value, NULL);
    return view || PyErr_Occurred() ? view : Py_NewRef(Py_None);
}

bool py_known_is_own(const struct py_state *state, PyObject *library) {
    return state->known && state->known->own_library == library;
}

static PyObject *new_own(struct py_state *state, const struct py_new *given,
                         struct py_view_items *to) {
    const struct py_known *known = state->known;
    PyTypeObject *type = (PyTypeObject *)known->own;
    allocfunc allocate = __extension__(allocfunc) PyType_GetSlot(type, Py_tp_alloc);
    PyObject *memory = py_memory_make(state, given->target->kind, given->target->which,
                                      given->bytes, &to->address);
    to->holder = memory;
    to->stream = PY_LEGACY;
    PyObject *view = memory ? py_view_new(state, to) : NULL;
    PyObject *made = view ? allocate(type, 0) : NULL;
    if (made && PyObject_SetAttr(made, known->words[WORD__view], view))
        Py_CLEAR(made);
    Py_XDECREF(view);
    Py_XDECREF(memory);
    return made;
}

/* By the function that PyTorch's compiler calls, in half the time of new_empty, which parses its
 * arguments and goes through the dispatcher twice. NULL: it does not serve this array. */
static PyObject *made_at_once(struct py_state *state, const struct known *type,
                              const struct py_view_items *first, const struct py_new *given,
                              struct py_view_items *to) {
    PyObject *dtype = PyDict_GetItemWithError(type->to_dtype, given->dtype);
    PyObject *arguments =
        dtype && type->make != Py_None ? PyTuple_Pack(3, given->shape, given->steps, dtype) : NULL;
    PyObject *device = NULL, *made = arguments ? PyObject_Call(type->make, arguments, NULL) : NULL;
    int32_t index;
    if (made && known_of(state->known, made) == type &&
        !py_exchange_address(type->exchange, made, &to->address, &index))
        device = py_gpu_name(state, index);
    if (!device || PyUnicode_Compare(device, first->device) != 0) /* another device is current */
        Py_CLEAR(made);
    Py_XDECREF(device);
    Py_XDECREF(arguments);
    return made;
}

/* Passes a dtype only if it differs from the first array's. */
static PyObject *new_exchanged(struct py_state *state, const struct known *type,
                               const struct py_view_items *first, const struct py_new *given,
                               struct py_view_items *to) {
    const struct py_known *known = state->known;
    PyObject *made = made_at_once(state, type, first, given, to);
    if (made || PyErr_Occurred())
        return made;
    PyObject *make = PyObject_GetAttr(first->holder, known->words[WORD_new_empty]);
    PyObject *pair = PyTuple_Pack(1, given->shape), *keywords = NULL;
    bool failed = !make || !pair;
    if (!failed &&
        !PyArray_EquivTypes((PyArray_Descr *)first->dtype, (PyArray_Descr *)given->dtype)) {
        PyObject *dtype = PyDict_GetItemWithError(type->to_dtype, given->dtype);
        keywords = dtype ? PyDict_New() : NULL;
        failed = !keywords || PyDict_SetItem(keywords, known->words[WORD_dtype], dtype);
    }
    if (!failed)
        made = PyObject_Call(make, pair, keywords);
    if (made && (known_of(known, made) != type ||
                 py_exchange_address(type->exchange, made, &to->address, NULL)))
        Py_CLEAR(made);
    Py_XDECREF(make);
    Py_XDECREF(pair);
    Py_XDECREF(keywords);
    return made;
}

/* Lets autograd detect that saved values were overwritten; inference tensors have no version, and
 * outside of inference mode an increment fails. */
int py_known_write(struct py_state *state, PyObject *out) {
    const struct known *type = known_of(state->known, out);
    if (!type || !type->exchange)
        return type ? 0 : 1;
    if (type->increment == Py_None)
        return 0;
    PyObject *pair = PyTuple_Pack(1, out), *error, *value, *traceback;
    PyObject *done = pair ? PyObject_CallFunctionObjArgs(type->increment, pair, NULL) : NULL;
    Py_XDECREF(pair);
    Py_XDECREF(done);
    if (done)
        return 0;
    PyErr_Fetch(&error, &value, &traceback);
    const int counts = is_false(out, state->known->words[WORD_is_inference], true);
    if (counts > 0) {
        PyErr_Restore(error, value, traceback);
        return -1;
    }
    Py_XDECREF(error);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return counts;
}

/* An array of the type, on the current device. CuPy's own constructor, in Python, takes 0.4 us more
 * than the two methods that it calls. */
static PyObject *made_of(const struct known *type, const struct py_new *given) {
    if (type->blank == Py_None)
        return PyObject_CallFunctionObjArgs(type->base, given->shape, given->dtype, NULL);
    PyObject *made = PyObject_CallFunctionObjArgs(type->blank, type->base, NULL);
    PyObject *done =
        made ? PyObject_CallFunctionObjArgs(type->init, made, given->shape, given->dtype, NULL)
             : NULL;
    if (!done)
        Py_CLEAR(made);
    Py_XDECREF(done);
    return made;
}

/* NULL, perhaps without an exception, if another device is the current one. */
static PyObject *new_by_attributes(struct py_state *state, const struct known *type,
                                   const struct py_view_items *first, const struct py_new *given,
                                   struct py_view_items *to) {
    unsigned long long index;
    PyObject *made = made_of(type, given);
    if (!made || attributes_place(state, made, &to->address, &index)) {
        Py_XDECREF(made);
        return NULL;
    }
    PyObject *device = py_gpu_name(state, (int32_t)index);
    if (!device || (device != first->device && PyUnicode_Compare(device, first->device) != 0))
        Py_CLEAR(made);
    Py_XDECREF(device);
    return made;
}

PyObject *py_known_new(struct py_state *state, const struct py_view_items *first,
                       const struct py_new *given, struct py_view_items *to) {
    *to = (struct py_view_items){.library = first->library,
                                 .shape = given->shape,
                                 .strides = Py_None,
                                 .dtype = given->dtype,
                                 .device = first->device,
                                 .stream = first->stream};
    if (py_known_is_own(state, first->library))
        return new_own(state, given, to);
    const struct known *type = known_of(state->known, first->holder);
    if (!type || type->library != first->library)
        return NULL;
    return type->exchange ? new_exchanged(state, type, first, given, to)
                          : new_by_attributes(state, type, first, given, to);
}

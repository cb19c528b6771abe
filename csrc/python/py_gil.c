/* py_gil.c: releases the GIL while a device works, and polls for Ctrl-C meanwhile. The work runs in
 * the floating-point state of float_state.h, whatever the caller's. */
#include "py_core.h"

#include <time.h>

enum { LOOK_EVERY_MS = 50 };

static int64_t milliseconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* The device's poll while it works: takes the GIL, at most every LOOK_EVERY_MS. */
static bool interrupted(void *state) {
    struct py_unlocked *unlocked = state;
    const int64_t now = milliseconds();
    const bool first = unlocked->next_look == 0;
    if (now < unlocked->next_look)
        return false;
    unlocked->next_look = now + LOOK_EVERY_MS;
    if (first) /* a short call reads no clock */
        return false;
    PyEval_RestoreThread(unlocked->thread);
    const int raised = PyErr_CheckSignals();
    unlocked->thread = PyEval_SaveThread();
    return raised != 0;
}

void py_unlock(struct py_unlocked *unlocked, struct device *device) {
    unlocked->device = device;
    unlocked->next_look = 0;
    device->interrupted = interrupted;
    device->interrupted_state = unlocked;
    unlocked->thread = PyEval_SaveThread();
    unlocked->float_state = float_state_enter();
}

void py_lock(struct py_unlocked *unlocked) {
    float_state_leave(unlocked->float_state);
    PyEval_RestoreThread(unlocked->thread);
    unlocked->device->interrupted = NULL;
}

/* float_state.h: the floating-point state that results are defined in: round to nearest, keep
 * subnormals, mask exceptions. A caller may have set another one (flush-to-zero by PyTorch or
 * -ffast-math, fesetround), which threads inherit, so every thread that computes enters it and
 * leaves it again. Knows nothing of the program.
 */
#ifndef GPUOPT_FLOAT_STATE_H
#define GPUOPT_FLOAT_STATE_H

#include <fenv.h>

#if defined(__SSE2__)
#include <xmmintrin.h>

typedef unsigned float_state;

enum {
    FLOAT_STATE_DEFAULT = 0x1f80, /* of MXCSR: exceptions masked, nothing else set */
    FLOAT_STATE_RAISED = 0x3f,    /* its sticky exception flags: the caller's to keep */
};

static inline int float_state_differs(float_state state) {
    return ((state ^ FLOAT_STATE_DEFAULT) & ~(unsigned)FLOAT_STATE_RAISED) != 0;
}

/* A read costs 2 ns and a write 10, so the register is written only where it differs. */
static inline float_state float_state_enter(void) {
    const float_state before = _mm_getcsr();
    if (float_state_differs(before))
        _mm_setcsr(FLOAT_STATE_DEFAULT | (before & FLOAT_STATE_RAISED));
    __asm__ volatile("" ::: "memory"); /* what computes stays behind it */
    return before;
}

static inline void float_state_leave(float_state before) {
    __asm__ volatile("" ::: "memory");
    if (float_state_differs(before))
        _mm_setcsr((before & ~(unsigned)FLOAT_STATE_RAISED) | (_mm_getcsr() & FLOAT_STATE_RAISED));
}

#else

typedef fenv_t float_state;

static inline int float_state_differs(float_state state) {
    (void)state;
    return 1; /* it cannot be looked into */
}

static inline float_state float_state_enter(void) {
    float_state before;
    fegetenv(&before);
    fesetenv(FE_DFL_ENV);
    __asm__ volatile("" ::: "memory"); /* what computes stays behind it */
    return before;
}

static inline void float_state_leave(float_state before) {
    __asm__ volatile("" ::: "memory");
    fesetenv(&before);
}

#endif

/* The same for code that calls fesetround, strtod or snprintf, which also use the x87 unit. */
static inline fenv_t float_state_enter_all(void) {
    fenv_t before;
    fegetenv(&before);
    fesetenv(FE_DFL_ENV);
    (void)float_state_enter(); /* not every C library clears flush-to-zero */
    return before;
}

static inline void float_state_leave_all(fenv_t before) {
    __asm__ volatile("" ::: "memory");
    fesetenv(&before);
}

#endif

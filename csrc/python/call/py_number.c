/* py_number.c: Python numbers as the bits of a dtype. */
#include "py_plan.h"

#include <math.h>

/* Rounds to a floating-point number of `digits` binary digits, ties to even; returns its bits. */
static uint16_t small_float(double value, int digits, int bias) {
    const uint16_t infinite = (uint16_t)((2 * bias + 1) << (digits - 1));
    const double size = fabs(value);
    double bits = infinite;
    int exponent;
    if (isnan(value))
        return (uint16_t)(infinite | 1 << (digits - 2));
    if (size < ldexp(1, 1 - bias)) {
        bits = nearbyint(ldexp(size, digits - 2 + bias));
    } else if (isfinite(value)) {
        const double digit = nearbyint(ldexp(frexp(size, &exponent), digits));
        bits = ldexp(exponent - 2 + bias, digits - 1) + digit;
    }
    return (uint16_t)((bits < infinite ? (uint16_t)bits : infinite) |
                      (signbit(value) ? 0x8000 : 0));
}

static int float_read(PyObject *value, enum dtype dtype, union py_number *number) {
    const double wide = PyFloat_AsDouble(value);
    if (wide == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    if (dtype == DTYPE_float64)
        number->float64 = wide;
    else if (dtype == DTYPE_float32)
        number->float32 = (float)wide;
    else
        number->bits =
            dtype == DTYPE_float16 ? small_float(wide, 11, 15) : small_float(wide, 8, 127);
    return 1;
}

int py_number_read(PyObject *value, enum dtype dtype, union py_number *number) {
    number->bits = 0;
    if (dtype >= DTYPE_float16 && dtype <= DTYPE_float64)
        return float_read(value, dtype, number);
    const int bits = 8 * (int)dtype_size(dtype), is_signed = dtype <= DTYPE_int64;
    int overflow;
    const long long whole = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow || dtype == DTYPE_bool || dtype > DTYPE_uint64 || (!is_signed && whole < 0))
        return 0;
    if (bits < 64 && (is_signed ? whole >> (bits - 1) != (whole < 0 ? -1 : 0) : whole >> bits != 0))
        return 0;
    number->int64 = whole;
    return 1;
}

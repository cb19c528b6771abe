"""Headers of the host that kernels' files often include and that NVRTC lacks.

NVRTC declares what device code uses of most of them by itself: their stand-ins are empty. The
others declare the types and the limits that device code uses.
"""

_STDINT = """
typedef signed char int8_t; typedef unsigned char uint8_t;
typedef short int16_t; typedef unsigned short uint16_t;
typedef int int32_t; typedef unsigned int uint32_t;
typedef long long int64_t; typedef unsigned long long uint64_t;
typedef long long intptr_t; typedef unsigned long long uintptr_t;
#define INT8_MAX 127
#define INT8_MIN (-128)
#define UINT8_MAX 255
#define INT16_MAX 32767
#define INT16_MIN (-32768)
#define UINT16_MAX 65535
#define INT32_MAX 2147483647
#define INT32_MIN (-2147483647 - 1)
#define UINT32_MAX 4294967295u
#define INT64_MAX 9223372036854775807ll
#define INT64_MIN (-9223372036854775807l - 1)
#define UINT64_MAX 18446744073709551615ul
#define SIZE_MAX 18446744073709551615ul
"""
_LIMITS = """
#define CHAR_BIT 8
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#define SHRT_MAX 32767
#define SHRT_MIN (-32768)
#define USHRT_MAX 65535
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295u
#define LONG_MAX 9223372036854775807ll
#define LONG_MIN (-9223372036854775807l - 1)
#define ULONG_MAX 18446744073709551615ul
#define LLONG_MAX 9223372036854775807ll
#define LLONG_MIN (-9223372036854775807ll - 1)
#define ULLONG_MAX 18446744073709551615ull
"""
_FLOAT = """
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define FLT_DIG 6
#define FLT_MANT_DIG 24
#define DBL_MAX 1.7976931348623158e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
#define DBL_DIG 15
#define DBL_MANT_DIG 53
"""
_MATH = """
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_E 2.71828182845904523536
#define M_SQRT2 1.41421356237309504880
"""
_EMPTY = (
    *("cuda.h", "cuda_runtime.h", "cuda_runtime_api.h", "cuda_device_runtime_api.h"),
    *("device_launch_parameters.h", "device_functions.h", "stdio.h", "cstdio", "stdlib.h"),
    *("cstdlib", "string.h", "cstring", "stddef.h", "cstddef", "assert.h", "cassert", "new"),
)
_STANDARD = ("array", "functional", "limits", "tuple", "type_traits", "utility")


def _guarded(text: str) -> str:
    """Return a header whose macros give way to those that exist."""
    lines = []
    for line in text.splitlines():
        if line.startswith("#define "):
            line = f"#ifndef {line.split()[1]}\n{line}\n#endif"
        lines.append(line)
    return "\n".join(["#pragma once", *lines, ""])


_TEXTS = (
    dict.fromkeys(_EMPTY, "")
    | dict.fromkeys(("stdint.h", "cstdint", "inttypes.h", "cinttypes"), _STDINT)
    | dict.fromkeys(("limits.h", "climits"), _LIMITS)
    | dict.fromkeys(("float.h", "cfloat"), _FLOAT)
    | dict.fromkeys(("math.h", "cmath"), _MATH)
    | {
        name: f"#include <cuda/std/{name}>\nnamespace std {{ using namespace cuda::std; }}"
        for name in _STANDARD
    }
)
STUBS = {name: _guarded(text) for name, text in _TEXTS.items()}

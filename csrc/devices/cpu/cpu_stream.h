/* cpu_stream.h: streaming stores, which bypass the caches. A result larger than the last-level
 * cache would be evicted before it is read, and a streaming store does not read the line first.
 * Knows no operation.
 */
#ifndef GPUOPT_CPU_STREAM_H
#define GPUOPT_CPU_STREAM_H

#include "cpu_isa.h"
#include "cpu_machine.h"

#include <string.h>

enum { CPU_LINE = 64 }; /* bytes of a cache line */

/* memcpy with streaming stores for whole lines; both ends pass through the caches. */
CPU_INLINE void cpu_stream(void *to, const void *from, size_t bytes) {
#if defined(__x86_64__)
    char *out = to;
    const char *in = from;
    const size_t skew = (uintptr_t)out % CPU_LINE;
    if (skew && bytes >= CPU_LINE) {
        memcpy(out, in, CPU_LINE - skew);
        out += CPU_LINE - skew;
        in += CPU_LINE - skew;
        bytes -= CPU_LINE - skew;
    }
    for (; bytes >= CPU_LINE; out += CPU_LINE, in += CPU_LINE, bytes -= CPU_LINE) {
        const __m128i a = _mm_loadu_si128((const __m128i *)in);
        const __m128i b = _mm_loadu_si128((const __m128i *)(in + 16));
        const __m128i c = _mm_loadu_si128((const __m128i *)(in + 32));
        const __m128i d = _mm_loadu_si128((const __m128i *)(in + 48));
        _mm_stream_si128((__m128i *)out, a);
        _mm_stream_si128((__m128i *)(out + 16), b);
        _mm_stream_si128((__m128i *)(out + 32), c);
        _mm_stream_si128((__m128i *)(out + 48), d);
    }
    memcpy(out, in, bytes);
#else
    memcpy(to, from, bytes);
#endif
}

/* Required before another thread reads streamed data. */
CPU_INLINE void cpu_stream_end(void) {
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

#endif

/* host_stream.h: streaming stores, which bypass the caches. A result larger than the last-level
 * cache would be evicted before it is read, and a streaming store does not read the line first.
 * Knows no operation.
 */
#ifndef GPUOPT_HOST_STREAM_H
#define GPUOPT_HOST_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

enum { HOST_LINE = 64 }; /* bytes of a cache line */

/* memcpy with streaming stores for whole lines; both ends pass through the caches. */
static inline __attribute__((always_inline)) void host_stream(void *to, const void *from,
                                                              size_t bytes) {
#if defined(__x86_64__)
    char *out = to;
    const char *in = from;
    const size_t skew = (uintptr_t)out % HOST_LINE;
    if (skew && bytes >= HOST_LINE) {
        memcpy(out, in, HOST_LINE - skew);
        out += HOST_LINE - skew;
        in += HOST_LINE - skew;
        bytes -= HOST_LINE - skew;
    }
    for (; bytes >= HOST_LINE; out += HOST_LINE, in += HOST_LINE, bytes -= HOST_LINE) {
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
static inline __attribute__((always_inline)) void host_stream_end(void) {
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

#endif

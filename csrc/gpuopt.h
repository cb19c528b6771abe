/* gpuopt.h: status codes, data types and limits, shared by every part of the library.
 *
 * A function that can fail returns an enum status. When it is not STATUS_OK, the calling thread's
 * status record holds a text that names the cause and the fix. Nothing here knows Python, CUDA or a
 * kernel.
 */
#ifndef GPUOPT_H
#define GPUOPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum status {
    STATUS_OK,
#define STATUS_BUILTIN(code, text, exception) STATUS_##code,
#define STATUS_OWN(code, text, exception, base) STATUS_##code,
#include "status.def"
#undef STATUS_BUILTIN
#undef STATUS_OWN
    STATUS_COUNT
};

/* A finding of a check while a kernel ran. */
struct status_finding {
    const char *kind, *text;   /* "race in shared memory", static; the whole message */
    const char *kernel, *file; /* file NULL: no line table, line is 0 */
    unsigned line, ptx_line;
    uint32_t block[3], thread[3];
    uint64_t address, times;
    const char *space, *access; /* "shared", "read"; static, NULL: not about an access to memory */
    uint32_t bytes, argument, item; /* of the access; the argument next to it, from 1, 0: none is
                                       known; bytes of its elements */
    int64_t offset;                 /* bytes from the beginning of the argument or allocation */
    uint64_t extent;                /* bytes of it; 0: unknown */
    const char *array;              /* "float32[10]"; "": no description */
    const char *other_access;       /* the second access of a race; NULL: none */
    const char *other_file;
    unsigned other_line, other_ptx_line;
    uint32_t other_block[3], other_thread[3];
};

/* Details of this thread's last failed call. */
struct status_record {
    char text[1024];
    uint64_t bytes_asked, bytes_free; /* set by STATUS_NO_DEVICE_MEMORY */
    unsigned line, column;         /* set by STATUS_PTX_ERROR: position in the text; 0: unknown */
    struct status_finding finding; /* set by STATUS_SIM_ERROR; kind NULL: no check failed */
    char kernel[128], file[256];   /* storage of the finding's strings */
};

#if defined(__GNUC__)
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))
#else
#define PRINTF_LIKE(text, first)
#endif

/* Records the text and returns the code: `return status_fail(...)`. */
enum status status_fail(enum status code, const char *format, ...) PRINTF_LIKE(2, 3);
/* note: why so little is free, with a leading space, or "". */
enum status status_no_device_memory(const char *device, uint64_t bytes_asked, uint64_t bytes_free,
                                    const char *note);
enum status status_ptx_error(unsigned line, unsigned column, const char *text);
enum status status_sim_finding(const struct status_finding *finding);
const struct status_record *status_last(void);

/* The data types by their NumPy names: DTYPE(name, bytes of an element). */
/* clang-format off */
#define GPUOPT_DTYPES(DTYPE)                                                                       \
    DTYPE(bool, 1)                                                                                 \
    DTYPE(int8, 1)    DTYPE(int16, 2)   DTYPE(int32, 4)   DTYPE(int64, 8)                          \
    DTYPE(uint8, 1)   DTYPE(uint16, 2)  DTYPE(uint32, 4)  DTYPE(uint64, 8)                         \
    DTYPE(float16, 2) DTYPE(bfloat16, 2) DTYPE(float32, 4) DTYPE(float64, 8)                       \
    DTYPE(complex64, 8) DTYPE(complex128, 16)
/* clang-format on */

/* `bool` is a macro of <stdbool.h>: paste or quote the name directly, never through a second macro.
 */
enum dtype {
#define DTYPE(name, bytes) DTYPE_##name,
    GPUOPT_DTYPES(DTYPE)
#undef DTYPE
        DTYPE_COUNT
};

size_t dtype_size(enum dtype dtype);
const char *dtype_name(enum dtype dtype);

enum { GPUOPT_ITEM_MAX = 16 }; /* bytes of the largest element */

#endif

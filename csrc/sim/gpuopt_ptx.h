/* gpuopt_ptx.h: run one PTX kernel on the simulated GPU, from any language that can call C.
 *
 * A library without Python, a GPU or a driver. From the root of the source tree:
 *
 *   cc -std=gnu11 -O3 -ffp-contract=off -fPIC -shared -fvisibility=hidden \
 *      $(find csrc/sim -name '*.c') -o libgpuopt_ptx.so -lm -pthread
 *   cc -Icsrc/sim program.c -L. -lgpuopt_ptx -Wl,-rpath,'$ORIGIN'
 *
 * The PTX is untrusted text: no kernel harms the host. Calls from several threads are independent.
 */
#ifndef GPUOPT_PTX_H
#define GPUOPT_PTX_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GPUOPT_PTX_API __attribute__((visibility("default")))

enum { GPUOPT_PTX_COUNTERS_MOST = 128 };

/* A kernel's argument. */
struct gpuopt_ptx_argument {
    void *data;   /* a value, as an int; or the host's copy of an array */
    size_t bytes; /* of the value or of the array */
    int is_array; /* 0: the value at `data` is the parameter. 1: the array is copied in, its address
                     is the parameter, and it is copied out after the kernel. 2: copied in only */
};

struct gpuopt_ptx_options {
    const char *gpu;       /* "h200", "t4", "k40", ...; NULL: "h200" */
    unsigned host_threads; /* 0: one for each processor */
    double seconds;        /* after which the launch fails; 0: no bound */
    int unchecked;         /* no search for races and uninitialised reads: faster */
};

struct gpuopt_ptx_report {
    char text[800]; /* "" or the reason why the call failed, with the place in the kernel */
    unsigned line;  /* of the PTX or, after a finding, of the source if it is known; 0: unknown */
    int is_finding; /* a check failed while the kernel ran: out of bounds, a race, ... */
    char *output;   /* of the kernel's printf, to be freed by free(); NULL: none */
    uint64_t counters[GPUOPT_PTX_COUNTERS_MOST]; /* in the order of gpuopt_ptx_counter_name() */
};

/* Runs a kernel once, to its end. args has one entry for each parameter. options and report may be
 * NULL. Returns 0, or another number if the call failed; arrays are copied out in that case, too,
 * if the kernel began. */
GPUOPT_PTX_API int gpuopt_ptx_run(const char *ptx, const char *kernel,
                                  const struct gpuopt_ptx_argument *args, size_t arg_count,
                                  const uint32_t grid[3], const uint32_t block[3],
                                  uint32_t shared_bytes, const struct gpuopt_ptx_options *options,
                                  struct gpuopt_ptx_report *report);

/* The name of a counter, "global_load_sectors"; NULL past the last. */
GPUOPT_PTX_API const char *gpuopt_ptx_counter_name(size_t index);

#ifdef __cplusplus
}
#endif
#endif

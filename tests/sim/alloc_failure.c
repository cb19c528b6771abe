/*
 * alloc_failure.c: the simulator with too little memory. Parses a module, allocates, launches with
 * all checks, counters and a trace, and reads the report; again and again, the n-th allocation of
 * the library failing, until nothing is left to fail. Each time either an error says so and nothing
 * is leaked, or the result is right. Linked with -Wl,--wrap, and -fsanitize=address. Exit status: 0
 * passed; prints how many allocations were failed.
 */
#include "../../csrc/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long countdown; /* the allocation that fails; 0: none */
static long live;      /* the library's, not yet freed */

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__real_aligned_alloc(size_t align, size_t bytes);
void __real_free(void *memory);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
void __wrap_free(void *memory);

static int fails(void) {
    return __atomic_load_n(&countdown, __ATOMIC_RELAXED) > 0 &&
           __atomic_sub_fetch(&countdown, 1, __ATOMIC_RELAXED) == 0;
}

static void *counted(void *made) {
    __atomic_add_fetch(&live, made != NULL, __ATOMIC_RELAXED);
    return made;
}

void *__wrap_malloc(size_t bytes) { return fails() ? NULL : counted(__real_malloc(bytes)); }
void *__wrap_calloc(size_t count, size_t bytes) {
    return fails() ? NULL : counted(__real_calloc(count, bytes));
}
void *__wrap_realloc(void *old, size_t bytes) {
    if (fails())
        return NULL;
    void *grown = __real_realloc(old, bytes);
    return old ? grown : counted(grown);
}
void *__wrap_aligned_alloc(size_t align, size_t bytes) {
    return fails() ? NULL : counted(__real_aligned_alloc(align, bytes));
}
void __wrap_free(void *memory) {
    __atomic_sub_fetch(&live, memory != NULL, __ATOMIC_RELAXED);
    __real_free(memory);
}

/* Divergence, a call with a stack, shared and local memory, a value that nobody defined, a barrier,
 * an atomic, a texture-free round of everything that a launch allocates for: y[i] = (x[i] + 1) * 2
 * for odd i, x[i] else, and sum += 1 and a printed star a thread. */
static const char ptx[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".global .u32 sum = 0;\n.const .u32 two = 2;\n"
    ".file 1 \"kernel.cu\"\n"
    ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
    ".global .align 1 .b8 text[2] = {42, 0};\n"
    ".func (.param .b32 r) twice(.param .b32 a)\n{\n\t.reg .b32 %a<3>;\n\t.local .b32 place[4];\n"
    "\tld.param.u32 %a0, [a];\n\tst.local.u32 [place], %a0;\n\tld.const.u32 %a1, [two];\n"
    "\tld.local.u32 %a2, [place];\n\tmul.lo.u32 %a2, %a2, %a1;\n\tst.param.b32 [r], %a2;\n"
    "\tret;\n}\n"
    ".visible .entry k(.param .u64 x, .param .u64 y)\n{\n"
    "\t.reg .b64 %d<4>;\n\t.reg .b32 %r<9>;\n\t.reg .pred %p;\n\t.shared .b32 tile[128];\n"
    "\t.shared .b32 never;\n"
    "\t.loc 1 3 1\n"
    "\tld.param.u64 %d0, [x];\n\tld.param.u64 %d1, [y];\n\tmov.u32 %r0, %tid.x;\n"
    "\tmov.u32 %r1, %ctaid.x;\n\tmad.lo.u32 %r2, %r1, 128, %r0;\n\tmul.wide.u32 %d2, %r2, 4;\n"
    "\tadd.u64 %d0, %d0, %d2;\n\tadd.u64 %d1, %d1, %d2;\n\tld.global.u32 %r3, [%d0];\n"
    "\tld.shared.u32 %r8, [never];\n\tmov.u32 %r7, tile;\n\tshl.b32 %r4, %r0, 2;\n\tadd.u32 %r7, "
    "%r7, %r4;\n"
    "\tst.shared.u32 [%r7], %r3;\n\tbar.sync 0;\n\tld.shared.u32 %r3, [%r7];\n"
    "\t.loc 1 4 1\n"
    "\tand.b32 %r4, %r0, 1;\n\tsetp.eq.u32 %p, %r4, 0;\n\t@%p bra even;\n"
    "\tadd.u32 %r3, %r3, 1;\n\t{\n\t.param .b32 p0;\n\t.param .b32 q0;\n"
    "\tst.param.b32 [p0], %r3;\n\tcall (q0), twice, (p0);\n\tld.param.b32 %r3, [q0];\n\t}\n"
    "even:\n\t.loc 1 5 1\n\tst.global.u32 [%d1], %r3;\n\tmov.u64 %d3, sum;\n"
    "\tatom.global.add.u32 %r5, [%d3], 1;\n\tmov.u64 %d3, text;\n\t{\n\t.param .b64 p1;\n"
    "\t.param .b64 p2;\n\t.param .b32 q1;\n\tst.param.b64 [p1], %d3;\n\tst.param.b64 [p2], 0;\n"
    "\tcall (q1), vprintf, (p1, p2);\n\t}\n\tret;\n}\n";

enum { BLOCKS = 3, THREADS = 128, ITEMS = BLOCKS * THREADS };

static int right(const uint32_t *y, uint32_t sum, const struct sim_report *report) {
    const struct sim_line *lines;
    for (uint32_t i = 0; i < ITEMS; i++)
        if (y[i] != (i % 2 ? (i + 1) * 2 : i))
            return 0;
    return sum == ITEMS && sim_report_counters(report)->global_atomics == ITEMS / 32 &&
           sim_report_counters(report)->warps == ITEMS / 32 && sim_report_lines(report, &lines) &&
           (sim_report_trace(report)->event_count > 0 || sim_report_trace(report)->truncated) &&
           sim_report_achieved_occupancy(report) > 0 && strlen(sim_report_output(report)) == ITEMS;
}

/* Once from opening to closing. 0: right; 1: wrong; -1: it failed, and `error` says how. */
static int once(unsigned threads, struct sim_error *error) {
    struct sim_gpu *gpu = NULL;
    struct sim_module *module;
    struct sim_kernel *kernel;
    struct sim_report *report = NULL;
    uint64_t x = 0, y = 0, sum_at, bytes;
    uint32_t data[ITEMS], sum = 0;
    int result = -1;
    for (uint32_t i = 0; i < ITEMS; i++)
        data[i] = i;
    if (sim_gpu_open("h200", NULL, &gpu, error))
        return -1;
    if (sim_module_load(gpu, ptx, sizeof ptx - 1, &module, error) ||
        sim_kernel_get(module, "k", &kernel, error) || sim_alloc(gpu, sizeof data, &x, error) ||
        sim_alloc(gpu, sizeof data, &y, error) || sim_copy_in(gpu, x, data, sizeof data, error))
        goto done;
    const void *arguments[] = {&x, &y};
    const struct sim_trace_request trace = {.block = {1, 0, 0}, .warp = -1, .most_events = 100000};
    const struct sim_launch launch = {.kernel = kernel,
                                      .grid = {BLOCKS, 1, 1},
                                      .block = {THREADS, 1, 1},
                                      .args = arguments,
                                      .host_threads = threads,
                                      .trace = &trace};
    if (sim_launch(gpu, &launch, &report, error) ||
        sim_copy_out(gpu, data, y, sizeof data, error) ||
        sim_module_symbol(module, "sum", &sum_at, &bytes, error) ||
        sim_copy_out(gpu, &sum, sum_at, sizeof sum, error))
        goto done;
    result = !right(data, sum, report);
done:
    sim_report_free(report);
    uint64_t leaks, leaked_bytes;
    sim_gpu_close(gpu, &leaks, &leaked_bytes);
    if (result == 0 && (leaks != 2 || leaked_bytes != 2 * sizeof data)) /* x and y */
        result = 1;
    return result;
}

int main(void) {
    long most = 0;
    for (unsigned threads = 1; threads <= 2; threads++) {
        for (long n = 1; n < 100000; n++) {
            struct sim_error error = {0};
            countdown = n;
            const int result = once(threads, &error);
            const int failed = countdown <= 0;
            countdown = 0;
            if (live) {
                fprintf(stderr, "allocation %ld fails: %ld are leaked (%s)\n", n, live, error.text);
                return 1;
            }
            if (result == 1 || (result == 0 && error.status) ||
                (result < 0 && (error.status != SIM_NO_MEMORY || !*error.text))) {
                fprintf(stderr, "allocation %ld fails: result %d, status %d (%s)\n", n, result,
                        (int)error.status, error.text);
                return 1;
            }
            if (!failed)
                break; /* fewer allocations than n */
            most = n;
        }
    }
    struct sim_error error = {0};
    if (once(1, &error) || most < 100) {
        fprintf(stderr, "%ld allocations failed, and then %s\n", most, error.text);
        return 1;
    }
    printf("%ld\n", most);
    return 0;
}

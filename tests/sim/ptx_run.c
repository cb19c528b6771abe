/* ptx_run.c: calls gpuopt_ptx_run as a program of somebody else does. Exit status: the number of
 * checks that failed. */
#include <gpuopt_ptx.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

static void check(int holds, const char *text, const struct gpuopt_ptx_report *report) {
    if (!holds)
        fprintf(stderr, "failed: %s (%s)\n", text, report->text);
    failures += !holds;
}

static uint64_t counter(const struct gpuopt_ptx_report *report, const char *name) {
    for (size_t i = 0; gpuopt_ptx_counter_name(i); i++)
        if (!strcmp(gpuopt_ptx_counter_name(i), name))
            return report->counters[i];
    return UINT64_MAX;
}

static const char saxpy[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry saxpy(.param .u64 x, .param .u64 y, .param .f32 a, .param .u32 n) {\n"
    ".reg .b64 %rd<8>; .reg .b32 %r<6>; .reg .f32 %f<5>; .reg .pred %p<2>;\n"
    "ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.f32 %f1, [a];\n"
    "ld.param.u32 %r5, [n];\n"
    "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
    "mad.lo.s32 %r4, %r1, %r2, %r3; setp.ge.s32 %p1, %r4, %r5; @%p1 ret;\n"
    "mul.wide.s32 %rd3, %r4, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;\n"
    "ld.global.f32 %f2, [%rd4]; ld.global.f32 %f3, [%rd5];\n"
    "fma.rn.f32 %f4, %f1, %f2, %f3; st.global.f32 [%rd5], %f4; ret; }\n";

int main(void) {
    enum { N = 1000 };
    float x[N], y[N], a = 2.5f;
    int n = N;
    const uint32_t grid[3] = {4, 1, 1}, block[3] = {256, 1, 1};
    const struct gpuopt_ptx_options options = {.gpu = "t4", .host_threads = 2, .seconds = 60};
    struct gpuopt_ptx_report report;
    struct gpuopt_ptx_argument args[] = {
        {x, sizeof x, 2}, {y, sizeof y, 1}, {&a, sizeof a, 0}, {&n, sizeof n, 0}};
    for (int i = 0; i < N; i++) {
        x[i] = (float)i;
        y[i] = 1.0f;
    }
    check(!gpuopt_ptx_run(saxpy, "saxpy", args, 4, grid, block, 0, &options, &report), "runs",
          &report);
    int same = 1;
    for (int i = 0; i < N; i++)
        same &= y[i] == 2.5f * (float)i + 1.0f;
    check(same, "the array holds the results", &report);
    check(counter(&report, "global_load_requests") == 64, "64 requests", &report);
    check(!report.output && !report.is_finding && !*report.text, "nothing to tell", &report);

    args[1] = args[0]; /* one array twice: y = x */
    check(!gpuopt_ptx_run(saxpy, "saxpy", args, 4, grid, block, 0, NULL, &report), "in place",
          &report);
    check(x[10] == 10.0f, "an array that is only copied in is unchanged", &report);
    args[0].is_array = args[1].is_array = 1;
    check(!gpuopt_ptx_run(saxpy, "saxpy", args, 4, grid, block, 0, NULL, NULL), "no report",
          &report);
    check(x[10] == 35.0f, "an array that is passed twice is one array", &report);

    n = N + 20;
    check(gpuopt_ptx_run(saxpy, "saxpy", args, 4, grid, block, 0, NULL, &report) != 0 &&
              report.is_finding && strstr(report.text, "out of bounds"),
          "an element past the end is found", &report);
    check(gpuopt_ptx_run(saxpy, "axpy", args, 4, grid, block, 0, NULL, &report) != 0 &&
              strstr(report.text, "axpy"),
          "no such kernel", &report);
    check(gpuopt_ptx_run("nonsense", "saxpy", args, 4, grid, block, 0, NULL, &report) != 0 &&
              report.line == 1,
          "no PTX", &report);
    check(gpuopt_ptx_run(saxpy, "saxpy", args, 3, grid, block, 0, NULL, &report) != 0 &&
              strstr(report.text, "4 arguments"),
          "too few arguments", &report);
    args[3].bytes = 8;
    check(gpuopt_ptx_run(saxpy, "saxpy", args, 4, grid, block, 0, NULL, &report) != 0 &&
              strstr(report.text, "args[3]"),
          "an int of 8 bytes", &report);
    check(gpuopt_ptx_run(NULL, "saxpy", args, 4, grid, block, 0, NULL, &report) != 0, "NULL",
          &report);
    return failures;
}

/*
 * runner.c: runs a .ptx file as the comments in it say, and compares. Links with csrc/sim and
 * nothing else, so that the simulator can be tested and fuzzed without Python. Exit status: 0
 * passed, 1 failed, 2 could not be run.
 *
 *   // gpu: h200                              which preset (before anything else)
 *   // limit: steps 1000000                   one of struct sim_limits
 *   // buffer: x f32 1024 iota                type, elements, then: none, zero, iota, random SEED,
 * or values
 *   // texture: t x 16 4 64 1 f32 linear wrap normalised   over a buffer: width, height,
 * channels, format
 *   // launch: kernel 4 128 0 x f32:2.5 s32:7   grid and block (a,b,c), dynamic shared bytes,
 * arguments
 *   // cooperative: ...                       like launch, all blocks resident
 *   // cached: ...                            like launch, and count hits of L1 and L2
 *   // expect: x[3] 1 2.5 0x7fffffff          values from there on; 0x compares bits; ~v within
 * 1e-6
 *   // counter: global_load_sectors 128       of the last launch
 *   // finding: SHARED_RACE file.cu:12        the last launch found this (place optional)
 *   // fails: SYNTAX part of the text         the load, kernel or launch before or after this fails
 * so A launch with findings that no directive names is a failure, and so is a directive nobody
 * understands.
 */
#define _POSIX_C_SOURCE 200809L
#include "../../csrc/sim/sim.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_BUFFERS 4096
#define MAX_WORDS 4096

struct buffer {
    char name[64], type[8];
    uint64_t count, address;
    unsigned size;
};

struct state {
    const char *path;
    char *text;
    size_t bytes;
    struct sim_gpu *gpu;
    struct sim_module *module;
    struct sim_limits limits;
    char preset[32];
    struct buffer buffers[MAX_BUFFERS];
    unsigned buffer_count, threads, flags, line;
    struct sim_report *report;
    uint64_t findings_named; /* bit per kind */
    enum sim_status status;
    struct sim_error error;
    int failure_named, failures, verbose, repeat;
};

static void fail(struct state *s, const char *what, const char *detail) {
    fprintf(stderr, "%s:%u: %s%s%s\n", s->path, s->line, what, *detail ? ": " : "", detail);
    s->failures++;
}

static unsigned size_of(const char *type) {
    static const struct {
        const char *name;
        unsigned size;
    } rows[] = {{"u8", 1},  {"s8", 1},  {"u16", 2}, {"s16", 2}, {"f16", 2}, {"u32", 4},
                {"s32", 4}, {"f32", 4}, {"u64", 8}, {"s64", 8}, {"f64", 8}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, type) == 0)
            return rows[i].size;
    return 0;
}

/* A literal as the bits of a type. */
static uint64_t bits_of(const char *type, const char *text) {
    uint64_t bits = 0;
    if (text[0] == '0' && (text[1] | 32) == 'x')
        return strtoull(text, NULL, 16);
    if (strcmp(type, "f32") == 0) {
        float f = strtof(text, NULL);
        memcpy(&bits, &f, 4);
    } else if (strcmp(type, "f64") == 0) {
        double d = strtod(text, NULL);
        memcpy(&bits, &d, 8);
    } else {
        bits = text[0] == '-' ? (uint64_t)strtoll(text, NULL, 0) : strtoull(text, NULL, 0);
    }
    return bits;
}

static double number_of(const char *type, uint64_t bits) {
    float f;
    double d;
    if (strcmp(type, "f32") == 0) {
        memcpy(&f, &bits, 4);
        return f;
    }
    memcpy(&d, &bits, 8);
    return strcmp(type, "f64") == 0 ? d : (double)(int64_t)bits;
}

static struct buffer *find_buffer(struct state *s, const char *name, size_t length) {
    for (unsigned i = 0; i < s->buffer_count; i++)
        if (strlen(s->buffers[i].name) == length && memcmp(s->buffers[i].name, name, length) == 0)
            return &s->buffers[i];
    return NULL;
}

static int open_module(struct state *s) {
    if (s->module)
        return 1;
    if (s->status)
        return 0;
    if (!s->gpu)
        s->status = sim_gpu_open(s->preset, &s->limits, &s->gpu, &s->error);
    if (!s->status)
        s->status = sim_module_load(s->gpu, s->text, s->bytes, &s->module, &s->error);
    return !s->status;
}

static void make_buffer(struct state *s, char **word, unsigned count) {
    struct sim_error error;
    struct buffer *b = &s->buffers[s->buffer_count];
    if (count < 4 || s->buffer_count == MAX_BUFFERS || !size_of(word[1])) {
        fail(s, "buffer NAME TYPE COUNT INIT", "");
        return;
    }
    if (!s->gpu && sim_gpu_open(s->preset, &s->limits, &s->gpu, &error)) {
        fail(s, "cannot open", error.text);
        return;
    }
    snprintf(b->name, sizeof b->name, "%s", word[0]);
    snprintf(b->type, sizeof b->type, "%s", word[1]);
    b->count = strtoull(word[2], NULL, 0);
    b->size = size_of(word[1]);
    if (sim_alloc(s->gpu, b->count * b->size, &b->address, &error)) {
        fail(s, "cannot allocate", error.text);
        return;
    }
    s->buffer_count++;
    if (strcmp(word[3], "none") == 0)
        return;
    uint64_t seed = count > 4 ? strtoull(word[4], NULL, 0) : 1;
    uint8_t *host = calloc(b->count + 1, b->size);
    for (uint64_t i = 0; host && i < b->count; i++) {
        uint64_t bits = 0;
        char text[32];
        if (strcmp(word[3], "iota") == 0) {
            snprintf(text, sizeof text, "%" PRIu64, i);
            bits = bits_of(b->type, text);
        } else if (strcmp(word[3], "random") == 0) {
            seed = seed * 6364136223846793005ull + 1442695040888963407ull;
            snprintf(text, sizeof text, "%.9g",
                     b->type[0] == 'f' ? (double)(seed >> 40) / (1 << 24) : (double)(seed >> 44));
            bits = bits_of(b->type, text);
        } else if (strcmp(word[3], "zero") != 0) {
            bits = bits_of(b->type, word[3 + i % (count - 3)]);
        }
        memcpy(host + i * b->size, &bits, b->size);
    }
    if (!host || sim_copy_in(s->gpu, b->address, host, b->count * b->size, &error))
        fail(s, "cannot fill", host ? error.text : "");
    free(host);
}

/* A texture is a buffer by another name: its address is the handle. */
static void texture(struct state *s, char **word, unsigned count) {
    struct sim_texture t = {0};
    struct sim_error error;
    struct buffer *b = count >= 6 ? find_buffer(s, word[1], strlen(word[1])) : NULL;
    if (!b || s->buffer_count == MAX_BUFFERS) {
        fail(s, "texture NAME BUFFER WIDTH HEIGHT CHANNELS FORMAT", "");
        return;
    }
    t.address = b->address;
    t.width = (uint32_t)strtoul(word[2], NULL, 0);
    t.height = (uint32_t)strtoul(word[3], NULL, 0);
    t.dimensions = t.height ? 2 : 0;
    t.height += !t.height;
    t.depth = t.layers = t.levels = 1;
    t.channels = (unsigned)strtoul(word[4], NULL, 0);
    t.format = strcmp(word[5], "u8") == 0    ? SIM_TEX_U8
               : strcmp(word[5], "s32") == 0 ? SIM_TEX_S32
                                             : SIM_TEX_F32;
    t.as_fraction = 1;
    t.outside = SIM_TEX_CLAMP;
    for (unsigned i = 6; i < count; i++) {
        t.linear_filter |= strcmp(word[i], "linear") == 0;
        if (strcmp(word[i], "wrap") == 0)
            t.outside = SIM_TEX_WRAP;
        t.normalised |= strcmp(word[i], "normalised") == 0;
    }
    struct buffer *made = &s->buffers[s->buffer_count];
    snprintf(made->name, sizeof made->name, "%s", word[0]);
    uint64_t surface;
    if (sim_texture_open(s->gpu, &t, &made->address, &surface, &error))
        fail(s, "cannot open texture", error.text);
    else
        s->buffer_count++;
}

static void unnamed_findings(struct state *s) {
    const struct sim_finding *f;
    size_t n = s->report ? sim_report_findings(s->report, &f) : 0;
    for (size_t i = 0; i < n; i++)
        if (!(s->findings_named >> f[i].kind & 1))
            fail(s, "unexpected finding", f[i].text);
    if (s->status && !s->failure_named)
        fail(s, sim_status_text(s->status), s->error.text);
    sim_report_free(s->report);
    s->report = NULL;
    s->findings_named = 0;
    s->failure_named = 0;
    if (s->module)
        s->status = SIM_OK;
}

static void triple(const char *text, uint32_t out[3]) {
    out[0] = out[1] = out[2] = 1;
    for (int i = 0; i < 3 && *text; i++) {
        char *end;
        out[i] = (uint32_t)strtoul(text, &end, 0);
        text = *end == ',' ? end + 1 : "";
    }
}

/* CPU time of this process, which other load does not change for a launch on one thread. */
static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The most memory that this process ever had, in kB; 0 where nobody says. */
static unsigned long peak_memory(void) {
    char line[128];
    unsigned long peak = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        sscanf(line, "VmHWM: %lu", &peak);
    if (file)
        fclose(file);
    return peak;
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void show(const struct state *s) {
    const uint64_t *c = (const uint64_t *)sim_report_counters(s->report);
    const struct sim_line *lines;
    const struct sim_finding *f;
    for (size_t i = 0; i < sim_counter_count(); i++)
        if (c[i])
            printf("  %-26s %" PRIu64 "\n", sim_counter_name(i), c[i]);
    size_t n = sim_report_lines(s->report, &lines);
    for (size_t i = 0; s->verbose > 1 && i < n; i++)
        printf("  %s:%u (PTX %u) warp instructions %" PRIu64 ", sectors %" PRIu64 "/%" PRIu64
               ", wavefronts %" PRIu64 "/%" PRIu64 "\n",
               lines[i].file ? lines[i].file : "-", lines[i].line, lines[i].ptx_line,
               lines[i].counters.warp_instructions, lines[i].counters.global_load_sectors,
               lines[i].counters.global_store_sectors, lines[i].counters.shared_load_wavefronts,
               lines[i].counters.shared_store_wavefronts);
    n = sim_report_findings(s->report, &f);
    for (size_t i = 0; i < n; i++)
        printf("  %s (%" PRIu64 " times)\n", f[i].text, f[i].times);
}

static void launch(struct state *s, char **word, unsigned count, unsigned flags) {
    struct sim_kernel *kernel;
    struct sim_kernel_info info;
    struct sim_launch l = {0};
    uint64_t values[MAX_WORDS];
    const void *args[MAX_WORDS];
    struct sim_array arrays[MAX_WORDS];
    unnamed_findings(s);
    if (count < 4) {
        fail(s, "launch KERNEL GRID BLOCK SHARED ARGS", "");
        return;
    }
    if (!open_module(s) || (s->status = sim_kernel_get(s->module, word[0], &kernel, &s->error)))
        return;
    sim_kernel_describe(kernel, &info);
    if (info.param_count != count - 4) {
        fail(s, "wrong number of arguments", word[0]);
        return;
    }
    for (unsigned i = 4; i < count; i++) {
        struct buffer *b = find_buffer(s, word[i], strlen(word[i]));
        char *colon = strchr(word[i], ':');
        if (!b && !colon) {
            fail(s, "no such buffer", word[i]);
            return;
        }
        if (!b)
            *colon = 0;
        values[i] = b ? b->address : bits_of(word[i], colon + 1);
        args[i - 4] = &values[i];
        if (b)
            arrays[l.array_count++] =
                (struct sim_array){i - 4, b->size, b->count * b->size, b->type, 0, NULL};
    }
    l.arrays = arrays;
    l.kernel = kernel;
    triple(word[1], l.grid);
    triple(word[2], l.block);
    l.shared_bytes = (uint32_t)strtoul(word[3], NULL, 0);
    l.args = args;
    l.host_threads = s->threads;
    l.flags = s->flags | flags;
    double took = INFINITY, cpu = INFINITY;
    for (int i = 0; i < s->repeat; i++) {
        double start = seconds(), cpu_start = cpu_seconds();
        sim_report_free(s->report);
        s->status = sim_launch(s->gpu, &l, &s->report, &s->error);
        took = fmin(took, seconds() - start);
        cpu = fmin(cpu, cpu_seconds() - cpu_start);
    }
    if (s->verbose) {
        printf("%s:%u %s: %s\n", s->path, s->line, word[0], s->status ? s->error.text : "ok");
        if (s->report) {
            double n = (double)sim_report_counters(s->report)->warp_instructions;
            printf("  %.4f s, %.1f M warp instructions per second and core\n", took, n / cpu * 1e-6);
            show(s);
        }
    }
}

static void expect(struct state *s, char **word, unsigned count) {
    char *bracket = count ? strchr(word[0], '[') : NULL, detail[200];
    struct buffer *b = bracket ? find_buffer(s, word[0], (size_t)(bracket - word[0])) : NULL;
    struct sim_error error;
    if (!b) {
        fail(s, "expect BUFFER[INDEX] VALUES", count ? word[0] : "");
        return;
    }
    uint64_t at = strtoull(bracket + 1, NULL, 0);
    for (unsigned i = 1; i < count; i++, at++) {
        uint64_t got = 0, want;
        int near = word[i][0] == '~';
        if (strcmp(word[i], "-") == 0)
            continue;
        if (sim_copy_out(s->gpu, &got, b->address + at * b->size, b->size, &error)) {
            fail(s, "cannot read", error.text);
            return;
        }
        want = bits_of(b->type, word[i] + near);
        if (b->size < 8)
            want &= (1ull << b->size * 8) - 1;
        double g = number_of(b->type, got), w = number_of(b->type, want);
        int ok = near ? fabs(g - w) <= 1e-6 * fabs(w) + 1e-30 : got == want;
        if (!ok) {
            snprintf(detail, sizeof detail,
                     "%s[%" PRIu64 "] is 0x%" PRIx64 " (%.9g), not %s (0x%" PRIx64 ")", b->name, at,
                     got, g, word[i], want);
            fail(s, "wrong", detail);
        }
    }
}

static void counter(struct state *s, char **word, unsigned count) {
    char detail[200];
    if (!s->report) {
        fail(s, "no launch to count", s->error.text);
        return;
    }
    for (size_t i = 0; i < sim_counter_count() && count == 2; i++) {
        if (strcmp(sim_counter_name(i), word[0]) != 0)
            continue;
        uint64_t got = ((const uint64_t *)sim_report_counters(s->report))[i];
        if (got != strtoull(word[1], NULL, 0)) {
            snprintf(detail, sizeof detail, "%s is %" PRIu64 ", not %s", word[0], got, word[1]);
            fail(s, "wrong", detail);
        }
        return;
    }
    fail(s, "no such counter", count ? word[0] : "");
}

static void finding(struct state *s, char **word, unsigned count) {
    static const char *const names[] = {
#define SIM_X(id, text) #id,
        SIM_FINDINGS(SIM_X)
#undef SIM_X
    };
    const struct sim_finding *f;
    size_t n = s->report ? sim_report_findings(s->report, &f) : 0;
    for (size_t i = 0; i < n && count; i++) {
        if (strcmp(names[f[i].kind], word[0]) != 0 || (count > 1 && !strstr(f[i].text, word[1])))
            continue;
        s->findings_named |= 1ull << f[i].kind;
        return;
    }
    fail(s, "not found", count ? word[0] : "");
}

static void fails(struct state *s, char **word, unsigned count, const char *rest) {
    static const char *const names[] = {
#define SIM_X(id, text) #id,
        SIM_STATUSES(SIM_X)
#undef SIM_X
    };
    if (!s->module)
        open_module(s);
    const char *text = count > 1 ? strstr(rest, word[0]) + strlen(word[0]) : "";
    while (*text == ' ')
        text++;
    if (!count || strcmp(names[s->status], word[0]) != 0 || !strstr(s->error.text, text))
        fail(s, "expected a failure", s->status ? s->error.text : "there was none");
    s->failure_named = 1;
}

static void limit(struct state *s, char **word, unsigned count) {
    static const struct {
        const char *name;
        size_t offset;
    } rows[] = {{"ptx_bytes", offsetof(struct sim_limits, ptx_bytes)},
                {"parse_bytes", offsetof(struct sim_limits, parse_bytes)},
                {"registers", offsetof(struct sim_limits, registers)},
                {"instructions", offsetof(struct sim_limits, instructions)},
                {"device_bytes", offsetof(struct sim_limits, device_bytes)},
                {"launch_bytes", offsetof(struct sim_limits, launch_bytes)},
                {"local_bytes", offsetof(struct sim_limits, local_bytes)},
                {"call_depth", offsetof(struct sim_limits, call_depth)},
                {"steps", offsetof(struct sim_limits, steps)},
                {"findings", offsetof(struct sim_limits, findings)}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows && count == 2; i++) {
        if (strcmp(rows[i].name, word[0]) == 0) {
            *(uint64_t *)(void *)((char *)&s->limits + rows[i].offset) = strtoull(word[1], NULL, 0);
            return;
        }
    }
    fail(s, "no such limit", count ? word[0] : "");
}

static void directive(struct state *s, const char *name, char *rest) {
    static char *word[MAX_WORDS];
    static char copy[1 << 16];
    unsigned count = 0;
    snprintf(copy, sizeof copy, "%s", rest);
    for (char *p = strtok(rest, " \t\r"); p && count < MAX_WORDS; p = strtok(NULL, " \t\r"))
        word[count++] = p;
    if (strcmp(name, "gpu") == 0 && count)
        snprintf(s->preset, sizeof s->preset, "%s", word[0]);
    else if (strcmp(name, "limit") == 0)
        limit(s, word, count);
    else if (strcmp(name, "buffer") == 0)
        make_buffer(s, word, count);
    else if (strcmp(name, "texture") == 0)
        texture(s, word, count);
    else if (strcmp(name, "launch") == 0)
        launch(s, word, count, 0);
    else if (strcmp(name, "cooperative") == 0)
        launch(s, word, count, SIM_LAUNCH_COOPERATIVE);
    else if (strcmp(name, "cached") == 0)
        launch(s, word, count, SIM_LAUNCH_CACHES);
    else if (strcmp(name, "expect") == 0)
        expect(s, word, count);
    else if (strcmp(name, "counter") == 0)
        counter(s, word, count);
    else if (strcmp(name, "finding") == 0)
        finding(s, word, count);
    else if (strcmp(name, "fails") == 0)
        fails(s, word, count, copy);
}

static int run(struct state *s) {
    static const char *const names[] = {"gpu",     "limit",       "buffer", "texture",
                                        "launch",  "cooperative", "cached", "expect",
                                        "counter", "finding",     "fails"};
    char *line = malloc(s->bytes + 1);
    const char *p = s->text, *end = s->text + s->bytes;
    unsigned seen = 0;
    while (line && p < end) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        size_t length = (size_t)((newline ? newline : end) - p);
        memcpy(line, p, length);
        line[length] = 0;
        p += length + (newline != NULL);
        s->line++;
        char *colon = strchr(line, ':');
        if (strncmp(line, "// ", 3) != 0 || !colon)
            continue;
        *colon = 0;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            if (strcmp(names[i], line + 3) == 0) {
                directive(s, names[i], colon + 1);
                seen++;
            }
        }
    }
    free(line);
    if (!seen)
        fail(s, "no directives", "");
    unnamed_findings(s);
    if (s->verbose)
        printf("peak memory %lu kB\n", peak_memory());
    for (unsigned i = 0; i < s->buffer_count; i++)
        if (s->buffers[i].size)
            sim_free(s->gpu, s->buffers[i].address, NULL);
    uint64_t leaks = 0;
    sim_gpu_close(s->gpu, &leaks, NULL);
    if (leaks)
        fail(s, "leaks", "");
    return s->failures != 0;
}

/* -d KERNEL: print the decoded program. */
static int disassemble(const char *path, const char *text, size_t bytes, const char *name) {
    struct sim_gpu *gpu;
    struct sim_module *module;
    struct sim_kernel *kernel;
    struct sim_error error;
    if (sim_gpu_open("h200", NULL, &gpu, &error) ||
        sim_module_load(gpu, text, bytes, &module, &error)) {
        fprintf(stderr, "%s: %s\n", path, error.text);
        return 2;
    }
    for (size_t i = 0; i < sim_module_kernels(module); i++) {
        if (*name && strcmp(name, sim_module_kernel_name(module, i)) != 0)
            continue;
        if (sim_kernel_get(module, sim_module_kernel_name(module, i), &kernel, &error)) {
            printf("%s: %s\n", sim_module_kernel_name(module, i), error.text);
            continue;
        }
        printf("%s: decoded\n", sim_module_kernel_name(module, i));
        size_t wanted = *name ? sim_kernel_disassemble(kernel, NULL, 0) + 1 : 0;
        char *out = wanted ? malloc(wanted) : NULL;
        if (out) {
            sim_kernel_disassemble(kernel, out, wanted);
            fputs(out, stdout);
        }
        free(out);
    }
    sim_gpu_close(gpu, NULL, NULL);
    return 0;
}

int main(int argc, char **argv) {
    static struct state s;
    const char *listing = NULL;
    s.threads = 1;
    s.repeat = 1;
    s.flags = SIM_LAUNCH_COLLECT;
    snprintf(s.preset, sizeof s.preset, "h200");
    sim_default_limits(&s.limits);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-v") == 0)
            s.verbose++;
        else if (strcmp(argv[i], "-t") == 0 && i + 1 < argc)
            s.threads = (unsigned)atoi(argv[++i]);
        else if (strcmp(argv[i], "-r") == 0 && i + 1 < argc)
            s.repeat = atoi(argv[++i]);
        else if (strcmp(argv[i], "-d") == 0 && i + 1 < argc)
            listing = argv[++i];
        else if (strcmp(argv[i], "--no-races") == 0)
            s.flags |= SIM_LAUNCH_NO_RACES;
        else if (strcmp(argv[i], "--no-uninit") == 0)
            s.flags |= SIM_LAUNCH_NO_UNINIT;
        else
            s.path = argv[i];
    }
    FILE *file = s.path ? fopen(s.path, "rb") : NULL;
    if (!file) {
        fprintf(stderr,
                "usage: %s [-v] [-t THREADS] [-r REPEAT] [-d KERNEL] [--no-races] [--no-uninit] "
                "FILE.ptx\n",
                argv[0]);
        return 2;
    }
    fseek(file, 0, SEEK_END);
    long bytes = ftell(file);
    rewind(file);
    s.text = malloc((size_t)bytes + 1);
    s.bytes = s.text ? fread(s.text, 1, (size_t)bytes, file) : 0;
    fclose(file);
    int status = !s.text ? 2 : listing ? disassemble(s.path, s.text, s.bytes, listing) : run(&s);
    free(s.text);
    return status;
}

/* cpu_isa.c: chooses the instruction set that runs. Knows no kernel. */
#include "cpu_isa.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum cpu_isa chosen;
static char wrong[320]; /* why none was chosen */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void choose(void) {
    const char *asked = getenv("GPUOPT_CPU_ISA");
    char have[128] = "";
    bool found = false;
    if (asked && !*asked)
        asked = NULL;
#define ISA(name, target, bytes, prefix, here, unused)                                      \
    if (here) {                                                                             \
        const size_t length = strlen(have);                                                 \
        snprintf(have + length, sizeof have - length, "%s'%s'", length ? ", " : "", #name); \
        if (!asked || strcmp(asked, #name) == 0) {                                          \
            chosen = CPU_ISA_##name;                                                        \
            found = true;                                                                   \
        }                                                                                   \
    }
    CPU_ISAS(ISA, unused)
#undef ISA
    if (!found)
        snprintf(wrong, sizeof wrong,
                 "GPUOPT_CPU_ISA: '%.32s' is not an instruction set that this CPU has; use one of "
                 "%s, or unset it for the best",
                 asked, have);
}

enum status cpu_isa_choose(void) {
    pthread_once(&once, choose);
    return *wrong ? status_fail(STATUS_BAD_VALUE, "%s", wrong) : STATUS_OK;
}

enum cpu_isa cpu_isa(void) { return chosen; }

const char *cpu_isa_name(void) {
    static const char *const names[] = {
#define ISA(name, target, bytes, prefix, here, unused) #name,
        CPU_ISAS(ISA, unused)
#undef ISA
    };
    return names[chosen];
}

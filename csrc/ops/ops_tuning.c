/* ops_tuning.c: the table of tuned constants, for sweeps and planners. */
#include "ops.h"

#define TUNING(family, name, rung, value, meaning, ...) \
    static const uint64_t tried_##family##_##name[] = {__VA_ARGS__};
#include "ops_tuning.def"

const struct ops_tuning_row ops_tuning_rows[OPS_TUNING_COUNT] = {
#define TUNING(family, name, rung, value, meaning, ...) \
    {#family,                                           \
     #name,                                             \
     meaning,                                           \
     rung,                                              \
     value,                                             \
     tried_##family##_##name,                           \
     sizeof tried_##family##_##name / sizeof *tried_##family##_##name},
#include "ops_tuning.def"
};

uint64_t ops_tuned(const struct ops_choice *choice, enum ops_tuning_name name) {
    return choice->tuning ? choice->tuning->values[name] : ops_tuning_rows[name].value;
}

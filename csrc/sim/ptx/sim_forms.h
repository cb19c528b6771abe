/* sim_forms.h: tests whether PTX has a form of an instruction. */
#ifndef SIM_FORMS_H
#define SIM_FORMS_H

#include "../core/sim_internal.h"

#define SIM_MAX_PARTS 16
struct sim_mnemonic {
    struct sim_name parts[SIM_MAX_PARTS];
    uint32_t count;
};

/* Returns 0 for a form that PTX lacks; else the lowest target that has it, or 1 if any has. */
unsigned sim_form_target(const struct sim_mnemonic *m);

#endif

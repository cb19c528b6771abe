/* sim_forms.h: tests whether PTX has a form of an instruction. */
#ifndef SIM_FORMS_H
#define SIM_FORMS_H

#include "../core/sim_internal.h"

#define SIM_MAX_PARTS 16
struct sim_mnemonic {
    struct sim_name parts[SIM_MAX_PARTS];
    uint32_t count;
};

#define SIM_FORM_SPECIFIC 4096u /* only of the target with a letter, as sm_100a */
/* Returns 0 for a form that PTX lacks; else the lowest target that has it, or 1 if any has. */
unsigned sim_form_target(const struct sim_mnemonic *m);

/* The feature that an instruction needs and the simulated GPU lacks, or NULL. has_form: PTX has the
 * form, so only features of a word of it count. */
const char *sim_form_lacks(const struct sim_mnemonic *m, int has_form);

#endif

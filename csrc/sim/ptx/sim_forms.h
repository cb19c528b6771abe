/*
 * sim_forms.h: which forms of instructions PTX has.
 */
#ifndef SIM_FORMS_H
#define SIM_FORMS_H

#include "../core/sim_internal.h"

#define SIM_MAX_PARTS 16
struct sim_mnemonic {
    struct sim_name parts[SIM_MAX_PARTS];
    uint32_t count;
};

/* 0: a form that PTX does not have; else the least target that has it, or 1 where none is needed.
 */
unsigned sim_form_target(const struct sim_mnemonic *m);

#endif

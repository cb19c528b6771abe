#include "sim_run.h"
int sim_exec_copy(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                  uint32_t mask, uint8_t *regs) {
    (void)w, (void)warp, (void)in, (void)mask, (void)regs;
    return 0;
}
int sim_exec_mbarrier(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                      uint32_t mask, uint8_t *regs, int *waits) {
    (void)w, (void)warp, (void)in, (void)mask, (void)regs;
    *waits = 0;
    return 0;
}
int sim_exec_texture(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                     uint32_t mask, uint8_t *regs) {
    (void)w, (void)warp, (void)in, (void)mask, (void)regs;
    return 0;
}

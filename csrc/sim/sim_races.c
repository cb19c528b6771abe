#include "sim_run.h"
int sim_races_access(struct sim_worker *w, struct sim_warp *warp, const struct sim_access *a) {
    (void)w, (void)warp, (void)a;
    return 0;
}
int sim_races_init(struct sim_run *run, struct sim_block *block) {
    (void)run, (void)block;
    return 1;
}
void sim_races_free(struct sim_block *block) {
    (void)block;
}
void sim_races_start(struct sim_run *run, struct sim_block *block) {
    (void)run, (void)block;
}
void sim_races_barrier(struct sim_run *run, struct sim_block *block, uint32_t warps) {
    (void)run, (void)block, (void)warps;
}
void sim_races_warp_sync(struct sim_run *run, struct sim_warp *warp, uint32_t mask) {
    (void)run, (void)warp, (void)mask;
}
void sim_races_fence(struct sim_run *run, struct sim_warp *warp, unsigned scope) {
    (void)run, (void)warp, (void)scope;
}
void sim_races_order(struct sim_run *run, struct sim_warp *warp, unsigned order, int shared,
                     int writes, int reads) {
    (void)run, (void)warp, (void)order, (void)shared, (void)writes, (void)reads;
}
int sim_races_open(struct sim_run *run) {
    (void)run;
    return 1;
}
void sim_races_close(struct sim_run *run) {
    (void)run;
}

/* sim_progress.h: the progress of launches on simulated GPUs. */
#ifndef SIM_PROGRESS_H
#define SIM_PROGRESS_H

#include "../device.h"

/* Copies the figures of the launch that runs. */
void sim_progress_read(struct device_progress *progress);
void sim_progress_note(uint64_t ended, uint64_t blocks, uint64_t steps);
void sim_progress_begin(const char *kernel, const struct device_launch *launch);
/* After a launch without an error; `steps`: its warp instructions. */
void sim_progress_end(const char *kernel, const struct device_launch *launch, uint64_t steps);

#endif

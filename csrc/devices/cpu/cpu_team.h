/* cpu_team.h: threads that share the tasks of a call. Unlike in an OpenMP region, no call waits for
 * a thread that a busy machine does not wake: any thread that is awake takes the next task.
 */
#ifndef GPUOPT_CPU_TEAM_H
#define GPUOPT_CPU_TEAM_H

#include "../../device.h"

struct cpu_worker {
    int number;            /* from 0, below the number of threads; the caller is 0 */
    struct device *device; /* the caller's, for polling; NULL for the others */
    bool ended;            /* set by a poll of its own */
};

typedef void cpu_task(const void *state, uint64_t index, struct cpu_worker *worker);

/* Number of threads that pay for a call that takes one thread this long: waking others costs time.
 */
int cpu_team_threads(double nanoseconds);

/* Runs task(state, 0) to task(state, count - 1), in any order and on at most `threads` threads; the
 * caller's is one of them and polls the device after each of its tasks. If another call uses the
 * team, the caller does all of it. */
enum status cpu_team_run(struct device *device, int threads, uint64_t count, cpu_task *task,
                         const void *state);

/* For tasks that may take 100 ms and more: false once the call must end. */
bool cpu_team_goes_on(struct cpu_worker *worker);

#endif

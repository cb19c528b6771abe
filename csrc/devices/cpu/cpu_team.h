/* cpu_team.h: threads that share the tasks of a call. Unlike an OpenMP region's, a thread that the
 * machine is too busy to wake is not waited for: whoever is awake takes the next task.
 */
#ifndef GPUOPT_CPU_TEAM_H
#define GPUOPT_CPU_TEAM_H

#include "../../device.h"

struct cpu_worker {
    int number;            /* from 0, below the number of threads; the caller is 0 */
    struct device *device; /* the caller's, to be polled; NULL for the others */
    bool ended;            /* a poll of its own said so */
};

typedef void cpu_task(const void *state, uint64_t index, struct cpu_worker *worker);

/* How many threads pay for a call that takes one of them about so long: waking others takes time.
 */
int cpu_team_threads(double nanoseconds);

/* Runs task(state, 0) to task(state, count - 1), in any order and on at most so many threads; the
 * caller's is one of them and polls the device after each of its tasks. Where another call has the
 * team, the caller does all of it. */
enum status cpu_team_run(struct device *device, int threads, uint64_t count, cpu_task *task,
                         const void *state);

/* For tasks that may take 100 ms and more: false once the call is to end. */
bool cpu_team_goes_on(struct cpu_worker *worker);

#endif

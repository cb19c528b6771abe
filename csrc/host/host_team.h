/* host_team.h: threads that share the tasks of a call. Unlike an OpenMP region's, a thread that the
 * machine is too busy to wake is not waited for: whoever is awake takes the next task.
 */
#ifndef GPUOPT_HOST_TEAM_H
#define GPUOPT_HOST_TEAM_H

#include "../device.h"

struct host_worker {
    int number;            /* from 0, below the number of threads; the caller is 0 */
    struct device *device; /* the caller's, to be polled; NULL for the others */
    bool ended;            /* a poll of its own said so */
};

typedef void host_task(const void *state, uint64_t index, struct host_worker *worker);

/* How many threads pay for a call that takes one of them about so long: waking others takes time.
 */
int host_team_threads(double nanoseconds);

/* Runs task(state, 0) to task(state, count - 1), in any order and on at most so many threads; the
 * caller's is one of them and polls the device after each of its tasks. Where another call has the
 * team, the caller does all of it. */
enum status host_team_run(struct device *device, int threads, uint64_t count, host_task *task,
                          const void *state);

/* For tasks that may take 100 ms and more: false once the call is to end. */
bool host_team_goes_on(struct host_worker *worker);

#endif

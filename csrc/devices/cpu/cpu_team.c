/* cpu_team.c: threads that sleep until there are tasks. A call publishes its tasks, takes them one
 * by one like the others, closes the job when none is left, and waits for the tasks still running.
 * Invariant: `task`, `state` and `count` change only while no thread works. Knows no kernel.
 *
 * The threads start when first needed and stay, with all signals blocked. A forked child has none
 * of them: cpu_threads() is 1 there, and it never requests more.
 */
#include "cpu_team.h"

#include "../../float_state.h"
#include "cpu_machine.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

enum {
    WORKERS_MAX = 255,
    STACK_BYTES = 1 << 20,
    SPINS = 2000, /* checks of `working` before the caller sleeps: about 20 us */
    /* Nanoseconds of one thread's work, from which on others help (TUNING.md C1). */
    SHARED_LEAST = 150000,
};

int cpu_team_threads(double nanoseconds) { return nanoseconds < SHARED_LEAST ? 1 : cpu_threads(); }

static pthread_mutex_t in_use = PTHREAD_MUTEX_INITIALIZER; /* one call at a time */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t called = PTHREAD_COND_INITIALIZER, finished = PTHREAD_COND_INITIALIZER;
static int workers;     /* number started */
static uint64_t number; /* of the job; `lock` guards it and the next two */
static int places;      /* for workers in the job; 0: closed */
static atomic_int working;

static cpu_task *job_task;
static const void *job_state;
static uint64_t job_count;
static int job_helpers;
static atomic_uint_least64_t job_next;
static atomic_bool job_ended; /* before all of it was done */

static void *work(void *unused) {
    uint64_t seen = 0;
    float_state_enter(); /* for good: the thread is nobody else's */
    pthread_mutex_lock(&lock);
    for (;;) {
        while (number == seen || !places) {
            seen = number;
            pthread_cond_wait(&called, &lock);
        }
        seen = number;
        struct cpu_worker worker = {.number = job_helpers - places + 1};
        places--;
        atomic_fetch_add(&working, 1);
        pthread_mutex_unlock(&lock);
        for (uint64_t i; (i = atomic_fetch_add(&job_next, 1)) < job_count;)
            job_task(job_state, i, &worker);
        pthread_mutex_lock(&lock);
        if (atomic_fetch_sub(&working, 1) == 1)
            pthread_cond_signal(&finished);
    }
    return unused;
}

/* Starts workers up to the wanted number; fewer serve if the system refuses. */
static void start_workers(int wanted) {
    sigset_t all, before;
    pthread_attr_t attributes;
    if (workers >= wanted || pthread_attr_init(&attributes))
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (pthread_t thread; workers < wanted; workers++)
        if (pthread_create(&thread, &attributes, work, NULL))
            break;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

bool cpu_team_goes_on(struct cpu_worker *worker) {
    if (!worker->device)
        return !atomic_load(&job_ended);
    worker->ended = worker->ended || device_poll(worker->device);
    return !worker->ended;
}

/* Polls after a task of the caller's. */
static enum status poll_after(struct cpu_worker *caller) {
    return caller->ended ? STATUS_INTERRUPTED : device_poll(caller->device);
}

static enum status take_tasks(struct device *device) {
    struct cpu_worker caller = {.device = device};
    enum status status = STATUS_OK;
    for (uint64_t i; !status && (i = atomic_fetch_add(&job_next, 1)) < job_count;) {
        job_task(job_state, i, &caller);
        status = poll_after(&caller);
    }
    if (status) {
        atomic_store(&job_next, job_count); /* no thread begins another */
        atomic_store(&job_ended, true);
    }
    return status;
}

static enum status run_with_team(struct device *device, int helpers, uint64_t count, cpu_task *task,
                                 const void *state) {
    start_workers(helpers);
    pthread_mutex_lock(&lock);
    job_task = task;
    job_state = state;
    job_count = count;
    job_helpers = helpers;
    atomic_store(&job_ended, false);
    atomic_store(&job_next, 0);
    number++;
    places = helpers;
    pthread_mutex_unlock(&lock);
    if (helpers == 1)
        pthread_cond_signal(&called);
    else
        pthread_cond_broadcast(&called);

    const enum status status = take_tasks(device);

    pthread_mutex_lock(&lock);
    places = 0;
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < SPINS && atomic_load(&working); i++)
        ;
    pthread_mutex_lock(&lock);
    while (atomic_load(&working))
        pthread_cond_wait(&finished, &lock);
    pthread_mutex_unlock(&lock);
    return status;
}

enum status cpu_team_run(struct device *device, int threads, uint64_t count, cpu_task *task,
                         const void *state) {
    enum status status = STATUS_OK;
    if (threads > 1 && count > 1 && pthread_mutex_trylock(&in_use) == 0) {
        const uint64_t most = count - 1 < WORKERS_MAX ? count - 1 : WORKERS_MAX;
        const int helpers = (uint64_t)threads - 1 < most ? threads - 1 : (int)most;
        status = run_with_team(device, helpers, count, task, state);
        pthread_mutex_unlock(&in_use);
        return status;
    }
    struct cpu_worker caller = {.device = device};
    for (uint64_t i = 0; i < count && !status; i++) {
        task(state, i, &caller);
        status = poll_after(&caller);
    }
    return status;
}

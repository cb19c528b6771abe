/* py_walk.c: the time that a block's warps need for their machine code, in order, by its control
 * codes. Warps share their scheduler's issue slot and pipes, and the multiprocessor's queues of
 * memory instructions. A loop is walked twice, and its last turn stands for all others.
 * gpuopt/observe/inorder.py says what the fields mean.
 * Below: when the last block of a launch ends.
 */
#include "py_core.h"

#include <math.h>
#include <stdlib.h>

enum { BOARDS = 6, SCHEDULERS = 4, QUEUE_COUNT = 2, PIPE_COUNT = 2, KINDS = 5, MOST_WARPS = 64 };
enum step { PLAIN, WAIT, COPY, COMMIT, BARRIER, FENCE, BULK, PHASE };
enum { BULK_MOST = 256 }; /* bulk copies of a block that are remembered */

/* Indices are -1, or a queue's and a pipe's from 0. */
struct walk_instruction {
    int block, target, stall, writes, reads, waits, queue, pipe, step, kind;
};

struct walk_costs {
    double queues[QUEUE_COUNT], pipes[PIPE_COUNT]; /* clocks of each for an instruction */
    double kinds[KINDS];                           /* latencies; of kind 0: by instruction */
    double barrier, fence, read, branch; /* branch: what a taken one costs beyond its stall */
    double ever; /* executions of a block by a warp: rarer ones are left out */
    double most; /* instructions of a warp that are walked: nested loops double them */
};

struct walk_block {
    int number, first, end, back; /* instructions; the index of the block that it branches to */
    double leaves;                /* clocks for the branch at its end, by how often that is taken */
};

/* Warps that execute the same: the blocks that they visit one after the other. */
struct warp_kind {
    struct walk_block *blocks;
    double *runs;
    int count, *visits, visit_count, capacity;
    long steps;
    int turned[2 * MOST_WARPS], depth; /* loops whose second turn is being walked */
};

struct walker {
    const struct warp_kind *pattern;
    int visit, at, scheduler, waits;          /* waits: at a barrier */
    int phase;                                /* bulk copies whose arrival it has tested */
    double now, ready, begun, copied, *taken; /* ready: as far as the warp itself decides */
    double boards[BOARDS], *groups; /* when the groups of copies up to each have arrived */
    int group_count, group_capacity;
};

static int visit(struct warp_kind *p, int block) {
    if (p->visit_count == p->capacity) {
        const int capacity = p->capacity ? 2 * p->capacity : 64;
        int *visits = realloc(p->visits, (size_t)capacity * sizeof *visits);
        if (!visits)
            return 0;
        p->visits = visits;
        p->capacity = capacity;
    }
    p->visits[p->visit_count++] = block;
    p->steps += p->blocks[block].end - p->blocks[block].first;
    return 1;
}

static int is_turning(const struct warp_kind *p, int back, int at) {
    for (int i = 0; i < p->depth; i++)
        if (p->turned[2 * i] == back && p->turned[2 * i + 1] == at)
            return 1;
    return 0;
}

static int plan(struct warp_kind *p, int first, int last, const struct walk_costs *c) {
    for (int at = first; at < last; at++) {
        const int back = p->blocks[at].back;
        double most = 0;
        if (!visit(p, at))
            return 0;
        if (back < first || back > at || (double)p->steps >= c->most || p->depth == MOST_WARPS ||
            is_turning(p, back, at))
            continue;
        for (int i = back; i <= at; i++)
            most = p->runs[i] > most ? p->runs[i] : most;
        if (most <= 1.5)
            continue;
        p->turned[2 * p->depth] = back;
        p->turned[2 * p->depth++ + 1] = at;
        const int done = plan(p, back, at + 1, c);
        p->depth--;
        if (!done)
            return 0;
    }
    return 1;
}

/* The blocks that a pattern's warps execute, by their instructions' executions. */
static int pattern_open(struct warp_kind *p, const struct walk_instruction *code, int count,
                        const double *times, const struct walk_costs *c) {
    p->blocks = malloc((size_t)(count + 1) * sizeof *p->blocks);
    p->runs = malloc((size_t)(count + 1) * sizeof *p->runs);
    if (!p->blocks || !p->runs)
        return 0;
    for (int first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && code[end].block == code[first].block; end++)
            ;
        if (times[end - 1] <= c->ever)
            continue;
        p->runs[p->count] = times[end - 1];
        p->blocks[p->count++] = (struct walk_block){code[first].block, first, end, -1, 0};
    }
    for (int i = 0; i < p->count; i++)
        for (int j = 0; j <= i; j++)
            if (code[p->blocks[i].end - 1].step == PLAIN &&
                p->blocks[j].number == code[p->blocks[i].end - 1].target)
                p->blocks[i].back = j;
    for (int i = 0; i < p->count; i++) {
        struct walk_block *b = &p->blocks[i];
        const int follows = i + 1 < p->count && b[1].number == b->number + 1;
        const double stays = follows ? p->runs[i + 1] / p->runs[i] : 0;
        b->leaves = c->branch * (b->back >= 0 || i + 1 == p->count ? b->back >= 0
                                 : stays < 1                       ? 1 - stays
                                                                   : 0);
    }
    return plan(p, 0, p->count, c);
}

static void pattern_close(struct warp_kind *p) {
    free(p->blocks);
    free(p->runs);
    free(p->visits);
}

struct walk_queues { /* by the warps of a block: when each is free */
    double slots[SCHEDULERS], pipes[SCHEDULERS][PIPE_COUNT], queues[QUEUE_COUNT];
    double bulk[BULK_MOST]; /* when each bulk copy has arrived, in the order of their issue */
    int bulk_count;
};

static double later(double a, double b) { return a > b ? a : b; }

/* Sets when a warp's next instruction may issue. */
static void get_ready(struct walker *w, const struct walk_instruction *in,
                      const struct walk_queues *s) {
    const int wanted = w->group_count - (in->target > 0 ? in->target : 0);
    w->ready = w->now;
    if (in->step == WAIT && wanted > 0)
        w->ready = later(w->ready, w->groups[wanted - 1]);
    if (in->step == PHASE && w->phase < s->bulk_count) /* the next one, in order */
        w->ready = later(w->ready, s->bulk[w->phase++]);
    for (int waits = in->waits & ((1 << BOARDS) - 1); waits; waits &= waits - 1)
        w->ready = later(w->ready, w->boards[__builtin_ctz((unsigned)waits)]);
}

static int commit(struct walker *w, double start) {
    if (w->group_count == w->group_capacity) {
        const int capacity = w->group_capacity ? 2 * w->group_capacity : 16;
        double *groups = realloc(w->groups, (size_t)capacity * sizeof *groups);
        if (!groups)
            return 0;
        w->groups = groups;
        w->group_capacity = capacity;
    }
    const double before = w->group_count ? w->groups[w->group_count - 1] : 0;
    w->groups[w->group_count++] = later(before, later(w->copied, start));
    w->copied = 0;
    return 1;
}

static int issue(struct walker *w, const struct walk_instruction *in, double load, double start,
                 struct walk_queues *s, const struct walk_costs *c) {
    double *slot = &s->slots[w->scheduler], latency = 0;
    if (in->pipe >= 0) {
        double *pipe = &s->pipes[w->scheduler][in->pipe];
        start = later(start, *pipe);
        *pipe = start + c->pipes[in->pipe];
    }
    *slot = start + 1;
    if (in->step == COPY || in->step == BULK || in->writes < BOARDS)
        latency = in->kind ? c->kinds[in->kind] : load;
    if (in->queue >= 0) { /* it need not wait itself, but its result does */
        const double free = later(start, s->queues[in->queue]);
        s->queues[in->queue] = free + c->queues[in->queue];
        latency += free - start;
    }
    if (in->step == COPY)
        w->copied = later(w->copied, start + latency);
    if (in->step == BULK && s->bulk_count < BULK_MOST)
        s->bulk[s->bulk_count++] = start + latency;
    if (in->step == COMMIT && !commit(w, start))
        return 0;
    if (in->writes < BOARDS)
        w->boards[in->writes] = later(w->boards[in->writes], start + latency);
    if (in->reads < BOARDS)
        w->boards[in->reads] = later(w->boards[in->reads], start + c->read);
    w->now = start + (in->stall > 1 ? in->stall : 1) + (in->step == FENCE ? c->fence : 0);
    w->waits = in->step == BARRIER;
    return 1;
}

/* Goes on to the next instruction; 0 at the end. */
static int advance(struct walker *w, const struct walk_instruction *code,
                   const struct walk_queues *s) {
    const struct warp_kind *p = w->pattern;
    if (++w->at == p->blocks[p->visits[w->visit]].end) {
        w->now += p->blocks[p->visits[w->visit]].leaves;
        w->taken[p->visits[w->visit]] = w->now - w->begun;
        w->begun = w->now;
        if (++w->visit == p->visit_count) {
            w->ready = INFINITY;
            return 0;
        }
        w->at = p->blocks[p->visits[w->visit]].first;
    }
    get_ready(w, &code[w->at], s);
    return 1;
}

/* All warps are at a barrier or at their end. */
static int release(struct walker *warps, int count, const struct walk_instruction *code,
                   const struct walk_queues *s, const struct walk_costs *c) {
    double last = 0;
    int found = 0;
    for (int i = 0; i < count; i++)
        if (warps[i].waits)
            last = later(last, warps[i].now);
    for (int i = 0; i < count; i++)
        if (warps[i].waits) {
            warps[i].now = last + c->barrier;
            warps[i].waits = 0;
            found |= advance(&warps[i], code, s);
        }
    return found;
}

static int run(struct walker *warps, int count, const struct walk_instruction *code,
               const double *loads, const struct walk_costs *c) {
    struct walk_queues shared = {0};
    for (;;) {
        double first = INFINITY;
        int next = 0;
        for (int i = 0; i < count; i++) {
            const double start = later(warps[i].ready, shared.slots[warps[i].scheduler]);
            if (start < first) {
                first = start;
                next = i;
            }
        }
        if (first == INFINITY) {
            if (!release(warps, count, code, &shared, c))
                return 1;
            continue;
        }
        struct walker *w = &warps[next];
        if (!issue(w, &code[w->at], loads[w->at], first, &shared, c))
            return 0;
        if (w->waits)
            w->ready = INFINITY;
        else
            advance(w, code, &shared);
    }
}

/* The clocks of the longest warp, its loops at their full length; NAN: out of memory. */
static double walked(const struct walk_instruction *code, int count, const double *times,
                     int patterns, const unsigned char *warp, int warp_count, const double *loads,
                     const struct walk_costs *c) {
    struct warp_kind *p = calloc((size_t)patterns, sizeof *p);
    struct walker *w = calloc((size_t)warp_count, sizeof *w);
    int done = p && w;
    double longest = 0;
    for (int i = 0; i < patterns && done; i++)
        done = pattern_open(&p[i], code, count, times + (size_t)i * (size_t)count, c);
    for (int i = 0; i < warp_count && done; i++) {
        w[i].pattern = &p[warp[i]];
        w[i].scheduler = i % SCHEDULERS;
        w[i].ready = INFINITY;
        if (w[i].pattern->visit_count) {
            w[i].at = w[i].pattern->blocks[w[i].pattern->visits[0]].first;
            w[i].ready = 0;
        }
        w[i].taken = calloc((size_t)w[i].pattern->count + 1, sizeof *w[i].taken);
        done = w[i].taken != NULL;
    }
    done = done && run(w, warp_count, code, loads, c);
    for (int i = 0; i < warp_count && done; i++) {
        double sum = 0;
        for (int j = 0; j < w[i].pattern->count; j++)
            sum += w[i].taken[j] * w[i].pattern->runs[j];
        longest = later(longest, sum);
    }
    for (int i = 0; i < warp_count && w; i++) {
        free(w[i].taken);
        free(w[i].groups);
    }
    for (int i = 0; i < patterns && p; i++)
        pattern_close(&p[i]);
    free(w);
    free(p);
    return done ? longest : -1;
}

static int is_sound(const struct walk_instruction *in) {
    return in->queue >= -1 && in->queue < QUEUE_COUNT && in->pipe >= -1 && in->pipe < PIPE_COUNT &&
           in->kind >= 0 && in->kind < KINDS && in->writes >= 0 && in->reads >= 0;
}

PyObject *py_walk(PyObject *module, PyObject *arguments) {
    Py_buffer code, times, warps, loads, constants;
    PyObject *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*y*y*y*y*", &code, &times, &warps, &loads, &constants))
        return NULL;
    const Py_ssize_t count = code.len / (Py_ssize_t)sizeof(struct walk_instruction),
                     row = count * (Py_ssize_t)sizeof(double);
    const unsigned char *pattern = warps.buf;
    int fits = count > 0 && count < 1 << 24 && warps.len > 0 && warps.len <= MOST_WARPS &&
               loads.len == row && times.len && times.len % row == 0 &&
               constants.len == (Py_ssize_t)sizeof(struct walk_costs);
    for (Py_ssize_t i = 0; i < warps.len && fits; i++)
        fits = pattern[i] < times.len / row;
    for (Py_ssize_t i = 0; i < count && fits; i++)
        fits = is_sound((const struct walk_instruction *)code.buf + i);
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "walk: the buffers do not fit together");
    } else {
        const double clocks = walked(code.buf, (int)count, times.buf, (int)(times.len / row),
                                     pattern, (int)warps.len, loads.buf, constants.buf);
        result = clocks < 0 ? PyErr_NoMemory() : PyFloat_FromDouble(clocks);
    }
    PyBuffer_Release(&code);
    PyBuffer_Release(&times);
    PyBuffer_Release(&warps);
    PyBuffer_Release(&loads);
    PyBuffer_Release(&constants);
    return result;
}

/* ---- blocks of different length ----
 *
 * They start in the order of their index, the first ones on each multiprocessor in turn, the others
 * where a place is free first. All that share a multiprocessor advance alike.
 */

enum { MOST_PLACES = 64 };

struct sharing {
    double now, done, next;   /* time; steps of a block that never ended; when the next one ends */
    double ends[MOST_PLACES]; /* steps at which each ends */
    int count;
};

struct pace { /* clocks for a step, by how many blocks share */
    const double *clocks;
    int places;
};

static void look_ahead(struct sharing *m, const struct pace *pace) {
    m->next = INFINITY;
    for (int i = 0; i < m->count; i++) {
        const double at = m->now + (m->ends[i] - m->done) * pace->clocks[m->count - 1];
        m->next = at < m->next ? at : m->next;
    }
}

/* Goes on to the end of the multiprocessor's next block, and takes it away. */
static void end_next(struct sharing *m, const struct pace *pace) {
    int first = 0;
    for (int i = 1; i < m->count; i++)
        if (m->ends[i] < m->ends[first])
            first = i;
    m->now += (m->ends[first] - m->done) * pace->clocks[m->count - 1];
    m->done = m->ends[first];
    m->ends[first] = m->ends[--m->count];
}

static double makespan(const uint64_t *steps, size_t blocks, struct sharing *all, int count,
                       const struct pace *pace) {
    size_t started = 0;
    double last = 0;
    for (int place = 0; place < pace->places; place++)
        for (int i = 0; i < count && started < blocks; i++)
            all[i].ends[all[i].count++] = (double)steps[started++];
    for (int i = 0; i < count; i++)
        look_ahead(&all[i], pace);
    for (;;) {
        struct sharing *m = all;
        for (int i = 1; i < count; i++)
            m = all[i].next < m->next ? &all[i] : m;
        if (m->next == INFINITY)
            return last;
        end_next(m, pace);
        last = m->now > last ? m->now : last;
        if (started < blocks)
            m->ends[m->count++] = m->done + (double)steps[started++];
        look_ahead(m, pace);
    }
}

PyObject *py_makespan(PyObject *module, PyObject *arguments) {
    Py_buffer steps, clocks;
    int count;
    PyObject *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*y*i", &steps, &clocks, &count))
        return NULL;
    const struct pace pace = {clocks.buf, (int)(clocks.len / (Py_ssize_t)sizeof(double))};
    struct sharing *all = count > 0 && count < 1 << 16 ? calloc((size_t)count, sizeof *all) : NULL;
    if (clocks.len <= 0 || pace.places > MOST_PLACES || count <= 0 || count >= 1 << 16)
        PyErr_SetString(PyExc_ValueError,
                        "makespan: 1 to 64 places of 1 to 65,535 multiprocessors");
    else if (!all)
        PyErr_NoMemory();
    else
        result = PyFloat_FromDouble(
            makespan(steps.buf, (size_t)steps.len / sizeof(uint64_t), all, count, &pace));
    free(all);
    PyBuffer_Release(&steps);
    PyBuffer_Release(&clocks);
    return result;
}

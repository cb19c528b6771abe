/* sim_reconverge.c: finds where diverged lanes meet again: at the immediate post-dominator of the
 * block that ends in the branch (Cooper, Harvey and Kennedy, on the reversed graph of a function's
 * basic blocks). Lanes that trap, or that a function ends instead of returning, meet nobody. All
 * lanes that return do so together, since the frame ends with them.
 */
#include "sim_decode.h"

struct graph {
    uint32_t count;            /* blocks of the function; node `count` is the virtual exit */
    uint32_t *first, *edges;   /* successors */
    uint32_t *rfirst, *redges; /* predecessors */
    uint32_t *order, *number, *idom, *stack, *at;
};

static void count_edge(uint32_t *counts, uint32_t *edges, uint32_t *fill, uint32_t from,
                       uint32_t to) {
    if (edges)
        edges[counts[from] + fill[from]++] = to;
    else
        counts[from + 1]++;
}

/* Calls edge(from, to) for every edge of the function's blocks [first, last). */
static void walk_edges(const struct sim_kernel *k, uint32_t first, uint32_t last, uint32_t end_pc,
                       uint32_t *counts, uint32_t *edges, uint32_t *fill, int reverse) {
    const enum sim_op leaves = k->code[end_pc - 1].op == SIM_OP_RET ? SIM_OP_RET : SIM_OP_EXIT;
    uint32_t n = last - first;
    for (uint32_t b = 0; b < n; b++) {
        uint32_t to_pc = b + 1 < n ? k->blocks[first + b + 1].first : end_pc;
        const struct sim_insn *in = &k->code[to_pc - 1];
        int falls = 1;
        uint32_t targets[1] = {0}, target_count = 0, table = 0, table_count = 0;
        if (in->op == SIM_OP_BRA) {
            targets[target_count++] = in->ext - first;
            falls = (in->flags & SIM_F_GUARD) != 0;
        } else if (in->op == SIM_OP_BRX) {
            table = in->ext;
            table_count = (uint32_t)in->imm;
            falls = (in->flags & SIM_F_GUARD) != 0;
        } else if (in->op == SIM_OP_EXIT || in->op == SIM_OP_RET || in->op == SIM_OP_TRAP) {
            if (in->op == leaves)
                targets[target_count++] = n;
            falls = (in->flags & SIM_F_GUARD) != 0;
        }
        if (b + 1 >= n && falls) {
            targets[0] = n;
            target_count = 1;
            falls = 0;
        }
        for (uint32_t i = 0; i < target_count + table_count + (uint32_t)falls; i++) {
            uint32_t to = i < target_count ? targets[i]
                          : i < target_count + table_count
                              ? k->extra[table + i - target_count] - first
                              : b + 1;
            if (reverse)
                count_edge(counts, edges, fill, to, b);
            else
                count_edge(counts, edges, fill, b, to);
        }
    }
}

static int build_graph(struct sim_decoder *d, struct graph *g, uint32_t first, uint32_t last,
                       uint32_t end_pc) {
    uint32_t n = last - first;
    g->count = n;
    for (int reverse = 0; reverse < 2; reverse++) {
        uint32_t *counts = sim_arena_alloc(&d->scratch, n + 3ull, sizeof *counts);
        uint32_t *fill = sim_arena_alloc(&d->scratch, n + 3ull, sizeof *fill);
        if (!counts || !fill)
            return 0;
        walk_edges(d->kernel, first, last, end_pc, counts, NULL, fill, reverse);
        for (uint32_t i = 0; i <= n + 1; i++)
            counts[i + 1] += counts[i];
        uint32_t *edges = sim_arena_alloc(&d->scratch, counts[n + 1] + 1ull, sizeof *edges);
        if (!edges)
            return 0;
        walk_edges(d->kernel, first, last, end_pc, counts, edges, fill, reverse);
        *(reverse ? &g->rfirst : &g->first) = counts;
        *(reverse ? &g->redges : &g->edges) = edges;
    }
    uint32_t **arrays[] = {&g->order, &g->number, &g->idom, &g->stack, &g->at};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        if (!(*arrays[i] = sim_arena_alloc(&d->scratch, n + 2ull, sizeof **arrays[i])))
            return 0;
    return 1;
}

/* Sets g->idom: for each block its immediate post-dominator, or UINT32_MAX where no path reaches
 * the exit. */
static void post_dominators(struct graph *g) {
    uint32_t n = g->count, ordered = 0, depth = 0;
    for (uint32_t i = 0; i <= n; i++)
        g->number[i] = g->idom[i] = UINT32_MAX;
    /* postorder of the reversed graph from the exit, with an explicit stack */
    g->stack[depth++] = n;
    g->at[n] = g->rfirst[n];
    g->number[n] = 0;
    while (depth) {
        uint32_t node = g->stack[depth - 1];
        if (g->at[node] < g->rfirst[node + 1]) {
            uint32_t next = g->redges[g->at[node]++];
            if (g->number[next] == UINT32_MAX) {
                g->number[next] = 0;
                g->at[next] = g->rfirst[next];
                g->stack[depth++] = next;
            }
        } else {
            depth--;
            g->number[node] = ordered;
            g->order[ordered++] = node;
        }
    }
    g->idom[n] = n;
    for (int changed = 1; changed;) {
        changed = 0;
        for (uint32_t i = ordered - 1; i-- > 0;) {
            uint32_t node = g->order[i], meet = UINT32_MAX;
            for (uint32_t e = g->first[node]; e < g->first[node + 1]; e++) {
                uint32_t other = g->edges[e];
                if (g->idom[other] == UINT32_MAX)
                    continue;
                if (meet == UINT32_MAX) {
                    meet = other;
                    continue;
                }
                while (meet != other) {
                    while (g->number[meet] < g->number[other])
                        meet = g->idom[meet];
                    while (g->number[other] < g->number[meet])
                        other = g->idom[other];
                }
            }
            if (meet != UINT32_MAX && g->idom[node] != meet) {
                g->idom[node] = meet;
                changed = 1;
            }
        }
    }
}

enum sim_status sim_find_reconvergence(struct sim_decoder *d, uint32_t first, uint32_t last) {
    struct sim_kernel *k = d->kernel;
    struct graph g = {0};
    if (!build_graph(d, &g, first, last, d->cf->end_pc))
        return sim_decode_no_memory(d);
    post_dominators(&g);
    for (uint32_t b = first; b < last; b++) {
        uint32_t end = b + 1 < last ? k->blocks[b + 1].first : d->cf->end_pc,
                 meet = g.idom[b - first];
        struct sim_insn *in = &k->code[end - 1];
        for (uint32_t pc = k->blocks[b].first + 1; pc < end; pc++)
            k->blocks[b].count += !(k->code[pc].flags & SIM_F_HELPER);
        if (meet != UINT32_MAX && meet != g.count)
            k->blocks[b].reconverge = k->blocks[first + meet].first;
        if (in->op == SIM_OP_BRA) {
            in->c = k->blocks[b].reconverge;
            in->ext = k->blocks[in->ext].first; /* block index to pc */
        } else if (in->op == SIM_OP_BRX) {
            in->c = k->blocks[b].reconverge;
            for (int64_t i = 0; i < in->imm; i++)
                k->extra[in->ext + i] = k->blocks[k->extra[in->ext + i]].first;
        }
    }
    return SIM_OK;
}

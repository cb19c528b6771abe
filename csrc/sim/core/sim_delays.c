/* sim_delays.c: which accesses of a warp delay it, where a launch has an order: those of a list, or
 * at random. A random choice depends on the seed, the warp and the count of its accesses alone, so
 * that it is the same in every run.
 */
#include "sim_run.h"

#include <stdlib.h>

#define DELAYS_MOST 65536u

static uint64_t mixed(uint64_t x) { /* splitmix64's finaliser */
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static int is_listed(const struct sim_launch *launch, const uint64_t wanted[3]) {
    size_t low = 0, high = launch->delay_count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const uint64_t *at = launch->delays[middle];
        int i = 0;
        while (i < 3 && at[i] == wanted[i])
            i++;
        if (i == 3)
            return 1;
        if (at[i] < wanted[i])
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

int sim_order_delays(struct sim_run *run, struct sim_warp *warp, uint32_t pc) {
    struct sim_schedule *order = run->schedule;
    const struct sim_launch *launch = run->launch;
    struct sim_delay delay = {
        .block = warp->block->linear, .warp = warp->index, .access = warp->accesses};
    if (warp->delayed) { /* this is the access */
        warp->delayed = 0;
        return 0;
    }
    warp->accesses++;
    const uint64_t x = mixed(mixed(mixed(launch->seed ^ 0x9e3779b97f4a7c15u) + delay.block) +
                             (uint64_t)delay.warp * 0x632be59bd9b4e019u) +
                       delay.access;
    if (launch->delays
            ? !is_listed(launch, (const uint64_t[3]){delay.block, delay.warp, delay.access})
            : mixed(x) >= order->limit)
        return 0;
    struct sim_delay *made =
        order->made_count < DELAYS_MOST
            ? sim_grow(NULL, order->made, &order->capacity, order->made_count + 1, sizeof *made)
            : NULL;
    if (made)
        order->made = made;
    if (order->made_count < order->capacity) {
        const struct sim_where *where = &run->kernel->where[pc];
        int system;
        delay.file = sim_module_file(run->kernel->module, where->file, &system);
        delay.line = delay.file ? where->line : 0;
        delay.ptx_line = where->ptx_line;
        order->made[order->made_count++] = delay;
    }
    warp->delayed = 1;
    return 1;
}

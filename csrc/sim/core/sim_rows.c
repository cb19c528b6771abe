/* sim_rows.c: a hash table from mnemonics to the rows of ops.def. Knows no operand and no modifier.
 */
#include "sim_internal.h"

#include <string.h>

#define ROW_TABLE 4096u

/* An entry is a row's index + 1, or, for an alias, the number of rows + its index + 1. All GPUs
 * share the table, which is complete before sim_rows_build() returns. */
static uint16_t table[ROW_TABLE];
static int is_complete;

static void insert_row(const char *mnemonic, uint16_t row) {
    uint32_t i = sim_hash(mnemonic, strlen(mnemonic)) % ROW_TABLE;
    while (table[i])
        i = (i + 1) % ROW_TABLE;
    table[i] = row;
}

static void build(void) {
    if (sim_lane_op_count + sim_lane_alias_count >= ROW_TABLE * 3 / 4)
        return;
    for (size_t i = 0; i < sim_lane_op_count; i++)
        insert_row(sim_lane_ops[i].mnemonic, (uint16_t)(i + 1));
    for (size_t i = 0; i < sim_lane_alias_count; i++)
        insert_row(sim_lane_aliases[i].mnemonic, (uint16_t)(sim_lane_op_count + i + 1));
    is_complete = 1;
}

int sim_rows_build(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, build);
    return is_complete;
}

int sim_row_find(const char *mnemonic) {
    for (int round = 0; round < 2; round++) {
        uint32_t i = sim_hash(mnemonic, strlen(mnemonic)) % ROW_TABLE;
        for (; table[i]; i = (i + 1) % ROW_TABLE) {
            size_t entry = table[i] - 1u;
            if (entry < sim_lane_op_count) {
                if (strcmp(sim_lane_ops[entry].mnemonic, mnemonic) == 0)
                    return (int)entry;
            } else if (strcmp(sim_lane_aliases[entry - sim_lane_op_count].mnemonic, mnemonic) ==
                       0) {
                mnemonic = sim_lane_aliases[entry - sim_lane_op_count].target;
                break;
            }
        }
        if (!table[i])
            return -1;
    }
    return -1;
}

/* sim_rows.c: a hash table from mnemonics to the rows of ops.def. Knows no operand and no modifier.
 */
#include "sim_internal.h"

#include <string.h>

static void insert_row(uint16_t *table, const char *mnemonic, uint16_t row) {
    uint32_t i = sim_hash(mnemonic, strlen(mnemonic)) % SIM_ROW_TABLE;
    while (table[i])
        i = (i + 1) % SIM_ROW_TABLE;
    table[i] = row;
}

/* An entry is a row's index + 1, or, for an alias, the number of rows + its index + 1. */
int sim_rows_build(uint16_t *table) {
    size_t total = sim_lane_op_count + sim_lane_alias_count;
    if (total >= SIM_ROW_TABLE * 3 / 4)
        return 0;
    for (size_t i = 0; i < sim_lane_op_count; i++)
        insert_row(table, sim_lane_ops[i].mnemonic, (uint16_t)(i + 1));
    for (size_t i = 0; i < sim_lane_alias_count; i++)
        insert_row(table, sim_lane_aliases[i].mnemonic, (uint16_t)(sim_lane_op_count + i + 1));
    return 1;
}

int sim_row_find(const uint16_t *table, const char *mnemonic) {
    for (int round = 0; round < 2; round++) {
        uint32_t i = sim_hash(mnemonic, strlen(mnemonic)) % SIM_ROW_TABLE;
        for (; table[i]; i = (i + 1) % SIM_ROW_TABLE) {
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

/* sim_exec_matrix.c: fragments of matrices, as PTX's chapter on mma lays them out: a lane belongs
 * to the group lane / 4, and is its member lane % 4. Knows no memory.
 */
#include "sim_exec.h"

#include <string.h>

enum { HEIGHT = 16, WIDTH = 8, DEPTH = 32, RESULTS = 4 };

static uint32_t word_of(const uint8_t *regs, uint32_t slot, uint32_t lane) {
    return ((const sim_u32 *)(const void *)(regs + slot))[lane];
}

/* A 16-bit element of a matrix, whose row a lane holds in four registers. */
static uint32_t element(const uint8_t *regs, const uint32_t *words, uint32_t lane,
                        uint32_t column) {
    return word_of(regs, words[column / 2], lane) >> column % 2 * 16 & 0xffff;
}

void sim_exec_matrix(const struct sim_run *run, const struct sim_insn *in, uint32_t mask,
                     uint8_t *regs) {
    const uint32_t *words = &run->kernel->extra[in->ext], *results = words + 4;
    uint32_t made[RESULTS][SIM_LANES];
    for (uint32_t i = 0; i < in->vec; i++)
        for (uint32_t lane = 0; lane < SIM_LANES; lane++) {
            const uint32_t group = lane / 4, pair = lane % 4 * 2;
            made[i][lane] = in->sub ? element(regs, words, 8 * i + pair, group) |
                                          element(regs, words, 8 * i + pair + 1, group) << 16
                                    : word_of(regs, words[pair / 2], 8 * i + group);
        }
    for (uint32_t i = 0; i < in->vec; i++)
        sim_blend(run, regs + results[i], (const uint8_t *)made[i], mask, 4);
}

/* Byte i of a register, of either sign. */
static int32_t byte_of(uint32_t word, uint32_t i, int is_signed) {
    const uint32_t byte = word >> 8 * i & 255;
    return is_signed ? (int8_t)byte : (int32_t)byte;
}

static int32_t joined(int64_t sum, int saturates) {
    if (saturates)
        sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
    return (int32_t)(uint32_t)sum;
}

void sim_exec_mma(const struct sim_run *run, const struct sim_insn *in, uint32_t mask,
                  uint8_t *regs) {
    const uint32_t height = in->sub & SIM_MMA_TALL ? 2 : 1, depth = in->vec / 16u;
    const uint32_t *a = &run->kernel->extra[in->ext], *b = a + height * depth, *c = b + depth,
                   *d = c + 2 * height;
    int32_t left[HEIGHT][DEPTH], right[DEPTH][WIDTH], made[RESULTS][SIM_LANES];
    for (uint32_t lane = 0; lane < SIM_LANES; lane++) {
        const uint32_t group = lane / 4, first = lane % 4 * 4;
        for (uint32_t i = 0; i < 4; i++)
            for (uint32_t k = 0; k < depth; k++) {
                right[16 * k + first + i][group] =
                    byte_of(word_of(regs, b[k], lane), i, in->sub & SIM_MMA_SIGNED_B);
                for (uint32_t h = 0; h < height; h++)
                    left[8 * h + group][16 * k + first + i] = byte_of(
                        word_of(regs, a[height * k + h], lane), i, in->sub & SIM_MMA_SIGNED_A);
            }
    }
    for (uint32_t lane = 0; lane < SIM_LANES; lane++)
        for (uint32_t i = 0; i < 2 * height; i++) {
            const uint32_t row = 8 * (i / 2) + lane / 4, column = lane % 4 * 2 + i % 2;
            int64_t sum = (int32_t)word_of(regs, c[i], lane);
            for (uint32_t k = 0; k < in->vec; k++)
                sum += left[row][k] * right[k][column];
            made[i][lane] = joined(sum, in->sub & SIM_MMA_SAT);
        }
    for (uint32_t i = 0; i < 2 * height; i++)
        sim_blend(run, regs + d[i], (const uint8_t *)made[i], mask, 4);
}

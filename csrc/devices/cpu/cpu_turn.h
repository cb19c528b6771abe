/* cpu_turn.h: turns a part of a matrix in vector registers. Knows no operation and no thread. */
#ifndef GPUOPT_CPU_TURN_H
#define GPUOPT_CPU_TURN_H

#include <stddef.h>

enum { PATCH_SIDE = 16 }; /* bytes of an input row in a vector register */

/* Transposes rows and columns, rows `row` and `out_row` bytes apart; fast from PATCH_SIDE bytes of
 * each on. */
typedef void turn_function(const char *in, size_t row, size_t rows, size_t columns, char *out,
                           size_t out_row);

/* The one for elements of 1, 2, 4, 8 or 16 bytes. */
turn_function *cpu_turn(size_t size);

#endif

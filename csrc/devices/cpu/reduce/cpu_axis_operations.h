/* cpu_axis_operations.h: the operations of cpu_reduce_axis.c, one for each of its signatures: the
 * core, the conversion before it, the store after it.
 */
#ifndef GPUOPT_CPU_AXIS_OPERATIONS_H
#define GPUOPT_CPU_AXIS_OPERATIONS_H

#include "cpu_axis.h"

#define USES_sum_int8_int64 &axis_sum_int8, NULL, axis_store_int64
#define USES_sum_int16_int64 &axis_sum_int16, NULL, axis_store_int64
#define USES_sum_int32_int64 &axis_sum_int32, NULL, axis_store_int64
#define USES_sum_int64_int64 &axis_sum_int64, NULL, axis_store_int64
#define USES_sum_int64_float64 &axis_sum_int64_float64, NULL, axis_store_float64
#define USES_sum_float16_float64 &axis_sum_float32, axis_float16_to_float32, axis_store_float64
#define USES_sum_bfloat16_float64 &axis_sum_float32, axis_bfloat16_to_float32, axis_store_float64
#define USES_sum_float32_float64 &axis_sum_float32, NULL, axis_store_float64
#define USES_sum_float64_float64 &axis_sum_float64, NULL, axis_store_float64
#define USES_prod_int8_int64 &axis_prod_int64, axis_int8_to_int64, axis_store_int64
#define USES_prod_int16_int64 &axis_prod_int64, axis_int16_to_int64, axis_store_int64
#define USES_prod_int32_int64 &axis_prod_int64, axis_int32_to_int64, axis_store_int64
#define USES_prod_int64_int64 &axis_prod_int64, NULL, axis_store_int64
#define USES_prod_float32_float64 &axis_prod_float32, NULL, axis_store_float64
#define USES_prod_float64_float64 &axis_prod_float64, NULL, axis_store_float64
#define USES_prod_complex64_complex128 &axis_prod_complex64, NULL, axis_store_complex128
#define USES_prod_complex128_complex128 &axis_prod_complex128, NULL, axis_store_complex128
#define USES_min_int8_int8 &axis_min_int8, NULL, axis_store_keyed_8
#define USES_min_int16_int16 &axis_min_int16, NULL, axis_store_keyed_16
#define USES_min_int32_int32 &axis_min_int32, NULL, axis_store_keyed_32
#define USES_min_int64_int64 &axis_min_int64, NULL, axis_store_keyed_64
#define USES_min_float16_float32 &axis_min_float32, axis_ordered_float16, axis_store_keyed_float16
#define USES_min_bfloat16_float32 \
    &axis_min_float32, axis_ordered_bfloat16, axis_store_keyed_bfloat16
#define USES_min_float32_float32 &axis_min_float32, NULL, axis_store_keyed_32
#define USES_min_float64_float64 &axis_min_float64, NULL, axis_store_keyed_64
#define USES_bits_int8_int8 &axis_bits_int8, NULL, axis_store_keyed_8
#define USES_bits_int16_int16 &axis_bits_int16, NULL, axis_store_keyed_16
#define USES_bits_int32_int32 &axis_bits_int32, NULL, axis_store_keyed_32
#define USES_bits_int64_int64 &axis_bits_int64, NULL, axis_store_keyed_64
#define USES_count_int8_int64 &axis_count_int8, NULL, axis_store_int64
#define USES_count_int16_int64 &axis_count_int16, NULL, axis_store_int64
#define USES_count_int32_int64 &axis_count_int32, NULL, axis_store_int64
#define USES_count_int64_int64 &axis_count_int64, NULL, axis_store_int64
#define USES_argmin_int8_int64 &axis_argmin_int8, NULL, axis_store_indices
#define USES_argmin_int16_int64 &axis_argmin_int16, NULL, axis_store_indices
#define USES_argmin_int32_int64 &axis_argmin_int32, NULL, axis_store_indices
#define USES_argmin_int64_int64 &axis_argmin_int64, NULL, axis_store_indices
#define USES_argmin_float16_int64 &axis_argmin_float32, axis_ordered_float16, axis_store_indices
#define USES_argmin_bfloat16_int64 &axis_argmin_float32, axis_ordered_bfloat16, axis_store_indices
#define USES_argmin_float32_int64 &axis_argmin_float32, NULL, axis_store_indices
#define USES_argmin_float64_int64 &axis_argmin_float64, NULL, axis_store_indices

#define BYTES_int8 1
#define BYTES_int16 2
#define BYTES_int32 4
#define BYTES_int64 8
#define BYTES_float16 2
#define BYTES_bfloat16 2
#define BYTES_float32 4
#define BYTES_float64 8
#define BYTES_complex64 8
#define BYTES_complex128 16

/* Elements that are converted fit into `copied` twice, before and after. */
#define FUNCTIONS(op, items, acc, ...)                                      \
    static const struct axis_functions functions_##op##_##items##_##acc = { \
        USES_##op##_##items##_##acc, BYTES_##items};
CPU_REDUCE_AXIS_SIGNATURES(FUNCTIONS)

#endif

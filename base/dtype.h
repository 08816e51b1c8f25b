/*
 * base/dtype.h - the types that numbers are stored in, one list for prices and kernels.
 */
#ifndef S2_BASE_DTYPE_H
#define S2_BASE_DTYPE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Kernels compute in the first S2_N_DTYPES; S2_F8, e4m3, is a type of prices and of stored keys and values. */
typedef enum s2_dtype { S2_F32, S2_BF16, S2_F16, S2_N_DTYPES, S2_F8 = S2_N_DTYPES } s2_dtype;
enum { S2_N_PRICED_DTYPES = S2_F8 + 1 };

/* "fp32", "bf16", "fp16", "fp8": the names in options, reports and databases. */
const char *s2_dtype_word(s2_dtype dtype);

static inline int32_t s2_dtype_bytes(s2_dtype dtype)
{
    return dtype == S2_F8 ? 1 : dtype == S2_F32 ? 4 : 2;
}

#ifdef __cplusplus
}
#endif

#endif /* S2_BASE_DTYPE_H */

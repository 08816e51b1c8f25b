#include "base/dtype.h"

const char *s2_dtype_word(s2_dtype dtype)
{
    static const char *const words[S2_N_PRICED_DTYPES] = {"fp32", "bf16", "fp16", "fp8"};
    return words[dtype];
}

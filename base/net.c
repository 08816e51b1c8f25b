#include "base/net.h"

double s2_weights_bits(s2_weights weights)
{
    switch (weights) {
    case S2_WEIGHTS_FP8:
    case S2_WEIGHTS_INT8: return 8;
    case S2_WEIGHTS_INT4:
    case S2_WEIGHTS_NVFP4: return 4.5;  /* with a two-byte scale for each 32, or a one-byte one for each 16 */
    case S2_WEIGHTS_MXFP4: return 4.25; /* with a one-byte scale for each 32 */
    case S2_WEIGHTS_PUBLISHED:
    case S2_WEIGHTS_AS_DTYPE:
    case S2_N_WEIGHTS: break;
    }
    return 0;
}

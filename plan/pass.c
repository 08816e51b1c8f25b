#include "plan/pass.h"

const char *s2_pass_word(s2_pass pass)
{
    static const char *const words[S2_N_PASSES] = {"forward", "backward", "decode"};
    return words[pass];
}

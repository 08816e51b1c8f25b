#include "pattern/codes.h"

#include <stddef.h>

const char *s2_code_explain(int32_t code)
{
    switch (code) {
#define S2_CODE_CASE(name, number, text)                                                                     \
    case number: return text;
        S2_CODE_TABLE(S2_CODE_CASE)
#undef S2_CODE_CASE
    default: return NULL;
    }
}

int32_t s2_code_at(int32_t nth)
{
    static const int32_t numbers[] = {
#define S2_CODE_NUMBER(name, number, text) number,
        S2_CODE_TABLE(S2_CODE_NUMBER)
#undef S2_CODE_NUMBER
    };
    return nth >= 0 && nth < S2_N_CODES ? numbers[nth] : 0;
}

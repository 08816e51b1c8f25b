#include "base/quantity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct unit {
    s2_quantity quantity;
    const char *word;
    double factor;
} unit;

static const unit UNITS[] = {
    {S2_QUANTITY_COUNT, "k", 0x1p10},   {S2_QUANTITY_COUNT, "m", 0x1p20},
    {S2_QUANTITY_COUNT, "g", 0x1p30},   {S2_QUANTITY_BYTES, "b", 1},
    {S2_QUANTITY_BYTES, "k", 0x1p10},   {S2_QUANTITY_BYTES, "m", 0x1p20},
    {S2_QUANTITY_BYTES, "g", 0x1p30},   {S2_QUANTITY_BYTES, "t", 0x1p40},
    {S2_QUANTITY_BYTES, "kib", 0x1p10}, {S2_QUANTITY_BYTES, "mib", 0x1p20},
    {S2_QUANTITY_BYTES, "gib", 0x1p30}, {S2_QUANTITY_BYTES, "tib", 0x1p40},
    {S2_QUANTITY_BYTES, "pib", 0x1p50}, {S2_QUANTITY_BYTES, "kb", 1e3},
    {S2_QUANTITY_BYTES, "mb", 1e6},     {S2_QUANTITY_BYTES, "gb", 1e9},
    {S2_QUANTITY_BYTES, "tb", 1e12},    {S2_QUANTITY_SHARE, "%", 0.01},
    {S2_QUANTITY_TIME, "us", 1},        {S2_QUANTITY_TIME, "ms", 1e3},
    {S2_QUANTITY_TIME, "s", 1e6},
};

bool s2_quantity_parse(s2_quantity quantity, const char *text, double bare, double *out)
{
    if (text[0] == '\0' || strchr("0123456789.", text[0]) == NULL || strpbrk(text, "xX") != NULL)
        return false;
    char *end;
    double value = strtod(text, &end), factor = *end == '\0' ? bare : 0;
    end += strspn(end, " ");
    for (size_t n = 0; n < sizeof UNITS / sizeof UNITS[0] && factor <= 0; n++)
        if (UNITS[n].quantity == quantity && strcasecmp(UNITS[n].word, end) == 0)
            factor = UNITS[n].factor;
    value *= factor;
    if (end == text || factor <= 0 || !isfinite(value) || (quantity == S2_QUANTITY_SHARE && value > 1))
        return false;
    *out = value;
    return true;
}

/* What reading, resolving and deciding share: the words of properties, refusal, and growing arrays. */
#include "cert/cert.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const char *const s2_cert_properties[] = {"union", "ranks", "depth", "shards", "rows", "kv", "group", NULL};

bool s2_cert_refuse(s2_cert *c, s2_cert_verdict verdict, const char *format, ...)
{
    if (c->answer->reason[0] == '\0') {
        c->answer->verdict = verdict;
        va_list args;
        va_start(args, format);
        vsnprintf(c->answer->reason, sizeof c->answer->reason, format, args);
        va_end(args);
    }
    return false;
}

void *s2_cert_grow(s2_cert *c, void *items, int32_t n, int32_t *cap, size_t item_bytes)
{
    if (n < *cap)
        return items;
    const int32_t more = *cap != 0 ? *cap * 2 : 16;
    void *const grown = realloc(items, (size_t)more * item_bytes);
    if (grown == NULL)
        s2_cert_refuse(c, S2_CERT_NO_MEMORY, "out of memory");
    else
        *cap = more;
    return grown;
}

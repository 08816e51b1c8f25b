#include "cli/cli.h"

#ifndef S2_COMMIT
#define S2_COMMIT "unknown"
#endif

#ifndef S2_BUILD
#define S2_BUILD "flags unknown"
#endif

const char *s2_version(void)
{
    return "0.1.0";
}

const char *s2_version_commit(void)
{
    return S2_COMMIT;
}

const char *s2_version_build(void)
{
#ifdef __clang__
    return __VERSION__ ", " S2_BUILD;
#else
    return "gcc " __VERSION__ ", " S2_BUILD;
#endif
}

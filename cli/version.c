#include "cli/cli.h"

#ifndef S2_COMMIT
#define S2_COMMIT "unknown"
#endif

const char *s2_version(void)
{
    return "0.1.0";
}

const char *s2_version_commit(void)
{
    return S2_COMMIT;
}

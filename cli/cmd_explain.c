#include "cli/commands.h"

#include <stdio.h>

#include "cli/explain.h"
#include "cli/options.h"
#include "cli/words.h"

enum { PHRASE = 128 };

static void join(const s2_args *args, int32_t begin, int32_t end, char *out, size_t cap)
{
    size_t used = 0;
    for (int32_t n = begin; n < end && used < cap; n++)
        used += (size_t)snprintf(out + used, cap - used, "%s%s", n > begin ? " " : "", args->operands[n]);
}

/* "head pages" is one entry, though the shell splits it: take the longest phrase that is known. */
static int32_t phrase_end(const s2_args *args, int32_t begin)
{
    char phrase[PHRASE];
    int32_t end = args->n_operands;
    for (; end > begin + 1; end--) {
        join(args, begin, end, phrase, sizeof phrase);
        if (s2_word_find(phrase) != NULL)
            break;
    }
    return end;
}

s2_exit s2_cmd_explain(s2_cli *cli, int argc, char **argv)
{
    s2_args args;
    S2_CLI_TRY(s2_args_parse(cli, "explain", argc, argv, &args));
    if (args.n_operands == 0)
        return s2_explain_list(cli);
    s2_exit code = S2_EXIT_OK;
    for (int32_t n = 0; n < args.n_operands;) {
        const int32_t end = phrase_end(&args, n);
        char phrase[PHRASE];
        join(&args, n, end, phrase, sizeof phrase);
        code = s2_exit_combine(code, s2_explain_print(cli, end > n + 1 ? phrase : args.operands[n]));
        n = end;
    }
    return code;
}

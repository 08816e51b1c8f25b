#include "cli/color.h"

#include <string.h>

static const char GOOD[] = "\033[32m", BAD[] = "\033[1;31m", OPEN[] = "\033[33m";

/* How a verdict may begin, and its colour. */
static const struct {
    const char *word, *color;
} VERDICTS[] = {
    {"holds", GOOD},  {"VIOLATED", BAD},       {"unknown", OPEN},
    {"same", GOOD},   {"different", BAD},      {"sound", GOOD},
    {"ok", GOOD},     {"wrong_pairs", BAD},    {"wrong_values", BAD},
    {"nan", BAD},     {"out_of_bounds", BAD},  {"launch_failed", BAD},
    {"timeout", BAD}, {"out_of_memory", OPEN}, {"unsupported", OPEN},
};

void s2_color_read(s2_cli *cli, const s2_args *args)
{
    const char *const when = s2_args_str(args, "color");
    cli->quiet = s2_args_has(args, "quiet");
    cli->color = strcmp(when, "always") == 0 || (strcmp(when, "auto") == 0 && s2_cli_takes_color(cli));
}

/* The verdict that a line of n bytes states, or -1; labels and lines indented further state none. */
static int find_verdict(const char *line, size_t n, size_t column)
{
    const bool indented = column > 0 && strncmp(line, "  ", 2) == 0 && line[2] != ' ';
    if (n <= column || (column > 0 && !indented))
        return -1;
    const size_t n_word = strcspn(line + column, " :\n");
    for (size_t v = 0; v < sizeof VERDICTS / sizeof *VERDICTS; v++)
        if (s2_text_is(VERDICTS[v].word, line + column, n_word))
            return (int)v;
    return -1;
}

static void color_verdicts(const char *line, size_t column, s2_buf *out)
{
    while (*line != '\0') {
        const size_t n_text = strcspn(line, "\n"), n = n_text + (line[n_text] == '\n');
        const int verdict = find_verdict(line, n_text, column);
        const size_t n_word = verdict >= 0 ? strlen(VERDICTS[verdict].word) : 0;
        const size_t rest = verdict >= 0 ? column + n_word : 0;
        if (verdict >= 0)
            s2_buf_printf(out, "%.*s%s%s\033[0m", (int)column, line, VERDICTS[verdict].color,
                          VERDICTS[verdict].word);
        s2_buf_add(out, line + rest, n - rest);
        line += n;
    }
}

s2_exit s2_color_print(s2_cli *cli, s2_buf *text, int32_t column)
{
    s2_buf colored = {0};
    s2_buf_add(text, "", 1);
    if (cli->color && text->status == S2_OK)
        color_verdicts(text->data, (size_t)column, &colored);
    s2_buf *const shown = cli->color && text->status == S2_OK ? &colored : text;
    if (shown == text && text->status == S2_OK)
        text->len--; /* the end of the string is not printed */
    if (cli->quiet)
        shown->len = 0;
    const s2_exit code = s2_cli_print(cli, shown);
    s2_buf_release(text);
    return code;
}

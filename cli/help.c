#include "cli/help.h"

#include <ctype.h>
#include <string.h>

enum { WIDTH = 80, OPTION_COLUMN = 30 };

static const char EXIT_CODES[] =
    "0 every asked property holds, or done; 1 a property is violated, a result is wrong, or a difference was "
    "found; 2 called wrongly; 3 input refused; 4 not decided, a stated limit was hit; 5 environment: no GPU, "
    "no kernel or price for what is asked, database locked or damaged, disk full; 6 internal, two "
    "computations of one fact disagree. Of several "
    "inputs the first present of 6, 5, 3, 1, 4, 0.";

/* Bytes of the next word; one too long for a line is cut after a comma, as lists of columns can be. */
static int word_len(const char *text, int indent)
{
    const int n = (int)strcspn(text, " \n");
    int cut = n;
    if (n > WIDTH - indent)
        for (cut = WIDTH - indent; cut > 0 && text[cut - 1] != ',';)
            cut--;
    return cut > 0 ? cut : n;
}

/* Paragraphs, filled to WIDTH: the first line continues at column `col`, the others start at `indent`. */
static void add_filled_from(s2_buf *buf, const char *text, int indent, int col)
{
    bool starts = true;
    while (*text != '\0') {
        const int n = word_len(text, indent);
        if (*text == '\n' || (!starts && col + 1 + n > WIDTH)) {
            s2_buf_printf(buf, "\n");
            col = 0;
            starts = true;
        }
        if (*text == '\n') {
            text++;
            continue;
        }
        const int pad = !starts ? 1 : col < indent ? indent - col : 0;
        s2_buf_printf(buf, "%*s%.*s", pad, "", n, text);
        col += pad + n;
        text += n;
        starts = false;
        if (*text == ' ') {
            text++;
        } else if (*text != '\n' && *text != '\0') {
            s2_buf_puts(buf, "\n");
            col = 0;
            starts = true;
        }
    }
    s2_buf_puts(buf, "\n");
}

static void add_filled(s2_buf *buf, const char *text, int indent)
{
    add_filled_from(buf, text, indent, 0);
}

/* "-n, --len N" */
static void add_option_name(s2_buf *buf, const s2_option *option)
{
    if (option->letter != '\0')
        s2_buf_printf(buf, "-%c, ", option->letter);
    s2_buf_printf(buf, "--%s%s%s", option->name, option->arg != NULL ? " " : "",
                  option->arg != NULL ? option->arg : "");
}

static void add_option(s2_buf *buf, const s2_option *option)
{
    s2_buf left = {0}, right = {0};
    s2_buf_puts(&left, "  ");
    add_option_name(&left, option);
    s2_buf_puts(&right, option->help);
    if (option->fallback != NULL)
        s2_buf_printf(&right, " (%s)", option->fallback);
    const bool fits = left.len + 2 <= OPTION_COLUMN;
    s2_buf_printf(buf, "%s%s", left.data != NULL ? left.data : "", fits ? "" : "\n");
    if (right.data != NULL)
        add_filled_from(buf, right.data, OPTION_COLUMN, fits ? (int)left.len : 0);
    s2_buf_release(&left);
    s2_buf_release(&right);
}

static const char *about_of(const char *program, const s2_command *command)
{
    return strcmp(program, "s2check") == 0 ? s2_s2check_about : command->about;
}

static const char *examples_of(const char *program, const s2_command *command)
{
    return strcmp(program, "s2check") == 0 ? s2_s2check_examples : command->examples;
}

s2_exit s2_help_print(s2_cli *cli, const s2_command *command)
{
    const bool is_s2 = strcmp(cli->program, "s2") == 0;
    s2_buf buf = {0};
    s2_buf_printf(&buf, "usage: %s%s%s [OPTIONS]%s%s\n\n", cli->program, is_s2 ? " " : "",
                  is_s2 ? command->name : "", command->operands[0] != '\0' ? " " : "", command->operands);
    s2_buf summary = {0};
    s2_buf_printf(&summary, "%c%s.", toupper((unsigned char)command->summary[0]), command->summary + 1);
    if (summary.data != NULL)
        add_filled(&buf, summary.data, 0);
    s2_buf_release(&summary);
    if (about_of(cli->program, command) != NULL) {
        s2_buf_puts(&buf, "\n");
        add_filled(&buf, about_of(cli->program, command), 0);
    }
    s2_buf_puts(&buf, "\n");
    for (const s2_option *option = command->options; option->name != NULL; option++)
        if (s2_option_is_known(cli->program, option))
            add_option(&buf, option);
    s2_buf_puts(&buf, "  -h, --help                  print this, and end\n");
    const char *const examples = examples_of(cli->program, command);
    if (examples != NULL)
        s2_buf_printf(&buf, "\n%s", examples);
    if (!is_s2) {
        s2_buf_puts(&buf, "\nexit codes:\n");
        add_filled(&buf, EXIT_CODES, 2);
    }
    return s2_cli_print(cli, &buf);
}

s2_exit s2_help_overview(s2_cli *cli)
{
    s2_buf buf = {0};
    s2_buf_puts(&buf, "usage: s2 [--db FILE] COMMAND [OPTIONS] ...\n\n"
                      "Proves, prices, validates and exports sharded sparse attention patterns.\n\n");
    for (const s2_command *command = s2_command_table; command->name != NULL; command++) {
        s2_buf_printf(&buf, "  %-10s", command->name);
        add_filled_from(&buf, command->summary, 13, 12);
    }
    s2_buf_puts(&buf,
                "\n`s2 help COMMAND` explains one; `s2 --version` prints the version.\n\nexit codes:\n");
    add_filled(&buf, EXIT_CODES, 2);
    return s2_cli_print(cli, &buf);
}

/* groff reads '-' as a hyphen, '\' as an escape and a leading '.' or '\'' as a request. */
static void add_groff(s2_buf *buf, const char *text)
{
    bool line_start = true;
    for (; *text != '\0'; text++) {
        if (line_start && (*text == '.' || *text == '\''))
            s2_buf_puts(buf, "\\&");
        line_start = *text == '\n';
        if (*text == '-')
            s2_buf_puts(buf, "\\-");
        else if (*text == '\\')
            s2_buf_puts(buf, "\\e");
        else if (*text == '\n')
            s2_buf_puts(buf, "\n.PP\n");
        else
            s2_buf_add(buf, text, 1);
    }
    s2_buf_puts(buf, "\n");
}

static void add_man_options(const char *program, const s2_command *command, s2_buf *buf)
{
    s2_buf_puts(buf, ".SH OPTIONS\n");
    for (const s2_option *option = command->options; option->name != NULL; option++) {
        if (!s2_option_is_known(program, option))
            continue;
        s2_buf name = {0};
        add_option_name(&name, option);
        s2_buf_puts(buf, ".TP\n.B ");
        add_groff(buf, name.data != NULL ? name.data : "");
        s2_buf_release(&name);
        s2_buf text = {0};
        s2_buf_puts(&text, option->help);
        if (option->fallback != NULL)
            s2_buf_printf(&text, " (default: %s)", option->fallback);
        add_groff(buf, text.data != NULL ? text.data : "");
        s2_buf_release(&text);
    }
    s2_buf_puts(buf, ".TP\n.B \\-h, \\-\\-help\nPrint help, and end.\n");
}

static void add_man_examples(const char *examples, s2_buf *buf)
{
    if (examples == NULL)
        return;
    s2_buf_puts(buf, ".SH EXAMPLES\n.nf\n");
    for (const char *rest = examples; *rest != '\0';) {
        const size_t n = strcspn(rest, "\n");
        s2_buf line = {0};
        s2_buf_add(&line, rest, n);
        add_groff(buf, line.data != NULL ? line.data : "");
        s2_buf_release(&line);
        rest += n + (rest[n] == '\n');
    }
    s2_buf_puts(buf, ".fi\n");
}

static void add_man_tail(s2_buf *buf, const char *see_also)
{
    s2_buf_puts(buf, ".SH EXIT STATUS\n");
    add_groff(buf, EXIT_CODES);
    s2_buf_puts(buf, ".SH ENVIRONMENT\n.TP\n.B S2_DB\nThe database, where \\-\\-db names none.\n"
                     ".TP\n.B S2_CPU_SECONDS\nProcessor time that a command of one page (check, show, reach, "
                     "mask, diff, sim, import, export, draw, explain) may take before it ends with exit code "
                     "4; 10 by default. validate has this limit only where it is set.\n.TP\n.B "
                     "S2_MEMORY_MIB\nMemory that such a command may hold before "
                     "it ends likewise; 1000 by default, and for validate where it is set.\n.SH SEE ALSO\n");
    s2_buf_printf(buf, "%s\n", see_also);
}

static void add_man_overview(s2_buf *buf)
{
    s2_buf_printf(
        buf,
        ".TH S2 1 \"\" \"s2 %s\" \"User Commands\"\n.SH NAME\ns2 \\- prove, price, validate and export "
        "sharded sparse attention patterns\n.SH SYNOPSIS\n.B s2\n[\\-\\-db FILE] COMMAND [OPTIONS] ...\n"
        ".SH COMMANDS\n",
        s2_version());
    for (const s2_command *command = s2_command_table; command->name != NULL; command++) {
        s2_buf_printf(buf, ".TP\n.BR s2\\-%s (1)\n", command->name);
        add_groff(buf, command->summary);
    }
    add_man_tail(buf, ".BR s2check (1)");
}

void s2_help_man(const char *program, const s2_command *command, s2_buf *buf)
{
    if (command == NULL) {
        add_man_overview(buf);
        return;
    }
    const bool is_s2 = strcmp(program, "s2") == 0;
    char page[64];
    snprintf(page, sizeof page, is_s2 ? "%s\\-%s" : "%s", program, command->name);
    s2_buf_printf(buf, ".TH \"%s\" 1 \"\" \"s2 %s\" \"User Commands\"\n.SH NAME\n%s \\- ", page, s2_version(),
                  page);
    add_groff(buf, command->summary);
    s2_buf_printf(buf, ".SH SYNOPSIS\n.B %s %s\n[OPTIONS] ", program, is_s2 ? command->name : "");
    add_groff(buf, command->operands);
    if (about_of(program, command) != NULL) {
        s2_buf_puts(buf, ".SH DESCRIPTION\n");
        add_groff(buf, about_of(program, command));
    }
    add_man_options(program, command, buf);
    add_man_examples(examples_of(program, command), buf);
    add_man_tail(buf, is_s2 ? ".BR s2 (1)" : ".BR s2 (1), s2cert (1)");
}

void s2_help_man_s2cert(s2_buf *buf)
{
    s2_buf_printf(
        buf,
        ".TH S2CERT 1 \"\" \"s2 %s\" \"User Commands\"\n.SH NAME\ns2cert \\- check a certificate without the "
        "prover\n.SH SYNOPSIS\n.B s2cert\nFILE\n.SH DESCRIPTION\nFILE is what\n.B s2check "
        "\\-\\-certificate\nwrote for a pattern whose properties hold for every context length. s2cert reads "
        "it again with its own reader and its own definition of every term, and shares no code with the "
        "prover.\n.SH EXIT STATUS\n0 verified; 1 not verified; 2 called wrongly; 3 not a certificate; 4 not "
        "decided: a term that it does not know, or too much work; 5 environment.\n"
        ".SH SEE ALSO\n.BR s2check (1)\n",
        s2_version());
}

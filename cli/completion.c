#include "cli/completion.h"

#include <ctype.h>
#include <string.h>

#include "cli/explain.h"
#include "coverage/prove.h"
#include "export/registry.h"
#include "kernels/kernel.h"
#include "pattern/models.h"
#include "sim/gpu.h"

/* ---- what values may be */

static void put_words(const s2_option *option, s2_buf *buf)
{
    for (const char *at = option->arg; *at != '\0'; at += *at == '|') {
        const size_t n = strcspn(at, "|");
        s2_buf_printf(buf, " %.*s", (int)n, at);
        at += n;
    }
}

static void put_gpus(const s2_option *option, s2_buf *buf)
{
    (void)option;
    for (int32_t nth = 0; s2_gpu_name(nth) != NULL; nth++)
        s2_buf_printf(buf, " %s", s2_gpu_name(nth));
}

static void put_models(const s2_option *option, s2_buf *buf)
{
    (void)option;
    for (int32_t nth = 0; s2_model_at(nth) != NULL; nth++)
        s2_buf_printf(buf, " %s", s2_model_at(nth)->net.name);
}

/* The formats that can be read, for --from; else those that can be written. */
static void put_formats(const s2_option *option, s2_buf *buf)
{
    const bool read = strcmp(option->name, "from") == 0;
    for (int32_t n = 0; s2_format_at(n) != NULL; n++)
        if (read ? s2_format_at(n)->read != NULL : s2_format_at(n)->write != NULL)
            s2_buf_printf(buf, " %s", s2_format_at(n)->name);
}

static void put_kernels(const s2_option *option, s2_buf *buf)
{
    (void)option;
    for (int32_t at = 0; s2_kernel_at(at) != NULL; at++)
        s2_buf_printf(buf, " %s", s2_kernel_at(at)->traits->name);
}

static void put_properties(const s2_option *option, s2_buf *buf)
{
    (void)option;
    for (int property = 0; property < S2_N_PROPERTIES; property++)
        s2_buf_printf(buf, " %s", s2_property_word((s2_property)property));
}

/* Options whose values are not in the table of options; `files`: a path is accepted as well. */
static const struct kind {
    const char *name, *arg;
    void (*put)(const s2_option *option, s2_buf *buf);
    bool files;
} KINDS[] = {
    {"gpu", "NAME", put_gpus, true},
    {"model", "NAME", put_models, true},
    {"to", "NAME", put_formats, false},
    {"from", "NAME", put_formats, false},
    {"exportable", "LIST", put_formats, false},
    {"kernel", "NAME", put_kernels, true},
    {"require", "LIST", put_properties, false},
};

static const struct kind *kind_of(const s2_option *option)
{
    for (size_t nth = 0; nth < sizeof KINDS / sizeof *KINDS; nth++)
        if (option->arg != NULL && strcmp(KINDS[nth].name, option->name) == 0 &&
            strcmp(KINDS[nth].arg, option->arg) == 0)
            return &KINDS[nth];
    return NULL;
}

static bool takes_files(const s2_option *option)
{
    const struct kind *const kind = kind_of(option);
    return kind != NULL ? kind->files : option->arg != NULL && strcmp(option->arg, "FILE") == 0;
}

void s2_completion_values(const s2_option *option, s2_buf *buf)
{
    const struct kind *const kind = kind_of(option);
    if (s2_arg_is_words(option->arg))
        put_words(option, buf);
    else if (kind != NULL)
        kind->put(option, buf);
}

/* The same as a string, "" if none; the caller releases the buffer. */
static const char *values_of(const s2_option *option, s2_buf *buf)
{
    s2_completion_values(option, buf);
    s2_buf_add(buf, "", 1);
    return buf->status == S2_OK ? buf->data : "";
}

/* The words that are explained; phrases, which a shell would split, are left out. */
static void put_explained(s2_buf *buf)
{
    s2_arena arena = {0};
    const char *name = NULL, *text = NULL;
    for (int32_t nth = 0; s2_explain_word(&arena, nth, &name, &text); nth++)
        if (strpbrk(name, " :") == NULL)
            s2_buf_printf(buf, " %s", name);
    s2_arena_release(&arena);
}

/* The words of which a command's first operand is one ("check|backup FILE|..."); false if it is something else. */
static bool put_first_words(const s2_command *command, s2_buf *buf)
{
    const char *rest = command->operands;
    if (rest != NULL && strcmp(rest, "[COMMAND]") == 0) {
        for (const s2_command *each = s2_command_table; each->name != NULL; each++)
            s2_buf_printf(buf, " %s", each->name);
        return true;
    }
    if (rest != NULL && strcmp(rest, "[WORD...]") == 0) {
        put_explained(buf);
        return true;
    }
    if (rest == NULL || strchr(rest, '|') == NULL || !islower((unsigned char)rest[0]))
        return false;
    for (; *rest != '\0'; rest += *rest == '|') {
        s2_buf_printf(buf, " %.*s", (int)strcspn(rest, " |"), rest);
        rest += strcspn(rest, "|");
    }
    return true;
}

/* Leaves out characters that would end or change the shell string around the text. */
static void add_text(s2_buf *buf, const char *text, const char *left_out)
{
    for (; *text != '\0'; text++)
        if (strchr(left_out, *text) == NULL)
            s2_buf_add(buf, text, 1);
}

/* ---- bash */

static void add_bash_value(s2_buf *buf, const s2_option *option)
{
    s2_buf values = {0};
    const char *const known = values_of(option, &values);
    const char *const files = takes_files(option) ? " $(compgen -f -- \"$cur\")" : "";
    if (known[0] != '\0' || files[0] != '\0') {
        s2_buf_printf(buf, "        --%s", option->name);
        if (option->letter != '\0')
            s2_buf_printf(buf, "|-%c", option->letter);
        s2_buf_printf(buf, ") COMPREPLY=($(compgen -W \"%s\" -- \"$cur\")%s); return ;;\n",
                      known[0] != '\0' ? known + 1 : "", files);
    }
    s2_buf_release(&values);
}

static void add_bash_command(s2_buf *buf, const char *label, const char *program, const s2_command *command)
{
    s2_buf_printf(buf, "    %s)\n        case $prev in\n", label);
    for (const s2_option *option = command->options; option->name != NULL; option++)
        if (s2_option_is_known(program, option))
            add_bash_value(buf, option);
    s2_buf_puts(buf, "        esac\n        words=\"--help");
    for (const s2_option *option = command->options; option->name != NULL; option++)
        if (s2_option_is_known(program, option))
            s2_buf_printf(buf, " --%s", option->name);
    s2_buf_puts(buf, "\"");
    s2_buf words = {0};
    if (put_first_words(command, &words))
        s2_buf_printf(buf, "\n        [[ $COMP_CWORD -eq $((at + 1)) ]] && first=\"%.*s\"", (int)words.len,
                      words.data);
    s2_buf_release(&words);
    s2_buf_puts(buf, " ;;\n");
}

static void add_bash(s2_buf *buf)
{
    s2_buf_puts(buf, "# bash completion for s2 and s2check\n_s2() {\n    local cur=${COMP_WORDS[COMP_CWORD]} "
                     "prev=${COMP_WORDS[COMP_CWORD-1]} words= first= at=1\n"
                     "    [[ ${COMP_WORDS[1]} == --db && $COMP_CWORD -gt 1 ]] && at=3\n"
                     "    local command=${COMP_WORDS[at]}\n"
                     "    [[ ${COMP_WORDS[0]##*/} == s2check ]] && command=s2check at=1\n"
                     "    if [[ $COMP_CWORD -lt $at ]]; then\n"
                     "        COMPREPLY=($(compgen -f -- \"$cur\"))\n        return\n    fi\n"
                     "    if [[ $COMP_CWORD -eq $at && $command != s2check ]]; then\n"
                     "        COMPREPLY=($(compgen -W \"--help --version --db");
    for (const s2_command *command = s2_command_table; command->name != NULL; command++)
        s2_buf_printf(buf, " %s", command->name);
    s2_buf_puts(buf, "\" -- \"$cur\"))\n        return\n    fi\n    case $command in\n");
    for (const s2_command *command = s2_command_table; command->name != NULL; command++)
        add_bash_command(buf, command->name, "s2", command);
    add_bash_command(buf, "s2check", "s2check", s2_command_find("check"));
    s2_buf_puts(
        buf,
        "    esac\n    if [[ $cur == -* ]]; then\n        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
        "    elif [[ -n $first ]]; then\n        COMPREPLY=($(compgen -W \"$first\" -- \"$cur\"))\n"
        "    else\n        COMPREPLY=($(compgen -f -- \"$cur\"))\n    fi\n}\n"
        "complete -o filenames -F _s2 s2 s2check\n");
}

/* ---- zsh */

/* Inside '...' in a specification of _arguments. */
static const char ZSH_LEFT_OUT[] = "'[]:";

static void add_zsh_value(s2_buf *buf, const s2_option *option)
{
    s2_buf values = {0};
    const char *const known = values_of(option, &values);
    s2_buf_puts(buf, ":value:");
    if (known[0] != '\0' && takes_files(option))
        s2_buf_printf(buf, " _s2_or_file %s", known + 1);
    else if (known[0] != '\0')
        s2_buf_printf(buf, "(%s)", known + 1);
    else if (takes_files(option))
        s2_buf_puts(buf, "_files");
    s2_buf_release(&values);
}

static void add_zsh_option(s2_buf *buf, const s2_option *option)
{
    const char *const star = option->repeated ? "*" : "";
    s2_buf_puts(buf, " \\\n        ");
    if (option->letter != '\0' && !option->repeated)
        s2_buf_printf(buf, "'(-%c --%s)'{-%c,--%s}'[", option->letter, option->name, option->letter,
                      option->name);
    else
        s2_buf_printf(buf, "'%s--%s[", star, option->name);
    add_text(buf, option->help, ZSH_LEFT_OUT);
    s2_buf_puts(buf, "]");
    if (option->arg != NULL)
        add_zsh_value(buf, option);
    s2_buf_puts(buf, "'");
}

static void add_zsh_command(s2_buf *buf, const char *label, const char *program, const s2_command *command)
{
    s2_buf_printf(buf, "    %s) _arguments '--help[print help]'", label);
    for (const s2_option *option = command->options; option->name != NULL; option++)
        if (s2_option_is_known(program, option))
            add_zsh_option(buf, option);
    s2_buf words = {0};
    if (put_first_words(command, &words))
        s2_buf_printf(buf, " \\\n        '1:what:(%.*s )'", (int)words.len, words.data);
    s2_buf_release(&words);
    s2_buf_puts(buf, " \\\n        '*:file:_files' ;;\n");
}

static void add_zsh(s2_buf *buf)
{
    s2_buf_puts(buf,
                "#compdef s2 s2check\n_s2_or_file() { _alternative \"names:name:($*)\" files:file:_files }\n"
                "_s2() {\n    local command=$words[2]\n"
                "    [[ ${words[1]:t} == s2check ]] && command=s2check\n"
                "    if (( CURRENT == 2 )) && [[ $command != s2check ]]; then\n        local -a commands=(");
    for (const s2_command *command = s2_command_table; command->name != NULL; command++) {
        s2_buf_printf(buf, "\n            '%s:", command->name);
        add_text(buf, command->summary, ZSH_LEFT_OUT);
        s2_buf_puts(buf, "'");
    }
    s2_buf_puts(buf,
                ")\n        _describe command commands\n        return\n    fi\n"
                "    [[ $command != s2check ]] && shift words && (( CURRENT-- ))\n    case $command in\n");
    for (const s2_command *command = s2_command_table; command->name != NULL; command++)
        add_zsh_command(buf, command->name, "s2", command);
    add_zsh_command(buf, "s2check", "s2check", s2_command_find("check"));
    s2_buf_puts(buf, "    esac\n}\ncompdef _s2 s2 s2check\n");
}

/* ---- fish */

/* Inside "...". */
static const char FISH_LEFT_OUT[] = "\"$\\";

static void add_fish_value(s2_buf *buf, const s2_option *option)
{
    s2_buf values = {0};
    const char *const known = values_of(option, &values);
    s2_buf_puts(buf, takes_files(option) ? " -r -F" : " -x");
    if (known[0] != '\0')
        s2_buf_printf(buf, " -a \"%s\"", known + 1);
    s2_buf_release(&values);
}

static void add_fish_command(s2_buf *buf, const char *when, const char *program, const s2_command *command)
{
    for (const s2_option *option = command->options; option->name != NULL; option++) {
        if (!s2_option_is_known(program, option))
            continue;
        s2_buf_printf(buf, "complete -c %s %s -l %s", program, when, option->name);
        if (option->letter != '\0')
            s2_buf_printf(buf, " -s %c", option->letter);
        if (option->arg != NULL)
            add_fish_value(buf, option);
        s2_buf_puts(buf, " -d \"");
        add_text(buf, option->help, FISH_LEFT_OUT);
        s2_buf_puts(buf, "\"\n");
    }
}

static void add_fish(s2_buf *buf)
{
    s2_buf_puts(buf, "# fish completion for s2 and s2check\n");
    for (const s2_command *command = s2_command_table; command->name != NULL; command++) {
        char when[96];
        s2_buf_printf(buf, "complete -c s2 -n __fish_use_subcommand -a %s -d \"", command->name);
        add_text(buf, command->summary, FISH_LEFT_OUT);
        s2_buf_puts(buf, "\"\n");
        snprintf(when, sizeof when, "-n \"__fish_seen_subcommand_from %s\"", command->name);
        add_fish_command(buf, when, "s2", command);
        s2_buf words = {0};
        if (put_first_words(command, &words))
            s2_buf_printf(buf, "complete -c s2 %s -f -a \"%.*s\"\n", when, (int)words.len, words.data);
        s2_buf_release(&words);
    }
    add_fish_command(buf, "", "s2check", s2_command_find("check"));
}

void s2_completion_print(const char *shell, s2_buf *buf)
{
    if (strcmp(shell, "fish") == 0)
        add_fish(buf);
    else if (strcmp(shell, "zsh") == 0)
        add_zsh(buf);
    else
        add_bash(buf);
}

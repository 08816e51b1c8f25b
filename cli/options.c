#include "cli/options.h"

#include <stdlib.h>
#include <string.h>

const s2_command *s2_command_find(const char *name)
{
    for (const s2_command *command = s2_command_table; command->name != NULL; command++)
        if (strcmp(command->name, name) == 0)
            return command;
    return NULL;
}

bool s2_option_is_known(const char *program, const s2_option *option)
{
    return !option->s2_only || strcmp(program, "s2") == 0;
}

bool s2_arg_is_words(const char *arg)
{
    return arg != NULL && strchr(arg, '|') != NULL &&
           arg[strspn(arg, "abcdefghijklmnopqrstuvwxyz0123456789|-_")] == '\0';
}

bool s2_word_in(const char *words, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = words; n > 0 && at != NULL; at = strchr(at, '|')) {
        at += *at == '|';
        if (strncmp(at, word, n) == 0 && (at[n] == '|' || at[n] == '\0'))
            return true;
    }
    return false;
}

bool s2_number_parse(const char *text, int64_t *out)
{
    const size_t n_digits = strspn(text, "0123456789");
    const char *const suffix = text + n_digits;
    if (n_digits == 0 || n_digits > 16)
        return false;
    int64_t factor = 1;
    if (strcmp(suffix, "k") == 0 || strcmp(suffix, "K") == 0)
        factor = 1 << 10;
    else if (strcmp(suffix, "m") == 0 || strcmp(suffix, "M") == 0)
        factor = 1 << 20;
    else if (*suffix != '\0')
        return false;
    const int64_t value = strtoll(text, NULL, 10);
    if (value > (INT64_C(1) << 53) / factor)
        return false;
    *out = value * factor;
    return true;
}

int s2_word_index(const char *word, const char *(*name)(int), int n)
{
    for (int at = 0; at < n; at++)
        if (strcmp(word, name(at)) == 0)
            return at;
    return 0;
}

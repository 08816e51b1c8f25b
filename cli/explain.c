#include "cli/explain.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/options.h"
#include "cli/words.h"

#include "pattern/codes.h"
#include "pattern/words.h"

/* A property: its definition, an example that violates it, and the usual repair. */
typedef struct property {
    const char *name;
    const char *summary;
    const char *text;
} property;

static const property PROPERTIES[] = {
    {"rows", "every query reads at least one key",
     "A row without a key has nothing to attend: its output is defined as 0 and its log-sum-exp as -inf, "
     "which is rarely intended.\n"
     "Violated by: heads 1; layers all: sink 4 when distance 8..\n"
     "Repair: a `local 1` term, so that a query reads its own block."},
    {"union", "in every layer, every query sees every key up to it through some head",
     "For every query q and key k <= q some head of the layer reads k from q: no information is lost, "
     "however long the context.\n"
     "Violated by: heads 8; layers all: local 16 | stride 16 phase head (8 of 16 phases have a head)\n"
     "Repair: as many phases as the stride has, or one dense head."},
    {"kv", "once a head stops reading a key, it never reads it again",
     "Only then may its entry in the KV cache be freed the first time it goes unread. In blocks: for j <= i "
     "- 1, reads(i, j) implies reads(i - 1, j).\n"
     "Violated by: heads 1; layers all: local 4 | stride 8 when distance 16..\n"
     "Repair: let restrictions on the distance begin where the terms beside them end, and prefer `stride` "
     "(fixed keys) to `dilated` (keys that move with the query)."},
    {"group", "the query heads of a KV head share one pattern",
     "Otherwise the cache of a KV head must hold the union of what its query heads read, and nothing is "
     "saved by each head reading less.\n"
     "Repair: write phases with `kv` instead of `head`."},
    {"shards", "each far block is read by exactly one KV head",
     "Perfect sharding: outside the window that every head reads, the KV heads divide the context among them "
     "without overlap and without gap."},
    {"ranks", "ranks:N - each of N tensor-parallel ranks of heads is union-complete by itself",
     "The heads of the layer are split into N consecutive, equal parts, as tensor parallelism does (--tp N "
     "of "
     "s2 sim, search and export), and each part must satisfy `union`."},
    {"depth", "depth:D - every key reaches every later query within D layers",
     "Information may take several hops: a query reads a token that in an earlier layer has read the key. "
     "Counted over any D consecutive layers."},
};

/* A word of the language: how it is written, and which keys it reads. */
typedef struct term {
    const char *name;
    const char *form;
    const char *text;
} term;

static const term TERMS[] = {
#define TERM_HELP(kind, word, args, scale, nature, in_certificate, number, form, help) {word, form, help},
    S2_TERM_TABLE(TERM_HELP)
#undef TERM_HELP
        {"phase", "... phase kv*2+1", "a sum of numbers, head, kv and layer: so heads read different blocks"},
    {"when", "TERM when distance A..B & key A..B & query A..B",
     "the term holds only there; ranges are half-open"},
};

/* Refusals of files that are not patterns; those of patterns are in pattern/codes.h. */
static const struct {
    int32_t code;
    const char *text;
} FILE_CODES[] = {
    {400,
     "A file of another stack is damaged, of no known format, or asks for what the language cannot say."},
    {700, "A GPU's file (--gpu FILE) has an unknown key, a number out of range, or one without a source."},
    {703, "A file of measurements (--rows, --from) has a row that cannot be read."},
    {705, "A file of constants (--constants) is damaged, or its hash is not that of its text."},
    {707, "A kernel model (--kernel-model FILE) is damaged, or its hash is not that of its text."},
    {708, "A table of another kernel's times (--from) has a row that is not of its form, or that no kernel "
          "can reach."},
    {709, "A file of requests (--requests) has a line that is not of its form: columns prompt and output, "
          "whole numbers of tokens, and arrival, seconds."},
};

enum {
    N_PROPERTIES = sizeof PROPERTIES / sizeof PROPERTIES[0],
    N_TERMS = sizeof TERMS / sizeof TERMS[0],
    LIST_COLUMNS = 96,
    N_FILE_CODES = sizeof FILE_CODES / sizeof FILE_CODES[0]
};

/* Print what several commands default to, from the table of commands. */
static void print_lengths(s2_cli *cli)
{
    fputs("Without --len:", cli->out);
    for (const s2_command *command = s2_command_table; command->name != NULL; command++)
        for (const s2_option *option = command->options; option->name != NULL; option++)
            if (strcmp(option->name, "len") == 0 && option->fallback != NULL)
                fprintf(cli->out, " %s %s;", command->name, option->fallback);
    fputs(" or where mask files end.\n", cli->out);
}

/* `rows` is a property and a term, `phase` a term and a column: print every meaning. */
static bool print_word(s2_cli *cli, const char *what)
{
    const size_t n = strcspn(what, ":");
    bool found = false;
    for (int nth = 0; nth < N_PROPERTIES; nth++)
        if (strlen(PROPERTIES[nth].name) == n && strncasecmp(PROPERTIES[nth].name, what, n) == 0) {
            fprintf(cli->out, "%s: %s\n\n%s\n", PROPERTIES[nth].name, PROPERTIES[nth].summary,
                    PROPERTIES[nth].text);
            found = true;
        }
    for (int i = 0; i < N_TERMS; i++)
        if (strcasecmp(TERMS[i].name, what) == 0) {
            fprintf(cli->out, "%s%s\n  %s\n", found ? "\n" : "", TERMS[i].form, TERMS[i].text);
            found = true;
        }
    const s2_word_entry *const entry = s2_word_find(what);
    if (entry != NULL) {
        fprintf(cli->out, "%s%.*s: %s\n", found ? "\n" : "", (int)strcspn(entry->words, "|"), entry->words,
                entry->text);
        if (entry == s2_word_find("len"))
            print_lengths(cli);
        found = true;
    }
    return found;
}

/* Set `out` to the nearest known word; false if none is near. */
static bool nearest_word(const char *what, char *out, size_t cap)
{
    enum { NEAR = 2 };
    int32_t least = NEAR + 1;
    char lower[64];
    size_t n = 0;
    for (; what[n] != '\0' && n + 1 < sizeof lower; n++)
        lower[n] = (char)tolower((unsigned char)what[n]);
    for (int nth = 0; nth < N_PROPERTIES + N_TERMS; nth++) {
        const char *const known = nth < N_PROPERTIES ? PROPERTIES[nth].name : TERMS[nth - N_PROPERTIES].name;
        const int32_t distance = s2_text_distance(lower, n, known, least);
        if (distance < least) {
            least = distance;
            snprintf(out, cap, "%s", known);
        }
    }
    for (const s2_word_entry *entry = s2_word_entries; entry->words != NULL; entry++)
        for (const char *rest = entry->words; *rest != '\0'; rest += *rest == '|') {
            char known[64];
            snprintf(known, sizeof known, "%.*s", (int)strcspn(rest, "|"), rest);
            const int32_t distance = s2_text_distance(lower, n, known, least);
            if (distance < least) {
                least = distance;
                snprintf(out, cap, "%s", known);
            }
            rest += strcspn(rest, "|");
        }
    return least <= NEAR;
}

bool s2_explain_word(s2_arena *arena, int32_t nth, const char **name, const char **text)
{
    s2_buf buf = {0};
    if (nth < N_PROPERTIES) {
        *name = PROPERTIES[nth].name;
        *text = PROPERTIES[nth].summary;
        return true;
    }
    nth -= N_PROPERTIES;
    if (nth < N_TERMS) {
        *name = TERMS[nth].name;
        s2_buf_printf(&buf, "%s: %s", TERMS[nth].form, TERMS[nth].text);
        *text = buf.status == S2_OK ? s2_arena_strndup(arena, buf.data, buf.len) : NULL;
        s2_buf_release(&buf);
        return *text != NULL;
    }
    const s2_word_entry *entry = s2_word_entries;
    for (nth -= N_TERMS; nth > 0 && entry->words != NULL; nth--)
        entry++;
    *name = s2_arena_strndup(arena, entry->words != NULL ? entry->words : "",
                             entry->words != NULL ? strcspn(entry->words, "|") : 0);
    *text = entry->text;
    return entry->words != NULL && *name != NULL;
}

static const char *code_text(int32_t code)
{
    for (int at = 0; at < N_FILE_CODES; at++)
        if (FILE_CODES[at].code == code)
            return FILE_CODES[at].text;
    return code >= 0 ? s2_code_explain(code) : NULL;
}

/* "S2P012", "s2p12", "12": the number; -1 for anything else. */
static int32_t code_of(const char *text)
{
    if (strncmp(text, "S2P", 3) == 0 || strncmp(text, "s2p", 3) == 0)
        text += 3;
    const size_t n = strlen(text);
    if (n == 0 || n > 4 || strspn(text, "0123456789") != n)
        return -1;
    return (int32_t)strtol(text, NULL, 10);
}

s2_exit s2_explain_print(s2_cli *cli, const char *what)
{
    if (print_word(cli, what))
        return S2_EXIT_OK;
    const int32_t code = code_of(what);
    const char *const text = code_text(code);
    if (text == NULL) {
        char near[64];
        if (nearest_word(what, near, sizeof near))
            s2_cli_error(cli, "%s: not explained; did you mean %s?", what, near);
        else
            s2_cli_error(cli, "%s: not a property, term, label, column or code; s2 explain lists them", what);
        return S2_EXIT_USAGE;
    }
    fprintf(cli->out, "S2P%03d: %s\n", (int)code, text);
    return S2_EXIT_OK;
}

s2_exit s2_explain_list(s2_cli *cli)
{
    fputs("properties that s2 check decides\n", cli->out);
    for (int at = 0; at < N_PROPERTIES; at++)
        fprintf(cli->out, "  %-7s %s\n", PROPERTIES[at].name, PROPERTIES[at].summary);
    fputs("\nterms of a pattern: what a head reads; numbers are blocks, with t tokens\n", cli->out);
    for (int at = 0; at < N_TERMS; at++)
        fprintf(cli->out, "  %-7s %s\n", TERMS[at].name, TERMS[at].text);
    fputs("\nwords of pages, tables and screens\n ", cli->out);
    int col = 1;
    for (const s2_word_entry *entry = s2_word_entries; entry->words != NULL; entry++) {
        const int n = (int)strcspn(entry->words, "|");
        if (col + n + 2 > LIST_COLUMNS)
            col = fprintf(cli->out, "\n ") - 1;
        col += fprintf(cli->out, " %.*s%s", n, entry->words, entry[1].words != NULL ? "," : "\n");
    }
    fputs("\ncodes of refusals\n", cli->out);
    for (int32_t nth = 0; nth < S2_N_CODES; nth++)
        fprintf(cli->out, "  S2P%03d  %s\n", (int)s2_code_at(nth), s2_code_explain(s2_code_at(nth)));
    for (int at = 0; at < N_FILE_CODES; at++)
        fprintf(cli->out, "  S2P%03d  %s\n", (int)FILE_CODES[at].code, FILE_CODES[at].text);
    return S2_EXIT_OK;
}

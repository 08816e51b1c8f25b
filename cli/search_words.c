#include "cli/search_words.h"

#include <ctype.h>
#include <string.h>
#include <unistd.h>

#include "cli/options.h"
#include "export/registry.h"
#include "sim/gpu.h"
#include "sim/net.h"

enum { PHRASE = 64 };

bool s2_search_words_are(const char *text)
{
    return strpbrk(text, ":;{}\n") == NULL;
}

/* The phrase in lower case with single blanks; false if it is empty or too long. */
static bool copy_phrase(const char *from, size_t n, char out[PHRASE])
{
    size_t at = 0;
    for (size_t byte = 0; byte < n; byte++) {
        const char c = from[byte] == '\t' ? ' ' : (char)tolower((unsigned char)from[byte]);
        if (c == ' ' && (at == 0 || out[at - 1] == ' '))
            continue;
        if (at + 1 >= PHRASE)
            return false;
        out[at++] = c;
    }
    at -= at > 0 && out[at - 1] == ' ';
    out[at] = '\0';
    return at > 0;
}

typedef struct count {
    const char *names;
    int64_t *to;
} count;

enum { N_COUNTS = 7 };

/* Where the number of such things is stored; NULL if unknown. A bare number is a length in tokens. */
static int64_t *counted(s2_search_words *words, const char *what)
{
    const count known[N_COUNTS] = {{"gpus|gpu|ranks|tp", &words->n_ranks},
                                   {"heads|head|query heads|query head|q heads", &words->n_heads},
                                   {"kv heads|kv head|kv-heads|kv-head", &words->n_kv_heads},
                                   {"layers|layer", &words->n_layers},
                                   {"head-dim|head dim|head dimension", &words->head_dim},
                                   {"tokens|token|context|tokens of context", &words->len_tok},
                                   {"batch|sequences|sequence", &words->batch}};
    for (int k = 0; k < N_COUNTS; k++)
        if (s2_word_in(known[k].names, what[0] != '\0' ? what : "tokens"))
            return known[k].to;
    return NULL;
}

static bool take_count(s2_search_words *words, int64_t n, const char *what)
{
    int64_t *const to = counted(words, what);
    if (to == NULL || *to != 0 || n <= 0)
        return false;
    *to = n;
    return true;
}

static bool take_phase(s2_cli *cli, s2_search_words *words, const char *phrase)
{
    if (!s2_word_in("prefill|decode|train", phrase))
        return false;
    s2_buf list = {0};
    s2_buf_printf(&list, "%s%s%s", words->phases != NULL ? words->phases : "",
                  words->phases != NULL ? "," : "", phrase);
    words->phases = list.status == S2_OK ? s2_arena_strndup(&cli->arena, list.data, list.len) : NULL;
    s2_buf_release(&list);
    return words->phases != NULL;
}

/* Where the name of a GPU, a model or a format that s2 writes is stored; NULL if it is no such name. */
static const char **named(s2_search_words *words, const char *phrase)
{
    s2_gpu gpu;
    s2_net net;
    const s2_format *const format = s2_format_find(phrase);
    if (s2_gpu_find(phrase, &gpu, NULL) == S2_OK)
        return &words->gpu;
    if (s2_net_find(phrase, &net, NULL) == S2_OK)
        return &words->model;
    return format != NULL && format->write != NULL ? &words->format : NULL;
}

static bool take_name(s2_cli *cli, s2_search_words *words, const char *phrase)
{
    const char **const to = named(words, phrase);
    if (to == NULL || *to != NULL)
        return false;
    *to = s2_arena_strndup(&cli->arena, phrase, strlen(phrase));
    return *to != NULL;
}

/* "4 heads", "4 x h100", "4xh100": the number, and what is counted; false where no number comes first. */
static bool split_count(const char *phrase, int64_t *n, const char **what)
{
    char number[PHRASE];
    const size_t word = strcspn(phrase, " "), digits = strspn(phrase, "0123456789");
    const bool joined = digits > 0 && digits < word && strchr("x*", phrase[digits]) != NULL;
    const size_t n_bytes = joined ? digits : word;
    memcpy(number, phrase, n_bytes);
    number[n_bytes] = '\0';
    phrase += n_bytes + (phrase[n_bytes] == ' ');
    if (!s2_number_parse(number, n))
        return false;
    if (joined || strncmp(phrase, "x ", 2) == 0)
        phrase++;
    *what = phrase + strspn(phrase, " ");
    return true;
}

/* A number of GPUs of one kind. */
static bool take_several(s2_cli *cli, s2_search_words *words, int64_t n, const char *what)
{
    s2_gpu gpu;
    return s2_gpu_find(what, &gpu, NULL) == S2_OK && take_count(words, n, "gpus") &&
           take_name(cli, words, what);
}

/* "batch 4", "tp 8": the number follows what it counts. */
static bool split_named_count(const char *phrase, char what[PHRASE], int64_t *n)
{
    const size_t n_bytes = strcspn(phrase, " ");
    memcpy(what, phrase, n_bytes);
    what[n_bytes] = '\0';
    return s2_word_in("batch|tp", what) && phrase[n_bytes] == ' ' && s2_number_parse(phrase + n_bytes + 1, n);
}

/* The first built-in GPU in whose name the digits stand alone; NULL: none. */
static const char *gpu_numbered(const char *digits)
{
    const size_t n = strlen(digits);
    const char *name;
    for (int32_t index = 0; (name = s2_gpu_name(index)) != NULL; index++)
        for (const char *at = name; *at != '\0';) {
            const size_t run = strspn(at, "0123456789");
            if (run == n && memcmp(at, digits, n) == 0)
                return name;
            at += run > 0 ? run : 1;
        }
    return NULL;
}

/* A number without a unit is a length, unless people call a GPU so or no context is that short. */
static bool is_doubtful(const char *phrase)
{
    enum { LEAST_TOK = 256 };
    int64_t n;
    return phrase[strspn(phrase, "0123456789")] == '\0' && s2_number_parse(phrase, &n) && n > 0 &&
           (n < LEAST_TOK || gpu_numbered(phrase) != NULL ||
            s2_word_in("300|800|900|1080|2080|3080|3090|4080|5080|5090|6000", phrase));
}

static bool take_phrase(s2_cli *cli, s2_search_words *words, const char *phrase)
{
    if (is_doubtful(phrase))
        return false;
    char word[PHRASE];
    const char *what;
    int64_t n;
    if (split_named_count(phrase, word, &n))
        return take_count(words, n, word);
    if (split_count(phrase, &n, &what))
        return take_count(words, n, what) || take_several(cli, words, n, what);
    return take_phase(cli, words, phrase) || take_name(cli, words, phrase);
}

/* A model's own config, by its path as written. */
static s2_exit take_file(s2_cli *cli, s2_search_words *words, const char *at, size_t n, bool *taken)
{
    while (n > 0 && (at[n - 1] == ' ' || at[n - 1] == '\t'))
        n--;
    const char *const path = s2_arena_strndup(&cli->arena, at, n);
    if (path == NULL)
        return s2_cli_fail(cli, S2_ENOMEM, "words");
    *taken = words->model == NULL && access(path, F_OK) == 0;
    if (*taken)
        words->model = path;
    const bool meant = n > 5 && strcmp(path + n - 5, ".json") == 0;
    if (*taken || !meant)
        return S2_EXIT_OK;
    s2_cli_error(cli, words->model != NULL ? "%s: a model is named already" : "%s: no such file", path);
    return words->model != NULL ? S2_EXIT_USAGE : S2_EXIT_REFUSED;
}

/* What the phrase may have meant: a GPU, a model or a format, whichever name is nearest. */
static void hint_nearest(s2_cli *cli, const char *name)
{
    char gpus[100] = "";
    int32_t of_model, of_format;
    const int32_t of_gpu = s2_gpu_nearest(name, gpus, sizeof gpus);
    const char *const model = s2_net_nearest(name, &of_model);
    const s2_format *const format = s2_format_nearest(name, &of_format);
    const int32_t least = of_gpu < of_model ? of_gpu : of_model;
    if (of_format < least)
        s2_cli_hint(cli, "did you mean the format %s?", format->name);
    else if (least == S2_NAME_FAR)
        s2_cli_hint(
            cli, "as in '32 heads, 8 KV heads, H200, 128k, decode, batch 32'; a model's own config.json is "
                 "taken too, GPUs and models stand in s2 sim --list, formats in s2 export --list");
    else if (of_gpu == least)
        s2_cli_hint(cli, "did you mean the GPU %s?", gpus);
    else
        s2_cli_hint(
            cli, "did you mean the model %s? s2 sim --list shows all; a model's own config.json is taken too",
            model);
}

/* Why a known phrase cannot be accepted: a count of zero, or a second value. NULL: the phrase is unknown. */
static const char *fault_of(s2_search_words *words, const char *phrase)
{
    char word[PHRASE];
    const char *what = phrase;
    int64_t n = 1;
    const bool counts = split_named_count(phrase, word, &n) || split_count(phrase, &n, &what);
    const int64_t *const number = counts ? counted(words, what == phrase ? word : what) : NULL;
    const char **const name = named(words, what);
    if (number == NULL && name == NULL)
        return counts && n <= 0 ? "a number here is at least 1" : NULL;
    if (n <= 0)
        return "a number here is at least 1";
    if (number != NULL ? *number != 0 : *name != NULL || (counts && words->n_ranks != 0))
        return number == &words->len_tok ? "a context length is given already"
                                         : "it says again what another phrase says";
    return NULL;
}

static s2_exit refuse(s2_cli *cli, s2_search_words *words, const char *at, size_t n)
{
    char phrase[PHRASE] = "";
    const char *what = phrase, *fault = NULL;
    int64_t n_said;
    if (copy_phrase(at, n, phrase))
        fault = fault_of(words, phrase);
    if (is_doubtful(phrase)) {
        const char *const gpu = gpu_numbered(phrase);
        s2_cli_error(cli, "'%s' may be a GPU or a context length: write %s%s, or '%s tokens'", phrase,
                     gpu != NULL ? "the GPU as " : "the GPU's whole name", gpu != NULL ? gpu : "", phrase);
        return S2_EXIT_USAGE;
    }
    if (fault != NULL) {
        s2_cli_error(cli, "'%.*s': %s", (int)n, at, fault);
        return S2_EXIT_USAGE;
    }
    s2_cli_error(cli,
                 "'%.*s' is not a search space or a known phrase; expected N heads, N KV heads, N layers, N "
                 "head-dim, a context length, batch N, N GPUs, prefill, decode, train, a GPU, a model, a "
                 "format",
                 (int)(n < 60 ? n : 60), at);
    (void)split_count(phrase, &n_said, &what);
    if (phrase[0] != '\0')
        hint_nearest(cli, what);
    return S2_EXIT_USAGE;
}

s2_exit s2_search_words_read(s2_cli *cli, const char *text, s2_search_words *out)
{
    *out = (s2_search_words){0};
    for (const char *at = text;; at++) {
        at += strspn(at, " \t");
        const size_t n = strcspn(at, ",");
        char phrase[PHRASE];
        bool taken = copy_phrase(at, n, phrase) && take_phrase(cli, out, phrase);
        if (!taken)
            S2_CLI_TRY(take_file(cli, out, at, n, &taken));
        if (!taken)
            return refuse(cli, out, at, n);
        at += n;
        if (*at == '\0')
            return S2_EXIT_OK;
    }
}

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

/* The phrase in lower case, blanks and dashes as single blanks; false when it is too long. */
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

static bool take_count(s2_search_words *words, int64_t n, const char *what)
{
    const struct {
        const char *names;
        int64_t *to;
    } known[] = {{"gpus|gpu|ranks|tp", &words->n_ranks},
                 {"heads|head|query heads|query head|q heads", &words->n_heads},
                 {"kv heads|kv head|kv-heads|kv-head", &words->n_kv_heads},
                 {"layers|layer", &words->n_layers},
                 {"head-dim|head dim|head dimension", &words->head_dim},
                 {"tokens|token|context|tokens of context", &words->len_tok},
                 {"batch|sequences|sequence", &words->batch}};
    if (what[0] == '\0')
        what = "tokens";
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
        if (s2_word_in(known[k].names, what) && *known[k].to == 0 && n > 0) {
            *known[k].to = n;
            return true;
        }
    return false;
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

static bool take_name(s2_cli *cli, s2_search_words *words, const char *phrase)
{
    s2_gpu gpu;
    s2_net net;
    const s2_format *const format = s2_format_find(phrase);
    const char **const to = s2_gpu_find(phrase, &gpu, NULL) == S2_OK   ? &words->gpu
                            : s2_net_find(phrase, &net, NULL) == S2_OK ? &words->model
                            : format != NULL && format->write != NULL  ? &words->format
                                                                       : NULL;
    if (to == NULL || *to != NULL)
        return false;
    *to = s2_arena_strndup(&cli->arena, phrase, strlen(phrase));
    return *to != NULL;
}

/* "4 h100-sxm", "4 x h100-sxm": so many of a GPU. */
static bool take_several(s2_cli *cli, s2_search_words *words, int64_t n, const char *what)
{
    s2_gpu gpu;
    if (strncmp(what, "x ", 2) == 0)
        what += 2;
    return s2_gpu_find(what, &gpu, NULL) == S2_OK && take_count(words, n, "gpus") &&
           take_name(cli, words, what);
}

static bool take_phrase(s2_cli *cli, s2_search_words *words, const char *phrase)
{
    char number[PHRASE];
    int64_t n;
    const size_t n_bytes = strcspn(phrase, " ");
    memcpy(number, phrase, n_bytes);
    number[n_bytes] = '\0';
    const char *const rest = phrase + n_bytes + (phrase[n_bytes] == ' ');
    if (s2_word_in("batch|tp", number))
        return s2_number_parse(rest, &n) && take_count(words, n, number);
    if (s2_number_parse(number, &n))
        return take_count(words, n, rest) || take_several(cli, words, n, rest);
    return take_phase(cli, words, phrase) || take_name(cli, words, phrase);
}

/* A model's own config, by a path as it was written. */
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
static void hint_nearest(s2_cli *cli, const char *at, size_t n)
{
    enum { NEAR = 3 };
    char phrase[PHRASE], gpus[100] = "";
    if (!copy_phrase(at, n, phrase))
        return;
    int32_t of_model, of_format;
    const int32_t of_gpu = s2_gpu_nearest(phrase, gpus, sizeof gpus);
    const char *const model = s2_net_nearest(phrase, &of_model);
    const s2_format *const format = s2_format_nearest(phrase, &of_format);
    const int32_t least = of_gpu < of_model ? of_gpu : of_model;
    if (of_format < least && of_format <= NEAR)
        s2_cli_hint(cli, "did you mean the format %s?", format->name);
    else if (of_gpu == least && least <= NEAR)
        s2_cli_hint(cli, "did you mean the GPU %s?", gpus);
    else if (least <= NEAR)
        s2_cli_hint(
            cli, "did you mean the model %s? s2 sim --list shows all; a model's own config.json is taken too",
            model);
    else
        s2_cli_hint(
            cli, "as in '32 heads, 8 KV heads, H200, 128k, decode, batch 32'; a model's own config.json is "
                 "taken too, GPUs and models stand in s2 sim --list, formats in s2 export --list");
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
        if (!taken) {
            s2_cli_error(
                cli,
                "'%.*s' is not a search space or a known phrase; expected N heads, N KV heads, N layers, N "
                "head-dim, a context length, batch N, N GPUs, prefill, decode, train, a GPU, a model, a "
                "format",
                (int)(n < 60 ? n : 60), at);
            hint_nearest(cli, at, n);
            return S2_EXIT_USAGE;
        }
        at += n;
        if (*at == '\0')
            return S2_EXIT_OK;
    }
}

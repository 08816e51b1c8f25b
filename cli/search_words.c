#include "cli/search_words.h"

#include <ctype.h>
#include <string.h>

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
    } known[] = {{"heads|head|query heads|query head|q heads", &words->n_heads},
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

static bool take_phrase(s2_cli *cli, s2_search_words *words, const char *phrase)
{
    char number[PHRASE];
    int64_t n;
    if (strncmp(phrase, "batch ", 6) == 0)
        return s2_number_parse(phrase + 6, &n) && take_count(words, n, "batch");
    const size_t n_bytes = strcspn(phrase, " ");
    memcpy(number, phrase, n_bytes);
    number[n_bytes] = '\0';
    if (s2_number_parse(number, &n))
        return take_count(words, n, phrase + n_bytes + (phrase[n_bytes] == ' '));
    return take_phase(cli, words, phrase) || take_name(cli, words, phrase);
}

s2_exit s2_search_words_read(s2_cli *cli, const char *text, s2_search_words *out)
{
    *out = (s2_search_words){0};
    for (const char *at = text;; at++) {
        at += strspn(at, " \t");
        const size_t n = strcspn(at, ",");
        char phrase[PHRASE];
        if (!copy_phrase(at, n, phrase) || !take_phrase(cli, out, phrase)) {
            s2_cli_error(
                cli,
                "'%.*s' is not a search space or a known phrase; expected N heads, N KV heads, N layers, N "
                "head-dim, a context length, batch N, prefill, decode, train, a GPU, a model, a format",
                (int)(n < 60 ? n : 60), at);
            s2_cli_hint(cli, "as in '32 heads, 8 KV heads, H200, 128k, decode, batch 32'");
            return S2_EXIT_USAGE;
        }
        at += n;
        if (*at == '\0')
            return S2_EXIT_OK;
    }
}

#include "cli/search_words.h"

#include <ctype.h>
#include <string.h>
#include <unistd.h>

#include "base/arith.h"
#include "cli/options.h"
#include "export/registry.h"
#include "sim/gpu.h"
#include "sim/net.h"

enum { PHRASE = 64 };

bool s2_search_words_are(const char *text)
{
    return strpbrk(text, ":;{}\n") == NULL;
}

/* The phrase in lower case with single blanks, "=" as one; false if it is empty or too long. */
static bool copy_phrase(const char *from, size_t n, char out[PHRASE])
{
    size_t n_out = 0;
    for (size_t byte = 0; byte < n; byte++) {
        const char c = strchr("\t=", from[byte]) != NULL ? ' ' : (char)tolower((unsigned char)from[byte]);
        if (c == ' ' && (n_out == 0 || out[n_out - 1] == ' '))
            continue;
        if (n_out + 1 >= PHRASE)
            return false;
        out[n_out++] = c;
    }
    n_out -= n_out > 0 && out[n_out - 1] == ' ';
    out[n_out] = '\0';
    return n_out > 0;
}

/* What a phrase says: a count, a name, or a number of GPUs of one kind, which is both. */
typedef struct meaning {
    int64_t *count;
    int64_t n;
    const char **name;
    char value[PHRASE];
} meaning;

typedef struct count {
    const char *names;
    int64_t *to;
} count;

enum { N_COUNTS = 12 };

/* Both are phrases, which are shorter than PHRASE. */
static void copy_word(char out[PHRASE], const char *from, size_t n)
{
    memcpy(out, from, n);
    out[n] = '\0';
}

/* Where the number of such things is stored; NULL if unknown. A bare number is a length in tokens. */
static int64_t *counted(s2_search_words *words, const char *what)
{
    const count known[N_COUNTS] = {{"gpus|gpu|ranks|tp|tensor parallel|tensor-parallel", &words->n_ranks},
                                   {"heads|head|query heads|query head|q heads", &words->n_heads},
                                   {"kv heads|kv head|kv-heads|kv-head", &words->n_kv_heads},
                                   {"layers|layer", &words->n_layers},
                                   {"head-dim|head dim|head dimension", &words->head_dim},
                                   {"tokens|token|context|ctx|context length|len|length|seq|seqlen|seq "
                                    "len|sequence length|tokens of context|token context|max-model-len",
                                    &words->len_tok},
                                   {"batch|batch size|batch-size|bs|b|sequences|sequence", &words->batch},
                                   {"pp|stages|stage|pipeline parallel|pipeline-parallel", &words->n_stages},
                                   {"cp|context parallel|context-parallel", &words->n_context},
                                   {"ep|expert parallel|expert-parallel", &words->n_expert_ranks},
                                   {"nodes|node", &words->n_nodes},
                                   {"dp|data parallel|data-parallel", &words->n_shards}};
    for (int k = 0; k < N_COUNTS; k++)
        if (s2_word_in(known[k].names, what[0] != '\0' ? what : "tokens"))
            return known[k].to;
    return NULL;
}

/* Where the name of a GPU, a model or a format that s2 writes is stored; NULL if it is not one. */
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

/* "4 heads", "4 x h100", "4xh100": the number, and what is counted; false where no number comes first. */
static bool split_count(const char *phrase, int64_t *n, char what[PHRASE])
{
    char number[PHRASE];
    const size_t word = strcspn(phrase, " "), digits = strspn(phrase, "0123456789");
    const bool joined = digits > 0 && digits < word && strchr("x*", phrase[digits]) != NULL;
    const size_t n_bytes = joined ? digits : word;
    copy_word(number, phrase, n_bytes);
    phrase += n_bytes + (phrase[n_bytes] == ' ');
    if (!s2_number_parse(number, n))
        return false;
    if (joined || strncmp(phrase, "x ", 2) == 0 || strncmp(phrase, "* ", 2) == 0)
        phrase++;
    phrase += strspn(phrase, " ");
    copy_word(what, phrase, strlen(phrase));
    return true;
}

/* "batch 4", "tp8", "h100 x 4": the number follows; false where none does. */
static bool split_named_count(const char *phrase, char what[PHRASE], int64_t *n)
{
    size_t end = strlen(phrase);
    while (end > 0 && strchr("0123456789km", phrase[end - 1]) != NULL)
        end--;
    if (end == 0 || !s2_number_parse(phrase + end, n))
        return false;
    while (end > 1 && phrase[end - 1] == ' ')
        end--;
    copy_word(what, phrase, end);
    return true;
}

/* Drop the "x" of "h100 x 4" and "h100x4"; false where there is none. */
static bool drop_times(char what[PHRASE])
{
    size_t n = strlen(what);
    if (n < 2 || strchr("x*", what[n - 1]) == NULL)
        return false;
    n--;
    while (n > 1 && what[n - 1] == ' ')
        n--;
    what[n] = '\0';
    return true;
}

/* "h200s" are several of one kind. */
static bool is_gpu(char what[PHRASE])
{
    s2_gpu gpu;
    const size_t n = strlen(what);
    if (s2_gpu_find(what, &gpu, NULL) == S2_OK)
        return true;
    if (n < 2 || what[n - 1] != 's')
        return false;
    what[n - 1] = '\0';
    return s2_gpu_find(what, &gpu, NULL) == S2_OK;
}

/* Whether `n` of `what` is a count of things, or of GPUs of one kind. */
static bool means_count(s2_search_words *words, char what[PHRASE], int64_t n, meaning *out)
{
    out->n = n;
    out->count = counted(words, what);
    if (out->count != NULL || !is_gpu(what))
        return out->count != NULL;
    out->count = &words->n_ranks;
    out->name = &words->gpu;
    memcpy(out->value, what, PHRASE);
    return true;
}

/* "fp8 weights", "weights int4": the type; false for other phrases. */
static bool means_weights(s2_search_words *words, const char *phrase, meaning *out)
{
    static const char known[] = "fp8|int8|int4|mxfp4|nvfp4|as-dtype|published";
    const char *const blank = strchr(phrase, ' ');
    if (blank == NULL)
        return false;
    const size_t first = (size_t)(blank - phrase);
    const bool after = first == 7 && memcmp(phrase, "weights", 7) == 0;
    copy_word(out->value, after ? blank + 1 : phrase, after ? strlen(blank + 1) : first);
    out->name = &words->weights;
    return (after || strcmp(blank + 1, "weights") == 0) && s2_word_in(known, out->value);
}

static bool understand(s2_search_words *words, const char *phrase, meaning *out)
{
    char what[PHRASE];
    int64_t n;
    *out = (meaning){0};
    if (means_weights(words, phrase, out))
        return true;
    *out = (meaning){.name = named(words, phrase)};
    copy_word(out->value, phrase, strlen(phrase));
    if (out->name != NULL)
        return true;
    if (s2_word_in("recompute|recomputed|recomputation", phrase)) {
        *out = (meaning){.count = &words->recompute, .n = 1};
        return true;
    }
    if (split_count(phrase, &n, what) && means_count(words, what, n, out))
        return true;
    return split_named_count(phrase, what, &n) &&
           (means_count(words, what, n, out) || (drop_times(what) && means_count(words, what, n, out)));
}

static bool take(s2_cli *cli, s2_search_words *words, const char *phrase)
{
    meaning said;
    const bool new = understand(words, phrase, &said) &&
                     (said.count == NULL || (*said.count == 0 && said.n > 0)) &&
                     (said.name == NULL || *said.name == NULL);
    if (new &&said.count != NULL)
        *said.count = said.n;
    if (new &&said.name != NULL)
        *said.name = s2_arena_strndup(&cli->arena, said.value, strlen(said.value));
    return new && (said.name == NULL || *said.name != NULL);
}

static bool take_phase(s2_cli *cli, s2_search_words *words, const char *phrase)
{
    static const char *const known[S2_N_PHASES] = {
        [S2_PREFILL] = "prefill|prefilling", [S2_DECODE] = "decode|decoding", [S2_TRAIN] = "train|training"};
    int phase = 0;
    while (phase < S2_N_PHASES && !s2_word_in(known[phase], phrase))
        phase++;
    if (phase == S2_N_PHASES)
        return false;
    s2_buf list = {0};
    s2_buf_printf(&list, "%s%s%s", words->phases != NULL ? words->phases : "",
                  words->phases != NULL ? "," : "", s2_phase_word((s2_phase)phase));
    words->phases = list.status == S2_OK ? s2_arena_strndup(&cli->arena, list.data, list.len) : NULL;
    s2_buf_release(&list);
    return words->phases != NULL;
}

/* The first built-in GPU in whose name the digits stand alone; NULL: none. */
static const char *gpu_numbered(const char *digits)
{
    const size_t n = strlen(digits);
    const char *name;
    for (int32_t index = 0; (name = s2_gpu_name(index)) != NULL; index++)
        for (const char *rest = name; *rest != '\0';) {
            const size_t run = strspn(rest, "0123456789");
            if (run == n && memcmp(rest, digits, n) == 0)
                return name;
            rest += run > 0 ? run : 1;
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

/* "b8" is a batch; "b300" may be the GPU of that name. */
static bool is_batch_or_gpu(s2_search_words *words, const char *phrase)
{
    s2_gpu gpu;
    int64_t n;
    return phrase[0] == 'b' && s2_number_parse(phrase + 1, &n) && n >= 100 && words->batch == 0 &&
           s2_gpu_find(phrase, &gpu, NULL) != S2_OK;
}

static bool take_phrase(s2_cli *cli, s2_search_words *words, const char *phrase)
{
    if (is_doubtful(phrase) || is_batch_or_gpu(words, phrase))
        return false;
    return take_phase(cli, words, phrase) || take(cli, words, phrase);
}

/* A model's own config, by its path as written. */
static s2_exit take_file(s2_cli *cli, s2_search_words *words, const char *phrase, size_t n, bool *taken)
{
    while (n > 0 && (phrase[n - 1] == ' ' || phrase[n - 1] == '\t'))
        n--;
    const char *const path = s2_arena_strndup(&cli->arena, phrase, n);
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
    const int32_t least = s2_min_i32(of_gpu, of_model);
    if (of_format < least)
        s2_cli_hint(cli, "did you mean the format %s?", format->name);
    else if (least == S2_NAME_FAR)
        s2_cli_hint(cli,
                    "as in '32 heads, 8 KV heads, H200, 128k, decode, batch 32'; a model's own config.json "
                    "is taken too; s2 sim --list shows GPUs and models, s2 export --list the formats");
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
    meaning said;
    if (!understand(words, phrase, &said))
        return NULL;
    if (said.count != NULL && said.n <= 0)
        return "a number here is at least 1";
    return said.count == &words->len_tok ? "a context length is given already"
                                         : "another phrase says the same";
}

/* How to say what is meant, where it may be several things, or none that a search prices. */
static const char *advice_on(const char *phrase)
{
    static const struct {
        const char *phrases, *advice;
    } known[] = {
        {"bf16|fp16|fp8|int8|int4|mxfp4|nvfp4|fp4|e4m3|8-bit|4-bit",
         "it may be the type of the weights ('fp8 weights'), of the KV cache (--kv-dtype) or of Q, K and V "
         "(--dtype)"},
        {"fp8 cache|fp8 kv cache|fp8 kv|fp8 kv-cache|e4m3 cache|e4m3 kv cache|int8 cache|int8 kv cache|int8 "
         "kv|bf16 cache|kv cache fp8|kv fp8|kv int8|cache fp8|cache int8|kv cache int8|kv-dtype fp8|kv_dtype "
         "fp8|8-bit cache|8-bit kv cache|kv cache",
         "the type of the KV cache is an option: --kv-dtype e4m3, int8 or bf16"},
        {"batch max|max batch|maximum batch|largest batch|batch size max",
         "each design has a largest batch of its own, and a search compares designs at one batch: search at "
         "'batch N', then s2 sim NAME --batch max"},
        {"inference|serving|generation|generate|latency|throughput", "say 'prefill', 'decode', or both"},
        {"fine-tuning|finetuning|pretraining", "say 'train'"}};
    for (size_t n = 0; n < sizeof known / sizeof *known; n++)
        if (s2_word_in(known[n].phrases, phrase))
            return known[n].advice;
    return NULL;
}

static s2_exit refuse_doubtful(s2_cli *cli, const char *phrase)
{
    const char *const gpu = gpu_numbered(phrase);
    if (phrase[0] == 'b')
        s2_cli_error(cli, "'%s' may be a GPU or a batch: write the GPU's whole name, or 'batch %s'", phrase,
                     phrase + 1);
    else
        s2_cli_error(cli, "'%s' may be a GPU or a context length: write %s%s, or '%s tokens'", phrase,
                     gpu != NULL ? "the GPU as " : "the GPU's whole name", gpu != NULL ? gpu : "", phrase);
    return S2_EXIT_USAGE;
}

static s2_exit refuse(s2_cli *cli, s2_search_words *words, const char *from, size_t n)
{
    char phrase[PHRASE] = "", what[PHRASE];
    const char *why = NULL;
    int64_t n_said;
    if (copy_phrase(from, n, phrase))
        why = fault_of(words, phrase);
    if (is_doubtful(phrase) || is_batch_or_gpu(words, phrase))
        return refuse_doubtful(cli, phrase);
    if (why == NULL)
        why = advice_on(phrase);
    if (why != NULL) {
        s2_cli_error(cli, "'%.*s': %s", (int)n, from, why);
        return S2_EXIT_USAGE;
    }
    s2_cli_error(
        cli,
        "'%.*s' is not a search space or a known phrase; expected N heads, N KV heads, N layers, N head-dim, "
        "a context length, batch N, N GPUs, prefill, decode, train, a GPU, a model, a format",
        (int)s2_min_size(n, 60), from);
    if (phrase[0] != '\0')
        hint_nearest(cli, split_count(phrase, &n_said, what) ? what : phrase);
    return S2_EXIT_USAGE;
}

s2_exit s2_search_words_read(s2_cli *cli, const char *text, s2_search_words *out)
{
    *out = (s2_search_words){0};
    for (const char *rest = text;; rest++) {
        rest += strspn(rest, " \t");
        const size_t n = strcspn(rest, ",");
        char phrase[PHRASE];
        bool taken = copy_phrase(rest, n, phrase) && take_phrase(cli, out, phrase);
        if (!taken)
            S2_CLI_TRY(take_file(cli, out, rest, n, &taken));
        if (!taken)
            return refuse(cli, out, rest, n);
        rest += n;
        if (*rest == '\0')
            return S2_EXIT_OK;
    }
}

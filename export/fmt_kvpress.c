/*
 * KVPress: the name of a press and a compression ratio, in the YAML of its evaluation. A press removes a
 * share of the prompt's keys at the end of prefill; its score decides which.
 */
#include "export/budget.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arith.h"

enum { CHUNK_TOK = 20, LAG_TOK = 128, PYRAMID_TOK = 64, PYRAMID_BETA = 20 };

/* Presses that rank keys by a score, with the numbers of first and newest tokens that they never remove. */
static const struct press {
    const char *name;
    int64_t sink_tok, window_tok;
} scored[] = {{"snapkv", 0, 64},
              {"tova", 0, 1},
              {"expected_attention", 4, 1},
              {"expected_attention_e2", 4, 1},
              {"observed_attention", 0, 1},
              {"knorm", 0, 1},
              {"keydiff", 0, 1},
              {"lagkv", 4, LAG_TOK},
              {"qfilter", 0, 1},
              {"random", 0, 1},
              {"finch", 0, 0},
              {"compactor", 8, 4},
              {"cur", 4, 1},
              {"leverage_score", 0, 1},
              {"non_causal_attention", 0, 1},
              {"chunkkv", 0, 1},
              {"kvzip", 4, 1},
              {"kvzip_plus", 4, 1},
              {"kvzap_mlp_head", 0, 1}};

/* Presses of its evaluation that no number of keys can describe, each with the reason. */
static const struct {
    const char *name, *why;
} unsaid[] = {
    {"duo_attention", "the heads are in DuoAttention's table: import that with --set rule=kvpress"},
    {"duo_attention_on_the_fly",
     "the heads are chosen by looking at the model when it is loaded, so no file says which"},
    {"kvzap_linear", "a threshold of the scores decides how many keys stay, so no number stands for it"},
    {"kvzap_mlp", "a threshold of the scores decides how many keys stay, so no number stands for it"},
    {"entropy_gated_chunkkv", "the scores decide which chunks are kept whole, so no number stands for them"},
    {"kvcompose", "its keys are composed of those of several tokens, which a pattern does not hold"},
    {"kvcompose_unstructured",
     "the scores deal the budget out over heads and layers, so no number stands for it"},
    {"fastkvzip", "the scores deal the budget out over heads and layers, so no number stands for it"},
    {"lukv", "a table for each model says how much each head keeps, and it is not in this file"},
};

static int recognises(const s2_source *source)
{
    return s2_budget_has_any(source, S2_PATHS("/press_name")) ? 88 : 0;
}

/* Presses that add what they remove to the values of keys that stay; these are as many as without it. */
static const char *unmerged(const s2_source *source, const char *prefix, const char *name)
{
    if (strncmp(name, prefix, strlen(prefix)) != 0)
        return name;
    s2_note(source->notes,
            "%s: what is removed is merged into values that stay, which a pattern cannot express", name);
    name += strlen(prefix);
    return strcmp(name, "kvzap_mlp") == 0 ? "kvzap_mlp_head" : name; /* by its scores, not by a threshold */
}

/* Wrappers that move budget between heads, layers or chunks without changing its mean. */
static const char *unwrapped(const s2_source *source, const char *name)
{
    static const char *const wrappers[] = {"critical_adakv_", "adakv_", "chunk_", "block_", "critical_"};
    const char *inner = name;
    if (strcmp(name, "kvzap_mlp_layer") == 0)
        inner = "kvzap_mlp_head";
    for (size_t w = 0; w < sizeof wrappers / sizeof *wrappers && inner == name; w++)
        if (strncmp(name, wrappers[w], strlen(wrappers[w])) == 0)
            inner = name + strlen(wrappers[w]);
    if (inner != name)
        s2_note(source->notes,
                "%s: which head, layer or chunk keeps how much is decided at run time; each is given the "
                "mean, and a press that works per head only masks and frees no memory",
                name);
    return inner;
}

static const struct press *find_scored(const char *name)
{
    for (size_t s = 0; s < sizeof scored / sizeof *scored; s++)
        if (strcmp(name, scored[s].name) == 0)
            return &scored[s];
    return NULL;
}

static s2_status refuse_press(const s2_source *source, const char *name)
{
    for (size_t u = 0; u < sizeof unsaid / sizeof *unsaid; u++)
        if (strcmp(name, unsaid[u].name) == 0)
            return s2_doc_refuse(source->doc, "/press_name", source->diag, "%s", unsaid[u].why);
    return s2_doc_refuse(source->doc, "/press_name", source->diag,
                         "no pattern is known for this press (streaming_llm, snapkv, tova, knorm, "
                         "expected_attention and other scored ones are)");
}

static void print_streaming(s2_buf *body, int64_t kept_tok)
{
    s2_buf_printf(body, "sink 4t | local %lldt", (long long)(kept_tok > 4 ? kept_tok - 4 : 1));
}

/* If fewer keys stay than a press protects, its scores tie, and only the number of keys is certain. */
static void print_scored(s2_buf *body, int64_t sink_tok, int64_t window_tok, int64_t kept_tok)
{
    if (kept_tok <= sink_tok + window_tok) {
        sink_tok = 0;
        window_tok = window_tok < kept_tok ? window_tok : kept_tok - 1;
    }
    if (sink_tok > 0)
        s2_buf_printf(body, "sink %lldt | ", (long long)sink_tok);
    s2_buf_printf(body, "heavy %lld | local %lldt", (long long)(kept_tok - sink_tok - window_tok),
                  (long long)window_tok);
}

/* FINCH observes the question, which follows a delimiter in the prompt. */
static s2_status finch_body(const s2_source *source, int64_t kept_tok, s2_buf *body)
{
    int64_t question_tok;
    S2_TRY(s2_setting_int(&source->settings, "question", 1, kept_tok > 1 ? kept_tok - 1 : 1, 0, &question_tok,
                          source->diag));
    if (question_tok == 0)
        return s2_doc_refuse(source->doc, "/press_name", source->diag,
                             "finch keeps the question at the end of the prompt, whose length no file says "
                             "(--set question=TOKENS)");
    print_scored(body, 0, question_tok, kept_tok);
    return S2_OK;
}

static s2_status scored_body(const s2_source *source, const struct press *press, int64_t n_tok,
                             int64_t kept_tok, s2_buf *body)
{
    if (strcmp(press->name, "finch") == 0)
        return finch_body(source, kept_tok, body);
    if (strcmp(press->name, "lagkv") == 0) {
        /* scores follow the position where the prompt is too short to have two lags */
        if (n_tok < press->sink_tok + 2 * LAG_TOK)
            print_streaming(body, kept_tok);
        else
            print_scored(body, press->sink_tok, LAG_TOK + (n_tok - press->sink_tok) % LAG_TOK, kept_tok);
        return S2_OK;
    }
    if (strcmp(press->name, "expected_attention") == 0)
        s2_note(source->notes, "later evaluations of KVPress mean AdaKV by expected_attention: each head is "
                               "given the mean, and nothing is freed");
    print_scored(body, press->sink_tok, press->window_tok, kept_tok);
    return S2_OK;
}

/* ChunkKV keeps whole chunks: the given share of them. */
static int64_t kept_of(const char *name, int64_t n_tok, double ratio)
{
    int64_t kept = (int64_t)((double)n_tok * (1 - ratio));
    if (strcmp(name, "chunkkv") == 0 && n_tok >= CHUNK_TOK) {
        kept = (int64_t)((double)s2_ceil_div(n_tok, CHUNK_TOK) * (1 - ratio)) * CHUNK_TOK;
        kept = s2_max_i64(kept, CHUNK_TOK);
    }
    return s2_max_i64(kept, 2);
}

static s2_status press_body(const s2_source *source, const char *full_name, int64_t n_tok, int64_t kept_tok,
                            s2_buf *body)
{
    const char *name = unwrapped(source, full_name);
    const bool thinks = strcmp(name, "think") == 0 || strcmp(name, "snap_think") == 0;
    if (thinks)
        s2_note(source->notes, "ThinK removes channels of keys, which a pattern cannot express: every key is "
                               "read with all of its channels here");
    if (strcmp(name, "snap_think") == 0)
        name = "snapkv";
    const struct press *const press = find_scored(name);
    if (strcmp(name, "no_press") == 0 || strcmp(name, "think") == 0 || (press != NULL && kept_tok >= n_tok)) {
        s2_buf_puts(body, "dense");
        return S2_OK;
    }
    if (strcmp(name, "streaming_llm") == 0) {
        print_streaming(body, kept_tok);
        return S2_OK;
    }
    return press != NULL ? scored_body(source, press, n_tok, kept_tok, body) : refuse_press(source, name);
}

/* A share of the prompt's keys is removed once, so the numbers are those of one length. */
static s2_status prompt_body(const s2_source *source, const char *name, double ratio, s2_buf *body)
{
    int64_t n_tok;
    S2_TRY(s2_setting_len(source, 2, S2_LIMIT_CONTEXT_TOK, 8192, &n_tok));
    const int64_t kept_tok = kept_of(name, n_tok, ratio);
    S2_TRY(press_body(source, name, n_tok, kept_tok, body));
    if (source->said != NULL && body->data != NULL && strcmp(body->data, "dense") == 0)
        source->said->of_tok = 0;
    s2_note(source->notes,
            "a share of the prompt's keys is removed at the end of prefill: numbers are those of %lld tokens "
            "(--set len=N), %lld of them kept; tokens decoded later are all kept, here the window moves with "
            "them",
            (long long)n_tok, (long long)kept_tok);
    return S2_OK;
}

/* decoding_NAME removes keys while it decodes, down to target_size every compression_interval steps. */
static s2_status decoding_body(const s2_source *source, const char *full_name, s2_buf *body)
{
    int64_t target, interval;
    const char *const name = unwrapped(source, full_name);
    const bool streams = strcmp(name, "streaming_llm") == 0;
    if (!streams && find_scored(name) == NULL)
        return refuse_press(source, name);
    S2_TRY(s2_budget_read(source, S2_PATHS("/target_size"), 2, S2_LIMIT_CONTEXT_TOK, 2048, &target));
    S2_TRY(
        s2_budget_read(source, S2_PATHS("/compression_interval"), 1, S2_LIMIT_CONTEXT_TOK, 512, &interval));
    if (streams)
        s2_buf_printf(body, "sink 4t | local %lldt",
                      (long long)(target > 4 ? target - 4 + interval : interval));
    else
        s2_buf_printf(body, "heavy %lld | local %lldt", (long long)target, (long long)interval);
    s2_note(
        source->notes,
        "decoding: every %lld steps the cache is cut to %lld keys, so up to %lld are held between; until the "
        "first cut the whole prompt is read, which a pattern does not show",
        (long long)interval, (long long)target, (long long)(target + interval));
    return S2_OK;
}

/* PyramidKV's budget of a layer: it falls evenly, from the first to the last. */
static int64_t pyramid_tok(int64_t n_tok, double ratio, int64_t layer, int64_t n_layers)
{
    const double mean = (double)n_tok * (1 - ratio);
    double last = mean / PYRAMID_BETA, first = mean * 2 - last;
    if (first >= (double)(n_tok - PYRAMID_TOK)) {
        first = (double)(n_tok - PYRAMID_TOK);
        last = mean * 2 - first;
    }
    if ((double)n_tok < first || first < last || last < PYRAMID_TOK)
        return s2_max_i64((int64_t)nearbyint(mean), 2);
    const double step = n_layers > 1 ? (first - last) / (double)(n_layers - 1) : 0;
    return s2_max_i64((int64_t)nearbyint(first - (double)layer * step), 2);
}

static s2_status import_pyramid(const s2_source *source, double ratio, s2_pattern *out)
{
    int64_t n_tok;
    s2_model_shape shape;
    s2_buf text = {0};
    S2_TRY(s2_setting_len(source, 2, S2_LIMIT_CONTEXT_TOK, 8192, &n_tok));
    const s2_status status = s2_budget_begin(source, 64, &shape, &text);
    s2_buf_puts(&text, "layers all: dense\n");
    for (int64_t layer = 0; status == S2_OK && ratio > 0 && layer < shape.n_layers; layer++) {
        s2_buf_printf(&text, "decode layers %lld: ", (long long)layer);
        print_scored(&text, 0, PYRAMID_TOK, pyramid_tok(n_tok, ratio, layer, shape.n_layers));
        s2_buf_puts(&text, "\n");
    }
    if (source->said != NULL && ratio <= 0)
        source->said->of_tok = 0;
    s2_note(
        source->notes,
        "a share of the prompt's keys is removed at the end of prefill, in each layer another: numbers are "
        "those "
        "of %lld tokens (--set len=N), from %lld keys in the first layer to %lld in the last; tokens decoded "
        "later are all kept, here the window moves with them",
        (long long)n_tok, (long long)pyramid_tok(n_tok, ratio, 0, shape.n_layers),
        (long long)pyramid_tok(n_tok, ratio, shape.n_layers - 1, shape.n_layers));
    return s2_budget_finish(source, status, &text, out);
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    double ratio = 0.5;
    s2_buf text = {0}, body = {0};
    S2_TRY(s2_source_needs(source, recognises(source) > 0, "press_name and compression_ratio"));
    const char *const name = s2_doc_text(source->doc, "/press_name");
    if (name == NULL)
        return s2_doc_refuse(source->doc, "/press_name", source->diag, "press_name must be a text");
    const bool decodes = strncmp(name, "decoding_", 9) == 0 || strncmp(name, "cam_", 4) == 0;
    if (s2_doc_has(source->doc, "/compression_ratio"))
        S2_TRY(s2_doc_num(source->doc, "/compression_ratio", 0, 0.999999, &ratio, source->diag));
    else if (!decodes && strcmp(name, "no_press") != 0 && strcmp(name, "think") != 0)
        s2_note(source->notes, "compression_ratio is not stated; it is taken as %.1f", ratio);
    if (strcmp(name, "pyramidkv") == 0)
        return import_pyramid(source, ratio, out);
    s2_status status =
        decodes
            ? decoding_body(source,
                            strncmp(name, "decoding_", 9) == 0 ? name + 9 : unmerged(source, "cam_", name),
                            &body)
            : prompt_body(source, unmerged(source, "merging_", name), ratio, &body);
    if (status == S2_OK)
        status = s2_budget_begin(source, 64, NULL, &text);
    s2_buf_printf(&text, "prefill layers all: dense\ndecode layers all: %s\n", s2_part_of(&text, &body));
    s2_buf_release(&body);
    return s2_budget_finish(source, status, &text, out);
}

const s2_format s2_format_kvpress = {.name = "kvpress",
                                     .summary = "KVPress evaluation config: press_name, compression_ratio",
                                     .settings = "len (8192), question (finch), " S2_BUDGET_SETTINGS,
                                     .recognises = recognises,
                                     .read = import};

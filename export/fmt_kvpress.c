/*
 * KVPress: the name of a press and a compression ratio, in the YAML of its evaluation. A press removes a
 * share of the prompt's keys at the end of prefill; which ones is its score's matter.
 */
#include "export/budget.h"

#include <stdio.h>
#include <string.h>

/* Presses that rank keys by a score, and the newest tokens that they never remove. */
static const struct {
    const char *name;
    int64_t window_tok;
} scored[] = {{"snapkv", 64},
              {"tova", 1},
              {"expected_attention", 1},
              {"observed_attention", 1},
              {"knorm", 1},
              {"keydiff", 1},
              {"lagkv", 1},
              {"qfilter", 1},
              {"random", 1},
              {"finch", 64},
              {"compactor", 1},
              {"cur", 1},
              {"leverage_score", 1},
              {"non_causal_attention", 1},
              {"chunkkv", 1},
              {"kvzip", 1}};

static int recognises(const s2_source *source)
{
    return s2_budget_has_any(source, S2_PATHS("/press_name")) ? 88 : 0;
}

/* Wrappers that move budget between heads or layers without changing its mean. */
static const char *unwrapped(const s2_source *source, const char *name)
{
    static const char *const wrappers[] = {"critical_adakv_", "critical_", "adakv_", "chunk_"};
    for (size_t w = 0; w < sizeof wrappers / sizeof *wrappers; w++) {
        const size_t n = strlen(wrappers[w]);
        if (strncmp(name, wrappers[w], n) == 0) {
            s2_note(
                source->notes,
                "%s: which head or chunk keeps how much is decided at run time; each is given the mean, and "
                "a press that works per head only masks and frees no memory",
                name);
            return name + n;
        }
    }
    return name;
}

static bool is_scored(const char *name)
{
    for (size_t s = 0; s < sizeof scored / sizeof *scored; s++)
        if (strcmp(name, scored[s].name) == 0)
            return true;
    return false;
}

static s2_status refuse_press(const s2_source *source)
{
    return s2_doc_refuse(source->doc, "/press_name", source->diag,
                         "no pattern is known for this press (streaming_llm, snapkv, tova, knorm, "
                         "expected_attention and other scored ones are)");
}

static s2_status press_body(const s2_source *source, const char *full_name, int64_t n_tok, int64_t kept_tok,
                            s2_buf *body)
{
    const char *const name = unwrapped(source, full_name);
    if (strcmp(name, "no_press") == 0 || kept_tok >= n_tok) {
        s2_buf_puts(body, "dense");
        return S2_OK;
    }
    if (strcmp(name, "streaming_llm") == 0) {
        s2_buf_printf(body, "sink 4t | local %lldt", (long long)(kept_tok > 4 ? kept_tok - 4 : 1));
        return S2_OK;
    }
    for (size_t s = 0; s < sizeof scored / sizeof *scored; s++)
        if (strcmp(name, scored[s].name) == 0) {
            const int64_t window = scored[s].window_tok < kept_tok ? scored[s].window_tok : kept_tok - 1;
            s2_buf_printf(body, "heavy %lld | local %lldt", (long long)(kept_tok - window),
                          (long long)window);
            return S2_OK;
        }
    if (strcmp(name, "duo_attention_on_the_fly") == 0)
        return s2_doc_refuse(
            source->doc, "/press_name", source->diag,
            "the heads are chosen by looking at the model when it is loaded, so no file says which");
    if (strncmp(name, "duo_attention", 13) == 0)
        return s2_doc_refuse(source->doc, "/press_name", source->diag,
                             "the heads are in DuoAttention's table: import that with --set rule=kvpress");
    return refuse_press(source);
}

/* decoding_NAME removes keys while it decodes, down to target_size every compression_interval steps. */
static s2_status decoding_body(const s2_source *source, const char *press, s2_buf *body)
{
    int64_t target, interval;
    const bool streams = strcmp(press, "streaming_llm") == 0;
    if (!streams && !is_scored(press))
        return refuse_press(source);
    S2_TRY(s2_budget_read(source, S2_PATHS("/target_size"), 2, S2_LIMIT_CONTEXT_TOK, 2048, &target));
    S2_TRY(
        s2_budget_read(source, S2_PATHS("/compression_interval"), 1, S2_LIMIT_CONTEXT_TOK, 512, &interval));
    if (streams)
        s2_buf_printf(body, "sink 4t | local %lldt",
                      (long long)(target > 4 ? target - 4 + interval : interval));
    else
        s2_buf_printf(body, "heavy %lld | local %lldt", (long long)target, (long long)interval);
    s2_note(source->notes,
            "decoding: every %lld steps the cache is cut to %lld keys, so up to %lld are held between",
            (long long)interval, (long long)target, (long long)(target + interval));
    return S2_OK;
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    int64_t n_tok;
    double ratio = 0.5;
    s2_buf text = {0}, body = {0};
    S2_TRY(s2_source_needs(source, recognises(source) > 0, "press_name and compression_ratio"));
    S2_TRY(s2_setting_int(&source->settings, "len", 2, S2_LIMIT_CONTEXT_TOK, 8192, &n_tok, source->diag));
    const char *const name = s2_doc_text(source->doc, "/press_name");
    if (name == NULL)
        return s2_doc_refuse(source->doc, "/press_name", source->diag, "press_name must be a text");
    if (s2_doc_has(source->doc, "/compression_ratio"))
        S2_TRY(s2_doc_num(source->doc, "/compression_ratio", 0, 0.999999, &ratio, source->diag));
    const int64_t kept =
        (int64_t)((double)n_tok * (1 - ratio)) > 2 ? (int64_t)((double)n_tok * (1 - ratio)) : 2;
    s2_status status = strncmp(name, "decoding_", 9) == 0 ? decoding_body(source, name + 9, &body)
                                                          : press_body(source, name, n_tok, kept, &body);
    if (status == S2_OK)
        status = s2_budget_begin(source, 64, NULL, &text);
    s2_buf_printf(&text, "prefill layers all: dense\ndecode layers all: %s\n",
                  body.data != NULL ? body.data : "dense");
    s2_buf_release(&body);
    s2_note(source->notes,
            "a share of the prompt's keys is removed at the end of prefill: numbers are those of %lld tokens "
            "(--set len=N), %lld of them kept; tokens decoded later are all kept, here the window moves with "
            "them",
            (long long)n_tok, (long long)kept);
    return s2_budget_finish(source, status, &text, out);
}

const s2_format s2_format_kvpress = {.name = "kvpress",
                                     .summary = "KVPress evaluation config: press_name, compression_ratio",
                                     .settings = "len (8192), " S2_BUDGET_SETTINGS,
                                     .recognises = recognises,
                                     .read = import};

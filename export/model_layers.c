#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/model.h"

typedef struct reader {
    const s2_source *source;
    const char *prefix;
    const char *name; /* of the model_type, or NULL */
    s2_model_type type;
    int64_t n_layers;
    s2_model_layers *out;
} reader;

static bool has(const reader *r, const char *key)
{
    char path[S2_DOC_PATH];
    return s2_doc_has(r->source->doc, s2_doc_under(r->prefix, key, path));
}

/* Written as null, which switches a default off. */
static bool is_null(const reader *r, const char *key)
{
    char path[S2_DOC_PATH];
    return s2_doc_is_null(r->source->doc, s2_doc_under(r->prefix, key, path));
}

static s2_status read_int(const reader *r, const char *key, int64_t low, int64_t high, int64_t fallback,
                          int64_t *out)
{
    char path[S2_DOC_PATH];
    return s2_doc_int_or(r->source->doc, s2_doc_under(r->prefix, key, path), low, high, fallback, out,
                         r->source->diag);
}

static s2_status read_bool(const reader *r, const char *key, bool fallback, bool *out)
{
    char path[S2_DOC_PATH];
    return s2_doc_bool_or(r->source->doc, s2_doc_under(r->prefix, key, path), fallback, out, r->source->diag);
}

static s2_status check_length(const reader *r, const char *key)
{
    char path[S2_DOC_PATH];
    const int64_t n = s2_doc_len(r->source->doc, s2_doc_under(r->prefix, key, path));
    if (n == r->n_layers)
        return S2_OK;
    return s2_doc_refuse(r->source->doc, path, r->source->diag, "%s has %lld entries for %lld layers", key,
                         (long long)n, (long long)r->n_layers);
}

static void fill(const reader *r, s2_layer_kind kind)
{
    for (int64_t layer = 0; layer < r->n_layers; layer++)
        r->out->kind[layer] = (uint16_t)kind;
}

/* ---- lists of the config ------------------------------------------------------------------------ */

static const char *const kind_words[S2_N_LAYER_KINDS] = {
    "full_attention", "sliding_attention", "chunked_attention", "linear_attention", "mlp", "moe"};

/* Older words, and words of single models; each is for one rule alone, or (S2_N_RULES) for any. */
static const struct {
    const char *word;
    s2_layer_kind kind;
    s2_model_rule rule;
} other_words[] = {{"attention", S2_LAYER_FULL, S2_N_RULES},
                   {"linear_attention", S2_LAYER_RECURRENT, S2_RULE_HYBRID},
                   {"mlp", S2_LAYER_IDLE, S2_RULE_HYBRID},
                   {"mamba", S2_LAYER_RECURRENT, S2_RULE_HYBRID},
                   {"mamba2", S2_LAYER_RECURRENT, S2_RULE_HYBRID},
                   {"conv", S2_LAYER_RECURRENT, S2_RULE_HYBRID},
                   {"moe", S2_LAYER_EXPERTS, S2_RULE_HYBRID},
                   {"recurrent", S2_LAYER_RECURRENT, S2_RULE_HYBRID},
                   {"hybrid", S2_LAYER_FULL, S2_RULE_PARALLEL},
                   {"hybrid_sliding", S2_LAYER_SLIDING, S2_RULE_PARALLEL},
                   {"mamba", S2_LAYER_RECURRENT, S2_RULE_PARALLEL},
                   {"linear_attention", S2_LAYER_RECURRENT, S2_RULE_PARALLEL}};

/* S2_N_LAYER_KINDS: models of this rule have no such word. */
static s2_layer_kind kind_of_word(s2_model_rule rule, const char *word)
{
    for (int kind = 0; word != NULL && kind <= S2_LAYER_CHUNKED; kind++)
        if (strcmp(word, kind_words[kind]) == 0)
            return (s2_layer_kind)kind;
    for (size_t w = 0; word != NULL && w < sizeof other_words / sizeof *other_words; w++)
        if (strcmp(word, other_words[w].word) == 0 &&
            (other_words[w].rule == S2_N_RULES || other_words[w].rule == rule))
            return other_words[w].kind;
    return S2_N_LAYER_KINDS;
}

const char *s2_layer_kind_word(s2_layer_kind kind)
{
    return kind_words[kind];
}

static bool is_inkling(const reader *r)
{
    return r->name != NULL && strncmp(r->name, "inkling", 7) == 0;
}

static s2_status read_words(const reader *r, const char *key)
{
    S2_TRY(check_length(r, key));
    for (int64_t layer = 0; layer < r->n_layers; layer++) {
        char path[S2_DOC_PATH];
        snprintf(path, sizeof path, "%s/%s/%lld", r->prefix, key, (long long)layer);
        const char *const word = s2_doc_text(r->source->doc, path);
        const s2_layer_kind kind = kind_of_word(r->type.rule, word);
        if (is_inkling(r) && (word == NULL || strncmp(word, "hybrid", 6) != 0))
            return s2_doc_refuse(r->source->doc, path, r->source->diag,
                                 "layer type %.40s: layers of this model_type are hybrid or hybrid_sliding",
                                 word != NULL ? word : "(no text)");
        if (kind == S2_N_LAYER_KINDS)
            return s2_doc_refuse(r->source->doc, path, r->source->diag,
                                 "layer type %.40s is not one that a pattern holds: full_attention, "
                                 "sliding_attention, chunked_attention",
                                 word != NULL ? word : "(no text)");
        r->out->kind[layer] = (uint16_t)kind;
    }
    return S2_OK;
}

/* A list of 0 and 1, and the kind that each of them means. */
static s2_status read_flags(const reader *r, const char *key, s2_layer_kind zero, s2_layer_kind one)
{
    S2_TRY(check_length(r, key));
    for (int64_t layer = 0; layer < r->n_layers; layer++) {
        char path[S2_DOC_PATH];
        int64_t flag;
        snprintf(path, sizeof path, "%s/%s/%lld", r->prefix, key, (long long)layer);
        S2_TRY(s2_doc_int(r->source->doc, path, 0, 1, &flag, r->source->diag));
        r->out->kind[layer] = (uint16_t)(flag != 0 ? one : zero);
    }
    s2_note(r->source->notes, "layer_types is absent: %s says which layers are full", key);
    return S2_OK;
}

/* ---- what a model's code derives ---------------------------------------------------------------- */

/* EXAONE 4 may write its period as a word: L for a window, G for full; the last layer is full whatever its letter. */
static s2_status derive_letters(const reader *r, const char *letters, s2_layer_kind kind)
{
    char path[S2_DOC_PATH];
    const size_t n = strlen(letters);
    if (n == 0 || strspn(letters, "LG") != n)
        return s2_doc_refuse(r->source->doc, s2_doc_under(r->prefix, r->type.period_key, path),
                             r->source->diag, "%s must be a number or letters L and G, as in LLLG",
                             r->type.period_key);
    for (int64_t layer = 0; layer < r->n_layers; layer++)
        r->out->kind[layer] =
            (uint16_t)(letters[(size_t)layer % n] == 'G' || layer == r->n_layers - 1 ? S2_LAYER_FULL : kind);
    s2_note(r->source->notes, "layer_types is absent: %s says which layers are full, and the last one is",
            r->type.period_key);
    return S2_OK;
}

/* Every n-th layer is full, the others are of `kind`. */
static s2_status derive_period(const reader *r, s2_layer_kind kind)
{
    char path[S2_DOC_PATH];
    int64_t period = r->type.period;
    const char *const letters =
        r->type.period_key != NULL
            ? s2_doc_text(r->source->doc, s2_doc_under(r->prefix, r->type.period_key, path))
            : NULL;
    if (letters != NULL)
        return derive_letters(r, letters, kind);
    if (r->type.period_key != NULL)
        S2_TRY(read_int(r, r->type.period_key, 1, S2_LIMIT_LAYERS, period, &period));
    /* the name in older Gemma files */
    if (r->type.period_key != NULL && !has(r, r->type.period_key))
        S2_TRY(read_int(r, "_sliding_window_pattern", 1, S2_LIMIT_LAYERS, period, &period));
    S2_TRY(s2_setting_int(&r->source->settings, "full-every", 0, S2_LIMIT_LAYERS, period, &period,
                          r->source->diag));
    const int64_t phase = r->type.phase == 0 && r->type.period > 1 ? 0 : period - 1;
    for (int64_t layer = 0; layer < r->n_layers; layer++)
        r->out->kind[layer] = (uint16_t)(period > 0 && layer % period == phase ? S2_LAYER_FULL : kind);
    if (period > 0)
        s2_note(r->source->notes,
                "layer_types is absent: one layer in %lld is full, by the config or by what models of this "
                "model_type do (--set full-every=N)",
                (long long)period);
    else
        s2_note(r->source->notes, "layer_types is absent: all layers use the window (--set full-every=N)");
    return S2_OK;
}

/* Sliding in layers begin .. end - 1 with a step, full elsewhere. */
static void derive_range(const reader *r, int64_t begin, int64_t end, int64_t step)
{
    fill(r, S2_LAYER_FULL);
    for (int64_t layer = begin; layer < end && layer < r->n_layers; layer += step)
        r->out->kind[layer] = S2_LAYER_SLIDING;
}

static s2_status derive_upper(const reader *r, int64_t fallback)
{
    int64_t from;
    S2_TRY(read_int(r, "max_window_layers", 0, INT32_MAX, fallback, &from));
    derive_range(r, from, r->n_layers, 1);
    s2_note(r->source->notes, "max_window_layers: layers below %lld are full", (long long)from);
    return S2_OK;
}

static s2_status derive_even(const reader *r)
{
    int64_t end;
    S2_TRY(read_int(r, "max_window_layers", 0, INT32_MAX, 28, &end));
    derive_range(r, 0, end, 2);
    s2_note(r->source->notes, "max_window_layers: even layers below %lld use the window", (long long)end);
    return S2_OK;
}

/* Layers without rotary positions slide: no_rope_layers says which, else every fourth one. */
static s2_status derive_rotary(const reader *r)
{
    int64_t every;
    if (has(r, "no_rope_layers"))
        return read_flags(r, "no_rope_layers", S2_LAYER_SLIDING, S2_LAYER_FULL);
    S2_TRY(read_int(r, "no_rope_layer_interval", 1, S2_LIMIT_LAYERS, 4, &every));
    derive_range(r, every - 1, r->n_layers, every);
    return S2_OK;
}

static s2_status derive_mimo(const reader *r)
{
    if (has(r, "hybrid_layer_pattern"))
        return read_flags(r, "hybrid_layer_pattern", S2_LAYER_FULL, S2_LAYER_SLIDING);
    fill(r, S2_LAYER_SLIDING);
    for (int64_t layer = 0; layer < r->n_layers; layer++)
        if (layer == 0 || (layer + 1) % 6 == 0)
            r->out->kind[layer] = S2_LAYER_FULL;
    s2_note(r->source->notes, "layer_types is absent: layer 0 and every sixth are full, as the code has it");
    return S2_OK;
}

/* attention_types: [[["global", "local"], 6]] repeats its words six times. */
static s2_status read_gpt_neo(const reader *r)
{
    char path[S2_DOC_PATH];
    int64_t layer = 0;
    const int64_t n = s2_doc_len(r->source->doc, s2_doc_under(r->prefix, "attention_types", path));
    for (int64_t group = 0; group < n; group++) {
        int64_t times;
        snprintf(path, sizeof path, "%s/attention_types/%lld/1", r->prefix, (long long)group);
        S2_TRY(s2_doc_int(r->source->doc, path, 0, S2_LIMIT_LAYERS, &times, r->source->diag));
        snprintf(path, sizeof path, "%s/attention_types/%lld/0", r->prefix, (long long)group);
        const int64_t n_words = s2_doc_len(r->source->doc, path);
        for (int64_t word = 0; word < times * n_words && layer < r->n_layers; word++, layer++) {
            snprintf(path, sizeof path, "%s/attention_types/%lld/0/%lld", r->prefix, (long long)group,
                     (long long)(word % n_words));
            const char *const text = s2_doc_text(r->source->doc, path);
            const bool local = text != NULL && strcmp(text, "local") == 0;
            if (!local && (text == NULL || strcmp(text, "global") != 0))
                return s2_doc_refuse(r->source->doc, path, r->source->diag, "expected global or local");
            r->out->kind[layer] = local ? S2_LAYER_SLIDING : S2_LAYER_FULL;
        }
    }
    if (n > 0 && layer < r->n_layers)
        return s2_doc_refuse(r->source->doc, s2_doc_under(r->prefix, "attention_types", path),
                             r->source->diag, "attention_types says nothing of layer %lld", (long long)layer);
    for (; layer < r->n_layers; layer++)
        r->out->kind[layer] = layer % 2 != 0 ? S2_LAYER_SLIDING : S2_LAYER_FULL;
    return S2_OK;
}

static s2_status refuse_both_ways(const reader *r, const char *key)
{
    char path[S2_DOC_PATH];
    return s2_doc_refuse(r->source->doc, s2_doc_under(r->prefix, key, path), r->source->diag,
                         "%s: what this model_type then reads is not known here", key);
}

/* ---- hybrids ------------------------------------------------------------------------------------ */

/* A list of the layers of one kind, counted from `first`; the others are of another kind. */
static s2_status read_indices(const reader *r, const char *key, int64_t first, s2_layer_kind listed,
                              s2_layer_kind other)
{
    char path[S2_DOC_PATH];
    const int64_t n = s2_doc_len(r->source->doc, s2_doc_under(r->prefix, key, path));
    fill(r, other);
    for (int64_t nth = 0; nth < n; nth++) {
        int64_t layer;
        snprintf(path, sizeof path, "%s/%s/%lld", r->prefix, key, (long long)nth);
        S2_TRY(s2_doc_int(r->source->doc, path, first, r->n_layers - 1 + first, &layer, r->source->diag));
        r->out->kind[layer - first] = (uint16_t)listed;
    }
    return S2_OK;
}

/* Nemotron-H: M for Mamba, * for attention, - for a feed-forward layer, E for experts. */
static s2_status read_letters(const reader *r)
{
    char path[S2_DOC_PATH];
    const char *const text =
        s2_doc_text(r->source->doc, s2_doc_under(r->prefix, "hybrid_override_pattern", path));
    if (text == NULL || (int64_t)strlen(text) != r->n_layers || strspn(text, "M*-E") != strlen(text))
        return s2_doc_refuse(r->source->doc, path, r->source->diag,
                             "hybrid_override_pattern must have one of M, *, -, E for each of %lld layers",
                             (long long)r->n_layers);
    for (int64_t layer = 0; layer < r->n_layers; layer++)
        r->out->kind[layer] = text[layer] == 'M'   ? S2_LAYER_RECURRENT
                              : text[layer] == '*' ? S2_LAYER_FULL
                              : text[layer] == 'E' ? S2_LAYER_EXPERTS
                                                   : S2_LAYER_IDLE;
    return S2_OK;
}

/* RecurrentGemma repeats block_types; its attention has a window. */
static s2_status read_blocks(const reader *r)
{
    char path[S2_DOC_PATH];
    const int64_t n = s2_doc_len(r->source->doc, s2_doc_under(r->prefix, "block_types", path));
    for (int64_t layer = 0; layer < r->n_layers; layer++) {
        snprintf(path, sizeof path, "%s/block_types/%lld", r->prefix, (long long)(n > 0 ? layer % n : 0));
        const s2_layer_kind kind = kind_of_word(r->type.rule, s2_doc_text(r->source->doc, path));
        if (kind != S2_LAYER_FULL && kind != S2_LAYER_RECURRENT)
            return s2_doc_refuse(r->source->doc, path, r->source->diag, "expected recurrent or attention");
        r->out->kind[layer] = (uint16_t)(kind == S2_LAYER_FULL ? S2_LAYER_SLIDING : kind);
    }
    return S2_OK;
}

/* attn_layer_period and attn_layer_offset, else the period of the type's code. */
static s2_status derive_hybrid(const reader *r)
{
    char path[S2_DOC_PATH];
    int64_t period, phase;
    S2_TRY(read_int(r, "attn_layer_period", 1, S2_LIMIT_LAYERS, r->type.period, &period));
    if (r->type.period_key != NULL)
        S2_TRY(read_int(r, r->type.period_key, 1, S2_LIMIT_LAYERS, period, &period));
    S2_TRY(read_int(r, "attn_layer_offset", 0, S2_LIMIT_LAYERS,
                    r->type.period_key != NULL ? period - 1 : r->type.phase, &phase));
    if (period == 0)
        return s2_doc_refuse(r->source->doc, s2_doc_under(r->prefix, "layer_types", path), r->source->diag,
                             "nothing says which layers have keys: layer_types is missing");
    for (int64_t layer = 0; layer < r->n_layers; layer++)
        r->out->kind[layer] = layer % period == phase ? S2_LAYER_FULL : S2_LAYER_RECURRENT;
    s2_note(r->source->notes, "layer_types is absent: one layer in %lld has keys, from layer %lld on",
            (long long)period, (long long)phase);
    return S2_OK;
}

static s2_status read_hybrid(const reader *r)
{
    if (has(r, "layer_types"))
        return read_words(r, "layer_types");
    if (has(r, "layers_block_type"))
        return read_words(r, "layers_block_type");
    if (has(r, "hybrid_override_pattern"))
        return read_letters(r);
    if (has(r, "block_types"))
        return read_blocks(r);
    if (has(r, "attn_type_list"))
        return read_flags(r, "attn_type_list", S2_LAYER_RECURRENT, S2_LAYER_FULL);
    if (has(r, "attn_layer_indices"))
        return read_indices(r, "attn_layer_indices", 0, S2_LAYER_FULL, S2_LAYER_RECURRENT);
    if (has(r, "full_attn_idxs"))
        return read_indices(r, "full_attn_idxs", 0, S2_LAYER_FULL, S2_LAYER_RECURRENT);
    if (has(r, "linear_attn_config/full_attn_layers"))
        return read_indices(r, "linear_attn_config/full_attn_layers", 1, S2_LAYER_FULL, S2_LAYER_RECURRENT);
    return derive_hybrid(r);
}

/* Zamba: a few layers run one or two shared blocks of attention, each with a cache of its own; all keep a state. */
static s2_status read_shared_blocks(const reader *r)
{
    char path[S2_DOC_PATH];
    s2_note(r->source->notes, "layers that attend share blocks of attention and keep a cache each, beside "
                              "the state of every layer");
    if (!has(r, "layers_block_type"))
        return s2_doc_refuse(r->source->doc, s2_doc_under(r->prefix, "layers_block_type", path),
                             r->source->diag, "layers_block_type is missing, which says what layers attend");
    return read_words(r, "layers_block_type");
}

/* Attention and a state side by side: layer_types, else the sliding layers, else a period. */
static s2_status read_parallel(const reader *r)
{
    if (r->name != NULL && strncmp(r->name, "zamba", 5) == 0)
        return read_shared_blocks(r);
    s2_note(r->source->notes, "attention and a state side by side in every layer");
    if (has(r, "layer_types"))
        return read_words(r, "layer_types");
    if (has(r, "local_layer_ids"))
        return read_indices(r, "local_layer_ids", 0, S2_LAYER_SLIDING, S2_LAYER_FULL);
    return r->type.period > 0 ? derive_period(r, S2_LAYER_SLIDING) : S2_OK;
}

/* Mllama: a layer that reads an image computes nothing without one. */
static s2_status read_crossed(const reader *r)
{
    if (has(r, "cross_attention_layers"))
        return read_indices(r, "cross_attention_layers", 0, S2_LAYER_IDLE, S2_LAYER_FULL);
    for (int64_t layer = 3; layer < r->n_layers && layer < 40; layer += 5)
        r->out->kind[layer] = S2_LAYER_IDLE;
    s2_note(r->source->notes,
            "cross_attention_layers is absent: every fifth from layer 3 on, as the code has it");
    return S2_OK;
}

/* ---- one rule each ------------------------------------------------------------------------------ */

/* Is there a window, for rules that have a key to switch it off? */
static s2_status is_switched_on(const reader *r, bool *out)
{
    *out = true;
    if (r->type.rule < S2_RULE_SWITCHED || r->type.rule > S2_RULE_SWITCHED_ROTARY)
        return S2_OK;
    S2_TRY(read_bool(r, "use_sliding_window", false, out));
    if (!*out)
        s2_note(r->source->notes, has(r, "use_sliding_window")
                                      ? "use_sliding_window is false: every layer is full"
                                      : "use_sliding_window is absent, which is false: every layer is full");
    return S2_OK;
}

static bool is_window_off(const reader *r)
{
    return is_null(r, "sliding_window") || (!has(r, "sliding_window") && r->type.window_tok == 0);
}

static s2_status derive(const reader *r)
{
    char path[S2_DOC_PATH];
    switch (r->type.rule) {
    case S2_RULE_TYPES:
        if (r->type.period != 1 && is_null(r, "sliding_window")) {
            s2_note(r->source->notes, "sliding_window is null: every layer is full");
            return S2_OK;
        }
        return derive_period(r, S2_LAYER_SLIDING);
    case S2_RULE_HALVES: return derive_period(r, S2_LAYER_SLIDING);
    case S2_RULE_CHUNKS:
        if (is_null(r, "attention_chunk_size")) {
            s2_note(r->source->notes, "attention_chunk_size is null: every layer is full");
            return S2_OK;
        }
        return has(r, "no_rope_layers") &&
                       s2_doc_len(r->source->doc, s2_doc_under(r->prefix, "no_rope_layers", path)) > 0
                   ? read_flags(r, "no_rope_layers", S2_LAYER_FULL, S2_LAYER_CHUNKED)
                   : derive_period(r, S2_LAYER_CHUNKED);
    case S2_RULE_UPPER: return is_null(r, "sliding_window") ? S2_OK : derive_upper(r, 62);
    case S2_RULE_SWITCHED_UPPER:
        return is_null(r, "sliding_window") ? S2_OK
                                            : derive_upper(r, r->type.period > 0 ? r->type.period : 28);
    case S2_RULE_SWITCHED_EVEN: return derive_even(r);
    case S2_RULE_SWITCHED_ROTARY: return is_window_off(r) ? S2_OK : derive_rotary(r);
    case S2_RULE_MIMO: return derive_mimo(r);
    default:
        return s2_doc_refuse(r->source->doc, s2_doc_under(r->prefix, "layer_types", path), r->source->diag,
                             "layer_types is missing, and what the code of %.40s then does is not known here",
                             r->name != NULL ? r->name : "this model");
    }
}

/* A list that tells layers apart is worth a word where the code of the model_type makes them alike. */
static void say_types_unread(const reader *r)
{
    char path[S2_DOC_PATH], element[S2_DOC_PATH + 24];
    const s2_doc *const doc = r->source->doc;
    (void)s2_doc_under(r->prefix, "layer_types", path);
    snprintf(element, sizeof element, "%s/0", path);
    const char *const first = s2_doc_text(doc, element);
    for (int64_t nth = 1; first != NULL && r->source->said != NULL && nth < s2_doc_len(doc, path); nth++) {
        snprintf(element, sizeof element, "%s/%lld", path, (long long)nth);
        const char *const word = s2_doc_text(doc, element);
        if (word == NULL || strcmp(word, first) == 0)
            continue;
        s2_note(&r->source->said->warnings,
                "layer_types tells layers apart, but the code of %.40s makes all of them alike and does not "
                "read it; --set rule=types reads it",
                r->name != NULL ? r->name : "this model");
        return;
    }
}

/* Gemma 4's code makes the last layer full, whatever its config says of it. */
static void fill_last(const reader *r)
{
    uint16_t *const last = &r->out->kind[r->n_layers - 1];
    if (r->name == NULL || strncmp(r->name, "gemma4", 6) != 0 || *last == S2_LAYER_FULL)
        return;
    *last = S2_LAYER_FULL;
    s2_note(r->source->notes, "the code of this model_type makes the last layer full");
}

static s2_status read_kinds(const reader *r)
{
    bool on;
    fill(r, S2_LAYER_FULL);
    S2_TRY(is_switched_on(r, &on));
    switch (r->type.rule) {
    case S2_RULE_DECODER:
        s2_note(r->source->notes, "this is the self-attention of the decoder; the encoder, and what the "
                                  "decoder reads of it, are not in the pattern");
        return S2_OK;
    case S2_RULE_FULL:
    case S2_RULE_ENCODER:
        say_types_unread(r);
        s2_note(
            r->source->notes,
            has(r, "sliding_window") || has(r, "layer_types")
                ? "models of this model_type use neither sliding_window nor layer_types: every layer is full"
                : "models of this model_type have no window: every layer is full");
        return S2_OK;
    case S2_RULE_WINDOW:
    case S2_RULE_SWITCHED:
        say_types_unread(r);
        if (on && !is_window_off(r))
            fill(r, S2_LAYER_SLIDING);
        return S2_OK;
    case S2_RULE_GPT_NEO: return read_gpt_neo(r);
    case S2_RULE_PARALLEL: return read_parallel(r);
    case S2_RULE_STATES: fill(r, S2_LAYER_RECURRENT); return S2_OK;
    case S2_RULE_CROSSED: return read_crossed(r);
    case S2_RULE_HYBRID:
        if (r->name != NULL && strcmp(r->name, "minimax") == 0 && has(r, "sliding_window"))
            return refuse_both_ways(r, "sliding_window");
        return read_hybrid(r);
    default:
        if (has(r, "layer_types"))
            S2_TRY(read_words(r, "layer_types"));
        else if (on)
            S2_TRY(derive(r));
        fill_last(r);
        return S2_OK;
    }
}

/* ---- sizes -------------------------------------------------------------------------------------- */

static bool uses(const reader *r, s2_layer_kind kind)
{
    for (int64_t layer = 0; layer < r->n_layers; layer++)
        if (r->out->kind[layer] == kind)
            return true;
    return false;
}

/* A size that layers use: stated, else the default of the type's code, with a note. */
static s2_status read_size(const reader *r, const char *key, int64_t *out)
{
    char path[S2_DOC_PATH];
    const s2_source *const source = r->source;
    if (!has(r, key) && (is_null(r, key) || r->type.window_tok == 0))
        return s2_doc_refuse(source->doc, s2_doc_under(r->prefix, key, path), source->diag,
                             "layers use \"%s\", which is missing", key);
    S2_TRY(read_int(r, key, 1, S2_LIMIT_CONTEXT_TOK, r->type.window_tok, out));
    if (!has(r, key))
        s2_note(source->notes, "%s is absent: %lld, the default of this model_type", key, (long long)*out);
    return S2_OK;
}

static s2_status read_window(const reader *r, int64_t *out)
{
    char path[S2_DOC_PATH];
    bool on = true;
    if (r->type.rule >= S2_RULE_SWITCHED && r->type.rule <= S2_RULE_SWITCHED_ROTARY)
        S2_TRY(read_bool(r, "use_sliding_window", false, &on));
    if (!on && r->type.rule != S2_RULE_SWITCHED_ROTARY)
        return s2_doc_refuse(r->source->doc, s2_doc_under(r->prefix, "layer_types", path), r->source->diag,
                             "layer_types names sliding layers, but use_sliding_window is not true");
    if (r->type.rule == S2_RULE_GPT_NEO)
        return read_size(r, "window_size", out);
    if (r->type.rule == S2_RULE_HALVES && !has(r, "sliding_window")) {
        S2_TRY(read_size(r, "local_attention", out));
        *out /= 2;
        return S2_OK;
    }
    if (r->type.rule == S2_RULE_MIMO && has(r, "sliding_window_size")) {
        S2_TRY(read_size(r, "sliding_window_size", out));
        *out += 1;
        s2_note(r->source->notes, "sliding_window_size leaves the query out: the window is %lld keys",
                (long long)*out);
        return S2_OK;
    }
    return read_size(r,
                     has(r, "attention_window_size") ? "attention_window_size"
                     : has(r, "sliding_window_size") ? "sliding_window_size"
                                                     : "sliding_window",
                     out);
}

/* ---- layers that differ ------------------------------------------------------------------------- */

static s2_status new_numbers(const reader *r, int32_t value, int32_t **out)
{
    if (*out != NULL)
        return S2_OK;
    *out = S2_NEW(r->source->arena, int32_t, r->n_layers);
    for (int64_t layer = 0; *out != NULL && layer < r->n_layers; layer++)
        (*out)[layer] = value;
    return *out != NULL ? S2_OK : S2_ENOMEM;
}

/* Layers of one kind have their own KV heads or head dimension, under this key. */
static s2_status read_of_kind(const reader *r, const char *key, s2_layer_kind kind, int64_t high,
                              int32_t **out)
{
    int64_t value;
    if (!has(r, key))
        return S2_OK;
    S2_TRY(read_int(r, key, 1, high, 0, &value));
    S2_TRY(new_numbers(r, 0, out));
    for (int64_t layer = 0; layer < r->n_layers; layer++)
        if (r->out->kind[layer] == kind)
            (*out)[layer] = (int32_t)value;
    return S2_OK;
}

/* per_layer_config: {"05": {"head_dim": 512, "num_key_value_heads": 2}, ...} */
static s2_status read_per_layer(const reader *r)
{
    char path[S2_DOC_PATH], holder[S2_DOC_PATH];
    const char *key = NULL;
    (void)s2_doc_under(r->prefix, "per_layer_config", holder);
    while ((key = s2_doc_key(r->source->doc, holder, key)) != NULL) {
        static const char *const names[] = {"num_key_value_heads", "head_dim"};
        int32_t **const into[] = {&r->out->kv_heads, &r->out->head_dim};
        char *end;
        const long layer = strtol(key, &end, 10);
        if (end == key || *end != '\0' || layer < 0 || layer >= r->n_layers)
            return s2_doc_refuse(r->source->doc, holder, r->source->diag,
                                 "\"%.20s\" is not the number of a layer", key);
        for (int k = 0; k < 2; k++) {
            int64_t value;
            snprintf(path, sizeof path, "%.80s/%.20s/%s", holder, key, names[k]);
            if (!s2_doc_has(r->source->doc, path))
                continue;
            S2_TRY(s2_doc_int(r->source->doc, path, 1, S2_LIMIT_HEAD_DIM, &value, r->source->diag));
            S2_TRY(new_numbers(r, 0, into[k]));
            (*into[k])[layer] = (int32_t)value;
        }
    }
    return S2_OK;
}

/* num_kv_shared_layers: each of the last ones reads the keys of the last layer before them of its kind. */
static s2_status read_shared(const reader *r)
{
    char path[S2_DOC_PATH];
    int64_t n;
    S2_TRY(read_int(r, "num_kv_shared_layers", 0, r->n_layers - 1, 0, &n));
    if (n == 0)
        return S2_OK;
    S2_TRY(new_numbers(r, -1, &r->out->kv_layer));
    const int64_t first = r->n_layers - n;
    for (int64_t layer = first; layer < r->n_layers; layer++) {
        int64_t of = first - 1;
        while (of >= 0 && r->out->kind[of] != r->out->kind[layer])
            of--;
        if (of < 0)
            return s2_doc_refuse(r->source->doc, s2_doc_under(r->prefix, "num_kv_shared_layers", path),
                                 r->source->diag,
                                 "layer %lld shares keys, and no layer before %lld is of its kind",
                                 (long long)layer, (long long)first);
        r->out->kv_layer[layer] = (int32_t)of;
    }
    s2_note(r->source->notes, "the last %lld layers read the keys of earlier ones and cache none",
            (long long)n);
    return S2_OK;
}

/* Inkling: layers with a window have their own numbers of heads. */
static s2_status read_inkling(const reader *r)
{
    char path[S2_DOC_PATH];
    int64_t n_heads, n_own;
    S2_TRY(read_int(r, "num_attention_heads", 1, S2_LIMIT_HEADS, 0, &n_heads));
    S2_TRY(read_int(r, "swa_num_attention_heads", 1, S2_LIMIT_HEADS, n_heads, &n_own));
    if (n_own != n_heads)
        return s2_doc_refuse(
            r->source->doc, s2_doc_under(r->prefix, "swa_num_attention_heads", path), r->source->diag,
            "layers with a window have %lld query heads, others %lld: a pattern has one number of heads",
            (long long)n_own, (long long)n_heads);
    S2_TRY(read_of_kind(r, "swa_num_key_value_heads", S2_LAYER_SLIDING, S2_LIMIT_HEADS, &r->out->kv_heads));
    return read_of_kind(r, "swa_head_dim", S2_LAYER_SLIDING, S2_LIMIT_HEAD_DIM, &r->out->head_dim);
}

/* Step-3.5: layers with a window may have more query heads, under a word of its authors or of transformers. */
static s2_status check_sliding_heads(const reader *r)
{
    static const char *const keys[] = {"attention_other_setting/num_attention_heads",
                                       "num_sliding_attention_heads"};
    char path[S2_DOC_PATH];
    for (size_t n = 0; n < sizeof keys / sizeof *keys; n++) {
        int64_t all, own;
        if (!has(r, keys[n]))
            continue;
        S2_TRY(read_int(r, "num_attention_heads", 1, S2_LIMIT_HEADS, 0, &all));
        S2_TRY(read_int(r, keys[n], 1, S2_LIMIT_HEADS, all, &own));
        if (all != own)
            return s2_doc_refuse(
                r->source->doc, s2_doc_under(r->prefix, keys[n], path), r->source->diag,
                "layers with a window have %lld query heads, others %lld: a pattern has one number of heads",
                (long long)own, (long long)all);
    }
    return S2_OK;
}

/* Query heads by layer: the language has one number for all. */
static s2_status check_query_heads(const reader *r)
{
    char path[S2_DOC_PATH];
    int64_t all, own;
    S2_TRY(check_sliding_heads(r));
    const int64_t n =
        s2_doc_len(r->source->doc, s2_doc_under(r->prefix, "num_attention_heads_per_layer", path));
    for (int64_t layer = 0; layer < n; layer++) {
        S2_TRY(read_int(r, "num_attention_heads", 1, S2_LIMIT_HEADS, 0, &all));
        snprintf(path, sizeof path, "%s/num_attention_heads_per_layer/%lld", r->prefix, (long long)layer);
        S2_TRY(s2_doc_int(r->source->doc, path, 1, S2_LIMIT_HEADS, &own, r->source->diag));
        if (all != own)
            return s2_doc_refuse(
                r->source->doc, path, r->source->diag,
                "layer %lld has %lld query heads, others %lld: a pattern has one number of heads",
                (long long)layer, (long long)own, (long long)all);
    }
    return S2_OK;
}

/* MiMo: sliding layers have twice the KV heads, and keys are wider than values. */
static s2_status read_mimo(const reader *r)
{
    int64_t n_kv, k_dim, v_dim;
    S2_TRY(read_int(r, "num_key_value_heads", 1, S2_LIMIT_HEADS, 4, &n_kv));
    S2_TRY(read_int(r, "swa_num_key_value_heads", 1, S2_LIMIT_HEADS, 2 * n_kv, &n_kv));
    S2_TRY(read_int(r, "head_dim", 1, S2_LIMIT_HEAD_DIM, r->type.head_dim, &k_dim));
    S2_TRY(read_int(r, "v_head_dim", 1, S2_LIMIT_HEAD_DIM, 128, &v_dim));
    S2_TRY(new_numbers(r, 0, &r->out->kv_heads));
    S2_TRY(new_numbers(r, (int32_t)((k_dim + v_dim + 1) / 2), &r->out->head_dim));
    for (int64_t layer = 0; layer < r->n_layers; layer++)
        if (r->out->kind[layer] == S2_LAYER_SLIDING)
            r->out->kv_heads[layer] = (int32_t)n_kv;
    s2_note(r->source->notes, "keys of %lld and values of %lld elements are written as heads of their mean",
            (long long)k_dim, (long long)v_dim);
    return S2_OK;
}

static s2_status read_differences(const reader *r)
{
    S2_TRY(check_query_heads(r));
    if (r->type.rule == S2_RULE_MIMO)
        S2_TRY(read_mimo(r));
    if (is_inkling(r))
        S2_TRY(read_inkling(r));
    S2_TRY(read_of_kind(r, "num_global_key_value_heads", S2_LAYER_FULL, S2_LIMIT_HEADS, &r->out->kv_heads));
    S2_TRY(read_of_kind(r, "global_head_dim", S2_LAYER_FULL, S2_LIMIT_HEAD_DIM, &r->out->head_dim));
    S2_TRY(read_per_layer(r));
    return read_shared(r);
}

/* ---- both ways ---------------------------------------------------------------------------------- */

static bool is_gemma3(const reader *r)
{
    return r->name != NULL && strncmp(r->name, "gemma3", 6) == 0 && strncmp(r->name, "gemma3n", 7) != 0;
}

/* use_bidirectional_attention: in Gemma 3 a window of W then reaches W / 2 to both sides. */
static s2_status read_bidirectional(const reader *r)
{
    char path[S2_DOC_PATH];
    bool both = false;
    const char *const key = "use_bidirectional_attention";
    const char *const word = s2_doc_text(r->source->doc, s2_doc_under(r->prefix, key, path));
    if (word != NULL && strcmp(word, "vision") == 0) {
        s2_note(r->source->notes, "the tokens of an image read each other both ways, which is not shown");
        return S2_OK;
    }
    if (word != NULL)
        return refuse_both_ways(r, key);
    S2_TRY(read_bool(r, key, false, &both));
    if (!both)
        return S2_OK;
    if (!is_gemma3(r) || r->prefix[0] != '\0')
        return refuse_both_ways(r, key);
    r->out->causal = false;
    if (r->out->window_tok > 0)
        r->out->window_tok = r->out->window_tok / 2 + 1;
    return S2_OK;
}

/* Types whose own code hides later keys whatever is_causal says, in some of its paths. */
static bool keeps_causality(const reader *r)
{
    static const char *const names[] = {"nemotron", "openai-gpt", "prophetnet", "stablelm"};
    for (size_t n = 0; r->name != NULL && n < sizeof names / sizeof *names; n++)
        if (strcmp(r->name, names[n]) == 0)
            return true;
    return false;
}

/* The key that makes an encoder causal; XLNet's is a word. */
static s2_status read_decoder_key(const reader *r)
{
    char path[S2_DOC_PATH];
    const char *const key = r->type.period_key != NULL ? r->type.period_key : "is_decoder";
    const char *const word = s2_doc_text(r->source->doc, s2_doc_under(r->prefix, key, path));
    r->out->causal = word != NULL && strcmp(word, "uni") == 0;
    if (word == NULL)
        S2_TRY(read_bool(r, key, false, &r->out->causal));
    s2_note(r->source->notes,
            r->out->causal ? "by %s no query reads a later key"
                           : "by %s, or without it, queries read both ways",
            key);
    return S2_OK;
}

static s2_status read_causality(const reader *r)
{
    bool causal = true;
    r->out->causal = true;
    if (r->type.rule == S2_RULE_ENCODER)
        S2_TRY(read_decoder_key(r));
    S2_TRY(read_bool(r, "is_causal", true, &causal));
    S2_TRY(read_bidirectional(r));
    if (causal || !r->out->causal)
        return S2_OK;
    if (r->out->chunk_tok > 0 || r->name == NULL || r->type.rule == S2_RULE_GPT_NEO || keeps_causality(r))
        return refuse_both_ways(r, "is_causal");
    r->out->causal = false;
    r->out->window_tok += r->out->window_tok > 0;
    s2_note(r->source->notes, "is_causal is false: windows reach sliding_window tokens to both sides");
    return S2_OK;
}

/* ---- which rule --------------------------------------------------------------------------------- */

static s2_status refuse_unknown_type(const reader *r)
{
    char path[S2_DOC_PATH];
    const s2_status status = s2_doc_refuse(
        r->source->doc, s2_doc_under(r->prefix, "model_type", path), r->source->diag,
        "%s%.40s: which keys its layers read is not known here; if you know, say it: --set rule=full (every "
        "layer), window (sliding_window in every layer) or types (layer_types)",
        r->name != NULL ? "model_type " : "no model_type", r->name != NULL ? r->name : "");
    return status == S2_EPARSE ? S2_EUNSUPPORTED : status;
}

/* Types whose layers are not those of any rule, so that naming one would be wrong, and why. */
static s2_status refuse_by_name(const reader *r)
{
    static const struct {
        const char *type, *why;
    } rows[] = {{"nemotron-nas",
                 "block_configs gives each layer KV heads and a feed-forward of its own, or neither"}};
    char path[S2_DOC_PATH];
    for (size_t n = 0; r->name != NULL && n < sizeof rows / sizeof *rows; n++)
        if (strcmp(r->name, rows[n].type) == 0) {
            const s2_status status =
                s2_doc_refuse(r->source->doc, s2_doc_under(r->prefix, "model_type", path), r->source->diag,
                              "model_type %s: %s, which is not read here, nor by a rule of --set: write the "
                              "layers that attend as a "
                              "pattern of their own",
                              rows[n].type, rows[n].why);
            return status == S2_EPARSE ? S2_EUNSUPPORTED : status;
        }
    return S2_OK;
}

/* Hunyuan's own code lets layers share keys where transformers, which has the same type, does not. */
static s2_status refuse_shared_keys(const reader *r)
{
    char path[S2_DOC_PATH];
    bool shares;
    S2_TRY(read_bool(r, "use_cla", false, &shares));
    if (!shares)
        return S2_OK;
    return s2_doc_refuse(r->source->doc, s2_doc_under(r->prefix, "use_cla", path), r->source->diag,
                         "use_cla: its authors' code shares keys between layers, transformers does not; if "
                         "what runs it does not, say it: --set rule=full");
}

/* By the user's setting, else the table; layer_types is trusted in a file without model_type. */
static s2_status choose_rule(reader *r)
{
    static const struct {
        const char *word;
        s2_model_rule rule;
    } words[] = {{"full", S2_RULE_FULL}, {"window", S2_RULE_WINDOW}, {"types", S2_RULE_TYPES}};
    const char *const word = s2_setting_text(&r->source->settings, "rule");
    const s2_model_type *const known = s2_model_type_find(r->name);
    int64_t every = -1;
    S2_TRY(
        s2_setting_int(&r->source->settings, "full-every", 0, S2_LIMIT_LAYERS, -1, &every, r->source->diag));
    if (known != NULL)
        r->type = *known;
    for (size_t w = 0; word != NULL && w < sizeof words / sizeof *words; w++)
        if (strcmp(word, words[w].word) == 0) {
            r->type.rule = words[w].rule;
            return S2_OK;
        }
    if (word != NULL)
        return s2_diag_set(r->source->diag, S2_EINVAL, S2_CODE_FOREIGN, 0, 0,
                           "--set rule=%.40s: expected full, window or types", word);
    if (known != NULL)
        return refuse_shared_keys(r);
    S2_TRY(refuse_by_name(r));
    if ((r->name != NULL || !has(r, "layer_types")) && every < 0)
        return refuse_unknown_type(r);
    r->type.rule = has(r, "attention_chunk_size") && !has(r, "layer_types") ? S2_RULE_CHUNKS : S2_RULE_TYPES;
    return S2_OK;
}

/* Note what the code of a type reads for some inputs only. */
static void note_inputs(const reader *r)
{
    static const struct {
        const char *type, *note;
    } rows[] = {
        {"git", "the tokens of an image read each other both ways, which is not shown"},
        {"mllama_text_model", "layers that read an image are left out; without one they compute nothing"},
        {"hrm_text", "tokens that token_type_ids marks read each other both ways, which is not shown"}};
    for (size_t n = 0; r->name != NULL && n < sizeof rows / sizeof *rows; n++)
        if (strcmp(r->name, rows[n].type) == 0)
            s2_note(r->source->notes, "%s", rows[n].note);
}

/* The states of those kinds of layers that keep one. */
static s2_status read_states(const reader *r)
{
    int64_t *const bytes = r->out->state_bytes;
    const bool in_all = r->type.rule == S2_RULE_PARALLEL;
    for (int kind = 0; kind < S2_N_LAYER_KINDS; kind++) {
        if (!uses(r, (s2_layer_kind)kind) || (!in_all && kind != S2_LAYER_RECURRENT))
            continue;
        if (kind == S2_LAYER_RECURRENT && bytes[S2_LAYER_FULL] > 0)
            bytes[kind] = bytes[S2_LAYER_FULL];
        else
            S2_TRY(
                s2_model_state_read(r->source, r->prefix, r->name, kind == S2_LAYER_SLIDING, &bytes[kind]));
    }
    return S2_OK;
}

s2_status s2_model_layers_read(const s2_source *source, const char *prefix, int64_t n_layers,
                               s2_model_layers *out)
{
    *out = (s2_model_layers){.kind = S2_NEW(source->arena, uint16_t, n_layers)};
    if (out->kind == NULL)
        return S2_ENOMEM;
    reader r = {source, prefix, s2_model_type_name(source->doc, prefix), {0}, n_layers, out};
    S2_TRY(choose_rule(&r));
    S2_TRY(read_kinds(&r));
    if (uses(&r, S2_LAYER_SLIDING))
        S2_TRY(read_window(&r, &out->window_tok));
    if (uses(&r, S2_LAYER_CHUNKED))
        S2_TRY(read_size(&r, "attention_chunk_size", &out->chunk_tok));
    S2_TRY(read_states(&r));
    S2_TRY(read_differences(&r));
    note_inputs(&r);
    return read_causality(&r);
}

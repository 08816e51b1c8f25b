/*
 * HeadKV: a score per layer and query head, {"layer-head": [numbers]}. A share of every head's budget goes to
 * a pool, which is dealt out by score.
 */
#include "export/budget.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_HEADS = 8192, MOST_SCORES = 4096 };

static bool is_key(const char *key, int64_t *layer, int64_t *head)
{
    char *end;
    if (key == NULL || !isdigit((unsigned char)key[0]))
        return false;
    *layer = strtoll(key, &end, 10);
    if (*end != '-' || !isdigit((unsigned char)end[1]))
        return false;
    *head = strtoll(end + 1, &end, 10);
    return *end == '\0';
}

static int recognises(const s2_source *source)
{
    int64_t layer, head;
    char path[280];
    const char *const key = source->doc != NULL ? s2_doc_key(source->doc, "", NULL) : NULL;
    if (!is_key(key, &layer, &head))
        return 0;
    snprintf(path, sizeof path, "/%.250s", key);
    return s2_doc_is_array(source->doc, path) ? 90 : 0;
}

/* Layers and heads, from the keys, which must fill a whole table. */
static s2_status read_shape(const s2_source *source, int64_t *n_layers, int64_t *n_heads)
{
    const int64_t n = s2_doc_len(source->doc, "");
    int64_t last_layer = -1, last_head = -1;
    *n_layers = *n_heads = 0;
    if (n > MOST_HEADS)
        return s2_doc_refuse(source->doc, "", source->diag, "more than %d heads", MOST_HEADS);
    const char *key = NULL;
    while ((key = s2_doc_key(source->doc, "", key)) != NULL) {
        int64_t layer, head;
        char path[280];
        snprintf(path, sizeof path, "/%.250s", key);
        if (!is_key(key, &layer, &head) || layer >= S2_LIMIT_LAYERS || head >= S2_LIMIT_HEADS)
            return s2_doc_refuse(source->doc, path, source->diag, "expected \"layer-head\": [scores]");
        if (layer < last_layer || (layer == last_layer && head <= last_head))
            return s2_doc_refuse(source->doc, path, source->diag,
                                 "HeadKV takes scores in the order of the file, whatever their names: "
                                 "%lld-%lld must not follow %lld-%lld",
                                 (long long)layer, (long long)head, (long long)last_layer,
                                 (long long)last_head);
        last_layer = layer;
        last_head = head;
        *n_layers = layer >= *n_layers ? layer + 1 : *n_layers;
        *n_heads = head >= *n_heads ? head + 1 : *n_heads;
    }
    return *n_layers * *n_heads == n
               ? S2_OK
               : s2_doc_refuse(source->doc, "", source->diag,
                               "%lld scores are not a table of %lld layers of %lld heads", (long long)n,
                               (long long)*n_layers, (long long)*n_heads);
}

static s2_status read_score(const s2_source *source, int64_t layer, int64_t head, double *out)
{
    char path[64], entry[96];
    double sum = 0;
    snprintf(path, sizeof path, "/%lld-%lld", (long long)layer, (long long)head);
    const int64_t n = s2_doc_len(source->doc, path);
    if (!s2_doc_is_array(source->doc, path) || n < 1 || n > MOST_SCORES)
        return s2_doc_refuse(source->doc, path, source->diag, "layer %lld head %lld needs 1 to %d scores",
                             (long long)layer, (long long)head, MOST_SCORES);
    for (int64_t nth = 0; nth < n; nth++) {
        double score;
        snprintf(entry, sizeof entry, "%s/%lld", path, (long long)nth);
        S2_TRY(s2_doc_num(source->doc, entry, 0, 1e9, &score, source->diag));
        sum += score;
    }
    *out = sum / (double)n;
    return S2_OK;
}

typedef struct deal {
    int64_t capacity, window;
    double beta, temp;
} deal;

/* Python's a // b for floats, which uses the remainder: 1.0 // 0.1 is 9, but 1.0 / 0.1 is 10. */
static double floored_quotient(double a, double b)
{
    const double quotient = (a - fmod(a, b)) / b, down = floor(quotient);
    return quotient - down > 0.5 ? down + 1 : down;
}

/* Each head's share of all scores, raised to temp and normalised again. */
static s2_status read_shares(const s2_source *source, double temp, int64_t n_heads, int64_t n, double *share)
{
    double sum = 0, sum_raised = 0;
    for (int64_t at = 0; at < n; at++) {
        S2_TRY(read_score(source, at / n_heads, at % n_heads, &share[at]));
        sum += share[at];
    }
    if (!(sum > 0))
        return s2_doc_refuse(source->doc, "", source->diag,
                             "every score is 0, and HeadKV divides by their sum");
    for (int64_t at = 0; at < n; at++) {
        share[at] = pow(share[at] / sum, temp);
        sum_raised += share[at];
    }
    for (int64_t at = 0; at < n; at++)
        share[at] /= sum_raised;
    return S2_OK;
}

/* Keys that each head chooses: the pool by score, and what every head has. The window comes on top. */
static s2_status deal_out(const s2_source *source, const deal *by, int64_t n_layers, int64_t n_heads,
                          uint16_t *keys)
{
    const int64_t n = n_layers * n_heads;
    double *const share = S2_NEW(source->arena, double, n);
    if (share == NULL)
        return S2_ENOMEM;
    S2_TRY(read_shares(source, by->temp, n_heads, n, share));
    const double base = (double)(by->capacity - by->window);
    const double each = floored_quotient(base, by->beta), pool = each * (double)n_layers * (double)n_heads;
    for (int64_t nth = 0; nth < n; nth++) {
        const double chosen = rint(share[nth] * pool + (base - each));
        if (chosen > UINT16_MAX)
            return s2_doc_refuse(source->doc, "", source->diag,
                                 "layer %lld head %lld would choose %.0f keys, more than %d",
                                 (long long)(nth / n_heads), (long long)(nth % n_heads), chosen, UINT16_MAX);
        keys[nth] = (uint16_t)chosen;
    }
    return S2_OK;
}

/* Heads that choose the same number of keys are one role. */
static s2_status number_roles(const s2_source *source, const deal *by, uint16_t *keys, int64_t n,
                              const char ***bodies, int32_t *n_roles)
{
    const char **const body = S2_NEW(source->arena, const char *, n);
    int32_t *const role_of = S2_NEW(source->arena, int32_t, UINT16_MAX + 1);
    if (body == NULL || role_of == NULL)
        return S2_ENOMEM;
    *n_roles = 0;
    for (int64_t nth = 0; nth < n; nth++) {
        const int32_t chosen = keys[nth];
        if (role_of[chosen] == 0) {
            char text[64];
            const int len = chosen > 0 ? snprintf(text, sizeof text, "heavy %d | local %lldt", chosen,
                                                  (long long)by->window)
                                       : snprintf(text, sizeof text, "local %lldt", (long long)by->window);
            body[*n_roles] = s2_arena_strndup(source->arena, text, (size_t)len);
            if (body[*n_roles] == NULL)
                return S2_ENOMEM;
            role_of[chosen] = ++*n_roles;
        }
        keys[nth] = (uint16_t)(role_of[chosen] - 1);
    }
    *bodies = body;
    return S2_OK;
}

static s2_status read_deal(const s2_source *source, deal *out)
{
    const s2_settings *const set = &source->settings;
    S2_TRY(s2_setting_int(set, "capacity", 2, UINT16_MAX, 512, &out->capacity, source->diag));
    S2_TRY(s2_setting_int(set, "window", 1, out->capacity - 1, out->capacity > 8 ? 8 : 1, &out->window,
                          source->diag));
    S2_TRY(s2_setting_num(set, "temp", 1e-3, 1e3, 1, &out->temp, source->diag));
    return s2_setting_num(set, "beta", 1, 1e6, 1.01, &out->beta, source->diag);
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    int64_t n_layers, n_heads, n_kv, head_dim;
    int32_t n_roles;
    const char **bodies;
    deal by;
    s2_buf text = {0};
    S2_TRY(s2_source_needs(source, recognises(source) > 0, "{\"layer-head\": [scores], ...}"));
    S2_TRY(read_shape(source, &n_layers, &n_heads));
    S2_TRY(read_deal(source, &by));
    S2_TRY(s2_setting_int(&source->settings, "kv-heads", 1, n_heads, n_heads, &n_kv, source->diag));
    S2_TRY(s2_setting_int(&source->settings, "head-dim", 1, S2_LIMIT_HEAD_DIM, 128, &head_dim, source->diag));
    if (n_heads % n_kv != 0)
        return s2_diag_set(source->diag, S2_EINVAL, S2_CODE_FOREIGN, 0, 0,
                           "%lld KV heads do not divide %lld heads", (long long)n_kv, (long long)n_heads);
    uint16_t *const role = S2_NEW(source->arena, uint16_t, n_layers * n_heads);
    if (role == NULL)
        return S2_ENOMEM;
    S2_TRY(deal_out(source, &by, n_layers, n_heads, role));
    S2_TRY(number_roles(source, &by, role, n_layers * n_heads, &bodies, &n_roles));
    s2_language_name(&text, source->name);
    s2_language_shape(&text, n_layers, n_heads, n_kv, head_dim, 64);
    s2_buf_puts(&text, "prefill layers all: dense\n");
    s2_language_roles(&text, "decode ", "heads", (int32_t)n_layers, (int32_t)n_heads, role, bodies, n_roles);
    s2_note(source->notes,
            "the file has scores only: %lld keys a head, of which the last %lld tokens are always kept and "
            "%s divides the others between the pool and every head, are assumed, and scores count to the "
            "power of %s (--set capacity=, window=, beta=, temp=)",
            (long long)by.capacity, (long long)by.window, s2_decimal(by.beta, 6).text,
            s2_decimal(by.temp, 6).text);
    s2_note(source->notes, "scores count query heads; upstream keeps a cache per query head, so a grouped "
                           "model stores every copy (--set kv-heads=N for the union)");
    return s2_language_parse(source, &text, out);
}

const s2_format s2_format_headkv = {
    .name = "headkv",
    .summary = "HeadKV head scores {\"layer-head\": [scores]}",
    .settings = "capacity (512), beta (1.01), temp (1), window (8), kv-heads, head-dim",
    .recognises = recognises,
    .read = import};

#include "coverage/answer.h"

#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "base/text.h"

/* ---- what is asked */

static const char *nearest_property(const char *word, size_t len)
{
    const char *best = NULL;
    int32_t best_distance = 3;
    for (int property = 0; property < S2_N_PROPERTIES; property++) {
        const char *const known = s2_property_word((s2_property)property);
        const int32_t distance = s2_text_distance(word, len, known, best_distance);
        if (distance < best_distance) {
            best = known;
            best_distance = distance;
        }
    }
    return best;
}

static bool takes_argument(s2_property property)
{
    return property == S2_RANKS || property == S2_DEPTH;
}

/* A number up to the end of the word; false when there is none or it is too large. */
static bool argument_parse(const char *text, size_t len, int32_t *out)
{
    int64_t value = 0;
    for (size_t at = 0; at < len; at++) {
        if (text[at] < '0' || text[at] > '9' || value > S2_LIMIT_HEADS)
            return false;
        value = value * 10 + (text[at] - '0');
    }
    *out = (int32_t)value;
    return len > 0 && value >= 1 && value <= S2_LIMIT_HEADS;
}

static s2_status requirement_parse(const char *word, size_t len, int32_t col, s2_requirement *out,
                                   s2_diag *diag)
{
    const char *const colon = memchr(word, ':', len);
    const size_t name_len = colon != NULL ? (size_t)(colon - word) : len;
    for (int property = 0; property < S2_N_PROPERTIES; property++) {
        const char *const known = s2_property_word((s2_property)property);
        if (strlen(known) != name_len || memcmp(known, word, name_len) != 0)
            continue;
        *out = (s2_requirement){(s2_property)property, 0, true};
        if (!takes_argument(out->property))
            return colon == NULL ? S2_OK
                                 : s2_diag_set(diag, S2_EINVAL, 0, 0, col, "%s takes no argument", known);
        if (colon == NULL || !argument_parse(colon + 1, len - name_len - 1, &out->arg))
            return s2_diag_set(diag, S2_EINVAL, 0, 0, col, "%s needs a number from 1 to %d, as in %s:2",
                               known, S2_LIMIT_HEADS, known);
        return S2_OK;
    }
    const char *const near = nearest_property(word, name_len);
    return s2_diag_set(diag, S2_EINVAL, 0, 0, col, "unknown property %.*s%s%s%s", (int)name_len, word,
                       near != NULL ? "; did you mean "
                                    : " (rows, union, kv, group, shards, ranks:N, depth:D)",
                       near != NULL ? near : "", near != NULL ? "?" : "");
}

s2_status s2_requirements_parse(const char *list, s2_requirement *out, int32_t *n, s2_diag *diag)
{
    int32_t n_out = 0;
    for (const char *item = list;;) {
        const size_t len = strcspn(item, ",");
        const int32_t col = (int32_t)(item - list) + 1;
        if (n_out == S2_MOST_REQUIREMENTS)
            return s2_diag_set(diag, S2_EINVAL, 0, 0, col, "more than %d properties", S2_MOST_REQUIREMENTS);
        if (len == 0)
            return s2_diag_set(diag, S2_EINVAL, 0, 0, col, "a property is missing");
        S2_TRY(requirement_parse(item, len, col, &out[n_out], diag));
        bool again = false;
        for (int32_t earlier = 0; earlier < n_out; earlier++)
            again =
                again || (out[earlier].property == out[n_out].property && out[earlier].arg == out[n_out].arg);
        n_out += again ? 0 : 1;
        if (item[len] == '\0')
            break;
        item += len + 1;
    }
    *n = n_out;
    return S2_OK;
}

void s2_requirement_name(const s2_requirement *requirement, char *out, size_t cap)
{
    const char *const word = s2_property_word(requirement->property);
    if (takes_argument(requirement->property))
        snprintf(out, cap, "%s:%d", word, requirement->arg);
    else
        snprintf(out, cap, "%s", word);
}

s2_verdict s2_findings_verdict(const s2_finding *findings, int32_t n)
{
    s2_verdict verdict = S2_HOLDS;
    for (int32_t f = 0; f < n; f++) {
        if (!findings[f].requirement.required || findings[f].verdict == S2_HOLDS)
            continue;
        if (findings[f].verdict == S2_VIOLATED)
            return S2_VIOLATED;
        verdict = S2_UNKNOWN;
    }
    return verdict;
}

int32_t s2_finding_depth(const s2_pattern *pattern, const s2_finding *finding)
{
    int32_t longest = 0, run = 0, nth = 0;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
        const bool fails = nth < finding->n_failing_layers && finding->failing_layers[nth] == layer;
        nth += fails;
        run = fails || s2_pattern_is_state_layer(pattern, layer) ? run + 1 : 0;
        longest = s2_max_i32(longest, run);
    }
    return longest + 1;
}

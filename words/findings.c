#include "words/findings.h"

#include "coverage/answer.h"
#include "pattern/parse.h"
#include "words/explain.h"

static void json_scope(s2_buf *buf, int64_t scope_tok)
{
    s2_json_key(buf, "scope");
    if (scope_tok == S2_OPEN)
        s2_json_str(buf, "all");
    else
        s2_json_int(buf, scope_tok);
}

static void json_field(s2_buf *buf, const char *key, int64_t value)
{
    if (value < 0)
        return;
    s2_json_key_int(buf, key, value);
}

static void json_witness(const s2_pattern *pattern, const s2_witness *w, s2_buf *buf)
{
    s2_json_key_begin(buf, "witness", '{');
    json_field(buf, "layer", w->layer);
    json_field(buf, "head", w->head);
    json_field(buf, "rank", w->rank);
    if (s2_pattern_has_phases(pattern)) {
        s2_json_key_str(buf, "phase", s2_phase_word(w->phase));
    }
    json_field(buf, "query_block", w->q_tok / pattern->block_tok);
    json_field(buf, "key_block", w->k_tok >= 0 ? w->k_tok / pattern->block_tok : -1);
    json_field(buf, "query", w->q_tok);
    json_field(buf, "key", w->k_tok);
    json_field(buf, "earlier_query", w->earlier_q_tok);
    if (w->earlier_q_tok >= 0 && s2_pattern_has_phases(pattern)) {
        s2_json_key_str(buf, "earlier_phase", s2_phase_word(w->earlier_phase));
    }
    json_field(buf, "readers", w->readers);
    s2_json_end(buf, '}');
}

static void json_layers(const s2_finding *finding, s2_buf *buf)
{
    s2_buf list = {0};
    s2_layers_print(finding->failing_layers, finding->n_failing_layers, &list);
    s2_json_key_str(buf, "failing_layers", list.data != NULL ? list.data : "");
    if (list.status != S2_OK)
        buf->status = list.status;
    s2_buf_release(&list);
}

static void json_finding(const s2_pattern *pattern, const s2_finding *finding, s2_buf *buf)
{
    char name[32];
    s2_requirement_name(&finding->requirement, name, sizeof name);
    s2_json_begin(buf, '{');
    s2_json_key_str(buf, "name", name);
    s2_json_key_bool(buf, "required", finding->requirement.required);
    s2_json_key_str(buf, "verdict", s2_verdict_word(finding->verdict));
    json_scope(buf, finding->scope_tok);
    if (finding->verdict == S2_VIOLATED) {
        s2_json_key(buf, "complete_to");
        if (finding->complete_to_tok == S2_COMPLETE_UNKNOWN)
            s2_json_null(buf);
        else
            s2_json_int(buf, finding->complete_to_tok);
        json_layers(finding, buf);
        json_witness(pattern, &finding->witness, buf);
    }
    if (finding->verdict == S2_UNKNOWN) {
        s2_buf reason = {0};
        s2_explain_reason(finding, &reason);
        s2_json_key_str(buf, "reason", reason.data);
        s2_buf_release(&reason);
        json_layers(finding, buf);
    }
    s2_json_end(buf, '}');
}

/* The layers that are not judged; no key if there are none. */
static void json_state_layers(const s2_pattern *pattern, s2_buf *buf)
{
    bool any = false;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
        if (!s2_pattern_is_state_layer(pattern, layer))
            continue;
        if (!any) {
            s2_json_key_begin(buf, "state_layers", '[');
        }
        any = true;
        s2_json_int(buf, layer);
    }
    if (any)
        s2_json_end(buf, ']');
}

s2_status s2_findings_json(const s2_pattern *pattern, const char *name, const s2_finding *findings, int32_t n,
                           int64_t scope_tok, s2_buf *buf)
{
    char hash[S2_HASH_HEX];
    S2_TRY(s2_pattern_hash(pattern, hash));
    s2_json_begin(buf, '{');
    s2_json_key_str(buf, "schema", "s2check/1");
    s2_json_key_str(buf, "name", name);
    s2_json_key_str(buf, "hash", hash);
    json_field(buf, "layers", pattern->n_layers);
    json_field(buf, "heads", pattern->n_heads);
    json_field(buf, "kv_heads", pattern->n_kv_heads);
    json_field(buf, "block", pattern->block_tok);
    json_scope(buf, scope_tok);
    json_state_layers(pattern, buf);
    s2_json_key_str(buf, "verdict", s2_verdict_word(s2_findings_verdict(findings, n)));
    s2_json_key_begin(buf, "properties", '[');
    for (int32_t f = 0; f < n; f++)
        json_finding(pattern, &findings[f], buf);
    s2_json_end(buf, ']');
    s2_json_end(buf, '}');
    s2_buf_puts(buf, "\n");
    return buf->status;
}

#include "cli/check.h"

#include <stdio.h>
#include <string.h>

#include "coverage/extent.h"
#include "pattern/parse.h"
#include "words/explain.h"
#include "words/size.h"

/* ---- text */

/* In a pattern that is not causal, a shorter context is not a part of a longer one. */
static void text_line(const s2_finding *finding, bool causal, s2_buf *buf)
{
    char name[32];
    s2_requirement_name(&finding->requirement, name, sizeof name);
    s2_buf_printf(buf, "  %-10s %-9s ", name,
                  finding->verdict == S2_VIOLATED ? "VIOLATED" : s2_verdict_word(finding->verdict));
    if (finding->verdict == S2_HOLDS) {
        if (finding->scope_tok == S2_OPEN)
            s2_buf_puts(buf, "for every context length\n");
        else
            s2_buf_printf(buf, "for contexts %s %s\n", causal ? "up to" : "of",
                          s2_count_text(finding->scope_tok, "token").text);
        return;
    }
    if (finding->verdict == S2_VIOLATED && finding->complete_to_tok == S2_COMPLETE_UNKNOWN)
        s2_buf_puts(buf, "fails, where first is not decided, in ");
    else if (finding->verdict == S2_VIOLATED)
        s2_buf_printf(buf, "holds up to %s, then fails in ",
                      s2_count_text(finding->complete_to_tok, "token").text);
    else if (finding->n_failing_layers > 0)
        s2_buf_puts(buf, "in ");
    if (finding->n_failing_layers > 0) {
        s2_buf_puts(buf, finding->n_failing_layers == 1 ? "layer " : "layers ");
        s2_layers_print(finding->failing_layers, finding->n_failing_layers, buf);
    }
    if (finding->verdict == S2_UNKNOWN) {
        s2_buf_puts(buf, finding->n_failing_layers > 0 ? ": " : "");
        s2_explain_reason(finding, buf);
    }
    s2_buf_puts(buf, "\n");
}

static const char INDENT[] = "    ";

typedef s2_status explain(const s2_pattern *, const s2_finding *, const char *indent, s2_buf *);

/* What one explanation has to say, under its title; without anything to say no title either. */
static s2_status text_extra(const char *title, explain *say, const s2_pattern *pattern,
                            const s2_finding *finding, s2_buf *buf)
{
    s2_buf extra = {0};
    const s2_status status = say(pattern, finding, INDENT, &extra);
    if (status == S2_OK && extra.len > 0)
        s2_buf_printf(buf, "  %s\n%s", title, extra.data);
    s2_buf_release(&extra);
    return status;
}

static s2_status text_violation(const s2_pattern *pattern, s2_replay replay, const s2_finding *finding,
                                s2_buf *buf)
{
    const s2_witness *const w = &finding->witness;
    const s2_range heads = s2_witness_heads(pattern, finding);
    char name[32];
    s2_requirement_name(&finding->requirement, name, sizeof name);
    s2_buf_printf(buf, "\n%s: ", name);
    s2_explain_witness(pattern, finding, buf);
    s2_buf_puts(buf, "\n");
    if (w->k_tok >= 0) {
        s2_buf_puts(buf, "  why\n");
        S2_TRY(s2_explain_pair(pattern, w->phase, w->layer, heads, w->q_tok, w->k_tok, INDENT, buf));
        if (w->earlier_q_tok >= 0) {
            s2_buf_printf(buf, "  but at query %lld", (long long)w->earlier_q_tok);
            s2_explain_earlier_phase(pattern, w, buf);
            s2_buf_puts(buf, "\n");
            S2_TRY(s2_explain_pair(pattern, w->earlier_phase, w->layer, heads, w->earlier_q_tok, w->k_tok,
                                   INDENT, buf));
        }
    }
    S2_TRY(text_extra("extent", s2_explain_extent, pattern, finding, buf));
    s2_buf_puts(buf, "  picture\n");
    S2_TRY(s2_explain_picture(pattern, finding, INDENT, buf));
    if (w->k_tok >= 0) {
        s2_buf_printf(buf, "  replay\n    %s --pair %lld,%lld %s\n", replay.program, (long long)w->q_tok,
                      (long long)w->k_tok, replay.words);
        if (w->earlier_q_tok >= 0)
            s2_buf_printf(buf, "    %s --pair %lld,%lld %s\n", replay.program, (long long)w->earlier_q_tok,
                          (long long)w->k_tok, replay.words);
    }
    S2_TRY(text_extra("repair (proved)", s2_explain_repair, pattern, finding, buf));
    return text_extra("through several layers (proved)", s2_explain_depth, pattern, finding, buf);
}

/* Layers that every verdict above left out. */
static void text_state_layers(const s2_pattern *pattern, s2_buf *buf)
{
    int32_t layers[S2_LIMIT_LAYERS], n = 0;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++)
        if (s2_pattern_is_state_layer(pattern, layer))
            layers[n++] = layer;
    if (n == 0)
        return;
    s2_buf_puts(buf, n == 1 ? "  not judged: layer " : "  not judged: layers ");
    s2_layers_print(layers, n, buf);
    s2_buf_printf(buf, " %s no keys; %s a state of fixed size, of which nothing is claimed\n",
                  n == 1 ? "reads" : "read", n == 1 ? "it keeps" : "they keep");
}

s2_status s2_findings_text(const s2_pattern *pattern, const char *name, s2_replay replay,
                           const s2_finding *findings, int32_t n, s2_buf *buf)
{
    char hash[S2_HASH_HEX];
    S2_TRY(s2_pattern_hash(pattern, hash));
    s2_buf_printf(buf, "%s: ", name[0] != '\0' ? name : "(unnamed)");
    s2_pattern_print_size(pattern, buf);
    s2_buf_printf(buf, ", block %d, %.12s\n", pattern->block_tok, hash);
    for (int32_t f = 0; f < n; f++)
        text_line(&findings[f], pattern->causal, buf);
    text_state_layers(pattern, buf);
    for (int32_t f = 0; f < n; f++)
        if (findings[f].verdict == S2_VIOLATED)
            S2_TRY(text_violation(pattern, replay, &findings[f], buf));
    return buf->status;
}

/* ---- database rows */

static const char *layers_text(s2_arena *arena, const s2_finding *finding)
{
    s2_buf list = {0};
    s2_layers_print(finding->failing_layers, finding->n_failing_layers, &list);
    const char *const text = s2_arena_strndup(arena, list.data != NULL ? list.data : "", list.len);
    s2_buf_release(&list);
    return text;
}

static const char *reason_text(s2_arena *arena, const s2_finding *finding)
{
    s2_buf reason = {0};
    s2_explain_reason(finding, &reason);
    const char *const text = s2_arena_strndup(arena, reason.data != NULL ? reason.data : "", reason.len);
    s2_buf_release(&reason);
    return text;
}

static int64_t or_none(int64_t value)
{
    return value >= 0 ? value : S2_DB_NONE;
}

s2_db_check s2_finding_row(s2_arena *arena, const s2_finding *finding, const char *engine, int64_t wall_us)
{
    char name[32];
    s2_requirement_name(&finding->requirement, name, sizeof name);
    const bool violated = finding->verdict == S2_VIOLATED;
    const bool complete = violated && finding->complete_to_tok != S2_COMPLETE_UNKNOWN;
    const s2_witness none = {.layer = -1, .head = -1, .q_tok = -1, .k_tok = -1};
    const s2_witness *const w = violated ? &finding->witness : &none;
    return (s2_db_check){
        .property = s2_arena_strndup(arena, name, strlen(name)),
        .verdict = (s2_db_verdict)finding->verdict,
        .required = finding->requirement.required,
        .scope_tok = finding->scope_tok == S2_OPEN ? S2_DB_NONE : finding->scope_tok,
        .complete_to_tok = complete ? finding->complete_to_tok : S2_DB_NONE,
        .layer = or_none(w->layer),
        .head = or_none(w->head),
        .query_tok = or_none(w->q_tok),
        .key_tok = or_none(w->k_tok),
        .failing_layers = finding->verdict == S2_HOLDS ? NULL : layers_text(arena, finding),
        .detail = finding->verdict == S2_UNKNOWN ? reason_text(arena, finding) : NULL,
        .engine = engine,
        .wall_us = wall_us,
    };
}

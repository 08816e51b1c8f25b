#include "cli/commands.h"
#include "pattern/folds.h"
#include "cli/color.h"
#include "cli/input.h"
#include "cli/options.h"
#include "export/compare.h"

#include <string.h>

#include "base/alloc.h"
#include "base/work.h"
#include "pattern/comb.h"

/* The lowest pair that one reads and the other does not. */
typedef struct difference {
    bool found;
    bool only_a;
    s2_phase phase;
    int32_t layer;
    int32_t head;
    int64_t q_tok;
    int64_t k_tok;
    bool certain; /* false: one of them may choose the key at run time, and the other reads it in no case */
} difference;

/* A row of one view, in a growing buffer. */
typedef struct row {
    const s2_view *view;
    s2_run *runs;
    int64_t cap;
    int64_t n;
} row;

static s2_status read_row(row *r, int64_t q_tok, int64_t n_tok, int64_t *work_left)
{
    return s2_view_row_whole(r->view, q_tok, n_tok, work_left, &r->runs, &r->cap, &r->n);
}

static s2_status compare_views(const s2_view *a, const s2_view *b, int64_t n_tok, int64_t *work_left,
                               difference *out)
{
    row rows[2] = {{.view = a}, {.view = b}};
    s2_status status = S2_OK;
    for (int64_t q_tok = 0; q_tok < n_tok && status == S2_OK && !out->found; q_tok++) {
        status = read_row(&rows[0], q_tok, n_tok, work_left);
        if (status == S2_OK)
            status = read_row(&rows[1], q_tok, n_tok, work_left);
        if (status != S2_OK)
            break;
        out->k_tok = s2_runs_first_difference(rows[0].runs, rows[0].n, rows[1].runs, rows[1].n, &out->only_a);
        out->found = out->k_tok != S2_OPEN;
        out->q_tok = q_tok;
    }
    s2_free(rows[0].runs);
    s2_free(rows[1].runs);
    return status;
}

/* Two patterns under comparison. */
typedef struct comparison {
    s2_cli *cli;
    const s2_input *a;
    const s2_input *b;
    int64_t n_tok;
    difference first;
    int64_t n_different; /* (phase, layer, head) that differ */
    int64_t n_compared;
    int64_t work_left; /* base/work.h */
} comparison;

/* With which class of the second pattern one of the first was compared last: most heads come in the same pairs. */
typedef struct known {
    int32_t other; /* class + 1; 0: none yet */
    difference result;
} known;

/* differs[layer * n_heads + head]: heads found so far, each of which counts once. */
static s2_status compare_heads(comparison *c, s2_phase phase, s2_bound bound, bool *differs)
{
    s2_arena *const arena = &c->cli->arena;
    const s2_pattern *const p = &c->a->pattern;
    s2_folds a, b;
    S2_TRY(s2_folds_build(arena, p, phase, bound, &a));
    S2_TRY(s2_folds_build(arena, &c->b->pattern, phase, bound, &b));
    known *const table = S2_NEW(arena, known, a.n_classes);
    if (table == NULL)
        return S2_ENOMEM;
    for (int64_t nth = 0; nth < (int64_t)p->n_layers * p->n_heads; nth++) {
        const int32_t x = a.class_of[nth], y = b.class_of[nth];
        known *const k = &table[x];
        if (k->other != y + 1) {
            *k = (known){.other = y + 1};
            if (!s2_view_equal(&a.views[x], &b.views[y]))
                S2_TRY(compare_views(&a.views[x], &b.views[y], c->n_tok, &c->work_left, &k->result));
        }
        c->n_different += k->result.found && !differs[nth];
        differs[nth] = differs[nth] || k->result.found;
        if (k->result.found && !c->first.found) {
            c->first = k->result;
            c->first.certain = bound == S2_AT_LEAST;
            c->first.phase = phase;
            c->first.layer = (int32_t)(nth / p->n_heads);
            c->first.head = (int32_t)(nth % p->n_heads);
        }
    }
    return S2_OK;
}

static bool chooses(const comparison *c)
{
    return s2_pattern_dynamic(&c->a->pattern) != NULL || s2_pattern_dynamic(&c->b->pattern) != NULL;
}

/* Dynamic terms are compared by what they certainly read and by what they might. */
static s2_status compare_all(comparison *c)
{
    const s2_pattern *const a = &c->a->pattern, *const b = &c->b->pattern;
    const int n_phases = s2_pattern_has_phases(a) || s2_pattern_has_phases(b) ? S2_N_RULE_PHASES : 1;
    for (int phase = 0; phase < n_phases; phase++) {
        bool *const differs = S2_NEW(&c->cli->arena, bool, (int64_t)a->n_layers * a->n_heads);
        if (differs == NULL)
            return S2_ENOMEM;
        c->n_compared += (int64_t)a->n_layers * a->n_heads;
        S2_TRY(compare_heads(c, (s2_phase)phase, S2_AT_LEAST, differs));
        if (chooses(c))
            S2_TRY(compare_heads(c, (s2_phase)phase, S2_AT_MOST, differs));
    }
    return S2_OK;
}

static void add_first(const comparison *c, s2_buf *buf)
{
    const difference *const d = &c->first;
    s2_json_key(buf, "first");
    if (!d->found) {
        s2_json_null(buf);
        return;
    }
    s2_json_begin(buf, '{');
    s2_json_key_str(buf, "phase", s2_phase_word(d->phase));
    const char *const key[] = {"layer", "head", "query", "key"};
    const int64_t value[] = {d->layer, d->head, d->q_tok, d->k_tok};
    for (size_t n = 0; n < sizeof key / sizeof key[0]; n++) {
        s2_json_key_int(buf, key[n], value[n]);
    }
    s2_json_key_str(buf, "read_by", d->only_a ? "a" : "b");
    s2_json_key_bool(buf, "certain", d->certain);
    s2_json_end(buf, '}');
}

static void add_json(const comparison *c, const char *shape, s2_buf *buf)
{
    s2_json_begin(buf, '{');
    s2_json_key_str(buf, "schema", "s2diff/1");
    s2_json_key_bool(buf, "same", shape == NULL && !c->first.found);
    s2_json_key_int(buf, "len", c->n_tok);
    s2_json_key_str(buf, "shape", shape);
    s2_json_key_int(buf, "heads_different", c->n_different);
    add_first(c, buf);
    s2_json_end(buf, '}');
    s2_buf_puts(buf, "\n");
}

static void add_text(const comparison *c, const char *shape, s2_buf *buf)
{
    const difference *const d = &c->first;
    if (shape != NULL)
        s2_buf_printf(buf, "different: %s\n", shape);
    else if (d->found)
        s2_buf_printf(buf,
                      "different: %slayer %d, head %d, query %lld, key %lld %s read by the %s only; %lld of "
                      "%lld heads differ at %s\n",
                      d->phase == S2_DECODE ? "decode, " : "", (int)d->layer, (int)d->head,
                      (long long)d->q_tok, (long long)d->k_tok, d->certain ? "is" : "may be",
                      d->only_a ? "first" : "second", (long long)c->n_different, (long long)c->n_compared,
                      s2_count_text(c->n_tok, "token").text);
    else
        s2_buf_printf(
            buf, "same pairs in %s%s at %s%s\n", c->n_compared > 1 ? "all " : "",
            s2_count_text(c->n_compared, "head").text, s2_count_text(c->n_tok, "token").text,
            chooses(c)
                ? ", those that are certain and those that may be: what pages, heavy and topk choose is data"
                : "");
}

/* How two layers differ besides their pairs: KV heads, head dimension, whose keys they read, state. */
static const char *layer_difference(s2_arena *arena, const s2_pattern *a, const s2_pattern *b)
{
    static const char *const word[] = {
#define S2_LAYER_WORD(name, word, ...) word,
        S2_LAYER_TABLE(S2_LAYER_WORD)
#undef S2_LAYER_WORD
    };
    for (int32_t layer = 0; layer < a->n_layers; layer++) {
        const int64_t own[][2] = {
            [S2_LAYER_KV_HEADS] = {s2_pattern_kv_heads(a, layer), s2_pattern_kv_heads(b, layer)},
            [S2_LAYER_HEAD_DIM] = {s2_pattern_head_dim(a, layer), s2_pattern_head_dim(b, layer)},
            [S2_LAYER_KV_LAYER] = {s2_pattern_kv_layer(a, layer), s2_pattern_kv_layer(b, layer)},
            [S2_LAYER_STATE] = {s2_pattern_state_bytes(a, layer), s2_pattern_state_bytes(b, layer)}};
        _Static_assert(sizeof own / sizeof *own == S2_N_LAYER_WORDS, "every number of a layer is compared");
        for (int n = 0; n < S2_N_LAYER_WORDS; n++)
            if (own[n][0] != own[n][1]) {
                s2_buf text = {0};
                s2_buf_printf(&text, "%s of layer %d is %lld and %lld", word[n], (int)layer,
                              (long long)own[n][0], (long long)own[n][1]);
                const char *const kept =
                    text.status == S2_OK ? s2_arena_strndup(arena, text.data, text.len) : word[n];
                s2_buf_release(&text);
                return kept;
            }
    }
    return NULL;
}

/* Why shapes cannot be compared head by head, or how they differ although they read the same pairs. */
static const char *shape_difference(s2_arena *arena, const s2_pattern *a, const s2_pattern *b)
{
    if (a->n_layers != b->n_layers)
        return "the numbers of layers";
    if (a->n_heads != b->n_heads)
        return "the numbers of heads";
    if (a->n_kv_heads != b->n_kv_heads && !s2_pattern_layers_differ(a) && !s2_pattern_layers_differ(b))
        return "the numbers of KV heads";
    return layer_difference(arena, a, b);
}

/* The pattern whose mask files end first; beyond their end nothing is defined. */
static const s2_pattern *shorter(const s2_pattern *a, const s2_pattern *b)
{
    return s2_pattern_limit_tok(a) < s2_pattern_limit_tok(b) ? a : b;
}

s2_exit s2_cmd_diff(s2_cli *cli, int argc, char **argv)
{
    s2_args args;
    s2_input a, b;
    comparison c = {.cli = cli, .a = &a, .b = &b, .work_left = S2_WORK_STEPS};
    S2_CLI_TRY(s2_args_parse(cli, "diff", argc, argv, &args));
    s2_color_read(cli, &args);
    S2_CLI_TRY(s2_input_read(cli, args.operands[0], &a));
    S2_CLI_TRY(s2_input_read(cli, args.operands[1], &b));
    S2_CLI_TRY(s2_input_len(cli, &args, shorter(&a.pattern, &b.pattern), &c.n_tok));
    const char *const shape = shape_difference(&cli->arena, &a.pattern, &b.pattern);
    const s2_status status = shape == NULL ? compare_all(&c) : S2_OK;
    if (status == S2_ELIMIT) {
        s2_cli_error(
            cli, "to compare what the heads read at %s takes more than " S2_WORK_WORDS "; a shorter --len",
            s2_count_text(c.n_tok, "token").text);
        return S2_EXIT_UNDECIDED;
    }
    if (status != S2_OK)
        return s2_cli_fail(cli, status, "diff");
    s2_buf buf = {0};
    if (s2_args_has(&args, "json"))
        add_json(&c, shape, &buf);
    else
        add_text(&c, shape, &buf);
    S2_CLI_TRY(s2_color_print(cli, &buf, 0));
    return shape == NULL && !c.first.found ? S2_EXIT_OK : S2_EXIT_VIOLATED;
}

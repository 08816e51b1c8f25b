#include "cli/reach_chart.h"

#include <math.h>
#include <stdio.h>

#include "sim/units.h"
#include "tui/bench.h"

s2_exit s2_reach_measure(s2_cli *cli, const char *operand, const s2_pattern *pattern, s2_phase phase,
                         int64_t n_tok, s2_measures *out)
{
    const s2_status status = s2_measures_take(&cli->arena, pattern, phase, n_tok, out);
    if (status == S2_ELIMIT) {
        s2_cli_error(cli, "%s is too large: reach follows at most %d blocks, and some gigabytes of reads",
                     operand, S2_REACH_BLOCKS);
        s2_cli_hint(cli, "try a shorter --len or a larger block");
        return S2_EXIT_UNDECIDED;
    }
    return status == S2_OK ? S2_EXIT_OK : s2_cli_fail(cli, status, operand);
}

typedef struct plotter {
    s2_arena *arena;
    const s2_measures *m;
    s2_chart *chart; /* the one at work */
    s2_status status;
} plotter;

/* The text moves to the arena. */
static const char *keep(plotter *p, s2_buf *text)
{
    const char *out = NULL;
    if (text->status == S2_OK)
        out = s2_arena_strndup(p->arena, text->data, text->len);
    s2_buf_release(text);
    if (out == NULL)
        p->status = S2_ENOMEM;
    return out;
}

/* Adds a series of the values at x = 0, 1, ... */
static void add(plotter *p, const char *name, bool dashed, int32_t n,
                double (*value)(const s2_measures *, int32_t))
{
    s2_chart_series *const series = &p->chart->series[p->chart->n_series];
    double *const x = S2_NEW(p->arena, double, n), *const y = S2_NEW(p->arena, double, n);
    if (x == NULL || y == NULL || name == NULL) {
        p->status = S2_ENOMEM;
        return;
    }
    for (int32_t at = 0; at < n; at++) {
        x[at] = at;
        y[at] = value(p->m, at);
    }
    *series = (s2_chart_series){.name = name,
                                .style = S2_CHART_LINE,
                                .colour = p->chart->n_series,
                                .dashed = dashed,
                                .n = n,
                                .x = x,
                                .y = y};
    p->chart->n_series++;
}

/* ------------------------------------------------------------------ by layer */

static double last_knows(const s2_measures *m, int32_t layer)
{
    return 100.0 * m->hops.receptive[layer].last / s2_stack_n_keys(&m->stack, m->stack.n_blk - 1);
}

static double least_knows(const s2_measures *m, int32_t layer)
{
    const s2_receptive known = m->hops.receptive[layer];
    return 100.0 * known.least / s2_stack_n_keys(&m->stack, known.least_query);
}

static void add_known(plotter *p, const char *who, bool dashed, double (*value)(const s2_measures *, int32_t))
{
    const int32_t n_layers = p->m->stack.pattern->n_layers;
    s2_buf text = {0};
    s2_buf_printf(&text, "%s: first layer %s %%, all layers %s %%", who, s2_decimal(value(p->m, 0), 3).text,
                  s2_decimal(value(p->m, n_layers - 1), 3).text);
    add(p, keep(p, &text), dashed, n_layers, value);
}

static void chart_layers(plotter *p, const char *name)
{
    const int32_t hops = p->m->hops.layers, n_layers = p->m->stack.pattern->n_layers;
    *p->chart = (s2_chart){.x_label = "after layer",
                           .y_label = "keys that have reached a query, % of those it may see",
                           .x_whole = true,
                           .from_zero = true};
    snprintf(p->chart->title, sizeof p->chart->title, "%.200s: %s, hops %s%s", name,
             s2_tok_text(p->m->stack.n_tok).text, hops > 0 ? "" : "not within ",
             s2_count_text(hops > 0 ? hops : n_layers, "layer").text);
    add_known(p, "last query", false, last_knows);
    add_known(p, "worst query", true, least_knows);
}

/* ------------------------------------------------------------------ by distance */

static double heads_mean(const s2_measures *m, int32_t octave)
{
    return m->readers.octaves[octave].heads;
}

static double heads_least(const s2_measures *m, int32_t octave)
{
    return m->readers.octaves[octave].least_heads;
}

static double kv_heads_mean(const s2_measures *m, int32_t octave)
{
    return m->readers.octaves[octave].kv_heads;
}

static double kv_heads_least(const s2_measures *m, int32_t octave)
{
    return m->readers.octaves[octave].least_kv_heads;
}

static double relative_flow(const s2_measures *m, int32_t octave)
{
    const s2_flow_at *const flow = &m->flow.octaves[octave];
    return flow->flow > 0 ? flow->flow / flow->dense : (double)NAN;
}

static double one(const s2_measures *m, int32_t octave)
{
    (void)m;
    (void)octave;
    return 1;
}

/*
 * Every octave up to the farthest pair has pairs. The ticks name the least distance of each: in blocks, since
 * two tokens of blocks that are n apart may be almost n + 1 or hardly more than n - 1 of them away.
 */
static int32_t name_octaves(plotter *p, const char ***out)
{
    const s2_stack *const stack = &p->m->stack;
    const int32_t n = s2_octave(stack->n_blk - 1) + 1;
    *out = S2_NEW(p->arena, const char *, n);
    if (*out == NULL)
        p->status = S2_ENOMEM;
    for (int32_t octave = 0; p->status == S2_OK && octave < n; octave++) {
        s2_buf text = {0};
        s2_buf_printf(&text, "%lld", octave == 0 ? 0LL : 1LL << (octave - 1));
        (*out)[octave] = keep(p, &text);
    }
    return n;
}

static void begin_distances(plotter *p, s2_chart chart)
{
    const char **names = NULL;
    chart.n_x_names = name_octaves(p, &names);
    chart.x_names = names;
    snprintf(chart.x_label, sizeof chart.x_label, "blocks away, at least");
    *p->chart = chart;
}

/* Each query head has a KV head of its own, in every layer. */
static bool has_no_groups(const s2_pattern *pattern)
{
    for (int32_t layer = 0; layer < pattern->n_layers; layer++)
        if (s2_pattern_kv_heads(pattern, layer) < pattern->n_heads)
            return false;
    return true;
}

static void chart_heads(plotter *p)
{
    begin_distances(p, (s2_chart){.title = "heads of a layer that read a pair, by distance",
                                  .y_label = "heads",
                                  .from_zero = true});
    const int32_t n = p->chart->n_x_names;
    add(p, "query heads, mean over pairs and layers", false, n, heads_mean);
    add(p, "query heads, the pair that has least", true, n, heads_least);
    if (has_no_groups(p->m->stack.pattern))
        return;
    add(p, "KV heads, mean over pairs and layers", false, n, kv_heads_mean);
    add(p, "KV heads, the pair that has least", true, n, kv_heads_least);
}

static void chart_flow(plotter *p)
{
    begin_distances(p, (s2_chart){.title = "flow to the last query over all layers, by distance",
                                  .y_label = "flow / flow of dense attention; a gap: none"});
    s2_buf text = {0};
    s2_buf_printf(&text, "mean over keys; least %s, of key block %d", s2_decimal(p->m->flow.least, 3).text,
                  (int)p->m->flow.least_key);
    add(p, keep(p, &text), false, p->chart->n_x_names, relative_flow);
    add(p, "dense attention", true, p->chart->n_x_names, one);
}

s2_status s2_reach_charts(s2_arena *arena, const char *name, const s2_measures *measures,
                          s2_chart charts[S2_REACH_CHARTS])
{
    plotter p = {arena, measures, charts, S2_OK};
    chart_layers(&p, name);
    p.chart++;
    chart_heads(&p);
    p.chart++;
    chart_flow(&p);
    return p.status;
}

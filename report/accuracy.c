#include "report/accuracy.h"

#include <math.h>
#include <stdio.h>

static void print_score(const s2_score *score, s2_buf *buf)
{
    s2_buf_printf(buf, "  %-22s %5d %7.2f %7.2f %7.2f %+7.2f %9.4f %8.4f\n", score->name, score->n,
                  score->mape, score->p90, score->most, score->bias, score->spearman, score->kendall);
}

void s2_accuracy_print_passes(const s2_accuracy *accuracy, const char *constants, s2_buf *buf)
{
    s2_buf_printf(buf, "  %-22s %5s %7s %7s %7s %7s %9s %8s\n", constants, "rows", "MAPE %", "p90 %", "max %",
                  "bias %", "Spearman", "Kendall");
    for (int32_t at = 0; at < accuracy->n_passes; at++)
        print_score(&accuracy->passes[at], buf);
}

void s2_accuracy_print(const s2_accuracy *accuracy, s2_buf *buf)
{
    s2_accuracy_print_passes(accuracy, "held out", buf);
    for (int32_t at = 0; at < accuracy->n_passes; at++) {
        s2_score cycles = accuracy->cycles[at];
        snprintf(cycles.name, sizeof cycles.name, "%.9s, clock given", accuracy->passes[at].name);
        print_score(&cycles, buf);
    }
    s2_buf_puts(buf, "  by family\n");
    for (int32_t at = 0; at < accuracy->n_families; at++)
        print_score(&accuracy->families[at], buf);
    if (accuracy->n_rows > 0) {
        s2_buf_puts(buf, "  instead, each scaled by its best constant on these rows\n");
        for (int32_t at = 0; at < S2_NAIVE; at++)
            print_score(&accuracy->naive[at], buf);
    }
    s2_buf_printf(buf, "  noise floor  %.2f %% between %d points measured twice\n", accuracy->floor_pct,
                  accuracy->n_twice);
    if (accuracy->n_space > 0)
        s2_buf_printf(
            buf,
            "  top pick     of %d patterns of one shape, %s: %.2f %% slower than the fastest; %.2f %% fewer "
            "pairs a second than the best\n",
            accuracy->n_space, s2_pass_word(accuracy->space_pass), accuracy->regret_fast,
            accuracy->regret_pairs);
    if (accuracy->n_counted > 0)
        s2_buf_printf(
            buf,
            "  bytes        of %d launches against hardware counters: device memory %.2f %%, L2 to SMs %.2f "
            "%% (means)\n",
            accuracy->n_counted, accuracy->dram_pct, accuracy->l2_pct);
    s2_buf_printf(
        buf, "  floor        %d of %d rows below the physical floor; the nearest took %.2f times as long\n",
        accuracy->n_below, accuracy->n_points, accuracy->nearest);
    if (accuracy->n_unpriced > 0)
        s2_buf_printf(buf, "  not priced   %d rows of kernels that were not calibrated\n",
                      accuracy->n_unpriced);
}

static void json_score(const s2_score *score, s2_buf *buf)
{
    const struct {
        const char *key;
        double value;
    } fields[] = {{"mape", score->mape}, {"p90", score->p90},           {"max", score->most},
                  {"bias", score->bias}, {"spearman", score->spearman}, {"kendall", score->kendall}};
    s2_json_begin(buf, '{');
    s2_json_key_str(buf, "name", score->name);
    s2_json_key_int(buf, "n", score->n);
    for (size_t at = 0; at < sizeof fields / sizeof *fields; at++) {
        s2_json_key(buf, fields[at].key);
        s2_buf_puts(buf, s2_decimal(fields[at].value, 5).text);
    }
    s2_json_end(buf, '}');
}

static void json_scores(const char *key, const s2_score *scores, int32_t n, s2_buf *buf)
{
    s2_json_key_begin(buf, key, '[');
    for (int32_t at = 0; at < n; at++)
        json_score(&scores[at], buf);
    s2_json_end(buf, ']');
}

static void json_number(const char *key, double value, s2_buf *buf)
{
    s2_json_key(buf, key);
    s2_buf_puts(buf, s2_decimal(isfinite(value) ? value : 0, 5).text);
}

static void json_point(const s2_accuracy_point *point, s2_buf *buf)
{
    const s2_row *const row = point->row;
    const s2_run_point *const run = &row->point;
    const struct {
        const char *key;
        int64_t value;
    } counts[] = {{"q_tok", run->q_tok},
                  {"k_tok", run->k_tok},
                  {"batch", run->batch},
                  {"seed", row->seed},
                  {"nth", row->nth}};
    s2_json_begin(buf, '{');
    s2_json_key_str(buf, "pass", s2_pass_word(run->pass));
    s2_json_key_str(buf, "family", run->family);
    s2_json_key_str(buf, "pattern", run->pattern);
    s2_json_key_str(buf, "dtype", s2_dtype_word(run->dtype));
    s2_json_key_bool(buf, "sinks", run->sinks);
    s2_json_key_str(buf, "kernel", row->kernel);
    for (size_t at = 0; at < sizeof counts / sizeof *counts; at++) {
        s2_json_key(buf, counts[at].key);
        s2_json_int(buf, counts[at].value);
    }
    json_number("measured_us", row->us, buf);
    json_number("predicted_us", point->us, buf);
    json_number("clock_given_us", point->clock_us, buf);
    json_number("error_pct", 100 * (point->us / row->us - 1), buf);
    s2_json_end(buf, '}');
}

static void json_points(const s2_accuracy *accuracy, s2_buf *buf)
{
    s2_json_key(buf, "points");
    s2_json_begin(buf, '[');
    for (int32_t at = 0; at < accuracy->n_points; at++)
        json_point(&accuracy->points[at], buf);
    s2_json_end(buf, ']');
}

void s2_accuracy_json(const s2_accuracy *accuracy, s2_buf *buf)
{
    s2_json_begin(buf, '{');
    s2_json_key_str(buf, "schema", "s2accuracy/1");
    json_number("rows", accuracy->n_rows, buf);
    json_number("unpriced", accuracy->n_unpriced, buf);
    s2_json_key_int(buf, "seed", (int64_t)accuracy->seed);
    json_scores("passes", accuracy->passes, accuracy->n_passes, buf);
    json_scores("clock_given", accuracy->cycles, accuracy->n_passes, buf);
    json_scores("families", accuracy->families, accuracy->n_families, buf);
    json_scores("instead", accuracy->naive, S2_NAIVE, buf);
    json_number("noise_pct", accuracy->floor_pct, buf);
    json_number("regret_pct", accuracy->regret_fast, buf);
    json_number("regret_pairs_pct", accuracy->regret_pairs, buf);
    json_number("counted", accuracy->n_counted, buf);
    json_number("dram_pct", accuracy->dram_pct, buf);
    json_number("l2_pct", accuracy->l2_pct, buf);
    json_number("below_floor", accuracy->n_below, buf);
    json_number("nearest_to_floor", accuracy->nearest, buf);
    json_points(accuracy, buf);
    s2_json_end(buf, '}');
}

void s2_accuracy_passes_json(const s2_accuracy *accuracy, const char *gpu, const char *constants, s2_buf *buf)
{
    s2_json_begin(buf, '{');
    s2_json_key_str(buf, "schema", "s2accuracy-gpu/1");
    s2_json_key_str(buf, "gpu", gpu);
    s2_json_key_str(buf, "constants", constants);
    json_number("rows", accuracy->n_rows, buf);
    json_scores("passes", accuracy->passes, accuracy->n_passes, buf);
    json_points(accuracy, buf);
    s2_json_end(buf, '}');
    s2_buf_puts(buf, "\n");
}

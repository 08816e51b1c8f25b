#include "report/verdict.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/units.h"
#include "words/explain.h"

const s2_phase_passes s2_passes_of[S2_N_PHASES] = {
    [S2_PREFILL] = {{S2_PASS_FORWARD}, 1},
    [S2_DECODE] = {{S2_PASS_DECODE}, 1},
    [S2_TRAIN] = {{S2_PASS_FORWARD, S2_PASS_BACKWARD}, 2},
};

static double tflops(double flop, const s2_validation *v)
{
    return flop / (v->warm.median_ms * 1e9);
}

static double spread(const s2_times *times)
{
    return (times->max_ms - times->min_ms) / times->median_ms;
}

static bool is_timed(const s2_validation *v)
{
    return v->warm.n > 0;
}

/* 1 means as fast as any kernel could be. */
static double fraction_of_bound(const s2_subject *subject)
{
    return subject->predicted->bound_us / (subject->verdict->warm.median_ms * 1e3);
}

/* ------------------------------------------------------------------ JSON */

static void json_known(s2_buf *buf, const char *key, double value)
{
    s2_json_key_num(buf, key, value > 0.0 ? value : NAN);
}

static void json_times(s2_buf *buf, const char *key, const s2_times *times)
{
    const bool timed = times->n > 0;
    s2_json_key_begin(buf, key, '{');
    s2_json_key_num(buf, "median", timed ? times->median_ms : NAN);
    s2_json_key_num(buf, "min", timed ? times->min_ms : NAN);
    s2_json_key_num(buf, "max", timed ? times->max_ms : NAN);
    s2_json_key_num(buf, "p95", timed ? times->p95_ms : NAN);
    s2_json_key_num(buf, "spread", timed ? spread(times) : NAN);
    s2_json_key_int(buf, "runs", times->n);
    s2_json_key_num(buf, "launches", timed ? (double)times->n_each : NAN);
}

static void json_time(const s2_subject *subject, s2_buf *buf)
{
    const s2_validation *const v = subject->verdict;
    json_times(buf, "time_ms", &v->warm);
    json_known(buf, "sm_mhz", v->sm_mhz);
    s2_json_key_str(buf, "cache", "warm");
    s2_json_end(buf, '}');
    json_times(buf, "cold_ms", &v->cold);
    s2_json_end(buf, '}');
    s2_json_key_begin(buf, "tflops", '{');
    json_known(buf, "useful", is_timed(v) ? tflops(v->flop_useful, v) : 0.0);
    json_known(buf, "executed", is_timed(v) ? tflops(v->flop_executed, v) : 0.0);
    s2_json_end(buf, '}');
    if (v->bytes_useful > 0.0) {
        json_known(buf, "bytes_useful", v->bytes_useful);
        json_known(buf, "tb_s", is_timed(v) ? v->bytes_useful / (v->warm.median_ms * 1e9) : 0.0);
    }
    json_known(buf, "dense_ms", v->dense.n > 0 ? v->dense.median_ms : 0.0);
    json_known(buf, "dense_over_this", v->dense.n > 0 ? v->dense.median_ms / v->warm.median_ms : 0.0);
    s2_json_key_str(buf, "dense_kernel", v->dense.n > 0 ? v->dense_kernel : NULL);
    if (v->dense.n > 0)
        s2_json_key_num(buf, "dense_spread", spread(&v->dense));
    if (v->dense_wrong[0] != '\0')
        s2_json_key_str(buf, "dense_wrong", v->dense_wrong);
    if (v->ours.n > 0) {
        s2_json_key_num(buf, "ours_ms", v->ours.median_ms);
        s2_json_key_str(buf, "ours_kernel", v->ours_kernel);
        s2_json_key_num(buf, "ours_spread", spread(&v->ours));
    }
    s2_json_key_begin(buf, "sensors", '{');
    json_known(buf, "sm_mhz", v->sensors.sm_mhz);
    json_known(buf, "mem_mhz", v->sensors.mem_mhz);
    json_known(buf, "power_w", v->sensors.power_w);
    json_known(buf, "temp_c", v->sensors.temp_c);
    s2_json_end(buf, '}');
}

static void json_prediction(const s2_subject *subject, s2_buf *buf)
{
    const s2_layer_price *const p = subject->predicted;
    s2_json_key(buf, "predicted");
    if (p == NULL) {
        s2_json_null(buf);
        return;
    }
    s2_json_begin(buf, '{');
    s2_json_key_str(buf, "gpu", p->gpu);
    json_known(buf, "bound_us", p->bound_us);
    json_known(buf, "peak_us", p->time_us);
    json_known(buf, "fraction_of_bound", is_timed(subject->verdict) ? fraction_of_bound(subject) : 0.0);
    json_known(buf, "dram_read", p->dram_read_bytes);
    json_known(buf, "dram_write", p->dram_write_bytes);
    json_known(buf, "l2", p->l2_bytes);
    s2_json_end(buf, '}');
}

static void json_bytes(const s2_subject *subject, s2_buf *buf)
{
    const s2_counters none = {0};
    const s2_counters *const c = subject->counters != NULL ? subject->counters : &none;
    s2_json_key_begin(buf, "bytes", '{');
    json_known(buf, "dram_read", c->dram_read_bytes);
    json_known(buf, "dram_write", c->dram_write_bytes);
    json_known(buf, "l2", c->l2_bytes);
    if (c->n_kernels > 0) {
        s2_json_key_int(buf, "kernels", c->n_kernels);
        json_known(buf, "profiled_us", c->kernel_us);
    }
    if (subject->no_counters != NULL) {
        s2_json_key_str(buf, "not_measured", subject->no_counters);
    }
    s2_json_end(buf, '}');
}

static void grid_row(const s2_validation *v, int32_t n, char *row)
{
    static const char glyphs[] = " #.!?";
    for (int32_t depth = 0; depth < S2_NEEDLE_DEPTHS; depth++)
        row[depth] = glyphs[v->needle[n][depth]];
    row[S2_NEEDLE_DEPTHS] = '\0';
}

/* Needles test eleven depths only: all may come back from a layer that leaves other keys unread. */
static s2_verdict union_of_layer(const s2_subject *subject)
{
    const s2_finding *const f = subject->all_read;
    for (int32_t n = 0; f != NULL && f->verdict == S2_VIOLATED && n < f->n_failing_layers; n++)
        if (f->failing_layers[n] == subject->layer)
            return S2_VIOLATED;
    return f == NULL || f->undecided ? S2_UNKNOWN : S2_HOLDS;
}

static void json_union(const s2_subject *subject, s2_buf *buf)
{
    const s2_finding *const f = subject->all_read;
    const s2_verdict verdict = union_of_layer(subject);
    s2_json_key_str(buf, "union", s2_verdict_word(verdict));
    s2_json_key(buf, "unread");
    if (verdict != S2_VIOLATED) {
        s2_json_null(buf);
        return;
    }
    s2_json_begin(buf, '{');
    s2_json_key_int(buf, "layer", f->witness.layer);
    s2_json_key_int(buf, "query", f->witness.q_tok);
    s2_json_key_int(buf, "key", f->witness.k_tok);
    s2_json_end(buf, '}');
}

static void json_grid(const s2_validation *v, s2_buf *buf)
{
    char row[S2_NEEDLE_DEPTHS + 1];
    s2_json_key_begin(buf, "grid", '[');
    for (int32_t n = 0; n < v->n_lengths; n++) {
        grid_row(v, n, row);
        s2_buf_printf(buf, "%s{\"len\":%d,\"cells\":\"%s\"}", n > 0 ? "," : "", v->needle_len[n], row);
    }
    s2_json_end(buf, ']');
}

static void json_cases(const s2_validation *v, s2_buf *buf)
{
    static const char *const words[] = {
        [S2_CASE_NONE] = NULL, [S2_CASE_JUDGED] = "judged", [S2_CASE_REFUSED] = "refused"};
    s2_json_key_begin(buf, "cases", '{');
    for (s2_case_kind which = 0; which < S2_N_CASES; which++)
        s2_json_key_str(buf, s2_case_word(which), words[v->cases[which]]);
    s2_json_end(buf, '}');
    if (v->refused[0] != '\0')
        s2_json_key_str(buf, "cases_refused", v->refused);
}

static void json_evidence(const s2_subject *subject, s2_buf *buf)
{
    const s2_validation *const v = subject->verdict;
    s2_json_key_begin(buf, "touch", '{');
    s2_json_key_int(buf, "pairs", v->touch_pairs);
    s2_json_key_int(buf, "wrong", v->touch_wrong);
    s2_json_key_bool(buf, "exhaustive", v->touch_exhaustive);
    s2_json_end(buf, '}');
    s2_json_key_begin(buf, "numerics", '{');
    s2_json_key_int(buf, "rows", v->rows);
    s2_json_key_num(buf, "max_err", v->max_err);
    s2_json_key_num(buf, "tol", v->tol);
    s2_json_key_num(buf, "lse_err", v->lse_err);
    s2_json_end(buf, '}');
    s2_json_key(buf, "batch_invariant");
    if (v->batch == S2_BATCH_UNKNOWN)
        s2_json_null(buf);
    else
        s2_json_bool(buf, v->batch == S2_BATCH_SAME);
    json_cases(v, buf);
    s2_json_key_begin(buf, "needles", '{');
    s2_json_key_int(buf, "cells", v->needle_cells);
    s2_json_key_int(buf, "found", v->needle_found);
    s2_json_key_int(buf, "expected", v->needle_expected);
    json_grid(v, buf);
    json_union(subject, buf);
    s2_json_end(buf, '}');
    s2_json_key_begin(buf, "figures", '{');
    for (int32_t at = 0; at < v->n_figures; at++) {
        s2_json_key_num(buf, v->figures[at].name, v->figures[at].value);
    }
    s2_json_end(buf, '}');
}

static void json_head(const s2_subject *subject, s2_buf *buf)
{
    const s2_validation *const v = subject->verdict;
    const struct {
        const char *key, *text;
    } words[] = {{"schema", "s2validate/1"},
                 {"name", subject->name},
                 {"hash", subject->hash},
                 {"commit", subject->commit},
                 {"device", subject->device->name},
                 {"device_uuid", subject->device->uuid},
                 {"driver", subject->device->driver},
                 {"runtime", subject->device->runtime},
                 {"kernel", v->kernel},
                 {"phase", s2_pass_word(subject->pass)},
                 {"dtype", s2_dtype_word(subject->dtype)}};
    if (v->versions[0] != '\0')
        s2_json_key_str(buf, "versions", v->versions);
    for (size_t word = 0; word < sizeof words / sizeof *words; word++) {
        s2_json_key_str(buf, words[word].key,
                        words[word].text[0] != '\0' ? words[word].text : NULL); /* a CPU has no UUID */
    }
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {{"len", subject->len_tok},
                   {"batch", subject->batch},
                   {"layer", subject->layer},
                   {"layers_alike", subject->n_like},
                   {"seed", subject->seed}};
    for (size_t at = 0; at < sizeof numbers / sizeof *numbers; at++) {
        s2_json_key_int(buf, numbers[at].key, numbers[at].value);
    }
    if (subject->e4m3) {
        s2_json_key_str(buf, "kv_dtype", s2_cache_type_word(S2_CACHE_E4M3));
    }
    if (subject->scores.cap > 0.0) {
        s2_json_key_num(buf, "soft_cap", subject->scores.cap);
    }
    if (subject->scores.sinks) {
        s2_json_key_bool(buf, "sink_logits", true);
    }
    s2_json_key_str(buf, "outcome", s2_outcome_word(v->outcome));
    s2_json_key_str(buf, "reason", v->outcome != S2_OUTCOME_OK ? v->reason : NULL);
    if (v->symptom[0] != '\0')
        s2_json_key_str(buf, "symptom", v->symptom);
    if (v->left_out[0] != '\0') {
        s2_json_key_str(buf, "left_out", v->left_out);
    }
}

void s2_verdict_json(const s2_subject *subject, s2_buf *buf)
{
    s2_json_begin(buf, '{');
    json_head(subject, buf);
    json_evidence(subject, buf);
    s2_json_key_int(buf, "heads_as_dense", subject->telling.n_plain);
    if (subject->telling.n_plain > 0)
        s2_json_key_int(buf, "telling_len", subject->telling.least_tok);
    json_time(subject, buf);
    json_prediction(subject, buf);
    json_bytes(subject, buf);
    s2_json_end(buf, '}');
}

void s2_needles_heading(s2_buf *buf)
{
    s2_buf_puts(
        buf,
        "            depth 0 % ......... 100 %   # comes back   . no head reads it   ! lost   ? leaked\n");
}

void s2_needles_line(int64_t len_tok, const char *cells, s2_buf *buf)
{
    s2_buf_printf(buf, "  %9lld ", (long long)len_tok);
    for (; *cells != '\0'; cells++)
        s2_buf_printf(buf, " %c", strchr("#.!?", *cells) != NULL ? *cells : ' ');
    s2_buf_puts(buf, "\n");
}

/* ------------------------------------------------------------------ text */

static void text_grid(const s2_validation *v, s2_buf *buf)
{
    char row[S2_NEEDLE_DEPTHS + 1];
    s2_needles_heading(buf);
    for (int32_t n = 0; n < v->n_lengths; n++) {
        grid_row(v, n, row);
        s2_needles_line(v->needle_len[n], row, buf);
    }
}

static void text_times(const char *label, const s2_times *times, s2_buf *buf)
{
    s2_buf_printf(buf, "  %-9s median %s ms, min %s ms, p95 %s ms, spread %.1f %% of %d runs", label,
                  s2_decimal(times->median_ms, 4).text, s2_decimal(times->min_ms, 4).text,
                  s2_decimal(times->p95_ms, 4).text, 100.0 * spread(times), times->n);
    if (times->n_each > 1)
        s2_buf_printf(buf, " of %lld launches", (long long)times->n_each);
}

static void text_sensors(const s2_validation *v, s2_buf *buf)
{
    if (v->sm_mhz > 0.0)
        s2_buf_printf(buf, "; SM %.0f MHz", v->sm_mhz);
    if (v->sensors.power_w > 0.0)
        s2_buf_printf(buf, ", %.0f W, %.0f C", v->sensors.power_w, v->sensors.temp_c);
    s2_buf_puts(buf, "\n");
}

/* Another run of the same shapes. A ratio of times whose ranges overlap may be an accident. */
static void text_beside(const char *label, const s2_times *times, const char *kernel, const s2_times *own,
                        s2_buf *buf)
{
    if (times->n == 0)
        return;
    s2_buf_printf(buf, "  %-9s median %s ms by %s", label, s2_decimal(times->median_ms, 4).text, kernel);
    if (times->n > 1)
        s2_buf_printf(buf, ", spread %.1f %% of %d runs", 100.0 * spread(times), times->n);
    s2_buf_printf(buf, ": %.2f times as long%s\n", times->median_ms / own->median_ms,
                  times->min_ms <= own->max_ms && own->min_ms <= times->max_ms
                      ? ", but some runs of the one take as long as some of the other"
                      : "");
}

static void text_time(const s2_subject *subject, s2_buf *buf)
{
    const s2_validation *const v = subject->verdict;
    const bool gpu = subject->device->kind == S2_DEVICE_GPU;
    text_times("time", &v->warm, buf);
    s2_buf_puts(buf, gpu ? ", L2 warm" : "");
    text_sensors(v, buf);
    if (v->cold.n > 0) {
        text_times("", &v->cold, buf);
        s2_buf_puts(buf, ", L2 cold\n");
    }
    s2_buf_printf(buf, "  rate      %.3f TFLOP/s useful, %.3f executed", tflops(v->flop_useful, v),
                  tflops(v->flop_executed, v));
    if (v->bytes_useful > 0.0)
        s2_buf_printf(buf, "; %.3f TB/s", v->bytes_useful / (v->warm.median_ms * 1e9));
    s2_buf_puts(buf, "\n");
    text_beside("dense", &v->dense, v->dense_kernel, &v->warm, buf);
    if (v->dense_wrong[0] != '\0')
        s2_buf_printf(buf, "  dense     not timed, since the kernel is wrong on the dense pattern: %s\n",
                      v->dense_wrong);
    text_beside("ours", &v->ours, v->ours_kernel, &v->warm, buf);
    if (subject->predicted != NULL)
        s2_buf_printf(buf, "  bound     %s ms on %s for any kernel: %.3f of it reached\n",
                      s2_decimal(subject->predicted->bound_us * 1e-3, 4).text, subject->predicted->gpu,
                      fraction_of_bound(subject));
}

static void text_bytes(const s2_subject *subject, s2_buf *buf)
{
    const s2_counters *const c = subject->counters;
    const s2_layer_price *const p = subject->predicted;
    if (subject->no_counters != NULL)
        s2_buf_printf(buf, "  bytes     not measured: %s\n", subject->no_counters);
    if (c == NULL)
        return;
    s2_buf_printf(buf,
                  "  bytes     DRAM read %.1f MB, written %.1f MB; L2 to SMs %.1f MB; %d kernels, L2 cold\n",
                  c->dram_read_bytes * 1e-6, c->dram_write_bytes * 1e-6, c->l2_bytes * 1e-6, c->n_kernels);
    if (p != NULL)
        s2_buf_printf(buf, "            predicted %.1f MB, %.1f MB; %.1f MB\n", p->dram_read_bytes * 1e-6,
                      p->dram_write_bytes * 1e-6, p->l2_bytes * 1e-6);
}

/* Explains a pair as the prover does: which term of the head reads it, or why none does. */
static void text_wrong_pair(const s2_subject *subject, s2_buf *buf)
{
    const s2_validation *const v = subject->verdict;
    const s2_phase rules = subject->pass == S2_PASS_DECODE ? S2_DECODE : S2_PREFILL;
    if (!v->has_wrong_pair)
        return;
    s2_buf_printf(buf, "  pair      query %lld, key %lld, by the pattern:\n", (long long)v->wrong_q_tok,
                  (long long)v->wrong_k_tok);
    const s2_status status =
        s2_explain_pair(subject->pattern, rules, subject->layer, (s2_range){v->wrong_head, v->wrong_head + 1},
                        v->wrong_q_tok, v->wrong_k_tok, "            ", buf);
    if (status != S2_OK && buf->status == S2_OK)
        buf->status = status;
}

static void text_head(const s2_subject *subject, s2_buf *buf)
{
    const s2_validation *const v = subject->verdict;
    s2_buf_printf(buf, "%s  layer %d", subject->name, subject->layer);
    if (subject->n_like > 1)
        s2_buf_printf(buf, " (and %d that read the same)", subject->n_like - 1);
    s2_buf_printf(buf, "  %s", s2_pass_word(subject->pass));
    if (subject->scores.cap > 0.0)
        s2_buf_printf(buf, ", scores capped at %s", s2_decimal(subject->scores.cap, 6).text);
    s2_buf_puts(buf, subject->scores.sinks ? ", with sink logits" : "");
    if (subject->e4m3)
        s2_buf_puts(buf, subject->pass == S2_PASS_DECODE ? ", KV cache in e4m3" : ", Q, K and V in e4m3");
    s2_buf_printf(buf, "  %s x %lld  %s  %s on %s\n", s2_count_text(subject->len_tok, "token").text,
                  (long long)subject->batch, s2_dtype_word(subject->dtype),
                  v->kernel[0] != '\0' ? v->kernel : "no kernel", subject->device->name);
    if (v->versions[0] != '\0')
        s2_buf_printf(buf, "  versions  %s\n", v->versions);
}

static void text_unread(const s2_subject *subject, s2_buf *buf)
{
    const s2_finding *const f = subject->all_read;
    if (union_of_layer(subject) == S2_VIOLATED)
        s2_buf_printf(buf,
                      "            union is proved to be violated: in layer %d query %lld reads key %lld "
                      "through no head; the depths are samples\n",
                      f->witness.layer, (long long)f->witness.q_tok, (long long)f->witness.k_tok);
}

/* Prints "steps_checked" as words, and bytes with their unit. */
static void text_figures(const s2_validation *v, s2_buf *buf)
{
    for (int32_t f = 0; f < v->n_figures; f++) {
        const double value = v->figures[f].value;
        char label[32];
        const int n = snprintf(label, sizeof label, "%s", v->figures[f].name);
        for (char *c = label; *c != '\0'; c++)
            *c = *c == '_' ? ' ' : *c;
        const bool bytes = n > 5 && strstr(label, "bytes") == label + n - 5;
        s2_buf_printf(buf, "  %-17s %s\n", label,
                      bytes ? s2_bytes_text(value).text : s2_decimal(value, value >= 1e6 ? 15 : 6).text);
    }
}

/* At a length where a wrong stride or offset reads the same as a right one, "ok" must say so. */
static void text_outcome(const s2_subject *subject, s2_buf *buf)
{
    const s2_validation *const v = subject->verdict;
    const s2_telling *const telling = &subject->telling;
    s2_buf_printf(buf, "  %s", s2_outcome_word(v->outcome));
    if (v->outcome != S2_OUTCOME_OK)
        s2_buf_printf(buf, ": %s", v->reason);
    else if (telling->n_plain > 0)
        s2_buf_printf(buf,
                      ", but at this length %d of %d head%s what dense attention reads, whatever the window, "
                      "stride and offset: use --len %lld or more",
                      telling->n_plain, subject->pattern->n_heads,
                      subject->pattern->n_heads == 1 ? " reads" : "s read", (long long)telling->least_tok);
    if (v->outcome == S2_OUTCOME_OK && telling->whole_tok > telling->least_tok)
        s2_buf_printf(buf, "; from %lld on every offset shows", (long long)telling->whole_tok);
    s2_buf_puts(buf, "\n");
}

static void text_batch(const s2_validation *v, s2_buf *buf)
{
    if (v->batch == S2_BATCH_SAME)
        s2_buf_puts(buf, "  batch     the same bits alone and as one of three sequences\n");
    if (v->batch == S2_BATCH_DIFFERS)
        s2_buf_printf(
            buf,
            "  batch     other bits as one of three sequences than alone, first at query %lld, head %d\n",
            (long long)v->batch_q_tok, v->batch_head);
}

static void text_cases(const s2_validation *v, s2_case_state state, const char *before, s2_buf *buf)
{
    const char *between = before;
    for (s2_case_kind which = 0; which < S2_N_CASES; which++)
        if (v->cases[which] == (uint8_t)state) {
            s2_buf_printf(buf, "%s%s", between, s2_case_word(which));
            between = " ";
        }
}

/* What an ok stands for beside the shape that was asked for, and what it does not. */
static void text_beside_asked(const s2_validation *v, s2_buf *buf)
{
    if (v->outcome != S2_OUTCOME_OK)
        return;
    text_cases(v, S2_CASE_JUDGED, "  cases     right too: ", buf);
    text_cases(v, S2_CASE_REFUSED,
               memchr(v->cases, S2_CASE_JUDGED, S2_N_CASES) != NULL ? "; not tried, for the kernel refuses: "
                                                                    : "  cases     not tried: ",
               buf);
    if (v->refused[0] != '\0')
        s2_buf_printf(buf, " (%s)", v->refused);
    if (memchr(v->cases, S2_CASE_JUDGED, S2_N_CASES) != NULL || v->refused[0] != '\0')
        s2_buf_puts(buf, "\n");
}

void s2_verdict_print(const s2_subject *subject, s2_buf *buf)
{
    const s2_validation *const v = subject->verdict;
    text_head(subject, buf);
    if (v->outcome == S2_OUTCOME_NAN &&
        v->rows == 0) /* the first row that is no number ends the comparison */
        s2_buf_puts(buf, "  touch     ended by a row that is not a number\n");
    else if (v->touch_pairs > 0)
        s2_buf_printf(buf, "  touch     %lld pairs compared, %s%lld wrong; %d of %d work items run%s\n",
                      (long long)v->touch_pairs,
                      v->touch_wrong > 0 && !v->touch_exhaustive ? "at least " : "",
                      (long long)v->touch_wrong, v->n_items_run, v->n_items,
                      v->touch_exhaustive ? ", every pair of the layer" : "");
    if (v->rows > 0)
        s2_buf_printf(buf, "  numerics  %lld rows against fp64: error %s, allowed %s", (long long)v->rows,
                      s2_decimal(v->max_err, 2).text, s2_decimal(v->tol, 2).text);
    if (v->rows > 0 && !isnan(v->lse_err))
        s2_buf_printf(buf, "; LSE %s", s2_decimal(v->lse_err, 2).text);
    if (v->rows > 0)
        s2_buf_puts(buf, "\n");
    text_batch(v, buf);
    text_beside_asked(v, buf);
    text_figures(v, buf);
    if (v->needle_cells > 0) {
        s2_buf_printf(buf, "  needles   %lld of %lld come back, %lld by the pattern\n",
                      (long long)v->needle_found, (long long)v->needle_cells, (long long)v->needle_expected);
        text_grid(v, buf);
        text_unread(subject, buf);
    }
    if (is_timed(v))
        text_time(subject, buf);
    text_wrong_pair(subject, buf);
    if (v->symptom[0] != '\0')
        s2_buf_printf(buf, "  symptom   %s\n", v->symptom);
    text_bytes(subject, buf);
    if (v->left_out[0] != '\0')
        s2_buf_printf(buf, "  left out  %s\n", v->left_out);
    text_outcome(subject, buf);
}

/* ------------------------------------------------------------------ row and sum */

void s2_verdict_sum_add(s2_verdict_sum *sum, const s2_validation *verdict)
{
    sum->n++;
    sum->n_ok += verdict->outcome == S2_OUTCOME_OK;
    sum->pairs += verdict->touch_pairs;
    sum->pairs_wrong += verdict->touch_wrong;
    sum->at_least = sum->at_least || (verdict->touch_wrong > 0 && !verdict->touch_exhaustive);
    sum->rows += verdict->rows;
    sum->needles_found += verdict->needle_found;
    sum->needles_expected += verdict->needle_expected;
}

void s2_verdict_sum_print(const s2_verdict_sum *sum, bool json, s2_buf *buf)
{
    if (!json) {
        s2_buf_printf(buf,
                      "total: %d of %d verdicts ok; %lld pairs compared, %s%lld wrong; %lld rows against "
                      "fp64; %lld needles back of %lld that the patterns read\n",
                      sum->n_ok, sum->n, (long long)sum->pairs, sum->at_least ? "at least " : "",
                      (long long)sum->pairs_wrong, (long long)sum->rows, (long long)sum->needles_found,
                      (long long)sum->needles_expected);
        return;
    }
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {{"verdicts", sum->n},
                   {"ok", sum->n_ok},
                   {"pairs", sum->pairs},
                   {"pairs_wrong", sum->pairs_wrong},
                   {"rows", sum->rows},
                   {"needles_found", sum->needles_found},
                   {"needles_expected", sum->needles_expected}};
    s2_json_begin(buf, '{');
    s2_json_key_str(buf, "schema", "s2validate-total/1");
    for (size_t at = 0; at < sizeof numbers / sizeof *numbers; at++)
        s2_json_key_int(buf, numbers[at].key, numbers[at].value);
    s2_json_key_bool(buf, "at_least", sum->at_least);
    s2_json_end(buf, '}');
    s2_buf_puts(buf, "\n");
}

#include "report/requests.h"

#include "base/text.h"
#include "words/error.h"
#include "words/size.h"
#include "sim/units.h"

/* ---- the page */

typedef struct s2_requests_total {
    double prompt_tok;
    double output_tok;
    double last_s; /* last arrival */
} s2_requests_total;

static s2_requests_total total_of(const s2_sim_requests *requests)
{
    s2_requests_total total = {0, 0, 0};
    for (int32_t at = 0; at < requests->n; at++) {
        total.prompt_tok += (double)requests->requests[at].prompt_tok;
        total.output_tok += (double)requests->requests[at].output_tok;
        total.last_s = requests->requests[at].arrival_us / 1e6;
    }
    return total;
}

/* gain: how many times better the pattern does; 0: nothing to compare. */
static void put_row(const char *label, double own, double dense, double gain, s2_figure_text (*print)(double),
                    s2_buf *buf)
{
    s2_buf_printf(buf, "  %-24s %12s %12s", label, print(own).text, print(dense).text);
    s2_buf_printf(buf, gain > 0 ? " %9s\n" : "\n", s2_decimal(gain, 3).text);
}

static void put_cells(const char *label, double own, double dense, s2_figure_text (*print)(double),
                      s2_buf *buf)
{
    put_row(label, own, dense, own > 0 ? dense / own : 0, print, buf);
}

static void put_head(const s2_report_subject *subject, const s2_serving *serving,
                     const s2_sim_requests *requests, s2_buf *buf)
{
    const s2_sim_options *const options = subject->options;
    const s2_requests_total total = total_of(requests);
    s2_buf_printf(buf, "%s  ", subject->name);
    s2_pattern_print_size(subject->pattern, buf);
    s2_buf_printf(buf, "\n  %s, %.0f tokens of prompts and %.0f of output",
                  s2_count_text(requests->n, "request").text, total.prompt_tok, total.output_tok);
    if (total.last_s > 0)
        s2_buf_printf(buf, ", the last after %s s", s2_decimal(total.last_s, 4).text);
    s2_buf_puts(buf, "; ");
    s2_report_types(options, buf);
    s2_buf_printf(buf, ", %s", options->gpu.title);
    if (options->n_ranks > 1)
        s2_buf_printf(buf, ", %d GPUs", options->n_ranks);
    s2_buf_puts(buf, "\n  ");
    if (serving->chunk_tok > 0)
        s2_buf_printf(buf, "prompts in chunks of %lld beside the tokens of others",
                      (long long)serving->chunk_tok);
    else
        s2_buf_puts(buf, "whole prompts, one after another, before any token");
    if (serving->prefix_tok > 0)
        s2_buf_printf(buf, "; the first %s of all are computed and kept once",
                      s2_count_text(serving->prefix_tok, "token").text);
    s2_buf_puts(buf,
                options->net != NULL ? "\n  model " : "\n  attention alone: --model adds what surrounds it");
    s2_buf_printf(buf, "%s\n\n", options->net != NULL ? options->net->name : "");
}

/* By the time of the launches: what is like those that were measured, and what is farther. */
static void put_shares(const s2_served *own, s2_buf *buf)
{
    s2_buf_printf(buf,
                  "%s %% of its time in launches like those that were measured\n  (mean error %s %%), %s %% "
                  "in others",
                  s2_decimal(100 * (1 - own->beyond), 3).text, s2_decimal(own->like_pct, 2).text,
                  s2_decimal(100 * own->beyond, 2).text);
    if (own->far.beyond > 0) {
        s2_buf_puts(buf, " (the farthest ");
        s2_report_beyond(&own->far, own->measured, buf);
        s2_buf_puts(buf, ")");
    }
    s2_buf_printf(buf, ";\n  by time %s %% is allowed for", s2_decimal(own->error.pct, 2).text);
}

static void put_error(const s2_served *own, s2_buf *buf)
{
    if (own->beyond > 0 && own->beyond < 1) {
        put_shares(own, buf);
        return;
    }
    if (own->far.beyond > 0) {
        s2_buf_puts(buf, "at the farthest ");
        s2_report_beyond(&own->far, own->measured, buf);
        s2_buf_puts(buf, ";\n  ");
    }
    s2_error_print(&own->error, true, buf);
}

static void put_fidelity(const s2_served *own, s2_buf *buf)
{
    s2_buf_puts(buf, "\n  attention is ");
    if (!own->predicted)
        s2_buf_puts(buf, "priced by its plan at peak rates, which is a bound");
    else
        s2_buf_printf(buf, "%s, launch by launch: ",
                      own->measured ? "predicted" : "guessed, for nothing was measured on this GPU");
    if (own->predicted)
        put_error(own, buf);
    s2_buf_printf(buf,
                  ".\n  The schedule is one simple server's, and was not held against any that runs; "
                  "unequal lengths, of which\n  no step was measured, are priced %s.\n",
                  own->mixed ? "by what their step reads" : "as shares of equal ones");
}

typedef struct s2_state_sum {
    int32_t n_layers;
    int64_t bytes;
} s2_state_sum;

static s2_state_sum states_of(const s2_pattern *pattern)
{
    s2_state_sum sum = {0};
    for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
        const int64_t bytes = s2_pattern_state_bytes(pattern, layer);
        sum.n_layers += bytes > 0;
        sum.bytes += bytes;
    }
    return sum;
}

/* Of what computes states nothing was measured. */
static void put_states(const s2_report_subject *subject, s2_buf *buf)
{
    const s2_state_sum sum = states_of(subject->pattern);
    if (sum.n_layers == 0)
        return;
    s2_buf_printf(buf, "  states        %s for each sequence in %s, in all caches; ",
                  s2_bytes_text((double)sum.bytes).text, s2_count_text(sum.n_layers, "layer").text);
    s2_buf_puts(buf,
                subject->options->net != NULL
                    ? "no scan was measured: times have what one takes at peak rates\n"
                    : "times count moving them, not their computation, which the pattern does not say\n");
}

void s2_requests_text(const s2_report_subject *subject, const s2_serving *serving,
                      const s2_sim_requests *requests, const s2_served *own, const s2_served *dense,
                      s2_buf *buf)
{
    put_head(subject, serving, requests, buf);
    s2_buf_printf(buf, "  %-24s %12s %12s %9s\n", "", "pattern", "dense", "ratio");
    put_cells("all done after", own->us, dense->us, s2_time_text, buf);
    put_row("tokens of output a s", own->tokens_per_s, dense->tokens_per_s,
            own->tokens_per_s / dense->tokens_per_s, s2_rate_text, buf);
    put_cells("first token, mean", own->first.mean_us, dense->first.mean_us, s2_time_text, buf);
    put_cells("... 90 % within", own->first.p90_us, dense->first.p90_us, s2_time_text, buf);
    put_cells("next tokens, mean", own->next.mean_us, dense->next.mean_us, s2_time_text, buf);
    put_cells("... 90 % within", own->next.p90_us, dense->next.p90_us, s2_time_text, buf);
    s2_buf_printf(buf, "  %-24s %12d %12d\n", "at a time, at most", own->most_running, dense->most_running);
    put_cells("cache set aside, at most", own->most_bytes, dense->most_bytes, s2_bytes_text, buf);
    if (own->pass_bytes > 0)
        put_row("activations of a step", own->pass_bytes, dense->pass_bytes, 0, s2_bytes_text, buf);
    s2_buf_printf(buf, "  %-24s %s\n",
                  subject->options->n_ranks > 1 ? "room for both on each GPU" : "room for both",
                  s2_bytes_text(own->room_bytes).text);
    s2_report_stack_text(subject, own->most_bytes < dense->most_bytes, buf);
    s2_report_scores_text("  scores        ", own->scores, own->scored, buf);
    put_states(subject, buf);
    put_fidelity(own, buf);
}

/* ---- JSON */

static void json_side(const char *key, const s2_served *side, s2_buf *buf)
{
    s2_json_key_begin(buf, key, '{');
    s2_json_key_num(buf, "time_us", s2_rounded(side->us));
    s2_json_key_num(buf, "tokens_per_s", s2_rounded(side->tokens_per_s));
    s2_json_key_num(buf, "first_token_us", s2_rounded(side->first.mean_us));
    s2_json_key_num(buf, "first_token_p90_us", s2_rounded(side->first.p90_us));
    s2_json_key_num(buf, "next_token_us", s2_rounded(side->next.mean_us));
    s2_json_key_num(buf, "next_token_p90_us", s2_rounded(side->next.p90_us));
    s2_json_key_int(buf, "steps", side->n_steps);
    s2_json_key_str(buf, "steps_by", side->mixed ? "lists" : "shares");
    s2_json_key_int(buf, "at_a_time", side->most_running);
    s2_json_key_num(buf, "cache_bytes", side->most_bytes);
    s2_json_key_num(buf, "activation_bytes", s2_rounded(side->pass_bytes));
    s2_json_key_bool(buf, "predicted", side->predicted);
    s2_json_key_bool(buf, "measured", side->measured);
    s2_report_error_json(side->predicted ? &side->error : NULL, buf);
    s2_json_key_num(buf, "beyond_share", s2_rounded(side->predicted ? side->beyond : 0));
    s2_report_beyond_json(&side->far, buf);
    s2_report_scores_json(side->scores, side->scored, buf);
    s2_json_end(buf, '}');
}

void s2_requests_json(const s2_report_subject *subject, const s2_serving *serving,
                      const s2_sim_requests *requests, const s2_served *own, const s2_served *dense,
                      s2_buf *buf)
{
    const s2_sim_options *const options = subject->options;
    const s2_requests_total total = total_of(requests);
    s2_json_begin(buf, '{');
    s2_report_subject_json(subject, "s2requests/1", buf);
    s2_report_types_json(options, buf);
    const s2_state_sum states = states_of(subject->pattern);
    if (states.n_layers > 0) {
        s2_json_key_begin(buf, "states", '{');
        s2_json_key_int(buf, "layers", states.n_layers);
        s2_json_key_int(buf, "bytes_per_sequence", states.bytes);
        s2_json_key_bool(buf, "scan_measured", false);
        s2_json_end(buf, '}');
    }
    s2_json_key_int(buf, "tp", options->n_ranks);
    s2_json_key_int(buf, "requests", requests->n);
    s2_json_key_num(buf, "prompt_tok", total.prompt_tok);
    s2_json_key_num(buf, "output_tok", total.output_tok);
    s2_json_key_int(buf, "chunk_tok", serving->chunk_tok);
    s2_json_key_int(buf, "prefix_tok", serving->prefix_tok);
    s2_json_key_num(buf, "room_bytes", own->room_bytes);
    s2_report_stack_json(subject, own->most_bytes, buf);
    json_side("pattern", own, buf);
    json_side("dense", dense, buf);
    s2_json_end(buf, '}');
    s2_buf_puts(buf, "\n");
}

#include "sim/requests.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/text.h"
#include "base/work.h"
#include "sim/attention.h"
#include "sim/capacity.h"
#include "sim/endtoend.h"
#include "sim/step.h"
#include "sim/units.h"

enum {
    CODE_REQUESTS = 709,
    EXACT_REQUESTS = 64,  /* up to so many, each piece of a prompt is priced */
    LIMIT_ROWS = 1 << 25, /* sequences, summed over steps */
};

/* A request that has started. */
typedef struct s2_sim_running {
    int32_t nth;
    int64_t done_tok; /* of the prompt */
    int64_t made_tok; /* of the output */
    double first_us;
} s2_sim_running;

typedef struct s2_sim_server {
    const s2_sim_options *options;
    const s2_serving *serving;
    const s2_sim_requests *requests;
    s2_step_prices steps;
    const double *bytes;     /* the most that each request will keep */
    int64_t step_tok;        /* tokens of prompts that a step reads at most */
    s2_sim_running *running; /* in the order in which they began */
    int64_t *len_tok;        /* scratch */
    int32_t n_running;
    int32_t next;
    double now_us;
    s2_step_us attention; /* all of it */
    double held_bytes;
    int64_t n_rows;
    int32_t n_first, n_next;
    double *first_us;
    double *next_us;
    s2_served *out;
} s2_sim_server;

static const s2_sim_request *request_of(const s2_sim_server *server, const s2_sim_running *running)
{
    return &server->requests->requests[running->nth];
}

static bool is_reading(const s2_sim_server *server, const s2_sim_running *running)
{
    return running->done_tok < request_of(server, running)->prompt_tok;
}

/* ---- one step */

/*
 * What a step of so many sequences holds at most: as many tokens of prompts as it may read, a token for each sequence
 * beside them, and the logits of each.
 */
static double pass_bytes(const s2_sim_server *server, int32_t n)
{
    return s2_capacity_pass(server->options, (double)(server->step_tok + n), n);
}

static bool has_room(const s2_sim_server *server, double held_bytes, int32_t n)
{
    return held_bytes + pass_bytes(server, n) <= server->out->room_bytes;
}

static void admit(s2_sim_server *server)
{
    while (server->next < server->requests->n && server->n_running < S2_MOST_RUNNING) {
        const int32_t nth = server->next;
        if (server->requests->requests[nth].arrival_us > server->now_us ||
            !has_room(server, server->held_bytes + server->bytes[nth], server->n_running + 1))
            break;
        server->held_bytes += server->bytes[nth];
        server->running[server->n_running++] =
            (s2_sim_running){.nth = nth, .done_tok = server->serving->prefix_tok};
        server->next++;
    }
    server->out->most_bytes = fmax(server->out->most_bytes, server->held_bytes);
    server->out->pass_bytes = fmax(server->out->pass_bytes, pass_bytes(server, server->n_running));
    if (server->n_running > server->out->most_running)
        server->out->most_running = server->n_running;
}

/* Prompts read in this step; adds their tokens to *tok and the number that end to *logits. */
static s2_status read_prompts(s2_sim_server *server, s2_step_us *sum, int64_t *tok, int64_t *logits)
{
    const int64_t chunk_tok = server->serving->chunk_tok;
    int64_t left = chunk_tok > 0 ? chunk_tok : S2_LIMIT_CONTEXT_TOK;
    for (int32_t r = 0; r < server->n_running && left > 0; r++) {
        s2_sim_running *const running = &server->running[r];
        const int64_t prompt_tok = request_of(server, running)->prompt_tok;
        s2_step_us own;
        if (!is_reading(server, running))
            continue;
        const int64_t n = s2_min_i64(left, prompt_tok - running->done_tok);
        S2_TRY(s2_steps_piece(&server->steps, running->done_tok, running->done_tok + n, &own));
        running->done_tok += n;
        *sum = s2_step_us_sum(*sum, 1, own, 1);
        *tok += n;
        *logits += running->done_tok == prompt_tok;
        left = chunk_tok > 0 ? left - n : 0;
    }
    return S2_OK;
}

static int by_length(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a < b) - (a > b);
}

/* A token for each sequence whose prompt is done. */
static s2_status write_tokens(s2_sim_server *server, s2_step_us *sum, int64_t *n)
{
    s2_step_us own;
    int32_t n_len = 0;
    for (int32_t r = 0; r < server->n_running; r++) {
        const s2_sim_running *const running = &server->running[r];
        if (running->made_tok > 0)
            server->len_tok[n_len++] = request_of(server, running)->prompt_tok + running->made_tok;
    }
    qsort(server->len_tok, (size_t)n_len, sizeof *server->len_tok, by_length);
    S2_TRY(s2_steps_tokens(&server->steps, n_len, server->len_tok, &own));
    *sum = s2_step_us_sum(*sum, 1, own, 1);
    *n = n_len;
    return S2_OK;
}

static void finish(s2_sim_server *server, const s2_sim_running *running)
{
    const int64_t n_next = request_of(server, running)->output_tok - 1;
    const double end_us = server->now_us - request_of(server, running)->arrival_us;
    server->held_bytes -= server->bytes[running->nth];
    server->first_us[server->n_first++] = running->first_us;
    if (n_next > 0)
        server->next_us[server->n_next++] = (end_us - running->first_us) / (double)n_next;
}

/* Count a token for each sequence that got one or whose prompt ended. */
static void count_tokens(s2_sim_server *server, bool written)
{
    int32_t n = 0;
    for (int32_t r = 0; r < server->n_running; r++) {
        s2_sim_running running = server->running[r];
        const s2_sim_request *const request = request_of(server, &running);
        const bool ended = running.made_tok == 0 && !is_reading(server, &running);
        if (ended)
            running.first_us = server->now_us - request->arrival_us;
        running.made_tok += ended || (written && running.made_tok > 0);
        if (running.made_tok < request->output_tok)
            server->running[n++] = running;
        else
            finish(server, &running);
    }
    server->n_running = n;
}

static s2_status take_step(s2_sim_server *server)
{
    s2_step_us step = {0};
    int64_t tok = 0, logits = 0, n = 0;
    S2_TRY(read_prompts(server, &step, &tok, &logits));
    const bool writes = tok == 0 || server->serving->chunk_tok > 0;
    if (writes)
        S2_TRY(write_tokens(server, &step, &n));
    server->attention = s2_step_us_sum(server->attention, 1, step, 1);
    server->now_us +=
        step.us + s2_end_to_end_around(server->options, (double)(tok + n), (double)(logits + n));
    server->out->n_steps++;
    server->n_rows += server->n_running;
    count_tokens(server, writes);
    return server->n_rows <= LIMIT_ROWS ? S2_OK : S2_ELIMIT;
}

static s2_status run(s2_sim_server *server)
{
    const int64_t prefix_tok = server->serving->prefix_tok;
    if (prefix_tok > 0) {
        S2_TRY(s2_steps_piece(&server->steps, 0, prefix_tok, &server->attention));
        server->now_us = server->attention.us + s2_end_to_end_around(server->options, (double)prefix_tok, 0);
    }
    while (server->next < server->requests->n || server->n_running > 0) {
        admit(server);
        if (server->n_running > 0)
            S2_TRY(take_step(server));
        else
            server->now_us = fmax(server->now_us, server->requests->requests[server->next].arrival_us);
    }
    return S2_OK;
}

/* ---- before and after */

static s2_status refuse_request(const s2_sim_request *request, const char *why, double much, s2_diag *diag)
{
    return s2_diag_set(diag, S2_EINVAL, CODE_REQUESTS, 0, 0,
                       "line %d: a prompt of %lld and %lld tokens of output %s %s", request->line,
                       (long long)request->prompt_tok, (long long)request->output_tok, why,
                       s2_decimal(much, 4).text);
}

static s2_status refuse_room(const s2_sim_server *server, const s2_sim_request *request, double bytes,
                             s2_diag *diag)
{
    const bool chunks = server->serving->chunk_tok > 0;
    return s2_diag_set(
        diag, S2_EINVAL, CODE_REQUESTS, 0, 0,
        "line %d: a prompt of %lld and %lld tokens of output do not fit alone: they need %s of "
        "cache on a GPU, and a step that reads %lld tokens of prompts%s holds %s; it has %s beside the "
        "weights",
        request->line, (long long)request->prompt_tok, (long long)request->output_tok,
        s2_bytes_text(bytes).text, (long long)server->step_tok, chunks ? "" : " (--chunk N: at most N)",
        s2_bytes_text(pass_bytes(server, 1)).text, s2_bytes_text(server->out->room_bytes).text);
}

/* Of whole prompts the longest, beyond the prefix that all share, which is read alone. */
static int64_t most_read(const s2_sim_server *server)
{
    const int64_t chunk_tok = server->serving->chunk_tok, prefix_tok = server->serving->prefix_tok;
    int64_t most = prefix_tok;
    for (int32_t at = 0; at < server->requests->n; at++) {
        const int64_t rest = server->requests->requests[at].prompt_tok - prefix_tok;
        most = s2_max_i64(most, chunk_tok > 0 ? s2_min_i64(chunk_tok, rest) : rest);
    }
    return most;
}

/* The most that each request keeps, and how much of the room the prefix takes. */
static s2_status find_bytes(s2_arena *arena, const s2_pattern *pattern, s2_sim_server *server, s2_diag *diag)
{
    const s2_sim_requests *const requests = server->requests;
    const int64_t prefix_tok = server->serving->prefix_tok;
    int64_t *const len_tok = S2_NEW(arena, int64_t, requests->n);
    double *const bytes = S2_NEW(arena, double, requests->n);
    if (len_tok == NULL || bytes == NULL)
        return S2_ENOMEM;
    for (int32_t r = 0; r < requests->n; r++) {
        const s2_sim_request *const request = &requests->requests[r];
        /* the last output token is not kept */
        len_tok[r] = request->prompt_tok + request->output_tok - 1;
        if (len_tok[r] > S2_LIMIT_CONTEXT_TOK)
            return refuse_request(request, "exceed a context of", (double)S2_LIMIT_CONTEXT_TOK, diag);
        if (request->prompt_tok <= prefix_tok)
            return refuse_request(request, "ask nothing beyond a prefix of", (double)prefix_tok, diag);
    }
    if (prefix_tok > 0)
        S2_TRY(s2_capacity_peaks(arena, pattern, server->options, 0, 1, &prefix_tok, &server->held_bytes));
    S2_TRY(s2_capacity_peaks(arena, pattern, server->options, prefix_tok, requests->n, len_tok, bytes));
    for (int32_t at = 0; at < requests->n; at++)
        if (!has_room(server, server->held_bytes + bytes[at], 1))
            return refuse_room(server, &requests->requests[at], server->held_bytes + bytes[at], diag);
    server->bytes = bytes;
    return S2_OK;
}

static s2_spread spread_of(double *us, int32_t n)
{
    double sum = 0;
    if (n == 0)
        return (s2_spread){0, 0};
    qsort(us, (size_t)n, sizeof *us, s2_compare_f64);
    for (int32_t at = 0; at < n; at++)
        sum += us[at];
    return (s2_spread){sum / n, us[(int32_t)ceil(0.9 * n) - 1]};
}

/* Pricing the longest prompt refuses what no step can do. */
static s2_status check(s2_arena *arena, const s2_pattern *pattern, const s2_sim_options *options,
                       const s2_serving *serving, const s2_sim_requests *requests, s2_diag *diag)
{
    s2_sim_options own = *options;
    s2_sim sim;
    own.work_left = own.plan_left = NULL; /* as a page of its own */
    own.phase = S2_PREFILL;
    own.len_tok = own.batch = own.new_tok = 1;
    for (int32_t at = 0; at < requests->n; at++)
        own.len_tok = s2_max_i64(own.len_tok, requests->requests[at].prompt_tok);
    if (serving->chunk_tok == 0 && serving->prefix_tok == 0)
        own.new_tok = 0;
    S2_TRY(s2_price(arena, pattern, &own, S2_PRICE_TIME, &sim, diag));
    for (int32_t nth = 0; nth < requests->n; nth++)
        if (requests->requests[nth].output_tok > 1 && options->peer != NULL)
            return s2_peer_takes(options->peer, pattern, S2_DECODE, false, diag);
    return S2_OK;
}

static s2_status server_init(s2_arena *arena, const s2_pattern *pattern, s2_sim_server *server, s2_diag *diag)
{
    const int32_t n = server->requests->n;
    server->running = S2_NEW(arena, s2_sim_running, S2_MOST_RUNNING);
    server->len_tok = S2_NEW(arena, int64_t, S2_MOST_RUNNING);
    server->first_us = S2_NEW(arena, double, n);
    server->next_us = S2_NEW(arena, double, n);
    if (server->running == NULL || server->len_tok == NULL || server->first_us == NULL ||
        server->next_us == NULL)
        return S2_ENOMEM;
    server->out->room_bytes = s2_capacity_room(server->options);
    server->step_tok = most_read(server);
    S2_TRY(find_bytes(arena, pattern, server, diag));
    return s2_steps_init(arena, pattern, server->options, n <= EXACT_REQUESTS, &server->steps);
}

/* Weighted by the time of the launches. */
static void note_error(const s2_sim_server *server, s2_served *out)
{
    const s2_step_us *const sum = &server->attention;
    const double like_us = sum->us - sum->beyond_us;
    out->error = server->steps.error;
    out->error.pct = 100 * sum->off_us / sum->us;
    out->error.allowed = sum->beyond_us > 0;
    out->far = server->steps.far;
    out->beyond = sum->beyond_us / sum->us;
    out->like_pct = like_us > 0 ? 100 * (sum->off_us - sum->beyond_off_us) / like_us : 0;
}

static s2_status serve(s2_arena *arena, const s2_pattern *pattern, const s2_sim_options *options,
                       const s2_serving *serving, const s2_sim_requests *requests, s2_served *out,
                       s2_diag *diag)
{
    s2_served served = {0};
    s2_sim_server server = {.options = options, .serving = serving, .requests = requests, .out = &served};
    double n_output = 0;
    S2_TRY(check(arena, pattern, options, serving, requests, diag));
    s2_status status = server_init(arena, pattern, &server, diag);
    if (status == S2_OK)
        status = run(&server);
    if (status == S2_ELIMIT && !s2_work_goes_on(options->work_left))
        return s2_diag_set(
            diag, status, CODE_REQUESTS, 0, 0,
            "serving these requests takes more work than is allowed; larger chunks, fewer requests "
            "and fewer lengths take less");
    if (status == S2_ELIMIT)
        return s2_diag_set(diag, status, CODE_REQUESTS, 0, 0,
                           "these requests take more than 2^25 tokens to schedule, or more than %d pieces of "
                           "prompts to price; larger chunks and fewer requests take less",
                           S2_STEP_PIECES);
    S2_TRY(status);
    for (int32_t at = 0; at < requests->n; at++)
        n_output += (double)requests->requests[at].output_tok;
    served.us = server.now_us;
    served.tokens_per_s = n_output / served.us * 1e6;
    served.first = spread_of(server.first_us, server.n_first);
    served.next = spread_of(server.next_us, server.n_next);
    served.mixed = server.steps.mix.n_shares > 0;
    served.predicted = server.steps.predicted;
    served.measured = server.steps.measured;
    served.scores = server.steps.scores;
    served.scored = server.steps.scored;
    note_error(&server, &served);
    *out = served;
    return S2_OK;
}

s2_status s2_requests_serve(s2_arena *arena, const s2_pattern *pattern, bool dense,
                            const s2_sim_options *options, const s2_serving *serving,
                            const s2_sim_requests *requests, s2_served *out, s2_diag *diag)
{
    const s2_arena_mark_t mark = s2_arena_mark(arena);
    s2_sim_options own = *options;
    int64_t own_work = S2_SERVE_STEPS;
    s2_pattern beside;
    if (own.work_left == NULL)
        own.work_left = &own_work;
    own.plan_left = own.work_left;
    s2_status status = dense ? s2_attention_dense(arena, pattern, &beside) : S2_OK;
    if (status == S2_OK)
        status = serve(arena, dense ? &beside : pattern, &own, serving, requests, out, diag);
    s2_arena_rewind(arena, mark);
    return status;
}

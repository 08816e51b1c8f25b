/*
 * sim/requests.h - a mix of requests on a server that batches them step by step.
 *
 * In each step every sequence whose prompt is done gets a token, and prompts proceed in order of arrival.
 * With chunks, up to chunk_tok prompt tokens are read in the same step as the tokens; without, one whole
 * prompt is read and no token is produced meanwhile. A request begins when the most it will ever keep fits in
 * addition to the most that the requests before it will ever keep; none overtakes another and none is
 * evicted. The first prefix_tok tokens of every prompt are the same: they are computed and kept once.
 *
 * Threads: no state.
 */
#ifndef S2_SIM_REQUESTS_H
#define S2_SIM_REQUESTS_H

#include "sim/price.h"

enum { S2_REQUESTS = 1 << 16, S2_MOST_RUNNING = 4096 };
#define S2_SERVE_STEPS (INT64_C(1) << 31) /* base/work.h: most are a slab's of a list, some seconds in all */

typedef struct s2_sim_request {
    int32_t line;
    int64_t prompt_tok;
    int64_t output_tok;
    double arrival_us;
} s2_sim_request;

typedef struct s2_sim_requests {
    int32_t n;
    const s2_sim_request *requests; /* by arrival */
} s2_sim_requests;

/*
 * Comma-separated text. The first line that is not a comment ('#') names the columns, in any order: prompt,
 * output (whole numbers of tokens) and, unless all requests arrive at once, arrival (seconds). S2_EPARSE with
 * line and column in *diag; S2_ENOMEM. Requests live in the arena.
 */
s2_status s2_requests_parse(s2_arena *arena, const char *text, size_t n_bytes, s2_sim_requests *out,
                            s2_diag *diag) S2_MUST_CHECK;

typedef struct s2_serving {
    int64_t chunk_tok; /* 0: whole prompts */
    int64_t prefix_tok;
} s2_serving;

/* Summary of the times of all requests. */
typedef struct s2_spread {
    double mean_us;
    double p90_us;
} s2_spread;

typedef struct s2_served {
    double us;           /* until the last token of the last request */
    double tokens_per_s; /* of output */
    s2_spread first;     /* token of a request, from its arrival */
    s2_spread next;      /* tokens: the mean of each request with more than one; 0: there are none */
    int64_t n_steps;
    int32_t most_running;
    double room_bytes; /* of a GPU, after the weights */
    double most_bytes; /* the most of it that was reserved for caches at once */
    double pass_bytes; /* and the most that was left for what a step holds besides */
    bool mixed; /* steps of unequal lengths are priced by their own lists, not as shares of equal ones */
    bool predicted;
    bool measured;
    s2_error
        error; /* of attention: pct weighted by the time of its launches; most_pct is the largest measured */
    double beyond;   /* share of attention's time in launches that are not like those that were measured */
    double like_pct; /* the error of all others; 0: there are none */
    s2_far far;      /* the launch that is farthest from those that were measured */
    s2_model_scores scores;
    s2_scored scored; /* the worst of all prices */
} s2_served;

/*
 * dense: price the same shape with every head dense instead. Each step sets phase, length and batch of the
 * options. S2_EINVAL with the reason in *diag, also where a request does not fit alone; S2_ELIMIT where there
 * is too much to schedule or to price. All steps of the server spend from the options' work_left, planning
 * included; NULL: from S2_SERVE_STEPS.
 */
s2_status s2_requests_serve(s2_arena *arena, const s2_pattern *pattern, bool dense,
                            const s2_sim_options *options, const s2_serving *serving,
                            const s2_sim_requests *requests, s2_served *out, s2_diag *diag) S2_MUST_CHECK;

#endif /* S2_SIM_REQUESTS_H */

#include "search/search.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "base/rng.h"
#include "pattern/comb.h"
#include "pattern/parse.h"

enum {
    FIRST_BATCH = 64,
    DEAR_BATCH = 256,
    LARGEST_BATCH = 8192,
    SLICE = 16,
    PROOF_STEPS = 10000000,
    CHEAP_BODIES = 2
};

/* ---- the order of visits */

/* visit * factor + shift mod n is a permutation when factor and n have no common divisor. */
int64_t s2_search_candidate(const s2_search *search, int64_t visit)
{
    __extension__ typedef __int128 wide;
    const int64_t n = search->space->n_candidates;
    s2_rng rng = {search->seed};
    const int64_t shift = (int64_t)s2_rng_below(&rng, (uint64_t)n);
    int64_t factor = (int64_t)s2_rng_below(&rng, (uint64_t)n) | 1;
    while (s2_gcd(factor, n) != 1)
        factor += 2;
    return (int64_t)(((wide)visit * factor + shift) % n);
}

void s2_search_shard(s2_search *search, int64_t shard, int64_t n_shards)
{
    __extension__ typedef __int128 wide;
    const wide n = search->space->n_candidates;
    search->begin = (int64_t)(n * (shard - 1) / n_shards);
    search->end = (int64_t)(n * shard / n_shards);
}

/* A price by whole plans takes up to a second, so a batch has few of them: they are lost when the search
 * stops. */
static int64_t batch_size(const s2_search *search, const s2_search_state *state)
{
    const int64_t done = state->next - search->begin;
    const int64_t n_dear = search->options.calibration != NULL
                               ? state->counts.priced + state->counts.outside /* some were expensive */
                               : state->counts.priced_slowly;
    int64_t size = s2_min_i64(done, LARGEST_BATCH);
    if (n_dear > 0 && size > DEAR_BATCH * done / n_dear)
        size = DEAR_BATCH * done / n_dear;
    return s2_max_i64(size, FIRST_BATCH);
}

/* ---- one candidate */

typedef struct worker {
    const s2_search *search;
    const s2_search_state *state; /* of earlier batches; not written meanwhile */
    atomic_llong *next;           /* shared: the next visit to take */
    atomic_bool *left;            /* shared: the batch is given up */
    s2_search_watch_fn watch;     /* only in the calling thread's worker, else NULL */
    void *user;
    int64_t end;
    int64_t slice; /* visits that a worker takes at once */
    s2_objectives objectives;
    s2_arena arena;
    s2_buf text;
    s2_search_counts counts;
    int64_t refused_index;
    int32_t n_found;
    s2_point found[LARGEST_BATCH];
    s2_status status;
    pthread_t thread;
    bool started;
} worker;

static s2_status parse_candidate(const s2_search *search, int64_t index, s2_arena *arena, s2_buf *text,
                                 s2_pattern *out, s2_diag *diag)
{
    const s2_parse_options options = {.no_files = true, .mixers = search->mixers};
    text->len = 0;
    s2_space_expand(search->space, index, text);
    if (text->status != S2_OK)
        return text->status;
    return s2_pattern_parse(arena, text->data != NULL ? text->data : "", text->len, &options, out, diag);
}

s2_status s2_search_pattern(const s2_search *search, int64_t index, s2_arena *arena, s2_pattern *out,
                            s2_diag *diag)
{
    s2_buf text = {0};
    const s2_status status = parse_candidate(search, index, arena, &text, out, diag);
    s2_buf_release(&text);
    return status;
}

static s2_status ask_price(const s2_search *search, const s2_pattern *pattern, s2_arena *arena, s2_diag *diag)
{
    s2_sim sim;
    s2_sim_options options = search->options;
    for (int phase = 0; phase < S2_N_PHASES; phase++) {
        options.phase = (s2_phase)phase;
        bool timed = false;
        for (int32_t v = 0; v < search->n_by; v++)
            timed |= search->by[v] == s2_objective_time(options.phase);
        if (timed || phase == 0)
            S2_TRY(s2_price(arena, pattern, &options, S2_PRICE_WHOLE, &sim, diag));
    }
    return S2_OK;
}

s2_status s2_search_refusal(const s2_search *search, int64_t index, s2_arena *arena, s2_diag *diag)
{
    const s2_prove_options options = {.n_tok = S2_OPEN, .work_limit = PROOF_STEPS};
    s2_finding findings[S2_SEARCH_REQUIREMENTS];
    s2_pattern pattern;
    S2_TRY(s2_search_pattern(search, index, arena, &pattern, diag));
    const s2_status status =
        s2_prove(arena, &pattern, search->requirements, search->n_requirements, &options, findings);
    if (status == S2_EINVAL)
        return s2_diag_set(diag, S2_EPARSE, 0, 0, 0, "a required property does not fit its shape");
    return status == S2_OK ? ask_price(search, &pattern, arena, diag) : status;
}

/* Whether every requirement holds for every length; if not, the candidate is counted. */
static s2_status prove(worker *w, const s2_pattern *pattern, bool *holds)
{
    const s2_search *const search = w->search;
    const s2_prove_options options = {.n_tok = S2_OPEN, .work_limit = PROOF_STEPS};
    s2_finding findings[S2_SEARCH_REQUIREMENTS];
    *holds = false;
    bool unknown = false;
    /* together if proofs are cheap; else one by one, since a violation makes later proofs unnecessary */
    const int32_t step = pattern->n_bodies <= CHEAP_BODIES ? search->n_requirements : 1;
    for (int32_t r = 0; r < search->n_requirements; r++) {
        if (r % step == 0)
            S2_TRY(s2_prove(&w->arena, pattern, search->requirements + r, step, &options, findings + r));
        if (findings[r].verdict == S2_VIOLATED) {
            w->counts.violated[findings[r].requirement.property]++;
            return S2_OK;
        }
        unknown |= findings[r].verdict == S2_UNKNOWN;
    }
    w->counts.unknown += unknown;
    *holds = !unknown;
    return S2_OK;
}

/* Whether a value is above a limit; bounds above it are conclusive. */
static bool is_outside(const s2_search *search, const s2_objectives *objectives, const s2_pattern *pattern,
                       const double *value)
{
    for (int32_t n = 0; n < search->n_limits; n++) {
        const s2_search_limit *const limit = &search->limits[n];
        const double whole = limit->of_dense ? s2_objectives_dense_kv_bytes(objectives, pattern) : 1;
        int32_t v = 0;
        while (objectives->by[v] != limit->of)
            v++;
        if (value[v] > limit->most * whole)
            return true;
    }
    return false;
}

/* Drop and count a candidate by its bounds, raising these while they leave it open. */
static s2_status drop(worker *w, s2_quote *quote, s2_point *point, bool *dropped)
{
    for (int32_t step = 0;; step++) {
        const bool outside = is_outside(w->search, &w->objectives, quote->pattern, point->value),
                   beaten = !outside && s2_front_beats(&w->state->front, point);
        w->counts.outside += outside;
        w->counts.beaten += beaten;
        *dropped = outside || beaten;
        if (*dropped || step == S2_REFINE_STEPS)
            return S2_OK;
        S2_TRY(s2_objectives_refine(&w->objectives, quote, step, point->value));
    }
}

static s2_status price(worker *w, int64_t index, const s2_pattern *pattern)
{
    s2_quote quote;
    s2_point point = {.index = index};
    bool dropped = false;
    S2_TRY(s2_objectives_bound(&w->objectives, pattern, &quote, point.value));
    if (!w->search->no_pruning && quote.floor.fast)
        S2_TRY(drop(w, &quote, &point, &dropped));
    if (dropped)
        return S2_OK;
    bool accepted = true;
    if (w->search->accept != NULL)
        S2_TRY(w->search->accept(w->search->accept_user, pattern, &accepted));
    if (!accepted) {
        w->counts.unaccepted++;
        return S2_OK;
    }
    S2_TRY(s2_objectives_exact(&w->objectives, &quote, point.value));
    const bool outside = is_outside(w->search, &w->objectives, pattern, point.value);
    w->counts.outside += outside;
    w->counts.priced += !outside;
    w->counts.priced_slowly += !quote.floor.fast;
    for (int32_t v = w->search->n_by; v < S2_MAX_OBJECTIVES; v++)
        point.value[v] = 0; /* objectives with only a limit are not values of the front */
    if (!outside && !s2_front_beats(&w->state->front, &point))
        w->found[w->n_found++] = point;
    return S2_OK;
}

static void refuse(worker *w, int64_t index)
{
    w->counts.refused++;
    if (w->refused_index < 0 || index < w->refused_index)
        w->refused_index = index;
}

static s2_status visit(worker *w, int64_t index)
{
    s2_pattern pattern;
    bool holds;
    s2_status status = parse_candidate(w->search, index, &w->arena, &w->text, &pattern, NULL);
    if (status == S2_EPARSE) {
        refuse(w, index);
        return S2_OK;
    }
    S2_TRY(status);
    status = prove(w, &pattern, &holds);
    if (status == S2_EINVAL) {
        refuse(w, index);
        return S2_OK;
    }
    S2_TRY(status);
    status = holds ? price(w, index, &pattern) : S2_OK;
    if (status == S2_EINVAL || status == S2_EUNSUPPORTED) { /* this shape has no price */
        refuse(w, index);
        return S2_OK;
    }
    /* pairs that take too long to count leave no price to compare */
    w->counts.unknown += status == S2_ELIMIT;
    return status == S2_ELIMIT ? S2_OK : status;
}

/* ---- a batch */

static bool goes_on(worker *w)
{
    if (w->watch != NULL) {
        const int64_t next = atomic_load(w->next);
        if (!w->watch(w->user, w->state, s2_min_i64(next, w->end)))
            atomic_store(w->left, true);
    }
    return w->status == S2_OK && !atomic_load(w->left);
}

static void *work(void *user)
{
    worker *const w = user;
    for (bool more = true; more;) {
        const int64_t begin = atomic_fetch_add(w->next, w->slice);
        const int64_t end = s2_min_i64(begin + w->slice, w->end);
        more = begin < end;
        for (int64_t v = begin; v < end && more; v++) {
            const s2_arena_mark_t mark = s2_arena_mark(&w->arena);
            w->status = visit(w, s2_search_candidate(w->search, v));
            s2_arena_rewind(&w->arena, mark);
            more = goes_on(w);
        }
    }
    return NULL;
}

/* If a thread cannot be started, the others do its work: the first worker is this thread. */
static void run_workers(worker *workers, int32_t n)
{
    for (int32_t at = 1; at < n; at++)
        workers[at].started = pthread_create(&workers[at].thread, NULL, work, &workers[at]) == 0;
    work(&workers[0]);
    for (int32_t at = 1; at < n; at++)
        if (workers[at].started)
            pthread_join(workers[at].thread, NULL);
}

void s2_search_counts_add(s2_search_counts *sum, const s2_search_counts *part)
{
    sum->refused += part->refused;
    for (int p = 0; p < S2_N_PROPERTIES; p++)
        sum->violated[p] += part->violated[p];
    sum->unknown += part->unknown;
    sum->outside += part->outside;
    sum->unaccepted += part->unaccepted;
    sum->beaten += part->beaten;
    sum->priced += part->priced;
    sum->priced_slowly += part->priced_slowly;
}

/* A batch counts as a whole or not at all. */
static s2_status take_batch(worker *workers, int32_t n, int64_t end, s2_search_state *state)
{
    int32_t n_found = 0;
    for (int32_t at = 0; at < n; at++) {
        S2_TRY(workers[at].status);
        n_found += workers[at].n_found;
    }
    s2_point *const found = s2_malloc((size_t)(n_found + 1) * sizeof *found);
    if (found == NULL)
        return S2_ENOMEM;
    n_found = 0;
    for (int32_t at = 0; at < n; at++) {
        memcpy(found + n_found, workers[at].found, (size_t)workers[at].n_found * sizeof *found);
        n_found += workers[at].n_found;
    }
    const s2_status status = s2_front_add(&state->front, found, n_found);
    s2_free(found);
    S2_TRY(status);
    for (int32_t w = 0; w < n; w++) {
        const int64_t refused = workers[w].refused_index;
        s2_search_counts_add(&state->counts, &workers[w].counts);
        if (refused >= 0 && (state->refused_index < 0 || refused < state->refused_index))
            state->refused_index = refused;
    }
    state->next = end;
    return S2_OK;
}

/* Afterwards state->next is `end`, or unchanged if the batch was given up. */
static s2_status run_batch(const s2_search *search, worker *workers, int32_t n, int64_t end,
                           s2_search_state *state)
{
    atomic_llong next = state->next;
    atomic_bool left = false;
    const int64_t share = (end - state->next) / (4 * (int64_t)n);
    for (int32_t w_no = 0; w_no < n; w_no++) {
        worker *const w = &workers[w_no];
        w->search = search;
        w->state = state;
        w->next = &next;
        w->left = &left;
        w->end = end;
        w->slice = s2_clamp_i64(share, 1, SLICE);
        w->counts = (s2_search_counts){0};
        w->refused_index = -1;
        w->n_found = 0;
        w->status = S2_OK;
        w->started = false;
    }
    run_workers(workers, n);
    return atomic_load(&left) ? S2_OK : take_batch(workers, n, end, state);
}

void s2_search_state_init(const s2_search *search, s2_search_state *out)
{
    *out = (s2_search_state){.next = search->begin, .refused_index = -1};
    out->front.n_values = search->n_by;
}

void s2_search_state_release(s2_search_state *state)
{
    s2_front_release(&state->front);
}

/* The objectives of the front first, then those that only have a limit. */
static int32_t all_objectives(const s2_search *search, s2_objective by[S2_MAX_OBJECTIVES])
{
    int32_t n_by = search->n_by;
    memcpy(by, search->by, sizeof search->by);
    for (int32_t n = 0; n < search->n_limits; n++) {
        bool known = false;
        for (int32_t v = 0; v < n_by; v++)
            known |= by[v] == search->limits[n].of;
        if (!known)
            by[n_by++] = search->limits[n].of;
    }
    return n_by;
}

s2_status s2_search_price(const s2_search *search, const s2_pattern *pattern, s2_point *out, bool *within)
{
    s2_objective by[S2_MAX_OBJECTIVES];
    const int32_t n_by = all_objectives(search, by);
    s2_objectives objectives;
    s2_quote quote;
    s2_point point = {.index = out->index};
    S2_TRY(s2_objectives_init(&objectives, &search->options, by, n_by));
    s2_status status = s2_objectives_bound(&objectives, pattern, &quote, point.value);
    if (status == S2_OK)
        status = s2_objectives_exact(&objectives, &quote, point.value);
    if (status == S2_OK) {
        *within = !is_outside(search, &objectives, pattern, point.value);
        for (int32_t v = search->n_by; v < S2_MAX_OBJECTIVES; v++)
            point.value[v] = 0; /* objectives with only a limit are not values of the front */
        *out = point;
    }
    s2_objectives_release(&objectives);
    return status;
}

static s2_status run(const s2_search *search, worker *workers, int32_t n, int64_t until,
                     s2_search_state *state)
{
    const worker *const own = &workers[0];
    for (bool more = true; more && state->next < until;) {
        const int64_t size = batch_size(search, state);
        const int64_t end = until - state->next < size ? until : state->next + size;
        S2_TRY(run_batch(search, workers, n, end, state));
        more = state->next == end && (own->watch == NULL || own->watch(own->user, state, end));
    }
    return S2_OK;
}

s2_status s2_search_run(const s2_search *search, s2_search_state *state, int64_t until,
                        s2_search_watch_fn watch, void *user)
{
    const int32_t n = s2_clamp_i32(search->n_jobs, 1, S2_SEARCH_JOBS);
    worker *const workers = s2_calloc((size_t)n, sizeof *workers);
    if (workers == NULL)
        return S2_ENOMEM;
    s2_objective by[S2_MAX_OBJECTIVES];
    const int32_t n_by = all_objectives(search, by);
    s2_status status = S2_OK;
    for (int32_t at = 0; at < n && status == S2_OK; at++)
        status = s2_objectives_init(&workers[at].objectives, &search->options, by, n_by);
    workers[0].watch = watch;
    workers[0].user = user;
    if (status == S2_OK)
        status = run(search, workers, n, s2_min_i64(until, search->end), state);
    for (int32_t at = 0; at < n; at++) {
        s2_objectives_release(&workers[at].objectives);
        s2_arena_release(&workers[at].arena);
        s2_buf_release(&workers[at].text);
    }
    s2_free(workers);
    return status;
}

#include "library/cache.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/work.h"
#include "kernels/follow.h"

_Static_assert((int)S2_API_FORWARD == (int)S2_PASS_FORWARD && (int)S2_API_BACKWARD == (int)S2_PASS_BACKWARD &&
                   (int)S2_API_DECODING == (int)S2_PASS_DECODE,
               "the passes of s2.h are those of plan/pass.h");

struct s2_api_device {
    s2_device *device;
};

/* The cache that the lists were made for, and its state at the time. */
typedef struct cached_lists {
    int64_t stamp;
    int32_t *sequences;
    int64_t *versions;
} cached_lists;

struct s2_api_plan {
    s2_api_pattern *pattern;
    s2_device *device; /* not owned */
    const s2_kernel *kernel;
    bool deterministic;
    s2_arena arena;
    s2_arena_mark_t lists; /* memory above this mark was allocated by building the plan */
    s2_plan plan;
    int32_t layer;        /* for which it was opened; plan.layer is that of the last call */
    const int32_t *kinds; /* [layer] DECODING: the lowest layer that reads the same */
    s2_plan_seq *lens;    /* plan.seqs points here where the plan has classes only */
    cached_lists of_cache;
    s2_attn_problem problem; /* of the last call; the plan fixes all but its pointers */
    s2_cached cached;
    s2_listed listed;  /* of the last call, where the plan has lists */
    void *state;       /* what the kernel prepared for the problem; NULL: not yet */
    int64_t n_made;    /* number of states made so far */
    int64_t work_left; /* of the planning in progress (base/work.h) */
};

/* ------------------------------------------------------------------ devices */

int s2_api_device_open(const char *spec, s2_api_device **out, s2_api_error *why)
{
    if (spec == NULL || out == NULL)
        return s2_answer_argument(why, "%s is NULL", spec == NULL ? "spec" : "out");
    s2_diag diag = {0};
    s2_api_device *const own = s2_calloc(1, sizeof *own);
    const s2_status status = own != NULL ? s2_device_open(spec, &own->device, &diag) : S2_ENOMEM;
    if (status == S2_OK)
        *out = own;
    else
        s2_free(own);
    return s2_answer(status, &diag, why);
}

void s2_api_device_close(s2_api_device *device)
{
    if (device == NULL)
        return;
    s2_device_close(&device->device);
    s2_free(device);
}

int s2_api_device_stream(s2_api_device *device, void *stream, s2_api_error *why)
{
    const s2_diag none = {0};
    if (device == NULL)
        return s2_answer_argument(why, "device is NULL");
    s2_device *const own = device->device;
    return s2_answer(own->ops->use_stream != NULL ? own->ops->use_stream(own, stream) : S2_OK, &none, why);
}

int s2_api_device_wait(s2_api_device *device, s2_api_error *why)
{
    s2_diag diag = {0};
    if (device == NULL)
        return s2_answer_argument(why, "device is NULL");
    return s2_answer(device->device->ops->sync(device->device, &diag), &diag, why);
}

/* ------------------------------------------------------------------ plans */

/* NULL, or a message naming the option that is out of range. */
static const char *fault_of(const s2_pattern *pattern, const s2_api_plan_options *in)
{
    if (in->pass < 0 || in->pass >= (int32_t)S2_N_PASSES)
        return "pass: no s2_api_pass";
    if (in->phase < 0 || in->phase >= (int32_t)S2_N_RULE_PHASES)
        return "phase: neither prefill nor decode";
    if (in->layer < 0 || in->layer >= pattern->n_layers)
        return "layer: the pattern has no such layer";
    if (in->dtype < 0 || in->dtype >= (int32_t)S2_N_DTYPES)
        return "dtype: no s2_api_dtype";
    if (in->head_dim < 1 || in->head_dim > S2_LIMIT_HEAD_DIM)
        return "head_dim: out of range";
    if (in->n_sequences < 1 || in->n_sequences > S2_LIMIT_CONTEXT_TOK)
        return "n_sequences: out of range";
    if (in->q_tok == NULL || in->k_tok == NULL)
        return "q_tok or k_tok is NULL";
    if (!(in->cap >= 0.0f) || isinf(in->cap))
        return "cap: 0, or positive and finite";
    if ((in->q_begin == NULL) != (in->k_begin == NULL))
        return "q_begin, k_begin: both or none";
    if (in->list_heads != 0 && in->pass != S2_API_FORWARD)
        return "list_heads: only of FORWARD";
    return NULL;
}

/* Packed sequences must follow each other without overlap, so that no row belongs to two of them. */
static bool begins_fit(const int32_t *begin, const int32_t *n_tok, int32_t n)
{
    for (int32_t seq = 0; begin != NULL && seq < n; seq++)
        if (begin[seq] < 0 || (int64_t)begin[seq] + n_tok[seq] != begin[seq + 1])
            return false;
    return true;
}

/* Whether a sequence without tokens may be left out: only then does nothing else count sequences. */
static bool may_be_empty(const s2_api_plan_options *in)
{
    return in->q_begin != NULL && in->pass != S2_API_DECODING && in->list_heads == 0;
}

/* The sequences that have tokens; where they begin in packed tensors goes to q_begin and k_begin. */
static s2_status read_sequences(s2_api_plan *plan, const s2_api_plan_options *in, int32_t *q_begin,
                                int32_t *k_begin, s2_diag *diag)
{
    int32_t n = 0;
    for (int32_t seq = 0; seq < in->n_sequences; seq++) {
        const int32_t q_tok = in->q_tok[seq], k_tok = in->k_tok[seq];
        if (q_tok == 0 && k_tok == 0 && may_be_empty(in))
            continue;
        if (q_tok < 1 || q_tok > k_tok || k_tok > S2_LIMIT_CONTEXT_TOK)
            return s2_diag_set(diag, S2_EINVAL, 0, 0, 0,
                               "q_tok, k_tok: sequence %d has %d queries and %d keys; at least one query, "
                               "no more than keys, and at most %d keys; only a packed sequence may have "
                               "neither, and not in DECODING or with lists",
                               seq, q_tok, k_tok, S2_LIMIT_CONTEXT_TOK);
        plan->lens[n] = (s2_plan_seq){q_tok, k_tok};
        q_begin[n] = in->q_begin != NULL ? in->q_begin[seq] : 0;
        k_begin[n] = in->k_begin != NULL ? in->k_begin[seq] : 0;
        n++;
    }
    if (n == 0)
        return s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "q_tok, k_tok: no sequence has a token");
    q_begin[n] = in->q_begin != NULL ? in->q_begin[in->n_sequences] : 0;
    k_begin[n] = in->k_begin != NULL ? in->k_begin[in->n_sequences] : 0;
    plan->problem.n_seqs = n;
    return S2_OK;
}

static s2_status read_lengths(s2_api_plan *plan, const s2_api_plan_options *in, s2_diag *diag)
{
    const size_t n = (size_t)in->n_sequences;
    plan->lens = S2_NEW(&plan->arena, s2_plan_seq, n);
    int32_t *const begins = S2_NEW(&plan->arena, int32_t, 2 * (n + 1));
    plan->of_cache.sequences = S2_NEW(&plan->arena, int32_t, n);
    plan->of_cache.versions = S2_NEW(&plan->arena, int64_t, n);
    if (plan->lens == NULL || begins == NULL || plan->of_cache.sequences == NULL ||
        plan->of_cache.versions == NULL)
        return S2_ENOMEM;
    S2_TRY(read_sequences(plan, in, begins, begins + n + 1, diag));
    if (!begins_fit(in->q_begin, in->q_tok, in->n_sequences) ||
        !begins_fit(in->k_begin, in->k_tok, in->n_sequences))
        return s2_diag_set(diag, S2_EINVAL, 0, 0, 0,
                           "q_begin, k_begin: sequences do not lie one after the other");
    if (in->q_begin == NULL)
        return S2_OK;
    plan->problem.q_begin_tok = begins;
    plan->problem.k_begin_tok = begins + n + 1;
    return S2_OK;
}

/* Reads every layer: a call may name any layer that reads the same as the plan's. */
static s2_status read_kinds(s2_api_plan *plan, s2_phase phase)
{
    const s2_pattern *const pattern = &plan->pattern->pattern;
    s2_arena scratch = {0};
    const int32_t *layers = NULL;
    int32_t n = 0;
    int32_t *const kinds = S2_NEW(&plan->arena, int32_t, pattern->n_layers);
    if (kinds == NULL)
        return S2_ENOMEM;
    const s2_status status = s2_plan_distinct_layers(&scratch, pattern, phase, &layers, &n, kinds);
    s2_arena_release(&scratch);
    plan->kinds = kinds;
    return status;
}

/* Steps that a plan may take, and the lists of a call that decodes (base/work.h): some seconds. */
#define PLAN_POWER 30
#define PLAN_WORK  (INT64_C(1) << PLAN_POWER)

static s2_status say_too_much(int32_t layer, s2_diag *why)
{
    return s2_diag_set(
        why, S2_ELIMIT, 0, 0, 0,
        "to plan what the heads of layer %d read takes more than " S2_WORK_SPELL(
            PLAN_POWER) ": shorter sequences, larger blocks or fewer heads that differ take less",
        layer);
}

typedef struct planning {
    s2_api_plan *plan;
    s2_phase phase;
    int32_t layer;
} planning;

static s2_status take(void *user, const s2_kernel *kernel, s2_diag *why)
{
    const planning *const ask = user;
    s2_api_plan *const plan = ask->plan;
    if (plan->deterministic && !kernel->deterministic)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "%s gives other bits each time",
                           kernel->traits->name);
    plan->problem.plan = NULL;
    S2_TRY(s2_kernel_supports(plan->device, kernel, &plan->problem, why));
    const s2_arena_mark_t mark = s2_arena_mark(&plan->arena);
    s2_plan_options cut = s2_kernel_cut(kernel->traits, plan->problem.head_dim);
    if (plan->problem.listed != NULL && plan->listed.n_heads != plan->problem.n_kv_heads)
        cut.pack_heads = 1; /* heads that share a tile share its lists */
    plan->work_left = PLAN_WORK;
    cut.work_left = &plan->work_left;
    /* kernels that can follow a cache look only at classes */
    s2_status (*const make)(s2_arena *, const s2_pattern *, s2_phase, int32_t, const s2_plan_seq *, int32_t,
                            const s2_plan_options *, s2_plan *, s2_diag *) =
        s2_kernel_follow(kernel) != NULL ? s2_plan_build_classes : s2_plan_build;
    s2_status status = make(&plan->arena, &plan->pattern->pattern, ask->phase, ask->layer, plan->lens,
                            plan->problem.n_seqs, &cut, &plan->plan, why);
    if (plan->problem.pass != S2_PASS_DECODE)
        plan->plan.options.work_left = NULL; /* several threads make its lists */
    plan->problem.plan = &plan->plan;
    if (status == S2_ELIMIT)
        status = say_too_much(ask->layer, why);
    if (status == S2_OK && plan->problem.listed != NULL)
        status = s2_lists_check(&plan->problem, why);
    if (status == S2_OK)
        status = s2_kernel_supports(plan->device, kernel, &plan->problem, why);
    if (status != S2_OK)
        s2_arena_rewind(&plan->arena, mark);
    return status;
}

static s2_status build(s2_api_plan *plan, const s2_api_plan_options *in, s2_diag *diag)
{
    const s2_pattern *const pattern = &plan->pattern->pattern;
    planning ask = {plan, (s2_phase)in->phase, in->layer};
    plan->problem = (s2_attn_problem){.pass = (s2_pass)in->pass,
                                      .dtype = (s2_dtype)in->dtype,
                                      .n_heads = pattern->n_heads,
                                      .n_kv_heads = pattern->n_kv_heads,
                                      .head_dim = in->head_dim,
                                      .scale = 1.0f,
                                      .cap = in->cap,
                                      .sinks = in->sinks != 0};
    plan->deterministic = in->deterministic != 0;
    plan->layer = in->layer;
    plan->listed = (s2_listed){.n_heads = in->list_heads,
                               .q_blocks = in->list_q_blocks,
                               .most = in->list_most,
                               .q_block_tok = in->list_q_tok,
                               .k_block_tok = pattern->block_tok};
    plan->problem.listed = in->list_heads != 0 ? &plan->listed : NULL;
    S2_TRY(read_lengths(plan, in, diag));
    if (plan->problem.pass == S2_PASS_DECODE)
        S2_TRY(read_kinds(plan, ask.phase));
    plan->lists = s2_arena_mark(&plan->arena);
    return s2_kernel_choose(plan->device, NULL, take, &ask, &plan->kernel, diag);
}

int s2_api_plan_open(s2_api_device *device, const s2_api_pattern *pattern, const s2_api_plan_options *options,
                     s2_api_plan **out, s2_api_error *why)
{
    s2_api_plan_options in;
    if (device == NULL || pattern == NULL || out == NULL)
        return s2_answer_argument(why, "device, pattern or out is NULL");
    if (!s2_struct_in(&in, sizeof in, options))
        return s2_answer_argument(why, "options: NULL, or its size is not that of any s2_api_plan_options");
    const char *const fault = fault_of(&pattern->pattern, &in);
    if (fault != NULL)
        return s2_answer_argument(why, "%s", fault);
    S2_IN_C_LOCALE;
    s2_diag diag = {0};
    s2_api_plan *const plan = s2_calloc(1, sizeof *plan);
    if (plan == NULL)
        return s2_answer(S2_ENOMEM, &diag, why);
    plan->pattern = s2_handle_hold(pattern);
    plan->device = device->device;
    const s2_status status = build(plan, &in, &diag);
    if (status == S2_OK)
        *out = plan;
    else
        s2_api_plan_close(plan);
    return s2_answer(status, &diag, why);
}

void s2_api_plan_close(s2_api_plan *plan)
{
    if (plan == NULL)
        return;
    if (plan->kernel != NULL)
        plan->kernel->finish(plan->device, plan->state);
    s2_arena_release(&plan->arena);
    s2_api_pattern_close(plan->pattern);
    s2_free(plan);
}

const char *s2_api_plan_kernel(const s2_api_plan *plan)
{
    return plan != NULL ? plan->kernel->traits->name : "";
}

/* ------------------------------------------------------------------ calls */

static s2_tensor tensor_of(const s2_api_tensor *from)
{
    return (s2_tensor){from->data, from->sequence, from->token, from->head};
}

/* GPU kernels move rows in pieces of 16 bytes. */
static bool rows_are_placed(const s2_api_plan *plan, const s2_api_tensor *tensor)
{
    const int64_t item = plan->problem.dtype == S2_F32 ? 4 : 2;
    const int64_t sequence = plan->problem.q_begin_tok == NULL ? tensor->sequence : 0;
    return plan->device->kind == S2_DEVICE_CPU || (sequence | tensor->token | tensor->head) * item % 16 == 0;
}

#define NAMED(NAME)                                                                                          \
    {                                                                                                        \
        &call->NAME, #NAME ": NULL, or not aligned to 16 bytes",                                             \
            #NAME ": on a GPU its strides must be multiples of 16 bytes"                                     \
    }

static const char *missing_tensor(const s2_api_plan *plan, const s2_api_call *call)
{
    const struct {
        const s2_api_tensor *tensor;
        const char *unplaced;
        const char *rows;
    } all[] = {NAMED(q), NAMED(k), NAMED(v), NAMED(o), NAMED(d_o), NAMED(d_q), NAMED(d_k), NAMED(d_v)};
    const int32_t n = plan->problem.pass == S2_PASS_BACKWARD ? 8 : 4;
    for (int32_t at = 0; at < n; at++)
        if (!s2_data_is_placed(all[at].tensor->data))
            return all[at].unplaced;
    for (int32_t at = 0; at < n; at++)
        if (!rows_are_placed(plan, all[at].tensor))
            return all[at].rows;
    if ((call->sink != NULL) != plan->problem.sinks)
        return plan->problem.sinks ? "sink is NULL, and the plan has sinks" : "sink: the plan has none";
    if (plan->problem.sinks && plan->problem.pass == S2_PASS_BACKWARD && call->d_sink == NULL)
        return "d_sink is NULL";
    const bool listed = plan->problem.listed != NULL;
    if ((call->list_counts != NULL) != listed || (call->list_blocks != NULL) != listed)
        return listed ? "list_counts, list_blocks: NULL, and the plan has lists"
                      : "list_counts, list_blocks: the plan has no lists";
    return call->lse.data == NULL ? "lse is NULL" : NULL;
}

static int32_t layer_of(const s2_api_plan *plan, const s2_api_call *call)
{
    return call->of_layer > 0 ? call->of_layer - 1 : plan->layer;
}

static s2_status check_cached(const s2_api_plan *plan, const s2_api_call *call, s2_diag *diag)
{
    const s2_pattern *const own = &plan->pattern->pattern;
    if (call->cache == NULL)
        return call->of_layer == 0
                   ? S2_OK
                   : s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "of_layer: only of a call with a cache");
    if (plan->problem.pass != S2_PASS_DECODE)
        return s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "cache: only DECODING reads one");
    const s2_pattern *const cached = &call->cache->pattern->pattern;
    const int32_t layer = layer_of(plan, call);
    if (cached != own)
        return s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "cache: it keeps what another pattern reads");
    if (call->of_layer < 0)
        return s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "of_layer: %d; 0, or a layer and one", call->of_layer);
    if (layer < call->cache->layer_begin || layer >= call->cache->layer_end)
        return s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "cache: it does not hold layer %d", layer);
    if (plan->kinds[layer] != plan->kinds[plan->layer])
        return s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "of_layer: layer %d reads other keys than the plan's",
                           layer);
    if (plan->plan.phase != S2_DECODE)
        return s2_diag_set(
            diag, S2_EINVAL, 0, 0, 0,
            "cache: it keeps what the rules of decoding read, and the plan has those of prefill");
    for (int32_t seq = 0; seq < plan->problem.n_seqs; seq++) {
        if (call->sequences == NULL || !s2_handle_has_sequence(call->cache, call->sequences[seq]))
            return s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "sequences: the cache has no such sequence");
        if (plan->lens[seq].q_tok > call->cache->step_tok)
            return s2_diag_set(diag, S2_EINVAL, 0, 0, 0,
                               "cache: it keeps what the last %d queries read, and the plan has %d",
                               call->cache->step_tok, plan->lens[seq].q_tok);
        if (s2_cache_n_tok(call->cache->cache, call->sequences[seq]) < plan->lens[seq].q_tok)
            return s2_diag_set(diag, S2_EINVAL, 0, 0, 0,
                               "sequences: sequence %d has %d tokens, fewer than the plan has queries",
                               call->sequences[seq],
                               s2_cache_n_tok(call->cache->cache, call->sequences[seq]));
    }
    return S2_OK;
}

static s2_attn_problem problem_of(s2_api_plan *plan, const s2_api_call *call)
{
    s2_attn_problem problem = plan->problem;
    problem.scale = call->scale;
    problem.q = tensor_of(&call->q);
    problem.k = tensor_of(&call->k);
    problem.v = tensor_of(&call->v);
    problem.o = tensor_of(&call->o);
    problem.lse = (s2_rows){call->lse.data, call->lse.sequence, call->lse.head};
    problem.d_o = tensor_of(&call->d_o);
    problem.d_q = tensor_of(&call->d_q);
    problem.d_k = tensor_of(&call->d_k);
    problem.d_v = tensor_of(&call->d_v);
    problem.sink = call->sink;
    problem.d_sink = call->d_sink;
    plan->listed.counts = call->list_counts;
    plan->listed.indices = call->list_blocks;
    plan->cached = (s2_cached){call->cache != NULL ? call->cache->cache : NULL, call->sequences};
    problem.cached = call->cache != NULL ? &plan->cached : NULL;
    return problem;
}

static bool tensors_alike(const s2_tensor *a, const s2_tensor *b)
{
    return a->seq == b->seq && a->tok == b->tok && a->head == b->head;
}

/* Decode kernels read the sinks in each call; other kernels are bound to those they were prepared with. */
static bool sinks_alike(const s2_attn_problem *a, const s2_attn_problem *b)
{
    return a->pass == S2_PASS_DECODE || (a->sink == b->sink && a->d_sink == b->d_sink);
}

/* What a kernel prepared serves calls with the same strides and scale, at any data addresses. */
static bool serves(const s2_api_plan *plan, const s2_attn_problem *next)
{
    const s2_attn_problem *const last = &plan->problem;
    return plan->state != NULL && (next->cached == NULL) == (last->cached == NULL) &&
           last->scale >= next->scale && last->scale <= next->scale && sinks_alike(last, next) &&
           tensors_alike(&last->q, &next->q) && tensors_alike(&last->k, &next->k) &&
           tensors_alike(&last->v, &next->v) && tensors_alike(&last->o, &next->o) &&
           last->lse.seq == next->lse.seq && last->lse.head == next->lse.head &&
           tensors_alike(&last->d_o, &next->d_o) && tensors_alike(&last->d_q, &next->d_q) &&
           tensors_alike(&last->d_k, &next->d_k) && tensors_alike(&last->d_v, &next->d_v);
}

/* Prepare on a stream other than the caller's, which a graph may be capturing. */
static s2_status prepare_aside(s2_api_plan *plan, s2_diag *diag)
{
    s2_status (*const aside)(s2_device *, bool) = plan->device->ops->aside;
    if (aside != NULL)
        S2_TRY(aside(plan->device, true));
    const s2_status status = plan->kernel->prepare(plan->device, &plan->problem, &plan->state, diag);
    const s2_status back = aside != NULL ? aside(plan->device, false) : S2_OK;
    return status != S2_OK ? status : back;
}

static s2_status prepare(s2_api_plan *plan, const s2_attn_problem *next, s2_diag *diag)
{
    const bool ready = serves(plan, next);
    plan->problem = *next;
    if (ready)
        return S2_OK;
    plan->kernel->finish(plan->device, plan->state);
    plan->state = NULL;
    plan->n_made++;
    return prepare_aside(plan, diag);
}

/* ------------------------------------------------------------------ a plan that follows a cache */

/* Whether the state was made for the sequences that the call names, at any lengths. */
static bool knows_sequences(const s2_api_plan *plan, const s2_api_call *call)
{
    bool same = plan->state != NULL && plan->of_cache.stamp == call->cache->stamp;
    for (int32_t seq = 0; seq < plan->problem.n_seqs && same; seq++)
        same = plan->of_cache.sequences[seq] == call->sequences[seq];
    return same;
}

/* Whether lists and slots are up to date with the cache for the call's layer. */
static bool knows_places(const s2_api_plan *plan, const s2_api_call *call)
{
    const s2_cache *const cache = call->cache->cache;
    bool same = knows_sequences(plan, call) && plan->plan.layer == layer_of(plan, call);
    for (int32_t seq = 0; seq < plan->problem.n_seqs && same; seq++)
        same = plan->of_cache.versions[seq] == s2_cache_version(cache, call->sequences[seq]) &&
               plan->lens[seq].k_tok == s2_cache_n_tok(cache, call->sequences[seq]);
    return same;
}

static void note_cache(s2_api_plan *plan, const s2_api_call *call)
{
    const s2_cache *const cache = call->cache->cache;
    plan->of_cache.stamp = call->cache->stamp;
    for (int32_t seq = 0; seq < plan->problem.n_seqs; seq++) {
        plan->of_cache.sequences[seq] = call->sequences[seq];
        plan->of_cache.versions[seq] = s2_cache_version(cache, call->sequences[seq]);
        plan->lens[seq].k_tok = s2_cache_n_tok(cache, call->sequences[seq]);
    }
}

static void forget(s2_api_plan *plan)
{
    plan->kernel->finish(plan->device, plan->state);
    plan->state = NULL;
}

/* For kernels that cannot follow a cache: rebuild the plan. */
static s2_status plan_again(s2_api_plan *plan, int32_t layer, s2_diag *diag)
{
    planning ask = {plan, plan->plan.phase, layer};
    forget(plan);
    s2_arena_rewind(&plan->arena, plan->lists);
    return s2_kernel_choose(plan->device, plan->kernel, take, &ask, &plan->kernel, diag);
}

/* Bring the plan's lists up to date with the cache, in place where possible; else drop the state. */
static s2_status follow(s2_api_plan *plan, const s2_api_call *call, const s2_attn_problem *next,
                        s2_diag *diag)
{
    const s2_follow_fn in_place = s2_kernel_follow(plan->kernel);
    if (knows_places(plan, call))
        return S2_OK;
    const bool same = knows_sequences(plan, call) && serves(plan, next);
    note_cache(plan, call);
    if (in_place == NULL)
        return plan_again(plan, layer_of(plan, call), diag);
    plan->plan.layer = layer_of(plan, call);
    if (plan->state == NULL)
        return S2_OK;
    const s2_status status = same ? in_place(plan->device, next, plan->state, diag) : S2_EUNSUPPORTED;
    if (status != S2_OK)
        forget(plan);
    return status == S2_EUNSUPPORTED ? S2_OK : status;
}

/* Bring the plan, and what its kernel prepared, up to date with the call. */
static s2_status make_ready(s2_api_plan *plan, const s2_api_call *call, s2_diag *diag)
{
    S2_TRY(check_cached(plan, call, diag));
    const s2_attn_problem problem = problem_of(plan, call);
    plan->work_left = PLAN_WORK;
    s2_status status = call->cache != NULL ? follow(plan, call, &problem, diag) : S2_OK;
    if (status == S2_OK)
        status = prepare(plan, &problem, diag);
    return status == S2_ELIMIT ? say_too_much(plan->plan.layer, diag) : status;
}

/* NULL, or a message on what is wrong with the arguments; *in is the call in this version's layout. */
static const char *read_call(const s2_api_plan *plan, const s2_api_call *call, s2_api_call *in)
{
    if (plan == NULL)
        return "plan is NULL";
    if (!s2_struct_in(in, sizeof *in, call))
        return "call: NULL, or its size is not that of any s2_api_call";
    return isfinite(in->scale) ? missing_tensor(plan, in) : "scale: not finite";
}

int s2_api_plan_run(s2_api_plan *plan, const s2_api_call *call, s2_api_error *why)
{
    s2_api_call in;
    const char *const fault = read_call(plan, call, &in);
    if (fault != NULL)
        return s2_answer_argument(why, "%s", fault);
    s2_diag diag = {0};
    s2_status status = make_ready(plan, &in, &diag);
    if (status == S2_OK)
        status = plan->kernel->run(plan->device, &plan->problem, plan->state, &diag);
    return s2_answer(status, &diag, why);
}

int s2_api_plan_follow(s2_api_plan *plan, const s2_api_call *call, int64_t *made, s2_api_error *why)
{
    s2_api_call in;
    const char *const fault = made == NULL ? "made is NULL" : read_call(plan, call, &in);
    if (fault != NULL)
        return s2_answer_argument(why, "%s", fault);
    s2_diag diag = {0};
    const s2_status status = make_ready(plan, &in, &diag);
    if (status == S2_OK)
        *made = plan->n_made;
    return s2_answer(status, &diag, why);
}

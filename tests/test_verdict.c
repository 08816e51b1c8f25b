/* What a verdict says of a fault is held against the fault: kernels that are wrong in one known way. */
#include "tests/s2test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/rng.h"
#include "judge/validate.h"
#include "kernels/float16.h"
#include "pattern/dense.h"
#include "pattern/parse.h"
#include "tests/s2parsed.h"

typedef enum s2_flaw {
    FLAW_ANOTHER,
    FLAW_FLIP,
    FLAW_LSE_BASE,
    FLAW_LSE_MORE,
    FLAW_SCALE,
    FLAW_TWICE,
    N_FLAWS
} s2_flaw;

/* A kernel carries no data of its own. */
static struct {
    s2_flaw flaw;
    const s2_pattern *another; /* FLAW_ANOTHER: what is read */
    int32_t head; /* FLAW_FLIP, FLAW_TWICE: this pair is read where it is not due, or the reverse, or twice */
    int64_t q, k;
    float by;
} wrong;

static bool is_due(const s2_plan *plan, int32_t head, int64_t k_tok, int64_t q, int64_t k)
{
    return s2_pattern_reads(plan->pattern, plan->phase, plan->layer, head, k_tok, q, k);
}

static bool is_read(const s2_plan *plan, int32_t head, int64_t k_tok, int64_t q, int64_t k)
{
    if (wrong.flaw == FLAW_ANOTHER)
        return s2_pattern_reads(wrong.another, plan->phase, plan->layer, head, k_tok, q, k);
    const bool flipped = wrong.flaw == FLAW_FLIP && head == wrong.head && q == wrong.q && k == wrong.k;
    return is_due(plan, head, k_tok, q, k) != flipped;
}

/* Faults that one sequence with as many queries as keys and scores near 0 does not show. */
typedef enum s2_side {
    SIDE_NONE,
    SIDE_FIRST_ONLY, /* every sequence reads and writes where the first stands */
    SIDE_LOSES_KEYS, /* ... only beside others */
    SIDE_CORNER,     /* of more than 16 queries the first stands at key 0 */
    SIDE_NO_BEGIN,   /* where sequences of different lengths begin is ignored */
    SIDE_MIXED,      /* queries of all sequences stand where those of the first do */
    SIDE_NO_MAXIMUM, /* exp() of the score itself */
    SIDE_MAXIMUM_0,  /* the running maximum begins at 0 */
    SIDE_REFUSES,    /* takes neither fewer queries than keys nor different lengths */
    SIDE_KV_HEAD,    /* numbers KV heads from 1, so that the last one is none */
    SIDE_ROW_UNMADE  /* the last row of each head is not written */
} s2_side;
static s2_side side;

/* Which sequence is taken for this one. */
static int32_t seq_of(const s2_attn_problem *p, int32_t seq)
{
    const bool first =
        side == SIDE_FIRST_ONLY ? p->n_seqs > 1 : side == SIDE_NO_BEGIN && p->q_begin_tok != NULL;
    return first ? 0 : seq;
}

static int64_t place(const s2_attn_problem *p, const s2_tensor *tensor, int32_t seq, int64_t tok,
                     int32_t head)
{
    const bool of_keys = tensor == &p->k || tensor == &p->v || tensor == &p->d_k || tensor == &p->d_v;
    return s2_tensor_at(tensor, of_keys ? p->k_begin_tok : p->q_begin_tok, seq_of(p, seq), tok, head);
}

static float *lse_of(const s2_attn_problem *p, int32_t seq, int64_t tok, int32_t head)
{
    return &p->lse.data[s2_rows_at(&p->lse, p->q_begin_tok, seq_of(p, seq), tok, head)];
}

static int32_t kv_head_of(const s2_attn_problem *p, int32_t head)
{
    return head / (p->n_heads / p->n_kv_heads) + (side == SIDE_KV_HEAD && head >= p->n_heads / 2);
}

/* Where a query stands among the keys. */
static int64_t position_of(const s2_attn_problem *p, int32_t seq, int64_t q_tok)
{
    const s2_plan_seq lens = p->plan->seqs[seq], first = p->plan->seqs[0];
    if (side == SIDE_CORNER && lens.q_tok > 16)
        return q_tok;
    if (side == SIDE_MIXED && p->q_begin_tok != NULL && first.q_tok < first.k_tok)
        return s2_min_i64(first.k_tok - first.q_tok + q_tok, lens.k_tok - 1);
    return lens.k_tok - lens.q_tok + q_tok;
}

static bool is_lost(const s2_attn_problem *p, int64_t k)
{
    return side == SIDE_LOSES_KEYS && p->n_seqs > 1 && k >= 40;
}

/* fp32, as kernels have it: what overflows or vanishes there does so here. */
static double weight_over(double score, double *maximum)
{
    *maximum = side == SIDE_NO_MAXIMUM ? 0.0 : side == SIDE_MAXIMUM_0 ? fmax(*maximum, 0.0) : *maximum;
    return (double)expf((float)(score - *maximum));
}

static double score_of(const s2_attn_problem *p, int32_t seq, int32_t head, int64_t q_at, int64_t k)
{
    double score = 0.0;
    const int64_t k_at = place(p, &p->k, seq, k, kv_head_of(p, head));
    for (int32_t d = 0; d < p->head_dim; d++)
        score += (double)s2_float_load(p->q.data, p->dtype, q_at + d) *
                 (double)s2_float_load(p->k.data, p->dtype, k_at + d);
    return score * (double)p->scale * (wrong.flaw == FLAW_SCALE ? (double)wrong.by : 1.0);
}

static void one_row(const s2_attn_problem *p, int32_t seq, int32_t head, int64_t q_tok)
{
    const s2_plan_seq lens = p->plan->seqs[seq];
    const int64_t q = position_of(p, seq, q_tok), q_at = place(p, &p->q, seq, q_tok, head);
    const int64_t o_at = place(p, &p->o, seq, q_tok, head);
    double sum = 0.0, out[64] = {0}, maximum = -INFINITY;
    for (int64_t k = 0; k < lens.k_tok; k++)
        if (is_read(p->plan, head, lens.k_tok, q, k) && !is_lost(p, k))
            maximum = fmax(maximum, score_of(p, seq, head, q_at, k));
    for (int64_t k = 0; k < lens.k_tok; k++) {
        if (!is_read(p->plan, head, lens.k_tok, q, k) || is_lost(p, k))
            continue;
        const bool twice = wrong.flaw == FLAW_TWICE && head == wrong.head && q == wrong.q && k == wrong.k;
        const double weight = weight_over(score_of(p, seq, head, q_at, k), &maximum) * (twice ? 2.0 : 1.0);
        const int64_t v_at = place(p, &p->v, seq, k, kv_head_of(p, head));
        sum += weight;
        for (int32_t d = 0; d < p->head_dim; d++)
            out[d] += weight * (double)s2_float_load(p->v.data, p->dtype, v_at + d);
    }
    for (int32_t d = 0; d < p->head_dim; d++)
        s2_float_store(p->o.data, p->dtype, o_at + d, sum > 0.0 ? (float)(out[d] / sum) : 0.0f);
    double lse =
        (sum > 0.0 ? maximum : 0.0) + log(sum) + (wrong.flaw == FLAW_LSE_MORE ? (double)wrong.by : 0.0);
    lse *= wrong.flaw == FLAW_LSE_BASE ? 1.0 / log(2.0) : 1.0;
    *lse_of(p, seq, q_tok, head) = (float)lse;
}

/* Flaws of a backward alone. */
typedef enum s2_slip {
    SLIP_NONE, /* that of `wrong` */
    SLIP_DELTA,
    SLIP_DQ_DK,
    SLIP_DK,
    SLIP_PAIR_OF_DK, /* missing there, and nowhere else */
    N_SLIPS,         /* of those that are drawn */
    SLIP_EXCHANGED,  /* dK stands in dV and the reverse */
    SLIP_ONE_OF_DK   /* dK has one head of a group */
} s2_slip;
static s2_slip slip;

static void add(const s2_attn_problem *p, float *sums, double by, const s2_tensor *of, int64_t of_at)
{
    for (int32_t d = 0; d < p->head_dim; d++)
        sums[d] += (float)(by * (double)s2_float_load(of->data, p->dtype, of_at + d));
}

static double dot(const s2_attn_problem *p, const s2_tensor *a, int64_t a_at, const s2_tensor *b,
                  int64_t b_at)
{
    double sum = 0.0;
    for (int32_t d = 0; d < p->head_dim; d++)
        sum += (double)s2_float_load(a->data, p->dtype, a_at + d) *
               (double)s2_float_load(b->data, p->dtype, b_at + d);
    return sum;
}

/* q, o, dO and dQ have one layout, and k, v, dK and dV another: offsets are the same. */
static void one_gradient(const s2_attn_problem *p, int32_t seq, int32_t head, int64_t q_tok, float *d_q,
                         float *d_k, float *d_v)
{
    const int32_t group = p->n_heads / p->n_kv_heads;
    const int64_t k_tok = p->plan->seqs[seq].k_tok, q_at = place(p, &p->q, seq, q_tok, head);
    const int64_t q = position_of(p, seq, q_tok);
    const double lse = (double)*lse_of(p, seq, q_tok, head);
    const double delta = slip == SLIP_DELTA ? 0.0 : dot(p, &p->o, q_at, &p->d_o, q_at);
    const double by = slip == SLIP_DQ_DK ? (double)wrong.by : 1.0;
    for (int64_t k = 0; k < k_tok; k++) {
        if (!is_read(p->plan, head, k_tok, q, k) || is_lost(p, k))
            continue;
        const int64_t k_at = place(p, &p->k, seq, k, head / group);
        const double score = dot(p, &p->q, q_at, &p->k, k_at) * (double)p->scale;
        const double weight =
            side == SIDE_NO_MAXIMUM ? (double)(expf((float)score) / expf((float)lse)) : exp(score - lse);
        const double d_s = weight * (dot(p, &p->d_o, q_at, &p->v, k_at) - delta) * (double)p->scale * by;
        const bool lost = slip == SLIP_ONE_OF_DK
                              ? head % group != 0
                              : slip == SLIP_PAIR_OF_DK && head == wrong.head && q == wrong.q && k == wrong.k;
        add(p, d_q + q_at, d_s, &p->k, k_at);
        add(p, d_k + k_at, lost ? 0.0 : d_s * (slip == SLIP_DK ? (double)wrong.by : 1.0), &p->q, q_at);
        add(p, d_v + k_at, weight, &p->d_o, q_at);
    }
}

static void store(const s2_attn_problem *p, const s2_tensor *tensor, const float *sums, int32_t seq,
                  int64_t n_tok, int32_t n_heads)
{
    for (int64_t tok = 0; tok < n_tok; tok++)
        for (int32_t head = 0; head < n_heads; head++)
            for (int32_t d = 0; d < p->head_dim; d++) {
                const int64_t at = place(p, tensor, seq, tok, head) + d;
                s2_float_store(tensor->data, p->dtype, at, sums[at]);
            }
}

static s2_status run_backward(const s2_attn_problem *p)
{
    size_t n = 0;
    for (int32_t seq = 0; seq < p->n_seqs; seq++)
        n += (size_t)p->plan->seqs[seq].k_tok * (size_t)p->n_heads * (size_t)p->head_dim;
    float *const sums = calloc(3 * n, sizeof *sums);
    assert_non_null(sums);
    for (int32_t seq = 0; seq < p->n_seqs; seq++) {
        const s2_plan_seq lens = p->plan->seqs[seq];
        for (int32_t head = 0; head < p->n_heads; head++)
            for (int64_t q_tok = 0; q_tok < lens.q_tok; q_tok++)
                one_gradient(p, seq, head, q_tok, sums, sums + n, sums + 2 * n);
        store(p, &p->d_q, sums, seq, lens.q_tok, p->n_heads);
        store(p, slip == SLIP_EXCHANGED ? &p->d_v : &p->d_k, sums + n, seq, lens.k_tok, p->n_kv_heads);
        store(p, slip == SLIP_EXCHANGED ? &p->d_k : &p->d_v, sums + 2 * n, seq, lens.k_tok, p->n_kv_heads);
    }
    free(sums);
    return S2_OK;
}

/* Fewer queries than keys where a decode does not need them, or different lengths. */
static bool is_unusual(const s2_attn_problem *p)
{
    const bool fewer = p->plan->seqs[0].q_tok < p->plan->seqs[0].k_tok;
    return p->q_begin_tok != NULL || (fewer && p->pass != S2_PASS_DECODE);
}

static s2_status run(s2_device *device, const s2_attn_problem *p, void *state, s2_diag *why)
{
    (void)device;
    (void)state;
    if (side == SIDE_REFUSES && is_unusual(p))
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "one length only");
    if (p->pass == S2_PASS_BACKWARD)
        return run_backward(p);
    for (int32_t seq = 0; seq < p->n_seqs; seq++)
        for (int32_t head = 0; head < p->n_heads; head++)
            for (int64_t q_tok = 0; q_tok < p->plan->seqs[seq].q_tok - (side == SIDE_ROW_UNMADE); q_tok++)
                one_row(p, seq, head, q_tok);
    return S2_OK;
}

static s2_status supports(const s2_device *device, const s2_attn_problem *p, s2_diag *why)
{
    (void)device;
    (void)why;
    return p->cached != NULL ? S2_EUNSUPPORTED : S2_OK;
}

static s2_status prepare(s2_device *device, const s2_attn_problem *p, void **state, s2_diag *why)
{
    *state = NULL;
    return supports(device, p, why);
}

static void finish(s2_device *device, void *state)
{
    (void)device;
    (void)state;
}

/* ------------------------------------------------------------------ one case */

typedef struct s2_case {
    s2_arena arena;
    s2_pattern pattern, another;
    s2_plan_seq seq;
    s2_validate_request request;
    char text[200];
} s2_case;

/* Two patterns that differ in a window or in an offset by one. */
static void draw_patterns(s2_rng *rng, s2_case *c)
{
    const int shape = (int)s2_rng_below(rng, 4), window = 2 + (int)s2_rng_below(rng, 4),
              stride = 2 + (int)s2_rng_below(rng, 4), offset = (int)s2_rng_below(rng, 3),
              tokens = 20 + (int)s2_rng_below(rng, 90);
    const int by = s2_rng_below(rng, 2) == 0 ? 1 : -1;
    char text[200];
    for (int other = 0; other < 2; other++) {
        const int add = other * by;
        const int n =
            snprintf(text, sizeof text,
                     "heads 4; kv-heads 2; head-dim %d; block 16; layers all: ", 16 << (stride % 2));
        char *const to = text + n;
        const size_t cap = sizeof text - (size_t)n;
        if (shape == 0)
            snprintf(to, cap, "local %d | stride %d phase head+%d", window + add, stride, offset);
        else if (shape == 1)
            snprintf(to, cap, "local 1 | stride %d phase head+%d", stride, offset + stride + add);
        else if (shape == 2)
            snprintf(to, cap, "local %dt", tokens + add);
        else
            snprintf(to, cap, "sink 3t | local %d", window + add);
        *(other == 1 ? &c->another : &c->pattern) = s2_parsed(&c->arena, text);
        if (other == 0)
            snprintf(c->text, sizeof c->text, "%s", text);
    }
}

static int64_t count_wrong(const s2_case *c)
{
    const s2_plan plan = {.pattern = &c->pattern, .phase = c->request.phase};
    int64_t n = 0;
    for (int32_t head = 0; head < 4; head++)
        for (int64_t q = c->seq.k_tok - c->seq.q_tok; q < c->seq.k_tok; q++)
            for (int64_t k = 0; k < c->seq.k_tok; k++)
                n += is_due(&plan, head, c->seq.k_tok, q, k) != is_read(&plan, head, c->seq.k_tok, q, k);
    return n;
}

static void draw(s2_rng *rng, const s2_device *device, const s2_kernel *kernel, s2_flaw flaw, s2_case *c)
{
    *c = (s2_case){0};
    draw_patterns(rng, c);
    const bool decodes = s2_rng_below(rng, 3) == 0;
    c->seq.k_tok = 100 + (int32_t)s2_rng_below(rng, 160);
    c->seq.q_tok = decodes ? 1 + (int32_t)s2_rng_below(rng, 4) : c->seq.k_tok;
    c->request = s2_validate_request_init(device, &c->pattern, &c->seq, 1);
    c->request.kernel = kernel;
    c->request.pass = decodes ? S2_PASS_DECODE : S2_PASS_FORWARD;
    c->request.phase = decodes ? S2_DECODE : S2_PREFILL;
    c->request.dtype = (s2_dtype)s2_rng_below(rng, S2_N_DTYPES);
    c->request.budget_flop = 0.0;
    c->request.n_timed = c->request.n_steps = 0;
    wrong.flaw = flaw;
    wrong.another = &c->another;
    wrong.head = (int32_t)s2_rng_below(rng, 4);
    wrong.q = c->seq.k_tok - 1 - (int64_t)s2_rng_below(rng, (uint64_t)c->seq.q_tok);
    wrong.k = (int64_t)s2_rng_below(rng, (uint64_t)wrong.q + 1);
    wrong.by = flaw == FLAW_SCALE ? 1.3f : 0.25f;
}

static bool names_factor(const char *symptom, double factor)
{
    const char *const digit = strpbrk(symptom, "0123456789");
    return strncmp(symptom, "scores are ", 11) == 0 && fabs(strtod(digit, NULL) / factor - 1.0) < 0.01;
}

/* The flaws are told as what they are, and a pair that is named is one that is wrong, in the right direction. */
static const char *lie_of(const s2_case *c, const s2_validation *v, int64_t n_wrong)
{
    const s2_plan plan = {.pattern = &c->pattern, .phase = c->request.phase};
    if (n_wrong == 0 && v->outcome != S2_OUTCOME_WRONG_VALUES)
        return "values are wrong, not pairs";
    if (n_wrong == 0 && (v->has_wrong_pair || v->touch_wrong > 0))
        return "no pair is wrong";
    if (n_wrong == 0)
        return wrong.flaw == FLAW_SCALE && !names_factor(v->symptom, (double)wrong.by)
                   ? "the symptom has no name"
                   : NULL;
    if (v->outcome != S2_OUTCOME_WRONG_PAIRS || !v->has_wrong_pair)
        return "pairs are wrong";
    const bool due = is_due(&plan, v->wrong_head, c->seq.k_tok, v->wrong_q_tok, v->wrong_k_tok);
    if (is_read(&plan, v->wrong_head, c->seq.k_tok, v->wrong_q_tok, v->wrong_k_tok) == due)
        return "the named pair is right";
    if ((strstr(v->reason, "does not read") != NULL) != due)
        return "extra and missing are exchanged";
    if (c->request.kernel->no_lse && !v->touch_exhaustive)
        return v->touch_wrong > n_wrong ? "fewer pairs are wrong" : NULL;
    if (!v->touch_exhaustive || v->touch_wrong != n_wrong)
        return "the wrong pairs are not counted";
    return wrong.flaw == FLAW_ANOTHER && strncmp(v->symptom, "reads", 5) != 0 ? "the symptom has no name"
                                                                              : NULL;
}

static const s2_kernel flawed = {.summary = "wrong in one way",
                                 .device = S2_DEVICE_CPU,
                                 .tolerance = S2_TOL_EXACT,
                                 .deterministic = true,
                                 .supports = supports,
                                 .prepare = prepare,
                                 .run = run,
                                 .finish = finish};

static void a_verdict_tells_the_fault_that_there_is(void **state)
{
    (void)state;
    s2_kernel kernel = flawed;
    kernel.traits = s2_kernel_cpu.traits;
    slip = SLIP_NONE;
    const uint64_t seed = s2_test_seed(17);
    s2_device *device = NULL;
    int64_t n[N_FLAWS] = {0};
    assert_int_equal(s2_device_open("cpu", &device, NULL), S2_OK);
    for (int64_t nth = 0; nth < s2_test_cases(24); nth++) {
        s2_rng rng = {seed + (uint64_t)nth};
        s2_case c;
        s2_validation v;
        kernel.no_lse = nth % N_FLAWS < FLAW_LSE_BASE && s2_rng_below(&rng, 3) == 0;
        draw(&rng, device, &kernel, (s2_flaw)(nth % N_FLAWS), &c);
        const s2_plan plan = {.pattern = &c.pattern, .phase = c.request.phase};
        const int64_t n_wrong = count_wrong(&c);
        const bool shows = wrong.flaw == FLAW_ANOTHER ? n_wrong > 0
                           : wrong.flaw == FLAW_TWICE
                               ? is_due(&plan, wrong.head, c.seq.k_tok, wrong.q, wrong.k)
                               : true;
        assert_int_equal(s2_validate(device, &c.request, &v), S2_OK);
        const char *const lie = shows ? lie_of(&c, &v, n_wrong) : NULL;
        if (lie != NULL)
            fail_msg(
                "S2_SEED=%llu: flaw %d, %s, %d of %d tokens, type %d: %s: %s, %lld wrong of %lld, %s: %s; %s",
                (unsigned long long)(seed + (uint64_t)nth), (int)wrong.flaw, c.text, c.seq.q_tok, c.seq.k_tok,
                (int)c.request.dtype, lie, s2_outcome_word(v.outcome), (long long)v.touch_wrong,
                (long long)n_wrong, v.touch_exhaustive ? "all" : "not all", v.reason, v.symptom);
        n[wrong.flaw] += shows;
        s2_arena_release(&c.arena);
    }
    for (int flaw = 0; flaw < N_FLAWS; flaw++)
        assert_true(n[flaw] > 0 || s2_test_cases(24) < 24);
    s2_device_close(&device);
}

/* Each pair of a backward is compared twice: through dK and dV, and through dQ. */
static const char *lie_of_backward(const s2_case *c, const s2_validation *v, int64_t n_wrong)
{
    if (!v->touch_exhaustive)
        return "not all was compared";
    if (v->touch_wrong != n_wrong)
        return "the wrong pairs are not counted";
    if (n_wrong == 0)
        return v->outcome != S2_OUTCOME_WRONG_VALUES || v->has_wrong_pair ? "values are wrong, not pairs"
               : slip != SLIP_DK && v->symptom[0] == '\0'                 ? "the symptom has no name"
                                                                          : NULL;
    const s2_plan plan = {.pattern = &c->pattern, .phase = c->request.phase};
    const bool due = is_due(&plan, v->wrong_head, c->seq.k_tok, v->wrong_q_tok, v->wrong_k_tok);
    const bool lost = slip == SLIP_PAIR_OF_DK && v->wrong_head == wrong.head && v->wrong_q_tok == wrong.q &&
                      v->wrong_k_tok == wrong.k;
    if (v->outcome != S2_OUTCOME_WRONG_PAIRS || !v->has_wrong_pair)
        return "pairs are wrong";
    if (!lost && is_read(&plan, v->wrong_head, c->seq.k_tok, v->wrong_q_tok, v->wrong_k_tok) == due)
        return "the named pair is right";
    return (strstr(v->reason, " lacks ") != NULL) != due ? "extra and missing are exchanged" : NULL;
}

static void draw_backward(s2_rng *rng, const s2_device *device, const s2_kernel *kernel, int64_t nth,
                          s2_case *c)
{
    draw(rng, device, kernel, nth % 2 == 0 ? FLAW_ANOTHER : FLAW_FLIP, c);
    c->seq.q_tok = c->seq.k_tok = 60 + (int32_t)s2_rng_below(rng, 60);
    c->request.pass = S2_PASS_BACKWARD;
    c->request.phase = S2_PREFILL;
    slip = (s2_slip)(nth / 2 % N_SLIPS);
    wrong.q = (int64_t)s2_rng_below(rng, (uint64_t)c->seq.q_tok);
    wrong.k = (int64_t)s2_rng_below(rng, (uint64_t)wrong.q + 1);
    wrong.by = 1.1f;
    if (slip != SLIP_NONE)
        wrong.flaw = FLAW_LSE_BASE; /* which a backward has not */
}

static void a_verdict_on_a_backward_tells_the_fault_that_there_is(void **state)
{
    (void)state;
    s2_kernel kernel = flawed;
    kernel.traits = s2_kernel_cpu.traits;
    const uint64_t seed = s2_test_seed(29);
    s2_device *device = NULL;
    assert_int_equal(s2_device_open("cpu", &device, NULL), S2_OK);
    for (int64_t nth = 0; nth < s2_test_cases(20); nth++) {
        s2_rng rng = {seed + (uint64_t)nth};
        s2_case c;
        s2_validation v;
        draw_backward(&rng, device, &kernel, nth, &c);
        const s2_plan plan = {.pattern = &c.pattern, .phase = c.request.phase};
        const bool is_lost =
            slip == SLIP_PAIR_OF_DK && is_due(&plan, wrong.head, c.seq.k_tok, wrong.q, wrong.k);
        const int64_t n_wrong = 2 * count_wrong(&c) + is_lost;
        const bool shows = n_wrong > 0 || slip == SLIP_DELTA || slip == SLIP_DQ_DK || slip == SLIP_DK;
        assert_int_equal(s2_validate(device, &c.request, &v), S2_OK);
        const char *const lie = shows                        ? lie_of_backward(&c, &v, n_wrong)
                                : v.outcome != S2_OUTCOME_OK ? "nothing is wrong"
                                                             : NULL;
        if (lie != NULL)
            fail_msg(
                "S2_SEED=%llu: flaw %d, slip %d, %s, %d tokens, type %d: %s: %s, %lld wrong of %lld: %s; %s",
                (unsigned long long)(seed + (uint64_t)nth), (int)wrong.flaw, (int)slip, c.text, c.seq.q_tok,
                (int)c.request.dtype, lie, s2_outcome_word(v.outcome), (long long)v.touch_wrong,
                (long long)n_wrong, v.reason, v.symptom);
        s2_arena_release(&c.arena);
    }
    slip = SLIP_NONE;
    s2_device_close(&device);
}

/* ------------------------------------------------------------------ other shapes and ranges of scores */

static s2_validation judge_side(s2_device *device, s2_pass pass, s2_dtype dtype, int32_t k_tok, bool has_lse)
{
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_validation v;
    s2_kernel kernel = flawed;
    pattern = s2_parsed(
        &arena,
        "heads 4; kv-heads 2; head-dim 16; block 16; layers all: sink 1 | local 2 | stride 3 phase kv");
    const s2_plan_seq seq = {pass == S2_PASS_DECODE ? 1 : k_tok, k_tok};
    s2_validate_request request = s2_validate_request_init(device, &pattern, &seq, 1);
    kernel.traits = s2_kernel_cpu.traits;
    kernel.no_lse = !has_lse;
    request.kernel = &kernel;
    request.pass = pass;
    request.phase = pass == S2_PASS_DECODE ? S2_DECODE : S2_PREFILL;
    request.dtype = dtype;
    request.budget_flop = 0.0;
    request.n_timed = request.n_steps = 0;
    wrong.flaw = FLAW_SCALE;
    wrong.by = 1.0f;
    slip = SLIP_NONE;
    assert_int_equal(s2_validate(device, &request, &v), S2_OK);
    s2_arena_release(&arena);
    return v;
}

/* Whether the pass can have the fault, and the case that shows it first. */
static const char *case_of(s2_side fault, s2_pass pass)
{
    switch (fault) {
    case SIDE_FIRST_ONLY:
    case SIDE_LOSES_KEYS: return "three sequences: ";
    case SIDE_CORNER: return pass == S2_PASS_DECODE ? NULL : "fewer queries than keys: ";
    case SIDE_NO_BEGIN: return "sequences of different lengths: ";
    case SIDE_MIXED:
        return pass == S2_PASS_DECODE ? NULL : "different lengths with fewer queries than keys: ";
    case SIDE_NO_MAXIMUM: return "scores near 120: ";
    case SIDE_MAXIMUM_0: return pass == S2_PASS_BACKWARD ? NULL : "scores near -120: ";
    default: return NULL;
    }
}

static void a_fault_that_one_sequence_does_not_show_is_convicted(void **state)
{
    (void)state;
    s2_device *device = NULL;
    assert_int_equal(s2_device_open("cpu", &device, NULL), S2_OK);
    for (side = SIDE_FIRST_ONLY; side < SIDE_REFUSES; side++)
        for (int pass = 0; pass < S2_N_PASSES; pass++)
            for (int dtype = 0; dtype < S2_N_DTYPES; dtype++) {
                const char *const due = case_of(side, (s2_pass)pass);
                /* a fault of places is the same in every type, one of scores is not */
                if (due == NULL || (side < SIDE_NO_MAXIMUM && dtype != ((int)side + pass) % S2_N_DTYPES))
                    continue;
                const s2_validation v = judge_side(device, (s2_pass)pass, (s2_dtype)dtype, 75, dtype != 1);
                if (v.outcome == S2_OUTCOME_OK || v.outcome == S2_OUTCOME_UNSUPPORTED)
                    fail_msg("fault %d, pass %d, type %d: %s", (int)side, pass, dtype,
                             s2_outcome_word(v.outcome));
                if (strncmp(v.reason, due, strlen(due)) != 0 || v.symptom[0] == '\0')
                    fail_msg("fault %d, pass %d, type %d: %s; %s", (int)side, pass, dtype, v.reason,
                             v.symptom);
            }
    side = SIDE_NONE;
    s2_device_close(&device);
}

static void a_right_kernel_is_acquitted_in_every_case_of_every_pass_and_type(void **state)
{
    static const int32_t lengths[] = {1, 2, 17, 75};
    (void)state;
    s2_device *device = NULL;
    assert_int_equal(s2_device_open("cpu", &device, NULL), S2_OK);
    for (int pass = 0; pass < S2_N_PASSES; pass++)
        for (int dtype = 0; dtype < S2_N_DTYPES; dtype++)
            for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
                const s2_validation v =
                    judge_side(device, (s2_pass)pass, (s2_dtype)dtype, lengths[n], n % 2 == 0);
                if (v.outcome != S2_OUTCOME_OK)
                    fail_msg("pass %d, type %d, %d tokens: %s: %s; %s", pass, dtype, lengths[n],
                             s2_outcome_word(v.outcome), v.reason, v.symptom);
                for (int one = 0; one < S2_N_CASES && lengths[n] > 1; one++)
                    if (v.cases[one] != S2_CASE_JUDGED)
                        fail_msg("pass %d, %d tokens: case %s is %d", pass, lengths[n],
                                 s2_case_word((s2_case_kind)one), v.cases[one]);
            }
    s2_device_close(&device);
}

static void a_kernel_may_refuse_a_case_and_the_verdict_says_which(void **state)
{
    (void)state;
    s2_device *device = NULL;
    assert_int_equal(s2_device_open("cpu", &device, NULL), S2_OK);
    side = SIDE_REFUSES;
    for (int pass = 0; pass < S2_N_PASSES; pass++) {
        const s2_validation v = judge_side(device, (s2_pass)pass, S2_BF16, 75, true);
        assert_string_equal(s2_outcome_word(v.outcome), "ok");
        assert_int_equal(v.cases[S2_CASE_BATCH], S2_CASE_JUDGED);
        assert_int_equal(v.cases[S2_CASE_CHUNK], pass == S2_PASS_DECODE ? S2_CASE_JUDGED : S2_CASE_REFUSED);
        assert_int_equal(v.cases[S2_CASE_LENGTHS], S2_CASE_REFUSED);
        assert_int_equal(v.cases[S2_CASE_MIXED], S2_CASE_REFUSED);
        assert_int_equal(v.cases[S2_CASE_HIGH], S2_CASE_JUDGED);
        assert_string_equal(v.refused, "one length only");
    }
    side = SIDE_NONE;
    s2_device_close(&device);
}

/* ------------------------------------------------------------------ what is said of a fault */

static void judge_fault(s2_device *device, s2_pass pass, const char *text, const char *another,
                        s2_validation *v)
{
    s2_arena arena = {0};
    s2_pattern pattern, other;
    s2_kernel kernel = flawed;
    const s2_plan_seq seq = {pass == S2_PASS_DECODE ? 1 : 75, 75};
    pattern = s2_parsed(&arena, text);
    other = s2_parsed(&arena, another != NULL ? another : text);
    s2_validate_request request = s2_validate_request_init(device, &pattern, &seq, 1);
    kernel.traits = s2_kernel_cpu.traits;
    request.kernel = &kernel;
    request.pass = pass;
    request.phase = pass == S2_PASS_DECODE ? S2_DECODE : S2_PREFILL;
    request.budget_flop = 0.0;
    request.n_timed = request.n_steps = 0;
    wrong.another = &other;
    assert_int_equal(s2_validate(device, &request, v), S2_OK);
    s2_arena_release(&arena);
}

static void a_symptom_names_the_fault_and_not_what_follows_from_it(void **state)
{
#define SHAPE "heads 4; kv-heads 2; head-dim 16; block 16; layers all: local 1 | stride 3 phase "
    static const struct {
        s2_pass pass;
        s2_flaw flaw;
        s2_side side;
        s2_slip slip;
        const char *text, *another, *said;
    } faults[] = {
        {S2_PASS_BACKWARD, FLAW_SCALE, SIDE_NONE, SLIP_EXCHANGED, SHAPE "kv", NULL,
         "and dV where dK is: exchanged"},
        {S2_PASS_BACKWARD, FLAW_SCALE, SIDE_NONE, SLIP_DK, SHAPE "kv", NULL, "leaves the scale out of dK"},
        {S2_PASS_BACKWARD, FLAW_SCALE, SIDE_NONE, SLIP_ONE_OF_DK, SHAPE "kv", NULL,
         "leaves the gradients of K of query head 1 out of KV head 0"},
        {S2_PASS_FORWARD, FLAW_ANOTHER, SIDE_NONE, SLIP_NONE, SHAPE "kv", SHAPE "head",
         "the number of the query head where that of the KV head is due"},
        {S2_PASS_BACKWARD, FLAW_ANOTHER, SIDE_NONE, SLIP_NONE, SHAPE "kv", SHAPE "head",
         "the number of the query head where that of the KV head is due"},
        {S2_PASS_DECODE, FLAW_LSE_BASE, SIDE_NONE, SLIP_NONE,
         "heads 4; kv-heads 2; head-dim 16; block 16; layers all: local 3", NULL, "gives the LSE in base 2"},
        {S2_PASS_FORWARD, FLAW_SCALE, SIDE_KV_HEAD, SLIP_NONE, SHAPE "kv", NULL,
         "query head 2 reads the values of KV head 0, its own is 1"},
        {S2_PASS_FORWARD, FLAW_SCALE, SIDE_ROW_UNMADE, SLIP_NONE, SHAPE "kv", NULL,
         "query 74 is never written"}};
    (void)state;
    s2_device *device = NULL;
    assert_int_equal(s2_device_open("cpu", &device, NULL), S2_OK);
    for (size_t n = 0; n < sizeof faults / sizeof *faults; n++) {
        s2_validation v;
        wrong.flaw = faults[n].flaw;
        wrong.by = faults[n].slip == SLIP_DK ? 4.0f : 1.0f;
        side = faults[n].side;
        slip = faults[n].slip;
        judge_fault(device, faults[n].pass, faults[n].text, faults[n].another, &v);
        if (strstr(v.symptom, faults[n].said) == NULL && strstr(v.reason, faults[n].said) == NULL)
            fail_msg("%s is not said: %s: %s; %s", faults[n].said, s2_outcome_word(v.outcome), v.reason,
                     v.symptom);
    }
    side = SIDE_NONE;
    slip = SLIP_NONE;
    s2_device_close(&device);
#undef SHAPE
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_verdict_tells_the_fault_that_there_is),
        cmocka_unit_test(a_verdict_on_a_backward_tells_the_fault_that_there_is),
        cmocka_unit_test(a_fault_that_one_sequence_does_not_show_is_convicted),
        cmocka_unit_test(a_right_kernel_is_acquitted_in_every_case_of_every_pass_and_type),
        cmocka_unit_test(a_symptom_names_the_fault_and_not_what_follows_from_it),
        cmocka_unit_test(a_kernel_may_refuse_a_case_and_the_verdict_says_which)};
    return cmocka_run_group_tests_name("verdict", tests, NULL, NULL);
}

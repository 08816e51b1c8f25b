#include "judge/cases.h"

#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "base/text.h"

enum { DECODE_QUERIES = 11 };

/* exp() of fp32 ends at 88.7, and below -103.9 nothing is left of it. */
static const float SHIFT = 120.0f;

/* ------------------------------------------------------------------ shapes */

/* Queries of a chunk: more than a block and more than the 16 of a decode, and no multiple of either. */
static int32_t chunk_of(const s2_validate_request *request)
{
    const int32_t block_tok = request->pattern->block_tok;
    return request->pass == S2_PASS_DECODE ? DECODE_QUERIES : s2_max_i32(block_tok + block_tok / 2 + 5, 37);
}

/* The length that was asked for, halved while it holds a few blocks beside the chunk. */
static int32_t length_of(const s2_validate_request *request)
{
    const int32_t enough = s2_max_i32(5 * request->pattern->block_tok + 13, 97);
    int32_t k_tok = request->seqs[0].k_tok;
    while (k_tok / 2 >= enough)
        k_tok /= 2;
    return k_tok;
}

/* So many queries, or as many as leave half of the keys before them; all where there is but one key. */
static s2_plan_seq with_queries(int32_t q_tok, int32_t k_tok)
{
    return (s2_plan_seq){s2_max_i32(s2_min_i32(q_tok, k_tok / 2), 1), k_tok};
}

/* A sequence as the pass has it. */
static s2_plan_seq whole(const s2_validate_request *request, int32_t k_tok)
{
    return (s2_plan_seq){request->pass == S2_PASS_DECODE ? 1 : k_tok, k_tok};
}

/* A case has at most so many sequences. */
enum { CASE_SEQS = 3 };

/*
 * The sequences of a case and how many there are: 0 where the length of request->seqs[0] leaves none, as one token
 * leaves no queries out.
 */
static int32_t case_seqs(const s2_validate_request *request, s2_case_kind which, s2_plan_seq seqs[CASE_SEQS])
{
    const bool decodes = request->pass == S2_PASS_DECODE;
    const int32_t most = length_of(request), chunk = chunk_of(request);
    const int32_t least = s2_max_i32(most / 3, 1), middle = s2_max_i32(most * 2 / 3, 1);
    switch (which) {
    case S2_CASE_BATCH:
        seqs[0] = seqs[1] = seqs[2] = whole(request, most);
        return request->n_seqs > 1 ? 0 : 3;
    case S2_CASE_CHUNK: seqs[0] = with_queries(chunk, most); return most > 1 ? 1 : 0;
    case S2_CASE_LENGTHS:
        seqs[0] = whole(request, least);
        seqs[1] = whole(request, most);
        seqs[2] = whole(request, middle);
        return most > 1 ? 3 : 0;
    case S2_CASE_MIXED:
        seqs[0] = with_queries(chunk, most);
        seqs[1] = with_queries(1, least);
        seqs[2] = decodes ? with_queries(3, middle) : whole(request, middle);
        return most > 1 ? 3 : 0;
    case S2_CASE_HIGH:
    case S2_CASE_LOW:
        seqs[0] = whole(request, most);
        return request->e4m3 || request->sinks || request->cap > 0.0f ? 0 : 1;
    case S2_N_CASES: break;
    }
    return 0;
}

/* All pairs of the sequences are compared, and some rows for their values. */
static int64_t count_pairs(const s2_validate_request *request, const s2_plan_seq *seqs, int32_t n_seqs)
{
    int64_t n = 0;
    for (int32_t seq = 0; seq < n_seqs; seq++)
        n += (int64_t)seqs[seq].q_tok * seqs[seq].k_tok * request->pattern->n_heads;
    return n;
}

/* ------------------------------------------------------------------ verdicts */

static void convict(s2_case_kind which, const s2_validation *one, s2_validation *out)
{
    static const struct {
        const char *what, *look;
    } cases[S2_N_CASES] = {
#define S2_CASE_WORDS(name, word, what, look) [name] = {what, look},
        S2_CASE_TABLE(S2_CASE_WORDS)
#undef S2_CASE_WORDS
    };
    out->outcome = one->outcome;
    out->touch_wrong = one->touch_wrong;
    out->touch_exhaustive = false;
    out->has_wrong_pair = one->has_wrong_pair;
    out->wrong_head = one->wrong_head;
    out->wrong_q_tok = one->wrong_q_tok;
    out->wrong_k_tok = one->wrong_k_tok;
    snprintf(out->reason, sizeof out->reason, "%s: %.*s", cases[which].what,
             (int)(sizeof out->reason - strlen(cases[which].what) - 3), one->reason);
    snprintf(out->symptom, sizeof out->symptom, "%s",
             one->symptom[0] != '\0' ? one->symptom : cases[which].look);
}

s2_status s2_case_end(s2_case_kind which, s2_status status, const s2_diag *refusal, const s2_validation *one,
                      s2_validation *out)
{
    s2_validation failed = *one;
    out->cases[which] = S2_CASE_JUDGED;
    if (status == S2_EUNSUPPORTED || (status == S2_ENOMEM && refusal->code <= 0)) {
        out->cases[which] = S2_CASE_REFUSED;
        if (out->refused[0] == '\0')
            snprintf(out->refused, sizeof out->refused, "%.150s", s2_diag_text(refusal, status));
        return S2_OK;
    }
    if (status != S2_OK) {
        failed.outcome = refusal->code > 0 ? (s2_outcome)refusal->code : s2_outcome_of(status);
        snprintf(failed.reason, sizeof failed.reason, "%s", s2_diag_text(refusal, status));
    }
    if (failed.outcome != S2_OUTCOME_OK)
        convict(which, &failed, out);
    return S2_OK;
}

/* ------------------------------------------------------------------ the stage */

static s2_status judge_case(s2_device *device, const s2_pass_judge *phase, const s2_validate_request *request,
                            s2_case_kind which, s2_validation *out)
{
    const bool of_values = which == S2_CASE_HIGH || which == S2_CASE_LOW;
    s2_plan_seq seqs[CASE_SEQS];
    s2_validation one = {.kernel = "", .dense_kernel = "", .ours_kernel = ""};
    s2_diag refusal = {0};
    s2_validate_request small = *request;
    small.seqs = seqs;
    small.n_seqs = case_seqs(request, which, seqs);
    small.cases = small.needles = false;
    small.n_timed = small.n_steps = 0;
    small.budget_flop = 0.0;
    small.budget_pairs = s2_min_i64(request->budget_pairs, count_pairs(request, seqs, small.n_seqs));
    small.shift = which == S2_CASE_HIGH ? SHIFT : which == S2_CASE_LOW ? -SHIFT : 0.0f;
    if (small.n_seqs == 0)
        return S2_OK;
    const s2_status status = (of_values ? phase->values : phase->judge)(device, &small, &one, &refusal);
    return s2_case_end(which, status, &refusal, &one, out);
}

s2_status s2_cases_judge(s2_device *device, const s2_pass_judge *phase, const s2_validate_request *request,
                         s2_validation *out, s2_diag *why)
{
    (void)why;
    for (s2_case_kind which = 0; which < S2_N_CASES; which++) {
        if (which == S2_CASE_BATCH && request->pass != S2_PASS_BACKWARD)
            continue;
        if (request->progress != NULL)
            request->progress(request->user, s2_case_word(which), (int32_t)which, S2_N_CASES);
        S2_STAGE(out, judge_case(device, phase, request, which, out));
    }
    return S2_OK;
}

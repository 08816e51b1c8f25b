#include "judge/telling.h"

#include "base/arith.h"
#include "base/work.h"
#include "pattern/folds.h"

/* Work per head, some milliseconds: one that needs more, or is dense up to LONGEST_TOK, counts as dense. */
enum { STEPS = 1 << 22, LONGEST_TOK = 1 << 20 };

static s2_status reads_all(const s2_view *view, int64_t n_tok, int64_t *work_left, bool *all)
{
    int64_t pairs;
    const int64_t dense = view->pattern->causal ? n_tok * (n_tok + 1) / 2 : n_tok * n_tok;
    S2_TRY(s2_view_count_pairs(view, n_tok, work_left, &pairs));
    *all = pairs == dense;
    return S2_OK;
}

/* The longest period, in tokens, of any term of the head. */
static int64_t turn_of(const s2_view *view)
{
    int64_t most = 0;
    for (int32_t t = 0; t < view->body->n_terms; t++) {
        const s2_term *const term = &view->body->terms[t];
        const int64_t own = term->n * (term->tok ? 1 : view->pattern->block_tok);
        if (term->kind == S2_TERM_STRIDE || term->kind == S2_TERM_DILATED)
            most = s2_max_i64(own, most);
    }
    return most;
}

/* The first length at which a key is left out, which then holds for all longer ones; 0: no such length. */
static s2_status first_left_out(const s2_view *view, int64_t len_tok, int64_t longest_tok, int64_t *work_left,
                                int64_t *out)
{
    int64_t all_tok = len_tok, left_tok = len_tok;
    bool all = true;
    while (all && left_tok < longest_tok) {
        all_tok = left_tok;
        left_tok = s2_min_i64(2 * left_tok, longest_tok);
        S2_TRY(reads_all(view, left_tok, work_left, &all));
    }
    *out = all ? 0 : left_tok;
    while (!all && left_tok - all_tok > 1) {
        const int64_t middle = all_tok + (left_tok - all_tok) / 2;
        bool still;
        S2_TRY(reads_all(view, middle, work_left, &still));
        *(still ? &all_tok : &left_tok) = middle;
        *out = left_tok;
    }
    return S2_OK;
}

static s2_status tell(const s2_view *view, int64_t len_tok, int64_t *work_left, s2_telling *out)
{
    const int64_t limit_tok = s2_pattern_limit_tok(view->pattern);
    const int64_t longest_tok = s2_min_i64(limit_tok, LONGEST_TOK);
    bool all = len_tok < longest_tok && !view->has_dynamic;
    int64_t first_tok = 0;
    *out = (s2_telling){0};
    if (all)
        S2_TRY(reads_all(view, len_tok, work_left, &all));
    if (all)
        S2_TRY(first_left_out(view, len_tok, longest_tok, work_left, &first_tok));
    if (first_tok == 0)
        return S2_OK;
    const int32_t block_tok = view->pattern->block_tok;
    out->n_plain = 1;
    out->least_tok = s2_min_i64(s2_round_up(first_tok, block_tok), longest_tok);
    out->whole_tok = s2_min_i64(s2_round_up(first_tok + turn_of(view), block_tok), longest_tok);
    return S2_OK;
}

s2_status s2_telling_find(s2_arena *scratch, const s2_pattern *pattern, s2_phase phase, int32_t layer,
                          int64_t len_tok, s2_telling *out)
{
    s2_folds folds;
    s2_telling found = {0};
    S2_TRY(s2_folds_build(scratch, pattern, phase, S2_AT_LEAST, &folds));
    s2_telling *const told = S2_NEW(scratch, s2_telling, folds.n_classes);
    if (told == NULL)
        return S2_ENOMEM;
    for (int32_t c = 0; c < folds.n_classes; c++)
        told[c].n_plain = -1;
    for (int32_t head = 0; head < pattern->n_heads; head++) {
        const int32_t c = folds.class_of[(int64_t)layer * pattern->n_heads + head];
        int64_t work_left = STEPS;
        const s2_status status =
            told[c].n_plain < 0 ? tell(&folds.views[c], len_tok, &work_left, &told[c]) : S2_OK;
        if (status == S2_ELIMIT)
            told[c] = (s2_telling){0};
        else
            S2_TRY(status);
        found.n_plain += told[c].n_plain;
        found.least_tok = s2_max_i64(found.least_tok, told[c].least_tok);
        found.whole_tok = s2_max_i64(found.whole_tok, told[c].whole_tok);
    }
    *out = found;
    return S2_OK;
}

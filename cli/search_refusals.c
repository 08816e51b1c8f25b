/* Why a search found nothing, or refused what it visited. */
#include "cli/searching.h"

#include <stdio.h>

#include "cli/check.h"
#include "cli/input.h"

/* Finds why a visited candidate cannot be deployed; "" if it can. alone: on one GPU. */
static s2_status find_refusal(const s2_searching *r, int64_t index, bool alone, s2_diag *diag)
{
    s2_arena *const arena = &r->cli->arena;
    const s2_arena_mark_t mark = s2_arena_mark(arena);
    s2_restriction restriction = r->restriction;
    s2_pattern pattern;
    restriction.n_ranks = alone ? 1 : restriction.n_ranks;
    s2_status status = s2_search_pattern(&r->found.search, index, arena, &pattern, NULL);
    if (status == S2_OK)
        status = s2_restriction_refusal(&restriction, &pattern, diag);
    s2_arena_rewind(arena, mark);
    return status == S2_EPARSE ? S2_OK : status;
}

/* If nothing could be deployed, print why, preferably for a candidate that one GPU could run. */
static s2_exit explain_unaccepted(const s2_searching *r)
{
    const s2_found *const found = &r->found;
    s2_diag reason = {0};
    int64_t refused = -1;
    bool one_could = false;
    if (found->state.front.n > 0 || found->state.counts.unaccepted == 0)
        return S2_EXIT_OK;
    for (int64_t visit = found->search.begin; visit < found->state.next && !one_could; visit++) {
        const int64_t index = s2_search_candidate(&found->search, visit);
        s2_diag diag = {0}, of_one = {0};
        s2_status status = find_refusal(r, index, false, &diag);
        if (status == S2_OK)
            status = find_refusal(r, index, true, &of_one);
        if (status != S2_OK)
            return s2_cli_fail(r->cli, status, "export");
        one_could = diag.msg[0] != '\0' && of_one.msg[0] == '\0';
        if (one_could || (refused < 0 && diag.msg[0] != '\0')) {
            refused = index;
            reason = diag;
        }
    }
    if (refused >= 0)
        s2_cli_error(r->cli, "no candidate can be deployed as asked; candidate %lld: %s", (long long)refused,
                     reason.msg);
    return S2_EXIT_OK;
}

/* Windows alone never read everything: tell those who search them to require less. */
static void explain_violated(const s2_searching *r)
{
    const s2_search *const search = &r->found.search;
    const int64_t n_violating = r->found.state.counts.violated[S2_UNION];
    s2_buf others = {0};
    const s2_search_counts *const counts = &r->found.state.counts;
    if (r->found.state.front.n > 0 || n_violating == 0 || counts->outside > 0 || counts->unaccepted > 0)
        return; /* other candidates hold union and fail something else, which the counts have said */
    for (int32_t n = 0; n < search->n_requirements; n++) {
        char name[32];
        s2_requirement_name(&search->requirements[n], name, sizeof name);
        if (search->requirements[n].property != S2_UNION)
            s2_buf_printf(&others, "%s%s", others.len > 0 ? "," : "", name);
    }
    if (others.len > 0)
        s2_cli_error(r->cli,
                     "no design is left: in %lld candidates some layer has pairs that no head reads; -r %s "
                     "asks for less, and --minimize us,unread then weighs what is lost",
                     (long long)n_violating, others.data);
    s2_buf_release(&others);
}

s2_exit s2_search_explain_refused(const s2_searching *r)
{
    const s2_found *const found = &r->found;
    const int64_t index = found->state.refused_index;
    s2_diag diag = {0};
    s2_buf text = {0};
    s2_space_expand(&found->space, index, &text);
    const s2_status status = s2_search_refusal(&found->search, index, &r->cli->arena, &diag);
    char label[40];
    snprintf(label, sizeof label, "candidate %lld", (long long)index);
    const s2_exit code = s2_input_refuse(r->cli, status, label, text.data, text.len, &diag);
    s2_buf_release(&text);
    return code;
}

s2_exit s2_search_explain_nothing(const s2_searching *r)
{
    S2_CLI_TRY(explain_unaccepted(r));
    explain_violated(r);
    return S2_EXIT_OK;
}

/* s2 search --dry-run: what would be searched, and how long that takes. */
#include "cli/searching.h"

#include <math.h>

#include "base/clock.h"
#include "report/found.h"
#include "sim/units.h"

/* A space of which the search would refuse every candidate is refused here too, as far as a moment tells. */
static s2_exit refuse_unsearchable(s2_searching *r)
{
    enum { TRIED = 4096 };
    s2_arena *const arena = &r->cli->arena;
    int64_t lowest = -1;
    if (r->job.until - r->job.begin > TRIED)
        return S2_EXIT_OK;
    for (int64_t visit = r->job.begin; visit < r->job.until; visit++) {
        const int64_t index = s2_search_candidate(&r->found.search, visit);
        const s2_arena_mark_t mark = s2_arena_mark(arena);
        s2_pattern pattern;
        const s2_status status = s2_search_pattern(&r->found.search, index, arena, &pattern, NULL);
        s2_arena_rewind(arena, mark);
        if (status != S2_EPARSE)
            return status == S2_OK ? S2_EXIT_OK : s2_cli_fail(r->cli, status, "space");
        lowest = lowest < 0 || index < lowest ? index : lowest;
    }
    r->found.state.refused_index = lowest;
    return lowest >= 0 ? s2_search_explain_refused(r) : S2_EXIT_OK;
}

/* The part of a search that tells how long the whole takes. */
typedef struct sample {
    double began;
    double most; /* seconds */
    int64_t begin;
    int64_t visit;
} sample;

static bool samples(void *user, const s2_search_state *state, int64_t visit)
{
    enum { FEW = 16 };
    sample *const own = user;
    (void)state;
    own->visit = visit;
    return !s2_search_stopped() && s2_steady_s() - own->began < (visit - own->begin < FEW ? 3 : own->most);
}

/* Whether some candidate can be deployed as asked, as far as a moment tells. */
static s2_status find_accepted(s2_searching *r, bool *any)
{
    const s2_search *const search = &r->found.search;
    const double ends = s2_steady_s() + 3;
    s2_arena *const arena = &r->cli->arena;
    *any = search->accept == NULL;
    for (int64_t visit = r->job.begin; visit < r->job.until && !*any && s2_steady_s() < ends; visit++) {
        const s2_arena_mark_t mark = s2_arena_mark(arena);
        s2_pattern pattern;
        s2_status status =
            s2_search_pattern(search, s2_search_candidate(search, visit), arena, &pattern, NULL);
        if (status == S2_OK)
            status = search->accept(search->accept_user, &pattern, any);
        s2_arena_rewind(arena, mark);
        if (status != S2_OK && status != S2_EPARSE)
            return status;
    }
    return S2_OK;
}

static s2_exit put_expected(s2_searching *r, s2_buf *buf)
{
    s2_found *const found = &r->found;
    const double began = s2_steady_s(), all = (double)(r->job.until - r->job.begin);
    sample own = {.began = began, .begin = r->job.begin, .visit = r->job.begin};
    bool any;
    s2_search_stop_catch();
    s2_status status = find_accepted(r, &any);
    own.most = any ? 1 : 10; /* where nothing can be deployed, a search is short, and its end says why */
    if (status == S2_OK)
        status = s2_search_run(&found->search, &found->state, r->job.until, samples, &own);
    s2_search_stop_release();
    if (status != S2_OK)
        return s2_cli_fail(r->cli, status, "search");
    const double took_us = (s2_steady_s() - began) * 1e6, n = fmax((double)(own.visit - r->job.begin), 1);
    const bool whole = found->state.next == r->job.until;
    s2_buf_printf(buf, "expected    %s%s on %s: ", whole ? "" : "about ",
                  s2_time_text(whole ? took_us : took_us * all / n).text,
                  s2_count_text(found->search.n_jobs, "thread").text);
    if (whole)
        s2_buf_puts(buf, "all were visited to say so\n");
    else
        s2_buf_printf(buf, "an estimate from the first %.0f, which took %s\n", n, s2_time_text(took_us).text);
    return S2_EXIT_OK;
}

static void put_examples(const s2_searching *r, s2_buf *buf)
{
    const s2_found *const found = &r->found;
    s2_buf_puts(buf, "for example\n");
    for (int64_t visit = r->job.begin; visit < r->job.until && visit < r->job.begin + 3; visit++) {
        s2_buf text = {0};
        s2_space_expand(&found->space, s2_search_candidate(&found->search, visit), &text);
        for (size_t n = 0; n < text.len; n++)
            text.data[n] = text.data[n] == '\n' ? ';' : text.data[n];
        s2_buf_puts(buf, "  ");
        s2_buf_add(buf, text.data != NULL ? text.data : "", text.len);
        s2_buf_puts(buf, "\n");
        s2_buf_release(&text);
    }
}

/* If the whole space was visited and nothing was found, the search would end like this too. */
static s2_exit refuse_empty(s2_searching *r)
{
    const s2_found *const found = &r->found;
    if (found->state.next < r->job.until || found->state.front.n > 0)
        return S2_EXIT_OK;
    S2_CLI_TRY(s2_search_explain_nothing(r));
    s2_cli_error(r->cli, "the search would find nothing");
    return S2_EXIT_VIOLATED;
}

s2_exit s2_search_describe(s2_searching *r)
{
    s2_found *const found = &r->found;
    s2_buf buf = {0};
    S2_CLI_TRY(refuse_unsearchable(r));
    s2_search_state_init(&found->search, &found->state);
    s2_buf_puts(&buf, "question    ");
    s2_found_put_question(found, &buf);
    s2_buf_printf(&buf, "space       %s\ncandidates  %lld, of which %lld would be visited\n",
                  found->space_text, (long long)found->space.n_candidates,
                  (long long)(r->job.until - r->job.begin));
    s2_exit code = put_expected(r, &buf);
    put_examples(r, &buf);
    if (code == S2_EXIT_OK)
        code = s2_cli_print(r->cli, &buf);
    else
        s2_buf_release(&buf);
    if (code == S2_EXIT_OK)
        code = refuse_empty(r);
    s2_search_state_release(&found->state);
    return code;
}

/* What the model would do without s2, dense attention or its own layers: rivals of every design found. */
#include "search/found.h"

#include <math.h>
#include <string.h>

/* Dense attention gives nothing up: against it, only a search that minimizes a price has anything to win. */
static bool weighs_price(const s2_search *search)
{
    for (int32_t v = 0; v < search->n_by; v++)
        if (s2_found_is_price(search->by[v]))
            return true;
    return false;
}

bool s2_found_beats(const s2_found *found, const s2_found_rival *rival, const double *values,
                    const double *of_design)
{
    /* dense attention gives up nothing, so that a design has to win something over it that can be seen */
    bool better = rival != found->own, nowhere_worse = rival->within && weighs_price(&found->search);
    for (int32_t v = 0; v < found->search.n_by; v++) {
        nowhere_worse &= values[v] <= of_design[v] || /* false for NAN */
                         s2_found_looks_same(found->search.by[v], values[v], of_design[v]);
        better |= values[v] < of_design[v];
    }
    return nowhere_worse && better;
}

/* Every rule but its name, in one line, as far as candidates have such: of the layers that read keys. */
static const char *rules_of(const s2_found *found, const s2_pattern *pattern)
{
    static const char nothing[] = ": none";
    const size_t n_nothing = sizeof nothing - 1;
    s2_buf text = {0}, line = {0}, layers = {0};
    s2_pattern_print(pattern, &text);
    s2_buf_add(&text, "", 1);
    s2_pattern_print_layers(pattern, &layers);
    s2_buf_add(&layers, "", 1);
    for (const char *rest = text.status == S2_OK && layers.status == S2_OK ? text.data : ""; *rest != '\0';) {
        const size_t n = strcspn(rest, "\n");
        const bool idle = found->n_mixers > 0 && n >= n_nothing &&
                          memcmp(rest + n - n_nothing, nothing, n_nothing) == 0,
                   number = layers.len > 1 && strncmp(rest, layers.data, layers.len - 1) == 0;
        if (number) { /* what layers have of their own, all of it at once */
            rest += layers.len - 1;
            continue;
        }
        if (memchr(rest, ':', n) != NULL && !idle)
            s2_buf_printf(&line, "%s%.*s", line.len > 0 ? "; " : "", (int)n, rest);
        rest += n + (rest[n] == '\n');
    }
    const s2_status status = text.status != S2_OK     ? text.status
                             : layers.status != S2_OK ? layers.status
                                                      : line.status;
    const char *const rules =
        status == S2_OK ? s2_arena_strndup(found->arena, line.data != NULL ? line.data : "", line.len) : NULL;
    s2_buf_release(&text);
    s2_buf_release(&line);
    s2_buf_release(&layers);
    return rules;
}

/* Point to the rival's own point, whose values are those of the search. */
static s2_status fill_rival(const s2_found *found, const s2_search *search, s2_found_rival *rival,
                            const char *name)
{
    s2_found_design *const design = &rival->design;
    rival->point.index = -1;
    const s2_status status = s2_search_price(search, &design->pattern, &rival->point, &rival->within);
    for (int32_t v = 0; status == S2_ELIMIT && v < S2_MAX_OBJECTIVES; v++)
        rival->point.value[v] = (double)NAN; /* worth is judged for some shapes only */
    if (status != S2_OK && status != S2_ELIMIT)
        return status;
    design->point = &rival->point;
    memcpy(design->shown, rival->point.value, sizeof design->shown);
    design->name = name;
    design->choice = rules_of(found, &design->pattern);
    S2_TRY(s2_found_find_spill(found, design));
    return design->choice != NULL ? s2_pattern_hash(&design->pattern, design->hash) : S2_ENOMEM;
}

static s2_found_rival *known_dense(const s2_found *found, const char *hash)
{
    for (int32_t n = 0; n < found->n_denses; n++)
        if (strcmp(found->denses[n].design.hash, hash) == 0)
            return &found->denses[n];
    return NULL;
}

s2_status s2_found_dense_of(s2_found *found, const s2_pattern *pattern, s2_found_rival **out)
{
    s2_arena *const arena = found->arena;
    const s2_arena_mark_t mark = s2_arena_mark(arena);
    s2_pattern dense;
    char hash[S2_HASH_HEX];
    S2_TRY(s2_attention_dense(arena, pattern, &dense));
    dense.name = "";
    S2_TRY(s2_pattern_hash(&dense, hash));
    *out = known_dense(found, hash);
    if (*out != NULL) {
        s2_arena_rewind(arena, mark);
        return S2_OK;
    }
    *out = &found->denses[found->n_denses++];
    **out = (s2_found_rival){.design = {.pattern = dense}};
    return fill_rival(found, &found->search, *out, "dense");
}

/* A stack that keeps every page of a pattern still frees those behind the windows of a model that it knows. */
static bool has_windows_only(const s2_pattern *pattern)
{
    for (int32_t body = 0; body < pattern->n_bodies; body++) {
        const s2_body *const one = &pattern->bodies[body];
        const s2_term *const term = one->terms;
        if (one->n_terms != 1 || !s2_term_is_whole(term) ||
            (term->kind != S2_TERM_LOCAL && term->kind != S2_TERM_DENSE))
            return false;
    }
    return true;
}

static s2_status meet_own(s2_found *found)
{
    s2_arena *const arena = found->arena;
    s2_found_rival *const own = S2_NEW(arena, s2_found_rival, 1);
    s2_search search = found->search;
    s2_sim_options options = found->search.options;
    s2_diag diag = {0};
    s2_sim sim;
    if (own == NULL)
        return S2_ENOMEM;
    options.calibration = NULL;
    options.listed = false;
    const s2_status status = s2_price(arena, found->own_pattern, &options, S2_PRICE_WHOLE, &sim, &diag);
    if (status == S2_EINVAL || status == S2_EUNSUPPORTED || status == S2_ELIMIT) {
        found->own_missing = s2_arena_strndup(arena, diag.msg, strlen(diag.msg));
        return found->own_missing != NULL ? S2_OK : S2_ENOMEM;
    }
    S2_TRY(status);
    if (sim.counts.pairs == sim.dense.pairs) /* at this length dense layers read no more */
        return S2_OK;
    *own =
        (s2_found_rival){.design = {.pattern = *found->own_pattern,
                                    .apart = search.options.listed || has_windows_only(found->own_pattern)}};
    s2_found_set_apart(&own->design, &search.options);
    S2_TRY(fill_rival(found, &search, own, "own"));
    S2_TRY(s2_found_price(found, &own->design, true));
    found->own = own;
    return S2_OK;
}

static s2_status meet(s2_found *found, const s2_point *point, bool *beaten)
{
    s2_arena *const arena = found->arena;
    const s2_arena_mark_t mark = s2_arena_mark(arena);
    const int32_t n_known = found->n_denses;
    s2_pattern pattern;
    s2_found_rival *dense;
    S2_TRY(s2_search_pattern(&found->search, point->index, arena, &pattern, NULL));
    S2_TRY(s2_found_dense_of(found, &pattern, &dense));
    const bool by_dense = s2_found_beats(found, dense, dense->point.value, point->value);
    const bool by_own =
        found->own != NULL && s2_found_beats(found, found->own, found->own->point.value, point->value);
    found->n_by_dense += by_dense;
    found->n_by_own += by_own;
    *beaten = by_dense || by_own;
    if (found->n_denses == n_known) /* what is new lives in the arena */
        s2_arena_rewind(arena, mark);
    return S2_OK;
}

s2_status s2_found_meet_rivals(s2_found *found, s2_front *kept)
{
    const s2_front *const front = &found->state.front;
    s2_arena *const arena = found->arena;
    *kept = (s2_front){.n_values = front->n_values, .points = S2_NEW(arena, s2_point, front->n + 1)};
    found->denses = S2_NEW(arena, s2_found_rival, front->n + 1);
    if (kept->points == NULL || found->denses == NULL)
        return S2_ENOMEM;
    if (found->own_pattern != NULL && front->n > 0)
        S2_TRY(meet_own(found));
    for (int32_t n = 0; n < front->n; n++) {
        bool beaten;
        S2_TRY(meet(found, &front->points[n], &beaten));
        found->n_beaten += beaten;
        if (!beaten)
            kept->points[kept->n++] = front->points[n];
    }
    return S2_OK;
}

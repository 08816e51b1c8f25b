#include "cli/found.h"

#include <math.h>
#include <string.h>

/* A front may have thousands of designs: only this many are priced by the whole simulator. */
enum { FULL_ROWS = 32, TOLD_ROWS = 20, NAME_DIGITS = 8 };

/* End a statement where the text had a line end; the choice is written on one line. */
static void end_statement(s2_buf *out, size_t begin)
{
    while (out->len > begin && out->data[out->len - 1] == ' ')
        out->len--;
    if (out->len > begin)
        s2_buf_puts(out, out->data[out->len - 1] == ';' ? " " : "; ");
}

static void put_choice(const s2_found *found, int64_t index, s2_buf *out)
{
    const size_t begin = out->len;
    s2_buf text = {0};
    s2_space_expand(&found->space, index, &text);
    s2_buf_add(&text, "", 1);
    const char *at = text.status == S2_OK ? text.data : "";
    if (found->model[0] != '\0')
        at += strcspn(at, "\n") + 1;
    for (; *at != '\0'; at++) {
        if (*at == '#') /* a file may have comments */
            at += strcspn(at, "\n");
        if (*at == '\0')
            break;
        const char last = out->len > begin ? out->data[out->len - 1] : ';';
        if (*at == '\n' || *at == ';')
            end_statement(out, begin);
        else if (*at != ' ' && *at != '\t' && *at != '\r')
            s2_buf_add(out, at, 1);
        else if (last != ' ' && out->len > begin)
            s2_buf_puts(out, " ");
    }
    /* choices that expand to nothing leave empty statements behind */
    while (out->len > begin && strchr("; ", out->data[out->len - 1]) != NULL)
        out->len--;
    if (text.status != S2_OK)
        out->status = text.status;
    s2_buf_release(&text);
}

const char *s2_found_choice(const s2_found *found, int64_t index)
{
    s2_buf choice = {0};
    put_choice(found, index, &choice);
    const char *const text =
        choice.status == S2_OK
            ? s2_arena_strndup(&found->cli->arena, choice.data != NULL ? choice.data : "", choice.len)
            : NULL;
    s2_buf_release(&choice);
    return text;
}

s2_sim_options s2_found_options(const s2_found *found, s2_phase phase)
{
    s2_sim_options options = found->search.options;
    options.phase = phase;
    if (!s2_sim_predicts(&options, phase))
        options.calibration = NULL;
    return options;
}

s2_status s2_found_predict(const s2_found *found, const s2_found_design *design, s2_phase phase, s2_sim *sim)
{
    s2_sim_options options = found->search.options;
    options.phase = phase;
    options.calibration = found->calibrated ? &found->calibration : NULL;
    return s2_price(&found->cli->arena, &design->pattern, &options, S2_PRICE_WHOLE, sim, NULL);
}

double s2_found_value(const s2_found *found, const s2_point *point, s2_objective objective, double other)
{
    for (int32_t v = 0; v < found->search.n_by; v++)
        if (found->search.by[v] == objective)
            return point->value[v];
    return other;
}

s2_status s2_found_time(const s2_found *found, const s2_found_design *design, s2_phase phase, double *us)
{
    const s2_objective objective = s2_objective_time(phase);
    s2_sim sim;
    *us = s2_found_value(found, design->point, objective, (double)NAN);
    if (s2_sim_predicts(&found->search.options, phase) && !isnan(*us))
        return S2_OK;
    S2_TRY(s2_found_predict(found, design, phase, &sim));
    *us = sim.predicted ? sim.time_us : s2_found_value(found, design->point, objective, sim.time_us);
    return S2_OK;
}

/* Named by its hash, so that designs of different searches never share a name. */
static const char *name_of(const s2_found *found, const char *own, const char *hash)
{
    const char *const base = own[0] != '\0' ? own : found->model[0] != '\0' ? found->model : "search";
    s2_buf buf = {0};
    s2_buf_printf(&buf, "%.180s-%.*s", base, NAME_DIGITS, hash);
    const char *const name =
        buf.status == S2_OK ? s2_arena_strndup(&found->cli->arena, buf.data, buf.len) : NULL;
    s2_buf_release(&buf);
    return name;
}

bool s2_found_tells(const s2_found *found, s2_phase phase)
{
    return phase == S2_TRAIN && found->search.options.calibration != NULL;
}

static s2_status price(const s2_found *found, s2_found_design *design, bool told)
{
    s2_arena *const arena = &found->cli->arena;
    s2_sim *const sims = S2_NEW(arena, s2_sim, found->n_phases);
    if (sims == NULL)
        return S2_ENOMEM;
    for (int32_t p = 0; p < found->n_phases; p++) {
        s2_sim_options options = s2_found_options(found, found->phases[p]);
        if (told && s2_found_tells(found, found->phases[p]))
            options.calibration = &found->calibration;
        S2_TRY(s2_price(arena, &design->pattern, &options, S2_PRICE_WHOLE, &sims[p], NULL));
    }
    design->sims = sims;
    return S2_OK;
}

static s2_status fill_design(const s2_found *found, const s2_point *point, int32_t place,
                             s2_found_design *out)
{
    s2_arena *const arena = &found->cli->arena;
    *out = (s2_found_design){.point = point};
    S2_TRY(s2_search_pattern(&found->search, point->index, arena, &out->pattern, NULL));
    const char *const own = out->pattern.name;
    out->pattern.name = ""; /* it names the space, which has many designs */
    S2_TRY(s2_pattern_hash(&out->pattern, out->hash));
    out->name = name_of(found, own, out->hash);
    out->choice = s2_found_choice(found, point->index);
    if (out->name == NULL || out->choice == NULL)
        return S2_ENOMEM;
    memcpy(out->shown, point->value, sizeof out->shown);
    return place < FULL_ROWS ? price(found, out, place < TOLD_ROWS) : S2_OK;
}

/* The index of the training step among objectives and among phases; false if none is told. */
static bool find_told(const s2_found *found, int32_t *value, int32_t *phase)
{
    for (*phase = 0; *phase < found->n_phases; (*phase)++)
        for (*value = 0; s2_found_tells(found, found->phases[*phase]) && *value < found->search.n_by;
             (*value)++)
            if (found->search.by[*value] == S2_BY_TRAIN_US)
                return true;
    return false;
}

/* Reorder the designs best by bounds by their predictions; leave them if no kernel takes one of them. */
static s2_status tell(s2_found *found)
{
    s2_arena *const arena = &found->cli->arena;
    const int32_t n = found->n_designs < TOLD_ROWS ? found->n_designs : TOLD_ROWS;
    s2_front told = {.n_values = found->search.n_by, .n = n, .points = S2_NEW(arena, s2_point, n + 1)};
    s2_found_design *const by_bounds = S2_NEW(arena, s2_found_design, n + 1);
    int32_t order[TOLD_ROWS], value, phase;
    if (!find_told(found, &value, &phase))
        return S2_OK;
    if (told.points == NULL || by_bounds == NULL)
        return S2_ENOMEM;
    for (int32_t nth = 0; nth < n; nth++) {
        const s2_sim *const sim = &found->designs[nth].sims[phase];
        if (!sim->predicted)
            return S2_OK;
        by_bounds[nth] = found->designs[nth];
        by_bounds[nth].shown[value] = sim->time_us;
        memcpy(told.points[nth].value, by_bounds[nth].shown, sizeof by_bounds[nth].shown);
    }
    S2_TRY(s2_front_order(&told, order));
    for (int32_t nth = 0; nth < n; nth++)
        found->designs[nth] = by_bounds[order[nth]];
    found->n_told = n;
    return S2_OK;
}

s2_exit s2_found_gather(s2_found *found)
{
    const s2_front *const front = &found->state.front;
    s2_arena *const arena = &found->cli->arena;
    int32_t *const order = S2_NEW(arena, int32_t, front->n + 1);
    found->n_designs = front->n;
    found->designs = S2_NEW(arena, s2_found_design, front->n + 1);
    s2_status status = order != NULL && found->designs != NULL ? s2_front_order(front, order) : S2_ENOMEM;
    for (int32_t n = 0; n < front->n && status == S2_OK; n++)
        status = fill_design(found, &front->points[order[n]], n, &found->designs[n]);
    if (status == S2_OK)
        status = tell(found);
    return status == S2_OK ? S2_EXIT_OK : s2_cli_fail(found->cli, status, "front");
}

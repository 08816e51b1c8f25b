#include "search/found.h"

#include <math.h>
#include <string.h>

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
    const char *rest = text.status == S2_OK ? text.data : "";
    if (found->model[0] != '\0')
        rest += strcspn(rest, "\n") + 1;
    for (; *rest != '\0'; rest++) {
        if (*rest == '#') /* a file may have comments */
            rest += strcspn(rest, "\n");
        if (*rest == '\0')
            break;
        const char last = out->len > begin ? out->data[out->len - 1] : ';';
        if (*rest == '\n' || *rest == ';')
            end_statement(out, begin);
        else if (*rest != ' ' && *rest != '\t' && *rest != '\r')
            s2_buf_add(out, rest, 1);
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
            ? s2_arena_strndup(found->arena, choice.data != NULL ? choice.data : "", choice.len)
            : NULL;
    s2_buf_release(&choice);
    return text;
}

void s2_found_put_attention(const s2_found *found, s2_buf *buf)
{
    int32_t layers[S2_LIMIT_LAYERS], n = 0;
    for (int32_t layer = 0; layer < found->net.n_layers; layer++)
        if (found->n_mixers == 0 || !(found->search.mixers[layer / 64] >> (layer % 64) & 1))
            layers[n++] = layer;
    s2_index_list_print(layers, n, found->net.n_layers, buf);
}

s2_sim_options s2_found_options(const s2_found *found, s2_phase phase)
{
    s2_sim_options options = found->search.options;
    options.phase = phase;
    if (!s2_sim_predicts(&options, phase))
        options.calibration = NULL;
    return options;
}

void s2_found_set_apart(const s2_found_design *design, s2_sim_options *options)
{
    options->keeps_all &= !design->apart;
    options->listed &= !design->apart;
}

s2_status s2_found_predict(const s2_found *found, const s2_found_design *design, s2_phase phase, s2_sim *sim)
{
    s2_sim_options options = found->search.options;
    options.phase = phase;
    s2_found_set_apart(design, &options);
    options.calibration = &found->calibration;
    return s2_price(found->arena, &design->pattern, &options, S2_PRICE_WHOLE, sim, NULL);
}

const s2_sim *s2_found_scored(const s2_found *found, const s2_found_design *design)
{
    const s2_sim *worst = &design->sims[0];
    for (int32_t p = 1; p < found->n_phases; p++)
        if (design->sims[p].scored > worst->scored)
            worst = &design->sims[p];
    return worst;
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

bool s2_found_tells(const s2_found *found, s2_phase phase)
{
    return phase == S2_TRAIN && found->search.options.calibration != NULL;
}

bool s2_found_is_untold(const s2_found *found, const s2_found_design *design, s2_objective objective)
{
    return objective == S2_BY_TRAIN_US && found->n_told > 0 && !design->told;
}

s2_sim_options s2_found_question(const s2_found *found)
{
    int32_t p = 0;
    while (p + 1 < found->n_phases && found->phases[p] == S2_TRAIN)
        p++;
    return s2_found_options(found, found->phases[p]);
}

s2_status s2_found_price(const s2_found *found, s2_found_design *design, bool told)
{
    s2_arena *const arena = found->arena;
    s2_sim *const sims = S2_NEW(arena, s2_sim, found->n_phases);
    if (sims == NULL)
        return S2_ENOMEM;
    for (int32_t p = 0; p < found->n_phases; p++) {
        s2_sim_options options = s2_found_options(found, found->phases[p]);
        s2_found_set_apart(design, &options);
        if (told && s2_found_tells(found, found->phases[p]))
            options.calibration = &found->calibration;
        S2_TRY(s2_price(arena, &design->pattern, &options, S2_PRICE_WHOLE, &sims[p], NULL));
    }
    design->sims = sims;
    return S2_OK;
}

#include "explorer/result.h"

#include <math.h>
#include <string.h>

#include "sim/units.h"

const char *s2_result_word(const s2_db_result *result)
{
    switch (result->kind) {
    case S2_DB_KIND_VALIDATION: return result->of.validation.outcome;
    case S2_DB_KIND_CHECK: return result->of.check.property;
    case S2_DB_KIND_SIM: return result->of.sim.phase;
    case S2_DB_KIND_REACH: return "reach";
    case S2_DB_KIND_EXPORT: return result->of.file.target;
    case S2_DB_KIND_NOTE:
    case S2_DB_N_KINDS: break;
    }
    return "note";
}

/* Append the reason that a check or run gave, if any. */
static void put_reason(const char *reason, s2_buf *buf)
{
    if (reason[0] != '\0')
        s2_buf_printf(buf, "; %s", reason);
}

static void put_check(const s2_db_check *check, s2_buf *buf)
{
    s2_buf_puts(buf, s2_db_verdict_word(check->verdict));
    if (check->scope_tok == S2_DB_NONE && check->verdict != S2_DB_VIOLATED)
        s2_buf_puts(buf, " for every length");
    else if (check->scope_tok != S2_DB_NONE)
        s2_buf_printf(buf, " at %s", s2_count_text(check->scope_tok, "token").text);
    if (check->verdict == S2_DB_VIOLATED && check->complete_to_tok != S2_DB_NONE)
        s2_buf_printf(buf, "; complete to %s", s2_count_text(check->complete_to_tok, "token").text);
    if (check->key_tok != S2_DB_NONE)
        s2_buf_printf(buf, "; layer %lld query %lld key %lld", (long long)check->layer,
                      (long long)check->query_tok, (long long)check->key_tok);
    put_reason(check->detail, buf);
}

static void put_unusual(const char *word, const char *value, const char *usual, s2_buf *buf)
{
    if (value[0] != '\0' && strcmp(value, usual) != 0)
        s2_buf_printf(buf, ", %s %s", word, value);
}

/* What distinguishes the price from others of the same GPU, length and batch. */
static void put_kind(const s2_db_sim *sim, s2_buf *buf)
{
    if (sim->tp > 1)
        s2_buf_printf(buf, ", tp %lld", (long long)sim->tp);
    put_unusual("cache", sim->kv_dtype, sim->dtype, buf);
    put_unusual("weights", sim->weights, sim->dtype, buf);
    put_unusual("kernel", sim->kernel, S2_DB_OURS, buf);
    put_unusual("with", sim->settings, S2_DB_USUAL, buf);
    put_unusual("model", sim->model, "", buf);
}

static void put_figure(s2_db_figure figure, double us, s2_buf *buf)
{
    s2_buf_printf(buf, "%s%s%s", figure == S2_DB_BOUND ? ": >= " : ": ", s2_time_text(us).text,
                  figure == S2_DB_GUESS    ? " guessed"
                  : figure == S2_DB_UNSAID ? " predicted or guessed"
                                           : "");
}

/* The length, then what was measured; a number of layers above those of the design stands for never. */
static void put_reach(const s2_db_reach *reach, s2_buf *buf)
{
    s2_buf_printf(buf, "%s", s2_count_text(reach->len_tok, "token").text);
    if (reach->hops != S2_DB_NONE)
        s2_buf_printf(buf, ": hops %lld", (long long)reach->hops);
    if (!isnan(reach->flow))
        s2_buf_printf(buf, "%s least flow %s of dense", reach->hops != S2_DB_NONE ? "," : ":",
                      s2_decimal(reach->flow, 3).text);
}

static void put_sim(const s2_db_sim *sim, s2_buf *buf)
{
    s2_buf_printf(buf, "%s, %s x %lld, %s", sim->gpu, s2_count_text(sim->len_tok, "token").text,
                  (long long)sim->batch, sim->dtype);
    put_kind(sim, buf);
    if (!isnan(sim->time_us))
        put_figure(sim->priced, sim->time_us, buf);
    if (!isnan(sim->dense_us))
        s2_buf_printf(buf, ", dense %s", s2_time_text(sim->dense_us).text);
    if (sim->bound_by[0] != '\0')
        s2_buf_printf(buf, ", bound by %s", sim->bound_by);
    if (sim->kv_head_pages_bytes > 0)
        s2_buf_printf(buf, "; KV cache %s", s2_bytes_text(sim->kv_head_pages_bytes).text);
    if (sim->kv_head_pages_bytes > 0 && !isnan(sim->kv_dense_bytes))
        s2_buf_printf(buf, " of %s", s2_bytes_text(sim->kv_dense_bytes).text);
}

static void put_validation(const s2_db_validation *v, s2_buf *buf)
{
    s2_buf_printf(buf, "%s, %s, %s, %s x %lld, %s", v->device, v->kernel, v->phase,
                  s2_count_text(v->len_tok, "token").text, (long long)v->batch, v->dtype);
    if (v->layers_alike > 0 && v->layer != S2_DB_NONE)
        s2_buf_printf(buf, ", layer %lld", (long long)v->layer);
    if (v->layers_alike > 1)
        s2_buf_printf(buf, " for %lld alike", (long long)v->layers_alike);
    if (v->pairs != S2_DB_NONE)
        s2_buf_printf(buf, "; %lld pairs, %s%lld wrong", (long long)v->pairs,
                      v->pairs_wrong > 0 ? "at least " : "", /* whether all were compared is not stored */
                      (long long)v->pairs_wrong);
    if (!isnan(v->max_err) && v->tolerance > 0)
        s2_buf_printf(buf, "; error %s of %s", s2_decimal(v->max_err, 2).text,
                      s2_decimal(v->tolerance, 2).text);
    if (!isnan(v->median_ms))
        s2_buf_printf(buf, "; %s ms", s2_decimal(v->median_ms, 4).text);
    put_reason(v->reason, buf);
}

void s2_result_print(const s2_db_result *result, s2_buf *buf)
{
    switch (result->kind) {
    case S2_DB_KIND_NOTE: s2_buf_puts(buf, result->of.note); break;
    case S2_DB_KIND_VALIDATION: put_validation(&result->of.validation, buf); break;
    case S2_DB_KIND_CHECK: put_check(&result->of.check, buf); break;
    case S2_DB_KIND_SIM: put_sim(&result->of.sim, buf); break;
    case S2_DB_KIND_REACH: put_reach(&result->of.reach, buf); break;
    case S2_DB_KIND_EXPORT:
        s2_buf_puts(buf, result->of.file.path[0] != '\0' ? result->of.file.path : "standard output");
        break;
    case S2_DB_N_KINDS: break;
    }
}

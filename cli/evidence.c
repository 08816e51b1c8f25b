#include "cli/evidence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/file.h"
#include "cli/store.h"
#include "explorer/result.h"

/* The last run that judged a pattern. */
typedef struct last_run {
    s2_db_result whole;       /* in the words of its first fault, or of a success: the sums over the run */
    const s2_db_result **row; /* what it judged */
    int32_t n;
    int32_t n_failed;
    int32_t n_left_out; /* results of the run that judged nothing */
} last_run;

/* By s2's own kernels, which older files do not name: what a foreign one does says nothing of the pattern. */
static bool is_validation(const s2_db_result *result)
{
    const char *const kernels = result->of.validation.kernels;
    return result->kind == S2_DB_KIND_VALIDATION &&
           (kernels == NULL || kernels[0] == '\0' || strcmp(kernels, S2_DB_OURS) == 0);
}

/* Was anything compared? */
static bool has_judged(const s2_db_result *result)
{
    const char *const outcome = result->of.validation.outcome;
    return strcmp(outcome, "unsupported") != 0 && strcmp(outcome, "out_of_memory") != 0;
}

/* Numbers of a file from elsewhere may be anything; a sum without a value has none. */
static int64_t sum_of(int64_t a, int64_t b)
{
    int64_t sum;
    return a != S2_DB_NONE && b != S2_DB_NONE && s2_add_i64(a, b, &sum) ? sum : S2_DB_NONE;
}

/* A layer's time is not the whole's; the error that counts is the largest for its tolerance. */
static void add_row(s2_db_validation *whole, const s2_db_validation *row)
{
    whole->pairs = sum_of(whole->pairs, row->pairs);
    whole->pairs_wrong = sum_of(whole->pairs_wrong, row->pairs_wrong);
    whole->median_ms = NAN;
    if (isnan(whole->max_err) || row->max_err * whole->tolerance > whole->max_err * row->tolerance) {
        whole->max_err = row->max_err;
        whole->tolerance = row->tolerance;
    }
    if (strcmp(whole->kernel, row->kernel) != 0)
        whole->kernel = "several kernels";
}

static void sum_up(last_run *run)
{
    const s2_db_result *in_words = run->row[run->n - 1];
    for (int32_t r = run->n - 1; r >= 0; r--)
        if (run->row[r]->verdict != S2_DB_HOLDS && run->n_failed++ == 0)
            in_words = run->row[r];
    run->whole = *in_words;
    run->whole.of.validation.layer = S2_DB_NONE; /* put_layers() says how many were judged */
    run->whole.of.validation.layers_alike = S2_DB_NONE;
    for (int32_t r = 0; r < run->n; r++)
        if (run->row[r] != in_words)
            add_row(&run->whole.of.validation, &run->row[r]->of.validation);
}

/* Collect the results, the latest first, of the last run that judged anything; out->n is 0 where none did. */
static s2_status find_run(s2_arena *arena, const s2_db_result *results, int32_t n, last_run *out)
{
    int64_t run_id = 0;
    *out = (last_run){.row = S2_NEW(arena, const s2_db_result *, (size_t)n)};
    if (out->row == NULL)
        return S2_ENOMEM;
    for (int32_t r = n - 1; r >= 0; r--)
        if (is_validation(&results[r]) && has_judged(&results[r]))
            run_id = results[r].run_id;
    for (int32_t r = 0; r < n; r++) {
        if (!is_validation(&results[r]) || results[r].run_id != run_id)
            continue;
        if (has_judged(&results[r]))
            out->row[out->n++] = &results[r];
        else
            out->n_left_out++;
    }
    if (out->n > 0)
        sum_up(out);
    return S2_OK;
}

static int by_layer(const void *a, const void *b)
{
    const s2_db_result *const *const x = a, *const *const y = b;
    const int64_t first = (*x)->of.validation.layer, second = (*y)->of.validation.layer;
    return (first > second) - (first < second);
}

static int by_length(const void *a, const void *b)
{
    const s2_db_result *const *const x = a, *const *const y = b;
    const int64_t first = (*x)->of.validation.len_tok, second = (*y)->of.validation.len_tok;
    return (first > second) - (first < second);
}

/* How many layers were judged; older files do not say which. */
static void put_layers(last_run *run, int64_t n_layers, s2_buf *words)
{
    int64_t n_judged = 0, n_alike = 0;
    qsort(run->row, (size_t)run->n, sizeof *run->row, by_layer);
    if (run->row[0]->of.validation.layer == S2_DB_NONE)
        return;
    for (int32_t r = 0; r < run->n; r++)
        if (r == 0 || by_layer(&run->row[r - 1], &run->row[r]) != 0) {
            n_judged++;
            n_alike = sum_of(n_alike, run->row[r]->of.validation.layers_alike);
        }
    if (n_judged == 1 && n_alike == n_layers)
        return;
    s2_buf_printf(words, "; %lld layer%s judged", (long long)n_judged, n_judged == 1 ? "" : "s");
    const char *const stand = n_judged == 1 ? "stands" : "stand";
    if (n_alike == n_layers)
        s2_buf_printf(words, ", which %s for all %lld", stand, (long long)n_layers);
    else if (n_alike > 0 && n_alike < n_layers)
        s2_buf_printf(words, ", which %s for %lld of %lld", stand, (long long)n_alike, (long long)n_layers);
}

/* What one result alone does not say of its run. */
static void put_extent(last_run *run, int64_t n_layers, s2_buf *words)
{
    int32_t n_lengths = 1;
    put_layers(run, n_layers, words);
    qsort(run->row, (size_t)run->n, sizeof *run->row, by_length);
    for (int32_t r = 1; r < run->n; r++)
        n_lengths += by_length(&run->row[r - 1], &run->row[r]) != 0;
    if (n_lengths > 1)
        s2_buf_printf(words, "; %d lengths from %lld to %s", n_lengths,
                      (long long)run->row[0]->of.validation.len_tok,
                      s2_count_text(run->row[run->n - 1]->of.validation.len_tok, "token").text);
    if (run->n_failed > 0 && run->n > 1)
        s2_buf_printf(words, "; %d of %d verdicts not ok", run->n_failed, run->n);
    if (run->n_left_out > 0)
        s2_buf_printf(words, "; the run could not judge %d more", run->n_left_out);
}

/* All results of a design, the latest first. */
static s2_status results_of(s2_arena *arena, s2_db *db, int64_t id, const s2_db_result **out, int32_t *n)
{
    for (int32_t cap = 256;; cap *= 2) {
        s2_db_result *const results = S2_NEW(arena, s2_db_result, (size_t)cap);
        if (results == NULL)
            return S2_ENOMEM;
        S2_TRY(s2_db_results(db, arena, false, id, cap, results, n, NULL));
        *out = results;
        if (*n < cap || cap >= 1 << 20)
            return S2_OK;
    }
}

/* words stays empty where no validation is recorded. */
static s2_status validation_words(s2_arena *arena, s2_db *db, const s2_pattern *pattern, s2_buf *words)
{
    char hash[S2_HASH_HEX];
    s2_db_row design;
    s2_db_run_row run = {0};
    const s2_db_result *results;
    last_run last;
    int32_t n = 0, n_runs = 0;
    S2_TRY(s2_pattern_hash(pattern, hash));
    S2_TRY(s2_db_find(db, arena, hash, 1, &design, &n, NULL));
    if (n != 1)
        return S2_OK;
    S2_TRY(results_of(arena, db, design.id, &results, &n));
    S2_TRY(find_run(arena, results, n, &last));
    if (last.n == 0)
        return S2_OK;
    S2_TRY(s2_db_runs(db, arena, last.whole.run_id, 1, &run, &n_runs, NULL));
    s2_buf_printf(words,
                  last.n_failed == 0 ? "validated (run %lld, commit %s): "
                                     : "the last validation failed (run %lld, commit %s): ",
                  (long long)last.whole.run_id, n_runs == 1 ? run.commit : "unknown");
    s2_result_print(&last.whole, words);
    put_extent(&last, pattern->n_layers, words);
    return words->status;
}

s2_exit s2_evidence_words(s2_cli *cli, const s2_pattern *pattern, const char **words)
{
    *words = "no validation of this pattern by s2's own kernels is recorded (s2 validate)";
    if (cli->no_db || s2_file_is_missing(s2_store_path(cli)))
        return S2_EXIT_OK;
    s2_buf found = {0};
    s2_db *db;
    const s2_exit opened = s2_store_open(cli, S2_DB_READ, &db);
    if (opened != S2_EXIT_OK) {
        s2_cli_hint(cli, "--no-db exports without mentioning validations");
        return opened;
    }
    s2_status status = validation_words(&cli->arena, db, pattern, &found);
    s2_db_close(&db);
    if (status == S2_OK && found.len > 0)
        *words = s2_arena_strndup(&cli->arena, found.data, found.len);
    if (*words == NULL)
        status = S2_ENOMEM;
    s2_buf_release(&found);
    return status == S2_OK ? S2_EXIT_OK : s2_cli_fail(cli, status, "the last validation");
}

#include "cli/searching.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/store.h"
#include "sim/machine.h"

static uint64_t name_hash(const char *text)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (; *text != '\0'; text++)
        sum = (sum ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return sum;
}

/* What counts of a config, which may hold something else next time. */
static void put_model(const s2_found *found, s2_buf *buf)
{
    const s2_net *const net = &found->net;
    s2_buf_printf(
        buf,
        " | of layers %d heads %d on %d of %d, widths %d %d %d, weights %lld in %d, picks %d beside %d | ",
        net->n_layers, net->n_heads, net->n_kv_heads, net->head_dim, net->hidden, net->ffn, net->vocab,
        (long long)s2_net_weights(net), (int)net->stored, net->n_active, net->mixture.shared_ffn);
    if (found->own_pattern != NULL)
        s2_pattern_print_layers(found->own_pattern, buf);
    for (int32_t part = 0; part < S2_N_STORED_PARTS && net->stored != S2_WEIGHTS_PUBLISHED; part++)
        s2_buf_printf(buf, " %s of %s bits, %s in fp8", s2_decimal(net->kept[part], 6).text,
                      s2_decimal(net->bits[part], 6).text, s2_decimal(net->in_fp8[part], 6).text);
}

/* The key has everything that counts and front depend on, including the program's version. */
s2_exit s2_search_file_name(s2_searching *r)
{
    const s2_found *const found = &r->found;
    const s2_search *const search = &found->search;
    s2_buf buf = {0};
    s2_buf_printf(&buf, "%s %s | %s %s len %lld batch %lld %s | seed %llu shard %s | require %s | minimize",
                  s2_version(), s2_version_commit(), found->model, search->options.gpu.name,
                  (long long)search->options.len_tok, (long long)search->options.batch,
                  s2_dtype_word(search->options.dtype), (unsigned long long)search->seed,
                  s2_args_str(&r->args, "shard"), s2_args_str(&r->args, "require"));
#define S2_GPU_VALUE(key, low, high, required, what)                                                         \
    s2_buf_printf(&buf, " %s", s2_decimal(search->options.gpu.key, 6).text);
    S2_GPU_KEYS(S2_GPU_VALUE) /* a GPU file may hold other values next time */
#undef S2_GPU_VALUE
    if (r->model_is_file)
        put_model(found, &buf);
    for (int32_t v = 0; v < search->n_by; v++)
        s2_buf_printf(&buf, " %s", s2_objective_word(search->by[v]));
    for (int32_t n = 0; n < search->n_limits; n++)
        s2_buf_printf(&buf, " %s<=%a%s", s2_objective_word(search->limits[n].of), search->limits[n].most,
                      search->limits[n].of_dense ? " of dense" : "");
    s2_buf_printf(&buf, " | %s",
                  search->options.calibration != NULL ? search->options.calibration->hash : "bounds");
    s2_buf_printf(&buf, " | weights %s cache %s %s dp %d%s", s2_weights_word(search->options.weights),
                  s2_cache_type_word(search->options.cache), s2_fusion_word(search->options.fusion),
                  (int)search->options.n_shards, search->options.recompute ? " recompute" : "");
    if (search->options.reserved_permille > 0)
        s2_buf_printf(&buf, " reserved %d", (int)search->options.reserved_permille);
    if (search->options.listed)
        s2_buf_puts(&buf, " lists on the device");
    if (s2_machine_asked(&search->options))
        s2_buf_printf(&buf, " | pp %d of %d cp %d %s ep %d nodes %d", (int)search->options.n_stages,
                      (int)search->options.n_micro, (int)search->options.n_context,
                      s2_cut_word(search->options.cut), (int)search->options.n_expert_ranks,
                      (int)search->options.n_nodes);
    s2_buf_printf(&buf, " | tp %d page %d dense %lld in", (int)search->options.n_ranks,
                  (int)search->options.page_tok, (long long)r->restriction.n_dense_layers);
    for (int32_t n = 0; n < r->restriction.n_formats; n++)
        s2_buf_printf(&buf, " %s", r->restriction.formats[n]->name);
    if (r->job.ranks.n > 1)
        s2_buf_printf(&buf, " | %d ranks to visit %lld", (int)r->job.ranks.n, (long long)r->job.until);
    s2_buf_printf(&buf, " | %s", found->space_text);
    s2_arena *const arena = &r->cli->arena;
    r->job.key = buf.status == S2_OK ? s2_arena_strndup(arena, buf.data, buf.len) : NULL;
    s2_buf_release(&buf);
    if (r->job.key != NULL && !r->cli->no_db) {
        s2_buf_printf(&buf, "%s.search-%016" PRIx64, s2_store_path(r->cli), name_hash(r->job.key));
        r->job.path = buf.status == S2_OK ? s2_arena_strndup(arena, buf.data, buf.len) : NULL;
        s2_buf_release(&buf);
    }
    return r->job.key != NULL && (r->job.path != NULL || r->cli->no_db)
               ? S2_EXIT_OK
               : s2_cli_fail(r->cli, S2_ENOMEM, "search");
}

s2_exit s2_search_file_write(const s2_searching *r, int64_t stored_us)
{
    const s2_status status = s2_search_job_write(&r->job, stored_us);
    if (status != S2_EIO)
        return status == S2_OK ? S2_EXIT_OK : s2_cli_fail(r->cli, status, "search");
    s2_cli_error(r->cli, "%s: %s", r->job.path, strerror(errno));
    return S2_EXIT_ENVIRONMENT;
}

static s2_exit refuse_file(const s2_searching *r, s2_status status, const s2_diag *diag)
{
    s2_cli *const cli = r->cli;
    if (status == S2_EIO)
        return s2_cli_fail(cli, status, r->job.path);
    s2_cli_error(cli, "%s: %s", r->job.path, s2_diag_text(diag, status));
    s2_cli_hint(cli, "run it without --resume to start over");
    return s2_exit_of(status);
}

s2_exit s2_search_file_resume(s2_searching *r)
{
    s2_found *const found = &r->found;
    s2_diag diag = {0};
    s2_search_resumed resumed = {0};
    const s2_status status =
        s2_search_job_resume(&r->job, &found->search, &r->cli->arena, &found->state, &resumed, &diag);
    const s2_exit own = status == S2_OK ? S2_EXIT_OK : refuse_file(r, status, &diag);
    const s2_exit code = (s2_exit)s2_ranks_most(&r->job.ranks, own);
    if (own == S2_EXIT_OK && code != S2_EXIT_OK)
        s2_cli_error(r->cli, "%s: another rank cannot resume from it", r->job.path);
    else if (own == S2_EXIT_OK && !resumed.found)
        fprintf(r->cli->err, "nothing to resume; starting the search\n");
    r->stored_us = resumed.stored_us;
    return code;
}

s2_exit s2_search_file_find_stored(s2_searching *r, bool *stored)
{
    enum { LATEST = 1000 };
    s2_cli *const cli = r->cli;
    *stored = false;
    if (r->stored_us == 0 || s2_file_is_missing(s2_store_path(cli)))
        return S2_EXIT_OK;
    s2_db *db;
    /* a run killed while it created the database left a file that only a writer can complete */
    S2_CLI_TRY(s2_store_open(cli, S2_DB_WRITE, &db));
    s2_diag diag = {0};
    int32_t n = 0;
    s2_db_run_row *const rows = S2_NEW(&cli->arena, s2_db_run_row, LATEST);
    const s2_status status =
        rows != NULL ? s2_db_runs(db, &cli->arena, 0, LATEST, rows, &n, &diag) : S2_ENOMEM;
    for (int32_t row = 0; row < n && status == S2_OK; row++)
        *stored |= rows[row].started_us == r->stored_us && strcmp(rows[row].command, "search") == 0 &&
                   rows[row].n_results > 0;
    s2_db_close(&db);
    return status == S2_OK ? S2_EXIT_OK : s2_store_report(cli, status, &diag);
}

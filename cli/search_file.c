#include "cli/searching.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/store.h"

enum { STORED_LINE = 21, MOST_FILE_BYTES = 1 << 28 };

static uint64_t name_hash(const char *text)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (; *text != '\0'; text++)
        sum = (sum ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return sum;
}

/* Everything that counts and front depend on, the program included. */
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
#define S2_GPU_VALUE(key, low, high, required, text) s2_buf_printf(&buf, " %g", search->options.gpu.key);
    S2_GPU_KEYS(S2_GPU_VALUE) /* of a file they may be others the next time */
#undef S2_GPU_VALUE
    if (r->model_is_file) {
        const s2_net *const net = &found->net;
        s2_buf_printf(&buf, " | of layers %d heads %d on %d of %d, widths %d %d %d, weights %lld,",
                      net->n_layers, net->n_heads, net->n_kv_heads, net->head_dim, net->hidden, net->ffn,
                      net->vocab, (long long)s2_net_weights(net));
    }
    for (int32_t v = 0; v < search->n_by; v++)
        s2_buf_printf(&buf, " %s", s2_objective_word(search->by[v]));
    for (int32_t n = 0; n < search->n_limits; n++)
        s2_buf_printf(&buf, " %s<=%a%s", s2_objective_word(search->limits[n].of), search->limits[n].most,
                      search->limits[n].of_dense ? " of dense" : "");
    s2_buf_printf(&buf, " | %s",
                  search->options.calibration != NULL ? search->options.calibration->hash : "bounds");
    s2_buf_printf(&buf, " | tp %d page %d dense %lld in", (int)search->options.n_ranks,
                  (int)search->options.page_tok, (long long)r->restriction.n_dense_layers);
    for (int32_t n = 0; n < r->restriction.n_formats; n++)
        s2_buf_printf(&buf, " %s", r->restriction.formats[n]->name);
    if (r->ranks.n > 1)
        s2_buf_printf(&buf, " | %d ranks to visit %lld", (int)r->ranks.n, (long long)r->until);
    s2_buf_printf(&buf, " | %s", found->space_text);
    s2_arena *const arena = &found->cli->arena;
    r->key = buf.status == S2_OK ? s2_arena_strndup(arena, buf.data, buf.len) : NULL;
    s2_buf_release(&buf);
    if (r->key != NULL && !found->cli->no_db) {
        s2_buf_printf(&buf, "%s.search-%016" PRIx64, s2_store_path(found->cli), name_hash(r->key));
        r->path = buf.status == S2_OK ? s2_arena_strndup(arena, buf.data, buf.len) : NULL;
        s2_buf_release(&buf);
    }
    return r->key != NULL && (r->path != NULL || found->cli->no_db)
               ? S2_EXIT_OK
               : s2_cli_fail(found->cli, S2_ENOMEM, "search");
}

static bool write_all(int fd, const char *data, size_t n)
{
    while (n > 0) {
        const ssize_t written = write(fd, data, n);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        data += written;
        n -= (size_t)written;
    }
    return fsync(fd) == 0;
}

/* Beside the old file and then in its place, so that a crash leaves the one or the other. */
static bool replace_file(const char *path, const s2_buf *text)
{
    s2_buf beside = {0};
    s2_buf_printf(&beside, "%s.new", path);
    if (beside.status != S2_OK)
        return false;
    const int fd = open(beside.data, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    bool good = fd >= 0 && write_all(fd, text->data, text->len);
    if (fd >= 0)
        good = close(fd) == 0 && good;
    good = good && rename(beside.data, path) == 0;
    s2_buf_release(&beside);
    return good;
}

s2_exit s2_search_file_write(const s2_searching *r, int64_t stored_us)
{
    if (r->path == NULL)
        return S2_EXIT_OK;
    s2_buf text = {0};
    s2_buf_printf(&text, "%020lld\n", (long long)stored_us);
    for (int32_t rank = 0; rank < r->ranks.n; rank++) {
        s2_buf_printf(&text, "rank %d of %d: %zu bytes\n", (int)rank, (int)r->ranks.n, r->states[rank].len);
        s2_buf_add(&text, r->states[rank].data, r->states[rank].len);
    }
    const bool good = text.status == S2_OK && replace_file(r->path, &text);
    const int error = errno;
    s2_buf_release(&text);
    if (good)
        return S2_EXIT_OK;
    s2_cli_error(r->found.cli, "%s: %s", r->path, strerror(error));
    return S2_EXIT_ENVIRONMENT;
}

/* Rank 0's text of the file; nothing where there is none. */
static s2_exit read_file(const s2_searching *r, s2_buf *text)
{
    s2_cli *const cli = r->found.cli;
    FILE *const file = fopen(r->path, "rb");
    if (file == NULL) {
        fprintf(cli->err, "nothing to resume; starting the search\n");
        return S2_EXIT_OK;
    }
    char piece[4096];
    size_t n;
    while (text->len < MOST_FILE_BYTES && (n = fread(piece, 1, sizeof piece, file)) > 0)
        s2_buf_add(text, piece, n);
    const bool failed = ferror(file) != 0 || text->status != S2_OK;
    fclose(file);
    return failed ? s2_cli_fail(cli, S2_EIO, r->path) : S2_EXIT_OK;
}

/* The state of one rank in the text; false when it is not there. The text ends in a zero. */
static bool find_state(const char *text, size_t n_bytes, int32_t rank, int32_t n_ranks, const char **state,
                       size_t *n_state)
{
    size_t at = STORED_LINE;
    for (int32_t now = 0; now <= rank; now++) {
        char line[64];
        const int n_line = snprintf(line, sizeof line, "rank %d of %d: ", (int)now, (int)n_ranks);
        if (at >= n_bytes || strncmp(text + at, line, (size_t)n_line) != 0)
            return false;
        char *end;
        const unsigned long long n = strtoull(text + at + n_line, &end, 10);
        if (strncmp(end, " bytes\n", 7) != 0)
            return false;
        at = (size_t)(end + 7 - text);
        if (n > n_bytes - at)
            return false;
        *state = text + at;
        *n_state = (size_t)n;
        at += (size_t)n;
    }
    return true;
}

static s2_exit take_state(s2_searching *r, const s2_buf *text)
{
    s2_diag diag = {0};
    s2_search_state state;
    const char *own = NULL;
    size_t n_own = 0;
    s2_status status;
    if (!find_state(text->data, text->len - 1, r->ranks.own, r->ranks.n, &own, &n_own))
        status = s2_diag_set(&diag, S2_EPARSE, 0, 0, 0, "the file is truncated or was changed");
    else
        status = s2_search_state_parse(&r->found.search, r->key, own, n_own, &state, &diag);
    if (status != S2_OK) {
        s2_cli_error(r->found.cli, "%s: %s", r->path,
                     diag.msg[0] != '\0' ? diag.msg : s2_status_text(status));
        s2_cli_hint(r->found.cli, "run it without --resume to start over");
        return s2_exit_of(status);
    }
    r->stored_us = strtoll(text->data, NULL, 10);
    s2_search_state_release(&r->found.state);
    r->found.state = state;
    return S2_EXIT_OK;
}

s2_exit s2_search_file_resume(s2_searching *r)
{
    s2_buf text = {0};
    s2_exit code = r->ranks.own == 0 ? read_file(r, &text) : S2_EXIT_OK;
    if (text.len > 0)
        s2_buf_add(&text, "", 1);
    code = (s2_exit)s2_ranks_most(&r->ranks, code);
    if (code == S2_EXIT_OK) {
        s2_ranks_share(&r->ranks, &text);
        code = text.len > 0 ? take_state(r, &text) : S2_EXIT_OK;
        const s2_exit own = code;
        code = (s2_exit)s2_ranks_most(&r->ranks, own);
        if (own == S2_EXIT_OK && code != S2_EXIT_OK)
            s2_cli_error(r->found.cli, "%s: another rank cannot resume from it", r->path);
    }
    s2_buf_release(&text);
    return code;
}

s2_exit s2_search_file_find_stored(s2_searching *r, bool *stored)
{
    enum { LATEST = 1000 };
    s2_cli *const cli = r->found.cli;
    *stored = false;
    if (r->stored_us == 0 || access(s2_store_path(cli), F_OK) != 0)
        return S2_EXIT_OK;
    s2_db *db;
    /* a run killed while it made the file left one that only a writer completes */
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

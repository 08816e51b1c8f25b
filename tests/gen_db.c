#include "tests/gen_db.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/alloc.h"
#include "db/sql.h"

const s2_db_run s2_gen_run = {.tool_version = "0.1.0",
                              .commit = "abc",
                              .command = "check",
                              .argv_json = "[\"s2\",\"check\"]",
                              .host = "host",
                              .seed = S2_DB_NONE,
                              .started_us = 1000};

const s2_db_sim s2_gen_sim = {.gpu = "h200",
                              .model = "",
                              .phase = "prefill",
                              .dtype = "bf16",
                              .len_tok = 8192,
                              .batch = 1,
                              .time_us = 850.0,
                              .priced = S2_DB_PREDICTION,
                              .bound_us = 700.0,
                              .dense_us = 2000.0,
                              .bound_by = "mma",
                              .kv_head_pages_bytes = 1048576.0 * 100,
                              .json = "{\"schema\":\"s2sim/1\"}",
                              .kv_dtype = "bf16",
                              .weights = "bf16",
                              .tp = 1,
                              .kernel = S2_DB_OURS,
                              .settings = S2_DB_USUAL};

s2_db_check s2_gen_check(const char *property, s2_db_verdict verdict, int64_t scope_tok)
{
    s2_db_check check = s2_db_check_of(property, verdict);
    check.scope_tok = scope_tok;
    check.wall_us = 5;
    return check;
}

s2_db_validation s2_gen_validation(const char *outcome, const float *samples_ms, int32_t n_samples)
{
    return (s2_db_validation){.device = "NVIDIA H200",
                              .device_uuid = "GPU-1",
                              .driver = "580",
                              .runtime = "13.0",
                              .kernel = "sm90",
                              .phase = "forward",
                              .dtype = "bf16",
                              .outcome = outcome,
                              .len_tok = 8192,
                              .batch = 1,
                              .seed = 7,
                              .pairs = 10,
                              .pairs_wrong = 0,
                              .max_err = 1e-3,
                              .tolerance = 1e-2,
                              .needles_found = 4,
                              .needles_expected = 4,
                              .median_ms = 0.5,
                              .min_ms = 0.4,
                              .sm_mhz = (double)NAN,
                              .n_samples = n_samples,
                              .samples_ms = samples_ms,
                              .json = "{\"schema\":\"s2validate/1\"}",
                              .gpu = "h200",
                              .kernels = S2_DB_OURS};
}

s2_status s2_gen_put_text(s2_db *db, int64_t run_id, s2_db_design design, int64_t *id, s2_diag *diag)
{
    char hash[S2_HASH_HEX];
    s2_db_sha256(design.text, strlen(design.text), hash);
    design.hash = hash;
    return s2_db_put_design(db, run_id, &design, id, diag);
}

s2_status s2_gen_put_design(s2_db *db, int64_t run_id, int64_t n, int64_t *id, s2_diag *diag)
{
    char text[64], name[32];
    snprintf(text, sizeof text, "heads %lld\nlayers all: dense\n", (long long)n + 1);
    snprintf(name, sizeof name, "design-%03lld", (long long)n);
    const s2_db_design design = {.name = name,
                                 .text = text,
                                 .model = "",
                                 .family = n % 2 ? "local" : "dense",
                                 .origin = "test",
                                 .n_layers = 1,
                                 .n_heads = (int32_t)(n % 4096) + 1,
                                 .n_kv_heads = 1,
                                 .head_dim = 128,
                                 .block_tok = 64,
                                 .density = n % 3 == 0 ? (double)NAN : (double)n / 100.0,
                                 .density_tok = 8192};
    return s2_gen_put_text(db, run_id, design, id, diag);
}

static s2_status put_results(s2_db *db, int64_t run_id, int64_t id, int64_t n)
{
    enum { LONG_JSON = 9000, SAMPLES = 3000 };
    static char json[LONG_JSON + 32];
    static const float samples_ms[SAMPLES] = {0.5F, 0.25F};
    const s2_db_check check = s2_gen_check("union", S2_DB_HOLDS, S2_DB_NONE);
    const s2_db_validation validation = s2_gen_validation("ok", samples_ms, SAMPLES);
    s2_db_sim sim = s2_gen_sim;
    snprintf(json, sizeof json, "{\"a\":\"%0*lld\"}", n % 7 == 0 ? LONG_JSON : 10, (long long)n);
    sim.json = json;
    sim.time_us = (double)n;
    sim.kv_head_pages_bytes = (double)n * 100.0;
    S2_TRY(s2_db_put_check(db, run_id, id, &check, NULL));
    S2_TRY(s2_db_put_sim(db, run_id, id, &sim, NULL));
    return n % 5 == 0 ? s2_db_put_validation(db, run_id, id, &validation, NULL) : S2_OK;
}

s2_status s2_gen_put_all(s2_db *db, int64_t n)
{
    int64_t run_id, id;
    S2_TRY(s2_db_begin(db, NULL));
    s2_status status = s2_db_put_run(db, &s2_gen_run, &run_id, NULL);
    if (status == S2_OK)
        status = s2_gen_put_design(db, run_id, n, &id, NULL);
    if (status == S2_OK)
        status = put_results(db, run_id, id, n);
    if (status == S2_OK)
        return s2_db_end(db, S2_OK, NULL);
    s2_db_rollback(db);
    return status;
}

/* Blobs in hex: a zero byte would end the text. */
static void add_value(sqlite3_stmt *rows, int column, s2_buf *all)
{
    const bool is_blob = sqlite3_column_type(rows, column) == SQLITE_BLOB;
    const uint8_t *const bytes = sqlite3_column_blob(rows, column);
    const int n = sqlite3_column_bytes(rows, column);
    if (!is_blob)
        s2_buf_add(all, bytes != NULL ? (const char *)bytes : "", (size_t)n);
    for (int at = 0; is_blob && at < n; at++)
        s2_buf_printf(all, "%02x", bytes[at]);
}

static void add_rows(sqlite3 *raw, const char *table, s2_buf *all)
{
    char sql[64];
    sqlite3_stmt *rows;
    snprintf(sql, sizeof sql, "SELECT * FROM %s ORDER BY 1,2", table);
    if (sqlite3_prepare_v2(raw, sql, -1, &rows, NULL) != SQLITE_OK) {
        all->status = S2_EDB;
        return;
    }
    while (sqlite3_step(rows) == SQLITE_ROW) {
        s2_buf_printf(all, "%s", table);
        for (int column = 0; column < sqlite3_column_count(rows); column++) {
            s2_buf_printf(all, "|%d:", sqlite3_column_type(rows, column));
            add_value(rows, column, all);
        }
        s2_buf_puts(all, "\n");
    }
    if (sqlite3_finalize(rows) != SQLITE_OK)
        all->status = S2_EDB;
}

/* Which tables there are is asked of the file, since it is also the code's own list that is tested. */
static void add_tables(sqlite3 *raw, s2_buf *all)
{
    sqlite3_stmt *tables;
    if (sqlite3_prepare_v2(
            raw,
            "SELECT name FROM sqlite_schema WHERE type='table' AND name NOT IN('meta','migration')"
            " AND name NOT LIKE 'sqlite_%' ORDER BY name",
            -1, &tables, NULL) != SQLITE_OK) {
        all->status = S2_EDB;
        return;
    }
    while (sqlite3_step(tables) == SQLITE_ROW)
        add_rows(raw, (const char *)sqlite3_column_text(tables, 0), all);
    if (sqlite3_finalize(tables) != SQLITE_OK)
        all->status = S2_EDB;
}

char *s2_gen_rows(const char *path)
{
    sqlite3 *raw;
    s2_buf all = {0};
    if (sqlite3_open_v2(path, &raw, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK)
        add_tables(raw, &all);
    else
        all.status = S2_EDB;
    sqlite3_close(raw);
    s2_buf_add(&all, "", 1);
    if (all.status == S2_OK)
        return all.data;
    s2_buf_release(&all);
    return NULL;
}

void s2_gen_forget(const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-lock", "-journal", ".s2-tmp"};
    for (size_t n = 0; n < sizeof suffixes / sizeof suffixes[0]; n++) {
        char name[4096];
        snprintf(name, sizeof name, "%s%s", path, suffixes[n]);
        unlink(name);
    }
}

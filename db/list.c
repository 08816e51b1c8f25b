#include "db/db.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "db/filter.h"
#include "db/sql.h"
#include "pattern/spec.h"

s2_status s2_db_read_row(s2_arena *arena, sqlite3_stmt *s, s2_db_row *row)
{
    int column = 0;
    row->id = s2_sql_column_int(s, column++);
    row->hash = s2_sql_text(arena, s, column++);
    row->name = s2_sql_text(arena, s, column++);
    row->family = s2_sql_text(arena, s, column++);
    row->model = s2_sql_text(arena, s, column++);
    int64_t *const whole[] = {&row->n_layers,   &row->n_heads, &row->n_kv_heads, &row->block_tok,
                              &row->created_us, &row->rows,    &row->unions,     &row->kv,
                              &row->group,      &row->shards};
    for (size_t n = 0; n < sizeof whole / sizeof whole[0]; n++)
        *whole[n] = s2_sql_column_int(s, column++);
    row->outcome = s2_sql_text(arena, s, column++);
    row->starred = s2_sql_column_int(s, column++) == 1;
    row->tags = s2_sql_text(arena, s, column++);
    row->sim_us = s2_sql_column_num(s, column++);
    row->kv_bytes = s2_sql_column_num(s, column++);
    row->gpu_us = s2_sql_column_num(s, column++);
    row->phase = s2_sql_text(arena, s, column++);
    if (row->phase != NULL && strcmp(row->phase, s2_phase_word(S2_TRAIN)) == 0)
        row->kv_bytes = (double)NAN;
    row->len_tok = s2_sql_column_int(s, column++);
    row->gpu = s2_sql_text(arena, s, column++);
    row->batch = s2_sql_column_int(s, column++);
    row->density = s2_sql_column_num(s, column++);
    row->unread = s2_sql_column_num(s, column++);
    row->priced = s2_sql_column_int(s, column++);
    row->dtype = s2_sql_text(arena, s, column++);
    row->kv_dtype = s2_sql_text(arena, s, column++);
    row->weights = s2_sql_text(arena, s, column++);
    row->tp = s2_sql_column_int(s, column++);
    row->kernel = s2_sql_text(arena, s, column++);
    row->settings = s2_sql_text(arena, s, column++);
    row->llm = s2_sql_text(arena, s, column++);
    row->recall = s2_sql_column_num(s, column++);
    row->loss = s2_sql_column_num(s, column++);
    row->hops = s2_sql_column_int(s, column++);
    row->flow = s2_sql_column_num(s, column++);
    const char *const texts[] = {row->hash,    row->name,   row->family,   row->model, row->outcome,
                                 row->tags,    row->phase,  row->gpu,      row->dtype, row->kv_dtype,
                                 row->weights, row->kernel, row->settings, row->llm};
    for (size_t n = 0; n < sizeof texts / sizeof texts[0]; n++)
        if (texts[n] == NULL)
            return S2_ENOMEM;
    return S2_OK;
}

static bool is_hash_prefix(const char *key)
{
    const size_t n = strlen(key);
    return n >= 4 && n < S2_HASH_HEX && strspn(key, "0123456789abcdef") == n;
}

/* The rows that the statement has, at most `cap`. */
static s2_status read_rows(s2_db *db, s2_arena *arena, sqlite3_stmt *statement, int32_t cap, s2_db_row *rows,
                           int32_t *n_rows, s2_diag *diag)
{
    int32_t n = 0;
    for (bool has_row = true;; n++) {
        S2_TRY(s2_sql_step(db, statement, &has_row, diag));
        if (!has_row || n == cap)
            break;
        S2_TRY(s2_db_read_row(arena, statement, &rows[n]));
    }
    sqlite3_reset(statement);
    *n_rows = n;
    return S2_OK;
}

s2_status s2_db_find(s2_db *db, s2_arena *arena, const char *key, int32_t cap, s2_db_row *rows,
                     int32_t *n_rows, s2_diag *diag)
{
    /* 'g' sorts right after every hash that begins with the key. */
    char after[S2_HASH_HEX + 1] = "";
    if (is_hash_prefix(key))
        snprintf(after, sizeof after, "%sg", key);
    sqlite3_stmt *statement;
    S2_TRY(s2_sql_prepare(
        db,
        "SELECT " S2_DB_ROW_COLUMNS " FROM design WHERE deleted_us IS NULL AND name=?1 UNION "
        "SELECT " S2_DB_ROW_COLUMNS " FROM design WHERE hash>=?1 AND hash<?2 ORDER BY 1 DESC LIMIT ?3",
        &statement, diag));
    sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 2, after, -1, SQLITE_STATIC);
    sqlite3_bind_int(statement, 3, cap);
    return read_rows(db, arena, statement, cap, rows, n_rows, diag);
}

s2_status s2_db_text(s2_db *db, s2_arena *arena, int64_t design_id, const char **text, s2_diag *diag)
{
    sqlite3_stmt *statement;
    bool has_row;
    S2_TRY(s2_sql_prepare(db, "SELECT text,hash FROM design WHERE id=?", &statement, diag));
    sqlite3_bind_int64(statement, 1, design_id);
    S2_TRY(s2_sql_step(db, statement, &has_row, diag));
    if (!has_row)
        return s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "no design %lld", (long long)design_id);
    const char *const copy = s2_sql_text(arena, statement, 0);
    const char *const hash = s2_sql_text(arena, statement, 1);
    sqlite3_reset(statement);
    if (copy == NULL || hash == NULL)
        return S2_ENOMEM;
    char own[S2_HASH_HEX];
    s2_db_sha256(copy, strlen(copy), own);
    if (strcmp(own, hash) != 0)
        return s2_diag_set(diag, S2_EDB, 0, 0, 0, "%s: damaged, the text of design %.12s has another hash",
                           db->path, hash);
    *text = copy;
    return S2_OK;
}

static s2_status read_run(s2_arena *arena, sqlite3_stmt *s, s2_db_run_row *row)
{
    int column = 0;
    row->id = s2_sql_column_int(s, column++);
    const char **const text[] = {&row->tool_version, &row->commit,    &row->sqlite_version,
                                 &row->command,      &row->argv_json, &row->host,
                                 &row->cwd,          &row->machine,   &row->build};
    for (size_t n = 0; n < sizeof text / sizeof text[0]; n++)
        if ((*text[n] = s2_sql_text(arena, s, column++)) == NULL)
            return S2_ENOMEM;
    int64_t *const whole[] = {&row->seed, &row->started_us, &row->wall_us, &row->exit_code, &row->n_results};
    for (size_t n = 0; n < sizeof whole / sizeof whole[0]; n++)
        *whole[n] = s2_sql_column_int(s, column++);
    return S2_OK;
}

s2_status s2_db_runs(s2_db *db, s2_arena *arena, int64_t id, int32_t cap, s2_db_run_row *rows,
                     int32_t *n_rows, s2_diag *diag)
{
    sqlite3_stmt *statement;
    S2_TRY(s2_sql_prepare(
        db,
        "SELECT "
        "id,tool_version,commit_id,sqlite_version,command,argv_json,host,cwd,machine,build,seed,started_us,"
        "wall_us,exit_code,(SELECT count(*) FROM chk WHERE run_id=run.id)"
        "+(SELECT count(*) FROM sim WHERE run_id=run.id)"
        "+(SELECT count(*) FROM reach WHERE run_id=run.id)"
        "+(SELECT count(*) FROM validation WHERE run_id=run.id)"
        "+(SELECT count(*) FROM export WHERE run_id=run.id) FROM run WHERE id IN"
        " (SELECT id FROM run WHERE ?1=0 OR id=?1 ORDER BY started_us DESC,id DESC LIMIT ?2)"
        " ORDER BY started_us DESC,id DESC",
        &statement, diag));
    sqlite3_bind_int64(statement, 1, id);
    sqlite3_bind_int(statement, 2, cap);
    int32_t n = 0;
    for (bool has_row = true;; n++) {
        S2_TRY(s2_sql_step(db, statement, &has_row, diag));
        if (!has_row || n == cap)
            break;
        S2_TRY(read_run(arena, statement, &rows[n]));
    }
    sqlite3_reset(statement);
    if (n == 0 && id != 0)
        return s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "%s: there is no run %lld", db->path, (long long)id);
    *n_rows = n;
    return S2_OK;
}

#define OF_RUN                                                                                               \
    " FROM design WHERE id IN(SELECT id FROM design WHERE run_id=?1 UNION SELECT design_id FROM chk"         \
    " WHERE run_id=?1 UNION SELECT design_id FROM sim WHERE run_id=?1 UNION SELECT design_id FROM reach"     \
    " WHERE run_id=?1 UNION SELECT design_id FROM validation WHERE run_id=?1 UNION SELECT design_id FROM "   \
    "export WHERE run_id=?1)"

s2_status s2_db_run_designs(s2_db *db, s2_arena *arena, int64_t run_id, int32_t cap, s2_db_row *rows,
                            int32_t *n_rows, int64_t *n_all, s2_diag *diag)
{
    sqlite3_stmt *statement;
    S2_TRY(s2_sql_int(db, diag, n_all, "SELECT count(*)" OF_RUN, "i", run_id));
    S2_TRY(s2_sql_prepare(db, "SELECT " S2_DB_ROW_COLUMNS OF_RUN " ORDER BY name,id LIMIT ?2", &statement,
                          diag));
    sqlite3_bind_int64(statement, 1, run_id);
    sqlite3_bind_int(statement, 2, cap);
    return read_rows(db, arena, statement, cap, rows, n_rows, diag);
}

s2_status s2_db_run_word(s2_db *db, s2_arena *arena, int64_t run_id, int32_t nth, const char **word,
                         s2_diag *diag)
{
    sqlite3_stmt *statement;
    bool has_row;
    S2_TRY(s2_sql_prepare(
        db,
        "SELECT value FROM run,json_each(run.argv_json) WHERE run.id=?1 AND json_valid(argv_json)"
        " AND key=?2",
        &statement, diag));
    sqlite3_bind_int64(statement, 1, run_id);
    sqlite3_bind_int(statement, 2, nth);
    S2_TRY(s2_sql_step(db, statement, &has_row, diag));
    const char *const text = has_row ? s2_sql_text(arena, statement, 0) : NULL;
    sqlite3_reset(statement);
    if (has_row && text == NULL)
        return S2_ENOMEM;
    *word = text;
    return S2_OK;
}

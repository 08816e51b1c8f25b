#include "db/db.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "db/filter.h"
#include "db/sql.h"

#define ROW_COLUMNS                                                                                          \
    "id,hash,name,family,model,n_layers,n_heads,n_kv_heads,block_tok,created_us,v_rows,v_union,v_kv,"        \
    "v_group,v_shards,density,sim_us,kv_bytes,gpu_us,outcome,starred,sim_phase,sim_len_tok,sim_gpu,"         \
    "sim_batch,coalesce((SELECT group_concat(tag,',') FROM (SELECT tag FROM tag WHERE design_id=design.id "  \
    "ORDER BY tag)),'')"

/*
 * Designs with the price of one phase and length in place of the one that is shown otherwise. SQLite
 * flattens it, so that conditions and orders on prices find their indexes; hence the id of the price.
 */
static const char PRICED[] =
    "(SELECT p.design_id AS id,d.hash,d.name,d.family,d.model,d.origin,d.n_layers,d.n_heads,d.n_kv_heads,"
    "d.block_tok,d.created_us,d.v_rows,d.v_union,d.v_kv,d.v_group,d.v_shards,d.density,p.us AS sim_us,"
    "p.kv_bytes AS kv_bytes,p.gpu_us AS gpu_us,d.outcome,d.starred,d.deleted_us,p.phase AS sim_phase,"
    "p.len_tok AS sim_len_tok,p.gpu AS sim_gpu,p.batch AS sim_batch"
    " FROM price p JOIN design d ON d.id=p.design_id WHERE p.phase=:phase AND p.len_tok=:len) AS design";

static s2_status read_row(s2_arena *arena, sqlite3_stmt *s, s2_db_row *row)
{
    int at = 0;
    row->id = s2_sql_column_int(s, at++);
    row->hash = s2_sql_text(arena, s, at++);
    row->name = s2_sql_text(arena, s, at++);
    row->family = s2_sql_text(arena, s, at++);
    row->model = s2_sql_text(arena, s, at++);
    int64_t *const whole[] = {&row->n_layers,   &row->n_heads, &row->n_kv_heads, &row->block_tok,
                              &row->created_us, &row->rows,    &row->unions,     &row->kv,
                              &row->group,      &row->shards};
    for (size_t n = 0; n < sizeof whole / sizeof whole[0]; n++)
        *whole[n] = s2_sql_column_int(s, at++);
    double *const real[] = {&row->density, &row->sim_us, &row->kv_bytes, &row->gpu_us};
    for (size_t n = 0; n < sizeof real / sizeof real[0]; n++)
        *real[n] = s2_sql_column_num(s, at++);
    row->outcome = s2_sql_text(arena, s, at++);
    row->starred = s2_sql_column_int(s, at++) == 1;
    row->phase = s2_sql_text(arena, s, at++);
    row->len_tok = s2_sql_column_int(s, at++);
    row->gpu = s2_sql_text(arena, s, at++);
    row->batch = s2_sql_column_int(s, at++);
    row->tags = s2_sql_text(arena, s, at);
    const bool whole_row = row->hash != NULL && row->name != NULL && row->family != NULL &&
                           row->model != NULL && row->outcome != NULL && row->tags != NULL &&
                           row->phase != NULL && row->gpu != NULL;
    return whole_row ? S2_OK : S2_ENOMEM;
}

/* A page under construction. */
typedef struct page {
    s2_db *db;
    s2_arena *arena;
    const s2_db_query *query;
    const s2_column *sort;
    const s2_filter *filter;
    s2_db_row *rows;
    int32_t n_rows;
} page;

static const char *source_of(const page *p)
{
    return p->query->phase != NULL ? PRICED : "design";
}

static void bind_price(sqlite3_stmt *statement, const page *p)
{
    if (p->query->phase == NULL)
        return;
    sqlite3_bind_text(statement, 1, p->query->phase, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 2, p->query->len_tok);
}

/* The named parameters of PRICED come first in the text, so the conditions are numbered behind them. */
static void bind_all(sqlite3_stmt *statement, const page *p)
{
    const s2_filter *const filter = p->filter;
    const int first = p->query->phase != NULL ? 3 : 1;
    bind_price(statement, p);
    for (int32_t n = 0; n < filter->n_values; n++) {
        const s2_filter_value *const value = &filter->values[n];
        if (value->is_text)
            sqlite3_bind_text(statement, first + n, value->text, -1, SQLITE_STATIC);
        else
            sqlite3_bind_double(statement, first + n, value->number);
    }
}

static s2_status read_rows(page *p, sqlite3_stmt *statement, s2_diag *diag)
{
    for (;;) {
        bool has_row;
        S2_TRY(s2_sql_step(p->db, statement, &has_row, diag));
        if (!has_row || p->n_rows == p->query->limit)
            return S2_OK;
        s2_db_row *const grown =
            (p->n_rows & (p->n_rows - 1)) == 0
                ? s2_arena_grow(p->arena, p->rows, (size_t)p->n_rows,
                                (size_t)(p->n_rows == 0 ? 1 : 2 * p->n_rows), sizeof *p->rows)
                : p->rows;
        if (grown == NULL)
            return S2_ENOMEM;
        p->rows = grown;
        S2_TRY(read_row(p->arena, statement, &p->rows[p->n_rows]));
        p->n_rows++;
    }
}

static void add_order(const page *p, bool with_value, s2_buf *sql)
{
    const char *const direction = p->query->descending ? "DESC" : "ASC";
    s2_buf_puts(sql, " ORDER BY ");
    if (with_value)
        s2_buf_printf(sql, "%s %s,", p->sort->sql, direction);
    s2_buf_printf(sql, "id %s", direction);
}

/*
 * One seek: the rows that have a value in the sorted column, or those that have none. `from` is the row
 * to go on after, 0 for none. Written out so that the index on (column, id) answers it; the page's ids are
 * found first, so that rows which only pass through a sort are never read whole.
 */
static void add_seek(const page *p, bool with_value, int64_t from, s2_buf *sql)
{
    const char beyond = p->query->descending ? '<' : '>';
    const char *const source = source_of(p);
    s2_buf_printf(sql,
                  "SELECT " ROW_COLUMNS " FROM %s WHERE id IN(SELECT id FROM %s WHERE deleted_us IS %sNULL"
                  " AND %s IS %sNULL%s",
                  source, source, p->query->trash ? "NOT " : "", p->sort->sql, with_value ? "NOT " : "",
                  p->filter->where.data != NULL ? p->filter->where.data : "");
    if (from != 0 && with_value)
        s2_buf_printf(sql, " AND (%s,id)%c(SELECT %s,id FROM %s WHERE id=%lld)", p->sort->sql, beyond,
                      p->sort->sql, source, (long long)from);
    else if (from != 0)
        s2_buf_printf(sql, " AND id%c%lld", beyond, (long long)from);
    add_order(p, with_value, sql);
    s2_buf_printf(sql, " LIMIT %d)", (int)(p->query->limit - p->n_rows));
    add_order(p, with_value, sql);
    s2_buf_add(sql, "", 1);
}

static s2_status seek(page *p, bool with_value, int64_t from, s2_diag *diag)
{
    s2_buf sql = {0};
    add_seek(p, with_value, from, &sql);
    s2_status status = sql.status;
    sqlite3_stmt *statement = NULL;
    if (status == S2_OK)
        status = s2_sql_fail(p->db, sqlite3_prepare_v2(p->db->sql, sql.data, -1, &statement, NULL), diag);
    if (status == S2_OK) {
        bind_all(statement, p);
        status = read_rows(p, statement, diag);
    }
    sqlite3_finalize(statement);
    s2_buf_release(&sql);
    return status;
}

/* Does the row to go on after have a value in the sorted column? */
static s2_status has_value(page *p, int64_t id, bool *out, s2_diag *diag)
{
    s2_buf sql = {0};
    s2_buf_printf(&sql, "SELECT %s IS NOT NULL FROM %s WHERE id=%lld", p->sort->sql, source_of(p),
                  (long long)id);
    s2_buf_add(&sql, "", 1);
    S2_TRY(sql.status);
    sqlite3_stmt *statement = NULL;
    s2_status status =
        s2_sql_fail(p->db, sqlite3_prepare_v2(p->db->sql, sql.data, -1, &statement, NULL), diag);
    bool has_row = false;
    if (status == S2_OK) {
        bind_price(statement, p);
        status = s2_sql_step(p->db, statement, &has_row, diag);
    }
    if (status == S2_OK && !has_row)
        status = s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "no design is at this cursor");
    if (status == S2_OK)
        *out = sqlite3_column_int(statement, 0) != 0;
    sqlite3_finalize(statement);
    s2_buf_release(&sql);
    return status;
}

static s2_status fill(page *p, s2_diag *diag)
{
    bool measured = true;
    const int64_t after = p->query->after_id;
    if (after != 0)
        S2_TRY(has_value(p, after, &measured, diag));
    if (measured)
        S2_TRY(seek(p, true, after, diag));
    if (p->n_rows < p->query->limit)
        S2_TRY(seek(p, false, measured ? 0 : after, diag));
    return S2_OK;
}

s2_status s2_db_list(s2_db *db, s2_arena *arena, const s2_db_query *query, const s2_db_row **rows,
                     int32_t *n_rows, s2_diag *diag)
{
    const char *const sort = query->sort != NULL ? query->sort : "created";
    page p = {.db = db, .arena = arena, .query = query, .sort = s2_column_find(sort, strlen(sort))};
    if (p.sort == NULL) {
        char clean[64];
        s2_text_clean(clean, sizeof clean, sort);
        return s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "no column '%s' to sort by", clean);
    }
    s2_filter filter;
    s2_status status = s2_filter_build(query->filter != NULL ? query->filter : "", &filter, diag);
    p.filter = &filter;
    if (status == S2_OK)
        status = fill(&p, diag);
    s2_filter_release(&filter);
    S2_TRY(status);
    *rows = p.rows;
    *n_rows = p.n_rows;
    return S2_OK;
}

s2_status s2_db_common_price(s2_db *db, s2_arena *arena, const char **phase, int64_t *len_tok, s2_diag *diag)
{
    sqlite3_stmt *statement;
    bool has_row;
    S2_TRY(s2_sql_prepare(db,
                          "SELECT phase,len_tok FROM price WHERE (?1 IS NULL OR phase=?1)"
                          " AND (?2=0 OR len_tok=?2) GROUP BY phase,len_tok"
                          " ORDER BY count(us) DESC,count(*) DESC,max(started_us) DESC,phase DESC LIMIT 1",
                          &statement, diag));
    sqlite3_bind_text(statement, 1, *phase, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 2, *len_tok);
    S2_TRY(s2_sql_step(db, statement, &has_row, diag));
    const char *const found = has_row ? s2_sql_text(arena, statement, 0) : NULL;
    const int64_t found_tok = has_row ? sqlite3_column_int64(statement, 1) : 0;
    sqlite3_reset(statement);
    if (has_row && found == NULL)
        return S2_ENOMEM;
    *phase = found;
    *len_tok = found_tok;
    return S2_OK;
}

static bool is_hash_prefix(const char *key)
{
    const size_t n = strlen(key);
    return n >= 4 && n < S2_DB_HASH_HEX && strspn(key, "0123456789abcdef") == n;
}

s2_status s2_db_find(s2_db *db, s2_arena *arena, const char *key, int32_t cap, s2_db_row *rows,
                     int32_t *n_rows, s2_diag *diag)
{
    /* 'g' sorts right behind every hash that begins with the key. */
    char after[S2_DB_HASH_HEX + 1] = "";
    if (is_hash_prefix(key))
        snprintf(after, sizeof after, "%sg", key);
    sqlite3_stmt *statement;
    S2_TRY(s2_sql_prepare(db,
                          "SELECT " ROW_COLUMNS " FROM design WHERE deleted_us IS NULL AND name=?1 UNION "
                          "SELECT " ROW_COLUMNS
                          " FROM design WHERE hash>=?1 AND hash<?2 ORDER BY 1 DESC LIMIT ?3",
                          &statement, diag));
    sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 2, after, -1, SQLITE_STATIC);
    sqlite3_bind_int(statement, 3, cap);
    int32_t n = 0;
    for (bool has_row = true;;) {
        S2_TRY(s2_sql_step(db, statement, &has_row, diag));
        if (!has_row || n == cap)
            break;
        S2_TRY(read_row(arena, statement, &rows[n]));
        n++;
    }
    sqlite3_reset(statement);
    *n_rows = n;
    return S2_OK;
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
    char own[S2_DB_HASH_HEX];
    s2_db_sha256(copy, strlen(copy), own);
    if (strcmp(own, hash) != 0)
        return s2_diag_set(diag, S2_EDB, 0, 0, 0, "%s: damaged, the text of design %.12s has another hash",
                           db->path, hash);
    *text = copy;
    return S2_OK;
}

static s2_status read_run(s2_arena *arena, sqlite3_stmt *s, s2_db_run_row *row)
{
    int at = 0;
    row->id = s2_sql_column_int(s, at++);
    const char **const text[] = {&row->tool_version, &row->commit,    &row->sqlite_version,
                                 &row->command,      &row->argv_json, &row->host,
                                 &row->cwd,          &row->machine,   &row->build};
    for (size_t n = 0; n < sizeof text / sizeof text[0]; n++)
        if ((*text[n] = s2_sql_text(arena, s, at++)) == NULL)
            return S2_ENOMEM;
    int64_t *const whole[] = {&row->seed, &row->started_us, &row->wall_us, &row->exit_code, &row->n_results};
    for (size_t n = 0; n < sizeof whole / sizeof whole[0]; n++)
        *whole[n] = s2_sql_column_int(s, at++);
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
        "+(SELECT count(*) FROM validation WHERE run_id=run.id)"
        "+(SELECT count(*) FROM export WHERE run_id=run.id) FROM run WHERE ?1=0 OR id=?1"
        " ORDER BY id DESC LIMIT ?2",
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
    " WHERE run_id=?1 UNION SELECT design_id FROM sim WHERE run_id=?1 UNION SELECT design_id FROM"           \
    " validation WHERE run_id=?1 UNION SELECT design_id FROM export WHERE run_id=?1)"

s2_status s2_db_run_designs(s2_db *db, s2_arena *arena, int64_t run_id, int32_t cap, s2_db_row *rows,
                            int32_t *n_rows, int64_t *n_all, s2_diag *diag)
{
    sqlite3_stmt *statement;
    int32_t n = 0;
    S2_TRY(s2_sql_int(db, diag, n_all, "SELECT count(*)" OF_RUN, "i", run_id));
    S2_TRY(s2_sql_prepare(db, "SELECT " ROW_COLUMNS OF_RUN " ORDER BY name,id LIMIT ?2", &statement, diag));
    sqlite3_bind_int64(statement, 1, run_id);
    sqlite3_bind_int(statement, 2, cap);
    for (bool has_row = true;; n++) {
        S2_TRY(s2_sql_step(db, statement, &has_row, diag));
        if (!has_row || n == cap)
            break;
        S2_TRY(read_row(arena, statement, &rows[n]));
    }
    sqlite3_reset(statement);
    *n_rows = n;
    return S2_OK;
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

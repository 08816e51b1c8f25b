/*
 * Copy what can be read of a damaged file to a new one. Rows come from db/pages.h and go in through our own
 * schema, whose CHECKs refuse what a damaged page may have made of them; a design is kept only where its
 * text still has its hash. Rows keep their numbers, so that they still lead to each other.
 */
#include "db/db.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/alloc.h"
#include "db/pages.h"
#include "db/sql.h"

enum { MOST_COLUMNS = S2_RECORD_VALUES, NAME_BYTES = 32, N_TABLES = 12 };

/* A table that rows go into. Schema steps only ever add columns at the end. */
typedef struct target {
    const char *name;
    int32_t least;  /* columns in the oldest schema that has the table */
    bool by_key;    /* WITHOUT ROWID */
    bool has_rowid; /* its first column is the rowid, which records leave out */
    uint32_t root;  /* in the damaged file; 0: unknown */
    int32_t n_columns;
    char column[MOST_COLUMNS][NAME_BYTES];
    int32_t n_prepared; /* columns of the statement at hand */
    sqlite3_stmt *insert;
} target;

typedef struct recovery {
    s2_db *db;
    s2_pages *pages;
    target targets[N_TABLES];
    int32_t n_targets;
    target *owner; /* table of the tree being read; NULL: orphans */
    s2_db_recovered out;
    s2_status status;
    s2_diag *diag;
} recovery;

/*
 * Tables that others refer to come first, and reach, which has numbers only, before export, whose texts would take
 * them. Prices follow from the rest; meta and migration are new.
 */
static const target TARGETS[] = {
    {.name = "run", .least = 12, .has_rowid = true},  {.name = "design", .least = 25, .has_rowid = true},
    {.name = "env", .least = 6, .has_rowid = true},   {.name = "chk", .least = 17, .has_rowid = true},
    {.name = "sim", .least = 22, .has_rowid = true},  {.name = "validation", .least = 24, .has_rowid = true},
    {.name = "reach", .least = 7, .has_rowid = true}, {.name = "export", .least = 7, .has_rowid = true},
    {.name = "tag", .least = 2, .by_key = true},      {.name = "note", .least = 4, .has_rowid = true},
    {.name = "undo", .least = 5, .has_rowid = true},  {.name = "view", .least = 6, .has_rowid = true},
};

/* ---- rows into tables */

static s2_status read_columns(recovery *r, target *t)
{
    sqlite3_stmt *columns;
    S2_TRY(s2_sql_prepare(r->db, "SELECT name FROM pragma_table_info(?) ORDER BY cid", &columns, r->diag));
    sqlite3_bind_text(columns, 1, t->name, -1, SQLITE_STATIC);
    for (t->n_columns = 0; t->n_columns < MOST_COLUMNS; t->n_columns++) {
        bool has_row;
        S2_TRY(s2_sql_step(r->db, columns, &has_row, r->diag));
        if (!has_row)
            break;
        const char *name;
        S2_TRY(s2_sql_peek(r->db, columns, 0, &name, NULL, r->diag));
        snprintf(t->column[t->n_columns], NAME_BYTES, "%s", name);
    }
    sqlite3_reset(columns);
    return S2_OK;
}

static s2_status prepare_insert(recovery *r, target *t, int32_t n)
{
    if (t->n_prepared == n)
        return S2_OK;
    sqlite3_finalize(t->insert);
    t->insert = NULL;
    t->n_prepared = 0;
    s2_buf sql = {0};
    s2_buf_printf(&sql, "INSERT INTO %s(", t->name);
    for (int32_t c = 0; c < n; c++)
        s2_buf_printf(&sql, "%s%s", c > 0 ? "," : "", t->column[c]);
    s2_buf_puts(&sql, ") VALUES(");
    for (int32_t c = 0; c < n; c++)
        s2_buf_puts(&sql, c > 0 ? ",?" : "?");
    s2_buf_add(&sql, ")", 2);
    s2_status status = sql.status;
    if (status == S2_OK)
        status = s2_sql_fail(r->db, sqlite3_prepare_v2(r->db->sql, sql.data, -1, &t->insert, NULL), r->diag);
    s2_buf_release(&sql);
    if (status == S2_OK)
        t->n_prepared = n;
    return status;
}

static void bind_value(sqlite3_stmt *statement, int parameter, const s2_value *value)
{
    switch (value->kind) {
    case S2_VALUE_NULL: sqlite3_bind_null(statement, parameter); return;
    case S2_VALUE_INT: sqlite3_bind_int64(statement, parameter, value->whole); return;
    case S2_VALUE_REAL: sqlite3_bind_double(statement, parameter, value->real); return;
    case S2_VALUE_TEXT:
        sqlite3_bind_text64(statement, parameter, (const char *)value->bytes, value->n_bytes, SQLITE_STATIC,
                            SQLITE_UTF8);
        return;
    case S2_VALUE_BLOB:
        sqlite3_bind_blob64(statement, parameter, value->bytes, value->n_bytes, SQLITE_STATIC);
        return;
    }
}

/* True when the row is in the table now; the table refuses what cannot be one of its rows. */
static bool insert(recovery *r, target *t, const s2_record *record)
{
    const int32_t n = record->n_values;
    if (n < t->least || n > t->n_columns || (t->has_rowid && record->values[0].kind != S2_VALUE_NULL))
        return false;
    r->status = prepare_insert(r, t, n);
    if (r->status != S2_OK)
        return false;
    for (int32_t c = 0; c < n; c++)
        bind_value(t->insert, c + 1, &record->values[c]);
    if (t->has_rowid)
        sqlite3_bind_int64(t->insert, 1, record->rowid);
    const int rc = s2_sql_step_once(t->insert);
    sqlite3_reset(t->insert);
    sqlite3_clear_bindings(t->insert);
    if (rc != SQLITE_DONE && (rc & 0xff) != SQLITE_CONSTRAINT && (rc & 0xff) != SQLITE_TOOBIG &&
        (rc & 0xff) != SQLITE_MISMATCH)
        r->status = s2_sql_fail(r->db, rc, r->diag);
    return rc == SQLITE_DONE;
}

static bool take(void *user, const s2_record *record)
{
    recovery *const r = user;
    bool kept = r->owner != NULL && insert(r, r->owner, record);
    /* a broken tree leads to rows of other tables; without a tree any table may be the right one */
    for (int32_t n = 0; n < r->n_targets && !kept && r->status == S2_OK; n++)
        if (!r->targets[n].by_key && &r->targets[n] != r->owner)
            kept = insert(r, &r->targets[n], record);
    r->out.n_unreadable += !kept && r->owner != NULL;
    return r->status == S2_OK;
}

/* ---- the damaged file */

static bool is_text(const s2_value *value, const char *text)
{
    return value->kind == S2_VALUE_TEXT && value->n_bytes == strlen(text) &&
           memcmp(value->bytes, text, value->n_bytes) == 0;
}

/* A row of sqlite_schema: type, name, table, root page, text. */
static bool take_root(void *user, const s2_record *record)
{
    recovery *const r = user;
    if (record->n_values != 5 || !is_text(&record->values[0], "table") ||
        record->values[3].kind != S2_VALUE_INT)
        return true;
    for (int32_t n = 0; n < r->n_targets; n++)
        if (is_text(&record->values[1], r->targets[n].name))
            r->targets[n].root = (uint32_t)record->values[3].whole;
    return true;
}

static s2_status refuse_others(recovery *r, const char *path)
{
    const s2_pages_head head = s2_pages_read_head(r->pages);
    if (head.is_sqlite && head.application_id != 0 && head.application_id != S2_DB_APPLICATION_ID) {
        int32_t n_known = 0;
        for (int32_t n = 0; n < r->n_targets; n++)
            n_known += r->targets[n].root != 0;
        if (n_known < 2)
            return s2_diag_set(r->diag, S2_EPARSE, 0, 0, 0, "%s: a database of another program", path);
    }
    if (head.is_sqlite && head.application_id == S2_DB_APPLICATION_ID &&
        head.user_version > S2_DB_SCHEMA_VERSION && head.user_version < 1000)
        return s2_sql_refuse_newer(path, head.user_version, r->diag);
    return S2_OK;
}

static s2_status tree(recovery *r, uint32_t root, bool by_key, s2_record_fn fn)
{
    const s2_status status = s2_pages_tree(r->pages, root, by_key, fn, r, &r->out.n_unreadable);
    return r->status != S2_OK ? r->status : status;
}

static s2_status read_everything(recovery *r, const char *path)
{
    S2_TRY(tree(r, 1, false, take_root));
    S2_TRY(refuse_others(r, path));
    s2_pages_skip_free(r->pages);
    for (int32_t n = 0; n < r->n_targets; n++) {
        r->owner = &r->targets[n];
        if (r->owner->root != 0)
            S2_TRY(tree(r, r->owner->root, r->owner->by_key, take));
    }
    r->owner = NULL;
    const s2_status status = s2_pages_orphans(r->pages, take, r, &r->out.n_unreadable);
    return r->status != S2_OK ? r->status : status;
}

/* ---- making it whole */

static s2_status delete_where(recovery *r, const char *sql, int64_t *n)
{
    S2_TRY(s2_sql_run(r->db, r->diag, sql, ""));
    *n += sqlite3_changes(r->db->sql);
    return S2_OK;
}

static s2_status drop_forged(recovery *r)
{
    sqlite3_stmt *all;
    S2_TRY(s2_sql_prepare(r->db, "SELECT id,hash,text FROM design", &all, r->diag));
    for (;;) {
        bool has_row;
        char own[S2_HASH_HEX];
        S2_TRY(s2_sql_step(r->db, all, &has_row, r->diag));
        if (!has_row)
            return S2_OK;
        const char *hash, *text;
        size_t n_bytes;
        S2_TRY(s2_sql_peek(r->db, all, 1, &hash, NULL, r->diag));
        S2_TRY(s2_sql_peek(r->db, all, 2, &text, &n_bytes, r->diag));
        s2_db_sha256(text != NULL ? text : "", n_bytes, own);
        if (hash != NULL && strcmp(hash, own) == 0)
            continue;
        S2_TRY(
            s2_sql_run(r->db, r->diag, "DELETE FROM design WHERE id=?", "i", sqlite3_column_int64(all, 0)));
        r->out.n_forged++;
    }
}

/* Results whose run is lost get a run that says so; results whose design is lost mean nothing and go. */
#define LOST_RUN(table)                                                                                      \
    "INSERT OR IGNORE INTO run(id,uid,tool_version,commit_id,sqlite_version,command,argv_json,host,"         \
    "started_us) SELECT DISTINCT run_id,randomblob(16),'','','','lost','[]','',0 FROM " table                \
    " WHERE run_id NOT IN (SELECT id FROM run)"
#define LOST_DESIGN(table) "DELETE FROM " table " WHERE design_id NOT IN (SELECT id FROM design)"

static s2_status mend(recovery *r)
{
    static const char *const lost_runs[] = {LOST_RUN("design"), LOST_RUN("chk"),        LOST_RUN("sim"),
                                            LOST_RUN("reach"),  LOST_RUN("validation"), LOST_RUN("export")};
    static const char *const lost_designs[] = {
        LOST_DESIGN("chk"),
        LOST_DESIGN("sim"),
        LOST_DESIGN("reach"),
        LOST_DESIGN("validation"),
        LOST_DESIGN("export"),
        LOST_DESIGN("tag"),
        LOST_DESIGN("note"),
        LOST_DESIGN("undo"),
        "DELETE FROM validation WHERE env_id NOT IN (SELECT id FROM env)"};
    S2_TRY(drop_forged(r));
    for (size_t n = 0; n < sizeof lost_designs / sizeof lost_designs[0]; n++)
        S2_TRY(delete_where(r, lost_designs[n], &r->out.n_without_design));
    for (size_t n = 0; n < sizeof lost_runs / sizeof lost_runs[0]; n++)
        S2_TRY(delete_where(r, lost_runs[n], &r->out.n_lost_runs));
    S2_TRY(s2_sql_exec(r->db,
                       "UPDATE run SET argv_json='[]' WHERE NOT json_valid(argv_json);"
                       "UPDATE sim SET json='{}' WHERE NOT json_valid(json);"
                       "UPDATE sim SET priced=0 WHERE priced=3 AND error_pct IS NULL;"
                       "UPDATE validation SET json='{}' WHERE NOT json_valid(json)",
                       r->diag));
    return s2_db_refresh(r->db, r->diag);
}

/* What the new file holds in the end, not counting rows that replace lost runs. */
static s2_status sum_up(recovery *r)
{
    r->out.n_runs = -r->out.n_lost_runs;
    for (int32_t n = 0; n < r->n_targets; n++) {
        const char *const name = r->targets[n].name;
        int64_t n_rows;
        S2_TRY(s2_db_count(r->db, name, &n_rows, r->diag));
        if (strcmp(name, "run") == 0)
            r->out.n_runs += n_rows;
        else if (strcmp(name, "design") == 0)
            r->out.n_designs += n_rows;
        else if (strcmp(name, "chk") == 0 || strcmp(name, "sim") == 0 || strcmp(name, "reach") == 0 ||
                 strcmp(name, "validation") == 0 || strcmp(name, "export") == 0)
            r->out.n_results += n_rows;
        else
            r->out.n_others += n_rows;
    }
    return S2_OK;
}

static s2_status recover_into(recovery *r, const char *path)
{
    /* rows come in page order, so what they refer to may come later; mend() settles it */
    S2_TRY(s2_sql_exec(r->db, "PRAGMA foreign_keys=OFF", r->diag));
    S2_TRY(s2_db_begin(r->db, r->diag));
    s2_status status = S2_OK;
    for (int32_t n = 0; n < r->n_targets && status == S2_OK; n++)
        status = read_columns(r, &r->targets[n]);
    if (status == S2_OK)
        status = read_everything(r, path);
    if (status == S2_OK)
        status = mend(r);
    if (status == S2_OK)
        status = sum_up(r);
    for (int32_t n = 0; n < r->n_targets; n++)
        sqlite3_finalize(r->targets[n].insert);
    return s2_db_end(r->db, status, r->diag);
}

static s2_status check_result(recovery *r)
{
    s2_buf findings = {0};
    s2_status status = s2_db_verify(r->db, &findings, r->diag);
    if (status == S2_OK)
        status = findings.status;
    const bool sound = findings.len == 0;
    s2_buf_release(&findings);
    S2_TRY(status);
    return sound ? S2_OK
                 : s2_diag_set(r->diag, S2_EINTERNAL, 0, 0, 0, "%s: what was recovered is not sound",
                               r->db->path);
}

static s2_status recover_beside(recovery *r, const char *path, const char *temporary)
{
    s2_status status = s2_db_open(temporary, S2_DB_WRITE, &r->db, r->diag);
    if (status == S2_OK)
        status = recover_into(r, path);
    if (status == S2_OK && r->out.n_runs + r->out.n_designs + r->out.n_results == 0)
        status =
            s2_diag_set(r->diag, S2_EPARSE, 0, 0, 0, "%s: no row of a database of s2 was found in it", path);
    if (status == S2_OK)
        status = check_result(r);
    if (status == S2_OK)
        status = s2_db_empty_log(r->db, r->diag);
    s2_db_close(&r->db);
    return status;
}

s2_status s2_db_recover(const char *path, const char *to, bool overwrite, s2_db_recovered *out, s2_diag *diag)
{
    char place[S2_PATH_BYTES];
    S2_TRY(s2_db_check_other(path, to, diag));
    S2_TRY(s2_db_follow(to, place, diag));
    recovery *const r = s2_calloc(1, sizeof *r);
    if (r == NULL)
        return S2_ENOMEM;
    r->diag = diag;
    r->n_targets = sizeof TARGETS / sizeof TARGETS[0];
    memcpy(r->targets, TARGETS, sizeof TARGETS);
    s2_db_draft draft;
    s2_status status = s2_pages_open(path, &r->pages, diag);
    if (status == S2_OK)
        status = s2_db_draft_open(place, &draft, diag);
    if (status == S2_OK) {
        status = recover_beside(r, path, draft.path);
        if (status == S2_OK)
            status = s2_db_place(draft.path, place, overwrite, diag);
        s2_db_draft_close(&draft);
    }
    s2_pages_close(&r->pages);
    if (status == S2_OK)
        *out = r->out;
    s2_free(r);
    return status;
}

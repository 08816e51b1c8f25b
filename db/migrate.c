/* Bring a file to the newest schema, and check that its tables are those of the schema that it names. */
#include "db/sql.h"

#include <string.h>

#include <sqlite3.h>

#include "base/clock.h"

static s2_status apply(s2_db *db, const s2_db_migration *step, s2_diag *diag)
{
    char sha[S2_HASH_HEX], pragma[64];
    s2_db_sha256(step->sql, strlen(step->sql), sha);
    S2_TRY(s2_sql_exec(db, step->sql, diag));
    sqlite3_snprintf(sizeof pragma, pragma, "PRAGMA user_version=%d", step->version);
    S2_TRY(s2_sql_exec(db, pragma, diag));
    return s2_sql_run(db, diag, "INSERT INTO migration(version,applied_us,sql_sha) VALUES(?,?,?)", "iit",
                      (int64_t)step->version, s2_unix_us(), sha);
}

s2_status s2_db_migrate(s2_db *db, int32_t version, s2_diag *diag)
{
    if (version == 0) {
        char pragma[64];
        sqlite3_snprintf(sizeof pragma, pragma, "PRAGMA application_id=%d", S2_DB_APPLICATION_ID);
        S2_TRY(s2_sql_exec(db, pragma, diag));
    }
    for (int32_t n = version; n < S2_DB_SCHEMA_VERSION; n++)
        S2_TRY(apply(db, &s2_db_migrations[n], diag));
    if (version == 0)
        return s2_sql_run(db, diag, "INSERT INTO meta(id,created_us,created_by) VALUES(1,?,'s2')", "i",
                          s2_unix_us());
    return version < S2_DB_SCHEMA_VERSION ? s2_db_refresh(db, diag) : S2_OK;
}

/* One text for a whole schema: every object with its statement, in order of name. */
static const char DIGEST[] =
    "SELECT coalesce(group_concat(type||' '||name||' '||tbl_name||' '||coalesce(sql,'')||char(10),''),'') "
    "FROM"
    " (SELECT * FROM sqlite_schema WHERE name NOT LIKE 'sqlite_stat%' ORDER BY type,name)";

static s2_status schema_sha(s2_db *db, char sha[S2_HASH_HEX], s2_diag *diag)
{
    struct sqlite3_stmt *statement;
    S2_TRY(s2_sql_prepare(db, DIGEST, &statement, diag));
    bool has_row;
    S2_TRY(s2_sql_step(db, statement, &has_row, diag));
    const char *text;
    size_t n_bytes;
    S2_TRY(s2_sql_peek(db, statement, 0, &text, &n_bytes, diag));
    s2_db_sha256(text != NULL ? text : "", n_bytes, sha);
    sqlite3_reset(statement);
    return S2_OK;
}

/* What the steps up to a version make, in a database of its own. */
static s2_status make_schema_sha(const char *path, int32_t version, char sha[S2_HASH_HEX], s2_diag *diag)
{
    s2_db model = {.path = (char *)path, .lock_fd = -1};
    s2_status status = s2_sql_fail(&model, sqlite3_open(":memory:", &model.sql), diag);
    for (int32_t n = 0; n < version && status == S2_OK; n++)
        status = s2_sql_exec(&model, s2_db_migrations[n].sql, diag);
    if (status == S2_OK)
        status = schema_sha(&model, sha, diag);
    for (int32_t n = 0; n < model.n_cached; n++)
        sqlite3_finalize(model.cached[n].statement);
    sqlite3_close(model.sql);
    return status;
}

s2_status s2_db_compare_schema(s2_db *db, int32_t version, s2_diag *diag)
{
    static _Thread_local char known[S2_DB_SCHEMA_VERSION + 1][S2_HASH_HEX]; /* made once, where asked */
    char own[S2_HASH_HEX], expected[S2_HASH_HEX];
    S2_TRY(schema_sha(db, own, diag));
    if (known[version][0] == '\0') {
        S2_TRY(make_schema_sha(db->path, version, expected, diag));
        memcpy(known[version], expected, sizeof expected);
    }
    if (strcmp(own, known[version]) == 0)
        return S2_OK;
    return s2_diag_set(diag, S2_EPARSE, 0, 0, 0, "%s: refused, its tables are not those of schema %d",
                       db->path, version);
}

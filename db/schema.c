/*
 * The schema as numbered steps. A published step is never edited: a change is a new step at the end.
 * docs/database.md says what each table is for and where this leaves the usual way.
 */
#include "db/sql.h"

#include <string.h>

#include <sqlite3.h>

/* Verdicts are 0 holds, 1 violated, 2 unknown, as in s2_db_verdict. */
static const char PROOFS[] =
    "CREATE TABLE meta(id INTEGER PRIMARY KEY CHECK(id=1), created_us INTEGER NOT NULL, created_by TEXT NOT "
    "NULL) STRICT;\n"
    "CREATE TABLE migration(version INTEGER PRIMARY KEY, applied_us INTEGER NOT NULL, sql_sha TEXT NOT NULL) "
    "STRICT;\n"
    "CREATE TABLE run(id INTEGER PRIMARY KEY, uid BLOB NOT NULL UNIQUE CHECK(length(uid)=16),"
    " tool_version TEXT NOT NULL CHECK(length(tool_version)<=64), commit_id TEXT NOT NULL "
    "CHECK(length(commit_id)<=64),"
    " sqlite_version TEXT NOT NULL CHECK(length(sqlite_version)<=32),"
    " command TEXT NOT NULL CHECK(length(command)<=64),"
    " argv_json TEXT NOT NULL CHECK(length(argv_json)<=1048576),"
    " host TEXT NOT NULL CHECK(length(host)<=256), seed INTEGER, started_us INTEGER NOT NULL, wall_us "
    "INTEGER,"
    " exit_code INTEGER) STRICT;\n"
    "CREATE TABLE design(id INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE CHECK(length(hash)=64),"
    " name TEXT NOT NULL CHECK(length(name)<=200), text TEXT NOT NULL CHECK(length(text)<=1048576),"
    " model TEXT NOT NULL CHECK(length(model)<=200), family TEXT NOT NULL CHECK(length(family)<=200),"
    " origin TEXT NOT NULL CHECK(length(origin)<=4096),"
    " n_layers INTEGER NOT NULL CHECK(n_layers BETWEEN 1 AND 1024),"
    " n_heads INTEGER NOT NULL CHECK(n_heads BETWEEN 1 AND 4096),"
    " n_kv_heads INTEGER NOT NULL CHECK(n_kv_heads BETWEEN 1 AND n_heads),"
    " head_dim INTEGER NOT NULL CHECK(head_dim BETWEEN 1 AND 4096),"
    " block_tok INTEGER NOT NULL CHECK(block_tok BETWEEN 1 AND 1024),"
    " density REAL, density_tok INTEGER, created_us INTEGER NOT NULL, run_id INTEGER NOT NULL REFERENCES "
    "run(id),"
    " v_rows INTEGER, v_union INTEGER, v_kv INTEGER, v_group INTEGER, v_shards INTEGER,"
    " sim_us REAL, kv_bytes REAL, gpu_us REAL, outcome TEXT) STRICT;\n"
    "CREATE TABLE chk(id INTEGER PRIMARY KEY, run_id INTEGER NOT NULL REFERENCES run(id), seq INTEGER NOT "
    "NULL,"
    " design_id INTEGER NOT NULL REFERENCES design(id), property TEXT NOT NULL CHECK(length(property)<=64),"
    " verdict INTEGER NOT NULL CHECK(verdict IN(0,1,2)), required INTEGER NOT NULL CHECK(required IN(0,1)),"
    " scope_tok INTEGER, complete_to_tok INTEGER, layer INTEGER, head INTEGER, query_tok INTEGER, key_tok "
    "INTEGER,"
    " failing_layers TEXT CHECK(length(failing_layers)<=65536), detail TEXT CHECK(length(detail)<=65536),"
    " engine TEXT NOT NULL CHECK(length(engine)<=64), wall_us INTEGER, UNIQUE(run_id,seq)) STRICT;\n"
    "CREATE INDEX chk_design ON chk(design_id,property);\n";

/* What a design costs, foretold and measured, and where it went. */
static const char MEASUREMENTS[] =
    "CREATE TABLE sim(id INTEGER PRIMARY KEY, run_id INTEGER NOT NULL REFERENCES run(id), seq INTEGER NOT "
    "NULL,"
    " design_id INTEGER NOT NULL REFERENCES design(id), gpu TEXT NOT NULL CHECK(length(gpu)<=200),"
    " model TEXT NOT NULL CHECK(length(model)<=200), phase TEXT NOT NULL CHECK(length(phase)<=32),"
    " dtype TEXT NOT NULL CHECK(length(dtype)<=32), len_tok INTEGER NOT NULL, batch INTEGER NOT NULL,"
    " time_us REAL, bound_us REAL, dense_us REAL, bound_by TEXT NOT NULL CHECK(length(bound_by)<=64), "
    "density REAL,"
    " hbm_bytes REAL, kv_dense_bytes REAL, kv_shared_pages_bytes REAL, kv_head_pages_bytes REAL,"
    " kv_ring_stripes_bytes REAL, error_pct REAL,"
    " json TEXT NOT NULL CHECK(length(json)<=1048576), UNIQUE(run_id,seq)) STRICT;\n"
    "CREATE TABLE env(id INTEGER PRIMARY KEY, sha TEXT NOT NULL UNIQUE CHECK(length(sha)=64),"
    " device TEXT NOT NULL CHECK(length(device)<=200), device_uuid TEXT NOT NULL "
    "CHECK(length(device_uuid)<=200),"
    " driver TEXT NOT NULL CHECK(length(driver)<=200), runtime TEXT NOT NULL CHECK(length(runtime)<=200)) "
    "STRICT;\n"
    "CREATE TABLE validation(id INTEGER PRIMARY KEY, run_id INTEGER NOT NULL REFERENCES run(id), seq INTEGER "
    "NOT NULL,"
    " design_id INTEGER NOT NULL REFERENCES design(id), env_id INTEGER NOT NULL REFERENCES env(id),"
    " kernel TEXT NOT NULL CHECK(length(kernel)<=200), phase TEXT NOT NULL CHECK(length(phase)<=32),"
    " dtype TEXT NOT NULL CHECK(length(dtype)<=32), outcome TEXT NOT NULL CHECK(length(outcome)<=32),"
    " reason TEXT CHECK(length(reason)<=65536), len_tok INTEGER NOT NULL, batch INTEGER NOT NULL, seed "
    "INTEGER,"
    " pairs INTEGER, pairs_wrong INTEGER, max_err REAL, tolerance REAL, needles_found INTEGER, "
    "needles_expected INTEGER,"
    " median_ms REAL, min_ms REAL, sm_mhz REAL, samples_f32 BLOB CHECK(length(samples_f32)<=4194304),"
    " json TEXT NOT NULL CHECK(length(json)<=1048576), UNIQUE(run_id,seq)) STRICT;\n"
    "CREATE TABLE export(id INTEGER PRIMARY KEY, run_id INTEGER NOT NULL REFERENCES run(id), seq INTEGER NOT "
    "NULL,"
    " design_id INTEGER NOT NULL REFERENCES design(id), target TEXT NOT NULL CHECK(length(target)<=64),"
    " path TEXT NOT NULL CHECK(length(path)<=4096), out_sha TEXT NOT NULL CHECK(length(out_sha)=64),"
    " UNIQUE(run_id,seq)) STRICT;\n"
    "CREATE INDEX sim_design ON sim(design_id);\n"
    "CREATE INDEX validation_design ON validation(design_id);\n"
    "CREATE INDEX export_design ON export(design_id);\n";

/* What people add. Every column that a list sorts by gets (column, id), so that a page is an index seek. */
static const char PEOPLE[] =
    "ALTER TABLE design ADD COLUMN starred INTEGER NOT NULL DEFAULT 0 CHECK(starred IN(0,1));\n"
    "ALTER TABLE design ADD COLUMN deleted_us INTEGER;\n"
    /* The key's columns come first: the quick_check of SQLite 3.40 misreads WITHOUT ROWID tables otherwise.
     */
    "CREATE TABLE tag(tag TEXT NOT NULL CHECK(length(tag) BETWEEN 1 AND 64),"
    " design_id INTEGER NOT NULL REFERENCES design(id), PRIMARY KEY(tag,design_id)) STRICT, WITHOUT ROWID;\n"
    "CREATE INDEX tag_design ON tag(design_id);\n"
    "CREATE TABLE note(id INTEGER PRIMARY KEY, design_id INTEGER NOT NULL REFERENCES design(id), at_us "
    "INTEGER NOT NULL,"
    " body TEXT NOT NULL CHECK(length(body)<=65536), UNIQUE(design_id,at_us,body)) STRICT;\n"
    "CREATE TABLE undo(id INTEGER PRIMARY KEY, at_us INTEGER NOT NULL,"
    " action TEXT NOT NULL CHECK(action IN('tag','untag','note','star','unstar','rm')),"
    " design_id INTEGER NOT NULL REFERENCES design(id), argument TEXT NOT NULL) STRICT;\n"
    "CREATE INDEX design_name ON design(name,id) WHERE deleted_us IS NULL;\n"
    "CREATE INDEX design_family ON design(family,id) WHERE deleted_us IS NULL;\n"
    "CREATE INDEX design_created ON design(created_us,id) WHERE deleted_us IS NULL;\n"
    "CREATE INDEX design_density ON design(density,id) WHERE deleted_us IS NULL;\n"
    "CREATE INDEX design_sim ON design(sim_us,id) WHERE deleted_us IS NULL;\n"
    "CREATE INDEX design_gpu ON design(gpu_us,id) WHERE deleted_us IS NULL;\n"
    "CREATE INDEX design_kv_bytes ON design(kv_bytes,id) WHERE deleted_us IS NULL;\n"
    "CREATE INDEX design_union ON design(v_union,id) WHERE deleted_us IS NULL;\n";

/* "union=holds, by time": one verdict is half of all rows, so its index must bring the order along. */
static const char UNION_IN_ORDER[] =
    "DROP INDEX design_union;\n"
    "CREATE INDEX design_union_created ON design(v_union,created_us,id) WHERE deleted_us IS NULL;\n"
    "CREATE INDEX design_union_sim ON design(v_union,sim_us,id) WHERE deleted_us IS NULL;\n";

static const char VIEWS[] =
    "CREATE TABLE view(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE CHECK(length(name) BETWEEN 1 AND "
    "64),"
    " filter TEXT NOT NULL CHECK(length(filter)<=4096), sort TEXT NOT NULL CHECK(length(sort)<=32),"
    " descending INTEGER NOT NULL CHECK(descending IN(0,1)), at_us INTEGER NOT NULL) STRICT;\n";

/*
 * One price for each phase and length of a design, so that a list never mixes them; and of a run, where
 * and on what it ran. The prices of older files are filled in by whatever refreshes a design next, and by
 * s2_db_migrate() for all of them.
 */
static const char PRICES[] =
    "ALTER TABLE run ADD COLUMN cwd TEXT NOT NULL DEFAULT '' CHECK(length(cwd)<=4096);\n"
    "ALTER TABLE run ADD COLUMN machine TEXT NOT NULL DEFAULT '' CHECK(length(machine)<=512);\n"
    "ALTER TABLE run ADD COLUMN build TEXT NOT NULL DEFAULT '' CHECK(length(build)<=1024);\n"
    "ALTER TABLE validation ADD COLUMN layer INTEGER;\n"
    "ALTER TABLE validation ADD COLUMN layers_alike INTEGER;\n"
    "UPDATE validation SET "
    "layer=json_extract(json,'$.layer'),layers_alike=json_extract(json,'$.layers_alike')"
    " WHERE json_valid(json) AND json_type(json,'$.layers_alike')='integer' AND "
    "json_type(json,'$.layer')='integer';\n"
    "CREATE TABLE price(design_id INTEGER NOT NULL REFERENCES design(id), phase TEXT NOT NULL,"
    " len_tok INTEGER NOT NULL, n INTEGER NOT NULL, started_us INTEGER NOT NULL, seq INTEGER NOT NULL, gpu "
    "TEXT NOT NULL,"
    " batch INTEGER NOT NULL, us REAL, kv_bytes REAL, gpu_us REAL,"
    " PRIMARY KEY(design_id,phase,len_tok)) STRICT, WITHOUT ROWID;\n"
    "CREATE INDEX design_run ON design(run_id);\n"
    "CREATE INDEX price_us ON price(phase,len_tok,us,design_id);\n"
    "CREATE INDEX price_kv ON price(phase,len_tok,kv_bytes,design_id);\n"
    "CREATE INDEX price_gpu ON price(phase,len_tok,gpu_us,design_id) WHERE gpu_us IS NOT NULL;\n"
    "ALTER TABLE design ADD COLUMN sim_phase TEXT;\n"
    "ALTER TABLE design ADD COLUMN sim_len_tok INTEGER;\n"
    "ALTER TABLE design ADD COLUMN sim_gpu TEXT;\n"
    "ALTER TABLE design ADD COLUMN sim_batch INTEGER;\n";

const s2_db_migration s2_db_migrations[S2_DB_SCHEMA_VERSION] = {
    {1, PROOFS}, {2, MEASUREMENTS}, {3, PEOPLE}, {4, UNION_IN_ORDER}, {5, VIEWS}, {6, PRICES}};

static s2_status apply(s2_db *db, const s2_db_migration *step, s2_diag *diag)
{
    char sha[S2_DB_HASH_HEX], pragma[64];
    s2_db_sha256(step->sql, strlen(step->sql), sha);
    S2_TRY(s2_sql_exec(db, step->sql, diag));
    sqlite3_snprintf(sizeof pragma, pragma, "PRAGMA user_version=%d", step->version);
    S2_TRY(s2_sql_exec(db, pragma, diag));
    return s2_sql_run(db, diag, "INSERT INTO migration(version,applied_us,sql_sha) VALUES(?,?,?)", "iit",
                      (int64_t)step->version, s2_db_now_us(), sha);
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
                          s2_db_now_us());
    return version < S2_DB_SCHEMA_VERSION ? s2_db_refresh(db, S2_DB_NONE, diag) : S2_OK;
}

/* One text for a whole schema: every object with its statement, in order of name. */
static const char DIGEST[] =
    "SELECT coalesce(group_concat(type||' '||name||' '||tbl_name||' '||coalesce(sql,'')||char(10),''),'') "
    "FROM"
    " (SELECT * FROM sqlite_schema WHERE name NOT LIKE 'sqlite_stat%' ORDER BY type,name)";

static s2_status schema_sha(s2_db *db, char sha[S2_DB_HASH_HEX], s2_diag *diag)
{
    struct sqlite3_stmt *statement;
    S2_TRY(s2_sql_prepare(db, DIGEST, &statement, diag));
    bool has_row;
    S2_TRY(s2_sql_step(db, statement, &has_row, diag));
    const void *const text = sqlite3_column_text(statement, 0);
    s2_db_sha256(text != NULL ? text : "", (size_t)sqlite3_column_bytes(statement, 0), sha);
    sqlite3_reset(statement);
    return S2_OK;
}

s2_status s2_db_compare_schema(s2_db *db, int32_t version, s2_diag *diag)
{
    char own[S2_DB_HASH_HEX], expected[S2_DB_HASH_HEX];
    S2_TRY(schema_sha(db, own, diag));
    s2_db model = {.path = db->path, .lock_fd = -1};
    s2_status status = s2_sql_fail(&model, sqlite3_open(":memory:", &model.sql), diag);
    for (int32_t n = 0; n < version && status == S2_OK; n++)
        status = s2_sql_exec(&model, s2_db_migrations[n].sql, diag);
    if (status == S2_OK)
        status = schema_sha(&model, expected, diag);
    for (int32_t n = 0; n < model.n_cached; n++)
        sqlite3_finalize(model.cached[n].statement);
    sqlite3_close(model.sql);
    if (status == S2_OK && strcmp(own, expected) != 0)
        return s2_diag_set(diag, S2_EPARSE, 0, 0, 0, "%s: refused, its tables are not those of schema %d",
                           db->path, version);
    return status;
}

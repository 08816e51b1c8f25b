#include "db/db.h"

#include <string.h>

#include <sqlite3.h>

#include "db/sql.h"

/*
 * One kind of row to carry over: the query that reads it from the other file, and the statement that
 * writes it into ours, with the same columns in the same order. Ids differ between files, so runs are
 * matched by uid, designs and environments by hash.
 */
typedef struct carry {
    const char *read;
    const char *write;
    int hash_of; /* column holding a hash ... */
    int text_of; /* ... of this column's text; -1: none */
} carry;

#define RUN    "(SELECT id FROM run WHERE uid=?1)"
#define DESIGN "(SELECT id FROM design WHERE hash=?3)"
/* NULL, which NOT NULL refuses, for text that is not JSON: a CHECK could not ask, see db/care.c. */
#define JSON(n) "CASE WHEN json_valid(?" #n ") THEN ?" #n " END"

static const carry RUNS = {
    "SELECT "
    "uid,tool_version,commit_id,sqlite_version,command,argv_json,host,seed,started_us,wall_us,exit_code,"
    "cwd,machine,build FROM run",
    "INSERT INTO "
    "run(uid,tool_version,commit_id,sqlite_version,command,argv_json,host,seed,started_us,wall_us,exit_code,"
    "cwd,machine,build)"
    " VALUES(?1,?2,?3,?4,?5," JSON(
        6) ",?7,?8,?9,?10,?11,?12,?13,?14) ON CONFLICT(uid) DO UPDATE SET "
           "wall_us=excluded.wall_us,"
           "exit_code=excluded.exit_code WHERE exit_code IS NULL AND excluded.exit_code IS NOT NULL",
    -1, -1};

static const carry DESIGNS = {
    "SELECT "
    "r.uid,hash,text,name,model,family,origin,n_layers,n_heads,n_kv_heads,head_dim,block_tok,density,density_"
    "tok,"
    "created_us FROM design JOIN run r ON r.id=run_id WHERE deleted_us IS NULL",
    "INSERT INTO "
    "design(run_id,hash,text,name,model,family,origin,n_layers,n_heads,n_kv_heads,head_dim,"
    "block_tok,density,density_tok,created_us) VALUES(" RUN
    ",?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15) ON CONFLICT DO NOTHING",
    1, 2};

static const carry ENVS = {
    "SELECT sha,device,device_uuid,driver,runtime FROM env",
    "INSERT INTO env(sha,device,device_uuid,driver,runtime) VALUES(?1,?2,?3,?4,?5) ON CONFLICT DO NOTHING",
    -1, -1};

static const carry RESULTS[] = {
    {"SELECT "
     "r.uid,seq,d.hash,property,verdict,required,scope_tok,complete_to_tok,layer,head,query_tok,key_tok,"
     "failing_layers,detail,engine,t.wall_us FROM chk t JOIN run r ON r.id=t.run_id JOIN design d ON "
     "d.id=t.design_id"
     " WHERE d.deleted_us IS NULL",
     "INSERT INTO "
     "chk(run_id,seq,design_id,property,verdict,required,scope_tok,complete_to_tok,layer,head,"
     "query_tok,key_tok,failing_layers,detail,engine,wall_us) VALUES(" RUN ",?2," DESIGN
     ",?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16) ON CONFLICT DO NOTHING",
     -1, -1},
    {"SELECT "
     "r.uid,seq,d.hash,gpu,t.model,phase,dtype,len_tok,batch,time_us,bound_us,dense_us,bound_by,t.density,"
     "hbm_bytes,kv_dense_bytes,kv_shared_pages_bytes,kv_head_pages_bytes,kv_ring_stripes_bytes,error_pct,"
     "json,"
     "unread,kv_dtype,weights,tp,kernel,settings,priced FROM sim t JOIN run r ON r.id=t.run_id JOIN design d "
     "ON "
     "d.id=t.design_id WHERE d.deleted_us IS "
     "NULL",
     "INSERT INTO "
     "sim(run_id,seq,design_id,gpu,model,phase,dtype,len_tok,batch,time_us,bound_us,dense_us,"
     "bound_by,density,hbm_bytes,kv_dense_bytes,kv_shared_pages_bytes,kv_head_pages_bytes,kv_ring_stripes_"
     "bytes,"
     "error_pct,json,unread,kv_dtype,weights,tp,kernel,settings,priced) VALUES(" RUN ",?2," DESIGN
     ",?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?20," JSON(
         21) ",?22,?23,?24,?25,?26,?27,?28) ON CONFLICT DO NOTHING",
     -1, -1},
    {"SELECT r.uid,seq,d.hash,len_tok,hops,flow FROM reach t JOIN run r ON r.id=t.run_id"
     " JOIN design d ON d.id=t.design_id WHERE d.deleted_us IS NULL",
     "INSERT INTO reach(run_id,seq,design_id,len_tok,hops,flow) VALUES(" RUN ",?2," DESIGN
     ",?4,?5,?6) ON CONFLICT DO NOTHING",
     -1, -1},
    {"SELECT "
     "r.uid,t.seq,d.hash,e.sha,kernel,phase,dtype,t.outcome,reason,len_tok,batch,t.seed,pairs,pairs_wrong,"
     "max_err,tolerance,needles_found,needles_expected,median_ms,min_ms,sm_mhz,samples_f32,json,layer,layers_"
     "alike,t.gpu,kernels FROM "
     "validation t"
     " JOIN run r ON r.id=t.run_id JOIN design d ON d.id=t.design_id JOIN env e ON e.id=env_id WHERE "
     "d.deleted_us IS NULL",
     "INSERT INTO "
     "validation(run_id,seq,design_id,env_id,kernel,phase,dtype,outcome,reason,len_tok,batch,seed,"
     "pairs,pairs_wrong,max_err,tolerance,needles_found,needles_expected,median_ms,min_ms,sm_mhz,samples_f32,"
     "json,layer,layers_alike,gpu,kernels)"
     " VALUES(" RUN ",?2," DESIGN
     ",(SELECT id FROM env WHERE sha=?4),?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,"
     "?18,?19,?20,?21,?22," JSON(23) ",?24,?25,?26,?27) ON CONFLICT DO NOTHING",
     -1, -1},
    {"SELECT r.uid,seq,d.hash,target,path,out_sha FROM export t JOIN run r ON r.id=t.run_id"
     " JOIN design d ON d.id=t.design_id WHERE d.deleted_us IS NULL",
     "INSERT INTO export(run_id,seq,design_id,target,path,out_sha) VALUES(" RUN ",?2," DESIGN
     ",?4,?5,?6) ON CONFLICT DO NOTHING",
     -1, -1},
};

static const carry PEOPLE[] = {
    {"SELECT hash,tag FROM tag JOIN design d ON d.id=design_id WHERE deleted_us IS NULL",
     "INSERT INTO tag(design_id,tag) VALUES((SELECT id FROM design WHERE hash=?1),?2) ON CONFLICT DO NOTHING",
     -1, -1},
    {"SELECT hash,at_us,body FROM note JOIN design d ON d.id=design_id WHERE deleted_us IS NULL",
     "INSERT INTO note(design_id,at_us,body) VALUES((SELECT id FROM design WHERE hash=?1),?2,?3) ON CONFLICT "
     "DO NOTHING",
     -1, -1},
    {"SELECT hash FROM design WHERE starred=1 AND deleted_us IS NULL",
     "UPDATE design SET starred=1 WHERE hash=?1 AND starred=0", -1, -1},
};

static const carry VIEWS = {
    "SELECT name,filter,sort,descending,at_us FROM view",
    "INSERT INTO view(name,filter,sort,descending,at_us) VALUES(?1,?2,?3,?4,?5) ON CONFLICT DO NOTHING", -1,
    -1};

/* A design that both know: the earlier origin, and what it reads if that was not known here. */
static const carry KNOWN = {
    "SELECT r.uid,hash,created_us,density,density_tok FROM design JOIN run r ON r.id=run_id WHERE deleted_us "
    "IS NULL",
    "UPDATE design SET run_id=CASE WHEN ?3<created_us THEN " RUN
    " ELSE run_id END,created_us=min(created_us,?3),"
    "density_tok=CASE WHEN density IS NULL THEN ?5 ELSE density_tok END,density=coalesce(density,?4)"
    " WHERE hash=?2 AND (?3<created_us OR (density IS NULL AND ?4 IS NOT NULL))",
    -1, -1};

static s2_status check_hash(s2_db *other, sqlite3_stmt *from, const carry *kind, s2_diag *diag)
{
    if (kind->hash_of < 0)
        return S2_OK;
    char own[S2_HASH_HEX];
    const char *hash, *text;
    size_t n_bytes;
    S2_TRY(s2_sql_peek(other, from, kind->hash_of, &hash, NULL, diag));
    S2_TRY(s2_sql_peek(other, from, kind->text_of, &text, &n_bytes, diag));
    s2_db_sha256(text != NULL ? text : "", n_bytes, own);
    if (hash == NULL || strcmp(own, hash) != 0)
        return s2_diag_set(diag, S2_EPARSE, 0, 0, 0,
                           "%s: refused, the text of a design has another hash than it claims", other->path);
    return S2_OK;
}

static s2_status carry_row(s2_db *db, const s2_db *other, sqlite3_stmt *from, sqlite3_stmt *to, s2_diag *diag)
{
    for (int column = 0; column < sqlite3_column_count(from); column++)
        sqlite3_bind_value(to, column + 1, sqlite3_column_value(from, column));
    bool has_row;
    s2_diag why = {0};
    const s2_status status = s2_sql_step(db, to, &has_row, &why);
    sqlite3_reset(to);
    if (status == S2_EINVAL)
        return s2_diag_set(diag, S2_EPARSE, 0, 0, 0, "%s: refused, it holds a row that no s2 wrote (%s)",
                           other->path, sqlite3_errmsg(db->sql));
    return status == S2_OK ? S2_OK : s2_diag_set(diag, status, 0, 0, 0, "%s", why.msg);
}

/* Carry every row of a kind; *n counts those that were new. A row that our own CHECKs refuse ends the merge. */
static s2_status carry_all(s2_db *db, s2_db *other, const carry *kind, int64_t *n, s2_diag *diag)
{
    sqlite3_stmt *from, *to;
    S2_TRY(s2_sql_prepare(other, kind->read, &from, diag));
    S2_TRY(s2_sql_prepare(db, kind->write, &to, diag));
    for (;;) {
        bool has_row;
        S2_TRY(s2_sql_step(other, from, &has_row, diag));
        if (!has_row)
            return S2_OK;
        S2_TRY(check_hash(other, from, kind, diag));
        S2_TRY(carry_row(db, other, from, to, diag));
        *n += sqlite3_changes(db->sql);
    }
}

static s2_status count_kept_views(s2_db *db, s2_db *other, int64_t *n, s2_diag *diag)
{
    sqlite3_stmt *from, *to;
    S2_TRY(s2_sql_prepare(other, VIEWS.read, &from, diag));
    S2_TRY(s2_sql_prepare(
        db, "SELECT 1 FROM view WHERE name=?1 AND (filter<>?2 OR sort<>?3 OR descending<>?4)", &to, diag));
    for (;;) {
        bool has_row, differs;
        S2_TRY(s2_sql_step(other, from, &has_row, diag));
        if (!has_row)
            return S2_OK;
        for (int column = 0; column < 4; column++)
            sqlite3_bind_value(to, column + 1, sqlite3_column_value(from, column));
        S2_TRY(s2_sql_step(db, to, &differs, diag));
        sqlite3_reset(to);
        *n += differs;
    }
}

static s2_status carry_everything(s2_db *db, s2_db *other, s2_db_merged *out, s2_diag *diag)
{
    int64_t n_envs = 0, n_known = 0;
    S2_TRY(carry_all(db, other, &RUNS, &out->n_runs, diag));
    S2_TRY(carry_all(db, other, &DESIGNS, &out->n_designs, diag));
    S2_TRY(carry_all(db, other, &KNOWN, &n_known, diag));
    S2_TRY(carry_all(db, other, &ENVS, &n_envs, diag));
    for (size_t n = 0; n < sizeof RESULTS / sizeof RESULTS[0]; n++)
        S2_TRY(carry_all(db, other, &RESULTS[n], &out->n_results, diag));
    for (size_t n = 0; n < sizeof PEOPLE / sizeof PEOPLE[0]; n++)
        S2_TRY(carry_all(db, other, &PEOPLE[n], &out->n_people, diag));
    S2_TRY(carry_all(db, other, &VIEWS, &out->n_people, diag));
    S2_TRY(count_kept_views(db, other, &out->n_views_kept, diag));
    return out->n_results + out->n_designs + n_known > 0 ? s2_db_refresh(db, diag) : S2_OK;
}

s2_status s2_db_merge(s2_db *db, s2_db *other, s2_db_merged *out, s2_diag *diag)
{
    s2_db_merged merged = {0};
    int64_t version;
    S2_TRY(s2_sql_int(other, diag, &version, "PRAGMA user_version", ""));
    if (version != S2_DB_SCHEMA_VERSION)
        return s2_diag_set(diag, S2_EDB, 0, 0, 0,
                           "%s: of an older s2 (schema %lld); open it once with this one first", other->path,
                           (long long)version);
    S2_TRY(s2_db_begin(db, diag));
    S2_TRY(s2_db_end(db, carry_everything(db, other, &merged, diag), diag));
    *out = merged;
    return S2_OK;
}

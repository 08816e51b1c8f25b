#include "db/db.h"

#include <math.h>
#include <string.h>

#include <sqlite3.h>

#include "db/sql.h"

const char *s2_db_verdict_word(s2_db_verdict verdict)
{
    static const char *const words[] = {"holds", "violated", "unknown"};
    return verdict >= S2_DB_HOLDS && verdict <= S2_DB_UNKNOWN ? words[verdict] : "-";
}

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

s2_status s2_db_put_run(s2_db *db, const s2_db_run *run, int64_t *run_id, s2_diag *diag)
{
    uint8_t uid[16];
    sqlite3_randomness(sizeof uid, uid);
    S2_TRY(s2_sql_run(
        db, diag,
        "INSERT INTO run(uid,tool_version,commit_id,sqlite_version,command,argv_json,host,seed,started_us,"
        "cwd,machine,build)"
        " VALUES(?,?,?,?,?,?,?,?,?,?,?,?)",
        "bttttttiittt", uid, sizeof uid, run->tool_version, run->commit, sqlite3_libversion(), run->command,
        run->argv_json, run->host, run->seed, run->started_us, or_empty(run->cwd), or_empty(run->machine),
        or_empty(run->build)));
    *run_id = sqlite3_last_insert_rowid(db->sql);
    return S2_OK;
}

s2_status s2_db_end_run(s2_db *db, int64_t run_id, int32_t exit_code, int64_t wall_us, s2_diag *diag)
{
    return s2_sql_run(db, diag, "UPDATE run SET exit_code=?, wall_us=? WHERE id=?", "iii", (int64_t)exit_code,
                      wall_us, run_id);
}

static s2_status check_hash(const s2_db *db, const s2_db_design *design, s2_diag *diag)
{
    char hash[S2_DB_HASH_HEX];
    s2_db_sha256(design->text, strlen(design->text), hash);
    if (strcmp(hash, design->hash) != 0)
        return s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "%s: a design's hash is not that of its text", db->path);
    return S2_OK;
}

s2_status s2_db_put_design(s2_db *db, int64_t run_id, const s2_db_design *design, int64_t *design_id,
                           s2_diag *diag)
{
    S2_TRY(check_hash(db, design, diag));
    S2_TRY(s2_sql_run(
        db, diag,
        "INSERT INTO design(hash,name,text,model,family,origin,n_layers,n_heads,n_kv_heads,head_dim,"
        "block_tok,density,sim_density,density_tok,created_us,run_id) "
        "VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?12,?13,?14,?15)"
        " ON CONFLICT(hash) DO UPDATE SET density=coalesce(density,excluded.density),"
        " density_tok=coalesce(density_tok,excluded.density_tok), deleted_us=NULL"
        " WHERE density IS NULL OR deleted_us IS NOT NULL",
        "ttttttiiiiidiii", design->hash, design->name, design->text, design->model, design->family,
        design->origin, (int64_t)design->n_layers, (int64_t)design->n_heads, (int64_t)design->n_kv_heads,
        (int64_t)design->head_dim, (int64_t)design->block_tok, design->density, design->density_tok,
        s2_db_now_us(), run_id));
    return s2_sql_int(db, diag, design_id, "SELECT id FROM design WHERE hash=?", "t", design->hash);
}

/* The next number of a result within its run; (run, seq) names a result in every file it is merged into. */
static s2_status next_seq(s2_db *db, int64_t run_id, int64_t *seq, s2_diag *diag)
{
    return s2_sql_int(db, diag, seq,
                      "SELECT 1+max(coalesce((SELECT max(seq) FROM chk WHERE run_id=?1),0),"
                      "coalesce((SELECT max(seq) FROM sim WHERE run_id=?1),0),"
                      "coalesce((SELECT max(seq) FROM validation WHERE run_id=?1),0),"
                      "coalesce((SELECT max(seq) FROM export WHERE run_id=?1),0))",
                      "i", run_id);
}

/*
 * Among several verdicts on one property the list shows the one with the widest scope (every length before
 * any one length), then the latest: "holds at 1k" must not hide "violated for every length".
 */
#define SHOWN_VERDICT(name)                                                                                  \
    "v_" name "=(SELECT verdict FROM chk JOIN run ON run.id=chk.run_id WHERE design_id=design.id"            \
    " AND property='" name "' ORDER BY scope_tok IS NULL DESC, scope_tok DESC, started_us DESC, chk.id DESC" \
    " LIMIT 1)"

/* ?1 .. ?2 are the designs: one or all of them, either way by the index. */
static const char VERDICTS[] =
    "UPDATE design SET " SHOWN_VERDICT("rows") "," SHOWN_VERDICT("union") "," SHOWN_VERDICT(
        "kv") "," SHOWN_VERDICT("group") "," SHOWN_VERDICT("shards") " WHERE id BETWEEN ?1 AND ?2";

static const char FORGET_PRICES[] = "DELETE FROM price WHERE design_id BETWEEN ?1 AND ?2";

/* The latest prediction of each phase and length, and how many there are. */
static const char PREDICTED[] =
    "INSERT INTO "
    "price(design_id,phase,len_tok,n,started_us,seq,gpu,batch,us,kv_bytes,density,unread,predicted)"
    " SELECT "
    "design_id,phase,len_tok,n,started_us,seq,gpu,batch,coalesce(time_us,bound_us),kv_head_pages_bytes,"
    "density,unread,error_pct IS NOT NULL"
    " FROM (SELECT sim.*,started_us,count(*) OVER (PARTITION BY design_id,phase,len_tok) AS n,"
    "  row_number() OVER (PARTITION BY design_id,phase,len_tok ORDER BY started_us DESC,sim.id DESC) AS place"
    "  FROM sim JOIN run ON run.id=sim.run_id WHERE design_id BETWEEN ?1 AND ?2) WHERE place=1";

/*
 * The latest timing on a GPU, of all layers: a run times one layer of each kind, which represents all
 * that read the same. A run that left layers out does not time the design.
 */
static const char MEASURED[] =
    "INSERT INTO price(design_id,phase,len_tok,n,started_us,seq,gpu,batch,gpu_us)"
    " SELECT design_id,phase,len_tok,0,started_us,0,device,batch,us FROM"
    "  (SELECT *,row_number() OVER (PARTITION BY design_id,phase,len_tok ORDER BY started_us DESC,run_id "
    "DESC)"
    "   AS place FROM"
    "   (SELECT v.design_id,CASE v.phase WHEN 'forward' THEN 'prefill' ELSE v.phase END AS phase,v.len_tok,"
    "    v.run_id,run.started_us,env.device,v.batch,sum(median_ms*1000*coalesce(layers_alike,1)) AS us"
    "    FROM validation v JOIN run ON run.id=v.run_id JOIN env ON env.id=env_id JOIN design ON"
    "    design.id=v.design_id WHERE v.design_id BETWEEN ?1 AND ?2 AND v.outcome='ok' AND device<>'cpu'"
    "    AND median_ms IS NOT NULL GROUP BY v.design_id,v.phase,v.len_tok,v.run_id"
    "    HAVING sum(coalesce(layers_alike,1))=n_layers))"
    " WHERE place=1 ON CONFLICT(design_id,phase,len_tok) DO UPDATE SET gpu_us=excluded.gpu_us";

/* The list shows a design's prices at the phase and length that were predicted most often. */
static const char SHOWN[] =
    "UPDATE design SET (sim_phase,sim_len_tok,sim_gpu,sim_batch,sim_us,kv_bytes,gpu_us,sim_density,"
    "sim_unread,sim_predicted)="
    "(SELECT phase,len_tok,gpu,batch,us,kv_bytes,gpu_us,density,unread,predicted FROM price WHERE "
    "design_id=design.id"
    " ORDER BY us IS NULL,n DESC,started_us DESC,seq DESC,phase DESC,len_tok LIMIT 1),"
    " outcome=(SELECT outcome FROM validation JOIN run ON run.id=validation.run_id WHERE design_id=design.id"
    " ORDER BY started_us DESC,validation.id DESC LIMIT 1) WHERE id BETWEEN ?1 AND ?2";

/* A design without a price has the density that it was stored with. */
static const char UNPRICED[] = "UPDATE design SET sim_density=density WHERE id BETWEEN ?1 AND ?2 AND "
                               "sim_phase IS NULL";

static s2_status refresh(s2_db *db, int64_t design_id, const char *const *steps, int32_t n, s2_diag *diag)
{
    const bool all = design_id == S2_DB_NONE;
    for (int32_t at = 0; at < n; at++)
        S2_TRY(
            s2_sql_run(db, diag, steps[at], "ii", all ? 0 : design_id, all ? (int64_t)INT64_MAX : design_id));
    return S2_OK;
}

static s2_status refresh_verdicts(s2_db *db, int64_t design_id, s2_diag *diag)
{
    static const char *const steps[] = {VERDICTS};
    return refresh(db, design_id, steps, 1, diag);
}

static s2_status refresh_prices(s2_db *db, int64_t design_id, s2_diag *diag)
{
    static const char *const steps[] = {FORGET_PRICES, PREDICTED, MEASURED, SHOWN, UNPRICED};
    return refresh(db, design_id, steps, 5, diag);
}

s2_db_check s2_db_check_of(const char *property, s2_db_verdict verdict)
{
    return (s2_db_check){.property = property,
                         .verdict = verdict,
                         .required = true,
                         .scope_tok = S2_DB_NONE,
                         .complete_to_tok = S2_DB_NONE,
                         .layer = S2_DB_NONE,
                         .head = S2_DB_NONE,
                         .query_tok = S2_DB_NONE,
                         .key_tok = S2_DB_NONE,
                         .engine = "algebra",
                         .wall_us = S2_DB_NONE};
}

s2_status s2_db_put_check(s2_db *db, int64_t run_id, int64_t design_id, const s2_db_check *check,
                          s2_diag *diag)
{
    int64_t seq;
    S2_TRY(next_seq(db, run_id, &seq, diag));
    S2_TRY(s2_sql_run(
        db, diag,
        "INSERT INTO chk(run_id,seq,design_id,property,verdict,required,scope_tok,complete_to_tok,layer,"
        "head,query_tok,key_tok,failing_layers,detail,engine,wall_us) "
        "VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        "iiitiiiiiiiittti", run_id, seq, design_id, check->property, (int64_t)check->verdict,
        (int64_t)check->required, check->scope_tok, check->complete_to_tok, check->layer, check->head,
        check->query_tok, check->key_tok, check->failing_layers, check->detail, check->engine,
        check->wall_us));
    return refresh_verdicts(db, design_id, diag);
}

s2_status s2_db_put_sim(s2_db *db, int64_t run_id, int64_t design_id, const s2_db_sim *sim, s2_diag *diag)
{
    int64_t seq;
    S2_TRY(next_seq(db, run_id, &seq, diag));
    S2_TRY(s2_sql_run(
        db, diag,
        "INSERT INTO sim(run_id,seq,design_id,gpu,model,phase,dtype,len_tok,batch,time_us,bound_us,"
        "dense_us,bound_by,density,hbm_bytes,kv_dense_bytes,kv_shared_pages_bytes,kv_head_pages_bytes,"
        "kv_ring_stripes_bytes,error_pct,json,unread) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        "iiittttiidddtdddddddtd", run_id, seq, design_id, sim->gpu, sim->model, sim->phase, sim->dtype,
        sim->len_tok, sim->batch, sim->time_us, sim->bound_us, sim->dense_us, sim->bound_by, sim->density,
        sim->hbm_bytes, sim->kv_dense_bytes, sim->kv_shared_pages_bytes, sim->kv_head_pages_bytes,
        sim->kv_ring_stripes_bytes, sim->error_pct, sim->json, sim->unread));
    return refresh_prices(db, design_id, diag);
}

static s2_status put_env(s2_db *db, const s2_db_validation *v, int64_t *env_id, s2_diag *diag)
{
    /* Length prefixes distinguish "a" + "bc" from "ab" + "c". */
    s2_buf facts = {0};
    const char *const field[] = {v->device, v->device_uuid, v->driver, v->runtime};
    for (size_t n = 0; n < sizeof field / sizeof field[0]; n++)
        s2_buf_printf(&facts, "%zu:%s", strlen(field[n]), field[n]);
    char sha[S2_DB_HASH_HEX];
    if (facts.status == S2_OK)
        s2_db_sha256(facts.data, facts.len, sha);
    const s2_status status = facts.status;
    s2_buf_release(&facts);
    S2_TRY(status);
    S2_TRY(s2_sql_run(db, diag,
                      "INSERT OR IGNORE INTO env(sha,device,device_uuid,driver,runtime) VALUES(?,?,?,?,?)",
                      "ttttt", sha, v->device, v->device_uuid, v->driver, v->runtime));
    return s2_sql_int(db, diag, env_id, "SELECT id FROM env WHERE sha=?", "t", sha);
}

s2_status s2_db_put_validation(s2_db *db, int64_t run_id, int64_t design_id, const s2_db_validation *v,
                               s2_diag *diag)
{
    int64_t seq, env_id;
    S2_TRY(next_seq(db, run_id, &seq, diag));
    S2_TRY(put_env(db, v, &env_id, diag));
    S2_TRY(s2_sql_run(
        db, diag,
        "INSERT INTO "
        "validation(run_id,seq,design_id,env_id,kernel,phase,dtype,outcome,reason,len_tok,batch,seed,pairs,"
        "pairs_wrong,max_err,tolerance,needles_found,needles_expected,median_ms,min_ms,sm_mhz,samples_f32,"
        "json,layer,layers_alike)"
        " VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        "iiiitttttiiiiiddiidddbtii", run_id, seq, design_id, env_id, v->kernel, v->phase, v->dtype,
        v->outcome, v->reason, v->len_tok, v->batch, v->seed, v->pairs, v->pairs_wrong, v->max_err,
        v->tolerance, v->needles_found, v->needles_expected, v->median_ms, v->min_ms, v->sm_mhz,
        (const void *)v->samples_ms, (size_t)v->n_samples * sizeof(float), v->json,
        v->layers_alike > 0 ? v->layer : S2_DB_NONE, v->layers_alike > 0 ? v->layers_alike : S2_DB_NONE));
    return refresh_prices(db, design_id, diag);
}

s2_status s2_db_put_export(s2_db *db, int64_t run_id, int64_t design_id, const s2_db_export *row,
                           s2_diag *diag)
{
    int64_t seq;
    S2_TRY(next_seq(db, run_id, &seq, diag));
    return s2_sql_run(db, diag,
                      "INSERT INTO export(run_id,seq,design_id,target,path,out_sha) VALUES(?,?,?,?,?,?)",
                      "iiittt", run_id, seq, design_id, row->target, row->path, row->out_hash);
}

s2_status s2_db_refresh(s2_db *db, int64_t design_id, s2_diag *diag)
{
    S2_TRY(refresh_verdicts(db, design_id, diag));
    return refresh_prices(db, design_id, diag);
}

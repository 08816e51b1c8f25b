#include "db/db.h"

#include <math.h>
#include <string.h>

#include <sqlite3.h>

#include "base/clock.h"
#include "db/sql.h"

const char *s2_db_verdict_word(s2_db_verdict verdict)
{
    static const char *const words[] = {"holds", "violated", "unknown"};
    return verdict >= S2_DB_HOLDS && verdict <= S2_DB_UNKNOWN ? words[verdict] : "-";
}

const char *s2_db_figure_word(s2_db_figure figure)
{
    static const char *const words[] = {"bound", "guessed", "predicted", "unknown"};
    return figure >= S2_DB_BOUND && figure <= S2_DB_UNSAID ? words[figure] : "-";
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
    char hash[S2_HASH_HEX];
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
        "block_tok,density,sim_density,density_tok,sim_len_tok,created_us,run_id) "
        "VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?12,?13,iif(?12 IS NULL,NULL,?13),?14,?15)"
        " ON CONFLICT(hash) DO UPDATE SET density=coalesce(density,excluded.density),"
        " density_tok=coalesce(density_tok,excluded.density_tok), deleted_us=NULL"
        " WHERE density IS NULL OR deleted_us IS NOT NULL",
        "ttttttiiiiidiii", design->hash, design->name, design->text, design->model, design->family,
        design->origin, (int64_t)design->n_layers, (int64_t)design->n_heads, (int64_t)design->n_kv_heads,
        (int64_t)design->head_dim, (int64_t)design->block_tok, design->density, design->density_tok,
        s2_unix_us(), run_id));
    return s2_sql_int(db, diag, design_id, "SELECT id FROM design WHERE hash=?", "t", design->hash);
}

/* The next number of a result within its run; (run, seq) names a result in every file it is merged into. */
static s2_status next_seq(s2_db *db, int64_t run_id, int64_t *seq, s2_diag *diag)
{
    return s2_sql_int(db, diag, seq,
                      "SELECT 1+max(coalesce((SELECT max(seq) FROM chk WHERE run_id=?1),0),"
                      "coalesce((SELECT max(seq) FROM sim WHERE run_id=?1),0),"
                      "coalesce((SELECT max(seq) FROM reach WHERE run_id=?1),0),"
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

/* What stands for the LLM where none is named: a search may choose among numbers of heads, but not of layers. */
#define UNNAMED "printf('%d-layers',n_layers)"

/*
 * The latest prediction of each kind at each phase and length, and how many commands predicted it: one may store a
 * bound and a prediction. Place 1 is the latest kind that has a time.
 */
static const char PREDICTED[] =
    "INSERT INTO "
    "price(design_id,phase,len_tok,place,n,started_us,seq,llm,gpu,batch,dtype,kv_dtype,weights,tp,"
    "kernel,settings,priced,us,kv_bytes,density,unread)"
    " SELECT design_id,phase,len_tok,row_number() OVER (PARTITION BY design_id,phase,len_tok"
    "  ORDER BY us IS NULL,started_us DESC,seq DESC,id "
    "DESC),n,started_us,seq,llm,gpu,batch,dtype,kv_dtype,weights,"
    "  tp,kernel,settings,priced,us,kv_bytes,density,unread FROM"
    "  (SELECT *,sum(turn=1) OVER (PARTITION BY design_id,phase,len_tok) AS n,row_number() OVER (PARTITION BY"
    "   design_id,phase,len_tok,llm,gpu,batch,dtype,kv_dtype,weights,tp,kernel,settings,priced"
    "   ORDER BY started_us DESC,id DESC) AS nth FROM"
    "   (SELECT sim.id,design_id,phase,len_tok,run.started_us,seq,"
    "    row_number() OVER (PARTITION BY design_id,phase,len_tok,sim.run_id ORDER BY sim.id) AS turn,"
    "    coalesce(nullif(sim.model,''),nullif(design.model,'')," UNNAMED ") AS llm,gpu,batch,dtype,"
    "    coalesce(kv_dtype,'unknown') AS kv_dtype,coalesce(weights,'unknown') AS weights,coalesce(tp,0) AS "
    "tp,"
    "    coalesce(kernel,'unknown') AS kernel,coalesce(settings,'unknown') AS settings,"
    "    iif(time_us IS NULL,0,priced) AS priced,coalesce(time_us,bound_us) AS us,"
    "    iif(phase='train',NULL,kv_head_pages_bytes) AS kv_bytes,"
    "    sim.density,unread FROM sim JOIN run ON run.id=sim.run_id JOIN design ON design.id=design_id"
    "    WHERE design_id BETWEEN ?1 AND ?2)) WHERE nth=1";

/*
 * A timing on a GPU, of all layers: a run times one layer of each kind, which represents all that read the
 * same. A run that left layers out does not time the design.
 */
#define PHASE_OF_PASS "CASE v.phase WHEN 'forward' THEN 'prefill' ELSE v.phase END"
#define TIMED_US      "sum(median_ms*1000*coalesce(layers_alike,1))"
#define TIMED         "v.outcome='ok' AND env.device<>'cpu' AND median_ms IS NOT NULL"
#define TIMED_GPU     "coalesce(v.gpu,env.device)"
#define TIMED_KERNELS "coalesce(v.kernels,'unknown')"
#define TIMINGS                                                                                              \
    " FROM validation v JOIN run ON run.id=v.run_id JOIN env ON env.id=env_id JOIN design d ON "             \
    "d.id=v.design_id"
#define OF_EACH_RUN                                                                                          \
    " GROUP BY v.run_id,v.design_id,v.phase,v.len_tok,v.batch,v.dtype," TIMED_GPU "," TIMED_KERNELS          \
    " HAVING sum(coalesce(layers_alike,1))=max(d.n_layers)"

/* A timing is shown with prices of the GPU that it ran on, for the same work by the same kernels on one GPU. */
static const char MEASURED[] =
    "UPDATE price SET gpu_us=(SELECT " TIMED_US TIMINGS " WHERE v.design_id=price.design_id AND " TIMED
    " AND " PHASE_OF_PASS "=price.phase AND v.len_tok=price.len_tok AND " TIMED_GPU "=price.gpu"
    " AND v.batch=price.batch AND v.dtype=price.dtype AND " TIMED_KERNELS "=price.kernel" OF_EACH_RUN
    " ORDER BY run.started_us DESC,v.run_id DESC LIMIT 1)"
    " WHERE design_id BETWEEN ?1 AND ?2 AND tp IN(0,1) AND kv_dtype IN(dtype,'unknown')"
    " AND settings IN('usual','unknown') AND EXISTS(SELECT 1 FROM validation WHERE "
    "design_id=price.design_id)";

/* A timing that no price is like is a row of its own. */
static const char MEASURED_ALONE[] =
    "INSERT INTO "
    "price(design_id,phase,len_tok,place,n,started_us,seq,llm,gpu,batch,dtype,kv_dtype,weights,tp,"
    "kernel,settings,gpu_us)"
    " SELECT design_id,phase,len_tok,(SELECT count(*) FROM price p WHERE p.design_id=t.design_id AND"
    "  p.phase=t.phase AND p.len_tok=t.len_tok)+row_number() OVER (PARTITION BY design_id,phase,len_tok"
    "  ORDER BY started_us DESC,run_id "
    "DESC,gpu,batch,dtype,kernel),0,started_us,0,llm,gpu,batch,dtype,dtype,dtype,1,"
    "  kernel,'usual',us FROM"
    " (SELECT *,row_number() OVER (PARTITION BY design_id,phase,len_tok,gpu,batch,dtype,kernel"
    "   ORDER BY started_us DESC,run_id DESC) AS nth FROM"
    "  (SELECT v.design_id," PHASE_OF_PASS " AS phase,v.len_tok,v.run_id,run.started_us," TIMED_GPU
    " AS gpu,coalesce(nullif(d.model,''),max(" UNNAMED ")) AS llm,"
    "   v.batch,v.dtype," TIMED_KERNELS " AS kernel," TIMED_US " AS us" TIMINGS
    "   WHERE v.design_id BETWEEN ?1 AND ?2 AND " TIMED OF_EACH_RUN ")) t"
    " WHERE nth=1 AND NOT EXISTS(SELECT 1 FROM price p WHERE p.design_id=t.design_id AND p.phase=t.phase AND"
    "  p.len_tok=t.len_tok AND p.gpu=t.gpu AND p.batch=t.batch AND p.dtype=t.dtype AND p.kernel=t.kernel AND"
    "  p.gpu_us IS NOT NULL)";

/* Hops and flow follow from the design and the length, so that any measure of them is as good as another. */
#define REACHED(column, of)                                                                                  \
    "(SELECT " column " FROM reach WHERE design_id=" of " AND " column                                       \
    " IS NOT NULL ORDER BY id DESC LIMIT 1)"
static const char REACHES[] =
    "UPDATE price SET hops=" REACHED("hops", "price.design_id AND len_tok=price.len_tok") ",flow=" REACHED(
        "flow", "price.design_id AND len_tok=price.len_tok") " WHERE design_id BETWEEN ?1 AND ?2"
                                                             " AND EXISTS(SELECT 1 FROM reach WHERE "
                                                             "design_id=price.design_id)";

/*
 * The list shows a design's latest price at the phase and length that were predicted most often. A run has a
 * row for each kind of layer: if one of them failed, the run did. The outcome is of s2's own kernels, as the price
 * next to it is: what a foreign one does says nothing of them.
 */
static const char SHOWN[] =
    "UPDATE design SET (sim_phase,sim_len_tok,sim_gpu,sim_batch,sim_us,kv_bytes,gpu_us,sim_density,"
    "sim_unread,sim_priced,sim_dtype,sim_kv_dtype,sim_weights,sim_tp,sim_kernel,sim_settings,sim_llm,"
    "sim_recall,sim_loss,sim_hops,sim_flow)="
    "(SELECT phase,len_tok,gpu,batch,us,kv_bytes,gpu_us,density,unread,priced,dtype,kv_dtype,weights,tp,"
    "kernel,settings,llm,recall,loss,hops,flow FROM price WHERE design_id=design.id AND place=1"
    " ORDER BY us IS NULL,n DESC,started_us DESC,seq DESC,phase DESC,len_tok LIMIT 1),"
    " outcome=(SELECT outcome FROM validation JOIN run ON run.id=validation.run_id WHERE design_id=design.id"
    " AND coalesce(kernels,'" S2_DB_OURS "')='" S2_DB_OURS "'"
    " ORDER BY started_us DESC,run_id DESC,outcome='ok',validation.id DESC LIMIT 1)"
    " WHERE id BETWEEN ?1 AND ?2";

/* A design without a price has the reach that was measured last, and the density of that length if it is known. */
static const char UNPRICED_REACH[] =
    "UPDATE design SET (sim_len_tok,sim_hops,sim_flow)=(SELECT len_tok,hops,flow FROM reach JOIN run ON"
    " run.id=reach.run_id WHERE design_id=design.id ORDER BY started_us DESC,run_id DESC,seq DESC LIMIT 1)"
    " WHERE id BETWEEN ?1 AND ?2 AND sim_phase IS NULL";
static const char UNPRICED[] =
    "UPDATE design SET sim_len_tok=coalesce(sim_len_tok,iif(density IS NULL,NULL,density_tok)),"
    "sim_density=iif(coalesce(sim_len_tok,density_tok)=density_tok,density,NULL)"
    " WHERE id BETWEEN ?1 AND ?2 AND sim_phase IS NULL";

static int64_t first_of(int64_t design_id)
{
    return design_id == S2_DB_NONE ? 0 : design_id;
}

static int64_t last_of(int64_t design_id)
{
    return design_id == S2_DB_NONE ? INT64_MAX : design_id;
}

static s2_status refresh(s2_db *db, int64_t design_id, const char *const *steps, int32_t n, s2_diag *diag)
{
    for (int32_t at = 0; at < n; at++)
        S2_TRY(s2_sql_run(db, diag, steps[at], "ii", first_of(design_id), last_of(design_id)));
    return S2_OK;
}

static s2_status refresh_verdicts(s2_db *db, int64_t design_id, s2_diag *diag)
{
    static const char *const steps[] = {VERDICTS};
    return refresh(db, design_id, steps, 1, diag);
}

static s2_status refresh_prices(s2_db *db, int64_t design_id, s2_diag *diag)
{
    static const char *const prices[] = {FORGET_PRICES, PREDICTED, MEASURED, MEASURED_ALONE, REACHES},
                             *const shown[] = {SHOWN, UNPRICED_REACH, UNPRICED};
    S2_TRY(refresh(db, design_id, prices, 5, diag));
    S2_TRY(s2_db_judge(db, first_of(design_id), last_of(design_id), diag));
    return refresh(db, design_id, shown, 3, diag);
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
        "kv_ring_stripes_bytes,error_pct,json,unread,kv_dtype,weights,tp,kernel,settings,priced)"
        " VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        "iiittttiidddtdddddddtdttitti", run_id, seq, design_id, sim->gpu, sim->model, sim->phase, sim->dtype,
        sim->len_tok, sim->batch, sim->time_us, sim->bound_us, sim->dense_us, sim->bound_by, sim->density,
        sim->hbm_bytes, sim->kv_dense_bytes, sim->kv_shared_pages_bytes, sim->kv_head_pages_bytes,
        sim->kv_ring_stripes_bytes, sim->error_pct, sim->json, sim->unread, sim->kv_dtype, sim->weights,
        sim->tp > 0 ? sim->tp : S2_DB_NONE, sim->kernel, sim->settings, (int64_t)sim->priced));
    return refresh_prices(db, design_id, diag);
}

s2_status s2_db_put_reach(s2_db *db, int64_t run_id, int64_t design_id, const s2_db_reach *reach,
                          s2_diag *diag)
{
    int64_t seq;
    S2_TRY(next_seq(db, run_id, &seq, diag));
    S2_TRY(s2_sql_run(db, diag,
                      "INSERT INTO reach(run_id,seq,design_id,len_tok,hops,flow) VALUES(?,?,?,?,?,?)",
                      "iiiiid", run_id, seq, design_id, reach->len_tok, reach->hops, reach->flow));
    return refresh_prices(db, design_id, diag);
}

static s2_status put_env(s2_db *db, const s2_db_validation *v, int64_t *env_id, s2_diag *diag)
{
    /* Length prefixes distinguish "a" + "bc" from "ab" + "c". */
    s2_buf facts = {0};
    const char *const field[] = {v->device, v->device_uuid, v->driver, v->runtime};
    for (size_t n = 0; n < sizeof field / sizeof field[0]; n++)
        s2_buf_printf(&facts, "%zu:%s", strlen(field[n]), field[n]);
    char sha[S2_HASH_HEX];
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
        "json,layer,layers_alike,gpu,kernels)"
        " VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        "iiiitttttiiiiiddiidddbtiitt", run_id, seq, design_id, env_id, v->kernel, v->phase, v->dtype,
        v->outcome, v->reason, v->len_tok, v->batch, v->seed, v->pairs, v->pairs_wrong, v->max_err,
        v->tolerance, v->needles_found, v->needles_expected, v->median_ms, v->min_ms, v->sm_mhz,
        (const void *)v->samples_ms, (size_t)v->n_samples * sizeof(float), v->json,
        v->layers_alike > 0 ? v->layer : S2_DB_NONE, v->layers_alike > 0 ? v->layers_alike : S2_DB_NONE,
        v->gpu, v->kernels));
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

s2_status s2_db_refresh(s2_db *db, s2_diag *diag)
{
    S2_TRY(refresh_verdicts(db, S2_DB_NONE, diag));
    return refresh_prices(db, S2_DB_NONE, diag);
}

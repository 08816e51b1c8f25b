/*
 * The schema as numbered steps. A published step is never edited: a change is a new step at the end.
 * docs/database.md says what each table is for and where this differs from common practice.
 */
#include "db/sql.h"

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

/* What a design costs, predicted and measured, and where it was exported. */
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
    /*
     * The key's columns come first: the quick_check of SQLite 3.40 misreads WITHOUT ROWID tables otherwise.
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

/* "union=holds, by time": one verdict covers half of all rows, so its index must also give the order. */
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
 * One price for each phase and length of a design, so that a list never mixes them; and for a run, where
 * and on what it ran. Older files get their prices for all designs from s2_db_migrate(), and for one design
 * when it is next refreshed.
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

/*
 * Each price says what is read at its length, what is given up there, and whether its time is a prediction or
 * a bound. sim.unread is NULL in older files and filled in from the report if that has it.
 */
static const char SHARES[] =
    "ALTER TABLE sim ADD COLUMN unread REAL;\n"
    "UPDATE sim SET unread=1.0-1.0*json_extract(json,'$.pairs.read')/json_extract(json,'$.pairs.causal')"
    " WHERE phase<>'decode' AND json_valid(json) AND json_type(json,'$.pairs.read')='integer'"
    " AND json_type(json,'$.pairs.causal')='integer';\n"
    "ALTER TABLE price ADD COLUMN density REAL;\n"
    "ALTER TABLE price ADD COLUMN unread REAL;\n"
    "ALTER TABLE price ADD COLUMN predicted INTEGER;\n"
    "ALTER TABLE design ADD COLUMN sim_density REAL;\n"
    "ALTER TABLE design ADD COLUMN sim_unread REAL;\n"
    "ALTER TABLE design ADD COLUMN sim_predicted INTEGER;\n"
    "DROP INDEX design_density;\n"
    "CREATE INDEX design_density ON design(sim_density,id) WHERE deleted_us IS NULL;\n"
    "CREATE INDEX design_unread ON design(sim_unread,id) WHERE deleted_us IS NULL;\n"
    "CREATE INDEX price_unread ON price(phase,len_tok,unread,design_id);\n";

/*
 * No file may hold what no s2 writes: amounts are finite and not negative, lengths and batches positive.
 * SQLite cannot add a CHECK to an existing table, but accepts one with a new column, so each table gets a
 * computed column that is not stored. An unknown (NULL) breaks no rule. In older files, figures that break
 * a rule become unknown, and rows without a length are dropped.
 */
static const char RANGES[] =
    "UPDATE run SET started_us=0 WHERE started_us<0;\n"
    "UPDATE run SET wall_us=iif(wall_us>=0,wall_us,NULL),"
    " exit_code=iif(exit_code BETWEEN 0 AND 255,exit_code,NULL);\n"
    "ALTER TABLE run ADD COLUMN sound INTEGER AS (started_us>=0 AND wall_us>=0 AND "
    " exit_code BETWEEN 0 AND 255) VIRTUAL CHECK(sound);\n"
    "UPDATE design SET created_us=0 WHERE created_us<0;\n"
    "UPDATE design SET density=iif(density BETWEEN 0.0 AND 1.7e308,density,NULL),"
    " density_tok=iif(density_tok>=0,density_tok,NULL);\n"
    "ALTER TABLE design ADD COLUMN sound INTEGER AS (created_us>=0 AND "
    " density BETWEEN 0.0 AND 1.7e308 AND density_tok>=0) VIRTUAL CHECK(sound);\n"
    "UPDATE chk SET scope_tok=iif(scope_tok>=0,scope_tok,NULL),"
    " complete_to_tok=iif(complete_to_tok>=0,complete_to_tok,NULL),layer=iif(layer>=0,layer,NULL),"
    " head=iif(head>=0,head,NULL),query_tok=iif(query_tok>=0,query_tok,NULL),"
    " key_tok=iif(key_tok>=0,key_tok,NULL),wall_us=iif(wall_us>=0,wall_us,NULL);\n"
    "ALTER TABLE chk ADD COLUMN sound INTEGER AS (scope_tok>=0 AND complete_to_tok>=0 AND "
    " layer>=0 AND head>=0 AND query_tok>=0 AND key_tok>=0 AND wall_us>=0) VIRTUAL CHECK(sound);\n"
    "DELETE FROM sim WHERE len_tok<1 OR batch<1;\n"
    "UPDATE sim SET time_us=iif(time_us BETWEEN 0.0 AND 1.7e308,time_us,NULL),"
    " bound_us=iif(bound_us BETWEEN 0.0 AND 1.7e308,bound_us,NULL),"
    " dense_us=iif(dense_us BETWEEN 0.0 AND 1.7e308,dense_us,NULL),"
    " density=iif(density BETWEEN 0.0 AND 1.7e308,density,NULL),"
    " hbm_bytes=iif(hbm_bytes BETWEEN 0.0 AND 1.7e308,hbm_bytes,NULL),"
    " kv_dense_bytes=iif(kv_dense_bytes BETWEEN 0.0 AND 1.7e308,kv_dense_bytes,NULL),"
    " kv_shared_pages_bytes=iif(kv_shared_pages_bytes BETWEEN 0.0 AND 1.7e308,kv_shared_pages_bytes,NULL),"
    " kv_head_pages_bytes=iif(kv_head_pages_bytes BETWEEN 0.0 AND 1.7e308,kv_head_pages_bytes,NULL),"
    " kv_ring_stripes_bytes=iif(kv_ring_stripes_bytes BETWEEN 0.0 AND 1.7e308,kv_ring_stripes_bytes,NULL),"
    " error_pct=iif(error_pct BETWEEN -1.7e308 AND 1.7e308,error_pct,NULL),"
    " unread=iif(unread BETWEEN -1.7e308 AND 1.7e308,unread,NULL);\n"
    "ALTER TABLE sim ADD COLUMN sound INTEGER AS (len_tok>=1 AND batch>=1 AND "
    " time_us BETWEEN 0.0 AND 1.7e308 AND bound_us BETWEEN 0.0 AND 1.7e308 AND "
    " dense_us BETWEEN 0.0 AND 1.7e308 AND density BETWEEN 0.0 AND 1.7e308 AND "
    " hbm_bytes BETWEEN 0.0 AND 1.7e308 AND kv_dense_bytes BETWEEN 0.0 AND 1.7e308 AND "
    " kv_shared_pages_bytes BETWEEN 0.0 AND 1.7e308 AND "
    " kv_head_pages_bytes BETWEEN 0.0 AND 1.7e308 AND "
    " kv_ring_stripes_bytes BETWEEN 0.0 AND 1.7e308 AND error_pct BETWEEN -1.7e308 AND 1.7e308 AND "
    " unread BETWEEN -1.7e308 AND 1.7e308) VIRTUAL CHECK(sound);\n"
    "DELETE FROM validation WHERE len_tok<1 OR batch<1;\n"
    "UPDATE validation SET pairs=iif(pairs>=0,pairs,NULL),"
    " pairs_wrong=iif(pairs_wrong>=0,pairs_wrong,NULL),"
    " needles_found=iif(needles_found>=0,needles_found,NULL),"
    " needles_expected=iif(needles_expected>=0,needles_expected,NULL),layer=iif(layer>=0,layer,NULL),"
    " layers_alike=iif(layers_alike>=0,layers_alike,NULL),"
    " max_err=iif(max_err BETWEEN 0.0 AND 1.7e308,max_err,NULL),"
    " tolerance=iif(tolerance BETWEEN 0.0 AND 1.7e308,tolerance,NULL),"
    " median_ms=iif(median_ms BETWEEN 0.0 AND 1.7e308,median_ms,NULL),"
    " min_ms=iif(min_ms BETWEEN 0.0 AND 1.7e308,min_ms,NULL),"
    " sm_mhz=iif(sm_mhz BETWEEN 0.0 AND 1.7e308,sm_mhz,NULL);\n"
    "ALTER TABLE validation ADD COLUMN sound INTEGER AS (len_tok>=1 AND batch>=1 AND pairs>=0 AND "
    " pairs_wrong>=0 AND needles_found>=0 AND needles_expected>=0 AND layer>=0 AND "
    " layers_alike>=0 AND max_err BETWEEN 0.0 AND 1.7e308 AND tolerance BETWEEN 0.0 AND 1.7e308 AND "
    " median_ms BETWEEN 0.0 AND 1.7e308 AND min_ms BETWEEN 0.0 AND 1.7e308 AND "
    " sm_mhz BETWEEN 0.0 AND 1.7e308) VIRTUAL CHECK(sound);\n";

/*
 * A price has a kind: LLM, GPU, batch, types, ranks, kernels and settings. A design may have several at one phase
 * and length; place 1 is the latest. In older files the kind is read from the report, and what a search did not
 * report of a design from another of the same search. Unknown (NULL) is a kind of its own. A timing belongs to the
 * GPU that it ran on.
 */
static const char KINDS[] =
    "ALTER TABLE sim ADD COLUMN kv_dtype TEXT CHECK(length(kv_dtype)<=32);\n"
    "ALTER TABLE sim ADD COLUMN weights TEXT CHECK(length(weights)<=32);\n"
    "ALTER TABLE sim ADD COLUMN tp INTEGER CHECK(tp>=1);\n"
    "ALTER TABLE sim ADD COLUMN kernel TEXT CHECK(length(kernel)<=64);\n"
    "ALTER TABLE sim ADD COLUMN settings TEXT CHECK(length(settings)<=200);\n"
    "UPDATE sim SET "
    "kv_dtype=CASE WHEN json_type(json,'$.kv_dtype')='text' AND length(json_extract(json,'$.kv_dtype'))<=32 "
    "THEN"
    " iif(json_extract(json,'$.kv_dtype')='as-dtype',dtype,json_extract(json,'$.kv_dtype')) END,"
    "weights=CASE WHEN json_type(json,'$.weights')='text' AND length(json_extract(json,'$.weights'))<=32 THEN"
    " iif(json_extract(json,'$.weights')='as-dtype',dtype,json_extract(json,'$.weights')) END,"
    "tp=iif(json_type(json,'$.tp')='integer' AND "
    "json_extract(json,'$.tp')>=1,json_extract(json,'$.tp'),NULL),"
    "kernel=CASE WHEN json_type(json,'$.prediction.caches')='text' THEN"
    " iif(json_type(json,'$.prediction.kernel')='text',substr(json_extract(json,'$.prediction.kernel'),1,64),"
    " 'unknown') ELSE 's2' END,"
    /* reports do not say all of it, but the command does that somebody asked for something unusual */
    "settings=CASE WHEN EXISTS(SELECT 1 FROM run WHERE run.id=run_id AND (instr(argv_json,'\"--page')"
    " OR instr(argv_json,'\"--dp') OR instr(argv_json,'\"--recompute'))) THEN 'unknown'"
    " WHEN phase<>'train' AND kv_head_pages_bytes=json_extract(json,'$.kv.dense')"
    " AND kv_head_pages_bytes>json_extract(json,'$.kv.head_pages') THEN 'keeps=all' ELSE 'usual' END"
    " WHERE json_valid(json) AND json_extract(json,'$.schema')='s2sim/1';\n"
    "UPDATE sim SET settings='keeps=all' FROM (SELECT DISTINCT run_id,phase,len_tok FROM sim WHERE"
    " settings='keeps=all') o WHERE sim.settings='usual' AND o.run_id=sim.run_id AND o.phase=sim.phase"
    " AND o.len_tok=sim.len_tok;\n"
    "UPDATE sim SET kv_dtype=o.kv_dtype,weights=o.weights,tp=o.tp,kernel=o.kernel,settings=o.settings FROM"
    " (SELECT min(id),run_id,phase,len_tok,kv_dtype,weights,tp,kernel,settings FROM sim WHERE tp IS NOT NULL"
    "  GROUP BY run_id,phase,len_tok) o WHERE sim.kernel IS NULL AND o.run_id=sim.run_id AND "
    "o.phase=sim.phase"
    " AND o.len_tok=sim.len_tok;\n"
    "ALTER TABLE validation ADD COLUMN gpu TEXT CHECK(length(gpu)<=200);\n"
    "ALTER TABLE validation ADD COLUMN kernels TEXT CHECK(length(kernels)<=200);\n"
    "UPDATE validation SET gpu=iif(json_type(json,'$.predicted.gpu')='text',"
    "substr(json_extract(json,'$.predicted.gpu'),1,200),NULL),"
    "kernels=iif(json_type(json,'$.versions') IS NULL AND json_type(json,'$.ours_kernel') IS "
    "NULL,'s2',kernel)"
    " WHERE json_valid(json);\n"
    "DROP TABLE price;\n"
    "CREATE TABLE price(design_id INTEGER NOT NULL REFERENCES design(id), phase TEXT NOT NULL,"
    " len_tok INTEGER NOT NULL, place INTEGER NOT NULL, n INTEGER NOT NULL, started_us INTEGER NOT NULL,"
    " seq INTEGER NOT NULL, llm TEXT NOT NULL, gpu TEXT NOT NULL, batch INTEGER NOT NULL, dtype TEXT NOT "
    "NULL,"
    " kv_dtype TEXT NOT NULL, weights TEXT NOT NULL, tp INTEGER NOT NULL, kernel TEXT NOT NULL,"
    " settings TEXT NOT NULL, predicted INTEGER, us REAL, kv_bytes REAL, gpu_us REAL, density REAL,"
    " unread REAL, PRIMARY KEY(design_id,phase,len_tok,place)) STRICT, WITHOUT ROWID;\n"
    "CREATE INDEX price_us ON price(phase,len_tok,us,design_id);\n"
    "CREATE INDEX price_kv ON price(phase,len_tok,kv_bytes,design_id);\n"
    "CREATE INDEX price_gpu ON price(phase,len_tok,gpu_us,design_id) WHERE gpu_us IS NOT NULL;\n"
    "CREATE INDEX price_unread ON price(phase,len_tok,unread,design_id);\n"
    "ALTER TABLE design ADD COLUMN sim_llm TEXT;\n"
    "ALTER TABLE design ADD COLUMN sim_dtype TEXT;\n"
    "ALTER TABLE design ADD COLUMN sim_kv_dtype TEXT;\n"
    "ALTER TABLE design ADD COLUMN sim_weights TEXT;\n"
    "ALTER TABLE design ADD COLUMN sim_tp INTEGER;\n"
    "ALTER TABLE design ADD COLUMN sim_kernel TEXT;\n"
    "ALTER TABLE design ADD COLUMN sim_settings TEXT;\n";

/*
 * What a design is worth at the length of its price, where that is judged. It follows from the design's text, so
 * s2_db_migrate() fills it in for all designs; another fit of the figures needs another step.
 */
static const char WORTH[] = "ALTER TABLE price ADD COLUMN recall REAL;\n"
                            "ALTER TABLE price ADD COLUMN loss REAL;\n"
                            "ALTER TABLE design ADD COLUMN sim_recall REAL;\n"
                            "ALTER TABLE design ADD COLUMN sim_loss REAL;\n";

/* Fewer patterns are judged: no layer with a state or numbers of its own, no head of which a query reads nothing. */
static const char WORTH_OF_FEWER[] = "UPDATE price SET recall=NULL,loss=NULL;\n";

/*
 * A price is a bound, a guess or a prediction (s2_db_figure). In older files the report says which; what a search did
 * not report is what another design of the same search is, since all are priced with the same constants. How far
 * information gets is a result of its own, which no older file has.
 */
static const char FIGURES[] =
    "ALTER TABLE sim ADD COLUMN priced INTEGER NOT NULL DEFAULT 3 CHECK(priced BETWEEN 0 AND 3);\n"
    "UPDATE sim SET priced=0 WHERE error_pct IS NULL;\n"
    "UPDATE sim SET priced=1+json_extract(json,'$.prediction.measured') WHERE priced=3 AND json_valid(json)"
    " AND json_type(json,'$.prediction.measured') IN('true','false');\n"
    "UPDATE sim SET priced=o.priced FROM (SELECT min(id),run_id,phase,len_tok,priced FROM sim WHERE"
    " priced IN(1,2) GROUP BY run_id,phase,len_tok) o WHERE sim.priced=3 AND o.run_id=sim.run_id"
    " AND o.phase=sim.phase AND o.len_tok=sim.len_tok;\n"
    "CREATE TABLE reach(id INTEGER PRIMARY KEY, run_id INTEGER NOT NULL REFERENCES run(id), seq INTEGER NOT "
    "NULL,"
    " design_id INTEGER NOT NULL REFERENCES design(id), len_tok INTEGER NOT NULL CHECK(len_tok>=1),"
    " hops INTEGER CHECK(hops>=0), flow REAL CHECK(flow BETWEEN 0.0 AND 1.0),"
    " UNIQUE(run_id,seq)) STRICT;\n"
    "CREATE INDEX reach_design ON reach(design_id,len_tok);\n"
    "ALTER TABLE price RENAME COLUMN predicted TO priced;\n"
    "ALTER TABLE price ADD COLUMN hops INTEGER;\n"
    "ALTER TABLE price ADD COLUMN flow REAL;\n"
    "ALTER TABLE design RENAME COLUMN sim_predicted TO sim_priced;\n"
    "ALTER TABLE design ADD COLUMN sim_hops INTEGER;\n"
    "ALTER TABLE design ADD COLUMN sim_flow REAL;\n";

const s2_db_migration s2_db_migrations[S2_DB_SCHEMA_VERSION] = {
    {1, PROOFS}, {2, MEASUREMENTS}, {3, PEOPLE}, {4, UNION_IN_ORDER}, {5, VIEWS},           {6, PRICES},
    {7, SHARES}, {8, RANGES},       {9, KINDS},  {10, WORTH},         {11, WORTH_OF_FEWER}, {12, FIGURES}};

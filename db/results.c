/* What is stored of one design, or by one run, told line by line. */
#include "db/db.h"

#include <sqlite3.h>

#include "db/sql.h"

/* A merged file brings older rows under newer numbers. */
#define LATEST_FIRST " ORDER BY run.started_us DESC,r.id DESC LIMIT ?2"

/*
 * One statement a kind, all with the same columns. SQLite prints the numbers into the sentence, so that a
 * list of everything needs no type of its own for each kind.
 */
#define CHECKS(whose)                                                                                        \
    "SELECT d.name,d.hash,r.property,CASE r.verdict WHEN 0 THEN 'holds' WHEN 1 THEN 'violated' ELSE "        \
    "'unknown' END"                                                                                          \
    "||CASE WHEN r.scope_tok IS NULL THEN ' for every length' ELSE printf(' at %d tokens',r.scope_tok) END"  \
    "||CASE WHEN r.verdict=1 AND r.complete_to_tok IS NOT NULL THEN printf('; complete to %d tokens',"       \
    "r.complete_to_tok) ELSE '' END"                                                                         \
    "||CASE WHEN r.key_tok IS NOT NULL THEN printf('; layer %d query %d key %d',r.layer,r.query_tok,"        \
    "r.key_tok) ELSE '' END||coalesce('; '||r.detail,''),"                                                   \
    "r.verdict,run.started_us,r.run_id,r.id FROM chk r JOIN run ON run.id=r.run_id JOIN design d ON"         \
    " d.id=r.design_id WHERE " whose "=?1" LATEST_FIRST
#define SIMS(whose)                                                                                          \
    "SELECT d.name,d.hash,r.phase,printf('%s, %d tokens x %d, %s',r.gpu,r.len_tok,r.batch,r.dtype)"          \
    "||CASE WHEN r.time_us IS NULL THEN '' ELSE printf(': >= %.4g us',r.time_us) END"                        \
    "||CASE WHEN r.dense_us IS NULL THEN '' ELSE printf(', dense %.4g us',r.dense_us) END"                   \
    "||CASE WHEN r.bound_by='' THEN '' ELSE ' by '||r.bound_by END"                                          \
    "||CASE WHEN r.kv_head_pages_bytes IS NULL THEN '' ELSE printf('; KV %.4g MiB of %.4g',"                 \
    "r.kv_head_pages_bytes/1048576.0,r.kv_dense_bytes/1048576.0) END,"                                       \
    "NULL,run.started_us,r.run_id,r.id FROM sim r JOIN run ON run.id=r.run_id JOIN design d ON"              \
    " d.id=r.design_id WHERE " whose "=?1" LATEST_FIRST
#define VALIDATIONS(whose)                                                                                   \
    "SELECT d.name,d.hash,r.outcome,printf('%s, %s, %s, %d tokens x %d, %s',env.device,r.kernel,r.phase,"    \
    "r.len_tok,r.batch,r.dtype)"                                                                             \
    "||CASE WHEN r.pairs IS NULL THEN '' ELSE printf('; %d pairs, %d wrong',r.pairs,r.pairs_wrong) END"      \
    "||CASE WHEN r.max_err IS NULL THEN '' ELSE printf('; error %.2g of %.2g',r.max_err,r.tolerance) END"    \
    "||CASE WHEN r.median_ms IS NULL THEN '' ELSE printf('; %.4g ms',r.median_ms) END"                       \
    "||coalesce('; '||r.reason,''),"                                                                         \
    "CASE r.outcome WHEN 'ok' THEN 0 ELSE 1 END,run.started_us,r.run_id,r.id FROM validation r JOIN env ON"  \
    " env.id=r.env_id JOIN run ON run.id=r.run_id JOIN design d ON d.id=r.design_id"                         \
    " WHERE " whose "=?1" LATEST_FIRST
#define EXPORTS(whose)                                                                                       \
    "SELECT d.name,d.hash,r.target,CASE r.path WHEN '' THEN 'standard output' ELSE r.path END,NULL,"         \
    "run.started_us,r.run_id,r.id FROM export r JOIN run ON run.id=r.run_id JOIN design d ON"                \
    " d.id=r.design_id WHERE " whose "=?1" LATEST_FIRST
static const char NOTES[] =
    "SELECT d.name,d.hash,'note',r.body,NULL,r.at_us,0,r.id FROM note r JOIN design d ON d.id=r.design_id"
    " WHERE r.design_id=?1 ORDER BY r.at_us DESC,r.id DESC LIMIT ?2";

/* Of a design and of a run; a run has no notes. */
static const char *const SQL[S2_DB_N_KINDS][2] = {
    [S2_DB_KIND_NOTE] = {NOTES, NULL},
    [S2_DB_KIND_VALIDATION] = {VALIDATIONS("r.design_id"), VALIDATIONS("r.run_id")},
    [S2_DB_KIND_CHECK] = {CHECKS("r.design_id"), CHECKS("r.run_id")},
    [S2_DB_KIND_SIM] = {SIMS("r.design_id"), SIMS("r.run_id")},
    [S2_DB_KIND_EXPORT] = {EXPORTS("r.design_id"), EXPORTS("r.run_id")},
};

static s2_status read_result(s2_arena *arena, sqlite3_stmt *s, s2_db_result *out)
{
    out->design = s2_sql_text(arena, s, 0);
    out->hash = s2_sql_text(arena, s, 1);
    out->word = s2_sql_text(arena, s, 2);
    out->text = s2_sql_text(arena, s, 3);
    out->verdict = s2_sql_column_int(s, 4);
    out->at_us = s2_sql_column_int(s, 5);
    out->run_id = s2_sql_column_int(s, 6);
    out->id = s2_sql_column_int(s, 7);
    const bool whole = out->design != NULL && out->hash != NULL && out->word != NULL && out->text != NULL;
    return whole ? S2_OK : S2_ENOMEM;
}

static s2_status add_kind(s2_db *db, s2_arena *arena, s2_db_kind kind, bool of_run, int64_t id, int32_t cap,
                          s2_db_result *results, int32_t *n, s2_diag *diag)
{
    sqlite3_stmt *s;
    if (SQL[kind][of_run] == NULL)
        return S2_OK;
    S2_TRY(s2_sql_prepare(db, SQL[kind][of_run], &s, diag));
    sqlite3_bind_int64(s, 1, id);
    sqlite3_bind_int(s, 2, cap - *n);
    for (bool has_row; *n < cap; (*n)++) {
        S2_TRY(s2_sql_step(db, s, &has_row, diag));
        if (!has_row)
            break;
        results[*n].kind = kind;
        S2_TRY(read_result(arena, s, &results[*n]));
    }
    sqlite3_reset(s);
    return S2_OK;
}

s2_status s2_db_results(s2_db *db, s2_arena *arena, bool of_run, int64_t id, int32_t cap,
                        s2_db_result *results, int32_t *n_results, s2_diag *diag)
{
    int32_t n = 0;
    for (int kind = 0; kind < S2_DB_N_KINDS; kind++)
        S2_TRY(add_kind(db, arena, (s2_db_kind)kind, of_run, id, cap, results, &n, diag));
    *n_results = n;
    return S2_OK;
}

s2_status s2_db_needles(s2_db *db, s2_arena *arena, int64_t validation_id, int32_t cap, s2_db_needle *rows,
                        int32_t *n_rows, s2_diag *diag)
{
    sqlite3_stmt *s;
    S2_TRY(s2_sql_prepare(db,
                          "SELECT json_extract(e.value,'$.len'),json_extract(e.value,'$.cells') FROM"
                          " validation v,json_each(CASE WHEN json_valid(v.json) THEN v.json ELSE '{}' END,"
                          "'$.needles.grid') e WHERE v.id=?1 AND e.type='object' LIMIT ?2",
                          &s, diag));
    sqlite3_bind_int64(s, 1, validation_id);
    sqlite3_bind_int(s, 2, cap);
    int32_t n = 0;
    for (bool has_row; n < cap; n++) {
        S2_TRY(s2_sql_step(db, s, &has_row, diag));
        if (!has_row)
            break;
        rows[n].len_tok = s2_sql_column_int(s, 0);
        rows[n].cells = s2_sql_text(arena, s, 1);
        if (rows[n].cells == NULL)
            return S2_ENOMEM;
    }
    sqlite3_reset(s);
    *n_rows = n;
    return S2_OK;
}

/* A sum over rows of which one has no value has none. */
static const char TIMING[] =
    "SELECT coalesce(max(CASE WHEN v.outcome<>'ok' THEN v.outcome END),'ok'),env.device,"
    "CASE WHEN count(median_ms)=count(*) THEN sum(median_ms*1000*layers_alike) END"
    " FROM validation v JOIN run ON run.id=v.run_id JOIN env ON env.id=v.env_id JOIN design d ON"
    " d.id=v.design_id WHERE d.hash=?1 AND v.phase=?2 AND v.dtype=?3 AND v.len_tok=?4 AND v.batch=?5"
    " AND run.started_us>=?6 AND (env.device='cpu')=?7"
    " GROUP BY v.run_id HAVING sum(coalesce(layers_alike,0))=d.n_layers ORDER BY run.started_us DESC LIMIT 1";

s2_status s2_db_timing_of(s2_db *db, s2_arena *arena, const s2_db_timing_query *query, s2_db_timing *out,
                          s2_diag *diag)
{
    sqlite3_stmt *s;
    bool has_row;
    s2_db_timing found = {0};
    S2_TRY(s2_sql_prepare(db, TIMING, &s, diag));
    sqlite3_bind_text(s, 1, query->hash, -1, SQLITE_STATIC);
    sqlite3_bind_text(s, 2, query->phase, -1, SQLITE_STATIC);
    sqlite3_bind_text(s, 3, query->dtype, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 4, query->len_tok);
    sqlite3_bind_int64(s, 5, query->batch);
    sqlite3_bind_int64(s, 6, query->since_us);
    sqlite3_bind_int(s, 7, query->on_cpu);
    S2_TRY(s2_sql_step(db, s, &has_row, diag));
    if (has_row) {
        found.outcome = s2_sql_text(arena, s, 0);
        found.device = s2_sql_text(arena, s, 1);
        found.us = s2_sql_column_num(s, 2);
    }
    sqlite3_reset(s);
    if (has_row && (found.outcome == NULL || found.device == NULL))
        return S2_ENOMEM;
    *out = found;
    return S2_OK;
}

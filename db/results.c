/* What is stored about one design, or by one run. */
#include "db/db.h"

#include <sqlite3.h>
#include <string.h>

#include "db/sql.h"

/* A merged file brings older rows under newer numbers. */
#define LATEST_FIRST " ORDER BY run.started_us DESC,r.id DESC LIMIT ?2"

/* One statement per kind: the columns that all have, then its own in the order in which they are read. */
#define COMMON "d.name,d.hash,run.started_us,r.run_id,r.id"
#define JOINED(table, whose)                                                                                 \
    " FROM " table " JOIN run ON run.id=r.run_id JOIN design d ON d.id=r.design_id WHERE " whose             \
    "=?1" LATEST_FIRST
#define CHECKS(whose)                                                                                        \
    "SELECT " COMMON ",property,verdict,required,scope_tok,complete_to_tok,layer,head,query_tok,key_tok,"    \
    "failing_layers,detail,engine,r.wall_us" JOINED("chk r", whose)
#define SIMS(whose)                                                                                          \
    "SELECT " COMMON                                                                                         \
    ",r.gpu,r.model,phase,dtype,len_tok,batch,time_us,bound_us,dense_us,bound_by,r.density,"                 \
    "unread,hbm_bytes,kv_dense_bytes,kv_shared_pages_bytes,kv_head_pages_bytes,kv_ring_stripes_bytes,"       \
    "error_pct,kv_dtype,weights,tp,kernel,settings,priced" JOINED("sim r", whose)
#define REACHES(whose) "SELECT " COMMON ",len_tok,hops,flow" JOINED("reach r", whose)
#define VALIDATIONS(whose)                                                                                   \
    "SELECT " COMMON ",env.device,env.device_uuid,env.driver,env.runtime,kernel,phase,dtype,r.outcome,"      \
    "reason,len_tok,batch,r.seed,pairs,pairs_wrong,max_err,tolerance,needles_found,needles_expected,"        \
    "median_ms,min_ms,sm_mhz,layer,layers_alike,r.gpu,kernels" JOINED(                                       \
        "validation r JOIN env ON env.id=r.env_id", whose)
#define EXPORTS(whose) "SELECT " COMMON ",target,path,out_sha" JOINED("export r", whose)
static const char NOTES[] =
    "SELECT d.name,d.hash,r.at_us,0,r.id,r.body FROM note r JOIN design d ON d.id=r.design_id"
    " WHERE r.design_id=?1 ORDER BY r.at_us DESC,r.id DESC LIMIT ?2";

/* The queries for the results of a design, and for those of a run; a run has no notes. */
static const char *const SQL[S2_DB_N_KINDS][2] = {
    [S2_DB_KIND_NOTE] = {NOTES, NULL},
    [S2_DB_KIND_VALIDATION] = {VALIDATIONS("r.design_id"), VALIDATIONS("r.run_id")},
    [S2_DB_KIND_CHECK] = {CHECKS("r.design_id"), CHECKS("r.run_id")},
    [S2_DB_KIND_SIM] = {SIMS("r.design_id"), SIMS("r.run_id")},
    [S2_DB_KIND_REACH] = {REACHES("r.design_id"), REACHES("r.run_id")},
    [S2_DB_KIND_EXPORT] = {EXPORTS("r.design_id"), EXPORTS("r.run_id")},
};

/* The columns of a row, one after another. */
typedef struct columns {
    s2_arena *arena;
    sqlite3_stmt *row;
    int n;
    bool short_of_memory;
} columns;

static const char *text(columns *c)
{
    const char *const value = s2_sql_text(c->arena, c->row, c->n++);
    c->short_of_memory |= value == NULL;
    return value;
}

static int64_t integer(columns *c)
{
    return s2_sql_column_int(c->row, c->n++);
}

static double number(columns *c)
{
    return s2_sql_column_num(c->row, c->n++);
}

static void read_check(columns *c, s2_db_check *out)
{
    out->property = text(c);
    out->verdict = (s2_db_verdict)integer(c);
    out->required = integer(c) == 1;
    out->scope_tok = integer(c);
    out->complete_to_tok = integer(c);
    out->layer = integer(c);
    out->head = integer(c);
    out->query_tok = integer(c);
    out->key_tok = integer(c);
    out->failing_layers = text(c);
    out->detail = text(c);
    out->engine = text(c);
    out->wall_us = integer(c);
}

static void read_sim(columns *c, s2_db_sim *out)
{
    out->gpu = text(c);
    out->model = text(c);
    out->phase = text(c);
    out->dtype = text(c);
    out->len_tok = integer(c);
    out->batch = integer(c);
    out->time_us = number(c);
    out->bound_us = number(c);
    out->dense_us = number(c);
    out->bound_by = text(c);
    out->density = number(c);
    out->unread = number(c);
    out->hbm_bytes = number(c);
    out->kv_dense_bytes = number(c);
    out->kv_shared_pages_bytes = number(c);
    out->kv_head_pages_bytes = number(c);
    out->kv_ring_stripes_bytes = number(c);
    out->error_pct = number(c);
    out->kv_dtype = text(c);
    out->weights = text(c);
    out->tp = integer(c);
    out->kernel = text(c);
    out->settings = text(c);
    out->priced = (s2_db_figure)integer(c);
}

static void read_validation(columns *c, s2_db_validation *out)
{
    out->device = text(c);
    out->device_uuid = text(c);
    out->driver = text(c);
    out->runtime = text(c);
    out->kernel = text(c);
    out->phase = text(c);
    out->dtype = text(c);
    out->outcome = text(c);
    out->reason = text(c);
    out->len_tok = integer(c);
    out->batch = integer(c);
    out->seed = integer(c);
    out->pairs = integer(c);
    out->pairs_wrong = integer(c);
    out->max_err = number(c);
    out->tolerance = number(c);
    out->needles_found = integer(c);
    out->needles_expected = integer(c);
    out->median_ms = number(c);
    out->min_ms = number(c);
    out->sm_mhz = number(c);
    out->layer = integer(c);
    out->layers_alike = integer(c);
    out->gpu = text(c);
    out->kernels = text(c);
}

static s2_status read_result(s2_arena *arena, sqlite3_stmt *s, s2_db_kind kind, s2_db_result *out)
{
    columns c = {.arena = arena, .row = s};
    *out = (s2_db_result){.kind = kind, .verdict = S2_DB_NONE};
    out->design = text(&c);
    out->hash = text(&c);
    out->at_us = integer(&c);
    out->run_id = integer(&c);
    out->id = integer(&c);
    switch (kind) {
    case S2_DB_KIND_NOTE: out->of.note = text(&c); break;
    case S2_DB_KIND_VALIDATION:
        read_validation(&c, &out->of.validation);
        if (!c.short_of_memory)
            out->verdict = strcmp(out->of.validation.outcome, "ok") == 0 ? S2_DB_HOLDS : S2_DB_VIOLATED;
        break;
    case S2_DB_KIND_CHECK:
        read_check(&c, &out->of.check);
        out->verdict = out->of.check.verdict;
        break;
    case S2_DB_KIND_SIM: read_sim(&c, &out->of.sim); break;
    case S2_DB_KIND_REACH:
        out->of.reach.len_tok = integer(&c);
        out->of.reach.hops = integer(&c);
        out->of.reach.flow = number(&c);
        break;
    case S2_DB_KIND_EXPORT:
        out->of.file.target = text(&c);
        out->of.file.path = text(&c);
        out->of.file.out_hash = text(&c);
        break;
    case S2_DB_N_KINDS: break;
    }
    return c.short_of_memory ? S2_ENOMEM : S2_OK;
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
        S2_TRY(read_result(arena, s, kind, &results[*n]));
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

/* If one row has no value, the sum has none. */
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

/*
 * A page of a list. Its order comes from the index on (sorted column, id), which the query names, because
 * SQLite has no statistics of files that change all the time and guesses wrongly at a million rows. Only when
 * the conditions match few rows are these found through the index of a condition, then sorted.
 */
#include "db/db.h"

#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "db/filter.h"
#include "db/sql.h"

enum { FEW = 1000 };

/* A page under construction. */
typedef struct page {
    s2_db *db;
    s2_arena *arena;
    const s2_db_query *query;
    const s2_column *sort;
    const s2_filter *filter;
    bool priced; /* prices are those of one phase and length */
    bool few;    /* the conditions match few rows */
    s2_db_row *rows;
    int32_t n_rows;
    int64_t cap_rows;
} page;

/* ---- the text of a query */

#define JOINED "price p ON p.design_id=design.id AND p.phase=?1 AND p.len_tok=?2"

static const char *sort_of(const page *p)
{
    return p->priced && p->sort->priced != NULL ? p->sort->priced : p->sort->sql;
}

/* Does an index of prices give the order? The one on gpu_us lacks designs that were never timed. */
static bool leads_with_price(const page *p, bool with_value)
{
    return p->priced && p->sort->priced_index != NULL &&
           (with_value || strcmp(p->sort->priced_index, "price_gpu") != 0);
}

/* Each verdict on union covers half of all rows, so union has its own indexes for the usual orders. */
static const char *index_of(const page *p)
{
    if (p->query->trash || p->few)
        return NULL;
    if (p->filter->by_union && strcmp(p->sort->name, "created") == 0)
        return "design_union_created";
    if (p->filter->by_union && strcmp(p->sort->name, "us") == 0 && !p->priced)
        return "design_union_sim";
    return p->priced && p->sort->priced != NULL ? NULL : p->sort->index;
}

/* One price of each design: its latest of the kinds that the conditions leave. */
static void add_place(const page *p, s2_buf *sql)
{
    const s2_buf *const kind = &p->filter->kind;
    if (p->priced && kind->len == 0)
        s2_buf_puts(sql, " AND p.place=1");
    else if (p->priced)
        s2_buf_printf(
            sql,
            " AND p.place=(SELECT min(p.place) FROM price p WHERE p.design_id=design.id AND p.phase=?1"
            " AND p.len_tok=?2%.*s)",
            (int)kind->len, kind->data);
}

static void add_plain_source(const page *p, s2_buf *sql)
{
    s2_buf_puts(sql, p->priced ? " FROM design JOIN " JOINED : " FROM design");
}

/* CROSS JOIN keeps the tables in the written order: first the one whose index finds the rows. */
static void add_finding_source(const page *p, s2_buf *sql)
{
    if (!p->priced)
        s2_buf_puts(sql, " FROM design");
    else if (p->filter->has_index)
        s2_buf_puts(sql, " FROM design CROSS JOIN " JOINED);
    else
        s2_buf_puts(sql, " FROM price p CROSS JOIN design ON design.id=p.design_id");
}

static void add_ordered_source(const page *p, bool with_value, s2_buf *sql)
{
    const char *const index = index_of(p);
    if (p->few) {
        add_finding_source(p, sql);
    } else if (leads_with_price(p, with_value)) {
        s2_buf_printf(sql, " FROM price p INDEXED BY %s CROSS JOIN design ON design.id=p.design_id",
                      p->sort->priced_index);
    } else {
        s2_buf_puts(sql, " FROM design");
        if (index != NULL)
            s2_buf_printf(sql, " INDEXED BY %s", index);
        s2_buf_puts(sql, p->priced ? " CROSS JOIN " JOINED : "");
    }
}

static const char *id_of(const page *p, bool with_value)
{
    return !p->few && leads_with_price(p, with_value) ? "p.design_id" : "design.id";
}

static void add_conditions(const page *p, s2_buf *sql)
{
    const s2_buf *const where = &p->filter->where;
    s2_buf_printf(sql, " WHERE deleted_us IS %sNULL%s%.*s", p->query->trash ? "NOT " : "",
                  p->priced ? " AND p.phase=?1 AND p.len_tok=?2" : "", (int)where->len,
                  where->len > 0 ? where->data : "");
}

static bool goes_down(const page *p)
{
    return p->query->descending != p->query->backward;
}

static void add_order(const page *p, bool with_value, const char *id, bool sorted, s2_buf *sql)
{
    const char *const direction = goes_down(p) ? "DESC" : "ASC";
    s2_buf_puts(sql, " ORDER BY ");
    /* the plus keeps ORDER BY from choosing the index */
    if (with_value)
        s2_buf_printf(sql, "%s%s %s,", sorted ? "+" : "", sort_of(p), direction);
    s2_buf_printf(sql, "%s%s %s", sorted ? "+" : "", id, direction);
}

static void add_cursor(const page *p, bool with_value, const char *id, int64_t from, s2_buf *sql)
{
    const char beyond = goes_down(p) ? '<' : '>';
    if (from != 0 && !with_value)
        s2_buf_printf(sql, " AND %s%c%lld", id, beyond, (long long)from);
    if (from == 0 || !with_value)
        return;
    s2_buf_printf(sql, " AND (%s,%s)%c(SELECT %s,design.id", sort_of(p), id, beyond, sort_of(p));
    add_plain_source(p, sql);
    s2_buf_printf(sql, " WHERE design.id=%lld", (long long)from);
    add_place(p, sql);
    s2_buf_puts(sql, ")");
}

/*
 * One seek: the rows that have a value in the sorted column, or those that have none. `from` is the row to
 * continue after, 0 for none. The page's ids are found first, so that rows which only pass through a sort are
 * never read whole.
 */
static void add_seek(const page *p, bool with_value, int64_t from, s2_buf *sql)
{
    const char *const id = id_of(p, with_value);
    s2_buf_puts(sql, p->priced ? "SELECT " S2_DB_ROW_PRICED : "SELECT " S2_DB_ROW_COLUMNS);
    add_plain_source(p, sql);
    s2_buf_printf(sql, " WHERE design.id IN(SELECT %s", id);
    add_ordered_source(p, with_value, sql);
    add_conditions(p, sql);
    add_place(p, sql);
    s2_buf_printf(sql, " AND %s IS %sNULL", sort_of(p), with_value ? "NOT " : "");
    add_cursor(p, with_value, id, from, sql);
    add_order(p, with_value, id, p->few, sql);
    s2_buf_printf(sql, " LIMIT %d)", (int)(p->query->limit - p->n_rows));
    add_place(p, sql);
    add_order(p, with_value, "design.id", true, sql);
    s2_buf_add(sql, "", 1);
}

/* ---- running it */

static void bind_all(sqlite3_stmt *statement, const page *p)
{
    int parameter = 1;
    if (p->priced) {
        sqlite3_bind_text(statement, parameter++, p->query->phase, -1, SQLITE_STATIC);
        sqlite3_bind_int64(statement, parameter++, p->query->len_tok);
    }
    for (int32_t n = 0; n < p->filter->n_values; n++) {
        const s2_filter_value *const value = &p->filter->values[n];
        if (value->is_text)
            sqlite3_bind_text(statement, parameter + n, value->text, -1, SQLITE_STATIC);
        else
            sqlite3_bind_double(statement, parameter + n, value->number);
    }
}

static s2_status prepare(const page *p, s2_buf *sql, sqlite3_stmt **out, s2_diag *diag)
{
    *out = NULL;
    s2_status status = sql->status;
    if (status == S2_OK)
        status = s2_sql_fail(p->db, sqlite3_prepare_v2(p->db->sql, sql->data, -1, out, NULL), diag);
    s2_buf_release(sql);
    if (status == S2_OK)
        bind_all(*out, p);
    return status;
}

static s2_status read_rows(page *p, sqlite3_stmt *statement, s2_diag *diag)
{
    for (;;) {
        bool has_row;
        S2_TRY(s2_sql_step(p->db, statement, &has_row, diag));
        if (!has_row || p->n_rows == p->query->limit)
            return S2_OK;
        S2_TRY(S2_ARENA_ROOM(p->arena, p->rows, p->n_rows, p->cap_rows));
        S2_TRY(s2_db_read_row(p->arena, statement, &p->rows[p->n_rows]));
        p->n_rows++;
    }
}

static s2_status seek(page *p, bool with_value, int64_t from, s2_diag *diag)
{
    s2_buf sql = {0};
    sqlite3_stmt *statement;
    add_seek(p, with_value, from, &sql);
    s2_status status = prepare(p, &sql, &statement, diag);
    if (status == S2_OK)
        status = read_rows(p, statement, diag);
    sqlite3_finalize(statement);
    return status;
}

/* The first value of a query's first row; *has_row is false where there is none. */
static s2_status ask(const page *p, s2_buf *sql, bool *has_row, int64_t *value, s2_diag *diag)
{
    sqlite3_stmt *statement;
    s2_status status = prepare(p, sql, &statement, diag);
    if (status == S2_OK)
        status = s2_sql_step(p->db, statement, has_row, diag);
    if (status == S2_OK && *has_row)
        *value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return status;
}

/* Does the row to continue after have a value in the sorted column? */
static s2_status has_value(const page *p, int64_t id, bool *out, s2_diag *diag)
{
    s2_buf sql = {0};
    bool has_row;
    int64_t value = 0;
    s2_buf_printf(&sql, "SELECT %s IS NOT NULL", sort_of(p));
    add_plain_source(p, &sql);
    s2_buf_printf(&sql, " WHERE design.id=%lld", (long long)id);
    add_place(p, &sql);
    s2_buf_add(&sql, "", 1);
    S2_TRY(ask(p, &sql, &has_row, &value, diag));
    *out = value != 0;
    return has_row ? S2_OK : s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "no design is at this cursor");
}

/* What a guess may cost, in instructions of SQLite's machine: some milliseconds. */
enum { GUESS_STEPS = 50, GUESS_INSTRUCTIONS = 1000 };

static int count_down(void *user)
{
    int *const left = user;
    return (*left)-- <= 0;
}

/*
 * Counts rows up to a limit, in no order, so that SQLite uses the index of a condition. If that takes too
 * long, the rows are not few, or walking the order finds them as easily. An untrusted file uses the handler
 * for its limit and needs no speed.
 */
static s2_status find_few(page *p, s2_diag *diag)
{
    s2_buf sql = {0};
    sqlite3_stmt *statement;
    if ((!p->filter->has_index && !p->filter->has_priced_index) || p->query->trash ||
        p->db->mode == S2_DB_UNTRUSTED)
        return S2_OK;
    s2_buf_puts(&sql, "SELECT count(*) FROM (SELECT 1");
    add_finding_source(p, &sql);
    add_conditions(p, &sql);
    add_place(p, &sql);
    s2_buf_printf(&sql, " LIMIT %d)", FEW + 1);
    s2_buf_add(&sql, "", 1);
    S2_TRY(prepare(p, &sql, &statement, diag));
    int left = GUESS_STEPS;
    sqlite3_progress_handler(p->db->sql, GUESS_INSTRUCTIONS, count_down, &left);
    const int rc = sqlite3_step(statement);
    sqlite3_progress_handler(p->db->sql, 0, NULL, NULL);
    p->few = rc == SQLITE_ROW && sqlite3_column_int(statement, 0) <= FEW;
    sqlite3_finalize(statement);
    /* any other error will show again in the page itself */
    return S2_OK;
}

static void turn_round(s2_db_row *rows, int32_t n)
{
    for (int32_t at = 0; at < n / 2; at++) {
        const s2_db_row row = rows[at];
        rows[at] = rows[n - 1 - at];
        rows[n - 1 - at] = row;
    }
}

/* Rows with a value come before rows without one in either order; backward, the reverse. */
static s2_status fill(page *p, s2_diag *diag)
{
    const int64_t from = p->query->after_id;
    const bool first = !p->query->backward;
    bool valued = first;
    if (from != 0)
        S2_TRY(has_value(p, from, &valued, diag));
    S2_TRY(find_few(p, diag));
    if (valued == first)
        S2_TRY(seek(p, first, from, diag));
    if (p->n_rows < p->query->limit)
        S2_TRY(seek(p, !first, valued == first ? 0 : from, diag));
    if (p->query->backward)
        turn_round(p->rows, p->n_rows);
    return S2_OK;
}

s2_status s2_db_list(s2_db *db, s2_arena *arena, const s2_db_query *query, const s2_db_row **rows,
                     int32_t *n_rows, s2_diag *diag)
{
    const char *const sort = query->sort != NULL ? query->sort : "created";
    page p = {.db = db,
              .arena = arena,
              .query = query,
              .sort = s2_column_find(sort, strlen(sort)),
              .priced = query->phase != NULL};
    if (p.sort == NULL) {
        char clean[64];
        s2_text_clean(clean, sizeof clean, sort);
        const char *const near = s2_column_nearest(sort, strlen(sort));
        return s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "no column '%s' to sort by%s%s%s", clean,
                           near != NULL ? "; did you mean " : "", near != NULL ? near : "",
                           near != NULL ? "?" : "");
    }
    s2_filter filter;
    s2_status status = s2_filter_build(query->filter != NULL ? query->filter : "", p.priced, &filter, diag);
    p.filter = &filter;
    if (status == S2_OK)
        status = fill(&p, diag);
    s2_filter_release(&filter);
    S2_TRY(status);
    *rows = p.rows;
    *n_rows = p.n_rows;
    return S2_OK;
}

/* ---- the kinds of price */

static const char *const TRAITS[S2_DB_N_TRAITS] = {"priced",  "gpu", "batch",  "dtype",    "kv_dtype",
                                                   "weights", "tp",  "kernel", "settings", "llm"};

const char *s2_db_trait_column(s2_db_trait trait)
{
    return TRAITS[trait];
}

static s2_status read_kinds(page *p, sqlite3_stmt *statement, uint32_t asked, int32_t cap,
                            s2_db_priced *kinds, int32_t *n, s2_diag *diag)
{
    for (bool has_row = true; *n < cap; (*n)++) {
        S2_TRY(s2_sql_step(p->db, statement, &has_row, diag));
        if (!has_row)
            break;
        kinds[*n] = (s2_db_priced){.n = s2_sql_column_int(statement, S2_DB_N_TRAITS)};
        for (int t = 0; t < S2_DB_N_TRAITS; t++) {
            if (asked >> t & 1 && (kinds[*n].traits[t] = s2_sql_text(p->arena, statement, t)) == NULL)
                return S2_ENOMEM;
        }
    }
    return S2_OK;
}

static const char *priced_sql(const char *name)
{
    return s2_column_find(name, strlen(name))->priced;
}

static void add_kinds(const page *p, const char *const *by, uint32_t asked, s2_buf *sql)
{
    s2_buf_puts(sql, "SELECT ");
    for (int t = 0; t < S2_DB_N_TRAITS; t++)
        s2_buf_printf(sql, "%s,", asked >> t & 1 ? priced_sql(TRAITS[t]) : "NULL");
    s2_buf_puts(sql, "count(DISTINCT design.id)");
    add_finding_source(p, sql);
    add_conditions(p, sql);
    for (; *by != NULL; by++)
        s2_buf_printf(sql, " AND %s IS NOT NULL", priced_sql(*by));
    s2_buf_puts(sql,
                " GROUP BY 1,2,3,4,5,6,7,8,9,10 ORDER BY 11 DESC,min(p.priced=3),1 DESC,2,3,4,5,6,7,8,9,10");
    s2_buf_add(sql, "", 1);
}

s2_status s2_db_priced_kinds(s2_db *db, s2_arena *arena, const s2_db_query *query, const char *const *by,
                             uint32_t asked, int32_t cap, s2_db_priced *kinds, int32_t *n, s2_diag *diag)
{
    page p = {.db = db, .arena = arena, .query = query, .priced = true};
    s2_filter filter;
    s2_buf sql = {0};
    sqlite3_stmt *statement = NULL;
    s2_status status = s2_filter_build(query->filter != NULL ? query->filter : "", true, &filter, diag);
    p.filter = &filter;
    *n = 0;
    if (status == S2_OK) {
        add_kinds(&p, by, asked, &sql);
        status = prepare(&p, &sql, &statement, diag);
    }
    if (status == S2_OK)
        status = read_kinds(&p, statement, asked, cap, kinds, n, diag);
    sqlite3_finalize(statement);
    s2_filter_release(&filter);
    return status;
}

/* ---- the phase and length of prices */

/* Counts only prices of place 1: an index has them together. */
static void add_all_works(s2_buf *sql)
{
    s2_buf_puts(sql, "SELECT phase,len_tok FROM price p WHERE place=1 AND (?1 IS NULL OR phase=?1)"
                     " AND (?2=0 OR len_tok=?2) GROUP BY phase,len_tok"
                     " ORDER BY count(us) DESC,count(*) DESC,max(started_us) DESC,phase DESC LIMIT 1");
}

static void add_works(const page *p, s2_buf *sql)
{
    const s2_buf *const where = &p->filter->where;
    s2_buf_printf(sql,
                  "SELECT p.phase,p.len_tok FROM design CROSS JOIN price p ON p.design_id=design.id"
                  " WHERE deleted_us IS NULL AND (?1 IS NULL OR p.phase=?1) AND (?2=0 OR p.len_tok=?2)%.*s"
                  " GROUP BY 1,2 ORDER BY count(DISTINCT iif(p.us IS NULL,NULL,design.id)) DESC,"
                  "count(DISTINCT design.id) DESC,max(p.started_us) DESC,1 DESC LIMIT 1",
                  (int)where->len, where->len > 0 ? where->data : "");
}

static s2_status read_work(const page *p, sqlite3_stmt *statement, const char **phase, int64_t *len_tok,
                           s2_diag *diag)
{
    bool has_row;
    S2_TRY(s2_sql_step(p->db, statement, &has_row, diag));
    const char *const found = has_row ? s2_sql_text(p->arena, statement, 0) : NULL;
    if (has_row && found == NULL)
        return S2_ENOMEM;
    *phase = found;
    *len_tok = has_row ? sqlite3_column_int64(statement, 1) : 0;
    return S2_OK;
}

s2_status s2_db_common_price(s2_db *db, s2_arena *arena, const char *filter, const char **phase,
                             int64_t *len_tok, s2_diag *diag)
{
    const s2_db_query query = {.phase = *phase, .len_tok = *len_tok};
    page p = {.db = db, .arena = arena, .query = &query, .priced = true};
    s2_filter built;
    s2_buf sql = {0};
    sqlite3_stmt *statement = NULL;
    s2_status status = s2_filter_build(filter, true, &built, diag);
    p.filter = &built;
    if (status == S2_OK) {
        if (built.where.len > 0)
            add_works(&p, &sql);
        else
            add_all_works(&sql);
        s2_buf_add(&sql, "", 1);
        status = prepare(&p, &sql, &statement, diag);
    }
    if (status == S2_OK)
        status = read_work(&p, statement, phase, len_tok, diag);
    sqlite3_finalize(statement);
    s2_filter_release(&built);
    return status;
}

s2_status s2_db_tally(s2_db *db, const s2_db_query *query, int64_t *n_designs, s2_diag *diag)
{
    page p = {.db = db, .query = query, .priced = query->phase != NULL};
    s2_filter filter;
    s2_buf sql = {0};
    bool has_row;
    s2_status status = s2_filter_build(query->filter != NULL ? query->filter : "", p.priced, &filter, diag);
    p.filter = &filter;
    *n_designs = 0;
    if (status == S2_OK) {
        s2_buf_puts(&sql, "SELECT count(*)");
        add_finding_source(&p, &sql);
        add_conditions(&p, &sql);
        add_place(&p, &sql);
        s2_buf_add(&sql, "", 1);
        status = ask(&p, &sql, &has_row, n_designs, diag);
    }
    s2_filter_release(&filter);
    return status;
}

/* What designs are worth (reach/worth.h), as columns of their prices. */
#include <string.h>

#include <sqlite3.h>

#include "db/sql.h"
#include "pattern/parse.h"
#include "reach/worth.h"

typedef struct judged {
    int64_t design_id;
    int64_t len_tok;
    s2_worth worth;
} judged;

typedef struct judge {
    s2_arena arena; /* of the rows */
    judged *rows;
    int64_t n_rows, cap_rows;
} judge;

/* Masks of files are not in the text, so such a pattern cannot be read here; it is not judged anywhere. */
static s2_status judge_text(const char *text, int64_t len_tok, s2_worth *out)
{
    const s2_parse_options options = {.no_files = true};
    s2_arena scratch = {0};
    s2_pattern pattern;
    s2_diag diag = {0};
    s2_status status = s2_pattern_parse(&scratch, text, strlen(text), &options, &pattern, &diag);
    if (status == S2_OK)
        status = s2_worth_figures(&scratch, &pattern, len_tok, out);
    s2_arena_release(&scratch);
    if (status == S2_OK || status == S2_ENOMEM)
        return status;
    out->not_judged = "its text cannot be read";
    return S2_OK;
}

static s2_status add_row(judge *j, judged row)
{
    S2_TRY(S2_ARENA_ROOM(&j->arena, j->rows, j->n_rows, j->cap_rows));
    j->rows[j->n_rows++] = row;
    return S2_OK;
}

static s2_status read_rows(s2_db *db, sqlite3_stmt *statement, judge *j, s2_diag *diag)
{
    for (;;) {
        bool has_row;
        S2_TRY(s2_sql_step(db, statement, &has_row, diag));
        if (!has_row)
            return S2_OK;
        judged row = {.design_id = sqlite3_column_int64(statement, 0),
                      .len_tok = sqlite3_column_int64(statement, 1)};
        const char *text;
        S2_TRY(s2_sql_peek(db, statement, 2, &text, NULL, diag));
        S2_TRY(judge_text(text != NULL ? text : "", row.len_tok, &row.worth));
        if (row.worth.not_judged == NULL)
            S2_TRY(add_row(j, row));
    }
}

/* Only designs of the shape that is judged are read at all. */
static s2_status judge_all(s2_db *db, int64_t first, int64_t last, judge *j, s2_diag *diag)
{
    sqlite3_stmt *statement;
    S2_TRY(s2_sql_prepare(
        db,
        "SELECT DISTINCT design.id,len_tok,text FROM design CROSS JOIN price ON design_id=design.id"
        " WHERE design.id BETWEEN ?1 AND ?2 AND n_layers=?3 AND n_heads=?4 AND n_kv_heads=?5"
        " AND (len_tok+block_tok-1)/block_tok=?6",
        &statement, diag));
    const int64_t values[] = {first,          last, S2_WORTH_LAYERS, S2_WORTH_HEADS, S2_WORTH_KV_HEADS,
                              S2_WORTH_BLOCKS};
    for (int at = 0; at < 6; at++)
        sqlite3_bind_int64(statement, at + 1, values[at]);
    const s2_status status = read_rows(db, statement, j, diag);
    sqlite3_reset(statement);
    return status;
}

s2_status s2_db_judge(s2_db *db, int64_t first, int64_t last, s2_diag *diag)
{
    judge j = {0};
    s2_status status = judge_all(db, first, last, &j, diag);
    for (int64_t n = 0; n < j.n_rows && status == S2_OK; n++)
        status =
            s2_sql_run(db, diag, "UPDATE price SET recall=?,loss=? WHERE design_id=? AND len_tok=?", "ddii",
                       j.rows[n].worth.recall, j.rows[n].worth.loss, j.rows[n].design_id, j.rows[n].len_tok);
    s2_arena_release(&j.arena);
    return status;
}

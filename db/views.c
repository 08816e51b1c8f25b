/* Named views: which designs, and in which order. */
#include "db/db.h"

#include <string.h>

#include <sqlite3.h>

#include "base/clock.h"
#include "db/sql.h"

static s2_status check_view(const s2_db_view *view, s2_diag *diag)
{
    const size_t n = strlen(view->name);
    if (n == 0 || n > S2_DB_LIMIT_TAG_BYTES)
        return s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "the name of a view has 1 to %d bytes",
                           S2_DB_LIMIT_TAG_BYTES);
    return S2_OK;
}

s2_status s2_db_view_put(s2_db *db, const s2_db_view *view, s2_diag *diag)
{
    S2_TRY(check_view(view, diag));
    S2_TRY(s2_db_begin(db, diag));
    return s2_db_end(db,
                     s2_sql_run(db, diag,
                                "INSERT OR REPLACE INTO view(name,filter,sort,descending,at_us) "
                                "VALUES(?,?,?,?,?)",
                                "tttii", view->name, view->filter, view->sort, (int64_t)view->descending,
                                s2_unix_us()),
                     diag);
}

s2_status s2_db_view_drop(s2_db *db, const char *name, s2_diag *diag)
{
    S2_TRY(s2_db_begin(db, diag));
    return s2_db_end(db, s2_sql_run(db, diag, "DELETE FROM view WHERE name=?", "t", name), diag);
}

static s2_status read_view(s2_arena *arena, sqlite3_stmt *s, s2_db_view *view)
{
    view->name = s2_sql_text(arena, s, 0);
    view->filter = s2_sql_text(arena, s, 1);
    view->sort = s2_sql_text(arena, s, 2);
    view->descending = s2_sql_column_int(s, 3) == 1;
    return view->name != NULL && view->filter != NULL && view->sort != NULL ? S2_OK : S2_ENOMEM;
}

s2_status s2_db_views(s2_db *db, s2_arena *arena, int32_t cap, s2_db_view *views, int32_t *n_views,
                      s2_diag *diag)
{
    sqlite3_stmt *s;
    S2_TRY(
        s2_sql_prepare(db, "SELECT name,filter,sort,descending FROM view ORDER BY name LIMIT ?", &s, diag));
    sqlite3_bind_int(s, 1, cap);
    int32_t n = 0;
    for (bool has_row;; n++) {
        S2_TRY(s2_sql_step(db, s, &has_row, diag));
        if (!has_row || n == cap)
            break;
        S2_TRY(read_view(arena, s, &views[n]));
    }
    sqlite3_reset(s);
    *n_views = n;
    return S2_OK;
}

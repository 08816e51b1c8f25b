/*
 * tests/s2db.h - databases that are opened, judged and changed behind s2's back; what fails ends the test.
 */
#ifndef S2_TESTS_S2DB_H
#define S2_TESTS_S2DB_H

#include <sqlite3.h>

#include "base/text.h"
#include "db/db.h"
#include "tests/gen_db.h"
#include "tests/s2test.h"

static inline s2_db *s2_opened(const char *path, s2_db_mode mode)
{
    s2_diag diag = {0};
    s2_db *db = NULL;
    if (s2_db_open(path, mode, &db, &diag) != S2_OK)
        fail_msg("%s", diag.msg);
    return db;
}

/* An empty one in the place of whatever was there. */
static inline s2_db *s2_opened_new(const char *path)
{
    s2_gen_forget(path);
    return s2_opened(path, S2_DB_WRITE);
}

static inline void s2_assert_sound(s2_db *db)
{
    s2_buf findings = {0};
    s2_diag diag = {0};
    if (s2_db_verify(db, &findings, &diag) != S2_OK)
        fail_msg("%s", diag.msg);
    if (findings.len > 0)
        fail_msg("%.*s", (int)findings.len, findings.data);
    s2_buf_release(&findings);
}

/* Runs statements in the file by SQLite alone. */
static inline void s2_run_sql(const char *path, const char *sql)
{
    sqlite3 *raw;
    char *message = NULL;
    assert_int_equal(sqlite3_open(path, &raw), SQLITE_OK);
    if (sqlite3_exec(raw, sql, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s", message);
    sqlite3_close(raw);
}

/* Adds a line of a dump to the s2_buf `text`: for s2_db_dump(). */
static inline bool s2_keep_line(void *text, const char *line, size_t n)
{
    s2_buf_add(text, line, n);
    s2_buf_puts(text, "\n");
    return true;
}

#endif /* S2_TESTS_S2DB_H */

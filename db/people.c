#include "db/db.h"

#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "base/clock.h"
#include "db/sql.h"

/* Remember an action, so that undo can take it back. Actions are words of the schema, never SQL. */
static s2_status remember(s2_db *db, const char *action, int64_t design_id, const char *argument,
                          s2_diag *diag)
{
    return s2_sql_run(db, diag, "INSERT INTO undo(at_us,action,design_id,argument) VALUES(?,?,?,?)", "itit",
                      s2_unix_us(), action, design_id, argument);
}

static s2_status set_tag(s2_db *db, int64_t design_id, const char *tag, bool on, s2_diag *diag)
{
    if (on)
        return s2_sql_run(db, diag, "INSERT OR IGNORE INTO tag(design_id,tag) VALUES(?,?)", "it", design_id,
                          tag);
    return s2_sql_run(db, diag, "DELETE FROM tag WHERE design_id=? AND tag=?", "it", design_id, tag);
}

static s2_status check_tag(const char *tag, s2_diag *diag)
{
    const size_t n = strlen(tag);
    if (n == 0 || n > S2_DB_LIMIT_TAG_BYTES || strpbrk(tag, " ,\t\n") != NULL)
        return s2_diag_set(diag, S2_EINVAL, 0, 0, 0,
                           "a tag is one word of 1 to %d bytes without blanks and commas",
                           S2_DB_LIMIT_TAG_BYTES);
    return S2_OK;
}

s2_status s2_db_tag(s2_db *db, int64_t design_id, const char *tag, bool on, s2_diag *diag)
{
    S2_TRY(check_tag(tag, diag));
    S2_TRY(s2_db_begin(db, diag));
    s2_status status = set_tag(db, design_id, tag, on, diag);
    if (status == S2_OK && sqlite3_changes(db->sql) > 0)
        status = remember(db, on ? "tag" : "untag", design_id, tag, diag);
    return s2_db_end(db, status, diag);
}

s2_status s2_db_note(s2_db *db, int64_t design_id, const char *text, s2_diag *diag)
{
    if (strlen(text) > S2_DB_LIMIT_NOTE_BYTES)
        return s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "a note has at most %d bytes", S2_DB_LIMIT_NOTE_BYTES);
    S2_TRY(s2_db_begin(db, diag));
    s2_status status = s2_sql_run(db, diag, "INSERT INTO note(design_id,at_us,body) VALUES(?,?,?)", "iit",
                                  design_id, s2_unix_us(), text);
    char id[32];
    snprintf(id, sizeof id, "%lld", (long long)sqlite3_last_insert_rowid(db->sql));
    if (status == S2_OK)
        status = remember(db, "note", design_id, id, diag);
    return s2_db_end(db, status, diag);
}

static s2_status set_star(s2_db *db, int64_t design_id, bool on, s2_diag *diag)
{
    return s2_sql_run(db, diag, "UPDATE design SET starred=?2 WHERE id=?1 AND starred<>?2", "ii", design_id,
                      (int64_t)on);
}

s2_status s2_db_star(s2_db *db, int64_t design_id, bool on, s2_diag *diag)
{
    S2_TRY(s2_db_begin(db, diag));
    s2_status status = set_star(db, design_id, on, diag);
    if (status == S2_OK && sqlite3_changes(db->sql) > 0)
        status = remember(db, on ? "star" : "unstar", design_id, "", diag);
    return s2_db_end(db, status, diag);
}

s2_status s2_db_remove(s2_db *db, int64_t design_id, s2_diag *diag)
{
    S2_TRY(s2_db_begin(db, diag));
    s2_status status =
        s2_sql_run(db, diag, "UPDATE design SET deleted_us=?2 WHERE id=?1 AND deleted_us IS NULL", "ii",
                   design_id, s2_unix_us());
    if (status == S2_OK && sqlite3_changes(db->sql) > 0)
        status = remember(db, "rm", design_id, "", diag);
    return s2_db_end(db, status, diag);
}

/* The last action, copied out of the statement before anything else runs. */
typedef struct action {
    int64_t id;
    int64_t design_id;
    char word[16];
    char argument[S2_DB_LIMIT_TAG_BYTES * 4 + 1];
    char design[S2_HASH_HEX];
} action;

static s2_status last_action(s2_db *db, action *out, s2_diag *diag)
{
    sqlite3_stmt *s;
    bool has_row;
    S2_TRY(s2_sql_prepare(
        db,
        "SELECT undo.id,design_id,action,argument,hash FROM undo JOIN design ON design.id=design_id"
        " ORDER BY undo.id DESC LIMIT 1",
        &s, diag));
    S2_TRY(s2_sql_step(db, s, &has_row, diag));
    *out = (action){0};
    if (!has_row)
        return S2_OK;
    out->id = sqlite3_column_int64(s, 0);
    out->design_id = sqlite3_column_int64(s, 1);
    const char *word, *argument, *design;
    S2_TRY(s2_sql_peek(db, s, 2, &word, NULL, diag));
    S2_TRY(s2_sql_peek(db, s, 3, &argument, NULL, diag));
    S2_TRY(s2_sql_peek(db, s, 4, &design, NULL, diag));
    snprintf(out->word, sizeof out->word, "%s", word);
    snprintf(out->argument, sizeof out->argument, "%s", argument);
    snprintf(out->design, sizeof out->design, "%s", design);
    sqlite3_reset(s);
    return S2_OK;
}

static s2_status take_back(s2_db *db, const action *a, s2_diag *diag)
{
    if (strcmp(a->word, "tag") == 0 || strcmp(a->word, "untag") == 0)
        return set_tag(db, a->design_id, a->argument, a->word[0] == 'u', diag);
    if (strcmp(a->word, "star") == 0 || strcmp(a->word, "unstar") == 0)
        return set_star(db, a->design_id, a->word[0] == 'u', diag);
    if (strcmp(a->word, "note") == 0)
        return s2_sql_run(db, diag, "DELETE FROM note WHERE id=CAST(? AS INTEGER) AND design_id=?", "ti",
                          a->argument, a->design_id);
    return s2_sql_run(db, diag, "UPDATE design SET deleted_us=NULL WHERE id=?", "i", a->design_id);
}

s2_status s2_db_undo(s2_db *db, s2_db_undone *out, s2_diag *diag)
{
    action a;
    S2_TRY(s2_db_begin(db, diag));
    s2_status status = last_action(db, &a, diag);
    if (status == S2_OK && a.id != 0)
        status = take_back(db, &a, diag);
    if (status == S2_OK && a.id != 0)
        status = s2_sql_run(db, diag, "DELETE FROM undo WHERE id=?", "i", a.id);
    S2_TRY(s2_db_end(db, status, diag));
    *out = (s2_db_undone){0};
    memcpy(out->action, a.word, sizeof out->action);
    memcpy(out->design, a.design, sizeof out->design);
    if (strstr(a.word, "tag") != NULL)
        memcpy(out->tag, a.argument, sizeof out->tag);
    return S2_OK;
}

static s2_status collect(s2_db *db, int64_t *n_designs, s2_diag *diag)
{
#define IN_TRASH " WHERE design_id IN(SELECT id FROM design WHERE deleted_us IS NOT NULL)"
    S2_TRY(s2_sql_exec(db,
                       "DELETE FROM chk" IN_TRASH ";DELETE FROM sim" IN_TRASH ";DELETE FROM reach" IN_TRASH
                       ";DELETE FROM price" IN_TRASH ";DELETE FROM validation" IN_TRASH
                       ";DELETE FROM export" IN_TRASH ";DELETE FROM tag" IN_TRASH ";DELETE FROM note" IN_TRASH
                       ";DELETE FROM undo" IN_TRASH,
                       diag));
#undef IN_TRASH
    S2_TRY(s2_sql_run(db, diag, "DELETE FROM design WHERE deleted_us IS NOT NULL", ""));
    *n_designs = sqlite3_changes(db->sql);
    return S2_OK;
}

s2_status s2_db_collect(s2_db *db, int64_t *n_designs, s2_diag *diag)
{
    int64_t n = 0;
    S2_TRY(s2_db_begin(db, diag));
    S2_TRY(s2_db_end(db, collect(db, &n, diag), diag));
    *n_designs = n;
    return S2_OK;
}

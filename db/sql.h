/*
 * db/sql.h - inside db/: the handle, and one-line ways to run statements.
 *
 * Statements are prepared once per handle and found again by the address of their text, so only
 * literals may be passed. Nothing outside db/ includes this.
 */
#ifndef S2_DB_SQL_H
#define S2_DB_SQL_H

#include "base/file.h"
#include "db/db.h"

struct sqlite3;
struct sqlite3_stmt;

enum { S2_SQL_CACHED = 64, S2_DB_APPLICATION_ID = 0x53324442 /* "S2DB" */, S2_DB_LOCK_WAIT_MS = 30000 };

struct s2_db {
    struct sqlite3 *sql;
    char *path;
    s2_db_mode mode;
    int lock_fd; /* of PATH-lock, -1 when not open */
    bool locked;
    bool in_transaction;
    bool alone;         /* reads without the log's index, for which there is no room or right */
    bool is_copy;       /* reads a copy of the file, in memory */
    int64_t looks_left; /* of an untrusted file: how much more may be read (db.c) */
    int64_t n_refused;  /* allocations of the process when the transaction began */
    int32_t n_cached;
    struct {
        const char *text;
        struct sqlite3_stmt *statement;
    } cached[S2_SQL_CACHED];
};

/*
 * Before the first database is opened. SQLite answers some of what it is asked without the memory that it takes:
 * json_valid() says no, a text is NULL. So its allocations are counted with ours, and steps and transactions
 * during which one was refused fail.
 */
void s2_sql_count_memory(void);
/* sqlite3_step(), but SQLITE_NOMEM where an allocation was refused meanwhile. */
int s2_sql_step_once(struct sqlite3_stmt *statement);

/* Status and message of an SQLite result code. */
s2_status s2_sql_fail(s2_db *db, int rc, s2_diag *diag);
s2_status s2_sql_refuse_newer(const char *path, int64_t version, s2_diag *diag);
/*
 * Prepared, reset and without bindings; owned by the handle, which alone finalizes it. The text is a literal: the
 * handle keeps the statement by the text's address.
 */
s2_status s2_sql_prepare(s2_db *db, const char *text, struct sqlite3_stmt **out, s2_diag *diag) S2_MUST_CHECK;
/* Any number of statements, without results. */
s2_status s2_sql_exec(s2_db *db, const char *text, s2_diag *diag) S2_MUST_CHECK;
/*
 * Run one statement. types, a letter for each '?': i int64_t (S2_DB_NONE is NULL), t text (NULL is NULL),
 * d double (NAN and infinities are NULL), b const void * and size_t.
 */
s2_status s2_sql_run(s2_db *db, s2_diag *diag, const char *text, const char *types, ...) S2_MUST_CHECK;
/* The same, with the first column of the first row; S2_DB_NONE where there is no row or it is NULL. */
s2_status s2_sql_int(s2_db *db, s2_diag *diag, int64_t *out, const char *text, const char *types,
                     ...) S2_MUST_CHECK;
/* One step: S2_OK and *has_row. */
s2_status s2_sql_step(s2_db *db, struct sqlite3_stmt *statement, bool *has_row, s2_diag *diag) S2_MUST_CHECK;
/*
 * A column's text, which lives until the next step, NULL for NULL; S2_ENOMEM where memory ran out, for which SQLite
 * also says NULL. n_bytes may be NULL.
 */
s2_status s2_sql_peek(s2_db *db, struct sqlite3_stmt *statement, int column, const char **out,
                      size_t *n_bytes, s2_diag *diag) S2_MUST_CHECK;
/* A column as text in the arena ("" for NULL), or NULL when memory is short. */
const char *s2_sql_text(s2_arena *arena, struct sqlite3_stmt *statement, int column);
int64_t s2_sql_column_int(struct sqlite3_stmt *statement, int column); /* NULL: S2_DB_NONE */
double s2_sql_column_num(struct sqlite3_stmt *statement, int column);  /* NULL, or not finite: NAN */

/* Lower-case hex SHA-256, terminated. */
void s2_db_sha256(const void *data, size_t n_bytes, char hex[S2_HASH_HEX]);

/* The columns that s2_db_read_row() reads, of "design" and, where prices are given, of "price" as p. */
#define S2_DB_ROW_DESIGN                                                                                     \
    "design.id,hash,name,family,model,n_layers,n_heads,n_kv_heads,block_tok,created_us,v_rows,v_union,v_kv," \
    "v_group,v_shards,outcome,starred,coalesce((SELECT group_concat(tag,',') FROM (SELECT tag FROM "         \
    "tag WHERE design_id=design.id ORDER BY tag)),''),"
#define S2_DB_ROW_COLUMNS                                                                                    \
    S2_DB_ROW_DESIGN                                                                                         \
    "design.sim_us,design.kv_bytes,design.gpu_us,sim_phase,sim_len_tok,sim_gpu,sim_batch,"                   \
    "sim_density,sim_unread,sim_priced,sim_dtype,sim_kv_dtype,sim_weights,sim_tp,sim_kernel,"                \
    "sim_settings,sim_llm,sim_recall,sim_loss,sim_hops,sim_flow"
#define S2_DB_ROW_PRICED                                                                                     \
    S2_DB_ROW_DESIGN                                                                                         \
    "p.us,p.kv_bytes,p.gpu_us,p.phase,p.len_tok,p.gpu,p.batch,p.density,p.unread,p."                         \
    "priced,p.dtype,p.kv_dtype,p.weights,p.tp,p.kernel,p.settings,p.llm,p.recall,p.loss,p.hops,p.flow"
/* Reads the row that a statement with these columns stands on; its texts go to the arena. S2_ENOMEM. */
s2_status s2_db_read_row(s2_arena *arena, struct sqlite3_stmt *statement, s2_db_row *row) S2_MUST_CHECK;

/* A step of the schema; version n is applied to a file of version n - 1. */
typedef struct s2_db_migration {
    int32_t version;
    const char *sql;
} s2_db_migration;
extern const s2_db_migration s2_db_migrations[S2_DB_SCHEMA_VERSION];

/* Apply what a file of `version` lacks, inside the caller's transaction. */
s2_status s2_db_migrate(s2_db *db, int32_t version, s2_diag *diag) S2_MUST_CHECK;
/* Is the schema, object by object, what the migrations make? S2_EPARSE otherwise. */
s2_status s2_db_compare_schema(s2_db *db, int32_t version, s2_diag *diag) S2_MUST_CHECK;

/* The file that `path` names, a link followed. S2_EDB. */
s2_status s2_db_follow(const char *path, char target[S2_PATH_BYTES], s2_diag *diag) S2_MUST_CHECK;

/* Judge what designs first .. last are worth at the lengths of their prices. */
s2_status s2_db_judge(s2_db *db, int64_t first, int64_t last, s2_diag *diag) S2_MUST_CHECK;
/* Rebuild the list columns of all designs from their results. */
s2_status s2_db_refresh(s2_db *db, s2_diag *diag) S2_MUST_CHECK;

/*
 * Copy the log into the file, so that the file alone is the database. The last close does the same, but
 * cannot report that it failed.
 */
s2_status s2_db_empty_log(s2_db *db, s2_diag *diag) S2_MUST_CHECK;

/* A database being made next to its target, as TARGET.s2-tmp; replaces what a killed process left there. */
typedef struct s2_db_draft {
    char *path;
    int fd; /* locked, so that two processes do not make the same one */
} s2_db_draft;
s2_status s2_db_draft_open(const char *target, s2_db_draft *out, s2_diag *diag) S2_MUST_CHECK;
/* Removes what is still there. The draft's database must be closed. */
void s2_db_draft_close(s2_db_draft *draft);

/*
 * Sync a finished file and give it its name in one step; the directory is synced too. S2_EIO, also where the
 * log of another database is next to `path`.
 */
s2_status s2_db_place(const char *temporary, const char *path, bool overwrite, s2_diag *diag) S2_MUST_CHECK;

/* S2_EINVAL where both names are one file, through whatever links. */
s2_status s2_db_check_other(const char *from, const char *to, s2_diag *diag) S2_MUST_CHECK;

#endif /* S2_DB_SQL_H */

/*
 * db/db.h - what was found: one SQLite file of designs, checks, predictions, validations, exports.
 *
 * Results are appended, never changed; every row leads to the run that made it (tool, commit, command
 * line, host, seed, time), and failures are rows too. What people change (stars, tags, notes, trash)
 * can be undone. docs/database.md describes the file.
 *
 *     s2_db *db;
 *     S2_TRY(s2_db_open(path, S2_DB_WRITE, &db, &diag));
 *     S2_TRY(s2_db_begin(db, &diag));                     (waits for the other writers' lock)
 *     s2_db_put_run / s2_db_put_design / s2_db_put_check / ... ; s2_db_commit(db, &diag);
 *     s2_db_close(&db);
 *
 * Statuses: S2_EDB, locked, full, damaged, too new (exit 5); S2_EPARSE, a file that is no database of
 * ours or is hostile (exit 3); S2_EINVAL, a value outside its range; S2_ENOMEM. *diag says why, ready
 * for a person; it may be NULL.
 *
 * Ownership: rows are plain data that the caller fills; strings are copied. Results live in the arena
 * given. Text of a result is as stored: clean it before a terminal (base/text.h).
 * Threads: one handle, one thread. Processes: any number of readers, writers wait for each other.
 */
#ifndef S2_DB_DB_H
#define S2_DB_DB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct s2_db s2_db;

enum {
    S2_DB_SCHEMA_VERSION = 1,
    S2_DB_HASH_HEX = 65,
    S2_DB_LIMIT_TAG_BYTES = 64,
    S2_DB_LIMIT_NOTE_BYTES = 65536,
    S2_DB_LIMIT_JSON_BYTES = 1 << 20
};

/* "No value": REAL fields are NAN, int64_t fields this. */
#define S2_DB_NONE INT64_MIN

typedef enum s2_db_mode {
    S2_DB_READ,     /* the file must exist; nothing is written, also not to a file on read-only media */
    S2_DB_WRITE,    /* created and migrated when needed */
    S2_DB_UNTRUSTED /* read, of a file from elsewhere: its schema is compared and every page checked first */
} s2_db_mode;

/* Who did it. One row per command that found something. */
typedef struct s2_db_run {
    const char *tool_version;
    const char *commit;
    const char *command;   /* "check" */
    const char *argv_json; /* the command line as a JSON array */
    const char *host;
    int64_t seed;       /* S2_DB_NONE: the command uses none */
    int64_t started_us; /* Unix time */
} s2_db_run;

typedef struct s2_db_design {
    const char *hash;   /* 64 hex digits: SHA-256 of text */
    const char *name;   /* at most 200 bytes, may be "" */
    const char *text;   /* canonical */
    const char *model;  /* may be "" */
    const char *family; /* words of the terms: "local+stride" */
    const char *origin; /* how it came: a file name, "inline", "import hf", "search" */
    int32_t n_layers;
    int32_t n_heads;
    int32_t n_kv_heads;
    int32_t head_dim;
    int32_t block_tok;
    double density; /* at density_tok, or NAN */
    int64_t density_tok;
} s2_db_design;

typedef enum s2_db_verdict { S2_DB_HOLDS, S2_DB_VIOLATED, S2_DB_UNKNOWN } s2_db_verdict;
const char *s2_db_verdict_word(s2_db_verdict verdict); /* "holds", "violated", "unknown" */

/* One property of one design. */
typedef struct s2_db_check {
    const char *property; /* "union", "ranks:2" */
    s2_db_verdict verdict;
    bool required;
    int64_t scope_tok;       /* S2_DB_NONE: every length */
    int64_t complete_to_tok; /* S2_DB_NONE: none */
    int64_t layer;           /* witness; each S2_DB_NONE where the property has none */
    int64_t head;
    int64_t query_tok;
    int64_t key_tok;
    const char *failing_layers; /* "0-31", or NULL */
    const char *detail;         /* reason of an unknown, or NULL */
    const char *engine;         /* "algebra" */
    int64_t wall_us;            /* S2_DB_NONE: not measured */
} s2_db_check;

/* One prediction. `json` is the s2sim/1 object; the other fields are what lists sort by. */
typedef struct s2_db_sim {
    const char *gpu;
    const char *model; /* may be "" */
    const char *phase; /* prefill, decode, ... */
    const char *dtype;
    int64_t len_tok;
    int64_t batch;
    double time_us; /* NAN: only a bound is known */
    double bound_us;
    double dense_us;
    const char *bound_by;
    double density;
    double hbm_bytes;
    double kv_dense_bytes;
    double kv_shared_pages_bytes;
    double kv_head_pages_bytes;
    double kv_ring_stripes_bytes;
    double error_pct; /* NAN: not measured */
    const char *json; /* at most S2_DB_LIMIT_JSON_BYTES */
} s2_db_sim;

/* One run of a kernel, failed ones included. `json` is the s2validate/1 object. */
typedef struct s2_db_validation {
    const char *device;      /* "cpu", "NVIDIA H200" */
    const char *device_uuid; /* "" for a CPU */
    const char *driver;      /* may be "" */
    const char *runtime;     /* CUDA runtime, may be "" */
    const char *kernel;
    const char *phase;
    const char *dtype;
    const char *outcome; /* ok, wrong_pairs, wrong_values, nan, out_of_bounds, launch_failed, timeout, ... */
    const char *reason;  /* of an outcome that is not ok, may be NULL */
    int64_t len_tok;
    int64_t batch;
    int64_t seed;
    int64_t pairs; /* touch probe: pairs compared, and wrong ones */
    int64_t pairs_wrong;
    double max_err;
    double tolerance;
    int64_t needles_found;
    int64_t needles_expected;
    double median_ms; /* NAN: not timed */
    double min_ms;
    double sm_mhz;
    int32_t n_samples;
    const float *samples_ms; /* raw timings, in order */
    const char *json;
} s2_db_validation;

typedef struct s2_db_export {
    const char *target; /* "hf" */
    const char *path;   /* may be "" for standard output */
    const char *out_hash;
} s2_db_export;

/*
 * Open. S2_DB_WRITE creates the file, or brings an older one to this schema in one transaction each
 * version; a newer one is refused, whatever the mode.
 */
s2_status s2_db_open(const char *path, s2_db_mode mode, s2_db **out, s2_diag *diag) S2_MUST_CHECK;
void s2_db_close(s2_db **db);

/* A transaction under the writers' lock; a second begin inside one is S2_EINVAL. */
s2_status s2_db_begin(s2_db *db, s2_diag *diag) S2_MUST_CHECK;
s2_status s2_db_commit(s2_db *db, s2_diag *diag) S2_MUST_CHECK;
void s2_db_rollback(s2_db *db);

/* Inside a transaction. Ids are row numbers of this file. A design that is known by hash keeps its row. */
s2_status s2_db_put_run(s2_db *db, const s2_db_run *run, int64_t *run_id, s2_diag *diag) S2_MUST_CHECK;
s2_status s2_db_put_design(s2_db *db, int64_t run_id, const s2_db_design *design, int64_t *design_id,
                           s2_diag *diag) S2_MUST_CHECK;
s2_status s2_db_put_check(s2_db *db, int64_t run_id, int64_t design_id, const s2_db_check *check,
                          s2_diag *diag) S2_MUST_CHECK;
s2_status s2_db_put_sim(s2_db *db, int64_t run_id, int64_t design_id, const s2_db_sim *sim,
                        s2_diag *diag) S2_MUST_CHECK;
s2_status s2_db_put_validation(s2_db *db, int64_t run_id, int64_t design_id,
                               const s2_db_validation *validation, s2_diag *diag) S2_MUST_CHECK;
s2_status s2_db_put_export(s2_db *db, int64_t run_id, int64_t design_id, const s2_db_export *row,
                           s2_diag *diag) S2_MUST_CHECK;
/* The exit code and duration with which the run ended. */
s2_status s2_db_end_run(s2_db *db, int64_t run_id, int32_t exit_code, int64_t wall_us,
                        s2_diag *diag) S2_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif /* S2_DB_DB_H */

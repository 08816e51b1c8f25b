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
 *     s2_db_put_run / s2_db_put_design / s2_db_put_check / ... ; s2_db_end(db, status, &diag);
 *     s2_db_close(&db);
 *
 * Statuses: S2_EDB: locked, full, damaged, too new (exit 5); S2_EPARSE: a file that is no database of
 * ours or is hostile (exit 3); S2_EINVAL: a value outside its range; S2_ENOMEM. *diag says why, ready
 * for a person; it may be NULL.
 *
 * Ownership: rows are plain data that the caller fills; strings are copied. Results live in the arena
 * given. Text of a result is as stored: clean it before a terminal (base/text.h).
 * Threads: one handle, one thread. Processes: any number of readers; writers wait for each other.
 */
#ifndef S2_DB_DB_H
#define S2_DB_DB_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"
#include "pattern/spec.h"

typedef struct s2_db s2_db;

enum {
    S2_DB_SCHEMA_VERSION = 12,
    S2_DB_LIMIT_TAG_BYTES = 64,
    S2_DB_LIMIT_NOTE_BYTES = 65536,
    S2_DB_LIMIT_JSON_BYTES = 1 << 20
};

/* "No value": NAN in REAL fields (infinities are stored as NAN), this in int64_t fields. */
#define S2_DB_NONE INT64_MIN

typedef enum s2_db_mode {
    S2_DB_READ,     /* the file must exist, on read-only media too; nothing is written */
    S2_DB_WRITE,    /* created and migrated when needed */
    S2_DB_UNTRUSTED /* read a file from elsewhere: its schema is compared and every page checked first */
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
    /* Each may be NULL: the working directory, the computer with its system, the compiler with its flags. */
    const char *cwd;
    const char *machine;
    const char *build;
} s2_db_run;

typedef struct s2_db_design {
    const char *hash;   /* 64 hex digits: SHA-256 of text */
    const char *name;   /* at most 200 bytes, may be "" */
    const char *text;   /* canonical */
    const char *model;  /* may be "" */
    const char *family; /* words of the terms: "local+stride" */
    const char *origin; /* where it came from: a file name, "inline", "import hf", "search" */
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
    const char *detail;         /* reason for an unknown, or NULL */
    const char *engine;         /* "algebra" */
    int64_t wall_us;            /* S2_DB_NONE: not measured */
} s2_db_check;

/* A required check for every length, by algebra, without a witness or a time. */
s2_db_check s2_db_check_of(const char *property, s2_db_verdict verdict);

/* What the time of a price is. S2_DB_UNSAID: a prediction or a guess, which an older s2 did not say. */
typedef enum s2_db_figure { S2_DB_BOUND, S2_DB_GUESS, S2_DB_PREDICTION, S2_DB_UNSAID } s2_db_figure;
const char *s2_db_figure_word(s2_db_figure figure); /* "bound", "guessed", "predicted", "unknown" */

/* One prediction. `json` is the s2sim/1 object; the other fields are what lists sort by. */
typedef struct s2_db_sim {
    const char *gpu;
    const char *model; /* may be "" */
    const char *phase; /* prefill, decode, ... */
    const char *dtype;
    int64_t len_tok;
    int64_t batch;
    double time_us; /* NAN: only a bound is known */
    s2_db_figure priced;
    double bound_us;
    double dense_us;
    const char *bound_by;
    double density;
    double unread; /* 1 - pairs read / causal pairs over all layers, all queries up to len_tok; or NAN */
    double hbm_bytes;
    double kv_dense_bytes;
    double kv_shared_pages_bytes;
    double kv_head_pages_bytes;
    double kv_ring_stripes_bytes;
    double error_pct; /* NAN: a bound */
    const char *json; /* at most S2_DB_LIMIT_JSON_BYTES */
    /* What else a price is of. NULL, and 0 for tp: not known. */
    const char *kv_dtype; /* of the stored cache */
    const char *weights;
    int64_t tp;           /* tensor-parallel GPUs */
    const char *kernel;   /* whose kernels: S2_DB_OURS, or the name of a kernel model */
    const char *settings; /* what else differs from S2_DB_USUAL: "page=64,keeps=all" */
} s2_db_sim;
#define S2_DB_OURS  "s2"
#define S2_DB_USUAL "usual"

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
    const char *reason;  /* for an outcome that is not ok, may be NULL */
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
    int64_t layer;           /* the layer run, and how many layers of the design read as it does; */
    int64_t layers_alike;    /* 0: unknown */
    const char *json;
    const char *gpu;     /* its name in sim/gpus, as in s2_db_sim; NULL: not known */
    const char *kernels; /* S2_DB_OURS, or somebody else's name; NULL: not known */
} s2_db_validation;

/* How far information gets over a design's layers at one length, by the rules of prefill (reach/hops.h, flow.h). */
typedef struct s2_db_reach {
    int64_t len_tok;
    int64_t hops; /* n_layers + 1: not within the stack; S2_DB_NONE: not measured */
    double flow;  /* the least, relative to dense; NAN: not measured */
} s2_db_reach;

typedef struct s2_db_export {
    const char *target; /* "hf" */
    const char *path;   /* may be "" for standard output */
    const char *out_hash;
} s2_db_export;

/* False for "", "file:..." and ":memory:", which SQLite does not take for the name of a file. */
static inline bool s2_db_is_path(const char *path)
{
    return path[0] != '\0' && strncmp(path, "file:", 5) != 0 && strcmp(path, ":memory:") != 0;
}

/*
 * Open a database. S2_DB_WRITE creates the file, or brings an older one to this schema, one transaction per
 * version; every mode refuses a newer one.
 */
s2_status s2_db_open(const char *path, s2_db_mode mode, s2_db **out, s2_diag *diag) S2_MUST_CHECK;
void s2_db_close(s2_db **db);
/*
 * Does this reader read a copy in memory? On a full disk it does, up to 512 MiB, so that it keeps no writer
 * waiting. A copy does not follow its file: open it again after a change.
 */
bool s2_db_is_copy(const s2_db *db);
/* Does this reader keep writers out? On a full disk it does, where the file is too large for a copy. */
bool s2_db_keeps_writers_out(const s2_db *db);
/* Callable from any thread: a call in progress on this handle soon ends with S2_EPARSE. */
void s2_db_interrupt(s2_db *db);

/* A transaction under the writers' lock; a second begin inside one is S2_EINVAL. */
s2_status s2_db_begin(s2_db *db, s2_diag *diag) S2_MUST_CHECK;
void s2_db_rollback(s2_db *db);
/* Commits where `status` is S2_OK, and else rolls back and returns it. */
s2_status s2_db_end(s2_db *db, s2_status status, s2_diag *diag) S2_MUST_CHECK;

/* Call inside a transaction. Ids are row numbers of this file. A design whose hash is known keeps its row. */
s2_status s2_db_put_run(s2_db *db, const s2_db_run *run, int64_t *run_id, s2_diag *diag) S2_MUST_CHECK;
s2_status s2_db_put_design(s2_db *db, int64_t run_id, const s2_db_design *design, int64_t *design_id,
                           s2_diag *diag) S2_MUST_CHECK;
s2_status s2_db_put_check(s2_db *db, int64_t run_id, int64_t design_id, const s2_db_check *check,
                          s2_diag *diag) S2_MUST_CHECK;
s2_status s2_db_put_sim(s2_db *db, int64_t run_id, int64_t design_id, const s2_db_sim *sim,
                        s2_diag *diag) S2_MUST_CHECK;
s2_status s2_db_put_reach(s2_db *db, int64_t run_id, int64_t design_id, const s2_db_reach *reach,
                          s2_diag *diag) S2_MUST_CHECK;
s2_status s2_db_put_validation(s2_db *db, int64_t run_id, int64_t design_id,
                               const s2_db_validation *validation, s2_diag *diag) S2_MUST_CHECK;
s2_status s2_db_put_export(s2_db *db, int64_t run_id, int64_t design_id, const s2_db_export *row,
                           s2_diag *diag) S2_MUST_CHECK;
/* The exit code and duration with which the run ended. */
s2_status s2_db_end_run(s2_db *db, int64_t run_id, int32_t exit_code, int64_t wall_us,
                        s2_diag *diag) S2_MUST_CHECK;

/* One line of a list. */
typedef struct s2_db_row {
    int64_t id;
    const char *hash;
    const char *name;
    const char *family;
    const char *model;
    int64_t n_layers;
    int64_t n_heads;
    int64_t n_kv_heads;
    int64_t block_tok;
    int64_t created_us;
    int64_t rows; /* s2_db_verdict, or S2_DB_NONE */
    int64_t unions;
    int64_t kv;
    int64_t group;
    int64_t shards;
    const char *phase; /* that the fields below are for; "" when nothing is priced or timed */
    int64_t len_tok;   /* without a phase: of hops, flow and density, or S2_DB_NONE */
    const char *gpu;   /* of a timing alone, the device's name where it is not in sim/gpus */
    int64_t batch;
    /* The rest of a price's kind, as in s2_db_sim; "unknown", and tp 0: older files did not say. */
    const char *llm; /* its name, or "32-layers" where none was named */
    const char *dtype;
    const char *kv_dtype;
    const char *weights;
    int64_t tp;
    const char *kernel;
    const char *settings;
    double density; /* of sparse layers' block pairs */
    double unread;
    double recall; /* what small models learned with such a pattern (reach/worth.h); NAN: not judged */
    double loss;
    int64_t hops; /* as in s2_db_reach, at len_tok; S2_DB_NONE: not measured there */
    double flow;
    double sim_us;   /* the latest prediction; its bound where only that is known */
    int64_t priced;  /* s2_db_figure: what sim_us is; S2_DB_NONE: there is none */
    double kv_bytes; /* NAN of a training step too, which keeps no cache */
    double gpu_us;   /* the latest timing on this GPU by these kernels, all layers */
    const char *outcome;
    bool starred;
    const char *tags; /* joined by commas */
} s2_db_row;

/* A condition of a filter, `column=value`, that no design meets, and the nearest value that one has. */
typedef struct s2_db_missing {
    const char *column; /* NULL: there is none */
    const char *value;
    const char *nearest; /* NULL: none is near */
} s2_db_missing;

typedef struct s2_db_query {
    const char *filter; /* docs/database.md; NULL or "": all */
    const char *sort;   /* a column; NULL: created */
    bool descending;
    int32_t limit;    /* 1 .. 1000000 */
    int64_t after_id; /* last id of the page before; 0: the first page */
    bool backward;    /* the page that ends before after_id, or the last one; still in the list's order */
    bool trash;       /* removed designs instead */
    /*
     * The phase and length for us, kv_mib and gpu_us: only designs with such a price are listed, each with
     * the latest of the kind that the filter names. NULL: each design at those that were predicted for it
     * most often, with the latest of these prices.
     */
    const char *phase;
    int64_t len_tok;
} s2_db_query;

/*
 * The phase and length at which most designs that pass a filter have such a price, where phase (NULL: any) and
 * len_tok (0: any) leave a choice. *phase becomes NULL when no such design has a price. S2_EINVAL as s2_db_list.
 */
s2_status s2_db_common_price(s2_db *db, s2_arena *arena, const char *filter, const char **phase,
                             int64_t *len_tok, s2_diag *diag) S2_MUST_CHECK;

/* For "did you mean" under an empty list: the first such condition of a filter that s2_db_list accepts. */
s2_status s2_db_missing_value(s2_db *db, s2_arena *arena, const char *filter, s2_db_missing *out,
                              s2_diag *diag) S2_MUST_CHECK;

/*
 * A page of designs; rows without a value in the sorted column come last. The rows live in the arena.
 * S2_EINVAL with the reason for an invalid filter or column (*diag has its position).
 */
s2_status s2_db_list(s2_db *db, s2_arena *arena, const s2_db_query *query, const s2_db_row **rows,
                     int32_t *n_rows, s2_diag *diag) S2_MUST_CHECK;

/* How many designs match a query, whatever its page and order. Otherwise as s2_db_list. */
s2_status s2_db_tally(s2_db *db, const s2_db_query *query, int64_t *n_designs, s2_diag *diag) S2_MUST_CHECK;

/* What makes a kind of price, each a column of the filter language. */
typedef enum s2_db_trait {
    S2_DB_PRICED,
    S2_DB_GPU,
    S2_DB_BATCH,
    S2_DB_DTYPE,
    S2_DB_KV_DTYPE,
    S2_DB_WEIGHTS,
    S2_DB_TP,
    S2_DB_KERNEL,
    S2_DB_SETTINGS,
    S2_DB_LLM,
    S2_DB_N_TRAITS
} s2_db_trait;
const char *s2_db_trait_column(s2_db_trait trait);

/* A kind of price: the value of each trait as text, and how many designs have such a price. */
typedef struct s2_db_priced {
    const char *traits[S2_DB_N_TRAITS]; /* NULL: not asked for */
    int64_t n;
} s2_db_priced;

/*
 * The first `cap` kinds of price among the designs that match a query with a phase: those of most designs
 * first, on ties predictions first. Only prices with a value in each column of `by` count (names, ended by
 * NULL), and kinds differ in the traits of the set `asked` (bits 1 << trait). Otherwise as s2_db_list.
 */
s2_status s2_db_priced_kinds(s2_db *db, s2_arena *arena, const s2_db_query *query, const char *const *by,
                             uint32_t asked, int32_t cap, s2_db_priced *kinds, int32_t *n,
                             s2_diag *diag) S2_MUST_CHECK;
/* Column `nth` of the filter language; NULL after the last one. */
const char *s2_db_column(int32_t nth);

/* At most `cap` designs with this name, this hash, or a hash that begins with these (4 or more) digits. */
s2_status s2_db_find(s2_db *db, s2_arena *arena, const char *key, int32_t cap, s2_db_row *rows,
                     int32_t *n_rows, s2_diag *diag) S2_MUST_CHECK;
/* The canonical text of a design, in the arena; re-hashed, so damage and forgery are S2_EDB. */
s2_status s2_db_text(s2_db *db, s2_arena *arena, int64_t design_id, const char **text,
                     s2_diag *diag) S2_MUST_CHECK;

/* A run as stored. */
typedef struct s2_db_run_row {
    int64_t id;
    const char *tool_version;
    const char *commit;
    const char *sqlite_version;
    const char *command;
    const char *argv_json; /* as stored: anything, if from a merged file */
    const char *host;
    int64_t seed;
    int64_t started_us;
    int64_t wall_us;   /* S2_DB_NONE: it did not end normally */
    int64_t exit_code; /* likewise */
    int64_t n_results;
    const char *cwd;
    const char *machine;
    const char *build;
} s2_db_run_row;
/* Run `id`, or with id 0 the latest `cap`, latest first. S2_EINVAL when there is no such run. */
s2_status s2_db_runs(s2_db *db, s2_arena *arena, int64_t id, int32_t cap, s2_db_run_row *rows,
                     int32_t *n_rows, s2_diag *diag) S2_MUST_CHECK;
/* The first `cap` designs that a run made or has results on; *n_all counts all of them. */
s2_status s2_db_run_designs(s2_db *db, s2_arena *arena, int64_t run_id, int32_t cap, s2_db_row *rows,
                            int32_t *n_rows, int64_t *n_all, s2_diag *diag) S2_MUST_CHECK;
/* Word `nth` of a run's command line, in the arena; *word is NULL after the last one. */
s2_status s2_db_run_word(s2_db *db, s2_arena *arena, int64_t run_id, int32_t nth, const char **word,
                         s2_diag *diag) S2_MUST_CHECK;

/* What is stored about a design: what people wrote, then results, the latest of each kind first. */
typedef enum s2_db_kind {
    S2_DB_KIND_NOTE,
    S2_DB_KIND_VALIDATION,
    S2_DB_KIND_CHECK,
    S2_DB_KIND_SIM,
    S2_DB_KIND_REACH,
    S2_DB_KIND_EXPORT,
    S2_DB_N_KINDS
} s2_db_kind;
typedef struct s2_db_result {
    s2_db_kind kind;
    const char *design; /* its name */
    const char *hash;
    int64_t verdict; /* s2_db_verdict (a validation holds or is violated), or S2_DB_NONE */
    int64_t at_us;   /* Unix time of the run, or of the note */
    int64_t run_id;  /* 0 for a note */
    int64_t id;      /* of the row in its table */
    union {
        const char *note;
        s2_db_check check;
        s2_db_sim sim; /* without its json */
        s2_db_reach reach;
        s2_db_validation validation; /* without its json and samples */
        s2_db_export file;
    } of; /* as it was put: texts are never NULL, a missing number is S2_DB_NONE or NAN */
} s2_db_result;
/* At most `cap` results of a design, or (of_run) of a run. */
s2_status s2_db_results(s2_db *db, s2_arena *arena, bool of_run, int64_t id, int32_t cap,
                        s2_db_result *results, int32_t *n_results, s2_diag *diag) S2_MUST_CHECK;
/* The needle grid of a stored validation: a line for each length, a cell for each depth ("#.!?" or blank). */
typedef struct s2_db_needle {
    int64_t len_tok;
    const char *cells;
} s2_db_needle;
s2_status s2_db_needles(s2_db *db, s2_arena *arena, int64_t validation_id, int32_t cap, s2_db_needle *rows,
                        int32_t *n_rows, s2_diag *diag) S2_MUST_CHECK;

/* A design's time on a device: the sum over its kinds of layers, each times the layers that read alike. */
typedef struct s2_db_timing {
    const char *outcome; /* one that is not ok, if any; NULL: there is no such run */
    const char *device;
    double us; /* NAN: some layer was not timed */
} s2_db_timing;
/*
 * Asks for the latest run since since_us that has every layer of the design. phase is the pass of the kernel:
 * "forward", "backward", "decode"; on_cpu: on a CPU, else on anything else.
 */
typedef struct s2_db_timing_query {
    const char *hash;
    const char *phase;
    const char *dtype;
    int64_t len_tok;
    int64_t batch;
    int64_t since_us;
    bool on_cpu;
} s2_db_timing_query;
s2_status s2_db_timing_of(s2_db *db, s2_arena *arena, const s2_db_timing_query *query, s2_db_timing *out,
                          s2_diag *diag) S2_MUST_CHECK;

/* A filter and an order under a name. */
typedef struct s2_db_view {
    const char *name;   /* at most S2_DB_LIMIT_TAG_BYTES */
    const char *filter; /* as in s2_db_query */
    const char *sort;
    bool descending;
} s2_db_view;
/* Replaces a view of the same name. */
s2_status s2_db_view_put(s2_db *db, const s2_db_view *view, s2_diag *diag) S2_MUST_CHECK;
s2_status s2_db_view_drop(s2_db *db, const char *name, s2_diag *diag) S2_MUST_CHECK;
/* At most `cap` views, by name. */
s2_status s2_db_views(s2_db *db, s2_arena *arena, int32_t cap, s2_db_view *views, int32_t *n_views,
                      s2_diag *diag) S2_MUST_CHECK;

/* What people add; each call is its own transaction and can be undone. */
s2_status s2_db_tag(s2_db *db, int64_t design_id, const char *tag, bool on, s2_diag *diag) S2_MUST_CHECK;
s2_status s2_db_note(s2_db *db, int64_t design_id, const char *text, s2_diag *diag) S2_MUST_CHECK;
s2_status s2_db_star(s2_db *db, int64_t design_id, bool on, s2_diag *diag) S2_MUST_CHECK;
s2_status s2_db_remove(s2_db *db, int64_t design_id, s2_diag *diag) S2_MUST_CHECK;
/* An action that was taken back. */
typedef struct s2_db_undone {
    char action[16];                         /* a word of the command line, "tag"; "" for none */
    char tag[S2_DB_LIMIT_TAG_BYTES * 4 + 1]; /* for "tag" and "untag", else "" */
    char design[S2_HASH_HEX];
} s2_db_undone;
/* Takes back the last such action; out->action is "" when there is nothing left to take back. */
s2_status s2_db_undo(s2_db *db, s2_db_undone *out, s2_diag *diag) S2_MUST_CHECK;

/* Remove what is in the trash for good, with its results; undo forgets those designs. */
s2_status s2_db_collect(s2_db *db, int64_t *n_designs, s2_diag *diag) S2_MUST_CHECK;

/* Care of the file. */
/* Check every page, foreign key, hash and JSON text. One line per finding in *findings; none: sound. */
s2_status s2_db_verify(s2_db *db, s2_buf *findings, s2_diag *diag) S2_MUST_CHECK;
/* Copy consistently while others write: next to `path`, synced, then renamed. S2_EINVAL: onto itself. */
s2_status s2_db_backup(s2_db *db, const char *path, bool overwrite, s2_diag *diag) S2_MUST_CHECK;
/*
 * The whole file as SQL text that sqlite3 reads, handed over line by line; the callback returns false to
 * stop. What can be read of a damaged file is handed over before S2_EDB is returned.
 */
typedef bool (*s2_db_line_fn)(void *user, const char *text, size_t n_bytes);
s2_status s2_db_dump(s2_db *db, s2_db_line_fn put, void *user, s2_diag *diag) S2_MUST_CHECK;
/* The version of the SQLite library linked in. */
const char *s2_db_library_version(void);
/* Rows of a table of this schema. */
s2_status s2_db_count(s2_db *db, const char *table, int64_t *n_rows, s2_diag *diag) S2_MUST_CHECK;
extern const char *const s2_db_tables[];

/* What was recovered from a damaged file, and what was not. */
typedef struct s2_db_recovered {
    int64_t n_runs;
    int64_t n_designs;
    int64_t n_results;
    int64_t n_others;         /* tags, notes, environments, views */
    int64_t n_unreadable;     /* pages and rows that make no sense */
    int64_t n_forged;         /* designs whose text has another hash: left out */
    int64_t n_without_design; /* results and notes of designs that are lost: left out */
    int64_t n_lost_runs;      /* runs that are lost; their results lead to a run called "lost" */
} s2_db_recovered;
/*
 * Read a damaged file page by page, its log included, and write what makes sense to a new one at `to`, in
 * one step. S2_EPARSE: nothing of ours is in it; S2_EINVAL: both are one file. The damaged file is not
 * changed; this process may have no handle on it, since closing a file drops every lock that the process
 * holds on it.
 */
s2_status s2_db_recover(const char *path, const char *to, bool overwrite, s2_db_recovered *out,
                        s2_diag *diag) S2_MUST_CHECK;

typedef struct s2_db_merged {
    int64_t n_runs;
    int64_t n_designs;
    int64_t n_results;
    int64_t n_people;     /* tags, notes, stars and views */
    int64_t n_views_kept; /* views of theirs that differ from ours: ours stay */
} s2_db_merged;
/*
 * Bring in what `other` holds, in one transaction: designs by hash, results by (run, number), so that
 * merging twice changes nothing. What is here stays as it is: names, views of the same name, the trash.
 * `other` should be opened as S2_DB_UNTRUSTED.
 */
s2_status s2_db_merge(s2_db *db, s2_db *other, s2_db_merged *out, s2_diag *diag) S2_MUST_CHECK;

#endif /* S2_DB_DB_H */

/*
 * export/format.h - what a foreign format is, and what the files of formats share: one file per format.
 *
 * An importer turns a foreign text into our language (so that it produces what a person could have
 * written) and says in notes what the format leaves unsaid: phase, ties, window widths, chunk sizes.
 * An exporter derives the format's own parameters from a pattern.
 *
 * The table of formats and the operations on it: export/registry.h. Adding a format: docs/adding-a-format.md.
 *
 * Ownership: results live in the arena of the source or target; notes is the caller's buffer.
 * Threads: no state; one source or target, one thread.
 */
#ifndef S2_EXPORT_FORMAT_H
#define S2_EXPORT_FORMAT_H

#include "base/text.h"
#include "export/doc.h"
#include "export/files.h"
#include "pattern/spec.h"

/*
 * A user's `--set KEY=VALUE`: what a format leaves unsaid and a default would otherwise fill. Numbers take
 * the suffixes k and m, 1024 and 1048576.
 */
typedef struct s2_setting {
    const char *key;
    const char *value;
    bool optional; /* a format that does not know the key leaves it to another */
    bool implied;  /* nobody wrote it: where the format cannot use the value, its own default holds */
} s2_setting;

typedef struct s2_settings {
    const s2_setting *list;
    int32_t n;
} s2_settings;

/* What a file says that no pattern can hold, and that a person must hear whatever happens to the pattern. */
typedef struct s2_said {
    s2_buf warnings;      /* one sentence per line */
    int64_t most_tok;     /* the longest context it is for; 0: it says none */
    const char *most_key; /* the key that says so */
    int64_t of_tok;       /* the context that the pattern's numbers are for; 0: for any */
} s2_said;

/* What an importer is handed. */
typedef struct s2_source {
    s2_arena *arena;
    const char *name; /* of the file, for the pattern's name */
    const char *bytes;
    size_t n_bytes;
    const s2_doc *doc; /* the bytes as a configuration, or NULL where they are not one */
    s2_finder finder;  /* for neighbours */
    s2_settings settings;
    s2_buf *notes;      /* one sentence per line */
    s2_said *said;      /* NULL: the caller does not ask */
    s2_fileset *side;   /* files that the pattern refers to (mask arrays); written next to it */
    int64_t *work_left; /* to list blocks (base/work.h); NULL: s2_import_run() allows S2_WORK_STEPS */
    s2_diag *diag;
} s2_source;

/* What an exporter is handed. */
typedef struct s2_target {
    s2_arena *arena;
    const s2_pattern *pattern;
    int64_t n_tok;          /* the context that the file is for, where it states one */
    const char *provenance; /* who proved what, one line, may be "" */
    const char *run;        /* the validation behind it, one line, may be "" or NULL */
    s2_settings settings;
    s2_buf *notes;
    s2_fileset *files; /* the first one is what is read back */
    int64_t
        *work_left; /* to list blocks and compare what was written (base/work.h); NULL: s2_export_run() allows
                           S2_WORK_STEPS */
    s2_diag *diag;
} s2_target;

typedef struct s2_format {
    const char *name;      /* of --from and --to */
    const char *also;      /* the name of the program that reads it, if people say that instead; or NULL */
    const char *summary;   /* one line */
    const char *file_name; /* of the written file, when the user names a directory */
    const char
        *settings; /* the keys of --set that it knows, each the first word of its item; others are refused */
    bool reads_bytes;  /* also reads files that are not configurations: source->doc may be NULL */
    bool fixed_length; /* what is written holds for contexts of n_tok tokens only */
    bool per_gpu;      /* each of several GPUs has files of its own, of the heads that it has */
    bool lossy;        /* differences are counted and reported instead of refused */
    const char *stack; /* what runs such a file, with its versions; NULL: whatever the caller builds */
    const char *model; /* the only model whose code there reads it, as pattern/models.h calls it; NULL: any */
    const char
        *differs; /* when the stack reads other pairs than the file says: one clause; NULL: never, as far
                            as is known */
    /* What the stack frees of the KV cache where a pattern drops keys; neither: not known, or the caller's. */
    bool keeps_all; /* nothing */
    bool
        frees_windows; /* what layers drop in which all heads read one window or chunk; it can say no others */
    bool offloads;     /* it can be told to keep the cache of running sequences in host memory */
    int (*recognises)(const s2_source *source); /* 0 no .. 100 certainly; NULL: never by content */
    s2_status (*read)(const s2_source *source, s2_pattern *out);
    s2_status (*write)(const s2_target *target); /* S2_EUNSUPPORTED with the reason: not this family */
} s2_format;

/* Whether the pattern is of the built-in model of that name, in its published shape. */
bool s2_pattern_is_of(const s2_pattern *pattern, const char *model);

/* "nothing", "windows", or NULL: not known. */
const char *s2_format_frees(const s2_format *format);
/* When what runs such a file of the pattern reads other pairs than it says; NULL: never, or every layer is dense. */
const char *s2_format_differs(const s2_format *format, const s2_pattern *pattern);

/* Record the longest context that the file is for: this key of the object at `prefix`, if it is there. */
s2_status s2_said_most(const s2_source *source, const char *prefix, const char *key) S2_MUST_CHECK;

/* Note that the file states the target's length under this key. */
void s2_note_most(const s2_target *target, const char *key);

/* Append a sentence to the notes. */
void s2_note(s2_buf *notes, const char *fmt, ...) S2_PRINTF(2, 3);

/* A setting of the user, or the fallback. S2_EINVAL with the reason in *diag. */
s2_status s2_setting_int(const s2_settings *settings, const char *key, int64_t low, int64_t high,
                         int64_t fallback, int64_t *out, s2_diag *diag) S2_MUST_CHECK;
s2_status s2_setting_num(const s2_settings *settings, const char *key, double low, double high,
                         double fallback, double *out, s2_diag *diag) S2_MUST_CHECK;
/*
 * --set len=N: the context whose numbers the pattern gets where a file states shares of the length. Kept in
 * said->of_tok.
 */
s2_status s2_setting_len(const s2_source *source, int64_t low, int64_t high, int64_t fallback,
                         int64_t *out) S2_MUST_CHECK;
/* --set block=N, a power of two. */
s2_status s2_setting_block(const s2_settings *settings, int64_t fallback, int64_t *out,
                           s2_diag *diag) S2_MUST_CHECK;
const char *s2_setting_text(const s2_settings *settings, const char *key); /* NULL: not given */

/* `name WORD` from a file or model name: letters, digits, '.', '_', '-'. */
void s2_language_name(s2_buf *text, const char *name);
/* The shape statements; head_dim 0 leaves the default. */
void s2_language_shape(s2_buf *text, int64_t n_layers, int64_t n_heads, int64_t n_kv_heads, int64_t head_dim,
                       int64_t block_tok);

/*
 * Rules for a table of roles: body[role_of[layer * n_columns + column]], where columns are query heads
 * (axis "heads") or KV heads ("kv"). `before` precedes each selector ("decode ").
 */
void s2_language_roles(s2_buf *text, const char *before, const char *axis, int32_t n_layers,
                       int32_t n_columns, const uint16_t *role_of, const char *const *body, int32_t n_roles);

/* The text of a part that goes into a whole, "" if empty. Where memory ran out for the part, the whole fails too. */
const char *s2_part_of(s2_buf *whole, const s2_buf *part);

/* Parse the text an importer wrote, and release it. A refusal is reported at line 1 of the foreign file. */
s2_status s2_language_parse(const s2_source *source, s2_buf *text, s2_pattern *out) S2_MUST_CHECK;

/* S2_EPARSE when the file is not a configuration, or (known is false) not one of this format. */
s2_status s2_source_needs(const s2_source *source, bool known, const char *expected) S2_MUST_CHECK;

/*
 * For a refusal inside a neighbour: its name and position go into the message, and the position becomes the
 * start of the file that names it. Returns `status`, S2_EPARSE or any other.
 */
s2_status s2_neighbour_refuse(const s2_source *source, const char *name, s2_status status) S2_MUST_CHECK;

/* S2_EUNSUPPORTED with the reason: the pattern is not of the format's family. */
s2_status s2_target_refuse(const s2_target *target, const char *fmt, ...) S2_PRINTF(2, 3);

/*
 * Print the member "s2", the last of an object: "name", "model" if the pattern states one, "hash", the hash of
 * the other members ("contents"), proof and run.
 */
void s2_provenance_print(s2_buf *buf, const s2_target *target, const char *indent);

/* The same as sentences, one per line, each after `before`: for headers and modules. */
void s2_provenance_lines(s2_buf *buf, const s2_target *target, const char *before);

#endif /* S2_EXPORT_FORMAT_H */

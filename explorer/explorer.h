/*
 * explorer/explorer.h - the session behind `s2 tui`: it shows the designs of a database and carries out what
 * people do to them.
 *
 * tui/ draws and decides what a key means, and knows neither databases nor processes. This room answers it:
 * it reads the list, changes the database, runs commands in the background, and drives a terminal, a script
 * or one dump of a screen. The caller supplies what only a command knows: how to store results, and under
 * which run.
 *
 * Ownership: options and what they point to belong to the caller and outlive the call. Threads: the call
 * starts four of its own and ends them; `store` is called on one of these.
 */
#ifndef S2_EXPLORER_EXPLORER_H
#define S2_EXPLORER_EXPLORER_H

#include <stdio.h>

#include "tui/looks.h"
#include "tui/session.h"

/*
 * Store a pattern as a design of the database, with its verdicts and its cost at the question; on false,
 * *said says why.
 */
typedef bool (*s2_explorer_store_fn)(void *user, const char *text, size_t n_bytes,
                                     const s2_question *question, s2_buf *said);

typedef struct s2_explorer_options {
    FILE *in;
    FILE *out;
    const char *db_path;  /* the file, whether or not it exists yet; never NULL */
    const char *db_named; /* what --db said, or NULL */
    bool no_db;
    const char *session_path; /* the file that carries a session over to the next; NULL: none */
    const s2_tui_word *words; /* the glossary */
    int32_t n_words;
    s2_explorer_store_fn store;
    void *store_user;
    int32_t rows; /* screen size of scripts and dumps */
    int32_t cols;
    bool ascii;
    bool mono;
    bool mouse;
    bool styles; /* text dumps show the styles too */
    s2_palette palette;
    bool dumps; /* print `view` and exit */
    s2_view_id view;
    const char *script; /* a file of keys, "-" for `in`; or NULL */
    const char *as;     /* text, ansi or png; NULL: by the ending of the output, else text */
    const char *output; /* the file for a dump; NULL: `out` */
} s2_explorer_options;

/*
 * Run until the person, the script or the dump is done. S2_EPARSE: the script is refused; S2_EUNSUPPORTED:
 * there is no terminal; S2_EDB: the database cannot be read; S2_EIO, S2_ENOMEM. *diag says why.
 * *left_behind: a thread is still using what the options point to, and only the end of the process ends it.
 */
s2_status s2_explorer_run(const s2_explorer_options *options, bool *left_behind, s2_diag *diag) S2_MUST_CHECK;

#endif /* S2_EXPLORER_EXPLORER_H */

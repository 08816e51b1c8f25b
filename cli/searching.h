/*
 * cli/searching.h - a running search: what `s2 search` was asked, and its job (search/job.h), whose file is
 * DATABASE.search-HASH.
 *
 * Ownership: plain data over cli->arena but for the job and found.state, which s2_cmd_search releases.
 */
#ifndef S2_CLI_SEARCHING_H
#define S2_CLI_SEARCHING_H

#include "cli/confirm.h"
#include "cli/options.h"
#include "cli/search_words.h"
#include "export/restriction.h"
#include "search/job.h"

typedef struct s2_searching {
    s2_cli *cli;
    s2_found found; /* this rank's while it runs; at the end, on rank 0, that of all ranks */
    s2_args args;
    bool in_file;  /* the operand is a file that holds a space */
    bool in_words; /* the operand is a model in words, not a space */
    s2_search_words words;
    bool model_is_file; /* its shape precedes the space, not its name */
    s2_confirm_options confirm;
    s2_restriction restriction;
    s2_search_job job;
    int64_t stored_us; /* from a file read back: when the run that was storing began; 0: none was */
    bool on_terminal;
    bool quiet; /* no progress, no count of candidates a second */
    double began;
    double shown;
    double slice_ends;
    int64_t began_at; /* this rank's next visit at that time */
    bool moved;       /* some rank had candidates left to visit */
} s2_searching;

/* S2_EXIT_OK, or an exit code after a message. */

/* Sets key and path; needs the options. */
s2_exit s2_search_file_name(s2_searching *r);
/* Each rank reads its state from the file; without one the search starts. All ranks get the same code. */
s2_exit s2_search_file_resume(s2_searching *r);
/* Rank 0 writes what was collected. stored_us: the run that is about to store the front; 0: none yet. */
s2_exit s2_search_file_write(const s2_searching *r, int64_t stored_us);
/* Whether the run that was storing this front committed before it was killed, so as not to store it twice. */
s2_exit s2_search_file_find_stored(s2_searching *r, bool *stored);

#endif /* S2_CLI_SEARCHING_H */

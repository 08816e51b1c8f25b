/*
 * cli/searching.h - a search under way: what `s2 search` was asked, and its job (search/job.h), whose file is
 * DATABASE.search-HASH.
 *
 * Ownership: plain data over cli->arena but for the job and found.state, which s2_cmd_search releases.
 */
#ifndef S2_CLI_SEARCHING_H
#define S2_CLI_SEARCHING_H

#include "cli/confirm.h"
#include "cli/options.h"
#include "cli/restrict.h"
#include "cli/search_words.h"
#include "search/job.h"

typedef struct s2_searching {
    s2_found found; /* of this rank while it runs; in the end, on rank 0, of all of them */
    s2_args args;
    bool in_file;  /* the operand is a file with a space */
    bool in_words; /* the operand is a model in words, not a space */
    s2_search_words words;
    bool model_is_file; /* its shape stands before the space, not its name */
    s2_confirm_options confirm;
    s2_restriction restriction;
    s2_search_job job;
    int64_t stored_us; /* of a file read back: when the run that was storing it began; 0: none was */
    bool on_terminal;
    double began;
    double shown;
    double slice_ends;
    int64_t began_at; /* this rank's next visit then */
    bool moved;       /* some rank had something left to visit */
} s2_searching;

/* S2_EXIT_OK, or an exit code after a message. */

/* Needs the options; sets key and path. */
s2_exit s2_search_file_name(s2_searching *r);
/* Every rank takes its state from the file; without a file the search begins. Every rank gets the same code. */
s2_exit s2_search_file_resume(s2_searching *r);
/* Rank 0: write what was collected. stored_us: the run that is about to store the front, 0: none yet. */
s2_exit s2_search_file_write(const s2_searching *r, int64_t stored_us);
/* Did the run that was storing this very front commit before it was killed? Then nothing is stored twice. */
s2_exit s2_search_file_find_stored(s2_searching *r, bool *stored);

#endif /* S2_CLI_SEARCHING_H */

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

/* Each function that returns an s2_exit has said what is wrong unless that is S2_EXIT_OK. */

/* Refuses options of s2 sim that a search has no use for; before the parser, which does not know them. */
s2_exit s2_search_options_refuse(s2_cli *cli, int argc, char **argv);
/* All options but the part of the space and the output; needs args. */
s2_exit s2_search_options_read(s2_searching *r);
/* Minimized, or limited by --at-most. */
bool s2_search_weighs(const s2_search *search, s2_objective objective);

/* The operand as a space, or a space for the model. */
s2_exit s2_search_space_read(s2_searching *r);
/* Refuses a space that the search could not weigh or share out as asked, before it begins. */
s2_exit s2_search_space_check(s2_searching *r);

/* From here until the release, a signal asks for a stop. */
void s2_search_stop_catch(void);
void s2_search_stop_release(void);
bool s2_search_stopped(void);

/* Explains the first candidate that is not a pattern, as its parser saw it; returns the exit code. */
s2_exit s2_search_explain_refused(const s2_searching *r);
/* If nothing was found, says why: nothing can be deployed as asked, or everything violates union. */
s2_exit s2_search_explain_nothing(const s2_searching *r);

/* Before the search: whether -o can be written at all. */
s2_exit s2_search_output_check(const s2_searching *r);
/* -o: the best design as `s2 export` writes it, from the database if it was stored there. */
s2_exit s2_search_output_write(const s2_searching *r);

/* --dry-run */
s2_exit s2_search_describe(s2_searching *r);

/* Sets key and path; needs the options. */
s2_exit s2_search_file_name(s2_searching *r);
/* Each rank reads its state from the file; without one the search starts. All ranks get the same code. */
s2_exit s2_search_file_resume(s2_searching *r);
/* Rank 0 writes what was collected. stored_us: the run that is about to store the front; 0: none yet. */
s2_exit s2_search_file_write(const s2_searching *r, int64_t stored_us);
/* Whether the run that was storing this front committed before it was killed, so as not to store it twice. */
s2_exit s2_search_file_find_stored(s2_searching *r, bool *stored);

#endif /* S2_CLI_SEARCHING_H */

/*
 * cli/store.h - what commands record, so that no command uses the database directly.
 *
 * The database is opened when something is first stored or looked up. The first row that a command
 * stores also stores the command itself: tool, commit, command line, host, seed. Under --no-db nothing
 * is stored and every function here returns S2_EXIT_OK.
 *
 * Each function is one transaction; when it returns S2_EXIT_OK the rows survive a crash. Otherwise a
 * message was printed and the result is the exit code; the command goes on with its next input and
 * combines the codes, so that a full disk never hides a result from the person waiting for it.
 *
 * Not for s2check: its files store through s2_cli.hooks.
 */
#ifndef S2_CLI_STORE_H
#define S2_CLI_STORE_H

#include "cli/input.h"
#include "sim/price.h"

/* Store a design; store the verdicts on one. */
s2_exit s2_store_design(s2_cli *cli, const s2_input *input);
s2_exit s2_store_checks(s2_cli *cli, const s2_input *input, const s2_db_check *checks, int32_t n_checks);
/* What the time of a price is, as its page says. */
s2_db_figure s2_store_figure(const s2_sim *sim);
/*
 * A row with what `s2 sim` found and its report. Without `sim` the row has only the settings and what the
 * pattern leaves unread, and every other number is missing (NAN). The strings are not copied; new ones go to
 * the arena. S2_ENOMEM.
 */
s2_status s2_store_sim_row(s2_arena *arena, const s2_pattern *pattern, const s2_sim_options *options,
                           const char *model, const s2_sim *sim, const char *json,
                           s2_db_sim *out) S2_MUST_CHECK;
s2_exit s2_store_sim(s2_cli *cli, const s2_input *input, const s2_db_sim *sim);
s2_exit s2_store_reach(s2_cli *cli, const s2_input *input, const s2_db_reach *reach);
s2_exit s2_store_validation(s2_cli *cli, const s2_input *input, const s2_db_validation *validation);
s2_exit s2_store_export(s2_cli *cli, const s2_input *input, const s2_db_export *row);

/* Store only the command itself, so that changes of tags, notes or the file leave a trace too. */
s2_exit s2_store_run(s2_cli *cli);

/* What a search found: designs with checks, predictions and reach, all in one transaction. */
typedef struct s2_store_item {
    s2_input input;
    int32_t n_checks;
    const s2_db_check *checks;
    int32_t n_sims;
    const s2_db_sim *sims;
    const s2_db_reach *reach; /* NULL: not measured */
} s2_store_item;
s2_exit s2_store_items(s2_cli *cli, const s2_store_item *items, int32_t n_items);

/* Set the seed that the run's row will carry; call before the first row is stored. */
void s2_store_set_seed(s2_cli *cli, int64_t seed);

/* The hook behind PATTERN arguments that name a design (cli/cli.h). */
s2_exit s2_store_find_design(s2_cli *cli, const char *key, const char **text, const char **name);

/* Find the design of a name or hash prefix; *design_id is 0 if there is none. Returns 2 if several match. */
s2_exit s2_store_pick(s2_cli *cli, s2_db *db, const char *key, int64_t *design_id);
/* Print why the database refused; returns the exit code of the status. */
s2_exit s2_store_report(s2_cli *cli, s2_status status, const s2_diag *diag);

/* Open the database; S2_EXIT_OK, or the exit code after a message. */
s2_exit s2_store_open(s2_cli *cli, s2_db_mode mode, s2_db **db);
/* "Linux 6.1.0 x86_64, 2 x AMD EPYC": what run rows say about this computer. */
enum { S2_STORE_MACHINE_BYTES = 320 };
void s2_store_machine(char out[S2_STORE_MACHINE_BYTES]);

/* Where the database is: --db, $S2_DB, "s2.db". */
const char *s2_store_path(const s2_cli *cli);

/* Is that the name of a file? Says why not: wherever --db stands, whatever the command does with it, a wrong call. */
s2_exit s2_store_check_path(s2_cli *cli);

/* Main calls this last: it adds exit code and duration to the run's row and closes the database. */
s2_exit s2_store_finish(s2_cli *cli, s2_exit code);

#endif /* S2_CLI_STORE_H */

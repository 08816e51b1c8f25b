/*
 * cli/store.h - what commands record, so that none of them speaks to the database itself.
 *
 * The database is opened when something is first stored or looked up. The first row that a command
 * stores also stores the command itself: tool, commit, command line, host, seed. Under --no-db nothing
 * is stored and every function here returns S2_EXIT_OK.
 *
 * Each function is one transaction; when it returns S2_EXIT_OK the rows survive a crash. Otherwise a
 * message was printed and the result is the exit code; the command goes on with its next input and
 * combines the codes, so that a full disk never hides a result from the person who waits for it.
 *
 * Not for s2check: its files reach storing through s2_cli.hooks.
 */
#ifndef S2_CLI_STORE_H
#define S2_CLI_STORE_H

#include "cli/input.h"
#include "sim/price.h"

/* A design; the verdicts of one. */
s2_exit s2_store_design(s2_cli *cli, const s2_input *input);
s2_exit s2_store_checks(s2_cli *cli, const s2_input *input, const s2_db_check *checks, int32_t n_checks);
/*
 * A row of what `s2 sim` found, with its report. Without `sim` the row has the settings alone, and every number
 * is missing (NAN). The strings are not copied.
 */
s2_db_sim s2_store_sim_row(const s2_pattern *pattern, const s2_sim_options *options, const char *model,
                           const s2_sim *sim, const char *json);
s2_exit s2_store_sim(s2_cli *cli, const s2_input *input, const s2_db_sim *sim);
s2_exit s2_store_validation(s2_cli *cli, const s2_input *input, const s2_db_validation *validation);
s2_exit s2_store_export(s2_cli *cli, const s2_input *input, const s2_db_export *row);

/* The command itself and nothing else: what changes tags, notes or the file leaves a trace too. */
s2_exit s2_store_run(s2_cli *cli);

/* What a search found: designs with checks and predictions, all in one transaction. */
typedef struct s2_store_item {
    s2_input input;
    int32_t n_checks;
    const s2_db_check *checks;
    int32_t n_sims;
    const s2_db_sim *sims;
} s2_store_item;
s2_exit s2_store_items(s2_cli *cli, const s2_store_item *items, int32_t n_items);

/* The seed that the run's row will carry; call before the first row is stored. */
void s2_store_set_seed(s2_cli *cli, int64_t seed);

/* The hook behind PATTERN arguments that name a design (cli/cli.h). */
s2_exit s2_store_find_design(s2_cli *cli, const char *key, const char **text);

/* The one design that a name or hash prefix means; *design_id is 0 when there is none; 2 when several are. */
s2_exit s2_store_pick(s2_cli *cli, s2_db *db, const char *key, int64_t *design_id);
/* Print a refusal of the database; returns the exit code of the status. */
s2_exit s2_store_report(s2_cli *cli, s2_status status, const s2_diag *diag);

/* The database, opened; S2_EXIT_OK, or the exit code after a message. */
s2_exit s2_store_open(s2_cli *cli, s2_db_mode mode, s2_db **db);
/* "Linux 6.1.0 x86_64, 2 x AMD EPYC": what run rows say of this computer. */
enum { S2_STORE_MACHINE_BYTES = 320 };
void s2_store_machine(char out[S2_STORE_MACHINE_BYTES]);

/* Where the database is: --db, $S2_DB, "s2.db". */
const char *s2_store_path(const s2_cli *cli);

/* Main calls it last: the run's row gets its exit code and duration, the database is closed. */
s2_exit s2_store_finish(s2_cli *cli, s2_exit code);

#endif /* S2_CLI_STORE_H */

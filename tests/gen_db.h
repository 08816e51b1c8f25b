/*
 * tests/gen_db.h - database rows computed from a number, for tests that need a database with something in it.
 *
 * Rows are plain data with sensible values in every field; a test changes the fields that matter to it.
 */
#ifndef S2_TESTS_GEN_DB_H
#define S2_TESTS_GEN_DB_H

#include "db/db.h"

extern const s2_db_run s2_gen_run;
extern const s2_db_sim s2_gen_sim; /* prefill at 8k on an H200; 850 us */

/* A verdict of the algebraic prover without a witness. */
s2_db_check s2_gen_check(const char *property, s2_db_verdict verdict, int64_t scope_tok);
/* A timed run of sm90 at 8k; the samples are kept by pointer. */
s2_db_validation s2_gen_validation(const char *outcome, const float *samples_ms, int32_t n_samples);

/* Put a design under the hash of its text, whatever its field says. */
s2_status s2_gen_put_text(s2_db *db, int64_t run_id, s2_db_design design, int64_t *id, s2_diag *diag);
/* Design n: "design-007", one head more than n, every second local, every third without a density. */
s2_status s2_gen_put_design(s2_db *db, int64_t run_id, int64_t n, int64_t *id, s2_diag *diag);
/*
 * A whole transaction: a run that recorded design n with a verdict and a price, every fifth also with a
 * validation. The price of every seventh and the samples fill pages of their own.
 */
s2_status s2_gen_put_all(s2_db *db, int64_t n);

/*
 * All rows of all tables, except those about the file itself, as one text; free it with s2_free(). NULL if
 * the file cannot be read.
 */
char *s2_gen_rows(const char *path);
/* Remove a database and all files that SQLite or s2 may have put next to it. */
void s2_gen_forget(const char *path);

#endif /* S2_TESTS_GEN_DB_H */

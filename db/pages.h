/*
 * db/pages.h - inside db/: the rows of a database file, read page by page without SQLite.
 *
 * For files that SQLite refuses. Debian's library has neither its recovery extension nor the table of raw
 * pages that it needs, so this knows the file format itself: pages, cells, records, overflow chains, the
 * list of free pages, and the write-ahead log up to its last whole transaction. Nothing in a file is
 * trusted: every offset, length and page number is checked, chains and trees are bounded by the number of
 * pages, and a page or cell that makes no sense is skipped.
 *
 * Ownership: the handle owns what records point to, until the next call. Threads: one handle, one thread.
 */
#ifndef S2_DB_PAGES_H
#define S2_DB_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { S2_RECORD_VALUES = 64, S2_RECORD_BYTES = 8 << 20 };

typedef enum s2_value_kind {
    S2_VALUE_NULL,
    S2_VALUE_INT,
    S2_VALUE_REAL,
    S2_VALUE_TEXT,
    S2_VALUE_BLOB
} s2_value_kind;

typedef struct s2_value {
    s2_value_kind kind;
    int64_t whole;
    double real;
    const uint8_t *bytes; /* text and blob; not terminated */
    size_t n_bytes;
} s2_value;

typedef struct s2_record {
    int64_t rowid;
    int32_t n_values;
    s2_value values[S2_RECORD_VALUES];
} s2_record;

typedef struct s2_pages s2_pages;

/* S2_EPARSE: not a file, or shorter than a page; S2_EDB: it cannot be read; S2_ENOMEM. */
s2_status s2_pages_open(const char *path, s2_pages **out, s2_diag *diag) S2_MUST_CHECK;
void s2_pages_close(s2_pages **pages);

/* What the first page says, if it can be read; otherwise all 0. */
typedef struct s2_pages_head {
    bool is_sqlite;
    uint32_t application_id;
    uint32_t user_version;
} s2_pages_head;
s2_pages_head s2_pages_read_head(s2_pages *pages);

/* Called for each record; false stops. */
typedef bool (*s2_record_fn)(void *user, const s2_record *record);

/*
 * Every record of the tree below a root page, of a table or (by_key) of a table without rowid. Pages are
 * marked as seen, so that none is read twice. *n_bad counts pages and cells that could not be read. S2_EDB
 * when stopped by the callback; S2_ENOMEM.
 */
s2_status s2_pages_tree(s2_pages *pages, uint32_t root, bool by_key, s2_record_fn take, void *user,
                        int64_t *n_bad) S2_MUST_CHECK;
/* Marks the free pages as seen: what they hold was deleted. */
void s2_pages_skip_free(s2_pages *pages);
/* Every record of every page of table rows that was not seen yet, whatever table it belongs to. */
s2_status s2_pages_orphans(s2_pages *pages, s2_record_fn take, void *user, int64_t *n_bad) S2_MUST_CHECK;

#endif /* S2_DB_PAGES_H */

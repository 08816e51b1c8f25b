/*
 * explorer/internal.h - inside explorer/: what a session owns, and what its parts offer each other.
 *
 *     explorer.c                 begins and ends the session
 *     loop.c      script.c       the keys of a terminal, of a script
 *     serve.c                    answers what a view requests
 *     change.c    jobs.c         change the database; run commands in the background
 *     file.c                     opens the database and notices what others do to it
 *     list.c record.c front.c    what is stored: the list; one design, runs; the front
 *     keep.c      editor.c       what a session keeps for the next; the person's editor
 *     screen.c    yank.c  log.c  screens to files; a design to the clipboard; messages
 *
 * A file calls only those below it. Everything runs on one thread, except orders, list queries, fronts
 * and changes: each of these four kinds has its worker.
 */
#ifndef S2_EXPLORER_INTERNAL_H
#define S2_EXPLORER_INTERNAL_H

#include <stdatomic.h>
#include <sys/stat.h>

#include "db/db.h"
#include "db/front.h"
#include "explorer/explorer.h"
#include "explorer/job.h"
#include "explorer/worker.h"
#include "tui/terminal.h"

enum {
    S2_EXPLORER_PAGE = 500,
    S2_EXPLORER_LOG = 200,
    S2_EXPLORER_JOBS = 32,
    S2_EXPLORER_RUNS = 200,
    S2_EXPLORER_FORMATS = 64
};

/* Differs once the database's file has changed. */
typedef struct s2_file_stamp {
    ino_t inode;
    off_t size;
    struct timespec time;
    off_t wal_size;
    struct timespec wal_time;
} s2_file_stamp;

/* What defines a list: which designs, in which order. */
typedef struct s2_list_order {
    char filter[S2_TUI_PROMPT_BYTES];
    int32_t sort;
    bool ascending;
} s2_list_order;

/* One query of the list, done by a worker. */
typedef struct s2_list_task {
    s2_db *db; /* its own handle; NULL: not opened yet */
    s2_db_query query;
    s2_list_order order; /* what the query was made from */
    s2_arena arena;
    bool counts; /* count all that the filter leaves, fetch no rows */
    int64_t n_all;
    const s2_db_row *rows;
    int32_t n_rows;
    s2_status status;
    s2_diag diag;
    bool given_up; /* interrupted by the person */
} s2_list_task;

/* The front of a filter, found by a worker. */
typedef struct s2_front_task {
    s2_db *db; /* its own handle; NULL: the samples compete */
    const s2_tui_row *samples;
    int32_t n_samples;
    char filter[S2_TUI_PROMPT_BYTES];
    char minimize[S2_TUI_PROMPT_BYTES];
    s2_front_spec spec;
    s2_arena arena; /* holds what it found */
    s2_tui_front found;
    s2_tui_point *points;
    int64_t cap_points;
    s2_status status;
    s2_diag diag;
} s2_front_task;

/* One change to the database, done by a worker because it may have to wait for another process. */
typedef struct s2_change {
    s2_request request; /* S2_REQUEST_NONE: no change */
    int64_t id;
    bool on;            /* set the star, or remove it */
    bool endures;       /* waits for other writers as long as necessary */
    double told_ms;     /* when to report that it waits */
    bool told;          /* that was reported */
    atomic_bool undone; /* given up while it waited */
    char words[S2_TUI_PROMPT_BYTES];
    char text[S2_TUI_TEXT_BYTES]; /* the workbench's pattern */
    s2_knobs knobs;
    s2_db_view view; /* its texts point into `words` and `filter` */
    char filter[S2_TUI_PROMPT_BYTES];
    const s2_explorer_options *options;
    s2_buf said; /* once done: what was done, or why it was not */
    bool done;   /* it succeeded */
} s2_change;

typedef struct s2_explorer {
    const s2_explorer_options *options;
    s2_session session;
    s2_terminal *term; /* NULL in scripts and dumps */
    double due_ms;     /* when the current key must show on the screen, even if something is still missing */
    s2_db *db;         /* for reading; NULL: the samples */
    s2_file_stamp seen;
    s2_arena log;
    s2_buf database; /* text of session.model.database */
    const char *lines[S2_EXPLORER_LOG];

    s2_worker list_worker;
    s2_list_task list;
    s2_list_order listed;  /* what defines the list shown */
    char filter_said[256]; /* why the typed text is not a filter */
    const char *columns[64];
    int32_t list_wanted; /* rows to query once the current query ends; 0: none */
    bool list_backward;  /* from the end of the list */
    bool follow;         /* the cursor stays on its design when the list is rebuilt */
    struct {
        char hash[S2_HASH_HEX]; /* of that design */
        int32_t n_rows;         /* of the list that it was in; 0: none is remembered */
    } left;
    s2_arena pages; /* holds the rows; rewound when the list is rebuilt */
    s2_tui_row *rows;
    int64_t cap_rows;
    int64_t shown_id; /* the design whose facts the model has */

    s2_worker facts_worker;
    s2_order order;

    s2_worker front_worker;
    s2_front_task front;
    s2_arena front_shown; /* what model->front points to */
    bool front_wanted;    /* another, once the current one is done */
    bool front_asked;     /* at least once */

    s2_worker change_worker;
    s2_change change;
    bool left_behind; /* a worker's task outlives the session: do not free what it uses */

    int32_t n_jobs;
    s2_job *jobs[S2_EXPLORER_JOBS]; /* oldest first */
    s2_job trial;                   /* of the export being chosen */
    s2_status failed;               /* status of the last failure reported */
    char busy[160];
    s2_arena runs_arena;
    s2_tui_run runs[S2_EXPLORER_JOBS + S2_EXPLORER_RUNS];
    s2_arena output_arena;
    int32_t output_of; /* the run that model->output is about */
    s2_arena record_arena;
    int64_t record_of;
    s2_arena loss_arena;
    s2_tui_choice formats[S2_EXPLORER_FORMATS];
    s2_arena choices_arena;
} s2_explorer;

/* How the screen names its source when there is no database. */
extern const char s2_explorer_samples[];

/* ---- log.c */
/* Show a message in the footer and add it to the log. */
void s2_explorer_say(s2_explorer *e, const char *fmt, ...) S2_PRINTF(2, 3);
/* The same for a failure: its reason, or else the sentence for its status. A dump then fails too. */
void s2_explorer_say_failure(s2_explorer *e, s2_status status, const s2_diag *diag);

/* ---- screen.c: screens as text, ANSI or PNG */
s2_status s2_explorer_dump(s2_explorer *e, s2_diag *diag) S2_MUST_CHECK;
/* To the file named in the prompt; its suffix says in which form. */
void s2_explorer_dump_prompted(s2_explorer *e);

/* ---- list.c */
void s2_explorer_list(s2_explorer *e);       /* from the first row */
void s2_explorer_list_last(s2_explorer *e);  /* the end of the list */
void s2_explorer_list_more(s2_explorer *e);  /* the page after the last row */
void s2_explorer_list_less(s2_explorer *e);  /* the page before the first */
void s2_explorer_list_again(s2_explorer *e); /* reload as many rows, cursor on the same design */
/* Before its file is closed: the list of the next file, even after samples, begins on the same design. */
void s2_explorer_list_remember(s2_explorer *e);
/* Take over what the worker found; true when the screen must be redrawn. */
bool s2_explorer_list_collect(s2_explorer *e);
/* Abandon the current query and keep what is shown. */
void s2_explorer_list_give_up(s2_explorer *e);
/* Close the list's handle, before another database takes its place. */
void s2_explorer_list_close(s2_explorer *e);
void s2_explorer_list_release(s2_explorer *e);
const s2_tui_row *s2_explorer_row(const s2_explorer *e, int64_t id);
/* The canonical text of a design, in `arena`; NULL after a message. */
const char *s2_explorer_text(s2_explorer *e, s2_arena *arena, int64_t id);

/* A row in the screen's form, with its texts in the arena. */
s2_tui_row s2_explorer_copy_row(s2_arena *arena, const s2_db_row *row);

/* ---- front.c */
/* Find model->front again. */
void s2_explorer_front(s2_explorer *e);
bool s2_explorer_front_collect(s2_explorer *e);
/* Close the front's handle, before another database takes its place. */
void s2_explorer_front_close(s2_explorer *e);
void s2_explorer_front_release(s2_explorer *e);

/* ---- record.c: what is stored, as lines */
void s2_explorer_runs(s2_explorer *e);
/* Refresh only this session's runs, in place: stored ones do not change while one runs. */
void s2_explorer_runs_go_on(s2_explorer *e);
void s2_explorer_output(s2_explorer *e);
void s2_explorer_record(s2_explorer *e, int64_t design_id);
/* Bring model->views up to date. */
void s2_explorer_views(s2_explorer *e);
/* Plain text split into lines, in the arena. */
s2_tui_text s2_explorer_lines(s2_arena *arena, const s2_buf *text);

/* ---- file.c */
/* Open the database if there is one. */
s2_status s2_explorer_open(s2_explorer *e, s2_diag *diag) S2_MUST_CHECK;
/* Set how commands name the database that this session shows. */
void s2_explorer_name(s2_explorer *e);
/* Reload if another process wrote or replaced the file; true when the screen must be redrawn. */
bool s2_explorer_follow(s2_explorer *e);
s2_file_stamp s2_explorer_stamp(const s2_explorer *e);
/* Open this session's readers anew where they keep writers out (a full disk); false where they still do. */
bool s2_explorer_make_way(s2_explorer *e);

/* ---- change.c: the request in the session's state */
void s2_explorer_change(s2_explorer *e, s2_request request);
/* Take over the outcome of a change that had to wait; true when the screen must be redrawn. */
bool s2_explorer_change_collect(s2_explorer *e);
/* Let a change finish before the next request, unless it waits for another process. */
void s2_explorer_change_await(s2_explorer *e);
/* What to say of a change under way; NULL: none is. */
const char *s2_explorer_change_busy(const s2_explorer *e);
/* Give up a change that waits for another process; false when no change is under way. */
bool s2_explorer_change_give_up(s2_explorer *e);
void s2_explorer_change_release(s2_explorer *e);

/* ---- jobs.c */
/* Run s2 COMMAND on the design that the request is about, with the words of the prompt. */
void s2_explorer_command(s2_explorer *e, const char *command);
void s2_explorer_around(s2_explorer *e);
void s2_explorer_try_export(s2_explorer *e);
void s2_explorer_export(s2_explorer *e);
/* Ask the running job to end; false when nothing runs. */
bool s2_explorer_job_cancel(s2_explorer *e);
/* Read what all jobs say and start the next; true when something changed. */
bool s2_explorer_pump(s2_explorer *e);
/* Does anything run? */
bool s2_explorer_works(const s2_explorer *e);
/* The descriptors that jobs write to, for poll(). */
int32_t s2_explorer_job_files(const s2_explorer *e, int *files, int32_t cap);
void s2_explorer_jobs_release(s2_explorer *e);
void s2_explorer_formats(s2_explorer *e);

/* ---- serve.c */
/* Handle a key and answer the view's request; false: the session ends. */
bool s2_explorer_press(s2_explorer *e, int32_t key);
bool s2_explorer_click(s2_explorer *e, int32_t row, int32_t col, int32_t wheel);
/* Pasted text is typed into what is being edited, and is never a command. */
bool s2_explorer_paste(s2_explorer *e, const char *text);
/* Does the preview next to the list show another row than the cursor's? */
bool s2_explorer_lacks_preview(const s2_explorer *e);
/* Bring the preview next to the list up to date; true when it changed. */
bool s2_explorer_preview(s2_explorer *e);

/* ---- keep.c: carries workbench, list and views over to the next session */
void s2_explorer_take_up(s2_explorer *e);
void s2_explorer_keep(const s2_explorer *e);

/* ---- editor.c */
/* Edit the workbench's pattern in the person's editor; a result with mistakes stays open for correction. */
void s2_explorer_edit(s2_explorer *e);

/* ---- yank.c */
/* Copy what state->yank selects of the requested design to the terminal's clipboard. */
void s2_explorer_yank(s2_explorer *e);

/* ---- script.c */
s2_status s2_explorer_script(s2_explorer *e, const char *path, s2_diag *diag) S2_MUST_CHECK;
s2_status s2_explorer_print(s2_explorer *e, s2_diag *diag) S2_MUST_CHECK;

/* ---- loop.c */
s2_status s2_explorer_terminal(s2_explorer *e, s2_diag *diag) S2_MUST_CHECK;

#endif /* S2_EXPLORER_INTERNAL_H */

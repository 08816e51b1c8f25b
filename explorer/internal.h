/*
 * explorer/internal.h - inside explorer/: what a session owns, and its parts from the bottom up.
 *
 *     explorer.c                 begins and ends it
 *     loop.c      script.c       a terminal's keys, a script's
 *     serve.c                    answers what a view asked for
 *     change.c    jobs.c         change the database; run commands beside the screen
 *     file.c                     opens the database and follows what others do to it
 *     list.c record.c front.c    what is stored: the list; one design, runs; the front
 *     keep.c      editor.c       what is kept of a session; the person's editor
 *     screen.c    yank.c  log.c  screens to files; a design to the clipboard; what was said
 *
 * A file calls those below it alone. All of it is one thread; the four workers do orders, list
 * queries, fronts and changes only.
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

/* What tells that the database's file changed. */
typedef struct s2_file_stamp {
    ino_t inode;
    off_t size;
    struct timespec time;
    off_t wal_size;
    struct timespec wal_time;
} s2_file_stamp;

/* What makes a list: which designs, in which order. */
typedef struct s2_list_order {
    char filter[S2_TUI_PROMPT_BYTES];
    int32_t sort;
    bool ascending;
} s2_list_order;

/* One query of the list, done by a worker. */
typedef struct s2_list_task {
    s2_db *db; /* its own handle; NULL: to be opened */
    s2_db_query query;
    s2_list_order order; /* that the query was made of */
    s2_arena arena;
    bool counts; /* all that the filter leaves, in place of rows */
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
    s2_arena arena; /* of what it found */
    s2_tui_front found;
    s2_tui_point *points;
    int32_t cap_points;
    s2_status status;
    s2_diag diag;
} s2_front_task;

/* One change of the database, done by a worker: it may have to wait for another process. */
typedef struct s2_change {
    s2_request request; /* S2_REQUEST_NONE: there is none */
    int64_t id;
    bool on;            /* of a star */
    bool endures;       /* waits for other writers as long as it must */
    double told_ms;     /* when it is said that it waits */
    bool told;          /* it was */
    atomic_bool undone; /* given up while it waited */
    char words[S2_TUI_PROMPT_BYTES];
    char text[S2_TUI_TEXT_BYTES]; /* the workbench's pattern */
    s2_knobs knobs;
    s2_db_view view; /* its texts are those of `words` and `filter` */
    char filter[S2_TUI_PROMPT_BYTES];
    const s2_explorer_options *options;
    s2_buf said; /* when it is done: what, or why not */
    bool done;   /* it was made */
} s2_change;

typedef struct s2_explorer {
    const s2_explorer_options *options;
    s2_session session;
    s2_terminal *term; /* NULL in scripts and dumps */
    double due_ms;     /* when the key at hand is to be seen on the screen, whatever is not there by then */
    s2_db *db;         /* for reading; NULL: the samples */
    s2_file_stamp seen;
    s2_arena log;
    s2_buf database; /* the words of session.model.database */
    const char *lines[S2_EXPLORER_LOG];

    s2_worker list_worker;
    s2_list_task list;
    s2_list_order listed;  /* of the list that is shown */
    char filter_said[256]; /* why what is typed is no filter */
    const char *columns[64];
    int32_t list_wanted; /* so many rows once the query under way is done; 0: none */
    bool list_backward;  /* those at the end of the list */
    bool follow;         /* the cursor stays on its design when the list is made anew */
    s2_arena pages;      /* of the rows; rewound when the list is made anew */
    s2_tui_row *rows;
    int32_t cap_rows;
    int64_t shown_id; /* the design that the model has facts of */

    s2_worker facts_worker;
    s2_order order;

    s2_worker front_worker;
    s2_front_task front;
    s2_arena front_shown; /* what model->front points to */
    bool front_wanted;    /* once the one under way is done */
    bool front_asked;     /* at least once */

    s2_worker change_worker;
    s2_change change;
    bool left_behind; /* a worker's task goes on until the process ends: what it uses stays */

    int32_t n_jobs;
    s2_job *jobs[S2_EXPLORER_JOBS]; /* oldest first */
    s2_job trial;                   /* of the export that is being chosen */
    s2_status failed;               /* what was said last of what could not be done */
    char busy[160];
    s2_arena runs_arena;
    s2_tui_run runs[S2_EXPLORER_JOBS + S2_EXPLORER_RUNS];
    s2_arena output_arena;
    int32_t output_of; /* the run that model->output tells of */
    s2_arena record_arena;
    int64_t record_of;
    s2_arena loss_arena;
    s2_tui_choice formats[S2_EXPLORER_FORMATS];
    s2_arena choices_arena;
} s2_explorer;

/* How the screen names its source where there is no database. */
extern const char s2_explorer_samples[];

/* ---- log.c */
/* Into the footer and the log. */
void s2_explorer_say(s2_explorer *e, const char *fmt, ...) S2_PRINTF(2, 3);
/* The same of a status that failed: its reason, else its sentence. A dump then fails too. */
void s2_explorer_say_failure(s2_explorer *e, s2_status status, const s2_diag *diag);

/* ---- screen.c: screens as text, ANSI or PNG */
s2_status s2_explorer_dump(s2_explorer *e, s2_diag *diag) S2_MUST_CHECK;
/* To the file that was asked for; its name says which of them. */
void s2_explorer_dump_prompted(s2_explorer *e);

/* ---- list.c */
void s2_explorer_list(s2_explorer *e);       /* from its first row */
void s2_explorer_list_last(s2_explorer *e);  /* its end */
void s2_explorer_list_more(s2_explorer *e);  /* the page after the last row */
void s2_explorer_list_less(s2_explorer *e);  /* the page before the first */
void s2_explorer_list_again(s2_explorer *e); /* as many rows as now, the cursor on the same design */
/* Take over what the worker found; true when the screen is to be drawn. */
bool s2_explorer_list_collect(s2_explorer *e);
/* End the query under way, keep what is shown. */
void s2_explorer_list_give_up(s2_explorer *e);
/* Close what reads the list, before the database is another one. */
void s2_explorer_list_close(s2_explorer *e);
void s2_explorer_list_release(s2_explorer *e);
const s2_tui_row *s2_explorer_row(const s2_explorer *e, int64_t id);
/* The canonical text of a design in `arena`, or NULL after a message. */
const char *s2_explorer_text(s2_explorer *e, s2_arena *arena, int64_t id);

/* A row as the screen has it, its texts in the arena. */
s2_tui_row s2_explorer_copy_row(s2_arena *arena, const s2_db_row *row);

/* ---- front.c */
/* Find model->front anew. */
void s2_explorer_front(s2_explorer *e);
bool s2_explorer_front_collect(s2_explorer *e);
/* Close what reads it, before the database is another one. */
void s2_explorer_front_close(s2_explorer *e);
void s2_explorer_front_release(s2_explorer *e);

/* ---- record.c: what is stored, as lines */
void s2_explorer_runs(s2_explorer *e);
/* Those of this session only, in place: the stored ones do not change while one runs. */
void s2_explorer_runs_go_on(s2_explorer *e);
void s2_explorer_output(s2_explorer *e);
void s2_explorer_record(s2_explorer *e, int64_t design_id);
/* Bring model->views up to date. */
void s2_explorer_views(s2_explorer *e);
/* Lines of plain text, cleaned, in the arena. */
s2_tui_text s2_explorer_lines(s2_arena *arena, const s2_buf *text);

/* ---- file.c */
/* Open the database where there is one. */
s2_status s2_explorer_open(s2_explorer *e, s2_diag *diag) S2_MUST_CHECK;
/* How commands name what this session shows. */
void s2_explorer_name(s2_explorer *e);
/* Another process wrote, or put another file in place; true when the screen is to be drawn anew. */
bool s2_explorer_follow(s2_explorer *e);
s2_file_stamp s2_explorer_stamp(const s2_explorer *e);

/* ---- change.c: the request in the session's state */
void s2_explorer_change(s2_explorer *e, s2_request request);
/* Take over what became of a change that had to wait; true when the screen is to be drawn. */
bool s2_explorer_change_collect(s2_explorer *e);
/* What is asked for next finds it made, unless it waits for another process. */
void s2_explorer_change_await(s2_explorer *e);
/* That one is under way, in words; NULL: none is. */
const char *s2_explorer_change_busy(const s2_explorer *e);
/* It waits for another process and is not made; false where none waits. */
bool s2_explorer_change_give_up(s2_explorer *e);
void s2_explorer_change_release(s2_explorer *e);

/* ---- jobs.c */
/* s2 COMMAND on the design that the request is about, with the words of the prompt. */
void s2_explorer_command(s2_explorer *e, const char *command);
void s2_explorer_around(s2_explorer *e);
void s2_explorer_try_export(s2_explorer *e);
void s2_explorer_export(s2_explorer *e);
/* Ask what runs to end; false where nothing runs. */
bool s2_explorer_job_cancel(s2_explorer *e);
/* Hear all of them, start the next; true when something changed. */
bool s2_explorer_pump(s2_explorer *e);
/* Does anything run? */
bool s2_explorer_works(const s2_explorer *e);
/* What they speak through, to be waited for. */
int32_t s2_explorer_job_files(const s2_explorer *e, int *files, int32_t cap);
void s2_explorer_jobs_release(s2_explorer *e);
void s2_explorer_formats(s2_explorer *e);

/* ---- serve.c */
/* A key, and the answer to what the view asks for; false: the session ends. */
bool s2_explorer_press(s2_explorer *e, int32_t key);
bool s2_explorer_click(s2_explorer *e, int32_t row, int32_t col, int32_t wheel);
/* Text that was pasted: typed where something is typed, and never a command. */
bool s2_explorer_paste(s2_explorer *e, const char *text);
/* Is what the view shows beside its list of another row than the cursor's? */
bool s2_explorer_lacks_preview(const s2_explorer *e);
/* What the view shows beside its list is brought up to date; true when that changed. */
bool s2_explorer_preview(s2_explorer *e);

/* ---- keep.c: workbench, list and views from one session to the next */
void s2_explorer_take_up(s2_explorer *e);
void s2_explorer_keep(const s2_explorer *e);

/* ---- editor.c */
/* The workbench's pattern in the person's editor; what comes back is taken, or stays to be mended. */
void s2_explorer_edit(s2_explorer *e);

/* ---- yank.c */
/* What state->yank says of the design that the request is about, to the terminal's clipboard. */
void s2_explorer_yank(s2_explorer *e);

/* ---- script.c */
s2_status s2_explorer_script(s2_explorer *e, const char *path, s2_diag *diag) S2_MUST_CHECK;
s2_status s2_explorer_print(s2_explorer *e, s2_diag *diag) S2_MUST_CHECK;

/* ---- loop.c */
s2_status s2_explorer_terminal(s2_explorer *e, s2_diag *diag) S2_MUST_CHECK;

#endif /* S2_EXPLORER_INTERNAL_H */

#include "cli/commands.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "cli/check.h"
#include "cli/explain.h"
#include "cli/limit.h"
#include "cli/options.h"
#include "report/report.h"
#include "cli/store.h"
#include "explorer/explorer.h"

/* ---- what the explorer stores */

/*
 * Price the design for the screen's question; *n is 0 if the simulator has no price for it. *out points into
 * *options.
 */
static s2_status price(s2_cli *cli, const s2_facts *facts, s2_sim_options *options, s2_db_sim *out,
                       int32_t *n)
{
    s2_diag diag;
    s2_sim sim;
    s2_buf json = {0};
    *n = 0;
    s2_status status =
        facts->priced ? s2_question_options(&facts->question, &facts->pattern, &cli->arena, options, &diag)
                      : S2_EINVAL;
    if (status == S2_OK)
        status = s2_price(&cli->arena, &facts->pattern, options, S2_PRICE_WHOLE, &sim, &diag);
    if (status != S2_OK)
        return status == S2_ENOMEM ? S2_ENOMEM : S2_OK;
    const s2_report_subject subject = {
        facts->pattern.name, facts->hash, &facts->pattern, options, NULL, NULL};
    s2_sim_report_json(&subject, &sim, &json);
    const char *const kept = json.status == S2_OK ? s2_arena_strndup(&cli->arena, json.data, json.len) : NULL;
    s2_buf_release(&json);
    if (kept == NULL)
        return S2_ENOMEM;
    S2_TRY(s2_store_sim_row(&cli->arena, &facts->pattern, options,
                            options->net != NULL ? options->net->name : "", &sim, kept, out));
    *n = 1;
    return S2_OK;
}

/* Store the design with the facts that the screen showed, derived once more. */
static s2_exit store_design(s2_cli *cli, const char *text, size_t n_bytes, const s2_question *question)
{
    s2_facts facts;
    s2_facts_build(text, n_bytes, question, &facts);
    s2_db_check checks[S2_N_VERDICTS];
    s2_sim_options options;
    s2_db_sim sim;
    s2_store_item item = {
        .input = {.label = "workbench", .text = text, .n_bytes = n_bytes, .pattern = facts.pattern},
        .checks = checks,
        .n_checks = S2_N_VERDICTS,
        .sims = &sim};
    for (int32_t v = 0; facts.status == S2_OK && v < S2_N_VERDICTS; v++)
        checks[v] = s2_finding_row(&cli->arena, &facts.findings[v], "algebra", S2_DB_NONE);
    const s2_status priced = facts.status == S2_OK ? price(cli, &facts, &options, &sim, &item.n_sims) : S2_OK;
    const s2_exit end = facts.status != S2_OK
                            ? s2_input_refuse(cli, facts.status, "workbench", text, n_bytes, &facts.diag)
                        : priced != S2_OK ? s2_cli_fail(cli, priced, "workbench")
                                          : s2_store_items(cli, &item, 1);
    s2_facts_release(&facts);
    return end;
}

/*
 * Store in a run of its own, which ends here, so that nothing is left to write when the session ends.
 * Messages go to *said, not over the screen.
 */
static bool store(void *user, const char *text, size_t n_bytes, const s2_question *question, s2_buf *said)
{
    const s2_cli *const session = user;
    s2_cli cli = *session;
    char *words = NULL;
    size_t n = 0;
    cli.arena = (s2_arena){0};
    cli.started_us = s2_unix_us();
    cli.err = open_memstream(&words, &n);
    if (cli.err == NULL)
        return false;
    const bool stored = store_design(&cli, text, n_bytes, question) == S2_EXIT_OK;
    /* the design is stored, even if the end of its run cannot be */
    (void)s2_store_finish(&cli, S2_EXIT_OK);
    fclose(cli.err);
    s2_arena_release(&cli.arena);
    if (!stored)
        s2_buf_puts(said, words);
    free(words);
    return stored;
}

/* ---- the command */

/* $XDG_STATE_HOME/s2/session, which is ~/.local/state/s2/session where that is not set; NULL without a home. */
static const char *session_path(s2_arena *arena)
{
    const char *const state = getenv("XDG_STATE_HOME"), *const home = getenv("HOME");
    const bool own = state != NULL && state[0] == '/';
    s2_buf path = {0};
    if (!own && (home == NULL || home[0] != '/'))
        return NULL;
    s2_buf_printf(&path, own ? "%s/s2/session" : "%s/.local/state/s2/session", own ? state : home);
    const char *const kept = path.status == S2_OK ? s2_arena_strndup(arena, path.data, path.len) : NULL;
    s2_buf_release(&path);
    return kept;
}

/* The words that `s2 explain` knows; NULL where memory ran out for one of them. */
static const s2_tui_word *glossary(s2_arena *arena, int32_t *n)
{
    const int64_t refused = s2_alloc_n_refused();
    const char *name, *text;
    int32_t count = 0;
    while (s2_explain_word(arena, count, &name, &text))
        count++;
    s2_tui_word *const words = S2_NEW(arena, s2_tui_word, count);
    *n = words != NULL ? count : 0;
    for (int32_t nth = 0; nth < *n; nth++)
        if (s2_explain_word(arena, nth, &name, &text))
            words[nth] = (s2_tui_word){name, text};
    return s2_alloc_n_refused() == refused ? words : NULL;
}

static s2_exit read_options(s2_cli *cli, const s2_args *args, s2_explorer_options *out)
{
    const char *const no_color = getenv("NO_COLOR"), *const dumped = s2_args_str(args, "dump");
    const bool kept = dumped == NULL && !s2_args_has(args, "script") && !s2_args_has(args, "no-session");
    *out = (s2_explorer_options){
        .in = cli->in,
        .out = cli->out,
        .db_path = s2_store_path(cli),
        .db_named = cli->db_path,
        .no_db = cli->no_db,
        .session_path = kept ? session_path(&cli->arena) : NULL,
        .store = store,
        .store_user = cli,
        .ascii = s2_args_has(args, "ascii"),
        .mono = s2_args_has(args, "mono") || (no_color != NULL && no_color[0] != '\0'),
        .mouse = s2_args_has(args, "mouse"),
        .styles = s2_args_has(args, "styles"),
        .dumps = dumped != NULL,
        .script = s2_args_str(args, "script"),
        .as = s2_args_has(args, "as") ? s2_args_str(args, "as") : NULL,
        .output = s2_args_str(args, "output"),
    };
    out->words = glossary(&cli->arena, &out->n_words);
    if (out->words == NULL)
        return s2_cli_fail(cli, S2_ENOMEM, "the words of s2 explain");
    (void)s2_palette_find(s2_args_str(args, "palette"), &out->palette);
    if (!s2_canvas_size_parse(s2_args_str(args, "size"), &out->cols, &out->rows)) {
        s2_cli_error(cli, "--size %s: expected COLUMNSxROWS, as in 80x24", s2_args_str(args, "size"));
        return S2_EXIT_USAGE;
    }
    if (dumped != NULL && !s2_view_find(dumped, &out->view)) {
#define S2_LISTED(id, word, ...) ", " #word
        static const char views[] = S2_VIEW_TABLE(S2_LISTED);
#undef S2_LISTED
        s2_cli_error(cli, "--dump %s: expected one of %s", dumped, views + 2);
        return S2_EXIT_USAGE;
    }
    return S2_EXIT_OK;
}

static s2_exit refuse(s2_cli *cli, s2_status status, const s2_diag *diag)
{
    s2_cli_error(cli, "%s", s2_diag_text(diag, status));
    if (status == S2_EUNSUPPORTED)
        s2_cli_hint(cli, "s2 tui --dump designs prints a screen; s2 ls lists designs");
    return s2_exit_of(status);
}

s2_exit s2_cmd_tui(s2_cli *cli, int argc, char **argv)
{
    s2_args args;
    s2_explorer_options options;
    s2_diag diag = {0};
    bool left_behind;
    S2_CLI_TRY(s2_args_parse(cli, "tui", argc, argv, &args));
    S2_CLI_TRY(read_options(cli, &args, &options));
    if (options.dumps)
        S2_CLI_TRY(s2_limit_begin(cli, "a smaller context")); /* one page, like any other */
    const s2_status status = s2_explorer_run(&options, &left_behind, &diag);
    const s2_exit code = status == S2_OK ? S2_EXIT_OK : refuse(cli, status, &diag);
    if (left_behind) {
        /* a thread that cannot be stopped still uses what we would release, so end the process instead */
        fflush(NULL);
        _exit(code);
    }
    return code;
}

/* tag, note, star, rm and undo: what people add to designs, all of it undoable. */
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/store.h"

#include <string.h>

typedef s2_status (*change_fn)(s2_db *db, int64_t design_id, const s2_args *args, s2_diag *diag);

static s2_status change_tags(s2_db *db, int64_t design_id, const s2_args *args, s2_diag *diag)
{
    for (int32_t n = 1; n < args->n_operands; n++) {
        const char *const word = args->operands[n];
        const bool off = word[0] == '-';
        S2_TRY(s2_db_tag(db, design_id, word + off, !off, diag));
    }
    return S2_OK;
}

static s2_status change_note(s2_db *db, int64_t design_id, const s2_args *args, s2_diag *diag)
{
    return s2_db_note(db, design_id, args->operands[1], diag);
}

static s2_status change_star(s2_db *db, int64_t design_id, const s2_args *args, s2_diag *diag)
{
    return s2_db_star(db, design_id, !s2_args_has(args, "off"), diag);
}

static s2_status change_trash(s2_db *db, int64_t design_id, const s2_args *args, s2_diag *diag)
{
    (void)args;
    return s2_db_remove(db, design_id, diag);
}

/* Where the last word names a design and the first does not, they were probably exchanged. */
static s2_exit hint_order(s2_cli *cli, s2_db *db, const s2_args *args)
{
    int64_t design_id = 0;
    const char *const last = args->operands[args->n_operands - 1];
    if (args->command->min_operands < 2 || s2_store_pick(cli, db, last, &design_id) != S2_EXIT_OK ||
        design_id == 0)
        return S2_EXIT_USAGE;
    s2_cli_hint(cli, "the design comes first: s2 %s %s ...", cli->command, last);
    return S2_EXIT_USAGE;
}

static s2_exit change_one(s2_cli *cli, s2_db *db, const char *key, const s2_args *args, change_fn change)
{
    int64_t design_id;
    S2_CLI_TRY(s2_store_pick(cli, db, key, &design_id));
    if (design_id == 0) {
        s2_cli_error(cli, "%s: no design of that name or hash", key);
        return hint_order(cli, db, args);
    }
    s2_diag diag = {0};
    const s2_status status = change(db, design_id, args, &diag);
    if (status == S2_EINVAL) {
        s2_cli_error(cli, "%s", diag.msg);
        return S2_EXIT_USAGE;
    }
    return status == S2_OK ? S2_EXIT_OK : s2_store_report(cli, status, &diag);
}

/* With `all`, every operand is a design; else only the first is. */
static s2_exit change_designs(s2_cli *cli, const char *command, int argc, char **argv, bool all,
                              change_fn change)
{
    s2_args args;
    S2_CLI_TRY(s2_args_parse(cli, command, argc, argv, &args));
    S2_CLI_TRY(s2_store_run(cli));
    s2_exit code = S2_EXIT_OK;
    for (int32_t n = 0; n < (all ? args.n_operands : 1); n++)
        code = s2_exit_combine(code, change_one(cli, cli->db, args.operands[n], &args, change));
    return code;
}

s2_exit s2_cmd_tag(s2_cli *cli, int argc, char **argv)
{
    return change_designs(cli, "tag", argc, argv, false, change_tags);
}

s2_exit s2_cmd_note(s2_cli *cli, int argc, char **argv)
{
    return change_designs(cli, "note", argc, argv, false, change_note);
}

s2_exit s2_cmd_star(s2_cli *cli, int argc, char **argv)
{
    return change_designs(cli, "star", argc, argv, true, change_star);
}

s2_exit s2_cmd_rm(s2_cli *cli, int argc, char **argv)
{
    return change_designs(cli, "rm", argc, argv, true, change_trash);
}

s2_exit s2_cmd_undo(s2_cli *cli, int argc, char **argv)
{
    s2_args args;
    S2_CLI_TRY(s2_args_parse(cli, "undo", argc, argv, &args));
    S2_CLI_TRY(s2_store_run(cli));
    s2_db_undone undone;
    s2_diag diag = {0};
    const s2_status status = s2_db_undo(cli->db, &undone, &diag);
    if (status != S2_OK)
        return s2_store_report(cli, status, &diag);
    char action[64], tag[512], hash[16], design[16];
    s2_text_clean(action, sizeof action, undone.action);
    s2_text_clean(tag, sizeof tag, undone.tag);
    snprintf(hash, sizeof hash, "%.12s", undone.design);
    s2_text_clean(design, sizeof design, hash);
    if (action[0] == '\0')
        fprintf(cli->out, "nothing to undo\n");
    else
        fprintf(cli->out, "undone: %s%s%s on %s\n", action, tag[0] != '\0' ? " " : "", tag, design);
    return S2_EXIT_OK;
}

#include "cli/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/arith.h"
#include "base/clock.h"
#include "cli/check.h"
#include "cli/color.h"
#include "cli/explain.h"
#include "cli/input.h"
#include "cli/limit.h"
#include "cli/options.h"
#include "coverage/certificate.h"
#include "pattern/layers.h"
#include "pattern/parse.h"
#include "words/explain.h"
#include "words/findings.h"
#include "words/lost.h"
#include "words/size.h"

/* What the command line asks about every pattern. */
typedef struct s2_check_args {
    s2_requirement requirements[S2_MOST_REQUIREMENTS];
    int32_t n_requirements;
    int64_t n_tok;
    const char *engine;
    const char *certificate; /* path, or NULL */
    bool json;
    bool pair;
    int64_t pair_q_tok;
    int64_t pair_k_tok;
    int64_t query_tok;   /* from --query; -1: not given */
    s2_limit_pool *pool; /* steps of proofs, which all patterns share */
} s2_check_args;

/* "1088,64": tokens below the context cap. */
static s2_exit parse_pair(s2_cli *cli, const char *text, s2_check_args *out)
{
    char first[32];
    const size_t n = strcspn(text, ",");
    int64_t q_tok, k_tok;
    if (n < sizeof first && text[n] == ',') {
        memcpy(first, text, n);
        first[n] = '\0';
        if (s2_number_parse(first, &q_tok) && s2_number_parse(text + n + 1, &k_tok) &&
            q_tok < S2_LIMIT_CONTEXT_TOK && k_tok < S2_LIMIT_CONTEXT_TOK) {
            out->pair = true;
            out->pair_q_tok = q_tok;
            out->pair_k_tok = k_tok;
            return S2_EXIT_OK;
        }
    }
    s2_cli_error(cli, "--pair needs two token positions below %d, as in 1088,64; not %s",
                 S2_LIMIT_CONTEXT_TOK, text);
    return S2_EXIT_USAGE;
}

/* --pair and --query answer in words and decide no property: what asks for more than that would be left undone. */
static s2_exit read_question(s2_cli *cli, const s2_args *args, s2_check_args *out)
{
    static const char *const not_with[] = {"query", "require", "engine", "certificate",
                                           "quiet", "json",    NULL};
    const bool pair = s2_args_has(args, "pair"), query = s2_args_has(args, "query");
    if (pair || query)
        S2_CLI_TRY(s2_args_exclude(cli, args, pair ? "--pair" : "--query", pair ? not_with : not_with + 1));
    out->query_tok = -1;
    if (query)
        S2_CLI_TRY(s2_args_int(cli, args, "query", 0, S2_LIMIT_CONTEXT_TOK - 1, &out->query_tok));
    if (pair)
        S2_CLI_TRY(parse_pair(cli, s2_args_str(args, "pair"), out));
    const int64_t last_tok = pair ? s2_max_i64(out->pair_q_tok, out->pair_k_tok) : out->query_tok;
    if (out->n_tok == S2_OPEN || last_tok < out->n_tok)
        return S2_EXIT_OK;
    s2_cli_error(cli, "token %lld of --%s is beyond the %s of --len", (long long)last_tok,
                 pair ? "pair" : "query", s2_count_text(out->n_tok, "token").text);
    return S2_EXIT_USAGE;
}

static s2_exit read_args(s2_cli *cli, const s2_args *args, s2_check_args *out)
{
    *out = (s2_check_args){
        .n_tok = S2_OPEN, .engine = s2_args_str(args, "engine"), .json = s2_args_has(args, "json")};
    s2_color_read(cli, args);
    out->certificate = s2_args_str(args, "certificate");
    if (out->certificate != NULL && args->n_operands > 1) {
        s2_cli_error(cli, "--certificate takes one PATTERN");
        return S2_EXIT_USAGE;
    }
    s2_diag diag = {0};
    if (s2_requirements_parse(s2_args_str(args, "require"), out->requirements, &out->n_requirements, &diag) !=
        S2_OK) {
        s2_cli_error(cli, "--require: %s", diag.msg);
        return S2_EXIT_USAGE;
    }
    if (strcmp(s2_args_str(args, "len"), "all") != 0) {
        S2_CLI_TRY(s2_args_int(cli, args, "len", 1, S2_LIMIT_CONTEXT_TOK, &out->n_tok));
    }
    return read_question(cli, args, out);
}

/* ---- one pattern */

static s2_exit disagree(s2_cli *cli, const s2_pattern *pattern, const s2_finding *a, const s2_finding *b)
{
    char name[32];
    s2_requirement_name(&a->requirement, name, sizeof name);
    s2_cli_error(cli, "internal: the two engines disagree on %s: algebra says %s, enumeration says %s", name,
                 s2_verdict_word(a->verdict), s2_verdict_word(b->verdict));
    s2_buf text = {0};
    s2_pattern_print(pattern, &text);
    s2_cli_hint(cli, "please report it with this pattern:");
    if (text.data != NULL)
        fputs(text.data, cli->err);
    s2_buf_release(&text);
    return S2_EXIT_INTERNAL;
}

/* With two engines, a verdict that only one reached must not look like one of both. */
static void say_alone(s2_cli *cli, const s2_finding *first, const s2_finding *second)
{
    char name[32];
    s2_buf reason = {0};
    if (first->verdict == S2_UNKNOWN || second->verdict != S2_UNKNOWN)
        return;
    s2_requirement_name(&first->requirement, name, sizeof name);
    s2_explain_reason(second, &reason);
    s2_cli_error(cli, "only algebra decides %s; enumeration cannot: %s", name,
                 reason.data != NULL ? reason.data : "");
    s2_buf_release(&reason);
}

static void refuse_ranks(s2_cli *cli, const s2_check_args *check, const s2_pattern *pattern)
{
    for (int32_t r = 0; r < check->n_requirements; r++)
        if (check->requirements[r].property == S2_RANKS && pattern->n_heads % check->requirements[r].arg != 0)
            s2_cli_error(
                cli,
                "ranks:%d: %d GPUs cannot share %d heads evenly; the number of GPUs must divide the heads",
                check->requirements[r].arg, check->requirements[r].arg, pattern->n_heads);
}

/* Within the pattern's part of the steps. */
static s2_status prove(s2_cli *cli, const s2_check_args *check, const s2_pattern *pattern,
                       s2_finding *findings)
{
    int64_t work_left = s2_limit_take(check->pool, S2_PROVE_STEPS);
    const s2_prove_options options = {.n_tok = check->n_tok, .work_left = &work_left};
    const s2_status status =
        s2_prove(&cli->arena, pattern, check->requirements, check->n_requirements, &options, findings);
    s2_limit_spent(check->pool, work_left);
    return status;
}

/* Alone the pattern would have had more steps. */
static void say_short(s2_cli *cli, const s2_check_args *check, const char *name, const s2_finding *findings)
{
    const bool shared = check->pool->taken >= 0 && check->pool->taken < S2_PROVE_STEPS;
    for (int32_t f = 0; shared && f < check->n_requirements; f++) {
        if (findings[f].verdict != S2_UNKNOWN || findings[f].reason != S2_REASON_LIMIT)
            continue;
        s2_cli_error(cli, "%s: not decided within its part of the steps", name);
        s2_limit_hint(cli, check->pool);
        return;
    }
}

static s2_exit decide(s2_cli *cli, const s2_check_args *check, const s2_pattern *pattern,
                      s2_finding *findings)
{
    const s2_prove_options options = {.n_tok = check->n_tok};
    const bool by_enumeration = strcmp(check->engine, "enumerate") == 0;
    s2_finding second[S2_MOST_REQUIREMENTS];
    s2_status status = by_enumeration ? s2_enumerate(&cli->arena, pattern, check->requirements,
                                                     check->n_requirements, &options, findings)
                                      : prove(cli, check, pattern, findings);
    if (status == S2_OK && strcmp(check->engine, "both") == 0) {
        status =
            s2_enumerate(&cli->arena, pattern, check->requirements, check->n_requirements, &options, second);
        for (int32_t f = 0; status == S2_OK && f < check->n_requirements; f++)
            if (!s2_finding_agrees(&findings[f], &second[f]))
                return disagree(cli, pattern, &findings[f], &second[f]);
        for (int32_t f = 0; status == S2_OK && f < check->n_requirements; f++)
            say_alone(cli, &findings[f], &second[f]);
    }
    if (status == S2_EINVAL) {
        refuse_ranks(cli, check, pattern);
        return S2_EXIT_USAGE;
    }
    return status == S2_OK ? S2_EXIT_OK : s2_cli_fail(cli, status, "check");
}

static s2_exit record(s2_cli *cli, const s2_check_args *check, const s2_input *input,
                      const s2_finding *findings, int64_t wall_us)
{
    if (cli->hooks == NULL || cli->hooks->record_checks == NULL || cli->no_db)
        return S2_EXIT_OK;
    s2_db_check rows[S2_MOST_REQUIREMENTS];
    for (int32_t f = 0; f < check->n_requirements; f++)
        rows[f] = s2_finding_row(&cli->arena, &findings[f], check->engine, wall_us);
    return cli->hooks->record_checks(cli, input, rows, check->n_requirements);
}

/* One answer for each phase, of the layers that read alike. */
static s2_status explain_layers(const s2_check_args *check, const s2_pattern *pattern,
                                const int32_t *first_alike, int32_t layer, s2_buf *buf)
{
    const int n_phases = s2_pattern_has_phases(pattern) ? S2_N_RULE_PHASES : 1;
    for (int phase = 0; phase < n_phases; phase++) {
        if (!s2_layers_print_alike(pattern, first_alike, layer, buf))
            return S2_OK;
        s2_buf_printf(buf, "%s%s: query %lld (block %lld), key %lld (block %lld)\n", n_phases > 1 ? ", " : "",
                      n_phases > 1 ? s2_phase_word((s2_phase)phase) : "", (long long)check->pair_q_tok,
                      (long long)(check->pair_q_tok / pattern->block_tok), (long long)check->pair_k_tok,
                      (long long)(check->pair_k_tok / pattern->block_tok));
        S2_TRY(s2_explain_pair(pattern, (s2_phase)phase, layer, (s2_range){0, pattern->n_heads},
                               check->pair_q_tok, check->pair_k_tok, "  ", buf));
    }
    return S2_OK;
}

/* Answer, head by head, whether query Q reads key K. */
static s2_exit answer_pair(s2_cli *cli, const s2_check_args *check, const s2_pattern *pattern)
{
    s2_buf text = {0};
    int32_t *const first_alike = S2_NEW(&cli->arena, int32_t, pattern->n_layers);
    s2_status status =
        first_alike != NULL ? s2_layers_alike(&cli->arena, pattern, S2_BOTH_PHASES, first_alike) : S2_ENOMEM;
    for (int32_t layer = 0; layer < pattern->n_layers && status == S2_OK; layer++)
        status = explain_layers(check, pattern, first_alike, layer, &text);
    if (status != S2_OK) {
        s2_buf_release(&text);
        return s2_cli_fail(cli, status, "explain");
    }
    return s2_cli_print(cli, &text);
}

/* Print which keys a query does not read. */
static s2_exit answer_query(s2_cli *cli, const s2_check_args *check, const s2_pattern *pattern)
{
    s2_buf text = {0};
    const s2_status status = s2_lost_print(pattern, check->query_tok, &text);
    if (status != S2_OK) {
        s2_buf_release(&text);
        return s2_cli_fail(cli, status, "query");
    }
    return s2_cli_print(cli, &text);
}

static s2_exit write_certificate(s2_cli *cli, const s2_check_args *check, const s2_pattern *pattern,
                                 const s2_finding *findings)
{
    if (check->certificate == NULL)
        return S2_EXIT_OK;
    s2_buf text = {0};
    s2_diag diag = {0};
    const s2_status status = s2_certificate_write(pattern, findings, check->n_requirements, &text, &diag);
    s2_exit code = S2_EXIT_UNDECIDED;
    if (status == S2_EUNSUPPORTED)
        s2_cli_error(cli, "no certificate is written: %s", diag.msg);
    else
        code = status == S2_OK ? s2_cli_save(cli, check->certificate, &text)
                               : s2_cli_fail(cli, status, "certificate");
    s2_buf_release(&text);
    return code;
}

/* Where verdicts begin: after the longest property name. */
enum { VERDICT_COLUMN = 13 };

/* s2check cannot read foreign files or the database: for those name s2 check, with the settings they need. */
static s2_replay replay_of(const s2_cli *cli, const s2_input *input, const char *operand, s2_buf *words)
{
    const bool stored =
        strcmp(input->label, operand) == 0 && access(operand, F_OK) != 0 && strcmp(operand, "-") != 0;
    const bool own = input->format == NULL && !stored;
    if (!own && cli->db_path != NULL) {
        s2_buf_puts(words, "--db ");
        s2_buf_shell(words, cli->db_path);
        s2_buf_puts(words, " ");
    }
    for (int32_t n = 0; n < cli->n_sets; n++) {
        s2_buf_puts(words, "--set ");
        s2_buf_shell(words, cli->sets[n]);
        s2_buf_puts(words, " ");
    }
    s2_buf_shell(words, operand);
    s2_buf_add(words, "", 1);
    return (s2_replay){own ? "s2check" : "s2 check", words->data != NULL ? words->data : ""};
}

static s2_exit print_findings(s2_cli *cli, const s2_check_args *check, const s2_input *input,
                              const char *operand, const s2_finding *findings)
{
    s2_buf text = {0}, words = {0};
    const char *const name = s2_input_name(cli, input);
    if (cli->quiet)
        return S2_EXIT_OK;
    const s2_replay replay = replay_of(cli, input, operand, &words);
    const s2_status status =
        check->json ? s2_findings_json(&input->pattern, name, findings, check->n_requirements,
                                       s2_prove_scope(&input->pattern, check->n_tok), &text)
                    : s2_findings_text(&input->pattern, name, replay, findings, check->n_requirements, &text);
    s2_buf_release(&words);
    if (status == S2_OK)
        return check->json ? s2_cli_print(cli, &text) : s2_color_print(cli, &text, VERDICT_COLUMN);
    s2_buf_release(&text);
    return s2_cli_fail(cli, status, "print");
}

static s2_exit check_one(s2_cli *cli, const s2_check_args *check, const char *operand)
{
    s2_input input;
    s2_finding findings[S2_MOST_REQUIREMENTS];
    S2_CLI_TRY(s2_input_read(cli, operand, &input));
    if (check->n_tok != S2_OPEN)
        S2_CLI_TRY(s2_input_fits(cli, &input.pattern, check->n_tok));
    if (check->query_tok >= 0) {
        S2_CLI_TRY(s2_input_fits(cli, &input.pattern, check->query_tok + 1));
        return answer_query(cli, check, &input.pattern);
    }
    if (check->pair)
        return answer_pair(cli, check, &input.pattern);
    const int64_t started_us = s2_steady_ns() / 1000;
    S2_CLI_TRY(decide(cli, check, &input.pattern, findings));
    const int64_t wall_us = s2_steady_ns() / 1000 - started_us;
    S2_CLI_TRY(print_findings(cli, check, &input, operand, findings));
    say_short(cli, check, operand, findings);
    const s2_exit certified = write_certificate(cli, check, &input.pattern, findings);
    const s2_exit recorded = record(cli, check, &input, findings, wall_us);
    const s2_verdict verdict = s2_findings_verdict(findings, check->n_requirements);
    const s2_exit answer = verdict == S2_HOLDS      ? S2_EXIT_OK
                           : verdict == S2_VIOLATED ? S2_EXIT_VIOLATED
                                                    : S2_EXIT_UNDECIDED;
    return s2_exit_combine(s2_exit_combine(recorded, certified), answer);
}

s2_exit s2_cmd_check(s2_cli *cli, int argc, char **argv)
{
    s2_args args;
    s2_check_args check;
    S2_CLI_TRY(s2_args_parse(cli, "check", argc, argv, &args));
    if (s2_args_has(&args, "version")) {
        fprintf(cli->out, "%s %s (%s)\n", cli->program, s2_version(), s2_version_commit());
        return S2_EXIT_OK;
    }
    if (s2_args_has(&args, "explain"))
        return s2_explain_print(cli, s2_args_str(&args, "explain"));
    S2_CLI_TRY(read_args(cli, &args, &check));
    if (args.n_operands == 0) {
        s2_cli_error(cli, "expected a PATTERN");
        return S2_EXIT_USAGE;
    }
    s2_limit_pool pool = s2_limit_share(S2_PROVE_STEPS, args.n_operands);
    s2_exit code = S2_EXIT_OK;
    check.pool = &pool;
    for (int32_t n = 0; n < args.n_operands; n++) {
        const s2_arena_mark_t mark = s2_arena_mark(&cli->arena);
        const s2_exit one = check_one(cli, &check, args.operands[n]);
        s2_arena_rewind(&cli->arena, mark);
        if (one == S2_EXIT_USAGE)
            return one;
        code = s2_exit_combine(code, one);
    }
    return code;
}

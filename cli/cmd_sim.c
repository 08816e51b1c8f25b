#include "cli/commands.h"

#include <math.h>
#include <string.h>

#include "base/work.h"
#include "cli/gpufile.h"
#include "cli/input.h"
#include "cli/limit.h"
#include "cli/netfile.h"
#include "cli/options.h"
#include "cli/pricing.h"
#include "cli/requests.h"
#include "cli/store.h"
#include "cli/textfile.h"
#include "coverage/prove.h"
#include "export/restriction.h"
#include "pattern/models.h"
#include "pattern/parse.h"
#include "report/accuracy.h"
#include "report/report.h"
#include "sim/baseline.h"
#include "sim/machine.h"

typedef struct s2_sim_run_state {
    s2_cli *cli;
    s2_args args;
    s2_sim_options options;
    s2_net net;
    s2_calibration calibration;
    s2_peer peer; /* --kernel-model */
    bool json;
    bool table;
    bool all_phases;          /* --phase all: a line for each */
    s2_sim_requests requests; /* --requests; n 0: none */
    s2_serving serving;
    const s2_format *stack;            /* --stack; NULL: that of the file */
    s2_buf holed, undecided, unproved; /* --compare: whose union is violated, is data, takes too many steps */
    s2_limit_pool pool;                /* of all patterns, and of the methods of --compare as one more */
    int64_t work_left;                 /* of all phases of a pattern, or of all methods of --compare */
    bool largest; /* --batch max: the largest batch that fits, for the pattern and for the dense one */
} s2_sim_run_state;

static const char *phase_name(int phase)
{
    return s2_phase_word((s2_phase)phase);
}

static s2_exit read_numbers(s2_sim_run_state *state)
{
    s2_cli *const cli = state->cli;
    s2_sim_options *const options = &state->options;
    state->largest = strcmp(s2_args_str(&state->args, "batch"), "max") == 0;
    if (!state->largest)
        S2_CLI_TRY(s2_args_int(cli, &state->args, "batch", 1, S2_LIMIT_BATCH, &options->batch));
    if (s2_args_str(&state->args, "new") != NULL)
        S2_CLI_TRY(s2_args_int(cli, &state->args, "new", 1, S2_LIMIT_CONTEXT_TOK, &options->new_tok));
    S2_CLI_TRY(s2_pricing_options(cli, &state->args, options));
    state->all_phases = strcmp(s2_args_str(&state->args, "phase"), "all") == 0;
    options->phase = (s2_phase)s2_word_index(s2_args_str(&state->args, "phase"), phase_name, S2_N_PHASES);
    return S2_EXIT_OK;
}

static s2_exit refuse_machine(s2_cli *cli, const s2_args *args, const s2_sim_options *options)
{
    if (!s2_machine_asked(options) || !(s2_args_has(args, "compare") || s2_args_has(args, "requests")))
        return S2_EXIT_OK;
    s2_cli_error(cli, "--pp, --cp, --ep and --nodes cannot be combined with --compare or --requests");
    return S2_EXIT_USAGE;
}

static s2_exit read_constants(s2_sim_run_state *state)
{
    bool measured;
    if (s2_args_has(&state->args, "bounds"))
        return S2_EXIT_OK;
    S2_CLI_TRY(
        s2_pricing_constants(state->cli, &state->args, &state->options.gpu, &state->calibration, &measured));
    state->options.calibration = &state->calibration;
    return S2_EXIT_OK;
}

/* Somebody else's kernel: a name, or a file. */
static s2_exit read_peer(s2_sim_run_state *state)
{
    s2_cli *const cli = state->cli;
    const char *const name = s2_args_str(&state->args, "kernel-model");
    s2_diag diag = {0};
    if (name == NULL)
        return S2_EXIT_OK;
    if (s2_args_has(&state->args, "bounds") || s2_args_has(&state->args, "accuracy") ||
        s2_args_has(&state->args, "constants")) {
        s2_cli_error(cli, "--kernel-model cannot be combined with --bounds, --constants or --accuracy");
        return S2_EXIT_USAGE;
    }
    state->options.peer = &state->peer;
    if (strpbrk(name, "./") == NULL) {
        const s2_status status = s2_peer_find(name, &state->peer, &diag);
        return status == S2_OK ? S2_EXIT_OK : s2_cli_refuse(cli, status, &diag);
    }
    char *text;
    size_t n_bytes;
    S2_CLI_TRY(s2_textfile_read(cli, name, &text, &n_bytes));
    const s2_status status = s2_peer_parse(text, n_bytes, &state->peer, &diag);
    return status == S2_OK ? S2_EXIT_OK : s2_input_refuse(cli, status, name, text, n_bytes, &diag);
}

/* A mix of requests states its lengths and batches itself. */
static s2_exit read_requests(s2_sim_run_state *state)
{
    static const char *const not_with[] = {"len",       "batch",   "phase",    "new", "dp",
                                           "recompute", "compare", "accuracy", NULL};
    s2_cli *const cli = state->cli;
    const char *const path = s2_args_str(&state->args, "requests");
    if (path == NULL && (s2_args_has(&state->args, "chunk") || s2_args_has(&state->args, "prefix"))) {
        s2_cli_error(cli, "--chunk and --prefix need --requests FILE; a single chunk is --len N --new N");
        return S2_EXIT_USAGE;
    }
    if (path == NULL)
        return S2_EXIT_OK;
    S2_CLI_TRY(s2_args_exclude(cli, &state->args, "--requests", not_with));
    if (s2_args_has(&state->args, "chunk"))
        S2_CLI_TRY(
            s2_args_int(cli, &state->args, "chunk", 1, S2_LIMIT_CONTEXT_TOK, &state->serving.chunk_tok));
    if (s2_args_has(&state->args, "prefix"))
        S2_CLI_TRY(
            s2_args_int(cli, &state->args, "prefix", 1, S2_LIMIT_CONTEXT_TOK, &state->serving.prefix_tok));
    return s2_requests_read(cli, path, &state->requests);
}

static s2_exit read_stack(s2_sim_run_state *state)
{
    const char *const name = s2_args_str(&state->args, "stack");
    if (name == NULL)
        return S2_EXIT_OK;
    state->stack = s2_format_find(name);
    if (state->stack != NULL && state->stack->write != NULL)
        return S2_EXIT_OK;
    s2_cli_error(state->cli, "--stack %s: expected a format that s2 writes, such as vllm", name);
    s2_cli_hint(state->cli, "s2 export --list shows all");
    return S2_EXIT_USAGE;
}

/* Refuse to price what the stack cannot run. Ranks do not change whether its format can say it. */
static s2_exit refuse_unwritable(const s2_sim_run_state *state, const s2_pattern *pattern)
{
    if (state->stack == NULL)
        return S2_EXIT_OK;
    s2_restriction restriction;
    s2_diag diag = {0};
    s2_restriction_of(state->stack, state->options.len_tok, state->options.n_ranks, &restriction);
    const s2_status status = s2_restriction_refusal(&restriction, pattern, &diag);
    if (status != S2_OK)
        return s2_cli_fail(state->cli, status, "export");
    if (diag.msg[0] == '\0')
        return S2_EXIT_OK;
    s2_cli_error(state->cli, "--stack %s: %s", state->stack->name, diag.msg);
    return S2_EXIT_USAGE;
}

static s2_exit read_options(s2_sim_run_state *state)
{
    const char *const model = s2_args_str(&state->args, "model");
    S2_CLI_TRY(s2_gpufile_read(state->cli, s2_args_str(&state->args, "gpu"), &state->options.gpu));
    S2_CLI_TRY(read_constants(state));
    S2_CLI_TRY(read_numbers(state));
    S2_CLI_TRY(s2_pricing_check_machine(state->cli, &state->options));
    S2_CLI_TRY(refuse_machine(state->cli, &state->args, &state->options));
    S2_CLI_TRY(read_peer(state));
    S2_CLI_TRY(read_stack(state));
    S2_CLI_TRY(read_requests(state));
    S2_CLI_TRY(s2_pricing_listed(state->cli, &state->args,
                                 !state->all_phases && state->options.phase == S2_PREFILL, &state->options));
    S2_CLI_TRY(s2_pricing_refuse_training(state->cli, &state->options, s2_args_str(&state->args, "phase"),
                                          state->all_phases || state->options.phase == S2_TRAIN));
    if (model == NULL)
        return S2_EXIT_OK;
    bool is_file;
    S2_CLI_TRY(s2_netfile_read(state->cli, model, &state->net, &is_file));
    state->options.net = &state->net;
    return S2_EXIT_OK;
}

/* Repeat a pattern of one layer for every layer of the named model. */
static s2_exit repeat_layer(s2_cli *cli, const s2_net *net, s2_pattern *pattern)
{
    if (pattern->n_layers != 1 || s2_pattern_layers_differ(pattern) || pattern->n_heads != net->n_heads ||
        pattern->n_kv_heads != net->n_kv_heads)
        return S2_EXIT_OK;
    const int64_t n_heads = pattern->n_heads;
    uint16_t *const body_of = S2_NEW(&cli->arena, uint16_t, S2_N_RULE_PHASES * n_heads * net->n_layers);
    if (body_of == NULL)
        return s2_cli_fail(cli, S2_ENOMEM, "sim");
    for (int64_t phase = 0; phase < S2_N_RULE_PHASES; phase++)
        for (int64_t at = 0; at < n_heads * net->n_layers; at++)
            body_of[phase * n_heads * net->n_layers + at] = pattern->body_of[phase * n_heads + at % n_heads];
    pattern->n_layers = net->n_layers;
    pattern->head_dim = net->head_dim;
    pattern->body_of = body_of;
    return S2_EXIT_OK;
}

/* A pattern's text cannot say that attention is latent; the model's config does. */
static s2_exit take_latent(s2_cli *cli, const s2_net *net, s2_pattern *pattern)
{
    const s2_latent *const own = &net->latent;
    if (!s2_net_is_latent(net) || s2_pattern_is_latent(pattern))
        return S2_EXIT_OK;
    s2_computed *const computed = S2_NEW(&cli->arena, s2_computed, 1);
    if (computed == NULL)
        return s2_cli_fail(cli, S2_ENOMEM, "sim");
    if (pattern->computed != NULL)
        *computed = *pattern->computed;
    computed->latent_dim = own->latent_dim;
    computed->rotary_dim = own->rotary_dim;
    computed->score_dim = own->plain_dim + own->rotary_dim;
    computed->value_dim = own->value_dim;
    if (computed->index_heads == 0) {
        computed->index_heads = own->index_heads;
        computed->index_dim = own->index_dim;
        computed->n_indexers = own->n_indexers;
        computed->n_indexed = own->n_indexed;
    }
    pattern->computed = computed;
    return S2_EXIT_OK;
}

static s2_exit store(s2_cli *cli, const s2_input *input, const s2_sim_options *options, const s2_sim *sim,
                     const char *json)
{
    s2_db_sim row;
    const s2_status status =
        s2_store_sim_row(&cli->arena, &input->pattern, options,
                         options->net != NULL ? options->net->name : "", sim, json, &row);
    return status == S2_OK ? s2_store_sim(cli, input, &row) : s2_cli_fail(cli, status, "the row to store");
}

static s2_exit print(s2_sim_run_state *state, const s2_report_subject *subject, const s2_sim *sim)
{
    s2_buf buf = {0};
    if (state->json) {
        s2_sim_report_json(subject, sim, &buf);
        s2_buf_puts(&buf, "\n");
    } else if (state->all_phases) {
        s2_sim_report_phase_row(subject, sim, &buf);
    } else if (state->table) {
        s2_sim_report_table_row(subject, sim, &buf);
    } else {
        s2_sim_report_text(subject, sim, &buf);
    }
    return s2_cli_print(state->cli, &buf);
}

/* A shape that differs from the model's was usually left unsaid. */
static s2_exit refuse_shape(s2_cli *cli, const s2_net *net, const s2_diag *diag)
{
    const s2_exit code = s2_cli_refuse(cli, S2_EINVAL, diag);
    s2_cli_hint(cli,
                "to give a pattern the shape of the model, begin it with 'layers %d; heads %d; kv-heads %d; "
                "head-dim %d', or with 'model NAME' where it is built in; what a config of another stack "
                "leaves unsaid, --set layers=, heads=, kv-heads= say",
                net->n_layers, net->n_heads, net->n_kv_heads, net->head_dim);
    return code;
}

/* Warn where the operand says one thing, and the command or the simulator another. */
static void say_otherwise(const s2_sim_run_state *state, const char *name, const s2_pattern *pattern,
                          const s2_sim *sim)
{
    s2_cli *const cli = state->cli;
    if (state->options.net != NULL && pattern->model[0] != '\0' &&
        !s2_pattern_is_of(pattern, state->options.net->name))
        s2_cli_hint(cli, "%s says that it is of %s; it is priced in %s, as --model says", name,
                    pattern->model, state->options.net->name);
    if (state->options.phase == S2_TRAIN || state->table || state->all_phases)
        return; /* which say nothing of the context that fits */
    if (cli->most.n_tok > 0 && sim->fit_len_tok > cli->most.n_tok)
        s2_cli_hint(cli, "%s is written for at most %s (%s), whatever more fits the memory", cli->most.path,
                    s2_count_text(cli->most.n_tok, "token").text, cli->most.key);
    if (cli->sized.n_tok > 0)
        s2_cli_hint(cli,
                    "%s states shares of the length: of any other length than %lld it is another pattern, so "
                    "the longest context that fits, and the cache on the way, are not those of the file",
                    cli->sized.path, (long long)cli->sized.n_tok);
}

static void add_name(const char *name, s2_buf *buf)
{
    s2_buf_printf(buf, "%s%s", buf->len > 0 ? ", " : "", name);
}

/* Note a method that does not read all that the others do: its time is not for the same answer. */
static s2_exit judge_union(s2_sim_run_state *state, const char *name, const s2_pattern *pattern)
{
    static const s2_requirement asked = {S2_UNION, 0, true};
    const s2_prove_options options = {.n_tok = state->options.len_tok, .work_left = &state->work_left};
    s2_finding finding;
    const s2_status status = s2_prove(&state->cli->arena, pattern, &asked, 1, &options, &finding);
    if (status != S2_OK)
        return s2_cli_fail(state->cli, status, name);
    if (finding.verdict == S2_UNKNOWN)
        add_name(name, finding.reason == S2_REASON_LIMIT ? &state->unproved : &state->undecided);
    else if (finding.verdict == S2_VIOLATED)
        add_name(name, &state->holed);
    return S2_EXIT_OK;
}

/* Below the table of --compare. */
static s2_exit print_unions(s2_sim_run_state *state)
{
    s2_buf buf = {0};
    if (state->holed.len > 0)
        s2_buf_printf(&buf, "union violated, some keys are read by no head: %s\n", state->holed.data);
    if (state->undecided.len > 0)
        s2_buf_printf(&buf, "union not decided, the keys are chosen at run time: %s\n",
                      state->undecided.data);
    if (state->unproved.len > 0)
        s2_buf_printf(&buf, "union not decided, the proof takes more steps than are allowed: %s\n",
                      state->unproved.data);
    s2_buf_release(&state->unproved);
    s2_buf_release(&state->holed);
    s2_buf_release(&state->undecided);
    return s2_cli_print(state->cli, &buf);
}

/* One of three phases in which not one sequence fits: its line says so, and the others are told. */
static bool is_hopeless(const s2_sim_run_state *state, const s2_sim_options *options)
{
    return state->all_phases && options->phase == S2_TRAIN && options->net != NULL &&
           !s2_sim_training_fits(options);
}

/* Price one pattern, print it, and record it if it came from an operand. */
static s2_exit price(s2_sim_run_state *state, const s2_input *input, const char *name,
                     const s2_pattern *pattern, const s2_baseline *baseline)
{
    s2_cli *const cli = state->cli;
    s2_sim_options options = state->options;
    s2_net own;
    s2_sim_take_net(pattern, &own, &options);
    const s2_format *const format = input == NULL          ? NULL
                                    : state->stack != NULL ? state->stack
                                                           : input->format;
    if (input != NULL)
        S2_CLI_TRY(refuse_unwritable(state, pattern));
    options.keeps_all |= format != NULL && format->keeps_all;
    char hash[S2_HASH_HEX];
    s2_sim sim;
    s2_diag diag = {0};
    const bool linear = baseline != NULL && baseline->kind == S2_BASELINE_LINEAR;
    const s2_report_subject subject = {name,     hash,   pattern,
                                       &options, format, linear ? "no linear state was trained" : NULL};
    s2_status status = s2_pattern_hash(input != NULL ? &input->pattern : pattern, hash);
    if (status == S2_OK && state->requests.n > 0)
        return s2_requests_answer(cli, &subject, &state->serving, &state->requests, &state->pool,
                                  state->json);
    if (status == S2_OK)
        status = state->largest && !is_hopeless(state, &options)
                     ? s2_price_largest(&cli->arena, pattern, &options, &sim, &diag)
                     : s2_price(&cli->arena, pattern, &options, S2_PRICE_WHOLE, &sim, &diag);
    if (status == S2_EINVAL && options.net != NULL && !s2_pattern_layers_differ(pattern) &&
        s2_net_check_shape(options.net, pattern, NULL) != S2_OK)
        return refuse_shape(cli, options.net, &diag);
    if (status != S2_OK)
        return s2_cli_refuse(cli, status, &diag);
    if (baseline != NULL)
        s2_baseline_adjust(baseline, pattern, &options, &sim);
    S2_CLI_TRY(print(state, &subject, &sim));
    if (input != NULL && !state->json)
        say_otherwise(state, name, pattern, &sim);
    if (s2_args_has(&state->args, "compare") && !state->json && !linear)
        S2_CLI_TRY(judge_union(state, name, pattern));
    /* a list would show the price of a part where that of the whole context is expected */
    if (input == NULL || cli->no_db || options.new_tok != 0)
        return S2_EXIT_OK;
    s2_buf json = {0};
    s2_sim_report_json(&subject, &sim, &json);
    const s2_exit stored = json.status == S2_OK ? store(cli, input, &options, &sim, json.data)
                                                : s2_cli_fail(cli, json.status, "the row to store");
    s2_buf_release(&json);
    return stored;
}

/* With --batch max each row has its own batch, which a head cannot say. */
static s2_sim_options options_of_head(const s2_sim_run_state *state)
{
    s2_sim_options options = state->options;
    options.batch = state->largest ? 0 : options.batch;
    return options;
}

/* The first pattern's mask files limit the length, since a table has only one length. */
static s2_exit begin_report(s2_sim_run_state *state, const s2_pattern *pattern, bool is_first)
{
    s2_cli *const cli = state->cli;
    if (state->requests.n > 0)
        return s2_input_fits(cli, pattern, s2_requests_longest(&state->requests));
    if (!is_first)
        return s2_input_fits(cli, pattern, state->options.len_tok);
    S2_CLI_TRY(s2_input_len(cli, &state->args, pattern, &state->options.len_tok));
    if (!state->table || state->json)
        return S2_EXIT_OK;
    const s2_sim_options options = options_of_head(state);
    s2_buf head = {0};
    s2_sim_report_table_head(&options, &head);
    return s2_cli_print(cli, &head);
}

static void say_phase(s2_cli *cli, s2_phase phase)
{
    s2_cli_hint(cli, "--phase all includes %s; --phase prefill, decode or train asks for one",
                s2_phase_word(phase));
}

/* Refuse a machine that one of the phases cannot run on before any phase is printed. */
static s2_exit refuse_phases(s2_sim_run_state *state, const s2_pattern *pattern)
{
    s2_sim_options options = state->options;
    s2_net own;
    s2_diag diag = {0};
    s2_sim_take_net(pattern, &own, &options);
    for (options.phase = 0; options.phase < S2_N_PHASES && s2_machine_asked(&options); options.phase++) {
        const s2_status status = s2_machine_check(pattern, &options, &diag);
        if (status == S2_OK)
            continue;
        const s2_exit code = s2_cli_refuse(state->cli, status, &diag);
        say_phase(state->cli, options.phase);
        return code;
    }
    return S2_EXIT_OK;
}

static s2_exit begin_phases(s2_sim_run_state *state, const char *name)
{
    const s2_sim_options options = options_of_head(state);
    s2_buf head = {0};
    s2_sim_report_phase_head(name, &options, &head);
    return s2_cli_print(state->cli, &head);
}

/* Unlike a search, whose space is of its --model, a pattern has a shape of its own. */
static s2_exit read_operand(s2_sim_run_state *state, const char *operand, s2_input *input)
{
    const s2_net *const net = state->options.net;
    const s2_exit code = s2_input_read(state->cli, operand, input);
    if (code != S2_EXIT_OK && net != NULL && strstr(operand, "layers all:") == operand)
        s2_cli_hint(state->cli,
                    "--model says what is around attention; a pattern begins with its own shape, here "
                    "'layers %d; heads %d; kv-heads %d; head-dim %d; '",
                    (int)net->n_layers, (int)net->n_heads, (int)net->n_kv_heads, (int)net->head_dim);
    return code;
}

static s2_exit price_operand(s2_sim_run_state *state, const char *operand, s2_pattern *first)
{
    s2_input input;
    state->cli->most.n_tok = state->cli->sized.n_tok = 0; /* what the file before said */
    S2_CLI_TRY(read_operand(state, operand, &input));
    S2_CLI_TRY(begin_report(state, &input.pattern, first->n_heads == 0));
    s2_pattern pattern = input.pattern;
    if (state->options.net != NULL) {
        S2_CLI_TRY(repeat_layer(state->cli, state->options.net, &pattern));
        S2_CLI_TRY(take_latent(state->cli, state->options.net, &pattern));
    }
    if (state->all_phases)
        S2_CLI_TRY(refuse_phases(state, &pattern));
    if (state->all_phases && !state->json)
        S2_CLI_TRY(begin_phases(state, s2_input_name(state->cli, &input)));
    if (first->n_heads == 0)
        *first = pattern;
    const char *const name = s2_input_name(state->cli, &input);
    if (!state->all_phases)
        return price(state, &input, name, &pattern, NULL);
    s2_exit code = S2_EXIT_OK;
    for (s2_phase phase = 0; phase < S2_N_PHASES; phase++) {
        state->options.phase = phase;
        const s2_exit one = price(state, &input, name, &pattern, NULL);
        if (one != S2_EXIT_OK)
            say_phase(state->cli, phase);
        code = s2_exit_combine(code, one);
    }
    return code;
}

static s2_exit price_baselines(s2_sim_run_state *state, const s2_pattern *like)
{
    s2_exit code = S2_EXIT_OK;
    s2_diag alike = {0};
    const s2_baseline *baseline;
    const s2_status same = s2_pattern_require_alike(like, "each method of --compare", &alike);
    if (same != S2_OK)
        return s2_cli_refuse(state->cli, same, &alike);
    for (int32_t nth = 0; (baseline = s2_baseline_at(nth)) != NULL; nth++) {
        if (state->largest && baseline->kind != S2_BASELINE_PATTERN) {
            s2_cli_hint(state->cli, "%s is left out: what it fits is not what its pattern fits",
                        baseline->name);
            continue;
        }
        s2_buf text = {0};
        s2_baseline_text(baseline, like, state->options.len_tok, &text);
        s2_pattern pattern;
        s2_diag diag = {0};
        const s2_status status = text.status != S2_OK ? text.status
                                                      : s2_pattern_parse(&state->cli->arena, text.data,
                                                                         text.len, NULL, &pattern, &diag);
        if (status == S2_OK)
            pattern.model = like->model;
        const s2_exit one = status == S2_OK ? price(state, NULL, baseline->name, &pattern, baseline)
                                            : s2_cli_refuse(state->cli, status, &diag);
        code = s2_exit_combine(code, one);
        s2_buf_release(&text);
    }
    return code;
}

enum { FEW = 8 };

/* With several, planning spends from the steps of its pattern too: what each price may plan is much for many. */
static void begin_steps(s2_sim_run_state *state, bool compare)
{
    const int32_t n = state->args.n_operands + compare;
    const int64_t several = (n < FEW ? 4 : 2) * S2_WORK_STEPS; /* a few are rarely meant ill */
    state->pool = s2_limit_share(state->requests.n > 0 ? S2_SERVE_STEPS : several, n);
    state->options.plan_left = state->pool.n_inputs > 1 ? &state->work_left : NULL;
}

/* An operand, or with none the methods of --compare. */
static s2_exit price_in_share(s2_sim_run_state *state, const char *operand, s2_pattern *first)
{
    if (state->requests.n > 0)
        return price_operand(state, operand, first);
    state->work_left = s2_limit_take(&state->pool, S2_WORK_STEPS);
    const s2_exit code =
        operand != NULL ? price_operand(state, operand, first) : price_baselines(state, first);
    if (!s2_work_goes_on(&state->work_left) && code == S2_EXIT_UNDECIDED && state->pool.n_inputs > 1)
        s2_limit_hint(state->cli, &state->pool);
    s2_limit_spent(&state->pool, state->work_left);
    return code;
}

/* What one leaves in memory is released, but for the first pattern, which the others are compared with. */
static s2_exit price_share(s2_sim_run_state *state, const char *operand, s2_pattern *first)
{
    const s2_arena_mark_t mark = s2_arena_mark(&state->cli->arena);
    const bool is_first = first->n_heads == 0;
    const s2_exit code = price_in_share(state, operand, first);
    if (!is_first)
        s2_arena_rewind(&state->cli->arena, mark);
    return code;
}

/* Compare with published figures for other kernels, other GPUs and whole models. */
static s2_exit judge_by_others(s2_sim_run_state *state)
{
    s2_public published;
    s2_diag diag = {0};
    s2_buf buf = {0};
    const s2_status status = s2_public_judge(&state->cli->arena, &published, &diag);
    if (status != S2_OK)
        return s2_cli_refuse(state->cli, status, &diag);
    if (state->json)
        s2_report_public_json(&published, &buf);
    else
        s2_report_public_text(&published, &buf);
    return s2_cli_print(state->cli, &buf);
}

static s2_status judge_constants(s2_sim_run_state *state, const s2_gpu *gpu, const s2_row_file *file,
                                 bool guessed, s2_buf *buf, s2_diag *diag)
{
    s2_calibration calibration;
    s2_accuracy accuracy;
    S2_TRY(guessed ? s2_calibration_guess(gpu, &calibration) : s2_calibration_find(gpu->name, &calibration));
    S2_TRY(s2_accuracy_of(&state->cli->arena, file, gpu, &calibration.model, &accuracy, diag));
    if (state->json)
        s2_accuracy_passes_json(&accuracy, gpu->name, guessed ? "guessed" : "own", buf);
    else
        s2_accuracy_print_passes(&accuracy, guessed ? "guessed from the H200" : "its own constants", buf);
    return S2_OK;
}

/* The other GPUs that were measured: by their own constants, and by those that were guessed before. */
static s2_exit judge_elsewhere(s2_sim_run_state *state)
{
    const char *name;
    s2_buf buf = {0};
    for (int32_t nth = 0; (name = s2_gpu_name(nth)) != NULL; nth++) {
        s2_row_file file;
        s2_gpu gpu;
        s2_diag diag = {0};
        if (strcmp(name, state->options.gpu.name) == 0 ||
            s2_accuracy_rows(&state->cli->arena, name, &file, &diag) != S2_OK)
            continue;
        s2_status status = s2_gpu_find(name, &gpu, &diag);
        if (status == S2_OK && !state->json)
            s2_buf_printf(&buf, "\n%s, rows of seed %lld measured on %s\n", gpu.title,
                          (long long)file.rows[0].seed, file.head.date);
        for (int guessed = 0; guessed < 2 && status == S2_OK; guessed++)
            status = judge_constants(state, &gpu, &file, guessed == 1, &buf, &diag);
        if (status != S2_OK) {
            s2_buf_release(&buf);
            return s2_cli_refuse(state->cli, status, &diag);
        }
    }
    return s2_cli_print(state->cli, &buf);
}

/* How far the constants are off on rows that they were not fitted to. */
static s2_exit judge(s2_sim_run_state *state)
{
    s2_cli *const cli = state->cli;
    const char *const path = s2_args_str(&state->args, "rows");
    const s2_sim_options *const options = &state->options;
    s2_row_file file;
    s2_accuracy accuracy;
    s2_diag diag = {0};
    s2_status status;
    s2_limit_lift();
    if (path != NULL) {
        char *text;
        size_t n_bytes;
        S2_CLI_TRY(s2_textfile_read(cli, path, &text, &n_bytes));
        status = s2_rows_parse(&cli->arena, text, n_bytes, &file, &diag);
        if (status != S2_OK)
            return s2_input_refuse(cli, status, path, text, n_bytes, &diag);
        if (file.n_rows == 0) {
            s2_cli_error(cli, "%s contains no rows to judge by", path);
            return S2_EXIT_REFUSED;
        }
    } else {
        status = s2_accuracy_rows(&cli->arena, options->gpu.name, &file, &diag);
        if (status == S2_EUNSUPPORTED) {
            s2_cli_error(cli, "nothing was measured on %s: give --rows FILE", options->gpu.name);
            return S2_EXIT_ENVIRONMENT;
        }
    }
    if (status == S2_OK && options->calibration == NULL) {
        s2_cli_error(cli, "--accuracy cannot be combined with --bounds");
        return S2_EXIT_USAGE;
    }
    if (status == S2_OK)
        status =
            s2_accuracy_of(&cli->arena, &file, &options->gpu, &options->calibration->model, &accuracy, &diag);
    if (status != S2_OK)
        return s2_cli_refuse(cli, status, &diag);
    s2_buf buf = {0};
    if (state->json) {
        s2_accuracy_json(&accuracy, &buf);
        s2_buf_puts(&buf, "\n");
    } else {
        s2_buf_printf(
            &buf,
            "%s, constants of %s (%s) fitted at commit %s; %d rows drawn by seed %lld, measured on %s\n",
            options->gpu.title, state->calibration.head.date, state->calibration.hash,
            state->calibration.head.commit, accuracy.n_rows > 0 ? accuracy.n_rows : accuracy.n_points,
            (long long)accuracy.seed, file.head.date);
        s2_accuracy_print(&accuracy, &buf);
    }
    S2_CLI_TRY(s2_cli_print(cli, &buf));
    if (path == NULL && !s2_args_has(&state->args, "gpu"))
        S2_CLI_TRY(judge_elsewhere(state));
    if (path == NULL)
        S2_CLI_TRY(judge_by_others(state));
    return accuracy.n_below > 0 ? S2_EXIT_INTERNAL : S2_EXIT_OK;
}

/* Lists what --gpu, --model and --kernel-model may name. */
static s2_exit list_names(s2_cli *cli)
{
    s2_buf buf = {0};
    s2_buf_puts(&buf, "GPUs\n");
    const char *name;
    for (int32_t nth = 0; (name = s2_gpu_name(nth)) != NULL; nth++) {
        s2_gpu gpu;
        s2_diag diag = {0};
        s2_calibration calibration;
        const s2_status status = s2_gpu_find(name, &gpu, &diag);
        if (status != S2_OK) {
            s2_buf_release(&buf);
            return s2_cli_refuse(cli, status, &diag);
        }
        s2_buf_printf(&buf, "  %-16s %s%s\n", name, gpu.title,
                      s2_calibration_find(name, &calibration) == S2_OK ? ", calibrated" : "");
    }
    s2_buf_puts(&buf, "models\n");
    for (int32_t nth = 0; nth < s2_model_count(); nth++) {
        const s2_net net = s2_model_at(nth)->net;
        s2_buf_printf(&buf, "  %-16s %d layers, %d heads on %d KV heads of %d, %s * 10^9 weights\n", net.name,
                      net.n_layers, net.n_heads, net.n_kv_heads, net.head_dim,
                      s2_decimal((double)s2_net_weights(&net) / 1e9, 3).text);
    }
    s2_buf_puts(&buf, "kernel models\n");
    for (int32_t nth = 0; (name = s2_peer_name(nth)) != NULL; nth++) {
        s2_peer peer;
        s2_diag diag = {0};
        const s2_status status = s2_peer_find(name, &peer, &diag);
        if (status != S2_OK) {
            s2_buf_release(&buf);
            return s2_cli_refuse(cli, status, &diag);
        }
        s2_buf_printf(&buf, "  %-16s fitted to times on %s: %s\n", name, peer.gpu, peer.source);
    }
    return s2_cli_print(cli, &buf);
}

s2_exit s2_cmd_sim(s2_cli *cli, int argc, char **argv)
{
    s2_sim_run_state *const state = S2_NEW(&cli->arena, s2_sim_run_state, 1); /* large for a stack */
    if (state == NULL)
        return s2_cli_fail(cli, S2_ENOMEM, "sim");
    state->cli = cli;
    S2_CLI_TRY(s2_args_parse(cli, "sim", argc, argv, &state->args));
    if (s2_args_has(&state->args, "list"))
        return list_names(cli);
    if (s2_sim_options_default(&state->options) != S2_OK)
        return s2_cli_fail(cli, S2_EINTERNAL, "sim");
    state->options.work_left = &state->work_left;
    S2_CLI_TRY(read_options(state));
    const bool compare = s2_args_has(&state->args, "compare");
    state->json = s2_args_has(&state->args, "json");
    if (s2_args_has(&state->args, "accuracy"))
        return judge(state);
    if (state->args.n_operands == 0) {
        s2_cli_error(cli, "expected a PATTERN");
        return S2_EXIT_USAGE;
    }
    if (compare && state->all_phases) {
        s2_cli_error(cli, "--phase all cannot be combined with --compare");
        return S2_EXIT_USAGE;
    }
    state->table = !state->all_phases && (compare || state->args.n_operands > 1);
    s2_exit code = S2_EXIT_OK;
    s2_pattern first = {0};
    begin_steps(state, compare);
    for (int32_t n = 0; n < state->args.n_operands; n++)
        code = s2_exit_combine(code, price_share(state, state->args.operands[n], &first));
    if (compare && first.n_heads != 0)
        code = s2_exit_combine(code, price_share(state, NULL, &first));
    return compare && !state->json ? s2_exit_combine(code, print_unions(state)) : code;
}

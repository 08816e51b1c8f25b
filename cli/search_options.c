/* The command line of a search, and the words of its request. */
#include "cli/searching.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arith.h"
#include "base/quantity.h"
#include "cli/check.h"
#include "cli/foreign.h"
#include "cli/gpufile.h"
#include "cli/pricing.h"
#include "cli/store.h"
#include "cli/textfile.h"
#include "judge/validate.h"

enum { MOST_BATCH = 65536 };

/*
 * The default of --minimize. By price alone, the winner of a proposed space is the design with which a model
 * learns least (docs/worth.md), so two prices, time and cache, face two measures of what is given up. Where
 * every design has the same cache, time faces dilution alone; else the design nearest to dense attention
 * would win.
 */
static const char *usual_minimize(const s2_searching *r)
{
    const bool proposed = r->args.n_operands == 0 || r->in_words;
    const bool trains = r->found.n_phases == 1 && r->found.phases[0] == S2_TRAIN;
    if (trains)
        return proposed ? "us,dilution" : "us,unread";
    if (r->found.search.options.keeps_all && proposed)
        return "us,kv_bytes,dilution";
    return proposed ? "us,kv_bytes,unread,dilution" : s2_args_str(&r->args, "minimize");
}

/* Calls take(user, word) for each word between commas; false ends it. */
typedef bool (*word_fn)(s2_found *found, const char *word, size_t n);
static s2_exit read_list(s2_searching *r, const char *option, const char *list, const char *expected,
                         word_fn take)
{
    for (const char *rest = list;; rest++) {
        const size_t n = strcspn(rest, ",");
        if (!take(&r->found, rest, n)) {
            s2_cli_error(r->cli, "--%s %s: expected %s, each once", option, list, expected);
            return S2_EXIT_USAGE;
        }
        rest += n;
        if (*rest == '\0')
            return S2_EXIT_OK;
    }
}

static bool take_phase(s2_found *found, const char *word, size_t n)
{
    for (int phase = 0; phase < S2_N_PHASES; phase++) {
        if (!s2_text_is(s2_phase_word((s2_phase)phase), word, n))
            continue;
        for (int32_t p = 0; p < found->n_phases; p++)
            if (found->phases[p] == (s2_phase)phase)
                return false;
        found->phases[found->n_phases++] = (s2_phase)phase;
        return true;
    }
    return false;
}

static bool minimizes(const s2_search *search, s2_objective objective)
{
    for (int32_t v = 0; v < search->n_by; v++)
        if (search->by[v] == objective)
            return true;
    return false;
}

static bool add_objective(s2_search *search, s2_objective objective)
{
    if (minimizes(search, objective) || search->n_by == S2_MAX_OBJECTIVES)
        return false;
    search->by[search->n_by++] = objective;
    return true;
}

static bool take_objective(s2_found *found, const char *word, size_t n)
{
    if (s2_text_is("us", word, n)) {
        bool good = true;
        for (int32_t p = 0; p < found->n_phases && good; p++)
            good = add_objective(&found->search, s2_objective_time(found->phases[p]));
        return good;
    }
    for (int objective = 0; objective < S2_N_OBJECTIVES; objective++)
        if (s2_text_is(s2_objective_word((s2_objective)objective), word, n))
            return add_objective(&found->search, (s2_objective)objective);
    return false;
}

/* The units that may follow a number of an objective. */
static s2_quantity quantity_of(s2_objective objective)
{
    if (objective <= S2_BY_TRAIN_US)
        return S2_QUANTITY_TIME;
    if (objective == S2_BY_KV_BYTES)
        return S2_QUANTITY_BYTES;
    return objective == S2_BY_DENSITY || objective == S2_BY_UNREAD ? S2_QUANTITY_SHARE : S2_QUANTITY_COUNT;
}

/* "30%", "900", "2g"; false where it is not a quantity of that objective. */
static bool take_most(const char *text, size_t n, s2_search_limit *limit)
{
    char copy[32];
    if (n == 0 || n >= sizeof copy)
        return false;
    memcpy(copy, text, n);
    copy[n] = '\0';
    const bool bytes = limit->of == S2_BY_KV_BYTES;
    limit->of_dense = bytes && copy[n - 1] == '%';
    return s2_quantity_parse(limit->of_dense ? S2_QUANTITY_SHARE : quantity_of(limit->of), copy, 1,
                             &limit->most);
}

static bool add_limit(s2_search *search, s2_search_limit limit)
{
    int32_t n = search->n_by;
    for (int32_t nth = 0; nth < search->n_limits; nth++) {
        if (search->limits[nth].of == limit.of)
            return false;
        n += !minimizes(search, search->limits[nth].of);
    }
    if (n + !minimizes(search, limit.of) > S2_MAX_OBJECTIVES)
        return false;
    search->limits[search->n_limits++] = limit;
    return true;
}

static bool take_limit(s2_found *found, const char *word, size_t n)
{
    const char *const sign = memchr(word, '=', n);
    const size_t name = sign != NULL ? (size_t)(sign - word) : n;
    const bool times = s2_text_is("us", word, name);
    bool good = false;
    for (int objective = 0; sign != NULL && objective < S2_N_OBJECTIVES; objective++) {
        s2_search_limit limit = {.of = (s2_objective)objective};
        bool meant = s2_text_is(s2_objective_word(limit.of), word, name);
        for (int32_t p = 0; times && p < found->n_phases; p++)
            meant |= limit.of == s2_objective_time(found->phases[p]);
        if (meant && !(take_most(sign + 1, n - name - 1, &limit) && add_limit(&found->search, limit)))
            return false;
        good |= meant;
    }
    return good;
}

/* A cache limit below any design's must be a slip: 50 was meant as 50% or 50 GiB. */
static s2_exit refuse_tiny(const s2_searching *r)
{
    enum { TINY = 65536 };
    const s2_search *const search = &r->found.search;
    for (int32_t n = 0; n < search->n_limits; n++) {
        const s2_search_limit *const limit = &search->limits[n];
        if (limit->of != S2_BY_KV_BYTES || limit->of_dense || limit->most >= TINY)
            continue;
        const s2_figure_text number = s2_decimal(limit->most, 10);
        const char *const text = number.text;
        s2_cli_error(r->cli, "--at-most kv_bytes=%s is %s bytes: write %s%% of dense, or a unit, as in %sg",
                     text, text, text, text);
        return S2_EXIT_USAGE;
    }
    return S2_EXIT_OK;
}

/* What the words of the request say goes before the options' defaults; refuse_both() has refused both. */
static s2_exit take_words(s2_searching *r)
{
    s2_sim_options *const options = &r->found.search.options;
    const s2_search_words *const words = &r->words;
    const struct {
        const char *what, *unit;
        int64_t said;
        int64_t most;
        int32_t *to;
    } counts[] = {{"tp", "GPUs", words->n_ranks, S2_LIMIT_HEADS, &options->n_ranks},
                  {"dp", "groups of GPUs", words->n_shards, S2_LIMIT_BATCH, &options->n_shards},
                  {"pp", "stages", words->n_stages, S2_LIMIT_LAYERS, &options->n_stages},
                  {"cp", "GPUs", words->n_context, S2_LIMIT_LAYERS, &options->n_context},
                  {"ep", "replicas", words->n_expert_ranks, S2_LIMIT_BATCH, &options->n_expert_ranks},
                  {"nodes", "nodes", words->n_nodes, S2_MOST_NODES, &options->n_nodes},
                  {"a context", "tokens", words->len_tok, S2_LIMIT_CONTEXT_TOK, NULL},
                  {"a batch", "sequences", words->batch, MOST_BATCH, NULL}};
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
        if (counts[n].said > counts[n].most) {
            s2_cli_error(r->cli, "%s is at most %lld %s", counts[n].what, (long long)counts[n].most,
                         counts[n].unit);
            return S2_EXIT_USAGE;
        }
        if (counts[n].said > 0 && counts[n].to != NULL)
            *counts[n].to = (int32_t)counts[n].said;
    }
    if (words->len_tok > 0)
        options->len_tok = words->len_tok;
    if (words->batch > 0)
        options->batch = words->batch;
    if (words->weights != NULL)
        options->weights = s2_pricing_weights(words->weights);
    options->recompute |= words->recompute != 0;
    return s2_pricing_check_machine(r->cli, options);
}

static s2_exit read_numbers(s2_searching *r)
{
    s2_cli *const cli = r->cli;
    s2_search *const search = &r->found.search;
    int64_t seed, jobs = s2_max_i64(sysconf(_SC_NPROCESSORS_ONLN) / r->job.ranks.n_here, 1);
    S2_CLI_TRY(s2_args_int(cli, &r->args, "len", 1, S2_LIMIT_CONTEXT_TOK, &search->options.len_tok));
    if (strcmp(s2_args_str(&r->args, "batch"), "max") == 0) {
        s2_cli_error(cli, "--batch max gives each design its own batch, and a search compares designs at one "
                          "batch; price what it found with s2 sim --batch max");
        return S2_EXIT_USAGE;
    }
    S2_CLI_TRY(s2_args_int(cli, &r->args, "batch", 1, MOST_BATCH, &search->options.batch));
    S2_CLI_TRY(s2_args_int(cli, &r->args, "seed", 0, INT64_C(1) << 53, &seed));
    if (s2_args_has(&r->args, "jobs"))
        S2_CLI_TRY(s2_args_int(cli, &r->args, "jobs", 1, S2_SEARCH_JOBS, &jobs));
    S2_CLI_TRY(s2_args_int(cli, &r->args, "validate", 0, 1000, &r->confirm.n));
    S2_CLI_TRY(s2_args_int(cli, &r->args, "runs", 0, S2_LIMIT_SAMPLES, &r->confirm.n_runs));
    r->confirm.device = s2_args_str(&r->args, "device");
    S2_CLI_TRY(s2_pricing_options(cli, &r->args, &search->options));
    S2_CLI_TRY(take_words(r));
    search->seed = (uint64_t)seed;
    search->n_jobs = (int32_t)jobs;
    s2_store_set_seed(cli, seed);
    return S2_EXIT_OK;
}

static s2_exit read_names(s2_searching *r)
{
    s2_found *const found = &r->found;
    const char *const model = r->words.model != NULL ? r->words.model : s2_args_str(&r->args, "model");
    const char *const gpu = r->words.gpu != NULL ? r->words.gpu : s2_args_str(&r->args, "gpu");
    s2_diag diag = {0};
    S2_CLI_TRY(s2_gpufile_read(r->cli, gpu, &found->search.options.gpu));
    found->model = "";
    if (model != NULL)
        S2_CLI_TRY(s2_found_read_model(r->cli, found, model, &r->model_is_file));
    const s2_status status = s2_requirements_parse(
        s2_args_str(&r->args, "require"), found->search.requirements, &found->search.n_requirements, &diag);
    if (status != S2_OK)
        return s2_cli_refuse(r->cli, status, &diag);
    S2_CLI_TRY(s2_pricing_constants(r->cli, &r->args, &found->search.options.gpu, &found->calibration,
                                    &found->measured));
    if (found->measured && !s2_args_has(&r->args, "bounds"))
        found->search.options.calibration = &found->calibration;
    return S2_EXIT_OK;
}

bool s2_search_weighs(const s2_search *search, s2_objective objective)
{
    bool limited = false;
    for (int32_t n = 0; n < search->n_limits; n++)
        limited |= search->limits[n].of == objective;
    return limited || minimizes(search, objective);
}

static bool requires_union(const s2_search *search)
{
    for (int32_t n = 0; n < search->n_requirements; n++)
        if (search->requirements[n].property == S2_UNION)
            return true;
    return false;
}

/* Reject what is said twice. */
static s2_exit refuse_both(const s2_searching *r)
{
    const struct {
        const char *option;
        bool said;
    } both[] = {{"model", r->words.model != NULL},   {"gpu", r->words.gpu != NULL},
                {"tp", r->words.n_ranks > 0},        {"len", r->words.len_tok > 0},
                {"batch", r->words.batch > 0},       {"exportable", r->words.format != NULL},
                {"phase", r->words.phases != NULL},  {"weights", r->words.weights != NULL},
                {"dp", r->words.n_shards > 0},       {"recompute", r->words.recompute != 0},
                {"pp", r->words.n_stages > 0},       {"cp", r->words.n_context > 0},
                {"ep", r->words.n_expert_ranks > 0}, {"nodes", r->words.n_nodes > 0}};
    const s2_search_words *const words = &r->words;
    const bool shaped =
        words->n_heads > 0 || words->n_kv_heads > 0 || words->n_layers > 0 || words->head_dim > 0;
    if (shaped && (words->model != NULL || s2_args_has(&r->args, "model"))) {
        s2_cli_error(r->cli, "heads, layers and head-dim are those of the model: give them or the model");
        return S2_EXIT_USAGE;
    }
    for (size_t nth = 0; nth < sizeof both / sizeof *both; nth++)
        if (both[nth].said && s2_args_has(&r->args, both[nth].option)) {
            s2_cli_error(r->cli, "--%s and '%s' conflict; give only one", both[nth].option,
                         r->args.operands[0]);
            return S2_EXIT_USAGE;
        }
    return S2_EXIT_OK;
}

/* Refuse options that do not go together. */
static s2_exit refuse_unfit(const s2_searching *r)
{
    s2_cli *const cli = r->cli;
    const char *why = NULL, *const path = s2_args_str(&r->args, "output");
    if (s2_search_weighs(&r->found.search, S2_BY_REDUNDANCY) && !requires_union(&r->found.search))
        why = "redundancy needs --require union: a pair that no head reads has no readers to count";
    else if (path != NULL && r->restriction.n_formats > 1 && !s2_input_is_s2(path))
        why = "-o writes one format, and --exportable names several";
    else if (path != NULL && r->restriction.n_formats == 0 && !s2_input_is_s2(path))
        why = "-o FILE.s2 writes the pattern; any other file needs its format, as in --exportable vllm";
    else if (cli->no_db && s2_args_has(&r->args, "resume"))
        why = "--resume needs the file that --no-db does not write";
    if (why == NULL)
        return S2_EXIT_OK;
    s2_cli_error(cli, "%s", why);
    return S2_EXIT_USAGE;
}

/* A model's config is not a space, although it has braces: propose a space for it. */
static s2_exit find_kind(s2_searching *r)
{
    if (r->args.n_operands == 0)
        return S2_EXIT_OK;
    r->args.operands[0] = s2_input_path(r->cli, r->args.operands[0]);
    const char *const operand = r->args.operands[0];
    /* one that may not be read is said to be that; a space that is given here is none */
    r->in_file = access(operand, F_OK) == 0 || errno == EACCES || errno == ELOOP;
    r->in_words = !r->in_file && s2_search_words_are(operand);
    if (!r->in_file)
        return S2_EXIT_OK;
    char *text;
    size_t n_bytes;
    S2_CLI_TRY(s2_textfile_read(r->cli, operand, &text, &n_bytes));
    const char *const inside = text + strspn(text, " \t\r\n{");
    r->in_words = inside > text && inside[0] == '"';
    r->in_file = !r->in_words;
    return S2_EXIT_OK;
}

static bool trains(const s2_found *found)
{
    bool any = false;
    for (int32_t p = 0; p < found->n_phases; p++)
        any |= found->phases[p] == S2_TRAIN;
    return any;
}

/* The stacks that read an export, and the kernels that --validate runs, take plans that are made beforehand. */
static s2_exit read_listed(s2_searching *r)
{
    s2_found *const found = &r->found;
    S2_CLI_TRY(s2_pricing_listed(r->cli, &r->args, found->n_phases == 1 && found->phases[0] == S2_PREFILL,
                                 &found->search.options));
    s2_diag diag = {0};
    if (!found->search.options.listed)
        return S2_EXIT_OK;
    if (r->words.format != NULL || !found->measured) {
        s2_cli_error(r->cli, "--device-lists: %s",
                     found->measured
                         ? "a file states the blocks that are read, and these are chosen at run time"
                         : "no kernel that takes such lists was measured on this GPU");
        return S2_EXIT_USAGE;
    }
    const s2_status status = s2_sim_check_listed(&found->search.options, &diag);
    return status == S2_OK ? S2_EXIT_OK : s2_cli_refuse(r->cli, status, &diag);
}

s2_exit s2_search_options_read(s2_searching *r)
{
    if (s2_sim_options_default(&r->found.search.options) != S2_OK)
        return S2_EXIT_INTERNAL;
    S2_CLI_TRY(find_kind(r));
    if (r->in_words) {
        S2_CLI_TRY(s2_search_words_read(r->cli, r->args.operands[0], &r->words));
        S2_CLI_TRY(refuse_both(r));
    }
    S2_CLI_TRY(read_names(r));
    S2_CLI_TRY(read_numbers(r));
    if (r->found.own_pattern != NULL) /* its config may be for shorter contexts */
        S2_CLI_TRY(s2_input_fits(r->cli, r->found.own_pattern, r->found.search.options.len_tok));
    S2_CLI_TRY(read_list(r, "phase",
                         r->words.phases != NULL ? r->words.phases : s2_args_str(&r->args, "phase"),
                         "prefill, decode, train", take_phase));
    S2_CLI_TRY(s2_pricing_refuse_training(
        r->cli, &r->found.search.options,
        r->words.phases != NULL ? r->words.phases : s2_args_str(&r->args, "phase"), trains(&r->found)));
    S2_CLI_TRY(s2_foreign_restriction(
        r->cli, &r->args, r->words.format != NULL ? r->words.format : s2_args_str(&r->args, "exportable"),
        r->found.search.options.len_tok, &r->restriction));
    r->restriction.n_ranks = r->found.search.options.n_ranks;
    r->found.restriction = &r->restriction;
    r->found.search.options.keeps_all = s2_restriction_keeper(&r->restriction) != NULL;
    S2_CLI_TRY(read_listed(r));
    S2_CLI_TRY(
        read_list(r, "minimize",
                  s2_args_has(&r->args, "minimize") ? s2_args_str(&r->args, "minimize") : usual_minimize(r),
                  "up to six of us, prefill_us, decode_us, train_us, kv_bytes, density, imbalance, unread, "
                  "redundancy, depth, dilution, hops, fading, loss, unrecalled",
                  take_objective));
    r->found.at_most = s2_args_str(&r->args, "at-most");
    if (r->found.at_most != NULL)
        S2_CLI_TRY(read_list(r, "at-most", r->found.at_most,
                             "NAME=NUMBER of what --minimize knows, six names in all, kv_bytes as in 30% (of "
                             "a dense cache), 4g, 4GiB or 4GB, times as in 3ms, density and unread as in 30%",
                             take_limit));
    S2_CLI_TRY(refuse_tiny(r));
    if (s2_restriction_restricts(&r->restriction)) {
        r->found.search.accept = s2_restriction_accepts;
        r->found.search.accept_user = &r->restriction;
    }
    return refuse_unfit(r);
}

/* What s2 sim asks of a price, and a search does not. */
static const struct {
    const char *options, *why;
} unpriced[] = {
    {"kernel-model",
     "a search prices the kernels of s2; s2 sim --kernel-model prices what it found on others"},
    {"new|requests|chunk|prefix",
     "a search prices whole contexts of one length; price what it found with s2 sim"},
    {"compare", "a search compares with dense attention and the model's own layers: s2 sim --compare adds "
                "known methods"},
    {"accuracy|rows", "s2 sim judges the constants; a search prints the error beside each prediction"},
    {"stack", "name the format with --exportable, and the cache is kept as its reader keeps it"},
    {"list", "s2 sim --list shows GPUs and models"},
    {"set", "a search takes a model's config as it is: s2 import --set writes a pattern with what it leaves "
            "unsaid"}};

s2_exit s2_search_options_refuse(s2_cli *cli, int argc, char **argv)
{
    cli->command = "search"; /* as the parser will set it, which comes after this */
    for (int nth = 1; nth < argc; nth++) {
        char name[32] = "";
        if (strncmp(argv[nth], "--", 2) == 0)
            snprintf(name, sizeof name, "%.*s", (int)strcspn(argv[nth] + 2, "="), argv[nth] + 2);
        for (size_t n = 0; n < sizeof unpriced / sizeof *unpriced; n++)
            if (s2_word_in(unpriced[n].options, name)) {
                s2_cli_error(cli, "--%s: %s", name, unpriced[n].why);
                return S2_EXIT_USAGE;
            }
    }
    return S2_EXIT_OK;
}

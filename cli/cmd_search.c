#include "cli/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/quantity.h"
#include "base/text.h"
#include "cli/check.h"
#include "cli/foreign.h"
#include "cli/gpufile.h"
#include "cli/pricing.h"
#include "cli/searching.h"
#include "cli/store.h"
#include "cli/textfile.h"
#include "judge/validate.h"
#include "reach/worth.h"
#include "report/found.h"
#include "sim/machine.h"
#include "sim/share.h"
#include "sim/units.h"

/* All that a signal handler may change. */
static volatile sig_atomic_t stop_asked;

static void ask_stop(int signal_number)
{
    (void)signal_number;
    stop_asked = 1;
}

/* ---- the command line */

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
    for (const char *at = list;; at++) {
        const size_t n = strcspn(at, ",");
        if (!take(&r->found, at, n)) {
            s2_cli_error(r->cli, "--%s %s: expected %s, each once", option, list, expected);
            return S2_EXIT_USAGE;
        }
        at += n;
        if (*at == '\0')
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
        const s2_decimal_text number = s2_decimal(limit->most, 10);
        const char *const text = number.text;
        s2_cli_error(r->cli, "--at-most kv_bytes=%s is %s bytes: write %s%% of dense, or a unit, as in %sg",
                     text, text, text, text);
        return S2_EXIT_USAGE;
    }
    return S2_EXIT_OK;
}

static s2_exit read_shard(s2_searching *r)
{
    const char *const text = s2_args_str(&r->args, "shard");
    char *end;
    const long long shard = strtoll(text, &end, 10);
    const long long n_shards = *end == '/' ? strtoll(end + 1, &end, 10) : 0;
    if (*end != '\0' || shard < 1 || n_shards < shard || n_shards > 1000000) {
        s2_cli_error(r->cli, "--shard %s: expected I/N with 1 <= I <= N, as in 2/4", text);
        return S2_EXIT_USAGE;
    }
    s2_search_shard(&r->found.search, shard, n_shards);
    r->job.begin = r->found.search.begin;
    r->job.end = r->job.until = r->found.search.end;
    return S2_EXIT_OK;
}

static s2_exit read_limit(s2_searching *r)
{
    int64_t limit;
    if (!s2_args_has(&r->args, "limit"))
        return S2_EXIT_OK;
    S2_CLI_TRY(s2_args_int(r->cli, &r->args, "limit", 1, INT64_C(1) << 40, &limit));
    if (limit < r->job.end - r->job.begin)
        r->job.until = r->job.begin + limit;
    return S2_EXIT_OK;
}

/* By options, or in the words of the request. */
static s2_exit read_machine(s2_searching *r)
{
    s2_sim_options *const options = &r->found.search.options;
    const struct {
        const char *option;
        int64_t said;
        int64_t most;
        int32_t *to;
    } counts[] = {{"pp", r->words.n_stages, S2_LIMIT_LAYERS, &options->n_stages},
                  {"cp", r->words.n_context, S2_LIMIT_LAYERS, &options->n_context},
                  {"ep", r->words.n_expert_ranks, S2_LIMIT_BATCH, &options->n_expert_ranks},
                  {"nodes", r->words.n_nodes, S2_MOST_NODES, &options->n_nodes}};
    S2_CLI_TRY(s2_pricing_machine(r->cli, &r->args, options));
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
        if (counts[n].said > counts[n].most) {
            s2_cli_error(r->cli, "%s is at most %lld", counts[n].option, (long long)counts[n].most);
            return S2_EXIT_USAGE;
        }
        if (counts[n].said > 0)
            *counts[n].to = (int32_t)counts[n].said;
    }
    return s2_pricing_check_machine(r->cli, options);
}

static s2_exit read_numbers(s2_searching *r)
{
    s2_cli *const cli = r->cli;
    s2_search *const search = &r->found.search;
    int64_t seed, n_ranks, page_tok, jobs = sysconf(_SC_NPROCESSORS_ONLN) / r->job.ranks.n_here;
    jobs = jobs > 1 ? jobs : 1;
    S2_CLI_TRY(s2_args_int(cli, &r->args, "len", 1, S2_LIMIT_CONTEXT_TOK, &search->options.len_tok));
    if (strcmp(s2_args_str(&r->args, "batch"), "max") == 0) {
        s2_cli_error(cli, "--batch max is another batch for each design, and a search compares designs at "
                          "one: s2 sim --batch max prices what it found");
        return S2_EXIT_USAGE;
    }
    S2_CLI_TRY(s2_args_int(cli, &r->args, "batch", 1, 65536, &search->options.batch));
    S2_CLI_TRY(s2_args_int(cli, &r->args, "tp", 1, S2_LIMIT_HEADS, &n_ranks));
    S2_CLI_TRY(s2_args_int(cli, &r->args, "page", 1, 65536, &page_tok));
    S2_CLI_TRY(s2_args_int(cli, &r->args, "seed", 0, INT64_C(1) << 53, &seed));
    if (s2_args_has(&r->args, "jobs"))
        S2_CLI_TRY(s2_args_int(cli, &r->args, "jobs", 1, S2_SEARCH_JOBS, &jobs));
    for (int dtype = 0; dtype < S2_N_PRICED_DTYPES; dtype++)
        if (strcmp(s2_args_str(&r->args, "dtype"), s2_dtype_word((s2_dtype)dtype)) == 0)
            search->options.dtype = (s2_dtype)dtype;
    if (r->words.len_tok > S2_LIMIT_CONTEXT_TOK) {
        s2_cli_error(cli, "a context has at most %d tokens", S2_LIMIT_CONTEXT_TOK);
        return S2_EXIT_USAGE;
    }
    if (r->words.len_tok > 0)
        search->options.len_tok = r->words.len_tok;
    if (r->words.batch > 65536) {
        s2_cli_error(cli, "a batch has at most 65536 sequences");
        return S2_EXIT_USAGE;
    }
    if (r->words.batch > 0)
        search->options.batch = r->words.batch;
    S2_CLI_TRY(s2_args_int(cli, &r->args, "validate", 0, 1000, &r->confirm.n));
    S2_CLI_TRY(s2_args_int(cli, &r->args, "runs", 0, S2_LIMIT_SAMPLES, &r->confirm.n_runs));
    r->confirm.device = s2_args_str(&r->args, "device");
    if (r->words.n_shards > S2_LIMIT_BATCH) {
        s2_cli_error(cli, "at most %d groups of GPUs share the optimizer", S2_LIMIT_BATCH);
        return S2_EXIT_USAGE;
    }
    if (r->words.n_ranks > S2_LIMIT_HEADS) {
        s2_cli_error(cli, "at most %d GPUs share the heads", S2_LIMIT_HEADS);
        return S2_EXIT_USAGE;
    }
    search->options.n_ranks = (int32_t)(r->words.n_ranks > 0 ? r->words.n_ranks : n_ranks);
    S2_CLI_TRY(s2_pricing_options(cli, &r->args, &search->options));
    if (r->words.weights != NULL)
        search->options.weights = s2_pricing_weights(r->words.weights);
    search->options.recompute |= r->words.recompute != 0;
    if (r->words.n_shards > 0)
        search->options.n_shards = (int32_t)r->words.n_shards;
    S2_CLI_TRY(read_machine(r));
    search->options.page_tok = (int32_t)page_tok;
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

static bool weighs(const s2_search *search, s2_objective objective)
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
    if (weighs(&r->found.search, S2_BY_REDUNDANCY) && !requires_union(&r->found.search))
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

/* Where -o writes: the file, or in a folder the file by its usual name there, if it has one. */
static s2_exit find_target(const s2_searching *r, const char *path, const char **target)
{
    const char *const name = r->restriction.n_formats > 0 ? r->restriction.formats[0]->file_name : NULL;
    const bool inside = r->restriction.n_formats > 0 && s2_file_is_folder(path);
    s2_buf buf = {0};
    *target = path;
    if (!inside)
        return S2_EXIT_OK;
    s2_buf_printf(&buf, "%s/%s", path, name != NULL ? name : "");
    *target = buf.status == S2_OK ? s2_arena_strndup(&r->cli->arena, buf.data, buf.len) : NULL;
    s2_buf_release(&buf);
    if (name == NULL && *target != NULL)
        *target = ""; /* s2 export names the files */
    return *target != NULL ? S2_EXIT_OK : s2_cli_fail(r->cli, S2_ENOMEM, "output");
}

/* Check before searching for minutes whether the best can be written at all. */
static s2_exit check_output(const s2_searching *r)
{
    const char *const path = s2_args_str(&r->args, "output"), *target;
    s2_output probe = {0};
    if (path == NULL)
        return S2_EXIT_OK;
    S2_CLI_TRY(find_target(r, path, &target));
    if (target[0] == '\0')
        return S2_EXIT_OK;
    if (access(target, F_OK) == 0 && !s2_args_has(&r->args, "force")) {
        s2_cli_error(r->cli, "%s exists; --force overwrites it", target);
        return S2_EXIT_USAGE;
    }
    const s2_status status = s2_output_open(&probe, target);
    if (status == S2_OK)
        return s2_output_close(&probe, false) == S2_OK ? S2_EXIT_OK : S2_EXIT_ENVIRONMENT;
    s2_cli_error(r->cli, "%s: %s", target, s2_file_why(errno));
    return s2_exit_of(status);
}

/* A model's config is not a space, although it has braces: propose a space for it. */
static s2_exit find_kind(s2_searching *r)
{
    if (r->args.n_operands == 0)
        return S2_EXIT_OK;
    r->args.operands[0] = s2_input_path(r->cli, r->args.operands[0]);
    const char *const operand = r->args.operands[0];
    r->in_file = access(operand, F_OK) == 0;
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

static s2_exit read_options(s2_searching *r)
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

/* ---- the space */

/* Read the space from a file, if the operand names one. */
static s2_exit read_space_file(s2_searching *r, const char **text)
{
    char *content;
    size_t n_bytes;
    S2_CLI_TRY(s2_textfile_read(r->cli, r->args.operands[0], &content, &n_bytes));
    *text = content;
    return S2_EXIT_OK;
}

/* What the words leave open gets the values of most current models. */
static void put_shape(const s2_search_words *words, s2_buf *buf)
{
    s2_buf_printf(buf, "layers %lld; heads %lld; kv-heads %lld; head-dim %lld; ",
                  (long long)(words->n_layers > 0 ? words->n_layers : 32), (long long)words->n_heads,
                  (long long)(words->n_kv_heads > 0 ? words->n_kv_heads : words->n_heads),
                  (long long)(words->head_dim > 0 ? words->head_dim : 128));
}

/* --dense-layers of a proposed space: the last of every `every` layers is dense. */
static s2_exit find_dense_every(const s2_searching *r, int32_t *every)
{
    const int64_t n_dense = r->restriction.n_dense_layers;
    const int64_t n_layers = r->found.model[0] != '\0' ? r->found.net.n_layers
                             : r->words.n_layers > 0   ? r->words.n_layers
                                                       : 32;
    *every = n_dense == S2_RESTRICT_ANY ? S2_PROPOSE_ANY : S2_PROPOSE_NONE;
    if (n_dense > 0 && n_layers % n_dense == 0)
        *every = (int32_t)(n_layers / n_dense);
    if (n_dense <= 0 || n_layers % n_dense == 0)
        return S2_EXIT_OK;
    s2_cli_error(
        r->cli, "--dense-layers %lld does not divide the %lld layers: give a space that says which are dense",
        (long long)n_dense, (long long)n_layers);
    return S2_EXIT_USAGE;
}

static s2_exit propose(s2_searching *r, const char **text)
{
    s2_cli *const cli = r->cli;
    const s2_search_words *const words = &r->words;
    const bool by_model = r->found.model[0] != '\0';
    if (!by_model && words->n_heads == 0) {
        s2_cli_error(cli, "expected a search space, or a --model or a number of heads to propose one for");
        return S2_EXIT_USAGE;
    }
    s2_buf buf = {0};
    if (!by_model)
        put_shape(words, &buf);
    const int64_t n_heads = by_model ? r->found.net.n_heads : words->n_heads;
    const int64_t n_kv_heads = by_model                ? r->found.net.n_kv_heads
                               : words->n_kv_heads > 0 ? words->n_kv_heads
                                                       : n_heads;
    if (n_heads > S2_LIMIT_HEADS || n_kv_heads > n_heads || n_heads % n_kv_heads != 0) {
        s2_buf_release(&buf);
        s2_cli_error(cli,
                     "%lld heads on %lld KV heads: KV heads must divide the heads, and heads are at most %d",
                     (long long)n_heads, (long long)n_kv_heads, S2_LIMIT_HEADS);
        return S2_EXIT_USAGE;
    }
    int32_t dense_every;
    const s2_exit end = find_dense_every(r, &dense_every);
    if (end != S2_EXIT_OK) {
        s2_buf_release(&buf);
        return end;
    }
    const s2_status status = s2_space_propose((int32_t)n_heads, (int32_t)n_kv_heads, dense_every, &buf);
    *text = status == S2_OK ? s2_arena_strndup(&cli->arena, buf.data, buf.len) : NULL;
    s2_buf_release(&buf);
    if (*text == NULL)
        return s2_cli_fail(cli, status == S2_OK ? S2_ENOMEM : status, "space");
    if (!r->quiet)
        fprintf(cli->err, "proposed space: %s\n", *text);
    return S2_EXIT_OK;
}

/* Exactly one line, as cli/found.c expects. */
static void put_model(const s2_searching *r, s2_buf *buf)
{
    const s2_net *const net = &r->found.net;
    if (r->model_is_file)
        s2_buf_printf(buf, "layers %d; heads %d; kv-heads %d; head-dim %d\n", net->n_layers, net->n_heads,
                      net->n_kv_heads, net->head_dim);
    else
        s2_buf_printf(buf, "model %s\n", net->name);
}

/* Refusals must point into what the user wrote, so put the model's line before it only afterwards. */
static s2_exit read_space(s2_searching *r)
{
    s2_found *const found = &r->found;
    s2_cli *const cli = r->cli;
    const char *text = r->args.n_operands > 0 && !r->in_words ? r->args.operands[0] : NULL;
    S2_CLI_TRY(r->in_file ? read_space_file(r, &text) : text != NULL ? S2_EXIT_OK : propose(r, &text));
    s2_diag diag = {0};
    s2_status status = s2_space_parse(&cli->arena, text, strlen(text), &found->space, &diag);
    if (status != S2_OK)
        return s2_input_refuse(cli, status, r->in_file ? r->args.operands[0] : "space", text, strlen(text),
                               &diag);
    found->space_text = text;
    found->search.space = &found->space;
    if (found->model[0] == '\0')
        return S2_EXIT_OK;
    s2_buf whole = {0};
    put_model(r, &whole);
    s2_buf_puts(&whole, text);
    status = whole.status;
    if (status == S2_OK)
        status = s2_space_parse(&cli->arena, whole.data, whole.len, &found->space, &diag);
    s2_buf_release(&whole);
    return status == S2_OK ? S2_EXIT_OK : s2_cli_fail(cli, status, "space");
}

/* ---- running */

/*
 * Other ranks are about as far as this one, since visits are drawn alike. A log gets a line after five seconds,
 * then one whenever the time has doubled, and at least one a minute.
 */
static void show_progress(s2_searching *r, int64_t visit)
{
    const double now = s2_steady_s(), all = (double)(r->job.until - r->job.begin);
    const double pause = r->on_terminal ? 0.2 : fmin(fmax(5, r->shown - r->began), 60);
    if (r->job.ranks.own != 0 || r->quiet || now - r->shown < pause)
        return;
    r->shown = now;
    const double done = (double)(visit - r->found.search.begin) * r->job.ranks.n;
    const double rate = (double)(visit - r->began_at) * r->job.ranks.n / (now - r->began + 1e-9);
    fprintf(r->cli->err, "%s%.0f of %.0f (%.0f %%), %.0f/s, %.0f s left, front %d%s",
            r->on_terminal ? "\r\033[K" : "", done, all, 100 * done / all, rate, (all - done) / (rate + 1e-9),
            (int)r->found.state.front.n, r->on_terminal ? "" : "\n");
    fflush(r->cli->err);
}

/* A slice ends only at the end of a batch; Ctrl-C does not wait for it. */
static bool watch(void *user, const s2_search_state *state, int64_t visit)
{
    s2_searching *const r = user;
    show_progress(r, visit);
    return !stop_asked && (visit != state->next || s2_steady_s() < r->slice_ends);
}

/* Search for a second, then save what was found to disk; finish() saves the last slice. */
static s2_exit run_slice(s2_searching *r, bool *more)
{
    s2_found *const found = &r->found;
    r->slice_ends = s2_steady_s() + 1;
    const s2_status status = s2_search_run(&found->search, &found->state, found->until, watch, r);
    s2_exit code = status == S2_OK ? S2_EXIT_OK : s2_cli_fail(r->cli, status, "search");
    code = (s2_exit)s2_ranks_most(&r->job.ranks, code);
    if (code == S2_EXIT_OK) {
        const s2_status collected = s2_search_job_collect(&r->job, &found->search, &found->state);
        code = collected == S2_OK ? S2_EXIT_OK : s2_cli_fail(r->cli, collected, "search");
        code = (s2_exit)s2_ranks_most(&r->job.ranks, code);
    }
    const bool stop = s2_ranks_most(&r->job.ranks, stop_asked) != 0;
    *more = s2_ranks_most(&r->job.ranks, found->until - found->state.next) > 0 && !stop;
    if (code == S2_EXIT_OK && *more && r->job.ranks.own == 0)
        code = s2_search_file_write(r, 0);
    return (s2_exit)s2_ranks_most(&r->job.ranks, code);
}

/* Worth is judged for one shape only: refuse a space of another shape before searching it. */
static s2_exit check_worth(s2_searching *r)
{
    s2_cli *const cli = r->cli;
    const s2_search *const search = &r->found.search;
    s2_pattern pattern;
    s2_worth worth;
    s2_diag diag;
    if ((!weighs(search, S2_BY_LOSS) && !weighs(search, S2_BY_UNRECALLED)) ||
        s2_search_pattern(search, 0, &cli->arena, &pattern, &diag) != S2_OK)
        return S2_EXIT_OK; /* the search counts it as refused and says so */
    const s2_status status = s2_worth_figures(&cli->arena, &pattern, search->options.len_tok, &worth);
    if (status != S2_OK)
        return s2_cli_fail(cli, status, "worth");
    if (worth.not_judged == NULL)
        return S2_EXIT_OK;
    s2_cli_error(cli, "loss and unrecalled cannot be computed for the first candidate: %s", worth.not_judged);
    s2_cli_hint(cli, "docs/worth.md says which shape they were fitted on; s2 reach measures any other");
    return S2_EXIT_USAGE;
}

static s2_status check_gpus(const s2_searching *r, const s2_pattern *pattern, s2_diag *diag)
{
    S2_TRY(s2_share_check(pattern, r->found.search.options.n_ranks, diag));
    for (int32_t p = 0; p < r->found.n_phases; p++) {
        s2_sim_options own = r->found.search.options;
        own.phase = r->found.phases[p];
        if (s2_machine_asked(&own))
            S2_TRY(s2_machine_check(pattern, &own, diag));
    }
    return S2_OK;
}

/* If no candidate can be shared out to these GPUs, say so before searching. */
static s2_exit check_share(s2_searching *r)
{
    enum { TRIED = 4096 };
    s2_cli *const cli = r->cli;
    const s2_search *const search = &r->found.search;
    s2_diag first = {0};
    for (int64_t index = 0; index < search->space->n_candidates && index < TRIED; index++) {
        const s2_arena_mark_t mark = s2_arena_mark(&cli->arena);
        s2_pattern pattern;
        s2_diag diag = {0};
        const bool built = s2_search_pattern(search, index, &cli->arena, &pattern, &diag) == S2_OK,
                   shared = built && check_gpus(r, &pattern, &diag) == S2_OK;
        s2_arena_rewind(&cli->arena, mark);
        if (shared || (search->options.n_ranks == 1 && !s2_machine_asked(&search->options)))
            return S2_EXIT_OK;
        if (first.msg[0] == '\0' && built)
            first = diag;
    }
    if (first.msg[0] == '\0' || search->space->n_candidates > TRIED)
        return S2_EXIT_OK;
    s2_cli_error(cli, "%s", first.msg);
    return S2_EXIT_USAGE;
}

/* Why a visited candidate cannot be deployed; "" if it can. alone: on one GPU. */
static s2_status find_refusal(const s2_searching *r, int64_t index, bool alone, s2_diag *diag)
{
    s2_arena *const arena = &r->cli->arena;
    const s2_arena_mark_t mark = s2_arena_mark(arena);
    s2_restriction restriction = r->restriction;
    s2_pattern pattern;
    restriction.n_ranks = alone ? 1 : restriction.n_ranks;
    s2_status status = s2_search_pattern(&r->found.search, index, arena, &pattern, NULL);
    if (status == S2_OK)
        status = s2_restriction_refusal(&restriction, &pattern, diag);
    s2_arena_rewind(arena, mark);
    return status == S2_EPARSE ? S2_OK : status;
}

/* If nothing could be deployed, print why, preferably for a candidate that one GPU could run. */
static s2_exit explain_unaccepted(const s2_searching *r)
{
    const s2_found *const found = &r->found;
    s2_diag reason = {0};
    int64_t refused = -1;
    bool one_could = false;
    if (found->state.front.n > 0 || found->state.counts.unaccepted == 0)
        return S2_EXIT_OK;
    for (int64_t visit = found->search.begin; visit < found->state.next && !one_could; visit++) {
        const int64_t index = s2_search_candidate(&found->search, visit);
        s2_diag diag = {0}, of_one = {0};
        s2_status status = find_refusal(r, index, false, &diag);
        if (status == S2_OK)
            status = find_refusal(r, index, true, &of_one);
        if (status != S2_OK)
            return s2_cli_fail(r->cli, status, "export");
        one_could = diag.msg[0] != '\0' && of_one.msg[0] == '\0';
        if (one_could || (refused < 0 && diag.msg[0] != '\0')) {
            refused = index;
            reason = diag;
        }
    }
    if (refused >= 0)
        s2_cli_error(r->cli, "no candidate can be deployed as asked; candidate %lld: %s", (long long)refused,
                     reason.msg);
    return S2_EXIT_OK;
}

/* Windows alone never read everything: tell those who search them to require less. */
static void explain_violated(const s2_searching *r)
{
    const s2_search *const search = &r->found.search;
    const int64_t n_violating = r->found.state.counts.violated[S2_UNION];
    s2_buf others = {0};
    const s2_search_counts *const counts = &r->found.state.counts;
    if (r->found.state.front.n > 0 || n_violating == 0 || counts->outside > 0 || counts->unaccepted > 0)
        return; /* others hold union and fail something else, which was said */
    for (int32_t n = 0; n < search->n_requirements; n++) {
        char name[32];
        s2_requirement_name(&search->requirements[n], name, sizeof name);
        if (search->requirements[n].property != S2_UNION)
            s2_buf_printf(&others, "%s%s", others.len > 0 ? "," : "", name);
    }
    if (others.len > 0)
        s2_cli_error(r->cli,
                     "no design is left: in %lld candidates the heads of a layer together do not read "
                     "everything; -r %s asks for less, and --minimize us,unread then weighs what is lost",
                     (long long)n_violating, others.data);
    s2_buf_release(&others);
}

/* The first Ctrl-C ends the work in good order, wherever it is, the second at once. */
typedef struct handlers {
    struct sigaction of_int;
    struct sigaction of_term;
} handlers;

static void catch_stop(handlers *old)
{
    const struct sigaction ask = {.sa_handler = ask_stop, .sa_flags = (int)SA_RESETHAND};
    stop_asked = 0;
    sigaction(SIGINT, &ask, &old->of_int);
    sigaction(SIGTERM, &ask, &old->of_term);
}

static void release_stop(const handlers *old)
{
    sigaction(SIGINT, &old->of_int, NULL);
    sigaction(SIGTERM, &old->of_term, NULL);
}

static s2_exit run_slices(s2_searching *r)
{
    r->began = r->shown = s2_steady_s();
    r->began_at = r->found.state.next;
    s2_exit code;
    bool more;
    do
        code = run_slice(r, &more);
    while (code == S2_EXIT_OK && more);
    r->moved = s2_ranks_most(&r->job.ranks, r->found.state.next != r->began_at) != 0;
    if (r->job.ranks.own == 0 && r->on_terminal)
        fprintf(r->cli->err, "\r\033[K");
    return code;
}

/* The peak memory of this process. */
static double peak_mib(void)
{
    struct rusage usage = {0};
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024;
}

static s2_exit run(s2_searching *r)
{
    s2_found *const found = &r->found;
    S2_CLI_TRY(run_slices(r));
    if (r->job.ranks.own != 0)
        return S2_EXIT_OK;
    const double took = s2_steady_s() - r->began;
    const int64_t done_before = r->began_at - found->search.begin;
    const s2_status status =
        r->job.ranks.n > 1 ? s2_search_job_join(&r->job, &found->search, &found->state) : S2_OK;
    if (status != S2_OK)
        return s2_cli_fail(r->cli, status, "search");
    found->until = r->job.until;
    const int64_t n = found->state.next - r->job.begin - done_before * r->job.ranks.n;
    if (n > 0 && !r->quiet)
        fprintf(r->cli->err, "%lld candidates in %.1f s, %.0f a second on %d x %d threads, %.1f MiB\n",
                (long long)n, took, (double)n / (took + 1e-9), (int)r->job.ranks.n, (int)found->search.n_jobs,
                peak_mib());
    return S2_EXIT_OK;
}

/* Explain the first candidate that is not a pattern, as its parser saw it. */
static s2_exit explain_refused(const s2_searching *r)
{
    const s2_found *const found = &r->found;
    const int64_t index = found->state.refused_index;
    s2_diag diag = {0};
    s2_buf text = {0};
    s2_space_expand(&found->space, index, &text);
    const s2_status status = s2_search_refusal(&found->search, index, &r->cli->arena, &diag);
    char label[40];
    snprintf(label, sizeof label, "candidate %lld", (long long)index);
    const s2_exit code = s2_input_refuse(r->cli, status, label, text.data, text.len, &diag);
    s2_buf_release(&text);
    return code;
}

static s2_exit confirm(s2_searching *r, bool stored)
{
    r->confirm.stop = &stop_asked;
    r->confirm.json = s2_args_has(&r->args, "json");
    r->confirm.since_us = stored ? r->stored_us : 0;
    return s2_found_confirm(r->cli, &r->found, &r->confirm);
}

/* Write the pattern itself: FILE.s2, whatever stacks it was searched for. */
static s2_exit write_best(const s2_searching *r, const char *path)
{
    s2_cli *const cli = r->cli;
    const s2_found_design *const best = &r->found.designs[0];
    s2_buf text = {0};
    s2_pattern_print(&best->pattern, &text);
    S2_CLI_TRY(s2_cli_save(cli, path, &text));
    fprintf(cli->err, "%s is written to %s\n", best->name, path);
    return S2_EXIT_OK;
}

/* A file that is read back as another design must not be taken for this one: say what it lacks. */
static s2_exit say_read_back(const s2_searching *r, const char *path)
{
    s2_cli *const cli = r->cli;
    const s2_found_design *const best = &r->found.designs[0];
    const s2_format *const format = r->restriction.formats[0];
    s2_pattern again;
    char hash[S2_HASH_HEX];
    s2_diag diag = {0};
    if (format->read == NULL || s2_found_import(cli, s2_input_path(cli, path), &again, &diag) != S2_OK)
        s2_cli_hint(cli, "s2 does not read such a file back as a design");
    else if (s2_pattern_hash(&again, hash) != S2_OK)
        return s2_cli_fail(cli, S2_ENOMEM, "output");
    else if (strcmp(hash, best->hash) != 0)
        s2_cli_hint(cli, "read back it is another design, %.8s: %s", hash,
                    r->found.search.options.n_ranks > 1 && s2_format_takes(format, "tp")
                        ? "the file has the heads of one GPU"
                        : "the format has no place for the pattern's name and model");
    return S2_EXIT_OK;
}

/* -o: the best design as `s2 export` writes it, from the database if it was stored there. */
static s2_exit export_best(const s2_searching *r)
{
    const s2_found *const found = &r->found;
    s2_cli *const cli = r->cli;
    const char *const path = s2_args_str(&r->args, "output");
    if (path == NULL)
        return S2_EXIT_OK;
    if (found->n_designs == 0) {
        s2_cli_error(cli, "%s is not written: %s", path,
                     found->nearest != NULL ? "nothing found here beats what the model does without s2"
                                            : "no design was found");
        return S2_EXIT_OK;
    }
    if (s2_input_is_s2(path))
        return write_best(r, path);
    const s2_format *const format = r->restriction.formats[0];
    char len[24], ranks[24];
    s2_buf text = {0};
    s2_pattern_print(&found->designs[0].pattern, &text);
    s2_buf_add(&text, "", 1);
    if (text.status != S2_OK)
        return s2_cli_fail(cli, text.status, "export");
    snprintf(len, sizeof len, "%lld", (long long)found->search.options.len_tok);
    snprintf(ranks, sizeof ranks, "tp=%d", (int)found->search.options.n_ranks);
    const bool shared = found->search.options.n_ranks > 1 && s2_format_takes(format, "tp");
    const char *const words[] = {"export",  cli->no_db ? text.data : found->designs[0].name,
                                 "--to",    format->name,
                                 "--len",   len,
                                 "-o",      path,
                                 "--force", /* asked of the search before it began */
                                 "--set",   ranks};
    enum { WORDS = sizeof words / sizeof words[0] };
    char *argv[WORDS];
    memcpy(argv, words, sizeof words);
    const char *const command = cli->command;
    const s2_exit code = s2_cmd_export(cli, shared ? WORDS : WORDS - 2, argv);
    cli->command = command;
    s2_buf_release(&text);
    if (code != S2_EXIT_OK)
        return code;
    fprintf(cli->err, "%s is written to %s\n", found->designs[0].name, path);
    return say_read_back(r, path);
}

static bool goes_on(void *user, const s2_search_state *state, int64_t visit)
{
    (void)user;
    (void)state;
    (void)visit;
    return !stop_asked;
}

static s2_exit seek_least(s2_searching *r)
{
    if (r->found.state.next < r->found.until)
        return S2_EXIT_OK; /* stopped: later candidates may still have formed a front */
    const s2_status status = s2_found_seek_least(&r->found, goes_on, NULL);
    return status == S2_OK ? S2_EXIT_OK : s2_cli_fail(r->cli, status, "--at-most");
}

static s2_exit show(const s2_searching *r)
{
    s2_buf buf = {0};
    s2_status status = S2_OK;
    if (s2_args_has(&r->args, "json"))
        s2_found_json(&r->found, &buf);
    else
        status = s2_found_report(&r->found, &buf);
    if (status == S2_OK)
        return s2_cli_print(r->cli, &buf);
    s2_buf_release(&buf);
    return s2_cli_fail(r->cli, status, "front");
}

/* Show, store, and delete the state file if nothing is left to do. */
static s2_exit finish(s2_searching *r, bool stored)
{
    s2_found *const found = &r->found;
    /* with several ranks the state covers what they were to visit; with one, the whole shard */
    const bool complete = found->state.next == (r->job.ranks.n > 1 ? r->job.until : r->job.end);
    const int64_t visited = found->state.next - r->job.begin;
    if (found->state.refused_index >= 0) {
        const s2_exit code = explain_refused(r);
        if (found->state.counts.refused == visited)
            return code;
    }
    const s2_status status = s2_found_gather(found);
    if (status != S2_OK)
        return s2_cli_fail(r->cli, status, "front");
    S2_CLI_TRY(seek_least(r));
    S2_CLI_TRY(show(r));
    S2_CLI_TRY(explain_unaccepted(r));
    explain_violated(r);
    if (!stored) {
        S2_CLI_TRY(s2_search_file_write(r, r->cli->started_us));
        S2_CLI_TRY(s2_found_store(r->cli, found));
    }
    const bool stopped = found->state.next < found->until;
    const s2_exit confirmed = stopped ? S2_EXIT_OK : confirm(r, stored);
    /* Ctrl-C after the last visit leaves nothing to resume but a validation */
    if (complete && (stop_asked == 0 || r->confirm.n == 0) && r->job.path != NULL)
        unlink(r->job.path);
    const s2_exit exported = export_best(r);
    if (confirmed != S2_EXIT_OK || exported != S2_EXIT_OK)
        return s2_exit_combine(confirmed, exported);
    if (stopped) {
        fprintf(r->cli->err,
                "stopped: this is the front of the candidates visited so far; --resume continues\n");
        return S2_EXIT_UNDECIDED;
    }
    return found->n_designs > 0 ? S2_EXIT_OK : S2_EXIT_VIOLATED;
}

static s2_exit search(s2_searching *r)
{
    s2_found *const found = &r->found;
    handlers old;
    catch_stop(&old);
    s2_search_job_part(&r->job, r->job.ranks.own, &found->search);
    found->until = r->job.ranks.n > 1 ? found->search.end : r->job.until;
    s2_search_state_init(&found->search, &found->state);
    s2_exit code = s2_args_has(&r->args, "resume") ? s2_search_file_resume(r) : S2_EXIT_OK;
    if (code == S2_EXIT_OK)
        code = run(r);
    bool stored = false;
    if (code == S2_EXIT_OK && r->job.ranks.own == 0 && !r->moved)
        code = s2_search_file_find_stored(r, &stored);
    if (code == S2_EXIT_OK && r->job.ranks.own == 0)
        code = finish(r, stored);
    release_stop(&old);
    s2_search_job_release(&r->job);
    s2_search_state_release(&found->state);
    return code;
}

/* Only rank 0 speaks and records. */
static void silence(s2_cli *cli)
{
    FILE *const nowhere = fopen("/dev/null", "w");
    if (nowhere != NULL)
        cli->out = cli->err = nowhere;
}

/* Otherwise each process would search the whole space, and all would store the same rows. */
static s2_exit refuse_apart(s2_cli *cli, const s2_args *args)
{
    if (s2_ranks_apart() == 1 || s2_args_has(args, "shard"))
        return S2_EXIT_OK;
    s2_cli_error(
        cli, "this is one of %lld processes, but s2 was built without MPI: each would search the whole space",
        (long long)s2_ranks_apart());
    s2_cli_hint(cli, "make MPI=1 builds it with MPI; --shard I/N gives each process its part");
    return S2_EXIT_USAGE;
}

/* A space of which the search would refuse every candidate is refused here too, as far as a moment tells. */
static s2_exit refuse_unsearchable(s2_searching *r)
{
    enum { TRIED = 4096 };
    s2_arena *const arena = &r->cli->arena;
    int64_t lowest = -1;
    if (r->job.until - r->job.begin > TRIED)
        return S2_EXIT_OK;
    for (int64_t visit = r->job.begin; visit < r->job.until; visit++) {
        const int64_t index = s2_search_candidate(&r->found.search, visit);
        const s2_arena_mark_t mark = s2_arena_mark(arena);
        s2_pattern pattern;
        const s2_status status = s2_search_pattern(&r->found.search, index, arena, &pattern, NULL);
        s2_arena_rewind(arena, mark);
        if (status != S2_EPARSE)
            return status == S2_OK ? S2_EXIT_OK : s2_cli_fail(r->cli, status, "space");
        lowest = lowest < 0 || index < lowest ? index : lowest;
    }
    r->found.state.refused_index = lowest;
    return lowest >= 0 ? explain_refused(r) : S2_EXIT_OK;
}

/* The part of a search that tells how long the whole takes. */
typedef struct sample {
    double began;
    double most; /* seconds */
    int64_t begin;
    int64_t visit;
} sample;

static bool samples(void *user, const s2_search_state *state, int64_t visit)
{
    enum { FEW = 16 };
    sample *const own = user;
    (void)state;
    own->visit = visit;
    return stop_asked == 0 && s2_steady_s() - own->began < (visit - own->begin < FEW ? 3 : own->most);
}

/* Whether some candidate can be deployed as asked, as far as a moment tells. */
static s2_status find_accepted(s2_searching *r, bool *any)
{
    const s2_search *const search = &r->found.search;
    const double ends = s2_steady_s() + 3;
    s2_arena *const arena = &r->cli->arena;
    *any = search->accept == NULL;
    for (int64_t visit = r->job.begin; visit < r->job.until && !*any && s2_steady_s() < ends; visit++) {
        const s2_arena_mark_t mark = s2_arena_mark(arena);
        s2_pattern pattern;
        s2_status status =
            s2_search_pattern(search, s2_search_candidate(search, visit), arena, &pattern, NULL);
        if (status == S2_OK)
            status = search->accept(search->accept_user, &pattern, any);
        s2_arena_rewind(arena, mark);
        if (status != S2_OK && status != S2_EPARSE)
            return status;
    }
    return S2_OK;
}

static s2_exit put_expected(s2_searching *r, s2_buf *buf)
{
    s2_found *const found = &r->found;
    const double began = s2_steady_s(), all = (double)(r->job.until - r->job.begin);
    sample own = {.began = began, .begin = r->job.begin, .visit = r->job.begin};
    bool any;
    handlers old;
    catch_stop(&old);
    s2_status status = find_accepted(r, &any);
    own.most = any ? 1 : 10; /* where nothing can be deployed, a search is short, and its end says why */
    if (status == S2_OK)
        status = s2_search_run(&found->search, &found->state, r->job.until, samples, &own);
    release_stop(&old);
    if (status != S2_OK)
        return s2_cli_fail(r->cli, status, "search");
    const double took_us = (s2_steady_s() - began) * 1e6, n = fmax((double)(own.visit - r->job.begin), 1);
    const bool whole = found->state.next == r->job.until;
    s2_buf_puts(buf, whole ? "expected    " : "expected    about ");
    s2_time_print(whole ? took_us : took_us * all / n, buf);
    s2_buf_printf(buf, " on %d thread%s: ", (int)found->search.n_jobs, found->search.n_jobs > 1 ? "s" : "");
    if (whole) {
        s2_buf_puts(buf, "all were visited to say so\n");
        return S2_EXIT_OK;
    }
    s2_buf_printf(buf, "an estimate from the first %.0f, which took ", n);
    s2_time_print(took_us, buf);
    s2_buf_puts(buf, "\n");
    return S2_EXIT_OK;
}

static void put_examples(const s2_searching *r, s2_buf *buf)
{
    const s2_found *const found = &r->found;
    s2_buf_puts(buf, "for example\n");
    for (int64_t visit = r->job.begin; visit < r->job.until && visit < r->job.begin + 3; visit++) {
        s2_buf text = {0};
        s2_space_expand(&found->space, s2_search_candidate(&found->search, visit), &text);
        for (size_t n = 0; n < text.len; n++)
            text.data[n] = text.data[n] == '\n' ? ';' : text.data[n];
        s2_buf_puts(buf, "  ");
        s2_buf_add(buf, text.data != NULL ? text.data : "", text.len);
        s2_buf_puts(buf, "\n");
        s2_buf_release(&text);
    }
}

/* If the whole space was visited and nothing was found, the search would end like this too. */
static s2_exit refuse_empty(s2_searching *r)
{
    const s2_found *const found = &r->found;
    if (found->state.next < r->job.until || found->state.front.n > 0)
        return S2_EXIT_OK;
    S2_CLI_TRY(explain_unaccepted(r));
    explain_violated(r);
    s2_cli_error(r->cli, "the search would find nothing");
    return S2_EXIT_VIOLATED;
}

/* --dry-run: what would be searched, and how long that takes. */
static s2_exit describe(s2_searching *r)
{
    s2_found *const found = &r->found;
    s2_buf buf = {0};
    S2_CLI_TRY(refuse_unsearchable(r));
    s2_search_state_init(&found->search, &found->state);
    s2_buf_puts(&buf, "question    ");
    s2_found_put_question(found, &buf);
    s2_buf_printf(&buf, "space       %s\ncandidates  %lld, of which %lld would be visited\n",
                  found->space_text, (long long)found->space.n_candidates,
                  (long long)(r->job.until - r->job.begin));
    s2_exit code = put_expected(r, &buf);
    put_examples(r, &buf);
    if (code == S2_EXIT_OK)
        code = s2_cli_print(r->cli, &buf);
    else
        s2_buf_release(&buf);
    if (code == S2_EXIT_OK)
        code = refuse_empty(r);
    s2_search_state_release(&found->state);
    return code;
}

/* What s2 sim asks of a price, and a search does not. */
static const struct {
    const char *options, *why;
} unpriced[] = {
    {"kernel-model", "a search prices the kernels of s2: s2 sim prices what it found by other kernels"},
    {"new|requests|chunk|prefix",
     "a search prices whole contexts of one length: s2 sim prices what it found so"},
    {"compare", "a search compares with dense attention and the model's own layers: s2 sim --compare adds "
                "known methods"},
    {"accuracy|rows", "s2 sim judges the constants; a search prints the error beside each prediction"},
    {"stack", "--exportable keeps the cache as what reads that format does"},
    {"list", "s2 sim --list shows GPUs and models"},
    {"set", "a search takes a model's config as it is: s2 import --set writes a pattern with what it leaves "
            "unsaid"}};

static s2_exit refuse_unpriced(s2_cli *cli, int argc, char **argv)
{
    cli->command = "search"; /* as the parser says that comes after this */
    for (int at = 1; at < argc; at++) {
        char name[32] = "";
        if (strncmp(argv[at], "--", 2) == 0)
            snprintf(name, sizeof name, "%.*s", (int)strcspn(argv[at] + 2, "="), argv[at] + 2);
        for (size_t n = 0; n < sizeof unpriced / sizeof *unpriced; n++)
            if (s2_word_in(unpriced[n].options, name)) {
                s2_cli_error(cli, "--%s: %s", name, unpriced[n].why);
                return S2_EXIT_USAGE;
            }
    }
    return S2_EXIT_OK;
}

static s2_exit search_command(s2_searching *r, int argc, char **argv)
{
    s2_cli *const cli = r->cli;
    S2_CLI_TRY(refuse_unpriced(cli, argc, argv));
    S2_CLI_TRY(s2_args_parse(cli, "search", argc, argv, &r->args));
    S2_CLI_TRY(refuse_apart(cli, &r->args));
    r->quiet = s2_args_has(&r->args, "quiet");
    r->on_terminal = isatty(fileno(cli->err)) == 1;
    r->job.states = S2_NEW(&cli->arena, s2_buf, r->job.ranks.n);
    if (r->job.states == NULL)
        return s2_cli_fail(cli, S2_ENOMEM, "search");
    S2_CLI_TRY(read_options(r));
    S2_CLI_TRY(check_output(r));
    S2_CLI_TRY(read_space(r));
    S2_CLI_TRY(check_worth(r));
    S2_CLI_TRY(check_share(r));
    S2_CLI_TRY(read_shard(r));
    S2_CLI_TRY(read_limit(r));
    if (s2_args_has(&r->args, "dry-run"))
        return describe(r);
    S2_CLI_TRY(s2_search_file_name(r));
    return search(r);
}

/*
 * Each price grows and frees megabytes of plans. Memory that goes back to the system every time comes again as
 * pages to be cleared, which took longer than the prices themselves.
 */
static void keep_memory(void)
{
#ifdef __GLIBC__
    enum { MOST_MAPPED = 1 << 25, MOST_KEPT = 1 << 28 }; /* glibc takes no more of the first */
    mallopt(M_MMAP_THRESHOLD, MOST_MAPPED);
    mallopt(M_TRIM_THRESHOLD, MOST_KEPT);
#endif
}

s2_exit s2_cmd_search(s2_cli *cli, int argc, char **argv)
{
    s2_searching *const r = s2_arena_alloc(&cli->arena, 1, sizeof *r);
    if (r == NULL)
        return s2_cli_fail(cli, S2_ENOMEM, "search");
    keep_memory();
    r->cli = cli;
    r->found.arena = &cli->arena;
    r->found.stored = !cli->no_db;
    r->job.ranks = s2_ranks_join();
    if (r->job.ranks.own != 0)
        silence(cli);
    const s2_exit code = search_command(r, argc, argv);
    s2_ranks_leave(&r->job.ranks);
    return r->job.ranks.own == 0 ? code : S2_EXIT_OK;
}

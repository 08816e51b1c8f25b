#include "cli/pricing.h"

#include <math.h>
#include <string.h>

#include "base/quantity.h"
#include "cli/input.h"
#include "cli/textfile.h"

static const char *weights_name(int value)
{
    return s2_weights_word((s2_weights)value);
}

static const char *cache_name(int value)
{
    return s2_cache_type_word((s2_cache_type)value);
}

static const char *cut_name(int value)
{
    return s2_cut_word((s2_context_cut)value);
}

static const char *fusion_name(int value)
{
    return s2_fusion_word((s2_fusion)value);
}

static int word_of(const s2_args *args, const char *option, const char *(*name)(int), int n)
{
    return s2_word_index(s2_args_str(args, option), name, n);
}

s2_weights s2_pricing_weights(const char *word)
{
    return (s2_weights)s2_word_index(word, weights_name, S2_N_WEIGHTS);
}

static const char *dtype_name(int value)
{
    return s2_dtype_word((s2_dtype)value);
}

/* Options that are whole numbers from 1, and where they go. */
static s2_exit read_counts(s2_cli *cli, const s2_args *args, s2_sim_options *options)
{
    const struct {
        const char *option;
        int64_t most;
        int32_t *to;
    } counts[] = {
        {"tp", S2_LIMIT_HEADS, &options->n_ranks},    {"page", 65536, &options->page_tok},
        {"dp", S2_LIMIT_BATCH, &options->n_shards},   {"pp", S2_LIMIT_LAYERS, &options->n_stages},
        {"cp", S2_LIMIT_LAYERS, &options->n_context}, {"ep", S2_LIMIT_BATCH, &options->n_expert_ranks},
        {"nodes", S2_MOST_NODES, &options->n_nodes},  {"micro", S2_LIMIT_BATCH, &options->n_micro}};
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
        int64_t value;
        if (s2_args_str(args, counts[n].option) == NULL)
            continue;
        S2_CLI_TRY(s2_args_int(cli, args, counts[n].option, 1, counts[n].most, &value));
        *counts[n].to = (int32_t)value;
    }
    return S2_EXIT_OK;
}

/* Thousandths are kept, so that a stored price names the part exactly. */
static s2_exit read_memory(s2_cli *cli, const s2_args *args, s2_sim_options *options)
{
    const char *const text = s2_args_str(args, "gpu-memory-utilization");
    double part = 1;
    if (text != NULL &&
        (!s2_quantity_parse(S2_QUANTITY_COUNT, text, 1.0, &part) || part < 0.001 || part > 1)) {
        s2_cli_error(cli, "--gpu-memory-utilization %s: expected a part of the memory, 0.001 to 1", text);
        return S2_EXIT_USAGE;
    }
    options->reserved_permille = 1000 - (int32_t)lround(1000 * part);
    return S2_EXIT_OK;
}

s2_exit s2_pricing_options(s2_cli *cli, const s2_args *args, s2_sim_options *options)
{
    S2_CLI_TRY(read_counts(cli, args, options));
    S2_CLI_TRY(read_memory(cli, args, options));
    options->recompute = s2_args_has(args, "recompute");
    options->dtype = (s2_dtype)word_of(args, "dtype", dtype_name, S2_N_PRICED_DTYPES);
    options->weights = (s2_weights)word_of(args, "weights", weights_name, S2_N_WEIGHTS);
    options->cache = (s2_cache_type)word_of(args, "kv-dtype", cache_name, S2_N_CACHE_TYPES);
    options->fusion = (s2_fusion)word_of(args, "fusion", fusion_name, S2_N_FUSIONS);
    options->cut = (s2_context_cut)word_of(args, "cut", cut_name, S2_N_CUTS);
    return S2_EXIT_OK;
}

s2_exit s2_pricing_check_machine(s2_cli *cli, const s2_sim_options *options)
{
    if (options->cut != S2_CUT_CONTIGUOUS && options->n_context == 1) {
        s2_cli_error(cli, "--cut says how GPUs share the tokens of a sequence: add --cp N");
        return S2_EXIT_USAGE;
    }
    if (options->n_micro == 0 || options->n_stages > 1)
        return S2_EXIT_OK;
    s2_cli_error(cli, "--micro cuts the batch for the stages of a pipeline: add --pp N");
    return S2_EXIT_USAGE;
}

s2_exit s2_pricing_refuse_training(s2_cli *cli, const s2_sim_options *options, const char *phases,
                                   bool trains)
{
    const char *const said = options->n_shards > 1 ? "dp" : options->recompute ? "recompute" : NULL;
    s2_diag diag = {0};
    if (trains && s2_sim_check_trained(options, &diag) != S2_OK) {
        s2_cli_error(cli, "%s", diag.msg);
        return S2_EXIT_USAGE;
    }
    if (trains || said == NULL)
        return S2_EXIT_OK;
    s2_cli_error(cli, "--%s belongs to training and changes nothing in %s: add --phase train", said, phases);
    return S2_EXIT_USAGE;
}

/* What blocks that are chosen at run time exclude, of the options of all commands that price. */
static const struct {
    const char *option, *why;
} unlisted[] = {
    {"new", "no chunk of a prompt was measured with such lists"},
    {"cp", "no part of a context was measured with such lists"},
    {"requests", "requests are decoded too, and no kernel takes such lists in decoding"},
    {"compare", "the known methods are planned beforehand"},
    {"bounds", "a bound does not know how a launch is planned, and is the same without --device-lists"},
    {"accuracy", "it prices no pattern; the line `forward listed` judges such launches"},
    {"kernel-model", "it is s2's own kernel that takes such lists"},
    {"stack", "of their cache nothing is freed, whatever reads it"},
    {"exportable",
     "a file states the blocks that are read, and these are chosen at run time; a search without "
     "--device-lists finds what can be written"},
    {"validate",
     "it would time launches whose lists are planned beforehand, which are not the ones priced; s2 "
     "validate runs a design of the front by its name"},
};

s2_exit s2_pricing_listed(s2_cli *cli, const s2_args *args, bool prefill, s2_sim_options *options)
{
    if (!s2_args_has(args, "device-lists"))
        return S2_EXIT_OK;
    for (size_t nth = 0; nth < sizeof unlisted / sizeof *unlisted; nth++)
        if (s2_args_known(args, unlisted[nth].option) && s2_args_has(args, unlisted[nth].option)) {
            s2_cli_error(cli, "--device-lists cannot be combined with --%s: %s", unlisted[nth].option,
                         unlisted[nth].why);
            return S2_EXIT_USAGE;
        }
    if (!prefill) {
        s2_cli_error(
            cli, "--device-lists needs --phase prefill: no kernel takes such lists in decoding or training");
        return S2_EXIT_USAGE;
    }
    s2_sim_choose_blocks(options);
    return S2_EXIT_OK;
}

s2_exit s2_pricing_constants(s2_cli *cli, const s2_args *args, const s2_gpu *gpu, s2_calibration *out,
                             bool *measured)
{
    const char *const path = s2_args_str(args, "constants");
    s2_diag diag = {0};
    *measured = true;
    if (path != NULL) {
        char *text;
        size_t n_bytes;
        S2_CLI_TRY(s2_textfile_read(cli, path, &text, &n_bytes));
        const s2_status status = s2_calibration_parse(text, n_bytes, out, &diag);
        return status == S2_OK ? S2_EXIT_OK : s2_input_refuse(cli, status, path, text, n_bytes, &diag);
    }
    const s2_status status = s2_calibration_of(gpu, out);
    *measured = status == S2_OK && s2_calibration_is_measured(out);
    return status == S2_OK ? S2_EXIT_OK : s2_cli_fail(cli, status, "the built-in constants");
}

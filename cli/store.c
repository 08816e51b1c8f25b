#include "cli/store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/arith.h"
#include "base/clock.h"
#include "base/file.h"
#include "report/report.h"
#include "pattern/folds.h"
#include "pattern/parse.h"

enum { DENSITY_TOK = 8192, CANDIDATES = 8, USUAL_PAGE_TOK = 16 };

void s2_store_set_seed(s2_cli *cli, int64_t seed)
{
    cli->seed = seed;
}

static s2_exit report(s2_cli *cli, s2_status status, const s2_diag *diag)
{
    if (diag->msg[0] == '\0')
        return s2_cli_fail(cli, status, s2_store_path(cli));
    s2_cli_error(cli, "%s", diag->msg);
    return s2_exit_of(status);
}

s2_exit s2_store_open(s2_cli *cli, s2_db_mode mode, s2_db **db)
{
    s2_diag diag = {0};
    const s2_status status = s2_db_open(s2_store_path(cli), mode, db, &diag);
    return status == S2_OK ? S2_EXIT_OK : report(cli, status, &diag);
}

static void add_argv(const s2_cli *cli, s2_buf *buf)
{
    s2_json_begin(buf, '[');
    for (int n = 0; n < cli->argc; n++)
        s2_json_str(buf, cli->argv[n]);
    s2_json_end(buf, ']');
    s2_buf_add(buf, "", 1);
}

/* The first "model name" that Linux reports; "" if there is none. */
static void read_cpu(char *out, size_t cap)
{
    static const char key[] = "model name";
    char line[256];
    out[0] = '\0';
    FILE *const file = fopen("/proc/cpuinfo", "r");
    while (file != NULL && out[0] == '\0' && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, key, sizeof key - 1) == 0 && strchr(line, ':') != NULL)
            snprintf(out, cap, "%s", strchr(line, ':') + 2);
    if (file != NULL)
        fclose(file);
    out[strcspn(out, "\n")] = '\0';
}

void s2_store_machine(char out[S2_STORE_MACHINE_BYTES])
{
    struct utsname system = {0};
    char cpu[128];
    uname(&system);
    read_cpu(cpu, sizeof cpu);
    snprintf(out, S2_STORE_MACHINE_BYTES, "%.64s %.64s %.32s, %ld x %s", system.sysname, system.release,
             system.machine, sysconf(_SC_NPROCESSORS_ONLN), cpu[0] != '\0' ? cpu : "CPU");
}

static s2_status put_run(s2_cli *cli, s2_diag *diag)
{
    char host[256] = "", cwd[4096], machine[S2_STORE_MACHINE_BYTES];
    gethostname(host, sizeof host - 1);
    s2_store_machine(machine);
    s2_buf argv = {0};
    add_argv(cli, &argv);
    s2_status status = argv.status;
    const s2_db_run run = {.tool_version = s2_version(),
                           .commit = s2_version_commit(),
                           .command = cli->command,
                           .argv_json = argv.data,
                           .host = host,
                           .seed = cli->seed,
                           .started_us = cli->started_us,
                           .cwd = getcwd(cwd, sizeof cwd) != NULL ? cwd : "",
                           .machine = machine,
                           .build = s2_version_build()};
    if (status == S2_OK)
        status = s2_db_put_run(cli->db, &run, &cli->run_id, diag);
    s2_buf_release(&argv);
    return status;
}

/* "local+stride": the words of the terms, each once, in the order of the language; mixers have none. */
static void add_family(const s2_pattern *pattern, s2_buf *buf)
{
    bool seen[S2_N_TERM_KINDS] = {false}, any = false;
    s2_term_walk walk = {.pattern = pattern};
    for (const s2_term *term; (term = s2_term_next(&walk)) != NULL;)
        seen[term->kind] = true;
    for (int kind = 0; kind < S2_N_TERM_KINDS; kind++)
        any = any || (seen[kind] && kind != S2_TERM_NONE);
    for (int32_t layer = 0; layer < pattern->n_layers && any; layer++)
        if (s2_pattern_is_state_layer(pattern, layer))
            seen[S2_TERM_NONE] = false;
    for (int kind = 0; kind < S2_N_TERM_KINDS; kind++)
        if (seen[kind])
            s2_buf_printf(buf, "%s%s", buf->len > 0 ? "+" : "", s2_term_word((s2_term_kind)kind));
    s2_buf_add(buf, "", 1);
}

/* NAN if it cannot be counted quickly; S2_ENOMEM. */
static s2_status density_of(const s2_pattern *pattern, int64_t n_tok, bool blocks, s2_density *out)
{
    s2_arena scratch = {0};
    s2_folds folds;
    s2_status status = s2_folds_build(&scratch, pattern, S2_PREFILL, S2_AT_LEAST, &folds);
    if (status == S2_OK)
        status = s2_density_count(pattern, &folds, n_tok, blocks, out);
    if (status != S2_OK)
        *out = (s2_density){(double)NAN, (double)NAN};
    s2_arena_release(&scratch);
    return status == S2_ENOMEM ? S2_ENOMEM : S2_OK;
}

/* The length for the density of a design without a price: the same for all, unless mask files end before. */
static int64_t density_tok(const s2_pattern *pattern)
{
    const int64_t limit_tok = s2_pattern_limit_tok(pattern);
    return s2_min_i64(limit_tok, DENSITY_TOK);
}

/* What put_design copies from; released after it. */
typedef struct row_text {
    s2_buf text;
    s2_buf family;
    char hash[S2_HASH_HEX];
} row_text;

static s2_status put_design(s2_cli *cli, const s2_input *input, int64_t *design_id, s2_diag *diag)
{
    const s2_pattern *const pattern = &input->pattern;
    row_text t = {0};
    s2_density density;
    s2_pattern_print(pattern, &t.text);
    s2_buf_add(&t.text, "", 1);
    add_family(pattern, &t.family);
    s2_status status = t.text.status != S2_OK ? t.text.status : t.family.status;
    if (status == S2_OK)
        status = s2_pattern_hash(pattern, t.hash);
    if (status == S2_OK)
        status = density_of(pattern, density_tok(pattern), true, &density);
    if (status == S2_OK) {
        const s2_db_design design = {.hash = t.hash,
                                     .name = s2_input_name(cli, input),
                                     .text = t.text.data,
                                     .model = pattern->model,
                                     .family = t.family.data,
                                     .origin = input->label,
                                     .n_layers = pattern->n_layers,
                                     .n_heads = pattern->n_heads,
                                     .n_kv_heads = pattern->n_kv_heads,
                                     .head_dim = pattern->head_dim,
                                     .block_tok = pattern->block_tok,
                                     .density = density.sparse_blocks,
                                     .density_tok = density_tok(pattern)};
        status = s2_db_put_design(cli->db, cli->run_id, &design, design_id, diag);
    }
    s2_buf_release(&t.text);
    s2_buf_release(&t.family);
    return status;
}

/* Begin a transaction and put the run and the design into it; returns an exit code. */
static s2_exit begin(s2_cli *cli, const s2_input *input, int64_t *design_id)
{
    if (cli->db == NULL) {
        const s2_exit end = s2_store_open(cli, S2_DB_WRITE, &cli->db);
        if (end != S2_EXIT_OK) {
            s2_cli_hint(cli, "--no-db records nothing, --db FILE records elsewhere");
            return end;
        }
    }
    s2_diag diag = {0};
    s2_status status = s2_db_begin(cli->db, &diag);
    const int64_t run_before = cli->run_id;
    if (status == S2_OK && cli->run_id == 0)
        status = put_run(cli, &diag);
    if (status == S2_OK)
        status = put_design(cli, input, design_id, &diag);
    if (status == S2_OK)
        return S2_EXIT_OK;
    s2_db_rollback(cli->db);
    cli->run_id = run_before;
    return report(cli, status, &diag);
}

static s2_exit finish(s2_cli *cli, s2_status status, s2_diag *diag, int64_t run_before)
{
    status = s2_db_end(cli->db, status, diag);
    if (status == S2_OK)
        return S2_EXIT_OK;
    cli->run_id = run_before;
    return report(cli, status, diag);
}

s2_exit s2_store_run(s2_cli *cli)
{
    if (cli->db == NULL)
        S2_CLI_TRY(s2_store_open(cli, S2_DB_WRITE, &cli->db));
    if (cli->run_id != 0)
        return S2_EXIT_OK;
    s2_diag diag = {0};
    s2_status status = s2_db_begin(cli->db, &diag);
    if (status == S2_OK)
        status = put_run(cli, &diag);
    return finish(cli, status, &diag, 0);
}

s2_exit s2_store_design(s2_cli *cli, const s2_input *input)
{
    return s2_store_checks(cli, input, NULL, 0);
}

static s2_status put_results(s2_cli *cli, const s2_store_item *item, int64_t design_id, s2_diag *diag)
{
    for (int32_t n = 0; n < item->n_checks; n++)
        S2_TRY(s2_db_put_check(cli->db, cli->run_id, design_id, &item->checks[n], diag));
    for (int32_t n = 0; n < item->n_sims; n++)
        S2_TRY(s2_db_put_sim(cli->db, cli->run_id, design_id, &item->sims[n], diag));
    if (item->reach != NULL)
        S2_TRY(s2_db_put_reach(cli->db, cli->run_id, design_id, item->reach, diag));
    return S2_OK;
}

s2_exit s2_store_items(s2_cli *cli, const s2_store_item *items, int32_t n_items)
{
    if (cli->no_db || n_items == 0)
        return S2_EXIT_OK;
    int64_t design_id;
    const int64_t run_before = cli->run_id;
    S2_CLI_TRY(begin(cli, &items[0].input, &design_id));
    s2_diag diag = {0};
    s2_status status = put_results(cli, &items[0], design_id, &diag);
    for (int32_t n = 1; n < n_items && status == S2_OK; n++) {
        status = put_design(cli, &items[n].input, &design_id, &diag);
        if (status == S2_OK)
            status = put_results(cli, &items[n], design_id, &diag);
    }
    return finish(cli, status, &diag, run_before);
}

s2_exit s2_store_checks(s2_cli *cli, const s2_input *input, const s2_db_check *checks, int32_t n_checks)
{
    const s2_store_item item = {.input = *input, .checks = checks, .n_checks = n_checks};
    return s2_store_items(cli, &item, 1);
}

/* What is given up is counted over all queries, even in a phase that has only one. */
static s2_status find_unread(const s2_pattern *pattern, const s2_sim_options *options, const s2_sim *sim,
                             double *unread)
{
    s2_density density = {0};
    if (options->phase != S2_DECODE && sim != NULL)
        density.tokens = sim->token_density;
    else
        S2_TRY(density_of(pattern, options->len_tok, false, &density));
    *unread = 1 - density.tokens;
    return S2_OK;
}

static void add_setting(s2_buf *buf, const char *word, int64_t value, int64_t usual)
{
    if (value != usual)
        s2_buf_printf(buf, "%s%s=%lld", buf->len > 0 ? "," : "", word, (long long)value);
}

/* A file of the user's with the name of a built-in GPU but other figures. */
static bool is_other_gpu(const s2_gpu *gpu)
{
    s2_gpu known;
    if (s2_gpu_find(gpu->name, &known, NULL) != S2_OK)
        return false;
    bool other = false;
#define S2_OTHER(key, low, high, required, text) other |= known.key != gpu->key;
    S2_GPU_KEYS(S2_OTHER)
#undef S2_OTHER
    return other;
}

/* What else a price depends on; NULL when memory is short. */
static const char *settings_of(s2_arena *arena, const s2_sim_options *options)
{
    s2_buf buf = {0};
    add_setting(&buf, "page", options->page_tok, USUAL_PAGE_TOK);
    add_setting(&buf, "dp", options->n_shards, 1);
    add_setting(&buf, "recompute", options->recompute, 0);
    add_setting(&buf, "pp", options->n_stages, 1);
    add_setting(&buf, "micro", options->n_micro, 0);
    add_setting(&buf, "cp", options->n_context, 1);
    if (options->n_context > 1)
        s2_buf_printf(&buf, ",cut=%s", s2_cut_word(options->cut));
    add_setting(&buf, "ep", options->n_expert_ranks, 1);
    add_setting(&buf, "nodes", options->n_nodes, 1);
    add_setting(&buf, "memory-permille", 1000 - options->reserved_permille, 1000);
    add_setting(&buf, "gpu-file", is_other_gpu(&options->gpu), 0);
    add_setting(&buf, "device-lists", options->listed, 0);
    if (options->keeps_all && options->phase != S2_TRAIN) /* which keeps no cache */
        s2_buf_printf(&buf, "%skeeps=all", buf.len > 0 ? "," : "");
    const char *text = NULL;
    if (buf.status == S2_OK)
        text = buf.len > 0 ? s2_arena_strndup(arena, buf.data, buf.len) : S2_DB_USUAL;
    s2_buf_release(&buf);
    return text;
}

/* Are these the constants, or this the kernel model, that the program comes with? */
static s2_status compare_built_in(s2_arena *scratch, const s2_sim_options *options, bool *same)
{
    s2_calibration *const own = S2_NEW(scratch, s2_calibration, 1);
    s2_peer *const known = S2_NEW(scratch, s2_peer, 1);
    if (own == NULL || known == NULL)
        return S2_ENOMEM;
    s2_status status = S2_OK;
    *same = true;
    if (options->peer != NULL) {
        status = s2_peer_find(options->peer->name, known, NULL);
        *same = status == S2_OK && strcmp(known->hash, options->peer->hash) == 0;
    } else if (options->calibration != NULL) {
        status = s2_calibration_of(&options->gpu, own);
        *same = status == S2_OK && strcmp(own->hash, options->calibration->hash) == 0;
    }
    return status == S2_ENOMEM ? S2_ENOMEM : S2_OK;
}

/* Whose kernels are priced; a user's file is told by the first digits of its hash. NULL when memory is short. */
static const char *kernel_of(s2_arena *arena, const s2_sim_options *options)
{
    char text[64] = S2_DB_OURS;
    s2_arena scratch = {0};
    bool same = true;
    const s2_status status = compare_built_in(&scratch, options, &same);
    if (options->peer != NULL)
        snprintf(text, sizeof text, "%s", options->peer->name);
    if (status == S2_OK && !same)
        snprintf(text + strlen(text), sizeof text - strlen(text), "-%.8s",
                 options->peer != NULL ? options->peer->hash : options->calibration->hash);
    s2_arena_release(&scratch);
    return status == S2_OK ? s2_arena_strndup(arena, text, strlen(text)) : NULL;
}

static s2_status fill_kind(s2_arena *arena, const s2_sim_options *options, s2_db_sim *row)
{
    row->kv_dtype = options->cache == S2_CACHE_AS_DTYPE ? row->dtype : s2_cache_type_word(options->cache);
    const s2_weights weights = s2_sim_weights(options);
    row->weights = weights == S2_WEIGHTS_AS_DTYPE ? row->dtype : s2_weights_word(weights);
    row->tp = options->n_ranks;
    row->kernel = kernel_of(arena, options);
    row->settings = settings_of(arena, options);
    return row->kernel != NULL && row->settings != NULL ? S2_OK : S2_ENOMEM;
}

s2_db_figure s2_store_figure(const s2_sim *sim)
{
    return !sim->predicted ? S2_DB_BOUND : sim->measured ? S2_DB_PREDICTION : S2_DB_GUESS;
}

s2_status s2_store_sim_row(s2_arena *arena, const s2_pattern *pattern, const s2_sim_options *options,
                           const char *model, const s2_sim *sim, const char *json, s2_db_sim *out)
{
    const double none = (double)NAN;
    s2_db_sim row = {.gpu = options->gpu.name,
                     .model = model,
                     .phase = s2_phase_word(options->phase),
                     .dtype = s2_dtype_word(options->dtype),
                     .len_tok = options->len_tok,
                     .batch = options->batch,
                     .time_us = none,
                     .bound_us = none,
                     .dense_us = none,
                     .bound_by = "",
                     .density = none,
                     .unread = none,
                     .hbm_bytes = none,
                     .kv_dense_bytes = none,
                     .kv_shared_pages_bytes = none,
                     .kv_head_pages_bytes = none,
                     .kv_ring_stripes_bytes = none,
                     .error_pct = none,
                     .json = json};
    S2_TRY(fill_kind(arena, options, &row));
    if (sim != NULL || options->new_tok == 0)
        S2_TRY(find_unread(pattern, options, sim, &row.unread));
    *out = row;
    if (sim == NULL)
        return S2_OK;
    row.time_us = sim->time_us;
    row.bound_us = sim->bound_us;
    row.dense_us = sim->dense_time_us;
    row.bound_by = s2_resource_word(sim->bound_by);
    row.density = sim->density;
    row.hbm_bytes = (double)sim->counts.hbm_read + (double)sim->counts.hbm_write;
    row.kv_dense_bytes = (double)sim->kv.dense;
    row.kv_shared_pages_bytes = (double)sim->kv.shared_pages;
    row.kv_head_pages_bytes = options->phase == S2_TRAIN ? 0
                              : options->keeps_all       ? (double)sim->kv.dense
                                                         : (double)sim->kv.head_pages;
    row.kv_ring_stripes_bytes = (double)sim->kv.ring_stripes;
    row.error_pct = sim->predicted ? sim->error.pct : none;
    row.priced = s2_store_figure(sim);
    *out = row;
    return S2_OK;
}

s2_exit s2_store_sim(s2_cli *cli, const s2_input *input, const s2_db_sim *sim)
{
    const s2_store_item item = {.input = *input, .sims = sim, .n_sims = 1};
    return s2_store_items(cli, &item, 1);
}

s2_exit s2_store_reach(s2_cli *cli, const s2_input *input, const s2_db_reach *reach)
{
    const s2_store_item item = {.input = *input, .reach = reach};
    return s2_store_items(cli, &item, 1);
}

/* Store one row for the design and this run: a validation, or else an export. */
static s2_exit store_row(s2_cli *cli, const s2_input *input, const s2_db_validation *validation,
                         const s2_db_export *export)
{
    if (cli->no_db)
        return S2_EXIT_OK;
    int64_t design_id;
    const int64_t run_before = cli->run_id;
    S2_CLI_TRY(begin(cli, input, &design_id));
    s2_diag diag = {0};
    const s2_status status = validation != NULL
                                 ? s2_db_put_validation(cli->db, cli->run_id, design_id, validation, &diag)
                                 : s2_db_put_export(cli->db, cli->run_id, design_id, export, &diag);
    return finish(cli, status, &diag, run_before);
}

s2_exit s2_store_validation(s2_cli *cli, const s2_input *input, const s2_db_validation *validation)
{
    return store_row(cli, input, validation, NULL);
}

s2_exit s2_store_export(s2_cli *cli, const s2_input *input, const s2_db_export *row)
{
    return store_row(cli, input, NULL, row);
}

static s2_exit report_candidates(s2_cli *cli, const char *key, const s2_db_row *rows, int32_t n_rows)
{
    s2_cli_error(cli, "%s: ambiguous: %s%d designs match", key, n_rows == CANDIDATES ? "at least " : "",
                 (int)n_rows);
    for (int32_t n = 0; n < n_rows; n++)
        s2_cli_hint(cli, "%.16s  %s", rows[n].hash, rows[n].name);
    return S2_EXIT_USAGE;
}

/* The one design that a key names; found->id is 0 if there is none. */
static s2_exit pick_row(s2_cli *cli, s2_db *db, const char *key, s2_db_row *found)
{
    s2_db_row rows[CANDIDATES];
    int32_t n_rows;
    s2_diag diag = {0};
    const s2_status status = s2_db_find(db, &cli->arena, key, CANDIDATES, rows, &n_rows, &diag);
    if (status != S2_OK)
        return report(cli, status, &diag);
    if (n_rows > 1)
        return report_candidates(cli, key, rows, n_rows);
    *found = n_rows == 1 ? rows[0] : (s2_db_row){0};
    return S2_EXIT_OK;
}

s2_exit s2_store_pick(s2_cli *cli, s2_db *db, const char *key, int64_t *design_id)
{
    s2_db_row row = {0};
    S2_CLI_TRY(pick_row(cli, db, key, &row));
    *design_id = row.id;
    return S2_EXIT_OK;
}

/* Names may have been merged from anywhere. */
static const char *clean_name(s2_arena *arena, const s2_db_row *row, const char *key)
{
    const size_t cap = 4 * strlen(row->name) + 1;
    char *const clean = row->name[0] != '\0' ? s2_arena_alloc(arena, cap, 1) : NULL;
    if (clean == NULL)
        return key;
    s2_text_clean(clean, cap, row->name);
    return clean;
}

s2_exit s2_store_find_design(s2_cli *cli, const char *key, const char **text, const char **name)
{
    *text = NULL;
    if (s2_file_is_missing(s2_store_path(cli)))
        return S2_EXIT_OK;
    s2_db *db;
    S2_CLI_TRY(s2_store_open(cli, S2_DB_READ, &db));
    s2_db_row row = {0};
    s2_exit code = pick_row(cli, db, key, &row);
    if (code == S2_EXIT_OK && row.id != 0) {
        s2_diag diag = {0};
        const s2_status status = s2_db_text(db, &cli->arena, row.id, text, &diag);
        *name = clean_name(&cli->arena, &row, key);
        if (status != S2_OK)
            code = report(cli, status, &diag);
    }
    s2_db_close(&db);
    return code;
}

s2_exit s2_store_report(s2_cli *cli, s2_status status, const s2_diag *diag)
{
    return report(cli, status, diag);
}

static int64_t elapsed_us(const s2_cli *cli)
{
    const int64_t us = s2_unix_us() - cli->started_us;
    return s2_max_i64(us, 0);
}

s2_exit s2_store_finish(s2_cli *cli, s2_exit code)
{
    if (cli->db == NULL)
        return code;
    if (cli->run_id != 0) {
        s2_diag diag = {0};
        s2_status status = s2_db_begin(cli->db, &diag);
        if (status == S2_OK)
            status = s2_db_end_run(cli->db, cli->run_id, code, elapsed_us(cli), &diag);
        if (finish(cli, status, &diag, cli->run_id) != S2_EXIT_OK)
            code = s2_exit_combine(code, S2_EXIT_ENVIRONMENT);
    }
    s2_db_close(&cli->db);
    return code;
}

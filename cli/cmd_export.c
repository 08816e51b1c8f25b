#include "cli/commands.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <sha2.h>
#include <unistd.h>

#include "base/arith.h"
#include "base/file.h"
#include "base/work.h"
#include "cli/evidence.h"
#include "cli/foreign.h"
#include "cli/input.h"
#include "cli/store.h"
#include "coverage/prove.h"
#include "export/nearest.h"
#include "pattern/parse.h"
#include "sim/share.h"
#include "words/difference.h"

typedef struct job {
    const s2_format *format;
    const char *operand; /* as the user named the pattern */
    const char *output;  /* NULL: standard output */
    bool force;
    bool has_len; /* the user named one */
    s2_input input;
    s2_pattern one_phase; /* what is written with --phase */
    bool has_phases;      /* what is written differs between prefill and decode */
    bool is_rank;         /* of the heads of one GPU of several */
    bool later_rank;      /* what there is to know of its files was said of rank 0's */
    int64_t proof_work;   /* its share of what the proofs of all GPUs may take; 0: there is one */
    s2_target target;
    s2_fileset files;
    s2_buf notes;
    s2_diag diag;
    s2_export_report report;
} job;

static void say_notes(s2_cli *cli, const s2_buf *notes)
{
    char line[512];
    const char *rest = notes->data != NULL ? notes->data : "";
    while (*rest != '\0') {
        const size_t n = strcspn(rest, "\n");
        snprintf(line, sizeof line, "%.*s", (int)n, rest);
        s2_cli_hint(cli, "%s", line);
        rest += n + (rest[n] == '\n');
    }
}

/* Say how the comparison came out and what was lost. */
static void say_report(s2_cli *cli, const job *ask)
{
    s2_buf words = {0};
    s2_difference_print(&ask->report.difference, "the pattern", "what is written", &words);
    s2_cli_error(cli, "%s: %s", ask->format->name, words.data != NULL ? words.data : "");
    s2_buf_release(&words);
    if (ask->report.has_loss)
        s2_cli_hint(cli, "at %s it adds %lld pairs and drops %lld of the pattern's %lld",
                    s2_count_text(ask->report.loss.n_tok, "token").text, (long long)ask->report.loss.added,
                    (long long)ask->report.loss.dropped, (long long)ask->report.loss.n_first);
}

static const s2_requirement asked[] = {{S2_ROWS, 0, true}, {S2_UNION, 0, true}, {S2_KV, 0, true}};
enum { N_ASKED = sizeof asked / sizeof asked[0] };

static s2_status prove_asked(s2_arena *arena, const s2_pattern *pattern, int64_t work_limit,
                             s2_finding findings[N_ASKED])
{
    const s2_prove_options options = {.n_tok = S2_OPEN, .work_limit = work_limit};
    return s2_prove(arena, pattern, asked, N_ASKED, &options, findings);
}

/*
 * What is known about the pattern, for the exported file: the verdicts for every length, or for that of
 * its mask files, freshly decided. If the prover gives up at its limit the verdict is unknown, and the export
 * goes on. NULL when memory is short.
 */
static const char *provenance(s2_cli *cli, const s2_pattern *pattern, int64_t work_limit)
{
    s2_finding findings[N_ASKED];
    s2_buf words = {0};
    const s2_status proved = prove_asked(&cli->arena, pattern, work_limit, findings);
    s2_buf_printf(&words, "s2 %s (%s)", s2_version(), s2_version_commit());
    if (proved == S2_OK)
        for (int32_t n = 0; n < N_ASKED; n++) {
            if (n == 0 && findings[n].scope_tok != S2_OPEN)
                s2_buf_printf(&words, "; up to %s:", s2_count_text(findings[n].scope_tok, "token").text);
            else if (n == 0)
                s2_buf_puts(&words, "; every length:");
            s2_buf_printf(&words, "%s %s %s", n == 0 ? "" : ",", s2_property_word(asked[n].property),
                          s2_verdict_word(findings[n].verdict));
        }
    const bool whole = words.status == S2_OK && proved != S2_ENOMEM;
    const char *const kept = whole ? s2_arena_strndup(&cli->arena, words.data, words.len) : NULL;
    s2_buf_release(&words);
    return kept;
}

/* A format that holds only one mask can still hold the mask of one phase. */
static void hint_phases(s2_cli *cli, const job *ask)
{
    if (ask->has_phases)
        s2_cli_hint(cli, "--phase prefill or --phase decode writes the rules of one phase");
}

/* Choose what is written: the input's pattern, or one phase of it. */
static s2_exit choose_phase(s2_cli *cli, const s2_args *args, job *ask)
{
    const char *const word = s2_args_str(args, "phase");
    const s2_pattern *const whole = &ask->input.pattern;
    ask->target.pattern = whole;
    ask->has_phases = s2_pattern_has_phases(whole);
    if (word == NULL || !ask->has_phases)
        return S2_EXIT_OK;
    const s2_phase phase = strcmp(word, s2_phase_word(S2_DECODE)) == 0 ? S2_DECODE : S2_PREFILL;
    const s2_status status = s2_pattern_of_phase(&cli->arena, whole, phase, &ask->one_phase);
    if (status != S2_OK)
        return s2_cli_fail(cli, status, "export");
    ask->target.pattern = &ask->one_phase;
    ask->has_phases = false;
    s2_note(&ask->notes, "only the rules of %s are written; %s has others", word,
            s2_phase_word(phase == S2_DECODE ? S2_PREFILL : S2_DECODE));
    return S2_EXIT_OK;
}

/* List the properties that hold for the pattern but not for the other one. */
static int32_t given_up(const s2_pattern *pattern, const s2_pattern *other, s2_buf *words)
{
    s2_arena arena = {0};
    s2_finding held[N_ASKED], kept[N_ASKED];
    int32_t n_lost = 0;
    if (prove_asked(&arena, pattern, 0, held) == S2_OK && prove_asked(&arena, other, 0, kept) == S2_OK) {
        for (int32_t n = 0; n < N_ASKED; n++)
            if (held[n].verdict == S2_HOLDS && kept[n].verdict != S2_HOLDS)
                s2_buf_printf(words, "%s%s", n_lost++ > 0 ? " and " : "",
                              s2_property_word(asked[n].property));
    } else {
        n_lost = N_ASKED;
        s2_buf_puts(words, "what could not be proved here");
    }
    s2_arena_release(&arena);
    return n_lost;
}

static int32_t count_given_up(void *context, const s2_pattern *candidate)
{
    s2_buf words = {0};
    const int32_t n = given_up(context, candidate, &words);
    s2_buf_release(&words);
    return n;
}

static void put_share(s2_buf *words, int64_t part, int64_t whole)
{
    const double percent = whole > 0 ? 100.0 * (double)part / (double)whole : 0;
    if (part == 0)
        s2_buf_puts(words, "none");
    else if (percent < 0.1)
        s2_buf_puts(words, "less than 0.1 %");
    else
        s2_buf_printf(words, "%.1f %%", percent);
}

static void say_nearest(s2_cli *cli, const job *ask, const s2_nearest *nearest)
{
    const s2_loss *const loss = &nearest->loss;
    s2_buf words = {0}, lost = {0};
    s2_buf_printf(&words, "the nearest that %s can say", ask->format->name);
    if (nearest->has_loss && loss->added + loss->dropped == 0) {
        s2_buf_printf(&words, " reads the same pairs at %s", s2_count_text(loss->n_tok, "token").text);
    } else if (nearest->has_loss) {
        s2_buf_puts(&words, " drops ");
        put_share(&words, loss->dropped, loss->n_first);
        s2_buf_puts(&words, " of the pattern's pairs and adds ");
        put_share(&words, loss->added, loss->n_first);
        s2_buf_printf(&words, "%s at %s", loss->added > 0 ? " of their number" : "",
                      s2_count_text(loss->n_tok, "token").text);
    }
    if (nearest->sink_tok > 0)
        s2_buf_printf(&words, ", and has no sink (the pattern's is of %s)",
                      s2_count_text(nearest->sink_tok, "token").text);
    if (given_up(ask->target.pattern, &nearest->pattern, &lost) > 0)
        s2_buf_printf(&words, ", and gives up %s", lost.data);
    s2_cli_hint(cli, "%s:", words.data != NULL ? words.data : "");
    s2_buf_release(&words);
    s2_buf_release(&lost);
}

/* The command that writes a text, as the user asked for the pattern; several files need a folder. */
static void hint_command(s2_cli *cli, const job *ask, const char *text, const s2_format *format,
                         int32_t n_files)
{
    s2_buf words = {0};
    const bool ends = s2_pattern_limit_tok(ask->target.pattern) != S2_OPEN; /* a text in terms does not */
    s2_buf_puts(&words, "s2 export ");
    s2_buf_shell(&words, text);
    s2_buf_printf(&words, " --to %s", format->name);
    if (ask->has_len || ends)
        s2_buf_printf(&words, " --len %lld", (long long)ask->target.n_tok);
    for (int32_t n = 0; n < ask->target.settings.n && format == ask->format; n++)
        s2_buf_printf(&words, " --set %s=%s", ask->target.settings.list[n].key,
                      ask->target.settings.list[n].value);
    if (n_files > 1)
        s2_buf_printf(&words, " -o %s/", format->name);
    s2_cli_hint(cli, "%s", words.data != NULL ? words.data : "");
    s2_buf_release(&words);
}

/* Where nothing near can be said: the formats that hold the pattern as it is, found by trying. */
static void hint_others(s2_cli *cli, const job *ask)
{
    enum { MOST_CELLS = 1 << 24 };
    const s2_pattern *const p = ask->target.pattern;
    const int64_t n_blk = s2_ceil_div(ask->target.n_tok, p->block_tok);
    const s2_format *first = NULL;
    int32_t n_first = 0;
    s2_buf names = {0};
    if (n_blk * n_blk >
        MOST_CELLS / ((int64_t)p->n_layers * p->n_heads)) /* lists of longer contexts take long */
        return;
    for (int32_t n = 0; s2_format_at(n) != NULL; n++) {
        const s2_format *const other = s2_format_at(n);
        int32_t n_files;
        bool held = false;
        s2_target target = ask->target;
        target.settings = (s2_settings){0};
        if (other == ask->format || other->write == NULL ||
            s2_export_holds(other, &target, &held, &n_files) != S2_OK || !held)
            continue;
        s2_buf_printf(&names, "%s%s", first != NULL ? ", " : "", other->name);
        n_first = first == NULL ? n_files : n_first;
        first = first == NULL ? other : first;
    }
    if (first != NULL && names.status == S2_OK) {
        s2_cli_hint(cli, "it can be written as %s, as by", names.data);
        hint_command(cli, ask, ask->operand, first, n_first);
    }
    s2_buf_release(&names);
}

/* Suggest the command that writes what the format can hold instead, after trying that export. */
static void hint_nearest(s2_cli *cli, const job *ask)
{
    s2_nearest nearest;
    if (ask->is_rank) { /* a command for the heads of one GPU would write those of no other */
        s2_cli_hint(cli, "nothing was written");
        return;
    }
    const s2_nearest_judge judge = {.given_up = count_given_up, .context = (void *)ask->target.pattern};
    if (s2_export_nearest(ask->format, &ask->target, judge, &nearest) != S2_OK)
        return;
    if (nearest.text == NULL) {
        hint_others(cli, ask);
        return;
    }
    say_nearest(cli, ask, &nearest);
    hint_command(cli, ask, nearest.text, ask->format, nearest.n_files);
}

static s2_exit run_export(s2_cli *cli, job *ask)
{
    const s2_status status = s2_export_run(ask->format, &ask->target, &ask->report);
    if (status == S2_EUNSUPPORTED) {
        int64_t work = S2_WORK_STEPS / 2,
                *const all =
                    ask->target.work_left; /* for all that is tried; what takes longer is not suggested */
        s2_cli_error(cli, "%s cannot hold this pattern: %s", ask->format->name, ask->diag.msg);
        hint_phases(cli, ask);
        ask->target.work_left = &work;
        hint_nearest(cli, ask);
        ask->target.work_left = all;
        return S2_EXIT_VIOLATED;
    }
    if (status != S2_OK) {
        s2_cli_error(cli, "%s: %s", ask->format->name, s2_diag_text(&ask->diag, status));
        return status == S2_EINVAL ? S2_EXIT_USAGE : s2_exit_of(status);
    }
    say_report(cli, ask);
    if (ask->report.refused) {
        hint_phases(cli, ask);
        if (!ask->is_rank)
            s2_cli_hint(cli, "nothing was written");
        hint_nearest(cli, ask);
        return S2_EXIT_VIOLATED;
    }
    if (!ask->later_rank)
        say_notes(cli, &ask->notes);
    const char *const verdicts = strchr(ask->target.provenance, ';');
    s2_cli_hint(cli, "proof: %s", verdicts != NULL ? verdicts + 2 : "none within the prover's limits");
    if (!ask->later_rank)
        s2_cli_hint(cli, "run: %s", ask->target.run);
    return S2_EXIT_OK;
}

/* Where file n goes: the output itself, or a name inside the output directory. */
static void target_path(const job *ask, int32_t n, bool inside, char *path, size_t cap)
{
    if (inside)
        snprintf(path, cap, "%s/%s", ask->output, ask->files.files[n].name);
    else
        snprintf(path, cap, "%s", ask->output);
}

static s2_exit refuse_overwrite(s2_cli *cli, const job *ask, bool inside)
{
    for (int32_t n = 0; n < ask->files.n_files; n++) {
        char path[4096];
        target_path(ask, n, inside, path, sizeof path);
        if (!ask->force && access(path, F_OK) == 0) {
            s2_cli_error(cli, "%s exists; --force overwrites it", path);
            return S2_EXIT_USAGE;
        }
    }
    return S2_EXIT_OK;
}

/* A folder called mask.json would surprise anyone who looks for a file of that name. */
static s2_exit refuse_file_name(s2_cli *cli, const job *ask)
{
    static const char *const endings[] = {".json", ".py", ".npy", ".h", ".yaml", ".yml", ".txt", ".bin"};
    const size_t n = strlen(ask->output);
    if (ask->files.n_files == 1 || s2_file_is_folder(ask->output))
        return S2_EXIT_OK;
    for (size_t ending = 0; ending < sizeof endings / sizeof *endings; ending++) {
        const size_t own = strlen(endings[ending]);
        if (n <= own || strcmp(ask->output + n - own, endings[ending]) != 0)
            continue;
        s2_cli_error(cli, "-o %s: %s is %d files, which need a folder", ask->output, ask->format->name,
                     ask->files.n_files);
        s2_cli_hint(cli, "as in -o %.*s/", (int)(n - own), ask->output);
        return S2_EXIT_USAGE;
    }
    return S2_EXIT_OK;
}

static s2_exit write_files(s2_cli *cli, const job *ask)
{
    const bool inside = ask->files.n_files > 1 || s2_file_is_folder(ask->output);
    S2_CLI_TRY(refuse_file_name(cli, ask));
    S2_CLI_TRY(refuse_overwrite(cli, ask, inside));
    s2_diag diag = {0};
    s2_status status = s2_cli_lacks_nothing();
    if (status != S2_OK)
        return s2_cli_fail(cli, status, ask->format->name);
    if (ask->files.n_files > 1) {
        status = s2_fileset_write(&ask->files, ask->output, &diag);
    } else {
        char path[4096];
        target_path(ask, 0, inside, path, sizeof path);
        status = s2_file_write(path, ask->files.files[0].bytes, ask->files.files[0].n_bytes, &diag);
    }
    if (status == S2_OK)
        return S2_EXIT_OK;
    s2_cli_error(cli, "%s", s2_diag_text(&diag, status));
    return S2_EXIT_ENVIRONMENT;
}

static s2_exit deliver(s2_cli *cli, const job *ask)
{
    if (ask->output != NULL)
        return write_files(cli, ask);
    if (ask->files.n_files > 1) {
        s2_cli_error(cli, "%s is %d files: name a directory with -o DIR", ask->format->name,
                     ask->files.n_files);
        return S2_EXIT_USAGE;
    }
    fwrite(ask->files.files[0].bytes, 1, ask->files.files[0].n_bytes, cli->out);
    return S2_EXIT_OK;
}

/* The hash of everything that was written, in the order of the set. */
static void files_hash(const s2_fileset *files, char hex[S2_HASH_HEX])
{
    SHA2_CTX state;
    SHA256Init(&state);
    for (int32_t n = 0; n < files->n_files; n++)
        SHA256Update(&state, (const uint8_t *)files->files[n].bytes, files->files[n].n_bytes);
    SHA256End(&state, hex);
}

static s2_exit store(s2_cli *cli, const job *ask)
{
    char hex[S2_HASH_HEX];
    files_hash(&ask->files, hex);
    const s2_db_export row = {
        .target = ask->format->name, .path = ask->output != NULL ? ask->output : "", .out_hash = hex};
    return s2_store_export(cli, &ask->input, &row);
}

static s2_exit find_format(s2_cli *cli, const s2_args *args, const s2_format **out)
{
    const char *const to = s2_args_str(args, "to");
    const s2_format *const format = to != NULL ? s2_format_find(to) : NULL;
    if (format != NULL && format->write != NULL) {
        *out = format;
        return S2_EXIT_OK;
    }
    int32_t distance = S2_NAME_FAR;
    const s2_format *const near = to != NULL && format == NULL ? s2_format_nearest(to, &distance) : NULL;
    s2_buf names = {0};
    s2_foreign_names(&names, true);
    s2_cli_error(cli, "%s%s%s; --to takes %s",
                 format != NULL ? ""
                 : to != NULL   ? "no format "
                                : "a format is needed",
                 to != NULL ? to : "", format != NULL ? " is read but not written" : "",
                 names.data != NULL ? names.data : "");
    s2_buf_release(&names);
    if (near != NULL)
        s2_cli_hint(cli, "did you mean %s?", near->name);
    return S2_EXIT_USAGE;
}

/* What a file says of its longest context stays true of a file written from it, unless --len says otherwise. */
static s2_exit choose_len(s2_cli *cli, const s2_args *args, job *ask)
{
    const int64_t stated_tok = cli->most.n_tok;
    ask->has_len = s2_args_has(args, "len");
    if (!ask->has_len)
        cli->most.n_tok = 0; /* no length was asked for, so none exceeds it */
    S2_CLI_TRY(s2_input_len(cli, args, &ask->input.pattern, &ask->target.n_tok));
    if (!ask->has_len && stated_tok > 0 && (stated_tok < ask->target.n_tok || !ask->format->fixed_length))
        ask->target.n_tok = stated_tok;
    return S2_EXIT_OK;
}

/* ---- the heads of several GPUs */

static s2_exit add_ranks(s2_cli *cli, job *ask, const char *n_ranks)
{
    const s2_settings *const given = &ask->target.settings;
    s2_setting *const list = S2_NEW(&cli->arena, s2_setting, given->n + 1);
    if (list == NULL)
        return s2_cli_fail(cli, S2_ENOMEM, "export");
    for (int32_t n = 0; n < given->n; n++) {
        list[n] = given->list[n];
        if (strcmp(list[n].key, "tp") == 0 && strcmp(list[n].value, n_ranks) != 0) {
            s2_cli_error(cli, "--set tp=%s contradicts --tp %s", list[n].value, n_ranks);
            return S2_EXIT_USAGE;
        }
    }
    list[given->n] = (s2_setting){.key = "tp", .value = n_ranks};
    ask->target.settings = (s2_settings){list, given->n + 1};
    return S2_EXIT_OK;
}

/* How many sets of files there are: one for each GPU where each builds its own attention, else one for all. */
static s2_exit choose_ranks(s2_cli *cli, const s2_args *args, job *ask, int64_t *n_sets)
{
    s2_diag diag = {0};
    int64_t n_ranks;
    *n_sets = 1;
    S2_CLI_TRY(s2_args_int(cli, args, "tp", 1, S2_LIMIT_HEADS, &n_ranks));
    if (n_ranks == 1)
        return S2_EXIT_OK;
    const s2_status status = s2_share_check(ask->target.pattern, (int32_t)n_ranks, &diag);
    if (status != S2_OK)
        return s2_cli_refuse(cli, status, &diag);
    if (s2_format_takes(ask->format, "tp"))
        return add_ranks(cli, ask, s2_args_str(args, "tp"));
    if (!ask->format->per_gpu) {
        s2_note(&ask->notes,
                "one file for all %lld GPUs: it is of all heads, and whoever runs it shares them",
                (long long)n_ranks);
        return S2_EXIT_OK;
    }
    if (ask->output == NULL && !s2_args_has(args, "dry-run")) {
        s2_cli_error(cli, "each of %lld GPUs has files of its own: name a directory with -o DIR",
                     (long long)n_ranks);
        return S2_EXIT_USAGE;
    }
    *n_sets = n_ranks;
    return S2_EXIT_OK;
}

/* Read again from its text, in which what both phases read stands once. */
static s2_status print_again(s2_arena *arena, const char *name, int32_t n, int32_t rank, s2_pattern *pattern)
{
    const s2_parse_options parse = {.no_files = true};
    s2_buf text = {0};
    char own[S2_LIMIT_NAME_BYTES + 40];
    s2_diag diag;
    snprintf(own, sizeof own, "%s-rank%d-of-%d", name, rank, n);
    if (name[0] != '\0' && strlen(own) < S2_LIMIT_NAME_BYTES)
        pattern->name = own;
    s2_pattern_print(pattern, &text);
    const char *const kept = text.status == S2_OK ? s2_arena_strndup(arena, text.data, text.len) : NULL;
    const s2_status status =
        kept != NULL ? s2_pattern_parse(arena, kept, text.len, &parse, pattern, &diag) : S2_ENOMEM;
    s2_buf_release(&text);
    return status;
}

/* What GPU `rank` of n has, as a pattern under a name of its own. */
static s2_exit cut(s2_cli *cli, const job *whole, int32_t n, int32_t rank, job *out)
{
    const s2_pattern *const pattern = whole->target.pattern;
    const s2_share_of of = {.n_ranks = n, .rank = rank, .layer_end = pattern->n_layers};
    s2_buf folder = {0};
    *out = *whole;
    out->notes = (s2_buf){0};
    out->target.notes = &out->notes;
    out->target.files = &out->files;
    out->target.diag = &out->diag;
    out->target.pattern = &out->one_phase;
    out->is_rank = true;
    out->later_rank = rank > 0;
    s2_status status = s2_share_whole(&cli->arena, pattern, &of, &out->one_phase);
    if (status == S2_EUNSUPPORTED) {
        s2_cli_error(
            cli, "--tp: masks, random lists and layers of several shapes cannot be cut into the heads of a "
                 "GPU");
        return S2_EXIT_REFUSED;
    }
    if (status == S2_OK)
        status = print_again(&cli->arena, pattern->name, n, rank, &out->one_phase);
    s2_buf_printf(&folder, "%s/rank%d", whole->output != NULL ? whole->output : "", rank);
    out->output = s2_arena_strndup(&cli->arena, folder.data, folder.len);
    s2_buf_release(&folder);
    out->has_phases = status == S2_OK && s2_pattern_has_phases(&out->one_phase);
    return status == S2_OK && out->output != NULL
               ? S2_EXIT_OK
               : s2_cli_fail(cli, status == S2_OK ? S2_ENOMEM : status, "export");
}

static s2_exit compare(s2_cli *cli, job *ask)
{
    ask->target.provenance = provenance(cli, ask->target.pattern, ask->proof_work);
    if (ask->target.provenance == NULL)
        return s2_cli_fail(cli, S2_ENOMEM, "the pattern's proof");
    S2_CLI_TRY(s2_evidence_words(cli, ask->target.pattern, &ask->target.run));
    return run_export(cli, ask);
}

static s2_exit export_one(s2_cli *cli, job *ask, bool dry_run)
{
    S2_CLI_TRY(compare(cli, ask));
    if (dry_run)
        return S2_EXIT_OK;
    S2_CLI_TRY(deliver(cli, ask));
    return store(cli, ask);
}

static void say_rank(s2_cli *cli, int32_t rank, int32_t n_ranks, int32_t n_heads)
{
    if (n_heads == 1)
        s2_cli_error(cli, "rank %d of %d: head %d", rank, n_ranks, rank);
    else
        s2_cli_error(cli, "rank %d of %d: heads %d-%d", rank, n_ranks, rank * n_heads,
                     (rank + 1) * n_heads - 1);
}

/* Each file of each GPU is open until all are written: more than a process may open unless it asks. */
static void allow_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* or the first that is too many says so */
}

/* The files of all GPUs, or none: those of two exports side by side would be a third pattern. */
static s2_exit write_ranks(s2_cli *cli, const job *whole, const job *ranks, int32_t n)
{
    s2_diag diag = {0};
    s2_placed_set *const sets = S2_NEW(&cli->arena, s2_placed_set, n);
    s2_status status = sets != NULL ? s2_cli_lacks_nothing() : S2_ENOMEM;
    if (status != S2_OK)
        return s2_cli_fail(cli, status, whole->format->name);
    for (int32_t rank = 0; rank < n; rank++)
        sets[rank] = (s2_placed_set){&ranks[rank].files, ranks[rank].output};
    allow_files();
    const bool made = mkdir(whole->output, 0777) == 0; /* what is wrong with it is said of what is in it */
    status = s2_filesets_write(sets, n, &diag);
    if (status == S2_OK)
        return S2_EXIT_OK;
    if (made)
        rmdir(whole->output);
    s2_cli_error(cli, "%s", s2_diag_text(&diag, status));
    return S2_EXIT_ENVIRONMENT;
}

/* All are compared before any is written. */
static s2_exit export_ranks(s2_cli *cli, const job *whole, int32_t n, bool dry_run)
{
    s2_exit code = S2_EXIT_OK;
    const int32_t n_heads = whole->target.pattern->n_heads / n;
    job *const ranks = S2_NEW(&cli->arena, job, n);
    int64_t work_left = S2_WORK_STEPS; /* of all GPUs */
    if (ranks == NULL)
        return s2_cli_fail(cli, S2_ENOMEM, "export");
    say_notes(cli, &whole->notes);
    for (int32_t rank = 0; rank < n && code == S2_EXIT_OK; rank++) {
        code = cut(cli, whole, n, rank, &ranks[rank]);
        ranks[rank].target.work_left = &work_left;
        ranks[rank].proof_work = S2_WORK_STEPS / n;
        if (code == S2_EXIT_OK)
            say_rank(cli, rank, n, n_heads);
        if (code == S2_EXIT_OK)
            code = compare(cli, &ranks[rank]);
        s2_buf_release(&ranks[rank].notes);
    }
    for (int32_t rank = 0; rank < n && code == S2_EXIT_OK && !dry_run; rank++)
        code = refuse_overwrite(cli, &ranks[rank], true);
    if (code == S2_EXIT_OK && !dry_run)
        code = write_ranks(cli, whole, ranks, n);
    for (int32_t rank = 0; rank < n && code == S2_EXIT_OK && !dry_run; rank++)
        code = store(cli, &ranks[rank]);
    return code;
}

static s2_exit run(s2_cli *cli, const s2_args *args, job *ask)
{
    int64_t n_sets;
    S2_CLI_TRY(find_format(cli, args, &ask->format));
    cli->export_to = ask->format;
    if (args->n_operands != 1) {
        s2_cli_error(cli, "expected one PATTERN");
        return S2_EXIT_USAGE;
    }
    ask->operand = args->operands[0];
    S2_CLI_TRY(s2_input_read(cli, ask->operand, &ask->input));
    S2_CLI_TRY(choose_len(cli, args, ask));
    S2_CLI_TRY(s2_foreign_settings(cli, &ask->target.settings));
    S2_CLI_TRY(choose_phase(cli, args, ask));
    ask->output = s2_args_str(args, "output");
    ask->force = s2_args_has(args, "force");
    ask->files.arena = &cli->arena;
    ask->target.arena = &cli->arena;
    ask->target.notes = &ask->notes;
    ask->target.files = &ask->files;
    ask->target.diag = &ask->diag;
    S2_CLI_TRY(choose_ranks(cli, args, ask, &n_sets));
    const bool dry_run = s2_args_has(args, "dry-run");
    return n_sets > 1 ? export_ranks(cli, ask, (int32_t)n_sets, dry_run) : export_one(cli, ask, dry_run);
}

s2_exit s2_cmd_export(s2_cli *cli, int argc, char **argv)
{
    s2_args args;
    S2_CLI_TRY(s2_args_parse(cli, "export", argc, argv, &args));
    if (s2_args_has(&args, "list"))
        return s2_foreign_list(cli, true, args.n_operands, args.operands);
    job ask = {0};
    s2_exit end = run(cli, &args, &ask);
    s2_buf_release(&ask.notes);
    return end;
}

#include "cli/listing.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/arith.h"
#include "base/file.h"
#include "pattern/parse.h"
#include "reach/flow.h"
#include "reach/worth.h"
#include "sim/units.h"

enum { CELL_BYTES = 640, NAME_WIDTH = 36, BRIEF_HASH = 12 };

typedef enum cell_kind { CELL_TEXT, CELL_NUMBER } cell_kind;

typedef void (*cell_fn)(const s2_db_row *row, char *out);

/* A column of the list: its cell as text (empty: no value), and whether it is a number. */
struct s2_list_column {
    const char *name;
    cell_kind kind;
    cell_fn cell;
    cell_fn words; /* for people, where that differs: with a unit */
};

static void put_int(char *out, int64_t value)
{
    if (value != S2_DB_NONE)
        snprintf(out, CELL_BYTES, "%lld", (long long)value);
}
static void put_num(char *out, double value, const char *fmt)
{
    if (!isnan(value))
        snprintf(out, CELL_BYTES, fmt, value);
}
static void put_digits(char *out, double value, int digits)
{
    if (!isnan(value))
        snprintf(out, CELL_BYTES, "%s", s2_decimal(value, digits).text);
}
static void put_verdict(char *out, int64_t value)
{
    if (value != S2_DB_NONE)
        snprintf(out, CELL_BYTES, "%s", s2_db_verdict_word((s2_db_verdict)value));
}

#define CELL(name, body)                                                                                     \
    static void cell_##name(const s2_db_row *row, char *out)                                                 \
    {                                                                                                        \
        body;                                                                                                \
    }
CELL(name, s2_text_clean(out, CELL_BYTES, row->name))
CELL(hash, s2_text_clean(out, CELL_BYTES, row->hash))
CELL(family, s2_text_clean(out, CELL_BYTES, row->family))
CELL(model, s2_text_clean(out, CELL_BYTES, row->model))
CELL(layers, put_int(out, row->n_layers))
CELL(heads, put_int(out, row->n_heads))
CELL(kv_heads, put_int(out, row->n_kv_heads))
CELL(block, put_int(out, row->block_tok))
CELL(rows, put_verdict(out, row->rows))
CELL(union, put_verdict(out, row->unions))
CELL(kv, put_verdict(out, row->kv))
CELL(group, put_verdict(out, row->group))
CELL(shards, put_verdict(out, row->shards))
CELL(density, put_num(out, row->density, "%.5f"))
CELL(unread, put_num(out, row->unread, "%.5f"))
CELL(phase, s2_text_clean(out, CELL_BYTES, row->phase))
CELL(len, put_int(out, row->len_tok))
CELL(gpu, s2_text_clean(out, CELL_BYTES, row->gpu))
CELL(batch, put_int(out, row->batch))
CELL(llm, s2_text_clean(out, CELL_BYTES, row->llm))
CELL(dtype, s2_text_clean(out, CELL_BYTES, row->dtype))
CELL(kv_dtype, s2_text_clean(out, CELL_BYTES, row->kv_dtype))
CELL(weights, s2_text_clean(out, CELL_BYTES, row->weights))
CELL(tp, put_int(out, row->tp))
CELL(kernel, s2_text_clean(out, CELL_BYTES, row->kernel))
CELL(settings, s2_text_clean(out, CELL_BYTES, row->settings))
CELL(us, put_num(out, row->sim_us, "%.3f"))
CELL(kv_bytes, put_num(out, row->kv_bytes, "%.0f"))
CELL(kv_mib, put_num(out, row->kv_bytes / 1048576, "%.2f"))
CELL(gpu_us, put_num(out, row->gpu_us, "%.3f"))
CELL(recall, put_num(out, row->recall, "%.4f"))
CELL(unrecalled, put_num(out, 1 - row->recall, "%.4f"))
CELL(loss, put_num(out, row->loss, "%.4f"))
CELL(hops, put_int(out, row->hops))
CELL(flow, put_digits(out, row->flow, 6))
CELL(fading, put_digits(out, s2_flow_fading(row->flow), 6))
CELL(outcome, s2_text_clean(out, CELL_BYTES, row->outcome))
CELL(star, snprintf(out, CELL_BYTES, "%s", row->starred ? "*" : ""))
CELL(tags, s2_text_clean(out, CELL_BYTES, row->tags))

static void cell_priced(const s2_db_row *row, char *out)
{
    if (row->priced != S2_DB_NONE && !isnan(row->sim_us))
        snprintf(out, CELL_BYTES, "%s", s2_db_figure_word((s2_db_figure)row->priced));
}

/* A pattern without a model has the number of its layers in place of one, as conditions take it. */
static void words_llm(const s2_db_row *row, char *out)
{
    const size_t n = strspn(row->llm, "0123456789");
    if (n > 0 && strcmp(row->llm + n, "-layers") == 0)
        snprintf(out, CELL_BYTES, "none (%.40s)", row->llm);
    else
        cell_llm(row, out);
}

/* The same for people: a number with its unit. */
static void put_words(char *out, double value, s2_figure_text (*print)(double value))
{
    snprintf(out, CELL_BYTES, "%s", isnan(value) ? "" : print(value).text);
}
static void words_us(const s2_db_row *row, char *out)
{
    put_words(out, row->sim_us, s2_time_text);
}
static void words_gpu_us(const s2_db_row *row, char *out)
{
    put_words(out, row->gpu_us, s2_time_text);
}
static void words_kv_bytes(const s2_db_row *row, char *out)
{
    put_words(out, row->kv_bytes, s2_bytes_text);
}

/* A figure of worth with its error, where there is a price that it could stand beside. */
static void put_worth(const s2_db_row *row, char *out, int digits, double value, double error)
{
    if (!isnan(value))
        snprintf(out, CELL_BYTES, "%.*f (rms error %.*f)", digits, value, digits, error);
    else if (row->phase[0] != '\0')
        snprintf(out, CELL_BYTES, "not judged");
}
static void words_recall(const s2_db_row *row, char *out)
{
    put_worth(row, out, 2, row->recall, s2_worth_recall_error);
}
static void words_unrecalled(const s2_db_row *row, char *out)
{
    put_worth(row, out, 2, 1 - row->recall, s2_worth_recall_error);
}
/* A search has one number for stacks in which some key never gets everywhere: a layer more than there are. */
static void words_hops(const s2_db_row *row, char *out)
{
    if (row->hops != S2_DB_NONE && row->hops > row->n_layers)
        snprintf(out, CELL_BYTES, "more than %lld", (long long)row->n_layers);
    else
        put_int(out, row->hops);
}
static void words_flow(const s2_db_row *row, char *out)
{
    put_digits(out, row->flow, 3);
}
static void words_fading(const s2_db_row *row, char *out)
{
    put_digits(out, s2_flow_fading(row->flow), 3);
}
static void words_loss(const s2_db_row *row, char *out)
{
    put_worth(row, out, 3, row->loss, s2_worth_loss_error);
}

static void cell_created(const s2_db_row *row, char *out)
{
    const time_t seconds = (time_t)(row->created_us / 1000000);
    struct tm t;
    if (gmtime_r(&seconds, &t) != NULL)
        strftime(out, CELL_BYTES, "%Y-%m-%dT%H:%M:%SZ", &t);
}

static const s2_list_column COLUMNS[] = {{"name", CELL_TEXT, cell_name, NULL},
                                         {"hash", CELL_TEXT, cell_hash, NULL},
                                         {"family", CELL_TEXT, cell_family, NULL},
                                         {"model", CELL_TEXT, cell_model, NULL},
                                         {"layers", CELL_NUMBER, cell_layers, NULL},
                                         {"heads", CELL_NUMBER, cell_heads, NULL},
                                         {"kv_heads", CELL_NUMBER, cell_kv_heads, NULL},
                                         {"block", CELL_NUMBER, cell_block, NULL},
                                         {"created", CELL_TEXT, cell_created, NULL},
                                         {"rows", CELL_TEXT, cell_rows, NULL},
                                         {"union", CELL_TEXT, cell_union, NULL},
                                         {"kv", CELL_TEXT, cell_kv, NULL},
                                         {"group", CELL_TEXT, cell_group, NULL},
                                         {"shards", CELL_TEXT, cell_shards, NULL},
                                         {"density", CELL_NUMBER, cell_density, NULL},
                                         {"phase", CELL_TEXT, cell_phase, NULL},
                                         {"len", CELL_NUMBER, cell_len, NULL},
                                         {"gpu", CELL_TEXT, cell_gpu, NULL},
                                         {"batch", CELL_NUMBER, cell_batch, NULL},
                                         {"llm", CELL_TEXT, cell_llm, words_llm},
                                         {"dtype", CELL_TEXT, cell_dtype, NULL},
                                         {"kv_dtype", CELL_TEXT, cell_kv_dtype, NULL},
                                         {"weights", CELL_TEXT, cell_weights, NULL},
                                         {"tp", CELL_NUMBER, cell_tp, NULL},
                                         {"kernel", CELL_TEXT, cell_kernel, NULL},
                                         {"settings", CELL_TEXT, cell_settings, NULL},
                                         {"us", CELL_NUMBER, cell_us, words_us},
                                         {"kv_bytes", CELL_NUMBER, cell_kv_bytes, words_kv_bytes},
                                         {"kv_mib", CELL_NUMBER, cell_kv_mib, NULL},
                                         {"priced", CELL_TEXT, cell_priced, NULL},
                                         {"unread", CELL_NUMBER, cell_unread, NULL},
                                         {"recall", CELL_NUMBER, cell_recall, words_recall},
                                         {"unrecalled", CELL_NUMBER, cell_unrecalled, words_unrecalled},
                                         {"loss", CELL_NUMBER, cell_loss, words_loss},
                                         {"hops", CELL_NUMBER, cell_hops, words_hops},
                                         {"flow", CELL_NUMBER, cell_flow, words_flow},
                                         {"fading", CELL_NUMBER, cell_fading, words_fading},
                                         {"gpu_us", CELL_NUMBER, cell_gpu_us, words_gpu_us},
                                         {"outcome", CELL_TEXT, cell_outcome, NULL},
                                         {"star", CELL_TEXT, cell_star, NULL},
                                         {"tags", CELL_TEXT, cell_tags, NULL}};

static const s2_list_column *find_column(const char *name, size_t n)
{
    for (size_t at = 0; at < sizeof COLUMNS / sizeof COLUMNS[0]; at++)
        if (s2_text_is(COLUMNS[at].name, name, n))
            return &COLUMNS[at];
    return NULL;
}

static s2_exit refuse_column(s2_cli *cli, const char *name, size_t n)
{
    char raw[64], clean[64];
    int32_t distance = S2_NAME_FAR;
    const char *nearest = NULL;
    snprintf(raw, sizeof raw, "%.*s", (int)s2_min_size(n, 60), name);
    for (size_t at = 0; at < sizeof COLUMNS / sizeof COLUMNS[0]; at++)
        nearest = s2_text_nearer(raw, COLUMNS[at].name, nearest, &distance);
    s2_text_clean(clean, sizeof clean, raw);
    s2_cli_error(cli, "--columns: no column '%s'%s%s%s", clean, nearest != NULL ? "; did you mean " : "",
                 nearest != NULL ? nearest : "", nearest != NULL ? "?" : "");
    return S2_EXIT_USAGE;
}

s2_exit s2_listing_choose(s2_listing *l, const s2_args *args)
{
    l->usual = !s2_args_has(args, "columns");
    for (const char *rest = s2_args_str(args, "columns"); *rest != '\0'; rest += *rest == ',') {
        const size_t n = strcspn(rest, ",");
        const s2_list_column *const chosen = find_column(rest, n);
        if (chosen == NULL || l->n_columns == S2_LIST_COLUMNS)
            return refuse_column(l->cli, rest, n);
        l->columns[l->n_columns++] = chosen;
        rest += n;
    }
    return S2_EXIT_OK;
}

bool s2_listing_shows(const s2_listing *l, const char *column)
{
    for (int32_t c = 0; c < l->n_columns; c++)
        if (strcmp(l->columns[c]->name, column) == 0)
            return true;
    return false;
}

int32_t s2_listing_values(const s2_listing *l, const char *column, s2_buf *buf)
{
    enum { MOST = 3 };
    char seen[MOST][CELL_BYTES];
    int32_t n = 0;
    const s2_list_column *const from = find_column(column, strlen(column));
    for (int32_t row = 0; row < l->n_rows && n < MOST; row++) {
        int32_t nth = 0;
        seen[n][0] = '\0';
        if (l->rows[row].phase[0] != '\0')
            from->cell(&l->rows[row], seen[n]);
        while (nth < n && strcmp(seen[nth], seen[n]) != 0)
            nth++;
        if (nth < n || seen[n][0] == '\0')
            continue;
        if (buf != NULL)
            s2_buf_printf(buf, "%s%s", n > 0 ? ", " : "", seen[n]);
        n++;
    }
    return n;
}

static bool has_value(const s2_listing *l, const char *column)
{
    char cell[CELL_BYTES];
    const s2_list_column *const from = find_column(column, strlen(column));
    for (int32_t row = 0; row < l->n_rows; row++) {
        cell[0] = '\0';
        from->cell(&l->rows[row], cell);
        if (cell[0] != '\0')
            return true;
    }
    return false;
}

void s2_listing_say_worth(const s2_listing *l)
{
    if (l->usual && !has_value(l, "loss") && s2_listing_values(l, "phase", NULL) > 0)
        fprintf(l->cli->err, "what these designs are worth is not judged (s2 explain worth)\n");
}

/* Put a column before the time, among what the time is of; at the end if no time is shown. */
static void insert_column(s2_listing *l, const char *name)
{
    int32_t place = 0;
    if (s2_listing_shows(l, name) || l->n_columns == S2_LIST_COLUMNS)
        return;
    while (place < l->n_columns && strcmp(l->columns[place]->name, "us") != 0)
        place++;
    memmove(&l->columns[place + 1], &l->columns[place],
            (size_t)(l->n_columns - place) * sizeof l->columns[0]);
    l->columns[place] = find_column(name, strlen(name));
    l->n_columns++;
}

/* What people need not read in every row is left out of tables; programs get the same columns always. */
static void complete_columns(s2_listing *l)
{
    for (int t = 0; l->usual && t < S2_DB_N_TRAITS; t++)
        if (!l->brief || s2_listing_values(l, s2_db_trait_column((s2_db_trait)t), NULL) > 1)
            insert_column(l, s2_db_trait_column((s2_db_trait)t));
    static const char *const worth[] = {"recall", "loss", "hops", "flow"};
    for (size_t n = 0; l->usual && n < sizeof worth / sizeof worth[0]; n++)
        if (!l->brief || has_value(l, worth[n]))
            insert_column(l, worth[n]);
}

static void read_cell(const s2_listing *l, int32_t row, int32_t col, char *out)
{
    const s2_list_column *const column = l->columns[col];
    out[0] = '\0';
    (l->brief && column->words != NULL ? column->words : column->cell)(&l->rows[row], out);
    if (l->brief && column->cell == cell_hash && strlen(out) > BRIEF_HASH)
        out[BRIEF_HASH] = '\0';
}

static int width_of(const char *text)
{
    int32_t taken;
    (void)s2_text_fit(text, INT32_MAX, &taken);
    return taken;
}

/* Cut to `width` columns, with a mark that something is missing. */
static void cut(char *text, int width)
{
    if (width_of(text) <= width)
        return;
    char *const mark = text + s2_text_fit(text, width - 1, NULL);
    mark[0] = '~';
    mark[1] = '\0';
}

static void print_cell(FILE *out, const char *text, int width, bool right, bool last)
{
    const int pad = width - width_of(text);
    if (right)
        fprintf(out, "%*s%s", pad, "", text);
    else
        fprintf(out, "%s%*s", text, last ? 0 : pad, "");
    fputs(last ? "\n" : "  ", out);
}

/* Row -1 holds the columns' names. */
static void read_cell_or_name(const s2_listing *l, int32_t row, int32_t col, char *cell)
{
    if (row < 0)
        snprintf(cell, CELL_BYTES, "%s", l->columns[col]->name);
    else
        read_cell(l, row, col, cell);
}

static void print_table(const s2_listing *l)
{
    int width[S2_LIST_COLUMNS];
    char cell[CELL_BYTES];
    for (int32_t col = 0; col < l->n_columns; col++) {
        width[col] = 0;
        for (int32_t row = -1; row < l->n_rows; row++) {
            read_cell_or_name(l, row, col, cell);
            cut(cell, NAME_WIDTH);
            width[col] = s2_max_i32(width_of(cell), width[col]);
        }
    }
    for (int32_t row = -1; row < l->n_rows; row++)
        for (int32_t col = 0; col < l->n_columns; col++) {
            read_cell_or_name(l, row, col, cell);
            cut(cell, NAME_WIDTH);
            const bool missing = row >= 0 && cell[0] == '\0';
            print_cell(l->cli->out, missing ? "-" : cell, width[col], l->columns[col]->kind == CELL_NUMBER,
                       col + 1 == l->n_columns);
        }
}

/* A spreadsheet reads a cell that begins with one of these as a formula; a leading quote makes it text. */
static void print_csv_cell(FILE *out, const char *text, bool is_text)
{
    const bool formula = is_text && text[0] != '\0' && strchr("=+-@", text[0]) != NULL;
    if (!formula && strpbrk(text, ",\"\n\r") == NULL) {
        fputs(text, out);
        return;
    }
    fprintf(out, "\"%s", formula ? "'" : "");
    for (; *text != '\0'; text++)
        fprintf(out, "%s%c", *text == '"' ? "\"" : "", *text);
    fputc('"', out);
}

static void print_csv(const s2_listing *l)
{
    char cell[CELL_BYTES];
    for (int32_t row = -1; row < l->n_rows; row++)
        for (int32_t col = 0; col < l->n_columns; col++) {
            read_cell_or_name(l, row, col, cell);
            print_csv_cell(l->cli->out, cell, l->columns[col]->kind == CELL_TEXT);
            fputs(col + 1 == l->n_columns ? "\n" : ",", l->cli->out);
        }
}

static void print_md(const s2_listing *l)
{
    char cell[CELL_BYTES];
    for (int32_t col = 0; col < l->n_columns; col++)
        fprintf(l->cli->out, "| %s ", l->columns[col]->name);
    fputs("|\n", l->cli->out);
    for (int32_t col = 0; col < l->n_columns; col++)
        fputs(l->columns[col]->kind == CELL_NUMBER ? "|---:" : "|---", l->cli->out);
    fputs("|\n", l->cli->out);
    for (int32_t row = 0; row < l->n_rows; row++) {
        for (int32_t col = 0; col < l->n_columns; col++) {
            read_cell(l, row, col, cell);
            fputs("| ", l->cli->out);
            for (const char *at = cell; *at != '\0'; at++)
                fprintf(l->cli->out, "%s%c", *at == '|' || *at == '\\' ? "\\" : "", *at);
            fputs(" ", l->cli->out);
        }
        fputs("|\n", l->cli->out);
    }
}

static void add_json_cell(const s2_listing *l, int32_t row, int32_t col, s2_buf *buf)
{
    char cell[CELL_BYTES];
    read_cell(l, row, col, cell);
    s2_json_key(buf, l->columns[col]->name);
    if (cell[0] == '\0' && strcmp(l->columns[col]->name, "tags") != 0)
        s2_json_null(buf);
    else if (l->columns[col]->kind == CELL_NUMBER)
        s2_buf_puts(buf, cell);
    else
        s2_json_str(buf, cell);
    if (strcmp(l->columns[col]->name, "recall") == 0 && cell[0] != '\0')
        s2_json_key_num(buf, "recall_error", s2_worth_recall_error);
    if (strcmp(l->columns[col]->name, "loss") == 0 && cell[0] != '\0')
        s2_json_key_num(buf, "loss_error", s2_worth_loss_error);
}

static s2_exit print_json(const s2_listing *l)
{
    for (int32_t row = 0; row < l->n_rows; row++) {
        s2_buf buf = {0};
        s2_json_begin(&buf, '{');
        s2_json_key_str(&buf, "schema", "s2ls/1");
        s2_json_key_int(&buf, "id", l->rows[row].id);
        for (int32_t col = 0; col < l->n_columns; col++)
            add_json_cell(l, row, col, &buf);
        s2_json_end(&buf, '}');
        s2_buf_puts(&buf, "\n");
        S2_CLI_TRY(s2_cli_print(l->cli, &buf));
    }
    return S2_EXIT_OK;
}

const char *s2_listing_format(const s2_args *args)
{
    return s2_args_has(args, "json") ? "json" : s2_args_str(args, "format");
}

s2_exit s2_listing_print(s2_listing *l, const char *format)
{
    l->brief = strcmp(format, "table") == 0 || strcmp(format, "md") == 0;
    complete_columns(l);
    if (strcmp(format, "json") == 0)
        return print_json(l);
    if (strcmp(format, "csv") == 0)
        print_csv(l);
    else if (strcmp(format, "md") == 0)
        print_md(l);
    else
        print_table(l);
    return S2_EXIT_OK;
}

const char *s2_listing_filter(s2_cli *cli, const s2_args *args)
{
    s2_buf buf = {0};
    const char *const option = s2_args_str(args, "filter");
    s2_buf_puts(&buf, option != NULL ? option : "");
    for (int32_t n = 0; n < args->n_operands; n++)
        s2_buf_printf(&buf, "%s%s", buf.len > 0 ? " " : "", args->operands[n]);
    const char *const text =
        buf.status == S2_OK ? s2_arena_strndup(&cli->arena, buf.data != NULL ? buf.data : "", buf.len) : NULL;
    s2_buf_release(&buf);
    return text;
}

static void say_price(s2_cli *cli, const s2_db_query *query)
{
    char phase[64];
    s2_text_clean(phase, sizeof phase, query->phase);
    fprintf(cli->err, "times, caches and shares are those of %s at %s\n", phase,
            s2_count_text(query->len_tok, "token").text);
}

s2_exit s2_listing_price(s2_cli *cli, const s2_args *args, s2_db *db, bool choose, s2_db_query *query,
                         bool *empty)
{
    const bool chosen = s2_args_has(args, "phase") && s2_args_has(args, "len");
    *empty = false;
    if (!choose && !s2_args_has(args, "phase") && !s2_args_has(args, "len"))
        return S2_EXIT_OK;
    query->phase = s2_args_str(args, "phase");
    if (s2_args_has(args, "len")) {
        S2_CLI_TRY(s2_args_int(cli, args, "len", 1, S2_LIMIT_CONTEXT_TOK, &query->len_tok));
    }
    s2_diag diag = {0};
    const s2_status status =
        s2_db_common_price(db, &cli->arena, query->filter, &query->phase, &query->len_tok, &diag);
    if (status != S2_OK)
        return s2_listing_refuse(cli, status, query->filter, &diag);
    *empty = query->phase == NULL && !choose;
    if (*empty)
        fprintf(cli->err, "no design has a prediction or timing of this phase and length\n");
    else if (query->phase != NULL && !chosen)
        say_price(cli, query);
    return S2_EXIT_OK;
}

void s2_listing_say_missing(s2_cli *cli, s2_db *db, const char *filter)
{
    s2_db_missing missing;
    char value[128], nearest[128] = "";
    s2_diag diag = {0};
    if (s2_db_missing_value(db, &cli->arena, filter, &missing, &diag) != S2_OK || missing.column == NULL)
        return; /* the list is empty for another reason, or stays without one */
    s2_text_clean(value, sizeof value, missing.value);
    if (missing.nearest != NULL)
        s2_text_clean(nearest, sizeof nearest, missing.nearest);
    s2_cli_hint(cli, "no design has %s=%s%s%s%s", missing.column, value,
                nearest[0] != '\0' ? "; did you mean " : "", nearest, nearest[0] != '\0' ? "?" : "");
}

/* A word alone is no condition; whoever gives one mostly means a name. */
static void hint_name(s2_cli *cli, const char *filter)
{
    char clean[128];
    if (strpbrk(filter, "=<>!~: ") != NULL || filter[0] == '\0')
        return;
    s2_text_clean(clean, sizeof clean, filter);
    s2_cli_hint(cli, "name~%s: designs with that in their names; s2 show %s: one design", clean, clean);
}

s2_exit s2_listing_refuse(s2_cli *cli, s2_status status, const char *filter, const s2_diag *diag)
{
    if (status != S2_EINVAL)
        return s2_store_report(cli, status, diag);
    if (diag->col == 0) {
        s2_cli_error(cli, "%s", diag->msg);
        return S2_EXIT_USAGE;
    }
    s2_cli_error(cli, "filter, column %d: %s", (int)diag->col, diag->msg);
    s2_buf caret = {0};
    s2_diag_print_caret(diag, filter, strlen(filter), &caret);
    if (caret.status == S2_OK && caret.data != NULL)
        fputs(caret.data, cli->err);
    s2_buf_release(&caret);
    hint_name(cli, filter);
    return S2_EXIT_USAGE;
}

bool s2_listing_has_database(s2_cli *cli)
{
    if (!s2_file_is_missing(s2_store_path(cli)))
        return true;
    char path[4096];
    s2_text_clean(path, sizeof path, s2_store_path(cli));
    fprintf(cli->err, "no database yet: s2 check, reach, sim, search, validate and import make %s\n", path);
    return false;
}

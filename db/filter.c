#include "db/filter.h"

#include <math.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "base/arith.h"
#include "base/text.h"
#include "db/sql.h"
#include "reach/flow.h"

#define FIGURE(column)                                                                                       \
    "(CASE " column                                                                                          \
    " WHEN 0 THEN 'bound' WHEN 1 THEN 'guessed' WHEN 2 THEN 'predicted' WHEN 3 THEN 'unknown' END)"
/* s2_flow_fading() in SQL. */
#define TEXT(number)   #number
#define DIGITS(number) TEXT(number)
#define FADING(flow)                                                                                         \
    "(CASE WHEN " flow "*" DIGITS(S2_FADING_MOST) "<=1 THEN " DIGITS(S2_FADING_MOST) " ELSE max(1/" flow     \
                                                                                     ",1) END)"

static const s2_column COLUMNS[] = {
    {.name = "name", .sql = "name", .kind = S2_COLUMN_TEXT, .index = "design_name"},
    {.name = "hash", .sql = "hash", .kind = S2_COLUMN_TEXT},
    {.name = "family", .sql = "family", .kind = S2_COLUMN_TEXT, .index = "design_family"},
    {.name = "model", .sql = "model", .kind = S2_COLUMN_TEXT},
    {.name = "origin", .sql = "origin", .kind = S2_COLUMN_TEXT},
    {.name = "layers", .sql = "n_layers", .kind = S2_COLUMN_NUMBER, .scale = 1},
    {.name = "heads", .sql = "n_heads", .kind = S2_COLUMN_NUMBER, .scale = 1},
    {.name = "kv_heads", .sql = "n_kv_heads", .kind = S2_COLUMN_NUMBER, .scale = 1},
    {.name = "block", .sql = "block_tok", .kind = S2_COLUMN_NUMBER, .scale = 1},
    {.name = "created",
     .sql = "created_us",
     .kind = S2_COLUMN_NUMBER,
     .scale = 1e6,
     .index = "design_created"},
    {.name = "rows", .sql = "v_rows", .kind = S2_COLUMN_VERDICT},
    {.name = "union", .sql = "v_union", .kind = S2_COLUMN_VERDICT},
    {.name = "kv", .sql = "v_kv", .kind = S2_COLUMN_VERDICT},
    {.name = "group", .sql = "v_group", .kind = S2_COLUMN_VERDICT},
    {.name = "shards", .sql = "v_shards", .kind = S2_COLUMN_VERDICT},
    {.name = "density",
     .sql = "sim_density",
     .kind = S2_COLUMN_NUMBER,
     .scale = 1,
     .priced = "p.density",
     .unit = S2_QUANTITY_SHARE,
     .index = "design_density"},
    {.name = "unread",
     .sql = "sim_unread",
     .kind = S2_COLUMN_NUMBER,
     .scale = 1,
     .priced = "p.unread",
     .unit = S2_QUANTITY_SHARE,
     .index = "design_unread",
     .priced_index = "price_unread"},
    {.name = "recall",
     .sql = "sim_recall",
     .kind = S2_COLUMN_NUMBER,
     .scale = 1,
     .priced = "p.recall",
     .unit = S2_QUANTITY_SHARE},
    {.name = "unrecalled",
     .sql = "(1-sim_recall)",
     .kind = S2_COLUMN_NUMBER,
     .scale = 1,
     .priced = "(1-p.recall)",
     .unit = S2_QUANTITY_SHARE},
    {.name = "loss", .sql = "sim_loss", .kind = S2_COLUMN_NUMBER, .scale = 1, .priced = "p.loss"},
    {.name = "hops", .sql = "sim_hops", .kind = S2_COLUMN_NUMBER, .scale = 1, .priced = "p.hops"},
    {.name = "flow",
     .sql = "sim_flow",
     .kind = S2_COLUMN_NUMBER,
     .scale = 1,
     .priced = "p.flow",
     .unit = S2_QUANTITY_SHARE},
    {.name = "fading",
     .sql = FADING("sim_flow"),
     .kind = S2_COLUMN_NUMBER,
     .scale = 1,
     .priced = FADING("p.flow")},
    {.name = "phase", .sql = "sim_phase", .kind = S2_COLUMN_TEXT, .priced = "p.phase"},
    {.name = "len", .sql = "sim_len_tok", .kind = S2_COLUMN_NUMBER, .scale = 1, .priced = "p.len_tok"},
    {.name = "llm", .sql = "sim_llm", .kind = S2_COLUMN_TEXT, .priced = "p.llm", .of_kind = true},
    {.name = "gpu", .sql = "sim_gpu", .kind = S2_COLUMN_TEXT, .priced = "p.gpu", .of_kind = true},
    {.name = "batch",
     .sql = "sim_batch",
     .kind = S2_COLUMN_NUMBER,
     .scale = 1,
     .priced = "p.batch",
     .of_kind = true},
    {.name = "dtype", .sql = "sim_dtype", .kind = S2_COLUMN_TEXT, .priced = "p.dtype", .of_kind = true},
    {.name = "kv_dtype",
     .sql = "sim_kv_dtype",
     .kind = S2_COLUMN_TEXT,
     .priced = "p.kv_dtype",
     .of_kind = true},
    {.name = "weights", .sql = "sim_weights", .kind = S2_COLUMN_TEXT, .priced = "p.weights", .of_kind = true},
    {.name = "tp", .sql = "sim_tp", .kind = S2_COLUMN_NUMBER, .scale = 1, .priced = "p.tp", .of_kind = true},
    {.name = "kernel", .sql = "sim_kernel", .kind = S2_COLUMN_TEXT, .priced = "p.kernel", .of_kind = true},
    {.name = "settings",
     .sql = "sim_settings",
     .kind = S2_COLUMN_TEXT,
     .priced = "p.settings",
     .of_kind = true},
    {.name = "us",
     .sql = "design.sim_us",
     .kind = S2_COLUMN_NUMBER,
     .scale = 1,
     .priced = "p.us",
     .unit = S2_QUANTITY_TIME,
     .index = "design_sim",
     .priced_index = "price_us"},
    {.name = "kv_bytes",
     .sql = "design.kv_bytes",
     .kind = S2_COLUMN_NUMBER,
     .scale = 1,
     .priced = "p.kv_bytes",
     .unit = S2_QUANTITY_BYTES,
     .index = "design_kv_bytes",
     .priced_index = "price_kv"},
    {.name = "kv_mib",
     .sql = "design.kv_bytes",
     .kind = S2_COLUMN_NUMBER,
     .scale = 1048576,
     .priced = "p.kv_bytes",
     .unit = S2_QUANTITY_BYTES,
     .index = "design_kv_bytes",
     .priced_index = "price_kv"},
    {.name = "gpu_us",
     .sql = "design.gpu_us",
     .kind = S2_COLUMN_NUMBER,
     .scale = 1,
     .priced = "p.gpu_us",
     .unit = S2_QUANTITY_TIME,
     .index = "design_gpu",
     .priced_index = "price_gpu"},
    {.name = "priced",
     .sql = FIGURE("design.sim_priced"),
     .kind = S2_COLUMN_TEXT,
     .priced = FIGURE("p.priced"),
     .of_kind = true},
    {.name = "run", .sql = "run_id", .kind = S2_COLUMN_NUMBER, .scale = 1},
    {.name = "outcome", .sql = "outcome", .kind = S2_COLUMN_TEXT},
    {.name = "star", .sql = "starred", .kind = S2_COLUMN_FLAG},
};

const s2_column *s2_column_find(const char *name, size_t n)
{
    for (size_t at = 0; at < sizeof COLUMNS / sizeof COLUMNS[0]; at++)
        if (s2_text_is(COLUMNS[at].name, name, n))
            return &COLUMNS[at];
    return NULL;
}

const char *s2_db_column(int32_t nth)
{
    return nth >= 0 && (size_t)nth < sizeof COLUMNS / sizeof COLUMNS[0] ? COLUMNS[nth].name : NULL;
}

/* One condition of the text. */
typedef struct condition {
    bool negated;
    const char *word; /* column, or "tag" */
    size_t n_word;
    char op[3];
    char value[S2_FILTER_VALUE_BYTES];
    int32_t col; /* where it begins, from 1 */
} condition;

static s2_status refuse(s2_diag *diag, int32_t col, const char *fmt, const char *what, size_t n)
{
    char clean[64], raw[64];
    snprintf(raw, sizeof raw, "%.*s", (int)s2_min_size(n, 60), what);
    s2_text_clean(clean, sizeof clean, raw);
    return s2_diag_set(diag, S2_EINVAL, 0, 1, col, fmt, clean);
}

const char *s2_column_nearest(const char *word, size_t n)
{
    const char *best = NULL;
    int32_t best_distance = 3;
    for (size_t c = 0; c < sizeof COLUMNS / sizeof COLUMNS[0]; c++) {
        const int32_t d = s2_text_distance(word, n, COLUMNS[c].name, 3);
        if (d < best_distance) {
            best_distance = d;
            best = COLUMNS[c].name;
        }
    }
    return best;
}

static s2_status refuse_column(const condition *c, s2_diag *diag)
{
    const char *const near = s2_column_nearest(c->word, c->n_word);
    char clean[64], raw[64];
    snprintf(raw, sizeof raw, "%.*s", (int)s2_min_size(c->n_word, 60), c->word);
    s2_text_clean(clean, sizeof clean, raw);
    return s2_diag_set(diag, S2_EINVAL, 0, 1, c->col, "no column '%s'%s%s%s", clean,
                       near != NULL ? "; did you mean " : "", near != NULL ? near : "",
                       near != NULL ? "?" : "");
}

/* The value: up to a blank, or between quotes. Returns what follows, or NULL when it is too long. */
static const char *take_value(const char *rest, condition *c, bool *closed)
{
    const char quote = *rest == '"' || *rest == '\'' ? *rest : '\0';
    rest += quote != '\0';
    size_t n = 0;
    for (; *rest != '\0' && (quote != '\0' ? *rest != quote : *rest != ' '); rest++) {
        if (n + 1 >= sizeof c->value)
            return NULL;
        c->value[n++] = *rest;
    }
    c->value[n] = '\0';
    *closed = quote == '\0' || *rest == quote;
    return rest + (quote != '\0' && *closed);
}

static s2_status take_condition(const char *text, const char **next, condition *c, s2_diag *diag)
{
    int32_t line;
    *c = (condition){0};
    s2_text_position(text, strlen(text), (size_t)(*next - text), &line, &c->col);
    if (**next == '!') {
        c->negated = true;
        (*next)++;
    }
    c->word = *next;
    c->n_word = strspn(*next, "abcdefghijklmnopqrstuvwxyz_");
    *next += c->n_word;
    if (c->n_word == 0)
        return refuse(diag, c->col, "expected a column at '%s'", *next, strcspn(*next, " "));
    const size_t n_op = strspn(*next, "=<>!~:");
    if (n_op > 2)
        return refuse(diag, c->col, "no comparison '%s'; there are = != < <= > >= ~ and tag:WORD", *next,
                      n_op);
    memcpy(c->op, *next, n_op);
    *next += n_op;
    if (n_op == 0 && **next != ' ' && **next != '\0')
        return refuse(diag, c->col, "expected a comparison at '%s'", *next, strcspn(*next, " "));
    if (n_op == 0)
        return S2_OK;
    bool closed;
    const char *const rest = take_value(*next, c, &closed);
    if (rest == NULL)
        return refuse(diag, c->col, "the value of '%s' is too long", c->word, c->n_word);
    if (!closed)
        return refuse(diag, (int32_t)(*next - text) + 1, "the quote at '%s' is not closed", *next,
                      strlen(*next));
    *next = rest;
    return S2_OK;
}

static bool parse_verdict(const char *text, double *out)
{
    for (int v = S2_DB_HOLDS; v <= S2_DB_UNKNOWN; v++)
        if (strcmp(text, s2_db_verdict_word((s2_db_verdict)v)) == 0) {
            *out = v;
            return true;
        }
    return false;
}

/* The parameter that the next value is bound to; phase and length of the prices come first. */
static int32_t next_parameter(const s2_filter *filter)
{
    return filter->n_values + (filter->priced ? 3 : 1);
}

static s2_filter_value *add_value(s2_filter *filter)
{
    return &filter->values[filter->n_values++];
}

static void add_text_value(s2_filter *filter, const char *text)
{
    s2_filter_value *const value = add_value(filter);
    value->is_text = true;
    memcpy(value->text, text, strlen(text) + 1);
}

static s2_status add_tag(s2_filter *filter, const condition *c, s2_diag *diag)
{
    if (strcmp(c->op, ":") != 0 && strcmp(c->op, "=") != 0)
        return s2_diag_set(diag, S2_EINVAL, 0, 1, c->col, "tags are asked for as tag:WORD");
    s2_buf_printf(&filter->where, " AND %s EXISTS(SELECT 1 FROM tag WHERE design_id=design.id AND tag=?%d)",
                  c->negated ? "NOT" : "", next_parameter(filter));
    add_text_value(filter, c->value);
    return S2_OK;
}

/* Price columns have other names where prices are of one phase and length. */
static const char *sql_of(const s2_filter *filter, const s2_column *column)
{
    return filter->priced && column->priced != NULL ? column->priced : column->sql;
}

/* Note conditions whose rows are adjacent in an index. */
static void note_index(s2_filter *filter, const s2_column *column, const condition *c)
{
    const bool together = !c->negated && c->op[0] != '!' && c->op[0] != '~';
    const bool of_price = filter->priced && column->priced != NULL;
    filter->has_index |= together && !of_price && column->index != NULL;
    filter->has_priced_index |= together && of_price && column->priced_index != NULL;
    filter->by_union |= together && strcmp(column->name, "union") == 0;
}

static void put_condition(s2_filter *filter, const s2_column *column, const char *sql)
{
    s2_buf_puts(&filter->where, sql);
    if (filter->priced && column->of_kind)
        s2_buf_puts(&filter->kind, sql);
}

static s2_status add_flag(s2_filter *filter, const s2_column *column, const condition *c, s2_diag *diag)
{
    if (c->op[0] != '\0')
        return s2_diag_set(diag, S2_EINVAL, 0, 1, c->col, "%s stands alone, or as !%s", column->name,
                           column->name);
    s2_buf_printf(&filter->where, " AND %s=%d", column->sql, c->negated ? 0 : 1);
    return S2_OK;
}

static s2_status add_text(s2_filter *filter, const s2_column *column, const condition *c, s2_diag *diag)
{
    const bool within = strcmp(c->op, "~") == 0;
    char sql[192];
    if (!within && strcmp(c->op, "=") != 0 && strcmp(c->op, "!=") != 0)
        return s2_diag_set(diag, S2_EINVAL, 0, 1, c->col, "%s takes = != or ~", column->name);
    snprintf(sql, sizeof sql, within ? " AND %s (instr(lower(%s)%slower(?%d))>0)" : " AND %s (%s%s?%d)",
             c->negated ? "NOT" : "", sql_of(filter, column), within ? "," : c->op, next_parameter(filter));
    put_condition(filter, column, sql);
    note_index(filter, column, c);
    add_text_value(filter, c->value);
    return S2_OK;
}

static bool is_order(const char *op)
{
    static const char *const ops[] = {"=", "!=", "<", "<=", ">", ">="};
    for (size_t n = 0; n < sizeof ops / sizeof ops[0]; n++)
        if (strcmp(op, ops[n]) == 0)
            return true;
    return false;
}

static const char *not_a_value(const s2_column *column)
{
    if (column->kind == S2_COLUMN_VERDICT)
        return "'%s' is not a verdict; expected holds, violated or unknown";
    switch (column->unit) {
    case S2_QUANTITY_BYTES: return "'%s' is not a number of bytes; expected one as in 4g, 4GiB or 4GB";
    case S2_QUANTITY_SHARE: return "'%s' is not a share; expected one from 0 to 1, or as in 30%%";
    case S2_QUANTITY_TIME: return "'%s' is not a time; expected microseconds, or as in 3ms or 1.5s";
    case S2_QUANTITY_COUNT: break;
    }
    return "'%s' is not a number; expected one as in 128 or 128k";
}

/*
 * Lists round what they print, so that a number written with a point equals all that rounds to it: half of its last
 * digit as it is stored. 0, which is equality, where there is no point or s2_decimal() does not write it out.
 */
static double half_of_last_digit(const s2_column *column, const char *written)
{
    const char *const point = strchr(written, '.');
    if (point == NULL)
        return 0;
    char one[S2_FILTER_VALUE_BYTES + 1];
    double unit;
    const size_t n_digits = strspn(point + 1, "0123456789");
    snprintf(one, sizeof one, "1%s", point + 1 + n_digits);
    if (!s2_quantity_parse(column->unit, one, column->scale, &unit))
        return 0;
    const double half = 0.5 * pow(10, -(double)n_digits) * fabs(unit) * (1 + 1e-9);
    return half > 1e-19 && half < 1e19 ? half : 0;
}

static s2_status add_number(s2_filter *filter, const s2_column *column, const condition *c, s2_diag *diag)
{
    double number;
    char sql[320];
    const bool verdict = column->kind == S2_COLUMN_VERDICT;
    if (!is_order(c->op) || (verdict && c->op[0] != '=' && c->op[0] != '!'))
        return s2_diag_set(diag, S2_EINVAL, 0, 1, c->col, "%s takes %s", column->name,
                           verdict ? "= or !=" : "= != < <= > >=");
    if (verdict ? !parse_verdict(c->value, &number)
                : !s2_quantity_parse(column->unit, c->value, column->scale, &number))
        return refuse(diag, c->col, not_a_value(column), c->value, strlen(c->value));
    const char *const value = sql_of(filter, column);
    /* a training step is stored with 0, and no condition on a cache is one on it */
    const bool cache = column->unit == S2_QUANTITY_BYTES;
    const bool other = c->op[0] == '!', equal = other || strcmp(c->op, "=") == 0;
    const double half = equal ? half_of_last_digit(column, c->value) : 0;
    const int n = snprintf(sql, sizeof sql, "%s%s%s AND %s (%s", cache ? " AND ifnull(" : "",
                           cache ? sql_of(filter, s2_column_find("phase", strlen("phase"))) : "",
                           cache ? ",'')<>'train'" : "", c->negated ? "NOT" : "", value);
    if (half > 0)
        snprintf(sql + n, sizeof sql - (size_t)n, " %sBETWEEN ?%d-%s AND ?%d+%s)", other ? "NOT " : "",
                 next_parameter(filter), s2_decimal(half, 15).text, next_parameter(filter),
                 s2_decimal(half, 15).text);
    else
        snprintf(sql + n, sizeof sql - (size_t)n, "%s?%d)", c->op, next_parameter(filter));
    put_condition(filter, column, sql);
    note_index(filter, column, c);
    add_value(filter)->number = number;
    return S2_OK;
}

static s2_status add_condition(s2_filter *filter, const condition *c, s2_diag *diag)
{
    if (c->n_word == 3 && strncmp(c->word, "tag", 3) == 0)
        return add_tag(filter, c, diag);
    const s2_column *const column = s2_column_find(c->word, c->n_word);
    if (column == NULL)
        return refuse_column(c, diag);
    switch (column->kind) {
    case S2_COLUMN_FLAG: return add_flag(filter, column, c, diag);
    case S2_COLUMN_TEXT: return add_text(filter, column, c, diag);
    case S2_COLUMN_NUMBER:
    case S2_COLUMN_VERDICT: break;
    }
    return add_number(filter, column, c, diag);
}

s2_status s2_filter_build(const char *text, bool priced, s2_filter *out, s2_diag *diag)
{
    int32_t n_conditions = 0; /* flags bind no value but count, too */
    memset(out, 0, sizeof *out);
    out->priced = priced;
    for (const char *rest = text; *rest != '\0';) {
        if (*rest == ' ') {
            rest++;
            continue;
        }
        condition c;
        S2_TRY(take_condition(text, &rest, &c, diag));
        if (n_conditions++ == S2_FILTER_CONDITIONS)
            return s2_diag_set(diag, S2_EINVAL, 0, 1, c.col, "more than %d conditions", S2_FILTER_CONDITIONS);
        S2_TRY(add_condition(out, &c, diag));
    }
    return out->where.status != S2_OK ? out->where.status : out->kind.status;
}

void s2_filter_release(s2_filter *filter)
{
    s2_buf_release(&filter->where);
    s2_buf_release(&filter->kind);
}

/* The values that designs, or their prices, have in a column. */
static s2_status find_value(s2_db *db, s2_arena *arena, const s2_column *column, const char *value,
                            bool *found, const char **nearest, s2_diag *diag)
{
    char sql[256]; /* not for s2_sql_prepare, which knows a text by where it stands */
    sqlite3_stmt *statement = NULL;
    bool has_row = true;
    int32_t distance = S2_NAME_FAR;
    snprintf(sql, sizeof sql, "SELECT DISTINCT %s FROM %s LIMIT 100000",
             column->priced != NULL ? column->priced : column->sql,
             column->priced != NULL ? "price p" : "design");
    s2_status status = s2_sql_fail(db, sqlite3_prepare_v2(db->sql, sql, -1, &statement, NULL), diag);
    while (status == S2_OK && (status = s2_sql_step(db, statement, &has_row, diag)) == S2_OK && has_row &&
           !*found) {
        const char *const known = s2_sql_text(arena, statement, 0);
        *found = known != NULL && strcmp(known, value) == 0;
        if (known != NULL)
            *nearest = s2_text_nearer(value, known, *nearest, &distance);
    }
    sqlite3_finalize(statement);
    return status;
}

s2_status s2_db_missing_value(s2_db *db, s2_arena *arena, const char *filter, s2_db_missing *out,
                              s2_diag *diag)
{
    *out = (s2_db_missing){0};
    for (const char *rest = filter; *rest != '\0';) {
        condition c;
        bool found = false;
        const char *nearest = NULL;
        if (*rest == ' ') {
            rest++;
            continue;
        }
        S2_TRY(take_condition(filter, &rest, &c, diag));
        const s2_column *const column = s2_column_find(c.word, c.n_word);
        if (column == NULL || column->kind != S2_COLUMN_TEXT || c.negated || strcmp(c.op, "=") != 0)
            continue;
        S2_TRY(find_value(db, arena, column, c.value, &found, &nearest, diag));
        if (found)
            continue;
        *out = (s2_db_missing){column->name, s2_arena_strndup(arena, c.value, strlen(c.value)), nearest};
        return out->value != NULL ? S2_OK : S2_ENOMEM;
    }
    return S2_OK;
}

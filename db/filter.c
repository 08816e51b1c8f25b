#include "db/filter.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

static const s2_column COLUMNS[] = {
    {"name", "name", S2_COLUMN_TEXT, 1},          {"hash", "hash", S2_COLUMN_TEXT, 1},
    {"family", "family", S2_COLUMN_TEXT, 1},      {"model", "model", S2_COLUMN_TEXT, 1},
    {"origin", "origin", S2_COLUMN_TEXT, 1},      {"layers", "n_layers", S2_COLUMN_NUMBER, 1},
    {"heads", "n_heads", S2_COLUMN_NUMBER, 1},    {"kv_heads", "n_kv_heads", S2_COLUMN_NUMBER, 1},
    {"block", "block_tok", S2_COLUMN_NUMBER, 1},  {"created", "created_us", S2_COLUMN_NUMBER, 1e6},
    {"rows", "v_rows", S2_COLUMN_VERDICT, 1},     {"union", "v_union", S2_COLUMN_VERDICT, 1},
    {"kv", "v_kv", S2_COLUMN_VERDICT, 1},         {"group", "v_group", S2_COLUMN_VERDICT, 1},
    {"shards", "v_shards", S2_COLUMN_VERDICT, 1}, {"density", "density", S2_COLUMN_NUMBER, 1},
    {"phase", "sim_phase", S2_COLUMN_TEXT, 1},    {"len", "sim_len_tok", S2_COLUMN_NUMBER, 1},
    {"gpu", "sim_gpu", S2_COLUMN_TEXT, 1},        {"batch", "sim_batch", S2_COLUMN_NUMBER, 1},
    {"us", "sim_us", S2_COLUMN_NUMBER, 1},        {"kv_mib", "kv_bytes", S2_COLUMN_NUMBER, 1048576},
    {"gpu_us", "gpu_us", S2_COLUMN_NUMBER, 1},    {"outcome", "outcome", S2_COLUMN_TEXT, 1},
    {"star", "starred", S2_COLUMN_FLAG, 1},
};

const char *const s2_db_columns[] = {"name",     "hash",    "family",  "model", "origin", "layers", "heads",
                                     "kv_heads", "block",   "created", "rows",  "union",  "kv",     "group",
                                     "shards",   "density", "phase",   "len",   "gpu",    "batch",  "us",
                                     "kv_mib",   "gpu_us",  "outcome", "star",  NULL};

const s2_column *s2_column_find(const char *name, size_t n)
{
    for (size_t at = 0; at < sizeof COLUMNS / sizeof COLUMNS[0]; at++)
        if (strlen(COLUMNS[at].name) == n && strncmp(COLUMNS[at].name, name, n) == 0)
            return &COLUMNS[at];
    return NULL;
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
    snprintf(raw, sizeof raw, "%.*s", (int)(n < 60 ? n : 60), what);
    s2_text_clean(clean, sizeof clean, raw);
    return s2_diag_set(diag, S2_EINVAL, 0, 1, col, fmt, clean);
}

static const char *nearest_column(const char *word, size_t n)
{
    const char *best = NULL;
    int32_t best_distance = 3;
    for (size_t at = 0; at < sizeof COLUMNS / sizeof COLUMNS[0]; at++) {
        const int32_t d = s2_text_distance(word, n, COLUMNS[at].name, 3);
        if (d < best_distance) {
            best_distance = d;
            best = COLUMNS[at].name;
        }
    }
    return best;
}

static s2_status refuse_column(const condition *c, s2_diag *diag)
{
    const char *const near = nearest_column(c->word, c->n_word);
    char clean[64], raw[64];
    snprintf(raw, sizeof raw, "%.*s", (int)(c->n_word < 60 ? c->n_word : 60), c->word);
    s2_text_clean(clean, sizeof clean, raw);
    return s2_diag_set(diag, S2_EINVAL, 0, 1, c->col, "no column '%s'%s%s%s", clean,
                       near != NULL ? "; did you mean " : "", near != NULL ? near : "",
                       near != NULL ? "?" : "");
}

/* The value: up to a blank, or between quotes. Returns what follows, or NULL when it is too long. */
static const char *take_value(const char *at, condition *c)
{
    const char quote = *at == '"' || *at == '\'' ? *at : '\0';
    at += quote != '\0';
    size_t n = 0;
    for (; *at != '\0' && (quote != '\0' ? *at != quote : *at != ' '); at++) {
        if (n + 1 >= sizeof c->value)
            return NULL;
        c->value[n++] = *at;
    }
    c->value[n] = '\0';
    return at + (quote != '\0' && *at == quote);
}

static s2_status take_condition(const char *text, const char **at, condition *c, s2_diag *diag)
{
    *c = (condition){.col = (int32_t)(*at - text) + 1};
    if (**at == '!') {
        c->negated = true;
        (*at)++;
    }
    c->word = *at;
    c->n_word = strspn(*at, "abcdefghijklmnopqrstuvwxyz_");
    *at += c->n_word;
    if (c->n_word == 0)
        return refuse(diag, c->col, "expected a column at '%s'", *at, strcspn(*at, " "));
    const size_t n_op = strspn(*at, "=<>!~:");
    if (n_op > 2)
        return refuse(diag, c->col, "no comparison '%s'; there are = != < <= > >= ~ and tag:WORD", *at, n_op);
    memcpy(c->op, *at, n_op);
    *at += n_op;
    if (n_op == 0 && **at != ' ' && **at != '\0')
        return refuse(diag, c->col, "expected a comparison at '%s'", *at, strcspn(*at, " "));
    if (n_op == 0)
        return S2_OK;
    const char *const rest = take_value(*at, c);
    if (rest == NULL)
        return refuse(diag, c->col, "the value of '%s' is too long", c->word, c->n_word);
    *at = rest;
    return S2_OK;
}

/* A number with k, m or g (powers of 1024). */
static bool parse_number(const char *text, double *out)
{
    if (strspn(text, "0123456789.+-eE") == 0)
        return false;
    char *end;
    double value = strtod(text, &end);
    const double factor = *end == 'k' ? 1024.0 : *end == 'm' ? 1048576.0 : *end == 'g' ? 1073741824.0 : 1.0;
    end += *end == 'k' || *end == 'm' || *end == 'g';
    value *= factor;
    if (end == text || *end != '\0' || !(value > -1e300 && value < 1e300))
        return false;
    *out = value;
    return true;
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
    s2_buf_printf(&filter->where, " AND %s EXISTS(SELECT 1 FROM tag WHERE design_id=design.id AND tag=?)",
                  c->negated ? "NOT" : "");
    add_text_value(filter, c->value);
    return S2_OK;
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
    if (strcmp(c->op, "=") == 0 || strcmp(c->op, "!=") == 0)
        s2_buf_printf(&filter->where, " AND %s (%s%s?)", c->negated ? "NOT" : "", column->sql, c->op);
    else if (strcmp(c->op, "~") == 0)
        s2_buf_printf(&filter->where, " AND %s (instr(lower(%s),lower(?))>0)", c->negated ? "NOT" : "",
                      column->sql);
    else
        return s2_diag_set(diag, S2_EINVAL, 0, 1, c->col, "%s takes = != or ~", column->name);
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

static s2_status add_number(s2_filter *filter, const s2_column *column, const condition *c, s2_diag *diag)
{
    double number;
    const bool verdict = column->kind == S2_COLUMN_VERDICT;
    if (!is_order(c->op) || (verdict && c->op[0] != '=' && c->op[0] != '!'))
        return s2_diag_set(diag, S2_EINVAL, 0, 1, c->col, "%s takes %s", column->name,
                           verdict ? "= or !=" : "= != < <= > >=");
    if (verdict ? !parse_verdict(c->value, &number) : !parse_number(c->value, &number))
        return refuse(diag, c->col,
                      verdict ? "'%s' is none of holds, violated, unknown" : "'%s' is not a number", c->value,
                      strlen(c->value));
    s2_buf_printf(&filter->where, " AND %s (%s%s?)", c->negated ? "NOT" : "", column->sql, c->op);
    add_value(filter)->number = number * column->scale;
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

s2_status s2_filter_build(const char *text, s2_filter *out, s2_diag *diag)
{
    memset(out, 0, sizeof *out);
    for (const char *at = text; *at != '\0';) {
        if (*at == ' ') {
            at++;
            continue;
        }
        condition c;
        S2_TRY(take_condition(text, &at, &c, diag));
        if (out->n_values == S2_FILTER_CONDITIONS)
            return s2_diag_set(diag, S2_EINVAL, 0, 1, c.col, "more than %d conditions", S2_FILTER_CONDITIONS);
        S2_TRY(add_condition(out, &c, diag));
    }
    return out->where.status;
}

void s2_filter_release(s2_filter *filter)
{
    s2_buf_release(&filter->where);
}

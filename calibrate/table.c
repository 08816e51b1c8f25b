#include "calibrate/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "pattern/parse.h"

enum { CODE_TABLE = 708, MOST_COLUMNS = 64, LIMIT_LINE = 4096 };

typedef enum s2_column {
    COLUMN_BATCH,
    COLUMN_HEADS,
    COLUMN_KV_HEADS,
    COLUMN_HEAD_DIM,
    COLUMN_N_TOK,
    COLUMN_US,
    N_NEEDED,
    COLUMN_PASS = N_NEEDED,
    COLUMN_Q_TOK,
    COLUMN_PATTERN,
    COLUMN_BLOCK,
    COLUMN_CACHES,
    COLUMN_CAUSAL,
    N_COLUMNS
} s2_column;
static const char *const column_words[N_COLUMNS] = {"batch",   "heads", "kv_heads", "head_dim",
                                                    "n_tok",   "us",    "pass",     "q_tok",
                                                    "pattern", "block", "caches",   "causal"};

typedef struct s2_table_reader {
    s2_arena *arena;
    const s2_gpu *gpu;
    s2_pass pass;          /* of rows that do not name one */
    int32_t at[N_COLUMNS]; /* index of the field; -1: none */
    int32_t n_columns;
    const char *fields[MOST_COLUMNS];
    const char *begin; /* of the line */
    int32_t line;
    s2_table *out;
    s2_diag *diag;
} s2_table_reader;

static s2_status refuse(const s2_table_reader *reader, const char *at, const char *what, const char *word)
{
    char clean[80];
    s2_text_clean(clean, sizeof clean, word);
    return s2_diag_set(reader->diag, S2_EPARSE, CODE_TABLE, reader->line, (int32_t)(at - reader->begin) + 1,
                       "%s%s", what, clean);
}

bool s2_table_is(const char *text, size_t n_bytes)
{
    size_t at = 0;
    while (at < n_bytes && text[at] == '#') {
        const char *const stop = memchr(text + at, '\n', n_bytes - at);
        at = stop != NULL ? (size_t)(stop - text) + 1 : n_bytes;
    }
    const char *const stop = at < n_bytes ? memchr(text + at, '\n', n_bytes - at) : NULL;
    const size_t n = stop != NULL ? (size_t)(stop - text) - at : n_bytes - at;
    return n > 0 && text[at] != '{' && memchr(text + at, ',', n) != NULL;
}

/* ---- fields */

static char *trimmed(char *field)
{
    field += strspn(field, " \t");
    size_t n = strlen(field);
    while (n > 0 && strchr(" \t\r", field[n - 1]) != NULL)
        field[--n] = '\0';
    return field;
}

/* Fields of a line, cut in place; a quoted one may hold commas. */
static s2_status split(s2_table_reader *reader, char *line, int32_t *n)
{
    *n = 0;
    for (char *at = line; at != NULL;) {
        if (*n == MOST_COLUMNS)
            return refuse(reader, at, "there are more columns than a table may have: ", "64");
        at += strspn(at, " \t");
        const bool quoted = *at == '"';
        char *stop = at + quoted;
        stop += strcspn(stop, quoted ? "\"" : ",");
        if (quoted && *stop != '"')
            return refuse(reader, at, "a quoted field does not end on its line", "");
        char *const begin = at + quoted;
        char *next = stop;
        if (quoted) {
            *stop = '\0';
            next = stop + 1 + strcspn(stop + 1, ",");
        }
        at = *next == ',' ? next + 1 : NULL;
        *next = '\0';
        reader->fields[(*n)++] = trimmed(begin);
    }
    return S2_OK;
}

static s2_status read_head(s2_table_reader *reader, int32_t n)
{
    for (s2_column c = 0; c < N_COLUMNS; c++)
        reader->at[c] = -1;
    for (int32_t f = 0; f < n; f++) {
        /* other people's tables say phase where we say pass */
        const char *const word = strcmp(reader->fields[f], "phase") == 0 ? "pass" : reader->fields[f];
        for (s2_column c = 0; c < N_COLUMNS; c++) {
            if (strcmp(word, column_words[c]) != 0)
                continue;
            if (reader->at[c] >= 0)
                return refuse(reader, reader->fields[f], "this column is named twice: ", word);
            reader->at[c] = f;
        }
    }
    for (s2_column c = 0; c < N_NEEDED; c++)
        if (reader->at[c] < 0)
            return refuse(reader, reader->begin, "the first line names no column ", column_words[c]);
    if (reader->at[COLUMN_PASS] < 0 && reader->pass == S2_N_PASSES)
        return refuse(reader, reader->begin,
                      "no column says the pass: --pass forward, backward or decode says that of all rows",
                      "");
    reader->n_columns = n;
    return S2_OK;
}

static const char *field_of(const s2_table_reader *reader, s2_column column)
{
    return reader->at[column] >= 0 ? reader->fields[reader->at[column]] : "";
}

/* A whole number from 1 to most; `otherwise` where the field is empty. */
static s2_status whole(const s2_table_reader *reader, s2_column column, int64_t most, int64_t otherwise,
                       int64_t *out)
{
    const char *const text = field_of(reader, column);
    if (text[0] == '\0' && otherwise > 0) {
        *out = otherwise;
        return S2_OK;
    }
    const size_t n = strspn(text, "0123456789");
    const long long value = n > 0 && n < 17 && text[n] == '\0' ? strtoll(text, NULL, 10) : 0;
    if (value < 1 || value > most)
        return s2_diag_set(reader->diag, S2_EPARSE, CODE_TABLE, reader->line,
                           (int32_t)(text - reader->begin) + 1, "%s must be a whole number from 1 to %lld",
                           column_words[column], (long long)most);
    *out = value;
    return S2_OK;
}

static s2_status take_us(const s2_table_reader *reader, double *out)
{
    const char *const text = field_of(reader, COLUMN_US);
    char *stop;
    *out = strtod(text, &stop);
    if (stop == text || *stop != '\0' || text[strspn(text, "0123456789.e+-")] != '\0' ||
        !(*out > 0 && *out < 1e12))
        return refuse(reader, text, "us must be a time in microseconds above 0, found ", text);
    return S2_OK;
}

static s2_status take_pass(const s2_table_reader *reader, s2_pass *out)
{
    const char *const text = field_of(reader, COLUMN_PASS);
    *out = reader->pass;
    for (s2_pass pass = 0; pass < S2_N_PASSES; pass++)
        if (strcmp(text, s2_pass_word(pass)) == 0)
            *out = pass;
    if (strcmp(text, "prefill") == 0)
        *out = S2_PASS_FORWARD;
    else if (*out == S2_N_PASSES || (text[0] != '\0' && strcmp(text, s2_pass_word(*out)) != 0))
        return refuse(reader, text, "expected forward, backward or decode, found ", text);
    return S2_OK;
}

static s2_status take_caches(s2_table_reader *reader)
{
    const char *const text = field_of(reader, COLUMN_CACHES);
    s2_peer_caches caches = text[0] == '\0' ? S2_CACHES_UNSAID : S2_N_PEER_CACHES;
    for (s2_peer_caches c = 0; c < S2_N_PEER_CACHES; c++)
        caches = strcmp(text, s2_peer_caches_word(c)) == 0 ? c : caches;
    if (caches == S2_N_PEER_CACHES)
        return refuse(reader, text, "expected warm or cold, found ", text);
    if (reader->out->n_rows > 0 && caches != reader->out->caches)
        return refuse(reader, text,
                      "rows of warm and of cold caches are different times: fit them apart; this one is ",
                      s2_peer_caches_word(caches));
    reader->out->caches = caches;
    return S2_OK;
}

/* ---- rows */

static s2_status make_pattern(const s2_table_reader *reader, s2_table_row *row)
{
    s2_buf text = {0};
    s2_diag why = {0};
    s2_buf_printf(&text, "heads %d; kv-heads %d; head-dim %d; block %d; %s layers all: %s", row->heads,
                  row->kv_heads, row->head_dim, row->block_tok, row->causal ? "" : "causal no;",
                  row->pattern != NULL ? row->pattern : "dense");
    s2_status status = text.status;
    if (status == S2_OK)
        status = s2_pattern_parse(reader->arena, text.data, text.len, NULL, &row->made, &why);
    s2_buf_release(&text);
    const s2_phase phase = row->pass == S2_PASS_DECODE ? S2_DECODE : S2_PREFILL;
    if (status == S2_OK)
        status = s2_classes_build(reader->arena, &row->made, phase, &row->classes);
    if (status == S2_EPARSE || status == S2_EINVAL)
        return refuse(reader, reader->begin, "not a shape or pattern: ", why.msg);
    if (status == S2_OK && row->classes.has_dynamic)
        return refuse(reader, reader->begin, "what this pattern reads is chosen at run time", "");
    return status;
}

/* Refuse dense rows that are faster than their products at the peak: no kernel is. */
static s2_status check_floor(const s2_table_reader *reader, const s2_table_row *row)
{
    const double len = (double)row->n_tok, q = (double)row->q_tok;
    const double pairs = row->pattern != NULL ? 0 : row->causal ? q * (len - q) + q * (q + 1) / 2 : q * len;
    const double flop = 4.0 * row->head_dim * row->heads * (double)row->batch * pairs *
                        (row->pass == S2_PASS_BACKWARD ? 2.5 : 1);
    const double least = flop / (reader->gpu->bf16_tflops * 1e6);
    if (row->us >= 0.98 * least)
        return S2_OK;
    return s2_diag_set(reader->diag, S2_EPARSE, CODE_TABLE, reader->line, 1,
                       "no kernel takes %.4g us here: the products alone take %.4g us at the peak of %s",
                       row->us, least, reader->gpu->title);
}

static s2_status take_row(s2_table_reader *reader, s2_table_row *row)
{
    int64_t heads, kv_heads, head_dim, block_tok;
    *row = (s2_table_row){.line = reader->line};
    S2_TRY(take_pass(reader, &row->pass));
    S2_TRY(take_caches(reader));
    S2_TRY(whole(reader, COLUMN_BATCH, 65536, 0, &row->batch));
    S2_TRY(whole(reader, COLUMN_HEADS, S2_LIMIT_HEADS, 0, &heads));
    S2_TRY(whole(reader, COLUMN_KV_HEADS, heads, 0, &kv_heads));
    S2_TRY(whole(reader, COLUMN_HEAD_DIM, 4096, 0, &head_dim));
    S2_TRY(whole(reader, COLUMN_BLOCK, 65536, 64, &block_tok));
    S2_TRY(whole(reader, COLUMN_N_TOK, S2_LIMIT_CONTEXT_TOK, 0, &row->n_tok));
    S2_TRY(
        whole(reader, COLUMN_Q_TOK, row->n_tok, row->pass == S2_PASS_DECODE ? 1 : row->n_tok, &row->q_tok));
    S2_TRY(take_us(reader, &row->us));
    row->heads = (int32_t)heads;
    row->kv_heads = (int32_t)kv_heads;
    row->head_dim = (int32_t)head_dim;
    row->block_tok = (int32_t)block_tok;
    row->causal = strcmp(field_of(reader, COLUMN_CAUSAL), "0") != 0;
    row->pattern = field_of(reader, COLUMN_PATTERN)[0] != '\0' ? field_of(reader, COLUMN_PATTERN) : NULL;
    if (row->pattern != NULL && strcmp(row->pattern, "dense") == 0)
        row->pattern = NULL;
    if (row->pass == S2_PASS_DECODE && row->q_tok != 1)
        return refuse(reader, reader->begin,
                      "a row of decode asks for one token: several are of pass forward", "");
    if (row->pattern != NULL && row->pass != S2_PASS_DECODE && row->q_tok != row->n_tok)
        return refuse(reader, reader->begin, "fewer queries than keys are known of dense rows only", "");
    S2_TRY(make_pattern(reader, row));
    return check_floor(reader, row);
}

static s2_status read_line(s2_table_reader *reader, char *line, bool *has_head)
{
    int32_t n;
    reader->begin = line;
    if (line[strspn(line, " \t\r")] == '\0' || *line == '#')
        return S2_OK;
    S2_TRY(split(reader, line, &n));
    if (!*has_head) {
        *has_head = true;
        return read_head(reader, n);
    }
    if (n != reader->n_columns)
        return s2_diag_set(reader->diag, S2_EPARSE, CODE_TABLE, reader->line, 1,
                           "the row has %d fields where the first line names %d columns", n,
                           reader->n_columns);
    if (reader->out->n_rows == S2_TABLE_ROWS)
        return s2_diag_set(reader->diag, S2_ELIMIT, CODE_TABLE, reader->line, 1,
                           "a table has at most %d rows", S2_TABLE_ROWS);
    S2_TRY(take_row(reader, &reader->out->rows[reader->out->n_rows]));
    reader->out->n_rows++;
    return S2_OK;
}

static int32_t count_lines(const char *text, size_t n_bytes)
{
    int32_t n = 1;
    for (size_t at = 0; at < n_bytes && n < S2_TABLE_ROWS; at++)
        n += text[at] == '\n';
    return n;
}

s2_status s2_table_parse(s2_arena *arena, char *text, size_t n_bytes, const s2_gpu *gpu, s2_pass pass,
                         s2_table *out, s2_diag *diag)
{
    s2_table made = {.rows = S2_NEW(arena, s2_table_row, count_lines(text, n_bytes) + 1)};
    s2_table_reader reader = {.arena = arena, .gpu = gpu, .pass = pass, .out = &made, .diag = diag};
    bool has_head = false;
    if (made.rows == NULL)
        return S2_ENOMEM;
    for (char *line = text; line < text + n_bytes;) {
        char *const stop = memchr(line, '\n', (size_t)(text + n_bytes - line));
        char *const end = stop != NULL ? stop : text + n_bytes;
        reader.line++;
        reader.begin = line;
        if (end - line >= LIMIT_LINE || memchr(line, '\0', (size_t)(end - line)) != NULL)
            return refuse(&reader, line, "the line is too long, or not text", "");
        *end = '\0';
        S2_TRY(read_line(&reader, line, &has_head));
        line = end + 1;
    }
    if (made.n_rows == 0)
        return refuse(&reader, reader.begin != NULL ? reader.begin : text, "the table has no row", "");
    *out = made;
    return S2_OK;
}

/* Rows of the same launch are held out together, wherever they are in the table. */
void s2_table_leave_out(s2_table *table, uint64_t seed, int32_t n)
{
    for (int32_t r = 0; r < table->n_rows; r++) {
        s2_table_row *const row = &table->rows[r];
        s2_rng rng = {seed};
        const int64_t asked[] = {row->batch, row->heads, row->kv_heads, row->head_dim,
                                 row->n_tok, row->q_tok, row->pass};
        uint64_t mixed = seed;
        for (size_t a = 0; a < sizeof asked / sizeof *asked; a++) {
            rng = (s2_rng){mixed ^ ((uint64_t)asked[a] * UINT64_C(0x9e3779b97f4a7c15))};
            mixed = s2_rng_next(&rng);
        }
        for (const char *c = row->pattern; c != NULL && *c != '\0'; c++) {
            rng = (s2_rng){mixed + (unsigned char)*c};
            mixed = s2_rng_next(&rng);
        }
        row->held = n > 0 && mixed % (uint64_t)n == 0;
    }
}

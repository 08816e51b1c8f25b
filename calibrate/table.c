#include "calibrate/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/text.h"
#include "calibrate/launches.h"
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
    s2_pass pass;                /* of rows that do not name one */
    int32_t field_of[N_COLUMNS]; /* index of the field; -1: none */
    int32_t n_columns;
    const char *fields[MOST_COLUMNS];
    char separator;    /* of fields: what the names of the columns are separated by */
    const char *begin; /* of the line */
    int32_t line;
    s2_table *out;
    s2_diag *diag;
} s2_table_reader;

static s2_status refuse(const s2_table_reader *reader, const char *place, const char *what, const char *word)
{
    char clean[80];
    s2_text_clean(clean, sizeof clean, word);
    return s2_diag_set(reader->diag, S2_EPARSE, CODE_TABLE, reader->line,
                       (int32_t)(place - reader->begin) + 1, "%s%s", what, clean);
}

bool s2_table_is(const char *text, size_t n_bytes)
{
    size_t byte = 0;
    while (byte < n_bytes && text[byte] == '#') {
        const char *const stop = memchr(text + byte, '\n', n_bytes - byte);
        byte = stop != NULL ? (size_t)(stop - text) + 1 : n_bytes;
    }
    while (byte < n_bytes && strchr(" \t\r\n", text[byte]) != NULL)
        byte++;
    const char *const stop = byte < n_bytes ? memchr(text + byte, '\n', n_bytes - byte) : NULL;
    for (const char *end = stop != NULL ? stop : text + n_bytes; byte < n_bytes && text + byte < end; byte++)
        if (text[byte] == '{' || strchr(",;\t", text[byte]) != NULL)
            return text[byte] != '{';
    return false;
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

/* Spreadsheets write semicolons or tabs where commas are decimal. */
static char separator_of(const char *head)
{
    return strchr(head, ',') != NULL   ? ','
           : strchr(head, ';') != NULL ? ';'
           : strchr(head, '\t')        ? '\t'
                                       : ',';
}

/* Fields of a line, cut in place; a quoted one may hold separators. */
static s2_status split(s2_table_reader *reader, char *line, int32_t *n)
{
    const char stops[] = {reader->separator, '\0'};
    const char *const blanks = reader->separator == '\t' ? " " : " \t";
    *n = 0;
    for (char *rest = line; rest != NULL;) {
        if (*n == MOST_COLUMNS)
            return refuse(reader, rest, "there are more columns than a table may have: ", "64");
        rest += strspn(rest, blanks);
        const bool quoted = *rest == '"';
        char *stop = rest + quoted;
        stop += strcspn(stop, quoted ? "\"" : stops);
        if (quoted && *stop != '"')
            return refuse(reader, rest, "a quoted field does not end on its line", "");
        char *const begin = rest + quoted;
        char *next = stop;
        if (quoted) {
            *stop = '\0';
            next = stop + 1 + strcspn(stop + 1, stops);
        }
        rest = *next == reader->separator ? next + 1 : NULL;
        *next = '\0';
        reader->fields[(*n)++] = trimmed(begin);
    }
    return S2_OK;
}

static s2_status read_head(s2_table_reader *reader, int32_t n)
{
    for (s2_column c = 0; c < N_COLUMNS; c++)
        reader->field_of[c] = -1;
    for (int32_t f = 0; f < n; f++) {
        /* other people's tables say phase where we say pass */
        const char *const word = s2_text_same_name("phase", reader->fields[f]) ? "pass" : reader->fields[f];
        for (s2_column c = 0; c < N_COLUMNS; c++) {
            if (!s2_text_same_name(column_words[c], word))
                continue;
            if (reader->field_of[c] >= 0)
                return refuse(reader, reader->fields[f], "this column is named twice: ", word);
            reader->field_of[c] = f;
        }
    }
    for (s2_column c = 0; c < N_NEEDED; c++)
        if (reader->field_of[c] < 0)
            return refuse(reader, reader->begin, "the names of the columns lack ", column_words[c]);
    if (reader->field_of[COLUMN_PASS] < 0 && reader->pass == S2_N_PASSES)
        return refuse(reader, reader->begin,
                      "no column says the pass: --pass forward, backward or decode says that of all rows",
                      "");
    reader->n_columns = n;
    return S2_OK;
}

static const char *field_of(const s2_table_reader *reader, s2_column column)
{
    return reader->field_of[column] >= 0 ? reader->fields[reader->field_of[column]] : "";
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
    if (strchr(text, ',') != NULL)
        return refuse(reader, text, "us is written with a decimal point, found ", text);
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

static s2_status take_causal(const s2_table_reader *reader, bool *out)
{
    static const char *const yes[] = {"", "1", "true", "yes"}, *const no[] = {"0", "false", "no"};
    const char *const text = field_of(reader, COLUMN_CAUSAL);
    for (size_t w = 0; w < sizeof yes / sizeof *yes; w++)
        if (s2_text_same_name(yes[w], text)) {
            *out = true;
            return S2_OK;
        }
    for (size_t w = 0; w < sizeof no / sizeof *no; w++)
        if (s2_text_same_name(no[w], text)) {
            *out = false;
            return S2_OK;
        }
    return refuse(reader, text, "causal is 1 or 0, found ", text);
}

/* ---- rows */

static s2_status make_pattern(const s2_table_reader *reader, s2_table_row *row)
{
    char hash[S2_HASH_HEX];
    s2_buf text = {0};
    s2_diag why = {0};
    const s2_launch_ask ask = {.heads = row->heads,
                               .kv_heads = row->kv_heads,
                               .head_dim = row->head_dim,
                               .block_tok = row->block_tok,
                               .causal = row->causal,
                               .body = row->pattern};
    s2_launch_print_pattern(&ask, &text);
    s2_status status = text.status;
    if (status == S2_OK)
        status = s2_pattern_parse(reader->arena, text.data, text.len, NULL, &row->made, &why);
    s2_buf_release(&text);
    const s2_phase phase = row->pass == S2_PASS_DECODE ? S2_DECODE : S2_PREFILL;
    if (status == S2_OK)
        status = s2_classes_build(reader->arena, &row->made, phase, &row->classes);
    if (status == S2_OK)
        status = s2_pattern_hash(&row->made, hash);
    if (status == S2_OK) {
        hash[16] = '\0'; /* 64 bits of it */
        row->design = strtoull(hash, NULL, 16);
    }
    if (status == S2_EPARSE || status == S2_EINVAL)
        return refuse(reader, reader->begin, "not a shape or pattern: ", why.msg);
    if (status == S2_OK && row->classes.has_dynamic)
        return refuse(reader, reader->begin, "what this pattern reads is chosen at run time", "");
    return status;
}

/* Refuse dense rows that are faster than their products at the peak, or than memory gives what L2 cannot
 * hold: no kernel is. */
static s2_status check_floor(const s2_table_reader *reader, s2_table_row *row)
{
    const s2_gpu *const gpu = reader->gpu;
    const double len = (double)row->n_tok, q = (double)row->q_tok;
    const double pairs = row->causal ? q * (len - q) + q * (q + 1) / 2 : q * len;
    const double flop = 4.0 * row->head_dim * row->heads * (double)row->batch * pairs *
                        (row->pass == S2_PASS_BACKWARD ? 2.5 : 1);
    /* a byte an element, as the narrowest caches have */
    const double bytes = 2.0 * (q * row->heads + len * row->kv_heads) * row->head_dim * (double)row->batch;
    const double by_products = flop / (gpu->bf16_tflops * 1e6);
    const double by_memory = (bytes - gpu->l2_mib * 0x1p20) / (gpu->hbm_gb_s * 1e3);
    row->floor_us = row->pattern != NULL ? 0 : fmax(by_products, by_memory);
    if (row->us >= 0.98 * row->floor_us)
        return S2_OK;
    return s2_diag_set(
        reader->diag, S2_EPARSE, CODE_TABLE, reader->line, 1,
        "no kernel takes %s us here: %s alone take %s us at the peak of %s (is the column in microseconds?)",
        s2_decimal(row->us, 4).text, by_products >= by_memory ? "the products" : "bytes that L2 cannot hold",
        s2_decimal(row->floor_us, 4).text, gpu->title);
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
    S2_TRY(take_causal(reader, &row->causal));
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
    if (!*has_head)
        reader->separator = separator_of(line);
    S2_TRY(split(reader, line, &n));
    if (!*has_head) {
        *has_head = true;
        return read_head(reader, n);
    }
    if (n != reader->n_columns)
        return s2_diag_set(reader->diag, S2_EPARSE, CODE_TABLE, reader->line, 1,
                           "the row has %d fields and there are names of %d columns%s", n, reader->n_columns,
                           n > reader->n_columns && reader->separator == ','
                               ? " (numbers have a decimal point; a pattern with commas stands in quotes)"
                               : "");
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

/* ---- which launch a row is of */

static uint64_t mix(uint64_t mixed, uint64_t with)
{
    s2_rng rng = {mixed ^ (with * UINT64_C(0x9e3779b97f4a7c15))};
    return s2_rng_next(&rng);
}

/* A number of the launch, however its row is written: patterns count by their canonical text. */
static uint64_t launch_key(const s2_table_row *row, uint64_t seed)
{
    const int64_t asked[] = {row->batch, row->heads, row->kv_heads, row->head_dim,
                             row->n_tok, row->q_tok, row->pass};
    uint64_t mixed = seed;
    for (size_t a = 0; a < sizeof asked / sizeof *asked; a++)
        mixed = mix(mixed, (uint64_t)asked[a]);
    if (row->pattern != NULL)
        mixed = mix(mixed, row->design);
    return row->causal || row->pass == S2_PASS_DECODE ? mixed : mix(mixed, 1);
}

/* Rows of the same launch are held out together, wherever they are in the table. */
void s2_table_leave_out(s2_table *table, uint64_t seed, int32_t n)
{
    for (int32_t r = 0; r < table->n_rows; r++)
        table->rows[r].held = n > 0 && launch_key(&table->rows[r], seed) % (uint64_t)n == 0;
}

static int by_key(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

s2_status s2_table_drop_fitted(s2_arena *arena, const s2_table *fitted, s2_table *judging)
{
    uint64_t *const keys = S2_NEW(arena, uint64_t, fitted->n_rows);
    int32_t n_keys = 0, n_kept = 0;
    if (keys == NULL)
        return S2_ENOMEM;
    for (int32_t r = 0; r < fitted->n_rows; r++)
        if (!fitted->rows[r].held)
            keys[n_keys++] = launch_key(&fitted->rows[r], 0);
    qsort(keys, (size_t)n_keys, sizeof *keys, by_key);
    for (int32_t r = 0; r < judging->n_rows; r++) {
        const uint64_t key = launch_key(&judging->rows[r], 0);
        if (bsearch(&key, keys, (size_t)n_keys, sizeof *keys, by_key) == NULL)
            judging->rows[n_kept++] = judging->rows[r];
    }
    judging->n_rows = n_kept;
    return S2_OK;
}

double s2_table_slowness(const s2_table *table)
{
    const double call_us = 100; /* what a call from Python may take besides */
    double least = INFINITY;
    for (int32_t r = 0; r < table->n_rows; r++)
        if (table->rows[r].floor_us > 0)
            least = fmin(least, table->rows[r].us / (table->rows[r].floor_us + call_us));
    return isfinite(least) ? least : 0;
}

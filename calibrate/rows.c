#include "calibrate/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CODE_ROWS = 703, KEY_BYTES = 24, VALUE_BYTES = 300 };

/* ------------------------------------------------------------------ printing */

/* Six digits: short, and more than any timing is worth. */
static void key_num(s2_buf *buf, const char *key, double value)
{
    s2_json_key(buf, key);
    s2_buf_printf(buf, "%.6g", isfinite(value) ? value : 0);
}

void s2_rows_head_print(const s2_provenance *head, s2_buf *buf)
{
    s2_json_begin(buf, '{');
    s2_json_key_str(buf, "schema", "s2points/1");
    s2_json_key_str(buf, "gpu", head->gpu);
    s2_json_key_str(buf, "device", head->device);
    s2_json_key_str(buf, "uuid", head->uuid);
    s2_json_key_str(buf, "driver", head->driver);
    s2_json_key_str(buf, "commit", head->commit);
    s2_json_key_str(buf, "date", head->date);
    s2_json_end(buf, '}');
}

void s2_micro_row_print(const s2_micro_row *row, const char *unit, s2_buf *buf)
{
    s2_json_begin(buf, '{');
    s2_json_key_str(buf, "micro", row->micro);
    s2_json_key_int(buf, "size", (int64_t)row->size);
    key_num(buf, "value", row->value);
    s2_json_key_str(buf, "unit", unit);
    s2_json_end(buf, '}');
}

static const char *dtype_word(s2_dtype dtype)
{
    return dtype == S2_F16 ? "fp16" : dtype == S2_F32 ? "fp32" : "bf16";
}

void s2_row_print(const s2_row *row, s2_buf *buf)
{
    s2_json_begin(buf, '{');
    s2_json_key_str(buf, "set", row->set);
    s2_json_key_int(buf, "seed", row->seed);
    s2_json_key_int(buf, "nth", row->nth);
    if (row->repeated)
        s2_json_key_int(buf, "repeated", 1);
    s2_json_key_str(buf, "family", row->point.family);
    s2_json_key_str(buf, "pass", s2_pass_word(row->point.pass));
    s2_json_key_str(buf, "pattern", row->point.pattern);
    s2_json_key_int(buf, "q_tok", row->point.q_tok);
    s2_json_key_int(buf, "k_tok", row->point.k_tok);
    s2_json_key_int(buf, "batch", row->point.batch);
    s2_json_key_str(buf, "dtype", dtype_word(row->point.dtype));
    s2_json_key_str(buf, "kernel", row->kernel);
    if (row->kernel[0] == '\0') {
        s2_json_key_str(buf, "why", row->why);
    } else {
        s2_json_key_int(buf, "tile_tok", row->tile_tok);
        s2_json_key_int(buf, "key_tok", row->key_tok);
        s2_json_key_int(buf, "pack_heads", row->pack_heads);
        s2_json_key_int(buf, "section_bytes", row->section_bytes);
        key_num(buf, "us", row->us);
        key_num(buf, "spread", row->spread);
        key_num(buf, "mhz", row->mhz);
        key_num(buf, "burst_us", row->burst_us);
        key_num(buf, "burst_mhz", row->burst_mhz);
    }
    if (row->dram_read > 0) {
        key_num(buf, "dram_read", row->dram_read);
        key_num(buf, "dram_write", row->dram_write);
        key_num(buf, "l2_bytes", row->l2_bytes);
    }
    s2_json_end(buf, '}');
}

/* ------------------------------------------------------------------ reading */

/* One pair of a flat object; the value is text without quotes. */
typedef struct s2_pair {
    char key[KEY_BYTES];
    char value[VALUE_BYTES];
} s2_pair;

typedef struct s2_scan {
    const char *begin; /* of the line */
    const char *at;
    const char *end;
    int32_t line;
    s2_diag *diag;
} s2_scan;

static s2_status refuse(const s2_scan *scan, const char *what)
{
    return s2_diag_set(scan->diag, S2_EPARSE, CODE_ROWS, scan->line, (int32_t)(scan->at - scan->begin) + 1,
                       "%s", what);
}

static void skip_blanks(s2_scan *scan)
{
    while (scan->at < scan->end && (*scan->at == ' ' || *scan->at == '\t' || *scan->at == '\r'))
        scan->at++;
}

static s2_status take(s2_scan *scan, char wanted, const char *what)
{
    skip_blanks(scan);
    if (scan->at == scan->end || *scan->at != wanted)
        return refuse(scan, what);
    scan->at++;
    return S2_OK;
}

/* A string with one-character escapes; refused if longer than cap. */
static s2_status take_string(s2_scan *scan, char *out, size_t cap)
{
    size_t n = 0;
    S2_TRY(take(scan, '"', "expected a string"));
    while (scan->at < scan->end && *scan->at != '"') {
        if (*scan->at == '\\' && scan->at + 1 < scan->end)
            scan->at++;
        if (n + 1 >= cap)
            return refuse(scan, "a string is too long");
        out[n++] = *scan->at++;
    }
    out[n] = '\0';
    return take(scan, '"', "expected the end of a string");
}

static s2_status take_value(s2_scan *scan, char *out, size_t cap)
{
    size_t n = 0;
    skip_blanks(scan);
    if (scan->at < scan->end && *scan->at == '"')
        return take_string(scan, out, cap);
    while (scan->at < scan->end && strchr(",} \t", *scan->at) == NULL) {
        if (n + 1 >= cap || strchr("{[\"", *scan->at) != NULL)
            return refuse(scan, "expected a number or a string");
        out[n++] = *scan->at++;
    }
    out[n] = '\0';
    return n > 0 ? S2_OK : refuse(scan, "expected a value");
}

static s2_status take_pair(s2_scan *scan, s2_pair *out)
{
    S2_TRY(take_string(scan, out->key, sizeof out->key));
    S2_TRY(take(scan, ':', "expected a colon"));
    return take_value(scan, out->value, sizeof out->value);
}

typedef struct s2_field {
    const char *key;
    char *text;
    size_t cap;
    double *number;
} s2_field;

static void keep(const s2_field *fields, const s2_pair *pair)
{
    for (const s2_field *field = fields; field->key != NULL; field++)
        if (strcmp(field->key, pair->key) == 0) {
            if (field->text != NULL)
                s2_text_clean(field->text, field->cap, pair->value);
            else
                *field->number = strtod(pair->value, NULL);
        }
}

static s2_status take_object(s2_scan *scan, const s2_field *fields)
{
    S2_TRY(take(scan, '{', "expected an object"));
    for (;;) {
        s2_pair pair;
        S2_TRY(take_pair(scan, &pair));
        keep(fields, &pair);
        skip_blanks(scan);
        if (scan->at < scan->end && *scan->at == ',')
            scan->at++;
        else
            return take(scan, '}', "expected a comma or the end of the object");
    }
}

/* Everything that a line of any kind may hold. */
typedef struct s2_any_line {
    s2_provenance head;
    s2_micro_row micro;
    s2_row row;
    char schema[16], pass[12], dtype[8];
    double seed, nth, repeated, q_tok, k_tok, batch, tile_tok, key_tok, pack_heads, section_bytes;
} s2_any_line;

#define TEXT(key, where)                                                                                     \
    {                                                                                                        \
        key, where, sizeof(where), NULL                                                                      \
    }
#define NUMBER(key, where)                                                                                   \
    {                                                                                                        \
        key, NULL, 0, &(where)                                                                               \
    }

static s2_status read_line(s2_scan *scan, s2_any_line *any)
{
    s2_provenance *const head = &any->head;
    s2_row *const row = &any->row;
    const s2_field fields[] = {
        TEXT("schema", any->schema),
        TEXT("gpu", head->gpu),
        TEXT("device", head->device),
        TEXT("uuid", head->uuid),
        TEXT("driver", head->driver),
        TEXT("commit", head->commit),
        TEXT("date", head->date),
        TEXT("micro", any->micro.micro),
        NUMBER("size", any->micro.size),
        NUMBER("value", any->micro.value),
        TEXT("set", row->set),
        NUMBER("seed", any->seed),
        NUMBER("nth", any->nth),
        NUMBER("repeated", any->repeated),
        TEXT("family", row->point.family),
        TEXT("pass", any->pass),
        TEXT("pattern", row->point.pattern),
        NUMBER("q_tok", any->q_tok),
        NUMBER("k_tok", any->k_tok),
        NUMBER("batch", any->batch),
        TEXT("dtype", any->dtype),
        TEXT("kernel", row->kernel),
        TEXT("why", row->why),
        NUMBER("tile_tok", any->tile_tok),
        NUMBER("key_tok", any->key_tok),
        NUMBER("pack_heads", any->pack_heads),
        NUMBER("section_bytes", any->section_bytes),
        NUMBER("us", row->us),
        NUMBER("spread", row->spread),
        NUMBER("mhz", row->mhz),
        NUMBER("burst_us", row->burst_us),
        NUMBER("burst_mhz", row->burst_mhz),
        NUMBER("dram_read", row->dram_read),
        NUMBER("dram_write", row->dram_write),
        NUMBER("l2_bytes", row->l2_bytes),
        {NULL, NULL, 0, NULL},
    };
    return take_object(scan, fields);
}

static bool whole(double value, double least, double most)
{
    return value >= least && value <= most && value == floor(value);
}

static s2_status finish_row(s2_scan *scan, s2_any_line *any)
{
    s2_row *const row = &any->row;
    int32_t pass = 0;
    while (pass < S2_N_PASSES && strcmp(any->pass, s2_pass_word((s2_pass)pass)) != 0)
        pass++;
    if (pass == S2_N_PASSES)
        return refuse(scan, "a row needs a pass: forward, backward or decode");
    if (!whole(any->q_tok, 1, 1 << 30) || !whole(any->k_tok, any->q_tok, 1 << 30) ||
        !whole(any->batch, 1, 65536))
        return refuse(scan, "a row needs lengths and a batch");
    if (row->kernel[0] != '\0' && !(row->us >= 0 && row->mhz >= 0))
        return refuse(scan, "a row has a negative time or clock");
    if (!whole(any->seed, 0, 0x1p53) || !whole(any->nth, 0, INT32_MAX) || !whole(any->tile_tok, 0, 1 << 30) ||
        !whole(any->key_tok, 0, 1 << 30) || !whole(any->pack_heads, 0, 1 << 30) ||
        !whole(any->section_bytes, 0, 0x1p53))
        return refuse(scan, "a row counts in whole numbers that are not negative");
    row->point.pass = (s2_pass)pass;
    row->point.q_tok = (int32_t)any->q_tok;
    row->point.k_tok = (int32_t)any->k_tok;
    row->point.batch = (int32_t)any->batch;
    row->point.dtype = strcmp(any->dtype, "fp16") == 0   ? S2_F16
                       : strcmp(any->dtype, "fp32") == 0 ? S2_F32
                                                         : S2_BF16;
    row->seed = (int64_t)any->seed;
    row->nth = (int32_t)any->nth;
    row->repeated = any->repeated != 0;
    row->tile_tok = (int32_t)any->tile_tok;
    row->key_tok = (int32_t)any->key_tok;
    row->pack_heads = (int32_t)any->pack_heads;
    row->section_bytes = (int64_t)any->section_bytes;
    return S2_OK;
}

/* Room for one more after n: the array doubles when n is a power of two. */
static void *one_more(s2_arena *arena, void *array, int32_t n, size_t size)
{
    if (n > 0 && (n & (n - 1)) != 0)
        return array;
    return s2_arena_grow(arena, array, (size_t)n, n > 0 ? 2 * (size_t)n : 1, size);
}

static s2_status add_line(s2_arena *arena, s2_scan *scan, s2_row_file *file)
{
    s2_any_line any = {0};
    S2_TRY(read_line(scan, &any));
    if (any.schema[0] != '\0') {
        if (strcmp(any.schema, "s2points/1") != 0)
            return refuse(scan, "expected the schema s2points/1");
        file->head = any.head;
        return S2_OK;
    }
    if (any.micro.micro[0] != '\0') {
        s2_micro_row *const micros = one_more(arena, file->micros, file->n_micros, sizeof *micros);
        if (micros == NULL)
            return S2_ENOMEM;
        file->micros = micros;
        micros[file->n_micros++] = any.micro;
        return S2_OK;
    }
    S2_TRY(finish_row(scan, &any));
    s2_row *const rows = one_more(arena, file->rows, file->n_rows, sizeof *rows);
    if (rows == NULL)
        return S2_ENOMEM;
    file->rows = rows;
    rows[file->n_rows++] = any.row;
    return S2_OK;
}

s2_status s2_rows_parse(s2_arena *arena, const char *text, size_t n_bytes, s2_row_file *out, s2_diag *diag)
{
    s2_row_file file = {0};
    s2_scan scan = {text, text, text, 1, diag};
    for (const char *at = text; at < text + n_bytes; scan.line++) {
        const char *const stop = memchr(at, '\n', (size_t)(text + n_bytes - at));
        scan.begin = scan.at = at;
        scan.end = stop != NULL ? stop : text + n_bytes;
        at = scan.end + 1;
        skip_blanks(&scan);
        if (scan.at < scan.end)
            S2_TRY(add_line(arena, &scan, &file));
    }
    *out = file;
    return S2_OK;
}

/* ---- what was fitted */

bool s2_row_judges(const s2_row *row)
{
    return strcmp(row->set, "held-out") == 0 && row->kernel[0] != '\0' && row->us > 0 && !row->repeated;
}

static int by_point(const void *left, const void *right)
{
    const s2_run_point *const a = *(const s2_run_point *const *)left;
    const s2_run_point *const b = *(const s2_run_point *const *)right;
    const int64_t differ[] = {(int64_t)a->pass - b->pass, (int64_t)a->q_tok - b->q_tok,
                              (int64_t)a->k_tok - b->k_tok, (int64_t)a->batch - b->batch,
                              (int64_t)a->dtype - b->dtype};
    for (size_t d = 0; d < sizeof differ / sizeof *differ; d++)
        if (differ[d] != 0)
            return differ[d] < 0 ? -1 : 1;
    return strcmp(a->pattern, b->pattern);
}

s2_status s2_rows_drop_fitted(s2_arena *arena, const s2_row_file *fitted, s2_row_file *judging)
{
    const s2_run_point **const points = S2_NEW(arena, const s2_run_point *, fitted->n_rows + 1);
    size_t n_points = 0;
    int32_t n_kept = 0;
    if (points == NULL)
        return S2_ENOMEM;
    for (int32_t r = 0; r < fitted->n_rows; r++)
        if (strcmp(fitted->rows[r].set, "designed") == 0)
            points[n_points++] = &fitted->rows[r].point;
    qsort(points, n_points, sizeof *points, by_point);
    for (int32_t r = 0; r < judging->n_rows; r++) {
        const s2_row *const row = &judging->rows[r];
        const s2_run_point *const point = &row->point;
        if (!s2_row_judges(row) || bsearch(&point, points, n_points, sizeof *points, by_point) == NULL)
            judging->rows[n_kept++] = *row;
    }
    judging->n_rows = n_kept;
    return S2_OK;
}

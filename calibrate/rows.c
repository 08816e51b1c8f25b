#include "calibrate/rows.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { CODE_ROWS = 703, KEY_BYTES = 24, VALUE_BYTES = 300, MOST_COUNT = 1 << 30 };

/* ---- what a line holds: printed in this order, read in any */

typedef enum s2_row_kind { TEXT, COUNT, BIG_COUNT, NUMBER, FLAG, PASS, DTYPE } s2_row_kind;
/* When a member is printed: a kernel took the point, none did, hardware counted, the flag itself is set. */
typedef enum s2_row_when { ALWAYS, TAKEN, REFUSED, COUNTED, SET } s2_row_when;

typedef struct s2_row_member {
    const char *key;
    s2_row_kind kind;
    s2_row_when when;
    size_t offset;
    size_t n_bytes;
} s2_row_member;

#define MEMBER(type, kind, when, key, member)                                                                \
    {                                                                                                        \
        key, kind, when, offsetof(type, member), sizeof(((type *)0)->member)                                 \
    }
#define HEAD(member)            MEMBER(s2_provenance, TEXT, ALWAYS, #member, member)
#define POINT(kind, member)     MEMBER(s2_row, kind, kind == FLAG ? SET : ALWAYS, #member, point.member)
#define ROW(kind, when, member) MEMBER(s2_row, kind, when, #member, member)
#define MICRO(kind, member)     MEMBER(s2_micro_row, kind, ALWAYS, #member, member)
#define N(members)              (sizeof(members) / sizeof *(members))

static const s2_row_member of_head[] = {HEAD(gpu),    HEAD(device), HEAD(uuid),
                                        HEAD(driver), HEAD(commit), HEAD(date)};
static const s2_row_member of_micro[] = {MICRO(TEXT, micro), MICRO(NUMBER, size), MICRO(NUMBER, value)};
static const s2_row_member of_row[] = {ROW(TEXT, ALWAYS, set),
                                       ROW(BIG_COUNT, ALWAYS, seed),
                                       ROW(COUNT, ALWAYS, nth),
                                       ROW(FLAG, SET, repeated),
                                       POINT(TEXT, family),
                                       POINT(PASS, pass),
                                       POINT(TEXT, pattern),
                                       POINT(COUNT, q_tok),
                                       POINT(COUNT, k_tok),
                                       POINT(COUNT, batch),
                                       POINT(DTYPE, dtype),
                                       POINT(FLAG, sinks),
                                       ROW(TEXT, ALWAYS, kernel),
                                       ROW(TEXT, REFUSED, why),
                                       ROW(COUNT, TAKEN, tile_tok),
                                       ROW(COUNT, TAKEN, key_tok),
                                       ROW(COUNT, TAKEN, pack_heads),
                                       ROW(BIG_COUNT, TAKEN, section_bytes),
                                       ROW(NUMBER, TAKEN, us),
                                       ROW(NUMBER, TAKEN, spread),
                                       ROW(NUMBER, TAKEN, mhz),
                                       ROW(NUMBER, TAKEN, burst_us),
                                       ROW(NUMBER, TAKEN, burst_mhz),
                                       ROW(NUMBER, COUNTED, dram_read),
                                       ROW(NUMBER, COUNTED, dram_write),
                                       ROW(NUMBER, COUNTED, l2_bytes)};

/* ---- printing */

/* Six digits: short, and more than any timing is worth. */
static void print_number(const char *key, double value, s2_buf *buf)
{
    s2_json_key(buf, key);
    s2_buf_printf(buf, "%.6g", isfinite(value) ? value : 0);
}

static void print_member(const s2_row_member *member, const void *line, s2_buf *buf)
{
    const void *const value = (const char *)line + member->offset;
    switch (member->kind) {
    case TEXT: s2_json_key_str(buf, member->key, value); break;
    case COUNT: s2_json_key_int(buf, member->key, *(const int32_t *)value); break;
    case BIG_COUNT: s2_json_key_int(buf, member->key, *(const int64_t *)value); break;
    case NUMBER: print_number(member->key, *(const double *)value, buf); break;
    case FLAG: s2_json_key_int(buf, member->key, *(const bool *)value); break;
    case PASS: s2_json_key_str(buf, member->key, s2_pass_word(*(const s2_pass *)value)); break;
    case DTYPE: s2_json_key_str(buf, member->key, s2_dtype_word(*(const s2_dtype *)value)); break;
    }
}

void s2_rows_head_print(const s2_provenance *head, s2_buf *buf)
{
    s2_json_begin(buf, '{');
    s2_json_key_str(buf, "schema", "s2points/1");
    for (size_t m = 0; m < N(of_head); m++)
        print_member(&of_head[m], head, buf);
    s2_json_end(buf, '}');
}

void s2_micro_row_print(const s2_micro_row *row, const char *unit, s2_buf *buf)
{
    s2_json_begin(buf, '{');
    s2_json_key_str(buf, "micro", row->micro);
    s2_json_key_int(buf, "size", (int64_t)row->size);
    print_number("value", row->value, buf);
    s2_json_key_str(buf, "unit", unit);
    s2_json_end(buf, '}');
}

static bool is_printed(const s2_row_member *member, const s2_row *row)
{
    const bool taken = row->kernel[0] != '\0';
    switch (member->when) {
    case TAKEN: return taken;
    case REFUSED: return !taken;
    case COUNTED: return row->dram_read > 0;
    case SET: return *(const bool *)((const char *)row + member->offset);
    case ALWAYS: break;
    }
    return true;
}

void s2_row_print(const s2_row *row, s2_buf *buf)
{
    s2_json_begin(buf, '{');
    for (size_t m = 0; m < N(of_row); m++)
        if (is_printed(&of_row[m], row))
            print_member(&of_row[m], row, buf);
    s2_json_end(buf, '}');
}

/* ---- reading */

/* One pair of a flat object; the value is text without quotes. */
typedef struct s2_pair {
    char key[KEY_BYTES];
    char value[VALUE_BYTES];
} s2_pair;

typedef struct s2_scan {
    const char *begin; /* of the line */
    const char *next;
    const char *end;
    int32_t line;
    s2_diag *diag;
} s2_scan;

static s2_status refuse(const s2_scan *scan, const char *what)
{
    return s2_diag_set(scan->diag, S2_EPARSE, CODE_ROWS, scan->line, (int32_t)(scan->next - scan->begin) + 1,
                       "%s", what);
}

static void skip_blanks(s2_scan *scan)
{
    while (scan->next < scan->end && (*scan->next == ' ' || *scan->next == '\t' || *scan->next == '\r'))
        scan->next++;
}

static s2_status take(s2_scan *scan, char wanted, const char *what)
{
    skip_blanks(scan);
    if (scan->next == scan->end || *scan->next != wanted)
        return refuse(scan, what);
    scan->next++;
    return S2_OK;
}

/* A string with one-character escapes; refused if longer than cap. */
static s2_status take_string(s2_scan *scan, char *out, size_t cap)
{
    size_t n = 0;
    S2_TRY(take(scan, '"', "expected a string"));
    while (scan->next < scan->end && *scan->next != '"') {
        if (*scan->next == '\\' && scan->next + 1 < scan->end)
            scan->next++;
        if (n + 1 >= cap)
            return refuse(scan, "a string is too long");
        out[n++] = *scan->next++;
    }
    out[n] = '\0';
    return take(scan, '"', "expected the end of a string");
}

static s2_status take_value(s2_scan *scan, char *out, size_t cap)
{
    size_t n = 0;
    skip_blanks(scan);
    if (scan->next < scan->end && *scan->next == '"')
        return take_string(scan, out, cap);
    while (scan->next < scan->end && strchr(",} \t", *scan->next) == NULL) {
        if (n + 1 >= cap || strchr("{[\"", *scan->next) != NULL)
            return refuse(scan, "expected a number or a string");
        out[n++] = *scan->next++;
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

/* Everything that a line of any kind may hold. */
typedef struct s2_any_line {
    char schema[16];
    s2_provenance head;
    s2_micro_row micro;
    s2_row row;
} s2_any_line;

static bool is_whole(double value, double least, double most)
{
    return value >= least && value <= most && value == floor(value);
}

static s2_pass pass_of(const char *word)
{
    int32_t pass = 0;
    while (pass < S2_N_PASSES && strcmp(word, s2_pass_word((s2_pass)pass)) != 0)
        pass++;
    return (s2_pass)pass;
}

static s2_dtype dtype_of(const char *word)
{
    return strcmp(word, "fp16") == 0   ? S2_F16
           : strcmp(word, "fp32") == 0 ? S2_F32
           : strcmp(word, "fp8") == 0  ? S2_F8
                                       : S2_BF16;
}

static s2_status keep_member(const s2_scan *scan, const s2_row_member *member, const char *text, void *line)
{
    void *const value = (char *)line + member->offset;
    const double number = strtod(text, NULL);
    const bool counts = member->kind == COUNT || member->kind == BIG_COUNT;
    if (counts && !is_whole(number, 0, member->kind == COUNT ? MOST_COUNT : 0x1p53))
        return refuse(scan, "a row counts in whole numbers that are not negative");
    switch (member->kind) {
    case TEXT: s2_text_clean(value, member->n_bytes, text); break;
    case COUNT: *(int32_t *)value = (int32_t)number; break;
    case BIG_COUNT: *(int64_t *)value = (int64_t)number; break;
    case NUMBER: *(double *)value = number; break;
    case FLAG: *(bool *)value = number != 0; break;
    case PASS: *(s2_pass *)value = pass_of(text); break;
    case DTYPE: *(s2_dtype *)value = dtype_of(text); break;
    }
    return S2_OK;
}

static s2_status keep(const s2_scan *scan, const s2_pair *pair, const s2_row_member *members, size_t n,
                      void *line)
{
    for (size_t m = 0; m < n; m++)
        if (strcmp(members[m].key, pair->key) == 0)
            return keep_member(scan, &members[m], pair->value, line);
    return S2_OK;
}

static s2_status read_line(s2_scan *scan, s2_any_line *any)
{
    S2_TRY(take(scan, '{', "expected an object"));
    for (;;) {
        s2_pair pair;
        S2_TRY(take_pair(scan, &pair));
        if (strcmp(pair.key, "schema") == 0)
            s2_text_clean(any->schema, sizeof any->schema, pair.value);
        S2_TRY(keep(scan, &pair, of_head, N(of_head), &any->head));
        S2_TRY(keep(scan, &pair, of_micro, N(of_micro), &any->micro));
        S2_TRY(keep(scan, &pair, of_row, N(of_row), &any->row));
        skip_blanks(scan);
        if (scan->next < scan->end && *scan->next == ',')
            scan->next++;
        else
            return take(scan, '}', "expected a comma or the end of the object");
    }
}

static s2_status check_row(const s2_scan *scan, const s2_row *row)
{
    const s2_run_point *const point = &row->point;
    if (point->pass == S2_N_PASSES)
        return refuse(scan, "a row needs a pass: forward, backward or decode");
    if (point->q_tok < 1 || point->k_tok < point->q_tok || point->batch < 1 || point->batch > 65536)
        return refuse(scan, "a row needs lengths and a batch");
    if (row->kernel[0] != '\0' && !(row->us >= 0 && row->mhz >= 0))
        return refuse(scan, "a row has a negative time or clock");
    return S2_OK;
}

static s2_status add_line(s2_arena *arena, s2_scan *scan, s2_row_file *file)
{
    s2_any_line any = {.row.point = {.pass = S2_N_PASSES, .dtype = S2_BF16}};
    S2_TRY(read_line(scan, &any));
    if (any.schema[0] != '\0') {
        if (strcmp(any.schema, "s2points/1") != 0)
            return refuse(scan, "expected the schema s2points/1");
        if (file->head.gpu[0] == '\0')
            file->head = any.head;
        return S2_OK;
    }
    if (any.micro.micro[0] != '\0') {
        S2_TRY(S2_ARENA_ROOM(arena, file->micros, file->n_micros, file->cap_micros));
        file->micros[file->n_micros++] = any.micro;
        return S2_OK;
    }
    S2_TRY(check_row(scan, &any.row));
    S2_TRY(S2_ARENA_ROOM(arena, file->rows, file->n_rows, file->cap_rows));
    file->rows[file->n_rows++] = any.row;
    return S2_OK;
}

s2_status s2_rows_parse(s2_arena *arena, const char *text, size_t n_bytes, s2_row_file *out, s2_diag *diag)
{
    s2_row_file file = {0};
    s2_scan scan = {text, text, text, 1, diag};
    for (const char *rest = text; rest < text + n_bytes; scan.line++) {
        const char *const stop = memchr(rest, '\n', (size_t)(text + n_bytes - rest));
        scan.begin = scan.next = rest;
        scan.end = stop != NULL ? stop : text + n_bytes;
        rest = scan.end + 1;
        skip_blanks(&scan);
        if (scan.next < scan.end)
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
    const int64_t differ[] = {(int64_t)a->pass - b->pass,   (int64_t)a->q_tok - b->q_tok,
                              (int64_t)a->k_tok - b->k_tok, (int64_t)a->batch - b->batch,
                              (int64_t)a->dtype - b->dtype, (int64_t)a->sinks - b->sinks};
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

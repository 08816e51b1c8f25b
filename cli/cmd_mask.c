#include "cli/commands.h"
#include "pattern/folds.h"
#include "cli/input.h"
#include "cli/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "pattern/blocks.h"
#include "pattern/mask.h"

/* More cells than this is a mistyped length, not a mask that anyone reads. */
#define LIMIT_CELLS (INT64_C(1) << 36)

/* One plane of the mask: the heads that are read together. */
typedef struct plane {
    int32_t n_heads;
    const int32_t *heads;
} plane;

/* The mask to write, row by row. */
typedef struct mask {
    s2_cli *cli;
    const s2_pattern *pattern;
    int64_t n_tok;
    int32_t layer;
    bool tokens;
    bool stacked; /* a leading dimension of heads */
    int64_t n_rows;
    int64_t n_planes;
    plane *planes;
    s2_folds folds;
    const s2_blocks **blocks; /* by class, NULL where the layer does not use it; blocks only */
    s2_run *runs;             /* tokens only */
    int64_t runs_cap;
    uint8_t *cells; /* one row */
    FILE *out;
} mask;

static int32_t class_of(const mask *m, int32_t head)
{
    return m->folds.class_of[(int64_t)m->layer * m->pattern->n_heads + head];
}

static s2_status add_token_row(mask *m, int32_t head, int64_t q_tok)
{
    const s2_view *const view = &m->folds.views[class_of(m, head)];
    int64_t n;
    S2_TRY(s2_view_row_whole(view, q_tok, m->n_tok, &m->runs, &m->runs_cap, &n));
    for (int64_t run = 0; run < n; run++)
        memset(m->cells + m->runs[run].begin, 1, (size_t)(m->runs[run].end - m->runs[run].begin));
    return S2_OK;
}

static void add_block_row(mask *m, int32_t head, int64_t q_blk)
{
    const s2_blocks *const blocks = m->blocks[class_of(m, head)];
    for (int64_t at = blocks->row_begin[q_blk]; at < blocks->row_begin[q_blk + 1]; at++)
        m->cells[blocks->k_blk[at]] = 1;
}

/* cells[k] = 1 where some head of the plane reads k from this row. */
static s2_status fill_row(mask *m, int64_t at, int64_t row)
{
    const plane *const heads = &m->planes[at];
    memset(m->cells, 0, (size_t)m->n_rows);
    for (int32_t n = 0; n < heads->n_heads; n++)
        if (m->tokens)
            S2_TRY(add_token_row(m, heads->heads[n], row));
        else
            add_block_row(m, heads->heads[n], row);
    return S2_OK;
}

static s2_status build_blocks(mask *m)
{
    m->blocks = S2_NEW(&m->cli->arena, const s2_blocks *, m->folds.n_classes);
    if (m->blocks == NULL)
        return S2_ENOMEM;
    for (int64_t at = 0; at < m->n_planes; at++)
        for (int32_t n = 0; n < m->planes[at].n_heads; n++) {
            const int32_t id = class_of(m, m->planes[at].heads[n]);
            if (m->blocks[id] != NULL)
                continue;
            s2_blocks *const blocks = S2_NEW(&m->cli->arena, s2_blocks, 1);
            if (blocks == NULL)
                return S2_ENOMEM;
            S2_TRY(s2_blocks_build(&m->cli->arena, &m->folds.views[id], m->n_tok, m->pattern->block_tok, NULL,
                                   blocks));
            m->blocks[id] = blocks;
        }
    return S2_OK;
}

static s2_status write_txt(mask *m)
{
    for (int64_t row = 0; row < m->n_rows; row++) {
        S2_TRY(fill_row(m, 0, row));
        for (int64_t col = 0; col < m->n_rows; col++)
            fputc(m->cells[col] ? '#' : '.', m->out);
        fputc('\n', m->out);
    }
    return S2_OK;
}

static s2_status write_pbm(mask *m)
{
    fprintf(m->out, "P4\n%lld %lld\n", (long long)m->n_rows, (long long)m->n_rows);
    for (int64_t row = 0; row < m->n_rows; row++) {
        S2_TRY(fill_row(m, 0, row));
        for (int64_t col = 0; col < m->n_rows; col += 8) {
            int byte = 0;
            for (int64_t bit = 0; bit < 8; bit++)
                byte = byte << 1 | (col + bit < m->n_rows && m->cells[col + bit]);
            fputc(byte, m->out);
        }
    }
    return S2_OK;
}

static s2_status write_header(mask *m, const char *dtype, int64_t rows, int64_t cols)
{
    const int64_t shape[3] = {m->n_planes, rows, cols};
    const int32_t n_dims = (m->stacked ? 1 : 0) + 1 + (cols > 0);
    s2_buf header = {0};
    const s2_status status = s2_npy_header(dtype, m->stacked ? shape : shape + 1, n_dims, &header);
    if (status == S2_OK)
        fwrite(header.data, 1, header.len, m->out);
    s2_buf_release(&header);
    return status;
}

static s2_status write_npy(mask *m)
{
    S2_TRY(write_header(m, "|b1", m->n_rows, m->n_rows));
    for (int64_t at = 0; at < m->n_planes; at++)
        for (int64_t row = 0; row < m->n_rows; row++) {
            S2_TRY(fill_row(m, at, row));
            fwrite(m->cells, 1, (size_t)m->n_rows, m->out);
        }
    return S2_OK;
}

static void put_int32(mask *m, int64_t value)
{
    const uint32_t bits = (uint32_t)(int32_t)value;
    const uint8_t bytes[4] = {(uint8_t)bits, (uint8_t)(bits >> 8), (uint8_t)(bits >> 16),
                              (uint8_t)(bits >> 24)};
    fwrite(bytes, 1, sizeof bytes, m->out);
}

/* crow of every plane; *largest is the most entries of a plane. */
static s2_status write_crow(mask *m, int64_t *nnz)
{
    S2_TRY(write_header(m, "<i4", m->n_rows + 1, 0));
    for (int64_t at = 0; at < m->n_planes; at++) {
        nnz[at] = 0;
        put_int32(m, 0);
        for (int64_t row = 0; row < m->n_rows; row++) {
            S2_TRY(fill_row(m, at, row));
            for (int64_t col = 0; col < m->n_rows; col++)
                nnz[at] += m->cells[col];
            if (nnz[at] > INT32_MAX)
                return S2_ELIMIT;
            put_int32(m, nnz[at]);
        }
    }
    return S2_OK;
}

static s2_status write_csr(mask *m)
{
    int64_t *const nnz = S2_NEW(&m->cli->arena, int64_t, m->n_planes);
    if (nnz == NULL)
        return S2_ENOMEM;
    S2_TRY(write_crow(m, nnz));
    int64_t largest = 0;
    for (int64_t at = 0; at < m->n_planes; at++)
        largest = nnz[at] > largest ? nnz[at] : largest;
    S2_TRY(write_header(m, "<i4", largest, 0));
    for (int64_t at = 0; at < m->n_planes; at++) {
        for (int64_t row = 0; row < m->n_rows; row++) {
            S2_TRY(fill_row(m, at, row));
            for (int64_t col = 0; col < m->n_rows; col++)
                if (m->cells[col])
                    put_int32(m, col);
        }
        for (int64_t n = nnz[at]; n < largest; n++)
            put_int32(m, -1);
    }
    return S2_OK;
}

static bool add_plane(mask *m, int32_t begin, int32_t end)
{
    int32_t *const heads = S2_NEW(&m->cli->arena, int32_t, end - begin);
    if (heads == NULL)
        return false;
    for (int32_t head = begin; head < end; head++)
        heads[head - begin] = head;
    m->planes[m->n_planes++] = (plane){end - begin, heads};
    return true;
}

static s2_exit refuse_head(const mask *m, const char *text)
{
    s2_cli_error(m->cli, "--head %s: expected 0 to %d, kv:0 to kv:%d, or union", text,
                 (int)m->pattern->n_heads - 1, (int)s2_pattern_kv_heads(m->pattern, m->layer) - 1);
    return S2_EXIT_USAGE;
}

/* --head: which planes there are. Without it npy and csr stack the heads, pictures show the union. */
static s2_exit choose_planes(mask *m, const char *text, bool picture)
{
    const s2_pattern *const p = m->pattern;
    const int32_t n_kv = s2_pattern_kv_heads(p, m->layer), group = p->n_heads / n_kv;
    int64_t n;
    m->planes = S2_NEW(&m->cli->arena, plane, p->n_heads);
    bool good = m->planes != NULL;
    if (text == NULL && !picture) {
        m->stacked = true;
        for (int32_t head = 0; head < p->n_heads && good; head++)
            good = add_plane(m, head, head + 1);
    } else if (good && (text == NULL || strcmp(text, "union") == 0)) {
        good = add_plane(m, 0, p->n_heads);
    } else if (good && strncmp(text, "kv:", 3) == 0) {
        if (!s2_number_parse(text + 3, &n) || n >= n_kv)
            return refuse_head(m, text);
        good = add_plane(m, (int32_t)n * group, (int32_t)(n + 1) * group);
    } else if (good) {
        if (!s2_number_parse(text, &n) || n >= p->n_heads)
            return refuse_head(m, text);
        good = add_plane(m, (int32_t)n, (int32_t)n + 1);
    }
    return good ? S2_EXIT_OK : s2_cli_fail(m->cli, S2_ENOMEM, "mask");
}

static s2_status prepare(mask *m, s2_phase phase)
{
    S2_TRY(s2_folds_build(&m->cli->arena, m->pattern, phase, S2_AT_LEAST, &m->folds));
    m->cells = S2_NEW(&m->cli->arena, uint8_t, m->n_rows);
    if (m->cells == NULL)
        return S2_ENOMEM;
    return m->tokens ? S2_OK : build_blocks(m);
}

static s2_status write_format(mask *m, const char *format)
{
    switch (format[0]) {
    case 't': return write_txt(m);
    case 'p': return write_pbm(m);
    case 'n': return write_npy(m);
    default: return write_csr(m);
    }
}

static s2_exit refuse_output(const mask *m, const char *path)
{
    s2_cli_error(m->cli, "%s: %s", path, s2_file_why(errno));
    return S2_EXIT_ENVIRONMENT;
}

/* To standard output, or to a file that appears under its name only when it is whole. */
static s2_exit write_mask(mask *m, const char *format, const char *path)
{
    s2_output output;
    if (path != NULL && s2_output_open(&output, path) != S2_OK)
        return refuse_output(m, path);
    if (path != NULL)
        m->out = output.file;
    const s2_status status = write_format(m, format);
    if (path != NULL && s2_output_close(&output, status == S2_OK) != S2_OK)
        return refuse_output(m, path);
    return status == S2_OK ? S2_EXIT_OK : s2_cli_fail(m->cli, status, "mask");
}

static s2_exit check_size(const mask *m)
{
    if (m->n_rows * m->n_rows <= LIMIT_CELLS / m->n_planes)
        return S2_EXIT_OK;
    s2_cli_error(
        m->cli, "%lld x %lld x %lld cells are more than 2^36; a shorter --len, or blocks instead of --tokens",
        (long long)m->n_planes, (long long)m->n_rows, (long long)m->n_rows);
    return S2_EXIT_UNDECIDED;
}

static void warn_dynamic(const mask *m)
{
    for (int32_t n = 0; n < m->folds.n_classes; n++)
        if (m->folds.views[n].has_dynamic) {
            fprintf(m->cli->err,
                    "note: pages, heavy and topk choose keys from data; shown is what they certainly read\n");
            return;
        }
}

s2_exit s2_cmd_mask(s2_cli *cli, int argc, char **argv)
{
    s2_args args;
    s2_input input;
    mask m = {.cli = cli, .out = cli->out};
    int64_t layer;
    S2_CLI_TRY(s2_args_parse(cli, "mask", argc, argv, &args));
    S2_CLI_TRY(s2_input_read(cli, args.operands[0], &input));
    S2_CLI_TRY(s2_input_len(cli, &args, &input.pattern, &m.n_tok));
    S2_CLI_TRY(s2_args_int(cli, &args, "layer", 0, input.pattern.n_layers - 1, &layer));
    const char *const format = s2_args_str(&args, "format");
    m.pattern = &input.pattern;
    m.layer = (int32_t)layer;
    m.tokens = s2_args_has(&args, "tokens");
    m.n_rows = m.tokens ? m.n_tok : (m.n_tok + m.pattern->block_tok - 1) / m.pattern->block_tok;
    const bool picture = format[0] == 't' || format[0] == 'p';
    S2_CLI_TRY(choose_planes(&m, s2_args_str(&args, "head"), picture));
    S2_CLI_TRY(check_size(&m));
    const s2_phase phase = strcmp(s2_args_str(&args, "phase"), "decode") == 0 ? S2_DECODE : S2_PREFILL;
    const s2_status status = prepare(&m, phase);
    if (status != S2_OK)
        return s2_cli_fail(cli, status, "mask");
    warn_dynamic(&m);
    const s2_exit end = write_mask(&m, format, s2_args_str(&args, "output"));
    s2_free(m.runs);
    return end;
}

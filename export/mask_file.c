#include "export/mask_file.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "pattern/blocks.h"
#include "pattern/mask.h"

/* The mask being written, row by row. */
typedef struct mask {
    const s2_mask_ask *ask;
    s2_arena *arena;
    bool stacked;
    int64_t n_rows;
    int64_t n_planes;
    const s2_blocks **blocks; /* by class, NULL where the layer does not use it; blocks only */
    s2_run *runs;             /* tokens only */
    int64_t runs_cap;
    uint8_t *cells; /* one row */
    FILE *out;
} mask;

int64_t s2_mask_rows(const s2_mask_ask *ask)
{
    const int64_t block_tok = ask->pattern->block_tok;
    return ask->tokens ? ask->n_tok : s2_ceil_div(ask->n_tok, block_tok);
}

int64_t s2_mask_planes(const s2_mask_ask *ask)
{
    return ask->stacked ? ask->pattern->n_heads : 1;
}

static int32_t class_of(const mask *m, int32_t head)
{
    return m->ask->folds->class_of[(int64_t)m->ask->layer * m->ask->pattern->n_heads + head];
}

static s2_status add_token_row(mask *m, int32_t head, int64_t q_tok)
{
    const s2_view *const view = &m->ask->folds->views[class_of(m, head)];
    int64_t n;
    S2_TRY(s2_view_row_whole(view, q_tok, m->ask->n_tok, m->ask->work_left, &m->runs, &m->runs_cap, &n));
    for (int64_t run = 0; run < n; run++)
        memset(m->cells + m->runs[run].begin, 1, (size_t)(m->runs[run].end - m->runs[run].begin));
    return S2_OK;
}

static void add_block_row(mask *m, int32_t head, int64_t q_blk)
{
    const s2_blocks *const blocks = m->blocks[class_of(m, head)];
    for (int64_t entry = blocks->row_begin[q_blk]; entry < blocks->row_begin[q_blk + 1]; entry++)
        m->cells[blocks->k_blk[entry]] = 1;
}

/* cells[k] = 1 where some head of the plane reads k from this row. */
static s2_status fill_row(mask *m, int64_t plane, int64_t row)
{
    const int32_t begin = m->stacked ? (int32_t)plane : m->ask->head_begin;
    const int32_t end = m->stacked ? begin + 1 : m->ask->head_end;
    memset(m->cells, 0, (size_t)m->n_rows);
    for (int32_t head = begin; head < end; head++)
        if (m->ask->tokens)
            S2_TRY(add_token_row(m, head, row));
        else
            add_block_row(m, head, row);
    return S2_OK;
}

static s2_status build_blocks(mask *m)
{
    const s2_mask_ask *const ask = m->ask;
    const int32_t begin = m->stacked ? 0 : ask->head_begin;
    const int32_t end = m->stacked ? ask->pattern->n_heads : ask->head_end;
    m->blocks = S2_NEW(m->arena, const s2_blocks *, ask->folds->n_classes);
    if (m->blocks == NULL)
        return S2_ENOMEM;
    for (int32_t head = begin; head < end; head++) {
        const int32_t id = class_of(m, head);
        if (m->blocks[id] != NULL)
            continue;
        s2_blocks *const blocks = S2_NEW(m->arena, s2_blocks, 1);
        if (blocks == NULL)
            return S2_ENOMEM;
        S2_TRY(s2_blocks_build(m->arena, &ask->folds->views[id], ask->n_tok, ask->pattern->block_tok,
                               ask->work_left, blocks));
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
    for (int64_t plane = 0; plane < m->n_planes; plane++)
        for (int64_t row = 0; row < m->n_rows; row++) {
            S2_TRY(fill_row(m, plane, row));
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

/* Write where the rows of every plane begin; nnz: the entries of each plane. */
static s2_status write_crow(mask *m, int64_t *nnz)
{
    S2_TRY(write_header(m, "<i4", m->n_rows + 1, 0));
    for (int64_t plane = 0; plane < m->n_planes; plane++) {
        nnz[plane] = 0;
        put_int32(m, 0);
        for (int64_t row = 0; row < m->n_rows; row++) {
            S2_TRY(fill_row(m, plane, row));
            for (int64_t col = 0; col < m->n_rows; col++)
                nnz[plane] += m->cells[col];
            if (nnz[plane] > INT32_MAX)
                return S2_ELIMIT;
            put_int32(m, nnz[plane]);
        }
    }
    return S2_OK;
}

static s2_status write_csr(mask *m)
{
    int64_t *const nnz = S2_NEW(m->arena, int64_t, m->n_planes);
    if (nnz == NULL)
        return S2_ENOMEM;
    S2_TRY(write_crow(m, nnz));
    int64_t largest = 0;
    for (int64_t plane = 0; plane < m->n_planes; plane++)
        largest = s2_max_i64(nnz[plane], largest);
    S2_TRY(write_header(m, "<i4", largest, 0));
    for (int64_t plane = 0; plane < m->n_planes; plane++) {
        for (int64_t row = 0; row < m->n_rows; row++) {
            S2_TRY(fill_row(m, plane, row));
            for (int64_t col = 0; col < m->n_rows; col++)
                if (m->cells[col])
                    put_int32(m, col);
        }
        for (int64_t n = nnz[plane]; n < largest; n++)
            put_int32(m, -1);
    }
    return S2_OK;
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

s2_status s2_mask_write(s2_arena *arena, const s2_mask_ask *ask, const char *format, FILE *out)
{
    mask m = {.ask = ask,
              .arena = arena,
              .stacked = ask->stacked,
              .n_rows = s2_mask_rows(ask),
              .n_planes = s2_mask_planes(ask),
              .out = out};
    m.cells = S2_NEW(arena, uint8_t, m.n_rows);
    s2_status status = m.cells != NULL ? S2_OK : S2_ENOMEM;
    if (status == S2_OK && !ask->tokens)
        status = build_blocks(&m);
    if (status == S2_OK)
        status = write_format(&m, format);
    s2_free(m.runs);
    return status;
}

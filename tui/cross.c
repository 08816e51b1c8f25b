/*
 * One pair of a query and a key: which heads and layers read it, and why the others do not.
 */
#include "tui/view.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "pattern/dense.h"
#include "words/explain.h"

static s2_phase phase_of(const s2_facts *facts)
{
    return s2_phase_rules(facts->question.phase);
}

static bool reads(const s2_facts *facts, int32_t layer, int32_t head, int64_t q_tok, int64_t k_tok)
{
    return s2_pattern_reads(&facts->pattern, phase_of(facts), layer, head, facts->question.len_tok, q_tok,
                            k_tok);
}

/* "layer 3: read by 9 of 32 heads: 0-7,16" */
static void tell_heads(const s2_facts *facts, int32_t layer, int64_t q_tok, int64_t k_tok, int32_t *list,
                       s2_buf *buf)
{
    const int32_t n_heads = facts->pattern.n_heads;
    int32_t n = 0;
    for (int32_t head = 0; head < n_heads; head++)
        if (reads(facts, layer, head, q_tok, k_tok))
            list[n++] = head;
    s2_buf_printf(buf, "layer %d: read by %d of %d heads", layer, n, n_heads);
    if (n > 0) {
        s2_buf_puts(buf, ": ");
        s2_index_list_print(list, n, n_heads, buf);
    }
    s2_buf_puts(buf, "\n");
}

static void tell_layers(const s2_facts *facts, int64_t q_tok, int64_t k_tok, int32_t *list, s2_buf *buf)
{
    const s2_pattern *const pattern = &facts->pattern;
    int32_t n = 0;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
        int32_t head = 0;
        while (head < pattern->n_heads && !reads(facts, layer, head, q_tok, k_tok))
            head++;
        if (head < pattern->n_heads)
            list[n++] = layer;
    }
    s2_buf_printf(buf, "read in %d of %d layers", n, pattern->n_layers);
    if (n > 0) {
        s2_buf_puts(buf, ": ");
        s2_index_list_print(list, n, pattern->n_layers, buf);
    }
    s2_buf_puts(buf, "\n");
}

s2_status s2_cross_tell(const s2_facts *facts, int32_t layer, int64_t q_tok, int64_t k_tok, s2_buf *buf)
{
    const s2_pattern *const pattern = &facts->pattern;
    const int64_t b = pattern->block_tok;
    const int32_t most = s2_max_i32(pattern->n_heads, pattern->n_layers);
    int32_t *const list = s2_malloc((size_t)most * sizeof *list);
    if (list == NULL)
        return S2_ENOMEM;
    s2_buf_printf(buf, "query %lld (block %lld), key %lld (block %lld)\n", (long long)q_tok,
                  (long long)(q_tok / b), (long long)k_tok, (long long)(k_tok / b));
    tell_heads(facts, layer, q_tok, k_tok, list, buf);
    tell_layers(facts, q_tok, k_tok, list, buf);
    s2_free(list);
    return s2_explain_pair(pattern, phase_of(facts), layer, (s2_range){0, pattern->n_heads}, q_tok, k_tok, "",
                           buf);
}

/* ---- where it is */

/* If there are more cells than blocks: the cells that share out one block's tokens among them. */
static s2_range cells_of(s2_range blocks, int32_t cells, int64_t blk)
{
    const int64_t n = blocks.end - blocks.begin;
    return (s2_range){s2_ceil_div((blk - blocks.begin) * cells, n),
                      s2_ceil_div((blk - blocks.begin + 1) * cells, n)};
}

int32_t s2_cross_cell(s2_range blocks, int64_t block_tok, int32_t cells, int64_t tok)
{
    const int64_t blk = tok / block_tok, n = blocks.end - blocks.begin;
    if (blk < blocks.begin || blk >= blocks.end || cells < 1)
        return -1;
    if (n < cells) {
        const s2_range own = cells_of(blocks, cells, blk);
        return (int32_t)(own.begin + tok % block_tok * (own.end - own.begin) / block_tok);
    }
    int32_t cell = (int32_t)((blk - blocks.begin) * cells / n);
    while (s2_grid_share(blocks.begin, blocks.end, cell, cells).end <= blk)
        cell++;
    return cell;
}

int64_t s2_cross_tok(s2_range blocks, int64_t block_tok, int32_t cells, int32_t cell)
{
    const int64_t blk = s2_grid_share(blocks.begin, blocks.end, cell, cells).begin;
    if (blocks.end - blocks.begin >= cells)
        return blk * block_tok;
    const s2_range own = cells_of(blocks, cells, blk);
    return blk * block_tok + s2_ceil_div((cell - own.begin) * block_tok, own.end - own.begin);
}

#include "sim/short.h"

enum {
    UNIT_ROWS = S2_WINDOW_HEADS * S2_WINDOW_UNIT_TOK,
    UNIT_KEYS = S2_WINDOW_MOST_TOK + S2_WINDOW_UNIT_TOK,
    VALUE_KEYS = UNIT_KEYS + 8, /* a product adds up 16 keys at a time */
    DIM = 64,                   /* columns that products work on, whatever the head dimension */
    ITEM_TOK = 64,              /* positions whose keys are loaded together */
    SEAM_BYTES = 2 * S2_WINDOW_MOST_TOK * DIM * sizeof(float) /* what a range leaves to the one before it */
};

static int32_t window_of(const s2_plan *plan)
{
    return plan->classes[0].as.window_tok;
}

/* Sets of 8 heads that share a KV head. */
static int32_t sets_of(const s2_plan *plan)
{
    return plan->pattern->n_heads / plan->pattern->n_kv_heads / S2_WINDOW_HEADS;
}

static double row_bytes(const s2_plan *plan)
{
    return (double)plan->pattern->head_dim * plan->options.elem_bytes;
}

static double query_bytes(const s2_plan *plan)
{
    double rows = 0;
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        rows += plan->seqs[seq].q_tok;
    return rows * plan->pattern->n_heads * row_bytes(plan);
}

/* K and V that any query reads, each once. */
static double key_bytes(const s2_plan *plan)
{
    double keys = 0;
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        keys += s2_min_i32(plan->seqs[seq].k_tok, plan->seqs[seq].q_tok + window_of(plan) - 1);
    return 2 * keys * plan->pattern->n_kv_heads * row_bytes(plan);
}

/* Products of scores and of weights, so many keys a unit. Where a window is shorter, most weights are 0. */
static void add_products(const s2_plan *plan, double n_units, double scores, double weights,
                         s2_kernel_load *load)
{
    const double a_key = n_units * 2 * UNIT_ROWS * DIM;
    load->flop = a_key * (scores + weights);
    load->zero_flop = a_key * weights * (1 - (double)window_of(plan) / UNIT_KEYS);
}

/* ---- forward */

static void add_item(const s2_plan *plan, const s2_plan_item *item, s2_load_class *classes,
                     s2_kernel_load *load)
{
    const int64_t pos = s2_plan_tile_begin(plan, item->seq, item->tile);
    const int64_t before = s2_min_i64(pos, s2_round_up(window_of(plan) - 1, plan->blk_tok));
    const int32_t n_fine = window_of(plan) < S2_WINDOW_MOST_TOK;
    const int32_t n_more = !n_fine && pos < S2_WINDOW_MOST_TOK;
    s2_load_class *const last = load->n_classes > 0 ? &classes[load->n_classes - 1] : NULL;
    if (last != NULL && last->n_more == n_more)
        last->n_items++;
    else
        classes[load->n_classes++] = (s2_load_class){.n_fine = n_fine, .n_more = n_more, .n_items = 1};
    load->load_bytes += (ITEM_TOK * S2_WINDOW_HEADS + 2 * (double)(ITEM_TOK + before)) * row_bytes(plan);
}

static s2_status load_forward(s2_arena *arena, const s2_plan *plan, s2_kernel_load *load)
{
    s2_load_class *const classes = S2_NEW(arena, s2_load_class, plan->n_items + 1);
    if (classes == NULL)
        return S2_ENOMEM;
    for (int32_t item = 0; item < plan->n_items; item++)
        add_item(plan, &plan->items[item], classes, load);
    const double n_units = (double)plan->n_items * ITEM_TOK / S2_WINDOW_UNIT_TOK;
    load->classes = classes;
    load->n_steps = load->n_items;
    add_products(plan, n_units, UNIT_KEYS, VALUE_KEYS, load);
    load->q_bytes = query_bytes(plan);
    load->out_bytes = load->q_bytes + load->q_bytes / row_bytes(plan) * sizeof(float);
    return S2_OK;
}

/* ---- gradients */

/* A range of a KV head: units [first, first + n) of a sequence, of each set of heads. */
static void add_range(const s2_plan *plan, int32_t first, int32_t n, s2_load_column *columns,
                      s2_kernel_load *load)
{
    const int32_t n_long = S2_WINDOW_MOST_TOK / S2_WINDOW_UNIT_TOK;
    const int32_t n_compared =
        window_of(plan) < S2_WINDOW_MOST_TOK ? n : s2_min_i32(n, s2_max_i32(0, n_long - first));
    const double items = (double)s2_ceil_div((int64_t)n * S2_WINDOW_UNIT_TOK, ITEM_TOK);
    columns[load->n_columns++] = (s2_load_column){
        .n_full = n * sets_of(plan), .n_masked = n, .n_fine = n_compared * sets_of(plan), .chain = -1};
    load->n_steps += (int64_t)n * sets_of(plan);
    load->load_bytes +=
        ((double)n * sets_of(plan) * 2 * UNIT_ROWS + 2 * items * (S2_WINDOW_MOST_TOK + ITEM_TOK)) *
        row_bytes(plan);
}

static int32_t count_ranges(const s2_plan *plan, int32_t longest)
{
    int32_t n = 0;
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        n += s2_window_ranges(plan, seq, longest) * plan->pattern->n_kv_heads;
    return n;
}

static s2_status load_backward(s2_arena *arena, const s2_plan *plan, int32_t n_sms, s2_kernel_load *load)
{
    const int32_t longest = s2_window_longest_range(plan, n_sms);
    s2_load_column *const columns = S2_NEW(arena, s2_load_column, (int64_t)count_ranges(plan, longest) + 1);
    load->chain_ends = S2_NEW(arena, double, 1);
    if (columns == NULL || load->chain_ends == NULL)
        return S2_ENOMEM;
    for (int32_t seq = 0; seq < plan->n_seqs; seq++) {
        const int64_t n_units = s2_window_units(plan, seq), n_ranges = s2_window_ranges(plan, seq, longest);
        load->sum_bytes += (double)(n_ranges - 1) * plan->pattern->n_kv_heads * SEAM_BYTES;
        for (int64_t range = n_ranges * plan->pattern->n_kv_heads; range-- > 0;) {
            const int32_t first = (int32_t)(n_units * (range % n_ranges) / n_ranges);
            const int32_t end = (int32_t)(n_units * (range % n_ranges + 1) / n_ranges);
            add_range(plan, first, end - first, columns, load);
        }
    }
    load->columns = columns;
    load->column_tok = UNIT_KEYS;
    add_products(plan, (double)load->n_steps, 2 * UNIT_KEYS, 2 * UNIT_KEYS + VALUE_KEYS, load);
    load->q_bytes = 3 * query_bytes(plan); /* Q, O, dO */
    load->out_bytes = query_bytes(plan) + load->kv_bytes;
    return S2_OK;
}

s2_status s2_load_short(s2_arena *arena, const s2_plan *plan, int32_t n_sms, s2_kernel_load *load)
{
    load->kv_bytes = key_bytes(plan);
    S2_TRY(load->pass == S2_PASS_FORWARD ? load_forward(arena, plan, load)
                                         : load_backward(arena, plan, n_sms, load));
    load->whole_bytes = load->load_bytes;
    return S2_OK;
}

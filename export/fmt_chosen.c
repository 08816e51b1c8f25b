/*
 * Methods that choose blocks at run time, each recognised by keys that only it has: InfLLM-v2 (MiniCPM4),
 * MoBA, SeerAttention, FlexPrefill, XAttention, RetroInfer. What is always read is exact; what is chosen
 * becomes `pages` or `topk` of the budget. Where a threshold decides how much is read, the user must give
 * a number.
 */
#include "export/budget.h"

#include <math.h>
#include <string.h>

#include "base/arith.h"

#define INFLLM "/sparse_config/"
#define RETRO  "/RetroInfer/"

/* What a method reads: bodies, and the block of the pattern's text. */
typedef struct chosen {
    s2_buf prefill, decode;
    int64_t block_tok;
    int64_t n_dense; /* first layers that are dense */
} chosen;

/* Tokens that a threshold lets through, which only the user can know. */
static s2_status needs_tokens(const s2_source *source, const char *path, int64_t *n_tok)
{
    if (s2_setting_text(&source->settings, "tokens") == NULL)
        return s2_doc_refuse(source->doc, path, source->diag,
                             "a threshold decides at run time how much is read: --set tokens=N says how many "
                             "tokens a query chooses");
    S2_TRY(s2_setting_int(&source->settings, "tokens", 1, S2_LIMIT_CONTEXT_TOK, 0, n_tok, source->diag));
    s2_note(source->notes, "a threshold decides how much is read; %lld tokens a query are assumed",
            (long long)*n_tok);
    return S2_OK;
}

static s2_status read_block(const s2_source *source, const char *const *paths, int64_t fallback,
                            int64_t *block_tok)
{
    S2_TRY(s2_budget_read(source, paths, 1, S2_LIMIT_BLOCK_TOK, fallback, block_tok));
    if (s2_is_power_of_two(*block_tok))
        return S2_OK;
    return s2_doc_refuse(source->doc, paths[0], source->diag, "the block must be a power of two");
}

static int64_t pages_of(int64_t n_tok, int64_t page_tok)
{
    return n_tok > page_tok ? n_tok / page_tok : 1;
}

/* The first blocks count as chosen; those of the window do not. */
static s2_status read_infllm(const s2_source *source, chosen *out)
{
    int64_t n_chosen, n_init, window_tok, dense_tok;
    S2_TRY(read_block(source, S2_PATHS(INFLLM "block_size"), 64, &out->block_tok));
    S2_TRY(s2_budget_read(source, S2_PATHS(INFLLM "topk"), 1, 1 << 16, 64, &n_chosen));
    S2_TRY(s2_budget_read(source, S2_PATHS(INFLLM "init_blocks"), 0, n_chosen, 1, &n_init));
    S2_TRY(s2_budget_read(source, S2_PATHS(INFLLM "window_size"), out->block_tok, S2_LIMIT_CONTEXT_TOK, 2048,
                          &window_tok));
    S2_TRY(s2_budget_read(source, S2_PATHS(INFLLM "dense_len"), 0, S2_LIMIT_CONTEXT_TOK, 8192, &dense_tok));
    s2_buf_printf(&out->prefill, "local %lld", (long long)(window_tok / out->block_tok));
    if (n_init > 0)
        s2_buf_printf(&out->prefill, " | sink %lld", (long long)n_init);
    if (n_chosen > n_init)
        s2_buf_printf(&out->prefill, " | pages %lld page %lld", (long long)(n_chosen - n_init),
                      (long long)out->block_tok);
    s2_note(source->notes,
            "InfLLM-v2 chooses by pooled keys, the same blocks for the heads of a KV head; it reads these "
            "besides. Contexts below %lld tokens are dense",
            (long long)dense_tok);
    return S2_OK;
}

/* The query's own chunk is the first chosen one. Alone, it makes the fast code take plain attention. */
static s2_status read_moba(const s2_source *source, chosen *out)
{
    int64_t chunk_tok, n_chosen;
    S2_TRY(s2_budget_read(source, S2_PATHS("/moba_chunk_size"), 1, S2_LIMIT_CONTEXT_TOK, 4096, &chunk_tok));
    S2_TRY(s2_budget_read(source, S2_PATHS("/moba_topk"), 1, 1 << 16, 12, &n_chosen));
    if (n_chosen > 1)
        s2_buf_printf(&out->prefill, "chunk %lldt | pages %lld page %lld", (long long)chunk_tok,
                      (long long)(n_chosen - 1), (long long)chunk_tok);
    else
        s2_buf_puts(&out->prefill, "dense");
    if (n_chosen == 1)
        s2_note(source->notes,
                "moba_topk 1: the efficient code and flash-linear-attention then read every earlier "
                "key; the naive one reads the query's chunk alone");
    s2_buf_puts(&out->decode, "dense");
    s2_note(source->notes,
            "MoBA: only prefill is sparse; layers that a model keeps dense are its code's matter");
    return S2_OK;
}

/* token_budget for the decoding gates, nz_ratio for those of the first version; a threshold has no number. */
static s2_status read_seer(const s2_source *source, chosen *out)
{
    int64_t n_tok, len_tok;
    double share;
    const char *const method = s2_doc_text(source->doc, "/seerattn_sparsity_method");
    S2_TRY(read_block(source, S2_PATHS("/seerattn_gate_block_size"), 64, &out->block_tok));
    S2_TRY(s2_budget_read(source, S2_PATHS("/seerattn_start_layer"), 0, S2_LIMIT_LAYERS, 0, &out->n_dense));
    if (method == NULL || strcmp(method, "token_budget") == 0) {
        S2_TRY(s2_budget_read(source, S2_PATHS("/seerattn_token_budget"), 1, S2_LIMIT_CONTEXT_TOK, 4096,
                              &n_tok));
    } else if (strcmp(method, "nz_ratio") == 0) {
        S2_TRY(s2_setting_len(source, 1, S2_LIMIT_CONTEXT_TOK, 8192, &len_tok));
        S2_TRY(s2_doc_num(source->doc, "/seerattn_nz_ratio", 0, 1, &share, source->diag));
        n_tok = (int64_t)((1 - sqrt(1 - share)) * (double)len_tok);
        s2_note(source->notes, "the budget is a share of the length: that of %lld tokens (--set len=N)",
                (long long)len_tok);
    } else {
        S2_TRY(needs_tokens(source, "/seerattn_sparsity_method", &n_tok));
    }
    s2_buf *const sparse = method != NULL && strcmp(method, "nz_ratio") == 0 ? &out->prefill : &out->decode;
    s2_buf *const dense = sparse == &out->prefill ? &out->decode : &out->prefill;
    s2_buf_printf(sparse, "local 1 | pages %lld page %lld", (long long)pages_of(n_tok, out->block_tok),
                  (long long)out->block_tok);
    s2_buf_puts(dense, "dense");
    s2_note(source->notes, "SeerAttention's gates choose blocks; the newest one is always read");
    return S2_OK;
}

static s2_status read_flex_prefill(const s2_source *source, chosen *out)
{
    int64_t n_tok;
    S2_TRY(read_block(source, S2_PATHS("/block_size"), 128, &out->block_tok));
    if (s2_doc_has(source->doc, "/flex_prefill_max_budget"))
        S2_TRY(s2_doc_int(source->doc, "/flex_prefill_max_budget", 1, S2_LIMIT_CONTEXT_TOK, &n_tok,
                          source->diag));
    else
        S2_TRY(needs_tokens(source, "/flex_prefill_gamma", &n_tok));
    s2_buf_printf(&out->prefill, "pages %lld page %lld", (long long)pages_of(n_tok, out->block_tok),
                  (long long)out->block_tok);
    s2_buf_puts(&out->decode, "dense");
    s2_note(source->notes, "FlexPrefill: gamma decides how many blocks a query chooses, here the most that "
                           "the budget allows; only prefill is sparse");
    return S2_OK;
}

static s2_status read_xattention(const s2_source *source, chosen *out)
{
    int64_t n_tok;
    bool sink, recent;
    S2_TRY(read_block(source, S2_PATHS("/block_size"), 128, &out->block_tok));
    S2_TRY(needs_tokens(source, "/threshold", &n_tok));
    S2_TRY(s2_doc_bool_or(source->doc, "/keep_sink", false, &sink, source->diag));
    S2_TRY(s2_doc_bool_or(source->doc, "/keep_recent", false, &recent, source->diag));
    s2_buf_printf(&out->prefill, "%s%spages %lld page %lld", sink ? "sink 1 | " : "",
                  recent ? "local 1 | " : "", (long long)pages_of(n_tok, out->block_tok),
                  (long long)out->block_tok);
    s2_buf_puts(&out->decode, "dense");
    s2_note(source->notes, "XAttention scores blocks by their antidiagonals; only prefill is sparse");
    return S2_OK;
}

static s2_status read_retro(const s2_source *source, chosen *out)
{
    int64_t sink_tok, recent_tok, len_tok, n_clusters, n_read;
    double share;
    S2_TRY(s2_budget_read(source, S2_PATHS(RETRO "static_pattern_start"), 1, S2_LIMIT_CONTEXT_TOK, 4,
                          &sink_tok));
    S2_TRY(s2_budget_read(source, S2_PATHS(RETRO "static_pattern_end"), 1, S2_LIMIT_CONTEXT_TOK, 64,
                          &recent_tok));
    S2_TRY(s2_budget_read(source, S2_PATHS(RETRO "n_centroids"), 1, S2_LIMIT_CONTEXT_TOK, 8192, &n_clusters));
    S2_TRY(s2_budget_read(source, S2_PATHS(RETRO "nprobe"), 1, n_clusters, 150, &n_read));
    S2_TRY(s2_setting_len(source, 1, S2_LIMIT_CONTEXT_TOK, 131072, &len_tok));
    share = (double)n_read / (double)n_clusters;
    if (s2_doc_has(source->doc, RETRO "retrieval_budget"))
        S2_TRY(s2_doc_num(source->doc, RETRO "retrieval_budget", 0, 1, &share, source->diag));
    const int64_t n_tok = (int64_t)(share * (double)len_tok);
    s2_buf_puts(&out->prefill, "dense");
    s2_buf_printf(&out->decode, "sink %lldt | local %lldt | topk %lld", (long long)sink_tok,
                  (long long)recent_tok, (long long)(n_tok > 0 ? n_tok : 1));
    s2_note(source->notes,
            "RetroInfer reads clusters of keys, a share of the length: that of %lld tokens (--set len=N). "
            "Other clusters are estimated from their centres; until the index is extended, up to 1024 newer "
            "tokens are read too. The keys are kept in the host's memory, nothing is freed",
            (long long)len_tok);
    return S2_OK;
}

/* Two keys identify a method. */
static const struct {
    const char *const keys[2];
    s2_status (*read)(const s2_source *source, chosen *out);
} methods[] = {{{INFLLM "kernel_stride", INFLLM "topk"}, read_infllm},
               {{"/moba_chunk_size", "/moba_topk"}, read_moba},
               {{"/seerattn_gate_block_size", "/seerattn_gate_block_size"}, read_seer},
               {{"/flex_prefill_gamma", "/flex_prefill_gamma"}, read_flex_prefill},
               {{"/threshold", "/keep_recent"}, read_xattention},
               {{RETRO "static_pattern_start", RETRO "static_pattern_end"}, read_retro}};
enum { N_METHODS = sizeof methods / sizeof *methods };

static int method_of(const s2_source *source)
{
    for (int m = 0; m < N_METHODS; m++)
        if (s2_budget_has_all(source, S2_PATHS(methods[m].keys[0], methods[m].keys[1])))
            return m;
    return -1;
}

static int recognises(const s2_source *source)
{
    return method_of(source) >= 0 ? 92 : 0;
}

/* A model's config.json gives its shape under the keys of its type. */
static s2_status shape_of(const s2_source *source, s2_model_shape *out)
{
    if (s2_doc_has(source->doc, "/model_type"))
        return s2_model_shape_read(source, "", out);
    return s2_budget_shape(source, out);
}

static s2_status print(const s2_source *source, const chosen *found, s2_buf *text)
{
    s2_model_shape shape;
    S2_TRY(shape_of(source, &shape));
    s2_language_name(text, source->name);
    s2_language_shape(text, shape.n_layers, shape.n_heads, shape.n_kv_heads, shape.head_dim,
                      found->block_tok);
    const char *const prefill = s2_part_of(text, &found->prefill);
    const char *const decode = s2_part_of(text, &found->decode);
    if (decode[0] == '\0')
        s2_buf_printf(text, "layers all: %s\n", prefill);
    else
        s2_buf_printf(text, "prefill layers all: %s\ndecode layers all: %s\n", prefill, decode);
    if (found->n_dense > shape.n_layers)
        return s2_doc_refuse(source->doc, "/seerattn_start_layer", source->diag, "the model has %lld layers",
                             (long long)shape.n_layers);
    if (found->n_dense > 0)
        s2_buf_printf(text, "layers 0-%lld: dense\n", (long long)(found->n_dense - 1));
    return S2_OK;
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    chosen found = {.block_tok = 64};
    s2_buf text = {0};
    S2_TRY(
        s2_source_needs(source, recognises(source) > 0,
                        "the keys of InfLLM-v2, MoBA, SeerAttention, FlexPrefill, XAttention or RetroInfer"));
    s2_status status = methods[method_of(source)].read(source, &found);
    if (status == S2_OK)
        status = print(source, &found, &text);
    s2_buf_release(&found.prefill);
    s2_buf_release(&found.decode);
    return s2_budget_finish(source, status, &text, out);
}

const s2_format s2_format_chosen = {.name = "chosen",
                                    .summary = "blocks chosen at run time: InfLLM-v2 (MiniCPM4), MoBA, "
                                               "SeerAttention, FlexPrefill, XAttention, RetroInfer",
                                    .settings = "tokens, len, " S2_BUDGET_SETTINGS,
                                    .recognises = recognises,
                                    .read = import};

/*
 * Formats in and out, judged by the definition (pattern/dense.h) and by block counts that published
 * descriptions of the formats imply.
 */
#include "tests/s2test.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/work.h"
#include "export/nearest.h"
#include "export/layout.h"
#include "pattern/blocks.h"
#include "pattern/dense.h"
#include "pattern/mask.h"
#include "pattern/parse.h"
#include "tests/s2gen.h"
#include "tests/s2import.h"
#include "tests/s2parsed.h"

/* ---- helpers ------------------------------------------------------------------------------------ */

typedef struct exported {
    s2_arena arena;
    s2_buf notes;
    s2_diag diag;
    s2_fileset files;
    s2_export_report report;
} exported;

/* value NULL: no --set. */
static s2_status try_export_set(exported *at, const char *to, const s2_pattern *pattern, int64_t n_tok,
                                const char *key, const char *value)
{
    const s2_setting setting = {.key = key, .value = value};
    *at = (exported){0};
    at->files.arena = &at->arena;
    s2_target target = {.arena = &at->arena,
                        .pattern = pattern,
                        .n_tok = n_tok,
                        .provenance = "a test",
                        .notes = &at->notes,
                        .settings = {&setting, value != NULL},
                        .files = &at->files,
                        .diag = &at->diag};
    return s2_export_run(s2_format_find(to), &target, &at->report);
}

static s2_status try_export(exported *at, const char *to, const s2_pattern *pattern, int64_t n_tok)
{
    return try_export_set(at, to, pattern, n_tok, NULL, NULL);
}

static void exported_release(exported *at)
{
    s2_buf_release(&at->notes);
    s2_arena_release(&at->arena);
}

/* Pairs that two patterns read differently, by the definition alone. */
static void count_differences(const s2_pattern *a, const s2_pattern *b, int64_t n_tok, int64_t *added,
                              int64_t *dropped)
{
    const int n_phases = s2_pattern_has_phases(a) || s2_pattern_has_phases(b) ? 2 : 1;
    *added = *dropped = 0;
    for (int phase = 0; phase < n_phases; phase++)
        for (int32_t layer = 0; layer < a->n_layers; layer++)
            for (int32_t head = 0; head < a->n_heads; head++)
                for (int64_t q = 0; q < n_tok; q++)
                    for (int64_t k = 0; k < (a->causal ? q + 1 : n_tok); k++) {
                        const bool first = s2_pattern_reads(a, (s2_phase)phase, layer, head, n_tok, q, k);
                        const bool second = s2_pattern_reads(b, (s2_phase)phase, layer, head, n_tok, q, k);
                        *added += !first && second;
                        *dropped += first && !second;
                    }
}

static double block_density(const s2_pattern *pattern, int32_t layer, int64_t n_tok, int64_t *last_row)
{
    s2_arena arena = {0};
    int64_t n_read = 0;
    const int64_t n_blk = n_tok / pattern->block_tok;
    for (int32_t head = 0; head < pattern->n_heads; head++) {
        s2_view view;
        s2_blocks blocks;
        assert_int_equal(s2_view_build(&arena, pattern, S2_PREFILL, layer, head, S2_AT_LEAST, &view), S2_OK);
        assert_int_equal(s2_blocks_build(&arena, &view, n_tok, pattern->block_tok, NULL, &blocks), S2_OK);
        n_read += blocks.row_begin[n_blk];
        if (head == 0 && last_row != NULL)
            *last_row = blocks.row_begin[n_blk] - blocks.row_begin[n_blk - 1];
    }
    s2_arena_release(&arena);
    const int64_t causal = pattern->causal ? n_blk * (n_blk + 1) / 2 : n_blk * n_blk;
    return (double)n_read / (double)(causal * pattern->n_heads);
}

static double token_density(const s2_pattern *pattern, s2_phase phase, int32_t layer, int32_t head,
                            int64_t n_tok)
{
    s2_arena arena = {0};
    s2_view view;
    int64_t n_pairs;
    assert_int_equal(s2_view_build(&arena, pattern, phase, layer, head, S2_AT_LEAST, &view), S2_OK);
    assert_int_equal(s2_view_count_pairs(&view, n_tok, NULL, &n_pairs), S2_OK);
    s2_arena_release(&arena);
    const double all =
        pattern->causal ? (double)n_tok * ((double)n_tok + 1) / 2 : (double)n_tok * (double)n_tok;
    return (double)n_pairs / all;
}

#define PHI3                                                                                                 \
    "{\"model_type\": \"phi3small\", \"num_hidden_layers\": 32, \"num_attention_heads\": 32,"                \
    " \"num_key_value_heads\": 8, \"hidden_size\": 4096, \"max_position_embeddings\": 8192,"                 \
    " \"blocksparse_block_size\": 64, \"blocksparse_homo_head_pattern\": false,"                             \
    " \"blocksparse_num_local_blocks\": 16, \"blocksparse_triton_kernel_block_size\": 64,"                   \
    " \"blocksparse_vert_stride\": 8, \"dense_attention_every_n_layers\": 2}"

/* ---- the stride family ---------------------------------------------------------------------------- */

static void phi3_small_has_the_published_counts(void **state)
{
    (void)state;
    static const int64_t entries[8] = {2670, 2684, 2698, 2712, 2726, 2740, 2754, 2768};
    imported at;
    import_text(&at, PHI3, "");
    assert_string_equal(at.format->name, "hf");
    int64_t last_row = 0;
    s2_assert_close(block_density(&at.pattern, 0, 8192, &last_row), 0.32934, 5e-6);
    assert_int_equal(last_row, 30);
    for (int32_t head = 0; head < 8; head++) {
        s2_view view;
        s2_blocks blocks;
        assert_int_equal(s2_view_build(&at.arena, &at.pattern, S2_PREFILL, 0, head, S2_AT_LEAST, &view),
                         S2_OK);
        assert_int_equal(s2_blocks_build(&at.arena, &view, 8192, 64, NULL, &blocks), S2_OK);
        assert_int_equal(blocks.row_begin[128], entries[head]);
    }
    for (int32_t layer = 0; layer < 32; layer++)
        s2_assert_close(block_density(&at.pattern, layer, 1024 * 2, NULL) == 1.0, layer % 2 == 1, 0);
    imported_release(&at);
}

static void phi3_small_needs_72_blocks_per_kv_head(void **state)
{
    (void)state;
    imported at;
    import_text(&at, PHI3, "");
    int64_t n_union = 0;
    for (int64_t k_blk = 0; k_blk < 128; k_blk++) {
        bool read = false;
        for (int32_t head = 0; head < 4; head++)
            read |= s2_pattern_reads(&at.pattern, S2_DECODE, 0, head, 8192, 8191, k_blk * 64);
        n_union += read;
    }
    assert_int_equal(n_union, 72);
    imported_release(&at);
}

static void phi3_128k_differs_from_8k_in_length_alone(void **state)
{
    (void)state;
    imported small, large;
    s2_difference difference;
    import_text(&small, PHI3, "");
    char text[1024];
    snprintf(text, sizeof text, "%s", PHI3);
    char *const at = strstr(text, "8192");
    memmove(at + 6, at + 4, strlen(at + 4) + 1);
    memcpy(at, "131072", 6);
    import_text(&large, text, "");
    assert_int_equal(s2_patterns_compare(&small.pattern, &large.pattern, 0, NULL, &difference), S2_OK);
    assert_false(difference.differs);
    assert_true(difference.every_length);
    int64_t last_row = 0;
    block_density(&large.pattern, 0, 131072, &last_row);
    assert_int_equal(last_row, 270);
    imported_release(&small);
    imported_release(&large);
}

static void the_phase_is_one_later_than_in_dkernel(void **state)
{
    (void)state;
    static const char *const hf = "{\"num_attention_heads\": 4, \"blocksparse_block_size\": 1,"
                                  "\"blocksparse_num_local_blocks\": 2, \"blocksparse_vert_stride\": 4}";
    static const char *const dkernel =
        "{\"num_heads\": 4, \"max_seq_len\": 8, \"block_size\": 1, \"local_blocks\": 2, \"vert_stride\": 4}";
    static const char *const expected[2][4] = {{"3,6,7", "2,6,7", "1,5,6,7", "0,4,6,7"},
                                               {"0,4,6,7", "3,6,7", "2,6,7", "1,5,6,7"}};
    for (int which = 0; which < 2; which++) {
        imported at;
        import_text(&at, which == 0 ? hf : dkernel, "");
        for (int32_t head = 0; head < 4; head++) {
            s2_buf row = {0};
            for (int64_t k = 0; k < 8; k++)
                if (s2_pattern_reads(&at.pattern, S2_PREFILL, 0, head, 8, 7, k))
                    s2_buf_printf(&row, "%s%d", row.len != 0 ? "," : "", (int)k);
            assert_string_equal(row.data, expected[which][head]);
            s2_buf_release(&row);
        }
        imported_release(&at);
    }
}

static void dkernel_readme_has_the_published_density(void **state)
{
    (void)state;
    imported at;
    int64_t last_row = 0;
    import_text(&at,
                "{\"num_heads\": 32, \"max_seq_len\": 8192, \"block_size\": 64, \"local_blocks\": 32, "
                "\"vert_stride\": 8}",
                "");
    assert_string_equal(at.format->name, "dkernel");
    s2_assert_close(block_density(&at.pattern, 0, 8192, &last_row), 0.50654, 5e-6);
    assert_int_equal(last_row, 44);
    imported_release(&at);
}

/* A call as it stands in a file, by place or by name, is the arguments in JSON. */
static void a_call_in_python_is_read_like_its_arguments(void **state)
{
    (void)state;
    static const char *const calls[] = {
        "LocalStrideSparseAttention(32, 8192, 64, 16, 8, num_kv_heads=8)",
        "n = 32; m = 1\nstride = 99\nstride = 8\nx = dkernel.LocalStrideSparseAttention(32, 8192, 64, 16,\n"
        "    vert_stride = stride, # LocalStrideSparseAttention(1, 2)\n    num_kv_heads=8, block_m=None, )\n",
        "# LocalStrideSparseAttention(1, 2, 64, 4, 5)\nfrom d import LocalStrideSparseAttention\n"
        "LocalStrideSparseAttention (num_kv_heads=8,num_heads=32,max_seq_len=8192,vert_stride=8,"
        "local_blocks=16,block_size=64)",
    };
    static const struct {
        const char *text;
        int32_t line, col;
    } refused[] = {{"LocalStrideSparseAttention(32, 8192, 64, 16, 8, 8)", 1, 49},
                   {"\n LocalStrideSparseAttention(32, 8192, 64, 16", 2, 2},
                   {"LocalStrideSparseAttention(*args)", 1, 28},
                   {"a\nLocalStrideSparseAttention(32, 8192, 64, n, 8)", 2, 1},
                   {"LocalStrideSparseAttention()", 1, 1}};
    imported first;
    import_text(&first,
                "{\"num_heads\": 32, \"max_seq_len\": 8192, \"block_size\": 64, \"local_blocks\": 16,"
                "\"vert_stride\": 8, \"num_kv_heads\": 8}",
                "");
    for (size_t n = 0; n < sizeof calls / sizeof *calls; n++) {
        s2_difference difference;
        imported at;
        import_text(&at, calls[n], "");
        assert_string_equal(at.format->name, "dkernel");
        assert_int_equal(s2_patterns_compare(&first.pattern, &at.pattern, 0, NULL, &difference), S2_OK);
        assert_false(difference.differs);
        imported_release(&at);
    }
    for (size_t n = 0; n < sizeof refused / sizeof *refused; n++) {
        imported at = {0};
        assert_int_equal(try_import(&at, NULL, refused[n].text, strlen(refused[n].text), "", NULL),
                         S2_EPARSE);
        assert_int_equal(at.diag.line, refused[n].line);
        assert_int_equal(at.diag.col, refused[n].col);
        imported_release(&at);
    }
    imported_release(&first);
}

static void dkernel_on_four_kv_heads_leaves_half_the_columns_unread(void **state)
{
    (void)state;
    imported at;
    import_text(&at,
                "{\"num_heads\": 32, \"max_seq_len\": 8192, \"block_size\": 64, \"local_blocks\": 16,"
                "\"vert_stride\": 8, \"num_kv_heads\": 4}",
                "");
    for (int64_t k_blk = 0; k_blk < 100; k_blk++) {
        bool read = false;
        for (int32_t head = 0; head < 32; head++)
            read |= s2_pattern_reads(&at.pattern, S2_PREFILL, 0, head, 8192, 8191, k_blk * 64);
        assert_int_equal(read, !(k_blk % 8 >= 1 && k_blk % 8 <= 4));
    }
    imported_release(&at);
}

static void names_of_other_stacks_give_the_same_pattern(void **state)
{
    (void)state;
    static const struct {
        const char *format, *text, *settings;
    } rows[] = {
        {"vllm",
         "BlocksparseParams(max_seqlen=8192, num_heads=32, num_kv_heads=8, block_size=64, local_blocks=16, "
         "vert_stride=8, homo_head=False)",
         "layers=32 dense-every=2"},
        {"trtllm", "block_size=64, homo_head_pattern=False, num_local_blocks=16, vertical_stride=8",
         "layers=32 dense-every=2 heads=32 kv-heads=8"},
        {"dkernel",
         "{\"num_heads\": 32, \"max_seq_len\": 8192, \"block_size\": 64, \"local_blocks\": 16, "
         "\"vert_stride\": 8,"
         "\"head_sliding_offset\": 1}",
         "layers=32 dense-every=2 kv-heads=8"},
        {"megatron",
         "--sparse-block-size 64 --sparse-local-blocks 16 --sparse-vertical-stride 8 \\\n"
         "  --sparse-head-sliding-offset 1 --num-attention-heads 32",
         "layers=32 dense-every=2"},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        imported phi, at;
        s2_difference difference;
        import_text(&phi, PHI3, strcmp(rows[r].format, "megatron") == 0 ? "kv-heads=32" : "");
        import_text(&at, rows[r].text, rows[r].settings);
        assert_string_equal(at.format->name, rows[r].format);
        assert_int_equal(s2_patterns_compare(&phi.pattern, &at.pattern, 0, NULL, &difference), S2_OK);
        if (difference.differs)
            fail_msg("%s differs: %s", rows[r].format, difference.what);
        imported_release(&phi);
        imported_release(&at);
    }
}

static void homo_head_group_makes_prefill_and_decode_disagree(void **state)
{
    (void)state;
    imported at;
    import_text(&at,
                "{\"max_seqlen\": 8192, \"num_heads\": 8, \"num_kv_heads\": 4, \"block_size\": 64, "
                "\"local_blocks\": 4,"
                "\"vert_stride\": 4, \"homo_head_group\": true}",
                "");
    assert_true(s2_pattern_has_phases(&at.pattern));
    assert_true(says(&at, "disagree"));
    imported_release(&at);
}

static bool same_design(const s2_pattern *a, const s2_pattern *b)
{
    char hash[2][S2_HASH_HEX];
    assert_int_equal(s2_pattern_hash(a, hash[0]), S2_OK);
    assert_int_equal(s2_pattern_hash(b, hash[1]), S2_OK);
    return strcmp(hash[0], hash[1]) == 0;
}

/* Do both say the same in the same words, whatever their names? */
static bool same_words(const s2_pattern *a, const s2_pattern *b)
{
    s2_pattern renamed = *b;
    renamed.name = a->name;
    renamed.model = a->model;
    return same_design(a, &renamed);
}

/*
 * Random members of the family are written by every format that holds them, and read back as the same pairs; a
 * configuration also as the same design, with or without a name and a model.
 */
static void members_of_the_stride_family_survive_every_format(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(20260101);
    const int64_t n_cases = s2_test_cases(60);
    s2_rng rng = {seed};
    int64_t n_kept = 0;
    printf("# s2: stride family: %lld random members, seed %llu\n", (long long)n_cases,
           (unsigned long long)seed);
    for (int64_t c = 0; c < n_cases; c++) {
        static const char *const formats[] = {"hf", "vllm", "trtllm", "dkernel", "megatron"};
        static const char *const origins[] = {"", "name 'of all'; ", "model phi-3-small; ",
                                              "name small; model llama-3.1-8b; "};
        const char *const origin = origins[s2_rng_below(&rng, 4)];
        const int which = (int)s2_rng_below(&rng, 5);
        const int group = which == 3 ? 1 << s2_rng_below(&rng, 2) : 1 << s2_rng_below(&rng, 3);
        const int kv = 1 + (int)s2_rng_below(&rng, 4), heads = which == 4 ? kv : kv * group;
        const int stride = 2 + (int)s2_rng_below(&rng, 20), local = 1 + (int)s2_rng_below(&rng, 5);
        const int step = stride / heads > 1 ? stride / heads : 1;
        const int offset = which < 3 ? 1 : (int)s2_rng_below(&rng, (uint64_t)stride);
        const bool over_kv = which == 3 && group > 1;
        const int dense_every = which == 4 ? 0 : (int)s2_rng_below(&rng, 3);
        char text[256];
        snprintf(
            text, sizeof text,
            "%slayers 3; heads %d; kv-heads %d; block %d; layers all: local %d | stride %d phase %s*%d+%d%s",
            origin, heads, kv, 16 << s2_rng_below(&rng, 2), local, stride, over_kv ? "kv" : "head", step,
            offset,
            dense_every == 1   ? "; layers 2: dense"
            : dense_every == 2 ? "; layers 1: dense"
                               : "");
        s2_arena arena = {0};
        const s2_pattern pattern = s2_parsed(&arena, text);
        exported out;
        const s2_status status = try_export(&out, formats[which], &pattern, 512);
        if (status != S2_OK || out.report.refused)
            fail_msg("%s refuses \"%s\" (seed %llu): %s%s", formats[which], text, (unsigned long long)seed,
                     out.diag.msg, out.report.difference.what);
        imported again = {0};
        assert_int_equal(try_import(&again, formats[which], out.files.files[0].bytes,
                                    out.files.files[0].n_bytes, "", NULL),
                         S2_OK);
        int64_t added, dropped;
        count_differences(&pattern, &again.pattern, 320, &added, &dropped);
        assert_int_equal(added + dropped, 0);
        const bool is_kept = which != 4 && same_words(&pattern, &again.pattern);
        n_kept += is_kept;
        if (is_kept && !same_design(&pattern, &again.pattern))
            fail_msg("%s is read back from %s as another design (seed %llu)", text, formats[which],
                     (unsigned long long)seed);
        imported_release(&again);
        exported_release(&out);
        s2_arena_release(&arena);
    }
    assert_true(n_kept > n_cases / 8);
}

/* vLLM counts the heads of a rank: a file for N ranks has an N-th of them, and is read back as the whole model. */
static void files_of_tensor_parallel_ranks_are_read_back_as_the_whole_model(void **state)
{
    (void)state;
    for (int n_kv = 1; n_kv <= 8; n_kv++)
        for (int tp = 1; tp <= 2 * n_kv; tp++) {
            char text[160], ranks[16], heads[40];
            snprintf(text, sizeof text,
                     "layers 2; heads %d; kv-heads %d; block 16; all: local 2 | stride 5 phase head+1",
                     4 * n_kv, n_kv);
            snprintf(ranks, sizeof ranks, "%d", tp);
            snprintf(heads, sizeof heads, "\"num_heads\": %d,", 4 * n_kv / tp);
            s2_arena arena = {0};
            const s2_pattern pattern = s2_parsed(&arena, text);
            exported out;
            imported again = {0};
            const s2_status status = try_export_set(&out, "vllm", &pattern, 512, "tp", ranks);
            assert_int_equal(status, n_kv % tp == 0 ? S2_OK : S2_EUNSUPPORTED);
            if (status == S2_OK) {
                int64_t added, dropped;
                const char *const file = out.files.files[0].bytes;
                assert_false(out.report.refused);
                assert_non_null(strstr(file, heads));
                assert_int_equal(try_import(&again, NULL, file, out.files.files[0].n_bytes, "", NULL), S2_OK);
                assert_int_equal(again.pattern.n_heads, 4 * n_kv);
                count_differences(&pattern, &again.pattern, 200, &added, &dropped);
                assert_int_equal(added + dropped, 0);
            }
            imported_release(&again);
            exported_release(&out);
            s2_arena_release(&arena);
        }
}

/* What the consumer's own checks refuse is not written: the reason is said instead. */
/* By the rule of TensorRT-LLM's kernels, which know the heads of their own rank alone. */
static bool rank_reads(int64_t q, int64_t k, int64_t stride, int64_t n_own, int64_t own_head)
{
    const int64_t step = stride / n_own > 1 ? stride / n_own : 1;
    return k <= q && (q / 16 - k / 16 < 2 || (k / 16 + own_head * step + 1) % stride == 0);
}

static void ranks_that_count_their_heads_from_zero_are_compared_as_they_read(void **state)
{
    (void)state;
    static const int heads[] = {2, 4, 8, 12}, ranks[] = {1, 2, 4};
    for (size_t h = 0; h < sizeof heads / sizeof *heads; h++)
        for (size_t r = 0; r < sizeof ranks / sizeof *ranks; r++)
            for (int stride = 1; stride <= 13; stride++) {
                enum { N_TOK = 256 };
                const int n_own = heads[h] / ranks[r];
                imported at;
                exported out;
                char text[300], tp[8];
                if (heads[h] % ranks[r] != 0)
                    continue;
                snprintf(text, sizeof text,
                         "{\"block_sparse_params\": {\"block_size\": 16, \"num_local_blocks\": 2, "
                         "\"vertical_stride\": %d}, \"num_attention_heads\": %d, \"num_hidden_layers\": 1, "
                         "\"tensor_parallel_size\": %d}",
                         stride, heads[h], ranks[r]);
                snprintf(tp, sizeof tp, "%d", ranks[r]);
                import_text(&at, text, "");
                for (int32_t head = 0; head < heads[h]; head++)
                    for (int64_t q = 0; q < N_TOK; q += 7)
                        for (int64_t k = 0; k <= q; k += 5)
                            assert_int_equal(s2_pattern_reads(&at.pattern, S2_PREFILL, 0, head, N_TOK, q, k),
                                             rank_reads(q, k, stride, n_own, head % n_own));
                assert_int_equal(try_export_set(&out, "trtllm", &at.pattern, N_TOK, "tp", tp), S2_OK);
                assert_false(out.report.refused);
                exported_release(&out);
                imported_release(&at);
            }
}

/* Members of a checkpoint of TensorRT-LLM, as its converters write them. */
#define CHECKPOINT(architecture, tp)                                                                         \
    "\"architecture\": \"" architecture "\", \"num_hidden_layers\": 4, \"num_attention_heads\": 8, "         \
    "\"num_key_value_heads\": 4, \"hidden_size\": 1024, \"head_size\": 64, "                                 \
    "\"max_position_embeddings\": 8192, \"mapping\": {\"world_size\": " tp ", \"tp_size\": " tp "}"
#define SPARSE_LAYERS                                                                                        \
    ", \"blocksparse_block_size\": 64, \"blocksparse_homo_head_pattern\": false, "                           \
    "\"blocksparse_num_local_blocks\": 2, \"blocksparse_vertical_stride\": 8, "                              \
    "\"dense_attention_every_n_layers\": 2"

static void checkpoints_of_tensorrt_llm_are_read_as_its_code_reads_them(void **state)
{
    (void)state;
    static const struct {
        const char *text, *settings, *pattern;
    } rows[] = {{"{" CHECKPOINT("Phi3SmallForCausalLM", "1") SPARSE_LAYERS "}", "",
                 "layers 4; heads 8; kv-heads 4; head-dim 64; layers all: local 2 | stride 8 phase head+1; "
                 "layers 1::2: dense"},
                {"{" CHECKPOINT("Phi3SmallForCausalLM", "4") SPARSE_LAYERS "}", "",
                 "layers 4; heads 8; kv-heads 4; head-dim 64; layers all: local 2 | stride 8 phase head*4+1; "
                 "layers 1::2: dense"},
                {"{\"version\": \"0.19.0\", \"pretrained_config\": {" CHECKPOINT("Phi3SmallForCausalLM", "1")
                     SPARSE_LAYERS "}, \"build_config\": {\"plugin_config\": {\"context_fmha\": true}}}",
                 "",
                 "layers 4; heads 8; kv-heads 4; head-dim 64; layers all: local 2 | stride 8 phase head+1; "
                 "layers 1::2: dense"},
                /* the keys of one architecture say nothing of another */
                {"{" CHECKPOINT("LlamaForCausalLM", "2") SPARSE_LAYERS "}", "",
                 "layers 4; heads 8; kv-heads 4; head-dim 64; layers all: dense"},
                {"{" CHECKPOINT("OwnForCausalLM", "1") "}", "rule=full",
                 "layers 4; heads 8; kv-heads 4; head-dim 64; layers all: dense"}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        imported at;
        s2_arena arena = {0};
        const s2_pattern pattern = s2_parsed(&arena, rows[r].pattern);
        s2_difference difference;
        import_text(&at, rows[r].text, rows[r].settings);
        assert_string_equal(at.format->name, "trtllm");
        assert_int_equal(s2_patterns_compare(&pattern, &at.pattern, 0, NULL, &difference), S2_OK);
        if (difference.differs)
            fail_msg("row %zu differs: %s", r, difference.what);
        /* where every layer is dense, fused kernels read what is written */
        assert_int_equal(says(&at, "context_fmha"), strstr(rows[r].pattern, "stride") != NULL);
        imported_release(&at);
        s2_arena_release(&arena);
    }
}

static void checkpoints_whose_code_is_not_known_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"{" CHECKPOINT("Gemma3ForCausalLM", "1") "}", "rule=full"},
        {"{" CHECKPOINT("Phi3SmallForCausalLM", "1") "}", "blocksparse_block_size"},
        {"{" CHECKPOINT("Phi3SmallForCausalLM", "3") SPARSE_LAYERS "}", "share 8 heads evenly"},
        {"{" CHECKPOINT("Phi3SmallForCausalLM",
                        "1") ", \"blocksparse_block_size\": 64, "
                             "\"blocksparse_num_local_blocks\": 2, \"blocksparse_vertical_stride\": 8}",
         "divides by it"}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        imported at = {0};
        assert_true(try_import(&at, NULL, rows[r].text, strlen(rows[r].text), "", NULL) != S2_OK);
        if (at.diag.line < 1 || strstr(at.diag.msg, rows[r].why) == NULL)
            fail_msg("row %zu: line %d: %s", r, at.diag.line, at.diag.msg);
        imported_release(&at);
    }
}

static void what_the_consumer_would_reject_or_misread_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *format, *text, *why;
    } rows[] = {
        {"dkernel", "heads 2; block 8; layers all: local 2 | stride 4 phase head", "16 tokens"},
        {"megatron", "heads 2; block 8; layers all: local 2 | stride 4 phase head", "16 tokens"},
        {"flashinfer", "heads 2; block 16; layers all: stride 2 phase head", "diagonal"},
        {"dkernel", "heads 3; block 16; layers all: local 2 | stride 4; kv 2: dense", "beside several heads"},
        {"megatron", "heads 3; block 16; layers all: local 2 | stride 4; kv 2: dense",
         "beside several heads"},
        {"deepspeed", "heads 1; block 16; layers all: chunk 5 | stride 5 width 3", "to divide"},
        {"deepspeed", "heads 1; block 16; layers all: chunk 2 | stride 2 | rows 0-2", "unidirectional"},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        s2_arena arena = {0};
        const s2_pattern pattern = s2_parsed(&arena, rows[r].text);
        exported out;
        assert_int_equal(try_export(&out, rows[r].format, &pattern, 128), S2_EUNSUPPORTED);
        assert_non_null(strstr(out.diag.msg, rows[r].why));
        exported_release(&out);
        s2_arena_release(&arena);
    }
}

/* One mask for each sparse head, all of type 1: the wrapper gives the n-th of them the n-th mask. */
static void bsa_has_a_mask_for_each_sparse_head(void **state)
{
    (void)state;
    s2_arena arena = {0};
    const s2_pattern pattern = s2_parsed(
        &arena, "heads 4; kv-heads 2; block 128; layers all: local 2 | stride 2 phase kv; heads 3: dense");
    exported out;
    assert_int_equal(try_export(&out, "bsa", &pattern, 512), S2_OK);
    static const int32_t types[] = {1, 1, 1, 0};
    bool found = false;
    for (int32_t f = 0; f < out.files.n_files; f++)
        if (strcmp(out.files.files[f].name, "layout0_head_mask_type.npy") == 0) {
            found = true;
            assert_memory_equal(out.files.files[f].bytes + out.files.files[f].n_bytes - sizeof types, types,
                                sizeof types);
        } else if (strcmp(out.files.files[f].name, "layout0_base_blockmask.npy") == 0) {
            assert_true(out.files.files[f].n_bytes % 64 == 3 * 4 * 4 % 64);
        }
    assert_true(found);
    exported_release(&out);
    s2_arena_release(&arena);
}

static void what_is_not_of_the_family_is_refused_with_a_pair(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        s2_status status;
    } rows[] = {
        {"heads 4; layers all: local 2 | stride 4 phase head", S2_OK}, /* the phase of DKernel, not of HF */
        {"heads 4; layers all: local 2 | stride 4 phase head*2+1", S2_OK}, /* a step of its own */
        {"heads 8; kv-heads 4; layers all: local 2 | stride 4 phase kv+1", S2_OK},
        {"heads 4; layers 4; layers all: local 2 | stride 4 phase head+1; layers 1,2: dense", S2_OK},
        {"heads 4; prefill layers all: local 2 | stride 4 phase head+1; decode layers all: local 2", S2_OK},
        {"heads 4; layers all: local 2 | stride 4 phase head+1 | sink 1", S2_EUNSUPPORTED},
        {"heads 4; layers all: local 128t | stride 4 phase head+1", S2_EUNSUPPORTED},
        {"heads 4; layers all: local 2 | stride 4 width 2 phase head+1", S2_EUNSUPPORTED},
        {"heads 4; layers all: local 2 | stride 4 phase head+1 when distance 8..", S2_EUNSUPPORTED},
        {"heads 4; layers all: dense", S2_EUNSUPPORTED},
        {"heads 4; causal no; layers all: local 2 | stride 4 phase head+1", S2_EUNSUPPORTED},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        s2_arena arena = {0};
        const s2_pattern pattern = s2_parsed(&arena, rows[r].text);
        exported out;
        const s2_status status = try_export(&out, "hf", &pattern, 8192);
        if (status != rows[r].status || (status == S2_OK && !out.report.refused))
            fail_msg("\"%s\" is not refused", rows[r].text);
        if (status == S2_OK) {
            imported again = {0};
            const s2_difference *const at = &out.report.difference;
            assert_int_equal(
                try_import(&again, "hf", out.files.files[0].bytes, out.files.files[0].n_bytes, "", NULL),
                S2_OK);
            const bool first =
                s2_pattern_reads(&pattern, at->phase, at->layer, at->head, 8192, at->q_tok, at->k_tok);
            const bool second =
                s2_pattern_reads(&again.pattern, at->phase, at->layer, at->head, 8192, at->q_tok, at->k_tok);
            assert_int_equal(first, at->first_reads);
            assert_int_equal(second, !at->first_reads);
            imported_release(&again);
        }
        exported_release(&out);
        s2_arena_release(&arena);
    }
}

/* ---- comparison ----------------------------------------------------------------------------------- */

static void comparison_and_loss_equal_enumeration(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(77);
    const int64_t n_cases = s2_test_cases(80);
    printf("# s2: comparison: %lld random pairs of patterns, seed %llu\n", (long long)n_cases,
           (unsigned long long)seed);
    for (int64_t c = 0; c < n_cases; c++) {
        s2_gen gen = {.rng = {seed + (uint64_t)c}, .causal = c % 4 != 0};
        s2_arena arena = {0};
        enum { N_TOK = 61 };
        const s2_pattern *const a = s2_gen_pattern(&gen, &arena, 2, 1, 16, 4);
        const s2_pattern *const b =
            c % 5 == 0 ? a : s2_gen_pattern(&gen, &arena, 2, 1, 16, c % 3 == 0 ? 8 : 4);
        int64_t added, dropped;
        s2_loss loss;
        s2_difference difference;
        count_differences(a, b, N_TOK, &added, &dropped);
        assert_int_equal(s2_patterns_loss(a, b, N_TOK, NULL, &loss), S2_OK);
        assert_int_equal(s2_patterns_compare(a, b, N_TOK, NULL, &difference), S2_OK);
        if (loss.added != added || loss.dropped != dropped || difference.differs != (added + dropped != 0))
            fail_msg("seed %llu case %lld: counted +%lld -%lld, enumerated +%lld -%lld",
                     (unsigned long long)seed, (long long)c, (long long)loss.added, (long long)loss.dropped,
                     (long long)added, (long long)dropped);
        if (difference.differs) {
            const bool first = s2_pattern_reads(a, difference.phase, difference.layer, difference.head, N_TOK,
                                                difference.q_tok, difference.k_tok);
            assert_int_equal(first, difference.first_reads);
        }
        s2_arena_release(&arena);
    }
}

static void a_difference_far_out_is_found_for_every_length(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"heads 1; layers all: local 4", "heads 1; layers all: local 4 | sink 1 when query 900.."},
        {"heads 1; layers all: stride 7", "heads 1; layers all: stride 7 | stride 13 when distance 500.."},
        {"heads 1; layers all: chunk 100", "heads 1; layers all: chunk 100 | columns 99 when query 99..101"},
        {"heads 1; layers all: dilated 6", "heads 1; layers all: dilated 12 | dilated 12 phase 7"},
        {"heads 1; block 1; causal no; layers all: dense when query ..1",
         "heads 1; block 1; causal no; layers all: stride 5 width 4 when query ..1 | dilated 7 width 6 phase "
         "5 "
         "when query ..1"},
    };
    for (size_t r = 0; r < sizeof pairs / sizeof *pairs; r++) {
        s2_arena arena = {0};
        s2_difference difference;
        const s2_pattern a = s2_parsed(&arena, pairs[r][0]), b = s2_parsed(&arena, pairs[r][1]);
        assert_int_equal(s2_patterns_compare(&a, &b, 0, NULL, &difference), S2_OK);
        assert_true(difference.differs);
        s2_arena_release(&arena);
    }
}

static void equal_patterns_written_differently_are_equal_at_every_length(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"heads 2; layers all: local 4 | stride 4 phase head",
         "heads 2; layers all: stride 4 phase head | local 256t when distance ..4 | local 4"},
        {"heads 2; layers all: dense", "heads 2; layers all: local 5 | dense when distance 5.."},
        {"heads 2; layers all: stride 2", "heads 2; layers all: stride 4 | stride 4 phase 2"},
    };
    for (size_t r = 0; r < sizeof pairs / sizeof *pairs; r++) {
        s2_arena arena = {0};
        s2_difference difference;
        const s2_pattern a = s2_parsed(&arena, pairs[r][0]), b = s2_parsed(&arena, pairs[r][1]);
        assert_int_equal(s2_patterns_compare(&a, &b, 0, NULL, &difference), S2_OK);
        if (difference.differs || !difference.every_length)
            fail_msg("\"%s\" and \"%s\" are not found equal", pairs[r][0], pairs[r][1]);
        s2_arena_release(&arena);
    }
}

/* ---- the other formats: figures that their definitions imply ------------------------------------------- */

static void published_figures_of_other_formats_hold(void **state)
{
    (void)state;
    static const struct {
        const char *label, *format, *text, *settings;
        s2_phase phase;
        int32_t layer, head;
        int64_t n_tok;
        double density;
    } rows[] = {
        {"StreamingLLM 4 + 2000", "streamingllm", "--start_size 4 --recent_size 2000", "", S2_PREFILL, 0, 0,
         32768, 0.11857},
        {"gpt-oss window", "layers",
         "{\"num_hidden_layers\": 2, \"num_attention_heads\": 64, \"num_key_value_heads\": 8, \"head_dim\": "
         "64,"
         "\"sliding_window\": 128, \"layer_types\": [\"sliding_attention\", \"full_attention\"]}",
         "", S2_DECODE, 0, 0, 131072, 0.00195},
        {"gpt-oss full", "layers",
         "{\"num_hidden_layers\": 2, \"num_attention_heads\": 64, \"num_key_value_heads\": 8, \"head_dim\": "
         "64,"
         "\"sliding_window\": 128, \"layer_types\": [\"sliding_attention\", \"full_attention\"]}",
         "", S2_DECODE, 1, 63, 131072, 1},
        {"a_shape 128 + 3968", "minference", "[{\"0\": [\"a_shape\", 128, 3968, 1]}]", "", S2_PREFILL, 0, 0,
         131072, 0.06152},
        {"MInference decodes densely", "minference", "[{\"0\": [\"a_shape\", 128, 3968, 1]}]", "", S2_DECODE,
         0, 0, 4096, 1},
        {"LServe prefill of a streaming head", "lserve",
         "--sparse-context-mode --static-sparsity 0.5 --ctx-sink-token 128 --ctx-local-token 8192 "
         "--dec-sink-token 128 --dec-local-token 256 --dynamic-sparse-token-budget 4096",
         "streaming-kv=4", S2_PREFILL, 0, 0, 131072, 0.12292},
        {"Longformer +-256", "longformer",
         "{\"attention_window\": 512, \"num_attention_heads\": 2, \"num_hidden_layers\": 1, "
         "\"model_type\": \"longformer\"}",
         "global=0", S2_PREFILL, 0, 0, 4096, 0.12132},
        {"Duo streaming 64 + 256", "duo", "0.0\t1.0\n", "sparsity=0.5 heads=2", S2_PREFILL, 0, 0, 32768,
         0.01944},
        {"Duo streaming 128 + 256", "duo", "0.0\t1.0\n", "sparsity=0.5 heads=2 sink=128", S2_PREFILL, 0, 0,
         32768, 0.02330},
        {"Duo full", "duo", "0.0\t1.0\n", "sparsity=0.5 heads=2", S2_PREFILL, 0, 1, 32768, 1},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        imported at;
        import_text(&at, rows[r].text, rows[r].settings);
        assert_string_equal(at.format->name, rows[r].format);
        const double density =
            token_density(&at.pattern, rows[r].phase, rows[r].layer, rows[r].head, rows[r].n_tok);
        if (!(fabs(density - rows[r].density) <= 6e-6))
            fail_msg("%s: density %.6f, expected %.5f", rows[r].label, density, rows[r].density);
        imported_release(&at);
    }
}

static void deepspeed_fixed_has_the_published_counts(void **state)
{
    (void)state;
    imported at;
    int64_t last_row = 0;
    import_text(
        &at,
        "{\"sparse_attention\": {\"mode\": \"fixed\", \"block\": 16, \"different_layout_per_head\": true,"
        "\"num_local_blocks\": 8, \"num_global_blocks\": 1, \"attention\": \"unidirectional\","
        "\"num_different_global_patterns\": 8}}",
        "");
    assert_string_equal(at.format->name, "deepspeed");
    assert_int_equal(at.pattern.n_heads, 8);
    s2_assert_close(block_density(&at.pattern, 0, 2048, &last_row), 0.18605, 5e-6);
    assert_int_equal(last_row, 23);
    imported_release(&at);
}

/* DeepSpeed's layout, restated: aligned chunks, and G global columns per chunk chosen by the head. */
static void deepspeed_fixed_equals_its_layout_restated(void **state)
{
    (void)state;
    for (int variant = 0; variant < 12; variant++) {
        const bool causal = variant < 6, per_head = variant % 4 != 0;
        const int chunk = 4 + 4 * (variant % 2), n_global = 1 + variant % 2,
                  n_patterns = per_head ? 1 + variant % 3 : 1;
        char text[512];
        imported at;
        snprintf(
            text, sizeof text,
            "{\"mode\": \"fixed\", \"block\": 2, \"different_layout_per_head\": %s, \"num_local_blocks\": %d,"
            "\"num_global_blocks\": %d, \"attention\": \"%s\", \"num_different_global_patterns\": %d,"
            "\"horizontal_global_attention\": %s}",
            per_head ? "true" : "false", chunk, n_global, causal ? "unidirectional" : "bidirectional",
            n_patterns > chunk / n_global ? 1 : n_patterns, causal ? "false" : "true");
        import_text(&at, text, "heads=4");
        for (int32_t head = 0; head < 4; head++)
            for (int64_t q = 0; q < 2 * 3 * chunk; q++)
                for (int64_t k = 0; k < 2 * 3 * chunk; k++) {
                    const int64_t i = q / 2, j = k / 2;
                    const int64_t first =
                        chunk -
                        (1 + (per_head ? head % (n_patterns > chunk / n_global ? 1 : n_patterns) : 0)) *
                            n_global;
                    const bool global_column = j % chunk >= first && j % chunk < first + n_global;
                    const bool global_row = !causal && i % chunk >= first && i % chunk < first + n_global;
                    const bool layout = i / chunk == j / chunk || global_column || global_row;
                    const bool expected = layout && (!causal || k <= q);
                    assert_int_equal(s2_pattern_reads(&at.pattern, S2_PREFILL, 0, head, 2 * 3 * chunk, q, k),
                                     expected);
                }
        imported_release(&at);
    }
}

static void duo_roles_follow_the_quantile_and_state_ties(void **state)
{
    (void)state;
    static const struct {
        const char *table, *settings;
        int n_full;
    } rows[] = {
        {"0.9\t0.1\n0.8\t0.2\n", "heads=2 sparsity=0.5", 2},
        {"0.9\t0.1\n0.8\t0.2\n", "heads=2 sparsity=0.75", 1},
        {"0.9\t0.1\n0.8\t0.2\n", "heads=2 sparsity=1", 0},
        {"0.9\t0.1\n0.8\t0.2\n", "heads=2 sparsity=0", 4},
        {"-0.1\t0\n0\t-1e-5\n", "heads=2 sparsity=0.5 tie=all", 4}, /* clipped: all tie at 0 */
        {"-0.1\t0\n0\t-1e-5\n", "heads=2 sparsity=0.5", 2},         /* as many as upstream's noise leaves */
        {"-0.1\t0\n0\t-1e-5\n", "heads=2 sparsity=0.3", 3},
        {"1.5\t1.0\n1\t0.5\n", "heads=2 sparsity=0.75 tie=all", 3}, /* clipped at 1 as well */
        {"1.5\t1.0\r\n1\t0.5", "heads=2 sparsity=0.75 tie=first", 1},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        imported at;
        import_text(&at, rows[r].table, rows[r].settings);
        int n_full = 0;
        for (int32_t layer = 0; layer < 2; layer++)
            for (int32_t head = 0; head < 2; head++)
                n_full += s2_pattern_reads(&at.pattern, S2_DECODE, layer, head, 4096, 4000, 2000);
        if (n_full != rows[r].n_full)
            fail_msg("row %zu: %d full heads, expected %d", r, n_full, rows[r].n_full);
        imported_release(&at);
    }
}

static void duo_follows_a_link_to_its_folder_and_no_further(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_fileset files = {.arena = &arena};
    static const char table[] = "0.9\t0.1\n", config[] = "{\"sink_size\": 32, \"recent_size\": 128}";
    assert_int_equal(
        s2_fileset_add(&files, "lr=0.02-reg=0.05/full_attention_heads.tsv", table, strlen(table)), S2_OK);
    assert_int_equal(s2_fileset_add(&files, "lr=0.02-reg=0.05/config.json", config, strlen(config)), S2_OK);
    imported at = {0};
    assert_int_equal(try_import(&at, NULL, "lr=0.02-reg=0.05\n", 17, "heads=2", &files), S2_OK);
    assert_false(s2_pattern_reads(&at.pattern, S2_DECODE, 0, 1, 4096, 4000, 40));
    assert_true(s2_pattern_reads(&at.pattern, S2_DECODE, 0, 1, 4096, 4000, 31));
    assert_false(s2_pattern_reads(&at.pattern, S2_DECODE, 0, 1, 4096, 4000, 3872));
    assert_true(s2_pattern_reads(&at.pattern, S2_DECODE, 0, 1, 4096, 4000, 3873));
    imported_release(&at);
    at = (imported){0};
    assert_int_equal(try_import(&at, NULL, config, strlen(config), "", NULL), S2_EPARSE);
    assert_non_null(strstr(at.diag.msg, "which heads stream is in full_attention_heads.tsv"));
    imported_release(&at);
    static const char *const outside[] = {"../lr=1", "/etc/lr=1", "a/../../lr=1"};
    for (size_t r = 0; r < sizeof outside / sizeof *outside; r++) {
        at = (imported){0};
        assert_int_equal(try_import(&at, NULL, outside[r], strlen(outside[r]), "", NULL), S2_EPARSE);
        imported_release(&at);
    }
    s2_arena_release(&arena);
}

/* First chunk dense, later ones: the cached sink and the tokens before the chunk, and the chunk itself. */
static void duo_chunked_prefill_equals_its_definition(void **state)
{
    (void)state;
    imported at;
    import_text(&at, "0.0\t1.0\n", "sparsity=0.5 heads=2 sink=3 recent=5 chunk=16");
    for (int64_t q = 0; q < 80; q++)
        for (int64_t k = 0; k <= q; k++) {
            const int64_t begin = q / 16 * 16;
            const bool expected = k < 3 || k >= begin - 5;
            assert_int_equal(s2_pattern_reads(&at.pattern, S2_PREFILL, 0, 0, 80, q, k), expected);
            assert_int_equal(s2_pattern_reads(&at.pattern, S2_DECODE, 0, 0, 80, q, k), k < 3 || q - k < 5);
        }
    imported_release(&at);
}

static void moa_widths_follow_alpha_and_beta(void **state)
{
    (void)state;
    imported at;
    import_text(&at, "{\"alphas\": [[0, -1024, 8192, 0]], \"betas\": [[0.125, 1, 0, 0]]}", "len=4096");
    static const int64_t width[] = {512, 3072, 4096, 128};
    for (int32_t head = 0; head < 4; head++) {
        int64_t n_keys = 0;
        for (int64_t k = 0; k < 4096; k++)
            n_keys += s2_pattern_reads(&at.pattern, S2_DECODE, 0, head, 4096, 4095, k);
        assert_int_equal(n_keys, width[head]);
    }
    imported_release(&at);
}

static void budgets_of_eviction_methods_are_kept(void **state)
{
    (void)state;
    static const struct {
        const char *text, *settings, *format, *body;
    } rows[] = {
        {"heavy_ratio: 0.1\nrecent_ratio: 0.1\n", "len=4096", "h2o",
         "prefill: dense\ndecode: heavy 409 | local 409t\n"},
        {"heavy_ratio: 0.1\nrecent_ratio: 0.1\n", "len=4096 rule=evaluate", "h2o",
         "layers all: heavy 408 | local 410t\n"},
        {"heavy_ratio: 0\nrecent_ratio: 0.1\n", "len=4096", "h2o", "decode: local 409t\n"},
        {"heavy_ratio: 0.1\nrecent_ratio: 0\n", "len=4096", "h2o", "layers all: dense\n"},
        {"heavy_ratio: 0.1\nrecent_ratio: 0\n", "len=4096 rule=evaluate", "h2o",
         "layers all: heavy 408 | local 1t\n"},
        {"hh_size: 4\nrecent_size: 512\n", "", "h2o", "prefill: dense\ndecode: heavy 4 | local 513t\n"},
        {"--token_budget 1024 --chunk_size 16", "", "quest", "pages 64 page 16"},
        {"{\"algorithm\": \"quest\", \"page_size\": 16, \"sparsity_ratio\": 0.25, \"num_recent_pages\": 4}",
         "len=8192", "quest", "prefill: dense\ndecode: local 4 | pages 127 page 16"},
        {"{\"algorithm\": \"quest\", \"page_size\": 64}", "len=8000 dense-layers=1", "quest",
         "decode layers 1-31: local 4 | pages 84 page 64"},
        {"{\"algorithm\": \"quest\", \"page_size\": 64, \"quest_max_selected_tokens\": 1024}", "len=128k",
         "quest", "decode: local 4 | pages 12 page 64"},
        {"{\"window_size\": 32, \"max_capacity_prompt\": 2048, \"kernel_size\": 5}", "", "snapkv",
         "heavy 2016"},
        {"{\"index_topk\": 2048, \"index_n_heads\": 64, \"num_hidden_layers\": 61, \"num_attention_heads\": "
         "128}",
         "", "dsa", "topk 2048"},
        {"kernel_size=32, kernel_stride=16, block_size=64, topk=16, init_blocks=1, local_blocks=2, "
         "window_size=512",
         "", "nsa", "local 513t | sink 1 | local 2 | pages 13 page 64"},
        {"kernel_size=32, kernel_stride=16, block_size=64, topk=16, window_size=512", "", "nsa",
         "local 513t | sink 1 | local 2 | pages 13 page 64"},
        {"{\"model_type\": \"nsa\", \"num_hidden_layers\": 24, \"num_heads\": 64, \"num_kv_heads\": 4, "
         "\"head_dim\": 64, \"block_size\": 64, \"block_counts\": 16, \"window_size\": 512}",
         "", "nsa",
         "heads 64\nkv-heads 4\nhead-dim 64\nlayers all: local 512t | sink 1 | local 2 | pages 13 page 64"},
        {"{\"num_heads\": 64, \"num_kv_heads\": 4, \"block_size\": 64, \"block_counts\": 3, \"window_size\": "
         "0}",
         "", "nsa", "layers all: sink 1 | local 2\n"},
        {"{\"dim_head\": 64, \"heads\": 8, \"kv_heads\": 2, \"sliding_window_size\": 32, \"causal\": true, "
         "\"selection_block_size\": 16, \"num_selected_blocks\": 4}",
         "", "nsa",
         "heads 8\nkv-heads 2\nhead-dim 64\nblock 16\nlayers all: local 33t | local 1 | pages 4 page 16"},
        {"{\"sparse_attention_config\": {\"algorithm\": \"minimax_m3\"}}", "", "dsa",
         "pages 15 page 128 | local 1"},
        {"{\"sparse_attention_config\": {\"algorithm\": \"minimax_m3\", \"sparse_topk_blocks\": 8, "
         "\"sparse_init_blocks\": 2, \"sparse_local_blocks\": 3}}",
         "", "dsa", "pages 3 page 128 | sink 2 | local 3"},
        {"{\"sparse_attention_config\": {\"sparse_topk_blocks\": 1}}", "", "dsa", "layers all: local 1\n"},
        {"{\"algorithm\": \"deepseek_dsa\", \"top_k\": 1024}", "", "dsa", "topk 1024"},
        {"{\"host_to_device_ratio\": 10}", "", "dsa", "topk 2048"},
        {"press_name: cam_knorm\ntarget_size: 1024\ncompression_interval: 128\n", "", "kvpress",
         "decode: heavy 1024 | local 128t"},
        {"press_name: merging_kvzap_mlp\ncompression_ratio: 0.75\n", "len=4k", "kvpress",
         "heavy 1023 | local 1t"},
        {"press_name: pyramidkv\ncompression_ratio: 0.3\n", "layers=8 len=1000", "kvpress",
         "decode layers 7: heavy 400 | local 64t"},
        {"{\"sparse_config\": {\"kernel_size\": 32, \"kernel_stride\": 16, \"init_blocks\": 1, "
         "\"block_size\": 64, "
         "\"window_size\": 2048, \"topk\": 64}}",
         "", "chosen", "local 32 | sink 1 | pages 63 page 64"},
        {"--moba-chunk-size 4096 --moba-topk 12", "", "chosen", "prefill: chunk 64 | pages 11 page 4096"},
        {"--moba-chunk-size 4096 --moba-topk 1", "", "chosen", "layers all: dense\n"},
        {"seerattn_gate_block_size: 64\nseerattn_token_budget: 4096\nseerattn_start_layer: 2\n", "", "chosen",
         "decode layers 2-31: local 1 | pages 64 page 64"},
        {"seerattn_gate_block_size: 64\nseerattn_sparsity_method: nz_ratio\nseerattn_nz_ratio: 0.75\n",
         "len=8192", "chosen", "prefill: local 1 | pages 64 page 64"},
        {"seerattn_gate_block_size: 64\nseerattn_sparsity_method: threshold\n", "tokens=1024", "chosen",
         "decode: local 1 | pages 16 page 64"},
        {"block_size: 128\nflex_prefill_gamma: 0.9\n", "tokens=4096", "chosen", "prefill: pages 32 page 128"},
        {"block_size: 128\nflex_prefill_gamma: 0.9\nflex_prefill_max_budget: 8192\n", "", "chosen",
         "prefill: pages 64 page 128"},
        {"stride: 16\nthreshold: 0.9\nkeep_sink: true\nkeep_recent: true\n", "tokens=2048", "chosen",
         "prefill: sink 1 | local 1 | pages 16 page 128"},
        {"{\"RetroInfer\": {\"static_pattern_start\": 4, \"static_pattern_end\": 64, \"n_centroids\": 8192, "
         "\"nprobe\": 150}}",
         "len=131072", "chosen", "decode: sink 4t | local 64t | topk 2400"},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        imported at;
        s2_buf text = {0};
        import_text(&at, rows[r].text, rows[r].settings);
        assert_string_equal(at.format->name, rows[r].format);
        s2_pattern_print(&at.pattern, &text);
        if (strstr(text.data, rows[r].body) == NULL)
            fail_msg("\"%s\" is not in %s", rows[r].body, text.data);
        s2_buf_release(&text);
        imported_release(&at);
    }
}

/* Patterns that a format holds come back as they went. */
static void families_survive_their_own_format(void **state)
{
    (void)state;
    static const struct {
        const char *to, *text;
    } rows[] = {
        {"duo", "layers 3; heads 8; kv-heads 4; layers all: sink 64t | local 256t; layers 0,2 kv 1,3: dense"},
        {"duo", "layers 2; heads 4; layers all: dense"},
        {"duo", "layers 2; heads 4; layers all: sink 8t | local 20t"},
        {"layers", "layers 6; heads 4; layers all: local 128t; layers 5::6: dense"},
        {"layers", "layers 6; heads 4; layers all: chunk 8192t; layers 3::4: dense"},
        {"layers", "layers 3; heads 4; layers 0: local 7t; layers 1: chunk 64t; layers 2: dense"},
        {"minference",
         "layers 2; heads 3; prefill layers all: sink 128t | local 3968t; decode layers all: dense"},
        {"minference",
         "layers 1; heads 3; decode layers all: dense; prefill heads 0: sink 30t | local 100t | heavy 970 | "
         "topk 5996;"
         "prefill heads 1: sink 30t | local 100t | heavy 3470; prefill heads 2: pages 100 page 64"},
        {"deepspeed",
         "heads 8; block 16; heads 0::4: chunk 8 | stride 8 width 2 phase 2; heads 1::4: chunk 8 | stride 8 "
         "width 2 phase 4;"
         "heads 2::4: chunk 8 | stride 8 width 2 phase 6; heads 3::4: chunk 8 | stride 8 width 2"},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        s2_arena arena = {0};
        const s2_pattern pattern = s2_parsed(&arena, rows[r].text);
        exported out;
        const s2_status status = try_export(&out, rows[r].to, &pattern, 8192);
        if (status != S2_OK || out.report.refused || out.report.difference.differs)
            fail_msg("%s refuses \"%s\": %s%s", rows[r].to, rows[r].text, out.diag.msg,
                     out.report.difference.what);
        exported_release(&out);
        s2_arena_release(&arena);
    }
}

/* Array formats on random static patterns: exact ones come back as the same pairs; what others say they add
 * and drop is what enumeration finds between the pattern and what is read back. */
static void arrays_hold_random_patterns_or_state_the_loss(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int32_t block_tok;
        int64_t n_tok;
        bool exact;
    } formats[] = {{"csr", 4, 64, false},   {"flashinfer", 8, 64, false}, {"c", 4, 48, false},
                   {"bsa", 64, 256, false}, {"flex", 64, 256, true},      {"cute", 64, 256, true}};
    const uint64_t seed = s2_test_seed(4242);
    const int64_t n_cases = s2_test_cases(60);
    int64_t n_lossy = 0, n_refused = 0;
    for (int64_t c = 0; c < n_cases; c++) {
        const size_t which = (size_t)c % 6;
        s2_gen gen = {.rng = {seed + (uint64_t)c}, .causal = c % 3 != 0};
        s2_arena arena = {0};
        s2_pattern *const pattern = s2_gen_pattern(&gen, &arena, 2, 1, 16, formats[which].block_tok);
        pattern->name = "p";
        exported out;
        const s2_status status = try_export(&out, formats[which].name, pattern, formats[which].n_tok);
        if (status == S2_EUNSUPPORTED) {
            n_refused++;
        } else {
            imported again = {0};
            int64_t added, dropped;
            if (status != S2_OK || out.report.refused)
                fail_msg("%s case %lld (seed %llu): status %d, %s%s", formats[which].name, (long long)c,
                         (unsigned long long)seed, status, out.diag.msg, out.report.difference.what);
            assert_int_equal(try_import(&again, NULL, out.files.files[0].bytes, out.files.files[0].n_bytes,
                                        "", &out.files),
                             S2_OK);
            assert_string_equal(again.format->name, formats[which].name);
            count_differences(pattern, &again.pattern, formats[which].n_tok, &added, &dropped);
            assert_int_equal(out.report.loss.added, added);
            assert_int_equal(out.report.loss.dropped, dropped);
            assert_int_equal(dropped, 0);
            if (formats[which].exact)
                assert_int_equal(added, 0);
            n_lossy += added > 0;
            imported_release(&again);
        }
        exported_release(&out);
        s2_arena_release(&arena);
    }
    printf("# s2: arrays: %lld random patterns, %lld with a stated loss, %lld refused, seed %llu\n",
           (long long)n_cases, (long long)n_lossy, (long long)n_refused, (unsigned long long)seed);
    assert_true(n_lossy > 0);
}

/* ---- every exporter on anything */

/* A random text near the families that formats hold, so that some are held and others nearly. */
static void near_family(s2_rng *rng, char *text, size_t cap)
{
    static const char *const stride[] = {"phase head+1", "phase head",     "phase kv",
                                         "phase kv+1",   "phase head*2+1", "width 2"};
    const int family = (int)s2_rng_below(rng, 6);
    const bool plain = family >= 4; /* formats that know neither groups nor layers */
    const int kv = 1 + (int)s2_rng_below(rng, 3), heads = plain ? kv : kv * (1 + (int)s2_rng_below(rng, 2));
    const int block = family == 5 ? 64 : 1 << (2 + s2_rng_below(rng, 5));
    const int layers = plain ? 1 : 1 + (int)s2_rng_below(rng, 3);
    int n = snprintf(text, cap, "layers %d; heads %d; kv-heads %d; block %d; ", layers, heads, kv, block);
    switch (family) {
    case 0:
        n += snprintf(text + n, cap - (size_t)n, "layers all: local %d | stride %d %s",
                      1 + (int)s2_rng_below(rng, 3), 2 + (int)s2_rng_below(rng, 5),
                      stride[s2_rng_below(rng, 6)]);
        break;
    case 1:
        n += snprintf(text + n, cap - (size_t)n, "layers all: sink %dt | local %dt; kv %d: dense",
                      1 + (int)s2_rng_below(rng, 20), 1 + (int)s2_rng_below(rng, 40),
                      (int)s2_rng_below(rng, (uint64_t)kv));
        break;
    case 2:
        n += snprintf(text + n, cap - (size_t)n, "layers all: local %dt; layers %d: %s",
                      1 + (int)s2_rng_below(rng, 40), layers - 1,
                      s2_rng_below(rng, 2) != 0 ? "dense" : "chunk 24t");
        break;
    case 3:
        n += snprintf(
            text + n, cap - (size_t)n,
            "decode layers all: dense; prefill layers all: sink %dt | local %dt; prefill heads 0: local 9t",
            1 + (int)s2_rng_below(rng, 20), 1 + (int)s2_rng_below(rng, 40));
        break;
    case 4: { /* also widths that do not divide the chunk, and strides of another length */
        const int chunk = 2 + (int)s2_rng_below(rng, 5);
        const int every = s2_rng_below(rng, 4) != 0 ? chunk : 2 + (int)s2_rng_below(rng, 5);
        n += snprintf(text + n, cap - (size_t)n, "layers all: chunk %d | stride %d width %d phase %d%s",
                      chunk, every, 1 + (int)s2_rng_below(rng, (uint64_t)every), (int)s2_rng_below(rng, 4),
                      s2_rng_below(rng, 4) == 0 ? " | rows 0-2" : "");
        break;
    }
    default: n += snprintf(text + n, cap - (size_t)n, "layers all: dense"); break;
    }
    if (s2_rng_below(rng, 4) == 0)
        snprintf(text + n, cap - (size_t)n, "; heads 0: local %d", 1 + (int)s2_rng_below(rng, 3));
}

static void assert_same_pairs(const s2_format *format, const s2_pattern *a, const s2_pattern *b,
                              int64_t n_tok)
{
    s2_difference difference;
    assert_int_equal(s2_patterns_compare(a, b, format->fixed_length ? n_tok : 0, NULL, &difference), S2_OK);
    if (difference.differs)
        fail_msg("%s: read again it is another pattern: %s layer %d head %d query %lld key %lld",
                 format->name, difference.what, difference.layer, difference.head,
                 (long long)difference.q_tok, (long long)difference.k_tok);
}

enum { HELD, LOSSY, REFUSED, NO_FAMILY, N_OUTCOMES };

/*
 * What an export did with a pattern, judged by enumeration at n_tok: what it holds it holds exactly, what it
 * counts as added and dropped is that, and what it refuses differs at the pair that it names.
 */
static int judge_export(const s2_format *format, const s2_pattern *pattern, int64_t n_tok)
{
    exported out;
    imported again = {0};
    int64_t added, dropped;
    int outcome = NO_FAMILY;
    const s2_status status = try_export(&out, format->name, pattern, n_tok);
    if (status == S2_EUNSUPPORTED || status == S2_EINVAL) {
        assert_true(out.diag.msg[0] != '\0');
    } else {
        assert_int_equal(status, S2_OK);
        assert_int_equal(try_import(&again, format->name, out.files.files[0].bytes,
                                    out.files.files[0].n_bytes, "", &out.files),
                         S2_OK);
        imported known = {0};
        if (try_import(&known, NULL, out.files.files[0].bytes, out.files.files[0].n_bytes, "", &out.files) !=
            S2_OK)
            fail_msg("what %s writes is not known by its content: %s", format->name, known.diag.msg);
        assert_same_pairs(format, &again.pattern, &known.pattern, n_tok);
        imported_release(&known);
        const s2_difference *const at = &out.report.difference;
        const bool same_shape = at->what[0] == '\0';
        if (same_shape) {
            count_differences(pattern, &again.pattern, n_tok, &added, &dropped);
            assert_int_equal(out.report.loss.added, out.report.has_loss ? added : 0);
            assert_int_equal(out.report.loss.dropped, out.report.has_loss ? dropped : 0);
        }
        outcome = out.report.refused ? REFUSED : out.report.has_loss ? LOSSY : HELD;
        if (outcome == HELD)
            assert_int_equal(added + dropped, 0);
        else if (same_shape && at->q_tok < n_tok)
            assert_int_equal(
                s2_pattern_reads(pattern, at->phase, at->layer, at->head, n_tok, at->q_tok, at->k_tok),
                at->first_reads);
        imported_release(&again);
    }
    exported_release(&out);
    return outcome;
}

static void every_exporter_holds_a_random_pattern_or_says_what_is_lost(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(90210);
    const int64_t n_cases = s2_test_cases(200);
    for (int32_t n = 0; s2_format_at(n) != NULL; n++) {
        const s2_format *const format = s2_format_at(n);
        int64_t n_of[N_OUTCOMES] = {0};
        s2_rng rng = {seed + (uint64_t)n};
        for (int64_t c = 0; format->write != NULL && c < n_cases; c++) {
            s2_arena arena = {0};
            s2_gen gen = {.rng = {seed + (uint64_t)c}, .causal = c % 3 != 0};
            s2_pattern pattern;
            char text[512] = "";
            if (c % 4 == 0) {
                pattern = *s2_gen_pattern(&gen, &arena, 2, 1, 16, 64);
                pattern.name = "p";
            } else {
                near_family(&rng, text, sizeof text);
                pattern = s2_parsed(&arena, text);
            }
            const int64_t n_tok = strcmp(format->name, "bsa") == 0 || c % 4 == 0 ? 128 : 64;
            n_of[judge_export(format, &pattern, n_tok)]++;
            s2_arena_release(&arena);
        }
        if (format->write == NULL)
            continue;
        printf("# s2: %s: %lld held, %lld with a stated loss, %lld refused by a pair, %lld of no family, "
               "seed %llu\n",
               format->name, (long long)n_of[HELD], (long long)n_of[LOSSY], (long long)n_of[REFUSED],
               (long long)n_of[NO_FAMILY], (unsigned long long)seed);
        assert_true(n_of[HELD] > 0 || n_cases < 200);
        assert_true(format->lossy || n_of[LOSSY] == 0);
    }
}

/* ---- there and back again */

/* A file set as it is read by a user who has nothing else; its first file names the others. */
static void read_again(const s2_format *format, const exported *out, imported *again)
{
    *again = (imported){0};
    if (try_import(again, format->name, out->files.files[0].bytes, out->files.files[0].n_bytes, "",
                   &out->files) != S2_OK)
        fail_msg("%s does not read what it wrote: %s", format->name, again->diag.msg);
}

static void assert_same_files(const s2_format *format, const s2_fileset *a, const s2_fileset *b)
{
    assert_int_equal(a->n_files, b->n_files);
    for (int32_t n = 0; n < a->n_files; n++) {
        assert_string_equal(a->files[n].name, b->files[n].name);
        if (a->files[n].n_bytes != b->files[n].n_bytes ||
            memcmp(a->files[n].bytes, b->files[n].bytes, a->files[n].n_bytes) != 0)
            fail_msg("%s: %s of a file that was read and written again has other bytes\n%.600s\n%.600s",
                     format->name, a->files[n].name, a->files[n].bytes, b->files[n].bytes);
    }
}

/*
 * What a format has once said it says for ever: a file that is read and written again reads as the same
 * pattern, and after a turn in which equal masks become one it is the same file. Returns whether the format
 * took the pattern.
 */
static bool judge_return(const s2_format *format, const s2_pattern *pattern, int64_t n_tok)
{
    enum { N_TURNS = 3 };
    exported out[N_TURNS + 1];
    imported again[N_TURNS];
    const s2_status status = try_export(&out[0], format->name, pattern, n_tok);
    const bool taken = status == S2_OK && !out[0].report.refused;
    for (int turn = 0; turn < N_TURNS && taken; turn++) {
        read_again(format, &out[turn], &again[turn]);
        const s2_status next = try_export(&out[turn + 1], format->name, &again[turn].pattern, n_tok);
        if (next != S2_OK || out[turn + 1].report.difference.differs)
            fail_msg("%s does not hold what it wrote: %s", format->name, out[turn + 1].diag.msg);
        assert_same_pairs(format, &again[0].pattern, &again[turn].pattern, n_tok);
    }
    if (taken)
        assert_same_files(format, &out[N_TURNS - 1].files, &out[N_TURNS].files);
    for (int turn = 0; turn < N_TURNS && taken; turn++) {
        imported_release(&again[turn]);
        exported_release(&out[turn + 1]);
    }
    exported_release(&out[0]);
    return taken;
}

static void what_is_read_and_written_again_stays_the_same(void **state)
{
    (void)state;
    enum { ENOUGH = 40 };
    const uint64_t seed = s2_test_seed(31337);
    const int64_t n_cases = s2_test_cases(240);
    for (int32_t n = 0; s2_format_at(n) != NULL; n++) {
        const s2_format *const format = s2_format_at(n);
        s2_rng rng = {seed + (uint64_t)n};
        int64_t n_taken = 0;
        for (int64_t c = 0; format->write != NULL && c < n_cases && n_taken < ENOUGH; c++) {
            s2_arena arena = {0};
            char text[512];
            near_family(&rng, text, sizeof text);
            const s2_pattern pattern = s2_parsed(&arena, text);
            n_taken += judge_return(format, &pattern, 128);
            s2_arena_release(&arena);
        }
        if (format->write == NULL)
            continue;
        printf("# s2: %s: %lld patterns went there and back, seed %llu\n", format->name, (long long)n_taken,
               (unsigned long long)seed);
        assert_true(n_taken > 0 || n_cases < 240);
    }
}

/* ---- the nearest that a format can say */

static int32_t nothing_given_up(void *context, const s2_pattern *candidate)
{
    (void)context;
    (void)candidate;
    return 0;
}

/* Found, its text is held by the format as it stands. */
static s2_nearest find_nearest(s2_arena *arena, const char *to, const s2_pattern *pattern, int64_t n_tok)
{
    s2_nearest nearest;
    const s2_target target = {.arena = arena, .pattern = pattern, .n_tok = n_tok, .provenance = "a test"};
    const s2_nearest_judge judge = {.given_up = nothing_given_up};
    assert_int_equal(s2_export_nearest(s2_format_find(to), &target, judge, &nearest), S2_OK);
    return nearest;
}

static void assert_held(const char *to, const char *text, int64_t n_tok)
{
    s2_arena arena = {0};
    exported out;
    const s2_pattern pattern = s2_parsed(&arena, text);
    const s2_status status = try_export(&out, to, &pattern, n_tok);
    if (status != S2_OK || out.report.difference.differs)
        fail_msg("%s is suggested for %s and is not held: %s", text, to, out.diag.msg);
    exported_release(&out);
    s2_arena_release(&arena);
}

/* What is refused and has a nearest is not that itself, and exporting the nearest works; its loss is counted. */
static void what_is_suggested_for_a_refused_pattern_is_held(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(7711);
    const int64_t n_cases = s2_test_cases(60);
    int64_t n_refused = 0, n_found = 0, n_without_sink = 0;
    s2_rng rng = {seed};
    for (int64_t c = 0; c < n_cases; c++)
        for (int32_t n = 0; s2_format_at(n) != NULL; n++) {
            const s2_format *const format = s2_format_at(n);
            s2_arena arena = {0};
            exported out;
            char text[512] = "";
            int64_t added, dropped;
            near_family(&rng, text, sizeof text);
            const s2_pattern pattern = s2_parsed(&arena, text);
            const s2_status status = try_export(&out, format->name, &pattern, 64);
            if (format->write != NULL && (status == S2_EUNSUPPORTED || out.report.refused)) {
                const s2_nearest nearest = find_nearest(&arena, format->name, &pattern, 64);
                n_refused++;
                if (nearest.text != NULL) {
                    n_found++;
                    assert_held(format->name, nearest.text, 64);
                    assert_true(nearest.has_loss);
                    count_differences(&pattern, &nearest.pattern, 64, &added, &dropped);
                    assert_int_equal(nearest.loss.added, added);
                    assert_int_equal(nearest.loss.dropped, dropped);
                    s2_buf canonical = {0};
                    s2_pattern_print(&pattern, &canonical);
                    const bool had = strstr(canonical.data, "sink") != NULL;
                    s2_buf_release(&canonical);
                    if ((nearest.sink_tok > 0) != (had && strstr(nearest.text, "sink") == NULL))
                        fail_msg("%s: %s: a sink of %lld", text, nearest.text, (long long)nearest.sink_tok);
                    n_without_sink += nearest.sink_tok > 0;
                }
            }
            exported_release(&out);
            s2_arena_release(&arena);
        }
    printf("# s2: nearest: %lld refused, %lld with a suggestion that is held, seed %llu\n",
           (long long)n_refused, (long long)n_found, (unsigned long long)seed);
    assert_true((n_found > n_refused / 8 && n_without_sink > 0) || n_cases < 60);
}

static void the_nearest_of_a_rotation_keeps_window_stride_and_dense_layers(void **state)
{
    (void)state;
    static const struct {
        const char *to, *text, *nearest;
    } cases[] = {
        {"hf", "heads 8; layers all: local 4 | stride 8 phase head",
         "heads 8; layers all: local 4 | stride 8 phase head+1"},
        {"vllm", "layers 8; heads 8; layers all: local 4 | stride 8 phase head+1; layers 0::4: dense",
         "layers 8; heads 8; layers all: local 4 | stride 8 phase head+1; layers 3,7: dense"},
        {"trtllm", "layers 4; heads 8; kv-heads 2; layers all: local 4 | stride 8 phase kv; kv 1: dense",
         "layers 4; heads 8; kv-heads 2; layers all: local 4 | stride 8 phase head+1"},
        {"duo", "heads 4; layers all: sink 1 | local 2; heads 1: dense; heads 2: local 3",
         "heads 4; layers all: sink 1 | local 128t; heads 1: dense"},
        {"vllm", "heads 4; layers all: topk 12", NULL},
        {"vllm", "heads 4; layers all: chunk 2", NULL},
    };
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        s2_arena arena = {0};
        const s2_pattern pattern = s2_parsed(&arena, cases[n].text);
        const s2_nearest nearest = find_nearest(&arena, cases[n].to, &pattern, 1024);
        if (cases[n].nearest == NULL)
            assert_null(nearest.text);
        else if (nearest.text == NULL)
            fail_msg("nothing near %s for %s", cases[n].text, cases[n].to);
        else
            assert_string_equal(nearest.text, cases[n].nearest);
        s2_arena_release(&arena);
    }
}

static int32_t array_at(const exported *out, const char *name, int64_t at)
{
    s2_array array;
    s2_file file;
    const s2_finder finder = {.set = &out->files};
    assert_int_equal(s2_finder_read(&finder, out->files.arena, name, S2_FILE_BYTES, &file, NULL), S2_OK);
    assert_int_equal(s2_array_read(file.bytes, file.n_bytes, &array, NULL), S2_OK);
    assert_true(at < array.n);
    return s2_array_i32(&array, at);
}

/* H=2, four blocks, local 1, stride 2, phase +1: the arrays of each format, worked out by hand. */
static void arrays_of_a_small_pattern_are_those_worked_out_by_hand(void **state)
{
    (void)state;
    static const int32_t crow[10] = {0, 1, 2, 4, 6, 0, 1, 3, 5, 8};
    static const int32_t col[16] = {0, 1, 1, 2, 1, 3, -1, -1, 0, 0, 1, 0, 2, 0, 2, 3};
    static const int32_t full_count[8] = {0, 0, 1, 1, 0, 1, 1, 2};
    s2_arena arena = {0};
    const s2_pattern pattern =
        s2_parsed(&arena, "heads 2; block 128; layers all: local 1 | stride 2 phase head+1");
    exported out;
    assert_int_equal(try_export(&out, "csr", &pattern, 512), S2_OK);
    assert_false(out.report.difference.differs);
    for (int at = 0; at < 10; at++)
        assert_int_equal(array_at(&out, "layout0_crow.npy", at), crow[at]);
    for (int at = 0; at < 16; at++)
        assert_int_equal(array_at(&out, "layout0_col.npy", at), col[at]);
    exported_release(&out);
    assert_int_equal(try_export(&out, "flex", &pattern, 512), S2_OK);
    for (int at = 0; at < 8; at++) {
        assert_int_equal(array_at(&out, "layout0_kv_num_blocks.npy", at), 1);
        assert_int_equal(array_at(&out, "layout0_kv_indices.npy", at * 4), at % 4);
        assert_int_equal(array_at(&out, "layout0_full_kv_num_blocks.npy", at), full_count[at]);
    }
    exported_release(&out);
    assert_int_equal(try_export(&out, "flashinfer", &pattern, 512), S2_OK);
    for (int at = 0; at < 5; at++)
        assert_int_equal(array_at(&out, "plan0_indptr.npy", at), crow[at]);
    for (int at = 0; at < 6; at++)
        assert_int_equal(array_at(&out, "plan0_indices.npy", at), col[at]);
    exported_release(&out);
    s2_arena_release(&arena);
}

/* One file of two planes: the heads have the same term, and read different blocks. */
static void heads_keep_their_own_planes_of_a_mask(void **state)
{
    (void)state;
    static const char *const formats[] = {"csr", "flashinfer"};
    static const uint8_t planes[2 * 16] = {1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1,
                                           1, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1};
    s2_arena arena = {0};
    s2_mask mask = {.path = "m.npy", .n_heads = 2, .n_q_blk = 4, .n_k_blk = 4, .allowed = planes};
    s2_mask_seal(&mask);
    s2_term term = s2_term_init(S2_TERM_MASK, 0);
    const s2_body body = {1, &term};
    s2_pattern pattern = s2_parsed(&arena, "heads 2; block 128; layers all: dense");
    term.mask = &mask;
    pattern.bodies = &body;
    assert_int_equal(s2_pattern_check(&pattern, NULL), S2_OK);
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        exported out;
        if (try_export(&out, formats[f], &pattern, 512) != S2_OK)
            fail_msg("%s: %s", formats[f], out.diag.msg);
        if (out.report.difference.differs)
            fail_msg("%s differs at head %d, query %lld, key %lld", formats[f], out.report.difference.head,
                     (long long)out.report.difference.q_tok, (long long)out.report.difference.k_tok);
        exported_release(&out);
    }
    s2_arena_release(&arena);
}

static s2_status import_array(imported *at, const char *dtype, int64_t rows, int64_t cols, const void *data,
                              size_t n_bytes, const char *settings)
{
    const int64_t shape[] = {rows, cols};
    s2_buf file = {0};
    *at = (imported){0};
    assert_int_equal(s2_npy_header(dtype, shape, 2, &file), S2_OK);
    s2_buf_add(&file, data, n_bytes);
    const char *const kept = s2_arena_strndup(&at->arena, file.data, file.len);
    const s2_status status = try_import(at, NULL, kept, file.len, settings, NULL);
    s2_buf_release(&file);
    return status;
}

/* Two rows that both allow the second key: an array alone does not say whether a causal kernel reads it. */
static void keys_after_their_queries_are_never_dropped_in_silence(void **state)
{
    (void)state;
    static const uint8_t cells[] = {1, 1, 0, 1};
    static const struct {
        const char *settings;
        s2_status status;
        bool reads, warns;
    } rows[] = {{"block=16", S2_EINVAL, false, false},
                {"block=16 causal=1", S2_OK, false, true},
                {"block=16 causal=0", S2_OK, true, false}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        imported at;
        assert_int_equal(import_array(&at, "|b1", 2, 2, cells, sizeof cells, rows[r].settings),
                         rows[r].status);
        if (rows[r].status == S2_OK) {
            assert_int_equal(s2_pattern_reads(&at.pattern, S2_PREFILL, 0, 0, 32, 3, 16), rows[r].reads);
            assert_int_equal(warns(&at, "keys after their queries are allowed, in 1 of 3 cells"),
                             rows[r].warns);
        } else {
            assert_non_null(strstr(at.diag.msg, "--set causal=0 reads them"));
        }
        imported_release(&at);
    }
}

static void manifests_that_list_later_keys_say_what_they_lose(void **state)
{
    (void)state;
#define SHAPE                                                                                                \
    "{\"num_attention_heads\": 1, \"block_size\": 128, \"len\": 256, %s\"layouts\": [{\"layers\": [0], "
    static const char *const texts[] = {
        SHAPE "\"crow\": [[0, 2, 3]], \"col\": [[0, 1, 1]]}]}",
        SHAPE "\"head_mask_type\": [1], \"base_blockmask\": [[[[1, 1], [0, 1]]]]}]}",
        ("{\"block_row_indices\": [[0, 2, 3]], \"block_col_indices\": [[0, 1, 1]], \"num_heads\": 1, %s"
         "\"sparse_block_size\": 128}"),
    };
#undef SHAPE
    for (size_t r = 0; r < sizeof texts / sizeof *texts; r++)
        for (int causal = 0; causal < 2; causal++) {
            char text[512];
            imported at;
            const bool always = strstr(texts[r], "block_row_indices") != NULL; /* ONNX Runtime's is causal */
            snprintf(text, sizeof text, texts[r], causal || always ? "" : "\"causal\": false, ");
            import_text(&at, text, "");
            assert_int_equal(warns(&at, "in 1 of 3 cells"), causal || always);
            assert_int_equal(at.pattern.causal, causal || always);
            imported_release(&at);
        }
    imported dense;
    import_text(&dense,
                "{\"num_attention_heads\": 2, \"block_size\": 128, \"len\": 256, \"layouts\": [{"
                "\"layers\": [0], \"head_mask_type\": [0, 1], \"base_blockmask\": [[[[1, 0], [0, 1]]]]}]}",
                "");
    assert_false(warns(&dense, "cells"));
    imported_release(&dense);
}

/* What np.packbits(mask, axis=-1) writes is the mask; bits behind the last column are nobody's. */
static void packed_arrays_are_the_arrays_that_were_packed(void **state)
{
    (void)state;
    enum { N = 11 };
    uint8_t cells[N * N], bits[N * 2] = {0};
    for (int64_t n = 0; n < N * N; n++) {
        cells[n] = n % N <= n / N && n % 3 != 1;
        bits[n / N * 2 + n % N / 8] |= (uint8_t)(cells[n] << (7 - n % N % 8));
    }
    imported plain, packed;
    s2_difference difference;
    bits[1] |= 1;
    assert_int_equal(import_array(&plain, "|b1", N, N, cells, sizeof cells, "block=1"), S2_OK);
    assert_int_equal(import_array(&packed, "|u1", N, 2, bits, sizeof bits, "block=1"), S2_OK);
    assert_int_equal(s2_patterns_compare(&plain.pattern, &packed.pattern, N, NULL, &difference), S2_OK);
    assert_false(difference.differs);
    imported_release(&plain);
    imported_release(&packed);
}

static void a_length_inside_a_block_is_refused_with_those_that_fit(void **state)
{
    (void)state;
    static const uint8_t planes[37 * 37] = {1};
    static const struct {
        int32_t n_blk;
        int64_t n_tok;
        const char *says;
    } rows[] = {{37, 592, "--len 512 is"},
                {37, 300, "--len 256 and --len 384 are"},
                {37, 100, "--len 128 is"},
                {7, 100, "no other length is"}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        s2_arena arena = {0};
        exported out;
        s2_mask mask = {.path = "m.npy",
                        .n_heads = 1,
                        .n_q_blk = rows[r].n_blk,
                        .n_k_blk = rows[r].n_blk,
                        .allowed = planes};
        s2_mask_seal(&mask);
        s2_term term = s2_term_init(S2_TERM_MASK, 0);
        const s2_body body = {1, &term};
        s2_pattern pattern = s2_parsed(&arena, "heads 1; block 16; layers all: dense");
        term.mask = &mask;
        pattern.bodies = &body;
        assert_int_equal(try_export(&out, "bsa", &pattern, rows[r].n_tok), S2_EINVAL);
        if (strstr(out.diag.msg, rows[r].says) == NULL)
            fail_msg("%lld tokens: %s", (long long)rows[r].n_tok, out.diag.msg);
        exported_release(&out);
        s2_arena_release(&arena);
    }
}

static void arrays_that_do_not_fit_are_refused(void **state)
{
    (void)state;
#define SHAPE "\"num_attention_heads\": 1, \"block_size\": 16, \"len\": 32, "
    static const char *const texts[] = {
        "{" SHAPE "\"layouts\": [{\"layers\": [0], \"crow\": [[0, 1, 9]], \"col\": [[0, 1]]}]}",
        "{" SHAPE "\"layouts\": [{\"layers\": [0], \"crow\": [[0, 2, 1]], \"col\": [[0, 1]]}]}",
        "{" SHAPE "\"layouts\": [{\"layers\": [0], \"crow\": [[0, 1, 2]], \"col\": [[0, 2]]}]}",
        "{" SHAPE "\"layouts\": [{\"layers\": [0], \"crow\": [[0, 1, 2]], \"col\": [[0, -1]]}]}",
        "{" SHAPE "\"layouts\": [{\"layers\": [7], \"crow\": [[0, 1, 2]], \"col\": [[0, 1]]}]}",
        "{" SHAPE "\"layouts\": [{\"layers\": [], \"crow\": [[0, 1, 2]], \"col\": [[0, 1]]}]}",
        "{" SHAPE "\"layouts\": [{\"layers\": [0], \"crow\": [[0, 1, 2], [0]], \"col\": [[0, 1]]}]}",
        "{" SHAPE "\"layouts\": [{\"layers\": [0], \"crow\": \"/etc/passwd\", \"col\": [[0, 1]]}]}",
        "{\"indptr\": [0, 1, 2], \"indices\": [0, 2], \"M\": 32, \"N\": 32, \"R\": 16, \"C\": 16}",
        "{\"indptr\": [0, 3, 2], \"indices\": [0, 1], \"M\": 32, \"N\": 32, \"R\": 16, \"C\": 16}",
        "/* s2 block lists 1 */ S2_N_LAYERS = 1, S2_N_HEADS = 1, S2_N_KV_HEADS = 1, S2_HEAD_DIM = 1, "
        "S2_BLOCK_TOK = 1, S2_N_BLK = 2,"
        " S2_N_LISTS = 1, S2_CAUSAL = 1, int32_t s2_list_of[] = {0} int32_t s2_row_begin[] = {0, 5, 2} "
        "int32_t s2_k_blk[] = {0, 1}",
        "\x93NUMPY\x01",
    };
#undef SHAPE
    for (size_t r = 0; r < sizeof texts / sizeof *texts; r++) {
        imported at = {0};
        const s2_status status = try_import(&at, NULL, texts[r], strlen(texts[r]), "", NULL);
        if (status != S2_EPARSE && status != S2_EUNSUPPORTED)
            fail_msg("\"%s\" gives status %d", texts[r], status);
        imported_release(&at);
    }
    imported at;
    import_text(&at,
                "{\"indptr\": [0, 1, 3], \"indices\": [0, 0, 1], \"M\": 32, \"N\": 32, \"R\": 16, \"C\": 16, "
                "\"causal\": true}",
                "");
    assert_true(s2_pattern_reads(&at.pattern, S2_PREFILL, 0, 0, 32, 31, 16));
    assert_false(s2_pattern_reads(&at.pattern, S2_PREFILL, 0, 0, 32, 3, 16));
    imported_release(&at);
}

/* ---- hostile input ------------------------------------------------------------------------------------ */

static void malformed_files_are_refused_with_a_position(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int32_t line, col;
    } rows[] = {
        {"{\"blocksparse_vert_stride\": 8,\n \"blocksparse_block_size\": 63}", 2, 28},
        {"{\"blocksparse_vert_stride\": 8,\n \"blocksparse_block_size\": \"64\"}", 2, 28},
        {"{\"blocksparse_vert_stride\": 0, \"blocksparse_block_size\": 64, \"blocksparse_num_local_blocks\": "
         "4}",
         1, 29},
        {"{\"blocksparse_vert_stride\": 99999999999999999999}", 1, 0},
        {"{\"blocksparse_vert_stride\": 8, \"blocksparse_vert_stride\": 8}", 1, 0},
        {"{\"blocksparse_vert_stride\": 8", 1, 0},
        {"{\"blocksparse_vert_stride\": 8, \"blocksparse_block_size\": 64, \"blocksparse_num_local_blocks\": "
         "4}",
         1, 1},
        {"[{\"0\": [\"vertical_and_slash\", 1, 2, 1]},\n {\"0\": [\"sideways\", 1, 2, 1]}]", 2, 9},
        {"[{\"0\": [\"vertical_and_slash\", 1, -2, 1]}]", 1, 34},
        {"{\"alphas\": [[0, 0]], \"betas\": [[0]]}", 1, 32},
        {"{\"alphas\": [[0, \"x\"]], \"betas\": [[0, 0]]}", 1, 17},
        {"0.5\t0.5\n0.5\n", 2, 1},
        {"0.5\t0.5\n0.5\t1e\n", 2, 5},
        {"0.5\tnan\n", 0, 0},
        {"{\"sparse_attention\": {\"mode\": \"sideways\", \"block\": 16}}", 1, 31},
        {"{\"sparse_attention\": {\"mode\": \"fixed\", \"block\": 3}}", 1, 49},
        {"{\"num_attention_heads\": 4, \"sliding_window\": 128, \"num_hidden_layers\": 2, \"layer_types\": "
         "[\"full_attention\", 3]}",
         1, 109},
        {"\xff\xfe\x00\x01", 0, 0},
        {"", 0, 0},
        {"{}", 0, 0},
        {"[[[[[[[[[[", 1, 0},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        imported at = {0};
        const s2_status status = try_import(&at, NULL, rows[r].text, strlen(rows[r].text), "", NULL);
        if (status != S2_EPARSE && !(status == S2_EUNSUPPORTED && rows[r].line == 0))
            fail_msg("\"%s\" gives status %d", rows[r].text, status);
        if (rows[r].line != 0 && at.diag.line != rows[r].line)
            fail_msg("\"%s\": line %d, col %d: %s", rows[r].text, at.diag.line, at.diag.col, at.diag.msg);
        if (rows[r].col != 0 && at.diag.col != rows[r].col)
            fail_msg("\"%s\": line %d, col %d: %s", rows[r].text, at.diag.line, at.diag.col, at.diag.msg);
        imported_release(&at);
    }
}

/* Every format, told by name what is not its own: refused or read, never a crash. */
static void any_file_under_any_name_is_answered(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "{}",
                                        "[]",
                                        "[{}]",
                                        "\x04--a \0 1",
                                        "0.5\t1\n",
                                        "3",
                                        "{\"layouts\": [{}]}",
                                        "a=1",
                                        "{\"plans\": [{}]}",
                                        "{\"sparse_attention\": 3, \"alphas\": [], \"betas\": []}",
                                        "\x93NUMPY\x01"};
    for (int32_t n = 0; s2_format_at(n) != NULL; n++)
        for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
            imported at = {0};
            const size_t n_bytes = t == 4 ? 9 : strlen(texts[t]);
            const s2_status status = try_import(&at, s2_format_at(n)->name, texts[t], n_bytes, "", NULL);
            if (status == S2_OK ? s2_pattern_check(&at.pattern, NULL) != S2_OK : status == S2_EINTERNAL)
                fail_msg("%s on text %zu gives %d", s2_format_at(n)->name, t, status);
            imported_release(&at);
        }
}

static void deep_and_long_files_are_bounded(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    char *const text = malloc(N);
    imported at = {0};
    memset(text, '[', N);
    assert_int_equal(try_import(&at, NULL, text, N, "", NULL), S2_EPARSE);
    assert_true(at.diag.line == 1 && at.diag.col > 1000);
    imported_release(&at);
    at = (imported){0};
    for (int n = 0; n < N; n++)
        text[n] = "0.5\t"[n % 4];
    assert_int_equal(try_import(&at, NULL, text, N, "", NULL), S2_EPARSE);
    imported_release(&at);
    free(text);
}

/* Every truncation and many single-byte changes of good files: an answer, never a crash. */
static void mutated_files_are_answered(void **state)
{
    (void)state;
    static const char *const texts[] = {
        PHI3,
        "{\"sparse_attention\": {\"mode\": \"variable\", \"local_window_blocks\": [2, 2, 4], "
        "\"global_block_indices\": [0, 3],"
        "\"global_block_end_indices\": [1, 5], \"num_random_blocks\": 1}}",
        "[{\"0\": [\"vertical_and_slash\", 1000, 6096, 0.5], \"1\": [\"stream_llm\", 100, 800, 1]}]",
        "{\"alphas\": [[0, 1024]], \"betas\": [[0.5, 0.125]]}",
        "0.5\t0.25\n1.0\t-3e-4\n",
        "BlocksparseParams(max_seqlen=8192, num_heads=32, num_kv_heads=8, block_size=64, local_blocks=16, "
        "vert_stride=8)",
        "--ctx-sink-token 128 --ctx-local-token 8192 --dynamic-sparse-token-budget 4096",
        "{\"num_attention_heads\": 4, \"num_hidden_layers\": 2, \"sliding_window\": 9, \"layer_types\": "
        "[\"full_attention\", \"sliding_attention\"]}",
    };
    s2_rng rng = {s2_test_seed(5)};
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        const size_t n = strlen(texts[t]);
        for (size_t c = 0; c < n + 300; c++) {
            char *const copy = malloc(n + 1);
            memcpy(copy, texts[t], n + 1);
            const size_t len = c < n ? c : n;
            if (c >= n)
                copy[s2_rng_below(&rng, n)] = (char)s2_rng_below(&rng, 256);
            imported at = {0};
            const s2_status status = try_import(&at, NULL, copy, len, "", NULL);
            assert_true(status == S2_OK || status == S2_EPARSE || status == S2_EUNSUPPORTED ||
                        status == S2_EIO || status == S2_EINVAL);
            imported_release(&at);
            free(copy);
        }
    }
}

/* Rows of many terms need memory of their own; without it nothing is known of them. */
static void patterns_are_not_equal_for_want_of_memory(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_buf text = {0};
    s2_buf_puts(&text, "heads 1; layers all: local 2");
    for (int32_t block = 3; block < 83; block += 2)
        s2_buf_printf(&text, " | columns %d", (int)block);
    const s2_pattern a = s2_parsed(&arena, text.data);
    s2_buf_puts(&text, " | columns 90");
    const s2_pattern b = s2_parsed(&arena, text.data);
    s2_status status = S2_ENOMEM;
    for (int64_t n = 1; status != S2_OK; n++) {
        int64_t left = n - 1;
        s2_difference difference = {0};
        s2_alloc_set_hook(s2_test_fail_from, &left);
        status = s2_patterns_compare(&a, &b, 8192, NULL, &difference);
        s2_alloc_set_hook(NULL, NULL);
        assert_true(status == S2_ENOMEM || (status == S2_OK && difference.differs));
    }
    s2_buf_release(&text);
    s2_arena_release(&arena);
}

static void every_failed_allocation_is_out_of_memory(void **state)
{
    (void)state;
    static const char *const texts[] = {
        PHI3,
        "0.5\t0.25\n1.0\t-3e-4\n",
        "[{\"0\": [\"vertical_and_slash\", 1000, 6096, 0.5]}]",
        "--start_size 4 --recent_size 2000",
        "sparse_attention_config:\n  algorithm: rocket\n  list: [1, 2.5, x]\n",
        "{ // HJSON\n sparse_attention: { mode: fixed\n block: 16 } }",
        "{'0-0': [1, 2], '0-1': [3]}"};
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        s2_status status = S2_ENOMEM;
        for (int64_t n = 1; status != S2_OK && n < 3000; n++) {
            int64_t left = n - 1;
            imported at = {0};
            s2_alloc_set_hook(s2_test_fail_one, &left);
            status = try_import(&at, NULL, texts[t], strlen(texts[t]), "", NULL);
            s2_alloc_set_hook(NULL, NULL);
            if (status != S2_OK && status != S2_ENOMEM)
                fail_msg("allocation %lld of text %zu: status %d %s", (long long)n, t, status, at.diag.msg);
            imported_release(&at);
        }
        assert_int_equal(status, S2_OK);
    }
}

/* A file of heads that all differ takes as many steps as it has lists, and ends where none are left. */
static void a_file_takes_a_stated_number_of_steps(void **state)
{
    (void)state;
    static const char *const formats[] = {"csr", "flashinfer", "bsa", "c"};
    s2_arena arena = {0};
    s2_buf text = {0};
    s2_pattern pattern;
    s2_buf_puts(&text, "heads 32; block 128; all: local 1");
    for (int32_t head = 0; head < 32; head++)
        s2_buf_printf(&text, "; heads %d: local 1 | random 3 seed %d", (int)head, (int)head);
    assert_int_equal(s2_pattern_parse(&arena, text.data, text.len, NULL, &pattern, NULL), S2_OK);
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
        for (int pass = 0; pass < 2; pass++) {
            exported at = {0};
            int64_t left = pass == 0 ? 1000 : S2_WORK_STEPS;
            at.files.arena = &at.arena;
            s2_target target = {.arena = &at.arena,
                                .pattern = &pattern,
                                .n_tok = 4096,
                                .provenance = "",
                                .notes = &at.notes,
                                .files = &at.files,
                                .work_left = &left,
                                .diag = &at.diag};
            const s2_status status = s2_export_run(s2_format_find(formats[f]), &target, &at.report);
            if (status != (pass == 0 ? S2_ELIMIT : S2_OK))
                fail_msg("%s: %s", formats[f], s2_diag_text(&at.diag, status));
            assert_true(pass == 1 || strstr(at.diag.msg, "a shorter --len") != NULL);
            assert_ptr_equal(target.work_left, &left);
            exported_release(&at);
        }
    s2_buf_release(&text);
    s2_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_takes_a_stated_number_of_steps),
        cmocka_unit_test(phi3_small_has_the_published_counts),
        cmocka_unit_test(phi3_small_needs_72_blocks_per_kv_head),
        cmocka_unit_test(phi3_128k_differs_from_8k_in_length_alone),
        cmocka_unit_test(the_phase_is_one_later_than_in_dkernel),
        cmocka_unit_test(dkernel_readme_has_the_published_density),
        cmocka_unit_test(a_call_in_python_is_read_like_its_arguments),
        cmocka_unit_test(dkernel_on_four_kv_heads_leaves_half_the_columns_unread),
        cmocka_unit_test(names_of_other_stacks_give_the_same_pattern),
        cmocka_unit_test(homo_head_group_makes_prefill_and_decode_disagree),
        cmocka_unit_test(members_of_the_stride_family_survive_every_format),
        cmocka_unit_test(files_of_tensor_parallel_ranks_are_read_back_as_the_whole_model),
        cmocka_unit_test(ranks_that_count_their_heads_from_zero_are_compared_as_they_read),
        cmocka_unit_test(checkpoints_of_tensorrt_llm_are_read_as_its_code_reads_them),
        cmocka_unit_test(checkpoints_whose_code_is_not_known_are_refused),
        cmocka_unit_test(what_the_consumer_would_reject_or_misread_is_refused),
        cmocka_unit_test(bsa_has_a_mask_for_each_sparse_head),
        cmocka_unit_test(what_is_not_of_the_family_is_refused_with_a_pair),
        cmocka_unit_test(comparison_and_loss_equal_enumeration),
        cmocka_unit_test(a_difference_far_out_is_found_for_every_length),
        cmocka_unit_test(equal_patterns_written_differently_are_equal_at_every_length),
        cmocka_unit_test(published_figures_of_other_formats_hold),
        cmocka_unit_test(deepspeed_fixed_has_the_published_counts),
        cmocka_unit_test(deepspeed_fixed_equals_its_layout_restated),
        cmocka_unit_test(duo_roles_follow_the_quantile_and_state_ties),
        cmocka_unit_test(duo_follows_a_link_to_its_folder_and_no_further),
        cmocka_unit_test(duo_chunked_prefill_equals_its_definition),
        cmocka_unit_test(moa_widths_follow_alpha_and_beta),
        cmocka_unit_test(budgets_of_eviction_methods_are_kept),
        cmocka_unit_test(families_survive_their_own_format),
        cmocka_unit_test(arrays_hold_random_patterns_or_state_the_loss),
        cmocka_unit_test(every_exporter_holds_a_random_pattern_or_says_what_is_lost),
        cmocka_unit_test(what_is_read_and_written_again_stays_the_same),
        cmocka_unit_test(what_is_suggested_for_a_refused_pattern_is_held),
        cmocka_unit_test(the_nearest_of_a_rotation_keeps_window_stride_and_dense_layers),
        cmocka_unit_test(arrays_of_a_small_pattern_are_those_worked_out_by_hand),
        cmocka_unit_test(heads_keep_their_own_planes_of_a_mask),
        cmocka_unit_test(keys_after_their_queries_are_never_dropped_in_silence),
        cmocka_unit_test(manifests_that_list_later_keys_say_what_they_lose),
        cmocka_unit_test(packed_arrays_are_the_arrays_that_were_packed),
        cmocka_unit_test(a_length_inside_a_block_is_refused_with_those_that_fit),
        cmocka_unit_test(arrays_that_do_not_fit_are_refused),
        cmocka_unit_test(malformed_files_are_refused_with_a_position),
        cmocka_unit_test(any_file_under_any_name_is_answered),
        cmocka_unit_test(deep_and_long_files_are_bounded),
        cmocka_unit_test(mutated_files_are_answered),
        cmocka_unit_test(patterns_are_not_equal_for_want_of_memory),
        cmocka_unit_test(every_failed_allocation_is_out_of_memory),
    };
    return cmocka_run_group_tests_name("export", tests, NULL, NULL);
}

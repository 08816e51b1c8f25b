/*
 * Foreign files as they are found: the small ones of tests/data/foreign/, told by their content; YAML and
 * HJSON; methods of which only budgets are known; and, where they are at hand, files as their authors
 * published them.
 */
#include "tests/s2test.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "export/registry.h"
#include "export/layout.h"
#include "export/stored.h"
#include "export/widths.h"
#include "pattern/dense.h"
#include "pattern/parse.h"
#include "sim/net.h"
#include "sim/price.h"
#include "tests/s2import.h"

#define FOREIGN "tests/data/foreign"

/* The canonical text of what was imported, in its arena. */
static const char *text_of(imported *at)
{
    s2_buf text = {0};
    s2_pattern_print(&at->pattern, &text);
    const char *const kept = s2_arena_strndup(&at->arena, text.data, text.len);
    s2_buf_release(&text);
    return kept;
}

static s2_status import_path(imported *at, const char *dir, const char *name, const char *settings)
{
    char path[1024];
    s2_file file;
    *at = (imported){0};
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(s2_file_read(&at->arena, path, S2_DOC_BYTES, &file, &at->diag), S2_OK);
    split_settings(at, settings);
    at->side.arena = &at->arena;
    s2_source source = {.arena = &at->arena,
                        .name = file.name,
                        .bytes = file.bytes,
                        .n_bytes = file.n_bytes,
                        .finder = {.dir = dir},
                        .settings = {at->set, at->n_set},
                        .notes = &at->notes,
                        .side = &at->side,
                        .diag = &at->diag};
    return s2_import_run(&source, NULL, &at->format, &at->pattern);
}

static bool is_plain_file(const char *dir, const char *name)
{
    char path[1024];
    struct stat info;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

/* ---- the files of tests/data/foreign ---------------------------------------------------------------- */

/* What a file of the format cannot say of itself. */
static const char *needed_settings(const s2_format *format)
{
    return strcmp(format->name, "npy") == 0 ? "block=64" : "";
}

static void every_format_is_told_by_the_content_of_its_files(void **state)
{
    (void)state;
    for (int32_t n = 0; s2_format_at(n) != NULL; n++) {
        const s2_format *const format = s2_format_at(n);
        char dir[128];
        int n_files = 0;
        snprintf(dir, sizeof dir, FOREIGN "/%s", format->name);
        DIR *const folder = opendir(dir);
        if (folder == NULL)
            fail_msg("%s has no example under %s", format->name, FOREIGN);
        for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
            imported at;
            if (!is_plain_file(dir, entry->d_name))
                continue;
            if (import_path(&at, dir, entry->d_name, needed_settings(format)) != S2_OK)
                fail_msg("%s/%s:%d:%d: %s", dir, entry->d_name, at.diag.line, at.diag.col, at.diag.msg);
            assert_string_equal(at.format->name, format->name);
            assert_int_equal(s2_pattern_check(&at.pattern, NULL), S2_OK);
            imported_release(&at);
            n_files++;
        }
        closedir(folder);
        assert_true(n_files > 0);
    }
}

/* Is what this file says written by the format that read it, as the same pairs? */
static bool is_written_again(const char *dir, const char *name)
{
    imported at;
    s2_export_report report = {0};
    s2_diag diag = {0};
    if (import_path(&at, dir, name, "") != S2_OK)
        return false;
    s2_fileset files = {.arena = &at.arena};
    s2_target target = {.arena = &at.arena,
                        .pattern = &at.pattern,
                        .n_tok = 512,
                        .provenance = "",
                        .notes = &at.notes,
                        .files = &files,
                        .diag = &diag};
    const s2_status status = s2_export_run(at.format, &target, &report);
    imported_release(&at);
    return status == S2_OK && !report.refused;
}

/* A writer that refuses whatever its reader gives it holds nothing. */
static void every_format_that_is_written_holds_one_of_its_own_files(void **state)
{
    (void)state;
    for (int32_t n = 0; s2_format_at(n) != NULL; n++) {
        const s2_format *const format = s2_format_at(n);
        char dir[128];
        int n_held = 0;
        if (format->write == NULL || format->fixed_length)
            continue;
        snprintf(dir, sizeof dir, FOREIGN "/%s", format->name);
        DIR *const folder = opendir(dir);
        assert_non_null(folder);
        for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
            n_held += is_plain_file(dir, entry->d_name) && is_written_again(dir, entry->d_name);
        closedir(folder);
        printf("# s2: %s: %d of its own files written again\n", format->name, n_held);
        if (n_held == 0)
            fail_msg("%s holds none of its own examples", format->name);
    }
}

/* Cut anywhere: an answer with a position, never a crash; most cuts are refused. */
static void files_cut_anywhere_are_answered_with_a_position(void **state)
{
    (void)state;
    for (int32_t n = 0; s2_format_at(n) != NULL; n++) {
        const s2_format *const format = s2_format_at(n);
        char dir[128];
        snprintf(dir, sizeof dir, FOREIGN "/%s", format->name);
        DIR *const folder = opendir(dir);
        for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
            s2_arena arena = {0};
            s2_file file;
            char path[512];
            snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
            if (!is_plain_file(dir, entry->d_name) ||
                s2_file_read(&arena, path, S2_DOC_BYTES, &file, NULL) != S2_OK)
                continue;
            const size_t step = file.n_bytes / 100 + 1;
            for (size_t cut = 0; cut < file.n_bytes; cut += step) {
                imported at = {0};
                const s2_status status = try_import(&at, format->name, file.bytes, cut, "", NULL);
                if (status == S2_EPARSE && at.diag.line < 1)
                    fail_msg("%s cut at %zu: refused without a position: %s", path, cut, at.diag.msg);
                if (status != S2_OK && status != S2_EPARSE && status != S2_EIO && status != S2_EUNSUPPORTED)
                    fail_msg("%s cut at %zu: status %d", path, cut, status);
                imported_release(&at);
            }
            s2_arena_release(&arena);
        }
        closedir(folder);
    }
}

/* ---- YAML and HJSON ------------------------------------------------------------------------------------ */

static void nested_yaml_is_the_same_as_json(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"sparse_attention_config:\n  index_topk: 64\nnum_attention_heads: 8\n",
         "{\"sparse_attention_config\": {\"index_topk\": 64}, \"num_attention_heads\": 8}"},
        {"num-attention-heads: 4\nnum-hidden-layers: 2\nsliding-window: 128\n"
         "layer-types: [sliding_attention, full_attention]\n",
         "{\"num_attention_heads\": 4, \"num_hidden_layers\": 2, \"sliding_window\": 128,"
         "\"layer_types\": [\"sliding_attention\", \"full_attention\"]}"},
        {"num_attention_heads: 4 # heads\nnum_hidden_layers: 2\nsliding_window: 128\nlayer_types:\n"
         "- sliding_attention\n- 'full_attention'\n",
         "{\"num_attention_heads\": 4, \"num_hidden_layers\": 2, \"sliding_window\": 128,"
         "\"layer_types\": [\"sliding_attention\", \"full_attention\"]}"},
        {"---\nsparse_attention:\n  mode: fixed\n  block: 16\n  attention: unidirectional\n",
         "{\"sparse_attention\": {\"mode\": \"fixed\", \"block\": 16, \"attention\": \"unidirectional\"}}"},
        {"{sparse_attention: {\n mode: fixed\n block: 16 # tokens\n // a comment\n attention: "
         "unidirectional\n}\n}",
         "{\"sparse_attention\": {\"mode\": \"fixed\", \"block\": 16, \"attention\": \"unidirectional\"}}"},
        {"{'max_seqlen': 64, 'num_heads': 4, 'num_kv_heads': 2, 'block_size': 16, 'local_blocks': 2,"
         "'vert_stride': 2, 'homo_head': False, }",
         "{\"max_seqlen\": 64, \"num_heads\": 4, \"num_kv_heads\": 2, \"block_size\": 16, \"local_blocks\": "
         "2,"
         "\"vert_stride\": 2, \"homo_head\": false}"},
    };
    for (size_t r = 0; r < sizeof pairs / sizeof *pairs; r++) {
        imported a, b;
        import_text(&a, pairs[r][0], "");
        import_text(&b, pairs[r][1], "");
        assert_string_equal(a.format->name, b.format->name);
        assert_string_equal(text_of(&a), text_of(&b));
        imported_release(&a);
        imported_release(&b);
    }
}

/* Python writes numbers that JSON has no words for, in Mamba's time_step_limit, and reads them. */
static void words_of_python_for_numbers_are_read_wherever_they_stand(void **state)
{
    (void)state;
    static const char *const limits[] = {"[0.0, Infinity]", "[-Infinity, 1]", "[0.0,\n Infinity\n]", "NaN"};
    for (size_t r = 0; r < sizeof limits / sizeof *limits; r++) {
        imported at;
        char text[200];
        snprintf(text, sizeof text,
                 "{\"model_type\": \"llama\", \"time_step_limit\": %s, \"num_hidden_layers\": 2, "
                 "\"num_attention_heads\": 4}",
                 limits[r]);
        import_text(&at, text, "");
        assert_int_equal(at.pattern.n_layers, 2);
        imported_release(&at);
        snprintf(text, sizeof text, "{\"model_type\": \"llama\", \"num_hidden_layers\": Infinity}");
        assert_int_equal(try_import(&at, "layers", text, strlen(text), "", NULL), S2_EPARSE);
        imported_release(&at);
    }
}

static void a_period_may_be_written_in_letters(void **state)
{
    (void)state;
    static const struct {
        const char *letters, *full; /* one digit a layer */
    } rows[] = {{"LLLG", "0001001"}, {"GL", "1010101"}, {"G", "1111111"}, {"L", "0000001"}};
    char text[300];
    imported at;
    static const char model[] =
        "{\"model_type\": \"exaone4\", \"num_hidden_layers\": 7, \"num_attention_heads\": 2, "
        "\"sliding_window\": 64, \"sliding_window_pattern\": \"%s\"}";
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        snprintf(text, sizeof text, model, rows[r].letters);
        import_text(&at, text, "");
        for (int32_t layer = 0; layer < 7; layer++)
            assert_int_equal(s2_pattern_is_dense(&at.pattern, S2_PREFILL, layer), rows[r].full[layer] == '1');
        imported_release(&at);
    }
    snprintf(text, sizeof text, model, "LLXG");
    assert_int_equal(try_import(&at, "layers", text, strlen(text), "", NULL), S2_EPARSE);
    imported_release(&at);
}

static void what_yaml_and_hjson_must_not_hold_is_refused_in_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *from, *text;
        int32_t line, col;
    } rows[] = {
        {"kvpress", "press_name: snapkv\nlist: [1, &a 2]\n", 2, 11},
        {"kvpress", "press_name: &a snapkv\nother: *a\n", 1, 13},
        {"kvpress", "press_name: !!python/object:os.system snapkv\n", 1, 13},
        {"kvpress", "press_name: snapkv\npress_name: tova\n", 2, 13},
        {"kvpress", "press_name: snapkv\n---\npress_name: tova\n", 2, 1},
        {"kvpress", "press_name: snapkv\n\tcompression_ratio: 0.5\n", 2, 0},
        {"kvpress", "press_name: snapkv\ncompression_ratio: [0.5]\n", 2, 20},
        {"kvpress", "press_name: snapkv\ncompression_ratio: 1.5\n", 2, 20},
        {"kvpress", "press_name: unheard_of\n", 1, 13},
        {"kvpress", "press_name: duo_attention\n", 1, 13},
        {"kvpress", "press_name: finch\n", 1, 13},
        {"kvpress", "press_name: kvzap_linear\n", 1, 13},
        {"lserve", "--dec-sink-token 128\n--static-sparsity 0.5\n", 2, 3},
        {"lserve", "--dec-sink-token 130\n", 1, 3},
        {"lserve", "--dec-sink-token 128\n--dynamic-sparse-token-budget 100\n", 2, 3},
        {"megatron",
         "--sparse-block-size 64 --sparse-local-blocks 4 --sparse-vertical-stride 8\n"
         "--num-attention-heads 8\n--window-size 100,0\n",
         3, 3},
        {"megatron",
         "--sparse-block-size 64 --sparse-local-blocks 4 --sparse-vertical-stride 8\n"
         "--num-attention-heads 8\n--window-size 512,512\n",
         3, 3},
        {"deepspeed", "{\"sparse_attention\": {\"mode\": \"fixed\",\n \"num_different_global_patterns\": 2}}",
         2, 35},
        {"deepspeed",
         "{\"sparse_attention\": {\"mode\": \"variable\", \"attention\": \"unidirectional\",\n "
         "\"horizontal_global_attention\": true}}",
         2, 33},
        {"kvpress", "press_name: \"sn\\0apkv\"\n", 1, 13},
        {"chosen", "seerattn_gate_block_size: 64\nseerattn_sparsity_method: threshold\n", 2, 27},
        {"chosen", "block_size: 128\nflex_prefill_gamma: 0.9\n", 2, 21},
        {"chosen", "block_size: 96\nthreshold: 0.9\nkeep_recent: true\n", 1, 13},
        {"chosen", "{\"sparse_config\": {\"kernel_stride\": 16, \"topk\": 4, \"init_blocks\": 5}}", 1, 67},
        {"dkernel",
         "num_heads: 8\nblock_size: 64\nlocal_blocks: 4\nvert_stride: 4\nhomo_head: true\nnum_dense_heads: "
         "1\n",
         5, 12},
        {"dkernel",
         "num_heads: 8\nblock_size: 64\nlocal_blocks: 4\nvert_stride: 4\nhomo_head: true\nnum_kv_heads: 2\n",
         5, 12},
        {"layers",
         "{\"model_type\": \"inkling_text\", \"num_hidden_layers\": 1, \"num_attention_heads\": 2,\n "
         "\"layer_types\": "
         "[\"full_attention\"]}",
         2, 18},
        {"layers",
         "{\"model_type\": \"prophetnet\", \"num_decoder_layers\": 1, \"num_decoder_attention_heads\": 2,\n "
         "\"is_causal\": false}",
         2, 15},
        {"dsa", "{\"index_topk\": 2048,\n \"is_causal\": false}", 2, 15},
        {"rocket", "sparse_attention_config:\n  algorithm: skip_softmax\n", 2, 14},
        {"dsa", "sparse_attention_config:\n  algorithm: deepseek_v4\n", 2, 14},
        {"dsa", "sparse_attention_config:\n  algorithm: unheard_of\n  index_topk: 64\n", 2, 14},
        {"dsa", "top_k: 2048\ndevice_buffer_size: 1024\n", 2, 21},
        {"dsa",
         "sparse_attention_config:\n  sparse_topk_blocks: 2\n  sparse_local_blocks: 2\n  sparse_init_blocks: "
         "1\n",
         2, 23},
        {"nsa", "block_size: 64\nblock_counts: 2\n", 2, 15},
        {"nsa", "selection_block_size: 16\nnum_selected_blocks: 4\ncausal: false\n", 3, 9},
        {"kvpress", "press_name: lukv\n", 1, 13},
        {"rocket", "sparse_attention_config:\n  algorithm: rocket\n  prompt_budget: -1\n", 3, 18},
        {"deepspeed", "{sparse_attention: {mode: fixed, block: 16}}", 1, 0},
        {"deepspeed", "{\"sparse_attention\": {\n  mode: fixed\n  \"block\": 3 # odd\n}}", 3, 12},
        {"deepspeed", "{\"sparse_attention\": {\n  mode: fixed\n  mode: fixed\n}}", 3, 14},
        {"deepspeed", "{\"a\": 1 \"b\": 2}", 1, 0},
        {"deepspeed", "{\"a\": /* never ends ", 1, 0},
        {"deepspeed", "{\"a\": [0, 0\n ,, 1]}", 2, 0},
        {"headkv", "{\"0-0\": [1], \"0-2\": [1]}", 1, 1},
        {"headkv", "{\"0-0\": [1], \"0-1\": [\"x\"]}", 1, 22},
        {"headkv", "{\"0-0\": [1], \"0-1\": []}", 1, 21},
        {"headkv", "{\"0-0\": [1], \"1\": [1]}", 1, 19},
        {"headkv", "{\"0-0\": [0], \"0-1\": [0]}", 1, 1},
        {"headkv", "{\"0-1\": [1], \"0-0\": [1]}", 1, 21},
        {"doublesparse",
         "{\"model.layers.0.self_attn.qk_proj\": [[1]], \"model.layers.2.self_attn.qk_proj\": [[1]]}", 1, 1},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        imported at = {0};
        const s2_status status = try_import(&at, rows[r].from, rows[r].text, strlen(rows[r].text), "", NULL);
        if (status != S2_EPARSE || at.diag.line != rows[r].line ||
            (rows[r].col != 0 && at.diag.col != rows[r].col))
            fail_msg("\"%s\": status %d at %d:%d: %s", rows[r].text, status, at.diag.line, at.diag.col,
                     at.diag.msg);
        imported_release(&at);
    }
}

/* Where one reader has one number and another a different one, or none, s2 has none. */
static void numbers_that_readers_read_differently_are_refused(void **state)
{
    static const char *const words[] = {"0100",  "-010",  "+010", "00",   "00.5", "0x100",
                                        "0X1p4", "1_000", "0o17", "1:30", "inf",  "nan"};
    static const struct {
        const char *from, *text; /* the word stands for @ */
    } forms[] = {{"rocket", "sparse_attention_config:\n  algorithm: rocket\n  prompt_budget: @\n"},
                 {"deepspeed", "{\"sparse_attention\": {\n  mode: fixed\n  \"block\": @\n}}"},
                 {"layers",
                  "{\"model_type\": \"mistral\", \"num_hidden_layers\": 2, \"num_attention_heads\": 8, "
                  "\"num_key_value_heads\": 2, \"hidden_size\": 512, \"sliding_window\": @}"},
                 {"lserve", "--dec-sink-token @\n"},
                 {"kvpress", "press_name: snapkv\ncompression_ratio: @\n"}};
    (void)state;
    for (size_t form = 0; form < sizeof forms / sizeof *forms; form++)
        for (size_t word = 0; word < sizeof words / sizeof *words; word++) {
            char text[300];
            const int before = (int)strcspn(forms[form].text, "@");
            snprintf(text, sizeof text, "%.*s%s%s", before, forms[form].text, words[word],
                     forms[form].text + before + 1);
            imported at = {0};
            if (try_import(&at, forms[form].from, text, strlen(text), "", NULL) != S2_EPARSE)
                fail_msg("taken: %s", text);
            imported_release(&at);
        }
}

/* A small text that asks for much: nesting, aliases, long lines; each is answered at once. */
static void hostile_yaml_and_hjson_are_bounded(void **state)
{
    (void)state;
    enum { N = 1 << 19 };
    static const char *const units[] = {"[",  "{a: ", "- ", "? ",     "a: [", "'",
                                        "\"", "#",    "/*", "&a *a ", "%",    "{\"a\":["};
    char *const text = malloc(N + 16);
    for (size_t u = 0; u < sizeof units / sizeof *units; u++)
        for (int prefix = 0; prefix < 3; prefix++) {
            const char *const before = prefix == 0 ? "" : prefix == 1 ? "key: " : "{key: ";
            size_t n = strlen(before);
            memcpy(text, before, n);
            while (n + strlen(units[u]) < N) {
                memcpy(text + n, units[u], strlen(units[u]));
                n += strlen(units[u]);
            }
            imported at = {0};
            const s2_status status = try_import(&at, "kvpress", text, n, "", NULL);
            assert_true(status == S2_EPARSE);
            imported_release(&at);
        }
    free(text);
}

/* ---- budgets */

static void budgets_of_more_methods_are_kept(void **state)
{
    (void)state;
    static const struct {
        const char *text, *settings, *format, *part;
    } rows[] = {
        {"sparse_attention_config:\n  algorithm: rocket\n  window_size: 32\n  prompt_budget: 2048\n", "",
         "rocket", "decode: heavy 2016 | local 32t"},
        {"press_name: streaming_llm\ncompression_ratio: 0.75\n", "len=4096", "kvpress",
         "sink 4t | local 1020t"},
        {"press_name: snapkv\ncompression_ratio: 0.5\n", "len=4096", "kvpress", "heavy 1984 | local 64t"},
        {"press_name: adakv_snapkv\ncompression_ratio: 0.5\n", "len=4096", "kvpress",
         "heavy 1984 | local 64t"},
        {"press_name: no_press\n", "", "kvpress", "layers all: dense"},
        {"press_name: think\n", "", "kvpress", "layers all: dense"},
        {"press_name: expected_attention\ncompression_ratio: 0.5\n", "len=4096", "kvpress",
         "sink 4t | heavy 2043 | local 1t"},
        {"press_name: compactor\ncompression_ratio: 0.5\n", "len=4096", "kvpress",
         "sink 8t | heavy 2036 | local 4t"},
        {"press_name: compactor\ncompression_ratio: 0.75\n", "len=40", "kvpress", "heavy 6 | local 4t"},
        {"press_name: finch\ncompression_ratio: 0.5\n", "len=4096 question=30", "kvpress",
         "heavy 2018 | local 30t"},
        /* the last whole lag and what follows it: 128 + (4096 - 4) mod 128 */
        {"press_name: lagkv\ncompression_ratio: 0.5\n", "len=4096", "kvpress",
         "sink 4t | heavy 1792 | local 252t"},
        {"press_name: lagkv\ncompression_ratio: 0.5\n", "len=200", "kvpress", "sink 4t | local 96t"},
        {"press_name: chunkkv\ncompression_ratio: 0.5\n", "len=4096", "kvpress", "heavy 2039 | local 1t"},
        {"press_name: decoding_adakv_expected_attention_e2\n", "", "kvpress", "heavy 2048 | local 512t"},
        {"press_name: block_keydiff\ncompression_ratio: 0.5\n", "len=4096", "kvpress",
         "heavy 2047 | local 1t"},
        {"press_name: decoding_knorm\ncompression_interval: 512\ntarget_size: 4096\n", "", "kvpress",
         "heavy 4096 | local 512t"},
        {"--method StreamingLLM --max_capacity_prompts 128", "", "streamingllm", "sink 4t | local 124t"},
        {"{\"policy\": \"streaming_llm\", \"page_size\": 64, \"start_layer\": 2, \"end_layer\": 29,"
         "\"policy_config\": {\"sink_pages\": 4, \"recent_pages\": 8}}",
         "layers=32", "streamingllm", "layers 2-29: sink 4 | local 512t"},
        {"{\"top_k\": 2048, \"device_buffer_size\": 6144}", "", "dsa", "topk 2048"},
        {"{\"num_hidden_layers\": 2, \"num_attention_heads\": 8, \"sparse_attention_config\":"
         "{\"sparse_attention_freq\": [0, 1], \"sparse_block_size\": 128, \"sparse_topk_blocks\": 16}}",
         "", "dsa", "layers 0: dense"},
        {"{\"num_hidden_layers\": 61, \"num_attention_heads\": 128, \"index_topk\": 2048, \"kv_lora_rank\": "
         "512,"
         "\"qk_rope_head_dim\": 64}",
         "", "dsa", "head-dim 288"},
        {"{\"model.layers.0.self_attn.qk_proj\": [[1], [2]]}", "tokens=128", "doublesparse",
         "decode: topk 128"},
        {"{\"model.layers.0.self_attn.qk_proj\": [[1], [2]]}", "tokens=128 rule=doublesparse", "doublesparse",
         "layers all: topk 128"},
        {"{\"model.layers.0.self_attn.q_proj\": [[1], [2]], \"model.layers.0.self_attn.k_proj\": [[1], [2]], "
         "\"model.layers.0.self_attn.qk_proj\": [[1], [2]]}",
         "", "doublesparse", "decode: topk 256"},
        {"{\"window_sizes\": [8, 4], \"max_capacity_prompts\": [64, 32]}", "", "snapkv",
         "decode layers 1: heavy 28 | local 4t"},
        {"--method FullKV --max_capacity_prompts 512", "", "snapkv", "layers all: dense"},
        {"--method H2O --max_capacity_prompts 512", "", "snapkv", "decode: heavy 504 | local 8t"},
        {"press_name: critical_adakv_snapkv\ncompression_ratio: 0.5\n", "len=4096", "kvpress",
         "heavy 1984 | local 64t"},
        {"press_name: decoding_streaming_llm\ncompression_interval: 512\ntarget_size: 4096\n", "", "kvpress",
         "sink 4t | local 4604t"},
        {"static_sparsity=0.75\nrun --dec-sink-token 128 --static-sparsity ${static_sparsity} "
         "--static-sparse-attn-load-dir patterns/llama --sparse-decode-mode 0\n",
         "", "lserve", "decode kv 0-5: sink 2 | local 5"},
        {"--dec-sink-token 128 --sparse-decode-mode 0", "", "lserve", "layers all: dense"},
        {"--dec-sink-token 130 --dec-local-token 200 --dynamic-sparse-token-budget 100 --sparse-decode-mode "
         "0 "
         "--static-sparsity 0.5 --static-sparse-attn-load-dir a",
         "", "lserve", "sink 2 | local 4"},
        {"--ctx-sink-token 100 --dec-sink-token 0 --sparse-context-mode --static-sparsity 0.5 "
         "--static-sparse-attn-load-dir a",
         "", "lserve", "layers all: sink 100t | local 8192t\ndecode kv 0-3: local 5\n"},
        {"--ctx-sink-token 0 --sparse-context-mode --static-sparsity 0.5 --static-sparse-attn-load-dir a", "",
         "lserve", "layers all: local 8192t\ndecode kv 0-3: sink 2 | local 5"},
        {"--sparse-block-size 64 --sparse-local-blocks 16 --sparse-vertical-stride 8 --num-attention-heads 8 "
         "--window-size 512,0",
         "", "megatron", "local 8 | stride 8 phase head"},
        {"--sparse-block-size 64 --sparse-local-blocks 4 --sparse-vertical-stride 8 --num-attention-heads 8 "
         "--window-size (512, 0)",
         "", "megatron", "local 4 | stride 8 phase head"},
        {"--dec-sink-token 128 --sparse-decode-mode 1", "", "lserve",
         "prefill: dense\ndecode: pages 63 page 64 | local 1\n"},
        {"{\"model.layers.0.self_attn.q_proj\": [[1, 0], [0, 1]], \"model.layers.0.self_attn.k_proj\": [[1, "
         "0]]}",
         "", "doublesparse", "kv-heads 1"},
        {"{\"model.layers.0.self_attn.k_proj\": [[1, 0, 2, 3, 7, 6, 5, 4]]}", "", "doublesparse",
         "head-dim 8"},
        {"{\"alphas\": [[0.0]], \"betas\": [[0.5]]}", "len=1281", "moa", "local 576t"},
        {"{\"model_type\": \"qwen2_5_vl\", \"num_attention_heads\": 2, \"num_hidden_layers\": 2, "
         "\"hidden_size\": 64, \"use_sliding_window\": true, \"sliding_window\": 64, \"max_window_layers\": "
         "1}",
         "", "layers", "layers 0: dense"},
        {"{\"model_type\": \"qwen2_5_vl\", \"num_attention_heads\": 2, \"num_hidden_layers\": 40, "
         "\"hidden_size\": 64, \"use_sliding_window\": true, \"sliding_window\": 64}",
         "", "layers", "layers all: dense"}, /* 80 layers stay full where the config does not say */
        {"{\"model_type\": \"qwen3_omni_moe\", \"thinker_config\": {\"text_config\": {\"model_type\": "
         "\"qwen3_omni_moe_text\", \"num_attention_heads\": 2, \"num_hidden_layers\": 2, \"hidden_size\": "
         "64}}}",
         "", "layers", "layers all: dense"},
        {"{\"model_type\": \"glm4v\", \"text_config\": {\"model_type\": \"glm4v_text\", "
         "\"num_attention_heads\": 2, \"num_hidden_layers\": 2, \"hidden_size\": 64}}",
         "", "layers", "layers all: dense"},
        {"{\"attention_window\": 8, \"num_attention_heads\": 2, \"num_hidden_layers\": 1}", "global=2",
         "longformer", "columns 0t-1t | rows 0t-1t"},
        {"{\"model_type\": \"big_bird\", \"num_attention_heads\": 2, \"num_hidden_layers\": 1}", "len=1024",
         "bigbird", "local 2 | columns 0,15 | rows 0,15\n"},
        {"{\"model_type\": \"big_bird\", \"num_attention_heads\": 2, \"num_hidden_layers\": 1}",
         "len=1024 train=1", "bigbird", "rows 0,15 | random 3 seed 1"},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        imported at;
        import_text(&at, rows[r].text, rows[r].settings);
        assert_string_equal(at.format->name, rows[r].format);
        if (strstr(text_of(&at), rows[r].part) == NULL)
            fail_msg("\"%s\" is not in:\n%s", rows[r].part, text_of(&at));
        imported_release(&at);
    }
}

/* Keys that a head of a layer holds after a long prompt: heavy ones and the window. */
static int64_t held_keys(const s2_pattern *pattern, int32_t layer, int32_t head)
{
    const s2_body *const body = &pattern->bodies[s2_pattern_body(pattern, S2_DECODE, layer, head)];
    int64_t n = 0;
    for (int32_t t = 0; t < body->n_terms; t++)
        n += body->terms[t].n;
    return n;
}

/* The published budgets of the first and last of 32 layers, the window included. */
static void pyramidkv_budgets_fall_from_the_first_layer_to_the_last(void **state)
{
    (void)state;
    static const struct {
        int capacity, first, last;
    } rows[] = {{128, 242, 25}, {512, 991, 61}, {2048, 3986, 111}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        char text[96];
        imported at;
        snprintf(text, sizeof text, "--method PyramidKV --max_capacity_prompts %d", rows[r].capacity);
        import_text(&at, text, "layers=32");
        assert_string_equal(at.format->name, "pyramidkv");
        assert_int_equal(held_keys(&at.pattern, 0, 0), rows[r].first);
        assert_int_equal(held_keys(&at.pattern, 31, 0), rows[r].last);
        imported_release(&at);
    }
}

/* The pool is dealt out by score, and no more than the pool. */
static void headkv_deals_its_pool_by_score(void **state)
{
    (void)state;
    imported at;
    import_text(&at, "{\"0-0\": [1, 1], \"0-1\": [3], \"1-0\": [0], \"1-1\": [4]}",
                "capacity=100 beta=2 window=10");
    /* beside the window of 10: a pool of 4 * 45 keys, 45 for every head; rounded to even */
    static const int64_t held[4] = {78, 122, 55, 145};
    for (int n = 0; n < 4; n++)
        assert_int_equal(held_keys(&at.pattern, n / 2, n % 2), held[n]);
    assert_true(says(&at, "assumed"));
    imported_release(&at);
}

/* As Python divides: 9 // 1.8 is 4, though 9 / 1.8 is 5. */
static void headkv_divides_and_raises_as_its_code_does(void **state)
{
    (void)state;
    static const struct {
        const char *settings;
        int64_t first, second;
    } rows[] = {
        {"capacity=19 window=10 beta=1.8", 17, 21},   /* each 4: 2 * 4 * share + 5, window 10 */
        {"capacity=100 window=10 beta=1.2", 62, 138}, /* each 75: 150 * share + 15 + 10 */
        {"capacity=100 window=10 beta=1.2 temp=2", 40, 160},
        {"capacity=100 window=10 beta=1.2 temp=0.5", 80, 120},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        imported at;
        import_text(&at, "{\"0-0\": [1], \"0-1\": [3]}", rows[r].settings);
        assert_int_equal(held_keys(&at.pattern, 0, 0), rows[r].first);
        assert_int_equal(held_keys(&at.pattern, 0, 1), rows[r].second);
        imported_release(&at);
    }
}

static void duo_by_the_rule_of_kvpress_rounds_and_sorts(void **state)
{
    (void)state;
    static const struct {
        const char *table, *settings, *full;
    } rows[] = {
        {"0.9\t0.1\n0.8\t0.2\n", "heads=2 sparsity=0.5 rule=kvpress", "1010"},
        {"0.5\t0.5\n0.5\t0.5\n", "heads=2 sparsity=0.5 rule=kvpress", "0011"},
        {"0.9\t0.1\n0.8\t0.2\n", "heads=2 sparsity=0.375 rule=kvpress", "1010"}, /* 1.5 rounds to even */
        {"0.9\t0.1\n0.8\t0.2\n", "heads=2 sparsity=0.125 rule=kvpress", "1111"}, /* 0.5 too */
        {"0.9\t0.1\n0.8\t0.2\n", "heads=2 sparsity=1 rule=kvpress", "0000"},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        imported at;
        import_text(&at, rows[r].table, rows[r].settings);
        for (int n = 0; n < 4; n++)
            if (s2_pattern_reads(&at.pattern, S2_DECODE, n / 2, n % 2, 4096, 4000, 2000) !=
                (rows[r].full[n] == '1'))
                fail_msg("row %zu: head %d of layer %d", r, n % 2, n / 2);
        if (rows[r].full[1] == '0') { /* deployed with the sizes of training */
            assert_true(s2_pattern_reads(&at.pattern, S2_DECODE, 0, 1, 4096, 4000, 127));
            assert_false(s2_pattern_reads(&at.pattern, S2_DECODE, 0, 1, 4096, 4000, 128));
        }
        imported_release(&at);
    }
}

/* ---- arrays by other names */

/* Whatever it is of, a file in another encoding, an archive or a compressed one is told by its first bytes. */
static void files_inside_something_else_are_refused_as_what_they_are(void **state)
{
    (void)state;
    static const struct {
        const char *begin, *says;
    } rows[] = {{"\xef\xbb\xbf", "byte order mark"},
                {"\xff\xfe", "UTF-16"},
                {"\xfe\xff", "UTF-16"},
                {"PK\x03\x04", "np.savez"},
                {"\x80\x04\x95", "pickle"},
                {"\x80\x02}", "pickle"},
                {"\x1f\x8b\x08", "gzip"},
                {"\x28\xb5\x2f\xfd", "zstd"}};
    static const char *const names[] = {NULL, "layers", "npy", "c", "duo"};
    static const char config[] = "{\"model_type\": \"llama\"}";
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
            char text[64];
            imported at = {0};
            snprintf(text, sizeof text, "%s%s", rows[r].begin, config);
            const s2_status status = try_import(&at, names[n], text, strlen(text), "", NULL);
            if (status != S2_EPARSE || strstr(at.diag.msg, rows[r].says) == NULL || at.diag.line != 1)
                fail_msg("%s: status %d, \"%s\"", rows[r].says, status, at.diag.msg);
            imported_release(&at);
        }
}

/* What vLLM looks for beside such a config decides its prefill, and does not stand in it. */
static void chunks_of_positions_name_the_file_that_makes_them_sparse(void **state)
{
    (void)state;
    static const char shape[] =
        "\"model_type\": \"qwen2\", \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
        "\"num_key_value_heads\": 2, \"hidden_size\": 256";
    for (int dual = 0; dual < 2; dual++) {
        char text[400];
        imported at;
        snprintf(text, sizeof text, "{%s%s}", shape,
                 dual ? ", \"dual_chunk_attention_config\": {\"chunk_size\": 1024, \"local_size\": 64}" : "");
        import_text(&at, text, "");
        assert_string_equal(at.format->name, "layers");
        assert_int_equal(says(&at, "sparse_attention_config.json"), dual);
        imported_release(&at);
    }
}

/* A place is counted in characters: whatever letters stand before it, in whatever notation, it is the same. */
static void places_are_counted_in_characters(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"x\": \"@\", \"model_type\": \"llama\", \"num_hidden_layers\": -3, \"num_attention_heads\": 4}",
        "{\"@\": 1, \"model_type\": \"llama\" \"num_hidden_layers\": 3}",
        "{'@@': 1, 'model_type': 'llama', 'num_hidden_layers': -3, 'num_attention_heads': 4}",
        "{x: 1 # @\n y: '@', model_type: 'llama', num_hidden_layers: -3, num_attention_heads: 4}",
        "{/* @ */ \"x\": \"@\", /* @ */ \"x\": 2}",
        "x: [\"@\", &anchor 1]\n",
        "--x=@ --model_type=llama --num_hidden_layers=3 --num_hidden_layers=4\n",
        "x=\"@\", model_type=\"llama\", num_hidden_layers=3, num_hidden_layers=4\n",
        "x = \"@\"; LocalStrideSparseAttention(n_heads=4, n_heads=5)\n",
    };
    static const char *const letters[] = {"a", "\xc3\xa9", "\xe5\x90\x8d", "\xf0\x9f\x98\x80"};
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        int32_t line = 0, col = 0;
        for (size_t l = 0; l < sizeof letters / sizeof *letters; l++) {
            s2_buf text = {0};
            imported at = {0};
            for (const char *c = texts[t]; *c != '\0'; c++)
                s2_buf_add(&text, *c == '@' ? letters[l] : c, *c == '@' ? strlen(letters[l]) : 1);
            assert_int_equal(text.status, S2_OK);
            assert_int_not_equal(try_import(&at, NULL, text.data, text.len, "", NULL), S2_OK);
            assert_true(at.diag.line > 1 || at.diag.col > 1);
            if (l > 0 && (at.diag.line != line || at.diag.col != col))
                fail_msg("%.*s: %d:%d, with a plain letter %d:%d (%s)", (int)text.len, text.data,
                         at.diag.line, at.diag.col, line, col, at.diag.msg);
            line = at.diag.line;
            col = at.diag.col;
            s2_buf_release(&text);
            imported_release(&at);
        }
    }
}

static void settings_that_a_format_does_not_know_are_refused(void **state)
{
    (void)state;
    imported at = {0};
    const char *const text = "--heavy_ratio 0.1 --recent_ratio 0.1";
    assert_int_equal(try_import(&at, NULL, text, strlen(text), "lenght=9", NULL), S2_EINVAL);
    assert_non_null(strstr(at.diag.msg, "lenght"));
    imported_release(&at);
    at = (imported){0};
    assert_int_equal(try_import(&at, NULL, text, strlen(text), "len=9 heads=2 kv-heads=1", NULL), S2_OK);
    imported_release(&at);
}

/* Older configs leave to the model's code which layers are full. */
static void models_imply_their_full_layers(void **state)
{
    (void)state;
    static const struct {
        const char *model, *key;
        int every;
    } rows[] = {{"gemma2", "sliding_window", 2},
                {"gemma3_text", "sliding_window", 6},
                {"cohere2", "sliding_window", 4},
                {"llama4_text", "attention_chunk_size", 4},
                {"mistral", "sliding_window", 0}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        char text[256];
        imported at;
        snprintf(
            text, sizeof text,
            "{\"model_type\": \"%s\", \"num_hidden_layers\": 12, \"num_attention_heads\": 2, \"%s\": 64}",
            rows[r].model, rows[r].key);
        import_text(&at, text, "");
        assert_string_equal(at.format->name, "layers");
        for (int32_t layer = 0; layer < 12; layer++)
            assert_int_equal(s2_pattern_reads(&at.pattern, S2_PREFILL, layer, 0, 4096, 4000, 1),
                             rows[r].every != 0 && (layer + 1) % rows[r].every == 0);
        imported_release(&at);
    }
}

/* Which keys a type reads decides what they mean: an unknown one is refused, whatever keys it has. */
static void a_model_type_that_is_not_known_is_refused_with_its_place(void **state)
{
    (void)state;
    static const char *const keys[] = {"\"sliding_window\": 64", "\"hidden_size\": 64",
                                       "\"attention_chunk_size\": 64",
                                       "\"layer_types\": [\"full_attention\"]"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for (int named = 0; named < 2; named++) {
            char text[256];
            imported at = {0};
            snprintf(text, sizeof text, "{%s%s, \n\"num_hidden_layers\": 1, \"num_attention_heads\": 2}",
                     named ? "\"model_type\": \"unheard\", " : "", keys[k]);
            const s2_status status = try_import(&at, NULL, text, strlen(text), "", NULL);
            /* without a name, layer_types is taken at its word */
            if (k == 3 && !named)
                assert_int_equal(status, S2_OK);
            else if ((status != S2_EUNSUPPORTED && status != S2_EPARSE) || at.diag.line < 1 ||
                     at.diag.col < 1)
                fail_msg("%s: status %d at %d:%d", text, status, at.diag.line, at.diag.col);
            imported_release(&at);
        }
}

/* What transformers saves of DBRX states a default beside the number that its code takes. */
static void kv_heads_of_an_attention_config_are_those_of_the_code(void **state)
{
    (void)state;
    imported at;
    import_text(&at,
                "{\"model_type\": \"dbrx\", \"n_layers\": 2, \"n_heads\": 16, \"d_model\": 128, "
                "\"num_key_value_heads\": 1, \"attn_config\": {\"kv_n_heads\": 8}}",
                "");
    assert_int_equal(at.pattern.n_kv_heads, 8);
    imported_release(&at);
}

static void keys_that_some_code_shares_are_refused_unless_it_is_said(void **state)
{
    (void)state;
    static const char text[] = "{\"model_type\": \"hunyuan_v1_moe\", \"num_hidden_layers\": 2, "
                               "\"num_attention_heads\": 4,\n \"use_cla\": true, \"cla_share_factor\": 2}";
    imported at = {0};
    assert_int_equal(try_import(&at, NULL, text, strlen(text), "", NULL), S2_EPARSE);
    assert_int_equal(at.diag.line, 2);
    assert_non_null(strstr(at.diag.msg, "use_cla"));
    imported_release(&at);
    import_text(&at, text, "rule=full");
    assert_int_equal(at.pattern.n_layers, 2);
    imported_release(&at);
}

static void heads_that_a_models_code_counts_are_not_the_files(void **state)
{
    (void)state;
    imported at;
    import_text(&at,
                "{\"model_type\": \"jetmoe\", \"num_hidden_layers\": 1, \"num_attention_heads\": 8, "
                "\"num_key_value_heads\": 8, \"num_experts_per_tok\": 2, \"num_local_experts\": 8}",
                "");
    assert_int_equal(at.pattern.n_heads, 16);
    assert_int_equal(at.pattern.n_kv_heads, 8);
    imported_release(&at);
}

/* use_sliding_window is false upstream unless stated, and windows begin at max_window_layers. */
static void switches_of_windows_have_the_defaults_of_their_type(void **state)
{
    (void)state;
    static const struct {
        const char *type, *keys, *full; /* of four layers */
    } rows[] = {{"qwen2", "", "1111"},
                {"qwen2", ", \"use_sliding_window\": true", "1111"},
                {"qwen2", ", \"use_sliding_window\": true, \"max_window_layers\": 2", "1100"},
                {"qwen3_moe", ", \"use_sliding_window\": true, \"max_window_layers\": 2", "0000"},
                {"qwen2_moe", ", \"use_sliding_window\": true, \"max_window_layers\": 3", "0101"},
                {"smollm3", ", \"use_sliding_window\": true, \"no_rope_layer_interval\": 2", "1010"},
                {"llama", ", \"use_sliding_window\": true", "1111"},
                {"mistral", "", "0000"},
                {"mimo_v2_flash",
                 ", \"hybrid_layer_pattern\": [0, 1, 1, 0], \"attention_chunk_size\": 8, "
                 "\"num_key_value_heads\": 1",
                 "1001"}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        char text[320];
        imported at;
        snprintf(text, sizeof text,
                 "{\"model_type\": \"%s\", \"num_hidden_layers\": 4, \"num_attention_heads\": 2, "
                 "\"sliding_window\": 64%s}",
                 rows[r].type, rows[r].keys);
        import_text(&at, text, "");
        for (int32_t layer = 0; layer < 4; layer++)
            if (s2_pattern_reads(&at.pattern, S2_PREFILL, layer, 0, 4096, 4000, 1) !=
                (rows[r].full[layer] == '1'))
                fail_msg("row %zu: layer %d", r, layer);
        imported_release(&at);
    }
}

/* Layers without keys keep a state; others have KV heads, a head dimension or shared keys of their own. */
static void layers_that_differ_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *keys, *part;
    } rows[] = {
        {"\"model_type\": \"qwen3_next\", \"linear_num_key_heads\": 2, \"linear_num_value_heads\": 4, "
         "\"linear_key_head_dim\": 8, \"linear_value_head_dim\": 8, \"linear_conv_kernel_dim\": 4",
         /* 4 * (4 * 8 * 8) + 2 * (2 * 2 * 8 * 4 + 4 * 8 * 4) */
         "layers 0-2: state 1536\n"},
        {"\"model_type\": \"jamba\", \"attn_layer_period\": 2, \"attn_layer_offset\": 1, \"hidden_size\": "
         "16, "
         "\"mamba_expand\": 2, \"mamba_d_state\": 4, \"mamba_d_conv\": 4",
         "layers 1,3: dense"},
        {"\"model_type\": \"lfm2\", \"full_attn_idxs\": [1, 3], \"hidden_size\": 16, \"conv_L_cache\": 3",
         "layers 0,2: state 96"},
        {"\"model_type\": \"gemma4_text\", \"per_layer_config\": {\"03\": {\"head_dim\": 512}}, "
         "\"layer_types\": [\"sliding_attention\", \"sliding_attention\", \"sliding_attention\", "
         "\"full_attention\"], \"sliding_window\": 8",
         "layers 3: head-dim 512"},
        {"\"model_type\": \"gemma3n_text\", \"num_kv_shared_layers\": 2, \"layer_types\": "
         "[\"sliding_attention\", "
         "\"full_attention\", \"sliding_attention\", \"full_attention\"], \"sliding_window\": 8",
         "layers 2: kv-layer 0\nlayers 3: kv-layer 1"},
        {"\"model_type\": \"mimo_v2_flash\", \"hybrid_layer_pattern\": [0, 1, 1, 0], "
         "\"swa_num_key_value_heads\": 2, "
         "\"num_key_value_heads\": 1, \"sliding_window_size\": 8",
         "layers 1-2: local 9t"},
        /* 2 * ((2 + 2) * 8 * (1 + 1) + 2 / 2 * 8) */
        {"\"model_type\": \"zaya\", \"num_key_value_heads\": 2, \"head_dim\": 8, \"sliding_window\": 8, "
         "\"layer_types\": [\"hybrid\", \"hybrid_sliding\", \"hybrid\", \"hybrid\"]",
         "layers all: state 144\nlayers all: dense\nlayers 1: local 8t"},
        {"\"model_type\": \"inkling_text\", \"num_key_value_heads\": 1, \"swa_num_key_value_heads\": 2, "
         "\"head_dim\": 8, \"swa_head_dim\": 8, \"hidden_size\": 16, \"conv_kernel_size\": 4, "
         "\"local_layer_ids\": [0, 1, 2]",
         /* 4 * 2 * 4 * (2 * 8 + 16) and with one KV head */
         "layers 0-2: state 1024\nlayers 3: state 768"},
        {"\"model_type\": \"mamba\", \"hidden_size\": 8, \"state_size\": 4, \"conv_kernel\": 4",
         /* 4 * 16 * 4 + 2 * 16 * 4 */
         "layers all: state 384\nlayers all: none"},
        {"\"model_type\": \"mllama_text_model\", \"cross_attention_layers\": [1]", "layers 3\n"},
        {"\"model_type\": \"xlm\", \"causal\": true", "layers 4\nheads 2\nlayers all: dense"},
        {"\"model_type\": \"xlnet\", \"attn_type\": \"bi\"", "causal no"},
        {"\"model_type\": \"hrm_text\", \"H_cycles\": 3, \"L_cycles\": 1", "layers 24\n"},
        {"\"model_type\": \"longcat_flash\", \"num_layers\": 3", "layers 6\n"},
        {"\"model_type\": \"llama4_text\", \"attention_chunk_size\": null", "layers all: dense"},
        {"\"model_type\": \"gemma4_text\"", "layers 0-2: local 512t\nlayers 3: dense"},
        {"\"model_type\": \"doge\", \"keep_window_size\": 64, \"sliding_window\": 256",
         "topk 64 when distance ..256t"},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        char text[640];
        imported at;
        snprintf(text, sizeof text, "{\"num_hidden_layers\": 4, \"num_attention_heads\": 2, %s}",
                 rows[r].keys);
        import_text(&at, text, "");
        if (strstr(text_of(&at), rows[r].part) == NULL)
            fail_msg("\"%s\" is not in:\n%s", rows[r].part, text_of(&at));
        imported_release(&at);
    }
}

/* Windows to both sides: Gemma 3 halves its window, is_causal reaches all of it. */
static void models_that_look_both_ways_are_not_causal(void **state)
{
    (void)state;
    static const struct {
        const char *keys, *part;
    } rows[] = {{"\"model_type\": \"gemma3_text\", \"use_bidirectional_attention\": true", "local 33t"},
                {"\"model_type\": \"mistral\", \"is_causal\": false", "local 65t"},
                {"\"model_type\": \"llama\", \"is_causal\": false", "layers all: dense"},
                {"\"model_type\": \"bert\", \"is_decoder\": false", "layers all: dense"}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        char text[320];
        imported at;
        snprintf(text, sizeof text,
                 "{%s, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"sliding_window\": 64}",
                 rows[r].keys);
        import_text(&at, text, "");
        assert_false(at.pattern.causal);
        assert_non_null(strstr(text_of(&at), rows[r].part));
        imported_release(&at);
    }
}

/* What the published configs of these models leave out, their code fills in. */
static void models_imply_the_shape_that_their_configs_leave_out(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int n_heads, n_kv_heads, head_dim;
        const char *note;
    } rows[] = {/* gemma-3-4b-it */
                {"{\"model_type\": \"gemma3\", \"text_config\": {\"hidden_size\": 2560, \"model_type\": "
                 "\"gemma3_text\", "
                 "\"num_hidden_layers\": 34, \"sliding_window\": 1024}}",
                 8, 4, 256, "num_attention_heads is absent"},
                /* gemma-3-12b-it: hidden_size / heads would be 240 */
                {"{\"model_type\": \"gemma3\", \"text_config\": {\"hidden_size\": 3840, \"model_type\": "
                 "\"gemma3_text\", "
                 "\"num_attention_heads\": 16, \"num_hidden_layers\": 48, \"num_key_value_heads\": 8, "
                 "\"sliding_window\": 1024}}",
                 16, 8, 256, "one layer in 6 is full"},
                /* DeepSeek-V3: 61 * (512 + 64) * 2 bytes a token */
                {"{\"model_type\": \"deepseek_v3\", \"hidden_size\": 7168, \"num_attention_heads\": 128, "
                 "\"num_key_value_heads\": 128, \"num_hidden_layers\": 61, \"kv_lora_rank\": 512, "
                 "\"qk_rope_head_dim\": 64}",
                 128, 1, 288, "MLA"},
                {"{\"model_type\": \"qwen2\", \"hidden_size\": 3584, \"num_attention_heads\": 28, "
                 "\"num_hidden_layers\": 28, "
                 "\"num_key_value_heads\": 4, \"sliding_window\": 131072, \"max_window_layers\": 28, "
                 "\"use_sliding_window\": false}",
                 28, 4, 128, "use_sliding_window is false: every layer is full\n"}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        imported at;
        import_text(&at, rows[r].text, "");
        assert_string_equal(at.format->name, "layers");
        assert_int_equal(at.pattern.n_heads, rows[r].n_heads);
        assert_int_equal(at.pattern.n_kv_heads, rows[r].n_kv_heads);
        assert_int_equal(at.pattern.head_dim, rows[r].head_dim);
        if (strstr(at.notes.data, rows[r].note) == NULL)
            fail_msg("no '%s' in %s", rows[r].note, at.notes.data);
        /* a window that is not used is not said to be used */
        assert_true(r != 3 || strstr(at.notes.data, "all layers use the window") == NULL);
        imported_release(&at);
    }
}

/* Widths and choices that no pattern states, for the simulator. */
static void what_computes_is_kept_beside_the_pattern(void **state)
{
    (void)state;
    imported at;
    import_text(&at,
                "{\"model_type\": \"deepseek_v32\", \"num_attention_heads\": 128, \"num_hidden_layers\": 2, "
                "\"kv_lora_rank\": 512, \"qk_rope_head_dim\": 64, \"qk_nope_head_dim\": 128, \"v_head_dim\": "
                "128, \"index_topk\": 2048, \"index_n_heads\": 32, \"index_head_dim\": 128}",
                "");
    assert_true(s2_pattern_is_latent(&at.pattern));
    assert_int_equal(at.pattern.computed->score_dim, 192);
    assert_int_equal(at.pattern.computed->value_dim, 128);
    assert_int_equal(at.pattern.computed->index_heads, 32);
    imported_release(&at);
    /* half of the widths says nothing */
    import_text(&at,
                "{\"model_type\": \"deepseek_v3\", \"num_attention_heads\": 128, \"num_hidden_layers\": 2, "
                "\"kv_lora_rank\": 512, \"qk_rope_head_dim\": 64}",
                "");
    assert_false(s2_pattern_is_latent(&at.pattern));
    imported_release(&at);
    import_text(&at, "[{\"0\": [\"vertical_and_slash\", 1000, 6096, 1]}]", "");
    assert_int_equal(at.pattern.computed->probe_rows, 64);
    imported_release(&at);
}

/* Llama 4 lists its layers of chunks under the name of what else they have. */
static void a_list_of_rotary_layers_says_which_are_chunked(void **state)
{
    (void)state;
    imported at;
    import_text(&at,
                "{\"model_type\": \"llama4_text\", \"num_hidden_layers\": 5, \"num_attention_heads\": 2, "
                "\"attention_chunk_size\": 64, \"no_rope_layers\": [1, 0, 1, 1, 0]}",
                "");
    static const bool full[] = {false, true, false, false, true};
    for (int32_t layer = 0; layer < 5; layer++)
        assert_int_equal(s2_pattern_reads(&at.pattern, S2_PREFILL, layer, 0, 4096, 4000, 1), full[layer]);
    imported_release(&at);
}

/* The fields that public configs have, against the rows of the built-in table. */
static void widths_of_configs_are_those_of_the_built_in_models(void **state)
{
    (void)state;
    static const struct {
        const char *model, *text;
    } rows[] = {{"llama-3.1-8b",
                 "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"intermediate_size\": 14336, "
                 "\"num_attention_heads\": 32, \"num_hidden_layers\": 32, \"num_key_value_heads\": 8, "
                 "\"tie_word_embeddings\": false, \"vocab_size\": 128256}"},
                {"qwen3-30b-a3b",
                 "{\"model_type\": \"qwen3_moe\", \"head_dim\": 128, \"hidden_size\": 2048, "
                 "\"intermediate_size\": 6144, "
                 "\"moe_intermediate_size\": 768, \"num_attention_heads\": 32, \"num_experts\": 128, "
                 "\"num_experts_per_tok\": 8, \"num_hidden_layers\": 48, \"num_key_value_heads\": 4, "
                 "\"tie_word_embeddings\": false, \"vocab_size\": 151936}"},
                {"gpt-oss-20b",
                 "{\"model_type\": \"gpt_oss\", \"head_dim\": 64, \"hidden_size\": 2880, "
                 "\"intermediate_size\": 2880, \"num_attention_heads\": 64, \"num_local_experts\": 32, "
                 "\"num_experts_per_tok\": 4, \"num_hidden_layers\": 24, \"num_key_value_heads\": 8, "
                 "\"vocab_size\": 201088}"},
                {"gemma-2-9b",
                 "{\"model_type\": \"gemma2\", \"hidden_size\": 3584, \"intermediate_size\": 14336, "
                 "\"num_attention_heads\": 16, \"num_hidden_layers\": 42, \"num_key_value_heads\": 8, "
                 "\"vocab_size\": 256000}"},
                {"gpt-2", "{\"model_type\": \"gpt2\", \"n_embd\": 768, \"n_head\": 12, \"n_layer\": 12, "
                          "\"vocab_size\": 50257}"}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        s2_net net;
        s2_net widths;
        s2_diag diag = {0};
        assert_int_equal(s2_net_find(rows[r].model, &net, NULL), S2_OK);
        if (s2_widths_read(rows[r].text, strlen(rows[r].text), &widths, &diag) != S2_OK)
            fail_msg("%s: %s", rows[r].model, diag.msg);
        assert_int_equal(widths.n_layers, net.n_layers);
        assert_int_equal(widths.n_heads, net.n_heads);
        assert_int_equal(widths.n_kv_heads, net.n_kv_heads);
        assert_int_equal(widths.head_dim, net.head_dim);
        assert_int_equal(widths.hidden, net.hidden);
        assert_int_equal(widths.ffn, net.ffn);
        assert_int_equal(widths.vocab, net.vocab);
        assert_int_equal(widths.gated, net.gated);
        assert_int_equal(widths.tied, net.tied);
        assert_int_equal(widths.n_experts, net.n_experts);
        assert_int_equal(widths.n_active, net.n_active);
        assert_true(widths.cap == net.cap);
        assert_int_equal(widths.sinks, net.sinks);
    }
}

/* Published configs of Gemma 3 say no more than this; of the checkpoints norms are left out, and the images' tower. */
static void widths_that_configs_leave_out_are_those_of_their_code(void **state)
{
    (void)state;
    static const struct {
        const char *says;
        double weights;
    } rows[] = {{"\"hidden_size\": 2560, \"intermediate_size\": 10240, \"num_hidden_layers\": 34", 3.880e9},
                {"\"hidden_size\": 3840, \"intermediate_size\": 15360, \"num_attention_heads\": 16, "
                 "\"num_hidden_layers\": 48, \"num_key_value_heads\": 8",
                 11.766e9}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        char text[400];
        s2_net widths;
        s2_diag diag = {0};
        snprintf(text, sizeof text,
                 "{\"model_type\": \"gemma3\", \"text_config\": {\"model_type\": \"gemma3_text\", "
                 "\"sliding_window\": 1024, %s}}",
                 rows[r].says);
        if (s2_widths_read(text, strlen(text), &widths, &diag) != S2_OK)
            fail_msg("%s: %s", rows[r].says, diag.msg);
        s2_assert_close((double)s2_net_weights(&widths), rows[r].weights, 1e-3 * rows[r].weights);
    }
}

/* transformers writes no tie_word_embeddings where it is true by default. Published checkpoints, without their norms. */
static void models_that_share_an_embedding_do_so_unsaid(void **state)
{
    (void)state;
    static const struct {
        const char *says;
        double weights;
    } rows[] = {{"\"model_type\": \"smollm3\", \"hidden_size\": 2048, \"intermediate_size\": 11008, "
                 "\"num_attention_heads\": 16, \"num_hidden_layers\": 36, \"num_key_value_heads\": 4, "
                 "\"vocab_size\": 128256",
                 3.075e9},
                {"\"model_type\": \"starcoder2\", \"hidden_size\": 3072, \"intermediate_size\": 12288, "
                 "\"num_attention_heads\": 24, \"num_hidden_layers\": 30, \"num_key_value_heads\": 2, "
                 "\"vocab_size\": 49152",
                 3.030e9}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        char text[400];
        s2_net widths;
        s2_diag diag = {0};
        snprintf(text, sizeof text, "{%s}", rows[r].says);
        assert_int_equal(s2_widths_read(text, strlen(text), &widths, &diag), S2_OK);
        s2_assert_close((double)s2_net_weights(&widths), rows[r].weights, 1e-3 * rows[r].weights);
    }
}

static void caps_of_scores_are_those_of_the_config(void **state)
{
    (void)state;
    static const struct {
        const char *says;
        double cap;
    } rows[] = {{"\"model_type\": \"gemma2\"", 50},
                {"\"model_type\": \"gemma2\", \"attn_logit_softcapping\": 30", 30},
                {"\"model_type\": \"gemma2\", \"attn_logit_softcapping\": null", 0},
                {"\"model_type\": \"vaultgemma\"", 50},
                {"\"model_type\": \"llama\", \"attn_logit_softcapping\": 20.5", 20.5},
                {"\"model_type\": \"llama\"", 0}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        char text[300];
        s2_net widths;
        s2_diag diag = {0};
        snprintf(text, sizeof text,
                 "{%s, \"num_attention_heads\": 2, \"num_hidden_layers\": 1, \"hidden_size\": 8, "
                 "\"vocab_size\": 9, \"intermediate_size\": 9}",
                 rows[r].says);
        assert_int_equal(s2_widths_read(text, strlen(text), &widths, &diag), S2_OK);
        assert_true(widths.cap == rows[r].cap);
        assert_false(widths.sinks);
    }
}

static void weights_are_stored_as_the_config_says(void **state)
{
    (void)state;
    static const struct {
        const char *says, *method;
        s2_weights stored;
    } rows[] = {
        {"\"a\": 1", "", S2_WEIGHTS_PUBLISHED},
        {"\"quantization_config\": null", "", S2_WEIGHTS_PUBLISHED},
        {"\"quantization_config\": {\"quant_method\": \"mxfp4\"}", "mxfp4", S2_WEIGHTS_MXFP4},
        {"\"quantization_config\": {\"quant_method\": \"fp8\"}", "fp8", S2_WEIGHTS_FP8},
        {"\"quantization_config\": {\"quant_method\": \"awq\", \"bits\": 4}", "awq", S2_WEIGHTS_INT4},
        {"\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 8}", "gptq", S2_WEIGHTS_INT8},
        {"\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 3}", "gptq", S2_WEIGHTS_PUBLISHED},
        {"\"quantization_config\": {\"quant_method\": \"bitsandbytes\"}", "bitsandbytes",
         S2_WEIGHTS_PUBLISHED},
        {"\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"config_groups\": "
         "{\"group_0\": "
         "{\"weights\": {\"num_bits\": 8, \"type\": \"float\"}}}}",
         "compressed-tensors", S2_WEIGHTS_FP8},
        {"\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"config_groups\": "
         "{\"group_0\": "
         "{\"weights\": {\"num_bits\": 4, \"type\": \"int\"}}}}",
         "compressed-tensors", S2_WEIGHTS_INT4},
        {"\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"format\": "
         "\"mxfp4-pack-quantized\", \"config_groups\": {\"group_0\": {\"weights\": {\"num_bits\": 4, "
         "\"type\": \"float\"}}}}",
         "compressed-tensors", S2_WEIGHTS_MXFP4}};
    for (size_t r = 0; r < 2 * sizeof rows / sizeof *rows; r++) {
        const bool inner = r % 2 == 1; /* the widths of a multimodal model */
        char text[500];
        s2_net widths;
        s2_diag diag = {0};
        snprintf(text, sizeof text,
                 "{%s, %s\"num_attention_heads\": 2, \"num_hidden_layers\": 1, \"hidden_size\": 8, "
                 "\"vocab_size\": 9, \"intermediate_size\": 9}%s",
                 rows[r / 2].says, inner ? "\"text_config\": {" : "", inner ? "}" : "");
        assert_int_equal(s2_widths_read(text, strlen(text), &widths, &diag), S2_OK);
        assert_int_equal(widths.stored, rows[r / 2].stored);
        assert_string_equal(widths.method, rows[r / 2].method);
    }
}

/* A list of modules that stay in 16 bits, in each of its three forms; what is not understood leaves all unpriced. */
static void modules_that_a_list_names_keep_their_type(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        bool understood;
        double attention, plain, experts, head;
    } rows[] = {
        {"\"lm_head\"", true, 0, 0, 0, 1},
        {"", true, 0, 0, 0, 0},
        {"\"lm_head\", \"model.layers.0\"", true, 0.25, 1, 0, 1},
        {"\"lm_head\", \"model.layers.1\"", true, 0.25, 0, 1 / 3.0, 1},
        {"\"lm_head\", \"model.layers.9.self_attn.q_proj\", \"model.layers.1.mlp.gate\"", true, 0, 0, 0, 1},
        {"\"lm_head\", \"model.layers.10.self_attn\", \"model.layers.1.self_attn.q_norm\"", true, 0, 0, 0, 1},
        {"\"language_model.lm_head\", \"self_attn\"", true, 1, 0, 0, 1},
        {"\"lm_head\", \"model.layers.*.self_attn*\"", true, 1, 0, 0, 1},
        {"\"lm_head\", \"*layers.[0-1].self_attn.?_proj\"", true, 0.5, 0, 0, 1},
        {"\"lm_head\", \"re:.*self_attn.*\", \"re:visual.*\"", true, 1, 0, 0, 1},
        {"\"lm_head\", \"re:.*mlp\\\\.(gate|up|down)_proj$\"", true, 0, 1, 0, 1},
        {"\"lm_head\", \"re:model\\\\.layers\\\\.(0|2)\\\\..*\"", true, 0.5, 1, 1 / 3.0, 1},
        {"\"lm_head\", \"re:.*experts\\\\.\\\\d+\\\\.up_proj\"", true, 0, 0, 1 / 3.0, 1},
        {"\"lm_head\", \"vision_tower.encoder.layers.0.self_attn.q_proj\", \"mtp.layers.1.mlp.up_proj\"",
         true, 0, 0, 0, 1},
        {"\"lm_head\", \"model.layers.4*\", \"model.layers.4.*\"", true, 0, 0, 0, 1},
        {"\"lm_head\", \"model.layers.3*\"", true, 0.25, 0, 1 / 3.0, 1},
        {"\"lm_head\", \"model.layers.1.mlp.experts.0.up_proj\"", false, 0, 0, 0, 0},
        {"\"lm_head\", \"re:(?!.*mlp).*\"", false, 0, 0, 0, 0},
        {"\"lm_head\", \"model.layers.0.elsewhere\"", false, 0, 0, 0, 0},
        {"\"lm_head\", 3", false, 0, 0, 0, 0}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        char text[900];
        s2_net widths;
        s2_diag diag = {0};
        snprintf(text, sizeof text,
                 "{\"model_type\": \"qwen3_moe\", \"num_attention_heads\": 8, \"num_key_value_heads\": 8, "
                 "\"num_hidden_layers\": 4, \"hidden_size\": 1024, \"head_dim\": 128, \"vocab_size\": 999, "
                 "\"intermediate_size\": 64, \"moe_intermediate_size\": 32, \"num_experts\": 8, "
                 "\"num_experts_per_tok\": 2, \"mlp_only_layers\": [0], \"quantization_config\": {"
                 "\"quant_method\": \"compressed-tensors\", \"ignore\": [%s], \"config_groups\": {\"a\": "
                 "{\"targets\": [\"Linear\"], \"weights\": {\"num_bits\": 4, \"type\": \"int\", "
                 "\"group_size\": 32}}}}}",
                 rows[r].list);
        assert_int_equal(s2_widths_read(text, strlen(text), &widths, &diag), S2_OK);
        assert_int_equal(widths.stored, rows[r].understood ? S2_WEIGHTS_INT4 : S2_WEIGHTS_PUBLISHED);
        s2_assert_close(widths.kept[S2_PART_ATTENTION], rows[r].attention, 1e-6);
        s2_assert_close(widths.kept[S2_PART_PLAIN], rows[r].plain, 1e-6);
        s2_assert_close(widths.kept[S2_PART_EXPERTS], rows[r].experts, 1e-6);
        s2_assert_close(widths.kept[S2_PART_HEAD], rows[r].head, 1e-6);
        assert_string_equal(widths.method, "compressed-tensors");
    }
}

/* Mistral's and Meta's own files have other words for the same numbers; what to name instead is said. */
static void params_are_refused_by_what_they_are(void **state)
{
    (void)state;
    static const char text[] = "{\"dim\": 5120, \"n_layers\": 40, \"head_dim\": 128, \"hidden_dim\": 32768, "
                               "\"n_heads\": 32, \"n_kv_heads\": 8, \"vocab_size\": 131072}";
    s2_net net;
    s2_diag diag = {0};
    assert_int_equal(s2_widths_read(text, strlen(text), &net, &diag), S2_EPARSE);
    assert_non_null(strstr(diag.msg, "name the config.json"));
}

/* Modules in types of their own: by modelopt's word for each, or by groups, of which one that names goes first. */
static void modules_may_be_stored_in_several_types(void **state)
{
    (void)state;
#define ATTENDS                                                                                              \
    "\"model.layers.0.self_attn\": {\"quant_algo\": \"FP8\"}, \"model.layers.1.self_attn\": "                \
    "{\"quant_algo\": "                                                                                      \
    "\"FP8\"}"
    static const struct {
        const char *says;
        s2_weights stored;
        double attention, plain, head, attention_fp8;
    } rows[] = {
        {"\"quant_method\": \"modelopt\", \"quant_algo\": \"MIXED_PRECISION\", \"quantized_layers\": "
         "{" ATTENDS
         ", \"model.layers.0.mlp\": {\"quant_algo\": \"NVFP4\"}, \"model.layers.1.mlp\": {\"quant_algo\": "
         "\"NVFP4\"}}",
         S2_WEIGHTS_NVFP4, 8, 4.5, 16, 1},
        {"\"quant_method\": \"modelopt\", \"quant_algo\": \"MIXED_PRECISION\", \"quantized_layers\": "
         "{" ATTENDS
         ", \"model.layers.0.mlp\": {\"quant_algo\": \"NVFP4\"}, \"lm_head\": {\"quant_algo\": \"NVFP4\"}}",
         S2_WEIGHTS_NVFP4, 8, (4.5 + 16) / 2, 4.5, 1},
        {"\"quant_method\": \"modelopt\", \"quant_algo\": \"MIXED_PRECISION\", \"quantized_layers\": "
         "{" ATTENDS ", \"model.layers.0.mlp\": {\"quant_algo\": \"W3A16\"}}",
         S2_WEIGHTS_PUBLISHED, 0, 0, 0, 0},
        {"\"quant_method\": \"compressed-tensors\", \"ignore\": [\"lm_head\"], \"config_groups\": {\"a\": "
         "{\"targets\": [\"Linear\"], \"weights\": {\"num_bits\": 4, \"type\": \"int\", \"group_size\": "
         "128}}, "
         "\"b\": {\"targets\": [\"re:.*self_attn.*\"], \"weights\": {\"num_bits\": 8, \"type\": \"float\"}}}",
         S2_WEIGHTS_INT4, 8, 4.125, 16, 1},
        {"\"quant_method\": \"compressed-tensors\", \"config_groups\": {\"a\": {\"targets\": "
         "[\"re:.*attn.*\"], "
         "\"weights\": {\"num_bits\": 4, \"type\": \"int\"}}, \"b\": {\"targets\": [\"re:.*self_attn.*\"], "
         "\"weights\": {\"num_bits\": 8, \"type\": \"float\"}}}",
         S2_WEIGHTS_PUBLISHED, 0, 0, 0, 0}};
#undef ATTENDS
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        char text[900];
        s2_net net;
        s2_diag diag = {0};
        snprintf(text, sizeof text,
                 "{\"model_type\": \"llama\", \"num_attention_heads\": 8, \"num_hidden_layers\": 2, "
                 "\"hidden_size\": 1024, \"vocab_size\": 999, \"intermediate_size\": 64, "
                 "\"quantization_config\": {%s}}",
                 rows[r].says);
        assert_int_equal(s2_widths_read(text, strlen(text), &net, &diag), S2_OK);
        assert_int_equal(net.stored, rows[r].stored);
        if (net.stored == S2_WEIGHTS_PUBLISHED)
            continue;
        const double found[] = {
            16 * net.kept[S2_PART_ATTENTION] +
                (1 - net.kept[S2_PART_ATTENTION]) * net.bits[S2_PART_ATTENTION],
            16 * net.kept[S2_PART_PLAIN] + (1 - net.kept[S2_PART_PLAIN]) * net.bits[S2_PART_PLAIN],
            16 * net.kept[S2_PART_HEAD] + (1 - net.kept[S2_PART_HEAD]) * net.bits[S2_PART_HEAD]};
        s2_assert_close(found[0], rows[r].attention, 1e-6);
        s2_assert_close(found[1], rows[r].plain, 1e-6);
        s2_assert_close(found[2], rows[r].head, 1e-6);
        s2_assert_close(net.in_fp8[S2_PART_ATTENTION], rows[r].attention_fp8, 1e-6);
        assert_true(net.in_fp8[S2_PART_PLAIN] <= 0);
    }
}

/* Names from a file are any text: what becomes of expressions stays within what holds them. */
static void names_of_modules_may_be_any_text(void **state)
{
    (void)state;
    static const char *const pieces[] = {"\\\\d", "\\\\d+", "\\\\.", ".*",      ".+", "[0-9]", "[^a",
                                         "]",     "(",      "(?:",   ")",       "|",  "*",     "?",
                                         "$",     "^",      "{2}",   "layers.", "7",  ".",     "mlp"};
    enum { N_PIECES = sizeof pieces / sizeof *pieces };
    s2_rng rng = {s2_test_seed(41)};
    for (int64_t n = s2_test_cases(4000); n > 0; n--) {
        char text[2000];
        s2_net widths;
        s2_diag diag = {0};
        const int32_t n_pieces = 1 + (int32_t)(s2_rng_next(&rng) % 90),
                      alike = (int32_t)(s2_rng_next(&rng) % 3);
        int32_t len = snprintf(text, sizeof text,
                               "{\"num_attention_heads\": 2, \"num_hidden_layers\": 3, \"hidden_size\": 8, "
                               "\"vocab_size\": 9, \"intermediate_size\": 9, \"quantization_config\": "
                               "{\"quant_method\": \"awq\", \"bits\": 4, \"modules_to_not_convert\": [\"%s",
                               s2_rng_next(&rng) % 4 > 0 ? "re:" : "");
        for (int32_t piece = 0; piece < n_pieces; piece++)
            len += snprintf(text + len, sizeof text - (size_t)len, "%s",
                            pieces[alike == 0 ? (uint64_t)n % N_PIECES : s2_rng_next(&rng) % N_PIECES]);
        snprintf(text + len, sizeof text - (size_t)len, "\"]}}");
        assert_int_equal(s2_widths_read(text, strlen(text), &widths, &diag), S2_OK);
        for (int32_t part = 0; part < S2_N_STORED_PARTS; part++)
            assert_true(widths.kept[part] >= 0 && widths.kept[part] <= 1);
    }
}

/* What modelopt writes beside a config that says nothing of it. */
static void weights_stored_as_another_file_says(void **state)
{
    (void)state;
    static const char config[] =
        "{\"num_attention_heads\": 2, \"num_hidden_layers\": 1, \"hidden_size\": 8, \"vocab_size\": 9, "
        "\"intermediate_size\": 9}";
    static const struct {
        const char *text, *method, *cache;
        s2_weights stored;
    } rows[] = {
        {"{\"quant_algo\": \"NVFP4\", \"kv_cache_quant_algo\": \"FP8\"}", "NVFP4", "FP8", S2_WEIGHTS_NVFP4},
        {"{\"quant_algo\": \"FP8\", \"kv_cache_quant_algo\": null}", "FP8", "", S2_WEIGHTS_FP8},
        {"{\"quant_algo\": \"W4A16_AWQ\", \"group_size\": 128}", "W4A16_AWQ", "", S2_WEIGHTS_INT4},
        {"{\"quant_algo\": \"MIXED_PRECISION\"}", "MIXED_PRECISION", "", S2_WEIGHTS_PUBLISHED},
        {"{\"quant_algo\": null, \"kv_cache_quant_algo\": \"FP8\"}", "", "FP8", S2_WEIGHTS_PUBLISHED}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        char text[300];
        s2_net widths;
        s2_diag diag = {0};
        assert_int_equal(s2_widths_read(config, strlen(config), &widths, &diag), S2_OK);
        snprintf(text, sizeof text, "{\"quantization\": %s}", rows[r].text);
        assert_int_equal(s2_stored_read_apart(text, strlen(text), &widths, &diag), S2_OK);
        assert_int_equal(widths.stored, rows[r].stored);
        assert_string_equal(widths.method, rows[r].method);
        assert_string_equal(widths.cache, rows[r].cache);
    }
}

/* Weights that a token runs: of the experts those that it picks, and no embedding of its own. */
static int64_t activated(const s2_net *net)
{
    s2_net picked = *net;
    picked.n_experts = net->n_active;
    picked.tied = true;
    return s2_net_weights(&picked);
}

/*
 * Published totals and weights that a token runs, in 10^9: DeepSeek-V2 and V2-Lite (arXiv 2405.04434, table 1 and
 * appendix B), DeepSeek-V3 (arXiv 2412.19437, section 4.2: 671 and 37), Kimi K2 (its model card: about 1000 and 32),
 * LongCat-Flash (arXiv 2509.01322: 560 and some 27), DBRX (its model card: 132 and 36), Falcon-7B, MPT-7B, BLOOM-7.1B
 * and OPT-6.7B (their model cards; BLOOM's counts what its checkpoint holds).
 */
static void latent_and_older_models_weigh_what_is_published(void **state)
{
    (void)state;
#define LATENT                                                                                               \
    "\"kv_lora_rank\": 512, \"qk_rope_head_dim\": 64, \"qk_nope_head_dim\": 128, \"v_head_dim\": 128, "
    static const struct {
        const char *says;
        double weights, activated;
    } rows[] = {
        {LATENT
         "\"model_type\": \"deepseek_v2\", \"num_hidden_layers\": 27, \"num_attention_heads\": 16, "
         "\"hidden_size\": 2048, \"intermediate_size\": 10944, \"moe_intermediate_size\": 1408, "
         "\"n_routed_experts\": 64, \"n_shared_experts\": 2, \"num_experts_per_tok\": 6, "
         "\"first_k_dense_replace\": 1, \"moe_layer_freq\": 1, \"q_lora_rank\": null, \"vocab_size\": 102400",
         15.7, 2.4},
        {LATENT
         "\"model_type\": \"deepseek_v2\", \"num_hidden_layers\": 60, \"num_attention_heads\": 128, "
         "\"hidden_size\": 5120, \"intermediate_size\": 12288, \"moe_intermediate_size\": 1536, "
         "\"n_routed_experts\": 160, \"n_shared_experts\": 2, \"num_experts_per_tok\": 6, "
         "\"first_k_dense_replace\": 1, \"moe_layer_freq\": 1, \"q_lora_rank\": 1536, \"vocab_size\": 102400",
         236, 21},
        {LATENT
         "\"model_type\": \"deepseek_v3\", \"num_hidden_layers\": 61, \"num_attention_heads\": 128, "
         "\"hidden_size\": 7168, \"intermediate_size\": 18432, \"moe_intermediate_size\": 2048, "
         "\"n_routed_experts\": 256, \"n_shared_experts\": 1, \"num_experts_per_tok\": 8, "
         "\"first_k_dense_replace\": 3, \"moe_layer_freq\": 1, \"q_lora_rank\": 1536, \"vocab_size\": 129280",
         671, 37},
        {LATENT
         "\"model_type\": \"kimi_k2\", \"num_hidden_layers\": 61, \"num_attention_heads\": 64, "
         "\"hidden_size\": 7168, \"intermediate_size\": 18432, \"moe_intermediate_size\": 2048, "
         "\"n_routed_experts\": 384, \"n_shared_experts\": 1, \"num_experts_per_tok\": 8, "
         "\"first_k_dense_replace\": 1, \"moe_layer_freq\": 1, \"q_lora_rank\": 1536, \"vocab_size\": 163840",
         1026, 32},
        {LATENT
         "\"model_type\": \"longcat_flash\", \"num_layers\": 28, \"num_attention_heads\": 64, "
         "\"hidden_size\": 6144, \"ffn_hidden_size\": 12288, \"expert_ffn_hidden_size\": 2048, "
         "\"n_routed_experts\": 512, \"zero_expert_num\": 256, \"moe_topk\": 12, \"q_lora_rank\": 1536, "
         "\"vocab_size\": 131072",
         560, 27},
        {"\"model_type\": \"dbrx\", \"d_model\": 6144, \"n_heads\": 48, \"n_layers\": 40, \"vocab_size\": "
         "100352, "
         "\"attn_config\": {\"kv_n_heads\": 8}, \"ffn_config\": {\"ffn_hidden_size\": 10752, "
         "\"moe_num_experts\": 16, \"moe_top_k\": 4}",
         132, 36},
        {"\"model_type\": \"falcon\", \"hidden_size\": 4544, \"num_attention_heads\": 71, "
         "\"num_hidden_layers\": 32, "
         "\"multi_query\": true, \"new_decoder_architecture\": false, \"vocab_size\": 65024",
         6.9, 6.9},
        {"\"model_type\": \"mpt\", \"d_model\": 4096, \"n_heads\": 32, \"n_layers\": 32, "
         "\"expansion_ratio\": 4, "
         "\"vocab_size\": 50432, \"attn_config\": {\"alibi\": true}",
         6.65, 6.65},
        {"\"model_type\": \"bloom\", \"n_embed\": 4096, \"n_layer\": 30, \"num_attention_heads\": 32, "
         "\"vocab_size\": 250880",
         7.07, 7.07},
        {"\"model_type\": \"opt\", \"hidden_size\": 4096, \"ffn_dim\": 16384, \"num_attention_heads\": 32, "
         "\"num_hidden_layers\": 32, \"word_embed_proj_dim\": 4096, \"vocab_size\": 50272",
         6.65, 6.65}};
#undef LATENT
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        char text[800];
        s2_net widths;
        s2_diag diag = {0};
        snprintf(text, sizeof text, "{%s}", rows[r].says);
        if (s2_widths_read(text, strlen(text), &widths, &diag) != S2_OK)
            fail_msg("%s: %s", text, diag.msg);
        s2_assert_close((double)s2_net_weights(&widths) / 1e9, rows[r].weights, 0.01 * rows[r].weights);
        s2_assert_close((double)activated(&widths) / 1e9, rows[r].activated, 0.04 * rows[r].activated);
    }
}

static void configs_without_widths_are_refused_with_what_is_missing(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"{\"num_attention_heads\": 2, \"num_hidden_layers\": 1, \"vocab_size\": 9}",
         "\"hidden_size\" is missing"},
        {"{\"num_attention_heads\": 2, \"hidden_size\": 8, \"intermediate_size\": 9}",
         "\"vocab_size\" is missing"},
        {"{\"num_attention_heads\": 2, \"hidden_size\": 8, \"vocab_size\": 9}",
         "\"intermediate_size\" is missing"},
        {"{\"num_attention_heads\": 2, \"hidden_size\": 8, \"vocab_size\": 9, \"intermediate_size\": 1e30}",
         "intermediate_size"},
        {"{\"num_attention_heads\": 2, \"hidden_size\": 8, \"vocab_size\": 9, \"intermediate_size\": 9, "
         "\"num_experts\": 4, \"num_experts_per_tok\": 5}",
         "num_experts_per_tok"},
        {"{\"num_attention_heads\": 2, \"kv_lora_rank\": 512}", "latent attention"},
        {"{\"num_attention_heads\": 2, \"kv_lora_rank\": 512, \"qk_rope_head_dim\": 8, \"qk_nope_head_dim\": "
         "8, "
         "\"v_head_dim\": 8, \"linear_attn_config\": {\"a\": 1}}",
         "linear attention beside latent"},
        {"{\"model_type\": \"opt\", \"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"hidden_size\": "
         "8, \"word_embed_proj_dim\": "
         "4}",
         "another width"},
        {"{\"num_attention_heads\": 2, \"hidden_size\": 8, \"vocab_size\": 9, \"intermediate_size\": 9, "
         "\"architecture\": \"GPTForCausalLM\", \"hidden_act\": \"gelu\"}",
         "gated is not known"},
        {"{\"num_attention_heads\": 2", ""}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        s2_net widths;
        s2_diag diag = {0};
        assert_int_equal(s2_widths_read(rows[r][0], strlen(rows[r][0]), &widths, &diag), S2_EPARSE);
        if (strstr(diag.msg, rows[r][1]) == NULL)
            fail_msg("no '%s' in %s", rows[r][1], diag.msg);
    }
}

/* The experts, the weights' type and the object of the model, as TensorRT-LLM writes them. */
static void checkpoints_of_tensorrt_llm_have_widths(void **state)
{
    (void)state;
    static const char text[] =
        "{\"pretrained_config\": {\"architecture\": \"MixtralForCausalLM\", \"hidden_act\": \"swiglu\", "
        "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_size\": "
        "64, "
        "\"hidden_size\": 128, \"vocab_size\": 99, \"intermediate_size\": 512, "
        "\"moe\": {\"num_experts\": %d, \"top_k\": %d}, \"quantization\": {\"quant_algo\": \"FP8\"}}}";
    for (int n_experts = 0; n_experts <= 8; n_experts += 8) {
        char config[600];
        s2_net widths;
        s2_diag diag = {0};
        snprintf(config, sizeof config, text, n_experts, n_experts / 4);
        if (s2_widths_read(config, strlen(config), &widths, &diag) != S2_OK)
            fail_msg("%s", diag.msg);
        assert_int_equal(widths.n_experts, n_experts > 0 ? n_experts : 1);
        assert_int_equal(widths.n_active, n_experts > 0 ? n_experts / 4 : 1);
        assert_int_equal(widths.head_dim, 64);
        assert_int_equal(widths.ffn, 512);
        assert_true(widths.gated && widths.stored == S2_WEIGHTS_FP8);
    }
}

/*
 * Mixtures as they are published, and what their cards say of them: weights and those at work on a token, in 10^9. What
 * every token runs beside the experts it picks, and layers without experts, are half of some of these models.
 */
static void mixtures_weigh_what_their_cards_say(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text;
        double weights, active;
    } rows[] = {
        {"glm-4.5-air",
         "\"model_type\": \"glm4_moe\", \"hidden_size\": 4096, \"intermediate_size\": 10944, "
         "\"moe_intermediate_size\": 1408, \"num_attention_heads\": 96, \"head_dim\": 128, "
         "\"num_key_value_heads\": 8, \"n_routed_experts\": 128, \"n_shared_experts\": 1, "
         "\"num_experts_per_tok\": 8, \"first_k_dense_replace\": 1, \"num_hidden_layers\": 46, "
         "\"vocab_size\": 151552",
         106, 12},
        {"glm-4.5",
         "\"model_type\": \"glm4_moe\", \"hidden_size\": 5120, \"intermediate_size\": 12288, "
         "\"moe_intermediate_size\": 1536, \"num_attention_heads\": 96, \"head_dim\": 128, "
         "\"num_key_value_heads\": 8, \"n_routed_experts\": 160, \"n_shared_experts\": 1, "
         "\"num_experts_per_tok\": 8, \"first_k_dense_replace\": 3, \"num_hidden_layers\": 92, "
         "\"vocab_size\": 151552",
         355, 32},
        {"llama-4-scout",
         "\"model_type\": \"llama4_text\", \"hidden_size\": 5120, \"intermediate_size\": 8192, "
         "\"intermediate_size_mlp\": 16384, \"num_attention_heads\": 40, \"num_key_value_heads\": 8, "
         "\"head_dim\": 128, \"num_local_experts\": 16, \"num_experts_per_tok\": 1, "
         "\"interleave_moe_layer_step\": 1, \"num_hidden_layers\": 48, \"vocab_size\": 202048",
         109, 17},
        {"llama-4-maverick",
         "\"model_type\": \"llama4_text\", \"hidden_size\": 5120, \"intermediate_size\": 8192, "
         "\"intermediate_size_mlp\": 16384, \"num_attention_heads\": 40, \"num_key_value_heads\": 8, "
         "\"head_dim\": 128, \"num_local_experts\": 128, \"num_experts_per_tok\": 1, "
         "\"interleave_moe_layer_step\": 2, \"num_hidden_layers\": 48, \"vocab_size\": 202048",
         400, 17},
        {"qwen2-57b-a14b",
         "\"model_type\": \"qwen2_moe\", \"hidden_size\": 3584, \"intermediate_size\": 18944, "
         "\"moe_intermediate_size\": 2560, \"shared_expert_intermediate_size\": 20480, "
         "\"num_attention_heads\": 28, \"num_key_value_heads\": 4, \"num_experts\": 64, "
         "\"num_experts_per_tok\": 8, \"decoder_sparse_step\": 1, \"mlp_only_layers\": [], "
         "\"num_hidden_layers\": 28, \"vocab_size\": 151936",
         57.4, 14},
        {"ernie-4.5-21b-a3b",
         "\"model_type\": \"ernie4_5_moe\", \"hidden_size\": 2560, \"intermediate_size\": 12288, "
         "\"moe_intermediate_size\": 1536, \"num_attention_heads\": 20, \"num_key_value_heads\": 4, "
         "\"head_dim\": 128, \"moe_num_experts\": 64, \"moe_num_shared_experts\": 2, \"moe_k\": 6, "
         "\"moe_layer_start_index\": 1, \"moe_layer_end_index\": 27, \"moe_layer_interval\": 1, "
         "\"num_hidden_layers\": 28, \"tie_word_embeddings\": true, \"vocab_size\": 103424",
         21, 3},
        {"hunyuan-a13b",
         "\"model_type\": \"hunyuan_v1_moe\", \"hidden_size\": 4096, \"intermediate_size\": 3072, "
         "\"moe_intermediate_size\": [3072, 3072], \"moe_topk\": [8, 8], \"num_experts\": 64, "
         "\"num_shared_expert\": [1, 1], \"num_attention_heads\": 32, \"num_key_value_heads\": 8, "
         "\"attention_head_dim\": 128, \"num_hidden_layers\": 32, \"tie_word_embeddings\": true, "
         "\"vocab_size\": 128167",
         80, 13},
        {"dots.llm1",
         "\"model_type\": \"dots1\", \"hidden_size\": 4096, \"intermediate_size\": 10944, "
         "\"moe_intermediate_size\": 1408, \"num_attention_heads\": 32, \"num_key_value_heads\": 32, "
         "\"head_dim\": 128, \"n_routed_experts\": 128, \"n_shared_experts\": 2, "
         "\"num_experts_per_tok\": 6, \"first_k_dense_replace\": 1, \"num_hidden_layers\": 62, "
         "\"vocab_size\": 152064",
         142, 14},
        {"gemma-4-26b-a4b",
         "\"model_type\": \"gemma4_text\", \"hidden_size\": 2816, \"intermediate_size\": 2112, "
         "\"moe_intermediate_size\": 704, \"num_attention_heads\": 16, \"num_key_value_heads\": 8, "
         "\"head_dim\": 256, \"num_experts\": 128, \"top_k_experts\": 8, \"num_hidden_layers\": 30, "
         "\"tie_word_embeddings\": true, \"vocab_size\": 262144",
         25.2, 3.8},
        {"a list of layers without experts",
         "\"model_type\": \"qwen3_moe\", \"hidden_size\": 1000, \"intermediate_size\": 100000, "
         "\"moe_intermediate_size\": 1000, \"num_attention_heads\": 1, \"num_key_value_heads\": 1, "
         "\"head_dim\": 2, \"num_experts\": 100, \"num_experts_per_tok\": 10, "
         "\"decoder_sparse_step\": 1, \"mlp_only_layers\": [1, 0], \"num_hidden_layers\": 4, "
         "\"vocab_size\": 1",
         1.2, 0.66},
        {"one that keeps what is shared, of no experts",
         "\"model_type\": \"granitemoehybrid\", \"hidden_size\": 2560, \"intermediate_size\": 9999, "
         "\"shared_intermediate_size\": 8192, \"num_local_experts\": 0, \"num_experts_per_tok\": 0, "
         "\"num_attention_heads\": 40, \"num_key_value_heads\": 8, \"num_hidden_layers\": 40, "
         "\"attn_layer_period\": 1, \"tie_word_embeddings\": true, \"vocab_size\": 100352",
         3.4, 3.4},
        {"nemotron-3-nano",
         "\"model_type\": \"nemotron_h\", \"hidden_size\": 2688, \"intermediate_size\": 1856, "
         "\"moe_intermediate_size\": 1856, \"moe_shared_expert_intermediate_size\": 3712, "
         "\"n_routed_experts\": 128, \"num_experts_per_tok\": 6, \"num_attention_heads\": 32, "
         "\"num_key_value_heads\": 2, \"head_dim\": 128, \"mamba_num_heads\": 64, "
         "\"mamba_head_dim\": 64, \"ssm_state_size\": 128, \"n_groups\": 8, \"conv_kernel\": 4, "
         "\"num_hidden_layers\": 52, \"vocab_size\": 131072, \"hybrid_override_pattern\": "
         "\"MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME\"",
         31.6, 3.6},
        {"jamba-v0.1",
         "\"model_type\": \"jamba\", \"hidden_size\": 4096, \"intermediate_size\": 14336, "
         "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"num_hidden_layers\": 32, "
         "\"attn_layer_period\": 8, \"attn_layer_offset\": 4, \"expert_layer_period\": 2, "
         "\"expert_layer_offset\": 1, \"num_experts\": 16, \"num_experts_per_tok\": 2, "
         "\"mamba_expand\": 2, \"mamba_d_state\": 16, \"mamba_d_conv\": 4, \"mamba_dt_rank\": 256, "
         "\"vocab_size\": 65536",
         52, 12},
        {"qwen3-next-80b-a3b",
         "\"model_type\": \"qwen3_next\", \"hidden_size\": 2048, \"intermediate_size\": 5120, "
         "\"moe_intermediate_size\": 512, \"shared_expert_intermediate_size\": 512, "
         "\"num_experts\": 512, \"num_experts_per_tok\": 10, \"decoder_sparse_step\": 1, "
         "\"num_attention_heads\": 16, \"num_key_value_heads\": 2, \"head_dim\": 256, "
         "\"num_hidden_layers\": 48, \"linear_num_key_heads\": 16, \"linear_key_head_dim\": 128, "
         "\"linear_num_value_heads\": 32, \"linear_value_head_dim\": 128, "
         "\"linear_conv_kernel_dim\": 4, \"vocab_size\": 151936",
         80, 3.9},
        {"lfm2-1.2b",
         "\"model_type\": \"lfm2\", \"hidden_size\": 2048, \"block_ff_dim\": 12288, "
         "\"block_multiple_of\": 256, \"num_attention_heads\": 32, \"num_key_value_heads\": 8, "
         "\"num_hidden_layers\": 16, \"conv_L_cache\": 3, \"full_attn_idxs\": [2, 5, 8, 10, 12, 14], "
         "\"vocab_size\": 65536",
         1.17, 1.17},
        {"kimi-k3",
         "\"model_type\": \"kimi_linear\", \"hidden_size\": 7168, \"intermediate_size\": 33792, "
         "\"moe_intermediate_size\": 3072, \"routed_expert_hidden_size\": 3584, \"num_experts\": "
         "896, \"num_experts_per_token\": 16, \"num_shared_experts\": 2, \"first_k_dense_replace\": "
         "1, \"num_attention_heads\": 96, \"num_hidden_layers\": 93, \"kv_lora_rank\": 512, "
         "\"q_lora_rank\": 1536, \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, \"v_head_dim\": "
         "128, \"mla_use_output_gate\": true, \"vocab_size\": 163840, \"linear_attn_config\": "
         "{\"full_attn_layers\": [4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 64, "
         "68, 72, 76, 80, 84, 88, 92, 93], \"head_dim\": 128, \"num_heads\": 96, "
         "\"short_conv_kernel_size\": 4, \"use_full_rank_gate\": true}",
         2779, 104.9},
        {"nemotron-3-ultra",
         "\"model_type\": \"nemotron_h\", \"hidden_size\": 8192, \"intermediate_size\": 5120, "
         "\"moe_intermediate_size\": 5120, \"moe_shared_expert_intermediate_size\": 10240, "
         "\"moe_latent_size\": 2048, \"n_routed_experts\": 512, \"num_experts_per_tok\": 22, "
         "\"num_attention_heads\": 64, \"num_key_value_heads\": 2, \"head_dim\": 128, "
         "\"mamba_num_heads\": 256, \"mamba_head_dim\": 64, \"ssm_state_size\": 128, \"n_groups\": 8, "
         "\"conv_kernel\": 4, \"vocab_size\": 131072, \"num_hidden_layers\": 108, "
         "\"hybrid_override_pattern\": "
         "\"MEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM*E"
         "MEMEM*EMEMEMEM*EMEMEMEME\"",
         550, 55},
        {"mamba-2.8b",
         "\"model_type\": \"mamba\", \"num_hidden_layers\": 64, \"hidden_size\": 2560, \"state_size\": "
         "16, \"expand\": 2, \"conv_kernel\": 4, \"time_step_rank\": 160, \"vocab_size\": 50280",
         2.77, 2.77},
        {"recurrentgemma-2b",
         "\"model_type\": \"recurrent_gemma\", \"num_hidden_layers\": 26, \"hidden_size\": 2560, "
         "\"intermediate_size\": 15360, \"lru_width\": 2560, \"num_attention_heads\": 10, "
         "\"num_key_value_heads\": 1, \"attention_window_size\": 2048, \"conv1d_width\": 4, "
         "\"block_types\": [\"recurrent\", \"recurrent\", \"attention\"], \"vocab_size\": 256000",
         2.68, 2.68}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        char config[1500];
        s2_net net;
        s2_diag diag = {0};
        snprintf(config, sizeof config, "{%s}", rows[r].text);
        if (s2_widths_read(config, strlen(config), &net, &diag) != S2_OK)
            fail_msg("%s: %s", rows[r].name, diag.msg);
        const double weights = (double)s2_net_weights(&net) / 1e9,
                     idle = (net.gated ? 3.0 : 2.0) * s2_net_expert_input(&net) * net.ffn *
                            (net.n_experts - net.n_active) * s2_net_count(&net).n_mixtures / 1e9;
        if (fabs(weights / rows[r].weights - 1) > 0.04 || fabs((weights - idle) / rows[r].active - 1) > 0.13)
            fail_msg("%s: %.4g of %.4g, %.4g of %.4g at work", rows[r].name, weights, rows[r].weights,
                     weights - idle, rows[r].active);
    }
}

/* A mixture that is not understood is refused: it would be read as a dense model of a tenth of its weights. */
static void mixtures_of_unknown_words_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *says, *why;
    } rows[] = {
        {"\"expert_count\": 64", "\"expert_count\""},
        {"\"moe_routed\": 64, \"num_experts\": null", "\"moe_routed\""},
        {"\"num_experts\": 64", "\"num_experts_per_tok\" is missing"},
        {"\"num_experts\": 64, \"num_experts_per_tok\": 65", "from 1 to 64"},
        {"\"num_experts\": 64, \"num_experts_per_tok\": 8, \"moe_layer_freq\": [1, 1]", "each of 4"},
        {"\"num_experts\": 64, \"num_experts_per_tok\": 8, \"moe_layers_enum\": \"1,x\"", "expected layers"},
        {"\"num_experts\": [64, 32], \"num_experts_per_tok\": 8", "differs"},
        {"\"num_experts\": [], \"num_experts_per_tok\": 8", "list of none"}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        char config[500];
        s2_net net;
        s2_diag diag = {0};
        snprintf(config, sizeof config,
                 "{\"model_type\": \"llama\", \"hidden_size\": 512, \"intermediate_size\": 1024, "
                 "\"num_attention_heads\": 4, \"num_hidden_layers\": 4, \"vocab_size\": 99, %s}",
                 rows[r].says);
        assert_int_equal(s2_widths_read(config, strlen(config), &net, &diag), S2_EPARSE);
        if (strstr(diag.msg, rows[r].why) == NULL)
            fail_msg("%s: %s", rows[r].says, diag.msg);
    }
}

/* Two layouts for four heads: head h has layout h mod 2. */
static void onnx_layouts_are_dealt_out_by_head(void **state)
{
    (void)state;
    imported at;
    import_text(&at,
                "{\"num_heads\": 4, \"kv_num_heads\": 2, \"sparse_block_size\": 16,"
                "\"block_row_indices\": [[0, 1, 2, 4], [0, 1, 3, 6]],"
                "\"block_col_indices\": [[0, 1, 0, 2, -1, -1], [0, 0, 1, 0, 1, 2]]}",
                "");
    assert_string_equal(at.format->name, "csr");
    assert_int_equal(at.pattern.n_kv_heads, 2);
    for (int32_t head = 0; head < 4; head++)
        for (int64_t q = 0; q < 48; q++)
            for (int64_t k = 0; k <= q; k++) {
                const bool first = q / 16 == k / 16 || (q / 16 == 2 && k / 16 == 0);
                assert_int_equal(s2_pattern_reads(&at.pattern, S2_PREFILL, 0, head, 48, q, k),
                                 head % 2 == 1 || first);
            }
    imported_release(&at);
}

static void bsa_streaming_heads_have_a_sink_and_a_window(void **state)
{
    (void)state;
    imported at;
    import_text(
        &at,
        "{\"num_attention_heads\": 2, \"block_size\": 128, \"len\": 512, \"layouts\": [{\"layers\": [0],"
        "\"head_mask_type\": [-1, 1], \"streaming_info\": [1, 2, 0, 0], \"base_blockmask\": [[[[1, 0, 0, 0],"
        "[1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]]]}]}",
        "");
    assert_string_equal(at.format->name, "bsa");
    for (int64_t i = 0; i < 4; i++)
        for (int64_t j = 0; j <= i; j++) {
            const bool reads = s2_pattern_reads(&at.pattern, S2_PREFILL, 0, 0, 512, i * 128 + 127, j * 128);
            assert_int_equal(reads, j < 1 || i - j < 2);
        }
    imported_release(&at);
}

/* A small file may not ask for a large mask. */
static void arrays_that_ask_for_much_memory_are_refused(void **state)
{
    (void)state;
    enum { HEADS = 64, ROWS = 8193 };
    s2_buf file = {0};
    const int64_t crow[2] = {HEADS, ROWS}, col[2] = {HEADS, 1};
    s2_arena arena = {0};
    s2_fileset files = {.arena = &arena};
    int32_t *const zeros = calloc(HEADS * ROWS, sizeof *zeros);
    assert_int_equal(s2_fileset_add_i32(&files, "crow", crow, 2, zeros), S2_OK);
    assert_int_equal(s2_fileset_add_i32(&files, "col", col, 2, zeros), S2_OK);
    for (int f = 0; f < 2; f++)
        s2_buf_add(&file, files.files[f].bytes, files.files[f].n_bytes);
    imported at = {0};
    assert_int_equal(try_import(&at, "csr", file.data, file.len, "", NULL), S2_EPARSE);
    assert_non_null(strstr(at.diag.msg, "sane size"));
    imported_release(&at);
    s2_buf_release(&file);
    s2_arena_release(&arena);
    free(zeros);
}

/* ---- configs as published: tests/formats/truth.py holds what they say against the models' code */

#define CONFIGS "tests/data/configs"

static int is_config_name(const struct dirent *entry)
{
    const size_t n = strlen(entry->d_name);
    return n > 5 && strcmp(entry->d_name + n - 5, ".json") == 0;
}

/* The canonical text of a file, or why it is refused. */
static void add_reading(const char *dir, const char *name, const char *settings, s2_buf *out)
{
    imported at;
    if (import_path(&at, dir, name, settings) == S2_OK)
        s2_buf_puts(out, text_of(&at));
    else
        s2_buf_printf(out, "refused at %d:%d: %s\n", at.diag.line, at.diag.col, at.diag.msg);
    imported_release(&at);
}

static void compare_lines(const char *got, const char *want, const char *path)
{
    for (int line = 1; *got != '\0' || *want != '\0'; line++) {
        const size_t n = strcspn(got, "\n"), m = strcspn(want, "\n");
        if (n != m || memcmp(got, want, n) != 0)
            fail_msg("%s:%d: %.*s\nis now: %.*s\n(make golden-read writes it)", path, line, (int)m, want,
                     (int)n, got);
        got += n + (got[n] == '\n');
        want += m + (want[m] == '\n');
    }
}

/* Whether this is what the file says, by the line; S2_GOLDEN_WRITE=1 writes it. */
static void compare_readings(const s2_buf *got, const char *path)
{
    s2_arena arena = {0};
    s2_file want;
    if (getenv("S2_GOLDEN_WRITE") != NULL)
        assert_int_equal(s2_file_write(path, got->data, got->len, NULL), S2_OK);
    assert_int_equal(s2_file_read(&arena, path, S2_DOC_BYTES, &want, NULL), S2_OK);
    compare_lines(got->data, want.bytes, path);
    s2_arena_release(&arena);
}

static void configs_are_read_as_expected(void **state)
{
    (void)state;
    struct dirent **entries;
    s2_buf got = {0};
    const int n = scandir(CONFIGS, &entries, is_config_name, alphasort);
    assert_true(n >= 90);
    for (int e = 0; e < n; e++) {
        s2_buf_printf(&got, "== %s\n", entries[e]->d_name);
        add_reading(CONFIGS, entries[e]->d_name, "", &got);
        free(entries[e]);
    }
    free(entries);
    compare_readings(&got, CONFIGS "/expected.txt");
    s2_buf_release(&got);
}

/* The config with a number for each key that decides a width and that it leaves out. */
static void complete(const char *bytes, size_t n_bytes, s2_buf *out)
{
    static const char *const keys[] = {"vocab_size", "hidden_size", "intermediate_size", "mamba_dt_rank"};
    s2_buf own = {0};
    s2_buf_printf(&own, "%.*s", (int)n_bytes, bytes);
    const char *const text = own.data, *const brace = strchr(text, '{');
    const char *const inner = strstr(text, "\"text_config\"");
    const char *const at = inner != NULL ? strchr(inner, '{') : brace;
    s2_buf_printf(out, "%.*s", (int)(at + 1 - text), text);
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        if (strstr(text, keys[k]) == NULL && (k != 1 || strstr(text, "_embd") == NULL))
            s2_buf_printf(out, "\"%s\": 4096, ", keys[k]);
    s2_buf_puts(out, at + 1);
    s2_buf_release(&own);
}

/* Both are read from one config: each layer that reads keys or keeps a state does so in the other. */
static void widths_are_of_the_layers_of_the_pattern(void **state)
{
    (void)state;
    struct dirent **entries;
    int n_alike = 0, n_unlike = 0;
    const int n = scandir(CONFIGS, &entries, is_config_name, alphasort);
    for (int e = 0; e < n; e++) {
        imported from;
        if (import_path(&from, CONFIGS, entries[e]->d_name, "") == S2_OK &&
            from.format == s2_format_find("layers")) {
            char path[512];
            s2_file file;
            s2_net net;
            s2_diag diag = {0};
            s2_buf text = {0};
            snprintf(path, sizeof path, "%s/%s", CONFIGS, entries[e]->d_name);
            assert_int_equal(s2_file_read(&from.arena, path, S2_DOC_BYTES, &file, NULL), S2_OK);
            complete((const char *)file.bytes, file.n_bytes, &text);
            const bool read = s2_widths_read(text.data, text.len, &net, &diag) == S2_OK;
            if (read && s2_net_check_shape(&net, &from.pattern, &diag) != S2_OK)
                fail_msg("%s: %s", entries[e]->d_name, diag.msg);
            n_alike += read && !s2_pattern_layers_differ(&from.pattern);
            n_unlike += read && s2_pattern_layers_differ(&from.pattern);
            s2_buf_release(&text);
        }
        imported_release(&from);
        free(entries[e]);
    }
    free(entries);
    if (n_alike < 50 || n_unlike < 8)
        fail_msg("%d alike and %d unlike of %d", n_alike, n_unlike, n);
}

/* Weights are counted layer by layer: which of them have experts may be a list of words. */
static void words_say_which_layers_have_experts(void **state)
{
    (void)state;
    static const char text[] = "{\"model_type\": \"laguna\", \"num_hidden_layers\": 3, "
                               "\"num_attention_heads\": 4, \"head_dim\": 64, "
                               "\"hidden_size\": 256, \"intermediate_size\": 1000, "
                               "\"moe_intermediate_size\": 64, \"num_experts\": 8, "
                               "\"num_experts_per_tok\": 2, \"vocab_size\": 100, \"sliding_window\": 64, "
                               "\"mlp_layer_types\": [\"dense\", \"sparse\", \"%s\"]}";
    char file[600];
    s2_net net;
    s2_diag diag = {0};
    snprintf(file, sizeof file, text, "sparse");
    if (s2_widths_read(file, strlen(file), &net, &diag) != S2_OK)
        fail_msg("%s", diag.msg);
    assert_int_equal(s2_net_count(&net).n_mixtures, 2);
    assert_int_equal(net.mixture.plain_ffn, 1000);
    snprintf(file, sizeof file, text, "thin");
    assert_int_equal(s2_widths_read(file, strlen(file), &net, &diag), S2_EPARSE);
}

/* A reader that takes a number in another unit, and a writer that gives it back so, agree with each other. */
static void files_of_every_format_are_read_as_expected(void **state)
{
    (void)state;
    s2_buf got = {0};
    for (int32_t n = 0; s2_format_at(n) != NULL; n++) {
        const s2_format *const format = s2_format_at(n);
        char dir[128];
        struct dirent **entries;
        snprintf(dir, sizeof dir, FOREIGN "/%s", format->name);
        const int n_entries = scandir(dir, &entries, NULL, alphasort);
        assert_true(n_entries > 0);
        for (int e = 0; e < n_entries; e++) {
            if (is_plain_file(dir, entries[e]->d_name)) {
                s2_buf_printf(&got, "== %s/%s\n", format->name, entries[e]->d_name);
                add_reading(dir, entries[e]->d_name, needed_settings(format), &got);
            }
            free(entries[e]);
        }
        free(entries);
    }
    compare_readings(&got, FOREIGN ".txt");
    s2_buf_release(&got);
}

/* ---- files as published */

/* Where they are, or NULL: $S2_PUBLISHED, else beside the repository. */
static const char *published(const char *name)
{
    static char dir[1024];
    const char *const roots[] = {getenv("S2_PUBLISHED"), "../shared/data", "../../shared/data"};
    for (size_t n = 0; n < sizeof roots / sizeof *roots; n++) {
        struct stat info;
        snprintf(dir, sizeof dir, "%s/%s", roots[n] != NULL ? roots[n] : "/nonexistent", name);
        if (stat(dir, &info) == 0)
            return dir;
    }
    print_message("no published files are here (S2_PUBLISHED names their folder)\n");
    return NULL;
}

static int count_dense(const s2_pattern *pattern)
{
    int n = 0;
    const int32_t group = pattern->n_heads / pattern->n_kv_heads;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++)
        for (int32_t kv = 0; kv < pattern->n_kv_heads; kv++)
            n += s2_pattern_reads(pattern, S2_DECODE, layer, kv * group, 8192, 8000, 4000);
    return n;
}

static void published_duo_table_has_its_full_heads(void **state)
{
    (void)state;
    static const struct {
        const char *name, *settings;
        int n_full;
    } rows[] = {
        {"full_attention_heads.tsv", "sparsity=0.5 tie=all", 130},
        {"config.json", "sparsity=0.5 tie=all", 130},
        {"full_attention_heads.tsv", "sparsity=0.5", 128},
        {"full_attention_heads.tsv", "sparsity=0.75 tie=all", 82},
        {"full_attention_heads.tsv", "sparsity=0.75", 64},
        {"full_attention_heads.tsv", "sparsity=0.5 rule=kvpress", 128},
    };
    const char *const dir = published("duo-attention");
    if (dir == NULL)
        skip();
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        imported at;
        assert_int_equal(import_path(&at, dir, rows[r].name, rows[r].settings), S2_OK);
        assert_string_equal(at.format->name, "duo");
        assert_int_equal(at.pattern.n_layers, 32);
        assert_int_equal(at.pattern.n_heads, 32);
        assert_int_equal(at.pattern.n_kv_heads, 8);
        assert_int_equal(count_dense(&at.pattern), rows[r].n_full);
        imported_release(&at);
    }
}

static void published_minference_file_gives_every_head_the_same_budgets(void **state)
{
    (void)state;
    const char *const dir = published("minference");
    if (dir == NULL)
        skip();
    imported at;
    assert_int_equal(import_path(&at, dir, "Llama_3.1_8B_Instruct_128k_v2.json", ""), S2_OK);
    assert_string_equal(at.format->name, "minference");
    assert_int_equal(at.pattern.n_layers, 32);
    assert_int_equal(at.pattern.n_heads, 32);
    /* (512, 2048) everywhere: 30 columns and 100 diagonals are forced, the others chosen */
    assert_non_null(strstr(text_of(&at), "prefill: sink 30t | local 100t | heavy 482 | topk 1948"));
    imported_release(&at);
}

static void published_moa_file_has_the_mean_cache(void **state)
{
    (void)state;
    static const struct {
        const char *settings, *mean;
    } rows[] = {{"len=4096", "0.4844"}, {"len=8192", "0.4922"}, {"len=16384", "0.4961"}};
    const char *const dir = published("moa");
    if (dir == NULL)
        skip();
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        imported at;
        assert_int_equal(import_path(&at, dir, "moa_alpha_beta.json", rows[r].settings), S2_OK);
        assert_string_equal(at.format->name, "moa");
        if (!says(&at, rows[r].mean))
            fail_msg("%s: %s is not in %s", rows[r].settings, rows[r].mean, at.notes.data);
        imported_release(&at);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_is_told_by_the_content_of_its_files),
        cmocka_unit_test(every_format_that_is_written_holds_one_of_its_own_files),
        cmocka_unit_test(files_cut_anywhere_are_answered_with_a_position),
        cmocka_unit_test(nested_yaml_is_the_same_as_json),
        cmocka_unit_test(words_of_python_for_numbers_are_read_wherever_they_stand),
        cmocka_unit_test(a_period_may_be_written_in_letters),
        cmocka_unit_test(what_yaml_and_hjson_must_not_hold_is_refused_in_its_place),
        cmocka_unit_test(numbers_that_readers_read_differently_are_refused),
        cmocka_unit_test(hostile_yaml_and_hjson_are_bounded),
        cmocka_unit_test(budgets_of_more_methods_are_kept),
        cmocka_unit_test(pyramidkv_budgets_fall_from_the_first_layer_to_the_last),
        cmocka_unit_test(headkv_deals_its_pool_by_score),
        cmocka_unit_test(headkv_divides_and_raises_as_its_code_does),
        cmocka_unit_test(duo_by_the_rule_of_kvpress_rounds_and_sorts),
        cmocka_unit_test(files_inside_something_else_are_refused_as_what_they_are),
        cmocka_unit_test(chunks_of_positions_name_the_file_that_makes_them_sparse),
        cmocka_unit_test(places_are_counted_in_characters),
        cmocka_unit_test(settings_that_a_format_does_not_know_are_refused),
        cmocka_unit_test(models_imply_their_full_layers),
        cmocka_unit_test(a_model_type_that_is_not_known_is_refused_with_its_place),
        cmocka_unit_test(kv_heads_of_an_attention_config_are_those_of_the_code),
        cmocka_unit_test(keys_that_some_code_shares_are_refused_unless_it_is_said),
        cmocka_unit_test(heads_that_a_models_code_counts_are_not_the_files),
        cmocka_unit_test(switches_of_windows_have_the_defaults_of_their_type),
        cmocka_unit_test(layers_that_differ_are_read),
        cmocka_unit_test(models_that_look_both_ways_are_not_causal),
        cmocka_unit_test(widths_of_configs_are_those_of_the_built_in_models),
        cmocka_unit_test(widths_that_configs_leave_out_are_those_of_their_code),
        cmocka_unit_test(models_that_share_an_embedding_do_so_unsaid),
        cmocka_unit_test(caps_of_scores_are_those_of_the_config),
        cmocka_unit_test(weights_are_stored_as_the_config_says),
        cmocka_unit_test(modules_that_a_list_names_keep_their_type),
        cmocka_unit_test(modules_may_be_stored_in_several_types),
        cmocka_unit_test(params_are_refused_by_what_they_are),
        cmocka_unit_test(names_of_modules_may_be_any_text),
        cmocka_unit_test(weights_stored_as_another_file_says),
        cmocka_unit_test(latent_and_older_models_weigh_what_is_published),
        cmocka_unit_test(configs_without_widths_are_refused_with_what_is_missing),
        cmocka_unit_test(checkpoints_of_tensorrt_llm_have_widths),
        cmocka_unit_test(mixtures_weigh_what_their_cards_say),
        cmocka_unit_test(mixtures_of_unknown_words_are_refused),
        cmocka_unit_test(models_imply_the_shape_that_their_configs_leave_out),
        cmocka_unit_test(what_computes_is_kept_beside_the_pattern),
        cmocka_unit_test(a_list_of_rotary_layers_says_which_are_chunked),
        cmocka_unit_test(onnx_layouts_are_dealt_out_by_head),
        cmocka_unit_test(bsa_streaming_heads_have_a_sink_and_a_window),
        cmocka_unit_test(arrays_that_ask_for_much_memory_are_refused),
        cmocka_unit_test(configs_are_read_as_expected),
        cmocka_unit_test(widths_are_of_the_layers_of_the_pattern),
        cmocka_unit_test(words_say_which_layers_have_experts),
        cmocka_unit_test(files_of_every_format_are_read_as_expected),
        cmocka_unit_test(published_duo_table_has_its_full_heads),
        cmocka_unit_test(published_minference_file_gives_every_head_the_same_budgets),
        cmocka_unit_test(published_moa_file_has_the_mean_cache),
    };
    return cmocka_run_group_tests_name("foreign", tests, NULL, NULL);
}

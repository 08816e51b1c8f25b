/*
 * Files that somebody touched: a number changed after s2 wrote it, one thing stated twice and differently, a key
 * misspelt. Each is refused with its place or warned of, or reads as before; and a file that nobody touched is the
 * design that it was written from.
 */
#include "tests/s2test.h"

#include <ctype.h>
#include <dirent.h>
#include <sys/stat.h>

#include "export/asked.h"
#include "export/doc.h"
#include "export/registry.h"
#include "export/tree.h"
#include "pattern/parse.h"
#include "tests/s2import.h"

/* A pattern that the format holds, and what of it is read back as the same text. */
static const struct {
    const char *format, *pattern;
    bool is_design;
} rows[] = {
    {"hf",
     "name phi; layers 4; heads 8; kv-heads 4; layers all: local 2 | stride 8 phase head+1; layers 1::2: "
     "dense",
     true},
    {"vllm", "name two words; layers 4; heads 8; kv-heads 4; layers all: local 2 | stride 8 phase head+1",
     true},
    {"trtllm", "layers 2; heads 8; kv-heads 4; layers all: local 2 | stride 8 phase head+1", true},
    {"dkernel", "name d; layers 2; heads 8; kv-heads 4; layers all: local 2 | stride 8 phase kv", true},
    {"dkernel", "name d; layers 2; heads 8; layers all: local 2 | stride 8 phase head; layers 1: dense",
     true},
    {"deepspeed", "name ds; heads 8; block 16; layers all: chunk 4 | stride 4 phase 1", true},
    {"layers", "name l; layers 4; heads 8; kv-heads 4; layers 0-2: local 4096t; layers 3: dense", true},
    {"duo", "name duo; layers 2; heads 8; kv-heads 4; layers all: sink 64t | local 256t; kv 1: dense", true},
    {"csr", "name c; heads 4; kv-heads 2; layers all: local 2 | stride 4 phase head+1", false},
    {"flashinfer", "name f; heads 4; kv-heads 2; layers all: local 2 | stride 4 phase head+1", false},
    {"flex", "name f; heads 4; kv-heads 2; layers all: local 2 | stride 4 phase head+1", true},
    {"cute", "name f; heads 4; kv-heads 2; layers all: local 2 | stride 4 phase head+1", true},
    {"bsa", "name b; heads 4; kv-heads 2; block 128; layers all: local 2 | stride 4 phase head+1", false},
    {"c", "name c; heads 4; kv-heads 2; layers all: local 2 | stride 4 phase head+1", false},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

/* One row, written. */
typedef struct written {
    s2_arena arena;
    s2_buf notes;
    s2_fileset files;
    s2_pattern pattern;
    char hash[S2_HASH_HEX];
} written;

static void write_row(int row, written *out)
{
    s2_diag diag = {0};
    s2_export_report report = {0};
    const s2_format *const format = s2_format_find(rows[row].format);
    *out = (written){0};
    out->files.arena = &out->arena;
    if (s2_pattern_parse(&out->arena, rows[row].pattern, strlen(rows[row].pattern), NULL, &out->pattern,
                         &diag) != S2_OK)
        fail_msg("%s: %s", rows[row].pattern, diag.msg);
    s2_target target = {.arena = &out->arena,
                        .pattern = &out->pattern,
                        .n_tok = 512,
                        .provenance = "somebody",
                        .run = "",
                        .notes = &out->notes,
                        .files = &out->files,
                        .diag = &diag};
    if (s2_export_run(format, &target, &report) != S2_OK || report.refused)
        fail_msg("%s: %s", rows[row].format, diag.msg);
    assert_int_equal(s2_pattern_hash(&out->pattern, out->hash), S2_OK);
}

static void written_release(written *at)
{
    s2_buf_release(&at->notes);
    s2_arena_release(&at->arena);
}

static s2_status read_again(const written *from, int row, const char *bytes, size_t n_bytes, imported *at)
{
    *at = (imported){0};
    return try_import(at, rows[row].format, bytes, n_bytes, "", &from->files);
}

static bool is_same_design(const written *from, const imported *at)
{
    char hash[S2_HASH_HEX];
    assert_int_equal(s2_pattern_hash(&at->pattern, hash), S2_OK);
    return strcmp(hash, from->hash) == 0;
}

static void an_untouched_file_is_the_design_that_it_was_written_from(void **state)
{
    (void)state;
    for (int row = 0; row < N_ROWS; row++) {
        written from;
        imported at;
        write_row(row, &from);
        const s2_file *const file = &from.files.files[0];
        assert_int_equal(read_again(&from, row, file->bytes, file->n_bytes, &at), S2_OK);
        if (is_same_design(&from, &at) != rows[row].is_design)
            fail_msg("%s: %s is read as another design", rows[row].format, rows[row].pattern);
        if (at.said.warnings.len > 0)
            fail_msg("%s: %s", rows[row].format, at.said.warnings.data);
        imported_release(&at);
        written_release(&from);
    }
}

/* The number that ends before `at`, one more; 0 digits where none ends there or it is part of a word. */
static size_t digits_at(const char *text, size_t at, size_t end)
{
    size_t n = 0;
    if (at > 0 && (isalnum((unsigned char)text[at - 1]) || strchr("_.-\"\\", text[at - 1]) != NULL))
        return 0;
    while (at + n < end && isdigit((unsigned char)text[at + n]))
        n++;
    return n < 10 && (at + n == end || !isalpha((unsigned char)text[at + n])) ? n : 0;
}

/* Changed in one number: refused, warned of, or without a meaning for the pattern. */
static int change_numbers(const written *from, int row)
{
    const s2_file *const file = &from->files.files[0];
    const char *const stop = strstr(file->bytes, "\"s2\":"), *const start =
                                                                 strstr(file->bytes, "*/\n#ifndef");
    const size_t end = stop != NULL ? (size_t)(stop - file->bytes) : file->n_bytes;
    int n_changed = 0;
    for (size_t at = start != NULL ? (size_t)(start - file->bytes) : 0; at < end; at++) {
        const size_t n = digits_at(file->bytes, at, end);
        imported again;
        s2_buf text = {0};
        if (n == 0)
            continue;
        s2_buf_printf(&text, "%.*s%lld%.*s", (int)at, file->bytes, atoll(file->bytes + at) + 1,
                      (int)(file->n_bytes - at - n), file->bytes + at + n);
        const s2_status status = read_again(from, row, text.data, text.len, &again);
        const bool noticed = status != S2_OK
                                 ? again.diag.line > 0
                                 : is_same_design(from, &again) || warns(&again, "changed after s2 wrote it");
        if (!noticed)
            fail_msg("%s: a change at byte %d is read without a word:\n%s", rows[row].format, (int)at,
                     text.data);
        n_changed += status != S2_OK || !is_same_design(from, &again);
        s2_buf_release(&text);
        imported_release(&again);
        at += n;
    }
    return n_changed;
}

static void a_number_that_was_changed_is_noticed(void **state)
{
    (void)state;
    for (int row = 0; row < N_ROWS; row++) {
        written from;
        write_row(row, &from);
        if (strcmp(rows[row].format, "duo") != 0) /* its numbers are in a table, which s2.sha256 covers */
            assert_true(change_numbers(&from, row) > 0);
        written_release(&from);
    }
}

/* What is stated twice must be the same twice: the edit, and where the refusal points. */
static void contradictions_are_refused_in_their_place(void **state)
{
    (void)state;
    static const struct {
        int row;
        const char *from, *to, *at, *words;
    } edits[] = {
        {1, "\"num_attention_heads\": 8", "\"num_attention_heads\": 16", "\"num_attention_heads\"",
         "is 16, but"},
        {1, "\"num_heads\": 8", "\"num_heads\": 4", "\"num_attention_heads\"", "is 8, but"},
        {1, "\"tensor_parallel_size\": 1", "\"tensor_parallel_size\": 2", "\"num_attention_heads\"",
         "it is 16"},
        {1, "\"num_kv_heads\": 4", "\"num_kv_heads\": 2", "\"num_key_value_heads\"", "it is 2"},
        {3, "\"num_heads\": 8", "\"num_heads\": 16", "\"num_attention_heads\"", "it is 16"},
        {3, "\"num_key_value_heads\": 4", "\"num_key_value_heads\": 2", "\"num_key_value_heads\"", "it is 4"},
    };
    for (size_t n = 0; n < sizeof edits / sizeof *edits; n++) {
        written from;
        imported at;
        write_row(edits[n].row, &from);
        s2_buf text = {0};
        int32_t line, col;
        const char *const bytes = from.files.files[0].bytes, *const found = strstr(bytes, edits[n].from);
        assert_non_null(found);
        s2_buf_add(&text, bytes, (size_t)(found - bytes));
        s2_buf_puts(&text, edits[n].to);
        s2_buf_puts(&text, found + strlen(edits[n].from));
        assert_int_equal(read_again(&from, edits[n].row, text.data, text.len, &at), S2_EPARSE);
        s2_text_position(text.data, text.len, (size_t)(strstr(text.data, edits[n].at) - text.data), &line,
                         &col);
        if (at.diag.line != line || strstr(at.diag.msg, edits[n].words) == NULL)
            fail_msg("%s: %d:%d: %s", edits[n].to, at.diag.line, at.diag.col, at.diag.msg);
        imported_release(&at);
        s2_buf_release(&text);
        written_release(&from);
    }
}

/* ---- misspelt keys ------------------------------------------------------------------------------------ */

static void near_keys_are_near_word_for_word(void **state)
{
    (void)state;
    static const char *const near[][2] = {{"num_hiden_layers", "num_hidden_layers"},
                                          {"numHiddenLayers", "num_hidden_layers"},
                                          {"num_attention_head", "num_attention_heads"},
                                          {"slidng_window", "sliding_window"},
                                          {"window_sizes", "window_size"}};
    static const char *const far[][2] = {
        {"num_q_heads", "num_kv_heads"},     {"v_head_dim", "head_dim"},
        {"num_labels", "num_layers"},        {"num_local_blocks", "num_global_blocks"},
        {"rope_theta", "rope_scaling"},      {"num_heads", "num_layers"},
        {"max_seqlen", "min_seqlen_longer"}, {"n_embd", "n_head"}};
    for (size_t n = 0; n < sizeof near / sizeof *near; n++)
        assert_true(s2_asked_near(near[n][0], near[n][1]));
    for (size_t n = 0; n < sizeof far / sizeof *far; n++)
        assert_false(s2_asked_near(far[n][0], far[n][1]));
}

static bool same_text(const s2_pattern *a, const s2_pattern *b)
{
    s2_buf text[2] = {{0}};
    s2_pattern_print(a, &text[0]);
    s2_pattern_print(b, &text[1]);
    const bool same = text[0].len == text[1].len && memcmp(text[0].data, text[1].data, text[0].len) == 0;
    s2_buf_release(&text[0]);
    s2_buf_release(&text[1]);
    return same;
}

/* A letter of each key of a JSON file left out; how many such files were read as something else without a word. */
static int drop_letters(const char *path, const imported *whole, const char *text, size_t n_bytes)
{
    enum { LEAST = 6 };
    int n_silent = 0;
    for (size_t at = 0; at < n_bytes; at++) {
        size_t n = 0;
        while (text[at] == '"' && at + 1 + n < n_bytes &&
               (isalnum((unsigned char)text[at + 1 + n]) || text[at + 1 + n] == '_'))
            n++;
        if (n < LEAST || at + 2 + n >= n_bytes || text[at + 1 + n] != '"' || text[at + 2 + n] != ':')
            continue;
        const size_t drop = at + 1 + n / 2 + (text[at + 1 + n / 2] == '_');
        imported again = {0};
        s2_buf spoilt = {0};
        s2_buf_add(&spoilt, text, drop);
        s2_buf_add(&spoilt, text + drop + 1, n_bytes - drop - 1);
        const s2_status status = try_import(&again, whole->format->name, spoilt.data, spoilt.len, "", NULL);
        if (status == S2_OK && !same_text(&whole->pattern, &again.pattern) && again.said.warnings.len == 0) {
            printf("# s2: %s: without a letter of \"%.*s\" it is read as another pattern\n", path, (int)n,
                   text + at + 1);
            n_silent++;
        }
        s2_buf_release(&spoilt);
        imported_release(&again);
        at += n;
    }
    return n_silent;
}

static int drop_letters_of_folder(const char *folder, int *n_files)
{
    int n_silent = 0;
    DIR *const dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[1024];
        s2_file file;
        imported whole = {0};
        const size_t n = strlen(entry->d_name);
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (n < 5 || strcmp(entry->d_name + n - 5, ".json") != 0 ||
            s2_file_read(&whole.arena, path, S2_DOC_BYTES, &file, &whole.diag) != S2_OK)
            continue;
        if (try_import(&whole, NULL, file.bytes, file.n_bytes, "", NULL) == S2_OK) {
            if (whole.said.warnings.len > 0)
                fail_msg("%s: %s", path, whole.said.warnings.data);
            n_silent += drop_letters(path, &whole, file.bytes, file.n_bytes);
            ++*n_files;
        }
        imported_release(&whole);
    }
    closedir(dir);
    return n_silent;
}

static void a_misspelt_key_is_named_or_without_a_meaning(void **state)
{
    (void)state;
    int n_files = 0, n_silent = 0;
    for (int32_t n = 0; s2_format_at(n) != NULL; n++) {
        char folder[128];
        snprintf(folder, sizeof folder, "tests/data/foreign/%s", s2_format_at(n)->name);
        n_silent += drop_letters_of_folder(folder, &n_files);
    }
    n_silent += drop_letters_of_folder("tests/data/configs", &n_files);
    printf("# s2: %d files\n", n_files);
    assert_true(n_files > 60);
    assert_int_equal(n_silent, 0);
}

/* A format that reads its own keys must not lose others that limit what a query reads. */
static void keys_of_attention_that_nobody_reads_are_named(void **state)
{
    (void)state;
#define PHI                                                                                                  \
    "{\"model_type\": \"phi3small\", \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "                 \
    "\"blocksparse_block_size\": 64, \"blocksparse_num_local_blocks\": 4, \"blocksparse_vert_stride\": 4, "
    static const struct {
        const char *text, *warning;
    } cases[] = {
        {PHI "\"sliding_window\": 2048}", "\"sliding_window\" is not read"},
        {PHI "\"text_config\": {\"attention_chunk_size\": 64}}", "\"text_config/attention_chunk_size\""},
        {PHI "\"layer_types\": [\"full_attention\", \"sliding_attention\"]}", "\"layer_types\" is not read"},
        {PHI "\"layer_types\": [\"full_attention\", \"full_attention\"]}", NULL},
        {PHI "\"sliding_window\": null}", NULL},
        {PHI "\"sliding_window\": 2048, \"use_sliding_window\": false}", NULL},
        {"{\"heavy_ratio\": 0.1, \"recent_ratio\": 0.1, \"sliding_window\": 4096}", "\"sliding_window\""},
    };
#undef PHI
    for (size_t r = 0; r < sizeof cases / sizeof *cases; r++) {
        imported at;
        import_text(&at, cases[r].text, "");
        if (cases[r].warning != NULL ? !warns(&at, cases[r].warning)
                                     : warns(&at, "what it makes of attention"))
            fail_msg("%s: %s", cases[r].text, at.said.warnings.data != NULL ? at.said.warnings.data : "");
        imported_release(&at);
    }
}

/* Each key once, in the order of the file. Walked by ordinal these would take minutes. */
static void keys_are_walked_in_the_order_of_the_file(void **state)
{
    (void)state;
    enum { KEYS = 80000 };
    s2_buf text = {0};
    s2_doc doc = {0};
    s2_diag diag = {0};
    for (int nth = 0; nth < KEYS; nth++)
        s2_buf_printf(&text, "%c\"k%d\":0", nth == 0 ? '{' : ',', nth * 7919 % KEYS);
    s2_buf_puts(&text, ",\"empty\":{}}");
    assert_int_equal(text.status, S2_OK);
    assert_int_equal(s2_doc_parse(text.data, text.len, &doc, &diag), S2_OK);
    const char *key = NULL;
    for (int nth = 0; nth < KEYS; nth++) {
        char want[16];
        snprintf(want, sizeof want, "k%d", nth * 7919 % KEYS);
        key = s2_doc_key(&doc, "", key);
        assert_string_equal(key, want);
    }
    key = s2_doc_key(&doc, "", key);
    assert_string_equal(key, "empty");
    assert_null(s2_doc_key(&doc, "", key));
    assert_null(s2_doc_key(&doc, "/empty", NULL));
    assert_null(s2_doc_key(&doc, "/k0", NULL));
    assert_null(s2_doc_key(&doc, "/absent", NULL));
    s2_doc_release(&doc);
    s2_buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_untouched_file_is_the_design_that_it_was_written_from),
        cmocka_unit_test(a_number_that_was_changed_is_noticed),
        cmocka_unit_test(contradictions_are_refused_in_their_place),
        cmocka_unit_test(near_keys_are_near_word_for_word),
        cmocka_unit_test(a_misspelt_key_is_named_or_without_a_meaning),
        cmocka_unit_test(keys_of_attention_that_nobody_reads_are_named),
        cmocka_unit_test(keys_are_walked_in_the_order_of_the_file),
    };
    return cmocka_run_group_tests_name("slips", tests, NULL, NULL);
}

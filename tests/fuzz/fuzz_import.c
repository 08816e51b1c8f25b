/*
 * libFuzzer on one importer, named after the program: fuzz_import_hf reads every input as `hf`,
 * fuzz_import_any tells the format by content. A file that is taken must give a pattern that passes its check
 * and prints as text that parses again.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/registry.h"
#include "pattern/parse.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

/* jansson's, whose tables are else laid out by chance, and an input's coverage with them */
void json_object_seed(size_t seed);

static const char *format_name;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const char *const name = strstr((*argv)[0], "fuzz_import_");
    (void)argc;
    json_object_seed(1);
    format_name = name != NULL ? name + strlen("fuzz_import_") : "any";
    if (strcmp(format_name, "any") == 0) {
        format_name = NULL;
    } else if (s2_format_find(format_name) == NULL) {
        fprintf(stderr, "no format %s\n", format_name);
        exit(2);
    }
    return 0;
}

/* Mask files are side files of the import, which a parser of text alone does not see. */
static void use(const s2_pattern *pattern, const s2_fileset *side)
{
    s2_arena arena = {0};
    s2_buf text = {0};
    s2_pattern again;
    if (s2_pattern_check(pattern, NULL) != S2_OK)
        abort();
    s2_pattern_print(pattern, &text);
    if (text.status == S2_OK && side->n_files == 0 &&
        s2_pattern_parse(&arena, text.data, text.len, NULL, &again, NULL) != S2_OK)
        abort();
    s2_buf_release(&text);
    s2_arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    s2_arena arena = {.limit_bytes = (size_t)512 << 20};
    s2_buf notes = {0};
    s2_diag diag = {0};
    const s2_fileset none = {.arena = &arena};
    s2_fileset side = {.arena = &arena};
    const s2_format *used = NULL;
    s2_pattern pattern;
    s2_source source = {.arena = &arena,
                        .name = "fuzz.json",
                        .bytes = (const char *)data,
                        .n_bytes = n_bytes,
                        .finder = {.set = &none},
                        .notes = &notes,
                        .side = &side,
                        .diag = &diag};
    const s2_status status = s2_import_run(&source, format_name, &used, &pattern);
    if (status == S2_OK)
        use(&pattern, &side);
    else if (status == S2_EPARSE && diag.line == 0 && diag.msg[0] == '\0')
        abort();
    s2_buf_release(&notes);
    s2_arena_release(&arena);
    return 0;
}

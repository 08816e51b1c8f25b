/*
 * libFuzzer on every importer: the first byte chooses the format (or recognition by content), the rest is the
 * file. A file that is taken must give a pattern that passes its check and prints as text that parses again.
 */
#include <stdint.h>
#include <stdlib.h>

#include "export/format.h"
#include "pattern/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void use(const s2_pattern *pattern)
{
    s2_buf text = {0};
    if (s2_pattern_check(pattern, NULL) != S2_OK)
        abort();
    s2_pattern_print(pattern, &text);
    s2_buf_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    if (n_bytes == 0)
        return 0;
    s2_arena arena = {.limit_bytes = (size_t)512 << 20};
    s2_buf notes = {0};
    s2_diag diag = {0};
    const s2_fileset none = {.arena = &arena};
    s2_fileset side = {.arena = &arena};
    const s2_format *const format = s2_format_at(data[0] % 32), *used = NULL;
    s2_pattern pattern;
    s2_source source = {.arena = &arena,
                        .name = "fuzz.json",
                        .bytes = (const char *)data + 1,
                        .n_bytes = n_bytes - 1,
                        .finder = {.set = &none},
                        .notes = &notes,
                        .side = &side,
                        .diag = &diag};
    if (s2_import_run(&source, format != NULL ? format->name : NULL, &used, &pattern) == S2_OK)
        use(&pattern);
    s2_buf_release(&notes);
    s2_arena_release(&arena);
    return 0;
}

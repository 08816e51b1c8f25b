/*
 * libFuzzer on one importer, named after the program: fuzz_import_hf reads every input as `hf`,
 * fuzz_import_any tells the format by content. A file that is taken must give a pattern that passes its check
 * and prints as text that parses again. JSON is changed as JSON: a value for another, a member from another file. Behind the file and
 * the bytes 0x1e 0x1f may stand KEY=VALUE, as of --set, or a name, a new line, and the bytes of a file beside it.
 */
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "export/registry.h"
#include "export/widths.h"
#include "pattern/parse.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);
size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *one, size_t n_one, const uint8_t *other, size_t n_other,
                                 uint8_t *out, size_t most, unsigned seed);

static const char *format_name;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const char *const name = strstr((*argv)[0], "fuzz_import_");
    (void)argc;
    json_object_seed(1); /* jansson lays its tables out by chance, and an input's coverage would be too */
    format_name = name != NULL ? name + strlen("fuzz_import_") : "any";
    if (strcmp(format_name, "any") == 0) {
        format_name = NULL;
    } else if (s2_format_find(format_name) == NULL) {
        fprintf(stderr, "no format %s\n", format_name);
        exit(2);
    }
    return 0;
}

enum { N_BETWEEN = 2, MOST_SETTINGS = 4 };

/* Where a part of an input ends: before the next mark, or with the input. */
static const uint8_t *part_end(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *const mark = at < end ? memmem(at, (size_t)(end - at), "\x1e\x1f", N_BETWEEN) : NULL;
    return mark != NULL ? mark : end;
}

/* ---- changes of JSON */

enum { MOST_NODES = 4000 };

/* A value and where it stands: under a key of an object, or at a place of an array. */
typedef struct json_place {
    json_t *owner;
    const char *key;
    size_t at;
} json_place;

static size_t add_places(json_t *owner, json_place *places, size_t n)
{
    const char *key;
    json_t *value;
    size_t at;
    json_object_foreach(owner, key, value)
    {
        if (n < MOST_NODES)
            places[n++] = (json_place){owner, key, 0};
        n = add_places(value, places, n);
    }
    json_array_foreach(owner, at, value)
    {
        if (n < MOST_NODES)
            places[n++] = (json_place){owner, NULL, at};
        n = add_places(value, places, n);
    }
    return n;
}

static json_t *value_at(const json_place *place)
{
    return place->key != NULL ? json_object_get(place->owner, place->key)
                              : json_array_get(place->owner, place->at);
}

static void put_at(const json_place *place, json_t *value)
{
    if (place->key != NULL)
        json_object_set_new(place->owner, place->key, value);
    else
        json_array_set_new(place->owner, place->at, value);
}

static json_t *other_value(s2_rng *rng, const json_t *value)
{
    static const json_int_t numbers[] = {0,  1,  2,   3,    4,  7,         8,        63,
                                         64, 65, 512, 4096, -1, INT32_MAX, INT64_MAX};
    const json_int_t number = numbers[s2_rng_below(rng, sizeof numbers / sizeof *numbers)];
    switch (s2_rng_below(rng, 7)) {
    case 0: return json_null();
    case 1: return json_boolean(number % 2);
    case 2: return json_real((double)number / 8);
    case 3: return json_pack("[O]", value);
    case 4: return json_integer((json_int_t)((uint64_t)json_integer_value(value) + s2_rng_below(rng, 5) - 2));
    case 5: return json_array();
    default: return json_integer(number);
    }
}

/* Another value for one of the document, the value of another place, twice in its list, or none. */
static void change(json_t *root, s2_rng *rng)
{
    static json_place places[MOST_NODES];
    const size_t n = add_places(root, places, 0);
    if (n == 0)
        return;
    const json_place *const to = &places[s2_rng_below(rng, n)], *const from = &places[s2_rng_below(rng, n)];
    switch (s2_rng_below(rng, 4)) {
    case 0: put_at(to, json_deep_copy(value_at(from))); break;
    case 1:
        if (to->key != NULL)
            json_object_del(to->owner, to->key);
        else
            json_array_remove(to->owner, to->at);
        break;
    case 2:
        if (to->key == NULL)
            json_array_insert_new(to->owner, to->at, json_deep_copy(value_at(to)));
        break;
    default: put_at(to, other_value(rng, value_at(to))); break;
    }
}

static json_t *read_json(const uint8_t *data, size_t n)
{
    return json_loadb((const char *)data, (size_t)(part_end(data, data + n) - data), JSON_ALLOW_NUL, NULL);
}

/* The document with what stood behind the file; 0 where it is none or does not fit. */
static size_t write_json(json_t *root, const uint8_t *old, size_t n_old, uint8_t *out, size_t most)
{
    const uint8_t *const rest = part_end(old, old + n_old);
    const size_t n_rest = (size_t)(old + n_old - rest);
    char *const text = json_dumps(root, JSON_INDENT(1));
    const size_t n = text != NULL ? strlen(text) : 0;
    const bool fits = n > 0 && n + n_rest <= most;
    if (fits) {
        memmove(out + n, rest, n_rest);
        memcpy(out, text, n);
    }
    free(text);
    json_decref(root);
    return fits ? n + n_rest : 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed)
{
    s2_rng rng = {seed};
    json_t *const root = s2_rng_below(&rng, 3) > 0 ? read_json(data, n) : NULL;
    if (root == NULL)
        return LLVMFuzzerMutate(data, n, most);
    for (uint64_t times = 1 + s2_rng_below(&rng, 3); times > 0; times--)
        change(root, &rng);
    const size_t n_new = write_json(root, data, n, data, most);
    return n_new > 0 ? n_new : LLVMFuzzerMutate(data, n, most);
}

/* One document with a member of the other, where both are objects somewhere. */
size_t LLVMFuzzerCustomCrossOver(const uint8_t *one, size_t n_one, const uint8_t *other, size_t n_other,
                                 uint8_t *out, size_t most, unsigned seed)
{
    static json_place places[MOST_NODES];
    s2_rng rng = {seed};
    json_t *const root = read_json(one, n_one), *const donor = read_json(other, n_other);
    const size_t n = donor != NULL ? add_places(donor, places, 0) : 0;
    size_t n_new = 0;
    if (root != NULL && n > 0) {
        const json_place *const from = &places[s2_rng_below(&rng, n)];
        if (from->key != NULL && json_is_object(root))
            json_object_set_new(root, from->key, json_deep_copy(value_at(from)));
        else if (json_is_array(root))
            json_array_append_new(root, json_deep_copy(value_at(from)));
        n_new = write_json(json_incref(root), one, n_one, out, most);
    }
    json_decref(root);
    json_decref(donor);
    return n_new;
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

/* What stands behind the file: settings, and files beside it. */
static void take_rest(s2_arena *arena, const uint8_t *at, const uint8_t *end, s2_setting *list, int32_t *n,
                      s2_fileset *beside)
{
    while (at < end) {
        const uint8_t *const stop = part_end(at, end);
        const uint8_t *const line = memchr(at, '\n', (size_t)(stop - at));
        const char *const text =
            s2_arena_strndup(arena, (const char *)at, (size_t)((line != NULL ? line : stop) - at));
        char *const value = text != NULL ? strchr(text, '=') : NULL;
        if (line != NULL && text != NULL && text[0] != '\0')
            (void)s2_fileset_add(beside, text, (const char *)line + 1, (size_t)(stop - line - 1));
        else if (value != NULL && value > text && *n < MOST_SETTINGS) {
            *value = '\0';
            list[(*n)++] = (s2_setting){text, value + 1, true, false};
        }
        at = stop + N_BETWEEN;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    s2_arena arena = {.limit_bytes = (size_t)512 << 20};
    s2_buf notes = {0};
    s2_diag diag = {0}, why = {0};
    const uint8_t *const end = data + n_bytes, *const mark = part_end(data, end);
    const size_t n_file = (size_t)(mark - data);
    s2_setting settings[MOST_SETTINGS];
    int32_t n_settings = 0;
    s2_fileset beside = {.arena = &arena};
    s2_fileset side = {.arena = &arena};
    s2_said said = {0};
    s2_net net;
    const s2_format *used = NULL;
    s2_pattern pattern;
    if (mark < end)
        take_rest(&arena, mark + N_BETWEEN, end, settings, &n_settings, &beside);
    s2_source source = {.arena = &arena,
                        .name = "fuzz.json",
                        .bytes = (const char *)data,
                        .n_bytes = n_file,
                        .finder = {.set = &beside},
                        .settings = {settings, n_settings},
                        .notes = &notes,
                        .said = &said,
                        .side = &side,
                        .diag = &diag};
    const s2_status status = s2_import_run(&source, format_name, &used, &pattern);
    if (status == S2_OK)
        use(&pattern, &side);
    else if (status == S2_EPARSE && diag.line == 0 && diag.msg[0] == '\0')
        abort();
    if (s2_widths_read((const char *)data, n_file, &net, &why) == S2_EPARSE && why.msg[0] == '\0')
        abort();
    s2_buf_release(&said.warnings);
    s2_buf_release(&notes);
    s2_arena_release(&arena);
    return 0;
}

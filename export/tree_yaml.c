#include "export/tree.h"

#include <ctype.h>
#include <string.h>

#include <jansson.h>
#include <yaml.h>

#include "export/doc.h"

typedef struct reader {
    yaml_parser_t parser;
    s2_tree *tree;
    s2_diag *diag;
    int32_t depth;
} reader;

static s2_status refuse(const reader *in, yaml_mark_t mark, const char *msg)
{
    return s2_diag_set(in->diag, S2_EPARSE, S2_CODE_FOREIGN,
                       mark.line < INT32_MAX ? (int32_t)mark.line + 1 : INT32_MAX,
                       mark.column < INT32_MAX ? (int32_t)mark.column + 1 : INT32_MAX, "YAML: %s", msg);
}

static s2_status next(reader *in, yaml_event_t *event)
{
    if (yaml_parser_parse(&in->parser, event))
        return S2_OK;
    if (in->parser.error == YAML_MEMORY_ERROR)
        return S2_ENOMEM;
    /* The reader knows only an offset; what was scanned last is the nearest position. */
    const yaml_mark_t mark =
        in->parser.error == YAML_READER_ERROR ? in->parser.mark : in->parser.problem_mark;
    return refuse(in, mark, in->parser.problem != NULL ? in->parser.problem : "malformed");
}

/*
 * Keys are spelled with underscores, as flags are. A first key that is not a word, as in `call(name={"a": 1})`,
 * means that the text is something else.
 */
static s2_status take_key(const reader *in, const yaml_event_t *event, char key[S2_TREE_KEY])
{
    if (event->type != YAML_SCALAR_EVENT)
        return refuse(in, event->start_mark, "a key must be a word");
    const size_t n = event->data.scalar.length;
    const char *const text = (const char *)event->data.scalar.value;
    if (n == 0 || n >= S2_TREE_KEY || memchr(text, '\0', n) != NULL)
        return refuse(in, event->start_mark, "a key must be a word of fewer than 256 bytes");
    bool is_word = true;
    for (size_t at = 0; at <= n; at++) {
        is_word &= isalnum((unsigned char)text[at]) || strchr("_-.", text[at]) != NULL;
        key[at] = text[at] == '-' ? '_' : text[at];
    }
    return is_word || in->tree->n_marks != 0 ? S2_OK : S2_EUNSUPPORTED;
}

static s2_status take_scalar(const reader *in, const yaml_event_t *event, json_t **out)
{
    const char *const text = (const char *)event->data.scalar.value;
    if (event->data.scalar.tag != NULL || event->data.scalar.anchor != NULL)
        return refuse(in, event->start_mark, "anchors and tags are not read");
    if (strlen(text) != event->data.scalar.length)
        return refuse(in, event->start_mark, "a text may hold no NUL");
    const bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    *out = !plain                                      ? json_string(text)
           : text[0] == '\0' || strcmp(text, "~") == 0 ? json_null()
                                                       : s2_tree_scalar(text);
    return *out != NULL ? S2_OK : S2_ENOMEM;
}

static s2_status fill(reader *in, json_t *into);

/* The value that an event begins, put into its parent before it is filled. */
static s2_status value_into(reader *in, const yaml_event_t *event, json_t *parent, const char *key)
{
    const yaml_mark_t mark = event->start_mark;
    json_t *value = NULL;
    bool opens = true;
    if (event->type == YAML_MAPPING_START_EVENT && event->data.mapping_start.anchor == NULL &&
        event->data.mapping_start.tag == NULL) {
        value = json_object();
    } else if (event->type == YAML_SEQUENCE_START_EVENT && event->data.sequence_start.anchor == NULL &&
               event->data.sequence_start.tag == NULL) {
        value = json_array();
    } else if (event->type == YAML_SCALAR_EVENT) {
        opens = false;
        S2_TRY(take_scalar(in, event, &value));
    } else {
        return refuse(in, mark, "anchors, aliases and tags are not read");
    }
    const s2_status status =
        s2_tree_put(in->tree, parent, key, value, (int32_t)mark.line + 1, (int32_t)mark.column + 1);
    if (status == S2_EINVAL)
        return refuse(in, mark, "this key is given twice");
    S2_TRY(status);
    return opens ? fill(in, value) : S2_OK;
}

/* One member of a container; *ended when its end was read instead. */
static s2_status member(reader *in, json_t *into, bool *ended)
{
    char key[S2_TREE_KEY] = "";
    yaml_event_t event;
    S2_TRY(next(in, &event));
    *ended = event.type == YAML_MAPPING_END_EVENT || event.type == YAML_SEQUENCE_END_EVENT;
    s2_status status = S2_OK;
    if (!*ended && json_is_object(into)) {
        status = take_key(in, &event, key);
        yaml_event_delete(&event);
        if (status == S2_OK)
            status = next(in, &event);
        S2_TRY(status);
    }
    if (!*ended)
        status = value_into(in, &event, into, key);
    yaml_event_delete(&event);
    return status;
}

static s2_status fill(reader *in, json_t *into)
{
    bool ended = false;
    if (++in->depth > S2_TREE_DEPTH)
        return refuse(in, in->parser.mark, "too many levels inside each other");
    while (!ended)
        S2_TRY(member(in, into, &ended));
    in->depth--;
    return S2_OK;
}

/* Up to the first content, which must be a block mapping. */
static s2_status open_mapping(reader *in)
{
    for (;;) {
        yaml_event_t event;
        const s2_status status = next(in, &event);
        if (status != S2_OK)
            return status == S2_ENOMEM ? status : S2_EUNSUPPORTED;
        const yaml_event_type_t type = event.type;
        const bool block = type == YAML_MAPPING_START_EVENT &&
                           event.data.mapping_start.style == YAML_BLOCK_MAPPING_STYLE &&
                           event.data.mapping_start.anchor == NULL && event.data.mapping_start.tag == NULL;
        yaml_event_delete(&event);
        if (type != YAML_STREAM_START_EVENT && type != YAML_DOCUMENT_START_EVENT)
            return block ? S2_OK : S2_EUNSUPPORTED;
    }
}

static s2_status expect_end(reader *in)
{
    for (;;) {
        yaml_event_t event;
        S2_TRY(next(in, &event));
        const yaml_event_type_t type = event.type;
        const yaml_mark_t mark = event.start_mark;
        yaml_event_delete(&event);
        if (type == YAML_STREAM_END_EVENT)
            return S2_OK;
        if (type != YAML_DOCUMENT_END_EVENT)
            return refuse(in, mark, "a second document in one file");
    }
}

s2_status s2_tree_yaml(const char *text, size_t n_bytes, s2_tree *tree, s2_diag *diag)
{
    reader in = {.tree = tree, .diag = diag};
    if (!yaml_parser_initialize(&in.parser))
        return S2_ENOMEM;
    yaml_parser_set_input_string(&in.parser, (const unsigned char *)text, n_bytes);
    yaml_parser_set_encoding(&in.parser, YAML_UTF8_ENCODING);
    s2_status status = open_mapping(&in);
    if (status == S2_OK) {
        tree->root = json_object();
        status = tree->root != NULL ? fill(&in, tree->root) : S2_ENOMEM;
    }
    if (status == S2_OK)
        status = expect_end(&in);
    yaml_parser_delete(&in.parser);
    return status;
}

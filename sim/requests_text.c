#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "sim/requests.h"

enum { CODE_REQUESTS = 709, MOST_FIELDS = 16, LIMIT_LINE = 1024 };

typedef enum s2_request_column { COLUMN_PROMPT, COLUMN_OUTPUT, COLUMN_ARRIVAL, N_COLUMNS } s2_request_column;
static const char *const column_words[N_COLUMNS] = {"prompt", "output", "arrival"};

typedef struct s2_request_reader {
    int32_t field_of[N_COLUMNS]; /* index of the field; -1: none */
    int32_t n_columns;           /* 0: the first line is still to come */
    int32_t line;
    const char *begin; /* of the line */
    const char *fields[MOST_FIELDS];
    s2_diag *diag;
} s2_request_reader;

static s2_status refuse(const s2_request_reader *reader, const char *place, const char *what,
                        const char *word)
{
    char clean[80];
    s2_text_clean(clean, sizeof clean, word);
    return s2_diag_set(reader->diag, S2_EPARSE, CODE_REQUESTS, reader->line,
                       (int32_t)(place - reader->begin) + 1, "%s%s", what, clean);
}

/* Fields without the blanks around them, cut in place. */
static s2_status split(s2_request_reader *reader, char *line, int32_t *n)
{
    *n = 0;
    for (char *begin = line; begin != NULL;) {
        if (*n == MOST_FIELDS)
            return refuse(reader, begin, "there are more columns than a table may have: ", "16");
        char *const comma = strchr(begin, ','), *const stop = comma != NULL ? comma : begin + strlen(begin);
        char *end = stop;
        begin += strspn(begin, " \t");
        while (end > begin && strchr(" \t\r", end[-1]) != NULL)
            end--;
        *end = '\0';
        reader->fields[(*n)++] = begin;
        begin = comma != NULL ? stop + 1 : NULL;
    }
    return S2_OK;
}

static s2_status read_head(s2_request_reader *reader, int32_t n)
{
    for (s2_request_column c = 0; c < N_COLUMNS; c++)
        reader->field_of[c] = -1;
    for (int32_t f = 0; f < n; f++) {
        s2_request_column c = 0;
        while (c < N_COLUMNS && strcmp(reader->fields[f], column_words[c]) != 0)
            c++;
        if (c == N_COLUMNS)
            return refuse(reader, reader->fields[f],
                          "columns are prompt, output and arrival; this one is not: ", reader->fields[f]);
        if (reader->field_of[c] >= 0)
            return refuse(reader, reader->fields[f], "this column is named twice: ", column_words[c]);
        reader->field_of[c] = f;
    }
    for (s2_request_column c = 0; c < COLUMN_ARRIVAL; c++)
        if (reader->field_of[c] < 0)
            return refuse(reader, reader->begin, "the first line names no column ", column_words[c]);
    reader->n_columns = n;
    return S2_OK;
}

static s2_status take_tokens(const s2_request_reader *reader, s2_request_column column, int64_t *out)
{
    const char *const text = reader->fields[reader->field_of[column]];
    const size_t n = strspn(text, "0123456789");
    const long long value = n > 0 && n < 10 && text[n] == '\0' ? strtoll(text, NULL, 10) : 0;
    if (value < 1 || value > S2_LIMIT_CONTEXT_TOK)
        return refuse(reader, text, "expected a whole number of tokens from 1 to 16777216, found ", text);
    *out = value;
    return S2_OK;
}

static s2_status take_arrival(const s2_request_reader *reader, double *out_us)
{
    const char *const text =
        reader->field_of[COLUMN_ARRIVAL] < 0 ? "0" : reader->fields[reader->field_of[COLUMN_ARRIVAL]];
    char *stop;
    const double seconds = strtod(text, &stop);
    if (stop == text || *stop != '\0' || text[strspn(text, "0123456789.e+-")] != '\0' ||
        !(seconds >= 0 && seconds <= 1e9))
        return refuse(reader, text, "arrival must be a number of seconds from 0, found ", text);
    *out_us = seconds * 1e6;
    return S2_OK;
}

static s2_status take_line(s2_request_reader *reader, char *line, s2_sim_request *requests, int32_t *n)
{
    int32_t n_fields;
    if (line[0] == '#' || line[strspn(line, " \t\r")] == '\0')
        return S2_OK;
    S2_TRY(split(reader, line, &n_fields));
    if (reader->n_columns == 0)
        return read_head(reader, n_fields);
    if (n_fields != reader->n_columns)
        return refuse(reader, reader->begin, "a line has as many fields as the first one", "");
    if (*n == S2_REQUESTS)
        return refuse(reader, reader->begin, "there are more requests than a file may have: ", "65536");
    s2_sim_request own = {.line = reader->line};
    S2_TRY(take_tokens(reader, COLUMN_PROMPT, &own.prompt_tok));
    S2_TRY(take_tokens(reader, COLUMN_OUTPUT, &own.output_tok));
    S2_TRY(take_arrival(reader, &own.arrival_us));
    requests[(*n)++] = own;
    return S2_OK;
}

static int by_arrival(const void *left, const void *right)
{
    const s2_sim_request *const a = left, *const b = right;
    if (a->arrival_us != b->arrival_us)
        return a->arrival_us < b->arrival_us ? -1 : 1;
    return (a->line > b->line) - (a->line < b->line);
}

s2_status s2_requests_parse(s2_arena *arena, const char *text, size_t n_bytes, s2_sim_requests *out,
                            s2_diag *diag)
{
    char line[LIMIT_LINE];
    s2_request_reader reader = {.begin = line, .diag = diag};
    s2_sim_request *const requests = S2_NEW(arena, s2_sim_request, S2_REQUESTS);
    int32_t n = 0;
    if (requests == NULL)
        return S2_ENOMEM;
    for (size_t byte = 0; byte < n_bytes;) {
        reader.line++;
        if (!s2_text_copy_line(text, n_bytes, &byte, line, sizeof line))
            return refuse(&reader, line, "a line of text has at most 1023 characters", "");
        S2_TRY(take_line(&reader, line, requests, &n));
    }
    if (n == 0)
        return refuse(&reader, line, "there are no requests", "");
    qsort(requests, (size_t)n, sizeof *requests, by_arrival);
    *out = (s2_sim_requests){n, requests};
    return S2_OK;
}

#include "judge/reply.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { KEY_BYTES = 32, TEXT_BYTES = 400 };

typedef struct s2_member {
    char key[KEY_BYTES];
    char text[TEXT_BYTES]; /* of a string */
    double number;         /* of a number or truth value */
} s2_member;

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t\r");
}

/* A character after a backslash; all that is not ASCII becomes '?'. NULL: no such escape. */
static const char *read_escape(const char *at, char *out)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *const found = *at != '\0' ? strchr(names, *at) : NULL;
    *out = found != NULL ? values[found - names] : '?';
    if (found != NULL)
        return at + 1;
    return *at == 'u' && strspn(at + 1, "0123456789abcdefABCDEF") >= 4 ? at + 5 : NULL;
}

/* What does not fit is cut. NULL: the string has no end. */
static const char *read_string(const char *at, char *out, size_t cap)
{
    char raw[TEXT_BYTES];
    size_t n = 0;
    if (*at++ != '"')
        return NULL;
    while (*at != '"') {
        char c = *at;
        if (c == '\0')
            return NULL;
        at = c == '\\' ? read_escape(at + 1, &c) : at + 1;
        if (at == NULL)
            return NULL;
        if (n + 1 < sizeof raw)
            raw[n++] = c;
    }
    raw[n] = '\0';
    s2_text_clean(out, cap, raw);
    return at + 1;
}

static const char *read_value(const char *at, s2_member *member)
{
    static const struct {
        const char *word;
        double value;
    } words[] = {{"true", 1.0}, {"false", 0.0}, {"null", 0.0}};
    if (*at == '"')
        return read_string(at, member->text, sizeof member->text);
    for (size_t word = 0; word < sizeof words / sizeof *words; word++)
        if (strncmp(at, words[word].word, strlen(words[word].word)) == 0) {
            member->number = words[word].value;
            return at + strlen(words[word].word);
        }
    char *end;
    if (*at != '-' && (*at < '0' || *at > '9'))
        return NULL;
    member->number = strtod(at, &end);
    return end;
}

static void take(const s2_member *member, s2_reply *out)
{
    const struct {
        const char *key;
        char *text;
        size_t cap;
    } texts[] = {{"outcome", out->outcome, sizeof out->outcome},
                 {"reason", out->reason, sizeof out->reason},
                 {"name", out->name, sizeof out->name},
                 {"passes", out->passes, sizeof out->passes},
                 {"versions", out->versions, sizeof out->versions},
                 {"rounds", out->rounds, sizeof out->rounds}};
    const double whole = isfinite(member->number) && fabs(member->number) < 0x1p53 ? member->number : -1.0;
    for (size_t nth = 0; nth < sizeof texts / sizeof *texts; nth++)
        if (strcmp(member->key, texts[nth].key) == 0)
            s2_text_clean(texts[nth].text, texts[nth].cap, member->text);
    if (strcmp(member->key, "s2") == 0)
        out->s2 = (int64_t)whole;
    else if (strcmp(member->key, "id") == 0)
        out->id = (int64_t)whole;
    else if (strcmp(member->key, "lse") == 0)
        out->lse = whole > 0.0;
    else if (strcmp(member->key, "deterministic") == 0)
        out->deterministic = whole > 0.0;
    else if (strcmp(member->key, "ms") == 0)
        out->ms = isfinite(member->number) && member->number > 0.0 ? member->number : 0.0;
}

bool s2_reply_read(const char *line, s2_reply *out)
{
    s2_reply read = {0};
    const char *at = skip_blanks(line);
    if (*at != '{')
        return false;
    do {
        s2_member member = {0};
        at = read_string(skip_blanks(at + 1), member.key, sizeof member.key);
        at = at != NULL ? skip_blanks(at) : "";
        if (*at != ':')
            return false;
        at = read_value(skip_blanks(at + 1), &member);
        if (at == NULL)
            return false;
        take(&member, &read);
        at = skip_blanks(at);
    } while (*at == ',');
    if (*at != '}' || *skip_blanks(at + 1) != '\0')
        return false;
    *out = read;
    return true;
}

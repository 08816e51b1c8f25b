#include "base/text.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"

size_t s2_utf8_len(const char *s, size_t n)
{
    const unsigned char *const u = (const unsigned char *)s;
    if (n == 0)
        return 0;
    if (u[0] < 0x80)
        return 1;
    const size_t len = u[0] >= 0xf0 ? 4 : u[0] >= 0xe0 ? 3 : 2;
    if (u[0] < 0xc2 || u[0] > 0xf4 || n < len)
        return 0;
    for (size_t b = 1; b < len; b++)
        if ((u[b] & 0xc0) != 0x80)
            return 0;
    const uint32_t cp = s2_utf8_decode(s, len);
    const bool overlong = (len == 3 && cp < 0x800) || (len == 4 && cp < 0x10000);
    const bool surrogate = cp >= 0xd800 && cp <= 0xdfff;
    return overlong || surrogate || cp > 0x10ffff ? 0 : len;
}

size_t s2_utf8_step(const char *s, size_t n)
{
    return s2_max_size(1, s2_utf8_len(s, n));
}

uint32_t s2_utf8_decode(const char *s, size_t len)
{
    const unsigned char *const u = (const unsigned char *)s;
    if (len == 1)
        return u[0];
    uint32_t cp = u[0] & (0x7fu >> len);
    for (size_t b = 1; b < len; b++)
        cp = cp << 6 | (u[b] & 0x3fu);
    return cp;
}

bool s2_codepoint_is_hostile(uint32_t cp)
{
    return cp < 0x20 || (cp >= 0x7f && cp < 0xa0) || cp == 0xad || cp == 0x61c || cp == 0x180e ||
           (cp >= 0x200b && cp <= 0x200f) || (cp >= 0x2028 && cp <= 0x202e) ||
           (cp >= 0x2060 && cp <= 0x206f) || cp == 0xfeff || (cp >= 0xfff9 && cp <= 0xfffb) ||
           (cp >= 0xe0000 && cp <= 0xe0fff);
}

bool s2_text_is_hostile(const char *text, size_t n, const char *allowed)
{
    for (size_t byte = 0, len; byte < n; byte += len) {
        len = s2_utf8_len(text + byte, n - byte);
        const uint32_t point = len > 0 ? s2_utf8_decode(text + byte, len) : 0;
        const bool is_allowed = point > 0 && point < 0x80 && strchr(allowed, (int)point) != NULL;
        if (s2_codepoint_is_hostile(point) && !is_allowed)
            return true;
    }
    return false;
}

/* Ranges of the Unicode data file EastAsianWidth.txt that are wide, joined where they touch. */
static bool is_wide(uint32_t cp)
{
    static const uint32_t ranges[][2] = {
        {0x1100, 0x115f}, {0x2e80, 0x303e}, {0x3041, 0xa4cf}, {0xa960, 0xa97c},   {0xac00, 0xd7a3},
        {0xf900, 0xfaff}, {0xfe30, 0xfe6f}, {0xff00, 0xff60}, {0x1f300, 0x1faff}, {0x20000, 0x3fffd}};
    for (size_t n = 0; n < sizeof ranges / sizeof ranges[0]; n++)
        if (cp >= ranges[n][0] && cp <= ranges[n][1])
            return true;
    return false;
}

int32_t s2_codepoint_width(uint32_t cp)
{
    const bool combining = (cp >= 0x300 && cp <= 0x36f) || (cp >= 0x1ab0 && cp <= 0x1aff) ||
                           (cp >= 0x1dc0 && cp <= 0x1dff) || (cp >= 0x20d0 && cp <= 0x20ff) ||
                           (cp >= 0xfe00 && cp <= 0xfe0f) || (cp >= 0xfe20 && cp <= 0xfe2f) ||
                           (cp >= 0xe0100 && cp <= 0xe01ef);
    return combining ? 0 : is_wide(cp) ? 2 : 1;
}

size_t s2_text_fit(const char *text, int32_t columns, int32_t *taken)
{
    const size_t n_bytes = strlen(text);
    size_t byte = 0;
    int32_t n = 0;
    while (byte < n_bytes) {
        const size_t len = s2_utf8_len(text + byte, n_bytes - byte);
        const int32_t width = len > 0 ? s2_codepoint_width(s2_utf8_decode(text + byte, len)) : 1;
        if (n + width > columns)
            break;
        n += width;
        byte += len > 0 ? len : 1;
    }
    if (taken != NULL)
        *taken = n;
    return byte;
}

void s2_text_position(const char *text, size_t n_bytes, size_t offset, int32_t *line, int32_t *col)
{
    const size_t end = s2_min_size(offset, n_bytes);
    size_t byte = n_bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    int32_t at_line = 1, at_col = 1;
    while (byte < end) {
        const bool ends = text[byte] == '\n';
        at_line += ends;
        at_col = ends ? 1 : at_col + 1;
        byte += s2_utf8_step(text + byte, n_bytes - byte);
    }
    *line = at_line;
    *col = at_col;
}

int32_t s2_text_words(const char *text)
{
    int32_t n = 0;
    for (const char *at = text; *at != '\0'; at++)
        n += *at != ' ' && (at == text || at[-1] == ' ');
    return n;
}

const char *s2_text_plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

void s2_text_clean(char *dst, size_t cap, const char *src)
{
    const size_t n = strlen(src);
    size_t out = 0;
    for (size_t byte = 0; byte < n && cap > 0;) {
        const size_t len = s2_utf8_len(src + byte, n - byte);
        const bool bad = len == 0 || s2_codepoint_is_hostile(s2_utf8_decode(src + byte, len));
        const size_t add = bad ? 1 : len;
        if (out + add >= cap)
            break;
        memcpy(dst + out, bad ? "?" : src + byte, add);
        out += add;
        byte += len != 0 ? len : 1;
    }
    if (cap > 0)
        dst[out] = '\0';
}

const char *s2_text_line(const char *text, size_t n_bytes, size_t *byte, size_t *n)
{
    const char *const line = text + *byte, *const stop = memchr(line, '\n', n_bytes - *byte);
    *n = stop != NULL ? (size_t)(stop - line) : n_bytes - *byte;
    *byte += *n + 1;
    return line;
}

bool s2_text_copy_line(const char *text, size_t n_bytes, size_t *byte, char *line, size_t cap)
{
    size_t n;
    const char *const from = s2_text_line(text, n_bytes, byte, &n);
    if (n >= cap || memchr(from, '\0', n) != NULL)
        return false;
    memcpy(line, from, n);
    line[n] = '\0';
    return true;
}

int32_t s2_text_distance(const char *a, size_t a_len, const char *b, int32_t cap)
{
    enum { LONGEST = 32 };
    const size_t b_len = strlen(b);
    if (a_len > LONGEST || b_len > LONGEST)
        return cap;
    int32_t row[LONGEST + 1];
    for (size_t col = 0; col <= b_len; col++)
        row[col] = (int32_t)col;
    for (size_t n_read = 1; n_read <= a_len; n_read++) {
        int32_t diagonal = row[0];
        row[0] = (int32_t)n_read;
        for (size_t col = 1; col <= b_len; col++) {
            const int32_t above = row[col];
            int32_t best = diagonal + (a[n_read - 1] != b[col - 1]);
            best = s2_min_i32(above + 1, best);
            best = s2_min_i32(row[col - 1] + 1, best);
            diagonal = above;
            row[col] = best;
        }
    }
    return s2_min_i32(row[b_len], cap);
}

static bool parts(char c)
{
    return c == '-' || c == '_' || c == ' ';
}

static char lower(char c)
{
    return (char)tolower((unsigned char)c);
}

bool s2_text_is(const char *word, const char *text, size_t n)
{
    return strlen(word) == n && memcmp(word, text, n) == 0;
}

bool s2_text_same_name(const char *a, const char *b)
{
    for (;; a++, b++) {
        while (parts(*a))
            a++;
        while (parts(*b))
            b++;
        if (lower(*a) != lower(*b))
            return false;
        if (*a == '\0')
            return true;
    }
}

static size_t copy_plain(const char *from, char *out, size_t cap)
{
    size_t n = 0;
    for (; *from != '\0' && n + 1 < cap; from++)
        if (!parts(*from) && *from != '.')
            out[n++] = lower(*from);
    out[n] = '\0';
    return n;
}

/* "4", "64kb", "1.5 GiB": a number, or one with a unit of at most three letters. */
static bool is_size(const char *word)
{
    const size_t n = strspn(word, "0123456789.");
    word += n + strspn(word + n, " ");
    const size_t unit = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz%");
    return n > 0 && unit <= 3 && word[unit] == '\0';
}

/* The most edits after which a word of n characters is still recognised. */
static int32_t most_edits(size_t n)
{
    return n < 3 ? 0 : n < 8 ? 1 : n < 12 ? 2 : 3;
}

int32_t s2_text_name_distance(const char *name, const char *known)
{
    char plain[40], other[40];
    const size_t n = copy_plain(name, plain, sizeof plain);
    if (n == 0 || is_size(name))
        return S2_NAME_FAR;
    const size_t n_other = copy_plain(known, other, sizeof other);
    if (n > 1 && n <= n_other && memcmp(plain, other, n) == 0)
        return 0;
    int32_t least = s2_text_distance(plain, n, other, S2_NAME_FAR);
    /* or to a beginning of it that ends with a part: "h1000" is near "h100-sxm" */
    for (size_t n_prefix = 1; known[n_prefix] != '\0'; n_prefix++)
        if (parts(known[n_prefix]) && n_prefix < sizeof other) {
            char begin[sizeof other];
            snprintf(begin, sizeof begin, "%.*s", (int)n_prefix, known);
            copy_plain(begin, other, sizeof other);
            const int32_t own = s2_text_distance(plain, n, other, least);
            least = s2_min_i32(own, least);
        }
    return least <= most_edits(n) ? least : S2_NAME_FAR;
}

const char *s2_text_nearer(const char *name, const char *known, const char *nearest, int32_t *distance)
{
    const int32_t own = s2_text_name_distance(name, known);
    if (own >= *distance)
        return nearest;
    *distance = own;
    return known;
}

static bool buf_reserve(s2_buf *buf, size_t extra)
{
    if (buf->status != S2_OK)
        return false;
    if (extra < buf->cap - buf->len)
        return true;
    size_t cap = buf->cap != 0 ? buf->cap : 256;
    while (cap - buf->len <= extra && cap < SIZE_MAX / 2)
        cap *= 2;
    char *const grown = s2_realloc(buf->data, cap);
    if (grown == NULL) {
        buf->status = S2_ENOMEM;
        return false;
    }
    buf->data = grown;
    buf->cap = cap;
    return true;
}

void s2_buf_add(s2_buf *buf, const char *bytes, size_t n)
{
    if (!buf_reserve(buf, n))
        return;
    memcpy(buf->data + buf->len, bytes, n);
    buf->len += n;
    buf->data[buf->len] = '\0';
}

void s2_buf_puts(s2_buf *buf, const char *text)
{
    s2_buf_add(buf, text, strlen(text));
}

/* Drop zeros behind a decimal point. */
static void trim_zeros(char *text)
{
    size_t n = strlen(text);
    if (strchr(text, '.') == NULL)
        return;
    while (text[n - 1] == '0')
        n--;
    text[n - (text[n - 1] == '.')] = '\0';
}

s2_figure_text s2_decimal(double value, int digits)
{
    enum { WRITTEN_OUT = 20 };
    s2_figure_text out = {{0}};
    snprintf(out.text, sizeof out.text, "%.*e", digits - 1, value);
    char *const mark = strchr(out.text, 'e');
    if (mark == NULL) /* not finite */
        return out;
    const int exponent = atoi(mark + 1);
    if (abs(exponent) > WRITTEN_OUT) {
        *mark = '\0';
        trim_zeros(out.text);
        snprintf(out.text + strlen(out.text), sizeof out.text - strlen(out.text), "*10^%d", exponent);
    } else if (exponent >= digits) {
        snprintf(out.text, sizeof out.text, "%.0f", strtod(out.text, NULL));
    } else {
        snprintf(out.text, sizeof out.text, "%.*f", digits - 1 - exponent, value);
        trim_zeros(out.text);
    }
    return out;
}

s2_figure_text s2_count_text(int64_t n, const char *noun)
{
    s2_figure_text out;
    snprintf(out.text, sizeof out.text, "%lld %.26s%s", (long long)n, noun, s2_text_plural(n));
    return out;
}

void s2_buf_printf(s2_buf *buf, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n >= 0 && buf_reserve(buf, (size_t)n)) {
        vsnprintf(buf->data + buf->len, (size_t)n + 1, fmt, again);
        buf->len += (size_t)n;
    }
    va_end(again);
}

/* Between quotes a line end and a tab stand for themselves. */
static bool is_harmless(const char *text)
{
    for (size_t byte = 0, n = strlen(text), len; byte < n; byte += len) {
        len = s2_utf8_len(text + byte, n - byte);
        const bool blank = text[byte] == '\n' || text[byte] == '\t';
        if (len == 0 || (!blank && s2_codepoint_is_hostile(s2_utf8_decode(text + byte, len))))
            return false;
    }
    return true;
}

/* Every byte that is not plain ASCII by its number, as $'...' of the shells that have it. */
static void add_numbered(s2_buf *buf, const char *word)
{
    s2_buf_puts(buf, "$'");
    for (; *word != '\0'; word++)
        if (*word == '\'' || *word == '\\')
            s2_buf_printf(buf, "\\%c", *word);
        else if ((unsigned char)*word < 0x20 || (unsigned char)*word >= 0x7f)
            s2_buf_printf(buf, "\\%03o", (unsigned)(unsigned char)*word);
        else
            s2_buf_add(buf, word, 1);
    s2_buf_puts(buf, "'");
}

void s2_buf_shell(s2_buf *buf, const char *word)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./:,=+@%";
    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        s2_buf_puts(buf, word);
        return;
    }
    if (!is_harmless(word)) {
        add_numbered(buf, word);
        return;
    }
    s2_buf_puts(buf, "'");
    for (; *word != '\0'; word++)
        if (*word == '\'')
            s2_buf_puts(buf, "'\\''");
        else
            s2_buf_add(buf, word, 1);
    s2_buf_puts(buf, "'");
}

void s2_buf_release(s2_buf *buf)
{
    s2_free(buf->data);
    *buf = (s2_buf){0};
}

/* A comma is due unless the buffer is empty or the last byte opens a container or follows a key. */
static void json_separate(s2_buf *buf)
{
    const char last = buf->len != 0 ? buf->data[buf->len - 1] : '\n';
    if (last != '{' && last != '[' && last != ':' && last != '\n')
        s2_buf_puts(buf, ",");
}

void s2_json_begin(s2_buf *buf, char bracket)
{
    json_separate(buf);
    s2_buf_add(buf, &bracket, 1);
}

void s2_json_end(s2_buf *buf, char bracket)
{
    s2_buf_add(buf, &bracket, 1);
}

void s2_json_key(s2_buf *buf, const char *key)
{
    s2_json_str(buf, key);
    s2_buf_puts(buf, ":");
}

void s2_json_str(s2_buf *buf, const char *text)
{
    if (text == NULL) {
        s2_json_null(buf);
        return;
    }
    json_separate(buf);
    s2_buf_puts(buf, "\"");
    const size_t n = strlen(text);
    for (size_t byte = 0; byte < n;) {
        const size_t len = s2_utf8_len(text + byte, n - byte);
        const uint32_t cp = len != 0 ? s2_utf8_decode(text + byte, len) : 0xfffd;
        if (cp == '"' || cp == '\\')
            s2_buf_printf(buf, "\\%c", (int)cp);
        else if (len == 0 || (cp < 0x10000 && s2_codepoint_is_hostile(cp)))
            s2_buf_printf(buf, "\\u%04x", (unsigned)cp);
        else if (s2_codepoint_is_hostile(cp))
            s2_buf_puts(buf, "?");
        else
            s2_buf_add(buf, text + byte, len);
        byte += len != 0 ? len : 1;
    }
    s2_buf_puts(buf, "\"");
}

void s2_json_int(s2_buf *buf, int64_t value)
{
    json_separate(buf);
    s2_buf_printf(buf, "%lld", (long long)value);
}

double s2_rounded(double value)
{
    char text[40];
    snprintf(text, sizeof text, "%.6g", value);
    return isfinite(value) ? strtod(text, NULL) : value;
}

void s2_json_num(s2_buf *buf, double value)
{
    if (!isfinite(value)) {
        s2_json_null(buf);
        return;
    }
    char text[40];
    const double whole_below = 0x1p53; /* so far every whole number has a double of its own */
    if (value == trunc(value) && fabs(value) < whole_below)
        snprintf(text, sizeof text, "%lld",
                 (long long)value); /* readers that want whole numbers take no exponent */
    else
        for (int digits = 6; digits <= 17; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, value);
            if (strtod(text, NULL) == value)
                break;
        }
    json_separate(buf);
    s2_buf_puts(buf, text);
}

void s2_json_bool(s2_buf *buf, bool value)
{
    json_separate(buf);
    s2_buf_puts(buf, value ? "true" : "false");
}

void s2_json_null(s2_buf *buf)
{
    json_separate(buf);
    s2_buf_puts(buf, "null");
}

void s2_json_key_str(s2_buf *buf, const char *key, const char *text)
{
    s2_json_key(buf, key);
    s2_json_str(buf, text);
}

void s2_json_key_int(s2_buf *buf, const char *key, int64_t value)
{
    s2_json_key(buf, key);
    s2_json_int(buf, value);
}

void s2_json_key_num(s2_buf *buf, const char *key, double value)
{
    s2_json_key(buf, key);
    s2_json_num(buf, value);
}

void s2_json_key_bool(s2_buf *buf, const char *key, bool value)
{
    s2_json_key(buf, key);
    s2_json_bool(buf, value);
}

void s2_json_key_begin(s2_buf *buf, const char *key, char bracket)
{
    s2_json_key(buf, key);
    s2_json_begin(buf, bracket);
}

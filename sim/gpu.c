#include "sim/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

typedef struct s2_gpu_key {
    const char *word;
    size_t offset;
    double low;
    double high;
    bool required;
} s2_gpu_key;

static const s2_gpu_key KEYS[] = {
#define KEY_ROW(key, low, high, required, text) {#key, offsetof(s2_gpu, key), low, high, required},
    S2_GPU_KEYS(KEY_ROW)
#undef KEY_ROW
};
enum { N_KEYS = sizeof KEYS / sizeof KEYS[0], CODE_GPU = 700, MAX_BYTES = 1 << 16 };

typedef struct s2_line {
    const char *text; /* the line, not terminated */
    size_t n;
    int32_t number;
} s2_line;

static size_t skip_blanks(const s2_line *line, size_t byte)
{
    while (byte < line->n && (line->text[byte] == ' ' || line->text[byte] == '\t'))
        byte++;
    return byte;
}

static size_t word_end(const s2_line *line, size_t byte)
{
    while (byte < line->n && line->text[byte] != ' ' && line->text[byte] != '\t')
        byte++;
    return byte;
}

static int32_t find_key(const char *word, size_t n)
{
    for (int32_t key = 0; key < N_KEYS; key++)
        if (s2_text_is(KEYS[key].word, word, n))
            return key;
    return -1;
}

static const char *nearest_key(const char *word, size_t n)
{
    const char *best = "sms";
    int32_t least = INT32_MAX;
    for (int32_t key = 0; key < N_KEYS; key++) {
        const int32_t distance = s2_text_distance(word, n, KEYS[key].word, 1000);
        if (distance < least) {
            least = distance;
            best = KEYS[key].word;
        }
    }
    return best;
}

static s2_status refuse(s2_diag *diag, const s2_line *line, size_t byte, const char *what, const char *word)
{
    return s2_diag_set(diag, S2_EPARSE, CODE_GPU, line->number, (int32_t)byte + 1, "%s%s", what, word);
}

static bool number_at(const s2_line *line, size_t begin, size_t end, double *out)
{
    char copy[40];
    if (end - begin == 0 || end - begin >= sizeof copy)
        return false;
    memcpy(copy, line->text + begin, end - begin);
    copy[end - begin] = '\0';
    /* strtod also accepts inf, nan and hexadecimal, which no data sheet uses */
    if (strspn(copy, "0123456789.e+-") != end - begin)
        return false;
    char *stop;
    *out = strtod(copy, &stop);
    return *stop == '\0';
}

static s2_status parse_number(const s2_line *line, int32_t key, size_t byte, s2_gpu *gpu, s2_diag *diag)
{
    const size_t end = word_end(line, byte);
    double value;
    if (!number_at(line, byte, end, &value))
        return refuse(diag, line, byte, "expected a number for ", KEYS[key].word);
    if (!(value >= KEYS[key].low && value <= KEYS[key].high))
        return s2_diag_set(diag, S2_EPARSE, CODE_GPU, line->number, (int32_t)byte + 1,
                           "%s must lie between %s and %s", KEYS[key].word, s2_decimal(KEYS[key].low, 6).text,
                           s2_decimal(KEYS[key].high, 6).text);
    const size_t source = skip_blanks(line, end);
    if (source >= line->n || line->text[source] != '#' || skip_blanks(line, source + 1) >= line->n)
        return refuse(diag, line, source, "expected `# source` behind ", KEYS[key].word);
    memcpy((char *)gpu + KEYS[key].offset, &value, sizeof value);
    return S2_OK;
}

static s2_status parse_title(const s2_line *line, size_t byte, s2_gpu *gpu, s2_diag *diag)
{
    char copy[sizeof gpu->title];
    if (byte >= line->n || line->n - byte >= sizeof copy)
        return refuse(diag, line, byte, "expected a title of at most 79 bytes", "");
    memcpy(copy, line->text + byte, line->n - byte);
    copy[line->n - byte] = '\0';
    s2_text_clean(gpu->title, sizeof gpu->title, copy);
    return S2_OK;
}

static s2_status parse_line(const s2_line *line, s2_gpu *gpu, uint64_t *seen, s2_diag *diag)
{
    const size_t begin = skip_blanks(line, 0);
    if (begin >= line->n || line->text[begin] == '#')
        return S2_OK;
    const size_t end = word_end(line, begin), value = skip_blanks(line, end);
    if (end - begin == 5 && memcmp(line->text + begin, "title", 5) == 0)
        return parse_title(line, value, gpu, diag);
    const int32_t key = find_key(line->text + begin, end - begin);
    if (key < 0)
        return refuse(diag, line, begin, "unknown word; the nearest known one is ",
                      nearest_key(line->text + begin, end - begin));
    if (*seen >> key & 1)
        return refuse(diag, line, begin, "named twice: ", KEYS[key].word);
    *seen |= UINT64_C(1) << key;
    return parse_number(line, key, value, gpu, diag);
}

static s2_status check_complete(const s2_gpu *gpu, uint64_t seen, const s2_line *end, s2_diag *diag)
{
    for (int32_t key = 0; key < N_KEYS; key++)
        if (KEYS[key].required && !(seen >> key & 1))
            return refuse(diag, end, 0, "the file ends without ", KEYS[key].word);
    return gpu->title[0] != '\0' ? S2_OK : refuse(diag, end, 0, "the file ends without ", "title");
}

s2_status s2_gpu_parse(const char *name, const char *text, size_t n_bytes, s2_gpu *out, s2_diag *diag)
{
    s2_gpu gpu = {0};
    uint64_t seen = 0;
    s2_line line = {text, 0, 1};
    if (n_bytes > MAX_BYTES)
        return refuse(diag, &line, 0, "a GPU file has at most 65536 bytes", "");
    if (memchr(text, '\0', n_bytes) != NULL)
        return refuse(diag, &line, 0, "expected text, found a NUL byte", "");
    for (size_t byte = 0; byte < n_bytes; line.number++) {
        line.text = s2_text_line(text, n_bytes, &byte, &line.n);
        if (line.n > 0 && line.text[line.n - 1] == '\r')
            line.n--;
        S2_TRY(parse_line(&line, &gpu, &seen, diag));
    }
    S2_TRY(check_complete(&gpu, seen, &line, diag));
    s2_text_clean(gpu.name, sizeof gpu.name, name);
    *out = gpu;
    return S2_OK;
}

static bool is_gpu(const s2_sim_text *text)
{
    return strchr(text->name, '/') == NULL;
}

const char *s2_gpu_name(int32_t index)
{
    for (const s2_sim_text *text = s2_sim_texts; text->name != NULL; text++)
        if (is_gpu(text) && index-- == 0)
            return text->name;
    return NULL;
}

int32_t s2_gpu_capability(const s2_gpu *gpu)
{
    enum { HOPPER = 90 };
    return gpu->capability > 0 ? (int32_t)gpu->capability : HOPPER;
}

double s2_gpu_flop_us(const s2_gpu *gpu, bool eight_bits)
{
    return (eight_bits && gpu->fp8_tflops > 0 ? gpu->fp8_tflops : gpu->bf16_tflops) * 1e6;
}

/*
 * Does the word contain the family of the name, "NVIDIA H100 80GB" that of "h100-sxm"? A number of four digits
 * is one by itself, "GeForce 4090" that of "rtx4090"; shorter ones may be anything.
 */
static bool names_family(const char *word, const char *known)
{
    enum { TELLING = 4 };
    const size_t family = strcspn(known, "-"), letters = strcspn(known, "0123456789");
    for (; *word != '\0'; word += strspn(word, "-_ ")) {
        const size_t n = strcspn(word, "-_ ");
        if (n == family && strncasecmp(word, known, n) == 0)
            return true;
        if (n >= TELLING && letters + n == family && strncmp(word, known + letters, n) == 0)
            return true;
        word += n;
    }
    return false;
}

static int32_t distance_to(const char *word, const char *known)
{
    return names_family(word, known) ? 0 : s2_text_name_distance(word, known);
}

int32_t s2_gpu_nearest(const char *word, char *out, size_t cap)
{
    int32_t least = S2_NAME_FAR;
    size_t n = 0;
    for (const s2_sim_text *text = s2_sim_texts; text->name != NULL; text++) {
        const int32_t distance = is_gpu(text) ? distance_to(word, text->name) : S2_NAME_FAR;
        if (distance > least || distance == S2_NAME_FAR || n >= cap)
            continue;
        n = distance < least ? 0 : n;
        n += (size_t)snprintf(out + n, cap - n, "%s%s", n > 0 ? " or " : "", text->name);
        least = distance;
    }
    return least;
}

s2_status s2_gpu_find(const char *name, s2_gpu *out, s2_diag *diag)
{
    char clean[60], nearest[100] = "";
    for (const s2_sim_text *text = s2_sim_texts; text->name != NULL; text++) {
        if (!is_gpu(text))
            continue;
        if (s2_text_same_name(text->name, name))
            return s2_gpu_parse(text->name, text->text, strlen(text->text), out, diag);
    }
    s2_gpu_nearest(name, nearest, sizeof nearest);
    s2_text_clean(clean, sizeof clean, name);
    return s2_diag_set(diag, S2_EINVAL, CODE_GPU, 0, 0, "no GPU %s is built in%s%s", clean,
                       nearest[0] != '\0' ? "; the nearest is " : "", nearest);
}

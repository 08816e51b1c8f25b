#include "sim/calibration.h"

#include <math.h>
#include <sha2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CODE_CALIBRATION = 705, MAX_BYTES = 1 << 16, MOST_NUMBERS = 6 };

/*
 * name, least, most: all doubles of s2_time_model and of s2_kernel_model that a file holds. Of a kernel's, is_rare: few
 * have it, so where it is 0 a file leaves it out.
 */
#define MODEL_KEYS(X)                                                                                        \
    X(n_sms, 1, 4096)                                                                                        \
    X(mma_flop, 1, 1e6)                                                                                      \
    X(max_mhz, 100, 1e4)                                                                                     \
    X(l2_gb_s, 1, 1e7)                                                                                       \
    X(cache_mb, 0, 1e5)                                                                                      \
    X(spill_mb, 0, 1e5)                                                                                      \
    X(whole_mb, 0, 1e5)                                                                                      \
    X(power, 1, 100)                                                                                         \
    X(clock_base, 0, 1e6)                                                                                    \
    X(clock_limit, 1e-9, 1e9)                                                                                \
    X(clock_q, 0, 100)                                                                                       \
    X(clock_fp16, 0, 100)                                                                                    \
    X(clock_fp8, 0, 100)                                                                                     \
    X(clock_l2, 0, 1e6)                                                                                      \
    X(clock_hbm, 0, 1e6)
#define KERNEL_KEYS(X)                                                                                       \
    X(residents, 1, 64, false)                                                                               \
    X(hbm_gb_s, 1, 1e6, false)                                                                               \
    X(launch_us, 0, 1e6, false)                                                                              \
    X(miss_us, 0, 1e6, false)                                                                                \
    X(start, 0, 1e9, false)                                                                                  \
    X(sub, 0, 1e6, false)                                                                                    \
    X(list, 0, 1e6, false)                                                                                   \
    X(mixed, 0, 100, false)                                                                                  \
    X(alone, 0, 64, false)                                                                                   \
    X(fine, 0, 1e6, false)                                                                                   \
    X(more, 0, 1e6, false)                                                                                   \
    X(column, 0, 1e6, false)                                                                                 \
    X(part, 0, 1e6, false)                                                                                   \
    X(warm_mb, 0, 1e5, false)                                                                                \
    X(lost_mb, 1e-3, 1e5, false)                                                                             \
    X(gather, 0, 1e3, false)                                                                                 \
    X(hit, 0, 1e3, false)                                                                                    \
    X(trip, 0, 1e6, true)                                                                                    \
    X(warp, 0, 1, true)                                                                                      \
    X(behind, 0, 1e6, true)                                                                                  \
    X(adding, 0, 1e6, true)                                                                                  \
    X(crowd, 0, 10, true)                                                                                    \
    X(join, 0, 1e6, true)                                                                                    \
    X(early, 0, 1e6, true)                                                                                   \
    X(in_step, 0, 1e6, true)                                                                                 \
    X(first, 0, 1e6, true)                                                                                   \
    X(ragged, 0, 10, true)                                                                                   \
    X(amid, 0, 1, true)                                                                                      \
    X(draw, 0, 100, true)                                                                                    \
    X(least_us, 0, 1e12, false)                                                                              \
    X(most_us, 0, 1e12, false)                                                                               \
    X(fit_pct, 0, 1e6, false)

typedef struct s2_key {
    const char *word;
    size_t offset;
    double least, most;
    bool is_rare;
} s2_key;

static const s2_key model_keys[] = {
#define ROW(key, least, most) {#key, offsetof(s2_time_model, key), least, most, false},
    MODEL_KEYS(ROW)
#undef ROW
};
static const s2_key kernel_keys[] = {
#define ROW(key, least, most, is_rare) {#key, offsetof(s2_kernel_model, key), least, most, is_rare},
    KERNEL_KEYS(ROW)
#undef ROW
};
enum {
    N_MODEL_KEYS = sizeof model_keys / sizeof *model_keys,
    N_KERNEL_KEYS = sizeof kernel_keys / sizeof *kernel_keys
};

static double *value_at(void *base, const s2_key *key)
{
    return (double *)(void *)((char *)base + key->offset);
}

double *s2_calibration_constant(s2_kernel_model *kernel, const char *word)
{
    for (int32_t key = 0; key < N_KERNEL_KEYS; key++)
        if (strcmp(kernel_keys[key].word, word) == 0)
            return value_at(kernel, &kernel_keys[key]);
    return NULL;
}

/* ------------------------------------------------------------------ printing */

static void print_kernel(const s2_kernel_model *kernel, s2_buf *buf)
{
    s2_buf_printf(buf, "kernel %s %s\n", kernel->name, s2_pass_word(kernel->pass));
    s2_buf_printf(buf, "takes %d %d %d\n", kernel->rows, kernel->whole_blocks, kernel->padded);
    for (int32_t key = 0; key < N_KERNEL_KEYS; key++) {
        const double value = *(const double *)(const void *)((const char *)kernel + kernel_keys[key].offset);
        if (!kernel_keys[key].is_rare || value != 0)
            s2_buf_printf(buf, "%s %.6g\n", kernel_keys[key].word, value);
    }
    for (int32_t d = 0; d < kernel->n_dims; d++)
        s2_buf_printf(buf, "dim %d %.6g %.6g %.6g %.6g\n", kernel->dims[d].head_dim, kernel->dims[d].item,
                      kernel->dims[d].step, kernel->dims[d].masked, kernel->dims[d].least);
    for (int32_t c = 0; c < kernel->n_cuts; c++) {
        const s2_cut *const cut = &kernel->cuts[c];
        s2_buf_printf(buf, "cut %d %d %d %d %d %lld\n", cut->head_dim, cut->even_group, cut->tile_tok,
                      cut->key_tok, cut->pack_heads, (long long)cut->section_bytes);
    }
    s2_buf_printf(buf, "fitted %d\n", kernel->n_points);
}

static void print_constants(const s2_time_model *model, s2_buf *buf)
{
    for (int32_t key = 0; key < N_MODEL_KEYS; key++)
        s2_buf_printf(buf, "%s %.6g\n", model_keys[key].word,
                      *(const double *)(const void *)((const char *)model + model_keys[key].offset));
    for (int32_t k = 0; k < model->n_kernels; k++)
        print_kernel(&model->kernels[k], buf);
}

void s2_calibration_hash(const char *text, size_t n, char out[20])
{
    SHA2_CTX context;
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA256Init(&context);
    SHA256Update(&context, (const uint8_t *)text, n);
    SHA256Final(digest, &context);
    for (int32_t at = 0; at < 8; at++)
        snprintf(out + 2 * at, 3, "%02x", digest[at]);
}

void s2_calibration_print(const s2_calibration *calibration, s2_buf *buf)
{
    const s2_provenance *const head = &calibration->head;
    s2_buf constants = {0};
    char hash[20] = "";
    print_constants(&calibration->model, &constants);
    if (constants.status == S2_OK)
        s2_calibration_hash(constants.data, constants.len, hash);
    s2_buf_puts(buf,
                "# Constants of sim/model.h. Written by `s2 calibrate`; nothing else edits this file.\n");
    s2_buf_printf(buf, "calibration 3\ngpu %s\ndevice %s\nuuid %s\ndriver %s\ncommit %s\ndate %s\nhash %s\n",
                  head->gpu, head->device, head->uuid, head->driver, head->commit, head->date, hash);
    if (constants.status == S2_OK)
        s2_buf_add(buf, constants.data, constants.len);
    else
        buf->status = constants.status;
    for (int32_t k = 0; k < calibration->model.n_kernels; k++) {
        const s2_kernel_model *const kernel = &calibration->model.kernels[k];
        if (kernel->n_judged == 0)
            continue;
        s2_buf_printf(buf, "judged %s %s %d %.4g %.4g", kernel->name, s2_pass_word(kernel->pass),
                      kernel->n_judged, kernel->error_pct, kernel->p90_pct);
        for (int32_t e = 0; e < S2_N_EXTENTS && (e < S2_EXTENT_NEW || kernel->spans[e].greatest > 0); e++)
            s2_buf_printf(buf, " %.9g %.9g", kernel->spans[e].least, kernel->spans[e].greatest);
        s2_buf_printf(buf, " %.4g\n", kernel->most_pct);
    }
    s2_buf_release(&constants);
}

/* ------------------------------------------------------------------ reading */

typedef struct s2_reader {
    s2_calibration out;
    s2_kernel_model *kernel; /* the one that lines belong to */
    char line[200];
    int32_t number;
    s2_diag *diag;
} s2_reader;

static s2_status refuse(const s2_reader *reader, const char *what)
{
    return s2_diag_set(reader->diag, S2_EPARSE, CODE_CALIBRATION, reader->number, 1, "%s", what);
}

/* The numbers after the word; exactly n of them. */
static s2_status take_numbers(const s2_reader *reader, const char *rest, double *out, int32_t n)
{
    for (int32_t nth = 0; nth < n; nth++) {
        char *stop;
        out[nth] = strtod(rest, &stop);
        if (stop == rest || !isfinite(out[nth]))
            return refuse(reader, "expected another number");
        rest = stop;
    }
    while (*rest == ' ')
        rest++;
    return *rest == '\0' ? S2_OK : refuse(reader, "there is more on this line than expected");
}

static s2_status take_key(s2_reader *reader, const char *word, const char *rest, const s2_key *keys,
                          int32_t n_keys, void *base, bool *taken)
{
    *taken = false;
    for (int32_t key = 0; key < n_keys; key++) {
        double value;
        if (strcmp(word, keys[key].word) != 0)
            continue;
        S2_TRY(take_numbers(reader, rest, &value, 1));
        if (!(value >= keys[key].least && value <= keys[key].most))
            return refuse(reader, "the constant is out of its range");
        *value_at(base, &keys[key]) = value;
        *taken = true;
        return S2_OK;
    }
    return S2_OK;
}

/* What sscanf() writes for the name of a kernel below. */
_Static_assert(S2_KERNEL_NAME == 24, "the formats read 23 letters of a name");

static s2_status open_kernel(s2_reader *reader, const char *rest)
{
    s2_time_model *const model = &reader->out.model;
    char name[S2_KERNEL_NAME], pass[12];
    if (sscanf(rest, "%23s %11s", name, pass) != 2 || model->n_kernels == S2_MODEL_KERNELS)
        return refuse(reader, "expected the name of a kernel and its pass");
    for (int32_t p = 0; p < S2_N_PASSES; p++)
        if (strcmp(pass, s2_pass_word((s2_pass)p)) == 0) {
            reader->kernel = &model->kernels[model->n_kernels++];
            *reader->kernel = (s2_kernel_model){.pass = (s2_pass)p};
            s2_text_clean(reader->kernel->name, sizeof reader->kernel->name, name);
            reader->kernel->traits = s2_kernel_traits_find(reader->kernel->name);
            return S2_OK;
        }
    return refuse(reader, "expected a pass: forward, backward or decode");
}

static bool small(double value)
{
    return value >= 0 && value <= 1 << 20 && value == floor(value);
}

/* Cycles, so few that the sum over any launch stays far below INT64_MAX. */
static bool is_cost(double value)
{
    return value >= 0 && value <= 1e8;
}

/* A step takes time, with a mask too; items of short windows have no steps. */
static bool costs_something(const s2_kernel_model *kernel, const double *of_dim)
{
    return s2_model_is_short(kernel) ? of_dim[1] + of_dim[4] > 0 : of_dim[2] > 0 && of_dim[3] > 0;
}

static s2_status take_row(s2_reader *reader, const char *word, const char *rest, bool *taken)
{
    s2_kernel_model *const kernel = reader->kernel;
    double n[MOST_NUMBERS];
    *taken = true;
    if (strcmp(word, "dim") == 0) {
        S2_TRY(take_numbers(reader, rest, n, 5));
        if (kernel->n_dims == S2_MODEL_DIMS || !small(n[0]) || n[0] < 1 || !is_cost(n[1]) || !is_cost(n[2]) ||
            !is_cost(n[3]) || !is_cost(n[4]) || !costs_something(kernel, n))
            return refuse(reader, "these are not the costs of a head dimension");
        kernel->dims[kernel->n_dims++] = (s2_dim_cost){(int32_t)n[0], n[1], n[2], n[3], n[4]};
        return S2_OK;
    }
    if (strcmp(word, "cut") == 0) {
        S2_TRY(take_numbers(reader, rest, n, 6));
        if (kernel->n_cuts == S2_MODEL_CUTS || !small(n[0]) || !small(n[1]) || !small(n[2]) || !small(n[3]) ||
            !small(n[4]) || n[5] < 0 || n[5] > 1e12)
            return refuse(reader, "not a way to cut a plan");
        kernel->cuts[kernel->n_cuts++] =
            (s2_cut){(int32_t)n[0], n[1] != 0, (int32_t)n[2], (int32_t)n[3], (int32_t)n[4], (int64_t)n[5]};
        return S2_OK;
    }
    if (strcmp(word, "takes") == 0) {
        S2_TRY(take_numbers(reader, rest, n, 3));
        kernel->rows = small(n[0]) ? (int32_t)n[0] : 0;
        kernel->whole_blocks = n[1] != 0;
        kernel->padded = n[2] != 0;
        return S2_OK;
    }
    if (strcmp(word, "fitted") == 0) {
        S2_TRY(take_numbers(reader, rest, n, 1));
        kernel->n_points = small(n[0]) ? (int32_t)n[0] : 0;
        return S2_OK;
    }
    *taken = false;
    return S2_OK;
}

/* How well a kernel did on points that were not fitted. */
static s2_status take_verdict(s2_reader *reader, const char *rest)
{
    char name[S2_KERNEL_NAME], pass[12];
    int rest_begin = 0;
    enum { FIRST = 3, ALL = FIRST + 2 * S2_N_EXTENTS + 1 };
    double n[ALL] = {0};
    if (sscanf(rest, "%23s %11s %n", name, pass, &rest_begin) != 2 || rest_begin == 0)
        return refuse(reader, "expected the name of a kernel and its pass");
    /* files of earlier versions give no range of the points, or not that of query tokens, or no largest error */
    const int32_t n_more = s2_text_words(rest + rest_begin) - FIRST,
                  n_spans = n_more >= 2 * S2_EXTENT_NEW ? s2_min_i32(n_more / 2, S2_N_EXTENTS) : 0,
                  n_all = FIRST + 2 * n_spans + (n_more == 2 * n_spans + 1);
    S2_TRY(take_numbers(reader, rest + rest_begin, n, n_all));
    const double most = n_more == 2 * n_spans + 1 ? n[n_all - 1] : 0;
    if (!small(n[0]) || n[1] < 0 || n[2] < 0 || most < 0)
        return refuse(reader, "these are not errors");
    for (int32_t k = 0; k < reader->out.model.n_kernels; k++) {
        s2_kernel_model *const kernel = &reader->out.model.kernels[k];
        if (strcmp(kernel->name, name) == 0 && strcmp(s2_pass_word(kernel->pass), pass) == 0) {
            kernel->n_judged = (int32_t)n[0];
            kernel->error_pct = n[1];
            kernel->p90_pct = n[2];
            kernel->most_pct = most;
            for (int32_t extent = 0; extent < n_spans; extent++)
                kernel->spans[extent] = (s2_span_of_points){n[FIRST + 2 * extent], n[FIRST + 1 + 2 * extent]};
            return S2_OK;
        }
    }
    return refuse(reader, "no such kernel in this file");
}

static bool take_head(s2_reader *reader, const char *word, const char *rest)
{
    s2_provenance *const head = &reader->out.head;
    const struct {
        const char *word;
        char *to;
        size_t cap;
    } fields[] = {
        {"gpu", head->gpu, sizeof head->gpu},
        {"device", head->device, sizeof head->device},
        {"uuid", head->uuid, sizeof head->uuid},
        {"driver", head->driver, sizeof head->driver},
        {"commit", head->commit, sizeof head->commit},
        {"date", head->date, sizeof head->date},
        {"hash", reader->out.hash, sizeof reader->out.hash},
    };
    for (size_t at = 0; at < sizeof fields / sizeof *fields; at++)
        if (strcmp(word, fields[at].word) == 0) {
            s2_text_clean(fields[at].to, fields[at].cap, rest);
            return true;
        }
    return strcmp(word, "calibration") == 0 && strcmp(rest, "3") == 0;
}

static s2_status read_line(s2_reader *reader)
{
    char *const word = reader->line;
    char *const blank = strchr(word, ' ');
    if (word[0] == '\0' || word[0] == '#')
        return S2_OK;
    const char *rest = "";
    if (blank != NULL) {
        *blank = '\0';
        rest = blank + 1;
    }
    bool taken;
    if (strcmp(word, "kernel") == 0)
        return open_kernel(reader, rest);
    if (strcmp(word, "judged") == 0)
        return take_verdict(reader, rest);
    if (reader->kernel != NULL) {
        S2_TRY(take_key(reader, word, rest, kernel_keys, N_KERNEL_KEYS, reader->kernel, &taken));
        if (!taken)
            S2_TRY(take_row(reader, word, rest, &taken));
        return taken ? S2_OK : refuse(reader, "no such constant of a kernel");
    }
    if (take_head(reader, word, rest))
        return S2_OK;
    if (strcmp(word, "calibration") == 0)
        return refuse(reader, "a file of another version of s2: fit its points again, "
                              "s2 calibrate --from POINTS --out FILE");
    S2_TRY(take_key(reader, word, rest, model_keys, N_MODEL_KEYS, &reader->out.model, &taken));
    return taken ? S2_OK : refuse(reader, "no such constant");
}

/* Everything that predictions divide by must be there. */
static s2_status check_whole(s2_reader *reader)
{
    const s2_time_model *const model = &reader->out.model;
    if (model->n_sms < 1 || model->mma_flop < 1 || model->max_mhz < 1 || model->l2_gb_s < 1 ||
        model->power < 1 || !(model->spill_mb > model->cache_mb) || model->clock_limit <= 0 ||
        model->n_kernels < 1)
        return refuse(reader, "constants are missing");
    for (int32_t k = 0; k < model->n_kernels; k++)
        if (model->kernels[k].n_dims < 1 || model->kernels[k].n_cuts < 1 || model->kernels[k].residents < 1 ||
            model->kernels[k].hbm_gb_s < 1 || model->kernels[k].lost_mb <= 0)
            return refuse(reader, "a kernel has no costs, no cut, no residents or no lost_mb");
    return S2_OK;
}

/* A GPU that is not built in is assumed to have the kernels of the built-in calibration. */
static int32_t capability_of(const char *name)
{
    s2_gpu gpu = {0};
    const s2_status known = s2_gpu_find(name, &gpu, NULL);
    return s2_gpu_capability(known == S2_OK ? &gpu : &(s2_gpu){0});
}

s2_status s2_calibration_parse(const char *text, size_t n_bytes, s2_calibration *out, s2_diag *diag)
{
    s2_reader reader = {.number = 1, .diag = diag};
    char hash[20];
    size_t below = 0, above = n_bytes;
    if (n_bytes > MAX_BYTES || memchr(text, '\0', n_bytes) != NULL)
        return refuse(&reader, "a calibration is text of at most 65536 bytes");
    for (size_t byte = 0; byte < n_bytes; reader.number++) {
        const size_t begin = byte;
        if (!s2_text_copy_line(text, n_bytes, &byte, reader.line, sizeof reader.line))
            return refuse(&reader, "the line is too long");
        if (above == n_bytes && strncmp(reader.line, "judged ", 7) == 0)
            above = begin;
        S2_TRY(read_line(&reader));
        if (below == 0 && reader.out.hash[0] != '\0')
            below = byte;
    }
    S2_TRY(check_whole(&reader));
    s2_calibration_hash(text + below, above > below ? above - below : 0, hash);
    if (strcmp(hash, reader.out.hash) != 0)
        return refuse(&reader,
                      "the hash is not that of the constants: calibrate again, or take the file as it was");
    reader.out.model.capability = capability_of(reader.out.head.gpu);
    *out = reader.out;
    return S2_OK;
}

s2_status s2_calibration_find(const char *gpu, s2_calibration *out)
{
    char name[60];
    snprintf(name, sizeof name, "calibration/%.40s", gpu);
    for (const s2_sim_text *text = s2_sim_texts; text->name != NULL; text++)
        if (strcmp(text->name, name) == 0)
            return s2_calibration_parse(text->text, strlen(text->text), out, NULL);
    return S2_EUNSUPPORTED;
}

#include "judge/handover.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "base/shared.h"
#include "pattern/parse.h"
#include "pattern/view.h"

/* ------------------------------------------------------------------ masks */

static int64_t row_bytes(const s2_plan_seq *lens)
{
    return ((int64_t)lens->k_tok + 7) / 8;
}

/* Where the mask of a sequence begins; for the sequence after the last: the total bytes. */
static int64_t mask_begin(const s2_attn_problem *p, int32_t seq)
{
    int64_t n = 0;
    for (int32_t at = 0; at < seq; at++)
        n += (int64_t)p->n_heads * p->plan->seqs[at].q_tok * row_bytes(&p->plan->seqs[at]);
    return n;
}

/* Keys [begin, end) of a row, the first key of a byte in its highest bit, as np.packbits writes them. */
static void set_run(uint8_t *row, s2_run run)
{
    for (int64_t k_tok = run.begin; k_tok < run.end; k_tok++)
        if (k_tok % 8 == 0 && k_tok + 8 <= run.end) {
            row[k_tok / 8] = 0xff;
            k_tok += 7;
        } else {
            row[k_tok / 8] |= (uint8_t)(0x80u >> (k_tok % 8));
        }
}

/* A row that is not the last `window_tok` keys, or all keys, ends the plain shape. */
static void note_shape(s2_handover *out, const s2_run *runs, int64_t n, int64_t position, int64_t k_tok)
{
    const int64_t reach = n == 1 && runs[0].end == position + 1 ? position + 1 - runs[0].begin : 0;
    const bool cut = reach > 0 && runs[0].begin > 0;
    out->full = out->full && n == 1 && runs[0].begin == 0 && runs[0].end == k_tok;
    out->longest_tok = s2_max_i64(reach, out->longest_tok);
    if (cut && out->window_tok == INT64_MAX)
        out->window_tok = reach;
    if (reach == 0 || out->longest_tok > out->window_tok || (cut && reach < out->window_tok))
        out->window_tok = 0;
}

static s2_status write_head(const s2_attn_problem *p, int32_t seq, int32_t head, s2_handover *out)
{
    s2_arena arena = {0};
    s2_view view;
    s2_run *runs = NULL;
    int64_t cap = 0, n = 0;
    const s2_plan *const plan = p->plan;
    const s2_plan_seq lens = plan->seqs[seq];
    uint8_t *row = out->bits + mask_begin(p, seq) + (int64_t)head * lens.q_tok * row_bytes(&lens);
    s2_status status =
        s2_view_build(&arena, plan->pattern, plan->phase, plan->layer, head, S2_AT_MOST, &view);
    for (int64_t q_tok = 0; status == S2_OK && q_tok < lens.q_tok; q_tok++, row += row_bytes(&lens)) {
        const int64_t position = lens.k_tok - lens.q_tok + q_tok;
        status = s2_view_row_whole(&view, position, lens.k_tok, NULL, &runs, &cap, &n);
        for (int64_t run = 0; status == S2_OK && run < n; run++)
            set_run(row, runs[run]);
        if (status == S2_OK)
            note_shape(out, runs, n, position, lens.k_tok);
    }
    s2_free(runs);
    s2_arena_release(&arena);
    return status;
}

static s2_status write_masks(const s2_attn_problem *p, s2_handover *out)
{
    out->window_tok = INT64_MAX;
    out->full = true;
    for (int32_t seq = 0; seq < p->n_seqs; seq++)
        for (int32_t head = 0; head < p->n_heads; head++)
            S2_TRY(write_head(p, seq, head, out));
    return S2_OK;
}

s2_status s2_handover_open(const s2_attn_problem *problem, s2_handover *out, s2_diag *why)
{
    const int64_t n_bytes = mask_begin(problem, problem->n_seqs);
    *out = (s2_handover){.file = -1};
    if (n_bytes > S2_LIMIT_MASK_BYTES)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0,
                           "the mask of every pair would take %lld bytes, and a process gets at most %d",
                           (long long)n_bytes, S2_LIMIT_MASK_BYTES);
    void *bits;
    S2_TRY(s2_shared_open("s2-mask", (size_t)n_bytes, &bits, &out->file));
    out->bits = bits;
    out->n_bytes = (size_t)n_bytes;
    return write_masks(problem, out);
}

void s2_handover_close(s2_handover *handover)
{
    if (handover->bits != NULL)
        s2_shared_close(handover->bits, handover->n_bytes, handover->file);
    *handover = (s2_handover){.file = -1};
}

/* ------------------------------------------------------------------ the request */

typedef struct s2_named_tensor {
    const char *name;
    const s2_tensor *tensor;
    bool of_keys;
    bool written;
} s2_named_tensor;

enum { N_TENSORS = 8 };

/* The tensors of a pass; data is NULL where the pass has none. */
static void list_tensors(const s2_attn_problem *p, s2_named_tensor out[N_TENSORS])
{
    const bool back = p->pass == S2_PASS_BACKWARD;
    const s2_named_tensor all[N_TENSORS] = {{"q", &p->q, false, false},     {"k", &p->k, true, false},
                                            {"v", &p->v, true, false},      {"o", &p->o, false, !back},
                                            {"d_o", &p->d_o, false, false}, {"d_q", &p->d_q, false, true},
                                            {"d_k", &p->d_k, true, true},   {"d_v", &p->d_v, true, true}};
    memcpy(out, all, sizeof all);
}

static void print_file(s2_buf *buf, int file, int64_t offset)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)getpid(), file);
    s2_json_key_str(buf, "file", path);
    s2_json_key_int(buf, "offset", offset);
}

static void print_numbers(s2_buf *buf, const char *key, const int64_t *numbers, int64_t n)
{
    s2_json_key_begin(buf, key, '[');
    for (int64_t at = 0; at < n; at++)
        s2_buf_printf(buf, "%s%lld", at > 0 ? "," : "", (long long)numbers[at]);
    s2_json_end(buf, ']');
}

static void print_tensor(const s2_device *device, const s2_named_tensor *named, s2_buf *buf)
{
    int file;
    int64_t offset;
    const int64_t strides[] = {named->tensor->seq, named->tensor->tok, named->tensor->head};
    if (named->tensor->data == NULL || !s2_device_shared_file(device, named->tensor->data, &file, &offset))
        return;
    s2_json_key_begin(buf, named->name, '{');
    print_file(buf, file, offset);
    print_numbers(buf, "strides", strides, 3);
    s2_json_key_bool(buf, "written", named->written);
    s2_json_end(buf, '}');
}

static void print_rows(const s2_device *device, const s2_attn_problem *p, s2_buf *buf)
{
    int file;
    int64_t offset;
    const int64_t strides[] = {p->lse.seq, p->lse.head};
    if (!s2_device_shared_file(device, p->lse.data, &file, &offset))
        return;
    s2_json_key_begin(buf, "lse", '{');
    print_file(buf, file, offset);
    print_numbers(buf, "strides", strides, 2);
    s2_json_key_bool(buf, "written", p->pass != S2_PASS_BACKWARD);
    s2_json_end(buf, '}');
}

/* [q_tok, k_tok, q_begin, k_begin, mask_begin] of each sequence; begins are -1 where strides give them. */
static void print_seqs(const s2_attn_problem *p, s2_buf *buf)
{
    s2_json_key_begin(buf, "seqs", '[');
    for (int32_t seq = 0; seq < p->n_seqs; seq++)
        s2_buf_printf(buf, "%s[%d,%d,%d,%d,%lld]", seq > 0 ? "," : "", p->plan->seqs[seq].q_tok,
                      p->plan->seqs[seq].k_tok, p->q_begin_tok != NULL ? p->q_begin_tok[seq] : -1,
                      p->k_begin_tok != NULL ? p->k_begin_tok[seq] : -1, (long long)mask_begin(p, seq));
    s2_json_end(buf, ']');
}

static void print_shape(const s2_handover *handover, const s2_attn_problem *p, s2_buf *buf)
{
    s2_buf text = {0};
    const bool dense = handover->window_tok == INT64_MAX;
    s2_pattern_print(p->plan->pattern, &text);
    s2_json_key_str(buf, "pattern", text.data);
    s2_json_key_int(buf, "layer", p->plan->layer);
    s2_json_key_int(buf, "block", p->plan->pattern->block_tok);
    s2_json_key_str(buf, "shape",
                    dense                      ? "causal"
                    : handover->window_tok > 0 ? "window"
                    : handover->full           ? "full"
                                               : "mask");
    s2_json_key_int(buf, "window", dense ? 0 : handover->window_tok);
    s2_json_key_begin(buf, "mask", '{');
    print_file(buf, handover->file, 0);
    s2_json_end(buf, '}');
    s2_buf_release(&text);
}

void s2_handover_print(const s2_handover *handover, const s2_device *device, const s2_attn_problem *problem,
                       int64_t id, int32_t n_timed, s2_buf *buf)
{
    s2_named_tensor tensors[N_TENSORS];
    list_tensors(problem, tensors);
    s2_json_begin(buf, '{');
    s2_json_key_int(buf, "id", id);
    s2_json_key_str(buf, "pass", s2_pass_word(problem->pass));
    if (n_timed > 0)
        s2_json_key_int(buf, "times", n_timed);
    s2_json_key_str(buf, "dtype", s2_dtype_word(problem->dtype));
    s2_json_key_int(buf, "heads", problem->n_heads);
    s2_json_key_int(buf, "kv_heads", problem->n_kv_heads);
    s2_json_key_int(buf, "head_dim", problem->head_dim);
    s2_json_key_num(buf, "scale", (double)problem->scale);
    print_seqs(problem, buf);
    print_shape(handover, problem, buf);
    s2_json_key_begin(buf, "tensors", '{');
    for (int32_t nth = 0; nth < N_TENSORS; nth++)
        print_tensor(device, &tensors[nth], buf);
    print_rows(device, problem, buf);
    s2_json_end(buf, '}');
    s2_json_end(buf, '}');
    s2_buf_puts(buf, "\n");
}

/* ------------------------------------------------------------------ inputs */

static uint64_t digest(uint64_t sum, const uint8_t *bytes, size_t n)
{
    for (; n >= 8; n -= 8, bytes += 8) {
        uint64_t word;
        memcpy(&word, bytes, sizeof word);
        sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        sum ^= sum >> 29;
    }
    return sum;
}

/* The whole file that holds a tensor, including what is around it. */
static uint64_t digest_file(const s2_device *device, const void *data, uint64_t sum)
{
    int file;
    int64_t offset;
    struct stat about;
    if (data == NULL || !s2_device_shared_file(device, data, &file, &offset) || fstat(file, &about) != 0)
        return sum;
    return digest(sum, (const uint8_t *)data - offset, (size_t)about.st_size);
}

uint64_t s2_handover_inputs(const s2_device *device, const s2_attn_problem *problem)
{
    s2_named_tensor tensors[N_TENSORS];
    uint64_t sum = 1;
    list_tensors(problem, tensors);
    for (int32_t nth = 0; nth < N_TENSORS; nth++)
        if (!tensors[nth].written)
            sum = digest_file(device, tensors[nth].tensor->data, sum);
    return problem->pass == S2_PASS_BACKWARD ? digest_file(device, problem->lse.data, sum) : sum;
}

bool s2_handover_tolerance(const char *rounds, s2_tolerance *out)
{
    static const struct {
        const char *word;
        s2_tolerance tolerance;
    } known[] = {{"output", S2_TOL_EXACT},
                 {"weights", S2_TOL_ROUNDED_P},
                 {"sums", S2_TOL_ROUNDED_SUM},
                 {"scores", S2_TOL_ROUNDED_S}};
    for (size_t nth = 0; nth < sizeof known / sizeof *known; nth++)
        if (strcmp(rounds, known[nth].word) == 0) {
            *out = known[nth].tolerance;
            return true;
        }
    return false;
}

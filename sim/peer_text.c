/* Models of somebody else's kernels as text files. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "sim/peer.h"

enum {
    CODE_PEER_FILE = 707,
    MAX_BYTES = 1 << 16,
    N_CUT = 4,
    FIRST_SPAN = 4,
    N_VERDICT = FIRST_SPAN + 2 * S2_N_EXTENTS
};

/* ---- writing */

static void print_law(const s2_peer_law *law, s2_buf *buf)
{
    static const char *const words[] = {
#define WORD(word, least, most) #word,
        S2_PEER_CONSTANTS(WORD)
#undef WORD
    };
    s2_buf_printf(buf, "law %s %d %s\n", s2_pass_word(law->kernel.pass), law->head_dim,
                  s2_peer_group_word(law->group));
    s2_buf_printf(buf, "cut %d %d %d %d\n", law->cut.tile_rows, law->cut.key_tok, (int)law->cut.packing,
                  law->cut.splits);
    if (law->cut.skips != S2_SKIPS_UNREAD) /* that a kernel skips what is not read goes without saying */
        s2_buf_printf(buf, "skips %d\n", (int)law->cut.skips);
    if (law->cut.order != S2_LONGEST_FIRST)
        s2_buf_printf(buf, "order %d\n", (int)law->cut.order);
    if (law->cut.resident != 1)
        s2_buf_printf(buf, "resident %d\n", law->cut.resident);
    if (law->cut.asks)
        s2_buf_puts(buf, "asks 1\n");
    for (int32_t c = 0; c < S2_N_PEER_CONSTANTS; c++)
        s2_buf_printf(buf, "%s %.6g\n", words[c], law->constant[c]);
    s2_buf_printf(buf, "fitted %d %.4g %d\n", law->kernel.n_points, law->kernel.fit_pct, law->sparse);
    if (law->full) /* causal rows alone go without saying */
        s2_buf_printf(buf, "masks %d %d\n", law->causal, law->full);
    if (law->most_blk_tok > 0)
        s2_buf_printf(buf, "blocks %d %d\n", law->least_blk_tok, law->most_blk_tok);
    s2_buf_printf(buf, "judged %d %.4g %.4g %.4g", law->kernel.n_judged, law->kernel.error_pct,
                  law->median_pct, law->kernel.p90_pct);
    for (int32_t e = 0; e < S2_N_EXTENTS && (e < S2_EXTENT_NEW || law->kernel.spans[e].greatest > 0); e++)
        s2_buf_printf(buf, " %.9g %.9g", law->kernel.spans[e].least, law->kernel.spans[e].greatest);
    s2_buf_puts(buf, "\n");
}

void s2_peer_print(const s2_peer *peer, s2_buf *buf)
{
    s2_buf laws = {0};
    char hash[20] = "";
    for (int32_t l = 0; l < peer->n_laws; l++)
        print_law(&peer->laws[l], &laws);
    if (laws.status == S2_OK)
        s2_calibration_hash(laws.data, laws.len, hash);
    s2_buf_puts(buf, "# A kernel known by its times (sim/peer.h). Written by `s2 calibrate`; nothing else "
                     "edits this file.\n");
    s2_buf_printf(buf, "kernel-model 1\nname %s\ngpu %s\nn_sms %.0f\ncaches %s\nsource %s\nhash %s\n",
                  peer->name, peer->gpu, peer->n_sms, s2_peer_caches_word(peer->caches), peer->source, hash);
    if (laws.status == S2_OK)
        s2_buf_add(buf, laws.data, laws.len);
    else
        buf->status = laws.status;
    s2_buf_release(&laws);
}

/* ---- reading */

typedef struct s2_peer_reader {
    s2_peer out;
    s2_peer_law *law; /* the one that lines belong to */
    char line[400];
    int32_t number;
    bool is_model;
    s2_diag *diag;
} s2_peer_reader;

static s2_status refuse(const s2_peer_reader *reader, const char *what)
{
    return s2_diag_set(reader->diag, S2_EPARSE, CODE_PEER_FILE, reader->number, 1, "%s", what);
}

/* Exactly n numbers, none below 0. */
static s2_status numbers(const s2_peer_reader *reader, const char *rest, double *out, int32_t n)
{
    for (int32_t nth = 0; nth < n; nth++) {
        char *stop;
        out[nth] = strtod(rest, &stop);
        if (stop == rest || !(out[nth] >= 0 && out[nth] <= 1e15))
            return refuse(reader, "expected another number that is not negative");
        rest = stop;
    }
    return rest[strspn(rest, " ")] == '\0' ? S2_OK : refuse(reader, "this line goes on after the last value");
}

static bool whole_up_to(double value, double most)
{
    return value <= most && value == floor(value);
}

static s2_status open_law(s2_peer_reader *reader, const char *rest)
{
    char pass[12], group[8];
    int head_dim;
    if (reader->out.n_laws == S2_PEER_LAWS || sscanf(rest, "%11s %d %7s", pass, &head_dim, group) != 3 ||
        head_dim < 1 || head_dim > 65536)
        return refuse(reader, "expected a pass, a head dimension and a kind of group");
    s2_peer_law *const law = &reader->out.laws[reader->out.n_laws++];
    *law = (s2_peer_law){.head_dim = head_dim,
                         .group = S2_N_PEER_GROUPS,
                         .causal = true,
                         .cut = {.resident = 1},
                         .constant = {[S2_PEER_ragged_times] = 1, [S2_PEER_mask_times] = 1}};
    for (s2_peer_group g = 0; g < S2_N_PEER_GROUPS; g++)
        law->group = strcmp(group, s2_peer_group_word(g)) == 0 ? g : law->group;
    for (s2_pass p = 0; p < S2_N_PASSES; p++)
        if (strcmp(pass, s2_pass_word(p)) == 0 && law->group != S2_N_PEER_GROUPS) {
            law->kernel.pass = p;
            s2_text_clean(law->kernel.name, sizeof law->kernel.name, reader->out.name);
            reader->law = law;
            return S2_OK;
        }
    return refuse(reader, "expected a pass (forward, backward, decode) and a kind of group (any, one, many)");
}

static s2_status take_cut(const s2_peer_reader *reader, const double n[N_CUT])
{
    if (n[0] < 1 || !whole_up_to(n[0], 65536) || n[1] < 1 || !whole_up_to(n[1], 65536) ||
        !whole_up_to(n[2], S2_PACKS_ALWAYS) || !whole_up_to(n[3], 1))
        return refuse(reader, "expected how the kernel cuts its work");
    s2_peer_cut *const cut = &reader->law->cut;
    cut->tile_rows = (int32_t)n[0];
    cut->key_tok = (int32_t)n[1];
    cut->packing = (s2_peer_packing)n[2];
    cut->splits = n[3] == 1;
    return S2_OK;
}

static s2_status take_choice(const s2_peer_reader *reader, const char *word, const char *rest)
{
    s2_peer_cut *const cut = &reader->law->cut;
    double n;
    S2_TRY(numbers(reader, rest, &n, 1));
    if (strcmp(word, "skips") == 0) {
        if (!whole_up_to(n, S2_N_PEER_SKIPS - 1))
            return refuse(reader, "expected what the kernel skips");
        cut->skips = (s2_peer_skips)n;
    } else if (strcmp(word, "order") == 0) {
        if (!whole_up_to(n, S2_N_PEER_ORDERS - 1))
            return refuse(reader, "expected 0 (the longest tile first) or 1 (head by head)");
        cut->order = (s2_peer_order)n;
    } else if (strcmp(word, "asks") == 0) {
        if (!whole_up_to(n, 1))
            return refuse(reader, "expected 1 where the kernel asks a mask, else 0");
        cut->asks = n == 1;
    } else {
        if (n < 1 || !whole_up_to(n, S2_PEER_RESIDENT))
            return refuse(reader, "expected 1 or 2 tiles that an SM works on at a time");
        cut->resident = (int32_t)n;
    }
    return S2_OK;
}

static s2_status take_verdict(const s2_peer_reader *reader, const char *rest)
{
    double n[N_VERDICT];
    /* where no row asked for some of its tokens alone, the range of these is left out */
    const int32_t n_spans = s2_text_words(rest) == N_VERDICT ? S2_N_EXTENTS : S2_EXTENT_NEW;
    S2_TRY(numbers(reader, rest, n, FIRST_SPAN + 2 * n_spans));
    if (!whole_up_to(n[0], 1e6))
        return refuse(reader, "expected how many rows were judged");
    s2_kernel_model *const kernel = &reader->law->kernel;
    kernel->n_judged = (int32_t)n[0];
    kernel->error_pct = n[1];
    reader->law->median_pct = n[2];
    kernel->p90_pct = n[3];
    for (int32_t e = 0; e < n_spans; e++)
        kernel->spans[e] = (s2_span_of_points){n[FIRST_SPAN + 2 * e], n[FIRST_SPAN + 1 + 2 * e]};
    return S2_OK;
}

static s2_status take_constant(const s2_peer_reader *reader, const char *word, const char *rest)
{
    static const struct {
        const char *word;
        double least, most;
    } constants[] = {
#define ROW(word, least, most) {#word, least, most},
        S2_PEER_CONSTANTS(ROW)
#undef ROW
    };
    for (int32_t c = 0; c < S2_N_PEER_CONSTANTS; c++) {
        double value;
        if (strcmp(word, constants[c].word) != 0)
            continue;
        S2_TRY(numbers(reader, rest, &value, 1));
        if (!(value >= constants[c].least && value <= constants[c].most))
            return refuse(reader, "the constant is out of its range");
        reader->law->constant[c] = value;
        return S2_OK;
    }
    return refuse(reader, "a law has no constant of this name");
}

static s2_status take_law_line(const s2_peer_reader *reader, const char *word, const char *rest)
{
    double n[N_CUT];
    if (strcmp(word, "cut") == 0) {
        S2_TRY(numbers(reader, rest, n, N_CUT));
        return take_cut(reader, n);
    }
    if (strcmp(word, "skips") == 0 || strcmp(word, "order") == 0 || strcmp(word, "resident") == 0 ||
        strcmp(word, "asks") == 0)
        return take_choice(reader, word, rest);
    if (strcmp(word, "judged") == 0)
        return take_verdict(reader, rest);
    if (strcmp(word, "fitted") == 0) {
        S2_TRY(numbers(reader, rest, n, 3));
        reader->law->kernel.n_points = whole_up_to(n[0], 1e6) ? (int32_t)n[0] : 0;
        reader->law->kernel.fit_pct = n[1];
        reader->law->sparse = n[2] == 1;
        return S2_OK;
    }
    if (strcmp(word, "masks") == 0) {
        S2_TRY(numbers(reader, rest, n, 2));
        if (!whole_up_to(n[0], 1) || !whole_up_to(n[1], 1) || n[0] + n[1] < 1)
            return refuse(reader, "expected 1 for each kind of mask that was fitted, causal and full");
        reader->law->causal = n[0] == 1;
        reader->law->full = n[1] == 1;
        return S2_OK;
    }
    if (strcmp(word, "blocks") == 0) {
        S2_TRY(numbers(reader, rest, n, 2));
        if (n[0] < 1 || n[1] < n[0] || !whole_up_to(n[0], 65536) || !whole_up_to(n[1], 65536))
            return refuse(reader, "expected the least and the greatest block that was fitted, in tokens");
        reader->law->least_blk_tok = (int32_t)n[0];
        reader->law->most_blk_tok = (int32_t)n[1];
        return S2_OK;
    }
    return take_constant(reader, word, rest);
}

static s2_status take_head(s2_peer_reader *reader, const char *word, const char *rest)
{
    s2_peer *const out = &reader->out;
    if (strcmp(word, "kernel-model") == 0 && strcmp(rest, "1") == 0)
        reader->is_model = true;
    else if (strcmp(word, "name") == 0)
        s2_text_clean(out->name, sizeof out->name, rest);
    else if (strcmp(word, "gpu") == 0)
        s2_text_clean(out->gpu, sizeof out->gpu, rest);
    else if (strcmp(word, "source") == 0)
        s2_text_clean(out->source, sizeof out->source, rest);
    else if (strcmp(word, "hash") == 0)
        s2_text_clean(out->hash, sizeof out->hash, rest);
    else if (strcmp(word, "n_sms") == 0)
        return numbers(reader, rest, &out->n_sms, 1);
    else if (strcmp(word, "caches") == 0) {
        for (s2_peer_caches c = 0; c < S2_N_PEER_CACHES; c++)
            if (strcmp(rest, s2_peer_caches_word(c)) == 0) {
                out->caches = c;
                return S2_OK;
            }
        return refuse(reader, "expected warm, cold or unsaid");
    } else
        return refuse(reader, "this is not a line of a kernel model");
    return S2_OK;
}

static s2_status read_line(s2_peer_reader *reader)
{
    char *const word = reader->line, *const blank = strchr(word, ' ');
    if (word[0] == '\0' || word[0] == '#')
        return S2_OK;
    if (blank != NULL)
        *blank = '\0';
    const char *const rest = blank != NULL ? blank + 1 : "";
    if (strcmp(word, "law") == 0)
        return open_law(reader, rest);
    return reader->law != NULL ? take_law_line(reader, word, rest) : take_head(reader, word, rest);
}

static s2_status check_whole(s2_peer_reader *reader)
{
    const s2_peer *const out = &reader->out;
    if (!reader->is_model || out->name[0] == '\0' || out->gpu[0] == '\0' || out->n_sms < 1 || out->n_laws < 1)
        return refuse(reader, "a kernel model must state its name, its GPU and at least one law");
    for (int32_t l = 0; l < out->n_laws; l++)
        if (out->laws[l].cut.tile_rows < 1 || out->laws[l].constant[S2_PEER_step_us] <= 0 ||
            out->laws[l].constant[S2_PEER_read_gb_s] <= 0 || out->laws[l].constant[S2_PEER_write_gb_s] <= 0)
            return refuse(reader, "a law lacks its cut or some of its constants");
    return S2_OK;
}

s2_status s2_peer_parse(const char *text, size_t n_bytes, s2_peer *out, s2_diag *diag)
{
    s2_peer_reader reader = {.number = 1, .diag = diag};
    size_t below = 0;
    char hash[20];
    if (n_bytes > MAX_BYTES || memchr(text, '\0', n_bytes) != NULL)
        return refuse(&reader, "a kernel model is text of at most 65536 bytes");
    for (size_t byte = 0; byte < n_bytes; reader.number++) {
        if (!s2_text_copy_line(text, n_bytes, &byte, reader.line, sizeof reader.line))
            return refuse(&reader, "the line is too long");
        S2_TRY(read_line(&reader));
        if (below == 0 && reader.out.hash[0] != '\0')
            below = s2_min_size(byte, n_bytes);
    }
    S2_TRY(check_whole(&reader));
    s2_calibration_hash(text + below, n_bytes - below, hash);
    if (strcmp(hash, reader.out.hash) != 0)
        return refuse(&reader,
                      "the hash is not that of the laws: calibrate again, or take the file as it was");
    *out = reader.out;
    return S2_OK;
}

/* ---- models built in */

static const char ROOM[] = "peers/";

const char *s2_peer_name(int32_t index)
{
    for (const s2_sim_text *text = s2_sim_texts; text->name != NULL; text++)
        if (strncmp(text->name, ROOM, sizeof ROOM - 1) == 0 && index-- == 0)
            return text->name + sizeof ROOM - 1;
    return NULL;
}

s2_status s2_peer_find(const char *name, s2_peer *out, s2_diag *diag)
{
    s2_buf known = {0};
    char clean[60];
    int32_t distance = S2_NAME_FAR;
    const char *nearest = "";
    for (const s2_sim_text *text = s2_sim_texts; text->name != NULL; text++) {
        const char *const own = text->name + sizeof ROOM - 1;
        if (strncmp(text->name, ROOM, sizeof ROOM - 1) != 0)
            continue;
        if (s2_text_same_name(own, name)) {
            s2_buf_release(&known);
            return s2_peer_parse(text->text, strlen(text->text), out, diag);
        }
        s2_buf_printf(&known, " %s", own);
        nearest = s2_text_nearer(name, own, nearest, &distance);
    }
    s2_text_clean(clean, sizeof clean, name);
    s2_diag_set(diag, S2_EINVAL, CODE_PEER_FILE, 0, 0,
                "no kernel model %s is built in; %s%s; s2 calibrate --from makes one of a table of times",
                clean, nearest[0] != '\0' ? "the nearest is " : "there are",
                nearest[0] != '\0'   ? nearest
                : known.data != NULL ? known.data
                                     : " none");
    s2_buf_release(&known);
    return S2_EINVAL;
}

#include "tui/bench.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "base/quantity.h"
#include "base/work.h"
#include "sim/calibration.h"
#include "sim/gpu.h"
#include "sim/price.h"
#include "sim/units.h"

enum { PAGE_TOK = 16, EXPLICIT_PRICE_TOK = 2048, PROVE_WORK = 4000000 };

static const char *const KNOB_LABELS[] = {
#define LABEL(name, label, help) label,
    S2_KNOB_TABLE(LABEL)
#undef LABEL
};
static const char *const KNOB_HELPS[] = {
#define HELP(name, label, help) help,
    S2_KNOB_TABLE(HELP)
#undef HELP
};
static const char *const PHASES[] = {"head", "head+1", "kv", "kv+1", "none"};
static const s2_phase PHASES_PRICED[] = {S2_PREFILL, S2_DECODE, S2_TRAIN, S2_PREFILL};
enum { PRICED_LISTED = 3 };
static const s2_dtype DTYPES[] = {S2_BF16, S2_F16, S2_F8};
static const char *const DENSE_LAYERS[] = {"none", "every 2nd", "every 4th", "first two"};
static const char *const DENSE_RULES[] = {"", "layers 1::2: dense", "layers 3::4: dense",
                                          "layers 0-1: dense"};

s2_knobs s2_knobs_default(void)
{
    s2_knobs knobs = {{16, 8, 1, 0, 32, 8, 64, 128, 32, 1, 0, 131072, 1, 0, S2_CACHE_AS_DTYPE, 0, 0}};
    for (int32_t gpu = 0; s2_gpu_name(gpu) != NULL; gpu++)
        if (strcmp(s2_gpu_name(gpu), "h200") == 0)
            knobs.value[S2_KNOB_GPU] = gpu;
    return knobs;
}

const char *s2_knob_label(s2_knob knob)
{
    return KNOB_LABELS[knob];
}

const char *s2_knob_help(s2_knob knob)
{
    return KNOB_HELPS[knob];
}

static int64_t n_gpus(void)
{
    int32_t n = 0;
    while (s2_gpu_name(n) != NULL)
        n++;
    return n;
}

enum { LIMIT_HEADS = 256 };

static s2_range range_of(const s2_knobs *knobs, s2_knob knob)
{
    switch (knob) {
    case S2_KNOB_LOCAL: return (s2_range){1, 4096};
    case S2_KNOB_STRIDE: return (s2_range){0, 4096};
    case S2_KNOB_PHASE: return (s2_range){0, 4};
    case S2_KNOB_SINK: return (s2_range){0, 4096};
    case S2_KNOB_HEADS: return (s2_range){1, LIMIT_HEADS};
    case S2_KNOB_KV_HEADS: return (s2_range){1, knobs->value[S2_KNOB_HEADS]};
    case S2_KNOB_BLOCK: return (s2_range){16, 1024};
    case S2_KNOB_HEAD_DIM: return (s2_range){1, 1024};
    case S2_KNOB_LAYERS: return (s2_range){1, 256};
    case S2_KNOB_DENSE_LAYERS: return (s2_range){0, 3};
    case S2_KNOB_DENSE_KV: return (s2_range){0, knobs->value[S2_KNOB_KV_HEADS]};
    case S2_KNOB_LEN: return (s2_range){1024, 1048576};
    case S2_KNOB_BATCH: return (s2_range){1, 1024};
    case S2_KNOB_DTYPE: return (s2_range){0, 2};
    case S2_KNOB_CACHE: return (s2_range){0, S2_N_CACHE_TYPES - 1};
    case S2_KNOB_PRICE: return (s2_range){0, PRICED_LISTED};
    case S2_KNOB_GPU: return (s2_range){0, n_gpus() - 1};
    default: return (s2_range){0, 1};
    }
}

static bool is_in(int64_t value, s2_range inclusive)
{
    return value >= inclusive.begin && value <= inclusive.end;
}

static bool is_choice(s2_knob knob)
{
    return knob == S2_KNOB_PHASE || knob == S2_KNOB_DENSE_LAYERS || knob == S2_KNOB_GPU ||
           knob == S2_KNOB_PRICE || knob == S2_KNOB_DTYPE || knob == S2_KNOB_CACHE;
}

/* Roughly powers of two, so a notch doubles. */
static bool doubles(s2_knob knob)
{
    return knob == S2_KNOB_BLOCK || knob == S2_KNOB_LEN || knob == S2_KNOB_BATCH;
}

static int64_t dense_kv(const s2_knobs *knobs)
{
    const int64_t wanted = knobs->value[S2_KNOB_DENSE_KV], most = knobs->value[S2_KNOB_KV_HEADS];
    return s2_min_i64(wanted, most);
}

/* The next divisor of heads in a direction. */
static int64_t next_divisor(int64_t value, int64_t of, int32_t by)
{
    const int64_t step = by > 0 ? 1 : -1;
    for (int64_t at = value + step; at >= 1 && at <= of; at += step)
        if (of % at == 0)
            return at;
    return value;
}

/* Heads in whole groups, so that the KV heads can stay as they are. */
static int64_t next_heads(int64_t value, int64_t n_kv, int32_t by)
{
    const int64_t to = by == 2 ? value * 2 : by == -2 ? value / 2 / n_kv * n_kv : value + by * n_kv;
    return to >= n_kv && to <= LIMIT_HEADS ? to : value;
}

static int64_t turned(const s2_knobs *knobs, s2_knob knob, int64_t value, int32_t by)
{
    enum { DIM_NOTCH = 16 };
    const int32_t step = by > 0 ? 1 : -1;
    if (is_choice(knob))
        return value + step;
    if (knob == S2_KNOB_HEADS)
        return next_heads(value, knobs->value[S2_KNOB_KV_HEADS], by);
    if (knob == S2_KNOB_KV_HEADS)
        return next_divisor(value, knobs->value[S2_KNOB_HEADS], by);
    if (by == 2 || (by == 1 && doubles(knob)))
        return value == 0 ? 1 : value * 2;
    if (by == -2 || (by == -1 && doubles(knob)))
        return value / 2;
    return value + step * (knob == S2_KNOB_HEAD_DIM ? DIM_NOTCH : 1);
}

void s2_knobs_turn(s2_knobs *knobs, s2_knob knob, int32_t by)
{
    const int64_t value = knob == S2_KNOB_DENSE_KV ? dense_kv(knobs) : knobs->value[knob];
    const int64_t to = by != 0 ? turned(knobs, knob, value, by) : value;
    if (to != value && is_in(to, range_of(knobs, knob)))
        knobs->value[knob] = to;
}

/* Would the pattern language accept this value along with the others? */
static bool fits(const s2_knobs *knobs, s2_knob knob, int64_t value)
{
    if (knob == S2_KNOB_HEADS)
        return value % knobs->value[S2_KNOB_KV_HEADS] == 0;
    if (knob == S2_KNOB_KV_HEADS)
        return knobs->value[S2_KNOB_HEADS] % value == 0;
    return knob != S2_KNOB_BLOCK || s2_is_power_of_two(value);
}

bool s2_knob_set(s2_knobs *knobs, s2_knob knob, const char *words)
{
    const s2_range range = range_of(knobs, knob);
    double number;
    for (int64_t value = range.begin; is_choice(knob) && value <= range.end; value++) {
        s2_knobs other = *knobs;
        s2_buf said = {0};
        other.value[knob] = value;
        s2_knob_print(&other, knob, &said);
        const bool same = said.status == S2_OK && strcmp(said.data, words) == 0;
        s2_buf_release(&said);
        if (same) {
            *knobs = other;
            return true;
        }
    }
    if (is_choice(knob) || !s2_quantity_parse(S2_QUANTITY_COUNT, words, 1, &number) || number > 1e9 ||
        number != (double)(int64_t)number || !is_in((int64_t)number, range) ||
        !fits(knobs, knob, (int64_t)number))
        return false;
    knobs->value[knob] = (int64_t)number;
    return true;
}

void s2_knob_print_range(const s2_knobs *knobs, s2_knob knob, s2_buf *buf)
{
    const s2_range range = range_of(knobs, knob);
    s2_knobs other = *knobs;
    for (int64_t value = range.begin; is_choice(knob) && value <= range.end; value++) {
        other.value[knob] = value;
        s2_buf_puts(buf, value > range.begin ? ", " : "");
        s2_knob_print(&other, knob, buf);
    }
    if (!is_choice(knob))
        s2_buf_printf(buf, "%s to %s", s2_tok_text(range.begin).text, s2_tok_text(range.end).text);
    s2_buf_puts(buf, knob == S2_KNOB_HEADS      ? ", a multiple of the KV heads"
                     : knob == S2_KNOB_KV_HEADS ? ", a divisor of the heads"
                     : knob == S2_KNOB_BLOCK    ? ", a power of two"
                                                : "");
}

void s2_knob_print(const s2_knobs *knobs, s2_knob knob, s2_buf *buf)
{
    const int64_t value = knobs->value[knob];
    switch (knob) {
    case S2_KNOB_PHASE: s2_buf_puts(buf, PHASES[value]); break;
    case S2_KNOB_DENSE_LAYERS: s2_buf_puts(buf, DENSE_LAYERS[value]); break;
    case S2_KNOB_GPU: s2_buf_puts(buf, s2_gpu_name((int32_t)value)); break;
    case S2_KNOB_PRICE:
        s2_buf_puts(buf, value == PRICED_LISTED ? "device-lists" : s2_phase_word(PHASES_PRICED[value]));
        break;
    case S2_KNOB_DTYPE: s2_buf_puts(buf, s2_dtype_word(DTYPES[value])); break;
    case S2_KNOB_CACHE: s2_buf_puts(buf, s2_cache_type_word((s2_cache_type)value)); break;
    case S2_KNOB_DENSE_KV: s2_buf_printf(buf, "%lld", (long long)dense_kv(knobs)); break;
    case S2_KNOB_LEN: s2_buf_puts(buf, s2_tok_text(value).text); break;
    default: s2_buf_printf(buf, "%lld", (long long)value);
    }
}

/* The language's default is left out. */
static void add_head_dim(const s2_knobs *knobs, const char *separator, s2_buf *buf)
{
    if (knobs->value[S2_KNOB_HEAD_DIM] != s2_knobs_default().value[S2_KNOB_HEAD_DIM])
        s2_buf_printf(buf, "head-dim %lld%s", (long long)knobs->value[S2_KNOB_HEAD_DIM], separator);
}

void s2_knobs_text(const s2_knobs *knobs, const char *separator, s2_buf *buf)
{
    const int64_t *const v = knobs->value;
    add_head_dim(knobs, separator, buf);
    s2_buf_printf(buf, "layers %lld%sheads %lld%skv-heads %lld%sblock %lld%slocal %lld",
                  (long long)v[S2_KNOB_LAYERS], separator, (long long)v[S2_KNOB_HEADS], separator,
                  (long long)v[S2_KNOB_KV_HEADS], separator, (long long)v[S2_KNOB_BLOCK], separator,
                  (long long)v[S2_KNOB_LOCAL]);
    if (v[S2_KNOB_SINK] > 0)
        s2_buf_printf(buf, " | sink %lld", (long long)v[S2_KNOB_SINK]);
    if (v[S2_KNOB_STRIDE] > 0)
        s2_buf_printf(buf, " | stride %lld", (long long)v[S2_KNOB_STRIDE]);
    if (v[S2_KNOB_STRIDE] > 0 && v[S2_KNOB_PHASE] < 4)
        s2_buf_printf(buf, " phase %s", PHASES[v[S2_KNOB_PHASE]]);
    if (dense_kv(knobs) > 0)
        s2_buf_printf(buf, "%skv %lld-%lld: dense", separator,
                      (long long)(v[S2_KNOB_KV_HEADS] - dense_kv(knobs)),
                      (long long)(v[S2_KNOB_KV_HEADS] - 1));
    /* a rule for layers that do not exist is refused */
    static const int64_t least_layers[] = {1, 2, 4, 2};
    const int64_t dense = v[S2_KNOB_DENSE_LAYERS];
    if (dense > 0 && v[S2_KNOB_LAYERS] >= least_layers[dense])
        s2_buf_printf(buf, "%s%s", separator, DENSE_RULES[dense]);
    s2_buf_puts(buf, separator[0] == '\n' ? "\n" : "");
}

/* "word {half,value,double}", as far as these are in the knob's range. */
static void add_choices(const s2_knobs *knobs, s2_knob knob, const char *word, s2_buf *buf)
{
    const int64_t value = knobs->value[knob];
    const int64_t three[] = {value / 2, value, value * 2};
    const char *before = "{";
    s2_buf_puts(buf, word);
    for (int at = 0; at < 3; at++)
        if (three[at] > 0 && is_in(three[at], range_of(knobs, knob))) {
            s2_buf_printf(buf, "%s%lld", before, (long long)three[at]);
            before = ",";
        }
    s2_buf_puts(buf, "}");
}

/* "; {,one,other}", where the first choice is not a rule; nothing if there are no rules. */
static void add_rules(const s2_buf *rules, s2_buf *buf)
{
    if (rules->len > 0)
        s2_buf_printf(buf, "; {%s}", rules->data);
}

/* Dense KV heads and dense layers: none, the usual ones, and those of the knobs. */
static void add_dense(const s2_knobs *knobs, s2_buf *buf)
{
    const int64_t *const v = knobs->value;
    const int64_t n_dense = dense_kv(knobs), last = v[S2_KNOB_KV_HEADS] - 1;
    const int64_t n_layers = v[S2_KNOB_LAYERS], dense = v[S2_KNOB_DENSE_LAYERS];
    s2_buf heads = {0}, layers = {0};
    if (last > 0)
        s2_buf_printf(&heads, ",kv %lld: dense", (long long)last);
    if (n_dense > 1 || (n_dense == 1 && last == 0))
        s2_buf_printf(&heads, ",kv %lld-%lld: dense", (long long)(last + 1 - n_dense), (long long)last);
    if (n_layers >= 4)
        s2_buf_puts(&layers, ",layers 1::2: dense,layers 3::4: dense");
    else if (n_layers >= 2 && dense == 1)
        s2_buf_puts(&layers, ",layers 1::2: dense");
    if (n_layers >= 2 && dense == 3)
        s2_buf_puts(&layers, ",layers 0-1: dense");
    add_rules(&heads, buf);
    add_rules(&layers, buf);
    s2_buf_release(&heads);
    s2_buf_release(&layers);
}

void s2_knobs_space(const s2_knobs *knobs, s2_buf *buf)
{
    const int64_t *const v = knobs->value;
    add_head_dim(knobs, "; ", buf);
    s2_buf_printf(buf, "layers %lld; heads %lld; kv-heads %lld; ", (long long)v[S2_KNOB_LAYERS],
                  (long long)v[S2_KNOB_HEADS], (long long)v[S2_KNOB_KV_HEADS]);
    add_choices(knobs, S2_KNOB_BLOCK, "block ", buf);
    add_choices(knobs, S2_KNOB_LOCAL, "; layers all: local ", buf);
    s2_buf_puts(buf, " {,| sink 1");
    if (v[S2_KNOB_SINK] > 1)
        s2_buf_printf(buf, ",| sink %lld", (long long)v[S2_KNOB_SINK]);
    s2_buf_puts(buf, "}");
    if (v[S2_KNOB_STRIDE] > 0) {
        add_choices(knobs, S2_KNOB_STRIDE, " | stride ", buf);
        s2_buf_puts(buf, v[S2_KNOB_PHASE] < 4 ? " phase {head,kv}+{0,1}" : " {,phase head,phase kv}");
    } else {
        s2_buf_puts(buf, " {,| stride 4 phase head,| stride 8 phase head,| stride 16 phase head}");
    }
    add_dense(knobs, buf);
}

static void knobs_of_term(const s2_term *term, s2_knobs *knobs)
{
    int64_t *const v = knobs->value;
    if (term->kind == S2_TERM_LOCAL)
        v[S2_KNOB_LOCAL] = term->n;
    if (term->kind == S2_TERM_SINK)
        v[S2_KNOB_SINK] = term->n;
    if (term->kind == S2_TERM_STRIDE) {
        v[S2_KNOB_STRIDE] = term->n;
        const bool by_kv = term->offset.kv_coef != 0, by_head = term->offset.head_coef != 0;
        v[S2_KNOB_PHASE] = by_kv ? 2 + term->offset.constant : by_head ? term->offset.constant : 4;
    }
}

static const s2_body *sparse_body(const s2_pattern *pattern)
{
    for (int32_t body = 0; body < pattern->n_bodies; body++)
        if (pattern->bodies[body].terms[0].kind != S2_TERM_DENSE)
            return &pattern->bodies[body];
    return NULL;
}

static bool is_dense_at(const s2_pattern *pattern, int32_t layer, int32_t head)
{
    return pattern->bodies[s2_pattern_body(pattern, S2_PREFILL, layer, head)].terms[0].kind == S2_TERM_DENSE;
}

static void knobs_of_dense(const s2_pattern *pattern, s2_knobs *knobs)
{
    int64_t *const v = knobs->value;
    const int32_t layers = pattern->n_layers;
    v[S2_KNOB_DENSE_LAYERS] = layers > 3 && is_dense_at(pattern, 3, 0) && !is_dense_at(pattern, 1, 0) ? 2
                              : is_dense_at(pattern, 0, 0)                                            ? 3
                              : layers > 1 && is_dense_at(pattern, 1, 0)                              ? 1
                                                                                                      : 0;
    const int32_t layer = v[S2_KNOB_DENSE_LAYERS] == 3 && layers > 2 ? 2 : 0;
    const int32_t group = pattern->n_heads / pattern->n_kv_heads;
    v[S2_KNOB_DENSE_KV] = 0;
    for (int32_t kv = pattern->n_kv_heads - 1; kv >= 0 && is_dense_at(pattern, layer, kv * group); kv--)
        v[S2_KNOB_DENSE_KV]++;
}

/* Do the knobs express the same pattern, apart from its name? */
static bool says_the_same(const s2_knobs *knobs, const s2_pattern *pattern)
{
    s2_arena arena = {0};
    s2_buf text = {0}, canonical = {0}, wanted = {0};
    s2_pattern made, plain = *pattern;
    s2_diag diag;
    plain.name = plain.model = "";
    s2_knobs_text(knobs, "\n", &text);
    bool same = false;
    if (text.status == S2_OK && s2_pattern_parse(&arena, text.data, text.len, NULL, &made, &diag) == S2_OK) {
        s2_pattern_print(&made, &canonical);
        s2_pattern_print(&plain, &wanted);
        same = canonical.status == S2_OK && wanted.status == S2_OK && canonical.len == wanted.len &&
               memcmp(canonical.data, wanted.data, wanted.len) == 0;
    }
    s2_buf_release(&text);
    s2_buf_release(&canonical);
    s2_buf_release(&wanted);
    s2_arena_release(&arena);
    return same;
}

bool s2_knobs_of(const s2_pattern *pattern, s2_knobs *knobs)
{
    const s2_body *const body = sparse_body(pattern);
    s2_knobs made = *knobs;
    int64_t *const v = made.value;
    if (body == NULL || s2_pattern_layers_differ(pattern))
        return false;
    v[S2_KNOB_HEADS] = pattern->n_heads;
    v[S2_KNOB_KV_HEADS] = pattern->n_kv_heads;
    v[S2_KNOB_BLOCK] = pattern->block_tok;
    v[S2_KNOB_HEAD_DIM] = pattern->head_dim;
    v[S2_KNOB_LAYERS] = pattern->n_layers;
    v[S2_KNOB_LOCAL] = 1;
    v[S2_KNOB_SINK] = v[S2_KNOB_STRIDE] = 0;
    for (int32_t term = 0; term < body->n_terms; term++)
        knobs_of_term(&body->terms[term], &made);
    knobs_of_dense(pattern, &made);
    for (s2_knob knob = 0; knob < S2_N_KNOBS; knob++)
        if (!is_in(v[knob], range_of(&made, knob)))
            return false;
    if (!says_the_same(&made, pattern))
        return false;
    *knobs = made;
    return true;
}

s2_question s2_knobs_question(const s2_knobs *knobs)
{
    s2_question question = {.len_tok = knobs->value[S2_KNOB_LEN],
                            .phase = PHASES_PRICED[knobs->value[S2_KNOB_PRICE]],
                            .dtype = DTYPES[knobs->value[S2_KNOB_DTYPE]],
                            .cache = (s2_cache_type)knobs->value[S2_KNOB_CACHE],
                            .batch = (int32_t)knobs->value[S2_KNOB_BATCH],
                            .listed = knobs->value[S2_KNOB_PRICE] == PRICED_LISTED};
    if (question.phase == S2_TRAIN) /* which keeps none */
        question.cache = S2_CACHE_AS_DTYPE;
    snprintf(question.gpu, sizeof question.gpu, "%s", s2_gpu_name((int32_t)knobs->value[S2_KNOB_GPU]));
    return question;
}

s2_question s2_question_default(int64_t len_tok)
{
    return (s2_question){.len_tok = len_tok, .gpu = "h200", .dtype = S2_BF16, .batch = 1};
}

void s2_question_print(const s2_question *question, s2_buf *buf)
{
    s2_buf_printf(buf, "--gpu %s --len %s --phase %s", question->gpu, s2_tok_text(question->len_tok).text,
                  s2_phase_word(question->phase));
    if (question->batch != 1)
        s2_buf_printf(buf, " --batch %d", question->batch);
    if (question->dtype != S2_BF16)
        s2_buf_printf(buf, " --dtype %s", s2_dtype_word(question->dtype));
    if (question->cache != S2_CACHE_AS_DTYPE)
        s2_buf_printf(buf, " --kv-dtype %s", s2_cache_type_word(question->cache));
    if (question->listed)
        s2_buf_puts(buf, " --device-lists");
}

void s2_question_tell(const s2_question *question, s2_buf *buf)
{
    s2_buf_printf(buf, "%s %s", s2_phase_word(question->phase), s2_tok_text(question->len_tok).text);
    if (question->batch != 1)
        s2_buf_printf(buf, " x %d", question->batch);
    s2_buf_printf(buf, " on %s", question->gpu);
    if (question->dtype != S2_BF16)
        s2_buf_printf(buf, ", %s", s2_dtype_word(question->dtype));
    if (question->cache != S2_CACHE_AS_DTYPE)
        s2_buf_printf(buf, ", cache %s", s2_cache_type_word(question->cache));
    if (question->listed)
        s2_buf_puts(buf, ", device lists");
}

bool s2_question_is(const s2_question *a, const s2_question *b)
{
    return a->len_tok == b->len_tok && a->phase == b->phase && a->dtype == b->dtype && a->cache == b->cache &&
           a->batch == b->batch && a->listed == b->listed && strcmp(a->gpu, b->gpu) == 0;
}

static s2_status prove(s2_facts *facts)
{
    static const s2_requirement asked[S2_N_VERDICTS] = {
        {S2_ROWS, 0, true}, {S2_UNION, 0, true}, {S2_KV, 0, true}};
    const s2_prove_options options = {.n_tok = S2_OPEN, .work_limit = PROVE_WORK};
    return s2_prove(&facts->arena, &facts->pattern, asked, S2_N_VERDICTS, &options, facts->findings);
}

static bool has_explicit(const s2_pattern *pattern)
{
    s2_term_walk walk = {.pattern = pattern};
    for (const s2_term *term; (term = s2_term_next(&walk)) != NULL;)
        if (s2_term_row_of(term->kind)->nature == S2_NATURE_EXPLICIT)
            return true;
    return false;
}

static s2_status fill_kv(s2_facts *facts, const s2_sim_options *options, int64_t *work_left)
{
    s2_classes classes;
    S2_TRY(s2_classes_build(&facts->arena, &facts->pattern, S2_DECODE, &classes));
    classes.work_left = work_left;
    const double elem_bytes = s2_sim_cache_bytes(options);
    for (int32_t point = 0; point < S2_KV_POINTS; point++) {
        s2_kv_elems elems;
        const int64_t len_tok = options->len_tok * (point + 1) / S2_KV_POINTS;
        facts->kv_len[point] = s2_max_i64(len_tok, 1);
        S2_TRY(s2_kv_count(&classes, facts->kv_len[point], PAGE_TOK, &elems));
        s2_kv_bytes bytes;
        S2_TRY(s2_kv_elems_bytes(&elems, elem_bytes, options->batch, &bytes));
        facts->kv_bytes[point] = options->keeps_all ? bytes.dense : bytes.head_pages;
        facts->kv_dense[point] = bytes.dense;
    }
    return S2_OK;
}

static s2_status price(s2_facts *facts, const s2_sim_options *options)
{
    s2_sim sim;
    S2_TRY(s2_price(&facts->arena, &facts->pattern, options, S2_PRICE_BOUNDS, &sim, NULL));
    facts->time_us = sim.plan_us;
    facts->bound_us = sim.bound_us;
    facts->dense_us = sim.dense_plan_us;
    facts->density = sim.density;
    facts->n_sparse_layers = sim.n_sparse_layers;
    facts->token_density = sim.token_density;
    facts->imbalance = sim.imbalance;
    facts->bound_by = sim.bound_by;
    memcpy(facts->busy_us, sim.busy_us, sizeof facts->busy_us);
    return S2_OK;
}

/* The options that the bounds and the expected time have in common. */
static s2_status ask_simulator(const s2_question *question, const s2_pattern *pattern, s2_arena *arena,
                               s2_sim_options *options, s2_diag *diag)
{
    s2_net *const net = S2_NEW(arena, s2_net, 1);
    if (net == NULL)
        return S2_ENOMEM;
    S2_TRY(s2_sim_options_default(options));
    S2_TRY(s2_gpu_find(question->gpu, &options->gpu, diag));
    options->len_tok = question->len_tok;
    options->phase = question->phase;
    options->dtype = question->dtype;
    options->cache = question->cache;
    options->batch = question->batch;
    s2_sim_take_net(pattern, net, options);
    if (question->listed)
        s2_sim_choose_blocks(options);
    return S2_OK;
}

static s2_status derive(s2_facts *facts, const char *text, size_t n_bytes)
{
    const s2_parse_options parse = {.no_files = true};
    S2_TRY(s2_pattern_parse(&facts->arena, text, n_bytes, &parse, &facts->pattern, &facts->diag));
    S2_TRY(s2_pattern_hash(&facts->pattern, facts->hash));
    s2_sim_options options;
    S2_TRY(ask_simulator(&facts->question, &facts->pattern, &facts->arena, &options, &facts->diag));
    S2_TRY(prove(facts));
    int64_t work_left = S2_WORK_STEPS;
    options.work_left = &work_left; /* shared by the cache and the price */
    const bool keeps = options.phase != S2_TRAIN;
    const s2_status cached = keeps ? fill_kv(facts, &options, &work_left) : S2_OK;
    facts->cached = keeps && cached == S2_OK;
    const bool quick = !has_explicit(&facts->pattern) || options.len_tok <= EXPLICIT_PRICE_TOK;
    facts->slow = !quick;
    const s2_status priced = quick && cached == S2_OK ? price(facts, &options) : S2_OK;
    facts->priced = quick && cached == S2_OK && priced == S2_OK;
    /* the verdicts hold even if a length is too long to be counted */
    if (cached != S2_OK && cached != S2_ELIMIT && cached != S2_EINVAL)
        return cached;
    return priced != S2_OK && priced != S2_ELIMIT && priced != S2_EINVAL ? priced : S2_OK;
}

void s2_facts_build(const char *text, size_t n_bytes, const s2_question *question, s2_facts *facts)
{
    *facts = (s2_facts){.question = *question};
    facts->status = derive(facts, text, n_bytes);
}

s2_status s2_question_options(const s2_question *question, const s2_pattern *pattern, s2_arena *arena,
                              s2_sim_options *options, s2_diag *diag)
{
    s2_calibration *const calibration = S2_NEW(arena, s2_calibration, 1);
    if (calibration == NULL)
        return S2_ENOMEM;
    S2_TRY(ask_simulator(question, pattern, arena, options, diag));
    S2_TRY(s2_calibration_of(&options->gpu, calibration));
    options->calibration = calibration;
    return S2_OK;
}

void s2_facts_release(s2_facts *facts)
{
    s2_arena_release(&facts->late.arena);
    s2_arena_release(&facts->followed.arena);
    s2_arena_release(&facts->arena);
    *facts = (s2_facts){.status = S2_EINVAL};
}

s2_status s2_facts_views(const s2_facts *facts, s2_arena *arena, int32_t layer, const s2_view **views)
{
    const s2_pattern *const pattern = &facts->pattern;
    s2_view *const made = S2_NEW(arena, s2_view, pattern->n_heads);
    if (made == NULL)
        return S2_ENOMEM;
    const s2_phase phase = s2_phase_rules(facts->question.phase);
    for (int32_t head = 0; head < pattern->n_heads; head++)
        S2_TRY(s2_view_build(arena, pattern, phase, layer, head, S2_AT_LEAST, &made[head]));
    *views = made;
    return S2_OK;
}

void s2_facts_grid(const s2_facts *facts, s2_mask_image *grid)
{
    const s2_grid_key *const key = &grid->key;
    const bool all = key->head < 0;
    s2_arena scratch = {0};
    const s2_view *views;
    grid->cells = s2_malloc((size_t)key->rows * (size_t)key->cols * sizeof *grid->cells);
    grid->status = grid->cells != NULL ? s2_facts_views(facts, &scratch, key->layer, &views) : S2_ENOMEM;
    if (grid->status == S2_OK)
        grid->status = s2_grid_fill(all ? views : views + key->head, all ? facts->pattern.n_heads : 1,
                                    facts->question.len_tok, key->zoom, key->rows, key->cols, grid->cells);
    s2_arena_release(&scratch);
    if (grid->status != S2_OK) {
        s2_free(grid->cells);
        grid->cells = NULL;
    }
}

int32_t s2_facts_layer(const s2_facts *facts)
{
    if (facts->status != S2_OK)
        return 0;
    for (int32_t at = 0; at < S2_N_VERDICTS; at++)
        if (facts->findings[at].verdict == S2_VIOLATED)
            return facts->findings[at].witness.layer;
    int32_t first = -1; /* that reads keys */
    for (int32_t layer = 0; layer < facts->pattern.n_layers; layer++) {
        if (s2_pattern_is_state_layer(&facts->pattern, layer))
            continue;
        for (int32_t head = 0; head < facts->pattern.n_heads; head++)
            if (!is_dense_at(&facts->pattern, layer, head))
                return layer;
        first = first < 0 ? layer : first;
    }
    return s2_max_i32(first, 0);
}

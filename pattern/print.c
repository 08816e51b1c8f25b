#include "pattern/parse.h"

#include <sha2.h>
#include <string.h>

#include "base/alloc.h"
#include "pattern/canon.h"

/* --- numbers and small parts ------------------------------------------------------------------- */

static void put_number(s2_buf *buf, int64_t value, bool tok)
{
    char digits[24];
    char *at = digits + sizeof digits;
    if (tok)
        *--at = 't';
    do {
        *--at = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    s2_buf_add(buf, at, (size_t)(digits + sizeof digits - at));
}

static void put_field(s2_buf *buf, const char *word, int64_t value, bool tok)
{
    s2_buf_puts(buf, word);
    put_number(buf, value, tok);
}

static void put_quoted(s2_buf *buf, const char *text)
{
    s2_buf_puts(buf, "\"");
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\')
            s2_buf_puts(buf, "\\");
        s2_buf_add(buf, at, 1);
    }
    s2_buf_puts(buf, "\"");
}

/* Bare where the parser reads the same text back. */
static bool name_is_bare(const char *name)
{
    const size_t n = strlen(name);
    return name[0] != ' ' && name[n - 1] != ' ' && name[0] != '"' && strpbrk(name, ";#") == NULL;
}

static void put_phase(s2_buf *buf, const s2_phase_expr *phase)
{
    static const char *const words[] = {"head", "kv", "layer"};
    const int64_t coefs[] = {phase->head_coef, phase->kv_coef, phase->layer_coef};
    const char *join = " phase ";
    for (int part = 0; part < 3; part++) {
        if (coefs[part] == 0)
            continue;
        s2_buf_puts(buf, join);
        s2_buf_puts(buf, words[part]);
        if (coefs[part] != 1)
            put_field(buf, "*", coefs[part], false);
        join = "+";
    }
    if (phase->constant != 0)
        put_field(buf, join, phase->constant, false);
}

static void put_span(s2_buf *buf, s2_span span, bool tok)
{
    if (span.begin == 0 && span.end == S2_OPEN && span.step == 1) {
        s2_buf_puts(buf, "all");
        return;
    }
    put_number(buf, span.begin, tok);
    if (span.step == 1 && span.end == S2_OPEN) {
        s2_buf_puts(buf, "::");
    } else if (span.step == 1) {
        if (span.end - span.begin > 1)
            put_field(buf, "-", span.end - 1, tok);
    } else {
        s2_buf_puts(buf, ":");
        if (span.end != S2_OPEN)
            put_number(buf, span.end, tok);
        put_field(buf, ":", span.step, tok);
    }
}

static void put_list(s2_buf *buf, const s2_span_list *list, bool tok)
{
    for (int32_t s = 0; s < list->n_spans; s++) {
        s2_buf_puts(buf, s == 0 ? " " : ",");
        put_span(buf, list->spans[s], tok);
    }
}

/* --- when ------------------------------------------------------------------------------------- */

static void put_condition(s2_buf *buf, const char **join, int what, s2_range blk, s2_range tok)
{
    static const char *const words[S2_N_WHEN] = {"distance ", "key ", "query "};
    s2_buf_puts(buf, *join);
    s2_buf_puts(buf, words[what]);
    if (blk.begin > 0 || tok.begin > 0)
        put_number(buf, blk.begin > 0 ? blk.begin : tok.begin, blk.begin == 0);
    s2_buf_puts(buf, "..");
    if (blk.end != S2_OPEN || tok.end != S2_OPEN)
        put_number(buf, blk.end != S2_OPEN ? blk.end : tok.end, blk.end == S2_OPEN);
    *join = " & ";
}

static bool range_is_whole(s2_range range)
{
    return range.begin == 0 && range.end == S2_OPEN;
}

/* One condition where each side is bounded in one unit only, else one per unit. */
static void put_when(s2_buf *buf, const s2_term *term)
{
    const s2_range whole = {0, S2_OPEN};
    const char *join = " when ";
    for (int what = 0; what < S2_N_WHEN; what++) {
        const s2_range blk = term->when[what][S2_UNIT_BLK], tok = term->when[what][S2_UNIT_TOK];
        const bool clash = (blk.begin > 0 && tok.begin > 0) || (blk.end != S2_OPEN && tok.end != S2_OPEN);
        if (range_is_whole(blk) && range_is_whole(tok))
            continue;
        if (clash) {
            put_condition(buf, &join, what, blk, whole);
            put_condition(buf, &join, what, whole, tok);
        } else {
            put_condition(buf, &join, what, blk, tok);
        }
    }
}

/* --- terms and bodies --------------------------------------------------------------------------- */

void s2_term_print(const s2_term *term, s2_buf *buf)
{
    s2_buf_puts(buf, s2_term_word(term->kind));
    switch (term->kind) {
    case S2_TERM_LOCAL:
    case S2_TERM_SINK:
    case S2_TERM_CHUNK: put_field(buf, " ", term->n, term->tok); break;
    case S2_TERM_STRIDE:
    case S2_TERM_DILATED:
        put_field(buf, " ", term->n, term->tok);
        if (term->width != 1)
            put_field(buf, " width ", term->width, term->tok);
        put_phase(buf, &term->phase);
        break;
    case S2_TERM_COLUMNS:
    case S2_TERM_ROWS: put_list(buf, &term->list, term->tok); break;
    case S2_TERM_RANDOM:
        put_field(buf, " ", term->n, false);
        s2_buf_printf(buf, " seed %llu", (unsigned long long)term->seed);
        break;
    case S2_TERM_MASK:
        s2_buf_puts(buf, " ");
        put_quoted(buf, term->mask->path);
        break;
    case S2_TERM_PAGES:
        put_field(buf, " ", term->n, false);
        put_field(buf, " page ", term->page_tok, false);
        break;
    case S2_TERM_HEAVY:
    case S2_TERM_TOPK: put_field(buf, " ", term->n, false); break;
    case S2_TERM_DENSE:
    case S2_TERM_NONE:
    case S2_N_TERM_KINDS: break;
    }
    put_when(buf, term);
}

void s2_body_print(const s2_body *body, s2_buf *buf)
{
    for (int32_t t = 0; t < body->n_terms; t++) {
        if (t > 0)
            s2_buf_puts(buf, " | ");
        s2_term_print(&body->terms[t], buf);
    }
    if (body->n_terms == 0)
        s2_buf_puts(buf, s2_term_word(S2_TERM_NONE));
}

/* --- index lists --------------------------------------------------------------------------------- */

/* An item of a list: n indices from index[at], spaced evenly. */
static void put_item(s2_buf *buf, const int32_t *index, int32_t at, int32_t n, int32_t n_all)
{
    const int32_t first = index[at], last = index[at + n - 1];
    const int32_t step = n > 1 ? index[at + 1] - first : 1;
    put_number(buf, first, false);
    if (n > 1 && step == 1) {
        put_field(buf, "-", last, false);
    } else if (n > 1) {
        s2_buf_puts(buf, ":");
        if (last < n_all - step)
            put_number(buf, last + 1, false);
        put_field(buf, ":", step, false);
    }
}

static int32_t digits_of(int32_t value)
{
    int32_t n = 1;
    for (; value >= 10; value /= 10)
        n++;
    return n;
}

/* Length of the text of put_item. */
static int32_t item_cost(const int32_t *index, int32_t at, int32_t n, int32_t n_all)
{
    const int32_t first = index[at], last = index[at + n - 1];
    const int32_t step = n > 1 ? index[at + 1] - first : 1;
    if (n == 1)
        return digits_of(first);
    if (step == 1)
        return digits_of(first) + 1 + digits_of(last);
    return digits_of(first) + 2 + (last < n_all - step ? digits_of(last + 1) : 0) + digits_of(step);
}

typedef struct list_plan {
    int32_t *longest; /* of the evenly spaced run that starts here */
    int32_t *cost;    /* of the best list of the indices from here on, its commas included */
    int32_t *take;    /* items of the first entry of that list */
} list_plan;

/* The cheapest list among those that walk the indices once; ties go to the longer first item. */
static void plan_list(const int32_t *index, int32_t n, int32_t n_all, list_plan *plan)
{
    plan->cost[n] = 0;
    for (int32_t at = n - 1; at >= 0; at--) {
        const bool extends = at + 2 < n && index[at + 2] - index[at + 1] == index[at + 1] - index[at];
        plan->longest[at] = at + 1 == n ? 1 : extends ? plan->longest[at + 1] + 1 : 2;
        const int32_t choices[] = {plan->longest[at], plan->longest[at] - 1, 1};
        plan->cost[at] = INT32_MAX;
        for (int choice = 0; choice < 3; choice++) {
            const int32_t take = choices[choice];
            /* two indices with a gap are shorter as two items than with a step */
            if (take < 1 || (take == 2 && index[at + 1] - index[at] > 1))
                continue;
            const int32_t cost = item_cost(index, at, take, n_all) + (at + take < n) + plan->cost[at + take];
            if (cost < plan->cost[at]) {
                plan->cost[at] = cost;
                plan->take[at] = take;
            }
        }
    }
}

/* The smallest period of the membership sequence over [0, n_all) that repeats at least twice, or 0. */
static int32_t membership_period(const int32_t *index, int32_t n, int32_t n_all, int32_t *border,
                                 uint8_t *member)
{
    memset(member, 0, (size_t)n_all);
    for (int32_t at = 0; at < n; at++)
        member[index[at]] = 1;
    border[0] = 0;
    for (int32_t at = 1, have = 0; at < n_all; at++) {
        while (have > 0 && member[at] != member[have])
            have = border[have - 1];
        have += member[at] == member[have];
        border[at] = have;
    }
    const int32_t period = n_all - border[n_all - 1];
    return period * 2 <= n_all ? period : 0;
}

/* Length of the list that names each residue class of the period, "0::4,1::4". */
static int32_t residues_cost(const int32_t *index, int32_t n, int32_t period)
{
    int32_t cost = -1;
    for (int32_t at = 0; at < n && index[at] < period; at++)
        cost += digits_of(index[at]) + 2 + digits_of(period) + 1;
    return cost;
}

static void put_residues(s2_buf *buf, const int32_t *index, int32_t n, int32_t period)
{
    for (int32_t at = 0; at < n && index[at] < period; at++) {
        put_field(buf, at > 0 ? "," : "", index[at], false);
        put_field(buf, "::", period, false);
    }
}

void s2_index_list_print(const int32_t *index, int32_t n, int32_t n_all, s2_buf *buf)
{
    if (n == n_all) {
        s2_buf_puts(buf, "all");
        return;
    }
    enum { ON_STACK = 160 };
    int32_t stack[4 * (ON_STACK + 1)];
    uint8_t stack_member[ON_STACK];
    const size_t each = (size_t)(n_all > n ? n_all : n) + 1;
    const bool small = each <= ON_STACK;
    int32_t *const room = small ? stack : s2_malloc(each * (4 * sizeof *room + 1));
    if (room == NULL) {
        buf->status = S2_ENOMEM;
        return;
    }
    uint8_t *const member = small ? stack_member : (uint8_t *)(room + 4 * each);
    list_plan plan = {room, room + each, room + 2 * each};
    plan_list(index, n, n_all, &plan);
    const int32_t period = membership_period(index, n, n_all, room + 3 * each, member);
    if (period > 0 && residues_cost(index, n, period) < plan.cost[0]) {
        put_residues(buf, index, n, period);
    } else {
        for (int32_t at = 0; at < n; at += plan.take[at]) {
            s2_buf_puts(buf, at > 0 ? "," : "");
            put_item(buf, index, at, plan.take[at], n_all);
        }
    }
    if (!small)
        s2_free(room);
}

/* --- the pattern ---------------------------------------------------------------------------------- */

static void put_shape(const s2_pattern *pattern, s2_buf *buf)
{
    const bool has_model = pattern->model[0] != '\0';
    if (pattern->name[0] != '\0') {
        s2_buf_puts(buf, "name ");
        if (name_is_bare(pattern->name))
            s2_buf_puts(buf, pattern->name);
        else
            put_quoted(buf, pattern->name);
        s2_buf_puts(buf, "\n");
    }
    if (has_model)
        s2_buf_printf(buf, "model %s\n", pattern->model);
    if (has_model || pattern->n_layers != 1)
        s2_buf_printf(buf, "layers %d\n", pattern->n_layers);
    s2_buf_printf(buf, "heads %d\n", pattern->n_heads);
    if (has_model || pattern->n_kv_heads != pattern->n_heads)
        s2_buf_printf(buf, "kv-heads %d\n", pattern->n_kv_heads);
    if (has_model || pattern->head_dim != 128)
        s2_buf_printf(buf, "head-dim %d\n", pattern->head_dim);
    if (pattern->block_tok != 64)
        s2_buf_printf(buf, "block %d\n", pattern->block_tok);
    if (!pattern->causal)
        s2_buf_puts(buf, "causal no\n");
}

/* Bodies renumbered by first use in the order of cells, so that their storage order does not show. */
static s2_status number_bodies(s2_arena *arena, const s2_pattern *pattern, s2_text_set *texts,
                               int32_t *class_of)
{
    const int64_t n_cells = (int64_t)S2_N_PHASES * pattern->n_layers * pattern->n_heads;
    for (int32_t body = 0; body < pattern->n_bodies; body++)
        class_of[body] = -1;
    s2_buf text = {0};
    s2_status status = S2_OK;
    int32_t n_left = pattern->n_bodies;
    for (int64_t cell = 0; cell < n_cells && n_left > 0 && status == S2_OK; cell++) {
        const int32_t body = pattern->body_of[cell];
        if (class_of[body] >= 0)
            continue;
        n_left--;
        s2_body canonical;
        status = s2_body_canonical(arena, pattern->block_tok, &pattern->bodies[body], &canonical);
        if (status != S2_OK)
            break;
        text.len = 0;
        s2_body_print(&canonical, &text);
        status = text.status;
        if (status == S2_OK)
            status = s2_text_set_add(arena, texts, text.data, text.len, &class_of[body]);
    }
    s2_buf_release(&text);
    return status;
}

static void put_rules(const s2_pattern *pattern, const s2_rule_list *list, const s2_text_set *texts,
                      s2_buf *buf)
{
    if (list->fallback >= 0) {
        s2_buf_puts(buf, "layers all: ");
        s2_buf_puts(buf, texts->text[list->fallback]);
        s2_buf_puts(buf, "\n");
    }
    for (int32_t rule = 0; rule < list->n_rules; rule++) {
        s2_selector_print(pattern, &list->rules[rule], buf);
        s2_buf_puts(buf, ": ");
        s2_buf_puts(buf, texts->text[list->rules[rule].body]);
        s2_buf_puts(buf, "\n");
    }
}

static s2_status print_pattern(s2_arena *arena, const s2_pattern *pattern, s2_buf *buf)
{
    s2_text_set texts = {0};
    int32_t *const class_of = S2_NEW(arena, int32_t, pattern->n_bodies);
    if (class_of == NULL)
        return S2_ENOMEM;
    S2_TRY(number_bodies(arena, pattern, &texts, class_of));
    s2_rule_list list;
    S2_TRY(s2_rules_build(arena, pattern, class_of, texts.n, texts.n_bytes, &list));
    put_shape(pattern, buf);
    put_rules(pattern, &list, &texts, buf);
    return buf->status;
}

void s2_pattern_print(const s2_pattern *pattern, s2_buf *buf)
{
    if (buf->status != S2_OK)
        return;
    s2_arena arena = {0};
    buf->status = print_pattern(&arena, pattern, buf);
    s2_arena_release(&arena);
}

void s2_pattern_print_size(const s2_pattern *pattern, s2_buf *buf)
{
    s2_buf_count(buf, pattern->n_layers, "layer");
    s2_buf_puts(buf, ", ");
    s2_buf_count(buf, pattern->n_heads, "head");
    s2_buf_puts(buf, " on ");
    s2_buf_count(buf, pattern->n_kv_heads, "KV head");
}

s2_status s2_pattern_hash(const s2_pattern *pattern, char hex[S2_HASH_HEX])
{
    s2_buf text = {0};
    s2_pattern_print(pattern, &text);
    if (text.status == S2_OK) {
        SHA2_CTX context;
        uint8_t digest[SHA256_DIGEST_LENGTH];
        SHA256Init(&context);
        SHA256Update(&context, (const uint8_t *)text.data, text.len);
        SHA256Final(digest, &context);
        for (int byte = 0; byte < SHA256_DIGEST_LENGTH; byte++) {
            hex[2 * byte] = "0123456789abcdef"[digest[byte] >> 4];
            hex[2 * byte + 1] = "0123456789abcdef"[digest[byte] & 15];
        }
        hex[2 * SHA256_DIGEST_LENGTH] = '\0';
    }
    const s2_status status = text.status;
    s2_buf_release(&text);
    return status;
}

/* --- carets ----------------------------------------------------------------------------------------- */

enum { CARET_BEFORE = 60, CARET_AFTER = 40 };

static size_t char_bytes(const char *text, size_t at, size_t end)
{
    const size_t n = s2_utf8_len(text + at, end - at);
    return n != 0 ? n : 1;
}

static void put_clean_char(s2_buf *buf, const char *text, size_t at, size_t end)
{
    const size_t n = s2_utf8_len(text + at, end - at);
    if (text[at] == '\t')
        s2_buf_puts(buf, " ");
    else if (n == 0 || s2_codepoint_is_hostile(s2_utf8_decode(text + at, n)))
        s2_buf_puts(buf, "?");
    else
        s2_buf_add(buf, text + at, n);
}

void s2_diag_print_caret(const s2_diag *diag, const char *text, size_t n_bytes, s2_buf *buf)
{
    if (diag->line < 1 || diag->col < 1)
        return;
    size_t begin = 0;
    for (int32_t line = 1; line < diag->line; line++) {
        const char *const newline = memchr(text + begin, '\n', n_bytes - begin);
        if (newline == NULL)
            return;
        begin = (size_t)(newline - text) + 1;
    }
    const char *const newline = n_bytes > begin ? memchr(text + begin, '\n', n_bytes - begin) : NULL;
    size_t end = newline != NULL ? (size_t)(newline - text) : n_bytes;
    if (end > begin && text[end - 1] == '\r')
        end--;
    if (begin == 0 && end >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        begin = 3;
    int32_t col = 1;
    s2_buf_puts(buf, "  ");
    for (size_t at = begin; at < end && col <= diag->col + CARET_AFTER;
         at += char_bytes(text, at, end), col++)
        if (col >= diag->col - CARET_BEFORE)
            put_clean_char(buf, text, at, end);
    const int32_t before = diag->col - 1 < CARET_BEFORE ? diag->col - 1 : CARET_BEFORE;
    s2_buf_printf(buf, "\n  %*s^\n", before, "");
}

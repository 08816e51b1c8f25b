/*
 * Canonical text of terms, bodies and lists of indices.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "pattern/canon.h"
#include "pattern/parse.h"

/* --- numbers and small parts ------------------------------------------------------------------- */

static void put_number(s2_buf *buf, int64_t value, bool tok)
{
    char digits[24];
    char *digit = digits + sizeof digits;
    if (tok)
        *--digit = 't';
    do {
        *--digit = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    s2_buf_add(buf, digit, (size_t)(digits + sizeof digits - digit));
}

static void put_field(s2_buf *buf, const char *word, int64_t value, bool tok)
{
    s2_buf_puts(buf, word);
    put_number(buf, value, tok);
}

void s2_quoted_print(const char *text, s2_buf *buf)
{
    s2_buf_puts(buf, "\"");
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\')
            s2_buf_puts(buf, "\\");
        s2_buf_add(buf, at, 1);
    }
    s2_buf_puts(buf, "\"");
}

static void put_offset(s2_buf *buf, const s2_offset_expr *offset)
{
    static const char *const words[] = {
#define OFFSET_WORD(word, coef) word,
        S2_OFFSET_TABLE(OFFSET_WORD)
#undef OFFSET_WORD
    };
    const int64_t coefs[] = {
#define OFFSET_COEF(word, field) offset->field,
        S2_OFFSET_TABLE(OFFSET_COEF)
#undef OFFSET_COEF
    };
    const char *join = " phase ";
    for (size_t part = 0; part < sizeof coefs / sizeof coefs[0]; part++) {
        if (coefs[part] == 0)
            continue;
        s2_buf_puts(buf, join);
        s2_buf_puts(buf, words[part]);
        if (coefs[part] != 1)
            put_field(buf, "*", coefs[part], false);
        join = "+";
    }
    if (offset->constant != 0)
        put_field(buf, join, offset->constant, false);
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
    s2_buf_puts(buf, *join);
    s2_buf_puts(buf, s2_when_word((s2_when_quantity)what));
    s2_buf_puts(buf, " ");
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

/* One condition if each side is bounded in only one unit, else one per unit. */
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

static void put_arguments(s2_buf *buf, const s2_term *term)
{
    switch (s2_term_row_of(term->kind)->args) {
    case S2_ARGS_NONE: break;
    case S2_ARGS_EXTENT: put_field(buf, " ", term->n, term->tok); break;
    case S2_ARGS_STRIDE:
        put_field(buf, " ", term->n, term->tok);
        if (term->width != 1)
            put_field(buf, " width ", term->width, term->tok);
        put_offset(buf, &term->offset);
        break;
    case S2_ARGS_LIST: put_list(buf, &term->list, term->tok); break;
    case S2_ARGS_DRAW:
        put_field(buf, " ", term->n, false);
        s2_buf_printf(buf, " seed %llu", (unsigned long long)term->seed);
        break;
    case S2_ARGS_FILE:
        s2_buf_puts(buf, " ");
        s2_quoted_print(term->mask->path, buf);
        s2_buf_printf(buf, " digest %s", term->mask->digest);
        break;
    case S2_ARGS_PAGES:
        put_field(buf, " ", term->n, false);
        put_field(buf, " page ", term->page_tok, false);
        break;
    case S2_ARGS_COUNT: put_field(buf, " ", term->n, false); break;
    }
}

void s2_term_print(const s2_term *term, s2_buf *buf)
{
    s2_buf_puts(buf, s2_term_word(term->kind));
    put_arguments(buf, term);
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

/* An item of a list: n indices from index[begin] on, spaced evenly. */
static void put_item(s2_buf *buf, const int32_t *index, int32_t begin, int32_t n, int32_t n_all)
{
    const int32_t first = index[begin], last = index[begin + n - 1];
    const int32_t step = n > 1 ? index[begin + 1] - first : 1;
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
static int32_t item_cost(const int32_t *index, int32_t begin, int32_t n, int32_t n_all)
{
    const int32_t first = index[begin], last = index[begin + n - 1];
    const int32_t step = n > 1 ? index[begin + 1] - first : 1;
    if (n == 1)
        return digits_of(first);
    if (step == 1)
        return digits_of(first) + 1 + digits_of(last);
    return digits_of(first) + 2 + (last < n_all - step ? digits_of(last + 1) : 0) + digits_of(step);
}

typedef struct list_plan {
    int32_t *longest; /* evenly spaced run that starts here, in indices */
    int32_t *cost;    /* of the best list of the indices from here on, including commas */
    int32_t *take;    /* indices in the first item of that list */
} list_plan;

/* The cheapest list among those that walk the indices once; ties go to the longer first item. */
static void plan_list(const int32_t *index, int32_t n, int32_t n_all, list_plan *plan)
{
    plan->cost[n] = 0;
    for (int32_t begin = n - 1; begin >= 0; begin--) {
        const bool extends =
            begin + 2 < n && index[begin + 2] - index[begin + 1] == index[begin + 1] - index[begin];
        plan->longest[begin] = begin + 1 == n ? 1 : extends ? plan->longest[begin + 1] + 1 : 2;
        const int32_t choices[] = {plan->longest[begin], plan->longest[begin] - 1, 1};
        plan->cost[begin] = INT32_MAX;
        for (int choice = 0; choice < 3; choice++) {
            const int32_t take = choices[choice];
            /* two indices with a gap are shorter as two items than with a step */
            if (take < 1 || (take == 2 && index[begin + 1] - index[begin] > 1))
                continue;
            const int32_t cost =
                item_cost(index, begin, take, n_all) + (begin + take < n) + plan->cost[begin + take];
            if (cost < plan->cost[begin]) {
                plan->cost[begin] = cost;
                plan->take[begin] = take;
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
    for (int32_t n_seen = 1, have = 0; n_seen < n_all; n_seen++) {
        while (have > 0 && member[n_seen] != member[have])
            have = border[have - 1];
        have += member[n_seen] == member[have];
        border[n_seen] = have;
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
    const size_t each = (size_t)s2_max_i32(n_all, n) + 1;
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

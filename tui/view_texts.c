/*
 * Texts of designs side by side: the words in which one differs from another are marked.
 */
#include "tui/view.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"

enum { MOST_WORDS = 400 };

typedef struct words {
    s2_buf text;
    int32_t n;
    const char *word[MOST_WORDS];
    int32_t len[MOST_WORDS];
    bool ends_line[MOST_WORDS];
    bool differs[MOST_WORDS];
} words;

static void split(const s2_pattern *pattern, words *out)
{
    *out = (words){0};
    s2_pattern_print(pattern, &out->text);
    s2_buf_add(&out->text, "", 1);
    const char *rest = out->text.status == S2_OK ? out->text.data : "";
    while (*(rest += strspn(rest, " \n")) != '\0' && out->n < MOST_WORDS) {
        out->word[out->n] = rest;
        out->len[out->n] = (int32_t)strcspn(rest, " \n");
        rest += out->len[out->n];
        out->ends_line[out->n++] = *rest != ' ';
    }
}

static bool same_word(const words *a, int32_t i, const words *b, int32_t j)
{
    return a->len[i] == b->len[j] && memcmp(a->word[i], b->word[j], (size_t)a->len[i]) == 0;
}

/* Mark the words of each that are not in the longest sequence of words common to both. */
static void mark_differences(words *a, words *b)
{
    const int32_t width = b->n + 1;
    int32_t *const longest = s2_calloc((size_t)(a->n + 1) * (size_t)width, sizeof *longest);
    if (longest == NULL)
        return;
    for (int32_t i = a->n - 1; i >= 0; i--)
        for (int32_t j = b->n - 1; j >= 0; j--) {
            const int32_t skip = s2_max_i32(longest[(i + 1) * width + j], longest[i * width + j + 1]);
            longest[i * width + j] = same_word(a, i, b, j) ? longest[(i + 1) * width + j + 1] + 1 : skip;
        }
    int32_t i = 0, j = 0;
    while (i < a->n || j < b->n)
        if (i < a->n && j < b->n && same_word(a, i, b, j)) {
            i++;
            j++;
        } else if (j == b->n || (i < a->n && longest[(i + 1) * width + j] >= longest[i * width + j + 1])) {
            a->differs[i++] = true;
        } else {
            b->differs[j++] = true;
        }
    s2_free(longest);
}

/* Keep only the lines with a difference. */
static void keep_changes(words *w)
{
    int32_t n = 0;
    for (int32_t begin = 0, end; begin < w->n; begin = end) {
        bool changed = false;
        for (end = begin; end < w->n && (end == begin || !w->ends_line[end - 1]); end++)
            changed = changed || w->differs[end];
        for (int32_t nth = begin; changed && nth < end; nth++, n++) {
            w->word[n] = w->word[nth];
            w->len[n] = w->len[nth];
            w->ends_line[n] = w->ends_line[nth];
            w->differs[n] = w->differs[nth];
        }
    }
    w->n = n;
}

/* Draw words in the columns of an area, with a '*' before lines that differ; returns the rows taken. */
static int32_t draw_words(const words *w, s2_canvas *canvas, s2_rect area)
{
    enum { MARK = 2 };
    int32_t row = 0, col = MARK;
    s2_canvas_clip(canvas, area);
    for (int32_t nth = 0; nth < w->n; nth++) {
        if (col > MARK && col + w->len[nth] > area.cols) {
            row++;
            col = MARK;
        }
        if (w->differs[nth])
            s2_canvas_glyph(canvas, area.row + row, area.col, '*', '*', S2_STYLE_KEY);
        col = s2_canvas_printf(canvas, area.row + row, area.col + col,
                               w->differs[nth] ? S2_STYLE_KEY : S2_STYLE_TEXT, "%.*s ", (int)w->len[nth],
                               w->word[nth]) -
              area.col;
        row += w->ends_line[nth] && nth + 1 < w->n;
        col = w->ends_line[nth] ? MARK : col;
    }
    if (row >= area.rows || w->n == MOST_WORDS)
        s2_more_draw(canvas, area);
    return row + 1;
}

int32_t s2_texts_draw(const s2_facts *facts, const s2_facts *const *others, int32_t n_others, bool changes,
                      s2_canvas *canvas, s2_rect area)
{
    words *const both = s2_calloc(2, sizeof *both);
    int32_t rows = 0;
    if (both == NULL || area.rows < 0)
        goto done;
    split(&facts->pattern, &both[0]);
    for (int32_t nth = 0; nth < n_others; nth++) {
        if (others[nth] == NULL || others[nth]->status != S2_OK)
            continue;
        split(&others[nth]->pattern, &both[1]);
        mark_differences(&both[0], &both[1]);
        s2_buf_release(&both[1].text);
    }
    if (changes)
        keep_changes(&both[0]);
    rows = draw_words(&both[0], canvas, area);
    s2_buf_release(&both[0].text);
done:
    s2_free(both);
    return rows;
}

#include "draw/chart.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "draw/place.h"

/* ---- axes -------------------------------------------------------------------------------------------- */

enum { MOST_TICKS = 16 };

typedef struct axis {
    double low, high;
    bool log;
    bool exact; /* ticks are numbers of something, not round ones: all of their digits are written */
    int32_t n_ticks;
    double tick[MOST_TICKS];
    const char *const *names; /* for the values 0, 1, ...; NULL: numbers */
} axis;

/* 1, 2 or 5 times a power of ten, at least `least`. */
static double nice_step(double least)
{
    const double power = pow(10, floor(log10(least)));
    const double part = least / power;
    return power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
}

static void add_tick(axis *scale, double value)
{
    if (scale->n_ticks < MOST_TICKS && value >= scale->low * (1 - 1e-9) && value <= scale->high * (1 + 1e-9))
        scale->tick[scale->n_ticks++] = value;
}

static void decimal_ticks(axis *scale)
{
    const double step = nice_step((scale->high - scale->low) / 5);
    scale->low = floor(scale->low / step) * step;
    scale->high = ceil(scale->high / step - 1e-9) * step;
    for (int n = 0; n < MOST_TICKS; n++)
        add_tick(scale, scale->low + n * step);
}

static void log_ticks(axis *scale)
{
    const bool few = log10(scale->high / scale->low) < 4;
    scale->low /= 1.1;
    scale->high *= 1.1;
    for (double power = pow(10, floor(log10(scale->low)));
         power <= scale->high && scale->n_ticks < MOST_TICKS; power *= 10)
        for (int part = 1; part <= 5; part += part == 1 ? 1 : 3)
            if (part == 1 || few)
                add_tick(scale, power * part);
}

static void whole_ticks(axis *scale)
{
    const double step = nice_step(fmax((scale->high - scale->low) / 8, 1));
    for (int n = 0; n < MOST_TICKS; n++)
        add_tick(scale, (ceil(scale->low / step) + n) * step);
}

static void binary_ticks(axis *scale)
{
    for (int n = 0; n <= 4; n++)
        add_tick(scale, scale->low + (scale->high - scale->low) * n / 4);
}

static axis named_axis(const s2_chart *chart)
{
    axis scale = {.low = -0.25, .high = chart->n_x_names - 0.75, .names = chart->x_names};
    for (int32_t n = 0; n < chart->n_x_names; n++)
        add_tick(&scale, n);
    return scale;
}

/* From the smallest to the largest value of all series; is_x: on the x axis. */
static axis axis_of(const s2_chart *chart, bool is_x)
{
    axis scale = {.low = INFINITY, .high = -INFINITY};
    if (is_x && chart->n_x_names > 0)
        return named_axis(chart);
    for (int32_t s = 0; s < chart->n_series; s++)
        for (int32_t n = 0; n < chart->series[s].n; n++) {
            const double value = is_x ? chart->series[s].x[n] : chart->series[s].y[n];
            scale.low = fmin(scale.low, value);
            scale.high = fmax(scale.high, value);
        }
    if (!(scale.low <= scale.high))
        scale.low = 0, scale.high = 1;
    if (!is_x && chart->from_zero)
        scale.low = fmin(scale.low, 0);
    if (scale.high - scale.low < 1e-12 * fmax(fabs(scale.high), 1)) {
        const double room = is_x && chart->x_whole ? 1 : scale.low != 0 ? fabs(scale.low) / 2 : 0.5;
        scale.low -=
            scale.low == 0 ? 0 : room; /* an amount is never shown on an axis with less than nothing */
        scale.high += room;
    }
    scale.exact = is_x && (chart->x_binary || chart->x_whole);
    scale.log = scale.low > 0 && scale.high / scale.low > 100 && !scale.exact;
    if (is_x && chart->x_binary)
        binary_ticks(&scale);
    else if (is_x && chart->x_whole)
        whole_ticks(&scale);
    else if (scale.log)
        log_ticks(&scale);
    else
        decimal_ticks(&scale);
    return scale;
}

/* 0 at the low end, 1 at the high one. */
static double share_of(const axis *scale, double value)
{
    return scale->log ? log(value / scale->low) / log(scale->high / scale->low)
                      : (value - scale->low) / (scale->high - scale->low);
}

/* As many digits as tell neighbours apart. */
static void tick_words(const axis *scale, double value, char *text, size_t cap)
{
    enum { USUAL_DIGITS = 6, MOST_DIGITS = 15 };
    const double largest = fmax(fabs(scale->low), fabs(scale->high)), step = (scale->high - scale->low) / 5;
    const double apart = ceil(log10(largest / step)) + 1;
    const int digits = scale->exact                            ? MOST_DIGITS
                       : scale->log || !(apart > USUAL_DIGITS) ? USUAL_DIGITS
                                                               : (int)fmin(apart, MOST_DIGITS);
    if (scale->names != NULL)
        s2_text_clean(text, cap, scale->names[lround(value)]);
    else
        snprintf(text, cap, "%s", s2_decimal(value, digits).text);
}

/* ---- SVG and PNG ------------------------------------------------------------------------------------- */

enum { LEFT = 96, TOP = 64, WIDE = 640, HIGH = 320, RIGHT = 40, BELOW = 66, LEGEND_ROW = 22, MARGIN = 10 };
enum { LEGEND_WORDS = 52 }; /* from the left end of the axis */

/* Where the parts of a chart are; what is long takes more lines. */
typedef struct layout {
    axis x, y;
    int32_t left;   /* of the axes: the labels of y have room */
    int32_t width;  /* of the page that it needs */
    int32_t above;  /* lines of the title and the label of y, more than one each */
    int32_t below;  /* lines of the label of x, more than one */
    int32_t legend; /* lines of all series */
} layout;

typedef struct drawing {
    s2_surface *to;
    s2_place place;
    layout in;
    int32_t top; /* of the axes */
} drawing;

static int32_t left_of(int32_t advance, const axis *y)
{
    char text[64];
    int32_t left = LEFT;
    for (int32_t t = 0; t < y->n_ticks; t++) {
        tick_words(y, y->tick[t], text, sizeof text);
        const int32_t needed = (int32_t)strlen(text) * advance + MARGIN + 2;
        left = s2_max_i32(needed, left);
    }
    return left;
}

static int32_t legend_lines(int32_t advance, const char *name)
{
    return s2_place_count(advance, WIDE + RIGHT - LEGEND_WORDS - MARGIN, name);
}

static layout layout_of(const s2_chart *chart, int32_t advance)
{
    layout in = {.x = axis_of(chart, true), .y = axis_of(chart, false)};
    in.left = left_of(advance, &in.y);
    in.width = in.left + WIDE + RIGHT;
    in.above = s2_place_count(advance, in.width - 2 * MARGIN, chart->title) +
               s2_place_count(advance, in.width - 2 * MARGIN, chart->y_label) - 2;
    in.below = s2_place_count(advance, WIDE, chart->x_label) - 1;
    for (int32_t s = 0; s < chart->n_series; s++)
        in.legend += legend_lines(advance, chart->series[s].name);
    return in;
}

static double pixel_x(const drawing *sheet, double value)
{
    return sheet->in.left + WIDE * share_of(&sheet->in.x, value);
}

static double pixel_y(const drawing *sheet, double value)
{
    return sheet->top + HIGH * (1 - share_of(&sheet->in.y, value));
}

static void draw_titles(const s2_chart *chart, drawing *sheet)
{
    const int32_t width = sheet->in.width - 2 * MARGIN, top = sheet->top - sheet->in.above * S2_PLACE_LINE;
    const int32_t y_lines = s2_place_count(sheet->to->advance, width, chart->y_label);
    s2_place_lines(&sheet->place, MARGIN, top - TOP + 8, S2_ANCHOR_BEGIN, width, chart->title);
    s2_place_lines(&sheet->place, MARGIN, sheet->top - 30 - (y_lines - 1) * S2_PLACE_LINE, S2_ANCHOR_BEGIN,
                   width, chart->y_label);
    s2_place_lines(&sheet->place, sheet->in.left + WIDE / 2, sheet->top + HIGH + 32, S2_ANCHOR_MIDDLE, WIDE,
                   chart->x_label);
}

/* On a logarithmic axis powers of ten take their room first. */
static bool is_main(const axis *scale, double value)
{
    return !scale->log || fabs(log10(value) - round(log10(value))) < 1e-9;
}

static void draw_ticks(drawing *sheet, const axis *of, bool is_x, bool mains)
{
    char text[64];
    for (int32_t t = 0; t < of->n_ticks; t++) {
        const double value = of->tick[t];
        if (is_main(of, value) != mains)
            continue;
        tick_words(of, value, text, sizeof text);
        const int32_t x = is_x ? (int32_t)lround(pixel_x(sheet, value)) : sheet->in.left;
        const int32_t y = is_x ? sheet->top : (int32_t)lround(pixel_y(sheet, value));
        s2_surface_box(sheet->to, x, y, is_x ? 1 : WIDE, is_x ? HIGH : 1, s2_pale);
        if (is_x)
            s2_surface_box(sheet->to, x, y + HIGH, 1, 6, s2_ink);
        else
            s2_surface_box(sheet->to, x - 6, y, 6, 1, s2_ink);
        (void)!s2_place_words(&sheet->place, is_x ? x : x - 10, is_x ? y + HIGH + 10 : y - 7,
                              is_x ? S2_ANCHOR_MIDDLE : S2_ANCHOR_END, text);
    }
}

static void draw_axes(drawing *sheet)
{
    for (int pass = 0; pass < 2; pass++) {
        draw_ticks(sheet, &sheet->in.x, true, pass == 0);
        draw_ticks(sheet, &sheet->in.y, false, pass == 0);
    }
    s2_surface_box(sheet->to, sheet->in.left, sheet->top, 1, HIGH, s2_ink);
    s2_surface_box(sheet->to, sheet->in.left, sheet->top + HIGH, WIDE, 1, s2_ink);
}

static s2_rgb series_colour(const s2_chart_series *series)
{
    static const s2_rgb behind = {170, 170, 170};
    return series->colour < 0 ? behind : s2_colours[series->colour % S2_N_COLOURS];
}

static s2_mark_shape series_shape(const s2_chart_series *series)
{
    return series->colour < 0 ? S2_SHAPE_DISC : (s2_mark_shape)(series->colour % 4);
}

typedef struct series_path {
    const drawing *sheet;
    const s2_chart_series *series;
    int32_t begin;
} series_path;

static void line_point(const void *user, int32_t n, double *x, double *y)
{
    const series_path *const path = user;
    *x = pixel_x(path->sheet, path->series->x[path->begin + n]);
    *y = pixel_y(path->sheet, path->series->y[path->begin + n]);
}

/* Two points per mark: itself, and the corner before the next one. */
static void step_point(const void *user, int32_t n, double *x, double *y)
{
    const series_path *const path = user;
    *x = pixel_x(path->sheet, path->series->x[(n + 1) / 2]);
    *y = pixel_y(path->sheet, path->series->y[n / 2]);
}

static void draw_steps(const s2_chart_series *series, drawing *sheet)
{
    const series_path path = {sheet, series, 0};
    if (series->n > 1)
        s2_surface_curve(sheet->to, 2 * series->n - 1, step_point, &path, 2, series->dashed ? 7 : 0,
                         series_colour(series));
}

/* Draw a curve between gaps; a single point becomes a mark. */
static void draw_lines(const s2_chart_series *series, drawing *sheet)
{
    for (int32_t begin = 0, end; begin < series->n; begin = end + 1) {
        for (end = begin; end < series->n && !isnan(series->y[end]);)
            end++;
        const series_path path = {sheet, series, begin};
        if (end - begin > 1)
            s2_surface_curve(sheet->to, end - begin, line_point, &path, 3, series->dashed ? 7 : 0,
                             series_colour(series));
        else if (end > begin)
            s2_surface_mark(sheet->to, pixel_x(sheet, series->x[begin]), pixel_y(sheet, series->y[begin]), 9,
                            series_shape(series), series_colour(series));
    }
}

/* A label goes to the first place around its mark where it covers no text; if there is none, it is left out. */
static void draw_label(drawing *sheet, double x, double y, const char *text)
{
    enum { ASIDE = 8, OVER = 20, UNDER = 6 };
    const int32_t col = (int32_t)x, row = (int32_t)y, width = s2_surface_words_width(sheet->to, text);
    const bool fits_right = col + ASIDE + width <= sheet->to->width, fits_left = col - ASIDE - width >= 0;
    if ((fits_right && s2_place_words(&sheet->place, col + ASIDE, row - OVER, S2_ANCHOR_BEGIN, text)) ||
        (fits_left && s2_place_words(&sheet->place, col - ASIDE, row - OVER, S2_ANCHOR_END, text)) ||
        (fits_right && s2_place_words(&sheet->place, col + ASIDE, row + UNDER, S2_ANCHOR_BEGIN, text)))
        return;
    if (fits_left)
        (void)!s2_place_words(&sheet->place, col - ASIDE, row + UNDER, S2_ANCHOR_END, text);
}

static void draw_labels(const s2_chart_series *series, drawing *sheet)
{
    for (int32_t n = series->n - 1; series->labels != NULL && n >= 0; n--)
        if (series->labels[n][0] != '\0')
            draw_label(sheet, pixel_x(sheet, series->x[n]), pixel_y(sheet, series->y[n]), series->labels[n]);
}

static void draw_series(const s2_chart_series *series, drawing *sheet)
{
    const int32_t size = series->style == S2_CHART_POINTS ? 5 : 9;
    if (series->style == S2_CHART_LINE)
        draw_lines(series, sheet);
    if (series->style == S2_CHART_STEPS)
        draw_steps(series, sheet);
    for (int32_t n = 0; series->style != S2_CHART_LINE && n < series->n; n++)
        s2_surface_mark(sheet->to, pixel_x(sheet, series->x[n]), pixel_y(sheet, series->y[n]), size,
                        series_shape(series), series_colour(series));
}

static void draw_legend(const s2_chart *chart, drawing *sheet)
{
    const int32_t left = sheet->in.left;
    int32_t y = sheet->top + HIGH + BELOW + sheet->in.below * S2_PLACE_LINE;
    for (int32_t s = 0; s < chart->n_series; s++) {
        const s2_chart_series *const series = &chart->series[s];
        if (series->style != S2_CHART_POINTS)
            s2_surface_line(sheet->to, left, y + 7, left + 40, y + 7, 3, series->dashed ? 7 : 0,
                            series_colour(series));
        if (series->style != S2_CHART_LINE)
            s2_surface_mark(sheet->to, left + 20, y + 7, series->style == S2_CHART_POINTS ? 5 : 9,
                            series_shape(series), series_colour(series));
        s2_place_lines(&sheet->place, left + LEGEND_WORDS, y, S2_ANCHOR_BEGIN,
                       WIDE + RIGHT - LEGEND_WORDS - MARGIN, series->name);
        y += legend_lines(sheet->to->advance, series->name) * LEGEND_ROW;
    }
}

static bool is_empty(const s2_chart *chart)
{
    int64_t n = 0;
    for (int32_t s = 0; s < chart->n_series; s++)
        n += chart->series[s].n;
    return n == 0;
}

static int32_t height_of(const layout *in)
{
    return TOP + HIGH + BELOW + (in->above + in->below) * S2_PLACE_LINE +
           (in->legend > 0 ? in->legend : 1) * LEGEND_ROW + 12;
}

static void draw_chart(const s2_chart *chart, s2_surface *to, int32_t top, const layout *in)
{
    drawing sheet = {.to = to, .place = {.to = to}, .in = *in, .top = top + TOP + in->above * S2_PLACE_LINE};
    draw_titles(chart, &sheet);
    draw_axes(&sheet);
    if (is_empty(chart))
        s2_surface_words(to, in->left + WIDE / 2, sheet.top + HIGH / 2, S2_ANCHOR_MIDDLE, "nothing to show");
    for (int32_t s = 0; s < chart->n_series; s++)
        draw_series(&chart->series[s], &sheet);
    draw_legend(chart, &sheet);
    for (int32_t s = 0; s < chart->n_series; s++)
        draw_labels(&chart->series[s], &sheet);
}

static s2_status draw(const s2_chart *charts, int32_t n_charts, bool png, s2_buf *buf)
{
    s2_surface to;
    int32_t height = 0, width = 0;
    for (int32_t n = 0; n < n_charts; n++) {
        const layout in = layout_of(&charts[n], s2_surface_advance(png));
        height += height_of(&in);
        width = s2_max_i32(in.width, width);
    }
    S2_TRY(s2_surface_open(&to, png, width, height, buf));
    for (int32_t n = 0, top = 0; n < n_charts; n++) {
        const layout in = layout_of(&charts[n], to.advance);
        draw_chart(&charts[n], &to, top, &in);
        top += height_of(&in);
    }
    return s2_surface_close(&to);
}

s2_status s2_chart_svg(const s2_chart *charts, int32_t n_charts, s2_buf *buf)
{
    return draw(charts, n_charts, false, buf);
}

s2_status s2_chart_png(const s2_chart *charts, int32_t n_charts, s2_buf *buf)
{
    return draw(charts, n_charts, true, buf);
}

/* ---- text -------------------------------------------------------------------------------------------- */

enum { TEXT_COLS = 64, TEXT_ROWS = 20 };

static char series_letter(int32_t s)
{
    return "o*+x#@%&"[s % 8];
}

static void text_point(char grid[TEXT_ROWS][TEXT_COLS + 1], const axis *x, const axis *y, double px,
                       double py, char letter)
{
    if (isnan(py))
        return;
    const int32_t col = (int32_t)lround(share_of(x, px) * (TEXT_COLS - 1));
    const int32_t row = (int32_t)lround((1 - share_of(y, py)) * (TEXT_ROWS - 1));
    if (col >= 0 && col < TEXT_COLS && row >= 0 && row < TEXT_ROWS)
        grid[row][col] = letter;
}

static void text_series(char grid[TEXT_ROWS][TEXT_COLS + 1], const axis *x, const axis *y,
                        const s2_chart_series *series, char letter)
{
    for (int32_t n = 0; n < series->n; n++) {
        if (n + 1 < series->n && series->style == S2_CHART_LINE)
            for (int part = 0; part < TEXT_COLS; part++)
                text_point(grid, x, y, series->x[n] + (series->x[n + 1] - series->x[n]) * part / TEXT_COLS,
                           series->y[n] + (series->y[n + 1] - series->y[n]) * part / TEXT_COLS, letter);
        text_point(grid, x, y, series->x[n], series->y[n], letter);
    }
}

void s2_chart_text(const s2_chart *chart, s2_buf *buf)
{
    const axis x = axis_of(chart, true), y = axis_of(chart, false);
    char grid[TEXT_ROWS][TEXT_COLS + 1], title[320], low[48], high[48];
    for (int row = 0; row < TEXT_ROWS; row++) {
        memset(grid[row], ' ', TEXT_COLS);
        grid[row][TEXT_COLS] = '\0';
    }
    for (int32_t s = 0; s < chart->n_series; s++)
        text_series(grid, &x, &y, &chart->series[s], series_letter(s));
    s2_text_clean(title, sizeof title, chart->title);
    s2_buf_printf(buf, "%s\n%s%s\n", title, chart->y_label, y.log ? ", logarithmic" : "");
    tick_words(&y, y.low, low, sizeof low);
    tick_words(&y, y.high, high, sizeof high);
    for (int row = 0; row < TEXT_ROWS; row++)
        s2_buf_printf(buf, "%10s |%s\n", row == 0 ? high : row == TEXT_ROWS - 1 ? low : "", grid[row]);
    tick_words(&x, x.low, low, sizeof low);
    tick_words(&x, x.high, high, sizeof high);
    s2_buf_printf(buf, "%10s +", "");
    for (int col = 0; col < TEXT_COLS; col++)
        s2_buf_puts(buf, "-");
    s2_buf_printf(buf, "\n%11s %-*s%s\n%12s%s%s\n", "", TEXT_COLS - (int)strlen(high), low, high, "",
                  chart->x_label, x.log ? ", logarithmic" : "");
    for (int32_t s = 0; s < chart->n_series; s++) {
        s2_text_clean(title, sizeof title, chart->series[s].name);
        s2_buf_printf(buf, "%12s%c %s\n", "", series_letter(s), title);
    }
    if (is_empty(chart))
        s2_buf_puts(buf, "nothing to show\n");
}

/*
 * draw/chart.h - curves and points with axes, units and a legend: the KV timeline and the Pareto front.
 *
 * A chart is plain data; it is written as SVG, PNG or text. Series differ in shape or dashes as well as in
 * colour. Axes are linear, or logarithmic if the values span more than two decades.
 * Titles and names are folded to the page; a label of a tick or point that has no room is left out.
 *
 * Ownership: the chart borrows names and values. Threads: none shared.
 */
#ifndef S2_DRAW_CHART_H
#define S2_DRAW_CHART_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

typedef enum s2_chart_style {
    S2_CHART_LINE,
    S2_CHART_STEPS,  /* marks joined by steps: right, then down */
    S2_CHART_POINTS, /* small marks */
} s2_chart_style;

typedef struct s2_chart_series {
    const char *name; /* in the legend */
    s2_chart_style style;
    int32_t colour; /* an index into s2_colours (draw/surface.h); -1: pale, behind the others */
    bool dashed;
    int32_t n;
    const double *x;           /* finite */
    const double *y;           /* in a line, NAN is a gap */
    const char *const *labels; /* words next to marks, NULL: none */
} s2_chart_series;

enum { S2_CHART_SERIES = 8 };

typedef struct s2_chart {
    char title[512];
    char x_label[96]; /* with the unit */
    char y_label[96];
    bool x_binary;              /* ticks at quarters of the largest value, not at decimal steps */
    bool x_whole;               /* x counts something: no ticks between whole numbers */
    bool from_zero;             /* the y axis begins at 0 */
    const char *const *x_names; /* ticks of x = 0, 1, ... in words, at most 16 */
    int32_t n_x_names;          /* 0: x has numbers */
    s2_chart_series series[S2_CHART_SERIES];
    int32_t n_series;
} s2_chart;

/* Charts on one page, one below the other. A chart without points has axes and says so. S2_ENOMEM, S2_EIO. */
s2_status s2_chart_svg(const s2_chart *charts, int32_t n_charts, s2_buf *buf) S2_MUST_CHECK;
s2_status s2_chart_png(const s2_chart *charts, int32_t n_charts, s2_buf *buf) S2_MUST_CHECK;
/* For a terminal, 78 columns wide; each series is drawn as a letter. */
void s2_chart_text(const s2_chart *chart, s2_buf *buf);

#endif /* S2_DRAW_CHART_H */

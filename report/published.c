/* Predictions next to published figures, as JSON and as tables. */
#include "report/report.h"

#include "sim/units.h"

void s2_report_public_json(const s2_public *published, s2_buf *buf)
{
    s2_json_begin(buf, '{');
    s2_json_key_str(buf, "schema", "s2public/1");
    s2_json_key_begin(buf, "attention", '[');
    for (int32_t g = 0; g < published->n_groups; g++) {
        const s2_public_group *const group = &published->groups[g];
        s2_json_begin(buf, '{');
        s2_json_key_str(buf, "name", group->name);
        s2_json_key_bool(buf, "measured", group->measured);
        s2_json_key_int(buf, "rows", group->n);
        s2_json_key_num(buf, "median_ratio", s2_rounded(group->median_ratio));
        s2_json_key_num(buf, "mape", s2_rounded(group->mape));
        s2_json_key_num(buf, "median_error", s2_rounded(group->median_error));
        s2_json_key_num(buf, "p90", s2_rounded(group->p90));
        s2_json_end(buf, '}');
    }
    s2_json_end(buf, ']');
    s2_json_key_begin(buf, "end_to_end", '[');
    for (int32_t f = 0; f < published->n_figures; f++) {
        const s2_public_figure *const figure = &published->figures[f];
        s2_json_begin(buf, '{');
        s2_json_key_str(buf, "name", figure->name);
        s2_json_key_num(buf, "published", figure->published);
        s2_json_key_num(buf, "predicted", s2_rounded(figure->predicted));
        s2_json_key_num(buf, "time_ratio", s2_rounded(figure->ratio));
        s2_json_key_str(buf, "source", figure->source);
        s2_json_end(buf, '}');
    }
    s2_json_end(buf, ']');
    s2_json_key_num(buf, "median_error", s2_rounded(published->median_error));
    s2_json_key_num(buf, "mean_error", s2_rounded(published->mean_error));
    s2_json_end(buf, '}');
    s2_buf_puts(buf, "\n");
}

void s2_report_public_text(const s2_public *published, s2_buf *buf)
{
    s2_buf_puts(buf, "\ncompared with other kernels, which write K and V to the cache too "
                     "(docs/results/public/attention.csv)\n");
    s2_buf_printf(buf, "  %-44s %6s %7s %8s %8s %8s\n", "", "rows", "ratio", "mean", "median", "p90");
    for (int32_t g = 0; g < published->n_groups; g++) {
        const s2_public_group *const group = &published->groups[g];
        s2_buf_printf(buf, "  %-44s %6d %7.2f %6.1f %% %6.1f %% %6.1f %%%s\n", group->name, group->n,
                      group->median_ratio, group->mape, group->median_error, group->p90,
                      group->measured ? "" : "  guessed");
    }
    s2_buf_puts(buf, "\ncompared with published figures of whole models (time predicted / published)\n");
    for (int32_t f = 0; f < published->n_figures; f++) {
        const s2_public_figure *const figure = &published->figures[f];
        s2_buf_printf(buf, "  %5.2f  %9s %9s  %s  [%s]\n", figure->ratio,
                      s2_decimal(figure->predicted, 4).text, s2_decimal(figure->published, 4).text,
                      figure->name, figure->source);
    }
    s2_buf_printf(buf, "  %d figures: median error %.1f %%, mean %.1f %%\n", published->n_figures,
                  published->median_error, published->mean_error);
}

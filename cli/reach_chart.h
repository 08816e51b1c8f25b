/*
 * cli/reach_chart.h - the measures of reach/ as the commands ask for them, and as charts.
 */
#ifndef S2_CLI_REACH_CHART_H
#define S2_CLI_REACH_CHART_H

#include "cli/cli.h"
#include "draw/chart.h"
#include "reach/measures.h"

/* S2_EXIT_OK, or the exit code after a message. Results live in the arena of the command. */
s2_exit s2_reach_measure(s2_cli *cli, const char *operand, const s2_pattern *pattern, s2_phase phase,
                         int64_t n_tok, s2_measures *out);

enum { S2_REACH_CHARTS = 3 };

/*
 * What s2 reach prints, as charts: the receptive field by layer, then heads and flow by distance. Their values
 * live in the arena. S2_ENOMEM.
 */
s2_status s2_reach_charts(s2_arena *arena, const char *name, const s2_measures *measures,
                          s2_chart charts[S2_REACH_CHARTS]) S2_MUST_CHECK;

#endif /* S2_CLI_REACH_CHART_H */

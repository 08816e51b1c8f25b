#include "sim/experts.h"

#include <math.h>

enum { CODE_EXPERTS = 702 };

/* Counts with a larger mean are normal, near enough. */
#define SMALL_MEAN 200.0

/* Sum over x >= 0 of the probability that the largest of n exceeds x. */
static double largest_of_few(int32_t n, double trials, double p)
{
    double chance = pow(1 - p, trials), below = chance, sum = 1 - pow(below, n);
    for (double x = 1; x < trials && (x < trials * p || 1 - below > 1e-12); x++) {
        chance *= (trials - x + 1) / x * p / (1 - p);
        below = fmin(below + chance, 1);
        sum += 1 - pow(below, n);
    }
    return sum;
}

/* The expected largest of n standard normal numbers: the integral of 1 - F^n, less that of F^n below 0. */
static double largest_normal(int32_t n)
{
    const double step = 1.0 / 64, far = 9;
    double sum = 0;
    for (double x = step / 2; x < far; x += step)
        sum += 1 - pow(0.5 * erfc(-x * M_SQRT1_2), n) - pow(0.5 * erfc(x * M_SQRT1_2), n);
    return sum * step;
}

/* The expected largest of n independent counts, each of `trials` trials that succeed with probability p. */
static double largest_of(int32_t n, double trials, double p)
{
    const double mean = trials * p;
    if (n == 1 || p >= 1 || p <= 0)
        return mean;
    if (mean < SMALL_MEAN)
        return largest_of_few(n, trials, p);
    return fmin(mean + largest_normal(n) * sqrt(mean * (1 - p)), trials);
}

s2_expert_price s2_experts_deal(const s2_sim_options *options, double tokens)
{
    const s2_net *const net = options->net;
    const int32_t n = options->n_expert_ranks;
    const double picked = (double)net->n_active / net->n_experts, each = (double)net->n_experts / n,
                 mean = tokens * net->n_active;
    const s2_expert_price dealt = {
        .n_each = n > 1 ? net->n_experts / n : 0,
        .picks = largest_of(n, n * mean, 1.0 / n),
        .read = largest_of(n, each, 1 - pow(1 - picked, n * tokens)),
    };
    s2_expert_price out = dealt;
    out.imbalance = n > 1 && mean > 0 ? dealt.picks / mean : 1;
    return out;
}

s2_status s2_experts_check(const s2_sim_options *options, s2_diag *diag)
{
    const s2_net *const net = options->net;
    const int32_t n = options->n_expert_ranks;
    if (net == NULL || net->n_experts == 1)
        return s2_diag_set(diag, S2_EINVAL, CODE_EXPERTS, 0, 0,
                           "--ep deals out experts: it needs a model that has some (--model)");
    if (net->n_experts % n != 0)
        return s2_diag_set(diag, S2_EINVAL, CODE_EXPERTS, 0, 0,
                           "%d experts cannot be dealt to %d GPUs evenly", net->n_experts, n);
    if (options->n_shards % n != 0 && (options->phase == S2_TRAIN || options->n_shards > 1))
        return s2_diag_set(diag, S2_EINVAL, CODE_EXPERTS, 0, 0,
                           "replicas share the experts: with --ep %d training needs --dp %d or a multiple of "
                           "it, not --dp %d",
                           n, n, options->n_shards);
    return S2_OK;
}

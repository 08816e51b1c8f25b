/*
 * bench_steps - what a decode step from a cache costs the host: lists, places, and no attention.
 *
 * usage: bench_steps [PATTERN [SEQUENCES [TOKENS [STEPS]]]]
 * Microseconds of processor time a layer and step: for lists that are made anew, stage by stage; then for lists that
 * follow, of which all layers that read alike share one. No keys are stored: the cache says where they would lie.
 * Sequences are of one length, then each a few tokens shorter than the one before.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/follow.h"
#include "pattern/parse.h"

enum { LIMIT_SEQS = 256, WANT_PARTS = 264, UNEVEN_TOK = 37 };

typedef struct s2_bench_steps {
    s2_arena arena;
    s2_pattern pattern;
    s2_cache *cache;
    int32_t numbers[LIMIT_SEQS];
    s2_plan_seq seqs[LIMIT_SEQS];
    int32_t n_seqs;
    double plan_us, lists_us, layout_us, follow_us, longest_us;
    int64_t n_changed;
} s2_bench_steps;

static double now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static s2_status fill(s2_bench_steps *bench, int32_t n_tok, int32_t uneven_tok, s2_diag *why)
{
    s2_cache_options options = s2_cache_options_default(&bench->pattern);
    S2_TRY(s2_cache_create(&bench->pattern, &options, &bench->cache, why));
    for (int32_t seq = 0; seq < bench->n_seqs; seq++) {
        S2_TRY(s2_cache_open(bench->cache, &bench->numbers[seq]));
        S2_TRY(s2_cache_append(bench->cache, bench->numbers[seq], n_tok - seq * uneven_tok));
    }
    return S2_OK;
}

static s2_status grow(s2_bench_steps *bench)
{
    for (int32_t seq = 0; seq < bench->n_seqs; seq++) {
        S2_TRY(s2_cache_append(bench->cache, bench->numbers[seq], 1));
        bench->seqs[seq] = (s2_plan_seq){1, s2_cache_n_tok(bench->cache, bench->numbers[seq])};
    }
    return S2_OK;
}

static s2_attn_problem problem_of(const s2_bench_steps *bench, const s2_plan *plan, const s2_cached *cached)
{
    return (s2_attn_problem){.pass = S2_PASS_DECODE,
                             .plan = plan,
                             .n_seqs = bench->n_seqs,
                             .n_heads = bench->pattern.n_heads,
                             .n_kv_heads = bench->pattern.n_kv_heads,
                             .head_dim = bench->pattern.head_dim,
                             .k = {.tok = bench->pattern.head_dim},
                             .v = {.tok = bench->pattern.head_dim},
                             .cached = cached};
}

static s2_status step_anew(s2_bench_steps *bench, s2_diag *why)
{
    s2_arena arena = {0};
    s2_plan plan;
    s2_decode_plan lists;
    s2_decode_layout layout;
    const s2_plan_options cut = s2_kernel_cut(&s2_traits_decode, bench->pattern.head_dim);
    const s2_cached cached = {bench->cache, bench->numbers};
    const s2_attn_problem problem = problem_of(bench, &plan, &cached);
    const double begin = now_us();
    S2_TRY(
        s2_plan_build(&arena, &bench->pattern, S2_DECODE, 0, bench->seqs, bench->n_seqs, &cut, &plan, why));
    const double planned = now_us();
    S2_TRY(s2_decode_plan_build(&arena, &plan, NULL, WANT_PARTS, &lists, why));
    const double listed = now_us();
    S2_TRY(s2_decode_lay_out(&arena, &problem, WANT_PARTS, &layout, why));
    const double laid_out = now_us();
    bench->plan_us += planned - begin;
    bench->lists_us += listed - planned;
    bench->layout_us += laid_out - listed;
    s2_arena_release(&arena);
    return S2_OK;
}

static s2_status measure_anew(s2_bench_steps *bench, int32_t n_tok, int32_t uneven_tok, int32_t n_steps,
                              s2_diag *why)
{
    bench->plan_us = bench->lists_us = bench->layout_us = 0.0;
    S2_TRY(fill(bench, n_tok, uneven_tok, why));
    for (int32_t step = 0; step < n_steps; step++) {
        S2_TRY(grow(bench));
        S2_TRY(step_anew(bench, why));
    }
    s2_cache_destroy(&bench->cache);
    return S2_OK;
}

/* Opened before the first step, and again where a list outgrew its room: that is timed too. */
static s2_status step_follow(s2_bench_steps *bench, s2_follow *follow, s2_plan *plan, s2_diag *why)
{
    const s2_cached cached = {bench->cache, bench->numbers};
    const s2_attn_problem problem = problem_of(bench, plan, &cached);
    const double begin = now_us();
    for (plan->layer = 0; plan->layer < bench->pattern.n_layers; plan->layer++) {
        const s2_follow_layer *layer = NULL;
        s2_status status = s2_follow_take(follow, &problem, &layer, why);
        if (status == S2_EUNSUPPORTED) {
            s2_follow_close(follow);
            S2_TRY(s2_follow_open(&problem, WANT_PARTS, follow, why));
            status = s2_follow_take(follow, &problem, &layer, why);
        }
        S2_TRY(status);
        bench->n_changed += layer->n_changed < 0 ? follow->lists.plan.n_slabs : layer->n_changed;
    }
    const double took = (now_us() - begin) / bench->pattern.n_layers;
    bench->follow_us += took;
    bench->longest_us = took > bench->longest_us ? took : bench->longest_us;
    return S2_OK;
}

static s2_status measure_follow(s2_bench_steps *bench, int32_t n_tok, int32_t uneven_tok, int32_t n_steps,
                                s2_diag *why)
{
    s2_follow follow = {0};
    s2_plan plan;
    const s2_plan_options cut = s2_kernel_cut(&s2_traits_decode, bench->pattern.head_dim);
    S2_TRY(fill(bench, n_tok, uneven_tok, why));
    S2_TRY(grow(bench));
    S2_TRY(s2_plan_build_classes(&bench->arena, &bench->pattern, S2_DECODE, 0, bench->seqs, bench->n_seqs,
                                 &cut, &plan, why));
    const s2_cached cached = {bench->cache, bench->numbers};
    const s2_attn_problem problem = problem_of(bench, &plan, &cached);
    S2_TRY(s2_follow_open(&problem, WANT_PARTS, &follow, why));
    S2_TRY(step_follow(bench, &follow, &plan, why));
    bench->follow_us = bench->longest_us = 0.0;
    bench->n_changed = 0;
    for (int32_t step = 0; step < n_steps; step++) {
        S2_TRY(grow(bench));
        S2_TRY(step_follow(bench, &follow, &plan, why));
    }
    s2_follow_close(&follow);
    s2_cache_destroy(&bench->cache);
    return S2_OK;
}

static s2_status measure(s2_bench_steps *bench, int32_t n_tok, int32_t uneven_tok, int32_t n_steps,
                         s2_diag *why)
{
    const int32_t n_anew = n_steps < 8 ? n_steps : 8;
    S2_TRY(measure_anew(bench, n_tok, uneven_tok, n_anew, why));
    S2_TRY(measure_follow(bench, n_tok, uneven_tok, n_steps, why));
    printf("%d sequences of %d tokens%s\n", bench->n_seqs, n_tok, uneven_tok > 0 ? " and fewer" : "");
    printf("  anew      plan %8.1f  lists %8.1f  places and rows %8.1f us\n", bench->plan_us / n_anew,
           bench->lists_us / n_anew, (bench->layout_us - bench->lists_us) / n_anew);
    printf("  followed  mean %8.1f  longest step %8.1f us, %.0f slabs of a layer changed\n",
           bench->follow_us / n_steps, bench->longest_us,
           (double)bench->n_changed / n_steps / bench->pattern.n_layers);
    return S2_OK;
}

int main(int argc, char **argv)
{
    const char *const text = argc > 1 ? argv[1]
                                      : "layers 32; heads 32; kv-heads 8; head-dim 128; block 64; layers "
                                        "all: local 16 | stride 32 phase head+1";
    const int32_t n_tok = argc > 3 ? atoi(argv[3]) : 32768, n_steps = argc > 4 ? atoi(argv[4]) : 130;
    s2_bench_steps bench = {.n_seqs = argc > 2 ? atoi(argv[2]) : 28};
    s2_diag why = {0};
    if (bench.n_seqs < 1 || bench.n_seqs > LIMIT_SEQS || n_tok <= bench.n_seqs * UNEVEN_TOK || n_steps < 1) {
        (void)fprintf(stderr, "bench_steps: sequences 1..%d, tokens above 37 a sequence, steps\n",
                      LIMIT_SEQS);
        return 2;
    }
    s2_status status = s2_pattern_parse(&bench.arena, text, strlen(text), NULL, &bench.pattern, &why);
    if (status == S2_OK)
        status = measure(&bench, n_tok, 0, n_steps, &why);
    if (status == S2_OK)
        status = measure(&bench, n_tok, UNEVEN_TOK, n_steps, &why);
    if (status != S2_OK)
        (void)fprintf(stderr, "bench_steps: %s\n", why.msg);
    s2_arena_release(&bench.arena);
    return status == S2_OK ? 0 : 1;
}

#include "tests/s2test.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "kernels/follow.h"
#include "kernels/select.h"
#include "pattern/dense.h"
#include "pattern/parse.h"
#include "tests/s2gen.h"

typedef struct s2_case {
    s2_arena arena;
    s2_pattern *pattern;
    s2_plan plan;
    s2_plan_seq seqs[4];
    int32_t n_seqs;
    int64_t cuts[4 * 3];
} s2_case;

static void draw_case(s2_gen *gen, s2_case *test)
{
    static const int32_t blocks[] = {1, 4, 16, 32, 64, 128};
    const int32_t n_kv = (int32_t)s2_gen_in(gen, 1, 3), group = (int32_t)s2_gen_in(gen, 1, 4);
    test->pattern = s2_gen_pattern(gen, &test->arena, n_kv * group, n_kv, 64, blocks[s2_gen_in(gen, 0, 5)]);
    test->n_seqs = (int32_t)s2_gen_in(gen, 1, 4);
    for (int32_t seq = 0; seq < test->n_seqs; seq++) {
        const int32_t k_tok = (int32_t)s2_gen_in(gen, 1, 600);
        const int32_t most = k_tok < 16 ? k_tok : 16;
        test->seqs[seq] = (s2_plan_seq){(int32_t)s2_gen_in(gen, 1, most), k_tok};
        if (seq > 0 && s2_gen_in(gen, 0, 1) == 1)
            test->seqs[seq] = test->seqs[seq - 1];
    }
    for (int32_t list = 0; list < test->n_seqs * n_kv; list++)
        test->cuts[list] = s2_gen_in(gen, 0, 700);
    s2_plan_options options = s2_plan_options_default();
    options.tile_tok = 16;
    options.key_tok = 64;
    s2_diag why = {0};
    assert_int_equal(s2_plan_build(&test->arena, test->pattern, S2_DECODE, 0, test->seqs, test->n_seqs,
                                   &options, &test->plan, &why),
                     S2_OK);
}

/* How many slabs of the list give the key to the row; more than one would count it twice. */
static int32_t times_read(const s2_decode_plan *plan, const s2_decode_list *list, int32_t row, int32_t k_tok)
{
    int32_t n = 0;
    for (int32_t at = list->slab_begin; at < list->slab_end; at++) {
        const s2_decode_slab *const slab = &plan->slabs[at];
        const int32_t key = k_tok - slab->k_tok;
        if (key < 0 || key >= S2_DECODE_SLAB_TOK)
            continue;
        const uint32_t bits =
            slab->mask < 0 ? 0xffffu : plan->bits[(int64_t)slab->mask * plan->row_cap + row];
        assert_int_equal(bits & ~(uint32_t)slab->live, 0);
        n += (int32_t)(bits >> key & 1u);
    }
    return n;
}

static void check_list(const s2_case *test, const s2_decode_plan *plan, const s2_decode_list *list)
{
    const s2_plan_seq lens = test->seqs[list->seq];
    assert_int_equal(list->n_rows, lens.q_tok * plan->group);
    for (int32_t row = 0; row < list->n_rows; row++) {
        const int32_t head = list->kv_head * plan->group + row % plan->group;
        const int32_t q_tok = lens.k_tok - lens.q_tok + row / plan->group;
        for (int32_t k_tok = 0; k_tok < lens.k_tok; k_tok++)
            if (times_read(plan, list, row, k_tok) !=
                s2_pattern_reads(test->pattern, S2_DECODE, 0, head, lens.k_tok, q_tok, k_tok))
                fail_msg("sequence %d, head %d, query %d, key %d", list->seq, head, q_tok, k_tok);
    }
}

/* No slab has keys on both sides of its list's cut. */
static void check_cuts(const s2_case *test, const s2_decode_plan *plan)
{
    for (int32_t at = 0; at < plan->n_lists; at++)
        for (int32_t slab = plan->lists[at].slab_begin; slab < plan->lists[at].slab_end; slab++) {
            const int64_t before = test->cuts[at] - plan->slabs[slab].k_tok;
            if (before > 0 && before < S2_DECODE_SLAB_TOK) {
                const uint32_t low = (1u << before) - 1u, live = plan->slabs[slab].live;
                assert_true((live & low) == 0 || (live & ~low) == 0);
            }
        }
}

static void slabs_give_each_row_exactly_the_keys_that_it_reads(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(3);
    const int64_t n_cases = s2_test_cases(150);
    for (int64_t number = 0; number < n_cases; number++) {
        s2_gen gen = {.rng = {seed + (uint64_t)number}, .causal = true, .arithmetic = number % 2 == 0};
        s2_case test = {0};
        s2_decode_plan plan;
        draw_case(&gen, &test);
        assert_int_equal(s2_decode_plan_build(&test.arena, &test.plan, number % 3 == 0 ? test.cuts : NULL,
                                              (int32_t)s2_gen_in(&gen, 1, 40), &plan, NULL),
                         S2_OK);
        int64_t n_live_keys = 0;
        int32_t n_masks = 0;
        for (int32_t list = 0; list < plan.n_lists; list++)
            check_list(&test, &plan, &plan.lists[list]);
        for (int32_t slab = 0; slab < plan.n_slabs; slab++) {
            n_live_keys += __builtin_popcount(plan.slabs[slab].live);
            if (plan.slabs[slab].mask >= 0)
                assert_int_equal(plan.slabs[slab].mask, n_masks++);
        }
        assert_int_equal(plan.n_live_keys, n_live_keys);
        assert_int_equal(plan.n_masks, n_masks);
        if (number % 3 == 0)
            check_cuts(&test, &plan);
        s2_arena_release(&test.arena);
    }
}

/* The longest part of the best cut, when a part has slabs of one list and none is cut into less than the least. */
static int32_t best_length(const s2_decode_plan *plan, int32_t want_parts)
{
    for (int32_t length = S2_DECODE_LEAST_SLABS;; length++) {
        int64_t n_parts = 0;
        for (int32_t list = 0; list < plan->n_lists; list++)
            n_parts += s2_ceil_div(plan->lists[list].slab_end - plan->lists[list].slab_begin, length);
        if (n_parts <= want_parts)
            return length;
    }
}

/* Never more parts than wanted. Parts of one list differ by a slab, and none is longer than in the best cut. */
static void check_equal(const s2_decode_plan *plan, int32_t want_parts)
{
    const bool by_list = 2 * plan->n_lists <= want_parts;
    const int32_t least = plan->n_slabs / plan->n_parts, best = by_list ? best_length(plan, want_parts) : 0;
    assert_true(plan->n_parts <= want_parts);
    for (int32_t part = 0; part < plan->n_parts; part++) {
        const int32_t n = plan->parts[part].slab_end - plan->parts[part].slab_begin;
        const s2_decode_list *const list = &plan->lists[plan->parts[part].first_list];
        if (!by_list) {
            assert_in_range(n, least, least + 1);
            continue;
        }
        const int32_t own = (list->slab_end - list->slab_begin) / list->n_parts;
        assert_in_range(n, own, own + 1);
        assert_true(plan->parts[part].slab_end <= list->slab_end);
        assert_true(n <= best);
    }
}

/* Every slab in one part, and every list knows its parts. */
static void check_parts(const s2_decode_plan *plan)
{
    int32_t at = 0;
    for (int32_t part = 0; part < plan->n_parts; part++) {
        const s2_decode_part own = plan->parts[part];
        assert_int_equal(own.slab_begin, at);
        at = own.slab_end;
        if (own.slab_begin < own.slab_end) {
            const s2_decode_list *const list = &plan->lists[own.first_list];
            assert_true(list->slab_begin <= own.slab_begin && own.slab_begin < list->slab_end);
        }
    }
    assert_int_equal(at, plan->n_slabs);
    for (int32_t list = 0; list < plan->n_lists; list++) {
        const s2_decode_list *const own = &plan->lists[list];
        int32_t n = 0;
        for (int32_t part = 0; part < plan->n_parts && own->slab_begin < own->slab_end; part++)
            if (plan->parts[part].slab_begin < own->slab_end &&
                own->slab_begin < plan->parts[part].slab_end) {
                assert_int_equal(part, own->first_part + n);
                n++;
            }
        assert_int_equal(n, own->n_parts);
    }
}

static void parts_are_equal_and_lists_know_theirs(void **state)
{
    (void)state;
    s2_gen gen = {.rng = {s2_test_seed(11)}, .causal = true};
    const int64_t n_cases = s2_test_cases(600);
    for (int64_t number = 0; number < n_cases; number++) {
        s2_arena arena = {0};
        s2_decode_plan plan = {.n_lists = (int32_t)s2_gen_in(&gen, 1, 40)};
        plan.lists = S2_NEW(&arena, s2_decode_list, plan.n_lists);
        for (int32_t list = 0; list < plan.n_lists; list++) {
            plan.lists[list].slab_begin = plan.n_slabs;
            const int64_t most = number % 2 == 0 || s2_gen_in(&gen, 0, 5) == 0 ? 300 : 6; /* few long ones */
            plan.n_slabs += s2_gen_in(&gen, 0, 3) == 0 ? 0 : (int32_t)s2_gen_in(&gen, 1, most);
            plan.lists[list].slab_end = plan.n_slabs;
        }
        if (plan.n_slabs > 0) {
            const int32_t want_parts = (int32_t)s2_gen_in(&gen, 1, 264);
            assert_int_equal(s2_decode_plan_split(&arena, want_parts, &plan), S2_OK);
            check_parts(&plan);
            check_equal(&plan, want_parts);
        }
        s2_arena_release(&arena);
    }
}

/* Parts that a cut between lists needs where none may cost more than `most`. */
static int64_t parts_of_cost(const s2_decode_plan *plan, int64_t most, int32_t list_slabs)
{
    int64_t n = 0, left = 0;
    for (int32_t list = 0; list < plan->n_lists; list++) {
        const int64_t n_slabs = plan->lists[list].slab_end - plan->lists[list].slab_begin;
        if (n_slabs > 0 && n_slabs + list_slabs > most)
            return INT64_MAX;
        if (n_slabs > 0 && n_slabs + list_slabs > left) {
            n++;
            left = most;
        }
        left -= n_slabs > 0 ? n_slabs + list_slabs : 0;
    }
    return n;
}

/* No list is cut, and no cut that needs no more parts has a part which costs less than the one that costs most here. */
static void whole_lists_are_shared_as_evenly_as_they_can_be(void **state)
{
    (void)state;
    s2_gen gen = {.rng = {s2_test_seed(13)}, .causal = true};
    for (int64_t number = 0; number < s2_test_cases(600); number++) {
        s2_arena arena = {0};
        s2_decode_plan plan = {.n_lists = (int32_t)s2_gen_in(&gen, 1, 300)};
        const int32_t list_slabs = (int32_t)s2_gen_in(&gen, 1, 12), want = (int32_t)s2_gen_in(&gen, 1, 264);
        plan.lists = S2_NEW(&arena, s2_decode_list, plan.n_lists);
        for (int32_t list = 0; list < plan.n_lists; list++) {
            plan.lists[list].slab_begin = plan.n_slabs;
            plan.n_slabs +=
                s2_gen_in(&gen, 0, 4) == 0 ? 0 : (int32_t)s2_gen_in(&gen, 1, number % 2 == 0 ? 6 : 90);
            plan.lists[list].slab_end = plan.n_slabs;
        }
        assert_int_equal(s2_decode_plan_split_whole(&arena, want, list_slabs, &plan), S2_OK);
        assert_in_range(plan.n_parts, 1, want);
        check_parts(&plan);
        int64_t most = 0;
        for (int32_t part = 0; part < plan.n_parts; part++) {
            int64_t cost = plan.parts[part].slab_end - plan.parts[part].slab_begin;
            for (int32_t list = 0; list < plan.n_lists; list++)
                cost += plan.lists[list].n_parts > 0 && plan.lists[list].first_part == part ? list_slabs : 0;
            most = s2_max_i64(most, cost);
        }
        for (int32_t list = 0; list < plan.n_lists; list++)
            assert_int_equal(plan.lists[list].n_parts,
                             plan.lists[list].slab_begin < plan.lists[list].slab_end);
        if (plan.n_slabs > 0)
            assert_true(parts_of_cost(&plan, most, list_slabs) <= want &&
                        parts_of_cost(&plan, most - 1, list_slabs) > want);
        s2_arena_release(&arena);
    }
}

/* The two parts that meet in a list, and two lists that meet in a part, never share a slot. */
static void results_of_parts_have_slots_of_their_own(void **state)
{
    (void)state;
    s2_gen gen = {.rng = {s2_test_seed(12)}, .causal = true};
    for (int64_t number = 0; number < s2_test_cases(600); number++) {
        s2_arena arena = {0};
        uint8_t used[2 * 264] = {0};
        s2_decode_plan plan = {.n_lists = 30};
        plan.lists = S2_NEW(&arena, s2_decode_list, plan.n_lists);
        for (int32_t list = 0; list < plan.n_lists; list++) {
            plan.lists[list].slab_begin = plan.n_slabs;
            plan.n_slabs += (int32_t)s2_gen_in(&gen, 1, 90);
            plan.lists[list].slab_end = plan.n_slabs;
        }
        assert_int_equal(s2_decode_plan_split(&arena, (int32_t)s2_gen_in(&gen, 2, 264), &plan), S2_OK);
        for (int32_t list = 0; list < plan.n_lists; list++) {
            const s2_decode_list *const own = &plan.lists[list];
            for (int32_t part = own->first_part; own->n_parts > 1 && part < own->first_part + own->n_parts;
                 part++)
                assert_int_equal(used[s2_decode_slot(own, part)]++, 0);
        }
        s2_arena_release(&arena);
    }
}

static bool add_up(void *user, size_t n_bytes)
{
    *(int64_t *)user += (int64_t)n_bytes;
    return true;
}

/* With the steps that they take lists are made, copied and followed, with a step less they are not. */
static void lists_end_where_their_work_does(void **state)
{
    (void)state;
    for (int64_t number = 0; number < s2_test_cases(60); number++) {
        s2_gen gen = {
            .rng = {s2_test_seed(31) + (uint64_t)number}, .causal = true, .arithmetic = number % 2 == 0};
        s2_case test = {0};
        draw_case(&gen, &test);
        const int64_t *const cuts = number % 3 == 0 ? test.cuts : NULL;
        for (int32_t follows = 0; follows < 2; follows++) {
            const int64_t plenty = INT64_C(1) << 40;
            int64_t left = plenty, taken = 0;
            test.plan.options.work_left = &left;
            for (int32_t less = 0; less < 2; less++) {
                s2_decode_plan plan = {.n_slabs = -7};
                s2_decode_follow follow = {0};
                const s2_status status =
                    follows == 1 ? s2_decode_follow_open(&test.plan, 8, &follow, NULL)
                                 : s2_decode_plan_build(&test.arena, &test.plan, cuts, 8, &plan, NULL);
                assert_int_equal(status, less == 0 ? S2_OK : S2_ELIMIT);
                assert_true(less == 0 || follows == 1 || plan.n_slabs == -7);
                s2_decode_follow_close(&follow);
                taken = less == 0 ? plenty - left : taken;
                assert_true(taken > 0);
                left = taken - 1;
            }
        }
        s2_arena_release(&test.arena);
    }
}

/* Readers of a list: heads of one class at one query token read alike. Adds what their rows take to *row_steps. */
static int64_t count_readers(const s2_plan *plan, const s2_decode_list *list, int32_t group,
                             int64_t *row_steps)
{
    const s2_plan_seq lens = plan->seqs[list->seq];
    int64_t n = 0, left = INT64_C(1) << 40, n_runs, cap = 0;
    s2_run *runs = NULL;
    for (int32_t q_tok = 0; q_tok < lens.q_tok; q_tok++)
        for (int32_t head = list->kv_head * group; head < (list->kv_head + 1) * group; head++) {
            int32_t first = list->kv_head * group;
            while (plan->class_of[first] != plan->class_of[head])
                first++;
            n += first == head;
            if (first == head)
                assert_int_equal(s2_view_row_whole(&plan->classes[plan->class_of[head]].view,
                                                   lens.k_tok - lens.q_tok + q_tok, lens.k_tok, &left, &runs,
                                                   &cap, &n_runs),
                                 S2_OK);
        }
    s2_free(runs);
    *row_steps += (INT64_C(1) << 40) - left;
    return n;
}

/* A sequence like the one before it has its lists copied. */
static bool is_copied(const s2_plan *plan, const int64_t *cuts, int32_t seq)
{
    return cuts == NULL && seq > 0 && plan->seqs[seq].q_tok == plan->seqs[seq - 1].q_tok &&
           plan->seqs[seq].k_tok == plan->seqs[seq - 1].k_tok;
}

/* What the slabs of a plan take: 8 steps and two for each reader, when copied 8; and one for each row of a mask. */
static int64_t slab_steps(const s2_plan *plan, const int64_t *cuts, const s2_decode_plan *decode,
                          int64_t *others)
{
    int64_t steps = 0;
    for (int32_t list_no = 0; list_no < decode->n_lists; list_no++) {
        const s2_decode_list *const list = &decode->lists[list_no];
        const bool copied = is_copied(plan, cuts, list->seq);
        const int64_t n_readers = count_readers(plan, list, decode->group, others);
        *others += 8 + decode->row_cap / 4 + list->n_rows * n_readers;
        for (int32_t slab = list->slab_begin; slab < list->slab_end; slab++) {
            const bool goes_on =
                slab > list->slab_begin && decode->slabs[slab].k_tok == decode->slabs[slab - 1].k_tok;
            steps += copied ? 8 : goes_on ? 0 : 8 + 2 * n_readers;
            steps += decode->slabs[slab].mask >= 0 ? decode->row_cap : 0;
        }
    }
    return steps;
}

/* No less, and not many times more, so that a limit of steps is one of time. */
static void slabs_take_the_steps_that_they_are_said_to_take(void **state)
{
    (void)state;
    int64_t n_copied = 0, n_slabs = 0;
    for (int64_t number = 0; number < s2_test_cases(200); number++) {
        s2_gen gen = {
            .rng = {s2_test_seed(33) + (uint64_t)number}, .causal = true, .arithmetic = number % 2 == 0};
        s2_case test = {0};
        draw_case(&gen, &test);
        const int64_t *const cuts = number % 3 == 0 ? test.cuts : NULL;
        const int64_t plenty = INT64_C(1) << 40;
        int64_t left = plenty, others = 0;
        test.plan.options.work_left = &left;
        s2_decode_plan plan;
        s2_decode_follow follow = {0};
        assert_int_equal(s2_decode_plan_build(&test.arena, &test.plan, cuts, 8, &plan, NULL), S2_OK);
        const int64_t steps = slab_steps(&test.plan, cuts, &plan, &others), taken = plenty - left;
        assert_in_range(taken, steps, 2 * (steps + others));
        for (int32_t list = 0; list < plan.n_lists; list++)
            n_copied += is_copied(&test.plan, cuts, plan.lists[list].seq) &&
                        plan.lists[list].slab_end > plan.lists[list].slab_begin;
        n_slabs += plan.n_slabs;
        left = plenty;
        assert_int_equal(s2_decode_follow_open(&test.plan, 8, &follow, NULL), S2_OK);
        assert_true(plenty - left >= follow.plan.n_slabs * (int64_t)(8 + plan.row_cap));
        s2_decode_follow_close(&follow);
        s2_arena_release(&test.arena);
    }
    assert_true(s2_test_sampled() || (n_slabs > 1000 && n_copied > 10));
}

/*
 * A step is some nanoseconds and a few bytes: whatever the numbers of heads, rows, sequences and keys are, what a limit
 * allows is little, and what is larger is refused before memory is asked for.
 */
static void large_steps_end_within_their_work_and_memory(void **state)
{
    static const char *const texts[] = {
        "heads 1; block 64; layers all: dense",
        "heads 4096; kv-heads 1; block 16; layers all: dense",
        "heads 4096; kv-heads 4096; block 64; layers all: local 4 | stride 8 phase head",
        "heads 4096; kv-heads 1; block 16; layers all: local 20t | stride 61 phase head",
        "heads 64; kv-heads 8; block 1; layers all: local 100 | stride 2 phase head",
        "heads 8; kv-heads 8; block 16; layers all: random 900 seed 3",
        "heads 512; kv-heads 8; block 1024; layers all: local 1t | stride 65536 | chunk 3",
    };
    enum { MOST_SEQS = 65536, WORK = 1 << 24, BYTES_OF_STEP = 8 };
    static s2_plan_seq seqs[MOST_SEQS];
    (void)state;
    s2_rng rng = {s2_test_seed(32)};
    for (size_t nth = 0; nth < sizeof texts / sizeof *texts * 12; nth++) {
        s2_arena arena = {0};
        s2_pattern pattern;
        s2_plan plan;
        s2_decode_plan decode;
        s2_decode_follow follow = {0};
        int64_t left = WORK, asked = 0;
        const char *const text = texts[nth % (sizeof texts / sizeof *texts)];
        const int32_t n_seqs = 1 << s2_rng_below(&rng, 17), most_tok = 1 << (4 + s2_rng_below(&rng, 21));
        const bool alike = s2_rng_below(&rng, 2) == 0;
        for (int32_t seq = 0; seq < n_seqs; seq++)
            seqs[seq] =
                (s2_plan_seq){nth % 2 == 0 ? 1 : 16, alike ? most_tok : most_tok - seq % (most_tok - 15)};
        s2_plan_options options = s2_plan_options_default();
        options.tile_tok = 16;
        options.work_left = &left;
        assert_int_equal(s2_pattern_parse(&arena, text, strlen(text), NULL, &pattern, NULL), S2_OK);
        s2_alloc_set_hook(add_up, &asked);
        s2_status status =
            s2_plan_build_classes(&arena, &pattern, S2_DECODE, 0, seqs, n_seqs, &options, &plan, NULL);
        if (status == S2_OK)
            status = s2_rng_below(&rng, 2) == 0
                         ? s2_decode_plan_build(&arena, &plan, NULL, 264, &decode, NULL)
                         : s2_decode_follow_open(&plan, 264, &follow, NULL);
        s2_alloc_set_hook(NULL, NULL);
        assert_true(status == S2_OK || status == S2_ELIMIT);
        assert_in_range(asked, 0, (int64_t)WORK * BYTES_OF_STEP);
        s2_decode_follow_close(&follow);
        s2_arena_release(&arena);
    }
}

static void more_than_sixteen_queries_are_refused(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_plan plan;
    s2_decode_plan decode;
    s2_diag why = {0};
    const char *const text = "heads 2; layers all: local 2";
    const s2_plan_seq seq = {17, 40};
    const s2_plan_options options = s2_plan_options_default();
    assert_int_equal(s2_pattern_parse(&arena, text, strlen(text), NULL, &pattern, &why), S2_OK);
    assert_int_equal(s2_plan_build(&arena, &pattern, S2_DECODE, 0, &seq, 1, &options, &plan, &why), S2_OK);
    assert_int_equal(s2_decode_plan_build(&arena, &plan, NULL, 8, &decode, &why), S2_EUNSUPPORTED);
    assert_true(strstr(why.msg, "16") != NULL);
    s2_arena_release(&arena);
}

/* A cached dense layer of 200 tokens in pages of 32, and a problem that selects 3 pages of page_tok. */
static s2_status select_from_cache(int32_t page_tok, s2_diag *why)
{
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_plan plan;
    s2_cache *cache = NULL;
    s2_decode_layout layout;
    s2_selection selection;
    int32_t seq = 0;
    const char *const text = "heads 2; kv-heads 1; head-dim 32; block 16; layers all: dense";
    const s2_plan_seq lens = {1, 200};
    const s2_cache_options cache_options = {.page_tok = 32, .layer_end = 1};
    s2_plan_options options = s2_plan_options_default();
    options.tile_tok = 16;
    s2_status status = s2_pattern_parse(&arena, text, strlen(text), NULL, &pattern, why);
    if (status == S2_OK)
        status = s2_plan_build(&arena, &pattern, S2_DECODE, 0, &lens, 1, &options, &plan, why);
    if (status == S2_OK)
        status = s2_cache_create(&pattern, &cache_options, &cache, why);
    if (status == S2_OK)
        status = s2_cache_open(cache, &seq);
    if (status == S2_OK)
        status = s2_cache_append(cache, seq, 200);
    const s2_cached cached = {cache, &seq};
    const s2_attn_problem problem = {.pass = S2_PASS_DECODE,
                                     .plan = &plan,
                                     .n_seqs = 1,
                                     .n_heads = 2,
                                     .n_kv_heads = 1,
                                     .head_dim = 32,
                                     .k = {.tok = 32},
                                     .v = {.tok = 32},
                                     .cached = &cached,
                                     .select_pages = 3,
                                     .select_page_tok = page_tok};
    if (status == S2_OK)
        status = s2_decode_lay_out(&arena, &problem, 4, &layout, why);
    if (status == S2_OK)
        status = s2_selection_build(&arena, &problem, 4, &layout, &selection, why);
    if (status == S2_OK) {
        assert_int_equal(selection.n_pages[0], 200 / page_tok + 1);
        assert_int_equal(layout.plan.n_live_keys, 2 * page_tok + 200 % page_tok);
    }
    s2_cache_destroy(&cache);
    s2_arena_release(&arena);
    return status;
}

static void a_selection_reads_its_pages_and_the_newest_one(void **state)
{
    (void)state;
    s2_diag why = {0};
    assert_int_equal(select_from_cache(32, &why), S2_OK);
    assert_int_equal(select_from_cache(16, &why), S2_OK);
    assert_int_equal(select_from_cache(64, &why), S2_EUNSUPPORTED);
    assert_true(strstr(why.msg, "cached") != NULL);
    assert_int_equal(select_from_cache(24, &why), S2_EUNSUPPORTED);
}

static void every_allocation_of_a_layout_may_fail(void **state)
{
    (void)state;
    s2_status status = S2_ENOMEM;
    int64_t n = 0;
    for (; status != S2_OK; n++) {
        int64_t left = n;
        s2_alloc_set_hook(s2_test_fail_one, &left);
        status = select_from_cache(32, NULL);
        s2_alloc_set_hook(NULL, NULL);
        assert_true(status == S2_OK || status == S2_ENOMEM);
        assert_true(n < 500);
    }
    assert_true(n > 10);
}

/* ------------------------------------------------------------------ lists that follow */

/* A copy that takes what is said to have changed, and nothing else. */
typedef struct s2_copy {
    s2_decode_slab slabs[40000];
    uint16_t bits[40000 * 64];
} s2_copy;

static void take_slab(const s2_decode_follow *follow, int32_t slab, s2_copy *copy)
{
    const size_t n = (size_t)follow->plan.row_cap;
    copy->slabs[slab] = follow->plan.slabs[slab];
    memcpy(copy->bits + (size_t)slab * n, follow->plan.bits + (size_t)slab * n, n * sizeof *copy->bits);
}

static void check_same_slab(const s2_decode_follow *follow, int32_t slab, const s2_decode_plan *fresh,
                            const s2_decode_slab *want)
{
    const s2_decode_slab *const have = &follow->plan.slabs[slab];
    assert_int_equal(have->k_tok, want->k_tok);
    assert_int_equal(have->live, want->live);
    assert_int_equal(have->mask, want->mask < 0 ? -1 : slab);
    for (int32_t row = 0; row < fresh->row_cap && want->mask >= 0; row++)
        assert_int_equal(follow->plan.bits[(int64_t)slab * fresh->row_cap + row],
                         fresh->bits[(int64_t)want->mask * fresh->row_cap + row]);
}

static void check_empty_slab(const s2_decode_follow *follow, int32_t slab)
{
    const int32_t row_cap = follow->plan.row_cap;
    assert_int_equal(follow->plan.slabs[slab].live, 0);
    assert_int_equal(follow->plan.slabs[slab].mask, slab);
    for (int32_t row = 0; row < row_cap; row++)
        assert_int_equal(follow->plan.bits[(int64_t)slab * row_cap + row], 0);
}

/* Element for element what is built anew at these lengths, and the copy too. */
static void check_follow(const s2_case *test, const s2_decode_follow *follow, const s2_copy *copy)
{
    s2_arena arena = {0};
    s2_decode_plan fresh;
    assert_int_equal(s2_decode_plan_build(&arena, &test->plan, NULL, 7, &fresh, NULL), S2_OK);
    assert_int_equal(follow->plan.n_lists, fresh.n_lists);
    assert_int_equal(follow->plan.row_cap, fresh.row_cap);
    assert_int_equal(follow->plan.n_live_keys, fresh.n_live_keys);
    for (int32_t at = 0; at < fresh.n_lists; at++) {
        const s2_decode_list *const have = &follow->plan.lists[at], *const want = &fresh.lists[at];
        assert_int_equal(follow->n_used[at], want->slab_end - want->slab_begin);
        assert_int_equal(have->n_rows, want->n_rows);
        for (int32_t slab = have->slab_begin; slab < have->slab_end; slab++) {
            const int32_t n = slab - have->slab_begin;
            if (n < follow->n_used[at])
                check_same_slab(follow, slab, &fresh, &fresh.slabs[want->slab_begin + n]);
            else
                check_empty_slab(follow, slab);
        }
    }
    assert_memory_equal(copy->slabs, follow->slabs, (size_t)follow->plan.n_slabs * sizeof *copy->slabs);
    assert_memory_equal(copy->bits, follow->bits,
                        (size_t)follow->plan.n_slabs * (size_t)fresh.row_cap * sizeof *copy->bits);
    s2_arena_release(&arena);
}

/* Some grow, by a token or by many, and now and then another sequence takes a place. */
static void draw_growth(s2_gen *gen, s2_case *test)
{
    for (int32_t seq = 0; seq < test->n_seqs; seq++) {
        const int64_t kind = s2_gen_in(gen, 0, 19);
        if (kind < 12)
            test->seqs[seq].k_tok += 1;
        else if (kind < 15)
            test->seqs[seq].k_tok += (int32_t)s2_gen_in(gen, 1, 90);
        else if (kind == 19)
            test->seqs[seq].k_tok = (int32_t)s2_gen_in(gen, test->seqs[seq].q_tok, 600);
    }
}

static void open_follow(const s2_case *test, s2_gen *gen, s2_decode_follow *follow, s2_copy *copy)
{
    assert_int_equal(s2_decode_follow_open(&test->plan, (int32_t)s2_gen_in(gen, 1, 40), follow, NULL), S2_OK);
    assert_in_range(follow->plan.n_slabs, 1, 40000);
    assert_in_range(follow->plan.row_cap, 1, 64);
    for (int32_t slab = 0; slab < follow->plan.n_slabs; slab++)
        take_slab(follow, slab, copy);
    check_parts(&follow->plan);
}

static void lists_that_follow_are_those_that_are_made_anew(void **state)
{
    (void)state;
    static s2_copy copy;
    const uint64_t seed = s2_test_seed(21);
    int64_t n_steps = 0, n_outgrown = 0, n_changed = 0, n_slabs = 0;
    for (int64_t number = 0; number < s2_test_cases(60); number++) {
        s2_gen gen = {.rng = {seed + (uint64_t)number}, .causal = true, .arithmetic = number % 2 == 0};
        s2_case test = {0};
        s2_decode_follow follow = {0};
        draw_case(&gen, &test);
        for (int32_t seq = 0; seq < test.n_seqs && number % 3 != 0; seq++)
            test.seqs[seq].q_tok = 1;
        const s2_plan_options options = test.plan.options;
        assert_int_equal(s2_plan_build_classes(&test.arena, test.pattern, S2_DECODE, 0, test.seqs,
                                               test.n_seqs, &options, &test.plan, NULL),
                         S2_OK);
        open_follow(&test, &gen, &follow, &copy);
        for (int32_t step = 0; step < 40; step++, n_steps++) {
            draw_growth(&gen, &test);
            const s2_status status = s2_decode_follow_step(&follow, &test.plan);
            if (status != S2_OK) {
                assert_int_equal(status, S2_EUNSUPPORTED);
                s2_decode_follow_close(&follow);
                open_follow(&test, &gen, &follow, &copy);
                n_outgrown++;
            }
            for (int32_t at = 0; at < follow.n_changed; at++)
                take_slab(&follow, follow.changed[at], &copy);
            for (int32_t at = 1; at < follow.n_changed; at++)
                assert_true(follow.changed[at - 1] < follow.changed[at]);
            n_changed += follow.n_changed;
            n_slabs += follow.plan.n_slabs;
            check_follow(&test, &follow, &copy);
        }
        s2_decode_follow_close(&follow);
        s2_arena_release(&test.arena);
    }
    assert_true(n_outgrown * 3 < n_steps);
    assert_true(n_changed * 2 < n_slabs);
}

/* ------------------------------------------------------------------ places that follow */

enum { FOLLOWED_SEQS = 3, FOLLOWED_LAYERS = 3 };

typedef struct s2_followed {
    s2_arena arena;
    s2_pattern pattern;
    s2_plan plan;
    s2_plan_seq lens[FOLLOWED_SEQS];
    int32_t numbers[FOLLOWED_SEQS];
    s2_cache *cache;
    s2_cached cached;
    s2_attn_problem problem;
    s2_follow follow;
    s2_decode_place copies[FOLLOWED_LAYERS][20000]; /* what was told to have changed, and nothing else */
} s2_followed;

static void open_followed(s2_gen *gen, s2_followed *at)
{
    static const char *const rules[] = {"local 3 | stride 4 phase head", "local 50t | sink 1", "dense",
                                        "local 2 | columns 1,3 | stride 2 phase kv",
                                        "stride 3 phase head+1 | local 1"};
    char text[200];
    s2_cache_options options;
    (void)snprintf(text, sizeof text, "layers 3; heads 4; kv-heads 2; head-dim 16; block %d; layers all: %s",
                   s2_gen_in(gen, 0, 1) == 0 ? 16 : 64, rules[s2_gen_in(gen, 0, 4)]);
    assert_int_equal(s2_pattern_parse(&at->arena, text, strlen(text), NULL, &at->pattern, NULL), S2_OK);
    options = s2_cache_options_default(&at->pattern);
    options.layout = s2_gen_in(gen, 0, 2) == 0 ? S2_CACHE_SHARED_PAGES : S2_CACHE_HEAD_PAGES;
    options.page_tok = (int32_t)s2_gen_in(gen, 1, 3) * 16;
    options.n_queries = 2;
    assert_int_equal(s2_cache_create(&at->pattern, &options, &at->cache, NULL), S2_OK);
    for (int32_t seq = 0; seq < FOLLOWED_SEQS; seq++) {
        assert_int_equal(s2_cache_open(at->cache, &at->numbers[seq]), S2_OK);
        assert_int_equal(s2_cache_append(at->cache, at->numbers[seq], (int32_t)s2_gen_in(gen, 2, 300)),
                         S2_OK);
        at->lens[seq] = (s2_plan_seq){1 + seq % 2, s2_cache_n_tok(at->cache, at->numbers[seq])};
    }
    const s2_plan_options cut = s2_kernel_cut(&s2_traits_decode, 16);
    assert_int_equal(s2_plan_build_classes(&at->arena, &at->pattern, S2_DECODE, 0, at->lens, FOLLOWED_SEQS,
                                           &cut, &at->plan, NULL),
                     S2_OK);
    at->cached = (s2_cached){at->cache, at->numbers};
    at->problem = (s2_attn_problem){.pass = S2_PASS_DECODE,
                                    .plan = &at->plan,
                                    .n_seqs = FOLLOWED_SEQS,
                                    .n_heads = 4,
                                    .n_kv_heads = 2,
                                    .head_dim = 16,
                                    .k = {.tok = 16},
                                    .v = {.tok = 24},
                                    .cached = &at->cached};
    assert_true(s2_follow_fits(&at->problem));
    assert_int_equal(s2_follow_open(&at->problem, 9, &at->follow, NULL), S2_OK);
}

/* A token for most; at times many, a fork that makes the next write copy a page, or another sequence of that number. */
static void change_cache(s2_gen *gen, s2_followed *at)
{
    for (int32_t seq = 0; seq < FOLLOWED_SEQS; seq++) {
        const int64_t kind = s2_gen_in(gen, 0, 39);
        int32_t child = -1;
        if (kind == 0) {
            s2_cache_close(at->cache, at->numbers[seq]);
            assert_int_equal(s2_cache_open(at->cache, &at->numbers[seq]), S2_OK);
            assert_int_equal(s2_cache_append(at->cache, at->numbers[seq], 2), S2_OK);
        }
        if (kind == 1)
            assert_int_equal(s2_cache_fork(at->cache, at->numbers[seq], &child), S2_OK);
        if (kind < 34)
            assert_int_equal(
                s2_cache_append(at->cache, at->numbers[seq], kind < 30 ? 1 : (int32_t)s2_gen_in(gen, 1, 80)),
                S2_OK);
        if (child >= 0)
            s2_cache_close(at->cache, child);
        at->lens[seq].k_tok = s2_cache_n_tok(at->cache, at->numbers[seq]);
    }
}

/* Places of one layer are those of a layout that is made anew, and so is the copy. */
static void check_places(s2_followed *at, const s2_follow_layer *layer)
{
    const s2_decode_plan *const plan = &at->follow.lists.plan;
    s2_decode_place *const copy = at->copies[at->plan.layer];
    s2_arena arena = {0};
    s2_decode_layout fresh;
    assert_in_range(plan->n_slabs, 1, 20000);
    if (layer->n_changed < 0)
        memcpy(copy, layer->places, (size_t)plan->n_slabs * sizeof *copy);
    for (int32_t n = 0; n < layer->n_changed; n++)
        copy[layer->changed[n]] = layer->places[layer->changed[n]];
    assert_int_equal(s2_decode_lay_out(&arena, &at->problem, 9, &fresh, NULL), S2_OK);
    assert_true(fresh.all_on);
    for (int32_t list = 0; list < plan->n_lists; list++) {
        assert_int_equal(at->follow.lists.n_used[list],
                         fresh.plan.lists[list].slab_end - fresh.plan.lists[list].slab_begin);
        for (int32_t n = 0; n < at->follow.lists.n_used[list]; n++) {
            const s2_decode_place *const have = &copy[plan->lists[list].slab_begin + n];
            const s2_decode_place *const want = &fresh.places[fresh.plan.lists[list].slab_begin + n];
            assert_int_equal(have->k_at, want->k_at);
            assert_int_equal(have->v_at, want->v_at);
            assert_int_equal(have->fresh, want->fresh);
        }
    }
    s2_arena_release(&arena);
}

static void places_that_follow_are_those_of_the_cache(void **state)
{
    (void)state;
    static s2_followed at;
    const uint64_t seed = s2_test_seed(31);
    for (int64_t number = 0; number < s2_test_cases(30); number++) {
        s2_gen gen = {.rng = {seed + (uint64_t)number}};
        int32_t n_told = 0, n_slabs = 0;
        memset(&at, 0, sizeof at);
        open_followed(&gen, &at);
        for (int32_t step = 0; step < 150; step++) {
            const s2_follow_layer *layer = NULL;
            change_cache(&gen, &at);
            at.plan.layer =
                step % 5 == 4 ? (int32_t)s2_gen_in(&gen, 0, 2) : step % 7 == 0; /* some miss steps */
            const bool knew = s2_follow_knows(&at.follow, &at.problem);
            const s2_status status = s2_follow_take(&at.follow, &at.problem, &layer, NULL);
            assert_true(!knew || (status == S2_OK && layer->n_changed == 0));
            if (status != S2_OK) {
                assert_int_equal(status, S2_EUNSUPPORTED);
                s2_follow_close(&at.follow);
                assert_int_equal(s2_follow_open(&at.problem, 9, &at.follow, NULL), S2_OK);
                assert_int_equal(s2_follow_take(&at.follow, &at.problem, &layer, NULL), S2_OK);
            }
            assert_true(s2_follow_knows(&at.follow, &at.problem));
            check_places(&at, layer);
            n_told += layer->n_changed > 0 ? layer->n_changed : 0;
            n_slabs += layer->n_changed >= 0 ? at.follow.lists.plan.n_slabs : 0;
        }
        assert_true(n_slabs > 0 && n_told < n_slabs);
        s2_follow_close(&at.follow);
        s2_cache_destroy(&at.cache);
        s2_arena_release(&at.arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slabs_give_each_row_exactly_the_keys_that_it_reads),
        cmocka_unit_test(parts_are_equal_and_lists_know_theirs),
        cmocka_unit_test(whole_lists_are_shared_as_evenly_as_they_can_be),
        cmocka_unit_test(results_of_parts_have_slots_of_their_own),
        cmocka_unit_test(more_than_sixteen_queries_are_refused),
        cmocka_unit_test(lists_end_where_their_work_does),
        cmocka_unit_test(slabs_take_the_steps_that_they_are_said_to_take),
        cmocka_unit_test(large_steps_end_within_their_work_and_memory),
        cmocka_unit_test(a_selection_reads_its_pages_and_the_newest_one),
        cmocka_unit_test(every_allocation_of_a_layout_may_fail),
        cmocka_unit_test(lists_that_follow_are_those_that_are_made_anew),
        cmocka_unit_test(places_that_follow_are_those_of_the_cache),
    };
    return cmocka_run_group_tests_name("decode", tests, NULL, NULL);
}

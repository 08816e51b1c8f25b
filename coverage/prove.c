#include "coverage/prove.h"

#include <string.h>

#include "base/arith.h"
#include "base/work.h"
#include "coverage/bits.h"
#include "coverage/columns.h"
#include "pattern/layers.h"

/* Steps of up to 5 ns: less than 10 s on one core. */
enum { AN_ATOM = 256 }; /* steps of a part for each atom, as many as it has bytes */
static const int64_t PART_WORK = INT64_C(1) << 29;
/* Contexts tried by bitset when a property is asked for every length but no theorem applies. */
enum { TRIAL_BLOCKS = 128, TRIAL_TOKENS = 4096, TRIAL_LEAST_BLOCKS = 8 };
/* Atoms of all classes together, some 240 bytes each with their share of the merged heads: 1 GiB suffices. */
static const int64_t MOST_ATOMS = 3500000;

static const char *const PROPERTY_WORDS[S2_N_PROPERTIES] = {"rows",   "union", "kv",   "group",
                                                            "shards", "ranks", "depth"};

const char *s2_property_word(s2_property property)
{
    return PROPERTY_WORDS[property];
}

const char *s2_verdict_word(s2_verdict verdict)
{
    static const char *const words[] = {"holds", "violated", "unknown"};
    return words[verdict];
}

/* Layers that read the same keys share one class; the first of them stands for all. */
typedef struct s2_layer_class {
    int32_t first_layer;
    bool is_state;    /* not judged */
    int32_t n_phases; /* 1: prefill and decode are the same */
    bool too_large;   /* no views were made: nothing is known */
    bool has_explicit;
    bool has_random;
    bool has_dynamic;
    s2_view *least[S2_N_RULE_PHASES];       /* per head: what is certainly read, explicit atoms left out */
    s2_view *most[S2_N_RULE_PHASES];        /* per head: what might be read; == least where static */
    s2_view *whole_least[S2_N_RULE_PHASES]; /* with explicit atoms */
    s2_view *whole_most[S2_N_RULE_PHASES];
    s2_view all_least[S2_N_RULE_PHASES]; /* all heads merged */
    s2_view all_most[S2_N_RULE_PHASES];
} s2_layer_class;

typedef struct s2_prover {
    s2_arena *arena;
    s2_arena *scratch;
    const s2_pattern *pattern;
    int64_t n_tok;
    int64_t work_left;
    int64_t part_work_left;
    int64_t atoms_left;
    int32_t n_classes;
    s2_layer_class *classes;
    int32_t *class_of; /* per layer */
} s2_prover;

/* ---- classes of layers --------------------------------------------------------------------------- */

static s2_status find_classes(s2_prover *prover)
{
    const s2_pattern *const pattern = prover->pattern;
    int32_t *const first_alike = S2_NEW(prover->scratch, int32_t, pattern->n_layers);
    prover->classes = S2_NEW(prover->scratch, s2_layer_class, pattern->n_layers);
    prover->class_of = S2_NEW(prover->scratch, int32_t, pattern->n_layers);
    if (first_alike == NULL || prover->classes == NULL || prover->class_of == NULL)
        return S2_ENOMEM;
    S2_TRY(s2_layers_alike(prover->scratch, pattern, S2_BOTH_PHASES, first_alike));
    for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
        int32_t found =
            first_alike[layer] != layer ? prover->class_of[first_alike[layer]] : prover->n_classes;
        if (found == prover->n_classes)
            prover->classes[prover->n_classes++] =
                (s2_layer_class){.first_layer = layer, .is_state = s2_pattern_is_state_layer(pattern, layer)};
        prover->class_of[layer] = found;
    }
    return S2_OK;
}

static s2_status without_explicit(s2_arena *arena, const s2_view *view, s2_view *out)
{
    s2_view kept = *view;
    s2_atom *const atoms = S2_NEW(arena, s2_atom, view->n_atoms);
    if (atoms == NULL)
        return S2_ENOMEM;
    kept.n_atoms = 0;
    for (int32_t a = 0; a < view->n_atoms; a++)
        if (view->atoms[a].kind != S2_ATOM_RANDOM && view->atoms[a].kind != S2_ATOM_MASK)
            atoms[kept.n_atoms++] = view->atoms[a];
    kept.atoms = atoms;
    *out = kept;
    return S2_OK;
}

static s2_status fold_heads(s2_prover *prover, s2_layer_class *class, int phase, s2_bound bound,
                            s2_view **whole, s2_view **plain)
{
    const int32_t n_heads = prover->pattern->n_heads;
    s2_view *const views = S2_NEW(prover->scratch, s2_view, n_heads);
    if (views == NULL)
        return S2_ENOMEM;
    bool any_explicit = false;
    for (int32_t head = 0; head < n_heads; head++) {
        S2_TRY(s2_view_build(prover->scratch, prover->pattern, (s2_phase)phase, class->first_layer, head,
                             bound, &views[head]));
        any_explicit |= views[head].has_explicit;
        class->has_dynamic |= views[head].has_dynamic;
    }
    *whole = views;
    *plain = views;
    if (!any_explicit)
        return S2_OK;
    class->has_explicit = true;
    s2_view *const kept = S2_NEW(prover->scratch, s2_view, n_heads);
    if (kept == NULL)
        return S2_ENOMEM;
    for (int32_t head = 0; head < n_heads; head++)
        S2_TRY(without_explicit(prover->scratch, &views[head], &kept[head]));
    *plain = kept;
    return S2_OK;
}

static void note_random(s2_layer_class *class, const s2_view *views, int32_t n)
{
    for (int32_t v = 0; v < n; v++)
        for (int32_t a = 0; a < views[v].n_atoms; a++)
            class->has_random |= views[v].atoms[a].kind == S2_ATOM_RANDOM;
}

/* The most atoms that the views of a class can hold, counting a view as an atom. */
static int64_t count_atoms(const s2_pattern *pattern, const s2_layer_class *class)
{
    int64_t n = 0;
    for (int phase = 0; phase < class->n_phases; phase++)
        for (int32_t head = 0; head < pattern->n_heads; head++) {
            const s2_body *const body =
                &pattern->bodies[s2_pattern_body(pattern, (s2_phase)phase, class->first_layer, head)];
            n += 1 + body->n_terms;
            for (int32_t t = 0; t < body->n_terms; t++)
                n += body->terms[t].list.n_spans;
        }
    return pattern->causal ? n : 2 * n;
}

static s2_status fold_class(s2_prover *prover, s2_layer_class *class)
{
    const s2_pattern *const pattern = prover->pattern;
    class->n_phases = memcmp(s2_layer_bodies(pattern, S2_PREFILL, class->first_layer),
                             s2_layer_bodies(pattern, S2_DECODE, class->first_layer),
                             (size_t)pattern->n_heads * sizeof *pattern->body_of) == 0
                          ? 1
                          : 2;
    const int64_t n_atoms = count_atoms(pattern, class);
    class->too_large = n_atoms > prover->atoms_left;
    prover->atoms_left -= class->too_large ? 0 : n_atoms;
    for (int phase = 0; phase < class->n_phases && !class->too_large; phase++) {
        S2_TRY(
            fold_heads(prover, class, phase, S2_AT_LEAST, &class->whole_least[phase], &class->least[phase]));
        class->most[phase] = class->least[phase];
        class->whole_most[phase] = class->whole_least[phase];
        if (class->has_dynamic)
            S2_TRY(
                fold_heads(prover, class, phase, S2_AT_MOST, &class->whole_most[phase], &class->most[phase]));
        S2_TRY(s2_columns_merge(prover->scratch, class->least[phase], pattern->n_heads,
                                &class->all_least[phase]));
        class->all_most[phase] = class->all_least[phase];
        if (class->has_dynamic)
            S2_TRY(s2_columns_merge(prover->scratch, class->most[phase], pattern->n_heads,
                                    &class->all_most[phase]));
        if (class->has_explicit)
            note_random(class, class->whole_least[phase], pattern->n_heads);
    }
    return S2_OK;
}

/* ---- one answer per class ------------------------------------------------------------------------- */

/* What a class says about one requirement. */
typedef struct s2_answer {
    s2_verdict verdict;
    s2_reason reason;
    int64_t reason_tok;
    int64_t sure_tok;    /* everything is known up to this context, whatever the verdict */
    int64_t context_tok; /* violated: smallest violating context - 1 over all heads and phases */
    s2_witness witness;
} s2_answer;

static const s2_answer HOLDS_SO_FAR = {.verdict = S2_HOLDS, .sure_tok = S2_OPEN};

/* How to look at a class: by columns for n_tok (which may be S2_OPEN), or by bitsets for a length. */
typedef struct s2_column_look {
    s2_prover *prover;
    const s2_layer_class *class;
    bool by_bits;
    int64_t n_tok;
} s2_column_look;

static s2_column_search look_search(const s2_column_look *look)
{
    return (s2_column_search){.scratch = look->prover->scratch,
                              .n_tok = look->n_tok,
                              .work_left = look->prover->work_left,
                              .part_work_left = look->prover->part_work_left};
}

static const s2_view *look_views(const s2_column_look *look, int phase, s2_bound bound)
{
    const s2_layer_class *const class = look->class;
    if (look->by_bits)
        return bound == S2_AT_LEAST ? class->whole_least[phase] : class->whole_most[phase];
    return bound == S2_AT_LEAST ? class->least[phase] : class->most[phase];
}

/* Contexts beyond sure_tok are not decided. */
static void answer_unsure(s2_answer *answer, int64_t sure_tok)
{
    answer->sure_tok = s2_min_i64(sure_tok, answer->sure_tok);
}

static void answer_unknown(s2_answer *answer, s2_reason reason, int64_t sure_tok)
{
    answer_unsure(answer, sure_tok);
    if (answer->verdict == S2_HOLDS) {
        answer->verdict = S2_UNKNOWN;
        answer->reason = reason;
    }
}

/* The order of witnesses: by context, query and key; those of one pair by layer and head. */
static bool witness_precedes(const s2_witness *witness, const s2_witness *other)
{
    const int64_t mine = s2_max_i64(witness->q_tok, witness->k_tok),
                  theirs = s2_max_i64(other->q_tok, other->k_tok);
    if (mine != theirs)
        return mine < theirs;
    if (witness->q_tok != other->q_tok)
        return witness->q_tok < other->q_tok;
    if (witness->k_tok != other->k_tok)
        return witness->k_tok < other->k_tok;
    return witness->layer != other->layer ? witness->layer < other->layer : witness->head < other->head;
}

/* Fold one violation in: the witness is the smallest, and so is the context. */
static void answer_violated(s2_answer *answer, const s2_violation *violation, int64_t context_tok,
                            s2_witness witness)
{
    witness.q_tok = violation->q_tok;
    witness.k_tok = violation->k_tok;
    if (answer->verdict != S2_VIOLATED) {
        *answer = (s2_answer){.verdict = S2_VIOLATED,
                              .sure_tok = answer->sure_tok,
                              .context_tok = context_tok,
                              .witness = witness};
        return;
    }
    if (witness_precedes(&witness, &answer->witness))
        answer->witness = witness;
    answer->context_tok = s2_min_i64(context_tok, answer->context_tok);
}

static s2_witness witness_at(const s2_column_look *look, int phase, int32_t head)
{
    return (s2_witness){.phase = (s2_phase)phase,
                        .layer = look->class->first_layer,
                        .head = head,
                        .rank = -1,
                        .readers = -1,
                        .earlier_q_tok = -1};
}

/*
 * A limited search that found nothing is no answer. One that found something is still a refutation, though
 * perhaps not the smallest.
 */
static void answer_add(s2_answer *answer, const s2_violation *violation, s2_witness witness)
{
    if (violation->limited)
        answer_unsure(answer, 0);
    if (violation->found)
        answer_violated(answer, violation, s2_max_i64(violation->q_tok, violation->k_tok), witness);
    else if (violation->limited)
        answer_unknown(answer, S2_REASON_LIMIT, 0);
}

static s2_status search_hole(const s2_column_look *look, const s2_view *views, const s2_view *merged,
                             int32_t n, s2_violation *out)
{
    s2_column_search search = look_search(look);
    s2_view union_of;
    s2_status status;
    if (look->by_bits) {
        status = s2_bits_hole(&search, views, n, out);
    } else {
        if (merged == NULL) {
            S2_TRY(s2_columns_merge(look->prover->scratch, views, n, &union_of));
            merged = &union_of;
        }
        status = s2_columns_hole(&search, merged, out);
    }
    look->prover->work_left = search.work_left;
    look->prover->part_work_left = search.part_work_left;
    return status;
}

/*
 * Heads [begin, end) as one union: no hole even in certain reads, a hole even in possible ones, or open.
 */
static s2_status union_of_heads(const s2_column_look *look, int phase, int32_t begin, int32_t end,
                                int32_t rank, s2_answer *answer)
{
    const bool all = begin == 0 && end == look->prover->pattern->n_heads;
    s2_violation hole;
    S2_TRY(search_hole(look, look_views(look, phase, S2_AT_LEAST) + begin,
                       all ? &look->class->all_least[phase] : NULL, end - begin, &hole));
    if (hole.found && look->class->has_dynamic) {
        answer_unsure(answer, s2_max_i64(hole.q_tok, hole.k_tok));
        S2_TRY(search_hole(look, look_views(look, phase, S2_AT_MOST) + begin,
                           all ? &look->class->all_most[phase] : NULL, end - begin, &hole));
        if (!hole.found)
            answer_unknown(answer, S2_REASON_DYNAMIC, S2_OPEN);
    }
    s2_witness witness = witness_at(look, phase, -1);
    witness.rank = rank;
    answer_add(answer, &hole, witness);
    return S2_OK;
}

static s2_status decide_union(const s2_column_look *look, int32_t arg, s2_answer *answer)
{
    (void)arg;
    for (int phase = 0; phase < look->class->n_phases; phase++)
        S2_TRY(union_of_heads(look, phase, 0, look->prover->pattern->n_heads, -1, answer));
    return S2_OK;
}

static s2_status decide_ranks(const s2_column_look *look, int32_t n_ranks, s2_answer *answer)
{
    const int32_t per_rank = look->prover->pattern->n_heads / n_ranks;
    for (int phase = 0; phase < look->class->n_phases; phase++)
        for (int32_t rank = 0; rank < n_ranks; rank++)
            S2_TRY(union_of_heads(look, phase, rank * per_rank, (rank + 1) * per_rank, rank, answer));
    return S2_OK;
}

/* An earlier head that reads the same keys has the same answer and is the canonical witness. */
static bool seen_before(const s2_view *views, int32_t head, const int32_t *distinct, int32_t n_distinct)
{
    for (int32_t d = 0; d < n_distinct; d++)
        if (s2_columns_same_atoms(&views[distinct[d]], &views[head]))
            return true;
    return false;
}

/* Decide one head of each kind; at most this many are compared. */
enum { MOST_DISTINCT = 128 };
typedef struct s2_distinct {
    int32_t n;
    int32_t heads[MOST_DISTINCT];
} s2_distinct;

static bool is_new_head(const s2_column_look *look, s2_distinct *distinct, int32_t head)
{
    if (look->by_bits)
        return true;
    for (int phase = 0; phase < look->class->n_phases; phase++)
        if (!seen_before(look_views(look, phase, S2_AT_LEAST), head, distinct->heads, distinct->n) ||
            look->class->has_dynamic || look->class->n_phases > 1) {
            if (distinct->n < MOST_DISTINCT)
                distinct->heads[distinct->n++] = head;
            return true;
        }
    return false;
}

/* Not causal: a row has the fewest keys in the context that ends with its query, so it may fail earlier. */
static s2_status smallest_empty_context(const s2_column_look *look, const s2_view *view,
                                        const s2_violation *row, s2_answer *answer, int64_t *out)
{
    *out = row->q_tok;
    if (look->prover->pattern->causal || look->n_tok == S2_OPEN)
        return S2_OK;
    s2_violation earlier = {.found = look->by_bits, .q_tok = row->other};
    s2_column_search search = look_search(look);
    search.n_tok = S2_OPEN;
    if (!look->by_bits)
        S2_TRY(s2_columns_empty_row(&search, view, &earlier));
    if (earlier.limited && !earlier.found)
        answer_unsure(answer, 0);
    if (earlier.found && earlier.q_tok < row->q_tok)
        *out = earlier.q_tok;
    return S2_OK;
}

static s2_status decide_rows(const s2_column_look *look, int32_t arg, s2_answer *answer)
{
    (void)arg;
    for (int phase = 0; phase < look->class->n_phases; phase++) {
        /* a dynamic term always chooses something if there is anything to choose from */
        const s2_view *const views = look_views(look, phase, S2_AT_MOST);
        s2_distinct distinct = {0};
        for (int32_t head = 0; head < look->prover->pattern->n_heads; head++) {
            if (s2_columns_fill_rows(&views[head]) || !is_new_head(look, &distinct, head))
                continue;
            s2_column_search search = look_search(look);
            s2_violation row;
            if (look->by_bits)
                S2_TRY(s2_bits_empty_row(&search, &views[head], &row));
            else
                S2_TRY(s2_columns_empty_row(&search, &views[head], &row));
            look->prover->work_left = search.work_left;
            if (row.found) {
                int64_t context_tok;
                S2_TRY(smallest_empty_context(look, &views[head], &row, answer, &context_tok));
                answer_violated(answer, &row, context_tok, witness_at(look, phase, head));
            } else {
                answer_add(answer, &row, witness_at(look, phase, head));
            }
        }
    }
    return S2_OK;
}

static s2_status search_revival(const s2_column_look *look, const s2_view *dropped, const s2_view *again,
                                s2_violation *out)
{
    s2_column_search search = look_search(look);
    const s2_status status = look->by_bits ? s2_bits_revival(&search, dropped, again, out)
                                           : s2_columns_revival(&search, dropped, again, out);
    look->prover->work_left = search.work_left;
    return status;
}

/* Keys that phase `from` left unread and phase `to` reads later, for one head. */
static s2_status revival_of_head(const s2_column_look *look, int from, int to, int32_t head,
                                 s2_answer *answer)
{
    s2_violation revival;
    s2_witness witness = witness_at(look, to, head);
    S2_TRY(search_revival(look, &look_views(look, from, S2_AT_MOST)[head],
                          &look_views(look, to, S2_AT_LEAST)[head], &revival));
    witness.earlier_q_tok = revival.other;
    witness.earlier_phase = (s2_phase)from;
    answer_add(answer, &revival, witness);
    if (!look_views(look, to, S2_AT_LEAST)[head].has_dynamic &&
        !look_views(look, from, S2_AT_LEAST)[head].has_dynamic)
        return S2_OK;
    S2_TRY(search_revival(look, &look_views(look, from, S2_AT_LEAST)[head],
                          &look_views(look, to, S2_AT_MOST)[head], &revival));
    if (revival.found)
        answer_unknown(answer, S2_REASON_DYNAMIC, s2_max_i64(revival.q_tok, revival.k_tok));
    else if (revival.limited)
        answer_unknown(answer, S2_REASON_LIMIT, 0);
    return S2_OK;
}

static s2_status decide_kv(const s2_column_look *look, int32_t arg, s2_answer *answer)
{
    (void)arg;
    s2_distinct distinct = {0};
    const s2_layer_class *const class = look->class;
    for (int32_t head = 0; head < look->prover->pattern->n_heads; head++) {
        const s2_view *const least = look_views(look, 0, S2_AT_LEAST);
        if (class->n_phases == 1 && !class->has_dynamic && s2_columns_are_prefixes(&least[head]))
            continue;
        if (!is_new_head(look, &distinct, head))
            continue;
        S2_TRY(revival_of_head(look, S2_PREFILL, S2_PREFILL, head, answer));
        if (class->n_phases == 1)
            continue;
        S2_TRY(revival_of_head(look, S2_PREFILL, S2_DECODE, head, answer));
        S2_TRY(revival_of_head(look, S2_DECODE, S2_DECODE, head, answer));
    }
    return S2_OK;
}

static s2_status decide_group(const s2_column_look *look, int32_t arg, s2_answer *answer)
{
    (void)arg;
    const s2_pattern *const pattern = look->prover->pattern;
    const int32_t n_kv_heads = s2_pattern_kv_heads(pattern, look->class->first_layer);
    const int32_t group = pattern->n_heads / n_kv_heads;
    for (int phase = 0; phase < look->class->n_phases; phase++) {
        const s2_view *const views = look_views(look, phase, S2_AT_LEAST);
        for (int32_t head = 0; head < pattern->n_heads; head++) {
            const int32_t first = head / group * group;
            if (head == first)
                continue;
            if (views[head].has_dynamic || views[first].has_dynamic) {
                answer_unknown(answer, S2_REASON_DYNAMIC, 0);
                continue;
            }
            s2_column_search search = look_search(look);
            s2_violation pair;
            if (look->by_bits)
                S2_TRY(s2_bits_difference(&search, &views[first], &views[head], &pair));
            else
                S2_TRY(s2_columns_difference(&search, &views[first], &views[head], &pair));
            look->prover->work_left = search.work_left;
            answer_add(answer, &pair, witness_at(look, phase, head));
        }
    }
    return S2_OK;
}

static s2_status decide_shards(const s2_column_look *look, int32_t arg, s2_answer *answer)
{
    (void)arg;
    const s2_pattern *const pattern = look->prover->pattern;
    const int32_t n_kv_heads = s2_pattern_kv_heads(pattern, look->class->first_layer);
    const int32_t group = pattern->n_heads / n_kv_heads;
    if (!pattern->causal || look->class->has_dynamic) {
        answer_unknown(answer, pattern->causal ? S2_REASON_DYNAMIC : S2_REASON_CAUSAL, 0);
        return S2_OK;
    }
    for (int phase = 0; phase < look->class->n_phases; phase++) {
        const s2_view *const views = look_views(look, phase, S2_AT_LEAST);
        s2_column_search search = look_search(look);
        s2_violation pair;
        if (look->by_bits) {
            S2_TRY(s2_bits_shards(&search, views, pattern->n_heads, group, &pair));
        } else {
            s2_view *const merged = S2_NEW(look->prover->scratch, s2_view, n_kv_heads);
            if (merged == NULL)
                return S2_ENOMEM;
            for (int32_t kv_head = 0; kv_head < n_kv_heads; kv_head++)
                S2_TRY(s2_columns_merge(look->prover->scratch, views + kv_head * group, group,
                                        &merged[kv_head]));
            S2_TRY(s2_columns_shards(&search, merged, n_kv_heads, &pair));
        }
        look->prover->work_left = search.work_left;
        s2_witness witness = witness_at(look, phase, -1);
        witness.readers = (int32_t)pair.other;
        answer_add(answer, &pair, witness);
    }
    return S2_OK;
}

typedef s2_status (*s2_decide)(const s2_column_look *look, int32_t arg, s2_answer *answer);
static const s2_decide DECIDE[S2_DEPTH] = {decide_rows,  decide_union,  decide_kv,
                                           decide_group, decide_shards, decide_ranks};

/* A length for trials where no theorem applies: short enough to be quick, long enough to be telling. */
static int64_t trial_tok(const s2_pattern *pattern)
{
    const int64_t block = pattern->block_tok;
    const int64_t n_tok = s2_min_i64(TRIAL_BLOCKS * block, TRIAL_TOKENS);
    return s2_max_i64(n_tok, TRIAL_LEAST_BLOCKS * block);
}

/*
 * Explicit heads have no columns. For one length bitsets decide. For every length, what holds without
 * random lists holds with them, except efficiency and equality; what fails at a trial length fails.
 */
static s2_status decide_explicit(s2_column_look *look, const s2_requirement *requirement, s2_answer *answer)
{
    const s2_decide decide = DECIDE[requirement->property];
    look->by_bits = true;
    /* without causality a list is drawn from the whole context, so a shorter context has other lists */
    if (look->class->has_random && !look->prover->pattern->causal)
        answer_unsure(answer, 0);
    if (look->n_tok != S2_OPEN)
        return decide(look, requirement->arg, answer);
    look->n_tok = trial_tok(look->prover->pattern);
    S2_TRY(decide(look, requirement->arg, answer));
    look->by_bits = false;
    look->n_tok = S2_OPEN;
    if (answer->verdict == S2_VIOLATED)
        return S2_OK;
    const s2_property property = requirement->property;
    s2_answer without = HOLDS_SO_FAR;
    if (property == S2_ROWS || property == S2_UNION || property == S2_RANKS)
        S2_TRY(decide(look, requirement->arg, &without));
    else
        without.verdict = S2_UNKNOWN;
    if (without.verdict != S2_HOLDS)
        answer_unknown(answer, S2_REASON_RANDOM, trial_tok(look->prover->pattern));
    return S2_OK;
}

static s2_status decide_class(s2_prover *prover, const s2_layer_class *class,
                              const s2_requirement *requirement, s2_answer *answer)
{
    s2_column_look look = {.prover = prover, .class = class, .n_tok = prover->n_tok};
    *answer = HOLDS_SO_FAR;
    if (class->too_large) {
        answer_unknown(answer, S2_REASON_LIMIT, 0);
        return S2_OK;
    }
    if (class->has_explicit)
        return decide_explicit(&look, requirement, answer);
    return DECIDE[requirement->property](&look, requirement->arg, answer);
}

/* ---- findings -------------------------------------------------------------------------------------- */

/* *sure_tok: the smallest of all answers so far. */
static void finding_add(s2_finding *finding, const s2_answer *answer, int64_t *sure_tok)
{
    *sure_tok = s2_min_i64(answer->sure_tok, *sure_tok);
    if (answer->verdict == S2_VIOLATED) {
        const bool first = finding->verdict != S2_VIOLATED;
        if (first || answer->context_tok < finding->complete_to_tok)
            finding->complete_to_tok = answer->context_tok;
        if (first || witness_precedes(&answer->witness, &finding->witness))
            finding->witness = answer->witness;
        finding->verdict = S2_VIOLATED;
        finding->reason = S2_REASON_NONE;
    } else if (answer->verdict == S2_UNKNOWN && finding->verdict == S2_HOLDS) {
        finding->verdict = S2_UNKNOWN;
        finding->reason = answer->reason;
        finding->reason_tok = answer->reason_tok;
    }
}

/* A property that fails in one place may fail earlier in another that was not decided. */
static void finding_end(s2_finding *finding, int64_t sure_tok)
{
    if (finding->verdict == S2_VIOLATED && finding->complete_to_tok > sure_tok)
        finding->complete_to_tok = S2_COMPLETE_UNKNOWN;
}

static s2_status list_failing(s2_prover *prover, const s2_answer *answers, s2_finding *finding)
{
    const int32_t n_layers = prover->pattern->n_layers;
    int32_t *const layers = S2_NEW(prover->arena, int32_t, n_layers);
    if (layers == NULL)
        return S2_ENOMEM;
    for (int32_t layer = 0; layer < n_layers; layer++) {
        const s2_verdict verdict = answers[prover->class_of[layer]].verdict;
        if (verdict == finding->verdict && verdict != S2_HOLDS)
            layers[finding->n_failing_layers++] = layer;
        finding->undecided |= verdict == S2_UNKNOWN && finding->verdict == S2_VIOLATED;
    }
    finding->failing_layers = layers;
    return S2_OK;
}

static s2_status find_by_class(s2_prover *prover, s2_finding *finding)
{
    s2_answer *const answers = S2_NEW(prover->scratch, s2_answer, prover->n_classes);
    if (answers == NULL)
        return S2_ENOMEM;
    int64_t sure_tok = S2_OPEN;
    bool any = false;
    for (int32_t c = 0; c < prover->n_classes; c++) {
        if (prover->classes[c].is_state)
            continue;
        any = true;
        S2_TRY(decide_class(prover, &prover->classes[c], &finding->requirement, &answers[c]));
        finding_add(finding, &answers[c], &sure_tok);
    }
    finding_end(finding, sure_tok);
    if (!any) {
        finding->verdict = S2_UNKNOWN;
        finding->reason = S2_REASON_STATE;
        return S2_OK;
    }
    return finding->verdict == S2_HOLDS ? S2_OK : list_failing(prover, answers, finding);
}

/* ---- depth: through several layers ------------------------------------------------------------------ */

/* One phase's views of the layers of a window, side by side. */
static s2_status depth_window(s2_prover *prover, int phase, int32_t first_layer, int32_t n_window,
                              int64_t n_tok, s2_violation *out)
{
    const int32_t n_heads = prover->pattern->n_heads;
    s2_view *const views = S2_NEW(prover->scratch, s2_view, (int64_t)n_window * n_heads);
    if (views == NULL)
        return S2_ENOMEM;
    for (int32_t layer = 0; layer < n_window; layer++) {
        const s2_layer_class *const class = &prover->classes[prover->class_of[first_layer + layer]];
        const s2_view *const from = class->whole_least[phase < class->n_phases ? phase : 0];
        memcpy(views + (int64_t)layer * n_heads, from, (size_t)n_heads * sizeof *views);
    }
    s2_column_search search = {.scratch = prover->scratch, .n_tok = n_tok, .work_left = prover->work_left};
    S2_TRY(s2_bits_unreached(&search, views, n_window, n_heads, out));
    prover->work_left = search.work_left;
    return S2_OK;
}

static bool window_has(const s2_prover *prover, const bool *of_class, int32_t first_layer, int32_t n_window)
{
    for (int32_t layer = first_layer; layer < first_layer + n_window; layer++)
        if (of_class[prover->class_of[layer]])
            return true;
    return false;
}

/* Flow through a state is not judged. A window with one union-complete layer reaches everything; the others
 * are tried at one length. */
static s2_status decide_window(s2_prover *prover, int32_t first_layer, int32_t n_window, s2_answer *answer)
{
    const int64_t n_tok = prover->n_tok == S2_OPEN ? trial_tok(prover->pattern) : prover->n_tok;
    bool dynamic = false, two_phases = false;
    for (int32_t layer = first_layer; layer < first_layer + n_window; layer++) {
        const s2_layer_class *const class = &prover->classes[prover->class_of[layer]];
        if (class->too_large || class->is_state) {
            answer_unknown(answer, class->is_state ? S2_REASON_STATE : S2_REASON_LIMIT, 0);
            return S2_OK;
        }
        if (class->has_random && !prover->pattern->causal)
            answer_unsure(answer, 0);
        dynamic |= class->has_dynamic;
        two_phases |= class->n_phases > 1;
    }
    for (int phase = 0; phase < (two_phases ? 2 : 1); phase++) {
        s2_violation pair;
        S2_TRY(depth_window(prover, phase, first_layer, n_window, n_tok, &pair));
        s2_witness witness = {.phase = (s2_phase)phase,
                              .layer = first_layer,
                              .head = -1,
                              .rank = -1,
                              .readers = -1,
                              .earlier_q_tok = -1};
        if (pair.found && dynamic)
            answer_unknown(answer, S2_REASON_DYNAMIC, s2_max_i64(pair.q_tok, pair.k_tok));
        else
            answer_add(answer, &pair, witness);
    }
    if (answer->verdict == S2_HOLDS && prover->n_tok == S2_OPEN) {
        answer_unknown(answer, S2_REASON_BEYOND, n_tok);
        answer->reason_tok = n_tok;
    }
    return S2_OK;
}

static s2_status complete_classes(s2_prover *prover, bool *complete)
{
    const s2_requirement in_one_layer = {.property = S2_UNION};
    for (int32_t c = 0; c < prover->n_classes; c++) {
        s2_answer answer;
        if (prover->classes[c].is_state)
            continue;
        S2_TRY(decide_class(prover, &prover->classes[c], &in_one_layer, &answer));
        complete[c] = answer.verdict == S2_HOLDS;
    }
    return S2_OK;
}

/* The first window with the same classes in the same order, which has the same answer; else this one. */
static int32_t first_such_window(const s2_prover *prover, int32_t first_layer, int32_t n_window)
{
    int32_t earlier = 0;
    while (memcmp(prover->class_of + earlier, prover->class_of + first_layer,
                  (size_t)n_window * sizeof *prover->class_of) != 0)
        earlier++;
    return earlier;
}

static s2_status find_depth(s2_prover *prover, s2_finding *finding)
{
    const int32_t n_layers = prover->pattern->n_layers;
    const int32_t n_window = s2_min_i32(finding->requirement.arg, n_layers);
    bool *const complete = S2_NEW(prover->scratch, bool, prover->n_classes);
    int32_t *const failing = S2_NEW(prover->arena, int32_t, n_layers);
    bool *const fails = S2_NEW(prover->scratch, bool, n_layers);
    if (complete == NULL || failing == NULL || fails == NULL)
        return S2_ENOMEM;
    S2_TRY(complete_classes(prover, complete));
    finding->failing_layers = failing;
    int64_t sure_tok = S2_OPEN;
    for (int32_t first_layer = 0; first_layer + n_window <= n_layers; first_layer++) {
        const int32_t same = first_such_window(prover, first_layer, n_window);
        if (same == first_layer && !window_has(prover, complete, first_layer, n_window)) {
            s2_answer answer = HOLDS_SO_FAR;
            S2_TRY(decide_window(prover, first_layer, n_window, &answer));
            finding_add(finding, &answer, &sure_tok);
            fails[first_layer] = answer.verdict != S2_HOLDS;
        }
        fails[first_layer] = fails[same];
        if (fails[first_layer])
            failing[finding->n_failing_layers++] = first_layer;
    }
    finding_end(finding, sure_tok);
    return S2_OK;
}

/* ---- entry ------------------------------------------------------------------------------------------- */

static s2_status check_requirement(const s2_pattern *pattern, const s2_requirement *requirement)
{
    if (requirement->property == S2_RANKS)
        return requirement->arg >= 1 && pattern->n_heads % requirement->arg == 0 ? S2_OK : S2_EINVAL;
    if (requirement->property == S2_DEPTH)
        return requirement->arg >= 1 ? S2_OK : S2_EINVAL;
    return (int)requirement->property >= 0 && requirement->property < S2_N_PROPERTIES ? S2_OK : S2_EINVAL;
}

int64_t s2_prove_scope(const s2_pattern *pattern, int64_t n_tok)
{
    return n_tok != S2_OPEN ? n_tok : s2_pattern_limit_tok(pattern);
}

static s2_status prove_all(s2_prover *prover, const s2_requirement *requirements, int32_t n,
                           s2_finding *findings)
{
    S2_TRY(find_classes(prover));
    for (int32_t c = 0; c < prover->n_classes; c++)
        S2_TRY(fold_class(prover, &prover->classes[c]));
    for (int32_t r = 0; r < n; r++) {
        s2_finding finding = {.requirement = requirements[r], .scope_tok = prover->n_tok};
        if (requirements[r].property == S2_DEPTH)
            S2_TRY(find_depth(prover, &finding));
        else
            S2_TRY(find_by_class(prover, &finding));
        findings[r] = finding;
    }
    return S2_OK;
}

s2_status s2_prove(s2_arena *arena, const s2_pattern *pattern, const s2_requirement *requirements, int32_t n,
                   const s2_prove_options *options, s2_finding *findings)
{
    for (int32_t r = 0; r < n; r++)
        S2_TRY(check_requirement(pattern, &requirements[r]));
    s2_arena scratch = {0};
    s2_prover prover = {.arena = arena, .scratch = &scratch, .pattern = pattern};
    prover.work_left = options->work_limit > 0 ? options->work_limit : S2_PROVE_STEPS;
    if (options->work_left != NULL)
        prover.work_left = s2_max_i64(s2_min_i64(prover.work_left, *options->work_left), 1);
    const int64_t allowed = prover.work_left;
    prover.part_work_left = PART_WORK;
    prover.atoms_left = s2_min_i64(prover.work_left, MOST_ATOMS); /* folding an atom is a step too */
    if (allowed < S2_PROVE_STEPS && options->work_left != NULL)
        prover.atoms_left =
            s2_min_i64(allowed / AN_ATOM, MOST_ATOMS); /* who has a part has that of memory too */
    prover.n_tok = s2_prove_scope(pattern, options->n_tok);
    s2_finding *const decided = S2_NEW(&scratch, s2_finding, n);
    const s2_status status = decided != NULL ? prove_all(&prover, requirements, n, decided) : S2_ENOMEM;
    (void)s2_work_spend(options->work_left, allowed - s2_max_i64(prover.work_left, -1));
    if (status == S2_OK && n > 0)
        memcpy(findings, decided, (size_t)n * sizeof *findings);
    s2_arena_release(&scratch);
    return status;
}

s2_status s2_sufficient_length(s2_arena *arena, const s2_pattern *pattern, int64_t *out)
{
    s2_arena scratch = {0};
    s2_prover prover = {.arena = arena, .scratch = &scratch, .pattern = pattern, .atoms_left = MOST_ATOMS};
    int64_t length = 1;
    s2_status status = find_classes(&prover);
    for (int32_t c = 0; status == S2_OK && c < prover.n_classes; c++) {
        status = fold_class(&prover, &prover.classes[c]);
        s2_view both[S2_N_RULE_PHASES];
        if (status == S2_OK && prover.classes[c].too_large) {
            length = S2_OPEN;
            break;
        }
        for (int phase = 0; status == S2_OK && phase < prover.classes[c].n_phases; phase++)
            both[phase] = prover.classes[c].all_least[phase];
        if (status == S2_OK)
            length = s2_max_i64(length, s2_columns_sufficient_tok(both, prover.classes[c].n_phases));
    }
    s2_arena_release(&scratch);
    if (status == S2_OK)
        *out = length;
    return status;
}

bool s2_finding_agrees(const s2_finding *a, const s2_finding *b)
{
    if (a->verdict == S2_UNKNOWN || b->verdict == S2_UNKNOWN)
        return true;
    if (a->verdict != b->verdict)
        return false;
    if (a->verdict == S2_VIOLATED &&
        (a->complete_to_tok == S2_COMPLETE_UNKNOWN || b->complete_to_tok == S2_COMPLETE_UNKNOWN))
        return true;
    const s2_witness *const x = &a->witness, *const y = &b->witness;
    return a->verdict == S2_HOLDS ||
           (a->complete_to_tok == b->complete_to_tok && x->phase == y->phase && x->layer == y->layer &&
            x->head == y->head && x->rank == y->rank && x->readers == y->readers && x->q_tok == y->q_tok &&
            x->k_tok == y->k_tok && a->n_failing_layers == b->n_failing_layers);
}

#include "coverage/prove.h"

#include <string.h>

#include "base/arith.h"
#include "pattern/dense.h"

/* Limits of the tables of reads; beyond them enumeration reports that it was limited. */
static const int64_t MOST_TABLE = INT64_C(1) << 28; /* cells of one layer */
static const int64_t MOST_CELLS = INT64_C(1) << 31; /* of all layers: about ten seconds per property */

/* reads[(head * n + q) * n + k] of one layer and phase, filled from the definition. */
typedef struct s2_table {
    const s2_pattern *pattern;
    int64_t n;
    uint8_t *reads;
    int32_t layer;
} s2_table;

static void table_fill(s2_table *table, s2_phase phase, int32_t layer)
{
    int64_t cell = 0;
    table->layer = layer;
    for (int32_t head = 0; head < table->pattern->n_heads; head++)
        for (int64_t q_tok = 0; q_tok < table->n; q_tok++)
            for (int64_t k_tok = 0; k_tok < table->n; k_tok++)
                table->reads[cell++] =
                    s2_pattern_reads(table->pattern, phase, layer, head, table->n, q_tok, k_tok);
}

static bool reads(const s2_table *table, int32_t head, int64_t q_tok, int64_t k_tok)
{
    return table->reads[(head * table->n + q_tok) * table->n + k_tok] != 0;
}

static bool any_reads(const s2_table *table, int32_t begin, int32_t end, int64_t q_tok, int64_t k_tok)
{
    for (int32_t head = begin; head < end; head++)
        if (reads(table, head, q_tok, k_tok))
            return true;
    return false;
}

/* The smallest place so far: pairs are offered in the order (context, query, key). */
typedef struct s2_place {
    bool found;
    int64_t context_tok;
    s2_witness witness;
} s2_place;

/* Is (q, k) a violation? Tables: [0] prefill, [1] decode. */
typedef struct s2_question {
    const s2_table *tables;
    int n_phases;
    s2_phase phase;
    int32_t head;
    int32_t begin; /* heads of a rank */
    int32_t end;
    int64_t window_blk; /* shards */
    int64_t window_tok;
    s2_witness *note; /* extra fields of the witness */
} s2_question;

static bool is_hole(const s2_question *question, int64_t q_tok, int64_t k_tok)
{
    return !any_reads(&question->tables[question->phase], question->begin, question->end, q_tok, k_tok);
}

static bool is_difference(const s2_question *question, int64_t q_tok, int64_t k_tok)
{
    const s2_table *const table = &question->tables[question->phase];
    const int32_t group = table->pattern->n_heads / s2_pattern_kv_heads(table->pattern, table->layer);
    return reads(table, question->head, q_tok, k_tok) !=
           reads(table, question->head / group * group, q_tok, k_tok);
}

static int32_t count_readers(const s2_table *table, int64_t q_tok, int64_t k_tok)
{
    const int32_t group = table->pattern->n_heads / s2_pattern_kv_heads(table->pattern, table->layer);
    int32_t n_readers = 0;
    for (int32_t head = 0; head < table->pattern->n_heads; head += group)
        n_readers += any_reads(table, head, head + group, q_tok, k_tok);
    return n_readers;
}

static bool is_badly_shared(const s2_question *question, int64_t q_tok, int64_t k_tok)
{
    const s2_table *const table = &question->tables[question->phase];
    const int64_t block = table->pattern->block_tok;
    if (k_tok > q_tok || q_tok / block - k_tok / block < question->window_blk ||
        q_tok - k_tok < question->window_tok)
        return false;
    question->note->readers = count_readers(table, q_tok, k_tok);
    return question->note->readers != 1;
}

typedef bool (*s2_is_violation)(const s2_question *question, int64_t q_tok, int64_t k_tok);

/* First violating pair in the order (context, query, key) of a context of n tokens. */
static s2_place first_pair(const s2_question *question, s2_is_violation is_violation, s2_witness witness)
{
    const s2_table *const table = &question->tables[question->phase];
    const bool causal = table->pattern->causal;
    for (int64_t context = 0; context < table->n; context++) {
        for (int64_t q_tok = causal ? context : 0; q_tok <= context; q_tok++) {
            for (int64_t k_tok = q_tok == context ? 0 : context; k_tok <= context; k_tok++) {
                if (is_violation(question, q_tok, k_tok)) {
                    const s2_witness note = *question->note;
                    witness.q_tok = q_tok;
                    witness.k_tok = k_tok;
                    witness.earlier_q_tok = note.earlier_q_tok;
                    witness.readers = note.readers;
                    return (s2_place){true, context, witness};
                }
            }
        }
    }
    return (s2_place){0};
}

/*
 * Visits queries in order; unread[k] is the first query from k on that left k unread, in this phase or one
 * before it. A key read after that is the violation.
 */
static s2_place first_revival(const s2_question *question, int64_t *unread, s2_witness witness)
{
    const int64_t n = question->tables[0].n;
    for (int64_t k_tok = 0; k_tok < n; k_tok++)
        unread[k_tok] = -1;
    for (int64_t q_tok = 0; q_tok < n; q_tok++) {
        for (int64_t k_tok = 0; k_tok <= q_tok; k_tok++) {
            if (unread[k_tok] < 0 || !reads(&question->tables[question->phase], question->head, q_tok, k_tok))
                continue;
            witness.q_tok = q_tok;
            witness.k_tok = k_tok;
            witness.earlier_q_tok = unread[k_tok];
            while (witness.earlier_phase < question->phase &&
                   reads(&question->tables[witness.earlier_phase], question->head, unread[k_tok], k_tok))
                witness.earlier_phase++;
            return (s2_place){true, q_tok, witness};
        }
        for (int64_t k_tok = 0; k_tok <= q_tok; k_tok++)
            for (int from = 0; from <= (int)question->phase && unread[k_tok] < 0; from++)
                if (!reads(&question->tables[from], question->head, q_tok, k_tok))
                    unread[k_tok] = q_tok;
    }
    return (s2_place){0};
}

static bool row_is_empty(const s2_table *table, int32_t head, int64_t q_tok, int64_t n_keys)
{
    for (int64_t k_tok = 0; k_tok < n_keys; k_tok++)
        if (reads(table, head, q_tok, k_tok))
            return false;
    return true;
}

/* Every length: the context that ends with the query. One length: that one, and the shortest that fails. */
static s2_place first_empty_row(const s2_table *table, int32_t head, bool every_length, s2_witness witness)
{
    s2_place place = {0};
    int64_t shortest = S2_OPEN;
    for (int64_t q_tok = 0; q_tok < table->n; q_tok++) {
        const bool at_end = row_is_empty(table, head, q_tok, q_tok + 1);
        if (at_end && shortest == S2_OPEN)
            shortest = q_tok;
        if (place.found || !(every_length ? at_end : row_is_empty(table, head, q_tok, table->n)))
            continue;
        witness.q_tok = q_tok;
        witness.k_tok = -1;
        place = (s2_place){true, q_tok, witness};
    }
    if (place.found && shortest < place.context_tok)
        place.context_tok = shortest;
    return place;
}

static void window_of(const s2_table *table, int64_t *blk, int64_t *tok)
{
    const int32_t group = table->pattern->n_heads / s2_pattern_kv_heads(table->pattern, table->layer);
    const int64_t block = table->pattern->block_tok;
    for (int32_t head = 0; head < table->pattern->n_heads; head += group) {
        for (int64_t q_tok = 0; q_tok < table->n; q_tok++) {
            for (int64_t k_tok = 0; k_tok <= q_tok; k_tok++) {
                if (any_reads(table, head, head + group, q_tok, k_tok))
                    continue;
                if (q_tok / block - k_tok / block < *blk)
                    *blk = q_tok / block - k_tok / block;
                if (q_tok - k_tok < *tok)
                    *tok = q_tok - k_tok;
            }
        }
    }
}

/* Depth by the definition: which tokens' information each token holds after each layer. */
static void flow(const s2_table *table, const uint8_t *before, uint8_t *after)
{
    const int64_t n = table->n;
    for (int64_t q_tok = 0; q_tok < n; q_tok++) {
        for (int64_t k_tok = 0; k_tok < n; k_tok++)
            after[q_tok * n + k_tok] = before[q_tok * n + k_tok];
        for (int64_t via = 0; via < n; via++) {
            if (!any_reads(table, 0, table->pattern->n_heads, q_tok, via))
                continue;
            for (int64_t k_tok = 0; k_tok < n; k_tok++)
                after[q_tok * n + k_tok] |= before[via * n + k_tok];
        }
    }
}

typedef struct s2_enumerator {
    s2_arena *arena;
    const s2_pattern *pattern;
    bool every_length;
    s2_table tables[S2_N_RULE_PHASES];
    int n_phases;
    s2_table window_table; /* shards: long enough to see the shared window */
    bool window_unseen;    /* seeing it would exceed the limits */
    int64_t *unread;       /* kv: one entry per key */
    bool has_dynamic;
    s2_verdict undecided;
} s2_enumerator;

static s2_witness witness_of(int phase, int32_t layer, int32_t head, int32_t rank)
{
    return (s2_witness){.phase = (s2_phase)phase,
                        .layer = layer,
                        .head = head,
                        .rank = rank,
                        .readers = -1,
                        .earlier_q_tok = -1};
}

/* Places are ordered by pair, equal pairs by layer and head; of equal places the first that was offered stays. */
static void offer(s2_place *best, s2_place place)
{
    if (!place.found)
        return;
    if (!best->found) {
        *best = place;
        return;
    }
    const int64_t context_tok = s2_min_i64(best->context_tok, place.context_tok);
    const s2_witness *const a = &place.witness, *const b = &best->witness;
    const int64_t mine[] = {s2_max_i64(a->q_tok, a->k_tok), a->q_tok, a->k_tok, a->layer, a->head},
                  theirs[] = {s2_max_i64(b->q_tok, b->k_tok), b->q_tok, b->k_tok, b->layer, b->head};
    int nth = 0;
    while (nth < 4 && mine[nth] == theirs[nth])
        nth++;
    if (mine[nth] < theirs[nth])
        *best = place;
    best->context_tok = context_tok;
}

/* Random lists and masks have no reads beyond the length asked for, so their window is that length's. */
static bool layer_is_explicit(const s2_pattern *pattern, int32_t layer)
{
    for (int32_t nth = 0; nth < S2_N_RULE_PHASES * pattern->n_heads; nth++) {
        const int32_t phase = nth / pattern->n_heads, head = nth % pattern->n_heads;
        const s2_body *const body = &pattern->bodies[s2_pattern_body(pattern, (s2_phase)phase, layer, head)];
        for (int32_t t = 0; t < body->n_terms; t++)
            if (body->terms[t].kind == S2_TERM_RANDOM || body->terms[t].kind == S2_TERM_MASK)
                return true;
    }
    return false;
}

static bool all_layers_are_explicit(const s2_pattern *pattern)
{
    for (int32_t layer = 0; layer < pattern->n_layers; layer++)
        if (!layer_is_explicit(pattern, layer))
            return false;
    return true;
}

static void enumerate_layer(s2_enumerator *enumerator, const s2_requirement *requirement, int32_t layer,
                            s2_place *best)
{
    const s2_pattern *const pattern = enumerator->pattern;
    const int32_t n_heads = pattern->n_heads;
    const int32_t n_ranks = requirement->property == S2_RANKS ? requirement->arg : 1;
    for (int phase = 0; phase < enumerator->n_phases; phase++) {
        s2_witness note = witness_of(phase, layer, -1, -1);
        s2_question question = {.tables = enumerator->tables,
                                .phase = (s2_phase)phase,
                                .note = &note,
                                .window_blk = S2_OPEN,
                                .window_tok = S2_OPEN};
        const bool per_head = requirement->property == S2_ROWS || requirement->property == S2_KV ||
                              requirement->property == S2_GROUP;
        for (int32_t head = 0; per_head && head < n_heads; head++) {
            const s2_witness witness = witness_of(phase, layer, head, -1);
            question.head = head;
            s2_place place;
            if (requirement->property == S2_ROWS)
                place = first_empty_row(&enumerator->tables[phase], head, enumerator->every_length, witness);
            else if (requirement->property == S2_KV)
                place = first_revival(&question, enumerator->unread, witness);
            else
                place = first_pair(&question, is_difference, witness);
            offer(best, place);
        }
        for (int32_t rank = 0; !per_head && rank < n_ranks; rank++) {
            question.begin = n_heads / n_ranks * rank;
            question.end = n_heads / n_ranks * (rank + 1);
            s2_is_violation test = is_hole;
            if (requirement->property == S2_SHARDS) {
                const bool explicit_reads = layer_is_explicit(pattern, layer);
                s2_table *const seen =
                    explicit_reads ? &enumerator->tables[phase] : &enumerator->window_table;
                table_fill(seen, (s2_phase)phase, layer);
                window_of(seen, &question.window_blk, &question.window_tok);
                test = is_badly_shared;
            }
            const int32_t named = requirement->property == S2_RANKS ? rank : -1;
            offer(best, first_pair(&question, test, witness_of(phase, layer, -1, named)));
        }
    }
}

static s2_status enumerate_depth(s2_enumerator *enumerator, int32_t depth, int32_t first_layer,
                                 s2_place *best)
{
    const int64_t n = enumerator->tables[0].n;
    uint8_t *before = S2_NEW(enumerator->arena, uint8_t, n * n),
            *after = S2_NEW(enumerator->arena, uint8_t, n * n);
    if (before == NULL || after == NULL)
        return S2_ENOMEM;
    for (int phase = 0; phase < enumerator->n_phases; phase++) {
        for (int64_t at = 0; at < n * n; at++)
            before[at] = at / n == at % n;
        for (int32_t layer = first_layer; layer < first_layer + depth; layer++) {
            table_fill(&enumerator->tables[0], (s2_phase)phase, layer);
            flow(&enumerator->tables[0], before, after);
            uint8_t *const swap = before;
            before = after;
            after = swap;
        }
        const bool causal = enumerator->pattern->causal;
        s2_place place = {0};
        for (int64_t context = 0; context < n && !place.found; context++)
            for (int64_t q_tok = causal ? context : 0; q_tok <= context && !place.found; q_tok++)
                for (int64_t k_tok = q_tok == context ? 0 : context; k_tok <= context && !place.found;
                     k_tok++)
                    if (before[q_tok * n + k_tok] == 0) {
                        place = (s2_place){true, context, witness_of(phase, first_layer, -1, -1)};
                        place.witness.q_tok = q_tok;
                        place.witness.k_tok = k_tok;
                    }
        offer(best, place);
    }
    return S2_OK;
}

/* Whether the layer keeps a state and none of its heads has a term that may read. */
static bool is_state_layer(const s2_pattern *pattern, int32_t layer)
{
    if (pattern->layer_shapes == NULL || pattern->layer_shapes[layer].state_bytes == 0)
        return false;
    for (int32_t cell = 0; cell < S2_N_RULE_PHASES * pattern->n_heads; cell++) {
        const s2_phase phase = (s2_phase)(cell / pattern->n_heads);
        const s2_body *const body =
            &pattern->bodies[s2_pattern_body(pattern, phase, layer, cell % pattern->n_heads)];
        for (int32_t t = 0; t < body->n_terms; t++)
            if (body->terms[t].kind != S2_TERM_NONE)
                return false;
    }
    return true;
}

static bool has_state_layer(const s2_pattern *pattern, int32_t first_layer, int32_t n_window)
{
    for (int32_t layer = first_layer; layer < first_layer + n_window; layer++)
        if (is_state_layer(pattern, layer))
            return true;
    return false;
}

static s2_status enumerate_one(s2_enumerator *enumerator, const s2_requirement *requirement,
                               s2_finding *finding)
{
    const int32_t n_layers = enumerator->pattern->n_layers;
    const bool depth = requirement->property == S2_DEPTH;
    const int32_t n_window = depth && requirement->arg < n_layers ? requirement->arg : depth ? n_layers : 1;
    int32_t *const failing = S2_NEW(enumerator->arena, int32_t, n_layers);
    if (failing == NULL)
        return S2_ENOMEM;
    finding->failing_layers = failing;
    bool judged = false;
    s2_place smallest = {0};
    for (int32_t layer = 0; layer + n_window <= n_layers; layer++) {
        if (!depth && is_state_layer(enumerator->pattern, layer))
            continue;
        judged = true;
        s2_place best = {0};
        if (depth) {
            S2_TRY(enumerate_depth(enumerator, n_window, layer, &best));
        } else {
            for (int phase = 0; phase < enumerator->n_phases; phase++)
                table_fill(&enumerator->tables[phase], (s2_phase)phase, layer);
            enumerate_layer(enumerator, requirement, layer, &best);
        }
        if (!best.found)
            continue;
        if (depth && has_state_layer(enumerator->pattern, layer, n_window)) {
            if (finding->verdict == S2_HOLDS)
                finding->verdict = S2_UNKNOWN;
            finding->reason = S2_REASON_STATE;
            continue;
        }
        offer(&smallest, best);
        finding->verdict = S2_VIOLATED;
        finding->witness = smallest.witness;
        finding->complete_to_tok = smallest.context_tok;
        failing[finding->n_failing_layers++] = layer;
    }
    if (!judged) {
        finding->verdict = S2_UNKNOWN;
        finding->reason = S2_REASON_STATE;
    }
    return S2_OK;
}

static bool pattern_has(const s2_pattern *pattern, bool (*is)(const s2_term *))
{
    s2_term_walk walk = {.pattern = pattern};
    for (const s2_term *term; (term = s2_term_next(&walk)) != NULL;)
        if (is(term))
            return true;
    return false;
}

static bool is_random(const s2_term *term)
{
    return term->kind == S2_TERM_RANDOM;
}

static s2_status table_init(s2_arena *arena, const s2_pattern *pattern, int64_t n, s2_table *table)
{
    *table = (s2_table){pattern, n, S2_NEW(arena, uint8_t, n * n * pattern->n_heads), 0};
    return table->reads != NULL ? S2_OK : S2_ENOMEM;
}

static s2_status enumerate_all(s2_enumerator *enumerator, const s2_requirement *requirements, int32_t n,
                               int64_t n_tok, int64_t window_tok, s2_finding *findings)
{
    const s2_pattern *const pattern = enumerator->pattern;
    const bool random = pattern_has(pattern, is_random);
    enumerator->n_phases = s2_pattern_has_phases(pattern) ? S2_N_RULE_PHASES : 1;
    for (int phase = 0; phase < S2_N_RULE_PHASES; phase++)
        S2_TRY(table_init(enumerator->arena, pattern, n_tok, &enumerator->tables[phase]));
    S2_TRY(table_init(enumerator->arena, pattern, window_tok, &enumerator->window_table));
    enumerator->unread = S2_NEW(enumerator->arena, int64_t, n_tok);
    if (enumerator->unread == NULL)
        return S2_ENOMEM;
    for (int32_t r = 0; r < n; r++) {
        S2_TRY(enumerate_one(enumerator, &requirements[r], &findings[r]));
        const bool no_theorem = random || requirements[r].property == S2_DEPTH;
        if (findings[r].verdict == S2_HOLDS && enumerator->every_length && no_theorem) {
            findings[r].verdict = S2_UNKNOWN;
            findings[r].reason = random ? S2_REASON_RANDOM : S2_REASON_BEYOND;
            findings[r].reason_tok = n_tok;
        }
        const bool unseen = enumerator->window_unseen && !all_layers_are_explicit(pattern);
        if (requirements[r].property == S2_SHARDS && (unseen || !pattern->causal)) {
            findings[r].verdict = S2_UNKNOWN;
            findings[r].reason = pattern->causal ? S2_REASON_LIMIT : S2_REASON_CAUSAL;
        }
    }
    return S2_OK;
}

/* Can tables of n_tok tokens be filled for every layer? */
static bool is_within_limits(const s2_pattern *pattern, int64_t n_tok)
{
    if (n_tok > S2_ENUMERATE_LIMIT_TOK)
        return false;
    const int64_t cells = n_tok * n_tok * pattern->n_heads;
    return cells <= MOST_TABLE && cells * pattern->n_layers <= MOST_CELLS;
}

/* ---- a question about blocks ------------------------------------------------------------------------ */

static bool is_in_tokens(const s2_term *term)
{
    bool in_tokens = term->tok || s2_term_is_dynamic(term);
    for (int quantity = 0; quantity < S2_N_WHEN; quantity++)
        in_tokens |=
            term->when[quantity][S2_UNIT_TOK].begin > 0 || term->when[quantity][S2_UNIT_TOK].end != S2_OPEN;
    return in_tokens;
}

/*
 * Where every quantity is in blocks, whether a query reads a key depends on their blocks and, when causal, on
 * which comes first. The first token of a block then stands for the block: it is the smallest query and the
 * smallest key that reads, or does not. The same numbers with blocks of one token ask the same. Shards
 * and depth count tokens and are excluded; so is kv where decode may read a key that prefill left unread at
 * the query before, in the same block.
 */
static bool is_of_blocks(const s2_pattern *pattern, const s2_requirement *requirements, int32_t n)
{
    for (int32_t r = 0; r < n; r++)
        if (requirements[r].property == S2_SHARDS || requirements[r].property == S2_DEPTH ||
            (requirements[r].property == S2_KV && s2_pattern_has_phases(pattern)))
            return false;
    return pattern->block_tok > 1 && !pattern_has(pattern, is_in_tokens);
}

static int64_t times(int64_t n_blk, int64_t block_tok)
{
    return n_blk == S2_OPEN || n_blk < 0 ? n_blk : n_blk * block_tok;
}

/* Turn the block numbers of a finding into token numbers. */
static void to_tokens(s2_finding *finding, int64_t block_tok, int64_t scope_tok)
{
    finding->scope_tok = scope_tok;
    finding->complete_to_tok = times(finding->complete_to_tok, block_tok);
    finding->reason_tok = times(finding->reason_tok, block_tok);
    finding->witness.q_tok = times(finding->witness.q_tok, block_tok);
    finding->witness.k_tok = times(finding->witness.k_tok, block_tok);
    finding->witness.earlier_q_tok = times(finding->witness.earlier_q_tok, block_tok);
}

static s2_status enumerate_into(s2_arena *arena, const s2_pattern *pattern,
                                const s2_requirement *requirements, int32_t n,
                                const s2_prove_options *options, s2_finding *findings)
{
    int64_t sufficient = 0, n_tok = s2_prove_scope(pattern, options->n_tok);
    S2_TRY(s2_sufficient_length(arena, pattern, &sufficient));
    for (int32_t r = 0; r < n; r++)
        findings[r] = (s2_finding){.requirement = requirements[r], .scope_tok = n_tok};
    s2_enumerator enumerator = {.pattern = pattern, .every_length = n_tok == S2_OPEN};
    n_tok = n_tok == S2_OPEN ? sufficient : n_tok;
    enumerator.window_unseen = !is_within_limits(pattern, sufficient);
    const int64_t window_tok = enumerator.window_unseen ? n_tok : sufficient;
    const bool dynamic = pattern_has(pattern, s2_term_is_dynamic);
    if (dynamic || !is_within_limits(pattern, n_tok)) {
        for (int32_t r = 0; r < n; r++) {
            findings[r].verdict = S2_UNKNOWN;
            findings[r].reason = dynamic ? S2_REASON_ENGINE : S2_REASON_LIMIT;
        }
        return S2_OK;
    }
    s2_arena tables = {0};
    enumerator.arena = &tables;
    s2_status status = enumerate_all(&enumerator, requirements, n, n_tok, window_tok, findings);
    for (int32_t r = 0; status == S2_OK && r < n; r++) {
        int32_t *const kept = S2_NEW(arena, int32_t, findings[r].n_failing_layers + 1);
        if (kept == NULL)
            status = S2_ENOMEM;
        for (int32_t at = 0; status == S2_OK && at < findings[r].n_failing_layers; at++)
            kept[at] = findings[r].failing_layers[at];
        findings[r].failing_layers = kept;
    }
    s2_arena_release(&tables);
    return status;
}

static s2_status enumerate_blocks(s2_arena *arena, const s2_pattern *pattern,
                                  const s2_requirement *requirements, int32_t n,
                                  const s2_prove_options *options, s2_finding *findings)
{
    const int64_t block_tok = pattern->block_tok, scope_tok = s2_prove_scope(pattern, options->n_tok);
    s2_pattern blocks = *pattern;
    s2_prove_options in_blocks = *options;
    blocks.block_tok = 1;
    if (options->n_tok != S2_OPEN)
        in_blocks.n_tok = s2_ceil_div(options->n_tok, block_tok);
    S2_TRY(enumerate_into(arena, &blocks, requirements, n, &in_blocks, findings));
    for (int32_t r = 0; r < n; r++)
        to_tokens(&findings[r], block_tok, scope_tok);
    return S2_OK;
}

s2_status s2_enumerate(s2_arena *arena, const s2_pattern *pattern, const s2_requirement *requirements,
                       int32_t n, const s2_prove_options *options, s2_finding *findings)
{
    s2_finding *const counted = S2_NEW(arena, s2_finding, n);
    if (counted == NULL)
        return S2_ENOMEM;
    S2_TRY(is_of_blocks(pattern, requirements, n)
               ? enumerate_blocks(arena, pattern, requirements, n, options, counted)
               : enumerate_into(arena, pattern, requirements, n, options, counted));
    if (n > 0)
        memcpy(findings, counted, (size_t)n * sizeof *findings);
    return S2_OK;
}

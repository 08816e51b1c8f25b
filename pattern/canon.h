/*
 * pattern/canon.h - one form for terms, bodies and selectors that can be written in several ways.
 *
 * The parser builds canonical terms and the printer canonicalises whatever it is given, so a text
 * depends on the pattern alone and never on how it was made. docs/pattern-language.md states the
 * rules; this is their one implementation.
 *
 * Ownership: results live in the given arena. Threads: no state.
 */
#ifndef S2_PATTERN_CANON_H
#define S2_PATTERN_CANON_H

#include "base/text.h"
#include "pattern/spec.h"

/*
 * Token quantities that are whole blocks become blocks where the reads stay the same, lists are
 * sorted and merged, `when` bounds take their simplest unit. S2_ENOMEM; S2_EINVAL when conditions
 * exclude each other, so that the term could never read.
 */
s2_status s2_term_canonical(s2_arena *arena, int32_t block_tok, const s2_term *term,
                            s2_term *out) S2_MUST_CHECK;

/* Drop repetitions from canonical terms; `none` if no term is left. S2_ENOMEM. */
s2_status s2_body_distinct(s2_arena *arena, const s2_body *body, s2_body *out) S2_MUST_CHECK;

/* Make every term canonical and drop repetitions; `none` if no term is left. */
s2_status s2_body_canonical(s2_arena *arena, int32_t block_tok, const s2_body *body,
                            s2_body *out) S2_MUST_CHECK;

/* Texts by content: the number of a text is the order in which it was first added. */
typedef struct s2_text_set {
    int32_t n;
    int32_t cap;    /* slots, a power of two */
    int32_t *slot;  /* number + 1, or 0 */
    uint64_t *hash; /* of each text */
    const char **text;
    size_t *n_bytes;
} s2_text_set;

/* *out is the number of the text, which is copied when new. Zero-initialise the set. S2_ENOMEM. */
s2_status s2_text_set_add(s2_arena *arena, s2_text_set *set, const char *text, size_t n_bytes,
                          int32_t *out) S2_MUST_CHECK;

/* Append "..." as the parser reads it, with \" and \\ escaped. */
void s2_quoted_print(const char *text, s2_buf *buf);

/* A rule of the canonical text. Its cells are layers x heads in the phases of the mask. */
typedef struct s2_rule {
    int32_t body;
    uint32_t phases; /* bit per s2_phase */
    int32_t n_layers;
    const int32_t *layers;
    int32_t n_heads;
    const int32_t *heads;
} s2_rule;

typedef struct s2_rule_list {
    int32_t n_rules;
    const s2_rule *rules;
    int32_t fallback; /* the body of the leading `layers all` rule, or -1 */
} s2_rule_list;

/*
 * The canonical rules of a pattern whose cell c has body class_of[body_of[c]]; text_bytes[b] is the
 * length of the text of body b (n_classes of them). S2_ENOMEM; S2_ELIMIT when more than
 * S2_LIMIT_RULES would be needed.
 */
s2_status s2_rules_build(s2_arena *arena, const s2_pattern *pattern, const int32_t *class_of,
                         int32_t n_classes, const size_t *text_bytes, s2_rule_list *out) S2_MUST_CHECK;

/* The selector of a rule ("decode layers 1::2 kv 0-3"). */
void s2_selector_print(const s2_pattern *pattern, const s2_rule *rule, s2_buf *buf);

#endif /* S2_PATTERN_CANON_H */

/*
 * pattern/parser.h - what the files of the parser share: pattern/parse.c reads the shape, parse_term.c
 * bodies, parse_rule.c selectors and which rule wins. Nothing else includes it.
 *
 * Three passes over the statements: first the numbers of the shape, then those that layers have of their own,
 * so that a rule may come before what it refers to; then the rules, each into bit sets of its layers and
 * heads. Rules are resolved from the last to the first: a cell that already has a body is never visited
 * again, and a step handles sixty-four heads, so 4096 rules on 1024 layers of 4096 heads take a fraction of a
 * second.
 */
#ifndef S2_PATTERN_PARSER_H
#define S2_PATTERN_PARSER_H

#include "pattern/canon.h"
#include "pattern/lex.h"
#include "pattern/models.h"
#include "pattern/parse.h"

/* A rule as read: its cells are layers x heads in the phases of the mask. */
typedef struct s2_parsed_rule {
    uint32_t phases;
    int32_t body;
    size_t begin;     /* offset in the text */
    uint64_t *layers; /* bit sets */
    uint64_t *heads;
} s2_parsed_rule;

/* A layer's own number and where it is stated. */
typedef struct s2_own_number {
    int64_t value;
    size_t stated; /* offset + 1, 0: not stated */
} s2_own_number;

typedef struct s2_parser {
    s2_lex lex;
    s2_arena *arena;  /* for the result */
    s2_arena scratch; /* released when parsing ends */
    s2_buf text;      /* of the current body */
    const s2_parse_options *options;

    const char *name; /* NULL: not stated */
    const s2_model *model;
    int64_t shape[S2_N_SHAPE_WORDS];
    size_t shape_stated[S2_N_SHAPE_WORDS]; /* offset + 1 of the statement, 0: not stated */
    bool has_causal, causal;
    s2_own_number *own[S2_N_LAYER_WORDS]; /* one per layer; NULL: no layer has one */

    int32_t layer_words, head_words; /* of the bit sets */
    int32_t n_rules;
    int64_t cap_rules;
    s2_parsed_rule *rules;
    s2_text_set body_texts; /* bodies by their canonical text */
    int64_t cap_bodies;
    s2_body *bodies;
    int32_t n_masks;
    int64_t cap_masks;
    s2_mask **masks;
} s2_parser;

#define S2_REFUSE(p, code, place, ...) s2_lex_refuse(&(p)->lex, code, place, __VA_ARGS__)

/* Refuse a statement whose word stood before: S2_EPARSE at `place`. */
s2_status s2_parse_refuse_twice(s2_parser *p, size_t place, const char *word);

/* Consume the word if it is next. */
bool s2_parse_take_word(s2_parser *p, const char *text);

/* The shape number that the word names, or S2_N_SHAPE_WORDS. */
int s2_parse_shape_word(s2_word word);

/* True, with its first word consumed, when the statement at the cursor belongs to the shape. */
bool s2_parse_starts_shape(s2_parser *p, s2_word *word);

/* Whether the word is in the NULL-terminated list. */
bool s2_word_among(s2_word word, const char *const *list);

/* The kind of term that the word names, or S2_N_TERM_KINDS. */
int s2_parse_term_kind(s2_word word);

/* The span of a list item; its end is S2_OPEN where the text leaves it open. */
s2_status s2_parse_item_span(s2_parser *p, const s2_item *item, s2_span *out) S2_MUST_CHECK;

/* Skip a statement of any kind. */
void s2_parse_skip_statement(s2_parser *p);

/* S2_EPARSE unless the statement ends here; `after` is what was read last, for the message. */
s2_status s2_parse_expect_end(s2_parser *p, const char *after);

/* Set bits begin, begin + step, ... below end; at most one operation per word for steps up to 64. */
void s2_set_bits(uint64_t *words, int64_t begin, int64_t end, int64_t step);

/* A LIST of indices below n_all into a bit set. */
s2_status s2_parse_indices(s2_parser *p, const char *what, int64_t n_all, uint64_t *bits) S2_MUST_CHECK;

/* `layers LIST: WORD N`: test for such a statement, read them all, and look up the layers that result. */
bool s2_parse_starts_layer_number(const s2_parser *p);
s2_status s2_parse_layer_numbers(s2_parser *p) S2_MUST_CHECK;
bool s2_parse_layer_has_state(const s2_parser *p, int64_t layer);
int64_t s2_parse_layer_kv_heads(const s2_parser *p, int64_t layer);
s2_status s2_parse_layer_shapes(s2_parser *p, s2_pattern *out) S2_MUST_CHECK;

/* A body; *out is its number, the same for bodies of the same canonical text. */
s2_status s2_parse_body(s2_parser *p, int32_t *out) S2_MUST_CHECK;
/* The body `none`, for cells without a rule. */
s2_status s2_parse_empty_body(s2_parser *p, int32_t *out) S2_MUST_CHECK;

/* Every rule of the text, then the body of each cell. */
s2_status s2_parse_rules(s2_parser *p) S2_MUST_CHECK;
s2_status s2_parse_resolve(s2_parser *p, s2_pattern *out) S2_MUST_CHECK;

#endif /* S2_PATTERN_PARSER_H */

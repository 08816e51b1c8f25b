/*
 * cert/cert.h - the checker of certificates, which shares no code with what it checks.
 *
 * Nothing here includes another room, not even base/. cert/read.c reads the canonical language and refuses
 * every other text; it calls cert/rules.c, which refuses rules that the canonical printer would have written
 * otherwise, and cert/decide.c, which defines each static term and decides the claims by the theorem of
 * docs/proof.md, which also has the grammar. All three refuse through cert/refuse.c, and none calls back.
 *
 * Units: tokens, unless a name says blocks. Ownership: a check owns what it allocates and frees it; the
 * answer is the caller's. Threads: no state outside the call.
 */
#ifndef S2_CERT_CERT_H
#define S2_CERT_CERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The values are the exit codes of s2cert. */
typedef enum s2_cert_verdict {
    S2_CERT_VERIFIED = 0,
    S2_CERT_REFUTED = 1,   /* a claim does not hold, or the hash is that of another text */
    S2_CERT_MALFORMED = 3, /* not a certificate, or its text is not canonical */
    S2_CERT_UNDECIDED = 4, /* a term that this checker does not know, or more work than allowed */
    S2_CERT_NO_MEMORY = 5
} s2_cert_verdict;

enum { S2_CERT_MOST_BYTES = (1 << 20) + 4096, S2_CERT_MOST_CLAIMS = 16, S2_CERT_HASH = 65 };
/* Steps (a term at a pair) that s2cert allows itself: seconds. */
#define S2_CERT_MOST_STEPS 2e9

typedef struct s2_cert_answer {
    s2_cert_verdict verdict;
    char reason[160]; /* in the checker's own words; quotes nothing of the certificate */
    char claims[256]; /* for a verified certificate: "claims rows union" */
    char hash[S2_CERT_HASH];
} s2_cert_answer;

/* Check a certificate of n bytes. The work is computed first and not started if above most_steps. */
void s2_cert_check(const char *bytes, size_t n, double most_steps, s2_cert_answer *out);

/* ---- between the files of cert/ */

enum {
    S2_CERT_LAYERS = 1024,
    S2_CERT_HEADS = 4096,
    S2_CERT_RULES = 4096,
    S2_CERT_TOK = 1 << 24,
    S2_CERT_TEXT_BYTES = 1 << 20,
    S2_CERT_PHASES = 2 /* prefill, decode */
};
#define S2_CERT_OPEN INT64_MAX

typedef enum s2_cert_kind {
    S2_CERT_DENSE,
    S2_CERT_NONE,
    S2_CERT_LOCAL,
    S2_CERT_SINK,
    S2_CERT_STRIDE,
    S2_CERT_DILATED,
    S2_CERT_CHUNK,
    S2_CERT_COLUMNS,
    S2_CERT_ROWS_TERM
} s2_cert_kind;

typedef enum s2_cert_property {
    S2_CERT_UNION,
    S2_CERT_RANKS,
    S2_CERT_DEPTH,
    S2_CERT_SHARDS,
    S2_CERT_ROWS,
    S2_CERT_KV,
    S2_CERT_GROUP
} s2_cert_property;
extern const char *const s2_cert_properties[];

typedef struct s2_cert_range {
    int64_t begin, end, step; /* end may be S2_CERT_OPEN */
} s2_cert_range;

enum { S2_CERT_DISTANCE, S2_CERT_KEY, S2_CERT_QUERY, S2_CERT_QUANTITIES };
enum { S2_CERT_IN_BLOCKS, S2_CERT_IN_TOKENS, S2_CERT_UNITS };

typedef struct s2_cert_term {
    s2_cert_kind kind;
    bool tok; /* n, width, coef and the list count tokens, else blocks */
    int64_t n, width;
    int64_t coef[4];      /* of the phase: head, kv, layer, constant */
    int32_t list, n_list; /* ranges[list .. list + n_list) of columns and rows */
    s2_cert_range when[S2_CERT_QUANTITIES][S2_CERT_UNITS];
} s2_cert_term;

typedef struct s2_cert_body {
    const char *text;
    size_t n_text;
    int32_t first_term, n_terms;
    int32_t cost; /* steps that one pair takes */
} s2_cert_body;

typedef struct s2_cert_rule {
    int32_t body;
    unsigned phases; /* bit per phase */
    size_t n_selector;
    uint64_t layers[S2_CERT_LAYERS / 64], heads[S2_CERT_HEADS / 64];
} s2_cert_rule;

typedef struct s2_cert_claim {
    s2_cert_property property;
    int64_t arg; /* ranks and depth, else 1 */
} s2_cert_claim;

typedef struct s2_cert {
    const char *text, *pos, *end; /* the file, the cursor, the end of what is being read */
    s2_cert_answer *answer;
    int64_t n_layers, n_heads, n_kv, block;
    bool causal;
    int32_t n_terms, cap_terms, n_ranges, cap_ranges, n_bodies, cap_bodies, n_rules, cap_rules;
    s2_cert_term *terms;
    s2_cert_range *ranges;
    s2_cert_body *bodies;
    s2_cert_rule *rules; /* in the order of the text, without the fallback */
    int32_t fallback;    /* body of the leading rule, for everything that no other rule selects; or -1 */
    uint16_t *body_of;   /* [phase][layer][head] */
    int32_t n_claims;
    s2_cert_claim claims[S2_CERT_MOST_CLAIMS];
} s2_cert;

/* Keep the first refusal; always false. */
bool s2_cert_refuse(s2_cert *c, s2_cert_verdict verdict, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Make room for one more than n items; NULL, with the answer set, when memory ran out. */
void *s2_cert_grow(s2_cert *c, void *items, int32_t n, int32_t *cap, size_t item_bytes);

/* The canonical selector of a rule; *out is released by the caller. False when memory ran out. */
bool s2_cert_selector(s2_cert *c, const s2_cert_rule *rule, char **out, size_t *n_out);
/* Resolve the rules into body_of, and refuse them unless the canonical printer writes exactly these. */
bool s2_cert_resolve(s2_cert *c);
/* Decide every claim. */
bool s2_cert_decide(s2_cert *c, double most_steps);

static inline bool s2_cert_in(const uint64_t *set, int64_t index)
{
    return set[index / 64] >> (index % 64) & 1;
}

static inline uint16_t *s2_cert_row(const s2_cert *c, int64_t phase, int64_t layer)
{
    return c->body_of + (phase * c->n_layers + layer) * c->n_heads;
}

#endif /* S2_CERT_CERT_H */

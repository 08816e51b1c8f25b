/*
 * export/restriction.h - which designs a search may keep, beyond proof and price: those that a stack can run
 * and that have a given number of dense layers.
 *
 * Ownership: plain data. Threads: s2_restriction_accepts may run in several at once.
 */
#ifndef S2_EXPORT_RESTRICTION_H
#define S2_EXPORT_RESTRICTION_H

#include "export/registry.h"

enum { S2_RESTRICT_FORMATS = 8, S2_RESTRICT_ANY = -1 };

typedef struct s2_restriction {
    int32_t n_formats; /* each must be able to hold the design exactly */
    const s2_format *formats[S2_RESTRICT_FORMATS];
    int64_t n_dense_layers; /* exactly; S2_RESTRICT_ANY: any number */
    int64_t n_tok;          /* the length for formats of a fixed length */
    int32_t n_ranks; /* GPUs that share the heads; formats that depend on it are written for one of them */
} s2_restriction;

/* That of one format alone; NULL: of none yet. */
void s2_restriction_of(const s2_format *format, int64_t len_tok, int32_t n_ranks, s2_restriction *out);
/* The first of its formats whose stack never frees KV cache pages, or NULL. */
const s2_format *s2_restriction_keeper(const s2_restriction *restriction);
bool s2_restriction_restricts(const s2_restriction *restriction);
/* Sets *diag to why a pattern is not accepted: the reason of the first format that cannot hold it. */
s2_status s2_restriction_refusal(const s2_restriction *restriction, const s2_pattern *pattern,
                                 s2_diag *diag) S2_MUST_CHECK;
/* An s2_search_accept_fn (search/search.h) whose user is the restriction. */
s2_status s2_restriction_accepts(const void *restriction, const s2_pattern *pattern,
                                 bool *accepted) S2_MUST_CHECK;

#endif /* S2_EXPORT_RESTRICTION_H */

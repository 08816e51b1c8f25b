/*
 * export/kept.h - what a quantized checkpoint leaves in the type of activations: modules by their names.
 *
 * Files name modules in three ways: by a part of the path ("self_attn", "model.layers.3.mlp"), by a shell's wildcards
 * ("model.layers.*.self_attn*") and by an expression ("re:.*mlp[.](gate|up)_proj$"). Names of the matrices that a model
 * of a known kind has are held against them, layer by layer.
 *
 * Ownership: lists live in an arena and point into the document. Threads: no state.
 */
#ifndef S2_EXPORT_KEPT_H
#define S2_EXPORT_KEPT_H

#include "base/arena.h"
#include "base/net.h"

typedef struct s2_module_name {
    const char *text;
    int32_t layer; /* that it names; -1: none */
    bool is_glob;
    bool used; /* it named a matrix */
} s2_module_name;

typedef struct s2_module_names {
    s2_arena *arena;
    s2_module_name *names;
    int32_t n, room, n_anywhere;
    int32_t begin, end; /* of the layer looked at: names are sorted by layer, those of none first */
    int64_t n_experts;  /* names of an expert by its number, of which only the first is looked for ... */
    int64_t n_first;    /* ... and those of the first */
    bool all;           /* "Linear": every matrix of the layers */
    bool unclear;       /* something in the list is not understood */
} s2_module_names;

/* Adds a name as a file writes it; what is not understood makes the list unclear. S2_ENOMEM. */
s2_status s2_module_names_add(s2_module_names *list, const char *text) S2_MUST_CHECK;
/* Adds an expression as Python's re.match takes it. S2_ENOMEM. */
s2_status s2_module_names_add_regex(s2_module_names *list, const char *text) S2_MUST_CHECK;

/* Modules that a checkpoint stores in one type. */
enum { S2_MOST_STORED = 8 };
typedef struct s2_stored_group {
    s2_weights stored;
    double bits; /* of a weight, with its part of a scale */
    s2_module_names targets;
} s2_stored_group;
typedef struct s2_stored_groups {
    s2_stored_group list[S2_MOST_STORED];
    int32_t n;
    s2_module_names ignored;
} s2_stored_groups;

/*
 * net->kept, bits, in_fp8 and stored, of a checkpoint that stores the matrices of each group but for those of
 * `ignored`. A group that names a module goes before one that takes all. False where a name in a list is not
 * understood, or names no matrix that is known here and nothing that has no price anyway, or where two groups name the
 * same.
 */
bool s2_kept_read(s2_stored_groups *groups, s2_net *net);

#endif /* S2_EXPORT_KEPT_H */

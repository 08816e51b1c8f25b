/*
 * export/tree.h - the readers behind export/doc.h: a text becomes a jansson tree whose values know their
 * position.
 *
 * HJSON is what DeepSpeed reads: JSON with comments, names without quotes, commas left out at line ends.
 * Its reader also takes dictionaries printed by Python (single quotes, True, None). The YAML reader
 * accepts only what configurations need: block mappings and their contents. Anchors, aliases and tags are
 * refused, so a file is never larger in memory than a fixed multiple of its text.
 *
 * Invariants: at most S2_TREE_DEPTH containers inside each other; keys below S2_TREE_KEY bytes, unique.
 * Ownership:  the caller releases the tree on every outcome. Threads: one tree, one thread.
 */
#ifndef S2_EXPORT_TREE_H
#define S2_EXPORT_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct json_t;

enum { S2_TREE_DEPTH = 64, S2_TREE_KEY = 256 };

/* Position of the n-th member or element of a container. */
typedef struct s2_mark {
    const struct json_t *parent;
    int64_t ordinal;
    int32_t line;
    int32_t col;
} s2_mark;

typedef struct s2_tree {
    struct json_t *root;
    s2_mark *marks;
    int64_t n_marks;
    int64_t cap;
} s2_tree;

/* Frees the document and the marks. */
void s2_tree_release(s2_tree *tree);

/*
 * A word of a text without quotes: true, false, null and their Python forms, a decimal number, else a string. What the
 * programs that read such texts take for different numbers is a string, too.
 */
struct json_t *s2_tree_scalar(const char *text);

/* S2_EPARSE with a position; S2_ENOMEM. */
s2_status s2_tree_hjson(const char *text, size_t n_bytes, s2_tree *tree, s2_diag *diag) S2_MUST_CHECK;

/* As above. S2_EUNSUPPORTED when the text is not a block mapping at all: another reader may know it. */
s2_status s2_tree_yaml(const char *text, size_t n_bytes, s2_tree *tree, s2_diag *diag) S2_MUST_CHECK;

/*
 * Put a value (its reference is consumed on every outcome) into an object under key, or at the end of an
 * array, and note its position. S2_EINVAL: the key is there already; S2_ENOMEM.
 */
s2_status s2_tree_put(s2_tree *tree, struct json_t *parent, const char *key, struct json_t *value,
                      int32_t line, int32_t col) S2_MUST_CHECK;

/* The position of a member (by key) or element (by index) of a container; NULL: not noted. */
const s2_mark *s2_tree_find(const s2_tree *tree, struct json_t *parent, const char *name);

#endif /* S2_EXPORT_TREE_H */

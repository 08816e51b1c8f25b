/*
 * sim/share.h - the heads that one GPU of several has: tensor parallelism.
 *
 * Each of n GPUs has n_heads / n query heads with their KV heads. Where there are more GPUs than KV heads,
 * each KV head is on n / n_kv_heads of them, and its query heads are split. What a GPU reads, keeps and how
 * long it takes depends on its own heads alone, so a share is priced as a pattern.
 *
 * Ownership: what a share points to lives in the arena and in the classes it was made of. Threads: no state.
 */
#ifndef S2_SIM_SHARE_H
#define S2_SIM_SHARE_H

#include "base/dtype.h"
#include "sim/classes.h"

/* The query heads of one GPU; those of one KV head are adjacent. */
typedef struct s2_share_heads {
    int32_t n_heads;
    const int32_t *heads; /* n_heads numbers of heads in the whole pattern */
} s2_share_heads;

enum { S2_CODE_SHARE = 702 };

/*
 * Requires that n_ranks GPUs can share the heads evenly: all have equally many query heads and, in each layer,
 * equally many whole KV heads or a copy of one. S2_EINVAL with the reason in *diag (or NULL).
 */
s2_status s2_share_check(const s2_pattern *pattern, int32_t n_ranks, s2_diag *diag) S2_MUST_CHECK;

/*
 * The heads of GPU `rank` of n_ranks, when the n_kv_heads KV heads are dealt out in the order
 * order[n_kv_heads]; NULL: as they are numbered. S2_ENOMEM.
 */
s2_status s2_share_deal(s2_arena *arena, int32_t n_heads, int32_t n_kv_heads, int32_t n_ranks, int32_t rank,
                        const int32_t *order, s2_share_heads *out) S2_MUST_CHECK;

/* The KV heads that a GPU has of these, whole ones or a copy of one; and the numbers of a token's K and V in them. */
int32_t s2_share_kv_heads(int32_t n_kv_heads, int32_t n_ranks);
double s2_share_kv_width(int32_t n_kv_heads, int32_t head_dim, int32_t n_ranks);
/* Their bytes, where GPUs send them to one another and hold those of others. */
double s2_share_kv_bytes(int32_t n_kv_heads, int32_t head_dim, int32_t n_ranks, s2_dtype dtype);

/* Whether two GPUs read the same in a class of layers (sim/classes.h). */
bool s2_share_alike(const int32_t *head_class, const s2_share_heads *a, const s2_share_heads *b);

/* Layers [begin, end) as a pattern. Its random lists are drawn anew. S2_ENOMEM; S2_EUNSUPPORTED, with the reason in
 * *diag, where a layer reads keys of one that is left out. */
s2_status s2_share_layers(s2_arena *arena, const s2_pattern *whole, int32_t begin, int32_t end,
                          s2_pattern *out, s2_diag *diag) S2_MUST_CHECK;
/* Whether two layers have one shape and, whatever their number, read the same. */
bool s2_share_layers_alike(const s2_pattern *pattern, int32_t a, int32_t b);

/* Do not copy: classes.pattern points to `shape`. */
typedef struct s2_share {
    s2_pattern shape; /* only its head counts hold; its rules are not the share's */
    s2_classes classes;
} s2_share;

/* Layer classes [class_begin, class_end) of those heads, for counting. S2_ENOMEM. */
s2_status s2_share_classes(s2_arena *arena, const s2_classes *whole, const s2_share_heads *heads,
                           int32_t class_begin, int32_t class_end, s2_share *out) S2_MUST_CHECK;

/*
 * One layer of those heads as a pattern of its own, for plans, in the layer's shape: offsets are folded into
 * constants and masks cut to their plane. Random lists are drawn for the heads' new numbers. A state and keys
 * that other layers share are left out. S2_ENOMEM.
 */
s2_status s2_share_pattern(s2_arena *arena, const s2_pattern *whole, s2_phase phase, int32_t layer,
                           const s2_share_heads *heads, s2_pattern *out) S2_MUST_CHECK;

/*
 * Layers [layer_begin, layer_end) of one GPU's heads as a pattern of their own, for both phases. KV heads are
 * dealt out as by s2_share_deal(), by order[layer - layer_begin][KV head]; NULL: as they are numbered.
 * S2_EUNSUPPORTED for layers of different shapes, and for masks and random lists, which depend on the heads'
 * numbers; S2_ENOMEM.
 */
typedef struct s2_share_of {
    int32_t n_ranks, rank, layer_begin, layer_end;
    const int32_t *order;
} s2_share_of;
s2_status s2_share_whole(s2_arena *arena, const s2_pattern *whole, const s2_share_of *of,
                         s2_pattern *out) S2_MUST_CHECK;

#endif /* S2_SIM_SHARE_H */

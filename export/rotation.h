/*
 * export/rotation.h - the absolute-stride family: a local window and one rotated stride per head.
 *
 *     reads(i, j)  <=>  i - j < local  or  (j + g * step + offset) mod stride == 0
 *
 * where g is the query head or the KV head. Phi-3-small (HF), vLLM, TensorRT-LLM, DKernel and its Megatron
 * hook all say this, with different names, offsets and axes; each has its own file and shares this one.
 *
 * Ownership: plain values; patterns live in the arena of their source. Threads: no state.
 */
#ifndef S2_EXPORT_ROTATION_H
#define S2_EXPORT_ROTATION_H

#include "export/format.h"

typedef struct s2_rotation {
    int64_t n_layers;
    int64_t n_heads;
    int64_t n_kv_heads;
    int64_t head_dim; /* 0: not said */
    int64_t block_tok;
    int64_t local_blk;
    int64_t stride_blk; /* 0: no stride, only the window */
    int64_t step;
    int64_t offset;
    bool over_kv;           /* g is the KV head */
    bool homogeneous;       /* one pattern for all heads */
    int64_t n_dense_kv;     /* the last KV heads are dense */
    int64_t dense_every;    /* layer l is dense when (l + 1) mod dense_every == 0; 0: none */
    int64_t n_ranks;        /* > 1: the heads of each of so many GPUs are counted from 0 */
    int64_t decode_kv_step; /* > 0: decode rotates over KV heads by this step (vLLM homo_head_group) */
} s2_rotation;

/* max(1, stride / heads), the step that all of them use. */
int64_t s2_rotation_step(int64_t stride_blk, int64_t n_heads);

/* block, local and stride under the given names (a stride of 0 only where allowed). */
s2_status s2_rotation_read(const s2_source *source, const char *prefix, const char *block_key,
                           const char *local_key, const char *stride_key, int64_t least_stride,
                           s2_rotation *out) S2_MUST_CHECK;

/* Layers, KV heads, head dimension, dense layers, from `prefix` of the document and the user's settings. */
s2_status s2_rotation_read_model(const s2_source *source, const char *prefix,
                                 s2_rotation *rotation) S2_MUST_CHECK;

/*
 * As above for formats whose parameters are not a model's config: from the object "model" when there is one,
 * else from the top level and the settings. `heads`, when not NULL, has heads and KV heads already; a model
 * that says otherwise about KV heads wins only where `heads` repeats them (one KV head per query head).
 */
s2_status s2_rotation_read_extras(const s2_source *source, const s2_rotation *heads,
                                  s2_rotation *rotation) S2_MUST_CHECK;

/* The key under which s2 states the GPUs that a file's heads are shared by. */
#define S2_RANKS_KEY "tensor_parallel_size"
/* GPUs that share the heads: as the file states them at `path`, else those of --set tp, which must not contradict. */
s2_status s2_rotation_read_ranks(const s2_source *source, const char *path, int64_t *n_ranks) S2_MUST_CHECK;

/* The pattern of a rotation. */
s2_status s2_rotation_import(const s2_source *source, const s2_rotation *rotation,
                             s2_pattern *out) S2_MUST_CHECK;

/*
 * The rotation that a pattern looks like: block, local, stride, offset and step from its bodies, dense layers
 * and heads. Whether it is exactly that is found by reading the export back. S2_EUNSUPPORTED: no such form.
 */
s2_status s2_rotation_derive(const s2_target *target, s2_rotation *out) S2_MUST_CHECK;
/* S2_EUNSUPPORTED for blocks below 16 tokens, and for dense heads with several others of one phase. */
s2_status s2_rotation_check_dkernel(const s2_target *target, const s2_rotation *rotation) S2_MUST_CHECK;
/* The check of dense heads when reading: S2_EPARSE at path. */
s2_status s2_rotation_refuse_homogeneous(const s2_source *source, const char *path,
                                         const s2_rotation *rotation) S2_MUST_CHECK;

/* s2_rotation_derive() for formats where every head has the window and the stride; else S2_EUNSUPPORTED. */
s2_status s2_rotation_derive_alike(const s2_target *target, s2_rotation *out) S2_MUST_CHECK;

/* The object "model" with what the foreign parameters do not carry, and provenance; ends with '}'. */
void s2_rotation_print_model(s2_buf *buf, const s2_target *target, const s2_rotation *rotation);

/* The object that holds `key`: "" or "/wrapper", or NULL when there is none. */
const char *s2_rotation_holder(const s2_source *source, const char *key, const char *wrapper);

#endif /* S2_EXPORT_ROTATION_H */

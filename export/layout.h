/*
 * export/layout.h - block lists as arrays: what kernels and mask containers are handed.
 *
 * s2_layouts are the distinct block lists of a pattern at one length and block size, with the map from
 * (layer, head) to list, and layers grouped into classes that use the same lists. s2_grid is the way
 * back: blocks switched on per head and layer class, made into a pattern of `mask` terms.
 *
 * Ownership: everything lives in the arena of the target or source. Threads: none shared.
 */
#ifndef S2_EXPORT_LAYOUT_H
#define S2_EXPORT_LAYOUT_H

#include "export/format.h"
#include "pattern/blocks.h"

typedef struct s2_layouts {
    int64_t n_tok;
    int32_t block_tok;
    int32_t n_blk;
    int32_t n_lists;
    s2_blocks *lists;
    int32_t *list_of;     /* [layer * n_heads + head] */
    int32_t n_classes;    /* of layers */
    int32_t *class_of;    /* [layer] */
    int32_t *first_layer; /* [class] */
    bool has_partial;     /* some listed block off the causal diagonal is not wholly read */
} s2_layouts;

/*
 * Only for static patterns without phases, n_tok a multiple of the block; else S2_EUNSUPPORTED with the
 * reason. The block is the user's `--set block=N`, else `block_tok` (0: the pattern's own).
 */
s2_status s2_layouts_build(const s2_target *target, int32_t block_tok, s2_layouts *out) S2_MUST_CHECK;

/*
 * What an array format adds to its manifest: members for one class of layers, each after a comma, or (with
 * class_index -1) members for the whole manifest, each before a comma. Arrays go to target->files.
 */
typedef s2_status (*s2_layout_members)(const s2_target *target, const s2_layouts *layouts,
                                       int32_t class_index, const void *user, s2_buf *manifest);

/*
 * Write the manifest of an array format as the first file, and its arrays after it. The manifest has shape,
 * block, length, classes of layers with the members of `of_class`, then those of `of_whole` (either may be
 * NULL), then provenance.
 */
s2_status s2_layouts_write(const s2_target *target, const s2_layouts *layouts, const char *format,
                           const char *file_name, s2_layout_members of_class, s2_layout_members of_whole,
                           const void *user) S2_MUST_CHECK;

/* Fills cells[row][column] with ones where the list has a block. */
void s2_layouts_fill_cells(const s2_layouts *layouts, int32_t list, uint8_t *cells);

/* Add an array file: little-endian int32, or bool from bytes. */
s2_status s2_fileset_add_i32(s2_fileset *files, const char *name, const int64_t *shape, int32_t n_dims,
                             const int32_t *values) S2_MUST_CHECK;
s2_status s2_fileset_add_bool(s2_fileset *files, const char *name, const int64_t *shape, int32_t n_dims,
                              const uint8_t *values) S2_MUST_CHECK;

/* An array read from .npy bytes; the data stays where it was. */
typedef struct s2_array {
    char dtype;         /* 'i' int32, 'b' bool; from s2_array_read_any also NumPy's other kinds */
    int32_t item_bytes; /* of one element */
    int32_t n_dims;
    int64_t shape[4];
    int64_t n;
    const char *data;
    size_t end; /* offset just after the data: files of `s2 mask --format csr` hold two arrays */
} s2_array;
/* S2_EPARSE for anything but |b1 and <i4 in C order that fits n_bytes. */
s2_status s2_array_read(const char *bytes, size_t n_bytes, s2_array *out, s2_diag *diag) S2_MUST_CHECK;
/* The same for every plain number: kinds b, i, u and f of 1 to 8 bytes, little-endian. */
s2_status s2_array_read_any(const char *bytes, size_t n_bytes, s2_array *out, s2_diag *diag) S2_MUST_CHECK;
static inline bool s2_array_is_npy(const char *bytes, size_t n_bytes)
{
    return n_bytes > 10 && __builtin_memcmp(bytes, "\x93NUMPY", 6) == 0;
}
int32_t s2_array_i32(const s2_array *array, int64_t index); /* an element of an int32 array */

/* An int32 array of a document: the name of an .npy neighbour, or nested lists of exactly n_dims. */
s2_status s2_array_of_doc(const s2_source *source, const char *path, int32_t n_dims,
                          s2_array *out) S2_MUST_CHECK;

/* Cells of one grid: more is a mistyped length or a hostile file. */
#define S2_GRID_CELLS ((int64_t)1 << 26)

/* Blocks switched on: allowed[head][q_blk][k_blk] of each class of layers. */
typedef struct s2_grid {
    int32_t n_layers, n_heads, n_kv_heads, head_dim, block_tok, n_blk, n_classes;
    bool causal;
    int32_t *class_of;
    uint8_t **allowed;
} s2_grid;

/*
 * An empty grid from a manifest as s2_layouts_write writes it: shape, "block_size", "len", and the layers of
 * each of its "layouts". S2_EPARSE.
 */
s2_status s2_grid_read(const s2_source *source, s2_grid *out) S2_MUST_CHECK;
/* The class index of each layer in "/layouts/<n>/layers". */
s2_status s2_grid_read_layers(const s2_source *source, s2_grid *grid) S2_MUST_CHECK;
/* The block of a bare array that is exported without --set block=N. */
enum { S2_ARRAY_BLOCK_TOK = 64 };
/* --set block=N, which arrays need that do not say it; S2_EINVAL without it. */
s2_status s2_grid_ask_block(const s2_source *source, int64_t *block_tok) S2_MUST_CHECK;
/*
 * The causality of arrays that do not state it: --set causal=0|1, else causal. S2_EINVAL where they allow keys
 * after their queries and no setting says whether those are read.
 */
s2_status s2_grid_ask_causal(const s2_source *source, s2_grid *grid) S2_MUST_CHECK;
/*
 * The pattern of a grid, with one mask file per class next to it. Of a causal grid, what lies after the
 * diagonal is cleared and counted in a warning.
 */
s2_status s2_grid_pattern(const s2_source *source, const s2_grid *grid, s2_pattern *out) S2_MUST_CHECK;

#endif /* S2_EXPORT_LAYOUT_H */

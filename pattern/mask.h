/*
 * pattern/mask.h - boolean NumPy arrays (.npy, dtype bool), read as mask terms and written.
 *
 * dtype uint8 is read too: as 0 and 1, or, where rows are (nq + 7) / 8 bytes, as np.packbits(mask, axis=-1)
 * of a square mask.
 *
 * A file's header is checked (magic, version, dtype |b1, C order, 2 or 3 dimensions, size equal to the file)
 * before a byte of it is trusted, and values other than 0 and 1 are refused. The data are a copy, except for the
 * holes of a sparse file, which take no memory: who changes the file later changes no mask. They live until the
 * process ends or s2_mask_unload() is called.
 */
#ifndef S2_PATTERN_MASK_H
#define S2_PATTERN_MASK_H

#include "base/text.h"
#include "pattern/spec.h"

/* S2_EIO when the file cannot be opened, S2_EPARSE (diag without position) when it is not such an array. */
s2_status s2_mask_load(s2_arena *arena, const char *path, s2_mask *out, s2_diag *diag) S2_MUST_CHECK;
void s2_mask_unload(s2_mask *mask);

/* Set the digest of a mask that was made in memory: what docs/pattern-language.md defines, of shape and cells. */
void s2_mask_seal(s2_mask *mask);

/* The 128-byte-aligned .npy header for an array of the given dtype ("|b1", "<i4") and shape. */
s2_status s2_npy_header(const char *dtype, const int64_t *shape, int32_t n_dims, s2_buf *out) S2_MUST_CHECK;

#endif /* S2_PATTERN_MASK_H */

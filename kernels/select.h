/*
 * kernels/select.h - decode with pages that the query chooses (Quest), among all pages of a dense layer.
 *
 *     score(page) = an upper bound of q . k, over the rows and keys between the page's minimum and maximum
 *                   = max over rows of  sum over d of max(q[d] min[d], q[d] max[d])
 *     read        the newest page, and the select_pages - 1 best of the others; ties to the lower page
 *
 * Rows are the query heads of a KV head (times query tokens): they read the same pages, so that grouped
 * queries load K and V once. Minimum and maximum are kept in the storage type: 2 / page_tok of K. A GPU
 * kernel computes them in prepare() from the problem's K at that time: a state serves one K, until a page
 * becomes whole.
 *
 * Ownership: arrays live in the arena given. Threads: as the problem.
 */
#ifndef S2_KERNELS_SELECT_H
#define S2_KERNELS_SELECT_H

#include "kernels/decode.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { S2_SELECT_LIMIT_PAGES = 16384, S2_SELECT_LIMIT_ROWS = 16 };

typedef struct s2_selection {
    int32_t page_cap;              /* of any list */
    const int32_t *n_pages;        /* [list] */
    const s2_decode_place *places; /* [list][page_cap]: the first key of a page */
} s2_selection;

/*
 * Shrink the layout of a dense layer to what a selection reads: lists of min(select_pages, pages) pages, the
 * newest last; slabs before it are yet to be chosen (mask -1, all live). S2_EUNSUPPORTED with the reason
 * where the layer is not dense, pages are not multiples of 16 tokens, or a limit is exceeded; S2_ENOMEM.
 */
s2_status s2_selection_build(s2_arena *arena, const s2_attn_problem *problem, int32_t want_parts,
                             s2_decode_layout *layout, s2_selection *out, s2_diag *why) S2_MUST_CHECK;

/* Choose for one list, with host addresses: ascending pages into *pages (room for select_pages), their number
 * into *n_pages. S2_ENOMEM. */
s2_status s2_selection_choose(const s2_attn_problem *problem, const s2_decode_plan *plan,
                              const s2_selection *selection, int32_t list, int32_t *pages,
                              int32_t *n_pages) S2_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif /* S2_KERNELS_SELECT_H */

/*
 * kernels/cuda/steps.cuh - an item of plan/steps.h as stored in memory: four named words of 16 bytes.
 *
 * Each word is read separately, since registers are scarce. Device code of sm_90a.
 */
#ifndef S2_KERNELS_CUDA_STEPS_CUH
#define S2_KERNELS_CUDA_STEPS_CUH

#include <stddef.h>

#include "kernels/cuda/sm90.cuh"
#include "plan/steps.h"

namespace s2
{

struct ItemTile {
    int pos, head, seq, n_half;
};
struct ItemRows {
    int n_whole, k_tok, q_off, rows;
};
struct ItemLists {
    int half_begin, list_begin, n_list, n_run;
};
struct ItemComb {
    int run_begin, comb_begin, comb_period, shift_and_mixed;
    S2_DEVICE int comb_shift() const
    {
        return (int16_t)(shift_and_mixed & 0xFFFF);
    }
    S2_DEVICE int n_mixed() const
    {
        return shift_and_mixed >> 16;
    }
};

/* The offset of each word in an item. */
template <class Word> constexpr uint32_t ITEM_WORD_AT = 0;
template <> constexpr uint32_t ITEM_WORD_AT<ItemRows> = offsetof(s2_step_item, n_whole);
template <> constexpr uint32_t ITEM_WORD_AT<ItemLists> = offsetof(s2_step_item, half_begin);
template <> constexpr uint32_t ITEM_WORD_AT<ItemComb> = offsetof(s2_step_item, run_begin);
#define S2_ITEM_WORD(word, first, last)                                                                      \
    static_assert(offsetof(s2_step_item, first) == ITEM_WORD_AT<word> && ITEM_WORD_AT<word> % 16 == 0 &&     \
                      offsetof(s2_step_item, last) == ITEM_WORD_AT<word> + 12 && sizeof(word) == 16,         \
                  "the words of an item are those of s2_step_item")
S2_ITEM_WORD(ItemTile, pos, n_half);
S2_ITEM_WORD(ItemRows, n_whole, rows);
S2_ITEM_WORD(ItemLists, half_begin, n_run);
S2_ITEM_WORD(ItemComb, run_begin, comb_shift);
#undef S2_ITEM_WORD
static_assert(offsetof(s2_step_item, n_mixed) == offsetof(s2_step_item, comb_shift) + 2 &&
                  sizeof(s2_step_item) == 64,
              "n_mixed is the upper half of the last number");

/* A word of the item at this address of shared memory. */
template <class Word> S2_DEVICE Word load_item(uint32_t item)
{
    const int4 x = load_shared4(item + ITEM_WORD_AT<Word>);
    return Word{x.x, x.y, x.z, x.w};
}

/* s2_step_block(). */
S2_DEVICE int whole_block(const int *list, const ItemLists &lists, const ItemComb &comb, int index)
{
    s2_step_item item;
    item.list_begin = lists.list_begin;
    item.n_list = lists.n_list;
    item.n_run = lists.n_run;
    item.run_begin = comb.run_begin;
    item.comb_begin = comb.comb_begin;
    item.comb_period = comb.comb_period;
    item.comb_shift = (int16_t)comb.comb_shift();
    return s2_step_block(&item, list, index);
}

/*
 * The block that a loader's lane copies for a step and, for compared steps (which come first), its word. The
 * item is read again at each step, since registers are scarce.
 */
S2_DEVICE int find_block(const s2_step_word *words, const int32_t *list, uint32_t item, int n_compared,
                         int step, int n_subs, int lane, int2 &word)
{
    const ItemLists lists = load_item<ItemLists>(item);
    if (step < n_compared) {
        word = __ldg((const int2 *)words + lists.half_begin + step * n_subs + lane);
        return (int)((uint32_t)word.x >> S2_STEP_BLOCK_SHIFT);
    }
    return whole_block(list, lists, load_item<ItemComb>(item), (step - n_compared) * n_subs + lane);
}

} // namespace s2

#endif /* S2_KERNELS_CUDA_STEPS_CUH */

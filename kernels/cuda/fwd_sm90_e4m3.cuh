/*
 * kernels/cuda/fwd_sm90_e4m3.cuh - what the consumers of the Hopper forward do where operands have eight bits.
 *
 * Q, K and V are e4m3, one scale a head. V comes in panels (kernels/cuda/panels.cuh), P is rounded to e4m3 at 2^6
 * times its size, and what a step adds to O goes through registers of its own, since the tensor cores cut sums of
 * such products off after some 13 bits. It is added while S is on its way; a step waits for both of its products,
 * since only then are there registers for its exponentials. Where the O before is still to be stored, S goes first.
 *
 * P leaves little room above the maximum, 2^2.75, so in the first steps of an item, whose maxima still rise, they
 * are searched before the exponentials. Doing those again is what later steps do; the four warps of a group wait
 * for one another at the next product, so that one warp that does so costs all of them.
 */
#ifndef S2_KERNELS_CUDA_FWD_SM90_E4M3_CUH
#define S2_KERNELS_CUDA_FWD_SM90_E4M3_CUH

#include "kernels/cuda/fwd_sm90.cuh"

namespace s2
{

template <class T> struct E4m3Consumer : FwdConsumer<T> {
    using Base = FwdConsumer<T>;
    using Base::alpha, Base::kr, Base::lane, Base::maximum, Base::n_half, Base::n_mixed, Base::n_whole,
        Base::o, Base::o_is, Base::own_rows, Base::p, Base::pa, Base::sh, Base::sum, Base::vr, Base::wg;
    static constexpr int D = T::HEAD_DIM, KEYS = T::KEYS;
    template <Width W> static constexpr int KEYS_OF = Base::template KEYS_OF<W>;
    /* Steps of an item whose maxima are searched first. */
    static constexpr int SEARCHED = 4;
    static constexpr float SEARCHED_LAG = 0.5f;
    bool ready = false; /* K of the next step has come; it was looked for ahead of time */

    using Base::Base;

    template <Width W> S2_DEVICE void issue_scores(Of<W>, int turn, float *s)
    {
        if (!ready)
            mbar_wait(sh.k_full + 8 * kr.stage, kr.parity);
        const uint32_t dq = desc_low(sh.q + (turn % T::QUERY_BUFFERS) * T::QUERY_BYTES + wg * 8192, 16);
        const uint32_t dk = desc_low(sh.k, 16) + kr.stage * (T::KV_BYTES >> 4) + own_rows(W);
        wg_fresh<KEYS_OF<W> / 2>(s);
        wg_fence();
#pragma unroll
        for (int kk = 0; kk < T::ROW_PIECES; ++kk)
            WgmmaE4m3<KEYS_OF<W>>::template ss<0>(s, desc(dq + (kk * 32 >> 4)), desc(dk + (kk * 32 >> 4)),
                                                  kk > 0);
        wg_commit();
    }
    /*
     * P V of a step in registers of its own. The tensor cores add products of e4m3 up in some 13 bits
     * and cut off the rest, so that many steps in one sum lose 40 % of it; O is added up in fp32.
     */
    template <Width W> S2_DEVICE void issue_part(Of<W>, float *part)
    {
        mbar_wait(sh.v_full + 8 * vr.stage, vr.parity);
        const uint32_t dv = desc_low(sh.v, 16 * D) + vr.stage * (T::KV_BYTES >> 4) + own_rows(W);
        wg_fresh<D / 2>(part);
        wg_fence();
#pragma unroll
        for (int kk = 0; kk < KEYS_OF<W> / 32; ++kk)
            WgmmaE4m3<D>::template rs<0>(part, pa + 4 * kk, desc_plain(dv + (kk * 32 * D >> 4)), kk > 0);
        wg_commit();
    }
    /* What a step gave, after its products have ended. */
    S2_DEVICE void take_part(float *part)
    {
        wg_pin<D / 2>(part);
#pragma unroll
        for (int j = 0; j < D / 2; ++j)
            o[j] += part[j];
        Base::release_v();
    }
    static S2_DEVICE void pack(uint32_t *to, const float *piece)
    {
#pragma unroll
        for (int r = 0; r < 2; ++r)
            to[r] = pack4_e4m3(piece[2 * r], piece[2 * r + 1], piece[2 * r + 4], piece[2 * r + 5]);
    }
    template <int N> S2_DEVICE void weigh(const float *s, float *row_sum)
    {
        row_sum[0] = row_sum[1] = 0.f;
#pragma unroll
        for (int kk = 0; kk < N / 16; ++kk) {
            float piece[8];
            Base::exponentials(s + 8 * kk, piece, row_sum);
            pack(pa + 2 * kk, piece);
        }
    }
    S2_DEVICE void look_ahead()
    {
        ready = mbar_test(sh.k_full + 8 * kr.stage, kr.parity);
    }
    template <int N> S2_DEVICE bool exceeds() const
    {
        uint32_t high = 0;
#pragma unroll
        for (int word = 0; word < N / 8; ++word)
            high |= pa[word] + 0x02020202u;
        return __any_sync(0xffffffffu, (high & 0x80808080u) != 0);
    }
    S2_DEVICE void scale_sums()
    {
        sum[0] *= alpha[0];
        sum[1] *= alpha[1];
    }
    template <int N> S2_DEVICE void search_maximum(const float *s)
    {
        float top[2];
        Base::template find_tops<N>(s, top);
        const bool exceeds = fmaf(top[0], Base::scale(), -maximum[0]) > SEARCHED_LAG + T::P_LIFT ||
                             fmaf(top[1], Base::scale(), -maximum[1]) > SEARCHED_LAG + T::P_LIFT;
        if (!__any_sync(0xffffffffu, exceeds))
            return;
        Base::raise_maximum(top, SEARCHED_LAG);
        Base::scale_out();
        scale_sums();
    }
    S2_DEVICE void store_result(int turn)
    {
        if (o_is != Base::OLD)
            return;
        Base::store_result(turn);
        Base::clear_out();
        o_is = Base::GROWING;
    }
    template <Width W, Width Before, class Searches>
    S2_DEVICE void step(Of<W> width, Of<Before> before, Searches, int turn, bool is_last)
    {
        constexpr int N = KEYS_OF<W>;
        float s[N / 2], part[D / 2], row_sum[2];
        if constexpr (Before == HALF) {
            issue_scores(width, turn, s);
            store_result(turn - 1);
            issue_part(before, part);
            wg_wait<0>();
            wg_pin<N / 2>(s);
            take_part(part);
        } else {
            issue_part(before, part);
            issue_scores(width, turn, s);
            wg_wait<1>();
            take_part(part);
            wg_wait<0>();
            wg_pin<N / 2>(s);
        }
        Base::free_q(turn, is_last);
        if constexpr (W != WHOLE)
            Base::template drop<W>(Base::template read_bits<W>(), s);
        Base::release_k();
        if constexpr (Searches::value)
            search_maximum<N>(s);
        look_ahead();
        weigh<N>(s, row_sum);
        if (!Searches::value && exceeds<N>()) {
            Base::template redo<N>(s, [&] { weigh<N>(s, row_sum); });
            scale_sums();
        }
        sum[0] += row_sum[0];
        sum[1] += row_sum[1];
    }
    S2_DEVICE void first_weights(int turn, float *s)
    {
        float top[2], row_sum[2];
        Base::free_q(turn, n_half + n_mixed + n_whole == 1);
        Base::template drop<HALF>(Base::template read_bits<HALF>(), s);
        Base::release_k();
        Base::template find_tops<KEYS / 2>(s, top);
        Base::raise_maximum(top); /* O is not scaled: it may still be that of the item before */
        look_ahead();
        weigh<KEYS / 2>(s, row_sum);
        sum[0] = row_sum[0];
        sum[1] = row_sum[1];
    }
    S2_DEVICE void start(int turn)
    {
        float s[KEYS / 4];
        ready = false;
        Base::take_q(turn);
        issue_scores(Of<HALF>{}, turn, s);
        wg_wait<0>();
        wg_pin<KEYS / 4>(s);
        Base::new_rows();
        Base::clear_out();
        o_is = Base::EMPTY;
        first_weights(turn, s);
    }
    S2_DEVICE void start_behind(int turn)
    {
        float s[KEYS / 4], part[D / 2];
        Base::take_q(turn);
        issue_scores(Of<HALF>{}, turn, s);
        issue_part(Of<WHOLE>{}, part);
        Base::set_sums_aside();
        Base::new_rows();
        wg_wait<0>();
        wg_pin<KEYS / 4>(s);
        take_part(part);
        first_weights(turn, s);
    }
    template <Width W> S2_DEVICE void finish(int turn, Of<W> width)
    {
        float part[D / 2];
        store_result(turn - 1);
        issue_part(width, part);
        wg_wait<0>();
        take_part(part);
        Base::set_sums_aside();
        store_result(turn);
    }
    S2_DEVICE bool go_through_steps(int turn)
    {
        const int n_steps = n_half + n_mixed + n_whole;
#pragma unroll 1
        for (int at = 1; at < n_half; ++at)
            step(Of<HALF>{}, Of<HALF>{}, Bool<true>{}, turn, at == n_steps - 1);
        if (n_mixed + n_whole == 0)
            return false;
        if (n_mixed > 0)
            step(Of<MIXED>{}, Of<HALF>{}, Bool<true>{}, turn, n_whole == 0);
        else
            step(Of<WHOLE>{}, Of<HALF>{}, Bool<true>{}, turn, n_whole == 1);
        int left = n_steps - n_half - 1;
#pragma unroll 1
        for (int searching = SEARCHED - n_half; searching > 0 && left > 0; --searching, --left)
            step(Of<WHOLE>{}, Of<WHOLE>{}, Bool<true>{}, turn, left == 1);
#pragma unroll 1
        for (; left > 0; --left)
            step(Of<WHOLE>{}, Of<WHOLE>{}, Bool<false>{}, turn, left == 1);
        return true;
    }
    /* Items without whole steps are rare (the first tiles of a sequence): the stream is cut after them. */
    S2_DEVICE void run()
    {
        for (int turn = 0; Base::fetch(turn); ++turn) {
            start(turn);
            while (go_through_steps(turn)) {
                if (!Base::fetch(++turn)) {
                    finish(turn - 1, Of<WHOLE>{});
                    return;
                }
                start_behind(turn);
            }
            finish(turn, Of<HALF>{});
        }
    }
};

template <int D, int BLOCK, bool FP16, FwdExtra EXTRA>
struct ConsumerOf<FwdConfig<D, BLOCK, FP16, EXTRA, true>> {
    using Type = E4m3Consumer<FwdConfig<D, BLOCK, FP16, EXTRA, true>>;
};

} // namespace s2

#endif /* S2_KERNELS_CUDA_FWD_SM90_E4M3_CUH */

/*
 * kernels/cuda/bwd_sm90.cuh - what the Hopper backward kernels share: parameters, items, one warp's tools.
 *
 * Two kernels, each persistent with one thread block per SM, two consumer warpgroups and a producer
 * warpgroup:
 *
 *     bwd_sm90_dq.cuh    a tile of 128 queries stays, key steps of 128 gathered keys stream: dQ
 *     bwd_sm90_dkv.cuh   a column of 128 gathered keys stays, query steps of 64 rows stream: dK and dV,
 *                        and in the fused forms dQ too, by fp32 reductions in memory
 *
 * The two together compute seven products (above head dimension 128 eight) and are deterministic; the fused
 * forms compute five, and add up dQ in the order of arrival or in a fixed one.
 */
#ifndef S2_KERNELS_CUDA_BWD_SM90_CUH
#define S2_KERNELS_CUDA_BWD_SM90_CUH

#include "kernels/cuda/bwd.cuh"
#include "kernels/cuda/sm90.cuh"
#include "plan/steps.h"

namespace s2
{

struct alignas(16) BwdParams {
    const CUtensorMap *maps; /* [seq][4]: q, d_o, k, v; {d, token, head} */
    const BwdSeq *seqs;
    const float *lse2, *delta;
    const BwdColumn *columns;
    const int32_t *blocks;     /* of columns */
    const BwdStep *steps;      /* of columns */
    const int32_t *step_masks; /* [step][block]: element mask or -1; NULL: none */
    const uint32_t *bits;      /* of columns: [mask][tile row][mask_words] */
    const BwdTile *tiles;      /* fused */
    const s2_step_item *items; /* split: tiles as in plan/steps.h, */
    const s2_step_word *words; /* with their words, */
    const int32_t *list;       /* whole blocks, */
    const uint32_t *tile_bits; /* and element masks, laid out like bits */
    BwdTensor d_q, d_k, d_v;
    float *dq_sum;      /* fused: [padded row / 64][2][64 x half of the columns], in the order of fragments */
    float *part_sum;    /* [chain][2][columns / 4][128] float4 */
    int32_t *part_done; /* [chain][8 warps]; zero before the first launch, resets itself */
    const int32_t
        *turns;       /* in order: of columns' steps, how many additions to these rows of dQ come before */
    int32_t *shares;  /* in order: [padded row / 64][2]: how many were made; bwd_rows() clears them */
    int32_t *counter; /* {claimed, finished} of columns, then of tiles; like part_done */
    int32_t n_columns, n_tiles;
    int32_t group;
    int32_t head_dim; /* tensors have as many columns; an instance may have more, which read as zeros */
    int32_t shift;    /* log2 of the block */
    int32_t mask_words, tile_rows;
    int32_t causal;
    int32_t moved; /* maps were written by an earlier launch, not before all launches */
    float scale_log2, scale;
    int32_t window; /* WINDOWED: edges compare with it, too: as many keys as a query reads */
};

template <int STAGES> struct Ring {
    int stage = 0;
    uint32_t parity = 0;
    S2_DEVICE void next()
    {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
};

S2_DEVICE void tma_load_1d(uint32_t dst, const void *from, uint32_t bar, uint32_t n_bytes)
{
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(dst),
        "l"(from), "r"(n_bytes), "r"(bar)
        : "memory");
}
S2_DEVICE void bulk_add(float *dst, uint32_t src, uint32_t n_bytes)
{
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(dst),
                 "r"(src), "r"(n_bytes)
                 : "memory");
}
S2_DEVICE void bulk_store(float *dst, uint32_t src, uint32_t n_bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(dst), "r"(src),
                 "r"(n_bytes)
                 : "memory");
}
/* What this thread read makes way for its later bulk copies. */
S2_DEVICE void fence_async_global()
{
    asm volatile("fence.proxy.async.global;" ::: "memory");
}
S2_DEVICE void stmatrix_x4_trans(uint32_t address, const uint32_t *r)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(address),
                 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
}
S2_DEVICE void store_shared4f(uint32_t address, const float *x)
{
    asm volatile("st.shared.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(address), "f"(x[0]), "f"(x[1]), "f"(x[2]),
                 "f"(x[3])
                 : "memory");
}
S2_DEVICE void load_shared4f(uint32_t address, float *x)
{
    asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
                 : "r"(address)
                 : "memory");
}
S2_DEVICE uint32_t load_shared1(uint32_t address)
{
    uint32_t x;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(address) : "memory");
    return x;
}

S2_DEVICE int64_t join(int low, int high)
{
    return (int64_t)((uint64_t)(uint32_t)high << 32 | (uint32_t)low);
}

/* The last thread block to leave makes the counters ready for the next launch. */
S2_DEVICE void reset_when_last(int32_t *counter)
{
    __threadfence();
    if (atomicAdd(counter + 1, 1) == (int)gridDim.x - 1) {
        counter[0] = 0;
        counter[1] = 0;
    }
}

/* ---- what a scheduler publishes in two slots: it stays until every reader has released it ---- */

/* The first word of a turn's slot. */
template <class Shared> S2_DEVICE int4 fetch_slot(const Shared &sh, int turn)
{
    mbar_wait(sh.slot_full + 8 * (turn & 1), (turn >> 1) & 1);
    return load_shared4(sh.slot_at(turn));
}
template <class Shared> S2_DEVICE void release_slot(const Shared &sh, int turn)
{
    __syncwarp();
    if (lane_arrives(threadIdx.x & 31))
        mbar_arrive(sh.slot_empty + 8 * (turn & 1));
}
/* Fills the first words of a turn's slot once it is free; the scheduler stores the rest, then arrives at
 * slot_full. */
template <class Shared, int N> S2_DEVICE void fill_slot(const Shared &sh, int turn, const int4 (&words)[N])
{
    mbar_wait(sh.slot_empty + 8 * (turn & 1), ((turn >> 1) & 1) ^ 1);
#pragma unroll
    for (int at = 0; at < N; ++at)
        store_shared4(sh.slot_at(turn) + 16 * at, words[at]);
}

/* ---- rows of Q or dO, with their lse or delta ---- */

/* Copies to [64 rows of N_ROWS][chunk][64][128 bytes], and each row's statistic to to_each. */
template <int CHUNKS, int N_ROWS>
S2_DEVICE void load_rows(uint32_t to, const CUtensorMap *map, uint32_t full, int q_tok, int head,
                         uint64_t policy, uint32_t to_each, const float *each)
{
    mbar_expect_tx(full, N_ROWS * (CHUNKS * 128 + 4));
#pragma unroll
    for (int box = 0; box < N_ROWS / 64 * CHUNKS; ++box)
        tma_load_3d(to + box * 8192, map, full, box % CHUNKS * 64, q_tok + box / CHUNKS * 64, head, policy);
    tma_load_1d(to_each, each, full, N_ROWS * 4);
}

/* ---- products ---- */

/* Slice kk of a K-major operand (32 bytes of each row), as an offset inside [chunk][rows][128 bytes]. */
template <int ROWS> S2_DEVICE constexpr uint32_t k_slice(int kk)
{
    return (uint32_t)((kk / 4) * ROWS * 128 + (kk % 4) * 32) >> 4;
}
/* d = A B^T over D columns: 64 of A_ROWS rows, N of B_ROWS; a and b are the low words of descriptors. */
template <bool FP16, int D, int N, int A_ROWS, int B_ROWS>
S2_DEVICE void issue_rows_by_rows(float *d, uint32_t a, uint32_t b)
{
    wg_fence();
#pragma unroll
    for (int kk = 0; kk < D / 16; ++kk)
        Wgmma<FP16, N>::template ss<0>(d, desc(a + k_slice<A_ROWS>(kk)), desc(b + k_slice<B_ROWS>(kk)),
                                       kk > 0);
    wg_commit();
}
/* d += A B: A are fragments of 64 rows, K columns; B has K rows of D columns. */
template <bool FP16, int D, int K> S2_DEVICE void issue_fragments(float *d, const uint32_t *a, uint32_t b)
{
#pragma unroll
    for (int kk = 0; kk < K / 16; ++kk)
        Wgmma<FP16, D>::template rs<1>(d, a + 4 * kk, desc(b + (kk * 2048 >> 4)), 1);
    wg_commit();
}

/* What every consumer warp knows. */
template <class Shared> struct Consumer {
    const BwdParams &p;
    const Shared &sh;
    const int wg, warp, lane;

    S2_DEVICE Consumer(const BwdParams &params, const Shared &shared, int warpgroup, int in_group)
        : p(params), sh(shared), wg(warpgroup), warp(in_group >> 5), lane(in_group & 31)
    {
    }
    S2_DEVICE void arrive(uint32_t bar) const
    {
        __syncwarp();
        mbar_warp_arrive(bar, lane);
    }
    /* Tells ptxas too, which considers anything from shared memory divergent. */
    static S2_DEVICE int uniform(int x)
    {
        return __shfl_sync(0xffffffffu, x, 0);
    }
};

} // namespace s2

#endif /* S2_KERNELS_CUDA_BWD_SM90_CUH */

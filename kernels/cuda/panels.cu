#include "kernels/cuda/panels.cuh"

#include "base/alloc.h"
#include "base/arith.h"
#include "kernels/cuda/launch.cuh"

namespace
{

enum { WARPS = 8, PANEL_KEYS = 16, PANEL_BYTES = PANEL_KEYS * S2_PANEL_DIM };

struct Place {
    int64_t from; /* of the first key in V, in elements */
    uint8_t *to;
    int32_t k_tok, n_panels;
};

/* Word i of the result has byte i of a, b, c and d. */
__device__ __forceinline__ void turn(uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t (&out)[4])
{
    const uint32_t ab = __byte_perm(a, b, 0x5140), ab_high = __byte_perm(a, b, 0x7362);
    const uint32_t cd = __byte_perm(c, d, 0x5140), cd_high = __byte_perm(c, d, 0x7362);
    out[0] = __byte_perm(ab, cd, 0x5410);
    out[1] = __byte_perm(ab, cd, 0x7632);
    out[2] = __byte_perm(ab_high, cd_high, 0x5410);
    out[3] = __byte_perm(ab_high, cd_high, 0x7632);
}

__global__ void __launch_bounds__(32 * WARPS)
    panels_of(const uint8_t *v, int64_t v_tok, int64_t v_head, const Place *places, int32_t head_dim)
{
#if __CUDA_ARCH__ >= 900 /* the kernel that reads panels runs on nothing older */
    asm volatile("griddepcontrol.launch_dependents;\ngriddepcontrol.wait;" ::: "memory");
#endif
    const Place place = places[blockIdx.z];
    const int lane = threadIdx.x & 31, panel = blockIdx.x * WARPS + (threadIdx.x >> 5),
              key0 = panel * PANEL_KEYS;
    if (panel >= place.n_panels)
        return;
    const uint8_t *const from = v + place.from + key0 * v_tok + blockIdx.y * v_head + 4 * lane;
    const bool in = 4 * lane < head_dim;
    uint32_t key[PANEL_KEYS], column[4][4];
#pragma unroll
    for (int at = 0; at < PANEL_KEYS; ++at)
        key[at] = in && key0 + at < place.k_tok ? __ldg((const uint32_t *)(from + at * v_tok)) : 0;
#pragma unroll
    for (int c = 0; c < 4; ++c)
        turn(key[2 * c], key[2 * c + 1], key[2 * c + 8], key[2 * c + 9], column[c]);
    uint4 *const to =
        (uint4 *)(place.to + ((int64_t)blockIdx.y * place.n_panels + panel) * PANEL_BYTES) + 4 * lane;
#pragma unroll
    for (int d = 0; d < 4; ++d)
        to[d] = make_uint4(column[0][d], column[1][d], column[2][d], column[3][d]);
}

int32_t panels_of_seq(const s2_plan *plan, int32_t seq)
{
    return (int32_t)(s2_round_up(plan->seqs[seq].k_tok, plan->blk_tok) / PANEL_KEYS);
}

int64_t bytes_of(const s2_attn_problem *problem, int32_t n_panels)
{
    return (int64_t)n_panels * problem->n_kv_heads * PANEL_BYTES;
}

s2_status upload_places(s2_device *device, const s2_attn_problem *problem, Place *places, uint8_t **begins,
                        s2_panels *out, s2_diag *why)
{
    uint8_t *to = (uint8_t *)out->memory + problem->plan->blk_tok * S2_PANEL_DIM;
    for (int32_t seq = 0; seq < problem->n_seqs; seq++) {
        const int32_t n_panels = panels_of_seq(problem->plan, seq);
        places[seq] = Place{s2_tensor_at(&problem->v, problem->k_begin_tok, seq, 0, 0), to,
                            problem->plan->seqs[seq].k_tok, n_panels};
        begins[seq] = to;
        to += bytes_of(problem, n_panels);
        out->most = n_panels > out->most ? n_panels : out->most;
    }
    S2_TRY(s2_cuda_upload(device, places, (size_t)problem->n_seqs * sizeof *places, &out->places, why));
    return s2_cuda_upload(device, begins, (size_t)problem->n_seqs * sizeof *begins, &out->begins, why);
}

} // namespace

s2_status s2_panels_open(s2_device *device, const s2_attn_problem *problem, s2_panels *out, s2_diag *why)
{
    const int64_t zeros = (int64_t)problem->plan->blk_tok * S2_PANEL_DIM;
    int64_t n_bytes = zeros;
    for (int32_t seq = 0; seq < problem->n_seqs; seq++)
        n_bytes += bytes_of(problem, panels_of_seq(problem->plan, seq));
    S2_TRY(s2_cuda_try(cudaMalloc(&out->memory, (size_t)n_bytes), why));
    S2_TRY(s2_cuda_try(cudaMemsetAsync(out->memory, 0, (size_t)zeros, s2_cuda_stream(device)), why));
    Place *const places = (Place *)s2_calloc((size_t)problem->n_seqs, sizeof *places);
    uint8_t **const begins = (uint8_t **)s2_calloc((size_t)problem->n_seqs, sizeof *begins);
    const s2_status status = places != NULL && begins != NULL
                                 ? upload_places(device, problem, places, begins, out, why)
                                 : S2_ENOMEM;
    s2_free(places);
    s2_free(begins);
    return status;
}

void s2_panels_close(s2_panels *panels)
{
    void *const memory[] = {panels->memory, panels->places, panels->begins};
    for (void *piece : memory)
        (void)cudaFree(piece);
}

s2_status s2_panels_fill(s2_device *device, const s2_attn_problem *problem, const s2_panels *panels,
                         s2_diag *why)
{
    const dim3 grid((unsigned)((panels->most + WARPS - 1) / WARPS), (unsigned)problem->n_kv_heads,
                    (unsigned)problem->n_seqs);
    return s2_cuda_try(s2::launch_after(panels_of, grid, 32 * WARPS, 0, s2_cuda_stream(device),
                                        (const uint8_t *)problem->v.data, problem->v.tok, problem->v.head,
                                        (const Place *)panels->places, problem->head_dim),
                       why);
}

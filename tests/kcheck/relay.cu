/*
 * relay - a control for racecheck: a correct program whose only synchronisation is the one that the sm90
 * kernels use. Lanes of one warp write shared memory, __syncwarp() orders them before lane 0's arrival on an
 * mbarrier, and another warp reads after it waited. By the PTX memory model there is no race. usage: relay
 * [direct] "direct": every writing lane arrives itself. Exits 1 when the values are wrong, 77 without a
 * Hopper GPU.
 */
#include <cstdint>
#include <cstdio>
#include <cstring>

__device__ uint32_t address(const void *shared)
{
    return (uint32_t)__cvta_generic_to_shared(shared);
}

__global__ void relay(int *out, int direct)
{
    __shared__ alignas(8) uint64_t barrier;
    __shared__ int words[32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address(&barrier)),
                     "r"(direct ? 32 : 1));
    __syncthreads();
    if (warp == 0) {
        words[lane] = 3 * lane + 1;
        __syncwarp();
        if (direct || lane == 0)
            asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(&barrier)) : "memory");
    } else {
        uint32_t done = 0;
        while (!done)
            asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\nselp.u32 "
                         "%0, 1, 0, p;\n}"
                         : "=r"(done)
                         : "r"(address(&barrier))
                         : "memory");
        out[lane] = words[31 - lane];
    }
}

int main(int argc, char **argv)
{
    int *out = nullptr, host[32] = {0};
    cudaDeviceProp prop;
    if (cudaGetDeviceProperties(&prop, 0) != cudaSuccess || prop.major < 9)
        return 77;
    const int direct = argc > 1 && strcmp(argv[1], "direct") == 0;
    if (cudaMalloc(&out, sizeof host) != cudaSuccess)
        return 2;
    relay<<<1, 64>>>(out, direct);
    if (cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost) != cudaSuccess)
        return 2;
    for (int lane = 0; lane < 32; lane++)
        if (host[lane] != 3 * (31 - lane) + 1)
            return 1;
    printf("relay%s: right\n", direct ? " direct" : "");
    return cudaFree(out) != cudaSuccess;
}

#include "kernels/micro.h"

#if S2_HAVE_CUDA
#include "kernels/cuda/cuda.h"
#endif

const char *s2_micro_word(s2_micro micro)
{
    static const char *const words[S2_N_MICROS] = {"copy", "read", "matrix", "launch"};
    return words[micro];
}

const char *s2_micro_unit(s2_micro micro)
{
    static const char *const words[S2_N_MICROS] = {"GB/s", "GB/s", "TFLOP/s", "us"};
    return words[micro];
}

s2_status s2_micro_run(s2_device *device, s2_micro micro, int64_t size, double *out, s2_diag *why)
{
#if S2_HAVE_CUDA
    if (device->kind == S2_DEVICE_GPU)
        return s2_cuda_micro(device, micro, size, out, why);
#endif
    (void)micro;
    (void)size;
    (void)out;
    return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "%s is no GPU", device->name);
}

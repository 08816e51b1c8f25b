#include "base/shared.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

s2_status s2_shared_open(const char *name, size_t n_bytes, void **memory, int *file)
{
    const int made = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (made < 0)
        return S2_ENOMEM;
    void *const mapped = n_bytes > 0 && n_bytes <= INT64_MAX && ftruncate(made, (off_t)n_bytes) == 0 &&
                                 fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0
                             ? mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, made, 0)
                             : MAP_FAILED;
    if (mapped == MAP_FAILED) {
        close(made);
        return S2_ENOMEM;
    }
    *memory = mapped;
    *file = made;
    return S2_OK;
}

void s2_shared_close(void *memory, size_t n_bytes, int file)
{
    munmap(memory, n_bytes);
    close(file);
}

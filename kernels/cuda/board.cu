#include "kernels/cuda/board.h"

#include <dlfcn.h>

#include "base/alloc.h"

/* The few library entries that are used; its C interface has had them unchanged since version 1. */
struct FieldValue {
    unsigned field, scope;
    long long timestamp, latency_us;
    int value_type, result;
    union {
        unsigned as_unsigned;
        unsigned long long widest;
    };
};
struct S2Board {
    void *library;
    void *handle;
    int (*shutdown)(void);
    int (*clock)(void *handle, int which, unsigned *mhz);
    int (*power)(void *handle, unsigned *milliwatts);              /* averaged over a second */
    int (*fields)(void *handle, int n, struct FieldValue *values); /* NULL in old libraries */
    int (*temperature)(void *handle, int which, unsigned *celsius);
};

namespace
{

enum { POWER_INSTANT = 186, CLOCK_SM = 1, CLOCK_MEM = 2, TEMPERATURE_GPU = 0 };

template <class Function> bool find(void *library, const char *name, Function *out)
{
    *out = (Function)dlsym(library, name);
    return *out != nullptr;
}

bool connect(S2Board *board, const char *uuid, char *driver, size_t driver_cap)
{
    int (*init)(void);
    int (*version)(char *text, unsigned cap);
    int (*by_uuid)(const char *uuid, void **handle);
    void *const library = board->library;
    if (!find(library, "nvmlInit_v2", &init) || !find(library, "nvmlShutdown", &board->shutdown) ||
        !find(library, "nvmlSystemGetDriverVersion", &version) ||
        !find(library, "nvmlDeviceGetHandleByUUID", &by_uuid) ||
        !find(library, "nvmlDeviceGetClockInfo", &board->clock) ||
        !find(library, "nvmlDeviceGetPowerUsage", &board->power) ||
        !find(library, "nvmlDeviceGetTemperature", &board->temperature) || init() != 0)
        return false;
    (void)find(library, "nvmlDeviceGetFieldValues", &board->fields);
    if (version(driver, (unsigned)driver_cap) != 0)
        driver[0] = '\0';
    if (by_uuid(uuid, &board->handle) == 0)
        return true;
    (void)board->shutdown();
    return false;
}

/* The present value if the library has it: a mean over a second says little about a run of 0.1 s. */
double power_of(S2Board *board)
{
    unsigned milliwatts = 0;
    FieldValue value = {};
    value.field = POWER_INSTANT;
    if (board->fields != nullptr && board->fields(board->handle, 1, &value) == 0 && value.result == 0 &&
        value.as_unsigned > 0)
        return value.as_unsigned / 1e3;
    return board->power(board->handle, &milliwatts) == 0 ? milliwatts / 1e3 : 0.0;
}

} // namespace

S2Board *s2_board_open(const char *uuid, char *driver, size_t driver_cap)
{
    S2Board *const board = (S2Board *)s2_calloc(1, sizeof *board);
    if (board == nullptr)
        return nullptr;
    board->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (board->library != nullptr && connect(board, uuid, driver, driver_cap))
        return board;
    if (board->library != nullptr)
        (void)dlclose(board->library);
    s2_free(board);
    return nullptr;
}

void s2_board_close(S2Board *board)
{
    if (board == nullptr)
        return;
    (void)board->shutdown();
    (void)dlclose(board->library);
    s2_free(board);
}

s2_sensors s2_board_sense(S2Board *board)
{
    s2_sensors out = {0, 0, 0, 0};
    unsigned value = 0;
    if (board == nullptr)
        return out;
    if (board->clock(board->handle, CLOCK_SM, &value) == 0)
        out.sm_mhz = value;
    if (board->clock(board->handle, CLOCK_MEM, &value) == 0)
        out.mem_mhz = value;
    out.power_w = power_of(board);
    if (board->temperature(board->handle, TEMPERATURE_GPU, &value) == 0)
        out.temp_c = value;
    return out;
}

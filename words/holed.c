#include "words/holed.h"

void s2_holed_print(int32_t n, s2_buf *buf)
{
    if (n > 0)
        s2_buf_printf(
            buf,
            "%d of these violate%s the union: some key has no head that reads it; union=holds leaves "
            "such designs out",
            (int)n, n == 1 ? "s" : "");
}

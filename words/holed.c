#include "words/holed.h"

void s2_holed_label(int32_t n, s2_buf *buf)
{
    if (n > 0)
        s2_buf_printf(buf, "%d of these violate%s the union", (int)n, n == 1 ? "s" : "");
}

void s2_holed_print(int32_t n, s2_buf *buf)
{
    s2_holed_label(n, buf);
    if (n > 0)
        s2_buf_puts(buf, ": some key has no head that reads it; union=holds leaves such designs out");
}

#include "words/size.h"

#include "base/arith.h"

void s2_pattern_print_kv_heads(const s2_pattern *pattern, s2_buf *buf)
{
    int32_t fewest = s2_pattern_kv_heads(pattern, 0), most = fewest;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
        fewest = s2_min_i32(fewest, s2_pattern_kv_heads(pattern, layer));
        most = s2_max_i32(most, s2_pattern_kv_heads(pattern, layer));
    }
    if (fewest != most)
        s2_buf_printf(buf, "%d to ", fewest);
    s2_buf_puts(buf, s2_count_text(most, "KV head").text);
}

void s2_pattern_print_size(const s2_pattern *pattern, s2_buf *buf)
{
    int32_t n_states = 0, n_shared = 0;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
        n_states += s2_pattern_state_bytes(pattern, layer) > 0;
        n_shared += s2_pattern_kv_layer(pattern, layer) != layer;
    }
    s2_buf_puts(buf, s2_count_text(pattern->n_layers, "layer").text);
    if (n_states > 0)
        s2_buf_printf(buf, " (%d with a state)", n_states);
    if (n_shared > 0)
        s2_buf_printf(buf, " (%d read the keys of another)", n_shared);
    s2_buf_printf(buf, ", %s on ", s2_count_text(pattern->n_heads, "head").text);
    s2_pattern_print_kv_heads(pattern, buf);
}

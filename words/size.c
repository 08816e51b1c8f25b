#include "words/size.h"

#include "base/alloc.h"
#include "base/arith.h"
#include "pattern/parse.h"

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

bool s2_layers_print_alike(const s2_pattern *pattern, const int32_t *first_alike, int32_t layer, s2_buf *buf)
{
    int32_t alike[S2_LIMIT_LAYERS], n = 0;
    for (int32_t other = layer; other < pattern->n_layers && first_alike[layer] == layer; other++)
        if (first_alike[other] == layer)
            alike[n++] = other;
    if (n == 1)
        s2_buf_printf(buf, "layer %d", layer);
    if (n < 2)
        return n == 1;
    s2_buf_puts(buf, "layers ");
    s2_index_list_print(alike, n, pattern->n_layers, buf);
    return true;
}

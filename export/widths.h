/*
 * export/widths.h - what the layers around attention are made of, from a Hugging Face config.json.
 *
 * Only what decides weights and products is read: widths, vocabulary, experts. What many configs leave to
 * the code of their model_type (two matrices or three, one embedding or two) is known here by that name.
 *
 * Threads: no state.
 */
#ifndef S2_EXPORT_WIDTHS_H
#define S2_EXPORT_WIDTHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct s2_widths {
    int32_t n_layers;
    int32_t n_heads;
    int32_t n_kv_heads;
    int32_t head_dim;
    int32_t hidden;
    int32_t ffn; /* of one expert */
    int32_t vocab;
    bool gated;        /* three matrices in the feed-forward layer, else two */
    bool tied;         /* one embedding for input and output */
    int32_t n_experts; /* 1: dense */
    int32_t n_active;
} s2_widths;

/* S2_EPARSE with the place of what is missing, out of range, or more than these numbers say; S2_ENOMEM. */
s2_status s2_widths_read(const char *text, size_t n_bytes, s2_widths *out, s2_diag *diag) S2_MUST_CHECK;

#endif /* S2_EXPORT_WIDTHS_H */

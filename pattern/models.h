/*
 * pattern/models.h - the shapes of well-known models, for the statement `model NAME`.
 *
 * The source of each row is the model's published config.json. A canonical text states the shape in
 * full, so that a correction here never changes a stored design.
 * Threads: constant data.
 */
#ifndef S2_PATTERN_MODELS_H
#define S2_PATTERN_MODELS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct s2_model {
    const char *name;
    int32_t n_layers;
    int32_t n_heads;
    int32_t n_kv_heads;
    int32_t head_dim;
    const char *source; /* the published repository whose config.json says so */
} s2_model;

int32_t s2_model_count(void);
/* nth in alphabetical order; NULL outside the table. */
const s2_model *s2_model_at(int32_t nth);
/* By name (n bytes, not terminated), or NULL. */
const s2_model *s2_model_find(const char *name, size_t n);

#ifdef __cplusplus
}
#endif
#endif /* S2_PATTERN_MODELS_H */

/*
 * export/stored.h - how a checkpoint stores its weights: quantization_config of a config.json, the hf_quant_config.json
 * that modelopt writes beside one, and the quantization of a checkpoint of TensorRT-LLM.
 *
 * Threads: no state.
 */
#ifndef S2_EXPORT_STORED_H
#define S2_EXPORT_STORED_H

#include "base/arena.h"
#include "base/net.h"
#include "export/doc.h"

/*
 * Fill stored, stored_bits, method, kept and cache of *net, whose layers are known. What has no price here leaves
 * `stored` S2_WEIGHTS_PUBLISHED, with the method's word. S2_EPARSE with a position; S2_ENOMEM.
 */
s2_status s2_stored_read(const s2_doc *doc, const char *prefix, s2_arena *arena, s2_net *net,
                         s2_diag *diag) S2_MUST_CHECK;

/* The same of an hf_quant_config.json, for a config.json that says nothing of it. */
s2_status s2_stored_read_apart(const char *text, size_t n_bytes, s2_net *net, s2_diag *diag) S2_MUST_CHECK;

#endif /* S2_EXPORT_STORED_H */

/*
 * export/mixture.h - the experts of a model, as its config describes them: how many, how wide, what every token runs
 * beside them, and which layers have none.
 *
 * Each family has its own names for these. A config that names experts in a way that is not known here is refused:
 * read as a dense model it would weigh a tenth of what it does.
 * Threads: no state.
 */
#ifndef S2_EXPORT_MIXTURE_H
#define S2_EXPORT_MIXTURE_H

#include "base/net.h"
#include "export/doc.h"

/* Products of these stay far below 2^63. */
enum { S2_MOST_FFN = 1 << 20, S2_MOST_EXPERTS = 1024 };

/*
 * Fill n_experts, n_active, ffn, mixture and layers of *net, whose n_layers and hidden are known; `prefix` is "" or the
 * object of the text model. Layers whose experts lie evenly are not unlike. S2_EPARSE with a position.
 */
s2_status s2_mixture_read(const s2_doc *doc, const char *prefix, s2_net *net, s2_diag *diag) S2_MUST_CHECK;

#endif /* S2_EXPORT_MIXTURE_H */

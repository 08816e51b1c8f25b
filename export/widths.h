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

#include <stddef.h>

#include "base/net.h"
#include "base/status.h"

/*
 * The name stays empty. S2_EPARSE with the position of what is missing, out of range, or more than these
 * numbers can say; *out then has the shape of attention if that was read, else n_layers is 0. S2_ENOMEM.
 */
s2_status s2_widths_read(const char *text, size_t n_bytes, s2_net *out, s2_diag *diag) S2_MUST_CHECK;

#endif /* S2_EXPORT_WIDTHS_H */

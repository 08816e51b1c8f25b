#include "export/slip.h"

#include <stdio.h>
#include <string.h>

#include "export/asked.h"

s2_status s2_slip_refuse(const s2_source *source, const char *prefix, const char *const *names)
{
    for (; *names != NULL; names++) {
        char path[S2_ASKED_BYTES];
        int64_t none;
        snprintf(path, sizeof path, "%s/%s", prefix, *names);
        if (s2_doc_slip(source->doc, path) != NULL)
            return s2_doc_int(source->doc, path, 0, 0, &none,
                              source->diag); /* it is missing: refuses, and says what is there */
    }
    return S2_OK;
}

void s2_slips_say(const s2_source *source)
{
    const s2_asked *const asked = source->doc->asked;
    const int32_t n_asked = asked != NULL ? asked->n : 0; /* looking for slips adds to it */
    for (int32_t at = 0; at < n_asked; at++) {
        const char *const key = asked->found[at] ? NULL : s2_doc_slip(source->doc, asked->path[at]);
        if (key != NULL)
            s2_note(&source->said->warnings, "\"%.100s\" is not read; did you mean \"%s\"?", key,
                    strrchr(asked->path[at], '/') + 1);
    }
}

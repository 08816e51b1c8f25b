#include "words/difference.h"

void s2_difference_print(const s2_difference *difference, const char *first_name, const char *second_name,
                         s2_buf *buf)
{
    if (!difference->differs) {
        if (difference->every_length)
            s2_buf_printf(buf, "%s reads the same pairs as %s at every length", second_name, first_name);
        else
            s2_buf_printf(buf, "%s reads the same pairs as %s in contexts of up to %s", second_name,
                          first_name, s2_count_text(difference->n_tok, "token").text);
    } else if (difference->what[0] != '\0') {
        s2_buf_printf(buf, "%s differs from %s: %s", second_name, first_name, difference->what);
    } else {
        s2_buf_printf(buf, "%s, layer %d, head %d: query %lld reads key %lld in %s and not in %s",
                      s2_phase_word(difference->phase), difference->layer, difference->head,
                      (long long)difference->q_tok, (long long)difference->k_tok,
                      difference->first_reads ? first_name : second_name,
                      difference->first_reads ? second_name : first_name);
    }
}

/*
 * judge/sight.h - which keys the rows of a forward really read, seen without using the pattern.
 *
 * With Q = 0 every key that a row reads has weight 1/n. A window gives V[k][d] = 2^j for key
 * k = begin + j * D + d and 0 to all other keys: output column d times n is then the sum of 2^j over the keys
 * of that column that were read, an integer whose bits name them. Few enough bits are used that the rounding
 * of the output cannot reach 1/2. The number of keys that a row reads is not assumed: n is right if the
 * columns are integers with n bits set between them.
 *
 * Ownership: close releases all. Threads: as the device.
 */
#ifndef S2_JUDGE_SIGHT_H
#define S2_JUDGE_SIGHT_H

#include "judge/harness.h"

/* How many powers of two an output keeps apart: error below 2^bits times half an ulp < 1/4. */
int32_t s2_sight_bits(s2_dtype dtype);

/* Makes V of a harness show one window of keys after the other. */
typedef struct s2_windows {
    s2_harness *harness;
    int32_t n_bits; /* keys of an output column */
    int64_t n_tok;  /* keys of a window */
    int64_t n;      /* windows of the longest sequence */
    uint8_t *v;     /* host copy of a window, every KV head, in the device's layout */
} s2_windows;

/* Q and V become 0, K random. S2_ENOMEM, or what the device reports. */
s2_status s2_windows_open(s2_harness *harness, uint64_t seed, s2_windows *out) S2_MUST_CHECK;
void s2_windows_close(s2_windows *windows);
/* The keys of a window, in all sequences, get their powers of two, or zeros again. */
s2_status s2_windows_set(s2_windows *windows, int64_t window, bool clear) S2_MUST_CHECK;

typedef struct s2_sight {
    s2_harness *harness;
    const s2_probe_row *row; /* not owned */
    int64_t n_rows;
    int64_t row_bytes; /* of `due` and `seen` */
    uint8_t *due;      /* [row][key / 8]: what the pattern reads */
    uint8_t *seen;     /* the same, what was read */
    int32_t *n_due;    /* [row]: keys */
    int32_t *n_seen;   /* ... -1: not known, and `seen` is a guess, from the pattern's number of keys */
} s2_sight;

/* Fills due and n_due. S2_ENOMEM. */
s2_status s2_sight_open(s2_harness *harness, const s2_probe_row *row, int64_t n_rows,
                        s2_sight *out) S2_MUST_CHECK;
void s2_sight_close(s2_sight *sight);
/* Fills seen and n_seen from these windows; keys of other windows count as unread. S2_ENOMEM, or what the
 * device reports. */
s2_status s2_sight_look(s2_sight *sight, s2_windows *windows, const int64_t *window, int64_t n_windows,
                        s2_diag *why) S2_MUST_CHECK;
/* Whether one row reads one key: the only one whose value is not 0. V must be 0, and is 0 again afterwards. */
s2_status s2_sight_reads(s2_windows *windows, s2_probe_row row, int64_t k_tok, bool *reads,
                         s2_diag *why) S2_MUST_CHECK;

static inline bool s2_sight_bit(const s2_sight *sight, const uint8_t *bits, int64_t row, int64_t k_tok)
{
    return (bits[row * sight->row_bytes + k_tok / 8] >> (k_tok % 8) & 1) != 0;
}

#endif /* S2_JUDGE_SIGHT_H */

#include "tests/gen_mutant.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

s2_mutant s2_mutant_copy(const char *bytes, size_t n)
{
    char *const piece = malloc(n != 0 ? n : 1);
    if (piece == NULL)
        abort();
    if (n != 0)
        memcpy(piece, bytes, n);
    return (s2_mutant){n != 0 ? piece : piece + 1, n};
}

void s2_mutant_release(s2_mutant *mutant)
{
    if (mutant->bytes != NULL)
        free(mutant->n != 0 ? mutant->bytes : mutant->bytes - 1);
    *mutant = (s2_mutant){0};
}

/* `gone` bytes at `at` become the n bytes of `text`. */
static void replace(s2_mutant *mutant, size_t at, size_t gone, const char *text, size_t n)
{
    const size_t total = mutant->n - gone + n;
    char *const joined = malloc(total + 1);
    if (joined == NULL)
        abort();
    memcpy(joined, mutant->bytes, at);
    memcpy(joined + at, text, n);
    memcpy(joined + at + n, mutant->bytes + at + gone, mutant->n - at - gone);
    s2_mutant_release(mutant);
    *mutant = s2_mutant_copy(joined, total);
    free(joined);
}

static size_t below(s2_rng *rng, size_t n)
{
    return n != 0 ? (size_t)s2_rng_below(rng, n) : 0;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void change_byte(s2_rng *rng, s2_mutant *mutant)
{
    static const char signs[] = "=:{}[](),;\"'\\\n\t #-+./0189eEntTF\0\xff\x80";
    const size_t at = below(rng, mutant->n);
    if (mutant->n == 0)
        return;
    switch (s2_rng_below(rng, 3)) {
    case 0: mutant->bytes[at] = (char)(mutant->bytes[at] ^ (1 << s2_rng_below(rng, 8))); break;
    case 1: mutant->bytes[at] = (char)s2_rng_below(rng, 256); break;
    default: mutant->bytes[at] = signs[s2_rng_below(rng, sizeof signs - 1)]; break;
    }
}

/* The first number at or behind a random place, or where there is none, that place. */
static void change_number(s2_rng *rng, s2_mutant *mutant)
{
    static const char *const numbers[] = {"0",
                                          "1",
                                          "-1",
                                          "3",
                                          "255",
                                          "4096",
                                          "4097",
                                          "65536",
                                          "16777216",
                                          "16777217",
                                          "67108865",
                                          "1073741824",
                                          "2147483647",
                                          "2147483648",
                                          "4294967295",
                                          "4294967296",
                                          "-2147483648",
                                          "1099511627776",
                                          "4611686018427387904",
                                          "9223372036854775807",
                                          "9223372036854775808",
                                          "-9223372036854775808",
                                          "18446744073709551616",
                                          "99999999999999999999999999",
                                          "0.5",
                                          "1e3",
                                          "1e19",
                                          "1e308",
                                          "1e309",
                                          "-1e308",
                                          "1e-320",
                                          "nan",
                                          "inf",
                                          "-inf",
                                          "0x10",
                                          "true",
                                          "null",
                                          "\"\"",
                                          "[]",
                                          "{}",
                                          ""};
    const char *const chosen = numbers[s2_rng_below(rng, sizeof numbers / sizeof *numbers)];
    const size_t from = below(rng, mutant->n);
    size_t at = from;
    while (at < mutant->n && !isdigit((unsigned char)mutant->bytes[at]))
        at++;
    at = at < mutant->n ? at : from;
    size_t gone = 0;
    while (at + gone < mutant->n && isdigit((unsigned char)mutant->bytes[at + gone]))
        gone++;
    replace(mutant, at, gone, chosen, strlen(chosen));
}

static void repeat(s2_rng *rng, s2_mutant *mutant)
{
    char piece[4096];
    if (mutant->n == 0)
        return;
    const size_t at = below(rng, mutant->n), n = 1 + below(rng, least(mutant->n - at, 64));
    const size_t times = 1 + below(rng, s2_rng_below(rng, 8) == 0 ? sizeof piece / n : 3);
    for (size_t t = 0; t < times; t++)
        memcpy(piece + t * n, mutant->bytes + at, n);
    replace(mutant, at, 0, piece, times * n);
}

static void nest(s2_rng *rng, s2_mutant *mutant)
{
    static const char *const opening[] = {"[", "{\"a\":", "{a:", "- ", "(", "{", "\n  a:"};
    char text[4096];
    const char *const one = opening[s2_rng_below(rng, sizeof opening / sizeof *opening)];
    const size_t n = strlen(one), times = 1 + below(rng, sizeof text / n);
    for (size_t t = 0; t < times; t++)
        memcpy(text + t * n, one, n);
    replace(mutant, below(rng, mutant->n), 0, text, times * n);
}

static void change(s2_rng *rng, s2_mutant *mutant, const char *b, size_t n_b)
{
    const size_t at = below(rng, mutant->n), from = below(rng, n_b);
    switch (s2_rng_below(rng, 12)) {
    case 0:
    case 1:
    case 2: change_byte(rng, mutant); break;
    case 3:
    case 4:
    case 5:
    case 6: change_number(rng, mutant); break;
    case 7: replace(mutant, at, below(rng, least(mutant->n - at, 33)), "", 0); break;
    case 8: repeat(rng, mutant); break;
    case 9: replace(mutant, at, 0, "\0\0\0\0", 1 + below(rng, 4)); break;
    case 10:
        replace(mutant, at, s2_rng_below(rng, 2) != 0 ? mutant->n - at : below(rng, mutant->n - at), b + from,
                below(rng, n_b - from + 1));
        break;
    default:
        if (s2_rng_below(rng, 4) == 0)
            nest(rng, mutant);
        else
            replace(mutant, at, mutant->n - at, "", 0);
    }
}

s2_mutant s2_mutant_draw(s2_rng *rng, const char *a, size_t n_a, const char *b, size_t n_b)
{
    s2_mutant mutant = s2_mutant_copy(a, n_a);
    for (size_t n = 1 + below(rng, 4); n > 0; n--)
        change(rng, &mutant, b, n_b);
    return mutant;
}

size_t s2_mutant_cuts(const char *bytes, size_t n, size_t most, size_t **cuts)
{
    size_t *const list = malloc((n + 1) * sizeof *list);
    size_t n_cuts = 0, n_signs = 0;
    if (list == NULL)
        abort();
    const size_t step = n / most + 1;
    for (size_t at = 0; at < n; at++) {
        const bool sign =
            at > 0 && (isdigit((unsigned char)bytes[at - 1]) || memchr("=:{[(,\"", bytes[at - 1], 7) != NULL);
        if (at % step == 0 || (sign && n_signs < most)) {
            n_signs += at % step != 0;
            list[n_cuts++] = at;
        }
    }
    *cuts = list;
    return n_cuts;
}

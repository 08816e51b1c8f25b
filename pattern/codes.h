/*
 * pattern/codes.h - the numbers of every refusal, S2Pnnn, with a sentence that explains each.
 *
 * Numbers are stable: scripts and documentation name them. docs/pattern-language.md shows the table.
 * Threads: no state.
 */
#ifndef S2_PATTERN_CODES_H
#define S2_PATTERN_CODES_H

#include <stdint.h>

/* enumerator, number, explanation */
#define S2_CODE_TABLE(X)                                                                                     \
    X(S2P_TOO_LONG, 1, "The text is longer than 1 MiB.")                                                     \
    X(S2P_NUL, 2, "The text contains a NUL byte: it is binary, not a pattern.")                              \
    X(S2P_UTF8, 3, "The text is not valid UTF-8 at this place.")                                             \
    X(S2P_CONTROL, 4, "A control, invisible or direction-changing character; blanks are space and tab.")     \
    X(S2P_STATEMENT, 10, "A statement starts with a word that the language does not have.")                  \
    X(S2P_TERM, 11, "A body contains a term that the language does not have.")                               \
    X(S2P_WORD, 12, "A word that is not possible at this place.")                                            \
    X(S2P_MODEL, 13, "The model is not in the built-in table.")                                              \
    X(S2P_EXPECTED, 20, "Something required is missing at this place.")                                      \
    X(S2P_TRAILING, 21, "The statement is complete, but more text follows before the line end or ';'.")      \
    X(S2P_STRING, 22, "A quoted text is not closed on its line, empty, or has an unknown escape.")           \
    X(S2P_NEGATIVE, 30, "Numbers of the language are never negative.")                                       \
    X(S2P_OVERFLOW, 31, "The number does not fit 63 bits (a seed: 64 bits).")                                \
    X(S2P_LIMIT, 32, "The number exceeds the stated cap of this quantity.")                                  \
    X(S2P_UNIT, 33, "The suffix is unknown, or this quantity has no such unit.")                             \
    X(S2P_TOO_SMALL, 34, "The number is below the smallest that makes sense here.")                          \
    X(S2P_RANGE, 40, "A range is empty or reversed, or conditions exclude each other.")                      \
    X(S2P_OUT_OF_RANGE, 41,                                                                                  \
      "A selector names a layer or head that the shape does not have, or no layer with keys.")               \
    X(S2P_MIXED_UNITS, 42, "Numbers that belong together are in different units.")                           \
    X(S2P_DUPLICATE, 50, "A shape statement or a part of a selector is given twice.")                        \
    X(S2P_NO_HEADS, 51, "The number of heads is neither stated nor given by a model.")                       \
    X(S2P_KV_HEADS, 52, "The number of KV heads must divide the number of heads.")                           \
    X(S2P_BLOCK, 53, "The block size must be a power of two from 1 to 1024 tokens.")                         \
    X(S2P_NAME, 54, "The name is longer than 200 bytes.")                                                    \
    X(S2P_MODEL_LATE, 55, "model comes before the shape statements that override it.")                       \
    X(S2P_LAYER, 56, "A layer's own number contradicts the layer whose keys it reads.")                      \
    X(S2P_TOO_MANY_RULES, 60, "There are more than 4096 rules.")                                             \
    X(S2P_NO_RULE, 61, "A head of a layer has no rule: nothing says what it reads.")                         \
    X(S2P_IRREGULAR, 62, "The pattern is so irregular that its canonical text exceeds the caps.")            \
    X(S2P_MASK_FILE, 70, "The mask file cannot be read.")                                                    \
    X(S2P_MASK_FORMAT, 71, "The mask file is not a boolean NumPy array in C order.")                         \
    X(S2P_MASK_SHAPE, 72, "The mask does not fit the pattern: its heads or its blocks.")                     \
    X(S2P_MASK_REFUSED, 73, "Mask files are refused in text of this origin.")                                \
    X(S2P_MASK_LATER, 74, "The mask allows keys after their queries, and the pattern is causal.")            \
    X(S2P_MASK_CHANGED, 75, "The mask file is not the one that the text was written for.")                   \
    X(S2P_INVARIANT, 80, "A pattern built in memory breaks an invariant of pattern/spec.h.")

typedef enum s2_code {
#define S2_CODE_ENUM(name, number, text) name = number,
    S2_CODE_TABLE(S2_CODE_ENUM)
#undef S2_CODE_ENUM
} s2_code;

/* The explanation of a number, or NULL when there is no such code. */
const char *s2_code_explain(int32_t code);

/* All codes in ascending order, for listings. */
enum {
    S2_N_CODES = 0
#define S2_CODE_COUNT(name, number, text) +1
    S2_CODE_TABLE(S2_CODE_COUNT)
#undef S2_CODE_COUNT
};
int32_t s2_code_at(int32_t nth);

#endif /* S2_PATTERN_CODES_H */

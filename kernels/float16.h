/*
 * kernels/float16.h - bf16, fp16 and e4m3 as bit patterns on the host; rounding is to nearest, ties to even.
 */
#ifndef S2_KERNELS_FLOAT16_H
#define S2_KERNELS_FLOAT16_H

#include <stdint.h>
#include <string.h>

#include "kernels/device.h"

static inline uint32_t s2_float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline float s2_bits_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float s2_bf16_to_float(uint16_t h)
{
    return s2_bits_float((uint32_t)h << 16);
}
static inline uint16_t s2_bf16_of_float(float x)
{
    const uint32_t bits = s2_float_bits(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* Multiplying by 2^112 moves an fp16 exponent to its place in fp32, subnormals included. */
static inline float s2_f16_to_float(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu;
    if (rest >= 0x7c00u)
        return s2_bits_float(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    const float value = s2_bits_float(rest << 13) * 0x1p112f;
    return s2_bits_float(sign | s2_float_bits(value));
}
static inline uint16_t s2_f16_of_float(float x)
{
    const uint32_t bits = s2_float_bits(x), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u);
    if (rest >= 0x477ff000u) /* 65520: the first value that rounds to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (rest < 0x38800000u) /* below 2^-14: adding 0.5 leaves multiples of 2^-24 in the low bits */
        return (uint16_t)(sign | (s2_float_bits(s2_bits_float(rest) + 0.5f) - 0x3f000000u));
    return (uint16_t)(sign | (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13);
}

/*
 * e4m3: a sign, four bits of exponent, three of mantissa; the largest is 448, the least 2^-9, and there is no
 * infinity. What is larger than 448 becomes 448, as no key should become NaN for being large.
 */
static inline float s2_e4m3_to_float(uint8_t code)
{
    const uint32_t sign = (uint32_t)(code & 0x80u) << 24, rest = code & 0x7fu;
    if (rest == 0x7fu)
        return s2_bits_float(sign | 0x7fc00000u);
    const float value = s2_bits_float(rest << 20) * 0x1p120f;
    return s2_bits_float(sign | s2_float_bits(value));
}
static inline uint8_t s2_e4m3_of_float(float x)
{
    const uint32_t bits = s2_float_bits(x), sign = bits >> 24 & 0x80u, rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u)
        return 0x7f;
    if (rest >= 0x43e00000u) /* 448 */
        return (uint8_t)(sign | 0x7eu);
    if (rest < 0x3c800000u) /* below 2^-6: adding 2^14 leaves multiples of 2^-9 in the low bits */
        return (uint8_t)(sign | (s2_float_bits(s2_bits_float(rest) + 0x1p14f) - 0x46800000u));
    return (uint8_t)(sign | (rest - 0x3c000000u + 0x7ffffu + (rest >> 20 & 1u)) >> 20);
}

/* Element i of an array of dtype. */
static inline float s2_float_load(const void *data, s2_dtype dtype, int64_t i)
{
    if (dtype == S2_F32)
        return ((const float *)data)[i];
    if (dtype == S2_F8)
        return s2_e4m3_to_float(((const uint8_t *)data)[i]);
    const uint16_t h = ((const uint16_t *)data)[i];
    return dtype == S2_BF16 ? s2_bf16_to_float(h) : s2_f16_to_float(h);
}
static inline void s2_float_store(void *data, s2_dtype dtype, int64_t i, float x)
{
    if (dtype == S2_F32)
        ((float *)data)[i] = x;
    else if (dtype == S2_F8)
        ((uint8_t *)data)[i] = s2_e4m3_of_float(x);
    else
        ((uint16_t *)data)[i] = dtype == S2_BF16 ? s2_bf16_of_float(x) : s2_f16_of_float(x);
}
/* x rounded to the type. */
static inline float s2_round_to(s2_dtype dtype, float x)
{
    switch (dtype) {
    case S2_BF16: return s2_bf16_to_float(s2_bf16_of_float(x));
    case S2_F16: return s2_f16_to_float(s2_f16_of_float(x));
    case S2_F8: return s2_e4m3_to_float(s2_e4m3_of_float(x));
    case S2_F32: break;
    }
    return x;
}

#endif /* S2_KERNELS_FLOAT16_H */

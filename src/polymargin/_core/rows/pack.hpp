// Four doubles that move together. GCC and Clang turn the vector type into whatever the processor has (two SSE2 or NEON
// registers, one AVX register); other compilers get plain arrays. Sums are formed in a fixed order, so the same build gives
// the same bits every time, and no flag is needed that lets the compiler reassociate at will.
#pragma once

#include <cstddef>
#include <cstring>

#if (defined(__GNUC__) || defined(__clang__)) && defined(__AVX__)
#define POLYMARGIN_AVX
#include <immintrin.h>
#endif

namespace polymargin {

#if defined(__GNUC__) || defined(__clang__)
using Pack = double __attribute__((vector_size(32)));
using FloatPack = float __attribute__((vector_size(16)));
#else
struct Pack {
    double v[4];
    double operator[](int k) const { return v[k]; }
    Pack& operator+=(const Pack& o) {
        for (int k = 0; k < 4; ++k) v[k] += o.v[k];
        return *this;
    }
    friend Pack operator+(Pack a, const Pack& b) { return a += b; }
    friend Pack operator*(Pack a, const Pack& b) {
        for (int k = 0; k < 4; ++k) a.v[k] *= b.v[k];
        return a;
    }
};
#endif

inline Pack load(const double* from) {
    Pack pack;
    std::memcpy(&pack, from, sizeof pack);
    return pack;
}

inline Pack load(const float* from) {
#if defined(POLYMARGIN_AVX)
    return static_cast<Pack>(_mm256_cvtps_pd(_mm_loadu_ps(from)));  // one instruction; GCC makes five of the vector types' conversion
#elif defined(__GNUC__) || defined(__clang__)
    FloatPack pack;
    std::memcpy(&pack, from, sizeof pack);
    return __builtin_convertvector(pack, Pack);
#else
    return Pack{{from[0], from[1], from[2], from[3]}};
#endif
}

inline void store(double* to, const Pack& pack) { std::memcpy(to, &pack, sizeof pack); }

inline Pack spread(double value) {
    const double four[4] = {value, value, value, value};
    return load(four);
}

inline double sum(const Pack& pack) { return (pack[0] + pack[2]) + (pack[1] + pack[3]); }

// <a, b> of whole packs
inline double inner_of_packs(const double* a, const double* b, std::size_t size) {
    Pack even = spread(0.0), odd = even;
    std::size_t k = 0;
    for (; k + 8 <= size; k += 8) {
        even += load(a + k) * load(b + k);
        odd += load(a + k + 4) * load(b + k + 4);
    }
    for (; k < size; k += 4) even += load(a + k) * load(b + k);
    return sum(even + odd);
}

}  // namespace polymargin

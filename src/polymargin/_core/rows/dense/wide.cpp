// Kernels of dense rows in registers of eight doubles. This source alone is compiled for processors that have them: whatever it makes of
// templates is named after a type of its own, so that no other source can come to use it.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"  // both are found in the header (bug 105593)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include "wide.hpp"

namespace polymargin {
namespace {

struct OneRegister {
    using Eight = double __attribute__((vector_size(64)));
    static constexpr int rows_of_tile = 8;  // beside three class vectors: 24 sums in 32 registers

    static Eight zero() { return spread(0.0); }
    static Eight spread(double value) { return static_cast<Eight>(_mm512_set1_pd(value)); }
    static Eight load(const double* from) { return static_cast<Eight>(_mm512_loadu_pd(from)); }
    static Eight load(const float* from) { return static_cast<Eight>(_mm512_cvtps_pd(_mm256_loadu_ps(from))); }
    static Eight load_four(const double* from) { return with_zeros(_mm256_loadu_pd(from)); }
    static Eight load_four(const float* from) { return with_zeros(_mm256_cvtps_pd(_mm_loadu_ps(from))); }
    static void store(double* to, const Eight& eight) { _mm512_storeu_pd(to, static_cast<__m512d>(eight)); }
    static void store_four(double* to, const Eight& eight) { _mm256_storeu_pd(to, low(eight)); }
    static void add_product(Eight& sum, const Eight& a, const Eight& b) { sum += a * b; }
    static void add_four_products(Eight& sum, const Eight& a, const Eight& b) { sum += a * b; }  // the others are products of zeros
    // in the order of two packs
    static double sum(const Eight& eight) {
        const __m256d four = _mm256_add_pd(low(eight), _mm512_extractf64x4_pd(static_cast<__m512d>(eight), 1));
        return (four[0] + four[2]) + (four[1] + four[3]);
    }

private:
    static __m256d low(const Eight& eight) { return _mm512_castpd512_pd256(static_cast<__m512d>(eight)); }
    static Eight with_zeros(__m256d four) { return static_cast<Eight>(_mm512_insertf64x4(_mm512_setzero_pd(), four, 0)); }
};

template <class T>
const WideKernels<T>* found() {
    using Kernels = DenseKernels<OneRegister, T>;
    static const WideKernels<T> kernels{Kernels::scores, Kernels::scores_of_rows, Kernels::add};
    return __builtin_cpu_supports("avx512f") ? &kernels : nullptr;
}

}  // namespace

template <>
const WideKernels<double>* WideKernels<double>::of_this_processor() {
    return found<double>();
}
template <>
const WideKernels<float>* WideKernels<float>::of_this_processor() {
    return found<float>();
}

}  // namespace polymargin

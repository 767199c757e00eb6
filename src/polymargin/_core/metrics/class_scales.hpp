// The metric of sum_k |w_k|^2 / (2 beta_k): one curvature per class, h_k = beta_k |x_i|^2 (+ 1/rho with an intercept).
#pragma once

#include "../rows/basics.hpp"

namespace polymargin {

struct ClassScales {
    static constexpr bool has_scales = true, between_classes = false;

    const double* beta;
    double q, inverse_rho;

    double curvature(Index k) const { return beta[k] * (q - inverse_rho) + inverse_rho; }

    double square(const Index* classes, const double* steps, Size count) const {
        double sum = 0.0;
        for (Size k = 0; k < count; ++k) sum += steps[k] * steps[k] * curvature(classes[k]);
        return sum;
    }
};

}  // namespace polymargin

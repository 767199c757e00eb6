// The metric of sum_k |w_k|^2 / (2 beta_k): one curvature per class, h_k = beta_k |x_i|^2 (+ 1/rho with an intercept).
#pragma once

#include <algorithm>

#include "rows/basics.hpp"

namespace polymargin {

struct ClassScales {
    static constexpr const char* name = "class_scales";
    static constexpr bool has_scales = true, between_classes = false, has_sum = false;

    const double* beta;
    double q, inverse_rho;

    double curvature(Index k) const { return beta[k] * (q - inverse_rho) + inverse_rho; }

    double square(const Index* classes, const double* steps, Size count) const {
        double sum = 0.0;
        for (Size k = 0; k < count; ++k) sum += steps[k] * steps[k] * curvature(classes[k]);
        return sum;
    }

    // the largest curvature of any step on these classes
    double largest(const Index* classes, Size count, double* /*scratch*/) const {
        double most = 0.0;
        for (Size k = 0; k < count; ++k) most = std::max(most, curvature(classes[k]));
        return most;
    }
};

}  // namespace polymargin

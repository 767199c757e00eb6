// The metric of 1/2 tr(W L W'), L a matrix between the classes and P its inverse on vectors of sum 0: W = sum_i x_i (P tau_i)'.
#pragma once

#include <algorithm>
#include <cmath>

#include "rows/basics.hpp"

namespace polymargin {

struct BetweenClasses {
    static constexpr const char* name = "between_classes";
    static constexpr bool has_scales = false, between_classes = true, has_sum = false;

    const double* P;  // (c, c)
    Size c, y;
    double q;

    // (e_k - e_y)' P (e_l - e_y)
    double between(Index k, Index l) const {
        const double *own = P + y * c, *other = P + static_cast<Size>(k) * c;
        return other[l] - other[y] - own[l] + own[y];
    }

    double square(const Index* classes, const double* steps, Size count) const {
        double sum = 0.0;
        for (Size j = 0; j < count; ++j) {
            const double* column = P + static_cast<Size>(classes[j]) * c;
            for (Size k = 0; k < count; ++k) sum += steps[j] * steps[k] * column[classes[k]];
        }
        return q * sum;
    }

    // An upper bound of the curvature of steps of sum 0 on these classes: no eigenvalue of their block of P, less its means, is
    // above the sum of a row's absolute values, nor above the Frobenius norm. Both are exact for two classes.
    double largest(const Index* classes, Size count, double* means) const {
        const double share = 1.0 / static_cast<double>(count);
        double mean = 0.0, squares = 0.0, widest = 0.0;
        for (Size j = 0; j < count; ++j) {
            const double* column = P + static_cast<Size>(classes[j]) * c;
            means[j] = 0.0;
            for (Size k = 0; k < count; ++k) means[j] += share * column[classes[k]];
            mean += share * means[j];
        }
        for (Size j = 0; j < count; ++j) {
            const double* column = P + static_cast<Size>(classes[j]) * c;
            double width = 0.0;
            for (Size k = 0; k < count; ++k) {
                const double value = column[classes[k]] - means[j] - means[k] + mean;
                squares += value * value;
                width += std::fabs(value);
            }
            widest = std::max(widest, width);
        }
        return q * std::min(widest, std::sqrt(squares));
    }
};

}  // namespace polymargin

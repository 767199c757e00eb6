// The metric of 1/2 tr(W L W'), L a matrix between the classes and P its inverse on vectors of sum 0: W = sum_i x_i (P tau_i)'.
#pragma once

#include "../rows/basics.hpp"

namespace polymargin {

struct BetweenClasses {
    static constexpr bool has_scales = false, between_classes = true;

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
};

}  // namespace polymargin

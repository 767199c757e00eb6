// The metric of a coupling of the classes, w_k = scale (z_k - mean z) + common (mean z): one curvature for steps of sum zero,
// another for the same step of all classes.
#pragma once

#include <algorithm>

#include "domains/common/lanes.hpp"
#include "rows/basics.hpp"

namespace polymargin {

struct Coupled {
    static constexpr const char* name = "coupled";
    static constexpr bool has_scales = false, between_classes = false, has_sum = true;

    double apart, together, c;
    bool sums_to_zero;  // its steps do

    double square(const Index* /*classes*/, const double* steps, Size count) const {
        const double sum = sum_of(steps, count);
        return apart * sum_of_squares(steps, count) + (together - apart) / c * sum * sum;
    }

    double largest(const Index* /*classes*/, Size /*count*/, double* /*scratch*/) const {
        return sums_to_zero ? apart : std::max(apart, together);
    }
};

}  // namespace polymargin

// The metric of 1/2 |W|^2: a row's share of the dual has the curvature q = |x_i|^2 for every class.
#pragma once

#include "rows/basics.hpp"

namespace polymargin {

struct Identity {
    static constexpr const char* name = "identity";
    static constexpr bool has_scales = false, between_classes = false, has_sum = false;

    double q;

    double curvature(Index /*k*/) const { return q; }

    // of a step `steps` on `classes`, the own class last, in the metric
    double square(const Index* /*classes*/, const double* steps, Size count) const {
        double sum = 0.0;
        for (Size k = 0; k < count; ++k) sum += steps[k] * steps[k];
        return q * sum;
    }
};

}  // namespace polymargin

// The domain a >= 0 of the squared largest one of absolute margins: its dual has the term -(sum_k a_k)^2 / (4 u).
#pragma once

#include "squared_simplex.hpp"

namespace polymargin {

class SquaredAbsoluteSimplex : public AbsoluteMargins, public UnboundedDuals {
public:
    static constexpr Squares squares = Squares::of_sum;

    SquaredAbsoluteSimplex(const std::vector<double>& parameters, Size /*n_classes*/) : AbsoluteMargins(parameters) {}

    double loss(const double* violations, Size n_classes, Size y) const {
        double largest = 0.0;
        for (Size k = 0; k < n_classes; ++k) {
            if (weight(k == y) > 0.0) largest = std::max(largest, violations[k]);
        }
        return largest * largest;
    }

    double square(const RowDuals& duals) const { return SquaredSimplex{}.square(duals); }
    Assessment assess(RowView& row, double threshold) const { return SquaredSimplex{}.assess(row, threshold); }

    // a_k = (o_k - nu)_+ / q at the price nu = sum_k a_k / (2u)
    void solve(RowView& row, const Identity& metric) const {
        if (!(metric.q > 0.0)) return solve_without_features(row);
        for (Size k = 0; k < row.count; ++k) {
            row.next[k] = row.g[k] + metric.q * row.a[k];
            row.scratch[k] = 1.0 / metric.q;
        }
        const double nu = price(row.next, row.scratch, row.count, 2.0 * row.cost, 0.0);
        take_at_price(row, nu, std::max(0.0, 2.0 * row.cost * nu));
    }

private:
    static void solve_without_features(RowView& row) {
        std::fill_n(row.next, row.count, 0.0);
        if (row.count > 0) row.next[row.highest()] = std::max(0.0, 2.0 * row.cost * row.g[row.highest()]);
    }
};

}  // namespace polymargin

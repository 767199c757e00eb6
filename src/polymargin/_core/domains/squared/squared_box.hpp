// The domain a >= 0 of the sum of squares over the rivals, loss sum_l [1 - (s_y - s_l)]_+^2: its dual has the terms -a_l^2 / (4 u),
// which add 1 / (2u) to the curvature of every rival.
#pragma once

#include "domains/common/separate_bounds.hpp"
#include "domains/common/unbounded.hpp"
#include "domains/simplex.hpp"

namespace polymargin {

struct SquaredBox : RelativeMargins, UnboundedDuals {
    static constexpr Squares squares = Squares::of_each;

    double loss(const double* scores, Size n_classes, Size y) const {
        double sum = 0.0;
        for (Size k = 0; k < n_classes; ++k) {
            const double hinge = k == y ? 0.0 : std::max(0.0, 1.0 + scores[k] - scores[y]);
            sum += hinge * hinge;
        }
        return sum;
    }

    double square(const RowDuals& duals) const {
        double sum = 0.0;
        for (Size k = 0; k < duals.count; ++k) sum += duals.a[k] * duals.a[k];
        return sum;
    }

    Assessment assess(RowView& row, double threshold) const {
        const SquaredDual dual{0.5 / row.cost};
        return assess_each(row, row.g_target, dual, dual, row.count, threshold);
    }

    void solve(RowView& row, const Identity& metric) const { solve_at_price(row, metric); }
    void solve(RowView& row, const ClassScales& metric) const { solve_at_price(row, metric); }

private:
    // The own class gives what the others take at one price, as in a simplex without a cap.
    template <class Metric>
    static void solve_at_price(RowView& row, const Metric& metric) {
        const double h_target = metric.curvature(row.y);
        if (!(metric.q > 0.0)) return solve_without_features(row);
        const double o_target = without_own_share(row, metric, h_target), give = 1.0 / h_target;
        for (Size k = 0; k < row.count; ++k) row.scratch[k] = 1.0 / (metric.curvature(row.classes[k]) + 0.5 / row.cost);
        take_at_price(row, price(row.next, row.scratch, row.count, give, give * o_target, row.g_target), whatever);
    }

    static void solve_without_features(RowView& row) {
        for (Size k = 0; k < row.count; ++k) row.next[k] = 2.0 * row.cost * std::max(0.0, row.g[k] - row.g_target);
    }
};

}  // namespace polymargin

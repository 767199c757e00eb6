// The domain a >= 0 of the weighted sum of the squares of absolute margins: its dual has the terms -a_k^2 / (4 u weight_k).
#pragma once

#include "metrics/class_scales.hpp"
#include "metrics/identity.hpp"
#include "domains/common/margins.hpp"
#include "domains/common/separate_bounds.hpp"
#include "domains/common/separate_margins.hpp"
#include "domains/common/unbounded.hpp"

namespace polymargin {

class SquaredAbsoluteBox : public AbsoluteMargins, public UnboundedDuals {
public:
    static constexpr Squares squares = Squares::of_each;
    static constexpr bool separate = true;

    SquaredAbsoluteBox(const std::vector<double>& parameters, Size /*n_classes*/) : AbsoluteMargins(parameters) {}

    double loss(const double* violations, Size n_classes, Size y) const {
        double sum = 0.0;
        for (Size k = 0; k < n_classes; ++k) {
            const double hinge = std::max(0.0, violations[k]);
            sum += weight(k == y) * hinge * hinge;
        }
        return sum;
    }

    double square(const RowDuals& duals) const {
        double sum = 0.0;
        for (Size k = 0; k < duals.count; ++k) {
            if (duals.a[k] != 0.0) sum += duals.a[k] * duals.a[k] / weight(duals.is_own(k));
        }
        return sum;
    }

    Assessment assess(RowView& row, double threshold) const {
        return assess_each(row, 0.0, SquaredDual{curvature(rival_, row)}, SquaredDual{curvature(own_, row)}, row.position_of_own(), threshold);
    }

    void solve(RowView& row, const Identity& metric) const {
        solve_apart(row, metric.q, {curvature(own_, row), infinity}, {curvature(rival_, row), infinity});
    }
    void solve(RowView& row, const ClassScales& metric) const { solve_each(row, metric); }
    void solve(RowView& row, const Coupled& metric) const {
        solve_coupled(row, metric, {curvature(own_, row), infinity}, {curvature(rival_, row), infinity});
    }

private:
    // 1 / (2 u weight): what the loss adds; of no interest where no margin has the weight
    static double curvature(double weight, const RowView& row) { return weight > 0.0 ? 0.5 / (weight * row.cost) : 1.0; }

    template <class Metric>
    void solve_each(RowView& row, const Metric& metric) const {
        for (Size k = 0; k < row.count; ++k) {
            const double h = metric.curvature(row.classes[k]);
            row.next[k] = std::max(0.0, (row.g[k] + h * row.a[k]) / (h + curvature(weight(row.classes[k] == row.y), row)));
        }
    }
};

}  // namespace polymargin

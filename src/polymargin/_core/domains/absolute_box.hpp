// The box 0 <= a_k <= u weight_k of absolute margins: loss g [delta - s_y]_+ + (1 - g) sum_l [1 + s_l]_+ and its kin (Lee, Lin & Wahba
// 2004; Liu & Yuan 2011; one versus rest).
#pragma once

#include "metrics/class_scales.hpp"
#include "metrics/identity.hpp"
#include "common/margins.hpp"
#include "common/separate_bounds.hpp"
#include "common/separate_margins.hpp"

namespace polymargin {

class AbsoluteBox : public AbsoluteMargins {
public:
    static constexpr bool has_faces = true;
    static constexpr bool separate = true;

    AbsoluteBox(const std::vector<double>& parameters, Size /*n_classes*/) : AbsoluteMargins(parameters) {}

    Size fewest() const { return 1; }

    double loss(const double* violations, Size n_classes, Size y) const {
        double sum = 0.0;
        for (Size k = 0; k < n_classes; ++k) sum += weight(k == y) * std::max(0.0, violations[k]);
        return sum;
    }

    double room(const RowDuals& duals) const {
        double most = 1.0;
        for (Size k = 0; k < duals.count; ++k) {
            const double cap = weight(duals.is_own(k)) * duals.cost;
            if (duals.a[k] > cap) most = std::min(most, cap / duals.a[k]);
        }
        return most;
    }

    bool is_free(double a, double cost, bool own) const { return a > 0.0 && a < weight(own) * cost; }
    bool is_closed(double /*sum*/, double /*cost*/) const { return false; }

    void project(const RowDuals& duals, bool /*closed*/, double /*held*/, double* a, double* /*scratch*/) const {
        for (Size k = 0; k < duals.count; ++k) a[k] = std::min(std::max(0.0, a[k]), weight(duals.is_own(k)) * duals.cost);
    }

    Assessment assess(RowView& row, double threshold) const {
        return assess_each(row, 0.0, BoundedDual{rival_ * row.cost}, BoundedDual{own_ * row.cost}, row.position_of_own(), threshold);
    }

    bool settled(const RowView& row) const { return row.count == 0; }

    void solve(RowView& row, const Identity& metric) const {
        if (!(metric.q > 0.0)) return solve_without_features(row);
        solve_apart(row, metric.q, {0.0, own_ * row.cost}, {0.0, rival_ * row.cost});
    }
    void solve(RowView& row, const ClassScales& metric) const { solve_each(row, metric); }
    void solve(RowView& row, const Coupled& metric) const {
        if (!(metric.apart > 0.0)) return solve_without_features(row);
        solve_coupled(row, metric, {0.0, own_ * row.cost}, {0.0, rival_ * row.cost});
    }

private:
    double cap(const RowView& row, Size k) const { return weight(row.classes[k] == row.y) * row.cost; }

    template <class Metric>
    void solve_each(RowView& row, const Metric& metric) const {
        if (!(metric.q > 0.0)) return solve_without_features(row);
        for (Size k = 0; k < row.count; ++k) {
            const double to = row.a[k] + row.g[k] / metric.curvature(row.classes[k]);
            row.next[k] = std::min(std::max(to, 0.0), cap(row, k));
        }
    }

    void solve_without_features(RowView& row) const {
        for (Size k = 0; k < row.count; ++k) row.next[k] = row.g[k] > 0.0 ? cap(row, k) : 0.0;
    }
};

}  // namespace polymargin

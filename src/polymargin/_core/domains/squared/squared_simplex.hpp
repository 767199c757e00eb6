// The domain a >= 0 of the squared maximum over the rivals, loss max_l [1 - (s_y - s_l)]_+^2: its dual has the term
// -(sum_l a_l)^2 / (4 u), which adds 1 / (2u) to the curvature of the own class.
#pragma once

#include "domains/common/unbounded.hpp"
#include "domains/simplex.hpp"

namespace polymargin {

struct SquaredSimplex : RelativeMargins, UnboundedDuals {
    static constexpr Squares squares = Squares::of_sum;
    static constexpr bool of_highest = true;

    double loss(const double* scores, Size n_classes, Size y) const {
        const double hinge = Simplex{}.loss(scores, n_classes, y);
        return hinge * hinge;
    }

    double square(const RowDuals& duals) const {
        const double sum = duals.sum();
        return sum * sum;
    }

    // the slope of the own class, with the loss's part
    double own_level(const RowView& row, double sum) const { return row.g_target + sum / (2.0 * row.cost); }

    Assessment assess(RowView& row, double /*threshold*/) const {
        Sum sums, inner;
        Largest highest(-infinity);
        Smallest of_duals(infinity);
        in_lanes(row.count, [&](Size k, auto lane) {
            const auto a = read(row.a + k, lane), g = read(row.g + k, lane);
            highest.see(g);
            sums += a;
            inner += a * (g - all(row.g_target, lane));
            of_duals.see(where_above(a, all(0.0, lane), g, all(infinity, lane)));
        });
        const double best = highest.value(), sum = sums.value(), hinge = std::max(0.0, best - row.g_target);
        const double gap = row.cost * hinge * hinge + sum * sum / (4.0 * row.cost) - inner.value();
        const double own = own_level(row, sum), lowest = std::min(of_duals.value(), own);
        Size kept = 0;
        for (Size k = 0; k < row.count; ++k) {
            if (row.a[k] > 0.0 || row.g[k] >= lowest) row.keep(kept++, k);
        }
        row.count = kept;
        return {gap, std::max(best, own) - lowest};
    }

    void solve(RowView& row, const Identity& metric) const { solve_at_price(row, metric); }
    void solve(RowView& row, const ClassScales& metric) const { solve_at_price(row, metric); }

private:
    template <class Metric>
    static void solve_at_price(RowView& row, const Metric& metric) {
        if (!(metric.q > 0.0)) return solve_without_features(row);
        const double h_target = metric.curvature(row.y), give = 1.0 / (h_target + 0.5 / row.cost);
        const double o_target = without_own_share(row, metric, h_target), own_now = row.g_target + row.sum() / (2.0 * row.cost);
        const double nu = price(row.next, row.scratch, row.count, give, give * o_target, own_now);
        take_at_price(row, nu, std::max(0.0, give * (nu - o_target)));
    }

    // A row of zeros moves no weight: its loss is 1 whatever the machine, its dual 2u on any class.
    static void solve_without_features(RowView& row) {
        std::fill_n(row.next, row.count, 0.0);
        if (row.count == 0) return;
        const Size best = row.highest();
        row.next[best] = std::max(0.0, 2.0 * row.cost * (row.g[best] - row.g_target));
    }
};

}  // namespace polymargin

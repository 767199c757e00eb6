// The capped simplex a >= 0, sum_k a_k <= u of the largest of absolute margins: loss max of [delta - s_y]_+ and all [1 + s_l]_+, or of
// the rivals alone. What is not handed out has the price 0 (g_target), as the own class has one in simplex.hpp.
#pragma once

#include "simplex.hpp"

namespace polymargin {

class AbsoluteSimplex : public AbsoluteMargins {
public:
    static constexpr bool has_faces = true;

    AbsoluteSimplex(const std::vector<double>& parameters, Size /*n_classes*/) : AbsoluteMargins(parameters) {}

    Size fewest() const { return 1; }

    double loss(const double* violations, Size n_classes, Size y) const {
        double largest = 0.0;
        for (Size k = 0; k < n_classes; ++k) {
            if (weight(k == y) > 0.0) largest = std::max(largest, violations[k]);
        }
        return largest;
    }

    double room(const RowDuals& duals) const { return Simplex{}.room(duals); }
    bool is_free(double a, double /*cost*/, bool /*own*/) const { return a > 0.0; }
    bool is_closed(double sum, double cost) const { return Simplex{}.is_closed(sum, cost); }
    void project(const RowDuals& duals, bool closed, double held, double* a, double* scratch) const {
        Simplex{}.project(duals, closed, held, a, scratch);
    }
    Assessment assess(RowView& row, double threshold) const { return Simplex{}.assess(row, threshold); }
    bool settled(const RowView& row) const { return Simplex{}.settled(row); }

    void solve(RowView& row, const Identity& metric) const {
        if (!(metric.q > 0.0)) return solve_without_features(row);
        double sum = 0.0;
        for (Size k = 0; k < row.count; ++k) {
            row.next[k] = row.g[k] / metric.q + row.a[k];
            sum += std::max(0.0, row.next[k]);
        }
        const bool capped = !row.target_active || sum > row.cost;
        const double nu = capped ? simplex_threshold(row.next, row.count, row.cost, row.scratch) : 0.0;
        std::fill_n(row.scratch, row.count, 1.0);
        take_at_price(row, nu, capped ? row.cost : whatever);
    }

private:
    static void solve_without_features(RowView& row) {
        std::fill_n(row.next, row.count, 0.0);
        if (row.count > 0 && row.g[row.highest()] > 0.0) row.next[row.highest()] = row.cost;
    }
};

}  // namespace polymargin

// The simplex with a cap on every dual, 0 <= a_l <= u / k and sum_l a_l <= u, of the mean of the k largest [1 - (s_y - s_l)]_+
// (Lapin, Hein & Schiele 2015, the beta form).
#pragma once

#include "../metrics/identity.hpp"
#include "common/capped_prices.hpp"

namespace polymargin {

class CappedSimplex : public LargestMargins {
public:
    static constexpr bool has_faces = true;

    CappedSimplex(const std::vector<double>& parameters, Size n_classes) : LargestMargins(parameters, n_classes) {}

    double loss(const double* scores, Size n_classes, Size y) const {
        std::vector<double> margins(n_classes);
        for (Size k = 0; k < n_classes; ++k) margins[k] = k == y ? 0.0 : 1.0 + scores[k] - scores[y];
        return loss_of_margins(margins.data(), n_classes);
    }

    // The loss of the margins of a list, which are overwritten.
    double loss_of_margins(double* margins, Size count) const {
        for (Size k = 0; k < count; ++k) margins[k] = std::max(0.0, margins[k]);
        return top(margins, count).mean;
    }

    double room(const RowDuals& duals) const {
        return std::min(1.0, duals.cost / std::max(duals.sum(), k_ * duals.largest()));
    }

    bool is_free(double a, double cost, bool /*own*/) const { return a > 0.0 && a < cost / k_; }
    bool is_closed(double sum, double cost) const { return sum >= cost * (1.0 - 1e-14); }

    void project(const RowDuals& duals, bool closed, double held, double* a, double* /*scratch*/) const {
        const double cap = duals.cost / k_, left = std::max(0.0, duals.cost - held);
        double sum = 0.0;
        for (Size k = 0; k < duals.count; ++k) sum += std::min(std::max(0.0, a[k]), cap);
        const double nu = closed || sum > left ? price_of(a, duals.count, cap, left, 0.0, 0.0).nu : 0.0;
        for (Size k = 0; k < duals.count; ++k) a[k] = std::min(std::max(0.0, a[k] - nu), cap);
    }

    // Classes without a dual stay in the list while they are among the k highest or above a class with one.
    Assessment assess(RowView& row, double /*threshold*/) const {
        double sum = 0.0, inner = 0.0, lowest = infinity;
        for (Size k = 0; k < row.count; ++k) {
            const double margin = row.g[k] - row.g_target;
            row.scratch[k] = std::max(0.0, margin);
            sum += row.a[k];
            inner += row.a[k] * margin;
            if (row.a[k] > 0.0) lowest = std::min(lowest, margin);
        }
        const Top highest = top(row.scratch, row.count);
        const double gap = row.cost * highest.mean - inner;
        lowest = std::min(lowest, highest.last);
        if (sum == 0.0 && highest.mean <= 0.0) lowest = infinity;  // nothing to take
        Size kept = 0;
        for (Size k = 0; k < row.count; ++k) {
            if (row.a[k] > 0.0 || row.g[k] - row.g_target >= lowest) row.keep(kept++, k);
        }
        row.count = kept;
        return {gap, std::max(0.0, gap) / row.cost};
    }

    bool settled(const RowView& row) const { return row.count == 0; }

    // As in top_k.hpp, without the cone.
    void solve(RowView& row, const Identity& metric) const {
        std::fill_n(row.next, row.count, 0.0);
        if (row.count == 0) return;
        if (!(metric.q > 0.0)) return solve_without_features(row);
        double* z = row.scratch;
        const double before = row.sum(), cap = row.cost / k_, z_target = row.g_target / metric.q - before;
        for (Size k = 0; k < row.count; ++k) z[k] = row.g[k] / metric.q + row.a[k];
        Price at = price_of(z, row.count, cap, -z_target, 1.0, before + z_target);
        const double total = at.nu - z_target;
        if (total > row.cost) at = price_of(z, row.count, cap, row.cost, 0.0, at.nu);
        take(row, z, at.nu, cap, std::min(std::max(total, 0.0), row.cost));
    }

private:
    // A row of zeros moves no weight: the violated ones of the k highest classes are at their caps.
    void solve_without_features(RowView& row) const {
        std::copy_n(row.g, row.count, row.scratch);
        double lowest = std::max(row.g_target, top(row.scratch, row.count).last), left = k_;
        for (const bool ties : {false, true}) {
            for (Size k = 0; k < row.count; ++k) {
                if (left < 1.0 || !(ties ? row.g[k] == lowest && lowest > row.g_target : row.g[k] > lowest)) continue;
                row.next[k] = row.cost / k_;
                left -= 1.0;
            }
        }
    }
};

}  // namespace polymargin

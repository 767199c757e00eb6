// The simplex with a cap on every dual, 0 <= a_l <= u / k and sum_l a_l <= u, of the mean of the k largest [1 - (s_y - s_l)]_+
// (Lapin, Hein & Schiele 2015, the beta form).
#pragma once

#include "metrics/identity.hpp"
#include "common/capped_prices.hpp"
#include "common/thresholds.hpp"

namespace polymargin {

class CappedSimplex : public LargestMargins {
public:
    static constexpr bool has_faces = true;
    static constexpr bool own_counts = false;

    CappedSimplex(const std::vector<double>& parameters, Size n_classes) : LargestMargins(parameters, n_classes, own_counts) {}

    double room(const RowDuals& duals) const {
        return std::min(1.0, duals.cost / std::max(duals.sum(), k_ * duals.largest()));
    }

    bool is_free(double a, double cost, bool /*own*/) const { return a > 0.0 && a < cost / k_; }
    bool is_closed(double sum, double cost) const { return sum >= cost * (1.0 - 1e-14); }

    void project(const RowDuals& duals, bool closed, double held, double* a, double* /*scratch*/) const {
        const double cap = duals.cost / k_, left = std::max(0.0, duals.cost - held);
        double sum = 0.0;
        for (Size k = 0; k < duals.count; ++k) sum += std::min(std::max(0.0, a[k]), cap);
        if (closed || sum > left) take_off(a, duals.count, duals.cost, [&] { return price_of(a, duals.count, cap, left, 0.0, 0.0).nu; });
        for (Size k = 0; k < duals.count; ++k) a[k] = std::min(std::max(0.0, a[k]), cap);
    }

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
        double lowest = std::max(row.g_target, largest_of(row.scratch, row.count).last), left = k_;
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

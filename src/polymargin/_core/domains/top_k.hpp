// The top-k simplex of the mean of the k largest margins: loss [1/k sum of the k largest m_l]_+ with m_l = 1 - (s_y - s_l) for
// the rivals and m_y = 0 for the own class (Lapin, Hein & Schiele 2015, the alpha form).
//
// Over all classes it is {a >= 0, sum a <= u, a_l <= (sum a) / k}. The entry of the own class moves nothing; it only fills the
// sum, up to its own bound. Without it, with A = sum_{l != y} a_l, the rivals' domain is
//
//   0 <= a_l <= cap(A),    A <= u,    cap(A) = min(u / k, A / (k - 1)),
//
// which for k = 1 is the capped simplex. For A >= (1 - 1/k) u the cap stands still, below it the domain is a cone.
#pragma once

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "metrics/identity.hpp"
#include "common/capped_prices.hpp"

namespace polymargin {

class TopK : public LargestMargins {
public:
    static constexpr bool has_faces = false;
    static constexpr bool own_counts = true;

    TopK(const std::vector<double>& parameters, Size n_classes) : LargestMargins(parameters, n_classes, own_counts) {}

    // Duals outside of the cone have no multiple inside.
    double room(const RowDuals& duals) const {
        const double sum = duals.sum(), highest = duals.largest();
        if (highest * (k_ - 1.0) > sum * (1.0 + rounding)) return 0.0;
        return std::min(1.0, duals.cost / std::max(sum, k_ * highest));
    }

    // In units of q, with z_l = o_l / q of the scores o without the row's own contribution, and z_y:
    //
    //   max_a  sum_l a_l (z_l - z_y) - 1/2 sum_l a_l^2 - A^2 / 2,    a_l = clip(z_l - nu, 0, cap(A)).
    //
    // First with the cap that stands still, where nu - z_y = A; if A is too small for that, on the cone, by Newton steps on A.
    // The rivals are compared with each other before they are compared with z_y, which is far away where rows are short.
    void solve(RowView& row, const Identity& metric) const {
        std::fill_n(row.next, row.count, 0.0);
        if (row.count == 0 || static_cast<double>(row.count) < k_ - 1.0) return;  // nothing but 0 is in the domain
        if (!(metric.q > 0.0)) return solve_without_features(row);
        double* z = row.scratch;
        const double before = row.sum(), cap = row.cost / k_, z_target = row.g_target / metric.q - before;
        for (Size k = 0; k < row.count; ++k) z[k] = row.g[k] / metric.q + row.a[k];
        Price at = price_of(z, row.count, cap, -z_target, 1.0, before + z_target);
        const double total = at.nu - z_target;
        if (total < (k_ - 1.0) * cap) {
            for (Size k = 0; k < row.count; ++k) z[k] -= z_target;
            return solve_on_cone(row, z, total);
        }
        if (total > row.cost) at = price_of(z, row.count, cap, row.cost, 0.0, at.nu);
        take(row, z, at.nu, cap, std::min(total, row.cost));
    }

private:
    // cap = A / (k - 1) and F(A) the maximum for a fixed A: a concave function whose slope is
    // nu (1 - n/(k-1)) + sum_capped (z - cap) / (k-1) - A, with n capped classes. Its root is A, unless the cap u / k is in the
    // way or the slope at 0, the mean of the k - 1 largest z, is not positive.
    void solve_on_cone(RowView& row, double* z, double guess) const {
        std::copy_n(z, row.count, row.next);
        const auto rivals = static_cast<std::ptrdiff_t>(k_ - 1.0);
        std::nth_element(row.next, row.next + (rivals - 1), row.next + row.count, std::greater<double>());
        if (!(std::accumulate(row.next, row.next + rivals, 0.0) > 0.0)) {
            std::fill_n(row.next, row.count, 0.0);
            return;
        }
        const double share = 1.0 / (k_ - 1.0), most = row.cost / share / k_;
        double low = 0.0, high = most, total = most, nu = guess;
        for (int step = 0; step < 200; ++step) {
            const double cap = share * total;
            const Price at = price_of(z, row.count, cap, total, 0.0, nu);
            nu = at.nu;
            const double rest = std::max(0.0, 1.0 - share * at.capped);
            const double slope = nu * rest + share * (at.capped_sum - at.capped * cap) - total;
            if (slope >= 0.0 && total == most) break;
            (slope > 0.0 ? low : high) = total;
            const double bend = 1.0 + share * share * at.capped + (at.free > 0.0 ? rest * rest / at.free : 0.0);
            const double newton = total + slope / bend;
            if (std::fabs(newton - total) <= 4e-16 * total) break;
            const double next = newton > low && newton < high ? newton : 0.5 * (low + high);
            if (!(next > low && next < high)) break;
            total = next;
        }
        take(row, z, nu, share * total, total);
    }


    // A row of zeros moves no weight: its duals sit at the caps of the highest classes.
    void solve_without_features(RowView& row) const {
        std::vector<double> margins(row.count + 1, 0.0);
        for (Size k = 0; k < row.count; ++k) margins[k] = row.g[k] - row.g_target;
        const Top highest = largest_of(margins.data(), row.count + 1);
        double left = highest.mean > 0.0 ? k_ : 0.0;
        for (const bool ties : {false, true}) {
            for (Size k = 0; k < row.count; ++k) {
                const double margin = row.g[k] - row.g_target;
                if (left < 1.0 || !(ties ? margin == highest.last : margin > highest.last)) continue;
                row.next[k] = row.cost / k_;
                left -= 1.0;
            }
            if (!ties && highest.last < 0.0) left -= 1.0;  // the own class is one of the k
        }
    }
};

}  // namespace polymargin

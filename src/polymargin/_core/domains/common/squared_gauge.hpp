// The square of a loss that is a maximum over a domain A: its dual has the term -G(a)^2 / (4 u), G the gauge of A, the least G
// with a in G A.
//
// For a given G the row's best duals are those of the loss itself at a cost of G. In units of q, with z_l = o_l / q of the scores o
// without the row's own contribution, less z_y, they are a_l = clip(z_l - nu, 0, G / k), and their sum A is nu, or at a bound s G of
// the domain (s = 1, or (k - 1) / k on the edge of the cone of the alpha form). What they gain has the slope
//
//   q (sum_capped (z_l - G/k - nu) / k  [+ s (nu - A) at a bound]),
//
// which falls with G on straight pieces. The best G has the slope G / (2u): Newton steps, kept inside a bracket, end on its piece.
#pragma once

#include "metrics/identity.hpp"
#include "capped_prices.hpp"

namespace polymargin {

template <class Domain>
class SquaredGauge : public LargestMargins {
public:
    static constexpr Squares squares = Squares::of_gauge;
    static constexpr bool has_faces = false;

    SquaredGauge(const std::vector<double>& parameters, Size n_classes)
        : LargestMargins(parameters, n_classes, Domain::own_counts), domain_(parameters, n_classes) {}

    double loss(const double* scores, Size n_classes, Size y) const {
        const double largest = domain_.loss(scores, n_classes, y);
        return largest * largest;
    }

    // 0 beside a cone
    double room(const RowDuals& duals) const {
        RowDuals unbounded = duals;
        unbounded.cost = infinity;
        return domain_.room(unbounded);
    }

    double square(const RowDuals& duals) const {
        const double gauge = std::max(duals.sum(), k_ * duals.largest());
        return gauge * gauge;
    }

    // Into the cone, where that has sides: duals are cut at the largest level that is 1 / (k - 1) of their sum.
    void project(const RowDuals& duals, bool /*closed*/, double /*held*/, double* a, double* /*scratch*/) const {
        for (Size k = 0; k < duals.count; ++k) a[k] = std::max(0.0, a[k]);
        if (!Domain::own_counts || k_ <= 2.0) return;
        double level = infinity;
        for (Size above = duals.count, before = duals.count + 1; above < before;) {
            double rest = 0.0, held = 0.0;
            for (Size k = 0; k < duals.count; ++k) (a[k] > level ? held : rest) += a[k] > level ? 1.0 : a[k];
            before = above;
            level = held < k_ - 1.0 ? rest / (k_ - 1.0 - held) : 0.0;
            above = 0;
            for (Size k = 0; k < duals.count; ++k) above += a[k] > level;
        }
        for (Size k = 0; k < duals.count; ++k) a[k] = std::min(a[k], level);
    }

    Assessment assess(RowView& row, double threshold) const {
        const double linear_gap = domain_.assess(row, threshold).gap;
        double inner = 0.0;  // of all duals: those that are not zero are still in the list
        for (Size k = 0; k < row.count; ++k) inner += row.a[k] * (row.g[k] - row.g_target);
        const double largest = (linear_gap + inner) / row.cost;
        const double gap = row.cost * largest * largest + square(row.at(row.a)) / (4.0 * row.cost) - inner;
        return {gap, std::max(0.0, gap) / row.cost};
    }

    void solve(RowView& row, const Identity& metric) const {
        const double cost = row.cost, before = row.sum(), now = std::sqrt(square(row.at(row.a)));
        std::fill_n(row.next, row.count, 0.0);
        if (row.count < fewest_of_cone()) return;
        if (!(metric.q > 0.0)) return solve_without_features(row);
        double* z = row.scratch;
        for (Size k = 0; k < row.count; ++k) z[k] = (row.g[k] - row.g_target) / metric.q + (row.a[k] + before);
        const double most = 2.0 * cost * metric.q * RowList::highest_of(z, row.count);  // no gauge is larger
        if (!(most > 0.0)) return;
        Level on_piece;
        double gauge_on_piece;
        if (solve_on_piece(row, z, metric.q, before, now, on_piece, gauge_on_piece)) {
            return take(row, z, on_piece.nu, gauge_on_piece / k_, on_piece.total);
        }
        const double steepest = metric.q * (1.0 + 1.0 / k_) + 0.5 / cost;
        double low = 0.0, high = most, gauge = now > low && now < high ? now : 0.5 * most / cost / steepest;
        Level at = at_gauge(z, row.count, gauge, before);
        for (int step = 0; step < 100; ++step) {
            const double slope = metric.q * at.gain - 0.5 * gauge / cost;
            if (std::fabs(slope) <= 1e-14 * most / cost) break;
            (slope > 0.0 ? low : high) = gauge;
            // where no bound holds, the gauge that the duals need
            double next = at.bound ? gauge + slope / (metric.q * at.bend + 0.5 / cost) : at.needed;
            if (k_ > 2.0 && low == 0.0 && next <= rounding * most && !any_loss(z, row.count)) return;  // the gauge is 0
            if (!(next > low && next < high)) next = 0.5 * (low + high);
            if (!(next > low && next < high)) break;
            gauge = next;
            at = at_gauge(z, row.count, gauge, at.nu);
        }
        take(row, z, at.nu, gauge / k_, at.total);
    }

private:
    // The best duals of a gauge: their price and sum, the slope of what they gain and how it falls, both over q; whether any bound
    // holds them, and the gauge they need if not.
    struct Level {
        double nu, total, gain, bend;
        bool bound;
        double needed;
    };

    // The best gauge and price where the same duals stay at the cap, between the bounds and at 0, and the same bound of the sum holds: two
    // linear equations. False where it turns out that something else does, or where no dual is free to say what the price is.
    bool solve_on_piece(const RowView& row, const double* z, double q, double before, double now, Level& at, double& gauge) const {
        if (!(now > 0.0)) return false;
        const double least = Domain::own_counts ? (k_ - 1.0) / k_ : 0.0, alike = 1e-12 * now, cap = now / k_ - alike;
        const bool full = before >= now - alike, short_of = !full && before <= least * now + alike && least > 0.0, held = full || short_of;
        double n_capped = 0.0, capped_sum = 0.0, n_free = 0.0, free_sum = 0.0, lowest_capped = infinity, highest_at_zero = -infinity;
        double lowest = infinity, highest = -infinity;  // of the free ones
        for (Size k = 0; k < row.count; ++k) {
            if (row.a[k] >= cap) {
                n_capped += 1.0;
                capped_sum += z[k];
                lowest_capped = std::min(lowest_capped, z[k]);
            } else if (row.a[k] > 0.0) {
                n_free += 1.0;
                free_sum += z[k];
                lowest = std::min(lowest, z[k]);
                highest = std::max(highest, z[k]);
            } else {
                highest_at_zero = std::max(highest_at_zero, z[k]);
            }
        }
        const double share = full ? 1.0 : short_of ? least : 0.0, apart = share - n_capped / k_, weight = held ? n_free : 1.0 + n_free;
        const bool any_price = !(weight > 0.0);  // of an interval
        if (any_price && std::fabs(apart) > 1e-9) return false;
        const double shared = any_price ? 0.0 : apart / weight;
        gauge = (capped_sum / k_ + shared * free_sum) / (0.5 / (row.cost * q) + n_capped / (k_ * k_) + share * share + apart * shared);
        const double level = gauge / k_, total = share * gauge;
        double nu = any_price ? (full ? std::max(highest_at_zero, total) : std::min(lowest_capped - level, total)) : (free_sum - apart * gauge) / weight;
        at.nu = nu;
        at.total = held ? total : nu;
        const bool in_bounds = held ? (full ? nu >= total : nu <= total) : nu >= least * gauge && nu <= gauge;
        return gauge > 0.0 && in_bounds && lowest_capped - level >= nu && highest - level < nu && lowest > nu && highest_at_zero <= nu;
    }

    // With fewer rivals the cone is empty.
    Size fewest_of_cone() const { return Domain::own_counts ? std::max(Size{1}, static_cast<Size>(k_) - 1) : Size{1}; }

    Level at_gauge(const double* z, Size count, double gauge, double guess) const {
        const double cap = gauge / k_, least = Domain::own_counts ? (k_ - 1.0) / k_ : 0.0;
        Price at = price_of(z, count, cap, 0.0, 1.0, guess);
        const bool too_little = at.nu < least * gauge, held = too_little || at.nu > gauge;
        const double share = too_little ? least : 1.0, total = held ? share * gauge : at.nu;
        if (held) at = price_of(z, count, cap, total, 0.0, at.nu);
        const double capped = at.capped / k_, apart = share - capped;
        double gain = (at.capped_sum - at.capped * (cap + at.nu)) / k_, bend = capped / k_;
        if (held) {
            gain += share * (at.nu - total);
            bend += share * share + (at.free > 0.0 ? apart * apart / at.free : 0.0);
        } else {
            bend += capped * capped / (1.0 + at.free);
        }
        const bool bound = held || at.capped > 0.0;
        const double needed = bound ? gauge : std::max(total, k_ * (RowList::highest_of(z, count) - at.nu));
        return {at.nu, total, gain, bend, bound, needed};
    }

    // Without duals, of margins that stay as they are: where the own class is one of the largest, a positive one may not be enough.
    bool any_loss(const double* z, Size count) const {
        margins_.assign(z, z + count);
        margins_.resize(count + 1);
        return loss_of_margins(margins_.data(), count) > 0.0;
    }

    // A row of zeros moves no weight: its loss is what it is.
    void solve_without_features(RowView& row) const {
        const double cost = row.cost;
        for (Size k = 0; k < row.count; ++k) row.scratch[k] = row.g[k] - row.g_target;
        row.cost = 2.0 * cost * loss_of_margins(row.scratch, row.count);
        if (row.cost > 0.0) domain_.solve(row, Identity{0.0});
        row.cost = cost;
    }

    Domain domain_;
    mutable std::vector<double> margins_;
};

}  // namespace polymargin

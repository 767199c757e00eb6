// The capped simplex a >= 0, sum_l a_l <= u of the maximum over the rivals: loss max_l [1 - (s_y - s_l)]_+ (Crammer & Singer
// 2001).
//
// The own class gives what the others take at one price nu: with o the scores g without the row's own contribution and
// curvatures h of the metric, a_l = (o_l - nu)_+ / h_l and sum_l a_l = min(u, (nu - o_y) / h_y). (With class scales: Lei, Dogan,
// Binder & Kloft 2015, Eq. 13.)
#pragma once

#include "metrics/class_scales.hpp"
#include "metrics/identity.hpp"
#include "common/margins.hpp"
#include "common/row_view.hpp"
#include "common/thresholds.hpp"

namespace polymargin {

// o in row.next, 1/h in row.scratch; returns o_y, given h_y.
template <class Metric>
double without_own_share(RowView& row, const Metric& metric, double h_target) {
    double total = 0.0;
    for (Size k = 0; k < row.count; ++k) {
        const double h = metric.curvature(row.classes[k]);
        row.next[k] = row.g[k] + h * row.a[k];
        row.scratch[k] = 1.0 / h;
        total += row.a[k];
    }
    return row.g_target - h_target * total;
}

constexpr double whatever = -1.0;  // is taken

// a_l from o in row.next and 1/h in row.scratch. `total` is what they add up to, where that is known: the differences o - nu, of
// numbers far larger, may have lost it.
inline void take_at_price(RowView& row, double nu, double total) {
    Sum taken;
    in_lanes(row.count, [&](Size k, auto lane) {
        const auto next = larger((read(row.next + k, lane) - all(nu, lane)) * read(row.scratch + k, lane), all(0.0, lane));
        write(row.next + k, next);
        taken += next;
    });
    const double sum = taken.value();
    if (total == whatever) return;
    if (sum > 0.0) {
        const double right = total / sum;
        for (Size k = 0; k < row.count; ++k) row.next[k] *= right;
    } else if (row.count > 0) {
        row.next[row.highest()] = total;
    }
}

struct Simplex : RelativeMargins {
    static constexpr Size long_list = 128;
    static constexpr bool has_faces = true, of_highest = true;
    Size fewest() const { return 1; }

    double loss(const double* scores, Size n_classes, Size y) const {
        const double before = RowList::highest_of(scores, y), after = RowList::highest_of(scores + y + 1, n_classes - y - 1);
        return std::max(0.0, 1.0 + std::max(before, after) - scores[y]);
    }

    double own_level(const RowView& row, double sum) const {
        return row.target_active && !is_closed(sum, row.cost) ? row.g_target : infinity;
    }

    double room(const RowDuals& duals) const {
        const double sum = duals.sum();
        return sum > duals.cost ? duals.cost / sum : 1.0;
    }

    // A free dual of the face: away from its bounds.
    bool is_free(double a, double /*cost*/, bool /*own*/) const { return a > 0.0; }

    // The row's own class cannot move when the duals add up to the cost.
    bool is_closed(double sum, double cost) const { return sum >= cost * (1.0 - 1e-14); }

    // Projects a, values of the free duals, onto the domain, onto its rim sum a = cost if `closed`; duals at bounds stay there, and
    // add up to `held`. `scratch` holds count doubles.
    void project(const RowDuals& duals, bool closed, double /*held*/, double* a, double* scratch) const {
        double sum = 0.0;
        for (Size k = 0; k < duals.count; ++k) sum += std::max(0.0, a[k]);
        const auto price_of = [&] { return simplex_threshold(a, duals.count, duals.cost, scratch); };
        if (closed || sum > duals.cost) take_off(a, duals.count, duals.cost, price_of);
        for (Size k = 0; k < duals.count; ++k) a[k] = std::max(0.0, a[k]);
    }

    Assessment assess(RowView& row, double /*threshold*/) const {
        double highest = row.target_active ? row.g_target : -infinity;
        double lowest = infinity, sum = 0.0, inner = 0.0;
        if (row.count > long_list) {  // almost all duals are 0: sums that wait for each other would take longer than the scores
            highest = std::max(highest, row.highest_g());
            for (Size k = 0; k < row.count; ++k) {
                if (!(row.a[k] > 0.0)) continue;
                sum += row.a[k];
                inner += row.a[k] * row.g[k];
                lowest = std::min(lowest, row.g[k]);
            }
        } else {
            for (Size k = 0; k < row.count; ++k) {
                highest = std::max(highest, row.g[k]);
                sum += row.a[k];
                inner += row.a[k] * row.g[k];
                if (row.a[k] > 0.0) lowest = std::min(lowest, row.g[k]);
            }
        }
        const bool full = is_closed(sum, row.cost);
        if (row.target_active && !full) lowest = std::min(lowest, row.g_target);
        double gap = row.cost * highest - inner;
        if (row.target_active) gap -= (row.cost - sum) * row.g_target;

        Size kept = 0;
        for (Size k = 0; k < row.count; ++k) {
            if (row.a[k] > 0.0 || row.g[k] >= lowest) row.keep(kept++, k);
        }
        row.count = kept;
        if (row.target_active && full && row.g_target < lowest) row.target_active = false;
        return {gap, highest - lowest};
    }

    bool settled(const RowView& row) const { return row.count + (row.target_active ? 1 : 0) <= 1; }

    void solve(RowView& row, const Identity& metric) const {
        const double q = metric.q;
        if (!(q > 0.0)) return solve_without_features(row);
        double* h = row.next;
        double total = 0.0;
        for (Size k = 0; k < row.count; ++k) {
            h[k] = row.g[k] + q * row.a[k];
            total += row.a[k];
        }
        const double budget = q * row.cost, h_target = row.g_target - q * total;
        bool capped = !row.target_active;
        double nu = 0.0;
        if (!capped) {
            nu = open_threshold(h, row.count, h_target, row.scratch);
            capped = nu - h_target > budget;
        }
        if (capped) nu = simplex_threshold(h, row.count, budget, row.scratch);
        const double give = 1.0 / q;
        double sum = 0.0;
        for (Size k = 0; k < row.count; ++k) {
            h[k] = std::max(0.0, (h[k] - nu) * give);
            sum += h[k];
        }
        if (capped && sum > 0.0) {  // rounding must not leave the domain
            const double right = row.cost / sum;
            for (Size k = 0; k < row.count; ++k) h[k] *= right;
        }
    }

    void solve(RowView& row, const ClassScales& metric) const {
        if (!(metric.q > 0.0)) return solve_without_features(row);
        const double h_target = metric.curvature(row.y), o_target = without_own_share(row, metric, h_target);
        const double give = 1.0 / h_target;
        bool capped = !row.target_active;
        double nu = 0.0;
        if (!capped) {
            nu = price(row.next, row.scratch, row.count, give, give * o_target);
            capped = (nu - o_target) * give > row.cost;
        }
        if (capped) nu = price(row.next, row.scratch, row.count, 0.0, -row.cost);
        take_at_price(row, nu, capped ? row.cost : whatever);
    }

private:
    // A row of zeros moves no weight: its loss is 1 whatever the machine, so its dual is at the cap.
    static void solve_without_features(RowView& row) {
        std::fill_n(row.next, row.count, 0.0);
        if (row.count > 0) row.next[row.highest()] = row.cost;
    }
};

}  // namespace polymargin

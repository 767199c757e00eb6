// The box 0 <= a_l <= u of the sum over the rivals: loss sum_l [1 - (s_y - s_l)]_+ (Weston & Watkins; Wang & Scott 2021).
#pragma once

#include "metrics/between_classes.hpp"
#include "metrics/class_scales.hpp"
#include "metrics/identity.hpp"
#include "common/margins.hpp"
#include "common/row_view.hpp"
#include "common/separate_bounds.hpp"

namespace polymargin {

struct Box : RelativeMargins {
    static constexpr bool has_faces = true;
    Size fewest() const { return 1; }

    double loss(const double* scores, Size n_classes, Size y) const {
        double sum = 0.0;
        for (Size k = 0; k < n_classes; ++k) {
            if (k != y) sum += std::max(0.0, 1.0 + scores[k] - scores[y]);
        }
        return sum;
    }

    double room(const RowDuals& duals) const {
        const double highest = duals.largest();
        return highest > duals.cost ? duals.cost / highest : 1.0;
    }

    bool is_free(double a, double cost, bool /*own*/) const { return a > 0.0 && a < cost; }
    bool is_closed(double /*sum*/, double /*cost*/) const { return false; }

    void project(const RowDuals& duals, bool /*closed*/, double /*held*/, double* a, double* /*scratch*/) const {
        for (Size k = 0; k < duals.count; ++k) a[k] = std::min(std::max(0.0, a[k]), duals.cost);
    }

    Assessment assess(RowView& row, double threshold) const {
        return assess_each(row, row.g_target, BoundedDual{row.cost}, BoundedDual{row.cost}, row.count, threshold);
    }

    bool settled(const RowView& row) const { return row.count == 0; }

    // a_l = clip(z_l - A, 0, u) with A = sum_l a_l: the root of an increasing piecewise linear function, by Newton
    // steps that stop on the right piece.
    void solve(RowView& row, const Identity& metric) const {
        const double q = metric.q;
        if (!(q > 0.0)) return solve_without_features(row);
        double* z = row.scratch;
        const double parked = row.parked_sum();
        const double total = parked + row.sum(), cost = row.cost, inverse = 1.0 / q;
        in_lanes(row.count, [&](Size k, auto lane) {
            const auto slope = read(row.g + k, lane) - all(row.g_target, lane);
            write(z + k, slope * all(inverse, lane) + read(row.a + k, lane) + all(total, lane));
        });
        double low = parked - cost, high = parked + cost * static_cast<double>(row.count + 1);  // the root lies strictly inside
        double A = std::min(std::max(total, low), high);
        for (int step = 0; step < 200; ++step) {
            Sum taken, fixed, free;
            in_lanes(row.count, [&](Size k, auto lane) {
                const auto zero = all(0.0, lane), one = all(1.0, lane), cap = all(cost, lane);
                const auto value = read(z + k, lane) - all(A, lane), cut = smaller(larger(value, zero), cap);
                const auto is_free = where_above(value, zero, where_above(cap, value, one, zero), zero);
                taken += cut;
                fixed += where_above(is_free, zero, read(z + k, lane), cut);
                free += is_free;
            });
            (A < parked + taken.value() ? low : high) = A;
            const double newton = (parked + fixed.value()) / (free.value() + 1.0);
            if (newton == A) break;  // A lies on the piece whose root it is
            const double middle = 0.5 * (low + high);
            A = newton > low && newton < high ? newton : middle;
            if (!(A > low && A < high)) break;
        }
        in_lanes(row.count, [&](Size k, auto lane) {
            write(row.next + k, smaller(larger(read(z + k, lane) - all(A, lane), all(0.0, lane)), all(cost, lane)));
        });
    }

    // The same with a curvature a class: a_l = clip(z_l - r_l A, 0, u), r_l = h_y / h_l. z in row.scratch, r in row.next.
    void solve(RowView& row, const ClassScales& metric) const {
        if (!(metric.q > 0.0)) return solve_without_features(row);
        double *z = row.scratch, *r = row.next;
        const double own = metric.curvature(row.y), parked = row.parked_sum(), cost = row.cost;
        double total = parked;
        for (Size k = 0; k < row.count; ++k) total += row.a[k];
        double low = parked - cost, high = parked + cost;
        for (Size k = 0; k < row.count; ++k) {
            const double inverse = 1.0 / metric.curvature(row.classes[k]);
            r[k] = own * inverse;
            z[k] = (row.g[k] - row.g_target) * inverse + row.a[k] + r[k] * total;
            high += cost;
        }
        double A = std::min(std::max(total, low), high);
        for (int step = 0; step < 200; ++step) {
            double sum = parked, free_sum = parked, slope = 1.0;
            for (Size k = 0; k < row.count; ++k) {
                const double value = z[k] - r[k] * A, taken = std::min(std::max(value, 0.0), cost);
                const bool is_free = (value > 0.0) & (value < cost);
                sum += taken;
                free_sum += is_free ? z[k] : taken;
                slope += is_free ? r[k] : 0.0;
            }
            (A < sum ? low : high) = A;
            const double newton = free_sum / slope;
            if (newton == A) break;
            const double middle = 0.5 * (low + high);
            A = newton > low && newton < high ? newton : middle;
            if (!(A > low && A < high)) break;
        }
        for (Size k = 0; k < row.count; ++k) row.next[k] = std::min(std::max(z[k] - r[k] * A, 0.0), cost);
    }

    // A matrix between the classes gives no closed form; the row's few duals are solved for by cyclic coordinate ascent,
    // which costs little beside the row's scores.
    void solve(RowView& row, const BetweenClasses& metric) const {
        if (!(metric.q > 0.0)) return solve_without_features(row);
        double* slope = row.scratch;
        for (Size k = 0; k < row.count; ++k) {
            slope[k] = row.g[k] - row.g_target;
            row.next[k] = row.a[k];
        }
        double first = 0.0;
        for (int sweep = 0; sweep < most_sweeps; ++sweep) {
            const double gain = sweep_once(row, metric, slope);
            if (sweep == 0) first = gain;
            if (gain <= enough * first) break;
        }
    }

private:
    static constexpr int most_sweeps = 10;
    static constexpr double enough = 0.01;  // of the first sweep's gain

    static void solve_without_features(RowView& row) {
        for (Size k = 0; k < row.count; ++k) row.next[k] = row.g[k] > row.g_target ? row.cost : 0.0;
    }

    // returns about twice what the dual gains
    static double sweep_once(RowView& row, const BetweenClasses& metric, double* slope) {
        double gain = 0.0;
        for (Size k = 0; k < row.count; ++k) {
            const double h = metric.q * metric.between(row.classes[k], row.classes[k]);
            if (!(h > 0.0)) continue;
            const double to = std::min(std::max(0.0, row.next[k] + slope[k] / h), row.cost), step = to - row.next[k];
            if (step == 0.0) continue;
            row.next[k] = to;
            gain += h * step * step;
            for (Size l = 0; l < row.count; ++l) {
                slope[l] -= metric.q * step * metric.between(row.classes[l], row.classes[k]);
            }
        }
        return gain;
    }
};

}  // namespace polymargin

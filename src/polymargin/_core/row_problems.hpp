// The row sub-problems of the dual loop: one row's duals are solved for exactly while all others stand still.
//
// Row i of class y has duals a_l >= 0 for the classes l != y and the cost u = C v_i. Its share of the dual is
//
//   sum_l a_l (g_l - g_y) - (q/2) (sum_l a_l^2 + (sum_l a_l)^2),   g_l = s_l,  g_y = s_y - 1,  q = |x_i|^2,
//
// with scores s that leave out the row's own contribution. (The margin 1 is taken from the own class, not added to the
// others: their differences must survive when scores are many orders below 1.) The machines differ in the polytope of a only:
//
//   CrammerSinger    sum_l a_l <= u     loss  max_l [1 - (s_y - s_l)]_+
//   WestonWatkins    a_l <= u           loss  sum_l [1 - (s_y - s_l)]_+     (Wang & Scott 2021)
//
// A problem offers `loss`, `assess` (duality gap of the row, largest violation, which classes to drop) and `solve`.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "rows.hpp"

namespace polymargin {

constexpr double infinity = std::numeric_limits<double>::infinity();

// One row while it is visited. Entries [0, count) are the classes it looks at; g and g_target include the row's own
// contribution.
struct RowView {
    Index* classes;
    double* a;
    double* g;
    double* next;     // solve() writes the new duals here
    double* scratch;  // count doubles
    Size count;
    double g_target;
    double q, cost;
    bool target_active;      // the dual of the row's own class (sum_l a_l) may still change
    Index* parked_classes;   // classes outside the list whose duals sit at the cost
    Size n_parked;
    bool narrowed;           // the list holds only some of the classes the row looks at

    // only for problems with class scales, whose curvature differs from class to class (scaled_crammer_singer.hpp)
    const double* scales = nullptr;
    double inverse_rho = 0.0, target_curvature = 0.0;

    // only for problems with a class metric (metric_weston_watkins.hpp)
    const double* metric = nullptr;  // P (c, c)
    Size n_classes = 0, y = 0;

    double curvature(Index k) const { return scales[k] * (q - inverse_rho) + inverse_rho; }

    // (e_k - e_y)' P (e_l - e_y)
    double between(Index k, Index l) const {
        const double *own = metric + y * n_classes, *other = metric + static_cast<Size>(k) * n_classes;
        return other[l] - other[y] - own[l] + own[y];
    }

    void keep(Size to, Size from) {
        classes[to] = classes[from];
        a[to] = a[from];
        g[to] = g[from];
    }
    void park(Size k) { parked_classes[n_parked++] = classes[k]; }
    double parked_sum() const { return static_cast<double>(n_parked) * cost; }
};

struct Assessment {
    double gap, violation;
};

// Marks of row problems: class scales beta_k; a metric between the classes; a squared loss, which adds (sum_l a_l)^2 / (4 u)
// to the dual's quadratic.
struct WithClassScales {};
struct WithClassMetric {};
struct WithSquaredLoss {};
template <class Problem>
constexpr bool has_class_scales = std::is_base_of_v<WithClassScales, Problem>;
template <class Problem>
constexpr bool has_class_metric = std::is_base_of_v<WithClassMetric, Problem>;
template <class Problem>
constexpr bool has_squared_loss = std::is_base_of_v<WithSquaredLoss, Problem>;

struct CrammerSinger {

    static double loss(const double* scores, Size n_classes, Size y) {
        double best = -infinity;
        for (Size k = 0; k < n_classes; ++k) {
            if (k != y) best = std::max(best, scores[k]);
        }
        return std::max(0.0, 1.0 + best - scores[y]);
    }

    // The largest step t <= 1 for which t * a stays in the polytope.
    static double room(const double* a, Size count, double cost) {
        double sum = 0.0;
        for (Size k = 0; k < count; ++k) sum += a[k];
        return sum > cost ? cost / sum : 1.0;
    }

    // A free dual of the face: away from its bounds.
    static bool is_free(double a, double /*cost*/) { return a > 0.0; }

    // The row's own class cannot move when the duals add up to the cost.
    static bool is_closed(double sum, double cost) { return sum >= cost * (1.0 - 1e-14); }

    // Projects a onto {a >= 0, sum a <= cost}, onto the rim sum a = cost if `closed`. `scratch` holds count doubles.
    static void project(double* a, Size count, double cost, bool closed, double* scratch) {
        double sum = 0.0;
        for (Size k = 0; k < count; ++k) sum += std::max(0.0, a[k]);
        double nu = 0.0;
        if (closed || sum > cost) nu = simplex_threshold(a, count, cost, scratch);
        for (Size k = 0; k < count; ++k) a[k] = std::max(0.0, a[k] - nu);
    }

    // nu with sum_k (a_k - nu)_+ = total, by discarding what falls below it (Michelot 1986).
    static double simplex_threshold(const double* a, Size count, double total, double* scratch) {
        std::copy_n(a, count, scratch);
        double nu = -infinity;
        for (Size left = count, before = count + 1; left > 0 && left < before;) {
            double sum = -total;
            for (Size k = 0; k < left; ++k) sum += scratch[k];
            nu = sum / static_cast<double>(left);
            before = left;
            left = static_cast<Size>(std::partition(scratch, scratch + left, [nu](double v) { return v > nu; }) - scratch);
        }
        return nu;
    }

    static Assessment assess(RowView& row, double /*threshold*/) {
        double highest = row.target_active ? row.g_target : -infinity;
        double lowest = infinity, sum = 0.0, inner = 0.0;
        for (Size k = 0; k < row.count; ++k) {
            highest = std::max(highest, row.g[k]);
            sum += row.a[k];
            inner += row.a[k] * row.g[k];
            if (row.a[k] > 0.0) lowest = std::min(lowest, row.g[k]);
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

    static bool settled(const RowView& row) { return row.count + (row.target_active ? 1 : 0) <= 1; }

    // a_l = (h_l - nu)_+ / q, and sum_l a_l = min(u, (nu - h_y) / q): two projections onto a simplex, the second with a
    // fixed sum, where h are the scores without the row's own contribution.
    static void solve(RowView& row) {
        if (!(row.q > 0.0)) return solve_without_features(row);
        double* h = row.next;
        double total = 0.0;
        for (Size k = 0; k < row.count; ++k) {
            h[k] = row.g[k] + row.q * row.a[k];
            total += row.a[k];
        }
        const double budget = row.q * row.cost, h_target = row.g_target - row.q * total;
        bool capped = !row.target_active;
        double nu = 0.0;
        if (!capped) {
            nu = open_threshold(h, row.count, h_target, row.scratch);
            capped = nu - h_target > budget;
        }
        if (capped) nu = simplex_threshold(h, row.count, budget, row.scratch);
        double sum = 0.0;
        for (Size k = 0; k < row.count; ++k) {
            h[k] = std::max(0.0, (h[k] - nu) / row.q);
            sum += h[k];
        }
        if (capped && sum > 0.0) {  // rounding must not leave the polytope
            for (Size k = 0; k < row.count; ++k) h[k] *= row.cost / sum;
        }
    }

    // nu with sum_k (h_k - nu)_+ = nu - h_target
    static double open_threshold(const double* h, Size count, double h_target, double* scratch) {
        std::copy_n(h, count, scratch);
        double nu = h_target;
        for (Size left = count, before = count + 1; left < before;) {
            double sum = h_target;
            for (Size k = 0; k < left; ++k) sum += scratch[k];
            nu = sum / static_cast<double>(left + 1);
            before = left;
            left = static_cast<Size>(std::partition(scratch, scratch + left, [nu](double v) { return v > nu; }) - scratch);
        }
        return nu;
    }

    // A row of zeros moves no weight: its loss is 1 whatever the machine, so its dual is at the cap.
    static void solve_without_features(RowView& row) {
        Size best = 0;
        for (Size k = 0; k < row.count; ++k) {
            row.next[k] = 0.0;
            if (row.g[k] > row.g[best]) best = k;
        }
        if (row.count > 0) row.next[best] = row.cost;
    }
};

struct WestonWatkins {

    static double loss(const double* scores, Size n_classes, Size y) {
        double sum = 0.0;
        for (Size k = 0; k < n_classes; ++k) {
            if (k != y) sum += std::max(0.0, 1.0 + scores[k] - scores[y]);
        }
        return sum;
    }

    static double room(const double* a, Size count, double cost) {
        double highest = 0.0;
        for (Size k = 0; k < count; ++k) highest = std::max(highest, a[k]);
        return highest > cost ? cost / highest : 1.0;
    }

    static bool is_free(double a, double cost) { return a > 0.0 && a < cost; }
    static bool is_closed(double /*sum*/, double /*cost*/) { return false; }

    static void project(double* a, Size count, double cost, bool /*closed*/, double* /*scratch*/) {
        for (Size k = 0; k < count; ++k) a[k] = std::min(std::max(0.0, a[k]), cost);
    }

    static Assessment assess(RowView& row, double threshold) {
        double gap = 0.0, violation = 0.0;
        Size kept = 0;
        for (Size k = 0; k < row.count; ++k) {
            const double slope = row.g[k] - row.g_target;  // of the dual in a_k; also the pair's hinge argument
            const double a = row.a[k];
            gap += row.cost * std::max(0.0, slope) - a * slope;
            const double wanted = a <= 0.0 ? std::max(0.0, slope) : a >= row.cost ? std::max(0.0, -slope) : std::fabs(slope);
            violation = std::max(violation, wanted);
            const bool drop = a <= 0.0 ? slope < -threshold : a >= row.cost && slope > threshold;
            if (!drop) {
                row.keep(kept++, k);
            } else if (a > 0.0) {
                row.park(k);
            }
        }
        row.count = kept;
        return {gap, violation};
    }

    static bool settled(const RowView& row) { return row.count == 0; }

    // a_l = clip(z_l - A, 0, u) with A = sum_l a_l: the root of an increasing piecewise linear function, by Newton
    // steps that stop on the right piece.
    static void solve(RowView& row) {
        if (!(row.q > 0.0)) {
            for (Size k = 0; k < row.count; ++k) row.next[k] = row.g[k] > row.g_target ? row.cost : 0.0;
            return;
        }
        double* z = row.scratch;
        const double parked = row.parked_sum();
        double total = parked;
        for (Size k = 0; k < row.count; ++k) total += row.a[k];
        double low = parked - row.cost, high = parked + row.cost;  // the root lies strictly inside
        for (Size k = 0; k < row.count; ++k) {
            z[k] = (row.g[k] - row.g_target) / row.q + row.a[k] + total;
            high += row.cost;
        }
        double A = std::min(std::max(total, low), high);
        for (int step = 0; step < 200; ++step) {
            double sum = parked, free_sum = parked;
            Size free = 0;
            for (Size k = 0; k < row.count; ++k) {
                const double value = z[k] - A;
                if (value >= row.cost) {
                    sum += row.cost;
                    free_sum += row.cost;
                } else if (value > 0.0) {
                    sum += value;
                    free_sum += z[k];
                    ++free;
                }
            }
            (A < sum ? low : high) = A;
            const double newton = free_sum / static_cast<double>(free + 1);
            if (newton == A) break;  // A lies on the piece whose root it is
            const double middle = 0.5 * (low + high);
            A = newton > low && newton < high ? newton : middle;
            if (!(A > low && A < high)) break;
        }
        for (Size k = 0; k < row.count; ++k) row.next[k] = std::min(std::max(z[k] - A, 0.0), row.cost);
    }
};

}  // namespace polymargin

// The row problems of machines with class scales: the penalty is sum_k |w_k|^2 / (2 beta_k), so w_k = beta_k sum_i tau_ik x_i.
//
// A row's share of the dual has one curvature per class, h_k = beta_k |x_i|^2 (+ 1/rho with an intercept):
//
//   max_a  sum_l a_l (o_l - o_y) - 1/2 sum_l h_l a_l^2 - 1/2 h_y (sum_l a_l)^2,    a >= 0,
//
//   ScaledCrammerSinger     sum_l a_l <= u           loss  max_l [1 - (s_y - s_l)]_+
//   SquaredCrammerSinger    h_y has 1/(2u) added     loss  max_l [1 - (s_y - s_l)]_+^2
//
// with o the scores g without the row's own contribution. The own class gives what the others take at one price nu:
// a_l = (o_l - nu)_+ / h_l and sum_l a_l = min(u, (nu - o_y) / h_y). With beta = 1 the first is CrammerSinger.
//
// (Lei, Dogan, Binder & Kloft 2015, Eq. 13.)
#pragma once

#include "row_problems.hpp"

namespace polymargin {

// nu with sum_k r_k (o_k - nu)_+ = weight nu - total, for r > 0 and weight >= 0. Starting from all classes, those below nu
// are left out and nu rises, until the same ones are left (Michelot 1986).
inline double price(const double* o, const double* r, Size count, double weight, double total) {
    double nu = -infinity;
    for (Size step = 0; step <= count; ++step) {
        double sum = total, slope = weight;
        for (Size k = 0; k < count; ++k) {
            const double taken = o[k] > nu ? r[k] : 0.0;
            sum += taken * o[k];
            slope += taken;
        }
        const double next = sum / slope;
        if (!(next > nu)) break;
        nu = next;
    }
    return nu;
}

// Writes a_l into row.next; `capped` says that the duals add up to the cost.
inline void take_at_price(RowView& row, double nu, bool capped) {
    const double *o = row.next, *r = row.scratch;
    double sum = 0.0;
    for (Size k = 0; k < row.count; ++k) {
        row.next[k] = std::max(0.0, (o[k] - nu) * r[k]);
        sum += row.next[k];
    }
    if (capped && sum > 0.0) {  // rounding must not leave the polytope
        for (Size k = 0; k < row.count; ++k) row.next[k] *= row.cost / sum;
    }
}

// o in row.next, 1/h in row.scratch; returns o_y.
inline double without_own_share(RowView& row) {
    double total = 0.0;
    for (Size k = 0; k < row.count; ++k) {
        const double h = row.curvature(row.classes[k]);
        row.next[k] = row.g[k] + h * row.a[k];
        row.scratch[k] = 1.0 / h;
        total += row.a[k];
    }
    return row.g_target - row.target_curvature * total;
}

struct ScaledCrammerSinger : CrammerSinger, WithClassScales {

    static void solve(RowView& row) {
        if (!(row.q > 0.0)) return solve_without_features(row);
        const double o_target = without_own_share(row), give = 1.0 / row.target_curvature;
        bool capped = !row.target_active;
        double nu = 0.0;
        if (!capped) {
            nu = price(row.next, row.scratch, row.count, give, give * o_target);
            capped = (nu - o_target) * give > row.cost;
        }
        if (capped) nu = price(row.next, row.scratch, row.count, 0.0, -row.cost);
        take_at_price(row, nu, capped);
    }
};

struct SquaredCrammerSinger : WithClassScales, WithSquaredLoss {

    static double loss(const double* scores, Size n_classes, Size y) {
        const double hinge = CrammerSinger::loss(scores, n_classes, y);
        return hinge * hinge;
    }

    static double room(const double* /*a*/, Size /*count*/, double /*cost*/) { return 1.0; }
    static bool is_free(double a, double /*cost*/) { return a > 0.0; }
    static bool is_closed(double /*sum*/, double /*cost*/) { return false; }

    static void project(double* a, Size count, double /*cost*/, bool /*closed*/, double* /*scratch*/) {
        for (Size k = 0; k < count; ++k) a[k] = std::max(0.0, a[k]);
    }

    // From here on g_target is the slope of the own class with the loss's own part, sum_l a_l / (2u).
    static Assessment assess(RowView& row, double /*threshold*/) {
        double best = -infinity, lowest = infinity, sum = 0.0, inner = 0.0;
        for (Size k = 0; k < row.count; ++k) {
            best = std::max(best, row.g[k]);
            sum += row.a[k];
            inner += row.a[k] * (row.g[k] - row.g_target);
            if (row.a[k] > 0.0) lowest = std::min(lowest, row.g[k]);
        }
        const double hinge = std::max(0.0, best - row.g_target);
        const double gap = row.cost * hinge * hinge + sum * sum / (4.0 * row.cost) - inner;
        row.g_target += sum / (2.0 * row.cost);
        lowest = std::min(lowest, row.g_target);
        Size kept = 0;
        for (Size k = 0; k < row.count; ++k) {
            if (row.a[k] > 0.0 || row.g[k] >= lowest) row.keep(kept++, k);
        }
        row.count = kept;
        return {gap, std::max(best, row.g_target) - lowest};
    }

    static bool settled(const RowView& row) { return row.count == 0; }

    static void solve(RowView& row) {
        if (!(row.q > 0.0)) return solve_without_features(row);
        const double o_target = without_own_share(row), give = 1.0 / row.target_curvature;
        take_at_price(row, price(row.next, row.scratch, row.count, give, give * o_target), false);
    }

    // A row of zeros moves no weight: its loss is 1 whatever the machine, its dual 2u on any class.
    static void solve_without_features(RowView& row) {
        Size best = 0;
        for (Size k = 0; k < row.count; ++k) {
            row.next[k] = 0.0;
            if (row.g[k] > row.g[best]) best = k;
        }
        if (row.count == 0) return;
        double sum = 0.0;
        for (Size k = 0; k < row.count; ++k) sum += row.a[k];
        row.next[best] = std::max(0.0, sum + 2.0 * row.cost * (row.g[best] - row.g_target));
    }
};

}  // namespace polymargin

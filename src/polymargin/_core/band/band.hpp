// The row sub-problem of the multi-class optimal margin distribution machine (Zhang & Zhou 2017), made convex.
//
// A row of class y pays for a margin below 1 - theta and, with the share mu, for one above 1 + theta. The second part is
// convex once the rival it is measured against is fixed (see solvers/models/rivals.py):
//
//   kappa ( [max_l 1 - theta - (s_y - s_l)]_+^2 + mu [s_y - s_r - 1 - theta]_+^2 ),     kappa = u / (1 - theta)^2
//
// where s_r is the score of a fixed class r ("linearised"), or a fixed number ("frozen", the paper's relaxation). The row has
// duals a_l >= 0 (l != y) and beta >= 0: tau_y = A - beta with A = sum_l a_l, tau_l = -a_l, and tau_r += beta if r is a class.
// Its share of the dual is
//
//   (1 - theta) A - (1 + theta) beta - A^2 / (4 kappa) - beta^2 / (4 kappa mu) - sum_k tau_k s_k - (q/2) |tau|^2
//
// (frozen: minus beta s_r too) with scores that leave out the row's own contribution. At its maximum a_r beta = 0.
#pragma once

#include <algorithm>
#include <cmath>

#include "domains/common/row_view.hpp"

namespace polymargin {

// How the upper part of the loss is treated.
enum class Upper { absent, linearised, frozen };

// The two parts of one row's loss at given scores: of the stated objective, and of the convex step.
struct BandLoss {
    double stated, relaxed;

    BandLoss& operator+=(const BandLoss& other) {
        stated += other.stated;
        relaxed += other.relaxed;
        return *this;
    }
};

// One row while it is visited; its scores are without the margin.
struct BandRow : RowList {
    double q, kappa;
    Upper upper;     // absent also where the row has stopped looking at that part
    Size at_rival;   // position of r in the list; `count` or more if it is not there
    double g_rival;  // s_r
    double beta, next_beta;
};

struct Band {
    double theta, mu;

    double lower() const { return 1.0 - theta; }
    double upper() const { return 1.0 + theta; }
    double kappa(double cost) const { return cost / (lower() * lower()); }

    // (1 - theta) A - (1 + theta) beta - A^2 / (4 kappa) - beta^2 / (4 kappa mu)
    double gain(double sum, double beta, double kappa) const {
        return sum * (lower() - sum / (4.0 * kappa)) - beta * (upper() + beta / (4.0 * kappa * mu));
    }

    double below(double margin) const { return std::max(0.0, lower() - margin); }
    double above(double margin) const { return std::max(0.0, margin - upper()); }
    double paid(double below, double above, double kappa) const { return kappa * (below * below + mu * above * above); }

    // The row's duality gap and largest violation; drops the classes that cannot matter, and the upper part if it is idle.
    Assessment assess(BandRow& row) const {
        const double sum = row.sum();
        const double level = row.g_target - lower() + sum / (2.0 * row.kappa);  // a_l grows where s_l is above it
        double highest = -infinity, lowest = level, inner = 0.0;
        for (Size k = 0; k < row.count; ++k) {
            highest = std::max(highest, row.g[k]);
            inner += row.a[k] * row.g[k];
            if (row.a[k] > 0.0) lowest = std::min(lowest, row.g[k]);
        }
        double gap = sum * row.g_target - inner - gain(sum, row.beta, row.kappa);
        double violation = std::max(highest, level) - lowest;
        double excess = 0.0;
        if (row.upper != Upper::absent) {
            const double slope = row.g_target - row.g_rival - upper();
            excess = std::max(0.0, slope);
            gap -= row.beta * (row.g_target - row.g_rival);
            const double wanted = slope - row.beta / (2.0 * row.kappa * mu);
            violation = std::max(violation, row.beta > 0.0 ? std::fabs(wanted) : wanted);
            if (!(row.beta > 0.0) && slope < 0.0) row.upper = Upper::absent;
        }
        gap += paid(below(row.g_target - highest), excess, row.kappa);
        drop(row, lowest);
        return {gap, violation};
    }

    bool settled(const BandRow& row) const { return row.count == 0 && row.upper == Upper::absent; }

    // First without the upper part; if its constraint is then violated, beta > 0 takes part and class r does not.
    void solve(BandRow& row) const {
        const double sum = row.sum(), q = row.q, per_kappa = 1.0 / (2.0 * row.kappa);
        row.next_beta = 0.0;
        if (!(q > 0.0)) return solve_without_features(row);
        const bool listed = row.upper == Upper::linearised && row.at_rival < row.count;
        const double h_target = row.g_target - q * (sum - row.beta);
        double* h = row.next;
        for (Size k = 0; k < row.count; ++k) h[k] = row.g[k] + q * row.a[k];
        if (listed) h[row.at_rival] -= q * row.beta;
        double h_rival = row.g_rival;  // without the row's own contribution
        if (row.upper == Upper::linearised) h_rival += q * ((listed ? row.a[row.at_rival] : 0.0) - row.beta);

        const double nu = threshold(row, h, h_target - lower(), q / (q + per_kappa), row.count);
        const double total = fill(row, nu, row.count);
        if (row.upper == Upper::absent) return;
        const double s_rival = h_rival - (listed ? q * row.next[row.at_rival] : 0.0);
        if (h_target + q * total - s_rival <= upper()) return;

        const Size left_out = listed ? row.at_rival : row.count;
        const double curvature = (row.upper == Upper::linearised ? 2.0 : 1.0) * q + per_kappa / mu;
        const double slope = h_target - h_rival - upper();
        for (Size k = 0; k < row.count; ++k) h[k] = row.g[k] + q * row.a[k];
        const double own = q * (1.0 - q / curvature) + per_kappa, base = h_target - lower() - q * slope / curvature;
        const double again = fill(row, threshold(row, h, base, q / own, left_out), left_out);
        row.next_beta = std::max(0.0, (slope + q * again) / curvature);
    }

private:
    static void drop(BandRow& row, double lowest) {
        Size kept = 0, at_rival = row.count;
        for (Size k = 0; k < row.count; ++k) {
            if (!(row.a[k] > 0.0 || row.g[k] >= lowest)) continue;
            if (k == row.at_rival) at_rival = kept;
            row.keep(kept++, k);
        }
        row.count = kept;
        row.at_rival = at_rival;
    }

    // nu with sum_k (h_k - nu)_+ = share (nu - base), the entry `left_out` aside, by discarding what falls below it.
    static double threshold(const BandRow& row, const double* h, double base, double share, Size left_out) {
        double* open = row.scratch;
        Size left = 0;
        for (Size k = 0; k < row.count; ++k) {
            if (k != left_out && h[k] > base) open[left++] = h[k];
        }
        double nu = base;
        for (Size before = left + 1; left > 0 && left < before;) {
            double sum = share * base;
            for (Size k = 0; k < left; ++k) sum += open[k];
            nu = sum / (share + static_cast<double>(left));
            before = left;
            left = static_cast<Size>(std::partition(open, open + left, [nu](double v) { return v > nu; }) - open);
        }
        return nu;
    }

    // next = (h - nu)_+ / q in place of h; returns the sum.
    static double fill(BandRow& row, double nu, Size left_out) {
        double total = 0.0;
        for (Size k = 0; k < row.count; ++k) {
            row.next[k] = k == left_out ? 0.0 : std::max(0.0, (row.next[k] - nu) / row.q);
            total += row.next[k];
        }
        return total;
    }

    // A row of zeros moves no weight: all its scores are 0, and the loss 1 wants A = 2 kappa (1 - theta).
    void solve_without_features(BandRow& row) const {
        std::fill_n(row.next, row.count, 0.0);
        const Size best = row.highest();
        if (row.count > 0) row.next[best] = 2.0 * row.kappa * below(row.g_target - row.g[best]);
    }
};

}  // namespace polymargin

// The Weston-Watkins row problem with a class metric: the penalty is 1/2 tr(W L W'), so W = sum_i x_i (P tau_i)'.
//
//   max_a  sum_l a_l (o_l - o_y) - (q/2) a' M a,    0 <= a_l <= u,    M_kl = (e_k - e_y)' P (e_l - e_y)
//
// M has no structure that gives a closed form; the row's few duals are solved for by cyclic coordinate ascent, which costs
// little beside the row's scores.
#pragma once

#include "row_problems.hpp"

namespace polymargin {

struct MetricWestonWatkins : WestonWatkins, WithClassMetric {
    static void solve(RowView& row) {
        if (!(row.q > 0.0)) return WestonWatkins::solve(row);
        double* slope = row.scratch;
        for (Size k = 0; k < row.count; ++k) {
            slope[k] = row.g[k] - row.g_target;
            row.next[k] = row.a[k];
        }
        double first = 0.0;
        for (int sweep = 0; sweep < most_sweeps; ++sweep) {
            const double gain = sweep_once(row, slope);
            if (sweep == 0) first = gain;
            if (gain <= enough * first) break;
        }
    }

private:
    static constexpr int most_sweeps = 10;
    static constexpr double enough = 0.01;  // of the first sweep's gain

    // returns about twice what the dual gains
    static double sweep_once(RowView& row, double* slope) {
        double gain = 0.0;
        for (Size k = 0; k < row.count; ++k) {
            const double h = row.q * row.between(row.classes[k], row.classes[k]);
            if (!(h > 0.0)) continue;
            const double to = std::min(std::max(0.0, row.next[k] + slope[k] / h), row.cost), step = to - row.next[k];
            if (step == 0.0) continue;
            row.next[k] = to;
            gain += h * step * step;
            for (Size l = 0; l < row.count; ++l) slope[l] -= row.q * step * row.between(row.classes[l], row.classes[k]);
        }
        return gain;
    }
};

}  // namespace polymargin

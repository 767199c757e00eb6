// Rows of absolute margins that meet in the metric alone: a_k = clip(o_k / h_k, 0, cap_k), o the slopes without the row's share.
//
// With a coupling of the classes they meet in the sum of the row's steps, D = sum_k +-(a_k' - a_k): the block is
// apart I + shared 11', and a_k' = clip((o_k -+ shared D) / h_k, 0, cap_k). D is the root of an increasing function.
#pragma once

#include <algorithm>
#include <cmath>

#include "metrics/coupled.hpp"
#include "row_view.hpp"

namespace polymargin {

// `curvature(k)` of the loss itself is added to that of the metric; `cap(k)` may be infinite.
template <class Curvature, class Cap>
void solve_coupled(RowView& row, const Coupled& metric, Curvature curvature, Cap cap) {
    const double shared = (metric.together - metric.apart) / metric.c;
    for (Size k = 0; k < row.count; ++k) row.scratch[k] = row.g[k] + metric.apart * row.a[k];
    double D = 0.0, low = -infinity, high = infinity;
    for (int round = 0; round < 100; ++round) {  // Newton steps that stop on the right piece
        double steps = 0.0, size = 0.0, slope = 1.0;
        for (Size k = 0; k < row.count; ++k) {
            const double sign = row.classes[k] == row.y ? 1.0 : -1.0, h = metric.apart + curvature(k);
            const double value = (row.scratch[k] - sign * shared * D) / h, most = cap(k);
            row.next[k] = std::min(std::max(value, 0.0), most);
            if (value > 0.0 && value < most) slope += shared / h;
            steps += sign * (row.next[k] - row.a[k]);
            size += row.next[k] + row.a[k];
        }
        const double excess = D - steps;  // it does not fall with D
        if (std::fabs(excess) <= 1e-15 * size) return;
        (excess > 0.0 ? high : low) = D;
        double next = D - excess / std::max(slope, 1e-3);  // nearly flat pieces end somewhere
        if (!(next > low && next < high)) next = 0.5 * (low + high);
        if (!(next > low && next < high)) return;
        D = next;
    }
}

}  // namespace polymargin

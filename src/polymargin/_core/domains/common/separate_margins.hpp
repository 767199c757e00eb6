// Rows of absolute margins that meet in the metric alone: a_k = clip(o_k / h_k, 0, cap_k), o the slopes without the row's share.
//
// With a coupling of the classes they meet in the sum of the row's steps, D = sum_k +-(a_k' - a_k): the block is
// apart I + shared 11', and a_k' = clip((o_k -+ shared D) / h_k, 0, cap_k). D is the root of an increasing function.
#pragma once

#include <algorithm>

#include "../../metrics/coupled.hpp"
#include "row_view.hpp"

namespace polymargin {

// `curvature(k)` of the loss itself is added to that of the metric; `cap(k)` may be infinite.
template <class Curvature, class Cap>
void solve_coupled(RowView& row, const Coupled& metric, Curvature curvature, Cap cap) {
    const double shared = (metric.together - metric.apart) / metric.c;
    for (Size k = 0; k < row.count; ++k) row.scratch[k] = row.g[k] + metric.apart * row.a[k];
    double slope = 0.0;  // of D less what the duals at D make of it
    const auto excess = [&](double D) {
        double steps = 0.0;
        slope = 1.0;
        for (Size k = 0; k < row.count; ++k) {
            const double sign = row.classes[k] == row.y ? 1.0 : -1.0, h = metric.apart + curvature(k);
            const double value = (row.scratch[k] - sign * shared * D) / h, most = cap(k);
            row.next[k] = std::min(std::max(value, 0.0), most);
            if (value > 0.0 && value < most) slope += shared / h;
            steps += sign * (row.next[k] - row.a[k]);
        }
        return D - steps;
    };
    double at = 0.0, value = excess(at), low = 0.0, high = 0.0;
    if (value == 0.0 || shared == 0.0) return;
    double reach = -value;
    for (int k = 0; k < 60; ++k, reach *= 2.0) {  // the root lies between 0 and somewhere on this side
        (reach > 0.0 ? high : low) = reach;
        at = reach;
        const double there = excess(reach);
        if (there == 0.0) return;
        if ((there > 0.0) != (value > 0.0)) break;
        (reach > 0.0 ? low : high) = reach;
    }
    for (int step = 0; step < 60; ++step) {
        value = excess(at);
        if (value == 0.0) return;
        (value > 0.0 ? high : low) = at;
        const double newton = at - value / slope, middle = 0.5 * (low + high);
        const double next = newton > low && newton < high ? newton : middle;
        if (!(next > low && next < high) || next == at) return;
        at = next;
    }
}

}  // namespace polymargin

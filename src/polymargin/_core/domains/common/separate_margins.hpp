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

// What the loss adds to the metric's curvature of a margin, and its upper bound, which may be infinite.
struct Separate {
    double curvature, cap;
};

// Rivals are all alike, and the own class is seen to by itself: rounds have no branches.
inline void solve_coupled(RowView& row, const Coupled& metric, const Separate& own, const Separate& rival) {
    const double shared = (metric.together - metric.apart) / metric.c;
    const double inverse = 1.0 / (metric.apart + rival.curvature), own_inverse = 1.0 / (metric.apart + own.curvature);
    const Size count = row.count, at = static_cast<Size>(std::find(row.classes, row.classes + count, row.y) - row.classes);
    const bool has_own = at < count;
    double before = 0.0;
    for (Size k = 0; k < count; ++k) {
        row.scratch[k] = inverse * (row.g[k] + metric.apart * row.a[k]);
        before += row.a[k];
    }
    const double own_before = has_own ? row.a[at] : 0.0;
    const double own_start = has_own ? own_inverse * (row.g[at] + metric.apart * own_before) : 0.0;
    if (has_own) row.scratch[at] = -infinity;  // no rival
    double D = 0.0, low = -infinity, high = infinity;
    for (int round = 0; round < 100; ++round) {  // Newton steps that stop on the right piece
        const double push = inverse * shared * D;
        double after = 0.0;
        int free = 0;
        for (Size k = 0; k < count; ++k) {
            const double value = row.scratch[k] + push, cut = std::min(std::max(value, 0.0), rival.cap);
            row.next[k] = cut;
            after += cut;
            free += (value > 0.0) & (value < rival.cap);
        }
        double slope = 1.0 + shared * inverse * free, own_after = 0.0;
        if (has_own) {
            const double value = own_start - own_inverse * shared * D;
            row.next[at] = own_after = std::min(std::max(value, 0.0), own.cap);
            if (value > 0.0 && value < own.cap) slope += shared * own_inverse;
        }
        const double excess = D - ((own_after - own_before) - (after - (before - own_before)));  // it does not fall with D
        if (std::fabs(excess) <= 1e-15 * (before + after + own_after)) return;
        (excess > 0.0 ? high : low) = D;
        double next = D - excess / std::max(slope, 1e-3);  // nearly flat pieces end somewhere
        if (!(next > low && next < high)) next = 0.5 * (low + high);
        if (!(next > low && next < high)) return;
        D = next;
    }
}

}  // namespace polymargin

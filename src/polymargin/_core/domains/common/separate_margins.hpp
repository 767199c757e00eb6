// Rows of absolute margins that meet in the metric alone: a_k = clip(o_k / h_k, 0, cap_k), o the slopes without the row's share.
//
// With a coupling of the classes they meet in the sum of the row's steps, D = sum_k +-(a_k' - a_k): the block is
// apart I + shared 11', and a_k' = clip((o_k -+ shared D) / h_k, 0, cap_k). D is the root of an increasing function.
#pragma once

#include <algorithm>
#include <cmath>

#include "lanes.hpp"
#include "metrics/coupled.hpp"
#include "row_view.hpp"

namespace polymargin {

// What the loss adds to the metric's curvature of a margin, and its upper bound, which may be infinite.
struct Separate {
    double curvature, cap;
};

// Rivals are all alike, and the own class is seen to by itself: loops have no branches.
inline void solve_apart(RowView& row, double q, const Separate& own, const Separate& rival) {
    const double inverse = 1.0 / (q + rival.curvature);
    in_lanes(row.count, [&](Size k, auto lane) {
        const auto free = all(inverse, lane) * (read(row.g + k, lane) + all(q, lane) * read(row.a + k, lane));
        write(row.next + k, smaller(larger(free, all(0.0, lane)), all(rival.cap, lane)));
    });
    const Size at = row.position_of_own();
    if (at == row.count) return;
    row.next[at] = smaller(larger((row.g[at] + q * row.a[at]) / (q + own.curvature), 0.0), own.cap);
}

inline void solve_coupled(RowView& row, const Coupled& metric, const Separate& own, const Separate& rival) {
    const double shared = (metric.together - metric.apart) / metric.c;
    const double inverse = 1.0 / (metric.apart + rival.curvature), own_inverse = 1.0 / (metric.apart + own.curvature);
    const Size count = row.count, at = row.position_of_own();
    const bool has_own = at < count;
    Sum duals;
    in_lanes(count, [&](Size k, auto lane) {
        const auto a = read(row.a + k, lane);
        write(row.scratch + k, all(inverse, lane) * (read(row.g + k, lane) + all(metric.apart, lane) * a));
        duals += a;
    });
    const double before = duals.value(), own_before = has_own ? row.a[at] : 0.0;
    const double own_start = has_own ? own_inverse * (row.g[at] + metric.apart * own_before) : 0.0;
    if (has_own) row.scratch[at] = -infinity;  // no rival
    double D = 0.0, low = -infinity, high = infinity;
    for (int round = 0; round < 100; ++round) {  // Newton steps that stop on the right piece
        const double push = inverse * shared * D;
        Sum rivals, free;
        in_lanes(count, [&](Size k, auto lane) {
            const auto zero = all(0.0, lane), cap = all(rival.cap, lane), value = read(row.scratch + k, lane) + all(push, lane);
            const auto cut = smaller(larger(value, zero), cap);
            write(row.next + k, cut);
            rivals += cut;
            free += where_above(value, zero, where_above(cap, value, all(1.0, lane), zero), zero);
        });
        const double after = rivals.value();
        double slope = 1.0 + shared * inverse * free.value(), own_after = 0.0;
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

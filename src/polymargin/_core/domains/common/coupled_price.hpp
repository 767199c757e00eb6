// Rows of absolute margins that share one price nu, with a coupling of the classes: a_k' = (o_k -+ shared D - nu)_+ / apart.
//
// D = sum_k +-(a_k' - a_k) is the sum of the row's steps, o are the slopes without the row's share, and nu is what the domain asks for at
// given D. What D has more than the sum of the steps it leads to does not fall with it: Newton steps stop on the right piece.
#pragma once

#include <algorithm>
#include <cmath>

#include "metrics/coupled.hpp"
#include "row_view.hpp"

namespace polymargin {

// The price of what classes take, what they take in all where that is known, and how much more of it, in units of 1/apart, there is for a
// price that is higher by 1: nothing if the sum is fixed, infinitely much if the price is.
struct CoupledPrice {
    double nu, total, give;
};

// `price_of(o)` of row.count slopes o, which it leaves as they are; it may use row.scratch.
template <class PriceOf>
void solve_coupled_at_price(RowView& row, const Coupled& metric, PriceOf price_of) {
    const double shared = (metric.together - metric.apart) / metric.c;
    const auto sign = [&](Size k) { return row.classes[k] == row.y ? 1.0 : -1.0; };
    double D = 0.0, low = -infinity, high = infinity;
    for (int round = 0; round < 100; ++round) {
        for (Size k = 0; k < row.count; ++k) row.next[k] = row.g[k] + metric.apart * row.a[k] - sign(k) * shared * D;
        const CoupledPrice price = price_of(row.next);
        double steps = 0.0, size = 0.0, free = 0.0, signs = 0.0, sum = 0.0;
        for (Size k = 0; k < row.count; ++k) {
            const double value = row.next[k] - price.nu;
            row.next[k] = std::max(0.0, value / metric.apart);
            free += value > 0.0 ? 1.0 : 0.0;
            signs += value > 0.0 ? sign(k) : 0.0;
            sum += row.next[k];
        }
        const double right = price.total > 0.0 && sum > 0.0 ? price.total / sum : 1.0;  // rounding must not leave the domain
        for (Size k = 0; k < row.count; ++k) {
            row.next[k] *= right;
            steps += sign(k) * (row.next[k] - row.a[k]);
            size += row.next[k] + row.a[k];
        }
        const double excess = D - steps;
        if (std::fabs(excess) <= 1e-14 * size) return;
        (excess > 0.0 ? high : low) = D;
        const double follows = price.give < infinity && free > 0.0 ? signs * signs / (free + price.give) : 0.0;
        const double slope = 1.0 + shared / metric.apart * (free - follows);
        double next = D - excess / std::max(slope, 1e-3);  // nearly flat pieces end somewhere
        if (!(next > low && next < high)) next = 0.5 * (low + high);
        if (!(next > low && next < high)) return;
        D = next;
    }
}

}  // namespace polymargin

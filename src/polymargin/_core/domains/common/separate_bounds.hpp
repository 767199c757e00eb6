// The gap of a row whose duals do not meet in their domain: each has a bound of its own, 0 <= a_k <= cap_k, or a square of its own,
// h_k a_k^2 / 2 and no cap. All rivals are alike, and the own class of absolute margins is seen to by itself.
//
// A dual that its slope holds at a bound, by more than a threshold, leaves the list.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>

#include "lanes.hpp"
#include "row_view.hpp"

namespace polymargin {

// How far its slope would move a dual, and how hard it holds it at a bound.
template <class Lane>
struct SeenDual {
    Lane gap, violation, held;
};

// cap max(0, slope) - a slope
struct BoundedDual {
    double cap;

    template <class Lane>
    SeenDual<Lane> see(const Lane& slope, const Lane& a) const {
        const Lane zero = all(0.0, a), most = all(cap, a), up = larger(slope, zero), down = up - slope;
        const Lane rises = where_above(most, a, up, zero), falls = where_above(a, zero, down, zero);
        return {most * up - a * slope, larger(rises, falls), larger(up - rises, down - falls)};
    }
};

// max(0, s)^2 / (2 h) + h a^2 / 2 - a s, for a slope s without the square
struct SquaredDual {
    double curvature;

    template <class Lane>
    SeenDual<Lane> see(const Lane& hinge, const Lane& a) const {
        const Lane zero = all(0.0, a), own = all(curvature, a), wanted = larger(hinge, zero);
        const Lane slope = hinge - own * a, up = larger(slope, zero), down = up - slope;
        const Lane falls = where_above(a, zero, down, zero), half = all(0.5 / curvature, a);
        return {half * (wanted * wanted) + a * (all(0.5, a) * (own * a) - hinge), larger(up, falls), down - falls};
    }
};

// Slopes are g - level; the own class is at `at`, or not in the list: then that is its length.
template <class Dual>
Assessment assess_each(RowView& row, double level, const Dual& rival, const Dual& own, Size at, double threshold) {
    const bool has_own = at < row.count;
    double own_g = level, own_a = 0.0;  // in its place there is a rival with nothing to say
    if (has_own) {
        std::swap(own_g, row.g[at]);
        std::swap(own_a, row.a[at]);
    }
    Sum gap;
    Largest violation(0.0), held(0.0);
    in_lanes(row.count, [&](Size k, auto lane) {
        const auto seen = rival.see(read(row.g + k, lane) - all(level, lane), read(row.a + k, lane));
        gap += seen.gap;
        violation.see(seen.violation);
        held.see(seen.held);
        write(row.scratch + k, seen.held);
    });
    if (has_own) {
        const auto seen = own.see(own_g - level, own_a);
        row.g[at] = own_g;
        row.a[at] = own_a;
        gap += seen.gap;
        violation.see(seen.violation);
        held.see(seen.held);
        row.scratch[at] = seen.held;
    }
    if (held.value() > threshold) row.drop_above(threshold);
    return {gap.value(), violation.value()};
}

}  // namespace polymargin

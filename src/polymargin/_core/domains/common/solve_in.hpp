// One row solved in a metric, whether its domain knows the metric or not.
#pragma once

#include <type_traits>
#include <utility>

#include "metrics/identity.hpp"
#include "row_view.hpp"

namespace polymargin {

// A domain knows a metric if it has a `solve` for it.
template <class Domain, class Metric, class = void>
struct Knows : std::false_type {};
template <class Domain, class Metric>
struct Knows<Domain, Metric,
             std::void_t<decltype(std::declval<const Domain&>().solve(std::declval<RowView&>(), std::declval<const Metric&>()))>>
    : std::true_type {};

// In a metric that the domain does not know, the row's curvature H <= L I is replaced by L I: that bounds its gain from below,
// and touches it where the duals are now. So the dual never falls, and stands still at the row's maximum alone.
template <class Domain, class Metric>
void solve_in(const Metric& metric, const Domain& domain, RowView& row) {
    if constexpr (Knows<Domain, Metric>::value) {
        domain.solve(row, metric);
    } else {
        row.classes[row.count] = row.y;
        domain.solve(row, Identity{metric.largest(row.classes, row.count + 1, row.scratch)});
    }
}

}  // namespace polymargin

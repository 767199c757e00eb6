#include "dual_ascent.hpp"
#include "metric_weston_watkins.hpp"

namespace polymargin {

DualAscent* open_metric_weston_watkins(const AnyRows& rows, const Index* y, const double* cost, LoopSettings settings) {
    return open_dual_loop<MetricWestonWatkins>(rows, y, cost, settings);
}

}  // namespace polymargin

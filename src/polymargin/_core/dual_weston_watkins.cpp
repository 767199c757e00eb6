#include "dual_ascent.hpp"

namespace polymargin {

DualAscent* open_weston_watkins(const AnyRows& rows, const Index* y, const double* cost, LoopSettings settings) {
    return open_dual_loop<WestonWatkins>(rows, y, cost, settings);
}

}  // namespace polymargin

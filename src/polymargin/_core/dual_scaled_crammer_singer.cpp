#include "dual_ascent.hpp"
#include "scaled_crammer_singer.hpp"

namespace polymargin {

DualAscent* open_scaled_crammer_singer(const AnyRows& rows, const Index* y, const double* cost, LoopSettings settings) {
    return open_dual_loop<ScaledCrammerSinger>(rows, y, cost, settings);
}

}  // namespace polymargin

#include "dual_ascent.hpp"
#include "scaled_crammer_singer.hpp"

namespace polymargin {

DualAscent* open_squared_crammer_singer(const AnyRows& rows, const Index* y, const double* cost, LoopSettings settings) {
    return open_dual_loop<SquaredCrammerSinger>(rows, y, cost, settings);
}

}  // namespace polymargin

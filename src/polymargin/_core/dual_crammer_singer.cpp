#include "dual_ascent.hpp"

namespace polymargin {

DualAscent* open_crammer_singer(const AnyRows& rows, const Index* y, const double* cost, LoopSettings settings) {
    return open_dual_loop<CrammerSinger>(rows, y, cost, settings);
}

}  // namespace polymargin

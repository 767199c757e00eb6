// The interval 0 <= a <= u of one pair (row, label): loss [1 - t s]_+ for the sign t = +1 or -1.
#pragma once

#include <algorithm>
#include <cmath>

#include "domains/common/row_view.hpp"

namespace polymargin {

struct LabelBox {
    static double loss(double room) { return std::max(0.0, room); }  // room = 1 - t s

    // Gap, and the violation: 0 at a bound that the slope `room` pushes against.
    static Assessment assess(double room, double a, double cost) {
        const bool at_bound = (room < 0.0 && a == 0.0) || (room > 0.0 && a == cost);
        return {cost * std::max(0.0, room) - a * room, at_bound ? 0.0 : std::fabs(room)};
    }

    static double clip(double a, double cost) { return std::min(std::max(a, 0.0), cost); }
};

}  // namespace polymargin

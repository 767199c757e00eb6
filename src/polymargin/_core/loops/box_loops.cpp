// The row loops of the machines with a sum over the rivals.
#include "../domains/box.hpp"
#include "row_loop.hpp"

namespace polymargin {

RowAscent* open_box_loop(const std::string& problem, const RowTask& task) {
    if (problem == "weston_watkins") return open<Box, Identity>(task);
    if (problem == "metric_weston_watkins") return open<Box, BetweenClasses>(task);
    return nullptr;
}

}  // namespace polymargin

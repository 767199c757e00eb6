// The row loop of the machine with the mean of the k largest margins.
#include "../domains/top_k.hpp"
#include "row_loop.hpp"

namespace polymargin {

RowAscent* open_top_k_loop(const std::string& problem, const RowTask& task) {
    if (problem == "top_k") return open<TopK, Identity>(task);
    return nullptr;
}

}  // namespace polymargin

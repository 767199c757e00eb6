// The row loops of the machines with a maximum over the rivals.
#include "../domains/simplex.hpp"
#include "../domains/squared_simplex.hpp"
#include "row_loop.hpp"

namespace polymargin {

RowAscent* open_simplex_loop(const std::string& problem, const RowTask& task) {
    if (problem == "crammer_singer") return open<Simplex, Identity>(task);
    if (problem == "scaled_crammer_singer") return open<Simplex, ClassScales>(task);
    if (problem == "squared_crammer_singer") return open<SquaredSimplex, ClassScales>(task);
    return nullptr;
}

}  // namespace polymargin

// The cone of the squared top-k hinge, the beta form.
#pragma once

#include "common/squared_gauge.hpp"
#include "capped_simplex.hpp"

namespace polymargin {

class SquaredCappedSimplex : public SquaredGauge<CappedSimplex> {
public:
    using SquaredGauge<CappedSimplex>::SquaredGauge;
};

}  // namespace polymargin

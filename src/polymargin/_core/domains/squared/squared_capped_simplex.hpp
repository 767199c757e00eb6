// The cone of the squared top-k hinge, the beta form.
#pragma once

#include "domains/common/squared_gauge.hpp"
#include "domains/capped_simplex.hpp"

namespace polymargin {

class SquaredCappedSimplex : public SquaredGauge<CappedSimplex> {
public:
    using SquaredGauge<CappedSimplex>::SquaredGauge;
};

}  // namespace polymargin

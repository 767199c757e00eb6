// The cone of the squared top-k hinge, the alpha form.
#pragma once

#include "domains/common/squared_gauge.hpp"
#include "domains/top_k.hpp"

namespace polymargin {

class SquaredTopK : public SquaredGauge<TopK> {
public:
    using SquaredGauge<TopK>::SquaredGauge;
};

}  // namespace polymargin

// The cone of the squared top-k hinge, the alpha form.
#pragma once

#include "common/squared_gauge.hpp"
#include "top_k.hpp"

namespace polymargin {

class SquaredTopK : public SquaredGauge<TopK> {
public:
    using SquaredGauge<TopK>::SquaredGauge;
};

}  // namespace polymargin

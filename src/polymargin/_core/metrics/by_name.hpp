// All metrics, by name.
#pragma once

#include <stdexcept>
#include <string>

#include "between_classes.hpp"
#include "class_scales.hpp"
#include "coupled.hpp"
#include "identity.hpp"

namespace polymargin {

template <class Metric>
struct Named {
    using type = Metric;
};

// Calls `work` with the type of a metric: `Named<Identity>{}` and so on.
template <class Work>
auto with_metric(const std::string& name, Work work) {
    if (name == Identity::name) return work(Named<Identity>{});
    if (name == ClassScales::name) return work(Named<ClassScales>{});
    if (name == BetweenClasses::name) return work(Named<BetweenClasses>{});
    if (name == Coupled::name) return work(Named<Coupled>{});
    throw std::invalid_argument("unknown metric '" + name + "': identity, class_scales, between_classes or coupled");
}

}  // namespace polymargin

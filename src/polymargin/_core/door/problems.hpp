// Row problems by name: those with the identity as metric, which have no loop of their own (the kernel dual, the tests).
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "../domains/box.hpp"
#include "../domains/simplex.hpp"
#include "../domains/top_k.hpp"

namespace polymargin {

[[noreturn]] inline void unknown_problem(const std::string& name) {
    throw std::invalid_argument("unknown row problem '" + name + "'");
}

// Calls `work` with the domain.
template <class Work>
auto with_domain(const std::string& name, const std::vector<double>& parameters, Size n_classes, Work work) {
    if (name == "crammer_singer") return work(make_domain<Simplex>(parameters, n_classes));
    if (name == "weston_watkins") return work(make_domain<Box>(parameters, n_classes));
    if (name == "top_k") return work(make_domain<TopK>(parameters, n_classes));
    unknown_problem(name);
}

}  // namespace polymargin

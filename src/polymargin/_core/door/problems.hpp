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

inline void no_parameters(const std::string& name, const std::vector<double>& parameters) {
    if (!parameters.empty()) throw std::invalid_argument("the row problem '" + name + "' has no parameters");
}

// Calls `work` with the domain.
template <class Work>
auto with_domain(const std::string& name, const std::vector<double>& parameters, Size n_classes, Work work) {
    if (name == "top_k") return work(TopK(parameters, n_classes));
    no_parameters(name, parameters);
    if (name == "crammer_singer") return work(Simplex{});
    if (name == "weston_watkins") return work(Box{});
    unknown_problem(name);
}

}  // namespace polymargin

// A domain behind its name: every loop that is made of it. Each header of domains/ is one (domain_of.hpp); CMake lists them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernel/kernel_block.hpp"
#include "loops/row_ascent.hpp"

namespace polymargin {

class AnyDomain {
public:
    virtual ~AnyDomain() = default;

    virtual std::unique_ptr<RowAscent> row_loop(const std::string& metric, const RowTask& task) const = 0;

    // For the kernel dual of c classes, whose metric is the identity (kernel_loop.hpp).
    virtual std::unique_ptr<KernelRows> kernel_rows(Size c) const = 0;

    // The loss of a row of class y at these scores, which are overwritten, per unit of its cost; `targets` are what its margins should
    // reach, null: 1.
    virtual double loss(double* scores, Size n_classes, Size y, const double* targets) const = 0;

    // The largest t <= 1 for which t * a stays in the domain.
    virtual double room(const RowDuals& duals) const = 0;

    // One row in the metric with the block H (count + 1, count + 1), its own class last: for the tests.
    virtual void solve(RowView& row, const std::string& metric, const double* H) const = 0;
};

using Parameters = std::vector<double>;

struct DomainKind {
    const char* name;
    std::unique_ptr<AnyDomain> (*make)(const Parameters& parameters, Size n_classes);
    bool (*knows)(const std::string& metric);  // whether it has a `solve` of its own for it
};

const DomainKind& domain_kind(const std::string& name);
std::vector<std::string> domain_names();

}  // namespace polymargin

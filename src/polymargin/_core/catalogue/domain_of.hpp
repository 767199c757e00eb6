// The loops that are made of one domain. CMake compiles them once for each header of domains/ (domains.cpp.in).
#pragma once

#include <stdexcept>
#include <type_traits>

#include "metrics/by_name.hpp"
#include "any_domain.hpp"
#include "loops/row_loop.hpp"

namespace polymargin {

template <class Domain>
class DomainOf final : public AnyDomain {
    static_assert(Knows<Domain, Identity>::value, "a domain needs solve(RowView&, const Identity&)");

public:
    explicit DomainOf(const Domain& domain) : domain_(domain) {}

    std::unique_ptr<RowAscent> row_loop(const std::string& metric, const RowTask& task) const override {
        return with_metric(metric, [&](auto named) -> std::unique_ptr<RowAscent> {
            using Metric = typename decltype(named)::type;
            // a matrix between the classes moves with the machine: the step of a bound on it would crawl
            if constexpr (Metric::between_classes && !Knows<Domain, Metric>::value) {
                throw std::invalid_argument("a matrix between the classes needs a domain that knows it");
            } else {
                return std::make_unique<RowLoop<Domain, Metric>>(domain_, task);
            }
        });
    }

    std::unique_ptr<KernelRows> kernel_rows(Size c) const override {
        if constexpr (Domain::absolute) {
            throw std::invalid_argument("the kernel dual needs margins to rivals, not absolute ones");
        } else {
            return std::make_unique<KernelBlock<Domain>>(domain_, c);
        }
    }

    double loss(double* scores, Size n_classes, Size y, const double* targets) const override {
        for (Size k = 0; k < n_classes; ++k) {
            const double target = targets ? targets[k] : 1.0;
            if (Domain::absolute) {
                scores[k] = k == y ? target - scores[k] : target + scores[k];
            } else if (k != y) {
                scores[k] += target - 1.0;
            }
        }
        return domain_.loss(scores, n_classes, y);
    }

    double room(const RowDuals& duals) const override { return domain_.room(duals); }

    void solve(RowView& row, const std::string& metric, const double* H) const override {
        const Size m = row.count + 1;
        std::vector<double> diagonal(m);
        for (Size k = 0; k < m; ++k) diagonal[k] = H[k * m + k];
        with_metric(metric, [&](auto named) {
            using Metric = typename decltype(named)::type;
            if constexpr (Metric::has_scales) {
                solve_in(Metric{diagonal.data(), 1.0, 0.0}, domain_, row);
            } else if constexpr (Metric::between_classes) {
                solve_in(Metric{H, m, static_cast<Size>(row.y), 1.0}, domain_, row);
            } else if constexpr (Metric::has_sum) {
                const double c = static_cast<double>(m), apart = m > 1 ? H[0] - H[1] : H[0];
                solve_in(Metric{apart, apart + c * (H[0] - apart), c, !Domain::absolute}, domain_, row);
            } else {
                solve_in(Metric{diagonal[0]}, domain_, row);
            }
        });
    }

private:
    const Domain domain_;
};

// A domain with parameters takes them and the number of classes; others have none.
template <class Domain>
std::unique_ptr<AnyDomain> make_domain(const Parameters& parameters, Size n_classes) {
    if constexpr (std::is_constructible_v<Domain, const Parameters&, Size>) {
        return std::make_unique<DomainOf<Domain>>(Domain(parameters, n_classes));
    } else {
        if (!parameters.empty()) throw std::invalid_argument("this domain has no parameters");
        return std::make_unique<DomainOf<Domain>>(Domain{});
    }
}

template <class Domain>
bool knows_metric(const std::string& metric) {
    return with_metric(metric, [](auto named) -> bool { return Knows<Domain, typename decltype(named)::type>::value; });
}

}  // namespace polymargin

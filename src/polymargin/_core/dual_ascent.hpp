// One door to the dual loop for all combinations of storage and row problem.
//
// A row problem is compiled in a file of its own (dual_*.cpp), which defines its opener with `open_dual_loop`.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "dual_loop.hpp"

namespace polymargin {

struct SparseDuals {
    std::vector<std::int64_t> starts;
    std::vector<Index> classes;
    std::vector<double> values;
};

// What the value of scaled duals is made of: the largest t <= 1 that keeps them feasible, sum a, of a squared hinge
// sum_i (sum_l a_il)^2 / (2 u_i), and the squared norms of the class vectors without class scales.
struct DualTotals {
    double room, sum, squares;
    std::vector<double> norms;
};

// One door for all combinations of storage and row problem.
class DualAscent {
public:
    virtual ~DualAscent() = default;
    virtual void ascend(std::int64_t max_visits, double tol, const Poll& poll) = 0;
    virtual void restore() = 0;
    virtual double loss(int n_threads, const Poll& poll) const = 0;
    virtual const Progress& progress() const = 0;
    virtual double dual() const = 0;
    virtual double dual_sum() const = 0;
    virtual double squared_norm() const = 0;
    virtual std::vector<double> weights() const = 0;  // (d, c)
    virtual std::vector<double> intercepts() const = 0;
    virtual void start_intercept(const double* means, double inverse_rho) = 0;
    virtual void set_base(const double* W0, double constant) = 0;  // W0 (d, c)
    virtual std::vector<double> sums() const = 0;  // with a metric P times them
    virtual const std::vector<double>& centre() const = 0;
    virtual void move_centre(const double* to) = 0;
    virtual std::vector<double> flows() const = 0;
    virtual std::tuple<double, double, double> scaled(const double* factors, const Poll& poll) const = 0;
    virtual DualTotals totals_of(const double* factors, const Poll& poll) const = 0;
    virtual std::vector<double> squared_norms() const = 0;
    virtual void rescale(const double* scales, const double* squared_norms) = 0;
    virtual void change_metric(const double* P, double t) = 0;  // (c, c)
    virtual SparseDuals duals() const = 0;
    virtual void set_duals(const std::int64_t* starts, const Index* classes, const double* values) = 0;
    virtual Size n_features() const = 0;
    virtual Size n_classes() const = 0;
};

template <class Rows, class Problem>
class DualAscentOf final : public DualAscent {
public:
    DualAscentOf(Rows rows, const Index* y, const double* cost, LoopSettings settings) : loop_(rows, y, cost, settings) {}

    void ascend(std::int64_t max_visits, double tol, const Poll& poll) override { loop_.ascend(max_visits, tol, poll); }
    void restore() override { loop_.restore(); }
    double loss(int n_threads, const Poll& poll) const override { return loop_.loss(n_threads, poll); }
    const Progress& progress() const override { return loop_.progress(); }
    double dual() const override { return state().dual; }
    double dual_sum() const override { return state().dual_sum(); }
    double squared_norm() const override { return state().weights.squared_norm(); }
    Size n_features() const override { return state().rows.n_features(); }
    Size n_classes() const override { return state().rows.n_classes(); }

    std::vector<double> weights() const override { return state().weights.weights(); }
    std::vector<double> intercepts() const override {
        std::vector<double> out(n_classes());
        for (Size k = 0; k < n_classes(); ++k) out[k] = state().weights.intercept(k);
        return out;
    }

    void start_intercept(const double* means, double inverse_rho) override {
        loop_.state().start_intercept(means, inverse_rho);
    }
    void set_base(const double* W0, double constant) override { loop_.state().set_base(W0, constant); }
    std::vector<double> sums() const override { return state().weights.pulls_of_sums(); }
    const std::vector<double>& centre() const override { return state().weights.centre(); }
    void move_centre(const double* to) override { loop_.state().move_centre(to); }
    std::vector<double> flows() const override { return state().flows(); }
    std::tuple<double, double, double> scaled(const double* factors, const Poll& poll) const override {
        const auto out = state().template scaled<Problem>(factors, poll);
        return {out.room, out.sum, out.squared_norm};
    }

    DualTotals totals_of(const double* factors, const Poll& poll) const override {
        auto out = state().template scaled<Problem>(factors, poll);
        return {out.room, out.sum, out.squares, std::move(out.norms)};
    }
    std::vector<double> squared_norms() const override { return state().weights.squared_norms(); }
    void rescale(const double* scales, const double* squared_norms) override {
        if constexpr (has_class_scales<Problem>) {
            loop_.state().rescale(scales, squared_norms);
        } else {
            throw std::logic_error("this row problem has no class scales");
        }
    }

    void change_metric(const double* P, double t) override {
        if constexpr (has_class_metric<Problem>) {
            loop_.state().template change_metric<Problem>(P, t);
            loop_.restore();
        } else {
            throw std::logic_error("this row problem has no class metric");
        }
    }

    SparseDuals duals() const override {
        SparseDuals out;
        out.starts.push_back(0);
        for (Size i = 0; i < state().n_rows(); ++i) {
            const auto& slot = state().duals.slot(i);
            for (Index k = 0; k < slot.count; ++k) {
                if (state().duals.values(slot)[k] == 0.0) continue;
                out.classes.push_back(state().duals.label(slot, k));
                out.values.push_back(state().duals.values(slot)[k]);
            }
            out.starts.push_back(static_cast<std::int64_t>(out.classes.size()));
        }
        return out;
    }
    void set_duals(const std::int64_t* starts, const Index* classes, const double* values) override {
        for (Size i = 0; i < state().n_rows(); ++i) {
            loop_.state().set_row(i, classes + starts[i], values + starts[i], static_cast<Size>(starts[i + 1] - starts[i]));
        }
        loop_.state().refresh_dual();
    }

private:
    const DualState<Rows>& state() const { return loop_.state(); }

    DualLoop<Rows, Problem> loop_;
};

using AnyRows = std::variant<DenseRows<double>, DenseRows<float>, CsrRows<double, std::int32_t>, CsrRows<double, std::int64_t>,
                             CsrRows<float, std::int32_t>, CsrRows<float, std::int64_t>>;

template <class Problem>
DualAscent* open_dual_loop(const AnyRows& any, const Index* y, const double* cost, LoopSettings settings) {
    return std::visit(
        [&](const auto& rows) -> DualAscent* {
            return new DualAscentOf<std::decay_t<decltype(rows)>, Problem>(rows, y, cost, settings);
        },
        any);
}

DualAscent* open_crammer_singer(const AnyRows& rows, const Index* y, const double* cost, LoopSettings settings);
DualAscent* open_scaled_crammer_singer(const AnyRows& rows, const Index* y, const double* cost, LoopSettings settings);
DualAscent* open_squared_crammer_singer(const AnyRows& rows, const Index* y, const double* cost, LoopSettings settings);
DualAscent* open_metric_weston_watkins(const AnyRows& rows, const Index* y, const double* cost, LoopSettings settings);
DualAscent* open_weston_watkins(const AnyRows& rows, const Index* y, const double* cost, LoopSettings settings);

}  // namespace polymargin

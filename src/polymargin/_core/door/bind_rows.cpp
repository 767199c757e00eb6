// Python's door to the row loop.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "catalogue/any_domain.hpp"
#include "metrics/coupled.hpp"
#include "passes/class_vectors.hpp"
#include "bindings.hpp"
#include "tools.hpp"

using namespace nb::literals;

namespace polymargin {
namespace {

// The arrays are borrowed: the caller keeps them alive (keep_alive below).
RowAscent* open(const std::string& domain, const std::string& metric, const RowArrays& X, Vector<Index> y, Vector<double> cost,
                Size n_classes, bool waiting, std::uint64_t seed, const Parameters& parameters, const Targets& targets, int together,
                int n_threads, bool averages) {
    check_targets(y, cost, X.n_rows(), n_classes);
    if (together < 1 || together > 1024) throw std::invalid_argument("together must be from 1 to 1024");
    if (n_threads < 1) throw std::invalid_argument("n_threads must be at least 1");
    LoopSettings settings;
    settings.waiting = waiting;
    settings.seed = seed;
    settings.together = together;
    settings.n_threads = n_threads;
    settings.averages = averages;
    RowTask task{X.with_classes(n_classes + (metric == Coupled::name ? 1 : 0)), y.data(), cost.data(), settings, {}};
    if (targets) {
        check_shape(*targets, n_classes, n_classes, "targets");
        task.targets.assign(targets->data(), targets->data() + n_classes * n_classes);
    }
    return domain_kind(domain).make(parameters, n_classes)->row_loop(metric, task).release();
}

ScaledDuals scaled(const RowAscent& loop, const Matrix<double>& factors) {
    check_shape(factors, loop.state().n_classes(), loop.state().n_classes(), "factors");
    return without_gil([&](const Poll& poll) { return loop.state().scaled(factors.data(), poll); });
}

// sum_i u_i loss_i of class vectors and offsets, whoever has made them.
double loss_of_machine(const std::string& domain, const RowArrays& X, const Vector<Index>& y, const Vector<double>& cost,
                       const ClassVectors& vectors, const Vector<double>& b, const Parameters& parameters, int n_threads,
                       const std::optional<Matrix<double>>& targets) {
    if (n_threads < 1) throw std::invalid_argument("n_threads must be at least 1");
    check_targets(y, cost, X.n_rows(), vectors.n_classes());
    const Size c = vectors.n_classes();
    if (targets) check_shape(*targets, c, c, "targets");
    const auto loss = domain_kind(domain).make(parameters, c);
    return without_gil([&](const Poll& poll) {
        const auto of_row = [&](Size i, double* scores) {
            const Size own = static_cast<Size>(y.data()[i]);
            return cost.data()[i] * loss->loss(scores, c, own, targets ? targets->data() + own * c : nullptr);
        };
        return sum_of_losses(X.with_classes(vectors.n_classes()), vectors, b.data(), of_row, n_threads, poll);
    });
}

// One row's duals, for the tests: classes 0, 1, ... with scores g and duals a, the own class after them, or, of absolute margins,
// the class `own`; H is the metric.
NewVector solved_row(const std::string& domain, const std::string& metric, Matrix<double> H, Vector<double> g, Vector<double> a,
                     double g_target, double cost, const Parameters& parameters, std::int64_t own) {
    const Size count = g.shape(0);
    check_size(a, count, "a");
    check_shape(H, count + 1, count + 1, "H");
    if (own < -1 || own >= static_cast<std::int64_t>(count)) throw std::invalid_argument("own is out of range");
    std::vector<double> g_copy(g.data(), g.data() + count), a_copy(a.data(), a.data() + count);
    std::vector<double> next(count), scratch(count + 1), parked_duals(count);
    std::vector<Index> classes(count + 1), parked(count);
    for (Size k = 0; k < count; ++k) classes[k] = static_cast<Index>(k);
    RowView row{{classes.data(), a_copy.data(), g_copy.data(), next.data(), scratch.data(), count, g_target, false},
                cost, static_cast<Index>(own < 0 ? static_cast<std::int64_t>(count) : own), true, parked.data(), parked_duals.data(), 0};
    domain_kind(domain).make(parameters, count + 1)->solve(row, metric, H.data());
    return vector_of(next);
}

}  // namespace

void bind_rows(nb::module_& m) {
    nb::class_<RowAscent> door(m, "RowLoop");
    bind_ascent(door);
    bind_state(door, [](const RowAscent& self) { return self.state().n_classes(); });
    door.def("loss",
             [](const RowAscent& self, int n_threads) {
                 return without_gil([&](const Poll& poll) { return self.loss(n_threads, poll); });
             }, "n_threads"_a)
        .def("average_slices", [](RowAscent& self, bool on) { self.average_slices(on); }, "on"_a)
        .def_prop_ro("has_average", [](const RowAscent& self) { return self.average() != nullptr; })
        .def("averaged_value",
             [](const RowAscent& self, int n_threads) {
                 if (!self.average()) return infinity;
                 const double loss = without_gil([&](const Poll& poll) { return self.loss(*self.average(), n_threads, poll); });
                 return 0.5 * self.average()->squared_norm() + loss;
             }, "n_threads"_a)
        .def("averaged_machine",
             [](const RowAscent& self) {
                 if (!self.average()) throw std::logic_error("no average: the loop has not ended with an epoch over everything");
                 return std::tuple(matrix_of(self.average()->weights(), self.state().rows.n_features(), self.state().n_classes()),
                                   vector_of(self.average()->intercepts()));
             })
        .def_prop_ro("dual_sum", [](const RowAscent& self) { return self.state().dual_sum(); })
        .def_prop_ro("flow", [](const RowAscent& self) { return self.state().flow(); })
        .def("set_base",
             [](RowAscent& self, Matrix<double> W0, double constant) {
                 check_shape(W0, self.state().rows.n_features(), self.state().n_classes(), "W0");
                 if (self.state().metric.coupled) throw std::logic_error("no base: the loop couples its classes");
                 self.state().set_base(W0.data(), constant);
             }, "W0"_a, "constant"_a)
        .def("scaled",
             [](const RowAscent& self, Matrix<double> factors) {
                 const ScaledDuals out = scaled(self, factors);
                 return std::tuple(out.room, out.sum, out.squared_norm, out.squares);
             }, "factors"_a)
        .def("totals_of",
             [](const RowAscent& self, Matrix<double> factors) {
                 const ScaledDuals out = scaled(self, factors);
                 return std::tuple(out.room, out.sum, out.squares, vector_of(out.norms));
             }, "factors"_a)
        .def("squared_norms", [](const RowAscent& self) { return vector_of(self.state().weights.squared_norms()); })
        .def("rescale",
             [](RowAscent& self, Vector<double> scales, Vector<double> squared_norms) {
                 if (!self.state().metric.has_scales()) throw std::logic_error("no class scales: the loop has another metric");
                 check_size(scales, self.state().n_classes(), "scales");
                 check_size(squared_norms, self.state().n_classes(), "squared_norms");
                 self.state().rescale(scales.data(), squared_norms.data());
             }, "scales"_a, "squared_norms"_a)
        .def("change_metric",
             [](RowAscent& self, Matrix<double> P, double t) {
                 if (!self.state().metric.has_matrix()) throw std::logic_error("no class metric: the loop has another metric");
                 check_shape(P, self.state().n_classes(), self.state().n_classes(), "P");
                 self.state().change_metric(P.data(), t);
                 self.restore();
             }, "P"_a, "t"_a)
        .def("couple",
             [](RowAscent& self, double scale, double common, bool fixes_offsets) {
                 if (!self.state().metric.coupled) throw std::logic_error("no coupling: the loop has another metric");
                 if (self.state().has_duals()) throw std::logic_error("couple comes before set_duals and ascend");
                 if (!(scale > 0.0) || !(common >= 0.0)) throw std::invalid_argument("scale must be positive, common at least 0");
                 self.state().couple({scale, common, fixes_offsets});
             }, "scale"_a, "common"_a, "fixes_offsets"_a)
        .def("shrink",
             [](RowAscent& self, double l1, bool by_features) {
                 const MachineMetric& metric = self.state().metric;
                 if (metric.coupled || metric.has_scales() || metric.has_matrix()) {
                     throw std::logic_error("no threshold: the loop has another metric than the identity");
                 }
                 if (self.state().has_duals()) throw std::logic_error("shrink comes before set_duals and ascend");
                 if (!(l1 >= 0.0) || !std::isfinite(l1)) throw std::invalid_argument("l1 must be finite and at least 0");
                 self.state().shrink({by_features ? Shrinkage::features : Shrinkage::entries, l1});
             }, "l1"_a, "by_features"_a);

    m.def("row_loop", &open, "domain"_a, "metric"_a, "rows"_a, "y"_a.noconvert(), "cost"_a.noconvert(), "n_classes"_a,
          "waiting"_a, "seed"_a, "parameters"_a = Parameters(), "targets"_a = nb::none(), "together"_a = 1,
          "n_threads"_a = 1, "averages"_a = false, nb::keep_alive<0, 3>(), nb::keep_alive<0, 4>(), nb::keep_alive<0, 5>());
    m.def("machine_loss",
          [](const std::string& domain, const RowArrays& X, Vector<Index> y, Vector<double> cost, Matrix<double> W, Vector<double> b,
             const Parameters& parameters, int n_threads, const std::optional<Matrix<double>>& targets) {
              check_shape(W, X.n_features(), b.shape(0), "W");
              return loss_of_machine(domain, X, y, cost, {W.data(), X.n_features(), b.shape(0)}, b, parameters, n_threads, targets);
          }, "domain"_a, "rows"_a, "y"_a.noconvert(), "cost"_a.noconvert(), "W"_a.noconvert(), "b"_a, "parameters"_a = Parameters(),
          "n_threads"_a = 1, "targets"_a = nb::none());
    m.def("machine_loss",
          [](const std::string& domain, const RowArrays& X, Vector<Index> y, Vector<double> cost, Vector<double> values,
             Vector<Index> classes, Vector<std::int64_t> starts, Vector<double> b, const Parameters& parameters,
             int n_threads, const std::optional<Matrix<double>>& targets) {
              check_starts(starts, X.n_features(), values.shape(0), "starts");
              check_size(classes, values.shape(0), "classes");
              check_range(classes, b.shape(0), "classes");
              const ClassVectors vectors(values.data(), classes.data(), starts.data(), X.n_features(), b.shape(0));
              return loss_of_machine(domain, X, y, cost, vectors, b, parameters, n_threads, targets);
          }, "domain"_a, "rows"_a, "y"_a.noconvert(), "cost"_a.noconvert(), "values"_a.noconvert(), "classes"_a.noconvert(),
          "starts"_a.noconvert(), "b"_a, "parameters"_a = Parameters(), "n_threads"_a = 1, "targets"_a = nb::none());
    m.def("solve_row", &solved_row, "domain"_a, "metric"_a, "H"_a, "g"_a, "a"_a, "g_target"_a, "cost"_a,
          "parameters"_a = Parameters(), "own"_a = -1);
    m.def("domains", &domain_names);
    m.def("knows", [](const std::string& domain, const std::string& metric) { return domain_kind(domain).knows(metric); },
          "domain"_a, "metric"_a);
}

}  // namespace polymargin

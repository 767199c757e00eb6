// Python's door to the dual loop.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <stdexcept>
#include <string>

#include "binding_tools.hpp"
#include "bindings.hpp"
#include "dual_ascent.hpp"
#include "scaled_crammer_singer.hpp"

using namespace nb::literals;

namespace polymargin {
namespace {

DualAscent* open(const std::string& problem, const AnyRows& rows, const Vector<Index>& y, const Vector<double>& cost,
                 bool waiting, std::uint64_t seed) {
    LoopSettings settings;
    settings.waiting = waiting;
    settings.seed = seed;
    if (problem == "crammer_singer") return open_crammer_singer(rows, y.data(), cost.data(), settings);
    if (problem == "weston_watkins") return open_weston_watkins(rows, y.data(), cost.data(), settings);
    if (problem == "scaled_crammer_singer") return open_scaled_crammer_singer(rows, y.data(), cost.data(), settings);
    if (problem == "squared_crammer_singer") return open_squared_crammer_singer(rows, y.data(), cost.data(), settings);
    if (problem == "metric_weston_watkins") return open_metric_weston_watkins(rows, y.data(), cost.data(), settings);
    throw std::invalid_argument("unknown row problem '" + problem + "'");
}

// The arrays are borrowed: the caller keeps them alive (keep_alive below).
template <class T>
DualAscent* dense(const std::string& problem, Matrix<T> X, Vector<Index> y, Vector<double> cost, Size n_classes,
                  bool waiting, std::uint64_t seed) {
    return open(problem, DenseRows<T>(X.data(), X.shape(0), X.shape(1), n_classes), y, cost, waiting, seed);
}

template <class T, class I>
DualAscent* csr(const std::string& problem, Vector<T> data, Vector<I> indices, Vector<I> indptr, Size n_features,
                Vector<Index> y, Vector<double> cost, Size n_classes, bool waiting, std::uint64_t seed) {
    const CsrRows<T, I> rows(data.data(), indices.data(), indptr.data(), indptr.shape(0) - 1, n_features, n_classes);
    return open(problem, rows, y, cost, waiting, seed);
}

template <class T>
void bind_dense(nb::module_& m) {
    m.def("dense", &dense<T>, "problem"_a, "X"_a.noconvert(), "y"_a.noconvert(), "cost"_a.noconvert(), "n_classes"_a,
          "waiting"_a, "seed"_a, nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>(), nb::keep_alive<0, 4>());
}

template <class T, class I>
void bind_csr(nb::module_& m) {
    m.def("csr", &csr<T, I>, "problem"_a, "data"_a.noconvert(), "indices"_a.noconvert(), "indptr"_a.noconvert(),
          "n_features"_a, "y"_a.noconvert(), "cost"_a.noconvert(), "n_classes"_a, "waiting"_a, "seed"_a,
          nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>(), nb::keep_alive<0, 4>(), nb::keep_alive<0, 6>(),
          nb::keep_alive<0, 7>());
}

// One row's exact solution, for the tests: the list g, a, the own class's g and the row's curvature and cost.
template <class Problem>
std::vector<double> solved_row(Vector<double> g, Vector<double> a, double g_target, double q, double cost) {
    const Size count = g.shape(0);
    std::vector<double> g_copy(g.data(), g.data() + count), a_copy(a.data(), a.data() + count);
    std::vector<double> next(count), scratch(count);
    std::vector<Index> classes(count), parked(count);
    RowView row{classes.data(), a_copy.data(), g_copy.data(), next.data(), scratch.data(), count, g_target, q, cost,
                true, parked.data(), 0, false};
    Problem::solve(row);
    return next;
}

// The same with class scales: curvatures of the listed classes and of the own class.
template <class Problem>
std::vector<double> solved_scaled_row(Vector<double> g, Vector<double> a, double g_target, Vector<double> curvatures,
                                      double target_curvature, double cost) {
    const Size count = g.shape(0);
    std::vector<double> g_copy(g.data(), g.data() + count), a_copy(a.data(), a.data() + count);
    std::vector<double> next(count), scratch(count);
    std::vector<Index> classes(count), parked(count);
    for (Size k = 0; k < count; ++k) classes[k] = static_cast<Index>(k);
    RowView row{classes.data(), a_copy.data(), g_copy.data(), next.data(), scratch.data(), count, g_target, 1.0, cost,
                true, parked.data(), 0, false};
    row.scales = curvatures.data();  // q = 1
    row.target_curvature = target_curvature;
    Problem::solve(row);
    return next;
}

}  // namespace

void bind_dual(nb::module_& m) {
    bind_dense<double>(m);
    bind_dense<float>(m);
    bind_csr<double, std::int32_t>(m);
    bind_csr<double, std::int64_t>(m);
    bind_csr<float, std::int32_t>(m);
    bind_csr<float, std::int64_t>(m);

    m.def("solve_row",
          [](const std::string& problem, Vector<double> g, Vector<double> a, double g_target, double q, double cost) {
              const auto solve = problem == "crammer_singer" ? solved_row<CrammerSinger> : solved_row<WestonWatkins>;
              return array_of<double, 1>(solve(g, a, g_target, q, cost), {g.shape(0)});
          }, "problem"_a, "g"_a, "a"_a, "g_target"_a, "q"_a, "cost"_a);
    m.def("solve_scaled_row",
          [](const std::string& problem, Vector<double> g, Vector<double> a, double g_target, Vector<double> curvatures,
             double target_curvature, double cost) {
              const auto solve = problem == "scaled_crammer_singer" ? solved_scaled_row<ScaledCrammerSinger>
                                                                    : solved_scaled_row<SquaredCrammerSinger>;
              return array_of<double, 1>(solve(g, a, g_target, curvatures, target_curvature, cost), {g.shape(0)});
          }, "problem"_a, "g"_a, "a"_a, "g_target"_a, "curvatures"_a, "target_curvature"_a, "cost"_a);
    nb::class_<DualAscent>(m, "DualAscent")
        .def("ascend",
             [](DualAscent& self, std::int64_t max_visits, double tol) {
                 without_gil([&](const Poll& poll) { self.ascend(max_visits, tol, poll); });
             }, "max_visits"_a, "tol"_a)
        .def("loss",
             [](const DualAscent& self, int n_threads) {
                 return without_gil([&](const Poll& poll) { return self.loss(n_threads, poll); });
             }, "n_threads"_a)
        .def("restore", &DualAscent::restore, nb::call_guard<nb::gil_scoped_release>())
        .def_prop_ro("estimate", [](const DualAscent& self) { return self.progress().estimate; })
        .def_prop_ro("epochs", [](const DualAscent& self) { return self.progress().epochs; })
        .def_prop_ro("visits", [](const DualAscent& self) { return self.progress().visits; })
        .def_prop_ro("dual", &DualAscent::dual)
        .def_prop_ro("dual_sum", &DualAscent::dual_sum)
        .def_prop_ro("squared_norm", &DualAscent::squared_norm)
        .def("weights",
                     [](const DualAscent& self) {
                         return array_of<double, 2>(self.weights(), {self.n_features(), self.n_classes()});
                     })
        .def("intercepts",
                     [](const DualAscent& self) { return array_of<double, 1>(self.intercepts(), {self.n_classes()}); })
        .def("start_intercept",
             [](DualAscent& self, Vector<double> means, double inverse_rho) {
                 self.start_intercept(means.data(), inverse_rho);
             }, "means"_a, "inverse_rho"_a)
        .def("set_base",
             [](DualAscent& self, Matrix<double> W0, double constant) {
                 if (W0.shape(0) != self.n_features() || W0.shape(1) != self.n_classes()) {
                     throw std::invalid_argument("the base has another shape than the weights");
                 }
                 self.set_base(W0.data(), constant);
             }, "W0"_a, "constant"_a)
        .def("sums", [](const DualAscent& self) { return array_of<double, 1>(self.sums(), {self.n_classes()}); })
        .def("centre",
                     [](const DualAscent& self) { return array_of<double, 1>(self.centre(), {self.n_classes()}); })
        .def("move_centre", [](DualAscent& self, Vector<double> to) { self.move_centre(to.data()); }, "to"_a)
        .def("flows",
                     [](const DualAscent& self) {
                         return array_of<double, 2>(self.flows(), {self.n_classes(), self.n_classes()});
                     })
        .def("scaled",
             [](const DualAscent& self, Matrix<double> factors) {
                 return without_gil([&](const Poll& poll) { return self.scaled(factors.data(), poll); });
             }, "factors"_a)
        .def("totals_of",
             [](const DualAscent& self, Matrix<double> factors) {
                 const auto totals = without_gil([&](const Poll& poll) { return self.totals_of(factors.data(), poll); });
                 return nb::make_tuple(totals.room, totals.sum, totals.squares,
                                       array_of<double, 1>(totals.norms, {totals.norms.size()}));
             }, "factors"_a)
        .def("squared_norms",
             [](const DualAscent& self) { return array_of<double, 1>(self.squared_norms(), {self.n_classes()}); })
        .def("rescale",
             [](DualAscent& self, Vector<double> scales, Vector<double> squared_norms) {
                 self.rescale(scales.data(), squared_norms.data());
             }, "scales"_a, "squared_norms"_a)
        .def("change_metric",
             [](DualAscent& self, Matrix<double> P, double t) {
                 if (P.shape(0) != self.n_classes() || P.shape(1) != self.n_classes()) {
                     throw std::invalid_argument("the metric has another shape than (n_classes, n_classes)");
                 }
                 self.change_metric(P.data(), t);
             }, "P"_a, "t"_a)
        .def("duals",
             [](const DualAscent& self) {
                 const SparseDuals duals = self.duals();
                 return nb::make_tuple(array_of<std::int64_t, 1>(duals.starts, {duals.starts.size()}),
                                       array_of<Index, 1>(duals.classes, {duals.classes.size()}),
                                       array_of<double, 1>(duals.values, {duals.values.size()}));
             })
        .def("set_duals",
             [](DualAscent& self, Vector<std::int64_t> starts, Vector<Index> classes, Vector<double> values) {
                 self.set_duals(starts.data(), classes.data(), values.data());
             }, "starts"_a, "classes"_a, "values"_a);
}

}  // namespace polymargin

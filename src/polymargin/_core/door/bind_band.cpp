// Python's door to the loop of the margin distribution machine.
#include "band/band_loop.hpp"
#include "bindings.hpp"
#include "tools.hpp"

using namespace nb::literals;

namespace polymargin {
namespace {

// The arrays are borrowed: the caller keeps them alive (keep_alive below).
BandLoop* open(const RowArrays& X, Vector<Index> y, Vector<double> cost, Size n_classes, double theta, double mu, bool frozen,
               bool waiting, std::uint64_t seed) {
    check_targets(y, cost, X.n_rows(), n_classes);
    LoopSettings settings;
    settings.waiting = waiting;
    settings.seed = seed;
    return new BandLoop(X.with_classes(n_classes), y.data(), cost.data(), Band{theta, mu}, frozen, settings);
}

// One row's exact solution, for the tests: duals a and beta from the scores of its classes. `rival` is the position of
// class r among them, or -1 for a frozen score `g_rival`.
std::tuple<NewVector, double> solved_row(Vector<double> g, Vector<double> a, double beta, double g_target, std::int64_t rival,
                                         double g_rival, double q, double kappa, double theta, double mu) {
    const Size count = g.shape(0);
    check_size(a, count, "a");
    const bool frozen = rival < 0;
    if (!frozen && static_cast<Size>(rival) >= count) throw std::invalid_argument("rival is out of range");
    std::vector<double> g_copy(g.data(), g.data() + count), a_copy(a.data(), a.data() + count);
    std::vector<double> next(count), scratch(count + 1);
    std::vector<Index> classes(count);
    BandRow row{{classes.data(), a_copy.data(), g_copy.data(), next.data(), scratch.data(), count, g_target, false},
                q, kappa, frozen ? Upper::frozen : Upper::linearised, frozen ? count : static_cast<Size>(rival),
                frozen ? g_rival : g_copy[static_cast<Size>(rival)], beta, 0.0};
    Band{theta, mu}.solve(row);
    return {vector_of(next), row.next_beta};
}

}  // namespace

void bind_band(nb::module_& m) {
    nb::class_<BandLoop> door(m, "BandLoop");
    bind_ascent(door);
    bind_state(door, [](const BandLoop& self) { return self.n_labels(); });
    door.def("evaluate",
             [](BandLoop& self, int n_threads) {
                 const BandLoss loss = without_gil([&](const Poll& poll) { return self.evaluate(n_threads, poll); });
                 return std::tuple(loss.stated, loss.relaxed);
             }, "n_threads"_a)
        .def("relinearise",
             [](BandLoop& self, bool gently) { without_gil([&](const Poll& poll) { self.relinearise(gently, poll); }); },
             "gently"_a = false)
        .def_prop_ro("concave_part", &BandLoop::concave_part)
        .def("scaled",
             [](BandLoop& self, Matrix<double> factors) {
                 check_shape(factors, self.state().n_classes(), self.state().n_classes(), "factors");
                 const auto out = without_gil([&](const Poll& poll) { return self.scaled(factors.data(), poll); });
                 return std::tuple(out.linear, out.quadratic);
             }, "factors"_a)
        .def("newton_pass",
             [](BandLoop& self, Matrix<double> W, Vector<double> b, double damping) {
                 const Size d = self.state().rows.n_features(), c = self.state().n_classes();
                 check_shape(W, d, c, "W");
                 check_size(b, c, "b");
                 const NewtonPass out =
                     without_gil([&](const Poll& poll) { return self.newton_pass(W.data(), b.data(), damping, poll); });
                 return std::tuple(out.smooth, out.stated, out.relaxed, out.concave, matrix_of(out.pull, d, c),
                                   vector_of(out.sums));
             }, "W"_a, "b"_a, "damping"_a)
        .def("newton_product",
             [](BandLoop& self, Matrix<double> P, Vector<double> p) {
                 const Size d = self.state().rows.n_features(), c = self.state().n_classes();
                 check_shape(P, d, c, "P");
                 check_size(p, c, "p");
                 const auto [product, sums] =
                     without_gil([&](const Poll& poll) { return self.newton().product(P.data(), p.data(), poll); });
                 return std::tuple(matrix_of(product, d, c), vector_of(sums));
             }, "P"_a, "p"_a)
        .def("newton_matrix",
             [](BandLoop& self) {
                 const auto out = without_gil([&](const Poll& poll) { return self.newton().matrix(poll); });
                 const Size size = self.state().n_classes() * (self.state().rows.n_features() + 1);
                 return matrix_of(out, size, size);
             })
        .def("newton_curvature", [](BandLoop& self) { return vector_of(self.newton().curvature()); })
        .def("accept_newton", &BandLoop::accept_newton, nb::call_guard<nb::gil_scoped_release>());

    m.def("band_loop", &open, "rows"_a, "y"_a.noconvert(), "cost"_a.noconvert(), "n_classes"_a, "theta"_a, "mu"_a, "frozen"_a,
          "waiting"_a, "seed"_a, nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>());
    m.def("solve_band_row", &solved_row, "g"_a, "a"_a, "beta"_a, "g_target"_a, "rival"_a, "g_rival"_a, "q"_a, "kappa"_a,
          "theta"_a, "mu"_a);
}

}  // namespace polymargin

// Python's door to the loop of the margin distribution machine.
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "binding_tools.hpp"
#include "bindings.hpp"
#include "dual_ascent.hpp"
#include "margin_distribution_loop.hpp"

using namespace nb::literals;

namespace polymargin {
namespace {

// One door for all storages.
class MarginDistribution {
public:
    virtual ~MarginDistribution() = default;
    virtual void ascend(std::int64_t max_visits, double tol, const Poll& poll) = 0;
    virtual void restore() = 0;
    virtual BandLoss evaluate(int n_threads, const Poll& poll) = 0;
    virtual void relinearise(bool gently, const Poll& poll) = 0;
    virtual const Progress& progress() const = 0;
    virtual double dual() const = 0;
    virtual double concave_part() const = 0;
    virtual double squared_norm() const = 0;
    virtual std::vector<double> weights() const = 0;  // (d, c)
    virtual std::vector<double> intercepts() const = 0;
    virtual void start_intercept(const double* means, double inverse_rho) = 0;
    virtual std::vector<double> sums() const = 0;
    virtual std::vector<double> centre() const = 0;
    virtual void move_centre(const double* to) = 0;
    virtual std::vector<double> flows() const = 0;
    virtual std::tuple<double, double> scaled(const double* factors, const Poll& poll) = 0;
    virtual SparseDuals duals() const = 0;
    virtual void set_duals(const std::int64_t* starts, const Index* classes, const double* values) = 0;
    virtual NewtonPass newton_pass(const double* W, const double* b, double damping, const Poll& poll) = 0;
    virtual std::pair<std::vector<double>, std::vector<double>> newton_product(const double* P, const double* p,
                                                                               const Poll& poll) = 0;
    virtual std::vector<double> newton_matrix(const Poll& poll) = 0;
    virtual std::vector<double> newton_curvature() = 0;
    virtual void accept_newton() = 0;
    virtual Size n_features() const = 0;
    virtual Size n_classes() const = 0;
};

template <class Rows>
class MarginDistributionOf final : public MarginDistribution {
public:
    MarginDistributionOf(Rows rows, const Index* y, const double* cost, Band band, bool frozen, LoopSettings settings)
        : loop_(rows, y, cost, band, frozen, settings) {}

    void ascend(std::int64_t max_visits, double tol, const Poll& poll) override { loop_.ascend(max_visits, tol, poll); }
    void restore() override { loop_.restore(); }
    BandLoss evaluate(int n_threads, const Poll& poll) override { return loop_.evaluate(n_threads, poll); }
    void relinearise(bool gently, const Poll& poll) override { loop_.relinearise(gently, poll); }
    const Progress& progress() const override { return loop_.progress(); }
    double dual() const override { return state().dual; }
    double concave_part() const override { return loop_.concave_part(); }
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
    std::vector<double> sums() const override { return state().weights.sums(); }
    std::vector<double> centre() const override { return state().weights.centre(); }
    void move_centre(const double* to) override {
        for (Size k = 0; k < n_classes(); ++k) loop_.state().weights.centre()[k] = to[k];
        loop_.refresh_dual();
    }
    std::vector<double> flows() const override { return loop_.flows(); }
    std::tuple<double, double> scaled(const double* factors, const Poll& poll) override {
        const auto out = loop_.scaled(factors, poll);
        return {out.linear, out.quadratic};
    }

    SparseDuals duals() const override {
        SparseDuals out;
        out.starts.push_back(0);
        for (Size i = 0; i < state().n_rows(); ++i) {
            loop_.signed_row(i, [&](Index label, double value) {
                out.classes.push_back(label);
                out.values.push_back(value);
            });
            out.starts.push_back(static_cast<std::int64_t>(out.classes.size()));
        }
        return out;
    }
    void set_duals(const std::int64_t* starts, const Index* classes, const double* values) override {
        loop_.start_upper_parts();
        for (Size i = 0; i < state().n_rows(); ++i) {
            loop_.set_row(i, classes + starts[i], values + starts[i], static_cast<Size>(starts[i + 1] - starts[i]));
        }
        loop_.refresh_dual();
    }
    NewtonPass newton_pass(const double* W, const double* b, double damping, const Poll& poll) override {
        return loop_.newton_pass(W, b, damping, poll);
    }
    std::pair<std::vector<double>, std::vector<double>> newton_product(const double* P, const double* p,
                                                                       const Poll& poll) override {
        return loop_.newton().product(P, p, poll);
    }
    std::vector<double> newton_matrix(const Poll& poll) override { return loop_.newton().matrix(poll); }
    std::vector<double> newton_curvature() override { return loop_.newton().curvature(); }
    void accept_newton() override { loop_.accept_newton(); }

private:
    const DualState<Rows>& state() const { return loop_.state(); }

    MarginDistributionLoop<Rows> loop_;
};

template <class Rows>
MarginDistribution* open(Rows rows, const Vector<Index>& y, const Vector<double>& cost, double theta, double mu, bool frozen,
                         bool waiting, std::uint64_t seed) {
    LoopSettings settings;
    settings.waiting = waiting;
    settings.seed = seed;
    return new MarginDistributionOf<Rows>(rows, y.data(), cost.data(), Band{theta, mu}, frozen, settings);
}

template <class T>
void bind_dense(nb::module_& m) {
    m.def(
        "dense_margin_distribution",
        [](Matrix<T> X, Vector<Index> y, Vector<double> cost, Size n_classes, double theta, double mu, bool frozen,
           bool waiting, std::uint64_t seed) {
            return open(DenseRows<T>(X.data(), X.shape(0), X.shape(1), n_classes), y, cost, theta, mu, frozen, waiting, seed);
        },
        "X"_a.noconvert(), "y"_a.noconvert(), "cost"_a.noconvert(), "n_classes"_a, "theta"_a, "mu"_a, "frozen"_a, "waiting"_a,
        "seed"_a, nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>());
}

template <class T, class I>
void bind_csr(nb::module_& m) {
    m.def(
        "csr_margin_distribution",
        [](Vector<T> data, Vector<I> indices, Vector<I> indptr, Size n_features, Vector<Index> y, Vector<double> cost,
           Size n_classes, double theta, double mu, bool frozen, bool waiting, std::uint64_t seed) {
            const CsrRows<T, I> rows(data.data(), indices.data(), indptr.data(), indptr.shape(0) - 1, n_features, n_classes);
            return open(rows, y, cost, theta, mu, frozen, waiting, seed);
        },
        "data"_a.noconvert(), "indices"_a.noconvert(), "indptr"_a.noconvert(), "n_features"_a, "y"_a.noconvert(),
        "cost"_a.noconvert(), "n_classes"_a, "theta"_a, "mu"_a, "frozen"_a, "waiting"_a, "seed"_a, nb::keep_alive<0, 1>(),
        nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>(), nb::keep_alive<0, 5>(), nb::keep_alive<0, 6>());
}

// One row's exact solution, for the tests: duals a and beta from the scores of its classes. `rival` is the position of
// class r among them, or -1 for a frozen score `g_rival`.
std::tuple<std::vector<double>, double> solved_row(Vector<double> g, Vector<double> a, double beta, double g_target,
                                                   std::int64_t rival, double g_rival, double q, double kappa, Band band) {
    const Size count = g.shape(0);
    std::vector<double> g_copy(g.data(), g.data() + count), a_copy(a.data(), a.data() + count);
    std::vector<double> next(count), scratch(count);
    std::vector<Index> classes(count);
    const bool frozen = rival < 0;
    BandRow row{classes.data(), a_copy.data(), g_copy.data(), next.data(), scratch.data(), count, g_target, q, kappa,
                frozen ? Upper::frozen : Upper::linearised, frozen ? count : static_cast<Size>(rival),
                frozen ? g_rival : g_copy[static_cast<Size>(rival)], beta, 0.0, false};
    BandProblem(band).solve(row);
    return {next, row.next_beta};
}

}  // namespace

void bind_margin_distribution(nb::module_& m) {
    bind_dense<double>(m);
    bind_dense<float>(m);
    bind_csr<double, std::int32_t>(m);
    bind_csr<double, std::int64_t>(m);
    bind_csr<float, std::int32_t>(m);
    bind_csr<float, std::int64_t>(m);

    m.def("solve_band_row",
          [](Vector<double> g, Vector<double> a, double beta, double g_target, std::int64_t rival, double g_rival, double q,
             double kappa, double theta, double mu) {
              const auto [next, next_beta] = solved_row(g, a, beta, g_target, rival, g_rival, q, kappa, Band{theta, mu});
              return nb::make_tuple(array_of<double, 1>(next, {g.shape(0)}), next_beta);
          }, "g"_a, "a"_a, "beta"_a, "g_target"_a, "rival"_a, "g_rival"_a, "q"_a, "kappa"_a, "theta"_a, "mu"_a);

    using Loop = MarginDistribution;
    nb::class_<Loop>(m, "MarginDistribution")
        .def("ascend",
             [](Loop& self, std::int64_t max_visits, double tol) {
                 without_gil([&](const Poll& poll) { self.ascend(max_visits, tol, poll); });
             }, "max_visits"_a, "tol"_a)
        .def("evaluate",
             [](Loop& self, int n_threads) {
                 const BandLoss loss = without_gil([&](const Poll& poll) { return self.evaluate(n_threads, poll); });
                 return std::make_tuple(loss.stated, loss.relaxed);
             }, "n_threads"_a)
        .def("relinearise",
             [](Loop& self, bool gently) { without_gil([&](const Poll& poll) { self.relinearise(gently, poll); }); },
             "gently"_a = false)
        .def("restore", &Loop::restore, nb::call_guard<nb::gil_scoped_release>())
        .def_prop_ro("estimate", [](const Loop& self) { return self.progress().estimate; })
        .def_prop_ro("visits", [](const Loop& self) { return self.progress().visits; })
        .def_prop_ro("dual", &Loop::dual)
        .def_prop_ro("concave_part", &Loop::concave_part)
        .def_prop_ro("squared_norm", &Loop::squared_norm)
        .def("weights",
             [](const Loop& self) { return array_of<double, 2>(self.weights(), {self.n_features(), self.n_classes()}); })
        .def("intercepts", [](const Loop& self) { return array_of<double, 1>(self.intercepts(), {self.n_classes()}); })
        .def("start_intercept",
             [](Loop& self, Vector<double> means, double inverse_rho) { self.start_intercept(means.data(), inverse_rho); },
             "means"_a, "inverse_rho"_a)
        .def("sums", [](const Loop& self) { return array_of<double, 1>(self.sums(), {self.n_classes()}); })
        .def("centre", [](const Loop& self) { return array_of<double, 1>(self.centre(), {self.n_classes()}); })
        .def("move_centre", [](Loop& self, Vector<double> to) { self.move_centre(to.data()); }, "to"_a)
        .def("flows",
             [](const Loop& self) { return array_of<double, 2>(self.flows(), {self.n_classes(), self.n_classes()}); })
        .def("scaled",
             [](Loop& self, Matrix<double> factors) {
                 return without_gil([&](const Poll& poll) { return self.scaled(factors.data(), poll); });
             }, "factors"_a)
        .def("duals",
             [](const Loop& self) {
                 const SparseDuals duals = self.duals();
                 return nb::make_tuple(array_of<std::int64_t, 1>(duals.starts, {duals.starts.size()}),
                                       array_of<Index, 1>(duals.classes, {duals.classes.size()}),
                                       array_of<double, 1>(duals.values, {duals.values.size()}));
             })
        .def("set_duals",
             [](Loop& self, Vector<std::int64_t> starts, Vector<Index> classes, Vector<double> values) {
                 self.set_duals(starts.data(), classes.data(), values.data());
             }, "starts"_a, "classes"_a, "values"_a)
        .def("newton_pass",
             [](Loop& self, Matrix<double> W, Vector<double> b, double damping) {
                 const NewtonPass out =
                     without_gil([&](const Poll& poll) { return self.newton_pass(W.data(), b.data(), damping, poll); });
                 return nb::make_tuple(out.smooth, out.stated, out.relaxed, out.concave,
                                       array_of<double, 2>(out.pull, {self.n_features(), self.n_classes()}),
                                       array_of<double, 1>(out.sums, {self.n_classes()}));
             }, "W"_a, "b"_a, "damping"_a)
        .def("newton_product",
             [](Loop& self, Matrix<double> P, Vector<double> p) {
                 const auto [product, sums] =
                     without_gil([&](const Poll& poll) { return self.newton_product(P.data(), p.data(), poll); });
                 return nb::make_tuple(array_of<double, 2>(product, {self.n_features(), self.n_classes()}),
                                       array_of<double, 1>(sums, {self.n_classes()}));
             }, "P"_a, "p"_a)
        .def("newton_matrix",
             [](Loop& self) {
                 const auto out = without_gil([&](const Poll& poll) { return self.newton_matrix(poll); });
                 const Size size = self.n_classes() * (self.n_features() + 1);
                 return array_of<double, 2>(out, {size, size});
             })
        .def("newton_curvature", [](Loop& self) { return array_of<double, 1>(self.newton_curvature(), {self.n_classes()}); })
        .def("accept_newton", &Loop::accept_newton, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace polymargin

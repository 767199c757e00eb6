// Python's door to the loops: arrays in, arrays out, and nothing else.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>

#include "dual_loop.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace polymargin {
namespace {

template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// A NumPy array that owns a copy of `values`.
template <class T, int N>
auto array_of(const std::vector<T>& values, std::initializer_list<Size> shape) {
    auto copy = std::make_unique<T[]>(values.size());
    std::copy(values.begin(), values.end(), copy.get());
    T* data = copy.release();
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return nb::ndarray<nb::numpy, T, nb::ndim<N>>(data, shape, owner);
}

// Lets Python handle signals every 20 ms; a pending KeyboardInterrupt leaves the loop as an exception.
class SignalPoll {
public:
    void operator()() {
        const auto now = std::chrono::steady_clock::now();
        if (now - last_ < std::chrono::milliseconds(20)) return;
        last_ = now;
        nb::gil_scoped_acquire gil;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }

private:
    std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

struct SparseDuals {
    std::vector<std::int64_t> starts;
    std::vector<Index> classes;
    std::vector<double> values;
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
    virtual const std::vector<double>& sums() const = 0;
    virtual const std::vector<double>& centre() const = 0;
    virtual void move_centre(const double* to) = 0;
    virtual std::vector<double> flows() const = 0;
    virtual std::tuple<double, double, double> scaled(const double* factors, const Poll& poll) const = 0;
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

    std::vector<double> weights() const override {
        std::vector<double> out(n_features() * n_classes());
        for (Size j = 0, at = 0; j < n_features(); ++j) {
            for (Size k = 0; k < n_classes(); ++k) out[at++] = state().weights.weight(j, k);
        }
        return out;
    }
    std::vector<double> intercepts() const override {
        std::vector<double> out(n_classes());
        for (Size k = 0; k < n_classes(); ++k) out[k] = state().weights.intercept(k);
        return out;
    }

    void start_intercept(const double* means, double inverse_rho) override {
        loop_.state().start_intercept(means, inverse_rho);
    }
    const std::vector<double>& sums() const override { return state().weights.sums(); }
    const std::vector<double>& centre() const override { return state().weights.centre(); }
    void move_centre(const double* to) override { loop_.state().move_centre(to); }
    std::vector<double> flows() const override { return state().flows(); }
    std::tuple<double, double, double> scaled(const double* factors, const Poll& poll) const override {
        const auto out = state().template scaled<Problem>(factors, poll);
        return {out.room, out.sum, out.squared_norm};
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

template <class Rows>
DualAscent* make(const std::string& problem, Rows rows, Vector<Index> y, Vector<double> cost, bool waiting,
                 std::uint64_t seed) {
    LoopSettings settings;
    settings.waiting = waiting;
    settings.seed = seed;
    if (problem == "crammer_singer") return new DualAscentOf<Rows, CrammerSinger>(rows, y.data(), cost.data(), settings);
    if (problem == "weston_watkins") return new DualAscentOf<Rows, WestonWatkins>(rows, y.data(), cost.data(), settings);
    throw std::invalid_argument("unknown row problem '" + problem + "'");
}

// The arrays are borrowed: the caller keeps them alive (keep_alive below).
template <class T>
DualAscent* dense(const std::string& problem, Matrix<T> X, Vector<Index> y, Vector<double> cost, Size n_classes,
                  bool waiting, std::uint64_t seed) {
    return make(problem, DenseRows<T>(X.data(), X.shape(0), X.shape(1), n_classes), y, cost, waiting, seed);
}

template <class T, class I>
DualAscent* csr(const std::string& problem, Vector<T> data, Vector<I> indices, Vector<I> indptr, Size n_features,
                Vector<Index> y, Vector<double> cost, Size n_classes, bool waiting, std::uint64_t seed) {
    const CsrRows<T, I> rows(data.data(), indices.data(), indptr.data(), indptr.shape(0) - 1, n_features, n_classes);
    return make(problem, rows, y, cost, waiting, seed);
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

template <class Work>
auto without_gil(Work work) {
    nb::gil_scoped_release release;
    SignalPoll poll;
    return work(std::ref(poll));
}

}  // namespace
}  // namespace polymargin

NB_MODULE(PM_MODULE, m) {
    using namespace polymargin;
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
    m.def("supports_v3", [] {
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
        __builtin_cpu_init();
        return static_cast<bool>(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                                 __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2"));
#else
        return false;
#endif
    });

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

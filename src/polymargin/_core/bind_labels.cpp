// Python's door to the loop over pairs of rows and labels.
#include <cstdint>
#include <vector>

#include "binding_tools.hpp"
#include "bindings.hpp"
#include "label_loop.hpp"

using namespace nb::literals;

namespace polymargin {
namespace {

// One door for all storages.
class LabelAscent {
public:
    virtual ~LabelAscent() = default;
    virtual void ascend(std::int64_t max_visits, double tol, const Poll& poll) = 0;
    virtual void restore() = 0;
    virtual double loss(int n_threads, const Poll& poll) const = 0;
    virtual void set_duals(const double* a, const Poll& poll) = 0;
    virtual void move_centre(const double* to) = 0;
    virtual std::vector<double> centre() const = 0;
    virtual std::vector<double> next_centre() const = 0;
    virtual std::vector<double> weights() const = 0;  // (d, c)
    virtual std::vector<double> offsets() const = 0;
    virtual const std::vector<double>& duals() const = 0;
    virtual double dual() const = 0;
    virtual const LabelProgress& progress() const = 0;
    virtual Size n_features() const = 0;
    virtual Size n_labels() const = 0;
};

template <class Rows>
class LabelAscentOf final : public LabelAscent {
public:
    template <class... Arguments>
    explicit LabelAscentOf(Arguments... arguments) : loop_(arguments...) {}

    void ascend(std::int64_t max_visits, double tol, const Poll& poll) override { loop_.ascend(max_visits, tol, poll); }
    void restore() override { loop_.restore(); }
    double loss(int n_threads, const Poll& poll) const override { return loop_.loss(n_threads, poll); }
    void set_duals(const double* a, const Poll& poll) override { loop_.set_duals(a, poll); }
    void move_centre(const double* to) override { loop_.move_centre(to); }
    std::vector<double> centre() const override { return loop_.centre(); }
    std::vector<double> next_centre() const override { return loop_.next_centre(); }
    std::vector<double> weights() const override {
        std::vector<double> out(n_features() * n_labels());
        for (Size j = 0, at = 0; j < n_features(); ++j) {
            for (Size k = 0; k < n_labels(); ++k) out[at++] = loop_.weight(j, k);
        }
        return out;
    }
    std::vector<double> offsets() const override {
        std::vector<double> out(n_labels());
        for (Size k = 0; k < n_labels(); ++k) out[k] = loop_.offset(k);
        return out;
    }
    const std::vector<double>& duals() const override { return loop_.duals(); }
    double dual() const override { return loop_.dual(); }
    const LabelProgress& progress() const override { return loop_.progress(); }
    Size n_features() const override { return loop_.n_features(); }
    Size n_labels() const override { return loop_.n_labels(); }

private:
    LabelLoop<Rows> loop_;
};

// Everything but the rows; the arrays are borrowed (keep_alive below).
struct LabelArrays {
    Vector<std::int64_t> starts;
    Vector<Index> labels;
    Vector<double> signs, costs, means;
    double scale, common, slack, inverse_rho;
    Size n_labels;
    std::uint64_t seed;

    template <class Rows>
    LabelAscent* open(const Rows& rows) const {
        const LabelPairs pairs{starts.data(), labels.data(), signs.data(), costs.data()};
        return new LabelAscentOf<Rows>(rows, pairs, LabelCoupling{scale, common, slack}, means.data(), inverse_rho, seed);
    }
};

template <class T>
void bind_dense(nb::module_& m) {
    m.def("open_labels", [](Matrix<T> X, const LabelArrays& labels) {
        return labels.open(DenseRows<T>(X.data(), X.shape(0), X.shape(1), labels.n_labels + 1));
    }, "X"_a.noconvert(), "labels"_a, nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>());
}

template <class T, class I>
void bind_csr(nb::module_& m) {
    m.def("open_labels", [](Vector<T> data, Vector<I> indices, Vector<I> indptr, Size n_features, const LabelArrays& labels) {
        return labels.open(CsrRows<T, I>(data.data(), indices.data(), indptr.data(), indptr.shape(0) - 1, n_features,
                                         labels.n_labels + 1));
    }, "data"_a.noconvert(), "indices"_a.noconvert(), "indptr"_a.noconvert(), "n_features"_a, "labels"_a,
       nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>(), nb::keep_alive<0, 5>());
}

}  // namespace

void bind_labels(nb::module_& m) {
    nb::class_<LabelArrays>(m, "LabelArrays")
        .def("__init__",
             [](LabelArrays* self, Vector<std::int64_t> starts, Vector<Index> labels, Vector<double> signs, Vector<double> costs,
                Vector<double> means, double scale, double common, double slack, double inverse_rho, Size n_labels,
                std::uint64_t seed) {
                 new (self) LabelArrays{starts, labels, signs, costs, means, scale, common, slack, inverse_rho, n_labels, seed};
             },
             "starts"_a.noconvert(), "labels"_a.noconvert(), "signs"_a.noconvert(), "costs"_a.noconvert(),
             "means"_a.noconvert(), nb::kw_only(), "scale"_a, "common"_a, "slack"_a, "inverse_rho"_a, "n_labels"_a, "seed"_a);
    bind_dense<double>(m);
    bind_dense<float>(m);
    bind_csr<double, std::int32_t>(m);
    bind_csr<double, std::int64_t>(m);
    bind_csr<float, std::int32_t>(m);
    bind_csr<float, std::int64_t>(m);

    nb::class_<LabelAscent>(m, "LabelAscent")
        .def("ascend",
             [](LabelAscent& self, std::int64_t max_visits, double tol) {
                 without_gil([&](const Poll& poll) { self.ascend(max_visits, tol, poll); });
             }, "max_visits"_a, "tol"_a)
        .def("loss",
             [](const LabelAscent& self, int n_threads) {
                 return without_gil([&](const Poll& poll) { return self.loss(n_threads, poll); });
             }, "n_threads"_a)
        .def("set_duals",
             [](LabelAscent& self, Vector<double> a) {
                 without_gil([&](const Poll& poll) { self.set_duals(a.data(), poll); });
             }, "a"_a)
        .def("restore", &LabelAscent::restore, nb::call_guard<nb::gil_scoped_release>())
        .def("move_centre", [](LabelAscent& self, Vector<double> to) { self.move_centre(to.data()); }, "to"_a)
        .def("centre", [](const LabelAscent& self) { return array_of<double, 1>(self.centre(), {self.n_labels()}); })
        .def("next_centre",
             [](const LabelAscent& self) { return array_of<double, 1>(self.next_centre(), {self.n_labels()}); })
        .def("weights",
             [](const LabelAscent& self) {
                 return array_of<double, 2>(self.weights(), {self.n_features(), self.n_labels()});
             })
        .def("offsets", [](const LabelAscent& self) { return array_of<double, 1>(self.offsets(), {self.n_labels()}); })
        .def("duals", [](const LabelAscent& self) { return array_of<double, 1>(self.duals(), {self.duals().size()}); })
        .def_prop_ro("dual", &LabelAscent::dual)
        .def_prop_ro("estimate", [](const LabelAscent& self) { return self.progress().estimate; })
        .def_prop_ro("epochs", [](const LabelAscent& self) { return self.progress().epochs; })
        .def_prop_ro("visits", [](const LabelAscent& self) { return self.progress().visits; });
}

}  // namespace polymargin

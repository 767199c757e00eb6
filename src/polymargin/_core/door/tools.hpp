// What all doors to Python share: arrays in and out, checks of their sizes, the GIL, signals, and what all loops are asked.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "machine/dual_state.hpp"
#include "rows/rows.hpp"

namespace nb = nanobind;

namespace polymargin {

template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T, int N>
using Changed = nb::ndarray<T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;  // written to

using Targets = std::optional<Matrix<double>>;  // (c, c), or None

using NewVector = nb::ndarray<nb::numpy, double, nb::ndim<1>>;
using NewMatrix = nb::ndarray<nb::numpy, double, nb::ndim<2>>;

// The rows of X and the arrays they borrow.
class RowArrays {
public:
    template <class T>
    RowArrays(Matrix<T> X, bool wide);
    template <class T>
    RowArrays(Vector<T> data, Vector<Index> indices, Vector<std::int64_t> indptr, Size n_features);

    Size n_rows() const { return n_; }
    Size n_features() const { return d_; }
    Rows with_classes(Size n_classes) const { return make_(n_classes); }

private:
    Size n_, d_;
    std::function<Rows(Size)> make_;  // holds the arrays
};

// A NumPy array that owns what was `values`.
template <class T, int N>
auto array_of(std::vector<T>&& values, std::initializer_list<Size> shape) {
    if (values.empty()) values.reserve(1);  // an array has an address
    auto owned = std::make_unique<std::vector<T>>(std::move(values));
    T* data = owned->data();
    nb::capsule owner(owned.release(), [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::ndarray<nb::numpy, T, nb::ndim<N>>(data, shape, owner);
}

// The same that owns a copy.
template <class T, int N>
auto array_of(const std::vector<T>& values, std::initializer_list<Size> shape) {
    auto copy = std::make_unique<T[]>(values.size());
    std::copy(values.begin(), values.end(), copy.get());
    T* data = copy.release();
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return nb::ndarray<nb::numpy, T, nb::ndim<N>>(data, shape, owner);
}
inline NewVector vector_of(const std::vector<double>& values) { return array_of<double, 1>(values, {values.size()}); }
inline NewMatrix matrix_of(const std::vector<double>& values, Size n, Size m) { return array_of<double, 2>(values, {n, m}); }
inline NewMatrix matrix_of(std::vector<double>&& values, Size n, Size m) {
    return array_of<double, 2>(std::move(values), {n, m});
}

// Errors name the argument.
template <class T>
void check_size(const T& array, Size size, const char* name) {
    if (array.shape(0) != size) {
        throw std::invalid_argument(std::string(name) + " has " + std::to_string(array.shape(0)) + " entries, not " +
                                    std::to_string(size));
    }
}
template <class T>
void check_shape(const T& array, Size n, Size m, const char* name) {
    if (array.shape(0) != n || array.shape(1) != m) {
        throw std::invalid_argument(std::string(name) + " has another shape than (" + std::to_string(n) + ", " +
                                    std::to_string(m) + ")");
    }
}
template <class T>
void check_range(const Vector<T>& array, Size end, const char* name) {  // 0 <= entries < end
    for (Size k = 0; k < array.shape(0); ++k) {
        if (array.data()[k] < 0 || static_cast<Size>(array.data()[k]) >= end) {
            throw std::invalid_argument(std::string(name) + " has an entry out of range");
        }
    }
}

// `starts` cuts `count` entries into n parts; with `spare` some may be left over.
void check_starts(const Vector<std::int64_t>& starts, Size n, Size count, const char* name, bool spare = false);

// One class and one cost a row.
void check_targets(const Vector<Index>& y, const Vector<double>& cost, Size n, Size n_classes);

// Sparse duals of the rows of a loop: each row has a label at most once, and only where the loss has a margin.
void check_duals(const Vector<std::int64_t>& starts, const Vector<Index>& labels, const Vector<double>& values,
                 const DualState& state, Size n_labels);

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

template <class Work>
auto without_gil(Work work) {
    nb::gil_scoped_release release;
    SignalPoll signals;
    const Poll poll = std::ref(signals);
    return work(poll);
}

// What every loop is asked.
template <class Loop>
void bind_ascent(nb::class_<Loop>& door) {
    using namespace nb::literals;
    door.def("ascend",
             [](Loop& self, std::int64_t max_visits, double tol) {
                 without_gil([&](const Poll& poll) { self.ascend(max_visits, tol, poll); });
             }, "max_visits"_a, "tol"_a)
        .def("restore", [](Loop& self) { self.restore(); }, nb::call_guard<nb::gil_scoped_release>())
        .def_prop_ro("estimate", [](const Loop& self) { return self.progress().estimate; })
        .def_prop_ro("epochs", [](const Loop& self) { return self.progress().epochs; })
        .def_prop_ro("visits", [](const Loop& self) { return self.progress().visits; });
}

// What every loop over the duals of rows is asked. Labels of duals are below n_labels(loop).
template <class Loop, class Labels>
void bind_state(nb::class_<Loop>& door, Labels n_labels) {
    using namespace nb::literals;
    door.def_prop_ro("dual", [](const Loop& self) { return self.state().dual; })
        .def_prop_ro("squared_norm", [](const Loop& self) { return self.state().weights.squared_norm(); })
        .def("weights",
             [](const Loop& self) {
                 return matrix_of(self.state().weights.weights(), self.state().rows.n_features(), self.state().n_classes());
             })
        .def("intercepts", [](const Loop& self) { return vector_of(self.state().weights.intercepts()); })
        .def("start_intercept",
             [](Loop& self, Vector<double> means, double inverse_rho) {
                 check_size(means, self.state().rows.n_features(), "means");
                 if (self.state().has_duals()) {
                     throw std::logic_error("start_intercept comes before set_duals and ascend: the loop has duals already");
                 }
                 self.state().start_intercept(means.data(), inverse_rho);
             }, "means"_a, "inverse_rho"_a)
        .def("sums", [](const Loop& self) { return vector_of(self.state().weights.pulls_of_sums()); })
        .def("centre", [](const Loop& self) { return vector_of(self.state().weights.centre()); })
        .def("move_centre",
             [](Loop& self, Vector<double> to) {
                 check_size(to, self.state().n_classes(), "to");
                 self.move_centre(to.data());
             }, "to"_a)
        .def("flows",
             [](const Loop& self) { return matrix_of(self.flows(), self.state().n_classes(), self.state().n_classes()); })
        .def("duals",
             [](const Loop& self) {
                 const SparseDuals duals = self.sparse_duals();
                 return std::tuple(array_of<std::int64_t, 1>(duals.starts, {duals.starts.size()}),
                                   array_of<Index, 1>(duals.classes, {duals.classes.size()}), vector_of(duals.values));
             })
        .def("set_duals",
             [n_labels](Loop& self, Vector<std::int64_t> starts, Vector<Index> classes, Vector<double> values) {
                 check_duals(starts, classes, values, self.state(), n_labels(self));
                 self.set_duals(starts.data(), classes.data(), values.data());
             }, "starts"_a, "classes"_a, "values"_a);
}

}  // namespace polymargin

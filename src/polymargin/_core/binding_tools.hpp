// What all doors to Python share: arrays in, arrays out, the GIL, signals.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <initializer_list>
#include <memory>
#include <vector>

#include "rows.hpp"

namespace nb = nanobind;

namespace polymargin {

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

template <class Work>
auto without_gil(Work work) {
    nb::gil_scoped_release release;
    SignalPoll poll;
    return work(std::ref(poll));
}

}  // namespace polymargin

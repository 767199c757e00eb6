// Python's door to the working sets of the kernel dual: arrays in, changed in place.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "binding_tools.hpp"
#include "bindings.hpp"
#include "kernel_loop.hpp"

using namespace nb::literals;

namespace polymargin {
namespace {

template <class T, int N>
using Changed = nb::ndarray<T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;

KernelData data_of(const float* K, Changed<double, 2>& S, Changed<double, 2>& a, Vector<Index>& y, Vector<double>& cost,
                   Changed<double, 1>& b, double* sums, double inverse_rho) {
    const Size c = S.shape(0), m = S.shape(1);
    if (a.shape(0) != m || a.shape(1) != c || y.shape(0) != m || cost.shape(0) != m || b.shape(0) != c) {
        throw std::invalid_argument("arrays of the kernel dual have shapes that do not belong together");
    }
    return {m, c, K, S.data(), a.data(), y.data(), cost.data(), b.data(), sums, inverse_rho};
}

// Calls `work` with a value of the row problem's type.
template <class Work>
auto with_problem(const std::string& name, Work work) {
    if (name == "crammer_singer") return work(CrammerSinger());
    if (name == "weston_watkins") return work(WestonWatkins());
    throw std::invalid_argument("unknown row problem '" + name + "'");
}

std::pair<std::int64_t, double> ascend(const std::string& name, Matrix<float> K, Changed<double, 2> S, Changed<double, 2> a,
                                       Vector<Index> y, Vector<double> cost, Changed<double, 1> b, Changed<double, 1> sums,
                                       double inverse_rho, double goal, std::int64_t max_visits, std::uint64_t seed) {
    const KernelData data = data_of(K.data(), S, a, y, cost, b, sums.data(), inverse_rho);
    if (sums.shape(0) != data.c) throw std::invalid_argument("one sum a class");
    if (K.shape(0) != data.m || K.shape(1) != data.m) throw std::invalid_argument("K must be of shape (m, m)");
    return with_problem(name, [&](auto problem) {
        KernelLoop<decltype(problem)> loop(data, seed);
        const auto done = without_gil([&](auto poll) { return loop.ascend(goal, max_visits, poll); });
        return std::pair(done.visits, done.gap);
    });
}

double gaps(const std::string& name, Changed<double, 2> S, Changed<double, 2> a, Vector<Index> y, Vector<double> cost,
            Changed<double, 1> b, Changed<double, 1> out) {
    const KernelData data = data_of(nullptr, S, a, y, cost, b, nullptr, 0.0);
    if (out.shape(0) != data.m) throw std::invalid_argument("one gap a row");
    return with_problem(name, [&](auto problem) {
        return without_gil([&](auto poll) { return kernel_gaps<decltype(problem)>(data, out.data(), poll); });
    });
}

// The largest t <= 1 for which t * a_i stays in the polytope of every row.
double room(const std::string& name, Matrix<double> a, Vector<double> cost) {
    if (cost.shape(0) != a.shape(0)) throw std::invalid_argument("one cost a row");
    return with_problem(name, [&](auto problem) {
        double least = 1.0;
        for (Size i = 0; i < a.shape(0); ++i) {
            const double* row = a.data() + i * a.shape(1);
            least = std::min(least, decltype(problem)::room(row, a.shape(1), cost.data()[i]));
        }
        return least;
    });
}

// out = rows[numbers][:, columns] in single precision
template <class T>
void gather(Matrix<T> rows, Vector<std::int64_t> numbers, Vector<std::int64_t> columns, Changed<float, 2> out) {
    const Size m = numbers.shape(0), k = columns.shape(0), width = rows.shape(1);
    if (out.shape(0) != m || out.shape(1) != k) throw std::invalid_argument("out must have a place for every value");
    for (Size i = 0; i < m; ++i) {
        const T* from = rows.data() + static_cast<Size>(numbers.data()[i]) * width;
        float* to = out.data() + i * k;
        for (Size j = 0; j < k; ++j) to[j] = static_cast<float>(from[columns.data()[j]]);
    }
}

template <class T>
void bind_gather(nb::module_& m) {
    m.def("gather", &gather<T>, "rows"_a.noconvert(), "numbers"_a.noconvert(), "columns"_a.noconvert(),
          "out"_a.noconvert(), nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace

void bind_kernel(nb::module_& m) {
    bind_gather<double>(m);
    bind_gather<float>(m);
    m.def("kernel_ascend", &ascend, "problem"_a, "K"_a.noconvert(), "S"_a.noconvert(), "a"_a.noconvert(),
          "y"_a.noconvert(), "cost"_a.noconvert(), "b"_a.noconvert(), "sums"_a.noconvert(), "inverse_rho"_a, "goal"_a,
          "max_visits"_a, "seed"_a);
    m.def("kernel_room", &room, "problem"_a, "a"_a.noconvert(), "cost"_a.noconvert());
    m.def("kernel_gaps", &gaps, "problem"_a, "S"_a.noconvert(), "a"_a.noconvert(), "y"_a.noconvert(),
          "cost"_a.noconvert(), "b"_a.noconvert(), "out"_a.noconvert());
}

}  // namespace polymargin

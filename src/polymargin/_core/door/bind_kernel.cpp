// Python's door to the working sets of the kernel dual: arrays in, changed in place.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <numeric>
#include <optional>
#include <utility>

#include "kernel/kernel_loop.hpp"
#include "catalogue/any_domain.hpp"
#include "bindings.hpp"
#include "tools.hpp"

using namespace nb::literals;

namespace polymargin {
namespace {

using MaybeVector = std::optional<Vector<double>>;

KernelData data_of(const float* K, Changed<double, 2>& S, Changed<double, 2>& a, Vector<Index>& y, Vector<double>& cost,
                   Changed<double, 1>& b, double* sums, double inverse_rho, const Targets& targets) {
    const Size c = S.shape(0), m = S.shape(1);
    if (a.shape(0) != m || a.shape(1) != c || y.shape(0) != m || cost.shape(0) != m || b.shape(0) != c) {
        throw std::invalid_argument("arrays of the kernel dual have shapes that do not belong together");
    }
    check_range(y, c, "y");
    if (targets) check_shape(*targets, c, c, "targets");
    const double* const wanted = targets ? targets->data() : nullptr;
    return {m, c, K, S.data(), nullptr, a.data(), y.data(), cost.data(), b.data(), sums, inverse_rho, 0.0, {}, wanted};
}

// The scores of sums S of kernel values.
std::vector<double> mixed(const KernelMetric& metric, const double* S, Size c, Size m) {
    std::vector<double> scores(c * m, 0.0);
    for (Size l = 0; l < c; ++l) {
        double* to = scores.data() + l * m;
        for (Size k = 0; k < c; ++k) {
            const double times = metric.mixing ? metric.mixing[k * c + l] : k == l ? metric.scale(k) : 0.0;
            if (times == 0.0) continue;
            for (Size j = 0; j < m; ++j) to[j] += times * S[k * m + j];
        }
    }
    return scores;
}

std::pair<std::int64_t, double> ascend(const std::string& domain, Matrix<float> K, Changed<double, 2> S, Changed<double, 2> a,
                                       Vector<Index> y, Vector<double> cost, Changed<double, 1> b, Changed<double, 1> sums,
                                       double inverse_rho, double goal, std::int64_t max_visits, std::uint64_t seed,
                                       const Parameters& parameters, const Targets& targets, double ridge,
                                       const MaybeVector& scales, const Targets& mixing) {
    KernelData data = data_of(K.data(), S, a, y, cost, b, sums.data(), inverse_rho, targets);
    check_size(sums, data.c, "sums");
    if (scales) check_size(*scales, data.c, "scales");
    if (mixing) check_shape(*mixing, data.c, data.c, "mixing");
    if (mixing && !scales) throw std::invalid_argument("mixing needs scales that bound it");
    data.ridge = ridge;
    data.metric = {mixing ? mixing->data() : nullptr, scales ? scales->data() : nullptr};
    std::vector<double> scores;
    if (!data.metric.is_identity()) {
        scores = mixed(data.metric, S.data(), data.c, data.m);
        data.Z = std::exchange(data.S, scores.data());
    }
    if (K.shape(0) != data.m || K.shape(1) != data.m) throw std::invalid_argument("K must be of shape (m, m)");
    const auto rows = domain_kind(domain).make(parameters, data.c)->kernel_rows(data.c);
    KernelLoop loop(*rows, data, seed);
    const auto done = without_gil([&](const Poll& poll) { return loop.ascend(goal, max_visits, poll); });
    return {done.visits, done.gap};
}

double gaps(const std::string& domain, Changed<double, 2> S, Changed<double, 2> a, Vector<Index> y, Vector<double> cost,
            Changed<double, 1> b, Changed<double, 1> out, const Parameters& parameters, const Targets& targets) {
    const KernelData data = data_of(nullptr, S, a, y, cost, b, nullptr, 0.0, targets);
    check_size(out, data.m, "out");
    const auto rows = domain_kind(domain).make(parameters, data.c)->kernel_rows(data.c);
    return without_gil([&](const Poll& poll) { return rows->gaps(data, out.data(), poll); });
}

// The largest t <= 1 for which t * a_i stays in the domain of every row.
double room(const std::string& domain, Matrix<double> a, Vector<double> cost, const Parameters& parameters) {
    check_size(cost, a.shape(0), "cost");
    const Size n = a.shape(0), c = a.shape(1);
    const auto made = domain_kind(domain).make(parameters, c);
    double least = 1.0;
    std::vector<Index> classes(c);
    std::iota(classes.begin(), classes.end(), Index{0});
    for (Size i = 0; i < n; ++i) {
        least = std::min(least, made->room({classes.data(), a.data() + i * c, c, static_cast<Index>(c), cost.data()[i]}));
    }
    return least;
}

// out = rows[numbers][:, columns] in single precision
template <class T>
void gather(Matrix<T> rows, Vector<std::int64_t> numbers, Vector<std::int64_t> columns, Changed<float, 2> out) {
    const Size m = numbers.shape(0), k = columns.shape(0), width = rows.shape(1);
    check_shape(out, m, k, "out");
    check_range(numbers, rows.shape(0), "numbers");
    check_range(columns, width, "columns");
    for (Size i = 0; i < m; ++i) {
        const T* from = rows.data() + static_cast<Size>(numbers.data()[i]) * width;
        float* to = out.data() + i * k;
        for (Size j = 0; j < k; ++j) to[j] = static_cast<float>(from[columns.data()[j]]);
    }
}

// S += T' rows[numbers], class by class: most of T is 0
template <class T>
void add_rows(Matrix<T> rows, Vector<std::int64_t> numbers, Matrix<double> steps, Changed<double, 2> S) {
    const Size m = numbers.shape(0), c = S.shape(0), width = rows.shape(1);
    check_shape(steps, m, c, "steps");
    check_shape(S, c, width, "S");
    check_range(numbers, rows.shape(0), "numbers");
    without_gil([&](const Poll& poll) {
        Carry<T> carry(c);
        for (Size i = 0; i < m; ++i) {
            carry.open_row(rows.data() + static_cast<Size>(numbers.data()[i]) * width);
            for (Size k = 0; k < c; ++k) {
                if (steps.data()[i * c + k] != 0.0) carry.add(k, static_cast<T>(steps.data()[i * c + k]));
            }
        }
        carry.run(width, poll, [&](Size k, Size start, Size count, const T* sums) {
            double* to = S.data() + k * width + start;
            for (Size j = 0; j < count; ++j) to[j] += static_cast<double>(sums[j]);
        });
        return 0;
    });
}

template <class T>
void bind_rows_of(nb::module_& m) {
    m.def("add_rows", &add_rows<T>, "rows"_a.noconvert(), "numbers"_a.noconvert(), "steps"_a.noconvert(), "S"_a.noconvert());
    m.def("gather", &gather<T>, "rows"_a.noconvert(), "numbers"_a.noconvert(), "columns"_a.noconvert(),
          "out"_a.noconvert(), nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace

void bind_kernel(nb::module_& m) {
    bind_rows_of<double>(m);
    bind_rows_of<float>(m);
    m.def("kernel_ascend", &ascend, "domain"_a, "K"_a.noconvert(), "S"_a.noconvert(), "a"_a.noconvert(),
          "y"_a.noconvert(), "cost"_a.noconvert(), "b"_a.noconvert(), "sums"_a.noconvert(), "inverse_rho"_a, "goal"_a,
          "max_visits"_a, "seed"_a, "parameters"_a = Parameters(), "targets"_a = nb::none(), "ridge"_a = 0.0,
          "scales"_a = nb::none(), "mixing"_a = nb::none());
    m.def("kernel_room", &room, "domain"_a, "a"_a.noconvert(), "cost"_a.noconvert(), "parameters"_a = Parameters());
    m.def("kernel_gaps", &gaps, "domain"_a, "S"_a.noconvert(), "a"_a.noconvert(), "y"_a.noconvert(),
          "cost"_a.noconvert(), "b"_a.noconvert(), "out"_a.noconvert(), "parameters"_a = Parameters(), "targets"_a = nb::none());
}

}  // namespace polymargin

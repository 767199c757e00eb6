// Python's door to the loop over pairs of rows and labels.
#include "../loops/label_loop.hpp"
#include "bindings.hpp"
#include "tools.hpp"

using namespace nb::literals;

namespace polymargin {
namespace {

// The arrays are borrowed: the caller keeps them alive (keep_alive below).
LabelLoop* open(const RowArrays& X, Vector<std::int64_t> starts, Vector<Index> labels, Vector<double> signs, Vector<double> costs,
                Vector<double> means, double scale, double common, double slack, double inverse_rho, Size n_labels,
                std::uint64_t seed) {
    const Size n_pairs = labels.shape(0);
    if (n_labels < 1) throw std::invalid_argument("n_labels must be at least 1");
    check_starts(starts, X.n_rows(), n_pairs, "starts");
    check_range(labels, n_labels, "labels");
    check_size(signs, n_pairs, "signs");
    check_size(costs, n_pairs, "costs");
    check_size(means, X.n_features(), "means");
    LoopSettings settings;
    settings.waiting = false;
    settings.seed = seed;
    const LabelPairs pairs{starts.data(), labels.data(), signs.data(), costs.data()};
    return new LabelLoop(X.with_classes(n_labels + 1), pairs, LabelCoupling{scale, common, slack}, means.data(), inverse_rho,
                         settings);
}

}  // namespace

void bind_labels(nb::module_& m) {
    nb::class_<LabelLoop> door(m, "LabelLoop");
    bind_ascent(door);
    door.def_prop_ro("dual", &LabelLoop::dual)
        .def("loss",
             [](const LabelLoop& self, int n_threads) {
                 return without_gil([&](const Poll& poll) { return self.loss(n_threads, poll); });
             }, "n_threads"_a)
        .def("duals", [](const LabelLoop& self) { return vector_of(self.duals()); })
        .def("set_duals",
             [](LabelLoop& self, Vector<double> a) {
                 check_size(a, self.duals().size(), "a");
                 without_gil([&](const Poll& poll) { self.set_duals(a.data(), poll); });
             }, "a"_a)
        .def("move_centre",
             [](LabelLoop& self, Vector<double> to) {
                 check_size(to, self.n_labels(), "to");
                 self.move_centre(to.data());
             }, "to"_a)
        .def("centre", [](const LabelLoop& self) { return vector_of(self.centre()); })
        .def("next_centre", [](const LabelLoop& self) { return vector_of(self.next_centre()); })
        .def("weights", [](const LabelLoop& self) { return matrix_of(self.weights(), self.n_features(), self.n_labels()); })
        .def("offsets", [](const LabelLoop& self) { return vector_of(self.offsets()); });

    m.def("label_loop", &open, "rows"_a, "starts"_a.noconvert(), "labels"_a.noconvert(), "signs"_a.noconvert(),
          "costs"_a.noconvert(), "means"_a.noconvert(), nb::kw_only(), "scale"_a, "common"_a, "slack"_a, "inverse_rho"_a,
          "n_labels"_a, "seed"_a, nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>(),
          nb::keep_alive<0, 4>(), nb::keep_alive<0, 5>());
}

}  // namespace polymargin

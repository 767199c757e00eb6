// Python's door to the loop over pairs of rows and labels, to labels that share nothing but the rows, to their cuts,
// and to rows whose labels are ranked.
#include "labels/cut_climb.hpp"
#include "labels/label_loop.hpp"
#include "labels/labels_apart.hpp"
#include "labels/ranking_loop.hpp"
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

using Duals = std::tuple<nb::ndarray<nb::numpy, std::int64_t, nb::ndim<1>>, nb::ndarray<nb::numpy, Index, nb::ndim<1>>, NewVector>;

Duals duals_of(const LabelsEnd& end) {
    std::vector<std::int64_t> starts{0};
    std::vector<Index> rows;
    std::vector<double> values;
    for (Size j = 0; j < end.duals.size(); ++j) {
        rows.insert(rows.end(), end.dual_rows[j].begin(), end.dual_rows[j].end());
        values.insert(values.end(), end.duals[j].begin(), end.duals[j].end());
        starts.push_back(static_cast<std::int64_t>(rows.size()));
    }
    return {array_of<std::int64_t, 1>(starts, {starts.size()}), array_of<Index, 1>(rows, {rows.size()}), vector_of(values)};
}

// W (n_labels, d); b, primal, dual, visits of each label as a row of four; the duals label by label
std::tuple<NewMatrix, NewMatrix, Duals> solve_apart(
    const RowArrays& X, Vector<std::int64_t> starts, Vector<Index> rows, Vector<std::int8_t> signs, int others,
    Vector<double> row_costs, Vector<double> label_costs, Vector<Index> labels, Vector<double> means, Vector<std::int64_t> dual_starts,
    Vector<Index> dual_rows, Vector<double> duals, Vector<double> offsets, double inverse_rho, bool free_offset, double tol,
    std::int64_t max_visits, int n_threads, bool squared, std::uint64_t seed) {
    const Size n = X.n_rows(), n_labels = label_costs.shape(0), chosen = labels.shape(0);
    check_starts(starts, n_labels, rows.shape(0), "starts");
    check_range(rows, n, "rows");
    check_size(signs, rows.shape(0), "signs");
    check_size(row_costs, n, "row_costs");
    check_range(labels, n_labels, "labels");
    check_size(means, X.n_features(), "means");
    check_starts(dual_starts, chosen, dual_rows.shape(0), "dual_starts");
    check_range(dual_rows, n, "dual_rows");
    check_size(duals, dual_rows.shape(0), "duals");
    check_size(offsets, chosen, "offsets");
    const Rows stored = X.with_classes(1);
    const LabelsEnd end = without_gil([&](const Poll& poll) {
        const LabelRows data(stored, means.data(), inverse_rho, free_offset);
        const LabelTargets targets{{starts.data(), rows.data(), signs.data()}, static_cast<std::int8_t>(others), row_costs.data(),
                                   label_costs.data()};
        return solve_labels(data, targets, std::vector<Index>(labels.data(), labels.data() + chosen),
                            {dual_starts.data(), dual_rows.data(), duals.data()}, offsets.data(),
                            Limits{tol, max_visits, n_threads, squared, seed}, poll);
    });
    std::vector<double> numbers;
    for (const LabelEnd& e : end.ends) numbers.insert(numbers.end(), {e.b, e.primal, e.dual, static_cast<double>(e.visits)});
    return {matrix_of(end.W, chosen, X.n_features()), matrix_of(numbers, chosen, 4), duals_of(end)};
}

// `reach` is changed
void climb_cuts(Matrix<std::int64_t> order, Matrix<bool> ends, Matrix<bool> member, Matrix<bool> known, Vector<double> weight,
                Changed<std::int64_t, 1> reach, bool subsets, int rounds, double worth) {
    const Size c = order.shape(0), n = order.shape(1);
    check_range(Vector<std::int64_t>(order.data(), {c * n}), n, "order");
    check_shape(ends, c, n, "ends");
    check_shape(member, c, n, "member");
    check_shape(known, c, n, "known");
    check_size(weight, n, "weight");
    check_size(reach, c, "reach");
    check_range(Vector<std::int64_t>(reach.data(), {c}), n + 1, "reach");
    const JudgedLabels judged{c, n, order.data(), ends.data(), member.data(), known.data(), weight.data()};
    without_gil([&](const Poll& poll) { CutClimb(judged, subsets, reach.data()).climb(rounds, worth, poll); });
}

// `starts` and `labels`: members and non-members of each row in turn
RankingLoop* open_ranking(const RowArrays& X, Vector<std::int64_t> starts, Vector<Index> labels, Vector<double> costs, bool worst,
                          Size n_labels, std::uint64_t seed) {
    check_starts(starts, 2 * X.n_rows(), labels.shape(0), "starts");
    check_range(labels, n_labels, "labels");
    check_size(costs, X.n_rows(), "costs");
    LoopSettings settings;
    settings.waiting = false;
    settings.seed = seed;
    RankedRows sides{std::vector<std::int64_t>(starts.data(), starts.data() + starts.shape(0)),
                     std::vector<Index>(labels.data(), labels.data() + labels.shape(0))};
    return new RankingLoop(X.with_classes(n_labels), std::move(sides), costs.data(), worst, settings);
}

void bind_ranking(nb::module_& m) {
    nb::class_<RankingLoop> door(m, "RankingLoop");
    bind_ascent(door);
    door.def_prop_ro("dual", &RankingLoop::dual)
        .def("duals", [](const RankingLoop& self) { return vector_of(self.duals()); })
        .def("set_duals",
             [](RankingLoop& self, Vector<double> a) {
                 check_size(a, self.duals().size(), "a");
                 self.set_duals(a.data());
             }, "a"_a)
        .def("start_intercept",
             [](RankingLoop& self, Vector<double> means, double inverse_rho) {
                 check_size(means, self.n_features(), "means");
                 self.start_intercept(means.data(), inverse_rho);
             }, "means"_a, "inverse_rho"_a)
        .def("sums", [](const RankingLoop& self) { return vector_of(self.weights().pulls_of_sums()); })
        .def("centre", [](const RankingLoop& self) { return vector_of(self.weights().centre()); })
        .def("move_centre",
             [](RankingLoop& self, Vector<double> to) {
                 check_size(to, self.n_labels(), "to");
                 self.move_centre(to.data());
             }, "to"_a)
        .def("weights", [](const RankingLoop& self) { return matrix_of(self.weights().weights(), self.n_features(), self.n_labels()); })
        .def("intercepts", [](const RankingLoop& self) { return vector_of(self.weights().intercepts()); });
    m.def("ranking_loop", &open_ranking, "rows"_a, "starts"_a.noconvert(), "labels"_a.noconvert(), "costs"_a.noconvert(), "worst"_a,
          "n_labels"_a, "seed"_a, nb::keep_alive<0, 1>());
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

    m.def("labels_apart", &solve_apart, "rows"_a, "starts"_a.noconvert(), "sign_rows"_a.noconvert(), "signs"_a.noconvert(), "others"_a,
          "row_costs"_a.noconvert(), "label_costs"_a.noconvert(), "labels"_a.noconvert(), "means"_a.noconvert(), "dual_starts"_a.noconvert(),
          "dual_rows"_a.noconvert(), "duals"_a.noconvert(), "offsets"_a.noconvert(), nb::kw_only(), "inverse_rho"_a,
          "free_offset"_a, "tol"_a, "max_visits"_a, "n_threads"_a, "squared"_a, "seed"_a);

    m.def("climb_cuts", &climb_cuts, "order"_a.noconvert(), "ends"_a.noconvert(), "member"_a.noconvert(), "known"_a.noconvert(),
          "weight"_a.noconvert(), "reach"_a.noconvert(), nb::kw_only(), "subsets"_a, "rounds"_a, "worth"_a);

    bind_ranking(m);
}

}  // namespace polymargin

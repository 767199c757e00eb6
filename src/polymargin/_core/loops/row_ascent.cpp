// What the row loop is asked between epochs.
#include "row_ascent.hpp"

#include <utility>

#include "threads/chunks.hpp"

namespace polymargin {

RowAscent::RowAscent(const RowTask& task, LossRules rules, bool coupled)
    : state_(task.rows, task.y, task.cost, std::move(rules), coupled), schedule_(task.rows.n_rows(), task.rows.bytes(), task.settings) {}
RowAscent::~RowAscent() = default;

double RowAscent::loss(const Weights& weights, int n_threads, const Poll& poll) const {
    return sum_over_rows(
        state_.n_rows(), n_threads, poll, 0.0, [&] { return std::vector<double>(padded(state_.n_classes() + 1)); },
        [&](Size i, std::vector<double>& scores) {
            weights.all_scores(i, scores.data());
            return state_.cost[i] * loss_of(i, scores.data());
        });
}

}  // namespace polymargin

// What the row loop is asked between epochs.
#include "row_ascent.hpp"

#include <utility>

#include "threads/chunks.hpp"

namespace polymargin {

RowAscent::RowAscent(const RowTask& task, LossRules rules, bool coupled)
    : state_(task.rows, task.y, task.cost, std::move(rules), coupled), schedule_(task.rows.n_rows(), task.rows.bytes(), task.settings) {}
RowAscent::~RowAscent() = default;

double RowAscent::loss(const Weights& weights, int n_threads, const Poll& poll) const {
    const Size width = padded(state_.n_classes() + 1);
    return sum_over_blocks(
        state_.n_rows(), n_threads, poll, 0.0, [&] { return std::vector<double>(at_a_time * width); },
        [&](Size first, Size last, std::vector<double>& scores) {
            Size rows[at_a_time];
            double* out[at_a_time];
            for (Size k = 0; k < last - first; ++k) {
                rows[k] = first + k;
                out[k] = &scores[k * width];
            }
            weights.all_scores(rows, last - first, out);
            double sum = 0.0;
            for (Size k = 0; k < last - first; ++k) sum += state_.cost[first + k] * loss_of(first + k, out[k]);
            return sum;
        });
}

}  // namespace polymargin

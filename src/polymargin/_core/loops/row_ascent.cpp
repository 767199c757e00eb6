// What the row loop is asked between epochs.
#include "row_ascent.hpp"

#include <utility>

#include "threads/chunks.hpp"

namespace polymargin {

constexpr Size small_vectors = Size{1} << 15;  // bytes of class vectors that stay in the nearest cache from row to row

RowAscent::RowAscent(const RowTask& task, LossRules rules, bool coupled)
    : state_(task.rows, task.y, task.cost, std::move(rules), coupled), schedule_(task.rows.n_rows(), task.rows.bytes(), task.settings),
      has_averages_(task.settings.averages) {}
RowAscent::~RowAscent() = default;

double RowAscent::loss(const Weights& weights, int n_threads, const Poll& poll) const {
    const Size width = padded(state_.n_classes() + 1);
    const bool at_once = !state_.rows.is_sparse() && state_.rows.weights_size() * sizeof(double) > small_vectors;
    return sum_over_blocks(
        state_.n_rows(), n_threads, poll, 0.0, [&] { return std::vector<double>(at_a_time * width); },
        [&](Size first, Size last, std::vector<double>& scores, double& sum) {
            Size rows[at_a_time];
            double* out[at_a_time];
            for (Size k = 0; k < last - first; ++k) {
                rows[k] = first + k;
                out[k] = &scores[k * width];
                if (!at_once) weights.all_scores(first + k, out[k]);
            }
            if (at_once) weights.all_scores(rows, last - first, out);
            for (Size k = 0; k < last - first; ++k) sum += state_.cost[first + k] * loss_of(first + k, out[k]);
        });
}

}  // namespace polymargin

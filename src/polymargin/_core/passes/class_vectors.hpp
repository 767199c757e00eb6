// Class vectors W (d, c) as they leave a fit, feature by feature: spread out, or as a list of the classes that have the feature.
//
// Scores of sparse rows are sums of features. With many classes most of W is 0, but the features that most rows have belong to most
// classes: their lists are spread out once, and then added side by side instead of one by one.
#pragma once

#include <algorithm>
#include <vector>

#include "rows/buffer.hpp"
#include "rows/rows.hpp"
#include "threads/chunks.hpp"

namespace polymargin {

class ClassVectors {
public:
    // An array. It is borrowed.
    ClassVectors(const double* W, Size d, Size c) : c_(c), spread_(d) {
        for (Size j = 0; j < d; ++j) spread_[j] = W + j * c;
    }

    // CSR arrays. They are borrowed; each row has a class at most once, in any order.
    ClassVectors(const double* values, const Index* classes, const std::int64_t* starts, Size d, Size c)
        : c_(c), values_(values), classes_(classes), starts_(starts), spread_(d, nullptr) {
        Size n_spread = 0;
        const auto is_long = [&](Size j) { return long_list * static_cast<Size>(starts[j + 1] - starts[j]) > c; };
        for (Size j = 0; j < d; ++j) n_spread += is_long(j);
        room_.assign(n_spread * c, 0.0);
        double* next = room_.data();
        for (Size j = 0; j < d; ++j) {
            if (!is_long(j)) continue;
            for (std::int64_t k = starts[j]; k < starts[j + 1]; ++k) next[classes[k]] += values[k];
            spread_[j] = next;
            next += c;
        }
    }

    Size n_classes() const { return c_; }

    // scores += x w_j
    void add(Size j, double x, double* scores) const {
        if (const double* w = spread_[j]) {
            for (Size k = 0; k < c_; ++k) scores[k] += x * w[k];
            return;
        }
        for (std::int64_t k = starts_[j]; k < starts_[j + 1]; ++k) scores[classes_[k]] += x * values_[k];
    }

private:
    static constexpr Size long_list = 8;  // lists of more than an eighth of the classes are spread out

    Size c_;
    const double* values_ = nullptr;
    const Index* classes_ = nullptr;
    const std::int64_t* starts_ = nullptr;
    std::vector<const double*> spread_;  // null: a list
    std::vector<double> room_;
};

// sum_i loss(i, scores of row i), the scores with offsets b. Dense rows read the vectors class by class.
template <class Loss>
double sum_of_losses(const Rows& rows, const ClassVectors& vectors, const double* b, const Loss& loss, int n_threads, const Poll& poll) {
    const Size c = vectors.n_classes(), width = padded(c);
    Buffer by_class(rows.is_sparse() ? 0 : rows.weights_size());
    std::vector<double> of_feature(c);
    for (Size j = 0; j < (rows.is_sparse() ? 0 : rows.n_features()); ++j) {
        std::fill(of_feature.begin(), of_feature.end(), 0.0);
        vectors.add(j, 1.0, of_feature.data());
        for (Size k = 0; k < c; ++k) by_class[rows.weight_position(j, k)] = of_feature[k];
    }
    return sum_over_blocks(
        rows.n_rows(), n_threads, poll, 0.0, [&] { return std::vector<double>(at_a_time * width); },
        [&](Size first, Size last, std::vector<double>& scores, double& sum) {
            Size numbers[at_a_time];
            double* out[at_a_time];
            for (Size k = 0; k < last - first; ++k) {
                numbers[k] = first + k;
                out[k] = &scores[k * width];
                if (!rows.is_sparse()) continue;
                std::fill_n(out[k], c, 0.0);
                rows.for_each_entry(numbers[k], [&](Size j, double x) { vectors.add(j, x, out[k]); });
            }
            if (!rows.is_sparse()) rows.scores_of_rows(by_class.data(), numbers, last - first, 0, c, out);
            for (Size k = 0; k < last - first; ++k) {
                for (Size l = 0; l < c; ++l) out[k][l] += b[l];  // last: it may cancel what is large
                sum += loss(numbers[k], out[k]);
            }
        });
}

}  // namespace polymargin

// Class vectors W (d, c) as they leave a fit, feature by feature: spread out, or as a list of the classes that have the feature.
//
// Scores of sparse rows are sums of features. With many classes most of W is 0, but the features that most rows have belong to most
// classes: their lists are spread out once, and then added side by side instead of one by one.
#pragma once

#include <vector>

#include "rows/rows.hpp"

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

// sum_i loss(i, scores of row i), the scores with offsets b.
template <class Loss>
double sum_of_losses(const Rows& rows, const ClassVectors& vectors, const double* b, const Loss& loss, const Poll& poll) {
    std::vector<double> scores(vectors.n_classes());
    double sum = 0.0;
    for (Size i = 0; i < rows.n_rows(); ++i) {
        if ((i & 63) == 0) poll();
        std::fill(scores.begin(), scores.end(), 0.0);
        rows.for_each_entry(i, [&](Size j, double x) { vectors.add(j, x, scores.data()); });
        for (Size k = 0; k < scores.size(); ++k) scores[k] += b[k];  // last: it may cancel what is large
        sum += loss(i, scores.data());
    }
    return sum;
}

}  // namespace polymargin

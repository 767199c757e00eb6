// What the owner of a loop and the threads that mind its class vectors tell each other about some rows: what has moved, and the scores
// of lists of classes. (Where a row wants all scores, they are written where it wants them.)
//
// A cache line that changes hands costs as much as a dot product: whatever is told lies side by side, in the order in which it is read.
#pragma once

#include <algorithm>
#include <vector>

#include "machine/weights.hpp"

namespace polymargin {

class Exchange {
public:
    // with a coupling the sum is one more class
    Exchange(Size n_rows, Size n_classes)
        : moved_(n_rows), wanted_(n_rows), classes_(2 * n_rows * n_classes), steps_(n_rows * n_classes) {}

    // The owner, about rows that have moved, and about those whose scores it wants next.
    void forget() { n_moved_ = n_wanted_ = n_classes_ = n_steps_ = 0; }
    bool has_moved() const { return n_moved_ > 0; }
    void moved(Size i, const Index* classes, const double* steps, Size count) {
        if (count == 0) return;
        moved_[n_moved_++] = {i, n_classes_, count};
        for (Size k = 0; k < count; ++k) {
            classes_[n_classes_++] = classes[k];
            steps_[n_steps_++] = steps[k];
        }
    }
    Size wants(Size i, const Index* classes, Size count) {  // the number of the wish
        wanted_[n_wanted_] = {i, n_classes_, count};
        for (Size k = 0; k < count; ++k) classes_[n_classes_++] = classes[k];
        return n_wanted_++;
    }

    // What a thread answers: what its part adds to the scores, row after row.
    struct Answer {
        Answer(Size n_rows, Size n_classes) : room(n_classes), starts(n_rows), found(n_rows * padded(n_classes + 1)) {}

        RowRoom room;
        std::vector<Size> starts;
        std::vector<double> found;
    };

    void add_moved(const WeightPart& part, Weights& weights, Answer& answer) const {
        Size at = 0;
        for (Size k = 0; k < n_moved_; ++k) {
            const Row& row = moved_[k];
            weights.add_part(part, row.i, &classes_[row.first], &steps_[at], row.count, answer.room);
            at += row.count;
        }
    }

    void find_wanted(const WeightPart& part, const Weights& weights, const Rows& rows, Answer& answer) const {
        constexpr Size ahead = 3;
        Size at = 0;
        for (Size k = 0; k < std::min(ahead, n_wanted_); ++k) rows.prefetch(wanted_[k].i);
        for (Size k = 0; k < n_wanted_; ++k) {
            if (k + ahead < n_wanted_) rows.prefetch(wanted_[k + ahead].i);
            answer.starts[k] = at;
            at += weights.part_of_scores(part, wanted_[k].i, classes(wanted_[k]), wanted_[k].count, &answer.found[at], answer.room);
        }
    }

    // The scores of the k-th wish.
    void join(Size k, const Weights& weights, const std::vector<Answer>& answers, double* out) const {
        const double* found[Weights::most_parts];
        for (Size part = 0; part < answers.size(); ++part) found[part] = &answers[part].found[answers[part].starts[k]];
        weights.join_scores(answers.size(), wanted_[k].i, classes(wanted_[k]), wanted_[k].count, found, out);
    }

private:
    struct Row {
        Size i, first, count;
    };

    const Index* classes(const Row& row) const { return &classes_[row.first]; }

    std::vector<Row> moved_, wanted_;
    std::vector<Index> classes_;  // of rows that have moved, then of those that want scores
    std::vector<double> steps_;
    Size n_moved_ = 0, n_wanted_ = 0, n_classes_ = 0, n_steps_ = 0;
};

}  // namespace polymargin

// What threads tell each other about rows that are visited together: what each of its rows has moved, which scores the next ones want, and
// what its part of the weights adds to those.
//
// A cache line that changes hands costs as much as a dot product: whatever is told lies side by side, in the order in which it is read.
#pragma once

#include <vector>

#include "machine/weights.hpp"

namespace polymargin {

// Of the rows that a thread visits; all others read it.
class Report {
public:
    void forget() {
        moved_.clear();
        wanted_.clear();
        whole_.clear();
        classes_.clear();
        steps_.clear();
    }
    void moved(Size i, const Index* classes, const double* steps, Size count) {
        if (count == 0) return;
        moved_.push_back({0, i, classes_.size(), count});
        classes_.insert(classes_.end(), classes, classes + count);
        steps_.insert(steps_.end(), steps, steps + count);
    }
    // The k-th row of the next ones: the scores of some classes, or all of them, which then are written where it wants them.
    void wants(Size k, Size i, const Index* classes, Size count) {
        wanted_.push_back({k, i, classes_.size(), count});
        classes_.insert(classes_.end(), classes, classes + count);
    }
    void wants_all(Size i, double* scores) { whole_.push_back({i, scores}); }

    // share times what has moved
    void add_moved(const WeightPart& part, double share, Weights& weights, RowRoom& room) const {
        Size at = 0;
        for (const Row& row : moved_) {
            weights.add_part(part, share, row.i, &classes_[row.first], &steps_[at], row.count, room);
            at += row.count;
        }
    }

    void add_sums(double share, Weights& weights) const {
        Size at = 0;
        for (const Row& row : moved_) {
            weights.add_sums(share, row.i, &classes_[row.first], &steps_[at], row.count);
            at += row.count;
        }
    }

private:
    friend class Answer;
    struct Row {
        Size k, i, first, count;
    };
    struct WholeRow {
        Size i;
        double* scores;
    };

    std::vector<Row> moved_, wanted_;
    std::vector<WholeRow> whole_;
    std::vector<Index> classes_;
    std::vector<double> steps_;
};

// What a part of the weights adds to the scores that rows want.
class Answer {
public:
    // with a coupling the sum is one more class
    Answer(Size n_rows, Size n_classes) : room(n_classes), starts_(n_rows), found_(n_rows * padded(n_classes + 1)) {}

    void begin() { at_ = 0; }

    void find(const Report& report, const WeightPart& part, const Weights& weights, const Rows& rows) {
        constexpr Size ahead = 3;
        const auto& wanted = report.wanted_;
        for (Size k = 0; k < wanted.size(); ++k) {
            if (k + ahead < wanted.size()) rows.prefetch(wanted[k + ahead].i);
            starts_[wanted[k].k] = at_;
            at_ += weights.part_of_scores(part, wanted[k].i, &report.classes_[wanted[k].first], wanted[k].count, &found_[at_], room);
        }
        whole_.clear();
        scores_.clear();
        for (const auto& row : report.whole_) {
            whole_.push_back(row.i);
            scores_.push_back(row.scores);
        }
        weights.part_of_all_scores(part, whole_.data(), whole_.size(), scores_.data());
    }

    const double* of_row(Size k) const { return &found_[starts_[k]]; }

    RowRoom room;

private:
    std::vector<Size> starts_, whole_;
    std::vector<double> found_;
    std::vector<double*> scores_;
    Size at_ = 0;
};

}  // namespace polymargin

// Cuts of labels for a measure of label sets, row by row: each label goes to its best place while the others stand still.
//
// A label that is cut somewhere is predicted for the first of its rows, in the order of their scores: `reach[k]` of them. A row
// with h hits among its m members and u labels in the union of members and predicted ones is worth h / u (Jaccard index; 1 if
// u = 0), or 1 if both sets are the same (subset accuracy), times its weight.
#pragma once

#include <cstdint>
#include <vector>

#include "rows/basics.hpp"

namespace polymargin {

// Scores that are judged, label by label, (c, n). The arrays are borrowed.
struct JudgedLabels {
    Size n_labels, n_rows;
    const std::int64_t* order;  // rows, from the highest score of the label on
    const bool* ends;           // whether a cut may lie behind this place: not between equal scores
    const bool* member;         // by row number
    const bool* known;          // others are no part of anything
    const double* weight;       // (n)
};

class CutClimb {
public:
    CutClimb(const JudgedLabels& data, bool subsets, std::int64_t* reach)
        : x_(data), subsets_(subsets), reach_(reach), hits_(data.n_rows), union_(data.n_rows), members_(data.n_rows) {
        for (Size k = 0; k < x_.n_labels; ++k) {
            for (Size i = 0; i < x_.n_rows; ++i) members_[i] += x_.member[k * x_.n_rows + i];
        }
        union_ = members_;
        for (Size k = 0; k < x_.n_labels; ++k) count(k, 1.0);
    }

    // Rounds over all labels, until one is not worth it.
    void climb(int rounds, double worth, const Poll& poll) {
        double best = -1.0;
        for (int round = 0; round < rounds; ++round) {
            const double found = value();
            if (found <= best + worth) return;
            best = found;
            for (Size k = 0; k < x_.n_labels; ++k) {
                poll();
                count(k, -1.0);
                reach_[k] = best_reach(k);
                count(k, 1.0);
            }
        }
    }

private:
    // Takes the rows for which a label is predicted into the counts, or out of them.
    void count(Size k, double sign) {
        const std::int64_t* order = x_.order + k * x_.n_rows;
        const bool *member = x_.member + k * x_.n_rows, *known = x_.known + k * x_.n_rows;
        for (std::int64_t p = 0; p < reach_[k]; ++p) {
            const auto i = static_cast<Size>(order[p]);
            if (known[i]) (member[i] ? hits_ : union_)[i] += sign;
        }
    }

    std::int64_t best_reach(Size k) const {
        const std::int64_t* order = x_.order + k * x_.n_rows;
        const bool *ends = x_.ends + k * x_.n_rows, *member = x_.member + k * x_.n_rows, *known = x_.known + k * x_.n_rows;
        std::int64_t best = 0;
        double sum = 0.0, most = 0.0;  // to reach none is worth 0
        for (Size p = 0; p < x_.n_rows; ++p) {
            const auto i = static_cast<Size>(order[p]);
            if (known[i]) sum += x_.weight[i] * gain(i, member[i]);
            if (ends[p] && sum > most) {
                most = sum;
                best = static_cast<std::int64_t>(p) + 1;
            }
        }
        return best;
    }

    // What one label more changes in a row: a member adds a hit, another one grows the union.
    double gain(Size i, bool own) const {
        const double h = hits_[i], u = union_[i];
        if (subsets_) return u == members_[i] && h + own == members_[i] ? (own ? 1.0 : -1.0) : 0.0;
        if (own) return 1.0 / u;
        return u > 0.0 ? -h / (u * (u + 1.0)) : -1.0;
    }

    // The measure as it is.
    double value() const {
        double sum = 0.0, total = 0.0;
        for (Size i = 0; i < x_.n_rows; ++i) {
            const double h = hits_[i], u = union_[i];
            sum += x_.weight[i] * (subsets_ ? h == u : u > 0.0 ? h / u : 1.0);
            total += x_.weight[i];
        }
        return sum / total;
    }

    const JudgedLabels x_;
    const bool subsets_;
    std::int64_t* reach_;
    std::vector<double> hits_, union_, members_;
};

}  // namespace polymargin

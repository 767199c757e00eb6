// Dual coordinate ascent for machines with one hinge for each pair (row, label): One versus None.
//
//   min_W,b  R(W) + R_b(b) + sum_p u_p [1 - t_p (x_i . w_k + b_k)]_+,     pairs p = (i, k), t_p = +1 or -1,
//   R(W) = 1/2 (1 - alpha) |W|^2 + 1/2 alpha |sum_k w_k|^2  or  1/2 |W|^2 with sum_k w_k = 0,
//   R_b(b) = gamma (sum_k b_k)^2                            or  0 with sum_k b_k = 0.
//
// With duals a_p in [0, u_p], z_k = sum_i a_ik t_ik x_i and B_k = sum_i a_ik t_ik, everything splits into the mean over the
// classes and the differences from it:
//
//   w_k = scale (z_k - mean z) + (common / c) sum_l z_l,    b_k = beta_k + (slack / c^2) sum_l B_l
//
// (scale = 1/(1 - alpha), common = 1/(1 + alpha (c - 1)), hard: 1 and 0; slack = 1/(2 gamma), hard: 0). The offsets beta add
// up to zero and are free: a proximal-point loop on them, on implicitly centred columns, as in weights.hpp. The mean part
// is penalised, so it needs no proximal term and must not be centred: sum_k b_k depends on the origin of X.
//
// Column c of the weights holds sum_k z_k. A visit to a row asks for the scores of its labels and of that column, and moves
// the row's duals one after the other: a step d of pair k adds d (h 1[k = l] + g) to the score of label l.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "label_box.hpp"
#include "machine/weights.hpp"
#include "threads/chunks.hpp"
#include "loops/schedule.hpp"

namespace polymargin {

// Pairs row by row; the arrays are borrowed.
struct LabelPairs {
    const std::int64_t* starts;  // n + 1
    const Index* labels;
    const double* signs;  // +1 or -1
    const double* costs;
};

struct LabelCoupling {
    double scale, common, slack;
};

class LabelLoop {
public:
    // `rows` has room for one more class than there are labels
    LabelLoop(const Rows& rows, LabelPairs pairs, LabelCoupling coupling, const double* means, double inverse_rho,
              const LoopSettings& settings)
        : rows_(rows), pairs_(pairs), coupling_(coupling), n_(rows.n_rows()), c_(rows.n_classes() - 1),
          weights_(rows_, intercept_, identity_), schedule_(n_, rows.bytes(), settings), own_(n_), shared_(n_), active_(n_) {
        const double c = static_cast<double>(c_);
        intercept_.start(rows_, means, inverse_rho / coupling.scale);
        Size longest = 0;
        for (Size i = 0; i < n_; ++i) {
            const double q = rows_.squared_norm(i);
            own_[i] = coupling.scale * intercept_.curvature(i, q);
            shared_[i] = (coupling.common * q - own_[i] + coupling.slack / c) / c;
            longest = std::max(longest, count(i));
        }
        const auto n_pairs = static_cast<Size>(pairs.starts[n_]);
        order_.resize(n_pairs);
        a_.assign(n_pairs, 0.0);
        classes_.resize(longest + 1);
        steps_.resize(longest + 1);
        scores_.resize(longest + 1);
        moves_.resize(longest);
        every_.resize(padded(c_ + 1));
        restore();
    }
    LabelLoop(const LabelLoop&) = delete;  // `weights_` refers to `rows_` and `intercept_`
    LabelLoop& operator=(const LabelLoop&) = delete;

    // Epochs until the estimated relative gap of the proximal problem promises `tol`, or `max_visits` more row visits.
    void ascend(std::int64_t max_visits, double tol, const Poll& poll) {
        const std::int64_t stop = progress().visits + max_visits;
        while (progress().visits < stop) {
            epoch(stop - progress().visits, poll);
            if (schedule_.promises(tol, dual_)) break;
        }
    }

    // Every row looks at all of its pairs again.
    void restore() {
        schedule_.wake_all();
        for (Size i = 0; i < n_; ++i) {
            schedule_.rest(i, count(i) == 0);
            active_[i] = static_cast<std::uint32_t>(count(i));
            for (Size j = 0; j < count(i); ++j) order_[first(i) + j] = static_cast<std::uint32_t>(j);
        }
    }

    // sum_p u_p [1 - t_p s_p]_+
    double loss(int n_threads, const Poll& poll) const {
        struct Room {
            std::vector<Index> classes;
            std::vector<double> scores, every;
        };
        return sum_over_rows(
            n_, n_threads, poll, 0.0,
            [&] { return Room{std::vector<Index>(classes_.size()), std::vector<double>(classes_.size()),
                              std::vector<double>(padded(c_ + 1))}; },
            [&](Size i, Room& room) {
                const Size m = count(i);
                for (Size j = 0; j < m; ++j) room.classes[j] = pairs_.labels[first(i) + j];
                look(i, room.classes.data(), m, room.scores.data(), room.every.data());
                double sum = 0.0;
                for (Size j = 0; j < m; ++j) {
                    const Size p = first(i) + j;
                    sum += pairs_.costs[p] * LabelBox::loss(1.0 - pairs_.signs[p] * room.scores[j]);
                }
                return sum;
            });
    }

    // Starts from the given duals.
    void set_duals(const double* a, const Poll& poll) {
        weights_.clear();
        for (Size i = 0; i < n_; ++i) {
            Size m = 0;
            double sum = 0.0;
            for (Size p = first(i); p < first(i) + count(i); ++p) {
                a_[p] = LabelBox::clip(a[p], pairs_.costs[p]);
                if (a_[p] == 0.0) continue;
                classes_[m] = pairs_.labels[p];
                sum += steps_[m++] = pairs_.signs[p] * a_[p];
            }
            if (m > 0) push(i, m, sum);
            if ((i & 63) == 0) poll();
        }
        refresh_dual();
    }

    // The part of `to` that adds up to zero becomes the centre of the proximal term.
    void move_centre(const double* to) {
        double mean = 0.0;
        for (Size k = 0; k < c_; ++k) mean += to[k];
        mean /= static_cast<double>(c_);
        for (Size k = 0; k < c_; ++k) weights_.centre()[k] = (to[k] - mean) / coupling_.scale;
        refresh_dual();
    }

    std::vector<double> centre() const {
        std::vector<double> out(c_);
        for (Size k = 0; k < c_; ++k) out[k] = coupling_.scale * weights_.centre()[k];
        return out;
    }

    // The centre the proximal point loop moves to: the offsets beta on centred columns.
    std::vector<double> next_centre() const {
        std::vector<double> out = centre();
        const double mean = sum_of_duals() / static_cast<double>(c_);
        const double inverse_rho = coupling_.scale * intercept_.inverse_rho;
        for (Size k = 0; k < c_; ++k) out[k] += inverse_rho * (weights_.sums()[k] - mean);
        return out;
    }

    // W (d, c)
    std::vector<double> weights() const {
        std::vector<double> out;
        out.reserve(n_features() * c_);
        for (Size j = 0; j < n_features(); ++j) {
            for (Size k = 0; k < c_; ++k) out.push_back(weight(j, k));
        }
        return out;
    }

    std::vector<double> offsets() const {
        std::vector<double> out(c_);
        for (Size k = 0; k < c_; ++k) out[k] = offset(k);
        return out;
    }

    double weight(Size feature, Size k) const {
        const double c = static_cast<double>(c_), sum = weights_.raw_weight(feature, c_);
        return coupling_.scale * (weights_.weight(feature, k) - weights_.weight(feature, c_) / c) + coupling_.common * sum / c;
    }

    // b in the user's coordinates
    double offset(Size k) const {
        const double c = static_cast<double>(c_);
        return coupling_.scale * (weights_.intercept(k) - weights_.intercept(c_) / c) +
               coupling_.slack * sum_of_duals() / (c * c);
    }

    const std::vector<double>& duals() const { return a_; }
    double dual() const { return dual_; }
    const Progress& progress() const { return schedule_.progress(); }
    Size n_features() const { return rows_.n_features(); }
    Size n_labels() const { return c_; }

private:
    Size first(Size i) const { return static_cast<Size>(pairs_.starts[i]); }
    Size count(Size i) const { return static_cast<Size>(pairs_.starts[i + 1] - pairs_.starts[i]); }
    double sum_of_duals() const { return weights_.sums()[c_]; }  // sum_k B_k

    // Scores of m labels; `classes` and `out` have room for one more.
    void look(Size i, Index* classes, Size m, double* out, double* every) const {
        const double c = static_cast<double>(c_);
        classes[m] = static_cast<Index>(c_);
        weights_.scores(i, classes, m + 1, out, every);
        const double centred = out[m], raw = centred - weights_.offset(i, c_);
        const double mean = (coupling_.common * raw + coupling_.slack * sum_of_duals() / c) / c;
        for (Size j = 0; j < m; ++j) out[j] = coupling_.scale * (out[j] - centred / c) + mean;
    }

    // z_k += steps_k x_i for the first m of classes_; `sum` is the sum of the steps
    void push(Size i, Size m, double sum) {
        classes_[m] = static_cast<Index>(c_);
        steps_[m] = sum;
        weights_.add(i, classes_.data(), steps_.data(), m + 1);
    }

    void epoch(std::int64_t max_visits, const Poll& poll) {
        const bool again = schedule_.epoch(
            max_visits, poll,
            [&](Size k, const std::vector<std::uint32_t>& visits) {
                if (k + 1 < visits.size()) rows_.prefetch(visits[k + 1]);
            },
            [&](Size, Size i) { return visit(i); });
        if (again) restore();
    }

    // Looks at the active pairs of a row, puts to rest those that will hardly move, and moves the others.
    Assessment visit(Size i) {
        const Size m = active_[i];
        const std::uint32_t* order = order_.data() + first(i);
        for (Size j = 0; j < m; ++j) classes_[j] = pairs_.labels[first(i) + order[j]];
        look(i, classes_.data(), m, scores_.data(), every_.data());
        const Assessment row = assess(i, m);
        const Size kept = active_[i];
        if (kept == 0) schedule_.rest(i, true);
        if (row.violation > 0.0) move(i, kept);
        return row;
    }

    // Gap and violation of the m active pairs of a row; pairs that will rest go behind the others.
    Assessment assess(Size i, Size m) {
        std::uint32_t* order = order_.data() + first(i);
        const double threshold = schedule_.threshold();
        double gap = 0.0, violation = 0.0;
        for (Size j = 0; j < m;) {
            const Size p = first(i) + order[j];
            const double room = 1.0 - pairs_.signs[p] * scores_[j];
            const Assessment pair = LabelBox::assess(room, a_[p], pairs_.costs[p]);
            gap += pair.gap;
            if (!(pair.violation > 0.0) && std::fabs(room) > threshold) {
                --m;
                std::swap(order[j], order[m]);
                std::swap(scores_[j], scores_[m]);
                continue;
            }
            violation = std::max(violation, pair.violation);
            ++j;
        }
        active_[i] = static_cast<std::uint32_t>(m);
        return {gap, violation};
    }

    // Coordinate ascent on the duals of one row: the scores follow without another look at x_i.
    void move(Size i, Size m) {
        const std::uint32_t* order = order_.data() + first(i);
        const double own = own_[i], shared = shared_[i], curvature = own + shared;
        std::fill_n(moves_.begin(), m, 0.0);
        double shift = 0.0;  // what all scores of the row have gained
        for (int sweep = m > 1 ? 2 : 1; sweep > 0; --sweep) {
            for (Size j = 0; j < m; ++j) {
                const Size p = first(i) + order[j];
                const double sign = pairs_.signs[p];
                const double room = 1.0 - sign * (scores_[j] + own * moves_[j] + shift);
                const double next = LabelBox::clip(a_[p] + room / curvature, pairs_.costs[p]);
                const double step = next - a_[p];
                if (step == 0.0) continue;
                a_[p] = next;
                moves_[j] += sign * step;
                shift += shared * sign * step;
                dual_ += step * (room - 0.5 * curvature * step);
            }
        }
        Size moved = 0;
        double sum = 0.0;
        for (Size j = 0; j < m; ++j) {
            if (moves_[j] == 0.0) continue;
            classes_[moved] = pairs_.labels[first(i) + order[j]];
            steps_[moved++] = moves_[j];
            sum += moves_[j];
        }
        if (moved > 0) push(i, moved, sum);
    }

    // sum a - R*(Z) - proximal terms, from the weights
    void refresh_dual() {
        const double c = static_cast<double>(c_), total = sum_of_duals();
        double sum = 0.0, differences = 0.0, common = 0.0, offsets = 0.0;
        for (double a : a_) sum += a;
        for (Size j = 0; j < n_features(); ++j) {
            const double mean = weights_.weight(j, c_) / c, raw = weights_.raw_weight(j, c_);
            for (Size k = 0; k < c_; ++k) {
                const double difference = weights_.weight(j, k) - mean;
                differences += difference * difference;
            }
            common += raw * raw;
        }
        for (Size k = 0; k < c_; ++k) {
            const double difference = weights_.sums()[k] - total / c;
            offsets += difference * (weights_.centre()[k] + 0.5 * intercept_.inverse_rho * difference);
        }
        dual_ = sum - coupling_.scale * (0.5 * differences + offsets) - 0.5 * coupling_.common * common / c -
                0.5 * coupling_.slack * total * total / (c * c);
    }

    Rows rows_;
    LabelPairs pairs_;
    LabelCoupling coupling_;
    Size n_, c_;
    Intercept intercept_;
    const MachineMetric identity_;
    Weights weights_;
    Schedule schedule_;

    std::vector<double> own_, shared_;  // h and g of each row
    std::vector<std::uint32_t> active_, order_;  // order_: a row's pairs, the active ones first
    std::vector<double> a_;
    double dual_ = 0.0;

    // one row's workspace
    std::vector<Index> classes_;
    std::vector<double> steps_, scores_, moves_, every_;
};

}  // namespace polymargin

// A binary machine for one label at a time, with an offset of its own: dual coordinate ascent over the rows.
//
//   min_w,b  1/2 |w|^2 + sum_i u_i [1 - t_i (x_i . w + b)]_+,     t_i = +1 or -1; rows with t_i = 0 are no part of it.
//
// Squared hinges have duals without an upper bound, and lose a_i^2 / (4 u_i) in the dual value.
//
// Duals a_i in [0, u_i] make w = sum_i a_i t_i x_i; a free offset wants s = sum_i a_i t_i = 0. As in weights.hpp a proximal
// term (rho/2) (b - centre)^2 on implicitly centred rows keeps it free, and the centre follows s, by the secant where two
// values of s tell its slope. Labels share nothing but the rows: one after the other each needs a vector of d numbers, which
// stays in the caches, and rows that have nothing to say about a label rest for it alone.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "label_box.hpp"
#include "loops/random.hpp"
#include "rows/rows.hpp"

namespace polymargin {

// What all labels share: the rows, their means m, p_i = x_i . m, the squares |x_i - m|^2 + 1/rho.
class LabelRows {
public:
    // without an intercept `means` are zeros and `inverse_rho` is 0
    LabelRows(const Rows& stored, const double* means, double over_rho, bool is_free)
        : rows(stored), inverse_rho(over_rho), free_offset(is_free), mean(means, means + stored.n_features()),
          mean_dots(stored.n_rows()), squares(stored.n_rows()) {
        for (double m : mean) mean_norm += m * m;
        for (Size i = 0; i < rows.n_rows(); ++i) {
            mean_dots[i] = mean_norm > 0.0 ? rows.dot_dense(i, means) : 0.0;
            squares[i] = std::max(0.0, rows.squared_norm(i) - 2.0 * mean_dots[i] + mean_norm) + inverse_rho;
        }
    }

    const Rows& rows;
    const double inverse_rho;
    const bool free_offset;
    double mean_norm = 0.0;
    std::vector<double> mean, mean_dots, squares;
};

// A label as it was solved; w is (d), the duals are balanced.
struct LabelEnd {
    double b, primal, dual;
    std::int64_t visits;
};

class OneLabel {
public:
    OneLabel(const LabelRows& data, bool squared)
        : x_(data), squared_(squared), n_(data.rows.n_rows()), d_(data.rows.n_features()), v_(d_), fresh_(d_), balanced_(n_), random_(0) {}

    // Climbs until F - D <= tol F or `max_visits` are used up. `a` has the duals to start from and gets the last balanced
    // ones; b is the offset to start from; w (d) gets the class vector.
    LabelEnd solve(const std::int8_t* signs, const double* costs, double* a, double b, double* w, double tol,
                   std::int64_t max_visits, std::uint64_t seed, const Poll& poll) {
        t_ = signs;
        u_ = costs;
        a_ = a;
        random_ = Random(seed);
        start(b);
        LabelEnd end{b, infinity, -infinity, 0};
        if (total_ == 0.0 || max_visits < 1) {  // else an epoch tells as much as a look, and climbs
            end = look();
            write_weights(w);
        }
        for (double inner = tol; !within(tol, end) && visits_ < max_visits; inner *= 0.3) {
            restore();
            climb(inner, max_visits, poll);
            const LabelEnd seen = look();
            if (seen.primal < end.primal) {
                write_weights(w);
                end = seen;
            }
            end.dual = seen.dual;
        }
        end.visits = visits_;
        std::copy(best_.begin(), best_.end(), a);
        return end;
    }

private:
    static bool within(double tol, const LabelEnd& end) {
        return end.primal < infinity && end.primal - end.dual <= tol * std::fabs(end.primal);
    }

    double most(Size i) const { return squared_ ? infinity : u_[i]; }             // a dual may be
    double bend(Size i) const { return squared_ ? 0.5 / u_[i] : 0.0; }            // curvature of what it loses
    double lost(Size i, double a) const { return 0.5 * bend(i) * a * a; }

    Assessment assess(Size i, double room) const {
        if (!squared_) return LabelBox::assess(room, a_[i], u_[i]);
        const double hinge = std::max(0.0, room);
        const bool at_bound = room < 0.0 && a_[i] == 0.0;
        return {u_[i] * hinge * hinge - a_[i] * room + lost(i, a_[i]), at_bound ? 0.0 : std::fabs(room - bend(i) * a_[i])};
    }

    double score(Size i) const {
        const double centring = x_.mean_norm - x_.mean_dots[i] + x_.inverse_rho;
        return x_.rows.dot_dense(i, v_.data()) + sum_ * centring + (centre_ - mean_);
    }

    // b in the user's coordinates
    double offset() const { return x_.free_offset ? centre_ + sum_ * x_.inverse_rho - (mean_ - sum_ * x_.mean_norm) : 0.0; }

    double squared_norm() const {
        double raw = 0.0, sum = 0.0;
        for (double v : v_) raw += v * v;
        const double square = raw + sum_ * (x_.mean_norm * sum_ - 2.0 * mean_);
        if (!x_.free_offset || square > cancelled * raw) return square;
        for (Size j = 0; j < v_.size(); ++j) sum += (v_[j] - sum_ * x_.mean[j]) * (v_[j] - sum_ * x_.mean[j]);
        return sum;
    }

    void write_weights(double* w) const {
        for (Size j = 0; j < d_; ++j) w[j] = v_[j] - sum_ * x_.mean[j];
    }

    void start(double b) {
        std::fill(v_.begin(), v_.end(), 0.0);
        sum_ = mean_ = 0.0;
        total_ = 0.0;
        best_.assign(n_, 0.0);
        best_dual_ = -infinity;
        visits_ = 0;
        for (Size i = 0; i < n_; ++i) {
            a_[i] = t_[i] == 0 ? 0.0 : LabelBox::clip(a_[i], most(i));
            if (a_[i] != 0.0) push(i, a_[i] * t_[i]);
            total_ += a_[i] - lost(i, a_[i]);
        }
        to_best_multiple();
        centre_ = x_.free_offset ? b - sum_ * x_.inverse_rho + (mean_ - sum_ * x_.mean_norm) : 0.0;
        last_pull_ = last_step_ = 0.0;
    }

    // Duals of other costs, or of more rows, are often too large or too small altogether.
    void to_best_multiple() {
        double sum = 0.0;
        for (Size i = 0; i < n_; ++i) sum += a_[i];
        const double curvature = squared_norm() + 2.0 * (sum - total_);
        if (!(curvature > 0.0 && curvature < infinity)) return;
        const double factor = squared_ ? sum / curvature : std::min(1.0, sum / curvature);
        for (Size i = 0; i < n_; ++i) a_[i] *= factor;
        for (double& v : v_) v *= factor;
        total_ = factor * (sum - factor * (sum - total_));
        sum_ *= factor;
        mean_ *= factor;
    }

    void restore() {
        wake_all();
        low_ = -infinity;  // what was seen of s may have been wrong
        high_ = infinity;
    }

    void wake_all() {
        active_.clear();
        for (Size i = 0; i < n_; ++i) {
            if (t_[i] != 0) active_.push_back(static_cast<std::uint32_t>(i));
        }
        threshold_ = nearest_ = infinity;
        drift_ = 0.0;
    }

    void push(Size i, double step) {
        x_.rows.add_to_dense(i, step, v_.data());
        sum_ += step;
        mean_ += step * x_.mean_dots[i];
    }

    // Epochs, and moves of the centre between them, until gap and imbalance promise `tol`.
    void climb(double tol, std::int64_t max_visits, const Poll& poll) {
        int in_slice = 0;
        double before = 0.0;
        while (visits_ < max_visits) {
            const double seen = epoch(poll), size = std::fabs(total_ - 0.5 * squared_norm()) + seen;
            const double gap = seen < before ? seen * (seen / before) : seen;  // rows have moved since: as in the epoch before
            before = seen;
            ++in_slice;
            const double price = x_.free_offset ? x_.inverse_rho * sum_ * sum_ + std::fabs(sum_ * last_step_) : 0.0;
            if (gap + price <= 0.7 * tol * size || (gap == 0.0 && price == 0.0)) return;
            if (x_.free_offset && (in_slice >= 10 || gap <= 0.3 * std::max(tol * size, price))) {
                move_centre();
                in_slice = 0;
            }
        }
    }

    // One visit of each active row in random order; returns the gap of the rows as they were seen.
    double epoch(const Poll& poll) {
        random_.shuffle(active_, 1);
        double gap = 0.0, largest = 0.0;
        Size kept = 0;
        for (Size k = 0; k < active_.size(); ++k) {
            if ((k & 255) == 0) poll();
            if (k + 2 < active_.size()) x_.rows.prefetch(active_[k + 2]);
            const Size i = active_[k];
            const double t = t_[i], room = 1.0 - t * score(i);
            const Assessment seen = assess(i, room);
            gap += seen.gap;
            if (!(seen.violation > 0.0) && std::fabs(room) > threshold_) {  // it rests
                nearest_ = std::min(nearest_, std::fabs(room));
                continue;
            }
            active_[kept++] = active_[k];
            largest = std::max(largest, seen.violation);
            if (seen.violation > 0.0) move(i, t, room);
        }
        visits_ += std::max<std::int64_t>(1, static_cast<std::int64_t>(active_.size()));
        active_.resize(kept);
        threshold_ = largest;
        return gap;
    }

    void move(Size i, double t, double room) {
        const double square = x_.squares[i] + bend(i), slope = room - bend(i) * a_[i];
        const double next = square > 0.0 ? LabelBox::clip(a_[i] + slope / square, most(i)) : room > 0.0 ? u_[i] : 0.0;
        const double step = next - a_[i];
        if (step == 0.0) return;
        total_ += step - lost(i, next) + lost(i, a_[i]);
        a_[i] = next;
        push(i, t * step);
    }

    // The centre follows s / rho: by the secant where the last move tells how s changes with it, and between the centres where
    // s was seen to have either sign.
    void move_centre() {
        const double pull = x_.inverse_rho * sum_;
        if (pull == 0.0) return;
        (pull > 0.0 ? low_ : high_) = centre_;
        // no pull passes the root: a bracket that is narrower was wrong, as s is that of an ascent not at its end
        if (std::fabs(pull) > high_ - low_) (pull > 0.0 ? high_ : low_) = std::copysign(infinity, pull);
        const bool bracketed = high_ - low_ < infinity;
        const double slope = last_step_ != 0.0 ? (last_pull_ - pull) / last_step_ : 1.0;
        double step = pull * (slope > 0.0 ? std::min(farthest, 1.0 / slope) : 2.0);
        if (!bracketed) step = std::copysign(std::max(std::fabs(step), std::fabs(pull)), pull);
        if (bracketed && !(centre_ + step > low_ && centre_ + step < high_)) step = 0.5 * (low_ + high_) - centre_;
        last_pull_ = pull;
        last_step_ = step;
        centre_ += step;
        drift_ += std::fabs(step);
        if (drift_ > nearest_) wake_all();  // without the rows at rest s would be that of another problem
    }

    // F of the machine, with its scores looked at anew, and D of the balanced duals.
    LabelEnd look() {
        double loss = 0.0;
        const bool is_zero = total_ == 0.0;  // as every start without duals
        for (Size i = 0; i < n_; ++i) {
            if (t_[i] == 0) continue;
            const double hinge = LabelBox::loss(1.0 - t_[i] * (is_zero ? centre_ : score(i)));
            loss += u_[i] * hinge * (squared_ ? hinge : 1.0);
        }
        balance();
        const double dual = dual_of_balanced();
        if (dual > best_dual_) {
            best_dual_ = dual;
            best_ = balanced_;
        }
        return {offset(), loss + 0.5 * squared_norm(), best_dual_, visits_};
    }

    // Duals with s = 0: those inside their bounds move first, which costs nothing to first order at the optimum.
    void balance() {
        std::copy(a_, a_ + n_, balanced_.begin());
        if (!x_.free_offset) return;
        double sum = 0.0, inside = 0.0;
        for (Size i = 0; i < n_; ++i) {
            sum += t_[i] * a_[i];
            inside += t_[i] == 0 ? 0.0 : std::min(a_[i], most(i) - a_[i]);
        }
        const double part = inside > 0.0 ? std::min(1.0, std::max(-1.0, -sum / inside)) : 0.0;
        double up = 0.0, down = 0.0;
        for (Size i = 0; i < n_; ++i) {
            if (t_[i] == 0) continue;
            balanced_[i] = LabelBox::clip(a_[i] + t_[i] * part * std::min(a_[i], most(i) - a_[i]), most(i));
            (t_[i] > 0 ? up : down) += balanced_[i];
        }
        const double level = std::min(up, down);
        const double ups = up > 0.0 ? level / up : 0.0, downs = down > 0.0 ? level / down : 0.0;
        for (Size i = 0; i < n_; ++i) balanced_[i] *= t_[i] > 0 ? ups : downs;
    }

    double dual_of_balanced() {
        std::fill(fresh_.begin(), fresh_.end(), 0.0);
        double total = 0.0, square = 0.0;
        for (Size i = 0; i < n_; ++i) {
            if (balanced_[i] == 0.0) continue;
            total += balanced_[i] - lost(i, balanced_[i]);
            x_.rows.add_to_dense(i, balanced_[i] * t_[i], fresh_.data());
        }
        for (double v : fresh_) square += v * v;
        return total - 0.5 * square;
    }

    static constexpr double farthest = 32.0;  // times the pull

    const LabelRows& x_;
    const bool squared_;
    const Size n_, d_;
    const std::int8_t* t_ = nullptr;
    const double* u_ = nullptr;
    double* a_ = nullptr;
    std::vector<double> v_, fresh_, balanced_, best_;
    std::vector<std::uint32_t> active_;
    Random random_;
    double sum_ = 0.0, mean_ = 0.0, centre_ = 0.0, total_ = 0.0;  // s, v . m, the centre, the value of a
    double threshold_ = infinity, best_dual_ = -infinity;
    double nearest_ = infinity, drift_ = 0.0;  // how close a row at rest was to its margin; how far the centre has gone since
    double last_pull_ = 0.0, last_step_ = 0.0, low_ = -infinity, high_ = infinity;
    std::int64_t visits_ = 0;
};

}  // namespace polymargin

// Dual block-coordinate ascent for one convex step of the margin distribution machine: row by row as in row_loop.hpp, for the
// domain of band.hpp, whose rows carry a multiplier beta_i beside their duals.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "threads/chunks.hpp"
#include "loops/desk.hpp"
#include "loops/schedule.hpp"
#include "band_newton.hpp"

namespace polymargin {

class BandLoop {
public:
    // `frozen` is the paper's relaxation. The upper parts are absent until the first `relinearise`.
    BandLoop(const Rows& rows, const Index* y, const double* cost, Band band, bool frozen, const LoopSettings& settings)
        : state_(rows, y, cost), schedule_(rows.n_rows(), rows.bytes(), settings), band_(band), frozen_(frozen),
          newton_(state_, upper_, band_), n_(rows.n_rows()), c_(rows.n_classes()), seen_violation_(n_, 0.0f), desk_(c_),
          moved_(c_ + 2), steps_(c_ + 2) {
        upper_.beta.assign(n_, 0.0);
        upper_.rival.assign(n_, 0);
        upper_.seen_rival.assign(n_, 0);
        if (frozen) upper_.seen_level.assign(n_, 0.0);
    }

    // Epochs until the estimated relative gap promises `tol`, or until `max_visits` more rows have been visited.
    void ascend(std::int64_t max_visits, double tol, const Poll& poll) {
        const double last_check = progress().estimate;
        const std::int64_t stop = progress().visits + max_visits;
        for (std::int64_t k = 0; progress().visits < stop; ++k) {
            epoch(stop - progress().visits, poll);
            const bool fell = progress().estimate <= 0.8 * last_check || k >= 20;
            if (fell && schedule_.promises(tol, state_.dual)) break;
        }
    }

    // Every row looks at every class and at its upper part again.
    void restore() {
        for (Size i = 0; i < n_; ++i) state_.duals.restore(i);
        schedule_.wake_all();
    }

    // sum_i loss_i, stated and relaxed, at the current scores; the highest rivals and the violations are remembered for
    // `relinearise`.
    BandLoss evaluate(int n_threads, const Poll& poll) {
        seen_ = true;
        return sum_over_rows(
            n_, n_threads, poll, BandLoss{0.0, 0.0}, [&] { return std::vector<double>(padded(c_)); },
            [&](Size i, std::vector<double>& scores) { return evaluate_row(i, scores.data()); });
    }

    // The next convex step: the upper parts are measured against the rivals that `evaluate` (or a Newton pass) saw, linearised
    // or frozen at the scores they had there. A row whose beta has lost its rival is solved anew at once; many such betas that
    // moved to their new rivals unsolved would throw the machine far off. `gently` lets rows go on waiting or resting that
    // `evaluate` saw hardly violate their optimality conditions.
    void relinearise(bool gently, const Poll& poll) {
        if (!seen_) throw std::logic_error("rivals must have been seen: evaluate first");
        start_upper_parts();
        upper_.level = upper_.seen_level;
        if (gently) {
            wake_violating();
        } else {
            restore();
        }
        for (Size i = 0; i < n_; ++i) {
            if (upper_.rival[i] == upper_.seen_rival[i]) continue;
            const bool pulls = !frozen_ && upper_.beta[i] > 0.0;
            if (pulls) set_beta(i, 0.0);
            upper_.rival[i] = upper_.seen_rival[i];
            if (pulls) {
                wake(i);
                visit(i);
                schedule_.count_visits(1);
            }
            if ((i & 63) == 0) poll();
        }
        refresh_dual();
        schedule_.forget_estimates(gently ? 0.0 : infinity);  // gently: everything is looked at again after the next `evaluate`
    }

    // The exact dual value of the step (with an intercept: of the proximal problem).
    void refresh_dual() {
        state_.dual = concave_part() - 0.5 * state_.weights.proximal_norm();
        for (Size k = 0; k < c_; ++k) state_.dual -= state_.weights.centre()[k] * state_.weights.sums()[k];
    }

    // sum_i gain_i: the dual without -1/2 |W|^2
    double concave_part() const {
        double total = 0.0;
        for (Size i = 0; i < n_; ++i) {
            total += band_.gain(state_.row_sum(i), upper_.beta[i], band_.kappa(state_.cost[i]));
            if (upper_.kind == Upper::frozen) total -= upper_.beta[i] * upper_.level[i];
        }
        return total;
    }

    // flows[y][l]: what rows of class y take from class l; a beta goes the other way.
    std::vector<double> flows() const {
        std::vector<double> out = state_.flows();
        if (!upper_.has_class()) return out;
        for (Size i = 0; i < n_; ++i) out[flow(upper_.rival[i], state_.y[i])] += upper_.beta[i];
        return out;
    }

    struct Scaled {
        double linear, quadratic;  // the dual of t times the scaled duals is t linear - t^2 quadratic
    };

    // The duals factors[y_i][l] a_il and factors[r_i][y_i] beta_i, seen without changing the iterate. Frozen upper parts are
    // left out: what remains bounds the objective without its upper part.
    Scaled scaled(const double* factors, const Poll& poll) {
        Weights machine(state_.rows, state_.intercept, state_.metric);
        Scaled out{0.0, 0.0};
        for (Size i = 0; i < n_; ++i) {
            const auto& slot = state_.duals.slot(i);
            const double kappa = band_.kappa(state_.cost[i]);
            const double beta = upper_.has_class() ? upper_.beta[i] * factors[flow(upper_.rival[i], state_.y[i])] : 0.0;
            Size m = 0;
            double sum = 0.0;
            for (Index k = 0; k < slot.count; ++k) {
                moved_[m] = state_.duals.label(slot, k);
                const double a = state_.duals.values(slot)[k] * factors[flow(state_.y[i], moved_[m])];
                steps_[m++] = -a;
                sum += a;
            }
            if (sum == 0.0 && beta == 0.0) continue;
            out.linear += band_.lower() * sum - band_.upper() * beta;
            out.quadratic += (sum * sum + beta * beta / band_.mu) / (4.0 * kappa);
            add(i, m, sum, beta, machine);
            if ((i & 63) == 0) poll();
        }
        out.quadratic += 0.5 * machine.squared_norm();
        return out;
    }

    // Signed duals: a_il, and -beta_i for the class row i is measured against (frozen: for the label n_classes).
    SparseDuals sparse_duals() const {
        SparseDuals out;
        out.starts.push_back(0);
        for (Size i = 0; i < n_; ++i) {
            append_row(i, out);
            out.starts.push_back(static_cast<std::int64_t>(out.classes.size()));
        }
        return out;
    }

    // Starts from signed duals: before any others are set.
    void set_duals(const std::int64_t* starts, const Index* classes, const double* values) {
        start_upper_parts();
        for (Size i = 0; i < n_; ++i) {
            set_row(i, classes + starts[i], values + starts[i], static_cast<Size>(starts[i + 1] - starts[i]));
        }
        refresh_dual();
    }

    // Passes of the Newton method, each about as much work as a visit of every row.
    NewtonPass newton_pass(const double* W, const double* b, double damping, const Poll& poll) {
        seen_ = true;
        schedule_.count_visits(static_cast<std::int64_t>(n_));
        return newton_.pass(W, b, damping, poll);
    }
    void accept_newton() {
        newton_.check_ready();
        newton_.accept();
        refresh_dual();
        schedule_.forget_estimates();
    }
    BandNewton& newton() {
        newton_.check_ready();
        return newton_;
    }
    Size n_labels() const { return c_ + (frozen_ ? 1 : 0); }  // of signed duals

    DualState& state() { return state_; }
    const DualState& state() const { return state_; }
    const Progress& progress() const { return schedule_.progress(); }

    void move_centre(const double* to) {
        std::copy_n(to, c_, state_.weights.centre().begin());
        refresh_dual();
    }

private:
    void start_upper_parts() {
        upper_.kind = frozen_ ? Upper::frozen : Upper::linearised;
        upper_.level.assign(frozen_ ? n_ : 0, 0.0);
    }

    // Gives row i, so far without duals, signed ones of a warm start. A negative entry is a beta and names its rival; frozen
    // levels are those of the next `relinearise`.
    void set_row(Size i, const Index* classes, const double* values, Size count) {
        RowList list;
        desk_.begin(list);
        Size kept = 0;
        for (Size k = 0; k < count; ++k) {
            if (values[k] > 0.0) {
                list.classes[kept] = classes[k];
                list.a[kept++] = values[k];
            } else if (values[k] < 0.0) {
                if (!frozen_) upper_.rival[i] = classes[k];
                set_beta(i, -values[k]);
            }
        }
        state_.set_row(i, list.classes, list.a, kept);
    }

    void append_row(Size i, SparseDuals& out) const {
        const auto& slot = state_.duals.slot(i);
        const Index upper = upper_.has_class() ? upper_.rival[i] : static_cast<Index>(c_);
        const auto take = [&](Index label, double value) {
            out.classes.push_back(label);
            out.values.push_back(value);
        };
        double rest = -upper_.beta[i];
        for (Index k = 0; k < slot.count; ++k) {
            const Index label = state_.duals.label(slot, k);
            const double a = state_.duals.values(slot)[k];
            if (label == upper) {
                rest += a;
            } else if (a != 0.0) {
                take(label, a);
            }
        }
        if (rest != 0.0) take(upper, rest);
    }

    Size flow(Index from, Index to) const { return static_cast<Size>(from) * c_ + static_cast<Size>(to); }

    // machine += x_i tau': `count` entries in moved_ and steps_, then the own class and class r.
    void add(Size i, Size count, double sum, double beta, Weights& machine) {
        if (beta != 0.0 && upper_.has_class()) {
            const Index* at = std::find(moved_.data(), moved_.data() + count, upper_.rival[i]);
            const auto k = static_cast<Size>(at - moved_.data());
            if (k == count) {
                moved_[count] = upper_.rival[i];
                steps_[count++] = 0.0;
            }
            steps_[k] += beta;
        }
        if (sum != beta) {
            moved_[count] = state_.y[i];
            steps_[count++] = sum - beta;
        }
        machine.add(i, moved_.data(), steps_.data(), count);
    }

    void set_beta(Size i, double beta) {
        const double step = beta - upper_.beta[i];
        if (step == 0.0) return;
        add(i, 0, 0.0, step, state_.weights);
        upper_.beta[i] = beta;
    }

    // Rows that violate their optimality conditions by more than a share of the mean look at everything again.
    void wake_violating() {
        double sum = 0.0;
        for (Size i = 0; i < n_; ++i) sum += static_cast<double>(seen_violation_[i]);
        const auto quiet = static_cast<float>(quiet_share_ * sum / static_cast<double>(n_));
        for (Size i = 0; i < n_; ++i) {
            if (seen_violation_[i] > quiet) wake(i);
        }
    }

    // Row i looks at every class and at its upper part again.
    void wake(Size i) {
        state_.duals.restore(i);
        schedule_.wake(i);
    }

    // The largest violation of the row's optimality conditions, as `assess` sees it, but over all classes.
    double violation(Size i, const double* scores, double top, double kappa) const {
        const auto& slot = state_.duals.slot(i);
        const double* a = state_.duals.values(slot);
        const double own = scores[state_.y[i]], level = own - band_.lower() + state_.row_sum(i) / (2.0 * kappa);
        double lowest = level;
        for (Index k = 0; k < slot.count; ++k) {
            if (a[k] > 0.0) lowest = std::min(lowest, scores[state_.duals.label(slot, k)]);
        }
        const double beta = upper_.beta[i];
        const double wanted = own - top - band_.upper() - beta / (2.0 * kappa * band_.mu);
        return std::max(std::max(top, level) - lowest, beta > 0.0 ? std::fabs(wanted) : wanted);
    }

    BandLoss evaluate_row(Size i, double* scores) {
        state_.weights.all_scores(i, scores);
        const Index y = state_.y[i];
        const double own = scores[static_cast<Size>(y)], kappa = band_.kappa(state_.cost[i]);
        Index best = y == 0 ? 1 : 0;
        for (Index k = best + 1; k < static_cast<Index>(c_); ++k) {
            if (k != y && scores[static_cast<Size>(k)] > scores[static_cast<Size>(best)]) best = k;
        }
        const double top = scores[static_cast<Size>(best)], below = band_.below(own - top);
        upper_.seen_rival[i] = best;
        if (frozen_) upper_.seen_level[i] = top;
        seen_violation_[i] = static_cast<float>(violation(i, scores, top, kappa));
        double above = 0.0;
        if (upper_.kind == Upper::linearised) above = own - scores[static_cast<Size>(upper_.rival[i])];
        if (upper_.kind == Upper::frozen) above = own - upper_.level[i];
        return {band_.paid(below, band_.above(own - top), kappa), band_.paid(below, band_.above(above), kappa)};
    }

    void epoch(std::int64_t max_visits, const Poll& poll) {
        const bool again = schedule_.epoch(
            max_visits, poll,
            [&](Size k, const std::vector<std::uint32_t>& visits) {
                if (k + 5 < visits.size()) prefetch(visits[k + 5]);
                if (k + 2 < visits.size()) state_.duals.prefetch(visits[k + 2]);
                if (k + 1 < visits.size()) state_.rows.prefetch(visits[k + 1]);
            },
            [&](Size, Size i) { return visit(i); });
        if (again) restore();
    }

    void prefetch(Size i) const {
        state_.prefetch(i);
        PM_PREFETCH(&upper_.beta[i]);
        PM_PREFETCH(&upper_.rival[i]);
        PM_EFFECT();
    }

    Assessment visit(Size i) {
        BandRow row = look(i);
        const Assessment seen = band_.assess(row);
        const bool settled = band_.settled(row);
        schedule_.rest(i, settled);
        if (seen.violation > 0.0 && !settled) {
            desk_.narrow(row, 1);
            if (row.narrowed && row.upper == Upper::linearised) row.at_rival = position(row, upper_.rival[i]);
            band_.solve(row);
            move(i, row);
        }
        desk_.store(state_.duals, i, row);
        state_.duals.slot(i).target_active = row.upper != Upper::absent;
        return seen;
    }

    // of a class in the list; its length if it is not there
    static Size position(const RowList& row, Index label) {
        return static_cast<Size>(std::find(row.classes, row.classes + row.count, label) - row.classes);
    }

    // Gathers the list of row i: classes, duals and scores.
    BandRow look(Size i) {
        const auto& slot = state_.duals.slot(i);
        const Upper upper = slot.target_active ? upper_.kind : Upper::absent;
        BandRow row;
        desk_.begin(row);
        row.q = state_.q[i];
        row.kappa = band_.kappa(state_.cost[i]);
        row.upper = upper;
        row.at_rival = c_ + 2;
        row.g_rival = 0.0;
        row.beta = upper_.beta[i];
        row.next_beta = 0.0;
        if (slot.every) {
            look_at_every_class(i, slot, row);
        } else {
            look_at_list(i, slot, row);
        }
        if (upper == Upper::frozen) row.g_rival = upper_.level[i];
        return row;
    }

    void look_at_list(Size i, const DualRows::Slot& slot, BandRow& row) {
        desk_.list_active_classes(state_.duals, slot, row);
        Size wanted = row.count;
        row.classes[wanted++] = state_.y[i];
        if (row.upper == Upper::linearised) {
            row.at_rival = position(row, upper_.rival[i]);
            if (row.at_rival == row.count) row.classes[wanted++] = upper_.rival[i];
        }
        state_.weights.scores(i, row.classes, wanted, row.g);
        row.g_target = row.g[row.count];
        if (row.upper == Upper::linearised) row.g_rival = row.g[row.at_rival < row.count ? row.at_rival : row.count + 1];
    }

    void look_at_every_class(Size i, const DualRows::Slot& slot, BandRow& row) {
        const Index y = state_.y[i];
        state_.weights.all_scores(i, desk_.every());
        desk_.list_every_class(state_.duals, slot, y, row);
        if (row.upper == Upper::linearised) {
            const Index r = upper_.rival[i];
            row.at_rival = static_cast<Size>(r - (r > y ? 1 : 0));
            row.g_rival = desk_.every()[r];
        }
    }

    // Applies the step to the weights and the dual value.
    void move(Size i, BandRow& row) {
        Size m = 0;
        const double before = row.sum();
        double gain = 0.0, squares = 0.0, sum = 0.0;
        const double step_beta = row.next_beta - row.beta;
        for (Size k = 0; k < row.count; ++k) {
            const double step = row.next[k] - row.a[k];
            row.a[k] = row.next[k];
            if (step == 0.0) continue;
            moved_[m] = row.classes[k];
            steps_[m++] = -step;
            sum += step;
            gain += step * row.g[k];
            squares += step * step;
            if (k == row.at_rival && row.upper == Upper::linearised) squares -= 2.0 * step * step_beta;
        }
        const double own = sum - step_beta;
        gain -= own * row.g_target + step_beta * row.g_rival;
        squares += own * own + (row.upper == Upper::linearised ? step_beta * step_beta : 0.0);
        gain += band_.gain(before + sum, row.next_beta, row.kappa) - band_.gain(before, row.beta, row.kappa);
        state_.dual += gain - 0.5 * row.q * squares;
        upper_.beta[i] = row.next_beta;
        add(i, m, sum, step_beta, state_.weights);
    }

    DualState state_;
    Schedule schedule_;
    Band band_;
    bool frozen_;
    bool seen_ = false;  // the highest rivals, by a pass over all rows
    UpperParts upper_;
    BandNewton newton_;
    Size n_, c_;
    std::vector<float> seen_violation_;

    static constexpr double quiet_share_ = 0.3;  // of the mean violation

    // one row's workspace
    Desk desk_;
    std::vector<Index> moved_;
    std::vector<double> steps_;
};

}  // namespace polymargin

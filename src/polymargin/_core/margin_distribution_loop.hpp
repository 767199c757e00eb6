// Dual block-coordinate ascent for one convex step of the margin distribution machine: the loop of dual_loop.hpp (visiting,
// shrinking, waiting times) for the row sub-problem of margin_distribution.hpp, whose rows carry a multiplier
// beta_i beside their duals.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

#include "dual_loop.hpp"
#include "margin_distribution_newton.hpp"

namespace polymargin {

template <class Rows>
class MarginDistributionLoop {
public:
    // `frozen` is the paper's relaxation. The upper parts are absent until the first `relinearise`.
    MarginDistributionLoop(Rows rows, const Index* y, const double* cost, Band band, bool frozen, LoopSettings settings)
        : state_(rows, y, cost), problem_(band), frozen_(frozen), settings_(settings), random_(settings.seed), newton_(state_, upper_, problem_),
          n_(rows.n_rows()), c_(rows.n_classes()), row_gap_(n_, 0.0f), seen_violation_(n_, 0.0f), resting_(n_, 0),
          wait_(settings.waiting ? n_ : 0, 0), period_(wait_), classes_(c_ + 2), moved_(c_ + 2), a_(c_ + 2), g_(padded(c_ + 2)), next_(c_ + 2), scratch_(c_ + 2),
          every_(padded(c_)), steps_(c_ + 2) {
        visits_.reserve(n_);
        upper_.beta.assign(n_, 0.0);
        upper_.rival.assign(n_, 0);
        upper_.seen_rival.assign(n_, 0);
        if (frozen) upper_.seen_level.assign(n_, 0.0);
    }

    // Epochs until the estimated relative gap promises `tol`, or until `max_visits` more rows have been visited.
    void ascend(std::int64_t max_visits, double tol, const Poll& poll) {
        const double last_check = progress_.estimate;
        const std::int64_t stop = progress_.visits + max_visits;
        for (std::int64_t k = 0; progress_.visits < stop; ++k) {
            epoch(stop - progress_.visits, poll);
            const double estimate = progress_.estimate, scale = std::fabs(state_.dual + estimate);
            const bool fell = estimate <= 0.8 * last_check || k >= 20;
            if (fell && estimate <= 0.7 * tol * scale) break;
        }
    }

    // Every row looks at every class and at its upper part again.
    void restore() {
        for (Size i = 0; i < n_; ++i) wake(i);
        full_ = true;
    }

    // sum_i loss_i, stated and relaxed, at the current scores; the highest rivals and the violations are remembered for
    // `relinearise`. Chunks are fixed, so the number of threads changes no bit.
    BandLoss evaluate(int n_threads, const Poll& poll) {
        constexpr Size chunk = 2048;
        const Size n_chunks = (n_ + chunk - 1) / chunk;
        const Size n_workers = std::min<Size>(n_chunks, static_cast<Size>(std::max(1, n_threads)));
        std::vector<BandLoss> sums(n_chunks, BandLoss{0.0, 0.0});
        auto work = [&](Size first, bool polls) {
            std::vector<double> scores(padded(c_));
            for (Size b = first; b < n_chunks; b += n_workers) {
                for (Size i = b * chunk; i < std::min(n_, (b + 1) * chunk); ++i) {
                    const BandLoss loss = evaluate_row(i, scores.data());
                    sums[b].stated += loss.stated;
                    sums[b].relaxed += loss.relaxed;
                    if (polls && (i & 63) == 0) poll();
                }
            }
        };
        std::vector<std::thread> workers;
        auto join = [&] {
            for (auto& worker : workers) worker.join();
        };
        try {
            for (Size t = 1; t < n_workers; ++t) workers.emplace_back(work, t, false);
            work(0, true);
        } catch (...) {
            join();
            throw;
        }
        join();
        BandLoss total{0.0, 0.0};
        for (const BandLoss& s : sums) total = {total.stated + s.stated, total.relaxed + s.relaxed};
        return total;
    }

    // The next convex step: the upper parts are measured against the rivals that `evaluate` (or a Newton pass) saw, linearised
    // or frozen at the scores they had there. A row whose beta has lost its rival is solved anew at once; many such betas that
    // moved to their new rivals unsolved would throw the machine far off. `gently` lets rows go on waiting or resting that
    // `evaluate` saw hardly violate their optimality conditions.
    void relinearise(bool gently, const Poll& poll) {
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
                progress_.visits += 1;
            }
            if ((i & 63) == 0) poll();
        }
        refresh_dual();
        progress_.estimate = infinity;
        full_estimate_ = gently ? 0.0 : infinity;  // gently: everything is looked at again after the next `evaluate`
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
            total += problem_.gain(row_sum(i), upper_.beta[i], problem_.kappa(state_.cost[i]));
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
        Weights<Rows> machine(state_.rows, state_.intercept, state_.scales, state_.metric);
        Scaled out{0.0, 0.0};
        for (Size i = 0; i < n_; ++i) {
            const auto& slot = state_.duals.slot(i);
            const double kappa = problem_.kappa(state_.cost[i]);
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
            out.linear += problem_.band().lower() * sum - problem_.band().upper() * beta;
            out.quadratic += (sum * sum + beta * beta / problem_.band().mu) / (4.0 * kappa);
            add(i, m, sum, beta, machine);
            if ((i & 63) == 0) poll();
        }
        out.quadratic += 0.5 * machine.squared_norm();
        return out;
    }

    // Signed duals of row i: a_l, and -beta for the class it is measured against (frozen: for the label n_classes).
    template <class Take>
    void signed_row(Size i, Take take) const {
        const auto& slot = state_.duals.slot(i);
        const Index upper = upper_.has_class() ? upper_.rival[i] : static_cast<Index>(c_);
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

    // Gives row i, so far without duals, signed ones of a warm start. A negative entry is a beta and names its rival; frozen
    // levels are those of the next `relinearise`.
    void set_row(Size i, const Index* classes, const double* values, Size count) {
        Size kept = 0;
        for (Size k = 0; k < count; ++k) {
            if (values[k] > 0.0) {
                classes_[kept] = classes[k];
                a_[kept++] = values[k];
            } else if (values[k] < 0.0) {
                if (!frozen_) upper_.rival[i] = classes[k];
                set_beta(i, -values[k]);
            }
        }
        state_.set_row(i, classes_.data(), a_.data(), kept);
    }

    void start_upper_parts() {
        upper_.kind = frozen_ ? Upper::frozen : Upper::linearised;
        upper_.level.assign(frozen_ ? n_ : 0, 0.0);
    }

    // Passes of the Newton method, each about as much work as a visit of every row.
    NewtonPass newton_pass(const double* W, const double* b, double damping, const Poll& poll) {
        progress_.visits += static_cast<std::int64_t>(n_);
        return newton_.pass(W, b, damping, poll);
    }
    void accept_newton() {
        newton_.accept();
        refresh_dual();
        progress_.estimate = full_estimate_ = infinity;
    }
    BandNewton<Rows>& newton() { return newton_; }

    DualState<Rows>& state() { return state_; }
    const DualState<Rows>& state() const { return state_; }
    const Progress& progress() const { return progress_; }

private:
    Size flow(Index from, Index to) const { return static_cast<Size>(from) * c_ + static_cast<Size>(to); }

    double row_sum(Size i) const {
        const auto& slot = state_.duals.slot(i);
        const double* a = state_.duals.values(slot);
        double sum = 0.0;
        for (Index k = 0; k < slot.count; ++k) sum += a[k];
        return sum;
    }

    // machine += x_i tau': `count` entries in moved_ and steps_, then the own class and class r.
    void add(Size i, Size count, double sum, double beta, Weights<Rows>& machine) {
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
        resting_[i] = 0;
        if (settings_.waiting) wait_[i] = period_[i] = 0;
    }

    // The largest violation of the row's optimality conditions, as `assess` sees it, but over all classes.
    double violation(Size i, const double* scores, double top, double kappa) const {
        const auto& slot = state_.duals.slot(i);
        const double* a = state_.duals.values(slot);
        const double own = scores[state_.y[i]], level = own - problem_.band().lower() + row_sum(i) / (2.0 * kappa);
        double lowest = level;
        for (Index k = 0; k < slot.count; ++k) {
            if (a[k] > 0.0) lowest = std::min(lowest, scores[state_.duals.label(slot, k)]);
        }
        const double beta = upper_.beta[i];
        const double wanted = own - top - problem_.band().upper() - beta / (2.0 * kappa * problem_.band().mu);
        return std::max(std::max(top, level) - lowest, beta > 0.0 ? std::fabs(wanted) : wanted);
    }

    BandLoss evaluate_row(Size i, double* scores) {
        state_.weights.all_scores(i, scores);
        const Index y = state_.y[i];
        const double own = scores[static_cast<Size>(y)], kappa = problem_.kappa(state_.cost[i]);
        Index best = y == 0 ? 1 : 0;
        for (Index k = best + 1; k < static_cast<Index>(c_); ++k) {
            if (k != y && scores[static_cast<Size>(k)] > scores[static_cast<Size>(best)]) best = k;
        }
        const double top = scores[static_cast<Size>(best)], below = problem_.below(own - top);
        upper_.seen_rival[i] = best;
        if (frozen_) upper_.seen_level[i] = top;
        seen_violation_[i] = static_cast<float>(violation(i, scores, top, kappa));
        double above = 0.0;
        if (upper_.kind == Upper::linearised) above = own - scores[static_cast<Size>(upper_.rival[i])];
        if (upper_.kind == Upper::frozen) above = own - upper_.level[i];
        return {problem_.paid(below, problem_.above(own - top), kappa), problem_.paid(below, problem_.above(above), kappa)};
    }

    void epoch(std::int64_t max_visits, const Poll& poll) {
        double estimate = 0.0, violation_sum = 0.0;
        list_visits(estimate);
        random_.shuffle(visits_, state_.rows.bytes() > (Size{1} << 25) ? 4 : 1);
        if (static_cast<std::int64_t>(visits_.size()) > max_visits) visits_.resize(static_cast<Size>(max_visits));
        for (Size k = 0; k < visits_.size(); ++k) {
            if (k + 5 < visits_.size()) prefetch(visits_[k + 5]);
            if (k + 2 < visits_.size()) state_.duals.prefetch(visits_[k + 2]);
            if (k + 1 < visits_.size()) state_.rows.prefetch(visits_[k + 1]);
            if ((k & 63) == 0) poll();
            const Size i = visits_[k];
            const BandAssessment seen = visit(i);
            row_gap_[i] = static_cast<float>(seen.gap);
            estimate += seen.gap;
            violation_sum += seen.violation;
            if (settings_.waiting) set_waiting_time(i, seen.violation);
        }
        progress_.visits += std::max<std::int64_t>(1, static_cast<std::int64_t>(visits_.size()));
        progress_.epochs += 1;
        progress_.estimate = estimate;
        if (!visits_.empty()) quiet_level_ = violation_sum / static_cast<double>(visits_.size());
        if (full_) full_estimate_ = estimate;
        full_ = false;
        if (estimate <= 0.1 * full_estimate_) restore();
    }

    // What a visit reads of a row beside its features and duals.
    void prefetch(Size i) const {
        PM_PREFETCH(&state_.duals.slot(i));
        PM_PREFETCH(&state_.q[i]);
        PM_PREFETCH(&state_.cost[i]);
        PM_PREFETCH(&upper_.beta[i]);
        PM_PREFETCH(&upper_.rival[i]);
    }

    void list_visits(double& estimate) {
        visits_.clear();
        for (Size i = 0; i < n_; ++i) {
            if (resting_[i]) continue;
            if (settings_.waiting && wait_[i] > 0) {
                --wait_[i];
                estimate += static_cast<double>(row_gap_[i]);
            } else {
                visits_.push_back(static_cast<std::uint32_t>(i));
            }
        }
    }

    void set_waiting_time(Size i, double violation) {
        const int longer = std::min(settings_.longest_wait, 2 * period_[i] + 1);
        period_[i] = violation < quiet_level_ ? static_cast<std::uint8_t>(longer) : std::uint8_t{0};
        wait_[i] = period_[i];
    }

    BandAssessment visit(Size i) {
        BandRow row = look(i);
        const BandAssessment seen = problem_.assess(row);
        resting_[i] = BandProblem::settled(row);
        if (seen.violation > 0.0 && !resting_[i]) {
            if (row.count > widest_) narrow(row);
            problem_.solve(row);
            move(i, row);
        }
        store(i, row);
        return seen;
    }

    // With very many classes a row moves only its non-zero duals and the most violated classes (see dual_loop.hpp).
    void narrow(BandRow& row) {
        order_.resize(row.count);
        for (Size k = 0; k < row.count; ++k) order_[k] = k;
        const auto first_zero = std::partition(order_.begin(), order_.end(), [&](Size k) { return row.a[k] > 0.0; });
        const auto nonzero = static_cast<Size>(first_zero - order_.begin());
        const Size kept = std::min(row.count, nonzero + widest_ / 2);
        std::nth_element(first_zero, order_.begin() + static_cast<std::ptrdiff_t>(kept), order_.end(),
                         [&](Size k, Size l) { return row.g[k] != row.g[l] ? row.g[k] > row.g[l] : k < l; });
        std::sort(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(kept));
        Size at_rival = row.count;
        for (Size k = 0; k < kept; ++k) {
            if (order_[k] == row.at_rival) at_rival = k;
            row.keep(k, order_[k]);
        }
        row.at_rival = at_rival;
        row.count = kept;
        row.narrowed = true;
    }

    // Gathers the list of row i: classes, duals and scores.
    BandRow look(Size i) {
        const auto& slot = state_.duals.slot(i);
        const Upper upper = slot.target_active ? upper_.kind : Upper::absent;
        BandRow row{classes_.data(), a_.data(), g_.data(), next_.data(), scratch_.data(), 0, 0.0, state_.q[i],
                    problem_.kappa(state_.cost[i]), upper, c_ + 2, 0.0, upper_.beta[i], 0.0, false};
        if (slot.every) {
            look_at_every_class(i, slot, row);
        } else {
            look_at_list(i, slot, row);
        }
        if (upper == Upper::frozen) row.g_rival = upper_.level[i];
        return row;
    }

    void look_at_list(Size i, const DualRows::Slot& slot, BandRow& row) {
        row.count = static_cast<Size>(slot.active);
        for (Index k = 0; k < slot.active; ++k) row.classes[k] = state_.duals.label(slot, k);
        std::copy_n(state_.duals.values(slot), slot.active, row.a);
        Size wanted = row.count;
        row.classes[wanted++] = state_.y[i];
        if (row.upper == Upper::linearised) {
            row.at_rival = static_cast<Size>(std::find(row.classes, row.classes + row.count, upper_.rival[i]) - row.classes);
            if (row.at_rival == row.count) row.classes[wanted++] = upper_.rival[i];
        }
        state_.weights.scores(i, row.classes, wanted, row.g);
        row.g_target = row.g[row.count];
        if (row.upper == Upper::linearised) row.g_rival = row.g[row.at_rival < row.count ? row.at_rival : row.count + 1];
    }

    void look_at_every_class(Size i, const DualRows::Slot& slot, BandRow& row) {
        const Index y = state_.y[i];
        state_.weights.all_scores(i, every_.data());
        for (Index k = 0; k < static_cast<Index>(c_); ++k) {
            if (k == y) continue;
            row.classes[row.count] = k;
            row.a[row.count] = 0.0;
            row.g[row.count++] = every_[static_cast<Size>(k)];
        }
        const double* a = state_.duals.values(slot);
        for (Index k = 0; k < slot.count; ++k) {
            const Index label = state_.duals.label(slot, k);
            row.a[label - (label > y ? 1 : 0)] = a[k];
        }
        row.g_target = every_[static_cast<Size>(y)];
        if (row.upper == Upper::linearised) {
            const Index r = upper_.rival[i];
            row.at_rival = static_cast<Size>(r - (r > y ? 1 : 0));
            row.g_rival = every_[static_cast<Size>(r)];
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
        gain += problem_.gain(before + sum, row.next_beta, row.kappa) - problem_.gain(before, row.beta, row.kappa);
        state_.dual += gain - 0.5 * row.q * squares;
        upper_.beta[i] = row.next_beta;
        add(i, m, sum, step_beta, state_.weights);
    }

    // Writes the list back. A row looks at every class until enough have dropped to make a list pay.
    void store(Size i, const BandRow& row) {
        const bool every = state_.duals.slot(i).every && (row.narrowed || row.count > longest_list());
        const auto zeros = static_cast<Size>(std::count(row.a, row.a + row.count, 0.0));
        state_.duals.reserve(i, every ? row.count - zeros : row.count);
        auto& slot = state_.duals.slot(i);
        Index m = 0;
        for (Size k = 0; k < row.count; ++k) {
            if (!every || row.a[k] != 0.0) state_.duals.set(slot, m++, row.classes[k], row.a[k]);
        }
        slot.count = slot.active = m;
        slot.every = every;
        slot.target_active = row.upper != Upper::absent;
    }

    Size longest_list() const { return c_ <= widest_ ? c_ - 2 : widest_; }

    DualState<Rows> state_;
    BandProblem problem_;
    bool frozen_;
    UpperParts upper_;
    LoopSettings settings_;
    Random random_;
    BandNewton<Rows> newton_;
    Progress progress_;

    Size n_, c_;
    std::vector<float> row_gap_, seen_violation_;
    std::vector<std::uint8_t> resting_, wait_, period_;
    std::vector<std::uint32_t> visits_;
    bool full_ = true;
    double full_estimate_ = infinity, quiet_level_ = 0.0;

    static constexpr Size widest_ = 64;          // classes a row moves at a time
    static constexpr double quiet_share_ = 0.3;  // of the mean violation

    // one row's workspace
    std::vector<Size> order_;
    std::vector<Index> classes_, moved_;
    std::vector<double> a_, g_, next_, scratch_, every_, steps_;
};

}  // namespace polymargin

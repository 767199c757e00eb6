// Dual block-coordinate ascent over rows x domain x metric: one row of duals at a time, solved exactly if its domain knows the
// metric (domains/, metrics/). What makes it fast:
//   - classes that cannot matter leave a row's list, rows without a list rest (Keerthi et al. 2008; LIBLINEAR);
//   - rows that hardly violate their optimality conditions wait some epochs (schedule.hpp);
//   - once the free duals are known, conjugate gradients on that face replace hundreds of epochs (faces/);
//   - the last epochs are extrapolated, which needs no look at the rows (faces/extrapolation.hpp);
//   - where most duals are free, or rows tie and no face lasts, epochs gather momentum (faces/momentum.hpp);
//   - the average of an epoch as the machine that a look judges (closes), or that of some epochs' ends (join_average);
//   - some rows at a time, shared by threads, where rows have little to do with each other (rows_together.hpp).
#pragma once

#include <memory>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "faces/extrapolation.hpp"
#include "faces/face_step.hpp"
#include "faces/momentum.hpp"
#include "row_ascent.hpp"
#include "row_visit.hpp"
#include "rows_together.hpp"
#include "threads/team.hpp"
#include "threads/together.hpp"

namespace polymargin {

template <class Domain, class Metric>
class RowLoop final : public RowAscent {
public:
    RowLoop(const Domain& domain, const RowTask& task)
        : RowAscent(task, rules_of(domain, task), Metric::has_sum), domain_(domain), settings_(task.settings),
          face_(domain_, state_), extrapolation_(state_), momentum_(state_), c_(state_.n_classes()), reads_ahead_(Metric::between_classes && !task.rows.is_sparse()),
          together_(Metric::between_classes ? 1 : settings_.together, state_.rows), all_classes_(every_class(c_)), visit_(domain_, all_classes_) {
        static_assert(!(Domain::absolute && Metric::between_classes), "its steps must add up to zero");
        if (Metric::has_scales) state_.metric.scales.assign(c_, 1.0);
        if (Metric::between_classes) {
            state_.metric.P.assign(c_ * c_, 0.0);
            for (Size k = 0; k < c_; ++k) state_.metric.P[k * c_ + k] = 1.0;
            inner_.resize(ahead * padded(c_));
        }
    }

    void ascend(std::int64_t max_visits, double tol, const Poll& poll) override {
        const double last_check = progress().estimate;
        const std::int64_t stop = progress().visits + max_visits;
        if (together_.most() > 1 && !rows_together_) prepare_together();
        Team team(rows_together_ ? std::min(settings_.n_threads, static_cast<int>(Weights::most_parts)) : 1);
        together_.begin(state_, progress().visits);
        average_.reset();
        visits_averaged_ = 0.0;
        visits_at_average_ = progress().visits;
        if (!state_.intercept.on) extrapolation_.forget();
        bool stepped = false;  // what gains dual value by a step has its primal one only after the next epoch
        for (std::int64_t k = 0; progress().visits < stop || stepped; ++k) {
            const double at_start = state_.dual;
            if constexpr (may_gather) gather_momentum(stop, poll);
            const std::int64_t before = progress().visits, least = stepped ? static_cast<std::int64_t>(state_.n_rows()) : 0;
            const double dual = state_.dual;
            epoch(std::max(stop - before, least), team, poll);
            if (has_momentum_ && hurries()) momentum_.judge(state_.dual - at_start);
            gain_of_visit_ = (state_.dual - dual) / static_cast<double>(progress().visits - before);
            if (averages_slices_) join_average(stop);
            if (state_.metric.shrinkage.on()) state_.refresh_dual();  // steps have gained more than their bound
            const bool fell = progress().estimate <= 0.8 * last_check || k >= 20;
            if ((fell || settings_.averages) && closes(tol, stop, team, poll)) break;
            if (before >= stop) break;
            if (extrapolates() && progress().visits < stop) extrapolate(progress().visits - before, poll);
            if constexpr (has_faces) stepped = try_face_step(tol, poll);
            together_.check(state_, progress().visits, false);
        }
        if (visits_averaged_ > 0.0) average_->multiply(1.0 / visits_averaged_);
        // beside an intercept duals are summed up anew wherever they are to prove something
        has_lost_ |= extrapolation_.lost() > (state_.intercept.on ? lost_at_most : 0.0);
        if (std::exchange(has_lost_, false)) extrapolation_.sum_up_again(poll);
        together_.check(state_, progress().visits, true);
    }

private:
    static LossRules rules_of(const Domain& domain, const RowTask& task) {
        LossRules rules;
        rules.absolute = Domain::absolute;
        rules.own_weight = domain.weight(true);
        rules.rival_weight = domain.weight(false);
        rules.squares = Domain::squares;
        rules.room = [domain](const RowDuals& duals) { return domain.room(duals); };
        rules.square = [domain](const RowDuals& duals) { return domain.square(duals); };
        if constexpr (Domain::has_faces || Domain::squares != Squares::none) {
            rules.project = [domain](const RowDuals& duals, bool closed, double held, double* a, double* scratch) {
                domain.project(duals, closed, held, a, scratch);
            };
        }
        rules.targets = task.targets;
        return rules;
    }

    double loss_of(Size i, double* scores) const override {
        const double own = scores[state_.y[i]];
        state_.slopes_from(i, all_classes_.data(), c_, 1.0, scores);
        if (!Domain::absolute) scores[state_.y[i]] = own;  // only its rivals have targets
        return domain_.loss(scores, c_, static_cast<Size>(state_.y[i]));
    }

    // Whether a look at the true gap is due. Rows and classes at rest are no part of the estimate: one epoch over all of them
    // tells. The machine on its way through it, on average, is better than the one at its end, where all rows but the last have
    // become stale; its gap is about half of what the rows have seen.
    bool closes(double tol, std::int64_t stop, Team& team, const Poll& poll) {
        if (!settings_.averages) return schedule_.promises(tol, state_.dual);
        const bool near = schedule_.promises(ahead_of_average * tol, state_.dual) && progress().estimate <= next_average_;
        if (!near || progress().visits >= stop) return false;
        restore();
        average_ = std::make_unique<Weights>(state_.rows, state_.intercept, state_.metric);
        epoch(stop - progress().visits, team, poll);
        average_->multiply(-1.0);  // so far it is what the end has more
        average_->add(1.0, state_.weights);
        average_->centre() = state_.weights.centre();
        const double seen = progress().estimate;
        schedule_.expect(gap_of_average * seen);
        const bool promises = schedule_.promises(after_average * tol, state_.dual);
        next_average_ = (promises ? after_look : gap_of_average) * seen;
        if (!promises) average_.reset();
        return promises;
    }

    // The machine at the end of an epoch, or of some that are as many visits.
    void join_average(std::int64_t stop) {
        const double visits = static_cast<double>(progress().visits - visits_at_average_);
        if (visits < static_cast<double>(state_.n_rows()) && progress().visits < stop) return;
        if (!average_) average_ = std::make_unique<Weights>(state_.rows, state_.intercept, state_.metric);
        average_->add(visits, state_.weights);
        average_->centre() = state_.weights.centre();
        visits_averaged_ += visits;
        visits_at_average_ = progress().visits;
    }

    // a metric between the classes moves too often for faces; see solvers/newton/active_set.py
    static constexpr bool has_faces = Domain::has_faces && !Metric::between_classes;
    struct NoFaces {
        NoFaces(const Domain&, DualState&) {}
    };
    using Faces = std::conditional_t<has_faces, FaceStep<Domain>, NoFaces>;

    bool extrapolates() const {
        if (hurries()) return false;
        constexpr bool knows_how = has_faces && !Domain::absolute && !Metric::has_scales && !Metric::has_sum;
        return knows_how && (settings_.averages || state_.intercept.on) && !state_.shifted && !state_.metric.shrinkage.on();
    }

    // After another epoch, of so many visits.
    void extrapolate(std::int64_t visits, const Poll& poll) {
        const double before = state_.dual;
        if (extrapolation_.epoch_is_over(poll)) {
            const bool paid = state_.dual - before >= gain_of_visit_ * extrapolation_.price();
            patience_ = paid ? 1 : 2 * patience_;
            epochs_left_ = patience_;
        }
        if (--epochs_left_ > 0) return;
        const bool near = progress().estimate <= settings_.extrapolate_from * std::fabs(state_.dual);
        if (!extrapolation_.is_on() && near && extrapolation_.pays(visits)) extrapolation_.begin();
    }

    // What momentum moves can be projected back where it leaves its domain.
    static constexpr bool may_gather = (Domain::has_faces || Domain::squares == Squares::of_gauge) && !Metric::between_classes && !Metric::has_scales;

    // Squared maxima, or means of the two largest, with few unknowns: their rows tie, and neither faces nor combinations of epochs last.
    // (Of more of the largest epochs alone are quick.)
    bool hurries() const {
        constexpr bool ties = may_gather && (Domain::squares == Squares::of_sum || Domain::squares == Squares::of_gauge);
        return ties && domain_.fewest() <= 4 && Unknowns::fit(state_) && !state_.shifted;
    }

    bool knows_better_than_momentum() const {
        const bool direct = Domain::squares != Squares::none && Unknowns::fit(state_);
        return state_.metric.shrinkage.on() || state_.shifted || (!hurries() && (!has_faces || extrapolates() || direct));
    }

    // Where most duals are free, or faces do not last and the estimate falls slowly.
    void gather_momentum(std::int64_t stop, const Poll& poll) {
        const bool hurried = hurries();
        const Momentum::Rhythm& rhythm = hurried ? Momentum::quick : Momentum::steady;
        const double n = static_cast<double>(state_.n_rows());
        const std::int64_t now = progress().visits, since = static_cast<std::int64_t>(rhythm.since * n);
        if (now < std::max(next_momentum_, since) || static_cast<double>(stop - now) < rhythm.left * n || knows_better_than_momentum()) return;
        next_momentum_ = now + since;
        const double last = std::exchange(estimate_at_momentum_, progress().estimate);
        has_momentum_ = hurried ? progress().estimate >= slow_pace * last : most_are_free(rhythm.since * n);
        if (!has_momentum_) return momentum_.forget();
        poll();
        if (!hurried) restore();  // all rows look at everything after it; the epochs left clear what it disturbs
        momentum_.step(rhythm);
        has_lost_ |= !state_.intercept.on;
    }

    bool most_are_free(double visits) const {
        const double n_free = count_free(), n_duals = (domain_.has_rivals() ? static_cast<double>(c_ - 1) : 0.0) + (domain_.has_own() ? 1.0 : 0.0);
        return n_free >= 0.5 * static_cast<double>(state_.n_rows()) * n_duals && momentum_.pays(visits, n_free);
    }

    double count_free() const {
        Size n_free = 0;
        for (Size i = 0; i < state_.n_rows(); ++i) {
            const auto& slot = state_.duals.slot(i);
            const double* a = state_.duals.values(slot);
            for (Index k = 0; k < slot.count; ++k) {
                if constexpr (has_faces) n_free += domain_.is_free(a[k], state_.cost[i], Domain::absolute && state_.duals.label(slot, k) == state_.y[i]);
            }
        }
        return static_cast<double>(n_free);
    }

    // Whether a step was made.
    bool try_face_step(double tol, const Poll& poll) {
        const double estimate = progress().estimate, scale = std::fabs(state_.dual + estimate);
        if (state_.metric.shrinkage.on() || has_momentum_) return false;  // no face of it is quadratic, or none is small
        if (Domain::squares != Squares::none && !hurries() && face_.is_direct()) {  // what is not squared finds its faces too late for it
            return estimate <= settings_.direct_from * scale && try_direct_step(tol * scale, poll);
        }
        if (estimate > settings_.face_from * scale || progress().epochs % settings_.face_every != 0) return false;
        // not if as many epochs will do, at the pace of the last ones
        const double last = std::exchange(estimate_at_face_, estimate), pace = last < infinity ? estimate / last : usual_pace;
        if (pace * estimate <= tol * scale) return false;
        // A part of the work of the epochs since the last try: more after steps that gained more than visits of the same work would
        // have, or that were not to be had for it, and less after others. So it can at worst double the cost.
        const double since = static_cast<double>(progress().visits - visits_at_face_), before = state_.dual;
        const Size took = face_.step(static_cast<Size>(face_share_ * since), poll);
        const bool paid = state_.dual - before >= gain_of_visit_ * static_cast<double>(took);  // or there was none
        face_share_ = paid ? std::min(1.0, 2.0 * face_share_) : 0.5 * face_share_;
        if (took > 0) extrapolation_.forget();  // its epochs are those of another face
        schedule_.count_visits(static_cast<std::int64_t>(took));
        visits_at_face_ = progress().visits;
        return took > 0;
    }

    // Where the unknowns are few, as soon as the epochs since the last step have been as much work.
    bool try_direct_step(double goal, const Poll& poll) {
        const double estimate = progress().estimate, last = std::exchange(estimate_at_direct_, estimate);
        if (last < infinity && estimate * estimate <= goal * last) return false;  // the next epoch will do
        const auto since = static_cast<Size>(progress().visits - visits_at_direct_);
        const Size took = face_.direct_step(since, poll);
        if (took == 0) return false;
        extrapolation_.forget();
        schedule_.count_visits(static_cast<std::int64_t>(took));
        visits_at_direct_ = progress().visits;
        return true;
    }

    static std::vector<Index> every_class(Size c) {
        std::vector<Index> classes(c + 1);  // with a coupling the sum is one more
        std::iota(classes.begin(), classes.end(), Index{0});
        return classes;
    }

    // Sparse rows come one by one, as do those whose threshold needs all classes.
    void prepare_together() {
        if (!state_.weights.has_parts()) {
            together_ = Together(1, state_.rows);
        } else if constexpr (!Metric::between_classes) {
            rows_together_ = std::make_unique<RowsTogether<Domain, Metric>>(domain_, state_, schedule_, extrapolation_, all_classes_, together_.most());
        }
    }

    void epoch(std::int64_t max_visits, Team& team, const Poll& poll) {
        bool again = false;
        if constexpr (Metric::between_classes) {
            again = epoch_one_by_one(max_visits, poll);
        } else if (together_.now() == 1) {
            again = epoch_one_by_one(max_visits, poll);
        } else {
            again = rows_together_->epoch(together_.now(), max_visits, averages_slices_ ? nullptr : average_.get(), team, poll);
        }
        if (again) restore();
    }

    bool epoch_one_by_one(std::int64_t max_visits, const Poll& poll) {
        return schedule_.epoch(
            max_visits, poll,
            [&](Size k, const std::vector<std::uint32_t>& visits) {
                if (k + 5 < visits.size()) state_.prefetch(visits[k + 5]);
                if (k + 2 < visits.size()) state_.duals.prefetch(visits[k + 2]);
                const Size next = k + (reads_ahead_ ? ahead : 1);
                if (next < visits.size()) state_.rows.prefetch(visits[next]);
            },
            [&](Size k, Size i) {
                if (Metric::between_classes && reads_ahead_) read_ahead(k);
                return visit(i);
            });
    }

    Assessment visit(Size i) {
        visit_.begin(state_, i);
        read();
        visit_.examine(state_, schedule_.usual_threshold());
        settle(i);
        return visit_.seen;
    }

    void read() {
        if (!Metric::between_classes || !reads_ahead_) return visit_.read(state_.weights);
        if (visit_.wants_all()) return state_.weights.all_metric_scores(visit_.i, inner(at_), visit_.scores);
        state_.weights.metric_scores(visit_.i, visit_.wanted, visit_.n_wanted, inner(at_), visit_.scores);
    }

    void settle(Size i) {
        schedule_.rest(i, visit_.is_settled());
        if (visit_.moves()) {
            state_.dual += visit_.gain;
            if (visit_.n_moved > 0) extrapolation_.note(i);
            if (average_ && !averages_slices_ && visit_.n_moved > 0) lag_behind(i);
            state_.weights.add(i, visit_.moved.data(), visit_.steps.data(), visit_.n_moved);
            if (Metric::between_classes && reads_ahead_) tell_those_ahead(i);
        }
        visit_.store(state_.duals);
    }

    // A step counts for the rest of the epoch; what is taken off the end of it is the part before.
    void lag_behind(Size i) {
        lags_.resize(visit_.n_moved);
        for (Size k = 0; k < visit_.n_moved; ++k) lags_[k] = schedule_.part_of_epoch() * visit_.steps[k];
        average_->add(i, visit_.moved.data(), lags_.data(), visit_.n_moved);
    }

    // With a metric between the classes a row's scores take all class vectors. Some dense rows share one pass over them; the step of one is
    // added to the inner products of those behind it when it is taken.
    void read_ahead(Size k) {
        at_ = k % ahead;
        if (at_ > 0) return;
        const auto& visits = schedule_.listed();
        double* out[ahead];
        for (n_ahead_ = 0; n_ahead_ < ahead && k + n_ahead_ < visits.size(); ++n_ahead_) {
            rows_ahead_[n_ahead_] = visits[k + n_ahead_];
            out[n_ahead_] = inner(n_ahead_);
        }
        state_.weights.inner_products(rows_ahead_, n_ahead_, out);
    }

    void tell_those_ahead(Size i) {
        for (Size r = at_ + 1; r < n_ahead_; ++r) {
            const double with = state_.rows.dot_rows(i, rows_ahead_[r]);
            for (Size k = 0; k < visit_.n_moved; ++k) inner(r)[visit_.moved[k]] += with * visit_.steps[k];
        }
    }

    double* inner(Size r) { return &inner_[r * padded(c_)]; }

    const Domain domain_;
    LoopSettings settings_;
    Faces face_;
    Extrapolation extrapolation_;
    static constexpr double lost_at_most = 1e-12;  // by extrapolation, of the class vectors
    Momentum momentum_;
    bool has_momentum_ = false;
    double estimate_at_momentum_ = infinity;        // when one was thought of
    static constexpr double slow_pace = 0.6;        // what is left of it where that falls slowly
    std::int64_t next_momentum_ = 0;                    // visits from which on the next one is due
    bool has_lost_ = false;                             // digits, by combinations of machines
    std::int64_t visits_at_face_ = 0;
    double face_share_ = 0.25;                 // of the work of epochs
    double estimate_at_face_ = infinity;       // when one was thought of
    std::int64_t visits_at_direct_ = 0;        // the same of steps in the unknowns
    // epochs before they are extrapolated again: more after steps that visits of the same work would have gained more than
    int patience_ = 1, epochs_left_ = 0;
    double estimate_at_direct_ = infinity;
    double gain_of_visit_ = 0.0;               // of the dual, in the last epoch
    static constexpr double usual_pace = 0.3;  // what is left of an estimate from one time to the next
    Size c_;
    bool reads_ahead_;  // inner products of some rows at a time

    Together together_;
    std::unique_ptr<RowsTogether<Domain, Metric>> rows_together_;
    std::vector<double> lags_;
    // the gap of the average, in what the rows have seen; and when it is tried and looked at, in 0.7 tolerances
    static constexpr double gap_of_average = 0.5, ahead_of_average = 3.6, after_average = 1.25;
    static constexpr double after_look = 0.8;  // what must be left of an estimate that promised too much
    double visits_averaged_ = 0.0;    // of slices whose epochs' ends are
    std::int64_t visits_at_average_ = 0;  // when one joined them
    double next_average_ = infinity;  // estimate from which on it is tried again
    static constexpr Size ahead = 8;
    Size at_ = 0, n_ahead_ = 0, rows_ahead_[ahead];  // the one that is visited, of those that were read together
    std::vector<double> inner_;                      // their inner products with all class vectors
    std::vector<Index> all_classes_;
    RowVisit<Domain, Metric> visit_;  // of one row at a time
};

}  // namespace polymargin

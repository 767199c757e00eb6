// Dual block-coordinate ascent over rows x domain x metric: one row of duals at a time, solved exactly if its domain knows the
// metric (domains/, metrics/). What makes it fast:
//   - classes that cannot matter leave a row's list, rows without a list rest (Keerthi et al. 2008; LIBLINEAR);
//   - rows that hardly violate their optimality conditions wait some epochs (schedule.hpp);
//   - once the free duals are known, conjugate gradients on that face replace hundreds of epochs (face_step.hpp);
//   - the average of an epoch as the machine that a look judges (closes);
//   - some rows at a time, shared by threads, where rows have little to do with each other (together.hpp).
#pragma once

#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "domains/common/solve_in.hpp"
#include "desk.hpp"
#include "face_step.hpp"
#include "row_ascent.hpp"
#include "rows/team.hpp"
#include "together.hpp"

namespace polymargin {

template <class Domain, class Metric>
class RowLoop final : public RowAscent {
public:
    RowLoop(const Domain& domain, const RowTask& task)
        : RowAscent(task, rules_of(domain, task), Metric::has_sum), domain_(domain), settings_(task.settings),
          face_(domain_, state_), c_(state_.n_classes()), reads_ahead_(Metric::between_classes && !task.rows.is_sparse()),
          together_(reads_ahead_ ? 1 : settings_.together, state_.rows), places_(together_.most(), Place(domain_, c_)),
          all_classes_(c_) {
        static_assert(!(Domain::absolute && Metric::between_classes), "its steps must add up to zero");
        std::iota(all_classes_.begin(), all_classes_.end(), Index{0});
        if (Metric::has_scales) state_.metric.scales.assign(c_, 1.0);
        if (Metric::between_classes) {
            state_.metric.P.assign(c_ * c_, 0.0);
            for (Size k = 0; k < c_; ++k) state_.metric.P[k * c_ + k] = 1.0;
            inner_.resize(padded(c_));
            ahead_.resize(padded(c_));
        }
    }

    void ascend(std::int64_t max_visits, double tol, const Poll& poll) override {
        const double last_check = progress().estimate;
        const std::int64_t stop = progress().visits + max_visits;
        Team team(together_.most() > 1 ? settings_.n_threads : 1);
        if (team_size_ != team.size()) parts_ = state_.weights.parts(std::min(team_size_ = team.size(), together_.most()));
        together_.begin(state_, progress().visits);
        average_.reset();
        next_average_ = infinity;
        for (std::int64_t k = 0; progress().visits < stop; ++k) {
            epoch(stop - progress().visits, team, poll);
            if (state_.metric.shrinkage.on()) state_.refresh_dual();  // steps have gained more than their bound
            const bool fell = progress().estimate <= 0.8 * last_check || k >= 20;
            if ((fell || settings_.averages) && closes(tol, stop, team, poll)) break;
            if constexpr (has_faces) try_face_step(tol, poll);
            together_.check(state_, progress().visits, false);
        }
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
        schedule_.expect(gap_of_average * progress().estimate);
        if (schedule_.promises(after_average * tol, state_.dual)) return true;
        average_.reset();
        next_average_ = progress().estimate;
        return false;
    }

    // a metric between the classes moves too often for faces; see solvers/newton/active_set.py
    static constexpr bool has_faces = Domain::has_faces && !Metric::between_classes;
    struct NoFaces {
        NoFaces(const Domain&, DualState&) {}
    };
    using Faces = std::conditional_t<has_faces, FaceStep<Domain>, NoFaces>;

    void try_face_step(double tol, const Poll& poll) {
        const double estimate = progress().estimate, scale = std::fabs(state_.dual + estimate);
        if (state_.metric.shrinkage.on()) return;  // no face of it is quadratic
        if (estimate > settings_.face_from * scale || progress().epochs % settings_.face_every != 0) return;
        // as much work as the epochs since the last face step, so that it can at worst double the cost; less if few epochs are left
        const double left = std::clamp(std::log10(estimate / (tol * scale)), 0.0, 1.0);
        const auto since = static_cast<double>(progress().visits - visits_at_face_);
        const Size taken = face_.step(static_cast<Size>(left * since), poll);
        schedule_.count_visits(static_cast<std::int64_t>(taken));
        if (taken > 0) visits_at_face_ = progress().visits;
    }

    // Where a row is visited. What it finds lies there until it moves.
    struct Place {
        Place(const Domain& the_domain, Size c)
            : domain(the_domain), desk(c), room(c + 1), moved(c + 1), parked(c + 1), steps(c + 1), parked_duals(c + 1) {}

        Domain domain;  // some have room for their own use
        Desk desk;
        RowRoom room;
        RowView row{};
        Assessment seen{};
        Size n_moved = 0;
        double gain = 0.0;  // of the dual, if this row moves and no other
        std::vector<Index> moved, parked;
        std::vector<double> steps, parked_duals;
    };

    void epoch(std::int64_t max_visits, Team& team, const Poll& poll) {
        const bool again = together_.now() > 1 ? epoch_together(max_visits, team, poll) : epoch_one_by_one(max_visits, poll);
        if (again) restore();
    }

    bool epoch_one_by_one(std::int64_t max_visits, const Poll& poll) {
        return schedule_.epoch(
            max_visits, poll,
            [&](Size k, const std::vector<std::uint32_t>& visits) {
                if (k + 2 < visits.size()) state_.duals.prefetch(visits[k + 2]);
                if (k + 1 < visits.size()) state_.rows.prefetch(visits[k + 1]);
            },
            [&](Size k, Size i, Size next) {
                if constexpr (!Metric::between_classes) return visit(i);
                if (!reads_ahead_) return visit(i);
                if (k % 2 == 0) read_two(i, next);
                const Assessment seen = visit(i);
                if (k % 2 == 0) std::swap(inner_, ahead_);
                return seen;
            });
    }

    bool epoch_together(std::int64_t max_visits, Team& team, const Poll& poll) {
        return schedule_.epoch_together(
            together_.now(), max_visits, poll,
            [&](const std::uint32_t* rows, Size count, Size listed) {
                team.share(count, [&](Size k) {
                    const Size next = k + team.size();  // by the same thread, more or less
                    if (next < listed) state_.rows.prefetch(rows[next]);
                    if (next + 1 < listed) state_.duals.prefetch(rows[next + 1]);
                    examine(rows[k], places_[k]);
                });
                team.share(parts_.size(), [&](Size part) {
                    for (Size k = 0; k < count; ++k) add_part(parts_[part], rows[k], places_[k], places_[part].room);
                });
                for (Size k = 0; k < count; ++k) settle(rows[k], places_[k], !parts_.empty());
            },
            [&](Size k) { return places_[k].seen; });
    }

    Assessment visit(Size i) {
        Place& place = places_[0];
        examine(i, place);
        settle(i, place);
        return place.seen;
    }

    // Finds the step of row i, and changes nothing but `place`.
    void examine(Size i, Place& place) {
        RowView& row = place.row;
        look(i, place);
        place.seen = place.domain.assess(row, schedule_.threshold());
        place.n_moved = 0;
        place.gain = 0.0;
        if (!(place.seen.violation > 0.0)) return;
        const Metric metric = metric_of(i);
        place.desk.narrow(row, place.domain.fewest());
        solve_in(metric, place.domain, row);
        list_steps(place, metric);
    }

    void add_part(const WeightPart& part, Size i, const Place& place, RowRoom& room) {
        if (place.n_moved > 0) state_.weights.add_part(part, i, place.moved.data(), place.steps.data(), place.n_moved, room);
    }

    // Row i moves; its class vectors may have been moved in parts already.
    void settle(Size i, Place& place, bool in_parts = false) {
        const RowView& row = place.row;
        schedule_.rest(i, place.domain.settled(row));
        if (place.seen.violation > 0.0) {
            state_.dual += place.gain;
            if (in_parts) {
                state_.weights.add_sums(i, place.moved.data(), place.steps.data(), place.n_moved);
            } else {
                state_.weights.add(i, place.moved.data(), place.steps.data(), place.n_moved);
            }
            if (average_ && place.n_moved > 0) lag_behind(i, place);
            if (Metric::between_classes && reads_ahead_) {
                for (Size k = 0; k < place.n_moved; ++k) ahead_[static_cast<Size>(place.moved[k])] += with_next_ * place.steps[k];
            }
        }
        place.desk.store(state_.duals, i, row, row.parked_classes, row.parked_duals, row.n_parked);
        state_.duals.slot(i).target_active = row.target_active;
    }

    // A step counts for the rest of the epoch; what is taken off the end of it is the part before.
    void lag_behind(Size i, const Place& place) {
        lags_.resize(place.n_moved);
        for (Size k = 0; k < place.n_moved; ++k) lags_[k] = schedule_.part_of_epoch() * place.steps[k];
        average_->add(i, place.moved.data(), lags_.data(), place.n_moved);
    }

    // The metric as row i sees it.
    Metric metric_of(Size i) const {
        if constexpr (Metric::has_scales) {
            return {state_.metric.scales.data(), state_.q[i], state_.intercept.inverse_rho};
        } else if constexpr (Metric::between_classes) {
            return {state_.metric.P.data(), c_, static_cast<Size>(state_.y[i]), state_.q[i]};
        } else if constexpr (Metric::has_sum) {
            const CoupledCurvature& q = state_.coupled_q[i];
            return {q.apart, q.together, static_cast<double>(c_), !Domain::absolute};
        } else {
            return {state_.q[i]};
        }
    }

    // Gathers the list of row i: classes, duals and g.
    void look(Size i, Place& place) {
        const auto& slot = state_.duals.slot(i);
        RowView& row = place.row;
        place.desk.begin(row);
        row.cost = state_.cost[i];
        row.y = state_.y[i];
        row.target_active = slot.target_active;
        row.parked_classes = place.parked.data();
        row.parked_duals = place.parked_duals.data();
        row.n_parked = 0;
        if (slot.every) {
            look_at_every_class(i, slot, place);
        } else {
            look_at_list(i, slot, place);
        }
        if (Domain::absolute || state_.has_targets()) state_.slopes_from(i, row.classes, row.count, 1.0, row.g);
    }

    void look_at_list(Size i, const DualRows::Slot& slot, Place& place) {
        RowView& row = place.row;
        place.desk.list_active_classes(state_.duals, slot, row);
        const double* a = state_.duals.values(slot);
        for (Index k = slot.active; k < slot.count; ++k) row.park(state_.duals.label(slot, k), a[k]);
        const bool with_target = slot.target_active && !Domain::absolute;
        const Size wanted = row.count + (with_target ? 1 : 0);
        row.classes[row.count] = row.y;
        if (Metric::between_classes && reads_ahead_) {
            state_.weights.metric_scores(i, row.classes, wanted, inner_.data(), row.g);
        } else {
            state_.weights.scores(i, row.classes, wanted, row.g, place.room);
        }
        row.g_target = with_target ? row.g[row.count] - 1.0 : 0.0;
    }

    void look_at_every_class(Size i, const DualRows::Slot& slot, Place& place) {
        if constexpr (Domain::absolute) return look_at_every_margin(i, slot, place);
        if (Metric::between_classes && reads_ahead_) {
            state_.weights.all_metric_scores(i, inner_.data(), place.desk.every());
        } else {
            state_.weights.all_scores(i, place.desk.every());
        }
        place.desk.list_every_class(state_.duals, slot, place.row.y, place.row);
        place.row.g_target -= 1.0;
    }

    void look_at_every_margin(Size i, const DualRows::Slot& slot, Place& place) {
        RowView& row = place.row;
        const bool rivals = domain_.has_rivals();
        if (rivals) state_.weights.all_scores(i, place.desk.every());
        place.desk.list_every_margin(state_.duals, slot, row.y, domain_.has_own(), rivals, row);
        if (!rivals) state_.weights.scores(i, row.classes, row.count, row.g, place.room);
    }

    // With a metric between the classes a row's scores take all class vectors. Two dense rows share one pass over them; the
    // step of the first is added to the inner products of the second when it is taken.
    void read_two(Size i, Size next) {
        state_.weights.inner_products(i, next, inner_.data(), ahead_.data());
        with_next_ = next == i ? 0.0 : state_.rows.dot_rows(i, next);
    }

    // The step next - a, and what it gains.
    void list_steps(Place& place, const Metric& metric) const {
        RowView& row = place.row;
        Size m = 0;
        double target_step = 0.0, gain = 0.0;
        if (Domain::squares != Squares::none) {
            gain = (place.domain.square(row.at(row.a)) - place.domain.square(row.at(row.next))) / (4.0 * row.cost);
        }
        for (Size k = 0; k < row.count; ++k) {
            const double step = row.next[k] - row.a[k];
            row.a[k] = row.next[k];
            if (step == 0.0) continue;
            place.moved[m] = row.classes[k];
            place.steps[m++] = Domain::absolute && row.classes[k] == row.y ? step : -step;
            target_step += step;
            gain += step * row.g[k];
        }
        if (!Domain::absolute && row.target_active && target_step != 0.0) {
            place.moved[m] = row.y;
            place.steps[m++] = target_step;
            gain -= target_step * row.g_target;
        }
        place.n_moved = m;
        place.gain = gain - 0.5 * metric.square(place.moved.data(), place.steps.data(), m);
    }

    const Domain domain_;
    LoopSettings settings_;
    Faces face_;
    std::int64_t visits_at_face_ = 0;
    Size c_;
    bool reads_ahead_;  // inner products of two rows at a time

    Together together_;
    std::vector<Place> places_;
    Size team_size_ = 1;
    std::vector<WeightPart> parts_;  // what each thread adds to; none: the owner of the loop adds
    std::vector<double> lags_;
    // the gap of the average, in what the rows have seen; and when it is tried and looked at, in 0.7 tolerances
    static constexpr double gap_of_average = 0.5, ahead_of_average = 3.6, after_average = 1.25;
    double next_average_ = infinity;  // estimate from which on it is tried again
    double with_next_ = 0.0;
    std::vector<double> inner_, ahead_;  // inner products of this row and of the next one with all class vectors
    std::vector<Index> all_classes_;
};

}  // namespace polymargin

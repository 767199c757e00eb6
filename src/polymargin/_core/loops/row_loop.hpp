// Dual block-coordinate ascent over rows x domain x metric: one row of duals at a time, solved exactly if its domain knows the
// metric (domains/, metrics/). What makes it fast:
//   - classes that cannot matter leave a row's list, rows without a list rest (Keerthi et al. 2008; LIBLINEAR);
//   - rows that hardly violate their optimality conditions wait some epochs (schedule.hpp);
//   - once the free duals are known, conjugate gradients on that face replace hundreds of epochs (faces/);
//   - the last epochs are extrapolated, which needs no look at the rows (faces/extrapolation.hpp);
//   - where most duals are free epochs gather momentum (faces/momentum.hpp);
//   - the average of an epoch as the machine that a look judges (closes);
//   - some rows at a time, shared by threads, where rows have little to do with each other (threads/together.hpp).
#pragma once

#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "domains/common/solve_in.hpp"
#include "desk.hpp"
#include "faces/extrapolation.hpp"
#include "faces/face_step.hpp"
#include "faces/momentum.hpp"
#include "row_ascent.hpp"
#include "threads/exchange.hpp"
#include "threads/team.hpp"
#include "threads/together.hpp"
#include "threads/which_pays.hpp"

namespace polymargin {

template <class Domain, class Metric>
class RowLoop final : public RowAscent {
public:
    RowLoop(const Domain& domain, const RowTask& task)
        : RowAscent(task, rules_of(domain, task), Metric::has_sum), domain_(domain), settings_(task.settings),
          face_(domain_, state_), extrapolation_(state_), momentum_(state_), c_(state_.n_classes()), reads_ahead_(Metric::between_classes && !task.rows.is_sparse()),
          together_(settings_.together, state_.rows), all_classes_(c_ + 1) {
        static_assert(!(Domain::absolute && Metric::between_classes), "its steps must add up to zero");
        if (Metric::between_classes) together_ = Together(1, state_.rows);
        for (Size k = 0; k < together_.most(); ++k) places_.emplace_back(domain_, c_);
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
        const bool shares = together_.most() > 1 && state_.weights.has_parts();
        Team team(shares ? std::min(settings_.n_threads, static_cast<int>(Weights::most_parts)) : 1);
        together_.begin(state_, progress().visits);
        average_.reset();
        if (!state_.intercept.on) extrapolation_.forget();
        bool stepped = false;  // what gains dual value by a step has its primal one only after the next epoch
        for (std::int64_t k = 0; progress().visits < stop || stepped; ++k) {
            if constexpr (may_gather) gather_momentum(stop, poll);
            const std::int64_t before = progress().visits, least = stepped ? static_cast<std::int64_t>(state_.n_rows()) : 0;
            const double dual = state_.dual;
            epoch(std::max(stop - before, least), team, poll);
            gain_of_visit_ = (state_.dual - dual) / static_cast<double>(progress().visits - before);
            if (state_.metric.shrinkage.on()) state_.refresh_dual();  // steps have gained more than their bound
            const bool fell = progress().estimate <= 0.8 * last_check || k >= 20;
            if ((fell || settings_.averages) && closes(tol, stop, team, poll)) break;
            if (before >= stop) break;
            if (extrapolates() && progress().visits < stop) extrapolate(progress().visits - before, poll);
            if constexpr (has_faces) stepped = try_face_step(tol, poll);
            together_.check(state_, progress().visits, false);
        }
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
        if constexpr (Domain::has_faces) {
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

    // a metric between the classes moves too often for faces; see solvers/newton/active_set.py
    static constexpr bool has_faces = Domain::has_faces && !Metric::between_classes;
    struct NoFaces {
        NoFaces(const Domain&, DualState&) {}
    };
    using Faces = std::conditional_t<has_faces, FaceStep<Domain>, NoFaces>;

    bool extrapolates() const {
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

    // What momentum moves is a quadratic, and can be projected back where it leaves its domain.
    static constexpr bool may_gather = has_faces && Domain::squares != Squares::of_gauge && !Metric::has_scales;

    bool knows_better_than_momentum() const {
        return extrapolates() || (Domain::squares != Squares::none && face_.is_direct()) || state_.metric.shrinkage.on() || state_.shifted;
    }

    // Where most duals are free. All rows look at everything after it; the epochs left clear what it disturbs.
    void gather_momentum(std::int64_t stop, const Poll& poll) {
        const std::int64_t period = momentum_epochs * static_cast<std::int64_t>(state_.n_rows()), left = stop - progress().visits;
        if (progress().visits < std::max(next_momentum_, period) || 4 * left < 3 * period || knows_better_than_momentum()) return;
        next_momentum_ = progress().visits + period;
        const double n_free = count_free(), n_duals = (domain_.has_rivals() ? static_cast<double>(c_ - 1) : 0.0) + (domain_.has_own() ? 1.0 : 0.0);
        has_momentum_ = n_free >= 0.5 * static_cast<double>(state_.n_rows()) * n_duals && momentum_.pays(static_cast<double>(period), n_free);
        if (!has_momentum_) return momentum_.forget();
        poll();
        restore();
        momentum_.step();
        has_lost_ |= !state_.intercept.on;
    }

    double count_free() const {
        Size n_free = 0;
        for (Size i = 0; i < state_.n_rows(); ++i) {
            const auto& slot = state_.duals.slot(i);
            const double* a = state_.duals.values(slot);
            for (Index k = 0; k < slot.count; ++k) {
                n_free += domain_.is_free(a[k], state_.cost[i], Domain::absolute && state_.duals.label(slot, k) == state_.y[i]);
            }
        }
        return static_cast<double>(n_free);
    }

    // Whether a step was made.
    bool try_face_step(double tol, const Poll& poll) {
        const double estimate = progress().estimate, scale = std::fabs(state_.dual + estimate);
        if (state_.metric.shrinkage.on() || has_momentum_) return false;  // no face of it is quadratic, or none is small
        if (Domain::squares != Squares::none && face_.is_direct()) {  // what is not squared finds its faces too late for it
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

    // Where a row is visited. What it finds lies there until it moves.
    struct Place {
        Place(const Domain& the_domain, Size c)
            : domain(the_domain), desk(c), room(c + 1), moved(c + 2), parked(c + 1), steps(c + 2), parked_duals(c + 1) {}

        Domain domain;  // some have room for their own use
        Desk desk;
        RowRoom room;
        RowView row{};
        const Index* wanted = nullptr;  // classes whose scores the row needs
        Size n_wanted = 0;
        Size wish = 0;                  // their number in what threads are asked for
        double* scores = nullptr;       // where they go
        Assessment seen{};
        Size n_moved = 0;
        double gain = 0.0;  // of the dual, if this row moves and no other
        std::vector<Index> moved, parked;
        std::vector<double> steps, parked_duals;
    };

    void epoch(std::int64_t max_visits, Team& team, const Poll& poll) {
        bool again;
        if (together_.now() == 1) {
            again = epoch_one_by_one(max_visits, poll);
        } else {
            again = epoch_together(max_visits, team, poll);
        }
        if (again) restore();
    }

    bool epoch_one_by_one(std::int64_t max_visits, const Poll& poll) {
        return schedule_.epoch(
            max_visits, poll,
            [&](Size k, const std::vector<std::uint32_t>& visits) {
                if (k + 5 < visits.size()) state_.prefetch(visits[k + 5]);
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

    // Some rows at a time. Where that pays threads share them: each minds a part of the class vectors, to which it adds what the last rows
    // have moved, before it finds what its part is of the scores of the next.
    bool epoch_together(std::int64_t max_visits, Team& team, const Poll& poll) {
        Exchange exchange(together_.most(), state_.rows.n_classes());
        if (answers_.size() != team.size()) answers_.assign(team.size(), {together_.most(), state_.rows.n_classes()});
        // what rows have moved must reach the class vectors, however the epoch ends
        const Poll poll_or_end = [&] {
            try {
                poll();
            } catch (...) {
                add_last(exchange, team);
                throw;
            }
        };
        const bool again = schedule_.epoch_together(
            together_.now(), max_visits, poll_or_end,
            [&](const std::uint32_t* rows, Size count, Size listed) {
                const Size wanted = begin_together(rows, count, listed);
                const bool by_threads = team.size() > 1 && which_pays_.threads_next(wanted);
                if (by_threads) {
                    examine_by_threads(rows, count, wanted, exchange, team);
                } else {
                    add_last(exchange, team);
                    read_together(rows, count);
                    for (Size k = 0; k < count; ++k) examine(rows[k], places_[k]);
                }
                for (Size k = 0; k < count; ++k) settle(rows[k], places_[k], by_threads ? &exchange : nullptr);
            },
            [&](Size k) { return places_[k].seen; });
        add_last(exchange, team);
        which_pays_.pause();
        return again;
    }

    // Returns how many scores these rows want.
    Size begin_together(const std::uint32_t* rows, Size count, Size listed) {
        Size wanted = 0;
        whole_.clear();
        whole_scores_.clear();
        for (Size k = 0; k < count; ++k) {
            if (k + count < listed) state_.duals.prefetch(rows[k + count]);
            if (k + 2 * count < listed) state_.prefetch(rows[k + 2 * count]);
            if (k < rows_ahead) state_.rows.prefetch(rows[k]);
            Place& place = places_[k];
            begin(rows[k], place);
            wanted += place.n_wanted;
            if (!wants_all(place)) continue;
            whole_.push_back(rows[k]);
            whole_scores_.push_back(place.scores);
        }
        return wanted;
    }

    void read_together(const std::uint32_t* rows, Size count) {
        for (Size k = 0; k < count; ++k) {
            if (k + rows_ahead < count) state_.rows.prefetch(rows[k + rows_ahead]);
            if (!wants_all(places_[k])) read(rows[k], places_[k]);
        }
        state_.weights.all_scores(whole_.data(), whole_.size(), whole_scores_.data());
    }

    void examine_by_threads(const std::uint32_t* rows, Size count, Size wanted, Exchange& exchange, Team& team) {
        const Size parts = team.size();
        for (Size k = 0; k < count; ++k) {
            Place& place = places_[k];
            if (!wants_all(place)) place.wish = exchange.wants(rows[k], place.wanted, place.n_wanted + Metric::has_sum);
        }
        team.share(parts, [&](Size number) {
            const WeightPart part = state_.weights.part(number, parts);
            exchange.add_moved(part, state_.weights, answers_[number]);
            exchange.find_wanted(part, state_.weights, state_.rows, answers_[number]);
            state_.weights.part_of_all_scores(part, whole_.data(), whole_.size(), whole_scores_.data());
        });
        const auto finish = [&](Size k) {
            Place& place = places_[k];
            if (wants_all(place)) {
                state_.weights.finish_all(rows[k], place.scores);
            } else {
                exchange.join(place.wish, state_.weights, answers_, place.scores);
            }
            examine(rows[k], place);
        };
        if (wanted < many_scores) {
            for (Size k = 0; k < count; ++k) finish(k);
        } else {
            team.share(parts, [&](Size number) {
                for (Size k = number * count / parts; k < (number + 1) * count / parts; ++k) finish(k);
            });
        }
        exchange.forget();
    }

    void add_last(Exchange& exchange, Team& team) {
        if (!exchange.has_moved()) return;
        const Size parts = team.size();
        team.share(parts, [&](Size number) {
            exchange.add_moved(state_.weights.part(number, parts), state_.weights, answers_[number]);
        });
        exchange.forget();
    }

    static bool wants_all(const Place& place) { return place.scores != place.row.g; }

    Assessment visit(Size i) {
        Place& place = places_[0];
        begin(i, place);
        read(i, place);
        examine(i, place);
        settle(i, place);
        return place.seen;
    }

    // Finds the step of row i, given its scores, and changes nothing but `place`.
    void examine(Size i, Place& place) {
        RowView& row = place.row;
        list(i, place);
        place.seen = place.domain.assess(row, schedule_.threshold());
        place.n_moved = 0;
        place.gain = 0.0;
        if (!(place.seen.violation > 0.0)) return;
        const Metric metric = metric_of(i);
        place.desk.narrow(row, place.domain.fewest(), Domain::separate);
        solve_in(metric, place.domain, row);
        list_steps(place, metric);
    }

    // Row i moves; its class vectors may be moved later, by those who mind them.
    void settle(Size i, Place& place, Exchange* exchange = nullptr) {
        const RowView& row = place.row;
        schedule_.rest(i, place.domain.settled(row));
        if (place.seen.violation > 0.0) {
            state_.dual += place.gain;
            if (place.n_moved > 0) extrapolation_.note(i);
            if (average_ && place.n_moved > 0) lag_behind(i, place);
            if (exchange) {
                place.n_moved = state_.weights.close(place.moved.data(), place.steps.data(), place.n_moved);
                state_.weights.add_sums(i, place.moved.data(), place.steps.data(), place.n_moved);
                exchange->moved(i, place.moved.data(), place.steps.data(), place.n_moved);
            } else {
                state_.weights.add(i, place.moved.data(), place.steps.data(), place.n_moved);
            }
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

    // Which scores row i needs, of all classes or of those in its list.
    void begin(Size i, Place& place) {
        const auto& slot = state_.duals.slot(i);
        RowView& row = place.row;
        place.desk.begin(row);
        row.cost = state_.cost[i];
        row.y = state_.y[i];
        row.target_active = slot.target_active;
        row.parked_classes = place.parked.data();
        row.parked_duals = place.parked_duals.data();
        row.n_parked = 0;
        if (slot.every && domain_.has_rivals()) {
            place.wanted = all_classes_.data();
            place.n_wanted = c_;
            place.scores = place.desk.every();
            return;
        }
        if (slot.every) {
            place.desk.list_every_margin(state_.duals, slot, row.y, domain_.has_own(), false, row);
        } else {
            place.desk.list_active_classes(state_.duals, slot, row);
            const double* a = state_.duals.values(slot);
            for (Index k = slot.active; k < slot.count; ++k) row.park(state_.duals.label(slot, k), a[k]);
        }
        place.wanted = row.classes;
        place.n_wanted = row.count;
        place.scores = row.g;
        if (row.target_active && !Domain::absolute) row.classes[place.n_wanted++] = row.y;
        if (Metric::has_sum) row.classes[place.n_wanted] = static_cast<Index>(c_);
    }

    void read(Size i, Place& place) {
        const bool every = wants_all(place);
        if (Metric::between_classes && reads_ahead_) {
            if (every) return state_.weights.all_metric_scores(i, inner_.data(), place.scores);
            state_.weights.metric_scores(i, place.wanted, place.n_wanted, inner_.data(), place.scores);
        } else if (every) {
            state_.weights.all_scores(i, place.scores);
        } else {
            state_.weights.scores(i, place.wanted, place.n_wanted, place.scores, place.room);
        }
    }

    // The list of row i, given the scores: classes, duals and g.
    void list(Size i, Place& place) {
        RowView& row = place.row;
        if (place.scores == row.g) {
            if (place.n_wanted > row.count) row.g_target = row.g[row.count] - 1.0;
        } else if (Domain::absolute) {
            place.desk.list_every_margin(state_.duals, state_.duals.slot(i), row.y, domain_.has_own(), true, row);
        } else {
            list_classes(i, place);
            row.g_target -= 1.0;
        }
        if (Domain::absolute || state_.has_targets()) state_.slopes_from(i, row.classes, row.count, 1.0, row.g);
    }

    // All classes, or those that could matter.
    void list_classes(Size i, Place& place) {
        RowView& row = place.row;
        const auto& slot = state_.duals.slot(i);
        if constexpr (!Domain::absolute) {
            if constexpr (Domain::of_highest) {
                if (place.desk.has_very_many() && !state_.has_targets()) {
                    row.g_target = place.desk.every()[row.y] - 1.0;
                    const double level = place.domain.own_level(row, state_.row_sum(i));
                    return place.desk.list_highest_classes(state_.duals, slot, row.y, level, place.domain.fewest(), row);
                }
            }
        }
        place.desk.list_every_class(state_.duals, slot, row.y, row);
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
        for (Size k = 0; k < row.count; ++k) {  // without a branch: which duals move is as good as random
            const double step = row.next[k] - row.a[k];
            row.a[k] = row.next[k];
            place.moved[m] = row.classes[k];
            place.steps[m] = Domain::absolute && row.classes[k] == row.y ? step : -step;
            m += step != 0.0;
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
    Extrapolation extrapolation_;
    static constexpr double lost_at_most = 1e-12;  // by extrapolation, of the class vectors
    Momentum momentum_;
    bool has_momentum_ = false;
    static constexpr std::int64_t momentum_epochs = 2;  // between its steps, and before the first one
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
    bool reads_ahead_;  // inner products of two rows at a time

    Together together_;
    WhichPays which_pays_;
    std::vector<Place> places_;
    std::vector<Size> whole_;  // rows visited together that want all scores, and where these go
    std::vector<double*> whole_scores_;
    static constexpr Size rows_ahead = 3;  // that are fetched while another one is read
    static constexpr Size many_scores = 128;  // that rows visited together want: from so many on threads share their solving too
    std::vector<Exchange::Answer> answers_;
    std::vector<double> lags_;
    // the gap of the average, in what the rows have seen; and when it is tried and looked at, in 0.7 tolerances
    static constexpr double gap_of_average = 0.5, ahead_of_average = 3.6, after_average = 1.25;
    static constexpr double after_look = 0.8;  // what must be left of an estimate that promised too much
    double next_average_ = infinity;  // estimate from which on it is tried again
    double with_next_ = 0.0;
    std::vector<double> inner_, ahead_;  // inner products of this row and of the next one with all class vectors
    std::vector<Index> all_classes_;
};

}  // namespace polymargin

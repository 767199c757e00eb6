// Dual block-coordinate ascent over rows x domain x metric: one row of duals at a time, solved exactly if its domain knows the
// metric (domains/, metrics/). What makes it fast:
//   - classes that cannot matter leave a row's list, rows without a list rest (Keerthi et al. 2008; LIBLINEAR);
//   - rows that hardly violate their optimality conditions wait some epochs (schedule.hpp);
//   - once the free duals are known, conjugate gradients on that face replace hundreds of epochs (face_step.hpp).
#pragma once

#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "../domains/common/solve_in.hpp"
#include "desk.hpp"
#include "face_step.hpp"
#include "row_ascent.hpp"

namespace polymargin {

template <class Domain, class Metric>
class RowLoop final : public RowAscent {
public:
    RowLoop(const Domain& domain, const RowTask& task)
        : RowAscent(task, rules_of(domain, task), Metric::has_sum), domain_(domain), settings_(task.settings),
          face_(domain_, state_), c_(state_.n_classes()), reads_ahead_(Metric::between_classes && !task.rows.is_sparse()),
          desk_(c_), moved_(c_ + 1), parked_(c_ + 1), parked_duals_(c_ + 1), steps_(c_ + 1), all_classes_(c_) {
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
        for (std::int64_t k = 0; progress().visits < stop; ++k) {
            epoch(stop - progress().visits, poll);
            const bool fell = progress().estimate <= 0.8 * last_check || k >= 20;
            if (fell && schedule_.promises(tol, state_.dual)) break;
            if constexpr (has_faces) try_face_step(poll);
        }
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

    // a metric between the classes moves too often for faces; see solvers/newton/active_set.py
    static constexpr bool has_faces = Domain::has_faces && !Metric::between_classes;
    struct NoFaces {
        NoFaces(const Domain&, DualState&) {}
    };
    using Faces = std::conditional_t<has_faces, FaceStep<Domain>, NoFaces>;

    void try_face_step(const Poll& poll) {
        const double estimate = progress().estimate, scale = std::fabs(state_.dual + estimate);
        if (estimate > settings_.face_from * scale || progress().epochs % settings_.face_every != 0) return;
        // as much work as the epochs since the last face step, so that it can at worst double the cost
        const auto since = static_cast<Size>(progress().visits - visits_at_face_);
        schedule_.count_visits(static_cast<std::int64_t>(face_.step(since, poll)));
        visits_at_face_ = progress().visits;
    }

    void epoch(std::int64_t max_visits, const Poll& poll) {
        const bool again = schedule_.epoch(
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
        if (again) restore();
    }

    Assessment visit(Size i) {
        RowView row = look(i);
        const Assessment seen = domain_.assess(row, schedule_.threshold());
        schedule_.rest(i, domain_.settled(row));
        if (seen.violation > 0.0) {
            const Metric metric = metric_of(i);
            desk_.narrow(row, domain_.fewest());
            solve_in(metric, domain_, row);
            move(i, row, metric);
        }
        desk_.store(state_.duals, i, row, row.parked_classes, row.parked_duals, row.n_parked);
        state_.duals.slot(i).target_active = row.target_active;
        return seen;
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
    RowView look(Size i) {
        const auto& slot = state_.duals.slot(i);
        RowView row;
        desk_.begin(row);
        row.cost = state_.cost[i];
        row.y = state_.y[i];
        row.target_active = slot.target_active;
        row.parked_classes = parked_.data();
        row.parked_duals = parked_duals_.data();
        row.n_parked = 0;
        if (slot.every) {
            look_at_every_class(i, slot, row);
        } else {
            look_at_list(i, slot, row);
        }
        if (Domain::absolute || state_.has_targets()) state_.slopes_from(i, row.classes, row.count, 1.0, row.g);
        return row;
    }

    void look_at_list(Size i, const DualRows::Slot& slot, RowView& row) {
        desk_.list_active_classes(state_.duals, slot, row);
        const double* a = state_.duals.values(slot);
        for (Index k = slot.active; k < slot.count; ++k) row.park(state_.duals.label(slot, k), a[k]);
        const bool with_target = slot.target_active && !Domain::absolute;
        const Size wanted = row.count + (with_target ? 1 : 0);
        row.classes[row.count] = row.y;
        if (Metric::between_classes && reads_ahead_) {
            state_.weights.metric_scores(i, row.classes, wanted, inner_.data(), row.g);
        } else {
            state_.weights.scores(i, row.classes, wanted, row.g);
        }
        row.g_target = with_target ? row.g[row.count] - 1.0 : 0.0;
    }

    void look_at_every_class(Size i, const DualRows::Slot& slot, RowView& row) {
        if constexpr (Domain::absolute) return look_at_every_margin(i, slot, row);
        if (Metric::between_classes && reads_ahead_) {
            state_.weights.all_metric_scores(i, inner_.data(), desk_.every());
        } else {
            state_.weights.all_scores(i, desk_.every());
        }
        desk_.list_every_class(state_.duals, slot, row.y, row);
        row.g_target -= 1.0;
    }

    void look_at_every_margin(Size i, const DualRows::Slot& slot, RowView& row) {
        const bool rivals = domain_.has_rivals();
        if (rivals) state_.weights.all_scores(i, desk_.every());
        desk_.list_every_margin(state_.duals, slot, row.y, domain_.has_own(), rivals, row);
        if (!rivals) state_.weights.scores(i, row.classes, row.count, row.g);
    }

    // With a metric between the classes a row's scores take all class vectors. Two dense rows share one pass over them; the
    // step of the first is added to the inner products of the second when it is taken.
    void read_two(Size i, Size next) {
        state_.weights.inner_products(i, next, inner_.data(), ahead_.data());
        with_next_ = next == i ? 0.0 : state_.rows.dot_rows(i, next);
    }

    // Applies the step next - a to the weights and the dual value.
    void move(Size i, RowView& row, const Metric& metric) {
        Size m = 0;
        double target_step = 0.0, gain = 0.0;
        if (Domain::squares != Squares::none) {
            gain = (domain_.square(row.at(row.a)) - domain_.square(row.at(row.next))) / (4.0 * row.cost);
        }
        for (Size k = 0; k < row.count; ++k) {
            const double step = row.next[k] - row.a[k];
            row.a[k] = row.next[k];
            if (step == 0.0) continue;
            moved_[m] = row.classes[k];
            steps_[m++] = Domain::absolute && row.classes[k] == row.y ? step : -step;
            target_step += step;
            gain += step * row.g[k];
        }
        if (!Domain::absolute && row.target_active && target_step != 0.0) {
            moved_[m] = row.y;
            steps_[m++] = target_step;
            gain -= target_step * row.g_target;
        }
        state_.dual += gain - 0.5 * metric.square(moved_.data(), steps_.data(), m);
        state_.weights.add(i, moved_.data(), steps_.data(), m);
        if (Metric::between_classes && reads_ahead_) {
            for (Size k = 0; k < m; ++k) ahead_[static_cast<Size>(moved_[k])] += with_next_ * steps_[k];
        }
    }

    const Domain domain_;
    LoopSettings settings_;
    Faces face_;
    std::int64_t visits_at_face_ = 0;
    Size c_;
    bool reads_ahead_;  // inner products of two rows at a time

    // one row's workspace
    Desk desk_;
    double with_next_ = 0.0;
    std::vector<double> inner_, ahead_;  // inner products of this row and of the next one with all class vectors
    std::vector<Index> moved_, parked_;
    std::vector<double> parked_duals_, steps_;
    std::vector<Index> all_classes_;
};

}  // namespace polymargin

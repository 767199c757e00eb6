// A visit of one row: which scores it needs, what it finds in them, the step that it makes. Nothing but the visit changes until it is
// stored, so that rows may be visited at the same time.
#pragma once

#include <algorithm>
#include <vector>

#include "desk.hpp"
#include "domains/common/solve_in.hpp"
#include "machine/dual_state.hpp"

namespace polymargin {

template <class Domain, class Metric>
class RowVisit {
public:
    // `every_class`: 0, 1, 2, ...
    RowVisit(const Domain& domain, const std::vector<Index>& every_class)
        : moved(every_class.size() + 1), steps(moved.size()), domain_(domain), every_class_(every_class.data()), c_(every_class.size() - 1), desk_(c_), room_(c_ + 1),
          parked_(c_ + 1), parked_duals_(c_ + 1) {}

    // Which scores the row needs, of all classes or of those in its list.
    void begin(const DualState& state, Size row) {
        const auto& slot = state.duals.slot(row);
        i = row;
        desk_.begin(row_);
        row_.cost = state.cost[i];
        row_.y = state.y[i];
        row_.target_active = slot.target_active;
        row_.parked_classes = parked_.data();
        row_.parked_duals = parked_duals_.data();
        row_.n_parked = 0;
        if (slot.every && domain_.has_rivals()) {
            wanted = every_class_;
            n_wanted = c_;
            scores = desk_.every();
            return;
        }
        if (slot.every) {
            desk_.list_every_margin(state.duals, slot, row_.y, domain_.has_own(), false, row_);
        } else {
            desk_.list_active_classes(state.duals, slot, row_);
            const double* a = state.duals.values(slot);
            for (Index k = slot.active; k < slot.count; ++k) row_.park(state.duals.label(slot, k), a[k]);
        }
        wanted = row_.classes;
        n_wanted = row_.count;
        scores = row_.g;
        if (row_.target_active && !Domain::absolute) row_.classes[n_wanted++] = row_.y;
        if (Metric::has_sum) row_.classes[n_wanted] = static_cast<Index>(c_);
    }

    bool wants_all() const { return scores != row_.g; }

    void read(Weights& weights) {
        if (wants_all()) {
            weights.all_scores(i, scores);
        } else {
            weights.scores(i, wanted, n_wanted, scores, room_);
        }
    }

    // Given the scores.
    void examine(const DualState& state, double threshold) {
        list(state);
        seen = domain_.assess(row_, threshold);
        n_moved = 0;
        gain = 0.0;
        if (!(seen.violation > 0.0)) return;
        const Metric metric = metric_of(state);
        desk_.narrow(row_, domain_.fewest(), Domain::separate);
        solve_in(metric, domain_, row_);
        list_steps(metric);
    }

    bool moves() const { return seen.violation > 0.0; }
    bool is_settled() const { return domain_.settled(row_); }

    // The new duals. Other rows may be stored at the same time if they have room for theirs.
    void store(DualRows& duals) const {
        desk_.store(duals, i, row_, row_.parked_classes, row_.parked_duals, row_.n_parked);
        duals.slot(i).target_active = row_.target_active;
    }
    bool store_if_room(DualRows& duals) const {
        if (!desk_.store_if_room(duals, i, row_, row_.parked_classes, row_.parked_duals, row_.n_parked)) return false;
        duals.slot(i).target_active = row_.target_active;
        return true;
    }

    Size i = 0;
    const Index* wanted = nullptr;  // classes whose scores the row needs, and behind them, with a coupling, that of the sum
    Size n_wanted = 0;
    double* scores = nullptr;       // where they go
    Assessment seen{};
    Size n_moved = 0;
    double gain = 0.0;  // of the dual, if this row moves and no other
    bool is_stored = false;
    std::vector<Index> moved;
    std::vector<double> steps;

private:
    // The metric as the row sees it.
    Metric metric_of(const DualState& state) const {
        if constexpr (Metric::has_scales) {
            return {state.metric.scales.data(), state.q[i], state.intercept.inverse_rho};
        } else if constexpr (Metric::between_classes) {
            return {state.metric.P.data(), c_, static_cast<Size>(state.y[i]), state.q[i]};
        } else if constexpr (Metric::has_sum) {
            const CoupledCurvature& q = state.coupled_q[i];
            return {q.apart, q.together, static_cast<double>(c_), !Domain::absolute};
        } else {
            return {state.q[i]};
        }
    }

    // The list of the row: classes, duals and g.
    void list(const DualState& state) {
        if (!wants_all()) {
            if (n_wanted > row_.count) row_.g_target = row_.g[row_.count] - 1.0;
        } else if (Domain::absolute) {
            desk_.list_every_margin(state.duals, state.duals.slot(i), row_.y, domain_.has_own(), true, row_);
        } else {
            list_classes(state);
            row_.g_target -= 1.0;
        }
        if (Domain::absolute || state.has_targets()) state.slopes_from(i, row_.classes, row_.count, 1.0, row_.g);
    }

    // All classes, or those that could matter.
    void list_classes(const DualState& state) {
        const auto& slot = state.duals.slot(i);
        if constexpr (!Domain::absolute) {
            if constexpr (Domain::of_highest) {
                if (desk_.has_very_many() && !state.has_targets()) {
                    row_.g_target = desk_.every()[row_.y] - 1.0;
                    const double level = domain_.own_level(row_, state.row_sum(i));
                    return desk_.list_highest_classes(state.duals, slot, row_.y, level, domain_.fewest(), row_);
                }
            }
        }
        desk_.list_every_class(state.duals, slot, row_.y, row_);
    }

    // The step next - a, and what it gains.
    void list_steps(const Metric& metric) {
        Size m = 0;
        double target_step = 0.0;
        if (Domain::squares != Squares::none) {
            gain = (domain_.square(row_.at(row_.a)) - domain_.square(row_.at(row_.next))) / (4.0 * row_.cost);
        }
        for (Size k = 0; k < row_.count; ++k) {  // without a branch: which duals move is as good as random
            const double step = row_.next[k] - row_.a[k];
            row_.a[k] = row_.next[k];
            moved[m] = row_.classes[k];
            steps[m] = Domain::absolute && row_.classes[k] == row_.y ? step : -step;
            m += step != 0.0;
            target_step += step;
            gain += step * row_.g[k];
        }
        if (!Domain::absolute && row_.target_active && target_step != 0.0) {
            moved[m] = row_.y;
            steps[m++] = target_step;
            gain -= target_step * row_.g_target;
        }
        n_moved = m;
        gain -= 0.5 * metric.square(moved.data(), steps.data(), m);
    }

    Domain domain_;  // some have room for their own use
    const Index* every_class_;
    Size c_;
    Desk desk_;
    RowRoom room_;
    RowView row_{};
    std::vector<Index> parked_;
    std::vector<double> parked_duals_;
};

}  // namespace polymargin

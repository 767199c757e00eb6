// The row loop as its owner sees it, whatever the domain and the metric (row_loop.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "machine/dual_state.hpp"
#include "schedule.hpp"

namespace polymargin {

// What a loop is opened with. The arrays are borrowed.
struct RowTask {
    Rows rows;
    const Index* y;
    const double* cost;
    LoopSettings settings;
    std::vector<double> targets;  // delta (c, c), or empty
};

class RowAscent {
public:
    RowAscent(const RowTask& task, LossRules rules, bool coupled);
    virtual ~RowAscent();

    // Epochs until the estimated relative gap promises `tol`, or until `max_visits` more rows have been visited.
    virtual void ascend(std::int64_t max_visits, double tol, const Poll& poll) = 0;

    // sum_i u_i loss_i at the current scores
    double loss(int n_threads, const Poll& poll) const { return loss(state_.weights, n_threads, poll); }
    double loss(const Weights& weights, int n_threads, const Poll& poll) const;

    // Whether the ends of the epochs of a call of `ascend` are averaged; not for a loop with LoopSettings::averages.
    void average_slices(bool on) { averages_slices_ = on && !has_averages_; }

    // The machine on its way through the last epoch, on average, if that looked at everything (LoopSettings::averages), or through the
    // epochs of the last call of `ascend`.
    const Weights* average() const { return average_.get(); }

    // Every row looks at every class again.
    void restore() {
        for (Size i = 0; i < state_.n_rows(); ++i) state_.duals.restore(i);
        schedule_.wake_all();
    }

    std::vector<double> flows() const { return state_.flows(); }
    SparseDuals sparse_duals() const { return state_.sparse_duals(); }
    // In the place of those that the loop has.
    void set_duals(const std::int64_t* starts, const Index* classes, const double* values) {
        if (state_.has_duals()) {
            state_.weights.multiply(0.0);
            restore();
        }
        for (Size i = 0; i < state_.n_rows(); ++i) {
            state_.set_row(i, classes + starts[i], values + starts[i], static_cast<Size>(starts[i + 1] - starts[i]));
        }
        state_.refresh_dual();
    }
    void move_centre(const double* to) { state_.move_centre(to); }

    DualState& state() { return state_; }
    const DualState& state() const { return state_; }
    const Progress& progress() const { return schedule_.progress(); }

protected:
    virtual double loss_of(Size i, double* scores) const = 0;  // `scores` are overwritten

    DualState state_;
    Schedule schedule_;
    std::unique_ptr<Weights> average_;
    bool averages_slices_ = false;
    const bool has_averages_;
};

}  // namespace polymargin

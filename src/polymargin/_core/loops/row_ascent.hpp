// The row loop as its owner sees it, whatever the domain and the metric (row_loop.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../machine/dual_state.hpp"
#include "schedule.hpp"

namespace polymargin {

class RowAscent {
public:
    RowAscent(const Rows& rows, const Index* y, const double* cost, const LoopSettings& settings)
        : state_(rows, y, cost), schedule_(rows.n_rows(), rows.bytes(), settings) {}
    virtual ~RowAscent() = default;

    // Epochs until the estimated relative gap promises `tol`, or until `max_visits` more rows have been visited.
    virtual void ascend(std::int64_t max_visits, double tol, const Poll& poll) = 0;

    // sum_i u_i loss_i at the current scores
    virtual double loss(int n_threads, const Poll& poll) const = 0;

    // The largest t <= 1 for which t * a stays in the domain.
    virtual double room(const double* a, Size count, double cost) const = 0;

    // Every row looks at every class again.
    void restore() {
        for (Size i = 0; i < state_.n_rows(); ++i) state_.duals.restore(i);
        schedule_.wake_all();
    }

    std::vector<double> flows() const { return state_.flows(); }
    SparseDuals sparse_duals() const { return state_.sparse_duals(); }
    void set_duals(const std::int64_t* starts, const Index* classes, const double* values) {
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
    DualState state_;
    Schedule schedule_;
};

// What a loop is opened with. The arrays are borrowed.
struct RowTask {
    std::vector<double> parameters;  // of the domain
    const Rows& rows;
    const Index* y;
    const double* cost;
    LoopSettings settings;
};

// The loop of a row problem, or null if it is another family's.
RowAscent* open_simplex_loop(const std::string& problem, const RowTask& task);  // simplex_loops.cpp
RowAscent* open_box_loop(const std::string& problem, const RowTask& task);      // box_loops.cpp
RowAscent* open_top_k_loop(const std::string& problem, const RowTask& task);    // top_k_loops.cpp

}  // namespace polymargin

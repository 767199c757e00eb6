// The best machine on the affine hull of the last few epochs' ends.
//
// Once a face has settled, epochs are steps of a linear iteration that converges slowly in a few directions. The dual is a concave
// quadratic of the machines W_0, ..., W_3 at the ends of four epochs,
//
//   max over t of  D(a_3 + sum_j t_j (a_j+1 - a_j)),     slope_j = <delta, a_j+1 - a_j> - <W_3, dW_j>,     H_jl = <dW_j, dW_l>,
//
// and its maximum costs no look at the rows: only products of machines. (Anderson's extrapolation of coordinate descent, Bertrand &
// Massias 2021, with the dual itself as what is to be extremal.) Duals that leave their domain on the way are projected back, which
// moves the machine by their rows alone, and the step is taken with an exact line search: the dual never falls.
//
// A machine that is a combination of others has lost digits: DualState::sum_up_again makes it anew before it proves anything.
#pragma once

#include <array>
#include <vector>

#include "machine/dual_state.hpp"

namespace polymargin {

class Extrapolation {
public:
    explicit Extrapolation(DualState& state) : state_(state) {}

    // Whether the machine's products cost little beside epochs of so many visits, and its copies little beside the rows.
    bool pays(std::int64_t visits) const;

    void begin();  // from the machine as it is now
    void forget() { on_ = false; }
    bool is_on() const { return on_; }

    // Row i is about to move.
    void note(Size i) {
        if (on_ && !noted_[i]) remember(i);
    }

    // Another epoch is over: steps if there are enough of them. Whether it has moved the machine.
    bool epoch_is_over(const Poll& poll);

private:
    static constexpr Size epochs = 3;
    static constexpr double share = 0.25;             // of the work of epochs that a step may cost
    static constexpr double small = 4e6, part = 0.1;  // bytes of copies of the machine, or as a part of those of the rows
    static constexpr double alike = 1e-10;            // of H: directions that differ by less are one
    static constexpr double rounding = 1e-14;         // of a row's cost: duals that differ by less are equal

    using Coefficients = std::array<double, epochs + 1>;  // of the points, the last one is now

    // Duals of the rows that have moved, in the order in which they did first.
    struct Point {
        std::vector<Size> starts;
        std::vector<Index> classes;
        std::vector<double> values, machine;

        void clear() {
            starts.assign(1, 0);
            classes.clear();
            values.clear();
        }
        Size n_rows() const { return starts.size() - 1; }
    };

    // A row's new duals, written from `begin` on into `moved_`.
    struct Change {
        Size row, begin, count;
    };

    void remember(Size i);
    void append(Point& point, Size i) const;
    const Point& duals_at(Size point, Size k) const { return k < points_[point].n_rows() ? points_[point] : points_[0]; }
    bool find_best(Coefficients& weights);
    Coefficients linear_parts() const;
    void allot();
    void move_duals(const Coefficients& weights, const Poll& poll);
    void combine_row(Size k, const Coefficients& weights);
    double settle_row(Size i);
    void correct(Size i, const double* after, Size count);
    bool take(double linear);
    double target(Size i, Index k) const { return state_.has_targets() ? state_.target(static_cast<Size>(state_.y[i]), k) : 1.0; }

    DualState& state_;
    bool on_ = false;
    Size n_points_ = 0;
    std::array<Point, epochs> points_;
    std::vector<std::uint8_t> noted_, is_touched_;
    std::vector<Size> rows_;  // that have moved
    std::vector<Change> changes_;
    std::vector<Index> touched_, listed_;
    std::vector<double> next_, moved_, value_, steps_, scratch_, every_;
    double gained_ = 0.0;  // <delta, a' - a>
};

}  // namespace polymargin

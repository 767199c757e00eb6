// The best machine on the affine hull of the last few epochs' ends.
//
// Once a face has settled, epochs are steps of a linear iteration that converges slowly in a few directions. The dual is a concave
// quadratic of the machines W_0, ..., W_3 at the ends of four epochs,
//
//   max over t of  D(a_3 + sum_j t_j (a_j+1 - a_j)),     slope_j = <delta, a_j+1 - a_j> - <W_3, dW_j>,     H_jl = <dW_j, dW_l>,
//
// and its maximum costs no look at the rows: only products of machines. (Anderson's extrapolation of coordinate descent, Bertrand &
// Massias 2021, with the dual itself as what is to be extremal.) Beside an intercept products are those of the proximal problem, and its
// centre adds to the slopes; a squared loss adds its squares to slopes and H. Duals that leave their domain on the way are projected
// back, which moves the machine by their rows alone, and the step is taken with an exact line search: the dual never falls.
//
// A machine that is a combination of others has lost digits, `lost` says how many: DualState::sum_up_again makes it anew.
#pragma once

#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include "machine/dual_state.hpp"

namespace polymargin {

class Extrapolation {
public:
    explicit Extrapolation(DualState& state) : state_(state) {}

    // Whether the machine's products cost little beside epochs of so many visits, and its copies little beside the rows.
    bool pays(std::int64_t visits) const;
    double price() const;  // of the last step, in visits

    void begin();  // from the machine as it is now
    void forget() { on_ = false; }
    bool is_on() const { return on_; }

    double lost() const { return lost_; }  // by rounding: a part of the machine
    void sum_up_again(const Poll& poll) {
        state_.sum_up_again(poll);
        lost_ = 0.0;
    }

    // Row i is about to move.
    void note(Size i) {
        if (wants(i)) remember(i);
    }
    bool wants(Size i) const { return on_ && !noted_[i]; }  // to know of it before it moves

    // Another epoch is over: steps if there are enough of them. Whether it has moved the machine.
    bool epoch_is_over(const Poll& poll);

private:
    static constexpr Size epochs = 3;
    static constexpr double a_machine = 12.0, a_dual = 80.0;  // multiplications, for each number of the machine, and row or dual that has moved
    static constexpr double share = 0.25;             // of the work of epochs that a step's machines may cost
    static constexpr double small = 4e6, part = 0.1;  // bytes of copies of the machine, or as a part of those of the rows
    static constexpr double alike = 1e-10;            // of H: directions that differ by less are one
    static constexpr double most = 1e4;               // sum of the coefficients: of points that differ by rounding they are larger
    static constexpr double rounding = 1e-14;         // of a row's cost: duals that differ by less are equal

    using Coefficients = std::array<double, epochs + 1>;  // of the points, the last one is now

    // Duals of the rows that have moved, in the order in which they did first.
    struct Point : SparseDuals {
        std::unique_ptr<Weights> machine;
    };

    // A row's new duals, written from `begin` on into `moved_`.
    struct Change {
        Size row, begin, count;
    };

    using Slopes = std::array<double, epochs>;
    using Curvatures = std::array<Slopes, epochs>;  // the lower half

    double visit() const;
    void copy_machine();
    void remember(Size i);
    RowDuals duals_at(Size point, Size k);  // of the k-th row that has moved, until this is asked again
    bool find_best(Coefficients& weights);
    void add_rows(Curvatures& H, Slopes& slopes);
    static void add_square(const double* values, Size stride, double curvature, Curvatures& H, Slopes& slopes);
    void allot();
    void move_duals(const Coefficients& weights, const Poll& poll);
    void combine_row(Size k, const Coefficients& weights);
    void settle_row(Size i);
    void add_change(Size i, const RowDuals& before, const RowDuals& after);
    void correct(Size i, const double* after, Size count);
    bool take();
    double target(Size i, Index k) const { return state_.has_targets() ? state_.target(static_cast<Size>(state_.y[i]), k) : 1.0; }
    bool squares_each() const { return state_.rules.squares == Squares::of_each; }
    Size touch(Index label) {
        const Size l = static_cast<Size>(label);
        if (!is_touched_[l]) touched_.push_back(label);
        is_touched_[l] = 1;
        return l;
    }

    DualState& state_;
    bool on_ = false;
    Size n_points_ = 0;
    double lost_ = 0.0;
    double reach_ = 1.0;  // part of the way to the best machine that duals can go without many of them leaving their domain
    std::array<Point, epochs> points_;
    std::vector<std::uint8_t> noted_, is_touched_;
    std::vector<Size> rows_;  // that have moved
    std::vector<Change> changes_;
    std::vector<Index> touched_, listed_;
    std::vector<double> moved_, value_, apart_, steps_, scratch_;
    double slope_ = 0.0, bend_ = 0.0;  // of the dual along the step, its machine aside
};

}  // namespace polymargin

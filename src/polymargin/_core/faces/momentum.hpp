// Epochs with momentum, where nearly all duals are free.
//
// Then no face is small enough for conjugate gradients, and epochs are steps of one linear iteration whose errors die out at very
// different paces: too many for the extrapolation of a few epochs. Before every other epoch the iterate therefore goes on by a part of
// the way that it has come since the last time,
//
//   a <- P(a + beta (a - a_before)),    beta = k / (k + 3) at the k-th time,
//
// (Nesterov 1983, with epochs for the gradient step), and the machine with it. P goes back into the domain; the machine follows by the
// rows that have left it alone. Such a step may lower the dual, until the next epochs have lifted it: then k is halved.
#pragma once

#include <memory>
#include <vector>

#include "machine/dual_state.hpp"

namespace polymargin {

class Momentum {
public:
    explicit Momentum(DualState& state) : state_(state) {}

    // Whether a step costs little beside so many visits of rows with so many free duals in all.
    bool pays(double visits, double n_free) const;

    // No signal interrupts it: machine and duals must not part. All rows must have been restored.
    void step();
    void forget() { age_ = 0; }

private:
    static constexpr double most = 0.7;   // beta at most: more is left as noise in the value
    static constexpr double share = 0.1;  // of the work of epochs that a step may cost

    void move_row(Size i, double beta);

    DualState& state_;
    Size age_ = 0;  // k
    std::unique_ptr<Weights> before_;
    std::vector<double> duals_before_, ahead_, moved_, scratch_;  // (n, c); of one row
    std::vector<Index> listed_;
};

}  // namespace polymargin

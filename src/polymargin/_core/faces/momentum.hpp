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
//
// Squared maxima whose unknowns are few, and squared means of the two largest, converge as slowly in as many directions, though few of their
// duals are free: rows tie, and no face lasts. They go on before every epoch, with a k that grows more slowly, and what is judged is a step
// with the epoch after it. Their duals have no bounds but 0, or those of a cone: no row has to look at all classes again.
#pragma once

#include <memory>
#include <vector>

#include "machine/dual_state.hpp"

namespace polymargin {

class Momentum {
public:
    explicit Momentum(DualState& state) : state_(state) {}

    // When steps are due, in epochs: since the last one, and before the end; beta is k / (k + delay), `most` at most (more is left as noise
    // in the value).
    struct Rhythm {
        double since, left, delay, most;
        bool judges_at_once;  // without the epochs after it
    };
    static constexpr Rhythm steady{2.0, 1.5, 3.0, 0.7, true}, quick{0.25, 0.75, 6.0, 0.8, false};

    // Whether a step costs little beside so many visits of rows with so many free duals in all.
    bool pays(double visits, double n_free) const;

    // No signal interrupts it: machine and duals must not part.
    void step(const Rhythm& rhythm);
    void judge(double gain) { age_ = gain < 0.0 ? age_ / 2 : age_; }  // of the dual
    void forget() { age_ = 0; }

private:
    static constexpr double share = 0.1;  // of the work of epochs that a step may cost

    void move_row(Size i, double beta);
    void take(Size i, Size count, double* a);

    DualState& state_;
    Size age_ = 0;  // k
    std::unique_ptr<Weights> before_;
    SparseDuals duals_before_, duals_now_;
    std::vector<double> ahead_, moved_, scratch_;  // of one row
    std::vector<Index> listed_, touched_;
};

}  // namespace polymargin

// How many rows are visited at the same time.
//
// They look at the machine as it was before any of them moved, and then all move: what each gains by itself adds up to more than
// the dual gains. If that is less than half of it only half as many rows are visited together from then on. The rule knows the
// rows and their gains, not the threads: these change no bit.
#pragma once

#include <algorithm>
#include <cmath>

#include "machine/dual_state.hpp"

namespace polymargin {

class Together {
public:
    Together(int most, const Rows& rows)
        : most_(static_cast<Size>(std::max(1, most))), now_(most_),
          rarely_(static_cast<double>(rows.n_rows()) *
                  std::max(2.0, 8.0 * static_cast<double>(rows.weights_size() * sizeof(double)) / static_cast<double>(rows.bytes() + 1))) {}

    Size most() const { return most_; }
    Size now() const { return now_; }

    // The dual is exact: the next gains are counted from here.
    void begin(const DualState& state, std::int64_t visits) {
        dual_ = state.dual;
        visits_ = visits;
    }

    // After an epoch. Makes the dual exact, if enough rows have been visited that this costs little, or at the `end`.
    void check(DualState& state, std::int64_t visits, bool end) {
        if (most_ == 1 || (!end && static_cast<double>(visits - visits_) < rarely_)) return;
        const double claimed = state.dual - dual_;
        state.refresh_dual();
        const double gained = state.dual - dual_;
        const bool is_rounding = claimed <= 1e-9 * std::fabs(state.dual);
        if (!is_rounding && gained < 0.5 * claimed) now_ = std::max<Size>(1, now_ / 2);
        begin(state, visits);
    }

private:
    Size most_, now_;
    double rarely_;  // visits between two checks
    double dual_ = 0.0;
    std::int64_t visits_ = 0;
};

}  // namespace polymargin

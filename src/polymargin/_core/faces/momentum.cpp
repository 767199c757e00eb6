// A step with momentum.
#include "momentum.hpp"

#include <algorithm>

namespace polymargin {

bool Momentum::pays(double visits, double n_free) const {
    const double machine = static_cast<double>(state_.rows.weights_size()), n = static_cast<double>(state_.n_rows());
    const double row = static_cast<double>(state_.rows.bytes()) / (8.0 * n);
    return 4.0 * machine <= share * visits * 2.0 * row * n_free / n;  // scores and steps of the free classes
}

void Momentum::step() {
    if (!before_) {
        const Size c = state_.n_classes();
        before_ = std::make_unique<Weights>(state_.rows, state_.intercept, state_.metric);
        duals_before_.assign(state_.n_rows() * c, 0.0);
        ahead_.resize(c);
        moved_.resize(c);
        scratch_.resize(c + 1);
        listed_.resize(c + 1);
    }
    const double k = static_cast<double>(age_), beta = std::min(most, k / (k + 3.0)), dual = state_.dual;
    state_.weights.go_on(beta, *before_);
    for (Size i = 0; i < state_.n_rows(); ++i) move_row(i, beta);
    state_.refresh_dual();
    age_ = beta > 0.0 && state_.dual < dual ? age_ / 2 : age_ + 1;
}

void Momentum::move_row(Size i, double beta) {
    const auto& slot = state_.duals.slot(i);
    const Size c = state_.n_classes(), count = static_cast<Size>(slot.count);
    double *a = state_.duals.values(slot), *before = duals_before_.data() + i * c;
    for (Size k = 0; k < c; ++k) ahead_[k] = -beta * before[k];
    std::fill_n(before, c, 0.0);
    for (Size k = 0; k < count; ++k) {
        listed_[k] = state_.duals.label(slot, static_cast<Index>(k));
        const Size l = static_cast<Size>(listed_[k]);
        before[l] = a[k];
        moved_[k] = ahead_[l] += (1.0 + beta) * a[k];
    }
    if (!(beta > 0.0)) return;
    const RowDuals row{listed_.data(), moved_.data(), count, state_.y[i], state_.cost[i]};
    bool leaves = state_.rules.room(row) < 1.0;
    for (Size k = 0; k < c; ++k) leaves |= ahead_[k] < 0.0;
    std::copy_n(moved_.data(), count, a);
    if (!leaves) return;
    state_.rules.project(row, false, 0.0, moved_.data(), scratch_.data());
    for (Size k = 0; k < count; ++k) {
        a[k] = moved_[k];
        ahead_[static_cast<Size>(listed_[k])] -= a[k];
    }
    Size n = 0;
    for (Size k = 0; k < c; ++k) {  // the machine is that of `ahead`
        if (ahead_[k] == 0.0) continue;
        listed_[n] = static_cast<Index>(k);
        moved_[n++] = -ahead_[k];
    }
    state_.weights.add(i, listed_.data(), scratch_.data(), state_.signed_steps(i, listed_.data(), moved_.data(), n, scratch_.data()));
}

}  // namespace polymargin

// A step with momentum.
#include "momentum.hpp"

#include <algorithm>
#include <utility>

namespace polymargin {

bool Momentum::pays(double visits, double n_free) const {
    const double machine = static_cast<double>(state_.rows.weights_size()), n = static_cast<double>(state_.n_rows());
    const double row = static_cast<double>(state_.rows.bytes()) / (8.0 * n);
    return 4.0 * machine <= share * visits * 2.0 * row * n_free / n;  // scores and steps of the free classes
}

void Momentum::step(const Rhythm& rhythm) {
    if (!before_) {
        const Size c = state_.n_classes();
        before_ = std::make_unique<Weights>(state_.rows, state_.intercept, state_.metric);
        duals_before_.starts.assign(state_.n_rows() + 1, 0);
        ahead_.assign(c, 0.0);
        moved_.resize(c);
        scratch_.resize(c + 1);
        listed_.resize(c + 1);
    }
    const double k = static_cast<double>(age_), beta = std::min(rhythm.most, k / (k + rhythm.delay)), dual = state_.dual;
    state_.weights.go_on(beta, *before_);
    duals_now_.clear();
    for (Size i = 0; i < state_.n_rows(); ++i) move_row(i, beta);
    std::swap(duals_before_, duals_now_);
    state_.refresh_dual();
    ++age_;
    if (rhythm.judges_at_once && beta > 0.0) judge(state_.dual - dual);
}

void Momentum::move_row(Size i, double beta) {
    const auto& slot = state_.duals.slot(i);
    const Size count = static_cast<Size>(slot.count);
    double* a = state_.duals.values(slot);
    touched_.clear();
    for (Size k = duals_before_.begin(i); k < duals_before_.begin(i + 1) && beta > 0.0; ++k) {
        touched_.push_back(duals_before_.classes[k]);
        ahead_[static_cast<Size>(touched_.back())] = -beta * duals_before_.values[k];
    }
    for (Size k = 0; k < count; ++k) {
        listed_[k] = state_.duals.label(slot, static_cast<Index>(k));
        if (a[k] != 0.0) duals_now_.append(listed_[k], a[k]);
        double& ahead = ahead_[static_cast<Size>(listed_[k])];
        if (ahead == 0.0) touched_.push_back(listed_[k]);
        moved_[k] = ahead += (1.0 + beta) * a[k];
    }
    duals_now_.end_row();
    if (beta > 0.0) take(i, count, a);
    for (Index label : touched_) ahead_[static_cast<Size>(label)] = 0.0;
}

// What lies ahead, or what is left of it in the domain; the machine is that of all that lies ahead.
void Momentum::take(Size i, Size count, double* a) {
    const RowDuals row{listed_.data(), moved_.data(), count, state_.y[i], state_.cost[i]};
    bool leaves = state_.rules.room(row) < 1.0;
    for (Index label : touched_) leaves |= ahead_[static_cast<Size>(label)] < 0.0;
    if (leaves) state_.rules.project(row, false, 0.0, moved_.data(), scratch_.data());
    std::copy_n(moved_.data(), count, a);
    if (!leaves) return;
    for (Size k = 0; k < count; ++k) ahead_[static_cast<Size>(listed_[k])] -= a[k];
    Size n = 0;
    for (Index label : touched_) {
        double& left = ahead_[static_cast<Size>(label)];
        if (left == 0.0) continue;
        listed_[n] = label;
        moved_[n++] = -std::exchange(left, 0.0);
    }
    state_.weights.add(i, listed_.data(), scratch_.data(), state_.signed_steps(i, listed_.data(), moved_.data(), n, scratch_.data()));
}

}  // namespace polymargin

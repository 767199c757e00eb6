// The step along the last epochs.
#include "extrapolation.hpp"

#include <algorithm>
#include <cmath>

#include "rows/pack.hpp"

namespace polymargin {
namespace {

// Solves H t = s for a positive definite H; false if it is none.
template <Size m>
bool solve(std::array<std::array<double, m>, m> H, std::array<double, m>& t) {
    for (Size p = 0; p < m; ++p) {
        if (!(H[p][p] > 0.0)) return false;
        for (Size r = p + 1; r < m; ++r) {
            const double factor = H[r][p] / H[p][p];
            for (Size q = p; q < m; ++q) H[r][q] -= factor * H[p][q];
            t[r] -= factor * t[p];
        }
    }
    for (Size p = m; p-- > 0;) {
        for (Size q = p + 1; q < m; ++q) t[p] -= H[p][q] * t[q];
        t[p] /= H[p][p];
    }
    return true;
}

}  // namespace

bool Extrapolation::pays(std::int64_t visits) const {
    const double machine = static_cast<double>(state_.rows.weights_size()), bytes = static_cast<double>(state_.rows.bytes());
    if (8.0 * (epochs + 1) * machine > std::max(small, part * bytes)) return false;
    const double row = bytes / (8.0 * static_cast<double>(state_.n_rows()));
    const double visit = 4.0 * row;  // scores of about two classes, and two that move
    return 12.0 * machine <= share * epochs * static_cast<double>(visits) * visit;
}

void Extrapolation::begin() {
    for (Size i : rows_) noted_[i] = 0;
    noted_.resize(state_.n_rows(), 0);
    rows_.clear();
    for (Point& point : points_) point.clear();
    const double* V = state_.weights.vectors();
    points_[0].machine.assign(V, V + state_.rows.weights_size());
    n_points_ = 1;
    on_ = true;
}

void Extrapolation::append(Point& point, Size i) const {
    const auto& slot = state_.duals.slot(i);
    const double* a = state_.duals.values(slot);
    for (Index k = 0; k < slot.count; ++k) {
        if (a[k] == 0.0) continue;
        point.classes.push_back(state_.duals.label(slot, k));
        point.values.push_back(a[k]);
    }
    point.starts.push_back(point.classes.size());
}

void Extrapolation::remember(Size i) {
    noted_[i] = 1;
    rows_.push_back(i);
    append(points_[0], i);
}

bool Extrapolation::epoch_is_over(const Poll& poll) {
    if (!on_) return false;
    if (n_points_ < epochs) {
        Point& point = points_[n_points_++];
        const double* V = state_.weights.vectors();
        point.machine.assign(V, V + state_.rows.weights_size());
        for (Size i : rows_) append(point, i);
        return false;
    }
    on_ = false;
    Coefficients weights;
    if (!find_best(weights)) return false;
    allot();
    move_duals(weights, poll);
    return take(gained_);
}

// <delta, a> of the duals of the rows that have moved, at every point.
Extrapolation::Coefficients Extrapolation::linear_parts() const {
    Coefficients total{};
    const auto add = [&](double& to, Size i, Size count, const auto& label, const double* a) {
        for (Size k = 0; k < count; ++k) to += state_.has_targets() ? a[k] * target(i, label(k)) : a[k];
    };
    for (Size k = 0; k < rows_.size(); ++k) {
        const Size i = rows_[k];
        for (Size j = 0; j < epochs; ++j) {
            const Point& from = duals_at(j, k);
            const Size begin = from.starts[k];
            add(total[j], i, from.starts[k + 1] - begin, [&](Size l) { return from.classes[begin + l]; }, from.values.data() + begin);
        }
        const auto& slot = state_.duals.slot(i);
        const auto label = [&](Size l) { return state_.duals.label(slot, static_cast<Index>(l)); };
        add(total[epochs], i, static_cast<Size>(slot.count), label, state_.duals.values(slot));
    }
    return total;
}

// The weights of the points at which the dual is highest, domains aside.
bool Extrapolation::find_best(Coefficients& weights) {
    const Size size = state_.rows.weights_size();
    const double* V = state_.weights.vectors();
    std::array<std::array<double, epochs>, epochs> H{};
    std::array<double, epochs> t{};
    const Coefficients linear = linear_parts();
    for (Size j = 0; j < epochs; ++j) {  // differences in place: the points themselves are not needed any more
        const double* after = j + 1 < epochs ? points_[j + 1].machine.data() : V;
        double* machine = points_[j].machine.data();
        for (Size k = 0; k < size; ++k) machine[k] = after[k] - machine[k];
        t[j] = linear[j + 1] - linear[j] - inner_of_packs(machine, V, size);
    }
    double trace = 0.0;
    for (Size j = 0; j < epochs; ++j) {
        for (Size l = 0; l <= j; ++l) H[j][l] = H[l][j] = inner_of_packs(points_[j].machine.data(), points_[l].machine.data(), size);
        trace += H[j][j];
    }
    for (Size j = 0; j < epochs; ++j) H[j][j] += alike * trace;
    if (!solve(H, t)) return false;
    for (Size j = 0; j <= epochs; ++j) weights[j] = (j == epochs ? 1.0 : 0.0) + (j > 0 ? t[j - 1] : 0.0) - (j < epochs ? t[j] : 0.0);
    next_.assign(V, V + size);
    for (Size j = 0; j < epochs; ++j) {
        const double* machine = points_[j].machine.data();
        for (Size k = 0; k < size; ++k) next_[k] += t[j] * machine[k];
    }
    return true;
}

void Extrapolation::allot() {
    const Size c = state_.n_classes();
    value_.assign(c, 0.0);
    is_touched_.assign(c, 0);
    listed_.resize(c + 1);
    steps_.resize(c + 1);
    scratch_.resize(c + 1);
    every_.resize(padded(c + 1));
    changes_.clear();
    moved_.clear();
    gained_ = 0.0;
}

void Extrapolation::move_duals(const Coefficients& weights, const Poll& poll) {
    for (Size k = 0; k < rows_.size(); ++k) {
        if ((k & 1023) == 0) poll();
        combine_row(k, weights);
        gained_ += settle_row(rows_[k]);
    }
}

// The combination of a row's duals, in `value_`.
void Extrapolation::combine_row(Size k, const Coefficients& weights) {
    touched_.clear();
    const auto add = [&](Index label, double value) {
        const Size l = static_cast<Size>(label);
        if (!is_touched_[l]) touched_.push_back(label);
        is_touched_[l] = 1;
        value_[l] += value;
    };
    for (Size j = 0; j < epochs; ++j) {
        const Point& point = duals_at(j, k);
        for (Size l = point.starts[k]; l < point.starts[k + 1]; ++l) add(point.classes[l], weights[j] * point.values[l]);
    }
    const auto& slot = state_.duals.slot(rows_[k]);
    const double* a = state_.duals.values(slot);
    for (Index l = 0; l < slot.count; ++l) add(state_.duals.label(slot, l), weights[epochs] * a[l]);
}

// What becomes of it: duals at rest stay, the others go into their domain, and the machine follows. Returns what the linear part gains.
double Extrapolation::settle_row(Size i) {
    const auto& slot = state_.duals.slot(i);
    const double* a = state_.duals.values(slot);
    const Size count = static_cast<Size>(slot.count), active = slot.every ? count : static_cast<Size>(slot.active);
    const Size begin = moved_.size();
    double held = 0.0, before = 0.0, after = 0.0;
    for (Size k = 0; k < count; ++k) {
        listed_[k] = state_.duals.label(slot, static_cast<Index>(k));
        moved_.push_back(k < active ? value_[static_cast<Size>(listed_[k])] : a[k]);
        before += a[k];
        after += moved_.back();
        if (k >= active) held += a[k];
    }
    double* moved = moved_.data() + begin;
    const RowDuals row{listed_.data(), moved, count, state_.y[i], state_.cost[i]};
    bool leaves = state_.rules.room(row) < 1.0 - rounding;
    if (!slot.target_active) leaves |= std::fabs(after - before) > rounding * row.cost;  // its own class is at rest: it keeps its sum
    for (Size k = 0; k < active; ++k) leaves |= moved[k] < 0.0;
    if (leaves) state_.rules.project({row.classes, moved, active, row.y, row.cost}, !slot.target_active, held, moved, scratch_.data());
    double gain = 0.0;
    for (Size k = 0; k < count; ++k) gain += (moved[k] - a[k]) * target(i, listed_[k]);
    correct(i, moved, count);
    changes_.push_back({i, begin, count});
    return gain;
}

// The machine is that of the combined duals: what became of them instead is added.
void Extrapolation::correct(Size i, const double* after, Size count) {
    Size n = 0;
    double own = 0.0;
    const auto add = [&](Index label, double change) {
        if (std::fabs(change) <= rounding * state_.cost[i]) return;
        listed_[n] = label;
        steps_[n++] = -change;
        own += change;
    };
    for (Size k = 0; k < count; ++k) {
        const Index label = listed_[k];
        const double change = after[k] - value_[static_cast<Size>(label)];
        value_[static_cast<Size>(label)] = 0.0;
        is_touched_[static_cast<Size>(label)] = 0;
        add(label, change);
    }
    for (Index label : touched_) {
        if (!is_touched_[static_cast<Size>(label)]) continue;
        add(label, -value_[static_cast<Size>(label)]);
        value_[static_cast<Size>(label)] = 0.0;
        is_touched_[static_cast<Size>(label)] = 0;
    }
    if (n == 0) return;
    listed_[n] = state_.y[i];
    steps_[n++] = own;
    state_.rows.add(next_.data(), i, listed_.data(), steps_.data(), n, every_.data());
}

bool Extrapolation::take(double linear) {
    const Size size = state_.rows.weights_size();
    double* V = state_.weights.vectors();
    for (Size k = 0; k < size; ++k) next_[k] -= V[k];
    const double slope = linear - inner_of_packs(next_.data(), V, size), bend = inner_of_packs(next_.data(), next_.data(), size);
    if (!(slope > 0.0) || !(bend > 0.0)) return false;
    const double t = std::min(1.0, slope / bend);
    for (Size k = 0; k < size; ++k) V[k] += t * next_[k];
    for (const Change& change : changes_) {
        double* a = state_.duals.values(state_.duals.slot(change.row));
        for (Size k = 0; k < change.count; ++k) a[k] += t * (moved_[change.begin + k] - a[k]);
    }
    state_.dual += t * slope - 0.5 * t * t * bend;
    return true;
}

}  // namespace polymargin

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
    return a_machine * machine <= share * epochs * static_cast<double>(visits) * visit();
}

double Extrapolation::price() const {
    const double duals = static_cast<double>(rows_.size() + points_[epochs - 1].values.size());
    return (a_machine * static_cast<double>(state_.rows.weights_size()) + a_dual * duals) / visit();
}

// Multiplications of a visit, or what takes as long: scores of about two classes, two that move, and the rest.
double Extrapolation::visit() const {
    const double entries = static_cast<double>(state_.rows.bytes()) / (8.0 * static_cast<double>(state_.n_rows()));
    return 4.0 * entries + 60.0;
}

void Extrapolation::begin() {
    for (Size i : rows_) noted_[i] = 0;
    noted_.resize(state_.n_rows(), 0);
    rows_.clear();
    for (Point& point : points_) point.clear();
    n_points_ = 0;
    copy_machine();
    on_ = true;
}

// The next point's, as it is now.
void Extrapolation::copy_machine() {
    std::unique_ptr<Weights>& machine = points_[n_points_++].machine;
    if (!machine) machine = std::make_unique<Weights>(state_.rows, state_.intercept, state_.metric);
    machine->clear();
    machine->add(1.0, state_.weights);
}

void Extrapolation::remember(Size i) {
    noted_[i] = 1;
    rows_.push_back(i);
    state_.append_row(i, points_[0]);
}

RowDuals Extrapolation::duals_at(Size point, Size k) {
    const Size i = rows_[k];
    if (point == epochs) {
        const auto& slot = state_.duals.slot(i);
        for (Index l = 0; l < slot.count; ++l) listed_[static_cast<Size>(l)] = state_.duals.label(slot, l);
        return {listed_.data(), state_.duals.values(slot), static_cast<Size>(slot.count), state_.y[i], state_.cost[i]};
    }
    const Point& from = k < points_[point].n_rows() ? points_[point] : points_[0];
    const Size begin = from.begin(k);
    return {from.classes.data() + begin, from.values.data() + begin, from.begin(k + 1) - begin, state_.y[i], state_.cost[i]};
}

bool Extrapolation::epoch_is_over(const Poll& poll) {
    if (!on_) return false;
    if (n_points_ < epochs) {
        copy_machine();
        for (Size i : rows_) state_.append_row(i, points_[n_points_ - 1]);
        return false;
    }
    on_ = false;
    allot();
    Coefficients weights;
    if (!find_best(weights)) return false;
    move_duals(weights, poll);
    return take();
}

// What the linear part and the squares of a squared loss are at every point, of the rows that have moved: as slopes of the dual along
// the differences of the points, and their curvatures.
void Extrapolation::add_rows(Curvatures& H, Slopes& slopes) {
    std::array<double, epochs + 1> linear{}, sums{};
    for (Size k = 0; k < rows_.size(); ++k) {
        const Size i = rows_[k];
        for (Size j = 0; j <= epochs; ++j) {
            const RowDuals row = duals_at(j, k);
            sums[j] = row.sum();
            for (Size l = 0; l < row.count; ++l) linear[j] += target(i, row.classes[l]) * row.a[l];
            for (Size l = 0; l < row.count && squares_each(); ++l) apart_[j * state_.n_classes() + touch(row.classes[l])] = row.a[l];
        }
        if (!state_.squared()) continue;
        if (!squares_each()) {
            add_square(sums.data(), 1, 0.5 / state_.cost[i], H, slopes);
            continue;
        }
        for (Index label : touched_) {
            double* values = apart_.data() + label;
            add_square(values, state_.n_classes(), 0.5 / state_.weighted_cost(i, label), H, slopes);
            for (Size j = 0; j <= epochs; ++j) values[j * state_.n_classes()] = 0.0;
            is_touched_[static_cast<Size>(label)] = 0;
        }
        touched_.clear();
    }
    for (Size j = 0; j < epochs; ++j) slopes[j] += linear[j + 1] - linear[j];
}

// Of curvature times half the square of a number, given at every point.
void Extrapolation::add_square(const double* values, Size stride, double curvature, Curvatures& H, Slopes& slopes) {
    std::array<double, epochs> steps;
    for (Size j = 0; j < epochs; ++j) steps[j] = values[(j + 1) * stride] - values[j * stride];
    const double now = curvature * values[epochs * stride];
    for (Size j = 0; j < epochs; ++j) {
        slopes[j] -= now * steps[j];
        for (Size l = 0; l <= j; ++l) H[j][l] += curvature * steps[j] * steps[l];
    }
}

// The weights of the points at which the dual is highest, domains aside.
bool Extrapolation::find_best(Coefficients& weights) {
    Curvatures H{};
    Slopes t{};
    add_rows(H, t);
    double trace = 0.0;
    for (Size j = 0; j < epochs; ++j) {  // differences in place: the points themselves are not needed any more
        Weights& machine = *points_[j].machine;
        machine.multiply(-1.0);
        machine.add(1.0, j + 1 < epochs ? *points_[j + 1].machine : state_.weights);
        t[j] -= state_.weights.proximal_inner(machine) + state_.weights.along_centre(machine);
    }
    for (Size j = 0; j < epochs; ++j) {
        for (Size l = 0; l <= j; ++l) {
            H[j][l] += points_[j].machine->proximal_inner(*points_[l].machine);
            H[l][j] = H[j][l];
        }
        trace += H[j][j];
    }
    for (Size j = 0; j < epochs; ++j) H[j][j] += alike * trace;
    if (!solve(H, t)) return false;
    for (double& step : t) step *= reach_;
    for (Size j = 0; j <= epochs; ++j) weights[j] = (j == epochs ? 1.0 : 0.0) + (j > 0 ? t[j - 1] : 0.0) - (j < epochs ? t[j] : 0.0);
    double size = 0.0;
    for (double weight : weights) size += std::fabs(weight);
    if (!(size <= most)) return false;
    lost_ += size * 0x1p-52;
    points_[0].machine->multiply(t[0]);  // becomes the step
    for (Size j = 1; j < epochs; ++j) points_[0].machine->add(t[j], *points_[j].machine);
    return true;
}

void Extrapolation::allot() {
    const Size c = state_.n_classes();
    value_.assign(c, 0.0);
    is_touched_.assign(c, 0);
    listed_.resize(c + 1);
    steps_.resize(c + 1);
    scratch_.resize(c + 1);
    apart_.assign(squares_each() ? (epochs + 1) * c : 0, 0.0);
    changes_.clear();
    moved_.clear();
    slope_ = bend_ = 0.0;
}

void Extrapolation::move_duals(const Coefficients& weights, const Poll& poll) {
    for (Size k = 0; k < rows_.size(); ++k) {
        if ((k & 1023) == 0) poll();
        combine_row(k, weights);
        settle_row(rows_[k]);
    }
}

// The combination of a row's duals, in `value_`.
void Extrapolation::combine_row(Size k, const Coefficients& weights) {
    touched_.clear();
    for (Size j = 0; j <= epochs; ++j) {
        const RowDuals row = duals_at(j, k);
        for (Size l = 0; l < row.count; ++l) value_[touch(row.classes[l])] += weights[j] * row.a[l];
    }
}

// What becomes of it: duals at rest stay, the others go into their domain, and the machine follows.
void Extrapolation::settle_row(Size i) {
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
    add_change(i, {listed_.data(), a, count, row.y, row.cost}, row);
    correct(i, moved, count);
    changes_.push_back({i, begin, count});
}

// What a row's step adds to slope and bend of the dual, its machine aside.
void Extrapolation::add_change(Size i, const RowDuals& before, const RowDuals& after) {
    for (Size k = 0; k < after.count; ++k) {
        const double step = after.a[k] - before.a[k];
        slope_ += step * target(i, after.classes[k]);
        if (!squares_each()) continue;
        const double curvature = 0.5 / state_.weighted_cost(i, after.classes[k]);
        slope_ -= curvature * before.a[k] * step;
        bend_ += curvature * step * step;
    }
    if (!state_.squared() || squares_each()) return;
    const double curvature = 0.5 / state_.cost[i], size = before.sum(), step = after.sum() - size;
    slope_ -= curvature * size * step;
    bend_ += curvature * step * step;
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
    points_[0].machine->add(i, listed_.data(), steps_.data(), n);
}

bool Extrapolation::take() {
    const Weights& step = *points_[0].machine;
    const double slope = slope_ - state_.weights.proximal_inner(step) - state_.weights.along_centre(step);
    const double bend = bend_ + step.proximal_inner(step);
    if (!(slope > 0.0) || !(bend > 0.0)) return false;
    const double t = std::min(1.0, slope / bend);
    reach_ = t > 0.8 ? std::min(1.0, 2.0 * reach_) : t < 0.4 ? 0.5 * reach_ : reach_;
    state_.weights.add(t, step);
    for (const Change& change : changes_) {
        double* a = state_.duals.values(state_.duals.slot(change.row));
        for (Size k = 0; k < change.count; ++k) a[k] += t * (moved_[change.begin + k] - a[k]);
    }
    state_.dual += t * slope - 0.5 * t * t * bend;
    return true;
}

}  // namespace polymargin

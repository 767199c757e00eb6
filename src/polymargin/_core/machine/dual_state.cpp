// The iterate of a dual method between epochs.
#include "dual_state.hpp"

#include <algorithm>
#include <stdexcept>

namespace polymargin {

DualState::DualState(Rows the_rows, const Index* targets, const double* costs)
    : rows(the_rows), y(targets), cost(costs), weights(rows, intercept, metric), duals(rows.n_rows(), rows.n_classes()),
      q(rows.n_rows()) {
    if (n_rows() > 0xffffffffu) throw std::length_error("more than 4294967295 rows");
    for (Size i = 0; i < n_rows(); ++i) q[i] = rows.squared_norm(i);
}

DualState::~DualState() = default;

void DualState::start_intercept(const double* means, double inverse_rho) {
    intercept.start(rows, means, inverse_rho);
    for (Size i = 0; i < n_rows(); ++i) q[i] = intercept.curvature(i, q[i]);
}

void DualState::set_base(const double* W0, double the_constant) {
    weights.set_base(W0);
    constant = the_constant;
    refresh_dual();
}

void DualState::set_row(Size i, const Index* classes, const double* values, Size count) {
    duals.reserve(i, count);
    auto& slot = duals.slot(i);
    slot.count = static_cast<Index>(count);
    std::vector<Index> moved(classes, classes + count);
    std::vector<double> steps(count);
    double sum = 0.0;
    for (Size k = 0; k < count; ++k) {
        duals.set(slot, static_cast<Index>(k), classes[k], values[k]);
        steps[k] = -values[k];
        sum += values[k];
    }
    moved.push_back(y[i]);
    steps.push_back(sum);
    if (count > 0) weights.add(i, moved.data(), steps.data(), count + 1);
}

SparseDuals DualState::sparse_duals() const {
    SparseDuals out;
    out.starts.push_back(0);
    for (Size i = 0; i < n_rows(); ++i) {
        const auto& slot = duals.slot(i);
        for (Index k = 0; k < slot.count; ++k) {
            if (duals.values(slot)[k] == 0.0) continue;
            out.classes.push_back(duals.label(slot, k));
            out.values.push_back(duals.values(slot)[k]);
        }
        out.starts.push_back(static_cast<std::int64_t>(out.classes.size()));
    }
    return out;
}

double DualState::row_sum(Size i) const {
    const auto& slot = duals.slot(i);
    const double* a = duals.values(slot);
    double sum = 0.0;
    for (Index k = 0; k < slot.count; ++k) sum += a[k];
    return sum;
}

double DualState::dual_sum() const {
    double total = 0.0;
    for (Size i = 0; i < n_rows(); ++i) {
        const double sum = row_sum(i);
        total += squared ? sum - sum * sum / (4.0 * cost[i]) : sum;
    }
    return total;
}

void DualState::rescale(const double* to, const double* squared_norms) {
    for (Size k = 0; k < n_classes(); ++k) {
        dual += 0.5 * (metric.scales[k] - to[k]) * squared_norms[k];
        metric.scales[k] = to[k];
    }
}

void DualState::change_metric(const double* P, double t, const Room& room) {
    const Size c = n_classes();
    for (Size i = 0; i < n_rows() && t > 1.0; ++i) {
        const auto& slot = duals.slot(i);
        std::vector<double> a(duals.values(slot), duals.values(slot) + slot.count);
        for (double& value : a) value *= t;
        t = std::max(1.0, t * room(a.data(), a.size(), cost[i]));
    }
    weights.multiply(t);
    for (Size i = 0; i < n_rows(); ++i) {
        const auto& slot = duals.slot(i);
        double* a = duals.values(slot);
        const double most = squared ? infinity : cost[i];
        for (Index k = 0; k < slot.count; ++k) a[k] = std::min(t * a[k], most);
    }
    metric.P.assign(P, P + c * c);
    refresh_dual();
}

std::vector<double> DualState::flows() const {
    const Size c = n_classes();
    std::vector<double> out(c * c, 0.0);
    for (Size i = 0; i < n_rows(); ++i) {
        const auto& slot = duals.slot(i);
        for (Index k = 0; k < slot.count; ++k) {
            out[static_cast<Size>(y[i]) * c + static_cast<Size>(duals.label(slot, k))] += duals.values(slot)[k];
        }
    }
    return out;
}

ScaledDuals DualState::scaled(const double* factors, const Room& room, const Poll& poll) const {
    const Size c = n_classes();
    Weights machine(rows, intercept, metric);
    ScaledDuals out{1.0, 0.0, 0.0, 0.0, {}};
    std::vector<double> a(c), steps(c);
    std::vector<Index> classes(c);
    for (Size i = 0; i < n_rows(); ++i) {
        const auto& slot = duals.slot(i);
        const Size count = static_cast<Size>(slot.count);
        double sum = 0.0;
        for (Size k = 0; k < count; ++k) {
            classes[k] = duals.label(slot, static_cast<Index>(k));
            a[k] = duals.values(slot)[k] * factors[static_cast<Size>(y[i]) * c + static_cast<Size>(classes[k])];
            steps[k] = -a[k];
            sum += a[k];
        }
        if (sum == 0.0) continue;
        classes[count] = y[i];
        steps[count] = sum;
        machine.add(i, classes.data(), steps.data(), count + 1);
        out.room = std::min(out.room, room(a.data(), count, cost[i]));
        out.sum += sum;
        if (squared) out.squares += sum * sum / (2.0 * cost[i]);
        if ((i & 63) == 0) poll();
    }
    if (metric.has_scales()) out.norms = machine.squared_norms();
    out.squared_norm = machine.squared_norm();
    return out;
}

void DualState::refresh_dual() {
    dual = constant + dual_sum() - 0.5 * weights.proximal_norm();
    for (Size k = 0; k < n_classes(); ++k) dual -= weights.centre()[k] * weights.sums()[k];
}

void DualState::move_centre(const double* to) {
    double change = 0.0;
    for (Size k = 0; k < n_classes(); ++k) {
        change -= (to[k] - weights.centre()[k]) * weights.sums()[k];
        weights.centre()[k] = to[k];
    }
    if (metric.has_matrix()) {  // its norm is dear, and has been formed anew when the metric last changed
        dual += change;
    } else {
        refresh_dual();
    }
}

}  // namespace polymargin

// The iterate of a dual method between epochs.
#include "dual_state.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace polymargin {

DualState::DualState(Rows the_rows, const Index* classes, const double* costs, LossRules the_rules, bool coupled)
    : rules(std::move(the_rules)), rows(the_rows), y(classes), cost(costs), metric(coupled), weights(rows, intercept, metric),
      duals(rows.n_rows(), weights.n_classes(), rules.absolute ? weights.n_classes() : weights.n_classes() - 1),
      q(rows.n_rows()) {
    if (n_rows() > 0xffffffffu) throw std::length_error("more than 4294967295 rows");
    set_curvatures();
}

DualState::~DualState() = default;

void DualState::start_intercept(const double* means, double inverse_rho) {
    intercept.start(rows, means, inverse_rho);
    set_curvatures();
}

void DualState::couple(const Coupling& coupling) {
    metric.coupling = coupling;
    set_curvatures();
}

void DualState::shrink(const Shrinkage& shrinkage) {
    metric.shrinkage = shrinkage;
    weights.start_shrinking();
}

void DualState::set_curvatures() {
    coupled_q.resize(metric.coupled ? n_rows() : 0);
    for (Size i = 0; i < n_rows(); ++i) {
        const double square = rows.squared_norm(i);
        q[i] = intercept.on ? intercept.curvature(i, square) : square;
        if (!metric.coupled) continue;
        coupled_q[i] = metric.curvatures(q[i], square, intercept.inverse_rho);
        // steps of margins to rivals add up to zero
        q[i] = rules.absolute ? std::max(coupled_q[i].apart, coupled_q[i].together) : coupled_q[i].apart;
    }
}

bool DualState::has_duals() const {
    for (Size i = 0; i < n_rows(); ++i) {
        if (duals.slot(i).count > 0) return true;
    }
    return false;
}

void DualState::slopes_from(Size i, const Index* classes, Size count, double margin, double* scores) const {
    const Size own = static_cast<Size>(y[i]);
    if (rules.absolute) {
        for (Size k = 0; k < count; ++k) {
            const double delta = has_targets() ? target(own, classes[k]) : 1.0;
            scores[k] = margin * delta + (classes[k] == y[i] ? -1.0 : 1.0) * scores[k];
        }
    } else if (has_targets()) {
        for (Size k = 0; k < count; ++k) scores[k] += margin * (target(own, classes[k]) - 1.0);
    }
}

Size DualState::signed_steps(Size i, Index* classes, const double* a, Size count, double* steps) const {
    double sum = 0.0;
    for (Size k = 0; k < count; ++k) {
        steps[k] = rules.absolute && classes[k] == y[i] ? a[k] : -a[k];
        sum += a[k];
    }
    if (rules.absolute) return count;
    classes[count] = y[i];
    steps[count] = sum;
    return count + 1;
}

void DualState::set_base(const double* W0, double the_constant) {
    weights.set_base(W0);
    constant = the_constant;
    shifted = true;
    refresh_dual();
}

void DualState::set_row(Size i, const Index* classes, const double* values, Size count) {
    duals.reserve(i, count);
    auto& slot = duals.slot(i);
    slot.count = static_cast<Index>(count);
    std::vector<Index> moved(classes, classes + count);
    std::vector<double> steps(count + 1);
    for (Size k = 0; k < count; ++k) duals.set(slot, static_cast<Index>(k), classes[k], values[k]);
    moved.push_back(y[i]);
    const Size n_steps = signed_steps(i, moved.data(), values, count, steps.data());
    if (count > 0) weights.add(i, moved.data(), steps.data(), n_steps);
}

SparseDuals DualState::sparse_duals() const {
    SparseDuals out;
    out.clear();
    for (Size i = 0; i < n_rows(); ++i) append_row(i, out);
    return out;
}

void DualState::append_row(Size i, SparseDuals& to) const {
    const auto& slot = duals.slot(i);
    const double* a = duals.values(slot);
    for (Index k = 0; k < slot.count; ++k) {
        if (a[k] != 0.0) to.append(duals.label(slot, k), a[k]);
    }
    to.end_row();
}

double DualState::row_sum(Size i) const {
    const auto& slot = duals.slot(i);
    const double* a = duals.values(slot);
    double sum = 0.0;
    for (Index k = 0; k < slot.count; ++k) sum += a[k];
    return sum;
}

RowDuals DualState::row_duals(Size i, std::vector<Index>& classes) const {
    const auto& slot = duals.slot(i);
    classes.resize(static_cast<Size>(slot.count) + 1);
    for (Index k = 0; k < slot.count; ++k) classes[static_cast<Size>(k)] = duals.label(slot, k);
    return {classes.data(), duals.values(slot), static_cast<Size>(slot.count), y[i], cost[i]};
}

double DualState::linear_part(const RowDuals& row) const {
    if (!has_targets()) return row.sum();
    double total = 0.0;
    for (Size k = 0; k < row.count; ++k) total += row.a[k] * target(static_cast<Size>(row.y), row.classes[k]);
    return total;
}

double DualState::flow() const {
    double total = 0.0;
    for (Size i = 0; i < n_rows(); ++i) total += row_sum(i);
    return total;
}

double DualState::dual_sum() const {
    if (!squared() && !has_targets()) return flow();
    double total = 0.0;
    std::vector<Index> classes;
    for (Size i = 0; i < n_rows(); ++i) {
        const RowDuals row = row_duals(i, classes);
        total += linear_part(row);
        if (squared()) total -= rules.square(row) / (4.0 * cost[i]);
    }
    return total;
}

void DualState::rescale(const double* to, const double* squared_norms) {
    for (Size k = 0; k < n_classes(); ++k) {
        dual += 0.5 * (metric.scales[k] - to[k]) * squared_norms[k];
        metric.scales[k] = to[k];
    }
}

void DualState::change_metric(const double* P, double t) {
    const Size c = n_classes();
    std::vector<Index> classes;
    std::vector<double> stretched;
    for (Size i = 0; i < n_rows() && t > 1.0; ++i) {
        RowDuals row = row_duals(i, classes);
        stretched.assign(row.a, row.a + row.count);
        for (double& value : stretched) value *= t;
        row.a = stretched.data();
        t = std::max(1.0, t * rules.room(row));
    }
    weights.multiply(t);
    for (Size i = 0; i < n_rows(); ++i) {
        const auto& slot = duals.slot(i);
        double* a = duals.values(slot);
        const double most = squared() ? infinity : cost[i];
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

ScaledDuals DualState::scaled(const double* factors, const Poll& poll) const {
    const Size c = n_classes();
    Weights machine(rows, intercept, metric);
    machine.read_later();
    ScaledDuals out{1.0, 0.0, 0.0, 0.0, {}};
    std::vector<double> a(c), steps(c + 1);
    std::vector<Index> classes;
    for (Size i = 0; i < n_rows(); ++i) {
        if ((i & 63) == 0) poll();
        RowDuals row = row_duals(i, classes);
        const double* factor = factors + static_cast<Size>(y[i]) * c;
        for (Size k = 0; k < row.count; ++k) a[k] = row.a[k] * factor[classes[k]];
        row.a = a.data();
        if (row.sum() == 0.0) continue;
        machine.add(i, classes.data(), steps.data(), signed_steps(i, classes.data(), a.data(), row.count, steps.data()));
        out.room = std::min(out.room, rules.room(row));
        out.sum += linear_part(row);
        if (squared()) out.squares += rules.square(row) / (2.0 * cost[i]);
    }
    machine.read_again();
    if (metric.has_scales()) out.norms = machine.squared_norms();
    out.squared_norm = machine.squared_norm();
    return out;
}

void DualState::refresh_dual() {
    dual = constant + dual_sum() - 0.5 * weights.proximal_norm();
    for (Size k = 0; k < n_classes(); ++k) dual -= weights.centre()[k] * weights.sums()[k];
}

void DualState::sum_up_again(const Poll& poll) {
    Weights machine(rows, intercept, metric);
    std::vector<double> steps(n_classes() + 1);
    std::vector<Index> classes;
    for (Size i = 0; i < n_rows(); ++i) {
        if ((i & 63) == 0) poll();
        const RowDuals row = row_duals(i, classes);
        if (row.sum() == 0.0) continue;
        machine.add(i, classes.data(), steps.data(), signed_steps(i, classes.data(), row.a, row.count, steps.data()));
    }
    weights.multiply(0.0);
    weights.add(1.0, machine);
    refresh_dual();
}

void DualState::move_centre(const double* to) {
    double change = 0.0;
    const double mean = metric.fixes_offsets() ? std::accumulate(to, to + n_classes(), 0.0) / static_cast<double>(n_classes()) : 0.0;
    for (Size k = 0; k < n_classes(); ++k) {
        change -= (to[k] - mean - weights.centre()[k]) * weights.sums()[k];
        weights.centre()[k] = to[k] - mean;
    }
    if (metric.has_matrix()) {  // its norm is dear, and has been formed anew when the metric last changed
        dual += change;
    } else {
        refresh_dual();
    }
}

}  // namespace polymargin

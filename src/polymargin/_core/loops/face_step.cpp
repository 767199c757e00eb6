// The linear system of a face.
#include "face_step.hpp"

namespace polymargin {
namespace {

double dot(const std::vector<double>& u, const std::vector<double>& v) {
    double sum = 0.0;
    for (Size k = 0; k < u.size(); ++k) sum += u[k] * v[k];
    return sum;
}

}  // namespace

void FaceSystem::clear() {
    rows_.clear();
    classes_.clear();
    position_.clear();
}

void FaceSystem::allot() {
    for (auto* vector : {&r_, &p_, &z_, &hp_, &x_, &moved_}) vector->assign(classes_.size(), 0.0);
    const Size widest = state_.n_classes() + 1;
    listed_.resize(widest);
    scores_.resize(padded(widest));
    scratch_.resize(widest);
}

void FaceSystem::solve(Size iterations, const Poll& poll) {
    if (!direction_) direction_ = std::make_unique<Weights>(state_.rows, state_.intercept, state_.metric);
    slopes_of(state_.weights, 1.0, r_, poll);
    if (state_.squared()) {
        for (Size k = 0; k < p_.size(); ++k) p_[k] = state_.duals.value_at(position_[k]);
        subtract_own_slopes(p_, r_);
    }
    gradient_ = r_;
    conjugate_gradients(iterations, poll);
}

// out = slopes of the dual in the free duals for the machine `weights`; `margin` is 1 for the machine itself and 0 for
// a direction.
void FaceSystem::slopes_of(Weights& weights, double margin, std::vector<double>& out, const Poll& poll) {
    Size visited = 0;
    for (const FaceRow& f : rows_) {
        const Size count = f.end - f.begin;
        std::copy_n(classes_.data() + f.begin, count, listed_.data());
        listed_[count] = state_.y[f.row];
        const bool with_own = !f.closed && !state_.rules.absolute;
        weights.scores(f.row, listed_.data(), count + (with_own ? 1 : 0), scores_.data());
        state_.slopes_from(f.row, listed_.data(), count, margin, scores_.data());
        double level = with_own ? scores_[count] - margin : 0.0;
        if (f.closed) {
            for (Size k = 0; k < count; ++k) level += scores_[k];
            level /= static_cast<double>(count);
        }
        for (Size k = 0; k < count; ++k) out[f.begin + k] = scores_[k] - level;
        if ((++visited & 63) == 0) poll();
    }
}

// direction = sum_i x_i tau_i(p)'
void FaceSystem::machine_of(const std::vector<double>& p, const Poll& poll) {
    direction_->clear();
    Size visited = 0;
    for (const FaceRow& f : rows_) {
        const Size count = f.end - f.begin;
        std::copy_n(classes_.data() + f.begin, count, listed_.data());
        const Size n_steps = state_.signed_steps(f.row, listed_.data(), p.data() + f.begin, count, scratch_.data());
        direction_->add(f.row, listed_.data(), scratch_.data(), f.closed ? count : n_steps);
        if ((++visited & 63) == 0) poll();
    }
}

// A squared loss adds its square / (4 u) of every row to the quadratic: its part of the slopes.
void FaceSystem::subtract_own_slopes(const std::vector<double>& p, std::vector<double>& slopes) const {
    for (const FaceRow& f : rows_) {
        double sum = 0.0;
        for (Size k = f.begin; k < f.end; ++k) sum += p[k];
        const double shared = sum_curvature(f.row) * sum;
        for (Size k = f.begin; k < f.end; ++k) slopes[k] -= shared + each_curvature(f.row, classes_[k]) * p[k];
    }
}

double FaceSystem::own_curvature(const std::vector<double>& p) const {
    double total = 0.0;
    for (const FaceRow& f : rows_) {
        double sum = 0.0;
        for (Size k = f.begin; k < f.end; ++k) {
            sum += p[k];
            total += each_curvature(f.row, classes_[k]) * p[k] * p[k];
        }
        total += sum_curvature(f.row) * sum * sum;
    }
    return total;
}

double FaceSystem::sum_curvature(Size i) const {
    return state_.rules.squares == Squares::of_sum ? 0.5 / state_.cost[i] : 0.0;
}

double FaceSystem::each_curvature(Size i, Index k) const {
    return state_.rules.squares == Squares::of_each ? 0.5 / state_.weighted_cost(i, k) : 0.0;
}

double FaceSystem::curvature(Size i, Index k) const {
    const double inverse_rho = state_.intercept.inverse_rho;
    return state_.metric.scale(static_cast<Size>(k)) * (state_.q[i] - inverse_rho) + inverse_rho;
}

// In general: open rows have the block D + h_y 11', closed ones J D J, D diagonal and J minus the mean.
void FaceSystem::any_blocks(const std::vector<double>& p, std::vector<double>& out, bool inverse) const {
    for (const FaceRow& f : rows_) {
        const double members = static_cast<double>(f.end - f.begin);
        const double own = (state_.rules.absolute ? 0.0 : curvature(f.row, state_.y[f.row])) + sum_curvature(f.row);
        double sum = 0.0, inverses = 0.0;
        for (Size k = f.begin; k < f.end; ++k) {
            const double h = curvature(f.row, classes_[k]) + each_curvature(f.row, classes_[k]);
            out[k] = inverse ? p[k] / h : h * p[k];
            sum += f.closed || inverse ? out[k] : p[k];
            inverses += 1.0 / h;
        }
        if (!inverse) {
            const double shared = f.closed ? -sum / members : own * sum;
            for (Size k = f.begin; k < f.end; ++k) out[k] += shared;
        } else {
            const double shared = f.closed ? sum / inverses : own * sum / (1.0 + own * inverses);
            for (Size k = f.begin; k < f.end; ++k) {
                out[k] -= shared / (curvature(f.row, classes_[k]) + each_curvature(f.row, classes_[k]));
            }
        }
    }
}

// out = B p or B^-1 p, row by row
void FaceSystem::blocks(const std::vector<double>& p, std::vector<double>& out, bool inverse) const {
    if (state_.metric.has_scales() || state_.squared() || state_.rules.absolute) return any_blocks(p, out, inverse);
    for (const FaceRow& f : rows_) {
        double sum = 0.0;
        for (Size k = f.begin; k < f.end; ++k) sum += p[k];
        const double members = static_cast<double>(f.end - f.begin), q = state_.q[f.row];
        const double shared = f.closed ? 0.0 : inverse ? -sum / (1.0 + members) : sum;
        for (Size k = f.begin; k < f.end; ++k) out[k] = inverse ? (p[k] + shared) / q : q * (p[k] + shared);
    }
}

// Solves (H + lambda B) x = r.
void FaceSystem::conjugate_gradients(Size iterations, const Poll& poll) {
    blocks(r_, z_, true);
    p_ = z_;
    double rz = dot(r_, z_);
    const double enough = 1e-4 * rz;
    for (Size k = 0; k < iterations && rz > enough; ++k) {
        machine_of(p_, poll);
        slopes_of(*direction_, 0.0, hp_, poll);
        if (state_.squared()) subtract_own_slopes(p_, hp_);
        blocks(p_, z_, false);
        // slopes fall along a direction: the machine's scores enter the Hessian with the opposite sign
        for (Size j = 0; j < hp_.size(); ++j) hp_[j] = damping_ * z_[j] - hp_[j];
        const double curvature = dot(p_, hp_);
        if (!(curvature > 0.0)) break;
        const double step = rz / curvature;
        for (Size j = 0; j < x_.size(); ++j) {
            x_[j] += step * p_[j];
            r_[j] -= step * hp_[j];
        }
        blocks(r_, z_, true);
        const double rz_next = dot(r_, z_);
        const double beta = rz_next / rz;
        rz = rz_next;
        for (Size j = 0; j < p_.size(); ++j) p_[j] = z_[j] + beta * p_[j];
    }
}

void FaceSystem::apply(const Poll& poll) {
    machine_of(x_, poll);
    const double slope = dot(gradient_, x_);
    const double bend = direction_->proximal_norm() + (state_.squared() ? own_curvature(x_) : 0.0);
    if (!(slope > 0.0) || !(bend > 0.0)) {
        damping_ *= 3.0;
        return;
    }
    const double t = std::min(1.0, slope / bend);
    for (Size k = 0; k < x_.size(); ++k) state_.duals.value_at(position_[k]) += t * x_[k];
    state_.weights.add(t, *direction_);
    state_.dual += t * slope - 0.5 * t * t * bend;
    if (t > 0.8) damping_ *= 0.5;
    if (t < 0.4) damping_ *= 3.0;
}

}  // namespace polymargin

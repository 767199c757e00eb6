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
    first_slopes(poll);
    conjugate_gradients(iterations, poll);
}

void FaceSystem::first_slopes(const Poll& poll) {
    slopes_of(state_.weights, 1.0, r_, poll);
    if (state_.squared()) {
        for (Size k = 0; k < p_.size(); ++k) p_[k] = state_.duals.value_at(position_[k]);
        subtract_own_slopes(p_, r_);
    }
    gradient_ = r_;
}

Size FaceSystem::visits_in_unknowns() {
    if (!unknowns_) unknowns_ = std::make_unique<Unknowns>(state_);
    double entries = 0.0;
    for (const FaceRow& f : rows_) {
        const double members = static_cast<double>(f.end - f.begin + (moves_own(f) ? 1 : 0));
        entries += has_theta(f) ? 0.5 * members * (members + 1.0) : moves_own(f) ? 2.0 * members - 1.0 : members;
    }
    const double visit = static_cast<double>(unknowns_->width() * state_.n_classes());  // its scores
    return 3 * rows_.size() + static_cast<Size>((unknowns_->price() + entries * unknowns_->price_of_entry()) / visit);
}

double FaceSystem::invert_own_block(const FaceRow& f) {
    double inverses = 0.0;
    for (Size k = f.begin; k < f.end; ++k) {
        z_[k] = 1.0 / (damping_ * curvature(f.row, classes_[k]) + each_curvature(f.row, classes_[k]));
        inverses += z_[k];
    }
    if (f.closed) return 1.0 / inverses;
    const double shared = sum_curvature(f.row);
    return shared / (1.0 + shared * inverses);
}

// Z_i' D_i^-1 Z_i: what a dual takes from its class, the own class gives, if it moves.
void FaceSystem::add_to_unknowns(const FaceRow& f, double theta) {
    const Index y = state_.y[f.row];
    double sum = 0.0;
    for (Size k = f.begin; k < f.end; ++k) {
        sum += z_[k];
        unknowns_->add(classes_[k], classes_[k], z_[k] - theta * z_[k] * z_[k]);
        for (Size l = f.begin; l < k && theta > 0.0; ++l) {
            unknowns_->add(classes_[k], classes_[l], -theta * sign(f, k) * z_[k] * sign(f, l) * z_[l]);
        }
    }
    if (!moves_own(f)) return;
    unknowns_->add(y, y, sum - theta * sum * sum);
    for (Size k = f.begin; k < f.end; ++k) unknowns_->add(y, classes_[k], -z_[k] + theta * z_[k] * sum);
}

bool FaceSystem::solve_in_unknowns(const Poll& poll) {
    if (!direction_) direction_ = std::make_unique<Weights>(state_.rows, state_.intercept, state_.metric);
    first_slopes(poll);
    Unknowns& unknowns = *unknowns_;
    const Size width = unknowns.width();
    unknowns.clear();
    unknowns.right_side().assign(unknowns.right_side().size(), 0.0);
    const auto through_block = [&](const FaceRow& f, double theta, std::vector<double>& v) {
        double inner = 0.0;
        for (Size k = f.begin; k < f.end; ++k) inner += z_[k] * v[k];
        for (Size k = f.begin; k < f.end; ++k) v[k] = z_[k] * (v[k] - theta * inner);
    };
    x_ = r_;
    Size visited = 0;
    for (const FaceRow& f : rows_) {
        const double theta = invert_own_block(f);
        const double* z = unknowns.row(f.row);
        unknowns.begin_row(z);
        add_to_unknowns(f, theta);
        through_block(f, theta, x_);
        double own = 0.0;
        const auto give = [&](Index k, double step) {
            double* v = unknowns.vector(k);
            for (Size j = 0; j < width; ++j) v[j] += step * z[j];
        };
        for (Size k = f.begin; k < f.end; ++k) {
            give(classes_[k], sign(f, k) * x_[k]);
            own += x_[k];
        }
        if (moves_own(f)) give(state_.y[f.row], own);
        if ((++visited & 63) == 0) poll();
    }
    if (!unknowns.factorise()) return false;
    unknowns.solve();
    for (const FaceRow& f : rows_) {
        const double theta = invert_own_block(f);
        const double* z = unknowns.row(f.row);
        const auto score = [&](Index k) {
            const double* v = unknowns.vector(k);
            double out;
            dense_dots<1>(z, &v, width, &out);
            return out;
        };
        const double own = moves_own(f) ? score(state_.y[f.row]) : 0.0;
        for (Size k = f.begin; k < f.end; ++k) x_[k] = r_[k] - own - sign(f, k) * score(classes_[k]);
        through_block(f, theta, x_);
        if ((++visited & 63) == 0) poll();
    }
    return true;
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

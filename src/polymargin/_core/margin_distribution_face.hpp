// A damped Newton step on the free duals of the margin distribution machine: the step of face_step.hpp for duals without an
// upper bound, whose sum A and whose beta have curvatures 1/(2 kappa) and 1/(2 kappa mu) of their own.
//
// A row's block of the Hessian, for m free a_l and beta, is closed under A and beta, so it is inverted by a 2 x 2 system.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "dual_state.hpp"
#include "margin_distribution.hpp"

namespace polymargin {

// The upper part of every row: its multiplier and what it is measured against.
struct UpperParts {
    Upper kind = Upper::absent;
    std::vector<double> beta;
    std::vector<Index> rival;   // class r
    std::vector<double> level;  // frozen only: its score

    bool has_class() const { return kind == Upper::linearised; }
};

template <class Rows>
class BandFace {
public:
    BandFace(DualState<Rows>& state, UpperParts& upper, const BandProblem& problem)
        : state_(state), upper_(upper), problem_(problem) {}

    // Spends at most about `budget` visits of rows; returns how many it took.
    Size step(Size budget, const Poll& poll) {
        identify();
        if (rows_.empty()) return 0;
        const Size iterations = std::min<Size>(max_iterations, budget / (2 * rows_.size()));
        if (iterations < min_iterations) return 0;
        if (!direction_) direction_ = std::make_unique<Weights<Rows>>(state_.rows, state_.intercept);
        slopes(poll);
        gradient_ = r_;
        conjugate_gradients(iterations, poll);
        for (Size k = 0; k < x_.size(); ++k) x_[k] = std::max(x_[k], -value(k));
        apply(poll);
        return 2 * iterations * rows_.size();
    }

private:
    static constexpr Size max_iterations = 40, min_iterations = 4;
    static constexpr Index upper_dual = -1;  // in place of a class: the entry is beta

    struct FaceRow {
        Size row, begin, end;  // entries [begin, end); beta, if free, is the last
        bool has_beta;
        double per_kappa;  // 1 / (2 kappa)
        Size last_a() const { return end - (has_beta ? 1 : 0); }
    };

    void identify() {
        rows_.clear();
        classes_.clear();
        position_.clear();
        for (Size i = 0; i < state_.n_rows(); ++i) {
            if (!(state_.q[i] > 0.0)) continue;
            const auto& slot = state_.duals.slot(i);
            const double* a = state_.duals.values(slot);
            const Size begin = classes_.size();
            for (Index k = 0; k < slot.count; ++k) {
                if (!(a[k] > 0.0)) continue;
                classes_.push_back(state_.duals.label(slot, k));
                position_.push_back(slot.start + static_cast<Size>(k));
            }
            const bool has_beta = upper_.kind != Upper::absent && upper_.beta[i] > 0.0;
            if (has_beta) {
                classes_.push_back(upper_dual);
                position_.push_back(i);
            }
            if (classes_.size() == begin) continue;
            rows_.push_back({i, begin, classes_.size(), has_beta, 1.0 / (2.0 * problem_.kappa(state_.cost[i]))});
        }
        for (auto* vector : {&r_, &p_, &z_, &x_, &hp_}) vector->assign(classes_.size(), 0.0);
        const Size widest = state_.n_classes() + 2;
        listed_.resize(widest);
        scores_.resize(padded(widest));
        steps_.resize(widest);
    }

    double& value(Size entry) {
        return classes_[entry] == upper_dual ? upper_.beta[position_[entry]] : state_.duals.value_at(position_[entry]);
    }

    // The classes of a row's entries in order (r in place of beta, if it is a class), then its own class.
    Size list(const FaceRow& f) {
        Size count = f.last_a() - f.begin;
        std::copy_n(classes_.data() + f.begin, count, listed_.data());
        if (f.has_beta && upper_.has_class()) listed_[count++] = upper_.rival[f.row];
        listed_[count] = state_.y[f.row];
        return count;
    }

    // r = slopes of the dual in the free duals
    void slopes(const Poll& poll) {
        Size visited = 0;
        for (const FaceRow& f : rows_) {
            const Size own = list(f), n_a = f.last_a() - f.begin;
            state_.weights.scores(f.row, listed_.data(), own + 1, scores_.data());
            double sum = 0.0;
            for (Size k = f.begin; k < f.last_a(); ++k) sum += value(k);
            const double level = scores_[own] - problem_.band().lower() + sum * f.per_kappa;
            for (Size k = 0; k < n_a; ++k) r_[f.begin + k] = scores_[k] - level;
            if (f.has_beta) {
                const double s_rival = upper_.has_class() ? scores_[n_a] : upper_.level[f.row];
                const double curvature = f.per_kappa / problem_.band().mu;
                r_[f.end - 1] = scores_[own] - s_rival - problem_.band().upper() - upper_.beta[f.row] * curvature;
            }
            if ((++visited & 63) == 0) poll();
        }
    }

    // direction = sum_i x_i tau_i(p)'
    void machine_of(const std::vector<double>& p, const Poll& poll) {
        direction_->clear();
        Size visited = 0;
        for (const FaceRow& f : rows_) {
            const Size own = list(f), n_a = f.last_a() - f.begin;
            double sum = 0.0;
            for (Size k = 0; k < n_a; ++k) {
                steps_[k] = -p[f.begin + k];
                sum += p[f.begin + k];
            }
            if (f.has_beta) {
                sum -= p[f.end - 1];
                if (upper_.has_class()) steps_[n_a] = p[f.end - 1];
            }
            steps_[own] = sum;
            direction_->add(f.row, listed_.data(), steps_.data(), own + 1);
            if ((++visited & 63) == 0) poll();
        }
    }

    // hp = H p for the machine `direction` of p
    void hessian_product(const Poll& poll) {
        Size visited = 0;
        for (const FaceRow& f : rows_) {
            const Size own = list(f), n_a = f.last_a() - f.begin;
            direction_->scores(f.row, listed_.data(), own + 1, scores_.data());
            double sum = 0.0;
            for (Size k = f.begin; k < f.last_a(); ++k) sum += p_[k];
            for (Size k = 0; k < n_a; ++k) hp_[f.begin + k] = scores_[own] - scores_[k] + sum * f.per_kappa;
            if (f.has_beta) {
                const double s_rival = upper_.has_class() ? scores_[n_a] : 0.0;
                hp_[f.end - 1] = s_rival - scores_[own] + p_[f.end - 1] * f.per_kappa / problem_.band().mu;
            }
            if ((++visited & 63) == 0) poll();
        }
    }

    double beta_curvature(const FaceRow& f) const {
        return (upper_.has_class() ? 2.0 : 1.0) * state_.q[f.row] + f.per_kappa / problem_.band().mu;
    }

    // out = B p, row by row
    void blocks(const std::vector<double>& p, std::vector<double>& out) const {
        for (const FaceRow& f : rows_) {
            const double q = state_.q[f.row], beta = f.has_beta ? p[f.end - 1] : 0.0;
            double sum = 0.0;
            for (Size k = f.begin; k < f.last_a(); ++k) sum += p[k];
            const double shared = q * (sum - beta) + sum * f.per_kappa;
            for (Size k = f.begin; k < f.last_a(); ++k) out[k] = q * p[k] + shared;
            if (f.has_beta) out[f.end - 1] = beta_curvature(f) * beta - q * sum;
        }
    }

    // out = B^-1 p, row by row
    void inverse_blocks(const std::vector<double>& p, std::vector<double>& out) const {
        for (const FaceRow& f : rows_) {
            const double q = state_.q[f.row], m = static_cast<double>(f.last_a() - f.begin);
            double right = 0.0;
            for (Size k = f.begin; k < f.last_a(); ++k) right += p[k];
            const double diagonal = q + m * (q + f.per_kappa);
            double sum = right / diagonal, beta = 0.0;
            if (f.has_beta) {
                const double E = beta_curvature(f), det = diagonal * E - m * q * q;
                sum = (right * E + m * q * p[f.end - 1]) / det;
                beta = (diagonal * p[f.end - 1] + q * right) / det;
                out[f.end - 1] = beta;
            }
            const double shared = q * (sum - beta) + sum * f.per_kappa;
            for (Size k = f.begin; k < f.last_a(); ++k) out[k] = (p[k] - shared) / q;
        }
    }

    static double dot(const std::vector<double>& u, const std::vector<double>& v) {
        double sum = 0.0;
        for (Size k = 0; k < u.size(); ++k) sum += u[k] * v[k];
        return sum;
    }

    // Solves (H + lambda B) x = r.
    void conjugate_gradients(Size iterations, const Poll& poll) {
        inverse_blocks(r_, z_);
        p_ = z_;
        double rz = dot(r_, z_);
        const double enough = 1e-4 * rz;
        for (Size k = 0; k < iterations && rz > enough; ++k) {
            machine_of(p_, poll);
            hessian_product(poll);
            blocks(p_, z_);
            for (Size j = 0; j < hp_.size(); ++j) hp_[j] += damping_ * z_[j];
            const double curvature = dot(p_, hp_);
            if (!(curvature > 0.0)) break;
            const double step = rz / curvature;
            for (Size j = 0; j < x_.size(); ++j) {
                x_[j] += step * p_[j];
                r_[j] -= step * hp_[j];
            }
            inverse_blocks(r_, z_);
            const double rz_next = dot(r_, z_);
            const double ratio = rz_next / rz;
            rz = rz_next;
            for (Size j = 0; j < p_.size(); ++j) p_[j] = z_[j] + ratio * p_[j];
        }
    }

    // Moves along x with an exact line search: the dual never falls.
    void apply(const Poll& poll) {
        machine_of(x_, poll);
        double curvature = direction_->proximal_norm();
        for (const FaceRow& f : rows_) {
            double sum = 0.0;
            for (Size k = f.begin; k < f.last_a(); ++k) sum += x_[k];
            curvature += sum * sum * f.per_kappa;
            if (f.has_beta) curvature += x_[f.end - 1] * x_[f.end - 1] * f.per_kappa / problem_.band().mu;
        }
        const double slope = dot(gradient_, x_);
        if (!(slope > 0.0) || !(curvature > 0.0)) {
            damping_ *= 3.0;
            return;
        }
        const double t = std::min(1.0, slope / curvature);
        for (Size k = 0; k < x_.size(); ++k) value(k) += t * x_[k];
        state_.weights.add(t, *direction_);
        state_.dual += t * slope - 0.5 * t * t * curvature;
        if (t > 0.8) damping_ *= 0.5;
        if (t < 0.4) damping_ *= 3.0;
    }

    DualState<Rows>& state_;
    UpperParts& upper_;
    const BandProblem& problem_;
    std::unique_ptr<Weights<Rows>> direction_;
    double damping_ = 0.01;
    std::vector<FaceRow> rows_;
    std::vector<Index> classes_, listed_;
    std::vector<Size> position_;  // of an a_l in the arena, of a beta its row
    std::vector<double> r_, p_, z_, x_, hp_, gradient_, scores_, steps_;
};

}  // namespace polymargin

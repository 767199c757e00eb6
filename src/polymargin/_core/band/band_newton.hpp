// Passes for a proximal Newton method on one convex step of the margin distribution machine (solvers/newton/proximal.py).
//
// With the duals of the loop as the centre, tau', the step's rows are smoothed: at the scores s_i of a machine (W, b),
//
//   phi_i(s_i) = max_tau  gain(tau) - tau . s_i - (delta_i / 2) |tau - tau'_i|^2,     delta_i ~ damping,
//
// which is the row sub-problem of band.hpp with delta_i in place of q. Phi(W, b) = 1/2 |W|^2 + sum_i phi_i is
// smooth and convex, with the gradient W - sum_i x_i tau_i' and, piecewise, the Hessian I + sum_i x_i x_i' (x) M_i. M_i acts on
// the few classes with free duals: for free a_l and beta it is E G^-1 E' with a block G that is inverted by a 2 x 2 system in A and beta.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "band.hpp"
#include "machine/dual_state.hpp"

namespace polymargin {

// The upper part of every row: its multiplier and what it is measured against.
struct UpperParts {
    Upper kind = Upper::absent;
    std::vector<double> beta;
    std::vector<Index> rival;   // class r
    std::vector<double> level;  // frozen only: its score
    std::vector<Index> seen_rival;   // the highest rivals of the last machine whose loss was evaluated: the next rivals
    std::vector<double> seen_level;  // frozen only: their scores

    bool has_class() const { return kind == Upper::linearised; }
};

struct NewtonPass {
    double smooth = 0.0;   // sum_i phi_i
    double stated = 0.0;   // sum of the stated losses
    double relaxed = 0.0;  // sum of this step's losses
    double concave = 0.0;  // sum of gain(tau_i)
    std::vector<double> pull, sums;  // sum_i x_i tau_i' (d, c) and sum_i tau_i (c)
};

class BandNewton {
public:
    BandNewton(DualState& state, UpperParts& upper, const Band& band)
        : state_(state), upper_(upper), band_(band), c_(state.n_classes()), d_(state.rows.n_features()) {}

    // The smoothed rows at the machine W (d, c), b (c); the maximising tau is remembered as the candidate.
    NewtonPass pass(const double* W, const double* b, double damping, const Poll& poll) {
        prepare(W);
        Buffer pull(state_.rows.weights_size());
        NewtonPass out;
        out.sums.assign(c_, 0.0);
        damping_ = damping;
        starts_.assign(1, 0);
        labels_.clear();
        values_.clear();
        beta_.assign(state_.n_rows(), 0.0);
        for (Size i = 0; i < state_.n_rows(); ++i) {
            solve_row(i, b, out);
            const Size count = signed_candidate(i);
            state_.rows.add(pull.data(), i, classes_.data(), steps_.data(), count, every_.data());
            for (Size k = 0; k < count; ++k) out.sums[static_cast<Size>(classes_[k])] += steps_[k];
            if ((i & 63) == 0) poll();
        }
        out.pull = from_layout(pull);
        return out;
    }

    // The other passes look at the last one's maximiser.
    void check_ready() const {
        if (starts_.size() != state_.n_rows() + 1) throw std::logic_error("a Newton pass must come first");
    }

    // The Hessian's product with the machine P (d, c), p (c), without the identity: the product itself and its class sums.
    std::pair<std::vector<double>, std::vector<double>> product(const double* P, const double* p, const Poll& poll) {
        prepare(P);
        Buffer out(state_.rows.weights_size());
        std::vector<double> sums(c_, 0.0);
        for (Size i = 0; i < state_.n_rows(); ++i) {
            const Size count = free_classes(i);
            if (count == 0) continue;
            state_.rows.scores(V_.data(), i, classes_.data(), count, scores_.data(), every_.data());
            for (Size k = 0; k < count; ++k) scores_[k] += p[classes_[k]];
            curvature_product(i, scores_.data(), steps_.data());
            state_.rows.add(out.data(), i, classes_.data(), steps_.data(), count, every_.data());
            for (Size k = 0; k < count; ++k) sums[static_cast<Size>(classes_[k])] += steps_[k];
            if ((i & 63) == 0) poll();
        }
        return {from_layout(out), sums};
    }

    // sum_i M_i[k][k] of every class
    std::vector<double> curvature() {
        std::vector<double> out(c_, 0.0), M;
        prepare_workspace();
        for (Size i = 0; i < state_.n_rows(); ++i) {
            const Size count = small_matrix(i, M);
            for (Size k = 0; k < count; ++k) out[static_cast<Size>(classes_[k])] += M[k * count + k];
        }
        return out;
    }

    // sum_i x_i x_i' (x) M_i with a constant feature appended to x_i, class-major, (c (d+1), c (d+1)): the blocks k >= l only.
    std::vector<double> matrix(const Poll& poll) {
        const Size e = d_ + 1, width = c_ * e;
        std::vector<double> out(width * width, 0.0), x(padded(e)), M;
        prepare_workspace();
        for (Size i = 0; i < state_.n_rows(); ++i) {
            const Size count = small_matrix(i, M);
            if (count == 0) continue;
            state_.rows.copy(i, x.data());
            x[d_] = 1.0;
            for (Size k = 0; k < count; ++k) {
                for (Size l = 0; l < count; ++l) {
                    const auto row = static_cast<Size>(classes_[k]), column = static_cast<Size>(classes_[l]);
                    if (row >= column) add_outer(M[k * count + l], x.data(), e, out.data() + row * e * width + column * e, width);
                }
            }
            if ((i & 63) == 0) poll();
        }
        return out;
    }

    // The candidate becomes the loop's iterate.
    void accept() {
        const std::vector<double> centre = state_.weights.centre();
        state_.weights.clear();
        state_.weights.centre() = centre;
        for (Size i = 0; i < state_.n_rows(); ++i) {
            const Size count = starts_[i + 1] - starts_[i];
            state_.duals.restore(i);
            state_.duals.reserve(i, count);
            auto& slot = state_.duals.slot(i);
            for (Size k = 0; k < count; ++k) {
                state_.duals.set(slot, static_cast<Index>(k), labels_[starts_[i] + k], values_[starts_[i] + k]);
            }
            slot.count = slot.active = static_cast<Index>(count);
            upper_.beta[i] = beta_[i];
            const Size moved = signed_candidate(i);
            if (moved > 0) state_.weights.add(i, classes_.data(), steps_.data(), moved);
        }
    }

private:
    void prepare_workspace() {
        classes_.resize(c_ + 2);
        steps_.resize(c_ + 2);
        scores_.resize(padded(c_ + 2));
        every_.resize(padded(c_));
        for (auto* vector : {&a_, &g_, &next_, &scratch_}) vector->resize(c_ + 2);
    }

    // (d, c) into the layout of the rows
    void prepare(const double* W) {
        prepare_workspace();
        if (V_.size() == 0) V_.resize(state_.rows.weights_size(), 0.0);
        for (Size j = 0; j < d_; ++j) {
            for (Size k = 0; k < c_; ++k) V_[state_.rows.weight_position(j, k)] = W[j * c_ + k];
        }
    }

    std::vector<double> from_layout(const Buffer& V) const {
        std::vector<double> out(d_ * c_);
        for (Size j = 0; j < d_; ++j) {
            for (Size k = 0; k < c_; ++k) out[j * c_ + k] = V[state_.rows.weight_position(j, k)];
        }
        return out;
    }

    // phi_i and its maximiser, from the scores of all classes
    void solve_row(Size i, const double* b, NewtonPass& out) {
        state_.rows.all_scores(V_.data(), i, scores_.data());
        for (Size k = 0; k < c_; ++k) scores_[k] += b[k];
        const auto y = static_cast<Size>(state_.y[i]);
        const double kappa = band_.kappa(state_.cost[i]);
        BandRow row{{classes_.data(), a_.data(), g_.data(), next_.data(), scratch_.data(), 0, scores_[y], false},
                    delta(i), kappa, upper_.kind, c_ + 2, 0.0, upper_.beta[i], 0.0};
        Size best = y == 0 ? 1 : 0;
        for (Size k = 0; k < c_; ++k) {
            if (k == y) continue;
            row.classes[row.count] = static_cast<Index>(k);
            row.a[row.count] = 0.0;
            row.g[row.count++] = scores_[k];
            if (scores_[k] > scores_[best]) best = k;
        }
        const double top = scores_[best];
        upper_.seen_rival[i] = static_cast<Index>(best);
        if (!upper_.seen_level.empty()) upper_.seen_level[i] = top;
        const auto& slot = state_.duals.slot(i);
        for (Index k = 0; k < slot.count; ++k) {
            const auto label = static_cast<Size>(state_.duals.label(slot, k));
            row.a[label - (label > y ? 1 : 0)] = state_.duals.values(slot)[k];
        }
        double above = 0.0;
        if (upper_.has_class()) {
            const auto r = static_cast<Size>(upper_.rival[i]);
            row.at_rival = r - (r > y ? 1 : 0);
            row.g_rival = scores_[r];
        } else if (upper_.kind == Upper::frozen) {
            row.g_rival = upper_.level[i];
        }
        if (upper_.kind != Upper::absent) above = band_.above(scores_[y] - row.g_rival);
        const double below = band_.below(scores_[y] - top);
        out.stated += band_.paid(below, band_.above(scores_[y] - top), kappa);
        out.relaxed += band_.paid(below, above, kappa);
        band_.solve(row);
        remember(i, row, out);
    }

    void remember(Size i, const BandRow& row, NewtonPass& out) {
        double sum = 0.0, before = 0.0, inner = 0.0, squares = 0.0;
        for (Size k = 0; k < row.count; ++k) {
            before += row.a[k];
            double step = row.next[k] - row.a[k];
            if (k == row.at_rival && upper_.has_class()) step -= row.next_beta - row.beta;
            squares += step * step;
            if (!(row.next[k] > 0.0)) continue;
            sum += row.next[k];
            inner += row.next[k] * row.g[k];
            labels_.push_back(row.classes[k]);
            values_.push_back(row.next[k]);
        }
        starts_.push_back(labels_.size());
        beta_[i] = row.next_beta;
        const double own = (sum - row.next_beta) - (before - row.beta);
        squares += own * own;
        double gain = band_.gain(sum, row.next_beta, row.kappa);
        if (upper_.kind == Upper::frozen) gain -= row.next_beta * row.g_rival;
        double pull = (sum - row.next_beta) * row.g_target - inner;  // tau . s
        if (upper_.has_class()) pull += row.next_beta * row.g_rival;
        out.concave += gain;
        out.smooth += gain - pull - 0.5 * row.q * squares;
    }

    // In units of the smaller curvature of a row's dual, q or 1/(2 kappa), so that the scales of X and C do not matter.
    double delta(Size i) const {
        const double q = state_.q[i];
        return q * std::min(1.0, damping_ / (1.0 + 2.0 * band_.kappa(state_.cost[i]) * q));
    }

    // The candidate's tau_i: classes_ and steps_
    Size signed_candidate(Size i) {
        Size m = 0;
        double own = -beta_[i];
        for (Size k = starts_[i]; k < starts_[i + 1]; ++k) {
            classes_[m] = labels_[k];
            steps_[m++] = -values_[k];
            own += values_[k];
        }
        if (beta_[i] > 0.0 && upper_.has_class()) {
            classes_[m] = upper_.rival[i];
            steps_[m++] = beta_[i];
        }
        if (m == 0 && own == 0.0) return 0;
        classes_[m] = state_.y[i];
        steps_[m++] = own;
        return m;
    }

    // The classes M_i acts on: those with free a_l, class r if beta is free, the own class last. 0 if nothing is free.
    Size free_classes(Size i) {
        Size m = 0;
        for (Size k = starts_[i]; k < starts_[i + 1]; ++k) classes_[m++] = labels_[k];
        if (beta_[i] > 0.0 && upper_.has_class()) classes_[m++] = upper_.rival[i];
        if ((m == 0 && !(beta_[i] > 0.0)) || !(state_.q[i] > 0.0)) return 0;
        classes_[m++] = state_.y[i];
        return m;
    }

    // M_i, (count, count), on the classes listed by `free_classes`; returns count.
    Size small_matrix(Size i, std::vector<double>& M) {
        const Size count = free_classes(i);
        M.resize(count * count);
        for (Size k = 0; k < count; ++k) {
            std::fill_n(scores_.data(), count, 0.0);
            scores_[k] = 1.0;
            curvature_product(i, scores_.data(), M.data() + k * count);
        }
        return count;
    }

    // out = M_i ds, on the classes listed by `free_classes`.
    void curvature_product(Size i, const double* ds, double* out) const {
        const Size n_a = starts_[i + 1] - starts_[i];
        const bool has_beta = beta_[i] > 0.0, has_class = has_beta && upper_.has_class();
        const Size own = n_a + (has_class ? 1 : 0);
        const double q = delta(i), per_kappa = 1.0 / (2.0 * band_.kappa(state_.cost[i])), m = static_cast<double>(n_a);
        double right = 0.0;
        for (Size k = 0; k < n_a; ++k) right += ds[k] - ds[own];
        const double diagonal = q + m * (q + per_kappa);
        double sum = right / diagonal, beta = 0.0;
        if (has_beta) {
            const double upper = ds[own] - (has_class ? ds[n_a] : 0.0);
            const double E = (has_class ? 2.0 : 1.0) * q + per_kappa / band_.mu, det = diagonal * E - m * q * q;
            sum = (right * E + m * q * upper) / det;
            beta = (diagonal * upper + q * right) / det;
        }
        const double shared = q * (sum - beta) + sum * per_kappa;
        for (Size k = 0; k < n_a; ++k) out[k] = (ds[k] - ds[own] - shared) / q;
        if (has_class) out[n_a] = -beta;
        out[own] = beta - sum;
    }

    // block (e, e), rows `width` apart, += weight x x'
    static void add_outer(double weight, const double* x, Size e, double* block, Size width) {
        for (Size j = 0; j < e; ++j) {
            const double scale = weight * x[j];
            if (scale == 0.0) continue;
            double* row = block + j * width;
            const Pack pack = spread(scale);
            Size k = 0;
            for (; k + 4 <= e; k += 4) store(row + k, load(row + k) + pack * load(x + k));
            for (; k < e; ++k) row[k] += scale * x[k];
        }
    }

    DualState& state_;
    UpperParts& upper_;
    const Band& band_;
    Size c_, d_;
    double damping_ = 1.0;
    std::vector<Size> starts_;  // the candidate: free a_il of row i in [starts[i], starts[i + 1]), and beta_i
    std::vector<Index> labels_, classes_;
    std::vector<double> values_, beta_, V_, steps_, scores_, every_, a_, g_, next_, scratch_;
};

}  // namespace polymargin

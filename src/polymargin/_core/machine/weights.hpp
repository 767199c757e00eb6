// A linear machine in the making: class vectors v_k and, if the machine has an intercept, class offsets.
//
// The unpenalised intercept of a dual method is kept by a proximal-point loop on b: (rho/2) |b - centre|^2 is added to the
// objective, with the columns of X centred implicitly by their means m. That is one more feature of value 1/sqrt(rho). With
// p_i = x_i . m, class sums s_k = sum_i tau_ik and t_k = v_k . m:
//
//   w_k      = v_k - s_k m
//   b_k      = centre_k + s_k / rho - w_k . m           (in the user's coordinates)
//   score_ik = v_k . x_i + s_k (|m|^2 - p_i + 1/rho) + (centre_k - t_k)
//
// Moving `centre` to centre + s / rho and ascending again converges to s = 0, the constraint of the machine with a free
// intercept.
//
// With class scales beta (the penalty is sum_k |w_k|^2 / (2 beta_k)) the vectors v_k stay sums of rows and the machine is
//
//   w_k      = beta_k (v_k - s_k m)
//   score_ik = beta_k (v_k . x_i + s_k (|m|^2 - p_i) - t_k) + s_k / rho + centre_k
//
// so that new scales cost c numbers, not a pass over the vectors.
//
// With a class metric (the penalty is 1/2 tr(W L W') for a matrix L between the classes, P its inverse on the vectors of sum 0)
// the vectors v_k stay sums of rows too, and the proximal term of b has the metric rho L:
//
//   w_k      = sum_l P_kl (v_l - s_l m)
//   score_ik = sum_l P_kl (v_l . x_i + s_l (|m|^2 - p_i + 1/rho) - t_l) + centre_k
//
// A row's step touches few vectors, its scores need all of them: reading is cheaper than writing.
//
// A shifted machine, 1/2 |W - W0|^2 instead of 1/2 |W|^2, starts its vectors at the base W0 instead of 0; the rest is the same.
#pragma once

#include <algorithm>
#include <vector>

#include "../rows/buffer.hpp"
#include "../rows/rows.hpp"

namespace polymargin {

// What the intercept needs to know of the data; `on` is false for a machine without one.
struct Intercept {
    bool on = false;
    double inverse_rho = 0.0, mean_norm = 0.0;
    std::vector<double> mean, mean_dot;  // m (d), p (n)

    void start(const Rows& rows, const double* means, double inverse_of_rho);

    // |x_i - m|^2 + 1/rho, given |x_i|^2
    double curvature(Size i, double squared_norm) const {
        const double centred = squared_norm - 2.0 * mean_dot[i] + mean_norm;
        return (centred > 0.0 ? centred : 0.0) + inverse_rho;
    }
};

// The machine's metric between its classes: the identity (both empty), class scales, or a matrix.
struct MachineMetric {
    std::vector<double> scales;  // beta_k > 0
    std::vector<double> P;       // (c, c)

    bool has_scales() const { return !scales.empty(); }
    bool has_matrix() const { return !P.empty(); }
    double scale(Size k) const { return has_scales() ? scales[k] : 1.0; }

    // (P v)_k
    double apply(Size k, const double* v, Size c) const {
        double out;
        dense_dots<1>(P.data() + k * c, &v, c, &out);
        return out;
    }
    void apply(const double* v, Size c, double* out) const;  // out = P v
};

class Weights {
public:
    Weights(const Rows& rows, const Intercept& intercept, const MachineMetric& metric);

    void clear();
    void set_base(const double* W0);                 // v = W0 (d, c); the intercept, if any, has been started
    void multiply(double t);                         // v <- t v
    void add(double t, const Weights& direction);    // self += t * direction; the centre stands still
    std::vector<double> squared_norms() const;       // |v_k - s_k m|^2 of every class, whatever the scales
    double squared_norm() const;                     // |W|^2; with scales sum_k |w_k|^2 / beta_k, with a matrix tr(W L W')
    double proximal_norm() const;                    // |W|^2 + |s|^2 / rho: the quadratic part of the proximal problem
    double weight(Size feature, Size k) const;       // for a matrix see `weights`
    double intercept(Size k) const;                  // b in the user's coordinates
    std::vector<double> intercepts() const;
    std::vector<double> weights() const;             // W (d, c)
    std::vector<double> pulls_of_sums() const;       // what one unit of 1/rho adds to the offsets: s, with a matrix P s

    // `out` has room for the padded number of classes.
    void all_scores(Size i, double* out) const;

    void scores(Size i, const Index* classes, Size count, double* out) { scores(i, classes, count, out, every_.data()); }

    // for threads: `every` is room for the padded number of classes
    void scores(Size i, const Index* classes, Size count, double* out, double* every) const;

    // x_i . v_k and x_j . v_k of all classes at once: the vectors are read from the caches half as often
    void inner_products(Size i, Size j, double* of_i, double* of_j) const {
        rows_.all_scores_of_two(V_.data(), i, j, of_i, of_j);
    }

    // Scores of some classes with a matrix, given the inner products with all vectors, which are overwritten.
    void metric_scores(Size i, const Index* classes, Size count, double* inner, double* out) const {
        centre_inner(i, inner);
        for (Size k = 0; k < count; ++k) {
            const Size cls = static_cast<Size>(classes[k]);
            out[k] = metric_.apply(cls, inner, sums_.size()) + centre_[cls];
        }
    }

    void all_metric_scores(Size i, double* inner, double* out) const {
        centre_inner(i, inner);
        metric_.apply(inner, sums_.size(), out);
        for (Size k = 0; k < sums_.size(); ++k) out[k] += centre_[k];
    }

    // v_k += step_k x_i
    void add(Size i, const Index* classes, const double* steps, Size count) {
        rows_.add(V_.data(), i, classes, steps, count, every_.data());
        if (!intercept_.on) return;
        for (Size k = 0; k < count; ++k) {
            sums_[static_cast<Size>(classes[k])] += steps[k];
            means_[static_cast<Size>(classes[k])] += steps[k] * intercept_.mean_dot[i];
        }
    }

    std::vector<double>& centre() { return centre_; }
    const std::vector<double>& centre() const { return centre_; }
    const std::vector<double>& sums() const { return sums_; }

    // what centring and the intercept add to v_k . x_i
    double offset(Size i, Size k) const {
        const double reach = intercept_.mean_norm - intercept_.mean_dot[i] + intercept_.inverse_rho;
        return sums_[k] * reach + (centre_[k] - means_[k]);
    }

    // v_k without the shift by the means
    double raw_weight(Size feature, Size k) const { return V_[rows_.weight_position(feature, k)]; }

private:
    double norm_in_matrix() const;

    // v_k . x_i with what centring and the intercept add
    void centre_inner(Size i, double* inner) const {
        if (!intercept_.on) return;
        const double reach = intercept_.mean_norm - intercept_.mean_dot[i] + intercept_.inverse_rho;
        for (Size k = 0; k < sums_.size(); ++k) inner[k] += sums_[k] * reach - means_[k];
    }

    // the score, given v_k . x_i
    double scaled_score(Size i, Size k, double inner) const {
        if (!intercept_.on) return metric_.scales[k] * inner;
        const double centred = inner + sums_[k] * (intercept_.mean_norm - intercept_.mean_dot[i]) - means_[k];
        return metric_.scales[k] * centred + sums_[k] * intercept_.inverse_rho + centre_[k];
    }

    const Rows& rows_;
    const Intercept& intercept_;
    const MachineMetric& metric_;
    Buffer V_;
    std::vector<double> sums_, means_, centre_;
    std::vector<double> every_;
};

}  // namespace polymargin

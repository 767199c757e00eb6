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
// With a coupling of the classes (the penalty is 1/2 own |W|^2 + 1/2 across |sum_k w_k|^2, or 1/2 |W|^2 at sum zero) one more
// column holds the sum of all v_k, and with z_k = v_k - s_k m, means over the classes,
//
//   w_k      = scale (z_k - mean z) + common (mean z)
//   score_ik = w_k . (x_i - m) + centre_k + s_k / rho
//
// Offsets that add up to zero see s_k - mean s instead of s_k. Then the mean part is not centred (mean v instead of mean z, x_i
// instead of x_i - m): what it adds to all offsets would depend on the origin of X.
//
// With a threshold (shrinkage.hpp) the machine is W = dR*(V), kept beside V: a step writes both where it moves, and scores read W. Its
// columns are not centred: m = 0.
//
// A shifted machine, 1/2 |W - W0|^2 instead of 1/2 |W|^2, starts its vectors at the base W0 instead of 0; the rest is the same.
#pragma once

#include <algorithm>
#include <vector>

#include "rows/buffer.hpp"
#include "rows/rows.hpp"
#include "shrinkage.hpp"

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

struct Coupling {
    double scale = 1.0, common = 0.0;
    bool fixes_offsets = true;  // at sum zero
};

// Curvatures of a row for steps of sum zero, and for the same step of all classes.
struct CoupledCurvature {
    double apart, together;
};

// The machine's metric between its classes: the identity (nothing below), class scales, a matrix, or a coupling.
struct MachineMetric {
    explicit MachineMetric(bool with_coupling = false) : coupled(with_coupling) {}

    std::vector<double> scales;  // beta_k > 0
    std::vector<double> P;       // (c, c)
    bool coupled;
    Coupling coupling;
    Shrinkage shrinkage;  // with the identity only

    bool fixes_offsets() const { return coupled && coupling.fixes_offsets; }

    // given the curvature of the identity and |x_i|^2
    CoupledCurvature curvatures(double q, double square, double inverse_rho) const {
        const double apart = coupling.scale * (q - inverse_rho) + inverse_rho;
        if (coupling.fixes_offsets) return {apart, coupling.common * square};
        return {apart, coupling.common * (q - inverse_rho) + inverse_rho};
    }

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

// Room that is lent to the scores and steps of a row, one a thread.
struct RowRoom {
    explicit RowRoom(Size n_classes) : every(padded(n_classes + 1)), joined(n_classes + 1), joined_values(padded(n_classes + 1)) {}

    std::vector<double> every;
    std::vector<Index> joined;  // with a coupling: a row's classes and the sum
    std::vector<double> joined_values;
};

// What one of some threads minds: class vectors that lie side by side. (A processor reads ahead of the last one of them: what lies
// there should be its own too.)
struct WeightPart {
    WeightPart(Size number, Size of, Size n_vectors)
        : first(static_cast<Index>(number * n_vectors / of)), last(static_cast<Index>((number + 1) * n_vectors / of)) {}

    Index first, last;  // classes; with a coupling the sum is one more

    bool has(Index k) const { return first <= k && k < last; }
};

class Weights {
public:
    // With a coupling `rows` have room for one more class, the sum of all.
    Weights(const Rows& rows, const Intercept& intercept, const MachineMetric& metric);

    Size n_classes() const { return c_; }
    void clear();
    void start_shrinking();                          // the metric has got a threshold; before any step
    void read_later() { reads_later_ = true; }       // steps write V alone, until
    void read_again();                               // W is made of all of V
    void set_base(const double* W0);                 // v = W0 (d, c), s as it is; the intercept, if any, has been started
    void multiply(double t);                         // v <- t v
    void add(double t, const Weights& direction);    // self += t * direction; the centre stands still
    void go_on(double beta, Weights& before);        // self += beta (self - before), and before what self was; the centre stands still
    std::vector<double> squared_norms() const;       // |v_k - s_k m|^2 of every class, whatever the scales
    double squared_norm() const;                     // |W|^2; with scales sum_k |w_k|^2 / beta_k, with a matrix tr(W L W')
    double proximal_norm() const;                    // |W|^2 + |s|^2 / rho: the quadratic part of the proximal problem
    double proximal_inner(const Weights& other) const;  // its inner product, with the identity between the classes
    double along_centre(const Weights& other) const;    // centre . s of the other
    double weight(Size feature, Size k) const;       // for a matrix or a coupling see `weights`
    double intercept(Size k) const;                  // b in the user's coordinates
    std::vector<double> intercepts() const;
    std::vector<double> weights() const;             // W (d, c)
    std::vector<double> pulls_of_sums() const;       // what one unit of 1/rho adds to the offsets: s, with a matrix P s,
                                                     // less its mean if the offsets add up to zero

    // `out` has room for the padded number of classes, with a coupling one more.
    void all_scores(Size i, double* out) const;
    void all_scores(const Size* rows, Size count, double* const* out) const;  // of some rows at once, whose bits differ

    void scores(Size i, const Index* classes, Size count, double* out) { scores(i, classes, count, out, room_); }

    // for threads
    void scores(Size i, const Index* classes, Size count, double* out, RowRoom& room) const {
        if (metric_.coupled) return coupled_scores(i, classes, count, out, room);
        scores(i, classes, count, out, room.every.data());
    }

    // without a coupling: `every` is room for the padded number of classes
    void scores(Size i, const Index* classes, Size count, double* out, double* every) const {
        if (metric_.has_matrix() || metric_.has_scales()) return scores_in_metric(i, classes, count, out, every);
        rows_.scores(read(), i, classes, count, out, every);
        if (!intercept_.on) return;
        for (Size k = 0; k < count; ++k) out[k] += offset(i, static_cast<Size>(classes[k]));
    }

    // x_i . v_k of all classes and some rows at once: the vectors are read from the caches as many times less often
    void inner_products(const Size* rows, Size count, double* const* out) const {
        rows_.scores_of_rows(V_.data(), rows, count, 0, sums_.size(), out);
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
        if (metric_.coupled) return add_with_sum(i, classes, steps, count);
        add_columns(i, classes, steps, count);
        if (metric_.shrinkage.on() && !reads_later_) {
            read_moved(metric_.shrinkage, rows_, i, classes, count, V_.data(), W_.data(), squares_);
        }
    }

    // Scores and steps in parts, each minded by one thread: no other reads or writes its vectors, so that they stay in its caches.
    // Every vector gets its steps in the order of the rows: threads change no bit. Sparse rows have all classes of a feature in one
    // cache line, and a threshold or a matrix between the classes needs them all.
    // With a coupling the last one of `classes` is their number, for the sum of all: `close` appends it to steps, if they have a sum.
    static constexpr Size most_parts = 16;
    bool has_parts() const { return !rows_.is_sparse() && !metric_.has_matrix() && !metric_.shrinkage.on(); }
    WeightPart part(Size number, Size of) const { return {number, of, rows_.n_classes()}; }
    Size close(Index* classes, double* steps, Size count) const;
    void part_of_all_scores(const WeightPart& part, const Size* rows, Size count, double* const* out) const {
        rows_.scores_of_rows(V_.data(), rows, count, static_cast<Size>(part.first), static_cast<Size>(part.last), out);
    }
    Size part_of_scores(const WeightPart& part, Size i, const Index* classes, Size count, double* out, RowRoom& room) const;  // how many
    void finish_all(Size i, double* out) const;  // x_i . v_k of all k become scores
    void join_scores(Size parts, Size i, const Index* classes, Size count, const double* const* partial, double* out) const;
    // share times the steps
    void add_part(const WeightPart& part, double share, Size i, const Index* classes, const double* steps, Size count, RowRoom& room);
    void add_sums(double share, Size i, const Index* classes, const double* steps, Size count) {  // what is not a vector
        if (!intercept_.on) return;
        for (Size k = 0; k < count; ++k) {
            sums_[static_cast<Size>(classes[k])] += share * steps[k];
            means_[static_cast<Size>(classes[k])] += share * steps[k] * intercept_.mean_dot[i];
        }
    }

    double* vectors() { return V_.data(); }  // v_k, as the rows lay them
    const double* vectors() const { return V_.data(); }
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
    double centred_square(Size k) const;  // of a class, entry by entry: where sums cancel

    double norm_in_matrix() const;
    double norm_in_coupling() const;
    void coupled_weights(Size feature, double* out) const;
    double coupled_intercept(Size k) const;

    // what scores are made of
    const double* read() const { return metric_.shrinkage.on() ? W_.data() : V_.data(); }

    void scores_in_metric(Size i, const Index* classes, Size count, double* out, double* every) const;
    void coupled_scores(Size i, const Index* classes, Size count, double* out, RowRoom& room) const;
    void add_with_sum(Size i, const Index* classes, const double* steps, Size count);

    // z_k without scales: v_k, centred if there is an intercept
    double centred_weight(Size feature, Size k) const {
        const double v = read()[rows_.weight_position(feature, k)];
        return intercept_.on ? v - sums_[k] * intercept_.mean[feature] : v;
    }

    // What the scores of a row with a coupling share, given v . x_i of the column of the sum; then the score of class k.
    struct SharedScore {
        double reach, inverse_rho, mean;
    };
    SharedScore shared_score(Size i, double inner_of_sum) const;
    double coupled_score(const SharedScore& shared, Size k, double inner) const {
        const double centred = inner + sums_[k] * shared.reach - means_[k];
        return metric_.coupling.scale * centred + shared.inverse_rho * sums_[k] + (centre_[k] + shared.mean);
    }

    void add_columns(Size i, const Index* classes, const double* steps, Size count) {
        rows_.add(V_.data(), i, classes, steps, count, room_.every.data());
        add_sums(1.0, i, classes, steps, count);
    }

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
    Size c_;
    Buffer V_, W_;  // W with a threshold only
    bool reads_later_ = false;
    std::vector<double> squares_;
    std::vector<double> sums_, means_, centre_;
    RowRoom room_;
};

}  // namespace polymargin

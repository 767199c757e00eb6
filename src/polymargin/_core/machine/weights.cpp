// What a machine in the making is asked.
#include "weights.hpp"

namespace polymargin {

void Intercept::start(const Rows& rows, const double* means, double inverse_of_rho) {
    on = true;
    inverse_rho = inverse_of_rho;
    mean.assign(means, means + rows.n_features());
    mean_norm = 0.0;
    for (double value : mean) mean_norm += value * value;
    mean_dot.resize(rows.n_rows());
    for (Size i = 0; i < rows.n_rows(); ++i) mean_dot[i] = rows.dot_dense(i, means);
}

void MachineMetric::apply(const double* v, Size c, double* out) const {
    std::fill_n(out, c, 0.0);
    for (Size l = 0; l < c; ++l) {
        const double* row = P.data() + l * c;
        for (Size k = 0; k < c; ++k) out[k] += v[l] * row[k];
    }
}

Weights::Weights(const Rows& rows, const Intercept& intercept, const MachineMetric& metric)
    : rows_(rows), intercept_(intercept), metric_(metric), V_(rows.weights_size()), sums_(rows.n_classes(), 0.0),
      means_(rows.n_classes(), 0.0), centre_(rows.n_classes(), 0.0), every_(padded(rows.n_classes())) {}

void Weights::all_scores(Size i, double* out) const {
    rows_.all_scores(V_.data(), i, out);
    if (metric_.has_matrix()) {
        std::vector<double> inner(out, out + sums_.size());
        return all_metric_scores(i, inner.data(), out);
    }
    if (metric_.has_scales()) {
        for (Size k = 0; k < sums_.size(); ++k) out[k] = scaled_score(i, k, out[k]);
        return;
    }
    if (!intercept_.on) return;
    for (Size k = 0; k < sums_.size(); ++k) out[k] += offset(i, k);
}

void Weights::scores(Size i, const Index* classes, Size count, double* out, double* every) const {
    if (metric_.has_matrix()) {
        rows_.all_scores(V_.data(), i, every);
        return metric_scores(i, classes, count, every, out);
    }
    rows_.scores(V_.data(), i, classes, count, out, every);
    if (metric_.has_scales()) {
        for (Size k = 0; k < count; ++k) out[k] = scaled_score(i, static_cast<Size>(classes[k]), out[k]);
        return;
    }
    if (!intercept_.on) return;
    for (Size k = 0; k < count; ++k) out[k] += offset(i, static_cast<Size>(classes[k]));
}

void Weights::clear() {
    V_.clear();
    sums_.assign(sums_.size(), 0.0);
    means_.assign(means_.size(), 0.0);
    centre_.assign(centre_.size(), 0.0);
}

void Weights::set_base(const double* W0) {
    for (Size j = 0; j < rows_.n_features(); ++j) {
        for (Size k = 0; k < sums_.size(); ++k, ++W0) {
            V_[rows_.weight_position(j, k)] = *W0;
            if (intercept_.on) means_[k] += *W0 * intercept_.mean[j];
        }
    }
}

void Weights::multiply(double t) {
    for (Size k = 0; k < V_.size(); ++k) V_[k] *= t;
    for (Size k = 0; k < sums_.size(); ++k) {
        sums_[k] *= t;
        means_[k] *= t;
    }
}

void Weights::add(double t, const Weights& direction) {
    for (Size k = 0; k < V_.size(); ++k) V_[k] += t * direction.V_[k];
    for (Size k = 0; k < sums_.size(); ++k) {
        sums_[k] += t * direction.sums_[k];
        means_[k] += t * direction.means_[k];
    }
}

std::vector<double> Weights::squared_norms() const {
    std::vector<double> out(sums_.size(), 0.0);
    rows_.add_squares(V_.data(), out.data());
    for (Size k = 0; k < out.size(); ++k) {
        out[k] += sums_[k] * (intercept_.mean_norm * sums_[k] - 2.0 * means_[k]);
        out[k] = out[k] > 0.0 ? out[k] : 0.0;
    }
    return out;
}

double Weights::squared_norm() const {
    if (metric_.has_matrix()) return norm_in_matrix();
    double sum = 0.0;
    if (metric_.has_scales()) {
        const std::vector<double> norms = squared_norms();
        for (Size k = 0; k < norms.size(); ++k) sum += metric_.scales[k] * norms[k];
        return sum;
    }
    for (Size k = 0; k < V_.size(); ++k) sum += V_[k] * V_[k];
    for (Size k = 0; k < sums_.size(); ++k) sum += sums_[k] * (intercept_.mean_norm * sums_[k] - 2.0 * means_[k]);
    return sum;
}

double Weights::proximal_norm() const {
    double sum = squared_norm();
    const std::vector<double> pulls = pulls_of_sums();
    for (Size k = 0; k < sums_.size(); ++k) sum += intercept_.inverse_rho * sums_[k] * pulls[k];
    return sum;
}

double Weights::weight(Size feature, Size k) const {
    const double v = V_[rows_.weight_position(feature, k)];
    return (intercept_.on ? v - sums_[k] * intercept_.mean[feature] : v) * metric_.scale(k);
}

double Weights::intercept(Size k) const {
    if (!intercept_.on) return 0.0;
    if (metric_.has_matrix()) {
        double b = centre_[k];
        for (Size l = 0; l < sums_.size(); ++l) {
            const double w_dot_mean = means_[l] - sums_[l] * intercept_.mean_norm;
            b += metric_.P[k * sums_.size() + l] * (sums_[l] * intercept_.inverse_rho - w_dot_mean);
        }
        return b;
    }
    const double w_dot_mean = means_[k] - sums_[k] * intercept_.mean_norm;
    return centre_[k] + sums_[k] * intercept_.inverse_rho - metric_.scale(k) * w_dot_mean;
}

std::vector<double> Weights::intercepts() const {
    std::vector<double> out(sums_.size());
    for (Size k = 0; k < out.size(); ++k) out[k] = intercept(k);
    return out;
}

std::vector<double> Weights::weights() const {
    const Size c = sums_.size();
    std::vector<double> out(rows_.n_features() * c), w(c);
    for (Size j = 0; j < rows_.n_features(); ++j) {
        for (Size k = 0; k < c; ++k) w[k] = weight(j, k);
        if (metric_.has_matrix()) {
            metric_.apply(w.data(), c, &out[j * c]);
        } else {
            std::copy(w.begin(), w.end(), &out[j * c]);
        }
    }
    return out;
}

std::vector<double> Weights::pulls_of_sums() const {
    std::vector<double> out(sums_);
    if (metric_.has_matrix()) metric_.apply(sums_.data(), sums_.size(), out.data());
    return out;
}

double Weights::norm_in_matrix() const {
    const Size c = sums_.size();
    std::vector<double> v(c), Pv(c);
    double sum = 0.0;
    for (Size j = 0; j < rows_.n_features(); ++j) {
        for (Size k = 0; k < c; ++k) v[k] = weight(j, k);
        metric_.apply(v.data(), c, Pv.data());
        for (Size k = 0; k < c; ++k) sum += v[k] * Pv[k];
    }
    return sum;
}

}  // namespace polymargin

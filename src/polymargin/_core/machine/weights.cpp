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
    : rows_(rows), intercept_(intercept), metric_(metric), c_(rows.n_classes() - (metric.coupled ? 1 : 0)),
      V_(rows.weights_size()), W_(metric.shrinkage.on() ? rows.weights_size() : 0), sums_(rows.n_classes(), 0.0), means_(rows.n_classes(), 0.0), centre_(c_, 0.0),
      room_(rows.n_classes()) {}

void Weights::all_scores(Size i, double* out) const {
    rows_.all_scores(read(), i, out);
    finish_all(i, out);
}

void Weights::all_scores(const Size* rows, Size count, double* const* out) const {
    rows_.scores_of_rows(read(), rows, count, 0, rows_.n_classes(), out);
    for (Size r = 0; r < count; ++r) finish_all(rows[r], out[r]);
}

void Weights::finish_all(Size i, double* out) const {
    if (metric_.has_matrix()) {
        std::vector<double> inner(out, out + sums_.size());
        return all_metric_scores(i, inner.data(), out);
    }
    if (metric_.coupled) {
        const SharedScore shared = shared_score(i, out[c_]);
        for (Size k = 0; k < c_; ++k) out[k] = coupled_score(shared, k, out[k]);
        return;
    }
    if (metric_.has_scales()) {
        for (Size k = 0; k < sums_.size(); ++k) out[k] = scaled_score(i, k, out[k]);
        return;
    }
    if (!intercept_.on) return;
    for (Size k = 0; k < sums_.size(); ++k) out[k] += offset(i, k);
}

Weights::SharedScore Weights::shared_score(Size i, double inner_of_sum) const {
    const Coupling& coupling = metric_.coupling;
    const double share = 1.0 / static_cast<double>(c_), reach = intercept_.on ? intercept_.mean_norm - intercept_.mean_dot[i] : 0.0;
    const double centred = share * (inner_of_sum + sums_[c_] * reach - means_[c_]);
    double mean = -coupling.scale * centred;
    mean += coupling.common * (coupling.fixes_offsets ? share * inner_of_sum : centred);
    if (coupling.fixes_offsets) mean -= intercept_.inverse_rho * share * sums_[c_];
    return {reach, intercept_.inverse_rho, mean};
}

void Weights::coupled_scores(Size i, const Index* classes, Size count, double* out, RowRoom& room) const {
    std::copy_n(classes, count, room.joined.data());
    room.joined[count] = static_cast<Index>(c_);
    double* inner = room.joined_values.data();
    rows_.scores(V_.data(), i, room.joined.data(), count + 1, inner, room.every.data());
    const SharedScore shared = shared_score(i, inner[count]);
    for (Size k = 0; k < count; ++k) out[k] = coupled_score(shared, static_cast<Size>(classes[k]), inner[k]);
}

Size Weights::close(Index* classes, double* steps, Size count) const {
    if (!metric_.coupled) return count;
    double sum = 0.0;
    for (Size k = 0; k < count; ++k) sum += steps[k];
    classes[count] = static_cast<Index>(c_);
    steps[count] = sum;
    return sum != 0.0 ? count + 1 : count;
}

void Weights::add_with_sum(Size i, const Index* classes, const double* steps, Size count) {
    std::copy_n(classes, count, room_.joined.data());
    std::copy_n(steps, count, room_.joined_values.data());
    add_columns(i, room_.joined.data(), room_.joined_values.data(), close(room_.joined.data(), room_.joined_values.data(), count));
}

void Weights::scores_in_metric(Size i, const Index* classes, Size count, double* out, double* every) const {
    if (metric_.has_matrix()) {
        rows_.all_scores(V_.data(), i, every);
        return metric_scores(i, classes, count, every, out);
    }
    rows_.scores(V_.data(), i, classes, count, out, every);
    for (Size k = 0; k < count; ++k) out[k] = scaled_score(i, static_cast<Size>(classes[k]), out[k]);
}

Size Weights::part_of_scores(const WeightPart& part, Size i, const Index* classes, Size count, double* out, RowRoom& room) const {
    Size m = 0;
    for (Size k = 0; k < count; ++k) {
        room.joined[m] = classes[k];
        m += part.has(classes[k]);
    }
    rows_.scores(V_.data(), i, room.joined.data(), m, out, room.every.data());
    return m;
}

void Weights::join_scores(Size parts, Size i, const Index* classes, Size count, const double* const* partial, double* out) const {
    for (Size number = 0; number < parts; ++number) {
        const WeightPart its = part(number, parts);
        const double* next = partial[number];
        for (Size k = 0; k < count; ++k) {
            if (its.has(classes[k])) out[k] = *next++;
        }
    }
    if (metric_.coupled) {  // the sum is the last one
        const SharedScore shared = shared_score(i, out[count - 1]);
        for (Size k = 0; k + 1 < count; ++k) out[k] = coupled_score(shared, static_cast<Size>(classes[k]), out[k]);
        return;
    }
    if (metric_.has_scales()) {
        for (Size k = 0; k < count; ++k) out[k] = scaled_score(i, static_cast<Size>(classes[k]), out[k]);
        return;
    }
    if (!intercept_.on) return;
    for (Size k = 0; k < count; ++k) out[k] += offset(i, static_cast<Size>(classes[k]));
}

void Weights::add_part(const WeightPart& part, double share, Size i, const Index* classes, const double* steps, Size count, RowRoom& room) {
    Size m = 0;
    for (Size k = 0; k < count; ++k) {
        if (!part.has(classes[k])) continue;
        room.joined[m] = classes[k];
        room.joined_values[m++] = share * steps[k];
    }
    rows_.add(V_.data(), i, room.joined.data(), room.joined_values.data(), m, room.every.data());
}

void Weights::start_shrinking() {
    W_ = Buffer(rows_.weights_size());
}

void Weights::read_again() {
    reads_later_ = false;
    if (metric_.shrinkage.on()) read_all(metric_.shrinkage, rows_, V_.data(), W_.data());
}

void Weights::clear() {
    V_.clear();
    W_.clear();
    sums_.assign(sums_.size(), 0.0);
    means_.assign(means_.size(), 0.0);
    centre_.assign(centre_.size(), 0.0);
}

void Weights::set_base(const double* W0) {
    means_.assign(means_.size(), 0.0);
    for (Size j = 0; j < rows_.n_features(); ++j) {
        for (Size k = 0; k < sums_.size(); ++k, ++W0) {
            V_[rows_.weight_position(j, k)] = *W0;
            if (intercept_.on) means_[k] += *W0 * intercept_.mean[j];
        }
    }
}

void Weights::multiply(double t) {
    for (Size k = 0; k < V_.size(); ++k) V_[k] *= t;
    read_again();
    for (Size k = 0; k < sums_.size(); ++k) {
        sums_[k] *= t;
        means_[k] *= t;
    }
}

void Weights::add(double t, const Weights& direction) {
    for (Size k = 0; k < V_.size(); ++k) V_[k] += t * direction.V_[k];
    read_again();
    for (Size k = 0; k < sums_.size(); ++k) {
        sums_[k] += t * direction.sums_[k];
        means_[k] += t * direction.means_[k];
    }
}

void Weights::go_on(double beta, Weights& before) {
    const auto go = [beta](double* now, double* then, Size count) {
        for (Size k = 0; k < count; ++k) {
            const double at = now[k];
            now[k] = at + beta * (at - then[k]);
            then[k] = at;
        }
    };
    go(V_.data(), before.V_.data(), V_.size());
    read_again();
    go(sums_.data(), before.sums_.data(), sums_.size());
    go(means_.data(), before.means_.data(), means_.size());
}

std::vector<double> Weights::squared_norms() const {
    std::vector<double> out(sums_.size(), 0.0);
    rows_.add_squares(V_.data(), out.data());
    for (Size k = 0; k < out.size(); ++k) {
        const double raw = out[k];
        out[k] += sums_[k] * (intercept_.mean_norm * sums_[k] - 2.0 * means_[k]);
        if (intercept_.on && !(out[k] > cancelled * raw)) out[k] = centred_square(k);
    }
    out.resize(c_);
    return out;
}

double Weights::squared_norm() const {
    if (metric_.has_matrix()) return norm_in_matrix();
    if (metric_.coupled) return norm_in_coupling();
    double sum = 0.0;
    if (metric_.has_scales()) {
        const std::vector<double> norms = squared_norms();
        for (Size k = 0; k < norms.size(); ++k) sum += metric_.scales[k] * norms[k];
        return sum;
    }
    const double* w = read();
    sum = inner_of_packs(w, w, V_.size());
    const double raw = sum;
    for (Size k = 0; k < sums_.size(); ++k) sum += sums_[k] * (intercept_.mean_norm * sums_[k] - 2.0 * means_[k]);
    if (!intercept_.on || sum > cancelled * raw) return sum;
    sum = 0.0;
    for (Size k = 0; k < sums_.size(); ++k) sum += centred_square(k);
    return sum;
}

double Weights::centred_square(Size k) const {
    double sum = 0.0;
    for (Size j = 0; j < rows_.n_features(); ++j) sum += centred_weight(j, k) * centred_weight(j, k);
    return sum;
}

double Weights::proximal_norm() const {
    double sum = squared_norm();
    const std::vector<double> pulls = pulls_of_sums();
    for (Size k = 0; k < c_; ++k) sum += intercept_.inverse_rho * sums_[k] * pulls[k];
    return sum;
}

double Weights::proximal_inner(const Weights& other) const {
    double sum = inner_of_packs(V_.data(), other.V_.data(), V_.size());
    if (!intercept_.on) return sum;
    const double constant = intercept_.mean_norm + intercept_.inverse_rho;
    for (Size k = 0; k < sums_.size(); ++k) {
        sum += constant * sums_[k] * other.sums_[k] - sums_[k] * other.means_[k] - other.sums_[k] * means_[k];
    }
    return sum;
}

double Weights::along_centre(const Weights& other) const {
    double sum = 0.0;
    for (Size k = 0; k < centre_.size(); ++k) sum += centre_[k] * other.sums_[k];
    return sum;
}

double Weights::weight(Size feature, Size k) const {
    return centred_weight(feature, k) * metric_.scale(k);
}

double Weights::intercept(Size k) const {
    if (!intercept_.on) return 0.0;
    if (metric_.coupled) return coupled_intercept(k);
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
    std::vector<double> out(c_);
    for (Size k = 0; k < out.size(); ++k) out[k] = intercept(k);
    return out;
}

std::vector<double> Weights::weights() const {
    const Size c = c_;
    std::vector<double> out(rows_.n_features() * c), w(c);
    const bool plain = rows_.is_sparse() && !metric_.coupled && !metric_.has_matrix() && !metric_.has_scales();
    for (Size j = 0; j < rows_.n_features(); ++j) {
        if (plain) {  // classes lie side by side
            const double *v = read() + rows_.weight_position(j, 0), mean = intercept_.on ? intercept_.mean[j] : 0.0;
            for (Size k = 0; k < c; ++k) out[j * c + k] = v[k] - sums_[k] * mean;
            continue;
        }
        if (metric_.coupled) {
            coupled_weights(j, &out[j * c]);
            continue;
        }
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
    std::vector<double> out(sums_.begin(), sums_.begin() + static_cast<std::ptrdiff_t>(c_));
    if (metric_.has_matrix()) metric_.apply(sums_.data(), sums_.size(), out.data());
    if (metric_.fixes_offsets()) {
        for (double& pull : out) pull -= sums_[c_] / static_cast<double>(c_);
    }
    return out;
}

// The sum of the columns of the classes, not the column of the sum, which is rounded on a way of its own: with it the vectors
// add up to zero, if they should.
void Weights::coupled_weights(Size feature, double* out) const {
    const Coupling& coupling = metric_.coupling;
    const double share = 1.0 / static_cast<double>(c_);
    double centred = 0.0, raw = 0.0;
    for (Size k = 0; k < c_; ++k) {
        centred += share * (out[k] = centred_weight(feature, k));
        raw += share * raw_weight(feature, k);
    }
    const double common = coupling.common * (coupling.fixes_offsets ? raw : centred);
    for (Size k = 0; k < c_; ++k) out[k] = coupling.scale * (out[k] - centred) + common;
}

double Weights::coupled_intercept(Size k) const {
    const Coupling& coupling = metric_.coupling;
    const double share = 1.0 / static_cast<double>(c_);
    double dot = 0.0, sum = 0.0, mean = 0.0;  // z_k . m, and means over the classes
    for (Size l = 0; l < c_; ++l) {
        const double with_mean = means_[l] - sums_[l] * intercept_.mean_norm;
        if (l == k) dot = with_mean;
        mean += share * with_mean;
        sum += share * sums_[l];
    }
    const double b = centre_[k] + intercept_.inverse_rho * sums_[k] - coupling.scale * (dot - mean);
    return coupling.fixes_offsets ? b - intercept_.inverse_rho * sum : b - coupling.common * mean;
}

double Weights::norm_in_coupling() const {
    const Coupling& coupling = metric_.coupling;
    const double c = static_cast<double>(c_);
    std::vector<double> z(c_);
    double apart = 0.0, together = 0.0;
    for (Size j = 0; j < rows_.n_features(); ++j) {
        double sum = 0.0, raw = 0.0;
        for (Size k = 0; k < c_; ++k) {
            sum += z[k] = centred_weight(j, k);
            raw += raw_weight(j, k);
        }
        for (double value : z) apart += (value - sum / c) * (value - sum / c);
        const double common = coupling.fixes_offsets ? raw : sum;
        together += common * common / c;
    }
    return coupling.scale * apart + coupling.common * together;
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

// The quadratic in the unknowns, its factor and its solution.
#include "unknowns.hpp"

#include <algorithm>
#include <cmath>

namespace polymargin {
namespace {

constexpr Size most_unknowns = 1200;  // 12 MB

void add_multiple(double step, const double* from, Size count, double* to) {
    const Pack steps = spread(step);
    for (Size j = 0; j < count; j += 4) store(to + j, load(to + j) + steps * load(from + j));
}

double dot(const double* u, const double* v, Size count) {
    double out;
    dense_dots<1>(u, &v, count, &out);
    return out;
}

// The lower factor of a symmetric matrix, in place; four rows share what they read of the rows above them.
bool cholesky(double* M, Size n) {
    for (Size first = 0; first < n; first += 4) {
        const Size last = std::min(first + 4, n);
        if (last - first == 4) {
            const double* rows[4];
            for (Size u = 0; u < 4; ++u) rows[u] = M + (first + u) * n;
            for (Size j = 0; j < first; ++j) {
                double sums[4];
                const double* above = M + j * n;
                dense_dots<4>(above, rows, j, sums);
                for (Size u = 0; u < 4; ++u) M[(first + u) * n + j] = (M[(first + u) * n + j] - sums[u]) / above[j];
            }
        }
        const Size done = last - first == 4 ? first : 0;
        for (Size i = first; i < last; ++i) {
            double* row = M + i * n;
            for (Size j = done; j < i; ++j) row[j] = (row[j] - dot(row, M + j * n, j)) / M[j * n + j];
            const double square = row[i] - dot(row, row, i);
            if (!(square > 0.0)) return false;
            row[i] = std::sqrt(square);
        }
    }
    return true;
}

void solve_with_factor(const double* L, Size n, double* v) {
    for (Size i = 0; i < n; ++i) v[i] = (v[i] - dot(L + i * n, v, i)) / L[i * n + i];
    for (Size i = n; i-- > 0;) {
        v[i] /= L[i * n + i];
        for (Size j = 0; j < i; ++j) v[j] -= v[i] * L[i * n + j];
    }
}

}  // namespace

Unknowns::Unknowns(const DualState& state)
    : state_(state), c_(state.n_classes()), width_(width(state)), stride_(padded(width_ * (width_ + 1) / 2)), n_(c_ * width_),
      outer_(stride_, 0.0), row_(width_ + 1), v_(n_) {}

bool Unknowns::fit(const DualState& state) {
    const MachineMetric& metric = state.metric;
    // with offsets of sum zero the mean of the class vectors is not centred; it has no part in them where it is fixed at zero
    if (metric.fixes_offsets() && state.intercept.on && metric.coupling.common > 0.0) return false;
    return !metric.has_matrix() && !metric.shrinkage.on() && width(state) * state.n_classes() <= most_unknowns;
}

double Unknowns::price() const {
    const double n = static_cast<double>(n_);
    return n * n * n / 6.0;
}

void Unknowns::clear() { pairs_.assign(c_ * (c_ + 1) / 2 * stride_, 0.0); }

const double* Unknowns::row(Size i) {
    state_.rows.copy(i, row_.data());
    if (!state_.intercept.on) return row_.data();
    const Size d = state_.rows.n_features();
    for (Size j = 0; j < d; ++j) row_[j] -= state_.intercept.mean[j];
    row_[d] = std::sqrt(state_.intercept.inverse_rho);
    return row_.data();
}

void Unknowns::begin_row(const double* z) {
    double* to = outer_.data();
    for (Size j = 0; j < width_; ++j) {
        for (Size m = 0; m <= j; ++m) *to++ = z[j] * z[m];
    }
}

void Unknowns::add(Index k, Index l, double entry) {
    const Size high = static_cast<Size>(std::max(k, l)), low = static_cast<Size>(std::min(k, l));
    add_multiple(entry, outer_.data(), stride_, pair(high, low));
}

// Offsets are the last feature. A coupling has one root for differences of classes and one for what they have in common.
void Unknowns::through_metric(double* v) const {
    const MachineMetric& metric = state_.metric;
    if (!metric.has_scales() && !metric.coupled) return;
    const Size d = state_.rows.n_features();
    for (Size j = 0; j < width_; ++j) {
        if (metric.has_scales()) {
            for (Size k = 0; k < c_ && j < d; ++k) v[k * width_ + j] *= std::sqrt(metric.scales[k]);
            continue;
        }
        const double apart = j < d ? std::sqrt(metric.coupling.scale) : 1.0;
        const double together = j < d ? std::sqrt(metric.coupling.common) : metric.fixes_offsets() ? 0.0 : 1.0;
        double mean = 0.0;
        for (Size k = 0; k < c_; ++k) mean += v[k * width_ + j];
        mean /= static_cast<double>(c_);
        for (Size k = 0; k < c_; ++k) v[k * width_ + j] = apart * (v[k * width_ + j] - mean) + together * mean;
    }
}

bool Unknowns::factorise() {
    M_.resize(n_ * n_);
    for (Size k = 0; k < c_; ++k) {
        for (Size l = 0; l <= k; ++l) {
            const double* from = pair(k, l);
            for (Size j = 0; j < width_; ++j) {
                for (Size m = 0; m <= j; ++m, ++from) {
                    const Size at[2] = {k * width_ + j, k * width_ + m}, across[2] = {l * width_ + m, l * width_ + j};
                    for (int u = 0; u < 2; ++u) M_[at[u] * n_ + across[u]] = M_[across[u] * n_ + at[u]] = *from;
                }
            }
        }
    }
    if (state_.metric.has_scales() || state_.metric.coupled) {
        for (int side = 0; side < 2; ++side) {
            for (Size i = 0; i < n_; ++i) through_metric(M_.data() + i * n_);
            for (Size i = 0; i < n_; ++i) {
                for (Size j = 0; j < i; ++j) std::swap(M_[i * n_ + j], M_[j * n_ + i]);
            }
        }
    }
    for (Size i = 0; i < n_; ++i) M_[i * n_ + i] += 1.0;
    return cholesky(M_.data(), n_);
}

void Unknowns::solve() {
    through_metric(v_.data());
    solve_with_factor(M_.data(), n_, v_.data());
    through_metric(v_.data());
}

}  // namespace polymargin

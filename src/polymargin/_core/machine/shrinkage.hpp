// Class vectors that are read through a threshold: the gradient of R* for R = 1/2 |W|^2 + l1 times a norm.
//
//   entries    R has l1 sum_jk |w_jk|:    w_jk = z_jk shortened by l1, or 0
//   features   R has l1 sum_j |W_j|:      W_j = Z_j, shortened by l1 as a whole, or 0 for all classes at once
//
// R* is at most as curved as 1/2 |Z|^2, so that a row's step in the metric of that never lowers the dual.
#pragma once

#include <algorithm>
#include <cmath>

#include "rows/pack.hpp"
#include "rows/rows.hpp"

namespace polymargin {

struct Shrinkage {
    enum Kind { none, entries, features };

    Kind kind = none;
    double l1 = 0.0;

    bool on() const { return kind != none; }
    double shortened(double z) const { return std::max(z - l1, 0.0) + std::min(z + l1, 0.0); }
    double factor(double square) const {
        const double norm = std::sqrt(square);
        return norm > l1 ? 1.0 - l1 / norm : 0.0;
    }
};

// W from V where row i has moved `classes`. Sparse rows have the classes of a feature side by side, padded to fours; dense rows the
// features of a class.
inline void read_moved(const Shrinkage& shrinkage, const Rows& rows, Size i, const Index* classes, Size count, const double* V,
                       double* W, std::vector<double>& squares) {
    const Size d = rows.n_features(), c = rows.n_classes();
    if (rows.is_sparse()) {
        const Columns columns = rows.columns(i);
        const Size stride = rows.weight_position(1, 0);
        for (Size p = 0; p < columns.count; ++p) {
            const double* z = V + static_cast<Size>(columns.first[p]) * stride;
            double* w = W + static_cast<Size>(columns.first[p]) * stride;
            if (shrinkage.kind == Shrinkage::entries) {
                for (Size k = 0; k < count; ++k) w[classes[k]] = shrinkage.shortened(z[classes[k]]);
                continue;
            }
            Pack square = spread(0.0);
            for (Size k = 0; k < stride; k += 4) square += load(z + k) * load(z + k);
            const Pack factor = spread(shrinkage.factor(sum(square)));
            for (Size k = 0; k < stride; k += 4) store(w + k, factor * load(z + k));
        }
        return;
    }
    const Size stride = rows.weight_position(0, 1);
    if (shrinkage.kind == Shrinkage::entries) {
        for (Size k = 0; k < count; ++k) {
            const Size at = static_cast<Size>(classes[k]) * stride;
            for (Size j = 0; j < d; ++j) W[at + j] = shrinkage.shortened(V[at + j]);
        }
        return;
    }
    squares.assign(d, 0.0);
    for (Size k = 0; k < c; ++k) {
        for (Size j = 0; j < d; ++j) squares[j] += V[k * stride + j] * V[k * stride + j];
    }
    for (Size j = 0; j < d; ++j) squares[j] = shrinkage.factor(squares[j]);
    for (Size k = 0; k < c; ++k) {
        for (Size j = 0; j < d; ++j) W[k * stride + j] = squares[j] * V[k * stride + j];
    }
}

// The same for all features and classes.
inline void read_all(const Shrinkage& shrinkage, const Rows& rows, const double* V, double* W) {
    for (Size j = 0; j < rows.n_features(); ++j) {
        double square = 0.0;
        for (Size k = 0; k < rows.n_classes(); ++k) {
            const Size at = rows.weight_position(j, k);
            square += V[at] * V[at];
            W[at] = shrinkage.shortened(V[at]);
        }
        if (shrinkage.kind == Shrinkage::entries) continue;
        const double factor = shrinkage.factor(square);
        for (Size k = 0; k < rows.n_classes(); ++k) W[rows.weight_position(j, k)] = factor * V[rows.weight_position(j, k)];
    }
}

}  // namespace polymargin

// The working set of the kernel dual: m rows and c classes. All arrays are borrowed; those without const are read and written.
#pragma once

#include "rows/basics.hpp"

namespace polymargin {

// What the penalty puts between the classes, W = Z mixing. `scales` is a metric of its own for each class that no step of sum 0 of
// the mixing exceeds by more than over-relaxation may: working sets move in it, and what is carried to the scores is mixed.
struct KernelMetric {
    const double* mixing = nullptr;  // (c, c), symmetric; null: the identity, or diag(scales) if there are such
    const double* scales = nullptr;  // (c,); null: 1

    double scale(Size k) const { return scales ? scales[k] : 1.0; }
    bool is_identity() const { return !mixing && !scales; }
};

struct KernelData {
    Size m, c;
    const float* K;      // (m, m)
    double* S;           // (c, m): scores of all rows of the data without offsets, mixing' (K tau)_i
    double* Z;           // (c, m): (K tau)_i itself; null where it is S
    double* a;           // (m, c), 0 for the own class
    const Index* y;      // (m,)
    const double* cost;  // (m,)
    double* b;           // (c,)
    double* sums;        // (c,): sum_i tau_i over all rows of the data
    double inverse_rho;  // b moves by inverse_rho when the sums do by 1; 0: no intercept
    double ridge;        // (ridge/2) |b|^2 is the price of offsets
    KernelMetric metric;
    const double* targets;  // delta (c, c) by own class; null: 1

    // score of class k in row i, higher by how much more than 1 its margin should reach
    double score(Size i, Size k) const { return wanted(i, k, S[k * m + i]); }

    // the same for a score found elsewhere
    double wanted(Size i, Size k, double found) const {
        const Size own = static_cast<Size>(y[i]);
        return found + b[k] + (targets && k != own ? targets[own * c + k] - 1.0 : 0.0);
    }

    // how far class k is from where the offsets do not move
    double imbalance(Size k) const { return sums[k] - ridge * b[k]; }
};

}  // namespace polymargin

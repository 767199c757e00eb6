// The working set of the kernel dual: m rows and c classes. All arrays are borrowed; those without const are read and written.
#pragma once

#include "rows/basics.hpp"

namespace polymargin {

struct KernelData {
    Size m, c;
    const float* K;      // (m, m)
    double* S;           // (c, m): (K tau)_ik of all rows of the data
    double* a;           // (m, c), 0 for the own class
    const Index* y;      // (m,)
    const double* cost;  // (m,)
    double* b;           // (c,)
    double* sums;        // (c,): sum_i tau_i over all rows of the data
    double inverse_rho;  // b moves by inverse_rho when the sums do by 1; 0: no intercept
    const double* targets;  // delta (c, c) by own class; null: 1

    // score of class k in row i, higher by how much more than 1 its margin should reach
    double score(Size i, Size k) const { return wanted(i, k, S[k * m + i]); }

    // the same for a score found elsewhere
    double wanted(Size i, Size k, double found) const {
        const Size own = static_cast<Size>(y[i]);
        return found + b[k] + (targets && k != own ? targets[own * c + k] - 1.0 : 0.0);
    }
};

}  // namespace polymargin

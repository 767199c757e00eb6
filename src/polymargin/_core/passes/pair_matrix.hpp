// The matrix of the pairwise hinge's dual on some pairs j = (row i_j, own class y_j, rival k_j) with a class metric:
//
//   M_jl = <x_j, x_l> (e_y - e_k)_j' P (e_y - e_k)_l
#pragma once

#include <vector>

#include "rows/basics.hpp"

namespace polymargin {

struct PairList {
    const Index *row, *own, *rival;  // rows of the Gram matrix, classes
    Size count;
};

// Writes the entries M_jl with l >= j, row by row: what LAPACK calls the lower triangle. K (rows, rows), P (c, c).
inline void pair_matrix(const double* K, Size rows, const PairList& pairs, const double* P, Size c, double* M, const Poll& poll) {
    std::vector<double> pull(c);
    for (Size j = 0; j < pairs.count; ++j) {
        if (j % 64 == 0) poll();
        const double *own = P + static_cast<Size>(pairs.own[j]) * c, *rival = P + static_cast<Size>(pairs.rival[j]) * c;
        for (Size k = 0; k < c; ++k) pull[k] = own[k] - rival[k];
        const double* products = K + static_cast<Size>(pairs.row[j]) * rows;
        double* out = M + j * pairs.count;
        for (Size l = j; l < pairs.count; ++l) {
            out[l] = products[pairs.row[l]] * (pull[static_cast<Size>(pairs.own[l])] - pull[static_cast<Size>(pairs.rival[l])]);
        }
    }
}

}  // namespace polymargin

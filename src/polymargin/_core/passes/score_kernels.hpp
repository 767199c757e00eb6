// Passes over the scores S (n, c) of all rows: one sweep each, no temporaries of that size.
//
// Smooth losses: value, derivative T in the scores and curvature in one pass.
//
// The hinge, one interior-point pair for each row i and rival class k != y (slacks xi, s; multipliers A, B):
//
//     min sum_ik u_i xi_ik + R,     xi - s = x := 1 - (s_y - s_k),   xi, s >= 0
//     s A = mu,   xi B = mu,   A + B = u_i          (the central path)
//
// A Newton step on these equations changes A by omega (dx + x - xi + s + r1/A - r2/B), 1/omega = xi/B + s/A, where r1, r2 are the
// residuals of the two products, less the second-order terms of a predictor step where one is given.
#pragma once

#include <algorithm>
#include <cmath>

#include "rows/basics.hpp"

namespace polymargin {

// Arrays (n, c) of the pairs. Entries of a row's own class are 0 and never read.
struct Pairs {
    const Index* y;
    double *S, *A, *B, *xi, *s;
    Size n, c;
};

struct PairMove {
    double omega, dA, dxi, ds;
};

// The Newton step of one pair for a change dx of its x; `predictor` holds a step whose products are to be corrected.
inline PairMove pair_move(double x, double A, double B, double xi, double s, double mu, double dx,
                          const PairMove* predictor) {
    double r1 = mu - A * s, r2 = mu - B * xi;
    if (predictor != nullptr) {
        r1 -= predictor->dA * predictor->ds;
        r2 += predictor->dA * predictor->dxi;
    }
    const double omega = 1.0 / (xi / B + s / A);
    const double rest = dx + (x - (xi - s));
    const double dA = omega * (rest - r2 / B + r1 / A);
    return {omega, dA, (r2 + xi * dA) / B, (r1 - s * dA) / A};
}

// Calls visit(i, k, position, x) for every pair of a block of rows; polls between the blocks.
template <class Visit>
void for_each_pair(const Pairs& p, const Poll& poll, Visit visit) {
    for (Size i = 0; i < p.n; ++i) {
        if (i % 256 == 0) poll();
        const Size own = static_cast<Size>(p.y[i]);
        const double* scores = p.S + i * p.c;
        for (Size k = 0; k < p.c; ++k) {
            if (k != own) visit(i, k, i * p.c + k, 1.0 - (scores[own] - scores[k]));
        }
    }
}

// The point of the central path above the scores.
inline void start_pairs(const Pairs& p, const double* cost, double mu, const Poll& poll) {
    for_each_pair(p, poll, [&](Size i, Size, Size at, double x) {
        const double t = mu / cost[i], root = std::sqrt(x * x + 4.0 * t * t);
        double a, b;  // A / u and B / u, each without cancellation
        if (x >= 0.0) {
            const double ratio = 2.0 * t / (root + x);
            a = 1.0 / (1.0 + ratio);
            b = ratio / (1.0 + ratio);
        } else {
            const double whole = 2.0 * t - x + root;
            a = 2.0 * t / whole;
            b = (root - x) / whole;
        }
        p.A[at] = cost[i] * a;
        p.B[at] = cost[i] * b;
        p.xi[at] = t / b;
        p.s[at] = t / a;
    });
}

// T: derivatives of the scores in the Newton system's right-hand side; omega: its weights. dS may be null (no predictor).
inline void pair_system(const Pairs& p, double mu, const double* dS, double* T, double* omega, const Poll& poll) {
    std::fill(T, T + p.n * p.c, 0.0);
    for_each_pair(p, poll, [&](Size i, Size, Size at, double x) {
        const Size own = i * p.c + static_cast<Size>(p.y[i]);
        PairMove predictor, *given = nullptr;
        if (dS != nullptr) {
            predictor = pair_move(x, p.A[at], p.B[at], p.xi[at], p.s[at], 0.0, dS[at] - dS[own], nullptr);
            given = &predictor;
        }
        const PairMove move = pair_move(x, p.A[at], p.B[at], p.xi[at], p.s[at], mu, 0.0, given);
        T[at] = p.A[at] + move.dA;
        T[own] -= T[at];
        omega[at] = move.omega;
    });
}

// What a step dS of the scores does: longest steps and the sum of all products as c0 + ap cp + ad cd + ap ad cpd.
struct StepReport {
    double longest_primal = 1e300, longest_dual = 1e300, c0 = 0.0, cp = 0.0, cd = 0.0, cpd = 0.0, curvature = 0.0;
};

inline double longest(double value, double change, double so_far) {
    return change < 0.0 ? std::min(so_far, -value / change) : so_far;
}

template <class Visit>
void for_each_move(const Pairs& p, double mu, const double* dS, const double* dS_predictor, const Poll& poll, Visit visit) {
    for_each_pair(p, poll, [&](Size i, Size, Size at, double x) {
        const Size own = i * p.c + static_cast<Size>(p.y[i]);
        PairMove predictor, *given = nullptr;
        if (dS_predictor != nullptr) {
            const double dx = dS_predictor[at] - dS_predictor[own];
            predictor = pair_move(x, p.A[at], p.B[at], p.xi[at], p.s[at], 0.0, dx, nullptr);
            given = &predictor;
        }
        const double dx = dS[at] - dS[own];
        visit(at, dx, pair_move(x, p.A[at], p.B[at], p.xi[at], p.s[at], mu, dx, given));
    });
}

inline StepReport assess_step(const Pairs& p, double mu, const double* dS, const double* dS_predictor, const Poll& poll) {
    StepReport out;
    for_each_move(p, mu, dS, dS_predictor, poll, [&](Size at, double dx, const PairMove& m) {
        const double A = p.A[at], B = p.B[at], xi = p.xi[at], s = p.s[at];
        out.longest_primal = longest(xi, m.dxi, longest(s, m.ds, out.longest_primal));
        out.longest_dual = longest(A, m.dA, longest(B, -m.dA, out.longest_dual));
        out.c0 += A * s + B * xi;
        out.cp += A * m.ds + B * m.dxi;
        out.cd += m.dA * (s - xi);
        out.cpd += m.dA * (m.ds - m.dxi);
        out.curvature += m.omega * dx * dx;
    });
    return out;
}

inline void take_step(const Pairs& p, double mu, const double* dS, const double* dS_predictor, double primal, double dual,
               const Poll& poll) {
    for_each_move(p, mu, dS, dS_predictor, poll, [&](Size at, double, const PairMove& m) {
        p.A[at] += dual * m.dA;
        p.B[at] -= dual * m.dA;
        p.xi[at] += primal * m.dxi;
        p.s[at] += primal * m.ds;
    });
    for (Size at = 0; at < p.n * p.c; ++at) p.S[at] += primal * dS[at];
}

// sum_i u_i sum_{k != y} [1 - t (s_y - s_k)]_+
inline double hinge_value(const double* S, const Index* y, const double* cost, Size n, Size c, double t, const Poll& poll) {
    double total = 0.0;
    for (Size i = 0; i < n; ++i) {
        if (i % 256 == 0) poll();
        const Size own = static_cast<Size>(y[i]);
        double row = -1.0;  // the own class adds 1
        for (Size k = 0; k < c; ++k) row += std::max(1.0 - t * (S[i * c + own] - S[i * c + k]), 0.0);  // in this order NaN stays NaN
        total += cost[i] * row;
    }
    return total;
}

// Row by row V <- M V with the star-shaped Laplacian M of the weights omega: centre y, edges to all k.
inline void star_product(const double* omega, const Index* y, double* V, Size n, Size c, const Poll& poll) {
    for (Size i = 0; i < n; ++i) {
        if (i % 256 == 0) poll();
        const Size own = static_cast<Size>(y[i]);
        double* v = V + i * c;
        const double* w = omega + i * c;
        const double centre = v[own];
        double sum = 0.0;
        for (Size k = 0; k < c; ++k) {
            v[k] = w[k] * (v[k] - centre);
            sum += v[k];
        }
        v[own] = -(sum - v[own]);
    }
}

// sum_i u_i sum_{k != y} log(1 + exp(-(s_y - s_k))), its derivative T and the star weights omega of its curvature.
inline double pairwise_logistic(const double* S, const Index* y, const double* cost, double* T, double* omega, Size n, Size c,
                         const Poll& poll) {
    double total = 0.0;
    for (Size i = 0; i < n; ++i) {
        if (i % 256 == 0) poll();
        const Size own = static_cast<Size>(y[i]);
        double slope = 0.0, row = 0.0;
        for (Size k = 0; k < c; ++k) {
            const Size at = i * c + k;
            T[at] = omega[at] = 0.0;
            if (k == own) continue;
            const double m = S[i * c + own] - S[at], tail = std::exp(-std::abs(m));
            const double small = tail / (1.0 + tail), large = 1.0 / (1.0 + tail);
            row += std::log1p(tail) + std::max(0.0, -m);
            T[at] = cost[i] * (m > 0.0 ? small : large);
            omega[at] = cost[i] * small * large;
            slope += T[at];
        }
        T[i * c + own] = -slope;
        total += cost[i] * row;
    }
    return total;
}

// sum_i u_i (log sum_k exp s_k - s_y), its derivative T and the probabilities P.
inline double softmax(const double* S, const Index* y, const double* cost, double* T, double* P, Size n, Size c, const Poll& poll) {
    double total = 0.0;
    for (Size i = 0; i < n; ++i) {
        if (i % 256 == 0) poll();
        const double* s = S + i * c;
        const double top = *std::max_element(s, s + c);
        double sum = 0.0;
        for (Size k = 0; k < c; ++k) sum += P[i * c + k] = std::exp(s[k] - top);
        for (Size k = 0; k < c; ++k) T[i * c + k] = cost[i] * (P[i * c + k] /= sum);
        const Size own = i * c + static_cast<Size>(y[i]);
        T[own] = 0.0;  // minus the others: 1 - P would lose what is left of a probability near 1
        double others = 0.0;
        for (Size k = 0; k < c; ++k) others += T[i * c + k];
        T[own] = -others;
        total += cost[i] * (std::log(sum) + top - S[own]);
    }
    return total;
}

// Row by row V <- u (diag(P) - P P') V.
inline void softmax_product(const double* P, const double* cost, double* V, Size n, Size c, const Poll& poll) {
    for (Size i = 0; i < n; ++i) {
        if (i % 256 == 0) poll();
        double mean = 0.0;
        for (Size k = 0; k < c; ++k) mean += P[i * c + k] * V[i * c + k];
        for (Size k = 0; k < c; ++k) V[i * c + k] = cost[i] * P[i * c + k] * (V[i * c + k] - mean);
    }
}

}  // namespace polymargin

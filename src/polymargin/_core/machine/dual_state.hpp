// The iterate of a dual method: the data, the duals and the machine they make.
//
//   min_W,b  1/2 |W|^2 + sum_i u_i loss(x_i W + b, y_i),    W = sum_i x_i tau_i',  tau_iy = sum_l a_il,  tau_il = -a_il
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "duals.hpp"
#include "weights.hpp"

namespace polymargin {

// All duals that are not zero, row by row.
struct SparseDuals {
    std::vector<std::int64_t> starts;
    std::vector<Index> classes;
    std::vector<double> values;
};

// What the value of scaled duals is made of.
struct ScaledDuals {
    double room, sum, squared_norm;  // largest t <= 1 that keeps t a' feasible; sum a'; |W|^2 of a'
    double squares;                  // of a squared hinge: sum_i (sum_l a'_il)^2 / (2 u_i)
    std::vector<double> norms;       // with class scales: squared norms of the vectors v_k - s_k m of a'
};

struct DualState {
    // the largest t <= 1 for which t * a stays in the domain of a row with this cost
    using Room = std::function<double(const double* a, Size count, double cost)>;

    Rows rows;
    const Index* y;
    const double* cost;  // u_i = C v_i
    Intercept intercept;
    MachineMetric metric;
    Weights weights;
    DualRows duals;
    std::vector<double> q;    // curvature of a row's sub-problem: |x_i|^2, with an intercept |x_i - m|^2 + 1/rho
    bool squared = false;     // a squared hinge: the dual value has the terms -(sum_l a_il)^2 / (4 u_i)
    double constant = 0.0;    // part of the dual objective that does not depend on the duals
    double dual = 0.0;        // dual objective (of the proximal problem, with an intercept), updated step by step

    DualState(Rows the_rows, const Index* targets, const double* costs);
    DualState(const DualState&) = delete;  // `weights` refers to `rows` and `intercept`
    DualState& operator=(const DualState&) = delete;
    ~DualState();

    Size n_rows() const { return rows.n_rows(); }
    Size n_classes() const { return rows.n_classes(); }

    void start_intercept(const double* means, double inverse_rho);

    // 1/2 |W - W0|^2 instead of 1/2 |W|^2; `the_constant` makes the dual that of the whole objective. Before any dual is set.
    void set_base(const double* W0, double the_constant);

    // Gives row i, so far without duals, the entries of a warm start.
    void set_row(Size i, const Index* classes, const double* values, Size count);
    SparseDuals sparse_duals() const;

    double row_sum(Size i) const;  // sum_l a_il
    double dual_sum() const;       // sum_i sum_l a_il, for a squared hinge less (sum_l a_il)^2 / (4 u_i)

    // New class scales, given the squared norms of the vectors v_k - s_k m as they are now.
    void rescale(const double* to, const double* squared_norms);

    // New metric, by its inverse P, and duals multiplied by t, or by less if they would leave their bounds. Rows must look at
    // every class again.
    void change_metric(const double* P, double t, const Room& room);

    std::vector<double> flows() const;  // flows[y][l] = sum of a_il over the rows of class y

    // The duals a'_il = factors[y_i][l] a_il, seen without changing the iterate.
    ScaledDuals scaled(const double* factors, const Room& room, const Poll& poll) const;

    // constant + sum_i sum_l a_il - 1/2 |W|^2 - centre . s - |s|^2 / (2 rho)
    void refresh_dual();
    void move_centre(const double* to);
};

}  // namespace polymargin

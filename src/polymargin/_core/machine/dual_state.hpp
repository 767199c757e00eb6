// The iterate of a dual method: the data, the duals and the machine they make.
//
//   min_W,b  1/2 |W|^2 + sum_i u_i loss(x_i W + b, y_i),    W = sum_i x_i tau_i'
//
// with tau_iy = sum_l a_il, tau_il = -a_il for margins to rivals, and tau_iy = a_iy, tau_il = -a_il for absolute ones.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "domains/common/row_view.hpp"
#include "duals.hpp"
#include "weights.hpp"

namespace polymargin {

// All duals that are not zero, row by row.
struct SparseDuals {
    std::vector<std::int64_t> starts;
    std::vector<Index> classes;
    std::vector<double> values;

    void clear() {
        starts.assign(1, 0);
        classes.clear();
        values.clear();
    }
    void append(Index label, double value) {
        classes.push_back(label);
        values.push_back(value);
    }
    void end_row() { starts.push_back(static_cast<std::int64_t>(values.size())); }
    Size n_rows() const { return starts.size() - 1; }
    Size begin(Size k) const { return static_cast<Size>(starts[k]); }  // of the k-th row
};

// What the value of scaled duals is made of.
struct ScaledDuals {
    double room, sum, squared_norm;  // largest t <= 1 that keeps t a' feasible; sum a' delta; |W|^2 of a'
    double squares;                  // of a squared loss: sum_i square(a'_i) / (2 u_i)
    std::vector<double> norms;       // with class scales: squared norms of the vectors v_k - s_k m of a'
};

// What the state knows of the loss: its margins, and of the domain what is asked between epochs.
struct LossRules {
    bool absolute = false;
    double own_weight = 1.0, rival_weight = 1.0;  // of absolute margins
    Squares squares = Squares::none;
    std::function<double(const RowDuals&)> room, square;
    std::function<void(const RowDuals&, bool closed, double held, double* a, double* scratch)> project;  // if it has faces
    std::vector<double> targets;  // delta (c, c) by own class; empty: 1
};

struct DualState {
    LossRules rules;
    Rows rows;
    const Index* y;
    const double* cost;  // u_i = C v_i
    Intercept intercept;
    MachineMetric metric;
    Weights weights;
    DualRows duals;
    std::vector<double> q;    // curvature of a row's sub-problem: |x_i|^2, with an intercept |x_i - m|^2 + 1/rho
    std::vector<CoupledCurvature> coupled_q;  // with a coupling of the classes; q is the larger one of the two
    bool shifted = false;     // the class vectors are more than sums of rows
    double constant = 0.0;    // part of the dual objective that does not depend on the duals
    double dual = 0.0;        // dual objective (of the proximal problem, with an intercept), updated step by step

    DualState(Rows the_rows, const Index* classes, const double* costs, LossRules the_rules = {}, bool coupled = false);
    DualState(const DualState&) = delete;  // `weights` refers to `rows` and `intercept`
    DualState& operator=(const DualState&) = delete;
    ~DualState();

    Size n_rows() const { return rows.n_rows(); }
    Size n_classes() const { return weights.n_classes(); }
    bool has_targets() const { return !rules.targets.empty(); }
    bool squared() const { return rules.squares != Squares::none; }

    // What a visit reads of a row beside its features and duals. Rows come at random: without it every one of these is waited for.
    void prefetch(Size i) const {
        PM_PREFETCH(&duals.slot(i));
        PM_PREFETCH(&q[i]);
        PM_PREFETCH(&cost[i]);
        PM_PREFETCH(&y[i]);
        PM_EFFECT();
    }

    // delta of class k in rows of class `own`, if there is a table
    double target(Size own, Index k) const { return rules.targets[own * n_classes() + static_cast<Size>(k)]; }

    // u_i times the weight of the margin of class k
    double weighted_cost(Size i, Index k) const { return cost[i] * (k == y[i] ? rules.own_weight : rules.rival_weight); }

    // What `margin` = 1 or, for directions, 0 times their targets makes of scores (see row_view.hpp): in place, of `classes`.
    void slopes_from(Size i, const Index* classes, Size count, double margin, double* scores) const;

    // The steps of the classes that duals a make; margins to rivals append the own class. Returns how many there are.
    Size signed_steps(Size i, Index* classes, const double* a, Size count, double* steps) const;

    void start_intercept(const double* means, double inverse_rho);
    void couple(const Coupling& coupling);  // before any dual is set
    void shrink(const Shrinkage& shrinkage);  // before any dual is set
    bool has_duals() const;

    // 1/2 |W - W0|^2 instead of 1/2 |W|^2; `the_constant` makes the dual that of the whole objective. Before any dual is set.
    void set_base(const double* W0, double the_constant);

    // Gives row i, so far without duals, the entries of a warm start.
    void set_row(Size i, const Index* classes, const double* values, Size count);
    SparseDuals sparse_duals() const;
    void append_row(Size i, SparseDuals& to) const;

    double row_sum(Size i) const;  // sum_l a_il
    double flow() const;           // sum_i sum_l a_il
    double dual_sum() const;       // sum_i sum_l a_il delta_l, for a squared loss less square(a_i) / (4 u_i)

    // New class scales, given the squared norms of the vectors v_k - s_k m as they are now.
    void rescale(const double* to, const double* squared_norms);

    // New metric, by its inverse P, and duals multiplied by t, or by less if they would leave their domain. Rows must look at
    // every class again.
    void change_metric(const double* P, double t);

    std::vector<double> flows() const;  // flows[y][l] = sum of a_il over the rows of class y

    // The duals a'_il = factors[y_i][l] a_il, seen without changing the iterate.
    ScaledDuals scaled(const double* factors, const Poll& poll) const;

    // constant + sum_i sum_l a_il delta_l - 1/2 |W|^2 - centre . s - |s|^2 / (2 rho)
    void refresh_dual();
    void sum_up_again(const Poll& poll);  // the class vectors, of the duals; no intercept, no base
    void move_centre(const double* to);

private:
    RowDuals row_duals(Size i, std::vector<Index>& classes) const;
    double linear_part(const RowDuals& row) const;  // sum_l a_l delta_l
    void set_curvatures();
};

}  // namespace polymargin

// The iterate of a dual method: the data, the duals and the machine they make.
//
//   min_W,b  1/2 |W|^2 + sum_i u_i loss(x_i W + b, y_i),    W = sum_i x_i tau_i',  tau_iy = sum_l a_il,  tau_il = -a_il
#pragma once

#include <cstdint>
#include <algorithm>
#include <functional>
#include <stdexcept>
#include <vector>

#include "duals.hpp"
#include "weights.hpp"

namespace polymargin {

using Poll = std::function<void()>;  // called every few milliseconds; throws to stop a loop

template <class Rows>
struct DualState {
    Rows rows;
    const Index* y;
    const double* cost;  // u_i = C v_i
    Intercept intercept;
    ClassScales scales;  // empty unless the row problem has them: then the penalty is sum_k |w_k|^2 / (2 beta_k)
    ClassMetric metric;  // off unless the row problem has one: then the penalty is 1/2 tr(W L W')
    Weights<Rows> weights;
    DualRows duals;
    std::vector<double> q;    // curvature of a row's sub-problem: |x_i|^2, with an intercept |x_i - m|^2 + 1/rho
    bool squared = false;     // a squared hinge: the dual value has the terms -(sum_l a_il)^2 / (4 u_i)
    double constant = 0.0;    // part of the dual objective that does not depend on the duals
    double dual = 0.0;        // dual objective (of the proximal problem, with an intercept), updated step by step

    DualState(Rows the_rows, const Index* targets, const double* costs)
        : rows(the_rows), y(targets), cost(costs), weights(rows, intercept, scales, metric), duals(rows.n_rows(), rows.n_classes()),
          q(rows.n_rows()) {
        if (n_rows() > 0xffffffffu) throw std::length_error("more than 4294967295 rows");
        for (Size i = 0; i < n_rows(); ++i) q[i] = rows.squared_norm(i);
    }
    DualState(const DualState&) = delete;  // `weights` refers to `rows` and `intercept`
    DualState& operator=(const DualState&) = delete;

    Size n_rows() const { return rows.n_rows(); }
    Size n_classes() const { return rows.n_classes(); }

    void start_intercept(const double* means, double inverse_rho) {
        intercept.start(rows, means, inverse_rho);
        for (Size i = 0; i < n_rows(); ++i) q[i] = intercept.curvature(i, q[i]);
    }

    // 1/2 |W - W0|^2 instead of 1/2 |W|^2; `the_constant` makes the dual that of the whole objective. Before any dual is set.
    void set_base(const double* W0, double the_constant) {
        weights.set_base(W0);
        constant = the_constant;
        refresh_dual();
    }

    // Gives row i, so far without duals, the entries of a warm start.
    void set_row(Size i, const Index* classes, const double* values, Size count) {
        duals.reserve(i, count);
        auto& slot = duals.slot(i);
        slot.count = static_cast<Index>(count);
        std::vector<Index> moved(classes, classes + count);
        std::vector<double> steps(count);
        double sum = 0.0;
        for (Size k = 0; k < count; ++k) {
            duals.set(slot, static_cast<Index>(k), classes[k], values[k]);
            steps[k] = -values[k];
            sum += values[k];
        }
        moved.push_back(y[i]);
        steps.push_back(sum);
        if (count > 0) weights.add(i, moved.data(), steps.data(), count + 1);
    }

    // sum_i sum_l a_il, for a squared hinge less (sum_l a_il)^2 / (4 u_i)
    double dual_sum() const {
        double total = 0.0;
        for (Size i = 0; i < n_rows(); ++i) {
            const auto& slot = duals.slot(i);
            const double* a = duals.values(slot);
            double sum = 0.0;
            for (Index k = 0; k < slot.count; ++k) sum += a[k];
            total += squared ? sum - sum * sum / (4.0 * cost[i]) : sum;
        }
        return total;
    }

    // New class scales, given the squared norms of the vectors v_k - s_k m as they are now.
    void rescale(const double* to, const double* squared_norms) {
        for (Size k = 0; k < n_classes(); ++k) {
            dual += 0.5 * (scales[k] - to[k]) * squared_norms[k];
            scales[k] = to[k];
        }
    }

    // New metric, by its inverse P, and duals multiplied by t, or by less if they would leave their bounds. Rows must look at
    // every class again.
    template <class Problem>
    void change_metric(const double* P, double t) {
        const Size c = n_classes();
        for (Size i = 0; i < n_rows() && t > 1.0; ++i) {
            const auto& slot = duals.slot(i);
            std::vector<double> a(duals.values(slot), duals.values(slot) + slot.count);
            for (double& value : a) value *= t;
            t = std::max(1.0, t * Problem::room(a.data(), a.size(), cost[i]));
        }
        weights.multiply(t);
        for (Size i = 0; i < n_rows(); ++i) {
            const auto& slot = duals.slot(i);
            double* a = duals.values(slot);
            for (Index k = 0; k < slot.count; ++k) a[k] = std::min(t * a[k], cost[i]);
        }
        metric.P.assign(P, P + c * c);
        refresh_dual();
    }

    // flows[y][l] = sum of a_il over the rows of class y
    std::vector<double> flows() const {
        const Size c = n_classes();
        std::vector<double> out(c * c, 0.0);
        for (Size i = 0; i < n_rows(); ++i) {
            const auto& slot = duals.slot(i);
            for (Index k = 0; k < slot.count; ++k) {
                out[static_cast<Size>(y[i]) * c + static_cast<Size>(duals.label(slot, k))] += duals.values(slot)[k];
            }
        }
        return out;
    }

    struct Scaled {
        double room, sum, squared_norm;  // largest t <= 1 that keeps t a' feasible; sum a'; |W|^2 of a'
        double squares;                  // of a squared hinge: sum_i (sum_l a'_il)^2 / (2 u_i)
        std::vector<double> norms;       // with class scales: squared norms of the vectors v_k - s_k m of a'
    };

    // The duals a'_il = factors[y_i][l] a_il, seen without changing the iterate.
    template <class Problem>
    Scaled scaled(const double* factors, const Poll& poll) const {
        const Size c = n_classes();
        Weights<Rows> machine(rows, intercept, scales, metric);
        Scaled out{1.0, 0.0, 0.0, 0.0, {}};
        std::vector<double> a(c), steps(c);
        std::vector<Index> classes(c);
        for (Size i = 0; i < n_rows(); ++i) {
            const auto& slot = duals.slot(i);
            const Size count = static_cast<Size>(slot.count);
            double sum = 0.0;
            for (Size k = 0; k < count; ++k) {
                classes[k] = duals.label(slot, static_cast<Index>(k));
                a[k] = duals.values(slot)[k] * factors[static_cast<Size>(y[i]) * c + static_cast<Size>(classes[k])];
                steps[k] = -a[k];
                sum += a[k];
            }
            if (sum == 0.0) continue;
            classes[count] = y[i];
            steps[count] = sum;
            machine.add(i, classes.data(), steps.data(), count + 1);
            out.room = std::min(out.room, Problem::room(a.data(), count, cost[i]));
            out.sum += sum;
            if (squared) out.squares += sum * sum / (2.0 * cost[i]);
            if ((i & 63) == 0) poll();
        }
        if (!scales.empty()) out.norms = machine.squared_norms();
        out.squared_norm = machine.squared_norm();
        return out;
    }

    // constant + sum_i sum_l a_il - 1/2 |W|^2 - centre . s - |s|^2 / (2 rho)
    void refresh_dual() {
        dual = constant + dual_sum() - 0.5 * weights.proximal_norm();
        for (Size k = 0; k < n_classes(); ++k) dual -= weights.centre()[k] * weights.sums()[k];
    }

    void move_centre(const double* to) {
        double change = 0.0;
        for (Size k = 0; k < n_classes(); ++k) {
            change -= (to[k] - weights.centre()[k]) * weights.sums()[k];
            weights.centre()[k] = to[k];
        }
        if (metric.on()) {  // its norm is dear, and has been formed anew when the metric last changed
            dual += change;
        } else {
            refresh_dual();
        }
    }
};

}  // namespace polymargin

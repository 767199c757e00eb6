// The square of a loss that is a maximum over a domain A: its dual has the term -G(a)^2 / (4 u), G the gauge of A, the least G
// with a in G A.
//
// For a given G the row's best duals are those of the loss itself at a cost of G. What they gain has the slope loss(G), the loss at
// the slopes they leave, so that the best G solves loss(G) = G / (2u): a decreasing piecewise linear equation.
#pragma once

#include "metrics/identity.hpp"
#include "capped_prices.hpp"

namespace polymargin {

template <class Domain>
class SquaredGauge : public LargestMargins {
public:
    static constexpr Squares squares = Squares::of_gauge;
    static constexpr bool has_faces = false;

    SquaredGauge(const std::vector<double>& parameters, Size n_classes)
        : LargestMargins(parameters, n_classes, false), domain_(parameters, n_classes) {}

    double loss(const double* scores, Size n_classes, Size y) const {
        const double largest = domain_.loss(scores, n_classes, y);
        return largest * largest;
    }

    // 0 beside a cone
    double room(const RowDuals& duals) const {
        RowDuals unbounded = duals;
        unbounded.cost = infinity;
        return domain_.room(unbounded);
    }

    double square(const RowDuals& duals) const {
        const double gauge = std::max(duals.sum(), k_ * duals.largest());
        return gauge * gauge;
    }

    Assessment assess(RowView& row, double threshold) const {
        const double linear_gap = domain_.assess(row, threshold).gap;
        double inner = 0.0;  // of all duals: those that are not zero are still in the list
        for (Size k = 0; k < row.count; ++k) inner += row.a[k] * (row.g[k] - row.g_target);
        const double largest = (linear_gap + inner) / row.cost;
        const double gap = row.cost * largest * largest + square(row.at(row.a)) / (4.0 * row.cost) - inner;
        return {gap, std::max(0.0, gap) / row.cost};
    }

    void solve(RowView& row, const Identity& metric) const {
        const double cost = row.cost, before = row.sum();
        const double highest = loss_after(row, metric.q, before, nullptr);  // without duals
        std::fill_n(row.next, row.count, 0.0);
        if (!(highest > 0.0)) return;
        // from the gauge of the duals as they are, with the largest bend there can be; then secants through the last two levels,
        // which end on a straight piece
        double low = 0.0, high = 2.0 * cost * highest, bend = metric.q * (1.0 + 1.0 / k_) + 0.5 / cost;
        const double now = std::sqrt(square(row.at(row.a)));
        double level = now > low && now < high ? now : highest / bend, last_level = 0.0, last_slope = 0.0;
        for (int step = 0; step < 100; ++step) {
            row.cost = level;
            domain_.solve(row, metric);
            const double slope = loss_after(row, metric.q, before, row.next) - 0.5 * level / cost;
            if (std::fabs(slope) <= 1e-14 * highest) break;
            (slope > 0.0 ? low : high) = level;
            if (step > 0 && (last_slope - slope) * (level - last_level) > 0.0) bend = (last_slope - slope) / (level - last_level);
            last_level = level;
            last_slope = slope;
            double next = level + slope / bend;
            if (!(next > low && next < high)) next = 0.5 * (low + high);
            if (!(next > low && next < high)) break;
            level = next;
        }
        row.cost = cost;
    }

private:
    // The loss at the slopes that the duals `next` leave, nothing if there are none; with their sum `before` until now.
    double loss_after(const RowView& row, double q, double before, const double* next) const {
        margins_.resize(row.count + 1);
        double after = 0.0;
        for (Size k = 0; next && k < row.count; ++k) after += next[k];
        const double own = row.g_target + q * (after - before);
        for (Size k = 0; k < row.count; ++k) margins_[k] = row.g[k] - q * ((next ? next[k] : 0.0) - row.a[k]) - own;
        return domain_.loss_of_margins(margins_.data(), row.count);
    }

    Domain domain_;
    mutable std::vector<double> margins_;
};

}  // namespace polymargin

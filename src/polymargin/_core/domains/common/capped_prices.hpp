// What domains share in which the k largest margins count: the largest ones, and rows solved with a cap on every dual.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <vector>

#include "margins.hpp"
#include "row_view.hpp"

namespace polymargin {

class LargestMargins : public RelativeMargins {
public:
    // parameters: k. `own_counts`: the own class may be one of the k, with a margin of 0; if not, no margin counts as less than 0.
    LargestMargins(const std::vector<double>& parameters, Size n_classes, bool own_counts)
        : k_(parameters.size() == 1 ? parameters[0] : 0.0), own_counts_(own_counts) {
        if (!(k_ >= 1.0) || k_ != std::floor(k_) || k_ > static_cast<double>(n_classes)) {
            throw std::invalid_argument("the k largest margins need one parameter, a whole number k from 1 to the number of classes");
        }
    }

    Size fewest() const { return 2 * static_cast<Size>(k_); }

    double loss(const double* scores, Size n_classes, Size y) const {
        std::vector<double> margins(n_classes);
        Size count = 0;
        for (Size k = 0; k < n_classes; ++k) {
            if (k != y) margins[count++] = 1.0 + scores[k] - scores[y];
        }
        return loss_of_margins(margins.data(), count);
    }

    // The loss of the margins of a list, which are overwritten; there is room for one more.
    double loss_of_margins(double* margins, Size count) const { return top(margins, count).mean; }

    // Classes without a dual stay in the list while they are among the k highest or above a class with one.
    Assessment assess(RowView& row, double /*threshold*/) const {
        double sum = 0.0, inner = 0.0, lowest = infinity;
        for (Size k = 0; k < row.count; ++k) {
            const double margin = row.scratch[k] = row.g[k] - row.g_target;
            sum += row.a[k];
            inner += row.a[k] * margin;
            if (row.a[k] > 0.0) lowest = std::min(lowest, margin);
        }
        const Top highest = top(row.scratch, row.count);
        const double gap = row.cost * highest.mean - inner;
        lowest = std::min(lowest, highest.last);
        if (sum == 0.0 && highest.mean <= 0.0) lowest = infinity;  // nothing to take
        Size kept = 0;
        for (Size k = 0; k < row.count; ++k) {
            if (row.a[k] > 0.0 || row.g[k] - row.g_target >= lowest) row.keep(kept++, k);
        }
        row.count = kept;
        return {gap, std::max(0.0, gap) / row.cost};
    }

    bool settled(const RowView& row) const { return row.count == 0; }

protected:
    static constexpr double rounding = 1e-12;
    static constexpr Size short_list = 8;

    struct Top {
        double mean, last;  // the loss: sum of the k largest margins over k, cut at 0; and the smallest of them
    };

    // `margins` are overwritten
    Top top(double* margins, Size count) const {
        if (own_counts_) {
            margins[count++] = 0.0;
        } else {
            for (Size k = 0; k < count; ++k) margins[k] = std::max(0.0, margins[k]);
        }
        const Top found = largest_of(margins, count);
        return {std::max(0.0, found.mean), found.last};
    }

    // Of any values, which are reordered, unless k is small: then the largest so far are a list, and most others do not enter it.
    Top largest_of(double* values, Size count) const {
        if (count == 0) return {0.0, 0.0};
        const Size k = std::min(static_cast<Size>(k_), count);
        if (k <= short_list) return largest_in_order(values, count, k);
        std::nth_element(values, values + (k - 1), values + count, std::greater<double>());
        double sum = 0.0;
        for (Size j = 0; j < k; ++j) sum += values[j];
        return {sum / k_, values[k - 1]};
    }

    // Without a branch: which values enter is as good as random.
    Top largest_in_order(const double* values, Size count, Size k) const {
        double best[short_list];
        for (Size u = 0; u < k; ++u) best[u] = -infinity;
        for (Size j = 0; j < count; ++j) {
            double falls = values[j];
            for (Size u = 0; u < k; ++u) {
                const double stays = std::max(best[u], falls);
                falls = std::min(best[u], falls);
                best[u] = stays;
            }
        }
        double sum = 0.0;
        for (Size u = 0; u < k; ++u) sum += best[u];
        return {sum / k_, best[k - 1]};
    }

    struct Price {
        double nu, capped, capped_sum, free;  // how many z are beyond the cap, their sum, how many are between 0 and it
    };

    // nu with sum_l clip(z_l - nu, 0, cap) = fixed + share nu, a decreasing piecewise linear equation, by Newton steps that
    // stop on the right piece. Where a whole interval of prices fits, one of them.
    static Price price_of(const double* z, Size count, double cap, double fixed, double share, double guess) {
        double highest = z[0], lowest = z[0];
        for (Size k = 1; k < count; ++k) {
            highest = std::max(highest, z[k]);
            lowest = std::min(lowest, z[k]);
        }
        double low = lowest - 2.0 * cap, high = highest;
        if (share > 0.0) {  // what is taken lies between nothing and all caps
            low = std::min(low, -fixed / share);
            high = std::max(high, (static_cast<double>(count) * cap - fixed) / share);
        }
        double nu = guess > low && guess < high ? guess : 0.5 * (low + high);
        Price at{nu, 0.0, 0.0, 0.0};
        for (int step = 0; step < 200; ++step) {
            at = {nu, 0.0, 0.0, 0.0};
            double free_sum = 0.0;
            for (Size k = 0; k < count; ++k) {
                const double value = z[k] - nu;
                const double capped = value >= cap ? 1.0 : 0.0, free = (value < cap) & (value > 0.0) ? 1.0 : 0.0;
                at.capped += capped;
                at.capped_sum += capped * z[k];
                at.free += free;
                free_sum += free * z[k];
            }
            const double taken = at.capped * cap + free_sum - at.free * nu, excess = taken - (fixed + share * nu);
            if (std::fabs(excess) <= 1e-15 * taken && at.free == 0.0) break;
            (excess > 0.0 ? low : high) = nu;
            const double slope = at.free + share;
            const double newton = slope > 0.0 ? (free_sum + at.capped * cap - fixed) / slope : 0.5 * (low + high);
            if (newton == nu) break;
            nu = newton > low && newton < high ? newton : 0.5 * (low + high);
            if (!(nu > low && nu < high)) break;
        }
        return at;
    }

    // next = clip(z - nu, 0, cap). Where z is far above the cap rounding would leave the domain: what is between the bounds is
    // scaled to the sum it must have. Classes that only rounding has put over the cap share the sum.
    static void take(RowView& row, const double* z, double nu, double cap, double total) {
        double capped = 0.0, free = 0.0;
        for (Size k = 0; k < row.count; ++k) {
            row.next[k] = std::min(std::max(z[k] - nu, 0.0), cap);
            (row.next[k] < cap ? free : capped) += row.next[k];
        }
        const double left = std::max(0.0, total - capped);
        if (!(free > 0.0) && left > rounding * total) return fill(row, z, cap, left);
        const double scale = free > 0.0 ? left / free : 0.0, shared = capped > total ? total / capped : 1.0;
        for (Size k = 0; k < row.count; ++k) {
            row.next[k] = row.next[k] < cap ? std::min(scale * row.next[k], cap) : shared * cap;
        }
    }

    // Hands out what is left to the highest classes below the cap, where their prices differ by less than rounding.
    static void fill(RowView& row, const double* z, double cap, double left) {
        while (left > 0.0) {
            Size best = row.count;
            for (Size k = 0; k < row.count; ++k) {
                if (row.next[k] < cap && (best == row.count || z[k] > z[best])) best = k;
            }
            if (best == row.count) return;
            const double more = std::min(left, cap - row.next[best]);
            row.next[best] = left > more ? cap : row.next[best] + more;
            left -= more;
        }
    }

    double k_;
    bool own_counts_;
};

}  // namespace polymargin

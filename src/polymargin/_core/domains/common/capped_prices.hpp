// What domains share in which the k largest margins count: the largest ones, and rows solved with a cap on every dual.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
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
        Sum sum, inner;
        Smallest of_duals(infinity);
        in_lanes(row.count, [&](Size k, auto lane) {
            const auto a = read(row.a + k, lane), margin = read(row.g + k, lane) - all(row.g_target, lane);
            write(row.scratch + k, margin);
            sum += a;
            inner += a * margin;
            of_duals.see(where_above(a, all(0.0, lane), margin, all(infinity, lane)));
        });
        const Top highest = top(row.scratch, row.count);
        const double gap = row.cost * highest.mean - inner.value();
        double lowest = std::min(of_duals.value(), highest.last);
        if (sum.value() == 0.0 && highest.mean <= 0.0) lowest = infinity;  // nothing to take
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

    Top largest_in_order(const double* values, Size count, Size k) const {
        switch (k) {
            case 1: return largest_in_order<1>(values, count);
            case 2: return largest_in_order<2>(values, count);
            case 3: return largest_in_order<3>(values, count);
            case 4: return largest_in_order<4>(values, count);
            case 5: return largest_in_order<5>(values, count);
            case 6: return largest_in_order<6>(values, count);
            case 7: return largest_in_order<7>(values, count);
            default: return largest_in_order<short_list>(values, count);
        }
    }

    // Without a branch: which values enter is as good as random. Long lists first find the largest of every fourth value.
    template <Size K>
    Top largest_in_order(const double* values, Size count) const {
        double best[K];
        std::fill_n(best, K, -infinity);
        if (count >= 8 * K) {
            Pack of_fourth[K];
            std::fill_n(of_fourth, K, spread(-infinity));
            for (; count >= 4; count -= 4, values += 4) enter(load(values), of_fourth);
            for (const Pack& four : of_fourth) {
                for (int lane = 0; lane < 4; ++lane) enter(four[lane], best);
            }
        }
        for (Size j = 0; j < count; ++j) enter(values[j], best);
        return {std::accumulate(best, best + K, 0.0) / k_, best[K - 1]};
    }

    template <class Lane, Size K>
    static void enter(Lane falls, Lane (&best)[K]) {
        for (Lane& place : best) {
            const Lane stays = larger(place, falls);
            falls = smaller(place, falls);
            place = stays;
        }
    }

    struct Price {
        double nu, capped, capped_sum, free;  // how many z are beyond the cap, their sum, how many are between 0 and it
    };

    // nu with sum_l clip(z_l - nu, 0, cap) = fixed + share nu, a decreasing piecewise linear equation, by Newton steps that
    // stop on the right piece. Where a whole interval of prices fits, one of them.
    static Price price_of(const double* z, Size count, double cap, double fixed, double share, double guess) {
        double low = smallest_of(z, count) - 2.0 * cap, high = RowList::highest_of(z, count);
        if (share > 0.0) {  // what is taken lies between nothing and all caps
            low = std::min(low, -fixed / share);
            high = std::max(high, (static_cast<double>(count) * cap - fixed) / share);
        }
        double nu = guess > low && guess < high ? guess : 0.5 * (low + high);
        Price at{nu, 0.0, 0.0, 0.0};
        for (int step = 0; step < 200; ++step) {
            Sum n_capped, capped_sums, n_free, free_sums;
            in_lanes(count, [&](Size k, auto lane) {
                const auto zero = all(0.0, lane), one = all(1.0, lane), here = read(z + k, lane), value = here - all(nu, lane);
                const auto below = where_above(all(cap, lane), value, one, zero), free = where_above(value, zero, below, zero);
                const auto capped = one - below;
                n_capped += capped;
                capped_sums += capped * here;
                n_free += free;
                free_sums += free * here;
            });
            at = {nu, n_capped.value(), capped_sums.value(), n_free.value()};
            const double free_sum = free_sums.value();
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

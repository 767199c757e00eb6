// Prices at which classes take from a row: roots of piecewise linear functions, by discarding what falls below (Michelot 1986).
#pragma once

#include <algorithm>
#include <cmath>

#include "lanes.hpp"
#include "rows/basics.hpp"

namespace polymargin {

// Keeps what is above nu of the first `count` values, in their order; returns how many there are, and adds them to `sum`. Without a
// branch: which values stay is as good as random.
inline Size keep_above(double nu, double* values, Size count, double& sum) {
    Size kept = 0;
    for (Size k = 0; k < count; ++k) {
        const double value = values[k];
        const bool above = value > nu;
        values[kept] = value;
        sum += above ? value : 0.0;
        kept += above;
    }
    return kept;
}

// nu with sum_k (a_k - nu)_+ = total. `scratch` holds count doubles.
inline double simplex_threshold(const double* a, Size count, double total, double* scratch) {
    double nu = -infinity, sum = -total;
    for (Size k = 0; k < count; ++k) sum += scratch[k] = a[k];
    for (Size left = count, before = count + 1; left > 0 && left < before;) {
        nu = sum / static_cast<double>(left);
        before = left;
        left = keep_above(nu, scratch, left, sum = -total);
    }
    return nu;
}

// nu with sum_k (h_k - nu)_+ = nu - h_target
inline double open_threshold(const double* h, Size count, double h_target, double* scratch) {
    double nu = h_target, sum = h_target;
    for (Size k = 0; k < count; ++k) sum += scratch[k] = h[k];
    for (Size left = count, before = count + 1; left < before;) {
        nu = sum / static_cast<double>(left + 1);
        before = left;
        left = keep_above(nu, scratch, left, sum = h_target);
    }
    return nu;
}

// nu with sum_k r_k (o_k - nu)_+ = weight nu - total, for r > 0 and weight >= 0. A `guess` needs a weight: from wherever it is, the first
// step leads to the root or below, and all others come nearer.
inline double price(const double* o, const double* r, Size count, double weight, double total, double guess = -infinity) {
    double nu = guess;
    for (Size step = 0; step <= count + 1; ++step) {
        Sum sums, slopes;
        in_lanes(count, [&](Size k, auto lane) {
            const auto value = read(o + k, lane), taken = where_above(value, all(nu, lane), read(r + k, lane), all(0.0, lane));
            sums += taken * value;
            slopes += taken;
        });
        const double next = (total + sums.value()) / (weight + slopes.value());
        if (!(next > nu) && (step > 0 || next == nu || !(guess > -infinity))) break;
        nu = next;
    }
    return nu;
}

// a_k - nu for all k, at the price nu that `price_of` finds for a. Among values far larger than the `cost` which they are to share the
// price has no digits left for it: it is taken off, and sought again.
template <class PriceOf>
void take_off(double* a, Size count, double cost, const PriceOf& price_of) {
    constexpr int most = 3;
    double nu = infinity;
    for (int k = 0; k < most && std::fabs(nu) > cost; ++k) {
        nu = price_of();
        for (Size l = 0; l < count; ++l) a[l] -= nu;
    }
}

}  // namespace polymargin

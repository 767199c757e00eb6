// Prices at which classes take from a row: roots of piecewise linear functions, by discarding what falls below (Michelot 1986).
#pragma once

#include <algorithm>

#include "rows/basics.hpp"

namespace polymargin {

// nu with sum_k (a_k - nu)_+ = total. `scratch` holds count doubles.
inline double simplex_threshold(const double* a, Size count, double total, double* scratch) {
    std::copy_n(a, count, scratch);
    double nu = -infinity;
    for (Size left = count, before = count + 1; left > 0 && left < before;) {
        double sum = -total;
        for (Size k = 0; k < left; ++k) sum += scratch[k];
        nu = sum / static_cast<double>(left);
        before = left;
        left = static_cast<Size>(std::partition(scratch, scratch + left, [nu](double v) { return v > nu; }) - scratch);
    }
    return nu;
}

// nu with sum_k (h_k - nu)_+ = nu - h_target
inline double open_threshold(const double* h, Size count, double h_target, double* scratch) {
    std::copy_n(h, count, scratch);
    double nu = h_target;
    for (Size left = count, before = count + 1; left < before;) {
        double sum = h_target;
        for (Size k = 0; k < left; ++k) sum += scratch[k];
        nu = sum / static_cast<double>(left + 1);
        before = left;
        left = static_cast<Size>(std::partition(scratch, scratch + left, [nu](double v) { return v > nu; }) - scratch);
    }
    return nu;
}

// nu with sum_k r_k (o_k - nu)_+ = weight nu - total, for r > 0 and weight >= 0
inline double price(const double* o, const double* r, Size count, double weight, double total) {
    double nu = -infinity;
    for (Size step = 0; step <= count; ++step) {
        double sum = total, slope = weight;
        for (Size k = 0; k < count; ++k) {
            const double taken = o[k] > nu ? r[k] : 0.0;
            sum += taken * o[k];
            slope += taken;
        }
        const double next = sum / slope;
        if (!(next > nu)) break;
        nu = next;
    }
    return nu;
}

}  // namespace polymargin

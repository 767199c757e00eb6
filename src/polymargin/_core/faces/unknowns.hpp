// A quadratic in the unknowns of a machine, class by class: where features times classes are few and rows are many.
//
//   M = I + E (sum_i z_i z_i' (x) G_i) E
//
// z_i is row i as the machine sees it: centred, with the constant of the intercept behind it. G_i is a small matrix between classes.
// E is a root of the metric: w_k = (E E v)_k for sums of rows v. All blocks of a pair of classes are symmetric, sums of z z': half of
// each is kept until M is factorised.
#pragma once

#include <vector>

#include "machine/dual_state.hpp"

namespace polymargin {

class Unknowns {
public:
    explicit Unknowns(const DualState& state);

    // Whether the metric has such a root, and M is of a moderate size.
    static bool fit(const DualState& state);
    static Size width(const DualState& state) { return state.rows.n_features() + (state.intercept.on ? 1 : 0); }

    Size width() const { return width_; }

    // Multiplications of the factorisation, and of adding an entry of G.
    double price() const;
    double price_of_entry() const { return 0.5 * static_cast<double>(width_ * width_); }

    void clear();                                        // M = I
    const double* row(Size i);                           // z_i, until the next one is asked for
    void begin_row(const double* z);                     // entries of G that follow belong to it
    void add(Index k, Index l, double entry);            // G_kl, and G_lk

    bool factorise();                                    // false if rounding forbids it
    std::vector<double>& right_side() { return v_; }     // (c, width)
    const double* vector(Index k) const { return v_.data() + static_cast<Size>(k) * width_; }
    double* vector(Index k) { return v_.data() + static_cast<Size>(k) * width_; }
    void solve();                                        // v <- E M^-1 E v

private:
    void through_metric(double* v) const;  // v <- E v
    double* pair(Size k, Size l) { return pairs_.data() + (k * (k + 1) / 2 + l) * stride_; }

    const DualState& state_;
    Size c_, width_, stride_, n_;
    std::vector<double> pairs_, outer_, row_, M_, v_;
};

}  // namespace polymargin

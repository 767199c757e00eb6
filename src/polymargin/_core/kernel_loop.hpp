// Dual block-coordinate ascent on a working set of m rows, given their block of the kernel matrix.
//
//   maximise   sum_il a_il - 1/2 sum_k tau_k' K tau_k - centre . sum_i tau_i - (inverse_rho/2) |sum_i tau_i|^2
//
// over the duals of the working set, tau_iy = sum_l a_il, tau_il = -a_il, all other rows standing still. K (m, m) is
// symmetric positive semi-definite; scores S (c, m), class by class, hold (K tau)_ik of all rows of the data, and
// b = centre + inverse_rho sum_i tau_i is the offset of the proximal step (0 without an intercept).
//
// K is in single precision: its rows are what the loop waits for. The caller adds the steps to the scores of all rows with
// kernel values of full precision, so that rounding in K costs a little progress and no accuracy.
//
// Scores are kept up to date, so that looking at a row costs c operations and only moving one costs m for each class that
// moves: rows whose gap is far below the average are looked at, not moved.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "random.hpp"
#include "row_problems.hpp"

namespace polymargin {

// All arrays are borrowed; those without const are read and written.
struct KernelBlock {
    Size m, c;
    double* S;            // (c, m)
    double* a;            // (m, c), 0 for the own class
    const Index* y;       // (m,)
    const double* cost;   // (m,)
    double* b;            // (c,)
    double* sums;         // (c,): sum_i tau_i over all rows of the data
    double inverse_rho;   // 0: no intercept
};

struct KernelProgress {
    double gap = infinity;  // sum of the rows' gaps as last seen
    std::int64_t visits = 0;
};

// One row's arrays, and how its view is gathered.
class RowDesk {
public:
    explicit RowDesk(Size c) : classes_(c), parked_(c), a_(c), g_(c), next_(c), scratch_(c) {}

    RowView look(const KernelBlock& data, Size i, double q) {
        RowView row{classes_.data(), a_.data(), g_.data(), next_.data(), scratch_.data(), 0, 0.0, q, data.cost[i],
                    true, parked_.data(), 0, false};
        const Size y = static_cast<Size>(data.y[i]);
        for (Size k = 0; k < data.c; ++k) {
            const double score = data.S[k * data.m + i] + data.b[k];
            if (k == y) {
                row.g_target = score - 1.0;
                continue;
            }
            row.classes[row.count] = static_cast<Index>(k);
            row.a[row.count] = data.a[i * data.c + k];
            row.g[row.count++] = score;
        }
        return row;
    }

private:
    std::vector<Index> classes_, parked_;
    std::vector<double> a_, g_, next_, scratch_;
};

template <class Problem>
class KernelLoop {
public:
    KernelLoop(const float* K, const KernelBlock& data, std::uint64_t seed)
        : K_(K), data_(data), random_(seed), desk_(data.c), order_(data.m) {
        for (Size i = 0; i < data.m; ++i) order_[i] = static_cast<std::uint32_t>(i);
    }

    // Sweeps until the gap of the working set and its imbalance are at most `goal`, or for `max_visits` rows.
    template <class Poll>
    KernelProgress ascend(double goal, std::int64_t max_visits, const Poll& poll) {
        KernelProgress progress;
        double quiet = 0.0;
        while (progress.visits < max_visits && data_.m > 0) {
            const double gap = sweep(quiet, poll);
            progress.visits += static_cast<std::int64_t>(data_.m);
            progress.gap = gap;
            quiet = skip_below_ * gap / static_cast<double>(data_.m);
            if (gap + imbalance() <= goal) break;
            if (data_.inverse_rho > 0.0 && gap <= std::max(goal, imbalance())) move_centre();
        }
        return progress;
    }

private:
    template <class Poll>
    double sweep(double quiet, const Poll& poll) {
        double gap = 0.0;
        random_.shuffle(order_, 1);
        for (Size k = 0; k < data_.m; ++k) {
            if ((k & 15) == 0) poll();
            const Size i = order_[k];
            RowView row = desk_.look(data_, i, static_cast<double>(K_[i * data_.m + i]) + data_.inverse_rho);
            const Assessment seen = Problem::assess(row, infinity);
            gap += seen.gap;
            if (seen.violation > 0.0 && seen.gap > quiet) {
                Problem::solve(row);
                move(i, row);
            }
        }
        return gap;
    }

    void move(Size i, const RowView& row) {
        double target_step = 0.0;
        for (Size k = 0; k < row.count; ++k) {
            const double step = row.next[k] - row.a[k];
            if (step == 0.0) continue;
            data_.a[i * data_.c + static_cast<Size>(row.classes[k])] = row.next[k];
            add(i, static_cast<Size>(row.classes[k]), -step);
            target_step += step;
        }
        if (row.target_active && target_step != 0.0) add(i, static_cast<Size>(data_.y[i]), target_step);
    }

    void add(Size i, Size k, double step) {
        const float* from = K_ + i * data_.m;
        double* to = data_.S + k * data_.m;
        for (Size j = 0; j < data_.m; ++j) to[j] += step * static_cast<double>(from[j]);
        data_.sums[k] += step;
        data_.b[k] += data_.inverse_rho * step;
    }

    // What a repair of the balance costs, about: scores differ by about one.
    double imbalance() const {
        double total = 0.0;
        if (data_.inverse_rho > 0.0) {
            for (Size k = 0; k < data_.c; ++k) total += std::fabs(data_.sums[k]);
        }
        return total;
    }

    // A step of the proximal point method: the centre moves to b, and b with it.
    void move_centre() {
        for (Size k = 0; k < data_.c; ++k) data_.b[k] += data_.inverse_rho * data_.sums[k];
    }

    static constexpr double skip_below_ = 1.0;  // of the average gap of a row

    const float* K_;
    KernelBlock data_;
    Random random_;
    RowDesk desk_;
    std::vector<std::uint32_t> order_;
};

// Gaps of all rows at scores S + b, and the sum of their weighted losses.
template <class Problem, class Poll>
double kernel_gaps(const KernelBlock& data, double* gaps, const Poll& poll) {
    RowDesk desk(data.c);
    std::vector<double> scores(data.c);
    double total = 0.0;
    for (Size i = 0; i < data.m; ++i) {
        if ((i & 63) == 0) poll();
        for (Size k = 0; k < data.c; ++k) scores[k] = data.S[k * data.m + i] + data.b[k];
        total += data.cost[i] * Problem::loss(scores.data(), data.c, static_cast<Size>(data.y[i]));
        RowView row = desk.look(data, i, 0.0);
        gaps[i] = Problem::assess(row, infinity).gap;
    }
    return total;
}

}  // namespace polymargin

// A few hundred rows of the kernel dual whose block of K and scores fit a processor's cache, solved by sweeps.
//
// Scores are kept up to date, so that looking at a row costs c operations and only moving one costs m for each class that
// moves: rows whose gap is far below the average are looked at, not moved.
#pragma once

#include <cstdint>
#include <vector>

#include "loops/random.hpp"
#include "metrics/identity.hpp"
#include "domains/common/row_view.hpp"

namespace polymargin {

// m rows and c classes. All arrays are borrowed; those without const are read and written.
struct KernelData {
    Size m, c;
    const float* K;      // (m, m)
    double* S;           // (c, m): (K tau)_ik of all rows of the data
    double* a;           // (m, c), 0 for the own class
    const Index* y;      // (m,)
    const double* cost;  // (m,)
    double* b;           // (c,)
    double* sums;        // (c,): sum_i tau_i over all rows of the data
    double inverse_rho;  // b moves by inverse_rho when the sums do by 1; 0: no intercept
    const double* targets;  // delta (c, c) by own class; null: 1

    // score of class k in row i, higher by how much more than 1 its margin should reach
    double score(Size i, Size k) const {
        const double found = S[k * m + i] + b[k];
        const Size own = static_cast<Size>(y[i]);
        return targets && k != own ? found + (targets[own * c + k] - 1.0) : found;
    }
};

// Adds the step of row i's dual of class k to the scores of all rows, sums and offsets.
void add_step(const KernelData& data, Size i, Size k, double step);

// One row's arrays, and how its view is gathered.
class RowDesk {
public:
    explicit RowDesk(Size c) : classes_(c), parked_(c), parked_duals_(c), a_(c), g_(c), next_(c), scratch_(c) {}

    RowView look(const KernelData& data, Size i) {
        RowView row{{classes_.data(), a_.data(), g_.data(), next_.data(), scratch_.data(), 0, 0.0, false},
                    data.cost[i], data.y[i], true, parked_.data(), parked_duals_.data(), 0};
        const Size y = static_cast<Size>(data.y[i]);
        for (Size k = 0; k < data.c; ++k) {
            const double score = data.score(i, k);
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
    std::vector<double> parked_duals_, a_, g_, next_, scratch_;
};

// What a domain does with rows of the kernel dual.
class KernelRows {
public:
    virtual ~KernelRows() = default;

    // Gaps of all rows at scores S + b, and the sum of their weighted losses.
    virtual double gaps(const KernelData& data, double* out, const Poll& poll) = 0;

    // Lists the rows whose gap is above `quiet`; returns the gap of all.
    virtual double list(const KernelData& data, double quiet, std::vector<std::uint32_t>& listed, const Poll& poll) = 0;

    // Sweeps over all rows.
    virtual void solve(const KernelData& data, int n_sweeps, Random& random, const Poll& poll) = 0;
};

template <class Domain>
class KernelBlock final : public KernelRows {
public:
    KernelBlock(const Domain& domain, Size c) : domain_(domain), desk_(c) {}

    double gaps(const KernelData& data, double* out, const Poll& poll) override {
        std::vector<double> scores(data.c);
        double total = 0.0;
        for (Size i = 0; i < data.m; ++i) {
            if ((i & 63) == 0) poll();
            for (Size k = 0; k < data.c; ++k) scores[k] = data.score(i, k);
            total += data.cost[i] * domain_.loss(scores.data(), data.c, static_cast<Size>(data.y[i]));
            RowView row = desk_.look(data, i);
            out[i] = domain_.assess(row, infinity).gap;
        }
        return total;
    }

    double list(const KernelData& data, double quiet, std::vector<std::uint32_t>& listed, const Poll& poll) override {
        double gap = 0.0;
        listed.clear();
        for (Size i = 0; i < data.m; ++i) {
            if ((i & 63) == 0) poll();
            RowView row = desk_.look(data, i);
            const Assessment seen = domain_.assess(row, infinity);
            gap += seen.gap;
            if (seen.violation > 0.0 && seen.gap > quiet) listed.push_back(static_cast<std::uint32_t>(i));
        }
        return gap;
    }

    void solve(const KernelData& data, int n_sweeps, Random& random, const Poll& poll) override {
        data_ = data;
        order_.resize(data.m);
        for (Size i = 0; i < data.m; ++i) order_[i] = static_cast<std::uint32_t>(i);
        double quiet = 0.0;
        for (int k = 0; k < n_sweeps; ++k) {
            random.shuffle(order_, 1);
            const double gap = sweep(quiet, poll);
            quiet = skip_below_ * gap / static_cast<double>(data.m);
        }
    }

private:
    static constexpr double skip_below_ = 0.3;  // of the average gap of a row

    double sweep(double quiet, const Poll& poll) {
        double gap = 0.0;
        Size moved = 0;
        for (const std::uint32_t i : order_) {
            RowView row = desk_.look(data_, i);
            const Assessment seen = domain_.assess(row, infinity);
            gap += seen.gap;
            if (!(seen.violation > 0.0 && seen.gap > quiet)) continue;
            domain_.solve(row, Identity{static_cast<double>(data_.K[i * data_.m + i]) + data_.inverse_rho});
            move(i, row);
            if ((++moved & 63) == 0) poll();
        }
        return gap;
    }

    void move(Size i, const RowView& row) {
        double target_step = 0.0;
        for (Size k = 0; k < row.count; ++k) {
            const double step = row.next[k] - row.a[k];
            if (step == 0.0) continue;
            data_.a[i * data_.c + static_cast<Size>(row.classes[k])] = row.next[k];
            add_step(data_, i, static_cast<Size>(row.classes[k]), -step);
            target_step += step;
        }
        if (row.target_active && target_step != 0.0) add_step(data_, i, static_cast<Size>(data_.y[i]), target_step);
    }

    const Domain domain_;
    KernelData data_{};
    RowDesk desk_;
    std::vector<std::uint32_t> order_;
};

}  // namespace polymargin

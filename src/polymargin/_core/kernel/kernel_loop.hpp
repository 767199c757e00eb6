// Dual block-coordinate ascent on a working set of m rows, given their block of the kernel matrix.
//
//   maximise   sum_il a_il delta_yl - 1/2 sum_kl M_kl tau_k' K tau_l - centre . sum_i tau_i - (inverse_rho/2) |sum_i tau_i|^2
//
// over the duals of the working set, tau_iy = sum_l a_il, tau_il = -a_il, all other rows standing still. K (m, m) is
// symmetric positive semi-definite; b = centre + inverse_rho sum_i tau_i is the offset of the proximal step (0 without an
// intercept). M is what the penalty puts between the classes, usually the identity: a block moves in scales of the single
// classes, which bound M, and what it has moved is mixed by M when it is carried to the scores.
//
// A round looks at all rows, takes those whose gap is not far below the average, at random, as many at a time as fit the cache,
// each with the classes that can matter to it, solves them by sweeps (kernel_block.hpp) and only then carries their steps to the
// scores of all rows and classes: K is read once a block, not once a move.
//
// Once the dual is nearly at its maximum, most of the gap is in steps that rows take back and forth: it falls with the step's
// size, the dual with its square. So a block ends with the average of its last sweeps, which is feasible and loses nothing.
//
// K is in single precision: its rows are what the loop waits for. The caller adds the steps to the scores of all rows of the
// data with kernel values of full precision, so that rounding in K costs a little progress and no accuracy.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "kernel_block.hpp"
#include "loops/random.hpp"

namespace polymargin {

struct KernelProgress {
    double gap = infinity;  // sum of the rows' gaps as last seen
    std::int64_t visits = 0;
};

class KernelLoop {
public:
    KernelLoop(KernelRows& rows, const KernelData& data, std::uint64_t seed)
        : rows_(rows), data_(data), random_(seed), blocks_(data), carry_(data.c) {}

    // Rounds until the gap of the working set and its imbalance are at most `goal`, until `max_visits` rows have been visited
    // (a block's sweeps are one visit of its rows: carrying their steps to all rows is what costs), or until the caller
    // should look whether rounding of K stands in the way.
    KernelProgress ascend(double goal, std::int64_t max_visits, const Poll& poll) {
        KernelProgress progress;
        const auto looking = static_cast<std::int64_t>(1 + data_.c / 4);  // visits that cost as much as a look at all rows
        double quiet = 0.0;
        for (int round = 0; round < most_rounds_ && progress.visits < max_visits; ++round) {
            progress.gap = rows_.list(data_, quiet, lists_, poll);
            quiet = skip_below_ * progress.gap / static_cast<double>(data_.m);
            const double imbalance = this->imbalance();
            if (progress.gap + imbalance <= goal) break;
            if (data_.inverse_rho > 0.0 && progress.gap <= std::max(goal, imbalance)) move_centre();
            shuffled(lists_.rows.size(), visits_);
            for (Size at = 0; at < visits_.size();) {
                at = blocks_.take(lists_, visits_, at);
                solve_block(enough_ * goal, poll);
                progress.visits += static_cast<std::int64_t>(blocks_.size());
            }
            progress.visits += looking;
        }
        return progress;
    }

private:
    static constexpr int most_rounds_ = 500;
    static constexpr int sweeps_ = 40, averaged_ = 5;  // of a block
    static constexpr double enough_ = 0.1;             // of a block's gap, or of the goal, ends its sweeps
    static constexpr double skip_below_ = 0.1;         // of the average gap of a row: rows that are left behind come back
    static constexpr double rest_below_ = 0.3;         // the same within a block

    void shuffled(Size count, std::vector<std::uint32_t>& order) {
        order.resize(count);
        std::iota(order.begin(), order.end(), 0u);
        random_.shuffle(order, 1);
    }

    void solve_block(double goal, const Poll& poll) {
        blocks_.gather(poll);
        shuffled(blocks_.size(), order_);
        double quiet = 0.0, first = infinity;
        for (int k = 0; k < sweeps_; ++k) {
            if (k > 0) random_.shuffle(order_, 1);
            const double gap = rows_.sweep(data_, blocks_, order_, quiet, poll);
            if (k == 0) first = gap;
            if (k >= sweeps_ - averaged_) blocks_.join_average();
            if (gap <= std::max(enough_ * first, goal)) break;
            quiet = rest_below_ * gap / static_cast<double>(blocks_.size());
        }
        blocks_.take_average();
        carry(poll);
    }

    // S += mixing' steps' K; sums over the rows of a block in single precision, as K is.
    void carry(const Poll& poll) {
        blocks_.put_back(carry_);
        carry_.run(data_.m, poll, [&](Size k, Size start, Size width, const float* sums) {
            add(sums, 1.0, (data_.Z ? data_.Z : data_.S) + k * data_.m + start, width);
            if (data_.Z) mix(k, start, width, sums);
        });
    }

    // What class k has moved, in the scores of all classes.
    void mix(Size k, Size start, Size width, const float* sums) {
        double* const S = data_.S + start;
        if (!data_.metric.mixing) return add(sums, data_.metric.scale(k), S + k * data_.m, width);
        for (Size l = 0; l < data_.c; ++l) add(sums, data_.metric.mixing[k * data_.c + l], S + l * data_.m, width);
    }

    static void add(const float* sums, double times, double* to, Size width) {
        for (Size j = 0; j < width; ++j) to[j] += times * static_cast<double>(sums[j]);
    }

    // What a repair of the balance costs, about: scores differ by about one.
    double imbalance() const {
        double total = 0.0;
        if (data_.inverse_rho > 0.0) {
            for (Size k = 0; k < data_.c; ++k) total += std::fabs(data_.imbalance(k));
        }
        return total;
    }

    // A step of the proximal point method: the centre moves to b, and b with it.
    void move_centre() {
        for (Size k = 0; k < data_.c; ++k) data_.b[k] += data_.inverse_rho * data_.imbalance(k);
    }

    KernelRows& rows_;
    KernelData data_;
    Random random_;
    ClassLists lists_;
    ClassBlocks blocks_;
    Carry<float> carry_;
    std::vector<std::uint32_t> visits_, order_;
};

}  // namespace polymargin

// Dual block-coordinate ascent on a working set of m rows, given their block of the kernel matrix.
//
//   maximise   sum_il a_il delta_yl - 1/2 sum_k tau_k' K tau_k - centre . sum_i tau_i - (inverse_rho/2) |sum_i tau_i|^2
//
// over the duals of the working set, tau_iy = sum_l a_il, tau_il = -a_il, all other rows standing still. K (m, m) is
// symmetric positive semi-definite; b = centre + inverse_rho sum_i tau_i is the offset of the proximal step (0 without an
// intercept).
//
// A round looks at all rows, takes those whose gap is not far below the average, at random in blocks that fit the cache,
// solves each block by sweeps (kernel_block.hpp) and only then carries its steps to the scores of all rows: K is read once
// a block, not once a move.
//
// K is in single precision: its rows are what the loop waits for. The caller adds the steps to the scores of all rows of the
// data with kernel values of full precision, so that rounding in K costs a little progress and no accuracy.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernel_block.hpp"

namespace polymargin {

struct KernelProgress {
    double gap = infinity;  // sum of the rows' gaps as last seen
    std::int64_t visits = 0;
};

class KernelLoop {
public:
    KernelLoop(KernelRows& rows, const KernelData& data, std::uint64_t seed)
        : rows_(rows), data_(data), random_(seed), steps_(data.c) {}

    // Rounds until the gap of the working set and its imbalance are at most `goal`, until `max_visits` rows have been visited
    // (a block's sweeps are one visit of its rows: carrying their steps to all rows is what costs), or until the caller
    // should look whether rounding of K stands in the way.
    KernelProgress ascend(double goal, std::int64_t max_visits, const Poll& poll) {
        KernelProgress progress;
        const auto looking = static_cast<std::int64_t>(1 + data_.c / 4);  // visits that cost as much as a look at all rows
        double quiet = 0.0;
        for (int round = 0; round < most_rounds_ && progress.visits < max_visits; ++round) {
            progress.gap = rows_.list(data_, quiet, listed_, poll);
            quiet = skip_below_ * progress.gap / static_cast<double>(data_.m);
            const double imbalance = this->imbalance();
            if (progress.gap + imbalance <= goal) break;
            if (data_.inverse_rho > 0.0 && progress.gap <= std::max(goal, imbalance)) move_centre();
            random_.shuffle(listed_, 1);
            for (Size at = 0; at < listed_.size(); at += block_rows_) {
                const Size n = std::min(block_rows_, listed_.size() - at);
                solve_block(listed_.data() + at, n, poll);
                progress.visits += static_cast<std::int64_t>(n);
            }
            progress.visits += looking;
        }
        return progress;
    }

private:
    static constexpr Size block_rows_ = 512;
    static constexpr int most_rounds_ = 500;
    static constexpr int sweeps_ = 10;          // of a block
    static constexpr double skip_below_ = 0.5;  // of the average gap of a row
    static constexpr Size tile_ = 512;          // columns of K that a block's rows are read for at a time

    struct Step {
        std::uint32_t row;
        float value;
    };

    void solve_block(std::uint32_t* rows, Size n, const Poll& poll) {
        const Size c = data_.c;
        std::sort(rows, rows + n);
        K_.resize(n * n);
        S_.resize(c * n);
        a_.resize(n * c);
        y_.resize(n);
        cost_.resize(n);
        for (Size i = 0; i < n; ++i) {
            const float* from = data_.K + rows[i] * data_.m;
            for (Size j = 0; j < n; ++j) K_[i * n + j] = from[rows[j]];
            for (Size k = 0; k < c; ++k) S_[k * n + i] = data_.S[k * data_.m + rows[i]];
            std::copy_n(data_.a + rows[i] * c, c, a_.data() + i * c);
            y_[i] = data_.y[rows[i]];
            cost_[i] = data_.cost[rows[i]];
            if ((i & 63) == 0) poll();
        }
        const KernelData inner{n, c, K_.data(), S_.data(), a_.data(), y_.data(), cost_.data(), data_.b, data_.sums,
                               data_.inverse_rho, data_.targets};
        rows_.solve(inner, sweeps_, random_, poll);
        collect_steps(rows, n);
        carry(poll);
    }

    // Writes the block's duals back and lists their steps by class.
    void collect_steps(const std::uint32_t* rows, Size n) {
        for (auto& list : steps_) list.clear();
        for (Size i = 0; i < n; ++i) {
            double* old = data_.a + rows[i] * data_.c;
            double own = 0.0;
            for (Size k = 0; k < data_.c; ++k) {
                const double step = a_[i * data_.c + k] - old[k];
                if (step == 0.0) continue;
                old[k] = a_[i * data_.c + k];
                own += step;
                steps_[k].push_back({rows[i], static_cast<float>(-step)});
            }
            if (own != 0.0) steps_[static_cast<Size>(y_[i])].push_back({rows[i], static_cast<float>(own)});
        }
    }

    // S += steps' K, tile by tile; sums over the few hundred rows of a block in single precision, as K is.
    void carry(const Poll& poll) {
        float sums[tile_];
        for (Size start = 0; start < data_.m; start += tile_) {
            const Size width = std::min(tile_, data_.m - start);
            poll();
            for (Size k = 0; k < data_.c; ++k) {
                const std::vector<Step>& steps = steps_[k];
                if (steps.empty()) continue;
                std::fill_n(sums, width, 0.0f);
                Size e = 0;
                for (; e + 4 <= steps.size(); e += 4) add_four(&steps[e], start, width, sums);
                for (; e < steps.size(); ++e) {
                    const float *from = data_.K + steps[e].row * data_.m + start, value = steps[e].value;
                    for (Size j = 0; j < width; ++j) sums[j] += value * from[j];
                }
                double* to = data_.S + k * data_.m + start;
                for (Size j = 0; j < width; ++j) to[j] += static_cast<double>(sums[j]);
            }
        }
    }

    void add_four(const Step* s, Size start, Size width, float* sums) const {
        const float* const K = data_.K + start;
        const float *k0 = K + s[0].row * data_.m, *k1 = K + s[1].row * data_.m;
        const float *k2 = K + s[2].row * data_.m, *k3 = K + s[3].row * data_.m;
        const float v0 = s[0].value, v1 = s[1].value, v2 = s[2].value, v3 = s[3].value;
        for (Size j = 0; j < width; ++j) sums[j] += (v0 * k0[j] + v1 * k1[j]) + (v2 * k2[j] + v3 * k3[j]);
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

    KernelRows& rows_;
    KernelData data_;
    Random random_;
    std::vector<std::vector<Step>> steps_;  // by class
    std::vector<std::uint32_t> listed_;

    // the block at work
    std::vector<float> K_;
    std::vector<double> S_, a_, cost_;
    std::vector<Index> y_;
};

}  // namespace polymargin

// Which rows a loop visits, and when: the order, waiting and resting rows, the estimate of the gap, when to look at everything
// again.
//
//   - Rows that rest are not visited until `wake`; a loop lets rows rest that have nothing left to move.
//   - Rows that hardly violate their optimality conditions wait some epochs (adaptive coordinate frequencies, Glasmachers &
//     Dogan 2013).
//   - Each visit yields the row's duality gap for free; their sum tells when a true gap is worth a pass over the data.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "../domains/common/row_view.hpp"
#include "random.hpp"

namespace polymargin {

struct LoopSettings {
    bool waiting = true;       // let quiet rows wait
    int longest_wait = 31;     // epochs
    double face_from = 1e-3;   // relative gap from which face steps are tried
    int face_every = 20;       // epochs
    std::uint64_t seed = 0;
};

struct Progress {
    double estimate = infinity;  // sum of the rows' gaps as last seen
    std::int64_t epochs = 0;
    std::int64_t visits = 0;
};

class Schedule {
public:
    // `bytes` of all rows: those that do not fit the caches are fetched by fours; neighbours in memory come cheaper, and order
    // enough is left
    Schedule(Size n, Size bytes, const LoopSettings& settings)
        : waiting_(settings.waiting), longest_wait_(settings.longest_wait), block_(bytes > (Size{1} << 25) ? 4 : 1),
          random_(settings.seed), row_gap_(waiting_ ? n : 0, 0.0f), resting_(n, 0), wait_(waiting_ ? n : 0, 0), period_(wait_) {
        visits_.reserve(n);
    }

    const Progress& progress() const { return progress_; }
    double threshold() const { return threshold_; }  // the largest violation of the last epoch
    bool rests(Size i) const { return resting_[i]; }
    void rest(Size i, bool rests) { resting_[i] = rests; }
    void count_visits(std::int64_t visits) { progress_.visits += visits; }

    void wake(Size i) {
        resting_[i] = 0;
        if (waiting_) wait_[i] = period_[i] = 0;
    }

    // All rows are awake and look at everything: the next epoch's estimate is that of the whole problem.
    void wake_all() {
        std::fill(resting_.begin(), resting_.end(), std::uint8_t{0});
        std::fill(wait_.begin(), wait_.end(), std::uint8_t{0});
        std::fill(period_.begin(), period_.end(), std::uint8_t{0});
        full_ = true;
    }

    // The problem has changed; `full_estimate` of 0 asks for no look at everything before the loop's owner does.
    void forget_estimates(double full_estimate = infinity) {
        progress_.estimate = infinity;
        full_estimate_ = full_estimate;
    }

    // The rows and classes at rest are not part of the estimate: a little more than the tolerance is asked for.
    bool promises(double tol, double dual) const { return progress_.estimate <= 0.7 * tol * std::fabs(dual + progress_.estimate); }

    // One epoch: visit(k, i, next) for the rows it lists, at most `max_visits`, in random order; `next` is the row after i, or i
    // itself for the last. `prefetch(k, visits)` runs ahead of the k-th. Returns whether everything should be looked at again.
    template <class Prefetch, class Visit>
    bool epoch(std::int64_t max_visits, const Poll& poll, Prefetch prefetch, Visit visit) {
        double estimate = 0.0, violation_sum = 0.0, violation_max = 0.0;
        list_visits(estimate);
        random_.shuffle(visits_, block_);
        if (static_cast<std::int64_t>(visits_.size()) > max_visits) visits_.resize(static_cast<Size>(max_visits));
        for (Size k = 0; k < visits_.size(); ++k) {
            prefetch(k, visits_);
            if ((k & 63) == 0) poll();
            const Size i = visits_[k];
            const Assessment seen = visit(k, i, k + 1 < visits_.size() ? visits_[k + 1] : i);
            estimate += seen.gap;
            violation_sum += seen.violation;
            violation_max = std::max(violation_max, seen.violation);
            if (waiting_) set_waiting_time(i, seen);
        }
        // an epoch in which all rows wait or rest still counts, so that the limit on visits ends every loop
        progress_.visits += std::max<std::int64_t>(1, static_cast<std::int64_t>(visits_.size()));
        progress_.epochs += 1;
        progress_.estimate = estimate;
        if (!visits_.empty()) quiet_level_ = violation_sum / static_cast<double>(visits_.size());
        threshold_ = violation_max;
        if (full_) full_estimate_ = estimate;
        full_ = false;
        return estimate <= 0.1 * full_estimate_;
    }

private:
    void list_visits(double& estimate) {
        visits_.clear();
        for (Size i = 0; i < resting_.size(); ++i) {
            if (resting_[i]) continue;
            if (waiting_ && wait_[i] > 0) {
                --wait_[i];
                estimate += static_cast<double>(row_gap_[i]);
            } else {
                visits_.push_back(static_cast<std::uint32_t>(i));
            }
        }
    }

    void set_waiting_time(Size i, const Assessment& seen) {
        row_gap_[i] = static_cast<float>(seen.gap);
        const int longer = std::min(longest_wait_, 2 * period_[i] + 1);
        period_[i] = seen.violation < quiet_level_ ? static_cast<std::uint8_t>(longer) : std::uint8_t{0};
        wait_[i] = period_[i];
    }

    bool waiting_;
    int longest_wait_;
    std::uint64_t block_;
    Random random_;
    Progress progress_;
    std::vector<float> row_gap_;
    std::vector<std::uint8_t> resting_, wait_, period_;
    std::vector<std::uint32_t> visits_;
    bool full_ = true;
    double full_estimate_ = infinity, quiet_level_ = 0.0, threshold_ = infinity;
};

}  // namespace polymargin

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

#include "domains/common/row_view.hpp"
#include "random.hpp"

namespace polymargin {

struct LoopSettings {
    bool waiting = true;       // let quiet rows wait
    int longest_wait = 31;     // epochs
    double face_from = 1e-3;   // relative gap from which face steps are tried
    int face_every = 20;       // epochs
    double extrapolate_from = 0.1;  // relative gap from which epochs are extrapolated
    double direct_from = 0.3;  // relative gap from which face steps in few unknowns are
    std::uint64_t seed = 0;
    int together = 1;          // rows that are visited at the same time: a property of the problem, whatever the threads
    int n_threads = 1;         // that visit them
    bool averages = false;     // epochs before a look are averaged
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

    double part_of_epoch() const { return static_cast<double>(at_) / static_cast<double>(visits_.size()); }  // that is over
    const Progress& progress() const { return progress_; }
    double threshold() const { return threshold_; }  // the largest violation of the last epoch
    // A row's usual one, or twice as much whenever a look at everything has found much that was hidden: a bound that holds a dual harder is
    // not left soon. (By the largest one the rows that are worst off would decide for all, and lists of many classes stay long.)
    double usual_threshold() const { return usual_threshold_; }
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

    // The loop's owner knows better what a look would find.
    void expect(double estimate) { progress_.estimate = estimate; }

    // The rows and classes at rest are not part of the estimate: a little more than the tolerance is asked for.
    bool promises(double tol, double dual) const { return progress_.estimate <= 0.7 * tol * std::fabs(dual + progress_.estimate); }

    // One epoch: visit(k, i) for the rows it lists, at most `max_visits`, in random order. `prefetch(k, visits)` runs ahead of the k-th.
    // Returns whether everything should be looked at again.
    template <class Prefetch, class Visit>
    bool epoch(std::int64_t max_visits, const Poll& poll, Prefetch prefetch, Visit visit) {
        Sums sums = begin(max_visits);
        for (Size k = 0; k < visits_.size(); ++k) {
            prefetch(k, visits_);
            if ((k & 63) == 0) poll();
            const Size i = visits_[k];
            at_ = k;
            note(sums, i, visit(k, i));
        }
        return end(sums);
    }

    // The same for who visits the rows as it likes: between `begin` and `end` each of them is noted. `end` says whether everything should be
    // looked at again.
    struct Sums {
        double estimate = 0.0, violation_sum = 0.0, violation_max = 0.0;
        double unseen = 0.0;  // part of the rows to be visited that there is no time for
    };

    Sums begin(std::int64_t max_visits) {
        Sums sums;
        list_visits(sums.estimate);
        random_.shuffle(visits_, block_);
        if (static_cast<std::int64_t>(visits_.size()) > max_visits) {
            sums.unseen = 1.0 - static_cast<double>(max_visits) / static_cast<double>(visits_.size());
            visits_.resize(static_cast<Size>(max_visits));
        }
        return sums;
    }
    const std::vector<std::uint32_t>& listed() const { return visits_; }

    void note(Sums& sums, Size i, const Assessment& seen) {
        sums.estimate += seen.gap;
        sums.violation_sum += seen.violation;
        sums.violation_max = std::max(sums.violation_max, seen.violation);
        if (waiting_) set_waiting_time(i, seen);
    }

    bool end(Sums sums) {
        // Those count as they were seen last. (Rows that wait do so anyway, with what is too much by now.)
        if (!waiting_ && sums.unseen > 0.0) sums.estimate += sums.unseen * progress_.estimate;
        // an epoch in which all rows wait or rest still counts, so that the limit on visits ends every loop
        progress_.visits += std::max<std::int64_t>(1, static_cast<std::int64_t>(visits_.size()));
        progress_.epochs += 1;
        if (full_ && sums.estimate > hidden * progress_.estimate) usual_share_ *= 2.0;
        progress_.estimate = sums.estimate;
        if (!visits_.empty()) quiet_level_ = sums.violation_sum / static_cast<double>(visits_.size());
        threshold_ = sums.violation_max;
        usual_threshold_ = std::min(threshold_, usual_share_ * quiet_level_);
        if (full_) full_estimate_ = sums.estimate;
        full_ = false;
        return sums.estimate <= 0.1 * full_estimate_;
    }

private:
    void list_visits(double& estimate) {
        const Size n = resting_.size();
        visits_.resize(n);
        const std::uint8_t* resting = resting_.data();
        std::uint32_t* visits = visits_.data();
        Size listed = 0;
        if (!waiting_) {
            for (Size i = 0; i < n; ++i) {
                visits[listed] = static_cast<std::uint32_t>(i);
                listed += !resting[i];
            }
            return visits_.resize(listed);
        }
        std::uint8_t* wait = wait_.data();
        const float* gap = row_gap_.data();
        double sum = 0.0;
        for (Size i = 0; i < n; ++i) {  // without a branch: who waits is as good as random
            const bool awake = !resting[i], waits = awake & (wait[i] > 0);
            wait[i] = static_cast<std::uint8_t>(wait[i] - waits);
            sum += waits ? static_cast<double>(gap[i]) : 0.0;
            visits[listed] = static_cast<std::uint32_t>(i);
            listed += awake & !waits;
        }
        estimate += sum;
        visits_.resize(listed);
    }

    void set_waiting_time(Size i, const Assessment& seen) {
        row_gap_[i] = static_cast<float>(seen.gap);
        const int longer = std::min(longest_wait_, 2 * period_[i] + 1);
        period_[i] = seen.violation < quiet_level_ ? static_cast<std::uint8_t>(longer) : std::uint8_t{0};
        wait_[i] = period_[i];
    }

    static constexpr double hidden = 1.2;  // estimates of everything, in those before, that are much more
    double usual_share_ = 1.0;

    Size at_ = 0;  // which of the visits is being made
    bool waiting_;
    int longest_wait_;
    std::uint64_t block_;
    Random random_;
    Progress progress_;
    std::vector<float> row_gap_;
    std::vector<std::uint8_t> resting_, wait_, period_;
    std::vector<std::uint32_t> visits_;
    bool full_ = true;
    double full_estimate_ = infinity, quiet_level_ = 0.0, threshold_ = infinity, usual_threshold_ = infinity;
};

}  // namespace polymargin
